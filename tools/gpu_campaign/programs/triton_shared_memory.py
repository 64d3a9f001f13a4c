"""A Triton kernel whose tiles are larger than a multiprocessor's shared memory."""

import torch
import triton
import triton.language as tl


@triton.jit
def product(a, b, c, N, SIZE: tl.constexpr):
    rows, columns = tl.arange(0, SIZE), tl.arange(0, SIZE)
    total = tl.zeros((SIZE, SIZE), dtype=tl.float32)
    for k in range(0, N, SIZE):
        left = tl.load(a + rows[:, None] * N + k + columns[None, :])
        right = tl.load(b + (k + rows[:, None]) * N + columns[None, :])
        total += tl.dot(left, right)
    tl.store(c + rows[:, None] * N + columns[None, :], total)


a, b, c = (torch.ones(1024, 1024, device="cuda") for _ in range(3))
product[(1,)](a, b, c, 1024, SIZE=128, num_stages=6, num_warps=8)
print(c[0, 0].item())
