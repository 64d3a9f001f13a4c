"""The probe on programs that train on a card, with AMP and with CUDA graphs."""

import json
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


def run_part(root, env, box, clock):
    """Return the part's results: for each program what it ended with, and the probe's findings."""
    results, not_run = [], {}
    why = missing(box)
    for name, expect in [*ANYWHERE.items(), *ON_A_CARD.items()]:
        reason = why if name in ON_A_CARD or why == NO_TORCH else ""
        if not reason and clock.left() < 10:
            reason = NO_TIME
        if reason:
            not_run[name] = reason
            continue
        with tempfile.TemporaryDirectory() as folder:
            told = Path(folder) / "told.json"
            command = [sys.executable, root / "scripts/probe.py", "--json", told, "--"]
            command.append(PROGRAMS / f"{name}.py")
            done = run(command, env, min(EACH, clock.left()), cwd=folder)
            try:
                report = json.loads(told.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                report = None
        for text in ("stdout", "stderr"):
            done[text] = done[text].replace(anonymous(str(PROGRAMS)), "/home/me")
        results.append(dict(done, name=name, expect=expect, report=report))
    return {"results": results, "not_run": not_run}
