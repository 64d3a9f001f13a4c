"""Read from one line of a log which step it is of, and the numbers of that step.

A number that isn't surely what it is called is left out: a loss of a part ("box_loss"), the best so
far, a rate in a printed configuration, the bar of a download. What only several lines together
show is for `course`. Python 3.8.
"""

from __future__ import annotations

import math
import re
from typing import Match, NamedTuple

from .named_numbers import Named, named_numbers, read_columns, unwrap
from .names import HELD_OUT, TRAINED, kind_of, words_of

MOST = 2000  # characters of a line that are read
RUN, PART, BARE = "run", "part", "bare"  # what a step counts, see Reading.scope


class Reading(NamedTuple):
    """What one line says; None where it says nothing, or nothing sure.

    `step`, `total`: as printed. `scope` says what they count: RUN the whole run, PART one epoch,
    BARE the bar of some loop that names neither, "" one of the first two. `epochs`: how many the
    run has. `rate`: steps a second. `loss` may be nan or infinite. `is_open`: a bar that isn't at
    its end.
    """

    step: int | None = None
    total: int | None = None
    scope: str = ""
    epoch: float | None = None
    epochs: int | None = None
    loss: float | None = None
    val_loss: float | None = None
    lr: float | None = None
    grad_norm: float | None = None
    rate: float | None = None
    is_open: bool = False

    @property
    def has_numbers(self) -> bool:
        """Whether it says more than where the run is."""
        return (self.loss, self.val_loss, self.lr, self.grad_norm) != (None, None, None, None)


NOTHING = Reading()

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_INT = r"(\d{1,3}(?:,\d{3})+|\d{1,12})"
_OF = rf"(?:\s*(?:/|\bof\b|\bout of\b)\s*{_INT})?"
_AFTER = r"(?![\w%]|\.\d|:\d\d|\s?m?s\b)"
_OPEN = r"[\"']?\s*[:=#]?\s*[\"'\[(]?\s*"
_STEP = re.compile(
    r"(?<![\w.-])(?:train(?:er|ing)?[/_])?"
    r"(global[ _]?steps?|num_updates|current_steps|step|iteration|iter|it|update|batch|步数?"
    r"|ステップ)"
    rf"{_OPEN}{_INT}(?:\.0)?{_OF}{_AFTER}",
    re.I,
)
_OF_RUN = ("glo", "num", "cur")  # how names of a step of the whole run begin
_EPOCH = re.compile(
    rf"(?<![\w./-])(?:epoch|epch|ep(?=.*loss)(?!.*\bepch\b)|epoca|époque|epoche|época|эпоха|轮次){_OPEN}"
    rf"(\d{{1,9}}(?:\.\d{{1,12}})?){_OF}(?![\w%]|\.\d|:\d\d)",
    re.I,
)
_EPOCH_ZH = re.compile(rf"第\s*{_INT}\s*(?:/\s*{_INT}\s*)?(?:轮|个?\s*epoch)")
_STEP_ZH = re.compile(rf"第\s*{_INT}\s*(?:/\s*{_INT}\s*)?步")
# (epoch, epochs or nothing, step, steps of the epoch)
_IN_EPOCH = (
    # Epoch: [3][  20/5005]    Epoch(train)  [1][  50/1000]
    re.compile(
        r"(?<!\w)epoch(?:\s?\(train\))?\s*:?\s*\[\s*(\d+)(?:/(\d+))?\]\s*\[\s*(\d+)/\s*(\d+)\]",
        re.I,
    ),
    # Epoch:[1/1](100/20000)    Train: [3/800][20/231]
    re.compile(r"(?:(?<!\w)Epoch|^\W*Train):\s*\[(\d+)/(\d+)\]\s*[(\[](\d+)/(\d+)[)\]]"),
    re.compile(r"^\W*Train: (\d+)()\s+\[\s*(\d+)/(\d+) \("),  # Train: 0 [  50/1251 (  4%)]
    re.compile(r"(?<!\w)epoch (\d+)():\s+(\d+) / (\d+)\s"),  # epoch 001:    100 / 5000 loss=10.2
    re.compile(
        r"(?<!\w)epoch\s+(\d+)() \|\s+(\d+)/\s*(\d+) batches"
    ),  # | epoch 1 | 200/ 2323 batches
)
_ITER = re.compile(r"(?<!\w)Iter\(train\)\s*\[\s*(\d+)/(\d+)\]")
_SAMPLES = re.compile(r"epoch\W{0,3}\d+\s*\[\s*\d+/\d+ \(\s*\d+%\)\]", re.I)
_YOLO = re.compile(r"^\s*(\d+)/(\d+)\s+[\d.]+[GM]i?B?\s+[\d.]")
_TUNE = re.compile(r"^\W*(\d+)\|(\d+)\|Loss: ([-+.\de]+|nan)", re.I)
_TOTAL = re.compile(
    rf"\btotal (?:optimization|train(?:ing)?|update) steps?\s*[=:]\s*{_INT}{_AFTER}", re.I
)
_TOTAL_STEPS = re.compile(r"total_steps[\"']?\s*[:=]\s*(\d{1,12})")
_BEST = re.compile(r"\bbest\b|最佳|最好", re.I)
# Before a count: not where the run is.
_NOT_HERE = re.compile(
    r"(?:\b(?:per|micro|each|every|warm-?up|max(?:imum)?|total|last|best|next|previous|num|n|first|decay"
    r"|until|stop|end|final|min|accumulation|save|log|evals?|evaluation|evaluating|val|valid"
    r"|validation|validating|dev|test|testing|predict\w*|inference|sampl\w*)|测试|验证|评估)"
    r"[\])}:\s_/|,-]*\Z",
    re.I,
)
_BAR = re.compile(
    r"(?P<before>.{0,200}?)(?<![\w.,])(?P<step>\d{1,12})/(?P<total>\d{1,12}) "
    r"\[(?:\d+:)?[\d:]*\d\d<(?:[\d:?]+|\d+ days?, [\d:]+)"
    r"(?:,\s*(?:(?P<rate>[\d.]{1,12})|\?) ?(?P<unit>[\w/]{1,16}))?"
)
_RICH = re.compile(
    r"(?P<before>.{0,200}?)\s[━╸╺─╾╼]{3,}\s+(?P<step>\d{1,12})/(?P<total>\d{1,12})\s"
    r"(?:.{0,40}?(?P<rate>[\d.]{1,12})(?P<unit>it/s|s/it))?"
)
_UNIT_OF_STEPS = re.compile(r"(?:s/)?(?:it|steps?|iters?|batch(?:es)?|b|ba)(?:/s)?\Z", re.I)
_KERAS = re.compile(r"^\s*(\d{1,12})/(\d{1,12}) (?:\[[=>.]{5,}\]|[━─]{5,})")
# [=====> 120/391 .......]  Step: 85ms | Tot: 46s403ms | Loss: 0.003
_BRACKETED = re.compile(r"^\s*\[[=>. ]* (\d{1,12})/(\d{1,12}) [=>. ]*\]")
_DRAWN = re.compile(r"\s*\d{1,3}%\|[^|]*\|?\s*\Z|\s*\d{1,3}%\s*\Z")
_BAR_OF_TRAINING = re.compile(r"\b(?:train\w*|steps?|iter\w*|optimi[sz]\w*)\b|训练", re.I)
_BAR_OF_OTHERS = re.compile(
    r"load|fetch|scan|appl|dataset|verif|download|upload|map|filter|token|generat|eval|valid|\bval\b|test|predict|sanity"
    r"|infer|sav|build|extract|comput|convert|pack|group|sampl|writ|read|process|prepar|cach|index"
    r"|shard|compil|calib|quantiz|checkpoint|验证|测试|加载|下载",
    re.I,
)
_THOUSANDS = re.compile(r"^[^,]*,\d{3}(?!\d)")  # 345,081: of thousands, or a decimal comma?
_EXPRESSION = re.compile(r"\s*(?:\*|[+/] ?[A-Za-z_(]|\) ?[*/])")
# DeepSpeed's count of a module in its trace of one step: Invalidate trace cache @ step 596
_ARGUMENTS = re.compile(r"trace cache @ step|namespace\(|arguments\(|\bconfig\(", re.I)
_SUMMARY = re.compile(r"train_runtime|\w\s{2,}=\s{2,}|\bconfig\b|--\w", re.I)
_CODE = re.compile(r"^\s*(?:>>>|File \"|def |class |import |from \w+ import|#|assert |return |\^)")


def _words(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


_LOSS = _words(
    "loss losses 损失 损失函数 平均损失 训练损失 验证损失 損失 検証損失 訓練損失 손실",
    "verlust perte perda pérdida потери",
)
_TRAINING = _words(
    "train training trainer avg average mean total lm batch step iter epoch current cur reduced",
    "running obj objective metrics 训练 平均",
)
_AVERAGES = _words("epoch avg average mean running")
_BESIDE = _words("info debug warning root main rank gpu and end completed done finished 轮")
_VALIDATION = _words("val valid validation eval evaluation dev 验证 验证集 验证损失 検証損失")
_VAL_BESIDE = _words("avg average mean total lm epoch set metrics obj ce loop")
_RATE = _words(
    "lr learning rate learningrate base current cur train training trainer step last group pg0",
    "adam adamw w sgd val metrics 学习率",
)
_NORM = _words(
    "grad gradient gradients norm gradnorm gnorm global total train training trainer l2 val step",
    "avg average mean metrics 梯度范数",
)
# A part of each name of a number that is read, so that most lines are left at once.
_MEASURED = re.compile(
    r"oss|lr|rate|norm|损失|損失|손실|erlust|perte|perda|rdida|потер|学习率|梯度", re.I
)
_ODD_GAP = re.compile(
    r"\b(?:best|lowest|min|minimum|max|target|threshold|initial|previous|prev|old|last|final|ema"
    r"|improved|from|expected|than|scale|weight|weighted|coef\w*|delta|test|testing)\b|最佳|最好|最低|测试",
    re.I,
)


def read(line: str, columns: list[str] | None = None) -> Reading:
    """Return what a line says. `columns`: the names above it where it stands in a table."""
    text = unwrap(_COLOUR.sub("", line)[:MOST])
    if not any(map(str.isdigit, text)) and "nan" not in text.lower():
        return NOTHING
    if columns:
        cells = read_columns(columns, text)
        if cells:
            return _of_cells(cells)
    if _CODE.match(text) or _ARGUMENTS.search(text):
        return NOTHING
    place = _place(text)
    if place is None:  # the bar of other work
        return NOTHING
    metrics = _metrics(text, place)
    if not place and not metrics:
        return NOTHING
    return Reading(**{**place, **metrics})


def read_losses(line: str) -> list[float]:
    """Return every number of a line that is called a loss, also those of a part or held-out data.

    That of the training alone where it is there.
    """
    loss = read(line).loss
    if loss is not None:
        return [loss]
    numbers, _ = named_numbers(unwrap(_COLOUR.sub("", line)[:MOST]))
    return [number.value for number in numbers if kind_of(number.name)[0] == "loss"]


def _place(text: str) -> dict | None:
    """Where the run is; None for the bar of other work."""
    found: dict = {}
    total = _TOTAL.search(text)
    if total:
        return {"total": _int(total[1]), "scope": RUN}
    tuned = _TUNE.match(text)
    if tuned:
        return {"epoch": float(tuned[1]), "step": int(tuned[2]), "scope": RUN}
    yolo = _YOLO.match(text)
    if yolo:
        return {"epoch": float(yolo[1]), "epochs": int(yolo[2])}
    _add_epoch(text, found)
    bar = _BAR.match(text) or _RICH.match(text)
    if bar:
        return _add_bar(text, bar, found)
    bracketed = _BRACKETED.match(text)
    if bracketed:
        step, total = int(bracketed[1]), int(bracketed[2])
        found.update(step=step, total=total, scope=BARE, is_open=step < total)
        return found
    for pattern in _IN_EPOCH:
        inside = pattern.search(text)
        if inside:
            found.update(epoch=float(inside[1]), step=int(inside[3]), total=int(inside[4]))
            found.update({"epochs": int(inside[2])} if inside[2] else {}, scope=PART)
            return found
    if _SAMPLES.search(text):
        return found
    _add_step(text, found)
    return found


def _add_epoch(text: str, found: dict) -> None:
    match = _first(_EPOCH, text) or _first(_EPOCH_ZH, text)
    if not match:
        return
    found["epoch"] = float(match[1].replace(",", ""))
    if match[2] and found["epoch"] == int(found["epoch"]):
        found["epochs"] = _int(match[2])


def _add_step(text: str, found: dict) -> None:
    iteration = _ITER.search(text)
    if iteration:
        found.update(step=int(iteration[1]), total=int(iteration[2]), scope=RUN)
        return
    matches = [match for match in _STEP.finditer(text) if _is_here(text, match)]
    if "loss" not in text.lower():  # "it 3" may be prose
        matches = [match for match in matches if match[1].lower() != "it"]
    whole = [match for match in matches if match[1].lower()[:3] in _OF_RUN]
    steps = whole or [match for match in matches if match[1].lower() != "batch"]
    if not steps and "epoch" in found:
        steps = [match for match in matches if match[3]]
    # "update 5  step 10240": which of them is it?
    match = steps[0] if len({_int(match[2]) for match in steps}) == 1 else None
    if match:
        found["step"] = _int(match[2])
        total = match[3] or (_TOTAL_STEPS.search(text) or [None, None])[1]
        if total and _int(total) >= found["step"]:
            found["total"] = _int(total)
        name = match[1].lower()
        # HF's epoch is a share of the run, beside a step of the whole.
        is_of_run = name[:3] in _OF_RUN or found.get("epoch", 0) % 1
        found["scope"] = PART if name == "batch" else RUN if is_of_run else ""
        return
    chinese = _STEP_ZH.search(text)
    keras = _KERAS.match(text)
    if chinese:
        found["step"] = _int(chinese[1])
        if chinese[2]:
            found["total"] = _int(chinese[2])
    elif keras and int(keras[1]) <= int(keras[2]):
        found.update(step=int(keras[1]), total=int(keras[2]))


def _add_bar(text: str, bar: Match[str], found: dict) -> dict | None:
    """Add what a bar of training says; None for one of other work."""
    before = _DRAWN.sub("", bar["before"]).strip(" :|-\r")
    has_loss = re.search(r"loss", text[bar.end() :] + before, re.I) is not None
    is_of_epoch = _first(_EPOCH, before) is not None
    is_training = bool(_BAR_OF_TRAINING.search(before)) or is_of_epoch
    if _BAR_OF_OTHERS.search(before) and not (is_training and has_loss):
        return None
    if before and not is_training and not has_loss:
        return None
    step, total = int(bar["step"]), int(bar["total"])
    if step > total or not total:
        return None
    found.update(step=step, total=total, is_open=step < total)
    found["scope"] = PART if is_of_epoch else "" if is_training or has_loss else BARE
    steps = [
        each for each in _STEP.finditer(text, bar.end()) if each[1].lower().startswith("global")
    ]
    if steps:
        found.update(step=_int(steps[0][2]), scope=RUN)
        del found["total"]
    if bar["unit"] and not _UNIT_OF_STEPS.match(bar["unit"]):
        return None
    rate = float(bar["rate"]) if bar["rate"] and bar["rate"].count(".") < 2 else 0.0
    unit = bar["unit"] or ""
    if rate > 0 and unit[:1].isalpha() and "/" in unit:
        if unit.endswith("/s"):
            found["rate"] = rate
        elif unit.startswith("s/"):
            found["rate"] = 1 / rate
    return found


def _first(pattern: re.Pattern[str], text: str) -> Match[str] | None:
    return next((match for match in pattern.finditer(text) if _is_here(text, match)), None)


def _is_here(text: str, match: Match[str]) -> bool:
    """Whether a count says where the run is, and not "every 10 steps" or "best at step 10"."""
    before = text[max(match.start() - 60, 0) : match.start()]
    return not _NOT_HERE.search(before[-24:]) and not _BEST.search(before)


def _metrics(text: str, place: dict) -> dict:
    """The numbers of a line."""
    found: dict = {}
    if not _MEASURED.search(text):
        return found
    tuned = _TUNE.match(text)
    if tuned:
        return {"loss": _float(tuned[3])}
    if _SUMMARY.search(text):
        return found
    numbers, _ = named_numbers(text)
    first = text[: numbers[0].end] if numbers else ""
    held_out = _is_of_held_out(first)
    seen: dict = {}
    for number in numbers:
        if number.unit == "%" or _THOUSANDS.search(number.text + text[number.end :][:4]):
            continue
        if _EXPRESSION.match(text, number.end):
            continue
        words = _split(number.name)
        held_out = _is_held_out(number, words, held_out)
        role = _role(number, words, held_out)
        if role:
            rank = bool(words & _AVERAGES) * 2 + ("lm" in words)
            seen.setdefault(role, []).append((rank, number.value))
    for role, told in seen.items():
        least = min(rank for rank, _ in told)
        values = [value for rank, value in told if rank == least]
        # Two numbers of one name: which of them is it?
        if role == "lr" or len(set(map(repr, values))) == 1:
            found[role] = values[0]
    if "loss" not in found and "val_loss" not in found and not (place.keys() & {"step", "epoch"}):
        return {}
    return found


def _is_of_held_out(text: str) -> bool:
    words = set(words_of(re.sub(r"[^\w]+", " ", text)))
    return bool(HELD_OUT & words) and not TRAINED & words


def _is_held_out(number: Named, words: frozenset, before: bool) -> bool:
    """Whether the numbers from here on are of held-out data."""
    told = set(words_of(re.sub(r"[^\w]+", " ", number.gap)))
    if HELD_OUT & told or HELD_OUT & words - {"val"}:
        return True
    if told & {"train", "training", "训练"}:
        return False
    return before or "val" in words


def _split(name: str) -> frozenset[str]:
    """Return the words of a name: those of trainLoss are train and loss."""
    words = words_of(name)
    return frozenset(words) - {name.lower() if len(words) > 1 else ""}


def _role(number: Named, words: frozenset, held_out: bool) -> str:
    """The field of a reading that a number is, "" for none."""
    value, kind = number.value, kind_of(number.name)[0]
    if kind == "lr" and words <= _RATE and 0 <= value <= 100:
        return "lr"
    if kind == "norm" and words - {"2.0"} <= _NORM and not value < 0:
        return "grad_norm"
    if kind != "loss" or not words & _LOSS or _ODD_GAP.search(number.gap.lower()):
        return ""
    others = words - _BESIDE - (_LOSS - _VALIDATION)
    if others & _VALIDATION or (held_out and "val" in words):
        return "val_loss" if others - _VALIDATION <= _VAL_BESIDE else ""
    if held_out:
        told = set(words_of(re.sub(r"[^\w]+", " ", number.gap)))
        return "val_loss" if told & _VALIDATION and others <= _VAL_BESIDE else ""
    return "loss" if others <= _TRAINING else ""


def name_role(name: str, value: float) -> str:
    """Return the field of a reading that a number of a table or a file is, "" for none."""
    words = _split(name)
    return _role(Named(name, value, name, "", "", 0), words, bool(HELD_OUT & words))


def _of_cells(cells: list[tuple[str, float]]) -> Reading:
    """A row of a table."""
    found: dict = {}
    for name, value in cells:
        low = name.lower().strip()
        if low in ("step", "iter", "iteration", "global_step", "steps") and value == int(value):
            found.setdefault("step", int(value))
        elif low in ("epoch", "ep") and value >= 0:
            found.setdefault("epoch", value)
        elif role := name_role(name, value):
            found.setdefault(role, value)
    return Reading(**found)


def _int(text: str) -> int:
    return int(text.replace(",", ""))


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
