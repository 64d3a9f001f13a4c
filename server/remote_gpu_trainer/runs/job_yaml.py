"""Read YAML into an object, each part with its line, and tell what is wrong in plain words.

Of YAML 1.1 only what no reader would expect otherwise is kept: yes, no, on, off, dates, 18:00 and
010 are texts as they stand. What would hold up the reader is refused in linear time: a part that
holds itself, aliases that multiply, brackets within brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from .written import (
    MOST_DEPTH,
    MOST_TOGETHER,
    TOO_DEEP,
    Broken,
    FieldPath,
    number_as_written,
)

_TAG = "tag:yaml.org,2002:"
_SCALARS = {f"{_TAG}{kind}" for kind in ("str", "int", "float", "bool", "null", "merge")}
_KINDS = {"int": "a number", "float": "a number", "bool": "true or false", "null": "nothing"}


class _Loader(yaml.SafeLoader):
    """Safe YAML whose numbers and truth values are those that a person reads as such."""

    yaml_implicit_resolvers: dict = {}
    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Build a node, no deeper than a job may be."""
        self.depth += 1
        if self.depth > MOST_DEPTH:
            mark = self.peek_event().start_mark
            raise Broken(TOO_DEEP, mark.line + 1, mark.column + 1)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


for _kind, _form, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(f"{_TAG}{_kind}", re.compile(rf"^(?:{_form})\Z"), list(_first))


def _whole(loader: _Loader, node: yaml.ScalarNode) -> object:
    return number_as_written(node.value, int)


def _real(loader: _Loader, node: yaml.ScalarNode) -> object:
    return number_as_written(node.value, float)


def _truth(loader: _Loader, node: yaml.ScalarNode) -> object:
    return {"true": True, "false": False}.get(node.value.lower(), node.value)


def _keep_text(loader: _Loader, node: yaml.ScalarNode) -> object:
    return node.value


for _name, _read in (("int", _whole), ("float", _real), ("bool", _truth), ("merge", _keep_text)):
    _Loader.add_constructor(f"{_TAG}{_name}", _read)


def read_yaml(text: str) -> tuple[Any, dict[FieldPath, int]]:
    """Return the object in a text, and the line of each of its parts. Raises Broken."""
    loader = None
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is None:
            return None, {}
        _refuse_unfit(root)
        return loader.construct_document(root), _lines(root)
    except Broken:
        raise
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"has the control character U+{error.character:04X}; leave it out"
        raise Broken(problem, line) from None
    except yaml.MarkedYAMLError as error:
        raise _in_words(error, text) from None
    except (ValueError, OverflowError):  # an escape such as "\UFFFFFFFF"
        problem = "an escape such as \\U names no character; write the character itself"
        raise Broken(problem, loader.line + 1 if loader else 1) from None


def _lines(root: yaml.Node) -> dict[FieldPath, int]:
    lines: dict[FieldPath, int] = {}
    todo: list[tuple[FieldPath, yaml.Node]] = [((), root)]
    while todo:
        path, node = todo.pop()
        if isinstance(node, yaml.MappingNode):
            pairs = [((*path, key.value), key, value) for key, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            pairs = [((*path, at), value, value) for at, value in enumerate(node.value)]
        else:
            continue
        lines.update({inner: first.start_mark.line + 1 for inner, first, _ in pairs})
        todo += [(inner, value) for inner, _, value in pairs]
    return lines


def _refuse_unfit(root: yaml.Node) -> None:
    """Raise Broken for names that stand twice or are none, for tags, for a part that holds itself,
    and for what is too large or deep once its aliases are written out."""
    measured: dict[int, tuple[int, int]] = {}  # a node's size and depth
    begun: set[int] = set()
    todo = [root]
    while todo:
        node = todo[-1]
        if id(node) in measured:
            todo.pop()
            continue
        parts = list(_parts(node))
        if id(node) not in begun:
            begun.add(id(node))
            _refuse_tag(node)
            if isinstance(node, yaml.MappingNode):
                _refuse_names(node)
            for part in parts:
                if id(part) in begun and id(part) not in measured:
                    problem = (
                        "an anchor (&) holds itself by its alias (*); write the part out without "
                        "the alias"
                    )
                    raise Broken(problem, *_at(part.start_mark))
            todo += [part for part in parts if id(part) not in measured]
            continue
        size = 1 + sum(measured[id(part)][0] for part in parts)
        size += len(node.value) + 1 if isinstance(node, yaml.ScalarNode) else 0
        depth = 1 + max((measured[id(part)][1] for part in parts), default=0)
        if size > MOST_TOGETHER:
            problem = (
                f"its aliases (*) make a job of {size:,} bytes or more, over {MOST_TOGETHER:,}; "
                "write out what is needed"
            )
            raise Broken(problem, *_at(node.start_mark))
        if depth > MOST_DEPTH:
            raise Broken(TOO_DEEP, *_at(node.start_mark))
        measured[id(node)] = size, depth
        todo.pop()


def _parts(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from pair
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _at(mark: Any) -> tuple[int, int]:
    return mark.line + 1, mark.column + 1


def _refuse_tag(node: yaml.Node) -> None:
    fits = {
        yaml.ScalarNode: _SCALARS,
        yaml.SequenceNode: {f"{_TAG}seq"},
        yaml.MappingNode: {f"{_TAG}map"},
    }[type(node)]
    if node.tag not in fits:
        tag = node.tag.replace(_TAG, "!!")[:40]
        problem = f"a job has no tags such as {tag!r}; leave it out, or put the text into quotes"
        raise Broken(problem, *_at(node.start_mark))


def _refuse_names(node: yaml.MappingNode) -> None:
    """Raise Broken for a name of this object that stands twice, or is no text."""
    seen: dict[str, int] = {}
    for key, _ in node.value:
        line, column = _at(key.start_mark)
        if not isinstance(key, yaml.ScalarNode):
            problem = (
                "a list or an object stands where a name belongs; fill in {{ }} of a template, or "
                "write NAME: VALUE"
            )
            raise Broken(problem, line, column)
        kind = key.tag.removeprefix(_TAG)
        if kind == "merge":
            continue
        if kind != "str":
            shown = key.value[:40] or "~"
            problem = f'the name {shown} is read as {_KINDS[kind]}; write "{shown}": in quotes'
            raise Broken(problem, line, column)
        if key.value in seen:
            first = seen[key.value]
            lines = f"in lines {first} and {line}" if first != line else f"twice in line {line}"
            raise Broken(f"{key.value[:60]!r} stands {lines}; leave one out", line, column)
        seen[key.value] = line


# What PyYAML says of a broken text, and what a person reads. {line}: where the part began.
_PROBLEMS = (
    (
        r"directive|version|incompatible YAML",
        "a line begins with %, as only directives of YAML do; put the text into quotes",
    ),
    (r"character '\\t' that cannot start", "a tab stands where blanks belong; indent with blanks"),
    (
        r"character '([@`%|>&*!,\]}?-])' that cannot start",
        "a text begins with {0}, which YAML keeps for itself; put the text into quotes",
    ),
    (r"character .* that cannot start", "a character stands where none belongs; remove it"),
    (
        r"could not find expected ':'",
        "this is neither NAME: VALUE nor a part of the line above; write ': ' behind the name, or "
        "indent it",
    ),
    (
        r"expected ',' or '([\]}])', but got '<stream end>'",
        "this bracket isn't closed; write {0} behind its last part",
    ),
    (
        r"expected ',' or '([\]}])'",
        "a comma is missing behind this bracket, or it isn't closed; write ',' between its parts "
        "and {0} behind the last one",
    ),
    (
        r"unexpected end of stream|found unexpected document separator",
        "this quote isn't closed; write the same quote behind the text",
    ),
    (
        r"expected the node content, but found '<stream end>'",
        "a bracket isn't closed; write what is in it, and close it",
    ),
    (
        r"expected the node content",
        "a bracket or comma stands where a value belongs; put the text into quotes",
    ),
    (
        r"expected <block end>, but found '<\w+>'while parsing a block mapping",
        "something stands behind a quoted text or a bracket; put the whole text into one pair of "
        "quotes",
    ),
    (
        r"expected <block end>, but found",
        "this line fits no line above it; indent it as its neighbours",
    ),
    (
        r"expected '<document start>'",
        "this stands behind the end of the job; write NAME: VALUE at the left edge, or remove it",
    ),
    (
        r"undefined alias",
        "a text begins with *, which YAML takes for an alias; put the text into quotes",
    ),
    (
        r"expected alphabetic or numeric character",
        "a text begins with * or &, which YAML takes for an alias or anchor; put the text into "
        'quotes, such as "*.pt"',
    ),
    (r"duplicate anchor", "an anchor (&) stands twice; give the second one another name"),
    (
        r"unknown escape character|expected escape sequence",
        "a backslash within \"…\" begins an escape; write the text within '…'",
    ),
    (
        r"expected a single document",
        "a second document begins; a file holds one job, so remove what is behind '---'",
    ),
    (
        r"expected a mapping or list of mappings for merging|expected a mapping for merging",
        "'<<' merges an object alone; write <<: *NAME of an object with fields",
    ),
    (
        r"expected a comment or a line break|chomping or indentation|indentation indicator",
        "text stands behind | or >; begin it on the next line, indented",
    ),
    (
        r"tag",
        "a text begins with !, which YAML takes for a tag; put the text into quotes",
    ),
)


# Faults that are told at the place where the part began, and not where the reader gave up.
_AT_THE_BEGINNING = re.compile(r"could not find expected|expected ',' or|unexpected end of stream")


def _in_words(error: yaml.MarkedYAMLError, text: str) -> Broken:
    """Return what PyYAML found, in words."""
    said = f"{error.problem or ''}{error.context or ''}"
    began, found = error.context_mark, error.problem_mark
    mark = (began if _AT_THE_BEGINNING.search(said) else None) or found or began
    line, column = _at(mark) if mark else (1, 1)
    row = (text.split("\n", line) + [""])[line - 1] if line <= text.count("\n") + 1 else ""
    if "\t" in row[: len(row) - len(row.lstrip())]:
        return Broken("a tab stands where blanks belong; indent with blanks", line, column)
    if "mapping values are not allowed" in said:
        if row.count(": ") + row.rstrip().endswith(":") > 1:
            problem = "a second ': ' stands in this line; put the text into quotes"
        else:
            problem = "this line is too far to the right; begin it under the lines above it"
        return Broken(problem, line, column)
    for pattern, words in _PROBLEMS:
        if match := re.search(pattern, said):
            return Broken(words.format(*match.groups()), line, column)
    return Broken("this is no valid YAML; write NAME: VALUE a line", line, column)
