"""ENV21: transformers that doesn't know a model's type, and what tells it apart from a folder that holds no model."""

import json
import traceback

import pytest
from check_code import span, typed

transformers = pytest.importorskip("transformers")
from transformers import AutoConfig, LlamaConfig

LATER = "a_model_of_next_year"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": LATER, "hidden_size": 8}))
    return tmp_path


def test_a_type_that_this_release_does_not_know(folder, says):
    with pytest.raises(ValueError, match="does not recognize") as stop:
        AutoConfig.from_pretrained(folder)
    says("ENV21", str(stop.value))
    says("ENV21", "".join(traceback.format_exception(stop.value.__context__)))


def test_the_check_of_the_entry(says):
    command = span("ENV21", "for_model")
    with pytest.raises(ValueError, match="Unrecognized model identifier") as stop:
        typed(command.replace("qwen3", LATER))
    says("ENV21", str(stop.value))
    assert typed(command).split()[0] == transformers.__version__


def test_a_project_registers_its_own_type(folder):
    class LaterConfig(LlamaConfig):
        model_type = LATER

    AutoConfig.register(LATER, LaterConfig)
    try:
        assert AutoConfig.from_pretrained(folder).hidden_size == 8
    finally:
        transformers.models.auto.configuration_auto.CONFIG_MAPPING._extra_content.pop(LATER)


def test_a_folder_without_a_type_is_something_else(tmp_path, says):
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 8}))
    with pytest.raises(ValueError, match="Unrecognized model in") as stop:
        AutoConfig.from_pretrained(tmp_path)
    with pytest.raises(AssertionError, match="none of the signatures"):
        says("ENV21", str(stop.value))


@pytest.mark.parametrize(
    "name", ["GemmaTokenizer", "Qwen2Tokenizer", "TokenizersBackend", "LlamaTokenizer"]
)
def test_tokenizers_of_transformers_itself(name, says):
    says(
        "ENV21", f"ValueError: Tokenizer class {name} does not exist or is not currently imported."
    )


@pytest.mark.parametrize(
    "name",
    [
        "QWenTokenizer",
        "LLaMATokenizer",
        "BaichuanTokenizer",
        "BaiChuanTokenizer",
        "ChatGLMTokenizer",
    ],
)
def test_tokenizers_that_lie_beside_their_model_are_something_else(name, says):
    with pytest.raises(AssertionError, match="none of the signatures"):
        says(
            "ENV21",
            f"ValueError: Tokenizer class {name} does not exist or is not currently imported.",
        )


NAMES = [
    *("mistral", "mixtral", "ministral3", "mistral3", "mllama", "llama4", "gpt_oss", "deepseek_v3"),
    *("gemma", "gemma2", "gemma3_text", "gemma4", "qwen2_moe", "qwen2_vl", "qwen2_5_vl"),
    *("qwen3_moe", "qwen3_vl", "qwen3_vl_moe", "qwen3_next", "qwen3_5"),
]


@pytest.mark.parametrize("name", NAMES)
def test_the_bare_word_of_old_releases_is_a_type_that_this_one_knows(name, says):
    assert name in transformers.models.auto.configuration_auto.CONFIG_MAPPING_NAMES
    says("ENV21", f"KeyError: '{name}'")


@pytest.mark.parametrize("name", ["qwen2", "qwen3", "gemma3", "llama", "mistral_7b", "text"])
def test_words_that_other_programs_print_too_are_left_alone(name, says):
    with pytest.raises(AssertionError, match="none of the signatures"):
        says("ENV21", f"KeyError: '{name}'")
