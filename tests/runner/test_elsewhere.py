"""A run folder that several machines see."""

import json

import pytest
from remote_gpu_trainer.runner import elsewhere, procs
from remote_gpu_trainer.runner.context import Run
from remote_gpu_trainer.runner.state import StateFile

from tests.runner.clocks import Clock
from tests.runner.jobs import job_of

NOW = 1_800_000_000


@pytest.fixture
def look(tmp_path, monkeypatch):
    """Where the run goes on by a state.json with these fields."""
    monkeypatch.setattr(elsewhere.procs, "uptime", lambda: 1000)

    def look(heartbeat: int = 0, ended: str = "", **fields):
        run = Run(job_of({"name": "toy", "rendered": {"run_dir": str(tmp_path)}}), clock=Clock())
        told = {"phase": "running", "host": "other", "boot_id": "x", "updated": NOW - 5} | fields
        (tmp_path / "state.json").write_text(json.dumps(told))
        if heartbeat:
            (tmp_path / "lock").write_text(f"1 1 {heartbeat}\n")
        if ended:
            (tmp_path / f".{ended}").write_text("")
        state = StateFile(run)
        state.read()
        return elsewhere.look(run, state)

    return look


def test_a_recent_sign_of_life_on_another_machine(look):
    assert look() == ("other", 5, True)
    assert look(updated=NOW - 500, heartbeat=NOW - 100) == ("other", 100, True)
    assert look(updated=NOW - 900, heartbeat=NOW - 800) == ("other", 800, False)
    assert look(phase="staging", updated=NOW - 700, heartbeat=NOW - 700) == ("other", 700, True)


def test_what_has_ended_or_never_began_is_nowhere(look):
    assert look(phase="done") is None and look(phase="new") is None
    assert look(host="") is None and look(boot_id=None) is None and look(host=3) is None
    assert look(ended="preempted") is None


def test_this_machine_after_a_boot_is_the_same_one_unless_the_run_moved(look):
    here = {"host": procs.host(), "boot_id": procs.boot_id()}
    assert look(**here) is None
    assert look(**{**here, "boot_id": "before"}, updated=NOW - 1001) is None
    assert look(**{**here, "boot_id": "before"}, updated=NOW - 900) == (procs.host(), 900, False)


def test_the_refusal_says_where(tmp_path):
    run = Run(job_of({"name": "toy", "rendered": {"run_dir": str(tmp_path)}}))
    fresh, old = (elsewhere.Elsewhere("other", 7, is_fresh) for is_fresh in (True, False))
    assert elsewhere.refusal(run, fresh) == (
        "toy runs on other; do it there, or with its scheduler (scancel)"
    )
    assert "this box can't tell whether it still runs" in elsewhere.refusal(run, old)
