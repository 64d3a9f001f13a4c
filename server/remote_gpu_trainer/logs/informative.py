"""Choose the lines of a report that tell something, those that tell most first, each template once.

Eight ranks that say the same count once, and so do the steps of a progress line. Retrieval takes
both the words and the meaning of a report from these lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .detectors import without_digits
from .evidence import Evidence
from .kinds import APART, ASIDE, FRAME, PLAIN, ROUTINE, TOLD, TRACE
from .launcher import launcher_talk
from .lines import Line

MAX_LINES = 120  # distinct lines that count
MOST_MARKED = 5  # decisive lines that are marked as such
MOST_CHARS = 1000  # of the most telling lines, which are compared with the entries
MOST_ASIDE, MOST_ROUTINE = 12, 2  # lines of a long log that are no part of its end

_SITE = re.compile(r".*?(?:site-packages|dist-packages|lib/python3\.\d+)/")
# /dev/shm is the same on each machine, and its name says what failed.
_PATH = re.compile(
    r"(?!/dev/shm(?![a-zA-Z0-9_./+-]))(?:[A-Za-z]:)?(?:[/\\][\w.+-]+){2,}[/\\]?|https?://\S+|0x[0-9a-fA-F]+"
)
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


def informative_lines(evidence: Evidence) -> list[tuple[Line, str, bool]]:
    """Return at most MAX_LINES tuples (line, its readable text, whether it is a decisive one).

    What launchers say under every failure is left out.
    """
    marked = frozenset(evidence.decisive[:MOST_MARKED]) if evidence.is_log else frozenset()
    talk = launcher_talk(evidence.lines) if evidence.is_log else {}
    chosen: list[tuple[Line, str, bool]] = []
    seen: set[bytes] = set()
    for line in _by_weight(evidence, marked):
        text = talk.get((line.source, line.number))
        if text is None:
            text = _readable(line)
        template = without_digits(text).strip()
        if not template or template in seen:
            continue
        seen.add(template)
        chosen.append((line, text, line in marked))
        if len(chosen) == MAX_LINES:
            break
    return chosen


def gist(evidence: Evidence, sentence: str = "") -> str:
    """Return `sentence`, then the most telling lines of the evidence, in about MOST_CHARS.

    `sentence` is what somebody who read the report says about it; it is never cut. A long log is
    compared by the lines of its failure and by what somebody says of it. The words that a log holds
    besides, even beside the failure, say nothing for or against an entry.
    """
    lines = informative_lines(evidence)
    kinds = {line.kind for line, _, _ in lines}
    # Where somebody's words stand in a long log, plain lines are the program's.
    unheard = {*APART[1:], PLAIN} if TOLD in kinds else set(APART[1:])
    if kinds - unheard:
        lines = [row for row in lines if row[0].kind not in unheard or row[2]]
    parts, room = [sentence] if sentence else [], MOST_CHARS - len(sentence)
    for _, text, _ in lines:
        text = text.strip()
        parts.append(text[: max(room, 0)])
        room -= len(text) + 1
        if room <= 0:
            break
    return "\n".join(parts)


def _by_weight(evidence: Evidence, marked: frozenset[Line]) -> list[Line]:
    """Decisive lines, then the rest from both ends.

    The head of a log names the program, its tail says how it ended.
    """
    first = [line for line in evidence.decisive if line in marked]
    rest = [line for line in evidence.lines if line not in marked and line.kind != TRACE]
    told = [line for line in rest if line.kind == TOLD]
    if told and not evidence.failed():
        return first + told
    if any(line.kind in APART for line in rest):
        rest = _of_long_log(rest, told)
    if len(rest) > 2 * MAX_LINES:
        rest = rest[-MAX_LINES * 3 // 2 :] + rest[: MAX_LINES // 2]
    return first + rest


def _of_long_log(lines: list[Line], told: list[Line]) -> list[Line]:
    """What is told, then the lines near a failure, then a few of all others."""
    near = [line for line in lines if line.kind not in APART]
    aside = [line for line in lines if line.kind == ASIDE]
    routine = [line for line in lines if line.kind == ROUTINE]
    return [
        *told,
        *near,
        *aside[-MOST_ASIDE // 2 :],
        *aside[: MOST_ASIDE // 2],
        *routine[-MOST_ROUTINE:],
    ]


def _readable(line: Line) -> str:
    """A line without paths and addresses; of a frame, the library file and the function."""
    frame = line.sign("frame") if line.kind == FRAME else None
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
    stated = False
    for line in lines:
        if line.strip():
            # A pattern with an open middle is slow on a long line, and no banner is one.
            if len(line) >= 300 or not _BANNER.fullmatch(line):
                return False
            stated = True
    return stated
