"""A provider's entry without any sign of the provider is never sure; one that the report names leads."""

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.lookup.answer import answer_for
from remote_gpu_trainer.platforms import profile
from remote_gpu_trainer.retrieval import ranking


def first_of(answer) -> str:
    """The id that stands first, claimed or as a title."""
    return [*answer.matches, *answer.also][0]["id"]


@pytest.mark.parametrize(
    "text",
    [
        "tmux: command not found",
        "WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!",
        "ImportError: libGL.so.1: cannot open shared object file",
    ],
)
def test_an_everyday_error_of_any_box_gets_the_entry_for_any_box(text):
    answer = answer_for(text=text)
    assert bundle.load().get(answer.matches[0]["id"]).path.startswith("references/")


@pytest.mark.parametrize(
    "text",
    [
        "the volume can't be attached to a machine in another region",
        "ssh works but scp fails: subsystem request failed on channel 0",
        "instance is stuck in loading, image is being pulled for an hour",
    ],
)
def test_an_everyday_error_that_only_platforms_have_is_not_sure_to_be_one_providers(text):
    answer = answer_for(text=text)
    assert all(match["confidence"] != "high" for match in answer.matches) and answer.also


def test_one_that_an_entry_for_any_box_explains_gets_it():
    answer = answer_for(text="ssh: connect to host 192.0.2.4 port 22: Connection refused")
    assert first_of(answer) == "SSH8"


def test_with_the_providers_name_in_the_report_its_entry_leads():
    answer = answer_for(text="ssh: connect to host ssh.runpod.io port 22: Connection refused")
    assert first_of(answer) == "RP6"


def test_every_token_of_a_platforms_page_is_a_sign():
    for name, page in profile.load().items():
        assert {token.lower() for token in page.tokens} <= set(ranking.words_of_platform(name)), (
            name
        )


def test_only_providers_entries_have_a_provider_to_name():
    providers = {
        entry.family
        for entry in bundle.load().entries
        if any(ranking.is_provider_named(entry, name) for name in profile.load())
    }
    assert {"RP", "VAST", "LAM", "AD", "SLURM", "K8S"} <= providers and providers.isdisjoint(
        {"GEN", "LOC", "CN", "O", "D", "U", "HW", "ENV"}
    )


def test_a_provider_is_named_for_its_entries_alone():
    entry = bundle.load().get
    assert ranking.is_provider_named(
        entry("NB3"), "kaggle notebook stopped"
    ) and not ranking.is_provider_named(entry("NB3"), "the run stopped")
    for word in ("sbatch", "srun", "salloc"):
        assert ranking.is_provider_named(entry("SLURM2"), f"{word} ends at once"), word
    assert not ranking.is_provider_named(entry("GEN1"), "kaggle") and not ranking.is_provider_named(
        entry("O1"), "kaggle"
    )


@pytest.mark.parametrize(
    ("text", "elsewhere", "there", "place"),
    [
        (
            "AssertionError: Torch not compiled with CUDA enabled",
            "ENV13",
            "LAM13",
            "GH200 instance at Lambda. ",
        ),
        (
            "RuntimeError: The NVIDIA driver on your system is too old (found version 11040)",
            "ENV6",
            "PS11",
            "Paperspace machine from the ML template. ",
        ),
    ],
)
def test_a_literal_text_that_two_entries_know_gets_the_one_for_any_box_unless_the_platform_shows(
    text, elsewhere, there, place
):
    assert answer_for(text=text).matches[0]["id"] == elsewhere
    assert there in [match["id"] for match in answer_for(text=place + text).matches]
    assert answer_for(text=place + text).matches[0]["id"] == there
