"""A catalogue that is many times as large.

Every entry that the ranking knows comes again under other ids, with signatures and columns of its
own.
"""

from __future__ import annotations

from array import array
from dataclasses import replace

import numpy
from remote_gpu_trainer.catalogue.bundle import load
from remote_gpu_trainer.catalogue.entry import Entry
from remote_gpu_trainer.catalogue.signatures import SignatureIndex
from remote_gpu_trainer.retrieval import ranking
from remote_gpu_trainer.retrieval.matrices import Dense, Matrix, Sparse


def larger(times: int) -> tuple[dict[str, Entry], ranking.Ranking, SignatureIndex]:
    """Entries by id, ranking and signatures, with `times` as many entries.

    Copies vote as their originals do, a little less.
    """
    real, made = load(), ranking.Ranking(ranking.PLACE.read_bytes())
    if times == 1:
        return real.by_id, made, SignatureIndex(real.signatures)
    learned = [real.by_id[name] for name in made.classes[:-1]]
    entries = list(learned)
    for copy in range(1, times):
        for entry in learned:
            signatures = tuple(replace(s, text=f"{s.text} copy{copy}") for s in entry.signatures)
            entries.append(replace(entry, id=f"{entry.id}C{copy}", signatures=signatures))
    columns = len(made.classes)
    made.classes = (
        made.classes[:-1] + [entry.id for entry in entries[columns - 1 :]] + [ranking.NONE]
    )
    for name in ("_learned", "_counted", "_to_classes", "_of_head"):
        setattr(made, name, _widen(getattr(made, name), columns, times))
    made.bias = _repeat(made.bias[:-1], times) + made.bias[-1:]
    made.network_bias, made.meaning_bias = (
        _repeat(made.network_bias, times),
        _repeat(made.meaning_bias, times),
    )
    entries += [
        entry for entry in real.entries if entry.id not in made.classes
    ]  # found by their literal texts, once
    return (
        {entry.id: entry for entry in entries},
        made,
        SignatureIndex((entry.id, entry.signatures) for entry in entries),
    )


def _repeat(values: list[float], times: int) -> list[float]:
    """Copies of every class but the last, which is none."""
    return values[:-1] + [value - 0.5 for value in values[:-1]] * (times - 1) + values[-1:]


def _widen(matrix: Matrix, columns: int, times: int) -> Matrix:
    width = (columns - 1) * times + 1
    if isinstance(matrix, Dense):
        rows = numpy.frombuffer(matrix.bytes, numpy.uint8).reshape(-1, columns)
        return Dense(
            numpy.hstack([rows[:, :-1]] * times + [rows[:, -1:]]).tobytes(), width, matrix.scale
        )
    starts = numpy.frombuffer(matrix.starts, numpy.uint32).astype(numpy.int64)
    places, values = (
        numpy.frombuffer(matrix.places, numpy.uint16),
        numpy.frombuffer(matrix.values, numpy.int8),
    )
    counts = numpy.diff(starts)
    within = numpy.arange(len(values)) - numpy.repeat(starts[:-1], counts)
    wide_places, wide_values = (
        numpy.zeros(len(values) * times, numpy.uint16),
        numpy.zeros(len(values) * times, numpy.int8),
    )
    for copy in range(times):
        at = numpy.repeat(starts[:-1] * times + copy * counts, counts) + within
        last = places == columns - 1
        wide_places[at] = numpy.where(last, width - 1, places + copy * (columns - 1))
        wide_values[at] = numpy.where(last & (copy > 0), 0, values)
    return Sparse(
        array("I", (starts * times).astype(numpy.uint32).tobytes()),
        array("H", wide_places.tobytes()),
        array("b", wide_values.tobytes()),
        width,
        matrix.scale,
    )
