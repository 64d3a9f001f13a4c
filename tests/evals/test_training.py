"""What the encoder is trained from, and what nothing may learn from."""

import random
import sys
from collections import Counter
from dataclasses import replace

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.retrieval import encoder

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "evals"))

import train
from grading import unseen
from grading.cases import read_cases
from training import BASE, corpus, judge


@pytest.fixture(scope="module")
def reports():
    return list(corpus.reports(bundle.load(), train.known_ids()))


def test_nothing_is_learned_from_what_is_held_out(reports):
    """By entry, by tracker, by address and by text."""
    entries, trackers = unseen.held_out()
    assert len(entries) == 60 and len(trackers) == 5 and entries <= set(bundle.load().by_id)
    kept = unseen.together(unseen.sets())
    for name in ("fresh.jsonl", "by_time.jsonl"):
        kept += read_cases(unseen.SETS / name)
    kept += [c for c in read_cases(ROOT / "evals/cases.jsonl") if c.half == "reporting"]
    sealed = read_cases(unseen.SEALED)
    texts = {" ".join(case.text.split()) for case in [*kept, *sealed]}
    assert len(sealed) == 299
    assert len(reports) > 50_000 and sum(judged for _, judged in reports) > 300
    for report, _ in reports:
        assert entries.isdisjoint(report.labels)
        assert " ".join(report.text.split()) not in texts


def test_no_thread_of_the_sets_that_measure_is_learned(monkeypatch):
    told = [("x" * 50, ["O3"], source, 1.0, False) for source in sorted(unseen.shut())[:3]]
    told += [("y" * 50, ["O3"], "https://github.com/huggingface/accelerate/issues/1", 1.0, False)]
    told += [("z" * 50, ["AD8"], "", 1.0, False), ("w" * 50, ["O3"], "https://a", 1.0, False)]
    monkeypatch.setattr(corpus, "_all", lambda catalogue, known: told)
    assert [report.text[0] for report, _ in corpus.reports(bundle.load(), frozenset())] == ["w"]


def test_an_entry_newer_than_the_encoder_asks_for_no_new_one(reports):
    newer = set(bundle.load().by_id) - train.known_ids()
    assert newer
    assert not any(newer & set(report.labels) for report, _ in reports)


def test_the_encoder_and_the_judge_were_made_from_what_lies_here(reports):
    learned, judged = ([r for r, is_judged in reports if is_judged == b] for b in (False, True))
    about = train.made_from(learned, train.STEPS)
    assert train.check(about, judged) == []
    judged[0] = replace(judged[0], labels=("U6",))
    [told] = train.check(about, judged)
    assert told == "judge.json was fitted on other reports; run python evals/train.py --judge"


def test_other_reports_another_model_and_other_cards_are_named(monkeypatch):
    monkeypatch.setattr(train.index, "is_current", lambda *_: False)
    other = corpus.Report("a report that is not there", ("O3",), 1.0, True)
    told = "\n".join(train.check(train.made_from([other], 1), []))
    assert "other reports" in told and "other steps" in told and "other base" not in told
    assert "vectors.txt was made from other cards; run rgt dev docs --write" in told
    monkeypatch.setitem(BASE, "model.safetensors", "0" * 64)
    assert "other base" in "\n".join(train.check(train.made_from([other], 1), []))


def test_reports_of_rare_entries_are_drawn_more_often_than_they_occur():
    def of(name):
        return corpus.Report(name, (name,), 1.0, False)

    often, rare = [of("often")] * 90, [of("rare")] * 10
    random.seed(0)
    stream = train._endless([*often, *rare], evenly=True)
    drawn = Counter(next(stream).text for _ in range(2000))
    assert 0.15 < drawn["rare"] / 2000 < 0.35
    stream = train._endless([*often, *rare], evenly=False)
    assert Counter(next(stream).text for _ in range(100)) == {"often": 90, "rare": 10}


def test_the_first_label_counts_most_and_a_strange_report_is_none_of_them():
    pytest.importorskip("torch")
    batch = [
        corpus.Report("", labels, 1.0, True) for labels in (("A",), ("B", "A"), ("A", "B", "C"), ())
    ]
    found = train._targets(batch, {"A": 0, "B": 1, "C": 2}).tolist()
    wanted = [[1, 0, 0, 0], [0.3, 0.7, 0, 0], [0.7, 0.15, 0.15, 0], [0, 0, 0, 1]]
    assert [[round(value, 4) for value in row] for row in found] == wanted


def test_the_trained_model_says_the_same_in_torch_and_in_the_package():
    """The package computes in NumPy with weights of 8 bits what was trained in torch."""
    torch = pytest.importorskip("torch")
    numpy = pytest.importorskip("numpy")
    from training.bert import Bert, padded

    draw = numpy.random.default_rng(0)
    words = ["[UNK]", "[CLS]", "[SEP]", "out", "of", "mem", "##ory", ":"]
    own, width = {}, encoder.WIDTH

    def put(name, *shape):
        own[name] = torch.tensor(draw.normal(0, 0.05, shape), dtype=torch.float32)

    def norm(name):
        own[f"{name}.weight"], own[f"{name}.bias"] = torch.ones(width), torch.zeros(width)

    for name, rows in (("word", len(words)), ("position", 512), ("token_type", 2)):
        put(f"embeddings.{name}_embeddings.weight", rows, width)
    norm("embeddings.LayerNorm")
    for layer in range(encoder.LAYERS):
        at = f"encoder.layer.{layer}."
        for name, (rows, columns) in {
            "attention.self.query": (width, width),
            "attention.self.key": (width, width),
            "attention.self.value": (width, width),
            "attention.output.dense": (width, width),
            "intermediate.dense": (4 * width, width),
            "output.dense": (width, 4 * width),
        }.items():
            put(f"{at}{name}.weight", rows, columns)
            put(f"{at}{name}.bias", rows)
        norm(f"{at}attention.output.LayerNorm")
        norm(f"{at}output.LayerNorm")
    model = Bert(own)
    arrays = encoder.quantized(model.weights(), "\n".join(words))
    shipped = encoder.Encoder(arrays)
    texts = ["out of memory", "memory: out"]
    rows = [
        encoder.WordPiece({word: row for row, word in enumerate(words)}).pieces(text, 128)
        for text in texts
    ]
    with torch.no_grad():
        trained = model(*padded(rows, "cpu")).numpy()
    for text, vector in zip(texts, trained, strict=True):
        assert float(shipped.vector(text) @ vector) > 0.99
    frozen = {name for name, value in model.named_parameters() if not value.requires_grad}
    assert any("layer/2/" in name for name in frozen)
    assert not any("layer/3/" in name for name in frozen)


def test_a_fitted_chance_is_right_as_often_as_it_says():
    numpy = pytest.importorskip("numpy")
    draw = numpy.random.default_rng(1)
    right = (draw.random(4000) < 0.6).astype("f")
    signs = numpy.stack([right + draw.normal(0, 1, 4000), draw.normal(0, 1, 4000)], 1)
    *weights, constant = judge._fitted(signs, right)
    sure = 1 / (1 + numpy.exp(-(signs @ numpy.array(weights)) - constant))
    for low, high in ((0.3, 0.5), (0.5, 0.7), (0.7, 0.9)):
        part = (sure >= low) & (sure < high)
        assert abs(right[part].mean() - sure[part].mean()) < 0.06
