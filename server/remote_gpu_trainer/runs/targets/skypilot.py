"""SkyPilot: the text of a task. Pure.

Its `run` writes the script with a here-document, whose delimiter is no line of the script, and runs
it. SkyPilot gives `run` to `bash -i`, which replaces `!` even inside double quotes. So `set +H`
comes first. The task only names secrets: `sky launch --secret NAME` brings the value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .. import shell_text, targets
from ..shell_text import Static

_NAME = r"[a-zA-Z0-9]+(?:[._-]{1,2}[a-zA-Z0-9]+)*"  # sky/task.py, _VALID_NAME_REGEX
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]{0,127}"
_GPU = r"[A-Za-z][A-Za-z0-9._-]{0,63}"
_PART = r"[A-Za-z0-9*][A-Za-z0-9*._:@/-]{0,199}"


@dataclass(frozen=True)
class Options:
    """What only SkyPilot needs. GPUs are for one node. '' and 0 leave the choice to SkyPilot.

    `workdir` is a folder here, sent to ~/sky_workdir. `file_mounts`: (path on the box, path here or
    bucket) pairs. `setup`: bash that SkyPilot runs once on each new box.
    `managed`: it is started as a managed job. `boxes` that share the cells: each is started with
    its own RGT_PART.

    Raises ValueError that names the field.
    """

    name: str
    gpus: int = 0
    accelerator: str = ""
    nodes: int = 1
    infra: str = ""
    spot: bool = False
    disk_gb: int = 0
    cpus: int = 0
    memory_gb: int = 0
    image: str = ""
    workdir: str = ""
    file_mounts: tuple[tuple[str, str], ...] = ()
    region: str = ""
    zone: str = ""
    setup: str = ""
    managed: bool = False
    boxes: int = 1

    def __post_init__(self) -> None:
        targets.matched(
            "name",
            self.name,
            _NAME,
            "letters and digits, with '.', '_' or '-' between them",
            "choose another name",
        )
        targets.whole("gpus", self.gpus, 0, 64, "give the GPUs of one node")
        targets.whole("nodes", self.nodes, 1, 10_000, "give the number of boxes")
        targets.whole("boxes", self.boxes, 1, 1000, "give the boxes that share the cells")
        for field in ("disk_gb", "cpus", "memory_gb"):
            targets.whole(field, getattr(self, field), 0, 1_000_000, "give it for one node, or 0")
        if self.accelerator or self.gpus:
            targets.matched(
                "accelerator",
                self.accelerator,
                rf"{_GPU}(,{_GPU}){{0,15}}",
                "the name of a GPU, such as H100, or several with ',' between them",
                "take it from `sky show-gpus`",
            )
        if self.accelerator and not self.gpus:
            raise targets.refuse("accelerator", self.accelerator, "empty if gpus is 0", "set gpus")
        if self.infra:
            targets.matched(
                "infra",
                self.infra,
                _PART,
                "CLOUD, CLOUD/REGION or CLOUD/REGION/ZONE",
                "look at `sky check`",
            )
        self._check_place()
        targets.encodable("setup", self.setup)
        if self.image:
            targets.matched(
                "image",
                self.image,
                _PART,
                "docker:IMAGE:TAG or the cloud's id of an image",
                "leave out everything else",
            )
        for field, path in [
            ("workdir", self.workdir),
            *(("file_mounts", path) for pair in self.file_mounts for path in pair),
        ]:
            if targets.encodable(field, path) and ("$" in path or not path.isprintable()):
                raise targets.refuse(
                    field,
                    path,
                    "a path without variables and line breaks",
                    "rename it",
                )

    def _check_place(self) -> None:
        """Raises ValueError for a region without its cloud, or one that `infra` names too."""
        for field, above in (("region", "infra"), ("zone", "region")):
            value = getattr(self, field)
            if not value:
                continue
            words = "a name of letters, digits, '.', '_' and '-'"
            do = "look at `sky show-gpus --infra`"
            targets.matched(field, value, r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", words, do)
            if not getattr(self, above):
                raise targets.refuse(field, value, f"empty without {above}", f"set {above}")
        if self.region and "/" in self.infra:
            do = "write the region in one place"
            raise targets.refuse("region", self.region, "empty where infra names one", do)

    @property
    def place(self) -> str:
        """Return CLOUD, CLOUD/REGION or CLOUD/REGION/ZONE; '' for any."""
        return "/".join(part for part in (self.infra, self.region, self.zone) if part)


def text(spec: Mapping[str, Any], options: Options, script: str) -> str:
    """The task as YAML. Raises ValueError for what is no run script, and for a variable's name."""
    targets.check_script(script)
    return targets.dump([_task(spec, options, script)])


def _task(spec: Mapping[str, Any], options: Options, script: str) -> dict:
    task = {
        "name": options.name,
        "resources": _given(
            infra=options.place,
            # Of several SkyPilot takes one that can be had.
            accelerators=dict.fromkeys(options.accelerator.split(","), options.gpus)
            if options.gpus
            else None,
            cpus=f"{options.cpus}+" if options.cpus else None,
            memory=f"{options.memory_gb}+" if options.memory_gb else None,
            use_spot=options.spot,
            job_recovery={"recover_on_exit_codes": [targets.AGAIN]} if options.managed else None,
            disk_size=options.disk_gb,
            image_id=options.image,
        ),
        "num_nodes": options.nodes,
        "workdir": options.workdir,
        "file_mounts": dict(options.file_mounts),
        # SkyPilot asks for the value of an empty one: `--env RGT_PART=1/3`.
        "envs": {"RGT_PART": None} if options.boxes > 1 else None,
        "secrets": dict.fromkeys(
            sorted({_on_the_box(variable) for variable in spec["secret_variables"].values()})
        ),
        "setup": options.setup,
        "run": run(script, options, "queue" if spec["cells"] else "run"),
    }
    return _given(**task)


def _given(**items: object) -> dict:
    return {key: value for key, value in items.items() if value}


def _on_the_box(variable: str) -> str:
    """Return the variable that the box must have."""
    targets.matched(
        "secrets",
        variable,
        _VARIABLE,
        "the name of a variable",
        "name it in letters, digits and '_'",
    )
    return variable


def run(script: str, options: Options, verb: str) -> str:
    """The bash that SkyPilot runs on each node."""
    lines = set(script.split("\n"))
    delimiter = "RGT_" + hashlib.sha256(script.encode()).hexdigest()[:16].upper()
    while delimiter in lines:
        delimiter += "_"
    return shell_text.filled(
        "skypilot_run.j2",
        name=options.name,
        delimiter=delimiter,
        script=Static(script),
        verb=verb,
        nodes=options.nodes,
    )
