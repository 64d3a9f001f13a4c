"""What an expression amounts to, as far as the source says it: text with holes.

A hole stands where the value is known only when the program runs. A hole made from a clock is told
apart: such a folder is a new one at each start.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from .sources import Source, is_reached, names_in

MOST_DEPTH = 16  # names that lead to names


@dataclass(frozen=True)
class Hole:
    """A part that only the running program knows. `is_fresh`: it is another at each start.

    `is_count`: it is a number that counts, so it holds no folder.
    """

    is_fresh: bool = False
    is_count: bool = False


Part = str | Hole
Template = tuple[Part, ...]
UNKNOWN: Template = (Hole(),)
FRESH: Template = (Hole(is_fresh=True),)
# A field of a format, with its name or number where it has one: %s, %(name)s, {}, {0}, {name:03d}
_FIELD = re.compile(
    r"%(?:\((?P<key>\w+)\))?[-+ #0]*\d*(?:\.\d+)?[a-zA-Z]|\{(?P<name>[^{}!:]*)(?:[!:][^{}]*)?\}"
)
# What is called, by its last word: it returns what it gets; a clock; the working folder.
_SAME = re.compile(
    r"str|Path|PurePath|abspath|expanduser|realpath|normpath|resolve|absolute|as_posix|expandvars"
    r"|fspath"
)
_CLOCKS = re.compile(
    r"strftime|now|time|today|isoformat|uuid4|time_ns|ctime|asctime|localtime|utcnow|mkdtemp"
)
_COUNTERS = re.compile(r"(?:\w+_)?(?:epoch|ep|step|iter|iteration|it|i|n|batch)s?(?:_\w+)?")
_CONFIGURES = re.compile(r"conf|cfg|opt|arg|param|setting|flag|hps", re.I)
_IS_HERE = re.compile(r"getcwd|cwd")
# The working folder, as its own name below the one above: what is added to it without a slash lies
# beside it. No path has this character.
_HERE = "../\x1f"
# Whose functions aren't the project's own, whatever they are called.
FOREIGN = frozenset(
    ("torch", "th", "np", "numpy", "pickle", "json", "plt", "accelerator", "paddle", "joblib")
)


def glob_of(template: Template) -> str:
    """Return the text of a template, with a `*` for each hole."""
    text = "".join(part if isinstance(part, str) else "*" for part in template)
    text = re.sub(rf"^{_HERE}(?:/+|\Z)", "./", text).replace(_HERE[-1], "*")
    return re.sub(r"\*+", "*", text)


def is_known(template: Template) -> bool:
    """Whether a template has no hole."""
    return all(isinstance(part, str) for part in template)


class Values:
    """What names stand for in the files of a program.

    `defaults`: of its options, {name: value}. `options`: those that its command sets.
    """

    def __init__(
        self,
        sources: list[Source],
        defaults: Mapping[str, Template],
        options: Mapping[str, Template],
    ):
        self.sources = sources
        self.given = options
        self.defaults = {**defaults, **options}
        self._remaking: set[str] = set()
        self._functions: dict[str, list[tuple[Source, ast.FunctionDef]]] = {}
        self._classes: dict[str, list[tuple[Source, ast.ClassDef]]] = {}
        self._calls: dict[str, list[tuple[Source, ast.Call]]] = {}
        self._kinds: dict[ast.expr, tuple[Source, ast.ClassDef] | None] = {}
        self._handed = {name for source in sources for name in _handed_on(source)}
        named = names_in(sources)
        for source in sources:
            for node in ast.walk(source.tree):
                if isinstance(node, ast.FunctionDef):
                    self._functions.setdefault(node.name, []).append((source, node))
                elif isinstance(node, ast.ClassDef):
                    self._classes.setdefault(node.name, []).append((source, node))
            for call in source.calls:
                if source is not sources[0] and not is_reached(source, call, named):
                    continue
                self._calls.setdefault(name_of(call.func), []).append((source, call))

    def read(self, source: Source, node: ast.AST | None, depth: int = 0) -> Template:
        """Return what an expression amounts to."""
        if node is None or depth > MOST_DEPTH:
            return UNKNOWN
        if isinstance(node, ast.Constant):
            return (str(node.value),) if isinstance(node.value, (str, int)) else UNKNOWN
        if isinstance(node, ast.JoinedStr):
            return self._joined(self.read(source, part, depth + 1) for part in node.values)
        if isinstance(node, ast.FormattedValue):
            if _is_fraction(node.format_spec):
                return UNKNOWN
            return self._read_field(source, node.value, depth)
        if isinstance(node, ast.BinOp):
            return self._read_operation(source, node, depth)
        if isinstance(node, ast.Call):
            return self._read_call(source, node, depth)
        if isinstance(node, ast.IfExp):
            two = [self.read(source, one, depth + 1) for one in (node.body, node.orelse)]
            return next((one for one in two if is_known(one)), two[0])
        if isinstance(node, ast.BoolOp):
            all_ = [self.read(source, one, depth + 1) for one in node.values]
            return next((one for one in all_ if is_known(one) and one != ("",)), all_[-1])
        if isinstance(node, (ast.List, ast.Tuple)) and node.elts:  # what a loop goes through
            each = {self.read(source, one, depth + 1) for one in node.elts}
            return each.pop() if len(each) == 1 else UNKNOWN
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            return self._read_name(source, node, depth)
        return UNKNOWN

    @staticmethod
    def _joined(parts: Iterator[Template]) -> Template:
        return tuple(one for part in parts for one in part)

    def _read_field(self, source: Source, node: ast.expr, depth: int) -> Template:
        """Return what a field of a format is filled with."""
        value = self.read(source, node, depth + 1)
        return (Hole(is_count=True),) if value == UNKNOWN and _counts(node) else value

    def _filled(
        self,
        source: Source,
        template: Template,
        words: Sequence[ast.expr],
        keyed: Iterable[tuple[str, ast.expr]],
        depth: int,
    ) -> Template:
        given = {str(at): self._read_field(source, one, depth) for at, one in enumerate(words)}
        given |= {name: self._read_field(source, one, depth) for name, one in keyed}
        return _fill(template, given)

    def _read_operation(self, source: Source, node: ast.BinOp, depth: int) -> Template:
        left = self.read(source, node.left, depth + 1)
        if isinstance(node.op, ast.Mod):
            if isinstance(node.right, ast.Dict):
                keys = [getattr(key, "value", "") for key in node.right.keys]
                return self._filled(
                    source, left, [], zip(keys, node.right.values, strict=True), depth
                )
            return self._filled(source, left, getattr(node.right, "elts", [node.right]), (), depth)
        right = self.read(source, node.right, depth + 1)
        if isinstance(node.op, ast.Add):
            is_sum = _is_number(node.left) or _is_number(node.right)
            return UNKNOWN if is_sum else (*left, *right)
        if isinstance(node.op, ast.Div):
            return _path([left, right])
        return UNKNOWN

    def _read_call(self, source: Source, node: ast.Call, depth: int) -> Template:
        name = name_of(node.func)
        if _CLOCKS.fullmatch(name):
            return FRESH
        if _IS_HERE.fullmatch(name):
            return (_HERE,)
        words = [self.read(source, one, depth + 1) for one in node.args]
        if name in ("join", "joinpath") and isinstance(node.func, ast.Attribute):
            if _is_text(node.func.value):  # "_".join([...])
                texts = getattr(node.args[0], "elts", []) if len(node.args) == 1 else []
                return self._joined(self.read(source, one, depth + 1) for one in texts) or UNKNOWN
            owner = node.func.value
            base = [] if name == "join" else [self.read(source, owner, depth + 1)]
            return _path([*base, *words])
        if name in ("Path", "PurePath") and len(words) > 1:
            return _path(words)
        if name == "format" and isinstance(node.func, ast.Attribute):
            keyed = [(one.arg, one.value) for one in node.keywords if one.arg]
            text = self.read(source, node.func.value, depth + 1)
            return self._filled(source, text, node.args, keyed, depth)
        if _SAME.fullmatch(name):
            if words:
                return words[0]
            if isinstance(node.func, ast.Attribute):
                return self.read(source, node.func.value, depth + 1)
        if name == "replace" and isinstance(node.func, ast.Attribute) and len(words) == 2:
            return _replaced(self.read(source, node.func.value, depth + 1), *words)
        if name == "basename" and len(words) == 1:
            return (posixpath.basename(glob_of(words[0])),) if is_known(words[0]) else UNKNOWN
        if name in ("rstrip", "strip", "lower") and isinstance(node.func, ast.Attribute):
            return self.read(source, node.func.value, depth + 1)
        if name == "get" and len(node.args) == 2:  # os.environ.get("OUT", "out")
            return words[1]
        if name == "getenv" and len(words) == 2:
            return words[1]
        return self._read_returned(name, depth)

    def _read_returned(self, name: str, depth: int, at: int | None = None) -> Template:
        """Return what the project's own function of a name returns, where that is one value.

        `at`: which of several values that it returns together.
        """
        found = self._functions.get(name, [])
        if len(found) != 1:
            return UNKNOWN
        source, function = found[0]
        ends = [one.value for one in ast.walk(function) if isinstance(one, ast.Return)]
        if at is not None:
            together = [getattr(one, "elts", [])[at : at + 1] for one in ends]
            ends = [one[0] for one in together if one]
        values = {self.read(source, one, depth + 2) for one in ends if one is not None}
        return values.pop() if len(values) == 1 else UNKNOWN

    def _read_part(self, source: Source, node: ast.Attribute, depth: int) -> Template:
        """Return the file's name in a path, as path.name and path.stem have it."""
        whole = self.read(source, node.value, depth + 1)
        base = posixpath.basename(glob_of(whole)) if is_known(whole) else ""
        if node.attr == "parent" or not base:
            return UNKNOWN
        return (posixpath.splitext(base)[0] if node.attr == "stem" else base,)

    def _read_item(self, source: Source, node: ast.Subscript, depth: int) -> Template:
        """Return one of the values of a call: of a text that is split, or of what the project's own
        function returns."""
        at = _whole_number(node.slice)
        call = node.value
        if at is None or not isinstance(call, ast.Call):
            return UNKNOWN
        name = name_of(call.func)
        if name == "splitext" and call.args:
            text = self.read(source, call.args[0], depth + 1)
            parts = posixpath.splitext(glob_of(text)) if is_known(text) else ()
        elif name in ("split", "rsplit") and isinstance(call.func, ast.Attribute):
            text = self.read(source, call.func.value, depth + 1)
            words = [getattr(one, "value", None) for one in call.args]
            is_plain = is_known(text) and words and isinstance(words[0], str) and words[0]
            parts = getattr(glob_of(text), name)(*words) if is_plain else ()
        else:
            return self._read_returned(name, depth, at) if at >= 0 else UNKNOWN
        return (parts[at],) if -len(parts) <= at < len(parts) else UNKNOWN

    def _read_name(self, source: Source, node: ast.expr, depth: int) -> Template:
        text = ast.unparse(node)
        last = text.rpartition(".")[2]
        if isinstance(node, ast.Subscript):
            key = node.slice
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                return self._read_item(source, node, depth)
            last = key.value
        if isinstance(node, ast.Attribute) and node.attr in ("parent", "stem", "name"):
            return self._read_part(source, node, depth)
        if last in self.given and (
            isinstance(node, ast.Attribute) or source.function_around(node) is None
        ):
            return self._remade(node, text, depth, mentions_itself=True) or self.given[last]
        found = self._assigned(source, node, text)
        for there, value in found:
            template = self.read(there, value, depth + 1)
            if isinstance(node, ast.Attribute) and glob_of(template).isdigit():
                continue  # a counter, as it begins
            if template != UNKNOWN:
                return _added_to(there, text, value, template)
        if isinstance(node, ast.Name):
            given = self._given_to(source, node, depth)
            if given != UNKNOWN:
                return given
        if isinstance(node, ast.Name):
            return UNKNOWN
        if isinstance(node, ast.Attribute) and self._is_property(node.attr):
            return self._read_returned(node.attr, depth)
        kept = self._kept_by_object(source, node, depth)
        if kept != UNKNOWN:
            return kept
        default = self._default(source, node, text)
        if default is None:
            return self._put_into_settings(node, depth)
        return self._remade(node, text, depth) or default

    def _put_into_settings(self, node: ast.expr, depth: int) -> Template:
        """Return what a program puts into its settings under another name, as `hparams.out = ...`
        where this is `hps.out`, if that happens in one place."""
        if not (isinstance(node, ast.Attribute) and _is_settings(node.value)):
            return UNKNOWN
        found = [
            (source, value)
            for source in self.sources
            for name, values in _all_assigned(source.tree, 99).items()
            if name.count(".") == 1 and name.endswith(f".{node.attr}")
            and _CONFIGURES.search(name.partition(".")[0])
            for value in values
        ]  # fmt: skip
        if len(found) != 1 or node in ast.walk(found[0][1]):
            return UNKNOWN
        return self.read(*found[0], depth + 2)

    def _default(self, source: Source, node: ast.expr, text: str) -> Template | None:
        """Return what a field is by a configuration or an option's default; None for neither.

        A key of a configuration that stands below others is meant where the name says so too, or
        where its owner was taken from there.
        """
        parts = re.findall(r"\w+", text)
        if parts[-1] in self.defaults and (len(parts) < 3 or parts[0] == "self"):
            owner = parts[-2] if len(parts) > 1 else ""
            if len(parts) < 3 or _CONFIGURES.search(owner):
                return self.defaults[parts[-1]]
        for count in range(len(parts), 1, -1):
            if (key := ".".join(parts[-count:])) in self.defaults:
                return self.defaults[key]
        owner_ = node.value if isinstance(node, (ast.Attribute, ast.Subscript)) else node
        for _, value in self._assigned(source, owner_, ast.unparse(owner_)):
            above = re.findall(r"\w+", ast.unparse(value))
            if isinstance(value, (ast.Attribute, ast.Subscript)) and above:
                key = f"{above[-1]}.{parts[-1]}"
                if key in self.defaults:
                    return self.defaults[key]
        below = [key for key in self.defaults if key.endswith(f".{parts[-1]}")]
        is_config = len(parts) == 2 and _CONFIGURES.search(parts[0])
        return self.defaults[below[0]] if is_config and len(below) == 1 else None

    def _is_property(self, name: str) -> bool:
        return any(
            ast.unparse(one).endswith("property")
            for _, function in self._functions.get(name, [])
            for one in function.decorator_list
        )

    def _kept_by_object(self, source: Source, node: ast.expr, depth: int) -> Template:
        """Return what the project's own class puts into a field of an object, as by
        `self.path = ...`."""
        if not isinstance(node, ast.Attribute) or depth > MOST_DEPTH:
            return UNKNOWN
        if (made := self._class_of(source, node.value, depth)) is None:
            return UNKNOWN
        there, kind = made
        for name in (f"self.{node.attr}", node.attr):
            for value in _assignments(kind, name):
                template = self.read(there, value, depth + 2)
                if template != UNKNOWN:
                    return template
        return UNKNOWN

    def _class_of(
        self, source: Source, node: ast.expr, depth: int
    ) -> tuple[Source, ast.ClassDef] | None:
        """Return the project's own class whose object an expression is."""
        if node not in self._kinds:
            self._kinds[node] = None  # while it is followed, and where it leads to itself
            self._kinds[node] = self._followed_to_class(source, node, depth)
        return self._kinds[node]

    def _followed_to_class(
        self, source: Source, node: ast.expr, depth: int
    ) -> tuple[Source, ast.ClassDef] | None:
        if depth > MOST_DEPTH:
            return None
        if isinstance(node, ast.Call):
            found = self._classes.get(name_of(node.func), [])
            return found[0] if len(found) == 1 else None
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return None
        for there, value in self._assigned(source, node, ast.unparse(node)):
            if made := self._class_of(there, value, depth + 1):
                return made
        if isinstance(node, ast.Name):
            for there, value in self._arguments_for(source, node):
                if made := self._class_of(there, value, depth + 1):
                    return made
        return None

    def _remade(
        self, node: ast.expr, text: str, depth: int, mentions_itself: bool = False
    ) -> Template:
        """Return what a program puts in the place of an option's value, as by
        `args.name = f"{args.name}-{now()}"`; () where it leaves it."""
        if text in self._remaking:
            return ()
        self._remaking.add(text)
        made = [
            self.read(source, value, depth + 1)
            for source in self.sources
            for value in _assignments(source.tree, text)
            if node not in ast.walk(value) and (not mentions_itself or _mentions(value, text))
        ]
        self._remaking.remove(text)
        return made[0] if made else ()

    def _assigned(
        self, source: Source, node: ast.expr, text: str
    ) -> Iterator[tuple[Source, ast.expr]]:
        """Yield what is assigned to a name: in the function first, then in the file, then in the
        files beside it."""
        function = source.function_around(node)
        local = list(_assignments(function, text)) if function else []
        local = _nearest_first(source, local, node)
        yield from ((source, value) for value in local)
        if text.startswith("self."):
            inside = source.class_around(node) or source.tree
            yield from ((source, value) for value in _assignments(inside, text))
            yield from (
                (there, value)
                for there in self.sources
                if there is not source
                for value in _assignments(there.tree, text)
            )
            return
        is_parameter = function is not None and any(
            isinstance(one, ast.arg) and one.arg == text for one in ast.walk(function.args)
        )
        if not local and not is_parameter:
            own = _nearest_first(source, list(_assignments(source.tree, text, 0)), node)
            yield from ((source, value) for value in own)
            for there in self.sources:
                if there is not source and text.isupper():
                    yield from ((there, value) for value in _assignments(there.tree, text, 0))

    def _given_to(self, source: Source, node: ast.Name, depth: int) -> Template:
        """Return what a parameter is given where its function is called, or its default."""
        for there, value in self._arguments_for(source, node):
            template = self.read(there, value, depth + 2)
            if template != UNKNOWN:
                return template
        return UNKNOWN

    def given_to(self, source: Source, node: ast.Name) -> Iterator[tuple[Source, ast.expr]]:
        """Yield what a parameter is given where its function is called, and its default; nothing
        for a name that is none, or that the function itself assigns."""
        function = source.function_around(node)
        if function is not None and not _all_assigned(function, 99).get(node.id):
            yield from self._arguments_for(source, node)

    def is_own(self, name: str) -> bool:
        """Return whether the project itself defines a class or a function of this name."""
        return name in self._classes or name in self._functions

    def _arguments_for(self, source: Source, node: ast.Name) -> Iterator[tuple[Source, ast.expr]]:
        """Yield what a parameter is given where its function is called, then its default."""
        function = source.function_around(node)
        if not isinstance(function, ast.FunctionDef):
            return
        arguments = function.args
        names = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
        keyed = [one.arg for one in arguments.kwonlyargs]
        if node.id not in (*names, *keyed):
            return
        inside = source.class_around(function)
        called = inside.name if inside and function.name == "__init__" else function.name
        alike = self._functions.get(called, [])
        own_kind = [one for there, one in alike if bool(there.class_around(one)) == bool(inside)]
        if len(own_kind) > 1 or (inside and len(alike) > 1):
            return  # which of them a call means isn't known
        by_name_alone = len(alike) > 1  # an object's method is called the same
        skipped = 1 if names[:1] in (["self"], ["cls"]) else 0
        at = names.index(node.id) - skipped if node.id in names else None
        for there, call in self._calls.get(called, []):
            owner = name_of(call.func.value) if isinstance(call.func, ast.Attribute) else ""
            if inside is None and (owner in FOREIGN or (owner and by_name_alone)):
                continue
            value = next((one.value for one in call.keywords if one.arg == node.id), None)
            if value is None and at is not None and 0 <= at < len(call.args):
                value = call.args[at]
            if value is not None and not isinstance(value, ast.Starred):
                yield there, value
            elif any(one.arg is None for one in call.keywords) and node.id in self.defaults:
                yield there, ast.Constant("".join(map(str, self.defaults[node.id])))
        if function.name in self._handed:
            return  # whoever gets the function calls it with words of its own
        defaults = dict(zip(reversed(names), reversed(arguments.defaults), strict=False))
        defaults |= dict(zip(keyed, arguments.kw_defaults, strict=False))  # type: ignore[arg-type]
        if default := defaults.get(node.id):
            yield source, default


def _handed_on(source: Source) -> Iterator[str]:
    """Yield the names that a file hands to a call as they are, as in `keep(saver=model.save)`."""
    for call in source.calls:
        for word in (*call.args, *(one.value for one in call.keywords)):
            if name := name_of(word):
                yield name


def name_of(function: ast.expr) -> str:
    """Return the last word of what is called: `save` of `torch.save`."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _is_settings(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and _CONFIGURES.search(node.id) is not None


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _assignments(inside: ast.AST, text: str, most_depth: int = 99) -> Iterator[ast.expr]:
    """Yield the values assigned to a name within a node; at the module's own level for depth 0."""
    yield from _all_assigned(inside, most_depth).get(text, ())


@lru_cache(maxsize=4096)
def _all_assigned(inside: ast.AST, most_depth: int) -> dict[str, list[ast.expr]]:
    """Return the values assigned within a node, {name: values}."""
    found: dict[str, list[ast.expr]] = {}
    nodes = ast.iter_child_nodes(inside) if most_depth == 0 else ast.walk(inside)
    todo = list(nodes)
    if most_depth == 0:  # what `if __name__ == ...` holds is the module's level, too
        for node in list(todo):
            if isinstance(node, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
                todo += [
                    one for one in ast.walk(node) if isinstance(one, (ast.Assign, ast.AnnAssign))
                ]
    for node in todo:
        targets: list[ast.expr] = []
        value: ast.expr | None = None
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign):
            targets, value = [node.target], node.value
        elif isinstance(node, ast.For) and isinstance(node.iter, (ast.Name, ast.List, ast.Tuple)):
            targets, value = [node.target], node.iter
        if value is not None:
            for name in dict.fromkeys(map(ast.unparse, targets)):
                found.setdefault(name, []).append(value)
            for target in targets:
                for name, one in _taken_apart(target, value):
                    found.setdefault(name, []).append(one)
    return found


def _taken_apart(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names of `a, b = ...`, each with the value that it gets."""
    names = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
    if any(isinstance(one, ast.Starred) for one in names):
        return
    if isinstance(value, ast.Tuple) and len(value.elts) == len(names):
        yield from zip(map(ast.unparse, names), value.elts, strict=True)
    elif isinstance(value, ast.Call):
        for at, name in enumerate(names):
            yield ast.unparse(name), ast.Subscript(value, ast.Constant(at), ast.Load())


def _whole_number(node: ast.expr) -> int | None:
    """Return the number of an index such as 0 or -1; None for another one."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if type(value) is int else None


def _nearest_first(source: Source, values: list[ast.expr], node: ast.AST) -> list[ast.expr]:
    """Return the assigned values that a node isn't part of, those of its own branch first."""
    values = [value for value in values if node not in ast.walk(value)]
    return sorted(values, key=lambda value: not _is_above(source, value, node))


def _is_above(source: Source, value: ast.expr, node: ast.AST) -> bool:
    """Whether the block in which a value is assigned holds a node, too."""
    statement = source.parents.get(value, value)
    block = source.parents.get(statement)
    branch = _branch(block, statement)
    while above := source.parents.get(node):
        if above is block:
            return _branch(block, node) == branch
        node = above
    return False


def _branch(block: ast.AST | None, node: ast.AST) -> bool:
    """Whether a node stands in the else of a block."""
    return isinstance(block, ast.If) and node in block.orelse


def _added_to(source: Source, text: str, value: ast.expr, template: Template) -> Template:
    """Return what a name stands for that was assigned a value: with a hole where more is added to
    a text later, and not known where it counts."""
    adds = any(
        isinstance(node, ast.AugAssign) and ast.unparse(node.target) == text
        for node in ast.walk(source.function_around(value) or source.tree)
    )
    if not adds:
        return template
    is_number = _is_number(value) or (not _is_text(value) and glob_of(template).isdigit())
    return UNKNOWN if is_number else (*template, Hole())


def _mentions(node: ast.expr, text: str) -> bool:
    return any(isinstance(one, ast.expr) and ast.unparse(one) == text for one in ast.walk(node))


def _replaced(template: Template, old: Template, new: Template) -> Template:
    """Return a template with one text in place of another."""
    if not (is_known(old) and is_known(new)):
        return UNKNOWN
    before, after = "".join(map(str, old)), "".join(map(str, new))
    if not before:
        return UNKNOWN
    return tuple(
        part.replace(before, after) if isinstance(part, str) else part for part in template
    )


def _counts(node: ast.expr) -> bool:
    """Whether an expression is named as what counts a loop, or adds a number to it."""
    if isinstance(node, ast.BinOp) and (_is_number(node.left) or _is_number(node.right)):
        return _counts(node.left) or _counts(node.right)
    return isinstance(node, ast.Name) and _COUNTERS.fullmatch(node.id) is not None


def _is_fraction(spec: ast.expr | None) -> bool:
    """Whether a format is one of a number with decimals, as in {loss:.4f}."""
    return spec is not None and re.search(r"[eEfFgG%]'$", ast.unparse(spec)) is not None


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))


def _fill(template: Template, given: Mapping[str, Template]) -> Template:
    """Return a template with each field of a format filled. `given`: by its name or its number."""
    parts: list[Part] = []
    number = 0
    for part in template:
        if not isinstance(part, str):
            parts.append(part)
            continue
        end = 0
        for field in _FIELD.finditer(part):
            parts += [part[end : field.start()]] if field.start() > end else []
            name = field["key"] or field["name"]
            if not name:
                name, number = str(number), number + 1
            parts += given.get(name, UNKNOWN)
            end = field.end()
        parts += [part[end:]] if part[end:] else []
    return tuple(parts)


def _path(parts: list[Template]) -> Template:
    """Return the parts of a path joined by slashes; one from the root drops those before it."""
    joined: list[Part] = []
    for part in parts:
        if part and isinstance(part[0], str) and part[0].startswith("/"):
            joined = list(part)
            continue
        if joined and not (isinstance(joined[-1], str) and joined[-1].endswith("/")):
            joined.append("/")
        joined += part
    if joined[:1] == [""]:
        joined = joined[1:]
    if (
        joined
        and joined[0] == "/"
        and not (parts and parts[0][:1] and str(parts[0][0]).startswith("/"))
    ):
        joined = joined[1:]
    return tuple(joined)
