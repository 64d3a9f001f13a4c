"""The sets that no model learned from: what is counted, what is held, and who may see what."""

import gzip
import json
import math
import sys

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "evals"))

import run_evals
from grading import (
    floor,
    grade,
    headline,
    long_logs,
    ranks,
    reader,
    report,
    sealed,
    systems,
    unseen,
)
from grading.cases import BadCase, Case, id_of, set_hash
from remote_gpu_trainer.catalogue import bundle


def case(number: int, expect=("O3",), kind="prose", text="") -> Case:
    source = f"https://example.org/{number}"
    return Case(id_of(source), kind, text or f"text {number}", tuple(expect), source)


def named(cases, ids):
    return {c.id: found for c, found in zip(cases, ids, strict=True)}


def test_what_is_shown_counts_by_place_and_a_claim_only_among_matches():
    cases = [case(n) for n in range(6)]
    nineteenth = [f"D{n}" for n in range(1, 19)] + ["O3"]
    ids = [
        (["O3"], []),
        (["O1", "O2", "O3"], []),
        (["O1"], ["O2", "O3"]),
        ([], ["O3"]),
        ([], []),
        ([], nineteenth),
    ]
    found = grade.rates(grade.grade(cases, named(cases, ids)))
    shares = [found.first, found.three, found.eighteen, found.hit1, found.hit3]
    assert [round(6 * share[0]) for share in shares] == [2, 4, 4, 1, 2]
    assert (found.inside, found.outside) == (6, 0) and math.isnan(found.false[0])


def test_the_interval_is_wilson_s_and_zero_of_few_may_still_be_many():
    none, half = grade.share([False] * 29), grade.share([True] * 5 + [False] * 5)
    assert none[0] == none[1] == 0.0 and none[2] == pytest.approx(0.117, abs=0.001)
    assert half == pytest.approx((0.5, 0.2366, 0.7634), abs=0.0001)


def test_the_three_sets_are_what_the_readme_says_of_them():
    entries, trackers = unseen.held_out()
    found, current = unseen.sets(), bundle.load().current
    assert list(found) == list(unseen.NAMES) and len(found[unseen.A]) > 500
    kept = unseen.relabelled()
    assert all(c.id in kept or current(c.expect[0]) in entries for c in found[unseen.A])
    assert kept <= {c.id for c in found[unseen.A]} and len(kept) == 3
    assert {unseen.tracker(c.source) for c in found[unseen.B]} == trackers
    assert any(not c.expect for c in found[unseen.C])
    assert all(not c.expect for c in unseen.strange())


def test_quarters_by_shared_words_hold_each_report_once_and_rise():
    cases = [c for c in unseen.sets()[unseen.C] if c.expect]
    found = headline.quarters(cases)
    assert sorted(c.id for _, part in found for c in part) == sorted(c.id for c in cases)
    lows = [float(name.split(" to ")[0]) for name, _ in found]
    assert len(found) == 4 and lows == sorted(lows) and lows[0] < lows[-1]


class Given:
    def __init__(self, ids, confidence="high", also=()):
        self.matches = [{"id": name, "confidence": confidence} for name in ids]
        self.also = [{"id": name} for name in also]

    def as_dict(self):
        return {"matches": self.matches, "also": self.also}


def test_a_confidence_is_worth_what_its_first_matches_are():
    cases = [case(1), case(2), case(3, ()), case(4)]
    answers = {
        cases[0].id: Given(["O3"]),
        cases[1].id: Given(["O1", "O3"]),
        cases[2].id: Given(["O3"], "low"),
        cases[3].id: Given([]),
    }
    text = headline.confidences("x", cases, answers)
    assert "| high | 2 | 0.500 [" in text and "| low | 1 | 0.000 [" in text
    assert "| medium | 0 | – |" in text


@pytest.fixture
def few(monkeypatch):
    """(a) to (c) as ten invented reports each, and the look-up answers all of them alike."""
    cases = [case(n, expect=() if n % 5 == 0 else ("O3",)) for n in range(30)]
    sets = {name: cases[10 * at : 10 * at + 10] for at, name in enumerate(unseen.NAMES)}
    answer = {"given": Given(["O3"])}
    monkeypatch.setattr(unseen, "sets", lambda: sets)
    monkeypatch.setattr(unseen, "strange", lambda: [case(99, ())])
    monkeypatch.setattr(systems, "asked", lambda cases: {c.id: answer["given"] for c in cases})
    monkeypatch.setattr(reader, "answer_for", lambda text: answer["given"])
    return answer


def graded():
    found = headline.run().graded
    return {name: found[name][headline.LOOKUP] for name in unseen.NAMES}


def test_below_the_floor_is_said_and_above_it_is_not(tmp_path, few):
    path, found = tmp_path / "floor.json", {}
    for name, ids in {"right": ["O3"], "wrong": ["O1"], "silent": []}.items():
        few["given"] = Given(ids)
        found[name] = graded()
    assert "no floor for the set of reports" in floor.below(path, found["right"])[0]
    floor.raise_to(path, found["right"])
    assert floor.below(path, found["right"]) == []
    [first, *_, last] = floor.below(path, found["wrong"])
    assert first == "a first: 0.0 is below the floor of 1.0" and last.startswith("c eighteen")
    floor.raise_to(path, found["silent"])  # better by its silence on strange reports alone
    assert floor.below(path, found["right"]) == ["strange: 1.0 is above the floor of 0.0"]
    assert len(floor.below(path, found["silent"])) == 9


def test_the_floor_and_the_page_are_of_the_sets_that_lie_here():
    floors = json.loads((ROOT / "evals/floor.json").read_text(encoding="utf-8"))
    cases = unseen.together(unseen.sets())
    assert set_hash(cases) in floors
    assert f"(set {set_hash(cases)})" in (ROOT / "evals/RESULTS.md").read_text(encoding="utf-8")
    assert max(held["cases"] for held in floors.values()) <= len(cases), "a case was dropped"


def run(monkeypatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["run_evals.py", *words])
    return run_evals.main()


def test_below_the_floor_the_exit_code_says_so(monkeypatch, capsys, tmp_path, few):
    monkeypatch.setattr(run_evals, "FLOOR", tmp_path / "floor.json")
    floor.raise_to(run_evals.FLOOR, graded())
    assert run(monkeypatch) == 0
    few["given"] = Given([])
    assert run(monkeypatch) == 1
    shown = capsys.readouterr()
    assert "a first: 0.0 is below the floor of 1.0" in shown.err
    assert "(c) by time" in shown.out and "| BM25 |" in shown.out


def test_the_page_has_the_tables_and_the_sealed_figures_when_there_are_some(monkeypatch):
    tables = dict.fromkeys(("main", "long", "good", "curves", "others"), "told")
    monkeypatch.setattr(sealed, "told", lambda: "the sealed table")
    monkeypatch.setattr(sealed, "openings", lambda: "opened twice")
    page = run_evals.page(tables)
    assert page.count("told") == len(tables)
    assert page.index("told") < page.index("the sealed table") < page.index("## Within long logs")
    assert "opened twice" in page and "chosen with (a) to (c) in view" in page


@pytest.fixture
def box(tmp_path, monkeypatch):
    """A sealed set of twenty invented reports, and a place for its openings."""
    cases = [case(n, expect=() if n % 4 == 0 else ("O3",)) for n in range(20)]
    lines = [
        {"id": c.id, "kind": c.kind, "text": c.text, "expect": c.expect, "source": c.source}
        for c in cases
    ]
    path = tmp_path / "sealed.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(x) + "\n" for x in lines).encode()))
    for function in (sealed.run, reader.sealed):
        kept = [*function.__defaults__]
        monkeypatch.setattr(function, "__defaults__", tuple(path for _ in kept))
    opened = tmp_path / "opened.json"
    for function in (sealed.write_down, sealed.opened, sealed.openings, sealed.told):
        monkeypatch.setattr(function, "__defaults__", (opened,))
    return opened


def test_each_opening_of_the_sealed_set_is_written_down_with_its_figures(
    monkeypatch, capsys, box, few
):
    assert sealed.told() == sealed.openings() == ""
    assert run(monkeypatch, "--sealed") == 0
    few["given"] = Given([], also=["O3"])
    assert run(monkeypatch, "--sealed") == 0
    one, two = json.loads(box.read_text())
    assert {"date", "commit", "what", "figures"} == set(one) and one["what"] == "graded"
    ours = one["figures"]["lookup"]
    assert (ours["in scope"], ours["strange"]) == (15, 5) and ours["first"][0] == 1.0
    assert ours["first"][1] < 1.0 and ours["claims on strange"][0] == 1.0
    assert "BM25" in one["figures"] and two["figures"]["lookup"]["claimed and right"][0] == 0.0
    assert "(d) sealed" in capsys.readouterr().out and sealed.told().count("| lookup |") == 2
    assert "opened 2 times from" in sealed.openings() and "2 times to grade" in sealed.openings()


def test_a_reader_gets_our_answers_or_the_titles_and_is_scored(monkeypatch, capsys, tmp_path, few):
    ours, index = tmp_path / "lookup.jsonl", tmp_path / "index.jsonl"
    for path, arm in ((ours, "lookup"), (index, "index")):
        words = ("--export", str(path), "--arm", arm, "--n", "9", "5")
        assert run(monkeypatch, "--suite", "reader", *words) == 0
    [head, *lines] = [json.loads(line) for line in ours.read_text().splitlines()]
    [other, *bare] = [json.loads(line) for line in index.read_text().splitlines()]
    assert "index" not in head and len(other["index"]) == len(bundle.load().entries)
    assert [line["id"] for line in lines] == [line["id"] for line in bare] and len(lines) == 14
    assert all("O3" in str(line["answer"]) for line in lines)
    assert all(set(line) == {"id", "report"} for line in bare)
    assert not any("example.org" in str(line) or "expect" in line for line in lines)
    chosen = {c.id: c for c in unseen.together(unseen.sets())} | {case(99, ()).id: case(99, ())}
    asked = [chosen[line["id"]] for line in lines]
    assert sum(bool(c.expect) for c in asked) == 9
    inside = [c for c in asked if c.expect]
    told = [{"id": c.id, "ids": ["O3"]} for c in inside[:6]]
    told += [{"id": c.id, "ids": ["O1", "O3"]} for c in inside[6:8]]
    told += [{"id": c.id, "ids": ["O3"]} for c in asked if not c.expect][:1]
    answers = tmp_path / "answers.jsonl"
    answers.write_text("".join(json.dumps(line) + "\n" for line in told))
    capsys.readouterr()
    words = ("--answers", str(answers), "--n", "9", "5")
    assert run(monkeypatch, "--suite", "reader", *words) == 0
    shown = capsys.readouterr().out
    assert "9 of 14 reports answered" in shown
    assert "| 9+5 | 0.667 [" in shown and "| 0.889 [" in shown and "| 0.200 [" in shown
    answers.write_text(json.dumps({"id": "nobody", "ids": []}) + "\n")
    with pytest.raises(BadCase, match="unknown id 'nobody'"):
        reader.score(answers, asked)


def test_the_choice_for_a_reader_is_the_same_every_time_and_takes_from_each_set():
    one, two = reader.chosen(90, 50, 0), reader.chosen(90, 50, 0)
    assert one == two != reader.chosen(90, 50, 1)
    assert (sum(bool(c.expect) for c in one), len(one)) == (90, 140)
    for name, cases in unseen.sets().items():
        known = {c.id for c in cases}
        assert sum(c.id in known and bool(c.expect) for c in one) >= 30, name
    strange = {c.id for c in unseen.together(unseen.sets()) if not c.expect}
    assert strange <= {c.id for c in one}


def test_a_reader_of_the_sealed_set_is_written_down(monkeypatch, box, tmp_path, few):
    words = ("--sealed", "--export", str(tmp_path / "r.jsonl"), "--n", "6", "3")
    assert run(monkeypatch, "--suite", "reader", *words) == 0
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 10
    [opening] = json.loads(box.read_text())
    assert opening["what"] == "shown to a reader, arm lookup" and sealed.told() == ""
    [_, *asked] = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    answers = tmp_path / "first-arm.jsonl"
    answers.write_text("".join(json.dumps({"id": o["id"], "ids": ["O3"]}) + "\n" for o in asked))
    words = ("--sealed", "--answers", str(answers), "--n", "6", "3")
    assert run(monkeypatch, "--suite", "reader", *words) == 0
    [_, chosen] = json.loads(box.read_text())
    assert chosen["what"] == "chosen by a reader, first-arm"
    assert chosen["figures"]["reader"]["first"][0] == 1.0
    assert chosen["figures"]["reader"]["claims on strange"][0] == 1.0
    assert "| reader | 6+3 |" in sealed.told()


def test_a_reader_without_a_file_is_told_what_to_give(monkeypatch, capsys):
    assert run(monkeypatch, "--suite", "reader") == 2
    assert capsys.readouterr().err.startswith("error: a reader needs one file; give --export")


def test_long_logs_hold_the_report_whole_and_the_others_words(monkeypatch):
    monkeypatch.setattr(long_logs, "SIZE", 40_000)
    long_logs._healthy.cache_clear()
    parts = long_logs.chosen()
    assert {name: len(cases) for name, cases in parts.items()} == dict.fromkeys(long_logs.PARTS, 40)
    assert all(c.family in report.TEN for c in parts["ten families"])
    for at, one in enumerate(parts["the others"][:12]):
        files = long_logs.logs(one, at)
        whole = "\n".join(files.values())
        lines = [line for line in one.text.splitlines() if line.strip()]
        assert all(line in whole for line in lines)
        assert len(files) == (3 if at % 3 == 2 else 1) and len(whole.encode()) > 39_000
        words = ranks.others(ranks.WORDS[at % 4]).splitlines()
        assert sum(line in whole for line in words) >= 0.5 * len(words)
        assert files == long_logs.logs(one, at)
    long_logs._healthy.cache_clear()


def test_the_page_says_of_each_set_what_it_chose_and_how_often_the_sealed_one_was_opened():
    page = (ROOT / "evals/RESULTS.md").read_text(encoding="utf-8")
    assert sealed.openings() in page and "chosen with (a) to (c) in view" in page
    for text in (page, (ROOT / "evals/README.md").read_text(encoding="utf-8")):
        assert "nothing was learned" not in text and "nothing learned" not in text
