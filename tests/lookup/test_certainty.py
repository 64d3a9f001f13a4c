"""What an answer says as certain: who failed first, and what another start needs."""

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.lookup.advice import advise
from remote_gpu_trainer.lookup.answer import answer_for

WATCHDOG = (
    "[rank{rank}]:[E503 11:20:05.1{rank}2 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=771, OpType={op}, NumelIn={came}, "
    "NumelOut={gave}, Timeout(ms)=600000) ran for 600042 milliseconds before timing out.\n"
)
DETECTED = (
    "[rank{rank}]:[E503 11:20:05.2{rank}2 ProcessGroupNCCL.cpp:2168] [PG ID 0 PG GUID 0(default_pg)"
    " Rank {rank}]  failure detected by watchdog at work sequence id: 771 PG status: last enqueued "
    "work: 774, last completed work: 770\n"
)
STACK = (
    "[rank{rank}]:[E503 11:20:05.3{rank}2 ProcessGroupNCCL.cpp:681] Stack trace of the failed "
    "collective: \n#0 all_reduce from /opt/conda/lib/python3.11/site-packages/torch/distributed/"
    "distributed_c10d.py:2940\n#1 wrapper from /opt/conda/lib/python3.11/site-packages/torch/c.py:81\n"
)
CUT = "[rank{rank}]:[E503 11:20:05.4{rank}2 ProcessGroupNCCL.cpp"
PANDAS = "/opt/conda/lib/python3.11/site-packages/pandas/util/_decorators.py"


@pytest.fixture
def ask(tmp_path):
    def asked(text):
        (tmp_path / "train.log").write_text(text)
        answer = answer_for(log=str(tmp_path / "train.log"))
        advice = advise(answer, bundle.load_cache())
        told = [advice.lead, *advice.remarks]
        if advice.entry:
            told += [advice.entry.title, *(text for _, text in advice.entry.texts)]
        return answer, advice, " ".join(told)

    return asked


def ids(answer):
    return [match["id"] for match in answer.matches]


def caught(rank, op="ALLTOALL", came=800, gave=800):
    return WATCHDOG.format(rank=rank, op=op, came=came, gave=gave)


@pytest.mark.parametrize(
    "text",
    [
        caught(7) + caught(3) + CUT.format(rank=6),
        caught(9) + DETECTED.format(rank=9) + STACK.format(rank=9),
        caught(5) + caught(2) + STACK.format(rank=5),
        caught(4),
    ],
    ids=["a watchdog's line cut off", "one rank's stack", "two ranks and a stack", "one rank"],
)
def test_a_rank_that_only_waited_is_never_called_the_first_to_fail(ask, text):
    answer, _, told = ask(text)
    assert "failed first" not in told and "only lost it" not in told
    assert ids(answer)[:1] == ["D20"]


@pytest.mark.parametrize("other", [8192, 65536])
def test_all_ranks_in_different_collectives_have_no_silent_rank(ask, other):
    gathers = {0: 1048576, 1: other}
    text = "".join(
        caught(rank, "_ALLGATHER_BASE", size, 2 * size) for rank, size in gathers.items()
    )
    answer, _, told = ask(text)
    assert "silent" not in told.lower() and "different collectives" in told
    assert ids(answer)[:1] == ["D19"] and answer.decision["do"] == "fix_first"


def test_the_same_collective_on_some_ranks_is_no_difference(ask):
    sizes = {0: 1048576, 1: 1048576}
    text = "".join(caught(rank, "_ALLGATHER_BASE", size, 4 * size) for rank, size in sizes.items())
    answer, _, told = ask(text)
    assert "different collectives" not in told and ids(answer)[:1] == ["D20"]


def chained(last):
    return (
        "Generating train split: 0 examples [00:00, ? examples/s]\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/conda/lib/python3.11/site-packages/datasets/json.py", line 132, in _tables\n'
        "    pa_table = paj.read_json(\n"
        '  File "pyarrow/error.pxi", line 91, in pyarrow.lib.check_status\n'
        "pyarrow.lib.ArrowInvalid: JSON parse error: Column() changed from object to array in row 0\n"
        "\nDuring handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/conda/lib/python3.11/site-packages/datasets/json.py", line 155, in _tables\n'
        '    df = pd.read_json(f, dtype_backend="pyarrow")\n'
        f'  File "{PANDAS}", line 331, in wrapper\n'
        "    return func(*args, **kwargs)\n"
        f"{last}\n"
    )


def test_the_last_exception_of_a_chain_decides_before_the_one_that_was_handled(ask):
    last = "TypeError: read_json() got an unexpected keyword argument 'dtype_backend'"
    answer, advice, _ = ask(chained(last))
    assert ids(answer)[:1] == ["U45"] and "pandas" in advice.lead


def test_another_start_is_promised_only_where_the_ending_exception_is_claimed(ask):
    _, advice, _ = ask(chained("AttributeError: 'NoneType' object has no attribute 'rows_of'"))
    assert "helps only after" not in advice.lead or "if this is the cause" in advice.lead


def test_a_warning_of_an_old_variable_is_no_cause_beside_an_error_of_the_system(ask):
    answer, _, _ = ask(
        "/opt/conda/lib/python3.11/site-packages/huggingface_hub/constants.py:297: FutureWarning: "
        "The `HF_HUB_ENABLE_HF_TRANSFER` environment variable is deprecated as 'hf_transfer' is "
        "not used anymore.\n  warnings.warn(\n"
        "Ignored error while writing commit hash to /root/.cache/huggingface/hub/models--org--a/"
        "refs/main: [Errno 13] Permission denied: '/root/.cache/huggingface/hub'.\n"
        "Fetching 12 files:   0%|          | 0/12 [00:00<?, ?it/s]\n"
    )
    assert ids(answer)[:1] == ["U47"]


def test_403_of_an_account_without_access_leads_to_the_licence(ask):
    _, advice, told = ask(
        "403 Client Error. (Request ID: Root=1-77)\n\n"
        "Cannot access gated repo for url https://huggingface.co/org/model/resolve/main/config.json.\n"
        "Access to model org/model is restricted and you are not in the authorized list. Visit "
        "https://huggingface.co/org/model to ask for access.\n"
    )
    assert "licence" in advice.lead and "token reaches this process." not in told


SHM = "df -h /dev/shm\nFilesystem      Size  Used Avail Use% Mounted on\ntmpfs           {size}  {used}  {size}   {share}% /dev/shm\n"
BUS = "RuntimeError: DataLoader worker (pid 412) is killed by signal: Bus error\n\n"


def test_a_large_and_empty_shared_memory_rules_its_entry_out(ask):
    answer, advice, told = ask(BUS + SHM.format(size="252G", used="0", share=0))
    assert "DP15" not in ids(answer) and "--shm-size" not in told
    assert [shown.id for shown in advice.further][:2] == ["M3", "U55"]


@pytest.mark.parametrize(
    "row", [dict(size="64M", used="64M", share=100), dict(size="64M", used="0", share=0)]
)
def test_a_small_or_full_shared_memory_stays_its_entry(ask, row):
    answer, _, _ = ask(BUS + SHM.format(**row))
    assert ids(answer)[:1] == ["DP15"]


@pytest.mark.parametrize(
    "end",
    [
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 3 "
        "(pid: 902) of binary: /opt/conda/bin/python\nTraceback (most recent call last):\n"
        '  File "/opt/conda/lib/python3.8/site-packages/torch/distributed/run.py", line 753, in run\n'
        "    elastic_launch(\n",
        "[2026-10-01 06:14:36,062] torch.distributed.elastic.multiprocessing.api: [WARNING] "
        "Sending process 905 closing signal SIGTERM\n"
        "[2026-10-01 06:14:37,244] torch.distributed.elastic.multiprocessing.api: [ERROR] failed "
        "(exitcode: -9) local_rank: 3 (pid: 902) of bi\n",
    ],
    ids=["traceback of the launcher", "cut off"],
)
def test_after_signal_9_the_host_s_memory_comes_first_and_no_exception_is_promised(ask, end):
    answer, _, told = ask(end)
    assert ids(answer)[:1] == ["M3"] and "exception stays in" not in told


def test_nccl_out_of_memory_leads_under_the_noise_of_sockets(ask):
    answer, _, told = ask(
        "node7:3025:3048 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by "
        "remote peer node7-ib<51159>\nnode7:3025:3048 [0] NCCL INFO misc/socket.cc:749 -> 6\n\n"
        "node7:3025:3048 [0] proxy.cc:1143 NCCL WARN Socket recv failed while polling for "
        "opId=0x55a5\nnode7:3025:3048 [0] NCCL INFO transport/p2p.cc:438 -> 3\n\n"
        "node7:3028:3052 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\n\n"
        "node7:3028:3052 [3] include/alloc.h:185 NCCL WARN Failed to CUDA calloc 4194304 bytes\n"
        "node7:3028:3052 [3] NCCL INFO transport/p2p.cc:204 -> 1\n"
        "node7:3028:3052 [3] NCCL INFO proxy.cc:1303 -> 1\n"
    )
    assert "No error found" not in told and "U10" in ids(answer)[:2]


def test_a_symptom_in_the_first_line_of_a_report_is_no_calm_log(ask):
    rows = "".join(
        f"{{'loss': '{0.93 - i / 900:.4f}', 'grad_norm': '0.8{i}', 'epoch': '0.{61 + i}'}}\n"
        for i in range(9)
    )
    _, _, told = ask(
        f"Loss after the resume is far higher than before\nEnd of the first run:\n{rows}"
    )
    assert "No error found" not in told


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        (
            "While it saves, OSError: [Errno 122] Disk quota exceeded comes, though df shows room.\n"
            "11/02 06:49:23 - INFO - Saving checkpoint at 3 epochs\n"
            "Traceback (most recent call last):\n"
            '  File "tools/train.py", line 122, in <module>\n    main()\n',
            "U7",
        ),
        (
            "'(ReadTimeoutError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Read timed "
            "out. (read timeout=10)\"), '(Request ID: 5d)')' thrown while requesting HEAD "
            "https://huggingface.co/org/model/resolve/main/config.json\n",
            "HUB12",
        ),
        (
            "'The read operation timed out' thrown while requesting HEAD "
            "https://huggingface.co/org/model/resolve/main/config.json\nRetrying in 8s [Retry 5/5].\n",
            "HUB12",
        ),
        (
            "cannot import name 'shard_checkpoint' from 'transformers.modeling_utils' "
            "(/opt/conda/lib/python3.11/site-packages/transformers/modeling_utils.py)\n"
            '  File "/opt/conda/lib/python3.11/site-packages/peft/tuners/lora/awq.py", line 26, in <module>\n'
            "    from awq.modules.linear import WQLinear_GEMM\n"
            '  File "/opt/conda/lib/python3.11/site-packages/awq/models/base.py", line 13, in <module>\n',
            "U45",
        ),
    ],
    ids=["quota", "hub out of reach", "hub out of reach, httpx", "an old companion package"],
)
def test_errors_that_were_unknown(ask, text, entry):
    answer, _, _ = ask(text)
    assert ids(answer)[:1] == [entry]


FULL = "RuntimeError: CUDA error: out of memory"
DISTRIBUTED = "/venv/lib/python3.11/site-packages/torch/distributed"
BARRIER = (f"{DISTRIBUTED}/distributed_c10d.py", "work = default_pg.barrier(opts=opts)", "barrier")
FORWARD = ("/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", "F.linear()", "forward")


def traceback(message, *calls):
    own = ("/home/me/train.py", "main()", "<module>")
    frames = [
        f'  File "{file}", line 8, in {name}\n    {code}\n' for file, code, name in (own, *calls)
    ]
    return f"Traceback (most recent call last):\n{''.join(frames)}{message}\n"


def test_a_full_card_at_a_call_that_needs_no_memory_is_only_listed(ask):
    answer, _, _ = ask(traceback(FULL, BARRIER))
    assert ids(answer) == [] and answer.also[0]["id"] == "U10"
    assert answer.decision is None


@pytest.mark.parametrize("text", [traceback(FULL, FORWARD), f"{FULL}\n"], ids=["forward", "bare"])
def test_a_full_card_is_claimed_elsewhere(ask, text):
    answer, _, _ = ask(text)
    assert ids(answer)[:1] == ["U10"] and answer.decision["do"] == "fix_first"


NO_CUDA = "AssertionError: Torch not compiled with CUDA enabled"
INIT = ("/venv/lib/python3.11/site-packages/torch/cuda/__init__.py", "_lazy_init()", "init")
SHARD = (f"{DISTRIBUTED}/_composable/fsdp/_fsdp_collectives.py", "with stream():", "gather")


@pytest.mark.parametrize(
    "text",
    [
        traceback(NO_CUDA, SHARD, INIT),
        "moving the model to xpu:0\n" + traceback(NO_CUDA, INIT),
        "import intel_extension_for_pytorch\n" + traceback(NO_CUDA, INIT),
    ],
    ids=["asked by torch itself", "device", "package"],
)
def test_a_run_on_another_makers_card_is_not_told_to_install_cuda(ask, text):
    answer, _, _ = ask(text)
    assert "ENV13" not in ids(answer)


def test_a_program_that_asks_for_cuda_on_a_build_without_is_told_so(ask):
    answer, _, _ = ask(traceback(NO_CUDA, INIT))
    assert ids(answer)[:1] == ["ENV13"]


def test_a_file_without_a_known_start_is_not_said_to_hold_one_run(ask):
    answer, _, _ = ask("step 1 loss 2.0\nstep 2 loss 1.9\n" + traceback(NO_CUDA, INIT))
    assert "as one run" in answer.ask
