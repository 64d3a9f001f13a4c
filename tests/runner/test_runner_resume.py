"""Whatever ends an attempt, the next one goes on where the newest whole checkpoint ended."""

import json
import os
import pickle
import re
import shutil
import signal
import sys
import time
import zipfile
import zlib

import pytest
from remote_gpu_trainer.runner import procs
from remote_gpu_trainer.runs.status import as_text
from remote_gpu_trainer.runs.status_reply import status_from

from tests.runner.box import PROGRAM, TIMINGS, Box, assert_nothing_repeated, undisturbed

pytest_plugins = ["tests.runner.box"]


def final(box: Box) -> bytes:
    return (box.run_dir / "final.bin").read_bytes()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1"])
def test_a_signal_to_the_runner_saves_and_the_next_start_resumes(box: Box, name):
    box.make("--sleep", 0.2)  # it saves every second, and the signal waits up to three for a gap
    box.start()
    box.at_step(7)
    os.kill(box.pid("runner"), getattr(signal, name))
    box.wait("preempted")
    marker = box.marker("preempted")
    assert (marker["class"], marker["exit"], marker["reason"]) == (
        "preempted",
        85,
        f"signal {name[3:]}",
    )
    box.start()
    assert box.wait()["phase"] == "done"
    assert not (box.run_dir / ".preempted").exists()
    assert final(box) == undisturbed()
    assert_nothing_repeated(box)
    assert [s for _, s, _ in box.steps()] == list(range(1, 41))


def test_stop_saves_and_marks_the_run_as_preempted_because_asked(box: Box):
    box.make("--sleep", 0.2)
    box.start()
    box.at_step(5)
    done = box.verb("stop")
    assert done.returncode == 0, done.stderr
    assert box.marker("preempted")["reason"] == "asked"
    box.start("resume")
    assert box.wait()["phase"] == "done"
    assert final(box) == undisturbed()
    assert_nothing_repeated(box)


def test_a_program_killed_from_outside_is_started_again_at_its_checkpoint(box: Box):
    box.make()
    box.start()
    box.at_step(12)
    os.kill(box.pid("train"), signal.SIGKILL)
    now = box.wait()
    assert now["phase"] == "done"
    assert box.events("ended")[0]["class"] == "killed"
    text = f"rgt-dir /r\nrgt-status\n{json.dumps(now)}\n"
    told = as_text(status_from("here", text, False, "", time.time()))
    assert re.search(r"attempt 1 was killed from outside at step \d+", told)
    assert final(box) == undisturbed()
    assert_nothing_repeated(box)


def without_its_volume(box: Box, settle: float, booted_since: bool = True):
    """A run that trained; nothing can be written where its checkpoints are, so they wait in `away`."""
    box.make("--sleep", 0.2, timings={**TIMINGS, "settle": settle, "settle_wait": 0.2}).start()
    box.at_step(5)
    box.verb("stop")
    away = box.checkpoints.rename(box.folder / "away")
    box.checkpoints.write_text("")
    if booted_since:
        os.utime(box.run_dir / "attempt.json", (1, 1))
    return away


def test_after_a_boot_a_run_waits_for_the_volume_that_comes_late(box: Box):
    away = without_its_volume(box, settle=1e9)
    starting = box.popen("start")
    waiting = "this box has just booted; waiting: the checkpoint folder "
    box.until(lambda: box.status()["reason"].startswith(waiting), what="waiting")
    assert box.status()["phase"] == "preflight" and waiting in box.log()
    box.checkpoints.unlink()
    away.rename(box.checkpoints)
    assert starting.wait(60) == 0
    assert (box.wait()["phase"], box.status()["reason"]) == ("done", "")
    assert final(box) == undisturbed()
    assert_nothing_repeated(box)


@pytest.mark.parametrize("settle, booted_since", [(0, True), (1e9, False)])
def test_without_a_boot_or_after_ten_minutes_a_start_is_refused(box: Box, settle, booted_since):
    without_its_volume(box, settle, booted_since)
    assert procs.seconds_up() > 0 and box.verb("start").returncode == 78


def test_after_a_boot_nothing_is_waited_for_that_doesn_t_come(box: Box):
    without_its_volume(box, settle=1e9)
    box.make("--sleep", 0.2, floors={"free_gb": 1e9}, timings={**TIMINGS, "settle": 1e9})
    assert box.verb("start").returncode == 78


def test_a_stop_ends_the_wait_after_a_boot(box: Box):
    without_its_volume(box, settle=1e9)
    starting = box.popen("start")
    box.until(lambda: "just booted" in box.status()["reason"], what="waiting")
    assert box.verb("stop").returncode == 0
    starting.wait(60)
    assert (box.status()["phase"], box.status()["reason"]) == ("preempted", "asked")


def test_after_all_processes_were_killed_a_start_goes_on(box: Box):
    box.make()
    box.start()
    box.at_step(12)
    box.kill_everything()
    now = box.status()
    assert now["alive"] is False and now["supervisor_alive"] is False
    box.start()
    assert box.wait()["phase"] == "done"
    assert final(box) == undisturbed()
    assert_nothing_repeated(box)


def test_a_runner_that_was_killed_alone_gives_its_program_to_the_next_start(box: Box):
    box.make("--sleep", 0.2, timings={"raise_after": 30})
    box.start()
    box.at_step(8)
    program = box.pid("train")
    os.kill(box.pid("runner"), signal.SIGKILL)
    time.sleep(0.3)
    now = box.status()
    assert now["alive"] is True and now["runner_alive"] is False
    told = status_from(
        "here", f"rgt-dir /r\nrgt-status\n{json.dumps(now)}\n", False, "", time.time()
    )
    assert told.state == "stalled" and "its runner is gone" in told.evidence[0]
    box.start()
    assert box.status()["runner_alive"] is True
    assert box.wait()["phase"] == "done"
    box.until(lambda: not os.path.exists(f"/proc/{program}"), timeout=5)  # until it is reaped
    assert final(box) == undisturbed()
    assert [s for _, s, _ in box.steps()] == list(range(1, 41))


def test_a_program_that_ignores_the_save_signal_is_killed_after_its_time(box: Box):
    # It saves nothing meanwhile, which would be waited for.
    box.make("--ignore-term", "--steps", 400, "--every", 1000, checkpoint={"save_seconds": 2})
    box.start()
    box.at_step(6)
    begin = time.monotonic()
    os.kill(box.pid("runner"), signal.SIGTERM)
    box.wait("preempted")
    assert time.monotonic() - begin < 12
    assert box.marker("preempted")["exit"] == 137
    box.until(lambda: len(box.processes()) <= 1, what="only the supervisor may be left")


@pytest.mark.parametrize(
    "how", [("flag", "--resume-from"), ("flag", "--resume-from="), ("variable", "MY_CHECKPOINT")]
)
def test_the_newest_whole_checkpoint_is_named_to_the_program(box: Box, how):
    seen = "import os, sys; print(sys.argv[1:], os.environ.get('MY_CHECKPOINT'), os.environ['RGT_RESUME_FROM'])"
    box.make(
        command=["python3", "-c", seen],
        results=[],
        resume={how[0]: how[1]} if how[1] else how[0],
    )
    box.checkpoints.mkdir()
    for step in (5, 10, 15):
        with zipfile.ZipFile(box.checkpoints / f"step-{step}.pt", "w") as archive:
            archive.writestr("data", b"1" * 1000)
        time.sleep(0.01)
    corrupt = box.checkpoints / "step-15.pt"
    corrupt.write_bytes(corrupt.read_bytes()[:-40])
    assert box.verb("run").returncode == 0
    whole = str(box.checkpoints / "step-10.pt")
    expected = {
        "--resume-from": [["--resume-from", whole], "None"],
        "--resume-from=": [[f"--resume-from={whole}"], "None"],
        "MY_CHECKPOINT": [[], whole],
    }[how[1]]
    assert box.output().decode() == f"{expected[0]} {expected[1]} {whole}\n"
    assert corrupt.exists() and box.events("corrupt-checkpoint")[0]["entry"] == "C2"


def test_a_corrupt_checkpoint_is_put_aside_and_the_one_before_is_used(box: Box):
    box.make("--sleep", 0.2)
    box.start()
    box.at_step(17)
    box.kill_everything()
    corrupt = box.checkpoints / "step-15.pt"
    whole = corrupt.read_bytes()
    corrupt.write_bytes(whole[: len(whole) // 2])
    box.start()
    now = box.wait()
    assert now["phase"] == "done" and now["note"].startswith("step-15.pt is not whole (")
    assert final(box) == undisturbed()
    assert (box.checkpoints / ".corrupt/step-15.pt").read_bytes() == whole[: len(whole) // 2]
    assert box.events("renamed")[0]["to"].endswith(".corrupt/step-15.pt")
    second = next(step for attempt, step, _ in box.steps() if attempt == 2)
    assert second == 11


def test_a_shell_line_gets_signal_and_flag_where_its_program_is(box: Box):
    line = (
        f"cd / && {sys.executable} {PROGRAM} --steps 30 --sleep 0.2 --final {box.run_dir}/final.bin"
    )
    box.make(command=["bash", "-c", line], resume={"flag": "--resume-from"})
    box.start()
    box.at_step(7)
    os.kill(box.pid("runner"), signal.SIGUSR1)
    box.wait("preempted")
    assert box.marker("preempted")["exit"] == 85
    box.start()
    assert box.wait()["phase"] == "done"
    assert final(box) == undisturbed(30)
    assert [s for _, s, _ in box.steps()] == list(range(1, 31))


def test_save_keeps_the_program_going_where_its_signal_is_not_term(box: Box):
    save = "import os,signal,time,zipfile\nd=os.environ['RGT_CHECKPOINT_DIR']\n"
    save += "def f(*_):\n z=zipfile.ZipFile(d+'/step-1.pt','w'); z.writestr('a','b'); z.close()\n"
    save += "signal.signal(signal.SIGUSR1,f); print('ready',flush=True)\nfor _ in range(300): time.sleep(0.1)"
    box.make(command=["python3", "-c", save], results=[], save_signal="USR1")
    assert box.verb("save").returncode == 1
    box.start()
    box.until(lambda: b"ready" in box.output())
    done = box.verb("save")
    assert done.returncode == 0 and "step-1.pt" in done.stdout, done.stderr
    assert box.status()["phase"] == "running" and not (box.run_dir / "save-now").exists()


def test_a_check_that_fails_is_no_reason_to_begin_again(box: Box):
    box.tool("python3", "exit 1")
    box.checkpoints.mkdir()
    (box.checkpoints / "step-10.pt").write_bytes(b"kept")
    box.make(command=["echo"], results=[], resume={"flag": "--from"})
    assert box.verb("run").returncode == 0
    assert box.output().decode() == f"--from {box.checkpoints}/step-10.pt\n"


def test_without_a_check_the_higher_number_is_newer_too(box: Box):
    box.tool("python3", "exit 1")
    box.checkpoints.mkdir()
    for number, name in enumerate(("step-1000.pt", "step-900.pt", "loss-0.9.pt", "loss-0.5.pt")):
        (box.checkpoints / name).write_bytes(b"kept")
        os.utime(box.checkpoints / name, (1e9 + number,) * 2)
    for pattern, newest in (("step-*.pt", "step-1000.pt"), ("loss-*.pt", "loss-0.5.pt")):
        box.make(
            command=["echo"],
            results=[],
            resume={"flag": "--from"},
            checkpoint={"pattern": pattern},
        )
        assert box.verb("resume-run").returncode == 0
        assert box.output().decode().splitlines()[-1] == f"--from {box.checkpoints}/{newest}"


PACKED = """
import os, pickle, sys, zlib
from pathlib import Path
path = os.environ['RGT_RESUME_FROM']
print('Loading checkpoint shards:  50%| | 1/2\\rLoading checkpoint shards: 100%| | 2/2', flush=True)
step = pickle.loads(zlib.decompress(Path(path).read_bytes()))['step'] if path else 0
if 'bug' in sys.argv: raise KeyError('lr')
for step in range(step + 1, step + 4): print(f'step {step}', flush=True)
if 'late' in sys.argv: raise KeyError('lr')
new = Path(os.environ['RGT_CHECKPOINT_DIR'], f'step-{step}.pkl')
new.write_bytes(zlib.compress(pickle.dumps({'step': step})))
"""


def packed(box: Box, *words: str, steps=(10, 20), corrupt: bool = False, **values) -> Box:
    """Compressed pickles, of which the runner can prove nothing."""
    box.checkpoints.mkdir()
    for step in steps:
        path = box.checkpoints / f"step-{step}.pkl"
        path.write_bytes(zlib.compress(pickle.dumps({"step": step, "weights": bytes(1000)})))
    if corrupt:
        path.write_bytes(path.read_bytes()[:-9])
    (box.folder / "packed.py").write_text(PACKED)
    return box.make(
        command=[sys.executable, str(box.folder / "packed.py"), *words],
        results=[],
        checkpoint={"pattern": "step-*.pkl"},
        **values,
    )


@pytest.mark.parametrize("resume", ["automatic", "flag"])
def test_the_first_crash_on_a_checkpoint_that_never_loaded_sets_it_aside(box: Box, resume):
    told = box.folder / "told"
    packed(
        box,
        corrupt=True,
        notify=["bash", "-c", f"cat >>{told}"],
        resume={"flag": "--from"} if resume == "flag" else resume,
    )
    assert box.verb("run").returncode == 0, box.log()
    resumed = [event["resume"] for event in box.events("attempt")]
    assert resumed == [str(box.checkpoints / name) for name in ("step-20.pkl", "step-10.pkl")]
    names = sorted(path.name for path in box.checkpoints.iterdir())
    assert names == [".corrupt", "step-10.pkl", "step-13.pkl"]
    assert (box.checkpoints / ".corrupt/step-20.pkl").exists()
    assert "no attempt has ever loaded it (C2)" in told.read_text()


@pytest.mark.parametrize(
    ("words", "steps", "attempts", "why"),
    [
        (["bug"], (10, 20), 3, "the older one crashes too, so the program is to blame"),
        (["late"], (10, 20), 2, "it loaded, and went on"),
    ],
)
def test_a_checkpoint_that_is_not_to_blame_keeps_its_name(box: Box, words, steps, attempts, why):
    packed(box, *words, steps=steps)
    assert box.verb("run").returncode == 1
    assert box.marker("failed")["class"] == "bug"
    assert len(box.events("attempt")) == attempts, why
    names = sorted(path.name for path in box.checkpoints.iterdir())
    assert names == [f"step-{step}.pkl" for step in steps], why


def test_checkpoints_that_vanish_in_the_first_attempt_are_missed_aloud(box: Box):
    told = box.folder / "told"
    box.make("--steps", 4000, "--sleep", 0.1, notify=["bash", "-c", f"cat >>{told}"])
    box.start()
    box.until(lambda: box.events("first-checkpoint"))
    program = box.pid("train")
    os.kill(program, signal.SIGSTOP)
    shutil.rmtree(box.checkpoints)
    os.kill(program, signal.SIGKILL)
    lost = box.until(lambda: box.events("lost-checkpoints"))
    told_of = [event["event"] for event in box.events()]
    before = told_of[: told_of.index("lost-checkpoints")]
    assert (lost[0]["entry"], before.count("attempt")) == ("C4", 1)
    box.until(lambda: told.exists() and "training starts from nothing" in told.read_text())


ANEW = """
import os, pathlib, sys, time, zipfile
folder, held = pathlib.Path(os.environ["RGT_CHECKPOINT_DIR"]), os.environ["RGT_RESUME_FROM"]
folder.mkdir(exist_ok=True)
second = bool(held)
part = {"nothing": 0, "all": 1, "half": 2}[sys.argv[1]]
step = int(zipfile.ZipFile(held).read("step")) // part if held and part else 0
print("from", held, "step", step, flush=True)
while step < (12 if second and not part else 60):
    step += 1
    print("step", step, flush=True)
    if step % 10 == 0:
        with zipfile.ZipFile(folder / "new", "w") as archive: archive.writestr("step", str(step))
        os.replace(folder / "new", folder / f"step-{step}.pt")
    if step == 43 and not second: os.kill(os.getpid(), 9)
    time.sleep(0.2 if second else 0.02)
"""


LAST = """
import os, pathlib, time, zipfile
folder, step = pathlib.Path(os.environ["RGT_CHECKPOINT_DIR"]), 0
folder.mkdir(exist_ok=True)
while True:
    step += 1
    if step % 10 == 0:
        with zipfile.ZipFile(folder / "step-last.pt", "w") as archive: archive.writestr("step", str(step))
    if step == 33 and not os.environ["RGT_RESUME_FROM"]: os.kill(os.getpid(), 9)
    time.sleep(0.02)
"""


def test_an_attempt_that_saves_over_the_one_it_never_opened_is_told_while_it_trains(box: Box):
    box.make(command=[sys.executable, "-c", LAST], results=[])
    box.start()
    attempt = box.run_dir / "attempt.json"
    box.until(lambda: attempt.exists() and json.loads(attempt.read_text())["attempt"] == 2)
    assert json.loads(attempt.read_text())["anew"], "its copies get a line of their own at once"
    told = "step-last.pt; nothing had opened that"
    now = box.until(lambda: told in (now := box.status())["note"] and now)
    assert now["phase"] == "running"
    box.kill_everything()


@pytest.mark.parametrize("part", ["nothing", "all", "half"])
def test_an_attempt_that_saves_and_opened_no_checkpoint_is_told_and_goes_on(box: Box, part):
    box.make(command=[sys.executable, "-c", ANEW, part], results=[])
    box.start()
    now = box.wait()
    assert now["phase"] == "done"
    is_anew = part == "nothing"
    told = f"attempt 2 was to go on from {box.checkpoints}/step-40.pt; nothing had opened that"
    assert now["note"].startswith(told) is is_anew and bool(now["note"]) is is_anew
    assert (told in box.log()) is is_anew
    assert len(box.events("not-opened")) == int(is_anew)
    assert json.loads((box.run_dir / "attempt.json").read_text())["anew"] is is_anew


def kill_all_but_the_program(box: Box) -> None:
    for pid in (box.pid("runner"), box.pid("supervisor"), *box.shells()):
        os.kill(pid, signal.SIGKILL)


def test_a_program_that_ended_without_its_runner_shows_how_far_it_came(box: Box):
    box.make("--steps", 40, "--sleep", 0.05, timings={"raise_after": 600, "heartbeat": 600})
    box.start()
    box.at_step(12)
    kill_all_but_the_program(box)
    box.until(lambda: not box.status()["alive"])
    now = box.status()
    assert now["phase"] == "running" and now["step"] == 40
    assert now["checkpoint"] == str(box.checkpoints / "step-40.pt")
    assert now["decision"]["resume_from"] == now["checkpoint"]


def test_a_stop_without_a_runner_names_the_newest_checkpoint_and_step(box: Box):
    box.make("--steps", 4000, "--sleep", 0.02, timings={"raise_after": 600, "heartbeat": 600})
    box.start()
    box.at_step(12)
    kill_all_but_the_program(box)
    box.until(lambda: (box.checkpoints / "step-40.pt").exists())
    assert box.verb("stop").returncode == 0
    now = box.status()
    newest = max(box.checkpoints.glob("step-*.pt"), key=lambda path: int(path.stem[5:]))
    assert now["phase"] == "preempted"
    assert now["checkpoint"] == now["decision"]["resume_from"] == str(newest)
    assert now["step"] == int(newest.stem[5:])
