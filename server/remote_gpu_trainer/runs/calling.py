"""Call a verb of a run's own script on a box: find the run, and let its run.sh do the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..boxes import box as boxes
from ..boxes.box import Box, Reply
from ..text import UserError
from ..text.masking import shown, shown_lines
from .status_reply import parts_of

ANSWERED = 4000.0  # seconds that `stop` may take: a save may last an hour

_PROCS = Path(__file__).resolve().parent.parent / "runner/procs.sh"
# Runs on the box: finds the run's folder. Without a name it is the newest run. A folder's name may
# hold anything; a line break in it becomes '?'.
_FIND = (
    _PROCS.read_text(encoding="utf-8")
    + r"""
find_run() {
  local want=$1 best='' one mark count=0
  tell() { printf '%s %s\n' "$1" "$(printf '%s' "$2" | tr '\n\r' '??')"; }
  lives() { rgt_read_noted "$@" && rgt_lives "${rgt_noted[@]}"; }
  case $want in
    '~/'*) dir=$HOME/${want#'~/'} ;;
    /*) dir=$want ;;
    */*) dir=$HOME/$want ;;
    ?*) dir=$HOME/runs/$want ;;
    *)
      for one in "$HOME"/runs/*/; do
        one=${one%/}
        [ -f "$one/run.sh" ] || continue
        count=$((count + 1))
        [ "$count" -gt 100 ] || tell rgt-run "${one##*/}"
        if lives "$one" runner || lives "$one" train; then tell rgt-live "${one##*/}"; fi
        mark=$one/state.json
        [ -e "$mark" ] || mark=$one/run.sh
        if [ -z "$dir" ] || [ "$mark" -nt "$best" ]; then dir=$one best=$mark; fi
      done
      ;;
  esac
  tell rgt-dir "$dir"
}
"""
)
# The run, and the words for its run.sh.
CALL = (
    _FIND
    + r"""
main() {
  set -u
  local dir=''
  find_run "$1"
  shift
  [ -n "$dir" ] && [ -f "$dir/run.sh" ] || return 0
  printf 'rgt-status\n'
  bash "$dir/run.sh" "$@" </dev/null
}
main "$@"
"""
)
# The run, and the words of a program that gets its folder as the last one.
PROGRAM = (
    _FIND
    + r"""
main() {
  set -u
  local dir=''
  find_run "$1"
  shift
  [ -n "$dir" ] && [ -d "$dir" ] || return 0
  printf 'rgt-status\n'
  exec "$@" "$dir"
}
main "$@"
"""
)
# The run: a shell for a person in its folder.
SHELL = (
    _FIND
    + r"""
main() {
  local dir=''
  find_run "$1" >/dev/null
  if [ -z "$dir" ] || ! cd -- "$dir" 2>/dev/null; then
    printf 'error: no run %s; %s\n' "${1:-under ~/runs}" 'name one with --run, or its folder' >&2
    exit 1
  fi
  [ ! -d code ] || printf 'in %s; the program runs in code/\n' "$PWD" >&2
  exec "${SHELL:-/bin/sh}" -i
}
main "$@"
"""
)


class NotCalled(UserError):
    """A run could not be asked. One line: what is wrong; what to do."""


@dataclass(frozen=True)
class Answer:
    """What a verb said: `lines` for people, `code` its exit code, `folder` the run's on the box."""

    lines: list[str]
    code: int
    folder: str


def call(
    box: Box, run: str, *words: str, limit: float, accept_new: bool = False, most: int = boxes.MOST
) -> Reply:
    """Return the box's reply to `run.sh WORDS` of a run: one line a fact, then the script's own.

    `run`: a name under ~/runs, or a folder on the box; '' for the newest run.
    """
    return boxes.run(box, CALL, args=(run, *words), limit=limit, most=most, accept_new=accept_new)


def verb(
    box: Box, run: str, *words: str, limit: float = ANSWERED, accept_new: bool = False
) -> Answer:
    """Let a run do something, and return what its script said. Raises NotCalled."""
    reply = call(box, run, *words, limit=limit, accept_new=accept_new)
    folder, printed = read_reply(reply, box, run, NotCalled)
    if reply.code is None:
        raise NotCalled(
            f"{folder}/run.sh printed too much; look at the script there with rgt ssh "
            f"{box.argument}"
        )
    lines = shown_lines(printed) + shown_lines(reply.errors)
    return Answer(lines, reply.code, folder)


def read_reply(reply: Reply, box: Box, run: str, fault: type[UserError]) -> tuple[str, str]:
    """Return a run's folder on the box, and what was printed there. Raises `fault` where the box
    gave no answer, or has no such run."""
    if reply.outcome != "ok":
        raise fault(reply.text)
    parts = parts_of(reply.out.decode("utf-8", "replace"))
    if parts.body is None:
        raise fault(parts.without_run(shown(box.name, 80), run))
    return parts.folder, parts.body


def follow(box: Box, run: str, *words: str, say: Callable[[str], None]) -> int:
    """Let a run do something that takes minutes, and hand on each line as it comes; return the
    exit code of its script. Raises NotCalled."""
    program = f"{CALL}\nprintf 'rgt-code %s\\n' $?\n"
    command = ("bash", "-c", 'exec bash -c "$0" rgt "$@" 2>&1', program, run, *words)
    name, head, code = shown(box.name, 80), "", None
    try:
        with boxes.stream(box, command) as stream:
            while line := stream.out.readline(1 << 16).decode("utf-8", "replace"):
                if "\nrgt-status\n" not in head:
                    head += line
                elif line.startswith("rgt-code "):
                    code = int(line.split()[1])
                else:
                    say("".join(shown_lines(line)))
            if code is None and "\nrgt-status\n" in head:
                raise NotCalled(boxes.trouble_of(box, stream).text)
    except boxes.NotStarted as error:
        raise NotCalled(error.trouble.text) from None
    parts = parts_of(head)
    if parts.body is None or code is None:
        raise NotCalled(parts.without_run(name, run))
    return code


def the_living_one(box: Box, *, accept_new: bool = False) -> str:
    """Return the name of the one run that is alive on a box, '' where none is.

    Raises NotCalled where several are, because the wrong one might be stopped.
    """
    reply = call(box, "", "--help", limit=30, accept_new=accept_new)
    if reply.outcome != "ok":
        raise NotCalled(reply.text)
    living = parts_of(reply.out.decode("utf-8", "replace")).living
    if len(living) > 1:
        raise NotCalled(
            f"{len(living)} runs are alive on {shown(box.name, 80)} ({', '.join(living)}); "
            "name one with --run"
        )
    return living[0] if living else ""
