"""Whether a copy on this machine is whole is looked at each time, never remembered."""

import hashlib
import json
import os
import shutil

import pytest
from remote_gpu_trainer.runs import home_copy


@pytest.fixture
def copy(tmp_path):
    return home_copy.describe_copy(released(tmp_path / "home" / "res"))


def released(folder, more=(), **checks):
    """A folder as a release leaves it. `more`: files, {path: bytes}."""
    rows = []
    for name, data in {"out/final.pt": b"weights" * 99, "run.json": b"{}", **dict(more)}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        rows.append({"path": name, "bytes": len(data), "sha256": digest})
    manifest = {"schema": 1, "files": rows, "checks": {"unlisted": [], **checks}}
    (folder / home_copy.MANIFEST).write_text(json.dumps(manifest))
    return folder


def behind_a_link(folder):
    folder.rename(folder.parent / "away")
    folder.symlink_to(folder.parent / "away")


def above_behind_a_link(folder):
    folder.parent.rename(folder.parent.parent / "away")
    folder.parent.symlink_to(folder.parent.parent / "away")


def a_file_behind_a_link(folder):
    (folder / "out/final.pt").rename(folder / "away")
    (folder / "out/final.pt").symlink_to(folder / "away")


def a_folder_behind_a_link(folder):
    (folder / "out").rename(folder.parent / "out")
    (folder / "out").symlink_to(folder.parent / "out")


def unmounted(folder):
    shutil.rmtree(folder)
    folder.mkdir()


def rewritten(folder):
    """The manifest says what lies there now."""
    (folder / "out/final.pt").write_bytes(b"")
    told = json.loads((folder / home_copy.MANIFEST).read_text())
    told["files"][0] |= {"bytes": 0, "sha256": hashlib.sha256(b"").hexdigest()}
    (folder / home_copy.MANIFEST).write_text(json.dumps(told))


def as_large(folder):
    file = folder / "out/final.pt"
    file.write_bytes(bytes(file.stat().st_size))


def being_replaced(folder):
    told = json.loads((folder / home_copy.MANIFEST).read_text())
    (folder / home_copy.MANIFEST).write_text(json.dumps({**told, "files": None, "coming": []}))


LOST = {
    "deleted": (shutil.rmtree, "is gone"),
    "its disk is unmounted": (unmounted, "has no PULL_MANIFEST.json any more"),
    "emptied": (lambda f: (f / "out/final.pt").write_bytes(b""), "has another out/final.pt"),
    "changed": (as_large, "has another out/final.pt"),
    "a file is deleted": (lambda f: (f / "out/final.pt").unlink(), "lacks out/final.pt"),
    "its manifest is deleted": (lambda f: (f / home_copy.MANIFEST).unlink(), "has no PULL_"),
    "its manifest is another": (rewritten, "has another PULL_MANIFEST.json"),
    "another release is at work": (being_replaced, "has another PULL_MANIFEST.json"),
    "behind a link": (behind_a_link, "is behind a link now"),
    "a folder above is a link": (above_behind_a_link, "is behind a link now"),
    "a file is a link": (a_file_behind_a_link, "has a link in place of out/final.pt"),
    "a folder in it is a link": (a_folder_behind_a_link, "has a link in place of out/final.pt"),
    "a file in its place": (lambda f: shutil.rmtree(f) or f.write_text(""), "is gone"),
}


@pytest.mark.parametrize("how", LOST)
def test_a_copy_that_is_not_as_it_was_verified_is_none(copy, how, tmp_path):
    assert home_copy.why_lost(copy) == ""
    change, why = LOST[how]
    change(tmp_path / "home" / "res")
    assert f"its copy in {copy.folder} {why}" in home_copy.why_lost(copy)
    by_size = home_copy.why_lost(copy, reads=False)
    assert (by_size == "") is (how == "changed")


def test_a_copy_with_more_in_it_is_whole(copy, tmp_path):
    (tmp_path / "home/res/notes.txt").write_text("mine")
    assert home_copy.why_lost(copy) == ""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a pipe")
def test_a_disk_that_hangs_holds_up_nobody(copy, monkeypatch):
    pipe = copy.folder + "/pipe"
    os.mkfifo(pipe)
    monkeypatch.setattr(home_copy, "_compare", lambda *rest: open(pipe, "rb").close())
    assert "can't be read within" in home_copy.why_lost(copy, 0.1)
    os.close(os.open(pipe, os.O_RDWR))


def test_what_takes_longer_than_it_may_is_no_copy(copy):
    assert "can't be read within" in home_copy.why_lost(copy, 0.0)


def test_a_copy_that_no_manifest_names_whole_or_of_an_older_release_is_none(tmp_path):
    odd = home_copy.describe_copy(released(tmp_path / "odd", unlisted=["a\nb"]))
    assert "no manifest can name" in home_copy.why_lost(odd)
    for copy in (home_copy.Copy("", ""), home_copy.describe_copy(tmp_path / "nothing")):
        assert home_copy.why_lost(copy) == "where its copy lies isn't known"
