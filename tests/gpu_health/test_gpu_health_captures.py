"""Every capture gives what tests/gpu_health/gpu_expectations.tsv says, ours and those of $GPU_CAPTURES."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.gpu_health.gpu_faults import CAPTURES, Text
from tests.gpu_health.script import SCRIPT, gpu_health

TABLE = [
    line.split("\t")
    for line in (ROOT / "tests" / "gpu_health" / "gpu_expectations.tsv")
    .read_text(encoding="utf-8")
    .splitlines()
    if not line.startswith("#")
]
REAL = os.environ.get("GPU_CAPTURES")
LEVELS = ("fatal", "degraded", "unknown", "warn")


def check(path, row):
    answer = gpu_health.report(gpu_health.load(str(path)))
    got = [sum(one["level"] == level for one in answer["findings"]) for level in LEVELS]
    assert (answer["verdict"], got) == (row[2], [int(text) for text in row[3:7]]), [
        one["evidence"] for one in answer["findings"]
    ]


@pytest.mark.parametrize("row", [row for row in TABLE if row[0] == "own"], ids=lambda row: row[1])
def test_our_captures_give_what_the_table_says(row):
    check(CAPTURES / row[1], row)


@pytest.mark.parametrize("row", [row for row in TABLE if row[0] == "real"], ids=lambda row: row[1])
def test_real_captures_give_what_the_table_says(row):
    if not REAL:
        pytest.skip("GPU_CAPTURES names no folder of real captures")
    check(Path(REAL) / row[1], row)


SINGLE = {  # outputs of which no capture here is
    "table.txt": "| N/A   41C    P0             69W /  700W |       0MiB /  81559MiB |      0%      Default |",
    "q.txt": "==============NVSMI LOG==============",
    "retired.csv": "gpu_uuid, retired_pages.address, retired_pages.cause\nGPU-1, 0x1, Double Bit ECC",
    "lspci.txt": "3b:00.0 3D controller [0302]: NVIDIA Corporation GH100",
    "version.txt": "NVIDIA-SMI version  : 580.95\nNVML version        : 580.95",
    "fabricmanager.txt": "[Nov 20 2026 10:00:00] [INFO] [tid 1200] Fabric Manager",
    "nvidia-smi-q.xml": '<?xml version="1.0" ?>\n<gpu id="00000000:3B:00.0"></gpu>',
    "unrecognised": "step 1 loss 2.5",
}


def test_an_output_is_known_by_its_content_alone():
    found = {name: gpu_health.kind_of(text) for name, text in SINGLE.items()}
    assert found == {name: name for name in SINGLE}
    for path in CAPTURES.glob("*/*.*"):
        text = path.read_text(encoding="utf-8")
        says = text.strip() and "not permitted" not in text
        says = says and (path.name != "nvlink.txt" or "Link " in text)
        if path.suffix != ".json" and says:
            assert gpu_health.kind_of(text) == path.name, path


def test_the_table_names_every_capture_once():
    ours = sorted(
        path.name for path in CAPTURES.iterdir() if path.is_dir() and not path.name.startswith("__")
    )
    assert sorted(row[1] for row in TABLE if row[0] == "own") == ours
    if REAL:
        assert sorted(row[1] for row in TABLE if row[0] == "real") == sorted(
            path.name for path in Path(REAL).iterdir() if path.name != "SOURCES.md"
        )


def test_captures_called_healthy_give_nothing_above_warn():
    healthy = [
        row for row in TABLE if row[7].startswith("healthy") and row[1] != "container-no-log"
    ]
    assert len(healthy) >= 25
    assert all(row[2] == "fit" and row[3:6] == ["0", "0", "0"] for row in healthy)


def findings(faults):
    for row in TABLE:
        if row[0] == "own":
            yield from gpu_health.judge(gpu_health.load(str(CAPTURES / row[1])))
    for fault in faults:
        record = {
            "files": {k: v for k, v in fault.files.items() if k not in ("exit.json", "proc.json")},
            "exit": json.loads(fault.files["exit.json"]),
            "proc": json.loads(fault.files["proc.json"]),
        }
        yield from gpu_health.judge(record, gpu_health.expectations_of(fault.expect))


def test_findings_have_the_shape_of_the_contract(some):
    from tests.gpu_health.gpu_faults import faults

    for one in findings(some(faults(), 4)):
        assert list(one) == ["gpu", "level", "evidence", "threshold", "action", "entry"]
        assert one["level"] in LEVELS
        assert one["evidence"] and one["threshold"] and one["action"], one
        assert len(json.dumps(one)) < 1200


def test_entries_are_those_of_the_catalogue():
    pages = list((ROOT / "references").rglob("*.md")) + list((ROOT / "profiles").glob("*.md"))
    ids = {
        found
        for page in pages
        for found in re.findall(r"^### ([A-Z0-9]+) —", page.read_text(encoding="utf-8"), re.M)
    }
    assert {entry for entry in gpu_health.ENTRY.values() if entry} <= ids
    script = SCRIPT.read_text(encoding="utf-8")
    given = {record["entry"] for record in gpu_health.FINDINGS.values()}
    given |= set(gpu_health.XID_ENTRY.values())
    given |= set(re.findall(r'\bentry ?= ?"([a-z_]+)"', script))
    given |= set(re.findall(r'\.miss\(.*, "([a-z0-9_]+)"', script))
    assert {"no_runtime", "ecc", "torch_driver", "bf16"} <= given
    assert given - {""} <= set(gpu_health.ENTRY), given - set(gpu_health.ENTRY)


@pytest.mark.parametrize(
    ("capture", "code", "word"),
    [("h100x8", 0, "fit"), ("amd-ecc", 1, "unfit"), ("no-gpu", 2, "unknown")],
)
def test_the_program_ends_with_the_code_of_its_verdict(capture, code, word):
    done = subprocess.run(
        [sys.executable, SCRIPT, "--replay", CAPTURES / capture, "--json"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, json.loads(done.stdout)["verdict"], done.stderr) == (code, word, "")


def test_a_healthy_box_of_eight_is_told_in_few_words():
    done = subprocess.run(
        [sys.executable, SCRIPT, "--replay", CAPTURES / "h100x8"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.splitlines() == [
        "verdict: fit",
        "8 x NVIDIA H100 80GB HBM3, 81559 MiB (GPU 0, 1, 2, 3, 4, 5, 6, 7)",
        "driver 590.44.01",
    ]


@pytest.mark.parametrize(
    ("expect", "findings"),
    [
        ("gpus=8,name=H100,vram=80,nvlink=all,driver>=550", []),
        (
            "gpus=8,name=h100 80gb,mig=off,ecc=on,bf16=yes,fp8=yes,p2p=yes,cc>=9.0,pcie=16,pciegen=5,disk>=500,shm>=32,ram>=128",
            [],
        ),
        ("gpus=4", [(None, "fatal")]),
        ("gpus>=4", []),
        ("driver>=600", [(None, "fatal")]),
        ("torch=cu130", [(None, "unknown")]),
        ("name=H200", [(index, "fatal") for index in range(8)]),
        ("vram=141", [(index, "fatal") for index in range(8)]),
        ("nvlink=18", []),
        ("disk>=5000", [(None, "fatal")]),
    ],
)
def test_expectations_are_compared_with_the_box(expect, findings):
    got = gpu_health.judge(
        gpu_health.load(str(CAPTURES / "h100x8")), gpu_health.expectations_of(expect)
    )
    assert [(one["gpu"], one["level"]) for one in got] == findings


def test_a_wrong_expectation_is_a_wrong_usage_that_names_the_right_ones():
    done = subprocess.run(
        [
            sys.executable,
            SCRIPT,
            "--replay",
            CAPTURES / "h100x8",
            "--expect",
            "gups=8",
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert "gups=8" in done.stderr and "gpus" in done.stderr


@pytest.mark.parametrize(
    ("torch", "expect", "levels"),
    [
        (
            {
                "torch": "2.13.0+cu130",
                "cuda": "13.0",
                "available": True,
                "devices": [{"index": 0, "ok": True}],
            },
            "torch=cu130",
            [],
        ),
        (
            {
                "torch": "2.13.0+cu130",
                "cuda": "13.0",
                "available": True,
                "devices": [{"index": 0, "ok": True}],
            },
            "torch>=2.6",
            [],
        ),
        (
            {
                "torch": "2.5.1+cu124",
                "cuda": "12.4",
                "available": True,
                "devices": [{"index": 0, "ok": True}],
            },
            "torch=cu130",
            ["fatal"],
        ),
        (
            {
                "torch": "2.5.1+cu124",
                "cuda": "12.4",
                "available": True,
                "devices": [
                    {"index": 3, "ok": False, "error": "CUDA error: no kernel image is available"}
                ],
            },
            "",
            ["fatal"],
        ),
        (
            {
                "torch": "2.13.0+cu130",
                "cuda": "13.0",
                "available": False,
                "devices": [],
                "error": "The NVIDIA driver on your system is too old",
            },
            "",
            ["fatal"],
        ),
        ({"error": "ModuleNotFoundError: No module named 'torch'"}, "", ["unknown"]),
    ],
)
def test_the_jobs_own_torch_is_judged(torch, expect, levels):
    record = gpu_health.load(str(CAPTURES / "h100x8"))
    record["proc"]["torch"] = dict(torch, python="/opt/venv/bin/python")
    assert [
        one["level"] for one in gpu_health.judge(record, gpu_health.expectations_of(expect))
    ] == levels


def test_judging_changes_nothing_and_says_the_same_twice():
    record = gpu_health.load(str(CAPTURES / "amd-ecc"))
    before = json.dumps(record, sort_keys=True)
    first = gpu_health.judge(record)
    assert gpu_health.judge(record) == first
    assert json.dumps(record, sort_keys=True) == before


def test_a_log_that_cannot_be_read_can_be_accepted():
    record = gpu_health.load(str(CAPTURES / "container-no-log"))
    assert gpu_health.verdict(gpu_health.judge(record)) == "unknown"
    assert (
        gpu_health.verdict(gpu_health.judge(record, gpu_health.expectations_of("log=no"))) == "fit"
    )


@pytest.mark.parametrize(
    ("capture", "word"),
    [
        ("h100mig", "MIG"),
        ("vgpu", "vGPU"),
        ("wsl", "WSL"),
        ("container-no-log", "container (docker)"),
        ("amd", "AMD"),
        ("no-gpu", "no GPU seen"),
        ("t4x1", "virtual machine with the GPU passed through"),
    ],
)
def test_the_kind_of_box_is_recognised(capture, word):
    assert word in gpu_health.report(gpu_health.load(str(CAPTURES / capture)))["recognised"]


@pytest.mark.parametrize(
    ("name", "text", "levels"),
    [
        (
            "amd-metric.json",
            '[{"gpu": 0, "ecc": {"total_uncorrectable_count": 0, "total_correctable_count": 4}}]',
            [],
        ),
        ("amd-metric.json", '[{"gpu": 0, "ecc": {"total_uncorrectable_count": 2}}]', ["fatal"]),
        (
            "amd-bad-pages.json",
            '[{"gpu": 0, "pending": [{"page_address": "0x1", "status": "PENDING"}]}]',
            ["degraded"],
        ),
        ("amd-metric.json", "not JSON", ["unknown"]),
    ],
)
def test_amd_smi_is_read_where_it_is(name, text, levels):
    record = gpu_health.load(str(CAPTURES / "amd"))
    record["files"][name] = text
    assert [one["level"] for one in gpu_health.judge(record)] == levels


def test_an_amd_box_whose_ecc_nobody_tells_is_unknown():
    record = gpu_health.load(str(CAPTURES / "amd"))
    record["proc"]["pci"][0]["ras"] = {}
    assert gpu_health.report(record)["verdict"] == "unknown"


def test_the_answer_for_a_healthy_box_of_eight_is_short():
    assert len(json.dumps(gpu_health.report(gpu_health.load(str(CAPTURES / "h100x8"))))) < 600


@pytest.mark.parametrize(
    ("capture", "told"), [("rtx3090x2", True), ("l40sx4", False), ("vgpu", False), ("wsl", False)]
)
def test_persistence_mode_off_is_told_of_a_card_without_hbm_and_judges_nothing(capture, told):
    record = gpu_health.load(str(CAPTURES / capture))
    if told:
        record["files"]["nvidia-smi.csv"] = persistence(
            record["files"]["nvidia-smi.csv"], "Disabled"
        )
        record["files"]["nvidia-smi-q.xml"] = re.sub(
            "(<persistence_mode>)[A-Za-z]+", r"\1Disabled", record["files"]["nvidia-smi-q.xml"]
        )
    answer = gpu_health.report(record)
    assert any("persistence mode off" in word for word in answer["recognised"]) is told
    assert not any("persistence" in one["evidence"] for one in answer["findings"])


def persistence(table, mode):
    rows = [line.split(", ") for line in table.splitlines()]
    for header in [row for row in rows if "persistence_mode" in row]:
        at, start = header.index("persistence_mode"), rows.index(header) + 1
        for row in rows[start:]:
            if len(row) != len(header):
                break
            row[at] = mode
    return "".join(", ".join(row) + "\n" for row in rows)


def judged(box, expect=""):
    """(gpu, level, evidence) of each finding of an edited capture."""
    files = dict(box.files)
    record = {
        "exit": json.loads(files.pop("exit.json")),
        "proc": json.loads(files.pop("proc.json")),
        "files": files,
        "live": False,
    }
    return [
        (one["gpu"], one["level"], one["evidence"])
        for one in gpu_health.judge(record, gpu_health.expectations_of(expect))
    ]


def part_of(capture, kept, node="denied"):
    """A job's view of a box: nvidia-smi shows the first cards, sysfs all; `node` of the others, or None for a recording that doesn't tell."""
    box = Text(capture)
    count = len(box.places)
    for gpu in range(count - 1, kept - 1, -1):
        box.row_out(gpu)
        box.xml_out(gpu)
    box.files["nvidia-smi-q.xml"] = re.sub(
        r"<attached_gpus>\d+", f"<attached_gpus>{kept}", box.files["nvidia-smi-q.xml"]
    )
    box.files["nvidia-smi.csv"] = re.sub(
        rf"(?m)^(\d, ){count}, ", rf"\g<1>{kept}, ", box.files["nvidia-smi.csv"]
    )
    box.files["nvidia-smi-list.txt"] = "".join(
        box.files["nvidia-smi-list.txt"].splitlines(True)[:kept]
    )
    box.files["nvlink.txt"] = "".join(
        re.split(r"(?m)^(?=GPU \d)", box.files["nvlink.txt"])[: kept + 1]
    )
    rows = [
        line.split("\t")
        for line in box.files["topo.txt"].split("\n")
        if not re.match(r"GPU({})\t".format("|".join(map(str, range(kept, count)))), line)
    ]
    box.files["topo.txt"] = "\n".join(
        "\t".join(row[: 1 + kept] + row[1 + count :] if len(row) > count else row) for row in rows
    )
    if node:
        box.proc(
            lambda proc: [
                card.update(minor=at, node="open" if at < kept else node)
                for at, card in enumerate(proc["pci"])
            ]
        )
    return box


@pytest.mark.parametrize("node", ["denied", "absent", "hidden"])
def test_a_job_on_a_part_of_a_node_is_fit_and_told_so(node):
    box = part_of("h100x8", 2, node)
    assert judged(box) == [] == judged(box, "gpus=2,nvlink=all")
    for line in (
        "NVRM: Xid (PCI:%s): 79, pid=1, GPU has fallen off the bus.",
        "NVRM: GPU %s.0: RmInitAdapter failed! (0x62:0x65:1792)",
    ):
        other, own = part_of("h100x8", 2, node), part_of("h100x8", 2, node)
        other.log(line % box.short_place(7))
        own.log(line % box.short_place(1))
        assert [(gpu, level) for gpu, level, _ in judged(other)] == [(box.short_place(7), "warn")]
        assert [(gpu, level) for gpu, level, _ in judged(own)] == [(1, "fatal")]
    files = dict(box.files)
    record = {
        "exit": json.loads(files.pop("exit.json")),
        "proc": json.loads(files.pop("proc.json")),
        "files": files,
    }
    assert "2 of 8 NVIDIA cards are this job's" in gpu_health.report(record)["recognised"]


def without_driver(driver="", **more):
    """Seven of eight H100 answer; sysfs has the eighth, and nvidia isn't its driver."""
    box = part_of("h100x8", 7, None)
    box.proc(lambda proc: proc["pci"][7].update(driver=driver, **more))
    return box, box.short_place(7)


PROBE = "NVRM: The NVIDIA probe routine failed for 1 device(s)."
NOT_CALLED = "NVRM: The NVIDIA probe routine was not called for 1 device(s)."


@pytest.mark.parametrize("driver", ["", "nouveau"])
def test_a_card_that_no_driver_has_is_a_missing_card(driver):
    box, place = without_driver(driver)
    assert [(gpu, level) for gpu, level, _ in judged(box)] == [(place, "fatal")]
    box.log(PROBE, "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  590.44.01")
    assert {level for _, level, _ in judged(box)} == {"fatal"}
    assert len(judged(box)) == 2


@pytest.mark.parametrize(
    ("driver", "more"),
    [("vfio-pci", {}), ("", {"virtual_function": True}), ("", {"class": "0x040300"})],
)
def test_a_device_that_is_no_card_of_this_box_is_none_that_is_missing(driver, more):
    box, _ = without_driver(driver, **more)
    assert judged(box) == []


def test_a_card_that_belongs_to_a_virtual_machine_is_a_note_in_the_log():
    box, _ = without_driver("vfio-pci")
    box.log(NOT_CALLED)
    assert [level for _, level, _ in judged(box)] == ["warn"]
    box.log(NOT_CALLED.replace("1 device", "2 device"))
    assert [level for _, level, _ in judged(box)] == ["fatal"]


def test_a_card_too_old_for_the_driver_is_a_note():
    box, place = without_driver(**{"class": "0x030000"})
    box.log(f"NVRM: ignoring the legacy GPU {place}.0")
    assert [(gpu, level) for gpu, level, _ in judged(box)] == [(place, "warn")]


def test_a_card_without_a_driver_is_perhaps_anothers_in_a_container_and_on_a_part_of_a_node():
    box, place = without_driver()
    box.proc(lambda proc: proc["platform"].update(container="docker"))
    box.log(PROBE)
    assert [(gpu, level) for gpu, level, _ in judged(box)] == [
        (place, "unknown"),
        (None, "unknown"),
    ]
    box = part_of("h100x8", 2)
    box.proc(lambda proc: proc["pci"][7].pop("node"))
    box.proc(lambda proc: proc["pci"][7].update(driver=""))
    box.log(PROBE)
    assert {level for _, level, _ in judged(box)} == {"warn"}


def under_load(capture, clocks, percent=100):
    box = Text(capture)
    for gpu, clock in enumerate(clocks):
        box.cell(gpu, "clocks.current.sm", str(clock))
        box.cell(gpu, "utilization.gpu", str(percent))
        box.xml(gpu, "gpu_util", f"{percent} %")
    return box


def test_a_gpu_with_half_the_clock_of_its_busy_neighbours_is_degraded():
    fast = [1980, 1755, 1980, 1410, 1980, 1980, 1980, 1905]
    assert judged(under_load("h100x8", fast)) == []
    slow = [*fast[:5], 345, *fast[6:]]
    assert [(gpu, level) for gpu, level, _ in judged(under_load("h100x8", slow))] == [
        (5, "degraded")
    ]
    assert judged(under_load("h100x8", slow, percent=30)) == []
    assert judged(under_load("t4x1", [345])) == []


def test_a_clock_that_another_finding_explains_is_told_once():
    box = under_load("h100x8", [1980] * 7 + [345])
    box.cell(7, "clocks_event_reasons.hw_thermal_slowdown", "Active")
    assert [level for _, level, _ in judged(box)] == ["degraded"]


def narrow(name, width, inside=True):
    box = Text("t4x1")
    box.files = {key: text.replace("Tesla T4", name) for key, text in box.files.items()}
    for file, old, new in (
        ("nvidia-smi.csv", "15360", "23028"),
        ("nvidia-smi-q.xml", "15360", "23028"),
        ("nvidia-smi.csv", ", 7.5,", ", 8.6,"),
    ):
        box.files[file] = box.files[file].replace(old, new)
    box.cell(0, "pcie.link.width.current", str(width))
    box.cell(0, "pcie.link.gen.max", "4")
    if not inside:
        box.files["nvidia-smi-q.xml"] = box.files["nvidia-smi-q.xml"].replace(
            "Pass-Through", "None"
        )
    return [(level, text) for _, level, text in judged(box) if "width" in text]


@pytest.mark.parametrize(
    ("name", "width", "inside", "level"),
    [
        ("NVIDIA A10G", 8, True, "warn"),
        ("NVIDIA A10G", 4, True, "degraded"),
        ("NVIDIA A10G", 8, False, "degraded"),
        ("NVIDIA A10", 8, True, "degraded"),
        ("NVIDIA L40S", 8, True, "degraded"),
    ],
)
def test_a_width_that_a_provider_may_rent_a_card_with_is_a_note(name, width, inside, level):
    assert [one for one, _ in narrow(name, width, inside)] == [level]


def disk_of(**values):
    box = Text("h100x8")
    box.proc(lambda proc: proc["disks"]["/workspace"].update(values))
    return [(level, text) for _, level, text in judged(box)]


def test_a_path_that_the_job_writes_to_is_not_read_only():
    assert disk_of(read_only=True) == []
    assert disk_of(read_only=True, asked=True) == [("degraded", "/workspace is read-only")]
    assert disk_of(asked=True) == []


@pytest.mark.parametrize("word", ["[N/A]", "[Not Supported]"])
@pytest.mark.parametrize(
    ("field", "tag"),
    [
        ("memory.total", "total"),
        ("remapped_rows.failure", "remapped_row_failure"),
        ("remapped_rows.pending", "remapped_row_pending"),
    ],
)
def test_what_no_output_tells_of_a_card_that_has_it_is_unknown(field, tag, word):
    box = Text("h100x8")
    box.cell(4, field, word)
    assert "unknown" not in [level for _, level, _ in judged(box)]  # -q -x still tells it
    assert box.xml(4, tag, "N/A")
    assert [(gpu, level) for gpu, level, _ in judged(box)] == [(4, "unknown")]
    assert field in judged(box)[0][2]


def test_a_reader_that_has_gone_ends_the_programs_without_a_traceback():
    for program in (
        [SCRIPT, "--replay", CAPTURES / "h100x8"],
        [SCRIPT, "--help"],
    ):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run(
            [sys.executable, *program], stdout=write, stderr=subprocess.PIPE, text=True, timeout=60
        )
        os.close(write)
        assert done.returncode in (0, 141), done.stderr  # newer argparse ends --help with 0
        assert done.stderr == ""


@pytest.mark.parametrize("container", ["", "docker"])
def test_a_card_of_the_jobs_own_that_does_not_answer_is_fatal(container):
    box = part_of("h100x8", 7, "open")
    box.proc(lambda proc: proc["platform"].update(container=container))
    assert [(gpu, level) for gpu, level, _ in judged(box)] == [(box.short_place(7), "fatal")]
    box.log(f"NVRM: Xid (PCI:{box.short_place(7)}): 79, pid=1, GPU has fallen off the bus.")
    assert {level for _, level, _ in judged(box)} == {"fatal"}


def test_a_recording_that_does_not_tell_whose_the_cards_are_is_unknown():
    assert [(gpu, level) for gpu, level, _ in judged(part_of("h100x8", 2, None))] == [
        (None, "unknown")
    ]


def test_a_container_with_more_device_nodes_than_gpus_is_never_fit():
    box = part_of("h100x8", 7, None)
    box.proc(lambda proc: proc["platform"].update(container="docker"))
    assert [level for _, level, _ in judged(box)] == ["unknown"]
    box.log(f"NVRM: Xid (PCI:{box.short_place(7)}): 79, pid=1, GPU has fallen off the bus.")
    assert [(gpu, level) for gpu, level, _ in judged(box)] == [
        (box.short_place(7), "unknown"),
        (None, "unknown"),
    ]
    box.proc(
        lambda proc: proc.update(dev=[one for one in proc["dev"] if one["path"] != "/dev/nvidia7"])
    )
    assert [level for _, level, _ in judged(box)] == [
        "warn"
    ]  # seven were given, the eighth is another's


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: GPU %s.0: RmInitAdapter failed! (0x62:0x65:1792)",
        "NVRM: Xid (PCI:%s): 48, pid=1, DBE",
        "pcieport 0000:00:01.0: AER: Uncorrected (Non-Fatal) error received: %s.0",
    ],
)
def test_what_the_log_says_of_a_neighbours_card_is_only_a_warning_in_a_container(line):
    box = part_of("h100x8", 2, "absent")
    box.proc(
        lambda proc: (
            proc["platform"].update(container="docker"),
            proc.update(
                dev=[one for one in proc["dev"] if one["path"] in ("/dev/nvidia0", "/dev/nvidia1")]
            ),
        )
    )
    box.log(line % box.short_place(5))
    assert [level for _, level, _ in judged(box)] == ["warn"]
    box.log(line % box.short_place(1))
    assert judged(box)[0][:2] in ((1, "fatal"), (1, "degraded"))


@pytest.mark.parametrize(
    ("text", "place", "index"),
    [
        ("GPU 0000:70:00.0: Unknown Error", "0000:70:00", None),
        ("gpu 0000:01:00.0: GPU is lost.", "0000:01:00", None),
        ("GPU0000:07:00.0: GPU is lost.", "0000:07:00", None),
        ("GPU 07:00.0: Unknown Error", "0000:07:00", None),
        ("GPU07:00.0: Not Found", "0000:07:00", None),
        ("GPU5: 0000:70:00.0: Unknown Error", "0000:70:00", 5),
        ("GPU 12: 00000000:70:00.0: Unknown Error", "0000:70:00", 12),
        ("GPU0: Unknown Error", None, 0),
    ],
)
def test_each_form_of_a_gpu_without_a_handle_is_read_and_fatal(text, place, index):
    text = f"Unable to determine the device handle for {text}"
    assert gpu_health.lost_handles(text) == [(place, index, text)]
    found = gpu_health.judge(
        {
            "files": {"nvidia-smi.csv": text + "\n"},
            "exit": {"nvidia-smi.csv": {"rc": 255, "timed_out": False}},
        }
    )
    assert [(one["gpu"], one["level"], one["entry"]) for one in found] == [
        (place or index, "fatal", "HW1")
    ]


def test_a_handle_that_is_lost_is_told_of_the_gpu_that_the_other_calls_know():
    box = Text("h100x8")
    box.row_out(5)
    box.files["nvidia-smi.csv"] += (
        f"Unable to determine the device handle for GPU5: 0000:{box.places[5][-7:]}: Unknown Error\n"
    )
    assert [(gpu, level) for gpu, level, _ in judged(box)] == [(5, "fatal")]


@pytest.mark.parametrize(
    "expect",
    [
        "disk=lots",
        "shm=lots",
        "driver>=latest",
        "cc>=nine",
        "nvlink=none",
        "nvlink<18",
        "log=required",
        "p2p=nvlink",
        "gpus=eight",
        "gpus=8;name=H100",
        "vram=eighty",
        "vram=80 bananas",
        "ram=2PB",
        "ecc=maybe",
        "bf16>yes",
        "name>H100",
        "torch=latest",
        "torch>=cu130",
        "mig=3g.40gb",
        "pcie=wide",
        "gpus=-1",
        "gpus=8.5",
        "disk=nan",
        "vram=1e9",
    ],
)
def test_a_value_that_is_none_of_its_kind_is_wrong_usage(expect, capsys):
    assert (
        gpu_health.main(["--replay", str(CAPTURES / "container-no-log"), "--expect", expect]) == 2
    )
    out, err = capsys.readouterr()
    assert out == "" and all(
        word in err
        for word in (
            f"can't read {expect!r}",
            "write " + re.match("[a-z0-9]+", expect).group(0),
            "--expect help",
        )
    )


@pytest.mark.parametrize(
    ("capture", "expect", "verdict"),
    [
        ("h100x8", "ecc=yes,ecc=enabled,ecc=ON,bf16=1,bf16=true,p2p=on,mig=no,mig=disabled", "fit"),
        ("h100x8", "ecc=no", "unfit"),
        ("h100x8", "bf16=no", "unfit"),
        ("rtx4090x2", "mig=no,ecc=off,p2p=no", "fit"),
        ("rtx4090x2", "mig=yes", "unfit"),
        ("h100x8", "vram=80,vram=80GB,vram=80GiB,vram=81920MiB,vram>=79", "fit"),
        ("h100x8", "vram=96GB", "unfit"),
        ("h100x8", "disk=4TB", "unfit"),
        ("h100x8", "disk=1.2TB", "fit"),
        ("h100x8", "disk=1.4TiB", "unfit"),
        ("h100x8", "ram=2TB", "unfit"),
        ("h100x8", "ram=250GiB,shm=60GB", "fit"),
        ("h100x8", "pciegen=gen5,pcie=x16", "fit"),
        ("h100x8", "pciegen=gen6", "unfit"),
        ("h100x8", "driver=590,driver>=590.44,driver<v600", "fit"),
        ("h100x8", "nvlink>=18,nvlink=all", "fit"),
        ("h100x8", "cc=9,cc<10", "fit"),
        ("container-no-log", "log=yes", "unknown"),
        ("container-no-log", "log=off", "fit"),
    ],
)
def test_a_value_is_read_by_its_kind_with_its_unit(capture, expect, verdict):
    assert (
        gpu_health.verdict(
            gpu_health.judge(
                gpu_health.load(str(CAPTURES / capture)), gpu_health.expectations_of(expect)
            )
        )
        == verdict
    )


@pytest.mark.parametrize(
    ("expect", "verdict"),
    [
        ("gpus=1,name=H100,vram=80", "unfit"),
        ("mig=on,vram=40", "fit"),
        ("mig=on,vram=41", "fit"),
        ("vram=48", "unfit"),
        ("gpus=1,name=H100", "fit"),
    ],
)
def test_a_slice_of_a_card_has_the_memory_of_its_largest_instance(expect, verdict):
    record = gpu_health.load(str(CAPTURES / "h100mig"))
    assert (
        gpu_health.verdict(gpu_health.judge(record, gpu_health.expectations_of(expect))) == verdict
    )
    record["files"]["nvidia-smi-list.txt"] = record["files"]["nvidia-smi-list.txt"].replace(
        "3g.40gb", "7g.80gb", 1
    )
    assert (
        gpu_health.verdict(gpu_health.judge(record, gpu_health.expectations_of("vram=80"))) == "fit"
    )


RYZEN = {
    "bdf": "0000:0e:00.0",
    "vendor": "0x1002",
    "class": "0x030000",
    "driver": "amdgpu",
    "current_link_width": "16",
    "max_link_width": "16",
    "mem_info_vram_total": "536870912",
    "mem_info_vram_used": "28000000",
    "ras": {},
}


def test_a_processors_own_graphics_beside_nvidia_cards_is_no_gpu_to_judge():
    record = gpu_health.load(str(CAPTURES / "rtx4090x2"))
    before = gpu_health.report(record)
    record["proc"]["pci"].append(RYZEN)
    assert gpu_health.report(record, gpu_health.expectations_of("gpus=2")) == before
    record["proc"]["pci"][-1] = dict(RYZEN, **{"class": "0x120000"})  # an accelerator is one
    assert [(one["gpu"], one["level"]) for one in gpu_health.judge(record)] == [
        (None, "unknown"),
        (None, "warn"),
    ]
    assert [one["gpu"] for one in gpu_health.report(record)["gpus"]] == [[0, 1], ["0000:0e:00"]]


@pytest.mark.parametrize(
    ("metric", "code", "pages", "verdict"),
    [
        ("", 1, "[]", "unknown"),
        ('[{"gpu": 0, "ecc": "N/A"}]', 0, "[]", "unknown"),
        ('[{"gpu": 0, "ecc": {"total_uncorrectable_count": "N/A"}}]', 0, "[]", "unknown"),
        ('[{"gpu": 0, "ecc": {"total_uncorrectable_count": 0}}]', 1, "[]", "unknown"),
        ('[{"gpu": 0, "ecc": {"total_uncorrectable_count": 0}}]', 0, "[]", "fit"),
        (
            '{"gpu_data": [{"gpu": 0, "ecc": {"total_uncorrectable_count": {"value": 0, "unit": ""}}}]}',
            0,
            "[]",
            "fit",
        ),
        (
            '[{"gpu": 0, "ecc": {"total_uncorrectable_count": {"value": 2, "unit": ""}}}]',
            0,
            "[]",
            "unfit",
        ),
        (None, 0, "[]", "unknown"),
        ("[]", 0, "[]", "unknown"),
    ],
)
def test_an_amd_card_is_fit_only_when_its_ecc_count_was_told(metric, code, pages, verdict):
    record = gpu_health.load(str(CAPTURES / "amd"))
    record["proc"]["pci"][0]["ras"] = {}
    for name, text, ended in (("amd-metric.json", metric, code), ("amd-bad-pages.json", pages, 0)):
        if text is not None:
            record["files"][name], record["exit"][name] = text, {"rc": ended, "timed_out": False}
    assert gpu_health.report(record)["verdict"] == verdict


def test_each_amd_card_must_be_told():
    record = gpu_health.load(str(CAPTURES / "amd"))
    record["proc"]["pci"].append(
        dict(record["proc"]["pci"][0], bdf="0000:84:00.0", ras={"umc_err_count": ""})
    )
    assert [one["evidence"][:17] for one in gpu_health.judge(record)] == ["1 of 2 AMD GPUs: "]


@pytest.mark.parametrize(
    ("expect", "verdict"),
    [
        ("gpus=1", "fit"),
        ("gpus=2", "unfit"),
        ("vram=192", "fit"),
        ("vram=256", "unfit"),
        ("bf16=yes", "unknown"),
    ],
)
def test_amd_cards_are_counted_and_their_memory_compared(expect, verdict):
    assert (
        gpu_health.verdict(
            gpu_health.judge(
                gpu_health.load(str(CAPTURES / "amd")), gpu_health.expectations_of(expect)
            )
        )
        == verdict
    )


def wired(*live):
    """Two V100, of whose 6 links these are active."""
    box = part_of("v100x4", 2, None)
    box.proc(lambda proc: proc.update(pci=proc["pci"][:2]))
    for gpu, links in enumerate(live):
        for link in set(range(6)) - set(links):
            box.link(gpu, link, "<inactive>")
    return box


def test_links_that_a_board_of_two_v100_does_not_wire_are_a_warning():
    box = wired((0, 2), (1, 2))
    assert [(gpu, level) for gpu, level, _ in judged(box)] == [(0, "warn"), (1, "warn")]
    assert {level for _, level, _ in judged(box, "nvlink=2")} == {"warn"}
    assert [level for _, level, _ in judged(box, "nvlink=4")] == ["fatal", "fatal"]
    assert {level for _, level, _ in judged(wired((0, 2), (1,)))} == {"fatal"}
    box.files["topo.txt"] = re.sub(r"NV\d", "SYS", box.files["topo.txt"])
    assert {level for _, level, _ in judged(box)} == {"fatal"}


def test_a_lower_enforced_power_limit_and_a_locked_clock_are_told():
    quiet = {
        gpu: [(level, text) for one, level, text in judged(Text("h100x8-load")) if one == gpu]
        for gpu in range(8)
    }

    def new(*edits, gpu=3):
        box = Text("h100x8-load")
        for field, value in edits:
            box.cell(gpu, field, value)
        return [
            (one, level, text)
            for one, level, text in judged(box)
            if (level, text) not in quiet[gpu] and one == gpu
        ]

    assert new(("enforced.power.limit", "200.00")) == [
        (3, "degraded", "enforced power limit 200 W, set 700 W")
    ]
    assert new(("enforced.power.limit", "650.00")) == []
    for watts, expected in (("200.00", "degraded"), ("400.00", "warn")):
        both = (("power.limit", watts), ("enforced.power.limit", watts))
        assert [level for _, level, _ in new(*both)] == [expected]
    locked = (
        ("clocks.current.sm", "600"),
        ("clocks_event_reasons.applications_clocks_setting", "Active"),
    )
    assert new(*locked) == [
        (3, "degraded", "held at 600 MHz of 1980 by a clock setting, at 98 % utilisation")
    ]
    assert (
        new(("clocks.current.sm", "600"), ("clocks_event_reasons.active", "0x0000000000000002"))[0][
            1
        ]
        == "degraded"
    )
    assert new(*locked[1:]) == [] == new(*locked, ("utilization.gpu", "0"))
    assert new(*locked[:1]) == [  # nothing says why, but its neighbours are three times as fast
        (3, "degraded", "600 MHz at 98 % utilisation, the others of its kind at 1755 MHz")
    ]


@pytest.mark.parametrize(
    ("name", "memory", "level"),
    [
        ("RTX 5060 Ti", 8151, None),
        ("RTX 5060 Ti", 16311, None),
        ("RTX 3060", 8192, None),
        ("RTX 3060", 12288, None),
        ("RTX 3060", 6144, "degraded"),
        ("RTX 4090", 16376, "degraded"),
    ],
)
def test_each_size_that_is_sold_under_a_name_is_right(name, memory, level):
    box = Text("rtx4090x2")
    capability = gpu_health.sku_of(name)["compute_cap"]
    for file in ("nvidia-smi.csv", "nvidia-smi-q.xml", "nvidia-smi-list.txt", "nvlink.txt"):
        box.files[file] = (
            box.files[file]
            .replace("RTX 4090", name)
            .replace("24564 MiB", f"{memory} MiB")
            .replace(", 8.9,", f", {capability},")
        )
    assert {one for _, one, text in judged(box) if "less than" in text} == (
        {level} if level else set()
    )


@pytest.mark.parametrize("minor", [3, 0])
def test_a_process_is_found_by_the_minor_number_of_its_card(minor):
    box = part_of("h100x8", 1, None)
    box.proc(
        lambda proc: (
            proc["platform"].update(container="docker"),
            proc.update(
                pci=[],
                dev=[{"path": f"/dev/nvidia{minor}", "error": ""}],
                holders=[
                    {
                        "pid": 77,
                        "state": "S",
                        "name": "python3",
                        "devices": [f"/dev/nvidia{minor}"],
                    }
                ],
            ),
        )
    )
    box.cell(0, "memory.used", "40000")
    box.xml_add(0, "\t\t<pci>", f"<minor_number>{minor}</minor_number>")
    assert judged(box) == [(0, "warn", "40000 MiB in use by python3 (pid 77)")]
