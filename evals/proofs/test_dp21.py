"""DP21: a batched function whose columns don't agree is refused; without the old columns, or with one row for each row, it isn't."""

import pytest
from check_code import shown, span

datasets = pytest.importorskip("datasets")
tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")


@pytest.fixture(autouse=True)
def quiet(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    datasets.disable_progress_bars()


@pytest.fixture
def table():
    return datasets.Dataset.from_dict({"text": ["a b c d e f g"] * 10, "label": list(range(10))})


@pytest.fixture
def tokenizer():
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({w: i for i, w in enumerate(["?", *"abcdefg"])}, unk_token="?")
    )
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="?")


def refused(says, run):
    with pytest.raises(Exception) as error:
        run()
    says("DP21", f"{type(error.value).__name__}: {error.value}")
    return str(error.value)


def cut(tokenizer, batch):
    return tokenizer(batch["text"], truncation=True, max_length=3, return_overflowing_tokens=True)


def test_pieces_of_long_texts_beside_the_old_columns(table, tokenizer, says):
    text = refused(says, lambda: table.map(lambda b: cut(tokenizer, b), batched=True))
    assert "expected length 10 but got length 30" in text
    assert (
        len(table.map(lambda b: cut(tokenizer, b), batched=True, remove_columns=table.column_names))
        == 30
    )


def test_one_old_column_that_stays_is_enough(table, tokenizer, says):
    refused(
        says, lambda: table.map(lambda b: cut(tokenizer, b), batched=True, remove_columns=["text"])
    )


def test_labels_are_repeated_for_each_piece(table, tokenizer):
    def pieces(batch):
        out = cut(tokenizer, batch)
        out["label"] = [batch["label"][i] for i in out.pop("overflow_to_sample_mapping")]
        return out

    assert table.map(pieces, batched=True, remove_columns=table.column_names)["label"][:6] == [
        0,
        0,
        0,
        1,
        1,
        1,
    ]


def test_a_function_for_one_row_gets_a_batch(table, says):
    encode = lambda row: {"input_ids": [ord(c) for c in str(row["text"])[:64].ljust(64)]}
    text = refused(says, lambda: table.map(encode, batched=True))
    assert "got length 64" in text  # its own width, not a number of rows
    assert len(table.map(encode)[0]["input_ids"]) == 64


def test_rows_that_are_left_out(table, says):
    some = lambda b: {"labels": [2 * x for x in b["label"] if x != 3]}
    assert "expected length 10 but got length 9" in refused(
        says, lambda: table.map(some, batched=True)
    )
    assert len(table.filter(lambda r: r["label"] != 3).map(some, batched=True)) == 9
    some = lambda b: {"labels": [2 * x if x != 3 else None for x in b["label"]]}
    assert table.map(some, batched=True)["labels"][2:5] == [4, None, 8]


@pytest.mark.parametrize("batched", [False, True])
def test_a_list_is_no_table(table, says, batched):
    refused(says, lambda: table.map(lambda b: [{"x": 1}], batched=batched))


def test_one_text_for_a_whole_batch(table, says):
    refused(says, lambda: table.map(lambda b: {"prompt": f"Q: {b['text']}"}, batched=True))
    assert (
        table.map(lambda b: {"prompt": [f"Q: {t}" for t in b["text"]]}, batched=True)[0]["prompt"]
        == "Q: a b c d e f g"
    )


def test_a_cell_that_is_a_list_beside_one_that_is_text():
    with pytest.raises(Exception, match="cannot mix list and non-list, non-null values"):
        datasets.Dataset.from_dict({"content": [["a"], "b"]})
    assert len(datasets.Dataset.from_dict({"content": [["a"], ["b"]]})) == 2


def test_mixed_types_are_stored_if_they_come_early(table):
    mixed = table.map(lambda r: {"content": ["a"] if r["label"] % 2 else "b"})
    assert type(mixed.features["content"]).__name__ == "Json"
    rows = datasets.Dataset.from_dict({"i": list(range(2500))})
    with pytest.raises(Exception, match="cannot mix list and non-list"):
        rows.map(lambda r: {"content": ["a"] if r["i"] < 1200 else "b"})
    assert len(rows.map(lambda r: {"content": ["a"] if r["i"] < 1200 else ["b"]})) == 2500


def test_a_stream_stops_as_well(table, says):
    grow = lambda b: {"input_ids": [[1], [2]] * len(b["text"])}
    refused(says, lambda: list(table.to_iterable_dataset().map(grow, batched=True)))
    assert (
        len(
            list(
                table.to_iterable_dataset().map(
                    grow, batched=True, remove_columns=table.column_names
                )
            )
        )
        == 20
    )


def test_what_goes_wrong_without_an_error(table):
    assert len(table.map(lambda b: {"text": [], "y": [1] * len(b["label"])}, batched=True)) == 0
    assert table.map(lambda r: {"input_ids": [[1], [2]]})[0]["input_ids"] == [
        [1],
        [2],
    ]  # one cell, not two rows


def test_the_check_shows_it_before_the_map(table, tokenizer):
    def check(fn):
        return shown(span("DP21", "fn(ds[:8])"), fn=fn, ds=table)

    pieces = check(lambda batch: cut(tokenizer, batch))
    assert "'input_ids': 24" in pieces and pieces.endswith(
        ("{'text', 'label'}", "{'label', 'text'}")
    )
    assert check(lambda batch: {"text": batch["text"], "label": batch["label"]}).endswith(
        "{'text': 8, 'label': 8} set()"
    )


def test_the_older_text(says):
    says(
        "DP21",
        "pyarrow.lib.ArrowInvalid: Column 1 named input_ids expected length 1000 but got length 512",
    )


@pytest.mark.parametrize(
    "text",
    [  # databases and data frames print these too
        "ArrowInvalid: Column 2 named timestamp expected length 749418 but got length 749419",
        "pyarrow.lib.ArrowInvalid: cannot mix list and non-list, non-null values",
    ],
)
def test_texts_that_other_programs_print(text, says):
    with pytest.raises(AssertionError):
        says("DP21", text)
