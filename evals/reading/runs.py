"""Forty runs of 2 to 4 ranks under torchrun and gloo, one rank of each failing in a known way: is it the one that is named, and is its failure the one that is explained?"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from remote_gpu_trainer.lookup.answer import answer_for

WORKER = Path(__file__).with_name("worker.py")
HOWS = ("exception", "exit", "kill", "hang")
ENTRIES = {
    "exception": "O14",
    "kill": "U3",
}  # what explains a label out of bounds, and a SIGKILL that says nothing
FORMS = ("merged", "folder", "tee")
LIMIT_S = 120


@dataclass(frozen=True)
class Run:
    """`form`: merged (what a terminal shows), folder (torchrun's --log-dir beside its own output), or tee (torchrun's --tee, which prefixes each line and may show a
    traceback before what the rank printed earlier). `says`: whether each line names its rank."""

    how: str
    ranks: int
    who: int
    step: int
    form: str
    says: str

    @property
    def name(self) -> str:
        return f"{self.how} of rank {self.who} of {self.ranks} at step {self.step}, {self.form}, {self.says}"


def all_runs() -> list[Run]:
    """Ten of each way to fail, over ranks, steps and forms."""
    found = []
    for number in range(40):
        ranks = 2 + number // 4 % 3
        found.append(
            Run(
                HOWS[number % 4],
                ranks,
                number // 5 % ranks,
                1 + number // 7 % 5,
                FORMS[number // 12 % 3],
                ("ranks", "plain")[number // 4 % 2],
            )
        )
    return found


def record(run: Run, folder: Path) -> Path:
    """Run it. Returns the log file, or the folder of logs. Raises subprocess.TimeoutExpired."""
    folder.mkdir(parents=True)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={run.ranks}",
    ]
    if run.form == "folder":
        command += ["--log-dir", str(folder / "logs"), "--redirects", "3"]
    elif run.form == "tee":
        command += ["--tee", "3"]
    command += [str(WORKER), run.how, str(run.who), str(run.step), run.says]
    with open(folder / "run.log", "wb") as log:
        subprocess.run(
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    return folder if run.form == "folder" else folder / "run.log"


def named(path: Path) -> tuple[int | None, list[str]]:
    """(the rank that the look-up says failed first, the entries that it names)."""
    found = answer_for(log=str(path))
    return (found.first_failure or {}).get("rank"), [match["id"] for match in found.matches]


def record_all(runs: list[Run], folder: Path, workers: int = 2) -> dict[str, dict[str, str]]:
    """Run them under `folder`. Returns {name of a run: {file of its log: text}}."""
    with ThreadPoolExecutor(workers) as pool:
        places = pool.map(lambda pair: record(pair[1], folder / f"{pair[0]:02d}"), enumerate(runs))
        return {run.name: texts_of(place) for run, place in zip(runs, places, strict=True)}


def texts_of(place: Path) -> dict[str, str]:
    """{file: text} of a log or a folder of logs, without the paths of this machine."""
    home = place if place.is_dir() else place.parent
    files = sorted(path for path in home.rglob("*") if path.is_file())
    found = {}
    for path in files:
        text = path.read_text(encoding="utf-8", errors="replace")
        for here, there in (
            (str(WORKER.parent), "/root/code"),
            (sys.prefix, "/opt/venv"),
            (sys.base_prefix, "/usr"),
            (str(home), "/root/run"),
        ):
            text = text.replace(here, there)
        found[path.relative_to(home).as_posix()] = text
    return found


def grade(logs: dict[str, dict[str, str]], folder: Path) -> list[tuple[Run, int | None, list[str]]]:
    """Each of these runs with the rank and the entries that the look-up names. `folder`: to write the logs to."""
    graded = []
    for run in all_runs():
        if run.name not in logs:
            continue
        home = folder / str(len(graded))
        for name, text in logs[run.name].items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text, encoding="utf-8")
        graded.append((run, *named(home if run.form == "folder" else home / "run.log")))
    return graded
