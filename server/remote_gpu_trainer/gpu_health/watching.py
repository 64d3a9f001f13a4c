"""`health --watch N`: start a watch, here or on a box, which writes JSON lines.

Here it runs in the foreground. On a box it runs detached from the connection and writes a file
there; the script is then in ~/.cache/remote-gpu-trainer, because standard input ends with the
connection. A watch costs under 1 % of a core, and ends with --pid, with a signal, or with the box.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys

from ..boxes import box as boxes
from ..boxes.box import Box
from ..text import BadRequest
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


def arguments(interval: float, pid: int | None) -> tuple[str, ...]:
    """Return the script's arguments. Raises BadRequest for an interval that it can't keep."""
    if not LEAST <= interval <= MOST:
        raise BadRequest(
            f"--watch: {interval:g} is out of range; "
            f"pass {LEAST:g} to {MOST:g} seconds between samples"
        )
    return (f"--watch={interval:g}", *((f"--pid={pid}",) if pid else ()))


def here(interval: float, pid: int | None) -> int:
    """Watch this machine until a signal, or until `pid` or nvidia-smi ends.

    The JSON lines go to standard output. Returns the script's exit code. Raises BadRequest without
    an nvidia-smi.
    """
    words = arguments(interval, pid)
    if not shutil.which("nvidia-smi"):
        raise BadRequest("no nvidia-smi on the PATH, so nothing can be watched; install the driver")
    command = [sys.executable, "-I", str(script_path()), *words]
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
    words = next(
        (
            line.split(" ", 2)
            for line in reply.out.decode("utf-8", "replace").splitlines()
            if line.startswith("rgt-")
        ),
        [],
    )
    if len(words) == 3 and words[0] == "rgt-watch" and words[1].isdigit():
        return {"box": shown(box.name, 80), "pid": int(words[1][:9]), "file": shown(words[2], 300)}
    last = shown(" ".join(words[1:]), 160) or next(
        iter(shown_lines(reply.errors, 1, 160)), "no message"
    )
    raise BadRequest(
        f"no watch started on {shown(box.name, 80)} ({last}); it needs python3 and nvidia-smi "
        f"there, which remote-gpu-trainer health {box.argument} checks"
    )
