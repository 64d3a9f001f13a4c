"""What the user wants to run, in the words of the field: one model for YAML, JSON, command-line options and the MCP argument.

A value that a shell, an argument list or a file name can't carry unharmed is refused here, by the name of its field, and never shown.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from .job_values import BoxPath, Deadline, Line, Minutes, Name, RunDir, Text, Variable, no_secret

MOST_TOGETHER = 600_000  # of a Kubernetes ConfigMap's 1 MiB, in which the runner lies too
FAILURES = (
    "preempted",
    "killed",
    "stall",
    "network",
    "hang",
    "unknown",
    "bug",
    "oom",
    "host-oom",
    "disk",
    "gpu",
)
Failure = Literal[FAILURES]


# Patterns are those of Rust, where $ is the very end of the text.
class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Secret(Strict):
    """Where the value lies on the box. Never the value itself."""

    file: Line | None = Field(None, description="a file on the box that holds the value")
    variable: Variable | None = Field(
        None,
        description="a variable of the box that holds it (for Kubernetes and SkyPilot: its key in their secret)",
    )

    @model_validator(mode="after")
    def _one(self):
        if (self.file is None) == (self.variable is None):
            raise ValueError("found both or neither of file and variable, expected one")
        return self


class Copy(Strict):
    source: BoxPath = Field(alias="from", description="on the box, or HOST:PATH")
    to: BoxPath


class Checkpoint(Strict):
    folder: BoxPath
    pattern: Line = Field(
        "",
        description="glob of whole checkpoints in the folder, such as step_*.pt or checkpoint-*; empty: any file",
    )
    every_minutes: Minutes | None = Field(None, description="how often the program saves")
    save_seconds: float = Field(30, gt=0, le=3600, description="how long one save takes, at worst")


class Resume(Strict):
    """How the program is told where to go on: by a flag or by a variable, whose value is the newest whole checkpoint."""

    flag: Annotated[Line, Field(pattern=r"^-")] | None = None
    variable: Variable | None = None

    @model_validator(mode="after")
    def _one(self):
        if (self.flag is None) == (self.variable is None):
            raise ValueError("found both or neither of flag and variable, expected one")
        return self


class Durable(Strict):
    to: Line = Field(
        min_length=1,
        description="/path, ~/path, [user@]host:path, rclone:REMOTE:path, s3://… or gs://…: a place that outlives the box",
    )
    what: list[BoxPath] = Field(
        min_length=1,
        description="files and folders to copy there; after a good end each must exist, or the copy isn't verified",
    )
    every_minutes: Minutes = 15


class AtEnd(Strict):
    """What happens to the box after the end and at the deadline."""

    do: Literal["keep", "stop"] = Field(
        "keep",
        description="stop: the profile's own stop that keeps the disk, once the last copy is verified, and at the deadline in any case",
    )
    credential: Secret | None = Field(None, description="the key that this stop needs on the box")
    box_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")] | None = Field(
        None, description="the provider's id of the box, where its stop command asks for one"
    )


class Stall(Strict):
    """After how many minutes a silent or idle run counts as stalled; 0 switches a test off."""

    log_minutes: Minutes = 30
    step_minutes: Minutes = 0
    idle_power_minutes: Minutes = 15


class Floors(Strict):
    free_gb: float = Field(5, ge=0)
    free_inodes: int = Field(10_000, ge=0)


class Rehearsal(Strict):
    arguments: list[Text] = Field(
        [], description="added to the command, so that it saves and evaluates after a few steps"
    )
    minutes: Minutes = 10


class Cell(Strict):
    """One run of a queue: its name, and what is added to the command."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._=+-]{0,99}$")]
    arguments: list[Text] = []


class Queue(Strict):
    cells: list[Cell] = Field(min_length=1, max_length=10_000)
    claims: BoxPath | None = Field(
        None,
        description="a folder that all boxes see, where each cell is claimed once; without it each box takes its part (--part 1/2)",
    )
    lease_minutes: float = Field(
        10, gt=0, description="a claim without a sign of life for so long is taken over"
    )
    slots: int = Field(
        1, ge=1, le=64, description="cells at a time on one box; each gets its share of the GPUs"
    )


class Slurm(Strict):
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    gpu_type: str | None = Field(None, description="as `sinfo -o %G` shows it, such as a100")
    cpus: int | None = Field(None, ge=1)
    memory_gb: int | None = Field(None, ge=1)
    most_hours: float | None = Field(
        None, gt=0, description="the partition's limit; the run is requeued before it"
    )
    requeue: bool = True
    signal_seconds: int = Field(
        120, ge=10, le=65535, description="how long before the time limit Slurm says so"
    )
    at_a_time: int | None = Field(None, ge=1, description="cells of a queue that run at once")


class Kubernetes(Strict):
    image: str
    claim: str | None = Field(None, description="PersistentVolumeClaim, mounted at `mount`")
    mount: str = "/workspace"
    namespace: str | None = None
    shm_gb: int = Field(8, ge=1)
    cpus: int | None = Field(None, ge=1)
    memory_gb: int | None = Field(None, ge=1)
    node_selector: dict[str, str] = {}


class Skypilot(Strict):
    accelerator: str | None = Field(None, description="such as H100")
    infra: str | None = Field(None, description="such as runpod, aws or kubernetes")
    spot: bool = False
    disk_gb: int | None = Field(None, ge=1)
    image: str | None = None


class Job(Strict):
    """A training run and what must be true at its end."""

    name: Name
    command: Text | list[Text] = Field(description="a list of arguments, or one line for bash")
    deadline: Deadline = Field(
        description="when the meter has to stop: 20h, 90m, 2d from the first start, or a time with its zone"
    )
    code: Line | None = Field(
        None,
        description="a folder here; it is sent to the box, its commit, difference and ignored files are recorded",
    )
    environment: Line | None = Field(
        None,
        description="requirements.txt, environment.yml or uv.lock in the code, installed before the first start",
    )
    python: Line = Field("python3", min_length=1, description="the interpreter on the box")
    variables: Annotated[dict[Variable, Text], AfterValidator(no_secret)] = {}
    secrets: dict[Variable, Secret] = {}
    gpus: int = Field(1, ge=0, le=64, description="of one node; 0 runs on the CPU")
    processes: int | None = Field(
        None, ge=1, le=1024, description="of one node, when it isn't one a GPU"
    )
    nodes: int = Field(1, ge=1, le=1024)
    launcher: Literal["none", "torchrun", "accelerate", "deepspeed"] = "none"
    rendezvous: Annotated[str, Field(pattern=r"^[A-Za-z0-9.-]{1,200}(:\d{2,5})?$")] | None = Field(
        None, description="HOST:PORT of node 0, for several boxes over ssh"
    )
    data: list[Copy] = []
    checkpoint: Checkpoint | None = None
    resume: Literal["automatic", "none"] | Resume = "automatic"
    save_signal: Literal["TERM", "USR1", "USR2", "INT"] = Field(
        "TERM", description="what asks the program to save; torchrun passes on TERM alone"
    )
    durable: Durable | None = None
    results: list[BoxPath] = Field(
        [],
        description="files that must exist and not be empty at the end; in a queue, {cell} stands for the cell's name",
    )
    budget: float | None = Field(None, gt=0, description="money, in the currency of price")
    price: float | None = Field(None, gt=0, description="of one box and hour")
    hours_between_kills: float | None = Field(
        None, gt=0, description="mean time between preemptions, where it is known"
    )
    retries: dict[Failure, Annotated[int, Field(ge=0, le=100)]] = {}
    notify: list[Text] = Field(
        [], description="a command; the message comes on its standard input and in RGT_MESSAGE"
    )
    at_end: AtEnd = AtEnd()
    stall: Stall = Stall()
    step_pattern: Line = Field(
        "",
        description="extended regular expression for a line that tells the step; its last number counts",
    )
    floors: Floors = Floors()
    rehearsal: Rehearsal = Rehearsal()
    queue: Queue | None = None
    run_dir: RunDir | None = Field(None, description="on the box; ~/runs/NAME when left out")
    slurm: Slurm = Slurm()
    kubernetes: Kubernetes | None = None
    skypilot: Skypilot = Skypilot()

    @model_validator(mode="after")
    def _fits_together(self):
        if not self.command or (isinstance(self.command, list) and not self.command[0]):
            raise ValueError("command: found nothing to run, expected a program")
        if self.launcher != "none" and isinstance(self.command, str):
            raise ValueError(
                f"command: found one line, expected a list of arguments: {self.launcher} starts the program itself"
            )
        if self.launcher == "deepspeed" and self.nodes > 1:
            raise ValueError(
                "launcher: found deepspeed on several nodes, expected torchrun there; a DeepSpeed program runs under it unchanged"
            )
        if self.nodes > 1 and self.launcher == "none":
            raise ValueError(
                "launcher: found none with several nodes, expected torchrun or accelerate"
            )
        if self.nodes > 1 and self.queue:
            raise ValueError("queue: found one with several nodes, expected cells of one node each")
        if self.launcher != "none" and self.save_signal != "TERM":
            raise ValueError(
                f"save_signal: found {self.save_signal}, expected TERM: {self.launcher} passes no other signal on"
            )
        names = [cell.name for cell in self.queue.cells] if self.queue else []
        if (
            twice := sorted({name for name in names if names.count(name) > 1})
            if len(set(names)) < len(names)
            else []
        ):
            raise ValueError(f"queue: found the name {twice[0]!r} twice, expected one cell a name")
        if (size := len(self.model_dump_json().encode())) > MOST_TOGETHER:
            raise ValueError(
                f"found {size:,} bytes in all, expected at most {MOST_TOGETHER:,}; put long values into files of the code"
            )
        return self

    @property
    def folder(self) -> str:
        return self.run_dir or f"~/runs/{self.name}"

    @property
    def hours(self) -> float | None:
        """The span of a deadline; None where it is a time of day."""
        return (
            float(self.deadline.removeprefix("hours:"))
            if self.deadline.startswith("hours:")
            else None
        )
