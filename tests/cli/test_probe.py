"""`rgt probe` runs a program under the probe and ends as the program does."""

import json
import os
import sys

from tests.conftest import ROOT
from tests.programs import loaded, rgt

probe = loaded(ROOT / "scripts/probe.py")


def test_it_ends_with_the_code_of_the_program_and_writes_the_report(tmp_path):
    done = rgt("probe", "--json", tmp_path / "told.json", "--", sys.executable, "-c", "exit(3)")
    assert done.returncode == 3 and done.stdout == ""
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["verdict"] == "not looked at" and told["exit"] == 3
    assert "probe: not looked at" in done.stderr


def test_the_options_of_the_program_stay_with_the_program(tmp_path):
    (tmp_path / "train.py").write_text("import sys\nprint(sys.argv[1:])\n")
    done = rgt("probe", "--", "train.py", "--json", "x", "--steps", "2", "--", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == "['--json', 'x', '--steps', '2', '--']\n"


def test_without_a_program_it_says_where_to_write_one():
    done = rgt("probe")
    assert done.returncode == 2
    assert done.stderr == ("error: no program given; write it after --, as in -- python train.py\n")


def test_a_finding_shows_the_check_and_the_fix_of_its_entry():
    told = probe.advice({"O12", "T18b"}, str(ROOT))
    assert set(told) == {"O12", "T18b"}
    assert told["O12"]["fix"].startswith("Remove the softmax from the model")
    assert told["O12"]["check"].endswith("Raw scores are negative in places and sum to anything.")
    assert all(len(text) <= probe.MOST_TEXT + 2 for one in told.values() for text in one.values())
    report = dict(probe.finding("softmax twice", 1, "seen"), rank=0, ranks=[0], **told["O12"])
    text = probe.shown({"verdict": "wrong", "steps": 1, "processes": [{}], "findings": [report], "observations": {}})  # fmt: skip
    assert "    fix: Remove the softmax" in text and "    do: " not in text


def test_each_entry_that_the_probe_names_has_a_check_and_a_fix():
    ids = {kind[0] for kind in probe.KINDS.values()}
    told = probe.advice(ids, str(ROOT))
    assert set(told) == ids
    assert all(one["check"] and one["fix"] for one in told.values())


def test_alone_the_probe_needs_no_catalogue(tmp_path):
    assert probe.advice({"O12"}, "") == {}
    (tmp_path / "probe.py").write_text((ROOT / "scripts/probe.py").read_text())
    assert loaded(tmp_path / "probe.py").catalogue() == ""
    assert os.path.samefile(probe.catalogue(), ROOT)
