"""Every answer about runs, as JSON, says what may still be billed and what is left of the job's budget."""

import json
import time
from datetime import datetime, timezone

import click
import pytest
from remote_gpu_trainer.boxes import box
from remote_gpu_trainer.cli.main import leaves, main
from remote_gpu_trainer.platforms import profile as profiles
from remote_gpu_trainer.runs import billing, known_jobs, ledger, status_cost
from remote_gpu_trainer.runs.job_reading import from_object
from remote_gpu_trainer.text.spans import shown_moment

from tests.conftest import ROOT
from tests.engines.fake_run import fake_run, put_job
from tests.engines.fake_ssh import fake_ssh
from tests.programs import rgt

HOUR = 3600
JOB = {
    "name": "toy",
    "command": ["python3", "train.py"],
    "gpus": 0,
    "deadline": "4h",
    "budget": "12 USD",
    "price": "2 USD",
    "probe": False,
}
ABOUT_THE_RUN = {  # what is left of a budget is known where the run is
    "status": ["status", "gpu"],
    "stop": ["stop", "gpu", "--run", "toy"],
    "release": ["release", "gpu", "--no-load", "--expect", "0"],
    "start": ["start", "gpu", "job/job.json", "--dry-run"],
}
FORGET = ["release", "old", "--forget"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A rented box with a run that has ended; its job has a budget."""
    place = fake_ssh(tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)
    since = datetime.fromtimestamp(time.time() - 3 * HOUR, timezone.utc)
    monkeypatch.setitem(JOB, "rented", f"{since:%Y-%m-%dT%H:%M:%SZ}")
    for name in ("toy", "other"):
        fake_run(place / "gpu", name, phase="done", alive=False, exit=0)
        (place / "gpu/runs" / name / ".done").write_text('{"t": 1, "step": 4, "exit": 0}')
        put_job(place / "gpu/runs" / name, {"job": {**JOB, "name": name}})
        known_jobs.remember(
            box.Box("gpu", "gpu"), f"~/runs/{name}", "runpod", {**JOB, "name": name}
        )
    for name, hours in (("old", 5), ("gpu", 2)):
        ledger.opened(f"{name}:22", name, price=2, currency="USD", now=time.time() - hours * HOUR)
    (tmp_path / "job").mkdir()
    (tmp_path / "job/train.py").write_text("pass\n")
    (tmp_path / "job/job.json").write_text(json.dumps({**JOB, "name": "new"}))
    return place


@pytest.mark.parametrize("words", [*ABOUT_THE_RUN.values(), FORGET], ids=" ".join)
def test_an_answer_as_json_says_what_may_still_be_billed(place, words):
    told = json.loads(rgt(*words, "--json").stdout)
    boxes = [one["box"] for one in told["billed"]]
    assert boxes == (["gpu"] if "--forget" in words else boxes) and "gpu" in boxes
    assert all(one["estimated"] is True and one["currency"] == "USD" for one in told["billed"])


@pytest.mark.parametrize("words", ABOUT_THE_RUN.values(), ids=" ".join)
def test_it_says_what_is_left_of_the_budget_with_its_own_box_first(place, words):
    told = json.loads(rgt(*words, "--json").stdout)
    assert told["billed"][0]["box"] == "gpu"
    if words[0] != "start":  # its job isn't known until it is sent
        cost = told["cost"]
        assert cost["estimated"] is True and cost["budget"] == 12
        assert cost["left"] == pytest.approx(6, abs=0.1), "three hours at 2 USD are spent"
        assert cost["hours_left"] == pytest.approx(3, abs=0.1)


def test_a_box_counts_as_billed_since_the_job_says_that_it_was_rented(place):
    [before] = [one for one in ledger.still_open() if one.name == "gpu"]
    told = json.loads(rgt(*ABOUT_THE_RUN["start"], "--json").stdout)["billed"][0]
    assert told["hours"] == pytest.approx(3, abs=0.05) and told["cost"] == pytest.approx(6, abs=0.1)
    ledger.opened(before.address, "gpu", since=time.time() - HOUR)
    [now] = [one for one in ledger.still_open() if one.name == "gpu"]
    assert now.since < before.since, "a later word doesn't shorten it"


def test_a_row_of_all_runs_has_the_budget_too(place):
    rows = json.loads(rgt("runs", "--all", "--json").stdout)["runs"]
    assert [row["left"] for row in rows if row["box"] == "gpu"] == [pytest.approx(6, abs=0.1)] * 2
    assert {row["currency"] for row in rows} == {"USD"}


def test_where_no_run_is_alive_the_boxes_that_are_billed_are_named_all_the_same(place):
    (place / "old").mkdir()
    said = rgt("runs").stderr.split("no run is alive that is known here")[1].splitlines()[1:]
    assert [line.split(" h,")[0] for line in said] == [
        "the box may still be billed: old, 5.0",
        "the box may still be billed: gpu, 2.0",
    ]


# What stands for an argument, by its name; a command whose argument isn't here fails the test below.
STANDS_FOR = {
    "box": ["gpu"],
    "boxes": ["gpu"],
    "job": ["job/job.json"],
    "text": ["CUDA out of memory"],
    "config": [str(ROOT / "examples/fit/config.json")],
    "runs": ["gpu:toy", "gpu:other"],
    "name": ["runpod"],
    "program": ["--", "python3", "-c", "pass"],
}
UNASKED = {"fact", "names", "providers", "action", "amount"}  # what need not be given
PRINTING = {
    name: context.command
    for name, context in leaves().items()
    if any("--json" in one.opts for one in context.command.params)
}
INTO_A_FILE = {"probe"}  # --json names the file that gets the answer


def words_of(name: str, command: click.Command) -> list[str]:
    """A command that can be typed, with the words that stand for its arguments."""
    words = []
    for param in command.params:
        if isinstance(param, click.Argument) and param.name not in UNASKED:
            assert param.name in STANDS_FOR, f"rgt {name}: say what stands for {param.name}"
            words += STANDS_FOR[param.name]
    can = {option for param in command.params for option in param.opts}
    json_words = ["--json", "answer.json"] if name in INTO_A_FILE else ["--json"]
    return [*name.split(), *(["--dry-run"] if "--dry-run" in can else []), *json_words, *words]


def check_bill(answer: dict) -> None:
    """The answer has what may be billed, and what is left of the budget of the job there."""
    told = {row["box"]: row for row in answer["billed"]}
    assert told["gpu"]["estimated"] is True and told["gpu"]["cost"] == pytest.approx(4, abs=2.1)
    assert told["gpu"]["left"] == pytest.approx(6, abs=0.1)
    assert told["gpu"]["hours_left"] == pytest.approx(3, abs=0.1)


@pytest.mark.parametrize("name", PRINTING)
def test_every_command_that_prints_json_says_what_may_be_billed_and_what_is_left(
    place, tmp_path, name
):
    done = rgt(*words_of(name, PRINTING[name]))
    assert done.stdout or name in INTO_A_FILE, done.stderr
    text = (tmp_path / "answer.json").read_text() if name in INTO_A_FILE else done.stdout
    check_bill(json.loads(text))


def test_a_schema_says_it_with_json_and_is_the_plain_schema_without(place):
    check_bill(json.loads(rgt("render", "--schema", "--json").stdout))
    assert "billed" not in json.loads(rgt("render", "--schema").stdout)


@pytest.mark.parametrize("name", [name for name in PRINTING if name not in INTO_A_FILE])
def test_wrong_usage_of_any_such_command_is_told_as_json_with_the_bill(place, capsys, name):
    with pytest.raises(SystemExit):
        main([*name.split(), "--no-such-option", "--json"])
    out, err = capsys.readouterr()
    told = json.loads(out)
    check_bill(told)
    assert err == f"error: {told['error']}\n" and "no such option" in told["error"]


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["status", "gpu;id"], 2, "isn't a name"),
        (["start", "gpu", "missing.json"], 2, "missing.json"),
        (["lookup", "--log", "missing.log"], 2, "missing.log"),
        (["lookup", "--js", "--log", "missing.log"], 2, "missing.log"),
        (["fit", "missing.json"], 2, "missing.json"),
        (["release", "old", "--profile", "no such"], 2, "no such"),
        (["resume", "gpu", "--run", "strange", "--set", "deadline=9h"], 1, "wasn't started from"),
        (["resume", "new", "--from", "gpu", "--run", "none"], 1, "no run 'none' was started"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_an_error_is_told_as_json_with_the_bill(place, capsys, words, code, error):
    fake_run(place / "gpu", "strange", phase="failed", alive=False, exit=1)
    (place / "new").mkdir()
    assert main([*words, "--json"]) == code
    out, err = capsys.readouterr()
    told = json.loads(out)
    check_bill(told)
    assert error in told["error"] and f"error: {told['error']}" in err


def test_an_error_without_json_leaves_stdout_empty(place, capsys):
    assert main(["status", "gpu;id"]) == 2
    assert capsys.readouterr().out == ""


def test_there_are_such_commands():
    assert len(PRINTING) >= 18 and {"lookup", "start", "guard status", "runs compare"} <= {
        *PRINTING
    }


@pytest.mark.parametrize(
    "words", [["start", "gpu", "job/job.json", "--set", "name=toy"], ["resume", "gpu"]]
)
def test_a_start_that_has_nothing_to_start_says_so_as_json_too(place, words):
    told = json.loads(rgt(*words, "--json").stdout)
    assert "finished" in told["text"] and told["cost"]["left"] == pytest.approx(6, abs=0.1)


GONE = ["--profile", "runpod", "--confirm-gone", "--id", "i-0abc"]


@pytest.mark.parametrize("words", [["--forget"], ["--mine"], [*GONE, "--listing", "list.json"]])
def test_a_box_that_is_confirmed_gone_or_the_users_own_is_not_reminded_of_by_that_answer(
    place, words, tmp_path
):
    (tmp_path / "list.json").write_text('[{"id": "i-0abc", "ip": "192.0.2.7"}]')
    if words[0] == "--profile":  # once before its end
        assert rgt("release", "old", *words, "--json").returncode == 1
        (tmp_path / "list.json").write_text('[{"id": "i-0def"}]')
    done = rgt("release", "old", *words)
    assert done.returncode == 0, done.stderr
    assert "may still be billed: gpu since" in done.stderr and "old since" not in done.stderr
    assert "rgt release gpu --forget" in done.stderr
    assert rgt("release", "gpu", "--forget").stderr == ""


def test_a_box_that_a_command_reaches_first_is_not_reminded_of_by_its_own_answer(place):
    for name in ("old", "gpu"):
        ledger.gone(f"{name}:22", name, "")
    fake_run(place / "new", "toy")
    assert rgt("status", "new").stderr == ""
    assert rgt("status", "new").stderr.startswith("may still be billed: new since 20")


def test_a_command_that_fails_reminds_all_the_same(place):
    done = rgt("release", "old", "--profile", "no such")
    assert done.returncode == 2 and "may still be billed: old since" in done.stderr


def test_a_reminder_says_in_which_time_zone_it_counts(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    ledger.opened("gpu:22", "gpu", now=1_790_000_000.0)
    told = ledger.reminder(now=1_790_003_600.0)
    assert f"gpu since {shown_moment(1_790_000_000.0)} (1.0 h)" in told


NOT_THEN = {"do": "stop", "when": ["done"]}
KEEPS = {"do": "run", "command": "poweroff-it", "keeps_disk": True}
PLACE = {"to": "s3://b/x", "what": ["out"]}
DELETES = {"do": "run", "command": ["delete-it"], "unproven_minutes": 30}


BEGAN = 1_790_000_000.0


@pytest.mark.parametrize(
    ("fields", "told", "profile"),
    [
        ({}, "6.00 USD from now on, 12.00 USD in all (2 USD an hour, 3.0 h to its end at the latest), estimated; then nothing ends the box, and it costs more until you do", "runpod"),
        ({"at_end": NOT_THEN}, "6.00 USD from now on, 12.00 USD in all (2 USD an hour, 3.0 h to its end at the latest), estimated; then nothing ends the box, and it costs more until you do", "runpod"),
        ({"at_end": KEEPS, "checkpoint": {"folder": "out", "save_seconds": 330}}, "8.87 USD from now on, 14.87 USD in all (2 USD an hour, 3.0 h to its end at the latest and 1.4 h to save, copy and end the box), estimated", "runpod"),
        ({"at_end": DELETES, "durable": PLACE}, "7.53 USD from now on, 13.53 USD in all (2 USD an hour, 3.0 h to its end at the latest and 46 min to save, copy and end the box), estimated", "runpod"),
        ({"at_end": DELETES, "durable": PLACE}, "7.53 USD from now on, 13.53 USD in all (2 USD an hour, 3.0 h to its end at the latest and 46 min to save, copy and end the box), estimated; while nothing proves that all is safe the box stays on, and costs more", "generic-ssh"),
        ({"price": None, "budget": None, "rented": None}, "", "runpod"),
    ],
)  # fmt: skip
def test_what_a_box_costs_at_most_counts_what_comes_after_the_end(
    tmp_path, monkeypatch, fields, told, profile
):
    fake_ssh(tmp_path, monkeypatch)
    given = {**JOB, "rented": f"at:{BEGAN - 3 * HOUR:.0f}", **fields}
    job = from_object({name: value for name, value in given.items() if value})
    place = box.Box("new", "new")
    assert status_cost.worst(job, profiles.get(profile), place, BEGAN, BEGAN) == told


@pytest.mark.parametrize(
    ("name", "told"), [("gpu", " USD in all (2 USD an hour, "), ("new", "not known: the job names")]
)
def test_a_start_says_that_once(place, tmp_path, name, told):
    without = ("price", "budget", "rented") if name == "new" else ()
    job = {key: value for key, value in {**JOB, "name": "new"}.items() if key not in without}
    (tmp_path / "job/job.json").write_text(json.dumps(job))
    (place / "new").mkdir()
    done = rgt("start", name, "job/job.json", "--profile", "runpod", "--dry-run")
    [line] = [line for line in done.stderr.splitlines() if line.startswith("at most ")]
    assert told in line


def test_without_a_box_or_a_ledger_nothing_is_billed(tmp_path, monkeypatch):
    fake_ssh(tmp_path, monkeypatch)
    assert billing.about(time.time()) == {"cost": None, "billed": []}


LOCAL = box.Box("local", "")


def test_a_rented_machine_that_this_runs_on_may_be_billed_and_the_users_own_is_not(place):
    def told(**asked):
        return [one["box"] for one in billing.about(time.time(), **asked)["billed"]]

    assert told(box=LOCAL) == told() == ["old", "gpu"]
    words = billing.in_words(billing.about(time.time(), LOCAL), "")
    assert words.startswith("whether this machine is billed isn't known here")
    known_jobs.remember(LOCAL, "~/runs/here", "local", JOB)
    assert told(box=LOCAL) == told() == ["old", "gpu"]
    began = time.time() - 2 * HOUR
    known_jobs.remember(LOCAL, "~/runs/here", "runpod", JOB, first_start=began)
    assert told(box=LOCAL) == ["local", "old", "gpu"] and told() == ["old", "gpu", "local"]
    words = billing.in_words(billing.about(time.time(), LOCAL), "")
    assert words.startswith("the box may still be billed: local, 2.0 h, about 4.00 USD")
