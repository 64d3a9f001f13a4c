"""M14: a backward pass that needs more than the forward pass left."""

import pytest
import torch
from check_code import block, span
from memory_counts import Alive, Card, peak
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

TOKENS, WIDTH, VOCABULARY = 256, 16, 8000
LOGITS = TOKENS * VOCABULARY * 4


def peaks(loss_of):
    """The most bytes alive in the forward and in the backward pass of loss_of(hidden, weight, targets)."""
    torch.manual_seed(0)
    hidden = torch.randn(TOKENS, WIDTH, requires_grad=True)
    weight = torch.randn(VOCABULARY, WIDTH, requires_grad=True)
    targets = torch.randint(VOCABULARY, (TOKENS,))
    with Alive() as alive:
        loss = loss_of(hidden, weight, targets)
        forward, alive.peak = alive.peak, alive.now
        loss.backward()
    return forward, alive.peak, loss.detach(), weight.grad


def whole(hidden, weight, targets):
    logits = (hidden.bfloat16() @ weight.bfloat16().T).float()  # as models that train in bf16 do
    return F.cross_entropy(logits, targets)


def plain(hidden, weight, targets):
    return F.cross_entropy(hidden @ weight.T, targets)


def in_pieces(hidden, weight, targets, pieces=8):
    def piece(h, t):
        return F.cross_entropy(h @ weight.T, t, reduction="sum")

    total = sum(
        checkpoint(piece, h, t, use_reentrant=False)
        for h, t in zip(hidden.chunk(pieces), targets.chunk(pieces), strict=True)
    )
    return total / len(targets)


def chunked(hidden, weight, targets):
    return F.linear_cross_entropy(hidden, weight, targets, options=nn.LinearCrossEntropyOptions())


@pytest.mark.parametrize("loss_of", [whole, plain])
def test_with_a_large_vocabulary_backward_needs_more_than_forward(loss_of):
    forward, backward, *_ = peaks(loss_of)
    assert backward > forward + 0.4 * LOGITS
    assert backward > 2.5 * LOGITS


@pytest.mark.parametrize("loss_of", [in_pieces, chunked])
def test_a_loss_in_pieces_never_holds_all_logits_and_is_the_same(loss_of):
    _, backward, loss, gradient = peaks(loss_of)
    _, before, expected, expected_gradient = peaks(plain)
    assert backward < before / 3
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient, expected_gradient, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("layers", [0, 40], ids=["few weights", "gradients larger than logits"])
@pytest.mark.parametrize(
    "loss_of, low, high", [(plain, 0.9, 2.5), (in_pieces, 0, 0.9)], ids=["whole", "in pieces"]
)
def test_the_numbers_of_the_check_tell_what_the_output_took(loss_of, low, high, layers):
    torch.manual_seed(0)
    width = 256 if layers else WIDTH
    body = nn.Sequential(*[nn.Linear(width, width, bias=False) for _ in range(layers)])
    head = nn.Linear(width, VOCABULARY // 4 if layers else VOCABULARY, bias=False)
    tokens = TOKENS * 4
    hidden, targets = torch.randn(tokens, width), torch.randint(head.out_features, (tokens,))
    allocated, most = span("M14", "cuda.memory_allocated"), span("M14", "max_memory_allocated")
    with Card():
        loss = loss_of(body(hidden), head.weight, targets)
        after_forward = eval(allocated)
        eval(span("M14", "reset_peak"))
        loss.backward()
        after_backward, peak = eval(allocated), eval(most)
    logits = tokens * head.out_features * 4
    if layers:
        assert sum(p.nbytes for p in body.parameters()) > logits
    assert low < (peak - max(after_forward, after_backward)) / logits < high


def test_the_built_in_one_holds_all_logits_without_options_and_with_smoothed_labels():
    def smoothed(hidden, weight, targets):
        return F.linear_cross_entropy(
            hidden, weight, targets, label_smoothing=0.1, options=nn.LinearCrossEntropyOptions()
        )

    assert peaks(F.linear_cross_entropy)[1] > 2.5 * LOGITS
    with pytest.warns(UserWarning, match="``options`` ignored"):
        assert peaks(smoothed)[1] > 2.5 * LOGITS


def chain(in_backward):
    """The peaks of forward and backward through six large weights with one sample."""
    weights = [nn.Parameter(torch.randn(512, 512) / 23) for _ in range(6)]

    def update(weight):
        weight.data.add_(weight.grad, alpha=-0.1)
        weight.grad = None

    if in_backward:
        for weight in weights:
            weight.register_post_accumulate_grad_hook(update)
    with Alive() as alive:
        x = torch.randn(1, 512)
        for weight in weights:
            x = x @ weight
        forward = alive.peak
        x.sum().backward()
    return forward, alive.peak, sum(w.nbytes for w in weights)


def test_the_first_backward_makes_a_gradient_for_every_weight():
    forward, backward, weights = chain(in_backward=False)
    assert forward < weights / 50
    assert backward > weights


def test_an_update_within_backward_never_holds_all_gradients():
    _, backward, _ = chain(in_backward=True)
    assert backward < 0.7 * chain(in_backward=False)[1]


def test_frozen_weights_get_no_gradient():
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)).requires_grad_(False)
    model[1].requires_grad_(True)
    model(torch.randn(2, 64)).sum().backward()
    assert [p.grad is None for p in model.parameters()] == [True, True, False, False]


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.GELU())])


def test_a_retained_graph_stays_alive_beside_the_next_one(model):
    x = torch.randn(2048, 64)

    def two_losses(retain):
        model.zero_grad()
        first = model(x).mean()
        first.backward(retain_graph=retain)
        model(x).square().mean().backward()
        return first

    assert peak(lambda: two_losses(True)) > 1.5 * peak(lambda: two_losses(False))


def test_losses_of_their_own_forward_pass_go_backward_one_by_one(model):
    x = torch.randn(2048, 64)

    def summed():
        model.zero_grad()
        (model(x).mean() + model(x).square().mean()).backward()

    def one_by_one():
        model.zero_grad()
        model(x).mean().backward()
        model(x).square().mean().backward()

    high = peak(summed)
    expected = [p.grad for p in model.parameters()]
    assert peak(one_by_one) < high / 1.5
    for new, old in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(new.grad, old)


def test_the_code_of_the_entry_gives_the_loss_of_whole_fp32_logits_in_bf16_too():
    code = block("M14", "fix")
    names = {"F": F, "checkpoint": checkpoint}
    exec(code, names)
    torch.manual_seed(0)
    head = nn.Linear(WIDTH, VOCABULARY, bias=False).bfloat16()
    hidden, labels = torch.randn(TOKENS, WIDTH).bfloat16(), torch.randint(VOCABULARY, (TOKENS,))
    labels[::5] = -100
    expected = F.cross_entropy(head(hidden).float(), labels)
    torch.testing.assert_close(names["loss_in_pieces"](hidden, head, labels), expected)
