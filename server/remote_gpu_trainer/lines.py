"""Rows of a log to clean lines, each with its rank, its time and what it is: a frame, an exception, a warning, a failure.

Limits: a rank is known only from a prefix or a file name that RANK_PREFIX or RANK_NAME describes; lines are cut at MAX_LINE characters.
"""

from __future__ import annotations

import re

from .windows import Row

MAX_LINE = 2000
SAYS_SO = 800  # characters within which a line says that something failed

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_BAR = re.compile(r"\d{1,3}%\|[^|]{0,200}\|\s*[\d.]+\w?/[\d.]+\w?\s*\[[^\]\n]{0,200}\]?")
BAR_TITLE = 80  # characters before a bar that belong to it
RANK_PREFIX = re.compile(
    r"\s*(?:\[rank(\d{1,5})\]:?|\[default(\d{1,5})\]:|\[\d+,(\d{1,5})\]<std(?:out|err)>:?|\(rank[ =]?(\d{1,5})\)|rank[ _]?(\d{1,5})\s?[:|]|\[(\d{1,4})\]:(?=\s))\s?",
    re.I,
)
RANK_NAME = re.compile(
    r"(?:(?:local_?)?rank|worker|proc|node|gpu|task|default|stderr|stdout|log|err|out)s?[-_.]?(\d{1,5})(?:\D|$)|(?:^|/)(\d{1,5})/std(?:err|out)(?:\.log)?$|[-_.](\d{1,5})\.(?:log|txt|out|err)$",
    re.I,
)
_STAMP = re.compile(r"\s*[\[(]?(\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(?:Z|[+-]\d\d:?\d\d)?[\])]?[\s,|:-]*")
_GLOG = re.compile(r"[IWEF](\d{4} \d\d:\d\d:\d\d(?:\.\d{1,9})?)\s+\d+\s+[^\]\s]{1,200}\]\s?")
FRAME = re.compile(r'\s*File "([^"]{1,400})", line (\d+)(?:, in (\S+))?')
_FAILURE = re.compile(
    r"\bKilled\b|killed by signal|Segmentation fault|Bus error|core dumped|Aborted\b|terminate called|what\(\):|CUDA error|NCCL WARN|"
    r"slurmstepd: error|srun: error|oom[-_]kill|Out of memory: Kill|exitcode\s*:\s*-?\d|Signal \d+ \(SIG|watchdog|\bFATAL\b|\bfatal error\b|"
    r"Assertion .{0,200} failed|\[E\d* ?ProcessGroup|Watchdog caught|\bError:|\b[eE]rror\b.{0,80}:|\bERROR\b|exited with (?:code|status|signal)|Exit code|exit code -?[1-9]",
)
_WARNING = re.compile(r"Warning:|\bWARN(?:ING)?\b|\[W\d* ")
_SECRETS = re.compile(
    # Tokens keep their case, so that HF_ENDPOINT is none; one of Hugging Face holds no further underscore, so that hf_hub_download is none.
    r"\b(?-i:(hf_)[A-Za-z0-9]{12,}|(sk-|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA|ya29\.|AIza|rpa_)[A-Za-z0-9_\-.]{8,})|(?<=Bearer )[A-Za-z0-9_\-.=]{8,}"
    r"|((?:api[_-]?key|token|password|passwd|secret)['\"]?\s*[=:]\s*['\"]?)[^\s'\"&,;]{6,}",
    re.I,
)
# Texts without which the slow patterns above can't match: they are looked for first.
_FAILURE_HINTS = (
    "kill",
    "fault",
    "bus error",
    "dumped",
    "abort",
    "terminate",
    "what()",
    "error",
    "nccl",
    "oom",
    "exit",
    "signal",
    "watchdog",
    "fatal",
    "assertion",
)
_SECRET_HINTS = ("hf_", "sk-", "ghp_", "gho_", "_pat_", "glpat-", "xox", "akia", "ya29.", "aiza", "rpa_", "bearer ", "api", "token", "passw", "secret")
_PREFIX_STARTS = frozenset("[(rR0123456789IWEF")
_EXCEPTION_ENDS = ("Error", "Exception", "Interrupt", "Failure", "Exit", "Warning", "Timeout", "Expired", "LimitHit")
_NAME = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*$")


class Line:
    """One line that was looked at. `kind`: trace, frame, exception, message, failure, warning, plain, or
    consequence: what a rank says because another one is gone."""

    __slots__ = ("kind", "number", "rank", "source", "text", "time")

    def __init__(self, source: str, number: int, rank: int | None, text: str, kind: str = "plain", time: str = ""):
        self.source, self.number, self.rank, self.text, self.kind, self.time = source, number, rank, text, kind, time


def lines_of(rows: list[Row], source: str, rank: int | None) -> list[Line]:
    """The lines of one source in order, cleaned, masked and classified. `rank`: the rank that the file's name tells."""
    texts = [raw.decode("utf-8", "replace") for _, raw in rows]
    whole = "\n".join(texts).lower()
    coloured = "\x1b" in whole  # an escape sequence may stand within a word
    secrets = tuple(hint for hint in _SECRET_HINTS if coloured or hint in whole)
    faults = tuple(hint for hint in _FAILURE_HINTS if coloured or hint in whole)
    found = []
    for (number, _), text in zip(rows, texts):
        line = _clean(text, source, number, rank)
        if line:
            if secrets:
                line.text = mask(line.text, secrets)
            found.append(line)
    _classify(found, faults)
    return found


def rank_of(name: str) -> int | None:
    """The rank that a file's name or path tells."""
    found = None
    for found in RANK_NAME.finditer(name):
        pass
    return int(next(g for g in found.groups() if g)) if found else None


def mask(text: str, hints: tuple[str, ...] = _SECRET_HINTS) -> str:
    """Hide what looks like a token, a key or a password. `hints`: those that the whole log holds."""
    low = text.lower()
    for hint in hints:
        if hint in low:
            break
    else:
        return text
    return _SECRETS.sub(lambda m: (m[1] or m[2] or m[3] or "") + "***", text) if len(text) > 8 else text


def _clean(text: str, source: str, number: int, rank: int | None) -> Line | None:
    text = text[: MAX_LINE * 4]
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "%|" in text:
        text = _without_bars(text)
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c == "\t" else " " for c in text)
    text = text.rstrip()[:MAX_LINE]
    time = ""
    for _ in range(3):  # prefixes nest: a rank, a time, a rank again
        if text.lstrip()[:1] not in _PREFIX_STARTS:
            break
        found = RANK_PREFIX.match(text)
        if found:
            rank = int(next(g for g in found.groups() if g))
            text = text[found.end() :]
            continue
        found = _STAMP.match(text) or _GLOG.match(text)
        if not found:
            break
        time, text = time or found[1], text[found.end() :]
    return Line(source, number, rank, text, time=time) if text and not text.isspace() else None


def _without_bars(text: str) -> str:
    """A line without progress bars and what stands before each; written out, because a pattern with an open start is slow."""
    kept, at = "", 0
    for bar in _BAR.finditer(text):
        title = max(text.rfind("|", at, bar.start()) + 1, bar.start() - BAR_TITLE, at)
        kept += text[at:title] + " "
        at = bar.end()
    return kept + text[at:]


def _classify(lines: list[Line], hints: tuple[str, ...]) -> None:
    """Give each line its kind; frames and messages are known from the lines before them of the same rank."""
    state: dict[int | None, str] = {}
    for line in lines:
        text, before = line.text, state.get(line.rank, "")
        stripped = text.strip()
        if "Traceback (most recent call last)" in text:
            kind = after = "trace"
        elif 'File "' in text and FRAME.match(text):
            kind = after = "frame"
        elif before in ("trace", "frame") and (text[:1] in " \t" or not stripped.strip("^~ ")):
            kind, after = "frame", "frame"
        elif is_exception(stripped):
            kind = after = "exception"
        elif before == "exception" and not line.time and not _failed(text, hints):
            kind, after = "message", "exception"
        elif ("arning" in text or "WARN" in text or "[W" in text) and _WARNING.search(text):
            kind = after = "warning"
        elif _failed(text, hints):
            kind = after = "failure"
        else:
            kind = after = "plain"
        state[line.rank] = after
        line.kind = kind


def is_exception(text: str) -> bool:
    """Whether a line starts with the name of an exception that isn't a warning."""
    head, colon, rest = text.partition(":")
    if not head.endswith(_EXCEPTION_ENDS) or (rest and not rest[0].isspace()):
        return False
    return bool(_NAME.match(head)) and not (head.endswith("Warning"))


def _failed(text: str, hints: tuple[str, ...]) -> bool:
    low = text.lower()
    for hint in hints:
        if hint in low:
            return bool(_FAILURE.search(text, 0, SAYS_SO))
    return False
