"""L7: what is counted in a perplexity."""

import contextlib
import io
import math
from types import SimpleNamespace

import pytest
import torch
from check_code import block, shown, span

torch.manual_seed(0)
TEXT = torch.randint(1, 30, (400,))
TABLE = torch.randn(30, 30).log_softmax(-1)  # a model whose next token depends on the last one
PAD = 0


def nll(tokens):
    """Negative log-likelihood of each token but the first."""
    return -TABLE[tokens[:-1], tokens[1:]]


def perplexity(parts):
    return math.exp(torch.cat(parts).mean())


TRUE = perplexity([nll(TEXT)])


def windows(length=100, stride=50, score_all=False):
    """Strided windows: of each only the tokens that no earlier window has scored, or all of them."""
    scored, parts = 0, []
    for begin in range(0, len(TEXT), stride):
        end = min(begin + length, len(TEXT))
        values = nll(TEXT[begin:end])
        parts.append(
            values if score_all else values[-(end - max(scored, 1)) :] if scored else values
        )
        scored = end
        if end == len(TEXT):
            break
    return parts


def test_windows_that_score_only_new_tokens_give_the_perplexity_of_the_whole_text():
    assert perplexity(windows()) == pytest.approx(TRUE, rel=1e-5)
    assert sum(map(len, windows())) == len(TEXT) - 1


def test_windows_that_score_everything_count_the_overlap_twice_and_give_another_number():
    assert sum(map(len, windows(score_all=True))) > 1.7 * len(TEXT)
    assert abs(perplexity(windows(score_all=True)) - TRUE) > 0.001


def test_a_mean_of_batch_means_weighs_a_short_batch_like_a_long_one():
    hard = torch.full((10,), 5.0)  # ten tokens at a loss of 5, a thousand at 2
    easy = torch.full((1000,), 2.0)
    assert perplexity([hard, easy]) == pytest.approx(math.exp(2050 / 1010))
    assert math.exp((hard.mean() + easy.mean()) / 2) > 4 * perplexity([hard, easy])


def test_a_mean_of_perplexities_is_larger_than_the_perplexity_of_the_mean():
    parts = torch.tensor([1.0, 5.0])
    assert parts.exp().mean() > 3 * parts.mean().exp()


def test_scored_padding_makes_the_number_far_better_or_far_worse():
    real, easy_pad, hard_pad = nll(TEXT), torch.zeros(400), torch.full((400,), 12.0)
    assert perplexity([real, easy_pad]) < TRUE / 3
    assert perplexity([real, hard_pad]) > 3 * TRUE


def test_labels_that_are_shifted_a_second_time_score_the_token_after_the_next():
    shifted_twice = -TABLE[TEXT[:-2], TEXT[2:]]
    assert math.exp(shifted_twice.mean()) != pytest.approx(TRUE, rel=0.01)


def test_a_loss_in_bits_needs_a_power_of_two():
    assert 2 ** (nll(TEXT).mean().item() / math.log(2)) == pytest.approx(TRUE, rel=1e-5)


def test_a_sum_kept_in_bf16_stops_growing():
    total = torch.zeros((), dtype=torch.bfloat16)
    for _ in range(4096):
        total += 3.02
    assert math.exp(total / 4096) < 2 < math.exp(3.02)


def entry_code(model, ids, length, stride):
    """What the code under Fix prints."""
    code = block("L7", "fix")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(
            code,
            {"model": model, "ids": ids, "length": length, "stride": stride, "math": math}
            | {"cross_entropy": torch.nn.functional.cross_entropy},
        )
    return float(out.getvalue())


def test_the_code_of_the_entry_gives_the_size_of_the_vocabulary_for_equal_logits():
    def equal(ids):
        return SimpleNamespace(logits=torch.zeros(*ids.shape, 50))

    ids = torch.randint(0, 50, (1, 333))
    for length, stride in ((100, 50), (100, 100), (400, 400)):
        assert entry_code(equal, ids, length, stride) == pytest.approx(50, rel=1e-5)


TEXTS = [TEXT[:n] for n in (5, 40, 12, 60, 33, 8, 21, 50)]


def told(batch, count_padding=False):
    """What the line of the check prints for padded batches: the perplexity, and the tokens too many."""
    total = count = 0
    for begin in range(0, len(TEXTS), batch):
        rows = TEXTS[begin : begin + batch]
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
        labels = padded[:, 1:].clone()
        if not count_padding:
            for row, text in zip(labels, rows):
                row[len(text) - 1 :] = -100
        kept = labels != -100
        total += -TABLE[padded[:, :-1], labels.clamp(min=0)][kept].sum().item()
        count += kept.sum().item()
    line = span("L7", "total / count")
    return map(float, shown(line, math=math, total=total, count=count, texts=TEXTS).split())


def test_the_check_agrees_at_both_batch_sizes_only_where_padding_is_not_scored():
    (one, none), (eight, neither) = told(1), told(8)
    assert one == pytest.approx(eight, rel=1e-3) and none == neither == 0
    (one, none), (eight, more) = told(1, count_padding=True), told(8, count_padding=True)
    assert one != pytest.approx(eight, rel=1e-3) and none == 0 < more
