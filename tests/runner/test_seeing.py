"""What is seen and what is decided belong to one moment."""

import pytest
from remote_gpu_trainer.runner import runner, seeing
from remote_gpu_trainer.runner.context import Run
from remote_gpu_trainer.runner.core import decide
from remote_gpu_trainer.runner.core.model import Start

from tests.runner.clocks import Clock
from tests.runner.jobs import job_of


@pytest.fixture
def one(tmp_path):
    (tmp_path / "ckpt").mkdir()
    (tmp_path / "ckpt/step-5.pt").write_bytes(b"5")
    fields = {
        "checkpoint": {"folder": str(tmp_path / "ckpt"), "pattern": "*.pt"},
        "rendered": {"run_dir": str(tmp_path / "run")},
    }
    run = Run(job_of(fields), clock=Clock())
    run.folder.make()
    return runner.Runner(run)


def test_an_attempt_that_falls_due_during_a_look_waits_for_one_that_saw_the_checkpoints(
    one, monkeypatch
):
    run = one.run
    one.state.deadline = run.now + 3600
    looks = seeing.Seeing(one.heartbeat, one.attempt([]), one.copies)
    looks.attempt.number = 1
    one.core = decide.State(phase="running", attempt=1, retry_at=run.up + 5)
    see_wait = looks.attempt.see_wait

    def slowly(*words):
        seen = see_wait(*words)
        run.clock.nap(9)
        return seen

    monkeypatch.setattr(looks.attempt, "see_wait", slowly)
    one.core, actions = one.look_and_decide(looks)
    assert not any(isinstance(action, Start) for action in actions)
    one.core, actions = one.look_and_decide(looks)
    assert one.core.phase == "running", (one.core, actions)
    [start] = [action for action in actions if isinstance(action, Start)]
    assert start.source.endswith("step-5.pt")
