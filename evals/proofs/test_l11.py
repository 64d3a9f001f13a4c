"""L11: the token that ends an answer has no label in training, or is not the one at which generation stops."""

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import DataCollatorForLanguageModeling, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = ["<pad>", "<|end|>", "<|turn|>", "ask", "one", "two", "more", "<|spare|>"]
PAD, END, TURN, ASK, ONE, TWO, MORE, SPARE = range(8)
CHAT = [{"role": "user", "content": "ask"}, {"role": "assistant", "content": "one two"}]


@pytest.fixture
def tokenizer():
    plain = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<pad>")
    )
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=plain,
        pad_token="<pad>",
        eos_token="<|end|>",
        additional_special_tokens=["<|turn|>"],
    )


def template(answer: str) -> str:
    return (
        "{% for m in messages %}{% if m.role == 'assistant' %}"
        + answer
        + "{% else %}{{ '<|turn|> ' + m.content + ' ' }}{% endif %}{% endfor %}"
    )


@pytest.mark.parametrize(
    "answer, trained",
    [
        ("{% generation %}{{ m.content }}{% endgeneration %}{{ ' ' + eos_token }}", [ONE, TWO]),
        ("{% generation %}{{ m.content + ' ' + eos_token }}{% endgeneration %}", [ONE, TWO, END]),
        ("{{ m.content + ' ' + eos_token }}", []),
    ],
)
def test_the_mask_of_a_template_holds_the_end_only_inside_the_generation_marks(
    tokenizer, answer, trained
):
    row = tokenizer.apply_chat_template(
        CHAT,
        chat_template=template(answer),
        tokenize=True,
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    assert row["input_ids"][-1] == END
    assert [
        token for token, counts in zip(row["input_ids"], row["assistant_masks"]) if counts
    ] == trained


def test_a_tokenizer_writes_no_end_by_itself_and_cutting_removes_the_one_in_the_text(tokenizer):
    assert tokenizer("ask one two")["input_ids"] == [ASK, ONE, TWO]
    assert tokenizer("ask one two <|end|>")["input_ids"][-1] == END
    assert END not in tokenizer("ask one two <|end|>", truncation=True, max_length=3)["input_ids"]


@pytest.mark.parametrize("pad, kept", [("<|end|>", False), ("<|spare|>", True)])
def test_the_collator_that_masks_by_id_drops_the_end_when_it_is_the_padding_too(
    tokenizer, pad, kept
):
    tokenizer.pad_token = pad
    rows = [tokenizer("ask one <|end|>"), tokenizer("ask one two <|end|>")]
    assert (
        bool((DataCollatorForLanguageModeling(tokenizer, mlm=False)(rows)["labels"] == END).any())
        is kept
    )


IDS = torch.tensor(
    [[ASK, ONE, TWO, END, ASK, ONE, TWO, END], [ASK, ONE, TWO, END, ASK, ONE, TWO, END]]
)


@pytest.fixture
def tuned(small_llama):
    """tuned(labelled): a model trained on a conversation of two turns, with or without a label on the end."""

    def train(labelled: bool) -> LlamaForCausalLM:
        torch.manual_seed(0)
        model = LlamaForCausalLM(small_llama)
        labels = IDS if labelled else IDS.masked_fill(IDS == END, -100)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
        for _ in range(60):
            optimizer.zero_grad()
            loss = model(input_ids=IDS, labels=labels).loss
            loss.backward()
            optimizer.step()
        assert loss < 0.2  # it looks fine either way
        return model.eval()

    return train


def answer(model, **settings):
    prompt = torch.tensor([[ASK]])
    return model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=12,
        do_sample=False,
        pad_token_id=PAD,
        **settings,
    )[0, 1:].tolist()


def test_a_model_stops_when_the_end_was_in_the_loss(tuned):
    assert answer(tuned(labelled=True), eos_token_id=END) == [ONE, TWO, END]


def test_a_model_runs_to_the_limit_when_the_end_was_masked(tuned):
    said = answer(tuned(labelled=False), eos_token_id=END)
    assert len(said) == 12 and said[:2] == [ONE, TWO] and END not in said


def test_a_model_that_learned_its_end_plays_the_next_turn_when_generate_waits_for_another_token(
    tuned,
):
    model = tuned(labelled=True)
    model.generation_config.eos_token_id = SPARE
    assert answer(model)[:6] == [ONE, TWO, END, ASK, ONE, TWO]
    model.generation_config.eos_token_id = [SPARE, END]
    assert answer(model) == [ONE, TWO, END]


def test_the_check_ends_in_the_end_only_where_it_has_a_label(printed, tokenizer, small_llama):
    model, ids = LlamaForCausalLM(small_llama), torch.tensor([TURN, ASK, ONE, TWO, END])
    model.generation_config.eos_token_id = END

    def shown(labels):
        return printed(
            "L11", tokenizer=tokenizer, model=model, ids=ids, labels=torch.tensor(labels)
        )

    assert (
        shown([-100, -100, ONE, TWO, END]) == f"['one', 'two', '<|end|>'] {[ONE, TWO, END]} {END}"
    )
    assert shown([-100, -100, ONE, TWO, -100]) == f"['one', 'two'] {[ONE, TWO]} {END}"
