"""What the look-up knows of the entries: their words, their cards, and whether both are of today."""

import subprocess
import sys
from dataclasses import replace

import numpy
import pytest
from generated_docs import documents
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.retrieval import encoder, index, vectors
from remote_gpu_trainer.retrieval.index import tokens, words
from remote_gpu_trainer.retrieval.vectors import CARDS

from tests.conftest import ROOT


class Meaningless:
    """An encoder for which all texts mean the same."""

    def __init__(self):
        self.asked = []

    def vector(self, text, most=0):
        self.asked.append(text)
        return numpy.full(384, 384**-0.5, "f")


@pytest.fixture(scope="module")
def entries():
    return bundle.load().entries


@pytest.fixture(scope="module")
def encoded(entries):
    return index.encoded(entries, Meaningless(), "none")


@pytest.fixture(scope="module")
def known(entries, encoded):
    return index.joined(index.Postings.count(entries), encoded)


def test_words_lose_endings_and_identifiers_count_whole_and_in_parts():
    assert words("training trained") == ["train", "train"]
    assert words("find_unused_parameters")[0] == "find_unused_parameters"
    assert "parameter" in words("find_unused_parameters")
    assert words("\u8bad\u7ec3\u5361") == ["\u8bad\u7ec3", "\u7ec3\u5361"]


def test_bm25_is_what_its_formula_says(entries, known):
    """BM25F again, the slow way, for one word and all entries."""
    bags = [
        {n: words(index._field(e, n)).count("deadlock") * w for n, w in index.FIELDS.items()}
        for e in entries
    ]
    lengths = [
        sum(len(words(index._field(e, n))) * w for n, w in index.FIELDS.items()) for e in entries
    ]
    counts, mean = [sum(bag.values()) for bag in bags], sum(lengths) / len(lengths)
    holding = sum(count > 0 for count in counts)
    rarity = numpy.log(1 + (len(entries) - holding + 0.5) / (holding + 0.5))
    wanted = [
        rarity * c * (index.K1 + 1) / (c + index.K1 * (1 - index.B + index.B * size / mean))
        for c, size in zip(counts, lengths, strict=True)
    ]
    assert holding > 1
    assert known.bm25("deadlock") == pytest.approx(wanted, rel=2e-3)  # kept as 16-bit numbers


def test_a_word_counts_for_the_entries_that_have_it_and_for_no_other(known):
    once = [known.bm25("deadlock"), known.bm25("checkpoint")]
    for column, both in enumerate(zip(*once, strict=True)):
        assert known.count_shared("deadlock checkpoint zyzzyva", column) == sum(
            score > 0 for score in both
        )
        assert [known._weight("deadlock", column), known._weight("checkpoint", column)] == [*both]


def test_a_word_that_comes_again_counts_less(known):
    once, often = known.bm25("deadlock"), known.bm25("deadlock " * 50)
    assert often.max() == pytest.approx(index.MOST * once.max())
    assert known.bm25("deadlock deadlock").max() == pytest.approx(1.3 * once.max())


def test_a_new_entry_is_found_by_its_words_and_the_others_are_not_encoded_again(entries, encoded):
    new = replace(entries[0], id="ZZ1", title="The flux capacitor of the trainer rattles")
    model = Meaningless()
    vectors = index.encoded([*entries, new], model, "none", encoded)
    assert len(model.asked) == CARDS
    assert {id: vectors[id] for id in encoded} == encoded
    grown = index.joined(index.Postings.count([*entries, new]), vectors)
    assert grown.ids[int(grown.bm25("flux capacitor rattles").argmax())] == "ZZ1"


def test_an_entry_without_vectors_is_found_by_its_words_and_means_nothing(entries, encoded):
    new = replace(entries[0], id="ZZ1", title="The flux capacitor of the trainer rattles")
    grown = index.joined(index.Postings.count([*entries, new]), encoded)
    assert grown.ids[int(grown.bm25("flux capacitor rattles").argmax())] == "ZZ1"
    assert not grown.points[:, grown.column["ZZ1"]].any()
    assert grown.points[:, : len(entries)].any(2).all()


def test_changed_cards_or_another_encoder_make_vectors_old_and_other_fields_dont(entries, encoded):
    assert index.is_current(encoded, entries, "none")
    assert not index.is_current(encoded, entries, "another")
    assert not index.is_current(encoded, entries[1:], "none")
    assert not index.is_current({}, entries, "none")
    titled = [replace(entries[0], title="Something else"), *entries[1:]]
    assert not index.is_current(encoded, titled, "none")
    moved = [replace(entries[0], line=7, sources=(), fix="Another."), *entries[1:]]
    assert index.is_current(encoded, moved, "none")
    assert index.is_current(encoded, entries[::-1], "none")


def test_points_are_kept_in_eight_bits_and_stay_near(entries):
    model = encoder.load()
    [card, _] = index.cards(entries[0])
    kept = index.load().points[0, index.load().column[entries[0].id]]
    assert float(model.vector(card) @ kept) > 0.999


def test_reasons_are_words_of_the_catalogue_not_of_the_report(known):
    secret = "sk_live_memory_9f3a"
    column = known.column["M8"]
    told = known.reasons(f"fragmented memory {secret}", column, 9)
    assert "memory" in told and not any(secret in word for word in told)
    assert set(told) <= set(tokens("fragmented memory"))
    assert known.reasons("Fragmented MEMORY", column, 9)[0] in ("Fragmented", "MEMORY")


@pytest.mark.parametrize(
    ("text", "entry", "told"),
    [
        ("显存不足怎么办", "U10", {"显存不足"}),
        ("多卡训练卡住不动，没有报错", "D19", {"多卡", "训练", "卡住不动", "没有报错"}),
        ("断点续训之后 loss 突然变大", "C1", {"断点续训", "之后", "loss", "突然变大"}),
    ],
)
def test_reasons_of_a_chinese_report_are_whole_terms_of_its_own(known, text, entry, told):
    found = known.reasons(text, known.column[entry], 9)
    assert found and set(found) <= told


def test_between_terms_the_longest_part_that_an_entry_has_is_a_reason(known):
    assert "无卡模式" in known.reasons("实例用无卡模式开机", known.column["AD9"], 9)


def test_docs_write_encodes_changed_entries(tmp_path, monkeypatch):
    place = tmp_path / documents.VECTORS
    place.parent.mkdir(parents=True)
    place.write_bytes(vectors.PLACE.read_bytes())
    whole = bundle.load()
    assert not documents._are_vectors_old(tmp_path, whole, write=True)
    changed = [replace(whole.entries[0], title="Something else entirely"), *whole.entries[1:]]
    monkeypatch.setattr(whole, "entries", tuple(changed))
    assert documents._are_vectors_old(tmp_path, whole, write=False)
    assert documents._are_vectors_old(tmp_path, whole, write=True)
    assert not documents._are_vectors_old(tmp_path, whole, write=False)
    before, after = (p.read_text().splitlines() for p in (vectors.PLACE, place))
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1


def test_numpy_gets_one_thread_and_what_the_process_starts_keeps_its_own():
    program = (
        "import os; os.environ['OMP_NUM_THREADS'] = '7'; import remote_gpu_trainer.retrieval; "
        "print(os.environ['OMP_NUM_THREADS'], os.environ.get('OPENBLAS_NUM_THREADS')); "
        "print(open('/proc/self/status').read().split('Threads:')[1].split()[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin"},
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "7 None" and lines[1] == "1"
