"""`new-entry` and `prove`: a form that lint refuses until it is filled, and proofs that count only when they ran."""

import os
import re
import shutil
from datetime import date

import pytest
from remote_gpu_trainer.catalogue import authoring
from remote_gpu_trainer.catalogue import bundle as catalogue
from remote_gpu_trainer.catalogue import proofs as proving
from remote_gpu_trainer.catalogue.bundle import CatalogueError
from remote_gpu_trainer.catalogue.lint import lint
from remote_gpu_trainer.cli import main as cli

from tests.conftest import ROOT
from tests.programs import rgt

TODAY = date(2026, 12, 31)
FILLED = {
    "Symptom": "The loss rises.", "Check": "Print both.", "Fix": "Take it out.", "Root cause": "The rate is added to it.",
    "Reported as": "a · b · c · 甲的损失 · 乙的损失", "Sources": "[a page](https://example.org/a)",
}  # fmt: skip


@pytest.fixture
def checkout(tmp_path):
    """A copy of the pages, with the file by which a checkout is known."""
    for name in ("references", "profiles"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


def test_the_form_takes_the_next_id_and_passes_lint_only_when_it_is_filled(checkout):
    before = catalogue.read(checkout)
    name, markdown = authoring.form(before, "O", "The loss goes up by one at every epoch", TODAY)
    assert (
        name not in before.by_id
        and int(name[1:]) == max(int(e.id[1:]) for e in before.families["O"]) + 1
    )
    page = authoring.put(before, "O", markdown, None)
    assert page == checkout / before.families["O"][0].path
    empty = catalogue.read(checkout)
    assert any(name in fault.text for fault in lint(empty, TODAY)) and set(empty.by_id) == set(
        before.by_id
    )
    text = page.read_text(encoding="utf-8")
    for field, value in FILLED.items():
        head, found, rest = text.partition(f"### {name} — ")
        text = head + found + rest.replace(f"**{field}:**\n", f"**{field}:** {value}\n", 1)
    for choices, chosen in (
        ("code or data or environment or box or platform", "code"),
        ("pointless or may help or helps after …", "pointless"),
        ("blocks or corrupts or wastes or misleads", "corrupts"),
    ):
        text = text.replace(choices, chosen)
    listed = "## Which of these is it?\n\n"
    text = text.replace(listed, f"{listed}The loss rises by one: [{name}].\n\n", 1)
    page.write_text(text, encoding="utf-8")
    left = [fault.text for fault in lint(catalogue.read(checkout), TODAY)]
    hints = [text for text in left if "holds the form's hint" in text]
    assert [text.split(" holds")[0] for text in hints] == [
        f"{name} {field}"
        for field in ("Tell apart", "False alarm", "Signatures", "Applies to", "Needs")
    ]
    page.write_text(re.sub(r"\*\*[\w ]+:\*\* <optional: .*\n\n", "", text), encoding="utf-8")
    after = catalogue.read(checkout)
    assert (
        lint(after, TODAY) == []
        and after.get(name).title == "The loss goes up by one at every epoch"
    )
    assert [e.markdown for e in after.entries if e.id != name] == [
        e.markdown for e in before.entries
    ]


def test_the_command_that_writes_the_documents_names_a_fault_in_an_entry(
    checkout, monkeypatch, capsys
):
    page = checkout / catalogue.read(checkout).get("O3").path
    text = page.read_text(encoding="utf-8")
    head, found, rest = text.partition("### O3 — ")
    page.write_text(head + found + rest.replace("**Severity:** ", "**Severity:** very ", 1))
    monkeypatch.setattr(catalogue, "bundle_root", lambda: checkout)
    (checkout / "tools").symlink_to(ROOT / "tools")
    assert cli.main(["dev", "docs", "--write"]) == 1
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{page.relative_to(checkout)}:") and "O3 Severity: can't read" in line


def test_a_retired_id_is_not_given_again(bundle):
    root = bundle({"a.md": "# Page\n\n### O7 → O1\n"})
    assert authoring.form(catalogue.read(root), "O", "what is seen here is this", TODAY)[0] == "O8"


def test_a_new_family_needs_a_page(checkout):
    read = catalogue.read(checkout)
    name, markdown = authoring.form(read, "ZZ", "what is seen here is this", TODAY)
    assert name == "ZZ1"
    with pytest.raises(CatalogueError, match="0 pages have the family ZZ .*name one with --page"):
        authoring.put(read, "ZZ", markdown, None)
    page = "references/training/by-domain.md"
    assert authoring.put(read, "ZZ", markdown, page).read_text(encoding="utf-8").endswith(markdown)
    for other in ("../x.md", "/etc/hosts", "references/none.md", "pyproject.toml"):
        with pytest.raises(CatalogueError, match="name a Markdown file below"):
            authoring.put(read, "ZZ", markdown, other)


@pytest.mark.parametrize(
    ("family", "title"),
    [("o", "a b c d e"), ("O; rm", "a b c d e"), ("O", " \n"), ("TOOLONGX", "a b c d e")],
)
def test_what_is_no_family_or_no_title_is_refused(family, title):
    with pytest.raises(CatalogueError, match="give (one to six capital letters|5 to 18 words)"):
        authoring.form(catalogue.load(), family, title, TODAY)


def test_an_installation_is_not_written_into(bundle):
    root = bundle({"a.md": "# Page\n"})
    with pytest.raises(CatalogueError, match="isn't a checkout; clone the repository"):
        authoring.put(catalogue.read(root), "O", "### O1 — x\n", "references/a.md")


def test_the_form_goes_to_stdout():
    done = run("dev", "new-entry", "K8S", "--title", "the pod is gone and nobody knows")
    assert (
        done.returncode == 0 and done.stdout.startswith("### K8S") and "**Sources:**" in done.stdout
    )


def run(*arguments, **variables):
    return rgt(*arguments, env=os.environ | variables)


@pytest.fixture
def proofs(checkout, monkeypatch):
    """Write proofs of O1, O2, … into the copy, which becomes the catalogue."""
    folder = checkout / "evals" / "proofs"
    folder.mkdir(parents=True)

    def write(**texts):
        for name, text in texts.items():
            (folder / f"test_{name}.py").write_text(text)
        return catalogue.read(checkout)

    return write


def test_proven_refuted_and_skipped_are_told_apart(proofs):
    read = proofs(
        o1="def test_a(): pass\ndef test_b(): pass\n", o2="def test_a(): assert 1 == 2, 'the loss fell'\n",
        o3="import pytest\ndef test_a(): pytest.skip('no torch here')\n", o4="import nowhere_to_be_found\n", o5="",
    )  # fmt: skip
    found = {one.id: one for one in proving.prove(read, ["O1", "O2", "O3", "O4", "O5"])}
    assert {name: one.verdict for name, one in found.items()} == {
        "O1": "proven",
        "O2": "refuted",
        "O3": "unknown",
        "O4": "unknown",
        "O5": "unknown",
    }
    assert (
        found["O1"].tests == 2
        and "the loss fell" in found["O2"].faults[0]
        and "no torch here" in found["O3"].skipped[0]
    )
    assert [one.id for one in proving.prove(read, [])] == ["O1", "O2", "O3", "O4", "O5"]


def test_what_has_no_proof_is_refused(proofs, checkout):
    with pytest.raises(CatalogueError, match=r"no proof of O2; write evals/proofs/test_o2\.py"):
        proving.prove(proofs(o1="def test_a(): pass\n"), ["O1", "O2"])
    shutil.rmtree(checkout / "evals")
    with pytest.raises(CatalogueError, match="no evals/proofs in .*; clone the repository"):
        proving.prove(catalogue.read(checkout), [])


def test_the_command_ends_with_the_verdict():
    done = run("dev", "prove", "U6", REQUIRE_ENGINES="1")
    assert (done.returncode, done.stdout.split(":")[0]) == (0, "U6 proven")
    assert run("dev", "prove", "L99").returncode == 2
    assert "no proof of AD1; write" in run("dev", "prove", "AD1").stderr


def test_lint_lists_the_entries_whose_check_no_proof_runs():
    done = rgt("dev", "lint", "--checks")
    told = done.stdout.splitlines()
    assert done.returncode == 0 and "HW4: no proof" in told  # it takes eight cards and their switch
    assert "ENV4: Check read" in told and not [line for line in told if line.startswith("C12:")]
    assert len(told) < 0.6 * len(catalogue.load().entries)
