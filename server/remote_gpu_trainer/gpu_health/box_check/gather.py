"""Gather what the box shows: /proc and /sys, who holds the GPUs, disks, torch, amd-smi."""

import contextlib
import glob
import json
import os
import re
import shutil
import stat
import threading
import time

from ...logs.kernel.places import bdf, short
from . import data_text
from .commands import gather_log, gather_nvidia, read_text, run
from .files import CALL_SECONDS

# A small program for the job's own interpreter.
TORCH_PROBE = data_text("torch_probe.py")


def gather_system(proc):
    """Kernel, container, cards, device nodes and memory."""
    release = read_text("/proc/sys/kernel/osrelease") or ""
    proc["platform"] = {
        "kernel": release.strip(),
        "wsl": "microsoft" in release.lower() or os.path.exists("/dev/dxg"),
        "container": container(),
    }
    uptime = (read_text("/proc/uptime") or "").split()
    proc["uptime_s"] = float(uptime[0]) if uptime else None
    proc["nvidia_version"] = read_text("/proc/driver/nvidia/version")
    proc["module_version"] = (read_text("/sys/module/nvidia/version") or "").strip() or None
    proc["pci"] = []
    paths = sorted(glob.glob("/sys/bus/pci/devices/*"))
    for path in paths:
        kind, vendor = word_of(path + "/class"), word_of(path + "/vendor")
        graphics = kind.startswith(("0x0300", "0x0302", "0x0380", "0x1200"))
        if vendor in ("0x10de", "0x1002") and graphics:
            proc["pci"].append(card_at(path, kind, vendor))
    # NVSwitches are bridges; without nv-fabricmanager no CUDA program starts on a board that has
    # them.
    bridges = [path for path in paths if word_of(path + "/class").startswith("0x0680")]
    proc["nvswitches"] = len([path for path in bridges if word_of(path + "/vendor") == "0x10de"])
    if proc["nvswitches"]:
        names = [read_text(path) for path in glob.glob("/proc/[0-9]*/comm")]
        runs = any((name or "").startswith("nv-fabricmanage") for name in names)
        proc["fabricmanager"] = runs if read_text("/proc/1/comm") else None
    nodes = glob.glob("/dev/nvidia*") + glob.glob("/dev/kfd") + glob.glob("/dev/dxg")
    proc["dev"] = [{"path": path, "error": error} for path, error in map(node_at, sorted(nodes))]
    proc["dev"] = [node for node in proc["dev"] if node["error"] is not None]
    memory = dict(re.findall(r"^(\w+):\s+(\d+) kB", read_text("/proc/meminfo") or "", re.M))
    proc["memory"] = {
        "total_mib": int(memory.get("MemTotal", 0)) // 1024,
        "available_mib": int(memory.get("MemAvailable", 0)) // 1024,
    }
    proc["cgroup"] = memory_limit()
    proc["cpu"] = processors()
    proc["edac"] = {
        os.path.basename(path): {kind: count_in(f"{path}/{kind}_count") for kind in ("ce", "ue")}
        for path in sorted(glob.glob("/sys/devices/system/edac/mc/mc[0-9]*"))
    }


def count_in(path):
    """The whole number in a small file, or None."""
    text = word_of(path)
    return int(text) if text.isdigit() and len(text) < 20 else None


def processors():
    """How many processors there are, how many this process may use, and what they did.

    {count, allowed, times} and, where a cgroup limits them, {quota, periods, throttled}. `times`:
    ticks since the boot, as the first line of /proc/stat has them.
    """
    first = (read_text("/proc/stat") or "").split("\n", 1)[0].split()[1:]
    found = {"count": os.cpu_count(), "times": [int(word) for word in first if word.isdigit()]}
    with contextlib.suppress(OSError):
        found["allowed"] = len(os.sched_getaffinity(0))
    quota, _, period = word_of("/sys/fs/cgroup/cpu.max").partition(" ")
    statistics = read_text("/sys/fs/cgroup/cpu.stat") or ""
    if not period:
        quota, period = (
            word_of(f"/sys/fs/cgroup/cpu/cpu.cfs_{name}_us") for name in ("quota", "period")
        )
        statistics = read_text("/sys/fs/cgroup/cpu/cpu.stat") or ""
    if quota.isdigit() and period.isdigit() and int(period):
        counts = dict(re.findall(r"^nr_(periods|throttled) (\d{1,18})$", statistics, re.M))
        found.update(
            {name: int(count) for name, count in counts.items()}, quota=int(quota) / int(period)
        )
    return found


def word_of(path):
    """The text of a small file without the space around it; empty where it can't be read."""
    return (read_text(path) or "").strip()


def card_at(path, kind, vendor):
    """Return what sysfs shows of a card."""
    card = {"bdf": os.path.basename(path), "vendor": vendor, "class": kind}
    above = os.path.realpath(path).split("/")[:-1]  # …/pci0000:00/0000:00:03.0/0000:03:00.0
    card["behind"] = [name for name in above if bdf(name)]
    try:
        card["driver"] = os.path.basename(os.readlink(path + "/driver"))
    except OSError:
        card["driver"] = ""
    if os.path.exists(path + "/physfn"):
        card["virtual_function"] = True
    names = ["current_link_width", "max_link_width", "current_link_speed", "max_link_speed"]
    if vendor == "0x1002":
        names += ["mem_info_vram_total", "mem_info_vram_used", "product_name"]
        counts = glob.glob(path + "/ras/*_err_count")
        card["ras"] = {os.path.basename(item): word_of(item) for item in counts}
    card.update((name, word_of(path + "/" + name)) for name in names)
    return card


def node_at(path):
    """-> (the path, why the node can't be used, or ""). None for what is no device node."""
    try:
        if not stat.S_ISCHR(os.stat(path).st_mode):
            return path, None
        if path == "/dev/nvidiactl":
            # Opening a node fails with EPERM if the container's device list lacks it. The control
            # node wakes no GPU.
            os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as failed:
        return path, failed.strerror or str(failed)
    return path, ""


def memory_limit():
    """Return the container's memory limit and how much is in use, in MiB, by cgroup v2 or v1."""
    for folder, limit, used in (
        ("/sys/fs/cgroup/", "memory.max", "memory.current"),
        ("/sys/fs/cgroup/memory/", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        text = word_of(folder + limit)
        if text.isdigit() and int(text) < 1 << 60:
            statistics = read_text(folder + "memory.stat") or ""
            cache = re.search(r"^(?:total_)?inactive_file (\d+)", statistics, re.M)
            kept = int(word_of(folder + used) or 0) - int(cache.group(1) if cache else 0)
            return {"limit_mib": int(text) >> 20, "used_mib": max(0, kept) >> 20}
    return {}


def container():
    """The kind of container that this is, or an empty text."""
    if os.path.exists("/.dockerenv"):
        return "docker"
    if os.path.exists("/run/.containerenv"):
        return "podman"
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    if re.search(r"docker|kubepods|containerd|lxc", read_text("/proc/1/cgroup") or ""):
        return "container"
    return container_by_traces()


def container_by_traces():
    """Recognize a container without the usual marks: pods of containerd and CRI-O, LXC, nspawn.

    They have none under cgroup v2, or if one enters them over ssh.
    """
    named = (read_text("/run/systemd/container") or "").strip()
    made = re.search(
        r"(?:^|\0)(?:container=([^\0]+)|KUBERNETES_SERVICE_HOST=)",
        read_text("/proc/1/environ") or "",
    )
    if named:
        return short(named, 20)
    if made:
        return short(made.group(1) or "kubernetes", 20)
    # 1023 999 0:84 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/containerd/…
    # A host without disks may have such a root as well.
    root = re.search(
        r"^\S+ \S+ \S+ \S+ / .* - overlay .*", read_text("/proc/self/mountinfo") or "", re.M
    )
    if root and (
        re.search(r"docker|containerd|containers/storage|crio|enroot|kubelet", root.group(0))
        or (read_text("/proc/1/comm") or "").strip() not in ("systemd", "init")
    ):
        return "container"
    return ""


def minor_of(place):
    """Return (N of /dev/nvidiaN, whether the driver leaves the card out).

    `place` is as sysfs writes it. N is None if the driver's folder doesn't show it.
    """
    text = read_text(f"/proc/driver/nvidia/gpus/{place}/information") or ""
    match = re.search(r"Device Minor:\s+(\d{1,4})", text)
    left_out = re.search(r"(?:Excluded|Blacklisted):\s+Yes", text)
    return int(match.group(1)) if match else None, bool(left_out)


def gather_nodes(proc):
    """Find the cards that this process may use: Slurm and containers may give it only some.

    access() asks the device cgroup. Unlike open(), it wakes no GPU.
    """
    listed = glob.glob("/proc/driver/nvidia/gpus/*/information")
    for card in proc.get("pci", []):
        if card.get("driver") == "nvidia" and listed:
            card["minor"], left_out = minor_of(card["bdf"])
            node = "/dev/nvidia{}".format(card["minor"])
            if card["minor"] is None:
                card["node"] = "hidden"
            elif left_out:
                card["node"] = "excluded"
            elif not os.path.exists(node):
                card["node"] = "absent"
            else:
                card["node"] = "open" if os.access(node, os.R_OK | os.W_OK) else "denied"


def gather_disks(paths, into, by_user=False):
    """Size and free space of each path. `by_user`: the user named the paths."""
    for path in paths:
        into[path] = None  # stays None when statvfs never comes back: a dead mount
        try:
            got = os.statvfs(path)
            into[path] = {
                "total_mib": got.f_blocks * got.f_frsize >> 20,
                "free_mib": got.f_bavail * got.f_frsize >> 20,
                "inodes": got.f_files,
                "inodes_free": got.f_favail,
                "read_only": bool(got.f_flag & 1),
                "id": str(os.stat(path).st_dev),
                **({"asked": True} if by_user else {}),
            }
        except OSError as error:
            into[path] = {"error": error.strerror or str(error)}


def gather_holders(proc):
    """Find the processes that hold GPU device nodes.

    It sees only its own pid namespace, and other users' processes only as root.
    """
    holders, hidden = [], 0
    for path in glob.glob("/proc/[0-9]*"):
        pid, nodes = os.path.basename(path), set()
        try:
            for item in os.listdir(path + "/fd"):
                try:
                    target = os.readlink(path + "/fd/" + item)
                except OSError:
                    continue
                if re.match(r"/dev/(nvidia\d+|kfd|dri/renderD\d+)$", target):
                    nodes.add(target)
        except PermissionError:
            hidden += 1
            continue
        except OSError:
            continue
        if nodes and int(pid) != os.getpid():
            status = read_text(path + "/status") or ""
            letter = re.search(r"^State:\s+(\w)", status, re.M)
            name = re.search(r"^Name:\s+(.*)", status, re.M)
            holders.append(
                {
                    "pid": int(pid),
                    "state": letter.group(1) if letter else "?",
                    "name": short(name.group(1) if name else "?", 40),
                    "devices": sorted(nodes),
                }
            )
    proc["holders"], proc["hidden_processes"] = holders[:200], hidden


def gather_torch(proc, runner, python):
    """Run the torch probe in the job's interpreter."""
    got = runner([python, "-c", TORCH_PROBE], 40.0)
    line = [part for part in got["text"].splitlines() if part.startswith("GPU_HEALTH ")]
    try:
        proc["torch"] = json.loads(line[-1][11:])
    except (IndexError, ValueError):
        proc["torch"] = {
            "error": "timed out" if got["timed_out"] else short(got["text"] or "no answer"),
            "failed": True,
        }
    proc["torch"]["python"] = python


def gather_amd(record, runner, limit):
    """Run amd-smi, if it is installed."""
    tool = shutil.which("amd-smi")
    if not tool:
        return
    for name, arguments in (
        ("amd-metric.json", ["metric", "--json"]),
        ("amd-bad-pages.json", ["bad-pages", "--json"]),
    ):
        got = runner([tool] + arguments, limit)
        record["files"][name] = got.pop("text")
        record["exit"][name] = got
        if got["timed_out"]:
            return


def gather(runner=run, python=None, paths=(), limit=CALL_SECONDS):
    """Return the record: {files, exit, proc, live}. Nothing that it starts stays behind."""
    began = time.monotonic()
    record = {"files": {}, "exit": {"_by": "gpu_health 1"}, "live": True}
    proc, disks = {}, {}
    real = []
    for path in list(paths) or ["/", "/tmp", os.path.expanduser("~"), "."]:
        try:
            path = os.path.abspath(path)  # doesn't ask the file system, which may be dead
        except OSError:
            continue  # the current folder was removed
        if path not in real:
            real.append(path)
    jobs = [
        (gather_log, (record, runner, limit)),
        (gather_system, (proc,)),
        (gather_holders, (proc,)),
        (gather_amd, (record, runner, limit)),
    ]
    # a thread for each path, so that a dead mount blocks no other
    jobs += [(gather_disks, ([path], disks, bool(paths))) for path in real]
    jobs.append((gather_disks, (["/dev/shm"], disks)))
    if python:
        jobs.append((gather_torch, (proc, runner, python)))
    threads, broken = [], []

    def guarded(target, arguments):
        try:
            target(*arguments)
        except Exception as error:  # a part that fails is reported, and the others go on
            broken.append(f"{target.__name__} ({short(error, 80)})")

    for job in jobs:
        name = job[0].__name__
        threads.append(threading.Thread(target=guarded, args=job, daemon=True, name=name))
        threads[-1].start()
    gather_nvidia(record, runner, limit)
    until, disks_until = time.monotonic() + (45.0 if python else 12.0), time.monotonic() + 3.0
    for thread in threads:
        end = disks_until if thread.name == "gather_disks" else until
        thread.join(max(0.0, end - time.monotonic()))
    calls = [got for name, got in record["exit"].items() if name not in ("_by", "dmesg.txt")]
    if not any(got.get("timed_out") for got in calls):  # a hung driver may hold its files too
        guarded(gather_nodes, (proc,))  # after nvidia-smi, which makes the nodes
    record["proc"] = dict(
        proc,
        disks=dict(disks),
        unfinished=broken + [thread.name for thread in threads if thread.is_alive()],
    )
    record["seconds"] = round(time.monotonic() - began, 3)
    return record
