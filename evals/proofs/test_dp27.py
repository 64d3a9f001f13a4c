"""DP27: a name that `dataset_info.json` doesn't list, or columns that the rows don't have. LLaMA-Factory isn't run; its files are."""

import json
import subprocess

import pytest
from check_code import block, shown, span

ALPACA = {"instruction": "Add", "input": "1 2", "output": "3"}
CHAT = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}
MESSAGES = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "-"}]}
NAMED = {"columns": {"messages": "messages"}, "formatting": "sharegpt"}


@pytest.fixture
def told(tmp_path, monkeypatch):
    """told(info, row): what the check prints where `dataset_info.json` has this, and the file this row."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()

    def run(info, row, lines=False):
        (tmp_path / "data/dataset_info.json").write_text(json.dumps(info))
        text = f"{json.dumps(row)}\n" * 2 if lines else json.dumps([row])
        (tmp_path / "data/mine.json").write_text(text)
        return shown(block("DP27")).splitlines()

    return run


@pytest.mark.parametrize("lines", [False, True], ids=["a list", "a row a line"])
@pytest.mark.parametrize(
    "entry, row",
    [({}, ALPACA), ({"formatting": "sharegpt"}, CHAT), (NAMED, MESSAGES)],
    ids=["alpaca", "sharegpt", "named columns"],
)
def test_a_listed_set_whose_rows_have_its_columns_passes_the_check(told, entry, row, lines):
    info = {"mine": {"file_name": "mine.json", **entry}}
    assert told(info, row, lines) == ["listed: True", "missing: []"]


def test_a_name_that_is_not_listed_or_a_path_in_its_place_is_false(told):
    info = {"data/mine.json": {"file_name": "mine.json"}, "other": {"file_name": "mine.json"}}
    assert told(info, ALPACA) == ["listed: False"]


@pytest.mark.parametrize(
    "entry, row, missing",
    [
        ({}, {"prompt": "Add", "completion": "3"}, ["instruction", "output"]),
        ({}, CHAT, ["instruction", "output"]),  # "formatting" was left out
        ({"formatting": "sharegpt"}, MESSAGES, ["conversations"]),
        ({"columns": {"prompt": "question", "response": "output"}}, ALPACA, ["question"]),
        (
            {"ranking": True, "columns": {"prompt": "instruction", "chosen": "good"}},
            {"instruction": "Add", "chosen": "3"},
            ["good"],
        ),
    ],
)
def test_columns_that_a_row_lacks_are_named(told, entry, row, missing):
    info = {"mine": {"file_name": "mine.json", **entry}}
    assert told(info, row) == ["listed: True", f"missing: {missing}"]


def test_the_count_in_the_check_finds_rows_that_were_dropped(tmp_path):
    """The text is LLaMA-Factory's, of `data/processor/supervised.py`."""
    dropped = "[WARNING|2025-11-25 10:00:00] llamafactory.data.processor.supervised:148 >> Dropped invalid example: []\n"
    for number in (0, 2):
        (tmp_path / "LOG").write_text("training example:\n" + number * dropped)
        code = span("DP27", "grep")
        out = subprocess.run(["bash", "-c", code], cwd=tmp_path, capture_output=True, text=True)
        assert out.stdout == f"{number}\n"


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: Undefined dataset mine in dataset_info.json.",
        "RuntimeError: Cannot find valid samples, check `data/README.md` for the data format.",
        "RuntimeError: Cannot find sufficient samples, consider increasing dataset size.",
    ],
)
def test_what_the_trainer_says(text, says):
    says("DP27", text)
