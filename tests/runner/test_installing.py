"""The job's environment file, installed once for a job."""

import time

import pytest
from remote_gpu_trainer.runner import installing, procs
from remote_gpu_trainer.runner.context import Run

from tests.runner.jobs import job_of, secrets_of


@pytest.fixture
def make(tmp_path):
    def make(install, **fields) -> Run:
        given = {"rendered": {"run_dir": str(tmp_path / "run"), "work_dir": str(tmp_path), "install": install, "job_sha": "one"}, "timings": {"tick": 0.01}}  # fmt: skip
        run = Run(job_of(given, fields))
        run.folder.make()
        return run

    return make


def no() -> bool:
    return False


def shell(line: str) -> list[str]:
    return ["bash", "-c", line]


def test_it_runs_once_for_a_job_in_the_work_folder(make, tmp_path):
    run = make(shell("echo installed >> count"))
    assert installing.install(run, no) is None and installing.install(run, no) is None
    assert (tmp_path / "count").read_text() == "installed\n"
    run.spec.rendered.job_sha = "two"
    assert installing.install(run, no) is None
    assert (tmp_path / "count").read_text() == "installed\n" * 2
    assert installing.install(make([]), no) is None


def test_a_line_of_shell_is_one_argument(make, tmp_path):
    run = make("echo \"it's $((1 + 1))\" > 'a file'")
    assert installing.install(run, no) is None
    assert (tmp_path / "a file").read_text() == "it's 2\n"


def test_a_failure_is_judged_by_its_own_output_and_tried_again(make):
    run = make(shell("echo 'Temporary failure in name resolution'; exit 3"))
    for _ in range(2):
        found = installing.install(run, no)
        assert found and found.failure == "network"
        assert found.reason.startswith("environment: ") and found.reason.endswith(
            " (log/install.log)"
        )
        assert run.folder.read("log/install.log") == "Temporary failure in name resolution\n"
    assert run.folder.number("own/install.rc") == 3 and not run.folder.has("own/install.done")
    run.spec.rendered.install = ["true"]
    assert installing.install(run, no) is None and not run.folder.has("own/install.rc")


def test_a_program_that_is_not_there_is_told(make):
    run = make(["/no/such/installer"])
    assert installing.install(run, no) is not None
    assert run.folder.number("own/install.rc") == 127
    assert run.folder.read("log/install.log") == "/no/such/installer: No such file or directory\n"


def test_its_log_holds_no_secret(make, monkeypatch):
    monkeypatch.setenv("A_TOKEN", "s3cr3t-Value-1234")
    run = make(
        shell('echo "$A_TOKEN"; echo "<$A_TOKEN>" >&2'),
        secrets=secrets_of({}, {"A_TOKEN": "A_TOKEN"}),
    )
    assert installing.install(run, no) is None
    assert run.folder.read("log/install.log") == "***\n<***>\n"


def test_the_log_is_cut_and_the_end_still_judged(make):
    last = "echo 'Temporary failure in name resolution'"
    run = make(shell(f"for n in {{1..3000}}; do echo line $n; done; {last}; exit 1"))
    run.spec.timings.log_bytes = 5000
    found = installing.install(run, no)
    assert found and found.failure == "network" and len(run.folder.read("log/install.log")) <= 5000


def test_one_that_is_asked_to_end_is_ended(make, monkeypatch):
    monkeypatch.setattr(installing, "GRACE", 0.1)
    run = make(shell("trap '' TERM; sleep 60 & wait; wait"))
    begin = time.monotonic()

    def beat() -> bool:
        run.asked = "stop" if time.monotonic() > begin + 0.3 else ""
        return bool(run.asked)

    assert installing.install(run, beat) == ("preempted", "", "stop")
    assert time.monotonic() - begin < 20 and not run.folder.has("own/install.done")


def test_what_it_leaves_in_the_background_keeps_nobody_waiting(make):
    begin = time.monotonic()
    run = make(shell("sleep 60 & echo done"))
    assert installing.install(run, no) is None and time.monotonic() - begin < 20
    assert procs.of_program(run.folder)
    assert installing.install(make(["true"]), no) is None
    assert not procs.of_program(run.folder), "an installation begins alone"
