"""A run that copies, for tests: its workers are real processes, its clock is the test's."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from pathlib import Path

from remote_gpu_trainer.runner import spec
from remote_gpu_trainer.runner.context import Run

from tests.conftest import ROOT
from tests.runner.clocks import Clock

# What a run.sh does for the one verb that these tests need.
WORKER = """\
import json, sys
sys.path.insert(0, sys.argv[1])
from remote_gpu_trainer.runner import spec, sync
from remote_gpu_trainer.runner.context import Run
sys.exit(sync.worker(Run(spec.of(json.loads(sys.argv[2]))), sys.argv[4]))
"""


class RealClock(Clock):
    """A clock that tests own, but whose naps wait for real processes."""

    def nap(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.02))
        super().nap(seconds)


def make(folder: Path, rank: int = 0, **fields) -> Run:
    """Return a run whose checkpoints and final.bin go to the folder `durable`."""
    given = {
        "name": "toy",
        "run_dir": str(folder / "run"),
        "checkpoint_folder": str(folder / "ckpt"),
        "checkpoint_pattern": "step-*.pt",
        "durable": str(folder / "durable"),
        "durable_what": [str(folder / "ckpt"), "final.bin"],
        "durable_on_this_box": True,
        **fields,
    }
    given["timings"] = {"tick": 0.1, "sync_wait": 0.5, **fields.get("timings", {})}
    script = folder / "worker.sh"
    words = " ".join(
        map(quoted, (sys.executable, "-c", WORKER, str(ROOT / "server"), json.dumps(given)))
    )
    script.write_text(f'exec {words} "$@"\n')
    run = Run(spec.of(given), script=str(script), rank=rank, clock=RealClock())
    run.folder.make()
    return run


def quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def fill(folder: Path, *steps: int, size: int = 2000) -> None:
    """Write checkpoints of these steps, and final.bin."""
    (folder / "ckpt").mkdir(exist_ok=True)
    for step in steps:
        (folder / f"ckpt/step-{step}.pt").write_bytes(bytes([step % 251]) * size)
    (folder / "run").mkdir(exist_ok=True)
    (folder / "run/final.bin").write_bytes(b"the end" * 100)


def rows(run: Run) -> list[dict[str, str]]:
    """Return what synced.tsv says."""
    names = ("t", "mode", "result", "item", "to", "seconds", "detail")
    return [
        dict(zip(names, row.split("\t"), strict=True))
        for row in run.folder.read("synced.tsv").splitlines()
    ]


def events(run: Run, name: str) -> list[dict]:
    """Return the run's events of one name."""
    lines = map(json.loads, run.folder.read("events.jsonl").splitlines())
    return [line for line in lines if line["event"] == name]


def tool(folder: Path, name: str, text: str, monkeypatch) -> Path:
    """Put a program on the path."""
    place = folder / "bin"
    place.mkdir(exist_ok=True)
    (place / name).write_text(text)
    (place / name).chmod(0o755)
    path = os.environ["PATH"]
    if not path.startswith(f"{place}:"):
        monkeypatch.setenv("PATH", f"{place}:{path}")
    return place / name


def without(name: str, folder: Path, monkeypatch) -> None:
    """Leave a path of everything but one program."""
    place = folder / "without"
    place.mkdir()
    for where in os.environ["PATH"].split(":"):
        for program in Path(where).iterdir() if Path(where).is_dir() else ():
            link = place / program.name
            if (
                program.name != name
                and not link.is_symlink()
                and program.stat().st_mode & stat.S_IXUSR
            ):
                link.symlink_to(program)
    monkeypatch.setenv("PATH", str(place))


def same_size(path: Path) -> bytes:
    """Change a byte of a file, but neither its size nor its time; return what it was."""
    right, when = path.read_bytes(), path.stat().st_mtime_ns
    path.write_bytes(right[:-9] + b"!" + right[-8:])
    os.utime(path, ns=(when, when))
    return right
