"""Models of images and videos by what people call them, with the weights that are trained."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ImageModel:
    """A model of images or videos: the pattern of what people call it, and the weights of the part
    that is trained, the denoiser."""

    called: str
    weights: int


# As pages tell that cite the makers, read on 2026-11-30: SDXL and Stable Diffusion 1.4 by table
# 1 of arXiv 2307.01952, FLUX.1 and HunyuanVideo by their model cards.
IMAGE_MODELS = {
    "SDXL": ImageModel(r"(?<![a-z])sd[ -]?xl(?![a-z])|stable ?diffusion ?xl", 2_600_000_000),
    "Stable Diffusion 1.5": ImageModel(
        r"(?<![a-z])sd[ -]?v?1\.[45](?!\d)|stable ?diffusion ?v?1\.[45]", 860_000_000
    ),
    "FLUX.1": ImageModel(r"(?<![a-z])flux(?:[. -]?1)?(?![a-z]|[. -]?2)", 12_000_000_000),
    "HunyuanVideo": ImageModel(r"hunyuan ?-?video(?![ -]?1\.5)", 13_000_000_000),
}
