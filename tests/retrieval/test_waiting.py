"""waiting.bin: entries that the ranking hasn't learned, found in people's own words."""

import math
import subprocess
import sys
from array import array

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.lookup.look_up import answer_for
from remote_gpu_trainer.retrieval import binary_parts, ranking, waiting
from remote_gpu_trainer.retrieval.matrices import MIDDLE
from remote_gpu_trainer.retrieval.vocabulary import pack as pack_words

from tests.conftest import ROOT

PROSE = "Importing opencv in the slim container fails because a graphics library of the system can't be opened. On my laptop it works."
TITLE = "bitsandbytes tells me that it was compiled without GPU support although nvidia-smi shows the card"
BEHIND = "Building flash-attn with pip ends because the build can't find torch, although torch is installed in the same environment."


def made(
    limit: float = 0.5, words: dict[str, tuple[int, ...]] | None = None, bias=(0.0, 0.0, 1.0)
) -> waiting.Waiting:
    """Two entries and everything else; a point of two numbers. Coefficients are tenths."""
    words = words or {"driver": (40, 0, 0), "wheel": (0, 40, 0)}
    starts, places, values = array("I", [0]), array("H"), array("b")
    for row in words.values():
        told = [(column, value) for column, value in enumerate(row) if value]
        places.extend([column for column, _ in told])
        values.extend([value for _, value in told])
        starts.append(len(places))
    parts = {
        "word places starts": starts,
        "word places": places,
        "word values": values,
        "points": array("B", [MIDDLE + 20, MIDDLE, MIDDLE, MIDDLE, MIDDLE, MIDDLE + 20]),
    }
    parts["rarity"] = array("f", [2.0] * len(words))
    head = {
        "classes": ["A1", "A2", waiting.OTHER],
        "made_from": {},
        "limits": {"beside": limit, "alone": 0.98},
        "scales": {"words": 0.1, "points": 0.1},
        "bias": list(bias),
    }
    return waiting.Waiting(binary_parts.pack(head, parts | pack_words(list(words))))


def test_a_probability_is_the_softmax_of_words_meaning_and_bias():
    shares = made().shares({"driver": 1.0, "unknown": 5.0}, [0.5, 0.0])
    scores = [4.0 + 0.5 * 2.0, 0.0, 1.0]
    whole = sum(map(math.exp, scores))
    assert shares == pytest.approx([math.exp(score) / whole for score in scores], rel=1e-3)


def test_words_count_by_their_share_of_the_report():
    one, two = (
        made().shares({"driver": 1.0}, [0.0, 0.0]),
        made().shares({"driver": 3.0, "wheel": 4.0}, [0.0, 0.0]),
    )
    assert (
        math.log(two[0] / two[1]) == pytest.approx(4.0 * (0.6 - 0.8), rel=1e-2) and one[0] > two[0]
    )


def test_it_is_heard_only_where_it_is_sure_and_says_why():
    asked = {"driver": 1.0, "%log": 0.5, "driver+wheel": 1.0}
    assert made(limit=0.9).guess(asked, [0.0, 0.0]).id == "A1" and made(limit=0.9).guess(
        asked, [0.0, 0.0]
    ).words == ("driver",)
    assert [made(limit=limit).guess(asked, [0.0, 0.0]).enough for limit in (0.9, 0.97)] == [
        "beside",
        "title",
    ]
    assert made().guess({}, [0.0, 0.0]) is None


def test_a_damaged_file_is_named():
    with pytest.raises(ValueError, match="waiting.bin has .* bytes after its head, not"):
        waiting.Waiting(waiting.PLACE.read_bytes()[:-3])


def test_it_knows_the_entries_that_the_ranking_does_not():
    learned = ranking.load().column
    assert waiting.load().classes == [
        *(entry.id for entry in bundle.load().entries if entry.id not in learned),
        waiting.OTHER,
    ]


def test_people_s_own_words_find_an_entry_that_the_ranking_does_not_know():
    answer = answer_for(text=PROSE)
    assert (
        answer.matches[0]["id"] == "ENV14"
        and answer.matches[0]["confidence"] == "medium"
        and answer.matches[0]["why"].startswith("words: ")
    )
    assert answer.also, "one that no literal text found leaves titles to choose from"


def test_it_stands_behind_an_entry_that_is_claimed_unless_it_is_far_likelier():
    assert "ENV19" in [match["id"] for match in answer_for(text=BEHIND).matches[1:]]


def test_a_guess_too_weak_to_be_heard_is_a_title_where_titles_are_shown():
    answer = answer_for(text=TITLE)
    assert answer.also and answer.also[0]["id"] == "ENV7" and not answer.matches


def test_a_literal_text_decides_before_it():
    assert (
        answer_for(
            text=PROSE
            + "\nRuntimeError: CUDA error: no kernel image is available for execution on the device"
        ).matches[0]["id"]
        == "ENV1"
    )


def test_it_is_made_from_what_lies_here():
    done = subprocess.run(
        [sys.executable, str(ROOT / "evals/training/train_waiting.py"), "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
