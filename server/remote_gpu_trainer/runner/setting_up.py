"""The job's setup: lines of bash that run before the program, in the shell that becomes it."""

from __future__ import annotations

from .folder import Folder

NOTE = "own/setup.failed"  # in the run folder: number and exit status of a line that failed

# Its words: the note's path, the number of lines, the lines, and the program's words. A line is
# given to eval as it is, as the user's own shell would read it. `module` is found where no login
# shell ran; a line that ends the shell has failed too.
PRELUDE = """\
rgt_note=$1 rgt_count=$2
shift 2
rgt_lines=("${@:1:rgt_count}") rgt_words=("${@:rgt_count + 1}") rgt_at=0
set --
rgt_find_modules() {
  unset -f module ml
  local rgt_file
  for rgt_file in /etc/profile.d/{lmod,z00_lmod,modules}.sh "${LMOD_PKG-}/init/bash" \\
    "${MODULESHOME-}/init/bash"; do
    [[ ! -r $rgt_file ]] || . "$rgt_file"
    ! declare -F module >/dev/null || return 0
  done
  echo "setup: there is no module command on this machine" >&2
  return 127
}
declare -F module >/dev/null || module() { rgt_find_modules && module "$@"; }
declare -F ml >/dev/null || ml() { rgt_find_modules && ml "$@"; }
rgt_failed() {
  local rgt_code=$?
  ((rgt_code)) || rgt_code=1
  { printf '{"line": %d, "code": %d}\\n' "$((rgt_at + 1))" "$rgt_code" >"$rgt_note"; } 2>/dev/null
  exit "$rgt_code"
}
trap rgt_failed EXIT
for rgt_at in "${!rgt_lines[@]}"; do
  eval "${rgt_lines[rgt_at]}" || exit
done
trap - EXIT
exec -- "${rgt_words[@]}"
"""


def around(lines: list[str], words: list[str], note: str = "/dev/null") -> list[str]:
    """Return the words of a shell that runs the lines and then becomes the command `words`.

    A line that fails is noted in the file `note`, as JSON: its number from 1, its exit status.
    """
    if not lines:
        return words
    return ["bash", "-c", PRELUDE, "setup", note, str(len(lines)), *lines, *words]


def before(folder: Folder, lines: list[str], words: list[str]) -> list[str]:
    """Return the same for a command of the run in this folder. What failed before is forgotten."""
    folder.remove(NOTE)
    return around(lines, words, folder.at(NOTE))


def failure(folder: Folder, lines: list[str]) -> str:
    """Return which line failed in the last command of `before`, '' for none."""
    noted = folder.json(NOTE)
    number, code = noted.get("line"), noted.get("code")
    if not isinstance(number, int) or not 0 < number <= len(lines):
        return ""
    line = " ".join(lines[number - 1].split())
    shown = line if len(line) <= 200 else f"{line[:198]} …"
    return f"setup: line {number} failed with exit status {code}: {shown}"
