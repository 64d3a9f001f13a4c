"""Makes server/remote_gpu_trainer/retrieval/waiting.bin, a classifier of the waiting entries.

By it entries that ranking.bin hasn't learned are found in people's own words.

usage: python evals/training/train_waiting.py [--report] [--check]
(needs: pip install '.[train]', a quarter of an hour; --check needs nothing)

Learns the waiting entries from their own words, from evals/training/data/practice/waiting/ and from
the tuning half of evals/sets/waiting.jsonl. Everything else is one class: the other entries, all
other practice reports, the tuning half of the cases. No reporting half is read. `--report`
cross-validates and writes nothing; `--check` exits 1 when waiting.bin was made from other texts
than lie here.
"""

from __future__ import annotations

import argparse
import json
import sys
from array import array
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent / "server")]

from grading.cases import read_cases
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.signatures import SignatureIndex
from remote_gpu_trainer.numbers import log_reading
from remote_gpu_trainer.retrieval import ranking, search, waiting
from remote_gpu_trainer.retrieval.waiting import OTHER
from remote_gpu_trainer.text import whole_file

from training import corpus

FOLDS = 4
# What a text counts for: a real report, an invented one, one about a learned entry, and the words
# of a learned entry itself.
CASE, PRACTICE, LEARNED, WORDS = 3.0, 1.0, 0.3, 0.5
LIMITS = [*(x / 100 for x in range(30, 96, 5)), 0.97, 0.98, 0.99]
# Shares of held-out reports about learned entries, and about none, that it may answer.
INSIDE, OUTSIDE = 0.004, 0.01
ALONE = 0.98  # where nothing else is claimed


@dataclass(frozen=True)
class Text:
    """One text to learn from. `case`: a real report, held out when it is judged."""

    text: str
    labels: tuple[str, ...]
    share: float
    case: bool = False


def waiting_ids() -> list[str]:
    """The entries that ranking.bin doesn't know, in the order of the catalogue."""
    known = ranking.load().column
    return [entry.id for entry in bundle.load().entries if entry.id not in known]


def texts(wait: set[str]) -> list[Text]:
    """Everything to learn from."""
    read = bundle.load()
    found = [
        Text(text, (entry.id,), weight) if entry.id in wait else Text(text, (OTHER,), WORDS)
        for entry in read.entries
        for text, weight in corpus.entry_texts(entry)
    ]
    for path in sorted((HERE / "training/data/practice").rglob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            report = json.loads(line)
            labels = [read.current(name) for name in (report["label"], *report.get("also", []))]
            here = tuple(name for name in labels if name in wait)
            found.append(
                Text(
                    report["text"],
                    here or (OTHER,),
                    PRACTICE if here or report["label"] == ranking.NONE else LEARNED,
                )
            )
    for name in ("cases", "near", "waiting"):
        for case in read_cases(
            HERE / (f"{name}.jsonl" if name == "cases" else f"sets/{name}.jsonl")
        ):
            if case.half == "tuning":
                here = tuple(i for i in map(read.current, [*case.expect, *case.since]) if i in wait)
                found.append(Text(case.text, here or (OTHER,), CASE, case=True))
    return found


def made_from(found: list[Text]) -> dict[str, str]:
    """Hashes of the texts, and of what reading makes of the real reports."""

    def digest(value) -> str:
        return sha256(json.dumps(value, ensure_ascii=False).encode()).hexdigest()[:16]

    return {
        "texts": digest([[text.text, text.labels, text.share] for text in found]),
        "words": digest([corpus.as_read(text.text) for text in found if text.case]),
    }


def main() -> int:
    """Make waiting.bin, report on it or check it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true", help="cross-validate, write nothing")
    parser.add_argument(
        "--check", action="store_true", help="exit 1 when waiting.bin was made from other texts"
    )
    args = parser.parse_args()
    ids = waiting_ids()
    found = texts(set(ids))
    if args.check:
        then, now = waiting.load(), made_from(found)
        wrong = [name for name, value in now.items() if then.made_from.get(name) != value]
        for name in wrong:
            print(
                f"waiting.bin: made from other {name} than today's; "
                "run python evals/training/train_waiting.py",
                file=sys.stderr,
            )
        return int(bool(wrong) or then.classes != [*ids, OTHER])
    classes = [*ids, OTHER]
    read, literal = _read(found)
    about = {"made_from": made_from(found), "limits": {"beside": 1.0, "alone": 1.0}}
    held = _held_out(found, read, classes, about)
    bounds = {"beside": _limit(found, literal, held), "alone": ALONE}
    print(f"limits {bounds}")
    if not args.report:
        made = _fitted(found, read, classes).pack({**about, "limits": bounds})
        whole_file.write(waiting.PLACE, made, 0o644)
        print(f"wrote {waiting.PLACE.name}, {len(made)} bytes")
    return 0


def _read(found: list[Text]) -> tuple[list[tuple], list[bool]]:
    """(the words and the point of each text, whether a literal text of a real report decides)."""
    signatures, made = SignatureIndex(bundle.load().signatures), ranking.load()
    read, literal = [], []
    for text in found:
        seen = log_reading.from_text(text.text)
        asked = search.read_of(seen, made)
        read.append((asked.words, array("f", asked.point)))
        literal.append(text.case and any(hit.decisive for hit in signatures.find(seen)))
    return read, literal


def _fitted(
    found: list[Text], read: list[tuple], classes: list[str], but: frozenset[int] = frozenset()
):
    from training.second import Second

    rows = [row for row in range(len(found)) if row not in but]
    return Second(
        [
            (*read[row], label, found[row].share / len(found[row].labels))
            for row in rows
            for label in found[row].labels
        ],
        classes,
    )


def _held_out(
    found: list[Text], read: list[tuple], classes: list[str], about: dict
) -> dict[int, tuple[float, str]]:
    """{row of a real report: (probability of any waiting entry, the likeliest)}.

    Each is judged by models that didn't see it.
    """
    cases, held = [row for row, text in enumerate(found) if text.case], {}
    for fold in range(FOLDS):
        out = frozenset(cases[fold::FOLDS])
        judge = waiting.Waiting(_fitted(found, read, classes, out).pack(about))
        for row in out:
            shares = judge.shares(*read[row])
            held[row] = 1 - shares[-1], max(zip(shares[:-1], classes, strict=False))[1]
    return held


def _limit(found: list[Text], literal: list[bool], held: dict[int, tuple[float, str]]) -> float:
    """The least bound at which no more than INSIDE and OUTSIDE are answered.

    It goes by the reports that no literal text decides. Near misses, which were chosen to look like
    an entry, set no bound.
    """
    asked = {case.text: bool(case.expect) for case in read_cases(HERE / "cases.jsonl")}
    rows = [row for row in held if not literal[row]]
    mine, others = (
        [row for row in rows if found[row].labels != (OTHER,)],
        [row for row in rows if found[row].labels == (OTHER,)],
    )
    inside, outside = (
        [row for row in others if asked.get(found[row].text) is told] for told in (True, False)
    )
    near = [row for row in others if found[row].text not in asked]
    limit = 1.0
    for bound in LIMITS:
        a, b, c, d = (
            [row for row in part if held[row][0] >= bound] for part in (mine, inside, outside, near)
        )
        right = sum(held[row][1] in found[row].labels for row in a)
        print(
            f"from {bound}: {right} right of {len(a)} answered of {len(mine)}; "
            f"about learned entries {len(b)} of {len(inside)}, "
            f"about none {len(c)} of {len(outside)}, near misses {len(d)} of {len(near)}"
        )
        if limit == 1.0 and len(b) <= INSIDE * len(inside) and len(c) <= OUTSIDE * len(outside):
            limit = bound
    return limit


if __name__ == "__main__":
    sys.exit(main())
