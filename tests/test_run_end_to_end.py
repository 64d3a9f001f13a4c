"""The whole way of a user, with the lines as they are printed: render, send, rehearse, start, wait, bring home."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import engine
from tests.engines.sshd import INSTALL
from tests.runner_box import PROGRAM, undisturbed

pytest_plugins = ["tests.engines.sshd"]

SECRET = "s3cr3t-'value'-$(nobody)"
JOB = f"""\
name: small
command: ["{sys.executable}", train.py, --steps, "40", --sleep, "0.05", --final, "out/it's final.bin"]
code: program
python: {sys.executable}
gpus: 0
deadline: 1h
secrets:
  API_KEY: {{file: ~/key of mine}}
checkpoint: {{folder: out/ckpt, pattern: step-*.pt, save_seconds: 10}}
results: ["out/it's final.bin"]
durable: {{to: ~/kept, what: [out]}}
floors: {{free_gb: 0.1, free_inodes: 100}}
rehearsal: {{arguments: [--every, "2"], minutes: 2}}
"""
WRAPPER = f"""\
import hashlib, os, pathlib, runpy
assert hashlib.sha256(os.environ["API_KEY"].encode()).hexdigest() == "{hashlib.sha256(SECRET.encode()).hexdigest()}"
assert not pathlib.Path("notes.ignored").exists()
pathlib.Path("out").mkdir(exist_ok=True)
runpy.run_path("trainer.py", run_name="__main__")
"""


@pytest.fixture
def desk(tmp_path, sshd, monkeypatch):
    """A user's folder with code under git, and an ssh that knows the box as `gpu`."""
    engine("rsync", INSTALL)
    code = tmp_path / "desk/program"
    code.mkdir(parents=True)
    (code / "train.py").write_text(WRAPPER)
    shutil.copy(PROGRAM, code / "trainer.py")
    (code / ".gitignore").write_text("*.ignored\n")
    (code / "notes.ignored").write_text("not for the box")
    git = ["git", "-C", str(code), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "train.py", ".gitignore"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {sshd.ssh_config} "$@"\n')
    (tools / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path / "desk")
    (tmp_path / "desk/job.yaml").write_text(JOB)
    (sshd.home / "key of mine").write_text(SECRET + "\n")
    yield tmp_path / "desk"
    sshd.run("bash ~/runs/small/run.sh stop", timeout=40)


def trainer(*words: str, code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([sys.executable, "-m", "remote_gpu_trainer", *words], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def printed(text: str, name: str) -> str:
    """The lines below `# NAME`, for a box called gpu."""
    lines = re.search(rf"^# {name}\n(.*?)(?=^# |^warning |\Z)", text, re.M | re.S)[1]
    return lines.replace("BOX", "gpu")


def shell(lines: str) -> subprocess.CompletedProcess:
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", lines], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def arguments_of_all() -> bytes:
    found = b""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += path.read_bytes()
        except OSError:
            pass
    return found


def test_from_a_job_file_to_verified_results_at_home(desk, sshd):
    made = trainer("render", "job.yaml", "--profile", "generic-ssh", "--write-to", "small.sh")
    script = Path("small.sh").read_text()
    *send, start = printed(made.stderr, "start").strip().split("\n")
    shell("\n".join(send))
    run = sshd.home / "runs/small"
    assert sorted(path.name for path in (run / "code").iterdir()) == [".gitignore", "train.py", "trainer.py"]

    rehearsed = sshd.run("bash ~/runs/small/run.sh rehearse", timeout=120)
    assert rehearsed.returncode == 0, rehearsed.stdout + rehearsed.stderr
    assert [line.split(":")[0] for line in rehearsed.stdout.splitlines() if line.startswith("ok ")][:4] == ["ok train", "ok save", "ok kill", "ok resume"]
    assert not (run / "code/out/it's final.bin").exists() and not list((run / "code/out").glob("ckpt/*")), "a rehearsal leaves the run alone"

    begun = shell(start)
    assert "started small in" in begun.stdout
    seen = arguments_of_all()
    assert SECRET.encode() not in seen and str(run).encode() in seen
    watched = trainer(*printed(made.stderr, "watch").split()[1:], "--max", "90s", "--every", "1s")
    assert watched.stdout.startswith("finished: "), watched.stdout

    home = trainer("release", "gpu", "--profile", "generic-ssh", "--to", "results")
    assert home.stdout.startswith("verified: "), home.stdout
    assert Path("results/code/out/it's final.bin").read_bytes() == undisturbed()
    assert (sshd.home / "kept/out/it's final.bin").read_bytes() == undisturbed()
    assert (run / "code.commit").read_text().endswith(" first\n") and (run / "code.ignored").read_text() == "notes.ignored\n"
    everything = [path.read_bytes() for place in (desk, run, sshd.home / "kept") for path in place.rglob("*") if path.is_file()]
    texts = [script, made.stderr, rehearsed.stdout, begun.stdout, watched.stdout, home.stdout, sshd.log()]
    assert not [text for text in (*everything, *(text.encode() for text in texts)) if b"s3cr3t" in text]

    again = shell(start)
    assert "done already" in again.stdout, "a second start does nothing"
