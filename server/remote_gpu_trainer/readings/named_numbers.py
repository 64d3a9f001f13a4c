"""The numbers of a row with their names, by the words before them or by the header above them.

Nothing here judges whether a name is the one that is asked for: `line` does. Python 3.8.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .names import HELD_OUT, TRAINED, kind_of, words_of

BEFORE = 60  # characters before a number in which its name may be

_UNIT = r"(?:[ ]?(?:ms|s/it|it/s|s|[GM]i?B?|%))?"
_VALUE = (
    r"[-+]?(?:(?:\d{1,30}(?:\.\d{0,30}|,\d{2,6}(?![\d,]))?|\.\d{1,30})(?:[eE][-+]?\d{1,4})?"
    r"|(?:nan|inf(?:inity)?)(?:\.0)?\b)"
)
_NUMBER = re.compile(rf"(?<![\w.@+-])({_VALUE})({_UNIT})(?![\w%]|\.\w)", re.I)
_CELL = re.compile(rf"({_VALUE})({_UNIT})", re.I)
_NAMED = re.compile(
    r"((?:[^\W\d][\w/@.-]{0,39}[ ]){0,3}[^\W\d][\w/@.-]{0,39})"
    r"(?:[ ]?\((?:ms|s|GB?|MB|[^\W\d]{1,12})\))?[\"']?[\s|]*[:=：]?[\s|]*"
    r"(?:tensor\()?[\[(\"']{0,2}$"
)
_WRAPPED = re.compile(r"np\.float\d\d\(([^()]{1,30})\)")
_SPEED = re.compile(r"(?<![\d.])(\d{1,9}(?:\.\d{1,9})?) ?(it/s|s/it|ms/step|s/step|ms/it)\b")
_BAR = re.compile(r"\s\d{1,3}%\|.*")
_ARROW = re.compile(r" ?(?:--?>|→)")
_LENGTH = re.compile(r"\d(/\d{1,12}) \[")  # of a bar: 39/100 [00:12<00:19, 3.2it/s]


class Named(NamedTuple):
    """A number as it stands in a row. `gap`: the text since the number before it, with its name.
    `text`, `unit`: the number as written. `end`: where it ends."""

    name: str
    value: float
    gap: str
    text: str
    unit: str
    end: int


def read_words(text: str) -> list[tuple[str, float]]:
    """Return (name, value) of each number that follows a name, and the seconds of a step."""
    text = unwrap(text)
    found, held_out = named_numbers(text)
    pairs = [(each.name, each.value) for each in found]
    pairs += _step_times(text)
    # "Validation: loss 0.3": the words before the first name say it.
    head = text.find(pairs[0][0]) if pairs and not held_out else 0
    if head > 0 and HELD_OUT.intersection(words_of(text[:head])):
        pairs = [("val " + name, value) for name, value in pairs]
    return pairs


def unwrap(text: str) -> str:
    """Return a row with np.float32(0.3) as 0.3."""
    return _WRAPPED.sub(r"\1", text) if "np.float" in text else text


def named_numbers(text: str) -> tuple[list[Named], bool]:
    """Return each number that follows a name; whether the last ones are of held-out data.

    A name that says so counts for those after it, until one says that it is of training.
    """
    found: list[Named] = []
    held_out = text.lstrip().startswith("* ")  # " * Acc@1 71.2" sums up an evaluation
    end, within = 0, ""  # of the last number; the name of the list that is open
    for match in _NUMBER.finditer(text):
        before = text[max(end, match.start() - BEFORE) : match.start()]
        end = match.end()
        if text[end : end + 1] == "/" and "." not in match[1]:  # 10/100 counts
            continue
        if _ARROW.match(text, end):  # "Validation loss decreased (inf --> 0.43)": the best so far
            continue
        named = _NAMED.search(before)
        number = (_number(match[1], match[2]), before, match[1], match[2].strip(), end)
        if not named:
            if within and before.strip() == ",":  # a list of scores
                found.append(Named(f"{within} {len(found)}", *number))
            continue
        name = _without_numbers(named[1])
        within = name if before.endswith("[") and kind_of(name)[0] == "score" else ""
        words = words_of(name)
        if HELD_OUT.intersection(words):
            held_out = True
        elif TRAINED.intersection(words):
            held_out = False
        elif held_out:  # "Validation: loss 0.3, acc 0.8"
            name = "val " + name
        found.append(Named(name, *number))
    return found, held_out


def _without_numbers(name: str) -> str:
    """A name of up to four words without those that hold digits, unless it is the last one."""
    *before, last = name.split()
    return " ".join([word for word in before if not any(map(str.isdigit, word))] + [last])


def _step_times(text: str) -> list[tuple[str, float]]:
    """The seconds of a step, by a unit such as it/s.

    Bars of other lengths are of other work, so that each length has a name of its own.
    """
    pairs = []
    for speed in _SPEED.finditer(text):
        value = float(speed[1])
        if value > 0:
            seconds = {"it/s": 1 / value, "ms/step": value / 1000, "ms/it": value / 1000}
            lengths = _LENGTH.findall(text, 0, speed.start())
            of_work = f"{lengths[-1]} " if lengths else ""
            pairs.append((f"{of_work}s/it", seconds.get(speed[2], value)))
    return pairs


def header(text: str) -> list[str]:
    """Return the names of columns, if a row has only names and one is that of a metric."""
    cells = _cells(_BAR.sub("", text))
    if (
        len(cells) < 3
        or any(_float(cell) is not None for cell in cells)
        or not all(len(cell) < 32 for cell in cells)
    ):
        return []
    return cells if any(kind_of(cell)[0] in ("loss", "acc", "score") for cell in cells) else []


def read_columns(columns: list[str], text: str) -> list[tuple[str, float]]:
    """Return (name, value) of a row's cells by the header above them; [] for no row of it."""
    if not columns or not any(map(str.isdigit, text)):
        return []
    cells = _cells(text)[: len(columns)]
    values = [_float(cell) for cell in cells]
    # A table of classes: their scores, each by its class.
    if len(cells) == len(columns) and columns[0].lower() in ("class", "category", "类别"):
        return [
            (f"{cells[0]} {name}", value)
            for name, value in zip(columns[1:], values[1:])
            if value is not None and kind_of(name)[0] == "score"
        ]
    if (
        len(cells) < len(columns)
        or values[0] is None
        or sum(value is not None for value in values) * 3 < len(columns) * 2
    ):
        return []
    return [(name, value) for name, value in zip(columns, values) if value is not None]


def _cells(text: str) -> list[str]:
    if text.count("|") > 1:
        cells = [cell.strip() for cell in text.strip().strip("|").split("|")]
        return [cells[0].split()[-1] if cells[0] else "", *cells[1:]]  # "ep 3 | 0.69 | 0.51"
    return (
        [cell.strip() for cell in text.strip().split(",")] if text.count(",") > 1 else text.split()
    )


def _float(text: str) -> float | None:
    cell = _CELL.fullmatch(text)
    if cell:
        return _number(cell[1], cell[2])
    head, slash, rest = text.partition("/")
    return float(head) if slash and head.isdigit() and rest.isdigit() and len(head) < 10 else None


def _number(text: str, unit: str) -> float:
    text = text.replace(",", ".")
    # Lightning writes nan.0.
    value = float(text[:-2] if text[-2:] == ".0" and text[-3:-2].isalpha() else text)
    factors = {"ms": 0.001, "m": 0.001, "mb": 0.001, "mib": 0.001, "it/s": 1.0}
    return value * factors.get(unit.strip().lower(), 1.0)
