"""The page evals/FIT.md: what `rgt fit` reckons, beside what was counted and what others told."""

from __future__ import annotations

import json

from remote_gpu_trainer.fit import solve, traced_report, weight_formulas
from remote_gpu_trainer.fit.layer_memory import layer_keeps
from remote_gpu_trainer.fit.model_config import model_of, read_config
from remote_gpu_trainer.fit.model_shape import Model
from remote_gpu_trainer.fit.training_memory import GIB, estimate, lora_count
from remote_gpu_trainer.fit.training_run import Run
from remote_gpu_trainer.numbers.memory import CONTEXT

from . import grading

COUNTED, PUBLISHED = 0.15, 0.20  # how far an estimate may be off
A100_BESIDE = 1.8  # GiB that GPUMemNet's A100 showed beside torch's memory, by the margins below
MIB = 2.0**20

LLAMA3 = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}
LLAMA32_3B = {
    **LLAMA3,
    "hidden_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 24,
    "head_dim": 128,
    "intermediate_size": 8192,
    "tie_word_embeddings": True,
}
LLAMA3_70B = {
    **LLAMA3,
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "intermediate_size": 28672,
}
LLAMA3S = {"3B": LLAMA32_3B, "8B": LLAMA3, "70B": LLAMA3_70B, "405B": {}}
LLAMA2 = {**LLAMA3, "num_key_value_heads": 32, "intermediate_size": 11008, "vocab_size": 32000}
LLAMA65 = {
    **LLAMA2,
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "intermediate_size": 22016,
}
BERT = {
    "model_type": "bert",
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "architectures": ["BertForSequenceClassification"],
}
ADAPTED_RANK = 16
# Models with experts, and two without: the config.json, what peft 0.21.2 makes of "all-linear" with
# transformers 5.23.0, and what 0.18.0 made with 4.57.2.
ADAPTED = {
    "Mixtral 8x7B": ({"model_type": "mixtral"}, 359_665_664, 242_225_152),
    "Qwen3-30B-A3B": (
        {
            "model_type": "qwen3_moe",
            "hidden_size": 2048,
            "num_hidden_layers": 48,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "head_dim": 128,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 768,
            "intermediate_size": 6144,
            "vocab_size": 151936,
        },
        996_507_648,
        845_512_704,
    ),
    "Qwen1.5-MoE-A2.7B": (
        {
            "model_type": "qwen2_moe",
            "hidden_size": 2048,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "num_experts": 60,
            "num_experts_per_tok": 4,
            "moe_intermediate_size": 1408,
            "shared_expert_intermediate_size": 5632,
            "intermediate_size": 5632,
            "vocab_size": 151936,
        },
        15_925_632,
        255_613_824,
    ),
    "OLMoE-1B-7B": (
        {
            "model_type": "olmoe",
            "hidden_size": 2048,
            "intermediate_size": 1024,
            "num_hidden_layers": 16,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "num_experts": 64,
            "num_experts_per_tok": 8,
            "vocab_size": 50304,
        },
        189_284_352,
        155_729_920,
    ),
    "gpt-oss-20b": (
        {"model_type": "gpt_oss", "num_hidden_layers": 24, "num_local_experts": 32},
        7_962_624,
        7_962_624,
    ),
    "DeepSeek-V3": ({"model_type": "deepseek_v3"}, 7_645_254_656, 6_694_630_400),
    "Llama 3.1 8B": (LLAMA3, 41_943_040, 41_943_040),
    "GPT-NeoX 20B": ({"model_type": "gpt_neox"}, 69_206_016, 69_206_016),
}
GPT_22B = {
    "model_type": "gpt2",
    "hidden_size": 6144,
    "num_hidden_layers": 48,
    "num_attention_heads": 64,
    "vocab_size": 51200,
    "hidden_act": "gelu",
    "resid_pdrop": 0.1,
}


def _states(count: float, sharding: str, gpus: int) -> float:
    """GB of weights, gradients and optimizer state on each GPU."""
    model = Model(1, 64, 1, 1, 64, 64, 64, weights=int(count))
    run = Run(1, 1, "fp16-mixed", sharding=sharding, gpus=gpus)
    return estimate(model, run).states


def _peak(config: dict, **run) -> float:
    return estimate(model_of(config), Run(**run)).peak


def published() -> list[tuple[str, str, str, float, float]]:
    """(what, source, its date, published, estimated): sizes in GiB."""
    hf = "https://github.com/huggingface/transformers/blob/249ef8164cfbd8e288c2f6d8395539b9e90e8300/docs/source/en/model_memory_anatomy.md"
    titan = "https://github.com/pytorch/torchtitan/blob/31a17bfdb70bab6f62a13d21816a5339b911d6e3/benchmarks/llama3_h100_202412_torchtitan.md"
    ao = "https://github.com/pytorch/ao/blob/072500abcfbdec15a429eb53160c63fb92534b85/torchao/optim/README.md"
    tune = "https://github.com/pytorch/torchtune/blob/0031bfb080bd35ec533c412df883cf2bf7bf7fe4/README.md"
    megatron = "https://github.com/NVIDIA/Megatron-LM/blob/00caa53af30912914981c86f39db123961678bbd/megatron/training/theoretical_memory_usage.py"
    quoted = "https://dev.to/narotra05hp/fine-tuning-a-7b-model-needs-112-gb-the-model-is-only-14-gb-of-it-ieb"
    figure = "https://blog.csdn.net/qq_36803941/article/details/140825656"
    deepspeed = "https://deepspeed.readthedocs.io/en/latest/memory.html"
    billion = 1e9 / GIB
    bert = _peak(BERT, batch=4, sequence=512, precision="fp32", attention="eager", accumulation=2)
    tuned = {"batch": 2, "sequence": 2048, "lora": 16, "checkpointing": True, "chunked_loss": True}
    gpt = Run(4, 2048, "bf16")
    return [
        (
            "BERT-large, batch 4 of 512 tokens, fp32, on a V100, with 1343 MB of kernels; that "
            "torch kept gradients between steps",
            hf,
            "2022-01",
            14949 * MIB / GIB,
            bert / GIB + 1343 * MIB / GIB,
        ),
        (
            "Llama 3.1 8B, FSDP over 8 GPUs, 32768 tokens, full checkpointing (compiled, Float8)",
            titan,
            "2024-12",
            83.9,
            _peak(LLAMA3, batch=1, sequence=32768, sharding="fsdp", gpus=8, checkpointing=True)
            / GIB,
        ),
        *(
            (
                f"Llama 2 7B, all in bf16, {optimizer}, checkpointing, short samples",
                ao,
                "2024-08",
                told,
                _peak(
                    LLAMA2,
                    batch=2,
                    sequence=512,
                    precision="bf16",
                    optimizer=optimizer,
                    checkpointing=True,
                )
                / GIB,
            )
            for optimizer, told in (("adamw", 51.6), ("adamw8bit", 39.3))
        ),
        (
            "Llama 3.1 8B, LoRA in bf16, batch 2 of 2048, checkpointing, loss in pieces (compiled)",
            tune,
            "2024-09",
            16.2,
            _peak(LLAMA3, precision="bf16", targets="attention", **tuned) / GIB,
        ),
        (
            "the same with QLoRA, all else in bf16",
            tune,
            "2024-09",
            7.4,
            _peak(LLAMA3, precision="4bit-bf16", targets="attention", **tuned) / GIB,
        ),
        (
            "LLaMA 65B, QLoRA of rank 64, batch 4 of 528 tokens, checkpointing: what a card of 48 GB "
            "holds (all else in bf16; the authors page the state)",
            "https://github.com/artidoro/qlora/blob/0b46ca80a0bb57b255e59bd0e19b190e51751d82/scripts/finetune_guanaco_65b.sh",
            "2023-05",
            48 * billion,
            _peak(
                LLAMA65,
                batch=4,
                sequence=528,
                precision="4bit-bf16",
                lora=64,
                checkpointing=True,
                accumulation=4,
            )
            / GIB,
        ),
        (
            "GPT of 22B, what one layer keeps of 4 × 2048 tokens, without attention scores: 34 sbh",
            megatron,
            "2023",
            34 * 8192 * 6144 / GIB,
            layer_keeps(model_of(GPT_22B), gpt) * 8192 / GIB,
        ),
        *(
            (
                f"{count / 1e9}B weights, mixed precision, {gpus} GPU, {sharding}: states",
                source,
                "2019-10",
                told * billion,
                _states(count, sharding, gpus) / GIB,
            )
            for count, sharding, gpus, told, source in (
                (1.5e9, "zero1", 1, 24.0, quoted),
                (7.5e9, "zero1", 1, 120.0, figure),
                (7.5e9, "zero1", 64, 31.4, figure),
            )
        ),
        *(
            (
                f"t5-3b, {sharding} over 8 GPUs: states by DeepSpeed's own estimator",
                deepspeed,
                "2026-08",
                told,
                _states(2851e6, sharding, 8) / GIB,
            )
            for sharding, told in (("zero2", 15.93), ("zero3", 6.10))
        ),
    ]


def compared(results: list[dict]) -> list[tuple[str, float, float]]:
    """(run, counted, estimated) of each recorded run, in bytes."""
    return [
        (
            row["run"],
            row["counted"]["peak"],
            estimate(read_config(json.dumps(row["config"]).encode()), Run(**row["asked"])).peak,
        )
        for row in results
    ]


def _off(told: float, reckoned: float) -> str:
    return f"{100 * (reckoned / told - 1):+.1f} %"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def page(results: list[dict], limits: dict, public: dict, before: dict) -> str:
    """The whole page, of the records fit.json, fit_limits, fit_rows and fit_before.json."""
    rows, others = compared(results), published()
    near = [row for row in rows if abs(row[2] / row[1] - 1) <= COUNTED]
    close = [row for row in others if abs(row[4] / row[3] - 1) <= PUBLISHED]
    lines = [
        "# What `rgt fit` reckons, and what was counted",
        "",
        "<!-- generated: fit/page.py, from tests/records/fit.json, fit_limits.json, fit_rows.json and fit_before.json -->",
        "",
        "## Small models on a CPU",
        "",
        "Each run trains a model with random weights for two steps, and every tensor is counted, "
        "temporary ones too. Peaks of the second",
        f"step in MiB; {len(near)} of {len(rows)} estimates are within {COUNTED:.0%}.",
        "",
        _row("Run", "Counted", "Estimated", "Difference"),
        "|---|---|---|---|",
    ]
    for name, counted, reckoned in rows:
        sizes = f"{counted / MIB:.1f}", f"{reckoned / MIB:.1f}"
        lines.append(_row(name, *sizes, _off(counted, reckoned)))
    lines += [
        "",
        "Dropout keeps a mask of one byte here, as on a GPU. `fit` has rules for families of models, such "
        "as for Gemma's normalization in fp32;",
        "no factor in it was fitted to a figure.",
        "",
        "## Published figures",
        "",
        f"In GiB; {len(close)} of {len(others)} are within {PUBLISHED:.0%}. The figures of 2019 "
        "are from the paper on ZeRO, as these pages quote it.",
        "",
        _row("What", "Date", "Published", "Estimated", "Difference"),
        "|---|---|---|---|---|",
    ]
    for what, source, date, told, reckoned in others:
        sizes = f"{told:.2f}", f"{reckoned:.2f}"
        lines.append(_row(f"[{what}]({source})", date, *sizes, _off(told, reckoned)))
    lines += [
        "",
        "DeepSpeed's estimator for ZeRO-2 counts 4 bytes a weight for what isn't divided. The paper "
        "counts 2, and so does `fit`. QLoRA's authors and torchtune keep adapters, embeddings and what "
        "flows between layers in bf16 (`--precision 4bit-bf16`). With `4bit`, `fit` reckons what "
        "peft's `prepare_model_for_kbit_training` makes of them, fp32.",
        "Selective checkpointing isn't compared: `fit` doesn't know it.",
        *_limited(limits),
        *_public(public),
        *_before(before, limits, public),
        *_counted(),
        *_adapted(),
    ]
    return "\n".join([*lines, "", "<!-- end -->", ""])


def _limited(limits: dict) -> list[str]:
    """The runs on a GPU whose memory was limited."""
    found = grading.limited(limits)
    rows = [row for row, _ in found]
    room = solve.UNCERTAIN
    used = grading.Margin(CONTEXT * (1 + room), room)
    plain = [row for row, run in found if not run.checkpointing]
    saving = [row for row, run in found if run.checkpointing]
    wide = solve.UNCERTAIN_CHECKPOINTING
    wider = grading.Margin(CONTEXT * (1 + wide), wide)
    off = sorted(
        (row.estimated or 0) / (told["peak"] / GIB) - 1
        for row, told in zip(rows, limits["runs"], strict=True)
    )
    share = sum(abs(one) <= 0.05 for one in off)
    tuning, graded = grading.halves(rows)
    margin = grading.margin_for(tuning, CONTEXT)
    return [
        "",
        "## With the estimate and a margin as a GPU's memory",
        "",
        f"{len(rows)} runs on an {limits['gpu']} (torch {limits['torch']}, transformers "
        f"{limits['transformers']}), by `evals/fit/limits.py`: those of `tools/gpu_campaign`, and the "
        "same with more layers, twice the width or larger batches, drawn by chance. Each was run with all of the card, "
        "then with its own peak as the limit, then with 2 % more and so on up to half, until it "
        f"survived. {share} of {len(rows)} estimates are within 5 % of the peak, the lowest "
        f"{100 * off[0]:+.1f} %, the highest {100 * off[-1]:+.1f} %. The limit below is for the "
        f"whole process; CUDA's context took {limits['context'] / GIB:.2f} GiB of it.",
        "",
        _row("Runs", "Limit", "Run", "Die", "Left unused (median)"),
        "|---|---|---|---|---|",
        _graded("half, by a hash of the name", margin, grading.grade(tuning, margin), "set on"),
        _graded("the other half", margin, grading.grade(graded, margin), "graded on"),
        _graded("without checkpointing", used, grading.grade(plain, used), "what `fit` says"),
        _graded("with checkpointing", used, grading.grade(saving, used), "the same margin"),
        _graded("with checkpointing", wider, grading.grade(saving, wider), "what `fit` says"),
        "",
        f"`fit` said {room:.0%} before these runs. {wide:.0%} with checkpointing was set on all of "
        "them, so nothing grades it. Nor are the other runs independent of what `fit` reckons: what the "
        "same card was seen to keep and `fit` hadn't counted was added to its arithmetic before they "
        "were graded. One margin for all has to be as wide as the worst run with "
        "checkpointing needs, and leaves more than 15 % unused.",
        "What stands in the way is torch's allocator: where blocks of many sizes come and go, as "
        "with checkpointing or very large logits, a run needs up to half more than its tensors. No "
        "estimate of tensors sees that. "
        "`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` is made against it; it wasn't measured "
        "here.",
    ]


def _graded(what: str, margin: grading.Margin, found: grading.Grade, note: str) -> str:
    limit = f"estimate + {margin.share:.0%} + {margin.fixed:.2f} GiB ({note})"
    die = f"{found.die} ({found.die / found.rows:.1%})"
    return _row(what, limit, str(found.rows), die, f"{found.unused:.1%}")


def _public(public: dict) -> list[str]:
    """The rows of public tables."""
    timm, encoders = public["timm"], public["encoders"]
    attention, convolutions = grading.timm(public, False), grading.timm(public, True)
    small = grading.encoders(public)
    tuned = grading.torchtune(LLAMA3S)
    known = [row for row in tuned if row.estimated is not None]
    everything = [*attention, *convolutions, *small, *tuned]
    covered = [row for row in everything if row.estimated is not None]
    lines = [
        "",
        "## Public rows",
        "",
        f"GPUMemNet trained [{len(timm['models'])} models of timm]({timm['source']}) with "
        f"{len(timm['batches'])} batches each, and [encoders of torch.nn]({encoders['source']}), "
        "on an A100 of 40 GB, and took what nvidia-smi showed at most: the driver's share, "
        "CUDA's context and all that the allocator had kept beside the tensors. Estimates are "
        "those of `rgt fit FILE.py:NAME`, in fp32, with SGD and momentum for timm, which its "
        "training script takes by default, and AdamW for the encoders. Rows in which the run "
        "can't have ended are left out: those that show no more than a smaller batch, or more "
        f"than {grading.FULL:,} MiB. Of the {encoders['published']:,} encoders, "
        f"{len(encoders['rows'])} could be had, the whole rows of five places in the file.",
        "",
        _row("Rows", "Covered", "Limit", "Half", "Run", "Die", "Left unused (median)"),
        "|---|---|---|---|---|---|---|",
    ]
    for what, rows in (
        (f"timm, at most {grading.FEW} convolutions", attention),
        ("timm, more convolutions", convolutions),
        ("encoders", small),
        ("timm without more convolutions, and encoders", [*attention, *small]),
    ):
        lines += _halves(what, rows)
    lines += [
        "",
        f"{len(covered)} of {len(everything)} rows are covered ({len(covered) / len(everything):.0%}), "
        "torchtune's below among them.",
        *_said(attention, convolutions, small),
        "Models of convolutions miss the mark: cuDNN tries kernels that want workspace, in "
        "proportion to the batch, and the allocator keeps it. Nothing counts that, so `fit` names "
        "it beside its answer. A limit would make cuDNN take other kernels; what nvidia-smi shows "
        "is more than such a run needs.",
        "",
        f"Of the {len(tuned)} rows of [torchtune's README]({grading.TORCHTUNE}), `fit` has options "
        f"for {len(known)}; too few to set a margin on. The others have the optimizer within the "
        "backward pass, activations or weights on the host, or don't say how long samples are. "
        "GPUMemNet's six models of transformers don't say precision and optimizer. LLaMA-Factory's "
        "table is estimated by its authors, and names neither batch nor length.",
        "",
        _row("torchtune", "Published", "Estimated", "Difference"),
        "|---|---|---|---|",
    ]
    for row in known:
        told, reckoned = row.took, row.estimated or 0.0
        lines.append(_row(row.name, f"{told:.1f}", f"{reckoned:.1f}", _off(told, reckoned)))
    return lines


def _before(before: dict, limits: dict, public: dict) -> list[str]:
    """The measures of an older `fit` on the same rows, and today's."""
    older = grading.Margin(before["margin"]["fixed"], before["margin"]["share"])
    runs = grading.limited(limits)
    lines = [
        "",
        "## Before and after",
        "",
        f"The same rows by `fit` of {before['commit']}, which read a config.json alone. It said "
        f"that a run fits where the estimate and {older.share:.0%} and {older.fixed:.2f} GiB are "
        f"there. `rgt fit FILE.py:NAME` was refused ({_quoted(before['a_model_of_ones_own'])}), so no "
        "row of timm or the encoders was covered. Its AdamW is compared with today's "
        "`adamw-foreach`, as it had one.",
        "",
        _row("Rows", "Fit", "Covered", "Limit", "Run", "Die", "Left unused (median)"),
        "|---|---|---|---|---|---|---|",
    ]
    for what, checkpointing in (("without checkpointing", False), ("with checkpointing", True)):
        now = [row for row, run in runs if run.checkpointing is checkpointing]
        then = [
            grading.Row(row.name, row.took, peak and peak / GIB)
            for row in now
            for peak in [before["peaks"][row.name]]
        ]
        room = solve.UNCERTAIN_CHECKPOINTING if checkpointing else solve.UNCERTAIN
        what = f"H100, {what}"
        lines += [
            _judged(what, before["commit"], then, older),
            _judged(what, "today", now, grading.Margin(CONTEXT * (1 + room), room)),
        ]
    few, many = grading.timm(public, False), grading.timm(public, True)
    for what, rows in (
        ("timm without more convolutions, and encoders", [*few, *grading.encoders(public)]),
        ("timm, more convolutions", many),
    ):
        tuning, graded = grading.halves(rows)
        missing = [grading.Row(row.name, row.took, None) for row in rows]
        lines += [
            _judged(what, before["commit"], missing, older),
            _judged(f"{what}, graded half", "today", graded, grading.margin_for(tuning), rows),
        ]
    tuned = [row for row in grading.torchtune(LLAMA3S) if row.estimated is not None]
    then = {row.name: before["peaks"][row.name] / GIB for row in tuned if before["peaks"][row.name]}
    far = [
        max(abs(estimated / row.took - 1) for row, estimated in pairs)
        for pairs in (
            [(row, then[row.name]) for row in tuned if row.name in then],
            [(row, row.estimated or 0.0) for row in tuned],
        )
    ]
    return [
        *lines,
        "",
        f"Of torchtune's rows, {before['commit']} covered {len(then)}, off by at most {far[0]:.1%}; "
        f"today {len(tuned)} are covered, off by at most {far[1]:.1%}.",
    ]


def _quoted(line: str) -> str:
    """An error as a person saw it, without what to do."""
    return f"`{line.partition(';')[0]}`"


def _judged(
    what: str,
    which: str,
    rows: list[grading.Row],
    margin: grading.Margin,
    every: list[grading.Row] | None = None,
) -> str:
    """A row of the table: how a margin does on the rows that are covered, of all or of `every`."""
    known = [row for row in rows if row.estimated is not None]
    covered = [row for row in every or rows if row.estimated is not None]
    share = f"{len(covered) / len(every or rows):.0%}"
    if not known:
        return _row(what, which, share, "none", "0", "-", "-")
    found = grading.grade(known, margin)
    limit = f"estimate + {margin.share:.0%} + {margin.fixed:.2f} GiB"
    die = f"{found.die} ({found.die / found.rows:.1%})"
    return _row(what, which, share, limit, str(found.rows), die, f"{found.unused:.1%}")


def adapters() -> list[tuple[str, int, int, int]]:
    """[(model, adapters that peft makes, those of older libraries, those by `fit`)]."""
    return [
        (name, now, older, lora_count(model_of(config), Run(lora=ADAPTED_RANK)))
        for name, (config, now, older) in ADAPTED.items()
    ]


def _adapted() -> list[str]:
    """What LoRA trains of models with experts, beside what peft makes."""
    data = weight_formulas.formulas()
    return [
        "",
        "## Adapters of experts",
        "",
        f'Numbers that LoRA of rank {ADAPTED_RANK} trains with `target_modules="all-linear"`, in '
        "millions, counted on the meta device. Where experts are adapted, peft gives two matrices "
        "that were joined twice the rank, and adapts the router too.",
        "",
        _row(
            "Model",
            f"peft {data['peft']}, transformers {data['transformers']}",
            "peft 0.18.0, transformers 4.57.2",
            "`fit`",
        ),
        "|---|---|---|---|",
        *(_row(name, *(f"{count / 1e6:,.1f}" for count in counts)) for name, *counts in adapters()),
        "",
        "The older transformers has a matrix for each product of each expert, and peft adapts them "
        "one by one; gpt-oss's are joined there too. peft 0.20.0 and 0.21.0 make the same as "
        f"{data['peft']}. peft 0.19.1 refuses Mixtral, Qwen3-MoE, DeepSeek-V3 and OLMoE with these "
        'transformers ("Target modules ... not found"). `tests/fit/test_weights.py` compares each '
        "type that has experts, and each model above, with what peft makes.",
    ]


def _counted() -> list[str]:
    """For how many types the weights are the library's."""
    data = weight_formulas.formulas()
    return [
        "",
        "## Weights",
        "",
        f"The weights of {len(data['types'])} model types are counted by formulas, and equal to those "
        f"of transformers {data['transformers']} on the meta device: "
        "`tests/fit/test_weights.py` compares the default and four small configs of each, drawn by "
        f"chance. {len(data['left_out'])} types were tried and left out; `model_weights.json` says "
        "why. Of any other type `fit` says that it guesses.",
    ]


def _said(
    attention: list[grading.Row], convolutions: list[grading.Row], small: list[grading.Row]
) -> list[str]:
    """How often nvidia-smi showed more than the margins that `fit` says."""
    told = []
    for rows, room in (
        ([*attention, *small], solve.UNCERTAIN),
        (convolutions, traced_report.UNCERTAIN_CONVOLUTIONS),
    ):
        known = [row for row in rows if row.estimated is not None]
        own = grading.grade(known, grading.Margin(CONTEXT * (1 + room), room))
        wide = grading.grade(known, grading.Margin(A100_BESIDE, room))
        told.append(
            f"{room:.0%}: {own.die} of {own.rows} showed more, and {wide.die} "
            f"({wide.die / wide.rows:.1%}, {wide.unused:.1%} unused) with {A100_BESIDE} GiB beside "
            "the estimate"
        )
    return [
        "`fit` itself says less, as the H100 showed that runs live in less than nvidia-smi shows. "
        f"Without many convolutions {told[0]}. With them {told[1]}.",
    ]


def _halves(what: str, rows: list[grading.Row]) -> list[str]:
    """A margin set on one half of the rows and graded on the other."""
    tuning, graded = grading.halves(rows)
    margin = grading.margin_for(tuning)
    limit = f"estimate + {margin.share:.0%} + {margin.fixed:.2f} GiB"
    share = f"{(len(tuning) + len(graded)) / len(rows):.0%}"
    lines = []
    for half, found in (
        ("set", grading.grade(tuning, margin)),
        ("graded", grading.grade(graded, margin)),
    ):
        die = f"{found.die} ({found.die / found.rows:.1%})"
        lines.append(_row(what, share, limit, half, str(found.rows), die, f"{found.unused:.1%}"))
    return lines
