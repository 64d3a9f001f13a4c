"""Judge AMD cards by what amd-smi or rocm-smi says of them.

`box` is a `box.ExaminedBox`, and a place is a PCI address. `add` is a `findings.Findings`:
add(gpu, name, *values) adds the finding `name`, with None for `gpu` if it is about the whole box.
"""

import json
import re

from ...logs.kernel.places import short
from .box import amd_cards
from .text import as_dict, as_list, number


def judge_amd(record, box, add):
    """Judge AMD cards by sysfs, and by amd-smi if it is installed."""
    cards = amd_cards(box)
    labels = [label for label, _ in cards]
    # The cards of which no output counts the uncorrectable errors.
    uncounted = {label for label, card in cards if not judge_amd_card(label, card, add)}
    for name in ("amd-metric.json", "amd-bad-pages.json"):
        text = record["files"].get(name)
        if text:
            uncounted -= judge_amd_output(name, text, labels, box, add)
    if uncounted and box.recorded:
        add(None, "amd_ecc_untold", len(uncounted), len(cards))


def judge_amd_card(label, card, add):
    """Judge a card's errors and link by sysfs -> whether it counts uncorrectable errors."""
    ras = sorted(as_dict(card.get("ras")).items())
    # ue: 0
    # ce: 3
    counts = [(name, text, re.search(r"ue: (\d{1,9})", str(text))) for name, text in ras]
    for name, text, count in counts:
        if count and int(count.group(1)):
            add(label, "amd_ras", name, text)
    now = number(str(card.get("current_link_width", "")))
    most = number(str(card.get("max_link_width", "")))
    if now and most and now < most:
        add(label, "narrow_amd_link", now, most)
    return any(count for _, _, count in counts)


def judge_amd_output(name, text, labels, box, add):
    """Judge an output of amd-smi -> the cards whose uncorrectable errors it counts, by label."""
    counted = set()
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        add(None, "unreadable_amd_output", name, key=name)
        return counted
    ended = (box.exit.get(name) or {"rc": 0})["rc"]
    for index, card in enumerate(as_list(answer) or as_list(as_dict(answer).get("gpu_data"))):
        label = labels[index] if index < len(labels) else index
        if name == "amd-bad-pages.json":
            judge_amd_pages(label, leaves_of(card), add)
        elif judge_amd_metric(label, leaves_of(card), add) and ended == 0:
            counted.add(label)
    return counted


def judge_amd_pages(label, leaves, add):
    """Judge the output of `amd-smi bad-pages` for one card."""
    for key, value in leaves:
        if key == "status" and str(value).upper() in ("PENDING", "UN_RES", "UNRESERVABLE"):
            add(label, "amd_bad_pages", short(value, 20))


def judge_amd_metric(label, leaves, add):
    """Judge `amd-smi metric` for one card -> whether it counts uncorrectable errors."""
    counts_errors = False
    for key, value in leaves:
        if isinstance(value, int) and "uncorrectable" in key:
            counts_errors = True
            if re.match(r"(total_)?uncorrectable(_count)?$", key) and value > 0:
                add(label, "amd_uncorrectable", key, value)
    return counts_errors


def leaves_of(value, key="", depth=0):
    """Return [(key, leaf)] of a JSON value, ten levels deep."""
    if depth < 10 and isinstance(value, dict):
        return [
            leaf
            for name, item in value.items()
            for leaf in leaves_of(item, key if name == "value" else str(name), depth + 1)
        ]
    if depth < 10 and isinstance(value, list):
        return [leaf for item in value[:1000] for leaf in leaves_of(item, key, depth + 1)]
    return [(key, value)]
