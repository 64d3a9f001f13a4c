"""The texts that the ranking is made from, and a hash of each part. The reporting half of the cases is never read."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

from grading.cases import read_cases

from remote_gpu_trainer.catalogue import Catalogue
from remote_gpu_trainer.entry import Entry
from remote_gpu_trainer.ranking import NONE

EVALS = Path(__file__).resolve().parent.parent


def practice_reports(catalogue: Catalogue) -> list[dict]:
    """Invented reports with labels. One whose entry doesn't exist (yet) is a report that nothing explains."""
    found = []
    for path in sorted((EVALS / "practice").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            report = json.loads(line)
            names = [catalogue.current(name) for name in (report["label"], *report.get("also", []))]
            known = [name for name in names if name in catalogue.by_id]
            found.append({"text": report["text"], "labels": known if names[0] in known else [NONE]})
    return found


def tuning_half(catalogue: Catalogue) -> list[dict]:
    """The cases of the tuning half. Those that only entries to come explain are left out."""
    found = []
    for case in read_cases(EVALS / "cases.jsonl"):
        names = [catalogue.current(name) for name in case.expect]
        known = [name for name in names if name in catalogue.by_id]
        if case.half == "tuning" and (known or not names):
            found.append({"id": case.id, "text": case.text, "labels": known or [NONE]})
    return found


def entry_texts(entry: Entry) -> list[tuple[str, float]]:
    """(text, weight): each way of saying an entry is a small report of its own."""
    texts = [(entry.title, 1.0), (entry.symptom, 1.0), (f"{entry.title}\n{entry.symptom}\n{entry.root_cause}", 0.7)]
    texts += [(said, 1.0) for said in entry.reported_as]
    texts += [(s.text, 1.0) for s in entry.signatures if not s.is_regex]
    return texts


def made_from(catalogue: Catalogue, practice: list[dict], cases: list[dict]) -> dict[str, str]:
    """A hash of each part that the ranking is made from, and of the code that reads reports."""

    def digest(value) -> str:
        return sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]

    package = EVALS.parent / "server" / "remote_gpu_trainer"
    return {
        "entries": digest([[e.id, entry_texts(e), e.check, e.fix, e.false_alarm] for e in catalogue.entries]),
        "practice reports": digest(practice),
        "tuning half": digest(cases),
        "words": digest([(package / name).read_text(encoding="utf-8") for name in ("words.py", "concepts.py", "features.py")]),
    }
