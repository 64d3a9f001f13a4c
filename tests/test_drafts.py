"""What is in preparation keeps to the grammar, together with the catalogue, so that it can move without repairs."""

import shutil
from datetime import date

from remote_gpu_trainer import catalogue
from remote_gpu_trainer.lint import lint
from tests.conftest import ROOT


def test_the_drafts_and_the_catalogue_have_no_findings_together(tmp_path):
    shutil.copytree(ROOT / "references", tmp_path / "references")
    shutil.copytree(ROOT / "drafts" / "references", tmp_path / "references", dirs_exist_ok=True)
    read = catalogue.read(tmp_path)
    assert len(read.entries) > len(catalogue.load().entries)
    assert [str(fault) for fault in lint(read, date.today())] == []


def test_no_draft_is_in_the_look_up():
    assert not any("drafts" in entry.path for entry in catalogue.load().entries)
