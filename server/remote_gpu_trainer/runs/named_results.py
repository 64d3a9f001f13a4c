"""What a job names as its results, and which of it came home with a release. Pure, but for `read`.

A result may lie outside the run's folder, or behind a symbolic link, which isn't followed. So may a
checkpoint in the folder that the job names for them.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from .sent_job import job_in

MOST_LINKS = 20  # a longer chain is a circle


@dataclass(frozen=True)
class Named:
    """The places of a job, as it writes them: a relative one starts in the work folder.

    `results` are files. '' stands for what the job doesn't name.
    """

    run_dir: str = ""
    work_dir: str = ""
    checkpoint_folder: str = ""
    checkpoint_pattern: str = ""
    results: tuple[str, ...] = ()

    @property
    def checkpoints(self) -> str:
        """Return a glob for the end of the paths of the checkpoints; '' if the job names none."""
        glob, name = self.checkpoint_pattern, PurePosixPath(self.checkpoint_folder).name.strip("~.")
        if not glob or "**" in glob or not name:
            return glob.replace("**/", "")
        return f"{name}/{glob}"

    @property
    def expects_weights(self) -> bool:
        """Return whether a checkpoint must be among what comes: not where the job names results,
        and no checkpoint."""
        return bool(self.checkpoint_folder or self.checkpoint_pattern or not self.results)


@dataclass
class Reached:
    """What of the named places didn't come.

    `outside`: places that weren't pulled. `behind`: [(what the job names, link, its target)].
    `absent`: results that aren't on the box, as far as it was pulled. `apart`: whether results are
    among what is outside. `came`: where the results lie that came, by their paths here.
    """

    outside: list[str] = field(default_factory=list)
    behind: list[tuple[str, str, str]] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    apart: bool = False
    came: list[str] = field(default_factory=list)


def read(folder: Path) -> Named:
    """Return the places that the job of a run's folder names; none of one that can't be read."""
    sent = job_in(str(folder))
    try:
        job, rendered = sent["job"], sent["rendered"]
        checkpoint = job["checkpoint"] or {"folder": "", "pattern": ""}
        cells = [cell["name"] for cell in job["queue"]["cells"]] if job["queue"] else [""]
        results = [name.replace("{cell}", cell) for name in job["results"] for cell in cells]
        return Named(
            str(rendered["run_dir"]),
            str(rendered["work_dir"]),
            str(checkpoint["folder"]),
            str(checkpoint["pattern"]),
            tuple(dict.fromkeys(results)),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return Named()


def reached(
    named: Named,
    places: Mapping[str, str],
    files: Mapping[str, object],
    links: Mapping[str, str],
) -> Reached:
    """Return what of the named places didn't come.

    `places`: the folders that were pulled, {prefix here: path on the box}; '' is the run's folder.
    `files` and `links` ({path: target}) are by their paths here.
    """
    found = Reached()
    at = _Places(named, places)
    folders = [named.checkpoint_folder] if named.checkpoint_folder else []
    for path in [*folders, *named.results]:
        here, way = at.follow(path, links)
        if here is None and way:
            found.behind.append((path, *way))
        elif here is None and (place := at.outside(path)):
            _add(found.outside, place)
            found.apart = True
        elif here is not None and path in named.results:
            came = _matching(files, here)
            found.came += came
            found.absent += [] if came else [path]
    found.behind += _led_out(at, [*folders, *named.results], links)
    if _is_rooted(named.work_dir) and at.here(at.whole(named.work_dir)) is None:
        _add(found.outside, named.work_dir)
    return found


def _led_out(at: _Places, named: list[str], links: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return the links in what is named that lead to what didn't come, as `Reached.behind` has
    them."""
    led: list[tuple[str, str, str]] = []
    tops = [top for path in named if (top := at.follow(path, links)[0]) is not None]
    for link in links:
        if not any(f"{link}/".startswith(f"{top}/") or matches(link, top) for top in tops):
            continue
        whole = at.there(link)
        here, way = at.follow(whole, links)
        led += [(posixpath.basename(link), *way)] if here is None and way else []
    return led


def _matching(files: Mapping[str, object], path: str) -> list[str]:
    """Return a result that came: the file or the folder of that name, or what a glob matches."""
    if path in files or any(name.startswith(f"{path}/") for name in files):
        return [path]
    return sorted(name for name in files if matches(name, path))


def matches(name: str, glob: str) -> bool:
    """Return whether a path matches a glob part by part: '*' stands for no '/'."""
    parts, wanted = name.split("/"), glob.split("/")
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def _is_rooted(path: str) -> bool:
    return path.startswith(("/", "~"))


def _add(places: list[str], place: str) -> None:
    if place not in places:
        places.append(place)


class _Places:
    """Paths on the box, and where they came to."""

    def __init__(self, named: Named, places: Mapping[str, str]):
        self.run, self.source = named.run_dir.rstrip("/"), places[""].rstrip("/")
        if not self.run:  # a script as old as that lies in ~/runs
            self.run = "~/" + "/".join(PurePosixPath(self.source).parts[-2:])
        self.work = named.work_dir
        self.places = {prefix: folder.rstrip("/") for prefix, folder in places.items()}

    def whole(self, path: str) -> str:
        """Return a path with the run's folder as the box calls it."""
        if not _is_rooted(path):
            path = posixpath.join(self.work or self.source, path)
        path = posixpath.normpath(path)
        if f"{path}/".startswith(f"{self.run}/"):
            path = self.source + path[len(self.run) :]
        return path

    def here(self, path: str) -> str | None:
        """Return where a whole path came to, None for nowhere."""
        for prefix, folder in self.places.items():
            if f"{path}/".startswith(f"{folder}/"):
                return posixpath.join(prefix, path[len(folder) + 1 :]).rstrip("/")
        return None

    def there(self, path: str) -> str:
        """Return where on the box a path here came from."""
        names = [name for name in self.places if name and f"{path}/".startswith(f"{name}/")]
        name = max(names, key=len, default="")
        return posixpath.join(self.places[name], path[len(name) :].lstrip("/")).rstrip("/")

    def follow(
        self, path: str, links: Mapping[str, str]
    ) -> tuple[str | None, tuple[str, str] | None]:
        """Return where a path came to, and the last link on the way, (path on the box, target)."""
        whole, way = self.whole(path), None
        for _ in range(MOST_LINKS):
            here = self.here(whole)
            link = next((part for part in _above(here or "") if part in links), None)
            if here is None or link is None:
                return here, way
            rest = here[len(link) :]
            at, target = whole.removesuffix(rest), links[link]
            way = (at, target)
            whole = self.whole(posixpath.join(posixpath.dirname(at), target) + rest)
        return None, way

    def outside(self, path: str) -> str:
        """Return what to pull for a path that came nowhere; '' where nobody can say."""
        place = path if _is_rooted(path) else self.work
        return place if _is_rooted(place) else ""


def _above(path: str) -> list[str]:
    """Return a path's folders, the highest first, and the path itself."""
    parts = path.split("/")
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]
