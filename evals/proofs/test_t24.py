"""T24: what makes `map` compute again at each launch, and what lets it find its result."""

import logging
import threading
import time
from functools import partial

import pytest
from check_code import block, shown

datasets = pytest.importorskip("datasets")


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A dataset read from a file, as a launch reads it."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "rows.json").write_text('{"n": 1}\n{"n": 2}\n')

    def load():
        path = str(tmp_path / "rows.json")
        return datasets.load_dataset("json", data_files=path, split="train", cache_dir=tmp_path)

    return load


def launch(dataset, f):
    return shown(block("T24"), f=f, ds=dataset)


TOLD = []


def prepare(row, settings):
    TOLD.append(row["n"])
    return {"twice": row["n"] * settings["factor"]}


def test_a_time_stamp_that_the_function_refers_to_changes_its_hash_and_nothing_else(stored):
    def hashes(settings):
        return launch(stored(), partial(prepare, settings=settings)).split(" ", 2)

    first, second = (hashes({"factor": 2, "started": time.time_ns() + n}) for n in (1, 2))
    assert first[0] != second[0] and first[1:] == second[1:]
    assert hashes({"factor": 2}) == hashes({"factor": 2})


def test_a_touched_file_changes_the_second_number(stored, tmp_path):
    f = partial(prepare, settings={"factor": 2})
    before = launch(stored(), f).split(" ")
    (tmp_path / "rows.json").write_text('{"n": 1}\n{"n": 3}\n')
    after = launch(stored(), f).split(" ")
    assert before[0] == after[0] and before[1] != after[1]


def test_the_check_names_what_a_function_holds_that_has_no_hash(stored):
    numbers = (n for n in range(3))
    with pytest.raises(TypeError, match="cannot pickle 'generator' object"):
        launch(stored(), lambda row: {"held": numbers is None})


def test_a_dataset_in_memory_shows_an_empty_list_and_keeps_nothing(stored):
    f = partial(prepare, settings={"factor": 2})
    memory = datasets.Dataset.from_list([{"n": 1}])
    assert launch(memory, f).endswith("[]") and not launch(stored(), f).endswith("[]")
    assert not memory.map(f).cache_files and stored().map(f).cache_files


def test_the_second_launch_finds_the_result_unless_the_hash_differs(stored, monkeypatch):
    def computed(settings):
        told = []
        monkeypatch.setattr(__name__ + ".TOLD", told)
        stored().map(partial(prepare, settings=settings))
        return len(told)

    assert [computed({"factor": 2, "lr": 1}), computed({"factor": 2, "lr": 1})] == [2, 0]
    assert computed({"factor": 2, "lr": 2}) == 2


def test_what_was_saved_is_loaded_without_computing(stored, tmp_path):
    stored().map(partial(prepare, settings={"factor": 2})).save_to_disk(tmp_path / "tok-v1")
    assert datasets.load_from_disk(tmp_path / "tok-v1")["twice"][:] == [2, 4]


def test_a_name_of_ones_own_hits_after_the_function_changed(stored):
    named = [
        stored().map(partial(prepare, settings={"factor": n}), new_fingerprint="tok-v1")
        for n in (2, 3)
    ]
    assert named[1]["twice"][:] == [2, 4]


@pytest.mark.parametrize("holds, again", [(threading.Lock, 0), (lambda: (n for n in range(3)), 1)])
def test_a_lock_is_hashed_and_a_generator_gets_a_random_hash_with_the_warning(
    stored, caplog, monkeypatch, holds, again
):
    held = holds()

    def f(row):
        return {"twice": 2 * row["n"], "held": held is None}

    monkeypatch.setattr("datasets.fingerprint.fingerprint_warnings", {})
    monkeypatch.setattr(logging.getLogger("datasets"), "propagate", True)
    names = {stored().map(f).cache_files[0]["filename"] for _ in range(2)}
    assert len(names) == 1 + again
    text = "couldn't be hashed properly, a random hash was used instead"
    assert (text in caplog.text) == bool(again)
