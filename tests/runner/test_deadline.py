"""The deadline by two clocks, and the window before it, in milliseconds."""

import pytest
from remote_gpu_trainer.runner import deadline, spec
from remote_gpu_trainer.runner.context import Run
from remote_gpu_trainer.runner.deadline import Window

from .clocks import Clock


def walk(window: Window, clock: Clock, seconds: float, save: float, step: float = 1.0) -> list[str]:
    seen = []
    for _ in range(int(seconds / step)):
        clock.nap(step)
        seen.append(window.look(clock.now(), clock.up(), save))
    return seen


def test_a_save_is_asked_for_as_late_as_its_time_allows():
    clock = Clock()
    window = Window(clock.now() + 100, clock.now(), clock.up())
    seen = walk(window, clock, 110, save=8)
    assert seen.index("save") == 91 and seen.index("over") == 99


@pytest.mark.parametrize("jump", [7200, 100_000])
def test_a_clock_that_jumps_over_the_save_takes_nothing_from_it(jump):
    clock = Clock()
    window = Window(clock.now() + 3600, clock.now(), clock.up())
    assert set(walk(window, clock, 10, save=8)) == {""}
    clock.jump(jump)
    seen = walk(window, clock, 10, save=8)
    assert seen[:8] == ["save"] * 8 and seen[8:] == ["over", "over"]


def test_a_clock_that_is_set_back_gives_no_time():
    clock = Clock()
    window = Window(clock.now() + 100, clock.now(), clock.up())
    walk(window, clock, 50, save=8)
    clock.jump(-3600)
    seen = walk(window, clock, 60, save=8)
    assert 41 <= seen.index("save") <= 43 and "over" in seen


def test_a_deadline_that_is_nearer_than_a_save_is_kept():
    clock = Clock()
    window = Window(clock.now() + 4, clock.now(), clock.up())
    seen = walk(window, clock, 6, save=60)
    assert seen[0] == "save" and seen.index("over") <= 4


def test_a_count_that_begins_behind_the_deadline_leaves_a_living_program_its_save():
    clock = Clock()
    late = clock.now() - 7200
    assert Window(late, clock.now(), clock.up()).look(clock.now(), clock.up(), 8) == "over"
    seen = walk(Window(late, clock.now(), clock.up(), owes_save=True), clock, 12, save=8)
    assert seen[0] == "save" and 7 <= seen.index("over") <= 9


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
        return Run(spec.of({"run_dir": str(tmp_path), "deadline": text}), clock=clock)

    first = deadline.settle(run("hours:1"))
    clock.nap(600)
    assert deadline.settle(run("hours:1")) == first
    assert deadline.settle(run("hours:2")) == first + 3600, "from the same first start"
    with pytest.raises(ValueError, match="hours:N or at:EPOCH"):
        deadline.settle(run("hours:ten"))


@pytest.mark.parametrize("content", [None, "", "a[$(touch x)]\n"])
def test_a_damaged_file_gives_no_new_hours(tmp_path, content):
    clock = Clock()
    run = Run(spec.of({"run_dir": str(tmp_path), "deadline": "hours:1"}), clock=clock)
    run.folder.make()
    run.event("start")
    run.folder.write("state.json", "{}")
    first = deadline.settle(run)
    clock.nap(1800)
    for name in ("deadline", "deadline.from"):
        (tmp_path / name).unlink() if content is None else (tmp_path / name).write_text(content)
    assert deadline.settle(run) == first
    assert "counted again" in (tmp_path / "log/runner.log").read_text()
