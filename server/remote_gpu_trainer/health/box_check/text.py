"""Read cells, places and failures of nvidia-smi. Text from a box is cut, cleaned, not trusted."""

import re

# ANSI sequences: \x1b[4m and the longer forms, and a title that ends with a bell.
ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|\x1b.")


COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]")  # topo -m and dmesg colour their output


def clean(text):
    """Remove ANSI sequences and replace control characters. Line ends and tabs stay."""
    text = ANSI.sub("", text.replace("\r\n", "\n"))
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "?", text)


def short(text, most=240):
    """One clean line of at most `most` characters."""
    text = " ".join(clean(str(text)).split())
    return text if len(text) <= most else text[: most - 1] + "…"


NOT_AVAILABLE = (
    "n/a",
    "not supported",
    "not available",
    "requested functionality has been deprecated",
    "not found",
    "",
)


def state(cell):
    """Classify a cell: value, na (not available, never 0), denied, lost, error, bad, missing."""
    if cell is None:
        return "missing"
    text = cell.strip()
    bare = text.strip("[]").strip().lower()
    if text.startswith("[") != text.endswith("]"):
        return "bad"
    if bare in NOT_AVAILABLE:
        return "na"
    if bare == "insufficient permissions":
        return "denied"
    if bare in ("gpu is lost", "gpu requires reset"):
        return "lost"
    if bare in ("unknown error", "err!"):
        return "error"
    return "bad" if text.startswith("[") else "value"


# 81559 MiB · 26.562 GB/s · 16x · 0x0000000000000001 · 512 bank(s) · -5 C
NUMBER = re.compile(r"(-?\d{1,16}(?:\.\d{1,6})?)\s*(?:x|%|[a-zA-Z]{1,7}(?:/s)?|bank\(s\))?$")


def number(cell):
    """The number of a cell without its unit, or None."""
    if state(cell) != "value":
        return None
    text = cell.strip()
    if re.match(r"0[xX][0-9a-fA-F]{1,16}$", text):
        return int(text, 16)
    match = NUMBER.match(text)
    return float(match.group(1)) if match else None


def yes(cell):
    """True, False or None. Some drivers print Yes and No, others numbers."""
    if state(cell) != "value":
        return None
    text = cell.strip().lower()
    if text in ("yes", "no"):
        return text == "yes"
    return int(text) > 0 if re.match(r"\d{1,9}$", text) else None


BDF = re.compile(r"^(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?$")


def bdf(text):
    """The place of a card as 0000:3b:00, or None.

    00000000:3B:00.0, 0000:3b:00.0, 0000:3b:00 and 3b:00.0 are one place.
    """
    match = BDF.match((text or "").strip())
    if not match:
        return None
    domain, bus, device = (int(part or "0", 16) for part in match.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}"


def version(text):
    """'590.44.01' -> (590, 44, 1); () for what is no version."""
    match = re.match(r"\D{0,3}(\d{1,6}(?:\.\d{1,6}){0,4})", str(text or ""))
    return tuple(int(part) for part in match.group(1).split(".")) if match else ()


def as_dict(value):
    """The value if it is a dict, otherwise an empty dict."""
    return value if isinstance(value, dict) else {}


def as_list(value):
    """The value if it is a list, otherwise an empty list."""
    return value if isinstance(value, list) else []


def usual(values):
    """The most common value that isn't None or empty, or None."""
    values = [value for value in values if value not in (None, "")]
    return max(sorted(set(values), key=str), key=values.count) if values else None


def exit_of(value):
    """Return how a command ended: {rc, timed_out, cut, asked, short, unasked}, and its times.

    exit.json of other tools may hold a bare number, or the word for a time-out.
    """
    if isinstance(value, dict):
        code = next(
            (
                value[key]
                for key in ("rc", "exit", "code", "returncode", "exit_code")
                if key in value
            ),
            None,
        )
        late = any(value.get(key) for key in ("timed_out", "timeout", "timedout"))
        times = {
            key: value[key]
            for key in ("limit_s", "seconds")
            if isinstance(value.get(key), (int, float))
        }
        return dict(
            times,
            rc=code if isinstance(code, int) else None,
            timed_out=bool(late),
            cut=bool(value.get("cut")),
            asked=as_list(value.get("asked")),
            short=value.get("short") is True,
            unasked=value.get("unasked") is True,
        )
    out = {
        "rc": None,
        "timed_out": False,
        "cut": False,
        "asked": [],
        "short": False,
        "unasked": False,
    }
    if isinstance(value, str) and "time" in value.lower():
        return dict(out, timed_out=True)
    return dict(
        out,
        rc=value if isinstance(value, int) and not isinstance(value, bool) else None,
        timed_out=value is None,
    )


# What nvidia-smi prints if it can't work at all. "smi_" and the key are its name in findings.txt.
FAILURES = (
    # Failed to initialize NVML: Driver/library version mismatch
    ("mismatch", re.compile(r"Failed to initialize NVML: Driver/library version mismatch")),
    # NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure …
    (
        "no_driver",
        re.compile(
            r"couldn.?t communicate with the NVIDIA driver"
            r"|Failed to initialize NVML: Driver Not Loaded"
        ),
    ),
    # No devices were found
    ("no_devices", re.compile(r"^\s*No devices were found", re.M)),
    # Failed to initialize NVML: Unknown Error (only inside a container)
    ("cgroup", re.compile(r"Failed to initialize NVML: Unknown Error")),
    ("denied", re.compile(r"Failed to initialize NVML: Insufficient Permissions")),
    ("blocked", re.compile(r"GPU access blocked by the operating system")),
    ("library", re.compile(r"couldn.?t find (?:the )?libnvidia-ml")),
    ("nvml", re.compile(r"Failed to initialize NVML: \S.*")),
)


# Unable to determine the device handle for GPU 0000:09:00.0: Unknown Error
# … for gpu 0000:01:00.0: GPU is lost.      newer drivers: … for GPU0000:07:00.0: …
# … for GPU5: 0000:70:00.0: Unknown Error      … for GPU0: Unknown Error
PLACE = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?"
HANDLE = re.compile(
    r"Unable to determine the device handle for gpu\s*"
    rf"(?:({PLACE})|(\d{{1,3}})(?::\s*({PLACE}))?): .{{0,80}}",
    re.I,
)


# nvidia-smi's exit codes follow nvmlReturn (man page; 18 from gputil#55)
RC_FAILURES = {
    8: "power",
    10: "interrupt",
    9: "no_driver",
    6: "no_devices",
    12: "library",
    18: "mismatch",
    17: "blocked",
    4: "denied",
    15: "lost",
    16: "reset",
}


def lost_handles(text):
    """(place or None, index or None, the line) of each GPU that nvidia-smi has no handle for."""
    return [
        (
            bdf(match.group(1) or match.group(3)),
            int(match.group(2)) if match.group(2) else None,
            short(match.group(0)),
        )
        for match in HANDLE.finditer(clean(text))
    ]


def smi_failure(text):
    """(kind, the line) when nvidia-smi says that it can't work at all, otherwise None."""
    for kind, pattern in FAILURES:
        match = pattern.search(text)
        if match:
            start, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.end())
            return kind, short(text[start : end if end > 0 else None])
    return None
