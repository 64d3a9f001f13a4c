"""L4: packed documents that read each other."""

import pytest
import torch
from check_code import shown, span
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import LlamaForCausalLM

torch.manual_seed(0)
TOKEN, POSITION, QKV = nn.Embedding(50, 16), nn.Embedding(64, 16), nn.Linear(16, 48)
FIRST, OTHER, SECOND = [3, 9, 27, 31], [40, 2, 8, 13], [5, 6, 7]
SEPARATE = torch.cat([torch.arange(4), torch.arange(3)])  # position_ids of the two documents
RUNNING = torch.arange(7)


def document_of(positions):
    """Number of the document of each token: a new one starts wherever the position does not go up by one."""
    return (positions.diff(prepend=positions[:1] - 1) != 1).cumsum(0)


@torch.no_grad()
def second_document(first, positions, documents=None):
    """What attention makes of the second document when it is packed behind `first`."""
    ids = torch.tensor([first + SECOND])
    query, key, value = QKV(TOKEN(ids) + POSITION(positions)).chunk(3, -1)
    mask = torch.ones(7, 7).tril().bool()
    if documents is not None:
        mask &= documents[:, None] == documents[None, :]
    return scaled_dot_product_attention(query, key, value, attn_mask=mask)[0, 4:]


@torch.no_grad()
def alone():
    query, key, value = QKV(TOKEN(torch.tensor([SECOND])) + POSITION(torch.arange(3))).chunk(3, -1)
    return scaled_dot_product_attention(query, key, value, is_causal=True)[0]


def test_with_a_plain_causal_mask_the_second_document_depends_on_the_first():
    assert (second_document(FIRST, RUNNING) - second_document(OTHER, RUNNING)).abs().max() > 1e-2


def test_positions_that_start_again_do_not_stop_it_on_their_own():
    assert (second_document(FIRST, SEPARATE) - second_document(OTHER, SEPARATE)).abs().max() > 1e-2


def test_a_mask_made_from_those_positions_does_and_gives_what_the_document_gives_alone():
    packed = second_document(FIRST, SEPARATE, document_of(SEPARATE))
    torch.testing.assert_close(packed, second_document(OTHER, SEPARATE, document_of(SEPARATE)))
    torch.testing.assert_close(packed, alone())


def test_the_mask_alone_with_running_positions_shifts_every_document_but_the_first():
    packed = second_document(FIRST, RUNNING, document_of(SEPARATE))
    assert (packed - alone()).abs().max() > 1e-2


def test_positions_that_run_through_hide_the_boundary():
    assert document_of(SEPARATE).tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert document_of(RUNNING).tolist() == [0] * 7


def test_without_a_separator_the_last_token_of_one_document_is_trained_to_predict_the_next():
    labels = torch.tensor(FIRST + SECOND)
    assert labels[1:][3] == SECOND[0]
    labels[document_of(SEPARATE).diff(prepend=torch.tensor([-1])) != 0] = -100
    assert labels[1:][3] == -100


@pytest.mark.parametrize(
    ("positions", "cached", "apart"),
    [([0, 1, 2, 3, 0, 1, 2], False, True), ([0, 1, 2, 3, 0, 1, 2], True, False)]
    + [(list(range(7)), False, False)],
    ids=["separate", "separate, with the cache", "running"],
)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_check_tells_packed_documents_that_read_each_other_from_separate_ones(
    small_llama, attention, positions, cached, apart
):
    torch.manual_seed(0)
    model = LlamaForCausalLM._from_config(small_llama, attn_implementation=attention).eval()
    batch = {"input_ids": torch.tensor([[1, 2, 3, 4, 5, 6, 7]]), "use_cache": cached}
    batch["position_ids"] = torch.tensor([positions])
    length, _, code = span("L4", "flip(0)").partition("; ")
    if positions == list(range(7)):  # nothing in the batch tells the length
        length = "n = 4"
    with torch.no_grad():
        difference = float(shown(f"{length}; {code}", model=model, batch=batch)[7:-1])
    assert (difference < 1e-6) == apart


def test_the_length_of_the_first_document_is_where_positions_start_again():
    names = {"batch": {"position_ids": torch.tensor([[0, 1, 2, 3, 0, 1, 2, 0, 1]])}}
    exec(span("L4", "nonzero").partition("; ")[0], names)
    assert names["n"] == 4
