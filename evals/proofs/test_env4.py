"""ENV4: what NumPy 2 tells a module that was built for NumPy 1, and the Check on an old torch, a new one, and without NumPy.

The notice is NumPy's own: a module stands for torch before 2.3 and asks NumPy for the name that such a torch asks for.
"""

import pytest
from check_code import span
from stub_box import Box

pytest.importorskip("numpy", minversion="2")
pytest.importorskip("torch", minversion="2.3")

OLD = """
import warnings

__version__ = "2.2.2"
try:
    from numpy.core._multiarray_umath import _ARRAY_API
    works = True
except (ImportError, AttributeError) as error:
    works = False
    warnings.warn(f"Failed to initialize NumPy: {error}")


class Tensor:
    def numpy(self):
        if not works:
            raise RuntimeError("Numpy is not available")


def ones(n):
    return Tensor()
"""


@pytest.fixture
def box(tmp_path):
    return Box(tmp_path)


def check() -> str:
    return span("ENV4", "numpy.__version__")


def test_an_old_torch_beside_numpy_2_confirms_it(box, says):
    box.package("torch", "2.2.2", OLD)
    done = box.run(check())
    mine, theirs = done.stdout.split()
    assert mine.startswith("2.") and theirs == "2.2.2"
    assert done.returncode == 1
    says("ENV4", done.stderr.partition("Traceback")[0])  # what NumPy says, without the module


def test_a_torch_of_today_prints_the_numbers_and_no_error(box):
    done = box.run(check())
    assert done.returncode == 0 and len(done.stdout.split()) == 2
    assert "compiled using NumPy 1.x" not in done.stderr


def test_without_numpy_it_is_named_and_torch_says_that_it_is_not_available(box, says):
    (box.site / "numpy.py").write_text("raise ModuleNotFoundError(\"No module named 'numpy'\")\n")
    says("ENV4", box.run("python -c 'import torch; torch.ones(1).numpy()'").stderr)
    done = box.run(check())
    assert done.returncode == 1 and "No module named 'numpy'" in done.stderr
