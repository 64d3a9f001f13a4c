"""ENV13: the CPU build of torch, and why pip leaves it in place."""

import shlex
import subprocess
import sys
import zipfile

import pytest
from check_code import shown, span

torch = pytest.importorskip("torch")
if torch.version.cuda or torch.version.hip:
    pytest.skip("needs the CPU build", allow_module_level=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.zeros(1).cuda(),
        lambda: torch.nn.Linear(1, 1).to("cuda"),
        lambda: torch.cuda.current_device(),
        lambda: torch.cuda.get_device_properties(0),
        lambda: torch.cuda.FloatTensor(1),
        lambda: torch.cuda.set_device(0),
        lambda: torch.Generator("cuda"),
        lambda: torch.distributed.init_process_group(
            "nccl", init_method="tcp://127.0.0.1:29533", rank=0, world_size=1
        ),
    ],
    ids=[
        "cuda()",
        "to",
        "current_device",
        "get_device_properties",
        "FloatTensor",
        "set_device",
        "Generator",
        "nccl",
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_asks_for_the_card_stops(call, says):
    with pytest.raises(Exception) as stop:
        call()
    says("ENV13", str(stop.value))


def test_what_asks_politely_goes_on_silently(recwarn):
    assert not torch.cuda.is_available() and torch.cuda.device_count() == 0 and not recwarn.list
    assert torch.version.cuda is None and torch.version.hip is None


@pytest.mark.parametrize("cuda, confirmed", [(None, True), ("13.0", False)])
def test_the_check_shows_none_twice_for_the_cpu_build_alone(monkeypatch, cuda, confirmed):
    monkeypatch.setattr(torch.version, "cuda", cuda)
    printed = shown(shlex.split(span("ENV13", "torch.version.hip"))[2])
    assert printed.startswith(sys.executable)
    assert printed.endswith(" None None") is confirmed


def wheel(folder, version, cuda=None, name="torch", needs=()):
    """A package that is nothing but its version."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}/__init__.py", f"__version__ = {version!r}\ncuda = {cuda!r}\n")
        required = "".join(f"Requires-Dist: {one}\n" for one in needs)
        file.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{required}",
        )
        file.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        file.writestr(f"{info}/RECORD", "")
    return folder


def run(*command):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_pip_keeps_the_cpu_build_until_it_is_forced(tmp_path):
    pip = [
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--no-index",
        "--no-deps",
        "--find-links",
    ]
    plain, cpu, cuda = (tmp_path / name for name in ("pypi", "cpu", "cu130"))
    for folder in (plain, cpu, cuda):
        folder.mkdir()
    wheel(plain, "2.13.0", "13.0")
    wheel(cpu, "2.13.0+cpu", None)
    wheel(cuda, "2.13.0+cu130", "13.0")
    run(sys.executable, "-m", "venv", tmp_path / "env")
    python = tmp_path / "env" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    # An extra index with the CPU build wins over the plain version.
    assert "torch-2.13.0+cpu" in run(python, *pip, plain, "--find-links", cpu, "torch")
    # Asking for the CUDA index changes nothing, forcing does.
    assert "Requirement already satisfied: torch" in run(python, *pip, cuda, "torch")
    run(python, *pip, cuda, "--force-reinstall", "torch")
    assert run(python, "-c", "import torch; print(torch.cuda)").strip() == "13.0"


def test_uninstalled_first_torch_comes_anew_and_numpy_stays_which_force_renews(tmp_path):
    """Also ENV1, ENV2 and ENV6: the commands of their Fix, the index as a folder."""
    index = tmp_path / "cu130"
    index.mkdir()
    for version, vision in (("2.9.1", "0.24.1"), ("2.13.0", "0.28.0")):
        wheel(index, f"{version}+cu130", "13.0")
        wheel(index, f"{vision}+cu130", None, "torchvision", ("numpy", f"torch=={version}"))
    wheel(index, "1.26.4", None, "numpy")
    wheel(index, "2.3.0", None, "numpy")
    wheel(index, "2.9.1+cpu")
    run(sys.executable, "-m", "venv", tmp_path / "env")
    python = tmp_path / "env" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check"]

    def install(*words):
        run(*pip, "install", "--no-index", "--find-links", index, *words)
        said = run(
            python,
            "-c",
            "import numpy, torch, torchvision as v; print(torch.__version__, v.__version__, numpy.__version__)",
        )
        return said.split()

    there = install("numpy==1.26.4", "torch==2.9.1+cpu", "torchvision")
    assert there == ["2.9.1+cpu", "0.24.1+cu130", "1.26.4"]
    assert install("--force-reinstall", "torch", "torchvision") == [
        "2.13.0+cu130",
        "0.28.0+cu130",
        "2.3.0",
    ]

    install("numpy==1.26.4", "torch==2.9.1+cpu", "torchvision==0.24.1")
    run(*pip, "uninstall", "-y", "torch", "torchvision", "torchaudio")
    assert install("torch==2.9.1", "torchvision") == ["2.9.1+cu130", "0.24.1+cu130", "1.26.4"]

    run(*pip, "install", "--no-index", "--find-links", index, "--no-deps", "torchvision==0.28.0")
    run(*pip, "uninstall", "-y", "torchvision", "torchaudio")
    said = run(*pip, "install", "--no-index", "--find-links", index, "torch==2.9.1", "torchvision")
    assert "already satisfied: torch==2.9.1" in said and "torchvision-0.24.1" in said


def test_the_trainer_refuses_before_the_start(tmp_path, says):
    transformers = pytest.importorskip("transformers")
    with pytest.raises(ValueError, match="bf16") as stop:
        transformers.TrainingArguments(output_dir=str(tmp_path), bf16=True)
    says("ENV13", str(stop.value))
    with pytest.raises(
        AssertionError, match="none of the signatures"
    ):  # with a card that knows no bf16: P3
        # The end of the text on such a card, in the same function of transformers 5.23.0.
        says(
            "ENV13",
            "ValueError: Your setup doesn't support bf16/gpu. You need Ampere+ GPU with cuda>=11.0.",
        )


def test_lightning_refuses_too(says):
    lightning = pytest.importorskip("lightning.pytorch")
    with pytest.raises(Exception, match="gpu") as stop:
        lightning.Trainer(accelerator="gpu", logger=False)
    says("ENV13", str(stop.value))
    with pytest.raises(Exception, match="can not run") as stop:
        lightning.Trainer(accelerator="cuda", logger=False)
    says("ENV13", str(stop.value))
