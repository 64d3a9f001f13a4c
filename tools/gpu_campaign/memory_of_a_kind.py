"""Train a model of one kind for four steps and save it, to compare `rgt fit` with a card.

    python memory_of_a_kind.py KIND [tiny]

Weights are random, shapes those of models that people train; "tiny" makes them small, and needs no
card. The peaks by torch's allocator are appended to the file that MEMORY_TOLD names.
"""

import json
import os
import sys
import tempfile

import torch
from compare import KINDS
from torch import nn

TINY = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 500}
TINY.update(intermediate_size=128, num_key_value_heads=2)
STEPS = 4


def config_of(name, tiny):
    """The configuration of transformers for a model that `rgt fit` knows by its name."""
    import transformers
    from remote_gpu_trainer.fit.known_configs import known_config

    fields = {**known_config(name).config, **(TINY if tiny else {})}
    kind = fields.pop("model_type")
    if tiny and kind == "vit":
        fields.pop("vocab_size"), fields.pop("num_key_value_heads")
    return transformers.AutoConfig.for_model(kind, **fields)


def language_model(name, asked, tiny, device):
    """A language model with random weights, as its kind trains it."""
    import transformers

    config = config_of(name, tiny)
    low = asked["precision"] in ("bf16", "8bit")
    model = transformers.AutoModelForCausalLM.from_config(
        config, dtype=torch.bfloat16 if low else torch.float32
    )
    if asked["precision"] == "8bit":
        quantized = transformers.BitsAndBytesConfig(load_in_8bit=True)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            model = transformers.AutoModelForCausalLM.from_pretrained(
                folder, quantization_config=quantized, device_map={"": device}
            )
    if asked.get("lora"):
        import peft

        if asked["precision"] == "8bit":
            model = peft.prepare_model_for_kbit_training(model)
        adapters = peft.LoraConfig(r=asked["lora"], target_modules="all-linear")
        model = peft.get_peft_model(model, adapters)
    if asked.get("checkpointing"):
        model.config.use_cache = False
        model.enable_input_require_grads()
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model if asked["precision"] == "8bit" else model.to(device)


def logarithms(model, words):
    """What a model makes of the words: the sum of the logarithms of their probabilities."""
    logits = model(input_ids=words).logits[:, :-1]
    return logits.log_softmax(-1).gather(2, words[:, 1:, None]).sum((1, 2))


def trained_by(kind, tiny, device):
    """The model of a kind, and a function that gives its loss on a new batch."""
    name, asked = KINDS[kind]
    batch = 1 if tiny else asked["batch"]
    if kind == "unet":
        from diffusers import UNet2DConditionModel

        small = {"block_out_channels": (32, 64, 64, 64), "norm_num_groups": 8} if tiny else {}
        model = UNet2DConditionModel(sample_size=64, cross_attention_dim=768, **small).to(device)
        latents = torch.randn(batch, 4, 64, 64, device=device)
        words = torch.randn(batch, 77, 768, device=device)
        return model, lambda: model(latents, 1, words).sample.float().pow(2).mean()
    if kind == "vit":
        import transformers

        model = transformers.ViTForImageClassification(config_of(name, tiny)).to(device)
        images = torch.randn(batch, 3, 224, 224, device=device)
        labels = torch.zeros(batch, dtype=torch.long, device=device)
        return model, lambda: model(pixel_values=images, labels=labels).loss
    if kind == "liger":
        from liger_kernel.transformers import apply_liger_kernel_to_llama

        apply_liger_kernel_to_llama()
    model = language_model(name, asked, tiny, device)
    length = 16 if tiny else asked["sequence"]
    words = torch.randint(0, 500, (batch * (2 if kind == "dpo" else 1), length), device=device)
    if kind != "dpo":
        return model, lambda: model(input_ids=words, labels=words).loss
    reference = language_model(name, asked, tiny, device).requires_grad_(False)

    def preferred():
        with torch.no_grad():
            before = logarithms(reference, words)
        better, worse = (logarithms(model, words) - before).chunk(2)
        return -nn.functional.logsigmoid(0.1 * (better - worse)).mean()

    return model, preferred


def main():
    """Train, save, and tell the peaks."""
    kind, tiny = sys.argv[1], "tiny" in sys.argv[2:]
    device = "cpu" if tiny else "cuda"
    torch.manual_seed(0)
    model, loss_of = trained_by(kind, tiny, device)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, fused=not tiny)
    mixed = "mixed" in KINDS[kind][1]["precision"]
    for _ in range(STEPS):
        with torch.autocast(device, torch.bfloat16, enabled=mixed):
            loss = loss_of()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    names = {name for name, weight in model.named_parameters() if weight.requires_grad}
    state = {name: value for name, value in model.state_dict().items() if name in names}
    place = os.environ.get("MEMORY_SAVED", "checkpoint.pt")
    torch.save({"model": state, "optimizer": optimizer.state_dict()}, place)
    told = {"kind": kind, "loss": round(float(loss), 3)}
    if not tiny:
        told["allocated"] = torch.cuda.max_memory_allocated()
        told["reserved"] = torch.cuda.max_memory_reserved()
    print(json.dumps(told))
    if path := os.environ.get("MEMORY_TOLD"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
