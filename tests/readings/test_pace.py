"""The time to the end: within 20 % from a tenth of an even run on, and none where too little is known."""

import random

import pytest
from remote_gpu_trainer.readings.pace import estimate


def watched(
    steps: int, seconds: float, every: int, beat: float, until: float, odd=lambda step: 0.0
) -> list:
    """The samples that a heartbeat sees of a program that prints each `every` steps."""
    samples, t, shown, clock = [], 0.0, (0.0, 0), 0.0
    for step in range(1, steps + 1):
        while clock < t + seconds and clock <= until:
            if shown[1] and (not samples or samples[-1][1] != shown[1]):
                samples.append(shown)
            clock += beat
        t += seconds + odd(step)
        if t > until:
            break
        if step % every == 0:
            shown = (t, step)
    return samples


@pytest.mark.parametrize("seconds", [0.05, 0.5, 3.0, 40.0])
@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize("part", [0.1, 0.3, 0.7, 0.95])
def test_an_even_run_ends_when_it_was_said(seconds, every, part):
    steps = 4000 if seconds < 1 else 400
    now = steps * seconds * part
    told = estimate(watched(steps, seconds, every, 10.0, now), steps, now)
    left = steps * seconds - now
    assert told["total"] == steps
    assert abs(told["seconds_left"] - left) <= 0.2 * left + 1
    assert told["seconds_left_low"] <= told["seconds_left"] <= told["seconds_left_high"]


def test_noise_and_a_first_step_that_compiles_change_little():
    random.seed(7)
    steps, now = 2000, 260.0
    samples = watched(
        steps, 1.0, 1, 10.0, now, lambda step: 60.0 if step == 2 else random.uniform(-0.3, 0.3)
    )
    left = 60 + steps - now
    assert abs(estimate(samples, steps, now)["seconds_left"] - left) <= 0.2 * left


def test_below_ten_steps_nothing_is_said_of_the_end():
    assert estimate([], 100, 5.0) == {}
    assert estimate([(0.0, 1), (5.0, 9)], 100, 5.0) == {"step": 9, "total": 100, "percent": 9.0}
    assert "seconds_left" not in estimate([(0.0, 1), (60.0, 40)], None, 60.0)
    assert estimate([(0.0, 1), (60.0, 40)], None, 60.0)["steps_per_second"] == 0.65


def test_after_a_restart_the_loading_is_no_step_and_nothing_is_said_at_first():
    loading = [
        (0.0, 1800),
        (60.0, 1830),
    ]  # the checkpoint's own step, then what came a minute later
    steady = [(60.0 + n, 1830 + 8 * n) for n in range(1, 60)]
    for samples in (loading, [(0.0, 0), *loading[1:]]):
        assert "steps_per_second" not in estimate(samples, 6000, 60.0, True)
        early = estimate([*samples, *steady[:20]], 6000, 80.0, True)
        assert early["step"] == 1990 and "seconds_left" not in early
        told = estimate([*samples, *steady[:40]], 6000, 100.0, True)
        assert told["steps_per_second"] == 8.0
    assert estimate(loading[:1], 6000, 0.0, True)["step"] == 1800


def test_of_two_samples_the_spread_is_wide_and_a_bar_at_nothing_is_none():
    told = estimate([(0.0, 10), (10.0, 30)], 230, 10.0)
    assert (told["seconds_left_low"], told["seconds_left_high"]) == (70, 130)
    assert "seconds_left" not in estimate([(0.0, 0), (50.0, 11)], 230, 50.0)


def test_a_run_that_slows_down_has_a_wider_spread():
    even = [(10.0 * n, 10 * n) for n in range(21)]
    slower = even + [(200.0 + 20.0 * n, 200 + 10 * n) for n in range(1, 21)]
    told = estimate(slower, 1000, slower[-1][0])
    assert told["seconds_left_low"] < 0.8 * told["seconds_left"] < told["seconds_left_high"]
