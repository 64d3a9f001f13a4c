"""LOC1: the check says True for conda's base alone, not for its environments, a venv or the system's Python."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest


@pytest.fixture
def answer(provider, shell_of):
    """answer(prefix): what the check prints for the Python there."""
    line = shell_of("LOC1", "condabin")

    def run(prefix: Path) -> str:
        return provider.run(line, PATH=f"{prefix}/bin:/usr/bin:/bin").split()[-1]

    return run


def python_at(prefix: Path) -> Path:
    venv.create(prefix, symlinks=True)
    return prefix


def test_only_a_prefix_with_condabin_is_base(answer, tmp_path):
    base = python_at(tmp_path / "miniconda3")
    (base / "condabin").mkdir()
    assert answer(base) == "True"
    assert answer(python_at(base / "envs/project")) == "False"
    assert answer(python_at(tmp_path / "project/env")) == "False"
    assert answer(Path(sys.base_prefix)) == "False"


def test_a_venv_made_from_base_is_not_base(answer, tmp_path):
    base = python_at(tmp_path / "miniconda3")
    (base / "condabin").mkdir()
    subprocess.run([base / "bin/python", "-m", "venv", "--without-pip", tmp_path / "v"], check=True)
    assert answer(tmp_path / "v") == "False"
