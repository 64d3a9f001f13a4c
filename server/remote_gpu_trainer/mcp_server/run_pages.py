"""What `run_status` answers: a run or all of them, what is billed, and when to look again."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..lookup.budget import tokens_of_json
from ..runs import status as run_status
from ..runs.overview import ENDED, NO_ANSWER, Row
from ..runs.status_reply import Status
from .next_look import Looks
from .pages import MOST
from .untrusted import as_data

OVER = (*ENDED, "nothing")  # states of a run that doesn't go on
LONGEST_LINE = 200  # characters of a quoted line


def of_run(
    status: Status, money: dict[str, Any], now: float, looks: Looks, asked: str = ""
) -> dict[str, Any]:
    """Return the answer about one run.

    `money`: as `billing.about` returns it. `now`: seconds since 1970. `looks`: at runs before.
    `asked`: the run as the caller names it. Of a long answer the oldest lines of the log go first.
    """
    lines = run_status.as_text(status).splitlines()
    is_late = status.silent or status.state == "stalled"
    left = None if is_late else _left(status.progress.get("seconds_left"), status.deadline, now)
    question = question_about(status.box, asked)
    answer = {
        "state": status.state,
        "box": status.box,
        "run": status.dir,
        "lines": [line.strip()[:LONGEST_LINE] for line in lines[1:]],
        "log": [line[:LONGEST_LINE] for line in status.tail],
        **({"decision": status.decision} if status.decision else {}),
        **{name: value for name, value in money.items() if value is not None},
        "look_again_in": looks.next_in(question, [] if status.state in OVER else [left], now),
    }
    answer = as_data(answer)
    while tokens_of_json(answer) > MOST and (answer["log"] or answer["lines"]):
        (answer["log"] or answer["lines"]).pop(0 if answer["log"] else -1)
    return answer


def of_runs(rows: list[Row], money: dict[str, Any], now: float, looks: Looks) -> dict[str, Any]:
    """Return the answer about all runs known from here, those that live first; what doesn't fit is
    counted in `left_out`. `money`, `now`, `looks`: as for `of_run`."""
    kept = ("name", "box", "state", "step", "percent", "loss", "seconds_left", "cost", "left")
    kept += ("hours_left", "why")
    found = [{name: asdict(row)[name] for name in kept} for row in rows]
    going = [row for row in rows if not row.has_ended]
    answer = {
        "runs": found,
        "billed": money["billed"],
        "look_again_in": looks.next_in("", [_left_of(row, now) for row in going], now),
    }
    answer, left_out = as_data(answer), 0
    while tokens_of_json(answer) > MOST and answer["runs"]:
        answer["runs"].pop()
        left_out += 1
    return {**answer, "left_out": left_out} if left_out else answer


def question_about(box: str, run: str) -> str:
    """Return what the looks at a run are counted under. `run`: as the caller names it."""
    return f"{box} {run}"


def _left(seconds: float | None, deadline: float | None, now: float) -> float | None:
    """Return the seconds until a run ends: by its progress, else by its deadline; else None."""
    return seconds or (deadline - now if deadline else None)


def _left_of(row: Row, now: float) -> float | None:
    """Return the seconds until the run of a row ends, None where nobody knows."""
    if row.state == "stalled" or row.last_state == "stalled":
        return None
    seconds = row.seconds_left
    if seconds and row.state == NO_ANSWER:
        seconds = max(0.0, seconds - (now - (row.at or now)))
    return _left(seconds, row.deadline, now)
