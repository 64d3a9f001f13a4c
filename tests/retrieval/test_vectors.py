"""The file of vectors: read as it is written, damaged, with a conflict of git's, and line by line."""

import numpy
import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.bundle import CatalogueError
from remote_gpu_trainer.retrieval import vectors
from remote_gpu_trainer.retrieval.vectors import EntryVectors


def packed(seed: int) -> str:
    points = numpy.random.default_rng(seed).normal(size=(vectors.CARDS, 384)).astype("f")
    return vectors.pack(points)


@pytest.fixture
def some():
    ids = ("O2", "O10", "K8S1", "U3a", "U3")
    return {id: EntryVectors(f"{seed:016x}", packed(seed)) for seed, id in enumerate(ids)}


def test_the_file_is_read_as_it_is_written(some, tmp_path):
    place = tmp_path / "vectors.txt"
    place.write_text(vectors.as_text(some), encoding="ascii")
    assert vectors.read(place) == vectors.read_whole_lines(place) == some
    assert vectors.is_written_so(place, some)
    place.write_text(vectors.as_text(some) + "\n", encoding="ascii")
    assert not vectors.is_written_so(place, some)


def test_entries_stand_in_groups_by_family_whatever_their_order(some):
    lines = [line.split(" ")[:2] for line in vectors.as_text(some).splitlines()]
    names = [" ".join(words) if words[0] == "#" else words[0] for words in lines]
    assert names == ["# K8S", "K8S1", "# O", "O2", "O10", "# U", "U3", "U3a"]
    assert vectors.as_text(dict(reversed(some.items()))) == vectors.as_text(some)


def test_vectors_come_back_within_half_a_step_of_their_eight_bits():
    points = numpy.random.default_rng(7).normal(size=(vectors.CARDS, 384)).astype("f")
    back = vectors.unpack([vectors.pack(points)])
    assert back.shape == (vectors.CARDS, 1, 384) and back.dtype == numpy.float32
    step = numpy.abs(points).max(1, keepdims=True) / 127
    assert (numpy.abs(back[:, 0] - points) <= 0.5001 * step).all()


def test_unpacked_entries_keep_their_order_and_none_gives_zeros():
    first, second = packed(1), packed(2)
    points = vectors.unpack([first, "", second])
    assert (points[:, 0] == vectors.unpack([first])[:, 0]).all()
    assert (points[:, 2] == vectors.unpack([second])[:, 0]).all()
    assert not points[:, 1].any()


def test_the_file_of_this_repository_names_every_entry_once():
    assert list(sorted(vectors.read())) == sorted(bundle.load().by_id)
    assert vectors.is_written_so(vectors.PLACE, vectors.read())


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "conflict", "binary"])
def test_a_missing_or_damaged_file_is_one_line_that_says_what_to_do(damage, some, tmp_path):
    place, whole = tmp_path / "vectors.txt", vectors.as_text(some)
    texts = {
        "empty": "",
        "cut": whole[:1500] + " ",
        "conflict": "<<<<<<< HEAD\n" + whole,
        "binary": "\x80" + whole,
    }
    if damage != "missing":
        place.write_text(texts[damage], encoding="latin-1")
    with pytest.raises(CatalogueError, match="run rgt dev docs --write") as error:
        vectors.read(place)
    assert "\n" not in str(error.value)


def test_what_is_whole_in_a_file_with_a_conflict_is_kept(some, tmp_path):
    place = tmp_path / "vectors.txt"
    whole = vectors.as_text(some).splitlines()
    ours, theirs = (f"O11 {seed:016x} {packed(seed)}" for seed in (8, 9))
    marks = ["<<<<<<< HEAD", ours, "=======", theirs, ">>>>>>> other"]
    place.write_text("\n".join([*whole, *marks, "O12 0123456789abcdef cut="]), encoding="ascii")
    found = vectors.read_whole_lines(place)
    assert found == {**some, "O11": EntryVectors(f"{9:016x}", packed(9))}
    assert vectors.read_whole_lines(tmp_path / "none.txt") == {}
