"""The GiB that a tool reckons for a run: `memory.py rgt`, `accelerate` or `deepspeed`.

Reads a JSON list of texts, each JSON with the model's `config` and the options that `rgt fit` is
`asked` with. The other two
know weights, gradients and optimizer state alone. They are asked through the functions of their
estimators, because accelerate's command wants a model of the Hub, and DeepSpeed has none.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

GIB = 2**30


def empty_model(config: dict[str, Any]) -> Any:
    """The model without memory for its weights."""
    from accelerate import init_empty_weights
    from transformers import AutoConfig, AutoModelForCausalLM

    fields = {key: value for key, value in config.items() if key != "model_type"}
    with init_empty_weights():
        return AutoModelForCausalLM.from_config(
            AutoConfig.for_model(config["model_type"], **fields)
        )


def accelerate(told: dict[str, Any]) -> float:
    """The largest of the moments that `accelerate estimate-memory` tells for Adam."""
    from accelerate.commands.estimate import estimate_training_usage
    from accelerate.utils import calculate_maximum_sizes

    size, _ = calculate_maximum_sizes(empty_model(told["config"]))
    precision = "float32" if told["asked"]["precision"] == "fp32" else "float16"
    return max(estimate_training_usage(size, precision).values()) / GIB


def deepspeed(told: dict[str, Any]) -> float:
    """ZeRO-2's model states on one GPU without offload."""
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

    weights = sum(one.numel() for one in empty_model(told["config"]).parameters())
    return estimate_zero2_model_states_mem_needs(weights, cpu_offload=False)[1] / GIB


def rgt(told: dict[str, Any]) -> float:
    """What `rgt fit` says that the run needs."""
    options = []
    for name, value in told["asked"].items():
        options += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(told["config"]), encoding="utf-8")
        command = [sys.executable, "-m", "remote_gpu_trainer", "fit", str(config), "--json"]
        done = subprocess.run([*command, *options], capture_output=True, text=True)
    return json.loads(done.stdout)["need_gib"]


def main() -> None:
    """Answer what is on standard input."""
    tool = {"rgt": rgt, "accelerate": accelerate, "deepspeed": deepspeed}[sys.argv[1]]
    for told in json.load(sys.stdin):
        print(f"bench: {tool(json.loads(told)):.3f} GiB\nEND", flush=True)


if __name__ == "__main__":
    main()
