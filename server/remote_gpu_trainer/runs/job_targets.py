"""What only Slurm, Kubernetes and SkyPilot need of a job: their fields, each with its constraints.

What goes into an engine's own file without quotes has a strict form.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictBool, ValidationInfo, field_validator

from .job_values import BoxPath, Line, Strict, Text, form
from .targets import sbatch_options

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_NAMES = rf"{_NAME}(,{_NAME}){{0,31}}"
_DEPENDENCY = (
    r"((after|afterok|afterany|afternotok|aftercorr|afterburstbuffer)"
    r"(:[1-9][0-9]{0,9}(_([0-9]{1,7}|\*))?(\+[0-9]{1,6})?){1,20}|singleton)"
)
_WORD_SAYS = "1 to 64 letters, digits, '.', '_' and '-', the first a letter or digit"
_SHOWN = "write it as `sinfo` or `sacctmgr` shows it"
Word = Annotated[str, form(_NAME, _WORD_SAYS, _SHOWN)]
# Some sites add @gpu.
Account = Annotated[str, form(r"[A-Za-z0-9][A-Za-z0-9@._-]{0,63}", _WORD_SAYS, _SHOWN)]
Hosts = Annotated[
    str,
    form(
        r"[A-Za-z0-9][A-Za-z0-9._,\[\]-]{0,1023}",
        "names of nodes, such as n[01-04,7]",
        "look at `sinfo -N`",
    ),
]
Partition = Annotated[
    str,
    form(
        _NAMES,
        "the name of a partition, or several with ',' between them",
        "write them as `sinfo` shows them",
    ),
]
Features = Annotated[
    str,
    form(
        r"[A-Za-z0-9(\[!][A-Za-z0-9._&|()\[\]*,:-]{0,127}",
        "features joined by '&', '|' or in brackets",
        "write them as `sinfo -o %f` shows them",
    ),
]
Dependency = Annotated[
    str,
    form(
        rf"{_DEPENDENCY}([,?]{_DEPENDENCY}){{0,15}}",
        "such as afterok:123 or singleton",
        "take the numbers from `squeue --me`",
    ),
]
Reservation = Annotated[
    str,
    form(
        _NAMES,
        "the name of a reservation",
        "look at `scontrol show reservation`",
    ),
]


class Slurm(Strict):
    """What only Slurm needs. Its lines know no quoting, so each value has a strict form."""

    partition: Partition | None = Field(default=None, description="one, or several as a,b")
    account: Account | None = None
    qos: Word | None = None
    gres: bool = Field(
        default=True, description="false: no --gres line, where whole nodes come with their GPUs"
    )
    gpu_type: Word | None = Field(
        default=None, description="as `sinfo -o %G` shows it, such as a100"
    )
    cpus: int | None = Field(default=None, ge=1, le=4096)
    memory_gb: int | None = Field(
        default=None, ge=0, le=97_656, description="0: all memory of the node"
    )
    constraint: Features | None = Field(default=None, description="features, such as a100&nvlink")
    exclude: Hosts | None = Field(default=None, description="nodes to keep away from: n[01-04,7]")
    nodelist: Hosts | None = Field(default=None, description="nodes that the job must have")
    dependency: Dependency | None = Field(
        default=None, description="such as afterok:123 or singleton"
    )
    reservation: Reservation | None = None
    exclusive: bool = Field(default=False, description="no other job on the nodes")
    options: dict[str, Annotated[StrictBool | Text, Field(union_mode="left_to_right")]] = Field(
        default={},
        description="further options of sbatch by name, such as {comment: x, contiguous: true}",
    )
    most_hours: float | None = Field(
        default=None,
        gt=0,
        le=8784,
        description="the partition's limit; the run is requeued before it",
    )
    requeue: bool = True
    signal_seconds: int = Field(
        default=120, ge=10, le=65535, description="signal before the time limit"
    )
    at_a_time: int | None = Field(
        default=None, ge=1, le=1_000_000, description="cells of a queue that run at once"
    )

    @field_validator("gpu_type")
    @classmethod
    def _needs_its_line(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value and not info.data.get("gres", True):
            raise ValueError("stands in the --gres line, which gres: false leaves out; drop one")
        return value

    @field_validator("options")
    @classmethod
    def _are_known(
        cls, options: dict[str, bool | str], info: ValidationInfo
    ) -> dict[str, bool | str]:
        for name, value in options.items():
            sbatch_options.check(name, value)
        given = {name for name in ("cpus", "memory_gb") if info.data.get(name) is not None}
        sbatch_options.check_together(set(options), given)
        return options


_SUBDOMAIN = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
_TAINT = "look at `kubectl describe nodes`"
_KEY = rf"({_SUBDOMAIN}/)?[A-Za-z0-9]([A-Za-z0-9._-]{{0,61}}[A-Za-z0-9])?"
_VALUE = r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?"
_OUR_LABELS = ("app.kubernetes.io/managed-by", "remote-gpu-trainer/job")
_MOST_ANNOTATION = 10_000  # bytes of one; the API takes 256 KiB of all together
_SAID_ELSEWHERE = {
    "cpu": "kubernetes.cpus",
    "memory": "kubernetes.memory_gb",
    "nvidia.com/gpu": "gpus",
}
# Where the pod has the script, and the memory that processes share.
SCRIPT_DIR, SHM_DIR = "/rgt", "/dev/shm"

Object = Annotated[
    str,
    form(
        _SUBDOMAIN, "the name of an object: a-z, 0-9, '-' and '.'", "write it as kubectl shows it"
    ),
]
Namespace = Annotated[
    str,
    form(
        r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?",
        "1 to 63 of a-z, 0-9 and '-'",
        "look at `kubectl get namespaces`",
    ),
]
PodPath = Annotated[
    str,
    form(
        r"/[A-Za-z0-9._/-]{1,250}",
        "an absolute path of letters, digits and . _ / -",
        "choose another folder",
    ),
]
LABEL_VALUE = form(_VALUE, "a label's value", "write it as `kubectl` shows it")
LabelValue = Annotated[str, LABEL_VALUE]
AMOUNT = form(
    r"[0-9]{1,15}(\.[0-9]{1,3})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?",
    "an amount such as 1 or 20Gi",
    "look at the Allocatable of `kubectl describe node`",
)


def lies_inside(path: str, folder: str) -> bool:
    """Return whether a path is a folder or lies below it."""
    parts = path.split("/")
    return ".." not in parts and (path.rstrip("/") + "/").startswith(folder.rstrip("/") + "/")


def _is_free(mount: str) -> str:
    for taken in (SCRIPT_DIR, SHM_DIR):
        if lies_inside(taken, mount) or lies_inside(mount, taken):
            raise ValueError(
                f"must be a folder other than {SCRIPT_DIR} and {SHM_DIR}; choose another folder"
            )
    return mount


def _is_short(value: str) -> str:
    if len(value.encode()) > _MOST_ANNOTATION:
        raise ValueError(f"must be at most {_MOST_ANNOTATION:,} bytes; shorten it")
    return value


class Toleration(Strict):
    """A taint of nodes that the pod may run on; without a value any value of its key."""

    key: Annotated[str, form(_KEY, "the key of a taint", _TAINT)] | None = None
    value: Annotated[str, form(_VALUE, "the value of a taint", _TAINT)] | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None

    @field_validator("value")
    @classmethod
    def _has_a_key(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value and not info.data.get("key"):
            raise ValueError("must be left out without a key; set the key")
        return value


class Kubernetes(Strict):
    """What only Kubernetes needs."""

    image: Annotated[
        str,
        form(
            r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,254}",
            "the name of an image",
            "leave out everything else",
        ),
    ]
    claim: Object | None = Field(
        default=None, description="PersistentVolumeClaim, mounted at `mount`"
    )
    mount: Annotated[PodPath, AfterValidator(_is_free)] = "/workspace"
    namespace: Namespace | None = None
    shm_gb: int = Field(default=8, ge=1, le=100_000)
    cpus: int | None = Field(default=None, ge=1, le=4096)
    memory_gb: int | None = Field(default=None, ge=1, le=100_000)
    node_selector: dict[str, LabelValue] = {}
    labels: dict[str, Annotated[Text, LABEL_VALUE]] = Field(
        default={},
        description="of the Job and its pods, such as {kueue.x-k8s.io/queue-name: team}",
    )
    annotations: dict[str, Annotated[Text, AfterValidator(_is_short)]] = Field(
        default={}, description="of the Job and its pods"
    )
    resources: dict[str, Annotated[Text, AMOUNT]] = Field(
        default={},
        description="what one node needs beside gpus, cpus and memory_gb, in limits and requests: "
        "{rdma/hca_shared_devices_a: 1}",
    )
    tolerations: list[Toleration] = []
    priority_class: Object | None = None
    host_network: bool = Field(default=False, description="the pod uses its node's network")

    @field_validator("node_selector", "labels", "annotations", "resources")
    @classmethod
    def _have_names(cls, given: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        for name in given:
            if not re.fullmatch(_KEY, name):
                raise ValueError(
                    "has a name that Kubernetes doesn't take; write it as `kubectl` shows it, such "
                    "as nvidia.com/gpu.product"
                )
            if info.field_name == "labels" and name in _OUR_LABELS:
                raise ValueError(f"{name} is the runner's own label; choose another")
            if info.field_name == "resources" and name in _SAID_ELSEWHERE:
                raise ValueError(f"{name} is said by {_SAID_ELSEWHERE[name]}; set that")
        return given


_GPU = r"[A-Za-z][A-Za-z0-9._-]{0,63}"
_PLACE = r"[A-Za-z0-9*][A-Za-z0-9*._:@/-]{0,199}"
Area = Annotated[
    str,
    form(
        r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
        "a name of letters, digits, '.', '_' and '-'",
        "look at `sky show-gpus --infra`",
    ),
]


def _has_no_variable(path: str) -> str:
    if "$" in path:
        raise ValueError("must be a path without variables; write out what they hold")
    return path


class Skypilot(Strict):
    """What only SkyPilot needs."""

    accelerator: (
        Annotated[
            str,
            form(
                rf"{_GPU}(,{_GPU}){{0,15}}",
                "the name of a GPU, such as H100, or several with ',' between them",
                "take it from `sky show-gpus`",
            ),
        ]
        | None
    ) = Field(default=None, description="such as H100, or A100,L4 for the one that can be had")
    cpus: int | None = Field(
        default=None, ge=1, le=1_000_000, description="at least so many on a box"
    )
    memory_gb: int | None = Field(
        default=None, ge=1, le=1_000_000, description="at least so much on a box"
    )
    infra: (
        Annotated[
            str, form(_PLACE, "CLOUD, CLOUD/REGION or CLOUD/REGION/ZONE", "look at `sky check`")
        ]
        | None
    ) = Field(default=None, description="such as runpod, aws or kubernetes")
    region: Area | None = Field(default=None, description="of infra, such as us-east-1")
    zone: Area | None = Field(default=None, description="of the region")
    spot: bool = False
    disk_gb: int | None = Field(default=None, ge=1, le=1_000_000)
    image: (
        Annotated[
            str,
            form(
                _PLACE,
                "docker:IMAGE:TAG or the cloud's id of an image",
                "leave out everything else",
            ),
        ]
        | None
    ) = None
    file_mounts: dict[
        Annotated[BoxPath, AfterValidator(_has_no_variable)],
        Annotated[Line, AfterValidator(_has_no_variable)],
    ] = Field(default={}, description="{path on the box: path here, or s3://…, gs://… and so on}")
    setup: list[Text] = Field(
        default=[],
        description="lines of bash that SkyPilot runs once on each new box, such as apt-get "
        "install; what they export doesn't reach the program, as `setup` of the job does",
    )

    @field_validator("region", "zone")
    @classmethod
    def _lies_in_something(cls, value: str | None, info: ValidationInfo) -> str | None:
        above = "infra" if info.field_name == "region" else "region"
        if value and not info.data.get(above):
            raise ValueError(f"must be left out without {above}; set {above}")
        if value and above == "infra" and "/" in (info.data.get("infra") or ""):
            raise ValueError(
                "must be left out where infra names one; write the region in one place"
            )
        return value
