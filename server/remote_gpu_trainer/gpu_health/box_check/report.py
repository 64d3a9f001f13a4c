"""Judge a record: every finding, the verdict, and the cards in short, as one answer."""

import re

from ...logs.kernel.advice import RANK
from ...logs.kernel.places import short
from .box import amd_cards, nvidia_cards, parse
from .cards import HBM, sku_of
from .dcgm import judge_dcgm
from .expectations import judge_expectations
from .files import FILES
from .findings import Findings, renters_step, verdict
from .judge_amd import judge_amd
from .judge_box import (
    judge_agreement,
    judge_identity,
    judge_nvlink,
    judge_pace,
    judge_tools,
    judge_use,
)
from .judge_gpu import (
    judge_link,
    judge_lost,
    judge_memory,
    judge_modes,
    judge_readable,
    judge_speed,
    no_persistence,
)
from .judge_host import judge_system
from .judge_log import ended, judge_log
from .judge_torch import judge_torch
from .text import as_dict


def judge(record, expectations=None):
    """-> findings, worst first. `expectations`: what `expectations_of` gives."""
    box, add = parse(record), Findings()
    box.log_excused = any(what == "log" and not value for what, _, _, value in expectations or [])
    judge_tools(box, add)
    for gpu in box.gpus:
        if not judge_lost(box, gpu, add):
            judge_memory(gpu, add)
            judge_link(box, gpu, add)
            judge_speed(gpu, add)
            judge_modes(box, gpu, add)
            if gpu.seen & {"csv", "xml", "q", "table"}:
                judge_readable(box, gpu, add)
    judge_pace(box, add)
    judge_identity(box, add)
    judge_nvlink(box, add)
    judge_use(box, add)
    judge_log(box, add)
    judge_dcgm(box, add)
    judge_system(box, add)
    judge_torch(box, add)
    judge_amd(record, box, add)
    judge_agreement(box, add)
    judge_expectations(box, expectations or [], add)
    for text in box.problems[:20]:
        add(None, "damaged_output", text, key=text)
    say_once(box, add)
    return sorted(
        add.list,
        key=lambda finding: (RANK[finding["level"]], finding["gpu"] is None, str(finding["gpu"])),
    )


def say_once(box, add):
    """Say in one finding what the kernel hides from a container, which no renter can change."""
    if not box.container:
        return
    hidden = add.take_out("no_kernel_log", "denied_cell")
    texts = {}  # what can't be read -> the GPUs of which it can't
    for finding in hidden:
        text = re.split(r" can't be read|: \[", finding["evidence"])[0]
        texts.setdefault(text, []).append(finding["gpu"])
    said = [
        text if None in labels else "{} of GPU {}".format(text, ", ".join(map(str, labels)))
        for text, labels in texts.items()
    ]
    if said:
        level = min((finding["level"] for finding in hidden), key=RANK.__getitem__)
        add(None, "unseen_in_container", "; ".join(said), level=level)


def recognised(box):
    """What kind of place this is, in words."""
    where, out = as_dict(box.proc.get("platform")), []
    if where.get("container"):
        out.append("container ({})".format(short(where["container"], 20)))
    if box.foreign:
        count = len(nvidia_cards(box))
        out.append(f"{count - len(box.foreign)} of {count} NVIDIA cards are this job's")
    if where.get("wsl"):
        out.append("WSL")
    if any(gpu.vgpu for gpu in box.gpus):
        out.append("vGPU")
    if any("pass-through" in (gpu.raw("x.virtualization") or "").lower() for gpu in box.gpus):
        out.append("virtual machine with the GPU passed through")
    if any(gpu.mig for gpu in box.gpus):
        out.append("MIG")
    if amd_cards(box):
        out.append("AMD")
    # A finding only on data-centre cards: others just start some seconds later.
    if any(no_persistence(gpu) and not HBM.search(gpu.name) for gpu in box.gpus):
        out.append("persistence mode off (nvidia-smi -pm 1)")
    if ended(box):
        out.append("older faults, ended since: " + short(ended(box), 50))
    if not box.gpus and "AMD" not in out:
        out.append("no GPU seen")
    return out


def brief(box):
    """The cards in short: those that are alike as one item, with the list of their indexes."""
    out = []
    for gpu in box.gpus:
        sku, total = sku_of(gpu.name) or {}, gpu.number("memory.total")
        card = {
            "name": short(gpu.name, 60),
            "memory_mib": int(total) if total is not None else None,
            "bf16": sku.get("bf16"),
            "fp8": sku.get("fp8"),
            "p2p": sku.get("p2p"),
        }
        if gpu.links:
            card["nvlinks"] = len([1 for speed in gpu.links.values() if speed is not None])
        if gpu.mig:
            card["mig"] = [short(name, 20) for name in gpu.migs or []]
        out.append((gpu.label, card))
    for label, card in amd_cards(box):
        name = short(card.get("product_name") or "AMD", 60)
        out.append((label, {"name": name, "memory_mib": int(card["mem_info_vram_total"]) >> 20}))
    groups = []
    for label, card in out:
        same = next((group for group in groups if dict(card, gpu=group["gpu"]) == group), None)
        if same:
            same["gpu"].append(label)
        else:
            groups.append(dict({"gpu": [label]}, **card))
    return groups


def report(record, expectations=None, extra=()):
    """The whole answer as one object, as --json prints it. `extra`: findings from a load."""
    findings = judge(record, expectations) + list(extra)
    findings.sort(key=lambda finding: RANK[finding["level"]])
    box = parse(record)
    lacks = [name for name in FILES[:8] if name not in record["files"]]
    lacks = [name for name in lacks if name != "proc.json" or not box.proc]
    return {
        "verdict": verdict(findings),
        "findings": findings,
        "gpus": brief(box),
        "probe_seconds": record.get("seconds"),
        "driver": box.driver or None,
        "recognised": recognised(box),
        "not_in_capture": [] if box.recorded else lacks,
    }


def as_text(answer):
    """Findings first, worst first; then one line for each kind of card."""
    lines = ["verdict: {}".format(answer["verdict"]), *finding_lines(answer), *care_line(answer)]
    for card in answer["gpus"]:
        labels, name = ", ".join(map(str, card["gpu"])), card["name"] or "GPU"
        lines.append(f"{len(card['gpu'])} x {name}, {card['memory_mib']} MiB (GPU {labels})")
    return "\n".join(lines + about_lines(answer))


def finding_lines(answer):
    """Each finding with what is expected and what to do, worst first."""
    lines = []
    for finding in answer["findings"]:
        where = "box" if finding["gpu"] is None else f"GPU {finding['gpu']}"
        entry = f" [{finding['entry']}]" if finding["entry"] else ""
        lines.append(f"{finding['level']} {where}: {finding['evidence']}")
        lines.append(f"    expected: {finding['threshold']}")
        lines.append(f"    do: {finding['action']}{entry}")
    return lines


def care_line(answer):
    """What somebody who rents a box that needs care does with it, as a list of one line or none."""
    step = renters_step(answer["findings"]) if answer["verdict"] == "care" else ""
    return [step] if step else []


def about_lines(answer):
    """The driver, what kind of place this is, the time, and what a capture lacks."""
    about = ["driver {}".format(answer["driver"])] if answer["driver"] else []
    about += answer["recognised"]
    if answer["probe_seconds"] is not None:
        about.append("{:.1f} s".format(answer["probe_seconds"]))
    lines = [", ".join(about)] if about else []
    if answer["not_in_capture"]:
        lines.append("not in this capture: {}".format(", ".join(answer["not_in_capture"])))
    return lines


def card_lines(cards, findings):
    """One line a card: label, name, memory, worst finding. `cards`: as in the answer."""
    rows = []
    for card in cards:
        memory = "? MiB" if card.get("memory_mib") is None else f"{card['memory_mib']} MiB"
        for label in card["gpu"]:
            own = [finding for finding in findings if finding["gpu"] == label]
            more = f" (and {len(own) - 1} more)" if len(own) > 1 else ""
            said = f"{own[0]['level']}: {short(own[0]['evidence'], 70)}{more}" if own else "fit"
            rows.append((f"GPU {label}", card.get("name") or "GPU", memory, said))
    wide = [max(map(len, column)) for column in list(zip(*rows))[:3]]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, wide)), row[3]])
        for row in sorted(rows, key=lambda row: (len(row[0]), row[0]))
    ]


def as_terminal(answer, colour):
    """The verdict, one line a card, then the findings. `colour`: paint levels and verdicts."""
    lines = [answer["verdict"], *care_line(answer)]
    lines += card_lines(answer["gpus"], answer["findings"])
    lines += finding_lines(answer) + about_lines(answer)
    return "\n".join(map(painted, lines)) if colour else "\n".join(lines)


# Level or verdict -> its colour: 31 red, 32 green, 33 yellow
PAINT = {"fit": 32, "care": 33, "warn": 33, "unknown": 33, "unfit": 31, "fatal": 31, "degraded": 31}


def painted(line):
    """A line with the first level or verdict in it in colour."""
    return re.sub(
        r"^(?:fit|care|unfit|unknown)$|^(?:fatal|degraded|unknown|warn)(?= )"
        r"|(?<=  )(?:fit$|(?:fatal|degraded|unknown|warn)(?=: ))",
        lambda word: f"\033[1;{PAINT[word.group(0)]}m{word.group(0)}\033[0m",
        line,
        count=1,
    )
