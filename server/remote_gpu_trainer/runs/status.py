"""How the run on a box is: one ssh call that asks the run's own script, and a wait for the first change."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..boxes import box as boxes
from ..boxes.box import Box
from ..text.masking import shown
from .status_reading import Status, read

LIMIT = 30  # seconds for one question
INTERVAL, MOST_PAUSE = (
    30.0,
    60.0,
)  # seconds between questions; and at most, while there is no answer
LOST = 900.0  # seconds without an answer after which the box is called unreachable
FOR_GOOD = ("host-key-unknown", "host-key-changed", "restricted", "no-ssh")  # waiting doesn't help
AT_FIRST = ("name", "auth")  # nor here, when nothing was ever reached

# Runs there. Names of folders may hold anything but a line break, which becomes '?'.
ASK = r"""
main() {
  set -u
  local want=$1 dir='' best='' one mark count=0
  tell() { printf '%s %s\n' "$1" "$(printf '%s' "$2" | tr '\n\r' '??')"; }
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
        mark=$one/state.json
        [ -e "$mark" ] || mark=$one/run.sh
        if [ -z "$dir" ] || [ "$mark" -nt "$best" ]; then dir=$one best=$mark; fi
      done
      ;;
  esac
  tell rgt-dir "$dir"
  [ -n "$dir" ] && [ -f "$dir/run.sh" ] || return 0
  printf 'rgt-status\n'
  bash "$dir/run.sh" status --json </dev/null
}
main "$@"
"""


def ask(box: Box, run: str = "", *, accept_new: bool = False, now: float | None = None) -> Status:
    """The run's state, by one call. `run`: a name under ~/runs, or a folder there; '' for the newest."""
    reply = boxes.run(box, ASK, args=(run,), limit=LIMIT, accept_new=accept_new)
    name = shown(box.name, 80)
    if reply.outcome == "unreachable":
        return Status("unreachable", name, why=reply.why, text=reply.text)
    if reply.outcome == "overtime":
        return Status(
            "unknown",
            name,
            why="overtime",
            text=f"{reply.text}; do: look whether a disk there hangs",
        )
    return read(
        name,
        reply.out.decode("utf-8", "replace"),
        reply.cut,
        run,
        time.time() if now is None else now,
        reply.errors,
    )


def wait(
    question: Callable[[], Status],
    *,
    most: float,
    interval: float = INTERVAL,
    lost: float = LOST,
    clock=time.monotonic,
    sleep=time.sleep,
) -> Status:
    """Ask until the run is no longer alive, its loss is nan, or `most` seconds are over. Times without an answer aren't the run's death: they end it after `lost` seconds only."""
    began, silent_since, tries, reached = clock(), None, 0, False
    while True:
        status = question()
        now = clock()
        status.waited = now - began
        if status.state in ("unreachable", "unknown"):
            silent_since, tries = now if silent_since is None else silent_since, tries + 1
            if status.why in FOR_GOOD or (not reached and status.why in AT_FIRST):
                return status
            if now - silent_since >= lost:
                status.evidence.append(
                    f"no answer for {(now - silent_since) / 60:.0f} min{'' if reached else ', and none before'}; whether the run lives is not known"
                )
                return status
            pause = min(5.0 * 2 ** min(tries - 1, 9), MOST_PAUSE, lost - (now - silent_since))
        else:
            silent_since, tries, reached, pause = None, 0, True, interval
            if status.state != "alive" or status.numbers:
                return status
        left = most - (now - began)
        if left <= 0:
            status.ceiling = True
            return status
        sleep(min(pause, left))


def explain(status: Status) -> None:
    """Name the entries that explain a run that failed, stalls or trains on nan, by the look-up over what its log ends with."""
    if status.state not in ("failed", "stalled", "preempted") and not status.numbers:
        return
    from ..catalogue import bundle
    from ..logs.files import Unreadable
    from ..lookup.answer import plain
    from ..lookup.look_up import answer_for

    known = bundle.load()
    if status.entry:
        try:
            entry = known.get(status.entry)
            by = "the numbers at the log's end" if status.numbers else "the run's own script"
            status.matches.append({"id": entry.id, "title": plain(entry.title), "by": by})
        except bundle.CatalogueError:
            status.entry = ""
    if not status.tail or status.state == "preempted" or status.numbers:
        return
    try:
        answer = answer_for(text="\n".join(status.tail))
    except Unreadable:
        return
    have = {match["id"] for match in status.matches}
    status.matches += [
        {"id": m["id"], "title": m["title"], "by": f"the log's end, {m['confidence']} confidence"}
        for m in answer.matches
        if m["id"] not in have
    ]


def as_text(status: Status) -> str:
    """The status for a terminal."""
    out = [
        f"{status.state}: {status.dir or status.box}"
        + (" (still, at the ceiling of the wait)" if status.ceiling else "")
    ]
    out += [f"    {status.text}"] if status.text else []
    out += [f"    {line}" for line in status.evidence]
    out += [f"    {match['id']}  {match['title']} ({match['by']})" for match in status.matches]
    if len(status.runs) > 1:
        out.append(f"    runs there: {', '.join(status.runs)}; name one with --run")
    return "\n".join(out)
