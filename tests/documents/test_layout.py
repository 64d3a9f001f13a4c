"""The rooms of the package: what may import what, and who may start what."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tomlkit

from tests.conftest import ROOT, module

PACKAGE = ROOT / "server/remote_gpu_trainer"
MODULES = sorted(PACKAGE.rglob("*.py"))


def lint_imports(root: Path) -> subprocess.CompletedProcess:
    module("importlinter", "pip install -e '.[test]'")
    program = "import sys; sys.path.insert(0, 'server'); from importlinter.cli import lint_imports_command as run; run()"
    return subprocess.run(
        [sys.executable, "-c", program, "--no-cache"], cwd=root, capture_output=True, text=True
    )


def test_a_room_imports_only_the_rooms_below_it():
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_import_of_a_room_above_is_found(tmp_path):
    shutil.copytree(
        PACKAGE,
        tmp_path / "server/remote_gpu_trainer",
        ignore=shutil.ignore_patterns("__pycache__", "*.bin"),
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    below = tmp_path / "server/remote_gpu_trainer/logs/windows.py"
    text = below.read_text(encoding="utf-8")
    below.write_text(text + "\nfrom ..lookup import answer  # noqa\n", encoding="utf-8")
    done = lint_imports(tmp_path)
    assert done.returncode == 1
    assert "logs.windows -> remote_gpu_trainer.lookup.answer" in re.sub(r"\s+", " ", done.stdout)


def excused() -> list[tuple[int, str]]:
    """The number of each contract with exceptions, and each of its exceptions."""
    project = tomlkit.parse((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    return [
        (at, line)
        for at, contract in enumerate(contracts)
        for line in contract.get("ignore_imports", [])
    ]


@pytest.mark.parametrize(("at", "line"), excused())
def test_without_an_exception_its_contract_breaks(at, line, tmp_path):
    project = tomlkit.parse((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = project["tool"]["importlinter"]["contracts"][at]
    contract["ignore_imports"].remove(line)
    (tmp_path / "pyproject.toml").write_text(tomlkit.dumps(project), encoding="utf-8")
    (tmp_path / "server").symlink_to(ROOT / "server")
    assert lint_imports(tmp_path).returncode == 1, f"{line} isn't needed any more: take it out"


def test_an_exception_for_an_import_that_is_gone_is_an_error(tmp_path):
    project = tomlkit.parse((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [at, *_] = [at for at, _ in excused()]
    contract = project["tool"]["importlinter"]["contracts"][at]
    contract["ignore_imports"].append("remote_gpu_trainer.text.masking -> socket")
    (tmp_path / "pyproject.toml").write_text(tomlkit.dumps(project), encoding="utf-8")
    (tmp_path / "server").symlink_to(ROOT / "server")
    done = lint_imports(tmp_path)
    assert done.returncode == 1 and "masking -> socket" in done.stdout


def test_every_contract_says_so_when_an_exception_is_not_met():
    project = tomlkit.parse((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for contract in project["tool"]["importlinter"]["contracts"]:
        assert contract.get("unmatched_ignore_imports_alerting", "error") == "error"


def test_only_boxes_start_ssh():
    starts = re.compile(r"""["']ssh["'](?!\s*[:)\]}]|.*\bTARGETS\b)""")
    for path in MODULES:
        room = path.relative_to(PACKAGE).parts[0]
        if "subprocess" in path.read_text(encoding="utf-8") and room != "boxes":
            assert not starts.search(path.read_text(encoding="utf-8")), path


def test_scripts_for_a_box_never_import_the_package():
    for path in (ROOT / "scripts").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(?:from|import) remote_gpu_trainer", text, re.M), path


def test_every_slow_test_exists():
    for line in (ROOT / "tests/slow.txt").read_text(encoding="utf-8").splitlines():
        name, _, test = line.partition(" 1/")[0].partition("::")
        path = ROOT / name
        assert path.is_file(), line
        assert not test or f"def {test}(" in path.read_text(encoding="utf-8"), line


def test_bash_keeps_to_100_columns():
    paths = [*(ROOT / "scripts").glob("*.sh*"), *(PACKAGE / "runner").glob("*.sh")]
    paths += (PACKAGE / "runs/templates").rglob("*.j2")
    assert paths
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert len(line) <= 100, f"{path}:{number}"
