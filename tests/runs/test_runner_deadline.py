"""The deadline is kept by a process that outlives everything else, and the meter stops within a minute of it."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from remote_gpu_trainer.runs.status_reply import status_from

from tests.runs.runner_box import Box, undisturbed

pytest_plugins = ["tests.runs.runner_box"]


def stop_command(box: Box, code: int = 0) -> dict:
    """A fake of the provider's stop: it writes down when it was called, and whether it had its key."""
    return {
        "RGT_AT_END": "stop",
        "RGT_SELF_STOP": f'echo "$(date +%s) $BOX_KEY" >> {box.folder}/stopped; exit {code}',
        "RGT_SELF_STOP_NEEDS": "BOX_KEY",
    }


def alarm(box: Box) -> dict:
    return {
        "RGT_NOTIFY": [
            "bash",
            "-c",
            f'cat >> {box.folder}/alarms; echo "+ $RGT_MESSAGE" >> {box.folder}/alarms',
        ],
        "RGT_NOTIFY_EVERY": 2,
    }


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def soon(seconds: int) -> dict:
    """A deadline so near. A busy machine takes seconds to start a run: leave ten before the save is asked for."""
    return {"RGT_DEADLINE": f"at:{int(time.time()) + seconds}"}


def test_a_program_that_ignores_term_is_ended_and_the_box_stopped(box: Box):
    box.env["BOX_KEY"] = "the-key"
    box.make("--ignore-term", "--steps", 4000, RGT_SAVE_SECONDS=3, **soon(13), **stop_command(box))
    box.start()
    end = int((box.run_dir / "deadline").read_text())
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
    box.make("--steps", 4000, RGT_SAVE_SECONDS=3, **soon(13), **stop_command(box))
    box.start()
    box.at_step(3)
    os.kill(box.pid("runner"), how)
    box.until(lambda: lines(box.folder / "stopped"), timeout=30)
    end = int((box.run_dir / "deadline").read_text())
    assert end <= int(lines(box.folder / "stopped")[0].split()[0]) <= end + 15
    assert b"leaving" in box.output(), "the keeper asks for the save itself"
    assert box.marker("preempted")["class"] == "deadline"
    box.until(
        lambda: not [p for p in box.processes() if p != box.pid("keeper")],
        timeout=10,
        what="all but the keeper end",
    )


@pytest.mark.parametrize("ignores", [False, True], ids=["saves", "ignores the signal"])
def test_the_program_ends_when_runner_and_keeper_are_both_killed(box: Box, ignores):
    more = ["--ignore-term"] if ignores else []
    box.make("--steps", 4000, *more, RGT_SAVE_SECONDS=3, **soon(10))
    box.start()
    box.at_step(3)
    for name in ("runner", "keeper"):
        os.kill(box.pid(name), signal.SIGKILL)
    now = box.status()
    assert (now["alive"], now["keeper_alive"], now["backstop"]) == (True, False, "timeout")
    told = status_from(
        "here", f"rgt-dir /r\nrgt-status\n{json.dumps(now)}\n", False, "", time.time()
    )
    assert "only timeout ends the program" in " ".join(told.evidence)
    end = int((box.run_dir / "deadline").read_text())
    box.until(lambda: not box.processes(), timeout=60)
    assert end <= time.time() <= end + 20 + 3 + 10
    assert (b"leaving" in box.output()) != ignores


def test_a_clock_that_jumps_over_the_save_takes_nothing_from_it(box: Box):
    """Two hours forwards, beyond the deadline: the box's clock as the runner reads it, the program's own seconds as they are."""
    slow = "import os, signal, sys, time\ndef save(*_):\n time.sleep(3)\n print('saved', flush=True); os._exit(85)\n"
    slow += "signal.signal(signal.SIGTERM, save)\nprint('ready', flush=True)\nwhile True: time.sleep(0.1)"
    box.make(RGT_COMMAND=["python3", "-c", slow], RGT_EXPECT=[], RGT_SAVE_SECONDS=8)
    jumps = f"rgt_now() {{ printf -v rgt_t '%(%s)T' -1; [[ ! -e {box.folder}/jump ]] || rgt_t=$((rgt_t + 7200)); }}\n"
    text = box.script.read_text()
    box.script.write_text(text.replace('\nrgt_main "$@"', "\n" + jumps + 'rgt_main "$@"'))
    box.start()
    box.until(lambda: b"ready" in box.output())
    begin = time.monotonic()
    (box.folder / "jump").touch()
    box.until(lambda: (box.run_dir / ".preempted").exists(), timeout=40)
    assert box.output().endswith(b"saved\n"), "it was killed at once"
    assert time.monotonic() - begin < 20
    assert (box.marker("preempted")["class"], box.marker("preempted")["exit"]) == ("deadline", 85)


def test_a_program_that_never_ends_has_its_save_seconds_after_a_jump_and_no_more(box: Box):
    box.make("--ignore-term", "--steps", 4000, RGT_SAVE_SECONDS=4)
    jumps = f"rgt_now() {{ printf -v rgt_t '%(%s)T' -1; [[ ! -e {box.folder}/jump ]] || rgt_t=$((rgt_t + 7200)); }}\n"
    text = box.script.read_text()
    box.script.write_text(text.replace('\nrgt_main "$@"', "\n" + jumps + 'rgt_main "$@"'))
    box.start()
    box.at_step(3)
    (box.folder / "jump").touch()
    begin = time.monotonic()
    box.until(lambda: (box.run_dir / ".preempted").exists(), timeout=40)
    assert 3 <= time.monotonic() - begin < 20


def test_a_copy_that_hangs_does_not_hold_the_meter_open(box: Box):
    tools = box.folder / "bin"
    tools.mkdir()
    (tools / "rsync").write_text("#!/bin/sh\ntrap '' TERM\nsleep 1000\n")
    (tools / "rsync").chmod(0o755)
    box.env |= {"BOX_KEY": "k", "PATH": f"{tools}:{box.env['PATH']}"}
    box.make(
        "--steps",
        4000,
        RGT_SAVE_SECONDS=2,
        RGT_DURABLE=str(box.folder / "durable"),
        RGT_SYNC=[str(box.checkpoints)],
        RGT_SYNC_MINUTES="0.02",
        **soon(12),
        **stop_command(box),
    )
    box.start()
    box.until(lambda: lines(box.folder / "stopped"), timeout=70)
    end = int((box.run_dir / "deadline").read_text())
    assert end <= int(lines(box.folder / "stopped")[0].split()[0]) <= end + 60


def test_without_a_credential_the_alarm_is_sent_and_repeated(box: Box):
    box.env.pop("BOX_KEY", None)
    box.make("--steps", 4000, RGT_SAVE_SECONDS=1, **soon(10), **stop_command(box), **alarm(box))
    box.start()
    said = box.until(
        lambda: len(lines(box.folder / "alarms")) >= 4 and lines(box.folder / "alarms"), timeout=30
    )
    assert "the deadline has passed" in said[0] and "BOX_KEY is missing" in said[0]
    assert said[1] == "+ " + said[0]
    assert not (box.folder / "stopped").exists()


def test_a_stop_that_fails_is_told_and_tried_again(box: Box):
    box.env["BOX_KEY"] = "the-key"
    box.make(
        "--steps", 4000, RGT_SAVE_SECONDS=1, **soon(10), **stop_command(box, code=7), **alarm(box)
    )
    box.start()
    box.until(lambda: len(lines(box.folder / "stopped")) >= 2, timeout=30)
    said = box.until(lambda: lines(box.folder / "alarms"))
    assert "exit status 7" in said[0]
    assert "the-key" not in "".join(
        path.read_text(errors="replace") for path in box.run_dir.rglob("*") if path.is_file()
    )


def test_a_box_that_is_still_there_after_its_stop_is_told(box: Box):
    box.env["BOX_KEY"] = "k"
    box.make(
        "--steps",
        4000,
        RGT_SAVE_SECONDS=1,
        RGT_STILL_HERE=2,
        **soon(10),
        **stop_command(box),
        **alarm(box),
    )
    box.start()
    said = box.until(lambda: lines(box.folder / "alarms"), timeout=30)
    assert "still on" in said[0]


def test_after_a_verified_copy_the_box_is_stopped_long_before_the_deadline(box: Box):
    box.env["BOX_KEY"] = "k"
    box.make(
        "--sleep",
        0,
        RGT_DURABLE=str(box.folder / "durable"),
        RGT_SYNC=[str(box.checkpoints)],
        **stop_command(box),
    )
    box.start()
    box.until(lambda: lines(box.folder / "stopped"), timeout=30)
    assert box.marker("done")["exit"] == 0
    assert (box.folder / "durable/ckpt/step-40.pt").read_bytes() == (
        box.checkpoints / "step-40.pt"
    ).read_bytes()


def test_without_a_verified_copy_the_box_stays_and_says_so_and_stops_at_the_deadline(box: Box):
    (box.folder / "durable").mkdir()
    (box.folder / "durable/ckpt").write_text("a file where a folder must come")
    box.env["BOX_KEY"] = "k"
    box.make(
        "--sleep",
        0,
        RGT_DURABLE=str(box.folder / "durable"),
        RGT_SYNC=[str(box.checkpoints)],
        RGT_SYNC_TRIES=1,
        RGT_SAVE_SECONDS=2,
        **soon(24),
        **stop_command(box),
        **alarm(box),
    )
    box.start()
    box.wait("unsaved", timeout=30)
    said = box.until(
        lambda: [line for line in lines(box.folder / "alarms") if "stays on" in line],
        timeout=10,
    )
    assert "not verified" in said[0] and not (box.folder / "stopped").exists()
    box.until(lambda: lines(box.folder / "stopped"), timeout=70)
    end = int((box.run_dir / "deadline").read_text())
    assert end <= int(lines(box.folder / "stopped")[0].split()[0]) <= end + 60


def test_the_deadline_is_written_once_and_a_run_past_it_does_not_start(box: Box):
    box.make("--sleep", 0, RGT_DEADLINE="hours:1.5")
    begin = int(time.time())
    box.start()
    box.wait()
    first = (box.run_dir / "deadline").read_text()
    assert begin + 5400 <= int(first) <= begin + 5420
    time.sleep(1.1)
    box.start("resume")
    box.wait()
    assert (box.run_dir / "deadline").read_text() == first
    box.make("--sleep", 0, RGT_DEADLINE=f"at:{int(time.time()) - 5}")
    again = box.verb("resume")
    assert again.returncode == 78 and "the deadline of toy passed" in box.log()


def test_a_deadline_has_any_number_of_decimals_and_a_bad_one_is_told(box: Box):
    box.make("--sleep", 0, RGT_DEADLINE="hours:0.8333333333333334")
    begin = int(time.time())
    box.start()
    assert begin + 2998 <= int((box.run_dir / "deadline").read_text()) <= begin + 3020
    box.wait()
    box.make("--sleep", 0, RGT_DEADLINE="hours:ten")
    done = box.verb("resume")
    assert (
        done.returncode == 78
        and done.stderr == "RGT_DEADLINE is 'hours:ten'; use hours:N or at:EPOCH\n"
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


def test_a_keeper_that_was_stopped_is_replaced(box: Box):
    box.make("--ignore-term", "--steps", 4000, RGT_SAVE_SECONDS=1, **soon(12), **stop_command(box))
    box.env["BOX_KEY"] = "k"
    box.start()
    os.kill(box.pid("keeper"), signal.SIGSTOP)
    box.until(lambda: lines(box.folder / "stopped"), timeout=30)
    assert (
        int(lines(box.folder / "stopped")[0].split()[0])
        <= int((box.run_dir / "deadline").read_text()) + 15
    )


def test_the_box_is_stopped_when_the_runner_is_dead_and_the_keeper_hangs_or_is_dead_too(
    box: Box, tmp_path
):
    (tmp_path / "other").mkdir()
    boxes = {signal.SIGSTOP: box, signal.SIGKILL: Box(tmp_path / "other")}
    try:
        for how, one in boxes.items():
            one.env["BOX_KEY"] = "k"
            one.make("--steps", 4000, RGT_SAVE_SECONDS=1, **soon(10), **stop_command(one))
            one.start()
            os.kill(one.pid("runner"), signal.SIGKILL)
            os.kill(one.pid("keeper"), how)
        for one in boxes.values():
            box.until(lambda: lines(one.folder / "stopped"), timeout=80)  # noqa: B023
            end = int((one.run_dir / "deadline").read_text())
            assert int(lines(one.folder / "stopped")[0].split()[0]) <= end + 60
    finally:
        boxes[signal.SIGKILL].close()


def test_a_stop_command_that_leaves_something_behind_holds_up_no_alarm(box: Box):
    box.make(
        "--steps",
        4000,
        RGT_SAVE_SECONDS=1,
        RGT_AT_END="stop",
        RGT_SELF_STOP="sleep 300 & echo not now; exit 7",
        **soon(10),
        **alarm(box),
    )
    box.start()
    said = box.until(
        lambda: len(lines(box.folder / "alarms")) >= 4 and lines(box.folder / "alarms"), timeout=30
    )
    assert "exit status 7: not now" in said[0]


@pytest.mark.parametrize(
    "content",
    [None, "", "a[$(touch PWNED)]\n", "99999999999\n"],
    ids=["missing", "empty", "hostile", "later"],
)
def test_a_damaged_deadline_file_changes_no_deadline(box: Box, content):
    box.env["BOX_KEY"] = "k"
    box.make("--steps", 4000, RGT_SAVE_SECONDS=1, **soon(18), **stop_command(box))
    box.start()
    box.at_step(2)
    path, end = box.run_dir / "deadline", int((box.run_dir / "deadline").read_text())
    path.unlink() if content is None else path.write_text(
        content.replace("PWNED", f"{box.folder}/pwned")
    )
    os.kill(box.pid("keeper"), signal.SIGKILL)
    assert box.status()["alive"]
    box.until(lambda: lines(box.folder / "stopped"), timeout=40)
    assert end <= int(lines(box.folder / "stopped")[0].split()[0]) <= end + 15
    assert not (box.folder / "pwned").exists()


def test_the_keeper_copies_from_where_the_image_began(box: Box):
    image = box.folder / "image"
    image.mkdir()
    box.make(
        "--ignore-term",
        "--steps",
        4000,
        RGT_WORK_DIR=".",
        RGT_CHECKPOINT_DIR="ck",
        RGT_DURABLE=str(box.folder / "durable"),
        RGT_SYNC=["ck"],
        RGT_SAVE_SECONDS=1,
        **soon(12),
    )
    box.popen("run", cwd=image)
    box.until(lambda: list(box.folder.glob("durable/ck/step-*.pt")), timeout=30)
    assert (image / "ck").is_dir() and box.events("deadline")
