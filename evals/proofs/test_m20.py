"""M20: what a kept loss, hidden state or error holds, and what lets it go."""

import gc
import warnings
import weakref

import pytest
import torch
from memory_counts import Card
from torch import nn

STEPS = 5


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))


class Saved:
    """Counts what autograd saved in a block and what of it is still alive."""

    def __enter__(self):
        self.tensors = []
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.keep, lambda t: t)
        self.hooks.__enter__()
        return self

    def keep(self, tensor):
        copy = tensor.detach().clone()
        self.tensors.append(weakref.ref(copy))
        return copy

    def __exit__(self, *error):
        self.hooks.__exit__(*error)

    def alive(self) -> int:
        gc.collect()
        return sum(ref() is not None for ref in self.tensors)


def losses(keep, backward):
    """Saved tensors that are alive after some steps whose losses were kept in this way."""
    model, kept = net(), []
    with Saved() as saved:
        for _ in range(STEPS):
            loss = model(torch.randn(4, 8)).mean()
            if backward:
                loss.backward()
            kept.append(keep(loss))
            del loss
        return saved.alive(), len(saved.tensors)


def test_a_kept_loss_holds_every_activation_where_no_backward_follows():
    alive, all_of_them = losses(lambda loss: loss, backward=False)
    assert alive == all_of_them >= 2 * STEPS


@pytest.mark.parametrize("keep", [torch.Tensor.item, torch.Tensor.detach])
def test_its_number_holds_nothing(keep):
    assert losses(keep, backward=False)[0] == 0


def test_after_backward_it_holds_no_activation():
    assert losses(lambda loss: loss, backward=True)[0] == 0


def test_a_running_mean_of_outputs_grows_with_each_step_until_it_is_detached():
    def run(change):
        model, mean = net(), torch.zeros(())
        with Saved() as saved:
            counts = []
            for _ in range(STEPS):
                mean = 0.9 * mean + 0.1 * change(model(torch.randn(4, 8)).mean())
                counts.append(saved.alive())
        return counts

    growing = run(lambda x: x)
    assert growing == sorted(set(growing)) and growing[-1] >= 2 * STEPS
    assert run(torch.Tensor.detach)[-1] == 0


def test_a_hidden_state_makes_the_graph_longer_with_each_step_until_it_is_detached():
    def run(change):
        cell, hidden, counts = nn.RNNCell(4, 4), torch.zeros(2, 4), []
        with Saved() as saved:
            for _ in range(STEPS):
                hidden = cell(torch.randn(2, 4), change(hidden))
                hidden.mean().backward(retain_graph=True)
                counts.append(saved.alive())
        return counts

    growing, level = run(lambda h: h), run(torch.Tensor.detach)
    assert growing == sorted(set(growing)) and growing[-1] > 3 * growing[0]
    assert level[-1] <= level[0] + 1


@pytest.mark.parametrize(
    "keep, rises",
    [(lambda loss: loss, True), (torch.Tensor.item, False)],
    ids=["the loss", "its number"],
)
def test_the_line_of_the_check_rises_with_each_step_just_where_activations_are_kept(
    printed, keep, rises
):
    """The third step has a long sample: it falls back where nothing is kept."""
    model, kept, allocated = net(), [], []
    with Card():
        for length in (4, 4, 400, 4, 4):
            kept.append(keep(model(torch.randn(length, 8)).mean()))
            allocated.append(int(printed("M20", torch=torch).split()[0]))
    steps = [after - before for before, after in zip(allocated, allocated[1:])]
    assert all(step > 0 for step in steps) if rises else not any(steps)


def test_without_retain_graph_the_second_backward_stops():
    cell, hidden = nn.RNNCell(4, 4), torch.zeros(2, 4)
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        for _ in range(2):
            hidden = cell(torch.randn(2, 4), hidden)
            hidden.mean().backward()


def test_create_graph_ties_a_ring_and_a_gradient_of_none_opens_it():
    def run(reset):
        gone = []
        for _ in range(STEPS):
            weight = torch.randn(4, requires_grad=True)
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                (weight**3).sum().backward(create_graph=True)
            gone.append(weakref.ref(weight))
            if reset:
                weight.grad = None
            del weight
        gc.collect()
        return sum(ref() is not None for ref in gone), str(seen[0].message) if seen else ""

    alive, _ = run(reset=False)
    assert alive == STEPS
    assert run(reset=True)[0] == 0


def test_a_caught_error_holds_the_frames_tensors_until_the_block_ends():
    def step():
        big = torch.zeros(10)
        held.append(weakref.ref(big))
        raise torch.OutOfMemoryError("CUDA out of memory.")

    held = []
    try:
        step()
    except torch.OutOfMemoryError:
        gc.collect()
        inside = held[0]() is not None
    gc.collect()
    assert inside and held[0]() is None


def test_a_pool_that_is_emptied_keeps_what_a_tensor_uses():
    kept = [torch.zeros(10) for _ in range(3)]
    refs = [weakref.ref(t) for t in kept]
    torch.cuda.empty_cache()
    gc.collect()
    assert all(ref() is not None for ref in refs)
    kept.clear()
    assert not any(ref() is not None for ref in refs)
