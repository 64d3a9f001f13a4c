"""What the small networks learn from: cut and joined reports, labels, and a teacher's chances."""

import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "evals"))

from training import pool

REPORTS = [
    "The loss stays flat. I use two cards. It shows nothing at all.",
    "显存在训练的过程中一直慢慢地往上涨。第三个 epoch 就爆了，重启也没有用。",
    "Killed.",
]


def test_reports_stand_whole_beside_their_parts_and_no_text_twice():
    found = pool.texts(REPORTS, ["asked as it is, whatever it says"], {})
    assert {
        *REPORTS,
        "asked as it is, whatever it says",
        "It shows nothing at all.",
        "显存在训练的过程中一直慢慢地往上涨。",
    } <= set(found)
    assert len(found) == len(set(found)) > len(REPORTS) + 1
    assert found == pool.texts(REPORTS, ["asked as it is, whatever it says"], {})


def test_joined_texts_hold_sentences_of_reports_only():
    sentences = {
        part.strip() for report in REPORTS for part in pool._SENTENCE.split(report) if part.strip()
    }
    for text in pool.texts(REPORTS, [], {}):
        rest = text
        for sentence in sorted(sentences, key=len, reverse=True):
            rest = rest.replace(sentence, " ")
        assert not rest.strip()


def test_words_are_replaced_by_like_ones_only():
    found = pool.texts(["resume " * 40], [], {"resume": ["resumed", "continue"]})
    assert any("continue" in text or "resumed" in text for text in found)
    assert {word for text in found for word in text.split()} <= {"resume", "resumed", "continue"}


def test_a_label_and_a_chance_are_weighed_as_they_say():
    torch = pytest.importorskip("torch")
    from training.network import TAUGHT_SHARE, loss_of

    scores = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    chances = torch.tensor([[0.25, 0.75]]).log().half()
    hard = 1.5 * (math.log(math.exp(2) + 1) - 2)
    soft = -TAUGHT_SHARE * (0.25 * -math.log(1 + math.e) + 0.75 * (1 - math.log(1 + math.e)))
    assert float(loss_of(scores, [0, 1], [0], [1.5], chances, 0.0)) == pytest.approx(
        (hard + soft) / 2, abs=1e-3
    )
    assert float(loss_of(scores[:1], [0], [0], [1.5], None, 0.0)) == pytest.approx(hard, abs=1e-5)


def test_networks_learn_from_chances_what_no_label_says():
    numpy = pytest.importorskip("numpy")
    from training import head, network

    classes, words = ["A", "B"], {"labelled": 1.0, "other": 1.0, "told": 1.0}
    samples = [
        ({"labelled": 1.0}, "A", 1.0),
        ({"other": 1.0}, "B", 1.0),
        ({"told": 1.0, "labelled": 0.1}, "A", 0.01),
    ] * 40
    sure = numpy.log(numpy.array([[0.02, 0.98]] * 120, dtype="float32")).astype("float16")
    taught = network.Taught(
        [{"told": 1.0}] * 120, numpy.array([[0.0, 1.0]] * 120, dtype="float32"), sure
    )
    learned = network.learn(samples, classes, dict.fromkeys(words, 1.0), taught)
    hidden = numpy.maximum(
        0, 3.0 * learned.words[learned.vocabulary.index("told")] + learned.hidden_bias
    )
    assert (hidden @ learned.classes + learned.bias).argmax() == 1
    plain = network.learn(samples, classes, dict.fromkeys(words, 1.0))
    hidden = numpy.maximum(0, 3.0 * plain.words[plain.vocabulary.index("told")] + plain.hidden_bias)
    assert (hidden @ plain.classes + plain.bias).argmax() == 0
    points = numpy.array([[1.0, 0.0]] * 120, dtype="float32")
    made = head.learn(points, ["A"] * 120, [1.0] * 120, classes, taught)
    for point, wanted in (([1.0, 0.0], 0), ([0.0, 1.0], 1)):
        inner = numpy.maximum(0, 8.0 * numpy.array(point) @ made.points + made.hidden_bias)
        assert (inner @ made.classes + made.bias).argmax() == wanted


def test_an_encoder_is_read_again_from_its_bytes():
    torch = pytest.importorskip("torch")
    from training import encoder

    torch.manual_seed(1)
    model = encoder.Encoder(torch.randn(5, encoder.INNER), encoder.OUTER).eval()
    torch.nn.init.normal_(model.heaviness.weight)
    read, pieces, about = encoder.unpacked(
        encoder.pack(model, ["a", "##b", "卡", "d", "e"], {"model": "none"})
    )
    assert pieces == ["a", "##b", "卡", "d", "e"] and about == {"model": "none"}
    rows, lengths = torch.tensor([0, 1, 2, 3, 4, 4]), torch.tensor([2, 4])
    with torch.no_grad():
        cosines = torch.nn.functional.cosine_similarity(
            model(rows, lengths), read.eval()(rows, lengths)
        )
    assert float(cosines.min()) > 0.99


def test_meaning_learns_what_a_teacher_tells_apart_and_stays_near():
    torch, numpy = pytest.importorskip("torch"), pytest.importorskip("numpy")
    from training import encoder, encoder_taught

    torch.manual_seed(1)
    model = encoder.Encoder(0.1 * torch.randn(4, encoder.INNER), encoder.OUTER)
    texts = [[0, 2], [1, 2], [0, 3], [1, 3]] * 40
    sure = numpy.log(numpy.array([[0.98, 0.02], [0.02, 0.98]] * 80, dtype="float32")).astype(
        "float16"
    )
    before = encoder_taught._points(model.eval(), texts[:4])
    after = encoder_taught._points(
        encoder_taught.learn(model, texts, sure, told=lambda line: None), texts[:4]
    )
    assert float(after[0] @ after[1]) < float(before[0] @ before[1]) - 0.2
    assert float((before * after).sum(1).mean()) > 0.3


def test_reports_set_aside_are_real_and_read_once():
    from remote_gpu_trainer.catalogue import bundle
    from remote_gpu_trainer.retrieval import ranking
    from training import corpus

    practice = corpus.practice_reports(bundle.load(), ranking.load().column)
    aside = corpus.set_aside(practice)
    assert aside and all(not report["found"] and report["shared"] for report in aside)
    strange = [report for report in aside if report["labels"] == [ranking.NONE]]
    assert len(aside) / 2 < len(strange) < len(aside)
    assert len(aside) + len([report for report in practice if not report["aside"]]) == len(practice)
