"""Files of ours on the user's machine that are damaged: told, and nobody is stopped or started by them."""

import json
import os
import shutil
from pathlib import Path

import pytest
from remote_gpu_trainer.boxes.box import Box
from remote_gpu_trainer.fit.measured import Measured
from remote_gpu_trainer.platforms import provider
from remote_gpu_trainer.runs import (
    guard_files,
    known_jobs,
    ledger,
    local_files,
    measured_runs,
    overview,
    purse,
)
from remote_gpu_trainer.text.money import Money

from .test_guard import HOUR, World, asked_to_stop, run
from .test_guard import world as world  # the fixture

DAMAGE = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[:-7],
    "another type": lambda data: b"[7]\n",
    "not UTF-8": lambda data: data.replace(b'"', b'"\xff', 1),
    "a directory": None,
    "no permission": None,
}
KEPT = (
    "guard/confirmed.json",
    "guard/last.json",
    "guard/journal.jsonl",
    "guard/ledger.json",
    "guard/drills/*.json",
)
LISTED = ("ledger.jsonl", "jobs/*.json")
LACKS = {  # each with a key that is missing
    "guard/confirmed.json": b'{"gpu:22": {"address": "gpu:22"}}',
    "ledger.jsonl": b'{"t": 1, "event": "opened"}\n',
    "guard/journal.jsonl": b'{"t": 1, "step": "stop"}\n',
}


def spoil(file, how, name):
    """Damage a file; return what gives it back."""
    data = file.read_bytes()
    if how == "no permission":
        file.chmod(0)
    elif how == "a directory":
        file.unlink()
        file.mkdir()
    else:
        file.write_bytes(LACKS.get(name, b"{}") if how == "a key is missing" else DAMAGE[how](data))

    def mend():
        if file.is_dir():
            shutil.rmtree(file)
        file.unlink(missing_ok=True)
        file.write_bytes(data)

    return mend


@pytest.mark.parametrize("name", [*KEPT, *LISTED])
def test_a_damaged_file_is_told_and_stops_nothing(world: World, name):
    asked_to_stop(world, 40)
    purse.set_limit(Money(40, "USD"))
    [file] = ledger.place().parent.glob(name)
    for how in (*DAMAGE, "a key is missing"):
        if how == "no permission" and (os.name != "posix" or os.geteuid() == 0):
            continue
        if how == "empty" and name.endswith("journal.jsonl"):
            continue  # a journal without a line is one of a guard that never asked for anything
        mend = spoil(file, how, name)
        looked = [run("guard", "--once"), run("guard", "status")]
        looked += [run("sweep", "aws"), run("purse")] if name in LISTED else []
        told = "".join(done.output + str(done.exception or "") for done in looked)
        assert all(done.exception is None for done in looked[:3]), (how, told)
        assert looked[0].return_value == 2 and looked[1].return_value == 2, (how, told)
        word = "can't be read" if how == "no permission" else "damaged"
        assert word in looked[0].output and str(file.parent) in told, (how, told)
        assert "may still be billed" in looked[0].output, (how, told)
        assert "files whole" in guard_files.read().last.blocked["gpu"] if file.is_file() else True
        if name in LISTED and how != "empty":
            assert looked[2].return_value == 2
        if name == "ledger.jsonl" and how != "empty":
            assert isinstance(looked[3].exception, purse.OverPurse)
        mend()
    assert not world.stops


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"job": 7}', '{"job": {"durable": "x"}, "rendered": []}', "\xff", None]
)
def test_a_run_whose_sent_job_is_damaged_counts_as_unproven(world, monkeypatch, text):
    monkeypatch.setattr(provider, "kept", lambda act, box: ["/elsewhere"])
    [file] = (world.place / "gpu/runs/toy/run.d").glob("*/job.json")
    file.unlink()
    if text is None:
        file.mkdir()
    else:
        file.write_bytes(text.encode("latin-1"))
    told = world.round()
    assert not world.stops and told.code == 1
    assert "nowhere else: toy" in told.blocked["gpu"]
    assert any("gpu is 7.0 h past its end, and may still be billed" in x for x in told.lines)


def test_a_job_here_that_is_no_job_is_told_and_its_box_is_left_alone(world):
    [file] = (ledger.place().parent / "jobs").glob("*.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "given": {"command": 7}}))
    told = world.round()
    assert told.code == 2 and not world.stops
    assert "the job of toy on gpu, as it is kept here, can't be read" in told.lines[0]
    assert "gpu may still be billed" in told.lines[0]


@pytest.mark.parametrize(
    "change", [{"survived": {"stop": []}}, {"survived": {}}, {"survived": None}]
)
def test_a_receipt_by_which_nothing_survived_proves_nothing(world, change):
    [file] = guard_files.place("drills").glob("*.json")
    told = {**json.loads(file.read_text()), **change}
    file.write_text(json.dumps({name: value for name, value in told.items() if value is not None}))
    assert world.round().code == 2 and not world.stops
    assert guard_files.read().receipts == [] and str(file) in guard_files.read().damage[0]


def test_a_box_whose_line_was_deleted_is_told_and_counts_as_uncounted_until_it_is_forgotten(world):
    world.job("lost", "toy", world.now - 8 * HOUR, deadline="1h")
    purse.set_limit(Money(40, "USD"))
    told = world.round()
    assert told.code == 2 and not world.stops
    assert "it doesn't have lost:22" in told.lines[0]
    assert any("lost:22 is 7.0 h past its end" in line for line in told.lines)
    assert "lost:22" in run("purse").output
    assert run("release", "lost:22", "--forget").return_value == 0
    world.awake()
    assert "lost" not in str(world.round().lines) and "lost:22" not in run("purse").output


def test_a_ledger_that_begins_within_a_line_is_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(ledger, "MOST_BYTES", 150)
    for number in range(9):
        ledger.opened(f"box{number}:22", "b", now=1)
    assert ledger.damage() is None and 0 < len(ledger.still_open()) < 9


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such owners, bits or pipes")
@pytest.mark.parametrize("name", [*KEPT, *LISTED])
@pytest.mark.parametrize("how", ["others write", "others own", "a pipe"])
def test_a_file_that_others_may_have_written_stops_nothing(world, name, how):
    asked_to_stop(world, 40)
    [file] = ledger.place().parent.glob(name)
    if how == "others own" and os.geteuid() != 0:
        pytest.skip("only root gives files away")
    if how == "a pipe":
        file.unlink()
        os.mkfifo(file)
    elif how == "others own":
        os.chown(file, 12345, 12345)
    else:
        file.chmod(0o666)
    told = world.round()
    assert told.code == 2 and not world.stops
    said = {
        "others write": f"others can write {file}; look at what it holds, then run chmod go-w {file}",
        "others own": f"another user owns {file}; look at what it holds, then run sudo chown ",
        "a pipe": f"{file} is damaged (",
    }[how]
    assert any(line.startswith(said) for line in told.lines), told.lines
    assert how == "a pipe" or not any("damaged" in line for line in told.lines[:-1]), told.lines
    assert how == "a pipe" or "--forget" not in str(told.lines)  # the box is on that list
    assert any("may still be billed" in line or "may be billed" in line for line in told.lines)


FOLDERS = ("../..", "..", "", "guard", "guard/drills", "jobs")


@pytest.fixture
def state(tmp_path, monkeypatch):
    """The state folder with each folder of ours, below one whose owner can be changed."""
    made = tmp_path / "way/to/remote-gpu-trainer"
    monkeypatch.setenv("XDG_STATE_HOME", str(made.parent))
    for name in FOLDERS:
        local_files.make_folder(made / name)
    return made


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such owners and bits")
@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("how", [0o775, 0o757, 0o1777, "others own"])
def test_a_folder_on_the_way_that_others_can_change_is_told_with_what_to_type(state, name, how):
    folder = (state / name).resolve()
    assert guard_files.read().damage == []
    if how == "others own":
        if os.geteuid() != 0:
            pytest.skip("only root gives folders away")
        os.chown(folder, 12345, 12345)
        command = f"sudo chown {os.geteuid()}"
    else:
        folder.chmod(how)
        command = "chmod go-w"
    told = guard_files.read().damage
    if how == 0o1777 and name.startswith(".."):  # as in /tmp: nobody can take our folder away
        assert told == []
    else:
        [line] = told
        assert line.endswith(f"; look at what it holds, then run {command} {folder}")


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such owners and bits")
def test_a_folder_that_leads_elsewhere_counts_where_it_is_and_where_it_leads(state, tmp_path):
    drills, other = state / "guard/drills", tmp_path / "other/drills"
    other.parent.mkdir(mode=0o700)
    drills.rename(other)
    drills.symlink_to(other)
    for folder in (drills.parent, other, other.parent):
        folder.chmod(0o777)
        assert str(folder) in guard_files.read().damage[0]
        folder.chmod(0o700)
    assert guard_files.read().damage == []


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such bits")
def test_while_others_can_take_the_newest_drill_away_nothing_is_stopped(world):
    folders = [guard_files.place("."), guard_files.place("drills")]
    for folder in folders:
        folder.chmod(0o777)
    world.drill(days=0.1, passed=False)
    max(guard_files.place("drills").iterdir()).unlink()
    told = world.round()
    assert told.code == 2 and not world.stops
    assert "files whole: a file that the guard needs" in told.blocked["gpu"]
    [line] = [line for line in told.lines if "chmod" in line]
    assert line.endswith(f"run chmod go-w {folders[0]} {folders[1]}")
    assert line in run("guard", "status").output
    assert line in run("guard", "confirm", "gpu", "--provider", "aws", "--yes").output
    for folder in folders:
        folder.chmod(0o755)
    world.awake()
    world.round()
    assert len(world.stops) == 1


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such bits")
@pytest.mark.parametrize(
    "write",
    [
        lambda: ledger.opened("gpu:22", "gpu"),
        lambda: purse.set_limit(Money(40, "USD")),
        lambda: known_jobs.remember(Box("local"), "~/runs/toy", "aws", {}),
        lambda: guard_files.note_drill(
            guard_files.Receipt("aws", "", "", "", 1.0, False, {}),
        ),
        lambda: run("guard", "--pause"),
        lambda: overview._write_seen({}, {}),
        lambda: measured_runs.add(Measured("m", "", 1.0, "full", 1, 1, 1.0)),
    ],
)
def test_no_folder_of_ours_can_be_changed_by_others_whatever_the_umask(
    tmp_path, monkeypatch, write
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "new/state"))
    before = os.umask(0)
    try:
        write()
    finally:
        os.umask(before)
    made = [folder for folder in (tmp_path / "new").rglob("*") if folder.is_dir()]
    assert made and {oct(folder.stat().st_mode & 0o777) for folder in made} == {"0o700"}


def test_a_file_that_may_not_be_read_is_not_called_damaged(world, monkeypatch):
    file, read = guard_files.place("confirmed.json"), Path.read_text

    def refuses(path, *rest, **more):
        if path == file:
            raise PermissionError(13, "Permission denied")
        return read(path, *rest, **more)

    monkeypatch.setattr(Path, "read_text", refuses)
    told = world.round()
    assert f"{file} can't be read (permission denied); run chmod u+r {file}" in told.lines


def test_a_damaged_job_that_is_older_than_a_box_does_not_hold_it(world):
    file = ledger.place().parent / "jobs/old.json"
    file.write_text('{"address": "elsewhere:22", "fol')
    told = world.round()
    assert told.code == 2 and not world.stops
    old = world.made - 86400
    os.utime(file, (old, old))
    world.awake()
    told = world.round()
    assert told.code == 2 and "old.json is damaged" in told.lines[0] and len(world.stops) == 1


@pytest.mark.parametrize("words", [("runs",), ("status", "gpu"), ("release", "gpu", "--forget")])
def test_a_command_about_boxes_tells_which_line_is_damaged(world, words):
    with ledger.place().open("a") as file:
        file.write('{"t": 1795000000, "eve')
    done = run(*words)
    assert f"{ledger.place()} is damaged (line " in done.output


def test_a_torn_line_holds_up_a_run_only_where_a_purse_may_be_set(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    wanted = purse.Wanted("gpu:22", "gpu", "~/runs/toy", 1795000000.0, Money(1.0, "USD"))
    ledger.opened("gpu:22", "gpu")
    with ledger.place().open("a") as file:
        file.write('{"t": 1795000000, "eve')
    assert purse.reserve(wanted) is None
    purse.set_limit(Money(40, "USD"))
    with pytest.raises(purse.OverPurse, match="damaged"):
        purse.reserve(wanted)


def test_a_line_that_fits_in_part_only_is_taken_back(tmp_path, monkeypatch):
    file = tmp_path / "ledger.jsonl"
    local_files.append(file, b"{}")
    write = os.write
    monkeypatch.setattr(os, "write", lambda to, data: write(to, data[:4]))
    with pytest.raises(OSError, match="space"):
        local_files.append(file, b'{"t": 1}')
    assert file.read_bytes() == b"{}\n"


def test_a_line_after_a_torn_one_stands_alone(tmp_path):
    file = tmp_path / "journal.jsonl"
    file.write_text('{"t": 1')
    local_files.append(file, b"{}")
    assert file.read_text().splitlines() == ['{"t": 1', "{}"]
