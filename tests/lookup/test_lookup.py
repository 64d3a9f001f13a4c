"""The answer: the right entry with its check, honest confidence, and nothing when nothing fits."""

import json
import subprocess
import sys
from dataclasses import replace
from datetime import date, timedelta

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.logs import reading
from remote_gpu_trainer.lookup.answer import answer_for
from remote_gpu_trainer.lookup.budget import cut, fitting, opening, plain, tokens
from remote_gpu_trainer.lookup.state import Answer
from remote_gpu_trainer.lookup.steps import look_up
from remote_gpu_trainer.lookup.writer import (
    AFTER_FAILURE,
    ALSO,
    RANK_LOGS,
    missing_information,
    whole_entry,
)
from remote_gpu_trainer.platforms.questions import is_question
from remote_gpu_trainer.retrieval import ranking
from remote_gpu_trainer.text import BadRequest

from tests.conftest import ROOT

LOGS = ROOT / "examples" / "logs"
TODAY = date(2026, 11, 20)
REDUCTION = (
    "[rank0]: RuntimeError: Expected to have finished reduction in the prior iteration: "
    "module parameters got no gradient and were not used in producing loss; use "
    "find_unused_parameters=True in DistributedDataParallel."
)


def ask(text: str, **more) -> Answer:
    options = {"limit": 3, "today": TODAY, **more}
    return look_up(reading.from_text(text), bundle.load().by_id, ranking.load(), **options)


def first(answer: Answer) -> str:
    return answer.matches[0]["id"] if answer.matches else ""


@pytest.mark.parametrize(
    "name, wanted",
    [
        ("detached-loss.log", "O3"),
        ("ddp-unused-parameters.log", "D8"),
        ("bad-label-3-ranks", "O14"),
    ],
)
def test_the_shipped_logs_get_their_entry(name, wanted):
    assert first(answer_for(log=str(LOGS / name))) == wanted


def test_a_folder_says_which_rank_failed_first_and_shows_the_line():
    answer = answer_for(log=str(LOGS / "bad-label-3-ranks"))
    assert answer.first_failure == {"rank": 1, "source": "1/stderr.log", "line": 8}
    assert answer.evidence[0] == {
        "source": "1/stderr.log",
        "line": 8,
        "rank": 1,
        "text": "IndexError: Target 10 is out of bounds.",
    }


def test_the_first_match_is_whole_and_the_others_are_brief():
    answer = ask("element 0 of tensors does not require grad")
    brief = {"id", "title", "why", "confidence", "severity", "check", "stale"}
    more = {"root_cause", "fix", "distinguish", "domain", "retry"}
    assert set(answer.matches[0]) == brief | more
    assert set(answer.matches[1]) == brief


def test_a_whole_entry_is_json_with_all_that_the_page_says():
    for entry in bundle.load().entries:
        told = json.loads(json.dumps(whole_entry(entry)))
        assert told["verified"] == str(entry.verified) and not told.keys() & {"markdown", "line"}
        assert told["tell_apart"] == dict(entry.tell_apart)
        for text, signature in zip(told["signatures"], entry.signatures, strict=True):
            assert text.startswith("/") and signature.text in text or not signature.is_regex
            assert text.endswith(f" ({signature.role})") or signature.role == "root"
            assert signature.text in text


def test_a_signature_is_named_as_the_reason_with_its_line():
    answer = ask("some words first\nRuntimeError: element 0 of tensors does not require grad")
    assert answer.matches[0]["why"] == "`element 0 of tensors does not require grad` in text line 2"


def test_without_a_literal_text_the_reason_is_words_as_the_reader_wrote_them():
    said = "The loss stays at 0.693"
    answer = ask(said)
    lists = [match["why"] for match in answer.matches]
    assert lists[0].startswith("words: ")
    for why in lists:
        assert all(word in said.split() for word in why.removeprefix("words: ").split(", ")), why


def test_every_title_is_shown_whole():
    answer = ask("my two gpu training stops making progress after the first validation")
    shown = [*answer.matches, *answer.also]
    assert len(shown) > 8
    for each in shown:
        assert each["title"] == plain(bundle.load().by_id[each["id"]].title)


def test_the_leads_of_the_first_match_are_never_cut_within_a_sentence():
    """By every entry's own texts, with the budget of an answer and with almost none."""
    for entry in bundle.load().entries:
        texts = {"root_cause": entry.root_cause, "fix": opening(entry.fix), "check": entry.check}
        texts = {name: " ".join(text.split("\n\n")[0].split()) for name, text in texts.items()}
        for most in (430, 150, 0):
            short = fitting(texts, most)
            assert most == 0 or sum(map(tokens, short.values())) <= max(
                most, sum(map(tokens, fitting(texts, 0).values()))
            )
            for name, text in short.items():
                assert text and texts[name].startswith(text) and "…" not in text[len(texts[name]) :]
                rest = texts[name][len(text) :]
                assert not rest or text[-1] in ".!?。" or rest.startswith(" - ")


def test_a_fix_that_begins_with_a_list_comes_with_the_list():
    answer = ask(
        "ImportError: libGL.so.1: cannot open shared object file: No such file or directory"
    )
    assert (
        answer.matches[0]["id"] == "ENV14"
        and "`apt-get update && apt-get install" in answer.matches[0]["fix"]
    )
    assert (
        opening("By what it is:\n\n- a\n- b\n\nElse c.") == "By what it is: - a - b"
        and opening("Do a:\n\n```\nb\n```") == "Do a:"
        and opening("Do a.\n\n- b") == "Do a."
    )


def test_of_a_regular_expression_the_text_that_it_found_is_the_reason():
    answer = ask("pip says\nThe NVIDIA driver on your system is too old (found version 12040).\n")
    assert (
        answer.matches[0]["why"]
        == "`The NVIDIA driver on your system is too old (found version 12040)` in text line 2"
    )


def test_similar_entries_come_with_what_separates_them():
    answer = ask(
        "The first batch fits and the second one doesn't: RuntimeError: CUDA out of memory. "
        "Tried to allocate 20.00 MiB"
    )
    assert len(answer.matches) == 3
    assert any(match["id"] in answer.matches[0]["distinguish"] for match in answer.matches[1:])


@pytest.mark.parametrize(
    "text",
    [
        "hello, how are you?",
        "write me a poem about robots",
        "asdkjh qwelkj zxcmn",
        "tensorflow.python.framework.errors_impl.InvalidArgumentError: logits and labels must be broadcastable",
        "how do I center a div in css",
        "Tue Nov 20 10:00:00 2026\nNVIDIA-SMI 580.82 Driver Version: 580.82 CUDA Version: 13.0",
        "今天天气怎么样",
        "{'a': 1}",
    ],
)
def test_what_is_no_training_failure_gets_no_match_and_is_asked_for_more(text):
    answer = ask(text)
    assert answer.matches == [] and answer.also == []
    more = AFTER_FAILURE if is_question(text) else "What would help: "
    assert answer.ask.startswith(f"Nothing in the catalogue fits. {more}")


def test_a_failure_of_a_neighbouring_field_gets_titles_at_most():
    answer = ask("vllm serve returns 404 for /v1/completions after I upgraded the docker image")
    assert answer.matches == []
    assert answer.ask.startswith(("Not sure that an entry fits", "Nothing in the catalogue fits"))


def test_a_doubtful_report_gets_up_to_fifteen_titles_to_choose_from_and_no_claim():
    answer = ask("my two gpu training stops making progress after the first validation")
    assert answer.matches == [] and 10 <= len(answer.also) <= ALSO == 15
    assert answer.ask.startswith(
        "Not sure that an entry fits; check whether one of these titles describes your failure."
    )


@pytest.mark.parametrize(
    "text",
    [
        "Epoch 3/10 loss 0.31 acc 0.91\nEpoch 4/10 loss 0.28 acc 0.92\nSaved best model\nTraining finished in 2:10:31",
        "ModuleNotFoundError: No module named 'flask'",
    ],
)
def test_what_lies_in_the_field_and_is_no_failure_of_it_gets_titles_at_most(text):
    assert ask(text).matches == []


def test_an_entry_whose_page_is_missing_is_never_replaced_by_the_next_one():
    whole = bundle.load().by_id
    text = "RuntimeError: element 0 of tensors does not require grad"
    known = ask(text, limit=10)
    without = {
        name: {id: entry for id, entry in whole.items() if id != name}
        for name in ("O3", known.matches[1]["id"])
    }
    silent, shorter = (
        look_up(
            reading.from_text(text),
            without[name],
            ranking.load(),
            limit=3,
            today=TODAY,
        )
        for name in without
    )
    assert silent.matches == [] and "O3" not in [each["id"] for each in silent.also]
    assert first(shorter) == "O3" and list(without)[1] not in [
        each["id"] for each in shorter.matches + shorter.also
    ]


def test_only_a_sure_answer_leaves_the_further_titles_out():
    unclaimed, unsure, sure = map(
        ask,
        (
            "two gpus hang at the end of the epoch\none gpu is fine",
            "RuntimeError: CUDA error: out of memory",
            REDUCTION,
        ),
    )
    assert unclaimed.matches == [] and len(unclaimed.also) > 10
    assert unsure.matches[0]["confidence"] == "medium" and unsure.also
    assert sure.matches[0]["confidence"] == "high" and sure.also == []


def test_a_further_match_is_low_unless_a_text_of_it_decides_too():
    alone = ask(REDUCTION)
    assert [match["confidence"] for match in alone.matches] == ["high", "low", "low"]
    texts = [
        next(s.text for s in bundle.load().get(name).signatures if not s.is_regex)
        for name in ("O3", "L14")
    ]
    both = ask("\n".join(f"RuntimeError: {text}" for text in texts))
    told = {match["id"]: match["confidence"] for match in both.matches}
    assert told.keys() >= {"O3", "L14"} and "low" not in (told["O3"], told["L14"])


def test_the_first_match_has_the_domain_and_the_retry_of_its_entry_and_the_others_dont():
    entries = dict(bundle.load().by_id)
    entries["O3"] = replace(entries["O3"], domain="code", retry="pointless")
    text = "RuntimeError: element 0 of tensors does not require grad"
    answer = look_up(reading.from_text(text), entries, ranking.load(), limit=3, today=TODAY)
    first_match, *others = answer.matches
    assert (first_match["id"], first_match["domain"], first_match["retry"]) == (
        "O3",
        "code",
        "pointless",
    )
    assert all("domain" not in match and "retry" not in match for match in others)


def test_a_long_report_without_an_answer_is_asked_for_one_sentence():
    words = "our nginx in front of the shop answers 502 since the night, php-fpm was restarted twice and the error log says upstream prematurely closed connection while reading the header"
    assert "one sentence of 4 to 16 words" in ask(words).ask
    assert "one sentence" not in ask("nginx answers 502").ask


def test_of_a_healthy_log_it_says_that_no_error_was_found():
    healthy = ROOT / "evals/sets/healthy_logs/detectron2_balloon.log"
    answer = answer_for(log=str(healthy))
    assert answer.matches == []
    assert answer.ask.startswith("No error found. If something is wrong anyway, ")
    assert "first error" not in answer.ask


@pytest.mark.parametrize("limit", [1, 2, 5, 10])
def test_the_limit_is_kept_and_nothing_is_named_twice(limit):
    answer = ask("Expected to have finished reduction in the prior iteration", limit=limit)
    ids = [m["id"] for m in answer.matches] + [a["id"] for a in answer.also]
    assert len(answer.matches) == limit
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("limit", [0, -1, 11, 1000, True, 3.0, "3", None])
def test_a_limit_outside_its_range_is_refused(limit):
    with pytest.raises(BadRequest, match="give a whole number from 1 to 10"):
        ask("hangs", limit=limit)


def test_an_entry_that_was_not_checked_for_a_year_is_marked():
    text = "element 0 of tensors does not require grad"
    assert ask(text).matches[0]["stale"] == ""
    checked = bundle.load().get("O3").verified
    later = ask(text, today=checked + timedelta(days=400)).matches[0]["stale"]
    assert later == f"last checked {checked}, 400 days ago; 365 is the limit"


def test_a_version_outside_the_range_is_marked_and_others_are_not():
    read = ask("mixed precision loss is nan", installed="torch==2.13.0+cu130\nnumpy==2.0")
    assert all("about" not in m["stale"] for m in read.matches)
    old = {
        entry.id
        for entry in bundle.load().entries
        if any(item.startswith("torch>=") for item in entry.applies_to)
    }
    text = "\n\n".join(
        s.text for s in bundle.load().get(sorted(old)[0]).signatures if not s.is_regex
    )
    marked = [m for m in ask(text, installed="torch==1.0").matches if m["id"] in old]
    assert marked and all(
        m["stale"].startswith("about torch>=") and m["stale"].endswith("installed is 1.0")
        for m in marked
    )


def test_a_report_keeps_its_secrets():
    answer = ask("RuntimeError: element 0 of tensors does not require grad token=abcdef123456789")
    assert "abcdef123456789" not in str(answer)


def test_the_words_of_a_log_are_cut_in_the_answer():
    answer = ask("RuntimeError: element 0 of tensors does not require grad " + "x" * 5000)
    assert answer.evidence and all(len(line["text"]) <= 120 for line in answer.evidence)


def test_a_text_is_cut_at_a_sentence():
    assert cut("One two. Three four five. Six seven eight nine.", 9) == "One two. Three four five."
    assert cut("One two three four five six seven", 4) == "One two three four …"
    assert cut("One two.", 9) == "One two."


def test_the_same_question_gets_the_same_answer():
    assert ask("loss stays at 0.693") == ask("loss stays at 0.693")


def test_every_entry_is_the_first_match_for_its_own_root_texts_or_shares_them(some):
    texts = [
        (entry.id, signature.text)
        for entry in bundle.load().entries
        for signature in entry.signatures
        if not signature.is_regex and signature.role == "root"
    ]
    wrong = []
    for name, text in some(texts, 4):
        found = ask("Traceback (most recent call last):\nRuntimeError: " + text)
        if name not in [match["id"] for match in found.matches]:
            wrong.append((name, text, [match["id"] for match in found.matches]))
    assert wrong == []


def test_a_look_up_of_one_file_loads_nothing_of_what_runs_jobs(tmp_path):
    (tmp_path / "a.log").write_text("step 1\nSegmentation fault (core dumped)\n")
    program = (
        "import sys\nfrom remote_gpu_trainer.lookup.answer import answer_for\n"
        f"answer_for(log={str(tmp_path / 'a.log')!r})\n"
        "print(*[name for name in sys.modules if name.startswith(('remote_gpu_trainer.runner.', 'remote_gpu_trainer.platforms.'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["remote_gpu_trainer.runner.failures"]


@pytest.mark.parametrize(
    ("text", "is_asked"),
    [
        (
            "E0312 failed (exitcode: -9) local_rank: 0 (pid: 4242) of binary: /usr/bin/python3",
            False,
        ),
        ("it hangs on two gpus after an hour", True),
        ("ranks 0 and 3 stop answering", True),
    ],
)
def test_logs_of_ranks_are_asked_for_only_where_there_are_several(text, is_asked):
    evidence = reading.from_text(text)
    assert (RANK_LOGS in missing_information(evidence, "")) == is_asked
