"""The judge finds what was lost, and nothing else; the programs' formats are those of the libraries."""

import hashlib
import json

import pytest

from .judge import History, Journal, Store, is_complete, is_complete_file
from .programs import formats


def told(*events):
    return "".join(json.dumps({"pid": 1, **event}) + "\n" for event in events)


def save(name, at, step, digest, line="a", role="last", path="/box/out/last.pt", until=None):
    """The two events of a save that takes four seconds; `until` None: it never came to its end."""
    begin = {
        "event": "begin",
        "t": at,
        "id": name,
        "role": role,
        "step": step,
        "line": line,
        "paths": [path],
    }
    end = {"event": "end", "t": at + 4, "id": name, "files": {path: digest}}
    return [begin] if digest is None else [begin, end]


def names(saves):
    return [save.id for save in saves]


def test_a_checkpoint_counts_once_it_rested_for_the_window():
    journal = Journal(told(*save("1", 0, 8, "A"), *save("2", 24, 44, None)))
    assert names(journal.protected(100, window=14)) == ["1"]
    assert not journal.protected(100, window=21)
    assert not journal.protected(17, window=14)


def test_the_time_of_an_outage_does_not_count():
    journal = Journal(told(*save("1", 0, 8, "A")))
    assert not journal.protected(30, 14, [(5, 20)])
    assert names(journal.protected(40, 14, [(5, 20)])) == ["1"]


def test_a_box_that_vanished_took_its_copies_along():
    events = told(*save("1", 0, 8, "A"))
    assert not Journal(events, vanished=[10]).protected(100, 14)
    assert names(Journal(events, vanished=[50]).protected(100, 14)) == ["1"]


@pytest.mark.parametrize("path", ["/box/out", "/box/out/last.pt"])
def test_a_deleted_checkpoint_rested_until_then(path):
    journal = Journal(told(*save("1", 0, 8, "A"), {"event": "delete", "t": 10, "path": path}))
    assert not journal.protected(100, 14)


def test_a_folder_written_again_ends_the_rest_of_what_lay_in_it():
    first = save("1", 0, 8, "A", path="/box/out/checkpoint-8/model.safetensors")
    again = save("2", 10, 8, None, line="b", path="/box/out/checkpoint-8")
    assert not Journal(told(*first, *again)).protected(100, 14)
    other = save("2", 10, 8, None, line="b", path="/box/out/checkpoint-80")
    assert names(Journal(told(*first, *other)).protected(100, 14)) == ["1"]


def test_a_later_one_of_its_line_stands_for_it_and_one_of_another_line_only_beyond_it():
    old = save("old", 0, 8, "A")
    for line, step, stands in [
        ("a", 8, True),
        ("a", 12, True),
        ("a", 4, False),
        ("b", 8, False),
        ("b", 12, True),
    ]:
        journal = Journal(told(*old, *save("new", 50, step, "B", line)))
        kept = journal.protected(20, 14)
        assert names(kept) == ["old"]
        assert bool(journal.missing(kept, {"B"})) is not stands, (line, step)
        assert not journal.missing(kept, {"A"})
        assert names(journal.missing(kept, {"C"})) == ["old"]


def test_the_best_does_not_stand_for_the_last():
    journal = Journal(
        told(
            *save("last", 0, 8, "A"),
            *save("best", 4, 12, "B", role="best", path="/box/out/best.pt"),
        )
    )
    assert names(journal.missing(journal.protected(90, 14), {"B"})) == ["last"]


def test_of_a_group_every_file_counts():
    begin, end = save("1", 0, 8, "A")
    end["files"]["/box/out/optimizer.pt"] = "B"
    journal = Journal(told(begin, end))
    kept = journal.protected(90, 14)
    assert journal.missing(kept, {"A"}) and not journal.missing(kept, {"A", "B", "C"})


def test_what_was_at_the_durable_place_and_went_is_told_with_its_seconds(tmp_path):
    digest = hashlib.sha256(b"whole").hexdigest()
    journal, store, history = Journal(told(*save("1", 0, 8, digest))), Store(tmp_path), History()
    history.look(journal, store, 5)
    assert not history.arrived
    (tmp_path / "any name").write_bytes(b"whole")
    history.look(journal, store, 9)
    assert history.arrived == {"1": 9}
    (tmp_path / "any name").write_bytes(b"who")
    history.look(journal, store, 10)
    assert not history.replaced(journal, 11)
    history.look(journal, store, 10)
    assert "for 5 s" in history.replaced(journal, 15)[0]


def test_a_generation_is_there_once_its_manifest_is(tmp_path):
    place = tmp_path / "out.generations/gen-1-8-ab"
    (place / "files").mkdir(parents=True)
    (place / "files/last.pt").write_bytes(b"whole")
    assert not Store(tmp_path).digests()
    (place / "manifest.json").write_text("{}")
    assert hashlib.sha256(b"whole").hexdigest() in Store(tmp_path).digests()


def test_a_program_that_began_anew_has_not_finished():
    finish, start = {"event": "finish", "t": 1}, {"event": "start", "t": 2}
    assert Journal(told(finish)).finished and not Journal(told(finish, start)).finished


@pytest.mark.parametrize("kind", sorted(formats.WRITERS))
def test_a_file_is_complete_and_no_beginning_of_it_is(kind, tmp_path):
    name = {"safetensors": "x.safetensors", "json": "x.json"}.get(kind, "x.pt")
    data = formats.WRITERS[kind]({"step": 8, "line": "abc"}, formats.draw_bytes("seed", 50_000))
    path = tmp_path / name
    path.write_bytes(data)
    assert is_complete_file(path)
    read = formats.read(path)
    assert (read["step"], read["line"]) == (8, "abc")
    for share in (0, 1, 10, 50, 90, 99):
        path.write_bytes(data[: len(data) * share // 100])
        assert not is_complete_file(path), share
        with pytest.raises(Exception):  # noqa: B017 - each library's own
            formats.read(path)


def test_a_folder_of_transformers_needs_its_state(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert not is_complete(tmp_path)
    (tmp_path / "trainer_state.json").write_text("{}")
    assert is_complete(tmp_path)
    (tmp_path / "trainer_state.json").write_text('{"global_step": ')
    assert not is_complete(tmp_path)


def test_the_libraries_load_what_the_programs_write(tmp_path):
    torch = pytest.importorskip("torch")
    numpy = pytest.importorskip("numpy")
    safetensors = pytest.importorskip("safetensors.torch")
    data = formats.draw_bytes("seed", 4096)
    for kind in ("torch_zip", "torch_legacy"):
        (tmp_path / kind).write_bytes(formats.WRITERS[kind]({"step": 8, "line": "a"}, data))
        loaded = torch.load(tmp_path / kind, weights_only=True)
        assert loaded["step"] == 8
        assert loaded["model"]["layer0.weight"].numpy().tobytes() == data[:1024]
    (tmp_path / "x.npz").write_bytes(formats.npz({"step": 8, "line": "a"}, data))
    assert numpy.load(tmp_path / "x.npz")["weights"].tobytes() == data
    loaded = safetensors.load(formats.safetensors({"step": 8, "line": "a"}, data))
    assert loaded["layer3.weight"].numpy().tobytes() == data[3072:]
