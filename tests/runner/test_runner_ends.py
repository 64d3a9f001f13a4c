"""A run ends as it says: done and safe, cut short, worthless or refused, in its code, its state, its notice and its status."""

import json
import os
import signal
import sys
import time

import pytest
from remote_gpu_trainer.runs.status import as_text
from remote_gpu_trainer.runs.status_reply import status_from

from tests.runner.box import Box, undisturbed
from tests.runner.copying import kept

pytest_plugins = ["tests.runner.box"]

# Saves at TERM and ends with 0, as many trainers do. argv: its number of steps, seconds for each; "tells" names the signal.
POLITE = """
import os, pathlib, signal, sys, time
steps, seconds = int(sys.argv[1]), float(sys.argv[2])
folder = pathlib.Path(os.environ['RGT_CHECKPOINT_DIR'])
step = max((int(path.stem[5:]) for path in folder.glob('step-*.txt')), default=0)
def save(*_):
    (folder / f'step-{step}.txt').write_text('saved')
    if 'tells' in sys.argv: print('received SIGTERM, saved', flush=True)
    os._exit(0)
signal.signal(signal.SIGTERM, save)
while step < steps:
    step += 1
    print('step', step, flush=True)
    time.sleep(seconds)
(folder / f'step-{step}.txt').write_text('saved')
if 'result' in sys.argv: pathlib.Path(os.environ['RGT_RUN_DIR'], 'final.txt').write_text('the end')
"""


def polite(box: Box, *words: str, steps: int = 60, **values) -> None:
    box.checkpoints.mkdir()
    command = [sys.executable, "-c", POLITE, str(steps), "0.05", *words]
    fields = {"results": [], "checkpoint": {"pattern": "step-*.txt"}}
    box.make(command=command, **fields | values)


def alarms(box: Box) -> dict:
    return {"notify": ["bash", "-c", f"cat >>{box.folder}/alarms"]}


def told(box: Box) -> list[str]:
    path = box.folder / "alarms"
    return path.read_text().splitlines() if path.exists() else []


def seen(box: Box):
    """What `rgt status` makes of the run."""
    reply = f"rgt-dir /r\nrgt-status\n{json.dumps(box.status())}\n"
    return status_from("here", reply, False, "", time.time())


def without_its_place(box: Box, **more) -> None:
    """A run whose durable place can't be written to."""
    (box.folder / "durable").mkdir()
    (box.folder / "durable/ckpt.generations").write_text("in the way")
    values = {"durable": {"to": str(box.folder / "durable"), "what": [str(box.checkpoints)]}}
    box.make("--sleep", 0, **values | {} | alarms(box) | more)


def test_a_run_whose_last_copy_failed_ends_unsaved_and_says_so_first(box: Box):
    without_its_place(box, timings={"sync_wait": 20})
    assert box.verb("run").returncode == 74
    last, end = box.events("sync-failed")[-1]["t"], box.events("unsaved")[0]["t"]
    assert end - last < 15, "it slept after the last try"
    assert not (box.run_dir / ".done").exists()
    marker = box.marker("unsaved")
    assert (marker["class"], marker["exit"]) == ("unsaved", 0)
    assert "is not verified" in marker["reason"]
    # The copy's first failure is told at once, the end when it is certain: by a process each.
    said = box.until(lambda: len(told(box)) > 1 and told(box))
    copy, unsaved = sorted(text.partition(": ")[2] for text in said)
    assert copy.startswith("the copy to ") and unsaved.startswith("unsaved: the last copy to ")
    assert box.status()["phase"] == "unsaved"
    status = seen(box)
    assert status.code == 1 and as_text(status).startswith("unsaved: ")
    assert "on that box only" in status.evidence[0]


def test_an_unsaved_run_needs_only_its_copy(box: Box):
    without_its_place(box)
    assert box.verb("run").returncode == 74
    assert box.verb("run").returncode == 74, "the place is still in the way"
    (box.folder / "durable/ckpt.generations").unlink()
    assert box.verb("run").returncode == 0
    assert len(box.events("attempt")) == 1, "it trained again"
    assert box.marker("done")["class"] == "" and box.status()["phase"] == "done"
    assert not (box.run_dir / ".unsaved").exists()
    assert kept(box.folder, "step-40.pt").exists()


def test_a_copy_by_hand_makes_an_unsaved_run_done(box: Box):
    without_its_place(box)
    box.verb("run")
    (box.folder / "durable/ckpt.generations").unlink()
    assert box.verb("sync").returncode == 0
    marker = box.marker("done")
    assert (marker["exit"], marker["class"], marker["step"]) == (0, "", 40)
    assert (box.run_dir / "own/final-sync").exists() and box.status()["phase"] == "done"


def test_a_failed_run_keeps_its_cause_in_front_and_says_that_its_copy_is_missing(box: Box):
    program = f"mkdir -p {box.checkpoints}; touch {box.checkpoints}/a; exit 3"
    without_its_place(box, command=["bash", "-c", program], retries={"unknown": 0})
    (box.folder / "durable/ckpt").write_text("in the way of what is no checkpoint")
    assert box.verb("run").returncode == 3
    marker = box.marker("failed")
    assert marker["class"] == "unknown" and marker["reason"].startswith("exit status 3")
    assert "the last copy to" in marker["reason"]


def test_a_program_that_was_told_to_leave_from_outside_gets_one_more_try(box: Box):
    polite(box, "result", results=[str(box.run_dir / "final.txt")])
    box.start()
    box.until(lambda: b"step 7\n" in box.output())
    os.kill(box.pid("train"), signal.SIGTERM)
    assert box.wait()["phase"] == "done"
    first = box.events("ended")[0]
    assert (first["class"], first["exit"]) == ("killed", "0") and "cut short" in first["reason"]
    assert (box.run_dir / "final.txt").exists() and len(box.events("attempt")) == 2


def test_an_end_before_the_final_step_is_no_success(box: Box):
    polite(box, final_step=60)
    box.start()
    box.until(lambda: b"step 7\n" in box.output())
    os.kill(box.pid("train"), signal.SIGTERM)
    assert box.wait()["phase"] == "done" and box.status()["step"] == 60
    assert len(box.events("attempt")) == 2
    assert " of 60" in box.events("ended")[0]["reason"]


def test_a_program_that_names_the_signal_is_no_success_either(box: Box):
    polite(box, "tells")
    box.start()
    box.until(lambda: b"step 7\n" in box.output())
    os.kill(box.pid("train"), signal.SIGTERM)
    assert box.wait()["phase"] == "done" and box.status()["step"] == 60


def test_an_end_below_the_final_step_without_a_newer_checkpoint_is_a_bug(box: Box):
    box.make(command=["echo", "step 3"], results=[], final_step=60)
    assert box.verb("run").returncode == 1
    marker = box.marker("failed")
    assert marker["class"] == "bug" and "step 3 of 60" in marker["reason"]
    assert len(box.events("attempt")) == 1
    told = json.dumps(box.status())
    found = status_from("gpu", f"rgt-dir /r\nrgt-status\n{told}\n", False, "", time.time())
    lines = [line for line in found.evidence if line.startswith(("decision", "bug"))]
    assert lines == [
        "decision: fix_first: it ended with 0, but without all that the job expects",
        "bug: the runner doesn't retry a program that ended with 0: it saw no error itself",
    ]


def killed_after_a_save(box: Box, attempt: int) -> None:
    """Kill the program in this attempt, once it has saved a newer checkpoint."""
    box.until(
        lambda: [row for row in box.steps() if row[0] == attempt and row[1] > row[2] > 10 * attempt]
    )
    os.kill(box.pid("train"), signal.SIGKILL)


def test_a_newer_checkpoint_gives_back_the_tries(box: Box):
    box.make("--steps", 100)
    box.start()
    for kill in range(1, 7):
        killed_after_a_save(box, kill)
    assert box.wait(timeout=90)["phase"] == "done"
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed(100)


def test_tries_have_an_end_within_an_hour_whatever_is_gained(box: Box):
    box.make("--steps", 1000, "--sleep", 0.01, timings={"tries_an_hour": 3})
    box.start()
    for kill in range(1, 5):
        killed_after_a_save(box, kill)
    assert box.wait()["phase"] == "failed"
    assert "3 tries within an hour" in box.marker("failed")["reason"]


@pytest.mark.parametrize(
    ("how", "code", "class_"),
    [("signal", 75, "preempted"), ("stop", 77, "preempted"), ("deadline", 76, "deadline")],
)
def test_a_run_that_was_ended_is_no_success_to_the_shell(box: Box, how, code, class_):
    polite(
        box,
        steps=4000,
        # A start so near to it that a save no longer fits begins nothing.
        checkpoint={"pattern": "step-*.txt", "save_seconds": 3},
        spec={"deadline": f"at:{int(time.time()) + 25}" if how == "deadline" else "hours:1"},
    )
    run = box.popen("run")
    box.until(lambda: b"step 3\n" in box.output())
    if how == "signal":
        os.kill(box.pid("runner"), signal.SIGTERM)
    elif how == "stop":
        assert box.verb("stop").returncode == 0
    assert run.wait(60) == code
    marker = box.marker("preempted")
    assert (marker["class"], marker["exit"]) == (class_, 0), "the program itself ended with 0"


STUBBORN = """\
import os, pathlib, signal, sys, time
at = pathlib.Path(os.environ['RGT_CHECKPOINT_DIR'])
at.mkdir(exist_ok=True)
def save(name):
    (at / name).write_bytes(b'x' * 9)
if sys.argv[1] != 'never':
    save('step-1.pt')
signal.signal(15, lambda *_: save('step-7.pt') if sys.argv[1] == 'asked' else None)
print('step 1', flush=True)
while True:
    time.sleep(0.1)
"""


@pytest.mark.parametrize(("saves", "said", "platform"), [
    ("once", "; it didn't save when asked: it falls back to step-1.pt, 0 steps lost", "generic-ssh"),
    ("never", "; it didn't save when asked, and no complete checkpoint is here", "local"),
    ("asked", ", and had saved {at}/step-7.pt since", "local"),
])  # fmt: skip
def test_a_program_that_was_killed_is_not_said_to_have_stopped(box: Box, saves, said, platform):
    """And a box that nobody rents out isn't said to be billed."""
    checkpoint = {"save_seconds": 3, "pattern": "*"}
    words = [sys.executable, "-c", STUBBORN, saves]
    box.make(command=words, results=[], checkpoint=checkpoint, platform=platform, target="ssh")
    box.start()
    box.until(lambda: box.status()["step"] == 1)
    done = box.verb("stop")
    billed = "; the box stays on, and billed if you rent it" if platform == "generic-ssh" else ""
    said = said.format(at=box.checkpoints)
    assert done.returncode == 0
    assert done.stdout == f"toy was killed 3 s after TERM asked it to end{said}{billed}\n"
    assert box.status()["billed"] == bool(billed)


def test_a_run_that_is_refused_has_a_code_of_its_own(box: Box):
    box.make(spec={"rendered": {"work_dir": "/no/such/folder"}})
    assert box.verb("run").returncode == 78
    box.make(spec={"deadline": f"at:{int(time.time()) - 9}"})
    assert box.verb("run").returncode == 78


LOSSES = """
import time
for n in range({n}):
    print('step', n, 'loss', {loss}, flush=True)
    time.sleep({sleep})
"""


def losing(
    box: Box,
    loss: str = "'nan' if n > 3 else 1 / (n + 1)",
    n: int = 12,
    sleep: float = 0.02,
    **values,
) -> None:
    program = LOSSES.format(n=n, loss=loss, sleep=sleep)
    box.make(command=[sys.executable, "-c", program], results=[], **alarms(box) | values)


def test_a_loss_of_nan_stands_in_notice_and_state(box: Box):
    losing(box)
    assert box.verb("run").returncode == 0
    assert "the loss is nan" in box.marker("done")["reason"]
    assert "the loss is nan" in box.status()["reason"]
    said = box.until(lambda: len(told(box)) >= 2 and told(box))
    assert all("the loss is nan" in line for line in said)


def test_a_loss_of_nan_ends_the_run_where_the_job_says_so(box: Box):
    losing(box, n=2000, sleep=0.05, spec={"on_nan": "stop"})
    assert box.verb("run", timeout=60).returncode == 137
    marker = box.marker("failed")
    assert marker["class"] == "nan" and "the loss is nan" in marker["reason"]
    assert len(box.events("attempt")) == 1 and not box.events("save-now"), "it saved nan"


@pytest.mark.parametrize(
    "loss", ["'nan' if n == 5 else 1.0", "'2.5, loss_scale: nan, nanmean 3'", "n"]
)
def test_a_single_bad_batch_or_another_number_is_no_loss_of_nan(box: Box, loss):
    losing(box, loss)
    assert box.verb("run").returncode == 0
    assert box.marker("done")["reason"] == ""


def test_a_refused_rehearsal_prints_the_last_lines(box: Box):
    says = "import sys; [print('line', n) for n in range(50)]; sys.exit('no such data set: squid')"
    box.make(command=["python3", "-c", says], results=[])
    done = box.verb("rehearse")
    assert done.returncode == 1
    assert "no such data set: squid" in done.stdout and "line 45" in done.stdout
    assert "line 10\n" not in done.stdout
