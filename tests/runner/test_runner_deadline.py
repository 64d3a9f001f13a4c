"""The deadline is kept by a process that outlives everything else, and the meter stops within a minute of it."""

import datetime
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import clock, content
from remote_gpu_trainer.runs.status_reply import status_from

from tests.runner.box import Box, undisturbed
from tests.runner.copying import HERE, kept, kept_steps

pytest_plugins = ["tests.runner.box"]


def stop_command(box: Box, code: int = 0) -> dict:
    """A fake of the provider's stop: it writes down when it was called, and whether it had its key."""
    command = f'echo "$(date +%s) $BOX_KEY" >> {box.folder}/stopped; exit {code}'
    return {
        "at_end": {
            "do": "run",
            "command": command,
            "keeps_disk": True,
            "credential": {"variable": "BOX_KEY"},
        }
    }


def alarm(box: Box, **timings) -> dict:
    return {
        "notify": [
            "bash",
            "-c",
            f'cat >> {box.folder}/alarms; echo "+ $RGT_MESSAGE" >> {box.folder}/alarms',
        ],
        "timings": {"notify_every": 2, **timings},
    }


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def alarms(box: Box) -> list[str]:
    """The messages that came behind the one that tells of the end by the deadline."""
    said = lines(box.folder / "alarms")
    assert not said or "ended by its deadline at step" in said[0]
    return said[2:]


def soon(seconds: int) -> dict:
    """A deadline so near. A busy machine takes seconds to start a run: leave ten before the save is asked for."""
    at = datetime.datetime.fromtimestamp(int(time.time()) + seconds, datetime.timezone.utc)
    return {"deadline": at.isoformat()}


def test_a_program_that_ignores_term_is_ended_and_the_box_stopped(box: Box):
    box.env["BOX_KEY"] = "the-key"
    box.make(
        "--ignore-term",
        "--steps",
        4000,
        "--every",
        100,  # one that saves without a pause is never between two saves, and gets no signal
        checkpoint={"save_seconds": 3},
        **soon(18),
        **stop_command(box),
    )
    box.start()
    end = box.deadline()
    box.until(lambda: lines(box.folder / "stopped"), timeout=30)
    called, key = lines(box.folder / "stopped")[0].split()
    assert end <= int(called) <= end + 10 and key == "the-key"
    marker = box.marker("preempted")
    assert (marker["class"], marker["reason"]) == ("deadline", "deadline")
    assert (
        not (box.run_dir / "final.bin").exists()
        and box.events("save-now")[0]["reason"] == "deadline"
    )


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL], ids=["stopped", "killed"])
def test_the_deadline_holds_when_the_runner_is(box: Box, how):
    box.env["BOX_KEY"] = "the-key"
    box.make("--steps", 4000, checkpoint={"save_seconds": 3}, **soon(18), **stop_command(box))
    box.start()
    box.at_step(3)
    os.kill(box.pid("runner"), how)
    box.until(lambda: lines(box.folder / "stopped"), timeout=30)
    end = box.deadline()
    # A program that saves and leaves within the window ends its box there.
    assert end - 6 <= int(lines(box.folder / "stopped")[0].split()[0]) <= end + 15
    assert b"leaving" in box.output(), "the supervisor asks for the save itself"
    assert box.marker("preempted")["class"] == "deadline"
    box.until(
        lambda: not {*box.processes()} - {box.pid("supervisor"), *box.shells()},
        timeout=10,
        what="all but supervisor and third hand end",
    )


@pytest.mark.parametrize("ignores", [False, True], ids=["saves", "ignores the signal"])
def test_the_program_ends_when_runner_and_supervisor_are_both_killed(box: Box, ignores):
    more = ["--ignore-term"] if ignores else []
    more += ["--every", 4000]  # so that the only save is that of the signal
    box.make("--steps", 4000, *more, checkpoint={"save_seconds": 3}, **soon(17))
    box.start()
    box.at_step(3)
    (box.folder / "no-python").write_text("exit 1\n")
    os.replace(box.folder / "no-python", box.run_dir / "run.sh")  # nobody can raise them
    for name in ("supervisor", "runner"):
        os.kill(box.pid(name), signal.SIGKILL)
    now = box.status()
    assert (now["alive"], now["supervisor_alive"], now["backstop"]) == (True, False, "deadman")
    told = status_from(
        "here", f"rgt-dir /r\nrgt-status\n{json.dumps(now)}\n", False, "", time.time()
    )
    assert "only deadman ends the program" in " ".join(told.evidence)
    end = box.deadline()
    box.until(lambda: not box.processes(), timeout=70)
    assert end <= time.time() <= end + 20 + 3 + 15
    assert bool([*box.checkpoints.glob("step-*.pt")]) != ignores


SAVES_SLOWLY = """
import os, signal, time
def save(*_):
    time.sleep(3)
    print("saved", flush=True)
    os._exit(85)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True: time.sleep(0.1)
"""


def jumping(box: Box):
    """Let the clock of the run's own processes jump two hours, beyond the deadline, once a file is there."""
    real, jump = "return time.time()\n", box.folder / "jump"
    text = Path(clock.__file__).read_text()
    assert text.count(f"        {real}") == 1
    now = f"import os; return time.time() + 7200 * os.path.exists({str(jump)!r})\n"
    box.change("clock.py", text.replace(f"        {real}", f"        {now}"))
    return jump


def test_a_clock_that_jumps_over_the_save_takes_nothing_from_it(box: Box):
    box.make(command=["python3", "-c", SAVES_SLOWLY], results=[], checkpoint={"save_seconds": 8})
    jump = jumping(box)
    box.start()
    box.until(lambda: b"ready" in box.output())
    begin = time.monotonic()
    jump.touch()
    box.until(lambda: (box.run_dir / ".preempted").exists(), timeout=40)
    assert box.output().endswith(b"saved\n"), "it was killed at once"
    assert time.monotonic() - begin < 20
    assert (box.marker("preempted")["class"], box.marker("preempted")["exit"]) == ("deadline", 85)


def test_a_program_that_never_ends_has_its_save_seconds_after_a_jump_and_no_more(box: Box):
    box.make("--ignore-term", "--steps", 4000, checkpoint={"save_seconds": 4})
    jump = jumping(box)
    box.start()
    box.at_step(3)
    begin = time.monotonic()
    jump.touch()
    box.until(lambda: (box.run_dir / ".preempted").exists(), timeout=40)
    assert 3 <= time.monotonic() - begin < 20
    assert box.marker("preempted")["class"] == "deadline"


def test_a_copy_that_hangs_does_not_hold_the_meter_open(box: Box):
    tools = box.folder / "bin"
    tools.mkdir()
    hangs = f"if [ -e {box.folder}/hangs ]; then trap '' TERM; sleep 1000; fi"
    (tools / "ssh").write_text(f"#!/bin/sh\n{hangs}\n{HERE}")
    (tools / "ssh").chmod(0o755)
    box.env |= {"BOX_KEY": "k", "PATH": f"{tools}:{box.env['PATH']}"}
    end = stop_command(box)
    end["at_end"]["when"] = ["deadline", "unsaved"]
    box.make(
        "--steps",
        4000,
        checkpoint={"save_seconds": 2},
        durable={
            "to": f"gpu:{box.folder}/durable",
            "what": [str(box.checkpoints)],
            "every_minutes": 0.02,
        },
        **soon(17),
        **end,
    )
    box.start()
    box.at_step(3)
    (box.folder / "hangs").touch()
    box.until(lambda: lines(box.folder / "stopped"), timeout=70)
    end = box.deadline()
    assert end <= int(lines(box.folder / "stopped")[0].split()[0]) <= end + 60


def test_without_a_credential_the_alarm_is_sent_and_repeated(box: Box):
    box.env.pop("BOX_KEY", None)
    box.make(
        "--steps",
        4000,
        checkpoint={"save_seconds": 1},
        **soon(15),
        **stop_command(box),
        **alarm(box),
    )
    box.start()
    said = box.until(lambda: len(alarms(box)) >= 4 and alarms(box), timeout=30)
    assert "the deadline ended the run" in said[0] and "BOX_KEY is missing" in said[0]
    assert said[1] == "+ " + said[0]
    assert not (box.folder / "stopped").exists()


def test_a_stop_that_fails_is_told_and_tried_again(box: Box):
    box.env["BOX_KEY"] = "the-key"
    box.make(
        "--steps",
        4000,
        checkpoint={"save_seconds": 1},
        **soon(15),
        **stop_command(box, code=7),
        **alarm(box),
    )
    box.start()
    box.until(lambda: len(lines(box.folder / "stopped")) >= 2, timeout=30)
    said = box.until(lambda: alarms(box))
    assert "exit status 7" in said[0]
    assert "the-key" not in "".join(
        path.read_text(errors="replace") for path in box.run_dir.rglob("*") if path.is_file()
    )


def test_a_box_that_is_still_there_after_its_stop_is_told(box: Box):
    box.env["BOX_KEY"] = "k"
    box.make(
        "--steps",
        4000,
        checkpoint={"save_seconds": 1},
        **soon(15),
        **stop_command(box),
        **alarm(box, end_wait=2),
    )
    box.start()
    said = box.until(lambda: alarms(box), timeout=30)
    assert "still on" in said[0]


def test_after_a_verified_copy_the_box_is_stopped_long_before_the_deadline(box: Box):
    box.env["BOX_KEY"] = "k"
    box.make(
        "--sleep",
        0,
        durable={"to": str(box.folder / "durable"), "what": [str(box.checkpoints)]},
        **stop_command(box),
    )
    box.start()
    box.until(lambda: lines(box.folder / "stopped"), timeout=30)
    assert box.marker("done")["exit"] == 0
    there = kept(box.folder, "step-40.pt")
    assert there.read_bytes() == (box.checkpoints / "step-40.pt").read_bytes()


@pytest.mark.parametrize("named", [False, True], ids=["by default", "unsaved is named"])
def test_without_a_verified_copy_the_box_stays_and_says_so(box: Box, named):
    (box.folder / "durable").mkdir()
    (box.folder / "durable/ckpt.generations").write_text("a file where a folder must come")
    box.env["BOX_KEY"] = "k"
    end = stop_command(box)
    end["at_end"]["when"] = ["done", "deadline", *(["unsaved"] if named else [])]
    box.make(
        "--sleep",
        0,
        durable={"to": str(box.folder / "durable"), "what": [str(box.checkpoints)]},
        checkpoint={"save_seconds": 2},
        **soon(24),
        **end,
        **alarm(box),
    )
    box.start()
    box.wait("unsaved", timeout=30)
    said = box.until(
        lambda: [line for line in lines(box.folder / "alarms") if "stays on" in line],
        timeout=10,
    )
    assert "nothing proves" in said[0] and not (box.folder / "stopped").exists()
    at = box.deadline()
    if named:
        box.until(lambda: lines(box.folder / "stopped"), timeout=70)
        assert at <= int(lines(box.folder / "stopped")[0].split()[0]) <= at + 60
    else:
        time.sleep(max(at + 6 - time.time(), 0))
        assert not (box.folder / "stopped").exists()


@pytest.mark.parametrize(("steps", "marker"), [(3, "unsaved"), (0, "failed")])
def test_a_box_stays_where_a_trained_program_was_never_seen_to_save(box: Box, steps, marker):
    """It saves to a folder of its own; one that fails before its first step leaves nothing."""
    text = f"""
import pathlib, sys
pathlib.Path({str(box.folder)!r}, "own").mkdir()
for step in range(1, {steps} + 1):
    print("step", step, flush=True)
    pathlib.Path({str(box.folder)!r}, f"own/step-{{step}}.pt").write_bytes(b"w" * 100)
sys.exit({int(not steps)})
"""
    box.env["BOX_KEY"] = "k"
    box.make(
        command=[sys.executable, "-c", text],
        results=[],
        durable={"to": str(box.folder / "durable"), "what": [str(box.checkpoints)]},
        **stop_command(box),
        **alarm(box),
    )
    box.start()
    box.wait(marker, timeout=60)
    if marker == "failed":
        box.until(lambda: lines(box.folder / "stopped"), timeout=60)
        return
    said = box.until(
        lambda: [line for line in lines(box.folder / "alarms") if "stays on" in line], timeout=60
    )
    assert f"no complete checkpoint was ever seen in {box.checkpoints}" in said[0]
    assert box.status()["last_sync"]["verified"] is False
    assert "was ever seen in" in box.status()["box"] and not (box.folder / "stopped").exists()


def test_the_deadline_is_written_once_and_a_run_past_it_does_not_start(box: Box):
    box.make("--sleep", 0, spec={"deadline": "hours:1.5"})
    begin = int(time.time())
    box.start()
    box.wait()
    first = (box.run_dir / "deadline").read_text()
    assert begin + 5400 <= box.deadline() <= begin + 5420
    time.sleep(1.1)
    box.start("resume")
    box.wait()
    assert (box.run_dir / "deadline").read_text() == first
    box.make("--sleep", 0, spec={"deadline": f"at:{int(time.time()) - 5}"})
    again = box.verb("resume")
    assert again.returncode == 78 and "toy: its deadline ran out" in box.log()


def test_a_budget_that_is_spent_ends_run_and_box_as_the_deadline_does(box: Box):
    box.env["BOX_KEY"] = "k"
    spent = {"deadline": "20h", "budget": "5 USD", "price": "1000 USD", **alarm(box)}  # 18 s
    box.make("--steps", 4000, checkpoint={"save_seconds": 3}, **spent, **stop_command(box))
    box.start()
    box.until(lambda: lines(box.folder / "stopped"), timeout=60)
    assert box.marker("preempted")["class"] == "deadline"
    assert "ended by its budget of 5 USD at step" in lines(box.folder / "alarms")[0]


def test_a_deadline_has_any_number_of_decimals_and_a_bad_one_is_told(box: Box):
    box.make("--sleep", 0, spec={"deadline": "hours:0.8333333333333334"})
    begin = int(time.time())
    box.start()
    assert begin + 2998 <= box.deadline() <= begin + 3020
    box.wait()
    box.make("--sleep", 0, spec={"deadline": "hours:ten"})
    done = box.verb("resume")
    assert (
        done.returncode == 78
        and done.stderr == "the deadline is 'hours:ten'; use hours:N or at:EPOCH\n"
    )
    assert box.verb("resume-run").returncode == 2


def test_a_run_that_ends_before_its_deadline_leaves_no_process_on_a_box_that_is_not_rented(
    box: Box,
):
    box.make("--sleep", 0)
    box.start()
    assert box.wait()["phase"] == "done"
    box.until(lambda: not box.processes(), timeout=10)
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed()


def test_the_box_is_stopped_when_runner_and_supervisor_are_dead(box: Box):
    box.env["BOX_KEY"] = "k"
    box.make("--steps", 4000, checkpoint={"save_seconds": 1}, **soon(15), **stop_command(box))
    box.start()
    for name in ("runner", "supervisor"):
        os.kill(box.pid(name), signal.SIGKILL)
    box.until(lambda: lines(box.folder / "stopped"), timeout=80)
    end = box.deadline()
    assert int(lines(box.folder / "stopped")[0].split()[0]) <= end + 60


def test_a_stop_command_that_leaves_something_behind_holds_up_no_alarm(box: Box):
    box.make(
        "--steps",
        4000,
        checkpoint={"save_seconds": 1},
        at_end={"do": "run", "keeps_disk": True, "command": "sleep 300 & echo not now; exit 7"},
        **soon(15),
        **alarm(box),
    )
    box.start()
    said = box.until(lambda: len(alarms(box)) >= 4 and alarms(box), timeout=30)
    assert "exit status 7: not now" in said[0]


@pytest.mark.parametrize(
    "content",
    [None, "", "a[$(touch PWNED)]\n", "99999999999\n"],
    ids=["missing", "empty", "hostile", "later"],
)
def test_a_damaged_deadline_file_changes_no_deadline(box: Box, content):
    box.env["BOX_KEY"] = "k"
    box.make("--steps", 4000, checkpoint={"save_seconds": 1}, **soon(18), **stop_command(box))
    box.start()
    box.at_step(2)
    path, end = box.run_dir / "deadline", box.deadline()
    path.unlink() if content is None else path.write_text(
        content.replace("PWNED", f"{box.folder}/pwned")
    )
    os.kill(box.pid("supervisor"), signal.SIGKILL)
    assert box.status()["alive"]
    box.until(lambda: lines(box.folder / "stopped"), timeout=40)
    assert end <= int(lines(box.folder / "stopped")[0].split()[0]) <= end + 15
    assert not (box.folder / "pwned").exists()


def test_the_supervisor_copies_from_where_the_image_began(box: Box):
    image = box.folder / "image"
    image.mkdir()
    box.make(
        "--ignore-term",
        "--steps",
        4000,
        checkpoint={"folder": "ck", "save_seconds": 1},
        durable={"to": str(box.folder / "durable"), "what": ["ck"]},
        spec={"rendered": {"work_dir": "."}},
        **soon(17),
    )
    box.popen("run", cwd=image)
    box.at_step(12)
    os.kill(box.pid("runner"), signal.SIGSTOP)
    box.until(lambda: box.events("deadline"), timeout=40)
    newest = max(content.step_of(str(path)) or 0 for path in (image / "ck").glob("step-*.pt"))
    box.until(lambda: newest in kept_steps(box.folder, "durable/ck.generations"), timeout=30)
