"""What ends the box: one text for whoever renders a job, reads its run.sh or starts it."""

from __future__ import annotations

from typing import Any

RECORD = "own/end.json"  # in the run folder: why the box is still on although it was to end
HOW = "at_end: {do: run, command: [...]}"
_UNSAVED_ALONE = (
    "from the deadline on, where the run trained to its end and its last copy isn't verified"
)
_CASES = {"done": "when the run is done", "failed": "when it failed", "deadline": "at the deadline"}


def of_command(spec: Any, line: str) -> str:
    """Return when the end command runs, and which it is, without a full stop.

    `spec`: the job as runner/spec.py has it. `line`: its end command as it is to be shown.
    """
    cases = [text for case, text in _CASES.items() if case in spec.at_end.when]
    when = ", ".join(cases[:-1]) + " and " + cases[-1] if len(cases) > 1 else "".join(cases)
    when = when or _UNSAVED_ALONE
    return f"{when}, the box runs `{line}`, and again until it is off: {_condition(spec)}"


def of_box(spec: Any, line: str) -> str:
    """Return what becomes of the box after the run, without a full stop; '' for nothing."""
    if spec.rendered.end.command:
        return of_command(spec, line)
    text = "nothing ends this box: it stays on and billed until you end it"
    return text if spec.rendered.billed else ""


def _condition(spec: Any) -> str:
    """Return on what condition the command runs."""
    keeps = spec.rendered.end.keeps_disk
    disk = "its disk is kept" if keeps else "it may delete the disk"
    if not spec.durable.to:
        return f"nothing is copied elsewhere, and {disk}"
    safe = "only once the newest complete checkpoint and the results are safe elsewhere"
    if "unsaved" in spec.at_end.when:
        is_before = {"done", "failed"} & set(spec.at_end.when)
        before = f"before the deadline {safe}, from the deadline on " if is_before else ""
        lost = "also while results are on this box only, which may be lost then"
        return f"{before}{lost}; {disk}"
    safe = f"{safe}; {disk}"
    minutes = f"{spec.at_end.unproven_minutes:g} min after the deadline"
    if keeps:
        return f"{safe}. Where they never are, it runs {minutes} all the same"
    if spec.rendered.stop.command:
        return f"{safe}. Where they never are, {minutes} the platform's own stop keeps the disk"
    return f"{safe}. Where they never are, it doesn't run"
