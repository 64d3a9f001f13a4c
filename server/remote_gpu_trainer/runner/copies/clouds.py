"""Places for copies that a tool of their own reaches: rclone's remotes, and buckets.

Their tools check what they send. What lies there is compared by content at the end of a run, for
each look costs a listing, and sometimes a download.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable

from .listing import Listing
from .place import BLOCK, SLOWEST, Place, join, same_or_failed
from .tool import Answer, Failed, Tools

# What the tools say of something that was never written.
NOTHING = re.compile(
    r"irectory not found|object not found|matched no|No URLs matched|not exist|NoSuchKey"
    r"|not name a directory|\(404\)|Not Found"
)
PART = 1 << 20  # the parts of an upload are multiples of this


class Cloud(Place):
    """A place of which one sees names and sums only."""

    checks_often = False

    def __init__(self, tools: Tools):
        self.tools = tools

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


def as_pattern(name: str, special: str, before: str, behind: str = "") -> str:
    """Return a name as a pattern that fits nothing else."""
    return "".join(before + c + behind if c in special else c for c in name)


def _largest(listing: Listing) -> float:
    return max((stamp.size for stamp in listing.files.values()), default=0) / SLOWEST


class Rclone(Cloud):
    """A remote of rclone, as rclone:REMOTE:PATH."""

    def show(self, path: str) -> Answer:
        """Run what prints a file there."""
        return self.tools.run(["rclone", "cat", path[7:]])

    def write(self, path: str, data: bytes) -> None:
        """Write a small file there."""
        same_or_failed(self.tools.run(["rclone", "rcat", path[7:]], data), "rclone")

    def put(self, listing: Listing, there: str, again: bool, names: Iterable[str]) -> None:
        """Copy what is listed there."""
        # By the sums after a failure: a wrong copy may have the right size and time.
        flags = ["--checksum"] if again else []
        words = ["rclone", "copy", listing.folder, there[7:], *flags, *self._filter(listing)]
        same_or_failed(self.tools.run(words), "rclone")

    def wrong(self, listing: Listing, there: str, names: list[str]) -> list[str]:
        """Return which files differ there, or aren't there."""
        words = ["rclone", "check", listing.folder, there[7:], "--one-way", *self._filter(listing)]
        answer = self.tools.run(words, patience=_largest(listing))
        if re.search(r"could not be checked|hashes? in common", answer.said):
            answer = self.tools.run([*words, "--download"])
        if answer.code == 0:
            return []
        differ = re.findall(r"ERROR : (.*?): (?:.* differ|[Ff]ile not in)", answer.said)
        found = [name for name in differ if name in listing.files]
        if not found:
            raise Failed(f"rclone: {answer.said[:300]}")
        return found

    def get(self, there: str, here: str, only: list[str]) -> None:
        """Bring a folder, or names in it, here."""
        words = ["rclone", "copy", there[7:], here, *self._names(only)]
        same_or_failed(self.tools.run(words), "rclone")

    def _filter(self, listing: Listing) -> list[str]:
        leave = [f"--filter=- /{self._pattern(name)}" for name in listing.leave]
        # Else it leaves links out and says nothing.
        return [*leave, *self._names(listing.only), *(["--copy-links"] if listing.follow else [])]

    def _names(self, only: list[str]) -> list[str]:
        names = [self._pattern(name) for name in only]
        take = [f"--filter=+ /{name}{end}" for name in names for end in ("", "/**")]
        return [*take, "--filter=- *"] if take else []

    def _pattern(self, name: str) -> str:
        return as_pattern(name, "*?[]{}\\", "\\")


class S3(Cloud):
    """A bucket of S3, by aws."""

    def show(self, path: str) -> Answer:
        """Run what prints a file there."""
        return self.tools.run(["aws", "s3", "cp", path, "-", "--only-show-errors"])

    def write(self, path: str, data: bytes) -> None:
        """Write a small file there."""
        words = ["aws", "s3", "cp", "-", path, "--only-show-errors"]
        same_or_failed(self.tools.run(words, data), "s3")

    def put(self, listing: Listing, there: str, again: bool, names: Iterable[str]) -> None:
        """Copy what is listed there."""
        self._sync(listing.folder, there, listing.only, listing.leave)
        # It goes by size and time alone.
        for name in self.wrong(listing, there, sorted(listing.files)) if again else ():
            words = ["aws", "s3", "cp", listing.at(name), join(there, name), "--only-show-errors"]
            same_or_failed(self.tools.run(words), "s3")

    def wrong(self, listing: Listing, there: str, names: list[str]) -> list[str]:
        """Return which files differ there, or aren't there."""
        far = self._list(there)
        return [name for name in names if not self._is_same(listing, there, name, far)]

    def get(self, there: str, here: str, only: list[str]) -> None:
        """Bring a folder, or names in it, here."""
        self._sync(there, here, [form for name in only for form in (name, name + "/*")], [])

    def _sync(self, source: str, target: str, only: list[str], leave: list[str]) -> None:
        words = ["aws", "s3", "sync", source, target, "--only-show-errors"]
        if only:
            words += ["--exclude", "*"]
        for name in only:
            tail = "/*" if name.endswith("/*") else ""
            words += ["--include", self._pattern(name[: len(name) - len(tail)]) + tail]
        for name in leave:
            words += ["--exclude", self._pattern(name)]
        same_or_failed(self.tools.run(words), "s3")

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

    def _is_same(
        self, listing: Listing, there: str, name: str, far: dict[str, tuple[int, str]]
    ) -> bool:
        """Compare by the sum in the ETag; where it is none, as with KMS, by a download."""
        size, tag = far.get(name, (-1, ""))
        path = listing.at(name)
        if size != listing.files[name].size:
            return False
        if self._has_tag(path, size, tag):
            return True
        script = 'set -o pipefail; aws s3 cp "$1" - --only-show-errors | cmp -s - "$2"'
        words = ["bash", "-c", script, "rgt", join(there, name), path]
        return self.tools.run(words).code == 0

    def _has_tag(self, path: str, size: int, tag: str) -> bool:
        """Return whether an ETag is the MD5 of a file, or of the MD5s of its parts."""
        if re.fullmatch(r"[0-9a-f]{32}", tag):
            return b"".join(self._sums(path, max(size, 1))).hex() == tag
        if not re.fullmatch(r"[0-9a-f]{32}-[1-9][0-9]*", tag):
            return False
        sum_, _, count = tag.partition("-")
        # Tools take parts of a power of two MiB; the last one is shorter.
        sizes = [PART << n for n in range(13) if -(-size // (PART << n)) == int(count)]
        return any(hashlib.md5(b"".join(self._sums(path, n))).hexdigest() == sum_ for n in sizes)

    def _sums(self, path: str, part: int) -> list[bytes]:
        """Return the MD5 of each part of so many bytes."""
        sums, one, left = [], hashlib.md5(), part
        try:
            with open(path, "rb") as file:
                while True:
                    block = file.read(min(BLOCK, left))
                    if not block:
                        break
                    self.tools.moved()
                    one.update(block)
                    left -= len(block)
                    if not left:
                        sums.append(one.digest())
                        one, left = hashlib.md5(), part
        except OSError:
            return []
        return sums if sums and left == part else [*sums, one.digest()]

    def _pattern(self, name: str) -> str:
        return as_pattern(name, "*?[", "[", "]")


class Gs(Cloud):
    """A bucket of Google's, by gcloud or gsutil, which compare by CRC32C."""

    def __init__(self, tools: Tools):
        super().__init__(tools)
        self.is_new = tools.has("gcloud")
        self.tool = ["gcloud", "storage"] if self.is_new else ["gsutil"]

    def show(self, path: str) -> Answer:
        """Run what prints a file there."""
        return self.tools.run([*self.tool, "cat", path])

    def write(self, path: str, data: bytes) -> None:
        """Write a small file there."""
        same_or_failed(self.tools.run([*self.tool, "cp", "-", path], data), "gs")

    def put(self, listing: Listing, there: str, again: bool, names: Iterable[str]) -> None:
        """Copy what is listed there."""
        folder = next((name for name in listing.outward if os.path.isdir(listing.at(name))), "")
        sums = ["--checksums-only" if self.is_new else "-c"] if again else []
        self._rsync(sums + self._filter(listing), listing.folder, there)
        if folder:  # gcloud and gsutil pass such links over
            raise Failed(
                f"the link {folder} leads to a folder, which isn't copied to a bucket of gs://: "
                "name it in durable.what"
            )

    def wrong(self, listing: Listing, there: str, names: list[str]) -> list[str]:
        """Return which files differ there, or aren't there."""
        look = ["--dry-run", "--checksums-only"] if self.is_new else ["-n", "-c"]
        flags = look + self._filter(listing)
        answer = self._rsync(flags, listing.folder, there, _largest(listing))
        lines = [line for line in answer.said.splitlines() if "would copy" in line.lower()]
        if lines:
            raise Failed(f"differs at the destination: {lines[0]}")
        return []

    def get(self, there: str, here: str, only: list[str]) -> None:
        """Bring a folder, or names in it, here."""
        names = "|".join(map(self._pattern, only))
        os.makedirs(here, exist_ok=True)
        only = self._exclude(f"^(?!(?:{names})(?:/|$)).*") if names else []
        self._rsync(["-r", *only], there, here)

    def _rsync(self, flags: list[str], source: str, target: str, patience: float = 0.0) -> Answer:
        many = [] if self.is_new else ["-m"]
        words = [*self.tool[:1], *many, *self.tool[1:], "rsync", *flags, source, target]
        return same_or_failed(self.tools.run(words, patience=patience), "gs")

    def _filter(self, listing: Listing) -> list[str]:
        links = ["--no-ignore-symlinks"] if listing.follow and self.is_new else []
        if listing.only:
            return [*self._exclude(f"^(?!{self._pattern(listing.only[0])}$).*"), *links]
        leave = "|".join(map(self._pattern, listing.leave))
        return ["-r", *(self._exclude(f"^(?:{leave})$") if leave else []), *links]

    def _exclude(self, pattern: str) -> list[str]:
        return [f"--exclude={pattern}"] if self.is_new else ["-x", pattern]

    def _pattern(self, name: str) -> str:
        # A comma would end the pattern in gcloud's list.
        return as_pattern(name, "\\.^$*+?{}[]|()", "\\").replace(",", "\\x2c")


KINDS = {"rclone": Rclone, "s3": S3, "gs": Gs}
