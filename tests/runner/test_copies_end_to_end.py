"""Copies to the durable place by a whole run: made while it trains, compared at its end, none of them able to stop it or to hold it up."""

import os
import subprocess
from pathlib import Path

from tests.runner.box import Box, undisturbed
from tests.runner.copying import HERE

pytest_plugins = ["tests.runner.box"]


def rows(box: Box) -> list[dict]:
    path = box.run_dir / "log/synced.tsv"
    names = ("t", "mode", "result", "item", "to", "seconds", "detail")
    lines = path.read_text().splitlines() if path.exists() else []
    return [dict(zip(names, line.split("\t"), strict=True)) for line in lines]


def durable(box: Box, **more) -> dict:
    usual = {
        "to": str(box.folder / "durable"),
        "what": [str(box.checkpoints), "final.bin"],
        "every_minutes": 0.02,
    }
    return usual | more


def test_checkpoints_are_copied_while_it_runs_and_compared_at_the_end(box: Box):
    box.make("--steps", 100, "--sleep", 0.2, durable=durable(box))
    box.start()
    box.until(lambda: any(row["mode"] == "quick" and row["result"] == "ok" for row in rows(box)))
    assert box.steps()[-1][1] < 100, "the first copy came before the last step"
    assert box.wait()["phase"] == "done"
    last = {row["item"]: row["result"] for row in rows(box) if row["mode"] == "full"}
    assert list(last.values()) == ["ok", "ok", "ok"]
    assert (box.folder / "durable/final.bin").read_bytes() == undisturbed(100)
    told = box.status()["last_sync"]
    assert (told["ok"], told["verified"], told["to"]) == (True, True, str(box.folder / "durable"))


def test_what_was_never_there_is_not_called_verified_after_a_good_end(box: Box):
    wanted = durable(box, what=[str(box.checkpoints), "resluts"])
    box.make("--sleep", 0, durable=wanted, deadline="40s", checkpoint={"save_seconds": 3})
    assert box.verb("run", timeout=120).returncode == 74
    assert box.status()["last_sync"]["verified"] is False
    last = {row["item"]: row["result"] for row in rows(box) if row["mode"] == "full"}
    assert last == {"checkpoints": "ok", str(box.checkpoints): "ok", "resluts": "failed"} | (
        {str(box.run_dir / "final.bin"): "ok"}
    )
    again = box.verb("sync")
    assert again.returncode == 1 and "resluts" in again.stderr
    (box.run_dir / "resluts").write_text("x")
    done = box.verb("sync")
    assert (done.returncode, done.stdout) == (0, f"verified at {box.folder}/durable\n")
    assert box.status()["last_sync"]["verified"] is True


def test_data_come_before_the_program_starts(box: Box):
    source = box.folder / "data"
    source.mkdir()
    (source / "a b.txt").write_text("numbers")
    staged = {"from": str(source), "to": "data here"}
    least = {"results": [], "checkpoint": None}
    box.make(command=["cat", "data here/a b.txt"], data=[staged], **least)
    assert box.verb("run").returncode == 0, box.log()
    assert box.output() == b"numbers"
    gone = {"from": str(box.folder / "nowhere"), "to": "x"}
    box.make(command=["true"], data=[gone], **least)
    assert box.verb("resume").returncode == 0
    assert "nowhere" in box.wait("failed")["reason"]


def test_a_copy_started_by_hand_does_not_cost_its_login_when_the_run_ends(box: Box):
    box.tool("ssh", f"sleep 0.3\n{HERE}")  # a copy of one checkpoint asks a dozen times
    far = f"gpu:{box.folder}/durable"
    box.make("--steps", 4000, durable=durable(box, to=far, every_minutes=60))
    box.start()
    box.at_step(6)
    with subprocess.Popen(
        ["bash", "-c", f"bash {box.script} sync; sleep 60; true"],
        env=box.env,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as login:
        box.until(lambda: any(b"sync" in words for words in commands(box)))
        assert box.verb("stop", timeout=100).returncode == 0
        assert login.poll() is None
        os.killpg(login.pid, 9)


def commands(box: Box) -> list[bytes]:
    """The last words of the run's processes."""
    found = []
    for pid in box.processes():
        path = Path(f"/proc/{pid}/cmdline")
        if path.exists():
            found += path.read_bytes().split(b"\0")[-3:]
    return found
