"""Which metric a name is: a loss, a score, a gradient norm; of training or of held-out data; in the words of several languages. Standard library, Python 3.8."""

from __future__ import annotations

import re
from functools import lru_cache

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_BREAK = re.compile(r"[\s/_.:@-]+")

HELD_OUT = frozenset(
    [
        "dev",
        "eval",
        "вал",
        "evaluate",
        "evaluation",
        "prueba",
        "test",
        "testing",
        "val",
        "valid",
        "validación",
        "validation",
        "validierung",
        "検証",
        "検証損失",
        "测试",
        "测试集",
        "验证",
        "验证准确率",
        "验证损失",
        "验证集",
    ]
)
TRAINED = frozenset(
    ["entrenamiento", "обуч", "обучение", "train", "training", "训练", "训练损失", "训练集"]
)
_KINDS = {
    kind: frozenset(names.split())
    for kind, names in {
        "loss": "bce cost elbo потери потеря l loss losses mae mse nll perda perdida perte pérdida recon rmse verlust 平均损失 损失 損失 検証損失 訓練損失 训练损失 验证损失 손실",
        "score": "ap ap50 bleu dice f1 iou map map50 map50-95 miou precision precisión präzision recall sensibilidad trefferquote 召回率",
        "acc": "a acc acc1 точность accuracy acurácia exactitud exactitude genauigkeit prec1 top1 准确率 正确率 正解率 精度 训练准确率 验证准确率 정확도",
        "lr": "apprentissage aprendizaje learningrate lernrate lr lr-adam lr0 学习率 学習率 학습률",
        "norm": "gnorm gradnorm 梯度范数",
        "ram": "ram rss 内存",
        "memory": "mem memory 显存",
        "kl": "approxkl kl",
        "reward": "rew reward rewards",
        "margin": "margins",
        "entropy": "entropy",
        "length": "completion_length mean_length response_length",
        "ppl": "perplexity ppl",
        "data": "data_time datatime",
        "time": "dt time",
    }.items()
}
_NOT_TIMES = frozenset(
    (
        "total",
        "train",
        "data",
        "wall",
        "elapsed",
        "eta",
        "remaining",
        "fetch",
        "load",
        "runtime",
        "epoch",
    )
)


@lru_cache(maxsize=1024)
def words_of(name: str) -> tuple[str, ...]:
    """The words of a name in lower case; of trainLoss also its parts, before the whole."""
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
    """(kind, whether it is of held-out data) of a metric's name; the kind is '' for one that isn't known."""
    words = words_of(name)
    held_out = bool(HELD_OUT.intersection(words))
    low = name.lower()
    if (
        ("scale" in words and ("loss" in words or "grad" in words))
        or "scaler" in words
        or "loss_scale" in low
    ):
        return "scale", held_out
    if (
        ("learning" in words and "rate" in words)
        or (words and words[-1] == "lr")
        or words[:1] == ("lr",)
    ):
        return "lr", held_out
    if "norm" in words and ("grad" in words or "gradient" in words):
        return "norm", held_out
    if low.endswith("s/it"):
        return "time", held_out
    if "data" in words and "time" in words:
        return "data", held_out
    for word in reversed(words):
        if len(word) == 1 and len(words) > 1:  # "L=0.69 A=0.51", and not a word of a sentence
            continue
        for kind, names in _KINDS.items():
            if word in names or (kind == "loss" and word.endswith(("loss", "损失"))):
                if kind == "time" and _NOT_TIMES.intersection(words):
                    return "", held_out
                return kind, held_out
    return "", held_out
