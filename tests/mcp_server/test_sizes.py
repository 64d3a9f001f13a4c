"""What an answer of each tool costs an agent, on the largest inputs there are: at most 2,000 tokens."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from mcp import Client
from remote_gpu_trainer.gpu_health.reading import read_reply
from remote_gpu_trainer.mcp_server.pages import of_health
from remote_gpu_trainer.mcp_server.server import make_server

from tests.conftest import ROOT
from tests.gpu_health.script import SCRIPT
from tests.lookup.test_budget import counted, written

sys.path.insert(0, str(ROOT / "evals"))

from grading.cases import read_cases

MOST = 2000  # tokens of an answer
FREEZE = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")


def answers(tool: str, asked: list[dict]) -> list[str]:
    """The text of the answer to each call; none may be an error."""

    async def run():
        async with Client(make_server()) as client:
            return [await client.call_tool(tool, arguments) for arguments in asked]

    replies = asyncio.run(run())
    assert not any(reply.is_error for reply in replies), [r.content[0].text for r in replies]
    return [reply.content[0].text for reply in replies]


def jobs() -> list[dict]:
    """The jobs that the evals and the page of public launch scripts hold."""
    lines = (ROOT / "evals/sets/render.jsonl").read_text(encoding="utf-8").splitlines()
    cases = [case for case in map(json.loads, lines) if "error" not in case["expect"]]
    scripts = yaml.safe_load((ROOT / "tests/runs/launch_scripts.yaml").read_text(encoding="utf-8"))
    cases += [
        {"job": one["job"], "profile": one.get("profile", "generic-ssh"), **one}
        for one in (scripts if isinstance(scripts, list) else scripts["scripts"])
    ]
    return [
        {name: case[name] for name in ("job", "profile", "target") if case.get(name)}
        for case in cases
        if "code" not in case["job"]
    ]


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"released": "torch 2.14"},
        {"on": "2031-01-01", "released": "torch 2.14", "installed": FREEZE},
        {"on": "2031-01-01", "scope": "profiles"},
        {"on": "2031-01-01", "cursor": 100},
    ],
    ids=["no question", "a release", "all at once", "all platforms", "a later page"],
)
def test_a_page_of_what_is_stale_fits_and_is_well_filled(asked):
    (text,) = answers("check_staleness", [asked])
    (count,) = counted([text])
    assert count <= MOST and (json.loads(text)["next"] is None or count > 0.6 * MOST)


def test_every_rendered_job_fits():
    sizes = counted(answers("render_run_script", jobs()))
    assert len(sizes) > 50 and max(sizes) <= MOST


def test_the_facts_of_every_platform_fit_beside_ten_matches():
    names = ["runpod", "vast.ai", "lambda", "aws", "gcp", "autodl", "matpool", "kaggle", "nebius"]
    asked = [
        {"symptom": f"what does a stopped machine cost on {name}, is data kept?", "limit": 10}
        for name in names
    ]
    texts = answers("lookup_symptom", asked)
    assert all(len(json.loads(text)["facts"]) == 3 for text in texts)
    assert max(counted(texts)) <= MOST


def test_ten_matches_fit(some):
    asked = [
        {"symptom": case.text, "limit": 10}
        for case in some(read_cases(ROOT / "evals/cases.jsonl"), 12)
        if case.text
    ]
    sizes = counted(answers("lookup_symptom", asked))
    assert len(sizes) > 50 and max(sizes) <= MOST


def captures() -> list[Path]:
    """Recorded boxes: those of the repository, and those of $GPU_CAPTURES."""
    roots = [
        ROOT / "tests/gpu_health/gpu_captures",
        Path(os.environ.get("GPU_CAPTURES", "/nowhere")),
    ]
    return [
        path for root in roots if root.is_dir() for path in sorted(root.iterdir()) if path.is_dir()
    ]


def test_every_recorded_box_fits(some):
    replies = [
        subprocess.run([sys.executable, SCRIPT, "--replay", path, "--json"], capture_output=True)
        for path in some(captures(), 4)
    ]
    found = [read_reply("box", reply.stdout, reply.returncode).as_dict() for reply in replies]
    assert len(found) > 5 and max(counted([written(of_health(one)) for one in found])) <= MOST


def test_a_box_that_tells_too_much_is_cut_and_what_is_left_out_is_counted():
    long = {"threshold": "t 8a1 " * 30, "action": "a 77b " * 30, "entry": "HW1"}
    findings = [
        {"gpu": at, "level": "fatal" if at > 390 else "warn", "evidence": f"e {at} " * 30, **long}
        for at in range(400)
    ]
    cards = [
        {"gpu": at, "name": f"card {at % 8}", "mig": [f"MIG {n} {at % 8}" for n in range(90)]}
        for at in range(400)
    ]
    load = {f"x{at}": {f"y{n}": list(range(64)) for n in range(20)} for at in range(20)}
    reply = {"verdict": "unfit", "findings": findings, "gpus": cards, "stress": load}
    answer = of_health(read_reply("box", json.dumps(reply).encode(), 1).as_dict())
    assert counted([written(answer)])[0] <= MOST
    assert answer["verdict"] == "unfit" and answer["findings"][0]["level"] == "fatal"
    assert len(answer["findings"]) + sum(answer["left_out"].values()) == 400
    assert answer["stress"] == {} and "too long" in answer["partial"]


def test_only_a_whole_entry_that_was_asked_for_may_be_longer():
    brief, whole = counted(
        answers("lookup_symptom", [{"symptom": "ENV1"}, {"symptom": "ENV1", "whole": True}])
    )
    assert brief <= MOST and whole > brief
