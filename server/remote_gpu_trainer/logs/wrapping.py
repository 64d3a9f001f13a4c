"""Read and remove what loggers and launchers put around the lines of a program.

Loggers, `srun -l`, Ray and the journal put something around every line, and a pasted report may
have lost its line breaks: written as backslash and n, or made blanks.

torchrun, accelerate and deepspeed say the same under every failure: a summary, their frames, whom
they ended. So their words explain none. An exit code does, unless it is 1. torchrun's summary tells
how each rank ended, and which failure it observed first.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .kinds import FRAME

if TYPE_CHECKING:
    from .lines import Line

# Lines from which a report is a log that nobody cut.
WHOLE = 9
MOST_LINES = 12_000  # of a log; records after them stay as they are
# The field of a record that holds the line: `log` of Docker's json-file
# ({"log":"step 1\n","stream":"stderr","time":"2019-04-30T02:12:41.8443515Z"}, the files below
# /var/lib/docker/containers), `textPayload` of Google Cloud, `event` of structlog, `msg` of zap,
# `line` of Loki.
_LINE_FIELDS = ("log", "message", "msg", "event", "textPayload", "text", "body", "line")
_ERROR_FIELDS = ("exc_info", "exception", "traceback", "stack_trace", "stacktrace", "exc_text")
_COLOUR = r"(?:\x1b\[[\d;]{0,20}m)*"
# Ray: "(RayTrainWorker pid=3312, ip=10.0.0.7)", as in ray-project/ray#23405. SkyPilot: "(task,
# pid=3312)", and of several nodes "(head, rank=0, pid=3808)" and "(worker1, rank=1, pid=2769,
# ip=10.0.0.7)", as in its own examples of NCCL tests and of training on TPUs.
_TAG = re.compile(
    _COLOUR
    + r"\((?:[^()\s=,]{1,80},? )?(?:rank=(\d{1,5}), )?pid=\d{1,9}(?:, ip=[\w.:]{1,60})?\)"
    + _COLOUR
    + r" ?"
)
# journalctl: "Nov 21 02:11:12 gpu-box python3[3312]: "
_JOURNAL, _PYTHONS = (
    re.compile(
        rf"[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d [\w.-]{{1,80}} {program}(?:\[\d{{1,9}}\])?: ?"
    )
    for program in (r"[^\s\[\]:]{1,60}", r"(?:python[\d.]{0,8}|torchrun|accelerate|deepspeed)")
)
# Of loggers that record all of stderr as errors: "2026-11-21 02:11:12,123 - stderr - ERROR - "
_LEVEL = re.compile(
    r"[\[(]?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S{0,12}[ |:,\]-]{1,8}"
    r"(?:[\w.]{1,40}[ |:\]-]{1,8})?ERROR[ |:\]-]{1,8}(?:[\w.]{1,60}:[\w.<>]{1,60}:\d{1,6} - )?"
)
# What a launcher puts before PyTorch's own prefix, if it is no time: "2|[rank2]: Traceback".
_BEFORE_RANK = re.compile(r"(?!\W?\d{4}[-/])(\S{1,40} {0,4}(?:[:|] ?)?)(?=\[rank(\d{1,5})\]:)")
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

TERM = -15  # by SIGTERM: the launcher ended it
ABORT = -6  # by SIGABRT
KILL = -9  # by SIGKILL
_CHILD = re.compile(
    r"CalledProcessError: Command '\[?'?\S{0,200}"
    r"(?:python[\d.]*|torchrun|accelerate|deepspeed)'(?!.{0,8}-m', 'pip')"
)
_SAYS = (
    "torch.distributed.elastic",
    "ChildFailedError",
    "torch/distributed/",
    "sigkill_handler",
    "torchrun",
    "exits with return code",
    "CalledProcessError",
    "exitcode",
)
_OF_SUMMARY = ("root cause", "ended rank", "ended code", "ended signal", "forced")
_FIELDS = ("time", "host", "rank", "error_file")


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
    of_lines: list[int] = []
    lines: list[str] = []
    for number, text in zip(numbers, texts):
        is_record = text.startswith("{") and len(lines) < MOST_LINES
        for line in _lines_in(text) if is_record else [text]:
            of_lines.append(number)
            lines.append(line)
    return of_lines, lines


def _lines_in(record: str) -> list[str]:
    return [line for line in _message(record).split("\n") if line.strip()]


def _message(text: str) -> str:
    """What a record of JSON says; the text itself where it is no record, or has no such field."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):  # a line that was cut, or no record
        return text
    inner = record.get("jsonPayload", record)
    if not isinstance(inner, dict):
        return text
    parts = [
        inner[name] for name in (*_LINE_FIELDS, *_ERROR_FIELDS) if isinstance(inner.get(name), str)
    ]
    return (
        "\n".join(part.replace("\r", "").rstrip("\n") for part in parts)
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
    # In a short report the journal's tag is evidence if it names kernel, rsync or the like.
    tags = (_TAG, _JOURNAL, _LEVEL) if len(texts) >= WHOLE else (_TAG, _PYTHONS)
    return next(
        (tag for tag in tags if len([text for text in some if tag.match(text)]) * 2 > len(some)),
        None,
    )


def ranked_tag_of(texts: list[str]) -> re.Pattern | None:
    """Return the pattern of the tag that a launcher puts before PyTorch's "[rank2]:".

    None without one. If the tags of several ranks name these ranks in one form, as "2|" and "3|"
    do, the pattern fits every line with such a tag, and its group is the rank.
    """
    found = {hit.groups() for hit in map(_BEFORE_RANK.match, texts) if hit}
    forms = set()
    for tag, rank in found:
        parts = re.split(rf"(?<!\d){rank}(?!\d)", tag)
        forms.add(r"(\d{1,5})".join(map(re.escape, parts)) if len(parts) == 2 else "")
    if len(forms) == 1 and len(found) > 1 and all(forms):
        return re.compile(forms.pop())
    return _BEFORE_RANK if found else None


def untagged(text: str, rank: int | None, tag: re.Pattern) -> tuple[int | None, str]:
    """Return the rank that a line's tag names, else `rank`, and the rest of the line."""
    hit = tag.match(text)
    if not hit:
        return rank, text
    return int(hit[hit.lastindex]) if hit.lastindex else rank, text[hit.end() :]


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
    ranks = [rank for rank, _ in (numbered(text, None) for text in texts) if rank is not None]
    counted = all(rank < after for rank, after in zip(ranks, ranks[1:]))
    return len(ranks) * 2 > len(texts) and not counted


def unfolded(text: str) -> str:
    """Return the text with its line breaks; unchanged where it has some, or seems to need none."""
    whole = text.strip()
    if "\n" in whole or not whole or len(whole) > MOST_UNFOLDED:
        return text
    if whole.count("\\n") >= BREAKS and (unescaped := _unescaped(whole)):
        return unescaped
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


@dataclass(frozen=True)
class Summary:
    """What torchrun's summary says of the ranks.

    `ended` is {rank: (its exit code, the line that names it)}; the code is None where the summary
    was cut. `root` is the rank that failed first. `stuck` are the ranks that SIGTERM didn't end, so
    that the launcher killed them. `blocks` is {rank: the lines about it}.
    """

    ended: dict[int, tuple[int | None, Line]]
    root: int | None
    stuck: frozenset[int]
    blocks: dict[int, list[Line]]


def summary_of(lines: list[Line]) -> Summary:
    """Return what torchrun's summary says about the ranks; an empty one where there is none."""
    ended: dict[int, tuple[int | None, Line]] = {}
    root, rank, in_root = None, None, False
    forced, pids, blocks, block = set(), {}, {}, []
    for line in lines:
        if not line.signs or not line.says(*_OF_SUMMARY):
            continue
        in_root = in_root or line.sign("root cause") is not None
        if groups := line.sign("ended rank"):
            rank = int(groups[0])
            ended[rank] = (None, line)
            blocks[rank] = block = [line]
            if in_root and root is None:
                root = rank
        elif rank is not None and (groups := line.sign("ended code")):
            ended[rank] = (int(groups[0]), ended[rank][1])
            pids[rank] = groups[1]
            rank = None
            block.append(line)
        elif block and line.sign("ended signal"):
            block.append(line)
        elif groups := line.sign("forced"):
            forced.add(groups[0])
    if not in_root:  # a dump of arguments may hold a rank too
        ended = {rank: end for rank, end in ended.items() if end[0] is not None}
        blocks = {rank: block for rank, block in blocks.items() if rank in ended}
    killed = {rank for rank, (code, _) in ended.items() if code == KILL}
    stuck = {rank for rank in killed if pids[rank] in forced}
    return Summary(ended, root, frozenset(stuck), blocks)


def launcher_talk(lines: list[Line]) -> dict[tuple[str, int], str]:
    """Return {(source, number): what it tells} for each line that a launcher wrote.

    That is "exit code 137" or the like, and "" for all other lines: torchrun says them under every
    failure. Empty for a report without a launcher.
    """
    whole = "\n".join([line.text for line in lines])
    if not any(word in whole for word in _SAYS):
        return {}
    talk: dict[tuple[str, int], str] = {}
    inside = False  # the last frame was the launcher's, and so is the line of code under it
    summary = False
    for line in lines:
        if line.kind == FRAME:
            inside = line.says("own frame") if line.says("frame") else inside
            if inside:
                talk[line.source, line.number] = ""
            continue
        inside = False
        code = line.sign("exit code")
        if code and ("CalledProcess" not in line.text or _CHILD.search(line.text)):
            number = next(group for group in code if group)
            # Python ends with 1 after any exception.
            talk[line.source, line.number] = "" if number == "1" else f"exit code {number}"
        elif line.says("no cause", "field", "rule") and (
            summary or not line.text.lstrip().startswith(_FIELDS)
        ):
            talk[line.source, line.number] = ""
        summary = summary or "ChildFailedError" in line.text or "Root Cause" in line.text
    return talk
