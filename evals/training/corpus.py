"""The texts that the ranking is made from, and a hash of each part.

The reporting half of the cases is never read.
"""

from __future__ import annotations

import json
from collections.abc import Container
from hashlib import sha256
from pathlib import Path

from grading.cases import read_cases
from remote_gpu_trainer.catalogue.bundle import Catalogue
from remote_gpu_trainer.catalogue.entry import Entry
from remote_gpu_trainer.logs.salient_lines import salient
from remote_gpu_trainer.numbers import log_reading
from remote_gpu_trainer.retrieval.features import features
from remote_gpu_trainer.retrieval.gist import gist
from remote_gpu_trainer.retrieval.ranking import NONE

EVALS = Path(__file__).resolve().parent.parent
# Where people say they are; put before some reports, so that the name of a platform alone decides
# nothing.
PLACES = (
    "On a RunPod pod.",
    "This is a vast.ai instance.",
    "Running in a Kaggle notebook.",
    "In Google Colab.",
    "AutoDL 上跑的。",
    "As a Slurm job on our cluster, sbatch.",
    "Inside a Kubernetes pod.",
    "Lambda Cloud instance.",
    "AWS EC2 g5 spot.",
    "On a Paperspace machine.",
    "WSL2 on my own PC.",
    "Modal function.",
    "GCP VM with an L4.",
    "在恒源云的机器上。",
)
WAITING = 0.3
# What a real report counts for. Its two readers agree, name different entries, or one of them names
# none; or one reader alone judged and retold it.
READ, SURE = {"both": 3.0, "split": 0.8, "doubt": 0.2, "once": 2.0}, 1.3
CASE_SHARE = 4.0  # a real report with a confirmed cause counts for more than an invented one
EVERY = 12  # one report in so many gets a second copy with a place
# Of real reports that one reader labelled, one in so many is kept from the teacher. The gate is
# fitted on those and on the tuning half, which has too few strange reports.
ASIDE = {True: 2, False: 4}  # strange or not


def practice_reports(catalogue: Catalogue, learned: Container[str]) -> list[dict]:
    """Invented reports with labels, and real ones that readers labelled (found.jsonl).

    One whose entry isn't among those `learned` belongs to its neighbours under `also`, or to
    nothing.
    """
    found = []
    for path in sorted((EVALS / "training/data/practice").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            report = json.loads(line)
            names = [catalogue.current(name) for name in (report["label"], *report.get("also", []))]
            known = [name for name in names if name in learned]
            labels = known or [NONE]
            # Nothing explains a report of an entry to come, but it lies near what others explain.
            # So it counts for less.
            share = (
                WAITING
                if not known and report["label"] != NONE
                else READ.get(report.get("read"), 1.0) * (SURE if report.get("sure") else 1.0)
            )
            whole = {
                "text": report["text"],
                "labels": labels,
                "share": share,
                "found": report.get("read", "once") != "once",
                "aside": _aside(report),
            }
            found.append(whole)
            number = int(sha256(report["text"].encode()).hexdigest()[:8], 16)
            if (
                not whole["aside"]
                and number % EVERY == 0
                and (
                    labels[0] == NONE or not catalogue.by_id[labels[0]].path.startswith("profiles/")
                )
            ):
                found.append(
                    {**whole, "text": f"{PLACES[number // EVERY % len(PLACES)]} {report['text']}"}
                )
    return found


def _aside(report: dict) -> bool:
    once = "source" in report and report.get("read", "once") == "once"
    return (
        once
        and int(sha256(report["source"].encode()).hexdigest()[:8], 16)
        % ASIDE[report["label"] == NONE]
        == 0
    )


def shared(report: dict) -> list[tuple[str, float]]:
    """(class, weight) pairs of a practice report: the first label counts most."""
    labels = report["labels"]
    shares = [1.0] if len(labels) == 1 else [0.75, *[0.25] * (len(labels) - 1)]
    return [(label, share * report["share"]) for label, share in zip(labels, shares, strict=True)]


def tuning_half(catalogue: Catalogue, learned: Container[str]) -> list[dict]:
    """The tuning half of the cases, of the near misses, and of reports that waited.

    The last are those of entries that are `learned` now. Cases that only other entries explain are
    left out.
    """
    found = []
    waited = [
        case
        for case in read_cases(EVALS / "sets/waiting.jsonl")
        if case.expect and case.expect[0] in learned
    ]
    for case in [
        *read_cases(EVALS / "cases.jsonl"),
        *read_cases(EVALS / "sets/near.jsonl"),
        *waited,
    ]:
        names = [catalogue.current(name) for name in case.expect]
        since = [name for name in case.since if name in learned]
        known = since or [name for name in names if name in learned]
        if case.half == "tuning" and (known or not names):
            found.append(
                {
                    "id": case.id,
                    "text": case.text,
                    "labels": known or [NONE],
                    "near": case.near and not since,
                }
            )
    return found


def set_aside(practice: list[dict]) -> list[dict]:
    """The practice reports that no teacher read, as `tuning_half` has cases, with their weight."""
    return [
        {**report, "near": False, "shared": shared(report)}
        for report in practice
        if report["aside"]
    ]


def shared_of_case(case: dict) -> list[tuple[str, float]]:
    """(class, weight) pairs of one of `tuning_half` or `set_aside`."""
    return case.get("shared") or [
        (label, CASE_SHARE / len(case["labels"])) for label in case["labels"]
    ]


def entry_texts(entry: Entry) -> list[tuple[str, float]]:
    """(text, weight): each way of saying an entry is a small report of its own."""
    texts = [
        (entry.title, 1.0),
        (entry.symptom, 1.0),
        (f"{entry.title}\n{entry.symptom}\n{entry.root_cause}", 0.7),
    ]
    texts += [(said, 1.0) for said in entry.reported_as]
    texts += [(s.text, 1.0) for s in entry.signatures if not s.is_regex]
    return texts


def made_from(entries: list[Entry], practice: list[dict], cases: list[dict]) -> dict[str, str]:
    """A hash of each part that the ranking is made from, and of what reading makes of the texts.

    `entries`: those that it learned.
    """

    def digest(value) -> str:
        return sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[
            :16
        ]

    return {
        "entries": digest([[e.id, entry_texts(e), e.check, e.fix, e.false_alarm] for e in entries]),
        "practice reports": digest(practice),
        "tuning half": digest(cases),
        "words": digest(
            [
                as_read(text)
                for text in (
                    *(case["text"] for case in cases),
                    *(text for e in entries for text, _ in entry_texts(e)),
                )
            ]
        ),
    }


def gist_of(text: str) -> str:
    """The part of a text that a sentence model is asked about."""
    return gist(salient(log_reading.from_text(text)))


def as_read(text: str) -> list:
    """The features of a text with their weights, and the part that its meaning is taken from.

    A change to the code that reads shows here, one that only makes it faster doesn't.
    """
    told = salient(found := log_reading.from_text(text))
    return [list(features(found, told).items()), gist(told)]
