"""What a question says in numbers: the model, the cards, the data and the times in it.

`read_numbers` alone reads them. Nothing else of a question gets into an answer or a command.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..fit.image_models import IMAGE_MODELS
from ..platforms.cards import GPUS

MOST_CARDS = 1024
WORDS_OF_NUMBERS = {
    "one": 1, "two": 2, "three": 3, "four": 4, "eight": 8, "a single": 1,
    "一": 1, "单": 1, "两": 2, "二": 2, "双": 2, "三": 3, "四": 4, "八": 8,
}  # fmt: skip
UNITS = {
    "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12, "thousand": 1e3, "million": 1e6, "billion": 1e9,
    "trillion": 1e12, "千": 1e3, "万": 1e4, "百万": 1e6, "亿": 1e8,
}  # fmt: skip
LONGEST_SAMPLE = 1_000_000  # tokens: more of them are those of a data set
# 13B, 350M; neither the 80 of 80GB nor the 8 of 8bit, and not the 1M of "1M samples".
_PARAMETERS = re.compile(
    r"(?<![a-z\d.])(\d{1,4}(?:\.\d{1,2})?) ?([bm])(?![a-z])"
    r"(?! ?(?:tokens|(?:[a-z]+ ){0,2}(?:samples|examples|rows|images|data\b)|条))",
    re.I,
)
_SIZE = re.compile(r"(\d{2,3}) ?g(?:i?b)?(?![a-z])", re.I)
_WORD = re.compile(r"[A-Za-z0-9]+")
_COUNT = re.compile(
    rf"(?<![a-z\d.])(\d{{1,4}}|{'|'.join(WORDS_OF_NUMBERS)}) ?(?:[x×*]|张|块|片|个|台)? ?"
    r"(?:\d{2,3} ?gi?b? ?的? ?)?(?:nvidia |tesla |geforce |rtx[ -]?)?"
    r"(?=[abhlvtp]\d{1,3}|\d0\d0|gpus?|cards?|卡|显卡)"
    r"|(?<![a-z\d.])(\d{1,4}) ?[x×*] ?(?=\d{2,3} ?gi?b?(?![a-z]))",
    re.I,
)
_TIMES = re.compile(r"(?<=\d) ?[x×*] ?(?=[a-z])", re.I)  # 4xH100
_PERCENT = re.compile(r"(?<![\d.])(\d{1,3})(?:\.\d+)? ?(?:%|％|per ?cent)")
_OF_ANOTHER = r"(?:memory|mem|v?ram|disk|cpu|accuracy|acc|done|显存|内存|磁盘|硬盘|准确率)"
# What a share of something else than the GPU's time stands beside.
_BEFORE = re.compile(
    rf"{_OF_ANOTHER}\W{{0,3}}(?:(?:usage|used?|is|at|of|full|占用率?|用了|到了?|有)\W{{0,3}}){{0,3}}\Z",
    re.I,
)
_BEHIND = re.compile(rf"\W{{0,3}}(?:(?:of|the|gpu|的)\W{{1,3}}){{0,3}}{_OF_ANOTHER}", re.I)
_SECONDS = re.compile(
    r"(?<![\d.])(\d{1,4}) ?(s|secs?|seconds?|秒|min|minutes?|分钟)(?![a-z])", re.I
)
_HOURS = re.compile(r"(?<![\d.])(\d{1,4}) ?(h|hrs?|hours?|小时|个小时)(?![a-z\d])", re.I)
_NUMBER = (
    r"(?<![\w.])(\d{1,12}(?:[.,]\d{1,6})*) ?(thousand|million|billion|trillion|百万|[kmbt千万亿])?"
)
_TOKENS = re.compile(rf"{_NUMBER} ?(?:个)?tokens?(?![a-z])", re.I)
_LENGTH = re.compile(
    r"(?:context|ctx|seq(?:uence)?|max)[ _-]?(?:len(?:gth)?)?\D{0,6}(\d{3,6}|\d{1,4}k)(?![\w.])"
    r"|(?<![\w.])(\d{3,6}|\d{1,4}k) ?(?:context|ctx|seq|上下文|长度)",
    re.I,
)
_SAMPLES = re.compile(
    rf"{_NUMBER} ?(?:条|张图|个样本|(?:[a-z]+ ){{0,2}}(?:samples?|examples?|rows?|images?|pairs|"
    r"instructions?|conversations?|records?|data\b))",
    re.I,
)
_EPOCHS = re.compile(r"(?<![\w.])(\d{1,4}) ?(?:个 ?)?(?:epochs?|轮)(?![a-z])", re.I)
_STEPS = re.compile(rf"{_NUMBER} ?(?:steps?|iterations?|iters?|步)(?![a-z])", re.I)
_PACE = re.compile(
    r"(?<![\w.])(\d{1,5}(?:\.\d{1,4})?) ?(ms|s|secs?|seconds?|mins?|minutes?|毫秒|秒|分钟?) ?"
    r"(?:/|per|a|each|every|一|每) ?(?:it|iter|iteration|step|batch|步|个?batch)(?![a-z])"
    r"|(?:每|一) ?(?:步|个?(?:step|iter|batch))\D{0,4}(\d{1,5}(?:\.\d{1,4})?) ?"
    r"(ms|毫秒|秒|s|分钟?)",
    re.I,
)
_RATE = re.compile(r"(?<![\w.])(\d{1,5}(?:\.\d{1,4})?) ?it(?:er)?s?/s(?:ec)?(?![a-z])", re.I)
_BATCH = re.compile(
    r"\b(?:batch|bs)(?:[ _-]?size)?(?:[ =:]| of | is |是|为){0,2}(\d{1,5})(?!\d)", re.I
)


@dataclass(frozen=True)
class Numbers:
    """What a question says in numbers; 0 or "" for what it doesn't say.

    `parameters` is written as `rgt fit` takes it, `gpu` is a name of `platforms.cards.GPUS`, and
    `gpu_is_assumed` says that its size wasn't said. `gib` is the size of a card that isn't named.
    `image_model` is a name of `fit.image_models.IMAGE_MODELS`. `sequence` counts the tokens of a
    sample, `tokens` those of the data. `step_seconds` is the time of a step, `busy_percent` the
    share of the time that a GPU is busy, -1 where none is said.
    """

    parameters: str = ""
    gpus: int = 1
    gpu: str = ""
    gpu_is_assumed: bool = False
    busy_percent: int = -1
    save_seconds: int = 0
    kill_hours: int = 0
    gib: int = 0
    image_model: str = ""
    sequence: int = 0
    tokens: int = 0
    samples: int = 0
    epochs: int = 0
    steps: int = 0
    step_seconds: float = 0.0
    batch: int = 0

    @property
    def card(self) -> tuple[str, float] | None:
        """The card and its GiB, None where neither a name nor a size is said."""
        if self.gpu:
            return self.gpu, GPUS[self.gpu]
        return (f"a card of {self.gib} GiB", float(self.gib)) if self.gib else None


def _busy_percent(line: str) -> int:
    for found in _PERCENT.finditer(line):
        before, behind = line[: found.start()][-40:], line[found.end() :][:40]
        if int(found[1]) <= 100 and not _BEFORE.search(before) and not _BEHIND.match(behind):
            return int(found[1])
    return -1


def read_numbers(line: str) -> Numbers:
    """Return what a question says in numbers."""
    parameters = _PARAMETERS.search(line)
    gpu, is_assumed = _card(line)
    hours = _HOURS.search(line)
    sizes = [int(size) for size in _SIZE.findall(line)]
    tokens = int(_scaled(_TOKENS.search(line)))
    image_model = "" if parameters else _image_model(line)
    return Numbers(
        parameters=f"{parameters[1]}{parameters[2].upper()}" if parameters else "",
        gpus=_count(line),
        gpu=gpu,
        gpu_is_assumed=is_assumed,
        busy_percent=_busy_percent(line),
        save_seconds=_save_seconds(line),
        kill_hours=int(hours[1]) if hours else 0,
        gib=sizes[0] if sizes and not gpu else 0,
        image_model=image_model,
        sequence=_sequence(line) or (tokens if tokens < LONGEST_SAMPLE else 0),
        tokens=tokens if tokens >= LONGEST_SAMPLE else 0,
        samples=int(_scaled(_SAMPLES.search(line))),
        epochs=int(_first(_EPOCHS.search(line))),
        steps=int(_scaled(_STEPS.search(line))),
        step_seconds=_step_seconds(line),
        batch=int(_first(_BATCH.search(line))),
    )


def _first(found: re.Match[str] | None) -> float:
    """The number in the first group that matched, 0 without a match."""
    return float(next(group for group in found.groups() if group)) if found else 0


def _scaled(found: re.Match[str] | None) -> float:
    """A number with its unit, such as 1.5 million or 20k; 0 without a match."""
    if not found:
        return 0
    digits = found[1].replace(",", "")
    number = float(digits) if digits.count(".") <= 1 else 0.0
    return min(number * UNITS.get((found[2] or "").lower(), 1), 1e15)


def _sequence(line: str) -> int:
    """The tokens of a sample, 0 where the question doesn't say them."""
    found = _LENGTH.search(line)
    if not found:
        return 0
    said = (found[1] or found[2]).lower()
    return int(said[:-1]) * 1024 if said.endswith("k") else int(said)


def _step_seconds(line: str) -> float:
    """The seconds of a step, 0 where the question doesn't say them."""
    if rate := _RATE.search(line):
        return 1 / float(rate[1]) if float(rate[1]) else 0.0
    found = _PACE.search(line)
    if not found:
        return 0.0
    number, unit = (found[1], found[2]) if found[1] else (found[3], found[4])
    unit = unit.lower()
    is_thousandth = unit in ("ms", "毫秒")
    return float(number) * (0.001 if is_thousandth else 60 if unit[0] in "m分" else 1)


def _image_model(line: str) -> str:
    """The image or video model that a question names, '' for none."""
    words = (name for name, model in IMAGE_MODELS.items() if re.search(model.called, line, re.I))
    return next(words, "")


def _count(line: str) -> int:
    """How many GPUs a question names: 1 where it names none, or more than anybody has."""
    found = _COUNT.search(line)
    if not found:
        return 1
    number = (found[1] or found[2]).lower()
    count = WORDS_OF_NUMBERS.get(number) or int(number)
    return count if 1 <= count <= MOST_CARDS else 1


def _card(line: str) -> tuple[str, bool]:
    """The card of the table that a question names, and whether its size is assumed."""
    named = cards_named(line)
    if not named:
        return "", False
    _, _, card, is_assumed = max(named, key=lambda row: row[:2])
    return card, is_assumed


def cards_named(line: str) -> list[tuple[int, bool, str, bool]]:
    """The cards that a question names, each with how much of its name and whether its size is
    said, and whether that is assumed."""
    words = {word.upper() for word in _WORD.findall(_TIMES.sub(" ", line))}
    words |= {word.removeprefix("RTX").removeprefix("GTX") for word in words}
    sizes = {f"{size}GB" for size in _SIZE.findall(line)}
    named = []
    for card in GPUS:
        parts = set(card.split("-")) - {"RTX", "GTX"}
        size = {part for part in parts if part.endswith("GB")}
        if parts - size <= words:
            named.append((len(parts - size), bool(size & sizes), card, bool(size) and not sizes))
    return named


def _save_seconds(line: str) -> int:
    found = _SECONDS.search(line)
    if not found:
        return 0
    return int(found[1]) * (60 if found[2].lower().startswith(("min", "分")) else 1)
