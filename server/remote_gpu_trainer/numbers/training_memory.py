"""Reckon the memory that training takes on each GPU. Python 3.8.

`estimate` counts, `levers` tells what each change would save. All sizes are in bytes. Not counted:
buffers of communication, workspaces of libraries, fragments, and images or sounds before they are
tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .model_shape import NOT, QUANTIZED, Model, Run, inputs, layer_keeps, norm_keeps
from .out_of_memory import CONTEXT

GIB = 2.0**30
# Bytes of state per trained number where the weights are fp32, and where they are bf16. 8 bit: two
# moments, with a scale for each 256 numbers.
OPTIMIZERS = {
    "adamw": (8.0, 4.0),
    "adamw8bit": (2.03, 2.03),
    "sgd": (0.0, 0.0),
    "sgd-momentum": (4.0, 2.0),
    "adafactor": (0.0, 0.0),
    "muon": (4.0, 2.0),
}
LOSS_PIECES = 8  # of a chunked loss


@dataclass(frozen=True)
class Line:
    """One line of the arithmetic: what it is, how it was reckoned, and its bytes."""

    what: str
    how: str
    size: float


@dataclass(frozen=True)
class Estimate:
    """What a run takes on each GPU, in bytes.

    `moment`: when the most is taken. `lines` make up `peak`; `states` is weights, gradients and
    optimizer state, whatever the moment; `kept` what a batch keeps for the backward pass.
    """

    peak: float
    moment: str
    lines: tuple[Line, ...]
    states: float
    kept: float


def adapters(model: Model, run: Run) -> int:
    """Return how many numbers LoRA trains."""
    hidden, size = model.hidden, model.intermediate
    sides = 2 * hidden + model.width + model.kv_width  # q and v
    if run.targets != "qv":
        sides += 2 * hidden + model.width + model.kv_width
    if run.targets == "all-linear":
        sides += (3 if model.gated else 2) * (hidden + size) * max(model.experts, 1)
    return run.lora * sides * (model.depth())


def estimate(model: Model, run: Run) -> Estimate:
    """Return what one GPU needs for this run."""
    tokens, c, total = run.batch * run.sequence, run.width, model.total()
    share = run.gpus if run.gpus > 1 else 1
    weights_by = share if run.sharding in ("zero3", "fsdp") else 1
    grads_by = share if run.sharding in ("zero2", "zero3", "fsdp") else 1
    state_by = share if run.sharding in ("zero1", "zero2", "zero3", "fsdp") else 1
    master = "mixed" in run.precision and run.sharding.startswith("zero") and run.full
    wide = 2 if _all_in_16_bit(run) else 4
    if run.precision in QUANTIZED:
        linear, each = model.linear(), QUANTIZED[run.precision]
        size = linear * each + (total - linear) * wide
        stored = f"{_short(linear)} × {each:.3g} B + {_short(total - linear)} × {wide} B"
    else:
        each = 4 if run.precision == "fp32" or (run.full and "mixed" in run.precision) else 2
        each = 2 if master else each
        size, stored = total * each, f"{_short(total)} × {each} B"
    trained = total if run.full else adapters(model, run)
    of_grad = 2 if _all_in_16_bit(run) or master else 4
    lines = [Line("weights", stored + _by(weights_by), size / weights_by)]
    if not run.full:
        lines.append(
            Line(
                "adapters",
                f"{_short(trained)} × {wide} B{_by(weights_by)}",
                wide * trained / weights_by,
            )
        )
    state, how = _state(model, run, trained)
    if master:
        state, how = state + 4 * trained, f"{how} + 4 B of fp32 weights"
    state = 0.0 if run.offload else state / state_by
    lines.append(
        Line("optimizer state", "on the host" if run.offload else how + _by(state_by), state)
    )
    grads = Line(
        "gradients", f"{_short(trained)} × {of_grad} B{_by(grads_by)}", of_grad * trained / grads_by
    )
    states = sum(line.size for line in lines) + grads.size
    if run.sharding == "ddp" and share > 1:
        lines.append(Line("buckets of DDP", f"{_short(trained)} × {of_grad} B", of_grad * trained))
    if weights_by > 1:
        whole = model.tables() + 2 * model.layer_weights()
        back = (model.tables() + model.layer_weights()) if run.full else 0
        lines.append(
            Line(
                "gathered weights and gradients",
                f"embeddings, head and layers: {_short(whole + back)} × {c} B",
                (whole + back) * c,
            )
        )
    copied = model.linear() + (model.vocab * model.hidden if model.head else 0)
    copies = Line("16-bit copies of weights", f"autocast: {_short(copied)} × 2 B", 2.0 * copied)
    has_copies = run.autocast and run.full
    kept = _kept_lines(model, run, tokens)
    held = [grads] if run.accumulation > 1 else []
    head = _loss(model, run, tokens)
    table = model.vocab * model.hidden * of_grad if run.full and model.head else 0
    work = _work(model, run, tokens)
    before = lines + held + ([copies] if has_copies else [])
    moments = {
        "at the loss": [*before, *kept, head],
        "in the backward pass": [*before, *kept, *_again(model, run, tokens), work]
        + (
            []
            if held or not table
            else [
                Line(
                    "gradient of the head",
                    f"{_short(model.vocab * model.hidden)} × {of_grad} B",
                    table / grads_by,
                )
            ]
        ),
        "at the end of the backward pass": [*lines, grads]
        + (
            [
                Line(
                    "second gradient of the tied table",
                    f"{_short(model.vocab * model.hidden)} × {of_grad} B",
                    table,
                )
            ]
            if model.tied and table
            else []
        ),
        "in the optimizer's step": [*lines, grads, *_step(model, run, trained)],
    }
    moment = max(moments, key=lambda name: sum(line.size for line in moments[name]))
    chosen = tuple(line for line in moments[moment] if line.size)
    peak = sum(line.size for line in chosen)
    return Estimate(peak, moment, chosen, states, sum(line.size for line in kept))


def _by(share: int) -> str:
    return f" / {share} GPUs" if share > 1 else ""


def _short(number: float) -> str:
    """A count in thousands, millions or billions."""
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.4g}{unit}"
    return f"{number:.4g}"


def _all_in_16_bit(run: Run) -> bool:
    """Whether what is trained is bf16, and its gradients and optimizer state with it."""
    return run.precision == "4bit-bf16" or (run.precision == "bf16" and run.full)


def _state(model: Model, run: Run, trained: int) -> tuple[float, str]:
    """The bytes of the optimizer's state, and how they were reckoned."""
    each = OPTIMIZERS[run.optimizer][1 if _all_in_16_bit(run) else 0]
    if run.optimizer == "adafactor":
        sides = 2 * trained // model.hidden
        return 4.0 * sides, f"rows and columns: {_short(sides)} × 4 B"
    if run.optimizer == "muon" and run.full:  # AdamW for what is no matrix of a layer
        rest = trained - min(trained, model.linear())
        return each * (trained + rest), f"{_short(trained)} × {each:g} B, tables twice"
    return each * trained, f"{_short(trained)} × {each:g} B"


def _kept_lines(model: Model, run: Run, tokens: int) -> list[Line]:
    """What a batch keeps for the backward pass."""
    last = norm_keeps(model, run) + inputs(run, model.hidden, 1, False)
    per = f"{run.batch} × {run.sequence} tokens"
    if run.checkpointing:
        each = model.hidden * run.stream
        what = "inputs of layers"
        size = float(model.depth() * each)
    else:
        each, what = layer_keeps(model, run), "activations"
        size = model.layers * layer_keeps(model, run, cross=bool(model.encoder))
        size += model.encoder * each
    how = f"{per} × ({model.depth()} layers × {size / model.depth():,.0f} B + {last:,.0f} B)"
    return [Line(what, how, tokens * (size + last))]


def _again(model: Model, run: Run, tokens: int) -> list[Line]:
    """With checkpointing: the layer that is computed again."""
    if not run.checkpointing:
        return []
    size = layer_keeps(model, run, cross=bool(model.encoder))
    how = f"{run.batch} × {run.sequence} tokens × {size:,.0f} B"
    return [Line("one layer, computed again", how, tokens * size)]


def _loss(model: Model, run: Run, tokens: int) -> Line:
    """Logits as probabilities, and two gradients of them, in fp32: the most at one time."""
    if not model.head:
        return Line("logits and loss", "no words are predicted", 0.0)
    pieces = LOSS_PIECES if run.chunked_loss else 1
    how = f"{run.batch} × {run.sequence} tokens × {model.vocab:,} words × 3 × 4 B"
    return Line(
        "logits and loss",
        how + (f" / {pieces}" if pieces > 1 else ""),
        12.0 * tokens * model.vocab / pieces,
    )


def _work(model: Model, run: Run, tokens: int) -> Line:
    """Gradients between the operations of one layer."""
    matrices = (3 if model.gated else 2) * model.intermediate * run.width * max(1, model.chosen)
    scores = 2 * 4 * model.heads * run.sequence if run.attention == "eager" else 0
    size = tokens * (max(matrices, scores) + 2 * model.hidden * run.stream)
    if run.precision in QUANTIZED:
        size += 2 * model.hidden * max(model.intermediate, model.width)
    how = "gradients within one layer" + (
        ", one matrix in 16 bit" if run.precision in QUANTIZED else ""
    )
    return Line("working space", how, float(size))


def _step(model: Model, run: Run, trained: int) -> list[Line]:
    if run.optimizer not in ("adafactor", "muon"):
        return []
    largest = max(
        model.vocab * model.hidden, model.hidden * model.intermediate * max(1, model.experts)
    )
    largest = largest if run.full else run.lora * max(model.intermediate, model.hidden)
    return [Line("update of the largest matrix", f"{_short(largest)} × 3 × 4 B", 12.0 * largest)]


@dataclass(frozen=True)
class Lever:
    """A change of the run: its options, the entry that explains it, and the peak with it."""

    what: str
    options: str
    entry: str
    saves: float
    peak: float


def levers(model: Model, run: Run) -> list[Lever]:
    """Return the changes that save memory, those that save most first."""
    now = estimate(model, run).peak
    found = []
    for what, options, entry, changed in _changes(model, run):
        peak = estimate(model, changed).peak
        if now - peak > 0.005 * now:
            found.append(Lever(what, options, entry, now - peak, peak))
    return sorted(found, key=lambda lever: -lever.saves)


def _changes(model: Model, run: Run) -> list[tuple[str, str, str, Run]]:
    half, gpus = max(1, run.batch // 2), max(run.gpus, 8)
    made = [
        (
            "half the batch, twice the accumulation",
            f"--batch {half} --accumulation 2",
            "M5",
            replace(run, batch=half, accumulation=max(2, run.accumulation)),
        ),
        (
            "half the sequence length",
            f"--sequence {max(1, run.sequence // 2)}",
            "M16",
            replace(run, sequence=max(1, run.sequence // 2)),
        ),
        ("activation checkpointing", "--checkpointing", "M7", replace(run, checkpointing=True)),
        ("sdpa or flash attention", "--attention sdpa", "M11", replace(run, attention="sdpa")),
        ("loss in pieces, or Liger", "--chunked-loss", "M14", replace(run, chunked_loss=True)),
        ("8-bit AdamW", "--optimizer adamw8bit", "M12", replace(run, optimizer="adamw8bit")),
        ("optimizer state on the host", "--offload", "M10", replace(run, offload=True)),
        ("LoRA of rank 16", "--lora 16", "M13", replace(run, lora=run.lora or 16)),
        (
            "QLoRA: a 4-bit base",
            "--precision 4bit --lora 16",
            "M13",
            replace(run, precision="4bit", lora=run.lora or 16),
        ),
        (
            f"FSDP or ZeRO-3 over {gpus} GPUs",
            f"--sharding fsdp --gpus {gpus}",
            "M9",
            replace(run, sharding="fsdp", gpus=gpus),
        ),
        (
            f"ZeRO-2 over {gpus} GPUs",
            f"--sharding zero2 --gpus {gpus}",
            "D16",
            replace(run, sharding="zero2", gpus=gpus),
        ),
    ]
    if run.precision == "fp32":
        made.append(
            (
                "16-bit products",
                "--precision bf16-mixed",
                "M6",
                replace(run, precision="bf16-mixed"),
            )
        )
    elif run.full and run.precision != "bf16":
        made.append(
            (
                "all in bf16, which rounds small updates away",
                "--precision bf16",
                "P20",
                replace(run, precision="bf16"),
            )
        )
    return made


def plan(model: Model, run: Run, gib: float) -> tuple[str, float] | None:
    """Return the options of the mildest changes that together fit a card, and the peak with them.

    What keeps the result comes first: attention, the loss, checkpointing, smaller batches. Then
    8-bit AdamW, LoRA and QLoRA. None if they don't fit either, or the run fits as it is.
    """
    if verdict(estimate(model, run).peak, gib) != NOT:
        return None
    steps: list[tuple[str, dict]] = [
        ("--attention sdpa", {"attention": "sdpa"}),
        ("--chunked-loss", {"chunked_loss": True}),
        ("--checkpointing", {"checkpointing": True}),
        ("--batch 1", {"batch": 1, "accumulation": run.accumulation * run.batch}),
        ("--optimizer adamw8bit", {"optimizer": "adamw8bit"}),
        ("--lora 16", {"lora": run.lora or 16}),
        ("--precision 4bit", {"precision": "4bit"}),
    ]
    taken, now = [], run
    for options, fields in steps:
        changed = replace(now, **fields)
        if estimate(model, changed).peak < estimate(model, now).peak:
            taken, now = [*taken, options], changed
        if verdict(estimate(model, now).peak, gib) != NOT:
            return " ".join(taken), estimate(model, now).peak
    return None


def verdict(peak: float, gib: float) -> str:
    """Return "fits", "tight" (within a tenth of the card) or "doesn't fit", of a card of `gib`.

    The process takes `CONTEXT` GiB more than its tensors.
    """
    need = peak / GIB + CONTEXT
    return NOT if need > gib else "tight" if need > 0.9 * gib else "fits"


def summary(model: Model, run: Run, gib: float = 0.0) -> str:
    """Return in a few sentences what a run takes, and what would save most."""
    found = estimate(model, run)
    parts = ", ".join(f"{line.what} {line.size / GIB:.1f}" for line in found.lines)
    told = (
        f"By its config.json the model has {_short(model.total())} weights; batch {run.batch} of "
        f"{run.sequence} tokens, {run.precision}, {run.optimizer} takes about "
        f"{found.peak / GIB:.1f} GiB {found.moment} ({parts})"
    )
    if gib:
        told += f": {verdict(found.peak, gib)} in {gib:.1f} GiB"
    best = [f"{lever.what} {lever.saves / GIB:.1f} [{lever.entry}]" for lever in levers(model, run)]
    if model.unknown:
        told += f"; not counted: {', '.join(model.unknown)}"
    return f"{told}. Saves, in GiB: {', '.join(best[:3])}."
