"""D38: names that a wrapper hides, and a forward pass that goes past it."""

import textwrap

import pytest
import torch
from check_code import block, shown, span
from launch import run_ranks
from torch import nn

RANKS = """
    import contextlib, io, torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    dist.init_process_group("gloo")
    rank = dist.get_rank()

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.config, self.scale = torch.nn.Linear(2, 1), {"hidden": 2}, 1.0
        def predict(self, x):
            return self.fc(x) * self.scale
        def compute_loss(self, x):
            return self.predict(x).sum()
        def forward(self, x, task="predict"):
            return getattr(self, task)(x)

    def train(name, loss, rate=0.1):
        torch.manual_seed(0)
        model = DDP(Model())
        optimizer = torch.optim.SGD(model.parameters(), rate)
        for _ in range(3):
            optimizer.zero_grad()
            loss(model, torch.full((1, 2), rank + 1.0)).backward()
            optimizer.step()
        with contextlib.redirect_stdout(io.StringIO()) as out:
            {block}
        first, second = eval(out.getvalue())
        print(name, "same" if first == second else "apart", flush=True)
        return model

    model = train("wrapper", lambda m, x: m(x).sum())
    train("dispatch", lambda m, x: m(x, task="compute_loss"))
    train("inner", lambda m, x: m.module(x).sum())
    train("method", lambda m, x: m.module.compute_loss(x))
    train("little", lambda m, x: m.module(x).sum(), rate=1e-6)
    for name in ("config", "compute_loss"):
        try:
            getattr(model, name)
        except AttributeError as error:
            print("AttributeError:", error, flush=True)
    print("read", model.module.config, flush=True)
    model.scale = 5.0
    print("inner scale", model.module.scale, flush=True)
    from accelerate import Accelerator
    print("unwrapped", type(Accelerator(cpu=True).unwrap_model(model)).__name__, flush=True)
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def ranks():
    pytest.importorskip("accelerate")
    lines = textwrap.indent(block("D38"), " " * 12).strip()  # of the entry's Check
    return run_ranks(RANKS.replace("{block}", lines), timeout=60)


def test_ddp_hides_the_names_of_the_model_with_the_signature(ranks, says):
    errors = ranks.lines("AttributeError:")
    assert len(errors) == 4
    for error in errors:
        says("D38", error)
    assert len(ranks.lines("read {'hidden': 2}")) == 2


def test_a_forward_past_the_wrapper_lets_the_ranks_drift_apart_and_prints_nothing(ranks):
    for name in ("inner", "method", "little"):
        assert ranks.lines(f"{name} same") == [] and len(ranks.lines(f"{name} apart")) == 2


def test_the_same_method_through_forward_keeps_them_equal(ranks):
    for name in ("wrapper", "dispatch"):
        assert ranks.lines(f"{name} apart") == [] and len(ranks.lines(f"{name} same")) == 2


def test_an_attribute_set_on_ddp_stays_on_the_wrapper(ranks):
    assert ranks.lines("inner scale") == ["inner scale 1.0"] * 2


def test_accelerate_takes_ddp_off(ranks):
    assert ranks.lines("unwrapped") == ["unwrapped Model"] * 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 1)
        self.scale = 1.0

    def forward(self, x):
        return self.fc(x) * self.scale


def test_dataparallel_hides_a_layer_with_the_signature_and_module_has_it(says):
    model = nn.DataParallel(Net())
    with pytest.raises(AttributeError) as error:
        model.fc
    says("D38", str(error.value))
    assert getattr(model, "module", model).fc is model.module.fc


def test_a_model_without_a_wrapper_has_no_module_and_getattr_serves_both(says, small_llama):
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM(small_llama)
    with pytest.raises(AttributeError) as error:
        model.module
    says("D38", str(error.value))
    assert getattr(model, "module", model) is model


def test_a_compiled_model_hands_names_on_both_ways():
    model = torch.compile(Net())
    model.scale = 5.0
    assert model._orig_mod.scale == 5.0 and model.fc is model._orig_mod.fc
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'head'"):
        model.head


def test_the_line_of_the_check_names_the_wrapper_or_the_model():
    line = span("D38", "print(type(model))")
    assert "DataParallel" in shown(line, model=nn.DataParallel(Net()))
    assert "DataParallel" not in shown(line, model=Net()) and "Net" in shown(line, model=Net())
