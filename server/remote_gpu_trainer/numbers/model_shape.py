"""The shape of a transformer, how it is trained, and what its layers keep. Python 3.8.

`read_config` reads a `Model` from a config.json of transformers, `Run` is how it is trained. What a
layer keeps for the backward pass follows from the operations of transformers 5: each keeps the
tensors that its gradient needs.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass

from ..text import BadRequest

PRECISIONS = ("fp32", "bf16-mixed", "fp16-mixed", "bf16", "8bit", "4bit", "4bit-bf16")
SHARDINGS = ("none", "ddp", "zero1", "zero2", "zero3", "fsdp")
TARGETS = ("all-linear", "attention", "qv")
ATTENTIONS = ("sdpa", "flash", "eager")
# Bytes of a quantized number with its scales: bitsandbytes int8 by row, nf4 by block of 64; and nf4
# whose scales are quantized too, with all else in bf16, as QLoRA's authors and torchtune train.
QUANTIZED = {"8bit": 1.0, "4bit": 0.5 + 4 / 64, "4bit-bf16": 0.5 + 1 / 64 + 4 / (64 * 256)}
NOT = "doesn't fit"
MOST_BYTES = 1_000_000  # of a config.json
MOST = {"layers": 1000, "vocab": 10**7, "experts": 4096, "weights": 10**14}  # else 10**6
# Tensors of a layer's width that an activation written in plain operations keeps; a fused one keeps
# its input.
ACTIVATIONS = {"gelu_new": 4, "gelu_fast": 4, "quick_gelu": 3, "gelu_accurate": 4}

_NAMES = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model", "dim"),
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads"),
    "head_dim": ("head_dim", "d_kv"),
    "intermediate": ("intermediate_size", "n_inner", "d_ff", "ffn_dim", "encoder_ffn_dim"),
    "vocab": ("vocab_size",),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts"),
    "chosen": ("num_experts_per_tok", "moe_top_k"),
    "expert_size": ("moe_intermediate_size",),
}
# Fields of what isn't reckoned: the field, and what it stands for.
_UNKNOWN = {
    "kv_lora_rank": "latent attention",
    "n_shared_experts": "shared experts",
    "shared_expert_intermediate_size": "shared experts",
    "vision_config": "the part that sees",
    "audio_config": "the part that hears",
    "mamba_d_state": "layers without attention",
    "linear_num_key_heads": "layers without attention",
}
_LEARNED = ("gpt2", "bert", "roberta", "electra", "opt", "distilbert", "camembert", "xlm-roberta")
_T5 = ("t5", "mt5", "umt5", "longt5")
# Families with RMS norm and gated layers, whose configs may leave out what says so.
_LLAMAS = (
    "llama",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen3",
    "phi3",
    "deepseek",
    "internlm",
    "granite",
)
_ONE_NORM = ("phi", "gptj", "cohere", "codegen")
_FOUR_NORMS = ("gemma2", "gemma3", "gemma3_text", "glm4")
_HEAD_NORMS = ("qwen3", "qwen3_moe", "gemma3", "gemma3_text", "olmo2", "olmo3")


@dataclass(frozen=True)
class Model:
    """The shape of a transformer.

    `chosen` of `experts` work on each token (0: no experts). `norm`: "rms", "gemma" (RMS in fp32)
    or "layer". `kept_by_act`: tensors that the activation keeps. `dropout`, `attention_dropout`:
    whether there is any. `encoder`: layers of an encoder beside `layers` of a decoder. `head`:
    whether words are predicted. `unknown`: parts of it that aren't counted.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    gated: bool = True
    norm: str = "rms"
    norms: int = 2
    head_norms: bool = False
    kept_by_act: int = 1
    relu: bool = False
    experts: int = 0
    chosen: int = 0
    tied: bool = False
    positions: int = 0
    dropout: bool = False
    attention_dropout: bool = False
    encoder: int = 0
    head: bool = True
    weights: int = 0
    unknown: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """Return the width of all heads together."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Return the width of all key or value heads together."""
        return self.kv_heads * self.head_dim

    def attention_weights(self) -> int:
        """Return the number of weights in one attention."""
        return self.hidden * (2 * self.width + 2 * self.kv_width)

    def layer_weights(self) -> int:
        """Return the number of weights in one layer's matrices."""
        products = (3 if self.gated else 2) * self.hidden * self.intermediate
        router = self.hidden * self.experts
        return self.attention_weights() + products * max(self.experts, 1) + router

    def linear(self) -> int:
        """Return the number of weights in the matrices of all layers."""
        cross = self.layers * self.attention_weights() if self.encoder else 0
        return (self.layers + self.encoder) * self.layer_weights() + cross

    def tables(self) -> int:
        """Return the number of weights in the embeddings and the head."""
        words = self.vocab * self.hidden * (1 if self.tied or not self.head else 2)
        return words + self.positions * self.hidden

    def total(self) -> int:
        """Return the number of weights, the given one if there is one."""
        small = (self.layers + self.encoder) * self.hidden * self.norms
        return self.weights or self.linear() + self.tables() + small

    def depth(self) -> int:
        """Return the number of layers, those of an encoder too."""
        return self.layers + self.encoder


@dataclass(frozen=True)
class Run:
    """How a model is trained. `lora`: the rank, 0 for all weights. `gpus`: that share the work."""

    batch: int = 1
    sequence: int = 2048
    precision: str = "bf16-mixed"
    optimizer: str = "adamw"
    lora: int = 0
    targets: str = "all-linear"
    sharding: str = "none"
    gpus: int = 1
    checkpointing: bool = False
    attention: str = "sdpa"
    chunked_loss: bool = False
    offload: bool = False
    accumulation: int = 1

    @property
    def autocast(self) -> bool:
        """Return whether weights are fp32 and each product casts its inputs to 16 bit."""
        shards = self.sharding in ("zero1", "zero2", "zero3", "fsdp")
        return self.precision in ("8bit", "4bit") or ("mixed" in self.precision and not shards)

    @property
    def width(self) -> int:
        """Return the bytes of a number in matrix products."""
        return 4 if self.precision == "fp32" else 2

    @property
    def stream(self) -> int:
        """Return the bytes of a number between the layers."""
        if self.lora and self.precision not in ("8bit", "4bit", "fp32"):
            return 2  # the base is stored in 16 bit, or its embeddings are
        return 4 if self.autocast or self.precision == "fp32" else 2

    @property
    def full(self) -> bool:
        """Return whether all weights are trained."""
        return not self.lora and self.precision not in QUANTIZED


def read_config(data: bytes, given: dict | None = None) -> Model:
    """Return the model that the bytes of a config.json describe. Raises BadRequest.

    `given` holds fields that replace those of the file.
    """
    if len(data) > MOST_BYTES:
        raise BadRequest(
            f"the config has {len(data)} bytes, more than {MOST_BYTES}; pass a model's config.json"
        )
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise BadRequest("the config isn't JSON; pass a model's config.json") from None
    if isinstance(found, dict) and isinstance(found.get("text_config"), dict):
        found = {**found, **found["text_config"]}  # of a model that also sees
    if not isinstance(found, dict):
        raise BadRequest("the config holds no object; pass a model's config.json")
    return model_of({**found, **(given or {})})


def at(path: str) -> Model | None:
    """Return the model of a config.json, None for any other file. Raises BadRequest."""
    if not path.endswith(".json") or not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError:
        return None
    fields = [key for name in ("layers", "hidden") for key in _NAMES[name]]
    named = sum(f'"{key}"'.encode() in data for key in fields) > 1
    return read_config(data) if named and b'"vocab_size"' in data else None


def count_of(text: str) -> int:
    """Return a number of weights such as 7B, 350M or 6738415616. Raises BadRequest."""
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)([kmbt]?)", text.strip().lower())
    count = float(found[1]) * 1000 ** (" kmbt".index(found[2]) if found[2] else 0) if found else 0
    if not 1 <= count <= MOST["weights"]:
        raise BadRequest(f"can't read the number of weights {text[:40]!r}; write it as 7B or 350M")
    return int(count)


def check(run: Run) -> Run:
    """Return the run. Raises BadRequest for numbers and choices that don't go together."""
    for name, most in (("batch", 10**6), ("sequence", 10**8), ("accumulation", 10**6)):
        value = getattr(run, name)
        if not 1 <= value <= most:
            raise BadRequest(f"--{name} is {value}; give a whole number from 1 to {most}")
    if not 1 <= run.gpus <= 10**6:
        raise BadRequest(f"--gpus is {run.gpus}; give a whole number from 1 to 1000000")
    if not 0 <= run.lora <= 10**5:
        raise BadRequest(f"--lora is {run.lora}; give a rank from 1 to 100000, or 0 for none")
    if run.precision in QUANTIZED and not run.lora:
        raise BadRequest(f"a base in {run.precision} isn't trained itself; add --lora 16")
    if run.sharding != "none" and run.gpus == 1:
        raise BadRequest(f"--sharding {run.sharding} on one GPU divides nothing; add --gpus N")
    return run


def _number(config: dict, name: str, default: int = 0, least: int = 1) -> int:
    for key in _NAMES.get(name, (name,)):
        value = config.get(key)
        if value is None:
            continue
        most = MOST.get(name, 10**6)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            plain = isinstance(value, (str, int, float))
            told = str(value)[:40] if plain else type(value).__name__
            raise BadRequest(f"{key} is {told!r}; give a whole number from {least} to {most}")
        return value
    if default < 1 and least > 0:
        raise BadRequest(f"{_NAMES[name][0]} is missing; pass a config.json that has it")
    return default


def model_of(config: dict) -> Model:
    """Return the model of a config's fields, as transformers names them. Raises BadRequest."""
    words = {key: value.lower() for key, value in config.items() if isinstance(value, str)}
    kind = words.get("model_type", "")
    hidden, heads = _number(config, "hidden"), _number(config, "heads")
    layers = _number(config, "layers")
    rms = kind in _T5 or kind.startswith(_LLAMAS) or any("rms" in key for key in config)
    acts = ("hidden_activation", "hidden_act", "activation_function", "dense_act_fn")
    act = next((words[key] for key in acts if words.get(key)), "")
    gated = "silu" in act or "swi" in act or (rms and kind not in _T5)
    gated = gated or "gated" in words.get("feed_forward_proj", "")
    many = config.get("multi_query") is True
    experts = _number(config, "experts", least=0)
    intermediate = _number(config, "intermediate", default=4 * hidden)
    if experts > 1:
        intermediate = _number(config, "expert_size", default=intermediate)
    both = config.get("is_encoder_decoder") is True
    learned = kind in _LEARNED
    positions = _number(config, "n_positions", least=0) if learned else 0
    if learned and not positions:
        positions = _number(config, "max_position_embeddings", least=0)
    names = config.get("architectures")
    made = names[0] if isinstance(names, list) and names else ""
    made = made if isinstance(made, str) else ""
    head = made == "" or any(end in made for end in ("LM", "Generation", "PreTraining"))
    norm = "layer" if not rms else "gemma" if kind.startswith("gemma") else "rms"
    return Model(
        layers=_number(config, "decoder_layers", default=layers) if both else layers,
        hidden=hidden,
        heads=heads,
        kv_heads=_number(config, "kv_heads", default=1 if many else heads),
        head_dim=_number(config, "head_dim", default=max(1, hidden // heads)),
        intermediate=intermediate,
        vocab=_number(config, "vocab"),
        gated=gated,
        norm=norm,
        norms=1 if kind in _ONE_NORM else 4 if kind in _FOUR_NORMS else 2,
        head_norms=kind in _HEAD_NORMS,
        kept_by_act=ACTIVATIONS.get(act, 1),
        relu=act == "relu",
        experts=experts if experts > 1 else 0,
        chosen=_number(config, "chosen", default=2) if experts > 1 else 0,
        tied=config.get("tie_word_embeddings", True) is not False,
        positions=positions,
        dropout=_some(config, "resid_pdrop", "hidden_dropout_prob", "hidden_dropout", kind in _T5),
        attention_dropout=_some(
            config, "attn_pdrop", "attention_probs_dropout_prob", "attention_dropout", kind in _T5
        ),
        encoder=_number(config, "encoder_layers", default=layers) if both else 0,
        head=head,
        unknown=tuple(dict.fromkeys(told for key, told in _UNKNOWN.items() if config.get(key))),
    )


def _some(config: dict, *names: object) -> bool:
    """Whether a rate of dropout is above zero; a T5 has one for all."""
    keys = [str(name) for name in names if not isinstance(name, bool)]
    keys += ["dropout_rate"] if names[-1] is True else []
    rates = [config.get(key) for key in keys]
    return any(isinstance(rate, (int, float)) and rate > 0 for rate in rates)


def inputs(run: Run, width: int, readers: int, adapted: bool, cast: bool = True) -> float:
    """Bytes per token of the tensor that matrices read, if their weights are trained.

    Autocast gives each reader a copy of its own, unless the tensor is in 16 bit already (`cast`).
    An adapter beside a matrix reads a copy too, in the width of the adapter.
    """
    if run.full:
        return float(width * (2 * readers if run.autocast and cast else run.width))
    return float(width * readers * (2 if run.autocast else 4)) if adapted else 0.0


def norm_keeps(model: Model, run: Run) -> float:
    """Bytes per token that a normalization keeps."""
    if model.norm == "layer":
        return float(model.hidden * run.stream)
    normalized = 4 if model.norm == "gemma" else run.stream  # for the gradient of its weight
    return float(model.hidden * (4 + (normalized if run.full else 0)))


def _attention(model: Model, run: Run) -> float:
    """Bytes per token that one attention keeps, with the inputs of its four matrices."""
    wide, narrow, c = model.width, model.kv_width, run.width
    adapted = 3 if run.targets != "qv" else 2
    kept = inputs(run, model.hidden, 3 if run.full else adapted, True)
    if model.head_norms:
        kept += (wide + narrow) * (4 + (c if run.full else 0))
    if run.attention != "eager":
        kept += c * (2 * wide + 2 * narrow) + 4 * model.heads  # q, the result, k, v, and the sums
        return kept + (0 if run.full else inputs(run, wide, 1, run.targets != "qv", False))
    kept += c * 3 * wide + inputs(run, wide, 1, run.targets != "qv", False)
    soft = 4 if model.norm != "layer" or run.autocast else c
    after = 1 + c if model.attention_dropout else c if soft != c else 0
    return kept + model.heads * run.sequence * (soft + after)


def _products(model: Model, run: Run) -> float:
    """Bytes per token that a layer's other matrices keep, with their inputs."""
    size, c = model.intermediate, run.width
    adapted = run.targets == "all-linear"
    readers = 2 if model.gated else 1
    last = inputs(run, size, 1, adapted, False)
    if model.relu and not model.gated:  # keeps its result, which the next matrix reads
        kept = size * (c + 1) if model.dropout else size * c - last
    else:
        kept = size * c * (model.kept_by_act + (2 if model.gated else 0))
    kept += last
    if model.experts:  # each chosen expert reads a copy of the token, and its result is weighed
        return model.chosen * (kept + 2 * model.hidden * c)
    return kept + inputs(run, model.hidden, readers, adapted)


def layer_keeps(model: Model, run: Run, cross: bool = False) -> float:
    """Return the bytes per token that one layer keeps for the backward pass.

    `cross`: it also looks at an encoder.
    """
    twice = 2 if cross else 1
    kept = norm_keeps(model, run) * (model.norms + twice - 1)
    kept += _attention(model, run) * twice + _products(model, run)
    return kept + (model.hidden * (1 + twice) if model.dropout else 0)
