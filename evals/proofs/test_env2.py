"""ENV2: a compiled module that asks for a C++ function which this torch doesn't have, and what c++filt says of its name.

The loader's text is real: a small module of NumPy's gets the name in place of one of the C++ library's.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from check_code import span

pytest.importorskip("numpy.fft._pocketfft_umath")
if not sys.platform.startswith("linux"):
    pytest.skip("shared libraries of Linux", allow_module_level=True)

import numpy.fft._pocketfft_umath as compiled

HAS = b"\0_ZNSt16invalid_argumentC1EPKc\0"
LOAD = "import ctypes, os, sys; ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW)"
OLD_ABI = "_ZN3c105ErrorC2ERKSs"
NEW_ABI = "_ZN3c105ErrorC2ENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
TENSOR = "_ZN2at4_ops3add4callEv"
CUDA = "__nvJitLinkAddData_12_1"


def load(path):
    return subprocess.run([sys.executable, "-c", LOAD, str(path)], capture_output=True, text=True)


@pytest.fixture
def extension(tmp_path):
    """extension(name): a module that needs this function."""
    data = Path(compiled.__file__).read_bytes()
    assert HAS in data

    def make(name: str) -> Path:
        path = tmp_path / "flash_attn_2_cuda.so"
        path.write_bytes(
            data.replace(HAS, b"\0" + name.encode().ljust(len(HAS) - 2, b"\0") + b"\0")
        )
        return path

    return make


def demangled(symbol: str) -> str:
    if not shutil.which("c++filt"):
        pytest.skip("c++filt is not there: apt-get install binutils")
    code = span("ENV2", "c++filt").replace("_ZN3c105ErrorC2ENS_14SourceLocationESs", symbol)
    return subprocess.run(["bash", "-c", code], capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("name", [OLD_ABI, TENSOR])
def test_a_function_that_is_not_there_stops_the_import_and_the_check_calls_it_torchs(
    extension, says, name
):
    done = load(extension(name))
    assert done.returncode == 1
    says("ENV2", done.stderr)
    symbol = done.stderr.split("undefined symbol: ")[1].split()[0]
    assert demangled(symbol).startswith(("c10::", "at::"))


def test_one_that_is_there_loads():
    assert load(compiled.__file__).returncode == 0


def test_a_function_of_cudas_is_the_neighbours(extension, says):
    done = load(extension(CUDA))
    says("ENV5", done.stderr)
    with pytest.raises(AssertionError, match="none of the signatures"):
        says("ENV2", done.stderr)
    assert demangled(CUDA) == CUDA


def test_the_name_tells_the_old_c_interface_from_the_new_one():
    assert demangled(OLD_ABI) != demangled(NEW_ABI)
    assert "Ss" in OLD_ABI and "__cxx11" in demangled(NEW_ABI)
    assert "std::string" in demangled(OLD_ABI) or "basic_string" in demangled(OLD_ABI)


@pytest.mark.parametrize(
    "text",
    [
        "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
        "RuntimeError: operator torchvision::nms does not exist",
        "ImportError: /x/libtorch_cuda_cu.so: cannot open shared object file: No such file",
    ],
)
def test_texts_of_other_versions(text, says):
    says("ENV2", text)
