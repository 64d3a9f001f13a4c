"""T19: a schedule needs `step()`, three steps make a small trace, and it's written once."""

import contextlib
import io
import shlex

import pytest
import torch
from check_code import span
from torch.profiler import ProfilerActivity, profile, schedule

CPU = [ProfilerActivity.CPU]
PLAN = {"skip_first": 3, "wait": 1, "warmup": 2, "active": 3, "repeat": 1}


@pytest.fixture
def train_step():
    model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(4)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(2, 8)

    def step():
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()

    step()
    return step


def test_without_step_nothing_is_recorded(train_step, says):
    called = []
    with profile(activities=CPU, schedule=schedule(**PLAN), on_trace_ready=called.append) as prof:
        for _ in range(12):
            train_step()
    assert not called
    with pytest.raises(AssertionError) as caught:
        prof.key_averages()
    says("T19", str(caught.value))


@pytest.mark.parametrize(("steps", "traces"), [(8, 0), (9, 1), (60, 1)])
def test_with_step_one_trace_comes_once_there_are_enough_steps(train_step, tmp_path, steps, traces):
    tables = []

    def done(prof):
        tables.append(prof.key_averages().table(sort_by="self_cuda_time_total", row_limit=20))
        prof.export_chrome_trace(str(tmp_path / "trace.json.gz"))

    # The last three steps of the plan are recorded: the handler must not wait for the end of the block.
    prof = profile(activities=CPU, schedule=schedule(**PLAN), on_trace_ready=done)
    prof.start()
    for _ in range(steps):
        train_step()
        prof.step()
    assert len(tables) == traces
    assert (tmp_path / "trace.json.gz").exists() == bool(traces)
    prof.stop()


def test_the_line_of_the_check_tells_what_the_build_can_record_before_it_needs_a_gpu(monkeypatch):
    code, out = shlex.split(span("T19", "supported_activities"))[2], io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(Exception):
        exec(code, {})
    assert "ProfilerActivity.CPU" in out.getvalue().splitlines()[0]
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self)  # stands in for a card
    with contextlib.redirect_stdout(out):
        exec(code, {})
    assert "aten::mm" in out.getvalue() and "Self CPU" in out.getvalue()


def test_a_trace_is_written_once(train_step, tmp_path):
    with profile(activities=CPU) as prof:
        train_step()
    prof.export_chrome_trace(str(tmp_path / "a.json"))
    with pytest.raises(RuntimeError, match="Trace is already saved"):
        prof.export_chrome_trace(str(tmp_path / "b.json"))


def test_three_steps_are_a_small_part_and_options_make_it_larger(train_step, tmp_path):
    def size(steps, name="t.json", **options):
        with profile(activities=CPU, **options) as prof:
            for _ in range(steps):
                train_step()
                prof.step()
        prof.export_chrome_trace(str(tmp_path / name))
        return (tmp_path / name).stat().st_size

    whole = size(30)
    part = size(30, schedule=schedule(**PLAN))
    assert part < whole / 5
    assert size(30, "t.json.gz", schedule=schedule(**PLAN)) < part / 5
    for option in ("record_shapes", "profile_memory", "with_stack"):
        assert size(30, **{option: True}) > 1.2 * whole
