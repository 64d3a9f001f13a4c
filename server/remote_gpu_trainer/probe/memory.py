"""What a process takes of its cards by torch's own counters, and the model that takes it."""

import json
import os
import sys
import threading

FOLLOWED = "RGT_PROBE_MEMORY"  # the variable that asks for it
EVERY = 0.5  # seconds between two looks
AT_THE_END = 2.0  # seconds that the last look may take
MOST_CONFIG = 20_000  # characters of a model's configuration
MOST_VALUE = 4000  # of one field of it
CONTAINERS = ("module", "_fsdp_wrapped_module", "_orig_mod")
QUANTIZED = {"Linear4bit": "4bit", "Linear8bitLt": "8bit"}


class CardCounters:
    """Follows torch's counters in a thread, and writes them where they have risen.

    A thread, since a program saves and evaluates between its steps, may reset the counters, and is
    killed. It reads numbers that the allocator keeps anyway, and never wakes a card up.
    """

    def __init__(self, watch):
        self.watch = watch
        self.peaks = {}  # number of a card -> [bytes allocated at most, bytes reserved at most]
        self.cards = {}  # number of a card -> what it is
        self.model, self.described_at = {}, 0
        self.shapes = {}  # shape of a first layer's input -> calls
        self.written = ""
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.follow_counters, name="rgt-memory", daemon=True)

    def follow_counters(self):
        """Look until the program ends. An error ends the looking alone."""
        try:
            while not self.over.wait(EVERY):
                self.read_counters()
            self.read_counters()
        except Exception as error:
            sys.stderr.write(f"probe: memory isn't followed ({type(error).__name__}: {error})\n")

    def end_thread(self):
        """Take the last look, and end the thread before the interpreter goes."""
        self.over.set()
        self.thread.join(AT_THE_END)

    def read_counters(self):
        """Read the counters, and write what has changed."""
        import torch

        if torch.cuda.is_initialized():
            for card in range(torch.cuda.device_count()):
                counted = torch.cuda.memory_stats(card)
                keys = ("allocated_bytes.all.peak", "reserved_bytes.all.peak")
                found = [counted.get(key, 0) for key in keys]
                if found[1]:
                    before = self.peaks.get(card, found)
                    self.peaks[card] = [max(pair) for pair in zip(found, before)]
                    self.cards.setdefault(card, described_card(torch, card))
        steps = self.watch.step
        if steps and steps != self.described_at and steps <= 8:
            self.model, self.described_at = described_model(self.watch), steps
        self.write_record(torch)

    def write_record(self, torch):
        """Write what is known, whole, where it differs from what was written."""
        calls = list(self.watch.parts["inputs"].calls)
        shapes = [list(call[2]) for call in calls]
        record = {
            "rank": self.watch.rank(),
            "pid": os.getpid(),
            "steps": self.watch.step,
            # Not is_available(): it starts the driver, and a child that is forked then has no card.
            "has_card": torch.cuda.is_initialized(),
            "cards": [
                {**self.cards[card], "allocated": peak[0], "reserved": peak[1]}
                for card, peak in sorted(self.peaks.items())
            ],
            "calls": len(shapes),
            "shapes": len({tuple(shape) for shape in shapes}),
            "largest": max(shapes, key=count_numbers, default=[]),
            "evaluated": any(self.watch.parts["modes"].steps),
            "model": self.model,
        }
        text = json.dumps(record, default=str)
        if text == self.written:
            return
        path = os.path.join(self.watch.folder, f"memory-{os.getpid()}.json")
        try:
            with open(path + ".part", "w", encoding="utf-8") as handle:
                handle.write(text)
            os.replace(path + ".part", path)
            self.written = text
        except OSError:
            pass  # a full disk, or the parent is gone


def count_numbers(shape):
    """How many numbers a tensor of this shape has."""
    product = 1
    for side in shape:
        product *= side
    return product


def described_card(torch, card):
    """The card by number, name, bytes, and its id where torch knows it."""
    found = torch.cuda.get_device_properties(card)
    row = {"index": card, "name": str(found.name), "total": int(found.total_memory)}
    uuid = getattr(found, "uuid", None)
    return {**row, "uuid": str(uuid)} if uuid else row


def described_model(watch):
    """What says how the largest model is trained: its configuration, types, adapters, optimizer."""
    models = watch.models()
    sizes = [sum(p.numel() for p in model.parameters()) for model in models]
    if not models:
        return {}
    outer = models[sizes.index(max(sizes))]
    names = {type(module).__name__ for module in outer.modules()} | {type(outer).__name__}
    bare = outer
    while list(bare._modules)[:2] in [[name] for name in CONTAINERS]:
        bare = next(iter(bare._modules.values()))
    kinds = {}
    for parameter in outer.parameters():
        kind = str(parameter.dtype).replace("torch.", "")
        kinds[kind] = kinds.get(kind, 0) + parameter.numel()
    adapters = getattr(bare, "peft_config", None)
    adapter = next(iter(adapters.values()), None) if isinstance(adapters, dict) else None
    optimizers = [ref["ref"]() for ref in list(watch.parts["parameters"].optimizers.values())]
    optimizer = next((one for one in optimizers if one is not None), None)
    stage = getattr(outer, "zero_optimization_stage", None)  # DeepSpeed's
    stage = stage() if callable(stage) else 0
    row = {
        "class": type(bare).__name__,
        "weights": sum(kinds.values()),
        "trained": sum(p.numel() for p in outer.parameters() if p.requires_grad),
        "types": kinds,
        "autocast": bool(watch.parts["shapes"].shares or watch.parts["shapes"].cast),
        "quantized": next((QUANTIZED[name] for name in QUANTIZED if name in names), ""),
        "lora": getattr(adapter, "r", 0) or 0,
        "targets": sorted(map(str, getattr(adapter, "target_modules", None) or ()))[:32],
        "checkpointing": watch.parts["time and memory"].checkpointed > 0,
        "optimizer": type(optimizer).__name__ if optimizer is not None else "",
        "settings": plain_fields(getattr(optimizer, "defaults", None) or {}),
        "wrapper": type(outer).__name__ if outer is not bare else "",
        "sharded": "FullyShardedDataParallel" in names
        or any(kind.__name__ == "FSDPModule" for kind in type(outer).__mro__),
        "stage": stage if isinstance(stage, int) else 0,
        "world": watch.parts["ranks"].size(),
        "accumulated": int(watch.parts["settings"].accumulated()),
    }
    return {**row, **described_config(bare)}


def described_config(model):
    """A model's configuration, as transformers has it, and the attention that it chose."""
    config = getattr(model, "config", None)
    to_dict = getattr(config, "to_dict", None)
    if to_dict is None:
        return {}
    fields = plain_fields(to_dict())
    text = json.dumps(fields)
    chosen = getattr(config, "_attn_implementation", None)
    row = {"config": fields} if len(text) <= MOST_CONFIG else {}
    name = getattr(config, "_name_or_path", None)
    return {**row, "attention": str(chosen or ""), "name": str(name or "")[:200]}


def plain_fields(fields, depth=2):
    """The fields that are short and plain, those of parts within them too."""
    plain = {}
    for key, value in fields.items():
        if isinstance(value, dict) and depth:
            plain[str(key)] = plain_fields(value, depth - 1)
        elif isinstance(value, (str, int, float, bool, type(None), list, tuple)):
            try:
                if len(json.dumps(value)) <= MOST_VALUE:
                    plain[str(key)] = value
            except (TypeError, ValueError):
                continue
    return plain
