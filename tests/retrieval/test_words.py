"""Words, concepts and numbers of a report, as ranking counts them."""

import pytest
from remote_gpu_trainer.retrieval.concepts import _TOLD, concepts, stem
from remote_gpu_trainer.retrieval.words import as_written, words


@pytest.mark.parametrize(
    "text, concept",
    [
        ("the loss is not really decreasing", "@flat"),
        ("loss 一直不下降", "@flat"),
        ("my run stops making progress", "@hang"),
        ("训练卡住了", "@hang"),
        ("it runs on two GPUs", "@multi"),
        ("it was killed", "@killed"),
        ("memory keeps growing", "@grow"),
        ("the same batch again", "@same"),
        ("after resuming from a checkpoint", "@resume"),
    ],
)
def test_one_thing_said_in_many_ways_is_one_concept(text, concept):
    assert concept in words(text)


@pytest.mark.parametrize("text", ["the loss decreases", "two models", "memory is fine"])
def test_half_of_a_concept_is_none(text):
    assert not {"@flat", "@multi", "@grow"} & set(words(text))


@pytest.mark.parametrize(
    "text, name",
    [
        ("loss 0.6931", "#ln2"),
        ("2.3026", "#ln10"),
        ("exit code 137", "#sigkill"),
        ("loss 5.17", "#num"),
    ],
)
def test_telling_numbers_have_a_name(text, name):
    assert name in words(text)


def test_an_identifier_counts_whole_and_in_parts():
    assert {"find_unused_parameters", "find", "unus", "parameter"} <= set(
        words("find_unused_parameters=True")
    )
    assert {"distributeddataparallel", "distribut", "data", "parallel"} <= set(
        words("DistributedDataParallel")
    )


@pytest.mark.parametrize(
    "text, word, written",
    [
        ("My Loss is NaN", "los", "Loss"),
        ("My Loss is NaN", "@nan", "NaN"),
        ("two GPUs", "gpu", "GPUs"),
        ("loss stays at 0.693", "#ln2", "0.693"),
        ("exit code 137", "#sigkill", "137"),
        ("find_unused_parameters=True", "unus", "unused"),
        ("a BatchNorm2d layer", "norm", "Norm"),
        ("a BatchNorm2d layer", "batchnorm2d", "BatchNorm2d"),
        ("the loss doesn't fall", "@flat", "doesn't … fall"),
        ("训练卡住了", "@hang", "卡住"),
        ("训练卡住了", "训练", "训练"),
    ],
)
def test_a_counted_word_is_told_as_the_text_writes_it(text, word, written):
    assert word in words(text) and as_written(text)[word] == written


def test_every_counted_word_has_a_wording_but_for_nameless_numbers():
    text = "RuntimeError: 4100 of 2 ranks hang 卡在 init_process_group, loss 0.6931 不下降"
    assert set(words(text)) - set(as_written(text)) == {"#num"}


def test_no_concept_waits_for_a_word_that_is_never_counted():
    for name, (alone, pairs, _) in _TOLD.items():
        for word in f"{alone} {pairs}".replace(">", " ").replace(",", " ").split():
            counted = words(word)
            assert counted and (word[0] == "#" or stem(word) in counted or word in counted), (
                name,
                word,
            )


def test_a_concept_is_named_once():
    assert concepts(["nan", "nan", "inf"], "", False) == ["@nan"]
