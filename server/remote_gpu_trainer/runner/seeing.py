"""What is seen at one moment of a run, for core/decide.py: levels, looked at anew each time.

Only what the phase asks for is looked at. The program shows itself in attempt.py, the copies in
sync.py.
"""

from __future__ import annotations

from .attempt import Attempt
from .core.decide import State, is_due
from .core.model import Seen, Verdict
from .deadline import Countdown
from .heartbeat import Heartbeat
from .sync import Sync
from .why import full_folder


class Seeing:
    """Made once for a runner. `refusals`, `staged`: what a check and a stage came to, as doing.py
    left it; `settles_until`: when what is refused will come no more, by run.up."""

    def __init__(self, heartbeat: Heartbeat, attempt: Attempt, copies: Sync):
        self.heartbeat, self.run, self.attempt, self.copies = (
            heartbeat,
            heartbeat.run,
            attempt,
            copies,
        )
        self.refusals: tuple[Verdict, ...] | None = None
        self.settles_until = 0.0
        self.staged: Verdict | None = None
        self._countdown = Countdown(heartbeat.state.deadline, self.run.now, self.run.up)

    def see(self, state: State) -> Seen:
        """Return what is seen in this state. Beats before, and while something is slow to
        answer."""
        run, heartbeat, attempt = self.run, self.heartbeat, self.attempt
        heartbeat.beat()
        seen = Seen(
            left=self._countdown.left(run.now, run.up),
            save_seconds=heartbeat.saves.seconds(),
            refusals=self.refusals,
            settles=self.settles_until - run.up,
            staged=self.staged,
            is_first_node=run.rank == 0,
            attempt=attempt.number,
            is_alive=attempt.is_alive(),
            durable=run.durable,
        )
        if state.phase in ("preflight", "preempted"):
            seen = seen._replace(marked=run.folder.ended())
        is_training = state.phase == "running" and state.is_open
        seen = self.copies.see(state.copying, is_training, seen)
        is_staged = self.staged is not None and not self.staged.failure
        if state.phase == "staging" and is_staged and not run.asked:
            seen = attempt.see_wait(seen, True)
        elif state.phase == "running" and not state.is_open and not run.asked:
            seen = self._see_wait(state, seen)
        elif state.is_open and state.phase in ("running", "saving"):
            seen = attempt.see(state, seen) if attempt.number == state.attempt else seen
        # A request that came meanwhile cut short what was looked at.
        return seen._replace(asked=run.asked, has_lost_lease=heartbeat.has_lost_lease)

    def _see_wait(self, state: State, seen: Seen) -> Seen:
        """Return what is seen between two attempts."""
        up = self.run.up
        is_full = up < state.room_at and bool(full_folder(self.run))
        seen = seen._replace(is_full=is_full)
        return self.attempt.see_wait(seen, is_due(state, is_full, up))
