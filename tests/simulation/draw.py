"""What is drawn for a night: the program, its job, and what happens to the box.

Shares of programs are the census's: 41 % of programs tear a good file if they are killed while they
save, 94 % handle no signal, 58 % resume nothing, 8 % end with a code that means something else.
Rates of faults have a public source where one is named, times FACTOR, so that most nights hold one.
"""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import NamedTuple

from remote_gpu_trainer.runner.spec import TIMINGS

HOUR = 3600.0
NIGHT = 8 * HOUR
NEVER = 1e12
FACTOR = 40  # simulated rate by real rate
HEARTBEAT = 600.0  # seconds; ten in real nights, where nobody waits for a hundred thousand of them
# In a night of 8 hours on a box of 8 GPUs, before FACTOR.
GPU_RATE = 1.3e-3  # Llama 3: 419 unexpected interruptions in 54 days on 16,384 GPUs
HOST_RATE = 2.2e-3  # Meta's RSC-1: 6.5 failures in 1,000 node-days
# Nobody publishes these; they are shares of nights, as drawn.
PREEMPTED = 0.10  # AWS shows bands from under 5 to over 20 % a month; no nightly rate was found
PROVIDERS = {120.0: "aws", 30.0: "gcp", 15.0: ""}  # EC2's user guide; Compute Engine; pods of GKE
DISK_FULL, STORE_AWAY, STORE_HANGS, STORE_FULL = 0.10, 0.20, 0.05, 0.05
AWAY_SECONDS = 1800.0
END_FAILS, END_HANGS = 0.10, 0.03
ROTS = 0.05
KILLED = 0.30  # a kill of the program alone, as for memory
STOPPED = 0.06
SUPERVISOR_DIES = 0.25
CLOCK_JUMPS = 0.05
TOLD_TWICE = 0.10  # nights in which some actions are done twice
ACTIONS_FAIL, FAIL_OFTEN = 0.15, 0.02  # one in ten of them; one in two
REFUSED, UNSTAGED = 0.04, 0.03  # nights that a check refuses, or that get no environment or data
SETTLES = 600.0  # seconds after a boot in which what is refused may still come
# Seconds that half of all looks, decisions and actions take more than half of: nothing, an idle box, a
# loaded one. One in n of them takes n times as long.
PACES, PACE_SHARES, MOST_SECONDS = (0.0, 0.01, 0.2), (4, 4, 2), 60.0
FOLLOWED = 0.10  # nights in which a box is lost after a save that was cut: apart, both are rare


class Program(NamedTuple):
    """What a program does. `form`: how it saves. `keeps`: checkpoints that it leaves, 0 for all;
    `drops_first`: it removes an old one before it saves. `every`, `save_seconds`, `total`: seconds,
    and a second is a step. `in_two`: a save writes two files, one after the other. `has_proof`: its
    format shows whether a file is complete. `resumes`: it goes on from a checkpoint. `on_term`:
    dies, saves or ignores. `trouble`, at a step: what goes wrong by itself. `exits_wrong`: its code
    says the opposite. `is_silent`: it prints no step. `copy_seconds`: to copy one checkpoint.
    """

    form: str  # in_place, best, new_name, rotating, end_only, nothing, elsewhere
    keeps: int
    drops_first: bool
    every: float
    save_seconds: float
    total: float
    in_two: bool
    has_proof: bool
    resumes: bool
    on_term: str
    trouble: str  # '', at_once, bug_at, nan_at, hang_at
    trouble_at: float
    exits_wrong: bool
    is_silent: bool
    copy_seconds: float

    @property
    def saves_on_the_way(self) -> bool:
        """Return whether it leaves checkpoints in the job's folder before its end."""
        return self.form in ("in_place", "best", "new_name", "rotating")

    @property
    def is_one_name(self) -> bool:
        """Return whether each save goes over the one before it."""
        return self.form in ("in_place", "best")


class Faults(NamedTuple):
    """What happens, by the second; NEVER for what doesn't. Intervals are (from, until)."""

    killed: tuple[float, ...]
    cut_save: int  # the save in which the program is killed, 0 for none
    cut_at: float  # share of it that is written then
    gpu_lost: float
    host_lost: float
    preempted: float
    notice_seconds: float
    stopped: float
    full: tuple[float, float]
    away: tuple[float, float]
    hangs: tuple[float, float]
    store_full: tuple[float, float]
    room: int  # checkpoints that the durable place holds
    end_fails: int  # tries of the end command that fail first
    end_hangs: bool
    told_fails: int  # messages that can't be sent first
    reads_early: bool  # a save that has half gone reads as complete
    rots: float  # when a generation at the durable place is damaged
    death_share: float  # of steps at which the supervisor dies
    down_seconds: float
    fail_share: float  # of actions that fail
    twice_share: float  # of actions that are done twice
    jump_at: float
    jump_seconds: float
    had_before: int  # saves of an earlier box, whose last two are at the durable place
    refused: str = ""  # the class of what a check says until `refused_until`
    refused_until: float = NEVER
    settles: bool = False  # it is said to come still, for the box has just booted
    unstaged: str = ""  # the class of what fails before the first attempt


def program(chance: Random) -> Program:
    """Draw a program by the shares of the census."""
    form = chance.choices(
        ("in_place", "best", "new_name", "rotating", "end_only", "nothing", "elsewhere"),
        (24, 17, 26, 14, 8, 4, 7),
    )[0]
    resumes = chance.random() >= 0.58
    trouble = chance.choices(("", "at_once", "bug_at", "nan_at", "hang_at"), (76, 7, 7, 5, 5))[0]
    total = chance.uniform(0.3, 14) * HOUR
    in_two = form == "in_place" and chance.random() < 0.3
    # Where a save takes as long as the pause before it, nothing tells two halves from one save.
    seconds = (1.0, 20.0) if in_two else (1.0, 20.0, 120.0, 280.0)
    return Program(
        form=form,
        keeps=chance.choice((1, 1, 2, 3)) if form == "rotating" else 0,
        drops_first=form == "rotating" and chance.random() < 0.5,
        # Where all stay, a folder of hundreds shows nothing that one of ten doesn't.
        every=chance.choice(
            (900.0, 1800.0, 3600.0) if form == "new_name" else (300.0, 900.0, 3600.0)
        ),
        save_seconds=chance.choice(seconds),
        total=total,
        in_two=in_two,
        has_proof=chance.random() >= 0.1,
        resumes=resumes,
        on_term=chance.choices(("dies", "saves", "ignores"), (90, 6, 4))[0],
        trouble=trouble,
        trouble_at=chance.uniform(0, 1) * total,
        exits_wrong=chance.random() < 0.08,
        is_silent=chance.random() < 0.49,
        copy_seconds=chance.choice((5.0, 60.0, 600.0, 2400.0)),
    )


def faults(chance: Random) -> Faults:
    """Draw what happens to the box within a night."""

    def at(share: float) -> float:
        return chance.uniform(0, NIGHT) if chance.random() < share else NEVER

    def between(share: float, seconds: float) -> tuple[float, float]:
        begin = at(share)
        begin = 0.0 if begin < NIGHT / 5 else begin  # it's like that when the run begins
        return begin, begin + chance.expovariate(1 / seconds)

    killed = [chance.uniform(0, NIGHT) for _ in range(3) if chance.random() < KILLED / 2]
    jumps = chance.random() < CLOCK_JUMPS
    return Faults(
        tuple(sorted(killed)),
        chance.choice((1, 2, 3, 5)) if chance.random() < KILLED / 2 else 0,
        chance.uniform(0, 1),
        at(GPU_RATE * FACTOR),
        at(HOST_RATE * FACTOR),
        at(PREEMPTED),
        chance.choice(tuple(PROVIDERS)),
        at(STOPPED),
        between(DISK_FULL, 900.0),
        between(STORE_AWAY, AWAY_SECONDS),
        between(STORE_HANGS, AWAY_SECONDS),
        between(STORE_FULL, 4 * HOUR),
        chance.choice((2, 3, 9, 99, 99)),
        chance.choice((1, 3, 99)) if chance.random() < END_FAILS else 0,
        chance.random() < END_HANGS,
        chance.choice((1, 5)) if chance.random() < 0.1 else 0,
        chance.random() < 0.2,
        chance.choice((0.0, chance.uniform(0, NIGHT))) if chance.random() < ROTS else NEVER,
        chance.choice((0.01, 0.05, 0.3)) if chance.random() < SUPERVISOR_DIES else 0.0,
        chance.choice((1.0, 5.0, 60.0)),
        _share_that_fails(chance.random()),
        0.2 if chance.random() < TOLD_TWICE else 0.0,
        chance.uniform(0, NIGHT) if jumps else NEVER,
        chance.choice((-2 * HOUR, -60.0, 60.0, 2 * HOUR)),
        chance.choice((1, 2, 20)) if chance.random() < 0.25 else 0,
    )


def _share_that_fails(drawn: float) -> float:
    """Return the share of actions that fail, by a number from 0 to 1."""
    return 0.0 if drawn >= ACTIONS_FAIL else 0.5 if drawn < FAIL_OFTEN else 0.1


def refuse(faults: Faults, chance: Random) -> Faults:
    """Let a check refuse the start in some nights, and environment or data not come in others."""
    if chance.random() < REFUSED:
        faults = faults._replace(
            refused=chance.choice(("preflight", "gpu", "disk")),
            refused_until=chance.choice((NEVER, 60.0, 2 * SETTLES)),
            settles=chance.random() < 0.5,
        )
    if chance.random() < UNSTAGED:
        faults = faults._replace(unstaged=chance.choice(("setup", "disk", "network", "preflight")))
    return faults


def follow(faults: Faults, chance: Random) -> Faults:
    """Let faults follow each other in some nights: what a cut save leaves is copied, the box is
    lost, and another one goes on from what lies at the durable place."""
    if chance.random() >= FOLLOWED:
        return faults
    cut, lost = chance.choice((2, 3, 4)), chance.uniform(0.2, 0.7) * NIGHT
    return faults._replace(cut_save=cut, host_lost=min(lost, faults.host_lost))


class Pace:
    """How long a box takes for what is done on it at one moment."""

    def __init__(self, seed: int):
        self.chance = Random(f"{seed} takes time")
        self.seconds = self.chance.choices(PACES, PACE_SHARES)[0]

    def takes(self) -> float:
        """Return seconds: mostly next to none, rarely tens of them."""
        if not self.seconds:
            return 0.0
        return min(MOST_SECONDS, self.seconds / (1.0 - self.chance.random()))

    def share(self) -> float:
        """Return a number from 0 to 1."""
        return self.chance.random()


def job(chance: Random, what: Program) -> SimpleNamespace:
    """Draw the job of a program, as runner/spec.py reads one: with the fields that a decision asks."""
    kind = chance.choices(("run", "stop", "keep"), (50, 25, 25))[0]
    when = ["done", "failed", "deadline"]
    if chance.random() < 0.2:
        when.append("unsaved")
    has_place = what.form != "nothing" and chance.random() < 0.85
    # One in four jobs says that its program resumes, and it doesn't.
    says_resume = what.resumes or chance.random() < 0.25
    resume = chance.choice(("automatic", {"flag": "--resume"})) if says_resume else "none"
    watched = 0 if what.is_silent else chance.choice((0, 30, 60))
    keeps_disk = kind == "run" and chance.random() < 0.3
    return SimpleNamespace(
        name="night",
        nodes=1,
        gpus=8,
        results=["result.pt"] if chance.random() < 0.6 else [],
        final_step=None,
        resume=resume,
        retries={},
        on_nan=chance.choice(("go-on", "stop")),
        notify=chance.random() < 0.9,
        deadline_seconds=chance.choice((2, 6, 8, 8, 12)) * HOUR,
        checkpoint=SimpleNamespace(
            folder="out", pattern="*.pt", files=[], every_minutes=None, save_seconds=30.0
        ),
        durable=SimpleNamespace(
            to="place:run" if has_place else "",
            what=[],
            every_minutes=chance.choice((0.5, 5.0, 30.0)),
            on_this_box=False,
        ),
        stall=SimpleNamespace(log_minutes=watched, step_minutes=0, idle_power_minutes=0),
        at_end=SimpleNamespace(when=when, unproven_minutes=chance.choice((10.0, 30.0))),
        timings=SimpleNamespace(**{**TIMINGS, "heartbeat": HEARTBEAT}),
        rendered=SimpleNamespace(
            billed=chance.random() < 0.8,
            notice="",
            profile="",
            target="ssh",
            end=SimpleNamespace(
                command=["end"] if kind == "run" else None, keeps_disk=keeps_disk, needs=""
            )
            if kind != "stop"
            else SimpleNamespace(command=["stop"], keeps_disk=True, needs=""),
            stop=SimpleNamespace(command=["stop"] if kind == "stop" else None, needs=""),
        ),
    )
