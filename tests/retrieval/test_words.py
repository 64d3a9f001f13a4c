"""Words, concepts and numbers of a report, as ranking counts them."""

import pytest
from remote_gpu_trainer.retrieval.concepts import _TOLD, concepts, stem
from remote_gpu_trainer.retrieval.words import words


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
