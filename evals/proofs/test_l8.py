"""L8: what one row becomes under the chat template, whatever its roles are called. TRL itself isn't needed for that."""

from types import SimpleNamespace

import pytest
from check_code import shown, span

transformers = pytest.importorskip("transformers")
from jinja2.exceptions import TemplateError
from tokenizers import Tokenizer, models, pre_tokenizers

WORDS = ["[UNK]", "<|user|>", "<|assistant|>", "<|human|>", "<|gpt|>", "<|end|>", "hi", "hello"]
TEMPLATE = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|> ' + m['content'] + ' <|end|> ' }}{% endfor %}"
)
STRICT = (
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}"
    "{% endif %}{% endfor %}" + TEMPLATE
)


def tokenizer(template=TEMPLATE):
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, "[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    made.chat_template = template
    return made


def conversation(first="user", second="assistant"):
    return [{"role": first, "content": "hi"}, {"role": second, "content": "hello"}]


def told(ids, words) -> str:
    """What the line of the check prints for a trainer with these rows."""
    trainer = SimpleNamespace(train_dataset=[{"input_ids": row} for row in ids])
    return shown(span("L8", "train_dataset"), trainer=trainer, tokenizer=words)


def templated(messages, words):
    return words.apply_chat_template(messages, tokenize=True, return_dict=True)["input_ids"]


def test_a_right_row_reads_as_one_conversation_with_each_mark_once():
    words = tokenizer()
    row = told([templated(conversation(), words)], words)
    assert row == "1 <|user|> hi <|end|> <|assistant|> hello <|end|>"


def test_roles_of_sharegpt_stay_as_they_are_and_the_check_shows_marks_that_the_model_never_had():
    words = tokenizer()
    row = told([templated(conversation("human", "gpt"), words)], words)
    assert "<|user|>" not in row and "<|human|>" in row and "<|gpt|>" in row


def test_plain_text_shows_no_mark_at_all():
    words = tokenizer()
    assert told([words("hi hello")["input_ids"]], words) == "1 hi hello"


def test_a_template_that_checks_roles_and_a_tokenizer_without_one_stop_with_the_signature(says):
    with pytest.raises(TemplateError) as error:
        templated(conversation("human", "gpt"), tokenizer(STRICT))
    says("L8", str(error.value))
    templated(conversation(), tokenizer(STRICT))
    with pytest.raises(ValueError) as error:
        templated(conversation(), tokenizer(None))
    says("L8", str(error.value))
