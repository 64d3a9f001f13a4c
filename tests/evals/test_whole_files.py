"""Whole files from real programs are graded, and the committed ones reach what they must."""

import gzip
import json
import sys
from types import SimpleNamespace

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "evals"))

import run_evals
from grading import whole_files

SET = ROOT / "evals" / "sets" / "whole_files.jsonl.gz"
KILLED = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch.\n"
CASE = {"id": "1", "name": "a.log", "log": KILLED, "expect": ["SLURM4"], "broken": True}


def graded(folder, **changes):
    path = folder / "set.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps({**CASE, **changes}).encode()))
    return whole_files.run(path)[1], whole_files.misses(path)


def test_the_committed_files_are_answered_as_well_as_they_were():
    assert whole_files.run(SET)[1] == []


def test_a_right_claim_passes_and_a_wrong_one_is_told(tmp_path):
    assert graded(tmp_path) == ([], "")
    below, missed = graded(tmp_path, expect=["U10"])
    assert "leads: 0 of 1" in below[0] and missed.startswith("1 a.log: found SLURM4")
    below, _ = graded(tmp_path, expect=[])
    assert "none is claimed: 0 of 1" in below[0]


def test_a_broken_run_may_not_be_called_free_of_errors(tmp_path):
    below, _ = graded(tmp_path, log="step 1 loss 0.5\n" * 9, expect=[])
    assert "isn't called free of errors: 0 of 1" in below[0]


def test_a_page_that_is_written_has_the_table_of_each_suite_over_logs(monkeypatch):
    suite = SimpleNamespace(run=lambda path: (f"table of {path.name}", []))
    files = {name: file for name, (_, file) in run_evals.OF_LOGS.items()}
    monkeypatch.setattr(run_evals, "OF_LOGS", {name: (suite, file) for name, file in files.items()})
    asked, tables = SimpleNamespace(suite="main", write=True, wrong=False), {}
    assert not run_evals._of_logs(asked, tables)
    assert tables == {name: f"table of {file}" for name, file in files.items()}
