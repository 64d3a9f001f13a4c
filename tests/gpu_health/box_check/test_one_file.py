"""scripts/gpu_health.py is what the parts in gpu_health/box_check make, and runs alone under Python 3.8."""

import ast
import importlib
import json
import re
import shutil
import subprocess
import sys

import pytest
from generated_docs import box_programs

from tests.conftest import ROOT
from tests.gpu_health.gpu_faults import CAPTURES
from tests.gpu_health.script import SCRIPT

PARTS = ROOT / "server/remote_gpu_trainer/gpu_health/box_check"
SHARED = ROOT / "server/remote_gpu_trainer/logs/kernel"
FOLDERS = (PARTS, SHARED)
MODULES = sorted(
    path for folder in FOLDERS for path in folder.glob("*.py") if path.stem != "__init__"
)
PACKAGE = "remote_gpu_trainer.gpu_health.box_check"
NAME = "scripts/gpu_health.py"


def old_python():
    """A Python 3.8 that starts, or None."""
    found = shutil.which("python3.8")
    if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
        return found
    return None


def names_of(tree):
    """The names that a module defines at its top."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        for target in getattr(node, "targets", []):
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from (name.id for name in names if isinstance(name, ast.Name))


def test_the_one_file_says_first_that_it_is_generated():
    lines = SCRIPT.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "#!/usr/bin/env python3"
    assert (
        lines[1]
        == "# Generated from the modules in server/remote_gpu_trainer/gpu_health/box_check/."
    )
    assert lines[2] == "# Edit them there, then run: rgt dev docs --write"


def test_a_changed_part_makes_another_file(tmp_path):
    for folder in FOLDERS:
        shutil.copytree(folder, tmp_path / folder.relative_to(ROOT))
    assert box_programs.generated(tmp_path, NAME) == SCRIPT.read_text(encoding="utf-8")
    with (tmp_path / PARTS.relative_to(ROOT) / "text.py").open("a") as part:
        part.write("\n\nNEW = 1\n")
    changed = box_programs.generated(tmp_path, NAME)
    assert changed.replace("\n\nNEW = 1\n", "", 1) == SCRIPT.read_text(encoding="utf-8")


def test_a_circle_of_imports_is_refused():
    trees = {"a": ast.parse("from .b import x"), "b": ast.parse("from .a import y")}
    with pytest.raises(ValueError, match="circle"):
        box_programs.in_order(dict(trees, main=ast.parse("from .a import x")), "main")


def test_one_name_in_two_parts_is_refused():
    trees = {
        "one": ast.parse("import os\nA = B = 1\n"),
        "two": ast.parse("import os\nC: int = 2\n"),
    }
    box_programs.refuse_shared_names(trees)
    for text in ("def B():\n    pass\n", "class B:\n    pass\n", "B: int = 3\n", "(B, D) = 1, 2\n"):
        with pytest.raises(ValueError, match="two and one define B; rename one of them"):
            box_programs.refuse_shared_names(dict(trees, two=ast.parse(text)))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_part_imports_only_its_neighbours_and_the_standard_library(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= sys.stdlib_module_names
        elif isinstance(node, ast.ImportFrom) and node.level:
            shared = node.level == 3 and path.parent == PARTS
            home, name = path.parent, node.module or "__init__"
            if shared and name.startswith("logs.kernel."):
                home, name = SHARED, name.rpartition(".")[2]
            else:
                assert node.level == 1
            assert (home / f"{name}.py").exists()
            assert node.module or [alias.name for alias in node.names] == ["data_text"]
        elif isinstance(node, ast.ImportFrom):
            assert node.module.split(".")[0] in sys.stdlib_module_names


def test_a_part_imports_from_where_a_name_is_defined_and_nothing_is_renamed():
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.level and node.module:
                name = node.module.rpartition(".")[2]
                home = next(part for part in MODULES if part.stem == name)
                source = ast.parse(home.read_text(encoding="utf-8"))
                assert {alias.name for alias in node.names} <= set(names_of(source))
                assert [alias.asname for alias in node.names if alias.asname] == []


def test_the_parts_give_the_same_answer_as_the_one_file():
    report, recording = (
        importlib.import_module(f"{PACKAGE}.{part}") for part in ("report", "recording")
    )
    for name in ("h100x8", "amd-ecc", "lost", "old-faults"):
        capture = CAPTURES / name
        done = subprocess.run(
            [sys.executable, SCRIPT, "--replay", capture, "--json"], capture_output=True, text=True
        )
        assert json.loads(done.stdout) == report.report(recording.load(str(capture)))


@pytest.mark.parametrize(
    "path", [*MODULES, *sorted(PARTS.glob("data/*.py")), SCRIPT], ids=lambda path: path.stem
)
def test_the_syntax_is_that_of_python_3_8(path):
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))


def test_the_one_file_runs_under_python_3_8():
    python = old_python()
    if not python:
        pytest.skip("no python3.8 on the PATH; the syntax is tested above")
    helped = subprocess.run([python, SCRIPT, "--help"], capture_output=True, text=True, timeout=60)
    assert (
        helped.returncode == 0
        and "--expect" in helped.stdout
        and "is this gpu box fit" in helped.stdout.lower()
    )
    capture = CAPTURES / "h100x8"
    with SCRIPT.open(encoding="utf-8") as text:
        piped = subprocess.run(
            [python, "-", "--replay", capture],
            stdin=text,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert piped.stdout.startswith("verdict: fit\n") and piped.stderr == ""


def test_every_finding_is_used_and_every_use_is_a_finding():
    findings = importlib.import_module(f"{PACKAGE}.findings")
    used, prefixed = set(), {"smi_" + kind for kind in failure_kinds()}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                not isinstance(node, ast.Call)
                or len(node.args) < 2
                or not isinstance(node.args[1], ast.Constant)
            ):
                continue
            if getattr(node.func, "id", getattr(node.func, "attr", "")) in ("add", "silence"):
                used.add(node.args[1].value)
    assert used | prefixed == set(findings.FINDINGS)


def failure_kinds():
    """What nvidia-smi can fail with, by its words or its exit code."""
    failures = importlib.import_module(f"{PACKAGE}.failures")
    return {kind for kind, _ in failures.FAILURES} | set(failures.RC_FAILURES.values())


def test_a_finding_has_a_known_level_and_the_values_that_its_texts_need():
    findings = importlib.import_module(f"{PACKAGE}.findings")
    for name, record in findings.FINDINGS.items():
        assert record["level"] in ("fatal", "degraded", "unknown", "warn", "-"), name
        assert set(record) == {"level", "key", "entry", "found", "expected", "do"}, name
        for label in ("found", "expected", "do"):
            assert record[label] and not re.search(
                r"%(?!s|d|\.\df)|[{}]", record[label].replace("%%", "")
            ), name


def test_a_rule_for_the_kernel_log_has_at_most_one_group_and_an_action():
    rules = importlib.import_module("remote_gpu_trainer.logs.kernel.log_rules")
    advice = importlib.import_module("remote_gpu_trainer.logs.kernel.advice")
    for kind, level, pattern in rules.LOG_RULES:
        assert level in (*advice.RANK, "ok") and pattern.groups <= 1
        assert kind == "xid 79" or rules.LOG_ACTION[kind]
