"""What one layer keeps for the backward pass, in bytes for each token.

It follows from the operations of transformers 5: each keeps the tensors that its gradient needs.
"""

from __future__ import annotations

from .model_shape import Model
from .training_run import Run


def layer_keeps(model: Model, run: Run, cross: bool = False) -> float:
    """Return the bytes for each token that one layer keeps for the backward pass.

    `cross`: a second attention, with a norm of its own, looks at an encoder.
    """
    attentions = 2 if cross else 1
    kept = norm_keeps(model, run) * (model.norms + attentions - 1)
    kept += _attention_keeps(model, run) * attentions + _products_keep(model, run)
    masks = model.hidden * (1 + attentions)  # of dropout, one behind each part; a byte a number
    scaled = 2 * model.hidden * run.product_bytes if model.layer_scales else 0
    return kept + scaled + (masks if model.dropout else 0)


def keys_and_values_keep(model: Model, run: Run) -> float:
    """Return the bytes of layer_keeps that are those of an attention's keys and values.

    Where an attention looks at an encoder, they are there for each token of it. Autocast casts what
    the encoder gave for each layer again.
    """
    read = inputs_keep(run, model.hidden, 2, run.targets != "qv") if run.autocast else 0.0
    return 2 * model.kv_width * run.product_bytes + read


def norm_keeps(model: Model, run: Run) -> float:
    """Return the bytes for each token that a normalization keeps."""
    if model.norm == "layer":
        return float(model.hidden * run.stream_bytes)
    if run.liger:  # its kernels keep the input as it came
        return float(model.hidden * run.stream_bytes)
    # RMS norm computes in fp32 and keeps its input so; the gradient of its weight also needs the
    # normalized tensor, which Gemma's keeps in fp32.
    normalized = 4 if model.norm == "gemma" else run.stream_bytes
    return float(model.hidden * (4 + (normalized if run.full else 0)))


def inputs_keep(run: Run, width: int, readers: int, adapted: bool, cast: bool = True) -> float:
    """Return the bytes for each token of a tensor of `width` that matrices read.

    It is kept if their weights are trained. Autocast gives each of the `readers` a copy of its own,
    unless the tensor is in 16 bit already (`cast` is False). An adapter beside a matrix (`adapted`)
    reads a copy too, in the adapter's own precision.
    """
    if run.full:
        copies = 2 * readers if run.autocast and cast else run.product_bytes
        return float(width * copies)
    return float(width * readers * (2 if run.autocast else 4)) if adapted else 0.0


def _attention_keeps(model: Model, run: Run) -> float:
    """Return the bytes for each token that one attention keeps, with its four matrices' inputs."""
    width, kv_width, c = model.width, model.kv_width, run.product_bytes
    adapted_readers = 3 if run.targets != "qv" else 2
    kept = inputs_keep(run, model.hidden, 3 if run.full else adapted_readers, True)
    if model.head_norms:
        kept += (width + kv_width) * (4 + (c if run.full else 0))
    output = inputs_keep(run, width, 1, run.targets != "qv", False)
    if not scores_are_kept(model, run):
        # Queries, the result, keys, values, and a sum in fp32 for each head. The last matrix reads
        # the same result; only an adapter makes a copy of it.
        kept += c * (2 * width + 2 * kv_width) + 4 * model.heads
        return kept + (0 if run.full else output)
    kept += c * 3 * width + output
    return kept + model.heads * run.sequence * _bytes_of_a_score(model, run)


def is_fused(model: Model, run: Run) -> bool:
    """Return whether Liger's kernel multiplies the two products of a layer; experts have others."""
    return run.liger and model.gated and not model.experts


def scores_are_kept(model: Model, run: Run) -> bool:
    """Return whether attention keeps a number for each pair of tokens, as fused kernels don't.

    No fused kernel shares keys among heads in fp32, so torch's sdpa computes that plainly.
    """
    shared_in_fp32 = model.kv_heads != model.heads and run.precision == "fp32"
    return run.attention == "eager" or (run.attention == "sdpa" and shared_in_fp32)


def _bytes_of_a_score(model: Model, run: Run) -> int:
    """Return the bytes that eager attention keeps for each pair of tokens and head.

    The softmax is kept in the width that it was computed in. After it, dropout keeps a mask and its
    result, and without dropout a narrower width needs a copy.
    """
    c = run.product_bytes
    softmax = 4 if model.norm != "layer" or run.autocast else c
    softmax += c if model.capped_scores else 0
    if model.attention_dropout:
        return softmax + 1 + c
    return softmax + (c if softmax != c else 0)


def products_of_experts(model: Model, run: Run) -> int:
    """Return the bytes of a number in the products of experts, which autocast leaves in fp32.

    transformers 5 multiplies all experts at once, with an operation that autocast doesn't cast.
    Beside a quantized base they are in fp32 too, unless all else is bf16.
    """
    if model.linear_experts:
        return run.product_bytes
    return 4 if run.autocast and (run.full or run.quantized) else run.product_bytes


def _products_keep(model: Model, run: Run) -> float:
    """Return the bytes for each token that a layer's other matrices keep, with their inputs."""
    size, c = (
        model.intermediate,
        products_of_experts(model, run) if model.experts else run.product_bytes,
    )
    adapted = run.targets == "all-linear"
    last_input = inputs_keep(run, size, 1, adapted, False)
    if model.experts and run.full:
        last_input = float(size * c)
    if model.relu and not model.gated:
        # ReLU keeps its result, which the next matrix reads; dropout between them keeps a mask, and
        # makes another tensor of it.
        kept = size * (c + 1) if model.dropout else size * c - last_input
    else:
        # Liger computes the activation again from its two inputs.
        kept = size * c * (2 if is_fused(model, run) else model.kept_by_act + 2 * model.gated)
        kept += size * (4 - c) * model.powers_by_act if run.autocast else 0
    kept += last_input
    if model.experts:  # each chosen expert reads a copy of the token, and its result is weighed
        return model.chosen * (kept + 2 * model.hidden * c)
    return kept + inputs_keep(run, model.hidden, 2 if model.gated else 1, adapted)
