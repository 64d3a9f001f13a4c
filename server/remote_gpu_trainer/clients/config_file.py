"""One configuration file: our values in it, taken out again, and what must be remembered so that taking out restores it byte for byte."""

from __future__ import annotations

import copy
import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from . import config_json, config_toml
from .config_json import BadText
from .configs import Edit, is_ours, only_our_keys

MOST_BYTES = 32 << 20


class InstallError(Exception):
    """Nothing was changed. The text says what was found, what was expected and what to do."""


@dataclass
class Remembered:
    """How a file was changed: pieces as (offset in the text after that step, length), one list a step, and the sum of the result."""

    file: str
    sha256: str
    created: bool
    steps: list[list[tuple[int, int]]]
    edits: list[dict]
    folders: list[str] = field(default_factory=list)


def sum_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def text_of(file: Path) -> str | None:
    """The text of a file, None where there is none. Raises InstallError."""
    try:
        if not file.exists():
            if file.is_symlink():
                raise InstallError(
                    f"{file}: found a link that leads nowhere, expected a file or nothing; remove the link or make its target"
                )
            return None
        if not file.is_file():
            raise InstallError(
                f"{file}: found something that is no file, expected the client's configuration"
            )
        if file.stat().st_size > MOST_BYTES:
            raise InstallError(
                f"{file}: found {file.stat().st_size} bytes, expected at most {MOST_BYTES}"
            )
        return file.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InstallError(
            f"{file}: found bytes that aren't UTF-8 at {error.start}, expected the client's configuration; repair it, nothing was changed"
        ) from None
    except OSError as error:
        raise InstallError(
            f"{file}: found it unreadable ({error.strerror}), expected to read it"
        ) from None


def _parsed(file: Path, text: str) -> object:
    try:
        if file.suffix == ".toml":
            return config_toml.read(text)
        value = config_json.read(text).value if text.strip("\ufeff \t\r\n") else {}
    except BadText as error:
        raise InstallError(f"{file}: {error}; repair it, nothing was changed") from None
    if not isinstance(value, dict):
        raise InstallError(
            f"{file}: found a {type(value).__name__} at the top, expected an object; repair it, nothing was changed"
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
    """The same entry, perhaps with further settings of the user's."""
    return there == value or (
        isinstance(there, dict)
        and isinstance(value, dict)
        and all(there.get(k) == v for k, v in value.items() if k != "enabled")
    )


def taken_out(
    file: Path, text: str, known: Remembered | None, candidates: list[Edit]
) -> str | None:
    """The text without our values; None when the file itself was ours. Raises InstallError."""
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
    """Whether a value is ours: by its looks, or the very one that was written, whatever command it starts."""
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
    """The text without the value at `path`. Raises InstallError when that would change anything else."""
    left = _parsed(file, text)
    place = left
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    with suppress(BadText):
        text = (
            config_toml.removed(text, path)
            if file.suffix == ".toml"
            else config_json.removed(text, path)
        )
        if (
            file.suffix == ".toml" or config_json.read(text).value == left
        ):  # TOML compares by itself
            return text
    raise InstallError(
        f"{file}: found {'.'.join(map(str, path))} in a form that can't be taken out safely, expected to change nothing else; remove it by hand"
    )


def _pruned(file: Path, text: str, made: list[tuple]) -> str:
    """Without the containers that we made and that are empty by now."""
    for path in made:
        if file.suffix != ".toml" and path and _at(_parsed(file, text), path) in ({}, []):
            node = config_json.find(config_json.read(text), path)
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
                f"{file}: found a server {edit.path[-1]!r} that isn't ours, expected none of that name; rename or remove it, then again"
            )
        try:
            pieces = (
                config_toml.added(text, edit.path, edit.value)
                if edit.toml
                else config_json.added(text, edit.path, edit.value, edit.append)
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
                f"{file}: found a form that can't be added to safely, expected plain JSON or TOML; add the server by hand"
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
    """(text now, text then, what to remember) for one file; `edits` empty takes all of ours out. Raises InstallError."""
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
                f"{file}: found settings of yours in {'.'.join(edit.path)}, expected only ours to replace; change its command by hand, or uninstall first"
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
                    f"{file}: found a server {edit.path[-1]!r} that isn't as this command writes it, expected ours or none; remove it by hand, then again"
                )
        return now, base, None
    return (now, *put_in(file, base, edits))


def _stray(edit: Edit, edits: list[Edit], tree: object, known: Remembered | None) -> bool:
    """A value of ours that is there and isn't wanted (any more)."""
    there = _at(tree, edit.path)
    items = there if edit.append and isinstance(there, list) else [there]
    keep = [other.value for other in edits if other.path == edit.path]
    return any(
        _wrote(item, known) and not any(_keeps(item, value) for value in keep) for item in items
    )
