"""Find the metrics of a log: losses, scores, gradient norms and the like, each as a series.

A number is known by the words before it ("train_loss: 0.3", "'loss': 0.3", "Loss 0.3 (0.4)",
"损失 0.3"), by the header above its column, or by its unit ("1.13it/s"). A number without a known
name is ignored. Standard library, Python 3.8.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import lru_cache

from .rows import ROW, Row, shape_of
from .starts import Course, last_start

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

BEFORE = 60  # characters before a number in which its name may be
SHAPES = 2_000  # rows that differ in more than digits
PER_SHAPE = 250  # rows of each shape, evenly spread
MOST_ROWS = 1_500  # rows in all

_UNIT = r"(?:[ ]?(?:ms|s/it|it/s|s|[GM]i?B?|%))?"
_VALUE = (
    r"[-+]?(?:(?:\d{1,30}(?:\.\d{0,30}|,\d{2,6}(?![\d,]))?|\.\d{1,30})(?:[eE][-+]?\d{1,4})?"
    r"|(?:nan|inf(?:inity)?)(?:\.0)?\b)"
)
_NUMBER = re.compile(rf"(?<![\w.@+-])({_VALUE})({_UNIT})(?![\w%]|\.\w)", re.I)
_CELL = re.compile(rf"({_VALUE})({_UNIT})", re.I)
_NAMED = re.compile(
    r"((?:[^\W\d][\w/@.-]{0,39}[ ]){0,3}[^\W\d][\w/@.-]{0,39})"
    r"(?:[ ]?\((?:ms|s|GB?|MB|[^\W\d]{1,12})\))?[\"']?[\s|]*[:=：]?[\s|]*"
    r"(?:tensor\()?[\[(\"']{0,2}$"
)
_WRAPPED = re.compile(r"np\.float\d\d\(([^()]{1,30})\)")
_SPEED = re.compile(r"(?<![\d.])(\d{1,9}(?:\.\d{1,9})?) ?(it/s|s/it|ms/step|s/step|ms/it)\b")
_COUNT = re.compile(
    r"(?:\b(?:epoch|step|iter(?:ation)?|update|round|batch)s?|第)\W{0,4}(\d{1,9})(?:\.\d+)?\b(?!%)"
    r"|(?<![\w./])(\d{1,9})/\d{1,9}(?![\w/])",
    re.I,
)
_RESUMED = re.compile(
    r"\bresum(?:e|ed|ing)\b|\b(?:load|restor)(?:ed|ing)\b.{0,40}\b(?:checkpoint|state|ckpt)"
    r"|恢复训练|断点",
    re.I,
)
_BAR = re.compile(r"\s\d{1,3}%\|.*")
_TOKENS = re.compile(rb"\btok(?:en)?s?\b|vocab|tokens?_", re.I)
_ARROW = re.compile(r" ?(?:--?>|→)")
_EPOCH = re.compile(r"(?:\bepoch\W{0,4}|第)(\d{1,9})\b", re.I)
_LENGTH = re.compile(r"\d(/\d{1,12}) \[")  # of a bar: 39/100 [00:12<00:19, 3.2it/s]
COUNTS = frozenset(("step", "iter", "iteration", "epoch", "global_step"))
# Names of the training loss, where a log has several losses.
_MAIN = (
    "loss",
    "total_loss",
    "total loss",
    "train_loss",
    "train loss",
    "training loss",
    "lm loss",
    "损失",
    "训练损失",
)


@dataclass(frozen=True)
class Series:
    """The numbers of one name in order, and the line of each.

    `kind` is one of "loss", "score", "acc", "lr", "norm", "scale", "ram", "memory", "kl",
    "reward", "margin", "entropy", "length", "ppl", "data" and "time", "" for an unknown name.
    Times are in seconds, memory in GB.
    """

    name: str
    kind: str
    held_out: bool
    rows: list[int]
    values: list[float]


@dataclass(frozen=True)
class Numbers:
    """What is counted and measured in a log.

    `series`: the longest first. `counts`: (line, count, of what) of epochs or steps. `resumed`:
    lines that mention a resume. `rows`: all lines whose shape has a series. `of_tokens`: a line
    speaks of tokens or a vocabulary. `over_runs`: the series over all runs of the log, if it holds
    several (see `starts`); those in `series` begin with its last run.
    """

    series: list[Series]
    counts: list[tuple[int, float, str]]
    resumed: list[int]
    rows: frozenset[int]
    of_tokens: bool
    over_runs: list[Series]


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

    The kinds are those of `Series`.
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


def of_rows(rows: list[Row]) -> Numbers:
    """Return the series in these rows."""
    gathering = _Gathering()
    for number, raw in _thinned(rows):
        gathering.take(number, raw)
    whole = [series for series in gathering.series.values() if series.kind]
    whole.sort(key=lambda series: -len(series.values))
    loss = main_of([series for series in whole if series.kind == "loss" and not series.held_out])
    start = last_start(gathering.course, loss.rows, loss.values) if loss else 0
    return Numbers(
        list(filter(None, (_since(start, each) for each in whole))) if start else whole,
        gathering.counts,
        gathering.resumed,
        frozenset(number for number, raw in rows if shape_of(raw) in gathering.shapes),
        any(_TOKENS.search(raw) for _, raw in rows),
        whole if start else [],
    )


def _since(start: int, series: Series) -> Series | None:
    """A series from a line on, None where nothing of it stands there."""
    first = bisect_left(series.rows, start)
    if first == len(series.rows):
        return None
    return replace(series, rows=series.rows[first:], values=series.values[first:])


class _Gathering:
    """Takes the rows of a log one after another and gathers the series in them."""

    def __init__(self) -> None:
        self.series: dict[str, Series] = {}
        self.counts: list[tuple[int, float, str]] = []
        self.resumed: list[int] = []
        self.course = Course([], self.counts, self.resumed)
        self.shapes: set[bytes] = set()  # of rows with a known number
        self.columns: list[str] = []  # the last header

    def take(self, number: int, raw: bytes) -> None:
        """Take the next row."""
        text = raw[: ROW * 4].decode("utf-8", "replace")[:ROW]
        pairs = self._pairs(text)
        shape = shape_of(raw)
        epoch = _EPOCH.search(text)
        if epoch:
            self.course.epochs.append((number, int(epoch[1])))
        self.course.take(number, raw, shape)
        if self._add(number, pairs):
            self.shapes.add(shape)
        counts = shape in self.shapes and any(
            kind_of(name)[0] not in ("", "lr", "memory") for name, _ in pairs
        )
        if counts:
            count = _count_of(text, pairs)
            self.counts += [(number, *count)] if count else []
        elif _RESUMED.search(text):
            self.resumed.append(number)

    def _pairs(self, text: str) -> list[tuple[str, float]]:
        """(name, value) of a row's numbers: by the last header, else by the words before them."""
        pairs = _of_columns(self.columns, text)
        if pairs:
            return pairs
        # A progress bar or a row without numbers may stand within a table.
        within = "%|" in text or not any(map(str.isdigit, text))
        self.columns = _header(text) or (self.columns if within else [])
        return _of_words(text)

    def _add(self, number: int, pairs: list[tuple[str, float]]) -> bool:
        """Add the numbers of a row to their series. Return whether one has a known name."""
        is_known = False
        for name, value in dict(reversed(pairs)).items():  # of two numbers of one name the first
            series = self.series.get(name)
            if series is None:
                series = self.series[name] = Series(name, *kind_of(name), [], [])
            if series.kind:
                series.rows.append(number)
                series.values.append(value)
                is_known = True
        return is_known


def _count_of(text: str, pairs: list[tuple[str, float]]) -> tuple[float, str] | None:
    """(count, of what) of the epochs or steps that a row counts, None if it counts none."""
    named = next((value for name, value in pairs if name.lower() in COUNTS), None)
    if named is not None:
        return named, "step"
    count = _COUNT.search(text)
    if not count:
        return None
    return float(count[1] or count[2]), count[0][:4].lower() if count[1] else ""


def _thinned(rows: list[Row]) -> list[Row]:
    """Rows of every shape, with a limited number of evenly spread rows of a frequent one.

    A shape is a row without its digits, so the first nan begins a new shape.
    """
    if len(rows) <= PER_SHAPE:
        return rows
    shapes: dict[bytes, list[int]] = {}
    for at, (_, raw) in enumerate(rows):
        shape = shape_of(raw)
        if shape in shapes or len(shapes) < SHAPES:
            shapes.setdefault(shape, []).append(at)
    most = max(3, min(PER_SHAPE, MOST_ROWS // len(shapes)))
    chosen: set[int] = set()
    for places in sorted(shapes.values(), key=len, reverse=True):
        chosen.update(
            places
            if len(places) <= most
            else [places[i * (len(places) - 1) // (most - 1)] for i in range(most)]
        )
        if len(chosen) > MOST_ROWS:
            break
    return [rows[at] for at in sorted(chosen)]


def _of_words(text: str) -> list[tuple[str, float]]:
    """(name, value) of each number that follows a name, and the time of a step by its unit."""
    if "np.float" in text:
        text = _WRAPPED.sub(r"\1", text)
    pairs, held_out = _named_numbers(text)
    pairs += _step_times(text)
    # "Validation: loss 0.3": the words before the first name say it.
    head = text.find(pairs[0][0]) if pairs and not held_out else 0
    if head > 0 and HELD_OUT.intersection(words_of(text[:head])):
        pairs = [("val " + name, value) for name, value in pairs]
    return pairs


def _named_numbers(text: str) -> tuple[list[tuple[str, float]], bool]:
    """(name, value) of each number that follows a name; whether the last ones are of held-out data.

    A name that says so counts for those after it, until one says that it is of training.
    """
    pairs: list[tuple[str, float]] = []
    held_out = text.lstrip().startswith("* ")  # " * Acc@1 71.2" sums up an evaluation
    end, within = 0, ""  # of the last number; the name of the list that is open
    for match in _NUMBER.finditer(text):
        before = text[max(end, match.start() - BEFORE) : match.start()]
        end = match.end()
        if text[end : end + 1] == "/" and "." not in match[1]:  # 10/100 counts
            continue
        if _ARROW.match(text, end):  # "Validation loss decreased (inf --> 0.43)": the best so far
            continue
        named = _NAMED.search(before)
        if not named:
            if within and before.strip() == ",":  # a list of scores
                pairs.append((f"{within} {len(pairs)}", _number(match[1], match[2])))
            continue
        name = _without_numbers(named[1])
        within = name if before.endswith("[") and kind_of(name)[0] == "score" else ""
        words = words_of(name)
        if HELD_OUT.intersection(words):
            held_out = True
        elif TRAINED.intersection(words):
            held_out = False
        elif held_out:  # "Validation: loss 0.3, acc 0.8"
            name = "val " + name
        pairs.append((name, _number(match[1], match[2])))
    return pairs, held_out


def _without_numbers(name: str) -> str:
    """A name of up to four words without those that hold digits, unless it is the last one."""
    *before, last = name.split()
    return " ".join([word for word in before if not any(map(str.isdigit, word))] + [last])


def _step_times(text: str) -> list[tuple[str, float]]:
    """The seconds of a step, by a unit such as it/s.

    Bars of other lengths are of other work, so that each length has a name of its own.
    """
    pairs = []
    for speed in _SPEED.finditer(text):
        value = float(speed[1])
        if value > 0:
            seconds = {"it/s": 1 / value, "ms/step": value / 1000, "ms/it": value / 1000}
            lengths = _LENGTH.findall(text, 0, speed.start())
            of_work = f"{lengths[-1]} " if lengths else ""
            pairs.append((f"{of_work}s/it", seconds.get(speed[2], value)))
    return pairs


def _header(text: str) -> list[str]:
    """The names of columns, if a row has only names and one is that of a metric."""
    cells = _cells(_BAR.sub("", text))
    if (
        len(cells) < 3
        or any(_float(cell) is not None for cell in cells)
        or not all(len(cell) < 32 for cell in cells)
    ):
        return []
    return cells if any(kind_of(cell)[0] in ("loss", "acc", "score") for cell in cells) else []


def _of_columns(columns: list[str], text: str) -> list[tuple[str, float]]:
    if not columns or not any(map(str.isdigit, text)):
        return []
    cells = _cells(text)[: len(columns)]
    values = [_float(cell) for cell in cells]
    # A table of classes: their scores, each by its class.
    if len(cells) == len(columns) and columns[0].lower() in ("class", "category", "类别"):
        return [
            (f"{cells[0]} {name}", value)
            for name, value in zip(columns[1:], values[1:])
            if value is not None and kind_of(name)[0] == "score"
        ]
    if (
        len(cells) < len(columns)
        or values[0] is None
        or sum(value is not None for value in values) * 3 < len(columns) * 2
    ):
        return []
    return [(name, value) for name, value in zip(columns, values) if value is not None]


def _cells(text: str) -> list[str]:
    if text.count("|") > 1:
        cells = [cell.strip() for cell in text.strip().strip("|").split("|")]
        return [cells[0].split()[-1] if cells[0] else "", *cells[1:]]  # "ep 3 | 0.69 | 0.51"
    return (
        [cell.strip() for cell in text.strip().split(",")] if text.count(",") > 1 else text.split()
    )


def _float(text: str) -> float | None:
    cell = _CELL.fullmatch(text)
    if cell:
        return _number(cell[1], cell[2])
    head, slash, rest = text.partition("/")
    return float(head) if slash and head.isdigit() and rest.isdigit() and len(head) < 10 else None


def _number(text: str, unit: str) -> float:
    text = text.replace(",", ".")
    # Lightning writes nan.0.
    value = float(text[:-2] if text[-2:] == ".0" and text[-3:-2].isalpha() else text)
    factors = {"ms": 0.001, "m": 0.001, "mb": 0.001, "mib": 0.001, "it/s": 1.0}
    return value * factors.get(unit.strip().lower(), 1.0)


def is_of_all(loss: Series) -> bool:
    """Return whether the name of a loss says that it is the training loss."""
    return loss.name.lower().strip() in _MAIN


def main_of(losses: list[Series]) -> Series | None:
    """Return the training loss: by its name, otherwise the largest of those that are printed often.

    `losses` come longest first. None without one.
    """
    for series in losses:
        if is_of_all(series):
            return series
    if not losses:
        return None
    often = len(losses[0].values)
    return max(losses, key=lambda series: (len(series.values) * 2 > often, series.values[0]))
