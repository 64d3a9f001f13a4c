"""The harness: cases are what they claim to be, grades are counted right, and a fall below the floor is an exit code."""

import json
import math
import sys

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "evals"))

from grading import curved, grade, systems
from grading.cases import BadCase, Case, id_of, read_cases, set_hash
from remote_gpu_trainer.catalogue import bundle
from training.corpus import DATA, READ, practice

CASES = read_cases(ROOT / "evals/cases.jsonl")
PRACTICE = [r for path in (DATA / "practice").glob("*.jsonl.xz") for r in practice(path)]


def case(number: int, expect=("O3",), kind="prose") -> Case:
    return Case(
        id_of(f"https://example.org/{number}"),
        kind,
        f"text {number}",
        tuple(expect),
        f"https://example.org/{number}",
    )


def test_there_are_enough_cases_of_every_kind():
    inside = [c for c in CASES if c.expect]
    assert len([c for c in inside if c.family in ("O", "D")]) >= 120
    assert len(CASES) - len(inside) >= 60
    assert {c.kind for c in inside} == {"error", "prose", "zh"}


def test_the_halves_are_about_equal():
    tuning = sum(c.half == "tuning" for c in CASES)
    assert 0.4 < tuning / len(CASES) < 0.6


def test_every_case_has_a_public_source_or_says_that_it_was_made():
    assert all(c.source.startswith(("https://", "http://", "made: ")) for c in CASES)
    assert all(not c.expect for c in CASES if c.source.startswith("made: "))


NEAR, OUTSIDE = (
    read_cases(ROOT / "evals/sets/near.jsonl"),
    read_cases(ROOT / "evals/sets/outside.jsonl"),
)


def test_near_misses_are_out_of_scope_and_no_cases():
    assert len(NEAR) >= 100 and not any(c.expect for c in NEAR) and all(c.near for c in NEAR)
    assert not {c.source for c in NEAR} & {c.source for c in CASES}


def test_a_near_miss_with_an_answer_is_refused(tmp_path):
    (tmp_path / "near.jsonl").write_text(
        json.dumps(
            {
                "id": id_of("https://a"),
                "kind": "error",
                "text": "x",
                "expect": ["O3"],
                "source": "https://a",
            }
        )
    )
    with pytest.raises(BadCase, match="near.jsonl holds no case with an answer; empty expect"):
        read_cases(tmp_path / "near.jsonl")


def test_no_practice_report_is_a_case():
    texts = {" ".join(c.text.split()) for c in CASES + NEAR}
    for report in PRACTICE:
        assert " ".join(report["text"].split()) not in texts


def test_a_found_report_has_readers_and_its_thread_is_no_case():
    found = list(practice(DATA / "practice/found.jsonl.xz"))
    sources, ids = (
        {report["source"] for report in found},
        {entry.id for entry in bundle.load().entries},
    )
    assert len(found) == len(sources) > 2000 and not sources & {c.source for c in CASES + NEAR}
    assert {report["read"] for report in found} <= set(READ) and {
        name for r in found for name in (r["label"], *r.get("also", []))
    } <= ids


def test_a_retold_report_names_its_thread_which_is_no_case_and_no_fresh_report():
    retold = list(practice(DATA / "practice/retold.jsonl.xz"))
    kept = {
        c.source
        for name in ("fresh", "waiting", "outside")
        for c in read_cases(ROOT / f"evals/sets/{name}.jsonl")
    } | {c.source for c in CASES + NEAR}
    sources = {report["source"] for report in retold}
    assert (
        len(retold) == len(sources) > 1700
        and not sources & kept
        and {report["read"] for report in retold} == {"once"}
    )


def test_the_reports_that_came_without_an_answer_are_no_practice_and_no_cases():
    learned = {report["text"] for report in PRACTICE}
    assert (
        len(OUTSIDE) > 1500 and not any(c.expect for c in OUTSIDE) and all(c.came for c in OUTSIDE)
    )
    assert (
        not {c.source for c in OUTSIDE} & {c.source for c in CASES + NEAR}
        and not {c.text for c in OUTSIDE} & learned
    )


@pytest.mark.parametrize(
    ("name", "inside", "outside"), [("fresh.jsonl", 290, 390), ("short.jsonl", 1170, 320)]
)
def test_nothing_is_learned_from_what_is_kept_for_a_test(name, inside, outside):
    kept, known = read_cases(ROOT / "evals/sets" / name), bundle.load()
    assert (
        sum(bool(c.expect) for c in kept) >= inside and sum(not c.expect for c in kept) >= outside
    )
    assert {known.current(name) for c in kept for name in c.expect} <= set(known.by_id)
    assert not {c.source for c in kept} & {
        *(c.source for c in CASES + NEAR + OUTSIDE),
        *(report.get("source") for report in PRACTICE),
    }
    assert not {" ".join(c.text.split()) for c in kept} & {
        " ".join(text.split())
        for text in [*(report["text"] for report in PRACTICE), *(c.text for c in CASES)]
    }


@pytest.mark.parametrize(
    "line, said",
    [
        ("{", "can't read the case"),
        ('{"id": "x"}', "can't read the case"),
        (
            '{"id": "0123456789", "kind": "prose", "text": "t", "expect": [], "source": "https://a"}',
            "isn't the hash of its source; write '" + id_of("https://a") + "'",
        ),
        (
            json.dumps(
                {
                    "id": id_of("https://a"),
                    "kind": "poem",
                    "text": "t",
                    "expect": [],
                    "source": "https://a",
                }
            ),
            "unknown kind 'poem'",
        ),
        (
            json.dumps(
                {
                    "id": id_of("https://a"),
                    "kind": "error",
                    "file": "gone.log",
                    "expect": [],
                    "source": "https://a",
                }
            ),
            "can't read the case",
        ),
    ],
)
def test_a_bad_line_is_named_with_its_place(tmp_path, line, said):
    (tmp_path / "c.jsonl").write_text(line + "\n")
    with pytest.raises(BadCase) as bad:
        read_cases(tmp_path / "c.jsonl")
    assert str(bad.value).startswith(f"{tmp_path / 'c.jsonl'}:1: ") and said in str(bad.value)


def test_a_case_may_lie_in_a_file(tmp_path):
    (tmp_path / "a.log").write_text("boom")
    (tmp_path / "c.jsonl").write_text(
        json.dumps(
            {
                "id": id_of("https://a"),
                "kind": "error",
                "file": "a.log",
                "expect": ["O3"],
                "source": "https://a",
            }
        )
    )
    assert read_cases(tmp_path / "c.jsonl")[0].text == "boom"


def test_the_same_id_twice_is_refused(tmp_path):
    line = json.dumps(
        {
            "id": id_of("https://a"),
            "kind": "error",
            "text": "x",
            "expect": [],
            "source": "https://a",
        }
    )
    (tmp_path / "c.jsonl").write_text(line + "\n" + line + "\n")
    with pytest.raises(BadCase, match="again; add -2"):
        read_cases(tmp_path / "c.jsonl")


def test_any_match_on_an_out_of_scope_case_is_a_false_answer():
    cases = [case(1, ()), case(2, ())]
    found = grade.rates(grade.grade(cases, {cases[0].id: (["O3"], []), cases[1].id: ([], [])}))
    assert found.false[0] == 0.5
    assert math.isnan(found.hit1[0])


def test_the_second_right_answer_counts_as_well():
    cases = [case(1, ("O9", "O3"))]
    assert grade.rates(grade.grade(cases, {cases[0].id: (["O3"], [])})).hit1[0] == 1.0


def test_dropping_a_case_makes_another_set():
    assert set_hash(CASES) != set_hash(CASES[1:])


def test_answers_of_another_agent_are_graded_and_a_foreign_id_is_refused(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps({"id": CASES[0].id, "ids": ["O1", "O2", "O3", "O4"]}) + "\n")
    assert systems.from_file(path, CASES)[CASES[0].id] == (["O1", "O2", "O3"], ["O4"])
    assert systems.from_file(path, CASES)[CASES[1].id] == ([], [])
    path.write_text('{"id": "nobody", "ids": []}\n')
    with pytest.raises(BadCase, match="unknown id 'nobody'"):
        systems.from_file(path, CASES)


@pytest.mark.parametrize("name", sorted(systems.baselines()))
def test_a_baseline_ranks_an_entrys_own_words_first_and_always_answers(name):
    few = [Case("0" * 10, "error", "element 0 of tensors does not require grad", ("O3",), "x")]
    [(matches, further)] = systems.baselines()[name](few).values()
    assert "O3" in matches and len(matches) == 3 and further


WAITING = read_cases(ROOT / "evals/sets/waiting.jsonl")


def test_what_is_written_since_is_no_false_answer_and_nothing_else_is():
    made = Case(id_of("https://a"), "error", "x", (), "https://a", since=("ENV15",))
    assert [
        g.false
        for found in (["ENV15"], ["O3"], [])
        for g in grade.grade([made], {made.id: (found, [])})
    ] == [False, True, False]


def test_reports_of_waiting_entries_are_no_cases():
    assert not {c.source for c in WAITING} & {c.source for c in [*CASES, *NEAR]}


def test_the_server_answers_the_cases_as_the_function_does():
    few = CASES[::60]
    assert systems.mcp(few) == systems.lookup(few)


def test_logs_without_an_error_are_answered_as_well_as_each_set_has_to_be():
    assert curved.run(ROOT / "evals/sets/curves.jsonl")[1] == []
