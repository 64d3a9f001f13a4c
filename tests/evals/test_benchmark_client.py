"""The benchmark's tasks given to a client: what it gets, what a pattern decides, what a judge sees."""

import json
import shlex
import subprocess
import sys

import pytest

from tests.conftest import ROOT, module

sys.path.insert(0, str(ROOT / "evals"))

import run_agent_evals as runner
from benchmark import agents, client

TASKS, ABSENT = client.asked()
CLIENT = """\
import pathlib, sys
skill = pathlib.Path(".claude/skills/remote-gpu-trainer/SKILL.md").is_file()
files = sorted(p.name for p in pathlib.Path(".").iterdir() if not p.name.startswith("."))
print("files:", *files)
print("ANSWER: about $40 a month; lost; kept" if skill else "ANSWER: free of charge")
"""


def test_every_task_is_asked_or_named_as_absent():
    ids = [task["id"] for task in agents.lines("tasks.jsonl")]
    assert sorted([*(task["id"] for task in TASKS), *ABSENT]) == sorted(ids)
    assert {one.partition("-")[0] for one in ABSENT} == {"report", "silent"}


def test_a_pattern_finds_the_truth_in_every_recorded_answer_that_was_judged_right():
    right = {(one.task, one.arm) for one in agents.answers() if one.right}
    tasks = {task["id"]: task for task in agents.lines("tasks.jsonl")}
    decided = 0
    for said in agents.lines("answers.jsonl"):
        marks = client.marker(tasks[said["task"]])(said["answer"], None)
        if marks and (said["task"], said["arm"]) in right:
            decided += 1
            assert marks["line"], said["task"]
    assert decided > 80


def test_a_client_is_asked_and_the_sheet_tells_no_arm(tmp_path, monkeypatch, capsys):
    program, sheet, out = tmp_path / "c.py", tmp_path / "sheet.md", tmp_path / "runs.jsonl"
    program.write_text(CLIENT)
    monkeypatch.setattr(runner, "installed_in", lambda home: [])
    words = ["--client", shlex.join([sys.executable, str(program)]), "--benchmark"]
    code = runner.main(
        [*words, "--tasks", "money-01,box-01", "--sheet", str(sheet), "--out", str(out)]
    )
    table = capsys.readouterr().out.splitlines()
    assert code == 0 and table[1].split()[:3] == ["with", "2/2", "1/2"]
    assert table[2].split()[:3] == ["without", "2/2", "0/2"]
    runs = [json.loads(line) for line in out.read_text().splitlines()]
    assert {run["answer"].splitlines()[0] for run in runs if run["task"] == "box-01"} == {
        "files: smi-q.txt smi.txt"
    }
    text, key = sheet.read_text(), json.loads(sheet.with_suffix(".key.json").read_text())
    assert len(key) == 4 and "## Answer 2 to money-01" in text and "M1. " in text and "N1. " in text
    assert "without" not in text.split("# money-01")[1].split("## Answer")[1]


def living(group: str) -> str:
    """The processes of a group that aren't only waiting to be reaped."""
    found = subprocess.run(["ps", "-eo", "pgid=,stat=,pid="], capture_output=True, text=True)
    rows = [line.split() for line in found.stdout.splitlines()]
    return " ".join(row[2] for row in rows if row[0] == group and row[1][0] != "Z")


@pytest.mark.skipif(sys.platform == "win32", reason="the programs start with bash")
def test_the_program_of_a_live_task_runs_while_the_client_is_asked_and_no_longer(
    tmp_path, monkeypatch
):
    module("torch", "pip install -e '.[proofs]'")
    monkeypatch.setattr(client, "SETTLED", 0.5)
    task = next(task for task in TASKS if task["id"] == "live-04")
    work = tmp_path / "work"
    work.mkdir()
    with client.prepared(task, work) as prompt:
        folder = work / "run"
        assert str(folder) in prompt and "ANSWER" in prompt
        group = (folder / "run.pid").read_text().split()[0]
        assert living(group)
    assert not living(group)


def test_what_belongs_together_is_asked_for_together(capsys):
    assert runner.main(["--check", "--benchmark"]) == 2
    assert runner.main(["--client", "x", "--sheet", "s.md"]) == 2
    assert runner.main(["--client", "x", "--benchmark", "--tasks", "none-01"]) == 2
    said = capsys.readouterr().err
    assert "leave --benchmark out" in said and "add --benchmark" in said and "or a kind" in said
