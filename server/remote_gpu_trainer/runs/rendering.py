"""Render with all reading and writing: read the profile, record the code, write the script.

Both front ends call it.
"""

from __future__ import annotations

import difflib
import os
import re
import time
from datetime import date
from pathlib import Path
from typing import Any

from ..platforms import profile
from ..platforms.profile import Profile
from ..runner.deadline import after
from ..text import write_whole
from . import code_files
from .job import Job
from .job_errors import JobError, placed
from .job_reading import from_object
from .render import ENDINGS, Rendered, render, usual_target
from .rendered import Unfit
from .run_ends import end_passed
from .run_script import OURS, SHEBANG

_VARIABLE = re.compile(r"(?!.*(?:KEY|TOKEN))[A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9]")
_PATH = re.compile(r"/[\w-]+/[\w./-]+")


def rendered(
    given: Any,
    profile_name: str = "",
    target: str | None = None,
    write_to: str | None = None,
    on: date | None = None,
    outside: bool = False,
) -> dict:
    """Return the answer of `render_run_script`.

    With `write_to`, a folder or a file, the answer has `path` in place of `script`. A new name
    without an ending is a folder. The path must be inside the working folder unless `outside`.
    Without a platform it is the job's, else the one that the target suits; for `local` the one
    whose box this is, else the user's own machine. Raises JobError, and ProfileError for an unknown
    platform.
    """
    job = from_object(given)
    now = time.mktime(on.timetuple()) if on else time.time()
    if (at := after(job.ends, now)) is not None and at <= now:
        raise placed(given, end_passed(job, now, now))
    platform = platform_for(job, profile_name, target)
    chosen = target or usual_target(platform)
    place = _place(write_to, f"{job.name}.{ENDINGS.get(chosen)}", outside) if write_to else None
    try:
        state = None
        if job.code:
            code_files.check_folder(Path(job.code))
            state = code_files.read_state(code_files.choose(Path(job.code)))
        made = render(job, platform, chosen, on or date.today(), state, str(place or "") or None)
    except Unfit as error:
        raise placed(given, str(error)) from None
    answer = made.as_dict()
    if place:
        _write(place, made)
        del answer["script"]
        answer["path"] = str(place)
    return answer


def platform_for(job: Job, name: str, target: str | None) -> Profile:
    """Return the platform on which a job is to run: that of a name, else the job's own.

    A start on this machine doesn't ask the job, which names where its box is rented. Raises
    ProfileError.
    """
    return platform_of(name or ("" if target == "local" else job.platform or ""), target)


def platform_of(name: str, target: str | None) -> Profile:
    """Return the platform of a name, or for '' the one that suits the target.

    For `local` that is the one whose box this is, else the user's own machine. Raises ProfileError.
    """
    return profile.get(name or _suits(target))


def _suits(target: str | None) -> str:
    """Return the platform of a target that comes without one."""
    if target == "local":
        return next((found.name for found in profile.load().values() if _is_here(found)), "local")
    return target if target in ("slurm", "kubernetes") else "generic-ssh"


def _is_here(platform: Profile) -> bool:
    """Whether this machine is a box rented there, by a variable or a path that only its boxes have.

    A key or token of the platform may lie on the user's own machine too.
    """
    return platform.kind == "rental" and any(
        token in os.environ
        if _VARIABLE.fullmatch(token)
        else _PATH.fullmatch(token) and os.path.exists(token)
        for token in platform.tokens
    )


def difference(old: Path, new: str) -> str:
    """Return a unified diff from an existing script to a rendered one; '' if they are equal.

    Raises JobError when `old` can't be read as text.
    """
    try:
        before = old.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text"
        raise JobError(f"{old}: {why}; pass a script to compare with") from None
    return "".join(
        difflib.unified_diff(
            before.splitlines(keepends=True),
            new.splitlines(keepends=True),
            str(old),
            "rendered now",
        )
    )


def _place(write_to: str, name: str, outside: bool) -> Path:
    """Return where the script goes. Raises JobError for a path that can't be used."""
    try:
        path = Path(write_to).expanduser()
        path.exists()  # raises OSError if a name is too long
        if "\0" not in write_to:
            is_new_folder = not path.suffix and not path.exists()
            if is_new_folder:
                _refuse(path, outside)
            is_folder = is_new_folder or path.is_dir() or write_to.endswith("/")
            path = path / name if is_folder else path
            _refuse(path, outside)
            return path
        why = "a NUL in it"
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or str(error)
    raise JobError(
        f"write_to: can't use {write_to[:80]!r} ({why}); "
        "pass a folder or a file that can be written"
    )


def _refuse(path: Path, outside: bool) -> None:
    """Raise JobError for a place where a script could do harm. Raises OSError."""
    if path.is_symlink():
        raise JobError(f"write_to: {path} is a link; pass the path that it leads to")
    here, real = Path.cwd().resolve(), path.parent.resolve() / path.name
    inside = real.is_relative_to(here) and here != Path(here.anchor)
    if any(part.startswith(".") for part in (real.relative_to(here) if inside else real).parts):
        raise JobError(
            f"write_to: {path} is hidden or in a hidden folder; pass names without a dot in front"
        )
    if not inside and not outside:
        raise JobError(
            f"write_to: {path} is outside the working folder {here}; pass a path inside it, or "
            "allow this one with outside (--outside)"
        )


def _write(path: Path, made: Rendered) -> None:
    """Writes the script whole or not at all. A file that wasn't rendered is never replaced."""
    try:
        if path.exists() and not (path.is_file() and _is_ours(path)):
            raise JobError(
                f"write_to: {path} exists and isn't a rendered script; "
                "pass a new name or a rendered script"
            )
        # For its owner alone: a job may hold what its writer didn't know for a secret.
        mode = 0o600 if made.file_name.endswith(".yaml") else 0o700
        write_whole(path, made.script.encode(), mode)
    except OSError as error:
        raise JobError(
            f"write_to: {path}: {error.strerror}; pass a place that can be written"
        ) from None


def _is_ours(path: Path) -> bool:
    """Return whether a file begins as a rendered script does.

    Its mark is after the shebang, or before a YAML document.
    """
    with path.open("rb") as file:
        first, second = (file.readline(200).decode("utf-8", "replace") for _ in range(2))
    if first == SHEBANG:
        return second.startswith(OURS)
    return first.startswith(OURS) and second == "---\n"
