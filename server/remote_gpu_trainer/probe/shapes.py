"""Shapes and types of what layers get and give."""

from .table import finding
from .values import median, some
from .watching import Observer

SHAPE_STEPS = 8  # steps that are looked at


def autocast_is_on(kind):
    """Whether autocast is on for a kind of device."""
    import torch

    try:
        return torch.is_autocast_enabled(kind)
    except TypeError:  # before torch 2.4
        return torch.is_autocast_cpu_enabled() if kind == "cpu" else torch.is_autocast_enabled()


class Shapes(Observer):
    """Looks at batch norm, products under autocast, lengths and masks, in training."""

    name = "shapes"

    def __init__(self, watch):
        super().__init__(watch)
        self.norms = {}  # name of a batch norm class -> {id: [samples in a call]}
        self.cast = False  # whether autocast was on in this call of the outermost module
        self.products = []  # (weights, whether the output is float32) in this call
        self.shares = []  # share of the weights whose products are float32, of each call
        self.lengths = []  # (length, positions) of sequences
        self.masks = []  # whether a mask is exactly causal
        self.outputs = {}  # kind of layer -> types of its outputs

    def looking(self):
        """Whether this call belongs to the training steps that are looked at."""
        return self.watch.gradients and not self.watch.in_backward and self.watch.step < SHAPE_STEPS

    def entered(self, module, args, outermost):
        """A module is called."""
        import torch

        if not self.looking():
            return
        if outermost:
            self.cast, self.products = False, []
        if not args or not isinstance(args[0], torch.Tensor):
            return
        given = args[0]
        self.cast = self.cast or autocast_is_on(given.device.type)
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.training:
            held = self.norms.setdefault(type(module).__name__, {})
            held.setdefault(id(module), []).append(given.shape[0])
        elif isinstance(module, torch.nn.Embedding) and given.dim() == 2:
            for above in getattr(self.watch.local, "stack", None) or []:
                config = getattr(above, "config", None)
                most = getattr(config, "max_position_embeddings", None)
                if isinstance(most, int) and self.turns(config, module):
                    self.lengths.append((given.shape[1], most))
                    break

    def turns(self, config, module):
        """Whether a configuration has rotary positions that aren't scaled, and these words."""
        rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)
        plain = getattr(config, "rope_theta", None) is not None
        if isinstance(rope, dict) and "rope_type" in rope:
            plain = rope["rope_type"] == "default"
        return plain and getattr(config, "vocab_size", None) == module.num_embeddings

    def left(self, module, output):
        """A layer without layers of its own has an output."""
        import torch

        if not self.looking() or not isinstance(output, torch.Tensor):
            return
        if output.is_floating_point():
            held = self.outputs.setdefault(type(module).__name__, set())
            held.add(str(output.dtype).replace("torch.", ""))
        if isinstance(module, (torch.nn.Linear, torch.nn.modules.conv._ConvNd)):
            self.products.append((module.weight.numel(), output.dtype == torch.float32))

    def types(self):
        """{type of outputs: kinds of layers that gave it}."""
        counts = {}
        for kind, of_kind in self.outputs.items():
            for dtype in sorted(of_kind):
                counts.setdefault(dtype, []).append(kind)
        return counts

    def ended(self):
        """The outermost module has ended."""
        if self.looking() and self.cast and self.products:
            whole = sum(count for count, _ in self.products)
            self.shares.append(sum(count for count, full in self.products if full) / whole)
        self.cast, self.products = False, []

    def after_attention(self, token, result, args, kwargs):
        """F.scaled_dot_product_attention(query, key, value, attn_mask)."""
        import torch

        mask = args[3] if len(args) > 3 else kwargs.get("attn_mask")
        if not self.looking() or len(self.masks) >= 24:
            return
        if mask is None or mask.dim() < 2 or mask.shape[-1] < 4 or mask.shape[-2] != mask.shape[-1]:
            self.masks.append(False)
            return
        length = mask.shape[-1]
        allowed = mask if mask.dtype == torch.bool else mask == 0
        lower = torch.ones(length, length, dtype=torch.bool, device=mask.device).tril()
        self.masks.append(bool((allowed == lower).all()))

    def few(self):
        """(name, median of the samples in a call) of the batch norm layers."""
        names = self.watch.names()
        return [
            (names.get(key, "?"), median(rows))
            for kind, held in self.norms.items()
            if kind != "SyncBatchNorm"
            for key, rows in held.items()
            if len(rows) >= 3
        ]

    def unseen(self):
        """Why nothing can be said, if so."""
        if self.norms or self.shares or self.lengths or self.masks:
            return ""
        return "no batch norm, autocast, attention or limit of positions in training"

    def findings(self):
        """What shapes and types showed."""
        step, found = self.watch.step, []
        tiny = [(name, rows) for name, rows in self.few() if rows <= 2]
        if tiny:
            found.append(
                finding(
                    "tiny batch norm",
                    step,
                    f"{some([name for name, _ in tiny])} in training mode got {tiny[0][1]} "
                    "samples in a call",
                    samples=tiny[0][1],
                    layers=len(tiny),
                )
            )
        if len(self.shares) >= 3 and min(self.shares) > 0.5:
            found.append(
                finding(
                    "autocast doesn't reach",
                    step,
                    "autocast was on in the model's forward, and linear layers and convolutions "
                    f"with {min(self.shares):.0%} of the weights gave float32",
                    share=round(min(self.shares), 3),
                )
            )
        over = [(length, most) for length, most in self.lengths if length > most]
        if over:
            length, most = max(over)
            found.append(
                finding(
                    "longer than the positions",
                    step,
                    f"sequences of {length} tokens; max_position_embeddings is {most}, and the "
                    "rotary positions aren't scaled",
                    length=length,
                    positions=most,
                )
            )
        if len(self.masks) >= 3 and all(self.masks):
            found.append(
                finding(
                    "causal mask as a matrix",
                    step,
                    f"in all of {len(self.masks)} calls that were looked at, attn_mask allows "
                    "exactly what is_causal=True does",
                    calls=len(self.masks),
                )
            )
        return found
