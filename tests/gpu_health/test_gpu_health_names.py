"""Which card a name means: exactly what was rented, in any form, with a hint for a misspelt one."""

import pytest

from tests.gpu_health.gpu_faults import CAPTURES, Text
from tests.gpu_health.script import gpu_health

CARDS = {  # the driver's name: the ways in which people write it
    "NVIDIA H100 80GB HBM3": ["H100", "H100 SXM5", "H100-SXM", "H100_80GB_SXM5", "H100-80GB", "NVIDIA H100 80GB HBM3"],
    "NVIDIA H100 PCIe": ["H100 PCIe", "H100-PCIE-80GB", "h100 80gb pcie"],
    "NVIDIA H100 NVL": ["H100 NVL", "H100NVL", "H100 NVL 94GB"],
    "NVIDIA H200": ["H200", "H200 SXM", "H200-141GB"],
    "NVIDIA H200 NVL": ["H200 NVL"],
    "NVIDIA GH200 480GB": ["GH200", "GH200 480GB", "GH200 96GB"],
    "NVIDIA GeForce RTX 4090": ["RTX4090", "RTX_4090", "4090", "GeForce RTX 4090", "RTX 4090 24GB"],
    "NVIDIA GeForce RTX 4090 D": ["4090 D", "RTX 4090D", "4090D"],
    "NVIDIA GeForce RTX 4090 Laptop GPU": ["RTX 4090 Laptop"],
    "NVIDIA GeForce RTX 4070 Ti SUPER": ["4070 Ti SUPER", "RTX 4070S Ti"],
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": ["RTX PRO 6000", "RTX PRO 6000 WS"],
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": ["RTX PRO 6000", "RTX PRO 6000 S"],
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": ["RTX PRO 6000 Max-Q"],
    "NVIDIA B200": ["B200", "B200 SXM 180GB"],
    "NVIDIA GB200": ["GB200"],
    "NVIDIA B300 SXM6 AC": ["B300", "B300 288GB"],
    "NVIDIA GB300": ["GB300"],
    "NVIDIA A100-SXM4-40GB": ["A100", "A100 40GB", "A100 SXM", "A100 SXM4 40GB"],
    "NVIDIA A100-SXM4-80GB": ["A100", "A100-80GB", "A100 SXM", "A100-SXM4-80GB"],
    "NVIDIA A100 80GB PCIe": ["A100", "A100-80GB", "A100 PCIe", "A100-PCIE-80GB"],
    "Tesla V100-SXM2-16GB": ["V100", "V100 SXM2", "V100-16GB"],
    "Tesla T4": ["T4", "Tesla T4", "NVIDIA T4"],
    "NVIDIA RTX 6000 Ada Generation": ["RTX 6000 Ada", "RTX6000Ada"],
    "Quadro RTX 6000": ["RTX 6000", "Quadro RTX 6000"],
    "NVIDIA RTX A6000": ["A6000", "RTX A6000"],
    "NVIDIA L40": ["L40"],
    "NVIDIA L40S": ["L40S"],
    "NVIDIA A10": ["A10"],
    "NVIDIA A10G": ["A10G"],
    "AMD Instinct MI300X OAM": ["MI300X", "MI300X 192GB"],
}  # fmt: skip


@pytest.mark.parametrize("card", CARDS)
def test_a_card_is_called_by_its_own_names_and_by_no_others(card):
    every = {name for names in CARDS.values() for name in names}
    assert {name for name in every if gpu_health.is_called(card, name)} == set(CARDS[card])


def test_every_name_of_the_driver_is_one_cards():
    rows = gpu_health.rows_of(gpu_health.NAME_TABLE)
    assert len(rows) > 200
    for sku, drivers, *_ in rows:
        for name in [sku] + [name for name in drivers.split(",") if name != "-"]:
            assert gpu_health.cards_of("NVIDIA " + name.strip()) == [sku], name


def test_every_card_whose_memory_is_known_has_a_name_in_the_table():
    rows = gpu_health.rows_of(gpu_health.NAME_TABLE)
    names = [name.strip() for sku, drivers, *_ in rows for name in (sku, *drivers.split(","))]
    drivers = [f"{maker}{name}" for name in names for maker in ("", "NVIDIA ", "Tesla ")]
    drivers += [name.upper().replace(" ", "-") for name in names]
    unknown = [
        pattern.pattern
        for pattern, _ in gpu_health.SKU
        if not any(pattern.search(name) for name in drivers)
    ]
    assert unknown == []


def named(capture, expect, name=None):
    """The findings on a box, whose cards may get another name."""
    box = Text(capture)
    if name:
        own = box.read(0, "name")
        box.files = {file: text.replace(own, name) for file, text in box.files.items()}
    record = {"files": box.files, "exit": {}}
    found = gpu_health.judge(record, gpu_health.expectations_of(expect))
    return [one for one in found if one["threshold"].startswith(("name=", "a name of"))]


def test_another_board_of_the_same_chip_isnt_what_was_rented():
    found = named("h100x8", "name=H100", "NVIDIA H100 PCIe")
    assert {one["level"] for one in found} == {"fatal"} and len(found) == 8
    assert found[0]["evidence"] == "name: NVIDIA H100 PCIe"
    assert found[0]["threshold"] == "name=H100 (H100 SXM)"
    assert named("h100x8", "name=H100 PCIe", "NVIDIA H100 PCIe") == []


def test_a_name_that_no_card_has_is_unknown_with_a_hint():
    found = named("rtx4090x2", "name=RTX4900")
    assert [one["level"] for one in found] == ["unknown"]
    assert "did you mean" in found[0]["action"] and "4090" in found[0]["action"]
    assert "H100" in named("h100x8", "name=H10O")[0]["action"]


def test_a_card_newer_than_the_table_is_called_as_the_driver_calls_it():
    assert named("rtx4090x2", "name=RTX 6090", "NVIDIA GeForce RTX 6090") == []


def test_a_part_of_a_card_in_a_virtual_machine_has_the_name_of_the_card():
    assert gpu_health.is_called("GRID A100-10C", "A100")
    assert gpu_health.is_called("NVIDIA A40-8Q", "A40")
    assert not gpu_health.is_called("NVIDIA A40-8Q", "A100")


def test_an_amd_card_is_compared_where_the_box_tells_its_name():
    record = gpu_health.load(str(CAPTURES / "amd"))

    def levels(name):
        found = gpu_health.judge(record, gpu_health.expectations_of(f"name={name}"))
        return {one["level"] for one in found}

    assert levels("MI300X") == {"unknown"}
    assert levels("H100") == {"fatal"}
    for card in record["proc"]["pci"]:
        card["product_name"] = "AMD Instinct MI300X OAM"
    assert levels("MI300X") == set()
    assert levels("MI250X") == {"fatal"}


@pytest.mark.parametrize(
    "field",
    ["power.draw", "utilization.gpu", "pstate", "fan.speed", "power.limit", "clocks.max.sm"],
)
def test_a_cell_that_says_err_is_never_fit(field, tmp_path):
    box = Text("rtx3090x2")
    box.cell(1, field, "ERR!")
    found = gpu_health.judge({"files": box.files, "exit": {}})
    assert [(one["gpu"], one["level"]) for one in found] == [(1, "degraded")]


@pytest.mark.parametrize("said", ["ERR!", "[ERR!]", "Unknown Error", "[Unknown Error]"])
def test_a_failed_cell_that_the_check_has_no_name_for_counts_as_well(said):
    table = f"index, name, made.up.field\n0, NVIDIA T4, {said}\n"
    found = gpu_health.judge({"files": {"nvidia-smi.csv": table}, "exit": {}})
    assert (0, "degraded") in [(one["gpu"], one["level"]) for one in found]
    box = Text("t4x1")
    box.xml_add(0, "<fan_speed>", f"<some_sensor>{said}</some_sensor>")
    found = gpu_health.judge({"files": box.files, "exit": {}})
    assert [(one["gpu"], one["level"]) for one in found] == [(0, "degraded")]


def test_two_cards_with_one_uuid_are_never_fit():
    box = Text("rtx3090x2")
    first, second = box.read(0, "uuid"), box.read(1, "uuid")
    box.files = {name: text.replace(second, first) for name, text in box.files.items()}
    found = gpu_health.judge({"files": box.files, "exit": {}})
    assert [(one["gpu"], one["level"]) for one in found] == [(1, "fatal")]
    assert first in found[0]["evidence"]
