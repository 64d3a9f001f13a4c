"""Add our values to one configuration file of a client, and remove them again.

No other byte of the file changes. `Remembered` holds what is needed to restore a file that nobody
has changed since. JSON is edited by `json_editor`, because no library on PyPI edits JSON with
comments in place; TOML is edited with tomlkit by `toml_editor`.
"""

from __future__ import annotations

import copy
import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import json_editor, toml_editor
from .errors import BadText, InstallError
from .table import Edit, is_ours, only_our_keys

MOST_BYTES = 32 << 20  # of a configuration; a longer one is something else
_NOTHING = "\ufeff \t\r\n"  # a text of these alone has no value


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


def plan_file(
    file: Path, edits: list[Edit], remembered: Remembered | None, candidates: list[Edit]
) -> tuple[str | None, str | None, Remembered | None]:
    """(text before, text after, what to remember) for one file; None: no file.

    Without `edits` all our values are removed. `candidates` are all values that we may have put
    there, now or earlier. Raises InstallError.
    """
    before = text_of(file)
    if before is None:
        return (None, *put_in(file, None, edits)) if edits else (None, None, None)
    tree = _tree(file, before)
    if edits and _is_done(edits, candidates, tree, remembered):
        return before, before, remembered
    _refuse_to_lose_settings(file, edits, tree, remembered)
    rest = taken_out(file, before, remembered, candidates)
    if edits:
        return (before, *put_in(file, rest, edits))
    _refuse_to_leave_a_server(file, candidates, rest)
    return before, rest, None


def _tree(file: Path, text: str) -> dict[str, Any]:
    """The values of a file. Raises InstallError."""
    try:
        if file.suffix == ".toml":
            return toml_editor.parse(text).unwrap()
        value = json_editor.parse(text).value if text.strip(_NOTHING) else {}
    except BadText as error:
        raise InstallError(f"{file}: {error}; correct it, nothing was changed") from None
    if not isinstance(value, dict):
        raise InstallError(
            f"{file}: the file holds {json_editor.type_name(value)}, not an object; correct it, "
            "nothing was changed"
        )
    return value


def _at(tree: Any, path: tuple) -> Any:
    """The value at a path of keys; None if there is none."""
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _is_done(
    edits: list[Edit], candidates: list[Edit], tree: dict, remembered: Remembered | None
) -> bool:
    """Whether the file has all values of `edits`, and no other value of ours."""
    return all(_is_present(edit, tree) for edit in edits) and not any(
        _is_stray(edit, edits, tree, remembered) for edit in candidates
    )


def _is_present(edit: Edit, tree: dict) -> bool:
    there = _at(tree, edit.path)
    if edit.append and isinstance(there, list):
        return edit.value in there
    return _keeps(there, edit.value)


def _is_stray(edit: Edit, edits: list[Edit], tree: dict, remembered: Remembered | None) -> bool:
    """Whether the file still has a value of ours at this place that isn't among `edits`."""
    there = _at(tree, edit.path)
    items = there if edit.append and isinstance(there, list) else [there]
    stay = [other.value for other in edits if other.path == edit.path]
    return any(
        _wrote(item, remembered) and not any(_keeps(item, value) for value in stay)
        for item in items
    )


def _keeps(there: Any, value: Any) -> bool:
    """Whether an entry is our value, perhaps with further settings that the user added.

    `enabled` is the user's: opencode's own way to switch a server off.
    """
    return there == value or (
        isinstance(there, dict)
        and isinstance(value, dict)
        and all(there.get(key) == own for key, own in value.items() if key != "enabled")
    )


def _wrote(value: Any, remembered: Remembered | None) -> bool:
    """Whether a value is ours: it has our form, or it is the value that was written."""
    return is_ours(value) or (
        remembered is not None
        and any(edit.get("sum") == _value_sum(value) for edit in remembered.edits)
    )


def _value_sum(value: Any) -> str:
    if isinstance(value, dict):
        value = {key: item for key, item in value.items() if key != "enabled"}
    return _text_sum(json.dumps(value, sort_keys=True, default=str))


def _text_sum(text: str) -> str:
    """The SHA-256 of a text as UTF-8, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _refuse_to_lose_settings(
    file: Path, edits: list[Edit], tree: dict, remembered: Remembered | None
) -> None:
    """Raise InstallError if an entry of ours that will be replaced has settings of the user."""
    for edit in edits:
        there = _at(tree, edit.path)
        if not edit.append and _wrote(there, remembered) and not only_our_keys(there, edit.value):
            raise InstallError(
                f"{file}: {'.'.join(edit.path)} has settings of yours, which would be lost; "
                "change its command by hand, or uninstall first"
            )


def _refuse_to_leave_a_server(file: Path, candidates: list[Edit], rest: str | None) -> None:
    """Raise InstallError if a server of our name is left, which isn't what we wrote."""
    if rest is None:
        return
    for edit in candidates:
        if not edit.append and _at(_tree(file, rest), edit.path) is not None:
            raise InstallError(
                f"{file}: the server {edit.path[-1]!r} differs from what this command writes; "
                "remove it by hand, then run this again"
            )


def put_in(file: Path, text: str | None, edits: list[Edit]) -> tuple[str, Remembered]:
    """The text with our values, and how to undo that. Raises InstallError."""
    created, steps, notes = text is None, [], []
    text = text or ""
    _tree(file, text)
    for edit in edits:
        if not edit.toml and not text.strip(_NOTHING):
            text, step = _with_pieces(text, [(len(text), "{}\n")])
            steps.append(step)
        before = _tree(file, text)
        text, step = _with_pieces(text, _insertion(file, text, before, edit))
        steps.append(step)
        parents = [edit.path[:n] for n in range(1, len(edit.path) + bool(edit.append))]
        notes.append(
            {
                "path": list(edit.path),
                "made": [list(path) for path in parents if _at(before, path) is None],
                "sum": _value_sum(edit.value),
            }
        )
        if _tree(file, text) != _merged(before, edit):
            raise InstallError(
                f"{file}: adding the server would change something else; add it by hand"
            )
    return text, Remembered(str(file), _text_sum(text), created, steps, notes)


def _insertion(file: Path, text: str, tree: dict, edit: Edit) -> list[tuple[int, str]]:
    """The pieces, (offset, text), that add a value. Raises InstallError."""
    if not edit.append and _at(tree, edit.path) is not None:
        raise InstallError(
            f"{file}: has another server called {edit.path[-1]!r}; "
            "rename or remove it, then run this again"
        )
    try:
        if edit.toml:
            return toml_editor.insertion(text, edit.path, edit.value)
        return json_editor.insertion(text, edit.path, edit.value, edit.append)
    except BadText as error:
        raise InstallError(f"{file}: {error}; nothing was changed") from None


def _with_pieces(text: str, pieces: list[tuple[int, str]]) -> tuple[str, list[tuple[int, int]]]:
    """The text with pieces inserted, and where they are now: (offset, length) of each."""
    places, moved = [], 0
    for offset, piece in sorted(pieces, key=lambda pair: pair[0]):
        text = text[: offset + moved] + piece + text[offset + moved :]
        places.append((offset + moved, len(piece)))
        moved += len(piece)
    return text, places


def _merged(tree: dict, edit: Edit) -> dict:
    """The tree with a value added: what the edited text must read as."""
    merged = copy.deepcopy(tree)
    place = merged
    for key in edit.path[:-1]:
        place = place.setdefault(key, {})
    if edit.append:
        place.setdefault(edit.path[-1], []).append(edit.value)
    else:
        place[edit.path[-1]] = edit.value
    return merged


def taken_out(
    file: Path, text: str, remembered: Remembered | None, candidates: list[Edit]
) -> str | None:
    """The text without our values; None if we made the file. Raises InstallError."""
    if remembered and _text_sum(text) == remembered.sha256:
        for step in reversed(remembered.steps):
            for offset, length in reversed(step):
                text = text[:offset] + text[offset + length :]
        return None if remembered.created and not text else text
    _tree(file, text)
    for edit in candidates:
        text = _without(file, text, edit, remembered)
    if remembered:
        text = _pruned(file, text, remembered)
        if remembered.created and not _tree(file, text) and not _has_comments(text):
            return None
    return text


def _has_comments(text: str) -> bool:
    """Whether there may be a comment; a mark inside a string counts too."""
    return any(mark in text for mark in ("//", "/*", "#"))


def _without(file: Path, text: str, edit: Edit, remembered: Remembered | None) -> str:
    """The text without our values at the place of one edit."""
    there = _at(_tree(file, text), edit.path)
    if not edit.append:
        return _cut(file, text, edit.path) if _wrote(there, remembered) else text
    items = there if isinstance(there, list) else []
    for place in reversed(range(len(items))):
        if _wrote(items[place], remembered):
            text = _cut(file, text, (*edit.path, place))
    return text


def _cut(file: Path, text: str, path: tuple) -> str:
    """The text without the value at `path`. Raises InstallError if anything else would change."""
    expected = _tree(file, text)
    parent: Any = expected
    for key in path[:-1]:
        parent = parent[key]
    del parent[path[-1]]
    with suppress(BadText):
        if file.suffix == ".toml":
            text = toml_editor.without(text, path)
            actual = toml_editor.parse(text).unwrap()
            if _without_empty(actual, path) == _without_empty(expected, path):
                return text
        else:
            text = json_editor.without(text, path)
            if json_editor.parse(text).value == expected:
                return text
    raise InstallError(
        f"{file}: {'.'.join(map(str, path))} can't be removed without changing something else; "
        "remove it by hand"
    )


def _without_empty(tree: dict, path: tuple) -> dict:
    """The tree without the path's first table if it is empty: in TOML only a header makes one."""
    if tree.get(path[0], True):
        return tree
    return {key: value for key, value in tree.items() if key != path[0]}


def _pruned(file: Path, text: str, remembered: Remembered) -> str:
    """The text without empty containers that we made, the innermost first."""
    if file.suffix == ".toml":
        return text
    made = {tuple(path) for edit in remembered.edits for path in edit.get("made", [])}
    for path in sorted(made, key=len, reverse=True):
        if path and _at(_tree(file, text), path) in ({}, []):
            node = json_editor.find(json_editor.parse(text), path)
            if node and not _has_comments(text[node.start : node.end]):
                text = _cut(file, text, path)
    return text
