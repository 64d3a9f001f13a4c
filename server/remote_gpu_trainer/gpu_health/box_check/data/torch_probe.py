"""What the torch of this interpreter sees, and whether a small kernel runs on each GPU."""

import json

out = {}
try:
    import torch

    out = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "available": torch.cuda.is_available(),
        "archs": torch.cuda.get_arch_list() if torch.cuda.is_available() else [],
        "devices": [],
    }
    for index in range(torch.cuda.device_count() if out["available"] else 0):
        device = {"index": index, "name": torch.cuda.get_device_name(index)}
        try:
            x = torch.arange(1024, device=f"cuda:{index}", dtype=torch.float32)
            device["ok"] = float((x * 2 + 1).sum().item()) == 1048576.0
        except Exception as error:
            device["ok"], device["error"] = False, str(error)[:300]
        out["devices"].append(device)
    if not out["available"]:
        try:
            torch.zeros(1, device="cuda")
        except Exception as error:
            out["error"] = str(error)[:300]
except Exception as error:
    out["error"] = f"{type(error).__name__}: {str(error)[:300]}"
print("GPU_HEALTH " + json.dumps(out))
