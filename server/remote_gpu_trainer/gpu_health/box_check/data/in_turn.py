"""Runs the programs in the arguments after the first, one after another in this process.

So torch starts once, and the cards are still warm when the second program begins. The first
argument is that of each program.
"""

import os
import sys

# With them a library computes in another type than it was asked for.
for name in (
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "CUBLAS_EMULATE_SINGLE_PRECISION",
    "CUBLAS_EMULATE_DOUBLE_PRECISION",
):
    os.environ.pop(name, None)

for program in sys.argv[2:]:
    exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
