"""Reckon the memory that training takes on each GPU.

`estimate` adds up what stands in memory at four moments of a step, and returns the largest sum. All
sizes are in bytes. Not counted: buffers of communication, workspaces of libraries, fragments, and
images or sounds before they are tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..numbers.memory import CONTEXT
from .layer_memory import (
    inputs_keep,
    is_fused,
    keys_and_values_keep,
    layer_keeps,
    norm_keeps,
    scores_are_kept,
)
from .model_shape import Model
from .training_run import QUANTIZED, Run
from .weight_formulas import formulas

GIB = 2.0**30
DOES_NOT_FIT = "doesn't fit"
TIGHT = "tight"
NOT_KNOWN = "not known"  # whether it fits: nothing says the most that it may need
# Bytes of state for each trained number where the weights are fp32, and where they are bf16. 8 bit:
# two moments, with a scale for each 256 numbers.
OPTIMIZERS = {
    "adamw": (8.0, 4.0),
    "adamw-foreach": (8.0, 4.0),
    "adamw8bit": (2.03, 2.03),
    "paged-adamw": (8.0, 8.0),
    "paged-adamw8bit": (2.03, 2.03),
    "sgd": (0.0, 0.0),
    "sgd-momentum": (4.0, 2.0),
    "adafactor": (0.0, 0.0),
    "muon": (4.0, 2.0),
}
LOSS_PIECES = 8  # of a chunked loss


@dataclass(frozen=True)
class MemoryLine:
    """One line of the arithmetic: what it is, how it was reckoned, and its bytes."""

    what: str
    how: str
    size: float


@dataclass(frozen=True)
class Estimate:
    """What a run takes on each GPU, in bytes.

    `peak` is taken at the `moment`, and `lines` add up to it. `states` is weights, gradients and
    optimizer state, whatever the moment. `kept` is what a batch keeps for the backward pass.
    `least`: the peak without what the library may keep on the host.
    """

    peak: float
    moment: str
    lines: tuple[MemoryLine, ...]
    states: float
    kept: float
    least: float = 0.0


@dataclass(frozen=True)
class _Training:
    """A model and how it is trained, with what every step of the arithmetic needs.

    `trained` is how many numbers are trained. `weight_shares`, `gradient_shares` and `state_shares`
    say over how many GPUs each is divided. `master`: the optimizer holds fp32 weights beside the
    16-bit ones, as ZeRO does.
    """

    model: Model
    run: Run
    trained: int
    weight_shares: int
    gradient_shares: int
    state_shares: int
    master: bool

    @property
    def gradient_bytes(self) -> int:
        """The bytes of a gradient."""
        return 2 if self.run.all_in_16_bit or self.master else 4

    @property
    def adapter_bytes(self) -> int:
        """The bytes of a number that isn't quantized beside a quantized base or in an adapter."""
        return 2 if self.run.all_in_16_bit else 4

    @property
    def head_gradient(self) -> float:
        """The bytes of the head's gradient, 0 if it isn't trained or there is none."""
        trained = self.run.full and self.model.head
        return float(self.model.table() * self.gradient_bytes) if trained else 0.0

    @property
    def batch_text(self) -> str:
        """A batch as the arithmetic names it."""
        return f"{self.run.samples} × {self.run.sequence} tokens"


def estimate(model: Model, run: Run) -> Estimate:
    """Return what one GPU needs for this run."""
    training = _training(model, run)
    stored = [
        _weights(training),
        *_reference(training),
        *_adapters(training),
        _optimizer_state(training),
    ]
    gradients = _gradients(training)
    states = sum(line.size for line in stored) + gradients.size
    always = [*stored, *_ddp_buckets(training), *_gathered(training)]
    kept = _kept(training)
    # Batches that are accumulated find the gradients of the ones before them.
    early = [gradients] if run.accumulation > 1 else []
    forward = [*always, *early, *_copies(training), kept, *_adapted_experts(training)]
    moments = {
        "at the loss": [*forward, _loss(training)],
        "in the backward pass": [
            *forward,
            *_layer_computed_again(training),
            _working_space(training),
            *_gradient_of_adapted_experts(training),
            *([] if early else _gradient_of_the_head(training)),
        ],
        "at the end of the backward pass": [
            *always,
            gradients,
            *_second_gradient_of_the_table(training),
        ],
        "in the optimizer's step": [*always, gradients, *_optimizer_update(training)],
    }
    moment = max(moments, key=lambda name: sum(line.size for line in moments[name]))
    lines = tuple(line for line in moments[moment] if line.size)
    movable = _movable(run)
    least = max(
        sum(line.size for line in all_ if line.what not in movable) for all_ in moments.values()
    )
    if "weights" in movable and training.weight_shares == 1:  # two layers at a time come back
        least += run.product_bytes * (model.tables() + 2 * model.layer_weights())
    return Estimate(sum(line.size for line in lines), moment, lines, states, kept.size, least)


def _movable(run: Run) -> frozenset[str]:
    """Return the lines that a library may keep on the host as well, by what was asked for.

    ZeRO-Offload moves gradients there as they come, ZeRO-3's and FSDP's offload the weights too. A
    paged optimizer's state goes there where the card has no room.
    """
    names = set()
    if run.offload:
        names |= {"gradients"}
        if run.sharding in ("zero3", "fsdp"):
            names |= {"weights"}
    if run.optimizer.startswith("paged-"):
        names |= {"optimizer state"}
    return frozenset(names)


@dataclass(frozen=True)
class Margins:
    """How far what a run needs may be from its estimate, as shares of it: less, and more.

    `above` is None where nothing bounds it. `why` is the reason where they are wide, "" otherwise.
    """

    below: float
    above: float | None
    why: str = ""

    def around(self, need: float) -> tuple[float, float | None]:
        """Return the least and the most that a need may be; None where nothing bounds it."""
        most = None if self.above is None else need * (1 + self.above)
        return need * (1 - self.below), most


def verdict(peak: float, gib: float, margins: Margins) -> str:
    """Return "fits", "doesn't fit", "tight" or "not known", of a card of `gib`.

    The process takes `CONTEXT` GiB more than its tensors. A run is tight if the card's memory is
    between the least and the most that it may need, and not known if nothing says the most.
    """
    least, most = margins.around(peak / GIB + CONTEXT)
    if least > gib:
        return DOES_NOT_FIT
    if most is None:
        return NOT_KNOWN
    return "fits" if most <= gib else TIGHT


def short_count(number: float) -> str:
    """Return a count in thousands, millions, billions or trillions, such as 8.03B."""
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.4g}{unit}"
    return f"{number:.4g}"


def left_unquantized(model: Model, run: Run) -> list[str]:
    """Return the remark that a quantized base has experts in full width, if it has any."""
    experts = model.expert_weights()
    if not (run.quantized and experts) or model.linear_experts:
        return []
    note = (
        f"{short_count(experts)} of the weights are experts that bitsandbytes leaves in bf16: it "
        f"quantizes nn.Linear, and experts are parameters in transformers "
        f"{formulas()['transformers']}; in 4.57 those of most types were nn.Linear, which "
        "--transformers 4 reckons"
    )
    if not run.all_in_16_bit:
        note += "; peft's prepare_model_for_kbit_training makes them fp32"
    return [note]


def lora_count(model: Model, run: Run) -> int:
    """Return how many numbers LoRA trains: the rank, times both sides of each adapted matrix.

    With "all-linear" it is what peft makes, where the model's shapes are known.
    """
    hidden, size = model.hidden, model.intermediate
    sides = 2 * hidden + model.width + model.kv_width  # q and v
    if run.targets != "qv":
        sides += 2 * hidden + model.width + model.kv_width  # k and the last matrix
    if run.targets == "all-linear" and model.counted:
        return run.lora * model.adapted_sides()
    if run.targets == "all-linear":
        sides += model.products * (hidden + size) * max(model.experts, 1)
    return run.lora * sides * model.depth()


def _training(model: Model, run: Run) -> _Training:
    """Return the run with what its sharding divides."""
    return _Training(
        model,
        run,
        trained=model.total() if run.full else lora_count(model, run),
        weight_shares=run.gpus if run.sharding in ("zero3", "fsdp") else 1,
        gradient_shares=run.gpus if run.sharding in ("zero2", "zero3", "fsdp") else 1,
        state_shares=run.gpus if run.sharding in ("zero1", "zero2", "zero3", "fsdp") else 1,
        master="mixed" in run.precision and run.sharding.startswith("zero") and run.full,
    )


def _divided(how: str, shares: int) -> str:
    """Arithmetic whose whole result is divided among GPUs."""
    if shares == 1:
        return how
    return f"({how}) / {shares} GPUs" if " + " in how else f"{how} / {shares} GPUs"


# What stands in memory from the first step on.


def _weights(training: _Training) -> MemoryLine:
    """The weights as they are stored; only the matrices of layers are quantized, no experts."""
    model, run, total = training.model, training.run, training.model.total()
    if run.quantized:
        linear, each, rest = model.quantizable(), QUANTIZED[run.precision], training.adapter_bytes
        size = linear * each + (total - linear) * rest
        how = f"{short_count(linear)} × {each:.3g} B + {short_count(total - linear)} × {rest} B"
    else:
        in_fp32 = run.precision == "fp32" or (run.full and "mixed" in run.precision)
        each = 4 if in_fp32 and not training.master else 2
        size, how = total * each, f"{short_count(total)} × {each} B"
    shares = training.weight_shares
    return MemoryLine("weights", _divided(how, shares), size / shares)


def _reference(training: _Training) -> list[MemoryLine]:
    """DPO's second model. LoRA needs none: without its adapters the base is the reference."""
    if not (training.run.dpo and training.run.full):
        return []
    line = _weights(training)
    return [MemoryLine("reference model", line.how, line.size)]


def _adapters(training: _Training) -> list[MemoryLine]:
    if training.run.full:
        return []
    each, shares = training.adapter_bytes, training.weight_shares
    how = _divided(f"{short_count(training.trained)} × {each} B", shares)
    size = each * training.trained / shares
    return [MemoryLine("adapters", how + _of_experts(training), size)]


def _of_experts(training: _Training) -> str:
    """Whether experts are adapted, which versions of peft and transformers do differently."""
    model = training.model
    if training.run.targets != "all-linear" or not (model.counted and model.counted.experts):
        return ""
    if model.linear_experts:
        return ": all experts, each matrix by itself, as with transformers 4"
    which = "all experts" if model.counted.experts_adapted else "no experts"
    data = formulas()
    return f": {which}, as peft {data['peft']} with transformers {data['transformers']}"


def _optimizer_state(training: _Training) -> MemoryLine:
    if training.run.offload:
        return MemoryLine("optimizer state", "on the host", 0.0)
    size, how = _undivided_state(training)
    if training.master:
        size += 4 * training.trained
        how += f" + {short_count(training.trained)} × 4 B of fp32 weights"
    shares = training.state_shares
    return MemoryLine("optimizer state", _divided(how, shares), size / shares)


def _undivided_state(training: _Training) -> tuple[float, str]:
    """The bytes of the optimizer's own numbers on all GPUs, and how they were reckoned."""
    model, run, trained = training.model, training.run, training.trained
    each = OPTIMIZERS[run.optimizer][1 if run.all_in_16_bit else 0]
    if run.optimizer == "adafactor":
        sides = 2 * trained // max(1, model.hidden)
        return 4.0 * sides, f"rows and columns: {short_count(sides)} × 4 B"
    if run.optimizer == "muon" and run.full:  # AdamW for what is no matrix of a layer
        rest = trained - min(trained, model.linear())
        how = f"{short_count(trained)} × {each:g} B + {short_count(rest)} × {each:g} B of tables"
        return each * (trained + rest), how
    return each * trained, f"{short_count(trained)} × {each:g} B"


def _gradients(training: _Training) -> MemoryLine:
    each, shares = training.gradient_bytes, training.gradient_shares
    how = _divided(f"{short_count(training.trained)} × {each} B", shares)
    return MemoryLine("gradients", how, each * training.trained / shares)


def _ddp_buckets(training: _Training) -> list[MemoryLine]:
    """DDP's second copy of all gradients, through which GPUs exchange them."""
    if training.run.sharding != "ddp" or training.run.gpus == 1:
        return []
    each, trained = training.gradient_bytes, training.trained
    return [MemoryLine("buckets of DDP", f"{short_count(trained)} × {each} B", each * trained)]


def _gathered(training: _Training) -> list[MemoryLine]:
    """What FSDP and ZeRO-3 bring together on each GPU.

    That is the tables and two layers (the next one is fetched early), and in the backward pass
    their gradients before they are divided.
    """
    if training.weight_shares == 1:
        return []
    model, c = training.model, training.run.product_bytes
    weights = model.tables() + 2 * model.layer_weights()
    gradients = (model.tables() + model.layer_weights()) if training.run.full else 0
    together = weights + gradients
    how = f"embeddings, head and layers: {short_count(together)} × {c} B"
    wide = 0.0  # experts beside a quantized base, where they are in fp32
    each = training.adapter_bytes
    if training.run.quantized and each > c and not model.linear_experts:
        experts = 2 * model.expert_weights() / max(1, model.layers_with_experts())
        wide = experts * (each - c)
        how += f" + {short_count(experts)} × {each - c} B of experts" if experts else ""
    return [MemoryLine("gathered weights and gradients", how, together * c + wide)]


# What a batch adds.


def _copies(training: _Training) -> list[MemoryLine]:
    """Autocast's 16-bit copies of the products' weights, which the backward pass needs.

    The weights of experts get none, unless each is an nn.Linear (see `products_of_experts`).
    """
    if not (training.run.autocast and training.run.full):
        return []
    model = training.model
    copied = model.quantizable() + (model.table() if model.head else 0)
    how = f"autocast: {short_count(copied)} × 2 B"
    return [MemoryLine("16-bit copies of weights", how, 2.0 * copied)]


@dataclass(frozen=True)
class _Stack:
    """Layers of one kind, which get as many tokens: how many, and the bytes of each for a token.

    `last`: the bytes for each token behind them. `kept`: what the backward pass needs of a layer,
    with checkpointing only its input.
    """

    model: Model
    run: Run
    layers: int
    each: float
    last: float = 0.0

    @property
    def kept(self) -> float:
        """The bytes that a layer keeps for each token."""
        if self.run.checkpointing:
            return float(self.model.hidden * self.run.stream_bytes)
        return self.each

    @property
    def size(self) -> float:
        """The bytes of all layers, and of what is behind them."""
        return self.run.tokens * (self.layers * self.kept + self.last)


def _stacks(training: _Training) -> list[_Stack]:
    """The layers of a model: of its decoder, its encoder, and the tower that sees beside it."""
    model, run = training.model, training.run
    last = norm_keeps(model, run) + inputs_keep(run, model.hidden, 1, False)  # behind the layers
    last += model.vocab * run.product_bytes if model.capped_words else 0
    heard = replace(run, sequence=model.encoder_tokens or run.sequence)
    each = layer_keeps(model, run, cross=bool(model.encoder))
    if model.encoder and heard != run:
        others = heard.sequence / run.sequence - 1
        each += others * keys_and_values_keep(model, run)
    found = [_Stack(model, run, model.layers, each, last)]
    if model.encoder:
        found.append(_Stack(model, heard, model.encoder, layer_keeps(model, heard)))
    if tower := model.tower:
        seen = replace(run, sequence=tower.tokens)
        last = norm_keeps(tower, seen) + inputs_keep(seen, tower.hidden, 1, False)
        found.append(_Stack(tower, seen, tower.layers, layer_keeps(tower, seen), last))
    return found


def _kept(training: _Training) -> MemoryLine:
    """What a batch keeps for the backward pass: with checkpointing, only the inputs of layers."""
    stacks = _stacks(training)
    what = "inputs of layers" if training.run.checkpointing else "activations"
    by_length: dict[int, list[_Stack]] = {}
    for stack in stacks:
        by_length.setdefault(stack.run.sequence, []).append(stack)
    parts = []
    for length, alike in by_length.items():
        layers = sum(stack.layers for stack in alike)
        each = sum(stack.layers * stack.kept for stack in alike) / max(1, layers)
        last = sum(stack.last for stack in alike)
        parts.append(
            f"{training.run.samples} × {length} tokens × ({layers} layers × {each:,.0f} B"
            f" + {last:,.0f} B)"
        )
    return MemoryLine(what, " + ".join(parts), sum(stack.size for stack in stacks))


def _experts_of_a_layer(training: _Training) -> float:
    """The bytes of the experts of one layer where peft adapts them, else 0.

    A guess takes that it does, as the number of adapters.
    """
    model, run = training.model, training.run
    adapted = model.counted.experts_adapted if model.counted else model.experts > 0
    adapted = adapted and not model.linear_experts
    if not (run.lora and run.targets == "all-linear" and adapted):
        return 0.0
    each = training.adapter_bytes if run.quantized else run.product_bytes  # as they are stored
    return model.expert_weights() * each / max(1, model.layers_with_experts())


def _adapted_experts(training: _Training) -> list[MemoryLine]:
    """The sum of experts and adapters, which peft makes in each layer for the backward pass."""
    layers = 1 if training.run.checkpointing else training.model.layers_with_experts()
    how = f"{layers} layers, made by peft" if layers > 1 else "one layer, made by peft"
    return [MemoryLine("experts plus adapters", how, layers * _experts_of_a_layer(training))]


def _gradient_of_adapted_experts(training: _Training) -> list[MemoryLine]:
    return [
        MemoryLine("gradient of their sum", "one layer", _experts_of_a_layer(training)),
    ]


def _loss(training: _Training) -> MemoryLine:
    """Logits as probabilities, and two gradients of them: the most at one time.

    Decoders, and autocast, compute the loss in fp32. DPO takes the logits as they come: they stand
    beside their logarithms, and one gradient or what the reference says of the same samples.
    """
    model, run = training.model, training.run
    in_fp32 = (model.loss_in_fp32 or run.autocast) and not run.dpo
    each = 4 if in_fp32 else run.product_bytes
    if not model.head:
        return MemoryLine("logits and loss", "no words are predicted", 0.0)
    pieces = LOSS_PIECES if run.chunked_loss else 1
    if run.liger:  # as many as make a piece no larger than the input of the head
        pieces = max(pieces, -(-model.vocab // max(1, model.hidden)))
    how = f"{training.batch_text} × {model.vocab:,} words × 3 × {each} B"
    return MemoryLine(
        "logits and loss",
        how + (f" / {pieces}" if pieces > 1 else ""),
        3.0 * each * run.tokens * model.vocab / pieces,
    )


def _layer_computed_again(training: _Training) -> list[MemoryLine]:
    """What checkpointing computes again in the backward pass, one layer at a time."""
    if not training.run.checkpointing:
        return []
    most = max(_stacks(training), key=lambda stack: stack.run.tokens * stack.each)
    how = f"{most.run.samples} × {most.run.sequence} tokens × {most.each:,.0f} B"
    return [MemoryLine("one layer, computed again", how, most.run.tokens * most.each)]


def _working_space(training: _Training) -> MemoryLine:
    """Gradients between the operations of one layer.

    The largest are those of the products, or of eager attention's scores (two, in fp32), beside two
    of the stream. A quantized base also needs one matrix in 16 bit.
    """
    run = training.run
    size = max(_gradients_within(stack.model, stack.run) for stack in _stacks(training))
    how = "gradients within one layer"
    if run.quantized:
        model = training.model
        size += 2 * model.hidden * max(model.intermediate, model.width)
        how += ", one matrix in 16 bit"
    return MemoryLine("working space", how, float(size))


def _gradients_within(model: Model, run: Run) -> float:
    """The bytes of the gradients between the operations of one layer."""
    # Liger writes the gradients of a gated layer where its inputs were.
    matrices = 1 if is_fused(model, run) else model.products
    products = matrices * model.intermediate * run.product_bytes * max(1, model.chosen)
    scores = 2 * 4 * model.heads * run.sequence if scores_are_kept(model, run) else 0
    return run.tokens * (max(products, scores) + 2 * model.hidden * run.stream_bytes)


def _gradient_of_the_head(training: _Training) -> list[MemoryLine]:
    """The first gradient that the backward pass makes, while it still holds all activations."""
    if not training.head_gradient:
        return []
    shares = training.gradient_shares
    how = _divided(f"{short_count(training.model.table())} × {training.gradient_bytes} B", shares)
    return [MemoryLine("gradient of the head", how, training.head_gradient / shares)]


def _second_gradient_of_the_table(training: _Training) -> list[MemoryLine]:
    """A tied table gets two gradients, as head and as embeddings, before they are added."""
    if not (training.model.tied and training.head_gradient):
        return []
    how = f"{short_count(training.model.table())} × {training.gradient_bytes} B"
    return [MemoryLine("second gradient of the tied table", how, training.head_gradient)]


def _optimizer_update(training: _Training) -> list[MemoryLine]:
    """What a step makes beside the state; fused AdamW works in place.

    Adafactor and Muon compute one matrix at a time, in fp32. AdamW over lists of tensors, which is
    torch's default, makes the root of one of its two moments, of all weights at once.
    """
    model, run = training.model, training.run
    if run.optimizer == "adamw-foreach" and not run.offload:
        each, shares = (2 if run.all_in_16_bit else 4), training.state_shares
        how = _divided(f"{short_count(training.trained)} × {each} B", shares)
        return [MemoryLine("update of all weights", how, each * training.trained / shares)]
    if run.optimizer not in ("adafactor", "muon"):
        return []
    if run.full:
        largest = max(model.table(), model.hidden * model.intermediate * max(1, model.experts))
    else:
        largest = run.lora * max(model.intermediate, model.hidden)
    how = f"{short_count(largest)} × 3 × 4 B"
    return [MemoryLine("update of the largest matrix", how, 12.0 * largest)]
