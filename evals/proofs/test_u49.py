"""U49: a sound installation multiplies, and one batch on the CPU names the token id that cuBLAS only suffers from."""

import shlex

import pytest
import torch
from check_code import shown, span


def test_the_check_prints_512_where_the_product_is_right_and_stops_where_no_card_is():
    code = shlex.split(span("U49", "(a @ a).sum()"))[2]
    assert "device='cuda'" in code
    if torch.cuda.is_available():
        assert shown(code).startswith("tensor(512.")
    else:
        with pytest.raises((AssertionError, RuntimeError)):
            shown(code)  # this build knows no card: library or build
    assert shown(code.replace("cuda", "cpu")).startswith("tensor(512.")


def test_a_token_id_at_the_end_of_the_table_is_named_on_the_cpu_and_a_larger_table_takes_it(
    small_llama,
):
    transformers = pytest.importorskip("transformers")
    model = transformers.LlamaForCausalLM(small_llama)
    ids = torch.tensor([[1, 2, small_llama.vocab_size]])  # as after adding a token
    assert ids.max() >= model.get_input_embeddings().num_embeddings
    with pytest.raises(IndexError, match="index out of range in self"):
        model(input_ids=ids)
    larger = small_llama.vocab_size + 1
    model.resize_token_embeddings(larger, mean_resizing=False)
    assert model(input_ids=ids).logits.shape[-1] == larger


@pytest.mark.parametrize(("last", "named"), [(7, False), (8, True), (-100, True)])
def test_the_check_compares_the_ids_with_the_table(small_llama, last, named):
    transformers = pytest.importorskip("transformers")
    model, ids = transformers.LlamaForCausalLM(small_llama), torch.tensor([[1, 2, last]])
    low, high, size, _, _ = map(int, shown(span("U49", "ids.min"), ids=ids, model=model).split())
    assert (low < 0 or high >= size) is named
    if named:
        with pytest.raises(IndexError):
            model(input_ids=ids)
    else:
        model(input_ids=ids)


@pytest.mark.parametrize(("length", "named"), [(4, False), (5, True)])
def test_the_check_compares_the_length_with_learned_positions(length, named):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=8, n_positions=4, n_embd=8, n_layer=1, n_head=1)
    model, ids = transformers.GPT2LMHeadModel(config), torch.ones(1, length, dtype=torch.long)
    *_, found, limit = map(int, shown(span("U49", "ids.min"), ids=ids, model=model).split())
    assert (found > limit) is named
    if named:
        with pytest.raises(IndexError):
            model(input_ids=ids)
    else:
        model(input_ids=ids)


@pytest.mark.parametrize("line", [
    "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
    "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx( handle, opa, opb",
    "RuntimeError: cublas runtime error : library not initialized at /pytorch/aten/src/THC/THCGeneral.cpp:216",
])  # fmt: skip
def test_the_texts_are_recognised(says, line):
    says("U49", line)
