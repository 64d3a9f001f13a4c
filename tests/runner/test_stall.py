"""A run that stands still, by a clock that the test owns."""

import pytest
from remote_gpu_trainer.runner.core import stall
from remote_gpu_trainer.runner.core.model import Signs

from tests.runner.jobs import job_of


class Watched:
    """A program that is watched from the second 0 on."""

    def __init__(self, **fields):
        timings = {"heartbeat": 1.0, **fields.pop("timings", {})}
        self.job, self.now = job_of({"gpus": 1, "timings": timings}, fields), 0.0
        self.watch = stall.begin(self.now)

    def look(self, signs: Signs, seconds: float = 1.0) -> str:
        """What is said so many seconds later."""
        self.now += seconds
        self.watch, said = stall.look(self.job, self.watch, signs, self.now)
        return said


def after(made: Watched, seconds: int, **given) -> str:
    """What is said first within so many seconds, looked at every second."""
    said = [made.look(Signs(**given)) for _ in range(seconds)]
    return next(filter(None, said), "")


def test_a_silent_log_is_a_stall():
    made = Watched(stall={"log_minutes": 10 / 60})
    assert after(made, 9) == ""
    assert after(made, 1, log_grew=True) == ""
    assert after(made, 9) == ""
    assert after(made, 1) == "no line, step, checkpoint or other output for 10 s"


def test_a_step_that_does_not_move_is_a_stall_although_lines_come():
    made = Watched(stall={"step_minutes": 10 / 60, "log_minutes": 5 / 60})
    assert after(made, 10, log_grew=True, step=7) == ""
    assert after(made, 10, log_grew=True, step=8) == ""
    assert after(made, 1, log_grew=True, step=8) == "step 8 for 10 s"
    assert after(Watched(stall={"step_minutes": 10 / 60}), 10) == "step none for 10 s"


def test_cards_that_wait_for_each_other_are_a_stall():
    made = Watched(stall={"idle_power_minutes": 10 / 60})
    assert after(made, 9, hot=True) == ""
    assert after(made, 1) == ""
    assert after(made, 10, hot=True) == "full utilisation at idle power for 10 s"


def test_a_job_without_limits_has_no_stall():
    assert after(Watched(), 10_000, hot=True) == ""


@pytest.mark.parametrize("name", ["log_minutes", "step_minutes", "idle_power_minutes"])
def test_a_limit_below_three_heartbeats_ends_no_healthy_run(name):
    made = Watched(timings={"heartbeat": 10.0}, stall={name: 5 / 60})
    assert after(made, 29, hot=True) == ""
    assert after(made, 1, hot=True) != ""


def test_the_time_that_the_runner_itself_was_stopped_does_not_count():
    made = Watched(stall={"log_minutes": 1})
    assert after(made, 20) == ""
    assert made.look(Signs(), 3601) == ""
    assert after(made, 39) == ""
    assert after(made, 1).startswith("no line, step, checkpoint or other output for 60 s")


@pytest.mark.parametrize("sign", ["step", "checkpoint", "output"])
def test_a_silent_program_that_moves_is_alive(sign):
    made = Watched(stall={"log_minutes": 10 / 60})
    for number in range(50):
        assert after(made, 9, **{sign: number if sign == "step" else str(number)}) == ""
    last = {sign: 49 if sign == "step" else "49"}
    assert after(made, 100, **last) != ""


def after_work(made: Watched, seconds: int, **given) -> int | None:
    """The second at which a program that uses its processor counts as stalled."""
    for second in range(seconds):
        if made.look(Signs(cpu_seconds=float(second), **given)):
            return second + 1
    return None


def test_work_delays_a_stall_once_and_spinning_at_idle_power_never():
    assert after_work(Watched(stall={"log_minutes": 10 / 60}), 60) == 20
    assert after_work(Watched(stall={"log_minutes": 10 / 60}), 60, hot=True) == 10
    made = Watched(stall={"log_minutes": 10 / 60})
    assert after(made, 19, busy=True) == "" and after(made, 1, busy=True) != ""


def test_work_that_ends_is_no_work():
    made = Watched(stall={"log_minutes": 10 / 60})
    assert after(made, 5, busy=True) == ""
    assert after(made, 9) == "" and after(made, 1) != ""


def test_a_silent_program_that_saves_rarely_is_judged_by_how_often_it_saves():
    made = Watched(stall={"log_minutes": 10 / 60}, checkpoint={"every_minutes": 1})
    for number in range(5):
        assert after(made, 60, checkpoint=str(number)) == ""
    assert after(made, 130, checkpoint="4") != ""
