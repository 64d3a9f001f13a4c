"""A Triton kernel whose mask is forgotten, far behind the end of its tensor."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_one(x, far, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE) + far
    tl.store(x + at, tl.load(x + at) + 1)


x = torch.zeros(1024, device="cuda")
add_one[(1,)](x, 1 << 42, SIZE=1024)
torch.cuda.synchronize()
add_one[(1,)](x, 0, SIZE=1024)
print(x.sum().item())
