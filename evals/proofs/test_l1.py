"""L1: padding on the wrong side of a decoder's prompts."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

VOCABULARY, WIDTH, PAD = 60, 32, 0
LONG, SHORT = [7, 3, 41, 15, 22, 9, 30, 18], [19, 4, 33]
FILL = [PAD] * (len(LONG) - len(SHORT))


class Decoder(nn.Module):
    """One attention layer and learned positions, as in GPT-2. Keys that the mask excludes are not attended to."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.token, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(64, WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids, mask, positions):
        x = self.token(ids) + self.position(positions)
        causal = torch.ones(ids.shape[1], ids.shape[1]).tril().bool()
        seen = causal & mask[:, None, :].bool() | torch.eye(ids.shape[1]).bool()
        query, key, value = self.qkv(x).chunk(3, -1)
        return self.out(x + scaled_dot_product_attention(query, key, value, attn_mask=seen))


def positions_of(mask):
    """Positions that count real tokens only, as `generate` makes them from the attention mask."""
    return (mask.cumsum(-1) - 1).clamp(min=0)


@torch.no_grad()
def generate(rows, mask, steps=6):
    """Greedy continuation; each step reads the logits in the last column, like every batched decoder."""
    ids, mask = torch.tensor(rows), torch.tensor(mask)
    for _ in range(steps):
        token = Decoder()(ids, mask, positions_of(mask))[:, -1].argmax(-1)
        ids, mask = (
            torch.cat([ids, token[:, None]], 1),
            torch.cat([mask, torch.ones(len(ids), 1).long()], 1),
        )
    return ids[:, -steps:].tolist()


ALONE = generate([SHORT], [[1] * len(SHORT)])[0]


def test_padding_on_the_right_makes_the_short_prompt_continue_its_padding():
    padded = generate([LONG, SHORT + FILL], [[1] * 8, [1] * 3 + [0] * 5])[1]
    assert padded[0] != ALONE[0]


def test_padding_on_the_left_gives_the_text_of_the_single_prompt():
    assert generate([LONG, FILL + SHORT], [[1] * 8, [0] * 5 + [1] * 3])[1] == ALONE


def test_padding_on_the_left_without_the_mask_does_not():
    assert generate([LONG, FILL + SHORT], [[1] * 8, [1] * 8])[1] != ALONE


def test_the_longest_row_is_right_on_either_side():
    right = generate([LONG, SHORT + FILL], [[1] * 8, [1] * 3 + [0] * 5])[0]
    left = generate([LONG, FILL + SHORT], [[1] * 8, [0] * 5 + [1] * 3])[0]
    assert right == left == generate([LONG], [[1] * 8])[0]


@torch.no_grad()
def test_in_training_padding_on_the_right_changes_nothing_and_on_the_left_it_needs_position_ids():
    model, plain = Decoder(), torch.arange(8)[None]
    real = model(torch.tensor([SHORT]), torch.ones(1, 3), torch.arange(3)[None])[0]
    right = model(torch.tensor([SHORT + FILL]), torch.tensor([[1] * 3 + [0] * 5]), plain)[0, :3]
    mask = torch.tensor([[0] * 5 + [1] * 3])
    left = model(torch.tensor([FILL + SHORT]), mask, plain)[0, 5:]
    placed = model(torch.tensor([FILL + SHORT]), mask, positions_of(mask))[0, 5:]
    torch.testing.assert_close(right, real)
    torch.testing.assert_close(placed, real)
    assert (left - real).abs().max() > 0.1


def test_the_check_shows_a_zero_for_padding_on_the_right_and_none_for_the_left(printed):
    def shown(mask):
        return printed("L1", batch={"attention_mask": torch.tensor(mask)})

    assert shown([[1] * 8, [1] * 3 + [0] * 5]) == "[1, 0]"
    assert shown([[1] * 8, [0] * 5 + [1] * 3]) == "[1, 1]"
