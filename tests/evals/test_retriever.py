"""The retriever that is measured beside the shipped ranking: what it reads, and what it may not."""

import gzip
import json
import sys
from dataclasses import replace
from importlib.util import find_spec

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.signatures import SignatureIndex
from remote_gpu_trainer.numbers import log_reading

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "evals"))
if find_spec("numpy") is None:
    pytest.skip("numpy is missing; pip install numpy", allow_module_level=True)

import numpy
from grading.cases import read_cases
from retriever import corpus, index, measure, search
from retriever.wordpiece import WordPiece
from retriever.words import tokens, words

PIECES = ["[UNK]", "[CLS]", "[SEP]", "out", "of", "mem", "##ory", ":", "cafe", "\u663e", "\u5b58"]
JUDGE = search.Judge((20.0, 6.0, 3.0), (2.0, 9.0, 2.0), -7.0, {"low": 0.5, "medium": 0.8,
                     "high": 0.9, "titles": 0.05})  # fmt: skip


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
def known(entries):
    return index.Index(index.build(entries, Meaningless(), "none"))


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Out of memory", ["out", "of", "mem", "##ory"]),
        ("OOM: memory", ["[UNK]", ":", "mem", "##ory"]),
        ("Caf\u00e9\t\nof", ["cafe", "of"]),
        ("\u663e\u5b58", ["\u663e", "\u5b58"]),
        ("x" * 200, ["[UNK]"]),
        ("", []),
    ],
)
def test_text_is_cut_into_known_pieces_between_two_marks(text, pieces):
    rows = WordPiece({word: at for at, word in enumerate(PIECES)}).pieces(text, 100)
    assert [PIECES[row] for row in rows] == ["[CLS]", *pieces, "[SEP]"]


def test_a_long_text_is_cut_and_still_ends_in_its_mark():
    rows = WordPiece({word: at for at, word in enumerate(PIECES)}).pieces("out of " * 50, 10)
    assert len(rows) == 10 and PIECES[rows[-1]] == "[SEP]"


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


def test_a_new_entry_is_found_by_its_words_and_the_others_are_not_encoded_again(entries, known):
    new = replace(entries[0], id="ZZ1", title="The flux capacitor of the trainer rattles")
    model = Meaningless()
    grown = index.Index(index.build([*entries, new], model, "none", known))
    assert len(model.asked) == index.CARDS
    assert grown.ids[int(grown.bm25("flux capacitor rattles").argmax())] == "ZZ1"


def test_reasons_are_words_of_the_catalogue_not_of_the_report(known):
    secret = "sk_live_memory_9f3a"
    column = known.column["M8"]
    told = known.reasons(f"fragmented memory {secret}", column, 9)
    assert "memory" in told and not any(secret in word for word in told)
    assert set(told) <= {token.lower() for token in tokens("fragmented memory")}


@pytest.mark.parametrize("name", ["O3", "D1", "U6"])
def test_a_literal_text_of_a_failure_is_first_or_second(name, known):
    catalogue = bundle.load()
    [text, *_] = [s.text for s in catalogue.get(name).signatures if not s.is_regex]
    report = f"Traceback (most recent call last):\nRuntimeError: {text}\n"
    found = search.rank(
        log_reading.from_text(report),
        known,
        None,
        SignatureIndex(catalogue.signatures),
        JUDGE,
    )
    assert name in [candidate.id for candidate in found.candidates[:2]] and found.confidence


def test_words_that_say_nothing_get_nothing(known):
    signatures = SignatureIndex(bundle.load().signatures)
    found = search.rank(log_reading.from_text("hello"), known, None, signatures, JUDGE)
    assert found == search.Found((), 0.0, "")


def test_nothing_is_learned_from_what_is_held_out():
    """By address, by entry, by tracker, and by text."""
    catalogue = bundle.load()
    entries, trackers = corpus.held_out()
    assert len(entries) == 60 and len(trackers) == 5 and entries <= set(catalogue.by_id)
    unseen = [case for cases in measure.sets().values() for case in cases]
    for name in ("fresh", "by_time"):
        unseen += read_cases(ROOT / f"evals/sets/{name}.jsonl")
    unseen += [c for c in read_cases(ROOT / "evals/cases.jsonl") if c.half == "reporting"]
    sealed = gzip.decompress(corpus.SEALED.read_bytes()).decode().splitlines()
    texts = {
        " ".join(text.split())
        for text in [*(case.text for case in unseen), *(json.loads(s)["text"] for s in sealed)]
    }
    assert len(sealed) == 299
    learned = list(corpus.reports(catalogue))
    assert len(learned) > 50_000 and sum(judged for _, judged in learned) > 300
    for report, _ in learned:
        assert entries.isdisjoint(report.labels)
        assert " ".join(report.text.split()) not in texts
