"""A catalogue that is many times as large.

Every entry comes again under other ids, with signatures and a place in the index of its own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy
from remote_gpu_trainer.catalogue.bundle import load
from remote_gpu_trainer.catalogue.entry import Entry
from remote_gpu_trainer.catalogue.signatures import SignatureIndex
from remote_gpu_trainer.retrieval import encoder, index, ranking
from remote_gpu_trainer.retrieval.ranking import load_judge

COPIED = 0.99  # what a copy's words and meaning are worth, beside its original's


def larger(times: int) -> tuple[dict[str, Entry], ranking.Retriever]:
    """Entries by id, and what a look-up asks, with `times` as many entries."""
    entries = list(load().entries)
    for copy in range(1, times):
        for entry in load().entries:
            signatures = tuple(replace(s, text=f"{s.text} copy{copy}") for s in entry.signatures)
            entries.append(replace(entry, id=f"{entry.id}C{copy}", signatures=signatures))
    signatures = SignatureIndex((entry.id, entry.signatures) for entry in entries)
    counted = index.Postings.count(load().entries)
    postings = _repeated(counted, [entry.id for entry in entries], times)
    worth = numpy.repeat(_worth(times), len(load().entries)).astype("f")[:, None]
    made = index.Index(postings, numpy.tile(index.load().points, (1, times, 1)) * worth)
    retriever = ranking.Retriever(made, encoder.load(), load_judge(), signatures)
    return {entry.id: entry for entry in entries}, retriever


def _repeated(postings: index.Postings, ids: list[str], times: int) -> index.Postings:
    """The postings of these ids: the originals, then each copy of all of them."""
    count = len(postings.ids)
    rows = numpy.repeat(numpy.arange(len(postings.words)), numpy.diff(postings.starts))
    order = numpy.argsort(numpy.tile(rows, times), kind="stable")
    columns = postings.columns.astype("int64") + count * numpy.arange(times)[:, None]
    weights = postings.weights.astype("f") * _worth(times)[:, None]
    return index.Postings(
        ids,
        postings.words,
        postings.starts.astype("int64") * times,
        columns.ravel()[order],
        weights.ravel()[order],
    )


def _worth(times: int) -> numpy.ndarray:
    """What the words and meanings of each copy are worth, the originals first."""
    return numpy.where(numpy.arange(times) > 0, COPIED, 1.0)
