"""The job's setup: lines of bash before the program, in the shell that becomes it."""

import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_gpu_trainer.runner import attempt, installing, preflight, setting_up
from remote_gpu_trainer.runner.context import Run

from tests.runner.box import Box, assert_nothing_repeated, undisturbed
from tests.runner.jobs import job_of

pytest_plugins = ["tests.runner.box"]

TELL = [sys.executable, "-c", "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"]  # fmt: skip
# A `module` as Lmod brings it: a function that changes the shell's own variables.
MODULES = 'module() { [[ $1 == load && $2 == cuda/* ]] && export LOADED="${LOADED-}$2 "; }\nml() { module load "$@"; }\n'


def shell(lines, words=TELL, note="/dev/null", env=None):
    return subprocess.run(
        setting_up.around(lines, [*words], str(note)),
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], **(env or {})},
    )


def test_without_a_line_the_words_stay():
    assert setting_up.around([], ["x", "y"]) == ["x", "y"]


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_the_program_gets_its_words_whatever_they_hold(words):
    done = shell(["set -- lost", "shopt -s nullglob", "IFS=x"], [*TELL, *words])
    assert json.loads(done.stdout)[0] == words


def test_what_the_lines_export_reaches_the_program_and_is_kept_in_order(tmp_path):
    lines = ["export A=$FIRST/1", 'for n in 1 2; do\n  A+="-$n"\ndone', "B='it''s'; export B"]
    done = shell(lines, env={"FIRST": "x"})
    env = json.loads(done.stdout)[1]
    assert (env["A"], env["B"]) == ("x/1-1-2", "its")
    assert not [name for name in env if name.startswith("rgt_")]


@pytest.mark.parametrize(
    ("lines", "number", "code"),
    [
        (["true", "false"], 2, 1),
        (["(exit 7)", "true"], 1, 7),
        (["exit 0"], 1, 1),
        (["true", "true", "if"], 3, 2),
        (["set -eu", ": $nope"], 2, 1),
        (["no-such-program"], 1, 127),
        (["module load x"], 1, 127),
    ],
)
def test_a_line_that_fails_is_noted_and_nothing_after_it_runs(tmp_path, lines, number, code):
    note = tmp_path / "note"
    done = shell(lines, ["touch", str(tmp_path / "ran")], note)
    told = json.loads(note.read_text())
    assert told["line"] == number and (told["code"] == code or "$nope" in lines[-1])
    assert done.returncode == told["code"] and not (tmp_path / "ran").exists()


def test_what_failed_before_the_program_is_a_line_of_the_setup_or_the_container(
    tmp_path, monkeypatch
):
    run = Run(
        job_of({"rendered": {"run_dir": str(tmp_path)}, "name": "toy", "setup": ["true", "exit 3"]})
    )
    it = SimpleNamespace(run=run)
    monkeypatch.setattr(attempt.containers, "failure", lambda _, code: f"engine {code}")
    assert attempt.Attempt._never_started(it, 125) == "engine 125"
    run.folder.make()
    run.folder.write(setting_up.NOTE, '{"line": 2, "code": 3}')
    said = "setup: line 2 failed with exit status 3: exit 3"
    assert attempt.Attempt._never_started(it, 125) == said


def test_a_module_is_found_where_no_login_shell_ran(tmp_path):
    (tmp_path / "init").mkdir()
    (tmp_path / "init/bash").write_text(MODULES)
    done = shell(["module load cuda/12.4", "ml cuda/13"], env={"LMOD_PKG": str(tmp_path)})
    assert json.loads(done.stdout)[1]["LOADED"] == "cuda/12.4 cuda/13 "
    assert shell(["module load gcc"], env={"LMOD_PKG": str(tmp_path)}).returncode == 1


def test_a_module_that_the_shell_has_already_is_left_alone(tmp_path):
    env = {"BASH_FUNC_module%%": '() { export LOADED="mine $*"; }'}
    assert json.loads(shell(["module load x"], env=env).stdout)[1]["LOADED"] == "mine load x"


def make_run(tmp_path, **fields) -> Run:
    given = {"rendered": {"run_dir": str(tmp_path / "run"), "work_dir": str(tmp_path), "job_sha": "one"}, "command": ["true"], "python": sys.executable, "timings": {"tick": 0.01}}  # fmt: skip
    run = Run(job_of(given, fields))
    run.folder.make()
    return run


def reasons(run: Run) -> list[str]:
    return [reason for _, _, reason in preflight.check(run)]


def test_a_line_that_fails_is_refused_before_the_start_with_its_words(tmp_path):
    run = make_run(tmp_path, setup=["true", "echo 'no such module' >&2; false"], launcher="torchrun", python="/no/python")  # fmt: skip
    assert reasons(run) == [
        "setup: line 2 failed with exit status 1: echo 'no such module' >&2; false (no such module)"
    ]


def test_the_interpreter_is_looked_for_behind_the_setup(tmp_path):
    (tmp_path / "env/bin").mkdir(parents=True)
    (tmp_path / "env/bin/mypython").symlink_to(sys.executable)
    given = {"python": "mypython", "launcher": "torchrun"}
    assert reasons(make_run(tmp_path, **given)) == ["mypython is missing on this box"]
    # Relative to the work folder, as the program would read it.
    assert reasons(make_run(tmp_path, setup=["PATH=$PWD/env/bin:$PATH"], **given)) == []


def test_a_setup_that_hangs_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(preflight, "SETUP_LIMIT", 0.3)
    [told] = reasons(make_run(tmp_path, setup=["sleep 60"]))
    assert told.startswith("setup: no answer within 0.3 s")


def test_the_kernel_check_runs_behind_the_setup(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    smi = tmp_path / "bin/nvidia-smi"
    smi.write_text('#!/bin/sh\ncase "$*" in *index*) echo "0, GPU-aa, 10, 80000" ;; esac\n')
    smi.chmod(0o755)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/torch.py").write_text("raise SystemExit('torch of the setup')\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    run = make_run(tmp_path, setup=[f"export PYTHONPATH={tmp_path}/lib"], gpus=1)
    assert reasons(run) == [f"no CUDA kernel runs in {sys.executable}: torch of the setup"]


def test_an_installation_runs_behind_the_setup_and_again_when_that_changes(tmp_path):
    install = ["bash", "-c", 'echo "$WHERE" >> installed']
    run = make_run(tmp_path, setup=["export WHERE=conda"], rendered={"install": install})
    assert installing.install(run, lambda: False) is None
    assert installing.install(run, lambda: False) is None
    run.spec.setup = ["export WHERE=venv"]
    assert installing.install(run, lambda: False) is None
    assert (tmp_path / "installed").read_text() == "conda\nvenv\n"
    run.spec.setup = ["(exit 4)"]
    found = installing.install(run, lambda: False)
    assert found == ("setup", "", "setup: line 1 failed with exit status 4: (exit 4) (log/install.log)")  # fmt: skip


# End to end.


def test_a_save_signal_reaches_the_program_behind_a_setup(box: Box):
    box.make("--sleep", 0.1, setup=["export OWN=1", 'echo "setup says $OWN"'])
    box.start()
    box.at_step(5)
    os.kill(box.pid("runner"), signal.SIGUSR1)
    assert box.wait("preempted")["reason"] == "signal USR1"
    assert b"setup says 1" in box.output() and b"leaving" in box.output()
    box.start()
    assert box.wait()["phase"] == "done"
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed()
    assert_nothing_repeated(box)


def test_a_line_that_fails_before_an_attempt_is_no_bug_of_the_training(box: Box):
    """It passes the check before the start, and fails afterwards: once, and then always."""
    line = 'n=$(cat "$OWN/n"); echo $((n + 1)) > "$OWN/n"; (( n != 1 ))'
    (box.folder / "n").write_text("0\n")
    box.make(setup=[line], variables={"OWN": str(box.folder)})
    box.start()
    assert box.wait()["phase"] == "done"
    first, second = box.events("ended")
    assert (first["class"], second["class"]) == ("setup", "")
    assert first["reason"].startswith("setup: line 1 failed with exit status 1: n=$(cat ")
    (box.folder / "n").write_text("0\n")
    box.make(setup=[line.replace("(( n != 1 ))", "(( n < 1 ))")], variables={"OWN": str(box.folder)})  # fmt: skip
    box.start("resume")
    assert box.wait()["phase"] == "failed"
    assert box.marker("failed")["class"] == "setup"


def test_every_cell_runs_behind_the_setup(box: Box):
    cells = [{"name": name, "arguments": [name]} for name in "ab"]
    box.make(
        command=["bash", "-c", 'echo "$OWN $1" > "$RGT_RUN_DIR/out"', "bash"],
        setup=["export OWN=mine"],
        queue={"cells": cells},
        results=[],
        checkpoint=None,
    )
    assert box.verb("queue", timeout=120).returncode == 0
    for name in "ab":
        assert (box.run_dir / f"cells/{name}/out").read_text() == f"mine {name}\n"


def test_a_rehearsal_runs_behind_the_setup_as_it_stands(box: Box):
    box.make(
        "--steps", 30,
        setup=[f"export SEEN={box.checkpoints}", 'echo "$SEEN" >> "$OWN/seen"'],
        variables={"OWN": str(box.folder)},
        rehearsal={"arguments": [], "minutes": 1},
    )  # fmt: skip
    done = box.verb("rehearse", timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    seen = (box.folder / "seen").read_text().split()
    assert len(seen) >= 2 and set(seen) == {str(box.checkpoints)}  # no line is written anew


def test_a_python_that_only_the_setup_brings_runs_the_runner(box: Box, tmp_path):
    """On old clusters the system's Python is too old, and a module has another."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "cat", "cd", "timeout", "tail", "rm", "mkdir", "sleep", "date", "mv", "cp", "setsid", "grep", "true"):  # fmt: skip
        found = subprocess.run(["which", name], capture_output=True, text=True).stdout.strip()
        if found:
            (tools / name).symlink_to(found)
    (tmp_path / "env").mkdir()
    (tmp_path / "env/python3").symlink_to(sys.executable)
    box.make(command=["true"], python="python3", setup=[f"PATH={tmp_path}/env:$PATH"], results=[], checkpoint=None)  # fmt: skip
    text = box.script.read_text()
    for place in ("/usr/bin/python3 ", "/usr/local/bin/python3 ", "/opt/conda/bin/python3 ", "/usr/libexec/platform-python"):  # fmt: skip
        text = text.replace(place, place.replace("python", "none"))
    box.script.write_text(text)
    box.env["PATH"] = str(tools)
    done = box.verb("run")
    assert done.returncode == 0, done.stdout + done.stderr
