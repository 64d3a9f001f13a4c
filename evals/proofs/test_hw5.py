"""HW5: a card held down by hardware beside one at its power cap, in the fields of a capture from eight H100s."""

import csv

import pytest
from check_code import span
from smi_capture import smi
from stub_box import Box

HARDWARE = 0x8 | 0x20 | 0x40 | 0x80


def held(box) -> list[str]:
    """The cards whose row confirms it."""
    code = span("HW5", "--query-gpu").replace(" -l 5", "")
    rows = list(csv.DictReader(box.said(code).splitlines(), skipinitialspace=True))
    assert len(rows) == 8
    best = max(int(row["clocks.current.sm [MHz]"].split()[0]) for row in rows)
    return [
        row["index"]
        for row in rows
        if int(row["clocks_event_reasons.active"], 16) & HARDWARE
        and int(row["clocks.current.sm [MHz]"].split()[0]) < best
    ]


@pytest.mark.parametrize(("reasons", "clock", "confirmed"), [
    ("0x0000000000000048", "645 MHz", ["3"]),  # hardware, heat
    ("0x0000000000000080", "990 MHz", ["3"]),  # power brake
    ("0x0000000000000004", "1755 MHz", []),  # the power cap at full draw
    ("0x0000000000000001", "345 MHz", []),  # idle
])  # fmt: skip
def test_only_a_reason_of_hardware_beside_faster_cards_confirms_it(
    tmp_path, reasons, clock, confirmed
):
    box = Box(tmp_path)
    fast = {card: "1980 MHz" for card in range(8)}
    smi(
        box,
        "h100x8",
        clocks_current_sm=fast | {3: clock},
        clocks_event_reasons_active={3: reasons},
    )
    assert held(box) == confirmed
