"""The larger catalogue that the benchmarks measure: the look-up ranks all of it."""

from datetime import date

from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.lookup.answer import look_up
from remote_gpu_trainer.numbers import log_reading
from remote_gpu_trainer.retrieval import ranking
from remote_gpu_trainer.retrieval.search import rank

from benchmarks import synthetic


def test_copies_are_ranked_beside_their_originals():
    entries, made, signatures = synthetic.larger(3)
    asked = log_reading.from_text("RuntimeError: element 0 of tensors does not require grad")
    assert made.entries == list(entries)[: len(made.entries)] and len(made.entries) == 3 * len(
        ranking.load().entries
    )
    assert set(entries) - set(made.entries) == {entry.id for entry in bundle.load().entries} - set(
        ranking.load().entries
    )
    assert {"O3", "O3C1", "O3C2"} <= {
        candidate.id for candidate in rank(asked, made, signatures).candidates
    }
    assert (
        look_up(asked, entries, made, signatures, limit=3, today=date(2026, 11, 20)).matches[0][
            "id"
        ]
        == "O3"
    )
