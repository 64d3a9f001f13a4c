"""What the name of a number says: its kind, and whether it is of held-out data. Python 3.8."""

from __future__ import annotations

import re
from functools import lru_cache

# Words that are neither English nor Chinese are here only if a log printed them. The quoted lines
# are from evals/sets/curves, unless another place is named.
HELD_OUT = frozenset((
    "dev", "eval", "evaluate", "evaluation", "test", "testing", "val", "valid", "validation",
    "测试", "测试集", "验证", "验证准确率", "验证损失", "验证集",
    "вал",  # потери вал. 1.4907
    "validación", "validierung", "検証", "検証損失",
))  # fmt: skip
TRAINED = frozenset((
    "train", "training", "训练", "训练损失", "训练集", "entrenamiento",
    "обуч", "обучение",  # потери обуч. 1.6952
))  # fmt: skip
_KINDS = {
    kind: frozenset(" ".join(names).split())
    for kind, names in {
        "loss": (
            "bce cost elbo l loss losses mae mse nll recon rmse",
            "平均损失 损失 训练损失 验证损失 損失 訓練損失",
            "検証損失",  # Japanese; 損失 too: ステップ    0  損失 1.41390  正解率 0.125
            "verlust",  # Epoche  1/20 | Verlust (Training): 0,3606 | Verlust (Val): 0,1321
            "perda",  # época  1/20 - perda: -3.273 - acurácia: 0.243
            "pérdida",  # [época 01] pérdida=0.3740 pérdida_val=0.2065 exactitud=0.9520
            "perte",  # Époque 50/1000, Perte : 0.2632 (in a public repository)
            "потери",  # эпоха  1: потери обуч. 1.6952, потери вал. 1.4907
            "손실",  # [에폭  1/12] 손실=2.3587 정확도=10.7%
        ),
        "score": (
            "ap ap50 bleu dice f1 iou map map50 map50-95 miou precision recall 召回率",
            "präzision trefferquote",  # Präzision: 0,000 | Trefferquote (defekt): 0,000
            "precisión sensibilidad",  # precisión=0.000 sensibilidad=0.000
        ),
        "acc": (
            "a acc acc1 accuracy prec1 top1 准确率 正确率 精度 训练准确率 验证准确率",
            "acurácia exactitud genauigkeit точность 正解率 정확도",  # as beside the losses above
        ),
        "lr": (
            "learningrate lr lr-adam lr0 学习率",
            "aprendizaje",  # tasa de aprendizaje: 1.680e-05
        ),
        "norm": ("gnorm gradnorm 梯度范数",),
        "ram": ("ram rss 内存",),
        "memory": ("mem memory 显存",),
        "kl": ("approxkl kl",),
        "reward": ("rew reward rewards",),
        "margin": ("margins",),
        "entropy": ("entropy",),
        "length": ("completion_length mean_length response_length",),
        "ppl": ("perplexity ppl",),
        "data": ("data_time datatime",),
        "time": ("dt time",),
    }.items()
}
_NOT_TIMES = frozenset((
    "total", "train", "data", "wall", "elapsed", "eta", "remaining", "fetch", "load", "runtime",
    "epoch",
))  # fmt: skip
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_BREAK = re.compile(r"[\s/_.:@-]+")


@lru_cache(maxsize=1024)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case; for trainLoss its parts, then the whole."""
    whole = name.lower()
    parts = _CAMEL.sub(" ", name).lower()
    return tuple(
        word
        for text in ((parts, whole) if parts != whole else (whole,))
        for word in _BREAK.split(text)
        if word
    )


@lru_cache(maxsize=1024)
def kind_of(name: str) -> tuple[str, bool]:
    """Return the kind of a metric by its name, and whether it is for held-out data.

    The kinds are "loss", "score", "acc", "lr", "norm", "scale", "ram", "memory", "kl", "reward",
    "margin", "entropy", "length", "ppl", "data" and "time", "" for an unknown name.
    """
    words = words_of(name)
    kind = _kind_by_words(words, name.lower())
    return (_kind_by_last_word(words) if kind is None else kind), bool(HELD_OUT.intersection(words))


def _kind_by_words(words: tuple[str, ...], low: str) -> str | None:
    """The kind of a name that only several words together show, such as grad_norm; else None."""
    if (
        ("scale" in words and ("loss" in words or "grad" in words))
        or "scaler" in words
        or "loss_scale" in low
    ):
        return "scale"
    if ("learning" in words and "rate" in words) or words[-1:] == ("lr",) or words[:1] == ("lr",):
        return "lr"
    if "norm" in words and ("grad" in words or "gradient" in words):
        return "norm"
    if low.endswith("s/it"):
        return "time"
    if "data" in words and "time" in words:
        return "data"
    return None


def _kind_by_last_word(words: tuple[str, ...]) -> str:
    """The kind of the last word that has one, "" where none has."""
    for word in reversed(words):
        if len(word) == 1 and len(words) > 1:  # "L=0.69 A=0.51", and not a word of a sentence
            continue
        for kind, names in _KINDS.items():
            if word in names or (kind == "loss" and word.endswith(("loss", "损失"))):
                return "" if kind == "time" and _NOT_TIMES.intersection(words) else kind
    return ""
