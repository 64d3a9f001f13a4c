"""L12: the Trainer takes a quantized model only with peft's adapters, and only if the method can train."""

import json

import pytest
from peft import LoraConfig, get_peft_model
from transformers import (
    BitNetQuantConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
)

SIZES = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "vocab_size": 16}


@pytest.fixture
def quantized(tmp_path):
    """A tiny BitNet model: the one quantization of transformers that needs neither a card nor another package."""

    def make(mode: str) -> LlamaForCausalLM:
        folder = tmp_path / mode
        LlamaForCausalLM(
            LlamaConfig(**SIZES, num_attention_heads=2, num_key_value_heads=2)
        ).save_pretrained(folder)
        config = json.loads((folder / "config.json").read_text())
        quantization = BitNetQuantConfig(linear_class="autobitlinear", quantization_mode=mode)
        config["quantization_config"] = quantization.to_dict()
        (folder / "config.json").write_text(json.dumps(config))
        model = LlamaForCausalLM.from_pretrained(folder)
        assert (
            model.is_quantized
            and type(model.model.layers[0].mlp.up_proj).__name__ == "AutoBitLinear"
        )
        return model

    return make


def with_adapters(model):
    return get_peft_model(model, LoraConfig(target_modules=["lm_head"]))


@pytest.fixture
def trainer(tmp_path):
    return lambda model: Trainer(model, TrainingArguments(str(tmp_path / "out"), use_cpu=True))


def test_without_adapters(quantized, trainer, says):
    with pytest.raises(ValueError) as stop:
        trainer(quantized("offline"))
    says("L12", str(stop.value))


def test_a_method_that_cannot_train(quantized, trainer, says):
    with pytest.raises(ValueError) as stop:
        trainer(with_adapters(quantized("offline")))
    says("L12", str(stop.value))


def test_a_method_that_can(quantized, trainer):
    assert trainer(with_adapters(quantized("online")))


def test_after_merging_the_adapters_are_gone(quantized, trainer, says):
    model = with_adapters(quantized("offline")).unload()
    with pytest.raises(ValueError) as stop:
        trainer(model)
    says("L12", str(stop.value))


def test_unquantized(trainer):
    assert trainer(
        LlamaForCausalLM(LlamaConfig(**SIZES, num_attention_heads=2, num_key_value_heads=2))
    )


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: The model you want to train is loaded in 8-bit precision.  if you want to fine-tune an 8-bit model, "
        "please make sure that you have installed `bitsandbytes>=0.37.0`.",
        "ValueError: The model you are trying to fine-tune is quantized with QuantizationMethod.FP8 but that "
        "quantization method do not support training.",
        "ValueError: You cannot fine-tune quantized model with `torch.compile()` make sure to pass a non-compiled model",
        "ValueError: Quantization is only compatible with the LoRA or OFT method.",
        "ValueError: load_in_8bit and load_in_4bit are not supported without setting an adapter for training.",
    ],
)
def test_texts_of_reports(text, says):
    says("L12", text)


def test_the_check_names_a_quantized_model_without_adapters(quantized, printed):
    model = quantized("online")
    assert printed("L12", model=model).startswith(
        "True <class 'transformers.models.llama.modeling_llama.LlamaForCausalLM'> "
    )
    assert printed("L12", model=with_adapters(model)).startswith(
        "True <class 'peft.peft_model.PeftModel'> "
    )
