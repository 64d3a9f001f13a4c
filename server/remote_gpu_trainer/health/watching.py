"""`health --watch N`: here in the foreground; on a box detached from the connection, into a file there that a report can be made of.

The script lies under ~/.cache/remote-gpu-trainer there, because stdin ends with the connection. It costs under 1 % of a core and ends with --pid,
with a signal, or with the box.
"""

from __future__ import annotations

import secrets
import subprocess
import sys

from ..boxes import box as boxes
from ..boxes.box import Box
from ..text.errors import BadRequest
from ..text.masking import shown, shown_lines
from .examine import script, script_path

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
  sleep 1
  if [ ! -d "/proc/$pid" ] && [ ! -s "$out" ]; then
    printf 'rgt-none %s\n' "$(head -c 300 "$out.err" | tr '\n\r' '??')"
    return 0
  fi
  printf 'rgt-watch %s %s\n' "$pid" "$out"
}
main "$@"
"""


def arguments(interval: float, pid: int | None) -> tuple[str, ...]:
    """Raises BadRequest."""
    if not LEAST <= interval <= MOST:
        raise BadRequest(
            f"found --watch {interval:g}, expected {LEAST:g} to {MOST:g} seconds between samples"
        )
    return (f"--watch={interval:g}", *((f"--pid={pid}",) if pid else ()))


def here(interval: float, pid: int | None) -> int:
    """Watch this machine until a signal, the end of `pid` or of nvidia-smi; JSON lines go to stdout. The script's exit code."""
    try:
        return subprocess.run(
            [sys.executable, "-I", str(script_path()), *arguments(interval, pid)], check=False
        ).returncode
    except KeyboardInterrupt:  # it ended with the same signal, and has said so
        return 0


def there(box: Box, interval: float, pid: int | None, *, accept_new: bool = False) -> dict:
    """Start watching on a box. {box, pid, file}. Raises BadRequest when it didn't start."""
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
        f"found no watch started on {shown(box.name, 80)} ({last}), expected python3 and nvidia-smi there; do: remote-gpu-trainer health {box.argument}"
    )
