"""ENV17: names that NumPy, torch, torchvision, Pillow and Python took out, and what stands in their place now."""

import importlib
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy", minversion="2.4")
torch = pytest.importorskip("torch", minversion="2.0")
pytest.importorskip("torchvision", minversion="0.17")
pytest.importorskip("PIL.Image")

RENEW = r"""grep -rlZE --include='*.py' --exclude-dir=site-packages '\bnp\.(bool|int|float|complex|object|str)\b' . | \
xargs -0r sed -i -E 's/\bnp\.(bool|int|float|complex|object|str)\b/\1/g'"""

OLD = """
import numpy as np
a = np.zeros(3, dtype=np.int)
b = np.ones(3).astype(np.float).astype(np.float32)
print(a.dtype.kind, b.dtype, np.int32(1), isinstance(True, np.bool), np.int_(2))
"""


def run(folder):
    return subprocess.run(
        [sys.executable, "train.py"], cwd=folder, capture_output=True, text=True, timeout=60
    )


@pytest.mark.skipif(sys.platform != "linux", reason="GNU sed")
def test_numpy_aliases_and_the_command_that_renews_them(tmp_path, says):
    (tmp_path / "train.py").write_text(OLD)
    foreign = tmp_path / ".venv" / "site-packages" / "other.py"
    foreign.parent.mkdir(parents=True)
    foreign.write_text(OLD)
    result = run(tmp_path)
    assert result.returncode == 1
    says("ENV17", result.stderr)
    subprocess.run(["bash", "-c", RENEW], cwd=tmp_path, check=True)
    result = run(tmp_path)
    assert result.stdout.split() == ["i", "float32", "1", "True", "2"], result.stderr
    subprocess.run(
        ["bash", "-c", RENEW], cwd=tmp_path, check=True
    )  # nothing left to renew is no error
    assert foreign.read_text() == OLD


@pytest.mark.parametrize(
    "name",
    [
        "int",
        "float",
        "object",
        "str",
        "complex",
        "product",
        "cumproduct",
        "msort",
        "trapz",
        "in1d",
        "typeDict",
        "asscalar",
    ],
)
def test_names_that_numpy_has_no_more(name, says):
    with pytest.raises(AttributeError) as stop:
        getattr(np, name)
    says("ENV17", str(stop.value))


def test_what_stands_in_their_place():
    a = np.array([3.0, 1.0])
    assert (
        np.prod(a),
        np.cumprod(a)[1],
        np.sort(a, axis=0)[0],
        np.trapezoid(a),
        np.isin(1.0, a),
    ) == (3, 3, 1, 2, True)


GONE = [
    "torch._six",
    "torchvision.transforms.functional_tensor",
    "torchvision.models.utils",
    "torch.utils.ffi",
]


@pytest.mark.parametrize("module", GONE)
def test_modules_that_are_gone(module, says):
    with pytest.raises(ModuleNotFoundError) as stop:
        importlib.import_module(module)
    says("ENV17", str(stop.value))


def test_where_the_modules_content_is_now():
    from torchvision.transforms.functional import rgb_to_grayscale

    assert torch.inf == float("inf") and rgb_to_grayscale(torch.ones(3, 2, 2)).shape == (1, 2, 2)


def test_functions_and_forms_that_torch_has_no_more(says):
    with pytest.raises(AttributeError) as stop:
        torch.rfft(torch.ones(1, 4, 4), 2, onesided=False)
    says("ENV17", str(stop.value))
    assert torch.view_as_real(torch.fft.fft2(torch.ones(1, 4, 4))).shape == (1, 4, 4, 2)
    with pytest.raises(RuntimeError) as stop:
        torch.lstsq(torch.eye(2), torch.eye(2))
    says("ENV17", str(stop.value))


def test_an_autograd_function_of_the_old_form(says):
    class Old(torch.autograd.Function):
        def forward(self, x):
            return x * 2

    class New(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    x = torch.ones(1, requires_grad=True)
    with pytest.raises(RuntimeError) as stop:
        Old()(x)
    says("ENV17", str(stop.value))
    assert New.apply(x).item() == 2


def test_pillow(says):
    from PIL import Image, ImageFont

    with pytest.raises(AttributeError) as stop:
        Image.new("L", (4, 4)).resize((2, 2), Image.ANTIALIAS)
    says("ENV17", str(stop.value))
    assert Image.new("L", (4, 4)).resize((2, 2), Image.LANCZOS).size == (2, 2)
    for old, now in (("LINEAR", "BILINEAR"), ("CUBIC", "BICUBIC")):
        with pytest.raises(AttributeError) as stop:
            getattr(Image, old)
        says("ENV17", str(stop.value))
        assert hasattr(Image, now)
    font = ImageFont.load_default(12)
    assert not hasattr(font, "getsize") and len(font.getbbox("cat")[2:]) == 2


@pytest.mark.skipif(sys.version_info < (3, 11), reason="this Python still has them")
def test_python(says):
    import collections.abc
    import inspect

    for module, name in ((collections, "Mapping"), (inspect, "getargspec")):
        with pytest.raises(AttributeError) as stop:
            getattr(module, name)
        says("ENV17", str(stop.value))
    with pytest.raises(ImportError) as stop:
        from collections import MutableMapping  # noqa: F401
    says("ENV17", str(stop.value))
    assert collections.abc.Mapping and inspect.getfullargspec(run).args == ["folder"]


def test_a_name_of_numpy_2_is_another_entry(says):
    with pytest.raises(AttributeError) as stop:
        np.float_
    says("ENV4", str(stop.value))
    with pytest.raises(AssertionError, match="none of the signatures"):
        says("ENV17", str(stop.value))
