"""Samples of the data sets, looked at in a process of its own once the first steps are over.

Two forks away from the program, nothing that a data set does can reach it: files are opened anew,
so that the program's own place in them stays, and nothing may be written, sent or started. Of the
samples, only shapes, shares, ranges and hashes are kept, and the hashes with a salt that no file
holds.
"""

import collections
import contextlib
import hashlib
import json
import math
import os
import select
import signal
import stat
import sys
import time
import warnings

from .facts import brief, count_of, fact, share
from .read_only import can_hold, hold
from .values import leaves
from .watching import Observer

MOST_SAMPLES = 2000  # of all data sets together
MOST_SECONDS = 12  # of the whole look
BLOCKS = 8  # parts of a data set, in its own order, whose numbers are compared
COLUMNS = 64  # the widest last dimension whose columns are looked at one by one
MOST_WAITING = 4  # seconds that a look may take to begin, and to end once its time is over


class DataSets(Observer):
    """Looks at the map-style data sets of the program's loaders. Streams are never touched."""

    name = "data sets"

    def sets(self):
        """(name, data set, loader) of each data set that may be looked at, training first."""
        loaders = list(self.watch.parts["batches"].loaders.values())
        loaders.sort(key=lambda one: not one.trained)
        found, known = [], set()
        for one in loaders:
            data = one.dataset()
            if data is None or one.iterable or id(data) in known:
                continue
            if not hasattr(type(data), "__getitem__") or not hasattr(type(data), "__len__"):
                continue
            known.add(id(data))
            role = "training" if one.trained else "evaluation"
            place = 1 + sum(name.split()[0] == role for name, _, _ in found)
            found.append((role if place == 1 else f"{role} {place}", data, one))
        return found[:4]

    def hindered(self):
        """Why no look may start, or an empty text."""
        import torch

        spread = torch.distributed
        if not can_hold():
            return "no process can be held to reading on this system"
        if spread.is_available() and spread.is_initialized() and "nccl" in spread.get_backend():
            return "a fork may move memory that an InfiniBand card reads (RDMAV_FORK_SAFE)"
        used, free = memory()
        if used > free:
            return "a fork may need as much memory as the program has, and less is free"
        return ""

    def facts(self):
        """That no sample was looked at, if so. What they show comes later, by itself."""
        why = self.hindered()
        return [not_looked(why)] if why else []

    def look(self):
        """Start the look. The program goes on at once, and has no new child."""
        sets = self.sets()
        if not sets or self.hindered() or self.watch.rank():
            return
        path = os.path.join(self.watch.folder, f"data-{os.getpid()}.json")
        child = fork(self.watch)
        if child:
            wait_for(child)
            return
        try:
            keeper = fork(self.watch)
            if keeper:
                with open(path + ".part", "w", encoding="ascii") as handle:
                    handle.write(str(keeper))
            else:
                keep(path, sets, self.watch)
        finally:
            os._exit(0)


def not_looked(why):
    """The fact that there was no look."""
    return fact("data/samples", f"no sample was looked at: {why}")


def memory():
    """(bytes of memory that are this process's own, bytes that are free), of what Linux tells."""
    with open("/proc/self/statm", encoding="ascii") as handle:
        _, resident, shared = map(int, handle.read().split()[:3])
    with open("/proc/meminfo", encoding="ascii") as handle:
        lines = dict(line.split(":") for line in handle)
    free = int(lines["MemAvailable"].split()[0]) * 1024
    try:
        numbers = []
        for name in ("memory.max", "memory.current"):
            with open("/sys/fs/cgroup/" + name, encoding="ascii") as handle:
                numbers.append(int(handle.read()))
        free = min(free, numbers[0] - numbers[1])
    except (OSError, ValueError):
        pass
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE"), free


def fork(watch):
    """os.fork, without Python's warning that threads run; a new process looks at no step."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if not child:
        watch.over = True
    return child


def wait_for(child, most=MOST_WAITING):
    """Wait for a process to end, and end it after `most` seconds."""
    until = time.monotonic() + most
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.005)


def keep(path, sets, watch):
    """Let a process look at data sets, end it in time, and write down what it saw."""
    let_go()
    inlet, outlet = os.pipe()
    child = fork(watch)
    if not child:
        try:
            reply = json.dumps(read_only(sets), default=str)
        except BaseException as error:
            reply = json.dumps([not_looked(f"{type(error).__name__} came up")])
        with os.fdopen(outlet, "w") as stream:
            stream.write(reply)
        os._exit(0)
    os.close(outlet)
    until, reply = time.monotonic() + MOST_SECONDS + MOST_WAITING, b""
    while select.select([inlet], [], [], max(0.0, until - time.monotonic()))[0]:
        part = os.read(inlet, 1 << 16)
        if not part:
            break
        reply += part
    os.kill(child, signal.SIGKILL)
    try:
        facts = json.loads(reply)
    except ValueError:
        facts = [not_looked("the process that did it ended early")]
    with open(path + ".part", "w", encoding="utf-8") as handle:
        json.dump({"facts": facts}, handle)
    os.rename(path + ".part", path)


def let_go():
    """Give up what this process shares with the program: signals, files, standard streams."""
    import resource

    for number in range(1, signal.NSIG):
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(19)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as handle:
        handle.write("1000")
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            anew = nothing
            if number > 2 and stat.S_ISREG(os.fstat(number).st_mode):
                with contextlib.suppress(OSError):
                    here = os.lseek(number, 0, os.SEEK_CUR)
                    anew = os.open(f"/proc/self/fd/{number}", os.O_RDONLY)
                    os.lseek(anew, here, os.SEEK_SET)
            if number != nothing:
                os.dup2(anew, number)
            if anew != nothing:
                os.close(anew)
        except OSError:
            continue  # the number of the listing itself


def read_only(sets):
    """The facts of data sets, in a process that can do nothing but read."""
    import torch

    hold()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    return facts_of(sets)


class Leaf:
    """One field of the samples of one data set: numbers, a text, or a picture."""

    def __init__(self):
        self.shapes = collections.Counter()
        self.kind = ""
        self.low, self.high = math.inf, -math.inf
        self.whole = True  # whether all numbers are whole
        self.bad = 0  # samples with a value that isn't finite
        self.hashes = {}  # hash -> number of samples
        self.blocks = [None] * BLOCKS  # [count, sums, squares] of the columns in each part
        self.values = {}  # place of the sample -> its single number
        self.size = 0


class Sampled:
    """What the samples of one data set showed."""

    def __init__(self, name, data, loader):
        self.name, self.data, self.loader = name, data, loader
        self.length = len(data)
        self.looked = 0
        self.leaves = {}
        self.random = False
        self.with_input = 0  # samples with a field that is large enough to be one
        self.labels = {}  # hash of the inputs -> set of hashes of the rest

    def look(self, most, until, salt):
        """Look at samples spread evenly over the data set."""
        for place in spread(self.length, most):
            if time.monotonic() > until:
                break
            sample = self.data[place]
            self.looked += 1
            fields = list(fields_of(sample))[:24]
            block = min(BLOCKS - 1, BLOCKS * place // max(self.length, 1))
            hashes = [self.add(name, value, place, block, salt) for name, value in fields]
            wide = tuple(hashed for hashed, big in hashes if big)
            if wide:
                rest = tuple(hashed for hashed, big in hashes if not big)
                self.labels.setdefault(hash(wide), set()).add(hash(rest))
                self.with_input += 1
            if not place:
                again = [digest(value, salt) for _, value in list(fields_of(self.data[0]))[:24]]
                self.random = again != [hashed for hashed, _ in hashes]

    def add(self, name, value, place, block, salt):
        """One field of a sample -> (its hash, whether it is large enough to be an input)."""
        import torch

        leaf = self.leaves.setdefault(name, Leaf())
        hashed = digest(value, salt)
        leaf.hashes[hashed] = leaf.hashes.get(hashed, 0) + 1
        if not isinstance(value, torch.Tensor):
            leaf.kind, leaf.size = type(value).__name__, len(value)
            return hashed, len(value) >= 16
        leaf.kind = str(value.dtype).replace("torch.", "")
        leaf.shapes[tuple(value.shape)] += 1
        leaf.size = max(leaf.size, value.numel())
        if not value.numel():
            return hashed, False
        if value.is_floating_point() and not bool(value.isfinite().all()):
            leaf.bad += 1
            return hashed, value.numel() >= 4
        numbers = value.double() if not value.is_complex() else value.abs().double()
        leaf.low = min(leaf.low, float(numbers.min()))
        leaf.high = max(leaf.high, float(numbers.max()))
        leaf.whole = leaf.whole and bool((numbers == numbers.round()).all())
        if value.numel() == 1:
            leaf.values[place] = float(numbers)
        wide = value.dim() and value.shape[-1] <= COLUMNS and value.is_floating_point()
        if wide:
            rows = numbers.reshape(-1, value.shape[-1])
            before = leaf.blocks[block]
            sums = [len(rows), rows.sum(0), rows.pow(2).sum(0)]
            if before is None:
                leaf.blocks[block] = sums
            elif before[1].shape == sums[1].shape:
                leaf.blocks[block] = [one + two for one, two in zip(before, sums)]
        return hashed, value.numel() >= 4


def spread(length, most):
    """Places of at most `most` samples; the first few of them lie all over the data set."""
    step = max(1, -(-length // max(most, 1)))
    count = -(-length // step)
    stride = max(1, round(count * 0.618))
    while math.gcd(stride, count) > 1:
        stride += 1
    return (step * (place * stride % count) for place in range(count))


def fields_of(sample):
    """(name, tensor or text or bytes) for each field of a sample."""
    import torch

    numpy = sys.modules.get("numpy")
    if isinstance(sample, (str, bytes)):
        yield "", sample
    elif isinstance(sample, (bool, int, float)):
        yield "", torch.tensor(sample)
    elif isinstance(sample, torch.Tensor):
        if sample.layout is torch.strided and not sample.is_quantized:
            yield "", sample.detach().cpu()
    elif numpy is not None and isinstance(sample, (numpy.ndarray, numpy.generic)):
        if sample.dtype.kind in "biufc":
            yield "", torch.as_tensor(numpy.ascontiguousarray(sample)).reshape(sample.shape)
    elif hasattr(sample, "tobytes") and hasattr(sample, "getbands"):
        yield "", sample.tobytes()
    elif hasattr(sample, "items") and hasattr(sample, "keys"):
        for key, value in sample.items():
            for name, part in fields_of(value):
                yield f".{key}{name}", part
    elif isinstance(sample, (list, tuple)):
        plain = isinstance(sample, list) and all(type(x) in (int, float, bool) for x in sample)
        if plain and len(sample) > 3:
            yield "", torch.tensor(sample)
            return
        for place, value in enumerate(sample[:16]):
            for name, part in fields_of(value):
                yield f"[{place}]{name}", part
    else:
        yield from ((name, part) for name, one in leaves(sample) for _, part in fields_of(one))


def digest(value, salt):
    """A salted hash of a tensor, a text or bytes."""
    hasher = hashlib.blake2b(key=salt, digest_size=8)
    if isinstance(value, str):
        hasher.update(value.encode("utf-8", "replace"))
    elif isinstance(value, bytes):
        hasher.update(value)
    else:
        import torch

        hasher.update(repr((tuple(value.shape), str(value.dtype))).encode())
        flat = value.contiguous().reshape(-1)
        if flat.numel():
            flat = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
            raw = flat.view(torch.uint8)
            hasher.update(raw.numpy().tobytes() if "numpy" in sys.modules else bytes(raw.tolist()))
    return hasher.digest()


def facts_of(sets):
    """The facts of all data sets."""
    salt, until = os.urandom(16), time.monotonic() + MOST_SECONDS
    looked, found = [], []
    for place, (name, data, loader) in enumerate(sets):
        try:
            one = Sampled(name, data, loader)
            left = len(sets) - place
            room = time.monotonic() + (until - time.monotonic()) / left
            one.look(MOST_SAMPLES // len(sets), room, salt)
            looked.append(one)
        except Exception as error:
            why = type(error).__name__  # its text may hold a sample
            found.append(fact(f"data/{name} set", f"the {name} set couldn't be read ({why})"))
    for one in looked:
        found += of_one(one, looked[0])
    # With several training sets, as the folds of a cross-validation have, which one it is for isn't
    # known.
    usual = "none" if sum(one.loader.trained > 0 for one in looked) == 1 else ""
    for other in looked[1:]:
        found += [] if other.loader.trained else between(looked[0], other, usual)
    found += numbering(sets)
    return found


def of_one(one, train):
    """Facts of one data set. Of one like the training set, only what differs is told."""
    text = f"{one.name} set: {count_of(one.length, 'sample')}, {one.looked} looked at"
    fields = [described(name, leaf) for name, leaf in one.leaves.items()]
    if one is train:
        text += ": " + ", ".join(fields[:6])
    found = [fact(f"data/{one.name} set", text, length=one.length, fields=fields)]
    repeats = one.with_input - len(one.labels)
    if one.looked >= 20 and len(one.labels) > 1 and not one.random and repeats >= 3:
        text = f"{share(repeats / one.looked)} of the {one.name} samples equal another one's inputs"
        found.append(fact(f"data/{one.name} repeats", text, share=repeats / one.looked))
    clash = sum(len(rest) > 1 for rest in one.labels.values())
    if clash and not one.random:
        text = f"{one.name} set: {count_of(clash, 'input')} with more than one label"
        usual = "one label for equal inputs" if clash >= 0.01 * len(one.labels) else ""
        found.append(fact(f"data/{one.name} clash", text, usual, inputs=clash))
    for name, leaf in one.leaves.items():
        if leaf.bad:
            text = f"{one.name} set, {name or 'value'}: {count_of(leaf.bad, 'sample')} with values"
            found.append(
                fact(
                    f"data/{one.name} nan {name}",
                    text + " that aren't finite",
                    "none",
                    bad=leaf.bad,
                )
            )
    columns = [text for name, leaf in one.leaves.items() for text in of_columns(one, name, leaf)]
    return found + columns[:1] + of_labels(one)


def described(name, leaf):
    """A field in a few words: type, shape, range."""
    size = "x".join(map(str, leaf.shapes.most_common(1)[0][0])) if leaf.shapes else leaf.size
    more = " and other lengths" if len(leaf.shapes) > 1 else ""
    span = f" {brief(leaf.low)} to {brief(leaf.high)}" if leaf.high >= leaf.low else ""
    return f"{name or 'value'} {leaf.kind} {size or 'one'}{more}{span}"


def of_columns(one, name, leaf):
    """Columns that are on another scale from one place in the data set on."""
    blocks = [block for block in leaf.blocks if block is not None and block[0] > 1]
    if leaf.whole or len(blocks) < BLOCKS or len({block[1].shape for block in blocks}) > 1:
        return []
    found = []
    means = [sums / count for count, sums, _ in blocks]
    spreads = [
        (squares / count - mean.pow(2)).clamp(min=0).sqrt().tolist()
        for (count, _, squares), mean in zip(blocks, means)
    ]
    for column in range(len(spreads[0])):
        mine = [spread[column] for spread in spreads]
        for cut in range(2, BLOCKS - 1):
            before, after = mine[:cut], mine[cut:]
            low, high = (before, after) if max(before) < min(after) else (after, before)
            if max(low) * 4 < min(high):
                text = (
                    f"{one.name} set, {name or 'value'}, column {column}: by place in the set its "
                    f"deviation is {', '.join(map(brief, mine))}"
                )
                found.append(
                    fact(f"data/{one.name} scale", text, "one scale all through", column=column)
                )
    return found


def of_labels(one):
    """How labels are spread, and whether a set that isn't shuffled is sorted by them."""
    found = []
    for name, leaf in one.leaves.items():
        values = [value for _, value in sorted(leaf.values.items())]
        whole = leaf.kind.startswith(("int", "uint", "bool"))
        if not whole or len(values) < 40 or len(values) < one.looked:
            continue
        counted = collections.Counter(values)
        if not 2 <= len(counted) <= 1000:
            continue
        even = sum((count / len(values)) ** 2 for count in counted.values())
        alike = sum(a == b for a, b in zip(values, values[1:])) / (len(values) - 1)
        most, least = max(counted.values()), min(counted.values())
        text = (
            f"{one.name} set, {name or 'value'}: {len(counted)} classes, the largest "
            f"{share(most / len(values))}, the smallest {share(least / len(values))}"
        )
        found.append(
            fact(
                f"data/{one.name} classes {name}",
                text,
                classes=len(counted),
                most=most / len(values),
                least=least / len(values),
            )
        )
        if alike > 0.5 + even / 2 and one.loader.trained and not one.loader.shuffles:
            text = (
                f"{one.name} set is stored by {name or 'value'}: {share(alike)} of neighbours "
                f"have one class, {share(even)} would by chance"
            )
            found.append(
                fact(f"data/{one.name} sorted", text, "a loader that shuffles", alike=alike)
            )
    return found[:4]


def between(train, other, usual):
    """Samples of one data set that lie in the training set too, by their first telling field.

    Those after it may be labels, which are alike in both.
    """
    found = []
    for name, leaf in other.leaves.items():
        mine = train.leaves.get(name)
        if mine is None or leaf.size < 8 or train.random or other.random:
            continue
        # A field with few values, as a mask, is the same in many samples.
        if len(mine.hashes) < 0.8 * train.looked or len(leaf.hashes) < 0.8 * other.looked:
            continue
        both = sum(count for told, count in leaf.hashes.items() if told in mine.hashes)
        if both >= 3:
            # Of a training set that was looked at in part, as many more lie in the rest.
            part = min(1.0, both / other.looked * train.length / train.looked)
            text = (
                f"{share(part)} of the {other.name} samples' {name or 'value'} equal one of the "
                f"training set's, by {count_of(both, 'pair')} among {train.looked:,} and "
                f"{other.looked:,} samples"
            )
            place = f"data/{other.name} overlap {name}"
            found.append(fact(place, text, usual, share=part))
        break
    return found


def numbering(sets):
    """Tables from names to numbers that differ between the data sets."""
    tables = {}
    for name, data, _ in sets:
        for path, table in tables_of(data):
            tables.setdefault(path, []).append((name, table))
    found = []
    for path, held in tables.items():
        (first, table), *rest = held
        for name, other in rest:
            both = set(table) & set(other)
            differ = sum(table[key] != other[key] for key in both)
            alone = len(set(table) ^ set(other))
            if (differ or alone) and both and all(map(numbers, (table, other))):
                text = (
                    f"{path} of the {first} and the {name} set: {count_of(differ, 'name')} with "
                    f"another number, {count_of(alone, 'name')} in one of them only"
                )
                found.append(
                    fact(f"data/table {path}", text, "the same table", differ=differ, alone=alone)
                )
    return found[:3]


def numbers(table):
    """Whether a table numbers its names one by one, and doesn't count them or the like."""
    values = set(table.values())
    return len(values) == len(table) and max(values) - min(values) < 2 * len(values)


def tables_of(data, depth=3):
    """(path, table) of tables from texts to whole numbers within a data set."""
    todo, known = [("", data, 0)], set()
    while todo and len(known) < 200:
        path, thing, level = todo.pop(0)
        if id(thing) in known:
            continue
        known.add(id(thing))
        held = getattr(thing, "__dict__", None)
        if not isinstance(held, dict):
            continue
        for key, value in list(held.items())[:64]:
            if isinstance(value, dict) and 2 <= len(value) <= 200000:
                if all(isinstance(k, str) and isinstance(v, int) for k, v in value.items()):
                    yield f"{key}", value
            elif level < depth and hasattr(value, "__dict__") and not callable(value):
                todo.append((f"{path}.{key}", value, level + 1))
