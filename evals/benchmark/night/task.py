"""Tasks: what their folder says, how a project is prepared, what lies whole in a folder."""

import importlib.util
import io
import json
import os
import random
import re
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
TASKS, FAULTS = HERE / "tasks", json.loads((HERE / "faults.json").read_text())
NEEDED = ("id", "faults", "deadline_s", "steps", "results", "hooks")
HEAD = """

# added by the harness
import sys as _sys
_sys.path.append({!r})
import night_hook as _night
"""


class NightError(Exception):
    """An error to show to the user, as `what is wrong; what to do`."""


class Task:
    """A task, as its folder describes it; found by its name or the folder's path."""

    def __init__(self, name: str) -> None:
        self.folder = (Path(name) if os.sep in name else TASKS / name).resolve()
        try:
            self.about = json.loads((self.folder / "task.json").read_text())
        except OSError:
            raise NightError(
                f"there is no task {name}; choose one of {', '.join(sorted(os.listdir(TASKS)))}"
            ) from None
        except ValueError as error:
            raise NightError(f"{self.folder}/task.json isn't JSON ({error}); mend it") from None
        if missing := [key for key in NEEDED if key not in self.about]:
            raise NightError(f"{self.folder}/task.json has no {', '.join(missing)}; add that")

    def fault(self, name: str) -> dict | None:
        """Return the fault's settings in full, or `None` for `none`."""
        known, listed = (
            FAULTS["faults"] | self.about.get("own_faults", {}),
            ", ".join(self.about["faults"]),
        )
        if name not in known:
            raise NightError(f"task {self.about['id']} has no fault {name}; choose one of {listed}")
        if not known[name]:
            return None
        full = FAULTS["defaults"] | known[name] | self.about.get("fault_changes", {}).get(name, {})
        if full["do"] not in FAULTS["actions"] or full["hook"] not in self.about["hooks"]:
            raise NightError(
                f"fault {name} of {self.about['id']} has an unknown `do` or `hook`; mend task.json"
            )
        return full

    def given(self) -> dict[str, bytes]:
        """Return the user's own files, which lie on the volume from the start."""
        return {
            name: random.Random(name).randbytes(size)
            for name, size in self.about.get("given", {}).items()
        }

    def files(self) -> dict[str, bytes]:
        """Return the files of the clean project."""
        top = self.folder / "files"
        found = [p for p in sorted(top.rglob("*")) if p.is_file() and "__pycache__" not in p.parts]
        return {p.relative_to(top).as_posix(): p.read_bytes() for p in found}

    def prepare(self, project: Path, into: Path, control: Path) -> list[str]:
        """Copy a project, put back what it changed of the task's files, and add the hooks.

        Returns the names of what it changed.
        """
        leave = shutil.ignore_patterns("__pycache__", ".git", *self.about.get("leave_out", []))
        shutil.copytree(project, into, symlinks=True, ignore=leave)
        changed, lines = [], {}
        for hook, how in self.about["hooks"].items():
            options = "".join(f", {k}={how[k]!r}" for k in ("number", "role", "path") if k in how)
            line = f"{how['call']} = _night.wrap({how['call']}, {hook!r}{options})\n"
            lines[how["file"]] = lines.get(how["file"], HEAD.format(str(control))) + line
        for name, data in self.files().items():
            target = into / name
            if not target.is_file() or target.read_bytes() != data:
                changed.append(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            for old, new in self.about.get("outside", {}).get(name, {}).items():
                data = data.replace(old.encode(), repr(str(control / new)).encode())
            target.write_bytes(data + lines.get(name, "").encode())
            shutil.copymode(self.folder / "files" / name, target)
        shutil.copy(HERE / "hook.py", control / "night_hook.py")
        return changed

    def judge(self) -> Callable[[dict[str, bytes]], list[tuple[str, int]]]:
        """Load `look` of the task's judge.py: from a folder's files to what is whole in them."""
        spec = importlib.util.spec_from_file_location("night_judge", self.folder / "judge.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.look


def guess(project: Path) -> str:
    """Return the name of the one task whose files this project holds."""
    ranked = []
    for name in sorted(os.listdir(TASKS)):
        files = Task(name).files()
        same = sum(
            (project / f).is_file() and (project / f).read_bytes() == data
            for f, data in files.items()
        )
        ranked.append((same / len(files), same, name))
    share, _, name = max(ranked)
    if share < 0.5:
        raise NightError(f"can't tell which task {project} belongs to; name it with --task")
    return name


def _unpack(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield an archive's files; of a torn one those before the tear."""
    with suppress(Exception):  # whatever a torn archive raises
        if zipfile.is_zipfile(io.BytesIO(data)):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                yield from ((name, archive.read(name)) for name in archive.namelist())
        else:
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                yield from ((m.name, archive.extractfile(m).read()) for m in archive if m.isfile())


def find(top: Path, look: Callable) -> dict:
    """Say what lies whole below `top`: the furthest step, the results, and a list of the files."""
    folders, listed, device = {}, [], os.stat(top).st_dev
    for where, inside, files in os.walk(top):
        inside[:] = [d for d in inside if os.lstat(os.path.join(where, d)).st_dev == device]
        for path in (Path(where, file) for file in files):
            if not path.is_file() or path.stat().st_dev != device or path.stat().st_size > 64 << 20:
                continue  # a broken link, or one to somewhere else
            data = path.read_bytes()
            listed.append([str(path.relative_to(top)), len(data)])
            folders.setdefault(where, {})[path.name] = data
            if re.search(r"\.(tar(\.\w+)?|tgz|zip)$", path.name):
                for name, content in _unpack(data):
                    folders.setdefault(f"{path}:{os.path.dirname(name)}", {})[
                        os.path.basename(name)
                    ] = content
    found = [whole for files in folders.values() for whole in look(files)]
    step = max((number for _, number in found), default=0)
    return {"step": step, "results": sorted({what for what, _ in found}), "files": listed[:300]}
