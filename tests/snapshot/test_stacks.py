"""Stacks of a hang: by the fault handler of those that carry it, else by py-spy, or in an abort."""

import os
import signal
import subprocess
import sys
import time

import pytest
from remote_gpu_trainer.runner import fault_handler, log, procs
from remote_gpu_trainer.runner.context import Run
from remote_gpu_trainer.snapshot import collect, stacks

from tests.runner.jobs import job_of

WAITS = "import time\ndef waits_here():\n    print('ready', flush=True)\n    time.sleep(60)\nwaits_here()"  # fmt: skip


@pytest.fixture
def run(tmp_path, monkeypatch) -> Run:
    monkeypatch.setattr(stacks.shutil, "which", lambda name: None)
    made = Run(job_of({"rendered": {"run_dir": str(tmp_path / "run")}}))
    made.folder.make()
    return made


@pytest.fixture
def start(run):
    """Start a program of the run, which has said 'ready': start('-c', text)."""
    started = []

    def begin(*words: str, **more) -> subprocess.Popen:
        env = {**os.environ, "RGT_RUN_DIR": run.folder.path, "RGT_ATTEMPT": "2"}
        env.update(PYTHONFAULTHANDLER="1", **{**fault_handler.environment(run), **more})
        with open(log.path(run, 0), "ab") as errors:
            child = subprocess.Popen(
                [sys.executable, *words],
                env=env,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        started.append(child)
        assert child.stdout and child.stdout.readline() == b"ready\n"
        return child

    yield begin
    for child in started:
        procs.send(procs.of_program(run.folder, child.pid), signal.SIGKILL)
        child.kill()
        child.communicate()


def functions(told: dict, pid: int) -> list[str]:
    return [frame[0] for thread in told[str(pid)]["threads"] for frame in thread["frames"]]


def test_the_fault_handler_writes_the_stacks_and_the_program_lives_on(run, start):
    child = start("-c", WAITS)
    told = stacks.collect_stacks([child.pid], 10)
    assert told[str(child.pid)]["how"] == "faulthandler"
    assert "waits_here" in functions(told, child.pid)
    assert told[str(child.pid)]["again"][0][0] == "waits_here"
    assert child.poll() is None


def test_a_child_made_by_fork_is_asked_too(run, start):
    child = start("-c", f"import os, time\nos.fork() or time.sleep(60)\n{WAITS}")
    until = time.monotonic() + 5
    while len(pids := procs.of_program(run.folder, child.pid)) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    told = stacks.collect_stacks(pids, 10)
    assert len(pids) == 2
    assert {told[str(pid)]["how"] for pid in pids} == {"faulthandler"}


def test_one_without_the_mark_is_never_sent_the_signal_that_would_end_it_unseen(run, start):
    child = start("-I", "-X", "faulthandler", "-c", WAITS)
    assert stacks.handler_file(child.pid) == ""
    assert stacks.collect_stacks([child.pid], 5) == {} and child.poll() is None


def test_only_who_kills_a_program_anyway_lets_it_abort_and_write_its_stacks(run, start):
    child = start("-I", "-X", "faulthandler", "-c", WAITS)
    told = collect.collect_snapshot(run.folder.path, 6)
    assert told["ranks"][0]["how"] == "" and child.poll() is None
    told = collect.collect_snapshot(run.folder.path, 8, "stall", abort=True)
    assert child.wait(5) == -signal.SIGABRT
    assert told["ranks"][0]["how"] == "abort"
    assert told["ranks"][0]["threads"][0]["frames"][0][0] == "waits_here"
    assert "Fatal Python error: Aborted" in told["log"]["text"]


def test_one_with_a_stack_is_not_aborted(run, start):
    child = start("-c", WAITS)
    told = collect.collect_snapshot(run.folder.path, 8, "stall", abort=True)
    assert told["ranks"][0]["how"] == "faulthandler" and child.poll() is None


def test_a_file_that_was_closed_is_no_mark(run, start):
    child = start("-c", f"import os\nos.closerange(3, 99)\n{WAITS}")
    assert stacks.handler_file(child.pid) == ""


def test_py_spy_reads_what_carries_no_handler(run, start, tmp_path, monkeypatch):
    child, other = start("-c", WAITS), start("-I", "-c", WAITS)
    tool = tmp_path / "py-spy"
    tool.write_text(
        "#!/bin/sh\n"
        f'[ "$5" = {other.pid} ] && printf \'Thread 1 (idle): "MainThread"\\n    f (t.py:3)\\n\'\n'
    )
    tool.chmod(0o755)
    monkeypatch.setattr(stacks.shutil, "which", lambda name: str(tool))
    told = stacks.collect_stacks([child.pid, other.pid], 10)
    assert told[str(child.pid)]["how"] == "faulthandler"
    assert told[str(other.pid)]["how"] == "py-spy" and functions(told, other.pid) == ["f"]


def test_a_py_spy_that_hangs_costs_no_more_than_the_time_that_is_left(
    run, start, tmp_path, monkeypatch
):
    child, other = start("-c", WAITS), start("-I", "-c", WAITS)
    tool = tmp_path / "py-spy"
    tool.write_text("#!/bin/sh\nexec sleep 60\n")
    tool.chmod(0o755)
    monkeypatch.setattr(stacks.shutil, "which", lambda name: str(tool))
    began = time.monotonic()
    told = stacks.collect_stacks([child.pid, other.pid], 4)
    assert list(told) == [str(child.pid)] and time.monotonic() - began < 20


def test_the_users_own_sitecustomize_and_path_still_count(run, start, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = 'was here'\n")
    (own / "helper.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    run.spec.variables = {"PYTHONPATH": str(own)}
    child = start("-c", "assert mine == 'was here'\nimport sitecustomize\nassert 'own' in sitecustomize.__file__\nimport helper")  # fmt: skip
    assert stacks.collect_stacks([child.pid], 10)[str(child.pid)]["how"] == "faulthandler"


def test_the_path_of_the_box_counts_where_the_job_has_none(run, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/box/a:/box/b")
    assert fault_handler.environment(run)["PYTHONPATH"].endswith("/python:/box/a:/box/b")
    run.spec.variables = {"PYTHONPATH": ""}
    assert fault_handler.environment(run)["PYTHONPATH"] == run.folder.at("python")


def test_a_program_keeps_the_signals_that_are_its_own(run, start):
    """Its handlers of USR1 and USR2 may save, requeue or end it: asking for a stack fires none."""
    run.spec.save_signal = "USR2"
    text = (
        "import os, signal\n"
        "for one in (signal.SIGUSR1, signal.SIGUSR2):\n"
        "    signal.signal(one, lambda *_: os._exit(7))\n"
    )
    child = start("-c", text + WAITS)
    told = stacks.collect_stacks([child.pid], 10)
    assert "waits_here" in functions(told, child.pid) and child.poll() is None
    child.send_signal(signal.SIGUSR2)
    assert child.wait(5) == 7


def test_a_program_whose_folder_cannot_be_written_starts_all_the_same(run, start):
    child = start("-c", WAITS, RGT_RUN_DIR="/proc/nowhere")
    assert child.poll() is None


def test_a_run_without_python_has_no_stacks(run):
    assert collect.collect_snapshot(run.folder.path, 5)["ranks"] == []
