"""The cases of render_run_script: a job and a platform, and what the answer must hold.

A case is a line of evals/sets/render.jsonl: `job`, `profile`, `target`, `on`, and `expect`. That is
{"error": part of a line} or any of `warnings` (ids of entries in order), `stale` (ids of facts and
of fields), `values` {path into the JSON in the script: value}, `objects` {path into the YAML:
value}, `start` (parts of the start commands). What bash reads of every script must also pass
`bash -n`, and every answer, without the script, must have fewer than 400 tokens of four characters.
"""

from __future__ import annotations

import json
import re
import subprocess
from datetime import date
from pathlib import Path

import yaml
from remote_gpu_trainer.platforms.profile import ProfileError
from remote_gpu_trainer.runs.job_errors import JobError
from remote_gpu_trainer.runs.rendering import rendered

MOST_CHARACTERS = 1600


def run(path: Path) -> tuple[int, list[str]]:
    """(how many cases, what each wrong one gave)."""
    cases = [
        json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()
    ]
    wrong = []
    for case in cases:
        for fault in faults(case):
            wrong.append(f"{case['id']}: {fault}")
    return len(cases), wrong


def faults(case: dict) -> list[str]:
    """What is not as the case expects."""
    expect, job = case["expect"], case["job"]
    try:
        if "code" in job:  # what lies in the folder doesn't matter here, and must not differ
            job = {**job, "code": str(Path(__file__).parent)}
        answer = rendered(
            job,
            case["profile"],
            case.get("target"),
            on=date.fromisoformat(case.get("on", "2026-08-25")),
        )
    except (JobError, ProfileError) as error:
        wanted = expect.get("error")
        return (
            []
            if wanted and wanted in str(error)
            else [f"found the error {error}, expected {wanted or 'a script'}"]
        )
    if "error" in expect:
        return [f"found a script, expected the error {expect['error']}"]
    found = []
    ids = [warning["id"] for warning in answer["warnings"]]
    for name, kept in (
        ("warnings", [i for i in ids if "." not in i]),
        ("stale", [i for i in ids if "." in i]),
    ):
        if name in expect and kept != expect[name]:
            found.append(f"{name}: found {kept}, expected {expect[name]}")
    script, objects = answer["script"], {}
    if answer["file_name"].endswith(".yaml"):
        documents = [document for document in yaml.safe_load_all(script)]
        objects = {document.get("kind", "task"): document for document in documents}
        script = (
            objects["ConfigMap"]["data"]["run.sh"]
            if "ConfigMap" in objects
            else objects["task"]["run"]
        )
    shell = script if "task" in objects else script.partition("\n# run.d/")[0] + "\n"
    checked = subprocess.run(["bash", "-n"], input=shell.encode(), capture_output=True)
    if checked.returncode:
        found.append(f"bash -n: {checked.stderr.decode()[:200]}")
    for place, wanted in expect.get("objects", {}).items():
        if (value := _at(objects, place)) != wanted:
            found.append(f"{place}: found {value!r}, expected {wanted!r}")
    if wanted := expect.get("values"):
        held = _job(script)
        found += [
            f"{place}: found {_at(held, place)!r}, expected {value!r}"
            for place, value in wanted.items()
            if _at(held, place) != value
        ]
    found += [
        f"start: found {answer['start']!r}, expected {part!r} in it"
        for part in expect.get("start", [])
        if part not in answer["start"]
    ]
    beside = sum(len(str(answer[name])) for name in answer if name != "script")
    if beside > MOST_CHARACTERS:
        found.append(
            f"found {beside} characters beside the script, expected at most {MOST_CHARACTERS}"
        )
    return found


def _at(objects: dict, place: str):
    here = objects
    for part in place.split("/"):
        try:
            here = here[int(part)] if isinstance(here, list) else here[part]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return here


def _job(script: str) -> dict:
    """Return the job that the runner in a script reads, and what stands beside it."""
    found = re.search(r"^# run\.d/job-\w+/job\.json\n(.*?)^# run\.d/", script, re.M | re.S)
    return json.loads(found[1]) if found else {}
