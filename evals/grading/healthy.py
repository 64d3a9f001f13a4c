"""The cases of gpu_health: what a box printed, and the verdict and findings that must follow.

A case is a line of evals/sets/health.jsonl. `capture` names a folder of
tests/gpu_health/gpu_captures, with edits of its raw text: `cells` [[gpu, field, value]] in
nvidia-smi.csv, `log` [lines] behind the kernel log ({PLACE n} is the n-th GPU's), `swaps`
[[file, old, new]], `drop` [files]. Or there is `files` {name: text} alone. `question` goes to
--expect. `expect` is {"verdict", "findings": [[level, gpu, part of the evidence, entry]]}, the last
two as far as a case names them.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import runpy
import tempfile
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CAPTURES = ROOT / "tests" / "gpu_health" / "gpu_captures"
PLACE = re.compile(r"\{PLACE (\d)\}")
CODES = {"fit": 0, "care": 1, "unfit": 1, "unknown": 2}


def run(path: Path) -> tuple[int, list[str]]:
    """(how many cases, what each wrong one gave)."""
    cases = [
        json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()
    ]
    return len(cases), [f"{case['id']}: {fault}" for case in cases for fault in faults(case)]


def faults(case: dict) -> list[str]:
    """What is not as the case expects."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts(case).items():
            (Path(folder) / name).write_text(text, encoding="utf-8", newline="")
        code, answer = ask(folder, case.get("question", ""))
    wanted, found = case["expect"], []
    if answer["verdict"] != wanted["verdict"]:
        found.append(f"verdict: found {answer['verdict']}, expected {wanted['verdict']}")
    if code != CODES[answer["verdict"]]:
        found.append(f"exit code: found {code} with {answer['verdict']}")
    left = list(answer["findings"])
    for want in wanted["findings"]:
        hit = next((one for one in left if _fits(one, want)), None)
        if hit is None:
            found.append(f"found no {want} among {[_brief(one) for one in left]}")
        else:
            left.remove(hit)
    return found + [f"found {_brief(one)}, expected nothing of the kind" for one in left]


def _fits(one: dict, want: list) -> bool:
    level, gpu, says, entry = [*want, *("", None)[len(want) - 2 :]]
    return (
        one["level"] == level
        and one["gpu"] == gpu
        and says.lower() in one["evidence"].lower()
        and entry in (None, one["entry"])
    )


def _brief(one: dict) -> list:
    return [one["level"], one["gpu"], one["evidence"][:80], one["entry"]]


def texts(case: dict) -> dict[str, str]:
    """The files of the case's capture, edited. Raises ValueError for an edit without effect."""
    files = dict(case.get("files", {}))
    if "capture" in case:
        files |= {
            path.name: path.read_text(encoding="utf-8")
            for path in (CAPTURES / case["capture"]).iterdir()
        }
    for gpu, field, value in case.get("cells", []):
        files["nvidia-smi.csv"] = _cell(files["nvidia-smi.csv"], gpu, field, value)
    for name, old, new in case.get("swaps", []):
        if old not in files[name]:
            raise ValueError(f"{case['id']}: {name} holds no {old!r}")
        files[name] = files[name].replace(old, new)
    if "log" in case:
        places = re.findall(r'<gpu id="0000([^"]+)\.0">', files["nvidia-smi-q.xml"])
        lines = [PLACE.sub(lambda told: places[int(told[1])].lower(), line) for line in case["log"]]
        files["dmesg.txt"] += "".join(
            f"[ 9000.{number:06d}] {line}\n" for number, line in enumerate(lines)
        )
    for name in case.get("drop", []):
        del files[name]
    return files


def _cell(text: str, gpu: int, field: str, value: str) -> str:
    lines, column, done = text.split("\n"), None, False
    for at, line in enumerate(lines):
        cells = line.split(", ")
        if cells[0] in ("index", "gpu_bus_id"):
            names = [cell.split(" [")[0] for cell in cells]
            column = names.index(field) if field in names else None
        elif column is not None and cells[0] == str(gpu):
            cells[column], done = value, True
            lines[at] = ", ".join(cells)
    if not done:
        raise ValueError(f"found no {field} of GPU {gpu} to change")
    return "\n".join(lines)


@lru_cache(maxsize=1)
def _main():
    return runpy.run_path(str(ROOT / "scripts" / "gpu_health.py"), run_name="gpu_health")["main"]


def ask(folder: str, question: str) -> tuple[int, dict]:
    """(exit code, answer) of the script over a recording."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = _main()(["--json", "--replay", folder, "--expect", question])
    return code, json.loads(out.getvalue())
