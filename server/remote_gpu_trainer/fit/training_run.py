"""How a model is trained: the choices that `rgt fit` knows, and which of them go together."""

from __future__ import annotations

from dataclasses import dataclass

from ..text import BadRequest
from .model_shape import Model

USUAL_LENGTH = 2048  # tokens of a sample where nothing says how many
PRECISIONS = ("fp32", "bf16-mixed", "fp16-mixed", "bf16", "8bit", "4bit", "4bit-bf16")
CALLED = {"fp16": "fp16-mixed"}  # what trainers call it; nobody trains with all numbers in fp16
SHARDINGS = ("none", "ddp", "zero1", "zero2", "zero3", "fsdp")
TARGETS = ("all-linear", "attention", "qv")
ATTENTIONS = ("sdpa", "flash", "eager")
# Bytes of a quantized number with its scales. bitsandbytes stores int8 with a scale for each row,
# and nf4 with a 4-byte scale for each block of 64. "4bit-bf16" is what QLoRA's authors and
# torchtune train: the scales of nf4 are quantized too (a byte for each block, and a 4-byte scale
# for 256 blocks), and all else is bf16.
QUANTIZED = {"8bit": 1.0, "4bit": 0.5 + 4 / 64, "4bit-bf16": 0.5 + 1 / 64 + 4 / (64 * 256)}


@dataclass(frozen=True)
class Run:
    """How a model is trained.

    `batch` and `sequence` are the samples on each GPU and the tokens of each sample. `lora` is the
    rank of the adapters, 0 to train all weights. `gpus` share the work. `accumulation` is the
    number of batches in a step. `liger`: Liger's kernels fuse the loss, the gated layers and RMS
    norms. `dpo`: pairs of samples, and a reference model beside the one that is trained.
    """

    batch: int = 1
    sequence: int = 2048
    precision: str = "bf16-mixed"
    optimizer: str = "adamw"
    lora: int = 0
    targets: str = "all-linear"
    sharding: str = "none"
    gpus: int = 1
    checkpointing: bool = False
    attention: str = "sdpa"
    chunked_loss: bool = False
    offload: bool = False
    accumulation: int = 1
    liger: bool = False
    dpo: bool = False

    @property
    def samples(self) -> int:
        """Return the sequences of one batch on one GPU: DPO's have a chosen and a rejected one."""
        return self.batch * (2 if self.dpo else 1)

    @property
    def tokens(self) -> int:
        """Return the tokens of one batch on one GPU."""
        return self.samples * self.sequence

    @property
    def quantized(self) -> bool:
        """Return whether the base model is stored in 8 or 4 bit."""
        return self.precision in QUANTIZED

    @property
    def full(self) -> bool:
        """Return whether all weights are trained."""
        return not self.lora and not self.quantized

    @property
    def all_in_16_bit(self) -> bool:
        """Return whether the trained numbers are bf16, and their gradients and states too."""
        return self.precision == "4bit-bf16" or (self.precision == "bf16" and self.full)

    @property
    def autocast(self) -> bool:
        """Return whether weights are fp32 and each product casts its inputs to 16 bit.

        ZeRO and FSDP cast whole layers instead.
        """
        shards = self.sharding in ("zero1", "zero2", "zero3", "fsdp")
        return self.precision in ("8bit", "4bit") or ("mixed" in self.precision and not shards)

    @property
    def product_bytes(self) -> int:
        """Return the bytes of a number in a matrix product."""
        return 4 if self.precision == "fp32" else 2

    @property
    def stream_bytes(self) -> int:
        """Return the bytes of a number that one layer hands to the next."""
        if self.lora and self.precision not in ("8bit", "4bit", "fp32"):
            return 2  # the base is stored in 16 bit, or its embeddings are
        return 4 if self.autocast or self.precision == "fp32" else 2


def check(run: Run) -> Run:
    """Return the run. Raises BadRequest for numbers and choices that don't go together."""
    for name, most in (("batch", 10**6), ("sequence", 10**8), ("accumulation", 10**6)):
        value = getattr(run, name)
        if not 1 <= value <= most:
            raise BadRequest(f"--{name} is {value}; give a whole number from 1 to {most}")
    if not 1 <= run.gpus <= 10**6:
        raise BadRequest(f"--gpus is {run.gpus}; give a whole number from 1 to 1000000")
    if not 0 <= run.lora <= 10**5:
        raise BadRequest(f"--lora is {run.lora}; give a rank from 1 to 100000, or 0 for none")
    if run.quantized and not run.lora:
        raise BadRequest(f"a base in {run.precision} isn't trained itself; add --lora 16")
    if run.sharding in ("ddp", "fsdp") and run.gpus == 1:
        raise BadRequest(f"--sharding {run.sharding} on one GPU divides nothing; add --gpus N")
    return run


def length_of(model: Model, asked: int | None) -> int:
    """Return the tokens of a sample: those asked for, or the usual number if the model takes it.

    Raises BadRequest for more than the model can take.
    """
    if asked and 0 < model.longest < asked:
        raise BadRequest(
            f"--sequence is {asked}, and the model has positions for {model.longest} tokens: "
            f"a longer sample stops it; give at most {model.longest}"
        )
    return asked or model.tokens or min(USUAL_LENGTH, model.longest or USUAL_LENGTH)


def remarks(model: Model, run: Run, asked: int | None) -> list[str]:
    """Return what to know about the length of the samples."""
    if not asked and not model.tokens and 0 < model.longest < USUAL_LENGTH:
        return [f"samples of {model.longest} tokens, the most that the model has positions for"]
    if not model.tokens and not model.longest and 0 < model.made_for < run.sequence:
        return [
            f"{run.sequence} tokens are more than the {model.made_for} of the config: the memory "
            "is as reckoned, but beyond them a model that wasn't trained so writes nonsense [L5]"
        ]
    return []
