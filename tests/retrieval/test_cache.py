"""The words of the catalogue in the user's cache: used when whole, ignored when damaged, never needed."""

import json
import os
import subprocess
import sys

import numpy
import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.retrieval import cache, index

from tests.conftest import ROOT

ARRAYS = {"a": numpy.arange(5, dtype="int32"), "b": numpy.ones((2, 2), "float16")}
LOOKUP = [sys.executable, "-m", "remote_gpu_trainer", "lookup", "loss is nan", "--json"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "remote-gpu-trainer"


def same(one, other) -> bool:
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and (one[name] == other[name]).all() for name in one
    )


def test_arrays_come_back_under_their_key_alone(place):
    assert cache.read("words", "k1") is None
    cache.keep("words", "k1", ARRAYS)
    assert same(cache.read("words", "k1"), ARRAYS)
    assert cache.read("words", "k2") is None and cache.read("other", "k1") is None


@pytest.mark.parametrize("harm", ["empty", "cut", "one bit", "text", "another key", "an npz"])
def test_a_damaged_or_foreign_file_is_ignored_and_replaced(harm, place, tmp_path):
    cache.keep("words", "k1", ARRAYS)
    [path] = place.iterdir()
    whole = path.read_bytes()
    if harm == "an npz":
        with path.open("wb") as out:
            numpy.savez(out, **ARRAYS)
    else:
        cache.keep("words", "k2", ARRAYS)
        flipped = bytearray(whole)
        flipped[-100] ^= 1
        bad = {
            "empty": b"",
            "cut": whole[: len(whole) // 2],
            "one bit": bytes(flipped),
            "text": b"hello " * 100,
            "another key": (place / "words-k2").read_bytes(),
        }
        path.write_bytes(bad[harm])
    assert cache.read("words", "k1") is None
    cache.keep("words", "k1", ARRAYS)
    assert same(cache.read("words", "k1"), ARRAYS)


def test_only_the_newest_files_stay(place):
    for number in range(cache.KEPT + 3):
        cache.keep("words", f"k{number}", ARRAYS)
        newest = place / f"words-k{number}"
        os.utime(newest, (number, number))
    (place / "somebody-elses").write_text("x", encoding="utf-8")
    cache.keep("words", "last", ARRAYS)
    names = {path.name for path in place.iterdir()}
    assert len(names) == cache.KEPT + 1 and {"words-last", "somebody-elses"} <= names
    assert "words-k0" not in names


def test_where_nothing_can_be_written_nothing_is_kept_and_nothing_fails(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    cache.keep("words", "k1", ARRAYS)
    assert cache.read("words", "k1") is None


@pytest.mark.parametrize(
    "set_to, wanted", [("/c", "/c"), ("", "HOME/.cache"), ("relative", "HOME/.cache")]
)
def test_the_folder_is_where_the_specification_says(set_to, wanted, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", set_to)
    monkeypatch.setenv("HOME", str(tmp_path))
    wanted = wanted.replace("HOME", tmp_path.as_posix())
    assert cache.folder().as_posix() == f"{wanted}/remote-gpu-trainer"


@pytest.mark.parametrize("home", ["~", "gone", "/dev/null"])
def test_without_a_home_there_is_no_folder_and_none_is_made(home, tmp_path, monkeypatch):
    home = str(tmp_path / "gone") if home == "gone" else home
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(cache.os.path, "expanduser", lambda path: home)
    assert cache.folder() is None
    cache.keep("words", "k1", ARRAYS)
    assert cache.read("words", "k1") is None
    assert not list(tmp_path.iterdir())


def test_postings_are_the_same_counted_and_kept(place, monkeypatch):
    counted = index._kept_postings()
    assert len(list(place.iterdir())) == 1
    monkeypatch.setattr(index.Postings, "count", None)
    kept = index._kept_postings()
    assert same(kept.arrays(), counted.arrays())


def test_a_changed_page_has_a_key_of_its_own(tmp_path, page, monkeypatch):
    (tmp_path / "references").mkdir()
    keys = set()
    for text in (page(), page(("was cut off", "was taken off"))):
        (tmp_path / "references/a.md").write_text(text, encoding="utf-8")
        monkeypatch.setattr(bundle, "load_cache", lambda: bundle.EntryCache(tmp_path))
        keys.add(index.key_of())
    assert len(keys) == 2


def test_a_look_up_answers_the_same_with_a_cache_without_one_and_with_a_damaged_one(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "file").write_text("x", encoding="utf-8")

    def asked(**env: str) -> dict:
        kept = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"}
        done = subprocess.run(
            LOOKUP, env={**kept, **env}, cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        return json.loads(done.stdout)

    first = asked(HOME=str(home))
    paths = sorted((home / ".cache/remote-gpu-trainer").iterdir())
    assert [path.name.partition("-")[0] for path in paths] == ["signatures", "words"]
    assert asked(HOME=str(home)) == first
    for path in paths:
        path.write_bytes(path.read_bytes()[:1000])
    assert asked(HOME=str(home)) == first
    assert all(path.stat().st_size > 100_000 for path in paths)
    assert asked(HOME="/dev/null") == first
    assert asked(XDG_CACHE_HOME=str(tmp_path / "file")) == first
