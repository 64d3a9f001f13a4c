"""README.zh-CN.md says in Chinese what README.md says: its commands are the same, letter by letter, and what it names exists."""

import re

from remote_gpu_trainer.catalogue import bundle

from tests.conftest import ROOT

ENGLISH = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")
FENCED = re.compile(r"^```\w*\n.*?^```$", re.S | re.M)
GENERATED = re.compile(r"<!-- generated: .*?<!-- end -->", re.S)
WRITTEN = FENCED.sub("", GENERATED.sub("", CHINESE))  # by hand
IN_LINE = re.findall(r"`([^`\n]+)`", WRITTEN)


def test_the_blocks_are_those_of_the_english_one_in_its_order():
    blocks = FENCED.findall(CHINESE)
    assert blocks == FENCED.findall(ENGLISH) and CHINESE.count("```") == 2 * len(blocks)


def test_the_sections_are_those_of_the_english_one():
    """The last one alone differs: a table of folders there, how to take part here."""
    for mark in ("## ", "### "):
        english, chinese = (
            [line for line in text.splitlines() if line.startswith(mark)]
            for text in (ENGLISH, CHINESE)
        )
        assert len(english) == len(chinese)


def test_the_figures_and_the_tools_are_those_of_the_english_one():
    def numbers(part: str, text: str) -> list[str]:
        made = re.search(rf"<!-- generated: {part} -->(.*?)<!-- end -->", text, re.S)[1]
        return re.findall(r"\d+(?: %)?|–", re.sub(r"\]\([^)]*\)", "", made))

    def rows(text: str) -> list[list[str]]:
        return [
            re.findall(r"\d+ %|–", line)
            for line in text.splitlines()
            if line.startswith("|") and " %" in line and "rgt" not in line
        ]

    assert rows(CHINESE) == rows(ENGLISH) != []
    figures = numbers("figures", ENGLISH), numbers("figures_zh", CHINESE)
    # Chinese names the whole before its part, and the sets of reports without their numbers.
    assert set(figures[1]) <= set(figures[0]) and len(figures[1]) > 60
    tools = re.search(r"generated: tools -->(.*?)<!-- end -->", ENGLISH, re.S)[1]
    chinese = re.search(r"generated: tools_zh -->(.*?)<!-- end -->", CHINESE, re.S)[1]
    named = re.findall(r"^ *- (?:\*\*)?`(\w+)`", tools, re.M)
    assert len(named) > 20 and [name for name in named if f"`{name}`" not in chinese] == []


def test_an_answer_of_the_english_one_is_pictured():
    assert "](docs/assets/lookup.svg)" in ENGLISH and "](docs/assets/lookup.svg)" in CHINESE


def test_a_command_within_a_sentence_is_in_the_english_one_too():
    commands = [text for text in IN_LINE if " " in text or text.startswith("-") and text != "-"]
    assert commands and [text for text in commands if text not in ENGLISH] == []


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
    for name in ("autodl", "featurize", "china"):
        assert name in IN_LINE and (ROOT / "profiles" / f"{name}.md").is_file()


def test_each_readme_links_the_other():
    assert "](README.zh-CN.md)" in ENGLISH and "](README.md)" in CHINESE


def test_it_repeats_no_count_that_would_grow_old():
    assert not re.search(r"\d+ ?(个|条)", WRITTEN)
