"""What the machine around a run knows: cards, kernel, memory, disks, connections, software."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any, Iterable, Mapping

from ...text.masking import shown
from .. import procs
from ..collectors import XID, Tool, kernel_log

SMI = 8.0  # seconds for nvidia-smi
MOST_LINES = 40  # of the kernel
MOST_SOCKETS = 200
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
_SHOWN = re.compile(
    r"(?:NCCL|TORCH|PYTORCH|CUDA|NVIDIA|GLOO|FI|UCX|RCCL|HIP|HSA|ROCR|OMP|MKL|OPENBLAS|ACCELERATE|DS"
    r"|FSDP|XLA|TRITON|MASTER|SLURM_(?:JOB|NNODES|NTASKS|PROCID|NODEID)|OMPI_COMM|RGT|HF_HUB_OFFLINE"
    r"|PYTHON|LD_|TMPDIR|RANK|LOCAL_|WORLD_SIZE|GROUP_RANK|TOKENIZERS_PARALLELISM|CONDA_PREFIX"
    r"|VIRTUAL_ENV)"
)
_HIDDEN = re.compile(r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH", re.I)
_PACKAGES = re.compile(
    r"((?:torch|nvidia_nccl|nvidia_cudnn|nvidia_cuda_runtime|triton|transformers|accelerate"
    r"|deepspeed|flash_attn|bitsandbytes|lightning|pytorch_lightning|megatron_core|datasets|numpy"
    r"|xformers|vllm|peft|trl)(?:_cu\d+)?)-([^-]+)\.dist-info$"
)
_STATES = {"01": "established", "02": "syn-sent", "04": "fin-wait", "05": "fin-wait",
           "06": "time-wait", "07": "closed", "08": "close-wait", "09": "last-ack",
           "0A": "listen"}  # fmt: skip


def cards() -> dict[str, Any]:
    """Return the cards by nvidia-smi, and the processes on them; why there is none."""
    said = _said(
        ["nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"]
    )
    if said is None:
        return {"cards": [], "why": _no_card()}
    rows = []
    for line in said.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) == len(_FIELDS):
            rows.append({name: shown(word, 80) for name, word in zip(_FIELDS, words)})
    told: dict[str, Any] = {"cards": rows}
    if not rows:
        return {**told, "why": shown(" ".join(said.split()), 160) or "nvidia-smi said nothing"}
    query = "--query-compute-apps=gpu_uuid,pid,used_gpu_memory"
    apps = _said(["nvidia-smi", query, "--format=csv,noheader,nounits"]) or ""
    split = [[word.strip() for word in line.split(",")] for line in apps.splitlines()]
    told["apps"] = [{"uuid": words[0], "pid": int(words[1]), "mb": words[2]}
                    for words in split if len(words) == 3 and words[1].isdigit()]  # fmt: skip
    return told


def _no_card() -> str:
    if os.path.exists("/proc/driver/nvidia/version"):
        return "nvidia-smi doesn't answer, though the driver is loaded"
    return "AMD cards aren't asked" if os.path.exists("/dev/kfd") else "no NVIDIA driver"


def _said(words: list[str]) -> str | None:
    """Return what a tool prints; None where it isn't there or doesn't end."""
    try:
        tool = Tool(words)
    except OSError:
        return None
    said = tool.answer(SMI)
    if said is None:
        tool.give_up()
    return said


def kernel(since: float) -> dict[str, Any]:
    """Return the kernel's lines about failures, and the Xids in them.

    `since`: seconds after the machine's start before which nothing counts.
    """
    said = kernel_log()
    if not said:
        return {"lines": [], "xids": [], "why": "the kernel's log can't be read"}
    lines = []
    for line in said.splitlines():
        stamp = _SECONDS.search(line)
        if _OF_A_RUN.search(line) and (stamp is None or int(stamp[1]) >= since - 5):
            lines.append(shown(line, 300))
    return {
        "lines": lines[-MOST_LINES:],
        "xids": [int(found[1]) for line in lines if (found := XID.search(line))],
    }


def uptime() -> float:
    """Return the seconds since the machine's start, 0 where nothing tells."""
    words = _text("/proc/uptime").split()
    return float(words[0]) if words else 0.0


def memory(pid: int, root: str = "/sys/fs/cgroup") -> dict[str, Any]:
    """Return the host's memory, and limit, use and kills of a process's own cgroup."""
    told: dict[str, Any] = {}
    for name, value in _pairs("/proc/meminfo", ":"):
        if name in ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree", "Shmem"):
            told[name] = int(value.split()[0]) // 1024
    for line in _text(f"/proc/{pid or 'self'}/cgroup").splitlines():
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if not controllers:
            told.update(_new_cgroup(root, path.strip("/")))
        elif "memory" in controllers.split(","):
            told.update(_old_cgroup(os.path.join(root, "memory"), path.strip("/")))
    return told


def _new_cgroup(root: str, path: str) -> dict[str, Any]:
    for folder in dict.fromkeys((os.path.join(root, path), root)):
        if os.path.exists(os.path.join(folder, "memory.events")):
            events = dict(_pairs(os.path.join(folder, "memory.events"), " "))
            return {
                "limit_mb": _mb(_text(os.path.join(folder, "memory.max"))),
                "used_mb": _mb(_text(os.path.join(folder, "memory.current"))),
                "kills": int(events.get("oom_kill") or 0),
                "at_limit": int(events.get("max") or 0),
            }
    return {}


def _old_cgroup(root: str, path: str) -> dict[str, Any]:
    for folder in dict.fromkeys((os.path.join(root, path), root)):
        if os.path.exists(os.path.join(folder, "memory.oom_control")):
            limit = _mb(_text(os.path.join(folder, "memory.limit_in_bytes")))
            control = dict(_pairs(os.path.join(folder, "memory.oom_control"), " "))
            return {
                "limit_mb": None if limit is None or limit > 1 << 30 else limit,
                "used_mb": _mb(_text(os.path.join(folder, "memory.usage_in_bytes"))),
                "kills": int(control.get("oom_kill") or 0),
            }
    return {}


def _mb(text: str) -> int | None:
    return int(text) >> 20 if text.strip().isdigit() else None


def _pairs(path: str, sign: str) -> Iterable[tuple[str, str]]:
    for line in _text(path).splitlines():
        name, _, value = line.partition(sign)
        yield name, value.strip()


def _text(path: str) -> str:
    with suppress(OSError), open(path, errors="replace") as file:
        return file.read(1 << 20)
    return ""


def disk(path: str) -> dict[str, Any]:
    """Return the free room and the free inodes where a folder lies. Raises OSError."""
    told = os.statvfs(path)
    total = told.f_blocks * told.f_frsize
    return {
        "free_mb": told.f_bavail * told.f_frsize >> 20,
        "total_mb": total >> 20,
        "free_inodes": told.f_favail if told.f_files else None,
        "read_only": bool(told.f_flag & os.ST_RDONLY),
    }


def mounts() -> list[tuple[str, str]]:
    """Return the mount points with their kinds, the longest first. It touches none of them."""
    found = []
    for line in _text("/proc/self/mounts").splitlines():
        words = line.split()
        if len(words) > 2:
            found.append((words[1].replace("\\040", " "), words[2]))
    return sorted(found, key=lambda one: -len(one[0]))


def mount_of(path: str, among: list[tuple[str, str]]) -> tuple[str, str]:
    """Return the mount point on which a path lies, and its kind."""
    for point, kind in among:
        if path == point or path.startswith(point.rstrip("/") + "/"):
            return point, kind
    return "/", ""


def sockets(members: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the TCP connections of members {name: pid}.

    `to`: the member at the other end, '' for one elsewhere. `unread`, `unsent`: bytes that wait.
    """
    owners: dict[str, str] = {}
    for name, pid in members.items():
        with suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    link = os.readlink(f"/proc/{pid}/fd/{number}")
                    if link.startswith("socket:["):
                        owners.setdefault(link[8:-1], name)
    rows, ends = [], {}
    for pid in list(members.values())[:1]:
        for kind in ("tcp", "tcp6"):
            for line in _text(f"/proc/{pid}/net/{kind}").splitlines()[1:]:
                words = line.split()
                if len(words) > 9 and words[9] in owners:
                    unsent, _, unread = words[4].partition(":")
                    one = (_end(words[1]), _end(words[2]))
                    ends[one] = owners[words[9]]
                    rows.append((one, words[3], int(unsent, 16), int(unread, 16)))
    told = []
    for (near, far), state, unsent, unread in rows:
        said = _STATES.get(state, state)
        if said == "listen":
            continue
        told.append({
            "of": ends[near, far], "to": ends.get((far, near), ""), "state": said,
            "unread": unread, "unsent": unsent, "peer": far,
        })  # fmt: skip
    return told[:MOST_SOCKETS]


def _end(text: str) -> str:
    """Return an end of a connection as the kernel writes it; IPv4 within IPv6 as IPv4."""
    address, _, port = text.partition(":")
    if len(address) == 32 and address.startswith("0000000000000000FFFF0000"):
        address = address[24:]
    if len(address) == 8:
        address = ".".join(str(int(address[at : at + 2], 16)) for at in (6, 4, 2, 0))
    return f"{address}:{int(port, 16)}"


def software(pid: int) -> dict[str, Any]:
    """Return versions and the variables of a process that matter, with masked values."""
    exe = ""
    with suppress(OSError):
        exe = os.readlink(f"/proc/{pid}/exe")
    driver = re.search(r"Module\s+([\d.]+)|x86_64\s+([\d.]+)", _text("/proc/driver/nvidia/version"))
    return {
        "python": exe,
        "kernel": os.uname().release,
        "driver": next((word for word in driver.groups() if word), "") if driver else "",
        "packages": _packages(pid),
        "variables": variables(procs.environ(pid)),
    }


def variables(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that decide how a program trains; no name of a secret, values masked."""
    told = {}
    for name in sorted(env):
        if _SHOWN.match(name) and not _HIDDEN.search(name):
            told[name] = shown(f"{name}={env[name]}", 300).partition("=")[2]
    return told


def _packages(pid: int) -> dict[str, str]:
    """Return the versions beside the libraries that a process has loaded."""
    places = re.findall(r"(/\S*?/(?:site|dist)-packages)/", _text(f"/proc/{pid}/maps"))
    found: dict[str, str] = {}
    for place in dict.fromkeys(places):
        with suppress(OSError):
            for name in os.listdir(place):
                if fits := _PACKAGES.match(name):
                    found.setdefault(fits[1], fits[2])
    return dict(sorted(found.items()))
