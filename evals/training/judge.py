"""Fits the few numbers that put meaning, words and signatures together: judge.json."""

from __future__ import annotations

import numpy
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.signatures import SignatureIndex
from remote_gpu_trainer.numbers import log_reading
from remote_gpu_trainer.retrieval import encoder, index, search

from .corpus import Report

STRANGE_CLAIMED = 0.05  # share of strange reports with a claim, at the limit `low`
RIGHT = {"medium": 0.92, "high": 0.97}  # share of right claims above these limits
UNSEEN = 0.005  # share of the reports in scope below the limit `titles`


def fit(reports: list[Report], known: index.Index, model: encoder.Encoder) -> dict:
    """The contents of judge.json, from reports that the encoder never saw."""
    signatures = SignatureIndex(bundle.load().signatures)
    rows = []
    for report in reports:
        evidence = log_reading.from_text(report.text)
        rows.append(search.features(search.gist(evidence), signatures.find(evidence), known, model))
    inside = [at for at, report in enumerate(reports) if report.labels]
    wanted = numpy.zeros((len(inside), len(known.ids)), "f")
    for row, at in enumerate(inside):
        for place, name in enumerate(reports[at].labels):
            wanted[row, known.column[name]] = 0.5 if place else 1.0
    wanted /= wanted.sum(1, keepdims=True)
    order = _fitted_order(numpy.stack([rows[at] for at in inside]), wanted)
    judge = search.Judge(tuple(order), (0.0,) * len(search.SIGNS), 0.0, {})
    shares = [judge.shares(row) for row in rows]
    signs = numpy.stack([search.signs(r, s) for r, s in zip(rows, shares, strict=True)])
    right = numpy.array(
        [
            known.ids[int(share.argmax())] in report.labels
            for share, report in zip(shares, reports, strict=True)
        ],
        "f",
    )
    weights, bias = _fitted_right(signs, right)
    sure = 1 / (1 + numpy.exp(-(signs @ weights) - bias))
    strange = numpy.array([not report.labels for report in reports])
    low = float(numpy.quantile(sure[strange], 1 - STRANGE_CLAIMED))
    limits = {"low": low}
    for name, share in RIGHT.items():
        steps = [t for t in numpy.arange(0.01, 1, 0.01) if t >= limits["low"]]
        limits[name] = next(t for t in steps if right[sure >= t].mean() >= share)
    limits["high"] = max(limits["high"], limits["medium"])
    limits["titles"] = float(numpy.quantile(sure[~strange], UNSEEN))
    return {
        "order": dict(zip(search.FEATURES, map(_short, order), strict=True)),
        "right": dict(zip(search.SIGNS, map(_short, weights), strict=True)),
        "bias": _short(bias),
        "limits": {name: _short(limit) for name, limit in limits.items()},
        "fitted_on": {"in scope": len(inside), "strange": int(strange.sum())},
    }


def _short(value) -> float:
    return round(float(value), 4)


def _fitted_order(rows: numpy.ndarray, wanted: numpy.ndarray) -> numpy.ndarray:
    """Weights of FEATURES that make `wanted` likeliest among all entries, by gradient descent."""
    spread = rows.std((0, 1)) + 1e-6
    rows, weights = rows / spread, numpy.zeros(rows.shape[2])
    for _ in range(3000):
        scores = rows @ weights
        shares = numpy.exp(scores - scores.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        weights -= 0.1 * (
            numpy.einsum("rf,rfk->k", shares - wanted, rows) / len(rows) + 4e-3 * weights
        )
    return weights / spread


def _fitted_right(signs: numpy.ndarray, right: numpy.ndarray) -> tuple[numpy.ndarray, float]:
    """(weights of SIGNS, bias) of a logistic regression, by gradient descent."""
    middle, spread = signs.mean(0), signs.std(0) + 1e-6
    scaled, weights, bias = (signs - middle) / spread, numpy.zeros(signs.shape[1]), 0.0
    for _ in range(5000):
        wrong = 1 / (1 + numpy.exp(-(scaled @ weights) - bias)) - right
        weights -= 0.3 * (wrong @ scaled / len(right) + 2e-3 * weights)
        bias -= 0.3 * wrong.mean()
    weights = weights / spread
    return weights, float(bias - weights @ middle)
