"""Xids and SXids, the driver's numbers for faults: how bad each is, and what to do about it.

Sources: of the Xids, see data/xids.txt. SXids: gpud's table, read on 2026-11-20, from the
Fabric Manager guide of October 2023. Recovery actions: NVML, and `nvidia-smi` from R565 on.
"""

import re

from . import data_text
from .advice import BACK, RANK, RESET
from .tables import codes_of, rows_of

# Xid -> (level, NVIDIA's action, what it is); where we say otherwise, Xid -> (what to do, why)
XID_TABLE = data_text("xids.txt").replace("{RESET}", RESET)
XID_ROWS = [(codes_of(row[0]), row[1:4], row[4:]) for row in rows_of(XID_TABLE)]
XID = {code: tuple(nvidias) for codes, nvidias, _ in XID_ROWS for code in codes}
XID_OURS = {code: tuple(ours) for codes, _, ours in XID_ROWS if ours for code in codes}

# SXid (NVSwitch) -> whether it is fatal: always, maybe (if the line says so), stalls, or never
SXID_FATAL = {
    "always": "10003,12020,22003,22011,23001-23017",
    "maybe": (
        "10001,10002,10004,10005,11001,11009,11013,11018-11020,12001,12002,12022,12024-12027,"
        "12030-12032,14017,15001,15006,15009,15010,15012,15013,19047,19048,19054,19056,19058,"
        "19060,19061,19063,19064,19066,19067,19069,19070,20034,22012,24004-24007"
    ),
    # Not fatal, but the traffic of a GPU stops, its programs hang, and gpud restarts the box.
    "stalls": "11004,12028,19084",
    "never": (
        "11012,11021-11023,12021,12023,15008,15011,19049,19055,19057,19059,19062,"
        "19065,19068,19071,20001,20009,20012,22013,24001-24003"
    ),
}
SXID = {code: when for when, codes in SXID_FATAL.items() for code in codes_of(codes)}

# Xid -> word in ENTRY
XID_ENTRY = {
    48: "ecc",
    63: "ecc",
    64: "ecc",
    92: "ecc",
    94: "ecc",
    95: "ecc",
    79: "lost",
    109: "stuck",
    119: "gsp",
    120: "gsp",
}

# NVIDIA's action for an Xid, in words
NVIDIA_WORDS = {
    "IGNORE": "nothing to do",
    "RESTART_APP": "restart the job",
    "RESET_GPU": RESET,
    "RESTART_BM": "reboot the box",
    "RESTART_VM": "reboot the box",
    "CONTACT_SUPPORT": "ask the provider",
    "CHECK_MECHANICALS": "power cable: " + BACK,
    "UPDATE_SWFW": "versions of host and guest differ: ask the provider",
    "WORKFLOW_XID_48": RESET,
    "WORKFLOW_NVLINK_ERR": "reboot the box",
    "WORKFLOW_NVLINK5_ERR": RESET,
    "CHECK_UVM": "restart the job",
    "XID_154": "do what it says",
    "NONE_LISTED": "ask the provider",
    "WORKFLOW_XID_45": "look at the Xid next to it",
}

UNKNOWN_XID = "look it up in NVIDIA's Xid catalogue"


# 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)
CHANGED = re.compile(r"changed from .*? to (?:0x[0-9a-f]+ )?\(?([^()]*)\)?")


# 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149
# (open-gpu-kernel-modules prints it where it knows which fault it cleans up after)
PREVIOUS = re.compile(r"caused by previous Xid (\d{1,4})\b")


def previous_xid(line):
    """The Xid that a clean-up (Xid 45) names as its cause, or None."""
    named = PREVIOUS.search(line)
    return int(named.group(1)) if named else None


def xid_words(code, level, line=""):
    """Return what to do about an Xid. `line`: its line, in which Xid 154 says it."""
    changed = CHANGED.search(line) if code == 154 else None
    if changed:
        return recovery_of(changed.group(1))[1]
    if code in XID_OURS:
        return XID_OURS[code][0]
    action = XID.get(code, ("", "", ""))[1]
    if action == "IGNORE" and RANK[level] < RANK["unknown"]:
        return "finish your job, then " + RESET
    return NVIDIA_WORDS.get(action, "ask the provider")


def xid_level(code, text):
    """The level of an Xid: the table's, unless the line says more."""
    level = XID[code][0] if code in XID else "unknown"
    if 144 <= code <= 149:
        word = re.search(r"\b(Fatal|Nonfatal|Non-fatal)\b", text)
        return "fatal" if word and word.group(1) == "Fatal" else level
    if code in (94, 95):
        return "fatal" if re.search(r"\bRST: Yes", text) else level
    if code == 154:
        action = CHANGED.search(text)
        return recovery_level(action.group(1)) if action else "degraded"
    return level


# The recovery actions: the words of NVML (R615), nvidia-smi and Xid 154, how bad, what to do.
RECOVERY = (
    ("none|0", "ok", "nothing"),
    ("gpu reset|reset|gpu reset required|1", "fatal", RESET),
    (
        "node reboot|reboot|node reboot required|system reboot|2|7",
        "fatal",
        "reboot the box; if it comes back, " + BACK,
    ),
    ("bus reset|6", "fatal", "reboot the box: a reset of its bus is up to the host"),
    (
        "drain p2p|3",
        "degraded",
        "finish what runs, then restart every job that uses NVLink or peer-to-peer with this GPU",
    ),
    ("drain and reset|4", "degraded", "finish your job, start nothing new, then " + RESET),
    ("recover imex domain|5", "degraded", "ask the provider to restore the IMEX domain"),
)
RECOVERY_OF = {
    words: (level, action) for names, level, action in RECOVERY for words in names.split("|")
}


def recovery_of(text):
    """-> (the level of a recovery action's words, what to do). Any word but None is bad."""
    words = re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()
    urgent = "drain" not in words and re.search(r"reset|reboot", words)
    unknown = ("fatal" if urgent else "degraded", "do what it says; if it comes back, " + BACK)
    return RECOVERY_OF.get(words, unknown)


def recovery_level(text):
    """The level of a recovery action's words."""
    return recovery_of(text)[0]
