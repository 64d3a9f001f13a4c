"""What is no checkpoint is mirrored, also while a program writes it in place."""

import errno
import os
import shutil

import pytest
from remote_gpu_trainer.runner.copies import mirror, place
from remote_gpu_trainer.runner.copies.tool import Tools

GOOD, BETTER, CORRUPT = b'{"step": 8}', b'{"step": 9}', b'{"st'


class Mirrored:
    """A folder here and its mirror; `lives` says whether a program may write."""

    def __init__(self, tmp_path):
        self.here, self.there = tmp_path / "out", tmp_path / "durable"
        self.still = tmp_path / "run/.staged"
        self.here.mkdir()
        self.there.mkdir()
        self.lives, self.saves, self.notes, self.known = True, 0, [], {}
        self.place = place.Local(Tools({}, lambda: None))

    def copy(self, is_full=True):
        self.notes.clear()
        one = mirror.Mirror(
            self.place,
            is_full,
            False,
            False,
            lambda: False,
            self.notes,
            str(self.still),
            lambda: self.lives,
        )
        files = mirror.files_in(str(self.here), set())
        return one.copy(files, str(self.there), self.known)

    def save(self, data, name="best.json"):
        (self.here / name).write_bytes(data)
        self.saves += 1
        os.utime(self.here / name, (1000 * self.saves, 1000 * self.saves))


@pytest.fixture
def mirrored(tmp_path):
    return Mirrored(tmp_path)


def test_a_file_that_is_corrupt_once_it_was_judged_replaces_nothing(mirrored, monkeypatch):
    """The program begins to write it anew between the look and the copy."""
    mirrored.save(GOOD)
    mirrored.copy()
    assert (mirrored.there / "best.json").read_bytes() == GOOD
    mirrored.save(BETTER)
    judge = mirror.judge_file

    def judge_and_tear(path):
        found = judge(path)
        mirrored.save(CORRUPT)
        return found

    monkeypatch.setattr(mirror, "judge_file", judge_and_tear)
    mirrored.copy()
    assert (mirrored.there / "best.json").read_bytes() in (GOOD, BETTER)
    monkeypatch.undo()
    mirrored.copy()
    assert "complete one there is kept" in mirrored.notes[0]
    mirrored.save(BETTER)
    mirrored.copy()
    assert (mirrored.there / "best.json").read_bytes() == BETTER
    assert mirrored.known["best.json"] and not mirrored.still.exists()


def test_one_that_is_corrupt_while_it_is_held_is_left_for_the_next_round(mirrored, monkeypatch):
    mirrored.save(GOOD)
    mirrored.copy()
    mirrored.save(BETTER)
    copy = shutil.copy2

    def copy_and_tear(source, target):
        copy(source, target)
        mirrored.save(CORRUPT)

    monkeypatch.setattr(shutil, "copy2", copy_and_tear)
    mirrored.copy()
    assert (mirrored.there / "best.json").read_bytes() == GOOD
    assert mirrored.known["best.json"] != mirror.stamp(str(mirrored.here / "best.json"))


@pytest.mark.parametrize("code", [errno.ENOSPC, None])
def test_without_room_here_it_waits_for_the_programs_end(mirrored, monkeypatch, code):
    def no_room(*_):
        raise OSError(code, os.strerror(code))

    mirrored.save(GOOD)
    if code:
        monkeypatch.setattr(shutil, "copy2", no_room)
    else:
        monkeypatch.setattr(mirror, "SPARE", 1 << 60)
    mirrored.copy()
    assert mirrored.notes == [
        "best.json isn't copied while its program lives: this box has no room to hold it still"
    ]
    assert not (mirrored.there / "best.json").exists()
    mirrored.lives = False
    assert mirrored.copy() and (mirrored.there / "best.json").read_bytes() == GOOD


def test_many_files_below_folders_keep_their_names(mirrored):
    for number in range(700):
        folder = mirrored.here / f"part{number % 7}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.json").write_text("[]")
    (mirrored.here / "log.txt").write_text("a line")
    assert mirrored.copy()
    assert len(list(mirrored.there.rglob("*.json"))) == 700 and len(mirrored.known) == 701
