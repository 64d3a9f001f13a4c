"""README, SKILL.md and CI say what is true: generated parts are fresh, commands are the ones that run, the skill is valid."""

import re
import shutil
import subprocess
from urllib.parse import unquote

import pytest
from generated_docs.documents import outdated
from generated_docs.held_out_figures import percent
from generated_docs.other_figures import other_figures
from remote_gpu_trainer.catalogue import bundle as catalogue
from remote_gpu_trainer.lookup.budget import tokens

from tests.conftest import ROOT, valid_skill

README = (ROOT / "README.md").read_text(encoding="utf-8")


FIRST = re.search(r"```sh\n(.*?)```", README, re.S)[1].strip()


def fenced(heading: str) -> str:
    return re.search(rf"## {heading}\n.*?```sh\n(.*?)```", README, re.S)[1].strip()


def test_the_generated_parts_are_fresh():
    assert outdated(ROOT, write=False) == []


def test_an_old_generated_part_is_found_and_repaired(bundle, page):
    root = bundle({"a.md": "# A page\n\n## Contents\n\nold\n\n## Part\n\n" + page()})
    (root / "README.md").write_text("No marks here.\n")
    assert outdated(root, write=False) == ["references/a.md"]
    assert outdated(root, write=True) == ["references/a.md"]
    assert "- **Part**\n  - O3 · the loss has no way back" in (root / "references/a.md").read_text()
    assert outdated(root, write=False) == []


def test_the_two_commands_of_the_readme_are_one_line_each():
    assert FIRST.count("\n") == 1 and "\n" not in fenced("Test it")


def test_the_readme_shows_on_its_first_screen_what_it_is_for():
    first_screen = "\n".join(README.splitlines()[:25])
    for words in ("bill", "checkpoint", "rgt rehearse", "ok resume"):
        assert words in first_screen


def test_ci_runs_the_readmes_own_test_command_with_engines_required():
    script = (ROOT / ".ci/run").read_text()
    assert fenced("Test it") in script
    assert "REQUIRE_ENGINES=1" in script


def test_every_path_that_the_readme_names_exists():
    for name in re.findall(
        r"`((?:references|profiles|scripts|server|evals|examples)/[\w./-]*)`", README
    ) + re.findall(r"\]\(([\w./-]+)\)", README):
        assert (ROOT / name).exists(), name


def test_the_skill_is_valid_and_short(tmp_path):
    folder = tmp_path / "remote-gpu-trainer"
    folder.mkdir()
    shutil.copy(ROOT / "SKILL.md", folder)
    assert tokens((ROOT / "SKILL.md").read_text(encoding="utf-8")) < 3000
    valid_skill(folder)


def test_the_skill_lists_every_family():
    text = (ROOT / "SKILL.md").read_text(encoding="utf-8")
    for family, group in catalogue.load().families.items():
        row = rf"^\| (?:\w+, )*{family}(?:, \w+)* \| `{group[0].path}` \|$"
        assert re.search(row, text, re.M), family


def test_every_page_opens_with_its_triage_and_its_contents():
    for path in {entry.path for entry in catalogue.load().entries}:
        head = (ROOT / path).read_text(encoding="utf-8").split("\n### ")[0]
        listing = "Entries" if path.startswith("profiles/") else "Contents"
        assert f"\n## {listing}\n\n- **" in head, path
        assert "## Which of these is it?" in head, path
        assert len(re.findall(r"^\d\. ", head, re.M)) >= (
            2 if path.startswith("profiles/") else 3
        ), path


def test_the_triage_of_a_platform_leads_to_each_of_its_entries_and_nowhere_else():
    known = catalogue.load()
    for path in {entry.path for entry in known.entries if entry.path.startswith("profiles/")}:
        text = (ROOT / path).read_text(encoding="utf-8")
        triage = text.split("## Which of these is it?")[1].split("\n## Entries\n")[0]
        named = set(re.findall(r"\[([A-Z]+\d*[A-Z]*\d+)\]", triage))
        here = {entry.id for entry in known.entries if entry.path == path}
        assert named >= here and named <= known.by_id.keys(), (path, named ^ here)


def test_every_id_of_a_triage_is_an_entry():
    for path in {entry.path for entry in catalogue.load().entries}:
        head = (ROOT / path).read_text(encoding="utf-8").split("\n### ")[0]
        for name in re.findall(r"\b((?:O|D|DP|P|L|V|DF|R|X|C)\d{1,2})\b", head):
            assert catalogue.load().current(name) in catalogue.load().by_id, (path, name)


def test_every_id_within_a_range_of_ids_answers():
    known, families = catalogue.load(), catalogue.load().families
    pages = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True)
    ranges = [
        (page, *found)
        for page in pages.stdout.splitlines()
        for found in re.findall(
            r"\b([A-Z][A-Z0-9]*?)(\d+)–(?:\1)?(\d+)\b", (ROOT / page).read_text(encoding="utf-8")
        )
        if found[0] in families
    ]
    assert ranges
    missing = [
        (page, f"{family}{number}")
        for page, family, first, last in ranges
        for number in range(int(first), int(last) + 1)
        if known.current(f"{family}{number}") not in known.by_id
    ]
    assert missing == []


@pytest.mark.parametrize(
    "word", ["/".join(("", "work", "")), "/".join(("", "farm", "")), "/".join(("..", "shared"))]
)
def test_the_repository_names_no_path_of_the_machine_it_was_written_on(word):
    reports = [
        ":!references",
        ":!profiles",
        ":!evals/cases.jsonl",
        ":!evals/logs",
        ":!evals/sets/outside.jsonl",
        ":!evals/sets/fresh.jsonl",
        ":!evals/sets/by_time.jsonl",
        ":!evals/sets/waiting.jsonl",
    ]
    done = subprocess.run(
        ["git", "grep", "-nIF", word, "--", *reports], cwd=ROOT, capture_output=True, text=True
    )
    assert [line for line in done.stdout.splitlines() if "/workspace" not in line] == []


def test_the_skill_says_how_often_each_confidence_is_right_as_readme_does():
    shown = re.search(
        r"of 100 high ones (\d+) are right, of medium ones (\d+), of low ones (\d+)",
        (ROOT / "SKILL.md").read_text(),
    )
    figures = other_figures(ROOT)
    assert shown.groups() == tuple(
        percent(figures[name]).removesuffix(" %") for name in ("high", "medium", "low")
    )


LINKED = ("README*.md", "SKILL.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**/*.md")
LINKED += ("references/**/*.md", "profiles/*.md", "evals/*.md", "server/**/README.md")


@pytest.mark.parametrize(
    "path", [path for glob in LINKED for path in sorted(ROOT.glob(glob))], ids=str
)
def test_every_link_of_a_document_leads_to_a_file(path):
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    dead = [
        target
        for target in re.findall(r"\]\(([^)\s]+)\)", text)
        if not target.startswith(("https://", "http://", "mailto:", "#"))
        and not (path.parent / unquote(target.partition("#")[0])).exists()
    ]
    assert dead == []
