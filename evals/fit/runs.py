"""Training runs whose memory is counted on the CPU, and what `rgt fit` is asked about them.

Every tensor that a run makes is counted, temporary ones too: the sizes are those of a GPU's
allocator without its rounding. Weights are random, the architectures those of transformers.
"""

from __future__ import annotations

import weakref

import torch

# torchvision's compiled operators want a CUDA build of torch; transformers needs their names only.
# The proofs define them too, and a name is defined once in a process.
if not hasattr(torch.ops.torchvision, "nms"):
    OPERATORS = torch.library.Library("torchvision", "DEF")
    for _name in ("nms", "qnms"):
        OPERATORS.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

import transformers
from torch.utils._python_dispatch import TorchDispatchMode

# An encoder and a decoder, as bart and whisper name them.
TWO_SIDED = {
    "d_model": 128,
    "encoder_layers": 4,
    "decoder_layers": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 512,
    "decoder_ffn_dim": 512,
    "vocab_size": 2000,
}
SMALL = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 2000}
GATED = {**SMALL, "intermediate_size": 352, "num_key_value_heads": 4}
# The model, its configuration where it differs from the library's, and what `rgt fit` is asked.
RUNS = {
    "llama, fp32": ("llama", GATED, {"batch": 4, "sequence": 128}),
    "llama, eager attention": (
        "llama",
        {**GATED, "num_key_value_heads": 2},
        {"batch": 2, "sequence": 256, "attention": "eager"},
    ),
    "llama, checkpointing, SGD": (
        "llama",
        {**GATED, "num_hidden_layers": 8, "vocab_size": 500},
        {"batch": 4, "sequence": 256, "checkpointing": True, "optimizer": "sgd-momentum"},
    ),
    "llama, LoRA on bf16": (
        "llama",
        {**GATED, "num_hidden_layers": 6},
        {"batch": 4, "sequence": 256, "precision": "bf16", "lora": 8},
    ),
    "qwen2, tied, bf16": (
        "qwen2",
        {**GATED, "num_key_value_heads": 2, "tie_word_embeddings": True},
        {"batch": 4, "sequence": 192, "precision": "bf16"},
    ),
    "qwen3": (
        "qwen3",
        {**GATED, "num_key_value_heads": 2, "head_dim": 64},
        {"batch": 2, "sequence": 192},
    ),
    "mistral, mixed precision": (
        "mistral",
        {**GATED, "num_key_value_heads": 2},
        {"batch": 4, "sequence": 192, "precision": "bf16-mixed"},
    ),
    "gemma, large vocabulary, bf16": (
        "gemma",
        {**GATED, "num_key_value_heads": 1, "head_dim": 32, "vocab_size": 24000},
        {"batch": 2, "sequence": 128, "precision": "bf16"},
    ),
    "phi, parallel blocks": (
        "phi",
        {**SMALL, "intermediate_size": 512},
        {"batch": 4, "sequence": 128},
    ),
    "gpt2, dropout": (
        "gpt2",
        {
            "n_embd": 128,
            "n_layer": 4,
            "n_head": 4,
            "vocab_size": 2000,
            "n_positions": 256,
            "attn_pdrop": 0.0,  # with dropout, attention on a CPU is another than on a GPU
        },
        {"batch": 4, "sequence": 192},
    ),
    "bert, masked words, eager": (
        "bert",
        {**SMALL, "intermediate_size": 512},
        {"batch": 4, "sequence": 128, "attention": "eager"},
    ),
    "t5, encoder and decoder": (
        "t5",
        {
            "d_model": 128,
            "d_ff": 512,
            "d_kv": 32,
            "num_layers": 4,
            "decoder_start_token_id": 0,
            "pad_token_id": 0,
            "num_heads": 4,
            "vocab_size": 2000,
        },
        {"batch": 4, "sequence": 96, "attention": "eager"},
    ),
    "mixtral, 8 experts, Adafactor": (
        "mixtral",
        {**GATED, "num_key_value_heads": 2, "num_local_experts": 8},
        {"batch": 2, "sequence": 192, "optimizer": "adafactor"},
    ),
    "mixtral, LoRA of 8 experts, bf16": (
        "mixtral",
        {**GATED, "num_key_value_heads": 2, "num_local_experts": 8},
        {"batch": 2, "sequence": 192, "precision": "bf16", "lora": 8},
    ),
    "mixtral, LoRA of wide experts, checkpointing": (
        "mixtral",
        {
            **GATED,
            "num_key_value_heads": 2,
            "num_local_experts": 8,
            "intermediate_size": 704,
            "vocab_size": 500,
        },
        {"batch": 1, "sequence": 64, "precision": "bf16", "lora": 8, "checkpointing": True},
    ),
    "gpt-neox, weights outweigh the batch": (
        "gpt_neox",
        {**SMALL, "hidden_size": 256, "intermediate_size": 1024},
        {"batch": 1, "sequence": 32},
    ),
    "bart, encoder and decoder, mixed precision": (
        "bart",
        {
            **TWO_SIDED,
            "max_position_embeddings": 256,
        },
        {"batch": 4, "sequence": 96, "precision": "bf16-mixed"},
    ),
    "whisper, more sound than words": (
        "whisper",
        {
            **TWO_SIDED,
            "max_source_positions": 300,
            "max_target_positions": 64,
            "num_mel_bins": 16,
            "pad_token_id": 1,
            "bos_token_id": 1,
            "eos_token_id": 1,
            "decoder_start_token_id": 1,
        },
        {"batch": 4, "sequence": 64},
    ),
    "clip, images and words": (
        "clip",
        {
            "text_config": {
                "hidden_size": 64,
                "intermediate_size": 256,
                "num_hidden_layers": 4,
                "num_attention_heads": 4,
                "vocab_size": 2000,
                "max_position_embeddings": 77,
                "eos_token_id": 1,
            },
            "vision_config": {
                "hidden_size": 128,
                "intermediate_size": 512,
                "num_hidden_layers": 4,
                "num_attention_heads": 4,
                "image_size": 112,
                "patch_size": 16,
            },
            "projection_dim": 64,
        },
        {"batch": 8, "sequence": 77},
    ),
}
HEADS = {
    "bert": "BertForMaskedLM",
    "t5": "T5ForConditionalGeneration",
    "bart": "BartForConditionalGeneration",
    "whisper": "WhisperForConditionalGeneration",
    "clip": "CLIPModel",
}


def config_of(name: str) -> dict:
    """The config.json of a run, as transformers writes it."""
    kind, values, _ = RUNS[name]
    config = transformers.AutoConfig.for_model(kind, **values)
    made = _class_of(config)
    plain = {
        key: value
        for key, value in config.to_dict().items()
        if isinstance(value, (bool, int, float, str)) or key in values
    }
    return {**plain, "architectures": [made.__name__]}


def _class_of(config):
    if head := HEADS.get(config.model_type):
        return getattr(transformers, head)
    return transformers.AutoModelForCausalLM._model_mapping[type(config)]


def _model(name: str):
    kind, values, asked = RUNS[name]
    config = transformers.AutoConfig.for_model(kind, **values)
    config._attn_implementation = asked.get("attention", "sdpa")
    model = _class_of(config)(config)
    if asked.get("precision") == "bf16":
        model = model.to(torch.bfloat16)
    if asked.get("lora"):
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(
            model, LoraConfig(r=asked["lora"], target_modules="all-linear", task_type="CAUSAL_LM")
        )
    if asked.get("checkpointing"):
        model.config.use_cache = False
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model.train()


def _optimizer(name: str, model):
    chosen = RUNS[name][2].get("optimizer", "adamw")
    trained = [p for p in model.parameters() if p.requires_grad]
    if chosen == "adamw":
        return torch.optim.AdamW(trained, lr=1e-4, foreach=False)
    if chosen == "adafactor":
        return transformers.Adafactor(trained, lr=1e-4, relative_step=False, scale_parameter=False)
    return torch.optim.SGD(trained, lr=1e-4, momentum=0.9, foreach=False)


class _Alive(TorchDispatchMode):
    """Counts the bytes of all storages made within it: `now`, and `peak`, the most at one time."""

    def __init__(self, before):
        super().__init__()
        self.before = before  # storages that were there: an operation in place returns them
        self.sizes, self.now, self.peak = {}, 0, 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        for tensor in torch.utils._pytree.tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in self.sizes and storage._cdata not in self.before:
                    self.sizes[storage._cdata] = storage.nbytes()
                    self.now += storage.nbytes()
                    self.peak = max(self.peak, self.now)
                    weakref.finalize(storage, self._freed, storage._cdata)
        return result

    def _freed(self, key):
        self.now -= self.sizes.pop(key, 0)


def _inputs(model, asked: dict) -> dict:
    """One batch, as the model takes it."""
    words = torch.randint(5, 500, (asked["batch"], asked["sequence"]))
    config = model.config
    if config.model_type == "whisper":
        shape = (asked["batch"], config.num_mel_bins, 2 * config.max_source_positions)
        return {"input_features": torch.randn(shape), "labels": words}
    if config.model_type == "clip":
        side = config.vision_config.image_size
        images = torch.randn(asked["batch"], 3, side, side)
        return {"input_ids": words, "pixel_values": images, "return_loss": True}
    return {"input_ids": words, "labels": words}


def _storages(tensors) -> dict[int, int]:
    storages = [tensor.untyped_storage() for tensor in tensors]
    return {storage._cdata: storage.nbytes() for storage in storages}


def _dropout(values, p=0.5, training=True, inplace=False):
    """As a GPU does it, which keeps a mask of one byte; a CPU keeps the factors in full width."""
    return torch.native_dropout(values, p, True)[0] if training and p else values


def measured(name: str) -> dict[str, int]:
    """Bytes of a run: weights, gradients, state, what is kept, and the peak of the second step."""
    torch.manual_seed(0)
    old, torch.nn.functional.dropout = torch.nn.functional.dropout, _dropout
    try:
        return _counted(name)
    finally:
        torch.nn.functional.dropout = old


def _counted(name: str) -> dict[str, int]:
    model = _model(name)
    optimizer = _optimizer(name, model)
    asked = RUNS[name][2]
    batch = _inputs(model, asked)
    held = _storages(model.parameters())
    weights = sum(held.values())
    found = {}
    with _Alive(held) as alive:
        for _ in range(2):
            before = alive.peak = alive.now
            with torch.autocast(
                "cpu", torch.bfloat16, enabled=asked.get("precision") == "bf16-mixed"
            ):
                loss = model(**batch).loss
            found |= {"kept": alive.now - before, "forward": alive.peak}
            alive.peak = alive.now
            loss.backward()
            found |= {"backward": alive.peak}
            alive.peak = alive.now
            del loss
            grads = _storages(p.grad for p in model.parameters() if p.grad is not None)
            found["gradients"] = sum(grads.values())
            optimizer.step()
            found |= {"step": alive.peak}
            optimizer.zero_grad(set_to_none=True)
        found["state"] = alive.now
    moments = ("forward", "backward", "step")
    peak = weights + max(found[moment] for moment in moments)
    return {**found, "weights": weights, "peak": peak}
