"""The README of examples/autodl_sweep, its `sh` blocks run one after the other on a loopback box. Only `shell` blocks are not run."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, engine
from tests.engines.sshd import boxes, sshd  # noqa: F401

EXAMPLE = ROOT / "examples/autodl_sweep"
HERE = "--set at_end.do=keep --set durable.on_this_box=true --set gpus=0 --set floors.free_gb=0.01 --set floors.free_inodes=1"


def blocks() -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", (EXAMPLE / "README.md").read_text(), re.M | re.S)


@pytest.fixture
def at(sshd, tmp_path):
    """Run a block as the README has it, with this box's folders in place of AutoDL's."""
    for name in ("rsync", "git", "scp"):
        engine(name, f"apt-get install -y {name}")
    place, bin_ = tmp_path / "example", tmp_path / "bin"
    shutil.copytree(EXAMPLE, place)
    (sshd.home / "autodl-tmp").mkdir()
    (sshd.home / "autodl-fs/sweep7").mkdir(parents=True)
    bin_.mkdir()
    for name in ("ssh", "scp"):
        (bin_ / name).write_text(
            f'#!/bin/sh\nexec {shutil.which(name)} -F {sshd.ssh_config} "$@"\n'
        )
        (bin_ / name).chmod(0o755)
    (bin_ / "remote-gpu-trainer").write_text(
        f'#!/bin/sh\nexec {sys.executable} -m remote_gpu_trainer "$@"\n'
    )
    (bin_ / "remote-gpu-trainer").chmod(0o755)
    subprocess.run(
        "git init -q . && git add . && git -c user.name=x -c user.email=x@example.org commit -qm x",
        shell=True,
        cwd=place,
        check=True,
    )

    def local(text: str) -> str:
        return text.replace("/root/miniconda3/bin/python", sys.executable).replace(
            "/root/autodl-", f"{sshd.home}/autodl-"
        )

    job = place / "job.yaml"
    job.write_text(local(job.read_text()))
    env = {
        **sshd.env(),
        "PATH": f"{bin_}:{os.environ['PATH']}",
        "BUNDLE": str(ROOT),
        "PYTHONPATH": str(ROOT / "server"),
    }

    def run(text: str) -> subprocess.CompletedProcess:
        text = local(text).replace("render job.yaml", f"render job.yaml {HERE}")
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=place,
            env=env,
            capture_output=True,
            text=True,
            timeout=200,
        )

    run.place, run.home = place, sshd.home
    return run


@pytest.mark.timeout(300)
def test_the_readme_from_job_to_verified_results(at):
    render, start, wait, gather, pull = blocks()
    done = at(render)
    assert done.returncode == 0, done.stderr
    script = (at.place / "sweep7.sh").read_text()
    assert '"do": "keep",' in script  # this machine must not be powered off by its tests
    done = at(start)
    assert done.returncode == 0, done.stdout + done.stderr
    done = at(wait)
    assert done.returncode == 0, done.stdout + done.stderr
    done = at(gather)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("ok: 12 of 12 cells")
    done = at(pull)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lr1e-3_seed3\tlr\t0.001" in done.stdout
    proof = json.loads((at.place / "results/sweep7/PULL_VERIFIED.json").read_text())
    assert len(proof["cells"]) == 12 and proof["loaded"] is True
    live = at.home / "autodl-fs/sweep7/live"
    assert all(
        any((live / name).rglob("best.safetensors")) for name in proof["cells"]
    )  # the runner's own copies


def test_the_roster_and_the_queue_name_the_same_cells():
    from remote_gpu_trainer.runs.cells import read_queue

    cells, _ = read_queue((EXAMPLE / "queue.txt").read_text())
    names = [cell["name"] for cell in cells]
    made = subprocess.run(
        ["awk", "!/^#/ && NF { print $1 }", str(EXAMPLE / "queue.txt")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert made == names and len(names) == 12


def test_the_stand_in_resumes_to_the_same_bytes(tmp_path):
    def train(folder: Path, *steps: str, resume: str = "") -> bytes:
        env = {**os.environ, "RGT_CHECKPOINT_DIR": str(folder), "RGT_RESUME_FROM": resume}
        subprocess.run(
            [sys.executable, str(EXAMPLE / "train.py"), "--steps", *steps],
            env=env,
            check=True,
            capture_output=True,
        )
        return (folder / "best.safetensors").read_bytes()

    whole = train(tmp_path / "a", "200")
    train(tmp_path / "b", "100")
    assert train(tmp_path / "b", "200", resume=str(tmp_path / "b/step_000100.safetensors")) == whole
