"""What `dev docs` writes: parts of documents by templates, and whole files."""

import asyncio
import json
import re
import shutil
from typing import Annotated

import pytest
from generated_docs import documents, held_out_figures, lookup_picture
from generated_docs.box_programs import PACKAGE
from jinja2 import UndefinedError
from pydantic import TypeAdapter
from remote_gpu_trainer.catalogue import bundle as catalogue
from remote_gpu_trainer.cli.main import COMMANDS, leaves, main
from remote_gpu_trainer.mcp_server.server import make_server
from remote_gpu_trainer.runs import job, job_errors

from tests.conftest import ROOT

COMMANDS_PAGE = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
GLOSSARY = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")

RESULTS = """# Results

**(a) leave-entry-out: of some entries**

| system | n | first | three | eighteen | claimed and right | claims on strange |
| --- | --- | --- | --- | --- | --- | --- |
| lookup | 9+0 | 0.753 [0.70, 0.80] | 0.851 [0.81, 0.89] | 0.956 [0.93, 0.98] | 0.4 [0, 1] | – |
| BM25 | 9+0 | 0.512 [0.50, 0.60] | 0.701 [0.60, 0.80] | 0.900 [0.80, 0.90] | 0.4 [0, 1] | – |

**(b) leave-tracker-out: {b}**

| system | n | first | three | eighteen | claimed and right | claims on strange |
| --- | --- | --- | --- | --- | --- | --- |
| lookup | 8+2 | 0.9 [0, 1] | 0.91 [0, 1] | 0.92 [0, 1] | 0.93 [0, 1] | 0.028 [0, 1] |
| BM25 | 8+2 | 0.1 [0, 1] | 0.2 [0, 1] | 0.3 [0, 1] | 0.4 [0, 1] | 1.000 [0, 1] |

**(a) to (c): how often the first match is right**

| confidence | n | right |
| --- | --- | --- |
| high | 9 | 0.9 [0, 1] |
| medium | 8 | 0.8 [0, 1] |
| low | 7 | 0.7 [0, 1] |

**(c) by time: new ones**

| system | n | first | three | eighteen | claimed and right | claims on strange |
| --- | --- | --- | --- | --- | --- | --- |
| lookup | 8+2 | 0.8 [0, 1] | 0.81 [0, 1] | 0.82 [0, 1] | 0.83 [0, 1] | 0.000 [0, 1] |
| BM25 | 8+2 | 0.5 [0, 1] | 0.6 [0, 1] | 0.7 [0, 1] | 0.8 [0, 1] | 0.9 [0, 1] |
"""


def test_the_commands_page_has_every_command_users_first_and_every_argument():
    headings = re.findall(r"^## (.+)$", COMMANDS_PAGE, re.M)
    own = [
        *list(COMMANDS)[:-1],
        "dev lint",
        "dev docs",
        "dev new-entry",
        "dev new-platform",
        "dev prove",
    ]
    parts = {"runs": ["compare"], "guard": ["confirm", "install", "uninstall", "status"]}
    for group, names in parts.items():
        at = own.index(group) + 1
        own[at:at] = [f"{group} {name}" for name in names]
    assert headings == own
    for name, ctx in leaves().items():
        part = COMMANDS_PAGE.split(f"## {name}\n")[1].split("\n## ")[0]
        assert " ".join(ctx.command.help.replace("\b", "").split()) in " ".join(
            part.replace("```sh", "").replace("```", "").split()
        )
        for param in ctx.command.params:
            typed = [param.make_metavar(ctx)] if param.param_type_name == "argument" else param.opts
            for form in typed:
                assert form in part, (name, form)
            assert param.help.replace("|", "\\|") in part, (name, param.name)


@pytest.mark.parametrize("name", [name for name, _ in documents.WHOLE])
def test_a_whole_file_that_is_missing_or_changed_is_found_and_written(name, tmp_path, monkeypatch):
    monkeypatch.setattr(documents.bundle, "pages", lambda root: [])
    monkeypatch.setattr(documents.bundle, "read", lambda root: None)
    monkeypatch.setattr(documents, "probed", lambda catalogue: set())
    monkeypatch.setattr(documents, "WHOLE", ((name, lambda root: "made\n"),))
    assert documents.outdated(tmp_path, write=True) == []  # its folder isn't there
    (tmp_path / name).parent.mkdir(parents=True)
    assert documents.outdated(tmp_path, write=False) == [name] and not (tmp_path / name).exists()
    assert documents.outdated(tmp_path, write=True) == [name]
    assert documents.outdated(tmp_path, write=False) == []
    (tmp_path / name).write_text("changed\n")
    assert documents.outdated(tmp_path, write=True) == [name]
    assert (tmp_path / name).read_bytes() == b"made\n"


def test_a_change_of_the_shared_style_reaches_the_one_file_of_the_probe(tmp_path, monkeypatch):
    monkeypatch.setattr(documents.bundle, "pages", lambda root: [])
    monkeypatch.setattr(documents.bundle, "read", lambda root: None)
    monkeypatch.setattr(documents, "probed", lambda catalogue: set())
    monkeypatch.setattr(documents, "WHOLE", [one for one in documents.WHOLE if one[0] == "scripts/probe.py"])  # fmt: skip
    for folder in ("scripts", f"{PACKAGE}/probe", f"{PACKAGE}/drawing"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    style = tmp_path / PACKAGE / "drawing/data/page.css"
    style.write_text("b { color: teal }\n")
    assert documents.outdated(tmp_path, write=True) == ["scripts/probe.py"]
    assert documents.outdated(tmp_path, write=False) == []
    text = (tmp_path / "scripts/probe.py").read_text()
    assert "b { color: teal }\n" in text and ".alone {" not in text


def test_a_value_that_a_template_lacks_is_an_error():
    with pytest.raises(UndefinedError, match="'families' is undefined"):
        documents.filled("count", entries=1, ran=1)


def test_every_template_is_used_and_every_part_has_one():
    files = {path.name for path in (ROOT / "tools/generated_docs/templates").iterdir()}
    pages = ("bit_flips", "commands", "coverage", "job", "launch_scripts")
    assert files == {f"{part}.md.j2" for part in (*documents.PARTS, *pages)}


@pytest.fixture
def results(tmp_path):
    (tmp_path / "evals/sets").mkdir(parents=True)
    path = tmp_path / "evals/RESULTS.md"
    now = RESULTS.format(b="of some trackers")
    path.write_text(now, encoding="utf-8")
    for name in ("INPUT", "FIT", "BENCHMARK", "PROBE"):
        shutil.copy(ROOT / f"evals/{name}.md", tmp_path / "evals")
    for folder in ("probe/projects", "benchmark/night"):
        (tmp_path / "evals" / folder).mkdir(parents=True)
        shutil.copy(ROOT / f"evals/{folder}/README.md", tmp_path / "evals" / folder)

    class Read:
        root = tmp_path

    return Read


def test_the_figures_are_those_of_the_reports_that_no_model_learned_from(results):
    text = documents.make("figures", "evals/README.md", results)
    assert (
        "| of some entries (9+0) | this look-up | 75 % | 40 % | 85 % | 96 % | – |\n"
        "|  | BM25 | 51 % | 40 % | 70 % | 90 % | – |\n"
        "| of some trackers (8+2) | this look-up | 90 % | 93 % | 91 % | 92 % | 3 % |\n"
        "|  | BM25 | 10 % | 40 % | 20 % | 30 % | 100 % |\n"
        "| new ones (8+2) | this look-up | 80 % | 83 % | 81 % | 82 % | 0 % |\n"
        "|  | BM25 | 50 % | 80 % | 60 % | 70 % | 90 % |\n\n"
    ) in text
    words = " ".join(text.split())
    assert (
        "high confidence 90 % were right (9 claims), with medium 80 % (8), with low 70 % (7)"
        in words
    )


@pytest.mark.parametrize(
    ("page", "old", "new", "shown"),
    [
        ("INPUT", "asked once | 48 |", "asked once | 47 |", "47 of 60 faults named, 9 missed"),
        ("INPUT", "| 6 | 18 |", "| 6 | 17 |", "30 claimed, 17 of them right"),
        ("INPUT", "| 10 of 15 | 5 |", "| 9 of 15 | 6 |", "15 claimed, 9 of them right"),
        ("PROBE", "run: 0 of 21", "run: 1 of 21", "1 of 21 named"),
        (
            "probe/projects/README",
            "| second: all | 12 | 0 |",
            "| second: all | 12 | 2 |",
            "2 of 12 faults",
        ),
        ("FIT", "50%: 596 of", "50%: 597 of", "597 of 3358 showed more"),
    ],
)
def test_a_figure_is_that_of_its_page_and_a_page_without_it_is_an_error(
    results, page, old, new, shown
):
    path = results.root / f"evals/{page}.md"
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert shown in documents.make("figures", "evals/README.md", results)
    path.write_text(text.replace(old, "gone"), encoding="utf-8")
    with pytest.raises(catalogue.CatalogueError, match=rf"evals/{page}.md: no figures for \w+"):
        documents.make("figures", "evals/README.md", results)


def test_the_tools_are_listed_as_the_server_tells_a_client(results):
    text = documents.make("tools", "docs/guides/coding-agents.md", results)
    assert "- **`lookup_symptom`**: Look up a failed run. Read-only; may reach" in text
    assert "  - `job` (object, required): name, command, deadline; see schema://job\n" in text
    assert "`render_run_script`**: Render a run script. Read-only.\n" in text
    assert "  - `batch` (integer): samples on each GPU\n" in text
    known = {
        name: fields
        for name, fields in re.findall(r"^- \*\*`(\w+)`.*\n((?:  - .*\n)+)", text, re.M)
    }
    for tool in asyncio.run(make_server().list_tools()):
        fields = [line.split("`")[1] for line in known[tool.name].splitlines()]
        assert fields == list(tool.input_schema["properties"])


def test_the_last_figures_of_the_reports_kept_apart_come_first_and_their_openings_are_counted(
    results,
):
    def opening(date, first):
        shares = {column: [first, 0.0, 1.0] for column in held_out_figures.COLUMNS}
        figures = {"in scope": 7, "strange": 3, **shares}
        return {"date": date, "figures": {"lookup": figures, "BM25": figures}}

    shown = {"date": "2026-11-27", "figures": {}}  # to a reader, without figures
    openings = [opening("2026-11-25", 0.25), opening("2026-11-26", 0.75), shown]
    path = results.root / held_out_figures.OPENED
    path.write_text(json.dumps(openings), encoding="utf-8")
    [first, second, third, *_] = held_out_figures.held_out_reports(results.root)
    assert first == held_out_figures.Graded(
        "d", "kept apart, graded on 2026-11-26", "7+3", "lookup", ["75 %"] * 5
    )
    assert second.system == "BM25" and third.reports == "of some entries"
    text = documents.make("figures", "evals/README.md", results)
    assert "they were opened 3 times since 2026-11-25." in text
    assert "chose the wording of 24 entries" in " ".join(text.split())


def test_figures_that_are_not_there_are_an_error_with_what_to_do(results):
    path = results.root / held_out_figures.RESULTS
    path.write_text(RESULTS.replace("(b)", "(x)"), encoding="utf-8")
    for root in (results.root, results.root / "nowhere"):
        with pytest.raises(catalogue.CatalogueError, match=r"no tables about \(a\) to \(c\)"):
            held_out_figures.held_out_reports(root)


def test_the_picture_shows_the_answer_and_loads_nothing():
    text = (ROOT / "docs/assets/lookup.svg").read_text(encoding="utf-8")
    shown = re.sub(r"<[^>]+>", "", text).replace("&#160;", " ")
    assert f"rgt lookup --log {lookup_picture.LOG}" in shown
    assert "D8" in shown and "static_graph=True" in shown
    assert "failed first" not in shown  # both ranks fail alike
    assert "url(http" not in text and "@font-face" not in text and "<script" not in text
    assert "id 'lookup'" not in text and 'class="rich-terminal"' in text


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb", "COLUMNS": "40"}])
def test_the_picture_is_the_same_wherever_it_is_drawn(environment, monkeypatch, tmp_path):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    assert lookup_picture.lookup_picture(ROOT) == (ROOT / "docs/assets/lookup.svg").read_text(
        encoding="utf-8"
    )


def test_what_is_out_of_date_is_named_with_the_command_that_writes_it(monkeypatch, capsys):
    monkeypatch.setattr(documents, "WHOLE", (("docs/commands.md", lambda root: "other\n"),))
    monkeypatch.setattr(catalogue, "bundle_root", lambda: ROOT)
    assert main(["dev", "docs"]) == 1
    assert capsys.readouterr().out == ("docs/commands.md: out of date; run rgt dev docs --write\n")


def test_without_a_checkout_the_generators_are_said_to_be_missing(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(catalogue, "bundle_root", lambda: tmp_path)
    assert main(["dev", "docs"]) == 2
    assert capsys.readouterr().err.startswith("error: only a checkout has the generators")


TERMS = (
    "match candidate evidence confidence cascade runner supervisor fact profile rank entry signature "
    "check proof staleness verdict"
)


@pytest.mark.parametrize("term", [*TERMS.split(), "durable place", "root failure"])
def test_the_glossary_has_each_term_once(term):
    assert len(re.findall(rf"^- \*\*{term.capitalize()}\.\*\* \S", GLOSSARY, re.M)) == 1


def test_each_field_of_a_job_has_an_example_that_the_job_takes():
    examples = job_errors.examples_by_part()
    schema = job.Job.model_json_schema()
    parts = {name for name, part in schema["$defs"].items() if part.get("properties")}
    assert set(examples) == {"Job", *parts}
    models = {part.__name__: part for part in job_errors.fields_of(job.Job).values() if part}
    for name, part in examples.items():
        fields = {field.alias or own: field for own, field in models[name].model_fields.items()}
        assert set(part) == set(fields) - {"timings"}, name
        for own, value in part.items():
            kind = Annotated[(fields[own].annotation, *fields[own].metadata, None)]
            assert TypeAdapter(kind).validate_python(value) is not None, (name, own)
