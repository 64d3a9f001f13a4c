"""Train 30 small models and 16 of sizes that people train, and print their peak memory as JSON.

Each trains for three steps and is one line.

`python fit_models.py cuda` measures with torch.cuda.max_memory_allocated; `python fit_models.py
cpu` only tries that each model trains. What cuBLAS and the allocator take before the model is there
is measured first and left out, since `rgt fit` counts it to the context.
"""

import gc
import importlib.util
import json
import sys
import time

import torch
from torch import nn

MIB = 2**20
LLAMA = {
    "hidden_size": 768,
    "num_hidden_layers": 8,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "intermediate_size": 2048,
    "vocab_size": 4000,
    "tie_word_embeddings": False,
}
GPT2 = {
    "n_embd": 768,
    "n_layer": 8,
    "n_head": 12,
    "vocab_size": 4000,
    "n_positions": 1024,
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
}
OTHER = {
    "hidden_size": 768,
    "num_hidden_layers": 8,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "vocab_size": 4000,
}
TORCHS_CHOICE = {"optimizer": "adamw-foreach"}  # what torch.optim.AdamW does on a card by itself
USUAL = {"batch": 4, "sequence": 1024, "precision": "bf16-mixed"}

# The model, its configuration, and what `rgt fit` is asked about the run.
RUNS = {
    "llama, fp32": ("llama", LLAMA, {"batch": 4, "sequence": 512, "precision": "fp32"}),
    "llama, mixed": ("llama", LLAMA, USUAL),
    "llama, fp16 mixed": ("llama", LLAMA, {**USUAL, "precision": "fp16-mixed"}),
    "llama, bf16": ("llama", LLAMA, {**USUAL, "precision": "bf16"}),
    "llama, mixed, batch of 16": ("llama", LLAMA, {**USUAL, "batch": 16}),
    "llama, mixed, one short sample": ("llama", LLAMA, {**USUAL, "batch": 1, "sequence": 128}),
    "llama, mixed, 4096 tokens": ("llama", LLAMA, {**USUAL, "batch": 1, "sequence": 4096}),
    "llama, mixed, checkpointing": ("llama", LLAMA, {**USUAL, "batch": 8, "checkpointing": True}),
    "llama, bf16, checkpointing": (
        "llama",
        LLAMA,
        {**USUAL, "batch": 8, "precision": "bf16", "checkpointing": True},
    ),
    "llama, eager attention": ("llama", LLAMA, {**USUAL, "attention": "eager"}),
    "llama, SGD": ("llama", LLAMA, {**USUAL, "optimizer": "sgd-momentum"}),
    "llama, accumulation": ("llama", LLAMA, {**USUAL, "accumulation": 2}),
    "llama, LoRA on bf16": ("llama", LLAMA, {**USUAL, "precision": "bf16", "lora": 16}),
    "llama, LoRA on bf16, checkpointing": (
        "llama",
        LLAMA,
        {**USUAL, "batch": 8, "precision": "bf16", "lora": 16, "checkpointing": True},
    ),
    "llama, large vocabulary": ("llama", {**LLAMA, "vocab_size": 64000}, USUAL),
    "llama, 24 thin layers": (
        "llama",
        {**LLAMA, "num_hidden_layers": 24, "hidden_size": 384, "intermediate_size": 1024},
        USUAL,
    ),
    "llama, two wide layers": (
        "llama",
        {**LLAMA, "num_hidden_layers": 2, "hidden_size": 2304, "intermediate_size": 6144},
        USUAL,
    ),
    "qwen2, tied": ("qwen2", {**LLAMA, "tie_word_embeddings": True}, USUAL),
    "qwen3": ("qwen3", {**LLAMA, "head_dim": 64}, USUAL),
    "mistral": ("mistral", LLAMA, USUAL),
    "gemma": ("gemma", {**LLAMA, "head_dim": 64, "vocab_size": 32000}, USUAL),
    "mixtral, 4 experts": ("mixtral", {**LLAMA, "num_local_experts": 4}, {**USUAL, "batch": 2}),
    "phi": ("phi", OTHER, USUAL),
    "gpt-neox": ("gpt_neox", OTHER, USUAL),
    "gpt2, dropout": ("gpt2", {**GPT2, "resid_pdrop": 0.1, "embd_pdrop": 0.1}, USUAL),
    "gpt2 in plain torch, fp32": ("plain", GPT2, {**USUAL, "batch": 2, "precision": "fp32"}),
    "gpt2 in plain torch, mixed": ("plain", GPT2, USUAL),
    "gpt2 in plain torch, bf16": ("plain", GPT2, {**USUAL, "precision": "bf16"}),
    "gpt2 in plain torch, SGD": ("plain", GPT2, {**USUAL, "optimizer": "sgd-momentum"}),
    "gpt2 in plain torch, accumulation": ("plain", GPT2, {**USUAL, "accumulation": 2}),
}

# Models of the sizes that people train, with the figures of their config.json and random weights.
QWEN_05 = {
    "hidden_size": 896,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "intermediate_size": 4864,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}
QWEN_15 = {
    **QWEN_05,
    "hidden_size": 1536,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "intermediate_size": 8960,
}
LLAMA_1 = {
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 8192,
    "vocab_size": 128256,
    "tie_word_embeddings": True,
}
LLAMA_3 = {
    **LLAMA_1,
    "hidden_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 24,
}
LLAMA_8 = {
    **LLAMA_1,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "intermediate_size": 14336,
    "tie_word_embeddings": False,
}
MISTRAL_7 = {**LLAMA_8, "vocab_size": 32000}
TINY_LLAMA = {
    **LLAMA_1,
    "num_hidden_layers": 22,
    "num_key_value_heads": 4,
    "intermediate_size": 5632,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
}
SMOL = {
    "hidden_size": 960,
    "num_hidden_layers": 32,
    "num_attention_heads": 15,
    "num_key_value_heads": 5,
    "intermediate_size": 2560,
    "vocab_size": 49152,
    "tie_word_embeddings": True,
}
GEMMA_2 = {
    "hidden_size": 2048,
    "num_hidden_layers": 18,
    "num_attention_heads": 8,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "intermediate_size": 16384,
    "vocab_size": 256000,
    "tie_word_embeddings": True,
}
PHI_2 = {
    "hidden_size": 2560,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "intermediate_size": 10240,
    "vocab_size": 51200,
}
PYTHIA = {
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 8192,
    "vocab_size": 50304,
}
WORDS = {"vocab_size": 50257, "n_positions": 1024}
GPT2_SMALL = {**WORDS, "n_embd": 768, "n_layer": 12, "n_head": 12}
GPT2_XL = {**WORDS, "n_embd": 1600, "n_layer": 48, "n_head": 25}
LORA = {"precision": "bf16", "lora": 16}
SPARING = {"precision": "bf16", "checkpointing": True}
LARGE = {
    "Qwen2.5 0.5B, mixed": ("qwen2", QWEN_05, USUAL),
    "Qwen2.5 1.5B, bf16, checkpointing": (
        "qwen2",
        QWEN_15,
        {**SPARING, "batch": 4, "sequence": 2048},
    ),
    "Llama 3.2 1B, mixed": ("llama", LLAMA_1, {**USUAL, "batch": 2, "sequence": 2048}),
    "Llama 3.2 1B, LoRA": ("llama", LLAMA_1, {**USUAL, **LORA}),
    "Llama 3.2 3B, bf16, checkpointing": (
        "llama",
        LLAMA_3,
        {**SPARING, "batch": 2, "sequence": 2048},
    ),
    "Llama 3.1 8B, LoRA, checkpointing": (
        "llama",
        LLAMA_8,
        {**SPARING, **LORA, "batch": 2, "sequence": 2048},
    ),
    "Mistral 7B, LoRA, checkpointing, 4096 tokens": (
        "mistral",
        MISTRAL_7,
        {**SPARING, **LORA, "batch": 1, "sequence": 4096},
    ),
    "Mistral 7B, LoRA": ("mistral", MISTRAL_7, {**LORA, "batch": 2, "sequence": 1024}),
    "TinyLlama 1.1B, mixed": ("llama", TINY_LLAMA, {**USUAL, "batch": 2, "sequence": 2048}),
    "TinyLlama 1.1B, mixed, checkpointing": (
        "llama",
        TINY_LLAMA,
        {**USUAL, "batch": 8, "sequence": 2048, "checkpointing": True},
    ),
    "SmolLM2 360M, mixed": ("llama", SMOL, {**USUAL, "batch": 8}),
    "Gemma 2B, LoRA": ("gemma", GEMMA_2, {**LORA, "batch": 2, "sequence": 1024}),
    "Phi-2, LoRA": ("phi", PHI_2, {**LORA, "batch": 2, "sequence": 1024}),
    "Pythia 1.4B, mixed": ("gpt_neox", PYTHIA, {**USUAL, "batch": 2}),
    "GPT-2, mixed": ("gpt2", GPT2_SMALL, {**USUAL, "batch": 8}),
    "GPT-2 XL, bf16, checkpointing": ("gpt2", GPT2_XL, {**SPARING, "batch": 4, "sequence": 1024}),
}


class Layer(nn.Module):
    """A layer of a GPT-2 as transformers has it, whose attention is torch's own."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        """Return the layer's output, of the shape of x: batch, tokens, width."""
        batch, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).split(width, dim=2)
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


class Plain(nn.Module):
    """A GPT-2 without transformers: the head shares the table of words."""

    def __init__(self, config):
        super().__init__()
        width = config["n_embd"]
        self.words = nn.Embedding(config["vocab_size"], width)
        self.places = nn.Embedding(config["n_positions"], width)
        self.layers = nn.ModuleList(
            Layer(width, config["n_head"]) for _ in range(config["n_layer"])
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, input_ids, labels):
        """Return the loss of predicting each next word."""
        x = self.words(input_ids) + self.places(
            torch.arange(input_ids.shape[1], device=input_ids.device)
        )
        for layer in self.layers:
            x = layer(x)
        logits = nn.functional.linear(self.norm(x), self.words.weight).float()
        return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


def config_of(kind, values):
    """Return the config.json of a run."""
    if kind == "plain":
        return {
            "model_type": "gpt2",
            "activation_function": "gelu",
            "tie_word_embeddings": True,
            "architectures": ["GPT2LMHeadModel"],
            **values,
        }
    import transformers

    config = transformers.AutoConfig.for_model(kind, **values)
    made = transformers.AutoModelForCausalLM._model_mapping[type(config)]
    plain = {k: v for k, v in config.to_dict().items() if isinstance(v, (bool, int, float, str))}
    return {**plain, "architectures": [made.__name__]}


def model_for(kind, values, asked, device):
    """Return the model in training mode, with random weights."""
    with torch.device(device):
        if kind == "plain":
            model = Plain(values)
        else:
            import transformers

            config = transformers.AutoConfig.for_model(kind, **values)
            model = transformers.AutoModelForCausalLM.from_config(
                config, attn_implementation=asked.get("attention", "sdpa")
            )
            model.config.use_cache = False
    if asked["precision"] == "bf16":
        model = model.to(torch.bfloat16)
    if asked.get("lora"):
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(
            model, LoraConfig(r=asked["lora"], target_modules="all-linear", task_type="CAUSAL_LM")
        )
    if asked.get("checkpointing"):
        model.gradient_checkpointing_enable({"use_reentrant": False})
        if asked.get("lora"):
            model.enable_input_require_grads()
    return model.to(device).train()


def train(model, values, asked, device, steps=3):
    """Train for a few steps, as a loop of a user does, with torch's own choice of kernels."""
    trained = [p for p in model.parameters() if p.requires_grad]
    if asked.get("optimizer", "adamw") == "adamw":
        optimizer = torch.optim.AdamW(trained, lr=1e-4)
    else:
        optimizer = torch.optim.SGD(trained, lr=1e-4, momentum=0.9)
    kinds = {"bf16-mixed": torch.bfloat16, "fp16-mixed": torch.float16}
    kind = kinds.get(asked["precision"])
    scaler = torch.amp.GradScaler(device, enabled=kind is torch.float16 and device == "cuda")
    shape = asked["batch"], asked["sequence"]
    for _ in range(steps):
        for _ in range(asked.get("accumulation", 1)):
            words = torch.randint(5, 500, shape, device=device)
            with torch.autocast(device, kind or torch.bfloat16, enabled=kind is not None):
                told = model(input_ids=words, labels=words)
            loss = told if torch.is_tensor(told) else told.loss
            del told
            scaler.scale(loss).backward()
            del loss
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)


def warm_up():
    """Make the handles and workspaces of cuBLAS, which stay."""
    for kind in (torch.float32, torch.bfloat16, torch.float16):
        x = torch.randn(256, 256, device="cuda", dtype=kind, requires_grad=True)
        (x @ x).sum().backward()
    torch.cuda.synchronize()


def forget_the_past(device):
    """Give back what earlier work left in memory, and count the peak from here."""
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def measured(kind, values, asked, device):
    """Return the bytes of a run on this device. On the CPU nothing is measured.

    The model is made in fp32 before it becomes what is trained; that isn't part of the run.
    """
    forget_the_past(device)
    before = torch.cuda.memory_allocated() if device == "cuda" else 0
    torch.manual_seed(0)
    model = model_for(kind, values, asked, device)
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    forget_the_past(device)
    train(model, values, asked, device)
    if device == "cpu":
        return {"weights": weights, "peak": None}
    torch.cuda.synchronize()
    return {
        "weights": weights,
        "before": before,
        "peak": torch.cuda.max_memory_allocated() - before,
        "reserved": torch.cuda.max_memory_reserved(),
        "used": used_of_the_card(),
    }


def used_of_the_card():
    """Return the bytes that nobody else could have now: what is cached, and the context."""
    free, total = torch.cuda.mem_get_info()
    return total - free


def reckoned(config, asked):
    """Return the estimate's bytes, or None where the package isn't here."""
    try:
        from remote_gpu_trainer.fit.model_config import model_of
        from remote_gpu_trainer.fit.training_memory import estimate
        from remote_gpu_trainer.fit.training_run import Run
    except ImportError:
        return None
    told = estimate(model_of(config), Run(**{**TORCHS_CHOICE, **asked}))
    return {"peak": round(told.peak), "moment": told.moment}


def main():
    """Print a row for each run; a run that fails says why in its row."""
    device, only = sys.argv[1], sys.argv[2:]
    if device == "cuda":
        warm_up()
    for name, (kind, values, asked) in {**RUNS, **LARGE}.items():
        if only and name not in only:
            continue
        needs = ["transformers"] * (kind != "plain") + ["peft"] * bool(asked.get("lora"))
        gone = [library for library in needs if not importlib.util.find_spec(library)]
        if gone:
            print(json.dumps({"run": name, "not_run": f"not run: {gone[0]} is not installed"}))
            continue
        start = time.monotonic()
        row = {"run": name, "asked": asked}
        try:
            row["config"] = config_of(kind, values)
            row["measured"] = measured(kind, values, asked, device)
            row["reckoned"] = reckoned(row["config"], asked)
        except Exception as error:  # the other runs still have something to tell
            row["error"] = f"{type(error).__name__}: {error}"[:600]
        row["seconds"] = round(time.monotonic() - start, 1)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
