"""Read the tables of data/."""

import re


def rows_of(text):
    """The rows of a table as lists of cells. An indented line continues the row before it."""
    joined = re.sub(r"\n[ \t]+", " ", re.sub(r"(?m)^[ \t]*#.*\n", "", text))
    return [[cell.strip() for cell in line.split(" | ")] for line in joined.splitlines() if line]


def codes_of(text):
    """'1-3,7' -> {1, 2, 3, 7}"""
    codes = set()
    for part in text.split(","):
        low, _, high = part.strip().partition("-")
        codes.update(range(int(low), int(high or low) + 1))
    return codes
