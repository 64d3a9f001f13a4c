"""What an answer costs the agent that reads it, counted by a tokenizer that works offline."""

import json
import sys
from datetime import date

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.logs.reading import from_text
from remote_gpu_trainer.lookup import writer
from remote_gpu_trainer.lookup.budget import (
    cut,
    first_paragraph,
    opening,
    tokens,
    tokens_of_json,
)
from remote_gpu_trainer.lookup.state import Answer, Claim
from remote_gpu_trainer.lookup.steps import look_up
from remote_gpu_trainer.lookup.writer import (
    ALSO,
    BESIDE,
    MOST,
    NOT_SURE,
    matches_of,
    shorten,
    titles,
)
from remote_gpu_trainer.lookup.writer import WHOLE as PARTS_WHOLE
from remote_gpu_trainer.retrieval import ranking
from remote_gpu_trainer.runs.rendering import rendered

from tests.conftest import ROOT
from tests.lookup.kinds_of_files import OOM
from tests.programs import asked_of_node

sys.path.insert(0, str(ROOT / "evals"))

from grading.cases import read_cases
from grading.systems import asked

WHOLE, TITLES = 900, 400  # tokens of an answer at limit 3, and of its titles
COUNT = "import {encode} from 'gpt-tokenizer'; import {readFileSync} from 'fs'; console.log(JSON.stringify(JSON.parse(readFileSync(0, 'utf8')).map(t => encode(t, {disallowedSpecial: new Set()}).length)))"


def counted(texts: list[str]) -> list[int]:
    """The true number of tokens of each text, by the npm package gpt-tokenizer."""
    return asked_of_node("gpt-tokenizer@4.0.0", COUNT, texts)


def written(part) -> str:
    return json.dumps(part, ensure_ascii=False, separators=(",", ":"))


@pytest.fixture(scope="module")
def answers(some, shared_answers) -> list[dict]:
    """The answers to all cases, by default to each fortieth."""
    cases = some(read_cases(ROOT / "evals/cases.jsonl"), 40)
    return [answer.as_dict() for answer in asked(cases).values()]


def test_every_answer_and_its_titles_keep_to_their_budget(answers, some):
    answers = [answer for answer in answers if answer["matches"] or answer["also"]]
    assert len(answers) > len(some(range(1000), 40))
    whole = counted([written(answer) for answer in answers])
    of_titles = counted([written(answer["also"]) for answer in answers])
    assert max(whole) <= WHOLE, written(answers[whole.index(max(whole))])
    assert max(of_titles) <= TITLES, written(answers[of_titles.index(max(of_titles))]["also"])


def test_the_leads_of_a_first_match_are_whole_within_the_budget(answers):
    """As in the entry; where they are longer than an answer may be, whole sentences of them."""
    entries, cut_short = bundle.load().by_id, []
    firsts = [answer["matches"][0] for answer in answers if answer["matches"]]
    for match in firsts:
        entry = entries[match["id"]]
        whole = {
            "root_cause": first_paragraph(entry.root_cause),
            "fix": opening(entry.fix),
            "check": first_paragraph(entry.check),
        }
        for name, text in whole.items():
            assert match[name] and text.startswith(match[name])
            assert match[name] == text or match[name][-1] in ".!?:" or " - " in text
        if any(match[name] != text for name, text in whole.items()):
            cut_short.append(match["id"])
    assert len(cut_short) < 0.03 * len(firsts), sorted(set(cut_short))


def test_no_answer_is_over_however_full_its_parts_are():
    """Every entry as the first match, beside the longest others and full parts of all fields."""
    entries = bundle.load().by_id
    claim = [
        Claim(entry, "`a text of a signature` in train.log line 12345", "medium")
        for entry in entries.values()
    ]
    sizes = {each.entry.id: tokens_of_json(matches_of([claim[0], each], {})[1]) for each in claim}
    longest = sorted(claim, key=lambda each: -sizes[each.entry.id])[:2]
    full = "The run of rank 3 ended before line 4711. " * 60
    line = {"source": "logs/rank_0.log", "line": 12345, "rank": 3, "text": cut(full, MOST["line"])}
    rows = [entry for entry in entries.values()][:ALSO]
    for each in claim:
        answer = Answer(
            matches_of(
                [each, *longest], {each.entry.id: "last checked 2026-01-01; 180 is the limit"}
            ),
            [line, line],
            {"rank": 3, "source": "logs/rank_0.log", "line": 1},
            cut(full, MOST["ask"]),
            titles(rows),
        )
        shorten(answer, PARTS_WHOLE)
        assert tokens_of_json(answer.as_dict()) <= PARTS_WHOLE, each.entry.id


def test_each_part_is_shortened_by_the_table(monkeypatch):
    """The limits of the table are those that are used: with smaller ones the answer is smaller."""
    evidence = from_text(OOM)
    whole = look_up(
        evidence, bundle.load().by_id, ranking.load(), limit=3, today=date(2026, 11, 20)
    )
    for part, less in (("leads", 100), ("titles", 60), ("ask", 9)):
        monkeypatch.setitem(MOST, part, less)
    less = look_up(evidence, bundle.load().by_id, ranking.load(), limit=3, today=date(2026, 11, 20))
    assert tokens_of_json(less.also) <= 60 < tokens_of_json(whole.also)
    leads = [
        sum(tokens(answer.matches[0][name]) for name in ("root_cause", "fix", "check"))
        for answer in (less, whole)
    ]
    assert leads[0] < leads[1]


def test_what_would_help_is_never_cut():
    everything = [
        writer.SENTENCE,
        writer.END_OF_LOG,
        writer.FIRST_ERROR,
        writer.RANK_LOGS,
        writer.NUMBERS,
    ]
    assert tokens(f"{NOT_SURE} What would help: {'; '.join(everything)}.") <= MOST["help"]


def test_what_is_not_sure_comes_with_titles_of_which_a_match_needs_few(answers):
    unsure = [
        answer
        for answer in answers
        if answer["matches"] and answer["matches"][0]["confidence"] != "high"
    ]
    counts = {len(answer["also"]) for answer in unsure}
    assert min(counts) >= 3 and max(counts) == BESIDE
    without = [
        len(answer["also"]) for answer in answers if answer["also"] and not answer["matches"]
    ]
    assert sum(count >= 9 for count in without) > 0.8 * len(without)


def test_the_estimate_of_a_whole_answer_is_on_the_safe_side_and_not_far_off(answers):
    texts = [written(answer) for answer in answers if answer["matches"]]
    shares = [true / tokens(text) for true, text in zip(counted(texts), texts, strict=True)]
    assert max(shares) <= 1 and min(shares) > 0.65


def test_a_sure_first_match_holds_a_fix_and_a_check(answers):
    sure = [
        answer["matches"][0]
        for answer in answers
        if answer["matches"] and answer["matches"][0]["confidence"] == "high"
    ]
    assert all(match["fix"] and match["check"] and match["root_cause"] for match in sure)


@pytest.mark.parametrize("most", [5, 12, 40, 200])
def test_a_cut_text_keeps_to_its_tokens_and_says_that_it_was_cut(most):
    text = "Start it with a launcher. Then look at every rank's log; the first one to fail has the cause, the others only lost it."
    short = cut(text, most)
    assert tokens(short) <= most + 2
    assert short in ("", text) or short.endswith((" …", ".", ";"))


def test_what_stands_beside_a_rendered_script_keeps_to_its_budget():
    answers = []
    for line in (ROOT / "evals/sets/render.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        if "error" not in case["expect"] and "code" not in case["job"]:
            answers.append(
                rendered(
                    case["job"],
                    case["profile"],
                    case.get("target"),
                    on=date.fromisoformat(case.get("on", "2026-11-20")),
                )
            )
    beside = counted(
        [
            written({name: value for name, value in answer.items() if name != "script"})
            for answer in answers
        ]
    )
    # A job on AutoDL that names no code, no results and not its checkpoint folder: six warnings. Two are AutoDL's own,
    # what downloads need there and which facts nobody dates; without them it was 430.
    assert len(beside) > 30 and max(beside) <= 465, answers[beside.index(max(beside))]["warnings"]


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        {"a": []},
        {
            "matches": [
                {"id": "U1", "line": 12, "rank": None, "text": 'say "no"\n\\ 第一行'},
                {"x": True},
            ],
            "ask": "",
        },
        ["one", "two", 3],
    ],
)
def test_the_parts_of_json_cost_what_the_whole_does(value):
    assert tokens_of_json(value) == pytest.approx(
        tokens(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    )
