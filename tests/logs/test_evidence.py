"""From a log to what failed: what is believed, what is ignored, and what is no log at all."""

import io
import json
import os
import socket
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_gpu_trainer.logs.files import ReadOptions, Unreadable
from remote_gpu_trainer.logs.prefixes import rank_of
from remote_gpu_trainer.logs.reading import from_path, from_stream, from_text
from remote_gpu_trainer.lookup.answer import answer_for

from tests.conftest import ROOT

LOGS = ROOT / "examples" / "logs"
TRACEBACK = """\
Traceback (most recent call last):
  File "/opt/job/train.py", line 10, in <module>
    main()
  File "/opt/venv/lib/python3.11/site-packages/torch/_tensor.py", line 5, in backward
    torch.autograd.backward(
"""


def test_the_last_exception_decides():
    found = from_text(
        TRACEBACK + "ValueError: early\nretrying\n" + TRACEBACK + "RuntimeError: late\n"
    )
    assert found.first.text == "RuntimeError: late"
    assert found.decisive[0].text == "RuntimeError: late"


def test_progress_bars_leave_no_line_and_numbers_count_real_lines():
    found = from_path(str(LOGS / "detached-loss.log"))
    assert not any("it/s" in line.text for line in found.lines)
    assert found.first.number == 17
    assert found.first.text.startswith("RuntimeError: element 0 of tensors")


def test_an_error_behind_a_carriage_return_is_seen():
    found = from_text(
        "  5%|▌  | 5/100 [00:01<00:10, 9.0it/s]\rRuntimeError: boom\r  6%|▌  | 6/100 [00:01<00:10, 9.0it/s]"
    )
    assert found.first.text == "RuntimeError: boom"


def test_colours_and_invalid_utf8_are_taken_out():
    found = from_stream(io.BytesIO(b"\x1b[31mRuntimeError: bo\xffom\x1b[0m\n"))
    assert found.first.text == "RuntimeError: bo�om"


def test_the_launchers_summary_names_the_rank_to_believe():
    found = from_path(str(LOGS / "ddp-unused-parameters.log"))
    assert found.ranks == (0, 1)
    assert found.first.rank is None  # both ranks raised the same
    assert found.first.text.startswith("RuntimeError: Expected to have finished reduction")


def test_a_folder_of_ranks_is_one_run_and_survivors_are_not_the_cause():
    found = from_path(str(LOGS / "bad-label-3-ranks"))
    assert found.ranks == (0, 1, 2)
    assert (found.first.rank, found.first.source, found.first.number) == (1, "1/stderr.log", 8)
    assert found.first.text == "IndexError: Target 10 is out of bounds."


def test_a_rank_that_a_torn_summary_names_twice_is_read():
    rank = "  rank      : 0 (local_rank: 0)\n"
    found = from_text(rank + "  exitcode  : -9 (pid: 7)\n" + rank + "ValueError: bad row 17\n")
    assert found.first.text == "ValueError: bad row 17"


def test_without_a_summary_a_lost_connection_is_a_consequence():
    found = from_text(
        "[rank0]: RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:3\n"
        "[rank2]: RuntimeError: Socket Timeout\n"
        "[rank1]: ValueError: bad sample 17\n"
    )
    assert found.first.rank == 1


def test_with_times_the_earliest_own_fault_is_first():
    found = from_text(
        "[rank0]: 2026-11-20 10:00:09,000 ERROR: loader gone\n[rank1]: 2026-11-20 10:00:07,000 ERROR: loader died\n"
    )
    assert found.first.rank == 1


def test_when_no_rank_failed_the_one_that_is_behind_is_named():
    lines = [
        f"[rank{r}]: step {s} loss 1.0\n"
        for s in range(50)
        for r in range(3)
        if not (r == 2 and s > 30)
    ]
    found = from_text("".join(lines))
    assert (found.first.rank, found.first.text) == (2, "step 30 loss 1.0")


def test_ranks_that_are_level_blame_nobody():
    found = from_text(
        "".join(f"[rank{r}]: step {s} loss 1.0\n" for s in range(9) for r in range(3))
    )
    assert found.first is None


@pytest.mark.parametrize(
    "prefix, rank",
    [
        ("[rank3]: ", 3),
        ("[rank3]:[W1120 10:00:00.123 a.cpp:1] ", 3),
        ("[default5]:", 5),
        ("[1,7]<stderr>:", 7),
        ("rank 2: ", 2),
        ("[4]: ", 4),
        ("(rank=6) ", 6),
        ("2026-11-20 10:00:00,1 [rank1]: ", 1),
        ("[pod/train-worker-2/pytorch] ", 2),
        ("[pod/train-3-x8k2p/main] ", 3),
        ("[pod/train-worker-2/pytorch] [rank5]: ", 5),
        ("[pod/train-7d9c5b6f4-x2x9z/main] ", None),
    ],
)
def test_a_rank_is_known_from_its_prefix(prefix, rank):
    [line] = from_text(prefix + "RuntimeError: x").lines
    assert (line.rank, line.text.endswith("RuntimeError: x")) == (rank, True)


def test_the_workers_of_a_pytorch_job_count_from_its_master():
    found = from_text(
        "[pod/job-master-0/pytorch] step 1\n[pod/job-worker-0/pytorch] step 1\n[pod/job-worker-1/pytorch] KeyError: 'x'\n"
    )
    assert (found.ranks, found.first.rank) == ((0, 1, 2), 2)


@pytest.mark.parametrize("form", ["{}: ", "{:2d}: ", "{:02d}: "])
def test_srun_sets_the_number_of_a_task_before_each_line(form):
    traceback = "".join(
        form.format(2) + line + "\n"
        for line in (TRACEBACK + "AssertionError: label 17").splitlines()
    )
    lost = "".join(form.format(r) + "RuntimeError: Connection closed by peer\n" for r in (0, 1, 3))
    found = from_text(lost + traceback + "srun: error: node01: task 2: Exited with exit code 1\n")
    assert (found.ranks, found.first.rank, found.first.text) == (
        (0, 1, 2, 3),
        2,
        "AssertionError: label 17",
    )
    assert [line.kind for line in found.lines if line.rank == 2] == [
        "trace",
        "frame",
        "frame",
        "frame",
        "frame",
        "exception",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "1: import torch\n2: x = 1\n3: raise ValueError\n4: y\n",
        "2: RuntimeError: x\n",
        "10:00:01 a\n10:00:01 b\n",
        "0: a\n0: b\nc\nd\ne\n",
        "²: a\n²: b\n",
    ],
)
def test_numbers_that_count_lines_or_hours_are_no_ranks(text):
    assert from_text(text).ranks == ()


def test_the_lines_of_dockers_log_driver_are_unwrapped_and_masked():
    wrapped = [
        json.dumps(
            {"log": line + "\n", "stream": "stderr", "time": "2026-11-20T10:00:00.1Z"},
            separators=(",", ":"),
        )
        for line in (TRACEBACK + 'KeyError: "token=abcdefgh"').splitlines()
    ]
    found = from_text("\n".join(wrapped) + '\n{"log":"cut')
    assert (found.first.text, found.first.number) == ('KeyError: "token=***"', 6)
    assert found.lines[-1].text == '{"log":"cut'


@pytest.mark.parametrize(
    "text",
    [
        '{"log":7}',
        '{"log":"a","log":7}',
        '{"log":"a","b":' + "[" * 5000,
        '{"log":"\\u0000\\ud800 x\\n"}',
    ],
)
def test_what_only_looks_like_dockers_log_is_read_as_it_is(text):
    assert len(from_text(text).lines) == 1


@pytest.mark.parametrize(
    "name, rank",
    [
        ("rank_3.log", 3),
        ("rank-12.err", 12),
        ("0/stderr.log", 0),
        ("attempt_0/5/stdout.log", 5),
        ("worker2.txt", 2),
        ("slurm-1234_7.out", 7),
        ("train.log", None),
    ],
)
def test_a_rank_is_known_from_its_file(name, rank):
    assert rank_of(name) == rank


@pytest.mark.parametrize(
    "text",
    [
        "epoch 3 loss 0.123 acc 0.98",
        "Saving checkpoint\nDone in 3:21:07\n",
        "my model does not learn, the loss is flat",
        "Epoch 1: 100%|██████████| 10/10 [00:01<00:00, 9.9it/s, loss=0.3]\nok",
        "Epoch 1 validation error: 0.213\nMeanSquaredError: 0.0123\nstep 30 reconstruction error: 3.1e-02",
        "[rank0]: NCCL watchdog thread started!\nTraining completed.",
        "[Rank 0] NCCL watchdog thread terminated normally",
        "Process exited with code 0\nworker 1 exited with status: 0\nExit code 0",
        "INFO Error handling enabled: retries=3",
    ],
)
def test_text_without_a_failure_names_none(text):
    found = from_text(text)
    assert found.first is None
    assert found.failures == []


@pytest.mark.parametrize(
    "text",
    ["KeyError: 0", TRACEBACK + "KeyError: 0.5", "ERROR: 0.5", "Error: 3", "fatal error: 0.5", "error code: 17", "error at step 3: 0.5.1", "worker 1 exited with code 1",
     "exited with code 01", "Exit code: 137", "watchdog thread died", "INFO Error: the disk is full", "INFO validation error: 0.1, then a Bus error"],
)  # fmt: skip
def test_a_number_alone_excuses_only_a_decimal_figure(text):
    assert from_text(text).first is not None


def test_a_failure_in_the_middle_of_a_long_log_is_found(tmp_path):
    path = tmp_path / "long.log"
    with open(path, "w") as log:
        for step in range(60_000):
            log.write(f"2026-11-20 10:00:00,123 INFO step {step} loss {step % 7}.5 lr 1e-4\n")
            if step % 40 == 0:
                log.write(
                    f"/opt/x/y.py:12: UserWarning: thing {step} is deprecated\n  warnings.warn(\n"
                )
            if step == 30_000:
                log.write(TRACEBACK + "IndexError: Target 10 is out of bounds.\n")
    found = from_path(str(path))
    assert found.first.text == "IndexError: Target 10 is out of bounds."
    assert found.first.number == 30_001 + 2 * 751 + 6
    assert len(found.lines) < 6000


def test_a_text_of_the_catalogue_is_found_in_a_long_log_though_nothing_else_tells(tmp_path):
    path = tmp_path / "long.log"
    path.write_text("step 1 ok\n" * 200_000 + "no modules matched here\n" + "step 2 ok\n" * 200_000)
    found = from_path(str(path), ReadOptions(needles=(b"no modules matched",)))
    assert [line.number for line in found.lines if "no modules" in line.text] == [200_001]


def test_memory_stays_bounded_on_a_log_full_of_different_errors(tmp_path):
    path = tmp_path / "noisy.log"
    with open(path, "w") as log:
        for number in range(300_000):
            log.write(
                f"Error: item {chr(97 + number % 26)}{chr(97 + number // 26 % 26)}{chr(97 + number // 676 % 26)} {'x' * 40}\n"
            )
    program = (
        "import sys, tracemalloc; tracemalloc.start(); from remote_gpu_trainer.logs import reading as evidence;"
        "evidence.from_path(sys.argv[1]); print(tracemalloc.get_traced_memory()[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 100_000_000


def test_progress_is_told_for_each_block():
    seen = []
    from_stream(io.BytesIO(b"line\n" * 800_000), options=ReadOptions(progress=seen.append))
    assert seen[-1] == 4_000_000
    assert len(seen) == 4


def test_utf16_with_a_mark_is_read_as_windows_wrote_it():
    found = from_stream(io.BytesIO("RuntimeError: boom\r\n".encode("utf-16")))
    assert found.first.text == "RuntimeError: boom"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"   \n\t\n",
        b"\r\n\r\n",
        b"\x00" * 5000,
        b"\x7fELF\x02\x01\x01\x00\x00\x00\x00",
    ],
)
def test_what_is_no_text_is_refused_in_one_line(data):
    with pytest.raises(Unreadable) as refused:
        from_stream(io.BytesIO(data))
    assert "in stdin" in str(refused.value) and "; pass " in str(refused.value)
    assert "\n" not in str(refused.value)


def test_one_stray_nul_in_a_real_log_is_forgiven():
    assert (
        from_text("step 1 ok\n" * 50 + "RuntimeError: \x00boom\n").first.text
        == "RuntimeError:  boom"
    )


def test_one_line_of_50_megabytes_is_refused(tmp_path):
    path = tmp_path / "one.log"
    path.write_bytes(b"x" * 50_000_000)
    with pytest.raises(Unreadable, match="^one line of 50 MB in .*one.log; pass a log with lines$"):
        from_path(str(path))


def test_one_endless_line_within_a_log_is_cut_and_the_log_is_read(tmp_path):
    path = tmp_path / "mixed.log"
    path.write_bytes(b"start\n" + b"9 " * 10_000_000 + b"\nRuntimeError: after\n")
    assert from_path(str(path)).first.text == "RuntimeError: after"


def test_a_missing_file_a_device_a_socket_and_an_empty_folder_are_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "nolog").mkdir()
    (tmp_path / "nolog" / "model.safetensors").write_bytes(b"x")
    place = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        for path in (
            str(tmp_path / "gone.log"),
            os.devnull,
            str(place),
            str(tmp_path / "empty"),
            str(tmp_path / "nolog"),
            "a\x00b",
        ):
            with pytest.raises(Unreadable) as refused:
                from_path(path)
            assert "; pass " in str(refused.value)


@pytest.mark.parametrize(
    "name", ["id_rsa", "id_ed25519", "server.pem", ".env", "credentials", ".netrc"]
)
def test_what_looks_like_a_key_is_never_opened(tmp_path, name):
    (tmp_path / name).write_text("RuntimeError: secret")
    with pytest.raises(Unreadable, match="looks like a key"):
        from_path(str(tmp_path / name))


def test_a_private_key_under_another_name_is_refused_by_its_head(tmp_path):
    (tmp_path / "a.log").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n")
    with pytest.raises(Unreadable, match="private key"):
        from_path(str(tmp_path / "a.log"))


@pytest.mark.parametrize(
    "text, hidden",
    [
        ("Error: HF_TOKEN=hf_abcdefghijklmnop", "hf_abcdefghijklmnop"),
        ("Error: api_key: 'sk-abcdefghijklmnop'", "abcdefghijklmnop"),
        ("Error: Authorization: Bearer abc.def.ghi-jkl", "abc.def.ghi-jkl"),
        ("Error: password=hunter2hunter2", "hunter2hunter2"),
        ("Error: AKIAABCDEFGHIJKLMNOP denied", "ABCDEFGHIJKLMNOP"),
    ],
)
def test_secrets_are_masked(text, hidden):
    [line] = from_text(text).lines
    assert hidden not in line.text and "***" in line.text


@pytest.mark.parametrize(
    "text",
    [
        "token_type_ids: shape [2, 3]",
        "secretary problem: 5 errors",
        "sk-learn 1.2",
        "max_tokens=512",
        "HF_ENDPOINT=https://hf-mirror.com",
        "HF_HUB_ENABLE_HF_TRANSFER=1",
        "in hf_hub_download",
        "hf_raise_for_status(response)",
        "import hf_transfer",
    ],
)
def test_what_is_no_secret_is_not_masked(text):
    assert "***" not in from_text(text).lines[0].text


@pytest.mark.parametrize("name", ["windows.py", "files.py"])
def test_what_reads_logs_needs_the_standard_library_only_and_parses_as_python_3_8(name):
    import ast

    tree = ast.parse(
        (ROOT / "server/remote_gpu_trainer/logs" / name).read_text(), feature_version=(3, 8)
    )
    names = {
        n.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for n in node.names
    }
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {node.module for node in froms if node.level} <= {
        "windows",
        "text",
        "numbers.rows",
    }
    assert names | {(node.module or "").split(".")[0] for node in froms if not node.level} <= set(
        sys.stdlib_module_names
    )


PIECES = ["[rank0]: ", "[rank1]: ", "Traceback (most recent call last):\n", '  File "a.py", line 3, in f\n', "    x = 1\n", "RuntimeError: boom\n", "\r", "\n",
          "\x1b[31m", "\x1b]0;t\x07", "  5%|▌  | 5/100 [00:01<00:10]", "Root Cause (first observed failure):\n", "  rank      : 1 (local_rank: 1)\n", "  exitcode  : -9 (pid: 3)\n",
          "2026-11-20 10:00:00,1 ", "UserWarning: x\n", "\x00", "�", "卡住不动\n", "Killed\n", "hf_abcdefghijklmnop"]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=12), max_size=60))
def test_any_text_gives_evidence_or_one_clear_refusal(pieces):
    text = "".join(pieces)
    try:
        found = from_text(text)
    except Unreadable:
        return
    assert all(
        line.text.strip() and "\n" not in line.text and "\x1b" not in line.text
        for line in found.lines
    )
    assert found.first is None or found.first.number >= 1


@given(st.binary(max_size=3000), st.integers(min_value=1, max_value=700))
def test_any_bytes_read_in_any_pieces_give_the_same_lines(data, size):
    class Slow(io.BytesIO):
        def read(self, most=-1):
            return super().read(size if most is None or most < 0 else min(most, max(size, 1)))

    def outcome(stream):
        try:
            return [(line.number, line.text) for line in from_stream(stream).lines]
        except Unreadable:
            return "refused"

    whole, pieces = outcome(io.BytesIO(data)), outcome(Slow(data))
    assert whole == pieces or "refused" in (whole, pieces)


PIP = """\
  error: subprocess-exited-with-error
  × Getting requirements to build wheel did not run successfully.
  ╰─> [17 lines of output]
      Traceback (most recent call last):
        File "/tmp/pip-build-env-x1/overlay/lib/python3.11/site-packages/setuptools/build_meta.py", line 317, in run_setup
          exec(code, locals())
        File "<string>", line 22, in <module>
      ModuleNotFoundError: No module named 'torch'
      [end of output]
  note: This error originates from a subprocess, and is likely not a problem with pip.
error: metadata-generation-failed
"""


def test_a_traceback_that_a_program_sets_to_the_right_ends_with_its_exception():
    found = from_text(PIP)
    assert [(line.kind, line.text) for line in found.lines][6:8] == [
        ("frame", '        File "<string>", line 22, in <module>'),
        ("exception", "ModuleNotFoundError: No module named 'torch'"),
    ]
    assert (
        found.first.text == found.decisive[0].text == "ModuleNotFoundError: No module named 'torch'"
    )
    assert answer_for(text=PIP).matches[0]["id"] == "ENV19"


STEPS = "".join(f"step {n} loss {3 - n / 10:.2f}\n" for n in range(9))
FAILED = f"{STEPS}{TRACEBACK}RuntimeError: boom\n"
AGAIN = "nohup: ignoring input\n"
OTHER = FAILED.replace("RuntimeError: boom", "KeyError: 'lr'")
LAUNCHER = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n  exitcode  : 1 (pid: 7)\n"


@pytest.mark.parametrize(
    ("text", "run", "first", "read", "twice"),
    [
        (FAILED, None, 1, "all 15 lines, as one run", False),
        (
            FAILED + AGAIN + FAILED, None, 16,
            "run 2 of 2, from line 16 on; run 1 ended with RuntimeError (line 15)", True,
        ),
        (
            FAILED + AGAIN + STEPS + "step 9 loss 2\n" + FAILED[len(STEPS) :], 2, 16,
            "run 2 of 2, from line 16 on; run 1 ended with RuntimeError (line 15)", False,
        ),
        (  # the launcher's words are the same for any cause
            FAILED + LAUNCHER + AGAIN + OTHER + LAUNCHER, None, 18,
            "run 2 of 2, from line 18 on; run 1 ended with ChildFailedError (line 16)", False,
        ),
        (FAILED + AGAIN + FAILED, 1, 1, "run 1 of 2, from line 1 to line 15", False),
        (FAILED + AGAIN + FAILED, 0, 1, "all 2 runs as one", False),
    ],
)  # fmt: skip
def test_of_several_runs_in_a_file_one_is_read(text, run, first, read, twice, tmp_path):
    (tmp_path / "a.log").write_text(text)
    found = from_path(str(tmp_path / "a.log"), ReadOptions(run=run))
    assert (found.lines[0].number, found.read, found.failed_twice) == (
        first, f"Read: {read}.", twice,
    )  # fmt: skip
    with pytest.raises(Unreadable, match="the file holds .*, and run 3 was asked for"):
        from_path(str(tmp_path / "a.log"), ReadOptions(run=3))
