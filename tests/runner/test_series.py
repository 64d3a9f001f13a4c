"""series.jsonl: a row a minute, bounded, and never in the way of a run; the attempts as sentences."""

import json
from types import SimpleNamespace

import pytest
from remote_gpu_trainer.runner import history, series
from remote_gpu_trainer.runner.context import Run
from remote_gpu_trainer.runner.folder import read_rows
from remote_gpu_trainer.runner.state import StateFile

from tests.runner.clocks import Clock
from tests.runner.jobs import job_of

CARD = {"use": 97, "memory_mb": 61440, "total_mb": 81559, "temperature_c": 64}


@pytest.fixture
def made(tmp_path) -> series.Series:
    run = Run(job_of({"rendered": {"run_dir": str(tmp_path / "run")}}), clock=Clock())
    run.folder.make()
    state = StateFile(run)
    state.attempt, state.phase = 1, "running"
    kept = series.Series(run, state, SimpleNamespace(gpus=[CARD], disk=(10, 100)))
    kept.begin_attempt()
    return kept


def rows(made: series.Series) -> list[dict]:
    return [json.loads(line) for line in made.run.folder.read(series.FILE).splitlines()]


def beat(made: series.Series, text: str, seconds: float = 10.0) -> None:
    made.run.clock.nap(seconds)
    made.feed(text.encode(), made.run.now)
    made.beat()


def test_a_row_a_minute_and_at_each_change_of_the_phase(made):
    for step in range(1, 14):
        beat(made, f"step {step}/100 loss {1 / step:.3f}\n")
    assert [row["step"] for row in rows(made)] == [1, 7, 13]
    assert rows(made)[1] == {
        "t": int(made.run.now - 60), "attempt": 1, "phase": "running", "step": 7, "total": 100, "loss": 0.143,
        "gpus": [CARD], "disk_free": 10, "disk_total": 100,
    }  # fmt: skip
    made.state.phase = "syncing"
    beat(made, "bye\n")
    assert len(rows(made)) == 4 and "loss" not in rows(made)[-1]  # no new one since the last row


def test_the_state_tells_the_pace_the_course_and_the_newest_numbers(made):
    for step in range(1, 31):
        beat(made, f"step {step}/100 loss {3 - step / 30:.3f}\n")
    state = made.state
    assert (state.progress["step"], state.progress["steps_per_second"]) == (30, 0.1)
    assert state.progress["seconds_left"] == 700
    assert state.reading["newest"]["loss"] == {"value": 2.0, "step": 30, "t": int(made.run.now)}
    assert state.course[0] == 2.967 and state.course[-1] == 2.0
    assert sorted(state.course, reverse=True) == state.course and len(state.course) <= series.POINTS


def test_a_long_run_keeps_forty_points_of_its_whole_course(made):
    for step in range(1, 1001):
        beat(made, f"step {step} loss {1000 - step}\n")
    assert len(made.state.course) <= series.POINTS
    assert made.state.course[0] == 999 and made.state.course[-1] == 0
    gaps = [a - b for a, b in zip(made.state.course[:-1], made.state.course[1:-1], strict=False)]
    assert max(gaps) <= 3 * min(gaps)


def test_a_checkpoint_that_is_new_stands_in_the_next_row_alone(made):
    beat(made, "step 1 loss 1\n")
    made.note_save(50, made.run.now - 3600)  # of an earlier attempt
    beat(made, "step 70 loss 1\n", 60.0)
    made.note_save(80, made.run.now + 5)
    made.note_save(90, made.run.now + 9)
    beat(made, "step 95 loss 1\n", 60.0)
    made.note_save(None, made.run.now)
    beat(made, "step 99 loss 1\n", 60.0)
    beat(made, "step 100 loss 1\n", 60.0)
    first, second = rows(made)[1]["t"], rows(made)[2]["t"]
    saved = [[[80, first + 5], [90, first + 9]], [[95, second]]]
    assert [row.get("saved") for row in rows(made)] == [None, None, *saved, None]


def test_another_attempt_remembers_and_another_runner_goes_on(made):
    for step in range(1, 20):
        beat(made, f"step {step}/100 loss 1.5 val_loss 2.5\n")
    made.state.attempt = 2
    made.begin_attempt()
    beat(made, "nothing yet\n")
    assert made.state.progress == {} and made.course.newest["val_loss"]["value"] == 2.5
    beat(made, "step 15/100 loss 1.25\n")
    assert made.state.progress["step"] == 15 and made.state.progress.get("seconds_left") is None
    raised = series.Series(made.run, made.state, made.collectors)
    raised.begin_attempt()
    beat(raised, "step 16/100\n")
    assert raised.state.course[-1] == 1.25


def test_the_file_is_thinned_when_it_is_full(made, monkeypatch):
    monkeypatch.setattr(series, "MOST", 20)
    for step in range(60):
        beat(made, f"step {step} loss 1\n", 60.0)
    kept = [row["step"] for row in rows(made)]
    assert 10 <= len(kept) <= 20 and kept[-1] == 59 and kept == sorted(kept)


def test_a_disk_that_is_full_stops_nothing_and_a_corrupt_line_costs_itself(made, monkeypatch):
    beat(made, "step 1 loss 1\n")
    made.run.folder.append(series.FILE, '{"t": 5, "st')
    monkeypatch.setattr(made.run.folder, "append", lambda *_: False)
    monkeypatch.setattr(made.run.folder, "write", lambda *_, **__: False)
    monkeypatch.setattr(series, "MOST", 1)
    beat(made, "step 2 loss 0.5\n", 60.0)
    assert made.state.progress["step"] == 2
    assert len(made.run.folder.rows(series.FILE)) == 1
    assert read_rows('[]\n5\n{"t": 1\n{"t": 1}\n') == [{"t": 1}]


def test_the_file_of_a_library_serves_a_log_without_numbers(made, tmp_path):
    saved = tmp_path / "out" / "checkpoint-20"
    saved.mkdir(parents=True)
    (saved / "trainer_state.json").write_text(json.dumps(
        {"global_step": 20, "max_steps": 80, "log_history": [{"loss": 0.5, "step": 20}]}
    ))  # fmt: skip
    made.state.checkpoint = str(saved)
    beat(made, "nothing\n")
    assert (made.state.progress["step"], made.state.progress["total"]) == (20, 80)
    assert made.state.reading["newest"]["loss"]["value"] == 0.5


def events(*rows: dict) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def begin(number: int, resume: str = "") -> dict:
    return {"event": "attempt", "attempt": str(number), "resume": resume}


def end(number: int, failure: str, reason: str = "", step: str = "") -> dict:
    return {
        "event": "ended",
        "attempt": str(number),
        "class": failure,
        "reason": reason,
        "step": step,
    }


@pytest.mark.parametrize(("rows", "told"), [
    ([begin(1)], []),
    ([begin(1), end(1, "", "", "600")], []),
    ([begin(1), end(1, "killed", "killed by signal 9 from outside", "104"), begin(2, "/o/ckpt_000100.pt")],
     ["attempt 1 was killed from outside at step 104; went on from step 100"]),
    ([begin(1), end(1, "bug", "the program failed with exit status 1"), begin(2), end(2, "", "", "9")],
     ["attempt 1 failed: the program failed with exit status 1; the next began anew", "attempt 2 came to its end at step 9"]),
    ([begin(1), end(1, "preempted", "asked", "7")], ["attempt 1 was stopped as asked at step 7"]),
    ([begin(1), end(1, "stall", "no line for 1800 s", "7"), begin(2, "/o/last.pt")],
     ["attempt 1 stood still at step 7: no line for 1800 s; went on from /o/last.pt"]),
])  # fmt: skip
def test_attempts_are_sentences(rows, told):
    assert history.attempts(events(*rows) + "corrupt{") == told


def test_no_events_break_the_history():
    assert history.attempts('[]\n5\n{"event": "ended", "attempt": "x"}\n{"event": "ended"}\n') == []
    assert history.attempts("") == []


def test_an_attempt_that_failed_is_told_with_where_its_log_begins_and_ends():
    def event(name, **told):
        return json.dumps({"event": name, **{key: str(value) for key, value in told.items()}})

    failed = [
        event("attempt", attempt=3, log=5),
        event("ended", attempt=3, **{"class": "bug"}, reason="exit 1"),
    ]
    told = {"attempt": 3, "reason": "exit 1", "from": 5, "before": None}
    assert history.last_failure("\n".join(failed)) == told
    following = [*failed, event("attempt", attempt=4, log=7)]
    assert history.last_failure("\n".join(following)) == {**told, "before": 7}
    stopped = [*following, event("ended", attempt=4, **{"class": "preempted"}, reason="asked")]
    assert history.last_failure("\n".join(stopped))["attempt"] == 3
    assert history.last_failure(event("ended", attempt=1, **{"class": ""})) == {}
