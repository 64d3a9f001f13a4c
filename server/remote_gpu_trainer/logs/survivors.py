"""Tell by its words whether a line's rank failed by itself or lost another one."""

from __future__ import annotations

import re

from .lines import SAYS_SO

# In lower case: plain texts are found ten times faster than one expression of them.
_SECONDARY = (
    "connection reset", "connection closed", "connection refused", "closed by peer", "broken pipe",
    "recvvalue", "sigterm", "signal 15", "keyboardinterrupt", "watchdog", "timeout", "time out",
    "timedout", "timed out", "remote process exited", "abort", "heartbeat", "sendbytes", "no error",
    "monitoredbarrier", "tcpstore", "c10d store", "key-value store", "store based", "store->",
    "diststore", "unhandled system error", "ncclremoteerror", "entire process down",
    "instance of 'c10::dist", "ncclsystemerror", "exit of a remote peer",
    "terminate called without an active exception", "flight recorder dump signal",
    "to signal dumping",
)  # fmt: skip
# Exceptions that no lost peer raises, whatever they say.
_OWN = frozenset((
    "AttributeError", "FileNotFoundError", "ImportError", "IndexError", "KeyError",
    "ModuleNotFoundError", "NameError", "NotImplementedError", "OutOfMemoryError",
    "PermissionError", "TypeError", "UnboundLocalError", "ValueError", "ZeroDivisionError",
))  # fmt: skip
# In lower case. A line without any of these may only log an error, as in
# "wandb: ERROR Error while calling W&B API".
_ENDS = (
    "killed", "segmentation", "bus error", "core dumped", "abort", "terminate called", "what():",
    "cuda error", "oom", "out of memory", "fatal", "assertion", "signal", "exitcode", "exited",
)  # fmt: skip
LOST_PEER = re.compile(
    r"connection (?:reset|closed)|closed by peer|broken pipe|sigterm|signal 15\b"
    r"|exitcode\s*:\s*-15|remote process exited|sendbytes failed|recvvalue failed|"
    r"unhandled system error|ncclSystemError|ncclRemoteError",
    re.I,
)


def is_secondary(text: str) -> bool:
    """Return whether a text may only say that another rank is gone, or that time ran out."""
    low = text[:SAYS_SO].lower()
    # Names of arguments and settings say nothing: "unexpected keyword argument 'timeout_s'".
    if "timeout" in low:
        low = low.replace("timeout_", " ").replace("_timeout", " ")
    for told in _SECONDARY:
        if told in low:
            return text.partition(":")[0].rpartition(".")[2] not in _OWN
    return False


def is_report(text: str) -> bool:
    """Return whether a text only logs an error, which need not end anything."""
    low = text[:SAYS_SO].lower()
    return not any(told in low for told in _ENDS)
