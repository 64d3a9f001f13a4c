"""What `dev docs` writes: parts of documents by templates, and whole files."""

import re

import pytest
from jinja2 import UndefinedError
from remote_gpu_trainer.catalogue import bundle as catalogue
from remote_gpu_trainer.cli import documents
from remote_gpu_trainer.cli.main import COMMANDS, leaves, main, make_parser

from tests.conftest import ROOT

COMMANDS_PAGE = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
GLOSSARY = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")

RESULTS = """# Results

**reporting half**

| system | n | hit@1 | hit@3 | false answers |
| --- | --- | --- | --- | --- |
| lookup | 9+1 | 0.999 [0.98, 1.00] | 1.000 [1.00, 1.00] | 0.500 [0.40, 0.60] |
| BM25 | 9+1 | 0.100 [0.00, 0.20] | 0.200 [0.10, 0.30] | 1.000 [1.00, 1.00] |

**fresh reports, by part**

| part | n | hit@1 | hit@3 | false answers |
| --- | --- | --- | --- | --- |
| all | 9+1 | 0.753 [0.70, 0.80] | 0.851 [0.81, 0.89] | 0.028 [0.02, 0.04] |

{heading}

| system | n | hit@1 | hit@3 | hit@10 | false answers |
| --- | --- | --- | --- | --- | --- |
| lookup | 296+653 | 0.753 [0.70, 0.80] | 0.851 [0.81, 0.89] | 0.956 [0.93, 0.98] | 0.028 [0.02, 0.04] |
| BM25 | 296+653 | 0.512 [0.50, 0.60] | 0.701 [0.60, 0.80] | 0.900 [0.80, 0.90] | 0.991 [0.98, 1.00] |
"""


def test_the_commands_page_has_every_command_users_first_and_every_argument():
    headings = re.findall(r"^## (.+)$", COMMANDS_PAGE, re.M)
    assert headings == [*list(COMMANDS)[:-1], "dev lint", "dev docs", "dev new-entry", "dev prove"]
    for name, command in leaves(make_parser()).items():
        part = COMMANDS_PAGE.split(f"## {name}\n")[1].split("\n## ")[0]
        assert command.description in part
        for action in (action for action in command._actions if action.dest != "help"):
            for typed in action.option_strings or [action.dest]:
                assert typed in part, (name, typed)
            assert action.help.replace("|", "\\|") in part, (name, action.dest)


@pytest.mark.parametrize("name", [name for name, _ in documents.WHOLE])
def test_a_whole_file_that_is_missing_or_changed_is_found_and_written(name, tmp_path, monkeypatch):
    monkeypatch.setattr(documents.bundle, "pages", lambda root: [])
    monkeypatch.setattr(documents.bundle, "read", lambda root: None)
    monkeypatch.setattr(documents, "WHOLE", ((name, lambda root: "made\n"),))
    assert documents.outdated(tmp_path, write=True) == []  # its folder isn't there
    (tmp_path / name).parent.mkdir(parents=True)
    assert documents.outdated(tmp_path, write=False) == [name] and not (tmp_path / name).exists()
    assert documents.outdated(tmp_path, write=True) == [name]
    assert documents.outdated(tmp_path, write=False) == []
    (tmp_path / name).write_text("changed\n")
    assert documents.outdated(tmp_path, write=True) == [name]
    assert (tmp_path / name).read_bytes() == b"made\n"


def test_a_value_that_a_template_lacks_is_an_error():
    with pytest.raises(UndefinedError, match="'families' is undefined"):
        documents._filled("count", entries=1, ran=1)


def test_every_template_is_used_and_every_part_has_one():
    files = {path.name for path in (ROOT / "server/remote_gpu_trainer/cli/templates").iterdir()}
    assert files == {f"{part}.md.j2" for part in (*documents.PARTS, "commands")}


@pytest.mark.parametrize("heading", ["**fresh reports beside BM25**", "## On fresh reports"])
def test_the_figures_are_those_of_the_fresh_reports(heading, tmp_path):
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals/RESULTS.md").write_text(RESULTS.format(heading=heading), encoding="utf-8")
    assert documents.on_fresh_reports(tmp_path) == [
        ("this look-up", ["75 %", "85 %", "3 %"]),
        ("BM25", ["51 %", "70 %", "99 %"]),
    ]

    class Read:
        root = tmp_path

    assert documents.make("figures", "README.md", Read) == (
        "| | right entry first | right entry among the first three | false answers |\n"
        "|---|---|---|---|\n"
        "| this look-up | 75 % | 85 % | 3 % |\n"
        "| BM25 | 51 % | 70 % | 99 % |\n"
    )


def test_figures_that_are_not_there_are_an_error_with_what_to_do(tmp_path):
    (tmp_path / "evals").mkdir()
    results = RESULTS.format(heading="**other reports**")
    (tmp_path / "evals/RESULTS.md").write_text(results, encoding="utf-8")
    for root in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(catalogue.CatalogueError, match="no table about fresh reports"):
            documents.on_fresh_reports(root)


def test_the_picture_shows_the_answer_and_loads_nothing():
    text = (ROOT / "docs/assets/lookup.svg").read_text(encoding="utf-8")
    shown = re.sub(r"<[^>]+>", "", text).replace("&#160;", " ")
    assert f"rgt lookup --log {documents.LOG}" in shown
    assert "D8" in shown and "rank 1" in shown and "static_graph=True" in shown
    assert "url(http" not in text and "@font-face" not in text and "<script" not in text
    assert "id 'lookup'" not in text and 'class="rich-terminal"' in text


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb", "COLUMNS": "40"}])
def test_the_picture_is_the_same_wherever_it_is_drawn(environment, monkeypatch, tmp_path):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    assert documents.lookup_picture(ROOT) == (ROOT / "docs/assets/lookup.svg").read_text(
        encoding="utf-8"
    )


def test_what_is_out_of_date_is_named_with_the_command_that_writes_it(monkeypatch, capsys):
    monkeypatch.setattr(documents, "WHOLE", (("docs/commands.md", lambda root: "other\n"),))
    monkeypatch.setattr(catalogue, "bundle_root", lambda: ROOT)
    assert main(["dev", "docs"]) == 1
    assert capsys.readouterr().out == ("docs/commands.md: out of date; run rgt dev docs --write\n")


TERMS = (
    "match candidate evidence confidence cascade runner keeper fact profile rank entry signature "
    "check proof staleness verdict"
)


@pytest.mark.parametrize("term", [*TERMS.split(), "durable place", "root failure"])
def test_the_glossary_has_each_term_once(term):
    assert len(re.findall(rf"^- \*\*{term.capitalize()}\.\*\* \S", GLOSSARY, re.M)) == 1
