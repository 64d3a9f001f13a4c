"""T20: Python's garbage collector holds the loop, torch's trace shows nothing there, and freezing what lives long cures it."""

import gc
import json
import time

import pytest
import torch
from check_code import shown, span
from torch.profiler import ProfilerActivity, profile

pytestmark = pytest.mark.alone  # measures seconds

OBJECTS = 400_000


@pytest.fixture
def long_lived():
    """What a big program keeps: many containers that the collector walks through each time."""
    gc.collect()
    gc.disable()
    kept = [[number] for number in range(OBJECTS)]
    yield kept
    gc.unfreeze()
    gc.enable()


def traced(tmp_path, **options) -> tuple[list[dict], float, float]:
    """Events of a trace with a collection between two products, and the time that it took, in microseconds, by the clock and by `gc.callbacks`."""
    told = []
    tell = lambda phase, info: told.append(time.perf_counter())
    x = torch.randn(8, 8)
    x @ x
    gc.callbacks.append(tell)
    try:
        with profile(activities=[ProfilerActivity.CPU], **options) as prof:
            x @ x
            start = time.perf_counter()
            gc.collect()
            pause = time.perf_counter() - start
            x @ x
    finally:
        gc.callbacks.remove(tell)
    prof.export_chrome_trace(str(tmp_path / "t.json"))
    events = [
        e
        for e in json.loads((tmp_path / "t.json").read_text())["traceEvents"]
        if e.get("ph") == "X"
    ]
    return events, pause * 1e6, (told[1] - told[0]) * 1e6


def test_the_hole_has_no_event_and_the_callback_measures_it(long_lived, tmp_path):
    events, pause, told = traced(tmp_path)
    products = sorted(e["ts"] for e in events if e["name"] == "aten::matmul")
    assert products[-1] - products[0] >= 0.9 * pause > 1000
    inside = [e for e in events if e["name"].startswith("aten::") and e["dur"] > 0.5 * pause]
    assert not inside and not [e for e in events if e["name"] == "Python GC"]
    assert told > 0.8 * pause


def test_recorded_it_stands_in_the_trace(long_lived, tmp_path):
    wanted = torch._C._profiler._ExperimentalConfig(record_python_gc_info=True)
    events, pause, _ = traced(tmp_path, with_stack=True, experimental_config=wanted)
    (collected,) = [e for e in events if e["name"] == "Python GC" and e["dur"] > 0.5 * pause]
    assert collected["dur"] > 1000


def test_frozen_objects_cost_nothing(long_lived, tmp_path):
    _, before, _ = traced(tmp_path)
    gc.freeze()
    _, after, _ = traced(tmp_path)
    assert after < before / 3


def test_the_line_of_the_check_prints_the_pause_and_none_of_its_length_once_frozen(long_lived):
    def longest(around):
        before = list(gc.callbacks)
        try:
            lines = shown(
                span("T20", "gc.callbacks") + "\naround()", gc=gc, time=time, around=around
            )
        finally:
            gc.callbacks[:] = before
        times = [float(line.split()[2]) for line in lines.splitlines() if line.split()[1] == "2"]
        return times[1] - times[0]

    hole = longest(gc.collect)
    gc.freeze()
    assert hole > 0.005 and longest(gc.collect) < 0.2 * hole
