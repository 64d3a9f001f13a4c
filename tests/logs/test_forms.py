"""A report is found in the form in which a log or an agent brings it: behind a prefix, in records of JSON, without its line breaks."""

import json
import sys

import pytest
from remote_gpu_trainer.logs import prefixes, reading
from remote_gpu_trainer.logs.prefixes import unfolded
from remote_gpu_trainer.lookup.answer import answer_for

from tests.conftest import ROOT
from tests.engines.machine_speed import ordinary_log, ratio

EVALS = ROOT / "evals"
sys.path.insert(0, str(EVALS))

from grading import forms, whole  # noqa: E402
from grading.cases import read_cases  # noqa: E402

TRACE = """Traceback (most recent call last):
  File "/data/train.py", line 12, in <module>
    main()
  File "/data/train.py", line 8, in main
    loss = criterion(output, target)
  File "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1751, in _wrapped_call_impl
    return self._call_impl(*args, **kwargs)
  File "/opt/conda/lib/python3.11/site-packages/torch/nn/functional.py", line 3462, in cross_entropy
    return torch._C._nn.cross_entropy_loss(input, target)
IndexError: Target 7 is out of bounds."""


@pytest.fixture(scope="module")
def hits(shared_answers):
    return forms.hits(
        [case for case in read_cases(EVALS / "cases.jsonl") if case.half == "reporting"]
    )


@pytest.mark.parametrize("form", [name for name in forms.FORMS if name != "as it is"])
def test_a_form_costs_little(hits, form):
    # The journal's costs three of 122, .0246, and one among three, .0082.
    assert (
        hits[form][0] >= hits["as it is"][0] - 0.025 and hits[form][1] >= hits["as it is"][1] - 0.01
    )


@pytest.mark.parametrize("half", ["tuning", "reporting"])
@pytest.mark.parametrize(
    "form", [name for name in forms.FORMS if name not in ("written breaks", "one line")]
)
def test_a_form_makes_no_failure_of_a_healthy_log(form, half):
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in whole.logs(half)]
    assert len(texts) == 20
    assert sum(bool(answer_for(text=forms.FORMS[form](text)).matches) for text in texts) <= 3


@pytest.mark.parametrize("form", forms.FORMS)
def test_the_exception_is_what_failed_first_in_every_form(form):
    first = reading.from_text(unfolded(forms.FORMS[form](TRACE))).first
    assert first.kind == "exception" and "Target 7 is out of bounds." in first.text


@pytest.mark.parametrize(
    "form, rank",
    [
        ("SkyPilot", 1),
        ("srun -l", 2),
        ("torchrun --tee 3", 2),
        ("mpirun", 2),
        ("Ray", None),
        ("journald", None),
    ],
)
def test_a_rank_is_known_where_the_form_tells_it(form, rank):
    assert {line.rank for line in reading.from_text(forms.FORMS[form](TRACE)).lines} == {rank}


@pytest.mark.parametrize("form, rank", [("SkyPilot", 1), ("Ray", None)])
@pytest.mark.parametrize("count", [1, 2, 8])
def test_a_short_report_too_is_read_behind_the_tag_of_its_process(form, rank, count):
    text = "\n".join(TRACE.splitlines()[-count:])
    lines = reading.from_text(forms.FORMS[form](text)).lines
    assert [line.text for line in lines] == [line.rstrip() for line in text.splitlines()]
    assert {line.rank for line in lines} == {rank}


UNKNOWN_TAGS = [
    "algo-1-abc12 | ",
    "[Pod train-worker-0]: ",
    "node3: ",
    "trainer-1  | ",
    "\x1b[36mtrainer-1  | \x1b[0m",
    "2024-05-03T10:01:02.123456789Z stderr F ",
    "[2023-05-01T12:00:00.000000Z] 3c1d1234 || ",
    "2024-05-03 10:01:02 [worker-2] ",
    "app[worker.1]: ",
]


@pytest.mark.parametrize("tag", UNKNOWN_TAGS)
def test_a_traceback_is_read_behind_a_tag_that_no_row_describes(tag, tmp_path):
    lines = ["step 1 loss 2.5", "step 2 loss 2.4", *TRACE.splitlines()]
    log = tmp_path / "train.log"
    log.write_text("\n".join(tag + line for line in lines) + "\n")
    found = reading.from_path(str(log))
    assert found.first.kind == "exception" and found.first.number == len(lines)
    assert found.first.text == lines[-1] and {line.rank for line in found.lines} == {None}
    assert all(line.time for line in found.lines) == tag.lstrip("[").startswith("20")


@pytest.mark.parametrize("tag", ["[trainer-{}] ", "[{}]:", "train/node{} | "])
def test_an_unknown_tag_that_counts_from_0_names_the_rank(tag):
    ranked = [tag.format(rank) + line for rank in (0, 1) for line in ("step 1", "step 2")]
    text = "\n".join([*ranked, *(tag.format(1) + line for line in TRACE.splitlines())])
    found = reading.from_text(text)
    assert found.first.rank == 1 and found.ranks == (0, 1)


def test_of_kubeflow_s_master_and_workers_an_unknown_tag_names_no_rank():
    ranked = [f"[trainer-{rank}] {line}" for rank in (0, 1) for line in ("step 1", "step 2")]
    text = "\n".join([*ranked, *(f"[trainer-1] {line}" for line in TRACE.splitlines())])
    master = text.replace("[trainer-0]", "[master-0]").replace("[trainer-1]", "[worker-0]")
    assert reading.from_text(master).first.rank is None


@pytest.mark.parametrize(
    "text",
    [
        f"ERROR: {TRACE}",
        TRACE,
        "\n".join(f"  {line}" for line in TRACE.splitlines()),
        f"step 1 failed with Traceback (most recent call last):\n{TRACE}",
    ],
)
def test_what_stands_before_a_traceback_alone_is_no_tag(text):
    assert prefixes.learned_tag_of(text.splitlines()) is None


def test_in_a_short_report_the_journal_tells_which_program_speaks():
    text = "Oct 30 23:14:10 box systemd-logind[911]: Lid closed.\nOct 30 23:14:11 box kernel: PM: suspend entry"
    assert [line.text for line in reading.from_text(text).lines] == text.splitlines()


def test_a_record_may_hold_a_whole_traceback():
    records = [
        {"level": "INFO", "message": "step 1"},
        {"level": "ERROR", "message": "run failed", "exc_info": TRACE},
    ]
    found = reading.from_text("\n".join(map(json.dumps, records)))
    assert (found.first.text, found.first.number) == ("IndexError: Target 7 is out of bounds.", 2)


def test_records_of_numbers_stay_as_they_are():
    text = "\n".join(json.dumps({"step": step, "loss": 2 / step}) for step in range(1, 12))
    assert [line.text for line in reading.from_text(text).lines] == text.splitlines()


@pytest.mark.parametrize(
    "text",
    [
        "loss is nan after 200 steps",
        r"FileNotFoundError: C:\new\notes\nets\data.csv not found",
        r"the script prints \n instead of a line break",
        TRACE,
        "",
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
    ],
)
def test_what_has_its_lines_or_never_had_any_is_left_alone(text):
    assert unfolded(text) == text


@pytest.mark.parametrize(
    "text", [json.dumps(TRACE), json.dumps(TRACE)[1:-1], TRACE.replace("\n", "\\n")]
)
def test_written_breaks_become_lines(text):
    assert unfolded(text) == TRACE


def test_a_text_in_one_line_gets_its_frames_back():
    assert [line.strip() for line in unfolded(" ".join(TRACE.split())).split("\n")] == [
        line.strip() for line in TRACE.split("\n")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "a\\ud800 b\\u0000\\n\\n error",
        "\n".join([json.dumps({"log": "a \ud800 b"})] * 12),
        "\n".join(['{"log":' + "[" * 50_000 + "]" * 50_000 + "}"] * 10),
        "\n".join(['{"log":' + "9" * 100_000 + "}"] * 10),
        "\n".join(json.dumps({"log": "a b\n" * 3000}) for _ in range(70)),
        "\n".join(["(" + "a" * 80 + ", pid="] * 10_000),
        "\n".join(["Nov 21 02:11:12 " + "h" * 80 + " " + "x" * 60] * 8000),
        "Traceback (most recent call last): " + " A_" * 30_000,
        ("A." * 40_000 + " Traceback (most recent call last): ")[:99_000],
    ],
    ids=range(9),
)
def test_hostile_forms_take_no_time(text):
    assert answer_for(text=text).matches == []
    plain = ordinary_log(max(len(text), 100_000))
    assert ratio(lambda: answer_for(text=text), lambda: answer_for(text=plain)) < 8


RANK_FORMS = pytest.mark.parametrize("form", prefixes.RANK_FORMS, ids=lambda form: form.pattern)
LOGGED_FORMS = pytest.mark.parametrize(
    "form", prefixes.LOGGED_RANK_FORMS, ids=lambda form: form.pattern
)
TAG_FORMS = pytest.mark.parametrize("form", prefixes.TAG_FORMS, ids=lambda form: form.example)
STAMP = "2022-06-29 11:22:26,152: "


@RANK_FORMS
def test_a_form_of_rank_is_read_alone_and_behind_a_time_and_spares_what_looks_like_it(form):
    for line in (form.example, STAMP + form.example):
        rank, _, text = prefixes.split_prefixes(line, None, 0)
        assert rank == form.rank and form.example.endswith(text)
        assert len(text) < len(form.example)
    assert prefixes.rank_in(form.spares) is None


@TAG_FORMS
def test_a_tag_of_most_lines_is_read_and_spares_what_looks_like_it(form):
    tag = prefixes.tag_of([form.example] * 8 + ["other"] * 4)
    rank, text = prefixes.untagged(form.example, None, tag)
    assert rank == form.rank and form.example.endswith(text) and text != form.example
    assert prefixes.tag_of([form.spares] * 12) is None


@LOGGED_FORMS
def test_a_rank_within_a_logger_s_prefix_is_read_and_the_level_stays(form):
    rank, _, text = prefixes.split_prefixes(f"[{STAMP[:-2]}] {form.example}", None, 0)
    assert rank == form.rank and text.split()[0] == form.example.split()[0]
    assert len(text) < len(form.example) and "ank" not in text.split("info")[0]
    assert prefixes.rank_in(form.spares) is None


@pytest.mark.parametrize(
    "line",
    [
        "[2024-05-03 10:01:02,123] [INFO] [axolotl.train.train:54] [PID:812] [RANK:3] starting",
        "05/03/2024 10:01:02 - INFO - __main__ - [RANK 3] starting",
        "INFO:__main__:[RANK 3] starting",
        "[Rank 3] (after 2 iterations) memory (MB) | allocated: 812.0",
        "[rank=3/8] starting",
        "[Rank 3/8] [2024-05-03 10:01:02] [INFO]: starting",
        "[rank3]:[titan] 2024-05-03 10:01:02,123 - root - INFO - starting",
    ],
)
def test_a_line_of_a_framework_names_its_rank(line):
    assert prefixes.rank_in(line) == 3


@pytest.mark.parametrize(
    "line",
    [
        "[rank=16, alpha=32] of the adapter",
        "[E ProcessGroupNCCL.cpp:828] [Rank 38] Watchdog caught collective operation timeout",
        "[E503 11:20:05.1 ProcessGroupNCCL.cpp:629] [Rank 38] Some NCCL operations have failed",
        "[Rank 38] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=44)",
        "[INFO] LoRA rank: 16 | alpha: 32",
        "INFO:peft:rank 16 adapters",
        "results - ndcg - [Rank A]",
        "[1]    79314 exit 143   mpiexec -n 12",
        "[1]:[E ProcessGroupNCCL.cpp:828] [Rank 33] Watchdog caught collective operation timeout",
    ],
)
def test_a_number_that_is_no_process_is_no_rank(line):
    assert prefixes.rank_in(line) is None
