"""README.zh-CN.md is written for who rents in China: its blocks are those of README.md and docs/index.md or are run here, and what it
names exists."""

import json
import re
from pathlib import Path

from remote_gpu_trainer.catalogue import bundle

from tests.conftest import ROOT
from tests.documents.test_readme import HOME, Block, answered, clone  # noqa: F401

ENGLISH = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")
FENCED = re.compile(r"^```\w*\n.*?^```$", re.S | re.M)
GENERATED = re.compile(r"<!-- generated: .*?<!-- end -->", re.S)
WRITTEN = FENCED.sub("", GENERATED.sub("", CHINESE))  # by hand
IN_LINE = re.findall(r"`([^`\n]+)`", WRITTEN)


SHELL = re.compile(r"^```sh\n(.*?)^```$", re.S | re.M)


def test_its_blocks_are_those_of_the_english_one_but_for_the_one_on_autodl():
    english = FENCED.findall(ENGLISH + HOME)
    own = [block for block in FENCED.findall(CHINESE) if block not in english]
    assert len(own) == 1 and "/etc/network_turbo" in own[0] and "--profile autodl" in own[0]


def test_the_block_on_autodl_trains_on_this_machine(clone):
    """Its first lines are AutoDL's proxy and the clone; from there on it runs here, as inside an instance."""
    [block] = [text for text in SHELL.findall(CHINESE) if "--profile autodl" in text]
    lines = [line for line in block.splitlines() if line.startswith("rgt ")]
    assert len(lines) == 2
    folder, env = clone
    answered(Block("", "\n".join(lines)), folder, env)
    final = Path(env["HOME"], "runs/try-me/code/out/final.json")
    assert json.loads(final.read_text(encoding="utf-8"))["step"] == 60


def test_the_figures_are_those_of_the_english_one():
    def numbers(part: str, text: str) -> list[str]:
        made = re.search(rf"<!-- generated: {part} -->(.*?)<!-- end -->", text, re.S)[1]
        return sorted(re.findall(r"\d+", made))

    assert numbers("trust", ENGLISH) == numbers("trust_zh", CHINESE) != []


def test_a_command_within_a_sentence_exists():
    page = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    words = [text.split() for text in IN_LINE]
    commands = {text[1] for text in words if text[0] == "rgt" and len(text) > 1}
    options = {word for text in words for word in text if word.startswith("--")}
    assert commands and [name for name in commands if f"\n## {name}\n" not in page] == []
    assert options and [name for name in options if f"`{name}" not in page] == []


def test_every_id_is_an_entry():
    families = bundle.load().families
    for family, number in re.findall(r"(?<![\w.])([A-Z][A-Z0-9]{0,5}?)(\d{1,2})(?![\w.])", WRITTEN):
        assert family in families and family + number in bundle.load().by_id, family + number


def test_every_link_and_every_platform_exists():
    links = re.findall(r"\]\(([^)]+)\)", CHINESE)
    assert (
        links
        and [
            name for name in links if not name.startswith("https://") and not (ROOT / name).exists()
        ]
        == []
    )
    platforms = set(re.findall(r"(?:rgt |--)profile (\w+)", CHINESE))
    assert platforms >= {"autodl", "featurize", "china", "lanrui"}
    assert [name for name in platforms if not (ROOT / f"profiles/{name}.md").is_file()] == []


def test_each_readme_links_the_other():
    assert "](README.zh-CN.md)" in ENGLISH and "](README.md)" in CHINESE


def test_it_repeats_no_count_that_would_grow_old():
    assert not re.search(r"\d+ ?(个|条)", WRITTEN)
