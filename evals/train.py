"""Makes server/remote_gpu_trainer/retrieval/ranking.bin, the numbers that the look-up ranks with.

usage: python evals/train.py [--learn ID ...] [--taught FILE [--taught-whole FILE]] [--report]
           [--check] [--jobs N]
(needs: pip install '.[train]'; --check needs nothing)

Learns from the catalogue's own words, from the practice reports in evals/training/data/practice/
(invented, labelled, none of them a case) and from the tuning half of evals/cases.jsonl. The
reporting half is never read. `--report` cross-validates on the tuning half and writes nothing;
`--check` exits 1 when ranking.bin was made from other texts than lie here.

An entry that ranking.bin doesn't know waits: its literal texts find it, and waiting.bin does
(train_waiting.py). `--learn` names those to learn beside the known ones, `--learn all` takes every
one. An entry needs practice reports of its own first, or it costs its neighbours more than it
brings.

`--taught` names the file that teach.py made: the two networks learn from it too. Without it, two
more reports of a hundred get no answer. `--taught-whole` names the file that teach.py made once it
had read the tuning half: the ranking that ships learns from that one, those that are held out from
the first.
"""

from __future__ import annotations

import argparse
import json
import sys
from array import array
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "server")]

from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.signatures import SignatureIndex
from remote_gpu_trainer.logs.salient_lines import salient
from remote_gpu_trainer.numbers import log_reading
from remote_gpu_trainer.retrieval import binary_parts, meaning, ranking, voting
from remote_gpu_trainer.retrieval.features import features
from remote_gpu_trainer.retrieval.gist import gist
from remote_gpu_trainer.text import whole_file
from training import corpus

FOLDS = 5


class Texts:
    """Every text to learn from, read once, as words with weights."""

    def __init__(self, learn: list[str], taught: Path | None = None, whole: Path | None = None):
        self.catalogue = bundle.load()
        known = (
            {*ranking.load().column, *learn}
            if ranking.PLACE.exists() and learn != ["all"]
            else self.catalogue.by_id
        )
        self.entries = [entry for entry in self.catalogue.entries if entry.id in known]
        self.practice = corpus.practice_reports(self.catalogue, known)
        tuning = corpus.tuning_half(self.catalogue, known)
        self.cases = tuning + corpus.set_aside(
            self.practice
        )  # each is judged once by models that didn't learn from it
        self.classes = [entry.id for entry in self.entries] + [ranking.NONE]
        self.signatures = SignatureIndex(self.catalogue.signatures)
        self._encoder = meaning.load()
        self.base, self.meant = [], []
        for entry in self.entries:
            for text, weight in corpus.entry_texts(entry):
                self._add(text, [(entry.id, weight)])
        for report in self.practice:
            if not report["aside"]:
                self._add(report["text"], corpus.shared(report), report["found"])
        self.evidence, self.values, self.points = zip(
            *(self._read(case["text"]) for case in self.cases), strict=True
        )
        self.taught = self._judged(taught) if taught else None
        self.taught_whole = self._judged_again(taught, whole) if whole else self.taught
        self.about = {
            "classes": self.classes,
            "made_from": corpus.made_from(self.entries, self.practice, tuning),
        }

    def _read(self, text: str) -> tuple[log_reading.Evidence, dict[str, float], list[float]]:
        """A text as evidence, as words with weights, and as a point of meaning."""
        told = salient(found := log_reading.from_text(text))
        return found, features(found, told), self._encoder.vector(gist(told))

    def _add(self, text: str, labels: list[tuple[str, float]], found: bool = False) -> None:
        """One sample for each label.

        A found report teaches meaning alone: the gate goes by words, and was worse with them.
        """
        _, values, numbers = self._read(text)
        point = array("f", numbers)
        self.meant += [(point, label, share) for label, share in labels]
        if not found:
            self.base += [(values, label, share) for label, share in labels]

    def _judged(self, path: Path):
        """What a teacher said about texts, which are read as any report is.

        Raises ValueError when it knew other entries.
        """
        import numpy
        from training.network import Taught

        kept = numpy.load(path)
        classes = kept["classes"].tolist()
        if sorted(classes) != sorted(self.classes):
            raise ValueError(
                f"{path}: the teacher knows {len(classes)} classes, not these {len(self.classes)}; "
                "run evals/training/teach.py with the same --learn"
            )
        _, values, points = zip(*map(self._read, json.loads(kept["texts"].tobytes())), strict=True)
        return Taught(
            list(values),
            numpy.array(points, dtype="float32"),
            kept["chances"][:, [classes.index(name) for name in self.classes]],
        )

    def _judged_again(self, first: Path, path: Path):
        """The same texts with what the teacher said later. Raises ValueError for other texts."""
        import numpy

        before, kept = numpy.load(first), numpy.load(path)
        if (
            before["texts"].tobytes() != kept["texts"].tobytes()
            or before["classes"].tolist() != kept["classes"].tolist()
        ):
            raise ValueError(
                f"{path}: its texts are not those of {first}; "
                "make both in one run of evals/training/teach.py"
            )
        classes = kept["classes"].tolist()
        return replace(
            self.taught, chances=kept["chances"][:, [classes.index(name) for name in self.classes]]
        )

    def samples(self, rows) -> tuple[list, list]:
        """The base and the tuning cases of these rows.

        (word weights, label, weight) for the models of words, (vector, label, weight) for that of
        meaning.
        """
        found, meant = list(self.base), list(self.meant)
        for row in rows:
            shared = corpus.shared_of_case(self.cases[row])
            found += [(self.values[row], label, share) for label, share in shared]
            meant += [(self.points[row], label, share) for label, share in shared]
        return found, meant


_texts: Texts  # of a worker, which is forked: nothing is read or sent twice


def _keep(texts: Texts) -> None:
    global _texts
    _texts = texts
    import torch

    torch.set_num_threads(1)


def _fitted(left_out: list[int]) -> bytes:
    """A ranking of everything but these tuning cases, without weights of its votes."""
    import numpy
    from training import head, models, network

    taught = _texts.taught if left_out else _texts.taught_whole
    samples, meant_samples = _texts.samples(sorted(set(range(len(_texts.cases))) - set(left_out)))
    learned = models.learn(samples, _texts.classes)
    points, labels, shares = zip(*meant_samples, strict=True)
    meant = head.learn(
        numpy.array(points, dtype="float32"), list(labels), list(shares), _texts.classes, taught
    )
    counted = models.bm25f(_texts.entries, _texts.classes)
    return models.pack(
        _texts.about,
        learned,
        counted,
        network.learn(samples, _texts.classes, learned.rarity, taught),
        meant,
    )


def _held_out(rows: list[int]) -> list:
    """The votes on these tuning cases by models that didn't see them."""
    from training import tuning

    blank = {
        "weights": [1.0] * len(ranking.VOTERS),
        "gate_weights": [],
        "gate": [0.0] * len(ranking.GATE),
        "limits": {},
    }
    made = ranking.Ranking(binary_parts.told_again(_fitted(rows), blank))
    found = []
    for row in rows:
        hits = [
            hit
            for hit in _texts.signatures.find(_texts.evidence[row])
            if hit.entry_id in made.column
        ]
        votes = voting.votes(made.question(_texts.values[row]), _texts.points[row], hits, made)
        right = tuple(
            made.column[name] for name in _texts.cases[row]["labels"] if name != ranking.NONE
        )
        found.append(
            tuning.HeldOut(
                votes, right, _texts.cases[row]["near"], _texts.cases[row].get("aside", False)
            )
        )
    return found


def main() -> int:
    """Make ranking.bin, report on it or check it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--learn",
        nargs="+",
        default=[],
        metavar="ID",
        help="entries to learn that ranking.bin doesn't know yet, or 'all' "
        "(default: those that it knows)",
    )
    parser.add_argument(
        "--taught",
        type=Path,
        metavar="FILE",
        help="what a teacher said about many texts (evals/training/teach.py)",
    )
    parser.add_argument(
        "--taught-whole",
        type=Path,
        metavar="FILE",
        help="what it said once it had read the tuning half too (evals/training/teach.py --whole)",
    )
    parser.add_argument(
        "--report", action="store_true", help="cross-validate on the tuning half, write nothing"
    )
    parser.add_argument(
        "--check", action="store_true", help="exit 1 when ranking.bin was made from other texts"
    )
    parser.add_argument(
        "--jobs", type=int, default=2, help="processes; each takes a core and 3 GB (default: 2)"
    )
    args = parser.parse_args()
    if args.check:
        return check()
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    from training import tuning

    unknown = [name for name in args.learn if name != "all" and name not in bundle.load().by_id]
    if unknown:
        parser.error(f"found {', '.join(unknown)}, expected ids of the catalogue, or all")
    if args.taught_whole and not args.taught:
        parser.error("found --taught-whole alone, expected --taught beside it")
    texts = Texts(args.learn, args.taught, args.taught_whole)
    rows = range(len(texts.cases))
    folds = [[row for row in rows if row % FOLDS == fold] for fold in range(FOLDS)]
    with ProcessPoolExecutor(
        args.jobs, multiprocessing.get_context("fork"), _keep, [texts]
    ) as pool:
        whole = None if args.report else pool.submit(_fitted, [])
        held = [report for fold in pool.map(_held_out, folds) for report in fold]
    confirmed = [
        report for report in held if not report.aside
    ]  # what was set aside fits the gate and its limit, and weighs no vote
    weights, plain = (
        tuning.voter_weights(confirmed, len(ranking.VOTERS)),
        tuning.voter_weights(confirmed, len(ranking.VOTERS) - 1),
    )
    gate = tuning.gate_weights(held, plain)
    judged = [tuning.judge(report, weights, plain, gate) for report in held]
    bounds = tuning.limits(judged)
    print(tuning.summary(judged, weights, gate, bounds))
    if not args.report:
        made = binary_parts.told_again(
            whole.result(),
            {"weights": weights, "gate_weights": plain, "gate": gate, "limits": bounds},
        )
        whole_file.write(ranking.PLACE, made, 0o644)
        print(f"wrote {ranking.PLACE.name}, {len(made)} bytes")
    return 0


def check() -> int:
    """1 when the hashes in ranking.bin aren't those of the texts here, else 0.

    An entry that it hasn't learned yet is named, and is no fault: its literal texts find it.
    """
    read, made = bundle.load(), ranking.load()
    learned = [entry for entry in read.entries if entry.id in made.column]
    waiting = [entry.id for entry in read.entries if entry.id not in made.column]
    now = corpus.made_from(
        learned, corpus.practice_reports(read, made.column), corpus.tuning_half(read, made.column)
    )
    then = made.made_from
    if waiting:
        print(
            "found by literal texts and by waiting.bin (evals/training/train_waiting.py) "
            f"until --learn takes them in: {', '.join(waiting)}"
        )
    for name, value in now.items():
        if then.get(name) != value:
            print(
                f"ranking.bin: made from other {name} than today's; run python evals/train.py",
                file=sys.stderr,
            )
    return int(now != then)


if __name__ == "__main__":
    sys.exit(main())
