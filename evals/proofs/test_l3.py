"""L3: a tokenizer without a padding token."""

from types import SimpleNamespace

import pytest
import torch
from check_code import shown, span
from tokenizers import Tokenizer, models
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

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


def test_the_check_shows_a_missing_token_one_beyond_the_table_and_a_sound_one(printed, small_llama):
    model = LlamaForCausalLM(small_llama)  # it knows eight tokens

    def shown(words, **special):
        plain = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}))
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<end>", **special)
        return printed("L3", tokenizer=tokenizer, model=model)

    words = ["<unk>", "<end>", "a", "b", "c", "d", "e", "<fill>"]
    assert shown(words) == "None None 1 8 None"
    assert shown(words, pad_token="<new>") == "<new> 8 1 8 None"
    assert shown(words, pad_token="<fill>") == "<fill> 7 1 8 None"  # a head would refuse a batch
    model.config.pad_token_id = 7
    assert shown(words, pad_token="<fill>") == "<fill> 7 1 8 7"


def test_the_check_of_the_labels_is_true_only_where_an_end_is_left():
    def left(labels):
        names = {"batch": {"labels": labels}, "tokenizer": SimpleNamespace(eos_token_id=END)}
        return "True" in shown(span("L3", "(batch"), **names)

    assert left(labels_by_mask(SENTENCE, ATTENTION))
    assert not left(labels_by_id(SENTENCE, END))
