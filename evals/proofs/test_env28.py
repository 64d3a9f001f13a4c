"""ENV28: what stops a C++ extension that is built at first use: no ninja, no compiler, the lock of a killed build.

The compiler is a script that writes empty files, so that nothing depends on the one of this machine.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import pytest
import torch
import torch.utils.cpp_extension as extensions
from check_code import shown, span
from stub_compiler import write_compiler

fcntl = pytest.importorskip("fcntl")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")

SINCE_2_14 = torch.__version__ >= (2, 14)
LOAD = "from torch.utils.cpp_extension import load; load('op', ['op.cpp'], is_python_module=False, is_standalone=True)"


@pytest.fixture
def box(tmp_path, monkeypatch):
    """A folder with a source, a cache of its own, and a PATH that holds ninja, a shell and a compiler only."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "torch_extensions"))
    monkeypatch.setenv("MAX_JOBS", "1")
    bin = tmp_path / "bin"
    bin.mkdir()
    for name in ("ninja", "sh", "which"):
        where = shutil.which(
            name, path=os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
        )
        (bin / name).symlink_to(Path(where).resolve() if name != "ninja" else where)
    monkeypatch.setenv("PATH", str(bin))
    monkeypatch.delenv("CXX", raising=False)
    (tmp_path / "op.cpp").write_text("int one() { return 1; }\n")
    write_compiler(bin)
    return tmp_path


def load(standalone=True):
    return extensions.load(
        "op", ["op.cpp"], is_python_module=not standalone, is_standalone=standalone
    )


def started():
    return subprocess.Popen(
        [sys.executable, "-c", LOAD],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def until(true, seconds=60):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


def unlocked(box) -> str:
    """What the entry's line says that deletes old locks."""
    line = (
        (Path(__file__).parents[2] / "references/environment.md")
        .read_text(encoding="utf-8")
        .split("### ENV28")[1]
        .split("```")[1]
        .removeprefix("bash\n")
    )
    line = line.replace("/proc/", f"{box}/proc/")  # builds of others aside
    env = {"PATH": os.defpath, "TORCH_EXTENSIONS_DIR": str(box / "torch_extensions")}
    return subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, check=True, env=env
    ).stdout.strip()


def test_a_lock_stays_while_something_compiles(box):
    lock = box / "torch_extensions" / "op" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    assert unlocked(box) == "" and lock.exists()  # a young one
    os.utime(lock, (0, 0))
    for process in ("1", "2"):
        (box / "proc" / process).mkdir(parents=True)
    (box / "proc" / "1" / "comm").write_text("ninja\n")
    (box / "proc" / "2" / "comm").symlink_to(box / "nowhere")  # a process that ended meanwhile
    assert unlocked(box) == "something compiles, wait" and lock.exists()
    (box / "proc" / "1" / "comm").write_text("bash\n")
    assert unlocked(box) == str(lock) and not lock.exists()


def test_ninja_is_a_program_in_path(box, monkeypatch, says):
    monkeypatch.setenv("PATH", str(box / "nowhere"))
    assert not extensions.is_ninja_available()
    with pytest.raises(RuntimeError) as error:
        load()
    says("ENV28", str(error.value))
    monkeypatch.setenv("PATH", str(box / "bin"))
    assert Path(load()).parent == box / "torch_extensions" / "op"


@pytest.fixture
def told(box):
    """What the Check prints: whether ninja is found, where the compiler is, the locks."""
    python, shell = span("ENV28", "is_ninja_available").split("; command", 1)
    env = {"PATH": str(box / "bin"), "TORCH_EXTENSIONS_DIR": str(box / "torch_extensions")}
    shell = shell.replace("find ", f"{shutil.which('find', path=os.defpath)} ")

    def run():
        ninja = shown(python.split('"')[1]).split()[0]
        done = subprocess.run(["/bin/sh", "-c", f"command{shell}"], capture_output=True, text=True, env=env)  # fmt: skip
        lines = done.stdout.splitlines()
        return ninja, [line for line in lines if line.endswith("c++")], [line for line in lines if line.endswith("lock")]  # fmt: skip

    return run


def test_the_check_names_what_is_missing_and_nothing_on_a_whole_box(box, told, monkeypatch):
    (box / "torch_extensions" / "op").mkdir(parents=True)
    assert told() == ("True", [str(box / "bin" / "c++")], [])
    lock = box / "torch_extensions" / "op" / "lock"
    lock.touch()
    os.utime(lock, (0, 0))
    [line] = told()[2]
    assert "1970" in line and line.endswith(str(lock))
    (box / "bin" / "c++").unlink()
    assert told()[1] == []
    (box / "bin" / "ninja").unlink()
    assert told()[0] == "False"


def test_deepspeed_says_it_in_its_own_words(box, monkeypatch, says):
    from deepspeed.ops.op_builder import CPUAdamBuilder

    monkeypatch.setattr(CPUAdamBuilder, "is_compatible", lambda self, verbose: True)
    monkeypatch.setenv("PATH", str(box / "nowhere"))
    with pytest.raises(RuntimeError) as error:
        CPUAdamBuilder().jit_load()
    says("ENV28", str(error.value))


def test_no_compiler(box, says):
    (box / "bin" / "c++").unlink()
    with pytest.raises(RuntimeError, match="Error building extension") as error:
        load()
    says("ENV28", str(error.value))


def test_a_header_of_the_toolkit_is_missing(box, says):
    write_compiler(
        box / "bin",
        "echo 'op.cpp:1:10: fatal error: cusparse.h: No such file or directory'; exit 1",
    )
    with pytest.raises(RuntimeError) as error:
        load()
    says("ENV28", str(error.value))


def test_a_colon_in_cuda_home(box, monkeypatch, says):
    (box / "op.cu").write_text("int two() { return 2; }\n")
    monkeypatch.setattr(extensions, "CUDA_HOME", ":/usr/local/cuda")
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "8.0")
    with pytest.raises(RuntimeError) as error:
        extensions.load("op", ["op.cu"], is_python_module=False, is_standalone=True)
    says("ENV28", str(error.value))


def test_below_2_14_the_lock_of_a_killed_build_stays_and_the_next_run_waits_for_ever(box, says):
    lock = box / "torch_extensions" / "op" / "lock"
    pid = box / "pid"
    write_compiler(box / "bin", f"echo $$ > {pid}; exec /bin/sleep 100")
    first = started()
    until(lambda: pid.exists() and pid.read_text().strip())
    os.killpg(first.pid, signal.SIGKILL)
    os.kill(int(pid.read_text()), signal.SIGKILL)  # ninja gives each command a group of its own
    first.communicate()
    assert lock.exists()

    write_compiler(box / "bin")
    if not SINCE_2_14:
        before = signal.signal(
            signal.SIGALRM, signal.default_int_handler
        )  # Ctrl-C, three seconds later
        try:
            signal.setitimer(signal.ITIMER_REAL, 3)
            with pytest.raises(KeyboardInterrupt) as stop:
                load()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        says("ENV28", "".join(traceback.format_exception(stop.value)))

        os.utime(lock, (0, 0))
        assert unlocked(box) == str(lock)
    again = started()
    assert again.wait(timeout=120) == 0, again.communicate()[0]
    assert (lock.parent / "op").exists()


def test_when_a_build_failed_a_waiter_finds_no_library_and_since_2_14_builds_itself(box, says):
    lock = box / "torch_extensions" / "op" / "lock"
    lock.parent.mkdir(parents=True)
    other = lock.open("w")  # another rank builds
    if SINCE_2_14:
        fcntl.flock(other, fcntl.LOCK_EX)
        wanted, end = RuntimeError, other.close
    else:
        (lock.parent / "build.ninja").touch()
        wanted, end = ImportError, lock.unlink
    failed = threading.Timer(2, end)
    failed.start()
    write_compiler(box / "bin", "exit 1")
    with pytest.raises(wanted) as error:
        load(standalone=False)
    assert failed.finished.is_set()
    if SINCE_2_14:
        assert "Error building extension" in str(error.value)
    else:
        assert "so: cannot open shared object file" in str(error.value)
        says("ENV28", "".join(traceback.format_exception_only(error.value)))


@pytest.mark.parametrize(
    "text",
    [
        "/usr/include/crt/host_config.h:132:2: error: #error -- unsupported GNU version! gcc versions later than 12 are not supported!",
        "RuntimeError: The current installed version of g++ (12.2.1) is greater than the maximum required version by CUDA 11.7 (11.5.0).",
        "RuntimeError: The current installed version of x86_64-linux-gnu-g++ (11.3.0) is greater than the maximum required version by CUDA 11.3",
        "/usr/bin/ld: cannot find -lcurand: No such file or directory",
        "unable to execute '/usr/local/cuda-10.1:/bin/nvcc': No such file or directory",
        "torch/include/torch/csrc/api/include/torch/all.h:5:2: error: #error C++17 or later compatible compiler is required to use PyTorch.",
        "c10/util/C++17.h:24:2: error: #error You need C++14 to compile PyTorch",
        "subprocess.CalledProcessError: Command '['which', 'c++']' returned non-zero exit status 1.",
        "g++: fatal error: cannot execute ‘cc1plus’: execvp: No such file or directory",
        "    wait (torch/utils/file_baton.py:53)",
        "FileNotFoundError: [Errno 2] No such file or directory: 'ninja'",
    ],
)
def test_texts_of_other_steps(text, says):
    says("ENV28", text)


@pytest.mark.parametrize(
    "text",
    [
        "subprocess.CalledProcessError: Command '['./ninja', '-v']' returned non-zero exit status 1.",
        "RuntimeError: Error building extension 'fused_adam'",
        "Could not load the custom kernel for multi-scale deformable attention: Ninja is required to load C++ extensions",
        "ImportError: libcudart.so.9.0: cannot open shared object file: No such file or directory",
        "ImportError: /root/.cache/torch_extensions/py38_cu113/fused_adam/fused_adam.so: undefined symbol: _ZN3c10",
        "/usr/bin/ld: cannot find -lcuda",
    ],
)
def test_texts_of_other_causes(text, says):
    with pytest.raises(AssertionError):
        says("ENV28", text)
