"""Remove what a program puts around every line of a log: loggers, `srun -l`, Ray, the journal.

And restore line breaks that a pasted report lost: written as backslash and n, or made blanks.
"""

from __future__ import annotations

import json
import re

# Lines from which a report is a log that nobody cut.
WHOLE = 9
MOST_LINES = 12_000  # of a log; records after them stay as they are
# The field of a record that holds the line, by logger.
_SAID = ("log", "message", "msg", "event", "textPayload", "text", "body", "line")
_RAISED = ("exc_info", "exception", "traceback", "stack_trace", "stacktrace", "exc_text")
_COLOUR = r"(?:\x1b\[[\d;]{0,20}m)*"
# Ray: "(RayTrainWorker pid=3312, ip=10.0.0.7)". SkyPilot: "(task, pid=3312)" and
# "(worker1, rank=1, pid=3312, ip=10.0.0.7)".
_TAG = re.compile(
    _COLOUR
    + r"\((?:[^()\s=,]{1,80},? )?(?:rank=(\d{1,5}), )?pid=\d{1,9}(?:, ip=[\w.:]{1,60})?\)"
    + _COLOUR
    + r" ?"
)
# "Nov 21 02:11:12 gpu-box python3[3312]: "
_JOURNAL = re.compile(
    r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,80} [^\s\[\]:]{1,60}(?:\[\d{1,9}\])?: ?"
)
# Of loggers that record all of stderr as errors: "2026-11-21 02:11:12,123 - stderr - ERROR - "
_LEVEL = re.compile(
    r"[\[(]?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S{0,12}[ |:,\]-]{1,8}"
    r"(?:[\w.]{1,40}[ |:\]-]{1,8})?ERROR[ |:\]-]{1,8}(?:[\w.]{1,60}:[\w.<>]{1,60}:\d{1,6} - )?"
)
MOST_UNFOLDED = 100_000  # characters
BREAKS = 2  # written breaks from which a report has lost its real ones

_PATH = re.compile(r"\b[A-Za-z]:\\(?!\\)")  # a path of Windows, not escaped: C:\new\nets
_PIECES = re.compile(
    r'\s+(?=Traceback \(most recent call last\):|File "[^"\n]{1,300}", line \d'
    r"|(?:[A-Za-z_]\w{0,60}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Warning): |"
    r"\[rank\d{1,5}\]: ?|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d"
    r"|The above exception was|During handling of the above)"
)
_CODE = re.compile(r'(File "[^"\n]{1,300}", line \d{1,7}, in [\w<>.]{1,80})\s+')


def are_records(texts: list[str]) -> bool:
    """Return whether most lines are records of a logger that writes JSON."""
    records = len([text for text in texts if text.startswith("{")])
    if records * 2 <= len(texts):
        return False
    return (
        len(texts) >= WHOLE
        or 1 < records == len(texts)
        or any("Traceback (most" in text for text in texts)
    )


def unwrapped(numbers: list[int], texts: list[str]) -> tuple[list[int], list[str]]:
    """Return numbers and texts with each JSON record replaced by the lines that it holds.

    A record is such as {"log":"step 1\\n","stream":"stderr","time":"…"}, and may hold a whole
    traceback. All lines of a record have its number.
    """
    found: tuple[list[int], list[str]] = [], []
    for number, text in zip(numbers, texts):
        wrapped = text.startswith("{") and len(found[0]) < MOST_LINES
        for line in (
            [part for part in _said(text).split("\n") if part.strip()] if wrapped else [text]
        ):
            found[0].append(number)
            found[1].append(line)
    return found


def _said(text: str) -> str:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):  # a line that was cut, or no record
        return text
    inner = record.get("jsonPayload", record)
    if not isinstance(inner, dict):
        return text
    said = [inner[name] for name in (*_SAID, *_RAISED) if isinstance(inner.get(name), str)]
    return (
        "\n".join(part.replace("\r", "").rstrip("\n") for part in said)
        .encode("utf-8", "replace")
        .decode("utf-8")
        or text
    )


def tag_of(texts: list[str]) -> re.Pattern | None:
    """Return the pattern of the tag that most lines of a log begin with, None without one.

    A tag names the process that wrote the line (Ray, SkyPilot, the journal), or is a level that is
    the same for all lines.
    """
    some = texts[:: len(texts) // 20 + 1]
    # In a short report the journal's tag is evidence: it names a program, such as kernel or rsync.
    tags = (_TAG, _JOURNAL, _LEVEL) if len(texts) >= WHOLE else (_TAG,)
    return next(
        (tag for tag in tags if len([text for text in some if tag.match(text)]) * 2 > len(some)),
        None,
    )


def untagged(text: str, rank: int | None, tag: re.Pattern) -> tuple[int | None, str]:
    """Return the rank that a line's tag names, else `rank`, and the rest of the line."""
    found = tag.match(text)
    return (
        (int(found[1]) if found.lastindex else rank, text[found.end() :]) if found else (rank, text)
    )


def numbered(text: str, rank: int | None) -> tuple[int | None, str]:
    """Return the rank that `srun -l` puts before a line (" 2: step 1"), or `rank`, and the rest."""
    head, colon, rest = text[:8].partition(":")
    if not colon or len(head) > 5 or not head.strip().isdecimal() or rest[:1] not in ("", " "):
        return rank, text
    return int(head), text[len(head) + 2 :]


def are_numbered(texts: list[str]) -> bool:
    """Return whether most lines begin with the number of a task. Lines counted 1, 2, 3 don't."""
    some = texts[:: len(texts) // 20 + 1]
    if len([text for text in some if ":" in text[:6]]) * 2 <= len(some):
        return False
    found = [rank for rank, _ in (numbered(text, None) for text in texts) if rank is not None]
    return len(found) * 2 > len(texts) and any(one >= other for one, other in zip(found, found[1:]))


def unfolded(text: str) -> str:
    """Return the text with its line breaks; unchanged where it has some, or seems to need none."""
    whole = text.strip()
    if "\n" in whole or not whole or len(whole) > MOST_UNFOLDED:
        return text
    if whole.count("\\n") >= BREAKS and (said := _unescaped(whole)):
        return said
    if "Traceback (most recent call last):" in whole or _CODE.search(whole):
        return _CODE.sub(r"\1\n    ", _PIECES.sub("\n", whole))
    return text


def _unescaped(text: str) -> str:
    """The text unescaped as JSON, or else with its written breaks made real.

    "" where they belong to a path of Windows.
    """
    if _PATH.search(text):
        return ""
    inner = text[1:-1] if text[:1] == text[-1:] == '"' and len(text) > 1 else text
    try:
        # Half of a surrogate pair is no character.
        return (
            json.loads(f'"{inner}"').encode("utf-8", "replace").decode("utf-8").replace("\0", " ")
        )
    except ValueError:
        return (
            inner.replace("\\r", "").replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
        )
