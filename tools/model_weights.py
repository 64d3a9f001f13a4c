"""Writes server/remote_gpu_trainer/fit/model_weights.json: how weights follow from a config.json.

    python tools/model_weights.py [TYPE ...]

For each type of model, transformers builds it on torch's meta device, where weights take no memory,
again and again with other values of the config's fields. A dimension that changes with a field
depends on it; its formula is a sum of products of fields, solved in fractions, and every formula is
compared with builds that took no part in solving it. A type whose formulas don't hold is left out,
with the reason. Fields that switch parts on or off are tried one by one and in pairs. Where fields
choose which layers are of another kind, such as those without experts, formulas are found for
models of one kind, and a model of both is as far between them as its layers are.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from fractions import Fraction
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "server")]

import torch
import transformers
from remote_gpu_trainer.fit import weight_formulas
from transformers.models.auto import configuration_auto, modeling_auto

import evals.fit.runs  # noqa: F401  (tells torch of torchvision's operators first)

# Fields that decide on what a batch keeps. The data file has their defaults.
OF_SHAPES = frozenset((
    "num_hidden_layers", "n_layer", "num_layers", "n_layers", "hidden_size", "n_embd", "d_model",
    "dim", "num_attention_heads", "n_head", "num_heads", "n_heads", "num_key_value_heads",
    "num_kv_heads", "head_dim", "d_kv", "intermediate_size", "n_inner", "d_ff", "ffn_dim",
    "encoder_ffn_dim", "vocab_size", "num_local_experts", "num_experts", "n_routed_experts",
    "num_experts_per_tok", "moe_top_k", "moe_intermediate_size", "hidden_activation",
    "hidden_act", "activation_function", "dense_act_fn", "resid_pdrop", "hidden_dropout_prob",
    "hidden_dropout", "attn_pdrop", "attention_probs_dropout_prob", "attention_dropout",
    "dropout_rate", "image_size", "patch_size", "is_encoder_decoder", "encoder_layers",
    "decoder_layers", "feed_forward_proj", "max_position_embeddings", "n_positions",
    "rms_norm_eps",
))  # fmt: skip

OTHER = weight_formulas.OTHER
PLACE = ROOT / "server/remote_gpu_trainer/fit/model_weights.json"
TASKS = (
    "SEQ_TO_SEQ_CAUSAL_LM", "MASKED_LM", "CAUSAL_LM", "IMAGE_CLASSIFICATION", "SPEECH_SEQ_2_SEQ",
    "CTC", "IMAGE_TEXT_TO_TEXT", "PRETRAINING", "OBJECT_DETECTION", "SEMANTIC_SEGMENTATION",
    "AUDIO_CLASSIFICATION", "VIDEO_CLASSIFICATION", "DEPTH_ESTIMATION", "UNIVERSAL_SEGMENTATION",
    "SEQUENCE_CLASSIFICATION", "TOKEN_CLASSIFICATION", "QUESTION_ANSWERING",
)  # fmt: skip
DEEP = re.compile(r"layers?$|depth$|blocks$|layers_|dense_replace$")
DIVIDES = re.compile(r"heads?$|patch|group|stride|expand")
HEADS = re.compile(r"(?<!key_value_)(?<!kv_)heads?$")
WIDTH = re.compile(r"hidden_size$|n_embd$|d_model$|dim$|embedding_size$")
BASE_DEPTH = 3
# Words that a field may hold where its type doesn't list them.
WORDS = {"feed_forward_proj": ["relu", "gated-gelu"]}
SIZES = ("attention_head_size",)  # numbers of which the library doesn't say so
ACTIVATIONS = ["relu", "gelu", "silu"]
MOST_SWITCHES = 9
SECONDS = 800  # a type
POWERS = ((0,), (0, 1), (1,), (0, -1), (0, 2), (0, -2), (0, 1, 2), (0, 1, -1))


DRAWING = (
    torch.nn.Linear,
    torch.nn.Embedding,
    torch.nn.LayerNorm,
    torch.nn.modules.conv._ConvNd,
)


@contextlib.contextmanager
def without_values():
    """Let torch's layers draw no numbers in a block: shapes alone matter, and it saves time."""
    before = [layer.reset_parameters for layer in DRAWING]
    for layer in DRAWING:
        layer.reset_parameters = lambda _: None
    try:
        yield
    finally:
        for layer, own in zip(DRAWING, before, strict=True):
            layer.reset_parameters = own


def one_kind(field: str, other: bool, layers: int) -> dict:
    """The fields that make all layers of one kind, of a type that has a field for that."""
    every = list(range(layers))
    return {
        "first_k_dense_replace": {"first_k_dense_replace": layers if other else 0},
        "mlp_only_layers": {"mlp_only_layers": every if other else [], "decoder_sparse_step": 1},
        "moe_layer_interval": {
            "moe_layer_start_index": layers if other else 0,
            "moe_layer_end_index": layers - 1,
            "moe_layer_interval": 1,
        },
        "interleave_moe_layer_step": {
            "moe_layers": [] if other else every,
            "interleave_moe_layer_step": 1,
        },
        "layer_types": {
            "layer_types": [("linear" if not other else "full") + "_attention"] * layers
        },
    }[field]


def some_kinds(field: str, layers: int, dice: random.Random) -> dict:
    """The same fields, with other values that mix both kinds of layers."""
    some = sorted(dice.sample(range(layers), dice.randint(0, layers)))
    step = dice.choice((1, 2, 3))
    kinds = ["full_attention" if layer in some else "linear_attention" for layer in range(layers)]
    return {
        "first_k_dense_replace": {"first_k_dense_replace": dice.randint(0, layers)},
        "mlp_only_layers": {"mlp_only_layers": some, "decoder_sparse_step": step},
        "moe_layer_interval": {
            "moe_layer_start_index": dice.randint(0, layers),
            "moe_layer_end_index": dice.choice((-1, layers - 2)),
            "moe_layer_interval": step,
        },
        "interleave_moe_layer_step": {
            "moe_layers": dice.choice((None, some)),
            "interleave_moe_layer_step": step,
        },
        "layer_types": {"layer_types": kinds},
    }[field]


TWO_KINDS = ("first_k_dense_replace", "mlp_only_layers", "moe_layer_interval",
             "interleave_moe_layer_step", "layer_types")  # fmt: skip


class NotCovered(Exception):
    """The formulas of a type can't be found; `path` is the field that follows none."""

    def __init__(self, text: str, path: str = ""):
        super().__init__(text)
        self.path = path


@contextlib.contextmanager
def at_most(seconds: int):
    """Raise TimeoutError in a block that takes longer."""

    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Library:
    """A type of model in transformers, built on the meta device."""

    def __init__(self, kind: str):
        self.kind = kind
        self.config_class = transformers.CONFIG_MAPPING[kind]
        self.default = self.config_class()
        self.plain = self.default.to_dict()
        self.architectures = architectures_of(kind)
        self.built: dict = {}
        model = next(iter(self.architectures.values()))
        source = Path(sys.modules[model.__module__].__file__).read_text("utf-8")
        self.asked = set(re.findall(r"getattr\((?:self\.)?config, [\"'](\w+)[\"']", source))
        self.began = time.monotonic()
        self.two_kinds = self._two_kinds()

    def _two_kinds(self) -> str:
        """The field that says which layers are of another kind, "" if all have the same weights."""
        for field in TWO_KINDS:
            if field in self.plain and "num_hidden_layers" in self.plain:
                self.two_kinds = field
                kinds = [self.weights({"num_hidden_layers": 2, OTHER: kind}) for kind in (0, 1)]
                if all(kinds) and kinds[0] != kinds[1]:
                    return field
        return ""

    @property
    def fields_of_kinds(self) -> dict:
        """The fields that say which layers are of another kind, as a config leaves them out."""
        fields = one_kind(self.two_kinds, False, 1) if self.two_kinds else {}
        return {name: self.config_class.__dataclass_fields__[name].default for name in fields}

    def config(self, point: dict):
        """The config of a point, which maps a field's path to its value."""
        words: dict = {}
        if OTHER in point:
            layers = point.get("num_hidden_layers", self.plain["num_hidden_layers"])
            words = one_kind(self.two_kinds, point[OTHER], layers)
        for path, value in point.items():
            if path in ("architectures", OTHER) or (value is None and path in self.asked):
                continue
            place, parts = words, path.split(".")
            before = self.plain
            for part in parts[:-1]:
                before = before[int(part)] if part.isdigit() else before[part]
                if isinstance(before, list):
                    place = place.setdefault(part, list(before))
                else:
                    place = place.setdefault(part, dict(before))
            place[int(parts[-1]) if parts[-1].isdigit() else parts[-1]] = value
        return self.config_class(**words)

    def weights(self, point: dict) -> dict | None:
        """{name: (shape, role)} of a point's model, None if the library refuses it."""
        key = tuple(sorted((k, str(v)) for k, v in point.items()))
        if key not in self.built:
            if time.monotonic() - self.began > SECONDS:
                raise NotCovered("takes too long to build")
            try:
                with at_most(20):
                    self.built[key] = self._build(point)
            except NotCovered:
                raise
            except Exception:
                self.built[key] = None
        return self.built[key]

    def _build(self, point: dict) -> dict:
        architecture = point.get("architectures", next(iter(self.architectures)))
        with torch.device("meta"), without_values():
            model = self.architectures[architecture]._from_config(self.config(point))
        return weights_of(model, ranked=bool(self.two_kinds))


def architectures_of(kind: str) -> dict:
    """{name: class}: the usual task of a type first, then the model without a head, and others."""
    names = [getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES").get(kind) for task in TASKS]
    names.append(modeling_auto.MODEL_MAPPING_NAMES.get(kind))
    chosen = [name[0] if isinstance(name, (list, tuple)) else name for name in names if name]
    return {name: getattr(transformers, name) for name in dict.fromkeys(chosen)}


def weights_of(model, ranked: bool = False) -> dict:
    """{name: (shape, role)} of a model's parameters, each once, without the head model's prefix.

    A role ends in "*N" where peft gives the weight N times LoRA's rank, if that isn't once for a
    matrix and never for anything else. That is asked of peft for a model with experts, and of one
    that is `ranked`.
    """
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    prefix = f"{model.base_model_prefix}." if getattr(model, "base_model_prefix", "") else ""
    roles = {}
    for module in model.modules():
        own = getattr(module, "weight", None)
        if own is None:
            continue
        if isinstance(module, torch.nn.Embedding):
            roles[id(own)] = "table"
        elif module is head:
            roles.setdefault(id(own), "head")
        elif own.dim() == 2 and type(module).__name__.endswith(("Linear", "Conv1D")):
            roles.setdefault(id(own), "matrix")
    found = {}
    for name, weight in model.named_parameters():
        role = roles.get(id(weight), "rest")
        if role == "rest" and weight.dim() == 3 and "expert" in name:
            role = "experts"
        short = name[len(prefix) :] if prefix and name.startswith(prefix) else name
        found[short] = (tuple(weight.shape), role, id(weight))
    roles_alone = {name: (shape, role) for name, (shape, role, _) in found.items()}
    if not ranked and not any(role == "experts" for _, role in roles_alone.values()):
        return roles_alone
    ranks = lora_ranks(model)
    return {
        name: (shape, with_rank(role, ranks.get(own, 0)))
        for name, (shape, role, own) in found.items()
    }


def with_rank(role: str, rank: int) -> str:
    """A role, and how often LoRA's rank is there where that isn't what the role says."""
    return role if rank == weight_formulas.RANKS.get(role, 0) else f"{role}*{rank}"


def lora_ranks(model) -> dict[int, int]:
    """{id of a weight: its rank} of the adapters that peft makes of "all-linear" at rank 1."""
    import peft  # asks for parts of transformers that ask for torchvision
    from peft.tuners.lora.layer import LoraLayer, ParamWrapper

    weights = list(model.parameters())  # peft keeps them, and nothing else may take their ids
    with torch.device("meta"), without_values():
        adapted = peft.get_peft_model(model, peft.LoraConfig(r=1, target_modules="all-linear"))
    ranks = {}
    for layer in adapted.modules():
        if isinstance(layer, LoraLayer):
            alone = isinstance(layer, ParamWrapper)  # a parameter, not a module's weight
            weight = layer.get_param() if alone else layer.get_base_layer().weight
            ranks[id(weight)] = layer.r["default"]
    if not set(ranks) <= {id(weight) for weight in weights}:
        raise NotCovered("peft adapts what is no weight of the model")
    return ranks


def leaves(library: Library) -> tuple[dict, dict, list]:
    """The numbers, the switches {path: other values} and the other fields of a default config."""
    numbers, switches, others = {}, {}, []

    def look(config_class, values: dict, prefix: str):
        types = typing_of(config_class)
        for name, value in values.items():
            path = prefix + name
            if name in weight_formulas.OF_EVERY_CONFIG:
                continue
            if isinstance(value, bool):
                switches[path] = [not value]
            elif isinstance(value, (int, float)):
                numbers[path] = value
            elif isinstance(value, str):
                switches[path] = words_of(name, value, types.get(name, ""))
            elif value is None:
                if re.search(r"\b(int|float)\b", types.get(name, "")) or name in SIZES:
                    numbers[path] = None
                elif re.search(r"\bbool\b", types.get(name, "")):
                    switches[path] = [True, False]
                else:
                    others.append(path)
            elif is_numbers(value):
                numbers.update({f"{path}.{i}": number for i, number in enumerate(value)})
            elif isinstance(value, dict) and "model_type" in value:
                inner = getattr(library.default, path.split(".")[0], None)
                if "." in path or inner is None:
                    others.append(path)
                else:
                    look(type(inner), value, f"{path}.")
            else:
                others.append(path)

    look(library.config_class, library.plain, "")
    known = {path.split(".")[0] for path in [*numbers, *switches, *others]}
    for name in sorted(library.asked - known - weight_formulas.OF_EVERY_CONFIG):
        numbers[name] = None  # the model asks for it, and the config's class has no such field
    return numbers, switches, others


def is_numbers(value) -> bool:
    """Whether a value is a list of numbers."""
    return (
        isinstance(value, (list, tuple))
        and 0 < len(value) < 9
        and all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in value)
    )


def typing_of(config_class) -> dict[str, str]:
    """{field: its type as text} of a config's class."""
    fields = getattr(config_class, "__dataclass_fields__", {})
    return {name: str(field.type) for name, field in fields.items()}


def words_of(name: str, value: str, annotation: str) -> list[str]:
    """The other words that a field of text may hold."""
    listed = re.search(r"Literal\[([^\]]*)\]", annotation)
    words = re.findall(r"'([^']*)'", listed[1]) if listed else []
    words = words or WORDS.get(name, ACTIVATIONS if "act" in name else [])
    return [word for word in words if word != value]


def values_near(value, path: str) -> list:
    """Other values of a number to try, those that most models take first."""
    if value is None:
        return [64, 128, 256]
    if isinstance(value, float):
        return [value * 2, value / 2, value * 4, value * 3]
    if DEEP.search(path.split(".")[-1]) and value <= 16:
        return [value + 1, value + 2, value * 2, value - 1]
    if value == 0:
        return [1, 2, 3, 4]
    halves = [value // by if value % by == 0 else 0 for by in (2, 4)]
    near = [value * 2, halves[0], value * 4, halves[1], value * 8]
    near += [value * 3, value + 1, value + 2, value - 1]
    return [n for n in dict.fromkeys(near) if n > 0 and n != value]


class Finder:
    """Finds the formulas of one type."""

    def __init__(self, library: Library, still: dict):
        """Find the formulas of a type whose fields in `still` keep their default value."""
        kind, self.library, self.still = library.kind, library, still
        self.random = random.Random(kind)
        self.formulas: dict[tuple, str] = {}
        self.masks: dict[str, int] = {}

    # Which fields matter.

    def start(self):
        """Find the point to start from, with few layers, and the fields that matter."""
        library = self.library
        self.numbers, self.switches, self.others = leaves(library)
        for field in library.fields_of_kinds:
            self.numbers.pop(field, None)
        self.others = [path for path in self.others if path not in library.fields_of_kinds]
        base = self._few_layers()
        self.shallow = base
        self.values: dict[str, list] = {}
        self.frozen: dict[str, object] = dict(self.still)
        self.base = dict(base)
        for path in self.numbers:
            if path not in self.still:
                self._try_number(path, self.base, None)
        explicit = {**base, **{path: self.value(path, base) for path in self.values}}
        same = {
            k: v for k, v in explicit.items() if self.numbers.get(k, 0) is not None or k in base
        }
        if library.weights(same) != library.weights(base):
            raise NotCovered("a field's derived value can't be given")
        self.base = explicit
        if not library.weights(explicit):
            raise NotCovered("the fields that matter can't all be given")
        self._find_switches()
        known = -1
        while known < len(self.values):  # one that is found may be what another matters with
            known = len(self.values)
            for path, others in list(self.relevant.items()):
                for other in others:
                    at = {**self.base, path: other}
                    for number in self.numbers:
                        if number not in self.values and number not in self.frozen:
                            self._try_number(number, at, path)
            for path in self.values:
                self.base.setdefault(path, self.value(path, self.base))
        self._null_switches()

    def _few_layers(self) -> dict:
        """Values that make a model quick to build: few layers, and images that patches divide."""
        library, base = self.library, {OTHER: False} if self.library.two_kinds else {}
        dense = [path for path in self.numbers if path.endswith("dense_replace")]
        for path, value in self.numbers.items():
            # The first layers of some models are dense; then one more than that is needed.
            few = 1 if path in dense else BASE_DEPTH + bool(dense)
            if isinstance(value, int) and value > few and DEEP.search(path.split(".")[-1]):
                trial = {**base, path: few}
                if library.weights(trial):
                    base = trial
        for path in self.numbers:
            patch = read(library.plain, path.replace("image_size", "patch_size"))
            if path.endswith("image_size") and isinstance(patch, int):
                trial = {**base, path: 192 * patch}  # a multiple of many patches
                base = trial if library.weights(trial) else base
        if not library.weights(base):
            raise NotCovered("the library builds no default model")
        return base

    def value(self, path: str, point: dict):
        """The value of a number in the config of a point; one that it may take for none."""
        if path == "num_labels":
            return point.get(path, 2)
        value = read(self.library.config(point).to_dict(), path)
        return value if value is not None else self.values[path][0]

    def _try_number(self, path: str, at: dict, under: str | None):
        """Note the values that a number may take, if one of them changes the weights."""
        if path == under:
            return
        before, builds, changes = self.library.weights(at), [], False
        value = at.get(path, read(self.library.config(at).to_dict(), path))
        tried_at = values_near(value, path)
        for tried, other in enumerate(tried_at):
            # The first may be what follows where a config says nothing.
            if tried >= 1 + (value is None) and builds and not changes:
                break
            if len(builds) >= 3 and tried > 4:
                break  # a quotient that is rounded down is seen apart
            found = self.library.weights({**at, path: other})
            if found:
                # One that changes the weights comes first: it isn't what follows without it.
                builds.insert(0 if found != before and not changes else len(builds), other)
                changes = changes or found != before
        if changes:
            self.values[path] = builds if value is None else sorted(builds, key=tried_at.index)
        elif not builds and under is None:
            self.frozen[path] = self.numbers[path]

    def _find_switches(self):
        self.relevant: dict[str, list] = {}
        before = self.library.weights(self.base)
        self.fixed: dict[str, object] = {}
        names = list(self.library.architectures)
        if len(names) > 1:
            able = [n for n in names[1:] if self.library.weights({**self.base, "architectures": n})]
            self.relevant["architectures"] = able
        for path, others in self.switches.items():
            builds = [o for o in others if self.library.weights({**self.base, path: o})]
            changing = [o for o in builds if self.library.weights({**self.base, path: o}) != before]
            if changing:
                self.relevant[path] = changing
                if len(builds) < len(others):
                    self.fixed[path] = None  # only the values that were tried
            elif not builds and not self._is_name(path):
                self.fixed[path] = read(self.library.plain, path)
        labels = [*names]
        for name in labels:
            at = {**self.base, "architectures": name}
            two = self.library.weights(at)
            if two and self.library.weights({**at, "num_labels": 5}) not in (two, None):
                self.values["num_labels"] = [3, 4, 5, 7]
        if self.library.two_kinds:
            self.relevant[OTHER] = [True]
        # Lists of words, such as what each layer is.
        self.sensitive = []
        for path in self.others:
            value = read(self.library.plain, path)
            words = isinstance(value, (list, tuple)) and all(isinstance(w, str) for w in value)
            if not words or not value:
                continue
            now = read(self.library.config(self.base).to_dict(), path) or value
            for word in sorted(set(value)):
                found = self.library.weights({**self.base, path: [word] * len(now)})
                if found != before:
                    self.sensitive.append(path)
                    break

    def _is_name(self, path: str) -> bool:
        return path.split(".")[-1] in ("dtype", "torch_dtype")

    def _null_switches(self):
        """A number that may be none changes what there is: none is a switch's other value."""
        kinds = [{}, {OTHER: True}] if self.library.two_kinds else [{}]
        for path, kind in itertools.product(list(self.values), kinds):
            if path == "num_labels" or re.search(r"\.\d+$", path):
                continue
            at = {**self.base, **kind}
            before, found = self.library.weights(at), self.library.weights({**at, path: None})
            resolved = None
            if found:
                with contextlib.suppress(Exception):
                    point = {k: v for k, v in at.items() if k != path}
                    resolved = read(self.library.config({**point, path: None}).to_dict(), path)
            if found and found != before and resolved is None:
                self.relevant[path] = [None]
        if sum(len(o) for p, o in self.relevant.items() if p != "architectures") > MOST_SWITCHES:
            raise NotCovered(f"too many switches: {', '.join(self.relevant)}")

    # Formulas.

    def points(self, count: int, seed: int, state: dict) -> list[dict]:
        """Random points of a state that the library takes."""
        dice, found = random.Random(f"{self.library.kind}{seed}"), []
        for _ in range(count * 8):
            point = dict(self.base)
            for path, values in self.values.items():
                if dice.random() < 0.6:
                    point[path] = dice.choice(values)
            point.update(state)
            if self.library.weights(point):
                found.append(point)
            if len(found) == count:
                break
        if len(found) < min(4, count):
            raise NotCovered("too few of the tried configs build")
        return found

    def table(self, state: dict) -> dict[str, tuple]:
        """{pattern: (role, formulas)} of a state: how often a weight is there, and its sides."""
        axis = []
        if not state:
            axis = [
                {**self.base, path: value}
                for path, values in self.values.items()
                for value in values
            ]
        points = [{**self.base, **state}, *axis, *self.points(24 if not state else 4, 1, state)]
        points = [point for point in points if self.library.weights(point)]
        self.now = state
        lines = {}
        seen = patterned([self.library.weights(point) for point in points], self.masks)
        for pattern, (role, columns) in seen.items():
            lines[pattern] = (
                role,
                tuple(
                    self.formula(column, points, pattern, place)
                    for place, column in enumerate(columns)
                ),
            )
        return lines

    def formula(self, column: tuple, points: list, pattern: str, place: int) -> str:
        """The formula of a column of values, one a point."""
        seen = [(p, n) for p, n in zip(points, column, strict=True) if n is not None]
        for known in self.formulas.values():
            if all(gives(known, point, number) for point, number in seen):
                return known
        text = self._solve(pattern, place)
        if not all(gives(text, point, number) for point, number in seen):
            raise NotCovered(f"{pattern} follows no sum of products")
        self.formulas[(pattern, place, str(self.now))] = text
        return text

    def _observe(self, point: dict, pattern: str, place: int):
        weights = self.library.weights({**point, **self.now})
        if weights is None:
            return None
        found = patterned([weights], self.masks)
        if pattern not in found:
            return None if place else 0
        return found[pattern][1][place][0]

    def _solve(self, pattern: str, place: int) -> str:
        base = {**self.base, **self.now}
        start = self._observe(base, pattern, place)
        if start is None:
            raise NotCovered(f"{pattern} is another weight with other values")
        powers, samples = {}, [(base, start)]
        for path, values in self.values.items():
            if self.now.get(path, 0) is None:
                continue
            seen = [(base[path], start)]
            for value in values:
                point = {**base, path: value}
                number = self._observe(point, pattern, place)
                if number is not None:
                    seen.append((value, number))
                    samples.append((point, number))
            if any(number != start for _, number in seen):
                powers[path] = power_of(seen)
                if powers[path] is None:
                    raise NotCovered(f"{pattern} follows {path} by no power", path)
        if len(powers) > 7:
            raise NotCovered(f"{pattern} depends on too many fields")
        together = set()
        for one, two in itertools.combinations(powers, 2):
            together |= self._pair(base, one, two, pattern, place, samples)
        for point in self.points(30, 2, self.now):
            number = self._observe(point, pattern, place)
            if number is not None:
                samples.append((point, number))
        return self._fitted(powers, together, samples, pattern)

    def _pair(self, base, one, two, pattern, place, samples) -> set:
        """{one and two} unless they act apart."""
        at = self._observe(base, pattern, place)
        for a, b in itertools.product(self.values[one][:3], self.values[two][:3]):
            number = self._observe({**base, one: a, two: b}, pattern, place)
            first = self._observe({**base, one: a}, pattern, place)
            second = self._observe({**base, two: b}, pattern, place)
            if None in (number, first, second):
                continue
            samples.append(({**base, one: a, two: b}, number))
            if number - first - second + at != 0:
                return {frozenset((one, two))}
            if first != at and second != at:
                return set()
        return {frozenset((one, two))}

    def _fitted(self, powers, together, samples, pattern) -> str:
        monomials: list[dict] = []
        paths = list(powers)
        for size in range(len(paths) + 1):
            for chosen in itertools.combinations(paths, size):
                pairs = itertools.combinations(chosen, 2)
                if all(frozenset(pair) in together for pair in pairs):
                    ways = [[p for p in powers[path] if p] for path in chosen]
                    for exponents in itertools.product(*ways):
                        monomials.append(dict(zip(chosen, exponents, strict=True)))
        if len(monomials) > 60:
            raise NotCovered(f"{pattern} depends on too many fields together")
        rows = [
            ([monomial_value(m, point) for m in monomials], Fraction(number))
            for point, number in samples
        ]
        solution = solve(rows)
        if solution is None:
            raise NotCovered(f"{pattern} follows no sum of products")
        return weight_formulas.written(
            [(c, m) for c, m in zip(solution, monomials, strict=True) if c]
        )

    # The entry.

    def entry(self) -> dict:
        """The entry of the data file. Raises NotCovered."""
        self.start()
        first = self.table({})
        states = [{path: o} for path, others in self.relevant.items() for o in others]
        tables = {"": ({}, first)}
        for state in states:
            tables[key_of(state)] = (state, self.table(state))
        for one, two in itertools.combinations(states, 2):
            state = {**one, **two}
            if len(state) == 2 and self.library.weights({**self.base, **state}):
                with contextlib.suppress(NotCovered):
                    tables[key_of(state)] = (state, self.table(state))
        entry = {
            "architectures": list(self.library.architectures),
            "numbers": self.defaults(),
            "groups": self.groups(tables),
        }
        if self.relevant:
            entry["switches"] = {
                path: self._default_of(path) for path in self.relevant if path != "architectures"
            }
        entry["only"] = {
            **{path: value for path, value in self.frozen.items()},
            **{path: value for path, value in self.fixed.items() if path not in self.relevant},
        }
        entry["unread"] = sorted(self.sensitive)
        entry["other_layers"] = self.library.fields_of_kinds
        entry["ignored"] = sorted(
            path
            for path in {p.split(".")[0] if p[-1].isdigit() else p for p in
                         [*self.numbers, *self.switches, *self.others]}
            if path not in self.relevant and path not in entry["only"]
            and path not in self.sensitive
            and not any(p == path or p.startswith(path + ".") for p in entry["numbers"])
        )  # fmt: skip
        renamed = getattr(self.library.config_class, "attribute_map", {})
        entry["aliases"] = {k: v for k, v in renamed.items() if k != v}
        entry["lengths"] = {
            head: len(read(self.library.plain, head))
            for path in self.values
            for head, _, last in [path.rpartition(".")]
            if last.isdigit()
        }
        entry["divisible"] = divisible(self.library, entry)
        entry["defaults"] = {
            name: self.library.plain[name]
            for name in sorted(OF_SHAPES & set(self.library.plain))
            if self.library.plain[name] is not None and name not in entry["numbers"]
        }
        guard(self.library, entry)
        entry = {k: value for k, value in entry.items() if value or k in ("groups", "numbers")}
        self.prove(entry)
        return entry

    def _default_of(self, path: str):
        """A switch's value where a config leaves it out."""
        if path == OTHER:
            return False
        return read(self.library.plain, path)

    def defaults(self) -> dict:
        """{number: its default, or the formula that it follows}."""
        found = {}
        for path in self.values:
            if path == "num_labels":
                found[path] = 2
                continue
            plain = read(self.library.plain, path)
            follows = {}
            rest = {k: v for k, v in self.base.items() if k != path and k in self.values}
            start = self._derived(rest, path)
            if start is None or "." in path:
                found[path] = plain
                continue
            for other in rest:
                seen = [(rest[other], start)]
                for value in self.values[other]:
                    number = self._derived({**rest, other: value}, path)
                    if number is not None:
                        seen.append((value, number))
                if any(number != start for _, number in seen):
                    follows[other] = seen
            found[path] = self._derivation(path, rest, follows) if follows else plain
        return found

    def _derived(self, point: dict, path: str):
        try:
            return read(self.library.config(point).to_dict(), path)
        except Exception:
            return None

    def _derivation(self, path: str, rest: dict, follows: dict):
        samples = [({**rest, o: v}, n) for o, seen in follows.items() for v, n in seen]
        for _ in range(40):
            point = {**rest, **{o: self.random.choice([v for v, _ in follows[o]]) for o in follows}}
            number = self._derived(point, path)
            if number is not None:
                samples.append((point, number))
        powers = {other: power_of(seen) for other, seen in follows.items()}
        if None in powers.values():
            return "?"
        pairs = {frozenset(pair) for pair in itertools.combinations(powers, 2)}
        try:
            return self._fitted(powers, pairs, samples, path)
        except NotCovered:
            return "?"

    def groups(self, tables: dict) -> list:
        """Lines by the switches that they depend on."""
        patterns = sorted({pattern for _, table in tables.values() for pattern in table})
        by_fields: dict[tuple, list] = defaultdict(list)
        for pattern in patterns:
            matters = self.matter(pattern, tables)
            by_fields[tuple(sorted(matters))].append(pattern)
        groups = []
        for fields, members in sorted(by_fields.items()):
            cases = {}
            for state, table in tables.values():
                if set(state) <= set(fields):
                    case = [self.case_value(path, {**self.base, **state}) for path in fields]
                    lines = Counter(table[p] for p in members if p in table)
                    cases[json.dumps(case)] = sorted(
                        [times, role, *formulas] for (role, formulas), times in lines.items()
                    )
            groups.append({"by": list(fields), "cases": cases} if fields else {"cases": cases})
        return groups

    def matter(self, pattern: str, tables: dict) -> set[str]:
        """The switches that a weight depends on: with them alone, every table is as it is."""
        matters = {
            path
            for state, table in tables.values()
            if len(state) == 1 and table.get(pattern) != tables[""][1].get(pattern)
            for path in state
        }
        for state, table in tables.values():
            part = key_of({path: value for path, value in state.items() if path in matters})
            if part not in tables or table.get(pattern) != tables[part][1].get(pattern):
                matters |= set(state)
        return matters

    def case_value(self, path: str, point: dict):
        """A switch's value as a case names it; a number is only there or not."""
        if path == "architectures":
            return point.get(path, next(iter(self.library.architectures)))
        if path in self.values:
            return None if point[path] is None else "number"
        return point[path] if path in point else read(self.library.plain, path)

    def prove(self, entry: dict):
        """Compare counts with the library's: the default config, and random ones."""
        library = self.library
        dice, compared = random.Random("proof" + library.kind), 0
        if counted_by(entry, library, {}) is None:
            weight_formulas.count(entry, config_json(library, {}))
        trials: list[dict] = [{}, self.shallow]
        states = [{path: o} for path, others in self.relevant.items() for o in others]
        trials += [{**self.shallow, **a, **b} for a, b in itertools.combinations(states, 2)]
        for _ in range(24):
            point = {}
            for path, values in self.values.items():
                if dice.random() < 0.5:
                    point[path] = dice.choice(values)
            for path, others in self.relevant.items():
                if dice.random() < 0.25:
                    point[path] = dice.choice(others)
            point = {**self.shallow, **point}
            if library.two_kinds and dice.random() < 0.7:
                layers = point.get("num_hidden_layers", library.plain["num_hidden_layers"])
                del point[OTHER]
                point |= some_kinds(library.two_kinds, layers, dice)
            trials.append(point)
        for point in trials:
            built = library.weights(point)
            if not built:
                continue
            counted = counted_by(entry, library, point)
            if counted is None:
                continue
            compared += 1
            if counted != total(built):
                raise NotCovered(f"counts {counted}, the library {total(built)}, with {point}")
        if compared < 4:
            raise NotCovered(f"only {compared} configs could be compared")


def guard(library: Library, entry: dict):
    """Allow only the default of a list or an empty field on which weights depend all the same."""
    shallow = {
        p: 4 for p in entry["numbers"] if DEEP.search(p) and (read(library.plain, p) or 0) > 4
    }
    shallow = shallow if library.weights(shallow) else {}
    before = library.weights(shallow)
    for path in entry["ignored"]:
        default = read(library.plain, path)
        if isinstance(default, (bool, int, float, str, dict)):
            continue
        tried: list = [[0], [0, 1], [1] * 4, ["one"], ["one", "two"], *((1, 2, 64) * (not default))]
        if is_numbers(default):
            tried += [[number + 1 for number in default], [number * 2 for number in default]]
        found = [library.weights({**shallow, path: value}) for value in tried]
        if any(weights not in (None, before) for weights in found):
            entry["only"][path] = default
    entry["ignored"] = [path for path in entry["ignored"] if path not in entry["only"]]


def counted_by(entry: dict, library: Library, point: dict) -> int | None:
    """The weights by an entry, None where it doesn't know them."""
    try:
        return weight_formulas.count(entry, config_json(library, point)).total
    except weight_formulas.Unknown:
        return None


def divisible(library: Library, entry: dict) -> dict[str, list[str]]:
    """{number: what must divide it}, where the library rounds a quotient down."""
    numbers, _, _ = leaves(library)
    whole = {p: n for p, n in numbers.items() if isinstance(n, int) and n > 1 and p != "num_labels"}
    shallow = {p: 2 for p, n in whole.items() if n > 2 and DEEP.search(p.split(".")[-1])}
    shallow = shallow if library.weights(shallow) else {}
    flips = [{p: not v} for p, v in entry.get("switches", {}).items() if isinstance(v, bool)]
    nulls = [{p: 64} for p, v in entry["numbers"].items() if v is None]
    wrong = set()
    for path, number in whole.items():
        if path in shallow:
            continue
        for state, other in itertools.product([{}, *flips, *nulls], (number + 1, number * 3)):
            point = {**shallow, **state, path: other}
            built = library.weights(point)
            if built and counted_by(entry, library, point) not in (None, total(built)):
                wrong.add(path)
                break
    if not wrong:
        return {}
    parts = {p for p in wrong if DIVIDES.search(p)} or {p for p in whole if HEADS.search(p)}
    wholes = {p for p in wrong if p not in parts} or {p for p in whole if WIDTH.search(p)}
    found = {
        path: [
            part
            for part in sorted(parts)
            if whole[path] % whole[part] == 0 and path.rpartition(".")[0] == part.rpartition(".")[0]
        ]
        for path in sorted(wholes)
    }
    found = {path: others for path, others in found.items() if others}
    if not found:
        raise NotCovered(f"rounds what follows from {', '.join(sorted(wrong))}")
    return found


def config_json(library: Library, point: dict) -> dict:
    """A point's config as transformers writes it to config.json."""
    config = library.config(point)
    config.architectures = [point.get("architectures", next(iter(library.architectures)))]
    return json.loads(config.to_json_string())


def read(values, path: str):
    """The value at a path such as `text_config.hidden_size` or `depths.0`, None without one."""
    for part in path.split("."):
        if isinstance(values, dict):
            values = values.get(part)
        elif isinstance(values, (list, tuple)) and part.isdigit() and int(part) < len(values):
            values = values[int(part)]
        else:
            return None
    return values


def total(weights: dict) -> int:
    """The number of all weights of a built model."""
    return sum(size(shape) for shape, _ in weights.values())


def gives(formula: str, point: dict, number: int) -> bool:
    """Whether a formula gives a number."""
    try:
        return weight_formulas.value(formula, point) == number
    except weight_formulas.Unknown:
        return False


def size(shape) -> int:
    """The product of a shape's sides."""
    product = 1
    for side in shape:
        product *= side
    return product


def key_of(state: dict) -> str:
    """A state as a key."""
    return json.dumps(state, sort_keys=True) if state else ""


def patterned(models: list[dict], masks: dict[str, int]) -> dict[str, tuple]:
    """{pattern: (role, columns)} of the same weights in several models.

    A pattern has `*` for the numbers of layers. The first column says how often it is there, the
    others are its sides, each with a value a model. Numbers stay where what they count differs;
    `masks` remembers how many do.
    """
    by_digits: dict[str, list] = defaultdict(list)
    for at, model in enumerate(models):
        for name, (shape, role) in model.items():
            by_digits[re.sub(r"(?<![^.])\d+(?![^.])", "*", name)].append((at, name, shape, role))
    found = {}
    for digits, members in by_digits.items():
        lines: dict[str, list] = {}
        for kept in range(masks.get(digits, 0), digits.count("*") + 1):
            masks[digits], lines = kept, defaultdict(list)
            for at, name, shape, role in members:
                lines[starred(name, kept)].append((at, shape, role))
            if all(uniform(line) for line in lines.values()):
                break
        for pattern, line in lines.items():
            found[pattern] = (line[0][2], columns_of(line, len(models)))
    return found


def starred(name: str, kept: int) -> str:
    """A name with `*` for its numbers but the first `kept`."""
    seen = itertools.count()
    return re.sub(r"(?<![^.])\d+(?![^.])", lambda m: m[0] if next(seen) < kept else "*", name)


def uniform(line: list) -> bool:
    """Whether a weight has one shape in each model, and as many sides in all."""
    shapes: dict = {}
    for at, shape, _ in line:
        if shapes.setdefault(at, shape) != shape:
            return False
    return len({len(shape) for shape in shapes.values()}) == 1


def columns_of(line: list, models: int) -> tuple:
    """How often a weight is in each model, and its sides there; sides of none are None."""
    counts, shapes = [0] * models, {}
    for at, shape, _ in line:
        counts[at] += 1
        shapes[at] = shape
    sides = len(line[0][1])
    columns = [tuple(counts)]
    for side in range(sides):
        columns.append(tuple(shapes[at][side] if at in shapes else None for at in range(models)))
    return tuple(columns)


def power_of(seen: list) -> tuple | None:
    """The powers of a field whose sum gives the numbers seen, with one more than they need."""
    seen = list(dict.fromkeys(seen))
    for powers in POWERS:
        if len(seen) <= len(powers):
            continue
        rows = [([Fraction(x) ** p for p in powers if x or p >= 0], Fraction(y)) for x, y in seen]
        if any(len(row) != len(powers) for row, _ in rows):
            continue
        if solve(rows) is not None:
            return (0, *[p for p in powers if p])
    return None


def monomial_value(monomial: dict, point: dict) -> Fraction:
    """The value of a product of powers."""
    product = Fraction(1)
    for path, power in monomial.items():
        product *= Fraction(point[path]) ** power
    return product


def solve(rows: list) -> list | None:
    """The coefficients that fulfil all equations, 0 where one is free; None without any."""
    width = len(rows[0][0])
    matrix = [[*row, number] for row, number in rows]
    pivots, top = [], 0
    for column in range(width):
        pivot = next((r for r in range(top, len(matrix)) if matrix[r][column]), None)
        if pivot is None:
            continue
        matrix[top], matrix[pivot] = matrix[pivot], matrix[top]
        lead = matrix[top][column]
        matrix[top] = [value / lead for value in matrix[top]]
        for r in range(len(matrix)):
            if r != top and matrix[r][column]:
                factor = matrix[r][column]
                matrix[r] = [a - factor * b for a, b in zip(matrix[r], matrix[top], strict=True)]
        pivots.append(column)
        top += 1
    if any(row[-1] for row in matrix[top:]):
        return None
    solution = [Fraction(0)] * width
    for r, column in enumerate(pivots):
        solution[column] = matrix[r][-1]
    return solution


def kinds() -> list[str]:
    """The types that transformers builds a model of."""
    return sorted(
        kind for kind in modeling_auto.MODEL_MAPPING_NAMES
        if kind in configuration_auto.CONFIG_MAPPING_NAMES
    )  # fmt: skip


def found(kind: str) -> tuple[dict | None, str]:
    """The entry of a type, and the reason where there is none."""
    try:
        library, still = Library(kind), {}
        while True:
            try:
                return Finder(library, still).entry(), ""
            except NotCovered as error:
                if not error.path or error.path in still or len(still) > 5:
                    raise
                still[error.path] = read(library.plain, error.path)
    except NotCovered as error:
        return None, str(error)
    except Exception as error:  # the library fails in many ways
        return None, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def keep(kind: str, entry: dict | None, why: str):
    """Put a type into the data file, beside other processes that do the same."""
    with (Path(tempfile.gettempdir()) / f"{PLACE.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = json.loads(PLACE.read_text()) if PLACE.exists() else {"types": {}, "left_out": {}}
        entries, left_out = before["types"], before["left_out"]
        entries.pop(kind, None)
        left_out.pop(kind, None)
        if entry:
            entries[kind] = entry
        else:
            left_out[kind] = why
        write(entries, left_out)


def write(entries: dict, left_out: dict):
    """Write the data file, a line a type."""
    lines = [f" {json.dumps(kind)}: {json.dumps(entry)}" for kind, entry in sorted(entries.items())]
    out = [f"  {json.dumps(k)}: {json.dumps(v[:160])}" for k, v in sorted(left_out.items())]
    PLACE.write_text(
        '{"transformers": ' + json.dumps(transformers.__version__)
        + ', "peft": ' + json.dumps(metadata.version("peft")) + ',\n"types": {\n'
        + ",\n".join(lines) + '\n},\n"left_out": {\n' + ",\n".join(out) + "\n}}\n",
        encoding="utf-8",
    )  # fmt: skip


def main():
    """Find the formulas of the named types, or of all, and write them."""
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    for kind in sys.argv[1:] or kinds():
        began = time.monotonic()
        entry, why = found(kind)
        keep(kind, entry, why)
        print(kind, f"{time.monotonic() - began:.1f} s", why or "found", flush=True)


if __name__ == "__main__":
    main()
