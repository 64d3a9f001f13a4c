"""Turn rows of a log into clean lines, each with its rank, its time and its kind. Python 3.8.

Limits: a rank is known only from a prefix (RANK_PREFIX, or the bare number that `srun -l` sets
before most lines) or from a file name that RANK_NAME describes. Lines are cut at MAX_LINE
characters.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional, Tuple

from ..text.masking import ANSI, HINTS, hide_below, hints_in, mask
from .detectors import FAILS, NAMES, Sign, Watch, is_figure, is_raised
from .kinds import EXCEPTION, FAILURE, FRAME, MESSAGE, PLAIN, TRACE, WARNING
from .windows import Row
from .wrapping import (
    are_numbered,
    are_records,
    numbered,
    ranked_tag_of,
    tag_of,
    untagged,
    unwrapped,
)

MAX_LINE = 2000
MESSAGE_LINES = 4  # lines after an exception that belong to it

_BAR = re.compile(r"\d{1,3}%\|[^|]{0,200}\|\s*[\d.]+\w?/[\d.]+\w?\s*\[[^\]\n]{0,200}\]?")
BAR_TITLE = 80  # characters before a bar that belong to it
# Above each form, one real line and who writes it. Reports seldom show these prefixes, because
# people trim them; logs do.
RANK_PREFIX = re.compile(
    r"""\s*(?:\[(?:
        # [rank2]: Traceback (most recent call last):     PyTorch, uncaught exceptions
        rank(\d{1,5})\]:?
        # [default7]: iteration 12695/ 115311 | consumed samples: 9841584     torchrun --tee 3,
        # as in BLOOM's chronicles (bigscience-workshop/bigscience)
        | default(\d{1,5})\]:
        # [1,0]<stderr>:Traceback (most recent call last):     mpirun --tag-output, horovodrun
        | \d+,(\d{1,5})\]<std(?:out|err)>:?
        # [4]: step 3
        | (\d{1,4})\]:(?=\s)
        # [pod/pytorch-training-0-x7k2p/trainer] Launching torchrun     kubectl logs --prefix
        | pod/[^/\]\s]{1,200}?-(\d{1,4})(?:-[a-z0-9]{5})?/[^\]\s]{1,200}\]
    )
    # (rank=6) step 3
    | \(rank[ =]?(\d{1,5})\)
    # Rank 0: saved     programs themselves
    | rank[ _]?(\d{1,5})\s?[:|]
    )\s?""",
    re.I | re.X,
)
# These are compiled on first use. The rank of a LoRA run is its width, no process.
RANK_NAME = (
    r"(?<!lora)(?<!lora[-_])(?<!low)(?<!low[-_])rank[-_.]?(\d{1,5})(?!\d)"
    r"|(?:^|/)(\d{1,5})/std(?:err|out)(?:\.log)?(?:\.gz)?$"
)
RANK_GUESS = (
    r"(?<![a-z])(?:worker|proc|node|gpu|task|default|stderr|stdout|log|err|out)s?[-_.]?(\d{1,5})"
    r"(?!\d)|[-_.](\d{1,5})\.(?:log|txt|out|err)(?:\.gz)?$"
)
_RUN = (
    r"(?:^|[^a-z])(?:exp|experiment|run|trial|seed|fold|sweep|job|version|epoch|test|part)s?[-_.]?$"
)
# "2026-11-21 02:11:12,123 - " or "[2026-11-21T02:11:12Z] "
_STAMP = re.compile(
    r"\s*[\[(]?(\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
    r"[\])]?[\s,|:-]*"
)
# "E1121 02:11:12.123456 3312 ProcessGroupNCCL.cpp:1970] "
_GLOG = re.compile(r"[IWEF](\d{4} \d\d:\d\d:\d\d(?:\.\d{1,9})?)\s+\d+\s+[^\]\s]{1,200}\]\s?")
_HEAD = "traceback (most recent call last)"  # in lower case
_PREFIX_STARTS = frozenset("[(rR0123456789IWEF")
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
        if text.lstrip()[:1] in _PREFIX_STARTS:
            ranked, time, text = _without_prefixes(text, ranked, shift)
        if text and not text.isspace():
            masked = mask(text, secrets) if secrets else text
            cleaned.append((number, ranked, time, masked))
    if secrets:
        shown = hide_below([text for _, _, _, text in cleaned])
        cleaned = [(*row[:3], text) for row, text in zip(cleaned, shown)]
    if guess is not None and _of_one_rank(cleaned, guess, whole):
        cleaned = [(number, guess, time, text) for number, _, time, text in cleaned]
    if whole.count(_HEAD) > 1 and len({rank for _, rank, _, _ in cleaned}) == 1:
        from . import tangles  # here for a fast start: few logs are of several processes

        again = tangles.copies([text for _, _, _, text in cleaned])
        cleaned = [row for at, row in enumerate(cleaned) if at not in again]
    return _classified(cleaned, source)


def _of_one_rank(rows: list[_Cleaned], rank: int, whole: str) -> bool:
    return "root cause (first observed" not in whole and all(
        row_rank in (None, rank) for _, row_rank, _, _ in rows
    )


def rank_of(name: str, sure: bool = False) -> int | None:
    """Return the rank that a file's name or path says or, unless `sure`, may mean."""
    hit = _last(RANK_NAME, name) or (None if sure else _last(RANK_GUESS, name))
    return int(name[_number(hit)]) if hit else None


def ranks_of(names: list[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Return {name: rank} for the files of a folder: what names say, and what they may mean.

    worker_1.log and slurm-99_1.out may mean a rank where the files that differ from them only in
    the number count from 0. exp_1.log is another run.
    """
    said: dict[str, int] = {}
    series: dict[tuple[str, str], dict[int, str]] = {}
    for name in names:
        rank, hit = rank_of(name, sure=True), _last(RANK_GUESS, name)
        if rank is not None:
            said[name] = rank
        elif hit and not re.search(_RUN, name[: hit.start()], re.I):
            at = _number(hit)
            series.setdefault((name[: at.start], name[at.stop :]), {})[int(name[at])] = name
    counted = [
        numbers
        for numbers in series.values()
        if 0 in numbers and len(numbers) > 1 and max(numbers) < 2 * len(numbers)
    ]
    return said, {name: rank for numbers in counted for rank, name in numbers.items()}


def _last(pattern: str, name: str) -> re.Match | None:
    """The last match of RANK_NAME or RANK_GUESS in a name."""
    hits = list(re.finditer(pattern, name, re.I))
    return hits[-1] if hits else None


def _number(hit: re.Match) -> slice:
    """Where the number of such a match stands; one of its two groups holds it."""
    return slice(*hit.span(1 if hit[1] else 2))


def _plain(text: str) -> str:
    """A row without colours and progress bars, and with blanks for all other controls but tabs."""
    if "\x1b" in text:
        text = ANSI.sub("", text)
    if "%|" in text:
        text = _without_bars(text)
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c == "\t" else " " for c in text)
    return text.rstrip()


def rank_in(text: str) -> int | None:
    """Return the rank that the prefixes of one line name, None where they name none."""
    return _without_prefixes(text, None, 0)[0]


def _without_prefixes(text: str, rank: int | None, shift: int) -> tuple[int | None, str, str]:
    """(rank, time, the rest). Prefixes nest: a rank, a time, a rank again."""
    time = ""
    for _ in range(3):
        if text.lstrip()[:1] not in _PREFIX_STARTS:
            break
        prefix = RANK_PREFIX.match(text)
        if prefix:
            rank = int(next(g for g in prefix.groups() if g))
            rank += shift if "-worker-" in prefix[0] else 0
            text = text[prefix.end() :]
            continue
        stamp = _STAMP.match(text) or _GLOG.match(text)
        if not stamp:
            break
        time, text = time or stamp[1], text[stamp.end() :]
    return rank, time, text


def _without_bars(text: str) -> str:
    """A line without progress bars and their titles.

    Written out, because a pattern with an open start is slow.
    """
    kept, at = "", 0
    for bar in _BAR.finditer(text):
        title = max(text.rfind("|", at, bar.start()) + 1, bar.start() - BAR_TITLE, at)
        kept += text[at:title] + " "
        at = bar.end()
    return kept + text[at:]


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
    names = {name for name, _ in signs}
    within = before in (TRACE, FRAME)
    if "trace" in names:
        return TRACE
    if "frame" in names:
        return FRAME
    if within and (_depth(text) > depth or not text.strip().strip("^~ ")):
        return FRAME
    # NCCL's own words stand in the next line, and belong to the exception too.
    if before == EXCEPTION and text.strip() == "Last error:":
        return MESSAGE
    # "Test error: 0.113" is a metric.
    is_named = "exception" in names and not is_figure(text.strip().partition(":")[2])
    if is_named or (within and is_raised(text)):
        return EXCEPTION
    if "debug level" in names:
        return PLAIN
    fails = not FAILS.isdisjoint(names)
    if before == EXCEPTION and not time and not fails:
        return MESSAGE
    if "warning" in names:
        return WARNING
    return FAILURE if fails else PLAIN


def _depth(text: str) -> int:
    return len(text) - len(text.lstrip())
