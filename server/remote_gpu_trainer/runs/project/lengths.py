"""How long a program trains: in steps, or in epochs, of which the data tells the steps.

A number is taken from what bounds a loop that trains, or from what a framework is told, and no
number is reckoned from others.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from .options import Option
from .saves import is_arguments
from .sources import Source, is_reached, lineage, names_in
from .values import Values, glob_of, is_known, name_of

_EPOCHS = re.compile(
    r"(?:n|num|max|nb|total|train|training|num_train|max_train|number_of)?_?epoch(?:e?s)?"
    r"(?:_?(?:num|number|count|max|total))?",
    re.I,
)
_TOTALS = re.compile(
    r"(?:max|total|train|max_train|num_train|(?:num_|total_)?training)_?(?:steps|iters?|iterations)"
    r"|(?:max|total)_?updates?",
    re.I,
)
_COUNTS_EPOCHS = re.compile(r"(?:\w+_)?(?:epoch|epoc|ep)(?:_?(?:idx|i|num|id|index))?s?", re.I)
_COUNTS_STEPS = re.compile(
    r"(?:\w+_)?(?:step|iter|iteration|it|update)(?:_?(?:idx|i|num|id|index))?s?", re.I
)
_FRAMEWORKS = r"HfArgumentParser|TrlParser|LightningCLI|\bTrainer\("
_BARS = frozenset(("tqdm", "trange", "track", "progress_bar", "master_bar", "list", "enumerate"))


@dataclass(frozen=True)
class Length:
    """How long a program trains, as its source says it.

    `steps` and `epochs`: None where the source doesn't tell the number. `name`: what holds the
    number; '' for a number that stands there itself. `at`: file:line. `is_bound`: a loop that
    trains ends by it, or a framework is told it. `is_one`: no other loop says another number.
    """

    steps: int | None = None
    epochs: int | None = None
    name: str = ""
    at: str = ""
    is_bound: bool = True
    is_one: bool = True


def read(sources: list[Source], values: Values, declared: list[Option]) -> Length | None:
    """Return how long a program trains; None where its source doesn't tell at all.

    Steps go before epochs: where a program has both, the steps end it.
    """
    found = list(_told_to_frameworks(sources, values)) or list(_loops(sources, values))
    named = list(_by_name(declared, values))
    best = (
        [one for one in found if one.steps]
        or [one for one in named if one.steps and one.is_bound]
        or [one for one in found if one.epochs]
        or [one for one in named if one.epochs]
        or [one for one in named if one.steps]
        or found
        or named
    )
    numbers = {one.steps or one.epochs for one in best}
    return replace(best[0], is_one=len(numbers) == 1) if best else None


def _told_to_frameworks(sources: list[Source], values: Values) -> Iterator[Length]:
    """Yield what the calls of a framework are told: TrainingArguments, Trainer, model.train(…)."""
    named = names_in(sources)
    for source in sources:
        for call in source.calls:
            if source is not sources[0] and not is_reached(source, call, named):
                continue
            name = name_of(call.func)
            keyed = {one.arg: one.value for one in call.keywords if one.arg}
            if not (
                is_arguments(name) or name in ("Trainer", "train", "fit", "IterBasedTrainLoop")
            ):
                continue
            for key in ("max_steps", "max_iters", "num_train_epochs", "max_epochs", "epochs"):
                if key in keyed:
                    number = _number(source, keyed[key], values)
                    if number is not None and number <= 0:
                        continue  # -1: no limit of this kind
                    place = f"{source.path}:{keyed[key].lineno}"
                    if "epoch" in key:
                        yield Length(epochs=number, name=key, at=place)
                    elif number:
                        yield Length(steps=number, name=key, at=place)


def _loops(sources: list[Source], values: Values) -> Iterator[Length]:
    """Yield what bounds the loops that train, those of epochs and those of steps."""
    named = names_in(sources)
    for source in sources:
        for node in ast.walk(source.tree):
            if not isinstance(node, (ast.For, ast.While)):
                continue
            first = next((one for one in ast.walk(node) if isinstance(one, ast.Call)), None)
            if source is not sources[0] and first and not is_reached(source, first, named):
                continue
            for counter, bound in _bounds(source, node):
                is_epoch = _COUNTS_EPOCHS.fullmatch(counter) is not None
                trains = _trains(node)
                if not (is_epoch and (trains or _calls_training(node))) and not (
                    trains and _COUNTS_STEPS.fullmatch(counter) and not _is_nested(source, node)
                ):
                    continue
                if not is_epoch and _is_called_again(source, node, sources):
                    continue  # these are the steps of an epoch
                name, number = _name(bound), _number(source, bound, values)
                place = f"{source.path}:{node.lineno}"
                if is_epoch:
                    yield Length(epochs=number, name=name, at=place)
                elif number:
                    yield Length(steps=number, name=name, at=place)


def _bounds(source: Source, node: ast.For | ast.While) -> Iterator[tuple[str, ast.expr]]:
    """Yield (counter, bound) of a loop: range(bound), while counter < bound, and a break."""
    if isinstance(node, ast.For):
        over = _within_bar(_bar_named(source, node))
        target = node.target
        if isinstance(target, ast.Tuple) and target.elts:
            target = target.elts[0]
        is_range = isinstance(over, ast.Call) and name_of(over.func) in ("range", "trange")
        if isinstance(target, ast.Name) and is_range and over.args:  # type: ignore[union-attr]
            yield target.id, _of_range(over)  # type: ignore[arg-type]
    elif (found := _compared(node.test)) is not None:
        yield found
    for one in node.body:
        if isinstance(one, ast.If) and any(isinstance(row, ast.Break) for row in one.body):
            test = one.test
            if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Gt, ast.GtE, ast.Eq)):
                turned = ast.Compare(test.left, [ast.Lt()], test.comparators)
                if (found := _compared(turned)) is not None:
                    yield found


def _of_range(call: ast.Call) -> ast.expr:
    """Return what a range ends with: n of range(1, n + 1), else its end as it stands."""
    end = call.args[0] if len(call.args) == 1 else call.args[1]
    is_plus_one = (
        isinstance(end, ast.BinOp)
        and isinstance(end.op, ast.Add)
        and isinstance(end.right, ast.Constant)
        and end.right.value == 1
    )
    return end.left if is_plus_one and len(call.args) > 1 else end  # type: ignore[union-attr]


def _bar_named(source: Source, node: ast.For) -> ast.expr:
    """Return what a loop goes through: of `for step in bar`, what the bar was made from."""
    if not isinstance(node.iter, ast.Name):
        return node.iter
    made = (
        one.value
        for one in ast.walk(source.function_around(node) or source.tree)
        if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == ast.unparse(node.iter)
    )
    return next(made, node.iter)


def _within_bar(node: ast.expr) -> ast.expr:
    """Return what a progress bar goes through."""
    while isinstance(node, ast.Call) and name_of(node.func) in _BARS - {"trange"} and node.args:
        node = node.args[0]
    return node


def _compared(test: ast.expr) -> tuple[str, ast.expr] | None:
    """Return (counter, bound) of `counter < bound`."""
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1):
        return None
    if not isinstance(test.ops[0], (ast.Lt, ast.LtE)):
        return None
    name = ast.unparse(test.left).rpartition(".")[2]
    return (name, test.comparators[0]) if name.isidentifier() else None


def _trains(node: ast.AST) -> bool:
    """Whether a loop computes gradients itself."""
    return any(
        isinstance(one, ast.Call) and name_of(one.func) == "backward" for one in ast.walk(node)
    )


def _calls_training(node: ast.AST) -> bool:
    """Whether a loop calls what is named after training."""
    return any(
        isinstance(one, ast.Call) and re.search(r"train|fit|learn", name_of(one.func), re.I)
        for one in ast.walk(node)
    )


def _is_nested(source: Source, node: ast.AST) -> bool:
    """Whether a loop stands within another, which may be that of the epochs."""
    while node := source.parents.get(node):  # type: ignore[assignment]
        if isinstance(node, (ast.For, ast.While)):
            return True
        if isinstance(node, ast.FunctionDef):
            return False
    return False


def _is_called_again(source: Source, node: ast.AST, sources: list[Source]) -> bool:
    """Whether the function that holds a loop is itself called in a loop, as for each epoch."""
    function = source.function_around(node)
    name = function.name if function else ""
    return bool(name) and any(
        isinstance(above, (ast.For, ast.While))
        for there in sources
        for call in there.calls
        if name_of(call.func) == name
        for above in lineage(there, call)
    )


def _by_name(declared: list[Option], values: Values) -> Iterator[Length]:
    """Yield the lengths by options and settings that are named after one, whatever the program
    does with them."""
    flags = {one.name: one.flag or one.name for one in declared}
    fields = {one.name for one in declared if not one.is_argument}
    set_ = {name.rpartition(".")[2] for name in values.defaults if name not in flags}
    for name in dict.fromkeys((*flags, *values.defaults)):
        last = name.rpartition(".")[2]
        if name in fields and name in set_ and name not in values.given:
            continue  # a field of a class, which a file of settings sets
        text = "".join(map(str, values.defaults.get(name, ())))
        number = int(text) if text.isdigit() and int(text) else None
        if _TOTALS.fullmatch(last) and number:
            is_bound = _ends_by(last, values.sources)
            yield Length(steps=number, name=flags.get(name, name), is_bound=is_bound)
        elif _EPOCHS.fullmatch(last) and text not in ("None", "-1"):
            yield Length(epochs=number, name=flags.get(name, name), is_bound=False)


def _ends_by(name: str, sources: list[Source]) -> bool:
    """Whether a total of steps ends a training: by a break, or as the framework's own max_steps."""
    if name == "max_steps" and any(re.search(_FRAMEWORKS, one.text) for one in sources):
        return True
    return any(
        isinstance(node, ast.If)
        and any(isinstance(row, ast.Break) for row in node.body)
        and isinstance(node.test, ast.Compare)
        and ast.unparse(node.test.comparators[0]).rpartition(".")[2] == name
        for source in sources
        for node in ast.walk(source.tree)
    )


def _name(node: ast.expr) -> str:
    return "" if isinstance(node, ast.Constant) else ast.unparse(node)[:60]


def _number(source: Source, node: ast.expr, values: Values) -> int | None:
    """Return the whole number that an expression amounts to, None where it isn't plain."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(source, node.operand, values)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and isinstance(node.value, float):
        return int(node.value) if node.value.is_integer() else None
    if isinstance(node, ast.Call) and name_of(node.func) == "int" and len(node.args) == 1:
        return _number(source, node.args[0], values)
    if not isinstance(node, (ast.Constant, ast.Name, ast.Attribute, ast.Subscript)):
        return None
    template = values.read(source, node)
    text = glob_of(template) if is_known(template) else ""
    return int(text) if re.fullmatch(r"\d{1,12}", text) else None
