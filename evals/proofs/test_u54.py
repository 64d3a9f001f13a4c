"""U54: memory is refused at the request, not taken away by a kill; the number in the message and a few limits tell why. Limits are set in a child only."""

import re
import subprocess
import sys

import pytest
import torch
from torch.utils.data import DataLoader

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and /proc")

REFUSED = """
import mmap, os, resource, sys, tempfile
import numpy as np
import torch

MIB = 1 << 20


def attempt(make):
    try:
        make()
        print("ok", flush=True)
    except (MemoryError, OSError, RuntimeError) as error:
        print(f"{type(error).__name__}: {error}".splitlines()[0], flush=True)


def size():
    return int(open("/proc/self/statm").read().split()[0]) * mmap.PAGESIZE


hard = resource.getrlimit(resource.RLIMIT_AS)[1]
requests = [
    lambda: torch.empty(256 * MIB, dtype=torch.uint8),
    lambda: np.empty((256, MIB), np.uint8),
    lambda: bytearray(256 * MIB),
    lambda: torch.UntypedStorage._new_shared(256 * MIB),
    lambda: mmap.mmap(-1, 256 * MIB),
]
if sys.argv[1] == "address space":
    resource.setrlimit(resource.RLIMIT_AS, (size() + 128 * MIB, hard))
    for request in requests:
        attempt(request)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    for request in requests:
        attempt(request)
elif sys.argv[1] == "mappings":
    most = int(open("/proc/sys/vm/max_map_count").read())
    held = []
    try:
        while len(held) <= most:  # neighbours with other rights are not merged
            held.append(mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE * (len(held) % 2)))
    except OSError as error:
        print(f"OSError: {error}", flush=True)
    mapped = sum(1 for line in open("/proc/self/maps"))
    small = [lambda: torch.UntypedStorage._new_shared(64), lambda: torch.zeros(10 << 20)]
    for request in small:
        attempt(request)
    while held:
        held.pop().close()
    for request in small:
        attempt(request)
    print(abs(mapped - most) < 100, flush=True)
"""


def refused(limit):
    child = subprocess.run(
        [sys.executable, "-c", REFUSED, limit], capture_output=True, text=True, timeout=60
    )
    assert child.returncode == 0, child.stderr  # no signal: nobody was killed
    return child.stdout.splitlines()


def test_a_limit_of_the_address_space_refuses_what_passes_without_it(says):
    lines = refused("address space")
    assert lines[5:] == ["ok"] * 5
    allocator, array, plain, shared, mapped = lines[:5]
    assert allocator.endswith(
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 268435456 bytes. Error code 12 (Cannot allocate memory)"
    )
    assert "Unable to allocate 256. MiB for an array with shape (256, 1048576)" in array
    assert plain == "MemoryError: "
    assert re.search(
        r"unable to mmap 268435456 bytes from file <.+>: Cannot allocate memory \(12\)", shared
    )
    assert mapped == "OSError: [Errno 12] Cannot allocate memory"
    for line in (allocator, shared):
        says("U54", line)


def test_too_many_mappings_refuse_even_64_bytes_with_memory_free(says):
    error, shared, allocator, *later, near_the_limit = refused("mappings")
    assert error == "OSError: [Errno 12] Cannot allocate memory"
    assert "unable to mmap 64 bytes" in shared
    assert "tried to allocate 41943040 bytes" in allocator  # 40 MiB
    says("U54", shared)
    assert later == ["ok", "ok"]
    assert near_the_limit == "True"


def test_an_absurd_number_is_the_product_of_a_wrong_shape():
    with pytest.raises(RuntimeError, match="tried to allocate 400000000000000 bytes") as error:
        torch.randn(10**7, 1) @ torch.randn(1, 10**7)
    assert int(re.search(r"(\d+) bytes", str(error.value)).group(1)) == 10**7 * 10**7 * 4
    assert (torch.randn(100, 1) * torch.randn(100, 1)).nbytes == 400


def mappings():
    with open("/proc/self/maps") as maps:
        return sum("torch_" in line for line in maps)


def as_list(samples):
    return [torch.tensor([sample]) for sample in samples]


def as_arrays(samples):
    return [tensor.numpy() for tensor in as_list(samples)]


@pytest.mark.parametrize(("collate", "most"), [(as_list, 400), (torch.tensor, 1), (as_arrays, 0)])
def test_a_worker_hands_over_each_tensor_of_a_batch_in_a_mapping_of_its_own(collate, most):
    batches = iter(
        DataLoader(
            range(400),
            batch_size=400,
            num_workers=1,
            collate_fn=collate,
            multiprocessing_context="fork",
        )
    )
    before = mappings()
    batch = next(batches)
    assert len(batch) == 400
    assert mappings() - before == most


@pytest.mark.parametrize(("limit", "first"), [("8000000", "8000000"), ("unlimited", "unlimited")])
def test_the_check_shows_the_limit_of_the_process_and_its_mappings(shell_of, limit, first):
    code = shell_of("U54", "ulimit -v").replace("PID", "self")
    shown = subprocess.run(
        ["bash", "-c", f"ulimit -v {limit}; {code}"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert shown[0] == first
    assert [line.split(":")[0] for line in shown[1:4]] == [
        "MemAvailable",
        "CommitLimit",
        "Committed_AS",
    ]
    assert shown[4] in "012" and int(shown[6]) < int(shown[5])
