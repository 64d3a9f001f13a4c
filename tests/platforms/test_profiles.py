"""The facts of the platform pages: they keep to the schema, the staleness check sees them, and a broken page is refused with its field."""

import re
from datetime import date
from typing import get_args

import pytest
import yaml
from remote_gpu_trainer.catalogue import bundle, front_matter
from remote_gpu_trainer.catalogue.facts import split
from remote_gpu_trainer.cli import main as cli
from remote_gpu_trainer.platforms import authoring, profile
from remote_gpu_trainer.platforms.profile import Facts, ProfileError

from tests.conftest import ROOT

PAGES = sorted((ROOT / "profiles").glob("[a-z]*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_keeps_to_the_schema_and_to_its_name(page):
    found, body = profile.read_page(page)
    assert found.name == page.stem and body.lstrip().startswith("# ")
    for heading in (
        "Launch",
        "Storage",
        "Network",
        "Interruption",
        "Teardown",
        "Running in the background",
    ):
        assert f"\n## {heading}\n" in body


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_staleness_check_sees_the_facts_of_the_schema(page):
    facts = profile.read_profile(page).facts
    there = {name: fact for name in Facts.model_fields if (fact := getattr(facts, name))}
    heads = front_matter.read_profiles(ROOT)[page.stem].fact_heads()
    assert {h.name: (h.source, h.date, h.status, h.kind) for h in heads} == {
        name: (fact.source, fact.date, fact.status, fact.kind) for name, fact in there.items()
    }


def test_a_value_is_the_text_that_its_page_has():
    """What a comment on another page is compared with."""
    seen = 0
    for page in PAGES:
        front = front_matter.read_profiles(ROOT)[page.stem]
        written = yaml.load(split(page.read_text(encoding="utf-8"))[0], yaml.BaseLoader)["facts"]
        for name, fact in written.items():
            fields = fact.get("value") if isinstance(fact, dict) else None
            for key, text in fields.items() if isinstance(fields, dict) else ():
                if isinstance(text, str) and text != "null":
                    seen += 1
                    assert front.value(name, key) == text, (page.stem, name, key)
    assert seen > 150


def test_most_facts_are_confirmed_and_what_is_unconfirmed_says_why():
    every = [
        (page.stem, name, getattr(profile.read_profile(page).facts, name))
        for page in PAGES
        for name in Facts.model_fields
    ]
    there = [item for item in every if item[2] is not None]
    assert sum(fact.status == "confirmed" for *_, fact in there) / len(there) >= 0.80
    assert [
        (name, key) for name, key, fact in there if fact.status == "unconfirmed" and not fact.note
    ] == []
    for name, key, fact in there:  # an undated page of the platform is a grade, and no mere guess
        if fact.status == "unconfirmed" and not fact.by:
            assert "page has no date" not in fact.note, (name, key)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_entry_of_a_page_is_in_the_catalogue(page):
    written = re.findall(r"^### ([A-Z0-9]+\d+) — ", page.read_text(encoding="utf-8"), re.M)
    found = [e.id for e in bundle.load().entries if e.path == f"profiles/{page.name}"]
    assert sorted(found) == sorted(written)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_page_keeps_the_form_of_a_new_one(page):
    """A fact that nobody found stays unknown, and its note says where somebody looked."""
    text = page.read_text(encoding="utf-8")
    assert authoring.HINT not in text and "://" + page.stem + ".example" not in text


@pytest.mark.parametrize("kind", get_args(profile.Profile.model_fields["kind"].annotation))
def test_the_form_of_a_page_has_each_fact_that_its_kind_needs_and_knows_none(tmp_path, kind):
    path = tmp_path / "newcloud.md"
    path.write_text(authoring.form("newcloud", "New: Cloud", kind, date(2026, 11, 30)))
    found, body = profile.read_page(path)
    assert (found.name, found.title, found.kind) == ("newcloud", "New: Cloud", kind)
    facts = {name: fact for name in Facts.model_fields if (fact := getattr(found.facts, name))}
    lacks = profile.OPTIONAL | profile.NOT_THERE.get(kind, frozenset())
    assert facts.keys() == Facts.model_fields.keys() - lacks
    assert all(
        fact.status == "unconfirmed"
        and fact.by is None
        and fact.date is None
        and fact.note == f"{authoring.HINT} (2026-11-30)."
        for fact in facts.values()
    )
    if found.facts.self_stop:  # no program runs the word "unknown"
        assert (found.facts.self_stop.value.possible, found.facts.self_stop.value.command) == (
            False,
            "",
        )
    assert all(f"\n## {part}\n" in body for part in authoring.GUIDE)


def test_new_platform_writes_a_page_into_a_checkout_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bundle, "bundle_root", lambda: tmp_path)
    (tmp_path / "profiles").mkdir()
    assert cli.main(["dev", "new-platform", "newcloud"]) == 2
    assert "isn't a checkout" in capsys.readouterr().err
    (tmp_path / "pyproject.toml").write_text("")
    assert cli.main(["dev", "new-platform", "newcloud", "--title", "New Cloud"]) == 0
    out, err = capsys.readouterr()
    page = tmp_path / "profiles/newcloud.md"
    assert out == f"{page}\n" and "rgt profile newcloud" in err
    assert profile.read_profile(page).title == "New Cloud"
    page.write_text("mine")
    assert cli.main(["dev", "new-platform", "newcloud"]) == 2
    assert "is there; edit it" in capsys.readouterr().err and page.read_text() == "mine"
    assert cli.main(["dev", "new-platform", "../x"]) == 2
    assert "can't be a page's name" in capsys.readouterr().err


@pytest.mark.parametrize(
    "old, new, said",
    [
        (r"\A---\n", "", "no YAML front matter; put it at the top"),
        (r"\n    source: [^\n]*", "", r"facts\.stop_billing\.source: Field required"),
        (
            r"\n    source: [^\n]*",
            "\n    source: hearsay",
            r"facts\.stop_billing\.source: String should match",
        ),
        (
            r"\n    status: [^\n]*",
            "\n    status: sure",
            r"facts\.stop_billing\.status: Input should be 'confirmed' or 'unconfirmed'",
        ),
        (r"\n    date: [^\n]*", "\n    date: null", "a confirmed fact needs a date"),
        (r"\n    date: [^\n]*", "\n    date: last spring", r"facts\.stop_billing\.date"),
        (r"\n  spot:\n", "\n  sport:\n", r"facts\.spot: Field required"),
        (
            r"      possible: true",
            "      possible: perhaps",
            r"facts\.self_stop\.value\.possible: Input should be a valid boolean",
        ),
        (
            r"\n  egress:\n(    [^\n]*\n)+",
            "\n  egress: null\n",
            r"runpod\.md: egress is null; write the fact",
        ),
        (r"\nname: runpod", "\nname: Run Pod", r"name: String should match"),
        (r"\nkind: rental", "\nkind: [", r"the front matter isn't YAML \(line 6: "),
    ],
)
def test_a_page_with_a_fact_missing_of_another_type_or_without_source_is_refused_by_name(
    tmp_path, old, new, said
):
    text = (ROOT / "profiles/runpod.md").read_text(encoding="utf-8")
    changed = re.sub(old, new, text, count=1)
    assert changed != text
    page = tmp_path / "runpod.md"
    page.write_text(changed, encoding="utf-8")
    with pytest.raises(ProfileError, match=said) as error:
        profile.read_profile(page)
    assert str(page) in str(error.value)


def test_the_faults_of_all_pages_are_told_at_once(tmp_path):
    (tmp_path / "profiles").mkdir()
    for name in ("aws", "gcp"):
        (tmp_path / "profiles" / f"{name}.md").write_text("# A page\n", encoding="utf-8")
    with pytest.raises(ProfileError) as error:
        profile.read_all(tmp_path)
    assert [line.split(": ")[0][-6:] for line in str(error.value).splitlines()] == [
        "aws.md",
        "gcp.md",
    ]


def test_an_unknown_profile_is_answered_with_the_names_there_are():
    with pytest.raises(ProfileError, match="unknown profile 'moon'; use one of autodl, aws"):
        profile.get("moon")


def test_a_misspelt_profile_is_answered_with_the_one_that_was_meant():
    with pytest.raises(ProfileError, match="unknown profile 'runpood'; did you mean runpod\\?"):
        profile.get("runpood")


def test_no_two_platforms_claim_one_token():
    tokens = [token for page in PAGES for token in profile.read_profile(page).tokens]
    assert len(tokens) == len(set(tokens))


def test_no_rental_tells_of_another_ones_containers_and_folders():
    rentals = {name: page for name, page in profile.load().items() if page.kind == "rental"}
    strangers = []
    for name, page in rentals.items():
        told = " ".join(f"{fact.value} {fact.note}" for _, fact in page.facts if fact)
        strangers += [
            f"{name} has {token} of {other}"
            for other, its in rentals.items()
            for token in its.tokens
            if other != name and token in told
        ]
    assert not strangers
