"""The table and the torture as they were recorded: every cell kept its promises."""

import json

from tests.conftest import ROOT
from tests.torture.draw import draw

from .campaign import TABLE

RECORDS = ROOT / "tests/records"


def read(name: str) -> dict:
    """The record; a row that was run again has the commit of that run, and what was `wrong_before`.

    `messages`: how many were sent.
    """
    return json.loads((RECORDS / name).read_text(encoding="utf-8"))


def test_each_recorded_cell_is_right():
    record = read("bench.json")
    assert len(record["commit"]) == 40
    for row in record["results"]:
        assert not row["wrong"] and not row["void"], row


def test_the_recorded_table_has_every_cell_once():
    cells = [row["cell"] for row in read("bench.json")["results"]]
    assert len(cells) == len(set(cells)) and set(cells) == TABLE


def test_each_recorded_run_of_the_torture_is_right():
    record = read("torture.json")
    assert len(record["commit"]) == 40
    assert [row["seed"] for row in record["results"]] == list(range(1, 201))
    for row in record["results"]:
        names = [fault.split()[0] for fault in row["faults"]]  # without what came of it
        assert (row["shape"], names, row["seed"]) == draw(row["seed"]), row
        assert not row["wrong"] and not row["void"], row
