"""A process that may read files and compute, and nothing else: the kernel holds it to that.

Libraries in C write files without a word to Python, so a filter of system calls (seccomp) says
no to each that would write, remove, lock, send, signal or start something. Memory that is shared
with other processes can't be written either: a process that tries ends by a signal.
"""

import ctypes
import os
import platform
import re

EPERM, ENOSYS = 1, 38
ALLOW, ERROR = 0x7FFF0000, 0x00050000
LOAD, EQUAL, ANY_BIT, FROM, RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # places in what a filter sees
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
THREAD = 0x10000  # CLONE_THREAD
LOCKS = (6, 7, 37, 38)  # F_SETLK and its like
READ_ONLY_PAGES = 1  # PROT_READ
CARDS = ("/dev/nvidia", "/dev/infiniband")  # whose memory a forked process can't use anyway

# Of each machine: its number, then the system calls. From the kernel's tables, in this order:
# open files: truncate to fchmodat2; processes: kill to execveat; others: socket to io_uring_setup.
MACHINES = {
    "x86_64": {
        "audit": 0xC000003E,
        "open": 2,
        "openat": 257,
        "clone": 56,
        "fcntl": 72,
        "denied": (
            76, 77, 82, 83, 84, 85, 86, 87, 88, 90, 91, 92, 93, 94, 132, 133, 165, 188, 189, 190,
            197, 198, 199, 235, 258, 259, 260, 261, 263, 264, 265, 266, 268, 280, 285, 316, 452,
            57, 58, 59, 62, 101, 129, 200, 234, 297, 311, 322, 424,
            29, 30, 31, 41, 42, 44, 49, 64, 65, 66, 68, 69, 71, 73, 220, 240, 241, 425,
        ),
    },
    "aarch64": {
        "audit": 0xC00000B7,
        "openat": 56,
        "clone": 220,
        "fcntl": 25,
        "denied": (
            5, 6, 7, 14, 15, 16, 33, 34, 35, 36, 37, 38, 40, 45, 46, 47, 52, 53, 54, 55, 88, 276,
            452,
            117, 129, 130, 131, 138, 221, 240, 271, 281, 424,
            32, 180, 181, 186, 187, 189, 190, 191, 192, 193, 194, 195, 196, 198, 200, 203, 206, 425,
        ),
    },
}  # fmt: skip
UNKNOWN = (435, 437)  # clone3, openat2: they hide their flags, and their older likes are used then


class Instruction(ctypes.Structure):
    """One step of a filter."""

    _fields_ = (
        ("code", ctypes.c_uint16),
        ("yes", ctypes.c_uint8),
        ("no", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class Filter(ctypes.Structure):
    """A filter as the kernel takes it."""

    _fields_ = (("length", ctypes.c_uint16), ("steps", ctypes.POINTER(Instruction)))


def steps_for(machine):
    """The steps of the filter for a machine of `MACHINES`."""
    deny, allow = (RETURN, 0, 0, ERROR | EPERM), (RETURN, 0, 0, ALLOW)
    steps = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, machine["audit"]), deny]
    steps += [(LOAD, 0, 0, NUMBER), (FROM, 0, 1, 0x40000000), deny]
    for call in machine["denied"]:
        steps += [(EQUAL, 0, 1, call), deny]
    for call in UNKNOWN:
        steps += [(EQUAL, 0, 1, call), (RETURN, 0, 0, ERROR | ENOSYS)]
    for name, place, test, values in (
        ("open", 1, ANY_BIT, (WRITING,)),
        ("openat", 2, ANY_BIT, (WRITING,)),
        ("fcntl", 1, EQUAL, LOCKS),
    ):
        if name in machine:
            told = [one for value in values for one in ((test, 0, 1, value), deny)]
            steps += [(EQUAL, 0, len(told) + 2, machine[name])]
            steps += [(LOAD, 0, 0, ARGUMENTS + 8 * place), *told, allow]
    steps += [(EQUAL, 0, 3, machine["clone"]), (LOAD, 0, 0, ARGUMENTS), (ANY_BIT, 1, 0, THREAD)]
    return [*steps, deny, allow]


def can_hold():
    """Whether a process can be held to reading here."""
    known = os.path.isdir("/proc/self/fd") and hasattr(os, "fork")
    return known and platform.machine() in MACHINES and ctypes.sizeof(ctypes.c_void_p) == 8


def hold():
    """Hold this process to reading from now on. Raises OSError where the kernel doesn't do that."""
    library = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as handle:
        lines = [line for line in handle if not any(card in line for card in CARDS)]
    for span in [line.split()[0] for line in lines if re.match(r"\S+ .w.s ", line)]:
        begin, end = (int(place, 16) for place in span.split("-"))
        place, size = ctypes.c_void_p(begin), ctypes.c_size_t(end - begin)
        if library.mprotect(place, size, READ_ONLY_PAGES):
            raise OSError(ctypes.get_errno(), "shared memory stays open to writes")
    steps = steps_for(MACHINES[platform.machine()])
    held = (Instruction * len(steps))(*steps)
    if library.prctl(38, 1, 0, 0, 0) or library.prctl(
        22, 2, ctypes.byref(Filter(len(steps), held)), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "the kernel takes no filter of system calls")
