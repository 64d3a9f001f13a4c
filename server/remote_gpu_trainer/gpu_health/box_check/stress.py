"""Load all GPUs at once, as training does, and judge what torch reports.

Off by default. It needs torch on the box, and always runs on all visible GPUs.
"""

import json
import re
import shutil
import threading

from ...logs.kernel.places import clean, short
from . import data_text
from .box import parse
from .cards import PEAK_TFLOPS
from .commands import gather_log, run
from .failures import exit_of
from .fields import REASONS
from .findings import Findings
from .judge_log import judge_log
from .judge_numbers import judge_numbers
from .smi_outputs import parse_csv
from .text import as_dict, as_list, number, state, usual

# The programs that the job's own interpreter runs, and the one that runs both in one process.
STRESS_WORKER = data_text("stress_worker.py")
NUMBERS_WORKER = data_text("numbers_worker.py")
IN_TURN = data_text("in_turn.py")
HELD_MIB = 1024  # MiB in use above which a card isn't idle, whatever processes are shown
# GB/s of one lane: PCI-SIG line rates less their coding.
LANE = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.56}


def stress(seconds, python, record, device="cuda", size=None):
    """Load the GPUs. Return (what was measured, findings).

    It samples clocks and throttle reasons during the load, and reads the kernel log after it.
    """
    samples, stop = [], threading.Event()
    smi = shutil.which("nvidia-smi")
    fields = [
        "index",
        "temperature.gpu",
        "power.draw",
        "clocks.current.sm",
        "clocks_throttle_reasons.active",
    ]

    def sample():
        while not stop.wait(2.0):
            got = run([smi, "--query-gpu=" + ",".join(fields), "--format=csv"], 10.0)
            if got["timed_out"]:
                samples.append({"hung": True})
                return
            rows, _ = parse_csv(got["text"], [fields])
            samples.append({"rows": rows})

    if not any(end["timed_out"] for end in map(exit_of, record["exit"].values())) and smi:
        threading.Thread(target=sample, daemon=True).start()
    config = json.dumps({"seconds": seconds, "device": device, "size": size})
    programs = [STRESS_WORKER, NUMBERS_WORKER]
    got = run([python, "-c", IN_TURN, config, *programs], seconds * 2 + 90.0)
    stop.set()
    again = {"files": {}, "exit": {}}
    gather_log(again, run, 10.0)
    return judged_stress(got, samples, record, again["files"].get("dmesg.txt", ""))


def judged_stress(got, samples, record, log_after):
    """Judge the worker's answer, the samples and the later log: (what was measured, findings).

    Pure. `got`: what `run` returns. `record`: what was gathered before the load.
    """
    add, lines = Findings(), []
    for line in clean(got["text"]).splitlines():
        if line.startswith("GPU_HEALTH "):
            try:
                lines.append(as_dict(json.loads(line[11:])))
            except (ValueError, RecursionError):
                continue
    lines = [line for line in lines if isinstance(line.get("stage"), str)]
    products = [line for line in lines if line["stage"] == "matmul done"]
    products = [line for line in products if isinstance(line.get("tflops"), (int, float))]
    copies = [line for line in lines if line["stage"] == "copy done"]
    reduced = [line for line in lines if line["stage"] == "all-reduce done"]
    measured = {
        "matmul": [
            {key: line.get(key) for key in ("gpu", "name", "tflops", "checks", "differ")}
            for line in products
        ],
        "copy": [
            {key: line.get(key) for key in ("gpu", "copy_gb_s", "h2d_gb_s")} for line in copies
        ],
        "all_reduce_bus_gb_s": reduced[-1].get("bus_gb_s") if reduced else None,
        "dtype": next((line.get("dtype") for line in lines if line.get("dtype")), None),
    }
    judge_course(got, lines, add)
    judge_products(products, add)
    judge_copies(copies, parse(record), add)
    for line in reduced:
        for index, right in enumerate(as_list(line.get("right"))):
            if not right:
                add(index, "wrong_all_reduce", expected=(len(line["right"]),))
    measured["numbers"] = judge_numbers(lines, add)
    judge_load_samples(samples, add)
    judge_new_lines(record, log_after, add)
    return measured, add.list


def judge_course(got, lines, add):
    """Judge whether the load started and ended."""
    stages = [line["stage"] for line in lines]
    failed = next((line for line in lines if line["stage"] == "failed"), None)
    last = lines[-1] if lines else {}
    gpu, stage = last.get("gpu"), last.get("stage", "start")
    if failed:
        add(failed.get("gpu"), "stress_refused", short(failed.get("error")))
    elif got["timed_out"]:
        add(gpu, "stress_hung", short(stage, 40), entry="stuck" if stage == "all-reduce" else "")
    elif not stages or stages == ["import"]:
        add(None, "stress_no_answer", short(got["text"] or "the interpreter gave no answer", 200))
    elif stage != "end":
        add(gpu, "stress_ended", short(stage, 40), short(got["text"][-200:], 200))


def judge_products(products, add):
    """Compare the results and the speed of each GPU with its first ones and with its kind."""
    for product in products:
        if product.get("differ"):
            add(product.get("gpu"), "changing_product", product["differ"], product.get("checks"))
    for name in sorted({str(product.get("name")) for product in products}):
        alike = [product for product in products if str(product.get("name")) == name]
        marks = [json.dumps(product.get("mark")) for product in alike]
        common = usual(marks)
        for product, mark in zip(alike, marks):
            if common and mark != common and marks.count(common) > 1:
                add(product.get("gpu"), "odd_product", short(name, 60))
            elif len(marks) == 2 and marks[0] != marks[1]:
                add(None, "two_products", short(name, 60))
        peak = next((value for pattern, value in PEAK_TFLOPS if re.search(pattern, name)), None)
        median = sorted(product["tflops"] for product in alike)[len(alike) // 2]
        for product in alike:
            if peak and product["tflops"] < 0.5 * peak:
                add(product.get("gpu"), "slow_matmul", product["tflops"], expected=(peak,))
            elif len(alike) > 1 and product["tflops"] < 0.85 * median:
                add(product.get("gpu"), "slowest_matmul", product["tflops"], median)


def in_use(record):
    """What a card has that a load would disturb: (its label, what); None where none has anything.

    A rented container may not see the process that holds the memory.
    """
    for gpu in parse(record).gpus:
        if gpu.processes:
            process = gpu.processes[0]
            return gpu.label, f"{short(process['name'], 40)} (pid {process['pid']})"
        used = gpu.number("memory.used") or 0
        if used > HELD_MIB:
            return gpu.label, f"{used:.0f} MiB in use"
    return None


def judge_copies(copies, box, add):
    """Compare the speed of copies within each GPU with that of the others, and of copies from host
    memory with that of its PCIe link."""
    names = {gpu.label: gpu.raw("name") for gpu in box.gpus}
    for copy in copies:
        alike = [
            other["copy_gb_s"]
            for other in copies
            if names.get(other.get("gpu")) == names.get(copy.get("gpu"))
            and isinstance(other.get("copy_gb_s"), (int, float))
        ]
        median, speed = sorted(alike)[len(alike) // 2] if alike else 0, copy.get("copy_gb_s")
        if len(alike) > 1 and isinstance(speed, (int, float)) and speed < 0.85 * median:
            add(copy.get("gpu"), "slowest_memory", speed, median)
        gpu = next((gpu for gpu in box.gpus if gpu.label == copy.get("gpu")), None)
        width = gpu.number("pcie.link.width.current") if gpu else None
        generation = gpu.number("pcie.link.gen.max") if gpu else None
        best = LANE.get(int(generation), 0) * width if width and generation else 0
        speed = copy.get("h2d_gb_s")
        if best and isinstance(speed, (int, float)) and speed < 0.4 * best:
            add(copy.get("gpu"), "slow_host_copy", speed, expected=(best, generation, width))


def judge_load_samples(samples, add):
    """Judge throttle reasons and lost GPUs in the samples under load."""
    for item in samples:
        if item.get("hung"):
            add(None, "hung_under_load")
        for row in item.get("rows", []):
            mask = number(row.get("clocks_event_reasons.active", "N/A"))
            gpu = int(number(row.get("index", "N/A")) or 0)
            names = [name for name, bit in REASONS if mask is not None and int(mask) & bit]
            if names:
                add(gpu, "throttled_under_load", ", ".join(names))
            if any(state(text) == "lost" for text in row.values()):
                add(gpu, "lost_under_load")


def judge_new_lines(record, log_after, add):
    """Judge the lines that came into the kernel log during the load."""
    # Search for the last line: a ring buffer may have lost its beginning meanwhile.
    last = record["files"].get("dmesg.txt", "").rstrip("\n").rsplit("\n", 1)[-1]
    if not last or last not in log_after:
        return
    fresh = log_after[log_after.rindex(last) + len(last) :]
    if fresh.strip():
        box = parse(dict(record, files=dict(record["files"], **{"dmesg.txt": fresh})))
        box.recorded, box.exit = False, {}
        judge_log(box, add)
