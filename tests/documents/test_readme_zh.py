"""README.zh-CN.md says in Chinese what README.md says: its commands are the same, letter by letter, and what it names exists."""

import re

import pytest
from remote_gpu_trainer.catalogue import bundle

from tests.conftest import ROOT
from tests.programs import rgt

ENGLISH = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")
FENCED = re.compile(r"^```\w*\n.*?^```$", re.S | re.M)
BLOCKS = FENCED.findall(CHINESE)
IN_LINE = re.findall(r"`([^`\n]+)`", FENCED.sub("", CHINESE))


def test_the_blocks_are_found():
    assert len(BLOCKS) == 9 and CHINESE.count("```") == 2 * len(BLOCKS)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[1][:40])
def test_every_block_stands_in_the_english_one_word_for_word(block):
    assert f"\n{block}\n" in ENGLISH


def test_the_lines_for_the_clients_are_the_ones_that_are_tried_in_clients():
    tried = re.search(r"## In a coding agent\n.*?(```sh\n.*?\n```)", ENGLISH, re.S)[1]
    assert [block for block in BLOCKS if "--client" in block] == [tried]


def test_a_command_within_a_sentence_is_in_the_english_one_too():
    commands = [text for text in IN_LINE if " " in text or text.startswith("-") and text != "-"]
    assert commands and [text for text in commands if text not in ENGLISH] == []


def test_the_first_command_gives_the_answer_that_is_promised():
    promised = re.search(r"答案是 ([A-Z]+\d+)", CHINESE)[1]
    command = BLOCKS[0].splitlines()[2].split("&&")[1].split()
    assert command[0] == "rgt"
    done = rgt(*command[1:], cwd=ROOT)
    assert done.returncode == 0 and done.stdout.startswith(promised + "  ")


def test_every_id_is_an_entry():
    families = bundle.load().families
    for family, number in re.findall(
        r"(?<![\w.])([A-Z][A-Z0-9]{0,5}?)(\d{1,2})(?![\w.])", FENCED.sub("", CHINESE)
    ):
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
    for name in ("autodl", "featurize", "china"):
        assert name in IN_LINE and (ROOT / "profiles" / f"{name}.md").is_file()


def test_each_readme_links_the_other():
    assert "](README.zh-CN.md)" in ENGLISH and "](README.md)" in CHINESE


def test_it_repeats_no_count_that_would_grow_old():
    assert not re.search(r"\d+ ?(个|条)", FENCED.sub("", CHINESE))
