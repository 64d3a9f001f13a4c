"""U29: a requirement that nobody listed moves between two installations of one file, and a lock holds it."""

import re

import pytest
from check_code import span
from local_wheels import Environment, add_wheel
from stub_box import Box


@pytest.fixture
def project(tmp_path, monkeypatch):
    """An environment made in May. requirements.txt pins what it lists."""
    monkeypatch.chdir(tmp_path)
    index = tmp_path / "index"
    add_wheel(index, "trainer", "1.0", "tokens>=1,<3")
    add_wheel(index, "tokens", "1.0")
    (tmp_path / "requirements.txt").write_text("trainer==1.0\n")
    may = Environment(tmp_path / "may", index)
    code, said = may.uv("install", "-r", "requirements.txt")
    assert code == 0, said
    add_wheel(index, "tokens", "2.0")  # released in summer
    return may


def would_install(environment, file: str) -> set[str]:
    """Names and versions that an installation into an empty environment brings today."""
    _, said = environment.uv("install", "--dry-run", "--reinstall", "-r", file)
    return set(re.findall(r"^ [+~] (\S+)", said, re.M))


def test_the_same_file_brings_another_version_later(project):
    assert project.versions() == {"trainer": "1.0", "tokens": "1.0"}
    assert would_install(project, "requirements.txt") == {"trainer==1.0", "tokens==2.0"}


@pytest.mark.parametrize(("today", "differ"), [
    ("trainer==1.0\ntokens==2.0\n", ["< tokens==1.0", "> tokens==2.0"]),
    ("Tokens==1.0\ntrainer==1.0\n", None),
    ("tokens==1.0\ntrainer==1.0\n", []),
])  # fmt: skip
def test_the_check_names_what_moved_and_nothing_for_the_same_set(tmp_path, today, differ):
    box = Box(tmp_path)
    box.prints("pip", today)
    (tmp_path / "old.txt").write_text("trainer==1.0\ntokens==1.0\n")
    said = [line for line in box.said(span("U29", "diff <(")).splitlines() if line[0] in "<>"]
    if differ is not None:
        assert said == differ
    assert not any("trainer" in line for line in said)


def test_a_lock_of_the_working_environment_brings_the_same(project, tmp_path):
    _, said = project.uv("freeze")
    frozen = [line for line in said.splitlines() if "==" in line]
    (tmp_path / "lock.txt").write_text("\n".join(frozen))
    assert would_install(project, "lock.txt") == {"trainer==1.0", "tokens==1.0"}
