"""L2: the loss counts the prompt."""

import pytest
import torch
from tokenizers import Tokenizer, models
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerFast

VOCABULARY, PROMPT, ANSWER = 40, 45, 5
FRAMES = torch.randint(
    0, 20, (16, PROMPT), generator=torch.Generator().manual_seed(0)
)  # noise, cannot be learned
ANSWERS = torch.arange(20, 20 + ANSWER).expand(16, -1)  # one fixed answer, easy
IDS = torch.cat([FRAMES, ANSWERS], 1)
MASKED = IDS.clone()
MASKED[:, :PROMPT] = -100


def gradient_share(labels):
    """Share of the gradient that comes from answer positions, at the start of training."""
    logits = torch.zeros(16, PROMPT + ANSWER - 1, VOCABULARY, requires_grad=True)
    cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten()).backward()
    size = logits.grad.norm(dim=-1).sum(0)
    return (size[PROMPT - 1 :].sum() / size.sum()).item()


def answer_loss(labels, steps=30):
    """Reported loss and loss on the answer after training with these labels."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(VOCABULARY, 16), nn.Linear(16, VOCABULARY))
    optimizer = torch.optim.SGD(model.parameters(), 2.0)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = cross_entropy(model(IDS[:, :-1]).flatten(0, 1), labels[:, 1:].flatten())
        loss.backward()
        optimizer.step()
    scores = model(IDS[:, PROMPT - 1 : -1]).flatten(0, 1)
    return loss.item(), cross_entropy(scores, IDS[:, PROMPT:].flatten()).item()


def test_with_a_prompt_nine_times_the_answer_a_tenth_of_the_gradient_is_about_the_answer():
    assert abs(gradient_share(IDS) - ANSWER / (PROMPT + ANSWER - 1)) < 0.01
    assert gradient_share(MASKED) == 1


def test_masking_the_prompt_teaches_the_answer_while_the_plain_loss_stays_at_the_prompts_own_noise():
    plain, masked = answer_loss(IDS), answer_loss(MASKED)
    assert masked[1] < plain[1] / 2  # the answer is what should be learned
    assert 2.5 < plain[0] < 3.2  # ln(20) = 3.0: random prompt tokens can't be predicted
    assert masked[0] < 1


def test_labels_that_are_all_masked_give_nan_for_a_mean_and_zero_for_a_sum():
    nothing = torch.full((8,), -100)
    assert cross_entropy(torch.zeros(8, VOCABULARY), nothing).isnan()
    assert cross_entropy(torch.zeros(8, VOCABULARY), nothing, reduction="sum") == 0


def test_a_prompt_longer_than_the_limit_leaves_no_label_after_cutting_at_the_end():
    assert (MASKED[:, :PROMPT] != -100).sum() == 0
    assert (MASKED[:, : PROMPT + 1] != -100).sum() == 16


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        ([-100, -100, 4, 1], "yes <end>"),
        ([2, 3, 4, 1], "is it yes <end>"),
        ([-100] * 4, ""),
    ],
)
def test_the_check_prints_what_counts(printed, labels, shown):
    words = {word: i for i, word in enumerate(["<pad>", "<end>", "is", "it", "yes"])}
    plain = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain)
    row = {"input_ids": torch.tensor([[2, 3, 4, 1]]), "labels": torch.tensor([labels])}
    assert printed("L2", tokenizer=tokenizer, row=row) == shown
