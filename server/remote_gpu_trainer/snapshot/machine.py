"""What the machine around a run knows: cards, kernel, memory, disks, connections, software."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from ..text.masking import shown
from ..text.proc import read_environment, read_executable, read_open_files

SMI_LIMIT = 8.0  # seconds for nvidia-smi
KERNEL_LIMIT = 5.0  # seconds for dmesg
MOST_LINES = 40  # of the kernel
MOST_SOCKETS = 200
# NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.
_XID = re.compile(r"NVRM: Xid \([^)\n]{0,100}\): (\d{1,4})")
# Names of nvidia-smi --help-query-gpu that every driver knows: one unknown name spoils the answer.
_FIELDS = (
    "index", "uuid", "name", "utilization.gpu", "memory.used", "memory.total", "power.draw",
    "power.limit", "clocks.sm", "clocks.max.sm", "temperature.gpu",
)  # fmt: skip
# Memory cgroup out of memory: Killed process 1234 (python) total-vm:…
_OF_A_RUN = re.compile(
    r"NVRM: Xid|SXid|Killed process|oom-kill|blocked for more than|soft lockup|I/O error"
    r"|not responding|segfault at|general protection|fallen off the bus|Hardware Error"
    r"|amdgpu.{0,200}reset"
)
_SECONDS = re.compile(r"\[ *(\d+)\.\d+\]")
_SHOWN_VARIABLES = re.compile(
    r"(?:NCCL|TORCH|PYTORCH|CUDA|NVIDIA|GLOO|FI|UCX|RCCL|HIP|HSA|ROCR|OMP|MKL|OPENBLAS|ACCELERATE|DS"
    r"|FSDP|XLA|TRITON|MASTER|SLURM_(?:JOB|NNODES|NTASKS|PROCID|NODEID)|OMPI_COMM|RGT|HF_HUB_OFFLINE"
    r"|PYTHON|LD_|TMPDIR|RANK|LOCAL_|WORLD_SIZE|GROUP_RANK|TOKENIZERS_PARALLELISM|CONDA_PREFIX"
    r"|VIRTUAL_ENV)"
)
_HIDDEN_VARIABLES = re.compile(r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH", re.I)
_PACKAGE_FOLDER = re.compile(
    r"((?:torch|nvidia_nccl|nvidia_cudnn|nvidia_cuda_runtime|triton|transformers|accelerate"
    r"|deepspeed|flash_attn|bitsandbytes|lightning|pytorch_lightning|megatron_core|datasets|numpy"
    r"|xformers|vllm|peft|trl)(?:_cu\d+)?)-([^-]+)\.dist-info$"
)
_SOCKET_STATES = {"01": "established", "02": "syn-sent", "04": "fin-wait", "05": "fin-wait",
           "06": "time-wait", "07": "closed", "08": "close-wait", "09": "last-ack",
           "0A": "listen"}  # fmt: skip


def ask_cards() -> dict[str, Any]:
    """Return the cards by nvidia-smi, and the processes on them; why there is none."""
    options = ["--format=csv,noheader,nounits"]
    output = _run_tool(["nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", *options], SMI_LIMIT)
    if output is None:
        return {"cards": [], "why": _why_no_card()}
    rows = [[word.strip() for word in line.split(",")] for line in output.splitlines()]
    cards = [{name: shown(word, 80) for name, word in zip(_FIELDS, row)}
             for row in rows if len(row) == len(_FIELDS)]  # fmt: skip
    if not cards:
        return {
            "cards": [],
            "why": shown(" ".join(output.split()), 160) or "nvidia-smi said nothing",
        }
    query = "--query-compute-apps=gpu_uuid,pid,used_gpu_memory"
    output = _run_tool(["nvidia-smi", query, *options], SMI_LIMIT) or ""
    rows = [[word.strip() for word in line.split(",")] for line in output.splitlines()]
    apps = [{"uuid": row[0], "pid": int(row[1]), "mb": row[2]}
            for row in rows if len(row) == 3 and row[1].isdigit()]  # fmt: skip
    return {"cards": cards, "apps": apps}


def _why_no_card() -> str:
    if os.path.exists("/proc/driver/nvidia/version"):
        return "nvidia-smi doesn't answer, though the driver is loaded"
    return "AMD cards aren't asked" if os.path.exists("/dev/kfd") else "no NVIDIA driver"


def _run_tool(words: list[str], seconds: float) -> str | None:
    """Return what a tool prints; None where it isn't there or doesn't end."""
    null, environment = subprocess.DEVNULL, {**os.environ, "LC_ALL": "C"}
    try:
        child = subprocess.Popen(
            words,
            stdin=null,
            stdout=subprocess.PIPE,
            stderr=null,
            start_new_session=True,
            env=environment,
        )
        return child.communicate(timeout=seconds)[0].decode("utf-8", "replace")
    except OSError:
        return None
    except subprocess.TimeoutExpired:
        with suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        return None


def read_kernel_log(since: float) -> dict[str, Any]:
    """Return the kernel's lines about failures, and the Xids in them.

    `since`: seconds after the machine's start before which nothing counts.
    """
    log = _run_tool(["dmesg"], KERNEL_LIMIT)
    if not log:
        return {"lines": [], "xids": [], "why": "the kernel's log can't be read"}
    lines = []
    for line in log.splitlines():
        stamp = _SECONDS.search(line)
        if _OF_A_RUN.search(line) and (stamp is None or int(stamp[1]) >= since - 5):
            lines.append(shown(line, 300))
    xids = [int(match[1]) for match in map(_XID.search, lines) if match]
    return {"lines": lines[-MOST_LINES:], "xids": xids}


def read_uptime() -> float:
    """Return the seconds since the machine's start, 0 where nothing tells."""
    words = _read_file("/proc/uptime").split()
    return float(words[0]) if words else 0.0


def read_memory(pid: int, root: str = "/sys/fs/cgroup") -> dict[str, Any]:
    """Return the host's memory, and limit, use and kills of a process's own cgroup."""
    memory: dict[str, Any] = {}
    for name, value in _pairs("/proc/meminfo", ":"):
        if name in ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree", "Shmem"):
            memory[name] = int(value.split()[0]) // 1024
    for line in _read_file(f"/proc/{pid or 'self'}/cgroup").splitlines():
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if not controllers:
            memory.update(_new_cgroup(root, path.strip("/")))
        elif "memory" in controllers.split(","):
            memory.update(_old_cgroup(os.path.join(root, "memory"), path.strip("/")))
    return memory


def _new_cgroup(root: str, path: str) -> dict[str, Any]:
    for folder in dict.fromkeys((os.path.join(root, path), root)):
        if os.path.exists(os.path.join(folder, "memory.events")):
            events = dict(_pairs(os.path.join(folder, "memory.events"), " "))
            return {
                "limit_mb": _megabytes(_read_file(os.path.join(folder, "memory.max"))),
                "used_mb": _megabytes(_read_file(os.path.join(folder, "memory.current"))),
                "kills": int(events.get("oom_kill") or 0),
                "at_limit": int(events.get("max") or 0),
            }
    return {}


def _old_cgroup(root: str, path: str) -> dict[str, Any]:
    for folder in dict.fromkeys((os.path.join(root, path), root)):
        if os.path.exists(os.path.join(folder, "memory.oom_control")):
            limit = _megabytes(_read_file(os.path.join(folder, "memory.limit_in_bytes")))
            control = dict(_pairs(os.path.join(folder, "memory.oom_control"), " "))
            return {
                "limit_mb": None if limit is None or limit > 1 << 30 else limit,
                "used_mb": _megabytes(_read_file(os.path.join(folder, "memory.usage_in_bytes"))),
                "kills": int(control.get("oom_kill") or 0),
            }
    return {}


def _megabytes(text: str) -> int | None:
    return int(text) >> 20 if text.strip().isdigit() else None


def _pairs(path: str, sign: str) -> Iterable[tuple[str, str]]:
    for line in _read_file(path).splitlines():
        name, _, value = line.partition(sign)
        yield name, value.strip()


def _read_file(path: str) -> str:
    with suppress(OSError), open(path, errors="replace") as file:
        return file.read(1 << 20)
    return ""


def read_disk(path: str) -> dict[str, Any]:
    """Return the free room and the free inodes where a folder lies. Raises OSError."""
    status = os.statvfs(path)
    total = status.f_blocks * status.f_frsize
    return {
        "free_mb": status.f_bavail * status.f_frsize >> 20,
        "total_mb": total >> 20,
        "free_inodes": status.f_favail if status.f_files else None,
        "read_only": bool(status.f_flag & os.ST_RDONLY),
    }


def read_mounts() -> list[tuple[str, str]]:
    """Return the mount points with their kinds, the longest first. It touches none of them."""
    mounts = []
    for line in _read_file("/proc/self/mounts").splitlines():
        words = line.split()
        if len(words) > 2:
            mounts.append((words[1].replace("\\040", " "), words[2]))
    return sorted(mounts, key=lambda one: -len(one[0]))


def find_mount(path: str, among: list[tuple[str, str]]) -> tuple[str, str]:
    """Return the mount point on which a path lies, and its kind."""
    for point, kind in among:
        if path == point or path.startswith(point.rstrip("/") + "/"):
            return point, kind
    return "/", ""


def read_sockets(members: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the TCP connections of members {name: pid}.

    `to`: the member at the other end, '' for one elsewhere. `unread`, `unsent`: bytes that wait.
    """
    owners: dict[str, str] = {}
    for name, pid in members.items():
        for link in read_open_files(pid).values():
            if link.startswith("socket:["):
                owners.setdefault(link[8:-1], name)
    rows, ends = [], {}
    for pid in list(members.values())[:1]:
        for kind in ("tcp", "tcp6"):
            for line in _read_file(f"/proc/{pid}/net/{kind}").splitlines()[1:]:
                words = line.split()
                if len(words) > 9 and words[9] in owners:
                    unsent, _, unread = words[4].partition(":")
                    both_ends = (_parse_address(words[1]), _parse_address(words[2]))
                    ends[both_ends] = owners[words[9]]
                    rows.append((both_ends, words[3], int(unsent, 16), int(unread, 16)))
    sockets = []
    for (near, far), state, unsent, unread in rows:
        state_name = _SOCKET_STATES.get(state, state)
        if state_name == "listen":
            continue
        sockets.append({
            "of": ends[near, far], "to": ends.get((far, near), ""), "state": state_name,
            "unread": unread, "unsent": unsent, "peer": far,
        })  # fmt: skip
    return sockets[:MOST_SOCKETS]


def _parse_address(text: str) -> str:
    """Return an end of a connection as the kernel writes it; IPv4 within IPv6 as IPv4."""
    address, _, port = text.partition(":")
    if len(address) == 32 and address.startswith("0000000000000000FFFF0000"):
        address = address[24:]
    if len(address) == 8:
        address = ".".join(str(int(address[at : at + 2], 16)) for at in (6, 4, 2, 0))
    return f"{address}:{int(port, 16)}"


def read_software(pid: int) -> dict[str, Any]:
    """Return versions and the variables of a process that matter, with masked values."""
    driver = re.search(
        r"Module\s+([\d.]+)|x86_64\s+([\d.]+)", _read_file("/proc/driver/nvidia/version")
    )
    return {
        "python": read_executable(pid),
        "kernel": os.uname().release,
        "driver": next((word for word in driver.groups() if word), "") if driver else "",
        "packages": _list_packages(pid),
        "variables": choose_variables(read_environment(pid)),
    }


def choose_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that decide how a program trains; no name of a secret, values masked."""
    chosen = {}
    for name in sorted(env):
        if _SHOWN_VARIABLES.match(name) and not _HIDDEN_VARIABLES.search(name):
            chosen[name] = shown(f"{name}={env[name]}", 300).partition("=")[2]
    return chosen


def _list_packages(pid: int) -> dict[str, str]:
    """Return the versions beside the libraries that a process has loaded."""
    places = re.findall(r"(/\S*?/(?:site|dist)-packages)/", _read_file(f"/proc/{pid}/maps"))
    versions: dict[str, str] = {}
    for place in dict.fromkeys(places):
        with suppress(OSError):
            for name in os.listdir(place):
                if match := _PACKAGE_FOLDER.match(name):
                    versions.setdefault(match[1], match[2])
    return dict(sorted(versions.items()))
