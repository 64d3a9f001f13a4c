"""What would help where an answer is empty or unsure."""

from __future__ import annotations

from ..logs.judging import Evidence

LONG_REPORT = 160  # characters from which a report is worth a sentence in fewer words


def what_helps(evidence: Evidence, said: str, most: int = 9, heard: bool = False) -> str:
    """What would help, given what is there already: at most so many things, behind what is said about the answer. `heard`: a sentence came with the report."""
    wanted = []
    if not heard and sum(len(line.text) for line in evidence.lines) > LONG_REPORT:
        wanted.append(
            "one sentence of 4 to 16 words that says what is seen, and when, before the report and a blank line"
        )
    if not evidence.is_log and not any(line.kind == "routine" for line in evidence.lines):
        wanted.append("the last 50 lines of the log with the last exception")
    elif not evidence.failed():
        wanted.append("the lines around the first error, from the rank that failed first")
    if len(evidence.ranks) > 1 or any(
        "gpus" in line.text.lower() or "rank" in line.text.lower() for line in evidence.lines[:50]
    ):
        wanted.append(
            "the folder of per-rank logs (torchrun --log-dir), and `py-spy dump` of each rank if it hangs"
        )
    wanted.append(
        "what you see in numbers (loss, step time, memory, exit code) and since which change"
    )
    return f"{said} What would help: {'; '.join(wanted[:most])}."
