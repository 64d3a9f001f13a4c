"""CMP8: code that fullgraph refuses, and the forms that it takes."""

import contextlib
import io
from pathlib import Path

import numpy as np
import pytest
import torch
from check_code import span
from torch import _dynamo as dynamo


@pytest.fixture(autouse=True)
def fresh():
    dynamo.reset()
    yield
    dynamo.reset()


def compiled(function, **options):
    return torch.compile(function, backend="eager", **{"fullgraph": True, **options})


def branch(x):
    if x.sum() > 0:
        return x
    return -x


def branch_on_item(x):
    if x.sum().item() > 0:
        return x
    return -x


def loop(x):
    return [x + i for i in range(int(x.sum()))][0]


def printing(x):
    print("x is", x)
    return x + 1


@torch.compiler.disable
def disabled(x):
    return x + x.sum().item()


def calls_disabled(x):
    return disabled(x) * 2


REFUSED = [branch, branch_on_item, loop, printing, calls_disabled]
X = torch.ones(3)


@pytest.mark.parametrize("function", REFUSED)
def test_fullgraph_refuses(function, says):
    with pytest.raises((dynamo.exc.Unsupported, dynamo.exc.UserError)) as caught:
        compiled(function)(X)
    says("CMP8", f"{type(caught.value).__name__}: {caught.value}")


@pytest.mark.parametrize("function", REFUSED)
def test_without_fullgraph_it_runs_and_gives_the_same(function):
    torch.testing.assert_close(compiled(function, fullgraph=False)(X), function(X))


@torch.library.custom_op("cmp8::foreign", mutates_args=())
def foreign(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy() + 1)


@foreign.register_fake
def _(x):
    return torch.empty_like(x)


TAKEN = {
    "where": (lambda x: torch.where(x.sum() > 0, x, -x), X),
    "cond": (lambda x: torch.cond(x.sum() > 0, lambda x: x + 0, lambda x: -x, (x,)), X),
    "item without a branch": (lambda x: x * x.sum().item(), X * 3),
    "NumPy": (lambda x: torch.from_numpy(np.sin(x.numpy())), X.sin()),
    "a custom operator": (lambda x: foreign(x) * 2, X * 4),
}


@pytest.mark.parametrize("name", TAKEN)
def test_fullgraph_takes(name):
    function, expected = TAKEN[name]
    torch.testing.assert_close(compiled(function)(X), expected)


def test_fullgraph_takes_a_range_over_an_argument_and_refuses_one_over_a_computed_value():
    def repeated(x, times):
        for i in range(int(times)):
            x = x + i
        return x

    assert compiled(repeated)(X, torch.tensor(3)).tolist() == [4.0, 4.0, 4.0]
    with pytest.raises(Exception, match="data-dependent"):
        compiled(lambda x: repeated(x, x.sum()))(X)


def test_print_can_be_moved_behind_the_graph(capsys):
    with dynamo.config.patch(reorderable_logging_functions={print}):
        compiled(printing)(X)
    assert "x is" in capsys.readouterr().out


def test_forced_eager_shows_that_only_compiling_fails():
    with torch.compiler.set_stance("force_eager"):
        torch.testing.assert_close(compiled(branch)(X), X)


def test_one_switch_runs_uncompiled_and_the_other_stops_under_fullgraph(monkeypatch, says):
    with pytest.raises(dynamo.exc.Unsupported):
        compiled(branch)(X)
    with monkeypatch.context() as patch:
        patch.setenv("TORCHDYNAMO_DISABLE", "1")
        torch.testing.assert_close(compiled(branch)(X), X)
    with dynamo.config.patch(disable=True):  # as TORCH_COMPILE_DISABLE=1 does
        with pytest.raises(RuntimeError) as error:
            compiled(branch)(X)
    says("CMP8", str(error.value))


def graph_breaks(function) -> str:
    """What torch writes under the setting of the check while it compiles this without fullgraph."""
    told = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(told):
        patch.setenv(*span("CMP8", "TORCH_LOGS").split("="))
        torch._logging._internal._init_logs()
        compiled(function, fullgraph=False)(X)
    torch._logging._internal._init_logs()
    return told.getvalue()


def test_the_check_lists_the_line_that_breaks_the_graph_and_none_of_sound_code():
    assert not graph_breaks(TAKEN["where"][0])
    line = branch.__code__.co_firstlineno + 1
    assert f'{Path(__file__).name}", line {line}' in graph_breaks(branch)


def test_the_check_by_its_switch_runs_the_same_code_uncompiled(monkeypatch):
    with pytest.raises(dynamo.exc.Unsupported):
        compiled(branch)(X)
    monkeypatch.setenv(*span("CMP8", "TORCHDYNAMO_DISABLE").split("="))
    torch.testing.assert_close(compiled(branch)(X), X)
