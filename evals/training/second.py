"""The model behind waiting.bin: logistic regression over the words and the meaning of a report.

It has a class for each waiting entry, and one for everything else.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter

import numpy
from remote_gpu_trainer.retrieval import binary_parts
from remote_gpu_trainer.retrieval.vocabulary import pack as pack_words
from scipy import sparse
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from .steps import in_steps

C, MOST_STEPS = 30, 300
LEAST_REPORTS = 2  # in which a word must occur to count
LEAST_STEP = 1  # of 127: smaller coefficients are dropped

Sample = tuple[dict[str, float], array, str, float]  # words with weights, point, label, weight


class Second:
    """Fit at once. `classes`: the waiting entries, and the class of everything else as the last."""

    def __init__(self, samples: list[Sample], classes: list[str]):
        count = Counter(word for values, *_ in samples for word in values)
        self.classes = classes
        self.rarity = {
            word: math.sqrt(math.log(len(samples) / (1 + n)))
            for word, n in count.items()
            if n >= LEAST_REPORTS
        }
        self._vectorizer = DictVectorizer(dtype=numpy.float32)
        labels, shares = [label for *_, label, _ in samples], [share for *_, share in samples]
        rows = self._rows([sample[:2] for sample in samples], self._vectorizer.fit_transform)
        model = LogisticRegression(C=C, max_iter=MOST_STEPS, tol=1e-3).fit(
            rows, labels, sample_weight=shares
        )
        order = [list(model.classes_).index(name) for name in classes]
        self.coefficients, self.bias = model.coef_[order], model.intercept_[order]

    def _rows(self, read: list, vectors) -> sparse.csr_matrix:
        words = vectors([self._scaled(values) for values, _ in read])
        return sparse.hstack(
            [words, sparse.csr_matrix(numpy.array([point for _, point in read], dtype="float32"))]
        ).tocsr()

    def _scaled(self, values: dict[str, float]) -> dict[str, float]:
        weighed = {
            word: value * self.rarity[word] for word, value in values.items() if word in self.rarity
        }
        length = math.sqrt(sum(v * v for v in weighed.values())) or 1.0
        return {word: v / length for word, v in weighed.items()}

    def pack(self, about: dict) -> bytes:
        """The bytes of waiting.bin."""
        known = self._vectorizer.feature_names_
        of_words, of_points = self.coefficients[:, : len(known)], self.coefficients[:, len(known) :]
        scale = float(abs(of_words).max()) / 127
        steps = numpy.rint(of_words / scale).astype(int)
        kept, starts, places, values = [], array("I", [0]), array("H"), array("b")
        for column in numpy.argsort(-abs(steps).max(0), kind="stable"):
            told = numpy.nonzero(abs(steps[:, column]) >= LEAST_STEP)[0]
            if not len(told) or "\n" in known[column]:
                continue
            kept.append(known[column])
            places.extend(told.tolist())
            values.extend(steps[told, column].tolist())
            starts.append(len(places))
        points_scale, points = in_steps(of_points.T)
        parts = {
            "word places starts": starts,
            "word places": places,
            "word values": values,
            "points": points,
        }
        parts["rarity"] = array("f", [self.rarity[word] for word in kept])
        head = {
            **about,
            "classes": self.classes,
            "scales": {"words": scale, "points": points_scale},
            "bias": [round(float(b), 5) for b in self.bias],
        }
        return binary_parts.pack(head, parts | pack_words(kept))
