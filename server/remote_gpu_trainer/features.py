"""Evidence to the weighted words that the ranking sees.

A decisive line counts in full and once more under its own mark (`x:`), prose counts in full, other lines of a log
little, frames only by their function and library, progress bars nothing. Repeats of a line (eight ranks
saying the same) count once.
"""

from __future__ import annotations

import re

from .evidence import Evidence, Line
from .words import pairs, words

WEIGHT = {"exception": 1.0, "message": 0.8, "failure": 0.8, "warning": 0.6, "frame": 0.3, "trace": 0.0, "plain": 0.5, "consequence": 0.1}
MAX_LINES = 120  # distinct lines that count
MAX_FEATURES = 700

_SITE = re.compile(r'.*?(?:site-packages|dist-packages|lib/python3\.\d+)/')
_FRAME = re.compile(r'\s*File "([^"]+)", line \d+(?:, in (\S+))?')
_PATH = re.compile(r"(?:[A-Za-z]:)?(?:[/\\][\w.+-]+){2,}[/\\]?|https?://\S+|0x[0-9a-fA-F]+")
_NO_DIGITS = str.maketrans("", "", "0123456789")


def features(evidence: Evidence) -> dict[str, float]:
    """{word: weight}. Words with a `+` are neighbours, with `x:` they stood in a decisive line."""
    marked = {id(line) for line in evidence.decisive[:5]} if evidence.is_log else set()
    weights: dict[str, float] = {}
    known = weights.get
    seen: set[str] = set()
    for line in _telling_first(evidence, marked):
        text = _readable(line)
        shape = text.translate(_NO_DIGITS).strip()
        if not shape or shape in seen:
            continue
        seen.add(shape)
        if len(seen) > MAX_LINES:
            break
        decisive = id(line) in marked
        weight = 1.0 if decisive or not evidence.is_log else WEIGHT[line.kind]
        tokens = words(text)
        again = 0.15 * weight
        for token in tokens + pairs(tokens):
            before = known(token)
            weights[token] = weight if before is None else (before if before > weight else weight) + again
        if decisive and line.kind != "frame":
            for token in tokens:
                weights["x:" + token] = 1.0
    if evidence.is_log:
        weights["%log"] = 0.5
    if any(line.kind == "exception" for line in evidence.lines):
        weights["%exception"] = 0.5
    if len(weights) > MAX_FEATURES:
        weights = dict(sorted(weights.items(), key=lambda item: -item[1])[:MAX_FEATURES])
    return weights


def _telling_first(evidence: Evidence, marked: set[int]) -> list[Line]:
    """Decisive lines, then the rest from both ends: the head names the program, the tail the end."""
    rest = [line for line in evidence.lines if id(line) not in marked and line.kind != "trace"]
    if len(rest) > 2 * MAX_LINES:
        rest = rest[-MAX_LINES * 3 // 2 :] + rest[: MAX_LINES // 2]
    return [line for line in evidence.decisive if id(line) in marked] + rest


def _readable(line: Line) -> str:
    """A line without paths and addresses; of a frame, the library file and the function."""
    frame = _FRAME.match(line.text) if line.kind == "frame" else None
    if frame:
        inside = _SITE.sub("", frame[1])
        return f"{inside.replace('/', ' ') if inside != frame[1] else ''} {frame[2] or ''}"
    text = line.text
    return _PATH.sub(" ", text) if "/" in text or "\\" in text or "0x" in text else text
