"""L3: a tokenizer without a padding token."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

VOCABULARY, END = 50, 2


def test_a_padding_token_that_was_added_without_resizing_is_out_of_the_embedding():
    embedding = nn.Embedding(VOCABULARY, 8)
    with pytest.raises(IndexError, match="index out of range in self"):
        embedding(torch.tensor([[5, 6, VOCABULARY]]))


def test_a_larger_table_that_keeps_the_old_rows_and_averages_for_the_new_one_takes_it():
    old = nn.Embedding(VOCABULARY, 8)
    new = nn.Embedding(VOCABULARY + 1, 8)
    new.weight.data[:VOCABULARY] = old.weight.data
    new.weight.data[VOCABULARY] = old.weight.data.mean(0)
    ids = torch.tensor([[5, 6, VOCABULARY]])
    assert torch.equal(new(ids)[0, :2], old(ids[:, :2])[0])


def labels_by_id(ids, pad):
    """What a collator does that masks every padding id."""
    return ids.masked_fill(ids == pad, -100)


def labels_by_mask(ids, attention):
    return ids.masked_fill(attention == 0, -100)


SENTENCE = torch.tensor(
    [[5, 6, END, END, END], [5, 6, 7, 8, END]]
)  # padded with the end-of-text id
ATTENTION = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])


def test_padding_with_the_end_of_text_id_and_masking_by_id_removes_every_end_from_the_labels():
    assert (labels_by_id(SENTENCE, END) == END).sum() == 0
    logits = torch.zeros(2, 5, VOCABULARY, requires_grad=True)
    cross_entropy(logits.flatten(0, 1), labels_by_id(SENTENCE, END).flatten()).backward()
    assert (logits.grad[..., END] >= 0).all()  # nothing ever raises the score of the end


def test_masking_by_position_keeps_one_end_a_row():
    assert (labels_by_mask(SENTENCE, ATTENTION) == END).sum(1).tolist() == [1, 1]
    logits = torch.zeros(2, 5, VOCABULARY, requires_grad=True)
    cross_entropy(logits.flatten(0, 1), labels_by_mask(SENTENCE, ATTENTION).flatten()).backward()
    assert (logits.grad[..., END] < 0).sum() == 2
