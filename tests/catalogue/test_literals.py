"""The texts that are read off a regular expression are those that its own parser finds there, or fewer."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.signatures import literal_runs

try:
    from re import _parser
except ImportError:  # Python 3.10
    import sre_parse as _parser

PIECES = [
    "loss",
    "a",
    "Ab c",
    ".",
    ".*",
    "?",
    "+",
    "*",
    "{2}",
    "{1,3}",
    "{,4}",
    "{x}",
    "}",
    "??",
    "+?",
    "|",
    "(",
    "(?:",
    "(?i:",
    "(?=",
    "(?!",
    ")",
    "[",
    "]",
    "[^",
    "]a",
    r"\]",
    r"\(",
    r"\|",
    r"\\",
    r"\d",
    r"\b",
    r"\n",
    r"\.",
    "^",
    "$",
    "(?x)",
    "(?i)",
    "没有",
    "-",
    "'",
]


def parsed(pattern: str) -> list[str]:
    """The plain texts in the tree that re makes of a pattern."""
    found, run = [], ""
    for operator, value in _parser.parse(pattern):
        if str(operator) == "LITERAL":
            run += chr(value)
        else:
            found.append(run)
            run = ""
    return [*found, run]


def test_the_signatures_of_the_catalogue_lose_no_text():
    texts = [s.text for entry in bundle.load().entries for s in entry.signatures if s.is_regex]
    assert len(texts) > 100
    assert [list(filter(None, literal_runs(text))) for text in texts] == [
        list(filter(None, parsed(text))) for text in texts
    ]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
@pytest.mark.filterwarnings("ignore")
def test_no_text_is_read_that_a_match_may_lack(pattern):
    try:
        whole = parsed(pattern)
    except (re.error, OverflowError):
        return
    for run in filter(None, literal_runs(pattern)):
        assert any(run in text for text in whole)


@pytest.mark.parametrize(
    "pattern, expected",
    [
        ("Expected more than 1 value", ["Expected more than 1 value"]),
        (r"size \d+ is (?:too )?large", ["size ", " is ", "large"]),
        (r"colou?r\(s\)", ["colo", "r(s)"]),
        ("one|two", []),
        ("(one|two) three", [" three"]),
        ("a[b(]c|d", []),
        ("(?x) a b", []),
        ("", []),
    ],
)
def test_groups_sets_repeats_and_branches_have_no_text(pattern, expected):
    assert list(filter(None, literal_runs(pattern))) == expected
