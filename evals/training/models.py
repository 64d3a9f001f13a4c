"""The three models of words: a classifier over the entries, one for "any entry at all", and BM25F. And their bytes."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from dataclasses import dataclass

import numpy
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from remote_gpu_trainer import ranking, words
from remote_gpu_trainer.ranking import NONE

C = 12.0  # inverse of the L2 penalty; 3, 12 and 50 were tried on the tuning half
FIELD_WEIGHTS = {"title": 3.0, "reported_as": 2.5, "symptom": 2.0, "signatures": 2.0, "check": 0.6, "root_cause": 0.8, "fix": 0.5, "false_alarm": 0.3}
K1, B, USUAL_LENGTH = 1.2, 0.4, 60

Sample = tuple[dict[str, float], str, float, float]  # words with weights, label, weight for each of the two classifiers


@dataclass(frozen=True)
class Learned:
    """Coefficients: one row a class, and a last one for "any entry at all", with each word's rarity already multiplied in."""

    vocabulary: list[str]
    coefficients: numpy.ndarray
    bias: numpy.ndarray
    rarity: dict[str, float]
    unknown: float


def learn(samples: list[Sample], classes: list[str]) -> Learned:
    """Fit both classifiers. The second sees which words occur, weighted by rarity only: how often matters to it little."""
    frequency = Counter(word for values, *_ in samples for word in values)
    kept = [{w: v for w, v in values.items() if frequency[w] > 1 or "+" not in w} for values, *_ in samples]
    rarity = {word: math.log(len(samples) / (1 + count)) for word, count in frequency.items()}
    present = []
    for values in kept:
        length = math.sqrt(sum(rarity[word] ** 2 for word in values)) or 1.0
        present.append({word: rarity[word] / length for word in values})
    labels = [label for _, label, *_ in samples]
    vectorizer = DictVectorizer()
    matrix = vectorizer.fit_transform(kept)
    vocabulary = list(vectorizer.feature_names_)
    which = LogisticRegression(C=C, max_iter=300, tol=1e-3).fit(matrix, labels, sample_weight=[share for *_, share, _ in samples])
    rows, truth = vectorizer.transform(present), [label != NONE for label in labels]
    any_at_all = LogisticRegression(C=C, max_iter=300, tol=1e-3).fit(rows, truth, sample_weight=[share for *_, share in samples])
    order = [list(which.classes_).index(name) for name in classes]
    inside = any_at_all.coef_ * numpy.array([rarity[word] for word in vocabulary])
    return Learned(
        vocabulary, numpy.vstack([which.coef_[order], inside]), numpy.append(which.intercept_[order], any_at_all.intercept_),
        rarity, math.log(len(samples)),
    )  # fmt: skip


def bm25f(entries, classes: list[str]) -> dict[str, dict[int, float]]:
    """{word: {column: weight}}: what a question's word adds to an entry's score."""
    bags: list[Counter] = []
    for entry in entries:
        bag: Counter = Counter()
        for name, weight in FIELD_WEIGHTS.items():
            value = getattr(entry, name)
            value = [s.text for s in value] if name == "signatures" else value
            tokens = words.words(value if isinstance(value, str) else " \n ".join(value))
            for token in tokens:
                bag[token] += weight / (1 - B + B * len(tokens) / USUAL_LENGTH)
        bags.append(bag)
    count = Counter(word for bag in bags for word in bag)
    table: dict[str, dict[int, float]] = {}
    for entry, bag in zip(entries, bags):
        for word, tf in bag.items():
            idf = math.log(1 + (len(bags) - count[word] + 0.5) / (count[word] + 0.5))
            table.setdefault(word, {})[classes.index(entry.id)] = idf * tf * (K1 + 1) / (tf + K1)
    return table


def pack(about: dict, learned: Learned, counted: dict[str, dict[int, float]]) -> bytes:
    """The bytes of ranking.bin: weights in 127 steps of their matrix's largest, zeros left out."""
    rows = {word: learned.coefficients[:-1, row] for row, word in enumerate(learned.vocabulary)}
    speaks = dict(zip(learned.vocabulary, learned.coefficients[-1]))
    scales = float(abs(learned.coefficients[:-1]).max()) / 127, max(v for row in counted.values() for v in row.values()) / 127
    kept, tables = [], ([], [])
    for word in sorted(set(rows) | set(counted)):
        cells = (
            [(column, round(float(v) / scales[0])) for column, v in enumerate(rows.get(word, ()))],
            [(column, round(v / scales[1])) for column, v in sorted(counted.get(word, {}).items())],
        )
        cells = tuple([(column, v) for column, v in row if v] for row in cells)
        if any(cells) and "\n" not in word:
            kept.append(word)
            for table, row in zip(tables, cells):
                table.append(row)
    matrices = []
    for table, scale in zip(tables, scales):
        starts, columns, values = array("I", [0]), array("H"), array("b")
        for row in table:
            for column, value in row:
                columns.append(column)
                values.append(max(-127, min(127, value)))
            starts.append(len(columns))
        matrices.append((starts, columns, values, scale))
    rarity = array("f", [learned.rarity.get(word, learned.unknown) for word in kept])
    inside = array("f", [float(speaks.get(word, 0.0)) for word in kept])
    head = {**about, "bias": [round(float(b), 5) for b in learned.bias], "unknown": learned.unknown}
    return ranking.pack(head, kept, matrices, rarity, inside)
