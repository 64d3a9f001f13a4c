"""A run that stands still, by a clock that the test owns."""

import pytest
from remote_gpu_trainer.runner import spec, stall
from remote_gpu_trainer.runner.context import Run

from tests.runner.clocks import Clock


def watch(**fields) -> stall.Watch:
    timings = {"heartbeat": 1.0, **fields.pop("timings", {})}
    return stall.Watch(Run(spec.of({"timings": timings, **fields}), clock=Clock()))


def after(made: stall.Watch, seconds: int, **given) -> str:
    """What is said after so many seconds, looked at every second."""
    now = stall.Signs(**given)
    said = ""
    for _ in range(seconds):
        made.run.clock.nap(1)
        said = said or made.look(now)
    return said


def test_a_silent_log_is_a_stall():
    made = watch(stall_log_seconds=10)
    assert after(made, 9) == ""
    assert after(made, 1, log_grew=True) == ""
    assert after(made, 9) == ""
    assert after(made, 1) == "no line, step, checkpoint or other output for 10 s"


def test_a_step_that_does_not_move_is_a_stall_although_lines_come():
    made = watch(stall_step_seconds=10, stall_log_seconds=5)
    assert after(made, 10, log_grew=True, step=7) == ""
    assert after(made, 10, log_grew=True, step=8) == ""
    assert after(made, 1, log_grew=True, step=8) == "step 8 for 10 s"
    assert after(watch(stall_step_seconds=10), 10) == "step none for 10 s"


def test_cards_that_wait_for_each_other_are_a_stall():
    made = watch(stall_power_seconds=10)
    assert after(made, 9, hot=True) == ""
    assert after(made, 1) == ""
    assert after(made, 10, hot=True) == "full utilisation at idle power for 10 s"


def test_a_job_without_limits_has_no_stall():
    assert after(watch(), 10_000, hot=True) == ""


@pytest.mark.parametrize("name", ["stall_log_seconds", "stall_step_seconds", "stall_power_seconds"])
def test_a_limit_below_three_heartbeats_ends_no_healthy_run(name):
    made = watch(timings={"heartbeat": 10.0}, **{name: 5})
    assert after(made, 29, hot=True) == ""
    assert after(made, 1, hot=True) != ""


def test_the_time_that_the_runner_itself_was_stopped_does_not_count():
    made = watch(stall_log_seconds=60)
    assert after(made, 20) == ""
    made.run.clock.nap(3600)
    assert made.look(stall.Signs()) == ""
    assert after(made, 39) == ""
    assert after(made, 1).startswith("no line, step, checkpoint or other output for 60 s")


def test_a_reset_counts_anew():
    made = watch(stall_log_seconds=10)
    after(made, 9)
    made.reset()
    assert after(made, 9) == ""


@pytest.mark.parametrize("sign", ["step", "checkpoint", "output"])
def test_a_silent_program_that_moves_is_alive(sign):
    made = watch(stall_log_seconds=10)
    for number in range(50):
        assert after(made, 9, **{sign: number if sign == "step" else str(number)}) == ""
    last = {sign: 49 if sign == "step" else "49"}
    assert after(made, 100, **last) != ""


def after_work(made: stall.Watch, seconds: int, **given) -> int | None:
    """The second at which a program that uses its processor counts as stalled."""
    for second in range(seconds):
        made.run.clock.nap(1)
        if made.look(stall.Signs(cpu_seconds=float(second), **given)):
            return second + 1
    return None


def test_work_delays_a_stall_once_and_spinning_at_idle_power_never():
    assert after_work(watch(stall_log_seconds=10), 60) == 20
    assert after_work(watch(stall_log_seconds=10), 60, hot=True) == 10
    made = watch(stall_log_seconds=10)
    assert after(made, 19, busy=True) == "" and after(made, 1, busy=True) != ""


def test_work_that_ends_is_no_work():
    made = watch(stall_log_seconds=10)
    assert after(made, 5, busy=True) == ""
    assert after(made, 9) == "" and after(made, 1) != ""


def test_a_silent_program_that_saves_rarely_is_judged_by_how_often_it_saves():
    made = watch(stall_log_seconds=10, save_every_seconds=60)
    for number in range(5):
        assert after(made, 60, checkpoint=str(number)) == ""
    assert after(made, 130, checkpoint="4") != ""
