"""The probe on programs that train on a card: what it says, and that it changes no result.

AMP with a scaler, CUDA graphs, `torch.compile` with graphs, and a stream for copies.
"""

import json
import statistics
import sys
import tempfile
from pathlib import Path

from apart import anonymous, run
from machine import NO_TIME, NO_TORCH, missing

PROGRAMS = Path(__file__).resolve().parent / "programs"
EACH = 40  # seconds for one program
# name of the program -> the entry that a finding must name, "" where none may be of level "wrong"
ANYWHERE = {"probe_amp_sound": "", "probe_amp_clipped_scaled": "P7", "probe_bf16_sound": ""}
ON_A_CARD = {
    "probe_graph_sound": "",
    "probe_graph_frozen": "O2",
    "probe_compiled_graphs_sound": "",
}
# Run with the probe and without: the weights must be the same to the last bit.
ALIKE_ANYWHERE = ("probe_amp_sound", "probe_bf16_sound", "probe_ten_million_sound")
ALIKE_ON_A_CARD = (
    "probe_graph_sound",
    "probe_compiled_graphs_sound",
    "probe_two_streams_sound",
)
TIMED = "probe_ten_million_sound"
LOOKED_AT = slice(10, 30)  # steps that the probe looks at, after the first ones, which warm up
AFTER = slice(35, 60)


def run_one(root, env, clock, name, with_probe):
    """Run a program, with the probe if asked, and return what it ended with and the report."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.json"
        command = [sys.executable]
        if with_probe:
            command += [root / "scripts/probe.py", "--json", told, "--"]
        command.append(PROGRAMS / f"{name}.py")
        done = run(command, env, min(EACH, clock.left()), cwd=folder)
        try:
            report = json.loads(told.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            report = None
    for text in ("stdout", "stderr"):
        done[text] = done[text].replace(anonymous(str(PROGRAMS)), "/home/me")
    return dict(done, report=report)


def said(done, word):
    """Return what stands behind a word at the start of a line of the program's output."""
    lines = [line for line in done["stdout"].splitlines() if line.startswith(word + " ")]
    return lines[-1][len(word) + 1 :] if lines else None


def is_alike(root, env, clock, name, probed=None):
    """Run a program without the probe and with it -> what is equal, and how long its steps took.

    `probed` is what a run with the probe ended with, where one is there already. `alike` is None
    where two runs without the probe differ too: then nothing can be said.
    """
    turns = (False, True, False, True) if name == TIMED else (False,) if probed else (False, True)
    runs = [(with_probe, run_one(root, env, clock, name, with_probe)) for with_probe in turns]
    if probed:
        runs.append((True, probed))
    weights = {with_probe: said(done, "weights") for with_probe, done in runs}
    alike = weights[True] is not None and weights[True] == weights[False]
    if not alike and weights[False] is not None:
        again = said(run_one(root, env, clock, name, False), "weights")
        alike = None if again != weights[False] else False
    told = {"name": name, "alike": alike, "weights": weights[False]}
    seconds = {
        with_probe: [
            json.loads(said(done, "seconds") or "[]") for is_on, done in runs if is_on == with_probe
        ]
        for with_probe in (False, True)
    }
    if name == TIMED and all(times for both in seconds.values() for times in both):
        for word, steps in (("looked_at", LOOKED_AT), ("after", AFTER)):
            plain, probed = (
                min(statistics.median(times[steps]) for times in seconds[on])
                for on in (False, True)
            )
            told[word] = {"plain": plain, "probed": probed, "ratio": round(probed / plain, 3)}
    return told


def to_run(anywhere, on_a_card, box):
    """Return the names that can be run here, and why the others can't: {name: reason}."""
    why = missing(box)
    blocked = set(on_a_card if why else ()) | set(anywhere if why == NO_TORCH else ())
    names = [*anywhere, *on_a_card]
    return [name for name in names if name not in blocked], dict.fromkeys(
        (name for name in names if name in blocked), why
    )


def run_part(root, env, box, clock):
    """Return what each program ended with, the probe's findings, and what is equal without it."""
    expects = {**ANYWHERE, **ON_A_CARD}
    results, alike = [], []
    names, not_run = to_run(ANYWHERE, ON_A_CARD, box)
    for name in names:
        if clock.left() < 10:
            not_run[name] = NO_TIME
            continue
        done = run_one(root, env, clock, name, with_probe=True)
        results.append(dict(done, name=name, expect=expects[name]))
    names, not_alike = to_run(ALIKE_ANYWHERE, ALIKE_ON_A_CARD, box)
    for name in names:
        if clock.left() < 25:
            not_alike[name] = NO_TIME
            continue
        probed = next((row for row in results if row["name"] == name), None)
        alike.append(is_alike(root, env, clock, name, probed))
    return {"results": results, "not_run": not_run, "alike": alike, "not_alike": not_alike}
