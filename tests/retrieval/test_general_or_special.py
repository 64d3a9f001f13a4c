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
        ("CUDA out of memory in the second step, the first batch fits, with AdamW", "U10", "M17"),
        ("training is slow: every 4th iteration takes ten seconds, with num_workers=4, GPU utilization drops to 0 in between", "U24", "T7"),
        ("every num_workers-th iteration is slow and the GPU waits", "U24", "T7"),
        ("my Colab session was disconnected over night and the log just ends, the job vanished", "U3", "NB5"),
        ("Kaggle notebook stopped after 12 hours, the log just ends without an error", "U3", "NB5"),
    ],
)  # fmt: skip
def test_a_special_entry_that_the_words_are_about_goes_before_the_general_one(
    text, general, special
):
    found = ids(text)
    assert found.index(special) < found.index(general)
