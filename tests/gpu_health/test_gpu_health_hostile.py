"""Truncated, garbled and hostile output: never a traceback, never fit, never slow."""

import json
import random
import time

import pytest

from tests.gpu_health.gpu_faults import CAPTURES, Text
from tests.gpu_health.script import gpu_health

HEALTHY = ("h100x8", "a100x8", "rtx3090x2")
FILES = (
    "nvidia-smi.csv",
    "nvidia-smi-q.xml",
    "nvidia-smi-list.txt",
    "nvlink.txt",
    "topo.txt",
    "apps.csv",
    "dmesg.txt",
    "proc.json",
    "exit.json",
)


def verdict(files, folder):
    """The verdict for raw bytes; the whole report is made, as text and as JSON."""
    for name, data in files.items():
        (folder / name).write_bytes(data)
    began = time.process_time()
    answer = gpu_health.report(
        gpu_health.load(str(folder)),
        gpu_health.expectations_of("gpus=8" if len(files["nvlink.txt"]) > 4000 else ""),
    )
    assert time.process_time() - began < 5
    text = gpu_health.as_text(answer)
    json.dumps(answer).encode("ascii")
    assert "\x1b" not in text and "\x00" not in text
    assert len(text) < 60000
    for one in answer["findings"]:
        assert len(one["evidence"]) <= 300
    return answer["verdict"]


def raw(capture):
    return {path.name: path.read_bytes() for path in (CAPTURES / capture).iterdir()}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("capture", HEALTHY)
def test_a_missing_file_is_never_fit(capture, name, tmp_path):
    files = raw(capture)
    del files[name]
    if name == "exit.json":
        return  # without it, it is a raw capture, judged by what it holds
    files.setdefault("nvlink.txt", b"")
    if name == "nvlink.txt":
        files.pop(name)
        files["nvlink.txt"] = b""
    assert verdict(files, tmp_path) != "fit" or (name == "nvlink.txt" and capture == "rtx3090x2")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("capture", HEALTHY)
def test_a_cut_file_is_never_fit(capture, name, tmp_path):
    dice = random.Random(capture + name)
    data = raw(capture)[name]
    for at in sorted({0, 1, 2, len(data) - 2} | {dice.randrange(len(data)) for _ in range(12)}):
        piece = data[:at]
        if name == "dmesg.txt" and piece.endswith(b"\n"):
            continue  # a shorter log is a log
        if (
            name == "topo.txt"
            and data[at:].lstrip().startswith(b"Legend")
            or name == "topo.txt"
            and b"Legend" in piece
            and piece.endswith(b"\n")
        ):
            continue  # only its legend is gone
        if name in ("nvlink.txt",) and capture == "rtx3090x2" and not piece:
            continue  # cards without NVLink print nothing
        if (
            name in ("apps.csv", "proc.json", "exit.json", "dmesg.txt", "nvidia-smi-q.xml")
            and at >= len(data) - 1
        ):
            continue  # only the last line end is gone
        assert verdict(dict(raw(capture), **{name: piece}), tmp_path) != "fit", (at, piece[-60:])


@pytest.mark.alone
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "junk",
    [
        b"\xff\xfe\x80 not text \xc3\n",
        b"\x00\x01\x02\n",
        b"\x1b[2J\x1b]0;owned\x07\x1b[31m\n",
        b"<!ENTITY lol 'lol'>\n",
        b"a" * (5 << 20) + b"\n",
        b"x, y, z\n" * 30000,
        b"; rm -rf / #`reboot`$(reboot)\n",
    ],
    ids=["invalid UTF-8", "control", "ANSI", "entity", "one line of 5 MB", "30000 lines", "shell"],
)
def test_junk_in_the_middle_is_never_fit(name, junk, tmp_path):
    data = raw("h100x8")[name]
    half = data.index(b"\n", len(data) // 2) + 1
    if name == "topo.txt" and junk.startswith((b"<!", b"; rm", b"x, y", b"a")):
        pytest.skip("topo -m ends with a legend in words")
    assert (
        verdict(dict(raw("h100x8"), **{name: data[:half] + junk + data[half:]}), tmp_path) != "fit"
    )


@pytest.mark.parametrize("capture", ["h100x8", "a100x8"])
def test_scrambled_letters_are_never_fit(capture, tmp_path):
    """A kernel log is left out: other words in it are other words."""
    dice = random.Random(capture)
    for turn in range(48):
        name = [name for name in FILES if name != "dmesg.txt"][turn % 8]
        data = bytearray(raw(capture)[name])
        for _ in range(dice.randrange(5, 30)):
            data[dice.randrange(len(data))] = dice.randrange(32, 127)
        assert verdict(dict(raw(capture), **{name: bytes(data)}), tmp_path) != "fit", name


@pytest.mark.parametrize("capture", HEALTHY)
def test_scrambled_bytes_never_end_in_a_traceback(capture, tmp_path):
    dice = random.Random(capture)
    for _ in range(25):
        name = dice.choice(FILES)
        data = bytearray(raw(capture)[name])
        for _ in range(dice.randrange(1, 40)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        verdict(dict(raw(capture), **{name: bytes(data)}), tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b"null",
        b"3",
        b'"x"',
        b"{}",
        b'{"platform": 3, "disks": [1], "memory": "x", "pci": {}, "holders": 7}',
        b"[" * 100000,
        b'{"a": NaN, "disks": {"/": {"total_mib": "x"}}}',
        b'{"platform": {}, "disks": {"/": 5}, "memory": {}, "pci": [1, null, "x"], "holders": [null], "dev": [0], "torch": {"devices": [3]}}',
    ],
)
def test_a_proc_json_of_other_shape_is_never_fit(text, tmp_path):
    assert verdict(dict(raw("h100x8"), **{"proc.json": text}), tmp_path) != "fit"


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b"null",
        b'{"_by": "gpu_health 1"}',
        b'{"_by": 3, "nvidia-smi.csv": [], "dmesg.txt": {"rc": "x"}}',
        b'{"_by": "x", "nvidia-smi.csv": {"rc": 0, "asked": [3, null, ["a"]]}}',
    ],
)
def test_an_exit_json_of_other_shape_is_never_fit(text, tmp_path):
    assert verdict(dict(raw("h100x8"), **{"exit.json": text}), tmp_path) != "fit"


def columns(text, change):
    """`change` gets the list of cells of a line and gives another."""
    return "\n".join(
        ", ".join(change(line.split(", "))) if line else line for line in text.split("\n")
    )


@pytest.mark.parametrize("at", range(30))
def test_a_column_too_few_is_never_fit(at, tmp_path):
    files = raw("h100x8")
    text = columns(
        files["nvidia-smi.csv"].decode(),
        lambda cells: cells[: at % len(cells)] + cells[at % len(cells) + 1 :],
    )
    assert verdict(dict(files, **{"nvidia-smi.csv": text.encode()}), tmp_path) != "fit"


@pytest.mark.parametrize("seed", range(20))
def test_columns_in_another_order_are_never_fit(seed, tmp_path):
    """All lines reordered alike, only the rows, or only the headers."""
    files, dice = raw("h100x8"), random.Random(seed)

    def shuffled(cells):
        if (seed % 3 == 1 and cells[0].startswith("index")) or (
            seed % 3 == 2 and not cells[0].startswith("index")
        ):
            return cells
        order = list(range(len(cells)))
        random.Random(seed).shuffle(order)
        return [cells[i] for i in order]

    text = columns(files["nvidia-smi.csv"].decode(), shuffled)
    assert dice and verdict(dict(files, **{"nvidia-smi.csv": text.encode()}), tmp_path) != "fit"


@pytest.mark.parametrize(
    "word",
    [
        "[Unknown Error]",
        "ERR!",
        "[Insufficient Permissions]",
        "[GPU is lost]",
        "",
        "nan",
        "-",
        "1e999",
        "99999999999999999999999",
        "[",
        "Yes\x1b[0m",
    ],
)
@pytest.mark.parametrize(
    "field",
    [
        "memory.total",
        "ecc.errors.uncorrected.volatile.total",
        "remapped_rows.failure",
        "pcie.link.width.current",
        "temperature.gpu",
        "gpu_recovery_action",
    ],
)
def test_a_cell_that_says_nothing_is_never_fit(field, word, tmp_path):
    box = Text("h100x8")
    box.cell(4, field, word)
    box.files["nvidia-smi-q.xml"] = "" if word == "" else box.files["nvidia-smi-q.xml"]
    assert verdict({name: text.encode() for name, text in box.files.items()}, tmp_path) != "fit"


@pytest.mark.parametrize(
    "field",
    [
        "remapped_rows.failure",
        "utilization.gpu",
        "retired_pages.pending",
        "ecc.errors.corrected.volatile.total",
        "temperature.memory",
    ],
)
def test_not_available_is_no_zero_and_no_fault(field, tmp_path):
    box = Text("h100x8")
    for word in (
        "[N/A]",
        "N/A",
        "[Not Supported]",
        "[Requested functionality has been deprecated]",
    ):
        box.cell(4, field, word)
        assert (
            gpu_health.state(word) == "na"
            and gpu_health.number(word) is None
            and gpu_health.yes(word) is None
        )
        assert verdict({name: text.encode() for name, text in box.files.items()}, tmp_path) == "fit"


def test_two_boxes_in_one_folder_are_refused(tmp_path):
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_bytes(raw("h100x8")["nvidia-smi.csv"])
    with pytest.raises(ValueError, match="outputs of one box"):
        gpu_health.load(str(tmp_path))


def test_an_empty_folder_and_a_missing_one_are_wrong_usage(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    for path in ("empty", "none"):
        assert gpu_health.main(["--replay", str(tmp_path / path)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("can't replay") == 2


@pytest.mark.parametrize("capture", HEALTHY)
def test_a_raw_table_of_cells_that_breaks_off_is_never_fit(capture):
    """Without exit codes beside it, as others record them: only what it holds can be judged, and half a row is no row."""
    text, dice = raw(capture)["nvidia-smi.csv"].decode(), random.Random(capture)
    whole = gpu_health.judge({"files": {"nvidia-smi.csv": text}, "exit": {}})
    assert whole == []
    for _ in range(30):
        at = dice.randrange(len(text) - 2)
        if text[at - 1] != "\n" and text[at] != "\n":
            assert (
                gpu_health.verdict(
                    gpu_health.judge({"files": {"nvidia-smi.csv": text[:at]}, "exit": {}})
                )
                != "fit"
            ), text[at - 40 : at]
