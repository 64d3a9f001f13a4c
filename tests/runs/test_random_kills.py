"""Forty random kills over eighty seconds cost little work and change no result.

The whole campaign, five runs, takes minutes: it is run with --record and replayed otherwise, and then one run with a tenth of the
kills is made for real.
"""

import os
import random
import signal
import time
from contextlib import suppress

import pytest

from tests.runs.runner_box import Box, assert_nothing_repeated, undisturbed

pytest_plugins = ["tests.runs.runner_box"]

RUNS, KILLS, SECONDS, STEPS, EVERY = 5, 40, 80, 600, 10
MOST_LOST = 0.12


def disturbed(box: Box, seed: int, kills: int, steps: int) -> dict:
    """A run whose runner, keeper and program are killed at random, and what came of it.

    Who looks after the box starts the run again when its runner is gone, as a provider's start hook would.
    """
    chance = random.Random(seed)
    box.make("--steps", steps, "--every", EVERY, "--sleep", 0.1)
    box.start()
    told = {"seed": seed, "kills": {}, "starts": 1}
    for _ in range(kills):
        time.sleep(chance.uniform(0.5, 1.5) * SECONDS / KILLS)
        who = chance.choice(("train", "runner", "keeper"))
        how = chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP))
        if (who, how) == ("train", signal.SIGSTOP):
            how = signal.SIGKILL  # a program that stands still is a stall, and no kill
        with suppress(OSError, ValueError):
            os.kill(box.pid(who), how)
            name = f"{who} {how.name}"
            told["kills"][name] = told["kills"].get(name, 0) + 1
            if (who, how) == ("runner", signal.SIGSTOP):
                os.kill(box.pid(who), signal.SIGKILL)
        if who == "runner" and box.verb("start").returncode == 0:
            told["starts"] += 1
    while (now := box.wait(timeout=240))["phase"] != "done":
        assert now["phase"] == "preempted", (now, box.log())
        box.start()
    done = [step for _, step, _ in box.steps()]
    assert_nothing_repeated(box)
    return told | {
        "right": (box.run_dir / "final.bin").read_bytes() == undisturbed(steps),
        "lost": len(done) - len(set(done)),
        "steps": len(set(done)),
        "attempts": len(box.events("attempt")),
    }


@pytest.mark.timeout(1500)
def test_random_kills_change_no_result_and_cost_few_steps(tmp_path, campaign):
    told, kills, steps = campaign("random_kills"), KILLS, STEPS
    if not told.recording:
        kills, steps = KILLS // 10, STEPS // 10
    runs = []
    for seed in told.live(list(range(RUNS))):
        box = Box(tmp_path / str(seed))
        box.folder.mkdir()
        try:
            runs.append(disturbed(box, seed, kills, steps))
        finally:
            box.close()
    assert all(run["right"] and run["steps"] == steps for run in runs), runs
    recorded = told.recorded(runs)
    assert len(recorded) == RUNS and all(run["right"] for run in recorded)
    for run in recorded:
        assert sum(run["kills"].values()) >= KILLS * 0.9 and run["steps"] == STEPS
        assert run["lost"] <= MOST_LOST * run["steps"], run
