"""Write a file that replaces an earlier one of its kind, and never anything else."""

from __future__ import annotations

from pathlib import Path

from . import BadRequest, write_whole


def write_over(path: Path, text: str, begin: str, what: str, option: str) -> None:
    """Write a text; where the file exists, only if it begins with `begin`, as each of its kind.

    `what`: the kind in words, `option`: that names the file. Raises BadRequest.
    """
    try:
        if path.exists():
            with path.open("rb") as old:
                if old.read(len(begin.encode())) != begin.encode():
                    raise BadRequest(f"{path}: not {what}; name another file with {option}")
        if not path.parent.is_dir():
            raise BadRequest(f"{path}: there is no folder {path.parent}; make it first")
        write_whole(path, text.encode(), 0o644)
    except OSError as error:
        raise BadRequest(
            f"{path}: can't be written ({error.strerror}); name another file with {option}"
        ) from None
