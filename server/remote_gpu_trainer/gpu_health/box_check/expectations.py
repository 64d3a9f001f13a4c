"""Expectations (--expect): what was paid for, and what the job needs."""

import re

from ...logs.kernel.places import short
from .box import amd_cards
from .cards import NVLINKS, sku_of
from .judge_host import processors_of
from .names import did_you_mean, is_called, meant_by
from .text import as_dict, state, version

# name -> (kind of its value, what it is)
EXPECT = {
    "gpus": ("count", "number of GPUs"),
    "name": (
        "text",
        "the card, as you or the driver writes it: H100 (the SXM board), H100 PCIe, 4090, L40S",
    ),
    "vram": (
        "memory",
        "GiB of each card (80, 80GB, 81920MiB); 0.90 is enough; under MIG the largest instance",
    ),
    "nvlink": ("links", "all, or links per GPU"),
    "driver": ("version", "version"),
    "torch": ("build", "version, or its CUDA as cu130 (needs --python)"),
    "cuda": ("build", "of torch (needs --python)"),
    "cc": ("version", "compute capability"),
    "bf16": ("yes", "yes or no"),
    "fp8": ("yes", "yes or no"),
    "p2p": ("yes", "yes or no"),
    "pcie": ("count", "width"),
    "pciegen": ("count", "highest generation"),
    "ecc": ("yes", "on or off"),
    "mig": ("yes", "on or off"),
    "disk": ("size", "GiB free on the largest writable path (500, 500GB, 4TiB)"),
    "shm": ("size", "GiB of /dev/shm"),
    "ram": ("size", "GiB that the box, or this container of it, may use"),
    "cpus": ("count", "processors that the box, or this container of it, may use"),
    "log": ("yes", "no: accept that this box's kernel log can't be read"),
}
# kind -> (what is expected, the operators it can have)
KINDS = {
    "count": ("a number", "= == >= <= > <"),
    "size": ("a size: 500, 500GB, 500GiB or 4TB", "= == >= <= > <"),
    "memory": ("a size: 80, 80GB or 81920MiB", "= == >= <= > <"),
    "version": ("a version: 550 or 9.0", "= == >= <= > <"),
    "build": ("a version or a CUDA: 2.6, or cu130 with =", "= == >= <= > <"),
    "links": ("all or a number", "= == >="),
    "yes": ("yes or no", "= =="),
    "text": ("a word", "= =="),
}
YES, NO = ("yes", "on", "true", "1", "enabled"), ("no", "off", "false", "0", "disabled")
# Unit -> GiB
GIB = {
    "": 1.0,
    "g": 1.0,
    "gib": 1.0,
    "gb": 1e9 / (1 << 30),
    "t": 1024.0,
    "tib": 1024.0,
    "tb": 1e12 / (1 << 30),
    "m": 1 / 1024.0,
    "mib": 1 / 1024.0,
    "mb": 1e6 / (1 << 30),
}


def value_of(kind, text):
    """The value of a text, or None if it isn't of this kind."""
    low = text.lower()
    if kind == "text":
        return text
    if kind == "yes":
        return True if low in YES else False if low in NO else None
    if kind == "links" and low == "all":
        return "all"
    if kind in ("count", "links"):
        match = re.match(r"(?:x|gen)?(\d{1,6})$", low)
        return int(match.group(1)) if match else None
    if kind in ("size", "memory"):
        return gib_of(low, kind)
    if kind == "build" and re.match(r"cu\d{2,4}$", low):
        return low
    return version(low) if re.match(r"v?\d{1,6}(?:\.\d{1,6}){0,4}$", low) else None


def gib_of(text, kind):
    """The GiB of a size in lower case, or None. A card (`memory`) of 80 GB has 80 GiB."""
    match = re.match(r"(\d{1,9}(?:\.\d{1,3})?) ?([a-z]{0,3})$", text)
    if not match:
        return None
    unit = match.group(2)
    if kind == "memory" and unit in ("gb", "tb", "mb"):
        unit = unit[:1] + "ib"
    return float(match.group(1)) * GIB[unit] if unit in GIB else None


def expectations_of(text):
    """'gpus=8,driver>=550' -> [(name, operator, value as typed, value)].

    Raises ValueError with what is wrong and what to do.
    """
    out = []
    for part in (text or "").split(","):
        if not part.strip():
            continue
        match = re.match(r"\s*([a-z0-9]+)\s*(>=|<=|==|=|>|<)\s*(\S.*?)\s*$", part)
        if not match or match.group(1) not in EXPECT:
            match, names = repr(part.strip()), ", ".join(sorted(EXPECT))
            raise ValueError(
                f"--expect: can't read {match}; write NAME=VALUE with one of these names: {names}"
            )
        what, operator, want = match.groups()
        kind = EXPECT[what][0]
        words, operators = KINDS[kind]
        value = value_of(kind, want)
        if (
            value is None
            or operator not in operators.split()
            or (kind == "build" and isinstance(value, str) and operator not in ("=", "=="))
        ):
            raise ValueError(
                f"--expect: can't read {short(part, 60)!r}; write {what}, one of {operators}, "
                f"and {words} (--expect help describes the names)"
            )
        out.append((what, operator, want, value))
    return out


def compare(got, operator, want):
    """Compare a value with the wanted one. Versions are equal if they begin alike."""
    if isinstance(got, tuple):
        got = got[: len(want)] if operator in ("=", "==") else got
    return {
        "=": got == want,
        "==": got == want,
        ">=": got >= want,
        "<=": got <= want,
        ">": got > want,
        "<": got < want,
    }[operator]


def at_least(operator):
    """Return the operator for a size: `=` means at least as much."""
    return ">=" if operator in ("=", "==") else operator


class Expectation:
    """One expectation, and the findings about it."""

    def __init__(self, add, what, operator, want, value):
        """`want` is the value as typed, `value` as `value_of` gives it."""
        self.add, self.what, self.operator, self.want, self.value = add, what, operator, want, value

    def miss(self, gpu, got, entry="sku", meaning=""):
        """Add the finding that it isn't met. `meaning`: what the wanted value stands for."""
        expected = (self.what, self.operator, self.want + meaning)
        key = "expect " + self.what
        self.add(gpu, "not_as_expected", self.what, got, expected=expected, entry=entry, key=key)

    def unknown(self):
        """Add the finding that it is unknown whether it is met."""
        expected = (self.what, self.operator, self.want)
        key = "expect " + self.what
        self.add(None, "expectation_untold", self.what, expected=expected, key=key)

    def fits(self, got, operator=None):
        """Whether a value is as wanted."""
        return compare(got, operator or self.operator, self.value)

    def check_memory(self, label, gib, where=""):
        """The memory of a card: 0.9 of what is wanted is enough, because the driver keeps some."""
        equal = self.operator in ("=", "==", ">=")
        if not compare(gib, at_least(self.operator), self.value * (0.9 if equal else 1.0)):
            self.miss(label, f"{gib:.1f} GiB{where}")


def judge_expectations(box, expectations, add):
    """Compares the box, and each GPU that answers, with what is expected."""
    cards = amd_cards(box)
    answered = [gpu for gpu in box.gpus if gpu.seen - {"list", "nvlink"} or not box.sources]
    for what, operator, want, value in expectations:
        expectation = Expectation(add, what, operator, want, value)
        if what == "gpus":
            expect_count(box, cards, answered, expectation)
        elif what in ("disk", "shm", "ram"):
            expect_size(box, expectation)
        elif what == "cpus":
            expect_processors(box, expectation)
        elif what in ("torch", "cuda"):
            expect_torch(as_dict(box.proc.get("torch")), expectation)
        elif what == "driver":
            expect_driver(box, expectation)
        elif what != "log":  # `judge` reads it: an unreadable log is then no finding
            expect_of_gpus(cards, answered, expectation)


def expect_driver(box, expectation):
    """driver: its version."""
    if not box.driver:
        expectation.unknown()
    elif not expectation.fits(version(box.driver)):
        expectation.miss(None, box.driver, "torch_driver")


def expect_of_gpus(cards, answered, expectation):
    """Compare each GPU that answers and isn't lost. Of AMD's cards only the memory is compared."""
    if expectation.what == "vram" and cards:
        for label, card in cards:
            expectation.check_memory(label, int(card["mem_info_vram_total"]) / float(1 << 30))
    elif expectation.what == "name" and cards:
        for label, card in cards:
            expect_amd_name(label, card, expectation)
    elif not answered:
        expectation.unknown()
    for gpu in answered:
        if not expectation.add.has("lost", gpu.label):
            EXPECT_OF_GPU[expectation.what](gpu, expectation)


def expect_count(box, cards, answered, expectation):
    """gpus: the number of NVIDIA and AMD cards."""
    listed = len({gpu.label for gpu in box.gpus}) + len(cards)
    # nvidia-smi came back, and no card was seen: there is none for this job.
    asked = (
        box.recorded and not box.late and not any(box.exit[name]["timed_out"] for name in box.exit)
    )
    known = answered or cards or asked or any(kind == "no_devices" for kind, _ in box.failures)
    if not known and not box.gpus:
        expectation.unknown()
    elif not expectation.fits(listed):
        expectation.miss(None, str(listed))


def expect_size(box, expectation):
    """disk, shm and ram, in GiB."""
    disks = dict(as_dict(box.proc.get("disks")))
    shm = as_dict(disks.pop("/dev/shm", None))
    writable = [disk for disk in map(as_dict, disks.values()) if not disk.get("read_only")]
    free = [disk.get("free_mib") for disk in writable]
    memory, limit = as_dict(box.proc.get("memory")), as_dict(box.proc.get("cgroup"))
    got = {
        "disk": max([size for size in free if isinstance(size, (int, float))] or [0]),
        "shm": shm.get("total_mib"),
        "ram": min(filter(None, (limit.get("limit_mib"), memory.get("total_mib"))), default=None),
    }[expectation.what]
    if not isinstance(got, (int, float)) or not got:
        expectation.unknown()
    elif not expectation.fits(got / 1024.0, at_least(expectation.operator)):
        entry = expectation.what if expectation.what in ("disk", "shm") else ""
        expectation.miss(None, f"{got / 1024.0:.1f} GiB", entry)


def expect_processors(box, expectation):
    """cpus: those that the job may use."""
    got = processors_of(box)
    if got is None:
        expectation.unknown()
    elif not expectation.fits(got, at_least(expectation.operator)):
        expectation.miss(None, f"{got:.4g}", "")


def expect_torch(torch, expectation):
    """torch and cuda: a version, or torch's CUDA as cu130."""
    installed = torch.get("torch" if expectation.what == "torch" else "cuda")
    if not torch.get("torch"):
        expectation.unknown()
    elif isinstance(expectation.value, str):
        cuda = torch.get("cuda")
        if "cu" + str(cuda or "").replace(".", "") != expectation.value:
            expectation.miss(None, f"{short(torch['torch'], 40)}, CUDA {cuda}", "torch_driver")
    elif not expectation.fits(version(installed)):
        expectation.miss(None, short(installed, 40), "")


def expect_name(gpu, expectation):
    """name: exactly this card, in any form of its name; all outputs have to agree."""
    names = sorted(set(gpu.cells.get("name", [])))
    if not gpu.name:
        expectation.unknown()
    elif not is_called(gpu.name, expectation.want):
        miss_name(expectation, gpu.label, gpu.name)
    elif expectation.add.has("identity", gpu.label) and len(names) > 1:
        expectation.miss(gpu.label, " and ".join(sorted(gpu.cells["name"])))


def expect_amd_name(label, card, expectation):
    """name, of an AMD card: sysfs has it on server cards only."""
    name, meant = str(card.get("product_name") or ""), meant_by(expectation.want)
    if name and not is_called(name, expectation.want):
        miss_name(expectation, label, name)
    elif not name and meant and not any(sku.startswith("MI") for sku in meant):
        miss_name(expectation, label, "an AMD card")
    elif not name:
        expectation.unknown()


def miss_name(expectation, label, name):
    """Add the finding that a card has another name than the wanted one, or that no card has that.

    A name that nobody knows is no proof of a wrong card: it may be misspelt, or newer than the
    table.
    """
    meant = meant_by(expectation.want)
    if meant:
        said = len(meant) > 1 or meant[0].lower() != expectation.want.lower()
        expectation.miss(label, name, meaning=" ({})".format(", ".join(meant)) if said else "")
        return
    near = did_you_mean(expectation.want)
    hint = "did you mean {}?".format(" or ".join(near)) if near else "write it as the driver does"
    wanted = (short(expectation.want, 40), name)
    expectation.add(None, "unknown_name", *wanted, do=(hint,), key="expect name")


def expect_vram(gpu, expectation):
    """vram: GiB of the card, or under MIG of the largest instance (3g.40gb)."""
    got, names = gpu.number("memory.total"), gpu.migs or []
    slices = [int(size) for name in names for size in re.findall(r"\.(\d{1,4})gb", name)]
    if gpu.mig and slices:
        expectation.check_memory(gpu.label, max(slices), " in the largest MIG instance")
    elif got is None or gpu.mig:
        expectation.unknown()
    else:
        expectation.check_memory(gpu.label, got / 1024.0)


def expect_nvlink(gpu, expectation):
    """nvlink: active links, or as many as a card of this name has."""
    links = gpu.links or {}
    live = [speed for speed in links.values() if speed is not None]
    known = next((links for pattern, links, _ in NVLINKS if re.search(pattern, gpu.name)), None)
    need = expectation.value if expectation.value != "all" else max(known or 1, len(links))
    if gpu.links is None:
        expectation.unknown()
    elif len(live) < need and not (expectation.add.has("nvlink", gpu.label) and live):
        expectation.miss(gpu.label, f"{len(live)} active links", "")
    elif len(live) < need:
        # One fault is one finding, with the level of an unmet expectation.
        for other in expectation.add.list:
            if other["gpu"] == gpu.label and "NVLink" in other["evidence"]:
                other["level"] = "fatal"


def expect_type(gpu, expectation):
    """bf16 and fp8, by the table of cards."""
    sku = sku_of(gpu.name)
    if sku is None:
        expectation.unknown()
    elif sku[expectation.what] != expectation.value:
        supported = "yes" if sku[expectation.what] else "no"
        evidence = f"{gpu.name}: {supported}"
        if expectation.what == "bf16":  # no entry is about cards without fp8
            expectation.miss(gpu.label, evidence, "bf16")
        else:
            expectation.miss(gpu.label, evidence, "")


def expect_p2p(gpu, expectation):
    """p2p: peer to peer on the stock driver, by the table of cards."""
    sku = sku_of(gpu.name)
    if sku is None:
        expectation.unknown()
    elif (sku["p2p"] != "none") != expectation.value:
        expectation.miss(gpu.label, f"{gpu.name}: {sku['p2p']}", "")


def expect_capability(gpu, expectation):
    """cc: by the card, otherwise by the table of cards."""
    got = gpu.raw("compute_cap")
    if state(got) != "value":
        got = (sku_of(gpu.name) or {}).get("compute_cap")
    if not got:
        expectation.unknown()
    elif not expectation.fits(version(got)):
        expectation.miss(gpu.label, got)


def expect_pcie(gpu, expectation):
    """pcie and pciegen: the width, and the highest generation."""
    field = "pcie.link.width.current" if expectation.what == "pcie" else "pcie.link.gen.max"
    got = gpu.number(field)
    if got is None:
        expectation.unknown()
    elif not expectation.fits(got, ">=" if expectation.operator == "=" else expectation.operator):
        expectation.miss(gpu.label, str(int(got)))
    elif expectation.what == "pcie":  # expected by the user, so not a fault
        drop(expectation.add, gpu, "PCIe width")


def expect_mode(gpu, expectation):
    """ecc and mig: on or off."""
    got = gpu.raw(expectation.what + ".mode.current")
    if state(got) != "value":
        if expectation.value:
            expectation.miss(gpu.label, "not available")
    elif (got == "Enabled") != expectation.value:
        if expectation.what != "ecc" or not expectation.add.has("eccmode", gpu.label):
            expectation.miss(gpu.label, got, "")
    elif expectation.what == "ecc" and not expectation.value:
        drop(expectation.add, gpu, "ECC mode Disabled$")


def drop(add, gpu, pattern):
    """Remove the findings about a GPU whose evidence begins with the pattern."""
    mine = [finding for finding in add.list if finding["gpu"] == gpu.label]
    gone = [finding for finding in mine if re.match(pattern, finding["evidence"])]
    add.list[:] = [finding for finding in add.list if finding not in gone]


# The names of --expect that are compared for each GPU.
EXPECT_OF_GPU = {
    "name": expect_name,
    "vram": expect_vram,
    "nvlink": expect_nvlink,
    "bf16": expect_type,
    "fp8": expect_type,
    "p2p": expect_p2p,
    "cc": expect_capability,
    "pcie": expect_pcie,
    "pciegen": expect_pcie,
    "ecc": expect_mode,
    "mig": expect_mode,
}
