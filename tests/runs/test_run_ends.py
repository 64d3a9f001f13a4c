"""When a run ends at the latest, by its deadline and by its budget."""

import pytest
from remote_gpu_trainer.runs.job_errors import JobError
from remote_gpu_trainer.runs.job_reading import from_object
from remote_gpu_trainer.runs.run_ends import until, with_fixed_deadline
from remote_gpu_trainer.text.spans import shown_moment

HOUR = 3600
START = 1_790_000_000


def job_with(**fields):
    return from_object(
        {"name": "toy", "command": ["python", "train.py"], "deadline": "20h", **fields}
    )


PAID = {"budget": "10 USD", "price": "2 USD"}


def test_a_budget_ends_the_run_before_its_deadline_and_says_so():
    told = until(job_with(**PAID), START, None)
    assert told.startswith(
        f"{shown_moment(START + 5 * HOUR)} at the latest, when its budget of 10 USD is"
    )
    assert "2 USD an hour since" in told


def test_a_deadline_that_comes_first_is_told_as_before():
    told = until(job_with(**PAID, deadline="3h"), START, None)
    assert told == f"{shown_moment(START + 3 * HOUR)} at the latest, counted from its first start"


def test_the_hours_before_the_first_start_count():
    rented = f"at:{START - 4 * HOUR}"
    told = until(job_with(**PAID, rented=rented), START, None)
    assert told.startswith(shown_moment(START + HOUR))


def test_each_node_and_each_box_costs_its_hours():
    nodes = job_with(**PAID, nodes=5, launcher="torchrun", rendezvous="10.0.0.5:29500")
    assert nodes.ends == "hours:20 or hours:1.000000"
    cells = [{"name": name} for name in "ab"]
    assert job_with(**PAID, queue={"cells": cells, "boxes": 2}).ends.endswith("hours:2.500000")
    assert job_with(**PAID, queue={"cells": cells}).ends.endswith("hours:5.000000")


def test_a_budget_that_is_spent_or_leaves_too_little_is_refused():
    spent = job_with(**PAID, rented=f"at:{START - 6 * HOUR}")
    with pytest.raises(JobError, match="10 USD was spent at .*; raise it, or end the box"):
        until(spent, START, None)
    short = job_with(**PAID, rented=f"at:{START - 5 * HOUR + 600}")
    with pytest.raises(JobError, match="leaves 10 min, and a rehearsal, two saves and a copy may"):
        until(short, START, None)


def test_a_box_that_is_rented_only_later_gives_a_budget_nothing_to_count():
    later = job_with(**PAID, rented=f"at:{START + HOUR}")
    with pytest.raises(JobError, match="rented: .* lies ahead"):
        until(later, START, None)


def test_on_another_box_the_budget_still_ends_the_run_when_it_did():
    given = {
        "name": "toy",
        "command": ["python", "train.py"],
        "deadline": "20h",
        **PAID,
        "rented": f"at:{START}",
    }
    moved = with_fixed_deadline(given, START, START + HOUR)
    assert until(from_object(moved), START + 2 * HOUR, START + 2 * HOUR).startswith(
        shown_moment(START + 5 * HOUR)
    )
