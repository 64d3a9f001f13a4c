"""Training runs on a GPU whose memory is limited to what `rgt fit` says: how many run out of it.

`python -m evals.fit.limits list` prints the runs with their estimates, as JSON, which needs
transformers. `python -m evals.fit.limits cuda FILE SECONDS` trains each of them on a GPU, first with
all of its memory, then with little and more and more, and prints a line for each.

The runs are drawn by chance, with a fixed seed: families, sizes, batches and ways to train. None
was left out after it had been measured.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import time

import torch

from . import modules

SEED = 20261127
RUNS, MODULES = 66, 18  # of transformers, and of modules.py
STEPS = 2
LEAST, MOST = 2.0, 60.0  # GiB of an estimate
# Shares of an estimate that a run's memory is limited to, from the least. The first that the run
# survives is recorded, in bytes.
SHARES = (0.90, 0.95, 1.0, 1.03, 1.06, 1.10, 1.15, 1.20, 1.30, 1.50)
GIB = 2.0**30
WIDTHS = {
    "decoder": (768, 1024, 1536, 2048),
    "encoder": (512, 768, 1024),
    "vision": (384, 768, 1024),
}
FAMILIES = {
    "llama": "decoder",
    "qwen2": "decoder",
    "qwen3": "decoder",
    "mistral": "decoder",
    "gemma": "decoder",
    "gemma2": "decoder",
    "phi": "decoder",
    "phi3": "decoder",
    "gpt2": "decoder",
    "gpt_neox": "decoder",
    "opt": "decoder",
    "olmo2": "decoder",
    "granite": "decoder",
    "starcoder2": "decoder",
    "mixtral": "decoder",
    "bert": "encoder",
    "roberta": "encoder",
    "electra": "encoder",
    "t5": "encoder",
    "vit": "vision",
    "deit": "vision",
    "dinov2": "vision",
}


def drawn() -> list[dict]:
    """Return the runs: {"run", "kind", "values", "asked", "reckoned"}, the last in bytes.

    `kind` is a type of transformers, or the name of a model in modules.py.
    """
    dice, runs = random.Random(SEED), []
    names = sorted(FAMILIES)
    while len(runs) < RUNS:
        kind = names[len(runs) % len(names)]
        values, asked = _values(kind, dice), _asked(kind, dice)
        told = {"kind": kind, "values": values, "asked": asked}
        if kind == "gpt2":
            values["n_positions"] = max(1024, asked["sequence"])
        peak = reckoned(told) / GIB
        if LEAST <= peak <= MOST:
            runs.append({"run": f"{len(runs):02d} {kind}", **told, "reckoned": round(peak * GIB)})
    while len(runs) < RUNS + MODULES:
        told = _module(sorted(modules.DRAWN)[len(runs) % len(modules.DRAWN)], dice)
        peak = reckoned_module(told) / GIB
        if LEAST <= peak <= MOST:
            name = f"{len(runs):02d} {told['kind']}"
            runs.append({"run": name, **told, "reckoned": round(peak * GIB)})
    return runs


def _module(kind: str, dice: random.Random) -> dict:
    """A model of modules.py with arguments, the shape of a sample, and how it is trained."""
    values, sides, number = modules.DRAWN[kind](dice)
    asked = {"optimizer": dice.choice(("adamw", "adamw-foreach", "sgd-momentum"))}
    asked["precision"] = dice.choice(("bf16-mixed", "bf16", "fp32", "fp16-mixed"))
    asked |= {"batch": dice.choice((8, 16, 32, 64)), "sequence": 1}
    sample = {"sides": sides, "kind": number}
    return {"kind": kind, "values": values, "asked": asked, "inputs": [sample]}


def reckoned_module(run: dict) -> float:
    """Return the estimate of the peak of a model of modules.py, in bytes."""
    from remote_gpu_trainer.fit import trace_module
    from remote_gpu_trainer.fit.traced_model import estimate_traced, traced_model
    from remote_gpu_trainer.fit.training_run import Run

    asked = run["asked"]
    request = {"attention": "sdpa", "precision": asked["precision"], "batch": asked["batch"]}
    request |= {"file": modules.__file__, "name": run["kind"], "args": run["values"]}
    told = trace_module.answer({**request, "inputs": run["inputs"]})
    if "not_run" in told:
        raise RuntimeError(told["not_run"])
    return estimate_traced(traced_model(told), Run(**asked)).peak


def _values(kind: str, dice: random.Random) -> dict:
    """Fields of a config that differ from the library's."""
    width = dice.choice(WIDTHS[FAMILIES[kind]])
    layers, heads = dice.choice((4, 6, 8, 12, 16, 24)), width // 64
    words = dice.choice((8000, 32000, 64000, 128000))
    inner = dice.choice((2, 3, 4)) * width
    if kind == "gpt2":
        return {"n_embd": width, "n_layer": layers, "n_head": heads, "vocab_size": words}
    if kind == "t5":
        return {
            "d_model": width, "num_layers": layers // 2, "num_heads": heads, "d_kv": 64,
            "d_ff": inner, "vocab_size": words, "decoder_start_token_id": 0,
        }  # fmt: skip
    values = {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": inner,
    }
    if kind == "dinov2":
        return {k: v for k, v in values.items() if k != "intermediate_size"}
    if FAMILIES[kind] == "vision":
        return values
    values["vocab_size"] = words
    if kind == "opt":
        return {**values, "ffn_dim": inner, "word_embed_proj_dim": width}
    if FAMILIES[kind] == "decoder" and kind not in ("phi", "gpt_neox", "phi3"):
        values["num_key_value_heads"] = dice.choice(
            [n for n in (heads, heads // 2, 4) if not heads % n]
        )
    if kind == "mixtral":
        values["num_local_experts"] = dice.choice((4, 8))
    if kind in ("qwen3", "gemma", "gemma2"):
        values["head_dim"] = 64
    if kind == "phi3":
        values |= {"pad_token_id": 0, "num_key_value_heads": heads}
    return values


def _asked(kind: str, dice: random.Random) -> dict:
    """What `rgt fit` is asked about a run."""
    asked: dict = {"optimizer": dice.choice(("adamw", "adamw-foreach", "sgd-momentum"))}
    asked["precision"] = dice.choice(("bf16-mixed", "bf16-mixed", "bf16", "fp32", "fp16-mixed"))
    if FAMILIES[kind] == "vision":
        return {**asked, "batch": dice.choice((16, 32, 64, 128)), "sequence": 0}
    longest = 512 if FAMILIES[kind] == "encoder" else 2048
    asked["sequence"] = dice.choice([n for n in (128, 512, 1024, 2048) if n <= longest])
    asked["batch"] = max(1, dice.choice((4096, 8192, 16384, 32768)) // asked["sequence"])
    asked["attention"] = dice.choice(("sdpa", "sdpa", "sdpa", "eager"))
    if kind == "gemma2":  # transformers has no other for it
        asked["attention"] = "eager"
    if FAMILIES[kind] == "decoder" and dice.random() < 0.25:
        asked["checkpointing"] = True
    if dice.random() < 0.2:
        asked["accumulation"] = 2
    return asked


def config_of(kind: str, values: dict):
    """Return the config of transformers, with the architecture that is trained."""
    import transformers

    config = transformers.AutoConfig.for_model(kind, **values)
    config.architectures = [class_of(config).__name__]
    return config


def class_of(config):
    """Return the class of a config's model that has a loss."""
    import transformers

    by = {"encoder": "AutoModelForMaskedLM", "vision": "AutoModelForImageClassification"}
    name = by.get(FAMILIES[config.model_type], "AutoModelForCausalLM")
    if config.model_type == "t5":
        name = "AutoModelForSeq2SeqLM"
    found = getattr(transformers, name)._model_mapping[type(config)]
    return found[0] if isinstance(found, tuple) else found


def reckoned(run: dict) -> float:
    """Return the estimate of a run's peak, in bytes. Sets the tokens of an image."""
    from remote_gpu_trainer.fit.model_config import read_config
    from remote_gpu_trainer.fit.training_memory import estimate
    from remote_gpu_trainer.fit.training_run import Run

    config = json.loads(config_of(run["kind"], run["values"]).to_json_string(use_diff=False))
    model = read_config(json.dumps(config).encode())
    run["asked"]["sequence"] = run["asked"]["sequence"] or model.tokens
    return estimate(model, Run(**run["asked"])).peak


def batch_of(run: dict, device: str) -> dict:
    """Return one batch, as the model takes it."""
    asked = run["asked"]
    if "inputs" in run:
        [sample] = run["inputs"]
        sides = (asked["batch"], *sample["sides"])
        if sample["kind"] == "int":
            return {"x": torch.randint(5, 500, sides, device=device)}
        numbers = torch.randn(sides, device=device)
        return {"x": numbers.to(torch.bfloat16) if asked["precision"] == "bf16" else numbers}
    if FAMILIES[run["kind"]] == "vision":
        size = config_of(run["kind"], run["values"]).image_size
        images = torch.randn(asked["batch"], 3, size, size, device=device)
        return {
            "pixel_values": images.to(torch.bfloat16) if asked["precision"] == "bf16" else images,
            "labels": torch.zeros(asked["batch"], dtype=torch.long, device=device),
        }
    words = torch.randint(5, 500, (asked["batch"], asked["sequence"]), device=device)
    return {"input_ids": words, "labels": words}


def model_of(run: dict, device: str):
    """Return the model in training mode, with random weights."""
    asked = run["asked"]
    if "inputs" in run:
        with torch.device(device):
            model = getattr(modules, run["kind"])(**run["values"])
        return (model.to(torch.bfloat16) if asked["precision"] == "bf16" else model).train()
    config = config_of(run["kind"], run["values"])
    config._attn_implementation = asked.get("attention", "sdpa")
    with torch.device(device):
        model = class_of(config)(config)
    if hasattr(config, "use_cache"):
        config.use_cache = False
    if asked["precision"] == "bf16":
        model = model.to(torch.bfloat16)
    if asked.get("checkpointing"):
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model.train()


def optimizer_of(name: str, weights):
    """Return the optimizer of a name that `rgt fit` knows."""
    if name == "sgd-momentum":
        return torch.optim.SGD(weights, lr=1e-4, momentum=0.9)
    return torch.optim.AdamW(weights, lr=1e-4, fused=name == "adamw")


def train(run: dict, device: str, steps: int = STEPS) -> int:
    """Train as a user's loop does. Return the number of weights."""
    asked, model = run["asked"], model_of(run, device)
    optimizer = optimizer_of(asked["optimizer"], list(model.parameters()))
    kind = {"bf16-mixed": torch.bfloat16, "fp16-mixed": torch.float16}.get(asked["precision"])
    scaler = torch.amp.GradScaler(device, enabled=kind is torch.float16)
    for _ in range(steps):
        for _ in range(asked.get("accumulation", 1)):
            batch = batch_of(run, device)
            with torch.autocast(device, kind or torch.bfloat16, enabled=kind is not None):
                told = model(**batch)
                loss = loss_of(told)
            del told
            scaler.scale(loss).backward()
            del loss
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    return sum(p.numel() for p in model.parameters())


def loss_of(told):
    """Return the loss that a model returned, or the mean of what it returned."""
    if isinstance(told, torch.Tensor):
        return told if not told.dim() else told.float().mean()
    return told.loss


def measured(run: dict) -> dict:
    """Return what a run takes of a GPU: its peak, and the least limit tried that it survives."""
    total = torch.cuda.get_device_properties(0).total_memory
    _empty(1.0)
    before = torch.cuda.memory_allocated()
    told = {"weights": train(run, "cuda"), "before": before}
    told |= {"peak": torch.cuda.max_memory_allocated() - before}
    told |= {"reserved": torch.cuda.max_memory_reserved()}
    dies = 0
    for share in SHARES:
        limit = round(share * run["reckoned"])
        if limit + before >= total or limit < told["peak"]:  # less than its tensors can't do
            continue
        _empty((limit + before) / total)
        if survives(run):
            return {**told, "survives": limit, "dies": dies}
        dies = limit
    return {**told, "survives": None, "dies": dies}


def survives(run: dict) -> bool:
    """Return whether a run ends without running out of memory."""
    try:
        train(run, "cuda")
    except torch.OutOfMemoryError:
        return False
    return True


def _empty(share: float):
    """Give back what is cached, and limit the process to a share of the card."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.set_per_process_memory_fraction(min(1.0, share))


def warm_up():
    """Make the handles and workspaces of cuBLAS, which stay."""
    for kind in (torch.float32, torch.bfloat16, torch.float16):
        x = torch.randn(256, 256, device="cuda", dtype=kind, requires_grad=True)
        (x @ x).sum().backward()
    torch.cuda.synchronize()


def main():
    """Print the runs, or what they take."""
    if sys.argv[1] == "list":
        import evals.fit.runs  # noqa: F401  (tells torch of torchvision's operators first)

        print(json.dumps(drawn(), indent=1))
        return
    with open(sys.argv[2], encoding="utf-8") as file:
        runs = json.load(file)
    random.Random(SEED).shuffle(runs)  # should time run out, no kind is left out
    began, seconds = time.monotonic(), float(sys.argv[3])
    warm_up()
    free, total = torch.cuda.mem_get_info()
    context = total - free - torch.cuda.memory_reserved()
    about = {"gpu": torch.cuda.get_device_name(0), "total": total, "context": context}
    print(json.dumps({**about, "torch": torch.__version__}), flush=True)
    for run in runs:
        if time.monotonic() - began > seconds:
            print(json.dumps({"run": run["run"], "not_run": "no time was left"}), flush=True)
            continue
        row, start = {"run": run["run"]}, time.monotonic()
        try:
            row |= measured(run)
        except Exception as error:  # the other runs still have something to tell
            row["error"] = f"{type(error).__name__}: {error}"[:300]
        row["seconds"] = round(time.monotonic() - start, 1)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
