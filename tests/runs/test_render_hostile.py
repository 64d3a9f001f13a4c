"""Hostile values all the way: what the user's program receives from a rendered script that really runs, for each target's own way of starting it."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import date
from pathlib import Path

import pytest
from remote_gpu_trainer.platforms import profile
from remote_gpu_trainer.runs.job_reading import from_object
from remote_gpu_trainer.runs.render import render

from tests.conftest import read_yaml

RECORDER = "import json, os, sys\njson.dump([sys.argv[1:], {n: os.environ.get(n) for n in ('A', 'B_1')}], open(sys.argv[0] + '.json', 'w'))\n"
ODD = [
    "'", '"', "it's \"both\"", "$(touch pwned)", "`touch pwned`", "; touch pwned", "&& touch pwned", "| touch pwned", "> pwned", "a\nb", "\n", "a\r\nb", "*", "?", "[a-z]*", "~", "~/x", "-rf", "--", "-", "",
    " ", "  two  blanks ", "\t", "\\", "\\n", "!!", "!x", "$HOME", "${HOME}", "$((1+1))", "$'\\x41'", "%s%n", "{{ 7*7 }}", "{% x %}", "{a,b}", "#x", "=", "a=b", "EOF", "RGT_EOF", "é中\U0001f600", "e\u0301", "\u2028", "\x1b[31m", "\x07", "\x7f", "\x01",
    "---", "...", "- a", "a: b", "&a", "*a", "!!python/object:os.system", "yes", "null", "0x10", "1e3", "|", ">", "@x", "x" * 100_000,
]  # fmt: skip
PLATFORMS = {
    "local": "local",
    "ssh": "vastai",
    "kubernetes": "kubernetes",
    "skypilot": "aws",
    "slurm": "slurm",
}


def started(target: str, script: str, folder):
    """The command that the target's engine would run."""
    if target in ("local", "ssh", "slurm"):
        (folder / "run.sh").write_text(script, encoding="utf-8", newline="\n")
        return ["bash", str(folder / "run.sh"), "run"]
    documents = {d.get("kind", "task"): d for d in read_yaml(script)}
    if target == "kubernetes":
        (folder / "run.sh").write_text(
            documents["ConfigMap"]["data"]["run.sh"], encoding="utf-8", newline="\n"
        )
        return [
            "bash",
            str(folder / "run.sh"),
            *documents["Job"]["spec"]["template"]["spec"]["containers"][0]["command"][2:],
        ]
    (folder / "task.sh").write_text(documents["task"]["run"], encoding="utf-8", newline="\n")
    return ["bash", str(folder / "task.sh")]


def end_the_rest(folder) -> None:
    """Over ssh the keeper calls for somebody until the deadline, on purpose: end all that is left."""
    for _ in range(20):
        left = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words, state = (entry / "cmdline").read_bytes(), (entry / "stat").read_text()
            except OSError:
                continue
            if str(folder).encode() in words and state.rpartition(")")[2].split()[0] != "Z":
                left.append(int(entry.name))
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            return
        time.sleep(0.05)


@pytest.mark.parametrize("target", PLATFORMS)
def test_the_program_receives_exactly_the_values_and_nothing_else_runs(tmp_path, target):
    home = tmp_path / "home"
    home.mkdir()
    program = tmp_path / "it's a $(touch pwned) recorder.py"
    program.write_text(RECORDER)
    job = from_object(
        {
            "name": "odd", "command": [sys.executable, str(program), *ODD], "deadline": "1h", "gpus": 0, "variables": {"A": "$(touch pwned)'\"\n;", "B_1": "x" * 100_000}, "floors": {"free_gb": 0, "free_inodes": 0},
            "results": [], "notify": ["true", "$(touch pwned)"], "kubernetes": {"image": "a"}, "run_dir": str(home / "runs" / "odd"), "slurm": {"requeue": False}, "step_pattern": "$(touch pwned)'[x]",
        }
    )  # fmt: skip
    made = render(job, profile.get(PLATFORMS[target]), target, date(2026, 8, 25))
    command = started(target, made.script, tmp_path)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "SHELL": "/bin/bash"}
    done = subprocess.run(
        command, capture_output=True, cwd=home, env=env, timeout=120, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
    end_the_rest(home)
    arguments, variables = json.loads((tmp_path / f"{program.name}.json").read_text())
    assert arguments == ODD
    assert variables == {"A": "$(touch pwned)'\"\n;", "B_1": "x" * 100_000}
    assert list(tmp_path.rglob("pwned")) == []


def test_a_line_for_bash_is_run_by_bash_once_and_whole(tmp_path):
    line = "printf '%s\\n' \"$0\" 'a  b' $((6*7)) > out.txt; false | tee -a out.txt"
    job = from_object(
        {
            "name": "line",
            "command": line,
            "deadline": "1h",
            "gpus": 0,
            "floors": {"free_gb": 0, "free_inodes": 0},
            "run_dir": str(tmp_path / "run"),
            "retries": {"bug": 0, "unknown": 0},
        }
    )
    (tmp_path / "run.sh").write_text(
        render(job, profile.get("local"), "local", date(2026, 8, 25)).script
    )
    done = subprocess.run(
        ["bash", str(tmp_path / "run.sh"), "run"],
        capture_output=True,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        timeout=60,
    )
    assert (tmp_path / "run" / "out.txt").read_text().splitlines()[1:] == ["a  b", "42"]
    assert done.returncode == 1  # the status of `false` gets through the user's own pipe
