"""Run nvidia-smi and read the kernel log: every command once, with a time limit.

The calls of nvidia-smi run one after another. The first that hangs ends the series.
"""

import contextlib
import errno
import os
import re
import select
import shutil
import signal
import subprocess
import time

from ...logs.kernel.kernel_log import OLD, WORTH
from ...logs.kernel.places import short
from .failures import smi_failure
from .fields import FIELDS
from .files import LIMIT, LOGS, SERIES_SECONDS

APPS_QUERY = "--query-compute-apps=gpu_bus_id,gpu_uuid,pid,process_name,used_gpu_memory"


def run(command, seconds):
    """Return {text, rc, seconds, timed_out, cut}. Never waits for a process in state D."""
    began = time.monotonic()
    out: dict = {"text": "", "rc": None, "seconds": 0.0, "timed_out": False, "cut": False}
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # PCI_BUS_ID: so that torch counts GPUs as nvidia-smi does
            env=dict(os.environ, LC_ALL="C", CUDA_DEVICE_ORDER="PCI_BUS_ID"),
        )
    except OSError as error:
        out.update(rc=127 if isinstance(error, FileNotFoundError) else 126, text=str(error))
        return out
    pipe = process.stdout
    assert pipe is not None  # PIPE was asked for
    raw = read_pipe(pipe.fileno(), began + seconds, command[0] in LOGS, out)
    if not out["timed_out"] and not out["cut"]:
        try:
            out["rc"] = process.wait(max(0.1, began + seconds - time.monotonic()))
        except subprocess.TimeoutExpired:
            out["timed_out"] = True
    if out["timed_out"] or out["cut"]:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.poll()
    pipe.close()
    out["text"] = raw[:LIMIT].decode("utf-8", "replace")
    out["seconds"] = round(time.monotonic() - began, 3)
    return out


def read_pipe(handle, end, is_log, out):
    """Read until the other side closes, the clock shows `end`, or LIMIT bytes came.

    Sets `timed_out` in `out` at the end of the time. After LIMIT bytes it sets `cut`, but a log
    only loses its plain lines, and reading goes on.
    """
    chunks, size = [], 0
    while True:
        left = end - time.monotonic()
        if left <= 0 or not select.select([handle], [], [], left)[0]:
            out["timed_out"] = True
            break
        chunk = os.read(handle, 65536)
        if not chunk:
            break
        chunks.append(chunk)
        size += len(chunk)
        if size > LIMIT and is_log:
            chunks = [worthy(b"".join(chunks))]
            size = len(chunks[0])
        elif size > LIMIT:
            out["cut"] = True
            break
    return b"".join(chunks)


def read_text(path, most=65536):
    """The text of a small file, or None. Never blocks on a device."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return os.read(handle, most).decode("utf-8", "replace")
        finally:
            os.close(handle)
    except OSError:
        return None


def names_to_query(group, known):
    """Return the names of a group, each in the spelling that this driver knows.

    `known`: the names that the driver lists. If it lists none, no name is left out.
    """
    names = []
    for choices, _ in group:
        options = choices.split("|")
        hit = [name for name in options if name in known] if known else options[:1]
        if hit:
            names.append(hit[0])
    return names


class SmiSeries:
    """The calls of nvidia-smi, one after another, within SERIES_SECONDS. Fills `record`."""

    def __init__(self, smi, record, runner, limit):
        """`limit`: seconds for one call."""
        self.smi, self.record, self.runner, self.limit = smi, record, runner, limit
        self.began, self.longest = time.monotonic(), 0.0

    def ask(self, name, arguments):
        """Make one call. Return None if too little of the series is left for a call.

        `short` in the answer: the call had less than its full time, so a time-out is no hang.
        """
        ends = self.record["exit"]
        left = SERIES_SECONDS - (time.monotonic() - self.began)
        if left < max(1.0, self.longest):
            unasked: dict = {"rc": None, "seconds": 0.0, "timed_out": False, "cut": False}
            ends.setdefault(name, unasked)["unasked"] = True
            return None
        seconds = min(self.limit, left) if ends.get("nvidia-smi.csv") else left
        got = self.runner([self.smi, *arguments], seconds)
        self.longest = max(self.longest, got["seconds"])
        answer: dict = dict(got, limit_s=round(seconds, 1), short=seconds < self.limit)
        return answer

    def call(self, name, *arguments, fields=None):
        """Make one call for a file, after earlier ones. Return (the text, how the call ended)."""
        ends, got = self.record["exit"], self.ask(name, arguments)
        if got is None:
            return "", ends[name]
        text = got.pop("text")
        old = ends.get(name)
        self.record["files"][name] = self.record["files"].get(name, "") + text
        if old:
            got.update(
                rc=old["rc"] or got["rc"],
                seconds=round(old["seconds"] + got["seconds"], 3),
                cut=old["cut"] or got["cut"],
                asked=old.get("asked", []),
            )
        if fields:
            got["asked"] = got.get("asked", []) + ([fields] if not got["timed_out"] else [])
        ends[name] = got
        return text, got

    def query(self, names):
        """Query the fields that the driver doesn't refuse. Return (the text, how it ended)."""
        text, got = "", {}
        for _ in range(8):
            text, got = self.call(
                "nvidia-smi.csv", "--query-gpu=" + ",".join(names), "--format=csv", fields=names
            )
            # Field "fabric.state" is not a valid field to query.
            refused = re.search(r'Field "([\w.]+)" is not a valid field', text)
            if not refused or refused.group(1) not in names:
                break
            files, end = self.record["files"], self.record["exit"]["nvidia-smi.csv"]
            files["nvidia-smi.csv"] = files["nvidia-smi.csv"].replace(text, "")
            end["asked"].pop()
            end["rc"] = 0
            names = [name for name in names if name != refused.group(1)]
        return text, got

    def remapped_rows(self):
        """Query remapped rows, which driver 465 shows only here. Return whether the call hung."""
        fields = ["gpu_bus_id"]
        fields += ["remapped_rows." + field for field in ("correctable", "uncorrectable")]
        fields += ["remapped_rows." + field for field in ("pending", "failure")]
        query = ["--query-remapped-rows=" + ",".join(fields), "--format=csv"]
        got = self.ask("nvidia-smi.csv", query)
        end = self.record["exit"]["nvidia-smi.csv"]
        if got and got["timed_out"]:
            end.update(timed_out=True, limit_s=got["limit_s"], short=got["short"])
            return hung(got)
        if got and got["rc"] == 0 and got["text"].startswith("gpu_bus_id"):
            self.record["files"]["nvidia-smi.csv"] += got["text"]
            end["asked"].append(fields)
        return False


def hung(got):
    """Whether a call had its full time and didn't end."""
    return got["timed_out"] and not got.get("short")


def gather_nvidia(record, runner, limit):
    """Put everything that nvidia-smi shows into `record`."""
    smi = shutil.which("nvidia-smi")
    if not smi and os.path.exists("/usr/lib/wsl/lib/nvidia-smi"):  # WSL keeps it off the PATH
        smi = "/usr/lib/wsl/lib/nvidia-smi"
    if not smi:
        record["exit"]["nvidia-smi.csv"] = {"rc": 127, "timed_out": False}
        return
    series = SmiSeries(smi, record, runner, limit)
    text, got = series.call("fields.txt", "--help-query-gpu")
    if got["timed_out"]:
        return
    known = set(re.findall(r'"([a-z][\w.]+)"', text))
    known = known or set(re.findall(r"^([a-z][\w.]+)$", text, re.M))
    if got["rc"] != 0 or len(known) < 10:
        known = set()
    for group in FIELDS:
        text, got = series.query(names_to_query(group, known))
        if hung(got) or smi_failure(text):
            return
    if known and "remapped_rows.failure" not in known and series.remapped_rows():
        return
    for name, *arguments in (
        ("nvidia-smi-list.txt", "-L"),
        ("nvidia-smi-q.xml", "-q", "-x"),
        ("nvlink.txt", "nvlink", "-s"),
        ("topo.txt", "topo", "-m"),
        ("apps.csv", APPS_QUERY, "--format=csv"),
    ):
        if hung(series.call(name, *arguments)[1]):
            return


def worthy(raw):
    """Return a log without its plain lines.

    It keeps the first line, the last one (which may be incomplete), and the lines that are judged.
    If these are too many, it keeps the end.
    """
    lines = raw.split(b"\n")
    kept = [
        line
        for line in lines[1:-1]
        if WORTH.search(line.decode("latin-1")) or OLD.search(line.decode("latin-1"))
    ]
    out = b"\n".join(lines[:1] + kept + lines[-1:])
    return out if len(out) <= LIMIT // 2 else out[-(LIMIT // 2) :].split(b"\n", 1)[-1]


def log_start(text):
    """Seconds after boot of the first line that has a time, or None."""
    match = re.search(r"^(?:(?:<\d+>)?\[\s*(\d{1,10})\.\d+\]|\d+,\d+,(\d{1,16})\d{6},)", text, re.M)
    return int(match.group(1) or match.group(2)) if match else None


def with_journal(ring, journal):
    """Return the journal up to the first line of the ring buffer, then the ring buffer."""
    start, kept = log_start(ring), []
    for line in journal.splitlines(True):
        at = log_start(line)
        if start is not None and at is not None and at > start:
            break
        kept.append(line)
    text = "".join(kept) + (ring if start is not None else "")
    return (
        text
        if len(text) <= LIMIT
        else worthy(text.encode("utf-8", "replace")).decode("utf-8", "replace")
    )


def gather_log(record, runner, limit):
    """Read the kernel log: dmesg, else the journal of this boot, else /dev/kmsg.

    If the beginning of dmesg was overwritten, the journal is put before it.
    """
    tried, ring = [], None
    for command in (["dmesg"], ["journalctl", "-k", "-b", "--no-pager", "-o", "short-monotonic"]):
        got = runner(command, min(limit, 10.0))
        text = got.pop("text")
        if got["rc"] == 0 and text.strip() and "-- No entries --" not in text:
            text = text if ring is None else with_journal(ring, text)
            record["files"]["dmesg.txt"], record["exit"]["dmesg.txt"] = text, got
            start = log_start(text)
            if ring is not None or OLD.search(text) or (start is not None and start <= 300):
                return
            ring = text
        why = "timed out" if got["timed_out"] else short(text or "empty", 120)
        tried.append(f"{command[0]}: {why}")
    if ring is not None:
        return
    try:
        lines = ring_buffer()
    except (OSError, IndexError) as error:
        lines = []
        tried.append(f"/dev/kmsg: {error}")
    record["files"]["dmesg.txt"] = "\n".join(lines or tried) + "\n"
    record["exit"]["dmesg.txt"] = {"rc": 0 if lines else 1, "timed_out": False, "cut": False}


def ring_buffer():
    """Return the records of /dev/kmsg as lines. Raises OSError, IndexError."""
    handle, lines = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK), []
    try:
        while len(lines) < 50000:
            try:
                lines.append(os.read(handle, 8192).decode("utf-8", "replace").splitlines()[0])
            except OSError as error:
                # EPIPE: the record was overwritten meanwhile, the next one is there
                if error.errno != errno.EPIPE:
                    break
    finally:
        os.close(handle)
    return lines
