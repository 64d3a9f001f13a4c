"""What to do next: the runner, `rgt status` and a look-up say the same of the same end."""

import json
import zipfile

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.logs.kernel.xids import XID
from remote_gpu_trainer.lookup.answer import answer_for
from remote_gpu_trainer.lookup.decisions import KILLED as KILLED_BY_9
from remote_gpu_trainer.runner import failures, why
from remote_gpu_trainer.runner.context import Run
from remote_gpu_trainer.runner.state import StateFile
from remote_gpu_trainer.runs.status_reply import status_from

from tests.runner.clocks import Clock
from tests.runner.jobs import job_of
from tests.runner.test_why import SAID, attempt, kernel, make  # noqa: F401  (fixtures)

HANGS = ("D19", "D20")  # what the ranks say decides, not the entry
# The class that a kind of evidence belongs to; `why.classify` and the preflight give them.
CLASS_OF = {
    "inodes": "disk", "unwritable": "disk", "read-only": "disk", "timelimit": "preempted",
    "secret": "preflight", "python": "preflight", "clock": "preflight", "crlf": "preflight",
    "shm": "host-oom", "port": "network", "corrupt": "bug", "lost": "bug",
    **dict.fromkeys(("no-gpu", "kernel", "driver", "busy", "held", "unseen", "in-use"), "gpu"),
}  # fmt: skip
STEPS = "".join(f"step {n} loss {3 - n / 10:.2f}\n" for n in range(9))
CRASH = 'Traceback (most recent call last):\n  File "/root/train.py", line 3, in <module>\n    f()\nRuntimeError: boom\n'


def of_log(tmp_path, text):
    log = tmp_path / "train.log"
    log.write_text(text)
    decision = answer_for(log=str(log)).decision
    return decision and decision["do"]


def of_status(phase, **told):
    reply = {"phase": phase, "alive": False, **told}
    return status_from(
        "box", f"rgt-dir /r\nrgt-status\n{json.dumps(reply)}", False, "", 0.0
    ).decision


@pytest.mark.parametrize(("said", "code", "failure", "entry", "reason"), SAID)
def test_runner_status_and_look_up_decide_alike_on_the_log_of_each_class(
    make,
    said,
    code,
    failure,
    entry,
    reason,
):
    verdict = why.classify(make(said), attempt(make(said), code))
    by_runner = failures.decide(verdict.failure, verdict.entry)
    by_status = of_status("failed", **{"class": verdict.failure, "entry": verdict.entry})
    assert by_status == failures.as_answer(by_runner)
    by_look_up = answer_for(text=said or "Killed").decision
    if verdict.failure == "killed" and by_look_up:
        # The runner asks the kernel whether memory ran out, a log can't.
        assert by_look_up["do"] == "fix_first" and "memory" in by_look_up["why"]
    elif said and by_look_up:
        assert by_look_up["do"] == by_runner.do


def test_the_look_up_decides_on_the_log_of_nearly_every_class():
    decided = {name for said, _, name, _, _ in SAID if said and answer_for(text=said).decision}
    assert decided >= {"disk", "oom", "host-oom", "gpu", "hang", "killed", "network", "bug"}


@pytest.mark.parametrize("name", [row.name for row in failures.FAILURES])
def test_every_class_has_one_decision_for_runner_notice_and_status(name, tmp_path):
    run = Run(make_spec(tmp_path), clock=Clock())
    run.folder.make()
    now = StateFile(run)
    now.phase = "preempted" if name in ("preempted", "deadline") else "failed"
    now.failure, now.reason, now.checkpoint = name, "why", "/ckpt/step-9.pt"
    wanted = failures.as_answer(failures.decide(name), "/ckpt/step-9.pt")
    assert now.decision() == wanted
    told = {"class": name, "reason": "why", "checkpoint": "/ckpt/step-9.pt"}
    assert of_status(now.phase, **told) == wanted
    assert wanted["do"] in failures.DECISIONS and len(wanted["why"].split()) <= 14
    now.again = failures.TWICE
    if wanted["do"] == "restart" and name != "preempted":
        assert now.decision() == {**wanted, "do": "fix_first", "why": failures.TWICE}


def make_spec(tmp_path):

    return job_of({"rendered": {"target": "ssh", "run_dir": str(tmp_path / "run")}, "gpus": 0})


@pytest.mark.parametrize(
    ("error", "why"),
    [
        ("RuntimeError: element 0 of tensors does not require grad", "O3 repeats until"),
        (
            "RuntimeError: CUDA error: no kernel image is available for execution on the device",
            "ENV1 repeats",
        ),
        ("RuntimeError: DataLoader worker (pid 9) is killed by signal: Bus error.", "DP15 repeats"),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
            "it needs less",
        ),
        ("OSError: [Errno 28] No space left on device: 's.pt'", "the disk needs room"),
        ("RuntimeError: boom", "the same start would most likely fail in the same way"),
    ],
)
def test_what_decides_is_named(error, why):
    decision = answer_for(text=CRASH.replace("RuntimeError: boom", error)).decision
    assert decision["do"] == "fix_first" and decision["why"].startswith(why)


def test_an_entry_decides_the_same_where_the_runner_names_it():
    entries = bundle.load_cache()
    for kind, _, name in failures.ENTRIES:
        if name not in HANGS:
            entry = entries[name]
            by_entry = failures.of_entry(name, entry.domain, entry.retry)
            assert failures.decide(CLASS_OF.get(kind, kind), name).do == by_entry, (kind, name)


def test_no_entry_about_which_a_start_is_pointless_may_be_started_again():
    entries = bundle.load_cache()
    for do, names in failures.ENTRY_DECISIONS.items():
        for name in names:
            assert do == "fix_first" or entries[name].retry != "pointless", name
    pointless = {e.id: e for e in entries.values() if e.retry == "pointless"}
    assert {failures.of_entry(e.id, e.domain, e.retry) for e in pointless.values()} == {"fix_first"}


def test_ends_of_a_run_that_is_no_failure():
    assert of_status("done", exit=0)["do"] == "stop"
    assert of_status("unsaved")["do"] == "fix_first"
    stopped = {"class": "preempted", "reason": "asked", "checkpoint": "/c/step-4"}
    assert of_status("preempted", **stopped)["resume_from"] == "/c/step-4"
    assert of_status("preempted", **stopped)["do"] == "stop"
    assert (
        of_status("preempted", **{"class": "preempted", "reason": "signal TERM"})["do"] == "restart"
    )
    assert of_status("running")["do"] == "restart", "its processes are gone"
    assert of_status("running", alive=True) is None


@pytest.mark.parametrize(
    ("end", "do"),
    [
        ("slurmstepd: error: *** JOB 7 ON n4 CANCELLED AT 2025-12-21T01:31:22 DUE TO TIME LIMIT ***", "restart"),
        ("slurmstepd: error: *** JOB 7 ON n4 CANCELLED AT 2025-12-21T01:31:22 DUE TO PREEMPTION ***", "restart"),
        ("slurmstepd: error: *** JOB 7 ON n4 CANCELLED AT 2025-12-21T01:31:22 DUE TO NODE FAILURE ***", "restart_elsewhere"),
        ("slurmstepd: error: *** JOB 7 ON n4 CANCELLED AT 2025-12-21T01:31:22 DUE TO JOB REQUEUE ***", "wait"),
        ("slurmstepd: error: *** JOB 7 ON n4 CANCELLED AT 2025-12-21T01:31:22 ***", "stop"),
        ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.", "fix_first"),
        ("TERM_OWNER: job killed by owner.", "stop"),
        ("=>> PBS: job killed: walltime 3624 exceeded limit 3600", "restart"),
        ("^C", "stop"),
        ("train.sh: line 12: 4711 Terminated              python train.py", "restart"),
        ("Training completed. Do not forget to share your model on huggingface.co/models =)", "stop"),
        ("`Trainer.fit` stopped: `max_epochs=10` reached.", "stop"),
        ("step 9 loss 2.05", None),
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.", "restart_elsewhere"),
    ],
)  # fmt: skip
def test_the_end_of_a_log_decides(tmp_path, end, do):
    assert of_log(tmp_path, f"{STEPS}{end}\n") == do


KERNELS = "NVRM: Xid (PCI:0000:3b:00): {}, pid=1, name=python, x"
XIDS = [code for code in XID if code not in (144, 145, 146, 147, 148, 149, 154)]  # their line tells


@pytest.mark.parametrize("form", [KERNELS, "dmesg shows NVRM: Xid (PCI:0000:3b:00): {}"])
def test_an_xid_that_health_doesnt_let_train_is_not_started_on_the_same_box(form):
    levels = {code: XID[code][0] for code in XIDS} | {186: "unknown", 9999: "unknown"}
    wrong = {
        code: (level, decision)
        for code, level in levels.items()
        if level in ("fatal", "degraded", "unknown")
        and (decision := answer_for(text=form.format(code)).decision or {"do": ""})
        and (decision["do"] != "restart_elsewhere" or f"Xid {code}" not in decision["why"])
    }
    assert not wrong


@pytest.mark.parametrize("code", [8, 13, 31, 43, 45])
@pytest.mark.parametrize("form", [KERNELS, "dmesg shows NVRM: Xid (PCI:0000:3b:00): {}"])
def test_an_xid_of_a_well_card_sends_nobody_elsewhere(form, code):
    decision = answer_for(text=form.format(code)).decision
    assert decision is None or decision["do"] != "restart_elsewhere"


@pytest.mark.parametrize("code", [46, 62, 74])
@pytest.mark.parametrize("words", ["what does Xid {} mean", "Xid {}", "XID: {} on GPU 3"])
def test_an_xid_that_somebody_only_names_decides_too(words, code):
    assert answer_for(text=words.format(code)).decision["do"] == "restart_elsewhere"


def test_a_failure_before_a_cancelled_step_decides(tmp_path):
    """srun cancels the step of a task that failed, and says so in the same words as scancel."""
    cancelled = "slurmstepd: error: *** STEP 7.0 ON n4 CANCELLED AT 2025-12-21T01:31:22 ***\n"
    assert of_log(tmp_path, STEPS + CRASH + cancelled) == "fix_first"
    task = "srun: error: n4: task 0: Segmentation fault\n"
    assert of_log(tmp_path, STEPS + task + cancelled) != "stop"
    job = cancelled.replace("STEP 7.0", "JOB 7")
    assert of_log(tmp_path, STEPS + cancelled + job) == "stop"


def test_a_log_that_goes_on_to_its_end_behind_an_error_is_done(tmp_path):
    assert of_log(tmp_path, CRASH + STEPS + "Training finished\n") == "stop"
    assert of_log(tmp_path, STEPS + "Training finished\n" + CRASH) == "fix_first"


KILLED = "train.sh: line 12: 4711 Killed                  python train.py\n"
LOST = CRASH.replace(
    "RuntimeError: boom",
    "requests.exceptions.ConnectionError: Max retries exceeded with url: /api",
)


def test_the_same_failure_at_the_same_step_twice_is_not_started_again(tmp_path):
    assert answer_for(text=STEPS + KILLED).decision["why"] != failures.TWICE
    twice = f"{STEPS}{KILLED}nohup: ignoring input\n{STEPS}{KILLED}"
    log = tmp_path / "twice.log"
    log.write_text(twice)
    assert answer_for(log=str(log)).decision["why"] == failures.TWICE
    further = f"{STEPS}{KILLED}nohup: ignoring input\n{STEPS}step 9 loss 2.0\n{KILLED}"
    log.write_text(further)  # led to memory, and not said to fail again
    assert answer_for(log=str(log)).decision["why"] == KILLED_BY_9


def test_the_same_failure_in_two_attempts_of_torchrun(tmp_path):
    for attempt_, last in ((0, ""), (1, "")):
        folder = tmp_path / "logs" / f"attempt_{attempt_}" / "0"
        folder.mkdir(parents=True)
        (folder / "stdout.log").write_text(STEPS + last)
        error = "requests.exceptions.ConnectionError: Max retries exceeded with url: /api"
        (folder / "stderr.log").write_text(CRASH.replace("RuntimeError: boom", error))
    answer = answer_for(log=str(tmp_path / "logs"))
    assert answer.decision["do"] == "fix_first" and answer.decision["why"] == failures.TWICE


def test_it_goes_on_from_the_newest_whole_checkpoint_beside_the_log(tmp_path):
    (tmp_path / "train.log").write_text(STEPS + LOST)
    assert answer_for(log=str(tmp_path)).decision.get("resume_from") is None
    for step in (100, 200):
        folder = tmp_path / "checkpoints" / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        with zipfile.ZipFile(folder / "model.bin", "w") as archive:
            archive.writestr("data.pkl", b"x" * 1000)
    newest = tmp_path / "checkpoints" / "checkpoint-200"
    assert answer_for(log=str(tmp_path)).decision["resume_from"] == str(newest)
    weights = newest / "model.bin"
    weights.write_bytes(weights.read_bytes()[:500])  # cut short
    whole = tmp_path / "checkpoints" / "checkpoint-100"
    assert answer_for(log=str(tmp_path)).decision["resume_from"] == str(whole)


def test_the_folder_of_a_run_remembers_its_newest_whole_checkpoint(tmp_path):
    (tmp_path / "train.log").write_text(STEPS + LOST)
    saved = tmp_path / "out" / "step_9.pt"
    saved.parent.mkdir()
    saved.write_bytes(b"x")
    (tmp_path / "state.json").write_text(json.dumps({"core": {"last_whole": str(saved)}}))
    assert answer_for(log=str(tmp_path)).decision["resume_from"] == str(saved)
    saved.unlink()
    assert not answer_for(log=str(tmp_path)).decision.get("resume_from")


def test_a_bare_kill_leads_to_memory_and_never_to_a_plain_restart(tmp_path):
    (tmp_path / "train.log").write_text(STEPS + KILLED)
    answer = answer_for(log=str(tmp_path / "train.log"))
    assert answer.matches[0]["id"] == "M3" and answer.decision["do"] == "fix_first"
    assert "memory" in answer.decision["why"]


LOADING = "Loading checkpoint shards:  57%|█████▋    | 4/7 [00:42<00:31, 10.5s/it]\n"
SIGNAL_9 = (
    "Root Cause (first observed failure):\n[0]:\n  rank      : 0 (local_rank: 0)\n"
    "  exitcode  : -9 (pid: 4733)\n  traceback : Signal 9 (SIGKILL) received by PID 4733\n"
)


@pytest.mark.parametrize("log", [LOADING + SIGNAL_9, LOADING + STEPS + SIGNAL_9])
def test_a_kill_is_not_started_again_before_somebody_looked_for_memory(tmp_path, log):
    assert of_log(tmp_path, log) == "fix_first"


def test_a_bare_config_json_gets_its_memory_and_no_entry(tmp_path):
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
        "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
        "vocab_size": 32000,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    alone = answer_for(log=str(tmp_path / "config.json"))
    assert (alone.matches, alone.also, alone.decision) == ([], [], None)
    assert alone.ask.startswith("By its config.json the model has 6.738B weights")
    asked = answer_for(text="CUDA out of memory", log=str(tmp_path / "config.json"))
    assert asked.matches[0]["id"] == "U10"


@pytest.mark.parametrize(
    "text", ["How do I keep a model loaded?", "what does runpod bill after a stop?", "D9"]
)
def test_a_question_without_a_failed_run_gets_no_decision(text):
    answer = answer_for(text=text)
    assert answer.decision is None and "decision" not in answer.as_dict()


def test_an_exception_that_names_sigkill_leads_to_memory_and_to_no_plain_restart():
    text = "WorkerLostError: Worker exited prematurely: signal 9 (SIGKILL) Job: 10."
    assert answer_for(text=text).decision == {"do": "fix_first", "why": KILLED_BY_9}
