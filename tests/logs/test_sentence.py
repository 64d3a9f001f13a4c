"""A sentence before a report: when it is taken for one, and that it is weighed with the report."""

import pytest
from remote_gpu_trainer.lookup.answer import answer_for, sentence_of

REPORT = "RuntimeError: something odd\n" * 3


@pytest.mark.parametrize(
    "text, said",
    [
        (
            "two gpus hang at the end of the epoch\n\n" + REPORT,
            "two gpus hang at the end of the epoch",
        ),
        (
            "two gpus hang at the end of the epoch\r\n\r\n" + REPORT,
            "two gpus hang at the end of the epoch",
        ),
        (
            "  two gpus hang at the end of the epoch \n \n" + REPORT,
            "two gpus hang at the end of the epoch",
        ),
        ("多卡训练在每个 epoch 结束时卡住不动\n\n" + REPORT, "多卡训练在每个 epoch 结束时卡住不动"),
        ("two gpus hang at the end of the epoch\n" + REPORT, ""),
        ("hangs again\n\n" + REPORT, ""),
        ("word " * 40 + "\n\n" + REPORT, ""),
        ("x" * 5000 + " a b c d\n\n" + REPORT, ""),
        ("two gpus hang at the end of the epoch", ""),
        ("two gpus hang at the end of the epoch\n\n  \n", ""),
        ("", ""),
    ],
)
def test_a_sentence_is_one_line_of_some_words_and_a_blank_line(text, said):
    assert sentence_of(text) == said


def test_beside_a_log_the_sentence_stands_alone():
    assert (
        sentence_of("two gpus hang at the end of the epoch", with_log=True)
        == "two gpus hang at the end of the epoch"
    )
    assert sentence_of("hangs", with_log=True) == ""


def test_it_is_weighed_with_the_report_and_not_asked_for_again(tmp_path):
    report = (
        "Hello,\n"
        + "I use the newest version of everything on the machine of our group, as described in the manual.\n"
        * 5
    )
    alone = answer_for(text=report)
    assert alone.matches == [] and "one sentence of 4 to 16 words" in alone.ask
    told = answer_for(text="loss stays at 0.693 from the first step whatever I tune\n\n" + report)
    assert told.matches[0]["id"] == "O1"
    (tmp_path / "train.log").write_text(report)
    beside = answer_for(
        text="loss stays at 0.693 from the first step whatever I tune",
        log=str(tmp_path / "train.log"),
    )
    assert beside.matches[0]["id"] == "O1"
    assert (
        "one sentence"
        not in answer_for(text="what about the weather in this town today\n\n" + report).ask
    )


@pytest.mark.parametrize("words", ["it hangs", "why does this happen? " * 8])
def test_words_beside_a_log_are_not_asked_for_again_whatever_their_length(words, tmp_path):
    (tmp_path / "train.log").write_text(
        "nginx answers 502 in front of the shop since the night\n" * 5
    )
    answer = answer_for(text=words, log=str(tmp_path / "train.log"))
    assert answer.matches == [] and "one sentence" not in answer.ask
    assert "one sentence" in answer_for(log=str(tmp_path / "train.log")).ask


def test_a_sentence_about_something_else_keeps_a_report_from_being_claimed():
    report = "CUDA out of memory"
    assert answer_for(text=report).matches
    assert not answer_for(
        text="TensorFlow Serving returns 404 for the model endpoint in Kubernetes\n\n" + report
    ).matches
