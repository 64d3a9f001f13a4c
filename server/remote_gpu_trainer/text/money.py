"""Read an amount of money with its currency as people write it: 2.50 USD, USD 2.50, 2.50."""

from __future__ import annotations

import re
from typing import NamedTuple

MOST = 1e6  # of an amount: more is a slip of the pen
_AMOUNT = r"(\d{1,9}(?:\.\d{1,9})?)"
_CURRENCY = r"([A-Za-z]{3})"
_MONEY = re.compile(rf"{_AMOUNT}(?:\s*{_CURRENCY})?\Z|{_CURRENCY}\s*{_AMOUNT}\Z")


class Money(NamedTuple):
    """An amount and its currency in three letters, '' where none was named."""

    amount: float
    currency: str = ""

    def __str__(self) -> str:
        return f"{self.amount:.10g} {self.currency}".rstrip()


def read_money(value: object) -> Money | None:
    """Return an amount over 0 that a number or a text names; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    found = _MONEY.match(str(value).strip())
    if not found:
        return None
    before, currency, currency_first, behind = found.groups()
    money = Money(float(before or behind), (currency or currency_first or "").upper())
    return money if 0 < money.amount <= MOST else None
