"""L14: a token id, a position or a segment beyond its table stops in the embedding; a resized table, a cut text or masked labels run."""

import re

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SMALL = {
    "vocab_size": 20,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
}


def tokens(length, fill=5):
    return torch.full((2, length), fill, dtype=torch.long)


def gpt2():
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=20,
            n_positions=16,
            n_embd=8,
            n_layer=1,
            n_head=2,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def bart():
    layers = {
        f"{side}_{name}": size
        for side in ("encoder", "decoder")
        for name, size in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 8))
    }
    return transformers.BartForConditionalGeneration(
        transformers.BartConfig(vocab_size=20, d_model=8, max_position_embeddings=16, **layers)
    )


def opt():
    return transformers.OPTForCausalLM(
        transformers.OPTConfig(
            vocab_size=20,
            hidden_size=8,
            word_embed_proj_dim=8,
            ffn_dim=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=16,
        )
    )


def roberta(positions):
    return transformers.RobertaModel(
        transformers.RobertaConfig(
            **SMALL, max_position_embeddings=positions, type_vocab_size=1, pad_token_id=1
        )
    )


def refused(model, **batch):
    with pytest.raises((IndexError, RuntimeError)) as error:
        model(**batch)
    return str(error.value)


def test_an_id_beyond_the_words_is_refused_until_the_table_grows(says):
    model = gpt2()
    says("L14", refused(model, input_ids=tokens(4, fill=20)))
    says("L14", refused(model, input_ids=tokens(4, fill=-100)))
    model.resize_token_embeddings(21)
    assert model(input_ids=tokens(4, fill=20)).logits.shape == (2, 4, 21)


def test_a_text_longer_than_the_positions_is_refused(says):
    model = gpt2()
    says("L14", refused(model, input_ids=tokens(17)))
    model(input_ids=tokens(16))


def test_generation_counts_its_new_tokens(says):
    model = gpt2()
    with pytest.raises(IndexError) as error:
        model.generate(tokens(10), max_new_tokens=8, do_sample=False, pad_token_id=0)
    says("L14", str(error.value))


def test_roberta_takes_two_tokens_fewer_than_its_config_says(says):
    model = roberta(514)
    says("L14", refused(model, input_ids=tokens(513)))
    model(input_ids=tokens(512))


def test_bert_stops_a_long_text_in_other_words(says):
    model = transformers.BertModel(transformers.BertConfig(**SMALL))
    says("L14", refused(model, input_ids=tokens(513)))
    assert "The size of tensor a (513) must match the size of tensor b (512)" in refused(
        model, input_ids=tokens(513), token_type_ids=tokens(513, fill=0)
    )


def test_a_second_segment_is_refused_by_a_model_of_one(says):
    model = roberta(16)
    says(
        "L14", refused(model, input_ids=tokens(4), token_type_ids=torch.tensor([[0, 0, 1, 1]] * 2))
    )
    model(input_ids=tokens(4))


def test_masked_labels_are_no_decoder_inputs(says):
    model, masked = bart(), torch.tensor([[3, 4, -100, -100]] * 2)
    says("L14", refused(model, input_ids=tokens(4), decoder_input_ids=masked))
    assert model(input_ids=tokens(4), labels=masked).loss.isfinite()


def test_a_rotary_model_has_no_table_of_positions():
    heads = {"num_key_value_heads": 2, "max_position_embeddings": 16}
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, **heads))(input_ids=tokens(40))
    with pytest.raises(AssertionError, match="Padding_idx must be within num_embeddings"):
        transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, **heads, pad_token_id=20))


@pytest.mark.parametrize(
    ("model", "last"), [(gpt2, "(16, 8) 0 16"), (bart, "(18, 8) 2 18"), (opt, "(18, 8) 2 18")]
)
def test_the_last_line_before_the_error_shows_the_table_and_the_ids(
    model, last, capsys, monkeypatch
):
    plain = torch.nn.functional.embedding

    def shown(ids, table, *more, **named):
        print(tuple(table.shape), int(ids.min()), int(ids.max()), flush=True)
        return plain(ids, table, *more, **named)

    monkeypatch.setattr(torch.nn.functional, "embedding", shown)
    refused(model(), input_ids=tokens(17))
    assert capsys.readouterr().out.splitlines()[-1] == last


def test_int16_turns_large_ids_negative():
    assert torch.tensor([50000]).to(torch.int16).item() < 0


def test_index_select_says_the_same(says):
    with pytest.raises(IndexError) as error:
        torch.randn(3, 2).index_select(0, torch.tensor([3]))
    says("L14", str(error.value))


def test_the_check_shows_an_id_or_a_length_beyond_its_table(printed):
    def shown(ids):
        numbers = printed("L14", batch={"input_ids": ids}, model=gpt2())
        return [int(n) for n in re.findall(r"\d+", numbers)]

    low, high, length, words, positions = shown(tokens(8))
    assert 0 <= low and high < words and length <= positions
    _, high, _, words, _ = shown(tokens(8, fill=20))
    assert high >= words
    *_, length, words, positions = shown(tokens(17))
    assert length > positions
