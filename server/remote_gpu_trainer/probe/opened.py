"""Which files the program reads: data, settings, caches, weights."""

import functools
import json
import os
import sys
import threading

from .facts import count_of, fact
from .values import some
from .watching import Observer

MOST_FILES = 10000  # that are looked at
NOT_DATA = (".py", ".pyc", ".pyi", ".so", ".pth.lock", ".lock", ".json.lock", ".h", ".cpp", ".pem")
ELSEWHERE = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/", "/tmp/rgt-probe-")
SAMPLES = (
    ".jpg",
    ".jpeg",
    ".png",
    ".webp",
    ".bmp",
    ".gif",
    ".tif",
    ".tiff",
    ".wav",
    ".flac",
    ".mp3",
)
CACHES = (".pkl", ".pickle", ".npy", ".npz", ".pt", ".bin", ".cache", ".arrow", ".h5", ".feather")


class Opened:
    """Remembers the files that this process opens to read, by an audit hook of Python.

    A hook can't be taken off, so it looks at nothing once the steps are over, or after
    `MOST_FILES` files.
    """

    def __init__(self):
        self.read, self.on, self.busy = {}, True, threading.local()
        self.left = MOST_FILES
        sys.addaudithook(self.saw)

    def saw(self, event, args):
        """Called by Python at each event that can be audited."""
        if not self.on or event != "open" or getattr(self.busy, "now", False):
            return
        path, mode, flags = args
        if not isinstance(path, str) or (flags or 0) & (os.O_WRONLY | os.O_RDWR):
            return
        if path in self.read or path.endswith(NOT_DATA):
            return
        self.left -= 1
        self.on = self.left > 0
        self.busy.now = True
        try:
            whole = os.path.abspath(path)
            if not whole.startswith(ELSEWHERE) and not is_library(whole):
                self.read[path] = whole
        except Exception:
            pass
        finally:
            self.busy.now = False


def is_library(path):
    """Whether a file lies with the packages that Python imports, and not with the program."""
    if any(part in path for part in ("site-packages", "dist-packages", sys.base_prefix, "/.")):
        return True
    here = os.getcwd() + os.sep
    roots = [os.path.abspath(root) + os.sep for root in sys.path if root]
    return any(path.startswith(root) and not here.startswith(root) for root in roots)


@functools.lru_cache(maxsize=1)
def opened_by_this_process():
    """The files that this process opens, seen by one hook however often the probe looks."""
    return Opened()


class Files(Observer):
    """Tells which files were read. Files of one folder and kind are counted, not named."""

    name = "files"

    def __init__(self, watch):
        super().__init__(watch)
        self.known = None  # what had been read when it was looked at, and the facts
        self.opened = opened_by_this_process()

    def facts(self):
        """What was read, and caches that are older than what they may be made from."""
        self.opened.on = self.opened.on and not self.watch.final
        # A report is made several times, and a file on a network drive takes a moment to look at.
        seen = len(self.opened.read), len(self.watch.parts["checkpoints"].settings)
        if self.known is None or self.known[0] != seen:
            self.known = seen, self.look()
        return self.known[1]

    def look(self):
        """The facts about the files that were read so far."""
        every = dict.fromkeys(list(self.opened.read.values()))
        paths = [path for path in every if os.path.isfile(path)]
        texts = [text for inside in by_kind(paths) for text in told(inside)]
        found = [fact("data/files", "read " + some(texts, 8), files=texts[:64])] if texts else []
        return self.of_caches(paths) + self.of_settings(paths) + found

    def of_settings(self, paths):
        """Settings in a checkpoint that was loaded beside a file of settings that was read."""
        found, loaded = [], []
        for one in self.watch.parts["checkpoints"].settings[:8]:
            loaded += [] if one in loaded else [one]
        read = [(path, flat(settings_in(path))) for path in paths] if loaded else []
        for source, held in loaded:
            for path, told in read:
                both = set(told) & set(held)
                if len(both) < 4 or len(both) < 0.5 * max(len(told), len(held)):
                    continue
                differ = sorted(name for name in both if told[name] != held[name])
                if differ:
                    text = (
                        f"{short(source)} holds settings that differ from those in {short(path)} "
                        f"in {len(differ)} of {len(both)}: {some(differ, 4)}"
                    )
                    usual = "the same settings"
                    found.append(fact(f"in force/settings {short(path)}", text, usual))
        return found[:2]

    def of_caches(self, paths):
        """Caches beside a newer file that they seem to be made from and that nobody read."""
        found = []
        for path in paths:
            if not path.lower().endswith(CACHES):
                continue
            folder, name = os.path.split(path)
            for other in sorted(os.listdir(folder))[:2000]:
                source, stem = os.path.join(folder, other), os.path.splitext(other)[0]
                if source == path or other.lower().endswith(CACHES) or len(stem) < 4:
                    continue
                if not name.startswith(stem) or source in paths or not os.path.isfile(source):
                    continue
                days = (os.path.getmtime(source) - os.path.getmtime(path)) / 86400
                text = f"{short(path)} was read and {other} beside it was not"
                if days > 0:
                    text += f", which is {days:.1f} days newer"
                # A checkout or a copy writes both at about the same time.
                usual = "a cache is newer than its source" if days > 1 / 24 else ""
                found.append(fact(f"data/cache {name}", text, usual, days=round(days, 2)))
        return found[:3]


def by_kind(paths):
    """Groups of paths: few files beside each other, or the many of one kind.

    Folders may be named after classes, so those of one kind are one group, wherever they lie.
    """
    groups = {}
    for path in paths:
        key = os.path.dirname(os.path.dirname(path)), os.path.splitext(path)[1].lower()
        groups.setdefault(key, []).append(path)
    few, many = [], {}
    for (_, kind), inside in groups.items():
        if are_counted(kind, inside):
            many.setdefault(kind, []).extend(inside)
        else:
            few.append(inside)
    return [*few, *many.values()]


def are_counted(kind, inside):
    """Whether the files of a group are counted, and not named."""
    return len(inside) > 3 or kind in SAMPLES


def told(inside):
    """The texts of a group of paths."""
    kind = os.path.splitext(inside[0])[1].lower()
    if not are_counted(kind, inside):
        return [f"{short(path)} ({in_words(size_of(path))})" for path in inside]
    above = os.path.commonpath([os.path.dirname(os.path.dirname(path)) for path in inside])
    return [f"{count_of(len(inside), (kind or 'other') + ' file')} below {short(above)}"]


def settings_in(path):
    """The settings in a JSON file; {} for anything else."""
    if not path.lower().endswith(".json") or size_of(path) > 1 << 20:
        return {}
    try:
        with open(path, encoding="utf-8") as handle:
            held = json.load(handle)
    except (OSError, ValueError):
        return {}
    return held if isinstance(held, dict) else {}


def flat(held, above="", depth=4):
    """Dotted name -> value, of plain values within dicts."""
    found = {}
    for key, value in list(held.items())[:256]:
        if isinstance(value, dict) and depth:
            found.update(flat(value, f"{above}{key}.", depth - 1))
        elif value is None or isinstance(value, (str, int, float, bool)):
            found[above + str(key)] = value
    return found


def size_of(path):
    """The bytes of a file; 0 if it is gone."""
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def in_words(size):
    """Bytes as kB or MB."""
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{max(size / 1e3, 0.1):.1f} kB"


def short(path):
    """A path as seen from the program's folder."""
    here = os.path.relpath(path)
    return here if len(here) < len(path) else path
