"""The table of words: each word is found at its row and no other word is, in made tables and in the shipped one."""

from array import array
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from remote_gpu_trainer.retrieval import binary_parts, ranking, vocabulary
from remote_gpu_trainer.retrieval.vocabulary import Rows, pack


def rows_of(words: list[str]) -> Rows:
    parts = pack(words)
    return Rows(parts["words"], parts["word starts"], parts["word slots"])


@given(
    st.lists(st.text(max_size=6), unique=True, max_size=60),
    st.lists(st.text(st.characters(), max_size=6), max_size=20),
)
@settings(max_examples=200)
def test_a_word_has_its_row_and_any_other_none(words, others):
    rows = rows_of(words)
    assert [rows.find(word) for word in words] == list(range(len(words)))
    assert all(rows.find(word) is None for word in others if word not in words)


def test_words_that_want_the_same_slot_all_have_their_rows():
    words = [str(number) for number in range(5000)]
    last = len(pack(words)["word slots"]) - 1
    assert len({vocabulary.crc32(word.encode()) & last for word in words}) < len(words)
    rows = rows_of(words)
    assert [rows.find(word) for word in words] == list(range(5000))


def test_the_shipped_table_holds_every_word_once_at_its_row():
    made = ranking.load()
    words = [made.rows.word(row) for row in range(len(made.rarity))]
    assert len(set(words)) == len(words) == len(made.inside)
    assert [made.rows.find(word.decode()) for word in words] == list(range(len(words)))
    assert (
        not made.rows.word(len(words) - 1).endswith(b"\0")
        and made.rows.find("no such word") is None
    )


def test_words_are_forgotten_when_too_many_were_asked_for(monkeypatch):
    monkeypatch.setattr(vocabulary, "MOST", 10)
    rows = rows_of(["loss", "nan"])
    assert [rows.find(f"word{number}") for number in range(100)] == [None] * 100
    assert rows.find.cache_info().currsize <= 10 and rows.find("nan") == 1


@pytest.mark.parametrize(
    "change", [lambda data: data[:-1], lambda data: data[:-5000], lambda data: data + b"\0"]
)
def test_a_ranking_of_another_length_is_refused(change):
    with pytest.raises(ValueError, match="ranking.bin has .* bytes after its head, not"):
        ranking.Ranking(change(ranking.PLACE.read_bytes()))


def test_numbers_are_turned_on_a_machine_whose_bytes_lie_the_other_way_round(monkeypatch):
    numbers = array("I", [1, 2, 70_000])
    monkeypatch.setattr(binary_parts, "sys", SimpleNamespace(byteorder="big"))
    turned = binary_parts.unpack(
        b'{"parts": [["numbers", "I", 3]]}\n' + numbers.tobytes(), "x.bin", "x.py"
    )[1]["numbers"]
    numbers.byteswap()
    assert turned.tolist() == numbers.tolist()
