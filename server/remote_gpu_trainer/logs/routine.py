"""Find what a long log says over and over, and what a person or a program says besides. Python 3.8.

`salient` chooses the lines that tell something, those that tell most first, each shape once: eight
ranks that say the same count once, and so do the steps of a progress line. Retrieval takes both the
words and the meaning of a report from these lines.

A run that goes on writes the same lines with other numbers. Where they end, the run ended; a
failure after which they go on was survived. Short reports are left as they are, because people cut
them to what matters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .lines import APART, Line
from .wrapping import launcher_talk

if TYPE_CHECKING:
    from .judging import Evidence

LONG = 30  # lines from which a report is a log that nobody cut
REPEATS = 3  # lines of one form that make it routine
LATE = 0.4  # share of a log; a form that occurs only in that much of its end is news, not routine
NEAR_BEFORE, NEAR_AFTER = 12, 6  # lines around a failure that belong to it
PAUSE = 15  # lines without a sentence that a person's words may hold
BESIDE = 2  # lines before and after a complaint that count with it
MESSAGE = 4  # lines after an exception that belong to it
GOES_ON = 2  # routine lines after a failure that show that it was survived

_PLAIN = frozenset(("plain", "message"))
_START = re.compile(r"\s*([^\d/]{4,40})")
_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"[A-Za-z]{3,}")

SURE_CHINESE = 14  # Chinese characters that make a sentence
SOME_CHINESE = 6  # the same for one that asks, or speaks of its writer
PROSE = 0.75  # of a line's characters that are words and blanks

_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_ASKS = re.compile("[我请为么吗呢？却但]")
_PROSE_WORD = re.compile(r"[A-Za-z']+")
_COMMAND = re.compile(r"\s*(?:\S+@\S+|[#>$%{\[(|+*=<-])")  # a prompt, a banner
_PRINTED = re.compile(r"\s*(?:(?:import|from|def|class|set|export|module) |warnings\.|wandb:)")
_SELF = frozenset(["i", "my", "we", "our", "me", "us", "i'm", "i've"])
_LITTLE = frozenset((
    "a", "an", "and", "any", "anyone", "are", "but", "can", "do", "does", "doesn", "don", "for",
    "get", "has", "have", "help", "how", "i", "if", "in", "is", "isn", "it", "just", "me", "my",
    "no", "not", "of", "on", "or", "same", "so", "that", "the", "then", "there", "this", "to",
    "try", "tried", "use", "using", "was", "we", "what", "when", "where", "while", "why", "with",
    "without",
))  # fmt: skip
_ENDED_WELL = re.compile(r"\b(?:completed?|finished|done|saved|success\w*)\b|完成|成功", re.I)
_WRONG = re.compile(
    r"fail|cannot|can't|could ?n[o']t|unable|d(?:id|oes) not|d(?:id|oes)n't|invalid|denied|refused"
    r"|missing|not (?:found|valid|supported|match|allowed|available)|no such"
    r"|mismatch|illegal|unexpected|unsupported|exceed|error|\bnan\b|\binf\b|kill|stuck|hang|freez"
    r"|timed? ?out|corrupt|broken|wrong|abort|overflow|crash|quota|reset|lost"
    r"|terminat|dump|(?:is|disk) full\b|no space|失败|错误|报错|异常|卡住|不动|不了",
    re.I,
)


@dataclass(frozen=True)
class Routine:
    """Places (indices) in a list of lines, each in order.

    `places`: routine lines. `told`: lines before the first or after the last routine line in which
    a person says what happens, or the log complains.
    """

    places: tuple[int, ...]
    told: tuple[int, ...]


def routine_of(lines: list[Line], pasted: bool) -> Routine | None:
    """Return what is routine in a log.

    None for a short report, and for one without routine and without anything told. `pasted`: a
    person may have written some of the lines.
    """
    sources: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        sources.setdefault(line.source, []).append(at)
    if len(sources) < 2:
        return _of_one(lines, pasted)
    places, told = [], []
    for own in sources.values():  # each rank's log has an end of its own
        part = _of_one([lines[at] for at in own], pasted)
        if part:
            places += [own[at] for at in part.places]
            told += [own[at] for at in part.told]
    return Routine(tuple(sorted(places)), tuple(sorted(told))) if places or told else None


def _of_one(lines: list[Line], pasted: bool) -> Routine | None:
    if len(lines) <= LONG:
        return None
    forms = [_form(line.text) for line in lines]
    last = {form: at for at, form in enumerate(forms)}
    new = set(forms).difference(forms[: -int(LATE * len(lines))])
    often = {
        form
        for form, count in Counter(forms).items()
        if count >= REPEATS and not (form in new and last[form] >= len(lines) - 1 - REPEATS)
    }
    places = tuple([at for at, form in enumerate(forms) if form in often and _repeats(lines[at])])
    start, stop = (places[0], places[-1]) if places else (len(lines), -1)
    told = tuple(
        dict.fromkeys(
            (*(_told_first(lines, start) if pasted else ()), *_told_last(lines, stop + 1, pasted))
        )
    )
    return Routine(places, told) if places or told else None


def survived(places: list[int], lines: list[Line], routine: Routine) -> list[int]:
    """Return those places of failures after which the same rank went on with its routine."""
    later: dict[tuple[str, int | None], list[int]] = {}
    for at in reversed(routine.places):
        found = later.setdefault((lines[at].source, lines[at].rank), [])
        if len(found) < GOES_ON:
            found.append(at)
    ends = {who: found[-1] for who, found in later.items() if len(found) == GOES_ON}
    return [at for at in places if at < ends.get((lines[at].source, lines[at].rank), -1)]


def set_apart(lines: list[Line], failed: list[int], routine: Routine) -> None:
    """Give each plain line of a long log its kind: routine, told, plain or aside.

    Lines near a failure stay plain; `failed` holds the places of failures. Where something failed
    or is told, warnings elsewhere are asides too.
    """
    often, told = set(routine.places), set(routine.told)
    near = {at for place in failed for at in range(place - NEAR_BEFORE, place + NEAR_AFTER + 1)}
    since = MESSAGE + 1
    for at, line in enumerate(lines):
        since = 0 if line.kind == "exception" else since + 1
        if at in often:
            line.kind = "routine"
        elif line.kind == "plain" or (line.kind == "message" and since > MESSAGE):
            line.kind = "told" if at in told else "plain" if at in near else "aside"
        elif line.kind == "warning" and at not in near and (failed or told):
            line.kind = "aside"


def _told_first(lines: list[Line], end: int) -> list[int]:
    """What a person wrote before a log: the first paragraphs, if each begins with a sentence."""
    found: list[int] = []
    for at in range(end):
        begins = at == 0 or lines[at].number > lines[at - 1].number + 1  # behind a blank line
        if begins and not is_sentence(lines[at].text):
            break
        if lines[at].kind in _PLAIN:
            found.append(at)
    return found if len(found) < len(lines) else []


def _told_last(lines: list[Line], start: int, pasted: bool) -> list[int]:
    """What follows the last routine.

    From where a person begins to say what happens; else what the log complains of, with the lines
    beside it.
    """
    plain = [at for at in range(start, len(lines)) if lines[at].kind in _PLAIN]
    begin = len(lines)
    for at in reversed(plain):
        if begin - at > PAUSE:
            break
        if is_sentence(lines[at].text, of_oneself=not pasted):
            begin = at
    if begin < len(lines):
        return [at for at in plain if at >= begin]
    wrong = {at for at in plain[-PAUSE:] if is_complaint(lines[at].text)}
    return [at for at in plain if not wrong.isdisjoint(range(at - BESIDE, at + BESIDE + 1))]


def _repeats(line: Line) -> bool:
    """Whether a line may belong to those that differ in their numbers only."""
    return line.kind == "warning" or (line.kind in _PLAIN and bool(_DIGIT.search(line.text)))


def _form(text: str) -> str:
    """A line up to its first number or path, or its first words where that is nothing."""
    start = _START.match(text)
    return start[1] if start else " ".join(_WORD.findall(text[:120])[:3])


def is_sentence(text: str, of_oneself: bool = False) -> bool:
    """Return whether a line reads as what a person says about a run, in English or Chinese.

    With `of_oneself` only a question, or a sentence about its writer, counts: programs seldom
    print these.
    """
    chinese = 0 if text.isascii() else len(_CHINESE.findall(text))
    words, little = _prose(text)
    if chinese >= SOME_CHINESE:
        said = bool(_ASKS.search(text))
    else:
        said = (
            len(words) >= 4
            and little >= 1
            and (text.rstrip().endswith("?") or not _SELF.isdisjoint(words))
        )
    return said or (
        not of_oneself
        and (
            chinese >= SURE_CHINESE
            or (len(words) >= 8 and little >= 3 and not _ENDED_WELL.search(text))
        )
    )


def _prose(text: str) -> tuple[list[str], int]:
    """The words of a line of prose, and how many of them are little ones; none for other lines."""
    words = [] if is_command(text) or _PRINTED.match(text) else _PROSE_WORD.findall(text.lower())
    if sum(map(len, words)) + len(words) < PROSE * len(text):
        return [], 0
    return words, sum(word in _LITTLE for word in words)


def is_command(text: str) -> bool:
    """Return whether a line was typed at a prompt, or is a banner."""
    return bool(_COMMAND.match(text))


def is_complaint(text: str) -> bool:
    """Return whether a line of a program says that something is wrong."""
    return bool(_WRONG.search(text)) and not _ENDED_WELL.search(text)


MAX_LINES = 120  # distinct lines that count
MOST_ASIDE, MOST_ROUTINE = 12, 2

_SITE = re.compile(r".*?(?:site-packages|dist-packages|lib/python3\.\d+)/")
_PATH = re.compile(r"(?:[A-Za-z]:)?(?:[/\\][\w.+-]+){2,}[/\\]?|https?://\S+|0x[0-9a-fA-F]+")
_DIGITS = b"0123456789"
# Above each, one real line.
_BANNER = re.compile(
    r"""\s*(?:
        # Tue Nov 20 10:00:00 2026
        (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)
        \ (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)
        \ +\d+\ [\d:]+(?:\ [A-Z]+)?\ \d{4}
        # +-----------------------------+
        | [+|=\-\s]+
        # | NVIDIA-SMI 580.82    Driver Version: 580.82    CUDA Version: 13.0  |
        | \|?\s*(?:NVIDIA-SMI\s+[\d.]+\s+)?(?:(?:KMD|Driver)\ Version:\s*[\d.]+\s+)
          CUDA(?:\ UMD)?\ Version:\s*[\d.]+\s*\|?
        # nvcc: NVIDIA (R) Cuda compiler driver
        | nvcc:\ NVIDIA\ \(R\)\ Cuda\ compiler\ driver
        | Copyright\ \(c\)\ [\d-]+\ NVIDIA\ Corporation | Built\ on\ \w{3}_\w{3}_.*
        # Cuda compilation tools, release 12.4, V12.4.131
        | Cuda\ compilation\ tools,\ release\ [\d.]+,\ V[\d.]+ | Build\ cuda_[\w.]+/compiler\.[\w.]+
        # NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024
        | NVRM\ version:\ NVIDIA\ UNIX\ .* | GCC\ version:\ .*
        # $ nvidia-smi
        | [\w@:~/.\#\-]*[$\#]\s*
          (?:nvidia-smi|nvcc\ (?:--version|-V)|cat\ /proc/driver/nvidia/version)
    )\s*""",
    re.X,
)


def salient(evidence: Evidence) -> list[tuple[Line, str, bool]]:
    """Return at most MAX_LINES tuples (line, its readable text, whether it is a decisive one).

    What launchers say under every failure is left out.
    """
    marked = {id(line) for line in evidence.decisive[:5]} if evidence.is_log else set()
    found: list[tuple[Line, str, bool]] = []
    seen: set[bytes] = set()
    talk = launcher_talk(evidence.lines) if evidence.is_log else {}
    for line in _salient_first(evidence, marked):
        spoken = talk.get((line.source, line.number))
        text = _readable(line) if spoken is None else spoken
        shape = text.encode("utf-8", "surrogatepass").translate(None, _DIGITS).strip()
        if not shape or shape in seen:
            continue
        seen.add(shape)
        found.append((line, text, id(line) in marked))
        if len(found) == MAX_LINES:
            break
    return found


def _salient_first(evidence: Evidence, marked: set[int]) -> list[Line]:
    """Decisive lines, then the rest from both ends.

    The head of a log names the program, its tail says how it ended.
    """
    rest = [line for line in evidence.lines if id(line) not in marked and line.kind != "trace"]
    if any(line.kind in APART for line in rest):
        if not evidence.failed() and any(line.kind == "told" for line in rest):
            return [line for line in evidence.decisive if id(line) in marked] + [
                line for line in rest if line.kind == "told"
            ]
        told, aside, routine = ([line for line in rest if line.kind == kind] for kind in APART)
        rest = (
            told
            + [line for line in rest if line.kind not in APART]
            + aside[-MOST_ASIDE // 2 :]
            + aside[: MOST_ASIDE // 2]
            + routine[-MOST_ROUTINE:]
        )
    if len(rest) > 2 * MAX_LINES:
        rest = rest[-MAX_LINES * 3 // 2 :] + rest[: MAX_LINES // 2]
    return [line for line in evidence.decisive if id(line) in marked] + rest


def _readable(line: Line) -> str:
    """A line without paths and addresses; of a frame, the library file and the function."""
    frame = line.sign("frame") if line.kind == "frame" else None
    if frame:
        path, _, function = frame
        inside = _SITE.sub("", path)
        return f"{inside.replace('/', ' ') if inside != path else ''} {function or ''}"
    text = line.text
    return _PATH.sub(" ", text) if "/" in text or "\\" in text or "0x" in text else text


def only_versions(lines: Iterable[str]) -> bool:
    """Return whether every line that isn't blank states versions only; False without such lines.

    The head of nvidia-smi, nvcc --version and the driver state versions. Alone they are no symptom,
    even where entries contain the same words.
    """
    found = False
    for line in lines:
        if line.strip():
            if len(line) >= 300 or not _BANNER.fullmatch(line):
                return False
            found = True
    return found
