"""A run that stands still: alive is what moves."""

from __future__ import annotations

from typing import NamedTuple

from .context import Run

LEAST_BEATS = 3  # what is looked at once a heartbeat can't be late sooner
AT_WORK = 0.1  # of a processor: what waits for a lock or a lost peer uses less


class Signs(NamedTuple):
    """What one look showed of the program.

    `checkpoint`: the id of the newest complete one. `output`: changes where a file of the program's
    own grows. `cpu_seconds`: what its processes have used so far. `busy`: a card computes. `hot`:
    all its cards are at full utilisation and idle power, waiting for a message.
    """

    log_grew: bool = False
    step: int | None = None
    checkpoint: str = ""
    output: str = ""
    cpu_seconds: float = 0.0
    busy: bool = False
    hot: bool = False


class Watch:
    """Remembers when the program last showed that it goes on.

    A line, a step, a complete checkpoint or output in a file of its own proves life. Work of
    processors or cards proves none, since a hung collective spins: it delays a stall, once, by at
    most its limit.
    """

    def __init__(self, run: Run):
        self.run = run
        self._least = LEAST_BEATS * run.spec.timings.heartbeat
        self._gap = 0.0  # the longest time between two complete checkpoints
        self.reset()

    def reset(self) -> None:
        """Count anew from now."""
        up = self.run.up
        self._alive_at = self._step_at = self._power_at = self._looked_at = self._saved_at = up
        self._worked_at = up
        self._seen: Signs | None = None

    def look(self, now: Signs) -> str:
        """Return why the run counts as stalled, '' while it doesn't."""
        up = self.run.up
        gap, self._looked_at = up - self._looked_at, up
        if gap >= self._least:  # this process was stopped, and so may the program have been
            self._alive_at += gap
            self._step_at += gap
            self._power_at += gap
        seen, self._seen = self._seen or Signs(now.log_grew, None, now.checkpoint, now.output), now
        if now.checkpoint != seen.checkpoint:
            self._gap, self._saved_at = max(self._gap, up - self._saved_at), up
        saved = now.checkpoint != seen.checkpoint
        stepped = now.step != seen.step
        if saved or stepped:
            self._step_at = up
        if saved or stepped or now.log_grew or now.output != seen.output:
            self._alive_at = up
        used = now.cpu_seconds - seen.cpu_seconds
        if not now.hot and (now.busy or (gap > 0 and used >= AT_WORK * gap)):
            self._worked_at = up
        if not now.hot:
            self._power_at = up
        return self._judge(now)

    def _judge(self, now: Signs) -> str:
        spec, up = self.run.spec, self.run.up
        # A program that shows nothing but its checkpoints shows one that often.
        rare = 2 * max(self._gap, spec.save_every_seconds)
        silent = spec.stall_log_seconds and max(spec.stall_log_seconds, rare)
        if self._is_over(silent, self._alive_at, works=True):
            return f"no line, step, checkpoint or other output for {int(up - self._alive_at)} s"
        if self._is_over(spec.stall_step_seconds, self._step_at, works=True):
            shown = "none" if now.step is None else now.step
            return f"step {shown} for {int(up - self._step_at)} s"
        if self._is_over(spec.stall_power_seconds, self._power_at):
            return f"full utilisation at idle power for {int(up - self._power_at)} s"
        return ""

    def _is_over(self, limit: float, since: float, works: bool = False) -> bool:
        limit = limit and max(limit, self._least)
        if works:
            since = max(since, min(self._worked_at, since + limit))
        return limit > 0 and self.run.up - since >= limit
