"""A run that stands still."""

from __future__ import annotations

from .context import Run

LEAST_BEATS = 3  # what is looked at once a heartbeat can't be late sooner


class Watch:
    """Remembers when log, step and cards last showed that the program goes on."""

    def __init__(self, run: Run):
        self.run = run
        self._least = LEAST_BEATS * run.spec.timings.heartbeat
        self.reset()

    def reset(self) -> None:
        """Count anew from now."""
        self._log_at = self._step_at = self._power_at = self._looked_at = self.run.up
        self._step: int | None = None

    def look(self, log_grew: bool, step: int | None, hot: bool) -> str:
        """Return why the run counts as stalled, '' while it doesn't.

        `hot`: all its cards are at full utilisation and idle power, waiting for a message.
        """
        spec, up = self.run.spec, self.run.up
        gap, self._looked_at = up - self._looked_at, up
        if gap >= self._least:  # this process was stopped, and so may the program have been
            self._log_at += gap
            self._step_at += gap
            self._power_at += gap
        if log_grew:
            self._log_at = up
        if step != self._step:
            self._step, self._step_at = step, up
        if not hot:
            self._power_at = up
        if self._is_over(spec.stall_log_seconds, self._log_at):
            return f"no line in the log for {int(up - self._log_at)} s"
        if self._is_over(spec.stall_step_seconds, self._step_at):
            return f"step {'none' if step is None else step} for {int(up - self._step_at)} s"
        if self._is_over(spec.stall_power_seconds, self._power_at):
            return f"full utilisation at idle power for {int(up - self._power_at)} s"
        return ""

    def _is_over(self, limit: float, since: float) -> bool:
        return limit > 0 and self.run.up - since >= max(limit, self._least)
