"""An `ssh` for a PATH: its hosts are folders of a test, and no connection is made.

`hang…` never answers, `gone…` refuses. `NAME` runs the command with the folder NAME as its home; while a file `NAME.cut` lies beside it,
a connection to it breaks after so many bytes of output, and the file is gone.
"""

from __future__ import annotations

import os
from pathlib import Path

_SSH = """\
#!/bin/bash
while [[ ${1-} == -* && $1 != -- ]]; do
  case $1 in -G) config=yes ;; -o | -p | -i | -J | -F | -l) shift ;; esac
  shift
done
[[ $1 == -- ]] && shift
host=$1 place=@PLACE@
case $host in
  hang*) exec sleep 600 ;;
  gone*) echo "ssh: connect to host $host port 22: Connection refused" >&2; exit 255 ;;
esac
if [[ ${config-} ]]; then printf 'hostname %s\\nport 22\\n' "$host"; exit; fi
echo "$host" >>"$place/calls"
export HOME=$place/$host
cd "$HOME" || exit 255
if [[ -f $place/$host.cut ]]; then
  bytes=$(<"$place/$host.cut")
  rm "$place/$host.cut"
  bash -c "$2" | stdbuf -o0 head -c "$bytes"
  exit 255
fi
exec bash -c "$2"
"""


def fake_ssh(place: Path, monkeypatch) -> Path:
    """Put it on the PATH, with a state folder of the test's own; return the folder of its hosts."""
    (place / "bin").mkdir(parents=True)
    ssh = place / "bin" / "ssh"
    ssh.write_text(_SSH.replace("@PLACE@", str(place)))
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    monkeypatch.setenv("HOME", str(place / "own-home"))
    monkeypatch.delenv("REMOTE_GPU_TRAINER_SSH_CONFIG", raising=False)
    return place
