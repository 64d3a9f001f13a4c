"""Whether a platform's name changes an answer whose cause isn't the platform."""

from __future__ import annotations

import re

from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.lookup.answer import answer_for

from .cases import Case

NAMES = (
    "RunPod",
    "Vast.ai",
    "Kaggle",
    "Colab",
    "AutoDL",
    "Slurm",
    "Kubernetes",
    "Lambda Labs",
    "Paperspace",
    "AWS",
)
_NAMED = re.compile("|".join(re.escape(name) for name in NAMES), re.I)


def kept(cases: list[Case]) -> tuple[int, int, list[str]]:
    """(asked, same first answer, a line for each change).

    It takes every third of the reports for which no platform's entry is right.
    """
    by_id = bundle.load().by_id
    asked, same, changed = 0, 0, []
    for place, case in enumerate(cases):
        if not case.expect or any(
            name not in by_id or by_id[name].path.startswith("profiles/") for name in case.expect
        ):
            continue
        if place % 3:
            continue
        name = NAMES[place % len(NAMES)]
        bare = _first(_NAMED.sub("the machine", case.text))
        with_name = _first(f"I am on {name}. {case.text}")
        asked += 1
        same += bare == with_name
        if bare != with_name:
            changed.append(f"{case.id} {name}: {bare or 'nothing'} became {with_name or 'nothing'}")
    return asked, same, changed


def _first(text: str) -> str:
    matches = answer_for(text=text).matches
    return matches[0]["id"] if matches else ""
