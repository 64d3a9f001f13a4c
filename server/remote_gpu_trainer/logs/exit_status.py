"""A line that gives only how a program ended, as the shell says it. Python 3.8."""

from __future__ import annotations

import re

# What bash prints for a program that a signal ended, by the signal's number.
SIGNALS = {
    "ILL": (4, "Illegal instruction (core dumped)"),
    "ABRT": (6, "Aborted (core dumped)"),
    "BUS": (7, "Bus error (core dumped)"),
    "FPE": (8, "Floating point exception (core dumped)"),
    "KILL": (9, "Killed"),
    "SEGV": (11, "Segmentation fault (core dumped)"),
    "TERM": (15, "Terminated"),
}
LONGEST = 80  # characters of a line that says nothing else
# The Chinese words of bash and of C's library for the same ends.
_CHINESE = {
    "段错误": "Segmentation fault", "总线错误": "Bus error", "已放弃": "Aborted",
    "非法指令": "Illegal instruction", "浮点数例外": "Floating point exception",
    "已杀死": "Killed", "已终止": "Terminated", "核心已转储": "core dumped", "吐核": "core dumped",
}  # fmt: skip
BY_SIGNAL = 128  # what a shell adds to the signal's number
_NAME = re.compile(rf"\bSIG({'|'.join(SIGNALS)})\b", re.I)
_BEFORE_NUMBER = re.compile(r"(?<=[^\x00-\x7f])(?=-?\d)")  # 退出代码137
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,3}(?!\w|\.\d)")
# Words of a launcher, a container engine or a person around the number of an exit status.
_AROUND = re.compile(
    r"\b(?:exit(?:ed|s|ing|code)?|code|status|return(?:ed|s|code)?|rc|ret|non-?zero|signal|sig|killed|by"
    r"|with|the|a|was|is|has|due|to|from|received|got|caught|on|process|program|job|task|command"
    r"|finished|ended|terminated|died|container|pod|script|training|childfailederror|error)\b"
    r"|退出|返回|代码|码|值|信号|进程|程序|训练|任务|收到|杀死|杀掉|终止|结束|被|以|为|是|由|了|[\W_]",
    re.I,
)
_STATUS = re.compile(r"exit|code|status|return|\brc\b|sig|退出|返回|信号", re.I)


def in_english(words: str) -> str:
    """The words of a shell for an end by a signal, in English."""
    for chinese, english in _CHINESE.items():
        words = words.replace(chinese, english)
    return " ".join(words.split())


def as_shell(words: str) -> str:
    """What a shell prints for the end that a launcher tells in these words; "" for no signal.

    `Killed`, `Exited with exit code 137` and `signal 9 (Killed)` give `Killed`.
    """
    for _, said in SIGNALS.values():
        if words.startswith(said.partition(" (")[0]):
            return said
    return as_message(_BEFORE_NUMBER.sub(" ", words.partition(" (")[0]))


def as_message(line: str) -> str:
    """What a shell prints for the exit status that a line names; "" if it says anything else.

    `137`, `exit code 137`, `exitcode: -9`, `signal 9` and `SIGKILL` give `Killed`.
    """
    if len(line) > LONGEST:
        return ""
    name, number = _NAME.search(line), _NUMBER.search(line)
    rest = _NAME.sub(" ", _NUMBER.sub(" ", line))
    says_more = bool(_AROUND.sub("", rest))
    is_status = number and (_STATUS.search(line) or number[0] == line.strip())
    if says_more or not (name or is_status):
        return ""
    if name:
        return SIGNALS[name[1].upper()][1]
    status = int(number[0]) if number else 0
    is_signal = status < 0 or "sig" in line.lower() or "信号" in line
    signal = abs(status) if is_signal else status - BY_SIGNAL
    return next((text for at, text in SIGNALS.values() if at == signal), "")
