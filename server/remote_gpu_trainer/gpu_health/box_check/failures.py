"""How a call failed: what nvidia-smi prints when it can't work, its exit code, a time-out."""

import re

from ...logs.kernel.places import bdf, clean, short
from .text import as_list

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


def smi_failure(text):
    """(kind, the line) when nvidia-smi says that it can't work at all, otherwise None."""
    for kind, pattern in FAILURES:
        match = pattern.search(text)
        if match:
            start, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.end())
            return kind, short(text[start : end if end > 0 else None])
    return None


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
