"""A platform's entry without any sign of the platform is never sure, and the answer asks for the platform."""

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.lookup import look_up
from remote_gpu_trainer.lookup.look_up import answer_for
from remote_gpu_trainer.numbers import log_reading
from remote_gpu_trainer.platforms import profile
from remote_gpu_trainer.retrieval import ranking, search, unnamed


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
    assert (
        bundle.load().get(answer.matches[0]["id"]).path.startswith("references/")
        and "name the platform" not in answer.ask
    )


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
    first = answer.matches[0]
    assert first["confidence"] != "high" and answer.also
    assert (
        f"{first['id']} is about " in answer.ask
        and "which nothing here shows: name the platform." in answer.ask
    )


def test_one_that_an_entry_for_any_box_explains_needs_no_platform():
    answer = answer_for(text="ssh: connect to host 192.0.2.4 port 22: Connection refused")
    assert answer.matches[0]["id"] == "SSH8" and "name the platform" not in answer.ask


def test_the_providers_name_in_the_report_is_sign_enough():
    answer = answer_for(text="ssh: connect to host ssh.runpod.io port 22: Connection refused")
    assert answer.matches[0]["id"] == "RP6" and "name the platform" not in answer.ask


def test_every_token_of_a_platforms_page_is_a_sign():
    for name, page in profile.load().items():
        assert {token.lower() for token in page.tokens} <= set(unnamed.signs(name)), name


def test_entries_of_any_box_and_of_a_country_need_no_sign():
    read = bundle.load()
    told = {entry.family for entry in read.entries if unnamed.platform_not_shown(entry, "it fails")}
    assert {"RP", "VAST", "LAM", "AD", "SLURM", "K8S"} <= told and told.isdisjoint(
        {"GEN", "LOC", "CN", "O", "D", "U", "HW", "ENV"}
    )
    assert unnamed.platform_not_shown(
        read.get("NB5"), "Colab disconnected"
    ) == "" and "colab" in unnamed.platform_not_shown(read.get("NB5"), "disconnected")


def test_a_report_that_names_the_platform_of_the_first_entry_needs_less_to_be_answered():
    asked = log_reading.from_text("kaggle notebook ended early")
    unnamed, named = (
        search.rank(asked, ranking.load(), look_up.signatures(), shows=lambda name, so=so: so)
        for so in (False, True)
    )
    assert ranking.load().limits["none"] < unnamed.none <= search.SHOWN and not unnamed.confidence
    assert named.candidates == unnamed.candidates and named.confidence
    assert answer_for(text="kaggle notebook ended early").matches[0]["id"].startswith("NB")


def test_that_a_platform_is_shown_is_said_of_providers_entries_alone():
    entry = bundle.load().get
    assert unnamed.platform_shown(
        entry("NB3"), "kaggle notebook stopped"
    ) and not unnamed.platform_shown(entry("NB3"), "the run stopped")
    assert not unnamed.platform_shown(entry("GEN1"), "kaggle") and not unnamed.platform_shown(
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
