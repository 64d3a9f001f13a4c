"""What a Fix costs is listed, and the costly ones say when to do it, or save the data first."""

import re

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.costly import costly_sentences

CATALOGUE = bundle.read(bundle.bundle_root())
ENTRIES = {entry.id: entry for entry in CATALOGUE.entries}
# Where in the first paragraph what saves or limits stands before what costs.
FIRST = [
    ("O7", "finite", "10×"),
    ("O22", "finite", "raise that group's rate"),
    ("M3", "before you start it again", "rent a box"),
    ("U3", "host memory", "go on from"),
    ("VAST5", "Copy off", "destroy"),
    ("VAST13", "Wait", "destroy"),
    ("VAST15", "Check that the results", "destroy instance"),
    ("RP14", "Copy off", "DELETE"),
    ("ENV11", "copy off", "restart the instance"),
    ("ENV23", "copy off", "restart the instance"),
]


@pytest.mark.parametrize(
    ("entry", "kind"),
    [("O7", "raises a rate"), ("D11", "raises a rate"), ("VAST1", "deletes"), ("M3", "pays")],
)
def test_a_costly_sentence_is_listed(entry, kind):
    rows = [line.split(": ", 2) for line in costly_sentences(CATALOGUE)]
    assert any(row[0] == entry and kind in row[1] for row in rows)


@pytest.mark.parametrize(("entry", "before", "cost"), FIRST)
def test_what_saves_or_limits_stands_before_what_costs(entry, before, cost):
    text = " ".join(ENTRIES[entry].fix.split("\n\n")[0].split())
    assert before in text and text.index(before) < text.index(cost)


def test_a_sentence_is_given_whole_with_its_id():
    lines = list(costly_sentences(CATALOGUE))
    assert all(re.match(r"\S+: (?:raises a rate|deletes|restarts|pays)", x) for x in lines)
