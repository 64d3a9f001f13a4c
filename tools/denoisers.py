"""Count what training the denoisers of well-known diffusion pipelines takes, for `rgt fit NAME`.

    python tools/denoisers.py            # write server/remote_gpu_trainer/fit/denoisers.json

Needs torch and diffusers. Each denoiser is built on torch's meta device and run on one sample of
the size that it was made for, by the program that `rgt fit FILE.py:NAME` uses.
"""

from __future__ import annotations

import json
import sys
from datetime import date
from importlib import metadata
from pathlib import Path

import torch

# torchvision's compiled operators want a CUDA build of torch; diffusers needs their names only.
if not hasattr(torch.ops.torchvision, "nms"):
    OPERATORS = torch.library.Library("torchvision", "DEF")
    for _name in ("nms", "qnms"):
        OPERATORS.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

OUT = Path(__file__).resolve().parent.parent / "server/remote_gpu_trainer/fit/denoisers.json"
RANK = 16  # of the adapters that are counted
MIXED = "bf16-mixed"
WAYS = [(lora, checkpointing) for lora in (0, RANK) for checkpointing in (False, True)]


class Denoiser(torch.nn.Module):
    """A denoiser that is called with the latents and the words of a sample."""

    def __init__(self, inner: torch.nn.Module, call) -> None:
        super().__init__()
        self.inner, self.call = inner, call

    def forward(self, latents: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """The denoised latents."""
        return self.call(self.inner, latents, words)[0]


def _times(latents: torch.Tensor) -> torch.Tensor:
    return torch.zeros(latents.shape[0], device=latents.device)


def _zeros(latents: torch.Tensor, *sides: int) -> torch.Tensor:
    return torch.zeros(*sides, device=latents.device, dtype=latents.dtype)


def _unet(model, latents, words):
    return model(latents, _times(latents), words, return_dict=False)


def _sdxl(model, latents, words):
    many = latents.shape[0]
    more = {"text_embeds": _zeros(latents, many, 1280), "time_ids": _zeros(latents, many, 6)}
    return model(latents, _times(latents), words, added_cond_kwargs=more, return_dict=False)


def _pooled(width: int):
    def call(model, latents, words):
        pooled = _zeros(latents, latents.shape[0], width)
        return model(latents, words, pooled, _times(latents), return_dict=False)

    return call


def _flux(model, latents, words):
    many = latents.shape[0]
    return model(
        hidden_states=latents,
        encoder_hidden_states=words,
        pooled_projections=_zeros(latents, many, 768),
        timestep=_times(latents),
        img_ids=_zeros(latents, latents.shape[1], 3),
        txt_ids=_zeros(latents, words.shape[1], 3),
        guidance=_times(latents),
        return_dict=False,
    )


def sd_1_5() -> Denoiser:
    """Stable Diffusion 1.x."""
    from diffusers import UNet2DConditionModel

    return Denoiser(UNet2DConditionModel(sample_size=64, cross_attention_dim=768), _unet)


def sdxl() -> Denoiser:
    """Stable Diffusion XL."""
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(
        sample_size=128,
        cross_attention_dim=2048,
        block_out_channels=(320, 640, 1280),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        transformer_layers_per_block=(1, 2, 10),
        attention_head_dim=(5, 10, 20),
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=256,
        projection_class_embeddings_input_dim=2816,
    )
    return Denoiser(model, _sdxl)


def sd_3() -> Denoiser:
    """Stable Diffusion 3 medium."""
    from diffusers import SD3Transformer2DModel

    model = SD3Transformer2DModel(
        sample_size=128,
        num_layers=24,
        num_attention_heads=24,
        caption_projection_dim=1536,
        pos_embed_max_size=192,
    )
    return Denoiser(model, _pooled(2048))


def flux() -> Denoiser:
    """FLUX.1 dev."""
    from diffusers import FluxTransformer2DModel

    return Denoiser(FluxTransformer2DModel(guidance_embeds=True), _flux)


# Weights of what stands beside a denoiser: CLIP L and bigG as transformers has them in these
# pipelines, the encoder of T5 1.1 XXL, and a VAE.
CLIP_L, CLIP_G, T5_XXL, VAE = 123_000_000, 695_000_000, 4_762_000_000, 84_000_000
# The name of the function above, the pipelines that have this denoiser, the side of an image, the
# sides of a sample's latents and words, and the weights beside it.
PIPELINES = {
    "sd_1_5": (
        [
            "stable-diffusion-v1-5/stable-diffusion-v1-5",
            "runwayml/stable-diffusion-v1-5",
            "CompVis/stable-diffusion-v1-4",
        ],
        512,
        ([4, 64, 64], [77, 768]),
        CLIP_L + VAE,
    ),
    "sdxl": (
        [
            "stabilityai/stable-diffusion-xl-base-1.0",
            "stabilityai/sdxl-turbo",
        ],
        1024,
        ([4, 128, 128], [77, 2048]),
        CLIP_L + CLIP_G + VAE,
    ),
    "sd_3": (
        [
            "stabilityai/stable-diffusion-3-medium-diffusers",
            "stabilityai/stable-diffusion-3-medium",
        ],
        1024,
        ([16, 128, 128], [333, 4096]),
        CLIP_L + CLIP_G + T5_XXL + VAE,
    ),
    "flux": (
        [
            "black-forest-labs/FLUX.1-dev",
            "black-forest-labs/FLUX.1-schnell",
            "black-forest-labs/FLUX.1-Kontext-dev",
        ],
        1024,
        ([4096, 64], [512, 4096]),
        CLIP_L + T5_XXL + VAE,
    ),
}


def counted(name: str) -> dict:
    """What is known of a denoiser: its names, the size of an image, and each way to train it."""
    from remote_gpu_trainer.cli.fit_module import _asked

    names, side, inputs, beside = PIPELINES[name]
    ways = {}
    for lora, checkpointing in WAYS:
        request = {
            "file": __file__,
            "name": name,
            "args": {},
            "inputs": [{"kind": "float", "sides": sides} for sides in inputs],
            "batch": 1,
            "precision": MIXED,
            "attention": "sdpa",
            "lora": lora,
            "checkpointing": checkpointing,
        }
        told = _asked(sys.executable, request)
        if "lines" not in told:
            raise SystemExit(f"{name}: {told.get('not_run')}")
        key = ("lora" if lora else "full") + (", checkpointing" if checkpointing else "")
        ways[key] = told
        print(name, key, {k: v for k, v in told.items() if k != "lines"}, file=sys.stderr)
    return {"names": names, "side": side, "beside": beside, "ways": ways}


def as_text(table: dict) -> str:
    """The table as JSON, with a line for each way to train a denoiser."""
    rows = []
    for row in table["denoisers"]:
        ways = ",\n".join(
            f"   {json.dumps(way)}: {json.dumps(told)}" for way, told in row["ways"].items()
        )
        head = ", ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in row.items() if k != "ways")
        rows.append(f'  {{{head}, "ways": {{\n{ways}\n  }}}}')
    head = ", ".join(
        f"{json.dumps(k)}: {json.dumps(v)}" for k, v in table.items() if k != "denoisers"
    )
    return f'{{{head},\n "denoisers": [\n' + ",\n".join(rows) + "\n ]\n}\n"


def main() -> None:
    """Write the table."""
    table = {
        "diffusers": metadata.version("diffusers"),
        "rank": RANK,
        "date": date.today().isoformat(),
        "denoisers": [counted(name) for name in PIPELINES],
    }
    OUT.write_text(as_text(table), encoding="utf-8")


if __name__ == "__main__":
    main()
