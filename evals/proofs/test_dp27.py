"""DP27: a name that `dataset_info.json` doesn't list, or columns that the rows don't have. LLaMA-Factory isn't run; its files are."""

import json
import subprocess

import pytest
from check_code import block, shown, span

ALPACA = {"instruction": "Add", "input": "1 2", "output": "3"}
CHAT = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}
MESSAGES = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "-"}]}
SHORT = {"columns": {"prompt": "instruction", "response": "output"}}
PAIRS = {"columns": {"prompt": "instruction", "chosen": "chosen", "rejected": "rejected"}}
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
    [
        ({}, ALPACA),
        (SHORT, {"instruction": "Add", "output": "3"}),
        ({"formatting": "sharegpt"}, CHAT),
        (NAMED, MESSAGES),
        ({**PAIRS, "ranking": True}, {"instruction": "Add", "chosen": "3", "rejected": "4"}),
    ],
    ids=["alpaca", "named columns", "sharegpt", "messages", "pairs"],
)
def test_a_listed_set_whose_rows_have_its_columns_passes_the_check(told, entry, row, lines):
    listed, missing, answer = told({"mine": {"file_name": "mine.json", **entry}}, row, lines)
    assert (listed, missing) == ("listed: True", "missing: []")
    assert answer.startswith("answer: ") and "None" not in answer


def test_a_name_that_is_not_listed_or_a_path_in_its_place_is_false(told):
    info = {"data/mine.json": {"file_name": "mine.json"}, "other": {"file_name": "mine.json"}}
    assert told(info, ALPACA) == ["listed: False"]


@pytest.mark.parametrize(
    "entry, row, missing",
    [
        ({}, {"prompt": "Add", "completion": "3"}, ["input", "instruction", "output"]),
        ({}, {"instruction": "Add", "output": "3"}, ["input"]),
        ({}, CHAT, ["input", "instruction", "output"]),  # "formatting" was left out
        ({"formatting": "sharegpt"}, MESSAGES, ["conversations"]),
        ({"columns": {"prompt": "question", "response": "output"}}, ALPACA, ["question"]),
    ],
)
def test_columns_that_a_row_lacks_are_named(told, entry, row, missing):
    """LLaMA-Factory 0.9.5 stops at each of these rows with a KeyError."""
    listed, lacks, _ = told({"mine": {"file_name": "mine.json", **entry}}, row)
    assert (listed, lacks) == ("listed: True", f"missing: {missing}")


@pytest.mark.parametrize(
    "entry, row",
    [
        ({"columns": {"prompt": "instruction"}}, ALPACA),
        ({}, {**ALPACA, "output": None}),
    ],
    ids=["not named", "null"],
)
def test_rows_without_an_answer_which_are_all_dropped_show_none(told, entry, row):
    info = {"mine": {"file_name": "mine.json", **entry}}
    assert told(info, row) == ["listed: True", "missing: []", "answer: None"]


def test_the_count_in_the_check_finds_rows_that_were_dropped(tmp_path):
    """The lines are LLaMA-Factory's, of `data/processor/supervised.py` and `data/converter.py`."""
    head = "[WARNING|2025-11-25 10:00:00] llamafactory.data"
    dropped = (
        f"{head}.processor.supervised:148 >> Dropped invalid example: []\n"
        f"{head}.converter:149 >> Skipping this abnormal example.\n"
    )
    for times in (0, 2):
        (tmp_path / "LOG").write_text("training example:\n" + times * dropped)
        code = span("DP27", "grep")
        out = subprocess.run(["bash", "-c", code], cwd=tmp_path, capture_output=True, text=True)
        assert out.stdout == f"{2 * times}\n"


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
