"""Turn rows of a log into clean lines, each with its rank, its time and its kind. Python 3.8.

`prefixes` says where a rank is known from. Lines are cut at MAX_LINE characters.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional, Tuple

from ..text.masking import ANSI, HINTS, hide_below, hints_in, mask
from .detectors import KIND_OF, NAMES, Sign, Watch, is_figure, is_raised
from .kinds import EXCEPTION, FAILURE, FRAME, MESSAGE, PLAIN, TRACE, WARNING
from .prefixes import (
    PREFIX_STARTS,
    are_numbered,
    are_records,
    drop_bars,
    learned_tag_of,
    numbered,
    ranked_tag_of,
    split_prefixes,
    tag_of,
    untagged,
    unwrapped,
)
from .windows import Row

# A row of the kernel, by which a report is known to hold some:
# [  300.123456] NVRM: …      [Sat Mar  4 04:25:12 2026] NVRM: …      node7 kernel: NVRM: …
# 6,3973,227996636,-;NVRM: …      NVRM: …
KERNEL_ROW = re.compile(
    r"(?:<\d+>)?\[ *\d+\.\d{6}\] |\[[A-Z]\w\w [A-Z]\w\w +\d+ [\d:]{8} \d{4}\] "
    r"|\d+,\d+,\d+,[^;]{0,20};|NVRM: |.{0,80}\bkernel: "
)

MAX_LINE = 2000
MESSAGE_LINES = 4  # lines after an exception that belong to it

_HEAD = "traceback (most recent call last)"  # in lower case
# (number, rank, time, text) of a row without colours, bars and prefixes, and masked.
_Cleaned = Tuple[int, Optional[int], str, str]


# What `Line.says` was asked for before: it is asked of every line, and the sum of checks shows.
_CHECKED: set[tuple[str, ...]] = set()


def _check(names: tuple[str, ...]) -> None:
    unknown = set(names) - NAMES
    if unknown:
        raise ValueError(f"no detector is called {min(unknown)!r}")
    _CHECKED.add(names)


class Line(NamedTuple):
    """One line of a log. It never changes; `of_rank` and `of_kind` return a new one.

    `source` is the name of its log and `number` its line there, from 1. `rank` is None where it
    isn't known. `kind` is one of `kinds.TABLE`. `time` is as the log writes it, "" without one.
    `signs` is what `detectors.Watch` says.

    A line equals itself alone, so it can be a key: a record of JSON may hold several lines that
    have one number and one text.
    """

    source: str
    number: int
    rank: int | None
    text: str
    kind: str = PLAIN
    time: str = ""
    signs: tuple[Sign, ...] = ()

    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = object.__hash__

    def sign(self, name: str) -> tuple | None:
        """Return what a detector found in the line, None if it didn't fire.

        Raises ValueError if no detector has this name.
        """
        if name not in NAMES:
            _check((name,))
        for found, groups in self.signs:
            if found == name:
                return groups
        return None

    def says(self, *names: str) -> bool:
        """Return whether one of these detectors fired. Raises ValueError as `sign` does."""
        if names not in _CHECKED:
            _check(names)
        for found, _ in self.signs:  # noqa: SIM110 - asked of every line; a generator takes twice as long
            if found in names:
                return True
        return False

    def of_rank(self, rank: int | None) -> Line:
        """Return the line as one of this rank; the line itself where it is one."""
        if rank == self.rank:
            return self
        return Line(self.source, self.number, rank, self.text, self.kind, self.time, self.signs)

    def of_kind(self, kind: str) -> Line:
        """Return the line with another kind."""
        source, number, rank, text, _, time, signs = self
        return Line(source, number, rank, text, kind, time, signs)


def lines_of(
    rows: list[Row], source: str, rank: int | None, guess: int | None = None
) -> list[Line]:
    """Return the lines of one source in order: cleaned, masked and with their kinds.

    `rank` is what the name of the file says, None without one. `guess` is what it may mean; it
    counts unless several ranks or a launcher wrote the file.
    """
    numbers = [number for number, _ in rows]
    texts = [raw.decode("utf-8", "replace") for _, raw in rows]
    heads = {text[:5] for text in texts[:: len(texts) // 20 + 1]}  # of some lines
    if are_records(texts):
        numbers, texts = unwrapped(numbers, texts)
    whole = "\n".join(texts).lower()
    ranks = [rank] * len(texts)
    if are_numbered(texts):
        ranks, texts = zip(*[numbered(text, rank) for text in texts])
    elif tag := tag_of(texts) or (ranked_tag_of(texts) if "[rank" in whole else None):
        ranks, texts = zip(*[untagged(text, rank, tag) for text in texts])
    elif _HEAD in whole and (learned := learned_tag_of(texts)):
        ranks, texts = zip(*[learned.split(text, rank) for text in texts])
    # In a PyTorchJob of Kubeflow [pod/train-master-0/pytorch] is rank 0, and worker-0 is rank 1.
    shift = int("[pod/" in heads and "-master-0/" in whole)
    coloured = "\x1b" in whole  # an escape sequence may stand within a word
    secrets = HINTS if coloured else hints_in(whole)
    bare = (
        not coloured
        and "%|" not in whole
        and whole.replace("\n", "").isprintable()
        and max(map(len, texts), default=0) <= MAX_LINE
    )
    cleaned: list[_Cleaned] = []
    for number, ranked, text in zip(numbers, ranks, texts):
        text = text.rstrip() if bare else _plain(text[: MAX_LINE * 4])[:MAX_LINE]
        time = ""
        if text.lstrip()[:1] in PREFIX_STARTS:
            ranked, time, text = split_prefixes(text, ranked, shift)
        if text and not text.isspace():
            masked = mask(text, secrets) if secrets else text
            cleaned.append((number, ranked, time, masked))
    if secrets:
        shown = hide_below([text for _, _, _, text in cleaned])
        cleaned = [(*row[:3], text) for row, text in zip(cleaned, shown)]
    if guess is not None and _of_one_rank(cleaned, guess, whole):
        cleaned = [(number, guess, time, text) for number, _, time, text in cleaned]
    if whole.count(_HEAD) > 1 and len({rank for _, rank, _, _ in cleaned}) == 1:
        from . import interleaved  # here for a fast start: few logs are of several processes

        again = interleaved.find_copies([text for _, _, _, text in cleaned])
        cleaned = [row for at, row in enumerate(cleaned) if at not in again]
    return _classified(cleaned, source)


def _of_one_rank(rows: list[_Cleaned], rank: int, whole: str) -> bool:
    return "root cause (first observed" not in whole and all(
        row_rank in (None, rank) for _, row_rank, _, _ in rows
    )


def _plain(text: str) -> str:
    """A row without colours and progress bars, and with blanks for all other controls but tabs."""
    if "\x1b" in text:
        text = ANSI.sub("", text)
    if "%|" in text:
        text = drop_bars(text)
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c == "\t" else " " for c in text)
    return text.rstrip()


def _classified(rows: list[_Cleaned], source: str) -> list[Line]:
    """The rows as lines with their signs and kinds.

    Frames and messages are recognized by the lines before them of the same rank.
    """
    watch = Watch([text for _, _, _, text in rows])
    lines: list[Line] = []
    # The kind of a rank's last line; after an exception and its message it is the exception.
    state: dict[int | None, str] = {}
    # Blanks before the rank's last traceback: pip and uv indent a whole one.
    depth: dict[int | None, int] = {}
    ignored: set[int | None] = set()  # ranks in a traceback that Python ignored
    for number, rank, time, text in rows:
        before = state.get(rank, PLAIN)
        signs = watch.signs_of(text, rank is not None)
        if not signs and before == PLAIN:  # most lines of a log
            kind = PLAIN
        else:
            kind = _kind_of(text, time, signs, before, depth.get(rank, 0))
        if kind == PLAIN and text.startswith("Exception ignored in"):
            ignored.add(rank)
        elif kind == EXCEPTION and rank in ignored:
            ignored.discard(rank)
            kind = TRACE
        elif kind not in (TRACE, FRAME):
            ignored.discard(rank)
        if kind == TRACE:
            depth[rank] = _depth(text)
        elif kind == EXCEPTION and before in (TRACE, FRAME):
            text = text.strip()
        state[rank] = EXCEPTION if kind == MESSAGE else kind
        lines.append(Line(source, number, rank, text, kind, time, signs))
    return lines


def _kind_of(text: str, time: str, signs: tuple[Sign, ...], before: str, depth: int) -> str:
    """The kind of a line by what it says and by the line `before` it of its rank.

    In a traceback a line that is deeper than its head is the code of a frame, and so is one that
    only marks a place (`^^^^`). A line after an exception belongs to its message, unless it has a
    time of its own or tells of a failure.
    """
    kinds = {KIND_OF.get(name) for name, _ in signs}
    within = before in (TRACE, FRAME)
    if TRACE in kinds:
        return TRACE
    if FRAME in kinds:
        return FRAME
    if within and (_depth(text) > depth or not text.strip().strip("^~ ")):
        return FRAME
    # NCCL's own words stand in the next line, and belong to the exception too.
    if before == EXCEPTION and text.strip() == "Last error:":
        return MESSAGE
    # "Test error: 0.113" is a metric.
    is_named = EXCEPTION in kinds and not is_figure(text.strip().partition(":")[2])
    if is_named or (within and is_raised(text)):
        return EXCEPTION
    if PLAIN in kinds:
        return PLAIN
    # "frame #0: c10::Error::Error" is where an error was made, and says of none.
    fails = FAILURE in kinds and not any(name == "native frame" for name, _ in signs)
    if before == EXCEPTION and not time and not fails:
        return MESSAGE
    # NCCL says with WARN what makes it fail: NCCL WARN Cuda failure 'out of memory'
    is_cause = {"nccl warning", "own nccl"} <= {name for name, _ in signs}
    if WARNING in kinds and not is_cause:
        return WARNING
    return FAILURE if fails else PLAIN


def _depth(text: str) -> int:
    return len(text) - len(text.lstrip())


def has_kernel_rows(lines: list[Line]) -> bool:
    """Return whether a line is one of the kernel."""
    return any(KERNEL_ROW.match(line.text) for line in lines)
