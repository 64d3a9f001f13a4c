"""A catalogue that is many times as large.

Every entry comes again under other ids, with signatures and a place in the index of its own.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy
from remote_gpu_trainer.catalogue.bundle import load
from remote_gpu_trainer.catalogue.entry import Entry
from remote_gpu_trainer.catalogue.signatures import SignatureIndex
from remote_gpu_trainer.retrieval import encoder, index, search
from remote_gpu_trainer.retrieval.judge import load_judge

COPIED = 0.99  # what a copy's words and meaning are worth, beside its original's


def larger(times: int) -> tuple[dict[str, Entry], search.Retriever]:
    """Entries by id, and what a look-up asks, with `times` as many entries."""
    entries = list(load().entries)
    for copy in range(1, times):
        for entry in load().entries:
            signatures = tuple(replace(s, text=f"{s.text} copy{copy}") for s in entry.signatures)
            entries.append(replace(entry, id=f"{entry.id}C{copy}", signatures=signatures))
    signatures = SignatureIndex((entry.id, entry.signatures) for entry in entries)
    with numpy.load(index.PLACE) as arrays:
        made = index.Index(_repeated(dict(arrays), [entry.id for entry in entries], times))
    retriever = search.Retriever(made, encoder.load(), load_judge(), signatures)
    return {entry.id: entry for entry in entries}, retriever


def _repeated(
    arrays: dict[str, numpy.ndarray], ids: list[str], times: int
) -> dict[str, numpy.ndarray]:
    """The arrays of index.npz for these ids: the originals, then each copy of all of them."""
    head, count = json.loads(bytes(arrays["head"])), len(ids) // times
    head["made_from"] = dict.fromkeys(ids, "")
    worth = numpy.where(numpy.arange(times) > 0, COPIED, 1.0)[:, None]
    rows = numpy.repeat(numpy.arange(len(head["words"])), numpy.diff(arrays["starts"]))
    order = numpy.argsort(numpy.tile(rows, times), kind="stable")
    columns = arrays["columns"].astype("int64") + count * numpy.arange(times)[:, None]
    scales = [arrays["points/scale"] * one for one in worth[:, 0]]
    return {
        "head": numpy.frombuffer(json.dumps(head).encode(), "uint8"),
        "starts": arrays["starts"].astype("int64") * times,
        "columns": columns.ravel()[order],
        "weights": (arrays["weights"].astype("f") * worth).ravel()[order],
        "points": numpy.tile(arrays["points"], (1, times, 1)),
        "points/scale": numpy.concatenate(scales, 1).astype("f"),
    }
