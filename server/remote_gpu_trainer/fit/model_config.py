"""Read a model's shape from a config.json of transformers.

Families differ in the names of fields, and some leave out what their code takes for granted.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace

from ..text import BadRequest
from .model_shape import Model
from .weight_formulas import Unknown, completed, formulas, weights_of

MOST_BYTES = 1_000_000  # of a config.json
# The most that a field may say, so that no arithmetic overflows; 10**6 for all others.
MOST = {"layers": 1000, "vocab": 10**7, "experts": 4096}
MOST_WEIGHTS = 10**14
MOST_STRETCHED = 10**4  # that positions are, by a config

_NAMES = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model", "dim"),
    "decoder_layers": ("decoder_layers", "num_decoder_layers"),
    "heads": (
        "num_attention_heads",
        "n_head",
        "num_heads",
        "n_heads",
        "encoder_attention_heads",
    ),
    "kv_heads": ("num_key_value_heads", "num_kv_heads"),
    "head_dim": ("head_dim", "d_kv"),
    "intermediate": ("intermediate_size", "n_inner", "d_ff", "ffn_dim", "encoder_ffn_dim"),
    "vocab": ("vocab_size",),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts"),
    "chosen": ("num_experts_per_tok", "moe_top_k"),
    "expert_size": ("moe_intermediate_size",),
}
_ACTIVATION_NAMES = ("hidden_activation", "hidden_act", "activation_function", "dense_act_fn")
_DROPOUT_NAMES = ("resid_pdrop", "hidden_dropout_prob", "hidden_dropout")
_ATTENTION_DROPOUT_NAMES = ("attn_pdrop", "attention_probs_dropout_prob", "attention_dropout")
# Fields of parts that aren't counted: the field, and what it stands for.
_NOT_COUNTED = {
    "kv_lora_rank": "latent attention",
    "n_shared_experts": "shared experts",
    "shared_expert_intermediate_size": "shared experts",
    "mamba_d_state": "layers without attention",
    "linear_num_key_heads": "layers without attention",
}
# Words in the names of fields that only a model with such a part has.
_SENSES = {
    "the part that sees": re.compile(r"(?:^|_)vision_|^visual|^image_token|^img_processor"),
    "the part that hears": re.compile(
        r"(?:^|_)(?:audio|speech)_|^num_mel_bins$|^feat_extract_norm$"
    ),
}
# Tensors of a layer's width that an activation keeps where transformers writes it in plain
# operations, and how many of them autocast computes in fp32, as it does what comes of a power. A
# fused activation keeps its input alone.
_KEPT_BY_ACTIVATION = {
    "gelu_new": (4, 3),
    "gelu_fast": (4, 0),
    "quick_gelu": (2, 0),
    "gelu_accurate": (4, 3),
}

# Families that learn their positions.
_LEARNED = ("gpt2", "bert", "roberta", "electra", "opt", "distilbert", "camembert", "xlm-roberta")
# Families that can't take a position behind the end of a table, learned or not.
_TABLED = (
    "albert", "bart", "bert", "bert-generation", "big_bird", "bigbird_pegasus", "biogpt",
    "blenderbot", "blenderbot-small", "clip", "codegen", "convbert", "distilbert", "electra",
    "ernie", "flaubert", "fnet", "gpt2", "gpt_bigcode", "gpt_neo", "gptj", "layoutlm", "marian",
    "mbart", "megatron-bert", "mobilebert", "nystromformer", "openai-gpt", "opt", "pegasus",
    "plbart", "rembert", "roc_bert", "roformer", "squeezebert", "xlm",
)  # fmt: skip
# The same, but the first word's position comes after that of padding.
_TABLED_FROM_PADDING = (
    "camembert", "data2vec-text", "longformer", "mpnet", "roberta", "roberta-prelayernorm",
    "xlm-roberta", "xlm-roberta-xl",
)  # fmt: skip
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
# Families by the normalizations of a layer; all others have two.
_ONE_NORM = ("phi", "gptj", "cohere", "codegen")
_FOUR_NORMS = ("gemma2", "gemma3", "gemma3_text", "glm4")
# Families whose experts are parameters in transformers 4 too.
_NEVER_LINEAR = (
    "gpt_oss",
    "llama4",
    "llama4_text",
    "granitemoe",
    "granitemoehybrid",
    "granitemoeshared",
    "dbrx",
)
_TEXTS = ("llm_config", "language_config")  # of InternVL, DeepSeek-VL: what others call text_config
_HEAD_NORMS = ("qwen3", "qwen3_moe", "gemma3", "gemma3_text", "olmo2", "olmo3")


def read_config(data: bytes, given: dict | None = None) -> Model:
    """Return the model that the bytes of a config.json describe. Raises BadRequest.

    `given` holds fields that replace those of the file.
    """
    if len(data) > MOST_BYTES:
        raise BadRequest(
            f"the config has {len(data)} bytes, more than {MOST_BYTES}; pass a model's config.json"
        )
    try:
        config = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise BadRequest("the config isn't JSON; pass a model's config.json") from None
    if not isinstance(config, dict):
        raise BadRequest("the config holds no object; pass a model's config.json")
    for name in _TEXTS:
        if isinstance(config.get(name), dict):
            config.setdefault("text_config", config[name])
    text = config.get("text_config")
    if given and isinstance(text, dict):  # of a model that also sees, whose shape stands there
        given = {**given, "text_config": {**text, **given}}
    return model_of({**config, **(given or {})})


def model_in(path: str) -> Model | None:
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


def with_linear_experts(model: Model) -> Model:
    """Return the model as transformers 4 has it: its experts' matrices are each an nn.Linear.

    A few types had parameters of three sides then too, by transformers 4.57.
    """
    return replace(model, linear_experts=bool(model.experts) and model.kind not in _NEVER_LINEAR)


def weight_count(text: str) -> int:
    """Return a number of weights such as 7B, 350M or 6738415616. Raises BadRequest."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)([kmbt]?)", text.strip().lower())
    count = float(match[1]) * 1000 ** (" kmbt".index(match[2]) if match[2] else 0) if match else 0
    if not 1 <= count <= MOST_WEIGHTS:
        raise BadRequest(f"can't read the number of weights {text[:40]!r}; write it as 7B or 350M")
    return int(count)


@dataclass(frozen=True)
class _Config:
    """The fields of a config.json, whose values may be anything."""

    values: dict

    def word(self, *names: str) -> str:
        """Return the first of the named fields that holds text, in lower case, or ''."""
        texts = (self.values.get(name) for name in names)
        return next((text.lower() for text in texts if isinstance(text, str) and text), "")

    def number(self, name: str, default: int = 0, least: int = 1) -> int:
        """Return a number by our name for it. Raises BadRequest if it is missing or no number.

        A `default` below 1 means that the field must be there, unless `least` is 0.
        """
        for key in _NAMES.get(name, (name,)):
            value = self.values.get(key)
            if value is None:
                continue
            most = MOST.get(name, 10**6)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                plain = isinstance(value, (str, int, float))
                text = str(value)[:40] if plain else type(value).__name__
                raise BadRequest(f"{key} is {text!r}; give a whole number from {least} to {most}")
            return value
        if default < 1 and least > 0:
            raise BadRequest(f"{_NAMES[name][0]} is missing; pass a config.json that has it")
        return default

    def any_above_zero(self, *names: str) -> bool:
        """Return whether one of the named rates is above zero."""
        rates = [self.values.get(name) for name in names]
        return any(isinstance(rate, (int, float)) and rate > 0 for rate in rates)


def model_of(fields: dict) -> Model:
    """Return the model of a config's fields, as transformers names them. Raises BadRequest.

    Its weights are those of the library where its shapes are known. Without the usual fields of
    layers, they are all that is known. Of a type whose shapes aren't known, but those of its part
    for text are, that part is counted.
    """
    counted, guessed, flat, whole = None, "", fields, True
    own = _of_own_code(fields)
    try:
        counted, flat = (None, own) if own else (weights_of(fields), completed(fields))
    except Unknown as error:
        guessed = str(error)
        if text := _text_part(fields):
            try:
                counted, guessed, whole = weights_of(text), "", False
                flat = {**fields, "text_config": completed(text)}
            except Unknown:
                pass
    text = flat.get("text_config")
    if isinstance(text, dict):
        own, named = _below("text_config", flat), fields.get("architectures")
        flat = {**flat, **own, **text, "architectures": named}
        if whole and counted:  # its text has no type of its own
            flat["model_type"] = fields["model_type"]
    try:
        model = _usual(flat, seeing=whole and counted is not None)
        model = replace(model, tower=_tower(fields, flat) if whole and counted else None)
    except BadRequest as error:
        if counted is None or _is_wrong(flat):
            raise _with_reason(error, guessed, fields) from None
        shape = dict.fromkeys(("layers", "hidden", "heads", "kv_heads", "head_dim"), 0)
        unknown = ("activations", *(() if whole else _not_counted(flat)))
        model = Model(**shape, intermediate=0, vocab=0, head=False, unknown=unknown)
    parts = model.unknown
    if model.tower or model.encoder_tokens:
        parts = tuple(part for part in parts if part not in _SENSES)
    if counted is not None:
        strange = [f for f in counted.unread if not _part_of(f) and f.isidentifier()]
        if not counted.unread:  # the library's shapes have these parts, the usual layers don't
            parts = tuple(_activations_of(part, whole) for part in parts)
        if strange:
            parts += (f"what transformers doesn't read: {', '.join(strange[:5])}",)
    on_top = tuple(part for part in parts if part == "activations" or part.endswith(tuple(_SENSES)))
    longest, made_for = _lengths(flat)
    own_code = fields["model_type"] if own else ""
    kind = fields.get("model_type")
    kind = kind if isinstance(kind, str) else ""
    model = replace(model, longest=longest, made_for=made_for, own_code=own_code, kind=kind)
    return replace(model, counted=counted, guessed=guessed, unknown=parts, on_top=on_top)


def _tower(fields: dict, flat: dict) -> Model | None:
    """Return the part of a model that sees its images, None for a model without one.

    `flat`: the config with the library's defaults, in which a part's field has its whole path.
    """
    given, own = fields.get("vision_config"), _below("vision_config", flat)
    if not own:
        return None
    kind = {"model_type": f"{fields.get('model_type')}_vision_model"}
    with suppress(Unknown):
        kind = completed(kind)
    tower = _usual({**kind, **own, **(given if isinstance(given, dict) else {})}, seeing=True)
    return tower if tower.tokens else None


def _below(part: str, flat: dict) -> dict:
    """Return the fields of a part that the library's defaults give, where each has its path."""
    return {
        path.removeprefix(f"{part}."): value
        for path, value in flat.items()
        if path.startswith(f"{part}.")
    }


def _of_own_code(fields: dict) -> dict | None:
    """Return the fields of a type that brings its own code as Llama's, None for any other type.

    By QWenMLP, whose two matrices share intermediate_size, and ChatGLM's MLP, as public copies of
    their code had them on 2026-11-29. Baichuan's config has Llama's fields.
    """
    llamas = {**fields, "hidden_act": "silu", "tie_word_embeddings": False}
    kind, size = fields.get("model_type"), fields.get("intermediate_size")
    if kind == "qwen" and type(size) is int and size > 1:
        return {**llamas, "intermediate_size": size // 2, "rms_norm_eps": 1e-6}
    if kind == "chatglm" and "ffn_hidden_size" in fields and fields.get("rmsnorm", True):
        groups = "multi_query_group_num" if fields.get("multi_query_attention") else ""
        known = {
            "vocab_size": fields.get("padded_vocab_size"),
            "intermediate_size": fields.get("ffn_hidden_size"),
            "num_key_value_heads": fields.get(groups or "num_attention_heads"),
            "head_dim": fields.get("kv_channels"),
            "rms_norm_eps": 1e-6,
        }
        return {**llamas, **{name: value for name, value in known.items() if value is not None}}
    return llamas if kind == "baichuan" else None


def _text_part(fields: dict) -> dict | None:
    """Return the config of the part that reads and writes words, None without one.

    Whether its two tables are one may stand outside of it.
    """
    text = fields.get("text_config")
    if not isinstance(text, dict):
        return None
    outer = {key: fields[key] for key in ("tie_word_embeddings",) if key in fields}
    return {**outer, **text}


def _activations_of(part: str, whole: bool) -> str:
    """What of a part isn't counted where the weights are: all of one beside the text's."""
    is_counted = part != "activations" and (whole or part not in _SENSES)
    return f"activations of {part}" if is_counted else part


def _is_wrong(fields: dict) -> bool:
    """Return whether a field of the usual shape holds no number that could be one.

    A model with several stages has a list there.
    """
    values = [fields.get(name) for names in _NAMES.values() for name in names]
    given = [value for value in values if value is not None and not isinstance(value, list)]
    return any(type(value) is not int or not 0 <= value <= MOST["vocab"] for value in given)


def _with_reason(error: BadRequest, guessed: str, fields: dict) -> BadRequest:
    """The error, and why the library's shapes don't help, for a model of a type."""
    if not fields.get("model_type") or "missing" not in str(error):
        return error
    what, _, do = str(error).partition("; ")
    return BadRequest(f"{what}, and {guessed}; {do}")


def _usual(fields: dict, seeing: bool) -> Model:
    """Return the model of the usual fields. Raises BadRequest.

    `seeing`: without a table of words it is a model that cuts images into patches.
    """
    config = _Config(fields)
    family = config.word("model_type")
    rms = family in _T5 or family.startswith(_LLAMAS) or any("rms" in key for key in fields)
    activation = config.word(*_ACTIVATION_NAMES)
    # A T5 has one rate of dropout for all.
    rate = ("dropout_rate",) if family in _T5 else ()
    hidden, heads = config.number("hidden"), config.number("heads")
    layers = config.number("layers")
    experts = config.number("experts", least=0)
    intermediate = config.number("intermediate", default=4 * hidden)
    if experts > 1:
        intermediate = config.number("expert_size", default=intermediate)
    positions = _positions(config) if family in _LEARNED else 0
    with_encoder = fields.get("is_encoder_decoder") is True
    kept, powers = _KEPT_BY_ACTIVATION.get(activation, (1, 0))
    multi_query = fields.get("multi_query") is True
    vocab = config.number("vocab", least=0 if seeing else 1)
    return Model(
        layers=config.number("decoder_layers", default=layers) if with_encoder else layers,
        hidden=hidden,
        heads=heads,
        kv_heads=config.number("kv_heads", default=1 if multi_query else heads),
        head_dim=config.number("head_dim", default=max(1, hidden // heads)),
        intermediate=intermediate,
        vocab=vocab,
        gated=_is_gated(config, family, activation, rms),
        norm="layer" if not rms else "gemma" if family.startswith("gemma") else "rms",
        norms=1 if family in _ONE_NORM else 4 if family in _FOUR_NORMS else 2,
        head_norms=family in _HEAD_NORMS,
        kept_by_act=kept,
        powers_by_act=powers,
        relu=activation == "relu",
        experts=experts if experts > 1 else 0,
        chosen=config.number("chosen", default=2) if experts > 1 else 0,
        tied=fields.get("tie_word_embeddings", True) is not False,
        positions=positions,
        dropout=config.any_above_zero(*_DROPOUT_NAMES, *rate),
        attention_dropout=config.any_above_zero(*_ATTENTION_DROPOUT_NAMES, *rate),
        encoder=config.number("encoder_layers", default=layers) if with_encoder else 0,
        head=_has_head(fields) and vocab > 0,
        capped_scores=config.any_above_zero("attn_logit_softcapping"),
        capped_words=config.any_above_zero("final_logit_softcapping"),
        layer_scales=config.any_above_zero("layerscale_value"),
        loss_in_fp32=not (with_encoder or "MaskedLM" in _architecture(fields)),
        tokens=_tokens_of_an_image(fields) if seeing and not vocab else 0,
        encoder_tokens=config.number("max_source_positions", least=0) if with_encoder else 0,
        unknown=_not_counted(fields),
    )


def _not_counted(fields: dict) -> tuple[str, ...]:
    """Return the parts of a model that the usual layers don't have."""
    there = {_part_of(key) for key, given in fields.items() if given}
    return tuple(dict.fromkeys(p for p in (*_NOT_COUNTED.values(), *_SENSES) if p in there))


def _part_of(field: str) -> str:
    """Return the part that a field of a config stands for, "" where it is none of these."""
    words = (part for part, name in _SENSES.items() if name.search(field))
    return _NOT_COUNTED.get(field) or next(words, "")


def _tokens_of_an_image(fields: dict) -> int:
    """Return how many patches an image is cut into, and one more for all; 0 if it isn't known."""
    size, patch = fields.get("image_size"), fields.get("patch_size")
    size = max(size) if isinstance(size, list) and size else size
    patch = min(patch) if isinstance(patch, list) and patch else patch
    if type(size) is not int or type(patch) is not int or not 0 < patch <= size <= 10**5:
        return 0
    return (size // patch) ** 2 + 1


def _positions(config: _Config) -> int:
    """Return how many positions a family that learns them has a table for."""
    return config.number("n_positions", least=0) or config.number(
        "max_position_embeddings", least=0
    )


def _lengths(fields: dict) -> tuple[int, int]:
    """Return the most tokens that a model can take, and up to how many its positions reach; else 0.

    Positions of a table and rotary ones reach so far, relative ones further than any field says.
    """
    if type(most := fields.get("max_target_positions")) is int and most > 0:
        return most, most  # of words, beside a sound that has a length of its own
    given = [fields.get(name) for name in ("n_positions", "max_position_embeddings")]
    named = next((n for n in given if type(n) is int and n > 0), 0)
    family = _Config(fields).word("model_type")
    if family in _TABLED_FROM_PADDING:
        padding = fields.get("pad_token_id")
        before = padding + 1 if type(padding) is int and padding >= 0 else 2
        return max(0, named - before), named
    if family in _TABLED:
        return named, named
    rotary = family.startswith(_LLAMAS) or any("rope" in key or "rotary" in key for key in fields)
    return 0, _reach(fields, named) if rotary else 0


def _reach(fields: dict, named: int) -> int:
    """Return up to which token rotary positions reach, which a factor (YaRN's, say) stretches."""
    given = [fields.get(name) for name in ("rope_scaling", "rope_parameters")]
    scalings = [scaling for scaling in given if isinstance(scaling, dict)]
    for scaling in list(scalings):  # a model may have one for each kind of layer
        scalings += [inner for inner in scaling.values() if isinstance(inner, dict)]
    reach = named
    for scaling in scalings:
        factor, original = scaling.get("factor"), scaling.get("original_max_position_embeddings")
        length = original if type(original) is int else named
        if (
            isinstance(factor, (int, float))
            and 1 < factor < MOST_STRETCHED
            and length < MOST_WEIGHTS
        ):
            reach = max(reach, int(factor * length))
    return reach


def _is_gated(config: _Config, family: str, activation: str, rms: bool) -> bool:
    """Return whether a layer multiplies two products.

    The activation's name says so, and of a T5 `feed_forward_proj` ("gated-gelu"). The other known
    families with RMS norm all are gated. An unknown one counts as gated, which takes more.
    """
    if any(word in activation for word in ("silu", "swi")):
        return True
    if "gated" in config.word("feed_forward_proj"):
        return True
    known = family.startswith(_LLAMAS) or family in formulas()["types"]
    return family not in _T5 and (rms or not known)


def _has_head(fields: dict) -> bool:
    """Return whether the model predicts words, which a config without an architecture may."""
    name = _architecture(fields)
    return not name or any(end in name for end in ("LM", "Generation", "PreTraining"))


def _architecture(fields: dict) -> str:
    """Return the name of the class that a config is for, '' if it says none."""
    architectures = fields.get("architectures")
    name = architectures[0] if isinstance(architectures, list) and architectures else ""
    return name if isinstance(name, str) else ""
