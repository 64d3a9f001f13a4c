"""What the user wants to run, as one model for YAML, JSON, options and the MCP argument."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from ..runner.spec import SAVE_SECONDS, TIMINGS, place_kind
from ..text.money import Money, read_money
from .job_targets import Kubernetes, Skypilot, Slurm
from .job_values import (
    Below,
    BoxPath,
    Budget,
    Deadline,
    IsCommand,
    Line,
    Minutes,
    Name,
    OneOf,
    Pattern,
    Price,
    Rented,
    Result,
    RunDir,
    Strict,
    Text,
    Variable,
    no_secret_by_value,
    no_secret_in_words,
)
from .written import MOST_TOGETHER

Failure = Literal["preempted", "killed", "stall", "network", "hang", "unknown", "setup", "bug",
                  "oom", "host-oom", "disk", "gpu"]  # fmt: skip


Words = Annotated[list[Text], AfterValidator(no_secret_in_words)]
Timings = dict[str, Annotated[float, Field(ge=0)]]


def _check_budget(budget: str | None, price: str | None) -> None:
    """Raise ValueError for a budget that can't be counted."""
    wanted, hourly = read_money(budget), read_money(price)
    if wanted is None:
        return
    if hourly is None:
        raise ValueError("budget: nothing says what an hour costs; add price: 1.99 USD")
    for name, money in (("budget", wanted), ("price", hourly)):
        if not money.currency:
            raise ValueError(f"{name}: names no currency; write {name}: {money} USD")
    if wanted.currency != hourly.currency:
        raise ValueError(
            f"budget: is in {wanted.currency} and price in {hourly.currency}; write both in one"
        )


def _of_known_kind(address: str) -> str:
    """Return an address as it is. Raises ValueError for a scheme that no place has."""
    place_kind(address)
    return address


class Secret(OneOf):
    """Where the value lies on the box. Never the value itself."""

    file: Line | None = Field(default=None, description="a file on the box that holds the value")
    variable: Variable | None = Field(
        default=None,
        description="a variable of the box (Kubernetes, SkyPilot: a key of their secret)",
    )


class Copy(Strict):
    """Data to copy before the start."""

    source: Annotated[BoxPath, AfterValidator(_of_known_kind)] = Field(
        alias="from", description="on the box, or whatever `durable.to` may be"
    )
    to: BoxPath = Field(description="on the box")


class Checkpoint(Strict):
    """Where the program saves, how often and for how long."""

    folder: BoxPath = Field(description="the program must save to RGT_CHECKPOINT_DIR, this folder")
    pattern: Annotated[Line, AfterValidator(lambda pattern: pattern or "*")] = Field(
        default="*", description="glob of complete checkpoints, such as step_*.pt; *: any file"
    )
    files: list[Below] = Field(
        default=[],
        description="globs below the folder: what else belongs to each checkpoint, such as "
        "optim_*.pt, of which each has the one with its numbers, or args.json",
    )
    every_minutes: Minutes | None = Field(default=None, description="how often the program saves")
    save_seconds: float = Field(
        default=SAVE_SECONDS, gt=0, le=3600, description="how long one save takes at most"
    )


class Resume(OneOf):
    """How the runner has the program go on from its newest complete checkpoint."""

    flag: Annotated[Line, Field(pattern=r"^-")] | None = Field(
        default=None, description="added to the command, with the checkpoint's path behind it"
    )
    variable: Variable | None = Field(
        default=None, description="of the program's environment, which holds the path"
    )
    switch: Annotated[Line, Field(pattern=r"^-")] | None = Field(
        default=None,
        description="added to the command as it is, once there is a checkpoint: the program finds "
        "the newest one itself",
    )


class Durable(Strict):
    """The durable place: storage that outlives the box."""

    to: Annotated[Line, AfterValidator(_of_known_kind)] = Field(
        min_length=1,
        description="/path, ~/path, $NAME/path, [user@]host:path, rclone:REMOTE:path, s3://… or gs://…",
    )
    what: list[BoxPath] = Field(
        min_length=1,
        description="what to copy there; if one is missing at the end, the copy isn't verified. "
        "Links to folders in it aren't followed: name what they lead to",
    )
    every_minutes: Minutes = Field(
        default=0.5, description="how often to look for what is new and whole; 0.5 is 30 s"
    )
    on_this_box: bool = Field(
        default=False, description="true: this place may be on the box's own root disk"
    )


class AtEnd(Strict):
    """What happens to the box after the end and at the deadline."""

    do: Literal["keep", "stop", "run"] = Field(
        default="keep",
        description="stop: the profile's stop that keeps the disk; run: `command`. Either once the "
        "newest complete checkpoint and the results are safe at the durable place, and again until "
        "the box is gone",
    )
    command: Text | Words | None = Field(
        default=None,
        description="for run: a list of arguments, or one line for bash. It must bear repeating",
    )
    when: list[Literal["done", "failed", "deadline", "unsaved"]] = Field(
        default=["done", "failed", "deadline"],
        min_length=1,
        description="in which cases. With a durable place the command waits until all is proven "
        "safe there; unsaved lifts that from the deadline on, not before it: what is only on the "
        "box may be lost then, and you agree. Without a durable place, unsaved lets a command that "
        "deletes the disk run in each of the other cases",
    )
    keeps_disk: bool = Field(
        default=False,
        description="true: `command` deletes nothing, so the job needs no durable place for it",
    )
    unproven_minutes: Minutes = Field(
        default=60,
        description="after the deadline, how long the copy is tried again before the box is ended "
        "without a proof, by what keeps its disk: this command with keeps_disk, else the "
        "profile's stop. It limits nothing for a command that deletes: where the profile has no "
        "stop either, the box stays on, and you are told again and again, unless `when` has "
        "unsaved",
    )
    credential: Secret | None = Field(
        default=None, description="the key that this command needs on the box"
    )
    box_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")] | None = Field(
        default=None, description="the provider's id of the box; the command has it as RGT_BOX_ID"
    )

    @model_validator(mode="after")
    def _has_a_command(self):
        if (self.do == "run") != bool(self.command):
            raise ValueError(
                "do and command belong together; write {do: run, command: [...]}, or neither"
            )
        return self


class Stall(Strict):
    """After how many minutes a silent or idle run counts as stalled; 0 switches a test off."""

    log_minutes: Minutes = Field(
        default=30, description="without a line, a checkpoint or other output"
    )
    step_minutes: Minutes = Field(default=0, description="at the same step")
    idle_power_minutes: Minutes = Field(default=15, description="of busy cards at idle power")


class Floors(Strict):
    """What the disk must have free before the start."""

    free_gb: float = Field(default=5, ge=0, description="space, in GB")
    free_inodes: int = Field(default=10_000, ge=0, description="files that can still be made")


class Rehearsal(Strict):
    """A short trial of the run on the box, with another folder in RGT_CHECKPOINT_DIR."""

    arguments: Words = Field(
        default=[],
        description="arguments added to the command, to save and evaluate after a few steps",
    )
    minutes: Minutes = Field(default=10, description="after which it is given up")


class Cell(Strict):
    """One run of a queue: its name, and what is added to the command."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._=+-]{0,99}$")]
    arguments: Words = []


class Queue(Strict):
    """Several runs of one command, one after another or side by side on one box.

    Several boxes share a list by `--part 1/2` and so on, which `boxes` does for SkyPilot and
    Kubernetes.
    """

    cells: list[Cell] = Field(min_length=1, max_length=10_000)
    slots: int = Field(
        default=1, ge=1, le=64, description="cells at a time on a box, sharing its GPUs"
    )
    boxes: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="boxes that share the cells, a part each: managed jobs of SkyPilot, pods of "
        "Kubernetes. Slurm runs each cell by itself; other targets start one box",
    )


_BOUND = r"(~/|/)[A-Za-z0-9._/@+=-]*"


# Options that put the program into the background, need a terminal, give the container another
# name, or keep the run's variables and signals from it.
_CLOSED = {"-e", "--cleanenv", "-C", "--containall", "-p", "--pid"}
_DETACHED = {"-d", "--detach", "-t", "--tty", "-it", "-ti", "--name", "--sig-proxy", "--restart"}
_NOT_WITH_US = {
    "apptainer": _CLOSED,
    "singularity": _CLOSED,
    "docker": _DETACHED,
    "podman": _DETACHED,
    "pyxis": {"--pty", "--container-image", "--container-mounts", "--container-env"},
}


class Container(Strict):
    """A container around the program. Folders of the run lie at the same paths inside."""

    engine: Literal["apptainer", "singularity", "docker", "podman", "pyxis"] = Field(
        description="on the box; pyxis (srun --container-image) with Slurm only"
    )
    image: Annotated[Line, Field(pattern=r"^[A-Za-z0-9~./][A-Za-z0-9._:@/+~#=-]{0,254}$")] = Field(
        description="a path of the box that ends in .sif, .img or .sqsh, or a name"
    )
    mounts: list[Annotated[str, Field(pattern=rf"^{_BOUND}(:/[A-Za-z0-9._/@+=-]*)?(:r[ow])?$")]] = (
        Field(
            default=[],
            max_length=100,
            description="SOURCE, SOURCE:TARGET or with :ro; run folder, code, checkpoints and "
            "absolute targets of `data` are always there",
        )
    )
    options: Words = Field(
        default=[],
        description="further words for the engine, before the image, such as --shm-size=16g",
    )

    @model_validator(mode="after")
    def _keeps_to_what_we_need(self):
        if self.options and not self.options[0].startswith("-"):
            raise ValueError("options: the first word is no option; begin with one such as --env")
        for word in self.options:
            if word.partition("=")[0] in _NOT_WITH_US[self.engine]:
                raise ValueError(
                    f"options: {word.partition('=')[0]} would hide the program from its runner; "
                    "leave it out"
                )
        return self


class Job(Strict):
    """A training run and what must be true at its end."""

    name: Name = Field(description="of the run: lower-case letters, digits and '-'")
    command: Annotated[Text | Words, IsCommand] = Field(
        description="a list of arguments, or one line for bash"
    )
    deadline: Deadline = Field(
        description="when to stop: 20h, 90m, 2d after the first start, 18:00+02:00 for the next "
        "such time of day, or a date and time with its zone"
    )
    platform: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")] | None = Field(
        default=None,
        description="where the box is rented, as `rgt profile` lists them; --profile wins over it. "
        "A start on this machine doesn't read it",
    )
    code: Line | None = Field(
        default=None, description="a folder here to send to the box; its git state is recorded"
    )
    environment: Line | None = Field(
        default=None,
        description="requirements.txt, environment.yml or uv.lock of the code, to install",
    )
    setup: list[Text] = Field(
        default=[],
        description="lines of bash before the program, in its shell: module load, conda activate, "
        "export. Each must succeed. They run before every check of the interpreter, every attempt "
        "and every cell, so what is to happen once belongs elsewhere",
    )
    container: Container | None = Field(
        default=None, description="around the program; setup runs outside of it"
    )
    python: Line = Field(default="python3", min_length=1, description="the interpreter on the box")
    variables: Annotated[dict[Variable, Text], AfterValidator(no_secret_by_value)] = Field(
        default={}, description="of the program's environment; no secrets, which would be refused"
    )
    secrets: dict[Variable, Secret] = Field(
        default={},
        description="variables whose values lie on the box, for the program and for what copies to "
        "`durable.to`, such as AWS_SECRET_ACCESS_KEY",
    )
    gpus: int = Field(default=1, ge=0, le=64, description="GPUs of one node; 0 runs on the CPU")
    processes: int | None = Field(
        default=None, ge=1, le=1024, description="processes of one node (default: one for each GPU)"
    )
    nodes: int = Field(default=1, ge=1, le=1024, description="boxes that train one model together")
    launcher: Literal["none", "torchrun", "accelerate", "deepspeed", "slurm-tasks"] = Field(
        default="none",
        description="slurm-tasks: torchrun starts a process for each GPU, with the variables that "
        "srun would give it (SLURM_PROCID, SLURM_LOCALID, SLURM_NTASKS and so on)",
    )
    rendezvous: Annotated[str, Field(pattern=r"^[A-Za-z0-9.-]{1,200}(:\d{2,5})?$")] | None = Field(
        default=None, description="HOST:PORT of node 0, for several boxes over ssh"
    )
    data: list[Copy] = Field(default=[], description="what to copy on the box before the start")
    checkpoint: Checkpoint | None = Field(
        default=None, description="where the program saves; without it no run is resumed"
    )
    resume: Literal["automatic", "none"] | Resume = Field(
        default="automatic",
        description="how the program gets its newest complete checkpoint: automatic if it finds it "
        "itself, by RGT_RESUME_FROM too; {switch: --resume} if it does so only with that option; "
        "{flag: --resume} or {variable: NAME} if the runner passes "
        "it; none to begin anew",
    )
    save_signal: Literal["TERM", "USR1", "USR2", "INT"] = Field(
        default="TERM",
        description="the signal that makes the program save; torchrun forwards only TERM",
    )
    durable: Durable | None = Field(
        default=None, description="where copies go that outlive the box"
    )
    results: list[Result] = Field(
        [],
        description="files that must exist and have content at the end, or globs of them, such as "
        "out/*.json; {cell} is a cell's name",
    )
    final_step: int | None = Field(
        default=None,
        ge=1,
        description="the last step: an end before it isn't the end, and the time to the end is "
        "told by it where the output names none",
    )
    metric: Annotated[Line, Field(pattern=r"\w")] | None = Field(
        default=None,
        description="the number that counts, by its name in the output, such as val_acc; runs are "
        "compared by its last value",
    )
    budget: Budget | None = Field(
        default=None,
        description="money with its currency, such as 45 USD: when the box has cost it, the run "
        "saves and ends as at its deadline; needs price",
    )
    price: Price | None = Field(
        default=None, description="of one box for an hour, such as 1.99 USD"
    )
    rented: Rented | None = Field(
        default=None,
        description="since when the box is paid for, by which budget counts: a date and time with "
        "its zone, or now, which is the first start",
    )
    hours_between_kills: float | None = Field(
        default=None, gt=0, description="mean time between preemptions, if known"
    )
    retries: dict[Failure, Annotated[int, Field(ge=0, le=100)]] = Field(
        default={},
        description="how often to try again after each kind of failure; one left out is tried as "
        "references/run_script.md says, such as killed three times and bug once",
    )
    notify: Words = Field(
        default=[],
        description="a command; it gets the message on standard input and in RGT_MESSAGE; one that "
        "fails is tried three times more within three minutes",
    )
    at_end: AtEnd = Field(default=AtEnd(), description="what happens to the box after the end")
    stall: Stall = Field(default=Stall(), description="when a silent or idle run counts as stalled")
    step_pattern: Pattern = Field(
        default="",
        description="extended regular expression that finds the step: the last number of a match; "
        "only where rgt status doesn't show the step of itself",
    )
    on_nan: Literal["go-on", "stop"] = Field(
        default="go-on", description="at a loss of nan; told anyway"
    )
    floors: Floors = Field(default=Floors(), description="what the disk must have free")
    rehearsal: Rehearsal = Field(default=Rehearsal(), description="of a short trial before the run")
    probe: bool = Field(
        default=True,
        description="look at first steps, of rehearsals too, for failures that no log shows",
    )
    queue: Queue | None = Field(default=None, description="several runs of one command")
    run_dir: RunDir | None = Field(default=None, description="on the box (default ~/runs/NAME)")
    slurm: Slurm = Field(default=Slurm(), description="what only Slurm needs")
    kubernetes: Kubernetes | None = Field(default=None, description="what only Kubernetes needs")
    skypilot: Skypilot = Field(default=Skypilot(), description="what only SkyPilot needs")
    timings: SkipJsonSchema[Timings] = {}  # waits that only tests shorten: runner/spec.py

    @model_validator(mode="after")
    def _fits_together(self):
        if self.launcher != "none" and isinstance(self.command, str):
            raise ValueError(
                f"command: {self.launcher} can't start one line; write a list of arguments"
            )
        if self.launcher == "deepspeed" and self.nodes > 1:
            raise ValueError(
                "launcher: deepspeed can't start several nodes; use torchrun for the same program"
            )
        if self.nodes > 1 and self.launcher == "none":
            raise ValueError(
                "launcher: several nodes need one; use torchrun, accelerate or slurm-tasks"
            )
        if self.container and self.environment:
            raise ValueError(
                "environment: what is installed into a container is lost; build it into the image"
            )
        _check_budget(self.budget, self.price)
        if self.nodes > 1 and self.queue:
            raise ValueError("queue: its cells run on one node each; leave nodes out")
        if self.launcher != "none" and self.save_signal != "TERM":
            raise ValueError(
                f"save_signal: {self.launcher} doesn't forward {self.save_signal}; use TERM"
            )
        for name in sorted(set(self.timings) - set(TIMINGS)):
            raise ValueError(f"timings: unknown wait {name[:40]!r}; runner/spec.py lists them")
        names = [cell.name for cell in self.queue.cells] if self.queue else []
        if len(set(names)) < len(names):
            twice = min(name for name in names if names.count(name) > 1)
            raise ValueError(f"queue: two cells are called {twice!r}; give each its own name")
        if self.queue and self.queue.boxes > len(names):
            raise ValueError("queue: more boxes than cells; leave some out")
        if (size := len(self.model_dump_json().encode())) > MOST_TOGETHER:
            raise ValueError(
                f"a job of {size:,} bytes is over {MOST_TOGETHER:,}; put long values into files of "
                "the code"
            )
        return self

    @property
    def boxes(self) -> int:
        """Return how many boxes share the job's cells; 1 for a job without cells."""
        return self.queue.boxes if self.queue else 1

    @property
    def is_managed(self) -> bool:
        """Return whether SkyPilot runs it as managed jobs, whose boxes it ends by itself."""
        return self.skypilot.spot or self.boxes > 1

    @property
    def folder(self) -> str:
        """Return the run's folder on the box."""
        return self.run_dir or f"~/runs/{self.name}"

    @property
    def hourly(self) -> Money | None:
        """Return what all its boxes cost an hour, None where no price is named."""
        price = read_money(self.price)
        return price and price._replace(amount=price.amount * self.nodes * self.boxes)

    @property
    def ends(self) -> str:
        """Return when the run ends at the latest: its deadline, or when its budget is spent.

        As `runner.deadline.after` reads it. A budget counts from the time that `rented` names,
        else from the first start.
        """
        budget, hourly = read_money(self.budget), self.hourly
        if budget is None or hourly is None:
            return self.deadline
        hours = budget.amount / hourly.amount
        if self.rented in (None, "now"):
            return f"{self.deadline} or hours:{hours:.6f}"
        since = int((self.rented or "").removeprefix("at:"))
        return f"{self.deadline} or at:{int(since + hours * 3600)}"

    @property
    def hours(self) -> float | None:
        """Return the hours from the first start to the deadline, None where it is a time of day."""
        span = self.deadline.removeprefix("hours:")
        return float(span) if span != self.deadline else None
