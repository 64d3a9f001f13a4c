"""Count the weights of a model from its config.json, by formulas taken from transformers.

`tools/model_weights.py` makes the formulas. Each side of each weight is a sum of products of the
config's fields, and fields that switch parts on and off choose between lists of weights. What a
formula wasn't made for is said, not guessed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..text.masking import shown

# Fields that any config may have and that no weight depends on.
OF_EVERY_CONFIG = frozenset((
    "transformers_version", "architectures", "output_hidden_states", "return_dict", "dtype",
    "torch_dtype", "chunk_size_feed_forward", "is_encoder_decoder", "id2label", "label2id",
    "problem_type", "num_labels", "_name_or_path", "model_type", "output_attentions", "use_cache",
    "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "cls_token_id",
    "decoder_start_token_id", "initializer_range", "gradient_checkpointing",
    "task_specific_params", "finetuning_task", "rope_scaling", "rope_theta", "rope_parameters",
    "attn_implementation", "_attn_implementation", "_attn_implementation_autoset", "torchscript",
    "use_bfloat16", "pruned_heads", "prefix", "tokenizer_class", "quantization_config",
    "generation_config", "max_length", "min_length", "do_sample", "early_stopping", "num_beams",
    "num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p", "typical_p",
    "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "output_scores",
    "return_dict_in_generate", "forced_bos_token_id", "forced_eos_token_id",
    "remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens",
    "begin_suppress_tokens", "tf_legacy_loss", "attention_dropout", "hidden_dropout_prob",
    "attention_probs_dropout_prob", "dropout", "rms_norm_eps", "layer_norm_eps",
    "layer_norm_epsilon", "unsloth_version", "unsloth_fixed", "out_features", "out_indices",
    "stage_names",
))  # fmt: skip

MOST = 10**9  # that a field may say
MOST_LAYERS = 10**4  # that are looked at one by one
# A switch that stands in no config: whether all layers are of the other of a type's two kinds.
OTHER = "(layers of the other kind)"
# Types whose config is made to say in transformers 5 that head and table are one. Loading a
# checkpoint that has both leaves them apart, and false in its own config tells that it has.
HEAD_OF_ITS_OWN = ("t5", "mt5", "umt5", "longt5")
RANKS = {"matrix": 1}  # how often LoRA's rank is there for a role; another number follows "*"


class Unknown(Exception):
    """The formulas don't cover a config. The text says which part of it."""


@dataclass(frozen=True)
class Weights:
    """The weights of a model.

    `tables` are embeddings, `head` the matrix behind the layers where it is no table too,
    `matrices` and `experts` those that LoRA and quantization take, `rest` norms, biases and
    convolutions. `sides` is what LoRA's rank multiplies: both sides of all that peft's "all-linear"
    adapts. That is every matrix; of experts it depends on the type, and `experts_adapted` says it.
    `expert_sides` are those of `sides` that are experts'.
    `without_experts` is the number of layers that have none in a model with experts.
    `unread` names fields that the library's own config doesn't know.
    """

    tables: int = 0
    head: int = 0
    matrices: int = 0
    experts: int = 0
    rest: int = 0
    sides: int = 0
    experts_adapted: bool = False
    expert_sides: int = 0
    without_experts: int = 0
    unread: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Return the number of all weights."""
        return self.tables + self.head + self.matrices + self.experts + self.rest


@lru_cache(maxsize=1)
def formulas() -> dict[str, Any]:
    """Return the data file: {"types": {model_type: entry}, "left_out": {model_type: why}}."""
    return json.loads(Path(__file__).with_name("model_weights.json").read_text("utf-8"))


def weights_of(config: dict) -> Weights:
    """Return the weights of the model that a config.json describes. Raises Unknown."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or not kind:
        raise Unknown("the config has no model_type")
    if config.get("auto_map"):
        raise Unknown("the model brings code of its own (auto_map)")
    entry = formulas()["types"].get(kind)
    if entry is None:
        raise Unknown(f"no formulas for the type {kind[:40]!r}")
    weights = count(entry, config)
    apart = kind in HEAD_OF_ITS_OWN and config.get("tie_word_embeddings") is False
    if apart and _switches(entry, config)["architectures"].endswith("ForConditionalGeneration"):
        point = _numbers(entry, _renamed(config, entry.get("aliases", {})), {})
        weights = replace(weights, head=value("vocab_size*d_model", point))
    return weights


def completed(config: dict) -> dict:
    """Return a config with the fields that it leaves to the library's defaults. Raises Unknown."""
    entry = formulas()["types"].get(config.get("model_type"))
    if entry is None:
        raise Unknown("no formulas for the type")
    point = _numbers(entry, _renamed(config, entry.get("aliases", {})), entry.get("switches", {}))
    numbers = {path: int(n) for path, n in point.items() if n is not None and n == int(n)}
    given = {key: value for key, value in config.items() if value is not None}
    return {**entry.get("defaults", {}), **entry.get("switches", {}), **numbers, **given}


def count(entry: dict, config: dict) -> Weights:
    """Return the weights of a config by a type's entry. Raises Unknown."""
    config = _renamed(config, entry.get("aliases", {}))
    _refuse_other_values(entry, config)
    cases = _switches(entry, config)
    point = _numbers(entry, config, cases)
    weights = _counted(entry, cases, point)
    if fields := entry.get("other_layers"):
        layers = point["num_hidden_layers"]
        other = other_layers({**fields, **{k: config[k] for k in fields if k in config}}, layers)
        if other:
            all_other = _counted(entry, {**cases, OTHER: True}, point)
            weights = _mixed(weights, all_other, other, layers)
    return replace(weights, unread=_unread(entry, config))


def _mixed(usual: Weights, all_other: Weights, other: int, layers: int) -> Weights:
    """The weights of a model of which some layers are of the other kind. Raises Unknown."""
    found = {}
    for name in ("tables", "head", "matrices", "experts", "rest", "sides", "expert_sides"):
        own, theirs = getattr(usual, name), getattr(all_other, name)
        added = Fraction((theirs - own) * other, layers)
        if added.denominator != 1:
            raise Unknown(f"{other} of {layers} layers make no whole number of weights")
        found[name] = own + int(added)
    adapted = usual.experts_adapted and found["experts"] > 0
    without = other if usual.experts and not all_other.experts else 0
    return replace(usual, **found, experts_adapted=adapted, without_experts=without)


def other_layers(fields: dict, layers: int) -> int:
    """Return how many layers are of the other kind, by the fields that say it. Raises Unknown."""
    if layers > MOST_LAYERS:
        raise Unknown(f"{layers} layers, of which {', '.join(fields)} choose some")
    try:
        return sum(_is_other(fields, layer, layers) for layer in range(layers))
    except (TypeError, ValueError, LookupError, ZeroDivisionError):
        raise Unknown(f"can't read which layers {', '.join(fields)} mean") from None


def _is_other(fields: dict, layer: int, layers: int) -> bool:
    """Whether a layer is of the other kind, as the types of transformers decide it."""
    if "first_k_dense_replace" in fields:  # DeepSeek's
        return layer < fields["first_k_dense_replace"]
    if "mlp_only_layers" in fields:  # Qwen's
        alone = fields["mlp_only_layers"] or []
        return layer in alone or (layer + 1) % fields["decoder_sparse_step"] != 0
    if "moe_layer_interval" in fields:  # Ernie's
        last = fields["moe_layer_end_index"]
        within = fields["moe_layer_start_index"] <= layer <= (layers - 1 if last == -1 else last)
        return not within or (layer + 1) % fields["moe_layer_interval"] != 0
    if "interleave_moe_layer_step" in fields:  # Llama 4's
        step, sparse = fields["interleave_moe_layer_step"], fields["moe_layers"]
        return layer not in (range(step - 1, layers, step) if sparse is None else sparse)
    kinds = fields["layer_types"]  # Granite's
    if kinds is not None and len(kinds) != layers:
        raise ValueError
    return kinds is not None and kinds[layer] not in ("linear_attention", "mamba")


def _counted(entry: dict, cases: dict, point: dict) -> Weights:
    """The weights of a point with all layers of one kind. Raises Unknown."""
    sums = dict.fromkeys(("table", "head", "matrix", "experts", "rest"), 0)
    sides, expert_sides, experts_adapted = 0, 0, False
    for group in entry["groups"]:
        fields = group.get("by", [])
        case = [_case(entry, field, cases, point) for field in fields]
        lines = group["cases"].get(json.dumps(case))
        if lines is None:
            values = ", ".join(f"{f} {json.dumps(v)}" for f, v in zip(fields, case, strict=True))
            raise Unknown(f"no formula for {values}")
        for times, role, often, *shape in lines:
            copies = times * value(often, point)
            if not copies:
                continue
            product, lengths = copies, [value(side, point) for side in shape]
            for length in lengths:
                product *= length
            if copies < 0 or product < 0:
                raise Unknown("a formula gives a negative size")
            role, _, rank = role.partition("*")
            sums[role] += product
            # An expert has a pair of sides of its own.
            outer = lengths[0] if len(lengths) > 2 else 1
            ranks = int(rank) if rank else RANKS.get(role, 0)
            experts_adapted |= role == "experts" and ranks > 0
            own = ranks * copies * outer * sum(lengths[-2:])
            sides += own
            expert_sides += own if role == "experts" else 0
    return Weights(
        tables=sums["table"],
        head=sums["head"],
        matrices=sums["matrix"],
        experts=sums["experts"],
        rest=sums["rest"],
        sides=sides,
        experts_adapted=experts_adapted,
        expert_sides=expert_sides,
    )


def value(formula: str, point: dict) -> int:
    """Return what a formula such as "2*heads*head_dim + hidden/2" gives. Raises Unknown.

    A field below the line must divide one above it: the library may round such a quotient down
    before it multiplies.
    """
    total = sum((_product(term, point) for term in formula.split(" + ")), Fraction(0))
    if total.denominator != 1:
        raise Unknown(f"{formula} is no whole number")
    return int(total)


def _product(term: str, point: dict) -> Fraction:
    """The value of a product and quotient of fields and numbers."""
    above, below, constant = [], [], Fraction(1)
    for sign, factor in re.findall(r"([*/]?)([^*/]+)", term):
        number = _number(factor, point)
        if sign == "/" and not number:
            raise Unknown(f"{factor} is 0")
        if factor.lstrip("-").isdigit():
            constant = constant / number if sign == "/" else constant * number
        else:
            (below if sign == "/" else above).append(number)
    for divisor in below:
        place = next((i for i, n in enumerate(above) if (n / divisor).denominator == 1), None)
        if above and place is None:
            raise Unknown(f"{term} is no whole number")
        if place is None:
            constant /= divisor
        else:
            above[place] /= divisor
    for number in above:
        constant *= number
    return constant


def _number(factor: str, point: dict) -> Fraction:
    if re.fullmatch(r"-?\d+", factor):
        return Fraction(int(factor))
    number = point.get(factor)
    if number is None:
        raise Unknown(f"{factor} has no value")
    return Fraction(number)


def written(terms: list[tuple[Fraction, dict[str, int]]]) -> str:
    """Return the text of a sum of (coefficient, {field: power})."""
    texts = []
    for coefficient, powers in terms:
        above = [field for field, power in powers.items() for _ in range(power)]
        below = [field for field, power in powers.items() for _ in range(-power)]
        if coefficient.numerator != 1 or not above:
            above.insert(0, str(coefficient.numerator))
        if coefficient.denominator != 1:
            below.insert(0, str(coefficient.denominator))
        texts.append("*".join(above) + "".join(f"/{field}" for field in below))
    return " + ".join(texts) or "0"


def _renamed(config: dict, aliases: dict[str, str]) -> dict:
    """The config with the names that its class uses."""
    return {aliases.get(key, key): given for key, given in config.items()}


def _at(config: Any, path: str) -> tuple[bool, Any]:
    """Whether a path is there, and its value."""
    for part in path.split("."):
        if isinstance(config, dict) and part in config:
            config = config[part]
        elif isinstance(config, (list, tuple)) and part.isdigit() and int(part) < len(config):
            config = config[int(part)]
        else:
            return False, None
    return True, config


def _refuse_other_values(entry: dict, config: dict) -> None:
    """Raise Unknown for a field that formulas know with one value only, or not at all."""
    for path, only in entry.get("only", {}).items():
        there, given = _at(config, path)
        if there and given != only:
            raise Unknown(f"{path} is {_short(given)}; the formulas know {_short(only)} alone")
    for path in entry.get("unread", []):
        there, given = _at(config, path)
        if there and given is not None:
            raise Unknown(f"the formulas don't know {path}")


def _short(given: Any) -> str:
    return shown(json.dumps(given, default=str), 60)


def _switches(entry: dict, config: dict) -> dict[str, Any]:
    """The value of each switch."""
    known, named = entry["architectures"], config.get("architectures")
    name = named[0] if isinstance(named, list) and named else known[0]
    if name not in known:
        raise Unknown(f"no formulas for the architecture {_short(name)}")
    values = {"architectures": name}
    for path, default in entry.get("switches", {}).items():
        there, given = _at(config, path)
        values[path] = given if there else default
    return values


def _numbers(entry: dict, config: dict, switches: dict) -> dict[str, Any]:
    """The value of each number, those that follow from others last."""
    point: dict[str, Any] = {}
    follow: dict[str, str] = {}
    for path, default in entry["numbers"].items():
        there, given = _labels(config) if path == "num_labels" else _at(config, path)
        if there and given is None and path in switches:
            point[path] = None
        elif there and given is not None:
            point[path] = _given(path, given, default)
        elif default == "?":
            raise Unknown(f"{path} is missing, and no formula knows what follows")
        elif isinstance(default, str):
            follow[path] = default
        elif there and default is not None:
            raise Unknown(f"{path} is null, which the formulas don't know")
        else:
            point[path] = default
        _check_length(entry, config, path)
    for _ in range(len(follow) + 1):
        for path, formula in list(follow.items()):
            if not set(re.findall(r"[A-Za-z_][\w.]*", formula)) & set(follow):
                point[path] = value(formula, point)
                del follow[path]
    for path, others in entry.get("divisible", {}).items():
        for other in others:
            by = point.get(other) or _at(config, other)[1]
            if by and point.get(path) and point[path] % by:
                raise Unknown(f"{path} {point[path]} is no multiple of {other} {by}")
    if follow:
        raise Unknown(f"{', '.join(follow)} follow from each other")
    return point


def _given(path: str, given: Any, default: Any) -> int | Fraction:
    """A number that a config gives. Raises Unknown for anything else."""
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise Unknown(f"{path} is {_short(given)}, which is no number")
    negative = isinstance(default, (int, float)) and default < 0  # stands for none
    if not (-MOST if negative else 0) <= given <= MOST:
        raise Unknown(f"{path} is {_short(given)}")
    return Fraction(str(given)) if isinstance(given, float) else given


def _labels(config: dict) -> tuple[bool, Any]:
    """The number of labels of a classifier."""
    labels = config.get("id2label")
    if isinstance(labels, dict) and labels:
        return True, len(labels)
    return _at(config, "num_labels")


def _check_length(entry: dict, config: dict, path: str) -> None:
    """Raise Unknown for a list of another length than the formulas know."""
    head, _, last = path.rpartition(".")
    if not last.isdigit():
        return
    there, given = _at(config, head)
    known = entry.get("lengths", {}).get(head)
    if there and (not isinstance(given, list) or len(given) != known):
        raise Unknown(f"{head} is no list of {known} numbers")


def _case(entry: dict, field: str, switches: dict, point: dict) -> Any:
    """A switch's value as cases name it; of a number, whether there is one."""
    if field in entry["numbers"]:
        return None if point.get(field) is None else "number"
    return switches.get(field)


def _unread(entry: dict, config: dict) -> tuple[str, ...]:
    """The fields that neither formulas nor the library's config know."""
    known = set(entry.get("ignored", [])) | OF_EVERY_CONFIG | set(entry.get("switches", {}))
    known |= {path.split(".")[0] for path in entry["numbers"]} | set(entry.get("only", {}))
    known |= {path.split(".")[0] for path in known} | set(entry.get("unread", []))
    known |= set(entry.get("other_layers", {}))
    return tuple(sorted(key for key in config if key not in known and not key.startswith("_")))
