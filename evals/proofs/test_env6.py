"""ENV6: the driver's CUDA beside torch's, and whose libcuda answers. The library and the process's map are described to the Check's lines."""

import ctypes
import shlex

import pytest
import torch
from check_code import shown, span

HOST = "/usr/lib/x86_64-linux-gnu/libcuda.so.550.90.07"
COMPAT = "/usr/local/cuda/compat/libcuda.so.575.57.08"


@pytest.fixture
def printed(monkeypatch):
    """printed(driver, wheel, library): what the Check's two commands print."""

    class Library:
        def __init__(self, name):
            assert name == "libcuda.so.1"

        def cuDriverGetVersion(self, reference):
            reference._obj.value = self.version

    def run(driver: int, wheel: str, library: str = HOST) -> tuple[str, str, str]:
        Library.version = driver
        monkeypatch.setattr(ctypes, "CDLL", Library)
        monkeypatch.setattr(torch.version, "cuda", wheel)
        words = shlex.split(span("ENV6", "cuDriverGetVersion"))
        maps = [f"7f00 r--p 0 08:01 1 {library}\n", "7f10 r-xp 0 08:01 2 /usr/lib/libc.so.6\n"]
        there, wheels = (words[i + 1].rstrip(";") for i, word in enumerate(words) if word == "-c")
        number, path = shown(there, open=lambda name: maps).split(" ", 1)
        return number, path, shown(wheels)

    return run


@pytest.mark.parametrize(("driver", "wheel", "too_old"), [
    (12040, "13.0", True), (11040, "12.6", True), (13000, "12.6", False),
    (12040, "12.8", False), (13000, "13.0", False),
])  # fmt: skip
def test_a_major_number_below_torchs_confirms_it(printed, driver, wheel, too_old):
    number, _, cuda = printed(driver, wheel)
    assert (int(number) // 1000 < int(cuda.split(".")[0])) is too_old


@pytest.mark.parametrize(("library", "compat"), [(HOST, False), (COMPAT, True)])
def test_the_path_tells_a_compat_library_from_the_hosts(printed, library, compat):
    _, path, _ = printed(12090, "12.9", library)
    assert path == str({library})
    assert ("compat" in path) is compat


@pytest.mark.parametrize("text", [
    "The NVIDIA driver on your system is too old (found version 12040).",
    "RuntimeError: CUDA driver version is insufficient for CUDA runtime version",
    "Error 804: forward compatibility was attempted on non supported HW",
    "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.",
    "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver",
])  # fmt: skip
def test_the_texts_are_recognised(says, text):
    says("ENV6", text)
