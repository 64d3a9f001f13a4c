"""Evidence to the weighted words that the ranking sees.

A decisive line counts in full, and once more under a mark of its own (`x:`). Prose counts in full,
and other lines of a log count little.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from ..logs.judging import Evidence
from ..logs.lines import Line
from .words import as_written, pairs, words

WEIGHT = {
    "exception": 1.0,
    "message": 0.8,
    "failure": 0.8,
    "warning": 0.6,
    "frame": 0.3,
    "trace": 0.0,
    "told": 1.0,
    "plain": 0.5,
    "aside": 0.1,
    "consequence": 0.1,
    "routine": 0.1,
}
MAX_FEATURES = 700


def is_single(word: str) -> bool:
    """Whether a feature is one word of the report: no pair of neighbours, no mark of the whole."""
    return word[0] != "%" and "+" not in word


def readable(word: str) -> str:
    """A counted word without its marks."""
    return word.removeprefix("x:").lstrip("#@")


def wordings(texts: Iterable[str]) -> dict[str, str]:
    """{a word as `readable` gives it: the first wording of it in the texts}."""
    found: dict[str, str] = {}
    for text in texts:
        for word, written in as_written(text).items():
            found.setdefault(readable(word), written)
    return found


def features(evidence: Evidence, told: list[tuple[Line, str, bool]]) -> dict[str, float]:
    """{feature: weight}, at most MAX_FEATURES, for what `telling` gave.

    `a+b` are neighbouring words, `x:a` is a word of a decisive line, `%log` and `%exception` are
    marks of the whole report.
    """
    weights: dict[str, float] = {}
    for line, text, decisive in told:
        weight = 1.0 if decisive or not evidence.is_log else WEIGHT[line.kind]
        tokens = words(text)
        again = 0.15 * weight
        for token in tokens + pairs(tokens):
            if token in weights:
                before = weights[token]
                weights[token] = (before if before > weight else weight) + again
            else:
                weights[token] = weight
        if decisive and line.kind != "frame":
            for token in tokens:
                weights["x:" + token] = 1.0
    if evidence.is_log:
        weights["%log"] = 0.5
    if any(line.kind == "exception" for line in evidence.lines):
        weights["%exception"] = 0.5
    if len(weights) > MAX_FEATURES:
        weights = dict(sorted(weights.items(), key=itemgetter(1), reverse=True)[:MAX_FEATURES])
    return weights
