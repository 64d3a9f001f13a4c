"""Count what one training step of a torch model takes, on torch's meta device.

`rgt fit FILE.py:NAME` runs this program with the Python of the user. It imports the user's file,
builds the model, runs forward and backward on tensors that have sizes and no numbers, and counts
every storage as a GPU's allocator does. It needs torch and no GPU.

The request is an object of JSON, the first argument. The answer is one line of JSON on stdout; what
the user's code prints goes to stderr.
"""

import importlib.util
import json
import os
import sys
import weakref
from contextlib import ExitStack, nullcontext

ROUNDED = 512  # bytes; torch's allocator gives each tensor a multiple of them
PAIR = (2, 3)  # two batches say what each event takes for a batch of any size
OFF = 0.01  # of the peak: how far it may be from what the pair says
# What autocast computes in 16 bit, and in fp32, as torch documents it for CUDA; the names are those
# of torch's own functions.
_LOW = """
    __matmul__ __rmatmul__ _grouped_mm addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d
    conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d einsum grouped_mm
    linear matmul mm multi_dot mv prelu
"""
_HIGH = """
    __pow__ __rpow__ acos asin binary_cross_entropy_with_logits cdist cosh cosine_embedding_loss
    cosine_similarity cross_entropy_loss cumprod cumsum dist erfinv exp expm1 group_norm
    hinge_embedding_loss huber_loss kl_div l1_loss layer_norm log log10 log1p log2 log_softmax
    logsumexp margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss
    nll_loss_nd norm pdist poisson_nll_loss pow prod reciprocal renorm rms_norm rsqrt sinh
    smooth_l1_loss soft_margin_loss softmax softplus sum tan triplet_margin_loss
"""
LOW, HIGH = frozenset(_LOW.split()), frozenset(_HIGH.split())


class NotCounted(Exception):
    """The model can't be built or run here. The text says why."""


def built(request):
    """Return the user's model on the meta device. Raises NotCounted."""
    import torch

    made = _named(request["file"], request["name"])
    try:
        with torch.device("meta"):
            model = made(**request["args"])
    except Exception as on_meta:  # some constructors compute with numbers
        try:
            model = made(**request["args"])
        except Exception as error:
            raise NotCounted("{} fails: {}".format(request["name"], _in_a_line(error))) from on_meta
    if not isinstance(model, torch.nn.Module):
        kind = type(model).__name__
        raise NotCounted("{} gives {}, not a torch.nn.Module".format(request["name"], kind))
    model = model.to("meta")
    if request["lora"]:
        adapt(model, request["lora"], kind_of(request["precision"]))
    if request["precision"] == "bf16":
        model = model.to(torch.bfloat16)
    if request["checkpointing"]:
        checkpoint_blocks(model)
    return model.train()


def adapt(model, rank, kind):
    """Freeze a model, and put adapters of a rank beside its linear layers. Raises NotCounted.

    With autocast the frozen weights are stored in its `kind`, and the adapters in fp32.
    """
    import torch

    class Adapted(torch.nn.Module):
        def __init__(self, base):
            super().__init__()
            with torch.device("meta"):
                self.down = torch.nn.Linear(base.in_features, rank, bias=False)
                self.up = torch.nn.Linear(rank, base.out_features, bias=False)
            self.base = base

        def forward(self, x):
            return self.base(x) + self.up(self.down(x.to(self.down.weight.dtype)))

    model.requires_grad_(False)
    if kind is not None:
        model.to(kind)
    adapted = 0
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is torch.nn.Linear:
                module._modules[name] = Adapted(child)
                adapted += 1
    if not adapted:
        raise NotCounted("LoRA adapts torch.nn.Linear, and the model has none")


def checkpoint_blocks(model):
    """Let the blocks of a model keep nothing but their inputs. Raises NotCounted without blocks.

    A model of transformers or diffusers says itself which they are. Of any other they are the
    members of its outermost lists whose members are of one class.
    """
    import torch
    from torch.utils import checkpoint as module

    if hasattr(model, "gradient_checkpointing_enable"):
        model.gradient_checkpointing_enable({"use_reentrant": False})
        return
    if hasattr(model, "enable_gradient_checkpointing"):
        model.enable_gradient_checkpointing()
        return

    def keeps_inputs(forward):
        return lambda *args, **given: module.checkpoint(
            forward, *args, use_reentrant=False, **given
        )

    within, blocks = set(), []
    for part in model.modules():
        members = list(part) if isinstance(part, (torch.nn.ModuleList, torch.nn.Sequential)) else []
        alike = len(members) > 1 and len({type(member) for member in members}) == 1
        if alike and part not in within and list(members[0].parameters()):
            blocks += members
            within.update(inner for member in members for inner in member.modules())
    for block in blocks:
        block.forward = keeps_inputs(block.forward)
    if not blocks:
        raise NotCounted("--checkpointing needs a list of blocks of one class, and it has none")


def _named(path, name):
    """Return the class or function of a file. Raises NotCounted."""
    folder = os.path.dirname(os.path.abspath(path))
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(
        os.path.splitext(os.path.basename(path))[0], os.path.abspath(path)
    )
    if spec is None or spec.loader is None:
        raise NotCounted(f"{path} is no module of Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise NotCounted(f"{path} can't be imported: {_in_a_line(error)}") from error
    made = getattr(module, name, None)
    if made is None or not callable(made):
        own = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == spec.name]
        there = [n for n in own if n[0] != "_"]
        raise NotCounted(
            "{} has no {}; it has {}".format(path, name, ", ".join(there[:8]) or "none")
        )
    return made


def _in_a_line(error):
    """An error in one short line."""
    lines = str(error).strip().splitlines()
    return "{}: {}".format(type(error).__name__, lines[0] if lines else "")[:300]


def counted(model):
    """Return the weights of a model: how many, how many are trained, and bytes; convolutions."""
    weights = list(model.parameters())
    trained = [p for p in weights if p.requires_grad]
    return {
        "weights": sum(p.numel() for p in weights),
        "weight_bytes": _bytes(weights),
        "trained": sum(p.numel() for p in trained),
        "gradient_bytes": _bytes(trained),
        "buffer_bytes": _bytes(model.buffers()),
        "factored_bytes": sum(4 * _rows_and_columns(p) for p in trained),
        "largest": max((p.numel() for p in trained), default=0),
        "convolutions": sum(type(m).__name__.startswith("Conv") for m in model.modules()),
    }


def _rows_and_columns(weight):
    """How many numbers Adafactor keeps of a weight: the sums of its rows and of its columns."""
    if weight.dim() < 2:
        return weight.numel()
    return weight.numel() // weight.shape[-1] + weight.numel() // weight.shape[-2]


def _bytes(tensors):
    storages = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}
    return sum(storages.values())


def counting_mode():
    """Return a dispatch mode that counts storages: `now`, and `events`, the sum after each.

    No tensor has numbers here. Where the code asks whether all of something is so, it is; where it
    asks whether any is, none is.
    """
    from torch import Tensor, ops
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Counting(TorchDispatchMode):
        def __init__(self, before):
            super().__init__()
            self.sizes, self.before, self.now, self.events = {}, before, 0, []
            self.asked = {}

        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            packet = operator.overloadpacket
            if packet is ops.aten._local_scalar_dense:
                key = args[0].untyped_storage()._cdata
                if key in self.asked:
                    return self.asked[key]
            result = operator(*args, **(kwargs or {}))
            if packet in (ops.aten.all, ops.aten.any):
                self.asked[result.untyped_storage()._cdata] = packet is ops.aten.all
            for tensor in tree_leaves(result):
                if isinstance(tensor, Tensor):
                    self.see(tensor.untyped_storage())
            return result

        def see(self, storage):
            key = storage._cdata
            if key in self.sizes or key in self.before:
                return
            size = -(-storage.nbytes() // ROUNDED) * ROUNDED
            self.sizes[key] = size
            self.now += size
            self.events.append(self.now)
            weakref.finalize(storage, self.freed, key)

        def freed(self, key):
            self.now -= self.sizes.pop(key, 0)
            self.asked.pop(key, None)

    return Counting


def autocast_mode(kind):
    """Return a function mode that casts as CUDA's autocast does, which meta tensors lack."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Autocast(TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.copies = {}  # of weights: autocast makes each once

        def __torch_function__(self, function, types, args=(), kwargs=None):
            name = getattr(function, "__name__", "")
            wide = torch.float32 if name in HIGH else kind if name in LOW else None
            given = dict(kwargs or {})
            if wide is None:
                return function(*args, **given)
            named = {key: self.cast(value, wide) for key, value in given.items()}
            return function(*[self.cast(value, wide) for value in args], **named)

        def cast(self, values, wide):
            if isinstance(values, torch.Tensor):
                if values.dtype not in (torch.float16, torch.bfloat16, torch.float32):
                    return values
                if wide == kind and values.is_leaf and values.requires_grad:
                    if id(values) not in self.copies:
                        self.copies[id(values)] = values.to(wide)
                    return self.copies[id(values)]
                return values.to(wide)
            if isinstance(values, dict):
                return {key: self.cast(value, wide) for key, value in values.items()}
            if isinstance(values, (list, tuple)) and type(values) in (list, tuple):
                return type(values)(self.cast(value, wide) for value in values)
            return values

    return Autocast()


def kind_of(precision):
    """Return the type that autocast computes in, None without autocast."""
    import torch

    return {"bf16-mixed": torch.bfloat16, "fp16-mixed": torch.float16}.get(precision)


def as_a_gpu_does(attention, precision):
    """Let torch take the operations of a GPU: fused attention, and dropout with a mask of bytes."""
    import torch

    functional, operators = torch.nn.functional, torch.ops.aten
    kind = kind_of(precision)

    def dropout(input, p=0.5, training=True, inplace=False):
        if not training or not p:
            return input
        return torch.native_dropout(input, p, True)[0]

    def attend(
        query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
        enable_gqa=False,
    ):  # fmt: skip
        if kind is not None:
            query, key, value = query.to(kind), key.to(kind), value.to(kind)
        shared = enable_gqa and query.size(-3) != key.size(-3)
        wide = query.dtype is torch.float32
        # Neither fused kernel shares keys among heads in fp32, so torch computes it plainly.
        if attention == "eager" or query.dim() != 4 or (shared and wide):
            if shared:
                times = query.size(-3) // key.size(-3)
                key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
            return operators._scaled_dot_product_attention_math(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale
            )[0]
        if attn_mask is None and not wide:
            return operators._scaled_dot_product_flash_attention(
                query, key, value, dropout_p, is_causal, False, scale=scale
            )[0]
        if attn_mask is not None:  # the kernel adds it to the scores, in their type
            sides = (*query.shape[:-1], key.size(-2))
            attn_mask = attn_mask.to(query.dtype).expand(sides)
        return operators._scaled_dot_product_efficient_attention(
            query, key, value, attn_mask, True, dropout_p, is_causal, scale=scale
        )[0]

    for name, instead in (("dropout", dropout), ("scaled_dot_product_attention", attend)):
        setattr(functional, name, instead)
    if kind is not None:
        _checkpoint_with_autocast()
    # Functions written in Python then don't turn to a mode themselves; what they call does.
    for name in ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"):
        setattr(functional, name, lambda *_: False)


def _checkpoint_with_autocast():
    """Let what checkpointing computes again be cast too; the backward pass has no function mode."""
    from torch.overrides import _get_current_function_mode
    from torch.utils import checkpoint as module

    plain = module.checkpoint

    def checkpoint(function, *args, **given):
        mode = _get_current_function_mode()
        if mode is not None and not given.get("use_reentrant", True) and "context_fn" not in given:
            given["context_fn"] = lambda: (nullcontext(), mode)
        return plain(function, *args, **given)

    setattr(module, "checkpoint", checkpoint)  # noqa: B010  (torch declares it as a function)


def traced(model, request, batch):
    """Return the events of one step with this batch.

    {"events": bytes beside the weights after each new tensor, "kept": bytes when the forward pass
    ends, "returns_loss": whether the model returned its loss}.
    """
    import torch

    before = {t.untyped_storage()._cdata for t in [*model.parameters(), *model.buffers()]}
    kind = kind_of(request["precision"])
    with ExitStack() as stack:
        counting = stack.enter_context(counting_mode()(before))
        if kind is not None:
            stack.enter_context(autocast_mode(kind))
        inputs = [_input(one, batch, request["precision"]) for one in request["inputs"]]
        output = model(*inputs)
        own = _own_loss(output)
        loss = _mean(output) if own is None else own
        ends = {"kept": counting.now, "returns_loss": own is not None}
        torch.autograd.backward([loss])  # loss.backward would leave autocast_mode
        del loss, own, output
        model.zero_grad(set_to_none=True)
    return {**ends, "events": counting.events}


def _input(one, batch, precision):
    import torch

    sides = (batch, *one["sides"])
    if one["kind"] != "float":
        return torch.empty(sides, dtype=torch.int64, device="meta")
    wide = torch.bfloat16 if precision == "bf16" else torch.float32
    return torch.empty(sides, dtype=wide, device="meta")


def _own_loss(output):
    """The loss that a model returns, None where it returns something else."""
    import torch

    if isinstance(output, torch.Tensor):
        return None if output.dim() else output
    own = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    return own if isinstance(own, torch.Tensor) else None


def _mean(output):
    """The mean of what a model returns, which stands for its loss. Raises NotCounted."""
    import torch
    from torch.utils._pytree import tree_leaves

    leaves = tree_leaves(dict(output) if isinstance(output, dict) else output)
    leaves = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not leaves:
        raise NotCounted("the model returns nothing that has a gradient")
    return torch.stack([leaf.float().mean() for leaf in leaves]).sum()


def lines_of(low, high):
    """Return [bytes, bytes for each sample] of the events that can be the largest of a step.

    `low` and `high` are the events of the two batches `PAIR`. Raises NotCounted where they differ
    in number.
    """
    if len(low) != len(high):
        raise NotCounted("its operations differ with the batch")
    few, many = PAIR
    best = {}
    for a, b in zip(low, high):
        each = (b - a) / (many - few)
        fixed = a - each * few
        best[each] = max(fixed, best.get(each, fixed))
    hull = []  # from the flattest line to the steepest, each the largest somewhere
    for each, fixed in sorted(best.items()):
        while hull and fixed >= hull[-1][0]:
            hull.pop()
        while len(hull) > 1 and _meet(hull[-2], (fixed, each)) <= _meet(hull[-2], hull[-1]):
            hull.pop()
        hull.append((fixed, each))
    return [list(line) for line in hull]


def _meet(one, other):
    """The batch from which the steeper of two lines is the larger."""
    return (one[0] - other[0]) / (other[1] - one[1])


def at(lines, batch):
    """Return the largest of the lines at a batch, in bytes."""
    return max(fixed + each * batch for fixed, each in lines)


def answer(request):
    """Return what is known of a model: its weights, and what a step takes where it runs."""
    as_a_gpu_does(request["attention"], request["precision"])
    model = built(request)
    counts = counted(model)
    if not request["inputs"]:
        return counts
    try:
        return {**counts, **step_of(model, request)}
    except NotCounted as error:
        return {**counts, "not_run": str(error)}
    except Exception as error:  # a user's model fails in any way
        return {**counts, "not_run": _in_a_line(error)}


def step_of(model, request):
    """Return what a step takes beside weights and optimizer. Raises NotCounted and others.

    {"lines": see `lines_of`, "kept": the same of the end of the forward pass, "returns_loss"}.
    """
    low, high = (traced(model, request, batch) for batch in PAIR)
    step = {
        "lines": lines_of(low["events"], high["events"]),
        "kept": lines_of([low["kept"]], [high["kept"]]),
        "returns_loss": low["returns_loss"],
    }
    batch = request["batch"]
    if batch not in PAIR:
        peak = max(traced(model, request, batch)["events"])
        if abs(at(step["lines"], batch) / peak - 1) > OFF:
            raise NotCounted("what it takes isn't in proportion to the batch")
    return step


def main():
    """Print the answer to the request; exit 1 with {"error": why} where there is none."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        reply = answer(json.loads(sys.argv[1]))
    except NotCounted as error:
        reply = {"error": str(error)}
    except ImportError as error:
        reply = {"error": _in_a_line(error)}
    print(json.dumps(reply), file=out, flush=True)
    return 1 if "error" in reply else 0


if __name__ == "__main__":
    sys.exit(main())
