"""The options of a program: argparse, click, absl, dataclasses of HfArgumentParser and the like."""

from __future__ import annotations

import ast
import itertools
import math
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from .sources import Source, is_reached, names_in
from .values import Template, name_of

MOST_CONFIG_BYTES = 1 << 18
_CALLS = frozenset(("add_argument", "add_arg", "option", "argument", "Option", "Argument"))
# Calls that let a program take more options than its own lines declare.
_OPEN_PARSERS = frozenset((
    "parse_known_args", "HfArgumentParser", "TrlParser", "Fire", "add_argparse_args",
    "add_arguments", "add_config_arguments", "LightningCLI", "add_subparsers",
))  # fmt: skip
_SAME = ("Path", "str", "expanduser", "abspath")  # of what they get
_FLAGS = re.compile(r"^DEFINE_\w+$")
_GOES_ON = re.compile(
    r"-{1,2}(?:resume|resume[-_]?(?:from|path|checkpoint|from[-_]checkpoint|ckpt|file)"
    r"|resume[-_]from[-_](?:path|ckpt)|ckpt[-_]?resume|continue[-_]from)"
)
_IS_CALLED_RESUME = re.compile(
    r"-{1,2}(?:resume|continue|auto[-_]?resume|ckpt[-_]?resume)(?:[-_].*)?"
)
_LOADS = re.compile(r"-{1,2}load[-_]?(?:checkpoint|ckpt)")
# What may name a checkpoint to go on from, to test, or to save to.
_CHECKPOINT = re.compile(r"-{1,2}(?:checkpoint|ckpt)(?:[-_](?:path|file))?")


@dataclass(frozen=True)
class Option:
    """One option: its flags, the name that the program knows it by, and its default.

    `default`: a text, None where there is none or where it isn't plain. `is_switch`: it takes no
    value. `is_required`: the program refuses to begin without it. `is_positional`: it has no flag.
    `is_text`: it takes a text or a path, and no number or truth. `is_argument`: a call declares it,
    and no field of a class. `takes_many`: it takes several values, or how many isn't plain.
    `is_off`: it is a truth, and False where nobody sets it.
    """

    flags: tuple[str, ...]
    name: str
    default: str | None
    is_switch: bool = False
    is_required: bool = False
    is_text: bool = True
    is_argument: bool = False
    takes_many: bool = False
    is_off: bool = False

    @property
    def is_positional(self) -> bool:
        """Return whether it has no flag."""
        return not self.flags

    @property
    def goes_on(self) -> bool:
        """Return whether its name says that it takes the checkpoint to go on from."""
        return any(_GOES_ON.fullmatch(flag) for flag in self.flags)

    @property
    def is_called_resume(self) -> bool:
        """Return whether it is named after going on, of whatever it takes."""
        return self.goes_on or any(_IS_CALLED_RESUME.fullmatch(flag) for flag in self.flags)

    @property
    def is_choice(self) -> bool:
        """Return whether it takes a number, a truth or nothing, and no path."""
        return self.is_switch or self.is_off or not self.is_text

    @property
    def flag(self) -> str:
        """Return its longest flag."""
        return max(self.flags, key=len, default="")


def read(sources: list[Source], words: list[str]) -> list[Option]:
    """Return the options that the files of a program declare, in their order.

    `words`: of its command, of whose subcommand alone they are where it names one.
    """
    found: dict[str, Option] = {}
    named = names_in(sources)
    for source in sources:
        of_parsers = _subcommands(source)
        is_own = source is not sources[0] and _is_parsed_alone(source, named, sources)
        for call in [] if is_own else source.calls:
            option = _declared(call)
            kind = of_parsers.get(call, "")
            is_other = kind not in ("", *words) and any(one in words for one in of_parsers.values())
            if option and option.name and not is_other and _is_called(source, call, named):
                found.setdefault(option.name, option)
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef) and _is_dataclass(node):
                for one in _fields(node):
                    found.setdefault(one.name, one)
    return list(found.values())


def resuming(options: list[Option], goes_on: bool) -> list[Option]:
    """Return the options by which a program may go on, the one that is named so plainly first.

    `goes_on`: its source shows that it does, so that one called --checkpoint counts, too.
    """
    found = [
        one
        for one in options
        if one.is_called_resume
        or any(_LOADS.fullmatch(flag) for flag in one.flags)
        or (goes_on and any(_CHECKPOINT.fullmatch(flag) for flag in one.flags))
    ]
    return sorted(found, key=lambda one: (not one.is_called_resume, not one.goes_on, one.is_choice))


def _is_parsed_alone(source: Source, named: set[str], sources: list[Source]) -> bool:
    """Whether a file reads a command line only where it is run as a program of its own."""
    parses = [one for one in source.calls if name_of(one.func).startswith("parse_")]
    return bool(parses) and not any(
        is_reached(source, one, named) and not _is_of_own_main(source, one, sources)
        for one in parses
    )


def _is_of_own_main(source: Source, call: ast.Call, sources: list[Source]) -> bool:
    """Whether a call stands in a function that its file calls as a program, and that no other file
    takes from it by name."""
    function = source.function_around(call)
    if function is None or source.class_around(function) is not None:
        return False
    is_guarded = any(
        name_of(one.func) == function.name and not is_reached(source, one, {function.name})
        for one in source.calls
    )
    whole = f"{posixpath.basename(source.path).removesuffix('.py')}.{function.name}"
    return is_guarded and not any(
        isinstance(node, ast.ImportFrom) and any(one.name == function.name for one in node.names)
        or isinstance(node, ast.Attribute) and ast.unparse(node).endswith(whole)
        for there in sources
        if there is not source
        for node in ast.walk(there.tree)
    )  # fmt: skip


def _subcommands(source: Source) -> dict[ast.Call, str]:
    """Return {call: name of the subcommand} of the calls that give a subcommand its options."""
    made = [
        (node.lineno, ast.unparse(target), _plain(node.value.args[0]) or "")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and name_of(node.value.func) == "add_parser"
        and node.value.args
        for target in node.targets
    ]
    found = {}
    for call in source.calls if made else []:
        owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        own = [one for one in made if one[1] == owner and one[0] < call.lineno]
        if own:
            found[call] = max(own)[2]
    return found


def _is_called(source: Source, call: ast.Call, named: set[str]) -> bool:
    """Whether the function that holds a call is named anywhere."""
    function = source.function_around(call)
    is_method = function is not None and source.class_around(function) is not None
    return function is None or is_method or bool(function.decorator_list) or function.name in named


def defaults_of(options: list[Option]) -> dict[str, Template]:
    """Return what the options are where nobody sets them, {name: value}: "False" for a switch."""
    return {
        one.name: (one.default or "False",)
        for one in options
        if one.default is not None or one.is_off
    }


def given_by(words: list[str], options: list[Option]) -> dict[str, Template]:
    """Return the values of options that a command line sets, {name: value}."""
    flags = {flag: one for one in options for flag in one.flags}
    given: dict[str, Template] = {}
    at = 0
    while at < len(words):
        flag, has_value, value = words[at].partition("=")
        at += 1
        key = flag.lstrip("-").replace("-", "_")
        if not flag.startswith("-"):
            if has_value and re.fullmatch(r"[\w.]+", flag):  # hydra's and nanoGPT's key=value
                given[flag.rpartition(".")[2]] = (value,)
            continue
        option = (
            flags.get(flag)
            or flags.get(flag.replace("_", "-"))
            or flags.get(flag.replace("-", "_"))
        )
        if has_value:
            given[option.name if option else key] = (value,)
        elif option and option.is_switch:
            given |= {option.name: ("True",)} if option.is_off else {}
        elif at < len(words) and not words[at].startswith("--"):
            given[option.name if option else key] = (words[at],)
            at += 1
        elif not option:  # a library's own switch
            given[key] = ("True",)
    return given


def unset(options: list[Option], words: list[str]) -> list[Option]:
    """Return the options that the program asks for and the command line lacks."""
    given = given_by(words, options)
    placed = [
        word
        for index, word in enumerate(words)
        if not word.startswith("-") and (index == 0 or not words[index - 1].startswith("-"))
    ]
    lacking = [one for one in options if one.is_required and one.flags and one.name not in given]
    positional = [one for one in options if one.is_positional and one.is_required]
    return lacking + positional[len(placed) :]


_DATA = re.compile(r"data(?:set)?s?(?:_?(?:dir|root|path|folder))?")
_ELSEWHERE = re.compile(r"(?:[A-Za-z]:[\\/]|/(?!tmp/|dev/)[\w.-]+/|~/|\.\./)[^\s]+")


def without_data(options: list[Option], words: list[str]) -> list[Option]:
    """Return the options of the data's folder that have neither a default nor a value."""
    given = given_by(words, options)
    return [
        one
        for one in options
        if one.flags and one.is_text and not one.is_switch and not one.default
        and one.is_argument and _DATA.fullmatch(one.name) and one.name not in given
    ]  # fmt: skip


def elsewhere(options: list[Option], words: list[str]) -> list[str]:
    """Return the paths of another machine, or above the project's folder, that a command has or
    that its options have by default."""
    given = given_by(words, options)
    texts = [word.partition("=")[2] or word for word in words]
    texts += [one.default or "" for one in options if one.name not in given]
    return list(dict.fromkeys(text for text in texts if _ELSEWHERE.fullmatch(text)))


def settings_of_sources(sources: list[Source]) -> dict[str, Template]:
    """Return the plain values that configuration files of Python assign, {name: value}."""
    found: dict[str, Template] = {}
    for source in sources:
        for node in source.tree.body:
            if isinstance(node, ast.Assign) and (value := _plain(node.value)) is not None:
                found |= {one.id: (value,) for one in node.targets if isinstance(one, ast.Name)}
    return found


def settings_of(folder: Path, names: list[str]) -> dict[str, Template]:
    """Return the plain values of a program's YAML and JSON files, {key: value}.

    A key below others has them before it, with dots. The first file that has a key wins.
    """
    found: dict[str, Template] = {}
    for name in names:
        try:
            if (folder / name).stat().st_size > MOST_CONFIG_BYTES:
                continue
            read_ = yaml.safe_load((folder / name).read_text(encoding="utf-8", errors="replace"))
        except (OSError, yaml.YAMLError, ValueError, RecursionError):
            continue
        todo = [("", read_)]
        while todo:
            above, one = todo.pop(0)
            if not isinstance(one, dict):
                continue
            for key, value in one.items():
                if isinstance(value, dict):
                    todo.append((f"{above}{key}.", value))
                elif isinstance(value, (str, int)) and "${" not in str(value):
                    found.setdefault(f"{above}{key}", (str(value),))
    return found


def _declared(call: ast.Call) -> Option | None:
    name = name_of(call.func)
    texts = [
        one.value
        for one in call.args
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]
    keyed = {one.arg: one.value for one in call.keywords if one.arg}
    if _FLAGS.match(name) and texts:
        default = call.args[1] if len(call.args) > 1 else keyed.get("default")
        return Option((f"--{texts[0]}",), texts[0], _plain(default))
    if name not in _CALLS or not texts:
        return None
    flags = tuple(text for text in texts if text.startswith("-"))
    if name == "add_arg" and not flags:  # a project's own, which puts the dashes before the name
        flags = (f"--{texts[0]}",)
    for text in flags:
        if not re.fullmatch(r"-{1,2}[\w][\w.:/-]*", text):
            return None
    dest = _plain(keyed.get("dest"))
    long = next((one for one in flags if one.startswith("--")), flags[0] if flags else texts[0])
    key = dest or long.lstrip("-").split("/")[0].replace("-", "_")
    action = _plain(keyed.get("action")) or ""
    default = keyed.get(
        "default", call.args[2] if name == "add_arg" and len(call.args) > 2 else None
    )
    nargs = _plain(keyed.get("nargs")) or ("*" if "nargs" in keyed else "")  # argparse.REMAINDER
    is_required = _truth(keyed.get("required")) or (
        not flags and nargs not in ("?", "*") and name == "add_argument"
    )
    return Option(
        flags,
        key,
        _plain(default),
        is_switch=action in ("store_true", "store_false", "count") or _truth(keyed.get("is_flag")),
        is_required=is_required,
        is_text=(name != "add_argument" or _takes_text(keyed.get("type")))
        and "choices" not in keyed,
        is_argument=True,
        takes_many="nargs" in keyed or "action" in keyed,
        is_off=action == "store_true" and not getattr(default, "value", default),
    )


def _takes_text(node: ast.expr | None) -> bool:
    """Whether a type of argparse gives a text or a path."""
    return node is None or ast.unparse(node).rpartition(".")[2] in ("str", "Path", "PurePath")


def undeclared(sources: list[Source], options: list[Option], words: list[str]) -> list[str]:
    """Return the flags among the words of a command that its program would refuse.

    [] where not all flags that it takes are known: only argparse with plain texts tells them all.
    """
    calls = [call for source in sources for call in source.calls]
    added = [call for call in calls if name_of(call.func) == "add_argument"]
    called = {name_of(call.func) for call in calls}
    is_told = all(one.args and all(isinstance(a, ast.Constant) for a in one.args) for one in added)
    if not added or not is_told or "parse_args" not in called or called & _OPEN_PARSERS:
        return []
    flags = {flag: one for one in options for flag in one.flags}
    found = []
    for word in words:
        flag = word.partition("=")[0]
        is_flag = re.fullmatch(r"--[A-Za-z][\w.-]*", flag) is not None
        if is_flag and not any(one.startswith(flag) for one in flags) and flag != "--":
            found.append(flag)
    if not any(one.is_positional for one in options):
        found += _without_flag(words, flags)
    return found


def _without_flag(words: list[str], flags: dict[str, Option]) -> list[str]:
    """Return the words of a command that are neither a flag nor may be a flag's value."""
    found = []
    room = 0.0  # values that the flag before may still take
    for word in words:
        if word.startswith("-") and not re.match(r"-[.\d]", word):
            flag, has_value, _ = word.partition("=")
            option = flags.get(flag)
            many = option is None or (option.takes_many and not option.is_switch)
            room = 0 if has_value or (option and option.is_switch) else math.inf if many else 1
        elif room:
            room -= 1
        else:
            found.append(word)
    return found


def missing(sources: list[Source], settings: Mapping[str, Template], words: list[str]) -> list[str]:
    """Return the keys that a program's configuration by hydra must have and that neither a file of
    settings nor the command gives: fields whose value is MISSING."""
    if not any("hydra" in source.text for source in sources):
        return []
    has = {key.rpartition(".")[2] for key in (*settings, *given_by(words, []))}
    names = [
        one.target.id
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef) and _is_dataclass(node)
        for one in node.body
        if isinstance(one, ast.AnnAssign)
        and isinstance(one.target, ast.Name)
        and one.value is not None
        and ast.unparse(one.value).rpartition(".")[2] == "MISSING"
    ]
    return [name for name in dict.fromkeys(names) if name not in has]


def configuration_of(source: Source, words: list[str]) -> tuple[str, str]:
    """Return the folder and the name of the configuration that hydra's main reads, ('', '') where
    the source doesn't tell."""
    for call in source.calls:
        if not ast.unparse(call.func).endswith("hydra.main"):
            continue
        keyed = {one.arg: _plain(one.value) for one in call.keywords if one.arg}
        own = [word.partition("=")[2] for word in words if word.startswith("--config-name=")]
        own += [b for a, b in itertools.pairwise(words) if a in ("--config-name", "-cn")]
        name = own[0] if own else keyed.get("config_name")
        if (folder := keyed.get("config_path")) and name:
            above = posixpath.dirname(source.path)
            return posixpath.normpath(posixpath.join(above, folder)), name.removesuffix(".yaml")
    return "", ""


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any(
        "dataclass" in ast.unparse(one) or "configclass" in ast.unparse(one)
        for one in node.decorator_list
    )


def _fields(node: ast.ClassDef) -> list[Option]:
    """Return the fields of a dataclass, which HfArgumentParser, tyro and the like make options."""
    fields = []
    for one in node.body:
        if not (isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)):
            continue
        value = one.value
        if isinstance(value, ast.Call) and name_of(value.func) in ("field", "Field"):
            keyed = {word.arg: word.value for word in value.keywords if word.arg}
            value = keyed.get("default", value.args[0] if value.args else None)
        is_off = isinstance(value, ast.Constant) and value.value is False
        name = one.target.id
        fields.append(Option((f"--{name}",), name, _plain(value), is_off=is_off))
    return fields


def _plain(node: ast.expr | None) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, int, float)):
        return None if isinstance(node.value, bool) else str(node.value)
    if isinstance(node, ast.Call) and name_of(node.func) in _SAME and len(node.args) == 1:
        return _plain(node.args[0])
    return None


def _truth(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True
