"""ENV30: a processor meets an instruction that it doesn't have: what each launcher says, and where the stack is.

The instruction is one that no processor has, written into memory. The cache of built extensions is shown with a compiler that only notes its box.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from check_code import span
from stub_compiler import write_compiler

torch = pytest.importorskip("torch", minversion="2.3")
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"),
    reason="needs Linux on x86 or ARM",
)

CRASH = """
import ctypes, mmap, platform, sys


def step():
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(bytes.fromhex("0f0b") if platform.machine() == "x86_64" else bytes(4))
    ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))()


if "crash" in sys.argv:
    step()
print("trained")
"""

LOADER = """
import runpy, sys
from torch.utils.data import DataLoader, Dataset


class Files(Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, i):
        sys.argv.append("crash")
        runpy.run_path("train.py")


if __name__ == "__main__":
    next(iter(DataLoader(Files(), num_workers=1)))
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text(CRASH)
    (tmp_path / "loader.py").write_text(LOADER)
    return tmp_path


def run(folder, *command: str, **variables: str) -> subprocess.CompletedProcess:
    names = {name: value for name, value in os.environ.items() if name != "PYTHONFAULTHANDLER"}
    return subprocess.run(
        command, cwd=folder, env={**names, **variables}, text=True, capture_output=True, timeout=60
    )


def test_nothing_is_printed_and_faulthandler_names_the_line(folder, says):
    silent = run(folder, sys.executable, "train.py", "crash")
    assert (silent.returncode, silent.stderr) == (-4, "")
    told = run(folder, sys.executable, "-X", "faulthandler", "train.py", "crash")
    assert "Fatal Python error: Illegal instruction" in told.stderr
    assert 'train.py", line 8 in step' in told.stderr
    assert run(folder, sys.executable, "train.py").stdout == "trained\n"


def test_what_the_shell_says(folder, says):
    shell = run(folder, "bash", "-c", f"{sys.executable} train.py crash; echo rc=$?", LC_ALL="C")
    assert "rc=132" in shell.stdout
    says("ENV30", shell.stderr)


def test_what_torchrun_says(folder, says):
    failed = run(
        folder,
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc_per_node",
        "1",
        "train.py",
        "crash",
        PYTHONFAULTHANDLER="1",
    )
    assert failed.returncode == 1
    lines = [
        line for line in failed.stderr.splitlines() if re.search(r"exitcode *: -4|SIGILL", line)
    ]
    assert len(lines) >= 3
    for line in lines:
        says("ENV30", line)
    assert "line 8 in step" in failed.stderr


def test_what_the_loader_says(folder, says):
    failed = run(folder, sys.executable, "loader.py")
    assert failed.returncode == 1
    says("ENV30", failed.stderr)


def test_what_subprocess_says(folder, says):
    with pytest.raises(subprocess.CalledProcessError) as stop:
        subprocess.run([sys.executable, "train.py", "crash"], cwd=folder, check=True)
    says("ENV30", str(stop.value).replace(sys.executable, "/usr/bin/python3"))


def test_torchs_kernels_take_what_the_variable_says(tmp_path):
    ask = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    said = run(tmp_path, sys.executable, "-c", ask, ATEN_CPU_CAPABILITY="default").stdout.strip()
    assert said in ("DEFAULT", "NO AVX")
    if "avx2" in Path("/proc/cpuinfo").read_text():
        assert (
            run(tmp_path, sys.executable, "-c", ask, ATEN_CPU_CAPABILITY="avx2").stdout.strip()
            == "AVX2"
        )


def test_the_flags_that_the_check_prints(tmp_path):
    command = span("ENV30", "grep -m1").replace("/proc/cpuinfo", "cpuinfo")
    for line, said in (
        ("flags\t\t: fpu sse4_1 sse4_2 avx avx512_vnni\n", "sse4_2 avx\n"),
        ("flags\t\t: fpu sse\n", "\n"),
    ):
        (tmp_path / "cpuinfo").write_text("model name : X\n" + line * 2)
        assert run(tmp_path, "bash", "-c", command).stdout == said


def test_a_cache_of_another_processor_is_taken_and_a_new_folder_is_built(tmp_path, monkeypatch):
    import torch.utils.cpp_extension as extensions

    bin = tmp_path / "bin"
    bin.mkdir()
    for name in ("ninja", "sh", "which", "cat"):
        where = shutil.which(
            name, path=os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
        )
        (bin / name).symlink_to(where)
    write_compiler(bin, makes=f"cat {tmp_path}/cpu")
    (tmp_path / "op.cpp").write_text("int one() { return 1; }\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(bin))
    monkeypatch.setenv("MAX_JOBS", "1")
    monkeypatch.delenv("CXX", raising=False)

    def built(cpu: str, cache: str) -> str:
        (tmp_path / "cpu").write_text(cpu)
        monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / cache))
        monkeypatch.setattr(
            extensions, "JIT_EXTENSION_VERSIONER", extensions.ExtensionVersioner()
        )  # a new process
        extensions.load("op", ["op.cpp"], is_python_module=False, is_standalone=True)
        return (tmp_path / cache / "op" / "op").read_text()

    assert built("new", "home") == "new"
    assert built("old", "home") == "new"  # the other box runs the code of the first
    assert built("old", "here") == "old"


def test_the_text_that_lies_in_numpys_own_library(says):
    """NumPy prints it over three lines."""
    import numpy

    (library,) = (Path(numpy.__file__).parent / "_core").glob("_multiarray_umath*.so")
    text = re.search(rb"NumPy was built with baseline [^\0]+", library.read_bytes())[0].decode()
    assert text.count("\n") == 2
    says("ENV30", text)
    says("ENV30", text.splitlines()[0])


@pytest.mark.parametrize(
    "text",
    [
        "Continuing to use this version of Polars on this processor will likely result in a crash.",
        "[2026-05-02 10:11:12,345] [ERROR] [launch.py:322:sigkill_handler] ['python', 'train.py'] exits with return code = -4",
        "Illegal instruction (core dumped)",
        "非法指令 (核心已转储)",
        "/bin/bash: line 1: 1758339 Illegal instruction     (core dumped) python train.py",
        "zsh: illegal hardware instruction  python train.py",
        'Thread 1 "python" received signal SIGILL, Illegal instruction.',
        "[ 1234.5] traps: pt_main_thread[3456] trap invalid opcode ip:7f01 sp:7ffd error:0 in libtorch_cpu.so[7f00+100]",
    ],
)
def test_texts_of_other_programs(text, says):
    says("ENV30", text)


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA error: an illegal instruction was encountered",
        "Segmentation fault (core dumped)",
        "[launch.py:322:sigkill_handler] ['python', 'train.py'] exits with return code = -11",
    ],
)
def test_texts_of_other_causes(text, says):
    with pytest.raises(AssertionError, match="none of the signatures"):
        says("ENV30", text)
