"""Which line of checkpoints a folder holds, and which steps were abandoned."""

import json

from remote_gpu_trainer.runner import lineage
from remote_gpu_trainer.runner.context import Run

from tests.runner.copying import events, fill, make


def noted(run: Run) -> lineage.Lineage:
    lineage.note(run)
    line = lineage.here(run)
    assert line
    return line


def test_a_line_names_what_the_folder_holds_and_counts_its_changes(tmp_path):
    run = make(tmp_path)
    lineage.note(run)
    assert lineage.here(run) is None, "no folder yet"
    fill(tmp_path, 10, 20)
    first = noted(run)
    assert first.names == ["step-10.pt", "step-20.pt"] and first.count == 1
    assert noted(run) == first, "nothing changed"
    fill(tmp_path, 30)
    (tmp_path / "ckpt/step-10.pt").unlink()
    (tmp_path / "ckpt/step-40.pt.tmp").write_text("half")
    second = noted(run)
    assert (second.id, second.count) == (first.id, 2) and not second.abandoned
    assert second.names == ["step-20.pt", "step-30.pt"]
    assert lineage.is_of(run, second) and not lineage.is_of(make(tmp_path, name="b"), second)


def test_steps_that_were_deleted_to_go_on_from_an_older_one_are_abandoned(tmp_path):
    run = make(tmp_path)
    fill(tmp_path, 30, 40, 100)
    noted(run)
    for step in (40, 100):
        (tmp_path / f"ckpt/step-{step}.pt").unlink()
    line = noted(run)
    assert line.abandoned == ["step-100.pt", "step-40.pt"]
    assert events(run, "abandoned")[0]["names"] == "step-100.pt, step-40.pt"
    fill(tmp_path, 40)
    assert noted(run).abandoned == ["step-100.pt"], "it is written again"
    assert len(events(run, "abandoned")) == 1


def test_what_was_set_aside_is_not_abandoned(tmp_path):
    run = make(tmp_path)
    fill(tmp_path, 30, 40)
    noted(run)
    (tmp_path / "ckpt/step-40.pt").rename(tmp_path / "ckpt/step-40.pt.torn.2")
    line = noted(run)
    assert line.names == ["step-30.pt"] and not line.abandoned


def test_a_folder_that_was_emptied_abandons_its_steps_once_there_are_others(tmp_path):
    run = make(tmp_path)
    fill(tmp_path, 30)
    noted(run)
    (tmp_path / "ckpt/step-30.pt").unlink()
    assert noted(run).names == ["step-30.pt"]
    fill(tmp_path, 10)
    assert noted(run).abandoned == ["step-30.pt"]


def test_a_broken_file_is_no_line(tmp_path):
    for text in ("", "[]", "{}", "null", '{"id": 1}', json.dumps({"id": "a", "count": "x"})):
        assert lineage.parse(text) is None
