"""What data loaders hand out: order, repeats, ranges, and the time that it takes."""

import collections
import time
import weakref

from .facts import fact, share
from .table import finding
from .token_rows import TokenRows
from .values import fingerprint, leaves, median, row_prints, strided
from .watching import Observer

MOST_KNOWN_ROWS = 4096  # rows of a rank that are compared with those of the others
RANDOM = ("RandomSampler", "SeedableRandomSampler")


def held_weakly(thing):
    """A call that gives a thing, or None once it is gone. What can't be held so stays."""
    try:
        return weakref.ref(thing)
    except TypeError:
        return lambda: thing


def shares_in(tensor, most=4096):
    """{value: share} of the whole numbers in a tensor, by a sample; {} where they are many."""
    counted = collections.Counter(strided(tensor, most).reshape(-1).tolist())
    total = sum(counted.values())
    return {value: n / total for value, n in counted.items()} if len(counted) <= 256 else {}


def distance(one, two):
    """How unlike two shares are: 0 for equal ones, 1 where nothing is in both."""
    return sum(abs(one.get(k, 0) - two.get(k, 0)) for k in {*one, *two}) / 2


class Loader:
    """What one loader handed out. Loaders of the same dataset count as one."""

    def __init__(self, loader):
        self.dataset = held_weakly(getattr(loader, "dataset", None))
        try:
            self.length = len(loader)  # batches of an epoch
        except TypeError:  # a stream has none
            self.length = 0
        self.rows = 0
        self.token_rows = TokenRows()
        self.labels = []  # {value: share} of the whole-number labels of each batch
        self.workers = loader.num_workers
        self.persistent = loader.persistent_workers
        self.pinned = loader.pin_memory
        batches = getattr(loader, "batch_sampler", None)
        # A loader that was given batches has a sampler that it doesn't use.
        sampler = getattr(batches, "sampler", None) or getattr(loader, "sampler", None)
        self.sampler = type(sampler).__name__
        self.shuffles = self.sampler in RANDOM or bool(getattr(sampler, "shuffle", False))
        if batches is not None and type(batches).__name__ != "BatchSampler":
            self.sampler = type(batches).__name__  # one of the program's own
        self.iterable = self.sampler == "_InfiniteConstantSampler"
        self.epochs = []  # [hash of each batch]
        self.inputs = []  # [(hash of the inputs, hash of the labels) of each batch]
        self.trained = self.evaluated = 0
        self.waits = []  # seconds for each batch
        self.firsts = []  # seconds for the first batch of each epoch
        self.plain = True
        self.spreads = {}  # (name, shape) of the first wide input -> [(mean, deviation)]
        self.images = []  # (lowest, highest, mean, whole numbers) of image-like inputs


class Batches(Observer):
    """Looks at each batch as it leaves its loader."""

    name = "batches"

    def __init__(self, watch):
        super().__init__(watch)
        self.loaders, self.of_iterator = {}, weakref.WeakKeyDictionary()
        self.last = None  # the loader of the newest batch
        self.drawn = 0  # batches since the last step
        self.last_tokens = None  # (rows, length, real tokens, padding value, its share)
        self.ends = []  # (last tokens have a label, those before them are their own, rows)
        self.order = []  # hashes of training batches
        self.last_rows = []  # hashes of the newest batch's rows, where other ranks have theirs
        self.rows_known = set()  # of training batches, up to the first row that came before
        self.is_first_pass, self.row_batches = True, 0
        self.started = 0.0

    def after_begin(self, token, result, args, kwargs):
        """An iterator was made."""
        self.new_epoch(args[0], args[1] if len(args) > 1 else kwargs["loader"])

    def after_reset(self, token, result, args, kwargs):
        """A persistent iterator begins anew."""
        first = args[2] if len(args) > 2 else kwargs.get("first_iter", False)
        if not first and args[0] in self.of_iterator:
            self.new_epoch(args[0], args[1] if len(args) > 1 else kwargs["loader"])

    def new_epoch(self, iterator, loader):
        """Start the list of an epoch."""
        key = (id(loader.dataset), loader.batch_size, loader.num_workers)
        own = self.loaders.get(key)
        if own is None:
            own = self.loaders[key] = Loader(loader)
        self.of_iterator[iterator] = own
        own.epochs.append([])
        own.inputs.append([])

    def before_next(self, args, kwargs):
        """Start the clock."""
        return time.perf_counter()

    def after_next(self, token, result, args, kwargs):
        """Look at a batch."""
        wait = time.perf_counter() - token
        loader = self.of_iterator.get(args[0])
        if loader is None:
            return
        self.last = loader
        self.drawn += 1
        self.watch.parts["time and memory"].newly_waited += wait
        if not loader.epochs[-1]:
            loader.firsts.append(wait)
        elif self.watch.step:  # as the clock of the steps, which begins after the first one
            loader.waits.append(wait)
        found = list(leaves(result))[:16]
        prints = [fingerprint(tensor) for _, tensor in found]
        loader.epochs[-1].append(hash(tuple(prints)))
        wide = [p for p, (_, t) in zip(prints, found) if t.is_floating_point() and t.dim() >= 2]
        rest = [
            p for p, (_, t) in zip(prints, found) if not (t.is_floating_point() and t.dim() >= 2)
        ]
        loader.inputs[-1].append((tuple(wide), tuple(rest)))
        if not isinstance(result, (dict, list, tuple)) and not hasattr(result, "keys"):
            import torch

            loader.plain = isinstance(result, torch.Tensor) or hasattr(result, "pin_memory")
        if self.is_first_pass and self.watch.parts["ranks"].size() > 1:
            self.last_rows = row_prints([tensor for _, tensor in found])
        loader.rows = loader.rows or next((len(t) for _, t in found if t.dim()), 0)
        self.labels_in(loader, found)
        self.rows_in(loader, dict(found))
        self.spread_in(loader, found)
        self.images_in(loader, found)
        self.last_tokens = None
        self.tokens_in(dict(found))

    def spread_in(self, loader, found):
        """Mean and deviation of the first floating input with rows."""
        for name, tensor in found:
            if tensor.is_floating_point() and tensor.dim() >= 2 and tensor.numel() >= 64:
                rows = loader.spreads.setdefault((name, tuple(tensor.shape[1:])), [])
                if len(rows) < 16:
                    part = strided(tensor, 4096).float()
                    rows.append((float(part.mean()), float(part.std())))
                return

    def labels_in(self, loader, found):
        """The labels of a batch: its last whole numbers, where the inputs aren't tokens too."""
        whole = [t for _, t in found if not t.is_floating_point() and not t.is_complex()]
        inputs = [t for _, t in found if t.is_floating_point() and t.dim() >= 2]
        if whole and inputs and whole[-1].numel() >= 4 and len(loader.labels) < 64:
            loader.labels.append(shares_in(whole[-1]))

    def rows_in(self, loader, named):
        """Rows of tokens and of labels: by their names, else the first and the last."""
        whole = {
            name: t
            for name, t in named.items()
            if t.dim() == 2 and t.shape[1] >= 8 and not t.is_floating_point()
            and not t.is_complex() and "mask" not in name and int(t.max()) > 1
        }  # fmt: skip
        tokens = next((t for n, t in whole.items() if n.endswith("input_ids")), None)
        labels = next((t for n, t in whole.items() if n.endswith("labels")), None)
        if tokens is None and len(whole) >= 2:
            tokens, labels = list(whole.values())[0], list(whole.values())[-1]
        if tokens is not None and labels is not None and tokens.shape == labels.shape:
            loader.token_rows.add(tokens, labels)

    def rows(self):
        """The rows of a batch that trains; 0 where no loader gave one."""
        training = self.training()
        return training[0].rows if training else 0

    def facts(self):
        """The loaders, repeats, and whether batches lie in the order of their labels."""
        found = []
        for loader in self.training()[:2]:
            seen = sum(map(len, loader.epochs))
            order = "shuffled" if loader.shuffles else f"by {loader.sampler}"
            order = "a stream" if loader.iterable else order
            length = f"{loader.length:,} batches an epoch" if loader.length else "length unknown"
            text = (
                f"training loader: {length}, {order}, {loader.workers} workers; {seen} batches seen"
            )
            found.append(
                fact(
                    "data/loader",
                    text,
                    length=loader.length,
                    rows=loader.rows,
                    shuffled=loader.shuffles,
                    workers=loader.workers,
                )
            )
            within = [len(epoch) - len(set(epoch)) for epoch in loader.epochs]
            if sum(within):
                text = f"{sum(within)} of {seen} training batches came twice within an epoch"
                found.append(fact("data/repeated batches", text, "none", repeats=sum(within)))
            found += self.of_neighbours(loader)
            found += loader.token_rows.facts("training", self.watch.final)
        return found

    def of_neighbours(self, loader):
        """Whether batches that follow each other have more alike labels than others."""
        labels = [one for one in loader.labels if one]
        if len(labels) < 8:
            return []
        near = [distance(a, b) for a, b in zip(labels, labels[1:])]
        far = [distance(labels[i], labels[j]) for i in range(len(labels)) for j in range(i - 2)]
        near, far = sum(near) / len(near), sum(far) / len(far)
        if far < 0.05 or near > 0.6 * far:
            return []
        text = (
            f"labels of batches that follow each other differ by {share(near)}, of others by "
            f"{share(far)}: the data come in blocks"
        )
        return [fact("data/blocks", text, "as unlike as any two", near=near, far=far)]

    def of_scales(self, step):
        """Inputs of the same shape in training and evaluation, on unlike scales."""
        for train in self.training():
            for key, rows in train.spreads.items():
                for other in self.loaders.values():
                    theirs = [] if other.trained else other.spreads.get(key, [])
                    if len(rows) < 3 or not theirs:
                        continue
                    mean, deviation = (median([row[i] for row in rows]) for i in (0, 1))
                    mean2, deviation2 = (median([row[i] for row in theirs]) for i in (0, 1))
                    wide, narrow = max(deviation, deviation2), min(deviation, deviation2)
                    if wide > 4 * narrow or abs(mean - mean2) > 3 * wide > 0:
                        return [
                            finding(
                                "other inputs in evaluation",
                                step,
                                f"inputs of shape {list(key[1])} have a mean of {mean:.3g} and a "
                                f"deviation of {deviation:.3g} in training, {mean2:.3g} and "
                                f"{deviation2:.3g} in a loader that only evaluates",
                                mean=mean,
                                deviation=deviation,
                                mean_there=mean2,
                                deviation_there=deviation2,
                            )
                        ]
        return []

    def images_in(self, loader, found):
        """The range of image-like inputs."""
        for _, tensor in found:
            shape = tensor.shape
            small = tensor.dim() == 4 and tensor.is_floating_point() and min(shape[2:]) >= 8
            if small and shape[1] in (1, 3) and len(loader.images) < 30:
                part = strided(tensor, 4096).float()
                whole = bool((part == part.round()).all())
                loader.images.append(
                    (float(part.min()), float(part.max()), float(part.mean()), whole, shape[1])
                )
                return

    def tokens_in(self, named):
        """Rows of labels: how many real tokens the mask counts, or what the rows end in."""
        mask = next((t for n, t in named.items() if n.endswith("attention_mask")), None)
        labels = next((t for n, t in named.items() if n.endswith("labels")), None)
        wholes = [
            t
            for t in named.values()
            if t.dim() == 2 and not t.is_floating_point() and t.shape[1] >= 4
        ]
        if mask is not None and labels is not None and mask.shape == labels.shape:
            if mask.dim() != 2 or mask.is_floating_point() or int(mask.max()) > 1:
                return
            self.last_tokens = (*mask.shape, int(mask.sum()), None, 0.0)
            tokens = next((t for n, t in named.items() if n.endswith("input_ids")), None)
            if tokens is not None and tokens.shape == labels.shape:
                self.ends_in(mask, labels, tokens)
        elif mask is None and wholes:
            rows = wholes[-1]
            ends = rows[:, -1]
            value = int(ends.mode().values)
            run = (rows != value).flip(1).int().cumsum(1) == 0
            lengths = run.sum(1)
            if int((lengths >= 1).sum()) >= 0.5 * len(rows) and len(set(lengths.tolist())) > 2:
                share = float(lengths.sum()) / rows.numel()
                self.last_tokens = (*rows.shape, None, value, share)

    def ends_in(self, mask, labels, tokens):
        """Whether the last real token of padded rows is its own label, as the one before it is.

        Labels of another kind, as a tag for each token, say nothing of an end.
        """
        lengths = mask.sum(1)
        right = (mask[:, 0] == 1) & (lengths < mask.shape[1]) & (lengths > 1)
        rows = right.nonzero().reshape(-1)
        if len(rows):
            last, before = lengths[rows] - 1, lengths[rows] - 2
            learned = int((labels[rows, last] != -100).sum())
            copied = int((labels[rows, before] == tokens[rows, before]).sum())
            self.ends.append((learned, copied, len(rows)))

    def trained(self):
        """A loss goes back: the newest batch was for training."""
        if self.last is not None:
            self.last.trained += 1
            if self.last.epochs and self.last.epochs[-1] and len(self.order) < 64:
                self.order.append(self.last.epochs[-1][-1])
            self.see_rows()

    def see_rows(self):
        """Keep the rows of the newest batch, until an epoch is over or one of them comes again."""
        rows, self.last_rows = self.last_rows, []
        if not rows or self.last is None or not self.is_first_pass:
            return
        again = not self.rows_known.isdisjoint(rows) or len(set(rows)) < len(rows)
        full = len(self.rows_known) >= MOST_KNOWN_ROWS
        self.is_first_pass = not (again or full or len(self.last.epochs) > 1)
        if self.is_first_pass:
            self.rows_known.update(rows)
            self.row_batches += 1

    def other_than_training(self):
        """Whether the newest batch comes from a loader that no training step used."""
        return self.last is not None and not self.last.trained

    def most_epochs(self):
        """How many epochs the training loader began."""
        return max([len(loader.epochs) for loader in self.training()] or [0])

    def training(self):
        """The loaders whose batches were trained on."""
        return [loader for loader in self.loaders.values() if loader.trained]

    def told(self):
        """What the parent compares between ranks."""
        return {
            "batches": self.order[:32],
            # What comes with every batch, such as a table of classes, isn't of the samples.
            "rows": sorted(self.rows_known) if self.row_batches >= 3 else [],
            "spread": self.watch.parts["ranks"].has_replicas,
        }

    def unseen(self):
        """Why nothing can be said, if so."""
        return "" if self.training() else "no batch of a DataLoader was trained on"

    def findings(self):
        """What the batches showed."""
        found, step = [], self.watch.step
        for loader in self.training():
            found += self.of_order(loader, step) + self.of_images(loader, step)
            if loader.pinned and not loader.plain:
                found.append(
                    finding(
                        "pinning has no effect",
                        step,
                        "the loader has pin_memory=True, and its batches are objects of a class "
                        "without pin_memory()",
                    )
                )
        for loader in self.loaders.values():
            epochs = [inputs for inputs in loader.inputs if len(inputs) >= 2]
            if not loader.trained and loader.sampler == "SequentialSampler" and len(epochs) >= 2:
                pairs = [
                    (a, b)
                    for one, two in zip(epochs, epochs[1:])
                    for a, b in zip(one, two)
                    if a[1] == b[1] and a[0] and b[0]
                ]
                differ = [pair for pair in pairs if pair[0][0] != pair[1][0]]
                if pairs and len(differ) > 0.5 * len(pairs):
                    found.append(
                        finding(
                            "random evaluation data",
                            step,
                            f"{len(differ)} of {len(pairs)} evaluation batches had other inputs "
                            "in the next pass, with the "
                            "same labels in the same order",
                            batches=len(differ),
                        )
                    )
        found += self.of_scales(step)
        rows = sum(count for _, _, count in self.ends)
        if rows >= 16 and not sum(last for last, _, _ in self.ends):
            before = sum(before for _, before, _ in self.ends)
            if before > 0.5 * rows:
                found.append(
                    finding(
                        "end is never learned",
                        step,
                        f"in {rows} padded rows the last token that the mask counts has the "
                        "label -100, and "
                        f"the one before it has a label in {before}",
                        rows=rows,
                    )
                )
        return found

    def of_order(self, loader, step):
        """Epochs in the same order, and batches that come several times."""
        epochs = [epoch for epoch in loader.epochs if epoch]
        if loader.iterable and loader.workers >= 2 and epochs:
            first = epochs[0][: len(epochs[0]) // loader.workers * loader.workers]
            groups = [first[i : i + loader.workers] for i in range(0, len(first), loader.workers)]
            alike = all(len(set(group)) == 1 for group in groups)
            if alike and len({group[0] for group in groups}) >= 3:
                return [
                    finding(
                        "workers repeat the stream",
                        step,
                        f"with {loader.workers} workers each batch came {loader.workers} times in "
                        "a row",
                        workers=loader.workers,
                    )
                ]
        pairs = [
            (one, following)
            for one, following in zip(epochs, epochs[1:])
            if min(len(one), len(set(one)), len(following)) >= 3
        ]
        same = [pair for pair in pairs if pair[0][: len(pair[1])] == pair[1][: len(pair[0])]]
        if not same or len(same) < len(pairs):
            return []
        text = (
            f"{len(same) + 1} epochs of {len(same[0][0])} batches had the same batches in the same "
            "order"
        )
        if "Distributed" in loader.sampler and loader.shuffles:
            return [finding("set_epoch missing", step, text, epochs=len(same) + 1)]
        if loader.shuffles:
            return [
                finding(
                    "same order each epoch",
                    step,
                    text + ", from a shuffling sampler",
                    level="wrong",
                    epochs=len(same) + 1,
                )
            ]
        return [
            finding(
                "same order each epoch", step, text + ", without shuffling", epochs=len(same) + 1
            )
        ]

    def of_images(self, loader, step):
        """Images from 0 to 255, or unlike what pretrained weights were trained on."""
        if len(loader.images) < 3:
            return []
        low = min(image[0] for image in loader.images)
        high = max(image[1] for image in loader.images)
        mean = sum(image[2] for image in loader.images) / len(loader.images)
        if low >= 0 and high > 100:
            return [
                finding(
                    "images from 0 to 255",
                    step,
                    f"image-like inputs of a floating type lie between {low:g} and {high:g}",
                    lowest=low,
                    highest=high,
                )
            ]
        pretrained = self.watch.parts["checkpoints"].pretrained
        colour = all(image[4] == 3 for image in loader.images)
        if low >= 0 and high <= 1 and pretrained and colour and mean > 0.1:
            return [
                finding(
                    "images aren't normalised",
                    step,
                    f"weights were loaded into {pretrained} before training, and its images lie "
                    f"between {low:.3g} "
                    f"and {high:.3g} with a mean of {mean:.3g}",
                    mean=mean,
                )
            ]
        return []
