"""accelerate, DeepSpeed, and torchrun over two nodes, each for real: a save that all ranks agree on, a killed rank, equal weights."""

import os
import signal
from pathlib import Path

import pytest

from tests.conftest import module
from tests.engines.sshd import free_port
from tests.runner.box import PROGRAM, Box, assert_nothing_repeated, undisturbed

pytest_plugins = ["tests.runner.box"]

INSTALL = "pip install torch accelerate deepspeed"
CPU = {"OMP_NUM_THREADS": "1"}


def ranks(box: Box) -> dict[int, int]:
    """{rank: pid} of the programs below a launcher."""
    found = {}
    for pid in box.processes():
        try:
            env, words = (
                Path(f"/proc/{pid}/{name}").read_bytes().split(b"\0")
                for name in ("environ", "cmdline")
            )
        except OSError:
            continue
        rank = [int(item[5:]) for item in env if item.startswith(b"RANK=")]
        if rank and str(PROGRAM).encode() in words and b"-m" not in words:
            found[rank[0]] = pid
    return found


def final(box: Box) -> bytes:
    return (box.run_dir / "final.bin").read_bytes()


@pytest.fixture(params=["accelerate", "deepspeed"])
def launcher(request) -> str:
    for name in ("torch", request.param):
        module(name, INSTALL)
    return request.param


def test_two_ranks_save_when_asked_and_go_on_after_a_kill(box: Box, launcher):
    # The signal waits up to three seconds for a gap between its saves.
    box.make("--sleep", 0.3, launcher=launcher, processes=2, variables=CPU)
    box.start()
    box.at_step(7)
    assert sorted(ranks(box)) == [0, 1]
    os.kill(box.pid("runner"), signal.SIGUSR1)
    assert box.wait("preempted", timeout=60)["reason"] == "signal USR1"
    assert box.output().count(b"leaving") == 2 and not ranks(box)
    box.start()
    box.at_step(22)
    os.kill(ranks(box)[1], signal.SIGKILL)
    assert box.wait(timeout=120)["phase"] == "done", box.log()
    first, second, third = (event["class"] for event in box.events("ended"))
    # DeepSpeed tells only of the rank that it looked at first: often the one that lost its peer.
    assert (first, third) == ("preempted", "") and second in (
        "killed",
        "network" if launcher == "deepspeed" else "killed",
    )
    assert final(box) == undisturbed(ranks=2)
    assert_nothing_repeated(box)


def test_one_process_below_a_launcher_hears_the_save(box: Box, launcher):
    box.make("--steps", 4000, launcher=launcher, variables=CPU)
    box.start()
    box.at_step(3)
    assert box.verb("stop").returncode == 0
    assert b"leaving" in box.output()
    last = max(box.steps())[1]
    assert (box.checkpoints / f"step-{last}.pt").exists(), "nothing was lost"


def test_a_program_that_is_no_script_is_started_as_it_stands(box: Box, launcher):
    box.make(
        launcher=launcher,
        command=["bash", "-c", 'echo "$LOCAL_RANK|$0|$1"; exit 3', "it's", "$HOME *"],
        results=[],
        retries={"unknown": 0, "bug": 0},
    )
    assert box.verb("run").returncode != 0
    assert b"|it's|$HOME *\n" in box.output(), box.output().decode()


def pair(box: Box, tmp_path: Path, launcher: str, *arguments) -> list[Box]:
    """Two boxes that see the same checkpoints; the second is node 1."""
    other = Box(tmp_path / "other")
    other.folder.mkdir()
    other.checkpoints = box.checkpoints
    port = free_port()
    for one in (box, other):
        one.make(
            "--sleep",
            0.02,
            *arguments,
            launcher=launcher,
            processes=1,
            nodes=2,
            results=["final.bin"],
            rendezvous=f"127.0.0.1:{port}",
            variables=CPU,
        )
    return [box, other]


def start(boxes: list[Box]) -> None:
    for rank, one in enumerate(boxes):
        done = one.verb("start", "--node-rank", str(rank))
        assert done.returncode == 0, done.stdout + done.stderr
        if rank:
            one.run_dir /= f"node-{rank}"


@pytest.mark.parametrize("where", ["torchrun-0", "torchrun-1", "accelerate-1"])
def test_a_rank_killed_on_one_of_two_nodes_brings_both_back(box: Box, tmp_path, where):
    launcher, _, hurt = where.partition("-")
    for name in ("torch", launcher.replace("torchrun", "torch")):
        module(name, INSTALL)
    boxes = pair(box, tmp_path, launcher)
    try:
        start(boxes)
        box.at_step(12)
        os.kill(ranks(boxes[int(hurt)])[int(hurt)], signal.SIGKILL)
        for one in boxes:
            assert one.wait(timeout=180)["phase"] == "done", (
                one.log() + one.output().decode()[-3000:]
            )
        assert boxes[int(hurt)].events("ended")[0]["class"] == "killed"
        assert final(box) == undisturbed(ranks=2)
        assert_nothing_repeated(box)
    finally:
        boxes[1].close()
