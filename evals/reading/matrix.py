"""Kinds of fault, on each of several ranks, in runs of 2 to 16 ranks under torchrun and gloo: is the rank named that failed first, and its fault explained?

Of the first ten kinds those whose names hash lowest (SHA-256) are the ones that the readers of logs were tuned on. The other five were graded once the readers were done. The later kinds were known while the readers learned to tell what became of a rank.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from remote_gpu_trainer.lookup.answer import answer_for

from .runs import texts_of

WORKER = Path(__file__).with_name("faulty_worker.py")
LAUNCHER = "run.log"
RANKS = (2, 4, 8)
MANY = (16, 5)  # how many ranks, and which of them fails
STEP = 3
LIMIT_S = 600  # eight ranks on a busy machine start slowly, and torchrun waits for a stopped one
NOTHING = ""
FIRST_LOOK = (
    "The other half was graded once they were done: the rank was named in .94 of 51 runs with torchrun's own log and in 1.00 "
    "without it, nobody in one of 3 and 3 of 3 where all ranks failed, and the entry was right in .83 and .91 of 53. Two faults came to light and "
    "were mended (an exception such as `BadZipFile`, whose name ends in no usual word; a rank that torchrun ended while it was leaving), so the figures "
    "below are no longer those of a half that nobody looked at."
)
OTHERS = (
    " Somebody who saw neither made 36 more runs of 2 to 16 ranks, other programs and faults (a lock held in C, an exception that is caught, "
    "two ranks at once, a wrong size …), which were asked once on 2026-11-28: of 32 failures the rank, or that all failed alike, was told in 24, before these readers in 22 "
    "(three of these by saying nothing where all failed). Wrong were a size mismatch, a caught exception among several, a rank that never joined, one that `spawn` started, and the second of two that failed. "
    "Of four healthy runs two got O1: their loss stays at ln(10) for two epochs."
)
# {a kind of the worker's: (what it is called, the right entries of each of its forms, best first)}.
# No entry explains a setting that the user's own code misses; D20 is right about the other ranks then.
KINDS = {
    "exception": ("exception", (("O14",), (NOTHING, "D20"), ("DP4",))),
    "killed": ("SIGKILL", (("U3",),)),
    "stopped": ("SIGSTOP", (("D20", "D19"),)),
    "memory": ("out of memory", (("U54",),) * 3),
    "left": ("exit 0 too early", (("D9", "D20"),)),
    "skipped": ("skipped collective", (("D20", "D19"),)),
    "mismatch": ("mismatch of collectives", (("D19",),)),
    "slow": ("slow rank", (("D20", "D19"),)),
    "disk": ("full disk", (("U6",),) * 2),
    "sample": ("bad sample", (("DP20",),) * 2),
    # These came later, and all readers know them.
    "gil": ("lock of Python kept", (("D20", "D19"),)),
    "caught": ("caught exception", (("D20", "D19"), ("O14",))),
    "second": ("second failure elsewhere", (("O14",), ("DP20",))),
    "both": ("two ranks fail", (("O14", "DP4"),) * 2),
    "branch": ("barrier of one rank", (("D19", "D21"),)),
    "size": ("other size", (("D19",),) * 3),
    # It says nothing at all, and no entry is about it alone.
    "abort": ("SIGABRT", (("U50", NOTHING),)),
}
FIRST_KINDS = tuple(KINDS)[:10]  # of which one half was kept out
ALIKE = ("exception", "memory", "disk", "sample")  # kinds that may befall all ranks at once


@dataclass(frozen=True)
class Cell:
    """One run. `who`: the rank that fails, None where all do."""

    kind: str
    form: int
    ranks: int
    who: int | None

    @property
    def name(self) -> str:
        who = "all" if self.who is None else self.who
        return f"{KINDS[self.kind][0]} ({self.form}), rank {who} of {self.ranks}"

    def right(self, launcher: bool) -> tuple[str, ...]:
        """The right entries, NOTHING among them where none need be named.

        Without the launcher's word nobody can know of a signal, only that a rank is gone."""
        told = KINDS[self.kind][1][self.form]
        if self.kind in ("killed", "abort") and not launcher:
            return (*told, "U3", "D20")
        return told[:1] if self.who is None else told

    @property
    def culprits(self) -> set[int | None]:
        """The ranks that fail on their own: one, or the next one too; {None} where all do."""
        if self.kind == "both" and self.who is not None:
            return {self.who, (self.who + 1) % self.ranks}
        return {self.who}

    @property
    def tuned(self) -> bool:
        return self.kind in tuned_kinds()

    @property
    def later(self) -> bool:
        return self.kind not in FIRST_KINDS


@dataclass(frozen=True)
class Graded:
    """What the look-up says of a cell's logs.

    `tells`: whether they tell the rank at all. `named`: all ranks that it says failed on their own.
    """

    cell: Cell
    rank: int | None
    ids: tuple[str, ...]
    tells: bool
    launcher: bool
    named: frozenset[int]

    @property
    def right_rank(self) -> bool:
        return self.rank in self.cell.culprits and (
            len(self.cell.culprits) < 2 or self.named == self.cell.culprits
        )

    @property
    def right_entry(self) -> bool:
        return next(iter(self.ids), NOTHING) in self.cell.right(self.launcher)


def tuned_kinds() -> list[str]:
    """The half of the kinds that the readers of logs were tuned on."""
    by_hash = sorted(
        FIRST_KINDS, key=lambda kind: hashlib.sha256(KINDS[kind][0].encode()).hexdigest()
    )
    return by_hash[: len(by_hash) // 2]


def all_cells() -> list[Cell]:
    """Each kind on rank 0, 1, the middle and the last one; some on all ranks at once."""
    found = []
    for kind, (_, forms) in KINDS.items():
        places = [(ranks, who) for ranks in RANKS for who in sorted({0, 1, ranks // 2, ranks - 1})]
        places += [(ranks, None) for ranks in RANKS if kind in ALIKE]
        places.append(MANY)
        found += [
            Cell(kind, number % len(forms), ranks, who)
            for number, (ranks, who) in enumerate(places)
        ]
    return found


def some_cells() -> list[Cell]:
    """A tenth that takes seconds: each kind on rank 1 of 2, and four with 4 ranks.

    Not "stopped": torchrun waits half a minute before it kills a rank that ignores it."""
    return [
        cell
        for cell in all_cells()
        if cell.kind != "stopped"
        and (
            (cell.ranks, cell.who) == (2, 1)
            or (
                cell.kind in ("killed", "sample", "size", "branch")
                and (cell.ranks, cell.who) == (4, 2)
            )
        )
    ]


def record(cell: Cell, folder: Path) -> Path:
    """Run it, the logs in `folder`. Raises subprocess.TimeoutExpired."""
    folder.mkdir(parents=True)
    who = "all" if cell.who is None else str(cell.who)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={cell.ranks}",
        "--log-dir",
        str(folder / "logs"),
        "--redirects",
        "3",
        str(WORKER),
        cell.kind,
        str(cell.form),
        who,
        str(STEP),
    ]
    detail = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"} if cell.kind == "mismatch" else {}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **detail}
    with open(folder / LAUNCHER, "wb") as log:
        run = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            run.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            run.terminate()  # it ends its ranks, a stopped one after half a minute
            run.wait(60)
            raise
    return folder


def record_all(cells: list[Cell], folder: Path, workers: int = 2) -> dict[str, dict[str, str]]:
    """Run them under `folder`. Returns {name of a cell: {file of its logs: text}}."""
    with ThreadPoolExecutor(workers) as pool:
        places = pool.map(lambda pair: record(pair[1], folder / f"{pair[0]:03d}"), enumerate(cells))
        return {cell.name: _texts(place) for cell, place in zip(cells, places, strict=True)}


def _texts(place: Path) -> dict[str, str]:
    """{file: text} without the name that torchrun gave to the run."""
    return {re.sub(r"^logs/[^/]+/", "logs/", name): text for name, text in texts_of(place).items()}


def grade(logs: dict[str, dict[str, str]], folder: Path, launcher: bool = True) -> list[Graded]:
    """Each recorded cell with what the look-up says of it. `folder`: to write the logs to.

    `launcher`: with torchrun's own log."""
    graded = []
    for number, cell in enumerate(all_cells()):
        if cell.name not in logs:
            continue
        home, texts = folder / str(number), dict(logs[cell.name])
        if not launcher:
            del texts[LAUNCHER]
        for name, text in texts.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text, encoding="utf-8")
        found = answer_for(log=str(home))
        rank = (found.first_failure or {}).get("rank")
        ids = tuple(match["id"] for match in found.matches)
        told = cell.who is None or tells(cell, texts)
        named = frozenset(place["rank"] for place in found.first_failures)
        graded.append(Graded(cell, rank, ids, told, launcher, named))
    return graded


_RANK = re.compile(r"/(\d+)/std(?:out|err)\.log$")
_VARIES = re.compile(
    r"\[rank\d+\]|\[[\d.:a-f]*\]:\d+|0x[0-9a-f]+|\(pid: \d+\)|\b\d{5,}\b|\d\d:\d\d:\d\d[\d.]*"
)
_ENDED = re.compile(r"rank +: (\d+).*\n *exitcode +: (-?\d+)")


def tells(cell: Cell, texts: dict[str, str]) -> bool:
    """Whether anything in these logs sets the failing rank apart from each other one.

    Either it wrote what no other rank wrote, ports and times aside, or the launcher says that it
    alone ended so. No reader can do better than that. Of two ranks in different collectives, or
    with tensors of different sizes, neither is the odd one."""
    if cell.kind in ("mismatch", "branch", "size") and cell.ranks == 2:
        return False
    wrote: dict[int, list[str]] = {}
    for name, text in sorted(texts.items()):
        found = _RANK.search(name)
        if found:
            wrote.setdefault(int(found[1]), []).append(_VARIES.sub("#", text))
    ended = dict(_ENDED.findall(texts.get(LAUNCHER, "")))
    codes = [ended.get(str(rank)) for rank in range(cell.ranks)]
    others = [rank for rank in range(cell.ranks) if rank not in cell.culprits]
    return all(wrote.get(cell.who) != wrote.get(rank) for rank in others) or all(
        codes[cell.who] != codes[rank] for rank in others
    )


def shares(graded: list[Graded]) -> tuple[float, float, float]:
    """(the failing rank named where the logs tell it, nobody named where all failed, the right entry first)."""

    def share(right: list[bool]) -> float:
        return sum(right) / len(right) if right else 1.0

    return (
        share([one.right_rank for one in graded if one.cell.who is not None and one.tells]),
        share([one.right_rank for one in graded if one.cell.who is None]),
        share([one.right_entry for one in graded]),
    )


def table(with_log: list[Graded], without: list[Graded]) -> str:
    """The matrix as Markdown."""
    tuned = tuned_kinds()
    lines = [
        f"# {len(KINDS)} kinds of fault in runs of 2, 4, 8 and 16 ranks",
        "",
        "Each cell is a real run under torchrun and gloo; the logs are in `tests/records/matrix.json`. "
        "`python -m pytest --all --record tests/logs/test_matrix.py` makes all of them anew and writes this page.",
        "",
        "A cell says which rank `rgt lookup --log DIR` names first, then its first entry. Bold is wrong. "
        "A dash is nobody, or nothing. In brackets: the logs don't tell the rank, because another one ended like it. "
        "Where two ranks fail, the answer must name both.",
        "",
        "The readers of logs were tuned on "
        + ", ".join(KINDS[kind][0] for kind in tuned)
        + ", the half of the first ten kinds whose names have the lowest SHA-256. "
        + FIRST_LOOK
        + f" The last {len(KINDS) - len(FIRST_KINDS)} kinds came later, and the readers were tuned on them too."
        + OTHERS,
        "",
        "| | rank named | nobody where all failed | entry |",
        "|---|---|---|---|",
    ]
    for what, graded in (("with torchrun's own log", with_log), ("without it", without)):
        for half, chosen in (
            ("", graded),
            (", kinds tuned on", [one for one in graded if one.cell.tuned]),
            (", other kinds", [one for one in graded if not (one.cell.tuned or one.cell.later)]),
            (", later kinds", [one for one in graded if one.cell.later]),
        ):
            rank, nobody, entry = shares(chosen)
            lines.append(
                f"| {len(chosen)} runs {what}{half} | {rank:.2f} | {nobody:.2f} | {entry:.2f} |"
            )
    for what, graded in (("With torchrun's own log", with_log), ("Without it", without)):
        places = list(dict.fromkeys((one.cell.ranks, one.cell.who) for one in graded))
        places.sort(key=lambda place: (place[0], place[1] is None, place[1] or 0))
        lines += [
            "",
            f"## {what}",
            "",
            "| Fault | "
            + " | ".join(f"{'all' if who is None else who} of {ranks}" for ranks, who in places)
            + " |",
            "|---|" + "---|" * len(places),
        ]
        for kind, (title, _) in KINDS.items():
            row = [_shown(graded, kind, place) for place in places]
            lines.append(f"| {title} | " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def _shown(graded: list[Graded], kind: str, place: tuple[int, int | None]) -> str:
    for one in graded:
        if one.cell.kind == kind and (one.cell.ranks, one.cell.who) == place:
            rank = "–" if one.rank is None else str(one.rank)
            rank = rank if one.right_rank or not one.tells else f"**{rank}**"
            entry = one.ids[0] if one.ids else "–"
            return f"{rank if one.tells else f'({rank})'} {entry if one.right_entry else f'**{entry}**'}"
    return ""
