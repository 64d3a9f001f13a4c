"""What the user wants to run, as one model for YAML, JSON, options and the MCP argument."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from ..runner.spec import TIMINGS
from .job_values import (
    Below,
    BoxPath,
    Deadline,
    IsCommand,
    Line,
    Minutes,
    Name,
    Pattern,
    Result,
    RunDir,
    Text,
    Variable,
    no_secret_by_value,
    no_secret_in_words,
)

MOST_TOGETHER = 600_000  # bytes of a job; a Kubernetes ConfigMap of 1 MiB holds the runner as well
Failure = Literal["preempted", "killed", "stall", "network", "hang", "unknown", "setup", "bug",
                  "oom", "host-oom", "disk", "gpu"]  # fmt: skip


Words = Annotated[list[Text], AfterValidator(no_secret_in_words)]
Timings = dict[str, Annotated[float, Field(ge=0)]]


def _is_number(annotation: object) -> bool:
    kinds = get_args(annotation) or (annotation,)
    return bool({int, float}.intersection(kinds)) and bool not in kinds


class Strict(BaseModel):
    """A part of a job: unknown fields are refused, and no message repeats a value."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_value(cls, value: object, info: ValidationInfo) -> object:
        """Refuse true where a number is wanted, which would be 1."""
        if isinstance(value, bool) and _is_number(
            cls.model_fields[str(info.field_name)].annotation
        ):
            raise ValueError(
                f"is {str(value).lower()}, not a number; write a number, or leave it out"
            )
        return value


class OneOf(Strict):
    """A part with several fields, exactly one of which is given."""

    @model_validator(mode="after")
    def _one(self):
        if sum(value is not None for _, value in self) != 1:
            raise ValueError(f"give exactly one of {' and '.join(type(self).model_fields)}")
        return self


class Secret(OneOf):
    """Where the value lies on the box. Never the value itself."""

    file: Line | None = Field(default=None, description="a file on the box that holds the value")
    variable: Variable | None = Field(
        default=None,
        description="a variable of the box (Kubernetes, SkyPilot: a key of their secret)",
    )


class Copy(Strict):
    """Data to copy before the start."""

    source: BoxPath = Field(alias="from", description="on the box, or HOST:PATH")
    to: BoxPath = Field(description="on the box")


class Checkpoint(Strict):
    """Where the program saves, how often and for how long."""

    folder: BoxPath = Field(description="the program must save to RGT_CHECKPOINT_DIR, this folder")
    pattern: Line = Field(
        default="", description="glob of complete checkpoints, such as step_*.pt; empty: any file"
    )
    files: list[Below] = Field(
        default=[],
        description="globs below the folder: what else belongs to each checkpoint, such as "
        "optim_*.pt, of which each has the one with its numbers, or args.json",
    )
    every_minutes: Minutes | None = Field(default=None, description="how often the program saves")
    save_seconds: float = Field(
        default=30, gt=0, le=3600, description="how long one save takes at most"
    )


class Resume(OneOf):
    """The flag or the variable that gives the program its newest complete checkpoint."""

    flag: Annotated[Line, Field(pattern=r"^-")] | None = Field(
        default=None, description="added to the command, with the checkpoint's path behind it"
    )
    variable: Variable | None = Field(
        default=None, description="of the program's environment, which holds the path"
    )


class Durable(Strict):
    """The durable place: storage that outlives the box."""

    to: Line = Field(
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
        description="in which cases; unsaved: also when nothing is safe elsewhere: what is only on "
        "the box is lost, and you agree",
    )
    keeps_disk: bool = Field(
        default=False,
        description="true: `command` deletes nothing, so the job needs no durable place for it",
    )
    unproven_minutes: Minutes = Field(
        default=60,
        description="after the deadline, how long to try to prove that all is safe. Then the "
        "profile's stop that keeps the disk ends the box; without one it stays on, and you are "
        "told again and again",
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


class Slurm(Strict):
    """What only Slurm needs. Its lines know no quoting, so each value has a strict form."""

    partition: str | None = Field(default=None, description="one, or several as a,b")
    account: str | None = None
    qos: str | None = None
    gpu_type: str | None = Field(
        default=None, description="as `sinfo -o %G` shows it, such as a100"
    )
    gres: bool = Field(
        default=True, description="false: no --gres line, where whole nodes come with their GPUs"
    )
    cpus: int | None = Field(default=None, ge=1)
    memory_gb: int | None = Field(default=None, ge=0, description="0: all memory of the node")
    constraint: str | None = Field(default=None, description="features, such as a100&nvlink")
    exclude: str | None = Field(default=None, description="nodes to keep away from: n[01-04,7]")
    nodelist: str | None = Field(default=None, description="nodes that the job must have")
    dependency: str | None = Field(default=None, description="such as afterok:123 or singleton")
    reservation: str | None = None
    exclusive: bool = Field(default=False, description="no other job on the nodes")
    options: dict[str, Annotated[StrictBool | Text, Field(union_mode="left_to_right")]] = Field(
        default={},
        description="further options of sbatch by name, such as {comment: x, contiguous: true}; "
        "runs/targets/sbatch_options.py lists them",
    )
    most_hours: float | None = Field(
        default=None, gt=0, description="the partition's limit; the run is requeued before it"
    )
    requeue: bool = True
    signal_seconds: int = Field(
        default=120, ge=10, le=65535, description="signal before the time limit"
    )
    at_a_time: int | None = Field(
        default=None, ge=1, description="cells of a queue that run at once"
    )


class Toleration(Strict):
    """A taint of nodes that the pod may run on; without a value any value of its key."""

    key: str | None = None
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class Kubernetes(Strict):
    """What only Kubernetes needs."""

    image: str
    claim: str | None = Field(default=None, description="PersistentVolumeClaim, mounted at `mount`")
    mount: str = "/workspace"
    namespace: str | None = None
    shm_gb: int = Field(default=8, ge=1)
    cpus: int | None = Field(default=None, ge=1)
    memory_gb: int | None = Field(default=None, ge=1)
    node_selector: dict[str, str] = {}
    labels: dict[str, Text] = Field(
        default={},
        description="of the Job and its pods, such as {kueue.x-k8s.io/queue-name: team}",
    )
    annotations: dict[str, Text] = Field(default={}, description="of the Job and its pods")
    resources: dict[str, Text] = Field(
        default={},
        description="what one node needs beside gpus, cpus and memory_gb, in limits and requests: "
        "{rdma/hca_shared_devices_a: 1}",
    )
    tolerations: list[Toleration] = []
    priority_class: str | None = None
    host_network: bool = Field(default=False, description="the pod uses its node's network")


class Skypilot(Strict):
    """What only SkyPilot needs."""

    accelerator: str | None = Field(
        default=None, description="such as H100, or A100,L4 for the one that can be had"
    )
    cpus: int | None = Field(default=None, ge=1, description="at least so many on a box")
    memory_gb: int | None = Field(default=None, ge=1, description="at least so much on a box")
    infra: str | None = Field(default=None, description="such as runpod, aws or kubernetes")
    region: str | None = Field(default=None, description="of infra, such as us-east-1")
    zone: str | None = Field(default=None, description="of the region")
    spot: bool = False
    disk_gb: int | None = Field(default=None, ge=1)
    image: str | None = None
    file_mounts: dict[BoxPath, Line] = Field(
        default={}, description="{path on the box: path here, or s3://…, gs://… and so on}"
    )
    setup: list[Text] = Field(
        default=[],
        description="lines of bash that SkyPilot runs once on each new box, such as apt-get "
        "install; what they export doesn't reach the program, as `setup` of the job does",
    )


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
        default={}, description="variables of the program whose values lie on the box"
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
        "itself, by RGT_RESUME_FROM too; {flag: --resume} or {variable: NAME} if the runner passes "
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
    budget: float | None = Field(default=None, gt=0, description="money, in the currency of price")
    price: float | None = Field(default=None, gt=0, description="price of one box for an hour")
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
        description="a command; it gets the message on standard input and in RGT_MESSAGE",
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
        if not self.command or (isinstance(self.command, list) and not self.command[0]):
            raise ValueError("command: nothing to run; name a program")
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
    def hours(self) -> float | None:
        """Return the hours from the first start to the deadline, None where it is a time of day."""
        span = self.deadline.removeprefix("hours:")
        return float(span) if span != self.deadline else None
