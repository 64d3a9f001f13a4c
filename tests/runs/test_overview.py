"""`runs`: every run known from here, all boxes at once; one that hangs is a row."""

import json
import shutil
import time

import pytest
from remote_gpu_trainer.boxes import box
from remote_gpu_trainer.cli import runs as screen
from remote_gpu_trainer.cli.boxes import box_of, log_of, remember
from remote_gpu_trainer.runs import home_copy, known_jobs, ledger, overview
from remote_gpu_trainer.text.money import Money

from tests.engines.fake_run import fake_run
from tests.engines.fake_ssh import fake_ssh
from tests.programs import rgt
from tests.runs.test_home_copy import released

HOUR = 3600


@pytest.fixture
def place(tmp_path, monkeypatch):
    return fake_ssh(tmp_path, monkeypatch)


def opened(name: str, hours: float = 2.0, **about) -> None:
    ledger.opened(f"{name}:22", name, now=time.time() - hours * HOUR, **about)


def started(name: str, run: str, **fields) -> None:
    known_jobs.remember(box.Box(name, name), f"~/runs/{run}", "runpod", {"name": run, **fields})


def test_a_box_that_hangs_is_a_row(place):
    fake_run(place / "gpu", "toy")
    opened("gpu")
    opened("hang")
    rows = {row.box: row for row in overview.rows(limit=1.0)}
    assert rows["gpu"].state == "alive" and rows["gpu"].name == "toy"
    assert rows["hang"].state == "no answer" and rows["hang"].why.startswith("no answer from hang")


def test_thirty_boxes_of_which_ten_hang_are_back_in_seven_seconds(place):
    for n in range(20):
        fake_run(place / f"gpu{n}", f"run{n}", step=n)
        opened(f"gpu{n}")
    for n in range(10):
        opened(f"hang{n}")
    began = time.monotonic()
    done = rgt("runs", "--json")
    took = time.monotonic() - began
    rows = json.loads(done.stdout)["runs"]
    assert done.returncode == 0 and took < 7
    assert {row["box"]: row["step"] for row in rows if row["state"] == "alive"} == {
        f"gpu{n}": n for n in range(20)
    }
    silent = [row for row in rows if row["state"] == "no answer"]
    assert len(silent) == 10 and all("no answer from hang" in row["why"] for row in silent)


def test_a_row_says_how_far_it_is_and_what_it_has_cost(place):
    progress = {
        "step": 450,
        "total": 1000,
        "percent": 45.0,
        "seconds_left": 5400,
        "seconds_left_low": 5000,
    }
    numbers = {"loss": {"value": 2.125, "step": 450, "t": 1}}
    deadline = time.time() + 3 * HOUR
    fake_run(place / "gpu", "toy", progress=progress, numbers=numbers, deadline=deadline)
    fake_run(place / "other", "old", progress="odd", numbers={"loss": {"value": "nan"}})
    opened("gpu")
    opened("other", price=2.0)
    started("gpu", "toy", price=1.5)
    [toy, old] = overview.rows()
    assert (toy.name, toy.state, toy.step, toy.total, toy.percent) == (
        "toy",
        "alive",
        450,
        1000,
        45,
    )
    assert (toy.loss, toy.seconds_left, toy.low, toy.high) == (2.125, 5400, 5000, None)
    assert toy.cost == pytest.approx(3.0, abs=0.01) and old.cost == pytest.approx(4.0, abs=0.01)
    assert old.step == 120 and old.percent is None and old.loss == "nan"
    shown = screen._cells(toy, time.time())
    assert (shown["STEP"], shown["%"], shown["LOSS"], shown["COST"]) == (
        "450/1000",
        "45",
        "2.125",
        "3.00",
    )
    assert (shown["LEFT"], shown["DEADLINE"], shown["ASKED"]) == ("1.5 h", "in 3.0 h", "now")


def test_a_box_that_falls_silent_keeps_what_it_said_last(place):
    fake_run(place / "gpu", "toy", step=70)
    opened("gpu")
    started("gpu", "toy")
    assert [row.state for row in overview.rows()] == ["alive"]
    (place / "gpu").rename(place / "moved")  # the fake box ends with 255
    for _ in range(2):  # the second time it is known from the first
        [row] = overview.rows()
        assert (row.state, row.last_state, row.name, row.step) == ("no answer", "alive", "toy", 70)
        assert row.at < time.time() and row.why
    done = rgt("runs")
    assert done.returncode == 0 and "no answer, last alive" in done.stdout
    ledger.gone("gpu:22", "gpu", "it is")
    assert overview.rows() == []
    [row] = overview.rows(with_ended=True)
    assert (row.state, row.last_state) == ("gone", "alive")


def test_a_run_whose_script_is_too_slow_keeps_what_it_said_last_and_says_why(place):
    folder = fake_run(place / "gpu", "toy", step=70, numbers={"loss": {"value": 2.5, "step": 70}})
    opened("gpu")
    assert [row.state for row in overview.rows()] == ["alive"]
    (folder / "run.sh").write_text("sleep 9\n")
    fake_run(place / "gpu", "try-me", phase="new", alive=False)  # only rehearsed
    (place / "gpu/runs/try-me/run.sh").write_text("sleep 9\n")
    for _ in range(2):
        [row] = overview.rows(limit=4.0)
        assert (row.state, row.last_state, row.name) == ("no answer", "alive", "toy")
        assert (row.step, row.loss) == (70, 2.5) and row.at < time.time() - 1
        assert row.why == "toy on gpu: its script gave no state in time"
    assert screen._cells(row, time.time())["STATE"] == "no answer, last alive"


def test_ended_runs_are_shown_with_all_alone(place):
    folder = fake_run(place / "gpu", "over")
    (folder / ".done").write_text(json.dumps({"t": 1, "step": 400, "exit": 0}))
    (folder / "attempt.json").write_text('{"attempt": 1}')
    opened("gpu")
    done = rgt("runs")
    assert (done.returncode, done.stdout) == (1, "") and "rgt runs --all" in done.stderr.replace(
        "remote-gpu-trainer", "rgt"
    )
    [row] = overview.rows(with_ended=True)
    assert (row.name, row.state, row.step) == ("over", "finished", 400)


def test_a_name_that_leads_to_another_box_now_tells_nothing_of_the_old_one(place):
    fake_run(place / "gpu", "toy")
    ledger.opened("203.0.113.7:40122", "gpu")
    [row] = overview.rows()
    assert (row.state, row.name) == ("no answer", "") and "another box" in row.why


def test_an_own_machine_is_asked_where_a_job_was_started_from_here(place):
    for name in ("mine", "strange"):
        fake_run(place / name, f"of-{name}")
        opened(name)
        ledger.forget(name, f"{name}:22", own=True)
    assert overview.rows() == []
    started("mine", "of-mine")
    assert [row.name for row in overview.rows()] == ["of-mine"]
    assert overview.rows()[0].cost is None


@pytest.mark.usefixtures("place")
def test_the_name_that_runs_prints_stands_for_the_ssh_line_that_named_the_box(tmp_path):
    key = tmp_path / "key"
    key.touch()
    line = f"ssh -p 40122 root@203.0.113.7 -i {key}"
    ledger.opened(box.address(box.parse(line)), line)
    shown = screen._short(line)
    for name in (shown, "203.0.113.7:40122"):
        found = box_of(name)
        assert (found.host, found.options) == ("root@203.0.113.7", ("-p", "40122", "-i", str(key)))
        assert found.name == name, "hints name the short one"
    assert log_of(f"{shown}:runs/toy/log") == f"{line}:~/runs/toy/log"
    remember(box_of(shown), hourly=Money(2.0))
    assert [one.name for one in ledger.still_open()] == [line], "the key stays known"
    # Another port is another box, and a name without one is the one at the usual port.
    assert box_of("root@203.0.113.7:22").options == ("-p", "22")
    assert box_of("root@203.0.113.7").options == ()
    assert log_of("gpu:runs/toy/log") == "gpu:runs/toy/log"


@pytest.mark.usefixtures("place")
def test_a_short_name_for_two_lines_is_taken_as_it_is(tmp_path):
    for user in ("root", "me"):
        ledger.opened(f"{user}.example:40122", f"ssh -p 40122 {user}@h -i {tmp_path}/{user}")
    assert box_of("h:40122") == box.parse("h:40122")


@pytest.mark.parametrize("is_home", [True, False])
def test_a_run_whose_box_is_gone_says_whether_its_results_are_here_and_costs_no_more(
    place, is_home
):
    folder = fake_run(place / "gpu", "toy", phase="done", alive=False, exit=0)
    opened("gpu", 3, price=2, currency="USD")
    started("gpu", "toy")
    overview.rows(with_ended=True)
    if is_home:
        copy = home_copy.describe_copy(released(place / "res"))
        ledger.released("gpu:22", str(folder), "mark", copy)
    ledger.gone("gpu:22", "gpu", "it is", now=time.time() - HOUR)
    (row,) = overview.rows(with_ended=True)
    assert (row.state, row.is_home) == ("gone", is_home) and row.cost == pytest.approx(4, 0.01)
    assert ("its results are here" in row.why) is is_home and "its box is gone" in row.why
    done = rgt("runs", "--all")
    assert ("gone, last finished, results here" in done.stdout) is is_home, done.stdout
    if is_home:
        shutil.rmtree(place / "res")
        (row,) = overview.rows(with_ended=True)
        assert not row.is_home and row.why.endswith(f"its copy in {copy.folder} is gone")
