"""`completion`: the script is valid and completes commands, options and values."""

import shutil
import subprocess
import sys

import pytest
from remote_gpu_trainer.cli.main import main


def script(shell: str, name: str, monkeypatch, capsys) -> str:
    monkeypatch.setattr(sys, "argv", [f"/usr/local/bin/{name}"])
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def completed(path, name: str, *typed: str) -> list[str]:
    """What bash offers for the last word typed."""
    program = f"""
source {path}
COMP_WORDS=({name} {" ".join(repr(word) for word in typed)})
COMP_CWORD={len(typed)}
_shtab_{name.replace("-", "_")} {name} {typed[-1]!r} {typed[-2] if len(typed) > 1 else name!r}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("name", ["rgt", "remote-gpu-trainer"])
def test_bash_completes_for_the_name_that_it_was_asked_by(name, tmp_path, monkeypatch, capsys):
    path = tmp_path / "completion.bash"
    path.write_text(script("bash", name, monkeypatch, capsys))
    checked = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert completed(path, name, "loo") == ["lookup"]
    assert completed(path, name, "lookup", "--js") == ["--json"]
    assert completed(path, name, "dev", "new") == ["new-entry"]
    assert completed(path, name, "install", "--client", "cod") == ["codex"]
    assert completed(path, name, "lin") == []  # an old name works, but isn't offered


def test_files_are_offered_where_a_file_is_meant(tmp_path, monkeypatch, capsys):
    path = tmp_path / "completion.bash"
    path.write_text(script("bash", "rgt", monkeypatch, capsys))
    (tmp_path / "train.log").write_text("")
    monkeypatch.chdir(tmp_path)
    assert "train.log" in completed(path, "rgt", "lookup", "--log", "tra")


@pytest.mark.parametrize(("shell", "begins"), [("zsh", "#compdef rgt\n"), ("tcsh", "#")])
def test_other_shells_get_a_script_too(shell, begins, tmp_path, monkeypatch, capsys):
    told = script(shell, "rgt", monkeypatch, capsys)
    assert told.startswith(begins) and "staleness" in told
    if shutil.which(shell) and shell == "zsh":
        path = tmp_path / "_rgt"
        path.write_text(told)
        assert subprocess.run([shell, "-n", str(path)]).returncode == 0
