"""What a failure is called, whether it is tried again, and a disk that fills."""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import failures

from tests.conftest import ROOT
from tests.runner.box import Box, assert_nothing_repeated, undisturbed

pytest_plugins = ["tests.runner.box"]

# Text, exit code, class, entry, attempts that are made of it when nothing is gained between. What
# else names a class is in test_why.py.
SAID = [
    ("OSError: [Errno 28] No space left on device: 'step-10.pt'", 1, "disk", "U6", 1),
    ("RuntimeError: No CUDA GPUs are available", 1, "gpu", "ENV22", 1),
    ("[rank0]:[E] Watchdog caught collective operation timeout: WorkNCCL", 134, "hang", "D20", 2),
    ("ConnectionError: Max retries exceeded with url: /api", 1, "network", "", 2),
    ("Traceback (most recent call last):\nValueError: wrong shape", 1, "bug", "", 2),
    ("", 139, "unknown", "", 2),
]


SMI = """#!/bin/bash
case "$*" in
  *query-compute-apps*) exit 0 ;;
  *query-gpu=index*) echo "0, GPU-aa, 10, 80000" ;;
esac
"""


def with_gpu(box: Box) -> dict:
    """The values of a run on a box with one idle GPU, whose Python has no torch to check it with."""
    tools = box.folder / "bin"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(SMI)
    (tools / "nvidia-smi").chmod(0o755)
    box.env["PATH"] = f"{tools}:{box.env['PATH']}"
    return {"gpus": 1, "python": "/usr/bin/python3"}


@pytest.mark.parametrize(
    ("text", "code", "name", "entry", "attempts"),
    SAID,
    ids=[f"{c}-{n}" for n, (_, _, c, _, _) in enumerate(SAID)],
)
def test_a_failure_is_named_by_its_evidence_and_retried_by_its_class(
    box: Box, text, code, name, entry, attempts
):
    end = f"os.kill(os.getpid(), {code - 128})" if code > 128 else f"os._exit({code})"
    program = f"import os, sys; print(sys.argv[1], file=sys.stderr, flush=True); {end}"
    box.make(
        command=["python3", "-c", program, text],
        results=[],
        target="ssh",
        **(with_gpu(box) if "CUDA" in text else {}),
    )
    assert box.verb("run").returncode == code
    marker = box.marker("failed")
    assert (marker["class"], marker["entry"], marker["exit"]) == (name, entry, code)
    again = failures.TWICE if attempts > 1 else ""
    assert marker["again"] == again
    wanted = failures.as_answer(failures.decide(name, entry, again))
    assert box.status()["decision"] == wanted
    told = failures.in_words(wanted)
    assert box.events("notify")[-1]["message"].endswith(f"Decision: {told}")
    assert len(box.events("attempt")) == attempts, "the same failure at the same step twice stops"


def test_the_same_failure_again_needs_a_resume(box: Box):
    box.make(
        "--fail-at",
        12,
        "--sleep",
        0,
        "--fail-code",
        9,
        "--say",
        "Connection reset by peer",
        results=[],
    )
    box.verb("run")
    marker = box.marker("failed")
    assert (
        marker["class"] == "network" and "same failure at the same step twice" in marker["reason"]
    )
    # The second attempt began at the checkpoint of step 10 and brought no newer one.
    assert len(box.events("attempt")) == 2
    refused = box.verb("start")
    assert refused.returncode == 78 and "resume" in refused.stderr
    box.make("--sleep", 0)
    box.start("resume")
    assert box.wait()["phase"] == "done"
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed()
    assert_nothing_repeated(box)


def test_the_kernel_s_memory_killer_is_read_from_its_counter(box: Box):
    counters = box.folder / "cgroup"
    counters.mkdir()
    (counters / "memory.events").write_text("low 0\noom 0\noom_kill 3\n")
    program = f"import os, pathlib; pathlib.Path({str(counters / 'memory.events')!r}).write_text('low 0\\noom_kill 4\\n'); os.kill(os.getpid(), 9)"
    box.make(
        command=["python3", "-c", program],
        results=[],
        target="slurm",
        spec={"rendered": {"cgroup": str(counters)}},
    )
    assert box.verb("run").returncode == 137
    assert (box.marker("failed")["class"], box.marker("failed")["entry"]) == ("host-oom", "SLURM4")


needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("mount"), reason="a small disk of its own needs root"
)


def mount_small(folder: Path, size: str) -> None:
    """Make a folder a disk of its own; who calls unmounts it. Not allowed: the test is skipped."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("mount is not allowed here")


@needs_root
def test_a_checkpoint_disk_that_fills_stops_the_run_and_a_freed_one_goes_on(box: Box):
    mount_small(box.checkpoints, "1m")
    try:
        box.make("--pad", 150_000)
        box.start()
        box.at_step(11)
        # Someone else's file takes the room of the next checkpoint.
        (box.checkpoints / "other").write_bytes(b"1" * 500_000)
        now = box.wait("failed")
        assert (now["class"], now["exit"]) == ("disk", 1) and len(box.events("attempt")) == 2
        held = max(int(path.stem[5:]) for path in box.checkpoints.glob("step-*.pt"))
        (box.checkpoints / "other").unlink()
        box.start("resume")
        assert box.wait()["phase"] == "done"
        assert (
            box.steps()[-1][1] == 40
            and next(step for attempt, step, _ in box.steps() if attempt == 3) == held + 1
        )
        assert (box.run_dir / "final.bin").read_bytes() == undisturbed()
        assert_nothing_repeated(box)
    finally:
        box.kill_everything()
        subprocess.run(["umount", "-l", str(box.checkpoints)], check=True)


@needs_root
def test_a_full_disk_that_has_room_again_is_waited_for(box: Box):
    mount_small(box.checkpoints, "4m")
    try:
        box.make("--pad", 150_000, timings={"room_wait": 120})
        box.start()
        box.at_step(11)
        with pytest.raises(OSError), open(box.checkpoints / "other", "wb", buffering=0) as other:
            while other.write(b"1" * 65536):
                pass
        box.until(lambda: box.events("retry"))
        time.sleep(1)
        assert len(box.events("attempt")) == 1, "there is no room yet"
        (box.checkpoints / "other").unlink()
        assert box.wait()["phase"] == "done" and len(box.events("attempt")) == 2
        assert (box.run_dir / "final.bin").read_bytes() == undisturbed()
    finally:
        box.kill_everything()
        subprocess.run(["umount", "-l", str(box.checkpoints)], check=True)


@needs_root
def test_a_wait_for_room_is_told_at_once_though_nothing_can_be_written(box: Box):
    """The run's folder lies on the full disk, so its state stays as it was."""
    small = box.folder / "small"
    mount_small(small, "4m")
    box.run_dir, box.checkpoints = small / "run", small / "ckpt"
    told = box.folder / "told"
    try:
        notify = ["bash", "-c", f"cat >>{told}"]
        box.make("--pad", 150_000, timings={"room_wait": 120, "heartbeat": 0.5}, notify=notify)
        box.start()
        box.at_step(11)

        def fill() -> None:
            with pytest.raises(OSError), open(small / "other", "ab", buffering=0) as other:
                while other.write(b"1" * 4096):
                    pass

        for _ in range(2):  # what the program writes meanwhile finds no room either
            fill()
        box.until(lambda: told.exists() and told.read_text())
        fill()  # nor does the state where the program's pid was noted
        assert (
            f"no room left in {box.run_dir}: waiting up to 2 minutes for room" in told.read_text()
        )
        first = box.until(lambda: (now := box.status())["waits"] and now)
        assert (first["alive"], first["class"], first["entry"]) == (True, "disk", "U6")
        assert first["reason"] == f"no room left in {box.run_dir}"
        assert first["waits"] == "for room, 2 minutes more at most, then tries again"
        assert first["stalled"] is True
        assert first["disk_free_mb"] == 0
        time.sleep(5)
        later = box.status()
        assert later["updated"] == first["updated"], "the state can't be written"
        assert later["waits"] and later["heartbeat_age"] <= 2
        (small / "other").unlink()
        now = box.wait()
        assert (now["phase"], now["waits"]) == ("done", "")
        assert len(box.events("attempt")) == 2
        assert not list(box.run_dir.glob("waits*")) and not list(box.run_dir.glob("heartbeat.*"))
        assert (box.run_dir / "final.bin").read_bytes() == undisturbed()
    finally:
        box.kill_everything()
        subprocess.run(["umount", "-l", str(small)], check=True)


@pytest.mark.parametrize("said", ["MemoryError", "Traceback (most recent call last)"])
def test_a_program_that_begins_anew_each_time_is_tried_once_more_alone(box: Box, said):
    """It saves newer checkpoints in each attempt, and comes no further."""
    program = "import os, pathlib, time; p = pathlib.Path(os.environ['RGT_CHECKPOINT_DIR']); p.mkdir(exist_ok=True); [print('step', n, flush=True) for n in range(1, 8)]; (p / f'step-{time.time_ns()}.pt').write_text('x' * 100); print(os.sys.argv[1]); os._exit(1)"
    box.make(
        command=["python3", "-c", program, said],
        results=[],
        checkpoint={"pattern": "step-*.pt"},
        resume="none",
    )
    box.verb("run")
    assert box.status()["phase"] == "failed" and len(box.events("attempt")) == 2


@needs_root
def test_a_full_disk_under_the_run_folder_still_gets_a_marker(box: Box):
    mount_small(box.run_dir, "1m")
    try:
        box.make(
            command=[
                "python3",
                "-c",
                "for n in range(400): print('x' * 9999)\nraise SystemExit(3)",
            ],
            results=[],
        )
        box.popen("run").wait(60)
        assert (box.run_dir / ".failed").exists()
        assert box.status()["phase"] == "failed"
        text = (box.run_dir / ".failed").read_text()
        assert '"class": "disk"' in text or text == ""
        if text:
            now = box.status()
            assert (now["class"], now["entry"], now["exit"]) == (
                "disk",
                "U6",
                box.marker("failed")["exit"],
            ) and "no room left" in now["reason"]
    finally:
        box.kill_everything()
        subprocess.run(["umount", "-l", str(box.run_dir)], check=True)


def test_every_entry_that_the_runner_names_is_in_the_catalogue():
    named = {entry for _, _, entry in failures.ENTRIES}
    headings = "".join(
        path.read_text()
        for folder in ("references", "profiles")
        for path in (ROOT / folder).rglob("*.md")
    )
    known = set(re.findall(r"^### ([A-Z0-9]+) — ", headings, re.MULTILINE))
    assert len(named) > 20 and named <= known, named - known
