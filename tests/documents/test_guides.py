"""The guides in references/guides: SKILL.md names them, and what they name exists and can be typed."""

import json
import re
import shlex
import subprocess

import pytest
import yaml
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.grammar import read_page
from remote_gpu_trainer.cli.main import main
from remote_gpu_trainer.platforms import profile
from remote_gpu_trainer.runs.job import Job

from tests.conftest import ROOT
from tests.programs import parsed, rgt

NAMES = (
    "artifacts",
    "china-network",
    "environment-hygiene",
    "lifecycle",
    "method",
    "monitoring",
    "parallel-ablation",
    "principles",
    "self-improvement",
    "smoke-runs",
    "spot-resilience",
)
GUIDES = {
    name: (ROOT / f"references/guides/{name}.md").read_text(encoding="utf-8") for name in NAMES
}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.S | re.M)
ENDS = {"|", "||", "&&", ";", "&", ">", "<", "(", ")"}


def blocks(name: str, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(GUIDES[name]) if kind == language]


def commands(text: str) -> list[list[str]]:
    """The words after the program's name, for each time that a shell would start it."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
        for at, word in enumerate(words):
            if word in ("rgt", "remote-gpu-trainer"):
                rest = words[at + 1 :]
                found.append(rest[: next((i for i, w in enumerate(rest) if w in ENDS), len(rest))])
    return found


def typed(name: str) -> list[list[str]]:
    """The program's commands in a guide, in its blocks and within its sentences."""
    inline = re.findall(r"`((?:rgt|remote-gpu-trainer) [^`\n]+)`", BLOCK.sub("", GUIDES[name]))
    return [words for text in [*blocks(name, "sh"), *inline] for words in commands(text)]


def test_no_guide_is_missing_here_or_in_the_skill():
    there = {path.stem for path in (ROOT / "references/guides").glob("*.md")}
    skill = (ROOT / "SKILL.md").read_text(encoding="utf-8")
    listed = re.search(r"^Guides in `references/guides/`:(.+?)\n\n", skill, re.S | re.M)[1]
    assert there == set(NAMES) == set(re.findall(r"([\w-]+)\.md", listed))


@pytest.mark.parametrize("name", NAMES)
def test_a_guide_begins_with_its_title(name):
    assert GUIDES[name].startswith("# ")


@pytest.mark.parametrize("name", NAMES)
def test_every_id_in_a_guide_is_an_entry(name):
    known = bundle.load()
    families = "|".join(sorted(known.families, key=len, reverse=True))
    ids = set(re.findall(rf"(?<![\w-])(?:{families})\d+(?![\w-])", GUIDES[name])) - {"H100"}
    assert [one for one in sorted(ids) if known.current(one) not in known.by_id] == []
    assert ids and not ids & set(known.successors)


@pytest.mark.parametrize("name", NAMES)
def test_every_command_in_a_guide_can_be_typed(name):
    found = typed(name)
    assert found
    for words in found:
        asked = parsed(words).params
        platform = asked.get("profile") or (words[0] == "profile" and asked["name"])
        assert not platform or platform in profile.load(), words


@pytest.mark.parametrize(
    "line",
    [
        "A=1 rgt lookup --nothing x | head",
        "true && remote-gpu-trainer reelease BOX",
        "rgt status BOX --wait --max",
        "cat x | rgt lookup - --limit many",
    ],
)
def test_a_command_that_does_not_exist_would_be_found(line, capsys):
    [words] = commands(line)
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2 and capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_bash_can_read_every_block(name):
    for text in blocks(name, "sh"):
        done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), text


def test_every_verb_of_the_run_script_that_a_guide_names_is_one(tmp_path):
    cells = {"cells": [{"name": "a"}]}
    job = {"name": "toy", "command": ["true"], "deadline": "1h", "checkpoint": {"folder": "out"}}
    made = rgt("render", "-", "--target", "local", input=json.dumps({**job, "queue": cells}))
    assert made.returncode == 0, made.stderr
    script = tmp_path / "run.sh"
    script.write_text(made.stdout, encoding="utf-8")
    usage = subprocess.run(
        ["bash", str(script), "--help"], capture_output=True, text=True
    ).stdout.split("exit codes")[0]
    verbs = set(re.findall(r"^  ([a-z]+)\b", usage, re.M))
    called = [found for text in GUIDES.values() for found in re.findall(r"run\.sh ([a-z]+)", text)]
    assert {"rehearse", "reconcile", "resume"} <= set(called) <= verbs


@pytest.mark.parametrize("name", NAMES)
def test_every_field_of_a_job_in_a_guide_is_one(name):
    for text in blocks(name, "yaml"):
        fields = yaml.safe_load(text)
        if "grid" not in fields:
            Job.model_validate({"name": "toy", "command": ["true"], "deadline": "1h", **fields})


@pytest.mark.parametrize("name", NAMES)
def test_every_path_in_a_guide_is_carried_with_it(name):
    named = re.findall(
        r"((?:references|profiles|scripts)/[\w./-]*\.(?:md|py|sh|template))", GUIDES[name]
    )
    assert [path for path in named if not (ROOT / path).is_file()] == []
    assert "](" not in GUIDES[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_guide_is_not_taken_for_a_page_of_entries(name):
    path = f"references/guides/{name}.md"
    page = read_page(GUIDES[name], path)
    assert (page.entries, page.retired, page.faults) == ((), (), ())
    # The recipe of SKILL.md for a search without the command.
    assert not re.search(r"^### |Reported as", GUIDES[name], re.I | re.M)


def test_every_guide_is_named_by_a_page_of_entries_and_every_name_is_right():
    named = {
        found
        for path in {entry.path for entry in bundle.load().entries}
        for found in re.findall(
            r"references/guides/([\w-]+)\.md", (ROOT / path).read_text(encoding="utf-8")
        )
    }
    assert named == set(NAMES)
