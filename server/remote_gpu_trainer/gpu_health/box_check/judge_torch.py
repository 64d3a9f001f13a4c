"""Judge what the box's torch can do with its cards.

`box` is a `box.ExaminedBox`, and a place is a PCI address. `add` is a `findings.Findings`:
add(gpu, name, *values) adds the finding `name`, with None for `gpu` if it is about the whole box.
"""

import re

from ...logs.kernel.places import short
from .text import as_dict, as_list


def judge_torch(box, add):
    """Judge the torch of the job's interpreter, and the small kernel that it ran on each GPU."""
    torch = as_dict(box.proc.get("torch"))
    if not torch:
        return
    if torch.get("failed") or ("error" in torch and "torch" not in torch):
        add(None, "no_torch", short(torch.get("python"), 60), torch.get("error"))
    elif not torch.get("available"):
        judge_torch_without_gpu(box, torch, add)
    for device in map(as_dict, as_list(torch.get("devices"))):
        if not device.get("ok"):
            judge_failed_kernel(box, torch, device, add)


def judge_torch_without_gpu(box, torch, add):
    """Add a finding for a torch whose torch.cuda.is_available() is False."""
    error = str(torch.get("error", ""))
    action = "CPU-only torch, hidden devices, or a broken driver: see the text"
    entry = ""
    # The NVIDIA driver on your system is too old (found version 11040). Please update …
    if "driver" in error and "old" in error:
        action = "install a torch for this driver, or take a box with a newer one"
        entry = "torch_driver"
    nodes = [str(as_dict(node).get("path")) for node in as_list(box.proc.get("dev"))]
    if "/dev/nvidia0" in nodes and "/dev/nvidia-uvm" not in nodes:
        error = "/dev/nvidia-uvm is missing, without which CUDA can't start"
        action = "load nvidia-uvm on the host (nvidia-modprobe -u), and start the container with it"
        entry = "no_runtime"
    name, cuda = short(torch.get("torch"), 40), torch.get("cuda")
    reason = short(error or "is_available() is False", 160)
    add(None, "torch_without_gpu", name, cuda, reason, do=(action,), entry=entry)


def judge_failed_kernel(box, torch, device, add):
    """Add a finding for a small kernel that failed or gave a wrong sum on one GPU."""
    error, index = str(device.get("error", "a wrong sum")), device.get("index")
    if "error" not in device and lacks_kernels(box, torch, index):
        error = "no kernel image for this card, only for " + " ".join(map(str, torch["archs"]))
    action, entry = "restart the job; then reset the GPU", ""
    # CUDA error: no kernel image is available for execution on the device
    if "no kernel image" in error:
        action, entry = "install a torch with kernels for this card", "arch"
    gpu = index if isinstance(index, int) else None
    add(gpu, "failed_kernel", short(error, 200), do=(action,), entry=entry)


def lacks_kernels(box, torch, index):
    """Whether a torch has no code for a GPU.

    Code for sm_80 runs on 8.0 to 8.9, PTX (compute_80) on all later cards too.
    """
    archs = " ".join(map(str, as_list(torch.get("archs"))))
    card = next((gpu.raw("compute_cap") or "" for gpu in box.gpus if gpu.index == index), "")
    known = re.match(r"(\d+)\.(\d)$", card)
    if not known or not archs or "compute_" in archs:
        return False
    major, minor = map(int, known.groups())
    numbers = [divmod(int(number), 10) for number in re.findall(r"\bsm_(\d+)", archs)]
    return not any(one == major and other <= minor for one, other in numbers)
