"""What an answer may hold: one table of its parts, and the most tokens of each.

The code that writes and cuts answers takes its limits from here. Tokens are those that
`budget.tokens` estimates: 1,000 of them are at most 900 of a tokenizer. The parts can't all be full
at once, so `steps.fit` shortens an answer that is over `WHOLE`, the last part of `CUT` first.
"""

from __future__ import annotations

WHOLE, FURTHER = 1000, 95  # tokens of an answer with three matches, and of each match beyond
LINES = 2  # lines of evidence
ALSO = 15  # candidates of which an answer without a match shows the titles
BESIDE = 5  # and one with matches that aren't sure

MOST = {
    # In `matches`.
    "leads": 430,  # cause, fix and check of the first match
    "distinguish": 45,  # how to tell it from the next
    "match": 50,  # title and check of each further match
    # In `evidence`.
    "line": 48,  # each line
    # In `ask`: all of it, then its parts in their order.
    "ask": 330,
    "memory": 165,  # what training the model of a config.json takes
    "left_out": 130,  # what of a folder wasn't read, or what the dumps in it say
    "numbers": 80,  # what losses and tables show that is no fault
    "ranks": 170,  # what became of which rank, and where each stood
    "decision": 100,  # who ended the run, what may not belong to it
    "help": 130,  # which line of the user's own failed, or what would make the answer surer
    "read": 90,  # which lines and which of several runs were looked at
    # In `also`.
    "titles": 450,
}
CUT = ("match", "leads", "distinguish", "line", "titles")
