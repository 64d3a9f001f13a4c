"""DP5: what the pinning of a DataLoader reaches. The copy itself needs a GPU, so the tensors only count the calls."""

from collections import UserDict, namedtuple
from dataclasses import dataclass

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data._utils.pin_memory import pin_memory


@pytest.fixture
def pinned(monkeypatch):
    calls = []

    def pin(tensor, *arguments):
        calls.append(tensor)
        return tensor

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    return calls


def test_the_line_of_the_check_tells_a_pinned_batch_from_one_that_was_passed_by(
    pinned, printed, monkeypatch
):
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda self: any(t is self for t in pinned))
    told = [
        printed("DP5", loader=Loader([pin_memory(kind(torch.ones(2)))]))
        for kind in (Plain, Pinning)
    ]
    assert told == ["True False", "True True"]


class Loader(list):
    pin_memory = True


@dataclass
class Plain:
    x: torch.Tensor


@dataclass
class Pinning(Plain):
    def pin_memory(self):
        self.x = self.x.pin_memory()
        return self


@dataclass
class Forgetful(Plain):
    def pin_memory(self):
        self.x = self.x.pin_memory()


Named = namedtuple("Named", "x")


def test_an_object_of_another_class_passes_unpinned(pinned):
    batch = Plain(torch.ones(2))
    assert pin_memory(batch) is batch and not pinned


def test_sets_and_iterators_are_not_looked_into(pinned):
    pin_memory({torch.ones(2)})
    pin_memory(iter([torch.ones(2)]))
    assert not pinned


@pytest.mark.parametrize(
    "batch",
    [
        [torch.ones(2)],
        (torch.ones(2),),
        {"x": torch.ones(2)},
        Named(torch.ones(2)),
        UserDict(x=torch.ones(2)),
    ],
)
def test_lists_tuples_and_dicts_are_and_keep_their_type(pinned, batch):
    assert type(pin_memory(batch)) is type(batch) and len(pinned) == 1


def test_a_method_of_that_name_is_called(pinned):
    batch = pin_memory(Pinning(torch.ones(2)))
    assert isinstance(batch, Pinning) and len(pinned) == 1
    pin_memory(pack_sequence([torch.ones(2)]))
    assert len(pinned) > 1


def test_a_method_without_return_turns_the_batch_into_none(pinned):
    assert pin_memory(Forgetful(torch.ones(2))) is None


def test_a_tensor_that_is_not_on_the_cpu_fails_with_the_signature(says):
    with pytest.raises(RuntimeError) as error:
        pin_memory({"x": torch.ones(2, device="meta")})
    says("DP5", str(error.value))
