"""Fits the few numbers that put meaning, words and signatures together: judge.json."""

from __future__ import annotations

import numpy
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.signatures import SignatureIndex
from remote_gpu_trainer.logs import reading
from remote_gpu_trainer.logs.informative import gist
from remote_gpu_trainer.retrieval import encoder, index
from remote_gpu_trainer.retrieval import ranking as judging

from .corpus import Report

STRANGE_CLAIMED = 0.04  # share of strange reports with a claim
RIGHT = {"high": 0.985, "medium": 0.9}  # share of right claims at and above these limits
UNSEEN = 0.005  # share of the reports in scope that get no titles


def fit(reports: list[Report], known: index.Index, model: encoder.Encoder) -> dict:
    """The contents of judge.json, from reports that the encoder never saw."""
    signatures = SignatureIndex(bundle.load().signatures)
    rows, texts = [], []
    for report in reports:
        evidence = reading.from_text(report.text)
        text = gist(evidence)
        rows.append(judging.features(text, signatures.find(evidence), known, model))
        texts.append(text)
    inside = numpy.array([bool(report.labels) for report in reports])
    wanted = numpy.zeros((len(reports), len(known.ids)), "f")
    for row, report in enumerate(reports):
        for place, name in enumerate(report.labels):
            wanted[row, known.column[name]] = 0.5 if place else 1.0
    wanted = wanted[inside] / wanted[inside].sum(1, keepdims=True)
    order = _fitted_order(numpy.stack(rows)[inside], wanted)
    judge = judging.Judge(tuple(order), (), (), {})
    shares = [judge.shares(row) for row in rows]
    told = zip(texts, rows, shares, strict=True)
    signs = numpy.stack([judging.signs(*each, known) for each in told])
    firsts = zip([known.ids[int(share.argmax())] for share in shares], reports, strict=True)
    right = numpy.array([first in report.labels for first, report in firsts])
    models = {"right": _fitted(signs, right), "inside": _fitted(signs, inside)}
    sure, scope = (
        1 / (1 + numpy.exp(-(signs @ model[:-1]) - model[-1])) for model in models.values()
    )
    limits = {
        name: next(t for t in numpy.arange(0.01, 1, 0.01) if right[sure >= t].mean() >= share)
        for name, share in RIGHT.items()
    }
    limits["low"] = numpy.quantile(sure[~inside], 1 - STRANGE_CLAIMED)
    limits["titles"] = numpy.quantile(scope[inside], UNSEEN)
    names = (*judging.SIGNS, "constant")
    return {
        "order": dict(zip(judging.FEATURES, order.round(4).tolist(), strict=True)),
        **{k: dict(zip(names, m.round(4).tolist(), strict=True)) for k, m in models.items()},
        "limits": {name: round(float(limit), 4) for name, limit in limits.items()},
        "fitted_on": {"in scope": int(inside.sum()), "strange": int((~inside).sum())},
    }


def _fitted_order(rows: numpy.ndarray, wanted: numpy.ndarray) -> numpy.ndarray:
    """Weights of FEATURES that make `wanted` likeliest among all entries, by gradient descent."""
    spread = rows.std((0, 1)) + 1e-6
    rows, weights = rows / spread, numpy.zeros(rows.shape[2])
    for _ in range(3000):
        scores = rows @ weights
        shares = numpy.exp(scores - scores.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        slope = numpy.einsum("rf,rfk->k", shares - wanted, rows) / len(rows)
        weights -= 0.1 * (slope + 4e-3 * weights)
    return weights / spread


def _fitted(signs: numpy.ndarray, wanted: numpy.ndarray) -> numpy.ndarray:
    """Weights of SIGNS and a constant: a logistic regression by gradient descent."""
    middle, spread = signs.mean(0), signs.std(0) + 1e-6
    scaled, weights, bias = (signs - middle) / spread, numpy.zeros(signs.shape[1]), 0.0
    for _ in range(5000):
        wrong = 1 / (1 + numpy.exp(-(scaled @ weights) - bias)) - wanted
        weights -= 0.3 * (wrong @ scaled / len(wanted) + 2e-3 * weights)
        bias -= 0.3 * wrong.mean()
    weights = weights / spread
    return numpy.append(weights, bias - weights @ middle)
