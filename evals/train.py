"""Makes server/remote_gpu_trainer/ranking.bin, the numbers that the look-up ranks with.

usage: python evals/train.py [--report] [--check]     (needs: pip install '.[train]')

Learns from the catalogue's own words, from the practice reports in evals/practice/ (invented, labelled, none of them
a case) and from the tuning half of evals/cases.jsonl. The reporting half is never read. `--report` cross-validates on
the tuning half and writes nothing; `--check` exits 1 when ranking.bin was made from other texts than lie here.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
from array import array
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "server"))

from remote_gpu_trainer import catalogue, evidence, ranking, search, words  # noqa: E402
from remote_gpu_trainer.features import features  # noqa: E402
from remote_gpu_trainer.signatures import SignatureIndex  # noqa: E402

NONE = ranking.NONE
FIELD_WEIGHTS = {"title": 3.0, "reported_as": 2.5, "symptom": 2.0, "signatures": 2.0, "check": 0.6, "root_cause": 0.8, "fix": 0.5, "false_alarm": 0.3}
K1, B = 1.2, 0.4
C = 12.0  # inverse of the classifier's L2 penalty, chosen on the tuning half
FOLDS = 5
FALSE_ANSWERS = 0.02  # wanted on the tuning half; the target on unseen reports is 0.04


def made_from(entries, practice: list[dict], cases: list[dict]) -> dict[str, str]:
    """A hash of everything that the ranking is made from."""
    def digest(value) -> str:
        return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]

    return {
        "catalogue": digest([entry.markdown for entry in entries]),
        "practice": digest(practice),
        "tuning": digest([(c["id"], c["text"], c["expect"]) for c in cases]),
    }


def read_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def practice_reports(known: set[str]) -> list[dict]:
    """Practice reports; those of entries that don't exist (yet) are reports that nothing explains."""
    found = []
    for path in sorted((HERE / "practice").glob("*.jsonl")):
        for report in read_lines(path):
            found.append({**report, "label": report["label"] if report["label"] in known else NONE})
    return found


def tuning_half() -> list[dict]:
    cases = read_lines(HERE / "cases.jsonl")
    return [c for c in cases if c["id"].split("-")[0][-1] in "01234567" and "text" in c]


def entry_texts(entry) -> list[tuple[str, float]]:
    """(text, weight): each way of saying an entry is a small training report of its own."""
    texts = [(entry.title, 1.0), (entry.symptom, 1.0), (f"{entry.title}\n{entry.symptom}\n{entry.root_cause}", 0.7)]
    texts += [(said, 1.0) for said in entry.reported_as]
    texts += [(s.text, 1.0) for s in entry.signatures if not s.is_regex]
    return texts


def fit(samples: list[tuple[dict, str, float]], classes: list[str], c: float = C):
    """Multinomial logistic regression over word weights: (vocabulary, coefficients, bias)."""
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import LogisticRegression

    frequency = Counter(word for values, _, _ in samples for word in values)
    kept = [({w: v for w, v in values.items() if frequency[w] > 1 or "+" not in w}, label, weight) for values, label, weight in samples]
    vectorizer = DictVectorizer()
    matrix = vectorizer.fit_transform([values for values, _, _ in kept])
    model = LogisticRegression(C=c, max_iter=300, tol=1e-3)
    model.fit(matrix, [label for _, label, _ in kept], sample_weight=[weight for _, _, weight in kept])
    order = [list(model.classes_).index(name) for name in classes]
    return list(vectorizer.feature_names_), model.coef_[order], model.intercept_[order]


def counted(entries, classes: list[str]) -> dict[str, dict[int, float]]:
    """BM25F: {word: {class column: weight}} for a question word that occurs."""
    pseudo: list[Counter] = []
    for entry in entries:
        bag: Counter = Counter()
        for name, weight in FIELD_WEIGHTS.items():
            value = getattr(entry, name)
            if name == "signatures":
                value = " \n ".join(s.text for s in value)
            text = value if isinstance(value, str) else " \n ".join(value)
            tokens = words.words(text)
            share = weight / (1 - B + B * len(tokens) / 60)
            for token in tokens:
                bag[token] += share
        pseudo.append(bag)
    count = Counter(word for bag in pseudo for word in bag)
    table: dict[str, dict[int, float]] = {}
    for entry, bag in zip(entries, pseudo):
        column = classes.index(entry.id)
        for word, tf in bag.items():
            idf = math.log(1 + (len(entries) - count[word] + 0.5) / (count[word] + 0.5))
            table.setdefault(word, {})[column] = idf * tf * (K1 + 1) / (tf + K1)
    return table


def build(classes, vocabulary, coefficients, bias, bm25, weights, limits, about) -> bytes:
    import numpy

    every = sorted(set(vocabulary) | set(bm25))
    row_of = {word: row for row, word in enumerate(vocabulary)}
    scale_learned = float(abs(coefficients).max()) / 127
    scale_counted = max(v for row in bm25.values() for v in row.values()) / 127
    kept_words, learned, plain = [], [], []
    for word in every:
        if "\n" in word:
            continue
        row = coefficients[:, row_of[word]] if word in row_of else numpy.zeros(len(classes))
        values = [(c, int(round(v / scale_learned))) for c, v in enumerate(row)]
        values = [(c, v) for c, v in values if abs(v) >= 1]
        others = [(c, int(round(v / scale_counted))) for c, v in sorted(bm25.get(word, {}).items())]
        others = [(c, v) for c, v in others if v]
        if values or others:
            kept_words.append(word)
            learned.append(values)
            plain.append(others)
    matrices = []
    for rows, scale in ((learned, scale_learned), (plain, scale_counted)):
        starts, columns, cells = array("I", [0]), array("H"), array("b")
        for row in rows:
            for column, value in row:
                columns.append(column)
                cells.append(max(-127, min(127, value)))
            starts.append(len(columns))
        matrices.append((starts, columns, cells, scale))
    head = {"classes": classes, "weights": weights, "limits": limits, "bias": [round(float(b), 5) for b in bias], "made_from": about}
    return ranking.pack(head, kept_words, matrices)


def combine_weights(groups, start=None, steps: int = 600, rate: float = 0.05):
    """Conditional logit by gradient: groups of (matrix classes × voters, right columns)."""
    import numpy

    w = numpy.array(start if start is not None else [1.0, 0.5, 0.2, 1.0, 2.0, 0.5, 0.0, -1.0])
    m, s = numpy.zeros_like(w), numpy.zeros_like(w)
    for step in range(1, steps + 1):
        gradient = 0.01 * (w - numpy.array([1.0, 0, 0, 0, 0, 0, 0, 0]))
        for matrix, right, weight in groups:
            scores = matrix @ w
            p = numpy.exp(scores - scores.max())
            p /= p.sum()
            q = numpy.zeros_like(p)
            q[right] = p[right] / max(p[right].sum(), 1e-12)
            gradient += weight * (matrix.T @ (p - q)) / len(groups)
        m = 0.9 * m + 0.1 * gradient
        s = 0.999 * s + 0.001 * gradient**2
        w -= rate * (m / (1 - 0.9**step)) / (numpy.sqrt(s / (1 - 0.999**step)) + 1e-8)
    return [round(float(x), 4) for x in w]


def limits_from(shares: list[tuple[float, float, bool, bool]]) -> dict[str, float]:
    """(none share, best share, right, in scope) of held-out reports -> the limits of an answer."""
    outside = sorted(none for none, _, _, inside in shares if not inside)
    allowed = int(len(outside) * FALSE_ANSWERS)
    limit = outside[allowed] - 1e-6 if outside else 0.5
    limits = {"none": max(0.05, min(limit, 0.6))}
    answered = sorted(((best, right) for none, best, right, _ in shares if none <= limits["none"]), reverse=True)
    for name, wanted in (("high", 0.95), ("medium", 0.80)):
        right = 0
        bound = 0.999
        for count, (best, hit) in enumerate(answered, 1):
            right += hit
            if right / count >= wanted and count >= 10:
                bound = best
        limits[name] = round(bound, 4)
    limits["medium"] = min(limits["medium"], limits["high"])
    return {name: round(value, 4) for name, value in limits.items()}


class Trainer:
    """Everything that is computed once: features of practice reports, entry texts and tuning cases."""

    def __init__(self):
        self.entries = catalogue.load().entries
        self.classes = [entry.id for entry in self.entries] + [NONE]
        self.practice = practice_reports(set(self.classes))
        self.cases = tuning_half()
        self.signatures = SignatureIndex(self.entries)
        self.bm25 = counted(self.entries, self.classes)
        self.base = [(features(evidence.from_text(text)), entry.id, weight) for entry in self.entries for text, weight in entry_texts(entry)]
        for report in self.practice:
            values = features(evidence.from_text(report["text"]))
            also = [other for other in report.get("also", []) if other in self.classes]
            self.base.append((values, report["label"], 1.0 if not also else 0.75))
            self.base.extend((values, other, 0.25) for other in also)
        self.case_evidence = [evidence.from_text(c["text"]) for c in self.cases]
        self.case_values = [features(e) for e in self.case_evidence]
        self.expected = [[catalogue.load().current(i) for i in c["expect"] if i in self.classes] or [NONE] for c in self.cases]

    def samples(self, rows) -> list[tuple[dict, str, float]]:
        found = list(self.base)
        for row in rows:
            share = 1.5 / len(self.expected[row])
            found.extend((self.case_values[row], name, share) for name in self.expected[row])
        return found

    def ranker(self, rows, weights, limits):
        vocabulary, coefficients, bias = fit(self.samples(rows), self.classes)
        about = made_from(self.entries, self.practice, self.cases)
        return build(self.classes, vocabulary, coefficients, bias, self.bm25, weights, limits, about)

    def held_out(self):
        """Votes for each tuning case by a ranker that did not learn from it."""
        voted = [None] * len(self.cases)
        for fold in range(FOLDS):
            rows = [r for r in range(len(self.cases)) if r % FOLDS != fold]
            made = ranking.Ranking(self.ranker(rows, [1.0] * len(ranking.VOTERS), {"none": 1, "high": 1, "medium": 1}))
            for row in range(fold, len(self.cases), FOLDS):
                voted[row] = search.votes(self.case_values[row], self.signatures.find(self.case_evidence[row]), made)
        return voted


def shares_of(voted: dict, weights: list[float]) -> dict[str, float]:
    scores = {name: sum(w * v for w, v in zip(weights, numbers)) for name, numbers in voted.items()}
    top = max(scores.values())
    total = sum(math.exp(s - top) for s in scores.values())
    return {name: math.exp(s - top) / total for name, s in scores.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true", help="cross-validate on the tuning half, write nothing")
    parser.add_argument("--check", action="store_true", help="exit 1 when ranking.bin was made from other texts")
    args = parser.parse_args()
    if args.check:
        entries = catalogue.load().entries
        known = {e.id for e in entries}
        now = made_from(entries, practice_reports(known), tuning_half())
        then = ranking.load().made_from
        for name in now:
            if now[name] != then.get(name):
                print(f"ranking.bin: made from another {name} ({then.get(name)}) than lies here ({now[name]}); run python evals/train.py", file=sys.stderr)
        return int(now != then)
    import numpy

    trainer = Trainer()
    voted = trainer.held_out()
    groups = []
    for row, votes in enumerate(voted):
        matrix = numpy.array([votes[name] for name in trainer.classes])
        right = [trainer.classes.index(name) for name in trainer.expected[row]]
        groups.append((matrix, right, 1.0))
    weights = combine_weights(groups)
    judged = []
    tops = Counter()
    for row, votes in enumerate(voted):
        shares = shares_of(votes, weights)
        none = shares.pop(NONE)
        order = sorted(shares, key=lambda name: -shares[name])
        inside = trainer.expected[row] != [NONE]
        place = next((i for i, name in enumerate(order) if name in trainer.expected[row]), 99)
        judged.append((none, shares[order[0]], inside and place == 0, inside))
        if inside:
            tops.update({"n": 1, "1": place < 1, "3": place < 3, "10": place < 10})
    limits = limits_from(judged)
    answered = [(n <= limits["none"], right, inside) for n, _, right, inside in judged]
    inside = [a for a in answered if a[2]]
    outside = [a for a in answered if not a[2]]
    print(f"held-out tuning half: {len(inside)} in scope, {len(outside)} outside; ranking alone hit@1 {tops['1'] / tops['n']:.3f} hit@3 {tops['3'] / tops['n']:.3f} hit@10 {tops['10'] / tops['n']:.3f}")
    print(f"with the limit: hit@1 {sum(a and r for a, r, _ in inside) / len(inside):.3f}, silent {sum(not a for a, _, _ in inside)}, false answers {sum(a for a, _, _ in outside)}/{len(outside)}")
    print("weights", dict(zip(ranking.VOTERS, weights)), "limits", limits)
    if not args.report:
        data = trainer.ranker(range(len(trainer.cases)), weights, limits)
        ranking.PLACE.write_bytes(data)
        print(f"wrote {ranking.PLACE} ({len(data)} bytes)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
