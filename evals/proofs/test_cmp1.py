"""CMP1: a value that changes with each call is compiled anew until the limit, and the changes that end it."""

import logging
import subprocess
import sys
import threading

import pytest
import torch
from check_code import span
from torch import _dynamo as dynamo

LIMIT = 8


class Count:
    """A backend that counts compilations."""

    def __init__(self):
        self.n = 0

    def __call__(self, graph, inputs):
        self.n += 1
        return graph.forward


@pytest.fixture(autouse=True)
def fresh():
    dynamo.reset()
    yield
    dynamo.reset()


@pytest.fixture
def logged():
    """What Dynamo logged. Its logger may pass nothing on to those above it, where caplog listens."""
    lines, handler = [], logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger("torch._dynamo")
    logger.addHandler(handler)
    yield lambda: "\n".join(lines)
    logger.removeHandler(handler)


def batches(number=12):
    return [torch.ones(2, 4 + i) for i in range(number)]


def run(function, inputs, **options) -> int:
    backend = Count()
    compiled = torch.compile(function, backend=backend, **options)
    for x in inputs:
        compiled(x)
    return backend.n


def double(x):
    return x * 2


def test_static_shapes_reach_the_limit_and_the_rest_runs_uncompiled(says, logged):
    assert run(double, batches(), dynamic=False) == LIMIT
    says("CMP1", logged())


def test_with_fullgraph_the_limit_is_an_error(says):
    with pytest.raises(dynamo.exc.FailOnRecompileLimitHit) as caught:
        run(double, batches(), dynamic=False, fullgraph=True)
    says("CMP1", f"{type(caught.value).__name__}: {caught.value}")


def test_by_default_a_length_becomes_variable_at_its_first_change():
    assert run(double, batches()) == 2


def test_a_marked_length_needs_one_compilation():
    inputs = batches()
    for x in inputs:
        dynamo.mark_dynamic(x, 1)
    assert run(double, inputs, dynamic=False) == 1


def test_padding_to_a_multiple_needs_one_compilation_per_length():
    padded = [torch.nn.functional.pad(x, (0, -x.shape[1] % 8)) for x in batches()]
    assert run(double, padded, dynamic=False) == 2


def counting(n):
    return [n for _ in range(n.shape[1])][0] * 2


def test_a_size_that_python_counts_with_stays_fixed(says, logged):
    assert run(counting, batches()) == LIMIT
    says("CMP1", logged())


def test_strings_are_compiled_one_by_one(says, logged):
    assert run(lambda i: torch.ones(2) * len(f"step {i}"), [f"{i}" for i in range(12)]) == LIMIT
    says("CMP1", logged())


class Stepper(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
        self.step += 1
        return x * self.step


class Buffered(Stepper):
    def __init__(self):
        torch.nn.Module.__init__(self)
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))


def test_a_counter_in_a_module(says, logged):
    same = [torch.ones(2)] * 12
    assert run(Stepper(), same) == LIMIT
    says("CMP1", logged())
    dynamo.reset()
    assert run(Buffered(), same) == 1
    dynamo.reset()
    with dynamo.config.patch(allow_unspec_int_on_nn_module=True):
        assert run(Stepper(), same) == 2


def test_parameters_keep_their_shapes(says, logged):
    assert run(double, [torch.nn.Parameter(x) for x in batches()]) == LIMIT
    says("CMP1", logged())


def test_the_limit_as_an_argument_holds_in_every_thread_and_the_setting_does_not():
    counts = []

    def work():
        counts.append(run(double, batches(), dynamic=False))
        dynamo.reset()
        counts.append(run(double, batches(), dynamic=False, recompile_limit=32))

    with dynamo.config.patch(recompile_limit=32):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert counts == [LIMIT, 12]


def test_training_evaluation_and_no_grad_each_get_one():
    backend = Count()
    layer = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout())
    compiled = torch.compile(layer, backend=backend)
    x = torch.ones(3, 2)
    compiled(x)
    layer.eval()
    compiled(x)
    with torch.no_grad():
        compiled(x)
    assert backend.n == 3


TRAIN = """
import torch
double = torch.compile(lambda x: x * 2, backend="eager"{options})
for i in range(12):
    double(torch.ones(2, 4 + i))
"""


def test_the_command_of_the_check_goes_on_only_where_shapes_stay_static(tmp_path):
    command = span("CMP1", "TORCH_LOGS").replace("python", sys.executable, 1)
    runs = []
    for options in (", dynamic=False", ""):
        folder = tmp_path / (options[2:9] or "default")
        folder.mkdir()
        (folder / "train.py").write_text(TRAIN.format(options=options))
        runs.append(
            subprocess.Popen(["bash", "-c", command], cwd=folder, text=True, stdout=subprocess.PIPE)
        )
    static, default = [run.communicate(timeout=100)[0].splitlines() for run in runs]
    assert (len(static), len(default)) == (LIMIT + 1, 1)
    assert "hit config" in static[-1] and "hit config" not in default[0]
