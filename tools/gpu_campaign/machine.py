"""What the campaign runs on: the card, its driver, and the versions of the libraries."""

import json
import os
import platform
import subprocess
import sys

from apart import run

CARD = "name,driver_version,memory.total,compute_cap,pstate,mig.mode.current,ecc.mode.current"
ASK_TORCH = """
import importlib.metadata as metadata, json, torch
told = {"cuda": torch.version.cuda, "available": torch.cuda.is_available(), "cards": 0}
names = "torch torchvision transformers peft accelerate triton numpy pytest pytest-xdist"
for name in names.split():
    try:
        told[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        told[name] = None
if told["available"]:
    told["cards"] = torch.cuda.device_count()
    told["card"] = torch.cuda.get_device_name(0)
    told["capability"] = ".".join(map(str, torch.cuda.get_device_capability(0)))
    told["cudnn"] = torch.backends.cudnn.version()
    told["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
print(json.dumps(told))
"""
NO_TORCH = "not run: torch is not installed"
NO_CARD = "not run: no card"
NO_TIME = "not run: the time of this part was over"


def machine(env, clock):
    """Return a description of this machine as a dictionary of plain values."""
    asked = run([sys.executable, "-c", ASK_TORCH], env, min(90, clock.left()))
    try:
        versions = json.loads(asked["stdout"].strip().splitlines()[-1])
    except (ValueError, IndexError):
        versions = {"available": False, "cards": 0, "error": asked["stderr"][-600:]}
    query = ["nvidia-smi", f"--query-gpu={CARD}", "--format=csv,noheader"]
    smi = run(query, env, min(30, clock.left()))
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "nvidia_smi": smi["stdout"].strip().splitlines() if smi["rc"] == 0 else [],
        "versions": versions,
    }


def missing(box):
    """Return why a part that needs torch and a card isn't run here, "" where it can be."""
    if not box["versions"].get("torch"):
        return NO_TORCH
    return "" if box["versions"]["available"] else NO_CARD


def commit_of(root):
    """Return the commit of the tree, with "+" behind it where files differ; "" without git."""
    git = ["git", "-C", str(root)]
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True)
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True
        )
    except OSError:
        return ""
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")
