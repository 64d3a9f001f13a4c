"""Evidence to ranked entries: a literal text leads, advice never decides, and claims are earned."""

import shutil
from dataclasses import replace
from datetime import date

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.entry import Signature
from remote_gpu_trainer.catalogue.signatures import SignatureIndex
from remote_gpu_trainer.logs import reading
from remote_gpu_trainer.logs.files import ReadOptions, shapes_of
from remote_gpu_trainer.logs.informative import gist
from remote_gpu_trainer.lookup.answer import answer_for
from remote_gpu_trainer.lookup.steps import look_up
from remote_gpu_trainer.lookup.writer import WORDS_ALONE
from remote_gpu_trainer.retrieval import encoder, ranking
from remote_gpu_trainer.retrieval.ranking import Ranking

ADVICE = """\
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."""
LAUNCHER = """\
E1123 10:11:12.123000 4242 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 4250) of binary: /usr/bin/python
Traceback (most recent call last):
  File "/usr/local/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-23_10:11:12
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 4250)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"""
KEY_ERROR = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/root/train.py", line 22, in main
[rank0]:     lr = config["learning_rate"]
[rank0]: KeyError: 'learning_rate'
"""
ASSERTION = "Assertion `srcIndex < srcSelectDimSize` failed."


def ranked(text: str, **more) -> Ranking:
    return ranking.load().rank(reading.from_text(text), **more)


def first_two(text: str) -> list[str]:
    return [candidate.id for candidate in ranked(text).candidates[:2]]


@pytest.mark.parametrize(
    "text",
    [
        f"{ASSERTION}\n{ADVICE}",
        "/opt/aten/src/ATen/native/cuda/Indexing.cu:1308: indexSelectLargeIndex: block: [13,0,0], thread: [31,0,0] "
        f"{ASSERTION}\nTraceback (most recent call last):\n  File \"train.py\", line 12, in <module>\n    loss.backward()\n"
        f"RuntimeError: CUDA error: device-side assert triggered\n{ADVICE}",
        f"RuntimeError: CUDA error: device-side assert triggered\n{ASSERTION}\none line\nanother line\na third one",
        "vectorized gather kernel index out of bounds",
    ],
)  # fmt: skip
def test_an_index_beyond_the_embedding_is_found_whatever_pytorch_says_behind_it(text):
    assert "L14" in first_two(text)


@pytest.mark.parametrize(
    "behind", ["", "MIOpen Error: something went wrong", "RuntimeError: miopenStatusUnknownError"]
)
def test_a_literal_text_leads_though_another_line_follows_it(behind):
    assert "ROC2" in first_two(f"open memvfs: unable to open database file\n{behind}")


@pytest.mark.parametrize("behind", ["", LAUNCHER])
def test_a_users_own_key_error_is_no_entrys_failure(behind):
    answer = answer_for(text=KEY_ERROR + behind)
    assert answer.matches == [] and "D18" not in [each["id"] for each in answer.also[:3]]


@pytest.mark.parametrize("said", [LAUNCHER, LAUNCHER[LAUNCHER.index("Root Cause") :]])
@pytest.mark.parametrize("code", ["1", "2", "-6", "-9"])
def test_a_launchers_summary_leads_to_its_entry_only_where_nothing_else_failed(said, code):
    summary = said.replace("exitcode  : 1", f"exitcode  : {code}")
    summary = summary.replace("exitcode: 1", f"exitcode: {code}")
    assert answer_for(text=summary).matches[0]["id"] == "D44"
    for cause in (KEY_ERROR, "RuntimeError: element 0 of tensors does not require grad\n"):
        found = [each["id"] for each in answer_for(text=cause + summary).matches]
        assert "D44" not in found[:1]


@pytest.mark.parametrize("name", ["O3", "D1", "U6", "L14"])
@pytest.mark.parametrize("around", ["{}", "loss is nan\nmy GPUs are slow\n{}\nKilled by the user"])
def test_a_literal_text_of_a_failure_is_first_or_second(name, around):
    [text, *_] = [
        s.text for s in bundle.load().get(name).signatures if not s.is_regex and s.role == "root"
    ]
    report = around.format(f"Traceback (most recent call last):\nRuntimeError: {text}")
    assert name in first_two(report) and ranked(report).confidence in ("medium", "high")


def test_of_several_literal_texts_the_first_on_the_rank_that_failed_first_leads():
    texts = {
        name: next(s.text for s in bundle.load().get(name).signatures if not s.is_regex)
        for name in ("O3", "L14")
    }

    def rank(number: int, name: str) -> str:
        return (
            f"[rank{number}]: Traceback (most recent call last):\n"
            f"[rank{number}]: RuntimeError: {texts[name]}\n"
        )

    for names in (("O3", "L14"), ("L14", "O3")):
        assert names[0] in first_two(rank(1, names[0]) + rank(0, names[1]))


@pytest.mark.parametrize("role", ["advice", "cascade"])
def test_advice_and_cascades_never_decide(role):
    whole = ranking.load()
    marked = Signature("CUDA kernel errors might be asynchronously reported", False, role)
    hostile = replace(whole, signatures=SignatureIndex([("O3", [marked])]))
    evidence = reading.from_text(f"KeyError: 'learning_rate'\n{ADVICE}")
    found = hostile.rank(evidence)
    assert "O3" not in [candidate.id for candidate in found.candidates[:2]]
    as_root = replace(whole, signatures=SignatureIndex([("O3", [replace(marked, role="root")])]))
    assert "O3" in [candidate.id for candidate in as_root.rank(evidence).candidates[:2]]


def test_a_literal_text_of_an_entry_that_the_index_lacks_is_found_and_no_traceback():
    whole = ranking.load()
    new = SignatureIndex([("ZZ9", [Signature("the flux capacitor rattles", False)])])
    report = "Traceback (most recent call last):\nRuntimeError: the flux capacitor rattles"
    found = replace(whole, signatures=new).rank(reading.from_text(report))
    assert found.candidates[0].id == "ZZ9" and found.confidence == "medium"


@pytest.mark.parametrize("text", ["hello", "error", "how do I center a div in css", "{'a': 1}"])
def test_what_says_nothing_about_training_gets_neither_claim_nor_titles(text):
    found = ranked(text)
    assert not found.confidence and not found.worth_a_look


def test_what_one_says_about_a_report_is_read_first():
    evidence = reading.from_text("step 1\n" * 3)
    said = "one rank hangs in the last batch of the epoch"
    assert gist(evidence, said).startswith(said)
    assert len(gist(evidence, "x" * 5000)) <= 5000 + 2


@pytest.fixture
def without_encoder(tmp_path, monkeypatch, request):
    place = tmp_path / "encoder.npz"
    if request.param != "missing":
        shutil.copy(encoder.PLACE, place)
        with open(place, "r+b") as file:
            file.truncate(1_000_000)
    monkeypatch.setattr(encoder, "PLACE", place)
    encoder.load.cache_clear(), ranking.load.cache_clear()
    yield
    monkeypatch.undo()
    encoder.load.cache_clear(), ranking.load.cache_clear()


@pytest.mark.parametrize("without_encoder", ["missing", "damaged"], indirect=True)
def test_without_its_encoder_it_answers_by_literal_texts_and_words_and_says_so(without_encoder):
    assert ranking.load().encoder is None
    literal = answer_for(text="RuntimeError: element 0 of tensors does not require grad")
    assert literal.matches[0]["id"] == "O3" and literal.ask.startswith(WORDS_ALONE)
    worded = answer_for(text="find_unused_parameters and the reducer of DistributedDataParallel")
    ids = [each["id"] for each in worded.matches + worded.also]
    assert "D8" in ids[:5] and worded.ask.startswith(WORDS_ALONE)
    assert all(match["confidence"] != "high" for match in worded.matches)


def test_with_its_encoder_it_says_nothing_of_it():
    evidence = reading.from_text("RuntimeError: element 0 of tensors does not require grad")
    entries, today = bundle.load().by_id, date(2026, 11, 20)
    assert WORDS_ALONE not in look_up(evidence, entries, ranking.load(), limit=3, today=today).ask


def test_what_a_survivor_says_is_claimed_where_nothing_else_is_known_and_only_then():
    lost = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:18314"
    log = f"rank 1: step 3 loss 2.7\n[rank1]: Traceback (most recent call last):\n[rank1]: {lost}\n"
    alone = ranked(log)
    assert alone.candidates[0].id == "D20" and alone.confidence
    own = ranked(log + "[rank0]: RuntimeError: element 0 of tensors does not require grad")
    assert own.candidates[0].id == "O3"


def test_a_match_that_rests_on_another_line_than_the_first_failure_says_so():
    put_in = "RuntimeError: Expected to have finished reduction in the prior iteration\n"
    steps = "".join(f"step {step} loss 2.0\n" for step in range(20))
    real = (
        '[rank0]: Traceback (most recent call last):\n[rank0]:   File "train.py", line 10, in <module>\n'
        "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of "
        "79.10 GiB of which 1.00 GiB is free.\n"
    )
    both = answer_for(text=put_in + steps + real)
    assert both.matches[0]["id"] == "D8" and both.first_failure["rank"] == 0
    assert both.ask.startswith("The match rests on line 1, the first failure is line 24 of rank 0")
    assert "rests on" not in answer_for(text=steps + real).ask


def test_a_match_that_is_less_sure_than_the_ranking_has_titles_beside_it():
    answer = answer_for(
        text="ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\n"
        'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    for batch in loader:\n'
        "ValueError: the queue is closed\n"
    )
    assert [answer.matches[0]["id"], answer.matches[0]["confidence"]] == ["DP15", "medium"]
    assert answer.ask.startswith("The match rests on line 1") and answer.also


STEPS = "".join(f"step {n} loss {3 - n / 10:.2f}\n" for n in range(5))
PORT = "[W socket.cpp] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).\n"
GROUP = """\
Traceback (most recent call last):
  File "/root/train.py", line 3, in <module>
    dist.barrier()
ValueError: Default process group has not been initialized, please make sure to call init_process_group.
"""


@pytest.mark.parametrize(
    ("text", "good", "first"),
    [
        (STEPS + GROUP, "", ["D1"]),
        (PORT + STEPS + GROUP, "", ["D4"]),
        ("WARNING: CUDA out of memory, skipping a batch\n" + STEPS + GROUP, "", ["D1"]),
        (PORT + STEPS, "", []),
        (PORT + STEPS, STEPS, ["D4"]),  # a complaint that the good run doesn't have
        (STEPS + PORT + GROUP, STEPS, ["D4"]),
    ],
)
def test_a_cause_that_was_logged_before_the_failure_leads_if_it_is_of_the_same_family(
    text, good, first, tmp_path
):
    log, well = tmp_path / "a.log", tmp_path / "good.log"
    log.write_text(text)
    well.write_text(good)
    index = ranking.load()
    options = ReadOptions(
        tuple(index.signatures.needles()), good=shapes_of(str(well)) if good else frozenset()
    )
    found = index.rank(reading.from_path(str(log), options)).candidates
    assert [candidate.id for candidate in found[:1]] == first
