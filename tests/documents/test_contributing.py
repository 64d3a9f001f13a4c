"""CONTRIBUTING.md and the issue forms: the samples pass the program's own checks, and what is named exists."""

import hashlib
import json
import re
import textwrap
from datetime import date
from pathlib import Path

import pytest
import yaml
from remote_gpu_trainer.catalogue import bundle as catalogue
from remote_gpu_trainer.catalogue.entry import SEVERITIES
from remote_gpu_trainer.catalogue.lint import lint

from tests.conftest import ROOT
from tools.generated_docs.documents import MAPPED
from tools.generated_docs.modules_of_rooms import modules_of

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ENTRY_GUIDE = (ROOT / "docs/guides/add-an-entry.md").read_text(encoding="utf-8")
CASES = (ROOT / "evals/README.md").read_text(encoding="utf-8")
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
FORMS = sorted(
    path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"
)


def fenced(page: str, language: str) -> list[str]:
    return [
        textwrap.dedent(text)
        for text in re.findall(rf"^ *```{language}\n(.*?)^ *```$", page, re.S | re.M)
    ]


def test_the_sample_entry_passes_lint(bundle):
    [entry] = fenced(ENTRY_GUIDE, "markdown")
    other = entry.replace("O99", "O1").replace(
        "**Tell apart:** O1: the loss doesn't fall at all\n\n", ""
    )
    root = bundle({"a.md": f"# A page\n\n## Part\n\n{entry}\n{other}"})
    found = catalogue.read(root)
    assert {entry.id for entry in found.entries} == {"O1", "O99"}
    assert lint(found, date(2026, 12, 31)) == []


def test_the_sample_case_has_the_id_that_the_command_prints():
    [line] = fenced(CASES, "json")
    case = json.loads(line)
    assert case["id"] == hashlib.sha256(case["source"].encode()).hexdigest()[:10]
    assert f"printf %s {case['source']} |" in CASES
    assert all(id in catalogue.load().by_id for id in case["expect"])


def test_the_severities_are_named():
    assert all(f"`{name}`" in ENTRY_GUIDE for name in SEVERITIES)


PACKAGE = ROOT / "server/remote_gpu_trainer"
PAGES = (
    "CONTRIBUTING.md", "SECURITY.md", "evals/README.md", "tests/README.md",
    "docs/rooms.md", "docs/guides/add-an-entry.md", "docs/guides/add-a-platform.md",
)  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
def test_every_file_in_back_ticks_exists(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./-]+\w\.(?:py|md|sh|j2|toml|txt|tsv|jsonl?|yaml))`", text))
    folders = ((ROOT / page).parent, ROOT, PACKAGE)
    below = [{path.name for path in top.rglob("*.*")} for top in {folders[0], PACKAGE} - {ROOT}]
    missing = [
        name
        for name in named
        if not any((folder / name).is_file() for folder in folders)
        and not ("/" not in name and any(name in held for held in below))
    ]
    assert named and missing == []


ROOMS = re.findall(
    r"remote_gpu_trainer\.(\w+)", re.findall(r"^layers = \[\n(.*?)^\]", PROJECT, re.S | re.M)[0]
)


def rows(text: str) -> list[list[str]]:
    """The rows of the tables that say where to change what."""
    tables = re.findall(r"^\| To change \| Go to \|\n.*\n((?:\|.*\n)+)", text, re.M)
    return [line.strip("|\n").split(" | ", 1) for table in tables for line in table.splitlines()]


def named_file(name: str) -> Path | None:
    found = [root / name for root in (PACKAGE, ROOT)]
    return next((path for path in found if path.is_file()), None)


def faults_of_row(page: str, what: str, where: str) -> list[str]:
    """Each name belongs to the file before it: `file.py`: `function`, `TABLE`."""
    text, faults = "", []
    for name in re.findall(r"`([^` ]+)`", where):
        if re.search(r"\.\w+$", name):
            path = named_file(name)
            if path is None:
                faults.append(f"{page}: {what.strip()}: no file {name}")
            text = path.read_text(encoding="utf-8") if path else text
        elif not text or not re.fullmatch(r"[a-zA-Z_]\w+", name) or name.endswith("_"):
            continue
        elif not re.search(rf"\b{name}\b", text):
            faults.append(f"{page}: {what.strip()}: {name} isn't in the file before it")
    return faults if text else [*faults, f"{page}: {what.strip()}: names no file"]


def test_a_place_to_change_something_exists_with_what_is_named_in_it():
    pages = {f"{room}/README.md": PACKAGE / room / "README.md" for room in ROOMS}
    pages["CONTRIBUTING.md"] = ROOT / "CONTRIBUTING.md"
    faults = []
    for name, path in pages.items():
        found = rows(path.read_text(encoding="utf-8"))
        if not found:
            faults.append(f"{name}: no table of what to change where")
        faults += [fault for row in found for fault in faults_of_row(name, *row)]
    assert faults == []


def test_every_room_is_on_the_map_in_the_order_of_the_layers():
    told = re.findall(
        r"^\| \[`(\w+)/`\]\(server/remote_gpu_trainer/(\w+)/README\.md\) \|", PAGE, re.M
    )
    assert told == [(room, room) for room in ROOMS]


def test_the_way_of_a_log_and_of_a_run_names_files_that_are_there():
    text = (ROOT / "docs/rooms.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\b([a-z_]+/[a-z_]+\.py)\b", text))
    assert named and [name for name in sorted(named) if named_file(name) is None] == []


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_is_one_that_github_takes(form):
    read = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert (
        set(read) <= {"name", "description", "title", "labels", "body"}
        and read["name"]
        and read["description"]
    )
    fields = [part for part in read["body"] if part["type"] != "markdown"]
    assert {part["type"] for part in read["body"]} <= {
        "markdown",
        "textarea",
        "input",
        "checkboxes",
    }
    assert (
        len({part["id"] for part in fields})
        == len(fields)
        == len({part["attributes"]["label"] for part in fields})
    )
    assert all(re.fullmatch(r"[\w-]+", part["id"]) for part in fields)
    assert any(part.get("validations", {}).get("required") for part in fields)


def test_there_is_a_form_for_each_kind_of_report_and_the_wrong_answer_asks_for_its_text():
    assert [form.stem for form in FORMS] == ["new-failure", "platform-correction", "wrong-answer"]
    body = yaml.safe_load(
        (ROOT / ".github/ISSUE_TEMPLATE/wrong-answer.yml").read_text(encoding="utf-8")
    )["body"]
    asked = next(part for part in body if part.get("id") == "looked-up")
    assert asked["validations"]["required"] is True
    assert isinstance(
        yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE/config.yml").read_text())[
            "blank_issues_enabled"
        ],
        bool,
    )


@pytest.mark.parametrize("room", MAPPED)
def test_a_room_lists_each_of_its_modules(room):
    listed = {name for name, _ in modules_of(room)}
    there = {path.relative_to(PACKAGE).as_posix() for path in (PACKAGE / room).rglob("*.py")}
    assert there - listed <= {f"{room}/__init__.py"}, "a module without a docstring is on no map"
