"""HW8: the compute mode and the processes of a card that refuses a second one. Rows of a capture; the table is nvidia-smi's."""

import csv

import pytest
from check_code import span
from smi_capture import smi
from stub_box import Box

TABLE = """\
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
{}
+-----------------------------------------------------------------------------------------+"""
NOBODY = (
    "|  No running processes found                                                             |"
)
HOLDER = (
    "|    2   N/A  N/A            4100      C   python                                 4242MiB |"
)


@pytest.mark.parametrize(("mode", "process", "confirmed"), [
    ("Exclusive_Process", HOLDER, True),
    ("Prohibited", NOBODY, True),
    ("Exclusive_Process", NOBODY, False),  # the first process gets in
    ("Default", HOLDER, False),  # processes share
])  # fmt: skip
def test_an_exclusive_card_with_a_process_or_a_prohibited_one_confirms_it(
    tmp_path, mode, process, confirmed
):
    box = Box(tmp_path)
    smi(box, "h100x8", TABLE.format(process), compute_mode={2: mode})
    said = box.said(span("HW8", "compute_mode,memory"), CUDA_VISIBLE_DEVICES="2").splitlines()
    row = list(csv.DictReader(said[:9], skipinitialspace=True))[2]
    taken = any(line.split()[1:2] == [row["index"]] for line in said[9:] if line.endswith("MiB |"))
    found = row["compute_mode"]
    assert (found == "Prohibited" or (found == "Exclusive_Process" and taken)) is confirmed
    assert said[-1] == "[2]"
