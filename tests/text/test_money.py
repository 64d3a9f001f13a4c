"""Amounts of money as people write them."""

import pytest
from remote_gpu_trainer.text.money import Money, read_money


@pytest.mark.parametrize(
    ("text", "amount", "currency"),
    [
        ("2.50 USD", 2.5, "USD"),
        ("usd 2.5", 2.5, "USD"),
        (" 40CNY ", 40, "CNY"),
        ("1.99", 1.99, ""),
        (3, 3, ""),
        (0.5, 0.5, ""),
    ],
)
def test_an_amount_with_or_without_its_currency(text, amount, currency):
    assert read_money(text) == Money(amount, currency)


@pytest.mark.parametrize(
    "value",
    ["", "free", "USD", "-5", 0, -1, True, None, float("nan"), float("inf"), "1e3", "2,50 USD",
     "$2", "2 dollars", "9" * 9, "1 USD an hour", ["1 USD"]],
)  # fmt: skip
def test_anything_else_is_no_amount(value):
    assert read_money(value) is None


def test_an_amount_is_written_as_it_can_be_read():
    for money in (Money(2.5, "USD"), Money(1234567 / 1000, "EUR"), Money(40)):
        assert read_money(str(money)) == money
