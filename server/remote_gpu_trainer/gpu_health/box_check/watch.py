"""The watch (--watch): one JSON line per sample, and findings when they change.

One nvidia-smi runs in a loop; a sample starts no process.
"""

import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time

from ...logs.kernel.kernel_log import parse_log
from ...logs.kernel.log_rules import LOG_ACTION
from ...logs.kernel.places import bdf, short
from ...logs.kernel.xids import UNKNOWN_XID, XID, xid_words
from .commands import names_to_query, read_text, run
from .failures import RC_FAILURES, lost_handles, smi_failure
from .fields import CANON, REASONS, WATCH_FIELDS
from .files import CALL_SECONDS, LIMIT
from .findings import Findings
from .gather import gather_holders, minor_of
from .text import number, state

# Our limits: a waiting collective draws less than this share of the power limit. It takes three
# samples in a row, so that a pause between steps doesn't count.
STUCK_POWER, IDLE_SAMPLES = 0.3, 3


def watch_row(row):
    """Turn the cells of one GPU into numbers, None where the driver gives none."""
    mask = number(row.get("clocks_event_reasons.active", "N/A"))
    bits = REASONS + (("sw_power_cap", 0x4),)
    out = {
        "gpu": number(row.get("index", "N/A")),
        "throttle": [name for name, bit in bits if mask is not None and int(mask) & bit],
    }
    for name, field in (
        ("util", "utilization.gpu"),
        ("mem_util", "utilization.memory"),
        ("mem_mib", "memory.used"),
        ("mem_total_mib", "memory.total"),
        ("power_w", "power.draw"),
        ("limit_w", "power.limit"),
        ("temp_c", "temperature.gpu"),
        ("sm_mhz", "clocks.current.sm"),
        ("pcie_gen", "pcie.link.gen.gpucurrent"),
    ):
        out[name] = number(row.get(field, "N/A"))
    out["gpu"] = int(out["gpu"]) if out["gpu"] is not None else None
    out["lost"] = any(state(text) == "lost" for text in row.values())
    return out


def judge_sample(gpus, streaks, holders):
    """Judge one sample. Return (findings, {GPU: why it is idle}).

    `streaks` counts samples in a row, by GPU. `holders(gpu)`, called only for an idle GPU, says
    why it is idle.
    """
    add, why = Findings(), {}
    for label in gone_gpus(gpus, streaks):
        add(label, "gone_from_samples", label)
    for gpu in gpus:
        label = gpu["gpu"]
        streak = streaks[label]
        if gpu["lost"]:
            add(label, "lost_sample")
            continue
        hard = [name for name in gpu["throttle"] if name != "sw_power_cap"]
        if hard:
            add(label, "throttled_sample", ", ".join(hard), gpu["temp_c"])
        streak["stuck"] = streak["stuck"] + 1 if is_quiet(gpu) else 0
        streak["idle"] = streak["idle"] + 1 if gpu["util"] == 0 else 0
        if streak["stuck"] >= IDLE_SAMPLES:
            why[str(label)] = (
                "busy at idle power: its kernel waits, "
                "as in a collective that another rank never joined"
            )
            values = (gpu["util"], gpu["power_w"], gpu["limit_w"], streak["stuck"])
            add(label, "stuck_kernel", *values, expected=(STUCK_POWER,))
        if streak["idle"] >= IDLE_SAMPLES:
            why[str(label)] = holders(label)
    return add, why


def gone_gpus(gpus, streaks):
    """Count this sample in `streaks`. Return the GPUs that are missing in two samples in a row.

    `seen` counts the samples with a GPU. A single sample without it means nothing: when rows come
    late, one sample arrives as two.
    """
    most = max([streak["seen"] for streak in streaks.values()] or [0])
    present = [streaks.setdefault(gpu["gpu"], {"idle": 0, "stuck": 0, "seen": 0}) for gpu in gpus]
    most = max([most] + [streak["seen"] + 1 for streak in present])
    for streak in present:
        streak["seen"] = most  # all of a sample: whoever missed one has made up for it
    gone = [label for label, streak in streaks.items() if most - streak["seen"] >= 2]
    return sorted(label for label in gone if label is not None)


def is_quiet(gpu):
    """Whether a GPU says that it is busy, but moves no memory and draws little power."""
    draw, limit = gpu["power_w"], gpu["limit_w"]
    waits = (gpu["util"] or 0) >= 95 and (gpu["mem_util"] or 0) <= 5
    return waits and draw and limit and draw < STUCK_POWER * limit


def judge_end(words, code, places, sampled):
    """Judge the last output and the exit code of an nvidia-smi that ended by itself.

    `places`: place -> index of the GPUs seen before; `sampled`: how many samples there were.
    """
    add = Findings()
    for place, index, line in lost_handles(words):
        known = places.get(place, "")
        add(int(known) if known.isdigit() else place or index, "no_handle_at_end", line)
    failure = smi_failure(words)
    kind = failure[0] if failure else RC_FAILURES.get(code)
    # An nvidia-smi that never worked says nothing about the GPUs.
    if kind and sampled and not add.list:
        line = failure[1] if failure else f"nvidia-smi ended with {code}"
        add(None, "smi_" + kind, line, key="tool", entry="")
    return add


class Holders:
    """Says why a GPU is idle, from the state and the CPU time of the processes that hold it.

    Looks at the processes at most every 30 s. `nodes`: index -> N of /dev/nvidiaN, if the driver
    shows it. In a container with only some of the cards they differ.
    """

    def __init__(self, clock=time.monotonic):
        """`clock`: gives seconds."""
        self.clock, self.at, self.known, self.cpu, self.nodes = clock, None, [], {}, {}

    def __call__(self, gpu):
        """Why the GPU with this index is idle, in words."""
        now = self.clock()
        if self.at is None or now - self.at >= 30:
            proc = {}
            gather_holders(proc)
            seconds = now - self.at if self.at is not None else None
            self.at, self.known = now, proc["holders"]
            for holder in self.known:
                spent, old = cpu_seconds(holder["pid"]), self.cpu.get(holder["pid"])
                holder["cpu"] = None
                if spent is not None and old is not None and seconds:
                    holder["cpu"] = (spent - old) / seconds
                self.cpu[holder["pid"]] = spent
        node = f"/dev/nvidia{self.nodes.get(gpu, gpu)}"
        mine = [holder for holder in self.known if node in holder["devices"]]
        if not mine:
            return "no process of this container holds it"
        state_letter, process = mine[0]["state"], "process {}".format(mine[0]["pid"])
        if state_letter == "D":
            return process + " waits for a disk or a network file system (state D)"
        if state_letter in "ZT":
            return process + (" is dead" if state_letter == "Z" else " is stopped")
        if state_letter == "R" or (mine[0].get("cpu") or 0) > 0.7:
            return process + " works on the CPU: loading data, compiling, saving or evaluating"
        return process + " sleeps: it waits for workers, the network, a lock or another rank"


def cpu_seconds(pid):
    """CPU time that a process has used, or None."""
    fields = (read_text(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    if len(fields) <= 12:
        return None
    return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))


class RunningWatch:
    """The state of a watch between two reads."""

    def __init__(self, names, out):
        """`names`: the columns; `out`: where the lines go."""
        self.names, self.out = names, out
        self.rest, self.rows, self.streaks, self.holders = b"", [], {}, Holders()
        self.places = {}  # place -> index
        self.standing = {}  # the findings of the last sample
        self.sampled, self.worst = 0, 0
        # `words` and `stray` hold lines that are no row: before the last sample, and since then.
        # `code` is the exit code of nvidia-smi.
        self.words, self.stray, self.code = "", "", None

    def say(self, **values):
        """Print one JSON line with the time."""
        line = dict({"t": round(time.time(), 3)}, **values)
        self.out.write(json.dumps(line, separators=(",", ":")) + "\n")
        self.out.flush()

    def take(self, chunk):
        """Sort what nvidia-smi printed into rows and stray lines."""
        *lines, self.rest = (self.rest + chunk)[-LIMIT:].split(b"\n")
        for line in lines:
            text = line.decode("utf-8", "replace")
            cells = [cell.strip() for cell in text.split(",")]
            if len(cells) == len(self.names):
                self.take_row({CANON[name]: cell for name, cell in zip(self.names, cells)})
            elif text.strip():
                self.stray = (self.stray + text[:300] + "\n")[-1000:]

    def take_row(self, row):
        """Keep the row of a GPU in place of an older one that no sample has taken yet."""
        place, index = bdf(row.get("pci.bus_id", "")), row.get("index", "")
        self.rows = [other for other in self.rows if other.get("index") != row.get("index")]
        self.rows.append(row)
        if place not in self.places and index.isdigit() and place:
            minor = minor_of(place + ".0")[0]
            self.holders.nodes[int(index)] = int(index) if minor is None else minor
        self.places[place] = index

    def sample(self, kmsg):
        """Judge the rows as one sample, and print it with the findings that began and ended."""
        gpus, self.rows = [watch_row(row) for row in self.rows], []
        self.sampled += 1
        add, why = judge_sample(gpus, self.streaks, self.holders)
        if self.code is None:
            self.words, self.stray = self.stray, ""
        for event in kernel_events(kmsg):
            self.add_event(event, add)
        now = {
            (finding["gpu"], finding["level"], finding["action"]): finding for finding in add.list
        }
        new = [finding for key, finding in now.items() if key not in self.standing]
        over = [finding["evidence"] for key, finding in self.standing.items() if key not in now]
        if any(finding["level"] in ("degraded", "fatal") for finding in new):
            self.worst = max(self.worst, 1)
        self.standing = now
        shown = [{key: value for key, value in gpu.items() if key != "lost"} for gpu in gpus]
        changes = {"findings": new, "over": over, "why": why}
        self.say(gpus=shown, **{key: value for key, value in changes.items() if value})

    def add_event(self, event, add):
        """Add a finding for a line of the kernel log."""
        kind, code, level = event["kind"], event["code"], event["level"]
        if kind == "iommu" and event["bdf"] not in self.places:
            return  # a network card, a controller
        label = self.places.get(event["bdf"], event["bdf"])
        gpu = int(label) if str(label).isdigit() else label
        action = xid_words(code, level, event["line"]) if code in XID else UNKNOWN_XID
        action = LOG_ACTION.get(kind) or action
        key = f"{kind} {code}"
        add(gpu, "watched_line", event["line"], level=level, do=(action,), key=key)

    def end(self, code):
        """Take note that nvidia-smi ended by itself. Return why, in words.

        The watch was to go on, so this is a failure even with exit code 0.
        """
        self.code = code
        self.stray = f"{self.words}\n{self.stray}\n{self.rest.decode('utf-8', 'replace')}\n"
        self.worst = self.worst or 2
        return f"nvidia-smi ended with {code}: {short(self.stray, 120)}"

    def last_words(self):
        """Print the findings about the end of nvidia-smi."""
        findings = judge_end(self.stray, self.code, self.places, self.sampled).list
        if findings:
            self.say(findings=findings)
            if any(finding["level"] in ("degraded", "fatal") for finding in findings):
                self.worst = 1


def watch(interval, pid=None, out=None):
    """Print until a signal, the end of `pid`, or the end of nvidia-smi.

    Returns the exit code: 1 if something was degraded or fatal, 2 if it can't watch or nvidia-smi
    ended first, otherwise 0.
    """
    smi = shutil.which("nvidia-smi")
    if not smi:
        sys.stderr.write("gpu_health.py: no nvidia-smi on the PATH; install the driver\n")
        return 2
    helped = run([smi, "--help-query-gpu"], CALL_SECONDS)
    known = set(re.findall(r'"([a-z][\w.]+)"', helped["text"]))
    names = names_to_query([(name, "") for name in WATCH_FIELDS], known)
    kmsg = end_of_kernel_log()
    process = start_sampling(smi, names, interval)
    ended = []
    for which in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(which, lambda which, _: ended.append(f"signal {int(which)}"))
    seen = RunningWatch(names, out or sys.stdout)
    seen.say(start={"interval_s": interval, "fields": names, "kernel_log": kmsg is not None})
    follow(seen, process, kmsg, interval, pid, ended)
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    if seen.code is not None:
        seen.last_words()
    seen.say(end=ended[0] if ended else "")
    return seen.worst


def end_of_kernel_log():
    """A handle at the end of /dev/kmsg, or None where it can't be read."""
    try:
        kmsg = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(kmsg, 0, os.SEEK_END)
    except OSError:
        return None
    return kmsg


def start_sampling(smi, names, interval):
    """Start one nvidia-smi that prints a row for each GPU every `interval` seconds."""
    query = ["--query-gpu=" + ",".join(names), "--format=csv,noheader,nounits"]
    return subprocess.Popen(
        [smi, *query, "-lms", str(max(100, int(interval * 1000)))],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def follow(seen, process, kmsg, interval, pid, ended):
    """Take what nvidia-smi prints until `ended` holds a reason to stop. Signals add one too."""
    assert process.stdout is not None  # PIPE was asked for
    handle, last = process.stdout.fileno(), time.monotonic()
    while not ended:
        try:
            ready = select.select([handle], [], [], 0.2 if seen.rows else min(1.0, interval))[0]
        except InterruptedError:
            continue
        chunk = os.read(handle, 65536) if ready else b""
        full = bool(seen.rows) and not chunk  # a pause, or the end: the sample is complete
        if ready and not chunk:
            ended.append(seen.end(process.wait()))
        if chunk:
            last = time.monotonic()
            seen.take(chunk)
        if full:
            seen.sample(kmsg)
        if pid and not ended and not os.path.exists(f"/proc/{pid}"):
            ended.append(f"process {pid} ended")
        if not ready and time.monotonic() - last > max(CALL_SECONDS, 3 * interval):
            silence = Findings()
            silence(None, "no_sample", time.monotonic() - last, expected=(interval,))
            seen.say(findings=silence.list)
            seen.worst = 1
            ended.append("nvidia-smi hangs")


def kernel_events(kmsg):
    """Return the events of the records that came since the last call."""
    lines = []
    while kmsg is not None and len(lines) < 1000:
        try:
            lines.append(os.read(kmsg, 8192).decode("utf-8", "replace").splitlines()[0])
        except (OSError, IndexError):
            break
    return [event for event in parse_log("\n".join(lines))["events"] if event["level"] != "ok"]
