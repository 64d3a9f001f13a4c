"""Check and fix of the entries, where the catalogue lies beside the program."""

import glob
import os
import re

PAGES = (("references", "**", "*.md"), ("profiles", "*.md"))
MOST_TEXT = 500  # characters of a check or a fix


def catalogue():
    """The folder with references/ and profiles/ beside scripts/, or an empty text."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return root if os.path.isdir(os.path.join(root, "references", "training")) else ""


def advice(ids, root):
    """id -> {"check": text, "fix": text}, the first paragraph of each, for those that are found."""
    found = {}
    if not root:
        return found
    pages = [os.path.join(glob.escape(root), *place) for place in PAGES]
    for path in sorted(path for page in pages for path in glob.glob(page, recursive=True)):
        with open(path, encoding="utf-8") as handle:
            parts = re.split(r"(?m)^### ", handle.read())[1:]
        for part in parts:
            entry = re.match(r"[A-Z0-9]+[a-z]?", part)
            if entry and entry.group() in ids:
                found[entry.group()] = {
                    name.lower(): first_of(part, name) for name in ("Check", "Fix")
                }
                found[entry.group()]["page"] = place_of(part, path, root)
    return found


def place_of(part, path, root):
    """Where an entry stands in the project's repository, with the mark of its heading."""
    heading = re.sub(r"[^\w\- ]", "", part.splitlines()[0].strip().lower()).replace(" ", "-")
    return os.path.relpath(path, root).replace(os.sep, "/") + "#" + heading


def first_of(part, name):
    """The first paragraph of a field of an entry, on one line, cut at the end of a sentence."""
    place = re.search(r"(?ms)^\*\*" + name + r":\*\* *(.*?)(?:\n\s*\n|\Z)", part)
    text = " ".join(place.group(1).split()) if place else ""
    if len(text) <= MOST_TEXT:
        return text
    cut = text[:MOST_TEXT].rfind(". ") + 1
    return text[:cut] if cut > 0 else text[:MOST_TEXT].rsplit(" ", 1)[0] + " …"
