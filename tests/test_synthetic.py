"""The larger catalogue that the benchmarks measure: the look-up ranks all of it."""

from datetime import date

from benchmarks import synthetic
from remote_gpu_trainer import catalogue, evidence, ranking
from remote_gpu_trainer.lookup import look_up
from remote_gpu_trainer.search import rank


def test_copies_are_ranked_beside_their_originals():
    entries, made, signatures = synthetic.larger(3)
    asked = evidence.from_text("RuntimeError: element 0 of tensors does not require grad")
    assert made.entries == list(entries)[: len(made.entries)] and len(made.entries) == 3 * len(ranking.load().entries)
    assert set(entries) - set(made.entries) == {entry.id for entry in catalogue.load().entries} - set(ranking.load().entries)
    assert {"O3", "O3C1", "O3C2"} <= {candidate.id for candidate in rank(asked, made, signatures).candidates}
    assert look_up(asked, entries, made, signatures, limit=3, today=date(2026, 11, 20)).matches[0]["id"] == "O3"
