"""The box check on a real card: plain, under load, and its check of numbers again and again."""

import json
import re
import sys
import tempfile
from pathlib import Path

from apart import MOST, WHOLE, anonymous, run
from machine import NO_TIME, missing

STRESS = 20  # seconds of load
NUMBERS = 100  # seconds of a load, a fifth of which are for numbers: 20 s
# Lines of a kernel log that say something of a card, its memory or its link. The rest belongs to
# whoever runs the machine.
OF_A_CARD = re.compile(
    r"NVRM|nvidia|xid|\bpcie|\bAER\b|oom|out of memory|hardware error|mce:", re.I
)
IDS = [
    (re.compile(r"\b(GPU|MIG)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), 1),
    (re.compile(r"(?i)(<serial>|<board_id>|serial[^\n:]*: *)[\w-]{6,}"), 2),
]


def run_check(root, env, clock, *words):
    """Run scripts/gpu_health.py with --json and return its output, parsed, and what it took."""
    check = root / "scripts/gpu_health.py"
    command = [sys.executable, check, "--json", "--python", sys.executable, *words]
    done = run(command, env, clock.left(), most=WHOLE)
    try:
        answer = json.loads(done["stdout"])
    except ValueError:
        answer = None
    return dict(done, answer=answer, stdout="" if answer else done["stdout"][-MOST:])


def without_ids(text):
    """Replace what names one card in the world: the same id by the same made-up one."""
    known = {}
    for pattern, keep in IDS:
        if keep == 1:
            text = pattern.sub(
                lambda m: known.setdefault(
                    m[0], f"{m[1]}-00000000-0000-0000-0000-{len(known) + 1:012d}"
                ),
                text,
            )
        else:
            text = pattern.sub(r"\g<1>0000000000000", text)
    return text


def capture_of(folder):
    """Return the files of a recording, by name, without what only concerns this machine."""
    files = {}
    for path in sorted(folder.iterdir()):
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.name == "dmesg.txt":
            text = "".join(line for line in text.splitlines(True) if OF_A_CARD.search(line))
        files[path.name] = without_ids(anonymous(text))
    return files


def replayed(root, env, clock, files):
    """Return the verdict on a capture, as anybody gets it from the record."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        command = [sys.executable, root / "scripts/gpu_health.py", "--json", "--replay", folder]
        done = run(command, env, clock.left(), most=WHOLE)
    try:
        return json.loads(done["stdout"])["verdict"]
    except (ValueError, KeyError):
        return None


def count_alarms(root, env, clock):
    """Run the check of numbers alone, for as many rounds as its time allows -> what it said.

    No card here is known to be faulty, so that each fault that it tells is a false alarm. `lines`
    holds them.
    """
    data = root / "server/remote_gpu_trainer/gpu_health/box_check/data"
    worker = (data / "numbers_worker.py").read_text(encoding="utf-8")
    command = [sys.executable, data / "in_turn.py", json.dumps({"seconds": NUMBERS}), worker]
    done = run(command, env, clock.left(), most=WHOLE)
    lines = []
    for line in done["stdout"].splitlines():
        if line.startswith("GPU_HEALTH "):
            lines.append(json.loads(line[len("GPU_HEALTH ") :]))
    products = [line for line in lines if line["stage"] == "numbers wrong"]
    rest = ("numbers memory", "numbers copy", "numbers host")
    others = [line for line in lines if line["stage"] in rest]
    cards = [line for line in lines if line["stage"] == "numbers done"]
    return {
        "rc": done["rc"],
        "seconds": done["seconds"],
        "products": sum(card["products"] for card in cards),
        "false_alarms": sum(card["faults"] for card in cards) + len(others),
        "cards": cards,
        "lines": products + others,
        "stderr": done["stderr"][-MOST:],
    }


def run_part(root, env, box, clock):
    """Return the part's results."""
    results, not_run, numbers = [], {}, None
    runs = {"plain": ()}
    why = missing(box)
    if why:
        not_run.update(stress=why, numbers=why)
    else:
        runs["stress"] = ("--stress", str(STRESS))
    for name, words in runs.items():
        if clock.left() < STRESS + 10:
            not_run[name] = NO_TIME
            continue
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "capture"
            done = run_check(root, env, clock, *words, "--record", place)
            files = capture_of(place) if place.is_dir() else {}
        done["stdout"] = without_ids(done["stdout"])
        done["answer"] = json.loads(without_ids(json.dumps(done["answer"])))
        verdict = replayed(root, env, clock, files) if files else None
        results.append(dict(done, name=name, capture=files, replayed=verdict))
    if not why:
        if clock.left() < NUMBERS / 5 + 10:
            not_run["numbers"] = NO_TIME
        else:
            numbers = count_alarms(root, env, clock)
    return {"results": results, "not_run": not_run, "numbers": numbers}
