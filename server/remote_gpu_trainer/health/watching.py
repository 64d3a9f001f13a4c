"""`health --watch N`: start a watch, here or on a box, and read the JSON lines that it writes.

Here it runs in the foreground. On a box it runs detached from the connection and writes a file
there; the script then lies in ~/.cache/remote-gpu-trainer, because standard input ends with the
connection. A watch costs under 1 % of a core, and ends with --pid, with a signal, or with the box.

The lines are read into columns of numbers. The file is data: types are checked, texts are cut,
cleaned and masked. What is over a limit or can't be read is counted; a sample older than the one
before it is left out.
"""

from __future__ import annotations

import json
import math
import secrets
import subprocess
import sys
from array import array
from dataclasses import dataclass, field
from pathlib import Path

from ..boxes import box as boxes
from ..boxes.box import Box
from ..numbers import finite
from ..text import BadRequest
from ..text.masking import shown, shown_lines
from .examine import script, script_path
from .reading import LEVELS

LEAST, MOST = 0.1, 3600.0  # seconds between samples

THERE = r"""
main() {
  set -eu
  umask 077
  local folder=$HOME/.cache/remote-gpu-trainer
  mkdir -p "$folder"
  cat >"$folder/gpu_health.py" <<'MARK'
SCRIPT
MARK
  command -v python3 >/dev/null || { printf 'rgt-none python3\n'; return 0; }
  local out=$folder/watch-$(date +%Y%m%d-%H%M%S).jsonl
  setsid nohup python3 -I "$folder/gpu_health.py" "$@" >"$out" 2>"$out.err" </dev/null &
  local pid=$!
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    sleep 0.5
    if [ ! -d "/proc/$pid" ]; then
      { sed -n 's/.*"end":"\(.*\)"}$/\1/p' "$out"; cat "$out.err"; } >"$out.why"
      printf 'rgt-none %s\n' "$(head -c 300 "$out.why" | tr '\n\r' '??')"
      rm -f "$out.why"
      return 0
    fi
    if grep -q '"gpus"' "$out"; then break; fi
  done
  printf 'rgt-watch %s %s\n' "$pid" "$out"
}
main "$@"
"""

SERIES = ("util", "sm_mhz", "power_w", "temp_c", "mem_mib")
MOST_GPUS, MOST_EVENTS, MOST_SAMPLES = 64, 500, 3_000_000
MOST_BYTES, MOST_LINE = 1 << 30, 1 << 20  # of a file, and of one read of it
NONE = math.nan


def arguments(interval: float, pid: int | None) -> tuple[str, ...]:
    """The script's arguments for a watch. Raises BadRequest for an interval that it can't keep."""
    if not LEAST <= interval <= MOST:
        raise BadRequest(
            f"--watch: {interval:g} is out of range; "
            f"pass {LEAST:g} to {MOST:g} seconds between samples"
        )
    return (f"--watch={interval:g}", *((f"--pid={pid}",) if pid else ()))


def here(interval: float, pid: int | None) -> int:
    """Watch this machine until a signal, or until `pid` or nvidia-smi ends.

    The JSON lines go to standard output. Returns the script's exit code.
    """
    command = [sys.executable, "-I", str(script_path()), *arguments(interval, pid)]
    try:
        return subprocess.run(command, check=False).returncode
    except KeyboardInterrupt:  # the same signal ended the script, and it said so
        return 0


def there(box: Box, interval: float, pid: int | None, *, accept_new: bool = False) -> dict:
    """Start a watch on a box. Returns `box`, `pid` and `file`: its process and its file there.

    Raises BadRequest when it didn't start.
    """
    mark = f"RGT{secrets.token_hex(8)}"
    program = THERE.replace("MARK", mark).replace("SCRIPT", script())
    reply = boxes.run(box, program, args=arguments(interval, pid), limit=40, accept_new=accept_new)
    if reply.outcome != "ok":
        raise BadRequest(reply.text)
    told = next(
        (
            line.split(" ", 2)
            for line in reply.out.decode("utf-8", "replace").splitlines()
            if line.startswith("rgt-")
        ),
        [],
    )
    if len(told) == 3 and told[0] == "rgt-watch" and told[1].isdigit():
        return {"box": shown(box.name, 80), "pid": int(told[1][:9]), "file": shown(told[2], 300)}
    last = shown(" ".join(told[1:]), 160) or next(
        iter(shown_lines(reply.errors, 1, 160)), "no message"
    )
    raise BadRequest(
        f"no watch started on {shown(box.name, 80)} ({last}); it needs python3 and nvidia-smi "
        f"there, which remote-gpu-trainer health {box.argument} checks"
    )


@dataclass
class Series:
    """The samples of one GPU: `times` in seconds since 1970, and columns that are as long.

    `values` holds a column for each of SERIES, with NaN where the driver gave no value. `bits` are
    the reasons for held-back clocks, a bit for each of Watch.reasons. `why` counts the samples by
    the explanation that they came with.
    """

    times: array = field(default_factory=lambda: array("d"))
    values: dict[str, array] = field(default_factory=lambda: {name: array("d") for name in SERIES})
    bits: array = field(default_factory=lambda: array("q"))
    why: dict[str, int] = field(default_factory=dict)
    power_limit_w: float = NONE
    mem_total_mib: float = NONE


@dataclass(frozen=True)
class Event:
    """A finding during a watch, or its end (`over`). `gpu` is None for the whole box."""

    time: float
    gpu: int | str | None
    level: str
    evidence: str
    action: str
    entry: str
    over: bool = False


@dataclass
class Watch:
    """What a watch wrote. `interval` in seconds (NaN: not given); `end` says why it ended.

    `unread` counts lines that can't be read, `left_out` samples and findings that were dropped.
    """

    gpus: dict[int | str, Series] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    interval: float = NONE
    end: str | None = None
    samples: int = 0
    unread: int = 0
    left_out: int = 0

    @property
    def span(self) -> tuple[float, float]:
        """The first and the last time, at least a second apart."""
        told = [(one.times[0], one.times[-1]) for one in self.gpus.values() if one.times] + [
            (event.time, event.time) for event in self.events
        ]
        first, last = min(one for one, _ in told), max(one for _, one in told)
        return first, max(last, first + 1.0)


def read(path: Path) -> Watch:
    """Read the JSON lines of a watch. Raises BadRequest for a file without a sample."""
    watch = Watch()
    try:
        if path.stat().st_size > MOST_BYTES:
            raise BadRequest(f"{path}: over {MOST_BYTES >> 30} GiB; split it by lines")
        with path.open("rb") as file:
            while raw := file.readline(MOST_LINE):
                if raw.strip():
                    _line(watch, raw)
    except OSError as error:
        raise BadRequest(
            f"{path}: can't be read ({error.strerror}); pass a file that --watch wrote"
        ) from None
    if not watch.gpus:
        raise BadRequest(
            f"{path}: no samples; pass a file that remote-gpu-trainer health BOX --watch 10 wrote"
        )
    watch.events.sort(key=lambda event: event.time)
    return watch


def _line(watch: Watch, raw: bytes) -> None:
    try:
        told = json.loads(raw)
        time = _number(told["t"])
        if not 0 < time < 1e11:
            raise ValueError
    except (ValueError, TypeError, KeyError, RecursionError):
        watch.unread += 1
        return
    start = told.get("start")
    if isinstance(start, dict):
        watch.interval = _number(start.get("interval_s"))
    if isinstance(told.get("end"), str):
        watch.end = shown(told["end"], 200)
    for one in _list(told.get("findings")):
        _finding(watch, time, one)
    for text in _list(told.get("over")):
        _event(watch, Event(time, None, "over", shown(text, 300), "", "", True))
    gpus = _list(told.get("gpus"))
    if gpus:
        watch.samples += 1
    for one in gpus[:MOST_GPUS]:
        _sample(watch, time, one)
    why = told.get("why")
    for gpu, text in list(why.items())[:MOST_GPUS] if isinstance(why, dict) else []:
        series = watch.gpus.get(
            int(gpu) if str(gpu).isascii() and str(gpu).isdigit() and len(gpu) < 6 else gpu
        )
        text = shown(text, 200)
        if series and (text in series.why or len(series.why) < 20):
            series.why[text] = series.why.get(text, 0) + 1


def _sample(watch: Watch, time: float, one) -> None:
    label = _label(one.get("gpu")) if isinstance(one, dict) else None
    if (
        label is None
        or (label not in watch.gpus and len(watch.gpus) >= MOST_GPUS)
        or watch.samples > MOST_SAMPLES
    ):
        watch.left_out += 1
        return
    series = watch.gpus.setdefault(label, Series())
    if series.times and time <= series.times[-1]:
        watch.left_out += 1
        return
    series.times.append(time)
    for name in SERIES:
        series.values[name].append(_number(one.get(name)))
    bits = 0
    for reason in _list(one.get("throttle"))[:16]:
        reason = shown(reason, 40)
        if reason not in watch.reasons and len(watch.reasons) < 32:
            watch.reasons.append(reason)
        if reason in watch.reasons:
            bits |= 1 << watch.reasons.index(reason)
    series.bits.append(bits)
    for name, key in (("power_limit_w", "limit_w"), ("mem_total_mib", "mem_total_mib")):
        if key in one:
            setattr(series, name, _number(one[key]))


def _finding(watch: Watch, time: float, one) -> None:
    if not isinstance(one, dict):
        watch.unread += 1
        return
    level = next((level for level in LEVELS if level == one.get("level")), "unknown")
    entry = shown(one.get("entry") or "", 12)
    _event(
        watch,
        Event(
            time,
            _label(one.get("gpu")),
            level,
            shown(one.get("evidence", ""), 300),
            shown(one.get("action", ""), 240),
            entry if entry.isalnum() else "",
        ),
    )


def _event(watch: Watch, event: Event) -> None:
    if len(watch.events) < MOST_EVENTS:
        watch.events.append(event)
    else:
        watch.left_out += 1


def _label(value) -> int | str | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**6:
        return value
    return shown(value, 40) if isinstance(value, str) and value.strip() else None


def _list(value) -> list:
    return value if isinstance(value, list) else []


def _number(value) -> float:
    found = finite(value, below=1e12)
    return NONE if found is None else found
