"""The moves among candidates: each keeps the order by probability, and none names an entry twice."""

import pytest
from remote_gpu_trainer.catalogue.entry import Signature
from remote_gpu_trainer.catalogue.signatures import Hit
from remote_gpu_trainer.logs.lines import Line
from remote_gpu_trainer.retrieval.ranking import (
    Candidate,
    Ranking,
    promote,
    put_first,
    put_second,
    second_from,
)

THREE = (Candidate("A1", 0.6), Candidate("B1", 0.3, words=("loss",)), Candidate("C1", 0.1))


def ids(candidates) -> list[str]:
    assert len({c.id for c in candidates}) == len(candidates)
    shares = [c.probability for c in candidates]
    assert shares == sorted(shares, reverse=True)
    return [c.id for c in candidates]


def hit(role: str) -> Hit:
    line = Line("0.log", 3, 0, "Target 10 is out of bounds")
    return Hit("Z1", Signature("is out of bounds", False, role), line, True)


@pytest.mark.parametrize(
    ("move", "name", "order"),
    [
        (put_first, "C1", ["C1", "A1", "B1"]),
        (put_first, "A1", ["A1", "B1", "C1"]),
        (put_first, "Z1", ["Z1", "A1", "B1", "C1"]),
        (put_second, "C1", ["A1", "C1", "B1"]),
        (put_second, "Z1", ["A1", "Z1", "B1", "C1"]),
    ],
)
def test_a_candidate_goes_where_it_is_put(move, name, order):
    assert ids(move(Candidate(name, 0.0), THREE)) == order


def test_the_first_is_never_put_second():
    assert put_second(Candidate("A1", 0.0), THREE) == THREE


def test_put_first_keeps_why_a_candidate_was_found():
    assert put_first(Candidate("B1", 0.0), THREE)[0].words == ("loss",)


def test_an_entry_is_promoted_where_it_is_a_later_candidate_of_a_claim():
    claimed = Ranking(THREE, "high", True, 4)
    promoted = promote("C1", claimed)
    assert ids(promoted.candidates) == ["C1", "A1", "B1"] and promoted.confidence == "medium"
    assert promoted.known_words == 4


@pytest.mark.parametrize(
    ("name", "confidence"), [("A1", "high"), ("Z1", "high"), ("C1", ""), ("", "low")]
)
def test_nothing_else_is_promoted(name, confidence):
    ranking = Ranking(THREE, confidence, True)
    assert promote(name, ranking) == ranking


def test_the_root_signature_of_all_ranks_comes_second():
    own, all_ranks = Ranking(THREE, ""), Ranking((Candidate("Z1", 0.9, hit("root")),), "medium")
    assert ids(second_from(all_ranks, own).candidates) == ["A1", "Z1", "B1", "C1"]


@pytest.mark.parametrize(
    "all_ranks",
    [
        Ranking((), "medium"),
        Ranking((Candidate("Z1", 0.9),), "medium"),
        Ranking((Candidate("Z1", 0.9, hit("root")),), ""),
        Ranking((Candidate("Z1", 0.9, hit("cascade")),), "medium"),
    ],
)
def test_likeness_and_what_waiting_ranks_say_come_second_never(all_ranks):
    own = Ranking(THREE, "medium")
    assert second_from(all_ranks, own) == own
    assert second_from(all_ranks, Ranking((), "")) == Ranking((), "")
