"""Few words lead to the entry that splits the cause, more words to the special one that they name."""

import pytest
from remote_gpu_trainer.lookup.answer import answer_for


def ids(text: str) -> list[str]:
    answer = answer_for(text=text)
    return [each["id"] for each in answer.matches + answer.also]


@pytest.mark.parametrize(
    ("text", "general"),
    [("training hangs", "D19"), ("\u663e\u5b58\u4e0d\u8db3", "U10"), ("No space left on device", "U6")],
)  # fmt: skip
def test_few_words_lead_to_the_entry_whose_page_tells_the_others_apart(text, general):
    answer = answer_for(text=text)
    assert answer.matches[0]["id"] == general and answer.matches[0]["confidence"] == "low"


@pytest.mark.parametrize(
    ("text", "general", "special"),
    [
        ("The first batch fits and the second one doesn't: RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB", "U10", "M17"),
        ("CUDA out of memory in the second step, the first batch fits, with AdamW", "U10", "M17"),
        ("training is slow: every 4th iteration takes ten seconds, with num_workers=4, GPU utilization drops to 0 in between", "U24", "T7"),
        ("every num_workers-th iteration is slow and the GPU waits", "U24", "T7"),
        ("my Colab session was disconnected over night and the log just ends, the job vanished", "U3", "NB5"),
        ("Kaggle notebook stopped after 12 hours, the log just ends without an error", "U3", "NB5"),
    ],
)  # fmt: skip
def test_the_special_entry_goes_before_the_general_one_or_is_named_beside_it(
    text, general, special
):
    found, answer = ids(text), answer_for(text=text)
    if found[0] == general:
        assert answer.matches[0]["why"].endswith(f"narrower: {special}") and found[1] == special
    else:
        assert found.index(special) < 3


def test_nothing_narrower_is_named_where_the_words_tell_nothing_more():
    answer = answer_for(text="CUDA out of memory, what now")
    assert all("narrower" not in match["why"] for match in answer.matches)
