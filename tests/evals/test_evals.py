"""The harness: cases are what they claim to be, grades are counted right, and a fall below the floor is an exit code."""

import json
import math
import subprocess
import sys

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "evals"))

from grading import curved, floor, grade, report, sentence, systems
from grading.cases import BadCase, Case, id_of, read_cases, set_hash
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.retrieval import ranking, waiting
from training.corpus import READ

CASES = read_cases(ROOT / "evals/cases.jsonl")


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
    for path in (ROOT / "evals/training/data/practice").glob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert " ".join(json.loads(line)["text"].split()) not in texts


def test_a_found_report_has_readers_and_its_thread_is_no_case():
    found = [
        json.loads(line)
        for line in (ROOT / "evals/training/data/practice/found.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    ]
    sources, ids = (
        {report["source"] for report in found},
        {entry.id for entry in bundle.load().entries},
    )
    assert len(found) == len(sources) > 2000 and not sources & {c.source for c in CASES + NEAR}
    assert {report["read"] for report in found} <= set(READ) and {
        name for r in found for name in (r["label"], *r.get("also", []))
    } <= ids


def test_a_retold_report_names_its_thread_which_is_no_case_and_no_fresh_report():
    retold = [
        json.loads(line)
        for line in (ROOT / "evals/training/data/practice/retold.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    ]
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
    learned = {
        json.loads(line)["text"]
        for path in (ROOT / "evals/training/data/practice").glob("*.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines()
    }
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
    learned = [
        json.loads(line)
        for path in (ROOT / "evals/training/data/practice").glob("*.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    assert (
        sum(bool(c.expect) for c in kept) >= inside and sum(not c.expect for c in kept) >= outside
    )
    assert {known.current(name) for c in kept for name in c.expect} <= set(known.by_id)
    assert not {c.source for c in kept} & {
        *(c.source for c in CASES + NEAR + OUTSIDE),
        *(report.get("source") for report in learned),
    }
    assert not {" ".join(c.text.split()) for c in kept} & {
        " ".join(text.split())
        for text in [*(report["text"] for report in learned), *(c.text for c in CASES)]
    }


def test_one_sentence_before_a_report_finds_more_and_claims_little_more():
    """On 2026-11-21 at three: fresh reports .780 as they are and .851 with it, the reporting half .854 and .909, its ten families .926; 13 of 551 false.
    On 2026-11-23, both together: .882 and .922, the ten families .944; 14 false."""
    fresh = read_cases(ROOT / "evals/sets/fresh.jsonl")
    said = sentence.read(ROOT / "evals/sets/said.jsonl", [*fresh, *CASES])
    assert len(said) == 1662 and all(len(text.split()) <= 16 for _, text in said)
    assert {case.id for case, _ in said if case not in fresh} == {
        case.id for case in CASES if case.half == "reporting"
    }
    cases = [case for case, _ in said]
    bare, helped = (
        grade.rates(grade.grade(cases, found))
        for found in (systems.lookup(cases), sentence.answers(said))
    )
    assert (
        helped.hit3[0] >= 0.915 and helped.hit3[0] > bare.hit3[0] + 0.03 and helped.false[0] <= 0.03
    )


def test_a_short_question_gets_its_entry_and_a_strange_one_nothing():
    """On 2026-11-21 this half stood at .963 and .049, all of it at .966 and .041."""
    asked = [
        case for case in read_cases(ROOT / "evals/sets/short.jsonl") if case.half == "reporting"
    ]
    found = grade.rates(grade.grade(asked, systems.lookup(asked)))
    assert found.hit3[0] >= 0.95 and found.false[0] <= 0.06


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


def test_hits_are_counted_by_place_and_further_titles_count_for_ten_only():
    cases = [case(n) for n in range(5)]
    named = [
        (["O3"], []),
        (["O1", "O2", "O3"], []),
        (["O1"], ["O2", "O3"]),
        (["O1"], ["O2"]),
        ([], []),
    ]
    found = grade.rates(grade.grade(cases, {c.id: n for c, n in zip(cases, named, strict=True)}))
    assert (found.hit1[0], found.hit3[0], found.hit10[0]) == (0.2, 0.4, 0.6)
    assert math.isclose(found.mrr[0], (1 + 1 / 3 + 1 / 3) / 5)


def test_any_match_on_an_out_of_scope_case_is_a_false_answer():
    cases = [case(1, ()), case(2, ())]
    found = grade.rates(grade.grade(cases, {cases[0].id: (["O3"], []), cases[1].id: ([], [])}))
    assert found.false[0] == 0.5
    assert math.isnan(found.hit1[0])


def test_the_second_right_answer_counts_as_well():
    cases = [case(1, ("O9", "O3"))]
    assert grade.rates(grade.grade(cases, {cases[0].id: (["O3"], [])})).hit1[0] == 1.0


def test_an_interval_holds_its_mean_and_is_the_same_every_time():
    cases = [case(n) for n in range(40)]
    answers = {c.id: ((["O3"] if i % 4 else ["O1"]), []) for i, c in enumerate(cases)}
    one, two = (grade.rates(grade.grade(cases, answers)).hit1 for _ in range(2))
    assert one == two and one[1] < one[0] < one[2]


def test_below_the_floor_is_said_and_above_it_is_not(tmp_path):
    cases = [case(n) for n in range(60)]
    good = grade.grade(cases, {c.id: (["O3"], []) for c in cases})
    bad = grade.grade(cases, {c.id: (["O1"], []) for c in cases})
    strange = case(60, expect=[])
    fresh, false = (
        grade.grade(
            [strange, *cases[:9]],
            {strange.id: (named, []), **{c.id: (["O3"], []) for c in cases[:9]}},
        )
        for named in ([], ["O3"])
    )
    path = tmp_path / "floor.json"
    assert "no floor for the set of reports" in floor.below(path, cases, good, fresh)[0]
    floor.raise_to(path, cases, good, fresh)
    assert floor.below(path, cases, good, fresh) == []
    assert floor.below(path, cases, bad, fresh)[0] == "hit1: 0.0 is below the floor of 1.0"
    assert floor.below(path, cases, good, false) == ["false answers: 1.0 is above the floor of 0.0"]
    floor.raise_to(path, cases, bad, false)
    assert (
        floor.below(path, cases, bad, fresh) != [] and floor.below(path, cases, good, false) != []
    )


def test_dropping_a_case_makes_another_set():
    assert set_hash(CASES) != set_hash(CASES[1:])


def test_the_floor_holds_this_set_and_no_earlier_one_was_larger_without_a_reason():
    floors = json.loads((ROOT / "evals/floor.json").read_text())
    assert set_hash([*CASES, *read_cases(ROOT / "evals/sets/fresh.jsonl")]) in floors
    if max(held["cases"] for held in floors.values()) > len(CASES):
        assert (ROOT / "evals/DROPPED.md").is_file()


def test_the_page_of_results_is_of_this_set():
    assert f"(set {set_hash(CASES)})" in (ROOT / "evals/RESULTS.md").read_text(encoding="utf-8")


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


def test_the_ranking_was_made_from_what_lies_here():
    done = subprocess.run(
        [sys.executable, str(ROOT / "evals/train.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


WAITING = read_cases(ROOT / "evals/sets/waiting.jsonl")


def test_the_literal_texts_of_entries_that_the_ranking_has_not_learned_are_exact(monkeypatch):
    """On 2026-11-22, by literal texts alone: 427 of their 815 reports get a right first match; of 145 strange ones in such words two get one of them, and of 5,400 others one."""
    monkeypatch.setattr(waiting, "load", lambda: None)
    learned, found = ranking.load().column, systems.lookup(WAITING)
    waits = {entry.id for entry in bundle.load().entries} - learned.keys()
    named = [
        (case, found[case.id][0][0])
        for case in WAITING
        if found[case.id][0] and found[case.id][0][0] in waits
    ]
    assert sum(name in case.expect for case, name in named) >= 0.5 * sum(
        bool(waits.intersection(case.expect)) for case in WAITING
    )
    assert sum(name not in (*case.expect, *case.since) for case, name in named) <= 2
    others = [
        case
        for case in [*CASES, *NEAR, *OUTSIDE, *read_cases(ROOT / "evals/sets/fresh.jsonl")]
        if not case.since
    ]
    answers = systems.lookup(others)
    wrong = [case.id for case in others if waits.intersection(answers[case.id][0][:1])]
    assert len(wrong) <= 1, wrong


def test_their_words_are_found_and_take_nothing_from_the_others(monkeypatch):
    """The reporting halves, by words too. What each bound was on 2026-11-22 stands in EXPERIMENTS.md."""
    halves = {
        name: [case for case in cases if case.half == "reporting"]
        for name, cases in (("waiting", WAITING), ("cases", CASES))
    }
    halves["fresh"] = read_cases(ROOT / "evals/sets/fresh.jsonl")
    now = {name: systems.lookup(cases) for name, cases in halves.items()}
    monkeypatch.setattr(waiting, "load", lambda: None)
    literal = {name: systems.lookup(cases) for name, cases in halves.items()}

    def right(found, name, first: int = 1) -> int:
        return sum(
            bool({*found[name][case.id][0][:first]} & {*case.expect}) for case in halves[name]
        )

    def false(found, name) -> int:
        return sum(
            bool(found[name][case.id][0]) and found[name][case.id][0][0] not in case.since
            for case in halves[name]
            if not case.expect
        )

    assert (
        right(now, "waiting") >= right(literal, "waiting") + 15
        and right(now, "waiting", 3) >= right(literal, "waiting", 3) + 20
    )
    assert (
        right(now, "cases") >= right(literal, "cases")
        and right(now, "cases", 3) >= right(literal, "cases", 3)
        and false(now, "cases") <= false(literal, "cases")
    )
    assert (
        right(now, "fresh") >= right(literal, "fresh")
        and right(now, "fresh", 3) >= right(literal, "fresh", 3)
        and false(now, "fresh") <= false(literal, "fresh") + 2
    )


def test_what_is_written_since_is_no_false_answer_and_nothing_else_is():
    made = Case(id_of("https://a"), "error", "x", (), "https://a", since=("ENV15",))
    assert [
        g.false
        for found in (["ENV15"], ["O3"], [])
        for g in grade.grade([made], {made.id: (found, [])})
    ] == [False, True, False]


def test_reports_of_waiting_entries_are_no_cases():
    assert not {c.source for c in WAITING} & {c.source for c in [*CASES, *NEAR]}


def test_below_the_floor_the_exit_code_says_so(monkeypatch, capsys):
    import run_evals

    monkeypatch.setattr(systems, "lookup", lambda cases: {case.id: ([], []) for case in cases})
    monkeypatch.setattr(systems, "bm25", systems.lookup)
    monkeypatch.setattr(sys, "argv", ["run_evals.py"])
    assert run_evals.main() == 1
    shown = capsys.readouterr()
    assert "hit1: 0.0 is below the floor of" in shown.err
    assert "fresh reports" in shown.out and "| BM25 |" in shown.out


def test_the_server_answers_the_cases_as_the_function_does():
    few = CASES[::15]
    assert systems.mcp(few) == systems.lookup(few)


def test_a_report_names_halves_families_and_kinds():
    graded = {"lookup": grade.grade(CASES, systems.lookup(CASES))}
    text = report.text(CASES, graded)
    for word in (
        "reporting half",
        "tuning half",
        "by family",
        "by kind",
        "| D |",
        "| zh |",
        "false answers",
    ):
        assert word in text


def test_logs_without_an_error_are_answered_as_well_as_each_set_has_to_be():
    assert curved.run(ROOT / "evals/sets/curves.jsonl")[1] == []
