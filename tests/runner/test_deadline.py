"""The deadline by two clocks, in milliseconds."""

import pytest
from remote_gpu_trainer.runner import deadline
from remote_gpu_trainer.runner.context import Run

from tests.runner.jobs import job_of

from .clocks import Clock


def test_the_clock_that_says_less_counts():
    clock = Clock()
    count = deadline.Countdown(clock.now() + 100, clock.now(), clock.up())
    clock.nap(50)
    assert count.left(clock.now(), clock.up()) == 50
    clock.jump(-3600)
    assert count.left(clock.now(), clock.up()) == 51, "a clock that is set back gives no time"
    clock.jump(3630)
    assert count.left(clock.now(), clock.up()) == 20, "the other one may have stood still"


@pytest.mark.parametrize(
    ("text", "first", "expected"),
    [
        ("hours:1.5", 1000, 1000 + 5400),
        ("hours:0.8333333333333334", 0, 3000),
        ("at:1795728427", 5, 1795728427),
        # 2026-01-01 00:00:00 UTC is 1767225600.
        ("clock:18:00+00:00", 1767225600, 1767225600 + 18 * 3600),
        ("clock:18:00+02:00", 1767225600, 1767225600 + 16 * 3600),
        ("clock:00:30-01:00", 1767225600, 1767225600 + 5400),
        ("clock:00:00+00:00", 1767225600, 1767225600 + 86400),
        ("hours:ten", 0, None),
        ("", 0, None),
    ],
)
def test_a_deadline_is_a_span_a_time_or_a_time_of_day(text, first, expected):
    assert deadline.after(text, first) == expected


def test_it_is_written_once_and_only_another_one_counts_anew(tmp_path):
    clock = Clock()

    def run(text: str) -> Run:
        return Run(job_of({"rendered": {"run_dir": str(tmp_path)}, "deadline": text}), clock=clock)

    first = deadline.settle(run("hours:1"))
    clock.nap(600)
    assert deadline.settle(run("hours:1")) == first
    assert deadline.settle(run("hours:2")) == first + 3600, "from the same first start"
    with pytest.raises(ValueError, match="hours:N or at:EPOCH"):
        deadline.settle(run("hours:ten"))


@pytest.mark.parametrize("content", [None, "", "a[$(touch x)]\n", "9999999999\n"])
def test_a_damaged_file_gives_no_new_hours(tmp_path, content):
    clock = Clock()
    run = Run(job_of({"rendered": {"run_dir": str(tmp_path)}, "deadline": "hours:1"}), clock=clock)
    run.folder.make()
    run.event("start")
    run.folder.write("state.json", "{}")
    first = deadline.settle(run)
    clock.nap(1800)
    file = tmp_path / "deadline"
    file.unlink() if content is None else file.write_text(content)
    assert deadline.settle(run) == first
    assert "counted again" in (tmp_path / "log/runner.log").read_text()


def test_of_several_ends_the_first_counts_and_is_named():
    both = "hours:20 or at:1036000"
    assert deadline.after(both, 1_000_000) == 1_036_000
    assert deadline.cause(both, "40 USD", 1_000_000) == "its budget of 40 USD"
    assert deadline.after("hours:2 or hours:10.000000", 1_000_000) == 1_007_200
    assert deadline.cause("hours:2 or hours:10.000000", "40 USD", 1_000_000) == "its deadline"
    assert deadline.cause("hours:2", None, 1_000_000) == "its deadline"
    assert deadline.after("hours:2 or soon", 1_000_000) is None
