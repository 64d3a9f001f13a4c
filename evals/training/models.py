"""Models of words: a linear classifier over the entries, one for "any entry at all", and BM25F.

And the bytes of all models together.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from dataclasses import dataclass

import numpy
from remote_gpu_trainer.retrieval import binary_parts, words
from remote_gpu_trainer.retrieval.ranking import NONE
from remote_gpu_trainer.retrieval.vocabulary import pack as pack_words
from sklearn.feature_extraction import DictVectorizer
from sklearn.svm import LinearSVC

from . import head, network
from .steps import in_steps

C = 0.5  # inverse of the penalty
MOST_STEPS = 2000
LEAST_STEP = 2  # of 127: smaller coefficients are dropped, which halves the file
LEAST_PAIRS = 2  # reports in which two neighbouring words must occur to count
FIELD_WEIGHTS = {
    "title": 3.0,
    "reported_as": 2.5,
    "symptom": 2.0,
    "signatures": 2.0,
    "check": 0.6,
    "root_cause": 0.8,
    "fix": 0.5,
    "false_alarm": 0.3,
}
K1, B, USUAL_LENGTH = 1.2, 0.4, 60

Sample = tuple[dict[str, float], str, float]  # words with weights, label, weight


@dataclass(frozen=True)
class Learned:
    """Coefficients, with each word's rarity multiplied in.

    One row for each class, and a last one for "any entry at all".
    """

    vocabulary: list[str]
    coefficients: numpy.ndarray
    bias: numpy.ndarray
    rarity: dict[str, float]
    unknown: float


def learn(samples: list[Sample], classes: list[str]) -> Learned:
    """Fit both classifiers, linear support vector machines.

    The first weighs words by the root of their rarity. The second sees which words occur, weighted
    by rarity.
    """
    frequency = Counter(word for values, *_ in samples for word in values)
    kept = [
        {w: v for w, v in values.items() if frequency[w] >= LEAST_PAIRS or "+" not in w}
        for values, *_ in samples
    ]
    rarity = {word: math.log(len(samples) / (1 + count)) for word, count in frequency.items()}
    labels, shares = [label for _, label, _ in samples], [share for *_, share in samples]
    vectorizer = DictVectorizer()
    matrix = _narrow(vectorizer.fit_transform([_scaled(values, rarity, 0.5) for values in kept]))
    vocabulary = list(vectorizer.feature_names_)
    which = LinearSVC(C=C, max_iter=MOST_STEPS, random_state=0).fit(
        matrix, labels, sample_weight=shares
    )
    rows = _narrow(
        vectorizer.transform([_scaled(dict.fromkeys(values, 1.0), rarity, 1.0) for values in kept])
    )
    any_at_all = LinearSVC(C=C, max_iter=MOST_STEPS, random_state=0).fit(
        rows, [label != NONE for label in labels], sample_weight=shares
    )
    order = [list(which.classes_).index(name) for name in classes]
    rare = numpy.array([rarity[word] for word in vocabulary])
    return Learned(
        vocabulary,
        numpy.vstack([which.coef_[order] * numpy.sqrt(rare), any_at_all.coef_ * rare]),
        numpy.append(which.intercept_[order], any_at_all.intercept_),
        rarity,
        math.log(len(samples)),
    )


def _scaled(values: dict[str, float], rarity: dict[str, float], power: float) -> dict[str, float]:
    """Weights times a power of rarity, scaled to length 1."""
    weighed = {word: value * rarity[word] ** power for word, value in values.items()}
    length = math.sqrt(sum(v * v for v in weighed.values())) or 1.0
    return {word: v / length for word, v in weighed.items()}


def _narrow(matrix):
    """The solver takes 32-bit indices only."""
    matrix.indices, matrix.indptr = (
        matrix.indices.astype(numpy.int32),
        matrix.indptr.astype(numpy.int32),
    )
    return matrix


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
    for entry, bag in zip(entries, bags, strict=True):
        for word, tf in bag.items():
            idf = math.log(1 + (len(bags) - count[word] + 0.5) / (count[word] + 0.5))
            table.setdefault(word, {})[classes.index(entry.id)] = idf * tf * (K1 + 1) / (tf + K1)
    return table


def pack(
    about: dict,
    learned: Learned,
    counted: dict[str, dict[int, float]],
    net: network.Network,
    meant: head.Head,
) -> bytes:
    """The bytes of ranking.bin.

    Coefficients are in 127 steps of their matrix's largest; the smallest steps are left out.
    """
    rows = {word: learned.coefficients[:-1, row] for row, word in enumerate(learned.vocabulary)}
    speaks = dict(zip(learned.vocabulary, learned.coefficients[-1], strict=True))
    scales = {
        "learned": float(abs(learned.coefficients[:-1]).max()) / 127,
        "counted": max(v for row in counted.values() for v in row.values()) / 127,
    }
    kept = list(net.vocabulary)
    parts: dict[str, array] = {}
    cells = {"learned": {}, "counted": {}}
    known = sorted(set(rows) | set(counted))
    for word in known:
        if len(rows.get(word, ())):
            steps = numpy.rint(rows[word] / scales["learned"]).astype(int)
            cells["learned"][word] = [
                (int(c), int(steps[c])) for c in numpy.nonzero(abs(steps) >= LEAST_STEP)[0]
            ]
        cells["counted"][word] = [
            (column, round(v / scales["counted"]))
            for column, v in sorted(counted.get(word, {}).items())
        ]
    first = set(kept)
    kept += [
        word
        for word in known
        if word not in first
        and "\n" not in word
        and (cells["learned"].get(word) or cells["counted"].get(word))
    ]
    for name, table in cells.items():
        starts, places, values = array("I", [0]), array("H"), array("b")
        for word in kept:
            for column, value in table.get(word, ()):
                places.append(column)
                values.append(max(-127, min(127, value)))
            starts.append(len(places))
        parts |= {f"{name} starts": starts, f"{name} places": places, f"{name} values": values}
    for name, matrix in (
        ("words to hidden", net.words),
        ("hidden to classes", net.classes),
        ("points to head", meant.points),
        ("head to classes", meant.classes),
    ):
        scales[name], parts[name] = in_steps(matrix)
    parts["rarity"] = array("f", [learned.rarity.get(word, learned.unknown) for word in kept])
    parts["inside"] = array("f", [float(speaks.get(word, 0.0)) for word in kept])
    parts |= pack_words(kept)
    about_all = {
        **about,
        "scales": scales,
        "unknown": learned.unknown,
        "bias": _rounded(learned.bias),
        "hidden_bias": _rounded(net.hidden_bias),
        "network_bias": _rounded(net.bias),
        "head_bias": _rounded(meant.hidden_bias),
        "meaning_bias": _rounded(meant.bias),
    }
    return binary_parts.pack(about_all, parts)


def _rounded(values: numpy.ndarray) -> list[float]:
    return [round(float(value), 5) for value in values]
