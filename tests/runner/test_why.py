"""What a failure is called: its class, entry and reason, by the evidence there is."""

import inspect
import re
from pathlib import Path

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.entry import DOMAINS
from remote_gpu_trainer.runner import collectors, failures, log, memory, preflight, why
from remote_gpu_trainer.runner.context import Run
from remote_gpu_trainer.runs import job

from tests.runner.clocks import Clock
from tests.runner.jobs import job_of

TRACE = "Traceback (most recent call last):\n  File 'train.py', line 3\n"
# A real line of each kind; class, entry, reason.
SAID = [
    ("OSError: [Errno 28] No space left on device: 's.pt'", 1, "disk", "U6", "no room left"),
    (TRACE + "OSError: [Errno 30] Read-only file system: 's.pt'", 1, "disk", "U47", "a file system can't be written any more"),
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", 1, "oom", "U10", "the GPU ran out of memory"),
    ("RuntimeError: DataLoader worker (pid 4242) is killed by signal: Killed.", 1, "host-oom", "DP9", "host memory ran out"),
    ("This might be caused by insufficient shared memory (shm).", 1, "host-oom", "DP15", "too little shared memory for the workers that load data"),
    ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.", 137, "host-oom", "DP9", "host memory ran out"),
    ("RuntimeError: CUDA error: no kernel image is available for execution", 1, "gpu", "ENV1", "torch has no kernels for this GPU"),
    ("The NVIDIA driver on your system is too old", 1, "gpu", "ENV6", "the driver does not fit torch"),
    ("RuntimeError: No CUDA GPUs are available", 1, "gpu", "ENV22", "the program saw no GPU"),
    ("RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable", 1, "gpu", "HW8", "another process holds the GPU"),
    ("RuntimeError: CUDA error: uncorrectable ECC error encountered", 1, "gpu", "", "the GPU or its driver failed"),
    ("[E] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)", 134, "hang", "D20", "a collective operation timed out"),
    ("  exitcode  : -9 (pid: 4242)", 1, "killed", "", "killed by signal 9 from outside"),
    ("", 137, "killed", "", "killed by signal 9 from outside"),
    ("", 143, "killed", "", "ended by signal TERM from outside"),
    ("errno: 98 - Address already in use", 1, "network", "D4", "the port is taken"),
    (TRACE + "ConnectionError: Max retries exceeded with url: /api", 1, "network", "", "a connection failed"),
    (TRACE + "ValueError: wrong shape", 1, "bug", "", "the program failed with exit status 1"),
    ("", 2, "bug", "", "the program failed with exit status 2"),
    ("", 139, "unknown", "", "exit status 139 (signal SEGV)"),
    ("", 3, "unknown", "", "exit status 3"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def kernel(monkeypatch) -> list[str]:
    """The kernel's log of a quiet machine."""
    lines: list[str] = []
    monkeypatch.setattr(collectors, "kernel_log", lambda: "\n".join(lines))
    monkeypatch.setattr(memory, "_machine", lambda: 0)
    return lines


@pytest.fixture
def make(tmp_path):
    """Make a run whose log says something: make('CUDA out of memory', gpus=1)."""

    def made(said: str = "", **fields) -> Run:
        given = {
            "rendered": {"run_dir": str(tmp_path / "run"), "cgroup": str(tmp_path / "cgroup")},
            "gpus": 1,
        }
        run = Run(job_of({"rendered": {"target": "ssh"}}, given, fields), clock=Clock())
        run.folder.make()
        with open(log.path(run, 0), "w") as file:
            file.write(said)
        return run

    return made


def attempt(run: Run, code: int | None = 1, **more) -> why.Attempt:
    return why.Attempt(1, code, 0, None, memory.note_kills(run), collectors.xids(), **more)


def told(run: Run, code: int | None = 1) -> why.Verdict:
    return why.classify(run, attempt(run, code))


@pytest.mark.parametrize(("said", "code", "failure", "entry", "reason"), SAID)
def test_a_failure_is_named_by_its_evidence(make, said, code, failure, entry, reason):
    assert told(make(said), code) == (failure, entry, reason)


def test_what_a_killed_program_said_long_before_is_not_why_it_was_killed(make):
    run = make("CUDA out of memory: batch skipped\n" + "step\n" * 3000)
    assert told(run, 137).failure == "killed"
    assert told(run, 1).failure == "oom"


def test_a_cache_on_a_read_only_file_system_is_not_why_a_later_bug_ended_it(make):
    early = "mkdir /cache: Read-only file system\n"
    assert told(make(early + "step\n" * 3000 + TRACE + "ValueError: x")).failure == "bug"


def test_a_connection_that_was_lost_long_before_was_got_over(make):
    assert told(make("Connection reset by peer\n" + "step\n" * 10_000)).failure == "unknown"


def test_only_the_attempts_own_log_counts(make):
    run = make("CUDA out of memory")
    with open(log.path(run, 1), "w") as file:
        file.write("hello")
    ended = attempt(run)
    ended.log_first = 1
    assert why.classify(run, ended).failure == "unknown"


def test_a_job_without_a_gpu_fails_for_want_of_one_or_of_the_machines_memory(make, kernel):
    assert told(make("No CUDA GPUs are available", gpus=0)).failure == "gpu"
    assert told(make("CUDA out of memory", gpus=0)).failure == "unknown"
    said = "RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes"
    assert told(make(said, gpus=0))[:2] == ("host-oom", "DP9")
    assert told(make(said, gpus=1))[:2] == ("oom", "U10")
    run = make("", gpus=0)
    ended = attempt(run)
    kernel.append("NVRM: Xid (PCI:0000:3b:00): 79")
    assert why.classify(run, ended).failure == "unknown"


def test_a_new_xid_is_a_failure_of_the_gpu_and_an_old_one_is_not(make, kernel):
    run = make()
    kernel.append("NVRM: Xid (PCI:0000:3b:00): 48, pid=1, name=python3")
    ended = attempt(run)
    assert why.classify(run, ended).failure == "unknown"
    kernel.append("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus")
    assert why.classify(run, ended)[::2] == ("gpu", "the GPU or its driver failed (Xid 79)")


def test_an_xid_of_the_programs_own_fault_is_a_bug(make, kernel):
    """On an H100 a device-side assert leaves Xid 43 behind, and the card is well."""
    run = make(TRACE + "torch.AcceleratorError: CUDA error: device-side assert triggered\n")
    ended = attempt(run)
    kernel.append("NVRM: Xid (PCI:0000:00:06): 43, pid=1285, name=python3, channel 0x0000000a")
    assert why.classify(run, ended).failure == "bug"


def test_a_neighbours_kill_does_not_name_the_class(make, kernel, monkeypatch):
    run = make(TRACE + "RuntimeError: boom")
    ended = attempt(run, pids={77})
    kernel.append("Out of memory: Killed process 4242 (java) total-vm:9kB")
    monkeypatch.setattr(memory, "_machine", lambda: 1)
    assert why.classify(run, ended).failure == "bug"


def test_a_kill_of_a_process_of_ours_is_a_want_of_host_memory(make, kernel, monkeypatch):
    monkeypatch.setattr(memory, "_is_first_namespace", lambda: True)
    run = make("CUDA out of memory: batch skipped", rendered={"target": "slurm"})
    ended = attempt(run, pids={77})
    kernel.append("Out of memory: Killed process 77 (python3) total-vm:9kB")
    assert why.classify(run, ended)[:2] == ("host-oom", "SLURM4")


def test_a_kill_that_nobody_explains_is_retried_with_memory_as_likely(make, monkeypatch):
    run = make()
    ended = attempt(run, 137)
    monkeypatch.setattr(memory, "_machine", lambda: 1)
    failure, _, reason = why.classify(run, ended)
    assert failure == "killed" and "memory is likely" in reason


def test_a_full_folder_is_named(make, tmp_path, monkeypatch):
    run = make("No space left on device", checkpoint={"folder": str(tmp_path / "full")})
    monkeypatch.setattr(why, "_is_full", lambda folder: folder.endswith("full"))
    assert told(run).reason == f"no room left in {tmp_path / 'full'}"


def test_a_place_that_hangs_does_not_hold_up_the_verdict(make, monkeypatch):
    def call(run, function, folder, limit):
        assert limit <= 10
        raise why.child.Failed("no answer")

    monkeypatch.setattr(why.child, "call", call)
    assert told(make(TRACE, durable={"to": "/mnt/gone"})).failure == "bug"


def test_an_end_that_nobody_saw_is_judged_by_what_is_there(make, tmp_path):
    result = tmp_path / "model.pt"
    run = make("", results=[str(result)])
    assert told(run, None).failure == "killed"
    result.write_text("weights")
    assert told(run, None)[:2] == ("", "")
    failed = make(TRACE + "OSError: [Errno 28] No space left on device", results=[str(result)])
    assert told(failed, None).failure == "disk"
    torch = tmp_path / "torch.pt"
    torch.write_bytes(b"PK\3\4 and no end")
    assert told(make("", results=[str(torch)]), None).failure == "killed"
    run = make("", results=[str(result)])
    run.spec.final_step = 60
    ended = attempt(run, None)
    ended.step = 59
    assert why.classify(run, ended).failure == "killed"
    ended.step = 60
    assert why.classify(run, ended).failure == ""
    result.unlink()
    assert told(make(TRACE, results=[str(result)]), None).failure == "bug"


def test_a_platform_has_entries_of_its_own(make):
    assert failures.entry_of(make(rendered={"profile": "runpod"}).spec, "disk") == "RP11"
    assert failures.entry_of(make(rendered={"target": "kubernetes"}).spec, "disk") == "K8S5"
    assert failures.entry_of(make(rendered={"profile": "other"}).spec, "disk") == "U6"
    assert failures.entry_of(make().spec, "nothing") == ""


def test_the_classes_of_a_job_are_those_of_the_table():
    named = set(job.Failure.__args__)
    rows = [row.name for row in failures.FAILURES]
    assert len(rows) == len(set(rows)) and named <= set(rows)
    assert {failure for _, _, failure, _, _ in SAID} <= set(rows)


def contradictions(pairs, retried, advice) -> list[str]:
    """Where a class is tried again although an entry calls that pointless, or the reverse."""
    wrong = []
    for failure, entry in sorted(pairs):
        if retried[failure] and advice[entry] == "pointless":
            wrong.append(f"{failure} is tried again, {entry} calls that pointless")
        if not retried[failure] and advice[entry] == "may help":
            wrong.append(f"{failure} is not tried again, which may help by {entry}")
    return wrong


def test_no_class_is_retried_against_what_its_entry_says(make, monkeypatch):
    monkeypatch.setattr(why, "full_folder", lambda run: "")
    known = bundle.load()
    platforms = {place for _, place, _ in failures.ENTRIES} - {"*"}
    pairs = {
        verdict[:2]
        for said, code, *_ in SAID
        for place in ("", *platforms)
        if (verdict := told(make(said, rendered={"profile": place}), code)).entry
    }
    assert {"disk", "oom", "host-oom", "gpu", "hang", "network"} == {name for name, _ in pairs}
    advice = {entry: known.get(entry).retry for _, entry in pairs}
    retried = {row.name: row.retries for row in failures.FAILURES}
    assert contradictions(pairs, retried, advice) == []
    assert contradictions({("hang", "X"), ("disk", "Y")}, retried, {"X": "pointless", "Y": "may help"}) == [
        "disk is not tried again, which may help by Y",
        "hang is tried again, X calls that pointless",
    ]  # fmt: skip


@pytest.mark.parametrize("entry", sorted({entry for _, _, entry in failures.ENTRIES}))
def test_an_entry_that_a_failure_names_is_in_the_catalogue(entry):
    found = bundle.load().get(entry)
    assert found.domain in DOMAINS and found.retry
    assert re.fullmatch(r"[A-Z]+[0-9A-Z]*", entry)


def test_every_refusal_with_a_name_has_an_entry():
    """A name that is in no table would refuse without a word on what to do."""
    folder = Path(preflight.__file__).parent
    text = "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    names = set(re.findall(r'refuse\(\s*run,\s*"([a-z][a-z-]*)"', text))
    names |= set(
        re.findall(r'\(\s*"([a-z][a-z-]*)", f?"', inspect.getsource(preflight.judge_folder))
    )
    on_some_platforms = {"python", "secret"}
    tells_itself = {"absent"}  # its text names what is missing; any entry would say less
    general = {kind for kind, place, _ in failures.ENTRIES if place == "*"}
    assert (
        {"disk", "inodes", "clock", "no-gpu"} <= names <= general | on_some_platforms | tells_itself
    )
