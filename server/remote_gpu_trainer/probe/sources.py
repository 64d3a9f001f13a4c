"""Which state of its code a program was started from, where git knows it."""

import hashlib
import os
import subprocess

from .facts import count_of, fact

# It reads: neither does it write the index anew, nor start anything else.
GIT = (
    "git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "diff.autoRefreshIndex=false",
)  # fmt: skip
DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index", "HEAD")
MOST_GIT = 5  # seconds of one question


def asked_git(folder, *words):
    """What git says about a folder; None where it says nothing."""
    try:
        done = subprocess.run(
            [*GIT, "-C", folder, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=MOST_GIT,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None


def of_code(program):
    """The commit of the folder that a program lies in, and what of it was changed since.

    `program` are the words that start it. Files that git doesn't know aren't looked at.
    """
    files = [word for word in program if word.endswith(".py") and os.path.isfile(word)]
    path = os.path.realpath(files[0]) if files else os.path.join(os.getcwd(), "")
    folder, name = os.path.split(path)
    commit = asked_git(folder, "rev-parse", "HEAD")
    changes = asked_git(folder, *DIFF) if commit else None
    if not commit or changes is None:
        return []
    commit = commit.decode("ascii", "replace").strip()
    count = sum(line.startswith(b"diff --git ") for line in changes.splitlines())
    text = f"commit {commit[:10]} of the program's folder"
    known = hashlib.sha256(changes).hexdigest()[:10] if changes else ""
    if changes:
        text += f", {count_of(count, 'file')} changed since (changes {known})"
    else:
        text += ", no file of it changed since"
    lacks = name and asked_git(folder, "ls-files", "--error-unmatch", "--", name) is None
    text += "; the program's own file isn't in it" if lacks else ""
    return [fact("in force/commit", text, commit=commit, changes=known, lacks=bool(lacks))]
