"""The three models of words: a classifier over the entries, one for "any entry at all", and BM25F. And their bytes."""

from __future__ import annotations

import math
from array import array
from collections import Counter

import numpy
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from remote_gpu_trainer import ranking, words
from remote_gpu_trainer.ranking import NONE

C = 12.0  # inverse of the L2 penalty; 3, 12 and 50 were tried on the tuning half
FIELD_WEIGHTS = {"title": 3.0, "reported_as": 2.5, "symptom": 2.0, "signatures": 2.0, "check": 0.6, "root_cause": 0.8, "fix": 0.5, "false_alarm": 0.3}
K1, B, USUAL_LENGTH = 1.2, 0.4, 60

Sample = tuple[dict[str, float], str, float]  # words with weights, label, weight of the sample


def learn(samples: list[Sample], classes: list[str]) -> tuple[list[str], numpy.ndarray, numpy.ndarray]:
    """(vocabulary, coefficients, bias): one row a class, and a last one for INSIDE."""
    frequency = Counter(word for values, _, _ in samples for word in values)
    kept = [{w: v for w, v in values.items() if frequency[w] > 1 or "+" not in w} for values, _, _ in samples]
    labels = [label for _, label, _ in samples]
    shares = [share for _, _, share in samples]
    vectorizer = DictVectorizer()
    matrix = vectorizer.fit_transform(kept)
    which = LogisticRegression(C=C, max_iter=300, tol=1e-3).fit(matrix, labels, sample_weight=shares)
    any_at_all = LogisticRegression(C=C, max_iter=300, tol=1e-3).fit(matrix, [label != NONE for label in labels], sample_weight=shares)
    order = [list(which.classes_).index(name) for name in classes]
    coefficients = numpy.vstack([which.coef_[order], any_at_all.coef_])
    return list(vectorizer.feature_names_), coefficients, numpy.append(which.intercept_[order], any_at_all.intercept_)


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


def pack(about: dict, learned, counted: dict[str, dict[int, float]]) -> bytes:
    """The bytes of ranking.bin: weights rounded to a hundredth-and-a-bit of the largest, zeros left out."""
    vocabulary, coefficients, bias = learned
    rows = {word: coefficients[:, row] for row, word in enumerate(vocabulary)}
    scales = float(abs(coefficients).max()) / 127, max(v for row in counted.values() for v in row.values()) / 127
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
    return ranking.pack({**about, "bias": [round(float(b), 5) for b in bias]}, kept, matrices)
