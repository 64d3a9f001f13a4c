#!/usr/bin/env python3
# Generated from the modules in server/remote_gpu_trainer/probe/.
# Edit them there, then run: rgt dev docs --write
"""Look at the first steps of a training program, and tell what neither code nor log shows.

usage:
  probe.py [--steps 30] [--json FILE] [--page FILE] -- train.py ARGS ...
  probe.py -- torchrun --nproc-per-node 2 train.py ARGS ...
  probe.py --compare OTHER.json -- train.py ARGS ...
  probe.py --prepare FOLDER  then start the program with FOLDER first on PYTHONPATH,
  probe.py --report FOLDER [--json FILE] [--page FILE]  and ask for what was seen so far

Everything after -- is the program, as you start it: a Python file, or a command such as python,
torchrun, accelerate or deepspeed. Its code isn't changed. The probe enters each of its Python
processes at the import of torch, looks at --steps optimizer steps, and takes its hooks off; the
program goes on. The findings are printed to the standard error once the program has ended, and
--json writes them into a file, and --page as an HTML page with plots (by jinja2, which torch needs
too).

Where the catalogue lies beside this file's folder, a finding shows the entry's check and fix.

The exit code is the program's own. Verdict: wrong (what was seen proves a fault), suspicious (a
hint), sound, or not looked at. A note, on speed or taste, leaves the verdict alone. Below it stand
facts: what is in force, the data as they came, the loss, what never moved, what was saved, the time
of a step. Those that begin with ! are unlike what is usual. Findings and facts together are a page
of 600 tokens, which says what it leaves out; --json and --page have all.

Once the steps are over, up to 2,000 samples of the data sets are read in a process of their own,
which the kernel lets write, send and start nothing (on Linux; elsewhere none is read). Streams
aren't read. Of your data, only shapes, shares, ranges and salted hashes are kept.
Python 3.8, torch 2.1 or newer; the probe itself needs the standard library alone.
"""

from __future__ import annotations

import argparse
import atexit
import collections
import contextlib
import ctypes
import functools
import gc
import glob
import hashlib
import importlib.util
import json
import math
import os
import platform
import random
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import types
import warnings
import weakref
import zlib
from datetime import datetime, timezone
from html import escape
from typing import Callable, Iterable, List, NamedTuple, Sequence, Tuple

# ---- facts.py
# Facts beside the findings, and the sheet that shows them in the order of a reader's questions.

TOPICS = (
    "in force",  # what trains, with which settings
    "data",
    "loss",
    "weights",
    "saved",
    "time",
)
MOST_PAGE = 600.0  # tokens of a page, findings and facts together
LEAST_SHEET = 250  # of them that findings leave to the facts
MOST_FACT, MOST_UNSEEN = 80, 120  # of one fact, and of what wasn't looked at
FOR_THE_REST = 45  # of the lines that say what was left out
PIECE = re.compile(r"[A-Za-z]+|\d+|[^\sA-Za-z\d]")


def tokens(text):
    """About how many tokens a text has, rather too many: as lookup/budget.py counts them."""
    return sum(tokens_of_piece(piece) for piece in PIECE.findall(text))


def tokens_of_piece(piece):
    """About how many tokens a word, a number or a sign has."""
    size = len(piece)
    if not piece[0].isascii():
        return 1.25
    if piece[0].isalpha():
        return 1.0 if size <= 7 else 1.55 if size <= 12 else size / 5
    return math.ceil(size / 3) + 0.5 if piece[0].isdigit() else 0.78


def fact(place, text, usual="", **numbers):
    """One fact. `place` is its topic and its name, as in "data/loader".

    `usual` says what it mostly is, where this one differs from that. `numbers` are what two runs
    are compared by.
    """
    about, name = place.split("/", 1)
    return {"about": about, "name": name, "text": text, "usual": usual, "numbers": numbers}


def count_of(number, one, many=""):
    """A number with its word: 1 step, 1,200 steps."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def brief(number):
    """A number in three digits."""
    return f"{number:.3g}"


def share(part):
    """A share in percent; a small one isn't rounded to nothing."""
    return f"{part:.0%}" if not part or part >= 0.01 else f"{100 * part:.1g}%"


def cost(text):
    """The tokens of a text on the sheet. Long words take room, however few tokens they are."""
    return max(tokens(text), len(text) / 4.2)


def sheet(facts, unseen, most=MOST_PAGE):
    """The lines of a page: what wasn't seen, what differs from the usual, then the rest.

    What is usual is left out first, from the end, where the page would have more than `most`
    tokens. The last line of each kind says how many were left out, and on what.
    """
    lines = [cut(f"not looked at: {unseen}", MOST_UNSEEN)] if unseen else []
    room = most - sum(map(cost, lines)) - FOR_THE_REST
    left = {}
    for one in [one for one in in_order(facts) if one["usual"]]:
        line = "! {}: {} (usual: {})".format(one["about"], cut(one["text"]), cut(one["usual"]))
        if cost(line) <= room:
            lines.append(line)
            room -= cost(line)
        else:
            left[one["about"]] = left.get(one["about"], 0) + 1
    if left:
        lines.append(f"! {sum(left.values())} more differ from the usual: {by_topic(left)}")
    left = {}
    for topic in TOPICS:
        kept = []
        room -= cost(topic + ":")
        for one in [one for one in facts if one["about"] == topic and not one["usual"]]:
            text = cut(one["text"])
            if cost(text + ";") <= room:
                kept.append(text)
                room -= cost(text + ";")
            else:
                left[topic] = left.get(topic, 0) + 1
        if kept:
            lines.append("{}: {}".format(topic, "; ".join(kept)))
        else:
            room += cost(topic + ":")
    if left:
        lines.append(f"({count_of(sum(left.values()), 'more fact')}: {by_topic(left)})")
    return lines


def by_topic(counted):
    """How many facts were left out on each topic."""
    return ", ".join(f"{topic} {n}" for topic, n in counted.items()) + ", in --json"


def in_order(facts):
    """The facts by topic, in each topic those first that differ from the usual."""
    return sorted(facts, key=lambda one: (TOPICS.index(one["about"]), not one["usual"]))


def cut(text, most=MOST_FACT):
    """A text on one line, of not many more than `most` tokens."""
    text = " ".join(str(text).split())
    spent = 0
    for piece in PIECE.finditer(text):
        spent += tokens_of_piece(piece.group())
        if spent > most:
            return text[: piece.start()].rstrip() + " …"
    return text


def whole_sentences(text, most):
    """The sentences of a text that `most` tokens have room for. No code is cut either."""
    kept = ""
    for part in re.split(r"(?<=[.!?]) (?=\S)", text):
        longer = f"{kept} {part}" if kept else part
        if tokens(longer) > most:
            break
        kept = longer
    return kept if kept.count("`") % 2 == 0 else ""


def differences(facts, others, most=MOST_PAGE, tolerance=0.25):
    """The lines that tell how two runs' facts differ, those of one topic together.

    Numbers may differ by a share of `tolerance`: two healthy runs aren't equal. What would be more
    than `most` tokens is named alone.
    """
    mine, theirs = ({(one["about"], one["name"]): one for one in run} for run in (facts, others))
    differ = []
    for key in dict.fromkeys([*mine, *theirs]):
        one, other = mine.get(key), theirs.get(key)
        if one and other and alike(one.get("numbers"), other.get("numbers"), tolerance):
            continue
        here, there = compared_text(one, other), compared_text(other, one)
        lines = [f"{cut(', '.join(key), 30)}: {here}", f"    there: {there}"]
        differ.append((TOPICS.index(key[0]), ", ".join(key), lines))
    differ.sort(key=lambda one: one[0])
    told, left, room = [], [], most - FOR_THE_REST
    for _, name, lines in differ:
        if sum(map(tokens, lines)) <= room:
            told += lines
            room -= sum(map(tokens, lines))
        else:
            left.append(name)
    if left:
        names = cut("; ".join(left), FOR_THE_REST - 15)
        told.append(f"{len(left)} more differ, see both --json: {names}")
    return told


def compared_text(one, other):
    """The text of a fact beside another run's; of versions, those alone that differ."""
    if not one or not other or one["name"] != "versions":
        return cut(one["text"]) if one else "nothing was seen"
    mine, theirs = one.get("numbers") or {}, other.get("numbers") or {}
    unlike = [f"{name} {told}" for name, told in mine.items() if theirs.get(name) != told]
    return cut(", ".join(unlike) or "not imported")


def alike(one, other, tolerance):
    """Whether two values are equal, or numbers that are near each other."""
    if isinstance(one, dict) and isinstance(other, dict):
        return set(one) == set(other) and all(alike(one[k], other[k], tolerance) for k in one)
    if isinstance(one, bool) or isinstance(other, bool):
        return one == other
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return abs(one - other) <= tolerance * max(abs(one), abs(other))
    return one == other


# ---- read_only.py
# A process that may read files and compute, and nothing else: the kernel holds it to that.
#
# Libraries in C write files without a word to Python, so a filter of system calls (seccomp) says
# no to each that would write, remove, lock, send, signal or start something. Memory that is shared
# with other processes can't be written either: a process that tries ends by a signal.

EPERM, ENOSYS = 1, 38
ALLOW, ERROR = 0x7FFF0000, 0x00050000
LOAD, EQUAL, ANY_BIT, FROM, RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # places in what a filter sees
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
THREAD = 0x10000  # CLONE_THREAD
LOCKS = (6, 7, 37, 38)  # F_SETLK and its like
READ_ONLY_PAGES = 1  # PROT_READ
CARDS = ("/dev/nvidia", "/dev/infiniband")  # whose memory a forked process can't use anyway

# Of each machine: its number, then the system calls. From the kernel's tables, in this order:
# open files: truncate to fchmodat2; processes: kill to execveat; others: socket to io_uring_setup.
MACHINES = {
    "x86_64": {
        "audit": 0xC000003E,
        "open": 2,
        "openat": 257,
        "clone": 56,
        "fcntl": 72,
        "denied": (
            76, 77, 82, 83, 84, 85, 86, 87, 88, 90, 91, 92, 93, 94, 132, 133, 165, 188, 189, 190,
            197, 198, 199, 235, 258, 259, 260, 261, 263, 264, 265, 266, 268, 280, 285, 316, 452,
            57, 58, 59, 62, 101, 129, 200, 234, 297, 311, 322, 424,
            29, 30, 31, 41, 42, 44, 49, 64, 65, 66, 68, 69, 71, 73, 220, 240, 241, 425,
        ),
    },
    "aarch64": {
        "audit": 0xC00000B7,
        "openat": 56,
        "clone": 220,
        "fcntl": 25,
        "denied": (
            5, 6, 7, 14, 15, 16, 33, 34, 35, 36, 37, 38, 40, 45, 46, 47, 52, 53, 54, 55, 88, 276,
            452,
            117, 129, 130, 131, 138, 221, 240, 271, 281, 424,
            32, 180, 181, 186, 187, 189, 190, 191, 192, 193, 194, 195, 196, 198, 200, 203, 206, 425,
        ),
    },
}  # fmt: skip
UNKNOWN = (435, 437)  # clone3, openat2: they hide their flags, and their older likes are used then


class Instruction(ctypes.Structure):
    """One step of a filter."""

    _fields_ = (
        ("code", ctypes.c_uint16),
        ("yes", ctypes.c_uint8),
        ("no", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class Filter(ctypes.Structure):
    """A filter as the kernel takes it."""

    _fields_ = (("length", ctypes.c_uint16), ("steps", ctypes.POINTER(Instruction)))


def steps_for(machine):
    """The steps of the filter for a machine of `MACHINES`."""
    deny, allow = (RETURN, 0, 0, ERROR | EPERM), (RETURN, 0, 0, ALLOW)
    steps = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, machine["audit"]), deny]
    steps += [(LOAD, 0, 0, NUMBER), (FROM, 0, 1, 0x40000000), deny]
    for call in machine["denied"]:
        steps += [(EQUAL, 0, 1, call), deny]
    for call in UNKNOWN:
        steps += [(EQUAL, 0, 1, call), (RETURN, 0, 0, ERROR | ENOSYS)]
    for name, place, test, values in (
        ("open", 1, ANY_BIT, (WRITING,)),
        ("openat", 2, ANY_BIT, (WRITING,)),
        ("fcntl", 1, EQUAL, LOCKS),
    ):
        if name in machine:
            told = [one for value in values for one in ((test, 0, 1, value), deny)]
            steps += [(EQUAL, 0, len(told) + 2, machine[name])]
            steps += [(LOAD, 0, 0, ARGUMENTS + 8 * place), *told, allow]
    steps += [(EQUAL, 0, 3, machine["clone"]), (LOAD, 0, 0, ARGUMENTS), (ANY_BIT, 1, 0, THREAD)]
    return [*steps, deny, allow]


def can_hold():
    """Whether a process can be held to reading here."""
    known = os.path.isdir("/proc/self/fd") and hasattr(os, "fork")
    return known and platform.machine() in MACHINES and ctypes.sizeof(ctypes.c_void_p) == 8


def hold():
    """Hold this process to reading from now on. Raises OSError where the kernel doesn't do that."""
    library = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as handle:
        lines = [line for line in handle if not any(card in line for card in CARDS)]
    for span in [line.split()[0] for line in lines if re.match(r"\S+ .w.s ", line)]:
        begin, end = (int(place, 16) for place in span.split("-"))
        place, size = ctypes.c_void_p(begin), ctypes.c_size_t(end - begin)
        if library.mprotect(place, size, READ_ONLY_PAGES):
            raise OSError(ctypes.get_errno(), "shared memory stays open to writes")
    steps = steps_for(MACHINES[platform.machine()])
    held = (Instruction * len(steps))(*steps)
    if library.prctl(38, 1, 0, 0, 0) or library.prctl(
        22, 2, ctypes.byref(Filter(len(steps), held)), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "the kernel takes no filter of system calls")


# ---- values.py
# Small, exact looks at tensors. Nothing here draws random numbers or changes a tensor.

MOST = 1024  # elements of a tensor that are looked at


def local_part(tensor):
    """The part of a sharded tensor that lies here; any other tensor as it is."""
    return getattr(tensor, "_local_tensor", tensor)


def strided(tensor, most=MOST):
    """At most `most` elements, spread evenly over a tensor. A view where the layout allows it."""
    flat = local_part(tensor).detach().reshape(-1)
    step = max(1, -(-flat.numel() // most))
    return flat[:: step | 1] if step > 1 else flat


def sample(tensor, most=MOST):
    """A copy of `strided`, so that a later change of the tensor doesn't change it."""
    return strided(tensor, most).clone()


def fingerprint(tensor, most=4096):
    """A hash of shape, type and up to `most` elements. The elements can't be had back from it."""
    import torch

    part = strided(tensor, most).cpu().contiguous()
    if part.is_complex():
        part = torch.view_as_real(part)
    head = repr((tuple(tensor.shape), str(tensor.dtype))).encode()
    raw = bytes(part.view(torch.uint8).reshape(-1).tolist()) if part.numel() else b""
    return zlib.crc32(raw, zlib.crc32(head))


def row_prints(tensors, most=256, elements=64):
    """A hash of each of the first `most` rows of a batch, by up to `elements` of each tensor.

    The first tensor with rows long enough to tell them apart says how many rows there are; all of
    that length count. Empty where there is none.
    """
    import torch

    whole = [t for t in tensors if t.dim() and t.numel() and not (t.is_complex() or t.is_quantized)]
    wide = next((t for t in whole if t.dim() > 1 and t.numel() >= 8 * len(t)), None)
    if wide is None:
        return []
    prints = [0] * min(most, len(wide))
    for tensor in whole:
        if len(tensor) != len(wide):
            continue
        rows = local_part(tensor).detach()[:most]
        # As its elements lie in memory, so that a permuted batch isn't copied.
        inner = sorted(range(1, rows.dim()), key=rows.stride, reverse=True)
        rows = rows.permute(0, *inner).reshape(len(rows), -1)
        rows = rows[:, :: -(-rows.shape[1] // elements) | 1].cpu().contiguous()
        raw = bytes(rows.view(torch.uint8).reshape(-1).tolist())
        width = len(raw) // len(rows)
        pieces = [raw[at : at + width] for at in range(0, len(raw), width)]
        prints = [zlib.crc32(one, past) for one, past in zip(pieces, prints)]
    return prints


def leaves(batch, name="", depth=4):
    """(name, tensor) for each tensor in a batch of nested dicts, lists and tuples."""
    import torch

    if isinstance(batch, torch.Tensor):
        yield name, batch
    elif depth and hasattr(batch, "items") and hasattr(batch, "keys"):
        for key, value in batch.items():
            yield from leaves(value, f"{name}.{key}".lstrip("."), depth - 1)
    elif depth and isinstance(batch, (list, tuple)):
        for place, value in enumerate(batch[:64]):
            yield from leaves(value, f"{name}[{place}]", depth - 1)
    elif depth and hasattr(batch, "__dict__"):
        for key, value in list(vars(batch).items())[:64]:
            yield from leaves(value, f"{name}.{key}".lstrip("."), depth - 1)


def bare(optimizer):
    """An optimizer without the wrappers of accelerate and its like."""
    while hasattr(optimizer, "optimizer") and hasattr(optimizer.optimizer, "param_groups"):
        optimizer = optimizer.optimizer
    return optimizer


def made_by(tensor):
    """The name of the operation that made a tensor, without those that only change its shape."""
    node = tensor.grad_fn
    for _ in range(4):
        if node is None:
            return ""
        name = type(node).__name__
        shaping = ("View", "UnsafeView", "Reshape", "Squeeze", "Unsqueeze", "Alias", "T", "Permute")
        if name.rstrip("0123456789") not in {shape + "Backward" for shape in shaping}:
            return name
        node = node.next_functions[0][0] if node.next_functions else None
    return ""


def number(value):
    """A float of a number or of a tensor with one; None for anything else, as lr=None."""
    try:
        value = float(value)
    except (TypeError, ValueError, RuntimeError):
        return None
    return value if math.isfinite(value) else None


def middle_or_less(numbers):
    """The middle of a list of numbers; of two, the smaller one."""
    return sorted(numbers)[(len(numbers) - 1) // 2]


def median(numbers):
    """The middle of a list of numbers, which isn't empty."""
    return sorted(numbers)[len(numbers) // 2]


def some(names, most=4):
    """The first few names in a list, and how many more there are."""
    names = list(names)
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


# ---- kinds_model.py
# Kinds of findings about parameters, gradients, losses and layers, and what to do about each.

WRONG, HINT = "wrong", "hint"
NOTE = "note"  # about speed or taste, or of what is often meant: it leaves the verdict alone

# kind: (entry, level, what is the matter, what it would be if all were well, what to do)
IN_THE_MODEL = {
    "weights stand still": (
        "O2", WRONG, "gradients arrive, but the weights stay as they are",
        "each weight with a gradient moves at each step",
        "give the optimizer the parameters of the model that computes the loss",
    ),
    "forgotten weights": (
        "O2", WRONG, "the optimizer holds weights that nothing computes with, in place of others",
        "the optimizer's weights are those of the model that computes the loss",
        "make the optimizer after the model has its last form, from that model's parameters",
    ),
    "outside the optimizer": (
        "O2", HINT, "parameters get a gradient that no optimizer uses",
        "what gets a gradient is in an optimizer, or is frozen",
        "add these parameters to the optimizer, or freeze them",
    ),
    "no gradient": (
        "O3", HINT, "parameters ran in the forward pass and never got a gradient",
        "each trainable parameter that computes something gets a gradient",
        "look for detach(), no_grad() or .item() between these layers and the loss",
    ),
    "no gradient arrives": (
        "O3", WRONG, "no gradient reaches any weight of the optimizer",
        "each step has gradients that aren't all zero",
        "look for detach(), no_grad(), .item() or a factor of 0 between the model and the loss",
    ),
    "lost loss": (
        "O3", WRONG, "a loss is computed in each step and never goes back",
        "each loss that trains a part of the model is a part of what backward() is called on",
        "add this loss to the one that goes back, or compute it under no_grad()",
    ),
    "output without a loss": (
        "O3", NOTE, "parameters ran in the forward pass, and no loss depends on them",
        "each trainable parameter that computes something gets a gradient",
        "freeze or drop the layer if it isn't wanted; else use its output in the loss",
    ),
    "gradients gone before the step": (
        "O4", WRONG, "gradients are set back before the step that should use them",
        "zero_grad() comes before backward(), or after step()",
        "keep one order: zero_grad(), forward, backward(), step()",
    ),
    "gradients pile up": (
        "O4", WRONG, "gradients are never set back",
        "the gradients of one step are gone before the next backward()",
        "call optimizer.zero_grad() once for each optimizer.step()",
    ),
    "left in evaluation mode": (
        "O5", WRONG, "the model is in evaluation mode while it trains",
        "after an evaluation model.train() comes before the next step",
        "call model.train() at the start of each training epoch",
    ),
    "evaluation mode from the start": (
        "O5", HINT, "the model trains in evaluation mode from the first step on",
        "dropout and batch norm are in training mode while the model trains",
        "call model.train() before the loop",
    ),
    "evaluated in training mode": (
        "O5", HINT, "the model is evaluated in training mode",
        "dropout is off and batch norm uses its running statistics in an evaluation",
        "call model.eval() before the evaluation, and model.train() after it",
    ),
    "tiny updates": (
        "O7", HINT, "the steps are tiny beside the weights",
        "a step changes a weight matrix by about a thousandth of its size",
        "raise the learning rate tenfold until the loss falls visibly",
    ),
    "huge updates": (
        "O22", HINT, "the steps are large beside the weights",
        "a step changes a weight matrix by about a thousandth of its size",
        "lower the learning rate tenfold, or warm it up",
    ),
    "rate is zero": (
        "O8", WRONG, "the learning rate is 0",
        "the rate is above 0 from the second step on",
        "step the scheduler after the optimizer, and check its warm-up",
    ),
    "rate fell to zero": (
        "O8", HINT, "the learning rate fell to 0 and training goes on",
        "the rate reaches 0 at the last step",
        "give the scheduler the number of optimizer steps of the whole run",
    ),
    "scheduler too fast": (
        "O8", HINT, "the scheduler takes more steps than the optimizer",
        "one step of the scheduler for each step of the optimizer, or for each epoch",
        "call scheduler.step() only where optimizer.step() was called",
    ),
    "scheduler never steps": (
        "O23", HINT, "a scheduler exists, but nobody calls its step()",
        "the scheduler steps at least once an epoch",
        "call scheduler.step() after optimizer.step(), or once an epoch",
    ),
    "scheduler of another optimizer": (
        "O23", HINT, "the scheduler changes an optimizer that never steps",
        "the scheduler holds the optimizer that trains",
        "make the scheduler from the optimizer that steps, after it was made for the last time",
    ),
    "undivided accumulation": (
        "O9", HINT, "losses that are means are added up over several batches",
        "each loss is divided by the number of batches in a step",
        "divide the loss by the number of accumulated batches before backward()",
    ),
    "softmax twice": (
        "O12", WRONG, "the loss gets probabilities where it wants raw scores",
        "cross entropy gets the model's raw scores",
        "drop the softmax or sigmoid at the end of the model while training",
    ),
    "not log-probabilities": (
        "O16", WRONG, "nll_loss gets no log-probabilities",
        "each row's exponentials add up to 1",
        "apply log_softmax first, or use cross_entropy on the raw scores",
    ),
    "padding counts": (
        "O15", WRONG, "the loss counts padding",
        "labels are -100 where the attention mask is 0",
        "set the labels to -100 where the attention mask is 0",
    ),
    "padding seems to count": (
        "O15", HINT, "the loss seems to count padding",
        "labels are -100, or the loss's ignore_index, where rows are padded",
        "give the loss ignore_index=PAD, or set these labels to -100",
    ),
    "end is never learned": (
        "L11", HINT, "the last token of each text has no label",
        "the token that ends a text has itself as label",
        "mask padding by the attention mask, not by the id of the end token",
    ),
    "frozen weight moves": (
        "O17", WRONG, "frozen weights change in optimizer.step()",
        "a weight with requires_grad=False stays as it is",
        "set their .grad to None when you freeze them, or leave them out of the optimizer",
    ),
    "frozen statistics move": (
        "O18", HINT, "running statistics move under frozen weights",
        "batch norm in a frozen part is in evaluation mode",
        "call .eval() on the frozen part after each model.train()",
    ),
    "adapters don't train": (
        "O21", HINT, "adapter weights are there and don't train",
        "lora_A and lora_B require a gradient and are in the optimizer",
        "set requires_grad on the adapters, and make the optimizer afterwards",
    ),
    "adapters get no gradient": (
        "O21", WRONG, "adapter weights are in the optimizer, and never get a gradient",
        "at least one of the two matrices of an adapter isn't zero at the start",
        "let lora_A begin with random numbers and lora_B with zeros; look for no_grad() and "
        "reentrant checkpointing",
    ),
    "scaler skips": (
        "O24", WRONG, "the gradient scaler skips every step",
        "the scaler skips a few steps at the start and one now and then",
        "find what is inf or nan in the gradients; bf16 needs no scaler",
    ),
    "dead units": (
        "O25", HINT, "units output zero for every input",
        "about half of a ReLU's outputs are above zero",
        "lower the learning rate, check the initialisation and biases, or use GELU",
    ),
    "saturated layer": (
        "O26", HINT, "a layer is saturated",
        "most outputs of a tanh or sigmoid inside the model lie between its ends",
        "scale the layer's inputs, or normalise before it",
    ),
    "fp16 without scaler": (
        "P5", HINT, "fp16 gradients are lost without a gradient scaler",
        "a scaler lifts fp16 gradients above the smallest number",
        "use torch.amp.GradScaler, or bf16",
    ),
    "clipped while scaled": (
        "P7", WRONG, "gradients are clipped while they carry the loss scale",
        "scaler.unscale_(optimizer) comes before clip_grad_norm_",
        "call scaler.unscale_(optimizer) once a step, before the clipping",
    ),
    "loss isn't finite": (
        "P9", WRONG, "the loss is not finite",
        "the loss is finite at each step",
        "look at the first layer whose output is not finite",
    ),
    "gradient spikes": (
        "P13", HINT, "the gradient norm jumps on single batches",
        "the norm stays within a few times its median",
        "look at the batches of these steps, and clip the norm",
    ),
    "nan enters the weights": (
        "P14", WRONG, "a gradient that is not finite went into the weights",
        "a step with a gradient that is not finite is skipped",
        "skip the step when the norm that clip_grad_norm_ returns is not finite",
    ),
    "large attention scores": (
        "P16", HINT, "attention scores are in the hundreds",
        "scores before the softmax stay below about 50",
        "normalise queries and keys, or lower the rate",
    ),
    "first loss too high": (
        "P17", HINT, "the first loss is far above that of an even guess",
        "an untrained classifier starts near ln(classes)",
        "check the spread of the initial weights, or whether the loss is a sum",
    ),
    "gradients fade": (
        "P18", HINT, "gradients shrink or grow by orders of magnitude through the layers",
        "gradients of the first and the last layers have a like size",
        "add residual connections or norm layers, or another initialisation",
    ),
    "bf16 swallows steps": (
        "P20", WRONG, "most of a step is lost in rounding: the weights are half precision",
        "the optimizer holds the weights in float32",
        "keep the weights in float32 and use autocast",
    ),
    "loss stands still": (
        "O1", HINT, "the loss is the same at each step",
        "the loss differs from batch to batch and falls",
        "overfit one batch: if that fails, the model doesn't see its inputs",
    ),
    "uneven experts": (
        "MOE2", HINT, "the router sends most tokens to few experts",
        "the busiest expert gets at most about twice the mean",
        "switch the balancing loss on",
    ),
    "targets are broadcast": (
        "O29", WRONG, "predictions and targets have different shapes, and each meets each",
        "the loss gets two tensors of one shape",
        "squeeze the predictions, or give the targets their last dimension",
    ),
    "differences are broadcast": (
        "O29", HINT, "a difference of N predictions and N targets is an N by N matrix",
        "predictions and targets have one shape",
        "squeeze the predictions, or give the targets their last dimension",
    ),
    "returns of any scale": (
        "R3", HINT, "log-probabilities are weighted with numbers of a large scale",
        "advantages have a mean near 0 and a deviation near 1",
        "normalise rewards and observations, and the advantages in each batch",
    ),
    "preferences stand still": (
        "L9", HINT, "the preference loss stays at ln 2",
        "the margin between chosen and rejected grows, and the loss falls below 0.693",
        "raise the rate, and check that the reference model doesn't train along",
    ),
    "loss jumps": (
        "P12", HINT, "the loss jumped and stayed up",
        "the loss falls, or returns to where it was after a spike",
        "lower the highest rate, warm up longer, or clip the norm",
    ),
    "tiny batch norm": (
        "V7", HINT, "batch norm takes its statistics from one or two samples",
        "a batch norm layer sees 16 or more samples at once",
        "use GroupNorm, frozen batch norm, or larger batches",
    ),
    "batch norm of one rank": (
        "D10", HINT, "each rank normalises its few samples alone",
        "SyncBatchNorm, or 16 and more samples on each rank",
        "convert the model by SyncBatchNorm.convert_sync_batchnorm before wrapping it",
    ),
    "autocast doesn't reach": (
        "T13", NOTE, "autocast is on, and most of the products run in float32",
        "under autocast linear layers and convolutions give half precision",
        "look for autocast(enabled=False), .float() and casts within forward()",
    ),
    "longer than the positions": (
        "L5", HINT, "sequences are longer than the positions that the model was made for",
        "sequences fit max_position_embeddings, or a RoPE scaling is set",
        "set rope_parameters for the new length, or cut the sequences",
    ),
    "causal mask as a matrix": (
        "T14", NOTE, "attention gets a causal mask as a matrix, which rules out flash kernels",
        "is_causal=True and no attn_mask",
        "pass is_causal=True instead of the mask",
    ),
    "old and new at one rate": (
        "O19", HINT, "loaded weights and new ones train at one high rate",
        "loaded weights train at a tenth of the new head's rate, or less",
        "make two parameter groups, or train the head alone at first",
    ),
    "new connector trains along": (
        "X2", HINT, "a connector without loaded weights trains together with the language model",
        "a new connector trains alone first, or its weights are loaded",
        "freeze the rest for a first phase, or load the connector's file",
    ),
}  # fmt: skip

# Check and fix of kinds whose entry has another case in front.
OWN_ADVICE = {
    "weights stand still": {
        "check": "Print `w[0].item()` of a named weight before and after optimizer.step(): equal "
        "numbers in each step prove it.",
        "fix": "Look into the optimizer's step(): a class of your own, a wrapper or a hook that "
        "doesn't write to the weights.",
    },
    "no gradient arrives": {
        "check": "After backward(): `print([n for n, p in model.named_parameters() if p.grad is "
        "not None and p.grad.any()])`. `[]` proves it.",
        "fix": "Find where the graph ends: detach(), no_grad(), .item(), .data, argmax, a factor "
        "of 0, or a loss of another model.",
    },
    "lost loss": {
        "check": "`print(loss.grad_fn)` and follow next_functions: the second loss isn't in it.",
        "fix": "loss = main + weight * auxiliary, before backward().",
    },
    "gradients gone before the step": {
        "check": "Print a weight's .grad right before optimizer.step(): None or zeros prove it.",
        "fix": "zero_grad() comes before backward(), or after step(); never between them.",
    },
}


# ---- kinds_run.py
# Kinds of findings about data, ranks, time and files, and what to do about each.

# kind: (entry, level, what is the matter, what it would be if all were well, what to do)
IN_THE_RUN = {
    "same order each epoch": (
        "C13", HINT, "each epoch has the same order of samples",
        "each epoch has another order",
        "shuffle=True, with a generator that isn't seeded anew in each epoch",
    ),
    "set_epoch missing": (
        "D22", WRONG, "the distributed sampler gives each epoch the same order",
        "sampler.set_epoch(epoch) gives each epoch another order",
        "call sampler.set_epoch(epoch) at the start of each epoch",
    ),
    "workers repeat the stream": (
        "DP2", WRONG, "each worker delivers the same batches",
        "each batch comes from one worker only",
        "split the stream by get_worker_info() in the dataset's __iter__",
    ),
    "ranks share data": (
        "DP2", HINT, "the ranks train on the same batches",
        "each rank gets batches of its own",
        "use a DistributedSampler, or split the stream by rank",
    ),
    "ranks drift apart": (
        "D38", WRONG, "the ranks have different weights under DistributedDataParallel",
        "after each step all ranks have the same weights",
        "call the wrapped model, never model.module, where the loss is computed",
    ),
    "workers share random numbers": (
        "DP1", WRONG, "all workers draw the same random numbers",
        "each worker's generators begin in another state",
        "seed them in worker_init_fn from torch.initial_seed()",
    ),
    "pinning has no effect": (
        "DP5", NOTE, "pin_memory=True has no effect on this batch",
        "the batch is made of tensors, dicts, lists and tuples, or has pin_memory()",
        "give the batch class a method pin_memory()",
    ),
    "images from 0 to 255": (
        "DP12", HINT, "images have values up to 255",
        "images lie between 0 and 1, or around 0 after normalisation",
        "divide by 255 before the normalisation",
    ),
    "images aren't normalised": (
        "DP10", HINT, "a pretrained model gets images that aren't normalised",
        "images have a mean near 0 and a deviation near 1 per channel",
        "use the transforms that belong to the weights",
    ),
    "random evaluation data": (
        "V2", HINT, "the evaluation data come out different each time",
        "each pass over the evaluation data gives the same inputs",
        "use a dataset without random transforms for the evaluation",
    ),
    "one class dominates": (
        "V6", HINT, "nearly all labels are one class",
        "each class has a share of the labels",
        "judge by macro F1, and weight the classes or the sampling",
    ),
    "one vision rate": (
        "X3", HINT, "vision encoder and language model train at one high rate",
        "each part has a rate of its own",
        "make a parameter group for each part",
    ),
    "connector is frozen": (
        "X1", HINT, "the connector between vision and language doesn't train",
        "the connector trains",
        "set requires_grad on the connector, and give it to the optimizer",
    ),
    "graphs are kept": (
        "M20", WRONG, "the graph of each step stays in memory",
        "a step's graph is freed after its backward()",
        "keep loss.item() or loss.detach(), never the loss itself",
    ),
    "hooks pile up": (
        "T25", WRONG, "each step adds hooks to the model",
        "the number of hooks stays the same",
        "register hooks once, before the loop, or remove them after use",
    ),
    "anomaly detection": (
        "T12", NOTE, "anomaly detection is on",
        "it is off in a real run",
        "remove detect_anomaly",
    ),
    "loading in the way": (
        "T4", NOTE, "training waits for data, which one process loads",
        "the next batch is ready when the step is over",
        "set num_workers to a few cores",
    ),
    "loader too slow": (
        "U24", NOTE, "training waits for data in spite of workers",
        "the next batch is ready when the step is over",
        "measure the loader alone; then more workers, or less work per sample",
    ),
    "workers start anew": (
        "T5", NOTE, "each epoch waits for new workers",
        "workers stay from epoch to epoch",
        "set persistent_workers=True",
    ),
    "checkpoint lacks the optimizer": (
        "C1", NOTE, "the checkpoint holds only the model's weights",
        "it holds the optimizer, the scheduler and the step too",
        "save the state_dict() of every object that has one",
    ),
    "optimizer not restored": (
        "C1", HINT, "the file holds the optimizer's state, but nobody loaded it",
        "optimizer.load_state_dict() comes after the model's",
        "load the optimizer's state too",
    ),
    "scheduler not restored": (
        "C14", HINT, "the optimizer goes on, but the scheduler begins anew",
        "optimizer and scheduler stand at the same step",
        "save and load the scheduler's state too",
    ),
    "nothing was loaded": (
        "C18", WRONG, "load_state_dict(strict=False) loaded nothing",
        "the names in the file match those of the model",
        "take the prefix off the names, and load with strict=True",
    ),
    "other inputs in evaluation": (
        "V1", HINT, "inputs of training and evaluation lie on different scales",
        "both are prepared in one way, apart from random augmentation",
        "use one normalisation for training, evaluation and deployment",
    ),
    "bursts of batches": (
        "T7", NOTE, "every N-th batch is waited for, N is the number of workers",
        "batches arrive as fast as steps are made",
        "more workers, less work per sample, or a larger prefetch_factor for uneven samples",
    ),
    "garbage collection": (
        "T20", NOTE, "Python's garbage collector holds up the steps",
        "collections take next to no time",
        "gc.freeze() after set-up, and gc.collect() in rare steps",
    ),
    "checkpointing with room": (
        "T17", NOTE, "activations are computed twice although memory is free",
        "activation checkpointing is on only where memory is short",
        "switch gradient checkpointing off and compare time and memory",
    ),
    "too many threads": (
        "U40", NOTE, "more threads compute than cores may be used",
        "threads of all processes together are as many as the usable cores",
        "set OMP_NUM_THREADS to the usable cores divided by the processes",
    ),
    "compiles again and again": (
        "CMP1", NOTE, "torch.compile goes on compiling after the first steps",
        "no new graph after the first few steps",
        "pad to a few sizes, or let sizes be dynamic",
    ),
    "exchange in each micro-batch": (
        "T23", NOTE, "gradients are exchanged in each micro-batch",
        "ranks exchange gradients once a step",
        "run all micro-batches but the last under no_sync()",
    ),
    "one unit": (
        "D12", NOTE, "FSDP treats the whole model as one unit",
        "each block is a unit of its own",
        "call fully_shard on each block before the model, or give a wrapping policy",
    ),
    "few rows for each gather": (
        "D13", NOTE, "FSDP gathers all weights for a few rows",
        "each gather serves hundreds of rows or tokens",
        "use larger batches for each rank, or DDP where the model fits",
    ),
    "sharded in half precision": (
        "D14", HINT, "FSDP's optimizer holds the weights in half precision",
        "weights are float32, and the policy casts them for computing",
        "load in float32 and set MixedPrecisionPolicy(param_dtype=torch.bfloat16)",
    ),
    "stage 3 for a model that fits": (
        "D16", NOTE, "ZeRO stage 3 splits a model that fits on each device",
        "the lowest stage that fits",
        "use stage 1, or 2 where the gradients don't fit",
    ),
    "accumulated twice": (
        "D18", HINT, "the loop accumulates and DeepSpeed does too",
        "engine.step() follows each engine.backward()",
        "call engine.step() after each micro-batch; the engine counts them",
    ),
    "older checkpoint": (
        "C3", HINT, "an older checkpoint was loaded although a newer one lies beside it",
        "a resumed run loads its newest checkpoint",
        "choose by number, not by name as text",
    ),
    "counting from the start": (
        "C3", HINT, "the run saves under a lower number than a checkpoint that was there before",
        "a relaunched run goes on from the newest checkpoint",
        "find the newest checkpoint at the start and load it",
    ),
    "Trainer began anew": (
        "C9", HINT, "Trainer saves under a lower number than a checkpoint that was there before",
        "a relaunched run goes on from the newest checkpoint",
        "pass the checkpoint to trainer.train(resume_from_checkpoint=...)",
    ),
    "newest was deleted": (
        "C17", HINT, "the newest checkpoint was deleted, older ones remain",
        "the newest checkpoint stays, for a resume",
        "keep the newest apart from the best",
    ),
    "saved by a signal handler": (
        "SLURM1", HINT, "a checkpoint was written inside a signal handler",
        "the handler sets a flag, and the loop saves at the end of a step",
        "set a flag in the handler, and save where the step is over",
    ),
    "ranks write one file": (
        "D23", WRONG, "several ranks write the same file",
        "rank 0 alone writes a shared file",
        "write only where the rank is 0",
    ),
}  # fmt: skip

# Check and fix of kinds whose entry has another case in front.
OWN_ADVICE_OF_RUNS = {
    "ranks share data": {
        "check": "Print the first sample's index or hash on each rank: equal ones prove it.",
        "fix": "Give the loader sampler=DistributedSampler(dataset) and call "
        "sampler.set_epoch(epoch); split a stream by rank.",
    },
    "ranks drift apart": {
        "check": "Print `sum(p.double().sum() for p in model.parameters())` on each rank after a "
        "step: the numbers must be equal.",
        "fix": "Call the DistributedDataParallel model itself: model.module(x) and methods of "
        "model.module bypass the exchange of gradients.",
    },
}


# ---- table.py
# What the probe can report, which part sees it, and what a finding looks like.

SOUND, SUSPICIOUS, NOT_LOOKED, FOUND = "sound", "suspicious", "not looked at", "found"
KINDS = {**IN_THE_MODEL, **IN_THE_RUN}
ADVICE = {**OWN_ADVICE, **OWN_ADVICE_OF_RUNS}
LEVELS = (WRONG, HINT, NOTE)  # the worst first

# What is looked at, and the kinds of findings that each part can give.
OBSERVATIONS = {
    "parameters": (
        "weights stand still", "forgotten weights", "outside the optimizer", "no gradient arrives",
        "no gradient", "lost loss", "output without a loss", "frozen weight moves",
        "adapters don't train", "adapters get no gradient", "bf16 swallows steps",
        "tiny updates", "huge updates",
        "nan enters the weights", "connector is frozen", "one vision rate",
        "old and new at one rate", "new connector trains along",
    ),
    "gradients": (
        "gradients gone before the step", "gradients pile up", "undivided accumulation",
        "gradient spikes", "gradients fade", "fp16 without scaler",
        "clipped while scaled", "scaler skips",
    ),
    "rates": (
        "rate is zero", "rate fell to zero", "scheduler too fast", "scheduler never steps",
        "scheduler of another optimizer",
    ),
    "modes": (
        "left in evaluation mode", "evaluation mode from the start", "evaluated in training mode",
        "frozen statistics move",
    ),
    "losses": (
        "softmax twice", "not log-probabilities", "padding counts", "padding seems to count",
        "loss isn't finite", "first loss too high", "loss stands still", "one class dominates",
        "loss jumps", "targets are broadcast", "differences are broadcast", "returns of any scale",
        "preferences stand still",
    ),
    "batches": (
        "same order each epoch", "set_epoch missing", "workers repeat the stream",
        "workers share random numbers",
        "pinning has no effect", "images from 0 to 255", "images aren't normalised",
        "random evaluation data", "end is never learned", "other inputs in evaluation",
    ),
    "activations": (
        "dead units", "saturated layer", "large attention scores", "uneven experts",
    ),
    "shapes": (
        "tiny batch norm", "autocast doesn't reach", "longer than the positions",
        "causal mask as a matrix",
    ),
    "ranks": (
        "ranks drift apart", "ranks share data", "batch norm of one rank",
        "exchange in each micro-batch", "one unit", "few rows for each gather",
        "sharded in half precision", "stage 3 for a model that fits", "accumulated twice",
    ),
    "time and memory": (
        "graphs are kept", "hooks pile up", "anomaly detection", "loading in the way",
        "loader too slow", "workers start anew", "bursts of batches", "garbage collection",
        "checkpointing with room", "too many threads", "compiles again and again",
    ),
    "checkpoints": (
        "checkpoint lacks the optimizer", "optimizer not restored", "scheduler not restored",
        "nothing was loaded", "older checkpoint", "counting from the start", "Trainer began anew",
        "newest was deleted", "saved by a signal handler", "ranks write one file",
    ),
}  # fmt: skip


def finding(kind, step, evidence, level=None, **numbers):
    """One finding. `numbers` are JSON values."""
    entry, usual, what, well, do = KINDS[kind]
    numbers = {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in numbers.items()
    }
    return {
        "id": entry, "kind": kind, "level": level or usual, "step": step, "what": what,
        "evidence": evidence, "well": well, "do": do, "numbers": numbers,
    }  # fmt: skip


# ---- watching.py
# What is seen in one process, the guards around it, and how it ends.


class Replaced:
    """A function that stands in for an attribute of its owner."""

    def __init__(self, owner, attribute, original, around):
        self.owner, self.attribute = owner, attribute
        self.original, self.around = original, around

    def switch(self, on):
        """Put it in the attribute's place, or take it out, unless something else is there now."""
        old, new = (self.original, self.around) if on else (self.around, self.original)
        if self.owner.__dict__.get(self.attribute) is old:
            setattr(self.owner, self.attribute, new)


class Detoured:
    """A function that calls `around` first, and stays the same object all the time.

    Models hold on to functions such as `relu`. Where such a model is pickled, the function has to
    be the one that its module knows under its name.
    """

    def __init__(self, function):
        self.function, self.code = function, function.__code__
        self.own = types.FunctionType(
            self.code, function.__globals__, function.__name__, function.__defaults__
        )
        self.own.__kwdefaults__ = function.__kwdefaults__
        self.own.__annotations__ = function.__annotations__
        self.name = "_rgt_probe_" + function.__name__

    def lead(self, around):
        """Call `around` from now on. The code still says where its source is."""
        self.around = around
        call = eval(f"lambda *args, **kwargs: {self.name}(*args, **kwargs)")
        self.call = call.__code__.replace(
            co_name=self.code.co_name,
            co_filename=self.code.co_filename,
            co_firstlineno=self.code.co_firstlineno,
        )
        self.switch(True)

    def switch(self, on):
        """Call `around`, or what the function did before."""
        if self.function.__code__ is not (self.code if on else self.call):
            return
        if on:
            self.function.__globals__[self.name] = self.around
            self.function.__wrapped__ = self.own
        self.function.__code__ = self.call if on else self.code
        if not on:
            del self.function.__wrapped__, self.function.__globals__[self.name]


class Named:
    """Calls `around` in the place of a builtin function, and is pickled as that function.

    A model may hold on to it, and be saved whole, long after the probe is gone.
    """

    def __init__(self, original, around):
        functools.update_wrapper(self, original)
        self.original, self.around = original, around

    def __call__(self, *args, **kwargs):
        """Do what the builtin does, with the looks around it."""
        return self.around(*args, **kwargs)

    def __reduce_ex__(self, protocol):
        """How to find the builtin again."""
        reduced = self.original.__reduce_ex__(protocol)
        if isinstance(reduced, str):  # a name in its module, where this one may stand now
            import pydoc

            return pydoc.locate, (f"{self.original.__module__}.{reduced}",)
        return reduced


def plain(owner, function):
    """Whether it is a module's own function without a closure, written in Python."""
    return (
        isinstance(owner, types.ModuleType)
        and isinstance(function, types.FunctionType)
        and not function.__closure__
        and not hasattr(function, "__wrapped__")
        and function.__globals__ is owner.__dict__
    )


class Observer:
    """One part of what is looked at. `watch` is shared; the rest is its own."""

    name = ""

    def __init__(self, watch):
        self.watch = watch

    def findings(self):
        """What was found, at the end."""
        return []

    def each(self, *checks):
        """What checks find, given as (method, arguments). An error ends that check alone."""
        found = []
        for check, *arguments in checks:
            try:
                found += check(*arguments)
            except Exception as error:
                why = f"{check.__name__}: {type(error).__name__}: {error}"[:200]
                self.watch.failed.setdefault(self.name, why)
        return found

    def facts(self):
        """What was seen beside the findings: a list of facts."""
        return []

    def unseen(self):
        """Why nothing can be said about it, or an empty text."""
        return ""

    def partly(self):
        """What of it couldn't be looked at, or an empty text."""
        return ""


class Watch:
    """What one process shows until it has taken `limit` steps.

    Every look goes through `guard`: an error there ends that part alone, never the program.
    """

    def __init__(self, folder, limit, classes):
        self.folder, self.limit, self.classes = folder, limit, classes
        self.patches, self.handles, self.step_handles = [], [], []
        self.local = threading.local()
        self.begin()

    def begin(self):
        """Forget everything: at the start, and in a forked child."""
        self.failed = {}
        self.aside = set()  # parts that stand aside for compiled code
        self.over = self.final = False
        self.step = 0
        self.turn = set()  # the optimizers that took the newest step
        self.in_backward = self.gradients = False
        self.owner = threading.get_ident()
        self.pid = os.getpid()
        self.roots = {}  # id -> weak reference, of modules that were called from outside
        self.parts = {cls.name: cls(self) for cls in self.classes}

    def resting(self):
        """Whether nothing may be looked at: it is over, or another thread runs."""
        return self.over or threading.get_ident() != self.owner

    def guard(self, part, method, *args):
        """Call a method of a part, within no_grad. An error ends the part."""
        if part in self.failed or self.resting():
            return None
        import torch

        try:
            # While a CUDA graph is captured, reading a value from the card ends the capture with an
            # error ("operation not permitted when stream is capturing"), and the program with it.
            if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
                return None
            if torch._C._len_torch_dispatch_stack() or torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
                return None
            functorch = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
            if functorch.peek_interpreter_stack() is not None:
                return None
            self.gradients = torch.is_grad_enabled()
            with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
                return getattr(self.parts[part], method)(*args)
        except Exception as error:
            self.failed[part] = f"{type(error).__name__}: {error}"[:200]
            return None

    def careful(self, hook):
        """A hook whose errors end the looking, never the program."""

        @functools.wraps(hook)
        def around(*args):
            try:
                hook(*args)
            except Exception as error:
                self.failed.setdefault("series", f"{type(error).__name__}: {error}"[:200])

        return around

    def wrap(self, owner, attribute, part, before="", after="", fragile=False, places=()):
        """Put a function around `owner.attribute` that looks before and after it.

        `fragile` ones are taken off while code is compiled. `places` are further owners.
        """
        function = original = getattr(owner, attribute, None)
        if original is None:
            return
        watch = self
        detour = Detoured(function) if plain(owner, function) else None
        if detour:
            original = detour.own

        @functools.wraps(original)
        def around(*args, **kwargs):
            if watch.resting():
                watch.tidy()
                return original(*args, **kwargs)
            token = watch.guard(part, before, args, kwargs) if before else None
            result = original(*args, **kwargs)
            if after:
                watch.guard(part, after, token, result, args, kwargs)
            return result

        if detour:
            detour.lead(around)
            self.patches.append((fragile, detour))
            return
        builtin = not isinstance(original, types.FunctionType)
        named = isinstance(owner, types.ModuleType) and builtin
        put = Named(original, around) if named else around
        for place in (owner, *places):
            if getattr(place, attribute, None) is original:
                self.patches.append((fragile, Replaced(place, attribute, original, put)))
                setattr(place, attribute, put)

    def switch(self, on, fragile_only=True):
        """Take the functions off, or put them back."""
        for fragile, patch in self.patches[:: 1 if on else -1]:
            if fragile or not fragile_only:
                patch.switch(on)

    def stand_down(self, why):
        """Take off what compiled or captured code would contain, for good."""
        self.switch(False)
        for handle in self.handles:
            handle.remove()
        self.handles = []
        for part in ("activations", "modes", "losses", "shapes"):
            self.failed.setdefault(part, why)
            self.aside.add(part)

    def tidy(self):
        """Once it is over: take everything off."""
        if self.over and self.patches and threading.get_ident() == self.owner:
            self.switch(False, fragile_only=False)
            for handle in self.handles + self.step_handles:
                handle.remove()
            self.patches, self.handles, self.step_handles = [], [], []

    def name_of(self, thing):
        """The name of a module or parameter within the models that were called."""
        return self.names().get(id(thing), "?")

    def names(self):
        """id -> name, of all modules and parameters of the models that were called.

        Where two models have equal names, the model stands before the name.
        """
        found, owners = {}, {}
        for place, root in enumerate(self.models(), 1):
            model = type(root).__name__
            try:
                for name, module in root.named_modules():
                    found.setdefault(id(module), (name or model, model, place))
                for name, parameter in root.named_parameters():
                    found.setdefault(id(parameter), (name, model, place))
            except Exception as error:  # a model may have such methods of its own
                self.failed.setdefault("series", f"{type(error).__name__}: {error}"[:200])
        for name, _, place in found.values():
            owners.setdefault(name, set()).add(place)
        return {
            key: name if len(owners[name]) == 1 else f"{model} {place}: {name}"
            for key, (name, model, place) in found.items()
        }

    def models(self):
        """The models that were called and are still there, outermost first."""
        return [root for root in (ref() for ref in self.roots.values()) if root is not None]

    def add_model(self, module):
        """Remember a module that was called from outside."""
        held = self.roots.get(id(module))
        if (held is None or held() is not module) and len(self.roots) < 64:
            self.roots[id(module)] = weakref.ref(module)

    def stepped(self, optimizer):
        """An optimizer took a step, or its scaler skipped it.

        Optimizers that take turns, as in a GAN, count as one step; those that follow each other
        go on counting.
        """
        if self.step and id(optimizer) not in self.turn:
            self.turn.add(id(optimizer))
            return
        self.turn = {id(optimizer)}
        self.step += 1
        if self.step in (1, 2, 4, 8, 16) and self.step < self.limit:
            self.write()
        if self.step >= self.limit:
            self.finish()

    def finish(self):
        """Write what was seen, and let everything else pass through from now on."""
        if not self.over and self.pid == os.getpid():
            self.final = True
            self.write(last=True)
            self.guard("data sets", "look")
            self.over = True

    def write(self, last=False):
        """Write the findings so far into the folder, whole."""
        if not self.step or self.pid != os.getpid():
            return
        try:
            report = self.report()
            path = os.path.join(self.folder, "rank-{}-{}.json".format(report["rank"], self.pid))
            try:
                with open(path + ".part", "w", encoding="utf-8") as handle:
                    json.dump(report, handle, default=str)
                os.replace(path + ".part", path)
            except OSError as error:
                if last and os.path.isdir(self.folder):  # else the parent is gone
                    self.say(report, error)
        except Exception as error:
            self.failed.setdefault("series", f"{type(error).__name__}: {error}"[:200])

    def say(self, report, error):
        """Print the findings where the folder takes no file, as on a full disk."""
        sys.stderr.write(f"probe: the report can't be written ({error.strerror}); seen so far:\n")
        for one in report["findings"]:
            sys.stderr.write("{level} [{id}] {what}: {evidence}\n".format(**one))

    def rank(self):
        """The rank of this process."""
        import torch

        spread = torch.distributed
        if spread.is_available() and spread.is_initialized():
            return spread.get_rank()
        text = os.environ.get("RANK") or "0"
        return int(text) if text.isdigit() else 0

    def report(self):
        """What this process hands to the parent. A part that fails costs the others nothing."""
        import torch

        found, looked, told = [], {}, {}
        rank = self.rank()
        for name in OBSERVATIONS:
            if name not in self.parts:
                continue
            # What a part saw before an error is still told.
            before = None if name in self.aside else self.failed.pop(name, None)
            told_by_part = [] if name in self.aside else self.guard(name, "findings")
            mine = [dict(one, rank=rank) for one in told_by_part or [] if one["kind"] in KINDS]
            if before:
                self.failed[name] = before
            why = self.failed.get(name)
            if told_by_part is None and not why:
                why = "another thread or a graph's capture was in the way"
            why = why or ("" if mine else self.guard(name, "unseen")) or self.failed.get(name)
            state = FOUND if mine else NOT_LOOKED if why else SOUND
            partly = self.guard(name, "partly")
            found += mine
            looked[name] = {"state": state}
            looked[name].update({"why": why} if why else {})
            looked[name].update({"partly": partly} if partly else {})
            looked[name].update({"broken": True} if self.failed.get(name) else {})
        for name in ("batches", "checkpoints", "ranks"):
            told.update(self.guard(name, "told") or {})
        facts = [one for name in self.parts for one in self.guard(name, "facts") or []]
        return {
            "rank": rank,
            "pid": self.pid,
            "steps": self.step,
            "whole": self.step >= self.limit,
            "series": self.guard("series", "told") or {},
            "findings": found,
            "observations": looked,
            "facts": facts,
            "program": os.path.basename(sys.argv[0] if sys.argv else ""),
            "torch": str(torch.__version__),
            "python": sys.version.split()[0],
            **told,
        }


# ---- data_sets.py
# Samples of the data sets, looked at in a process of its own once the first steps are over.
#
# Two forks away from the program, nothing that a data set does can reach it: files are opened anew,
# so that the program's own place in them stays, and nothing may be written, sent or started. Of the
# samples, only shapes, shares, ranges and hashes are kept, and the hashes with a salt that no file
# holds.

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


# ---- activations.py
# Outputs of layers: dead and saturated units, attention scores, routers.


def has_experts(module, count):
    """Whether a module, or one right below it, has so many parts, or as many stacked weights."""
    import torch

    for one in (module, *module.children()):
        if isinstance(one, torch.nn.ModuleList) and len(one) == count:
            return True
        stacked = [p for p in one._parameters.values() if p is not None and p.dim() == 3]
        if any(p.shape[0] == count for p in stacked):
            return True
    return False


class Activations(Observer):
    """Looks at outputs in training."""

    name = "activations"

    def __init__(self, watch):
        super().__init__(watch)
        self.alive = {}  # (module, place of the call) -> [units that were above 0, rows, calls]
        self.calls = {}  # id of a module -> ReLU calls within it since it was entered
        self.full = {}  # id of a tanh or sigmoid -> [(share at the ends, place in the forward)]
        self.scores = []  # (step, largest attention score)
        self.routers = {}  # id -> (weak reference, tokens of each expert)
        self.counted = {}  # (id of a module, choices) -> whether it has as many experts
        self.unfinished = ""  # the first layer whose output isn't finite
        self.last_layer = 0
        self.held = {}  # id of a tanh or sigmoid -> weak reference

    def training(self, tensor):
        """Whether an output belongs to training."""
        import torch

        return (
            self.watch.gradients
            and not self.watch.in_backward
            and isinstance(tensor, torch.Tensor)
            and tensor.is_floating_point()
            and tensor.numel() > 0
        )

    def left(self, module, output):
        """A layer without layers of its own has an output."""
        import torch

        if not self.training(output):
            return
        self.last_layer = id(module)
        if output.dtype == torch.float16:
            self.watch.parts["gradients"].half_output = True
        if not self.unfinished and not bool(strided(output, 2048).isfinite().all()):
            self.unfinished = self.watch.name_of(module)
        if isinstance(module, (torch.nn.Tanh, torch.nn.Sigmoid)):
            part = strided(output, 4096)
            ends = (
                part.abs() > 0.99
                if isinstance(module, torch.nn.Tanh)
                else ((part > 0.99) | (part < 0.01))
            )
            self.held[id(module)] = weakref.ref(module)
            self.full.setdefault(id(module), []).append(float(ends.float().mean()))

    def after_choice(self, token, result, args, kwargs):
        """topk() or argmax() within a module: a router, where there are as many experts."""
        import torch

        scores = args[0] if args else kwargs.get("input")
        stack = getattr(self.watch.local, "stack", None)
        if not stack or not self.training(scores) or scores.dim() < 2:
            return
        chosen = result if isinstance(result, torch.Tensor) else result[1]
        count = scores.shape[-1]
        if not 2 <= count <= 512 or chosen.is_floating_point():
            return
        if chosen.dim() == scores.dim() and chosen.shape[:-1] == scores.shape[:-1]:
            chosen = chosen[..., 0]
        if chosen.shape != scores.shape[:-1]:
            return
        for module in stack[:-4:-1]:
            key = (id(module), count)
            if key not in self.counted:
                self.counted[key] = has_experts(module, count)
            if self.counted[key]:
                counts = torch.bincount(chosen.reshape(-1).cpu(), minlength=count)
                ref, old = self.routers.get(key, (weakref.ref(module), 0))
                self.routers[key] = (ref, counts + old)
                return

    def ended(self):
        """The outermost module has ended: the last layer may be an output on purpose."""
        self.full.pop(self.last_layer, None)
        self.calls = {}

    def after_relu(self, token, result, args, kwargs):
        """F.relu: which units were above 0 for any row."""
        if not self.training(result) or result.dim() < 2:
            return
        stack = getattr(self.watch.local, "stack", None)
        if not stack:
            return
        top = stack[-1]
        place = self.calls[id(top)] = self.calls.get(id(top), 0) + 1
        units = 1 if result.dim() >= 4 else result.dim() - 1
        rest = [d for d in range(result.dim()) if d != units]
        alive = (result > 0).amax(dim=rest)
        key = (id(top), place)
        seen = self.alive.get(key)
        if seen is None or seen[0].shape != alive.shape:
            if len(self.alive) < 200:
                self.alive[key] = [alive, result.numel() // result.shape[units], 1]
        else:
            seen[0] |= alive
            seen[1] += result.numel() // result.shape[units]
            seen[2] += 1

    def after_attention(self, token, result, args, kwargs):
        """F.scaled_dot_product_attention(query, key): the largest score of one head."""
        query = args[0] if args else kwargs.get("query")
        key = args[1] if len(args) > 1 else kwargs.get("key")
        if not self.training(query) or query.dim() < 3 or len(self.scores) > 200:
            return
        while query.dim() > 2:
            query, key = query[0], key[0]
        scale = kwargs.get("scale") or query.shape[-1] ** -0.5
        highest = (query[:256].float() @ key[:256].float().T).abs().max() * scale
        self.scores.append((self.watch.step + 1, float(highest)))

    def after_softmax(self, token, result, args, kwargs):
        """F.softmax of square matrices per head: attention written by hand."""
        scores = args[0] if args else kwargs.get("input")
        if self.training(scores) and scores.dim() == 4 and len(self.scores) <= 200:
            part = strided(scores, 8192).float()
            part = part[part.isfinite() & (part > -1e4)]
            if part.numel() and scores.shape[-1] == scores.shape[-2]:
                self.scores.append((self.watch.step + 1, float(part.abs().max())))

    def unseen(self):
        """Why nothing can be said, if so."""
        if self.alive or self.full or self.held or self.scores or self.routers:
            return ""
        return "no ReLU, tanh, sigmoid, attention or router ran in training"

    def findings(self):
        """What the outputs showed."""
        step, found, names = self.watch.step, [], self.watch.names()
        dead = []
        for (key, _), (alive, rows, calls) in self.alive.items():
            share = 1 - float(alive.float().mean())
            if calls >= 8 and rows >= 128 and alive.numel() >= 8 and share >= 0.5:
                dead.append((share, names.get(key, "?"), alive.numel()))
        if dead:
            share, name, units = max(dead)
            found.append(
                finding(
                    "dead units",
                    step,
                    f"{share:.0%} of {units} units after the ReLU in {name} were zero for every "
                    "input in every step",
                    share=round(share, 3),
                    units=units,
                )
            )
        full = [
            names.get(key, "?")
            for key, shares in self.full.items()
            if len(shares) >= 5 and min(shares[-5:]) > 0.9
        ]
        if full:
            found.append(
                finding(
                    "saturated layer",
                    step,
                    f"over 90 % of the outputs of {some(full)} lie at the ends of their range",
                    layers=full[:20],
                )
            )
        high = [score for _, score in self.scores if score > 100]
        if len(high) >= 3 and len(high) >= 0.3 * len(self.scores):
            found.append(
                finding(
                    "large attention scores",
                    step,
                    f"attention scores reach {max(high):.4g} before the softmax",
                    highest=max(high),
                )
            )
        for (key, _), (_ref, counts) in self.routers.items():
            total, experts = int(counts.sum()), len(counts)
            busiest = float(counts.max()) / max(1, total) * experts
            unused = int((counts < 0.05 * total / experts).sum())
            if total >= 512 and (busiest > 0.75 * experts or busiest > 4) and unused:
                found.append(
                    finding(
                        "uneven experts",
                        step,
                        "the busiest of {} experts in {} is the first choice of {:.0%} of {} "
                        "tokens, and {} experts get next to none".format(
                            experts, names.get(key, "?"), busiest / experts, total, unused
                        ),
                        busiest=round(busiest, 2),
                        unused=unused,
                    )
                )
                break
        return found


# ---- token_rows.py
# Rows of tokens beside their labels: what is padding, what is learned, and where rows end.

SPECIAL = (("end", "eos_token_id"), ("begin", "bos_token_id"), ("padding", "pad_token_id"))
MOST_ROWS = 1024
IGNORED = -100


def tokenizers():
    """The tokenizers of transformers that the program holds."""
    return [
        one
        for one in gc.get_objects()
        if any(kind.__name__ == "PreTrainedTokenizerBase" for kind in type(one).__mro__)
    ]


def specials(tokenizer):
    """{name: id} of a tokenizer's marks."""
    found = {name: getattr(tokenizer, key, None) for name, key in SPECIAL}
    return {name: value for name, value in found.items() if isinstance(value, int)}


class TokenRows:
    """What rows of tokens showed. Of the tokens, only how often each stands in a row is kept."""

    def __init__(self):
        self.count = self.empty = self.full = 0
        self.elements = self.learned = self.padding = 0
        self.with_token, self.with_label = collections.Counter(), collections.Counter()
        self.twice = collections.Counter()  # id that a row begins with twice -> rows

    def add(self, tokens, labels):
        """Look at rows: whole numbers, both of one shape (rows, length)."""
        for row, learned in zip(tokens.tolist(), labels.tolist()):
            if self.count >= MOST_ROWS:
                return
            kept = {value for value in learned if value != IGNORED}
            run = len(row) - next((i for i in range(len(row), 0, -1) if row[i - 1] != row[-1]), 0)
            self.count += 1
            self.empty += not kept
            self.full += run < 2
            self.elements += len(row)
            self.learned += sum(value != IGNORED for value in learned)
            self.padding += run if run >= 2 else 0
            self.with_token.update(set(row))
            self.with_label.update(kept)
            if row[0] == row[1]:
                self.twice[row[0]] += 1

    def facts(self, name, final):
        """The facts. `final`: whether tokenizers may be looked for."""
        if self.count < 4:
            return []
        text = (
            f"{name} rows of tokens: {share(self.learned / self.elements)} of the labels count, "
            f"{share(self.padding / self.elements)} is padding, "
            f"{share(self.full / self.count)} fill the whole length"
        )
        found = [
            fact(
                f"data/{name} rows of tokens",
                text,
                learned=self.learned / self.elements,
                padding=self.padding / self.elements,
                full=self.full / self.count,
            )
        ]
        if self.empty:
            text = f"{share(self.empty / self.count)} of {count_of(self.count, name + ' row')}"
            text += " have no label that counts"
            found.append(
                fact(
                    f"data/{name} rows without labels",
                    text,
                    "each row has one",
                    share=self.empty / self.count,
                )
            )
        for marks in [specials(one) for one in tokenizers()][:1] if final else []:
            found += self.of_marks(name, marks)
        return found

    def of_marks(self, name, marks):
        """Whether the marks of a tokenizer are where they belong."""
        found, end = [], marks.get("end")
        held = self.with_token[end]
        if end is not None and held:
            learned = self.with_label[end]
            text = (
                f"the tokenizer's end token stands in {share(held / self.count)} of the {name} "
                f"rows and is a label in {share(learned / self.count)}"
            )
            text += "; it is the padding token too" if marks.get("padding") == end else ""
            usual = "a label where it ends a row" if learned < 0.5 * held else ""
            found.append(
                fact(
                    f"data/{name} end token",
                    text,
                    usual,
                    rows=held / self.count,
                    labels=learned / self.count,
                )
            )
        begin = marks.get("begin")
        if begin is not None and self.twice[begin] and begin != marks.get("padding"):
            text = f"{share(self.twice[begin] / self.count)} of the {name} rows begin with the "
            text += "tokenizer's begin token twice"
            found.append(
                fact(f"data/{name} begin token", text, "once", rows=self.twice[begin] / self.count)
            )
        return found


# ---- batches.py
# What data loaders hand out: order, repeats, ranges, and the time that it takes.

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


# ---- copies.py
# Copies of a model beside the one that trains: averages, teachers, what is evaluated.

FIRST = 2  # the step after which copies are looked for
ELEMENTS = 256  # of each weight
MOST_WEIGHTS = 64  # of a model


def bare_name(name):
    """A weight's name without what wrappers put before it."""
    for part in ("module.", "_orig_mod.", "model."):
        if name.startswith(part):
            return bare_name(name[len(part) :])
    return name


def matrices_of(model):
    """name -> weight of a model, of matrices, spread over all of them."""
    every = [(bare_name(n), p) for n, p in model.named_parameters() if p.dim() >= 2]
    return dict(every[:: max(1, -(-len(every) // MOST_WEIGHTS))])


def way_between(one, two):
    """The distance between two {name: sample}."""
    return math.sqrt(sum(float((one[n] - two[n]).double().pow(2).sum()) for n in one))


def steps_to_half(part, steps):
    """In how many steps an average goes half of the way to a model that stands still.

    `part`: how far it went, beside a model that went on steadily for `steps` steps.
    """
    if not part:
        return math.inf
    low, high = 1e-12, 1.0  # how much of the distance it goes in a step
    weight = high
    for _ in range(60):
        weight = math.sqrt(low * high)
        kept = math.exp(steps * math.log1p(-weight)) if weight < 1 else 0.0
        if 1 - (1 - kept) / (weight * steps) < part:
            low = weight
        else:
            high = weight
    return math.log(2) / -math.log1p(-weight) if weight < 1 - 1e-9 else 0.0


class Copy:
    """A model with the shapes of another one, whose weights no optimizer has."""

    def __init__(self, module, weights, of):
        self.ref, self.of = weakref.ref(module), of
        self.kind = type(module).__name__
        self.names = list(weights)
        self.start = samples(weights)

    def now(self):
        """Its weights now, or None if it is gone."""
        module = self.ref()
        if module is None:
            return None
        every = {bare_name(n): p for n, p in module.named_parameters()}
        return samples({n: every[n] for n in self.names if n in every})


def samples(weights):
    """name -> sample of a weight, in double precision."""
    return {n: strided(p, ELEMENTS).double().cpu().clone() for n, p in weights.items()}


class Copies(Observer):
    """Compares the way that a copy goes with the way of the model that trains."""

    name = "copies"

    def __init__(self, watch):
        super().__init__(watch)
        self.trained = []  # (weak reference to a model that trains, its samples)
        self.copies = []
        self.done = False
        self.evaluated = {}  # id of a model -> calls without gradients
        self.steps = 0

    def after_step(self, optimizer):
        """Look for copies once, early."""
        self.steps += 1
        if self.done or self.steps < FIRST:
            return
        self.done = True
        held = self.watch.parts["parameters"].held()
        for model in self.watch.models():
            weights = matrices_of(model)
            if weights and any(id(p) in held for p in weights.values()):
                self.trained.append((weakref.ref(model), samples(weights)))
        self.find(held)

    def find(self, held):
        """Modules with the names and shapes of a model that trains, and other weights."""
        import torch

        shapes = []
        for ref, _ in self.trained:
            model = ref()
            every = {bare_name(n): tuple(p.shape) for n, p in model.named_parameters()}
            shapes.append((every, matrices_of(model)))
        if not shapes:
            return
        inside = set()
        every = [one for one in gc.get_objects() if issubclass(type(one), torch.nn.Module)]
        for module in every:
            inside |= {id(child) for child in module._modules.values() if child is not None}
        for module in every:
            if id(module) in inside:
                continue
            mine = {bare_name(n): p for n, p in module.named_parameters()}
            for place, (table, weights) in enumerate(shapes):
                if len(mine) < 2 or {n: tuple(p.shape) for n, p in mine.items()} != table:
                    continue
                if any(id(p) in held for p in mine.values()):
                    continue
                chosen = {n: mine[n] for n in weights}
                if all(chosen[n] is not weights[n] for n in weights):
                    self.copies.append(Copy(module, chosen, place))
                break

    def left(self, module):
        """A model has run without gradients."""
        if len(self.evaluated) < 32 or id(module) in self.evaluated:
            self.evaluated[id(module)] = self.evaluated.get(id(module), 0) + 1

    def half_life(self, copy):
        """(its way beside the model's, steps in which it goes half of the way) or None."""
        ref, start = self.trained[copy.of]
        model, now = ref(), copy.now()
        steps = self.steps - FIRST
        if model is None or now is None or set(now) != set(start) or steps < 3:
            return None
        every = {bare_name(n): p for n, p in model.named_parameters()}
        way = way_between(samples({n: every[n] for n in start}), start)
        mine = way_between(now, copy.start)
        if not way:
            return None
        return mine / way, steps_to_half(mine / way, steps)

    def facts(self):
        """How far copies follow, and whose weights were evaluated."""
        found, planned = [], self.watch.parts["settings"].planned()
        for copy in self.copies[:3]:
            life = self.half_life(copy)
            if life is None:
                continue
            way, half = life
            module = copy.ref()
            ran = self.evaluated.get(id(module), 0)
            ran += sum(self.evaluated.get(id(m), 0) for m in module._modules.values() if m)
            used = f", evaluated {count_of(ran, 'time')}" if ran else ""
            if math.isinf(half):
                text = (
                    f"a copy of the model ({copy.kind}{used}) has not moved in {self.steps} steps"
                )
                found.append(fact(f"weights/copy {copy.kind}", text, way=0))
                continue
            text = (
                f"a copy of the model ({copy.kind}{used}) went {share(way)} as far as the model "
                f"in {self.steps} steps; half of the way takes it about {brief(half)} steps"
            )
            usual = ""
            if planned and half > planned / 4:
                text += f", and the run has about {planned:,}"
                usual = "it follows within a small part of the run"
            found.append(fact(f"weights/copy {copy.kind}", text, usual, way=way))
        return found


# ---- files.py
# Where files are saved and found: numbers in their names, and who wrote them.

# Files with these words stand side by side on purpose.
SIDE_BY_SIDE = re.compile(r"(?i)rank|shard|part|worker|fold|seed|rng|layer|world|mp_|-of-|best")
COUNTED = re.compile(r"(?i)checkpoint|ckpt|step|epoch|iter|update|round")
UNFINISHED = (".tmp", ".part", ".temp", ".partial")


def path_of(target):
    """The absolute path that torch.save or torch.load was given, or an empty text."""
    if isinstance(target, (str, os.PathLike)):
        path = os.fspath(target)
        return os.path.abspath(path) if isinstance(path, str) else ""
    return ""


def numbered(path):
    """(folder, name without its numbers, its numbers) of a checkpoint, or None.

    The name is that of the file, or of its folder where the file's own has no number. It says what
    it counts: model_2.pt and run_2/ may be a second model and a second run.
    """
    for one in (path, os.path.dirname(path)):
        folder, name = os.path.split(one)
        numbers = [int(number) for number in re.findall(r"\d+", name)]
        if SIDE_BY_SIDE.search(name) or name.endswith(UNFINISHED):
            return None
        if numbers and COUNTED.search(name) and max(numbers) < 10**12:
            return folder, re.sub(r"\d+", "#", name), numbers
    return None


def beside(path):
    """The numbers of the checkpoints beside one, with the time when each was written."""
    own = numbered(path)
    if own is None:
        return []
    folder, pattern, _ = own
    found = []
    try:
        for name in os.listdir(folder)[:2000]:
            numbers = [int(number) for number in re.findall(r"\d+", name)]
            if numbers and re.sub(r"\d+", "#", name) == pattern:
                found.append((numbers, os.path.getmtime(os.path.join(folder, name))))
    except OSError:
        return []
    return found


def handler_above():
    """The name of the signal whose Python handler is running now, or an empty text."""
    handlers = {}
    for number in signal.Signals:
        handler = signal.getsignal(number)
        code = getattr(getattr(handler, "__func__", handler), "__code__", None)
        if code is not None:
            handlers[code] = number.name
    frame = sys._getframe(1)
    while frame is not None and handlers:
        name = handlers.get(frame.f_code)
        # A handler that Python called got the frame that it interrupted.
        if name and any(value is frame.f_back for value in frame.f_locals.values()):
            return name
        frame = frame.f_back
    return ""


def crc(text):
    """A number for a path, from which it can't be had back."""
    return zlib.crc32(text.encode("utf-8", "replace"))


# ---- opened.py
# Which files the program reads: data, settings, caches, weights.

MOST_FILES = 10000  # that are looked at
NOT_DATA = (".py", ".pyc", ".pyi", ".so", ".pth.lock", ".lock", ".json.lock", ".h", ".cpp", ".pem")
ELSEWHERE = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/", "/tmp/rgt-probe-")
SAMPLES = (
    ".jpg",
    ".jpeg",
    ".png",
    ".webp",
    ".bmp",
    ".gif",
    ".tif",
    ".tiff",
    ".wav",
    ".flac",
    ".mp3",
)
CACHES = (".pkl", ".pickle", ".npy", ".npz", ".pt", ".bin", ".cache", ".arrow", ".h5", ".feather")


class Opened:
    """Remembers the files that this process opens to read, by an audit hook of Python.

    A hook can't be taken off, so it looks at nothing once the steps are over, or after
    `MOST_FILES` files.
    """

    def __init__(self):
        self.read, self.on, self.busy = {}, True, threading.local()
        self.left = MOST_FILES
        sys.addaudithook(self.saw)

    def saw(self, event, args):
        """Called by Python at each event that can be audited."""
        if not self.on or event != "open" or getattr(self.busy, "now", False):
            return
        path, mode, flags = args
        if not isinstance(path, str) or (flags or 0) & (os.O_WRONLY | os.O_RDWR):
            return
        if path in self.read or path.endswith(NOT_DATA):
            return
        self.left -= 1
        self.on = self.left > 0
        self.busy.now = True
        try:
            whole = os.path.abspath(path)
            if not whole.startswith(ELSEWHERE) and not is_library(whole):
                self.read[path] = whole
        except Exception:
            pass
        finally:
            self.busy.now = False


def is_library(path):
    """Whether a file lies with the packages that Python imports, and not with the program."""
    if any(part in path for part in ("site-packages", "dist-packages", sys.base_prefix, "/.")):
        return True
    here = os.getcwd() + os.sep
    roots = [os.path.abspath(root) + os.sep for root in sys.path if root]
    return any(path.startswith(root) and not here.startswith(root) for root in roots)


@functools.lru_cache(maxsize=1)
def opened_by_this_process():
    """The files that this process opens, seen by one hook however often the probe looks."""
    return Opened()


class Files(Observer):
    """Tells which files were read. Files of one folder and kind are counted, not named."""

    name = "files"

    def __init__(self, watch):
        super().__init__(watch)
        self.known = None  # what had been read when it was looked at, and the facts
        self.opened = opened_by_this_process()

    def facts(self):
        """What was read, and caches that are older than what they may be made from."""
        self.opened.on = self.opened.on and not self.watch.final
        # A report is made several times, and a file on a network drive takes a moment to look at.
        seen = len(self.opened.read), len(self.watch.parts["checkpoints"].settings)
        if self.known is None or self.known[0] != seen:
            self.known = seen, self.look()
        return self.known[1]

    def look(self):
        """The facts about the files that were read so far."""
        every = dict.fromkeys(list(self.opened.read.values()))
        paths = [path for path in every if os.path.isfile(path)]
        texts = [text for inside in by_kind(paths) for text in told(inside)]
        found = [fact("data/files", "read " + some(texts, 8), files=texts[:64])] if texts else []
        return self.of_caches(paths) + self.of_settings(paths) + found

    def of_settings(self, paths):
        """Settings in a checkpoint that was loaded beside a file of settings that was read."""
        found, loaded = [], []
        for one in self.watch.parts["checkpoints"].settings[:8]:
            loaded += [] if one in loaded else [one]
        read = [(path, flat(settings_in(path))) for path in paths] if loaded else []
        for source, held in loaded:
            for path, told in read:
                both = set(told) & set(held)
                if len(both) < 4 or len(both) < 0.5 * max(len(told), len(held)):
                    continue
                differ = sorted(name for name in both if told[name] != held[name])
                if differ:
                    text = (
                        f"{short(source)} holds settings that differ from those in {short(path)} "
                        f"in {len(differ)} of {len(both)}: {some(differ, 4)}"
                    )
                    usual = "the same settings"
                    found.append(fact(f"in force/settings {short(path)}", text, usual))
        return found[:2]

    def of_caches(self, paths):
        """Caches beside a newer file that they seem to be made from and that nobody read."""
        found = []
        for path in paths:
            if not path.lower().endswith(CACHES):
                continue
            folder, name = os.path.split(path)
            for other in sorted(os.listdir(folder))[:2000]:
                source, stem = os.path.join(folder, other), os.path.splitext(other)[0]
                if source == path or other.lower().endswith(CACHES) or len(stem) < 4:
                    continue
                if not name.startswith(stem) or source in paths or not os.path.isfile(source):
                    continue
                days = (os.path.getmtime(source) - os.path.getmtime(path)) / 86400
                text = f"{short(path)} was read and {other} beside it was not"
                if days > 0:
                    text += f", which is {days:.1f} days newer"
                # A checkout or a copy writes both at about the same time.
                usual = "a cache is newer than its source" if days > 1 / 24 else ""
                found.append(fact(f"data/cache {name}", text, usual, days=round(days, 2)))
        return found[:3]


def by_kind(paths):
    """Groups of paths: few files beside each other, or the many of one kind.

    Folders may be named after classes, so those of one kind are one group, wherever they lie.
    """
    groups = {}
    for path in paths:
        key = os.path.dirname(os.path.dirname(path)), os.path.splitext(path)[1].lower()
        groups.setdefault(key, []).append(path)
    few, many = [], {}
    for (_, kind), inside in groups.items():
        if are_counted(kind, inside):
            many.setdefault(kind, []).extend(inside)
        else:
            few.append(inside)
    return [*few, *many.values()]


def are_counted(kind, inside):
    """Whether the files of a group are counted, and not named."""
    return len(inside) > 3 or kind in SAMPLES


def told(inside):
    """The texts of a group of paths."""
    kind = os.path.splitext(inside[0])[1].lower()
    if not are_counted(kind, inside):
        return [f"{short(path)} ({in_words(size_of(path))})" for path in inside]
    above = os.path.commonpath([os.path.dirname(os.path.dirname(path)) for path in inside])
    return [f"{count_of(len(inside), (kind or 'other') + ' file')} below {short(above)}"]


def settings_in(path):
    """The settings in a JSON file; {} for anything else."""
    if not path.lower().endswith(".json") or size_of(path) > 1 << 20:
        return {}
    try:
        with open(path, encoding="utf-8") as handle:
            held = json.load(handle)
    except (OSError, ValueError):
        return {}
    return held if isinstance(held, dict) else {}


def flat(held, above="", depth=4):
    """Dotted name -> value, of plain values within dicts."""
    found = {}
    for key, value in list(held.items())[:256]:
        if isinstance(value, dict) and depth:
            found.update(flat(value, f"{above}{key}.", depth - 1))
        elif value is None or isinstance(value, (str, int, float, bool)):
            found[above + str(key)] = value
    return found


def size_of(path):
    """The bytes of a file; 0 if it is gone."""
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def in_words(size):
    """Bytes as kB or MB."""
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{max(size / 1e3, 0.1):.1f} kB"


def short(path):
    """A path as seen from the program's folder."""
    here = os.path.relpath(path)
    return here if len(here) < len(path) else path


# ---- checkpoints.py
# What is saved and loaded.


def is_class(thing):
    """Whether a saved thing is a class or a type, which a checkpoint may name in its settings."""
    return isinstance(thing, type) or hasattr(thing, "__origin__")


def is_model(thing):
    """Whether a saved thing is a model."""
    has_state = hasattr(thing, "state_dict") and hasattr(thing, "parameters")
    return has_state and not is_class(thing)


def parts_of(thing, depth=3):
    """Which kinds of state a saved object holds: weights, optimizer, scheduler."""
    found = set()
    if not depth or not hasattr(thing, "items"):
        return {"weights"} if is_model(thing) else found
    if is_class(thing):
        return found
    keys = set(thing.keys())
    if {"state", "param_groups"} <= keys:
        return {"optimizer"}
    if "last_epoch" in keys:
        return {"scheduler"}
    tensors = sum(hasattr(value, "untyped_storage") for value in thing.values())
    if tensors >= 2 and tensors >= 0.5 * len(keys):
        return {"weights"}
    for value in thing.values():
        if isinstance(value, (list, tuple)):
            for one in value[:8]:
                found |= parts_of(one, depth - 1)
        else:
            found |= parts_of(value, depth - 1)
    return found


def tensors_in(thing, depth=4):
    """Name -> tensor of all tensors in a saved thing, by the names of their weights."""
    if is_model(thing):
        thing = thing.state_dict()
    found = {}
    if depth and hasattr(thing, "items") and not is_class(thing):
        for key, value in thing.items():
            if hasattr(value, "untyped_storage"):
                found.setdefault(bare_name(str(key)), value)
            else:
                for name, tensor in tensors_in(value, depth - 1).items():
                    found.setdefault(name, tensor)
    return found


SETTINGS = ("config", "cfg", "args", "opt", "hparams", "hyper_parameters")


class Checkpoints(Observer):
    """Looks at torch.save, torch.load and load_state_dict."""

    name = "checkpoints"

    def __init__(self, watch):
        super().__init__(watch)
        self.saved, self.read = [], []  # (step, parts)
        self.loaded_optimizer = self.loaded_scheduler = 0
        self.loaded_model = False
        self.pretrained = ""  # the class of a known vision model that weights were loaded into
        self.missed = []
        self.counts = []  # (steps in the optimizer's state, scheduler) at the first step
        self.started = False
        self.written, self.opened = [], []  # (step, path)
        self.older = None  # (path, numbers, newer numbers) of a checkpoint that was read
        self.lower = None  # (step, numbers, higher numbers) of a save, nothing having been loaded
        self.settings = []  # (path, {dotted name: value}) of checkpoints that hold settings
        self.compared = []  # (step, how the weights in a save compare with those that train)
        self.handlers = []  # (step, signal) of saves within a handler
        self.own = {}  # id of a parameter that was loaded -> its name
        self.new_connectors = []  # names of connector weights that a state lacks
        self.connected = set()  # ids of connector weights that were loaded

    def before_save(self, args, kwargs):
        """What lay beside the file before."""
        path = path_of(args[1] if len(args) > 1 else kwargs.get("f"))
        saved = numbered(path) if path else None
        if saved is None or self.lower or self.loaded_model:
            return
        higher = [numbers for numbers, _ in beside(path) if numbers > saved[2]]
        if higher and self.watch.step:
            self.lower = (self.watch.step, saved[2], max(higher), path)

    def after_save(self, token, result, args, kwargs):
        """torch.save(obj, f)."""
        thing = args[0] if args else kwargs.get("obj")
        self.saved.append((self.watch.step, parts_of(thing)))
        if len(self.compared) < 8:
            self.compared.append((self.watch.step, self.beside_models(thing)))
        path = path_of(args[1] if len(args) > 1 else kwargs.get("f"))
        if path and len(self.written) < 200:
            self.written.append((self.watch.step, path))
        name = handler_above()
        if name:
            self.handlers.append((self.watch.step, name))

    def after_load(self, token, result, args, kwargs):
        """torch.load(f)."""
        self.read.append((self.watch.step, parts_of(result)))
        self.note_settings(args[0] if args else kwargs.get("f"), result)
        path = path_of(args[0] if args else kwargs.get("f"))
        loaded = numbered(path) if path else None
        if loaded is None:
            return
        self.opened.append(loaded)
        times = dict((tuple(numbers), when) for numbers, when in beside(path))
        mine = times.get(tuple(loaded[2]), 0)
        newer = [list(n) for n, when in times.items() if list(n) > loaded[2] and when >= mine]
        if newer and self.older is None:
            self.older = (path, loaded, max(newer), self.watch.step)

    def note_settings(self, target, thing):
        """Keep the settings of the run that wrote a checkpoint, where it holds them."""
        path = path_of(target)
        if not path or not isinstance(thing, dict):
            return
        for key in SETTINGS:
            own = thing.get(key)
            own = own if isinstance(own, dict) else getattr(own, "__dict__", None)
            if own and len(self.settings) < 8:
                self.settings.append((path, flat(own)))

    def after_model(self, token, result, args, kwargs):
        """Module.load_state_dict(state_dict, strict=True)."""
        module = args[0]
        state = args[1] if len(args) > 1 else kwargs.get("state_dict")
        strict = args[2] if len(args) > 2 else kwargs.get("strict", True)
        home = type(module).__module__
        if home.startswith(("torchvision.models", "timm.models")) and not self.watch.step:
            self.pretrained = type(module).__name__
        self.loaded_model = True
        self.note(module, state)
        own = set(module.state_dict().keys())
        if not strict and own and len(state) >= 2 and not own & set(state):
            self.missed.append((len(own), len(state), sorted(own)[0], sorted(state)[0]))

    def note(self, module, state):
        """Which weights were loaded, and whether those of a connector weren't."""
        names = dict(module.named_parameters())
        there = {name for name in names if name in state}
        if not self.watch.step:
            self.own.update((id(names[name]), name) for name in there)
        bridge = [
            n for n in names if any(word in n for word in ("projector", "connector", "merger"))
        ]
        self.connected.update(id(names[n]) for n in there if n in bridge or not bridge)
        if bridge and there and not there & set(bridge):
            self.new_connectors = [(n, id(names[n])) for n in bridge]

    def told(self):
        """What the parent compares between ranks."""
        made = sorted({crc(path) for when, path in self.written if when and path != os.devnull})
        return {"saved": made[:64], "host": crc(platform.node())}

    def after_optimizer(self, token, result, args, kwargs):
        """Optimizer.load_state_dict."""
        self.loaded_optimizer += 1

    def after_scheduler(self, token, result, args, kwargs):
        """LRScheduler.load_state_dict."""
        self.loaded_scheduler += 1

    def before_step(self, optimizer):
        """The first step: where optimizer and scheduler stand."""
        if self.started:
            return
        self.started = True
        states = [state for state in optimizer.state.values() if isinstance(state, dict)]
        steps = [number(state.get("step")) for state in states]
        steps = [count for count in steps if count is not None]
        for held in self.watch.parts["rates"].schedulers:
            scheduler = held["ref"]()
            if scheduler is not None and held["optimizer"]() is optimizer and steps:
                self.counts.append((max(steps), scheduler.last_epoch))

    def beside_models(self, thing):
        """(weights that train, those of them in the saved thing, those that are equal there)."""
        there, held = tensors_in(thing), self.watch.parts["parameters"].held()
        trained = [
            (bare_name(name), parameter)
            for model in self.watch.models()
            for name, parameter in model.named_parameters()
            if id(parameter) in held
        ]
        mine = dict(trained)
        named = [name for name in mine if name in there and there[name].shape == mine[name].shape]
        equal = [
            name
            for name in named
            if bool((strided(there[name], 256).cpu() == strided(mine[name], 256).cpu()).all())
        ]
        return len(mine), len(named), len(equal)

    def facts(self):
        """What was saved, beside the weights that train, and what was loaded."""
        found = []
        kinds = set().union(*(parts for _, parts in self.saved)) if self.saved else set()
        for when, (mine, named, equal) in self.compared[-1:]:
            if not mine or not named:
                continue
            also = ", ".join(sorted(kinds - {"weights"})) or "nothing else"
            text = (
                f"after step {when}: {named} of {mine} trained weights, {equal} of them equal to "
                f"the model's; and {also}"
            )
            usual = "all, and equal" if min(named, equal) < mine else ""
            found.append(fact("saved/weights", text, usual, trained=mine, saved=named, equal=equal))
        read = [parts for _, parts in self.read if parts]
        if read:
            listed = ", ".join(sorted(set().union(*read)))
            text = f"loaded before or between the steps: {listed}"
            text += f"; optimizers {self.loaded_optimizer}, schedulers {self.loaded_scheduler}"
            found.append(
                fact(
                    "saved/loaded",
                    text,
                    optimizers=self.loaded_optimizer,
                    schedulers=self.loaded_scheduler,
                )
            )
        return found

    def unseen(self):
        """Why nothing can be said, if so."""
        there = self.saved or self.read or self.loaded_model or self.loaded_optimizer
        return "" if there else "nothing was saved or loaded"

    def findings(self):
        """What was saved and loaded."""
        step = self.watch.step
        return self.each((self.of_states, step), (self.of_files, step), (self.of_weights, step))

    def of_states(self, step):
        """Which states were saved and loaded."""
        found = []
        early = [(when, parts) for when, parts in self.saved if 0 < when < step]
        kinds = set().union(*(parts for _, parts in self.saved)) if self.saved else set()
        if early and any("weights" in parts for _, parts in early) and "optimizer" not in kinds:
            found.append(
                finding(
                    "checkpoint lacks the optimizer",
                    early[0][0],
                    f"torch.save wrote weights after step {early[0][0]} and training went on; no "
                    "file holds an "
                    "optimizer's state",
                    saves=len(early),
                )
            )
        start = [parts for when, parts in self.read if when == 0]
        has_state = any("optimizer" in parts for parts in start)
        if has_state and step and self.loaded_model and not self.loaded_optimizer:
            found.append(
                finding(
                    "optimizer not restored",
                    1,
                    "torch.load read a file with an optimizer's state before step 1; the model "
                    "was loaded and no optimizer.load_state_dict() was called",
                )
            )
        for steps, stands in self.counts:
            if self.loaded_optimizer and steps > 0 and stands == 0 and not self.loaded_scheduler:
                found.append(
                    finding(
                        "scheduler not restored",
                        1,
                        f"at the first step the optimizer's state counted {steps:g} steps, the "
                        "scheduler 0",
                        optimizer=steps,
                    )
                )
                break
        for own, given, mine, theirs in self.missed[:1]:
            found.append(
                finding(
                    "nothing was loaded",
                    0,
                    f"none of {given} names in the state matches one of the {own} in the model: "
                    f"{theirs} there, {mine} "
                    "here",
                    names=given,
                )
            )
        return found

    def of_files(self, step):
        """Which files were chosen, written and deleted."""
        found = []
        if self.older and self.loaded_model:
            path, loaded, newer, when = self.older
            if not any(one[:2] == loaded[:2] and one[2] >= newer for one in self.opened):
                found.append(
                    finding(
                        "older checkpoint",
                        when + 1,
                        f"{os.path.basename(path)} was loaded; a newer one beside it has "
                        f"{newer[-1]} in place of {loaded[2][-1]}",
                        loaded=loaded[2][-1],
                        newest=newer[-1],
                    )
                )
        if self.lower and not self.loaded_model:
            when, mine, higher, path = self.lower
            trainer = "checkpoint-" in path and "transformers.trainer" in sys.modules
            found.append(
                finding(
                    "Trainer began anew" if trainer else "counting from the start",
                    when,
                    f"torch.save wrote number {mine[-1]} while number {higher[-1]} lay beside "
                    "it, and no weights were loaded before",
                    saved=mine[-1],
                    there=higher[-1],
                )
            )
        for when, name in self.handlers[:1]:
            found.append(
                finding(
                    "saved by a signal handler",
                    when + 1,
                    f"torch.save ran within the handler of {name} after step {when}, before the "
                    "loop had ended its turn",
                    signal=name,
                )
            )
        return found + self.of_deleted(step)

    def of_deleted(self, step):
        """Numbered checkpoints of this run of which the newest is gone."""
        groups = {}
        for when, path in self.written:
            found = numbered(path)
            if found and when and not path.endswith(UNFINISHED):
                groups.setdefault(found[:2], []).append((found[2], path))
        for saves in groups.values():
            saves.sort()
            there = [numbers for numbers, path in saves if os.path.exists(path)]
            if len({tuple(numbers) for numbers, _ in saves}) < 3 or not there:
                continue
            if max(there) < saves[-1][0]:
                return [
                    finding(
                        "newest was deleted",
                        step,
                        f"number {saves[-1][0][-1]} was saved last and is gone; number "
                        f"{max(there)[-1]} is the newest that is left",
                        saved=saves[-1][0][-1],
                        left=max(there)[-1],
                    )
                ]
        return []

    def of_weights(self, step):
        """Rates of loaded and new weights, and connectors that nobody loaded."""
        parameters, found = self.watch.parts["parameters"], []
        if "parameters" in self.watch.failed or step < 3 or self.loaded_optimizer:
            return found
        held = parameters.held()
        for model in self.watch.models():
            free = {
                id(p): name
                for name, p in model.named_parameters()
                if p.requires_grad and id(p) in held and id(p) in parameters.seen
            }
            rates = {key: max(parameters.seen[key].rates, default=0.0) for key in free}
            old = [key for key in free if key in self.own]
            new = [key for key in free if key not in self.own]
            adam = any("Adam" in one["type"] for one in parameters.optimizers.values())
            one = {rates[key] for key in free}
            if old and new and adam and len(one) == 1 and max(one) >= 1e-3:
                found.append(
                    finding(
                        "old and new at one rate",
                        1,
                        f"{len(old)} loaded weights ({some([free[k] for k in old], 2)}) and "
                        f"{len(new)} new ones ({some([free[k] for k in new], 2)}) train at "
                        f"{max(one):g} under Adam",
                        rate=max(one),
                        loaded=len(old),
                        new=len(new),
                    )
                )
            fresh = [n for n, key in self.new_connectors if key in free]
            fresh = [] if {key for _, key in self.new_connectors} & self.connected else fresh
            others = [free[key] for key in old if "vision" not in free[key]]
            if fresh and others:
                found.append(
                    finding(
                        "new connector trains along",
                        1,
                        f"the state that was loaded has no weights for the connector "
                        f"({some(fresh, 2)}), and {len(others)} loaded weights of the language "
                        f"model ({some(others, 2)}) train together with it",
                        connector=len(fresh),
                        others=len(others),
                    )
                )
            if found:
                break
        return found


# ---- gradients.py
# backward(), clipping and the gradient scaler.

MEAN_NODES = (
    "NllLoss",
    "MseLoss",
    "SmoothL1",
    "HuberLoss",
    "BinaryCrossEntropy",
    "L1Loss",
    "KlDiv",
)


def some_gradients(optimizer):
    """(weak reference to a parameter, sample of its gradient) for a few parameters."""
    every = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    chosen = [every[i] for i in sorted({0, len(every) // 2, len(every) - 1})] if every else []
    return [
        (weakref.ref(p), sample(p.grad, 256))
        for p in chosen
        if p.grad is not None and not p.grad.is_sparse
    ]


def changed(held):
    """Whether gradients aren't what they were when last seen."""
    for ref, old in held:
        parameter = ref()
        if parameter is None or parameter.grad is None or parameter.grad.is_sparse:
            return True
        now = strided(parameter.grad, 256)
        if now.numel() != old.numel() or bool((now != old).any()):
            return True
    return False


class Gradients(Observer):
    """Looks at losses on their way into backward(), and at gradients up to the step."""

    name = "gradients"

    def __init__(self, watch):
        super().__init__(watch)
        self.known = {}  # id of the optimizer -> [(parameter, its gradient when last seen)]
        self.cleared = {}  # id of the optimizer -> whether they were set back since its last step
        self.piled, self.fresh = {}, {}
        self.arrived = set()  # ids of optimizers for which a backward() left a gradient
        self.backwards = self.undivided = 0  # since the last step
        self.windows = []  # (backwards, undivided, batches) of each step
        self.norms = []  # (step, norm before clipping, limit)
        self.clipped = {}  # id of the optimizer -> its gradients after clipping, as in `known`
        self.clips = self.others = 0  # steps behind a clipping, and those with other gradients
        self.scales = {}  # id of a scaler -> [scale, ...]
        self.scaled = False  # whether a scaled loss went back and wasn't unscaled
        self.while_scaled = []
        self.skipped, self.taken = 0, 0
        self.row = self.longest = 0
        self.half_output = False

    # backward

    def before_backward(self, args, kwargs):
        """The loss, and whether the last gradients are still there."""
        loss = args[0]
        self.watch.in_backward = True
        self.backwards += 1
        name = type(loss.grad_fn).__name__
        mean = name.startswith("MeanBackward") or (
            name.startswith(MEAN_NODES) and getattr(loss.grad_fn, "_saved_reduction", 0) == 1
        )
        self.undivided += mean
        for key, held in self.known.items():
            if self.backwards_of(key) and not self.carried(held):
                self.cleared[key] = True
        self.watch.parts["modes"].trained()
        self.watch.parts["batches"].trained()
        return None

    def backwards_of(self, key):
        """Whether an optimizer is still there."""
        return key in self.watch.parts["parameters"].optimizers

    def carried(self, held):
        """Whether gradients are what they were when last seen, and not all zero."""
        return not changed(held) and any(bool(old.any()) for _, old in held)

    def after_backward(self, token, result, args, kwargs):
        """Remember the gradients."""
        self.watch.in_backward = False
        for key in list(self.known):
            self.remember(key)
            if key not in self.arrived and any(bool(g.any()) for _, g in self.known.get(key, ())):
                self.arrived.add(key)

    def was_there(self, optimizer):
        """Whether a gradient that isn't zero was there after a backward()."""
        return id(optimizer) in self.arrived

    def remember(self, key):
        """Copy samples of the gradients of a few parameters of an optimizer."""
        optimizer = self.watch.parts["parameters"].optimizers[key]["ref"]()
        if optimizer is None:
            self.known.pop(key, None)
            return
        self.known[key] = some_gradients(optimizer)

    def before_step(self, optimizer):
        """Whether the gradients of this step are those that clipping left."""
        held = self.clipped.pop(id(optimizer), None)
        if held:
            self.clips += 1
            self.others += changed(held)

    def after_step(self, optimizer):
        """Close the window between two steps of an optimizer."""
        key = id(optimizer)
        if key in self.known and self.backwards:
            if self.known[key] and not self.cleared.get(key, True):
                self.piled[key] = self.piled.get(key, 0) + 1
            else:
                self.fresh[key] = self.fresh.get(key, 0) + 1
        self.cleared[key] = False
        self.clipped.pop(key, None)  # of a closure, which ran within the step
        self.remember(key)
        batches = self.watch.parts["batches"].drawn
        self.watch.parts["batches"].drawn = 0
        self.windows.append((self.backwards, self.undivided, batches))
        self.backwards = self.undivided = 0
        self.scaled = False

    def facts(self):
        """Clipping, and the scale of the loss."""
        found = []
        if self.norms:
            limit = self.norms[-1][2]
            over = sum(norm > limit for _, norm, limit in self.norms) / len(self.norms)
            middle = median([norm for _, norm, _ in self.norms])
            text = f"clipped at {limit:g}: {share(over)} of the steps, a norm of {brief(middle)}"
            usual = ""
            if self.others > self.clips / 2:
                text += f"; {self.others} of {self.clips} steps used other gradients than these"
                usual = "clipping comes after the last backward() of a step"
            found.append(
                fact("in force/clipping", text, usual, limit=limit, share=over, norm=middle)
            )
        else:
            found.append(fact("in force/clipping", "no clipping by norm was seen", limit=0))
        for scales in list(self.scales.values())[:1]:
            text = f"loss scale {scales[0]:g} to {scales[-1]:g}, {self.skipped} steps skipped"
            found.append(fact("in force/loss scale", text, scale=scales[-1], skipped=self.skipped))
        return found

    # clipping and scaling

    def after_clip(self, token, result, args, kwargs):
        """The norm before clipping, and whether the gradients still carry a scale."""
        norm = float(result)
        limit = float(args[1] if len(args) > 1 else kwargs.get("max_norm", math.inf))
        self.norms.append((self.watch.step + 1, norm, limit))
        if self.scaled:
            self.while_scaled.append((self.watch.step + 1, norm))
        if self.scaled or not math.isfinite(norm):
            return
        for key, held in self.known.items():
            optimizer = self.watch.parts["parameters"].optimizers[key]["ref"]()
            if optimizer is not None and changed(held):
                # A gradient that clipping left as it was tells nothing of where it came from.
                self.clipped[key] = some_gradients(optimizer)

    def after_scale(self, token, result, args, kwargs):
        """A loss was scaled."""
        scaler = args[0]
        if scaler.is_enabled() and scaler._scale is not None:
            scale = float(scaler._scale)
            self.scales.setdefault(id(scaler), []).append(scale)
            self.scaled = scale > 1

    def after_unscale(self, token, result, args, kwargs):
        """The scale was taken out."""
        self.scaled = False

    def before_scaler_step(self, args, kwargs):
        """How many steps the optimizer had taken."""
        optimizer = args[1] if len(args) > 1 else kwargs.get("optimizer")
        optimizer = bare(optimizer)
        return optimizer, self.watch.parts["parameters"].of(optimizer)["steps"]

    def after_scaler_step(self, token, result, args, kwargs):
        """Whether the scaler skipped the step."""
        optimizer, before = token
        held = self.watch.parts["parameters"].of(optimizer)
        if not args[0].is_enabled():
            return
        if held["steps"] > before:
            self.taken += 1
            self.row = 0
        else:
            self.skipped += 1
            self.row += 1
            self.longest = max(self.longest, self.row)
            held["skipped"] += 1
            self.scaled = False
            self.backwards = self.undivided = 0
            self.watch.stepped(optimizer)

    # what it shows

    def unseen(self):
        """Why nothing can be said, if so."""
        return "" if any(w[0] for w in self.windows) else "no backward() of a loss was seen"

    def findings(self):
        """What the gradients showed."""
        step = self.watch.step
        return self.each((self.of_backwards, step), (self.of_norms, step), (self.of_layers, step))

    def of_backwards(self, step):
        """Gradients that pile up, losses that aren't divided, and the scaler."""
        found = []
        for key, piled in self.piled.items():
            if piled >= 4 and not self.fresh.get(key):
                found.append(
                    finding(
                        "gradients pile up",
                        step,
                        f"in {piled} steps the gradients of the step before were still there at "
                        "the first "
                        "backward()",
                        steps=piled,
                    )
                )
                break
        windows = self.windows[1:-1]
        several = [w for w in windows if w[0] > 1 and w[1] == w[0] and w[2] == w[0]]
        if len(several) >= 3 and len(several) == len(windows):
            count = several[0][0]
            found.append(
                finding(
                    "undivided accumulation",
                    step,
                    f"{count} losses that are means went back in each step, each of its own "
                    "batch and none "
                    "divided",
                    accumulated=count,
                )
            )
        if self.while_scaled:
            when, norm = self.while_scaled[0]
            found.append(
                finding(
                    "clipped while scaled",
                    when,
                    f"clip_grad_norm_ saw a norm of {norm:.3g} before scaler.unscale_(), in "
                    f"{len(self.while_scaled)} steps",
                    norm=norm if math.isfinite(norm) else str(norm),
                    steps=len(self.while_scaled),
                )
            )
        if self.skipped >= 12 and self.longest == self.skipped and self.taken <= self.skipped:
            scales = next(iter(self.scales.values()), [0.0])
            found.append(
                finding(
                    "scaler skips",
                    step,
                    f"{self.skipped} of {self.skipped + self.taken} steps were skipped; the "
                    f"scale went from {scales[0]:g} to {scales[-1]:g}",
                    level="wrong" if self.longest >= 20 else "hint",
                    skipped=self.skipped,
                    taken=self.taken,
                )
            )
        return found

    def of_norms(self, step):
        """Spikes of the norm."""
        norms = [(when, n) for when, n, _ in self.norms if math.isfinite(n)]
        if len(norms) < 10 or self.while_scaled:
            return []
        middle = median([n for _, n in norms])
        spikes = [(when, n) for when, n in norms if when > 3 and n > 50 * middle > 0]
        if spikes:
            return [
                finding(
                    "gradient spikes",
                    spikes[0][0],
                    f"the norm is {spikes[0][1]:.3g} in step {spikes[0][0]}, with a median of "
                    f"{middle:.3g}",
                    norm=spikes[0][1],
                    median=middle,
                )
            ]
        return []

    def of_layers(self, step):
        """Sizes of gradients through the layers, and fp16 gradients that are zero."""
        if "parameters" in self.watch.failed or step < 3:
            return []
        parts, found = self.watch.parts["parameters"], []
        for model in self.watch.models():
            order = [(n, parts.seen.get(id(p))) for n, p in model.named_parameters()]
            order = [(n, seen) for n, seen in order if seen is not None and seen.sizes]
            if len(order) >= 4:
                sizes = [(n, median(seen.sizes)) for n, seen in order]
                third = max(1, len(sizes) // 4)
                first = max(size for _, size in sizes[:third])
                last = max(size for _, size in sizes[-third:])
                if min(first, last) < 1e-5 * max(first, last):
                    found.append(
                        finding(
                            "gradients fade",
                            step,
                            f"the mean gradient is {first:.1e} in {sizes[0][0]} and {last:.1e} "
                            f"in {sizes[-1][0]}",
                            first=first,
                            last=last,
                        )
                    )
                    break
        zeros = [median(seen.zeros) for seen in parts.seen.values() if seen.dim >= 2 and seen.zeros]
        if self.half_output and not self.scales and zeros and median(zeros) > 0.3:
            found.append(
                finding(
                    "fp16 without scaler",
                    step,
                    f"outputs are float16, no gradient scaler is used, and {median(zeros):.0%} "
                    "of the gradients of "
                    "the median matrix are exactly 0",
                    share=median(zeros),
                )
            )
        return found


# ---- inputs.py
# What enters the model: the first layer's input, and tokens beside their labels.

CALLS = 32  # that are looked at


class Inputs(Observer):
    """Looks at what the first layer of each call gets, whoever made the batch."""

    name = "inputs"

    def __init__(self, watch):
        super().__init__(watch)
        self.fresh = False  # whether the outermost module was entered, and no layer yet
        self.calls = []  # (name of the layer, type, shape, lowest, highest, mean, deviation)

    def entered(self, module, args, outermost):
        """A module is called."""
        import torch

        if outermost:
            self.fresh = self.watch.gradients and not self.watch.in_backward
        if not self.fresh or module._modules or len(self.calls) >= CALLS:
            return
        given = next((one for one in args if isinstance(one, torch.Tensor)), None)
        if given is None or not given.numel() or not given.dim():
            return
        self.fresh = False
        part = strided(given, 4096).double() if not given.is_complex() else None
        if part is None or not bool(part.isfinite().all()):
            return
        kind = str(given.dtype).replace("torch.", "")
        numbers = [float(f(part)) for f in (torch.min, torch.max, torch.mean)]
        numbers.append(float(part.std(unbiased=False)))
        self.calls.append((type(module).__name__, kind, tuple(given.shape), *numbers))

    def rows(self):
        """The rows of a call."""
        return self.calls[0][2][0] if self.calls else 0

    def facts(self):
        """The input of the first layer in all calls."""
        if not self.calls:
            return []
        layer, kind, shape = self.calls[0][:3]
        low, high = min(call[3] for call in self.calls), max(call[4] for call in self.calls)
        usual = ""
        text = f"{layer} gets {kind} {'x'.join(map(str, shape))}, {brief(low)} to {brief(high)}"
        if kind.startswith(("float", "bfloat")):
            mean = sum(call[5] for call in self.calls) / len(self.calls)
            spread = sum(call[6] for call in self.calls) / len(self.calls)
            text += f", mean {brief(mean)}, deviation {brief(spread)}"
            if spread and (not 0.02 < spread < 20 or abs(mean) > 20):
                usual = "a deviation near 1"
        others = {call[2] for call in self.calls} - {shape}
        text += f"; {count_of(len(others), 'other shape')}" if others else ""
        return [fact("data/first input", text, usual, shape=list(shape[1:]), low=low, high=high)]


# ---- loading.py
# In a loader's worker: the states of its random generators around the first batches.

FETCHES = 2  # batches of each worker that are looked at


def state_of(generator):
    """A hash of a generator's state, or None for anything else. The state isn't changed."""
    kind = type(generator).__module__ + "." + type(generator).__name__
    if kind == "random.Random":
        text = repr(generator.getstate())
    elif kind == "torch._C.Generator" or kind == "torch.Generator":
        text = repr(generator.get_state().tolist())
    elif kind.startswith("numpy.random") and hasattr(generator, "bit_generator"):
        text = repr(generator.bit_generator.state)
    elif kind.startswith("numpy.random") and hasattr(generator, "get_state"):
        text = repr(
            [
                part if isinstance(part, (int, float, str)) else part.tolist()
                for part in generator.get_state()
            ]
        )
    else:
        return None
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def generators(dataset):
    """path -> state, of the generators in a dataset and of the process's own."""
    import torch

    found = {
        "random": hashlib.sha256(repr(random.getstate()).encode()).hexdigest()[:16],
        "torch": state_of(torch.default_generator),
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy.random" in sys.modules:
        found["numpy.random"] = state_of(numpy.random.mtrand._rand)
    todo, known = [("dataset", dataset, 0)], set()
    while todo and len(known) < 300:
        path, thing, depth = todo.pop()
        if id(thing) in known:
            continue
        known.add(id(thing))
        state = state_of(thing)
        if state:
            found[path] = state
        elif depth < 4 and isinstance(thing, (list, tuple)) and len(thing) <= 32:
            todo += [(f"{path}[{i}]", one, depth + 1) for i, one in enumerate(thing)]
        elif depth < 4 and not isinstance(thing, (torch.Tensor, type)):
            held = getattr(thing, "__dict__", None)
            if isinstance(held, dict) and not callable(getattr(thing, "mro", None)):
                todo += [(path + "." + str(k), v, depth + 1) for k, v in list(held.items())[:64]]
    return found


class Workers:
    """Writes the states of one worker, for the parent to compare with its neighbours'."""

    def __init__(self, folder):
        self.folder, self.pid, self.rows = folder, 0, []

    def around(self, original):
        """The fetch of a map-style dataset, with a look before and after it."""
        workers = self

        @functools.wraps(original)
        def fetch(fetcher, *args, **kwargs):
            import torch

            worker = torch.utils.data.get_worker_info()
            if worker is None:
                return original(fetcher, *args, **kwargs)
            if workers.pid != os.getpid():
                workers.pid, workers.rows = os.getpid(), []
            if len(workers.rows) >= FETCHES:
                return original(fetcher, *args, **kwargs)
            before = workers.look(fetcher)
            result = original(fetcher, *args, **kwargs)
            workers.note(worker, before, workers.look(fetcher))
            return result

        return fetch

    def look(self, fetcher):
        """The states, or nothing where they can't be read."""
        try:
            return generators(fetcher.dataset)
        except Exception:
            return {}

    def note(self, worker, before, after):
        """Write them."""
        self.rows.append({path: [state, after.get(path)] for path, state in before.items()})
        name = f"worker-{os.getppid()}-{worker.id}-{os.getpid()}.json"
        path = os.path.join(self.folder, name)
        try:
            with open(path + ".part", "w", encoding="utf-8") as handle:
                json.dump(
                    {
                        "trainer": os.getppid(),
                        "worker": worker.id,
                        "of": worker.num_workers,
                        "time": time.time(),
                        "rows": self.rows,
                    },
                    handle,
                )
            os.replace(path + ".part", path)
        except OSError:
            pass


# ---- loss_graphs.py
# The last operations before a loss, as autograd remembers them.

GRAPH_STEPS = 8  # steps whose graphs are looked at
NODES = 24  # operations from the loss down
LN2 = math.log(2)


def shape_of(node, place=0):
    """The shape of one output of a node of the graph, or None."""
    metadata = getattr(node, "_input_metadata", None)
    if not metadata or place >= len(metadata):
        return None
    return tuple(metadata[place].shape)


def is_leaf(node):
    """Whether a node adds to the gradient of a parameter."""
    return type(node).__name__ == "AccumulateGrad"


def from_the_loss(node, most=NODES):
    """The first few operations behind a loss, nearest first."""
    todo, found = [node], []
    while todo and len(found) < most:
        node = todo.pop(0)
        if node is None or any(node is one for one in found):
            continue
        found.append(node)
        todo += [below for below, _ in node.next_functions]
    return found


class LossGraphs:
    """Looks at the operations behind a loss, before its backward()."""

    def __init__(self, watch):
        self.watch = watch
        self.log_probabilities = []  # nodes of log_prob() since the last backward()
        self.broadcast = []  # (step, shape of the predictions, of the difference)
        self.unequal = []  # (step, shape of the input, of the target) of a loss function
        self.weights = []  # (mean size, mean, deviation) of what multiplies log-probabilities
        self.preferences = []  # losses that are made of logsigmoid
        self.behind = {}  # id of a parameter -> losses computed from it, in the first steps

    def remember(self, loss):
        """A loss function gave a result: which parameters lie next behind it."""
        if self.watch.step >= GRAPH_STEPS or getattr(loss, "grad_fn", None) is None:
            return
        found = {id(node.variable) for node in from_the_loss(loss.grad_fn, 64) if is_leaf(node)}
        for key in found:
            self.behind[key] = self.behind.get(key, 0) + 1

    def regression(self, prediction, target):
        """A loss function got a prediction and a target."""
        one, two = tuple(prediction.shape), tuple(target.shape)
        if one == two or not prediction.requires_grad:
            return
        if prediction.numel() == target.numel() > 1 and (one[-1:] == (1,) or two[-1:] == (1,)):
            self.unequal.append((self.watch.step + 1, one, two))

    def look(self, loss):
        """A loss goes back."""
        nodes = []
        if self.watch.step < GRAPH_STEPS and loss.grad_fn is not None:
            nodes = from_the_loss(loss.grad_fn)
        for node in nodes:
            name = type(node).__name__
            if name.startswith("SubBackward"):
                self.difference(node)
            elif name.startswith("MulBackward"):
                self.product(node)
        names = [type(node).__name__ for node in nodes[:6]]
        if self.preferences or any(name.startswith("LogSigmoid") for name in names):
            self.preferences.append(float(loss.detach()))
        self.log_probabilities = []

    def difference(self, node):
        """Predictions of shape [N, 1] minus targets of shape [N]."""
        sides = node.next_functions
        differentiable = [(fn, place) for fn, place in sides if fn is not None]
        whole = shape_of(node)
        if len(differentiable) != 1 or whole is None or len(whole) != 2:
            return
        rows = whole[0]
        if whole[0] == whole[1] and rows > 1 and shape_of(*differentiable[0]) == (rows, 1):
            self.broadcast.append((self.watch.step + 1, (rows, 1), whole))

    def product(self, node):
        """Log-probabilities times numbers without a gradient."""
        if len(node.next_functions) != 2:  # times one number of Python
            return
        for side, other in ((0, "_saved_other"), (1, "_saved_self")):
            below = node.next_functions[side][0]
            for _ in range(4):
                if below is None or any(below is one for one in self.log_probabilities):
                    break
                below = below.next_functions[0][0] if below.next_functions else None
            if below is None or node.next_functions[1 - side][0] is not None:
                continue
            factor = getattr(node, other, None)
            if factor is not None and factor.numel() >= 8:
                factor = factor.detach().float()
                self.weights.append(
                    (float(factor.abs().mean()), float(factor.mean()), float(factor.std()))
                )

    def findings(self, step):
        """What the graphs showed."""
        found = []
        if len(self.unequal) >= 3:
            when, one, two = self.unequal[0]
            found.append(
                finding(
                    "targets are broadcast",
                    when,
                    f"the loss function got an input of shape {list(one)} and a target of shape "
                    f"{list(two)}",
                    input=list(one),
                    target=list(two),
                )
            )
        if len(self.broadcast) >= 3:
            when, one, whole = self.broadcast[0]
            found.append(
                finding(
                    "differences are broadcast",
                    when,
                    f"predictions of shape {list(one)} minus targets gave {list(whole)} on the "
                    f"way to the loss, in {len(self.broadcast)} steps",
                    predictions=list(one),
                    difference=list(whole),
                )
            )
        sizes = [size for size, _, _ in self.weights]
        if len(sizes) >= 4 and min(sizes) > 20:
            _, mean, deviation = self.weights[0]
            found.append(
                finding(
                    "returns of any scale",
                    step,
                    f"what multiplies the log-probabilities has a mean of {mean:.3g} and a "
                    f"deviation of {deviation:.3g}, and a median size of {median(sizes):.3g}",
                    size=median(sizes),
                )
            )
        still = [value for value in self.preferences if abs(value - LN2) < 0.003]
        if len(still) >= 12 and len(still) == len(self.preferences):
            found.append(
                finding(
                    "preferences stand still",
                    step,
                    f"{len(still)} losses made of logsigmoid lie between {min(still):.6g} and "
                    f"{max(still):.6g}; ln 2 is {LN2:.4g}",
                    lowest=min(still),
                    highest=max(still),
                )
            )
        return found


# ---- losses.py
# What enters a loss function, and what comes out.


class Losses(Observer):
    """Looks at calls of cross entropy and its relatives in training, and at losses."""

    name = "losses"

    def __init__(self, watch):
        super().__init__(watch)
        self.calls = self.probabilities = 0
        self.by = ""
        self.sigmoids, self.binary = 0, 0
        self.nll, self.bad_nll, self.sums = 0, 0, []
        self.first = None  # (loss, classes)
        self.counted = []  # (labels that count, labels) of each call of cross entropy
        self.labels = collections.Counter()
        self.padded = []  # (labels that count, real tokens, rows) of each batch with a mask
        self.unmasked = []  # (padding value, share) of batches without a mask
        self.values = []  # (step, loss)
        self.unfinished = None  # the first step with a loss that isn't finite
        self.graphs = LossGraphs(watch)

    def training(self, scores):
        """Whether a call belongs to training."""
        import torch

        return (
            isinstance(scores, torch.Tensor)
            and scores.requires_grad
            and not self.watch.in_backward
            and scores.numel() > 0
        )

    def argument(self, args, kwargs, place, name, usual):
        """One argument of a loss function."""
        return args[place] if len(args) > place else kwargs.get(name, usual)

    def after_cross_entropy(self, token, result, args, kwargs):
        """F.cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction)."""
        scores, target = (
            self.argument(args, kwargs, i, n, None) for i, n in enumerate(("input", "target"))
        )
        if not self.training(scores) or scores.dim() < 2:
            return
        self.calls += 1
        self.graphs.remember(result)
        rows = scores.detach()[:64].float()
        classes = scores.shape[1]
        even = classes >= 2 and bool(((rows.sum(1) - 1).abs() < 1e-3).all())
        if even and float(rows.min()) >= 0:
            self.probabilities += 1
            self.by = made_by(scores)
        ignored = self.argument(args, kwargs, 4, "ignore_index", -100)
        reduction = self.argument(args, kwargs, 6, "reduction", "mean")
        smoothing = kwargs.get("label_smoothing", 0.0)
        if self.first is None:
            plain = reduction == "mean" and not smoothing and not self.probabilities
            self.first = (float(result.detach()) if plain else None, classes)
        if target.is_floating_point():
            return
        self.counted.append((int((target != ignored).sum()), target.numel()))
        if target.dim() == 1 and scores.dim() == 2 and target.numel() == scores.shape[0]:
            self.labels.update(target[:2048].tolist())
        if reduction in ("mean", "sum"):
            self.count_padding(target, ignored)

    def count_padding(self, target, ignored):
        """Compare the labels that count with the batch's attention mask."""
        batches = self.watch.parts["batches"]
        if "batches" in self.watch.failed or not batches.last_tokens:
            return
        counted = int((target != ignored).sum())
        rows, length, real, padding, share = batches.last_tokens
        if target.numel() not in (rows * length, rows * (length - 1)):
            return
        if real is not None:
            self.padded.append((counted, real, rows))
        elif padding is not None and padding != ignored and counted == target.numel():
            self.unmasked.append((padding, share))

    def after_binary(self, token, result, args, kwargs):
        """F.binary_cross_entropy_with_logits(input, target)."""
        scores = self.argument(args, kwargs, 0, "input", None)
        if self.training(scores):
            self.graphs.remember(result)
            self.binary += 1
            self.sigmoids += made_by(scores) == "SigmoidBackward0"

    def after_nll(self, token, result, args, kwargs):
        """F.nll_loss(input, target)."""
        scores = self.argument(args, kwargs, 0, "input", None)
        if self.training(scores) and scores.dim() >= 2 and scores.shape[1] >= 2:
            self.graphs.remember(result)
            self.nll += 1
            sums = scores.detach()[:64].float().exp().sum(1)
            if bool(((sums - 1).abs() > 0.1).any()):
                self.bad_nll += 1
                self.sums.append(float(sums.reshape(-1)[0]))

    def after_regression(self, token, result, args, kwargs):
        """F.mse_loss(input, target) and its relatives."""
        if not self.watch.in_backward:
            self.graphs.remember(result)
        self.graphs.regression(*(args[:2] if len(args) > 1 else [*args, *kwargs.values()][:2]))

    def after_log_probability(self, token, result, args, kwargs):
        """Distribution.log_prob(value)."""
        known = self.graphs.log_probabilities
        if result.grad_fn is not None and len(known) < 64 and self.watch.step < GRAPH_STEPS:
            known.append(result.grad_fn)

    def before_backward(self, args, kwargs):
        """The loss itself."""
        loss = args[0]
        self.graphs.look(loss)
        if loss.numel() != 1:
            return
        value = float(loss.detach())
        step = self.watch.step + 1
        # A scaler skips a step that overflows.
        scaled = math.isinf(value) and self.watch.parts["gradients"].scaled
        if not math.isfinite(value) and self.unfinished is None and not scaled:
            layer = self.watch.parts["activations"].unfinished
            self.unfinished = (step, str(value), layer)
        self.values.append((step, value))

    def unseen(self):
        """Why nothing can be said, if so."""
        return "" if self.values or self.calls else "no loss was seen"

    def facts(self):
        """The course of the loss, beside what a guess without the inputs would give."""
        values, found = [value for _, value in self.values if math.isfinite(value)], []
        if values:
            last = sum(values[-3:]) / len(values[-3:])
            text = f"{brief(values[0])} at first, {brief(last)} in the last of {len(values)}"
            loss, classes = self.first or (None, 0)
            usual = ""
            if loss is not None and classes >= 2:
                text += f"; {classes} classes alike give {brief(math.log(classes))}"
                if loss > 1 + 1.5 * math.log(classes):
                    usual = "at most near that"
            total = sum(self.labels.values())
            if total >= 200 and len(self.labels) >= 2:
                guess = -sum(n / total * math.log(n / total) for n in self.labels.values())
                text += f", the labels' own shares {brief(guess)}"
            found.append(fact("loss/course", text, usual, first=values[0], last=last))
        labels = sum(whole for _, whole in self.counted)
        if labels and any(counted < whole for counted, whole in self.counted):
            part = sum(counted for counted, _ in self.counted) / labels
            least = min(counted / whole for counted, whole in self.counted)
            text = f"{share(part)} of the labels count, {share(least)} in the least batch"
            found.append(fact("loss/labels that count", text, share=part))
        return found

    def findings(self):
        """What the losses showed."""
        step = self.watch.step
        return self.each(
            (self.of_scores, step),
            (self.of_padding, step),
            (self.graphs.findings, step),
            (self.of_values, step),
        )

    def of_scores(self, step):
        """What the loss functions got, and losses that aren't finite."""
        found = []
        if self.probabilities >= 3 and self.probabilities == self.calls:
            proved = self.by == "SoftmaxBackward0"
            found.append(
                finding(
                    "softmax twice",
                    step,
                    "cross_entropy got rows between 0 and 1 that add up to 1 in all of "
                    f"{self.calls} calls" + (", made by softmax" if proved else ""),
                    level=None if proved else "hint",
                    calls=self.calls,
                )
            )
        if self.sigmoids >= 3 and self.sigmoids == self.binary:
            found.append(
                finding(
                    "softmax twice",
                    step,
                    "binary_cross_entropy_with_logits got the output of a sigmoid in all of "
                    f"{self.binary} calls",
                    calls=self.binary,
                )
            )
        if self.bad_nll >= 3 and self.bad_nll == self.nll:
            found.append(
                finding(
                    "not log-probabilities",
                    step,
                    f"in all of {self.nll} calls exp(input) doesn't add up to 1 in a row; "
                    f"{self.sums[0]:.4g} in the first",
                    sum=str(self.sums[0]),
                )
            )
        if self.unfinished:
            when, value, layer = self.unfinished
            found.append(
                finding(
                    "loss isn't finite",
                    when,
                    "the loss is {} in step {}{}".format(
                        value,
                        when,
                        "; the first layer with such an output is " + layer if layer else "",
                    ),
                    layer=layer,
                )
            )
        return found

    def of_padding(self, step):
        """Labels that count though they are padding."""
        found = []
        # One label more in each row may be the end of the text, put behind it on purpose.
        over = [(counted, real) for counted, real, rows in self.padded if counted > real + rows]
        models = [getattr(model, "config", None) for model in self.watch.models()]
        both = any(getattr(config, "is_encoder_decoder", False) for config in models)
        if len(over) >= 3 and len(over) >= 0.5 * len(self.padded) and not both:
            found.append(
                finding(
                    "padding counts",
                    step,
                    f"{over[0][0]} labels count in a batch with {over[0][1]} real tokens by its "
                    f"attention mask; so in {len(over)} of {len(self.padded)} batches",
                    counted=over[0][0],
                    real=over[0][1],
                )
            )
        if len(self.unmasked) >= 3 and len({value for value, _ in self.unmasked}) == 1:
            share = sum(share for _, share in self.unmasked) / len(self.unmasked)
            if share > 0.15:
                found.append(
                    finding(
                        "padding seems to count",
                        step,
                        "rows of labels end in runs of one value of many lengths, "
                        f"{share:.0%} of all labels, and each counts in the loss",
                        share=round(share, 3),
                    )
                )
        return found

    def of_values(self, step):
        """The course of the loss, and the labels."""
        found = []
        loss, classes = self.first or (None, 0)
        loss = loss if loss is not None and math.isfinite(loss) else 0.0
        if classes >= 2 and self.values and loss > 3 * math.log(classes) + 2:
            found.append(
                finding(
                    "first loss too high",
                    1,
                    f"the first loss is {loss:.4g}; ln({classes}) is {math.log(classes):.3g}",
                    loss=loss,
                    classes=classes,
                )
            )
        values = [value for _, value in self.values if math.isfinite(value)]
        if len(values) >= 12 and max(values) - min(values) <= 2e-4 * abs(values[0]):
            found.append(
                finding(
                    "loss stands still",
                    step,
                    f"{len(values)} losses lie between {min(values):.6g} and {max(values):.6g}",
                    lowest=min(values),
                    highest=max(values),
                )
            )
        found += self.of_jumps(step)
        total = sum(self.labels.values())
        if total >= 200 and self.labels:
            share = self.labels.most_common(1)[0][1] / total
            if share > 0.95:
                found.append(
                    finding(
                        "one class dominates",
                        step,
                        f"{share:.1%} of {total} labels are one class of {classes}",
                        share=round(share, 4),
                        labels=total,
                    )
                )
        return found

    def of_jumps(self, step):
        """A loss that rises far above what was there before, and doesn't come back."""
        values = [value for _, value in self.values]
        if len(values) > step + 1 or len(values) < 20 or min(values) <= 0:
            return []  # several losses a step, or one that may be negative
        if not all(math.isfinite(value) for value in values):
            return []
        middles = [median(values[i : i + 6]) for i in range(len(values) - 5)]
        for place in range(8, len(values) - 6):
            before, lowest = median(values[:place]), min(middles[: place - 5])
            if values[place] > 10 * before and middles[-1] > 2 * lowest:
                return [
                    finding(
                        "loss jumps",
                        place + 1,
                        f"the loss was {values[place]:.3g} in step {place + 1}, with a median of "
                        f"{before:.3g} before; the last six have one of {middles[-1]:.3g}, the "
                        f"best six had {lowest:.3g}",
                        loss=values[place],
                        before=before,
                        after=middles[-1],
                    )
                ]
        return []


# ---- memory.py
# What a process takes of its cards by torch's own counters, and the model that takes it.

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


# ---- modes.py
# Training and evaluation mode, and running statistics.


class Modes(Observer):
    """Looks at modules as they are called."""

    name = "modes"

    def __init__(self, watch):
        super().__init__(watch)
        self.ran = {}  # id of a parameter -> its place in the order of modules with gradients
        self.now = {}  # id -> (weak reference, training, sensitive), since the last backward
        self.history = {}  # id -> (weak reference, [training at each backward], sensitive)
        self.count = 0  # backwards with a model
        self.evaluations = []  # count at each call without gradients
        self.steps = {}  # steps after which a model ran without gradients, as an ordered set
        self.in_training_mode = []  # (count, root) of evaluations in training mode
        self.trainable = {}  # id of a batch norm -> whether a weight was ever trainable
        self.statistics = {}  # id -> (weak reference, first running mean)
        self.sensitive_now = False

    def entered(self, module, outermost):
        """A module is called."""
        import torch

        gradients = self.watch.gradients and not self.watch.in_backward
        norm = isinstance(module, torch.nn.modules.batchnorm._BatchNorm)
        drop = isinstance(module, torch.nn.modules.dropout._DropoutNd) and module.p > 0
        if outermost:
            self.sensitive_now = False
        self.sensitive_now = self.sensitive_now or ((norm or drop) and module.training)
        if not gradients:
            return
        self.now[id(module)] = (weakref.ref(module), module.training, norm or drop)
        for parameter in module._parameters.values():
            if parameter is not None:
                self.ran.setdefault(id(parameter), len(self.ran))
        if norm and module.track_running_stats and module.running_mean is not None:
            free = any(p is not None and p.requires_grad for p in module._parameters.values())
            self.trainable[id(module)] = self.trainable.get(id(module), False) or free
            if id(module) not in self.statistics and len(self.statistics) < 200:
                self.statistics[id(module)] = (weakref.ref(module), sample(module.running_mean))

    def left(self, module):
        """The outermost module has ended."""
        if self.watch.gradients or self.watch.in_backward:
            return
        self.steps[self.watch.step] = None
        if not self.evaluations or self.evaluations[-1] != self.count:
            self.evaluations.append(self.count)
        other = self.watch.parts["batches"].other_than_training()
        if module.training and self.sensitive_now and other and self.count:
            self.in_training_mode.append((self.count, type(module).__name__))

    def trained(self):
        """A loss goes back: what ran since the last one was training."""
        if not self.now:
            return
        self.count += 1
        for key, (ref, training, sensitive) in self.now.items():
            self.history.setdefault(key, (ref, [], sensitive))[1].append(training)
        self.now = {}

    def facts(self):
        """Evaluations between the steps."""
        if not self.steps:
            return []
        text = f"evaluated after steps {some(map(str, self.steps), 4)}"
        return [fact("loss/evaluations", text)]

    def unseen(self):
        """Why nothing can be said, if so."""
        return "" if self.history else "no module ran before a loss went back"

    def findings(self):
        """What the modes showed."""
        step, found, names = self.watch.step, [], self.watch.names()
        held = self.watch.parts["parameters"].held()
        for root in self.watch.models():
            if id(root) not in self.history or not any(id(p) in held for p in root.parameters()):
                continue
            modes = self.history[id(root)][1]
            inside = [
                names.get(id(m), "?")
                for m in root.modules()
                if id(m) in self.history
                and self.history[id(m)][2]
                and not self.history[id(m)][1][-1]
            ]
            if len(modes) < 4 or not inside or modes[-1]:
                continue
            if not any(modes):
                found.append(
                    finding(
                        "evaluation mode from the start",
                        step,
                        f"{type(root).__name__} and its {len(inside)} layers with dropout or "
                        "batch norm were in evaluation mode in "
                        f"all of {len(modes)} training steps",
                        layers=inside[:20],
                    )
                )
                break
            since = len(modes) - next(i for i, mode in enumerate(reversed(modes)) if mode)
            if len(modes) - since >= 3 and since in self.evaluations and all(modes[:since]):
                found.append(
                    finding(
                        "left in evaluation mode",
                        since + 1,
                        f"{type(root).__name__} was in training mode in {since} steps, then "
                        "evaluated, and in evaluation mode "
                        f"in the {len(modes) - since} steps after; {len(inside)} layers have "
                        "dropout or batch norm",
                        layers=inside[:20],
                    )
                )
                break
        if len(self.in_training_mode) >= 2:
            found.append(
                finding(
                    "evaluated in training mode",
                    self.in_training_mode[0][0],
                    f"{self.in_training_mode[0][1]} ran {len(self.in_training_mode)} times "
                    "without gradients on batches of another loader, with dropout or "
                    "batch norm in training mode",
                    calls=len(self.in_training_mode),
                )
            )
        moved = []
        for key, (ref, first) in self.statistics.items():
            module = ref()
            if module is None or self.trainable.get(key) or module.running_mean is None:
                continue
            frozen = any(p is not None for p in module._parameters.values())
            if frozen and bool((strided(module.running_mean) != first).any()):
                moved.append(names.get(key, "?"))
        if moved:
            found.append(
                finding(
                    "frozen statistics move",
                    step,
                    f"running_mean changed in {some(moved)}, whose weights were frozen in each "
                    "step",
                    layers=moved[:20],
                )
            )
        return found


# ---- parameters.py
# Parameters around each step of an optimizer: who has a gradient, and who moves.

# Their optimizers hold parts of the weights under other tensors.
SHARDERS = ("DeepSpeedEngine", "FullyShardedDataParallel")
HUGE = 0.5  # of a matrix, in one step; a thousandth is usual
USUALLY_STILL = ("frozen", "no gradient came", "in no optimizer, no gradient")
HALF = ("torch.bfloat16", "torch.float16")


class Seen:
    """What one parameter showed over the steps that were looked at."""

    def __init__(self, parameter):
        self.ref = weakref.ref(parameter)
        self.dtype = str(parameter.dtype)
        self.dim = parameter.dim()
        self.looks = self.with_gradient = self.nonzero = 0
        self.stuck = self.moved = 0
        self.pushed = self.followed = 0  # elements with a gradient, and those of them that moved
        self.frozen_moved = []
        self.poisoned = []
        self.ratios, self.sizes, self.zeros = [], [], []
        self.jumps = []  # (step, change beside the weights, or beside those of a usual start)
        self.rates = []


def rate_of(group):
    """The learning rate of a parameter group, or None where it isn't a number."""
    return number(group.get("lr"))


def is_adapter(name):
    """Whether a parameter's name is that of LoRA's matrices."""
    return ".lora_" in name or name.startswith("lora_")


def above_rounding(gradient, before, rate):
    """Whether a step along a gradient should show in the weights, whatever the optimizer.

    An optimizer that normalises takes at least rate times the gradient where that is below 1.
    """
    import torch

    step = rate * gradient.abs().float().clamp(max=1.0)
    room = 4 * torch.finfo(before.dtype).eps * before.abs().float()
    return bool(gradient.isfinite().all()) and bool((step > room + 1e-30).any())


class Parameters(Observer):
    """Looks before and after optimizer.step()."""

    name = "parameters"

    def __init__(self, watch):
        super().__init__(watch)
        self.optimizers = {}  # id -> {ref, steps, skipped, rates, kind}
        self.built = []  # weak references to all optimizers
        self.seen = {}  # id of the parameter -> Seen
        self.before = {}  # id of the optimizer -> {id of the parameter: sample}
        self.squares = []  # (step, square of the gradient's norm, by a sample) of matrices
        self.outside = {}  # id of the parameter -> [weak reference, looks with a gradient]
        self.unread = set()  # (type of the optimizer, its lr) of groups without a number there

    def after_built(self, token, result, args, kwargs):
        """An optimizer was made. It may hold parameters long before its first step."""
        if len(self.built) < 64:
            self.built.append(weakref.ref(args[0]))

    def of(self, optimizer):
        """The record of an optimizer."""
        held = self.optimizers.get(id(optimizer))
        if held is None or held["ref"]() is not optimizer:
            groups = optimizer.param_groups
            self.optimizers[id(optimizer)] = {
                "ref": weakref.ref(optimizer),
                "steps": 0,
                "skipped": 0,
                "rates": [],
                "alive": False,  # whether any gradient wasn't zero
                "dead": [],  # in each look before that: whether all gradients were None
                "type": type(optimizer).__name__,
                "ours": type(optimizer).__module__,
                "decay": max([number(g.get("weight_decay")) or 0.0 for g in groups] or [0.0]),
            }
        return self.optimizers[id(optimizer)]

    def due(self, steps):
        """Whether step number `steps` is looked at in full."""
        return steps <= 6 or steps % 4 == 0

    def before_step(self, optimizer):
        """Copy a sample of each weight."""
        held = self.of(optimizer)
        if self.due(held["steps"] + 1):
            self.before[id(optimizer)] = {
                id(p): sample(p) for group in optimizer.param_groups for p in group["params"]
            }

    def after_step(self, optimizer):
        """Compare each weight with its sample, and with its gradient."""
        held = self.of(optimizer)
        held["steps"] += 1
        rates = [rate_of(group) for group in optimizer.param_groups]
        known = [rate for rate in rates if rate is not None]
        if known:
            held["rates"].append(max(known))
        before = self.before.pop(id(optimizer), None)
        if before is None:
            self.look_for_nan(optimizer, held["steps"])
            return
        for group, rate in zip(optimizer.param_groups, rates):
            if rate is None:
                self.unread.add((held["type"], str(group.get("lr"))[:40]))
            for parameter in group["params"]:
                if id(parameter) in before:
                    self.compare(parameter, before[id(parameter)], rate, held["steps"])
        if not held["alive"]:
            self.look_for_life(optimizer, held, any(rate != 0 for rate in rates))
        self.look_outside()

    def look_for_life(self, optimizer, held, has_rate):
        """Whether any gradient of an optimizer isn't zero. Most have one in the first step."""
        every = [p for group in optimizer.param_groups for p in group["params"]]
        seen = [self.seen[id(p)] for p in every if id(p) in self.seen]
        given = [p.grad for p in every if p.grad is not None]
        # An optimizer that clears the gradients itself has none left, but its weights move.
        held["alive"] = any(one.nonzero for one in seen) or (
            not given and any(one.moved for one in seen)
        )
        for gradient in [] if held["alive"] else given:
            part = gradient._values() if gradient.is_sparse else local_part(gradient)
            if bool(part.any()):
                held["alive"] = True
                break
        mine = any(p.requires_grad and local_part(p).numel() for p in every)
        if not held["alive"] and has_rate and mine:
            held["dead"].append(not given)

    def look_for_nan(self, optimizer, step):
        """In a step that isn't looked at in full: whether weights ceased to be finite."""
        for group in optimizer.param_groups:
            for parameter in group["params"][:1]:
                seen = self.seen.get(id(parameter))
                if seen is None or seen.poisoned or parameter.grad is None:
                    continue
                if parameter.grad.is_sparse or bool(strided(parameter, 256).isfinite().all()):
                    continue
                if not bool(strided(parameter.grad, 256).isfinite().all()):
                    seen.poisoned.append(step)

    def compare(self, parameter, before, rate, step):
        """One parameter in one step. `rate` is None where nobody can tell."""
        seen = self.seen.get(id(parameter))
        if seen is None or seen.ref() is not parameter:
            seen = self.seen[id(parameter)] = Seen(parameter)
        seen.looks += 1
        if rate is not None:
            seen.rates.append(rate)
        after = strided(parameter)
        if after.numel() != before.numel() or not after.numel():
            return
        changed = after != before
        moved = int(changed.sum())
        seen.moved += bool(moved)
        if not parameter.requires_grad and moved:
            seen.frozen_moved.append(step)
        gradient = parameter.grad
        if gradient is None:
            return
        seen.with_gradient += 1
        if gradient.is_sparse:
            seen.nonzero += 1
            return
        gradient = strided(local_part(gradient))
        if gradient.numel() != after.numel():
            return
        pushed = gradient != 0
        count = int(pushed.sum())
        seen.zeros.append(1 - count / gradient.numel())
        if not bool(after.isfinite().all()):
            if bool(before.isfinite().all()) and not bool(gradient.isfinite().all()):
                seen.poisoned.append(step)
            return
        if not count:
            return
        seen.nonzero += 1
        if rate is not None and rate > 0:
            followed = int((changed & pushed).sum())
            seen.stuck += followed == 0 and above_rounding(gradient, before, rate)
            seen.pushed += count
            seen.followed += followed
        if parameter.dim() >= 2:
            seen.sizes.append(float(gradient.float().pow(2).mean().sqrt()))
            self.squares.append((step, seen.sizes[-1] ** 2 * parameter.numel()))
            size = float(before.float().pow(2).mean().sqrt())
            if size > 0 and rate != 0:
                difference = after.float() - before.float()
                change = float(difference.pow(2).mean().sqrt())
                seen.ratios.append((step, change / size))
                # A weight that begins at 0, as LoRA's B, is new and not small.
                start = (3 * parameter.numel() / parameter.shape[0]) ** -0.5
                seen.jumps.append((step, change / max(size, start)))

    def look_outside(self):
        """Count parameters of the models that have a gradient and no optimizer."""
        held = self.held(waiting=True)
        for model in self.watch.models():
            for parameter in model.parameters():
                if id(parameter) in held or parameter.grad is None or not parameter.requires_grad:
                    continue
                if id(parameter) in self.seen and self.seen[id(parameter)].ref() is parameter:
                    continue  # left from an optimizer that is gone
                if parameter.grad.is_sparse or bool(strided(parameter.grad).any()):
                    held_there = self.outside.get(id(parameter))
                    if held_there is None or held_there[0]() is not parameter:
                        held_there = self.outside[id(parameter)] = [weakref.ref(parameter), 0]
                    held_there[1] += 1

    def held(self, waiting=False):
        """The ids of the parameters in all optimizers that took a step, or that wait for one."""
        optimizers = [held["ref"]() for held in self.optimizers.values()]
        if waiting:
            optimizers += [ref() for ref in self.built]
        return {
            id(p)
            for optimizer in optimizers
            if optimizer is not None
            for group in optimizer.param_groups
            for p in group["params"]
        }

    def facts(self):
        """What trains, what never moved and why, and how far a step goes."""
        names, held = self.watch.names(), self.held()
        moved, still, matrices = 0, {}, set()
        for model in self.watch.models():
            if not any(id(p) in held for p in model.parameters()):
                continue
            for parameter in model.parameters():
                seen = self.seen.get(id(parameter))
                if seen is not None and seen.moved:
                    moved += 1
                else:
                    why = self.why_still(parameter, seen, id(parameter) in held)
                    still.setdefault(why, []).append(names.get(id(parameter), "?"))
                    matrices |= {why} if parameter.dim() >= 2 else set()
        found = []
        if moved:
            found.append(fact("weights/moved", f"{count_of(moved, 'tensor')} moved", moved=moved))
        for why, these in still.items():
            text = f"{count_of(len(these), 'tensor')} never moved, {why}: {some(these, 3)}"
            # A bias alone may have no effect on the loss, as one that softmax takes out again.
            is_odd = why in matrices and why not in USUALLY_STILL
            usual = "all that get a gradient move" if is_odd else ""
            found.append(fact(f"weights/still, {why}", text, usual, count=len(these)))
        ratios = [ratio for seen in self.seen.values() for _, ratio in seen.ratios]
        if ratios:
            text = f"the median matrix changes by {brief(median(ratios))} of its size in a step"
            found.append(fact("weights/step", text, ratio=median(ratios)))
        half = [seen for seen in self.seen.values() if seen.dtype in HALF and seen.pushed]
        if half:
            part = sum(seen.followed for seen in half) / sum(seen.pushed for seen in half)
            text = (
                f"{count_of(len(half), 'tensor')} of {half[0].dtype[6:]}: a step changes "
                f"{share(part)} of the elements that have a gradient"
            )
            found.append(fact("weights/half", text, "all" if part < 0.9 else "", share=part))
        return found

    def why_still(self, parameter, seen, held):
        """Why a weight never moved."""
        if not parameter.requires_grad:
            return "frozen"
        if not held:
            return "in no optimizer" + ("" if id(parameter) in self.outside else ", no gradient")
        if seen is None or not seen.with_gradient:
            return "no gradient came"
        if not seen.nonzero:
            return "its gradient was exactly 0"
        return "rate 0" if not any(seen.rates) else "each step is below its rounding"

    def unseen(self):
        """Why nothing can be said, if so."""
        if any(seen.looks >= 3 for seen in self.seen.values()):
            return ""
        return "no optimizer took three steps that were looked at"

    def partly(self):
        """What of it couldn't be looked at."""
        if not self.unread:
            return ""
        told = sorted(f"{kind}, lr={rate}" for kind, rate in self.unread)
        return f"parameter groups whose rate isn't a number ({some(told, 3)})"

    def findings(self):
        """What the parameters showed."""
        step, names = self.watch.step, self.watch.names()
        known = [
            (names.get(key, f"parameter of shape {tuple(seen.ref().shape)}"), seen)
            for key, seen in self.seen.items()
            if seen.ref() is not None
        ]
        checks = [(self.thawed, known), (self.poisoned, known)]
        if step >= 3:
            outside = self.of_outside(names)
            checks += [
                (self.lifeless, step, names, outside),
                (self.still, step, known),
                (self.forgotten, step, names, outside),
                (self.rounded, step, known),
                (self.dull, step, known),
                (self.unreached, step, names),
                (self.parts_of_models, step),
            ]
        return self.each(*checks)

    def thawed(self, known):
        """Frozen weights that moved."""
        thawed = [(name, seen.frozen_moved) for name, seen in known if seen.frozen_moved]
        if not thawed:
            return []
        steps = sorted({when for _, moved in thawed for when in moved})
        return [
            finding(
                "frozen weight moves",
                steps[0],
                f"{some(name for name, _ in thawed)} have requires_grad=False and changed in "
                f"{len(steps)} of the steps that were looked at",
                parameters=[name for name, _ in thawed[:20]],
                steps=steps[:20],
            )
        ]

    def poisoned(self, known):
        """Weights that a gradient made infinite or nan."""
        poisoned = [(name, seen) for name, seen in known if seen.poisoned]
        if not poisoned:
            return []
        first = min(seen.poisoned[0] for _, seen in poisoned)
        return [
            finding(
                "nan enters the weights",
                first,
                f"{some(name for name, _ in poisoned)} were finite before step {first}, got a "
                "gradient that isn't, and are not finite after",
                parameters=[name for name, _ in poisoned[:20]],
            )
        ]

    def of_outside(self, names):
        """Names of parameters that have a gradient and no optimizer."""
        if any(type(model).__name__ in SHARDERS for model in self.watch.models()):
            return []
        return [
            names[key]
            for key, (ref, looks) in self.outside.items()
            if looks >= 2 and key in names and ref() is not None
        ]

    def lifeless(self, step, names, outside):
        """Optimizers that never got a gradient, or only zeros."""
        lifeless = [
            held
            for held in self.optimizers.values()
            if held["ref"]() is not None and len(held["dead"]) >= 5 and not held["alive"]
        ]
        rest = [held for held in self.optimizers.values() if held["alive"]]
        losses = self.watch.parts["losses"].values
        if losses and not any(value for _, value in losses):
            return []  # nothing to learn so far, as without a reward
        found = []
        for held in lifeless[:1]:
            every = [p for group in held["ref"]().param_groups for p in group["params"]]
            mine = [names[id(p)] for p in every if id(p) in names]
            ran = self.watch.parts["modes"].ran
            if rest and not any(id(p) in ran for p in every):
                continue  # a part that isn't in use yet
            looks, level = len(held["dead"]), "hint" if rest else None
            told = (
                "were None" if all(held["dead"]) else "were exactly 0, or None"
            ) + f" at each of {looks} steps that were looked at"
            if self.watch.parts["gradients"].was_there(held["ref"]()):
                kind = "gradients gone before the step"
                told = f"after backward() they weren't zero; before the step all {told}"
            elif mine and all(is_adapter(name) for name in mine):
                kind, told = "adapters get no gradient", f"all gradients of {some(mine, 2)} {told}"
            elif outside and not mine:
                kind = "forgotten weights"
                told = (
                    f"all gradients of its {len(every)} weights {told}; {some(outside)} get one, "
                    "and no optimizer has them"
                )
            else:
                kind, told = "no gradient arrives", f"all gradients {told}"
            told = "{}: {}".format(held["type"], told)
            found.append(finding(kind, step, told, level=level, looks=looks, weights=len(every)))
        return found

    def still(self, step, known):
        """Matrices that should move by more than rounding, and never do."""
        # A bias before a norm layer, or of an attention's keys, has a gradient of round-off.
        fixed = [
            name
            for name, seen in known
            if seen.dim >= 2 and seen.stuck >= 3 and not seen.moved and seen.dtype not in HALF
        ]
        if not fixed:
            return []
        return [
            finding(
                "weights stand still",
                step,
                f"{some(fixed)} had a gradient and a rate that should move them by more than "
                "float32 rounds off, and no element of the sample changed in any step",
                parameters=fixed[:20],
            )
        ]

    def rounded(self, step, known):
        """Weights in half precision that are too coarse for their steps."""
        half = [seen for _, seen in known if seen.dtype in HALF and seen.pushed]
        pushed = sum(seen.pushed for seen in half)
        followed = sum(seen.followed for seen in half)
        if not pushed or followed >= 0.5 * pushed:
            return []
        plain = all(h["ours"].startswith("torch.optim") for h in self.optimizers.values())
        return [
            finding(
                "bf16 swallows steps",
                step,
                f"{len(half)} weights in {half[0].dtype}: {followed / pushed:.0%} of the elements "
                "with a gradient changed in a step",
                level=None if plain else "hint",
                share=round(followed / pushed, 4),
            )
        ]

    def forgotten(self, step, names, outside):
        """Parameters with a gradient that no optimizer has."""
        if not outside or not any(held["alive"] for held in self.optimizers.values()):
            return []
        orphans = self.orphans(names)
        told = f"{some(outside)} get a gradient that isn't zero, and no optimizer has them"
        if orphans:
            told += "; it holds weights that nothing else refers to, of shape " + some(orphans, 3)
        return [
            finding(
                "forgotten weights" if orphans else "outside the optimizer",
                step,
                told,
                parameters=outside[:20],
                count=len(outside),
            )
        ]

    def orphans(self, names):
        """Shapes of weights that never had a gradient and lie in optimizers alone."""
        lost = [
            seen.ref()
            for key, seen in self.seen.items()
            if key not in names and not seen.with_gradient and seen.ref() is not None
        ]
        lost = [p for p in lost if p.requires_grad][:64]
        if not lost:
            return []
        own = {id(lost)}
        for held in self.optimizers.values():
            optimizer = held["ref"]()
            if optimizer is not None:
                own |= {id(optimizer.state)} | {id(g["params"]) for g in optimizer.param_groups}
        elsewhere = set()
        for holder in gc.get_referrers(*lost):
            if id(holder) not in own and isinstance(holder, (dict, list, tuple, set)):
                inside = holder.values() if isinstance(holder, dict) else holder
                elsewhere |= {id(one) for one in list(inside)}
        return [str(tuple(p.shape)) for p in lost if id(p) not in elsewhere]

    def dull(self, step, known):
        """Steps that are tiny or huge beside the weights."""
        if any(seen.dtype in HALF for _, seen in known):
            return []
        steps, jumps = {}, {}
        for _, seen in known:
            for when, ratio in seen.ratios:
                steps.setdefault(when, []).append(ratio)
            for when, ratio in seen.jumps:
                jumps.setdefault(when, []).append(ratio)
        medians = [median(ratios) for when, ratios in sorted(steps.items()) if when > 2]
        if len(medians) < 3:
            return []
        warming = max(medians) == medians[-1] and medians[-1] > 1.2 * medians[0]
        told = (
            f"the median matrix changes by {median(medians):.1e} of its size in a step, "
            f"{max(medians):.1e} at most"
        )
        if max(medians) < 2e-5 and not warming:
            return [finding("tiny updates", step, told, ratio=median(medians))]
        sizes = [(middle_or_less(of), -when) for when, of in jumps.items() if len(of) >= 2]
        most, when = max(sizes, default=(0.0, 0))
        if most > HUGE:
            told = (
                f"in step {-when} the median matrix changed by {most:.2g} of its size; 1e-4 to "
                "1e-2 is usual"
            )
            return [finding("huge updates", -when, told, ratio=most)]
        return []

    def unreached(self, step, names):
        """Parameters that were used in the forward pass and never got a gradient."""
        ran = self.watch.parts["modes"].ran if "modes" not in self.watch.failed else {}
        learning = [ran[key] for key, seen in self.seen.items() if seen.nonzero and key in ran]
        silent = [
            key
            for key, seen in self.seen.items()
            if key in names
            and key in ran
            and seen.looks >= 3
            and seen.ref() is not None
            and seen.ref().requires_grad
            and not seen.with_gradient
            and key not in self.outside
            and not is_adapter(names[key])
        ]
        if not silent or not learning:
            return []
        behind = self.watch.parts["losses"].graphs.behind
        told = {"lost loss": [], "no gradient": [], "output without a loss": []}
        for key in silent:
            if behind.get(key, 0) >= 3:
                kind = "lost loss"
            elif ran[key] < min(learning):  # all that ran before it is cut off too
                kind = "no gradient"
            else:
                kind = "output without a loss"
            told[kind].append(names[key])
        return [
            finding(
                kind,
                step,
                f"{some(these)} are in the optimizer and their modules ran, but .grad is None in "
                "each step" + ("; a loss was computed from them" if kind == "lost loss" else ""),
                parameters=these[:20],
                count=len(these),
            )
            for kind, these in told.items()
            if these
        ]

    def of_adapters(self, step, named, held):
        """Adapters that aren't trained, or that no gradient reaches."""
        adapters = [n for n in named if is_adapter(n)]
        trains = [n for n in adapters if named[n].requires_grad and id(named[n]) in held]
        if adapters and not trains:
            return [
                finding(
                    "adapters don't train",
                    step,
                    f"none of {len(adapters)} adapter weights ({some(adapters, 2)}) is trainable "
                    "and in the optimizer",
                    count=len(adapters),
                )
            ]
        seen = [self.seen[id(named[n])] for n in trains if id(named[n]) in self.seen]
        alive = any(one["alive"] for one in self.optimizers.values())
        looks = min([one.looks for one in seen] or [0])
        if alive and looks >= 5 and not any(one.nonzero for one in seen):
            return [
                finding(
                    "adapters get no gradient",
                    step,
                    f"the gradients of {len(trains)} adapter weights ({some(trains, 2)}) were None "
                    f"or exactly 0 at each of {looks} steps that were looked at",
                    count=len(trains),
                )
            ]
        return []

    def parts_of_models(self, step):
        """Adapters and the parts of vision-language models, by their names."""
        held, found = self.held(), []
        for model in self.watch.models():
            named = dict(model.named_parameters())
            if not any(id(p) in held for p in named.values()):
                continue
            found += self.of_adapters(step, named, held)
            vision = [n for n in named if any(w in n for w in ("vision_", "visual", "image_enc"))]
            bridge = [
                n
                for n in named
                if any(w in n for w in ("projector", "connector", "merger")) and n not in vision
            ]
            rest = [n for n in named if n not in vision and n not in bridge]
            if vision and bridge and rest:

                def on(group, named=named):
                    return [n for n in group if named[n].requires_grad and id(named[n]) in held]

                if not on(bridge) and (on(rest) or on(vision)):
                    found.append(
                        finding(
                            "connector is frozen",
                            step,
                            f"none of {len(bridge)} weights of the connector "
                            f"({some(bridge, 2)}) trains; others do",
                            count=len(bridge),
                        )
                    )
                rates = {
                    r for n in on(vision) + on(rest) for r in self.seen[id(named[n])].rates[-1:]
                }
                if on(vision) and on(rest) and len(rates) == 1 and max(rates) > 1e-4:
                    found.append(
                        finding(
                            "one vision rate",
                            step,
                            f"{len(on(vision))} weights of the vision part and {len(on(rest))} "
                            f"of the rest train at {max(rates):g}",
                            rate=max(rates),
                        )
                    )
        return found


# ---- ranks.py
# What wraps a model for several ranks: DDP, FSDP, DeepSpeed.

WRAPPERS = ("DistributedDataParallel", "FullyShardedDataParallel", "DeepSpeedEngine")
FEW_ROWS = 32  # rows or tokens of a rank, below which a gather costs more than it serves
BYTES = 16  # of each parameter under Adam in mixed precision


def shards(module):
    """Whether FSDP, the older or the newer, treats a module as a unit."""
    names = {cls.__name__ for cls in type(module).__mro__}
    return bool(names & {"FullyShardedDataParallel", "FSDPModule"})


def memory_of_a_device():
    """Bytes of memory of the device that trains."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def weights_of(model, most=256):
    """Hashes of samples of at most `most` weights that DDP keeps equal."""
    own = set(getattr(model, "parameters_to_ignore", None) or ())
    every = [p for n, p in model.module.named_parameters() if p.requires_grad and n not in own]
    return [fingerprint(p, 64) for p in every[:: max(1, -(-len(every) // most))]]


class Ranks(Observer):
    """Looks at wrappers for several ranks."""

    name = "ranks"

    def __init__(self, watch):
        super().__init__(watch)
        self.forwards = self.exchanging = 0  # calls of a DDP model since the last step
        self.windows = []  # (forwards, exchanging, backwards) of each step
        self.backwards = 0
        self.rows = []  # rows or tokens in a call of an FSDP model
        self.engine = None
        self.steps, self.world = 0, 1
        self.has_replicas = False  # each rank holds, or held, the whole model
        self.wrapped = []  # weak references to DDP models; a program may never call them
        self.weights = {}  # steps so far -> hash of the weights, where all ranks should have them

    def after_wrapping(self, token, result, args, kwargs):
        """A model was wrapped in DistributedDataParallel."""
        if len(self.wrapped) < 16:
            self.wrapped.append(weakref.ref(args[0]))
            self.has_replicas = self.has_replicas or bool(self.replicas())

    def entered(self, module, args, outermost):
        """A module is called."""
        import torch

        if not self.watch.gradients or self.watch.in_backward:
            return
        if type(module).__name__ == "DistributedDataParallel":
            self.forwards += 1
            self.exchanging += bool(module.require_backward_grad_sync)
        given = args[0] if args else None
        if outermost and isinstance(given, torch.Tensor) and given.dim() and shards(module):
            tokens = not given.is_floating_point() or given.dim() == 3
            self.rows.append(given[..., 0].numel() if given.dim() == 3 else
                             given.numel() if tokens else given.shape[0])  # fmt: skip

    def before_backward(self, args, kwargs):
        """A loss goes back."""
        self.backwards += 1

    def after_step(self, optimizer):
        """Close the window between two steps."""
        self.windows.append((self.forwards, self.exchanging, self.backwards))
        self.forwards = self.exchanging = self.backwards = 0
        self.steps += 1
        # Who steps without an exchange, as local SGD does, has unlike weights on purpose.
        local = any(forwards and not exchanging for forwards, exchanging, _ in self.windows)
        if self.size() > 1 and self.steps in (2, 4, 8, 16, 24) and not local:
            weights = [weights_of(model) for model in self.replicas()]
            if weights:
                self.weights[self.steps] = zlib.crc32(repr(weights).encode())

    def replicas(self):
        """The models of which each rank of the program holds a copy that DDP keeps equal."""
        found = []
        for one in [ref() for ref in self.wrapped]:
            # A hook may keep ranks apart on purpose, as local SGD does.
            if one is not None and not getattr(one, "_comm_hooks", None):
                found += [one] if one.process_group.size() == self.size() else []
        return found

    def told(self):
        """What the parent compares between ranks."""
        return {"weights": self.weights, "world": self.size()}

    def facts(self):
        """How many ranks there are, and what wraps the model."""
        if self.size() < 2:
            return []
        kinds = [type(m).__name__ for m in self.watch.models()[:1]]
        kinds = [kind for kind in kinds if kind in WRAPPERS or kind.startswith("FSDP")]
        kinds = kinds or ["DistributedDataParallel"] * self.has_replicas
        kinds = kinds or ["no wrapper that is known"]
        return [fact("in force/ranks", f"{self.size()} ranks, {kinds[0]}", world=self.size())]

    def unseen(self):
        """Why nothing can be said, if so. The parent compares the weights."""
        if self.size() < 2:
            return "one process"
        return "" if self.weights else "weights of ranks are compared only under DDP"

    def size(self):
        """The number of ranks."""
        import torch

        spread = torch.distributed
        if spread.is_available() and spread.is_initialized():
            self.world = max(self.world, spread.get_world_size())
        return self.world  # a program may leave the group before it ends

    def findings(self):
        """What the wrappers showed."""
        step = self.watch.step
        if step < 4:
            return []
        return self.each((self.of_ddp, step), (self.of_fsdp, step), (self.of_deepspeed, step))

    def of_ddp(self, step):
        """Exchanges in each micro-batch, and batch norm of one rank."""
        found = []
        inner = self.windows[1:]
        every = [w for w in inner if w[0] >= 2 and w[0] == w[1] == w[2]]
        if self.size() > 1 and len(every) >= 3 and len(every) == len(inner):
            found.append(
                finding(
                    "exchange in each micro-batch",
                    step,
                    f"{every[0][0]} micro-batches made a step, and DistributedDataParallel "
                    "exchanged gradients in each",
                    micro_batches=every[0][0],
                )
            )
        shapes = self.watch.parts["shapes"]
        few = [] if "shapes" in self.watch.failed else [n for n in shapes.few() if n[1] <= 8]
        wrapped = [m for m in self.watch.models() if type(m).__name__ == "DistributedDataParallel"]
        if self.size() > 1 and few and wrapped:
            found.append(
                finding(
                    "batch norm of one rank",
                    step,
                    f"{few[0][0]} got {few[0][1]} samples in a call on this rank of "
                    f"{self.size()}, and isn't SyncBatchNorm",
                    samples=few[0][1],
                    layers=len(few),
                )
            )
        return found

    def of_fsdp(self, step):
        """Units, rows for each gather, and the type of the weights."""
        import torch

        found = []
        for root in [model for model in self.watch.models() if shards(model)][:1]:
            units = [module for module in root.modules() if shards(module)]
            kinds = {}
            for module in root.modules():
                if module is not root and len(module._modules) and not shards(module):
                    kinds.setdefault(type(module).__name__, []).append(module)
            blocks = max(kinds.items(), key=lambda kind: len(kind[1]), default=("", []))
            if len(units) == 1 and len(blocks[1]) >= 4:
                found.append(
                    finding(
                        "one unit",
                        step,
                        f"FSDP has one unit, the whole {type(root).__name__}, with "
                        f"{len(blocks[1])} blocks of type {blocks[0]}",
                        blocks=len(blocks[1]),
                    )
                )
            if len(self.rows) >= 3 and median(self.rows) < FEW_ROWS:
                found.append(
                    finding(
                        "few rows for each gather",
                        step,
                        f"a rank computes {median(self.rows)} rows between two gathers of all "
                        "weights",
                        rows=median(self.rows),
                    )
                )
            held = self.watch.parts["parameters"].held()
            types = {p.dtype for p in root.parameters() if p.requires_grad and id(p) in held}
            if types and types <= {torch.bfloat16, torch.float16}:
                found.append(
                    finding(
                        "sharded in half precision",
                        step,
                        "all weights that FSDP shards and the optimizer holds are "
                        + str(next(iter(types))).replace("torch.", ""),
                    )
                )
        return found

    def find_engine(self):
        """DeepSpeed's engine. Compiled code in DeepSpeed takes the hooks on modules off."""
        place = sys.modules.get("deepspeed.runtime.engine")
        if place is None:
            return None
        engine = self.engine() if self.engine else None
        if engine is None:
            every = [thing for thing in gc.get_objects() if type(thing) is place.DeepSpeedEngine]
            engine = every[0] if every else None
            self.engine = weakref.ref(engine) if every else None
        return engine

    def of_deepspeed(self, step):
        """The stage, and who accumulates."""
        engine, found = self.find_engine(), []
        if engine is None:
            return found
        if engine.zero_optimization_stage() == 3:
            count = sum(getattr(p, "ds_numel", p.numel()) for p in engine.module.parameters())
            share = count * BYTES / memory_of_a_device()
            if share < 0.25:
                found.append(
                    finding(
                        "stage 3 for a model that fits",
                        step,
                        f"{count} parameters with gradients and Adam's state take {share:.1%} of "
                        f"one device's memory, and stage 3 splits them over {self.size()}",
                        parameters=count,
                        share=round(share, 4),
                    )
                )
        usual = engine.gradient_accumulation_steps()
        made = median([backwards for _, _, backwards in self.windows])
        if usual > 1 and made >= 2 * usual:
            found.append(
                finding(
                    "accumulated twice",
                    step,
                    f"gradient_accumulation_steps is {usual}, and {made} losses went back for "
                    "each step of the optimizer",
                    set=usual,
                    made=made,
                )
            )
        return found


# ---- rates.py
# Learning rates as they are used, and the schedulers behind them.

PLANS = ("total_steps", "T_max", "total_iters")  # where schedulers keep their length


class Rates(Observer):
    """Follows each scheduler from step to step."""

    name = "rates"

    def __init__(self, watch):
        super().__init__(watch)
        self.schedulers = []  # {ref, optimizer, marks: [last_epoch at each step]}

    def after_scheduler(self, token, result, args, kwargs):
        """A scheduler was made."""
        scheduler = args[0]
        optimizer = args[1] if len(args) > 1 else kwargs.get("optimizer")
        optimizer = bare(optimizer)
        if any(held["ref"]() is scheduler for held in self.schedulers):
            return
        self.schedulers.append(
            {
                "ref": weakref.ref(scheduler),
                "optimizer": weakref.ref(optimizer),
                "marks": [],
                "made": self.watch.step,
            }
        )

    def after_step(self, optimizer):
        """Note where each scheduler stands."""
        for held in self.schedulers:
            scheduler = held["ref"]()
            if scheduler is not None and held["optimizer"]() is optimizer:
                held["marks"].append(scheduler.last_epoch)

    def facts(self):
        """Each optimizer with its rate by step, and the schedulers behind it."""
        found = []
        for key, held in list(self.watch.parts["parameters"].optimizers.items())[:3]:
            rates = held["rates"]
            if not rates:
                continue
            chosen = [rates[i] for i in sorted({0, len(rates) // 2, len(rates) - 1})]
            shown = " to ".join(dict.fromkeys(map(brief, chosen)))
            text = "{}: rate {} over {}, weight decay {:g}".format(
                held["type"], shown, count_of(len(rates), "step"), held["decay"]
            )
            usual = ""
            for one in self.schedulers:
                scheduler, optimizer = one["ref"](), one["optimizer"]()
                if scheduler is None or optimizer is None or id(optimizer) != key:
                    continue
                marks = one["marks"]
                ticks = scheduler.last_epoch - max(0, marks[0] if marks else 0)
                length = next(
                    (n for n in map(scheduler.__dict__.get, PLANS) if isinstance(n, int)), 0
                )
                text += f"; {type(scheduler).__name__} took {count_of(ticks, 'tick')}"
                text += f" of {length:,}" if length else ""
                planned = self.watch.parts["settings"].planned()
                each_step = abs(ticks - len(marks)) <= 2
                if length and planned and each_step and not 0.5 <= length / planned <= 2:
                    usual = f"as many as the run has steps, about {planned:,}"
            found.append(
                fact(
                    "in force/{}".format(held["type"]),
                    text,
                    usual,
                    first=rates[0],
                    last=rates[-1],
                    decay=held["decay"],
                )
            )
        return found

    def unseen(self):
        """Why nothing can be said, if so."""
        optimizers = self.watch.parts["parameters"].optimizers.values()
        return (
            "" if any(held["rates"] for held in optimizers) else "no optimizer has a rate to read"
        )

    def findings(self):
        """What the rates showed."""
        step, found = self.watch.step, []
        optimizers = self.watch.parts["parameters"].optimizers
        for held in optimizers.values():
            rates = held["rates"]
            if len(rates) >= 10 and not any(rates):
                others = any(any(other["rates"]) for other in optimizers.values())
                found.append(
                    finding(
                        "rate is zero",
                        len(rates),
                        f"the rate was 0 in each of {len(rates)} steps",
                        level="hint" if others else None,
                        steps=len(rates),
                    )
                )
            elif len(rates) >= 10 and rates[0] > 0 and not any(rates[-5:]):
                at = len(rates) - next(i for i, rate in enumerate(reversed(rates)) if rate)
                found.append(
                    finding(
                        "rate fell to zero",
                        at + 1,
                        f"the rate was {rates[0]:g} at first and 0 in the last "
                        f"{len(rates) - at} steps",
                        first=rates[0],
                    )
                )
        epochs = self.watch.parts["batches"].most_epochs()
        ranks = int(os.environ.get("WORLD_SIZE") or 1)
        for held in self.schedulers:
            marks, scheduler = held["marks"], held["ref"]()
            if scheduler is None:
                continue
            name = type(scheduler).__name__
            optimizer = held["optimizer"]()
            ticks = scheduler.last_epoch - max(0, marks[0] if marks else 0)
            stepped = optimizers.get(id(optimizer), {"steps": 0})["steps"]
            if len(marks) >= 8 and ticks > 1.5 * len(marks) and abs(ticks - ranks * len(marks)) > 2:
                found.append(
                    finding(
                        "scheduler too fast",
                        step,
                        f"{name} took {ticks} steps in {len(marks)} steps of its optimizer",
                        scheduler=ticks,
                        optimizer=len(marks),
                    )
                )
            if not stepped and step >= 5 and optimizer is not None and scheduler.last_epoch > 0:
                found.append(
                    finding(
                        "scheduler of another optimizer",
                        step,
                        f"{name} took {scheduler.last_epoch} steps; its optimizer took none in "
                        f"{step} steps of another",
                        scheduler=scheduler.last_epoch,
                    )
                )
            if len(marks) >= 8 and ticks == 0 and epochs >= 3 and not held["made"]:
                found.append(
                    finding(
                        "scheduler never steps",
                        step,
                        f"{name} stands at {scheduler.last_epoch} after {len(marks)} steps and "
                        f"{epochs} epochs",
                        epochs=epochs,
                    )
                )
        return found


# ---- resources.py
# What grows from step to step, and where the time goes.


def usable_cores():
    """How many cores this process may use: of the affinity mask and the control group's quota."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    quotas = []
    for path, other in (
        ("/sys/fs/cgroup/cpu.max", ""),
        ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
    ):
        try:
            with open(path, encoding="ascii") as handle:
                words = handle.read().split()
            if other:
                with open(other, encoding="ascii") as handle:
                    words += handle.read().split()
            if words[0].isdigit() and int(words[1]) > 0:
                quotas.append(math.ceil(int(words[0]) / int(words[1])))
        except (OSError, ValueError, IndexError):
            continue
    return max(1, min([cores, *quotas]))


def share_of_memory():
    """(share of the device's memory that was used at most, its bytes)."""
    import torch

    if torch.cuda.is_available():
        whole = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
        return torch.cuda.max_memory_reserved() / whole, whole
    try:
        import resource

        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return used * (1 if sys.platform == "darwin" else 1024) / whole, whole
    except (ImportError, ValueError, OSError):
        return 1.0, 0


class Token:
    """Lives as long as the graph that it hangs on."""


class Resources(Observer):
    """Counts graphs and hooks, and measures waiting for data."""

    name = "time and memory"

    def __init__(self, watch):
        super().__init__(watch)
        self.tokens = []
        self.hooks = []  # number of hooks on the models after each step
        self.anomaly = 0
        self.times = []  # seconds from each step to the next
        self.last = None
        self.waited = self.newly_waited = 0.0  # for batches, over these steps and since the last
        self.checkpointed = 0  # calls of torch.utils.checkpoint.checkpoint in training
        self.graphs = []  # compiled graphs after each step
        self.pauses, self.pause = [], None  # (step, seconds) of each garbage collection
        gc.callbacks.append(self.collected)

    def collected(self, phase, info):
        """The garbage collector begins or ends. It calls this for as long as the probe looks."""
        parts = getattr(self.watch, "parts", {})  # not there yet while the parts are made
        if parts.get(self.name) is not self or self.watch.over:
            if parts and self.collected in gc.callbacks and phase == "stop":
                gc.callbacks.remove(self.collected)
        elif phase == "start":
            self.pause = time.perf_counter()
        elif self.pause is not None and self.last is not None:
            self.pauses.append((self.watch.step, time.perf_counter() - self.pause))

    def before_checkpoint(self, args, kwargs):
        """A part of the model drops its activations."""
        self.checkpointed += self.watch.gradients and not self.watch.in_backward

    def before_backward(self, args, kwargs):
        """Hang a token on the graph of the loss, to see whether the graph goes."""
        import torch

        node = args[0].grad_fn
        if node is not None and len(self.tokens) < 64:
            token = Token()
            self.tokens.append((self.watch.step, weakref.ref(token)))
            node.register_hook(lambda *_, token=token: None)
        self.anomaly += torch.is_anomaly_enabled()

    def after_step(self, optimizer):
        """Count hooks, and stop the clock. Optimizers that take turns make one step together."""
        if self.watch.step and id(optimizer) not in self.watch.turn:
            return
        count = 0
        for model in self.watch.models():
            for module in model.modules():
                count += len(module._forward_hooks) + len(module._forward_pre_hooks)
                count += len(module._backward_hooks)
        self.hooks.append(count)
        compiler = sys.modules.get("torch._dynamo.utils")
        if compiler is not None:
            self.graphs.append(int(compiler.counters["stats"]["unique_graphs"]))
        now = time.perf_counter()
        if self.last is not None:
            self.times.append(now - self.last)
            self.waited += self.newly_waited
        self.newly_waited = 0.0
        self.watch.parts["series"].stepped(timed=self.last is not None)
        self.last = now

    def unseen(self):
        """Why nothing can be said, if so."""
        return "" if len(self.times) >= 8 else "less than nine steps"

    def findings(self):
        """What grew, and what waits."""
        step, found = self.watch.step, []
        kept = [when for when, ref in self.tokens[:-2] if ref() is not None]
        if len(set(kept)) >= 8 and len(kept) >= 0.9 * len(self.tokens[:-2]):
            found.append(
                finding(
                    "graphs are kept",
                    step,
                    f"the graphs of {len(kept)} of the first {len(self.tokens[:-2])} losses are "
                    "still in memory",
                    kept=len(kept),
                )
            )
        rises = [b - a for a, b in zip(self.hooks, self.hooks[1:])]
        if len(rises) >= 6 and min(rises[-6:]) > 0:
            found.append(
                finding(
                    "hooks pile up",
                    step,
                    f"the models had {self.hooks[0]} hooks after step 1 and {self.hooks[-1]} "
                    f"after step {len(self.hooks)}",
                    first=self.hooks[0],
                    last=self.hooks[-1],
                )
            )
        if self.anomaly:
            found.append(
                finding(
                    "anomaly detection",
                    1,
                    f"torch.is_anomaly_enabled() was true in {self.anomaly} backward passes",
                    passes=self.anomaly,
                )
            )
        new = [i for i in range(4, len(self.graphs)) if self.graphs[i] > self.graphs[i - 1]]
        if len(new) >= 4:
            found.append(
                finding(
                    "compiles again and again",
                    new[0] + 1,
                    f"torch.compile had {self.graphs[3]} graphs after step 4 and "
                    f"{self.graphs[-1]} after step {len(self.graphs)}, with new ones in "
                    f"{len(new)} steps",
                    graphs=self.graphs[-1],
                    steps=len(new),
                )
            )
        return found + self.of_machine(step) + self.waiting(step)

    def facts(self):
        """Seconds of a step, the share that waits for data, and memory."""
        if len(self.times) < 3:
            return []
        text, total = f"{brief(median(self.times))} s a step", sum(self.times)
        if self.watch.parts["batches"].training() and total:
            text += f", {share(self.waited / total)} of it waiting for batches"
        inside = self.watch.parts["series"].forward()
        if inside and total and not self.watch.aside:  # modules of compiled code aren't timed
            text += f", {share(inside / total)} in the model's forward"
            text += " (a card goes on after it)" if self.on_a_card() else ""
        used, whole = share_of_memory()
        if whole:
            text += f"; at most {share(used)} of {whole / 2**30:.0f} GiB of memory"
        return [fact("time/step", text, seconds=median(self.times), memory=used)]

    def on_a_card(self):
        """Whether a model's weights lie on a device that computes beside the program."""
        every = (next(model.parameters(), None) for model in self.watch.models())
        return any(weight is not None and weight.device.type != "cpu" for weight in every)

    def of_machine(self, step):
        """Threads, memory and the garbage collector."""
        import torch

        found, total = [], sum(self.times)
        threads, cores = torch.get_num_threads(), usable_cores()
        local = int(os.environ.get("LOCAL_WORLD_SIZE") or 1)
        if threads * local > 1.5 * cores and threads > 1:
            found.append(
                finding(
                    "too many threads",
                    1,
                    f"torch computes with {threads} threads in each of {local} processes here, "
                    f"and {cores} cores may be used",
                    threads=threads,
                    processes=local,
                    cores=cores,
                )
            )
        share, whole = share_of_memory()
        if self.checkpointed >= 4 and share < 0.4:
            found.append(
                finding(
                    "checkpointing with room",
                    step,
                    f"torch.utils.checkpoint ran {self.checkpointed} times; at most {share:.0%} "
                    f"of {whole / 2**30:.0f} GiB were used",
                    calls=self.checkpointed,
                    share=round(share, 3),
                )
            )
        pauses = [(when, pause) for when, pause in self.pauses if pause > 0.01]
        held = sum(pause for _, pause in pauses)
        # Once in a while it walks everything, as between two trainings.
        often = len({when for when, _ in pauses}) >= 5
        if often and len(self.times) >= 8 and held > 0.15 * total and held > 0.2:
            found.append(
                finding(
                    "garbage collection",
                    step,
                    f"the garbage collector took {held:.2f} s of {total:.2f} s, "
                    f"{max(pause for _, pause in pauses):.3f} s at most",
                    share=round(held / total, 3),
                )
            )
        return found

    def bursts(self, held, total, step):
        """Every N-th batch is waited for, where N workers load."""
        waits, workers = held.waits, held.workers
        waits = waits[2 * workers :]
        if workers < 2 or len(waits) < 3 * workers or sum(waits) < 0.15 * total:
            return []
        groups = [sorted(waits[i : i + workers]) for i in range(0, len(waits), workers)]
        groups = [group for group in groups if len(group) == workers]
        slow, fast = (median([group[place] for group in groups]) for place in (-1, -2))
        if slow < 0.02 or slow < 5 * fast:
            return []
        return [
            finding(
                "bursts of batches",
                step,
                f"with {workers} workers one batch of {workers} was waited for {slow:.3f} s, "
                f"the others {fast:.3f} s at most; {sum(waits) / total:.0%} of the time",
                workers=workers,
                slow=slow,
                fast=fast,
            )
        ]

    def waiting(self, step):
        """The share of the time that goes into waiting for batches."""
        total = sum(self.times)
        if "batches" in self.watch.failed or len(self.times) < 8:
            return []
        for held in self.watch.parts["batches"].training():
            waited = sum(held.waits)
            later = held.firsts[1:]
            if held.workers and not held.persistent and len(later) >= 2 and held.waits:
                slow = sum(later)
                if slow > 0.3 * total and slow > 0.5 and median(later) > 5 * median(held.waits):
                    return [
                        finding(
                            "workers start anew",
                            step,
                            f"the first batch of an epoch took {median(later):.2f} s, another "
                            f"{median(held.waits):.3f} s; {slow / total:.0%} of "
                            "the time",
                            first=median(later),
                            other=median(held.waits),
                        )
                    ]
            bursts = self.bursts(held, total, step)
            if bursts:
                return bursts
            if waited > 0.5 * total and waited > 0.5:
                kind = "loader too slow" if held.workers else "loading in the way"
                return [
                    finding(
                        kind,
                        step,
                        f"{waited / total:.0%} of {total:.1f} s went into waiting for batches, "
                        f"with {held.workers} workers",
                        share=round(waited / total, 3),
                        workers=held.workers,
                    )
                ]
        return []


# ---- series.py
# How loss, gradients, updates and times went, a few numbers of each, for the page of a run.

POINTS = 32  # of a series; a point is a step and a value
DEPTH, MODULES = 3, 16  # how deep modules are timed, and how many of them are told


def thinned(points, most=POINTS):
    """At most `most` of the (step, value) pairs, spread evenly; null where nothing is finite."""
    every = -(-len(points) // most) or 1
    return [
        [step, float(f"{value:.6g}") if math.isfinite(value) else None]
        for step, value in points[::every]
    ]


def by_step(pairs, of):
    """(step, `of` the values of that step) for (step, value) pairs, in the order of the steps."""
    found = {}
    for step, value in pairs:
        found.setdefault(step, []).append(value)
    return [(step, of(values)) for step, values in sorted(found.items())]


class Series(Observer):
    """Times modules, and puts together what the other parts wrote down. It finds nothing."""

    name = "series"

    def __init__(self, watch):
        super().__init__(watch)
        self.begun = []  # start of each module that is running, outermost first
        self.newest = {}  # id -> [weak reference, seconds, depth], since the last step
        self.modules = {}  # the same, over the steps that are timed

    def entered(self, depth):
        """A module begins, `depth` modules below the outermost."""
        if depth <= DEPTH:
            self.begun[depth:] = [time.perf_counter()]

    def left(self, module, depth):
        """A module has ended."""
        if depth < len(self.begun):
            seconds = time.perf_counter() - self.begun[depth]
            held = self.newest.setdefault(id(module), [weakref.ref(module), 0.0, depth])
            held[1] += seconds

    def stepped(self, timed):
        """A step has ended. The first one, whose start nobody saw, isn't `timed`."""
        for key, (ref, seconds, depth) in self.newest.items() if timed else ():
            self.modules.setdefault(key, [ref, 0.0, depth])[1] += seconds
        self.newest = {}

    def forward(self):
        """Seconds in the outermost modules over the timed steps, evaluations between them too."""
        return sum(seconds for _, seconds, depth in self.modules.values() if not depth)

    def told(self):
        """{name: [[step, value], ...]}, and `modules`: [[name, seconds a step], ...]."""
        parts, names = self.watch.parts, self.watch.names()
        times = parts["time and memory"].times
        parameters = parts["parameters"]
        pairs = [pair for seen in parameters.seen.values() for pair in seen.ratios]
        clipped = by_step([(step, norm) for step, norm, _ in parts["gradients"].norms], max)
        squares = by_step(parameters.squares, sum)
        spent = [
            (names.get(id(ref()), type(ref()).__name__), seconds)
            for ref, seconds, _ in self.modules.values()
            if ref() is not None
        ]
        spent.sort(key=lambda one: -one[1])
        return {
            "loss": thinned(by_step(parts["losses"].values, lambda of: sum(of) / len(of))),
            "gradient norm": thinned(clipped or [(n, math.sqrt(of)) for n, of in squares]),
            "before clipping": bool(clipped),
            "update": thinned(by_step(pairs, median)),
            "seconds": thinned(list(enumerate(times, 2))),
            "modules": [
                [name[:120], float(f"{seconds / max(len(times), 1):.4g}")]
                for name, seconds in spent[:MODULES]
            ],
        }


# ---- settings.py
# What the program was asked for on its command line, beside what is in force.

# What a flag's name asks for, the most special first.
ASKED = (
    ("accumulation", re.compile(r"(?i)accum")),
    ("clip", re.compile(r"(?i)^(grad(ient)?_?)?clip(ping)?(_?grad)?(_?norm)?$|^max_(grad_)?norm$")),
    ("decay", re.compile(r"(?i)weight_?decay|^wd$")),
    ("epochs", re.compile(r"(?i)^(n_|num_|train_|max_|num_train_)*epochs?$")),
    ("steps", re.compile(r"(?i)^((n|num|max|total)_?(train(ing)?|update)?|train)_?(step|iter)s$")),
    ("workers", re.compile(r"(?i)^(num_?|n_?)?(data_?loader_?)?(num_?)?workers$")),
    ("batch", re.compile(r"(?i)^(per_device_)?(train_)?(micro_)?batch(_?size)?$|^bs$")),
    ("rate", re.compile(r"(?i)^(base_|max_|peak_)?(lr|learning_?rate)$")),
)  # fmt: skip


# Told in this order where they are imported. Of the other packages two runs are compared.
LIBRARIES = (
    "torch", "transformers", "trl", "peft", "accelerate", "lightning", "pytorch_lightning",
    "deepspeed", "timm", "torchvision", "diffusers", "datasets", "bitsandbytes", "flash_attn",
    "xformers", "numpy",
)  # fmt: skip


def versions():
    """{name: version} of Python and of the packages that are imported, the known ones first."""
    found = {}
    for name, module in list(sys.modules.items()):
        held = getattr(module, "__dict__", {})
        told, place = held.get("__version__"), str(held.get("__file__") or "")
        if told is None and name in LIBRARIES:
            told = getattr(module, "__version__", None)  # of one that imports its parts late
        is_package = f"-packages{os.sep}" in place and "." not in name and name[:1] != "_"
        if isinstance(told, str) and (name in LIBRARIES or is_package):
            found[name] = str(told)[:40]
    known = {name: found.pop(name) for name in LIBRARIES if name in found}
    cuda = getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None)
    known.update({"CUDA": str(cuda)} if cuda else {})
    return {**known, "Python": sys.version.split()[0], **dict(sorted(found.items()))}


def asked(words):
    """{what: (flag, value)} of the numbers on a command line.

    Of a flag that stands twice the last counts. What several flags ask for isn't told.
    """
    found = {}
    for word, value in zip(words, [*words[1:], ""]):
        flag = word.lstrip("-")
        if re.fullmatch(r"-*[\w.-]+=[^=]+", word):
            flag, value = flag.split("=", 1)
        elif not word.startswith("-"):
            continue
        if number(value) is None:
            continue
        name = flag.split(".")[-1].replace("-", "_")
        what = next((what for what, pattern in ASKED if pattern.search(name)), None)
        if what:
            found.setdefault(what, {})[flag] = number(value)
    return {what: held.popitem() for what, held in found.items() if len(held) == 1}


def by_layer(model):
    """{type: kinds of layers with weights of it}; a kind that has several, with its own name."""
    found = {}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            kind = found.setdefault(type(module).__name__, {})
            kind.setdefault(str(parameter.dtype).replace("torch.", ""), []).append(name)
    told = {}
    for kind, by_type in found.items():
        for dtype, names in by_type.items():
            several = f"{kind} ({', '.join(sorted(set(names))[:2])})"
            told.setdefault(dtype, []).append(kind if len(by_type) == 1 else several)
    return told


class Settings(Observer):
    """Puts what was asked for beside what is in force."""

    name = "settings"

    def __init__(self, watch):
        super().__init__(watch)
        self.asked = asked(list(sys.argv[1:]))
        self.compiled = {}  # what torch.compile was asked for, in the order of the calls

    def accumulated(self):
        """Batches for each step: losses that went back, each batch of a loader once."""
        windows = [window for window in self.watch.parts["gradients"].windows if window[0]]
        drawn = [min(backwards, batches) for backwards, _, batches in windows if batches]
        return median(drawn or [backwards for backwards, _, _ in windows] or [1])

    def planned(self):
        """About how many steps the run has; 0 where nothing tells."""
        if self.asked.get("steps", ("", 0))[1] > 0:
            return int(self.asked["steps"][1])
        training = self.watch.parts["batches"].training()
        length = training[0].length if training else 0
        if self.asked.get("epochs", ("", 0))[1] > 0 and length:
            return int(self.asked["epochs"][1] * length / max(1, self.accumulated()))
        return 0

    def facts(self):
        """Types, batch, schedule; then what differs from the command line."""
        parts, found = self.watch.parts, []
        world, folds = parts["ranks"].size(), self.accumulated()
        rows = parts["batches"].rows() or parts["inputs"].rows()
        if rows:
            text = f"{count_of(rows, 'row')} a batch"
            if folds > 1 and not parts["batches"].rows():
                text += f", {folds} backward passes a step"  # LBFGS takes one batch several times
            else:
                text += f" x {folds} batches a step" if folds > 1 else ""
                text += f" x {world} ranks" if world > 1 else ""
                text += f" = {rows * folds * world:,}" if folds * world > 1 else ""
            found.append(fact("in force/batch", text, rows=rows, accumulated=folds, world=world))
        found += self.of_types() + self.of_attention() + self.of_compiler()
        return found + self.of_difference(rows, folds, world) + self.of_versions()

    def of_versions(self):
        """Versions of what is imported; on the page those of the libraries that train."""
        every = versions()
        known = [name for name in every if name in (*LIBRARIES, "CUDA", "Python")]
        text = ", ".join(f"{name} {every[name]}" for name in known)
        return [{**fact("in force/versions", text), "numbers": every}]

    def before_compile(self, args, kwargs):
        """torch.compile(model, backend=..., mode=...)."""
        backend, told = kwargs.get("backend", "inductor"), []
        if not isinstance(backend, str):
            backend = getattr(backend, "__name__", type(backend).__name__)
        for name in ("mode", "dynamic", "fullgraph", "disable"):
            if kwargs.get(name) not in (None, False):
                told.append(f"{name} {kwargs[name]}")
        self.compiled.setdefault(", ".join([f"backend {backend}", *told])[:120])

    def of_compiler(self):
        """What torch.compile was asked for, and how many graphs it has made."""
        if not self.compiled:
            return []
        counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
        graphs = int(counters["stats"]["unique_graphs"]) if counters else 0
        breaks = sum(counters["graph_break"].values()) if counters else 0
        text = f"torch.compile: {'; '.join(self.compiled)}; {count_of(graphs, 'graph')}"
        text += f", {count_of(breaks, 'break')}" if breaks else ""
        return [fact("in force/compile", text, asked=list(self.compiled), graphs=graphs)]

    def of_types(self):
        """Types of the weights, by their number, and what the configuration says."""
        counted = {}
        models = self.watch.models()
        for model in models[:1]:
            for parameter in model.parameters():
                kind = str(parameter.dtype).replace("torch.", "")
                counted[kind] = counted.get(kind, 0) + parameter.numel()
        total = sum(counted.values())
        if not total:
            return []
        told = ", ".join(f"{kind} {share(n / total)}" for kind, n in counted.items())
        cast = bool(self.watch.parts["shapes"].shares)
        size = f"{brief(total / 1e6)} M" if total >= 1e5 else f"{total:,}"
        text = f"{type(models[0]).__name__}: {size} weights, {told}"
        text += ", under autocast" if cast else ""
        found = [fact("in force/types", text, **counted)]
        outputs = self.watch.parts["shapes"].types()
        for name, by_type in (
            ("weights", by_layer(models[0]) if len(counted) > 1 else {}),
            ("outputs", outputs if set(outputs) != set(counted) else {}),
        ):
            if by_type:
                each = ", ".join(f"{kind} of {some(of, 4)}" for kind, of in by_type.items())
                found.append(
                    fact(f"in force/types of {name}", f"{name} by layer: {each}", **by_type)
                )
        return found

    def of_attention(self):
        """The backend of attention that a configuration names."""
        for model in self.watch.models():
            config = getattr(model, "config", None)
            chosen = getattr(config, "_attn_implementation", None)
            if isinstance(chosen, str):
                return [fact("in force/attention", f"attention: {chosen[:40]}", chosen=chosen[:40])]
        if self.watch.parts["shapes"].masks:
            return [fact("in force/attention", "attention: scaled_dot_product_attention")]
        return []

    def of_difference(self, rows, folds, world):
        """What the command line asked for and isn't so."""
        found = []
        optimizers = list(self.watch.parts["parameters"].optimizers.values())
        rates = [rate for held in optimizers for rate in held["rates"]]
        norms = self.watch.parts["gradients"].norms
        training = self.watch.parts["batches"].training()
        now = {
            "rate": max(rates, default=None),
            "batch": rows or None,
            "accumulation": folds,
            "clip": norms[0][2] if norms else 0,
            "decay": max([held["decay"] for held in optimizers], default=None),
            "workers": training[0].workers if training else None,
        }
        for what, (flag, value) in self.asked.items():
            held = now.get(what)
            # A batch may be asked for as one of all ranks, or of all that a step takes.
            ways = {1, folds, world, folds * world} if what == "batch" else {1}
            if held is None or any(math.isclose(held * n, value, rel_tol=1e-6) for n in ways):
                continue
            if what == "rate" and held < value:
                continue  # it warms up, or falls
            text = f"--{flag} asks for {value:g}; in force is {held:g}"
            found.append(
                fact(f"in force/--{flag}", text, "what was asked for", asked=value, held=held)
            )
        return found


# ---- shapes.py
# Shapes and types of what layers get and give.

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


# ---- entering.py
# How the probe comes into a process: at the import of torch.

CLASSES = (
    Parameters,
    Gradients,
    Rates,
    Modes,
    Losses,
    Batches,
    Activations,
    Shapes,
    Ranks,
    Resources,
    Checkpoints,
    Settings,
    Inputs,
    Copies,
    Files,
    DataSets,
    Series,
)

SITE = '''\
"""Starts the probe, then the sitecustomize that this file hides."""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
try:
    import _rgt_probe

    _rgt_probe.enter(here)
except Exception as error:
    sys.stderr.write("probe: could not start ({})\\n".format(error))
sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
own = sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize
except ImportError as error:
    if error.name != "sitecustomize":
        raise
    if own is not None:
        sys.modules["sitecustomize"] = own
'''


class TorchFinder:
    """Finds torch like the finders after it, and calls `attach` once it is imported.

    Libraries ask for the spec before anybody imports torch, so it stays until the import.
    """

    def __init__(self, attach):
        self.attach, self.asking = attach, False

    def find_spec(self, name, path=None, target=None):
        """The spec of torch; None for everything else."""
        if name != "torch" or self.asking:
            return None
        self.asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.asking = False
        loader = getattr(spec, "loader", None)
        if loader is None:
            return spec
        execute, attach = loader.exec_module, self.attach

        def exec_module(module):
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            execute(module)
            del loader.exec_module
            try:
                attach(module)
            except Exception as error:
                sys.stderr.write(f"probe: could not attach ({error})\n")

        loader.exec_module = exec_module
        return spec


def enter(folder):
    """In each Python process of the program, before its first line."""
    steps = int(os.environ.get("RGT_PROBE_STEPS") or 30)

    def attach_all(torch):
        watch = Watch(folder, steps, CLASSES)
        attach(watch, torch)
        atexit.register(leave, watch)
        if os.environ.get(FOLLOWED):
            memory = CardCounters(watch)
            memory.thread.start()
            atexit.register(memory.end_thread)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: after_fork(watch))

    sys.meta_path.insert(0, TorchFinder(attach_all))


def leave(watch):
    """Report at the end of the program, and let go of the interpreter before it ends.

    A thread of gloo may still want it for its last exchange; denied, it aborts the process.
    """
    watch.finish()
    if watch.parts["ranks"].world > 1:
        time.sleep(0.05)


def after_fork(watch):
    """A forked child begins with nothing seen, and reports before it ends."""
    watch.begin()
    from multiprocessing.util import Finalize

    Finalize(None, watch.finish, exitpriority=100)


def attach(watch, torch):
    """Put the hooks and wrappers on. What this torch lacks costs the rest nothing."""
    for put_on in (
        attach_steps,
        attach_losses,
        attach_modules,
        attach_files,
        attach_loaders,
        attach_compilers,
    ):
        try:
            put_on(watch, torch)
        except Exception as error:
            why = f"{put_on.__name__}: {type(error).__name__}: {error}"
            sys.stderr.write(f"probe: could not attach all ({why})\n")


def attach_losses(watch, torch):
    """Loss functions, attention and backward()."""
    import torch.utils.checkpoint

    functions = torch.nn.functional
    wrap = watch.wrap
    wrap(functions, "cross_entropy", "losses", after="after_cross_entropy", fragile=True)
    wrap(functions, "nll_loss", "losses", after="after_nll", fragile=True)
    wrap(
        functions, "binary_cross_entropy_with_logits", "losses", after="after_binary", fragile=True
    )
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        wrap(functions, name, "losses", after="after_regression", fragile=True)
    for name in ("Categorical", "Normal", "Independent", "MultivariateNormal", "Bernoulli"):
        kind = getattr(torch.distributions, name)
        wrap(kind, "log_prob", "losses", after="after_log_probability", fragile=True)
    wrap(functions, "relu", "activations", after="after_relu", fragile=True)
    wrap(functions, "softmax", "activations", after="after_softmax", fragile=True)
    for owner in (torch, torch.Tensor):
        for name in ("topk", "argmax"):
            wrap(owner, name, "activations", after="after_choice", fragile=True)
    wrap(
        functions,
        "scaled_dot_product_attention",
        "activations",
        after="after_attention",
        fragile=True,
    )
    wrap(functions, "scaled_dot_product_attention", "shapes", after="after_attention", fragile=True)
    wrap(
        torch.utils.checkpoint,
        "checkpoint",
        "time and memory",
        before="before_checkpoint",
        fragile=True,
    )
    wrap(torch.Tensor, "backward", "ranks", before="before_backward")
    wrap(torch.Tensor, "backward", "time and memory", before="before_backward")
    wrap(torch.Tensor, "backward", "losses", before="before_backward")
    wrap(torch.Tensor, "backward", "gradients", before="before_backward", after="after_backward")
    utils = torch.nn.utils
    wrap(utils.clip_grad, "clip_grad_norm_", "gradients", after="after_clip", places=(utils,))
    scaler = (
        torch.amp.grad_scaler.GradScaler
        if hasattr(torch, "amp") and hasattr(torch.amp, "grad_scaler")
        else torch.cuda.amp.GradScaler
    )
    wrap(scaler, "scale", "gradients", after="after_scale")
    wrap(scaler, "unscale_", "gradients", after="after_unscale")
    wrap(scaler, "step", "gradients", before="before_scaler_step", after="after_scaler_step")


def attach_steps(watch, torch):
    """Optimizers and schedulers."""
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    @watch.careful
    def before(optimizer, args, kwargs):
        watch.guard("checkpoints", "before_step", optimizer)
        watch.guard("parameters", "before_step", optimizer)
        watch.guard("gradients", "before_step", optimizer)

    @watch.careful
    def after(optimizer, args, kwargs):
        watch.in_backward = False
        for part in ("parameters", "gradients", "rates", "ranks", "time and memory", "copies"):
            watch.guard(part, "after_step", optimizer)
        if not watch.resting():
            watch.stepped(optimizer)

    watch.step_handles += [
        register_optimizer_step_pre_hook(before),
        register_optimizer_step_post_hook(after),
    ]
    watch.wrap(torch.optim.Optimizer, "__init__", "parameters", after="after_built")
    schedulers = torch.optim.lr_scheduler
    base = getattr(schedulers, "LRScheduler", None) or schedulers._LRScheduler
    watch.wrap(base, "__init__", "rates", after="after_scheduler")
    watch.wrap(base, "load_state_dict", "checkpoints", after="after_scheduler")


def attach_modules(watch, torch):
    """Calls of modules."""
    from torch.nn.modules.module import (
        register_module_forward_hook,
        register_module_forward_pre_hook,
    )

    @watch.careful
    def entered(module, args):
        if watch.resting():
            watch.tidy()
            return
        stack = watch.local.__dict__.setdefault("stack", [])
        if not stack and next(module.parameters(), None) is not None:
            watch.add_model(module)
        watch.guard("modes", "entered", module, not stack)
        watch.parts["series"].entered(len(stack))
        if not stack or type(module).__name__ == "DistributedDataParallel":
            watch.guard("ranks", "entered", module, args, not stack)
        if watch.step < SHAPE_STEPS:
            watch.guard("shapes", "entered", module, args, not stack)
        if not stack or watch.parts["inputs"].fresh:
            watch.guard("inputs", "entered", module, args, not stack)
        stack.append(module)

    @watch.careful
    def left(module, args, output):
        stack = watch.local.__dict__.get("stack")
        if watch.resting() or not stack:
            return
        while stack and stack.pop() is not module:
            pass
        watch.parts["series"].left(module, len(stack))
        if not module._modules:
            watch.guard("activations", "left", module, output)
            if watch.step < SHAPE_STEPS:
                watch.guard("shapes", "left", module, output)
        if not stack:
            watch.guard("activations", "ended")
            watch.guard("shapes", "ended")
            watch.guard("modes", "left", module)
            if not watch.gradients:
                watch.parts["copies"].left(module)

    watch.wrap(
        torch.nn.parallel.DistributedDataParallel, "__init__", "ranks", after="after_wrapping"
    )
    watch.handles += [
        register_module_forward_pre_hook(entered),
        register_module_forward_hook(left, always_call=True),
    ]


def attach_files(watch, torch):
    """Saving and loading."""
    wrap = watch.wrap
    wrap(
        torch.serialization,
        "save",
        "checkpoints",
        before="before_save",
        after="after_save",
        places=(torch,),
    )
    wrap(torch.serialization, "load", "checkpoints", after="after_load", places=(torch,))
    wrap(torch.nn.Module, "load_state_dict", "checkpoints", after="after_model")
    wrap(torch.optim.Optimizer, "load_state_dict", "checkpoints", after="after_optimizer")


def attach_loaders(watch, torch):
    """Data loaders, and their workers."""
    from torch.utils.data import _utils, dataloader

    iterator = dataloader._BaseDataLoaderIter
    watch.wrap(iterator, "__init__", "batches", after="after_begin")
    watch.wrap(iterator, "_reset", "batches", after="after_reset")
    watch.wrap(iterator, "__next__", "batches", before="before_next", after="after_next")
    fetcher = _utils.fetch._MapDatasetFetcher
    fetcher.fetch = Workers(watch.folder).around(fetcher.fetch)  # pyright: ignore[reportAttributeAccessIssue]


def attach_compilers(watch, torch):
    """Compiled and captured code must not contain the probe, so it stands down before."""

    def stand_down_before(owner, attribute, why):
        original = getattr(owner, attribute)

        def compiled(*args, **kwargs):
            if owner is torch:
                watch.guard("settings", "before_compile", args, kwargs)
            watch.stand_down(why)
            return original(*args, **kwargs)

        setattr(owner, attribute, _like(original, compiled))

    def step_aside_for(owner, attribute):
        original = getattr(owner, attribute)

        def scripted(*args, **kwargs):
            watch.switch(False)
            try:
                return original(*args, **kwargs)
            finally:
                if watch.handles:
                    watch.switch(True)

        setattr(owner, attribute, _like(original, scripted))

    compiled_code = "torch.compile: compiled code isn't looked into"
    stand_down_before(torch, "compile", compiled_code)
    if hasattr(torch.nn.Module, "compile"):
        stand_down_before(torch.nn.Module, "compile", compiled_code)
    graph = getattr(torch.cuda, "CUDAGraph", None)
    if hasattr(graph, "capture_begin"):
        captured = "CUDA graph: what a graph replays calls no Python, so it isn't looked into"
        stand_down_before(graph, "capture_begin", captured)
    for attribute in ("script", "trace"):
        step_aside_for(torch.jit, attribute)


def _like(original, function):
    """`function` under the name of `original`."""
    import functools

    return functools.wraps(original)(function)


# ---- entries.py
# Check and fix of the entries, where the catalogue lies beside the program.

PAGES = (("references", "**", "*.md"), ("profiles", "*.md"))
MOST_TEXT = 500  # characters of a check or a fix


def catalogue():
    """The folder with references/ and profiles/ beside scripts/, or an empty text."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return root if os.path.isdir(os.path.join(root, "references", "training")) else ""


def advice(ids, root):
    """id -> {"check": text, "fix": text}, the first paragraph of each, for those that are found."""
    found = {}
    if not root:
        return found
    pages = [os.path.join(glob.escape(root), *place) for place in PAGES]
    for path in sorted(path for page in pages for path in glob.glob(page, recursive=True)):
        with open(path, encoding="utf-8") as handle:
            parts = re.split(r"(?m)^### ", handle.read())[1:]
        for part in parts:
            entry = re.match(r"[A-Z0-9]+[a-z]?", part)
            if entry and entry.group() in ids:
                found[entry.group()] = {
                    name.lower(): first_of(part, name) for name in ("Check", "Fix")
                }
                found[entry.group()]["page"] = place_of(part, path, root)
    return found


def place_of(part, path, root):
    """Where an entry stands in the project's repository, with the mark of its heading."""
    heading = re.sub(r"[^\w\- ]", "", part.splitlines()[0].strip().lower()).replace(" ", "-")
    return os.path.relpath(path, root).replace(os.sep, "/") + "#" + heading


def first_of(part, name):
    """The first paragraph of a field of an entry, on one line, cut at the end of a sentence."""
    place = re.search(r"(?ms)^\*\*" + name + r":\*\* *(.*?)(?:\n\s*\n|\Z)", part)
    text = " ".join(place.group(1).split()) if place else ""
    if len(text) <= MOST_TEXT:
        return text
    cut = text[:MOST_TEXT].rfind(". ") + 1
    return text[:cut] if cut > 0 else text[:MOST_TEXT].rsplit(" ", 1)[0] + " …"


# ---- axis.py
# Where a step, a time or a value stands along a chart, and the round numbers beside it. Pure.

STEP, CLOCK, ELAPSED = "step", "clock", "elapsed"  # what stands along a chart
SPANS = (  # seconds between two times on an axis
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800),
)
_LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))

Ticks = List[Tuple[float, str]]


class Axis(NamedTuple):
    """What stands along the charts of a page, from `first` to `last`.

    `kind`: STEP; CLOCK, seconds since 1970; ELAPSED, seconds since a start.
    """

    kind: str
    first: float
    last: float

    def locate_x(self, x: float) -> float:
        """Return where `x` stands on the axis, from 0 to 1000."""
        return 1000 * (x - self.first) / (self.last - self.first)

    def list_ticks(self, most: int = 5) -> Ticks:
        """Return round numbers within the axis with their text, at most one more than `most`."""
        span = self.last - self.first
        if self.kind == STEP:
            step = max(_round_step(span / most), 1)
        else:
            step = next(
                (step for step in SPANS if span / step <= most),
                math.ceil(span / most / SPANS[-1]) * SPANS[-1],
            )
        begin = math.ceil(self.first / step) * step
        found = [begin + step * n for n in range(most + 1)]
        return [(x, self.format_x(x)) for x in found if x <= self.last]

    def format_x(self, x: float) -> str:
        """Return a place on the axis in words, as exact as the axis is long."""
        span = self.last - self.first
        if self.kind == STEP:
            return format_number(x)
        if self.kind == ELAPSED:
            unit, name = (3600, "h") if span >= 7200 else (60, "min") if span >= 120 else (1, "s")
            return f"{x / unit:.4g} {name}"
        return format_time(x, day=span > 86400, second=span < 600)


class Scale(NamedTuple):
    """The values of a chart, from `low` at its bottom to `high` at its top."""

    low: float
    high: float
    is_log: bool = False

    def locate_value(self, value: float) -> float:
        """Return how far down a value stands, from 0 to 100."""
        low, high = self._find_ends()
        at = math.log10(max(value, self.low)) if self.is_log else value
        unit = max(abs(low), abs(high)) or 1  # a difference of two huge numbers isn't finite
        share = (at / unit - low / unit) / (high / unit - low / unit)
        return 97 - 94 * max(0.0, min(share, 1.0))

    def list_ticks(self, most: int = 4) -> Ticks:
        """Return round values within the scale with their text."""
        low, high = self._find_ends()
        if self.is_log:
            step = max(math.ceil((high - low) / most), 1)
            powers = range(math.ceil(low), math.floor(high) + 1, step)
            return [(10.0**power, format_number(10.0**power)) for power in powers]
        step = _round_step(high / most - low / most)
        begin = math.ceil(low / step)
        found = [(begin + n) * step for n in range(most + 2)]
        return [(x, format_number(x)) for x in found if x <= high + step * 1e-9]

    def _find_ends(self) -> tuple[float, float]:
        if self.is_log:
            return math.log10(self.low), math.log10(self.high)
        return self.low, self.high


def fit_scale(
    least: float, most: float, low: float | None, high: float | None, may_log: bool
) -> Scale:
    """Return the scale for values from `least` to `most`. `low`, `high`: to where it reaches at
    least. `may_log`: a hundredfold range of positive values gets a logarithmic one."""
    if may_log and low is None and high is None and least > 0 and most / least >= 100:
        return Scale(least, most, True)
    least = least if low is None else min(least, low)
    most = most if high is None else max(most, high)
    if f"{least:.4g}" == f"{most:.4g}":  # a difference that no number beside the chart shows
        around = abs(most) * 0.1 or 1.0
        return Scale(least - around, most + around)
    return Scale(least, most)


def _round_step(about: float) -> float:
    """Return 1, 2 or 5 times a power of ten, the next above `about`."""
    power = 10.0 ** math.floor(math.log10(about))
    return next(factor * power for factor in (1, 2, 5, 10, 20) if factor * power >= about * 0.999)


def format_number(value: float) -> str:
    """Return a number with up to four digits: 12.5k, 0.003, 3e-5."""
    size = abs(value)
    if size and (size < 1e-3 or size >= 1e15):
        digits, _, power = f"{value:.3g}".partition("e")
        return f"{digits}e{int(power)}" if power else digits
    for unit, name in _LARGE if size >= 1e4 else ():
        if size >= unit:
            return f"{value / unit:.4g}{name}"
    return f"{value:.4g}"


def format_time(seconds: float, day: bool = True, second: bool = False) -> str:
    """Return a time of the day in UTC. `seconds`: since 1970."""
    form = ("%Y-%m-%d " if day else "") + ("%H:%M:%S" if second else "%H:%M")
    return datetime.fromtimestamp(seconds, timezone.utc).strftime(form)


# ---- charts.py
# Draw charts as HTML: `draw_charts` takes lines of numbers and returns text for a page. Pure.
#
# A plot is SVG without text, because it stretches to the page's width; its words are beside it.
# All text that comes in is escaped, and the rest is numbers. Nothing loads, and nothing runs: a
# checkbox that the style looks at says whether the charts stand against steps or against time.

POINTS_ACROSS = 480  # points across a plot; more values are drawn as mean and range
LINE_COLOURS = 8  # lines of a chart that have a colour of their own; the others are grey
TABLE_ROWS, MOST_TABLE_ROWS = 20, 160  # of a line, and of all lines of a chart
MOST_MARKS = 80  # in a row; more are thinned evenly
MARK_KINDS = {  # of marks, and whether an upright line in each chart goes with it
    "start": True,
    "resume": True,
    "end": True,
    "fail": True,
    "save": False,
    "copy": False,
    "warn": False,
    "note": False,
}


class Line(NamedTuple):
    """Numbers in the order of time. `steps` and `times` are as long as `values`, or empty.

    `times`: seconds, of the clock or since a start. NaN: not known; infinite: known, and not
    finite. `gap`: seconds without a value that break the line.
    """

    name: str
    values: Sequence[float]
    times: Sequence[float] = ()
    steps: Sequence[float] = ()
    gap: float = math.inf


class Chart(NamedTuple):
    """Lines over each other, with what they are called.

    `unit`: of the values. `note`: beside the title. `about`: at the right; by default where the
    line ends, and its range. `low`, `high`: what the scale reaches at least. `may_log`: where the
    values go over two powers of ten, the scale is logarithmic. `band`: 'calm' or 'bad' for bars as
    high as the plot, the stronger the nearer the values are to 1.
    """

    title: str
    lines: Sequence[Line]
    unit: str = ""
    note: str = ""
    about: str = ""
    low: float | None = None
    high: float | None = None
    may_log: bool = False
    band: str = ""


class Mark(NamedTuple):
    """Something that happened. `kind`: of MARK_KINDS. `row`: where it stands, in a word of up to
    eight letters. `label`: a number in place of a sign, whose text `link`, an `#id`, leads to.
    """

    kind: str
    row: str
    text: str
    time: float | None = None
    step: float | None = None
    label: str = ""
    link: str = ""


Place = Tuple[float, float, float, float]  # along the axis, and the mean, least and most value


def printable(text: str) -> str:
    """Return a text without what moves or hides other text."""
    return "".join(char if char.isprintable() else " " for char in text)


def as_text(text: str) -> str:
    """Return a text as it stands in HTML, between tags or in an attribute with quotes."""
    return escape(printable(text))


def draw_charts(
    charts: Sequence[Chart],
    marks: Sequence[Mark] = (),
    *,
    is_elapsed: bool = False,
    is_stacked: bool = False,
    span: Sequence[float] = (),
) -> str:
    """Return the HTML of charts that share their axes, '' where no chart has a value.

    Where the lines have steps and times, a checkbox changes between both. `is_elapsed`: times are
    since a start. `is_stacked`: the charts lie close under one another, with one axis below them.
    `span`: times to which the axis reaches at least.
    """
    shown = [chart for chart in charts if any(map(_is_known, _values(chart)))]
    steps = [line.steps for chart in shown for line in chart.lines]
    times = [line.times for chart in shown for line in chart.lines]
    fitted = (
        fit_axis(STEP, steps, [mark.step for mark in marks]),
        fit_axis(ELAPSED if is_elapsed else CLOCK, times, [*span, *(m.time for m in marks)]),
    )
    axes = [axis for axis in fitted if axis]
    if not shown or not axes:
        return ""
    parts = [f'<div class="charts{" stacked" if is_stacked else ""}">']
    if len(axes) > 1:
        parts.append('<label class="switch"><input type="checkbox"> time in place of steps</label>')
    if marks:
        parts += [_by(axis, draw_marks(marks, axis)) for axis in axes]
    parts.append('<div class="grid">')
    parts += [draw_chart(chart, axes, marks, has_ticks=not is_stacked) for chart in shown]
    parts.append("</div>")
    parts += [_by(axis, _ticks_below(axis)) for axis in axes if is_stacked]
    return "\n".join([*parts, "</div>"])


def fit_axis(
    kind: str, columns: Iterable[Sequence[float]], others: Iterable[float | None] = ()
) -> Axis | None:
    """Return the axis on which all numbers of the columns stand, None for none. `others`: what
    stands there too."""
    ends = [end for column in columns for end in _ends(column)]
    if not ends:
        return None
    ends += [x for x in others if x is not None and math.isfinite(x)]
    first, last = min(ends), max(ends)
    return Axis(kind, first, max(last, first + 1.0))


def _ends(column: Sequence[float]) -> list[float]:
    known = [x for x in column if math.isfinite(x)]
    return [min(known), max(known)] if known else []


def draw_chart(
    chart: Chart, axes: Sequence[Axis], marks: Sequence[Mark] = (), *, has_ticks: bool = True
) -> str:
    """Return one chart: its title, a plot for each axis, and a table of its values."""
    known = [value for value in _values(chart) if _is_known(value)]
    finite = [value for value in known if math.isfinite(value)]
    scale = fit_scale(
        min(finite, default=0.0), max(finite, default=0.0), chart.low, chart.high, chart.may_log
    )
    notes = [chart.note, "logarithmic" if scale.is_log else ""]
    note = "".join(f' <span class="dim">{as_text(note)}</span>' for note in notes if note)
    unit = f' <span class="dim">{as_text(chart.unit)}</span>' if chart.unit else ""
    lines = [
        f'<figure class="chart{" band" if chart.band else ""}">',
        f"<figcaption><span><b>{as_text(chart.title)}</b>{unit}{note}</span>"
        f"<span>{as_text(chart.about or _about(chart))}</span></figcaption>",
    ]
    if len(chart.lines) > 1:
        lines.append(_legend(chart))
    for axis in axes:
        drawn = draw_plot(chart, axis, scale, marks)
        below = _ticks_below(axis) if has_ticks else ""
        plot = f'<div class="plot">{_ticks_beside(chart, scale)}{drawn}</div>'
        lines.append(_by(axis, plot + below))
    return "\n".join([*lines, _table(chart, axes), "</figure>"])


def _by(axis: Axis, html: str) -> str:
    return f'<div class="{"by-step" if axis.kind == STEP else "by-time"}">{html}</div>'


def _values(chart: Chart) -> Iterable[float]:
    return (value for line in chart.lines for value in line.values)


def _is_known(value: float) -> bool:
    return value == value  # NaN isn't


def _along(line: Line, axis: Axis) -> Sequence[float]:
    return line.steps if axis.kind == STEP else line.times


def _about(chart: Chart) -> str:
    """Return where a single line ends and between what it lies."""
    if chart.band or len(chart.lines) != 1:
        return ""
    values = [value for value in chart.lines[0].values if _is_known(value)]
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return "no finite value"
    low, high = format_number(min(finite)), format_number(max(finite))
    words = [f"last {_number(values[-1])}"] + ([f"{low} to {high}"] if low != high else [])
    lost = len(values) - len(finite)
    return ", ".join(words + ([f"{lost} not finite"] if lost else []))


def _number(value: float, form: Callable[[float], str] = format_number) -> str:
    return form(value) if math.isfinite(value) else "not finite"


def buckets(line: Line, axis: Axis) -> list[list[Place]]:
    """Return the points of a line in runs without a gap.

    A run also ends at a value that isn't known or not finite, and where the axis goes back, as a
    resumed run's steps do.
    """
    width = (axis.last - axis.first) / POINTS_ACROSS
    gap = math.inf if axis.kind == STEP else line.gap
    runs: list[list[Place]] = [[]]
    column, last = -1, -math.inf
    group: list[float] = []  # the sum of places, of values, the least, the most, how many

    def close() -> None:
        if group:
            x, total, least, most, count = group
            mean = min(max(least, total / count), most)  # a sum of huge numbers isn't finite
            runs[-1].append((axis.locate_x(x / count), mean, least, most))
            group.clear()

    for x, value in zip(_along(line, axis), line.values):
        if not math.isfinite(x):
            continue
        if not math.isfinite(value) or x < last or x - last > gap:
            close()
            if runs[-1]:
                runs.append([])
        if not math.isfinite(value):
            last = x
            continue
        here = min(int((x - axis.first) / width), POINTS_ACROSS - 1)
        if group and here != column:
            close()
        if group:
            group[0] += x
            group[1] += value
            group[2:] = min(group[2], value), max(group[3], value), group[4] + 1
        else:
            group[:] = [x, value, value, value, 1]
        column, last = here, x
    close()
    return [run for run in runs if run]


def draw_plot(chart: Chart, axis: Axis, scale: Scale, marks: Sequence[Mark] = ()) -> str:
    """Return the SVG of a chart against one axis, 1000 wide and 100 high."""
    along = "step" if axis.kind == STEP else "time"
    about = chart.about or _about(chart) or f"{len(chart.lines)} lines"
    upright = "".join(f"M{axis.locate_x(x):.1f} 0V100" for x, _ in axis.list_ticks())
    level = (
        ""
        if chart.band
        else "".join(f"M0 {scale.locate_value(y):.1f}H1000" for y, _ in scale.list_ticks())
    )
    parts = [f'<path class="g" d="{upright}{level}"/>']
    placed = _placed(marks, axis)
    for kind in [kind for kind, has_line in MARK_KINDS.items() if has_line]:
        places = [at for mark, at in placed if mark.kind == kind]
        drawn = "".join(f"M{10 * at:.1f} 0V100" for at in places)
        parts += [f'<path class="m {kind}" d="{drawn}"/>'] if drawn else []
    coloured = list(enumerate(chart.lines))
    for number, line in [*coloured[LINE_COLOURS:], *coloured[:LINE_COLOURS]]:
        runs = buckets(line, axis)
        colour = _colour(number)
        if chart.band:
            parts += _bars(runs, chart.band)
        else:
            parts += _strokes(runs, scale, colour, has_range=len(chart.lines) == 1)
        parts += _lost(line, axis)
    return (
        '<svg viewBox="0 0 1000 100" preserveAspectRatio="none" role="img">'
        f"<title>{as_text(f'{chart.title} against {along}: {about}')}</title>{''.join(parts)}</svg>"
    )


def _strokes(runs: list[list[Place]], scale: Scale, colour: str, has_range: bool) -> list[str]:
    """A line through the means, before the range; a dot for a value without neighbours."""
    parts, y = [], scale.locate_value
    for run in runs:
        if has_range and any(least < most for _, _, least, most in run):
            wide = run if len(run) > 1 else [(x + by, *rest) for by in (-1, 1) for x, *rest in run]
            upper = " ".join(f"{x:.1f},{y(most):.1f}" for x, _, _, most in wide)
            lower = " ".join(f"{x:.1f},{y(least):.1f}" for x, _, least, _ in reversed(wide))
            parts.append(f'<polygon class="r" points="{upper} {lower}"/>')
        means = [f"{x:.1f},{y(mean):.1f}" for x, mean, _, _ in run]
        dot = " dot" if len(run) == 1 else ""
        parts.append(
            f'<polyline class="l {colour}{dot}" points="{" ".join(means * (1 + bool(dot)))}"/>'
        )
    return parts


def _bars(runs: list[list[Place]], tone: str) -> list[str]:
    """Bars where the mean is above 0, each as far as the mean stays about the same."""
    kind, unit = "bad" if tone == "bad" else "calm", 1000 / POINTS_ACROSS
    bars: list[list[float]] = []  # from, to, opacity
    for run in runs:
        for at, (x, mean, _, _) in enumerate(run):
            end = run[at + 1][0] if at + 1 < len(run) else x + unit
            opacity = 0.25 + 0.75 * math.ceil(5 * min(mean, 1.0)) / 5 if mean > 0 else 0.0
            if at and bars[-1][2] == opacity:
                bars[-1][1] = end
            else:
                bars.append([x, end, opacity])
    return [
        f'<rect class="{kind}" x="{x:.1f}" y="10" width="{end - x:.1f}" height="80" '
        f'fill-opacity="{opacity:.2f}"/>'
        for x, end, opacity in bars
        if opacity
    ]


def _lost(line: Line, axis: Axis) -> list[str]:
    """Dots at the top where a value was told that isn't finite."""
    pairs = zip(_along(line, axis), line.values)
    columns = sorted({round(axis.locate_x(x)) for x, value in pairs if math.isinf(value)})
    dots = "".join(f"M{x} 3h0" for x in columns)
    return [f'<path class="lost" d="{dots}"/>'] if dots else []


def _placed(marks: Sequence[Mark], axis: Axis) -> list[tuple[Mark, float]]:
    """Return the marks that stand on an axis, each with its place in percent."""
    found = []
    for mark in marks:
        at = mark.step if axis.kind == STEP else mark.time
        if at is not None and math.isfinite(at):
            found.append((mark, min(max(axis.locate_x(at) / 10, 0.0), 100.0)))
    return found


def draw_marks(marks: Sequence[Mark], axis: Axis) -> str:
    """Return the rows of marks, on the axis of the charts."""
    rows: dict[str, list[tuple[Mark, float]]] = {}
    for mark, at in _placed(marks, axis):
        rows.setdefault(mark.row, []).append((mark, at))
    lines = []
    for row, found in rows.items():
        lines.append(f'<div class="marks"><span class="row">{as_text(row)}</span>')
        for mark, at in spread_evenly(found, MOST_MARKS):
            kind = mark.kind if mark.kind in MARK_KINDS else "note"
            tag, link = ("a", f' href="{as_text(mark.link)}"') if mark.link else ("span", "")
            tip = "" if mark.label else f' title="{as_text(mark.text)}"'
            lines.append(
                f'<{tag} class="mark {kind}" style="left:{at:.1f}%"{link}{tip}>'
                f"{as_text(mark.label)}</{tag}>"
            )
        lines.append("</div>")
    return "".join(lines)


def spread_evenly(items: list, most: int) -> list:
    """Return at most `most` of the items, spread evenly, with the first and the last one."""
    if len(items) <= most:
        return list(items)
    return [items[round(at * (len(items) - 1) / (most - 1))] for at in range(most)]


def _ticks_below(axis: Axis) -> str:
    ticks = "".join(
        f'<span style="left:{min(max(axis.locate_x(x) / 10, 3), 97):.1f}%">{as_text(text)}</span>'
        for x, text in axis.list_ticks()
    )
    return f'<div class="axis" aria-hidden="true">{ticks}</div>'


def _ticks_beside(chart: Chart, scale: Scale) -> str:
    if chart.band:
        return ""
    ticks = [(scale.locate_value(y), text) for y, text in scale.list_ticks()]
    return "".join(
        f'<span class="level" aria-hidden="true" style="top:{top:.1f}%">{text}</span>'
        for top, text in ticks
    )


def _colour(number: int) -> str:
    """Return the class of a line's colour."""
    return f"c{number + 1}" if number < LINE_COLOURS else "c0"


def _legend(chart: Chart) -> str:
    keys = []
    for number, line in enumerate(chart.lines[:LINE_COLOURS]):
        known = [value for value in line.values if _is_known(value)]
        last = f" {_number(known[-1])}" if known else ""
        keys.append(
            f'<span class="key {_colour(number)}">{as_text(line.name)}'
            f'<span class="dim">{last}</span></span>'
        )
    if (others := len(chart.lines) - LINE_COLOURS) > 0:
        keys.append(f'<span class="key c0">{others} more, named under values</span>')
    return f'<div class="legend">{"".join(keys)}</div>'


def _table(chart: Chart, axes: Sequence[Axis]) -> str:
    """Return the values as a table that is closed at first: some of each line, the last one too."""
    heads = [line.name for line in chart.lines]
    each = max(min(TABLE_ROWS, MOST_TABLE_ROWS // max(len(heads), 1)), 2)
    has_names = len(heads) > 1
    rows = []
    for line in chart.lines:
        columns = [(axis, _along(line, axis)) for axis in axes]
        known = [at for at, value in enumerate(line.values) if _is_known(value)]
        for at in spread_evenly(known, each):
            cells = [as_text(line.name)] if has_names else []
            cells += [_cell(axis, along[at]) if len(along) > at else "" for axis, along in columns]
            rows.append([*cells, _number(line.values[at], "{:.6g}".format)])
    named = {STEP: "step", CLOCK: "time (UTC)", ELAPSED: "time"}
    heads = [*(["line"] if has_names else []), *(named[axis.kind] for axis in axes)]
    heads.append(as_text(chart.unit or chart.title))
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    head = "".join(f'<th scope="col">{head}</th>' for head in heads)
    return (
        f"<details><summary>values</summary><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></details>"
    )


def _cell(axis: Axis, x: float) -> str:
    if not math.isfinite(x):
        return ""
    if axis.kind == CLOCK:
        return format_time(x, second=True)
    return f"{x:.6g}" if axis.kind == STEP else f"{x:.0f} s"


# ---- style.py
# The style that the pages of the tools share, in which `charts` is drawn.


def data_text(name: str) -> str:
    """Return a text of data/. In one file of a program, the text itself stands in its place."""
    path = os.path.join(os.path.dirname(__file__), "data", name)
    with open(path, encoding="utf-8") as file:
        return file.read()


OF_PAGES = r"""
/* The colours of the site, and all that the pages which `rgt` and the
   probe write have in common. */
:root {
  color-scheme: light dark;
  --bg: light-dark(#fff, #14181c);
  --fg: light-dark(#1c2126, #e4e8ec);
  --card: light-dark(#f5f7f9, #1c2127);
  --dim: light-dark(#5f6b76, #98a4af);
  --grid: light-dark(#d9dee3, #2d343b);
  --line: light-dark(#1a5fd0, #6cb0ff);
  --good: light-dark(#1a7f37, #56d364);
  --hint: light-dark(#8f5600, #e3a63a);
  --bad: light-dark(#c62828, #ff7b72);
}
.alone, .alone * { box-sizing: border-box }
.alone {
  margin: 0 auto; max-width: 60rem; padding: 1rem; background: var(--bg); color: var(--fg);
  font: 15px/1.45 system-ui, sans-serif; overflow-wrap: anywhere
}
:where(.alone) h1 { font-size: 1.3rem; margin: 0 0 .3rem }
:where(.alone) h2 { font-size: 1.05rem; margin: 1.2rem 0 .3rem }
:where(.alone) h3 { font-size: .95rem; margin: 0 }
:where(.alone) p { margin: .3rem 0 }
:where(.alone) a { color: var(--line) }
:where(.alone) code { font-size: .85em; background: var(--bg) }
:where(.alone) section { padding: .6rem .8rem; background: var(--card); border-radius: 8px }
:where(.alone) table { border-collapse: collapse; width: 100% }
:where(.alone) :is(th, td) { padding: .2rem .4rem; border-top: 1px solid var(--grid) }
:where(.alone) :is(.dim, dt) { color: var(--dim) }
:where(.alone) .good { color: var(--good) }
:where(.alone) .hint { color: var(--hint) }
:where(.alone) .bad { color: var(--bad) }
"""  # what the site has too
OF_CHARTS = r"""
/* How charts.py is drawn. Eight colours of lines, 3:1 against both grounds at least. */
:root {
  --range: light-dark(#1a5fd033, #6cb0ff33);
  --calm: light-dark(#7d8a96, #6b7782);
  --c1: light-dark(#1a5fd0, #6cb0ff);
  --c2: light-dark(#b45309, #f0a35e);
  --c3: light-dark(#1a7f37, #56d364);
  --c4: light-dark(#a626a4, #e08be0);
  --c5: light-dark(#0b7285, #3bc9db);
  --c6: light-dark(#c62828, #ff7b72);
  --c7: light-dark(#6b6b00, #c9c94a);
  --c8: light-dark(#495057, #adb5bd);
}
.charts { --gutter: 3rem; container-type: inline-size }
.charts .grid { display: grid; grid-template-columns: minmax(0, 1fr); gap: 1rem 1.5rem }
@container (min-width: 44rem) {
  .charts:not(.stacked) .grid { grid-template-columns: repeat(2, minmax(0, 1fr)) }
}
.charts.stacked .grid { gap: .45rem }
.charts .switch { display: inline-block; margin: 0 0 .4rem; font-size: .85rem }
.charts .switch input { margin: 0 .2rem 0 0; vertical-align: -.1em; accent-color: var(--line) }
.charts:has(.switch input:checked) .by-step { display: none }
.charts:not(:has(.switch input:checked)) .by-step ~ .by-time { display: none }
.chart { margin: 0; min-width: 0 }
.chart figcaption {
  display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 .8rem; font-size: .8rem;
  font-variant-numeric: tabular-nums
}
.plot { position: relative; margin: .25rem 0 0 var(--gutter) }
.plot svg {
  display: block; overflow: visible; width: 100%; height: 7rem; border-bottom: 1px solid var(--grid)
}
.stacked .plot svg { height: 4rem }
.band .plot svg { height: 14px }
.level {
  position: absolute; right: 100%; transform: translateY(-50%); padding-right: .35rem;
  font-size: .7rem; color: var(--dim); white-space: nowrap; line-height: 1
}
.axis {
  position: relative; height: 1.1rem; margin-left: var(--gutter); font-size: .7rem;
  color: var(--dim)
}
.axis span { position: absolute; transform: translateX(-50%); white-space: nowrap }
.legend { display: flex; flex-wrap: wrap; gap: 0 .8rem; font-size: .75rem }
.key::before {
  content: ""; display: inline-block; width: .7rem; height: .2rem; margin-right: .3rem;
  vertical-align: .25em; background: var(--c)
}
.chart details { margin-left: var(--gutter); font-size: .75rem }
.chart summary { color: var(--dim); cursor: pointer; width: fit-content }
.chart details table { font-variant-numeric: tabular-nums }
.chart details :is(th, td) { text-align: right; white-space: nowrap; font-weight: 400 }
.chart details :is(th, td):first-child { text-align: left; padding-left: 0 }
.chart details { overflow-x: auto }
.plot svg * { vector-effect: non-scaling-stroke }
.g { fill: none; stroke: var(--grid); stroke-width: 1 }
.l { fill: none; stroke: var(--c); stroke-width: 1.6; stroke-linejoin: round }
.dot { stroke-width: 5; stroke-linecap: round }
.r { fill: var(--range) }
.lost { fill: none; stroke: var(--bad); stroke-width: 5; stroke-linecap: round }
.m { fill: none; stroke: var(--dim); stroke-width: 1; stroke-dasharray: 3 3 }
.m.fail { stroke: var(--bad) }
.m.resume { stroke: var(--good) }
rect.bad { fill: var(--bad) }
rect.calm { fill: var(--calm) }
.c0 { --c: var(--calm) }
.l.c0:not(.dot) { stroke-width: .8 }
.c1 { --c: var(--c1) }
.c2 { --c: var(--c2) }
.c3 { --c: var(--c3) }
.c4 { --c: var(--c4) }
.c5 { --c: var(--c5) }
.c6 { --c: var(--c6) }
.c7 { --c: var(--c7) }
.c8 { --c: var(--c8) }
.marks {
  position: relative; height: 1.25rem; margin: 0 0 .1rem var(--gutter); font-size: .7rem;
  border-bottom: 1px solid var(--grid)
}
:has(> .marks) + .grid, :has(> .marks) + .by-time + .grid { margin-top: .6rem }
.marks .row {
  position: absolute; right: 100%; padding-right: .4rem; color: var(--dim); white-space: nowrap
}
.mark {
  position: absolute; top: .2rem; width: .7rem; height: .7rem; margin-left: -.35rem;
  background: var(--dim); border-radius: 50%; text-decoration: none
}
.mark:not(:empty) {
  top: 0; width: auto; min-width: 1.05rem; height: auto; margin: 0; transform: translateX(-50%);
  padding: 0 .15rem; border: 1px solid currentColor; border-radius: 4px; background: var(--bg);
  color: var(--dim); font-weight: 700; text-align: center
}
.mark.end { border-radius: 0 }
.mark.fail:empty { background: var(--bad); border-radius: 0; transform: rotate(45deg) }
.mark.resume { background: var(--good) }
.mark.warn { background: var(--hint) }
.mark.save { width: .3rem; margin-left: -.15rem; border-radius: 0; background: var(--c5) }
.mark.copy { width: .3rem; margin-left: -.15rem; border-radius: 0; background: var(--c4) }
.mark.fail:not(:empty) { color: var(--bad) }
.mark.warn:not(:empty) { color: var(--hint); background: var(--bg) }
"""
STYLE = OF_PAGES + OF_CHARTS


# ---- page.py
# The page of a run: one HTML file that needs no network. It is filled by jinja2, as torch is.

GREEN = {SOUND: "good", FOUND: "bad", SUSPICIOUS: "hint", "wrong": "bad", NOT_LOOKED: "dim"}
COLOURS = {"wrong": "bad", "hint": "hint", "note": "dim"}  # of a finding's level
HOME = "https://github.com/remote-gpu-trainer/remote-gpu-trainer/blob/main/"
PLACE = re.compile(r"(?:references|profiles)/[\w/.-]+\.md(?:#[\w-]*)?")
PLOTS = (
    ("loss", "Loss", ""),
    ("gradient norm", "Gradient norm", ""),
    ("update", "Update to weight", "the median matrix's change in a step, beside its size"),
    ("seconds", "Seconds a step", "from one optimizer step to the next"),
)


def template_text(name):
    """A template beside the parts. In the one file, the template itself stands in its place."""
    with open(os.path.join(os.path.dirname(__file__), "templates", name), encoding="utf-8") as told:
        return told.read()


TEMPLATE = r"""
<!doctype html>
<!-- remote-gpu-trainer probe -->
{# Every value is escaped, and each attribute that takes one has quotes. So they are in charts. #}
{% macro words(text) -%}
{% for part in text.split("`") -%}
{% if loop.index is even %}<code>{{ part }}</code>{% else %}{{ part }}{% endif %}
{%- endfor %}
{%- endmacro %}
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Probe: {{ report.verdict }}</title>
<style>
{{ style }}
section { margin: 0 0 .8rem }
dl { margin: .3rem 0 }
dt { font-size: .8rem }
dd { margin: 0 0 .3rem }
td, th { text-align: left; vertical-align: top }
th { overflow-wrap: normal }
.bar span { display: block; height: .6rem; background: var(--line) }
a { color: inherit }
.number { white-space: nowrap; text-align: right }
</style>
</head>
<body class="alone">
<h1>Probe: <span class="{{ colour }}">{{ report.verdict }}</span></h1>
<p class="dim">
{% if report.get("program") %}
{{ report.program }},
{% endif %}
{% if report.get("date") %}
{{ report.date }}:
{% endif %}
{{ report.steps }} step{{ "" if report.steps == 1 else "s" }} of
{{ report.processes | length }} process{{ "" if report.processes | length == 1 else "es" }}
looked at
{%- if report.processes %}, torch {{ report.processes[0].torch }}
{%- endif %}</p>
<h2>Findings</h2>
{% for one in report.findings %}
<section id="{{ one.id }}">
<h3 class="{{ colours[one.level] }}">
{{ one.level }}: {{ one.what }}
{% if links[one.id] is defined %}
[<a href="{{ links[one.id] }}">{{ one.id }}</a>]
{%- else %}
[{{ one.id }}]
{%- endif %}
</h3>
<dl>
<dt>seen at step {{ one.step }}
{%- if report.processes | length > 1 and one.ranks is defined and one.ranks -%}
, rank {{ one.ranks | join(", ") }}
{%- endif %}</dt><dd>{{ one.evidence }}</dd>
<dt>if all were well</dt><dd>{{ one.well }}</dd>
{% if one.check is defined and one.check %}
<dt>check</dt><dd>{{ words(one.check) }}</dd>
{% endif %}
<dt>fix</dt><dd>{{ words(one.fix if one.fix is defined and one.fix else one.do) }}</dd>
</dl>
</section>
{% else %}
<p>None.</p>
{% endfor %}
{% if facts %}
<h2>Facts</h2>
<table>
{% for one in facts %}
<tr><th>{{ one.about }}</th><td class="{{ "hint" if one.usual else "" }}">{{ one.text }}
{%- if one.usual %}
 <span class="dim">(usual: {{ one.usual }})</span>
{%- endif %}
</td></tr>
{% endfor %}
</table>
{% endif %}
<h2>What was looked at</h2>
<table>
{% for one in looked %}
<tr><th>{{ one.name }}</th><td class="{{ one.colour }}">{{ "" if one.findings else one.state }}
{%- for found in one.findings %}
{{ found.what }} [<a href="#{{ found.id }}">{{ found.id }}</a>]{{ "" if loop.last else ", " }}
{%- endfor %}
</td>
<td class="dim">{{ one.for }}</td></tr>
{% endfor %}
</table>
{% if charts %}
<h2>Course</h2>
{{ charts }}
{% endif %}
{% if modules %}
<h2>Forward time of modules</h2>
<p class="dim">A step's mean in one process. A module's time holds that of the modules
in it. On a GPU it is the time to start the work.</p>
<table>
{% for one in modules %}
<tr><td>{{ one.name }}</td><td class="number">{{ one.ms }} ms</td>
<td class="bar"><span style="width:{{ one.width }}%"></span></td></tr>
{% endfor %}
</table>
{% endif %}
</body>
</html>
""".lstrip()


def cleaned(value):
    """A value as the page shows it: a text without what moves or hides other text."""
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return printable(value) if is_text else value


def chart_of(points, title, note):
    """The chart of (step, value) pairs; a value that isn't finite is null in them."""
    values = [math.inf if value is None or value != value else value for _, value in points]
    return Chart(title, [Line("", values, steps=[step for step, _ in points])], note=note)


def page(report):
    """The HTML of a report. Raises ImportError without jinja2."""
    import jinja2
    from markupsafe import Markup

    made = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=cleaned,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    series = report.get("series") or {}
    norm = "before clipping" if series.get("before clipping") else "of matrices, by samples"
    charts = [
        chart_of(series.get(name) or [], title, norm if name == "gradient norm" else note)
        for name, title, note in PLOTS
    ]
    modules = series.get("modules") or []
    most = max([seconds for _, seconds in modules] or [0]) or 1
    looked = []
    for name in OBSERVATIONS:
        state = report["observations"].get(name) or {"state": NOT_LOOKED}
        mine = [one for one in report["findings"] if one["kind"] in OBSERVATIONS[name]]
        colour = GREEN.get(state["state"], "dim")
        if mine:
            colour = min((one["level"] for one in mine), key=list(COLOURS).index)
            colour = COLOURS[colour]
        told = state.get("why") or state["state"]
        if state.get("partly"):
            told = f"{told}, not looked at: {state['partly']}"
        looked.append(
            {
                "name": name,
                "colour": colour,
                "state": told,
                "findings": mine,
                "for": ", ".join(OBSERVATIONS[name]),
            }
        )
    return made.from_string(TEMPLATE).render(
        report=report,
        colour=GREEN.get(report["verdict"], "dim"),
        colours=COLOURS,
        links={
            one["id"]: HOME + one["page"]
            for one in report["findings"]
            if isinstance(one.get("page"), str) and PLACE.fullmatch(one["page"])
        },
        facts=in_order(report.get("facts") or []),
        looked=looked,
        charts=Markup(draw_charts(charts)),
        style=Markup(STYLE),
        modules=[
            {"name": name, "ms": f"{1000 * seconds:.3g}", "width": f"{100 * seconds / most:.1f}"}
            for name, seconds in modules
        ],
    )


# ---- sources.py
# Which state of its code a program was started from, where git knows it.

# It reads: neither does it write the index anew, nor start anything else.
GIT = (
    "git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "diff.autoRefreshIndex=false",
)  # fmt: skip
DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index", "HEAD")
MOST_GIT = 5  # seconds of one question


def asked_git(folder, *words):
    """What git says about a folder; None where it says nothing."""
    try:
        done = subprocess.run(
            [*GIT, "-C", folder, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=MOST_GIT,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None


def of_code(program):
    """The commit of the folder that a program lies in, and what of it was changed since.

    `program` are the words that start it. Files that git doesn't know aren't looked at.
    """
    files = [word for word in program if word.endswith(".py") and os.path.isfile(word)]
    path = os.path.realpath(files[0]) if files else os.path.join(os.getcwd(), "")
    folder, name = os.path.split(path)
    commit = asked_git(folder, "rev-parse", "HEAD")
    changes = asked_git(folder, *DIFF) if commit else None
    if not commit or changes is None:
        return []
    commit = commit.decode("ascii", "replace").strip()
    count = sum(line.startswith(b"diff --git ") for line in changes.splitlines())
    text = f"commit {commit[:10]} of the program's folder"
    known = hashlib.sha256(changes).hexdigest()[:10] if changes else ""
    if changes:
        text += f", {count_of(count, 'file')} changed since (changes {known})"
    else:
        text += ", no file of it changed since"
    lacks = name and asked_git(folder, "ls-files", "--error-unmatch", "--", name) is None
    text += "; the program's own file isn't in it" if lacks else ""
    return [fact("in force/commit", text, commit=commit, changes=known, lacks=bool(lacks))]


# ---- program.py

FORM = 1
LEAST_ROWS = 64  # of a rank, below which they aren't compared with those of others
MOST_SHARED = 0.5  # of a rank's rows
MOST_ADVICE = 100  # tokens of a check or a fix on the page; --json has it whole


def parse(argv):
    """The options and the program's command. Ends with 2 on wrong usage."""
    own, program = argv, []
    if "--" in argv:
        place = argv.index("--")
        own, program = argv[:place], argv[place + 1 :]
    parser = argparse.ArgumentParser(
        prog="probe.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="probe.py [--steps N] [--json FILE] [--page FILE] -- PROGRAM ARGS ...",
    )
    parser.add_argument("--steps", type=int, default=30, help="optimizer steps to look at (30)")
    parser.add_argument("--json", metavar="FILE", help="write the findings into this file")
    parser.add_argument("--beside", type=json.loads, default={}, help="its further fields, as JSON")
    parser.add_argument("--page", metavar="FILE", help="write an HTML page into this file")
    parser.add_argument(
        "--compare",
        metavar="FILE",
        help="tell what differs from a --json file, such as versions and commit",
    )
    parser.add_argument("--prepare", metavar="FOLDER", help="put the probe into this folder")
    parser.add_argument("--report", metavar="FOLDER", help="say what was seen from this folder")
    parser.add_argument("--quiet", action="store_true", help="print no findings")
    options = parser.parse_args(own)
    if options.steps < 1:
        parser.error("--steps must be 1 or more")
    if options.prepare or options.report:
        return options, None
    if not program:
        parser.error("no program; give it after --, as in: probe.py -- train.py --epochs 1")
    return options, command(program, parser)


def command(program, parser):
    """The command that starts the program."""
    first = program[0]
    if first.endswith(".py") and os.path.isfile(first):
        return [sys.executable, *program]
    if shutil.which(first):
        return program
    parser.error(f"{first}: no such file or command; give a Python file or a command")
    return None


def environment(folder, steps):
    """The environment of the program: this one, with the folder first on PYTHONPATH."""
    own = dict(os.environ)
    held = own.get("PYTHONPATH")
    own["PYTHONPATH"] = folder + (os.pathsep + held if held else "")
    own["RGT_PROBE_STEPS"] = str(steps)
    return own


def prepare(folder):
    """Put into a folder what the program's processes import from it."""
    os.makedirs(folder, exist_ok=True)
    shutil.copyfile(os.path.abspath(__file__), os.path.join(folder, "_rgt_probe.py"))
    with open(os.path.join(folder, "sitecustomize.py"), "w", encoding="utf-8") as handle:
        handle.write(SITE)


def run(program, folder, steps):
    """Run the program to its end. Returns its exit code, or the negative number of a signal.

    Without a folder, or where nothing can be put there, it runs without the probe.
    """
    own = None
    if folder:
        try:
            prepare(folder)
            own = environment(folder, steps)
            with open(os.path.join(folder, "code.json"), "w", encoding="utf-8") as handle:
                json.dump({"facts": attempt(of_code, program, otherwise=[])}, handle)
        except OSError as error:
            complain(f"probe: not looked at: {folder} can't be written ({error.strerror})")
    try:
        child = subprocess.Popen(program, env=own)
    except OSError as error:
        complain(f"error: {program[0]} can't be started ({error.strerror}); give another program")
        return 126
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the child too
    for name in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, _: child.send_signal(number))
    return child.wait()


def read(folder, pattern):
    """The JSON files of one kind that the program's processes wrote."""
    found = []
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), pattern))):
        try:
            with open(path, encoding="utf-8") as handle:
                found.append(json.load(handle))
        except (OSError, ValueError):
            continue
    return found


def same_random_numbers(workers):
    """Findings where workers of one trainer began in the same state of a generator they used."""
    by_trainer = {}
    for one in workers:
        by_trainer.setdefault(one["trainer"], []).append(one)
    for _, group in sorted(by_trainer.items()):
        for path in sorted({path for one in group for path in one["rows"][0]}):
            starts = {}
            for one in sorted(group, key=lambda one: one["time"]):
                before, after = one["rows"][0].get(path, (None, None))
                if before and after and before != after:
                    # Equal at the end too: a generator that is seeded for each sample isn't.
                    starts.setdefault((before, after), []).append(one["worker"])
            shared = [ids for ids in starts.values() if len(set(ids)) > 1]
            if shared:
                ids = sorted(set(shared[0]))
                return [
                    dict(
                        finding(
                            "workers share random numbers",
                            0,
                            "{} began in the same state in workers {} and was used there".format(
                                path, ", ".join(map(str, ids[:8]))
                            ),
                            generator=path,
                            workers=ids[:64],
                        ),
                        rank=None,
                    )
                ]
    return []


def same_batches(reports):
    """A finding where ranks that exchange gradients trained on the same batches."""
    orders = [(r["rank"], r["batches"]) for r in reports if r.get("spread") and r.get("batches")]
    ranks = {}
    for rank, order in orders:
        if len(order) >= 3 and len(set(order)) >= 3:
            ranks.setdefault(tuple(order[:3]), set()).add(rank)
    for group in ranks.values():
        if len(group) > 1:
            told = ", ".join(map(str, sorted(group)[:8]))
            return [
                dict(
                    finding(
                        "ranks share data",
                        1,
                        f"ranks {told} trained on the same batches in the same order, under "
                        "DistributedDataParallel",
                        level=WRONG,
                        ranks=sorted(group),
                    ),
                    rank=min(group),
                )
            ]
    return same_rows(reports)


def same_rows(reports):
    """A finding where ranks that exchange gradients mostly trained on each other's rows.

    Of each rank, the rows of its first pass: up to one that came again, or the end of the epoch.
    """
    seen = {r["rank"]: set(r["rows"]) for r in reports if r.get("spread") and r.get("rows")}
    if len(seen) < 2 or min(map(len, seen.values())) < LEAST_ROWS:
        return []
    shared = {
        rank: len(rows & set().union(*(seen[other] for other in seen if other != rank))) / len(rows)
        for rank, rows in seen.items()
    }
    least = min(shared, key=shared.__getitem__)
    if shared[least] < MOST_SHARED:
        return []
    return [
        dict(
            finding(
                "ranks share data",
                1,
                f"of the first {len(seen[least]):,} rows of rank {least}, "
                f"{shared[least]:.0%} were trained on by another rank too, in other batches",
                ranks=sorted(seen),
                shared=round(shared[least], 3),
            ),
            rank=least,
        )
    ]


def same_files(reports):
    """A finding where several ranks of one machine wrote a file of one name."""
    writers = {}
    for report in reports:
        for path in report.get("saved", []):
            writers.setdefault((report.get("host"), path), set()).add(report["rank"])
    shared = [sorted(ranks) for ranks in writers.values() if len(ranks) > 1]
    if not shared:
        return []
    told = ", ".join(map(str, shared[0][:8]))
    return [
        dict(
            finding(
                "ranks write one file",
                0,
                f"torch.save wrote {len(shared)} file{'s' if len(shared) > 1 else ''} from each "
                f"of the ranks {told}, under one name on one machine",
                ranks=shared[0],
                files=len(shared),
            ),
            rank=shared[0][0],
        )
    ]


def drifting(reports):
    """A finding where ranks that DDP keeps equal have other weights after the same step."""
    by_step = {}
    for report in reports:
        for steps, told in (report.get("weights") or {}).items():
            by_step.setdefault(int(steps), {})[report["rank"]] = (told, report.get("host"))
    for steps, told in sorted(by_step.items()):
        if len({weights for weights, _ in told.values()}) > 1:
            ranks = sorted(told)
            # Two kinds of machine may round in two ways.
            beside = len(set(told.values())) > len({host for _, host in told.values()})
            return [
                dict(
                    finding(
                        "ranks drift apart",
                        steps,
                        f"after step {steps} the weights of ranks "
                        f"{', '.join(map(str, ranks[:8]))} aren't all equal; samples of each "
                        "weight were compared",
                        level=None if beside else HINT,
                        ranks=ranks,
                    ),
                    rank=ranks[0],
                )
            ]
    return []


def compared(reports):
    """Why the weights of ranks weren't compared with each other, or an empty text."""
    if len(reports) < 2:
        return "one process"
    steps = [set(report.get("weights") or {}) for report in reports]
    if len({report["rank"] for report in reports}) < 2:
        return "one rank"
    return "" if set.intersection(*steps) else "the weights of the ranks weren't compared"


def is_report(one):
    """Whether something that was read is what a process writes."""
    needed = {"rank": int, "pid": int, "steps": int, "findings": list, "observations": dict}
    if not isinstance(one, dict) or not all(isinstance(one.get(k), t) for k, t in needed.items()):
        return False
    named = all(
        isinstance(f, dict) and f.get("kind") in KINDS and f.get("level") in LEVELS
        for f in one["findings"]
    )
    return named and all(isinstance(state, dict) for state in one["observations"].values())


def state_of_part(name, reports, every):
    """What is told about one part: found, sound, or why it wasn't looked at."""
    states = [report["observations"].get(name) or {"state": NOT_LOOKED} for report in reports]
    kept = {}
    partly = sorted({state["partly"] for state in states if state.get("partly")})
    if partly:
        kept["partly"] = "; ".join(partly[:3])
    if any(one["kind"] in OBSERVATIONS[name] for one in every):
        return {"state": FOUND, **kept}
    broken = [state for state in states if state.get("broken")]
    missing = [state for state in states if state["state"] == NOT_LOOKED]
    if broken or len(missing) == len(states):
        why = [state.get("why") for state in broken or missing]
        told = {"state": NOT_LOOKED, "why": (why or ["no process took an optimizer step"])[0]}
        return {**told, **({"broken": True} if broken else {})}
    if name == "ranks" and compared(reports):
        return {"state": NOT_LOOKED, "why": compared(reports)}
    return {"state": SOUND, **kept}


def merged(reports, workers, code):
    """One report of all processes."""
    reports = [report for report in reports if is_report(report)]
    found = {}
    for one in [f for report in reports for f in report["findings"]]:
        held = found.setdefault((one["kind"], one["id"]), dict(one, ranks=[]))
        held["ranks"] = sorted({*held["ranks"], one["rank"]})
        held["level"] = min(held["level"], one["level"], key=LEVELS.index)
    every = list(found.values())
    for look, told in (
        (same_random_numbers, workers),
        (same_batches, reports),
        (same_files, reports),
        (drifting, reports),
    ):
        for one in attempt(look, told) or ():
            every.append(dict(one, ranks=(one["numbers"] or {}).get("ranks") or []))
    every.sort(key=lambda one: (LEVELS.index(one["level"]), list(KINDS).index(one["kind"])))
    broken = {"state": NOT_LOOKED, "why": "the probe failed", "broken": True}
    looked = {
        name: attempt(state_of_part, name, reports, every, otherwise=broken)
        for name in OBSERVATIONS
    }
    levels = {one["level"] for one in every}
    verdict = WRONG if WRONG in levels else SUSPICIOUS if HINT in levels else SOUND
    if verdict == SOUND and all(state["state"] == NOT_LOOKED for state in looked.values()):
        verdict = NOT_LOOKED
    # Of rank 0, or of the process that went furthest on it.
    first = min(reports, key=lambda one: (one["rank"], -one["steps"]), default={})
    return {
        "form": FORM,
        "verdict": verdict,
        "exit": code,
        "program": first.get("program") or "",
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "steps": max([report["steps"] for report in reports] or [0]),
        "processes": [
            {key: report.get(key) for key in ("rank", "pid", "steps", "torch", "python")}
            for report in reports
        ],
        "findings": every,
        "observations": looked,
        "facts": facts_in(first),
        "series": first.get("series") or {},
    }


def facts_in(report):
    """The facts of one process's report, those that aren't facts left out."""
    return [
        one
        for one in report.get("facts") or []
        if isinstance(one, dict)
        and one.get("about") in TOPICS
        and all(isinstance(one.get(key), str) for key in ("name", "text", "usual"))
    ]


def shown(report, other=None):
    """The report as text. `other`: the report of another run, which this one is compared with."""
    count = len(report["processes"])
    lines = [
        "probe: {} ({} step{} of {} process{} looked at)".format(
            report["verdict"],
            report["steps"],
            "" if report["steps"] == 1 else "s",
            count,
            "" if count == 1 else "es",
        )
    ]
    if not count:
        lines[0] += ": no Python process of the program took a step of a torch optimizer"
    room = MOST_PAGE - tokens(lines[0])
    lines += of_findings(report["findings"], count > 1, room - LEAST_SHEET)
    room = MOST_PAGE - sum(map(tokens, lines))
    if other is not None:
        lines += compared_with(report, other, room)
    elif count:
        lines += sheet(report.get("facts") or [], unseen_in(report), room)
    return "\n".join(lines) + "\n"


def unseen_in(report):
    """What wasn't looked at, and why; where that is long, what alone."""
    told = {}
    for name, state in report["observations"].items():
        if state["state"] == NOT_LOOKED:
            told[name] = "{} ({})".format(name, state.get("why") or "no report")
        elif state.get("partly"):
            told[f"some of {name}"] = "{}, of it {}".format(name, state["partly"])
    whole = "; ".join(told.values())
    return whole if tokens(whole) <= MOST_UNSEEN - 5 else ", ".join(told) + " (why: see --json)"


def of_findings(findings, of_several, most):
    """The lines on findings, of about `most` tokens: first what each is, then what would be well
    and what to do, the worst first.
    """
    told, left, shortened, room = [], [], [], most
    for one in findings:
        lines = head_of(one, of_several)
        if sum(map(tokens, lines)) > room or left:
            left.append(one["id"])
            continue
        told.append((one, lines))
        room -= sum(map(tokens, lines))
    for one, lines in told:
        advised = [name for name in ("check", "fix") if one.get(name)] or ["do"]
        details = [("if all were well", one["well"]), *((name, one[name]) for name in advised)]
        for name, text in details if one["level"] != NOTE else ():
            kept = whole_sentences(text, min(MOST_ADVICE, room) - tokens(name + ":"))
            if kept:
                lines.append(f"    {name}: {kept}")
                room -= tokens(lines[-1])
            if kept != text and one["id"] not in shortened:
                shortened.append(one["id"])
    lines = [line for _, these in told for line in these]
    if shortened:
        lines.append(f"(more on {cut(', '.join(shortened), 20)}: in --json)")
    if left:
        lines.append(f"({len(left)} more found: {cut(', '.join(left), 20)}, in --json)")
    return lines


def head_of(one, of_several):
    """What was found and where; of what isn't a note, what was seen too."""
    ranks = one.get("ranks") or []
    where = "step {}".format(one["step"]) if one["step"] else "before step 1"
    if of_several and ranks:
        where += ", rank " + ", ".join(map(str, ranks[:8])) + (" …" if len(ranks) > 8 else "")
    lines = ["{} {}: {} [{}]".format(one["level"], where, one["what"], one["id"])]
    return lines + (["    seen: " + cut(one["evidence"])] if one["level"] != NOTE else [])


def compared_with(report, other, room):
    """The lines that tell how this run differs from another one, in `room` tokens."""
    kinds = [{one.get("kind") for one in run.get("findings") or []} for run in (report, other)]
    new, gone = sorted(map(str, kinds[0] - kinds[1])), sorted(map(str, kinds[1] - kinds[0]))
    lines = [f"found here and not there: {', '.join(new)}"] if new else []
    lines += [f"found there and not here: {', '.join(gone)}"] if gone else []
    lines = [cut(line) for line in lines]
    room -= sum(map(tokens, lines))
    lines += differences(report.get("facts") or [], facts_in(other), room)
    return lines or ["no fact differs from the other run's"]


def end_like(code):
    """End with the program's exit code, or by its signal."""
    if code < 0:
        if hasattr(signal, "SIGKILL") and -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        try:
            import resource

            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        except (ImportError, ValueError, OSError):
            pass
        os.kill(os.getpid(), -code)
    return code if code >= 0 else 128 - code


def nowhere():
    """A stream that takes everything."""
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def complain(text):
    """A line on the standard error, where there is one."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        sys.stderr = nowhere()  # at its end Python writes out what it holds


def attempt(make, *args, otherwise=None):
    """What a function gives. What breaks in the probe is told, and ends nothing."""
    try:
        return make(*args)
    except Exception as error:
        name = getattr(make, "__name__", "a part")
        complain(f"probe: {name} failed ({type(error).__name__}: {error}); the rest is told")
        return otherwise


def as_read(reports, code):
    """A report of no more than what the processes wrote, for when nothing else can be made."""
    every = [one for report in reports for one in report.get("findings") or []]
    levels = {one.get("level") for one in every}
    verdict = WRONG if WRONG in levels else SUSPICIOUS if HINT in levels else NOT_LOOKED
    return {
        "form": FORM,
        "verdict": verdict,
        "exit": code,
        "steps": max([report.get("steps") or 0 for report in reports] or [0]),
        "processes": [
            {key: report.get(key) for key in ("rank", "pid", "steps", "torch", "python")}
            for report in reports
        ],
        "findings": [dict(one, ranks=[one.get("rank")]) for one in every],
        "observations": {},
        "series": {},
    }  # fmt: skip


def plainly(report):
    """The findings as text, made of as little as can be."""
    lines = ["probe: {}".format(report.get("verdict"))]
    for one in report.get("findings") or []:
        words = [str(one.get(key)) for key in ("level", "id", "what", "evidence", "do")]
        lines.append("{} [{}] {}; seen: {}; do: {}".format(*words))
    return "\n".join(lines) + "\n"


def report_of(folder, code=None):
    """The report of what the program's processes wrote into a folder."""
    reports = attempt(read, folder, "rank-*.json", otherwise=[])
    workers = attempt(read, folder, "worker-*.json", otherwise=[])
    report = attempt(merged, reports, workers, code) or as_read(reports, code)
    for one in read(folder, "code.json") + attempt(looked_later, folder, otherwise=[]):
        report["facts"] = [*report.get("facts", []), *facts_in(one)]
    attempt(advise, report)
    return report


def looked_later(folder, most=MOST_SECONDS + 2 * MOST_WAITING):
    """What the looks at data sets wrote, once those that still run have ended.

    That one was ended from outside, or takes too long on a busy machine, is told.
    """
    until = time.monotonic() + most
    running = os.path.join(glob.escape(folder), "data-*.json.part")
    while any(map(lives, glob.glob(running))) and time.monotonic() < until:
        time.sleep(0.1)
    left = glob.glob(running)
    found = read(folder, "data-*.json")
    if any(not os.path.exists(path[: -len(".part")]) for path in left):
        found.append({"facts": [not_looked("the process that did it came to no end")]})
    return found


def lives(path):
    """Whether the process whose number a file holds is still there."""
    try:
        with open(path, encoding="ascii") as handle:
            os.kill(int(handle.read() or 0) or os.getpid(), 0)
        return True
    except (OSError, ValueError):
        return False


def advise(report):
    """Give each finding the check and the fix of its entry, or those of its kind."""
    known = advice({one["id"] for one in report["findings"]}, catalogue())
    for one in report["findings"]:
        one.update(known.get(one["id"], {}))
        one.update(ADVICE.get(one["kind"], {}))


def write(path, make, report):
    """Write a text about a report into a file. What prevents that is told, and ends nothing."""
    try:
        text = make(report)
        with open(path, "w", encoding="utf-8", errors="replace") as handle:
            handle.write(text)
    except OSError as error:
        complain(f"error: {path} can't be written ({error.strerror}); give another file")
    except ImportError:
        complain(f"error: {path}: a page needs jinja2; install it for {sys.executable}")
    except Exception as error:
        complain(f"error: {path} can't be made ({type(error).__name__}: {error})")


def as_json(report):
    """The report as JSON."""
    return json.dumps(report, indent=1, default=str) + "\n"


def other_run(path):
    """The report in a file that --json wrote; None if there is none, which is told."""
    try:
        with open(path, encoding="utf-8") as handle:
            report = json.load(handle)
        if isinstance(report.get("facts"), list):
            return report
        why = "it holds no facts"
    except (OSError, ValueError, AttributeError) as error:
        why = getattr(error, "strerror", None) or "it isn't a report"
    complain(f"error: {path}: {why}; give a file that --json wrote")
    return None


def tell(options, folder, code):
    """Print and write what was found."""
    report = report_of(folder, code) if folder else as_read([], code)
    if options.json:
        write(options.json, as_json, {**report, **options.beside})
    if options.page:
        write(options.page, page, report)
    if options.quiet:
        return
    other = attempt(other_run, options.compare) if options.compare else None
    text = attempt(shown, report, other) or plainly(report)
    try:
        sys.stdout.flush()
        stream = sys.stdout if options.report else sys.stderr
        stream.write(text)
        stream.flush()
    except (OSError, ValueError, AttributeError):
        sys.stdout = sys.stderr = nowhere()


def main(argv=None):
    """Run the program under the probe, print and write what was found."""
    options, program = parse(list(sys.argv[1:] if argv is None else argv))
    if options.prepare:
        prepare(options.prepare)
        return 0
    folder, code = options.report, 0
    if not folder:
        try:
            folder = tempfile.mkdtemp(prefix="rgt-probe-")
        except OSError as error:
            complain(f"probe: not looked at: no folder for its files ({error.strerror})")
    try:
        if not options.report:
            code = run(program, folder, options.steps)
        attempt(tell, options, folder, None if options.report else code)
    finally:
        if folder and not options.report:
            shutil.rmtree(folder, ignore_errors=True)
    return end_like(code)


if __name__ == "__main__":
    sys.exit(main())
