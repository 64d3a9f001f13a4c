"""What a card of a name has: memory, links, peak speed.

Source, unless a line names another: NVIDIA's data sheets, read on 2026-11-20.
"""

import re

from ...logs.kernel.tables import rows_of
from . import data_text

# (pattern of the card's name, what a card of that name has)
CARD_TABLE = data_text("cards.txt")
SKU = [
    (
        re.compile(name),
        {
            "vram_gib": int(gib),
            "compute_cap": capability,
            "pcie_gen": int(generation),
            "tdp_w": int(watts),
            "bf16": "b" in types,
            "fp8": "f" in types,
            "p2p": p2p,
        },
    )
    for name, gib, capability, generation, watts, types, p2p in rows_of(CARD_TABLE)
]

# Data-centre cards, most of them with HBM.
HBM = re.compile(r"P100|V100|A100|A800|A30$|H100|H800|H20$|H200|B100|B200|B300|GB200|GB300")

# NVLinks of a GPU, and GB/s of one: NVIDIA Health Validation docs (H100 18 x 26.562, GB200 53.125),
# a captured A100 (12 x 25).
NVLINKS = (
    ("H100 80GB HBM3", 18, 26.562),
    ("H200$", 18, 26.562),
    ("A100-SXM4", 12, 25.0),
    ("GB200|GB300", 18, 53.125),
)

# Cards that a virtual machine may have with fewer lanes than they support: name, lanes.
# Unconfirmed: only AWS rents the A10G, and no public source says how it is wired.
FEWER_LANES = (("A10G$", 8),)

# Unified memory: nvidia-smi shows no memory size for these.
NO_OWN_MEMORY = re.compile(r"GB10\b|Thor|Orin")

# Dense tensor-core peak in TFLOPS, bf16 (fp16 before Ampere), as the data sheets give it. Read on
# 2026-11-20 in torchtitan (tools/utils.py: H100, H200, A100, B200, L40S), in Lightning 2.6.6
# (fabric/utilities/throughput.py: L4, L40, A10, V100, T4), and for A40 and RTX 4090 in lists of the
# data sheets. A card that isn't here is compared with its neighbours only.
PEAK_TFLOPS = (
    ("H100 80GB HBM3|H200$", 989),
    ("H100 PCIe", 756),
    ("H100 NVL", 835),
    ("A100", 312),
    ("B200", 2250),
    ("L40S$", 362),
    ("L40$", 181),
    ("L4$", 121),
    ("A40$", 149),
    ("A10$", 125),
    ("V100", 112),
    ("T4$", 65),
    ("RTX 4090$", 165),
)


def sku_of(name):
    """What a card of this name has, or None for a name that isn't in the table."""
    for pattern, sku in SKU:
        if pattern.search(name or ""):
            return sku
    return None
