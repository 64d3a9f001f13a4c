"""T26: `torch.compile` returns at once, the first call compiles, and so does each new shape."""

import statistics
import time

import pytest
import torch
import torch._dynamo
from check_code import block, shown


def counting(compiled):
    def backend(graph, inputs):
        compiled.append(len(inputs))
        return graph.forward

    return backend


def test_wrapping_compiles_nothing_and_the_first_call_spoils_the_mean_of_ten():
    torch._dynamo.reset()
    compiled, seconds, x = [], [], torch.ones(10)
    function = torch.compile(lambda x: (x * 2).sin(), backend=counting(compiled))
    assert compiled == []
    for _ in range(10):
        begin = time.perf_counter()
        function(x)
        seconds.append(time.perf_counter() - begin)
    assert len(compiled) == 1
    usual = statistics.median(seconds[1:])
    assert seconds[0] > 10 * usual and statistics.mean(seconds) > 3 * usual


def test_a_new_shape_compiles_once_more_and_a_seen_one_does_not():
    torch._dynamo.reset()
    compiled = []
    function = torch.compile(lambda x: (x * 2).sin(), backend=counting(compiled), dynamic=False)
    for size in (4, 4, 8, 4, 8):
        function(torch.ones(size))
    assert len(compiled) == 2


@pytest.mark.parametrize("disabled", [False, True])
def test_the_second_run_of_the_check_compiles_nothing(monkeypatch, disabled):
    torch._dynamo.reset()
    compiled = []
    if disabled:
        monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    torch.compile(lambda x: x.sin(), backend=counting(compiled))(torch.ones(2))
    assert bool(compiled) is not disabled


EQUAL, CHANGING = [8] * 12, list(range(8, 20))


@torch._dynamo.config.patch(recompile_limit=50)
@pytest.mark.parametrize(
    "compiles, sizes, slow",
    [(True, EQUAL, [0]), (False, EQUAL, []), (True, CHANGING, list(range(10)))],
    ids=["compiled", "eager", "new shapes"],
)
def test_the_times_of_the_check_are_long_at_the_start_only_where_one_compilation_is_all(
    monkeypatch, compiles, sizes, slow
):
    """A clock stands in for time: a compilation is 20 seconds, a step is one."""
    torch._dynamo.reset()
    clock = [0.0]
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    def backend(graph, inputs):
        clock[0] += 20
        return graph.forward

    function = torch.sin
    if compiles:
        function = torch.compile(lambda x: x.sin(), backend=backend, dynamic=False)

    def train_step(x):
        clock[0] += 1
        function(x)

    code = shown(
        block("T26"),
        loader=[torch.ones(size) for size in sizes],
        train_step=train_step,
    )
    told = [line.split() for line in code.splitlines()]
    assert [int(step) for step, *_ in told] == list(range(10))
    assert [int(step) for step, seconds, _ in told if float(seconds) > 10] == slow
