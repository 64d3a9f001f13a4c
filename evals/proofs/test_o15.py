"""O15: padding counted in the mean of the loss."""

from types import SimpleNamespace

import pytest
import torch
from check_code import shown, span
from torch import nn
from torch.nn.functional import cross_entropy

VOCABULARY, PAD = 50, 0


def ids(padding: int) -> torch.Tensor:
    """Eight sequences of ten real tokens, then padding."""
    real = torch.randint(1, VOCABULARY, (8, 10), generator=torch.Generator().manual_seed(1))
    return torch.cat([real, torch.full((8, padding), PAD)], 1)


def train(padding: int, ignore_index: int) -> tuple[float, float, float]:
    """Reported loss, loss on the real tokens, and share of predicted padding after 60 steps."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(VOCABULARY, 16), nn.Linear(16, VOCABULARY))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    inputs, labels = ids(padding)[:, :-1], ids(padding)[:, 1:]
    for _ in range(60):
        optimizer.zero_grad()
        loss = cross_entropy(
            model(inputs).flatten(0, 1), labels.flatten(), ignore_index=ignore_index
        )
        loss.backward()
        optimizer.step()
    out = model(inputs).detach()
    real = labels != PAD
    return (
        loss.item(),
        cross_entropy(out[real], labels[real]).item(),
        (out.argmax(-1) == PAD).float().mean().item(),
    )


def test_with_padding_as_a_target_the_loss_looks_good_and_real_tokens_are_learned_less():
    short, long = train(0, -100), train(90, -100)
    assert long[0] < short[0] / 3  # the number on the dashboard
    assert long[1] > 2 * short[1]  # what was learned
    assert long[2] > 0.85  # predictions that are padding


def test_ignoring_padding_makes_the_run_the_same_for_any_amount_of_it():
    assert train(0, PAD) == pytest.approx(train(90, PAD), rel=1e-3)


def test_a_mask_followed_by_a_plain_mean_shrinks_loss_and_gradient_by_the_share_of_padding():
    logits = torch.randn(
        1000, VOCABULARY, generator=torch.Generator().manual_seed(0)
    ).requires_grad_()
    labels = torch.randint(1, VOCABULARY, (1000,), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(1000) < 100).float()
    per_token = cross_entropy(logits, labels, reduction="none")
    diluted, right = (per_token * mask).mean(), (per_token * mask).sum() / mask.sum().clamp(min=1)
    torch.testing.assert_close(diluted * 10, right)
    (wrong_gradient,) = torch.autograd.grad(diluted, logits, retain_graph=True)
    (gradient,) = torch.autograd.grad(right, logits)
    torch.testing.assert_close(wrong_gradient * 10, gradient)


def test_where_padding_and_end_of_text_share_an_id_ignoring_it_hides_the_end():
    end = PAD
    labels = torch.tensor([5, 6, end, PAD, PAD])
    attention = torch.tensor([1, 1, 1, 0, 0])
    logits = torch.zeros(5, VOCABULARY, requires_grad=True)
    cross_entropy(logits, labels, ignore_index=PAD).backward()
    assert logits.grad[2].abs().sum() == 0
    logits.grad = None
    cross_entropy(logits, labels.masked_fill(attention == 0, -100)).backward()
    assert logits.grad[2].abs().sum() > 0 and logits.grad[3:].abs().sum() == 0


def test_a_batch_of_nothing_but_padding_gives_nan():
    assert cross_entropy(torch.zeros(3, VOCABULARY), torch.full((3,), -100)).isnan()


def test_the_check_finds_padding_among_the_targets_and_passes_masked_labels(printed):
    tokens = ids(30)
    attention_mask = (tokens != PAD).long()

    def counted(labels):
        share, real = map(
            float, printed("O15", labels=labels, attention_mask=attention_mask).split()
        )
        return share > real

    assert counted(tokens)
    masked = tokens.masked_fill(attention_mask == 0, -100)
    assert not counted(masked)
    masked[:, :5] = -100  # a prompt that isn't trained on
    assert not counted(masked)


def test_the_check_sees_an_end_that_was_ignored_together_with_padding_of_its_id(value_of):
    end = PAD
    tokens, attention = torch.tensor([5, 6, end, PAD, PAD]), torch.tensor([1, 1, 1, 0, 0])
    tokenizer = SimpleNamespace(eos_token_id=end)

    def learned(labels):
        return bool(value_of("O15", "(labels == tok", labels=labels, tokenizer=tokenizer))

    assert learned(tokens.masked_fill(attention == 0, -100))
    assert not learned(tokens.masked_fill(tokens == PAD, -100))


def test_a_mask_of_the_source_says_nothing_of_the_target():
    """Encoder and decoder apart: the shares compared call a sound batch padded, and a padded one sound."""
    code = span("O15", "labels != -100")
    mask = torch.ones(2, 30)
    mask[1, 6:] = 0
    sound, padded = torch.ones(2, 8, dtype=torch.long), torch.tensor([[3, 4, 0, 0], [3, 4, 5, 0]])
    both = [
        [float(number) for number in shown(code, labels=labels, attention_mask=mask).split()]
        for labels, mask in ((sound, mask), (padded, torch.ones(2, 30)))
    ]
    assert both[0][0] > both[0][1] and both[1][0] <= both[1][1]
    tokenizer = SimpleNamespace(pad_token_id=0)
    count = span("O15", "tokenizer.pad_token_id")
    assert [
        eval(count.replace("\n", " "), {"labels": labels, "tokenizer": tokenizer}).item()
        for labels in (sound, padded)
    ] == [0, 3]
