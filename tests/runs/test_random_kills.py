"""Forty random kills over eighty seconds cost little work and change no result.

The whole campaign, five runs, takes minutes: it is run with --record and replayed otherwise, and then one run with a tenth of the
kills is made for real.
"""

import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.runs.runner_box import Box, assert_nothing_repeated, undisturbed

pytest_plugins = ["tests.runs.runner_box"]

RUNS, KILLS, SECONDS, STEPS, EVERY = 5, 40, 80, 900, 10
MOST_LOST = 0.12


def runner_lives(box: Box) -> bool:
    try:
        return Path(f"/proc/{box.pid('runner')}").exists()
    except (OSError, ValueError):
        return False


def disturbed(box: Box, seed: int, kills: int, steps: int) -> dict:
    """A run whose runner, keeper and program are killed at random, and what came of it."""
    chance = random.Random(seed)
    box.make("--steps", steps, "--every", EVERY, "--sleep", 0.1)
    box.start()
    told = {"seed": seed, "kills": {}, "starts": 1, "resumes": 0}

    def look_after() -> None:
        """What a provider's start hook does, and a person where the run says that it needs one."""
        if (box.run_dir / ".done").exists() or runner_lives(box):
            return
        verb = "resume" if (box.run_dir / ".failed").exists() else "start"
        if box.verb(verb).returncode == 0:
            told["resumes" if verb == "resume" else "starts"] += 1

    for _ in range(kills):
        time.sleep(chance.uniform(0.5, 1.5) * SECONDS / KILLS)
        how = chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
        for who in chance.sample(("train", "runner", "keeper"), 3):
            try:
                os.kill(box.pid(who), how)
            except (OSError, ValueError):
                continue  # it isn't there at the moment: another one
            name = f"{who} {how.name}"
            told["kills"][name] = told["kills"].get(name, 0) + 1
            break
        time.sleep(0.1)
        look_after()
    while box.wait(timeout=240)["phase"] != "done":
        look_after()
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

    def one(seed: int) -> dict:
        box = Box(tmp_path / str(seed))
        box.folder.mkdir()
        try:
            return disturbed(box, seed, kills, steps)
        finally:
            box.close()

    with ThreadPoolExecutor(3) as pool:
        runs = list(pool.map(one, told.live(list(range(RUNS)))))
    assert all(run["right"] and run["steps"] == steps for run in runs), runs
    recorded = told.recorded(runs)
    assert len(recorded) == RUNS and all(run["right"] for run in recorded)
    for run in recorded:
        # One may find nobody there, between the end of one runner and the start of the next.
        assert sum(run["kills"].values()) >= KILLS * 0.9 and run["steps"] == STEPS
        assert run["lost"] <= MOST_LOST * run["steps"], run
