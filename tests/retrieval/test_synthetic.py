"""The larger catalogue that the benchmarks measure: the look-up ranks all of it."""

from datetime import date

from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.logs import reading
from remote_gpu_trainer.lookup.steps import look_up

from benchmarks import synthetic


def test_copies_are_ranked_beside_their_originals():
    entries, retriever = synthetic.larger(3)
    asked = reading.from_text("RuntimeError: element 0 of tensors does not require grad")
    assert retriever.index.ids == list(entries)
    assert len(entries) == 3 * len(bundle.load().entries)
    found = [candidate.id for candidate in retriever.rank(asked).candidates]
    assert {"O3", "O3C1", "O3C2"} <= set(found)
    [first, *_] = look_up(asked, entries, retriever, limit=3, today=date(2026, 11, 20)).matches
    assert first["id"] == "O3"
