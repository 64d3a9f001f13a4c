"""When a run ends at the latest: its deadline, or when its budget is spent. Pure."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from typing import Any

from ..runner.deadline import after, cause
from ..runner.spec import SAVE_SECONDS
from ..text.spans import shown_moment, shown_seconds
from .job import Job
from .job_errors import JobError
from .job_reading import from_object
from .sent_job import COPY_SECONDS


def until(job: Job, now: float, first: float | None) -> str:
    """Return when the run ends at the latest, in this machine's time.

    `first`: when it was first started, by which its deadline counts; None for a run that begins
    `now`. Raises JobError where that has passed, where the budget leaves too little, or would begin
    to count only after now.
    """
    began = first or now
    if (since := paid_since(job, began)) > now:
        raise JobError(
            f"rented: {shown_moment(since)} lies ahead, and a budget would count only from then; "
            "write when the box was rented, or now"
        )
    at = after(job.ends, began)
    if at is None:
        return job.ends
    if at <= now:
        raise JobError(end_passed(job, now, began))
    by = cause(job.ends, job.budget, began)
    if by != "its deadline":
        if at - now < (least := least_seconds(job)):
            raise JobError(
                f"budget: {job.budget} leaves {shown_seconds(at - now)}, and a rehearsal, two "
                f"saves and a copy may take {shown_seconds(least)}; raise it, or rent a cheaper box"
            )
        hourly = f"{job.hourly} an hour since {shown_moment(paid_since(job, began))}"
        return f"{shown_moment(at)} at the latest, when {by} is spent: {hourly}"
    if job.deadline.startswith("at:"):
        return f"{shown_moment(at)} at the latest"
    return f"{shown_moment(at)} at the latest, counted from its first start" + (
        f" at {shown_moment(first)}" if first else ""
    )


def with_fixed_deadline(given: Any, first: float, now: float) -> dict[str, Any]:
    """Return the fields of a job whose deadline counts from a first start on another box.

    Raises JobError where it has passed.
    """
    job = from_object(given)
    until(job, now, first)
    at = after(job.ends, first)
    if at is None:
        return given
    return {**given, "deadline": f"{datetime.fromtimestamp(at, timezone.utc):%Y-%m-%dT%H:%M:%SZ}"}


def end_passed(job: Job, now: float, began: float) -> str:
    """Return what is wrong with the end of a job that lies behind `now`, and what to do.

    `began`: when it was first started, `now` for a job that wasn't yet.
    """
    at = after(job.ends, began)
    by = cause(job.ends, job.budget, began)
    if by != "its deadline":
        since = shown_moment(paid_since(job, began))
        return (
            f"budget: {job.budget} was spent at {shown_moment(at or now)}, at {job.hourly} an hour "
            f"since {since}; raise it, or end the box"
        )
    if began == now:
        return "deadline: has passed; write deadline: 20h, or a later time"
    return (
        f"deadline: {shown_moment(at or now)} has passed, counted from the first start at "
        f"{shown_moment(began)}; give a later one, such as --set deadline={later(began, now)}, an "
        "hour from now"
    )


def least_seconds(job: Job) -> float:
    """Return the seconds that a rehearsal, two saves and a copy may take."""
    save = job.checkpoint.save_seconds if job.checkpoint else SAVE_SECONDS
    return job.rehearsal.minutes * 60 + 2 * save + (COPY_SECONDS if job.durable else 0)


def paid_since(job: Job, began: float) -> float:
    """Return since when the box of a job counts as paid for."""
    since = (job.rented or "now").removeprefix("at:")
    return float(since) if since.isdigit() else began


def later(first: float, now: float) -> str:
    """Return the span from a first start to an hour from now, as a job's deadline has it."""
    return f"{math.ceil((now - first) / 60) + 60}m"
