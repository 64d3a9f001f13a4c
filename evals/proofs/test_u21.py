"""U21: full utilisation at a draw far below the limit, in the fields of a capture from H100s."""

import csv

import pytest
from check_code import span
from smi_capture import smi
from stub_box import Box


@pytest.mark.parametrize(("busy", "draw", "clock", "confirmed"), [
    ("100 %", "190.10 W", "1980 MHz", True),
    ("100 %", "688.40 W", "1755 MHz", False),  # it works
    ("12 %", "120.00 W", "1980 MHz", False),  # it waits for data: U24
    ("100 %", "190.10 W", "645 MHz", False),  # it is held down: HW5
])  # fmt: skip
def test_a_low_draw_at_full_utilisation_and_a_high_clock_confirms_it(
    tmp_path, busy, draw, clock, confirmed
):
    box = Box(tmp_path)
    smi(
        box, "h100x8", utilization_gpu={0: busy}, power_draw={0: draw}, clocks_current_sm={0: clock}
    )
    said = box.said(span("U21", "--query-gpu"))
    row = next(csv.DictReader(said.splitlines(), skipinitialspace=True))
    value = {name.split(" [")[0]: float(text.split()[0]) for name, text in row.items()}
    low = value["power.draw"] < 0.5 * value["power.limit"]
    high_clock = value["clocks.current.sm"] > 0.8 * value["clocks.max.sm"]
    assert (value["utilization.gpu"] >= 95 and low and high_clock) is confirmed
