"""Forty random kills over eighty seconds cost little work and change no result.

The whole campaign, eight runs, takes minutes: it is run with --record and replayed otherwise, and then one run of each kind with a
tenth of the kills is made for real.
"""

import copy
import os
import random
import signal
import time
import zipfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import procs
from remote_gpu_trainer.runner.folder import Folder

from tests.runner.box import Box, assert_nothing_repeated, undisturbed
from tests.runner.copying import kept

RUNS, KILLS, SECONDS, STEPS, EVERY = 5, 40, 80, 900, 10
MOST_LOST = 0.12
CELLS = "abcd"


def living(box: Box, *more: int) -> dict[str, list[int]]:
    """The processes of the run that live, by what they are; `more` are those of a rehearsal."""
    ours, found = set(box.processes()), {}
    for folder in {file.parent for file in box.run_dir.rglob("log")} | {box.run_dir}:
        for name in ("train", "runner", "supervisor"):
            pid, _ = procs.noted(Folder(str(folder)), name)
            if pid in ours:
                found.setdefault(name, []).append(pid)
    rehearsals = [pid for pid in more if pid in ours]
    return found | ({"rehearsal": rehearsals} if rehearsals else {})


def kill_one(box: Box, chance: random.Random, look_after: Callable[[], Iterable[int]]) -> str:
    """Kill what lives, at random, and look again until one is hit. Return which, and by what."""
    how = chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
    for _ in range(200):
        there = living(box, *look_after())
        if there:
            who = chance.choice(sorted(there))
            try:
                os.kill(chance.choice(there[who]), how)
            except ProcessLookupError:
                continue
            return f"{who} {how.name}"
        time.sleep(0.05)
    raise AssertionError(f"nothing lives: {box.status()}")


def kills_at_random(
    box: Box, seed: int, kills: int, look_after: Callable[[], Iterable[int]]
) -> dict[str, int]:
    chance, told = random.Random(seed), {}
    for _ in range(kills):
        time.sleep(chance.uniform(0.5, 1.5) * SECONDS / KILLS)
        name = kill_one(box, chance, look_after)
        told[name] = told.get(name, 0) + 1
        time.sleep(0.1)
        look_after()
    return told


def disturbed(box: Box, seed: int, kills: int) -> dict:
    """A run whose runner, supervisor and program are killed at random, and what came of it."""
    begun = {"starts": 0, "resumes": 0}

    def look_after() -> tuple[int, ...]:
        """What a provider's start hook does, and a person where the run says that it needs one."""
        if (box.run_dir / ".done").exists() or "runner" in living(box):
            return ()
        verb = "resume" if (box.run_dir / ".failed").exists() else "start"
        if box.verb(verb).returncode == 0:
            begun[f"{verb}s"] += 1
        return ()

    look_after()
    told = kills_at_random(box, seed, kills, look_after)
    end = time.monotonic() + 240
    while not (box.run_dir / ".done").exists():
        assert time.monotonic() < end, (box.status(), box.log())
        look_after()
        time.sleep(0.2)
    return {"seed": seed, "kills": told, **begun}


def came_to(box: Box, final: Path, steps: int) -> dict:
    """Whether the result is that of an undisturbed run, and how many steps were done twice."""
    assert_nothing_repeated(box)
    done = [step for _, step, _ in box.steps()]
    return {
        "right": final.read_bytes() == undisturbed(steps) and len(set(done)) == steps,
        "lost": len(done) - len(set(done)),
        "steps": len(set(done)),
        "attempts": len(box.events("attempt")),
    }


def a_run(box: Box, seed: int, kills: int, steps: int, **values) -> dict:
    box.make("--steps", steps, "--every", EVERY, "--sleep", 0.1, **values)
    told = disturbed(box, seed, kills)
    return told | came_to(box, box.run_dir / "final.bin", steps)


def a_run_that_stops_the_box(box: Box, seed: int, kills: int, steps: int) -> dict:
    """The stop command notes whether the run was done when it was called, and its copy there."""
    stopped, name = box.folder / "stopped", f"step-{steps}.pt"
    proof = f"'{box.folder}'/durable/ckpt.generations/gen-*-{steps}-*/manifest.json"
    line = f"test -e '{box.run_dir}/.done' && test -s {proof} && echo after || echo before"
    told = a_run(
        box,
        seed,
        kills,
        steps,
        at_end={"do": "run", "command": f"{{ {line}; }} >>'{stopped}'", "when": ["done"]},
        durable={
            "to": str(box.folder / "durable"),
            "what": [str(box.checkpoints)],
            "on_this_box": True,
        },
    )
    box.until(lambda: stopped.exists() and stopped.read_text(), timeout=60, what="not stopped")
    assert kept(box.folder, name).read_bytes() == (box.checkpoints / name).read_bytes()
    return told | {"stopped": sorted(set(stopped.read_text().split()))}


def a_queue(box: Box, seed: int, kills: int, steps: int) -> dict:
    """Four cells, two at a time."""
    each = steps // 2
    box.make(
        *("--steps", each, "--every", EVERY, "--sleep", 0.1),
        results=[f"{box.folder}/{{cell}}.bin"],
        queue={
            "cells": [
                {"name": name, "arguments": ["--final", f"{box.folder}/{name}.bin"]}
                for name in CELLS
            ],
            "slots": 2,
        },
    )
    told = disturbed(box, seed, kills)
    cells = []
    for name in CELLS:
        cell = copy.copy(box)
        cell.run_dir = box.run_dir / "cells" / name
        cells.append(came_to(cell, box.folder / f"{name}.bin", each))
    assert box.status()["cells"]["done"] == len(CELLS)
    return told | {
        "right": all(cell["right"] for cell in cells),
        **{name: sum(cell[name] for cell in cells) for name in ("lost", "steps", "attempts")},
    }


def rehearsals(box: Box, seed: int, kills: int, _: int) -> dict:
    """One rehearsal after the other, beside a checkpoint of the run, and the run itself then."""
    box.make("--sleep", 0.05, rehearsal={"arguments": ["--steps", "200"]})
    box.checkpoints.mkdir()
    with zipfile.ZipFile(box.checkpoints / "step-10.pt", "w") as archive:
        archive.writestr("data", undisturbed(10))
    before = (box.checkpoints / "step-10.pt").read_bytes()

    def look_after() -> list[int]:
        if not box.children or box.children[-1].poll() is not None:
            box.popen("rehearse")
        return [box.children[-1].pid]

    told = kills_at_random(box, seed, kills, look_after)
    box.children[-1].wait(60)
    last = box.verb("rehearse", timeout=120)
    assert last.returncode == 0, last.stdout + last.stderr + box.log()
    assert not box.processes(), "a program of a rehearsal that was killed lives on"
    assert [path.name for path in box.checkpoints.iterdir()] == ["step-10.pt"]
    assert (box.checkpoints / "step-10.pt").read_bytes() == before
    assert not list((box.run_dir / "rehearsal").glob("checkpoints-*"))
    begun = len(box.children)
    box.start()
    assert box.wait()["phase"] == "done" and box.steps()[0][1:] == (11, 10)
    right = (box.run_dir / "final.bin").read_bytes() == undisturbed()
    return {"seed": seed, "kills": told, "starts": begun, "right": right}


CAMPAIGN = [
    *[(a_run, seed) for seed in range(RUNS)],
    (a_run_that_stops_the_box, RUNS),
    (a_queue, RUNS + 1),
    (rehearsals, RUNS + 2),
]


@pytest.mark.alone  # four runs at once need both cores
@pytest.mark.timeout(1500)
def test_random_kills_change_no_result_and_cost_few_steps(tmp_path, campaign):
    told, kills, steps, chosen = campaign("random_kills"), KILLS, STEPS, CAMPAIGN
    if not told.recording:
        kills, steps = KILLS // 10, STEPS // 10
        chosen = CAMPAIGN[RUNS - 1 :]

    def one(kind: Callable, seed: int) -> dict:
        box = Box(tmp_path / str(seed))
        box.folder.mkdir()
        try:
            return {"kind": kind.__name__} | kind(box, seed, kills, steps)
        finally:
            box.close()

    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(one, *zip(*chosen, strict=True)))
    assert all(run["right"] and sum(run["kills"].values()) == kills for run in runs), runs
    recorded = told.recorded(runs)
    assert [run["kind"] for run in recorded] == [kind.__name__ for kind, _ in CAMPAIGN]
    for run in recorded:
        assert run["right"] and sum(run["kills"].values()) == KILLS, run
        assert run.get("stopped", ["after"]) == ["after"], run
        if "steps" in run:
            assert run["steps"] == STEPS * (2 if run["kind"] == "a_queue" else 1), run
            assert run["lost"] <= MOST_LOST * run["steps"], run
