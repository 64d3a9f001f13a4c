"""Runs on a box: tell the files that a stop would destroy and that may be nowhere else.

It looks at each mount that the stop doesn't keep, and takes nobody's word for what lies there. A
file counts where its name is one of a save, it has a mebibyte, a run saves there, or it lies in a
durable place. Among installed software (SYSTEM, INSTALLED, PACKAGES) it counts only where its name
is one of weights and no package's list has it. Left out are downloads (FETCHED), what a runner
keeps for itself, and the code that was sent. What can't be read, and more than can be looked at in
time, is told as such.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sys
import time
from contextlib import suppress
from fnmatch import fnmatchcase

from ..runner import child
from ..runner.folder import Folder
from ..runner.names import LEFT_THERE, PLACE_FILE
from .sent_job import job_in

MOST_FILES = 2_000_000  # that are looked at
MOST_SAVED = 200_000  # where one run saves
MOST_TOLD = 20_000
COUNTS_FROM = 1 << 20  # bytes
WEIGHTS = (
    ".pt", ".pth", ".bin", ".ckpt", ".distcp", ".npz", ".tar", ".safetensors", ".pkl", ".pickle",
    ".msgpack", ".h5", ".hdf5", ".keras", ".state", ".npy", ".gguf", ".ggml", ".onnx", ".joblib",
    ".pdparams", ".pdopt", ".nemo", ".ptl", ".params", ".weights", ".pb", ".tflite", ".orbax",
    ".ubj", ".engine", ".mlmodel", ".eqx", ".ot", ".model", ".zip",
)  # fmt: skip
BROUGHT = (".bin", ".pb", ".pickle", ".pkl", ".state", ".tar", ".zip")  # software has these too
A_SAVE = re.compile(r"ckpt|checkpoint|weights|[._]pth?\b", re.I)  # in the name of a file
A_STATE = re.compile(  # the same, among files that nobody installed
    r"ckpt|checkpoint|weight|model|best|last|latest|final|epoch|step|snapshot|adapter|lora|optim"
    r"|[._]pth?\b",
    re.I,
)
FOLDER_OF_SAVE = re.compile(
    r"(^|[-_.])(ckpt|checkpoint|weight)s?([-_.=]|$)|(epoch|step)s?[-_.=]?\d", re.I
)
NO_STATE = re.compile(r"args|config|index|info|meta|package|result|tokenizer|vocab", re.I)
# Put behind a name by who packs or keeps a file, and by a save that goes on.
BEHIND = re.compile(r"(\.(bak|bz2|gz|lz4|old|orig|part|prev|tmp|xz|zst|\d+)|~|\(\d+\))+$", re.I)
# Source, text, pictures: they tell of weights.
TELLS = (
    ".a", ".bash", ".bc", ".c", ".cc", ".cfg", ".conf", ".cpp", ".css", ".csv", ".cu", ".cuh",
    ".diff", ".err", ".gif", ".go", ".h", ".hpp", ".html", ".ini", ".ipynb", ".j2", ".jar", ".java",
    ".jpeg", ".jpg", ".js", ".jsonl", ".lock", ".log", ".md", ".mjs", ".o", ".out", ".patch",
    ".pdf", ".pid", ".png", ".pom", ".py", ".pyc", ".pyi", ".pyx", ".rs", ".rst", ".sh", ".so",
    ".svg", ".tex", ".toml", ".ts", ".tsv", ".tsx", ".txt", ".vim", ".whl", ".xml", ".yaml", ".yml",
)  # fmt: skip
KERNEL = {  # kinds of file systems that hold no files of anybody
    "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts",
    "efivarfs", "fusectl", "fuse.lxcfs", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore",
    "rpc_pipefs", "securityfs", "squashfs", "sysfs", "tracefs",
}  # fmt: skip
SYSTEM = re.compile(
    r"/(bin|boot|dev|etc|lib(32|64|x32)?|proc|run|sbin|snap|sys|usr|var/(cache|lib|log)"
    r"|opt/(amazon|hpcx|nvidia|rocm[^/]*))"
)
IN_SYSTEM = ("/dev/shm", "/run/user", "/var/lib/docker/volumes")  # of users all the same
INSTALLED = re.compile(  # folders of installers and compilers, anywhere
    r"\.(cargo|cursor-server|docker|npm|nv|nvm|m2|pyenv|rustup|triton|vscode-server)"
    r"|__pycache__|dist-packages|lost\+found|node_modules|site-packages|torchinductor_[^/]*"
)
USERS_OWN = re.compile(
    r".*/\.local/(bin|lib|include|state|share/(code-server|jupyter|man|pipx|pnpm|uv|virtualenvs?))"
)
# What programs fetch for a user: beside it anybody may save.
FETCHED = re.compile(
    r".*/\.cache/(clip|conda|flashinfer|huggingface/(assets|datasets|hub|modules|xet)|jedi"
    r"|matplotlib|ms-playwright|nvidia|pip|pre-commit|pypoetry|torch|torch_extensions|triton|uv"
    r"|vllm|whisper|yarn)"
)
PACKAGES = re.compile(  # of a folder into which Python was installed, as conda and venv do
    r"bin|compiler_compat|conda-meta|condabin|include|lib(64|exec)?|x86_64-.*"
)
OF_CONDA = re.compile(r"etc|man|sbin|share|shell|ssl|targets")  # beside `conda-meta` alone
OF_PYTHON = re.compile(r".*/lib/python\d\.\d+/(lib2to3|test)")  # which no list names


def main(words):
    """Print what a stop would destroy, as JSON: `files`, [[path, bytes]] of those that count;
    `runs`, the folders of runs there; `real`, {path: real path} of what was asked; `why`, why the
    look isn't whole.

    Words: what is asked, as JSON. `below`: the folder that is looked at. `kept`: patterns of the
    mount points that the stop keeps. `seconds` for the look, and for each copy that is compared.
    `runs`: folders of known runs. `durable`: those of them whose durable place is compared now, so
    that what it holds doesn't count. `places`: of which the real path is wanted.
    """
    asked = json.loads(words[0])
    look = Look(asked["below"], asked["kept"], asked["seconds"])
    look.go()
    runs = {*look.runs, *filter(look.is_destroyed, asked["runs"])}
    known = {*runs, *asked["runs"]}
    saved = set().union(*map(saved_by, known))
    look.add(saved)
    own = {_place_of(folder): _copied_by(folder) for folder in known}  # which it answers for
    files = [one for one in look.files
             if not look.is_copied(one[0], one[3], own)
             and (one[3] or one[0] in saved or look.counts(one))]  # fmt: skip
    for folder in asked["durable"]:
        held = _held_by(folder)
        is_at_stake = folder in runs or any(_is_in(one[0], held) for one in files)
        if is_at_stake and look.is_elsewhere(folder) and _is_verified(folder, asked["seconds"]):
            files = [one for one in files if not _is_in(one[0], held)]
            runs.discard(folder)
    sent = {path: at for folder in look.runs for path, at in _sent_to(folder).items()}
    files = [one for one in files if one[2] > sent.get(one[0], -1)]
    if len(files) > MOST_TOLD:
        look.why = look.why or f"over {MOST_TOLD} files count"
    told = {
        "files": [list(one[:2]) for one in files[:MOST_TOLD]],
        "runs": sorted(runs),
        "real": {path: os.path.realpath(os.path.expanduser(path)) for path in asked["places"]},
        "why": look.why,
    }
    sys.stdout.write(json.dumps(told) + "\n")
    return 0


def counts(path, size):
    """Return whether a file may be somebody's only copy by its name and size."""
    return size >= COUNTS_FROM or (size > 0 and is_named(path, A_STATE))


def is_named(path, words):
    """Return whether a file is named like a save, or lies in a folder that is. `words`: what says
    so in a name without an ending of weights, A_STATE or, among installed software, A_SAVE."""
    folder, name = path.split("/")[-2:]
    name = BEHIND.sub("", name).lower()
    if name.endswith(WEIGHTS):
        is_brought = words is A_SAVE and name.endswith(BROUGHT)
        return not is_brought or bool(A_STATE.search(name))
    if name.endswith(TELLS) or (name.endswith(".json") and NO_STATE.search(name)):
        return False
    return bool(words.search(name) or FOLDER_OF_SAVE.search(folder))


class Look:
    """A look at all files below a folder that a stop destroys.

    `files`: [(path, bytes, time of its last change in ns, id of the durable place in which it
    lies, whether it lies among installed software)], '' for none; of installed software those
    alone that are named like weights. `runs`: folders of runs. `ids`: {id of a durable place:
    where it lies}. `why`: why the look isn't whole.
    """

    def __init__(self, below, kept, seconds):
        self.below = os.path.realpath(os.path.expanduser(below))
        self.kept, self.seconds = kept, seconds
        self.until = time.monotonic() + seconds
        self.files, self.runs, self.ids, self.why = [], set(), {}, ""
        self.count = 0
        self.mounts = _mounts()
        self.lists = Lists()

    def is_destroyed(self, path):
        """Return whether a path is on a mount that the stop doesn't keep."""
        path = os.path.realpath(path)
        mount = max((one for one in self.mounts if _is_in(path, [one])), key=len, default="/")
        return not any(fnmatchcase(mount, one) for one in self.kept)

    def counts(self, one):
        """Return whether one of `files` may be somebody's only copy by what it is."""
        path, size, _, _, is_installed = one
        if not is_installed:
            return counts(path, size)
        return not self.lists.have(path, size) and not _is_of_python(path)

    def add(self, saved):
        """Take in these files where the stop destroys them."""
        seen = {one[0] for one in self.files}
        lost = filter(self.is_destroyed, sorted(saved - seen))
        self.files += [(*one, "", False) for one in times(lost)]

    def is_copied(self, path, place, own):
        """Return whether a known run put a file into its durable place. `own`: {id of a place:
        names in it, of which a run answers for all that is below}."""
        name = os.path.relpath(path, self.ids.get(place, "/")).split("/")[0]
        return name in own.get(place, ())

    def is_elsewhere(self, folder):
        """Return whether the durable place of a run is none that the stop destroys."""
        to = _durable_of(folder).get("to") or ""
        is_path = to.startswith(("/", "~", "$"))
        if is_path and self.is_destroyed(os.path.expanduser(os.path.expandvars(to))):
            return False
        is_here = _durable_of(folder).get("on_this_box") or _place_of(folder) in self.ids
        return bool(to) and not is_here

    def go(self):
        """Look."""
        if not self.mounts:
            self.why = "its mounts can't be read"
        for mount, (kind, upper) in self.mounts.items():
            # The files of an overlay lie in a folder of another mount, where that can be seen.
            is_empty = kind in KERNEL or (mount != "/" and os.path.isdir(upper))
            if _is_in(mount, [self.below]) and not is_empty and self.is_destroyed(mount):
                self.walk(mount, _is_system(mount))
        if self.below not in self.mounts and self.is_destroyed(self.below):
            self.walk(self.below)

    def walk(self, top, is_installed=False):
        """Look at what lies below a folder of this mount. `is_installed`: it is software."""
        left = [(top, "", is_installed)]
        while left and not self.why:
            folder, place, is_installed = left.pop()
            try:
                with os.scandir(folder) as found:
                    entries = list(found)
                self._sort_entries(folder, entries, place, is_installed, left)
            except (FileNotFoundError, NotADirectoryError):
                continue  # gone meanwhile, or the mount is a file
            except OSError as error:
                if is_installed and isinstance(error, PermissionError):
                    continue  # the system keeps folders that no user reads
                self.why = f"{folder} can't be read ({error.strerror})"
            if self.count > MOST_FILES or time.monotonic() > self.until:
                self.why = f"over {self.count} files can't be looked at in {self.seconds:.0f} s"

    def _sort_entries(self, folder, entries, place, is_installed, left):
        names = {entry.name for entry in entries}
        is_run = "run.d" in names  # its run.sh, which comes last, may not be there yet
        has_conda = "conda-meta" in names
        has_python = has_conda or "pyvenv.cfg" in names
        if is_run:
            self.runs.add(folder)
        if PLACE_FILE in names:
            place = str(Folder(folder).json(PLACE_FILE).get("id") or "unknown")
            self.ids[place] = folder
        for entry in entries:
            self.count += 1
            if entry.is_dir(follow_symlinks=False):
                is_own = is_run and (entry.name in LEFT_THERE or entry.name == "run.d")
                is_fetched = FETCHED.fullmatch(entry.path) or (has_conda and entry.name == "pkgs")
                if is_own or is_fetched or entry.path in self.mounts:
                    continue
                if is_installed and OF_PYTHON.fullmatch(entry.path):
                    continue
                is_package = (has_python and PACKAGES.fullmatch(entry.name)) or (
                    has_conda and OF_CONDA.fullmatch(entry.name)
                )
                starts = is_package or _is_software(entry)
                is_of_users = entry.path in IN_SYSTEM
                left.append((entry.path, place, bool(is_installed or starts) and not is_of_users))
                self.lists.note_folder(entry)
            elif entry.is_file(follow_symlinks=False):
                if is_installed and not (place or is_named(entry.path, A_SAVE)):
                    continue
                with suppress(FileNotFoundError):
                    told = entry.stat(follow_symlinks=False)
                    if told.st_size or not is_installed:
                        one = (entry.path, told.st_size, told.st_ctime_ns, place, is_installed)
                        self.files.append(one)


class Lists:
    """What packages say they installed, as far as it is named like weights: {path: (bytes, SHA-256
    as a list writes it)}, None for what it doesn't tell."""

    def __init__(self):
        self.paths = {}
        self.folders = []

    def note_folder(self, entry):
        """Take down a folder that may hold a list."""
        if entry.name.endswith(".dist-info") or entry.name == "conda-meta":
            self.folders.append(entry.path)
        elif entry.path.endswith("/var/lib/dpkg"):
            self.folders.append(entry.path + "/info")

    def have(self, path, size):
        """Return whether a package installed these bytes there, as far as its list tells."""
        while self.folders:
            self._read(self.folders.pop())
        if path not in self.paths:
            return False
        known, digest = self.paths[path]
        return known in (None, size) and (not digest or digest == _digest_of(path))

    def _read(self, folder):
        above = os.path.dirname(folder)
        with suppress(OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError):
            if folder.endswith(".dist-info"):
                for line in _lines(folder + "/RECORD"):
                    name, _, size = line.rpartition(",")
                    name, _, digest = name.rpartition(",")
                    digest = digest.partition("sha256=")[2]
                    self._add(above, name.strip('"'), int(size) if size else None, digest)
                return
            for name in os.listdir(folder):
                file = os.path.join(folder, name)
                if folder.endswith("conda-meta") and name.endswith(".json"):
                    with open(file, encoding="utf-8") as text:
                        told = json.load(text)
                    for path in told.get("files") or ():
                        self._add(above, path)
                    for one in (told.get("paths_data") or {}).get("paths") or ():
                        self._add(above, one["_path"], one.get("size_in_bytes"))
                elif name.endswith(".list"):
                    root = folder[: -len("/var/lib/dpkg/info")]
                    for line in _lines(file):
                        self._add("/", root + line)
                        self._add("/", root + "/usr" + line)  # where /lib is a link there

    def _add(self, above, name, size=None, digest=""):
        path = os.path.join(above, name)
        if is_named(path, A_SAVE):
            self.paths[os.path.normpath(path)] = size, digest


def _digest_of(path):
    """Return the SHA-256 of a file as a RECORD writes it, '' where it can't be read."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
    except OSError:
        return ""
    return base64.urlsafe_b64encode(digest.digest()).decode("ascii").rstrip("=")


def _lines(file):
    with open(file, encoding="utf-8", errors="surrogateescape") as text:
        return text.read().split("\n")


def _is_software(entry):
    starts = INSTALLED.fullmatch(entry.name) or SYSTEM.fullmatch(entry.path)
    return starts or USERS_OWN.fullmatch(entry.path)


def _is_of_python(path):
    """Return whether a file is one of `site`, which have the ending of weights, or a program."""
    folder = os.path.basename(os.path.dirname(path))
    try:
        with open(path, "rb") as file:
            data = file.read(4096)
    except OSError:
        return False
    is_path_file = path.endswith(".pth") and folder in ("site-packages", "dist-packages")
    return (is_path_file and b"\0" not in data) or (folder == "bin" and data[:2] == b"#!")


def files_of_run(folder):
    """Return (path, bytes, time of the last change in ns) of the files of a run that count; None
    where they can't all be looked at. Clocks that are set don't hide a change of it: a file that
    is moved or copied with its old times has a new one."""
    look = Look(folder, [], 20.0)
    look.walk(look.below)
    saved = saved_by(folder)
    if look.why or len(saved) > MOST_SAVED:
        return None
    return sorted({one[:3] for one in look.files if counts(*one[:2])} | set(times(saved)))


def times(paths):
    """Return path, size and time of the last change of each file that is there."""
    found = []
    for path in paths:
        with suppress(OSError):
            told = os.lstat(path)
            found.append((path, told.st_size, told.st_ctime_ns))
    return found


def saved_by(folder):
    """Return the real paths of the files where a run saves, links followed; or of a few more than
    MOST_SAVED. None of a run whose job can't be read."""
    found, seen = set(), set()
    for place in _saves(folder):
        top = place if os.path.isdir(place) else os.path.dirname(place.rstrip("/"))
        # What stands before the first * of a pattern may be half a name.
        for above, folders, files in os.walk(top, followlinks=True):
            real = os.path.realpath(above)
            if (real, place) in seen or len(found) > MOST_SAVED:
                folders[:] = []
                continue
            seen.add((real, place))
            paths = (os.path.join(above, name) for name in files)
            found.update(os.path.realpath(path) for path in paths if path.startswith(place))
            folders[:] = [n for n in folders if os.path.join(above, n).startswith(place)]
    return found


def _saves(folder):
    """Return where a run saves what it names; [] where its job can't be read."""
    try:
        found = job_in(folder)
        job, work = found["job"], _work(found, folder)
        saved = [(job.get("checkpoint") or {}).get("folder") or "", *(job.get("results") or [])]
    except (KeyError, TypeError, AttributeError):
        return []
    plain = [re.split(r"[*?\[{]", os.path.expanduser(name))[0] for name in saved if name]
    return [os.path.join(work, name) for name in plain]


def _work(found, folder):
    return os.path.expanduser((found.get("rendered") or {}).get("work_dir") or folder)


def _durable_of(folder):
    job = job_in(folder).get("job")
    durable = job.get("durable") if isinstance(job, dict) else None
    return durable if isinstance(durable, dict) else {}


def _copied_by(folder):
    """Return the names that a run gives in its durable place to what it copies."""
    what = [*(_durable_of(folder).get("what") or []), "checkpoints"]
    names = {os.path.normpath(name).strip("/").split("/")[0] for name in what}
    names |= {os.path.basename(name.rstrip("/")) for name in what}
    return {*names, *(f"{name}.generations" for name in names), "runner", PLACE_FILE}


def _held_by(folder):
    """Return the real paths of what a run copies to its durable place."""
    work, what = _work(job_in(folder), folder), _durable_of(folder).get("what") or []
    found = [os.path.join(folder, "log"), os.path.join(folder, "events.jsonl")]
    for name in map(os.path.expanduser, what):
        below = os.path.join(work, name)
        found.append(below if os.path.lexists(below) else os.path.join(folder, name))
    return list(map(os.path.realpath, found))


def _is_verified(folder, seconds):
    """Return whether a run's own copy to its durable place goes through now, all compared."""
    words = ["bash", os.path.join(folder, "run.sh"), "sync"]
    try:
        command = child.Command(words)
    except (OSError, ValueError):
        return False
    return command.finish(seconds) and command.code == 0


def _sent_to(folder):
    """Return {path: when it was there at the latest, in ns} of the files that were sent to a run's
    folder."""
    file = os.path.join(folder, "sent.json")
    try:
        with open(file, encoding="utf-8") as text:
            names = json.load(text)
        return {os.path.join(folder, name): os.stat(file).st_ctime_ns for name in names}
    except (OSError, ValueError, TypeError, RecursionError):
        return {}


def _place_of(folder):
    """Return the id of a run's durable place, None for none."""
    return Folder(folder).json("own/place.json").get("id")


def _is_system(mount):
    parts = mount.split("/")
    above = ["/".join(parts[: end + 1]) for end in range(len(parts))]
    # Memory, and the disk of somebody's containers.
    is_of_users = mount.startswith("/var/") or any(one in IN_SYSTEM for one in above)
    return not is_of_users and any(map(SYSTEM.fullmatch, above))


def _is_in(path, folders):
    return any((path + "/").startswith(one.rstrip("/") + "/") for one in folders)


def _plain(text):
    """Return a path as it is from how a table of mounts writes it."""
    return re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), text)


def _mounts():
    """Return {mount point: (kind of its file system, folder in which the files of an overlay lie,
    '' for none)}, {} where they can't be read."""
    found = {}
    with suppress(OSError, ValueError), open("/proc/self/mounts", errors="surrogateescape") as file:
        for line in file:
            where, kind, options = line.split(" ")[1:4]
            upper = re.search(r"(?:^|,)upperdir=([^,]*)", options) if kind == "overlay" else None
            found[_plain(where)] = kind, _plain(upper[1]) if upper else ""
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
