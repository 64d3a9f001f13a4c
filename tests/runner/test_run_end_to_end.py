"""The whole way of a user, with the lines as they are printed: render, send, rehearse, start, wait, bring home."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import engine
from tests.engines.sshd import INSTALL
from tests.programs import rgt
from tests.runner.box import undisturbed

pytest_plugins = ["tests.engines.sshd"]

SECRET = "s3cr3t-'value'-$(nobody)"
JOB = f"""\
name: small
command: ["{sys.executable}", train.py, --final, "out/it's final.bin"]
code: program
python: {sys.executable}
gpus: 0
deadline: 1h
secrets:
  API_KEY: {{file: ~/key of mine}}
checkpoint: {{folder: out/ckpt, pattern: step-*.safetensors, save_seconds: 10}}
results: ["out/it's final.bin"]
durable: {{to: ~/kept, what: [out], on_this_box: true}}
floors: {{free_gb: 0.1, free_inodes: 100}}
rehearsal: {{arguments: [--every, "2"], minutes: 2}}
"""
PROGRAM = f"""\
import argparse, hashlib, json, os, pathlib, signal, struct, sys, time
assert hashlib.sha256(os.environ["API_KEY"].encode()).hexdigest() == "{hashlib.sha256(SECRET.encode()).hexdigest()}"
parser = argparse.ArgumentParser()
parser.add_argument("--every", type=int, default=5)
parser.add_argument("--final")
args = parser.parse_args()
folder, numbers, asked = pathlib.Path(os.environ["RGT_CHECKPOINT_DIR"]), [0, 1, 2, 3, 4], []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
folder.mkdir(parents=True, exist_ok=True)
if os.environ["RGT_RESUME_FROM"]:
    numbers = list(struct.unpack("<5q", pathlib.Path(os.environ["RGT_RESUME_FROM"]).read_bytes()[-40:]))
    print("resumed at", numbers[0])
header = json.dumps({{"numbers": {{"dtype": "I64", "shape": [5], "data_offsets": [0, 40]}}}}).encode().ljust(80)
while numbers[0] < 40:
    step, *weights = numbers
    numbers = [step + 1, *((w * 48271 + step + 1 + n) % (2**31 - 1) for n, w in enumerate(weights))]
    print(f"step {{numbers[0]}}/40")
    if asked or numbers[0] % args.every == 0:
        new = folder / "new.tmp"
        new.write_bytes(len(header).to_bytes(8, "little") + header + struct.pack("<5q", *numbers))
        new.replace(folder / f"step-{{numbers[0]}}.safetensors")
    if asked:
        sys.exit(85)
    time.sleep(0.05)
pathlib.Path(args.final).write_bytes(struct.pack("<5q", *numbers))
"""


@pytest.fixture
def desk(tmp_path, sshd, monkeypatch):
    """A user's folder with code under git, and an ssh that knows the box as `gpu`."""
    engine("rsync", INSTALL)
    code = tmp_path / "desk/program"
    code.mkdir(parents=True)
    (code / "train.py").write_text(PROGRAM)
    (code / "new.py").write_text("not committed, so it stays here")
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
    done = rgt(*words, stdin=subprocess.DEVNULL)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def printed(text: str, name: str) -> str:
    """The lines below `# NAME`, for a box called gpu."""
    lines = re.search(rf"^# {name}\n(.*?)(?=^# |^warning |\Z)", text, re.MULTILINE | re.DOTALL)[1]
    return lines.replace("BOX", "gpu")


def shell(lines: str) -> subprocess.CompletedProcess:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", lines],
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def arguments_of_all() -> bytes:
    found = b""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += path.read_bytes()
    return found


def test_from_a_job_file_to_verified_results_at_home(desk, sshd):
    made = trainer("render", "job.yaml", "--profile", "generic-ssh", "--write-to", "small.sh")
    script = Path("small.sh").read_text()
    lines = printed(made.stderr, "start")
    [start] = [line for line in lines.split("\n") if "run.sh start" in line]
    shell(lines.replace(start, ""))  # all but the start itself
    run = sshd.home / "runs/small"
    assert sorted(path.name for path in (run / "code").iterdir()) == [
        ".gitignore",
        "train.py",
    ]

    rehearsed = sshd.run("bash ~/runs/small/run.sh rehearse", timeout=120)
    assert rehearsed.returncode == 0, rehearsed.stdout + rehearsed.stderr
    assert [line.split(":")[0] for line in rehearsed.stdout.splitlines() if line.startswith("ok ")][
        :4
    ] == ["ok train", "ok save", "ok kill", "ok resume"]
    assert not (run / "code/out/it's final.bin").exists() and not list(
        (run / "code/out").glob("ckpt/*")
    ), "a rehearsal leaves the run alone"

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
    assert (run / "log/code.commit").read_text().endswith(" first\n") and (
        run / "log/code.ignored"
    ).read_text() == "notes.ignored\n"
    everything = [
        path.read_bytes()
        for place in (desk, run, sshd.home / "kept")
        for path in place.rglob("*")
        if path.is_file()
    ]
    texts = [
        script,
        made.stderr,
        rehearsed.stdout,
        begun.stdout,
        watched.stdout,
        home.stdout,
        sshd.log(),
    ]
    assert not [
        text for text in (*everything, *(text.encode() for text in texts)) if b"s3cr3t" in text
    ]

    again = shell(start)
    assert "already done" in again.stdout, "a second start does nothing"
