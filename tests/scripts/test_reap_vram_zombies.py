"""scripts/reap_vram_zombies.sh: what it must leave alone has more room here than what it may end. A device file that is a second /dev/full is
really held (lsof goes by the device's number, and whole machines hold /dev/null); nvidia-smi is a stand-in that prints what a test wrote."""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from tests.conftest import ROOT, engine

SCRIPT = ROOT / "scripts/reap_vram_zombies.sh"
PR_SET_CHILD_SUBREAPER = 36
SMI = """\
#!/bin/bash
cd "$(dirname "$0")/../smi" || exit 9
case "$*" in
  *--query-gpu*) cat gpus 2>/dev/null ;;
  *--query-compute-apps*) cat compute 2>/dev/null ;;
  *'-d PIDS'*) cat all 2>/dev/null ;;
  -q) printf '    Minor Number                          : 7\\n' ;;
  *) exit 2 ;;
esac
"""
HOLD = """\
import os, sys, time
held = os.open(sys.argv[1], os.O_RDWR)
if "ignore" in sys.argv:
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "child" in sys.argv:
    child = os.fork()
    if child:
        open(sys.argv[2] + ".child", "w").write(str(child))
open(sys.argv[2] + ".new", "w").write(str(os.getpid())) if not ("child" in sys.argv and child == 0) else None
if not ("child" in sys.argv and child == 0):
    os.rename(sys.argv[2] + ".new", sys.argv[2])
end = time.monotonic() + 600
while time.monotonic() < end:
    # One long sleep: each time it woke, the tick that it used could be the one that makes it busy.
    sum(range(20000)) if "busy" in sys.argv else time.sleep(600)
"""


@pytest.fixture
def gpu(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("making a device file needs root")
    engine("fuser", "apt-get install -y psmisc")
    if os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
        pytest.skip("these tests run in a PID namespace of their own, where the script refuses")

    class Gpu:
        bin, device, smi = tmp_path / "bin", tmp_path / "nvidia7", tmp_path / "smi"
        pids = []

        def hold(self, *how, orphan=True, user=None):
            """A process that holds the device; with `orphan` its parent has ended."""
            told = tmp_path / f"pid{len(self.pids)}"
            program = tmp_path / "hold.py"
            program.write_text(HOLD)
            line = [sys.executable, "-S", str(program), str(self.device), str(told), *how]
            if user is not None:
                tmp_path.chmod(0o777)
                for folder in tmp_path.parents:
                    if folder == ROOT or folder.name == "tmp":
                        break
                    folder.chmod(0o755)
                line = [
                    "setpriv",
                    "--reuid",
                    str(user),
                    "--regid",
                    str(user),
                    "--clear-groups",
                    "/usr/bin/python3",
                    *line[1:],
                ]
            if orphan:
                subprocess.run(
                    ["/bin/bash", "-c", 'setsid "$@" </dev/null >/dev/null 2>&1 &', "x", *line],
                    check=True,
                )
            else:
                self.child = subprocess.Popen(line, start_new_session=True)
            end = time.monotonic() + 10
            while not told.exists() and time.monotonic() < end:
                time.sleep(0.02)
            pid = int(told.read_text())
            self.pids.append(pid)
            return pid

        def says(self, used=4000, busy=0, listed=(), extra=""):
            (self.smi / "gpus").write_text(f"0, {used}, {busy}\n")
            (self.smi / "compute").write_text("".join(f"{pid}\n" for pid in listed))
            (self.smi / "all").write_text(
                "    Processes                             : None\n"
                + "".join(f"        Process ID                        : {pid}\n" for pid in listed)
                + extra
            )

        def reap(self, *args, path=None, wrap=(), min_age="1"):
            env = {**os.environ, "PATH": path or f"{self.bin}:{os.environ['PATH']}"}
            line = [
                *wrap,
                "/bin/bash",
                str(SCRIPT),
                "--device",
                str(self.device),
                "--sample",
                "1",
                "--min-age",
                min_age,
                "--json",
                *args,
            ]
            done = subprocess.run(line, capture_output=True, text=True, env=env, timeout=60)
            assert done.stdout, done.stderr
            return done.returncode, json.loads(done.stdout)

    # An orphan goes to the box's first process, not to this one, which another test may have made a
    # reaper of its orphans.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    one = Gpu()
    one.bin.mkdir()
    one.smi.mkdir()
    (one.bin / "nvidia-smi").write_text(SMI)
    (one.bin / "nvidia-smi").chmod(0o755)
    os.mknod(one.device, 0o666 | 0o020000, os.makedev(1, 7))
    one.device.chmod(0o666)
    one.says()
    yield one
    for pid in one.pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for told in tmp_path.glob("*.child"):
        with suppress(ProcessLookupError):
            os.kill(int(told.read_text()), signal.SIGKILL)
    if hasattr(one, "child"):
        one.child.wait()


def lives(pid):
    with suppress(OSError):
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z"
    return False


def reason(answer, pid):
    [row] = [row for row in answer["processes"] if row["pid"] == pid]
    return row["verdict"], row["reason"]


@pytest.fixture
def other_job(gpu):
    """nvidia-smi's list isn't empty: somebody else's job is on it."""
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    gpu.says(listed=[child.pid])
    yield child.pid
    child.kill()
    child.wait()


def test_a_leftover_is_shown_and_lives_on_until_forced(gpu, other_job):
    pid = gpu.hold()
    time.sleep(1.1)
    code, answer = gpu.reap()
    assert (code, answer["verdict"]) == (1, "candidates")
    assert reason(answer, pid) == ("candidate", "-")
    assert lives(pid)
    code, answer = gpu.reap("--force")
    assert (code, answer["verdict"]) == (0, "ended")
    assert not lives(pid) and lives(other_job)
    assert gpu.reap()[0] == 0  # and a second time there is nothing to do


def test_a_leftover_that_ignores_term_is_killed_after_it(gpu, other_job):
    pid = gpu.hold("ignore")
    time.sleep(1.1)
    before = time.monotonic()
    assert gpu.reap("--force")[1]["verdict"] == "ended"
    assert time.monotonic() - before > 9
    assert not lives(pid)


def test_a_process_on_the_list_of_nvidia_smi_is_left_alone(gpu):
    pid = gpu.hold()
    gpu.says(listed=[pid])
    time.sleep(1.1)
    code, answer = gpu.reap("--force")
    assert (code, answer["verdict"], reason(answer, pid)) == (
        0,
        "clean",
        ("skipped", "nvidia-smi lists it"),
    )
    assert lives(pid)


def test_an_idle_worker_of_a_listed_job_is_left_alone(gpu):
    parent = gpu.hold("child")
    worker = int((gpu.bin.parent / "pid0.child").read_text())
    gpu.says(listed=[parent])
    time.sleep(1.1)
    code, answer = gpu.reap("--force")
    assert (code, reason(answer, worker)) == (0, ("skipped", f"its parent {parent} is alive"))
    os.kill(parent, signal.SIGSTOP)  # not even while its parent stands still
    assert gpu.reap("--force")[0] == 0
    assert lives(worker) and lives(parent)


def test_a_parent_whose_worker_is_listed_is_left_alone(gpu):
    parent = gpu.hold("child")
    worker = int((gpu.bin.parent / "pid0.child").read_text())
    gpu.says(listed=[worker])
    time.sleep(1.1)
    code, answer = gpu.reap("--force")
    assert code == 0
    assert reason(answer, parent)[1] == f"nvidia-smi lists process {worker} of its session"
    assert lives(parent)


def test_a_process_whose_parent_lives_is_left_alone(gpu, other_job):
    pid = gpu.hold(orphan=False)
    time.sleep(1.1)
    code, answer = gpu.reap("--force")
    assert (code, reason(answer, pid)) == (0, ("skipped", f"its parent {os.getpid()} is alive"))
    assert lives(pid)


def test_a_process_of_another_user_is_left_alone_even_by_root(gpu, other_job):
    engine("setpriv", "apt-get install -y util-linux")
    pid = gpu.hold(user=65534)
    time.sleep(1.1)
    code, answer = gpu.reap("--force")
    assert (code, reason(answer, pid)) == (0, ("skipped", "not yours (user 65534)"))
    assert lives(pid)


def test_a_young_process_is_left_alone(gpu, other_job):
    pid = gpu.hold()
    code, answer = gpu.reap("--force", min_age="120")
    assert (code, reason(answer, pid)) == (0, ("skipped", "younger than 120 s"))
    assert lives(pid)


def test_a_process_that_works_is_left_alone(gpu, other_job):
    pid = gpu.hold("busy")
    time.sleep(1.1)
    code, answer = gpu.reap("--force")
    assert (code, reason(answer, pid)) == (0, ("skipped", "it or its session worked within 1 s"))
    assert lives(pid)


def test_a_process_on_a_busy_gpu_is_left_alone(gpu, other_job):
    pid = gpu.hold()
    gpu.says(listed=[other_job], busy=40)
    time.sleep(1.1)
    code, answer = gpu.reap("--force")
    assert code == 0
    assert reason(answer, pid) == (
        "skipped",
        "a GPU that it holds was busy within 1 s",
    )
    assert lives(pid)


@pytest.mark.parametrize(
    ("says", "text"),
    [
        ({"listed": []}, "lists no process while 4000 MiB are in use"),
        ({"listed": [4194000]}, "lists process 4194000, which does not exist here"),
    ],
    ids=["an empty list while memory is used", "a number of another namespace"],
)
def test_it_refuses_where_the_list_cannot_be_trusted(gpu, says, text):
    pid = gpu.hold()
    gpu.says(**says)
    time.sleep(1.1)
    code, answer = gpu.reap("--force")
    assert (code, answer["verdict"]) == (1, "refused")
    assert text in answer["reason"]
    assert reason(answer, pid)[0] == "skipped"
    assert lives(pid)


def test_an_empty_list_can_be_vouched_for_by_the_user(gpu):
    pid = gpu.hold()
    gpu.says(listed=[])
    time.sleep(1.1)
    code, answer = gpu.reap("--force", "--trust-empty-list")
    assert (code, answer["verdict"]) == (0, "ended"), answer
    assert not lives(pid)


def test_it_refuses_in_a_pid_namespace_of_its_own_whatever_it_is_told(gpu):
    unshare = engine("unshare", "apt-get install -y util-linux")
    code, answer = gpu.reap(
        "--force", "--trust-empty-list", wrap=[unshare, "--pid", "--fork", "--mount-proc"]
    )
    assert (code, answer["verdict"]) == (1, "refused")
    assert "in a container (a PID namespace of its own)" in answer["reason"]


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda gpu: (gpu.smi / "gpus").unlink(), "did not answer"),
        (lambda gpu: (gpu.smi / "compute").unlink(), "can not list processes here"),
        (lambda gpu: (gpu.smi / "all").unlink(), "can not list processes here"),
        (
            lambda gpu: gpu.says(extra="    Processes                             : N/A\n"),
            "can not list processes here",
        ),
    ],
    ids=["no table", "no list", "no second list", "a list that is not available"],
)
def test_a_driver_that_does_not_answer_is_no_clean_gpu(gpu, spoil, text):
    pid = gpu.hold()
    spoil(gpu)
    code, answer = gpu.reap("--force")
    assert (code, answer["verdict"]) == (1, "unknown")
    assert text in answer["reason"]
    assert lives(pid)


def tools_alone(tmp_path, *more):
    """A folder for PATH with the plain tools that the script needs, and these."""
    bare = tmp_path / "bare"
    bare.mkdir()
    plain = [
        "bash",
        "timeout",
        "cat",
        "dirname",
        "readlink",
        "awk",
        "tr",
        "grep",
        "sort",
        "id",
        "getconf",
    ]
    for name in (*plain, *more):
        (bare / name).symlink_to(shutil.which(name))
    return bare


def test_a_missing_tool_or_driver_is_no_clean_gpu(gpu, tmp_path):
    bare = tools_alone(tmp_path)
    code, answer = gpu.reap(path=str(bare))
    assert (code, answer["reason"]) == (1, "nvidia-smi is missing; install the NVIDIA driver")
    code, answer = gpu.reap(path=f"{gpu.bin}:{bare}")
    assert (code, answer["reason"].split(";")[0]) == (1, "neither fuser nor lsof is installed")


def test_lsof_does_where_fuser_is_missing(gpu, other_job, tmp_path):
    engine("lsof", "apt-get install -y lsof")
    bare = tools_alone(tmp_path, "sleep", "lsof")
    pid = gpu.hold()
    time.sleep(1.1)
    code, answer = gpu.reap(path=f"{gpu.bin}:{bare}")
    assert (code, reason(answer, pid)[0]) == (1, "candidate")


def test_no_device_file_is_no_clean_gpu(gpu):
    if os.path.exists("/dev/nvidia0"):
        pytest.skip("this machine has a GPU")
    env = {**os.environ, "PATH": f"{gpu.bin}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", str(SCRIPT)], capture_output=True, text=True, env=env)
    assert (done.returncode, done.stdout) == (
        1,
        "unknown: no device file such as /dev/nvidia0; load the NVIDIA driver, or pass --device\n",
    )


def test_the_table_has_names_but_no_command_lines(gpu, other_job):
    gpu.hold("--token=hunter2")
    time.sleep(1.1)
    env = {**os.environ, "PATH": f"{gpu.bin}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", str(SCRIPT), "--device", str(gpu.device), "--sample", "1", "--min-age", "1"],
        capture_output=True,
        text=True,
        env=env,
    )
    head, row, verdict = done.stdout.splitlines()
    assert head.split("\t") == [
        "pid",
        "uid",
        "age_s",
        "cpu_ticks",
        "devices",
        "verdict",
        "reason",
        "name",
    ]
    assert row.split("\t")[4:7] == ["7", "candidate", "-"]
    assert verdict.startswith("candidates: 1 leftover")
    assert "hunter2" not in done.stdout


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ("--kill", "unknown argument --kill"),
        ("--sample 0", "--sample needs a whole number above 0, not 0"),
        ("--min-age -1", "--min-age needs a whole number above 0, not -1"),
        ("--device /etc/passwd", "--device: /etc/passwd isn't a character device"),
        ("--device nvidia0", "--device needs a path that begins with /, not nvidia0"),
        ("--device", "--device needs a path that begins with /, not nothing"),
    ],
)
def test_usage_errors_exit_2(args, text):
    done = subprocess.run(["bash", str(SCRIPT), *args.split()], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"reap_vram_zombies: {text}; see --help\n"


def test_help():
    done = subprocess.run(["bash", str(SCRIPT), "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    for text in ("usage:", "options:", "exit:", "example:", "It refuses"):
        assert text in done.stdout
