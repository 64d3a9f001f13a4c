"""The figures in README beside those of held-out reports: how each part does on other input.

They stand in the pages under evals/, in tables and sentences; each is found by its words there.
"""

from __future__ import annotations

import re
from pathlib import Path

from remote_gpu_trainer.catalogue.bundle import CatalogueError

_N = r"\d+"  # a figure that isn't shown
# (page, the words around the figures). Where a page tells of several runs, they fit one alone.
_FIGURES = (
    ("RESULTS", r"\| high \| (?P<high_of>\d+) \| (?P<high>[\d.]+) \["),
    ("RESULTS", r"\| medium \| (?P<medium_of>\d+) \| (?P<medium>[\d.]+) \["),
    ("RESULTS", r"\| low \| (?P<low_of>\d+) \| (?P<low>[\d.]+) \["),
    (
        "INPUT",
        rf"\| the entry stands first, claimed or listed \| {_N} of (?P<en_of>\d+) \| "
        rf"(?P<en_first>\d+) \| {_N} of (?P<zh_of>\d+) \| (?P<zh_first>\d+) \|",
    ),
    ("INPUT", rf"\| claimed \| {_N} \| (?P<en_claimed>\d+) \| {_N} \| (?P<zh_claimed>\d+) \|"),
    (
        "INPUT",
        rf"\| claimed, and right \| {_N} \| (?P<en_right>\d+) \| {_N} \| (?P<zh_right>\d+) \|",
    ),
    (
        "INPUT",
        rf"\| e, first run \| {_N} \| [^|]* \| (?P<files_right>\d+) of (?P<files_claimed>\d+) \| "
        rf"{_N} \| (?P<files_silent>\d+) of (?P<files_without>\d+) \|",
    ),
    (
        "INPUT",
        r"\| no entry is about it, and none is claimed \| [^|]* \| "
        r"(?P<own_silent>\d+) of (?P<own>\d+) \|",
    ),
    ("INPUT", rf"and the user's own line is named \| [^|]* \| (?P<own_line>\d+) of {_N} \|"),
    ("INPUT", r"\| run \| named of (?P<faults>\d+) \|.*\| false of (?P<healthy>\d+) \|"),
    (
        "INPUT",
        rf"\| first run, asked once \| (?P<faults_named>\d+) \| {_N} \| {_N} \| {_N} \| "
        r"(?P<faults_missed>\d+) \| (?P<healthy_false>\d+) \|",
    ),
    ("FIT", r"(?P<fit_near>\d+) of (?P<fit_runs>\d+) estimates are within 5 % of the peak"),
    ("FIT", r"In GiB; (?P<published_near>\d+) of (?P<published>\d+) are within 20%"),
    ("FIT", r"With them 50%: (?P<convolutions_more>\d+) of (?P<convolutions>\d+) showed more"),
    (
        "BENCHMARK",
        r"\| all \| bare \| (?P<bare_right>\d+) of (?P<tasks>\d+) \| \d+ \| (?P<bare_kb>[\d.]+) \|",
    ),
    (
        "BENCHMARK",
        rf"\| all \| tools \| (?P<tools_right>\d+) of {_N} \| {_N} \| (?P<tools_kb>[\d.]+) \|",
    ),
    (
        "BENCHMARK",
        r"No step was lost in (?P<own_kept>\d+) of (?P<own_nights>\d+) runs .*? in "
        r"(?P<kept_before>\d+) of (?P<nights>\d+) before and (?P<kept_after>\d+) of",
    ),
    (
        "benchmark/night/README",
        r"\| all \| a strong agent's own script "
        r"\| (?P<public_nights>\d+) \| (?P<public_bare>\d+) \|",
    ),
    (
        "benchmark/night/README",
        rf"\| all \| `rgt`, from `rgt init` \| {_N} \| (?P<public_kept>\d+) \|",
    ),
    ("PROBE", r"without a rule before that run: (?P<unknown_named>\d+) of (?P<unknown>\d+) "),
    ("PROBE", r"Of (?P<pairs>\d+) entries with a pair, (?P<pairs_named>\d+) are named today"),
    (
        "probe/projects/README",
        r"\| second: all \| (?P<projects>\d+) \| (?P<projects_found>\d+) \| "
        r"(?P<projects_marked>\d+) \|",
    ),
    (
        "probe/projects/README",
        r"\| faults named, of \d+ \| (?P<unasked_bare>\d+) \| (?P<unasked_page>\d+)[^|]* \|\n",
    ),
    (
        "probe/projects/README",
        r"\| minutes a case \| (?P<bare_minutes>[\d.]+) \| (?P<page_minutes>[\d.]+) \|\n",
    ),
    (
        "PROBE",
        r"(?P<public_runs>\d+) runs took steps that the probe saw, .*? of level wrong: "
        r"(?P<public_false>\d+) false.*?(?P<public_any>\d+) got any finding",
    ),
)


def other_figures(root: Path) -> dict[str, str]:
    """Return the figures by name, as the pages write them.

    Raises CatalogueError where a page doesn't hold one.
    """
    found = {}
    for page, words in _FIGURES:
        path = root / f"evals/{page}.md"
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        match = re.search(words, text)
        if not match:
            names = ", ".join(re.compile(words).groupindex)
            raise CatalogueError(
                f"evals/{page}.md: no figures for {names}; mend the page, or the words in "
                "tools/generated_docs/other_figures.py"
            )
        found |= match.groupdict()
    return found
