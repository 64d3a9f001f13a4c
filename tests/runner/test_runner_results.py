"""What counts as the end of a run: results that this run wrote, not what a save, a rehearsal or an earlier run left there."""

import os
import sys
import time
import zipfile
from pathlib import Path

import pytest

from tests.runner.box import Box

pytest_plugins = ["tests.runner.box"]

# argv: how it answers TERM ("leaves", "saves NAME" or "goes on"), the result, seconds of work. A first result is there from the start.
PROGRAM = """
import os, signal, sys, time, pathlib
how, result, seconds = sys.argv[1], pathlib.Path(sys.argv[2]), float(sys.argv[3])
def term(*_):
    if how.startswith('saves'):
        pathlib.Path(how[6:]).write_text('saved')
    if how != 'goes on':
        os._exit(0)
signal.signal(signal.SIGTERM, term)
pathlib.Path(os.environ['RGT_CHECKPOINT_DIR'], 'best.pt').write_text('early')
print('ready', flush=True)
end = time.monotonic() + seconds
while time.monotonic() < end: time.sleep(0.05)
result.write_text('the end')
"""


def stopped(box: Box, how: str, seconds: float, expect: list[str]) -> str:
    box.checkpoints.mkdir()
    box.make(
        command=[
            sys.executable,
            "-c",
            PROGRAM,
            how,
            str(box.folder / "final.txt"),
            str(seconds),
        ],
        results=expect,
        checkpoint={"pattern": "*.pt"},
    )
    box.start()
    box.until(lambda: b"ready" in box.output())
    box.verb("stop")
    return box.wait()["phase"]


def test_a_stop_is_no_end_although_an_early_result_is_there(box: Box):
    assert stopped(box, "leaves", 60, [str(box.checkpoints / "best.pt")]) == "preempted"
    assert "already done" not in box.verb("start").stdout


def test_a_save_that_writes_a_result_among_the_checkpoints_is_no_end(box: Box):
    last = str(box.checkpoints / "last.pt")
    assert stopped(box, f"saves {last}", 60, [last]) == "preempted"


def test_a_program_that_writes_its_result_after_the_request_has_ended(box: Box):
    assert (
        stopped(
            box, "goes on", 3, [str(box.checkpoints / "best.pt"), str(box.folder / "final.txt")]
        )
        == "done"
    )


def test_a_result_from_before_the_run_is_none_of_its_own(box: Box):
    final = box.folder / "final.txt"
    final.write_text("of an earlier run")
    box.make(command=["true"], results=[str(final)])
    assert box.verb("run").returncode == 1
    marker = box.marker("failed")
    assert (
        marker["class"] == "bug"
        and "from before this run and was not written again (touch it if it is the result)"
        in marker["reason"]
    )
    assert box.status()["expect_missing"] == [str(final)]
    final.touch()
    assert box.verb("run").returncode == 0


def test_a_result_that_is_written_again_with_the_same_size_counts(box: Box):
    final = box.folder / "final.txt"
    final.write_text("the end")
    box.make(
        command=[sys.executable, "-c", PROGRAM, "leaves", str(final), "0"],
        results=[str(final)],
    )
    box.checkpoints.mkdir()
    assert box.verb("run").returncode == 0


def test_a_result_of_an_earlier_attempt_still_counts(box: Box):
    final = box.folder / "final.txt"
    line = f"[[ -e {final} ]] && exit 0; echo x >{final}; kill -KILL $$"
    box.make(command=["bash", "-c", line], results=[str(final)])
    assert box.verb("run").returncode == 0 and len(box.events("attempt")) == 2
    assert box.verb("resume").returncode == 0 and box.wait()["phase"] == "done"


@pytest.mark.parametrize("later", [True, False], ids=["later", "earlier"])
def test_on_another_box_a_result_later_than_the_checkpoint_came_along_with_it(box: Box, later):
    box.checkpoints.mkdir()
    final, checkpoint = box.folder / "final.txt", box.checkpoints / "step-40.pt"
    final.write_text("the end")
    with zipfile.ZipFile(checkpoint, "w") as archive:
        archive.writestr("data", b"1")
    os.utime(checkpoint, (time.time() - (100 if later else -100),) * 2)
    box.make(command=["true"], results=[str(final)])
    assert box.verb("run").returncode == (0 if later else 1)


def test_what_a_rehearsal_writes_is_not_the_run_s_result(box: Box):
    final = box.folder / "final.bin"
    box.make(
        "--sleep",
        0.03,
        "--final",
        final,
        results=[str(final)],
        rehearsal={"arguments": ["--steps", "9", "--every", "5"]},
    )
    done = box.verb("rehearse")
    assert done.returncode == 0 and "ok evaluate" in done.stdout, done.stdout
    assert not final.exists() and (box.run_dir / "rehearsal/results/final.bin").exists()
    box.make(command=["true"], results=[str(final)])
    assert box.verb("run").returncode == 1 and box.marker("failed")["class"] == "bug"


def test_a_rehearsal_leaves_a_result_that_was_there_before(box: Box):
    final = box.folder / "final.bin"
    final.write_bytes(b"of the real run")
    box.make(
        "--sleep",
        0.03,
        "--fail-at",
        7,
        "--final",
        final,
        results=[str(final)],
        rehearsal={"arguments": ["--steps", "9", "--every", "5"]},
    )
    assert box.verb("rehearse").returncode == 1
    assert (
        final.read_bytes() == b"of the real run"
        and not Path(box.run_dir / "rehearsal/results").exists()
    )


def test_an_end_with_0_behind_a_traceback_is_done_and_says_how_it_ended(box: Box):
    last = "ValueError: the last batch is empty"
    line = f"printf 'step 1\\nTraceback (most recent call last):\\n  File \"a\"\\n{last}\\n'; true"
    box.make(command=["bash", "-c", line], results=[], notify=["bash", "-c", "cat >>told"])
    assert box.verb("run").returncode == 0
    assert last in box.status()["reason"] and last in box.marker("done")["reason"]
    assert last in box.events("done")[0]["reason"]


def test_half_a_checkpoint_as_a_named_result_is_not_done(box: Box):
    half = "import zipfile as z; a = z.ZipFile('r.pt', 'w'); a.writestr('d', bytes(9999)); a.close(); b = open('r.pt', 'r+b'); b.truncate(5000)"
    box.make(command=["python3", "-c", half], results=[str(box.run_dir / "r.pt")])
    assert box.verb("run").returncode != 0
    assert f"a result is broken: {box.run_dir}/r.pt" in box.status()["reason"]
