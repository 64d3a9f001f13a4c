"""What a box measured, in words, and its cost; nothing in an answer breaks it, and what isn't known is left out."""

import json

import pytest
from remote_gpu_trainer.boxes import box
from remote_gpu_trainer.runs import known_jobs, ledger, status, status_cost, status_words
from remote_gpu_trainer.runs.status_reply import Status, status_from

from tests.engines.fake_run import SAYS

GPU = box.Box("gpu", "gpu")
HOUR = 3600.0
FACTS = {
    "progress": {"step": 120, "total": 600, "percent": 20.0, "steps_per_second": 4.0, "seconds_left": 120, "seconds_left_low": 110, "seconds_left_high": 150},
    "numbers": {
        "loss": {"value": 0.71824, "step": 119, "t": 990}, "val_loss": {"value": 0.9, "step": 100, "t": 900},
        "lr": {"value": 1.3e-4, "step": 119, "t": 990}, "grad_norm": {"value": "nan", "step": 119, "t": 990},
    },
    "course": [3.0, 2.0, 1.0, 0.7], "gpus": [{"use": 97, "memory_mb": 61440, "total_mb": 81920, "temperature_c": 64}],
    "gpu": "NVIDIA H100 80GB HBM3 97% 612/700W 61440MB", "disk_free": 75.2e9, "checkpoint": "/r/out/ckpt_100.pt", "checkpoint_step": 100,
    "attempts": ["attempt 1 was killed from outside at step 104; went on from step 100"], "deadline": 4000.0, "first_start": 400.0,
}  # fmt: skip


def said(**says) -> Status:
    reply = f"rgt-dir /r\nrgt-status\n{json.dumps({**SAYS, **says})}\n"
    return status_from("gpu", reply, False, "", 1000.0)


def test_a_person_reads_where_the_run_is():
    found = said(**FACTS)
    found.cost = {"price": 2.0, "by": "by the job", "so_far": 0.5, "at_deadline": 2.0}
    lines = status.as_text(found).splitlines()[1:]
    assert [line.strip() for line in lines][:7] == [
        "step 120 of 600 (20 %), 4 steps/s, 2.0 min left (1.8 min to 2.5 min)",
        "loss 0.7182 █▅▂▁ (step 119), validation 0.9 (step 100), lr 0.00013, grad norm nan",
        "gpu 0: 97 % busy, 60.0 of 80.0 GB, 64 °C",
        "disk: 75.2 GB left",
        "cost: about 0.50 so far, 2.00 at the deadline (2 an hour, by the job)",
        "newest complete checkpoint: step 100: /r/out/ckpt_100.pt",
        "attempt 1 was killed from outside at step 104; went on from step 100",
    ]
    assert (
        status.in_a_line(found)
        == "alive: step 120 of 600 (20 %), 4 steps/s, 2.0 min left (1.8 min to 2.5 min), loss 0.7182 (step 119)"
    )
    assert "deadline in 50 min" in found.evidence
    by_log = status.as_text(said(**FACTS, checkpoint_step_is_named=False))
    assert "newest complete checkpoint: about step 100: /r/out/ckpt_100.pt" in by_log
    json.dumps(found.as_dict(), allow_nan=False)


def test_where_the_output_names_no_last_step_it_is_said_what_does():
    line = (
        "time to the end: not known, its output tells no last step; final_step in the job names it"
    )
    progress = {"step": 120, "steps_per_second": 4.0}
    assert line in status_words.in_words(said(progress=progress))
    assert line not in status_words.in_words(said(progress={**progress, "total": 600}))
    assert line not in status_words.in_words(said(progress={"step": 120}))
    assert line not in status_words.in_words(said(phase="done", alive=False, progress=progress))


def test_the_best_value_stands_beside_the_last():
    numbers = {
        "val_loss": {"value": 1.1, "step": 400, "t": 1},
        "best_val_loss": {"value": 0.9, "step": 200, "t": 1},
    }
    text = status.as_text(said(numbers=numbers, step=400))
    assert "validation 1.1, best validation 0.9 (step 200)" in text
    numbers["val_loss"] = numbers["best_val_loss"]
    assert "best validation" not in status.as_text(said(numbers=numbers))


def test_what_is_not_known_is_left_out():
    assert status_words.in_words(said(step=None)) == []
    assert status_words.in_words(said()) == ["step 120"]
    slow = {"step": 3, "total": 9, "steps_per_second": 0.1}
    assert status_words.in_words(said(progress=slow)) == ["step 3 of 9, 10 s a step"]
    assert "step" not in " ".join(said(step=None).evidence)


@pytest.mark.parametrize(
    "value",
    [
        None,
        5,
        "x",
        [],
        {},
        [[1]],
        {"loss": 5},
        {"loss": {"value": "5"}},
        {"step": "7", "total": -1},
        [{"use": "x"}, 5],
    ],
)
@pytest.mark.parametrize(
    "name",
    [
        "progress",
        "numbers",
        "course",
        "gpus",
        "disk_free",
        "attempts",
        "checkpoint",
        "checkpoint_step",
        "asked",
    ],
)
def test_no_answer_breaks_the_facts(name, value):
    found = said(**{name: value})
    text = status.as_text(found)
    assert all(char.isprintable() or char == "\n" for char in text)
    json.dumps(found.as_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("deadline", "text"),
    [
        (1020.0, "deadline in 20 s"),
        (995.0, "deadline passed 5 s ago"),
        (400.0, "deadline passed 10 min ago"),
        (1000 + 100 * HOUR, "deadline in 4.2 days"),
    ],
)
def test_a_span_is_told_in_the_unit_that_suits_it(deadline, text):
    assert text in said(deadline=deadline).evidence


def test_a_decision_to_stop_goes_on_from_nothing():
    ended = said(phase="preempted", alive=False, checkpoint="/r/c.pt", **{"class": "deadline"})
    [line] = [line for line in ended.evidence if line.startswith("decision: ")]
    assert "from" not in line.partition(";")[0] and line.endswith(
        "its newest good checkpoint is /r/c.pt"
    )


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def cost_of(**says) -> dict | None:
    found = said(**{**FACTS, **says})
    status_cost.add(GPU, found, 1000.0)
    return found.cost


def test_the_price_is_the_jobs_and_the_time_the_ledgers(home):
    known_jobs.remember(
        GPU,
        "/r",
        "runpod",
        {"price": "1.8", "command": ["python", "train.py"], "gpus": 2, "deadline": "1h"},
    )
    assert cost_of() == {
        "price": 1.8,
        "by": "by the job",
        "estimated": True,
        "since": 400.0,
        "so_far": 0.3,
        "at_deadline": 1.8,
    }
    ledger.opened(box.address(GPU), "gpu", now=100.0)
    assert cost_of()["so_far"] == 0.45
    assert "at_deadline" not in cost_of(phase="done", alive=False, exit=0)
    found = said(**FACTS)
    status_cost.add(GPU, found, 1000.0)
    assert found.wanted == "python train.py, 2 GPUs, deadline 1h"


def test_a_price_of_the_ledger_or_of_the_platforms_page_serves_where_the_job_has_none(home):
    assert cost_of() is None
    known_jobs.remember(GPU, "/r", "lambda", {"command": ["x"]})
    told = cost_of()
    assert (
        told["by"].startswith("by lambda's page of 20")
        and told["currency"] == "USD"
        and told["price"] > 0
    )
    assert cost_of(gpu="NVIDIA Z9 97%") is None
    ledger.opened(box.address(GPU), "gpu", profile="lambda", price=3.0, now=100.0)
    assert (cost_of()["by"], cost_of()["so_far"]) == ("by the ledger", 0.75)
