"""Add our values to one configuration file of a client, and remove them again.

No other byte of the file changes. `Remembered` holds what is needed to restore a file that nobody
has changed since. JSON is edited by configs, because no library on PyPI edits
JSON with comments in place; TOML is edited with tomlkit.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from . import configs
from .configs import BadText, Edit, is_ours, only_our_keys

MOST_BYTES = 32 << 20
_BLANK_LINE = re.compile(r"[ \t]*\r?\n")


class InstallError(Exception):
    """The installation isn't possible, and nothing was changed. The text says what to do."""


@dataclass
class Remembered:
    """How a file was changed.

    `sha256` is the sum of the result. `steps` has, for each step, the pieces that it inserted:
    (offset in the text after that step, length). `edits` has, for each value, its path, its sum,
    and the paths that were made for it. `folders` were made for the file.
    """

    file: str
    sha256: str
    created: bool
    steps: list[list[tuple[int, int]]]
    edits: list[dict]
    folders: list[str] = field(default_factory=list)


def sum_of(text: str) -> str:
    """The SHA-256 of a text as UTF-8, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def text_of(file: Path) -> str | None:
    """The text of a file, None if there is no file. Raises InstallError."""
    try:
        if not file.exists():
            if file.is_symlink():
                raise InstallError(f"{file}: a broken link; remove it or create its target")
            return None
        if not file.is_file():
            raise InstallError(f"{file}: not a regular file; move it away, then run this again")
        if file.stat().st_size > MOST_BYTES:
            raise InstallError(
                f"{file}: longer than the {MOST_BYTES} bytes that this command edits; "
                "add the server by hand"
            )
        return file.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InstallError(
            f"{file}: byte {error.start} isn't UTF-8; correct the file, nothing was changed"
        ) from None
    except OSError as error:
        raise InstallError(
            f"{file}: can't be read ({error.strerror}); make it readable, then run this again"
        ) from None


def _parsed(file: Path, text: str) -> object:
    try:
        if file.suffix == ".toml":
            return _toml(text).unwrap()
        value = configs.read(text).value if text.strip("\ufeff \t\r\n") else {}
    except BadText as error:
        raise InstallError(f"{file}: {error}; correct it, nothing was changed") from None
    if not isinstance(value, dict):
        raise InstallError(
            f"{file}: the file holds {configs.named(value)}, not an object; correct it, "
            "nothing was changed"
        )
    return value


def _at(tree: object, path: tuple) -> object:
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _present(edit: Edit, tree: object) -> bool:
    there = _at(tree, edit.path)
    return (
        edit.value in there
        if edit.append and isinstance(there, list)
        else _keeps(there, edit.value)
    )


def _keeps(there: object, value: object) -> bool:
    """Whether an entry is our value, perhaps with further settings that the user added."""
    return there == value or (
        isinstance(there, dict)
        and isinstance(value, dict)
        and all(there.get(k) == v for k, v in value.items() if k != "enabled")
    )


def taken_out(
    file: Path, text: str, known: Remembered | None, candidates: list[Edit]
) -> str | None:
    """The text without our values; None if we made the file. Raises InstallError."""
    if known and sum_of(text) == known.sha256:
        for step in reversed(known.steps):
            for offset, length in reversed(step):
                text = text[:offset] + text[offset + length :]
        return None if known.created and not text else text
    _parsed(file, text)
    for edit in candidates:
        text = _without(file, text, edit, known)
    if known:
        text = _pruned(file, text, _made(known))
        if known.created and not _parsed(file, text) and not _remarks(text):
            return None
    return text


def _made(known: Remembered) -> list:
    return sorted(
        {tuple(path) for edit in known.edits for path in edit.get("made", [])},
        key=len,
        reverse=True,
    )


def _remarks(text: str) -> bool:
    return any(mark in text for mark in ("//", "/*", "#"))


def _without(file: Path, text: str, edit: Edit, known: Remembered | None) -> str:
    there = _at(_parsed(file, text), edit.path)
    if edit.append:
        items = there if isinstance(there, list) else []
        ours = [
            (*edit.path, place)
            for place in reversed(range(len(items)))
            if _wrote(items[place], known)
        ]
    else:
        ours = [edit.path] if _wrote(there, known) else []
    for path in ours:
        text = _cut(file, text, path)
    return text


def _wrote(value: object, known: Remembered | None) -> bool:
    """Whether a value is ours: it has our form, or it is the value that was written."""
    return is_ours(value) or (
        known is not None and any(edit.get("sum") == _sum_of_value(value) for edit in known.edits)
    )


def _sum_of_value(value: object) -> str:
    plain = (
        {key: one for key, one in value.items() if key != "enabled"}
        if isinstance(value, dict)
        else value
    )
    return sum_of(json.dumps(plain, sort_keys=True, default=str))


def _cut(file: Path, text: str, path: tuple) -> str:
    """The text without the value at `path`. Raises InstallError if anything else would change."""
    left = _parsed(file, text)
    place = left
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    with suppress(BadText):
        if file.suffix == ".toml":
            text = _toml_removed(text, path)
            if _without_empty(_toml(text).unwrap(), path) == _without_empty(left, path):
                return text
        else:
            text = configs.removed(text, path)
            if configs.read(text).value == left:
                return text
    raise InstallError(
        f"{file}: {'.'.join(map(str, path))} can't be removed without changing something else; "
        "remove it by hand"
    )


def _without_empty(tree: dict, path: tuple) -> dict:
    """The tree without the path's first table if it is empty: in TOML only a header makes one."""
    return tree if tree.get(path[0], True) else {k: v for k, v in tree.items() if k != path[0]}


def _pruned(file: Path, text: str, made: list[tuple]) -> str:
    """The text without empty containers that we made."""
    for path in made:
        if file.suffix != ".toml" and path and _at(_parsed(file, text), path) in ({}, []):
            node = configs.find(configs.read(text), path)
            if not _remarks(text[node.start : node.end]):
                text = _cut(file, text, path)
    return text


def put_in(file: Path, text: str | None, edits: list[Edit]) -> tuple[str, Remembered]:
    """The text with our values, and how to undo that. Raises InstallError."""
    created, steps, told = text is None, [], []
    text = text or ""
    _parsed(file, text)
    for edit in edits:
        step: list[tuple[int, int]] = []
        if not edit.toml and not text.strip("\ufeff \t\r\n"):
            newline = "{}\n"
            step.append((len(text), len(newline)))
            text += newline
            steps.append(step)
            step = []
        before = _parsed(file, text)
        there = _at(before, edit.path)
        if not edit.append and there is not None:
            raise InstallError(
                f"{file}: has another server called {edit.path[-1]!r}; "
                "rename or remove it, then run this again"
            )
        try:
            pieces = (
                _toml_added(text, edit.path, edit.value)
                if edit.toml
                else configs.added(text, edit.path, edit.value, edit.append)
            )
        except BadText as error:
            raise InstallError(f"{file}: {error}; nothing was changed") from None
        moved = 0
        for offset, piece in sorted(pieces, key=lambda pair: pair[0]):
            text = text[: offset + moved] + piece + text[offset + moved :]
            step.append((offset + moved, len(piece)))
            moved += len(piece)
        parents = [edit.path[:n] for n in range(1, len(edit.path) + bool(edit.append))]
        told.append(
            {
                "path": list(edit.path),
                "made": [list(path) for path in parents if _at(before, path) is None],
                "sum": _sum_of_value(edit.value),
            }
        )
        steps.append(step)
        if _parsed(file, text) != _merged(before, edit):
            raise InstallError(
                f"{file}: adding the server would change something else; add it by hand"
            )
    return text, Remembered(str(file), sum_of(text), created, steps, told)


def _merged(tree: object, edit: Edit) -> dict:
    merged = copy.deepcopy(tree)
    place = merged
    for key in edit.path[:-1]:
        place = place.setdefault(key, {})
    if edit.append:
        place.setdefault(edit.path[-1], []).append(edit.value)
    else:
        place[edit.path[-1]] = edit.value
    return merged


def planned(
    file: Path, edits: list[Edit], known: Remembered | None, candidates: list[Edit]
) -> tuple[str | None, str | None, Remembered | None]:
    """(text before, text after, what to remember) for one file; None: no file.

    Without `edits` all our values are removed. Raises InstallError.
    """
    now = text_of(file)
    if now is None:
        return (None, *put_in(file, None, edits)) if edits else (None, None, None)
    tree = _parsed(file, now)
    if (
        edits
        and all(_present(edit, tree) for edit in edits)
        and not any(_stray(edit, edits, tree, known) for edit in candidates)
    ):
        return now, now, known
    for edit in edits:
        there = _at(tree, edit.path)
        if not edit.append and _wrote(there, known) and not only_our_keys(there, edit.value):
            raise InstallError(
                f"{file}: {'.'.join(edit.path)} has settings of yours, which would be lost; "
                "change its command by hand, or uninstall first"
            )
    base = taken_out(file, now, known, candidates)
    if not edits:
        for edit in candidates:
            if (
                base is not None
                and not edit.append
                and _at(_parsed(file, base), edit.path) is not None
            ):
                raise InstallError(
                    f"{file}: the server {edit.path[-1]!r} differs from what this command writes; "
                    "remove it by hand, then run this again"
                )
        return now, base, None
    return (now, *put_in(file, base, edits))


def _stray(edit: Edit, edits: list[Edit], tree: object, known: Remembered | None) -> bool:
    """Whether the file still has a value of ours that isn't wanted."""
    there = _at(tree, edit.path)
    items = there if edit.append and isinstance(there, list) else [there]
    keep = [other.value for other in edits if other.path == edit.path]
    return any(
        _wrote(item, known) and not any(_keeps(item, value) for value in keep) for item in items
    )


def _toml(text: str) -> tomlkit.TOMLDocument:
    """The document of a TOML text. Raises BadText."""
    try:
        return tomlkit.parse(text)
    except (TOMLKitError, ValueError, RecursionError) as error:
        told = str(error)
        if "\0" not in text:  # tomlkit reads past the end
            told = told.replace("character: '\\x00'", "end of the file")
        raise BadText(f"not TOML ({told})") from None


def _toml_added(text: str, path: tuple[str, str], value: dict) -> list[tuple[int, str]]:
    """The piece that adds the table `path` at the end, behind a blank line. Raises BadText.

    At the end, it can't separate a comment from what the comment is about.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    servers = tomlkit.table(is_super_table=True)
    servers[path[1]] = value
    table = tomlkit.dumps({path[0]: servers}).replace("\n", newline)
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    try:
        plain = isinstance(_toml(text).get(path[0], {}), dict)
        _toml(text + gap + table)
    except BadText:
        plain = False
    if not plain:
        raise BadText(f"{path[0]} isn't written as tables; write each server as [{path[0]}.NAME]")
    return [(len(text), gap + table)]


def _toml_removed(text: str, path: tuple[str, str]) -> str:
    """The text without the table `path` and the blank line before it. Raises BadText.

    Comments and blank lines after the table's last value are the user's and stay.
    """
    document = _toml(text)
    if tomlkit.dumps(document) != text:
        raise BadText("a layout that tomlkit doesn't reproduce")
    gone = "\0\n"  # marks the place; no TOML text holds it
    for key, servers in document.body:
        if key and key.key == path[0] and isinstance(servers, Table):
            body = servers.value.body
            for place, (name, server) in enumerate(body):
                if name and name.key == path[1]:
                    body[place] = (None, tomlkit.ws(gone + _tail(server)))
    kept, *rest = tomlkit.dumps(document).split(gone)
    for part in rest:
        last = kept.rfind("\n", 0, -1) + 1
        if _BLANK_LINE.fullmatch(kept, last):
            kept = kept[:last]
        elif not kept and (blank := _BLANK_LINE.match(part)):
            part = part[blank.end() :]
        kept += part
    return kept


def _tail(item: object) -> str:
    """The comments and blank lines after the last value of a table."""
    found = ""
    for key, child in reversed(item.value.body if isinstance(item, Table) else []):
        if key:
            return _tail(child) + found
        found = child.as_string() + found
    return found
