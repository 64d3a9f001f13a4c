"""Is this GPU box fit to train on? Python 3.8, standard library only.

It also runs as `ssh HOST python3 - < gpu_health.py`.

usage:
  gpu_health.py [--expect LIST] [--python PATH] [--path DIR ...] [--stress SECONDS]
                [--record DIR] [--json]
  gpu_health.py --replay DIR_OR_FILE [--expect LIST] [--json]
  gpu_health.py --watch SECONDS [--pid PID]

--expect gpus=8,name=H100,vram=80,nvlink=all,driver>=550,torch=cu130 compares the box with what
you pay for. `--expect help` lists the names. --record writes what was read, one file per command.
--replay judges such a folder, a part of one, or one raw file.
Exit 0: fit. Exit 1: care or unfit. Exit 2: unknown, or wrong usage.
A watch: exit 0 at its signal or the end of --pid, exit 1 if something was degraded or fatal, exit 2
if nvidia-smi ended before that.

The levels of the findings give the verdict (function `verdict`): unfit if one is fatal, otherwise
care if one is degraded, otherwise unknown if one is unknown. Warnings leave the box fit. Anything
that could not be read is a finding of level unknown, so the box is then never fit. A replayed
capture without `exit.json` (a raw output from elsewhere) is judged by what it has; what it lacks is
under `not_in_capture`.

Not covered: faults that show only under load (use --stress), the network between boxes, drivers of
makers other than NVIDIA and AMD.
"""

import argparse
import glob
import io
import json
import os
import re
import sys

from .box import amd_cards, nvidia_cards, parse
from .expectations import EXPECT, expectations_of, judge_expectations
from .gather import gather
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
from .judge_log import judge_log
from .judge_torch import judge_torch
from .stress import stress
from .tables import CANON, EXTRA_FILES, FILES, HBM, LIMIT, RANK, Findings, sku_of, verdict
from .text import HANDLE, as_dict, short, smi_failure
from .watch import watch


def save(record, folder):
    """Write a record, one file per command. Raises OSError."""
    os.makedirs(folder, exist_ok=True)
    files = dict(record["files"])
    files["proc.json"] = json.dumps(record.get("proc", {}), indent=1, sort_keys=True) + "\n"
    files["exit.json"] = json.dumps(record["exit"], indent=1, sort_keys=True) + "\n"
    for name, text in files.items():
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8", errors="replace", newline="") as handle:
            handle.write(text)


HEAD = 4000  # characters in which most outputs show what they are
MOST_LOOKED_AT = 200000  # characters, for what stands only further down


def first_cells(text):
    """The cells of the first line that isn't blank; none if there are fewer than three."""
    line = next((line for line in text[:HEAD].splitlines() if line.strip()), "")
    cells = [cell.strip() for cell in line.split(",")]
    return cells if len(cells) > 2 else []


def is_xml(text):
    """`nvidia-smi -q -x`."""
    head = text[:HEAD]
    return "<nvidia_smi_log" in head or (
        head.lstrip().startswith("<?xml") and "<gpu" in text[:100000]
    )


def is_query(text):
    """--query-gpu: two of its columns are known."""
    return sum(cell.split(" [")[0] in CANON for cell in first_cells(text)) >= 2


def is_topology(text):
    """`nvidia-smi topo -m`."""
    head = text[:HEAD]
    return re.search(r"^\s*GPU0\s", head, re.M) and re.search(r"^GPU0\s+.*X", head, re.M)


def is_kernel_log(text):
    """`dmesg`, or what journalctl and /dev/kmsg give."""
    return re.search(
        r"NVRM:|SXid|Xid \(|nvidia-(?:nvswitch|peermem)|\bkernel:|^\d+,\d+,\d+,[^;]*;"
        r"|^\[\s*\d+\.\d+\]|amdgpu",
        text[:MOST_LOOKED_AT],
        re.M,
    )


# Which output a raw text is, by its content; the first that fits.
KINDS_OF_OUTPUT = (
    ("nvidia-smi-q.xml", is_xml),
    ("q.txt", lambda text: "NVSMI LOG" in text[:HEAD]),
    # | N/A   41C    P0             69W /  700W |       0MiB /  81559MiB |      0%      Default |
    (
        "table.txt",
        lambda text: re.search(r"^\|\s.*\d+MiB\s*/\s*\d+MiB", text[:MOST_LOOKED_AT], re.M),
    ),
    (
        "retired.csv",
        lambda text: any(cell.startswith("retired_pages.address") for cell in first_cells(text)),
    ),
    ("apps.csv", lambda text: "pid" in first_cells(text)),
    ("nvidia-smi.csv", is_query),
    ("nvlink.txt", lambda text: re.search(r"^\s+Link \d+:", text, re.M)),
    # GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-…)
    ("nvidia-smi-list.txt", lambda text: re.match(r"\s*^GPU \d+: ", text[:HEAD], re.M)),
    ("topo.txt", is_topology),
    (
        "nvidia-smi.csv",
        lambda text: smi_failure(text[:HEAD]) or HANDLE.search(text[:HEAD]),
    ),
    # 3b:00.0 3D controller [0302]: NVIDIA Corporation …
    (
        "lspci.txt",
        lambda text: re.search(
            r"^(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] ", text[:HEAD], re.M
        ),
    ),
    ("version.txt", lambda text: re.search(r"^NVML version\s*:", text[:HEAD], re.M)),
    ("dmesg.txt", is_kernel_log),
    ("fabricmanager.txt", lambda text: "[tid " in text[:HEAD]),
)


def kind_of(text):
    """Which output a raw text is, by its content, for captures with other file names."""
    kinds = (kind for kind, fits in KINDS_OF_OUTPUT if fits(text))
    return next(kinds, "unrecognised")


def load(path):
    """A recorded folder, a folder with any part of one, or a single file -> the record.

    Raises OSError, or ValueError with what to do.
    """
    record = {"files": {}, "exit": {}, "live": False}
    folder = not os.path.isfile(path)
    names = sorted(glob.glob(os.path.join(glob.escape(path), "*"))) if folder else [path]
    if not names:
        raise ValueError(
            "{} has no files; pass a folder with some of {}".format(path, ", ".join(FILES))
        )
    known = FILES + EXTRA_FILES + ("amd-metric.json", "amd-bad-pages.json", "table.txt", "q.txt")
    for name in filter(os.path.isfile, names):
        with open(name, "rb") as handle:
            raw = handle.read(LIMIT + 1)
        text, base = raw[:LIMIT].decode("utf-8", "replace"), os.path.basename(name)
        slot = base if base in known else kind_of(text)
        if slot == "unrecognised" and folder:
            continue
        if slot in record["files"]:
            raise ValueError(
                f"{path}: two files are {slot}; pass a folder with the outputs of one box"
            )
        if len(raw) > LIMIT:
            record.setdefault("cut", []).append(slot)
        record["files"][slot] = text
    read_objects(record)
    return record


def read_objects(record):
    """Move exit.json and proc.json from the files of a record into its `exit` and `proc`."""
    for name, key in (("exit.json", "exit"), ("proc.json", "proc")):
        if name not in record["files"]:
            continue
        try:
            value = json.loads(record["files"].pop(name))
            if not isinstance(value, dict):
                raise ValueError("not an object")
            record[key] = value
        except (ValueError, RecursionError) as error:
            record.setdefault("unreadable", []).append(f"{name}: {short(error, 100)}")
            record[key] = {}


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
    judge_system(box, add)
    judge_torch(box, add)
    judge_amd(record, box, add)
    judge_agreement(box, add)
    judge_expectations(box, expectations or [], add)
    for text in box.problems[:20]:
        add(None, "damaged_output", text, key=text)
    return sorted(
        add.list,
        key=lambda finding: (RANK[finding["level"]], finding["gpu"] is None, str(finding["gpu"])),
    )


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
        out.append((label, {"name": "AMD", "memory_mib": int(card["mem_info_vram_total"]) >> 20}))
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
    lines = ["verdict: {}".format(answer["verdict"])]
    for finding in answer["findings"]:
        where = "box" if finding["gpu"] is None else f"GPU {finding['gpu']}"
        entry = f" [{finding['entry']}]" if finding["entry"] else ""
        lines.append(f"{finding['level']} {where}: {finding['evidence']}")
        lines.append(f"    expected: {finding['threshold']}")
        lines.append(f"    do: {finding['action']}{entry}")
    for finding in answer["gpus"]:
        labels, name = ", ".join(map(str, finding["gpu"])), finding["name"] or "GPU"
        lines.append(f"{len(finding['gpu'])} x {name}, {finding['memory_mib']} MiB (GPU {labels})")
    about = ["driver {}".format(answer["driver"])] if answer["driver"] else []
    about += answer["recognised"]
    if answer["probe_seconds"] is not None:
        about.append("{:.1f} s".format(answer["probe_seconds"]))
    if about:
        lines.append(", ".join(about))
    if answer["not_in_capture"]:
        lines.append("not in this capture: {}".format(", ".join(answer["not_in_capture"])))
    return "\n".join(lines)


EXIT = {"fit": 0, "care": 1, "unfit": 1, "unknown": 2}


class Usage(argparse.ArgumentParser):
    """A parser with errors of one line."""

    def error(self, message):
        """Say what is wrong, and exit with 2."""
        sys.stderr.write(f"gpu_health.py: {message}; see --help\n")
        raise SystemExit(2)


def parser_of_arguments():
    """The command line."""
    parser = Usage(
        prog="gpu_health.py",
        description=(__doc__ or "").split("\n\n")[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=(__doc__ or "").split("\n\n", 1)[-1],
    )
    parser.add_argument(
        "--expect",
        default="",
        metavar="LIST",
        help="what you pay for: gpus=8,name=H100,vram=80,nvlink=all,driver>=550,torch=cu130; "
        "'help' lists the names",
    )
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="the job's interpreter: checks its torch and CUDA, and runs a small kernel",
    )
    parser.add_argument(
        "--path",
        action="append",
        default=[],
        metavar="DIR",
        help="a path that the job writes to; repeatable (default: /, /tmp, home, here)",
    )
    parser.add_argument(
        "--stress",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="load the GPUs for this long; needs torch in --python",
    )
    parser.add_argument(
        "--watch",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="print a JSON line every SECONDS, until a signal or until --pid ends",
    )
    parser.add_argument(
        "--pid", type=int, metavar="PID", help="with --watch: stop when this process ends"
    )
    parser.add_argument("--record", metavar="DIR", help="write what was read, one file per command")
    parser.add_argument("--replay", metavar="DIR", help="judge a recording instead of this box")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def main(arguments=None):
    """Runs the command line -> the exit code."""
    options = parser_of_arguments().parse_args(arguments)
    if options.expect.strip() == "help":
        print("\n".join(f"{name:8} {text}" for name, (_, text) in sorted(EXPECT.items())))
        return 0
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    try:
        expectations = expectations_of(options.expect)
    except ValueError as error:
        sys.stderr.write(f"gpu_health.py: {error}\n")
        return 2
    if options.watch:
        return watch(options.watch, options.pid)
    try:
        record, measured, extra = record_of(options)
    except CantExamine as error:
        sys.stderr.write(f"gpu_health.py: {error}\n")
        return 2
    answer = report(record, expectations, extra)
    if measured is not None:
        answer["stress"] = measured
    print(json.dumps(answer, ensure_ascii=False) if options.json else as_text(answer))
    return EXIT[answer["verdict"]]


class CantExamine(Exception):
    """There is nothing to judge, or it can't be recorded."""


def record_of(options):
    """-> (the record, what a load measured or None, its findings). Raises CantExamine."""
    if options.replay:
        try:
            return load(options.replay), None, []
        except (OSError, ValueError) as error:
            raise CantExamine(f"can't replay: {error}") from None
    record, measured, extra = gather(python=options.python, paths=options.path), None, []
    if options.stress:
        measured, extra = stress(options.stress, options.python or sys.executable, record)
    if options.record:
        try:
            save(record, options.record)
        except OSError as error:
            raise CantExamine(f"can't record: {error}") from None
    return record, measured, extra


if __name__ == "__main__":
    try:
        try:
            exit_code = main()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has gone, for example `head`
        os._exit(141)
    sys.stderr.flush()
    os._exit(exit_code)  # a thread that waits for a dead mount must not delay the answer
