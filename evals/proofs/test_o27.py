"""O27: what model.to() moves and what stays behind. The meta device stands for the card."""

import pytest
import torch
from torch import nn

CARD = "meta"


class Model(nn.Module):
    def __init__(self, good):
        super().__init__()
        self.layers = nn.ModuleList([nn.LSTM(2, 2)]) if good else [nn.LSTM(2, 2)]
        if good:
            self.register_buffer("mask", torch.ones(2), persistent=False)
        else:
            self.mask = torch.ones(2)

    def forward(self, x):
        return self.layers[0](x)[0]


def test_a_list_of_layers_stays_on_the_cpu(says):
    with pytest.raises(RuntimeError) as stop:
        Model(good=False).to(CARD)(torch.ones(1, 1, 2, device=CARD))
    says("O27", str(stop.value))
    assert Model(good=True).to(CARD)(torch.ones(1, 1, 2, device=CARD)).device.type == CARD


def test_a_plain_attribute_stays_and_a_buffer_goes():
    x = torch.ones(2, device=CARD)
    with pytest.raises(RuntimeError, match="device"):
        x * Model(good=False).to(CARD).mask
    good = Model(good=True).to(CARD)
    assert (x * good.mask).device.type == CARD and "mask" not in good.state_dict()


def test_the_check_finds_them():
    def devices(model):
        return (
            {p.device.type for p in [*model.parameters(), *model.buffers()]},
            {k: v.device.type for k, v in vars(model).items() if torch.is_tensor(v)},
        )

    assert devices(Model(good=False).to(CARD)) == (set(), {"mask": "cpu"})
    assert devices(Model(good=True).to(CARD)) == ({CARD}, {})


def test_to_of_a_tensor_is_a_copy():
    x = torch.ones(2)
    x.to(CARD)
    assert x.device.type == "cpu" and x.to(CARD).device.type == CARD


def test_class_weights_go_with_the_loss():
    scores, labels = torch.zeros(2, 3, device=CARD), torch.zeros(2, dtype=torch.long, device=CARD)
    with pytest.raises(RuntimeError, match="device"):
        nn.CrossEntropyLoss(weight=torch.ones(3))(scores, labels)
    assert nn.CrossEntropyLoss(weight=torch.ones(3)).to(CARD)(scores, labels).device.type == CARD


def test_loaded_optimizer_state_goes_where_the_parameters_are():
    old = nn.Linear(2, 2)
    adam = torch.optim.Adam(old.parameters())
    old(torch.ones(1, 2)).sum().backward()
    adam.step()
    new = nn.Linear(2, 2).to(CARD)
    resumed = torch.optim.Adam(new.parameters())
    resumed.load_state_dict(adam.state_dict())
    assert resumed.state[new.weight]["exp_avg"].device.type == CARD


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
        "RuntimeError: Expected all tensors to be on the same device, but got weight is on cpu, different from other tensors on cuda:0 (when checking argument in method wrapper_CUDA_nll_loss_forward)",
        "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
        "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or input should be a MKLDNN tensor",
        "RuntimeError: indices should be either on cpu or on the same device as the indexed tensor (cpu)",
        "RuntimeError: expected device cuda:0 but got device cpu",
    ],
)
def test_texts_of_the_card(text, says):
    says("O27", text)


def test_another_dtype_is_not_this(says):
    with pytest.raises(AssertionError, match="none of the signatures"):
        says(
            "O27",
            "RuntimeError: Input type (torch.cuda.HalfTensor) and weight type (torch.cuda.FloatTensor) should be the same",
        )


def test_the_check_of_the_entry_lists_what_stays_behind_and_nothing_in_a_sound_model(printed):
    def checked(model):
        return printed("O27", model=model.to(CARD), torch=torch)

    sound = "{device(type='meta')} []"
    assert checked(nn.Sequential(Model(good=True))) == sound
    text = checked(nn.Sequential(nn.Linear(2, 2), Model(good=False)))
    assert text == "{device(type='meta')} [('1', 'layers'), ('1', 'mask')]"
    mixed = nn.Sequential(nn.Linear(2, 2, device=CARD), nn.Linear(2, 2))
    devices = printed("O27", model=mixed, torch=torch).rsplit(" ", 1)[0]
    assert "cpu" in devices and CARD in devices
