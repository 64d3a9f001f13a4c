"""Reports in the forms in which logs and agents bring them.

A prefix on every line, records of JSON, line breaks that were lost. The reports are those of
ranks.py: in scope, with an exception of their own. The form says nothing of the failure, so they
should be found as they are without it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from . import ranks, systems
from .cases import Case
from .grade import grade, rates

_TIME = "2026-11-21T02:11:12.123456789Z"


def _behind(prefix: str) -> Callable[[str], str]:
    return lambda text: "\n".join(prefix + line for line in text.splitlines())


def _records(record: Callable[[str], dict]) -> Callable[[str], str]:
    return lambda text: "\n".join(json.dumps(record(line)) for line in text.splitlines())


FORMS: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "docker logs --timestamps": _behind(f"{_TIME} "),
    "Docker's json-file": _records(
        lambda line: {"log": line + "\n", "stream": "stderr", "time": _TIME}
    ),
    "a logger of JSON": _records(lambda line: {"ts": _TIME, "level": "ERROR", "message": line}),
    "kubectl logs --prefix": _behind("[pod/train-job-worker-2/pytorch] "),
    "srun -l": _behind("2: "),
    "torchrun --tee 3": _behind("[default2]:[rank2]: "),
    "mpirun": _behind("[1,2]<stderr>:"),
    "Ray": _behind("\x1b[36m(RayTrainWorker pid=3312, ip=10.0.0.7)\x1b[0m "),
    "SkyPilot": _behind("(worker1, rank=1, pid=3312, ip=10.0.0.7) "),
    "journald": _behind("Nov 21 02:11:12 gpu-box python3[3312]: "),
    "logging": _behind("2026-11-21 02:11:12,123 - ERROR - "),
    "written breaks": lambda text: json.dumps(text)[1:-1],
    "one line": lambda text: " ".join(text.split()),
}


def hits(cases: list[Case]) -> dict[str, tuple[float, float]]:
    """{form: shares shown first and among three} of the reports that can be told so."""
    chosen, found = ranks.told(cases), {}
    for name, form in FORMS.items():
        asked = [replace(case, text=form(case.text)) for case in chosen]
        marks = rates(grade(asked, systems.lookup(asked)))
        found[name] = marks.first[0], marks.three[0]
    return found


def run(cases: list[Case]) -> str:
    """A table of the forms."""
    rows = [
        f"| {name} | {first:.3f} | {three:.3f} |" for name, (first, three) in hits(cases).items()
    ]
    return "\n".join(
        [
            "**the same reports in other forms**",
            "",
            "| form | first | three |",
            "| --- | --- | --- |",
            *rows,
        ]
    )
