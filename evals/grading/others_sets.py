"""Sets that others labelled, where they lie on this machine: nothing is learned from them.

`OUTSIDE_SETS` names the folder that holds them. `gpualert` (Parv-01/gpualert-eval) has 474 logs of
failed programs in 15 classes; within a class most share one template, so classes count before logs.
It was shown to us while the look-up was built (`SHOWN`). `nvrx_fr` (NVIDIA/nvidia-resiliency-ext)
has Flight Recorder dumps of four runs of 16 ranks, with two faulty ranks each.

Beside the look-up stand grep, which takes the first entry with a signature anywhere in the text,
and BM25, which always answers.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.lookup.answer import answer_for
from remote_gpu_trainer.lookup.state import Answer
from remote_gpu_trainer.retrieval import ranking

# What each class of gpualert is about, by the titles of the entries; none where the text of the
# user's own error says all.
WANTED = {
    "ram_oom": {"U54", "M3"},
    "segfault": {"U50"},
    "nan_loss": {"P9"},
    "cuda_runtime": {"L14", "O14"},
    "device_mismatch": {"O27"},
    "cuda_oom": {"U10"},
    "nccl": {"D20"},
    "oom_killer": {"M3"},
    "file_not_found": set(),
    "permission": set(),
    "missing_module": set(),
    "div_zero": set(),
    "traceback": set(),
    "assertion": set(),
    "runtime_error": set(),
}


SHOWN = "gpualert was shown to us while the look-up was built: its figures prove nothing new."


def folder() -> Path | None:
    """The folder of the sets, None where there is none."""
    place = os.environ.get("OUTSIDE_SETS", "")
    return Path(place) if place and Path(place).is_dir() else None


def run(place: Path) -> str:
    """Tables of what is right in each class of gpualert, and in each run of nvrx_fr."""
    return f"{_of_gpualert(place / 'gpualert')}\n\n{_of_dumps(place / 'nvrx_fr')}"


def _of_gpualert(place: Path) -> str:
    rows = [
        "**gpualert: how many of each class are right; of own errors those without a claim**",
        "",
        SHOWN,
        "",
        "| class | n | wanted | look-up | grep | BM25 |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    labels = (place / "corpus" / "labels.jsonl").read_text(encoding="utf-8").splitlines()
    cases: dict[str, list[Path]] = {}
    for label in map(json.loads, labels):
        cases.setdefault(label["mode"], []).append(place / label["log_path"])
    for mode, logs in cases.items():
        wanted, right = WANTED[mode], [0, 0, 0]
        for log in logs:
            text = log.read_text(encoding="utf-8", errors="replace")
            for at, found in enumerate((_first(answer_for(log=str(log))), grep(text), _bm25(text))):
                right[at] += found in wanted if wanted else found == ""
        counts = " | ".join(map(str, right))
        rows.append(f"| {mode} | {len(logs)} | {' '.join(sorted(wanted)) or '–'} | {counts} |")
    return "\n".join(rows)


def _first(answer: Answer) -> str:
    return answer.matches[0]["id"] if answer.matches else ""


def grep(text: str) -> str:
    """The first entry of the catalogue with a signature that occurs in a text, "" without one."""
    for entry_id, signatures in bundle.load_cache().signatures():
        for signature in signatures:
            pattern = signature.text if signature.is_regex else re.escape(signature.text)
            if re.search(pattern, text, re.I | re.M):
                return entry_id
    return ""


def _bm25(text: str) -> str:
    index = ranking.load().index
    scores = index.bm25(text)
    return index.ids[int(scores.argmax())] if float(scores.max()) > 0 else ""


def _of_dumps(place: Path) -> str:
    rows = [
        "**nvrx_fr: which ranks are given as first failures, and which entry leads**",
        "",
        "| run | injected | named | look-up | grep | BM25 |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for run in sorted(path for path in place.iterdir() if path.is_dir()):
        truth = (run / "fault_injection.log").read_text(encoding="utf-8")
        injected = [int(rank) for rank in re.findall(r"^Rank (\d+)", truth, re.M)]
        answer = answer_for(log=str(run))
        named = sorted({place["rank"] for place in answer.first_failures} - {None})
        text = _texts_of(run)
        found = " | ".join(one or "–" for one in (_first(answer), grep(text), _bm25(text)))
        rows.append(f"| {run.name} | {_listed(injected)} | {_listed(named)} | {found} |")
    return "\n".join(rows)


def _texts_of(run: Path) -> str:
    """What can be read in the files of a run, without the one that tells the truth."""
    files = [path for path in sorted(run.rglob("*")) if path.is_file()]
    kept = [path.read_bytes() for path in files if path.name != "fault_injection.log"]
    return "\n".join(b" ".join(re.findall(rb"[\x20-\x7e]{4,}", data)).decode() for data in kept)


def _listed(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks)) or "–"
