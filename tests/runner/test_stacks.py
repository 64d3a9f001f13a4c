"""Stacks of a hang: by the fault handler of those that carry it, by an abort of the others."""

import os
import signal
import subprocess
import sys
import time

import pytest
from remote_gpu_trainer.runner import log, procs, spec, stacks
from remote_gpu_trainer.runner.context import Run

WAITS = "import time\ndef waits_here():\n    print('ready', flush=True)\n    time.sleep(60)\nwaits_here()"  # fmt: skip


@pytest.fixture
def run(tmp_path, monkeypatch) -> Run:
    monkeypatch.setattr(stacks.shutil, "which", lambda name: None)
    made = Run(spec.of({"run_dir": str(tmp_path / "run")}))
    made.folder.make()
    return made


@pytest.fixture
def start(run):
    """Start a program of the run, which has said 'ready': start('-c', text)."""
    started = []

    def begin(*words: str, **more) -> subprocess.Popen:
        env = {**os.environ, "RGT_RUN_DIR": run.folder.path, "RGT_ATTEMPT": "2"}
        env.update(PYTHONFAULTHANDLER="1", **{**stacks.environment(run), **more})
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


def written(run: Run, name: str) -> str:
    with open(run.folder.at("stacks", name)) as file:
        return file.read()


def test_the_fault_handler_writes_the_stacks_and_the_program_lives_on(run, start):
    child = start("-c", WAITS)
    assert stacks.take(run, child.pid, 2) == "faulthandler"
    text = written(run, "attempt-2.txt")
    assert "waits_here" in text and f"process {child.pid}" in text
    assert child.poll() is None


def test_a_child_made_by_fork_is_asked_too(run, start):
    child = start("-c", f"import os, time\nos.fork() or time.sleep(60)\n{WAITS}")
    until = time.monotonic() + 5
    while len(pids := procs.of_program(run.folder, child.pid)) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    assert stacks.take(run, child.pid, 2) == "faulthandler"
    assert len(pids) == 2
    assert all(f"process {pid}" in written(run, "attempt-2.txt") for pid in pids)


def test_one_without_the_mark_is_never_sent_the_signal_that_would_end_it_unseen(run, start):
    child = start("-I", "-X", "faulthandler", "-c", WAITS)
    assert not stacks._is_marked(child.pid, run.folder.at("stacks", "attempt-2.txt"))
    assert stacks.take(run, child.pid, 2) == "abort"
    assert child.wait(5) == -signal.SIGABRT
    assert "waits_here" in written(run, "attempt-2-log.txt")


def test_a_file_that_was_closed_is_no_mark(run, start):
    text = f"import os\nos.closerange(3, 99)\n{WAITS}"
    child = start("-c", text)
    assert not stacks._is_marked(child.pid, run.folder.at("stacks", "attempt-2.txt"))


def test_py_spy_comes_first_and_what_it_cannot_read_is_asked(run, start, tmp_path, monkeypatch):
    child, other = start("-c", WAITS), start("-c", WAITS)
    tool = tmp_path / "py-spy"
    tool.write_text(f'#!/bin/sh\n[ "$3" = {child.pid} ] && echo "Thread 1 (idle)" || exit 1\n')
    tool.chmod(0o755)
    monkeypatch.setattr(stacks.shutil, "which", lambda name: str(tool))
    assert stacks.take(run, child.pid, 2) == "py-spy, faulthandler"
    names = os.listdir(run.folder.at("stacks"))
    assert sorted(names) == sorted(["attempt-2.txt", f"attempt-2-pid-{child.pid}.txt"])
    assert f"process {other.pid}" in written(run, "attempt-2.txt")


def test_the_users_own_sitecustomize_and_path_still_count(run, start, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = 'was here'\n")
    (own / "helper.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    run.spec.variables = {"PYTHONPATH": str(own)}
    child = start("-c", "assert mine == 'was here'\nimport sitecustomize\nassert 'own' in sitecustomize.__file__\nimport helper")  # fmt: skip
    assert stacks.take(run, child.pid, 2) == "faulthandler"


def test_the_path_of_the_box_counts_where_the_job_has_none(run, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/box/a:/box/b")
    assert stacks.environment(run)["PYTHONPATH"].endswith("/python:/box/a:/box/b")
    run.spec.variables = {"PYTHONPATH": ""}
    assert stacks.environment(run)["PYTHONPATH"] == run.folder.at("python")


def test_a_program_keeps_the_signals_that_are_its_own(run, start):
    """Its handlers of USR1 and USR2 may save, requeue or end it: asking for a stack fires none."""
    run.spec.save_signal = "USR2"
    text = (
        "import os, signal\n"
        "for one in (signal.SIGUSR1, signal.SIGUSR2):\n"
        "    signal.signal(one, lambda *_: os._exit(7))\n"
    )
    child = start("-c", text + WAITS)
    assert stacks.take(run, child.pid, 2) == "faulthandler"
    assert "waits_here" in written(run, "attempt-2.txt") and child.poll() is None
    child.send_signal(signal.SIGUSR2)
    assert child.wait(5) == 7


def test_a_program_whose_folder_cannot_be_written_starts_all_the_same(run, start):
    child = start("-c", WAITS, RGT_RUN_DIR="/proc/nowhere")
    assert child.poll() is None


def test_a_run_without_python_has_no_stacks(run):
    assert stacks.take(run, 0, 2) == ""
    assert not run.folder.has("events.jsonl")
