"""Answers that fit into an agent's context: at most `MOST` tokens, the most urgent part first."""

from __future__ import annotations

from typing import Any

from ..lookup.budget import tokens_of_json
from ..text import BadRequest
from .untrusted import as_data

MOST = 2000  # tokens of an answer, by an estimate that errs on the high side
MOST_LEVERS = 6  # changes that would save memory
MOST_MEASURED = 4  # like runs that were measured
# The lists of a report on staleness, most urgent first: before the ages that each report has, what
# the call asked about, its packages and its release. The facts in `doubt` that no dated page states
# come last: they were so yesterday.
URGENT = ("contradictions", "out_of_range", "doubt", "stale", "concerns")


def of_staleness(report: dict, start: int) -> dict:
    """As many findings of a report as fit, from number `start` on.

    `counts` says how many there are in all, `next` where the next page starts, None after the last
    one. Raises BadRequest when `start` is behind the last finding.
    """
    from ..platforms.staleness import UNDATED  # not at the top, for a fast start

    findings = sorted(
        ((name, item) for name in URGENT for item in report[name]),
        key=lambda finding: finding[1].get("why") == UNDATED,
    )
    if start and start >= len(findings):
        raise BadRequest(
            f"cursor: there are {len(findings)} findings, and {start} is behind them; "
            "pass `next` of the answer before, or leave it out"
        )
    page = {
        "counts": {name: len(report[name]) for name in URGENT},
        "next": len(findings),
        **{name: [] for name in URGENT},
    }
    room = MOST - tokens_of_json(page)
    end = start
    for name, item in findings[start:]:
        room -= tokens_of_json(item) + 1
        if room < 0 and end > start:
            break
        page[name].append(item)
        end += 1
    page["next"] = end if end < len(findings) else None
    return page


def of_fit(report: dict[str, Any]) -> dict[str, Any]:
    """The estimate without its arithmetic, and of the changes those that save most."""
    lever = ("change", "options", "saves_gib", "need_gib", "verdict", "entry")
    best = sorted(report["levers"], key=lambda one: -one["saves_gib"])[:MOST_LEVERS]
    remarks = [f"most is taken {report['moment']}", *report["remarks"]]
    if report["why"]:
        remarks.append(f"the range is wide: {report['why']}")
    if report["not_counted"]:
        remarks.append(f"not counted: {', '.join(report['not_counted'])}")
    if together := report.get("together"):
        remarks.append(f"{together['options']} together: {together['need_gib']:.1f} GiB")
    remarks += [f"measured: {line}" for line in report["measured"][:MOST_MEASURED]]
    sizes = ("verdict", "gpu", "need_gib", "least_gib", "most_gib")
    answer = as_data(
        {
            **{name: report[name] for name in sizes},
            "parts": {line["what"]: line["gib"] for line in report["lines"]},
            "levers": [{name: one[name] for name in lever} for one in best],
            **({"solved": report["solved"]} if "solved" in report else {}),
            "remarks": remarks,
        }
    )
    while tokens_of_json(answer) > MOST and (answer["levers"] or answer["remarks"]):
        (answer["levers"] or answer["remarks"]).pop()
    return answer


def of_health(health: dict) -> dict:
    """The answer with as many findings as fit, worst first; `left_out` counts the rest.

    Cards and figures that take half the room or more, which only a box that lies sends, go first.
    """
    findings = health["findings"]
    answer = {**health, "findings": []}
    for name in ("stress", "gpus"):
        if tokens_of_json(answer) > MOST / 2:
            answer |= {name: type(answer[name])(), "partial": f"without {name}: it is too long"}
    left_out = dict(health.get("left_out", {}))
    levels = {finding["level"] for finding in findings}
    room = MOST - tokens_of_json({**answer, "left_out": {**dict.fromkeys(levels, 99), **left_out}})
    for at, finding in enumerate(findings):
        room -= tokens_of_json(finding) + 1
        if room < 0 and at:
            for further in findings[at:]:
                left_out[further["level"]] = left_out.get(further["level"], 0) + 1
            break
        answer["findings"].append(finding)
    return {**answer, "left_out": left_out} if left_out else answer
