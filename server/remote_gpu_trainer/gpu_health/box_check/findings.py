"""Findings: their levels and texts, the entries that they name, and the verdict they add up to.

The texts are in data/findings.txt.
"""

import re

from ...logs.kernel.advice import BACK, RESET
from ...logs.kernel.places import short
from . import data_text

# Catalogue entries that a finding points at, by its key or the word given with it. A test compares
# them with the catalogue.
ENTRY = {
    word: entry
    for entry, words in (
        ("DP15", ["shm"]),
        ("VAST14", ["sku"]),
        ("U11", ["held"]),
        ("ENV6", ["torch_driver"]),
        ("ENV1", ["arch"]),
        ("U31", ["no_runtime"]),
        ("P3", ["bf16"]),
        ("D20", ["stuck"]),
        ("U6", ["disk"]),
        ("U7", ["inodes"]),
        ("U41", ["container memory"]),
        ("HW1", ["lost", "count", "gsp", "init", "probe failed"]),
        ("HW2", ["ecc", "remap", "pages", "repair"]),
        ("HW3", ["p2p"]),
        ("HW4", ["fabric", "fabricmanager", "fabric topology"]),
        ("HW5", ["throttle", "capped", "clock"]),
        ("HW6", ["width", "gen", "replays", "aer"]),
        ("HW7", ["mig"]),
        ("HW9", ["wrong"]),
        ("ENV10", ["cgroup"]),
        ("ENV11", ["mismatch"]),
    )
    for word in words
}
FINDING_TABLE = data_text("findings.txt")


def finding_texts():
    """-> {name: {level, key, entry, found, expected, do}}."""
    records, record = {}, {}
    text = re.sub(r"(?m)^#.*\n", "", FINDING_TABLE)
    text = text.replace("{RESET}", RESET).replace("{BACK}", BACK).replace("\n    ", " ")
    for line in text.splitlines():
        if line.startswith("  "):
            label, text = line.strip().split(": ", 1)
            record[label] = text
        elif line:
            name, level, key, entry = [*line.split(" | "), "", ""][:4]
            record = records[name] = {"level": level, "key": key.strip(), "entry": entry}
    return records


FINDINGS = finding_texts()


def verdict(findings):
    """Turn the levels of findings into the verdict."""
    levels = {finding["level"] for finding in findings}
    for level, word in (("fatal", "unfit"), ("degraded", "care"), ("unknown", "unknown")):
        if level in levels:
            return word
    return "fit"


# What somebody who rents the box does about a finding, by how its action begins or ends.
STEPS = {
    "hand back": "hand it back: end or move your job first, and keep the answer as proof",
    "watch": "watch it: do the step below, check again, and hand it back if it is still there",
    "keep": "keep it: mend what is named below, then train",
}
NO_MORE = re.compile(
    r"(?<!comes back, )(?<!box, then )hand the box back|another card|change the box"
)
LATER = re.compile(
    r"hand the box back|reset|reboot|restart the job|comes back|watch|check .*again|ask"
)


def renters_step(findings):
    """Say in one line whether to keep, watch or hand back a box with these findings.

    The worst of the degraded findings decides; without one there is nothing to say.
    """
    actions = [finding["action"] for finding in findings if finding["level"] == "degraded"]
    steps = [
        "hand back" if NO_MORE.search(text) else "watch" if LATER.search(text) else "keep"
        for text in actions
    ]
    return next((STEPS[step] for step in STEPS if step in steps), "")


class Findings:
    """Collects findings. Call it with the name of a finding and the values of its texts."""

    def __init__(self):
        """`list`: the findings; `keys`: their (key, GPU); `names`: (name, finding) of each."""
        self.list, self.keys, self.names = [], set(), []

    def __call__(self, gpu, name, *values, level=None, expected=(), do=(), key=None, entry=None):
        """Add a finding, once for each key and GPU. The record has the defaults."""
        record = FINDINGS[name]
        key = record["key"] if key is None else key
        entry = record["entry"] if entry is None else entry
        if key and (key, gpu) in self.keys:
            return
        self.keys.add((key, gpu))
        finding = {
            "gpu": gpu,
            "level": level or record["level"],
            "evidence": short(record["found"] % values, 300),
            "threshold": record["expected"] % expected,
            "action": record["do"] % do,
            "entry": ENTRY.get(entry or key, ""),
        }
        self.list.append(finding)
        self.names.append((name, finding))

    def take_out(self, *names):
        """Remove the findings with these names -> those that were there, in their order."""
        gone = [finding for name, finding in self.names if name in names and finding in self.list]
        self.list = [finding for finding in self.list if finding not in gone]
        return gone

    def has(self, key, gpu):
        """Whether a finding with this key was added for this GPU."""
        return (key, gpu) in self.keys
