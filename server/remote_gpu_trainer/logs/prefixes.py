"""What stands around the lines of a program: prefixes, tags, records, progress bars. Python 3.8.

Loggers, `srun -l`, Ray and the journal put something around every line, and a pasted report may
have lost its line breaks: written as backslash and n, or made blanks. A rank is known only from a
prefix (RANK_FORMS, LOGGED_RANK_FORMS, or the bare number that `srun -l` sets before most lines)
or from a file name that RANK_NAME describes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import NamedTuple

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
# Of a tag that no row describes.
_TRACEBACK = "Traceback (most recent call last):"
LONGEST_TAG, MOST_TAGS = 120, 16  # characters of one, and forms of it in a log
NEAR_HEAD = 8  # lines behind the head of a traceback within which one of its frames stands
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
_BAR = re.compile(r"\d{1,3}%\|[^|]{0,200}\|\s*[\d.]+\w?/[\d.]+\w?\s*\[[^\]\n]{0,200}\]?")
BAR_TITLE = 80  # characters before a bar that belong to it


class RankForm(NamedTuple):
    """A prefix that names the rank that wrote a line; the only group of its pattern is the rank.

    `example` is a line as its writer prints it, of the rank `rank`. `spares` looks like one.
    """

    writer: str
    pattern: str
    example: str
    rank: int
    spares: str


# A rank as people put it in brackets: [rank2], [Rank 2], [rank: 2], [rank=2/8]. That of NCCL's
# watchdog is the rank within a group: [E ProcessGroupNCCL.cpp:828] [Rank 38] Watchdog caught
_BRACKETS = r"\[rank[ ]?[:=_]?[ ]?(\d{1,5})(?:/\d{1,5})?\](?![ ]?Watchdog):?"
# Reports seldom show these prefixes, because people trim them; logs do.
RANK_FORMS = (
    RankForm(
        "PyTorch for uncaught exceptions, torchrun --tee 3 --role rank (torchtitan), Lightning, "
        "Megatron-LM's report_memory, programs themselves",
        _BRACKETS,
        "[rank: 2] Seed set to 42",
        2,
        "[rank=16, alpha=32] LoRA",
    ),
    RankForm(
        "torchrun --tee 3, as in BLOOM's chronicles (bigscience-workshop/bigscience)",
        r"\[default(\d{1,5})\]:",
        "[default7]: iteration 12695/ 115311 | consumed samples: 9841584",
        7,
        "[default] iteration 12",
    ),
    RankForm(
        "torchrun --tee 3 --role trainer, as in PyTorch's description of its TailLog",
        r"\[trainer(\d{1,5})\]:",
        "[trainer1]:log_line2",
        1,
        "[trainer] step 1",
    ),
    RankForm(
        "mpirun --tag-output, horovodrun; SageMaker's MPI with mpirank and host",
        r"\[\d+,(?:mpirank:)?(\d{1,5})(?:,[\w-]{1,60})?\]<std(?:out|err)>:?",
        "[1,mpirank:10,algo-2]<stderr>:Traceback (most recent call last):",
        10,
        "[1,0] <- shape",
    ),
    RankForm(
        "programs themselves; torchrun without a role, whose number is of the node, has no blank "
        "behind it",
        r"\[(\d{1,4})\]:(?=\s)",
        "[4]: step 3",
        4,
        "[4] Anonymous. A paper. 2024",
    ),
    RankForm(
        "kubectl logs --prefix",
        r"\[pod/[^/\]\s]{1,200}?-(\d{1,4})(?:-[a-z0-9]{5})?/[^\]\s]{1,200}\]",
        "[pod/pytorch-training-0-x7k2p/trainer] Launching torchrun",
        0,
        "[pod/trainer] Launching torchrun",
    ),
    RankForm(
        "NeMo's formatter for debugging",
        r"\[NeMo\s\w[^\]]{1,200}\srank:(\d{1,5})\]",
        "[NeMo D 2024-05-03 10:01:02 exp_manager:394 rank:3] Saving",
        3,
        "[NeMo I 2024-05-03 10:01:02 exp_manager:394] rank:3",
    ),
    RankForm(
        "programs themselves",
        r"\(rank[ =]?(\d{1,5})\)",
        "(rank=6) step 3",
        6,
        "(rank 16 of the adapter)",
    ),
    RankForm(
        "Composer and LLM Foundry, behind a time",
        r"rank(\d{1,5})\[\d{1,9}\]\[[\w-]{1,60}\]:",
        "rank0[822018][MainThread]: INFO: Message here",
        0,
        "rank0[822018] = x",
    ),
    RankForm(
        "programs themselves",
        r"rank[ _]?(\d{1,5})\s?[:|]",
        "Rank 0: saved",
        0,
        "rank: 16",
    ),
)
# The same in the midst of what a logger puts before a line, which stays.
LOGGED_RANK_FORMS = (
    RankForm(
        "DeepSpeed's log_dist, Axolotl, accelerate 1.15, each behind a logger's own prefix",
        _BRACKETS,
        "[INFO] [logging.py:96:log_dist] [Rank 0] DeepSpeed info: version=0.15.2",
        0,
        "[INFO] of [rank 0] nothing is known",
    ),
    RankForm(
        "NVIDIA's resiliency extension",
        r"\[workload:(\d{1,5})\(\d{1,5}\)[ ]infra:[^\]]{1,40}\]",
        "[ERROR] [node7] [workload:3(3) infra:0(0)] ft_launcher.py:812 worker group failed",
        3,
        "[ERROR] [node7] [workload:name] started",
    ),
)


class TagForm(NamedTuple):
    """A tag before most lines of a log; a group of its pattern, if it has one, is the rank.

    `bare` is what the same writer puts before lines that no rank wrote. At least one line has to
    match `pattern` itself. `spares` looks like the tag.
    """

    writer: str
    pattern: str
    example: str
    rank: int | None
    spares: str
    bare: str = ""


# Unlike a prefix, a tag may begin with any word: it is looked for once in a log, not in each line.
_ROLE = rf"{_COLOUR}[A-Za-z_][\w.-]{{0,79}}/"
_HOST = r"[A-Za-z0-9][\w.-]{0,79}"
TAG_FORMS = (
    TagForm(
        "Ray, without a rank (ray-project/ray#23405); SkyPilot, as in its examples of NCCL tests",
        _COLOUR
        + r"\((?:[^()\s=,]{1,80},? )?(?:rank=(\d{1,5}), )?pid=\d{1,9}(?:, ip=[\w.:]{1,60})?\)"
        + _COLOUR
        + r" ?",
        "(worker1, rank=1, pid=2769, ip=10.0.0.7) step 3",
        1,
        "(worker1, rank=1) step 3",
    ),
    TagForm(
        "torchx run, torchx log (TorchX 0.7): the role, the node and, behind it, the local rank, "
        "which is the rank on the first node alone; torchrun's own lines have no local rank",
        rf"{_ROLE}(?:0{_COLOUR} \[(\d{{1,5}})\]|\d{{1,5}}{_COLOUR} \[\d{{1,5}}\]):",
        "train/0 [1]:step 3",
        1,
        "epoch/1 step 3",
        bare=rf"{_ROLE}\d{{1,5}}{_COLOUR} ",
    ),
    TagForm(
        "pdsh and clush, where they gather py-spy's stacks from several nodes",
        rf"{_HOST}: (?=(?:Process|Thread) \d)",
        "node1: Process 4121: python train.py",
        None,
        "INFO: Process group 0",
        bare=rf"{_HOST}:(?: |$)",
    ),
)


# The pattern of each tag, with its bare form, and what at least one line has to match.
_TAGS = {
    re.compile(f"{form.pattern}|{form.bare}" if form.bare else form.pattern): re.compile(
        form.pattern
    )
    for form in TAG_FORMS
}


def _any_of(forms: tuple[RankForm, ...]) -> str:
    return "|".join(form.pattern for form in forms)


RANK_PREFIX = re.compile(rf"\s*(?:{_any_of(RANK_FORMS)})\s?", re.I)
# [INFO] [axolotl.train.train:54] [PID:1] and then the rank, and of logging.basicConfig
# 05/03/2024 10:01:02 - INFO - __main__ - and INFO:__main__: before it.
_LOGGED_RANK = re.compile(
    r"((?:\[(?!E[ \d])[^\[\]]{1,160}\]\s?|\d\d/\d\d/\d{4} \d\d:\d\d:\d\d - |[\w.:/]{1,80} - "
    rf"|[A-Z]{{4,8}}:[\w.]{{1,80}}:){{1,5}})(?:{_any_of(LOGGED_RANK_FORMS)})\s?",
    re.I,
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
# Of times, glog and the levels of Python's logging; the others begin as their examples do.
PREFIX_STARTS = frozenset("[(0123456789IWEFDC").union(
    *((form.example[0].lower(), form.example[0].upper()) for form in RANK_FORMS)
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


def rank_in(text: str) -> int | None:
    """Return the rank that the prefixes of one line name, None where they name none."""
    return split_prefixes(text, None, 0)[0]


def split_prefixes(text: str, rank: int | None, shift: int) -> tuple[int | None, str, str]:
    """Return (rank, time, the rest) of a line. Prefixes nest: a rank, a time, a rank again.

    `shift` is added to the number of a worker.
    """
    time = ""
    for _ in range(3):
        if text.lstrip()[:1] not in PREFIX_STARTS:
            break
        prefix = RANK_PREFIX.match(text)
        if prefix:
            rank = int(next(g for g in prefix.groups() if g))
            rank += shift if "-worker-" in prefix[0] else 0
            text = text[prefix.end() :]
            continue
        stamp = _STAMP.match(text) or _GLOG.match(text)
        if stamp:
            time, text = time or stamp[1], text[stamp.end() :]
            continue
        logged = _LOGGED_RANK.match(text)
        if logged:
            rank = int(next(filter(None, logged.groups()[1:])))
            text = logged[1] + text[logged.end() :]
        break
    return rank, time, text


def drop_bars(text: str) -> str:
    """Return a line without progress bars and their titles.

    Written out, because a pattern with an open start is slow.
    """
    kept, at = "", 0
    for bar in _BAR.finditer(text):
        title = max(text.rfind("|", at, bar.start()) + 1, bar.start() - BAR_TITLE, at)
        kept += text[at:title] + " "
        at = bar.end()
    return kept + text[at:]


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

    A tag names the process that wrote the line (TAG_FORMS, the journal), or is a level that is
    the same for all lines.
    """
    some = texts[:: len(texts) // 20 + 1]
    # In a short report the journal's tag is evidence if it names kernel, rsync or the like.
    tags = (*_TAGS, _JOURNAL, _LEVEL) if len(texts) >= WHOLE else (*_TAGS, _PYTHONS)
    for tag in tags:
        if len([text for text in some if tag.match(text)]) * 2 > len(some):
            ranked = _TAGS.get(tag)
            if ranked is None or any(map(ranked.match, texts)):
                return tag
    return None


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


@dataclass(frozen=True)
class LearnedTag:
    """A tag that no row describes; a time may stand before it, and stays.

    `counted` is the number of the group that is the rank, 0 for none.
    """

    form: re.Pattern
    counted: int = 0

    def split(self, text: str, rank: int | None) -> tuple[int | None, str]:
        """Return the rank that a line's tag names, else `rank`, and the line without the tag."""
        start = _behind_time(text)
        hit = self.form.match(text, start)
        if not hit:
            return rank, text
        return int(hit[self.counted]) if self.counted else rank, text[:start] + text[hit.end() :]


def learned_tag_of(texts: list[str]) -> LearnedTag | None:
    """Return the tag that stands before a traceback and before its frames, None without one.

    `docker compose logs`, containerd and many launchers put one before each line. Where it isn't
    taken away nothing seems to have failed. Its numbers may differ from line to line. If one of
    them counts from 0, it is the rank.
    """
    forms: dict[str, None] = {}
    for at, text in enumerate(texts):
        if _TRACEBACK not in text or len(forms) == MOST_TAGS:
            continue
        tag = text.partition(_TRACEBACK)[0]
        tag = tag[_behind_time(tag) :]
        if len(tag) > LONGEST_TAG:
            continue
        ranked = RANK_PREFIX.search(tag)
        tag = tag[: ranked.start()] if ranked else tag
        if not split_prefixes(tag, None, 0)[2].strip():
            continue  # there is none, or one that is known in any line
        form = _generalized(tag)
        framed = re.compile(form + r'\s+File "')
        near = texts[at + 1 : at + 1 + NEAR_HEAD]
        if any(framed.match(line, _behind_time(line)) for line in near):
            forms[form] = None
    if not forms:
        return None
    pattern = re.compile("|".join(forms))
    return LearnedTag(pattern, _counted_group(pattern, texts) if len(forms) == 1 else 0)


def _behind_time(text: str) -> int:
    time = _STAMP.match(text)
    return time.end() if time else 0


def _generalized(tag: str) -> str:
    """The pattern of tags that differ from this one in numbers, each number a group."""
    parts = re.split(r"(?<![A-Za-z\d])([A-Za-z_]*)(\d+)(?![A-Za-z\d])", tag)
    # Behind each text between them stand the letters and the digits of a word.
    between, letters = parts[::3], parts[1::3]
    return re.escape(between[0]) + "".join(
        re.escape(word) + r"(\d{1,20})" + re.escape(text)
        for word, text in zip(letters, between[1:])
    )


def _counted_group(form: re.Pattern, texts: list[str]) -> int:
    """The group whose numbers count from 0, without leading zeros, as ranks do; 0 without one.

    None where Kubeflow's master is rank 0, and its worker 0 is rank 1.
    """
    hits = [hit for text in texts if (hit := form.match(text, _behind_time(text)))]
    if "master" in form.pattern or any("master-0" in text for text in texts):
        return 0
    for group in range(1, form.groups + 1):
        said = {hit[group] for hit in hits}
        ranks = {int(number) for number in said if str(int(number)) == number}
        if len(ranks) == len(said) > 1 and 0 in ranks and max(ranks) < 2 * len(ranks):
            return group
    return 0


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
