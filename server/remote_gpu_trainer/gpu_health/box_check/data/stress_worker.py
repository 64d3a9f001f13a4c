"""Loads all GPUs at once: matrix products, memory copies, all-reduce. Prints each stage as JSON.

The argument is JSON: {seconds, device: cuda or cpu, size, batch}; size and batch may be left out.
"""

import json
import sys
import time

config = json.loads(sys.argv[1])
kind, small = config.get("device", "cuda"), config.get("size")


def say(**values):
    """One line with a stage."""
    print("GPU_HEALTH " + json.dumps(values), flush=True)


say(stage="import")
import torch  # noqa: E402, after its stage is printed: the import may hang


def wait(device):
    """Wait until the device has finished what was started."""
    if kind == "cuda":
        torch.cuda.synchronize(device)


def wait_for_all(devices):
    """Wait for all devices."""
    for device in devices:
        wait(device)


def mark(result):
    """Return two checksums of the bits: their sum, and a sum weighted by place."""
    bits = result.contiguous().view(torch.int16).flatten().to(torch.int64)
    place = torch.arange(bits.numel(), device=bits.device, dtype=torch.int64) % 8191 + 1
    return [int(bits.sum().item()), int((bits * place).sum().item())]


def devices_to_load():
    """Return all visible GPUs. End the program without a GPU, or if one lacks free memory."""
    if kind != "cuda":
        return [torch.device("cpu")]
    devices = [torch.device(kind, index) for index in range(torch.cuda.device_count())]
    if not devices or not torch.cuda.is_available():
        say(stage="failed", error="torch sees no GPU")
        sys.exit(0)
    for device in devices:
        free = torch.cuda.mem_get_info(device)[0]
        if free < 3 << 30:
            reason = f"{free >> 20} MiB free on GPU {device.index}, the load needs 3 GiB"
            say(stage="failed", gpu=device.index, error=reason)
            sys.exit(0)
    return devices


def multiply_on(devices):
    """Compute the same product again and again, on all devices at once."""
    capable = kind != "cuda" or all(
        torch.cuda.get_device_capability(load)[0] >= 8 for load in devices
    )
    dtype, size = (torch.bfloat16 if capable else torch.float16), small or 8192
    seed = torch.Generator().manual_seed(20)
    left, right = ((torch.rand(size, size, generator=seed) - 0.5).to(dtype) for _ in range(2))
    say(stage="matmul", dtype=str(dtype), size=size)
    work = {}
    for device in devices:
        a, b = left.to(device), right.to(device)
        out = torch.empty(size, size, device=device, dtype=dtype)
        torch.mm(a, b, out=out)
        wait(device)
        work[device] = {"a": a, "b": b, "out": out, "first": mark(out)}
        work[device].update(other=0, runs=0, spent=0.0, checks=1)
    until, batch = time.monotonic() + config["seconds"] * 0.7, config.get("batch", 20)
    while time.monotonic() < until:
        events = {device: start_products(device, load, batch) for device, load in work.items()}
        for device, load in work.items():
            wait(device)
            around = events[device]
            if around:
                first, last = around
                load["spent"] += first.elapsed_time(last) / 1000
            load["runs"] += batch
            load["checks"] += 1
            load["other"] += mark(load["out"]) != load["first"]
    for device, load in work.items():
        say(
            stage="matmul done",
            gpu=device.index or 0,
            name=torch.cuda.get_device_name(device) if kind == "cuda" else "cpu",
            mark=load["first"],
            checks=load["checks"],
            differ=load["other"],
            tflops=round(2 * size**3 * load["runs"] / load["spent"] / 1e12, 2),
        )


def start_products(device, load, batch):
    """Start a batch of products. On a GPU, return the events around it."""
    if kind != "cuda":
        began = time.monotonic()
        for _ in range(batch):
            torch.mm(load["a"], load["b"], out=load["out"])
        load["spent"] += time.monotonic() - began
        return None
    with torch.cuda.device(device):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        events[0].record()
        for _ in range(batch):
            torch.mm(load["a"], load["b"], out=load["out"])
        events[1].record()
    return events


def copy_on(device, block):
    """Copy within the device's memory, and from the host to it."""
    say(stage="memory copy", gpu=device.index or 0)
    source, target = (torch.zeros(block, device=device, dtype=torch.float32) for _ in range(2))
    target.copy_(source)
    wait(device)
    began = time.monotonic()
    for _ in range(20):
        target.copy_(source)
    wait(device)
    copied = 2 * 20 * block * 4 / (time.monotonic() - began) / 1e9
    host = torch.zeros(block // 4, dtype=torch.float32)
    host = host.pin_memory() if kind == "cuda" else host
    target[: block // 4].copy_(host)
    wait(device)
    began = time.monotonic()
    for _ in range(10):
        target[: block // 4].copy_(host, non_blocking=True)
    wait(device)
    from_host = 10 * block / (time.monotonic() - began) / 1e9
    say(
        stage="copy done",
        gpu=device.index or 0,
        copy_gb_s=round(copied, 3),
        h2d_gb_s=round(from_host, 2),
    )


def reduce_on(devices, block):
    """Run an all-reduce over all GPUs, and check the sums."""
    say(stage="all-reduce")
    import torch.cuda.nccl

    count = len(devices)
    tensors = [
        torch.full((block // 4,), float(device.index + 1), device=device) for device in devices
    ]
    torch.cuda.nccl.all_reduce(tensors)
    wait_for_all(devices)
    want = float(sum(range(1, count + 1)))
    right = [bool((tensor == want).all().item()) for tensor in tensors]
    began = time.monotonic()
    for _ in range(10):
        torch.cuda.nccl.all_reduce(tensors)
    wait_for_all(devices)
    spent = time.monotonic() - began
    speed = 10 * block * 2 * (count - 1) / count / spent / 1e9
    say(stage="all-reduce done", right=right, bus_gb_s=round(speed, 1))


def main():
    """All stages, one after another."""
    devices, block = devices_to_load(), (small or 16384) ** 2
    multiply_on(devices)
    for device in devices:
        copy_on(device, block)
    if kind == "cuda" and len(devices) > 1:
        reduce_on(devices, block)
    say(stage="load done")


main()
