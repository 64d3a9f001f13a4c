"""Systems side by side: the page shows the records, and a class is graded by the entries it holds."""

import datetime
import json
import sys
import tarfile

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "evals"))

import bench
from benchmark import agents, asking, page, tracks
from grading.cases import Case

OOM = Case("1", "error", "CUDA out of memory", ("U10",), "")
STRANGE = Case("2", "error", "strange", (), "")
HEALTHY = Case("3", tracks.HEALTHY, "epoch 1 loss 0.3", (), "")


def system(**fields) -> asking.System:
    return asking.System("one", "here", "nothing", {"text": ["cat"]}, **fields)


def said(*claims: str, leads: tuple[str, ...] = ()) -> asking.Said:
    return asking.Said(list(claims), list(leads), "", 0.1)


def test_the_page_shows_the_records(request):
    text = page.page()
    if request.config.getoption("--update"):
        page.PAGE.write_text(text, encoding="utf-8")
    assert page.PAGE.read_text(encoding="utf-8") == text, "run: python evals/bench.py --write"


@pytest.mark.parametrize("stem", asking.systems())
def test_a_record_has_answers_to_cases_of_its_tracks_alone(stem):
    recorded = asking.record_of(stem)["tracks"]
    known = tracks.by_name()
    for name, answers in recorded.items():
        assert set(answers) <= {case.id for case in known[name].cases()}, f"record {stem} anew"


def test_a_track_without_its_texts_keeps_its_answers_and_their_date(tmp_path, monkeypatch):
    (tmp_path / "records").mkdir()
    monkeypatch.setattr(asking, "HERE", tmp_path)
    before = {
        "dates": {"here": "2026-01-02", "away": "2026-01-01"},
        "tracks": {"here": {}, "away": {"9": [["U10"], [], "", 0.1]}},
    }
    asking.write_record("one", before)
    texts = {"here": OOM, "away": Case("9", "error", "", (), "")}
    monkeypatch.setattr(
        tracks,
        "TRACKS",
        [tracks.Track(name, "text", lambda case=case: [case], "") for name, case in texts.items()],
    )
    bench.record("one", system(), [])
    today = f"{datetime.date.today()}"
    recorded = asking.record_of("one")
    assert recorded["dates"] == {"here": today, "away": "2026-01-01"}
    assert recorded["tracks"]["away"] == before["tracks"]["away"] and recorded["tracks"]["here"]
    assert f"2026-01-01 to {today}" in page._listed({"one": system()})


def test_what_a_command_prints_is_read_as_claims_leads_and_confidence():
    pattern = r"^(?P<claim>\w+) (?P<confidence>\w+)$|^also (?P<lead>\w+) too$"
    text = Case("1", "error", "U10 high\nalso M4 too\nwords\nU10 low\n", (), "")
    found = asking.ask(system(answer=pattern), "text", text)
    assert (found.claims, found.leads, found.confidence) == (["U10"], ["M4"], "high")


def test_none_and_a_command_that_fails_claim_nothing():
    silent = asking.ask(system(), "text", Case("1", "error", "none\n", (), ""))
    assert silent.claims == [] and silent.failed == ""
    broken = asking.System("one", "here", "nothing", {"text": ["false"]})
    assert asking.ask(broken, "text", OOM).failed == "exit code 1"


def test_a_file_goes_to_the_command_for_a_text_and_a_path_where_it_is_asked_for():
    assert system().command("file") == ["cat"]
    by_path = asking.System("one", "here", "nothing", {"file": ["cat", "{file}"]})
    assert asking.ask(by_path, "file", Case("1", "error", "U10\n", (), "")).claims == ["U10"]
    assert by_path.command("text") == []


def test_a_class_is_right_if_it_holds_the_entry_and_claims_nothing_if_it_holds_none():
    classes = {"memory": ["M4", "U10"], "network": ["D20"], "own": []}
    told = system(classes=classes)

    def graded(*claims):
        return page.graded(told, [OOM], {"1": said(*claims)})[0]

    assert graded("memory").place == 0
    assert graded("network", "memory").place == 1
    assert graded("network").place is None and graded("network").claimed
    assert graded("unknown").place is None and graded("unknown").claimed
    assert not graded("own").claimed


def test_claims_on_strange_and_on_healthy_cases_are_counted_apart():
    answers = {"1": said("U10"), "2": said("U10"), "3": said("U10")}
    told = page.graded(system(), [OOM, STRANGE, HEALTHY], answers)
    cells = page._row(system(), told, answers).split(" | ")
    assert cells[1] == "1+1+1"
    assert cells[5].startswith("1.000") and cells[6].startswith("1.000")


def test_each_system_names_classes_that_the_catalogue_knows():
    from remote_gpu_trainer.catalogue import bundle

    known = {entry.id for entry in bundle.load().entries}
    for path in (asking.HERE / "classes").glob("*.json"):
        for name, ids in json.loads(path.read_text(encoding="utf-8")).items():
            assert set(ids) <= known, f"{path.name}: {name}: {set(ids) - known}"


@pytest.mark.parametrize(
    "trial, arms, tasks",
    [("", agents.ARMS, 40), ("second", agents.ARMS, 20), ("silent", agents.ARMS, 12),
     ("parts", tuple(agents.PARTS), 7)],
)  # fmt: skip
def test_each_task_of_a_trial_was_asked_in_each_arm_and_judged_twice(trial, arms, tasks):
    known = {task["id"]: task for task in agents.lines("tasks.jsonl")}
    said = agents.lines(f"{trial}.jsonl" if trial else "answers.jsonl")
    judged = agents.lines(f"{trial}_judged.jsonl" if trial else "judged.jsonl")
    asked = [(one["task"], one["arm"]) for one in said]
    names = {name for name, _ in asked}
    assert len(names) == tasks and names <= set(known)
    assert sorted(asked) == sorted((name, arm) for name in names for arm in arms)
    by_judge = [(one["task"], one["arm"], one["judge"]) for one in judged]
    assert sorted(by_judge) == sorted((*place, judge) for place in asked for judge in (1, 2))
    for one in judged:
        task = known[one["task"]]
        assert len(one["must"]) == len(task["must"]) and len(one["mustnot"]) == len(task["mustnot"])


def test_each_night_was_run_in_each_arm_under_the_faults_of_its_task():
    runs = agents.lines("nights.jsonl")
    tasks = ROOT / "evals/benchmark/night/tasks"
    wanted = [
        (folder.name.removeprefix("night-"), arm, fault)
        for folder in tasks.iterdir()
        if folder.name > "night-B"
        for arm in (*agents.ARMS, "rendered")
        for fault in json.loads((folder / "task.json").read_text(encoding="utf-8"))["faults"]
    ]
    assert sorted((one["project"], one["arm"], one["fault"]) for one in runs) == sorted(wanted)


def test_an_answer_is_right_only_where_both_judges_say_so(monkeypatch):
    given = {
        "tasks.jsonl": [{"id": "box-01", "kind": "box"}],
        "answers.jsonl": [
            {"task": "box-01", "arm": arm, "kilobytes": 1, "minutes": 1, "commands": 1}
            for arm in agents.ARMS
        ],
        "judged.jsonl": [
            {"task": "box-01", "arm": arm, "must": must, "mustnot": mustnot}
            for arm, told in {
                "bare": [([True, True], [False]), ([True, True], [False])],
                "skill": [([True, True], [False]), ([True, False], [False])],
                "tools": [([True, True], [False]), ([True, True], [True])],
            }.items()
            for must, mustnot in told
        ],
    }
    monkeypatch.setattr(agents, "lines", given.__getitem__)
    found = {one.arm: (one.right, one.misleading) for one in agents.answers()}
    assert found == {"bare": (True, False), "skill": (False, False), "tools": (False, True)}


def test_the_files_of_tasks_are_those_that_were_asked():
    """The archive has all but what other people wrote."""
    with tarfile.open(agents.HERE / "files.tar.xz") as archive:
        held = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    tasks = agents.lines("tasks.jsonl")
    assert held == {
        task["id"] for task in tasks if task["kind"] not in ("money", "report", "silent")
    }
