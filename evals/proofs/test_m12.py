"""M12: bytes of the optimizers' state beside the weights, and of what a step needs for a moment."""

import weakref

import pytest
import torch
from memory_counts import gradients, state, weights
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter


def stepped(optimizer_class, **options):
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(128, 128, bias=False) for _ in range(8)))
    optimizer = optimizer_class(model.parameters(), lr=1e-3, **options)
    model(torch.ones(1, 128)).sum().backward()
    optimizer.step()
    return model, optimizer


@pytest.mark.parametrize(
    "name, options, copies",
    [("AdamW", {}, 2), ("SGD", {"momentum": 0.9}, 1), ("SGD", {}, 0), ("Adafactor", {}, 0.02)],
)
def test_state_in_copies_of_the_weights(name, options, copies):
    model, optimizer = stepped(getattr(torch.optim, name), **options)
    assert state(optimizer) / weights(model) == pytest.approx(copies, abs=0.01)


def test_adafactor_of_transformers_as_the_trainer_makes_it_keeps_hardly_any_state():
    pytest.importorskip("transformers")
    from transformers.optimization import Adafactor

    model, optimizer = stepped(Adafactor, scale_parameter=False, relative_step=False)
    assert state(optimizer) / weights(model) < 0.03


class Peak(TorchDispatchMode):
    """The most bytes that results of operations held at one time."""

    def __init__(self):
        super().__init__()
        self.live, self.now, self.most = set(), 0, 0

    def gone(self, key, nbytes):
        self.live.discard(key)
        self.now -= nbytes

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        given = {
            t.untyped_storage()._cdata
            for t in tree_iter((args, kwargs or {}))
            if torch.is_tensor(t)
        }
        result = function(*args, **(kwargs or {}))
        for tensor in tree_iter(result):
            if (
                torch.is_tensor(tensor)
                and (key := tensor.untyped_storage()._cdata) not in given | self.live
            ):
                nbytes = tensor.untyped_storage().nbytes()
                self.live.add(key)
                self.now += nbytes
                weakref.finalize(tensor, self.gone, key, nbytes)
        self.most = max(self.most, self.now)
        return result


def momentary(**options):
    """Bytes of intermediates of the second step of AdamW, as copies of the weights."""
    model, optimizer = stepped(torch.optim.AdamW, **options)
    with Peak() as peak:
        optimizer.step()
    return peak.most / weights(model)


def test_foreach_needs_a_copy_of_the_weights_more_for_a_moment_and_fused_doesnt():
    assert momentary(foreach=True) > 0.9
    assert momentary(foreach=False) < 0.5
    assert momentary(fused=True) < 0.1


def test_bf16_weights_bring_bf16_moments_which_are_half_as_large():
    model = torch.nn.Linear(128, 128, bias=False)
    whole = weights(model)
    model.bfloat16()
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 128, dtype=torch.bfloat16)).sum().backward()
    optimizer.step()
    assert {v.dtype for s in optimizer.state.values() for v in s.values() if v.numel() > 1} == {
        torch.bfloat16
    }
    assert weights(model) + gradients(model) + state(optimizer) == pytest.approx(
        2 * whole, rel=0.01
    )


def test_an_update_in_backward_never_holds_more_than_one_gradient():
    model = torch.nn.Sequential(*(torch.nn.Linear(128, 128, bias=False) for _ in range(8)))
    optimizers = {p: torch.optim.AdamW([p]) for p in model.parameters()}
    before, most = [p.detach().clone() for p in model.parameters()], 0

    def update(parameter):
        nonlocal most
        most = max(most, gradients(model))
        optimizers[parameter].step()
        parameter.grad = None

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(update)
    model(torch.ones(1, 128)).sum().backward()
    assert most == weights(model) / 8
    assert not any(torch.equal(a, b) for a, b in zip(before, model.parameters()))


def test_the_line_of_the_check_prints_a_large_state_and_a_small_one(printed):
    def gib(name, **options):
        model, optimizer = stepped(getattr(torch.optim, name), **options)
        return float(printed("M12", opt=optimizer, torch=torch)) * 2**30 / weights(model)

    assert gib("AdamW") == pytest.approx(2, abs=0.01)
    assert gib("Adafactor") < 0.03
    assert gib("SGD") == 0
