"""What `run_status` answers: a run or all of them, what is billed, and when to look again. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..lookup.budget import tokens_of_json
from ..runs import status as run_status
from ..runs.overview import Row
from ..runs.status_reply import Status
from .pages import MOST
from .untrusted import as_data

SOONEST = 300  # seconds until another look tells anything new
SHARE = 0.1  # of the time left: a night costs at most some forty calls
GOES_ON = ("alive", "stalled", "unreachable", "unknown", "no answer")
LONGEST_LINE = 200  # characters of a quoted line


def of_run(status: Status, money: dict[str, Any], now: float) -> dict[str, Any]:
    """Return the answer about one run.

    `money`: as `billing.about` returns it. `now`: seconds since 1970. Of a long answer the oldest
    lines of the log go first.
    """
    lines = run_status.as_text(status).splitlines()
    is_late = status.silent or status.state == "stalled"
    left = status.progress.get("seconds_left") or (
        status.deadline - now if status.deadline else None
    )
    answer = {
        "state": status.state,
        "box": status.box,
        "run": status.dir,
        "lines": [line.strip()[:LONGEST_LINE] for line in lines[1:]],
        "log": [line[:LONGEST_LINE] for line in status.tail],
        **({"decision": status.decision} if status.decision else {}),
        **{name: told for name, told in money.items() if told is not None},
        "look_again_in": _look_again_in(status.state, None if is_late else left),
    }
    answer = as_data(answer)
    while tokens_of_json(answer) > MOST and (answer["log"] or answer["lines"]):
        (answer["log"] or answer["lines"]).pop(0 if answer["log"] else -1)
    return answer


def of_runs(rows: list[Row], money: dict[str, Any]) -> dict[str, Any]:
    """Return the answer about all runs known from here, those that live first; what doesn't fit is
    counted in `left_out`. `money`: as for `of_run`."""
    kept = ("name", "box", "state", "step", "percent", "loss", "seconds_left", "cost", "left")
    kept += ("hours_left", "why")
    found = [{name: asdict(row)[name] for name in kept} for row in rows]
    looks = [_look_again_in(row.state, row.seconds_left) for row in rows]
    answer = {
        "runs": found,
        "billed": money["billed"],
        "look_again_in": min((look for look in looks if look is not None), default=None),
    }
    answer, left_out = as_data(answer), 0
    while tokens_of_json(answer) > MOST and answer["runs"]:
        answer["runs"].pop()
        left_out += 1
    return {**answer, "left_out": left_out} if left_out else answer


def _look_again_in(state: str, left: float | None) -> int | None:
    """Return the seconds until another look pays; None for a run that has ended.

    `left`: seconds until the run ends, None where that isn't known.
    """
    if state not in GOES_ON:
        return None
    return max(SOONEST, int((left or 0.0) * SHARE))
