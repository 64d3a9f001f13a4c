"""T11: how the layout of images travels through a network, what breaks it, and what keeps it."""

import contextlib
import io

import pytest
import torch
from check_code import block
from torch import nn

LAST = torch.channels_last


class Breaking(nn.GroupNorm):
    """A norm that puts its input back into the ordinary layout, as view() and kernels of one's own often want."""

    def forward(self, x):
        return super().forward(x.contiguous())


def network(norm=nn.GroupNorm):
    layers = [nn.Conv2d(8, 16, 3, padding=1), norm(4, 16), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(16, 16, 3, padding=1), norm(4, 16), nn.ReLU())


def layouts(model, x):
    """For each layer, whether input and output lie channels-last."""
    seen = []
    for layer in model:
        layer.register_forward_hook(
            lambda m, i, o: seen.append(
                (i[0].is_contiguous(memory_format=LAST), o.is_contiguous(memory_format=LAST))
            )
        )
    model(x)
    return seen


def changes(model, x):
    """How many convolutions get an input in the ordinary layout and give one that is channels-last, or the reverse."""
    return sum(before != after for before, after in layouts(model, x))


@pytest.fixture
def x():
    return torch.randn(2, 8, 16, 16)


def test_nothing_is_channels_last_by_itself(x):
    assert not any(after for _, after in layouts(network(), x))


def test_model_and_input_keep_it_to_the_end(x):
    assert all(
        before and after
        for before, after in layouts(network().to(memory_format=LAST), x.to(memory_format=LAST))
    )


def test_with_the_model_alone_the_first_convolution_turns_its_input(x):
    assert layouts(network().to(memory_format=LAST), x)[0] == (False, True)
    assert changes(network().to(memory_format=LAST), x) == 1


def test_one_layer_that_calls_contiguous_makes_every_convolution_turn_it_back(x):
    assert changes(network(Breaking).to(memory_format=LAST), x.to(memory_format=LAST)) == 3
    assert changes(network().to(memory_format=LAST), x.to(memory_format=LAST)) == 0


def test_permute_gives_the_layout_without_a_copy_and_contiguous_takes_it_away():
    photo = torch.zeros(2, 16, 16, 3)
    assert photo.permute(0, 3, 1, 2).is_contiguous(memory_format=LAST)
    assert not photo.permute(0, 3, 1, 2).contiguous().is_contiguous(memory_format=LAST)


def test_volumes_have_a_format_of_their_own():
    with pytest.raises(RuntimeError, match="rank 4"):
        torch.zeros(1, 2, 4, 4, 4).to(memory_format=LAST)
    assert torch.zeros(1, 2, 4, 4, 4).to(memory_format=torch.channels_last_3d).shape == (
        1,
        2,
        4,
        4,
        4,
    )


def test_view_keeps_channels_apart_and_refuses_to_join_them_with_pixels(x):
    last = x.to(memory_format=LAST)
    assert last.view(2, 8, -1).shape == (2, 8, 256)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        last.view(2, -1)
    assert torch.equal(last.reshape(2, -1), x.reshape(2, -1))


class Layer(Breaking):
    pass


def test_the_lines_of_the_check_name_the_layer_that_breaks_it(x):
    def told(model, images=None):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(block("T11"), {"torch": torch, "model": model})
            model(x.to(memory_format=LAST) if images is None else images)
        return [line.split() for line in out.getvalue().splitlines()]

    def of(norm):
        head = [nn.Flatten(), nn.Linear(16 * 16 * 16, 2)]  # its output has no layout
        return nn.Sequential(*network(norm), *head).to(memory_format=LAST)

    assert all("False" not in kept for _, *kept in told(of(nn.GroupNorm)))
    name, *kept = next(line for line in told(of(Layer)) if "False" in line)
    assert (name, kept) == ("Layer", ["True", "False"])
    # A convolution turns what it gets, so only what goes in shows these two.
    assert told(of(nn.GroupNorm), x)[0] == ["Conv2d", "False", "True"]

    class Before(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = network(), nn.Conv2d(16, 8, 3)

        def forward(self, images):
            return self.second(self.first(images).contiguous())

    lines = told(Before().to(memory_format=LAST))
    assert [line for line in lines if "False" in line] == [["Conv2d", "False", "True"]]
