"""What is in preparation keeps to the grammar, together with the catalogue, so that it can move without repairs."""

import importlib.util
import re
import shutil
import sys
from datetime import date

import pytest

from remote_gpu_trainer import catalogue
from remote_gpu_trainer.lint import lint
from tests.conftest import ROOT

PAGES = sorted((ROOT / "drafts/profiles").glob("*.md"))


@pytest.fixture(scope="module")
def model():
    """drafts/profile.py, which isn't in a package yet."""
    spec = importlib.util.spec_from_file_location("draft_profile", ROOT / "drafts/profile.py")
    found = importlib.util.module_from_spec(spec)
    sys.modules["draft_profile"] = found
    spec.loader.exec_module(found)
    return found


def test_the_drafts_and_the_catalogue_have_no_findings_together(tmp_path):
    shutil.copytree(ROOT / "references", tmp_path / "references")
    shutil.copytree(ROOT / "drafts/profiles", tmp_path / "profiles")
    read = catalogue.read(tmp_path)
    assert len(read.entries) > len(catalogue.load().entries) + 100
    assert [str(fault) for fault in lint(read, date.today())] == []


def test_no_draft_is_in_the_look_up():
    assert not any("drafts" in entry.path or "profiles" in entry.path for entry in catalogue.load().entries)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_facts_of_a_page_keep_to_the_model_and_its_name(page, model):
    facts, body = model.read(page)
    assert facts.name == page.stem and body.lstrip().startswith("# ")


def test_a_fact_of_another_kind_or_a_page_without_facts_is_refused(tmp_path, model):
    text = PAGES[-1].read_text(encoding="utf-8")
    for old, new, said in ((r"status: \"?confirmed\"?", "status: sure", "status"), (r"source: .*", "source: hearsay", "source"), (r"\A---\n", "", "front matter")):
        page = tmp_path / "p.md"
        changed = re.sub(old, new, text, count=1)
        assert changed != text
        page.write_text(changed, encoding="utf-8")
        with pytest.raises(model.ProfileError, match=said):
            model.read(page)
