"""Places for copies that a tool of their own reaches: rclone's remotes, and buckets.

Their tools check what they send. What lies there is compared by content where something depends on
it, for each look costs a listing, and sometimes a download.
"""

from __future__ import annotations

import hashlib
import json
import os
import re

from ..child import Failed
from .place import BLOCK, SLOWEST, Files, Place, gathered, join, same_or_failed
from .tool import Answer

# What the tools say of something that was never written.
NOTHING = re.compile(
    r"irectory not found|object not found|matched no|No URLs matched|not exist|NoSuchKey"
    r"|not name a directory|\(404\)|Not Found"
)
PART = 8 << 20  # bytes of a part of an upload, doubled until MOST_PARTS are enough
MOST_PARTS = 10_000


class Cloud(Place):
    """A place of which one sees names and sums only."""

    checks_often = False

    def read(self, path: str) -> bytes | None:
        """Return a small file there; None where there is none."""
        answer = self.show(path)
        if answer.code and NOTHING.search(answer.said):
            return None
        same_or_failed(answer, "no answer,")
        return answer.out or None

    def show(self, path: str) -> Answer:
        """Run what prints a file there."""
        raise NotImplementedError

    def lines(self, words: list[str], tool: str) -> list[str]:
        """Return the lines that a listing prints, none for what isn't there. Raises Failed."""
        answer = self.tools.run(words)
        if answer.code and (NOTHING.search(answer.said) or not answer.said):
            return []
        text = same_or_failed(answer, tool).out.decode("utf-8", "surrogateescape")
        return [line.rstrip("\r") for line in text.splitlines()]


def _largest(files: Files) -> float:
    sizes = [os.path.getsize(path) for path in files.values() if os.path.exists(path)]
    return max(sizes, default=0) / SLOWEST


class Rclone(Cloud):
    """A remote of rclone, as rclone:REMOTE:PATH."""

    needs = ("rclone",)

    def show(self, path: str) -> Answer:
        """Run what prints a file there."""
        return self.tools.run(["rclone", "cat", path[7:]])

    def write(self, path: str, data: bytes) -> None:
        """Write a small file there."""
        same_or_failed(self.tools.run(["rclone", "rcat", path[7:]], data), "rclone")

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder there."""
        found = self.lines(["rclone", "lsf", folder[7:]], "rclone")
        return [name.rstrip("/") for name in found]

    def put(self, files: Files, there: str, again: bool = False) -> None:
        """Copy files there."""
        # By the sums after a failure: a wrong copy may have the right size and time.
        flags = ["--copy-links", *(["--checksum"] if again else [])]
        with gathered(files) as folder:
            words = ["rclone", "copy", folder, there[7:], *flags]
            same_or_failed(self.tools.run(words), "rclone")

    def wrong(self, files: Files, there: str) -> list[str]:
        """Return which files differ there, or aren't there."""
        with gathered(files) as folder:
            words = ["rclone", "check", folder, there[7:], "--one-way", "--copy-links"]
            answer = self.tools.run(words, patience=_largest(files))
            if re.search(r"could not be checked|hashes? in common", answer.said):
                answer = self.tools.run([*words, "--download"])
        if answer.code == 0:
            return []
        differ = re.findall(r"ERROR : (.*?): (?:.* differ|[Ff]ile not in)", answer.said)
        found = [name for name in differ if name in files]
        if not found:
            raise Failed(f"rclone: {answer.said[:300]}")
        return found

    def get(self, there: str, here: str) -> None:
        """Bring a folder here."""
        same_or_failed(self.tools.run(["rclone", "copy", there[7:], here]), "rclone")

    def drop(self, folder: str) -> None:
        """Remove a folder there."""
        self.lines(["rclone", "purge", folder[7:]], "rclone")


class S3(Cloud):
    """A bucket of S3, by aws."""

    needs = ("aws",)

    def show(self, path: str) -> Answer:
        """Run what prints a file there."""
        return self.tools.run(["aws", "s3", "cp", path, "-", "--only-show-errors"])

    def write(self, path: str, data: bytes) -> None:
        """Write a small file there."""
        words = ["aws", "s3", "cp", "-", path, "--only-show-errors"]
        same_or_failed(self.tools.run(words, data), "s3")

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder there."""
        return sorted({name.split("/")[0] for name in self._list(folder)})

    def put(self, files: Files, there: str, again: bool = False) -> None:
        """Copy files there."""
        with gathered(files) as folder:
            words = ["aws", "s3", "sync", folder, there, "--only-show-errors"]
            same_or_failed(self.tools.run(words), "s3")
        # It goes by size and time alone.
        for name in self.wrong(files, there) if again else ():
            words = ["aws", "s3", "cp", files[name], join(there, name), "--only-show-errors"]
            same_or_failed(self.tools.run(words), "s3")

    def wrong(self, files: Files, there: str) -> list[str]:
        """Return which files differ there, or aren't there."""
        far = self._list(there)
        return [name for name in files if not self._is_same(files[name], there, name, far)]

    def get(self, there: str, here: str) -> None:
        """Bring a folder here."""
        words = ["aws", "s3", "sync", there, here, "--only-show-errors"]
        same_or_failed(self.tools.run(words), "s3")

    def drop(self, folder: str) -> None:
        """Remove a folder there."""
        self.lines(["aws", "s3", "rm", folder + "/", "--recursive", "--only-show-errors"], "s3")

    def _list(self, there: str) -> dict[str, tuple[int, str]]:
        """Return {name: (bytes, ETag)} of what lies below an address."""
        bucket, _, prefix = there[5:].partition("/")
        prefix = prefix + "/" if prefix else ""
        words = ["aws", "s3api", "list-objects-v2", "--bucket", bucket, "--prefix", prefix]
        words += ["--query", "Contents[].[Key,Size,ETag]", "--output", "json"]
        answer = same_or_failed(self.tools.run(words), "s3")
        try:
            rows = json.loads(answer.out or b"null") or []
            return {str(k)[len(prefix) :]: (int(n), str(e).strip('"')) for k, n, e in rows}
        except (ValueError, TypeError):
            raise Failed(f"s3: the listing of {there} can't be read: {answer.said[:300]}") from None

    def _is_same(self, path: str, there: str, name: str, far: dict[str, tuple[int, str]]) -> bool:
        """Compare by the sum in the ETag; where it is none, as with KMS, by a download."""
        size, tag = far.get(name, (-1, ""))
        try:
            if size != os.path.getsize(path):
                return False
        except OSError:
            return False
        if tag == self._tag(path, size):
            return True
        script = 'set -o pipefail; aws s3 cp "$1" - --only-show-errors | cmp -s - "$2"'
        words = ["bash", "-c", script, "rgt", join(there, name), path]
        return self.tools.run(words).code == 0

    def _tag(self, path: str, size: int) -> str:
        """Return the ETag that aws gives a file: its MD5, or that of the MD5s of its parts."""
        part = PART
        while size > part * MOST_PARTS:
            part *= 2
        sums, left = [hashlib.md5()], part
        try:
            with open(path, "rb") as file:
                while block := file.read(min(BLOCK, left or part)):
                    if not left:
                        sums.append(hashlib.md5())
                        left = part
                    sums[-1].update(block)
                    left -= len(block)
                    self.tools.moved()
        except OSError:
            return ""
        if size < part:
            return sums[0].hexdigest()
        return f"{hashlib.md5(b''.join(one.digest() for one in sums)).hexdigest()}-{len(sums)}"


class Gs(Cloud):
    """A bucket of Google's, by gcloud, which compares by CRC32C."""

    needs = ("gcloud",)

    def show(self, path: str) -> Answer:
        """Run what prints a file there."""
        return self.tools.run(["gcloud", "storage", "cat", path])

    def write(self, path: str, data: bytes) -> None:
        """Write a small file there."""
        same_or_failed(self.tools.run(["gcloud", "storage", "cp", "-", path], data), "gs")

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder there."""
        found = self.lines(["gcloud", "storage", "ls", folder + "/"], "gs")
        return [line.rstrip("/").rpartition("/")[2] for line in found if line.startswith("gs://")]

    def put(self, files: Files, there: str, again: bool = False) -> None:
        """Copy files there."""
        with gathered(files) as folder:
            self._rsync(["--checksums-only"] if again else [], folder, there)

    def wrong(self, files: Files, there: str) -> list[str]:
        """Return which files differ there, or aren't there."""
        with gathered(files) as folder:
            answer = self._rsync(["--dry-run", "--checksums-only"], folder, there, _largest(files))
        lines = [line for line in answer.said.splitlines() if "would copy" in line.lower()]
        found = [name for name in files if any(f"/{name} " in line + " " for line in lines)]
        return found or (list(files)[:1] if lines else [])

    def get(self, there: str, here: str) -> None:
        """Bring a folder here."""
        os.makedirs(here, exist_ok=True)
        self._rsync([], there, here)

    def drop(self, folder: str) -> None:
        """Remove a folder there."""
        self.lines(["gcloud", "storage", "rm", "-r", folder + "/"], "gs")

    def _rsync(self, flags: list[str], source: str, target: str, patience: float = 0.0) -> Answer:
        words = ["gcloud", "storage", "rsync", "-r", "--no-ignore-symlinks", *flags, source, target]
        return same_or_failed(self.tools.run(words, patience=patience), "gs")
