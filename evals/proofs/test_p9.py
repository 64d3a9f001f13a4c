"""P9: where a nan was made. The hook of the entry, and what anomaly mode sees and doesn't."""

import re
import warnings

import pytest
import torch
from check_code import block
from torch import nn
from torch.utils._pytree import tree_leaves


def watch(name):
    def finite(values):
        return all(t.isfinite().all() for t in tree_leaves(values) if torch.is_tensor(t))

    def hook(module, inputs, output):
        if not finite(output):
            raise FloatingPointError(
                f"{name}: bad output, inputs {'fine' if finite(inputs) else 'bad too'}"
            )

    return hook


class Net(nn.Module):
    def __init__(self, bad_operation: bool):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.bad_operation = bad_operation

    def forward(self, x):
        x = self.second(self.first(x))
        return self.third(torch.log(x - x) if self.bad_operation else x)


def hooked(net, x):
    handles = [
        m.register_forward_hook(watch(n)) for n, m in net.named_modules() if not list(m.children())
    ]
    try:
        return net(x)
    finally:
        for handle in handles:
            handle.remove()


def test_the_hook_names_the_first_layer_with_a_bad_output():
    net = Net(bad_operation=False)
    with torch.no_grad():
        net.second.weight.fill_(torch.inf)
    with pytest.raises(FloatingPointError, match="^second: bad output, inputs fine"):
        hooked(net, torch.ones(1, 4))


def test_an_operation_between_layers_shows_as_bad_inputs_of_the_next():
    with pytest.raises(FloatingPointError, match="^third: bad output, inputs bad too"):
        hooked(Net(bad_operation=True), torch.ones(1, 4))


def test_a_sound_step_passes_and_no_hook_stays():
    net = Net(bad_operation=False)
    assert hooked(net, torch.ones(1, 4)).isfinite().all()
    assert not any(m._forward_hooks for m in net.modules())


def failure(around_forward: bool):
    x = torch.zeros(2, requires_grad=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(RuntimeError) as error:
            with torch.autograd.set_detect_anomaly(around_forward):
                loss = (x.sqrt() * 0).sum()
            with torch.autograd.detect_anomaly():
                loss.backward()
    return str(error.value), "\n".join(str(w.message) for w in caught)


def test_anomaly_mode_names_the_operation_with_the_signature(says):
    text, notes = failure(around_forward=True)
    assert "SqrtBackward0" in text and "Traceback of forward call" in notes
    says("P9", text)


def test_anomaly_mode_around_backward_alone_can_not_show_the_line():
    _, notes = failure(around_forward=False)
    assert "No forward pass information available" in notes


@pytest.mark.parametrize("start", [-1.0, 0.0])
def test_anomaly_mode_lets_a_nan_of_the_forward_pass_and_an_inf_gradient_through(start):
    x = torch.tensor([start], requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly():
            loss = x.log().sum()
            loss.backward()
    assert not loss.isfinite() and not x.grad.isnan().any()


@pytest.mark.parametrize(
    "line",
    [
        "{'loss': '0', 'grad_norm': 'nan', 'learning_rate': '3.333e-05', 'epoch': '0.15'}",
        "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 2e-05, 'epoch': 0.01}",
        "Loss is nan, stopping training",
        "FloatingPointError: Loss became infinite or NaN at iteration=41!",
        "Detected inf/nan during batch_number=0",
        "RuntimeError: Function 'MseLossBackward0' returned nan values in its 0th output.",
    ],
)
def test_the_lines_of_frameworks_are_recognised(says, line):
    says("P9", line)


def test_a_healthy_trainer_line_is_not_taken_for_it(says):
    with pytest.raises(AssertionError):
        says(
            "P9",
            "{'loss': '0.03', 'grad_norm': '0.4266', 'learning_rate': '5e-05', 'epoch': '0.05'}",
        )


def test_the_check_tells_ruined_weights_a_bad_input_and_a_sound_start_apart(printed):
    net, x = Net(bad_operation=True), torch.ones(1, 4)
    assert printed("P9", model=net, x=x) == "[] True"  # the hook will find it
    with torch.no_grad():
        net.second.weight[0, 0] = torch.nan
    assert printed("P9", model=net, x=x) == "['second.weight'] True"
    assert printed("P9", model=Net(bad_operation=False), x=x / 0 * 0) == "[] False"


@pytest.mark.parametrize("bad", [True, False])
def test_the_code_of_the_fix_stops_at_the_bad_layer_and_leaves_no_hook_behind(bad):
    net = Net(bad_operation=False)
    if bad:
        with torch.no_grad():
            net.second.weight.fill_(torch.inf)
    code = block("P9", "fix")
    hooking, removing = re.split(r"^\.\.\. .*$", code, flags=re.M)
    names = {"torch": torch, "model": net}
    exec(hooking, names)
    if bad:
        with pytest.raises(FloatingPointError, match="^second: bad output, inputs fine"):
            net(torch.ones(1, 4))
    else:
        assert net(torch.ones(1, 4)).isfinite().all()
    exec(removing, names)
    assert not any(m._forward_hooks for m in net.modules())
