"""T26: `torch.compile` returns at once, the first call compiles, and so does each new shape."""

import statistics
import time

import torch


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
