"""`logs`: each byte once, also over a lost connection; folded, masked, by attempt, rank and time."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from remote_gpu_trainer.boxes import box
from remote_gpu_trainer.runner import log
from remote_gpu_trainer.runner.context import Run
from remote_gpu_trainer.runs import log_reader, run_log, run_script
from remote_gpu_trainer.runs.log_text import LogText

from tests.engines.fake_ssh import fake_ssh
from tests.engines.sshd import boxes, sshd  # noqa: F401
from tests.programs import rgt
from tests.runner.clocks import Clock
from tests.runner.jobs import job_of

TOKEN = "hf_abcdefghijklmnopqrstuvwx"


def run_with_log(home: Path, *files: bytes, attempts: tuple[tuple[int, int], ...] = ((1, 0),)):
    """A run whose log has these files, and whose attempts (number, first file) have begun."""
    folder = home / "runs" / "toy"
    (folder / "log").mkdir(parents=True)
    (folder / "run.sh").write_text("exit 64\n")
    (folder / "state.json").write_text("{}")
    for number, data in enumerate(files):
        (folder / "log" / f"train.log.{number:04d}").write_bytes(data)
    rows = [
        {"t": 1, "event": "attempt", "attempt": str(n), "resume": f"ckpt{n}", "log": str(first)}
        for n, first in attempts
    ]
    (folder / "events.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def live(folder: Path, pid: int | None = None) -> None:
    """Let the run be alive as long as a process is, by default this one."""
    pid = pid or os.getpid()
    start = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    (folder / "attempt.json").write_text(json.dumps({"pid": pid, "start": int(start)}))


def read(name: str, **wanted) -> tuple[bytes, list]:
    """The bytes of a box's log, and whatever else was told."""
    pieces = list(run_log.read(box.parse(name), "", run_log.Wanted(**wanted), sleep=lambda _: None))
    told = [piece for piece in pieces if not isinstance(piece, bytes)]
    return b"".join(piece for piece in pieces if isinstance(piece, bytes)), told


@pytest.fixture
def there(tmp_path, monkeypatch):
    """The home of the box `gpu`."""
    home = fake_ssh(tmp_path, monkeypatch) / "gpu"
    home.mkdir()
    return home


@pytest.mark.parametrize(
    ("cuts", "lost"), [((50_001,), 1), ((80_000,), 1), ((60_000, 1), 1), ((60_000, 400), 2)]
)
def test_each_byte_comes_once_over_a_connection_that_breaks_anywhere(there, cuts, lost):
    files = [b"".join(b"%d line %d\n" % (n, i) for i in range(4000)) for n in range(2)]
    run_with_log(there, *files)
    cut, left = there.parent / "gpu.cut", list(cuts)
    cut.write_text(str(left.pop(0)))
    found = []
    for piece in run_log.read(box.parse("gpu"), "", run_log.Wanted(), sleep=lambda _: None):
        found.append(piece)
        if isinstance(piece, run_log.Lost) and left:
            cut.write_text(str(left.pop(0)))
    assert b"".join(piece for piece in found if isinstance(piece, bytes)) == b"".join(files)
    assert sum(isinstance(piece, run_log.Lost) for piece in found) == lost, "once an outage"
    assert sum(isinstance(piece, run_log.Begun) for piece in found) == 1


def test_an_attempt_is_the_files_from_its_first_to_the_next_ones(there):
    run_with_log(there, b"a\n", b"b\n", b"c\n", b"d\n", attempts=((1, 0), (2, 1), (3, 3)))
    assert read("gpu", attempt=2)[0] == b"b\nc\n"
    assert read("gpu", attempt=3)[0] == b"d\n"
    data, told = read("gpu")
    begun = [(one.number, one.resume) for one in told if isinstance(one, run_log.Attempt)]
    assert data == b"a\nb\nc\nd\n" and begun == [(1, "ckpt1"), (2, "ckpt2"), (3, "ckpt3")]
    (there / "runs" / "toy" / "log" / "train.log.0000").write_bytes(b"a bar 10%|")
    assert rgt("logs", "gpu").stdout == "a bar 10%|\nb\nc\nd\n", "an attempt begins a line"
    with pytest.raises(run_log.NoLog, match="no attempt 4; its attempts are 1 to 3"):
        read("gpu", attempt=4)


def test_since_begins_at_the_line_that_came_then(tmp_path):
    made = Run(job_of({"rendered": {"run_dir": str(tmp_path / "runs" / "toy")}}), clock=Clock())
    made.folder.make()
    made.clock.time = time.time() - 600
    writer = log.Writer(made, 0)
    for minute in range(11):
        writer.write(b"".join(b"minute %d line %d\n" % (minute, n) for n in range(3))[:-4])
        writer.write(b"end\n")
        made.clock.nap(60)
    writer.close()
    found = log_reader.place_of_time(made.folder.path, time.time() - 299, 0)
    text = Path(log.path(made, 0)).read_bytes()
    assert text[found[1] :].startswith(b"minute 5 line 0\n")
    later = log_reader.place_of_time(made.folder.path, time.time() + 60, 0)
    assert text[later[1] :] == b"", "nothing came since"
    # A row may point into a line: half a secret looks like any word.
    made.folder.write(log.TIMES, f"{int(time.time()) - 400} 0 {found[1] + 9}\n")
    assert log_reader.place_of_time(made.folder.path, time.time() - 299, 0) == found


def test_the_times_of_a_long_log_stay_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "MOST_TIMES", 1000)
    made = Run(job_of({"rendered": {"run_dir": str(tmp_path)}}), clock=Clock())
    made.folder.make()
    writer = log.Writer(made, 0)
    for _ in range(200):
        writer.write(b"x\n")
        made.clock.nap(60)
    rows = made.folder.read(log.TIMES).splitlines()
    assert sum(map(len, rows)) < 1100 and len(rows) > 20
    assert rows == sorted(rows) and rows[-1].endswith(" 398")


def test_following_begins_at_the_last_lines_and_ends_with_the_run(there):
    folder = run_with_log(there, b"".join(b"%d\n" % n for n in range(1000)))
    with subprocess.Popen(["sleep", "600"]) as program:
        live(folder, program.pid)
        pieces = run_log.read(box.parse("gpu"), "", run_log.Wanted(follow=True, last=3))
        data, more = b"", b""
        for piece in pieces:
            data += piece if isinstance(piece, bytes) else b""
            if data.endswith(b"999\n") and not more:
                more = b"more\n"
                with (folder / "log" / "train.log.0001").open("ab") as file:
                    file.write(more)
            if more and data.endswith(more):
                program.kill()
                program.wait()
    assert data == b"997\n998\n999\nmore\n"
    assert piece == run_log.Ended("ended")


def test_the_reader_on_the_box_ends_with_whoever_reads(there):
    folder = run_with_log(there, b"line\n")
    live(folder)
    pieces = run_log.read(box.parse("gpu"), "", run_log.Wanted(follow=True))
    assert isinstance(next(pieces), run_log.Begun)
    pieces.close()
    reader = subprocess.Popen(
        [
            sys.executable,
            "-c",
            run_script.program("runs.log_reader"),
            run_log._as_json(run_log.Wanted(follow=True)),
            str(folder),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    time.sleep(0.5)
    assert reader.poll() is None
    reader.stdin.close()
    assert reader.wait(5) == 0


def test_bars_are_folded_and_secrets_and_controls_taken_out():
    whole = (
        f"token: {TOKEN}\r\n"
        "\r 10%|# | 1/10\r 20%|## | 2/10\x1b[K\r\n"
        "\x1b[31mred\x1b[0m a\x07b\u202ec\x9b\n"
        "-----BEGIN RSA PRIVATE KEY-----\n" + "QUJD" * 16 + "\nopen\n"
        "ssh://me:hunter2@host\n"
        "\r 30%|"
    ).encode()
    for size in (1, 7, 1000):
        text, lines = LogText(), []
        for at in range(0, len(whole), size):
            lines += text.feed(whole[at : at + size])
        assert lines[0].startswith("token: ") and TOKEN not in "".join(lines)
        assert lines[1:3] == [" 20%|## | 2/10", "red abc"]
        assert lines[3:6] == ["-----BEGIN RSA PRIVATE KEY-----", "***", "open"]
        assert "hunter2" not in lines[6] and len(lines) == 7
        assert text.bar == " 30%|" and text.rest() == [" 30%|"] and text.rest() == []


def test_a_bar_without_a_line_end_takes_no_memory():
    text = LogText()
    for n in range(20_000):
        assert text.feed(b"\r%d%%|########## | some words of a bar that goes on" % n) == []
    assert text.bar.startswith("19999%|") and len(text._left) < 200


def test_only_the_lines_of_a_rank():
    text = LogText(rank=3)
    lines = text.feed(b"[rank3]: a\n[default4]: b\n2026-11-29 10:00:00 rank 3: c\nplain\n")
    assert lines == ["[rank3]: a", "2026-11-29 10:00:00 rank 3: c"] and text.ranked == 3


def test_ctrl_c_leaves_the_run_and_says_so(there):
    folder = run_with_log(there, b"one\n")
    live(folder)
    words = [sys.executable, "-m", "remote_gpu_trainer", "logs", "gpu", "-f"]
    following = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert following.stdout.readline() == "one\n"
    following.send_signal(signal.SIGINT)
    out, errors = following.communicate(timeout=20)
    assert (following.returncode, out) == (130, "")
    assert errors.splitlines()[-1].startswith("gpu: the run goes on; ")
    assert len(errors.splitlines()) == 2, errors  # that, and where the attempt began


def test_a_queue_is_followed_by_its_cells(there):
    folder = run_with_log(there)
    for name in ("a", "b"):
        (folder / "cells" / name / "log").mkdir(parents=True)
        (folder / "cells" / name / "log" / "train.log.0000").write_text(f"of {name}\n")
    with pytest.raises(run_log.NoLog, match="several logs; name one with --run: .*cells/a"):
        read("gpu")
    assert rgt("logs", "gpu", "--run", "runs/toy/cells/b").stdout == "of b\n"


def test_what_is_not_there_is_said_in_one_line(there):
    assert rgt("logs", "gpu").stderr.startswith("error: no run under ~/runs on gpu; start one")
    assert "Connection refused" in (done := rgt("logs", "gone")).stderr and done.returncode == 2
    assert rgt("ssh", "gpu", "--run", "no; touch x").returncode == 1
    assert not list(there.rglob("x"))


def test_a_real_connection_that_is_cut_goes_on_where_it_was(sshd):
    folder = run_with_log(sshd.home, b"first\n")
    live(folder)
    lost, data = 0, b""
    pieces = run_log.read(box.parse("gpu"), "", run_log.Wanted(follow=True))
    for piece in pieces:
        if isinstance(piece, run_log.Lost):
            lost += 1
            with (folder / "log" / "train.log.0000").open("ab") as file:
                file.write(b"third\n")
            sshd.start()
        elif isinstance(piece, bytes) and piece:
            data += piece
            if data.endswith(b"first\n"):
                with (folder / "log" / "train.log.0000").open("ab") as file:
                    file.write(b"second\n")
            elif data.endswith(b"second\n"):
                sshd.cut()
            elif data.endswith(b"third\n"):
                (folder / "attempt.json").write_text("{}")
    assert (data, lost) == (b"first\nsecond\nthird\n", 1)
    (folder / "code").mkdir()
    done = rgt("ssh", "gpu", input="pwd; exit 7\n")
    assert done.returncode == 7 and str(folder) in done.stdout
    assert f"in {folder}; the program runs in code/" in done.stdout + done.stderr
