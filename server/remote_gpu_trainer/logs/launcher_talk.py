"""Find what a launcher says when a rank has failed: its own frames, whom it ended, a summary.

torchrun, accelerate and deepspeed say the same under every failure, so their words explain none.
An exit code does, unless it is 1.
"""

from __future__ import annotations

import re

from .lines import FRAME, Line

# The files of launchers, at the end of a frame's path.
_OWN = re.compile(
    r"(?:torch/distributed/(?:run|launch|launcher/api|elastic/\S{1,120})"
    r"|accelerate/commands/\S{1,80}|deepspeed/launcher/\w{1,40}|runpy)\.py$|"
    r"bin/(?:torchrun|accelerate|accelerate-launch|deepspeed)$|^<frozen runpy>$"
)
_CODE = re.compile(
    r"failed \(exitcode: ?(-?\d{1,5})\)|exits with return code = (-?\d{1,5})"
    r"|^\s*exitcode\s{0,8}: ?(-?\d{1,5})\b|returned non-zero exit status (\d{1,10})"
    r"|died with <(Signals\.\w{1,20}: \d{1,3})>"
)
_EMPTY = re.compile(
    r"Sending process \d+ closing signal SIGTERM|ChildFailedError"
    r"|\[launch\.py:\d+:sigkill_handler\] Killing subprocess"
    r"|^\W*(?:Root Cause \(first observed failure\)|Other Failures)|"
    r"^\s*(?:time|host|rank|error_file)\s{0,8}: |^\s*traceback\s{0,8}: To enable traceback"
    r"|^\s*<NO_OTHER_FAILURES>|^Failures:$|^\s*\S{1,200} FAILED\s*$|^\W{5,}$|^\s*\[\d+\]:$"
)
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


def launcher_talk(lines: list[Line]) -> dict[tuple[str, int], str]:
    """Return {(source, line number): what the line tells, mostly ""} for each line of a launcher.

    Empty for a report without one.
    """
    if not any(word in line.text for line in lines for word in _SAYS):
        return {}
    found: dict[tuple[str, int], str] = {}
    inside = False  # the last frame was the launcher's, and so is the line of code under it
    summary = False
    for line in lines:
        text = line.text
        if line.kind == "frame":
            frame = FRAME.match(text)
            inside = bool(_OWN.search(frame[1].replace("\\", "/"))) if frame else inside
            if inside:
                found[line.source, line.number] = ""
            continue
        inside = False
        code = _CODE.search(text) if "xit" in text or "died" in text else None
        if code and ("CalledProcess" not in text or _CHILD.search(text)):
            told = next(group for group in code.groups() if group)
            found[line.source, line.number] = "" if told == "1" else f"exit code {told}"
        elif _EMPTY.search(text) and (
            summary or not text.lstrip().startswith(("time", "host", "rank", "error_file"))
        ):
            found[line.source, line.number] = ""
        summary = summary or "ChildFailedError" in text or "Root Cause" in text
    return found
