"""What a line says about its rank by its words: that it failed by itself, that it lost another one, or nothing but that something went wrong."""

from __future__ import annotations

import re

from .lines import SAYS_SO

_SECONDARY = (  # in lower case; plain texts are found ten times faster than one expression of them
    "connection reset", "connection closed", "connection refused", "closed by peer", "broken pipe", "recvvalue", "sigterm", "signal 15", "keyboardinterrupt",
    "watchdog", "timeout", "time out", "timedout", "timed out", "remote process exited", "abort", "heartbeat", "sendbytes", "no error", "monitoredbarrier",
    "tcpstore", "c10d store", "key-value store", "store based", "store->", "diststore", "unhandled system error", "ncclremoteerror", "entire process down",
    "instance of 'c10::dist", "ncclsystemerror", "exit of a remote peer",
)  # fmt: skip
_OWN = frozenset(  # exceptions that no lost peer raises, whatever they say
    ("AttributeError", "FileNotFoundError", "ImportError", "IndexError", "KeyError", "ModuleNotFoundError", "NameError", "NotImplementedError", "OutOfMemoryError",
    "PermissionError", "TypeError", "UnboundLocalError", "ValueError", "ZeroDivisionError")
)  # fmt: skip
_ENDS = (  # in lower case; what holds none of these may be a mere report: "wandb: ERROR Error while calling W&B API"
    "killed", "segmentation", "bus error", "core dumped", "abort", "terminate called", "what():", "cuda error", "oom", "out of memory", "fatal", "assertion",
    "signal", "exitcode", "exited",
)  # fmt: skip
LOST_PEER = re.compile(
    r"connection (?:reset|closed)|closed by peer|broken pipe|sigterm|signal 15\b|exitcode\s*:\s*-15|remote process exited|sendbytes failed|recvvalue failed|"
    r"unhandled system error|ncclSystemError|ncclRemoteError",
    re.I,
)


def is_secondary(text: str) -> bool:
    """Whether a text may only say that somebody else is gone, or that time ran out."""
    low = text[:SAYS_SO].lower()
    if (
        "timeout" in low
    ):  # the names of arguments and settings say nothing: "unexpected keyword argument 'timeout_s'"
        low = low.replace("timeout_", " ").replace("_timeout", " ")
    for told in _SECONDARY:
        if told in low:
            return text.partition(":")[0].rpartition(".")[2] not in _OWN
    return False


def is_report(text: str) -> bool:
    """Whether a text only logs an error, and may tell of no end."""
    low = text[:SAYS_SO].lower()
    return not any(told in low for told in _ENDS)
