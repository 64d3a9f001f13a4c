"""O29: a column against a row: the loss compares each prediction with every target, and the mean is its best answer."""

import re
import warnings

import pytest
import torch
from remote_gpu_trainer.catalogue import bundle
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

N = 64
X = torch.randn(N, 2, generator=torch.Generator().manual_seed(0))
Y = 3 * X[:, 0] - 2 * X[:, 1] + 1


def own(pred, target):
    return ((pred - target) ** 2).mean()


def fitted(loss_fn, shaped):
    """The last loss and the predictions of a linear model that can fit the data exactly."""
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(400):
        optimizer.zero_grad()
        loss = loss_fn(shaped(model(X)), Y)
        loss.backward()
        optimizer.step()
    return loss.item(), model(X).detach().squeeze(-1)


def column(pred):
    return pred


def row(pred):
    return pred.squeeze(-1)


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("loss_fn", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, own])
def test_a_column_against_a_row_predicts_one_number_and_the_same_shape_learns(loss_fn):
    _, flat = fitted(loss_fn, column)
    assert flat.std() < 0.02 * Y.std()
    loss, right = fitted(loss_fn, row)
    assert loss < 0.01 and (right - Y).abs().max() < 0.05


def test_the_loss_stops_at_the_variance_and_the_prediction_at_the_mean():
    loss, flat = fitted(own, column)
    assert loss == pytest.approx(Y.var(unbiased=False).item(), rel=1e-3)
    assert flat.mean().item() == pytest.approx(Y.mean().item(), abs=1e-3)


def test_the_gradient_pulls_each_prediction_to_the_mean_of_the_targets():
    pred = torch.randn(N, 1, requires_grad=True)
    own(pred, Y).backward()
    torch.testing.assert_close(
        pred.grad[:, 0], 2 * (pred.detach()[:, 0] - Y.mean()) / N, atol=1e-6, rtol=1e-3
    )


def heard(call) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in caught]


@pytest.mark.parametrize("loss_fn", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss])
@pytest.mark.parametrize(
    ("pred", "target"),
    [((N, 1), (N,)), ((N,), (N, 1)), ((2, 1, 5, 5), (2, 5, 5)), ((2, 5, 5), (2, 1, 5, 5))],
)
def test_four_losses_warn(says, loss_fn, pred, target):
    (message,) = heard(lambda: loss_fn(torch.zeros(pred), torch.zeros(target)))
    says("O29", message)


@pytest.mark.parametrize("loss_fn", [own, F.kl_div, F.poisson_nll_loss])
def test_others_are_silent(loss_fn):
    assert not [
        m for m in heard(lambda: loss_fn(torch.zeros(N, 1), torch.zeros(N))) if "target size" in m
    ]


@pytest.mark.parametrize(
    ("pred", "target"), [((), (1,)), ((1, 1), (1,)), ((1,), (1, 1)), ((4, 8), (2, 4, 8))]
)
def test_one_row_and_other_faults_hold_no_signature(pred, target):
    text = f"Using a target size ({torch.Size(target)}) that is different to the input size ({torch.Size(pred)}). This will likely lead to incorrect results"
    assert not any(re.search(s.text, text) for s in bundle.load().get("O29").signatures)


def test_the_warning_can_be_made_an_error():
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Using a target size")
        with pytest.raises(UserWarning):
            F.mse_loss(torch.zeros(N, 1), torch.zeros(N))
        assert F.mse_loss(torch.zeros(N, 1).squeeze(-1), torch.zeros(N)) == 0


def test_binary_cross_entropy_raises_instead():
    with pytest.raises(ValueError, match="must be the same as input size"):
        F.binary_cross_entropy_with_logits(torch.zeros(N, 1), torch.zeros(N))


@pytest.mark.parametrize(
    ("labels", "read"), [(torch.arange(N) % 2, 0.5), ((torch.arange(100) % 10 == 0).long(), 0.82)]
)
def test_perfect_predictions_read_as_chance(labels, read):
    pred = labels[:, None].clone()
    assert (pred == labels).float().mean().item() == pytest.approx(read, abs=0.001)
    assert (pred.squeeze(-1) == labels).float().mean() == 1


def test_a_sum_over_n_reads_thousands_of_percent():
    labels = torch.arange(N) % 2
    assert (labels[:, None] == labels).sum() / N == 32


def test_centred_advantages_of_the_wrong_shape_give_no_gradient():
    advantage = torch.randn(N, 1, generator=torch.Generator().manual_seed(0))
    advantage = advantage - advantage.mean()

    def gradient(of):
        log_prob = torch.zeros(N, requires_grad=True)
        (-(log_prob * of).mean()).backward()
        return log_prob.grad.abs().max().item()

    assert gradient(advantage) < 1e-6 < 1e-3 < gradient(advantage.squeeze(-1))


def test_a_mask_of_the_wrong_shape_counts_what_it_should_leave_out():
    loss, mask = torch.tensor([[1.0], [2.0], [300.0], [400.0]]), torch.tensor([1.0, 1.0, 0.0, 0.0])
    assert (loss * mask).sum() / mask.sum() == 703
    assert (loss.squeeze(-1) * mask).sum() / mask.sum() == 1.5


def test_a_bare_squeeze_loses_the_batch_of_one_row():
    assert torch.zeros(1, 1).squeeze().shape == () and torch.zeros(1, 1).squeeze(-1).shape == (1,)


class NoSquare(TorchFunctionMode):
    """Stops at an operation on two tensors of equal size whose result is larger."""

    def __torch_function__(self, f, types, args=(), kwargs=None):
        out = f(*args, **(kwargs or {}))
        a = [t for t in args if isinstance(t, torch.Tensor)]
        if (
            isinstance(out, torch.Tensor)
            and len(a) == 2
            and a[0].dim() != a[1].dim()
            and a[0].numel() == a[1].numel() < out.numel()
        ):
            raise RuntimeError(f"{f.__name__}: {a[0].shape} with {a[1].shape} gives {out.shape}")
        return out


def test_the_mode_names_the_operation_and_lets_the_fixed_loss_pass():
    model = nn.Linear(2, 1)
    with NoSquare():
        with pytest.raises(RuntimeError, match=r"sub.*\[64, 1\].*\[64\].*\[64, 64\]"):
            own(model(X), Y)
        own(model(X).squeeze(-1), Y).backward()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("loss_fn", [F.mse_loss, F.kl_div, F.poisson_nll_loss])
def test_the_mode_sees_a_loss_of_torch_only_without_its_mean(loss_fn):
    pred = torch.rand(N, 1)
    with NoSquare():
        loss_fn(pred, Y)
        with pytest.raises(RuntimeError, match=loss_fn.__name__):
            loss_fn(pred, Y, reduction="none")
        loss_fn(pred.squeeze(-1), Y, reduction="none")


def test_the_check_prints_a_third_larger_shape_or_three_equal_ones(printed):
    pred = nn.Linear(2, 1)(X)
    seen = [printed("O29", pred=p, y=Y).replace("torch.Size", "") for p in (pred, pred.squeeze(-1))]
    assert seen == ["([64, 1]) ([64]) ([64, 64])", "([64]) ([64]) ([64])"]
