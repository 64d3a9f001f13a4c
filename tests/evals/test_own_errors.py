"""Logs that end by their user's own mistake are graded: a wrong claim and a missing one are seen."""

import gzip
import json
import sys

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "evals"))

from grading import own_errors

LOG = """\
epoch 1 loss 0.7
Traceback (most recent call last):
  File "/home/me/train.py", line 12, in <module>
    rate = settings["learning_rate"]
KeyError: 'learning_rate'
"""
OWN = {"id": "1", "mistake": "a misspelt key", "at": "train.py:12", "expect": [], "log": LOG}
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total"
OOM += " capacity of 79.10 GiB of which 1.00 GiB is free. Process 1 has 78.00 GiB memory in use.\n"


def graded(folder, *cases):
    path = folder / "set.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(c) + "\n" for c in cases).encode()))
    return own_errors.run(path), own_errors.misses(path)


def test_silence_and_the_named_line_count_as_right(tmp_path):
    (table, below), missed = graded(tmp_path, OWN)
    assert "| no entry is about it, and none is claimed | 1 | 1 |" in table
    assert "| no entry is about it, and the user's own line is named | 1 | 1 |" in table
    assert not below and not missed


def test_another_line_than_the_users_own_is_not_right(tmp_path):
    (_, below), missed = graded(tmp_path, {**OWN, "at": "train.py:13"})
    assert below == [
        "own errors: no entry is about it, and the user's own line is named: 0.000, expected at"
        " least 0.7"
    ]
    assert missed.startswith("1: found nothing, expected nothing")


def test_a_claim_about_an_own_mistake_and_one_on_a_healthy_log_are_seen(tmp_path):
    wrong = {**OWN, "log": LOG + OOM}
    well = {**OWN, "id": "2", "at": "", "log": OOM}
    (_, below), missed = graded(tmp_path, wrong, well)
    assert any("none is claimed: 0.000" in line for line in below)
    assert any("the run ended well" in line for line in below)
    assert missed.startswith("1: found U10") and "\n2: found U10" in missed


def test_an_entry_that_is_wanted_must_lead(tmp_path):
    (table, below), _ = graded(tmp_path, {**OWN, "log": OOM, "expect": ["U10"]})
    assert "| an entry is about it, and leads | 1 | 1 |" in table and not below
