"""What `rgt fit` says of runs that others published: of each it is known what it took, or that it died.

Their addresses stand in `fit/measured_runs.json`, where the figure could be read again. Cards and settings that a source
doesn't tell are suppositions.
"""

import json

import pytest
from remote_gpu_trainer.cli.main import main


def qwen(hidden, layers, heads, size, words=151936):
    """A config of Qwen 1, whose two matrices share `size`."""
    return {"model_type": "qwen", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": size, "vocab_size": words, "layer_norm_epsilon": 1e-6}  # fmt: skip


Q18 = qwen(2048, 24, 16, 11008)
Q7 = qwen(4096, 32, 32, 22016)
Q14 = qwen(5120, 40, 40, 27392, 152064)
Q72 = qwen(8192, 80, 64, 49152, 152064)
Y6 = dict(
    model_type="llama",
    hidden_size=4096,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=4,
    intermediate_size=11008,
    vocab_size=64000,
    rms_norm_eps=1e-5,
    hidden_act="silu",
    tie_word_embeddings=False,
)
Y34 = dict(
    Y6,
    hidden_size=7168,
    num_hidden_layers=60,
    num_attention_heads=56,
    num_key_value_heads=8,
    intermediate_size=20480,
)
B13 = dict(
    model_type="baichuan",
    hidden_size=5120,
    num_hidden_layers=40,
    num_attention_heads=40,
    intermediate_size=13696,
    vocab_size=125696,
    rms_norm_eps=1e-6,
    hidden_act="silu",
)
C3 = dict(
    model_type="chatglm",
    hidden_size=4096,
    num_layers=28,
    num_attention_heads=32,
    ffn_hidden_size=13696,
    kv_channels=128,
    multi_query_attention=True,
    multi_query_group_num=2,
    padded_vocab_size=65024,
    rmsnorm=True,
    seq_length=8192,
)
RB = dict(
    model_type="roberta",
    architectures=["RobertaForSequenceClassification"],
    hidden_size=1024,
    num_hidden_layers=24,
    num_attention_heads=16,
    intermediate_size=4096,
    vocab_size=50265,
    max_position_embeddings=514,
    hidden_act="gelu",
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
)
G3 = dict(
    model_type="gemma3",
    text_config=dict(
        model_type="gemma3_text",
        hidden_size=3840,
        num_hidden_layers=48,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=256,
        intermediate_size=15360,
        vocab_size=262208,
    ),
    vision_config=dict(
        model_type="siglip_vision_model",
        hidden_size=1152,
        num_hidden_layers=27,
        num_attention_heads=16,
        intermediate_size=4304,
        image_size=896,
        patch_size=14,
    ),
)
L7 = "meta-llama/Llama-2-7b-hf"
M7 = "mistralai/Mistral-7B-v0.1"
L8 = "meta-llama/Llama-3.1-8B"
MX = "mistralai/Mixtral-8x7B-v0.1"
LORA = "--precision bf16 --checkpointing --attention flash --lora "
A = "A100-80GB"
# What it is, its model, how it was trained, the card, the GiB that were told, and whether it ran.
CASES = [
    ("Qwen-7B LoRA", Q7, LORA + "64 --sequence 2048 --accumulation 8", A, 23.8, "ran"),
    ("Qwen-7B LoRA, 8192 tokens", Q7, LORA + "64 --sequence 8192 --accumulation 8", A, 36.6, "ran"),
    (
        "Qwen-14B on GPTQ",
        Q14,
        "--precision 4bit-bf16 --checkpointing --attention flash --lora 64 --sequence 4096 --accumulation 8",
        A,
        23.0,
        "ran",
    ),
    (
        "Qwen-1.8B full",
        Q18,
        "--precision bf16-mixed --checkpointing --attention flash --sequence 2048 --accumulation 8",
        A,
        43.5,
        "ran",
    ),
    (
        "Qwen-72B LoRA, ZeRO-3",
        Q72,
        LORA + "64 --sequence 2048 --sharding zero3 --gpus 4",
        A,
        57.2,
        "ran",
    ),
    (
        "Qwen-72B LoRA, DDP",
        Q72,
        LORA + "64 --sequence 2048 --gpus 4 --sharding ddp",
        A,
        None,
        "died",
    ),
    ("Yi-6B LoRA", Y6, LORA + "8 --sequence 2048 --accumulation 16", A, 16.95, "ran"),
    ("Yi-34B LoRA", Y34, LORA + "8 --sequence 4096 --accumulation 16", A, 78.72, "ran"),
    (
        "Qwen-7B full",
        Q7,
        "--precision bf16 --checkpointing --attention flash --sequence 2048 --accumulation 16",
        A,
        74.26,
        "ran",
    ),
    (
        "Qwen-7B LoRA, eager",
        Q7,
        "--precision bf16 --lora 8 --attention eager --sequence 2048 --accumulation 16",
        A,
        57.67,
        "ran",
    ),
    (
        "Qwen-7B LoRA, flash",
        Q7,
        "--precision bf16 --lora 8 --attention flash --sequence 2048 --accumulation 16",
        A,
        37.70,
        "ran",
    ),
    (
        "Baichuan2-13B LoRA",
        B13,
        "--precision bf16 --checkpointing --lora 8 --attention eager --sequence 4096 --accumulation 16",
        A,
        49.63,
        "ran",
    ),
    (
        "ChatGLM3-6B LoRA",
        C3,
        "--precision bf16 --checkpointing --lora 8 --sequence 2048 --accumulation 16",
        A,
        17.20,
        "ran",
    ),
    (
        "Llama 2 7B QLoRA, 16384 tokens",
        L7,
        "--precision 4bit --lora 8 --checkpointing --attention flash --sequence 16384",
        "A100-40GB",
        19,
        "ran",
    ),
    (
        "Llama 2 7B QLoRA, 65536 tokens",
        L7,
        "--precision 4bit --lora 8 --checkpointing --attention flash --sequence 65536",
        "A100-40GB",
        None,
        "died",
    ),
    ("Llama 2 7B LoRA", L7, LORA + "8 --batch 4 --sequence 1024", "A100-40GB", 17, "ran"),
    (
        "RoBERTa-large full",
        RB,
        "--precision fp32 --batch 64 --sequence 96 --attention eager",
        "24",
        17,
        "ran",
    ),
    (
        "RoBERTa-large LoRA",
        RB,
        "--precision fp32 --lora 8 --targets qv --batch 64 --sequence 96 --attention eager",
        "24",
        12,
        "ran",
    ),
    ("Llama 7B full, batch 6", L7, "--precision bf16 --batch 6 --sequence 1024", A, None, "ran"),
    ("Llama 7B full, batch 7", L7, "--precision bf16 --batch 7 --sequence 1024", A, None, "died"),
    (
        "Mistral-7B on 8 bit",
        M7,
        "--precision 8bit --lora 32 --batch 2 --sequence 4096",
        A,
        None,
        "died",
    ),
    ("GPT-2", "gpt2", "--precision fp32 --batch 8 --sequence 512", "16", 8, "ran"),
    (
        "Llama 3 8B, FSDP",
        L8,
        "--precision bf16 --checkpointing --sharding fsdp --gpus 8 --batch 8 --sequence 4096",
        A,
        None,
        "died",
    ),
    (
        "Llama 3 8B, FSDP, Liger",
        L8,
        "--precision bf16 --checkpointing --sharding fsdp --gpus 8 --batch 8 --sequence 16384 --liger",
        A,
        None,
        "ran",
    ),
    (
        "Qwen2.5-7B full, ZeRO-3, Liger",
        "Qwen/Qwen2.5-7B",
        "--precision bf16-mixed --checkpointing --sharding zero3 --gpus 4 --sequence 16384 --liger",
        A,
        42,
        "ran",
    ),
    (
        "Mixtral QLoRA",
        MX,
        "--precision 4bit --lora 8 --targets qv --checkpointing --attention flash --sequence 1024 --transformers 4",
        A,
        28,
        "ran",
    ),
    (
        "Mixtral LoRA, DDP",
        MX,
        "--precision fp16-mixed --lora 8 --checkpointing --sharding ddp --gpus 8 --sequence 1024 --transformers 4",
        A,
        None,
        "died",
    ),
    (
        "Gemma 3 12B on 8 bit, 15000 tokens",
        G3,
        "--precision 8bit --lora 16 --checkpointing --sequence 15000",
        "H100-80GB",
        None,
        "died",
    ),
    (
        "Gemma 3 12B on 8 bit, 14000 tokens",
        G3,
        "--precision 8bit --lora 16 --checkpointing --sequence 14000",
        "H100-80GB",
        None,
        "ran",
    ),
    (
        "Qwen2-7B LoRA, 32768 tokens",
        "Qwen/Qwen2.5-7B",
        LORA + "8 --sequence 32768 --sharding zero3 --gpus 8 --offload",
        A,
        None,
        "died",
    ),
    (
        "Vicuna-7B full, FSDP",
        L7,
        "--precision bf16 --checkpointing --sharding fsdp --gpus 4 --sequence 2048 --batch 2",
        "A100-40GB",
        None,
        "ran",
    ),
    (
        "Qwen3-32B LoRA, FSDP",
        "Qwen/Qwen3-32B",
        LORA + "128 --sharding fsdp --gpus 24 --sequence 24576",
        "H100-80GB",
        None,
        "died",
    ),
    (
        "Qwen2.5-7B LoRA, DPO",
        "Qwen/Qwen2.5-7B",
        "--precision bf16 --lora 16 --checkpointing --dpo --sequence 2048",
        "24",
        19.08,
        "ran",
    ),
]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """(case, what fit says) of each."""
    from contextlib import redirect_stdout
    from io import StringIO

    folder, found = tmp_path_factory.mktemp("configs"), []
    for case in CASES:
        name, model, words, card, *_ = case
        if isinstance(model, dict):
            path = folder / f"{len(found)}.json"
            path.write_text(json.dumps(model))
            model = str(path)
        told = StringIO()
        with redirect_stdout(told):
            code = main(["fit", model, *words.split(), "--gpu", card, "--json"])
        found.append((case, code, json.loads(told.getvalue())))
    return found


def test_no_run_that_died_is_said_to_fit(answers):
    died = [(case[0], code) for case, code, _ in answers if case[5] == "died"]
    assert len(died) == 9 and [one for one in died if one[1] == 0] == []


def test_no_run_that_ran_is_said_not_to_fit(answers):
    ran = [(case[0], told["verdict"]) for case, _, told in answers if case[5] == "ran"]
    assert len(ran) == 24 and [one for one in ran if one[1] not in ("fits", "tight")] == []


def test_what_is_clear_by_far_is_no_question(answers):
    assert [case[0] for case, _, told in answers if told["verdict"] == "not known"] == []
    clear = [case[0] for case, _, told in answers if told["verdict"] != "tight"]
    assert len(clear) >= 18


def test_most_figures_lie_within_20_percent_of_the_estimate(answers):
    off = {case[0]: told["need_gib"] / case[4] - 1 for case, _, told in answers if case[4]}
    assert len(off) == 20
    assert sorted(name for name, share in off.items() if abs(share) > 0.2) == ["Baichuan2-13B LoRA"]
    assert sum(abs(share) <= 0.1 for share in off.values()) >= 13


def test_every_figure_lies_in_the_range_that_is_told(answers):
    outside = [
        (case[0], told["least_gib"], case[4], told["most_gib"])
        for case, _, told in answers
        if case[4] and not told["least_gib"] <= case[4] <= told["most_gib"]
    ]
    assert outside == []
