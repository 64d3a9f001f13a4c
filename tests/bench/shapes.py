"""The 22 shapes of the census, what lies over each, and what its user writes into the job."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass, field

BOX = "/mnt/box"  # the disk of the box, HOME on it


@dataclass(frozen=True)
class Shape:
    """A program and its job.

    `share`: of its half of the census, in percent. `saves`: whether it saves while it trains. `resume`: the job's field. `settings`: of the
    program, beyond those of every cell. `launcher`: how the command starts it: python, tee, own file, swallows TERM, older.
    """

    name: str
    kind: str
    share: int
    out: str = "out"
    pattern: str = ""
    results: tuple[str, ...] = ()
    resume: object = "none"
    saves: bool = True
    roles: tuple[str, ...] = ("checkpoint",)
    launcher: str = "python"
    settings: dict = field(default_factory=dict)

    @property
    def resumes(self) -> bool:
        return self.resume != "none"


def shape(name: str, kind: str, share: int, prints: str, **more) -> Shape:
    """A shape; what isn't a field of it is a setting of its program."""
    fields = {key: more.pop(key) for key in list(more) if key in Shape.__dataclass_fields__}
    return Shape(name, kind, share, settings={"prints": prints, **more}, **fields)


WORK = f"{BOX}/work"
PLAIN = (
    shape("end-only", "EndOnly", 9, "step", results=("out/final.pt",), saves=False, roles=("final",)),
    shape("end-only-silent", "EndOnlySilent", 10, "silent", out="weights", results=("weights/model.pth",),
          saves=False, roles=("final",), wrong_exit=True),
    shape("best-only", "BestOnly", 11, "bar", out="checkpoints", results=("checkpoints/best_model.pth",), roles=("best",)),
    shape("in-place", "InPlace", 6, "step", pattern="*.pt", results=("out/checkpoint.pt",), resume="automatic",
          roles=("last",)),
    shape("fresh-folder", "Fresh", 9, "logger", out="outputs", results=("outputs/*/best.pth",), roles=("last", "best")),
    shape("numbered-resume", "NumberedResume", 8, "step", pattern="ckpt_*.pt", results=("out/ckpt_*.pt",),
          resume={"flag": "--resume"}, roles=("numbered",), children=True),
    shape("numbered-weights", "NumberedWeights", 13, "epoch", out="models", results=("models/final_model.pth",),
          roles=("numbered",), launcher="tee"),
    shape("numbered-state", "NumberedState", 6, "step", out=f"{WORK}/run1", results=(f"{WORK}/run1/model_*.pth.tar",),
          roles=("numbered",), wipe=True),
    shape("auto-resume", "AutoResume", 8, "step", pattern="latest.pt", results=("out/best.pt",), resume="automatic",
          roles=("last", "best"), children=True),
    shape("flag-resume", "FlagResume", 3, "bar+epoch", out="exp/default", pattern="checkpoint_last.pt",
          results=("exp/default/checkpoint_best.pt",), resume={"flag": "--resume"}, roles=("last", "best")),
    shape("two-models", "TwoModels", 9, "step", out=f"{WORK}/gan", results=(f"{WORK}/gan/G_best.npz",),
          roles=("last", "best"), launcher="own file", handler=True),
    shape("saves-nothing", "Nothing", 9, "step", out="results", results=("results/metrics.csv",), saves=False, roles=()),
)  # fmt: skip
FRAMEWORKS = (
    shape("hf", "HuggingFace", 28, "dict", pattern="checkpoint-*", results=("out/model.safetensors",)),
    shape("hf-outside", "HuggingFaceOutside", 14, "dict", pattern="checkpoint-*", sharded=True,
          results=("merged_16bit/model.safetensors.index.json",)),
    shape("hf-limit", "HuggingFaceLimit", 14, "dict", pattern="checkpoint-*", results=("out/final/model.safetensors",),
          final_folder="final", children=True),
    shape("hf-auto", "HuggingFaceAuto", 8, "dict", pattern="checkpoint-*", results=("out/model.safetensors",),
          resume="automatic"),
    shape("hf-flag", "HuggingFaceFlag", 6, "dict", pattern="checkpoint-*", sharded=True,
          results=("out/model.safetensors.index.json",), resume={"flag": "--resume_from_checkpoint"}),
    shape("lightning", "Lightning", 10, "bar on stdout", out="lightning_logs",
          results=("lightning_logs/*/checkpoints/*.ckpt",)),
    shape("ultralytics", "Ultralytics", 6, "bar on stdout", out="runs/detect",
          results=("runs/detect/train*/weights/best.pt",), roles=("last", "best")),
    shape("accelerate", "Accelerate", 7, "bar", pattern="checkpoint-*", out=f"{WORK}/lora",
          results=(f"{WORK}/lora/pytorch_lora_weights.safetensors",), resume="automatic"),
    shape("tracker", "Tracker", 4, "megatron", out="ckpt", results=("ckpt/latest",), resume="automatic",
          launcher="swallows TERM"),
    shape("metrics-only", "MetricsOnly", 3, "step", out="eval", results=("eval/eval_results.json",), saves=False,
          roles=(), launcher="own file"),
)  # fmt: skip
# Other forms of one shape; the table leaves them out, the torture draws them.
FORMS = (
    shape("in-place-alone", "InPlace", 0, "silent", results=("out/checkpoint.pt",), resume="automatic", roles=("last",)),
    shape("megatron", "Megatron", 0, "megatron", out="ckpt", resume="automatic",
          results=("ckpt/latest_checkpointed_iteration.txt",)),
)  # fmt: skip
# Frameworks that save by their own code; `older`: by that of a year ago.
REAL = (
    shape("real-torch", "RealTorch", 0, "step", results=("out/checkpoint.pt",), resume="automatic", roles=("last",)),
    shape("real-hf", "RealHuggingFace", 0, "dict", pattern="checkpoint-*", results=("out/model.safetensors",),
          resume="automatic", files=4),
    shape("real-hf-older", "RealHuggingFace", 0, "dict", pattern="checkpoint-*", results=("out/model.safetensors",),
          resume="automatic", files=4, launcher="older"),
    shape("real-trl", "RealTRL", 0, "dict", pattern="checkpoint-*", results=("out/model.safetensors",), files=4),
    shape("real-accelerate", "RealAccelerate", 0, "step", pattern="checkpoints/checkpoint_*", results=("out/final.pt",),
          resume="automatic"),
    shape("real-lightning", "RealLightning", 0, "bar on stdout", out="lightning_logs", files=1,
          results=("lightning_logs/version_*/checkpoints/final.ckpt",)),
    shape("real-diffusers", "RealDiffusers", 0, "step", pattern="checkpoint-*", files=3,
          results=("out/unet/diffusion_pytorch_model.safetensors",)),
    shape("real-ultralytics", "RealUltralytics", 0, "step", out="runs/detect/train", roles=("last", "best"),
          results=("runs/detect/train/weights/best.pt",)),
    shape("real-deepspeed", "RealDeepSpeed", 0, "step", results=("out/latest",), resume="automatic"),
)  # fmt: skip
# What frameworks.txt installs, beside what all of them need.
NEEDED = {"real-diffusers": ("diffusers",), "real-ultralytics": ("ultralytics", "cv2")}
ALL = (*PLAIN, *FRAMEWORKS)
BY_NAME = {one.name: one for one in (*ALL, *FORMS, *REAL)}


def can_run(one: Shape) -> bool:
    """Whether this machine has what its command and its program need."""
    if one.launcher == "older" and not os.environ.get("OLDER_PYTHON"):
        return False
    needed = NEEDED.get(one.name, ())
    return all(importlib.util.find_spec(name) for name in needed)


def command(one: Shape) -> list[str] | str:
    """The job's command. KeyError where it needs OLDER_PYTHON and that isn't set."""
    if one.launcher == "tee":
        return "python3 -u train.py 2>&1 | tee train.log"
    if one.launcher == "own file":
        return "python3 -u train.py > train_out.txt 2>&1"
    if one.launcher == "swallows TERM":
        return ["python3", "launch.py", "train.py"]
    python = os.environ["OLDER_PYTHON"] if one.launcher == "older" else "python3"
    return [python, "train.py", "--out", one.out]
