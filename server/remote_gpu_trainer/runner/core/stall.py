"""A program that stands still."""

from __future__ import annotations

from typing import Any, NamedTuple

from .model import Signs

LEAST_BEATS = 3  # what is looked at once a heartbeat can't be late sooner
AT_WORK = 0.1  # of a processor: what waits for a lock or a lost peer uses less


class Watch(NamedTuple):
    """When the program last showed that it goes on; None before the first look.

    A line, a step, a complete checkpoint or output in a file of its own proves life. Work of
    processors or cards proves none, since a hung collective spins: it delays a stall, once, by at
    most its limit. `gap`: the longest time between two complete checkpoints.
    """

    PARTS = {"seen": Signs}

    looked_at: float | None = None
    alive_at: float = 0.0
    step_at: float = 0.0
    power_at: float = 0.0
    worked_at: float = 0.0
    saved_at: float = 0.0
    gap: float = 0.0
    seen: Signs | None = None


def begin(now: float) -> Watch:
    """Return a watch that counts from this moment."""
    return Watch(now, now, now, now, now, now)


def look(job: Any, watch: Watch, signs: Signs, now: float) -> tuple[Watch, str]:
    """Return why the program counts as stalled, '' while it doesn't."""
    watch = begin(now) if watch.looked_at is None else watch
    least = LEAST_BEATS * job.timings.heartbeat
    gap = 0.0 if watch.looked_at is None else now - watch.looked_at
    shift = gap if gap >= least else 0.0  # this process was stopped, and so may the program be
    seen = watch.seen or Signs(signs.log_grew, None, signs.checkpoint, signs.output)
    has_saved, has_stepped = signs.checkpoint != seen.checkpoint, signs.step != seen.step
    is_alive = has_saved or has_stepped or signs.log_grew or signs.output != seen.output
    used = signs.cpu_seconds - seen.cpu_seconds
    works = not signs.hot and (signs.busy or (gap > 0 and used >= AT_WORK * gap))
    watch = Watch(
        now,
        now if is_alive else watch.alive_at + shift,
        now if has_saved or has_stepped else watch.step_at + shift,
        watch.power_at + shift if signs.hot else now,
        now if works else watch.worked_at,
        now if has_saved else watch.saved_at,
        max(watch.gap, now - watch.saved_at) if has_saved else watch.gap,
        signs,
    )
    return watch, _find_stall(job, watch, signs, least, now)


def _find_stall(job: Any, watch: Watch, signs: Signs, least: float, now: float) -> str:
    limits = job.stall

    def is_over(limit: float, since: float, waits_for_work: bool) -> bool:
        limit = limit and max(limit, least)
        if waits_for_work:
            since = max(since, min(watch.worked_at, since + limit))
        return limit > 0 and now - since >= limit

    # A program that shows nothing but its checkpoints shows one that often.
    rare = 2 * max(watch.gap, (job.checkpoint.every_minutes or 0) * 60)
    silent = limits.log_minutes and max(limits.log_minutes * 60, rare)
    if is_over(silent, watch.alive_at, True):
        seconds = int(now - watch.alive_at)
        return f"no line, step, checkpoint or other output for {seconds} s"
    if is_over(limits.step_minutes * 60, watch.step_at, True):
        shown = "none" if signs.step is None else signs.step
        return f"step {shown} for {int(now - watch.step_at)} s"
    if job.gpus and is_over(limits.idle_power_minutes * 60, watch.power_at, False):
        return f"full utilisation at idle power for {int(now - watch.power_at)} s"
    return ""
