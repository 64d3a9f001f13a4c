"""The core's decisions, each as a table: what was seen, and what follows. No clock, no file, no process."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import core, failures
from remote_gpu_trainer.runner.core import (
    attempts,
    box,
    copying,
    ends,
    holding,
    phases,
    resume,
    stop,
    supervise,
    watching,
)
from remote_gpu_trainer.runner.core import decide as deciding
from remote_gpu_trainer.runner.core.attempts import Again, Over, Tries
from remote_gpu_trainer.runner.core.box import Box, End
from remote_gpu_trainer.runner.core.decide import (
    _STEPS,
    State,
    decide,
    is_over,
    start_again,
    take_up,
)
from remote_gpu_trainer.runner.core.ends import exit_code
from remote_gpu_trainer.runner.core.model import (
    AboutRunner,
    Ask,
    AwaitSave,
    Begin,
    Check,
    Command,
    Copy,
    CutCopy,
    EndBox,
    Exit,
    Fetch,
    Folder,
    Hold,
    Kept,
    Kill,
    Local,
    Mark,
    Note,
    NoteExit,
    NoteFailure,
    Quarantine,
    Restore,
    Save,
    Seen,
    SetAside,
    Signal,
    Signs,
    Snapshot,
    Stage,
    Start,
    Tell,
    Verdict,
    Worker,
    as_json,
    of_json,
)
from remote_gpu_trainer.runner.core.stop import OVER, SAVE, SIGNAL, WAIT, Request, Window

from tests.runner.jobs import job_of

PURE = {"__future__", "re", "typing", "text.masking", "runner.failures", "runner.end_words"}


@pytest.mark.parametrize(
    "path", sorted(Path(core.__file__).parent.glob("*.py")), ids=lambda p: p.stem
)
def test_the_core_has_no_clock_no_file_and_no_process(path):
    package = ["runner", "core"]
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            names = [".".join([*above, node.module or ""]).rstrip(".")]
            if not node.module:
                names = [f"{names[0]}.{alias.name}" for alias in node.names]
        for name in names:
            assert name in PURE or name.startswith("runner.core"), f"{path.name} imports {name}"
        assert not (isinstance(node, ast.Name) and node.id in ("open", "print", "input")), path.name


# How an attempt ended, and what it came to.

BY_EVIDENCE = Verdict("unknown", "", "by its evidence")
BROKEN = "the program ended, but a result is broken: a.pt"
ONE_MISSING = "the program ended, but 1 expected files are missing, first a.pt"
TWO_MISSING = "the program ended, but 2 expected files are missing, first a.pt"
TOUCH = "; b is from before this run and was not written again (touch it if it is the result)"
SHORT = "cut short: it ended with 0 "


def judged(given: dict, asked: str = "", stalled: str = "", nan: str = "", tries=Tries(), **job):  # noqa: B008
    ended = Exit(evidence=BY_EVIDENCE)._replace(**given)
    _, verdict, _ = attempts.judge_attempt(job_of(job), tries, ended, asked, stalled, nan)
    return verdict.failure, verdict.reason


@pytest.mark.parametrize(
    ("given", "more", "failure", "reason"),
    [
        ({}, {}, "", ""),
        ({"remark": "it is odd"}, {}, "", "it is odd"),
        ({"corrupt": ("a.pt",)}, {}, "bug", BROKEN),
        ({"corrupt": ("a.pt",), "missing": ("a.pt",)}, {}, "bug", ONE_MISSING),
        ({"missing": ("a.pt", "b"), "stale": ("b",)}, {}, "bug", TWO_MISSING + TOUCH),
        ({"missing": ("a.pt",), "newest": "new"}, {}, "killed", SHORT + "without a.pt"),
        ({"missing": ("a.pt",), "newest": "old", "began": "old"}, {}, "bug", ONE_MISSING),
        ({"step": 60}, {"final_step": 60}, "", ""),
        ({"step": 3}, {"final_step": 60}, "bug", "it ended with 0 at step 3 of 60"),
        ({"step": 3, "newest": "new"}, {"final_step": 60}, "killed", SHORT + "at step 3 of 60"),
        ({"step": None}, {"final_step": 60}, "bug", "it ended with 0 at step none of 60"),
        # Where no step was printed at all, a save shows that it trained.
        ({"step": None, "newest": "new"}, {"final_step": 60}, "", ""),
        ({"is_signalled": True}, {}, "killed", SHORT + "after a signal from outside"),
        # Who names its results or its last step is believed about them alone.
        ({"is_signalled": True}, {"results": ["a"]}, "", ""),
        ({"is_signalled": True, "step": 5}, {"final_step": 5}, "", ""),
        ({"code": 1}, {}, "unknown", "by its evidence"),
        ({"code": 1, "corrupt": ("a.pt",)}, {}, "unknown", "by its evidence"),
        ({"code": 1, "unstarted": "setup: line 1 failed"}, {}, "setup", "setup: line 1 failed"),
        ({"code": None, "evidence": Verdict("", "", "all is there")}, {}, "", "all is there"),
    ],
)  # fmt: skip
def test_what_an_end_came_to_that_nobody_asked_for(given, more, failure, reason):
    assert judged(given, **more) == (failure, reason)


@pytest.mark.parametrize(
    ("given", "asked", "stalled", "failure", "reason"),
    [
        ({"code": 143}, "signal TERM", "", "preempted", "signal TERM"),
        ({"code": 137}, "deadline", "", "deadline", "deadline"),
        ({"code": 0}, "asked", "", "preempted", "asked"),
        ({"code": 1, "unstarted": "setup"}, "asked", "", "preempted", "asked"),
        # Its results weren't there when it was asked, and are now: it came to its end.
        ({"owed": ("a.pt",)}, "asked", "", "", ""),
        ({"owed": ("a.pt",), "missing": ("a.pt",)}, "asked", "", "preempted", "asked"),
        ({"code": 137}, "", "no step for 60 s", "stall", "no step for 60 s"),
        ({"code": 137}, "deadline", "no step for 60 s", "stall", "no step for 60 s"),
        ({"code": 0}, "", "no step for 60 s", "stall", "no step for 60 s"),
    ],
)
def test_our_own_flags_come_before_all_evidence(given, asked, stalled, failure, reason):
    assert judged(given, asked, stalled) == (failure, reason)


def test_a_scheduler_that_gives_its_reason_names_the_entry():
    job = job_of({"rendered": {"target": "slurm"}})
    ended = Exit(143, is_timelimit=True)
    _, verdict, _ = attempts.judge_attempt(job, Tries(), ended, "signal USR1", "", "")
    assert verdict == ("preempted", "SLURM2", "signal USR1")


@pytest.mark.parametrize(
    ("code", "asked", "on_nan", "failure", "reason"),
    [
        (1, "", "tell", "unknown", "by its evidence; the loss is nan"),
        (0, "", "tell", "", "the loss is nan"),
        (0, "", "stop", "nan", "the loss is nan"),
        (137, "", "stop", "nan", "the loss is nan"),
        (137, "asked", "stop", "preempted", "asked; the loss is nan"),
    ],
)
def test_a_loss_of_nan_is_told_and_ends_a_run_whose_job_says_so(
    code, asked, on_nan, failure, reason
):
    assert judged({"code": code}, asked, nan="the loss is nan", on_nan=on_nan) == (failure, reason)


def test_cut_short_at_the_same_step_again_is_no_reason_for_a_third_try():
    again = Tries(short_at=3)
    assert judged({"step": 3, "is_signalled": True}, tries=again) == ("", "")
    missing = {"step": 3, "missing": ("a.pt",), "newest": "new"}
    assert judged(missing, tries=again)[0] == "bug" and judged(missing)[0] == "killed"


# What follows it.

KILLED, BUG, NETWORK = Verdict("killed", "", "kill"), Verdict("bug", "", "bug"), Verdict("network")
OOM, DISK, GPU = Verdict("oom", "", "oom"), Verdict("disk", "", "full"), Verdict("gpu")
PREEMPTED = Verdict("preempted", "", "notice")


def attempt(
    verdict: Verdict, step: int | None = None, newest: str = "", **more
) -> tuple[Verdict, Exit]:
    return verdict, Exit(code=1, step=step, newest=newest)._replace(**more)


def follow(*ends: tuple[Verdict, Exit], tries: Tries = Tries(), **job) -> Again | Over:  # noqa: B008
    """What follows the last of these attempts, which ended a minute apart."""
    of, then = job_of({"timings": {"retry_wait": 5.0, "room_wait": 600.0}}, job), None
    for number, (verdict, ended) in enumerate(ends):
        assert not isinstance(then, Over), f"nothing follows the end {number}: {then}"
        tries, then = attempts.after_exit(of, tries, verdict, ended, "", 60.0 * number)
    assert then is not None
    return then


TWICE = "; the same failure at the same step twice, with no newer checkpoint between"


@pytest.mark.parametrize(
    ("ends", "job", "follows"),
    [
        ([attempt(Verdict())], {}, Over(Verdict(), 1, "")),
        ([attempt(KILLED, 3)], {}, Again(5.0, 0.0)),
        ([attempt(NETWORK, 1)], {}, Again(20.0, 0.0)),
        ([attempt(NETWORK, 1), attempt(NETWORK, 2)], {}, Again(40.0, 0.0)),
        ([attempt(PREEMPTED)], {}, Again(0.0, 0.0)),
        # Some tracebacks tell of a moment; where memory ran out at the same step, no third follows.
        ([attempt(BUG, 3)], {}, Again(5.0, 0.0)),
        (
            [attempt(OOM, 12, "a", saved_step=10), attempt(OOM, 12, "a", began="a")],
            {}, Over(OOM._replace(reason="oom" + TWICE), 1, failures.TWICE),
        ),
        ([attempt(GPU, 3)], {}, Over(GPU, 1, "")),
        ([attempt(DISK, 3)], {}, Over(DISK, 1, "")),
        # A full disk may have room again: after progress it is tried once, and waited for.
        ([attempt(DISK, 3, "a", saved_step=3)], {}, Again(5.0, 600.0)),
        ([attempt(OOM, 3, "a", saved_step=3)], {}, Again(5.0, 0.0)),
        ([attempt(OOM, 3, has_copied=True)], {}, Again(5.0, 0.0)),
        ([attempt(DISK, 3, has_saved=True)], {}, Again(5.0, 600.0)),
        ([attempt(OOM, 3, "a", began="a")], {}, Over(OOM, 1, "")),
        ([attempt(OOM, 3)], {"retries": {"oom": 1}}, Again(5.0, 0.0)),
        ([attempt(KILLED, 3)], {"retries": {"killed": 0}}, Over(KILLED, 1, "")),
        (
            [attempt(KILLED, 3), attempt(KILLED, 3)],
            {}, Over(KILLED._replace(reason="kill" + TWICE), 1, failures.TWICE),
        ),
        ([attempt(KILLED, 3), attempt(KILLED, 3, "new", saved_step=3)], {}, Again(5.0, 0.0)),
        ([attempt(KILLED, 3), attempt(KILLED, 4)], {}, Again(5.0, 0.0)),
        (
            [attempt(KILLED, 1), attempt(KILLED, 2), attempt(KILLED, 3), attempt(KILLED, 4)],
            {}, Over(KILLED._replace(reason="kill; 3 retries are used up"), 1, failures.USED_UP),
        ),
        # An early end was tried again as one that was killed.
        ([attempt(BUG, 3, code=0)], {}, Over(BUG, 0, "")),
        # The other node's failure: it comes at the same step each time.
        ([attempt(NETWORK, 3), attempt(NETWORK, 3)], {"nodes": 2}, Again(40.0, 0.0)),
    ],
)  # fmt: skip
def test_what_follows_an_attempt(ends, job, follows):
    assert follow(*ends, **job) == follows


def test_progress_gives_retries_back():
    saves = [attempt(KILLED, n, f"ckpt-{n}", saved_step=n) for n in range(1, 9)]
    assert follow(*saves) == Again(5.0, 0.0)
    # A checkpoint that is newer and no further gives nothing back.
    again = [attempt(KILLED, 5, f"other-{n}", saved_step=5) for n in range(4)]
    assert isinstance(follow(attempt(KILLED, 9, "c", saved_step=9), *again[:3]), Over)


def test_without_a_step_what_the_next_attempt_could_not_begin_with_is_no_progress():
    silent = [attempt(KILLED, None, f"torn-{n}", has_saved=True, began="good") for n in range(4)]
    used_up = Over(KILLED._replace(reason="kill; 3 retries are used up"), 1, failures.USED_UP)
    assert follow(attempt(KILLED, None, "good", has_saved=True), *silent) == used_up
    gains = [attempt(KILLED, None, str(n), has_saved=True, began=str(n - 1)) for n in range(1, 9)]
    assert follow(*gains) == Again(5.0, 0.0)


def test_a_program_that_begins_anew_each_time_is_not_tried_for_ever():
    ends = [attempt(KILLED, 100, is_anew=True), attempt(KILLED, 90, is_anew=True)]
    told = (
        "kill; it begins anew at each attempt, and failed again before it was further than step 100"
    )
    assert follow(*ends) == Over(Verdict("killed", "", told), 1, failures.ANEW)
    # Before its first step it loses nothing by another try.
    assert isinstance(follow(ends[0], attempt(KILLED, None, is_anew=True)), Again)


def test_a_run_has_so_many_tries_an_hour():
    job = {"timings": {"tries_an_hour": 3, "retry_wait": 5.0}, "retries": {"killed": 99}}
    ends = [attempt(KILLED, n) for n in range(1, 5)]
    assert isinstance(follow(*ends[:3], **job), Again)
    done = follow(*ends, **job)
    assert done == Over(KILLED._replace(reason="kill; 3 tries within an hour"), 1, failures.USED_UP)
    old = Tries(at=(-7200.0, -7100.0, -7000.0))
    assert isinstance(follow(ends[0], tries=old, **job), Again)


def test_a_retry_that_fails_in_another_way_does_not_hide_why_the_run_failed():
    then = follow(attempt(BUG, 3, code=7), attempt(Verdict("disk", "U6", "full"), 3))
    assert then == Over(Verdict("bug", "", "bug; then disk (U6): full"), 7, "")
    # One that came further is another failure.
    assert follow(attempt(BUG, 3), attempt(DISK, 4)) == Over(DISK, 1, "")


def test_who_is_asked_to_end_is_not_tried_again():
    then = attempts.after_exit(job_of(), Tries(), *attempt(PREEMPTED), "asked", 0.0)[1]
    assert then == Over(PREEMPTED, 1, "")


def test_the_same_failure_is_known_across_starts_and_forgotten_by_success():
    tries, _ = attempts.after_exit(job_of(), Tries(), *attempt(KILLED, 3), "", 0.0)
    kept = Tries(last=tries.last)
    assert isinstance(follow(attempt(KILLED, 3), tries=kept), Over)
    tries, _ = attempts.after_exit(job_of(), kept, *attempt(Verdict()), "", 0.0)
    assert tries.last == ""


@pytest.mark.parametrize(
    ("best", "reach", "is_back", "is_further"),
    [
        (None, None, True, True),
        (None, 5, True, True),
        (100, 101, True, True),
        (100, 100, False, False),
        (100, 90, False, False),
        (100, None, False, True),
        (100, None, True, False),
        (0, 5, True, False),
        (0, 5, False, True),
    ],
)
def test_only_what_passes_the_old_best_is_further(best, reach, is_back, is_further):
    assert attempts.is_further(best, reach, is_back) is is_further


def test_tries_survive_as_json_and_what_is_damaged_has_its_default():
    tries, _ = attempts.after_exit(job_of(), Tries(), *attempt(KILLED, 3, "a"), "", 7.0)
    told = json.loads(json.dumps(as_json(tries)))
    assert of_json(Tries, told) == tries and tries.first is not None
    assert of_json(Tries, {**told, "failed": "three", "first": 7}).failed == 0
    assert of_json(Tries, None) == of_json(Tries, {"unknown": 1}) == Tries()


# A request to save and end.

GOES_ON = {"save": Save("/r/ckpt.pt"), "left": 1e9, "save_seconds": 30.0}
GROWS, MANY = Save("/r/ckpt.pt", grows=True), Save("/r/ckpt.pt", is_one=False)


@pytest.mark.parametrize(
    ("why", "waited", "given", "may"),
    [
        ("asked", 59, {}, True),
        ("asked", 60, {}, False),
        ("asked", 60, {"save": GROWS}, True),
        ("asked", 600, {"save": GROWS}, False),
        ("asked", 90, {"save_seconds": 50.0}, True),
        ("asked", 0, {"left": 0}, False),
        ("asked", 0, {"left": 29, "handles": True}, False),
        ("deadline", 500, {"left": 0.5}, True),
        ("deadline", 0, {"left": 0}, False),
        ("deadline", 0, {"left": 29, "handles": True}, False),
        ("deadline", 0, {"left": 31, "handles": True}, True),
        ("notice from gcp", 14, {}, True),
        ("notice from gcp", 15, {"save": GROWS}, False),
        ("signal TERM", 15, {"save": GROWS}, False),
        ("asked", 2, {"save": MANY, "handles": True}, True),
        ("asked", 3, {"save": MANY, "handles": True}, False),
        ("asked", 3, {"save": MANY}, True),
        ("asked", 60, {"save": MANY}, False),
        ("asked", 0, {"save": Save()}, False),
    ],
)
def test_how_long_an_end_waits_for_a_save(why, waited, given, may):
    job = job_of({"rendered": {"notice": "gcp"}})
    seen = Seen(**{**GOES_ON, **given})
    request, do = stop.serve(job, Request(begun=100.0), why, seen, 100.0 + waited)
    assert do == (WAIT if may else SIGNAL)
    assert (request.signalled is None) is may


def test_a_request_signals_once_and_kills_what_has_not_ended_in_its_time():
    job, seen, done = (
        job_of({"checkpoint": {"folder": "c", "save_seconds": 20.0}}),
        Seen(save_seconds=7.0),
        {},
    )
    request = Request()
    for now in range(40):
        request, do = stop.serve(job, request, "asked", seen, float(now))
        if do:
            done[now] = do
    assert done == {0: SIGNAL, 20: stop.KILL, 25: stop.KILL, 30: stop.KILL, 35: stop.KILL}


def test_a_save_that_goes_on_when_its_time_is_over_is_waited_for_once_more():
    job, seen = job_of({"checkpoint": {"folder": "c", "save_seconds": 20.0}}), Seen(save=GROWS)
    request = stop.note_signal(job, Request(begun=0.0), 7.0, 0.0)
    assert stop.serve(job, request, "asked", seen, 79.0)[1] == WAIT
    assert stop.serve(job, request, "asked", seen._replace(save=Save()), 79.0)[1] == stop.KILL
    assert stop.serve(job, request, "asked", seen, 621.0)[1] == stop.KILL
    # Whoever takes the box away soon is waited for from the beginning.
    assert stop.serve(job, request, "signal TERM", seen, 20.0)[1] == stop.KILL


def walk(lefts: list[float], save: float, window: Window = Window()) -> list[str]:  # noqa: B008
    """Where each second lies, by the seconds that are left then."""
    seen = []
    for now, left in enumerate(lefts):
        window, place = stop.look_at_deadline(window, left, save, float(now))
        seen.append(place)
    return seen


def test_a_save_is_asked_for_as_late_as_its_time_allows():
    seen = walk([100.0 - now for now in range(110)], save=4)
    assert seen.index(SAVE) == 92 and seen.index(OVER) == 100


def test_a_clock_that_jumps_over_the_save_takes_nothing_from_it():
    seen = walk([3600.0] * 10 + [-7200.0] * 12, save=4)
    assert seen == [""] * 10 + [SAVE] * 8 + [OVER] * 4


def test_a_deadline_that_is_nearer_than_a_save_is_kept():
    seen = walk([4.0, 3.0, 2.0, 1.0, 0.0], save=30)
    assert seen == [SAVE] * 4 + [OVER]


def test_a_count_that_begins_behind_the_deadline_leaves_a_living_program_its_save():
    late = [-7200.0] * 12
    assert set(walk(late, save=4)) == {OVER}
    assert walk(late, save=4, window=Window(is_wide=True)) == [SAVE] * 8 + [OVER] * 4


@pytest.mark.parametrize(
    ("place", "notice", "who"),
    [("", "", ""), ("", "notice from aws", "notice from aws"), (SAVE, "notice from aws", "deadline"), (OVER, "", "deadline")],
)  # fmt: skip
def test_who_asks_for_an_end(place, notice, who):
    assert stop.who_asks(place, notice) == who


# The end of the box.

PREFLIGHT = {"class": "preflight", "refused": True}
LATE, NOTICE, FAILED = (
    {"class": "deadline"},
    {"class": "preempted", "reason": "notice from aws"},
    {"class": "bug"},
)
CASES = [
    # end, what its marker says, the deadline passed, verified, cases of the job; is it called?
    ("done", {}, False, True, ["done"], True),
    ("done", {}, False, True, ["failed", "deadline"], False),
    ("done", {}, True, True, ["failed", "deadline"], True),
    ("done", {}, False, False, ["done", "failed", "deadline"], False),
    ("failed", FAILED, False, True, ["failed"], True),
    ("failed", FAILED, False, True, ["done", "deadline"], False),
    ("failed", FAILED, False, False, ["failed"], False),
    # The copy is tried again until the deadline.
    ("failed", FAILED, False, False, ["failed", "unsaved"], False),
    ("failed", FAILED, True, False, ["failed", "unsaved"], True),
    ("failed", PREFLIGHT, False, True, ["done", "failed"], False),
    ("failed", PREFLIGHT, True, True, ["failed", "deadline"], True),
    ("preempted", LATE, False, True, ["deadline"], True),
    ("preempted", LATE, True, True, ["done", "failed"], False),
    ("preempted", LATE, True, False, ["deadline"], False),
    ("preempted", LATE, True, False, ["deadline", "unsaved"], True),
    ("preempted", NOTICE, False, True, ["deadline"], False),
    ("preempted", NOTICE, True, True, ["deadline"], True),
    ("unsaved", {}, False, False, ["done", "failed", "deadline"], False),
    ("unsaved", {}, True, False, ["done", "failed", "deadline"], False),
    ("unsaved", {}, False, True, ["done"], True),
    ("unsaved", {}, False, False, ["unsaved"], False),
    ("unsaved", {}, True, False, ["unsaved"], True),
    ("", {}, True, True, ["deadline"], True),
    ("", {}, False, True, ["done", "failed", "deadline", "unsaved"], False),
]  # fmt: skip

BILLED = {
    "name": "toy",
    "rendered": {"billed": True, "end": {"command": ["end"]}},
    "durable": {"to": "/durable"},
    "notify": ["cat"],
}
NO_COMMAND = {"rendered": {"end": {"command": ""}}}


def end_of(name: str, marker: dict) -> End:
    return End(name, marker.get("class", ""), marker.get("reason", ""), "refused" in marker)


class Boxed:
    """A box whose end command does nothing; stepped once a second."""

    def __init__(self, *fields: dict):
        self.job, self.box, self.now, self.told = job_of(BILLED, *fields), Box(), 0.0, []
        self.seen, self.calls = Seen(durable="/durable", script="/r/run.sh"), []

    def go(
        self, seconds: int, end: End, late: float = -1.0, is_safe: bool = True, code: int = 0
    ) -> bool:
        """Whether it said, within so many seconds, that nothing is left to do."""
        for _ in range(seconds):
            self.box, actions, is_over = box.end_box(
                self.job, self.box, end, late, is_safe, self.seen, self.now
            )
            for action in actions:
                if isinstance(action, EndBox):
                    self.calls.append((self.now, action.how, action.case))
                    ended = Command(action.number, code, ": what it said" if code else "")
                    self.seen = self.seen._replace(command=ended)
                elif isinstance(action, Tell):
                    self.told.append(action.text)
            if is_over:
                return True
            self.now += 1
        return False


@pytest.mark.parametrize(("name", "marker", "passed", "is_safe", "when", "is_called"), CASES)
def test_the_box_ends_in_the_cases_that_the_job_names(
    name, marker, passed, is_safe, when, is_called
):
    one = Boxed({"at_end": {"when": when}})
    one.go(3, end_of(name, marker), 0.0 if passed else -1.0, is_safe)
    assert bool(one.calls) == is_called


@pytest.mark.parametrize(
    ("fields", "is_safe", "late", "do"),
    [
        ({}, True, -1, box.RUN),
        ({}, False, -1, box.STAY),
        ({}, False, 10**6, box.STAY),
        ({"rendered": {"stop": {"command": "stop"}}}, False, 3599, box.STAY),
        ({"rendered": {"stop": {"command": "stop"}}}, False, 3600, box.STOP),
        (
            {"rendered": {"stop": {"command": "stop"}}, "at_end": {"unproven_minutes": 0}},
            False,
            -1,
            box.STAY,
        ),
        ({"rendered": {"end": {"keeps_disk": True}}}, False, 3599, box.STAY),
        ({"rendered": {"end": {"keeps_disk": True}}}, False, 3600, box.RUN),
        ({"at_end": {"when": ["done", "unsaved"]}}, False, -1, box.STAY),
        ({"at_end": {"when": ["done", "unsaved"]}}, False, 0, box.RUN),
        ({"durable": {"to": ""}}, False, 10**6, box.STAY),
        ({"durable": {"to": ""}, "rendered": {"end": {"keeps_disk": True}}}, False, -1, box.RUN),
        ({"durable": {"to": ""}, "at_end": {"when": ["done", "unsaved"]}}, False, -1, box.RUN),
    ],
)
def test_a_box_ends_by_proof_or_with_its_disk_kept(fields, is_safe, late, do):
    assert box.choose_end(job_of({"durable": {"to": "/durable"}}, fields), is_safe, late) == do


def test_after_a_stop_nothing_runs_and_nothing_is_said():
    one = Boxed({"at_end": {"when": ["done", "failed", "deadline", "unsaved"]}})
    stopped = End("preempted", "preempted", "asked")
    assert one.go(1, stopped, late=0.0, is_safe=False) and not one.calls and not one.told


def test_what_is_here_only_keeps_the_box_until_it_is_copied():
    one = Boxed()
    assert not one.go(1300, End("unsaved"), is_safe=False)
    assert not one.calls and len(one.told) == 3
    unproven = "the run trained to its end, but nothing proves that all it made is safe at /durable"
    assert one.told[0].startswith(unproven)
    one.go(2, End("unsaved"))
    assert len(one.calls) == 1


def test_a_box_that_stays_on_says_why_and_every_status_does():
    one = Boxed()
    seen = one.seen._replace(unsafe="no room there")
    _, actions, _ = box.end_box(one.job, Box(), End("preempted", "deadline"), 0.0, False, seen, 0.0)
    texts = {type(action): action.text for action in actions}
    assert " is safe at /durable (no room there). The box stays on" in texts[Note]
    assert texts[Tell] == texts[Note]


def test_a_command_that_fails_is_told_at_once_and_tried_again_less_and_less_often():
    one, late = Boxed(), End("preempted", "deadline", "deadline")
    one.go(10, late, late=0.0, code=7)
    assert len(one.calls) == 1 and len(one.told) == 1
    assert one.told[0].startswith("the deadline ended the run, but the box is still on and billed:")
    assert "exit status 7: what it said" in one.told[0]
    one.go(3200, late, late=0.0, code=7)
    waits = [
        int(after[0] - before[0]) for before, after in zip(one.calls, one.calls[1:], strict=False)
    ]
    assert waits == [16, 31, 61, 121, 241, 481, 601, 601, 601]
    assert 4 <= len(one.told) <= 6


def test_an_accepted_command_whose_box_is_still_on_is_told_and_run_again():
    one = Boxed()
    one.go(100, End("done"))
    assert len(one.calls) == 1 and not one.told
    one.go(60, End("done"))
    assert len(one.calls) == 2 and "still on after its end command was accepted" in one.told[0]
    assert one.told[0].startswith("the run is done"), "true of this end"


@pytest.mark.parametrize(
    ("seen", "calls", "told"),
    [
        (Command(is_elsewhere=True), 0, 0),
        (Command(lacks=("STOP_KEY=/k",)), 0, 1),
        (Command(lacks=("ANOTHER",)), 1, 0),
    ],
)
def test_what_keeps_a_command_from_starting(seen, calls, told):
    one = Boxed({"rendered": {"end": {"needs": "STOP_KEY=/k"}}})
    one.seen = one.seen._replace(command=seen)
    one.go(10, End("done"))
    assert (len(one.calls), len(one.told)) == (calls, told)
    one.seen = one.seen._replace(command=one.seen.command._replace(is_elsewhere=False, lacks=()))
    one.go(20, End("done"))
    assert len(one.calls) == 1


def test_a_command_that_nobody_started_is_asked_for_again():
    job, state = job_of(BILLED), Box()
    asked = []
    for now in range(130):
        state, actions, _ = box.end_box(job, state, End("done"), -1.0, True, Seen(), float(now))
        asked += [now for action in actions if isinstance(action, EndBox)]
    assert asked == [0, 61, 122]


@pytest.mark.parametrize("fields", [NO_COMMAND, {"at_end": {"when": ["failed"]}}])
def test_a_box_that_nobody_bills_is_left_in_silence(fields):
    one = Boxed(fields, {"rendered": {"billed": False}})
    assert one.go(1, End("done"), late=0.0) and not one.told and not one.calls


def test_a_billed_box_without_a_command_is_told_at_its_end_and_again_after_its_deadline():
    one, failed = Boxed(NO_COMMAND), End("failed", "bug", "exit status 1")
    assert not one.go(2000, failed)
    assert len(one.told) == 1 and "at_end" in one.told[0]
    assert one.told[0].startswith("the run failed (exit status 1). The box is still on")
    assert not one.go(1300, failed, late=0.0)
    assert len(one.told) == 4 and "bash /r/run.sh stop ends this message" in one.told[-1]
    one.seen = one.seen._replace(has_quiet=True)
    assert one.go(1, failed, late=0.0)


@pytest.mark.parametrize("late", [-1.0, 0.0])
def test_where_nobody_would_hear_it_again_a_billed_box_is_told_once(late):
    one = Boxed(NO_COMMAND, {"notify": []})
    assert one.go(1, End("failed", "bug"), late) and len(one.told) == 1


@pytest.mark.parametrize(("fields", "stays"), [
    (NO_COMMAND, False),
    ({"at_end": {"when": ["done", "failed"]}}, False),
    ({"at_end": {"when": ["done", "deadline"]}}, True),  # the box is billed until then
])  # fmt: skip
def test_after_a_refused_start_only_an_end_at_the_deadline_is_waited_for(fields, stays):
    one, refused = Boxed(fields), End("failed", "disk", "preflight: no room", is_refused=True)
    assert one.go(5, refused) is not stays and not one.calls
    if stays:
        one.go(2, refused, late=0.0)
        assert len(one.calls) == 1


def test_a_billed_box_that_waits_for_its_deadline_says_so_once():
    one = Boxed({"at_end": {"when": ["done", "deadline"]}})
    assert not one.go(2000, End("failed", "bug"))
    assert len(one.told) == 1 and "until its deadline" in one.told[0]


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (End(), "the deadline has passed"),
        (End("done"), "the run is done"),
        (End("failed", "bug", "why"), "the run failed (why)"),
        (End("failed", "bug"), "the run failed"),
        (End("unsaved", "unsaved"), "the run trained to its end"),
        (End("preempted", "deadline", "deadline"), "the deadline ended the run"),
        (End("preempted", "preempted", "why"), "preempted (why)"),
    ],
)
def test_each_end_is_called_by_its_name(end, words):
    assert box.say_end(end) == words


NEWEST, ALL = Kept(has_proof=True, is_newest_safe=True), Kept(True, True, True, True)


@pytest.mark.parametrize(
    ("end", "kept", "is_safe"),
    [
        ("done", ALL, True),
        ("done", ALL._replace(is_whole=False), False),
        ("done", NEWEST, False),
        ("done", NEWEST._replace(is_whole=True), False),
        ("unsaved", ALL._replace(is_whole=False), False),
        ("failed", NEWEST, True),
        ("failed", NEWEST._replace(has_left=True), False),
        ("failed", NEWEST._replace(has_proof=False), False),
        ("failed", NEWEST._replace(has_proof=False, is_whole=True), True),
        ("failed", NEWEST._replace(is_newest_safe=False), False),
        ("preempted", NEWEST, True),
        ("", NEWEST, True),
        ("", Kept(), False),
    ],
)
def test_what_an_end_leaves_is_safe_or_not(end, kept, is_safe):
    assert box.is_all_kept(job_of(BILLED), end, kept) is is_safe
    assert not box.is_all_kept(job_of(), end, kept), "without a durable place nothing is"


@pytest.mark.parametrize(
    ("outcome", "verdict", "comes_to"),
    [
        ("", Verdict(), ("preempted", Verdict("deadline", "", "deadline"), 137)),
        ("preempted", Verdict("preempted", "", "signal TERM"), ("preempted", Verdict("deadline", "", "deadline"), 137)),
        ("failed", FAILS := Verdict("bug", "C1", "why"), ("failed", FAILS, 1)),
        ("done", Verdict(), ("unsaved", Verdict("unsaved", "", "not there; ended by the deadline"), 1)),
    ],
)  # fmt: skip
def test_what_a_run_is_whose_runner_came_to_no_end_by_the_deadline(outcome, verdict, comes_to):
    assert ends.end_unheard(outcome, verdict, 1, "not there") == comes_to


# Owed copies, and the runner itself.


def test_an_owed_copy_is_tried_less_and_less_often_until_all_is_safe():
    copies, owed, started = copying.Copying(), copying.Owed(), []
    for now in range(400):
        copies, owed, actions = copying.pay_owed(copies, owed, Seen(), False, float(now))
        started += [now] * len(actions)
    assert started == [0, 10, 30, 70, 130, 190, 250, 310, 370]
    assert copying.pay_owed(copies, owed, Seen(), True, 9e9)[2] == []


def test_an_owed_copy_that_takes_an_hour_is_cut():
    going, owed = Seen(worker=Worker(1, None)), copying.Owed(at=0.0, tries=1)
    assert copying.pay_owed(copying.Copying(), owed, going, False, 3600.0)[2] == []
    assert copying.pay_owed(copying.Copying(), owed, going, False, 3601.0)[2] == [CutCopy()]


GONE, LIVES = supervise.Runner(), supervise.Runner(True, 100.0, 0.0)


def raised(*seen: supervise.Runner) -> dict[int, str]:
    """What is done about the runner, by the second; the last look lasts."""
    job = job_of({"timings": {"raise_after": 2.0, "hung": 30.0}})
    raises, found = supervise.Raises(), {}
    for now in range(200):
        look = seen[min(now, len(seen) - 1)]
        raises, do = supervise.watch_runner(job, raises, look, float(now))
        if do:
            found[now] = do
    return found


def test_a_runner_that_is_gone_is_raised_ever_later_and_given_up_when_it_comes_no_further():
    assert raised(LIVES) == {}
    found = raised(GONE)
    assert found == {2: "raise", 6: "raise", 14: "raise", 30: "raise", 62: "raise", 126: "give up", 190: "give up"}  # fmt: skip
    program = raised(GONE._replace(has_program=True))
    assert set(program.values()) == {"raise"}, "its program may still come to its end"


def test_a_runner_that_comes_further_gets_all_its_raises_back():
    further = [GONE._replace(came_to=str(now)) for now in range(200)]
    assert set(raised(*further).values()) == {"raise"}


def test_a_hung_runner_is_killed_and_a_clock_that_jumped_kills_none():
    old = LIVES._replace(age=1000.0)
    assert min(raised(old)) == 31
    beats = [old._replace(beat=100.0 + now) for now in range(200)]
    assert raised(*beats) == {}


RUNS = End()


class Supervised:
    """A supervisor, stepped once a second, and what it did."""

    def __init__(self, left: float, **fields):
        self.job, self.left, self.now, self.done = job_of(BILLED, fields), left, 0.0, []
        self.state, self.is_over = supervise.SupervisorState(), False

    def go(self, seconds: int, runner=LIVES, end: End = RUNS, **seen) -> list:
        """Return what was done in these seconds: (left, action)."""
        before = len(self.done)
        for _ in range(seconds):
            look = Seen(left=self.left, save_seconds=2.0)._replace(**seen)
            self.state, actions, self.is_over = supervise.supervise(
                self.job, self.state, runner, end, look, self.now
            )
            self.done += [(self.left, action) for action in actions]
            self.now, self.left = self.now + 1, self.left - 1
        return self.done[before:]


def test_at_the_deadline_a_runner_has_a_moment_to_end_before_its_end_is_noted_for_it():
    one = Supervised(10)
    assert one.go(10) == [(4, Ask("deadline"))]
    killed = [(0, Kill("deadline", "deadline")), (0, CutCopy())]
    assert one.go(4) == killed
    again = [AboutRunner("kill"), Kill("deadline", ""), Mark("")]
    assert one.go(1) == [(-4, action) for action in again]
    other = Supervised(0)
    assert other.go(2) == killed
    told = [type(action) for _, action in other.go(1, GONE, End("preempted", "deadline"))]
    assert told == [Tell, Copy]
    gone = Supervised(0)
    assert gone.go(2, GONE) == [*killed, (-1, Mark(""))], "nobody is waited for"


def test_a_run_that_is_started_again_has_its_save_and_its_end_by_the_next_deadline():
    one = Supervised(10, notify=["true"])
    one.go(15)
    one.go(3, GONE, End("preempted", "deadline"))
    one.left, one.state = 10, one.state._replace(window=Window())
    later = [action for _, action in one.go(11)]
    assert later == [Ask("deadline"), Kill("deadline", "deadline"), CutCopy()]


@pytest.mark.parametrize("name", ["done", "unsaved", "failed", "preempted"])
def test_an_end_that_its_runner_told_nobody_of_is_told(name):
    end = End(name, "deadline" if name == "preempted" else "")
    one = Supervised(9000)
    told = [left for left, action in one.go(3601, GONE, end) if action == Tell("end", "")]
    assert told == [9000, 5400], "nothing shows that it was told"
    late = Supervised(0)
    limit = late.job.at_end.unproven_minutes * 60
    told = [-left for left, action in late.go(int(limit), GONE, end) if action == Tell("end", "")]
    assert len(told) == 3 and told[2] < limit, "soon nobody is left to tell it"
    for known in (
        {"end": end._replace(is_told=True)},
        {"end": End("preempted", "preempted", "asked")},
        {"end": End("preempted", "preempted", "notice from aws")},
        {"end": end, "has_quiet": True},
    ):
        other = Supervised(9000)
        assert Tell("end", "") not in [action for _, action in other.go(3, GONE, **known)]


def test_a_marker_that_the_disk_did_not_take_is_left_again():
    one = Supervised(0)
    assert [left for left, action in one.go(130, GONE) if action == Mark("")] == [-1, -61, -121]
    assert Mark("") not in [action for _, action in one.go(90, GONE, End("preempted", "deadline"))]
    bare = {"durable": {"to": ""}, "rendered": {"billed": False, "end": {"command": ""}}}
    other = Supervised(0, **bare)
    late = int(other.job.at_end.unproven_minutes * 60)
    other.go(late, GONE)
    assert not other.is_over, "the disk may have room yet"
    other.go(1, GONE)
    assert other.is_over


def test_a_program_that_lives_on_after_its_run_was_ended_is_killed_until_it_is_gone():
    lives, end = GONE._replace(has_program=True), End("preempted", "deadline")
    one = Supervised(60, durable={"to": ""}, rendered={"billed": False, "end": {"command": ""}})
    kill = Kill("deadline", supervise.LIVES_ON)
    end = end._replace(is_told=True)
    assert one.go(6, lives, end) == [(60, kill), (55, kill)]
    assert not one.is_over
    assert one.go(2, GONE, end) == [] and one.is_over
    done = Supervised(60, durable={"to": ""})
    assert kill not in [action for _, action in done.go(6, lives, End("done"))]


def test_a_stop_whose_last_copy_is_not_verified_ends_no_box_either():
    reason = ends.after_last_copy(
        "preempted", Verdict("preempted", "", "asked"), False, "the copy is not verified"
    )
    end = End("preempted", "preempted", reason[1].reason)
    one = Supervised(60, notify=["true"], at_end={"when": ["deadline", "unsaved"]})
    done = [action for _, action in one.go(2000, GONE, end)]
    assert end.is_stopped and not any(isinstance(action, (EndBox, Tell)) for action in done)


def test_a_copy_is_owed_until_the_deadline_where_nothing_is_left_to_do_for_the_box():
    one, end = Supervised(60, rendered={"billed": False, "end": {"command": ""}}), End("unsaved")
    tries = [left for left, action in one.go(60, GONE, end) if isinstance(action, Copy)]
    assert tries == [60, 50, 30] and not one.is_over
    late = int(one.job.at_end.unproven_minutes * 60)
    one.go(late, GONE, end)
    assert not one.is_over
    one.go(1, GONE, end)
    assert one.is_over
    safe = Supervised(60, rendered={"billed": False, "end": {"command": ""}})
    assert safe.go(1, GONE, end._replace(is_told=True), kept=ALL) == [] and safe.is_over
    quiet = Supervised(60, rendered={"billed": False, "end": {"command": ""}})
    quiet.go(40, GONE, end, has_quiet=True)
    assert quiet.is_over, "its user wants no more of it"


def test_a_program_whose_runner_does_not_hear_is_signalled_once_its_save_has_ended():
    one = Supervised(4, checkpoint={"save_seconds": 2.0})
    heard = LIVES._replace(has_heard=True)
    assert [action for _, action in one.go(4, heard, is_alive=True)] == [Ask("deadline")]
    one = Supervised(600)
    saving = Save("/c/step-5.pt", True, True)
    first = one.go(5, is_alive=True, notice="notice from aws", save=saving)
    assert [action for _, action in first] == [
        Ask("notice from aws"),
        *2 * [AwaitSave("/c/step-5.pt")],
    ]
    then = one.go(2, is_alive=True, notice="notice from aws")
    assert [action for _, action in then] == [Signal("notice from aws")]
    assert one.go(5, is_alive=True, is_signalled=True) == []


def test_a_notice_shortens_a_wait_for_which_the_deadline_left_more_time():
    job = {"rendered": {"notice": "gcp"}, "checkpoint": {"save_seconds": 300.0}}
    heard, saving = LIVES._replace(has_heard=True), Save("/c/step-5.pt", True, True)
    one = Supervised(500, **job)
    seen = {"is_alive": True, "save": saving, "save_seconds": 300.0}
    assert [action for _, action in one.go(60, heard, **seen)] == [Ask("deadline")]
    done = one.go(30, heard, notice="notice from gcp", **seen)
    assert done[0] == (440, Ask("notice from gcp"))
    signalled = [left for left, action in done if isinstance(action, Signal)]
    assert signalled == [440 - 3 - 15], "half of the notice waits for the save that goes on"


# Rounds of copies.


class Rounds:
    """A place that answers each round with the next of these: its code, what it says, its seconds."""

    def __init__(self, *answers: tuple[int, str, float], **fields):
        usual = {"durable": {"to": "/durable", "every_minutes": 1.0}, "timings": {"sync_wait": 5.0, "copy_quiet": 120.0}}  # fmt: skip
        self.job, self.now, self.answers = job_of(usual, fields), 0.0, list(answers)
        self.copies, self.started = copying.begin(self.job, copying.Copying(), 0.0), []
        self.worker, self.done_at, self.cut, self.told, self.failed = Worker(), 0.0, 0, [], []

    def see(self, **seen) -> Seen:
        """What is seen at this second."""
        if self.worker.is_going:
            code, why, seconds = self.answers[0]
            begun = self.started[-1][0]
            if self.now >= begun + seconds:
                self.worker = self.worker._replace(code=code, why=why)
                self.answers = self.answers[1:] or self.answers
            elif why == "hangs":
                self.worker = self.worker._replace(still=self.now - begun)
        return Seen(worker=self.worker, durable="/durable")._replace(**seen)

    def do(self, actions: list) -> None:
        for action in actions:
            if isinstance(action, Copy):
                self.started.append((self.now, action.mode, action.seconds))
                self.worker = Worker(action.number, None)
            elif isinstance(action, CutCopy):
                self.worker, self.cut = self.worker._replace(code=-1), self.cut + 1
                self.answers = self.answers[1:] or self.answers
            elif isinstance(action, Tell):
                self.told.append((self.now, action.text))
            else:
                assert isinstance(action, NoteFailure)
                self.failed.append((action.count, action.text))

    def train(
        self, seconds: int, is_changed=lambda now: True, rests=lambda now: True
    ) -> list[float]:
        """When a round was started while a program trained so long."""
        for _ in range(seconds):
            seen = self.see(is_changed=is_changed(self.now), rests=rests(self.now))
            self.copies, actions = copying.watch_round(self.job, self.copies, seen, self.now)
            self.do(actions)
            if copying.wants_round(self.job, self.copies, seen, self.now):
                self.copies, start = copying.begin_round(self.copies, "quick", 0.0, self.now)
                self.do([start])
            self.now += 1
        return [at for at, _, _ in self.started]

    def finish(self, left: float = 1e9, asked=lambda now: "", is_whole: bool = True) -> bool:
        """Whether the last copy was verified; the deadline is `left` seconds away."""
        last, until = copying.Last(is_whole=is_whole), self.now + left
        while True:
            seen = self.see(asked=asked(self.now), left=until - self.now)
            self.copies, last, actions, is_verified = copying.finish(
                self.job, self.copies, last, seen, self.now
            )
            self.do(actions)
            if is_verified is not None:
                return is_verified
            self.now += 1
            assert self.now < 1e5, "it never ends"


GOOD, CUT_OFF = (0, "", 3.0), (1, "connection closed", 2.0)


def test_what_rests_is_copied_at_once_and_then_as_often_as_the_job_says():
    assert Rounds(GOOD).train(200) == [0, 60, 120, 180]
    assert Rounds(GOOD).train(200, is_changed=lambda now: False, rests=lambda now: False) == []


def test_what_never_rests_is_copied_all_the_same_and_less_often():
    assert Rounds(GOOD).train(500, rests=lambda now: False) == [180, 420]


def test_rounds_that_fail_come_less_often_and_are_told_once_until_one_succeeds():
    one = Rounds(CUT_OFF, CUT_OFF, CUT_OFF, CUT_OFF, GOOD, CUT_OFF)
    assert one.train(1200) == [0, 60, 180, 420, 660, 720, 780, 900, 1140]
    text = "the copy to /durable failed: connection closed"
    assert one.told[0] == (182, text) and [count for count, _ in one.failed[:5]] == [1, 2, 3, 4, 1]
    assert len(one.told) == 2, "again after a success"


def test_a_failure_that_lasts_is_told_again_for_a_message_may_be_lost():
    one = Rounds((1, "No space left on device", 2.0))
    one.train(4 * 3600)
    waits = [
        after - before for (before, _), (after, _) in zip(one.told, one.told[1:], strict=False)
    ]
    assert len(waits) == 3 and min(waits) >= 3600


def test_rounds_with_nothing_to_do_between_tell_a_full_place_no_more_often():
    full, idle = (1, "No space left on device", 2.0), (0, "", 2.0)
    one = Rounds(*[full, idle] * 40)
    one.train(3600)
    assert 1 < len(one.told) <= 6


def test_without_a_durable_place_nothing_is_copied_whatever_changes():
    seen = Seen(is_changed=True, rests=True)
    copies = copying.Copying()
    assert not copying.wants_round(job_of(JOB), copies, seen, 1e6)
    assert copying.wants_round(job_of(JOB, TO_PLACE), copies, seen, 1e6)


def test_a_round_is_waited_for_until_it_is_due():
    job = job_of(
        {"durable": {"to": "/durable", "every_minutes": 1.0}, "timings": {"heartbeat": 600.0}}
    )
    state = State("running", attempt=1, is_open=True, copying=copying.Copying(started_at=100.0))
    seen = Seen(attempt=1, is_alive=True, is_changed=True, durable="/durable")
    assert decide(job, state, seen, 110.0)[2] == 160.0


def test_a_program_that_lives_after_its_run_is_killed_again_and_again():
    job, seen = job_of(BILLED), Seen(attempt=1, is_alive=True, marked="preempted", left=-60.0)
    for is_settled in (False, True):
        state = State("preempted", "deadline", attempt=1, is_settled=is_settled)
        assert any(isinstance(one, Kill) for one in decide(job, state, seen, 100.0)[1])


def test_a_full_place_is_told_at_once_and_a_round_that_hangs_is_cut_and_told():
    full = Rounds((1, "No space left on device", 2.0))
    full.train(10)
    assert full.told == [(2, "the copy to /durable failed: No space left on device")]
    hung = Rounds((0, "hangs", 1e9), GOOD)
    assert hung.train(200) == [0, 121, 181] and hung.cut == 1
    told = "the copy to /durable made no progress for 120 s; it was ended, and is tried again"
    assert hung.told == [(120, told)]


@pytest.mark.parametrize(
    ("answers", "left", "is_verified", "starts"),
    [
        ([GOOD], 1e9, True, [0]),
        ([CUT_OFF, CUT_OFF, GOOD], 1e9, True, [0, 7, 19]),
        # What differs, and what hung, is copied again at once.
        ([(1, "differs at the destination: a", 2.0), GOOD], 1e9, True, [0, 2]),
        ([(0, "hangs", 1e9), GOOD], 1e9, True, [0, 121]),
        # Nothing but a person mends it.
        ([(1, "Permission denied", 2.0)], 1e9, False, [0]),
        ([(copying.ABSENT, "", 2.0)], 1e9, False, [0]),
        # For two minutes it is tried; then the copy is owed.
        ([CUT_OFF], 1e9, False, [0, 7, 19, 41, 83, 145]),
        # The deadline cuts it, and nothing is begun in the last second.
        ([(0, "", 100.0)], 50.0, False, [0]),
        ([GOOD], 1.0, False, []),
    ],
)
def test_how_long_the_last_copy_is_tried(answers, left, is_verified, starts):
    one = Rounds(*answers)
    assert one.finish(left) is is_verified
    assert [at for at, _, _ in one.started] == starts
    assert {mode for _, mode, _ in one.started} <= {"whole"}


def test_who_asks_during_the_last_copy_shortens_it():
    one = Rounds((0, "", 100.0))
    assert not one.finish(asked=lambda now: "asked" if now >= 5 else "")
    assert one.now == 15 and one.cut == 1
    # Between two tries one short one is left.
    one = Rounds(CUT_OFF, (0, "", 9.0))
    assert one.finish(asked=lambda now: "asked" if now >= 4 else "")
    assert [(at, seconds) for at, _, seconds in one.started][1] == (4, copying.SHORT)


def test_a_run_that_was_asked_to_end_before_has_all_its_time():
    one = Rounds((0, "", 100.0))
    assert one.finish(asked=lambda now: "asked", is_whole=False)
    assert one.now == 100 and one.started[0][1] == "full"


def test_the_last_copy_waits_for_a_round_that_goes_on_and_says_each_failure_at_once():
    one = Rounds((1, "connection closed", 20.0), GOOD)
    one.train(10)
    assert one.finish() and [at for at, _, _ in one.started] == [0, 20]
    assert [at for at, _ in one.told] == [20]


# Which checkpoint an attempt resumes from.

WHOLE, CORRUPT, OLD = Local("/c/step-10.pt"), Local("/c/step-15.pt", "no end"), Local("/c/step-5.pt", "no end")  # fmt: skip


def chosen(folder: Folder, number: int = 1, had_whole: bool = False, first: bool = True, **job):
    """What an attempt of this number begins with."""
    return resume.choose_source(job_of(job), folder._replace(path="/c"), number, had_whole, first)


def test_the_newest_complete_one_is_resumed_from_and_corrupt_ones_are_moved_away():
    assert chosen(Folder()) == resume.Begin("", (), "")
    assert chosen(Folder(WHOLE)) == resume.Begin("/c/step-10.pt", (), "")
    note = "step-15.pt is not whole (no end), so this attempt began with step-10.pt"
    assert chosen(Folder(WHOLE, corrupt=(CORRUPT,))) == resume.Begin(
        WHOLE.path, (CORRUPT.path,), note
    )
    more = chosen(Folder(WHOLE, corrupt=(CORRUPT, OLD)))
    assert more.note.startswith("step-15.pt and 1 more is not whole")
    named = chosen(Folder(WHOLE, corrupt=(CORRUPT,)), resume={"flag": "--from", "variable": ""})
    assert named.quarantined == (), "a program that is told its checkpoint loads no other"
    picked = chosen(Folder(WHOLE, corrupt=(CORRUPT,)), resume={"switch": "--resume"})
    assert picked.quarantined == (CORRUPT.path,), "one that picks the newest would load it"
    assert chosen(Folder(WHOLE, corrupt=(CORRUPT,)), resume="none").note == ""


@pytest.mark.parametrize(
    ("folder", "more", "kind", "reason"),
    [
        (Folder(error="it hangs"), {}, "C4", "the checkpoints in /c can't be looked at (it hangs); start it again when the folder answers"),
        (Folder(corrupt=(CORRUPT, OLD)), {}, "C2", "none of the 2 checkpoints in /c is whole (step-15.pt: no end)"),
        (Folder(unread=(CORRUPT,)), {"number": 2}, "C2", "none of the one checkpoint in /c is whole"),
        # It lay there before the run; and a run that had a complete one doesn't begin anew.
        (Folder(corrupt=(CORRUPT,)), {"number": 1}, "C2", "none of the one checkpoint in /c is whole"),
        (Folder(corrupt=(CORRUPT,)), {"number": 2, "had_whole": True}, "C2", "none of the one checkpoint"),
    ],
)  # fmt: skip
def test_checkpoints_of_which_none_is_complete_are_never_begun_anew_beside(
    folder, more, kind, reason
):
    lost = chosen(folder, **more)
    assert isinstance(lost, resume.Lost)
    assert lost.verdict[:2] == ("bug", kind) and lost.verdict.reason.startswith(reason)


def test_a_run_that_died_in_its_first_save_or_never_resumes_begins_anew():
    note = "step-15.pt is not whole (no end), so this attempt began from nothing"
    assert chosen(Folder(corrupt=(CORRUPT,)), number=2) == resume.Begin("", (CORRUPT.path,), note)
    assert chosen(Folder(corrupt=(CORRUPT, OLD)), resume="none") == resume.Begin("", (), "")
    pair = (
        Local("/c/G_step15_of_8.pt", "no end", numbers=(15,)),
        Local("/c/D_step15_of_9.pt", "the other isn't whole", numbers=(15,)),
    )
    begun = chosen(Folder(corrupt=pair), number=2)
    assert isinstance(begun, resume.Begin) and len(begun.quarantined) == 2, "one save in two files"


@pytest.mark.parametrize(("is_quiet", "first", "moved"), [(False, True, False), (True, True, True), (True, False, False)])  # fmt: skip
def test_of_several_nodes_the_first_moves_what_no_other_is_writing(is_quiet, first, moved):
    corrupt = CORRUPT._replace(is_quiet=is_quiet)
    found = chosen(Folder(WHOLE, corrupt=(corrupt,)), first=first, nodes=2)
    assert found.quarantined == ((corrupt.path,) if moved else ())
    lost = chosen(Folder(corrupt=(corrupt,)), first=first, nodes=2)
    assert isinstance(lost, resume.Lost) is is_quiet


@pytest.mark.parametrize(
    ("folder", "job", "wants"),
    [
        (Folder(WHOLE), {}, False),
        (Folder(), {}, True),
        (Folder(WHOLE, corrupt=(CORRUPT,)), {}, True),
        (Folder(WHOLE, is_mixed=True), {}, True),
        (Folder(), {"durable": {"to": ""}}, False),
        (Folder(), {"resume": "none"}, False),
        (Folder(error="it hangs"), {}, False),
    ],
)
def test_the_durable_place_is_asked_where_something_is_wrong_here(folder, job, wants):
    assert resume.wants_fetch(job_of({"durable": {"to": "/durable"}}, job), folder) is wants


# All of it as one decision.

JOB = {"timings": {"retry_wait": 5.0, "heartbeat": 10.0, "sync_wait": 5.0, "copy_quiet": 120.0}}


class Night:
    """A run that does at once what the core says, and whose program does what a test says. Once
    its runner is through, its supervisor decides."""

    def __init__(self, *fields: dict, **seen):
        self.over = supervise.SupervisorState()
        self.job, self.state, self.now = job_of(JOB, *fields), State(), 0.0
        self.seen, self.done = Seen(signs=Signs())._replace(**seen), []
        self.copied = self.held = Worker()  # how each round of copies ends, and each hold

    def step(self, **seen) -> list:
        """Decide once, do it, and return the actions."""
        self.seen = self.seen._replace(**seen)
        was = self.state
        if is_over(was):
            told = any(isinstance(one, Tell) and one.key in ("end", "over") for one in self.done)
            verdict = was.verdict
            marker = (self.seen.marked, verdict.failure, verdict.reason, was.is_refused, told)
            self.over, actions, _ = supervise.supervise(
                self.job, self.over, supervise.Runner(), End(*marker), self.seen, self.now
            )
            self.wake = self.now + 5.0
        else:
            self.state, actions, self.wake = decide(self.job, was, self.seen, self.now)
        for action in actions:
            self.done.append(action)
            self.do(action)
        return actions

    def do(self, action) -> None:
        now = self.seen
        if isinstance(action, Check):
            now = now._replace(refusals=())
        elif isinstance(action, Stage):
            now = now._replace(staged=Verdict())
        elif isinstance(action, Fetch):
            now = now._replace(is_fetched=True)
        elif isinstance(action, Start):
            now = now._replace(attempt=action.number, is_alive=True, exit=None, is_fetched=False)
        elif isinstance(action, Kill):
            now = now._replace(is_alive=False, exit=Exit(137, evidence=KILLED))
        elif isinstance(action, Copy):
            now = now._replace(worker=self.copied._replace(number=action.number))
        elif isinstance(action, Hold):
            now = now._replace(hold_worker=self.held._replace(number=action.number))
        elif isinstance(action, Mark):
            now = now._replace(marked=action.end)
        elif isinstance(action, EndBox):
            now = now._replace(command=Command(action.number, 0))
        self.seen = now

    def go(self, seconds: float = 0.0, **seen) -> list:
        """Let so much time pass, deciding whenever the core wants to; return the actions."""
        until, actions, count = self.now + seconds, [], 0
        self.seen = self.seen._replace(**seen)
        while True:
            phase, found = self.state.phase, self.step()
            actions, count = actions + found, count + 1
            assert count < 1000, f"it never rests: {self.state}"
            if set(map(type, found)) - {Note, AwaitSave} or self.state.phase != phase:
                continue
            if self.wake > until:
                self.now = until
                return actions
            self.now = self.wake

    def train(self) -> None:
        self.go()
        assert self.state.phase == "running" and self.seen.is_alive

    def end(self, **ended) -> list:
        """The program ends so."""
        return self.go(is_alive=False, exit=Exit(**ended))


def kinds(actions: list) -> list[type]:
    return [type(action) for action in actions]


def test_a_run_without_a_fault_goes_from_its_checks_to_its_end():
    one = Night({"durable": {"to": "/durable"}}, durable="/durable")
    assert one.go() == [Begin(), Check(), Stage(), Fetch(), Start(1, "")]
    assert one.go(3600) == [], "it trains"
    # The second copy is owed: nothing proves the first.
    assert kinds(one.end(code=0)) == [NoteExit, Copy, Mark, Tell, Copy]
    assert one.state.phase == "done" and one.seen.marked == "done"
    assert [action.mode for action in one.done if isinstance(action, Copy)] == ["whole", "full"]
    assert one.go(3600, kept=ALL) == []


AWAY = Verdict("network", "", "the place doesn't answer")


def test_a_place_that_is_away_between_two_attempts_is_asked_again():
    one = Night({"durable": {"to": "/durable"}}, durable="/durable")
    one.train()
    one.go(5, is_alive=False, exit=Exit(137, evidence=KILLED), fetch=AWAY)
    assert one.done.count(Tell("place", AWAY.reason)) == 1
    asked = one.done.count(Fetch())
    assert set(one.go(3000)) == {Fetch()} and one.state.phase == "running"
    assert one.done.count(Fetch()) - asked == 3000 / one.job.timings.place_again
    assert Start(2, "") in one.go(60, fetch=Verdict())
    assert one.done.count(Tell("place", AWAY.reason)) == 1 and one.state.away_since is None


@pytest.mark.parametrize(
    ("fetch", "seconds"),
    [(AWAY, 3600.0), (Verdict("bug", "", "nothing complete is left there"), 0.0)],
)
def test_a_place_that_stays_away_or_has_nothing_ends_the_run(fetch, seconds):
    one = Night({"durable": {"to": "/durable"}}, durable="/durable")
    one.train()
    one.go(5, is_alive=False, exit=Exit(137, evidence=KILLED), fetch=fetch)
    one.go(seconds)
    assert one.now == 5 + seconds and one.state.verdict == fetch and one.state.phase == "failed"


def test_a_place_that_is_away_at_the_start_is_told_while_somebody_is_there():
    one = Night({"durable": {"to": "/durable"}}, durable="/durable", fetch=AWAY)
    one.go()
    assert one.state.phase == "failed" and not one.state.attempt


def test_every_row_of_the_table_is_taken_by_a_decision_and_no_other_step_is(monkeypatch):
    taken, move = set(), deciding._move

    def spy(state: State, on: str) -> State:
        after = move(state, on)
        taken.add((state.phase, on, after.phase))
        return after

    monkeypatch.setattr(deciding, "_move", spy)

    def started(*fields: dict, **seen) -> Night:
        one = Night(*fields, **seen)
        one.train()
        return one

    Night(marked="unsaved").go()
    Night(is_alive=True, attempt=3).go()
    Night(asked="asked").go()
    Night(refusals=(Verdict("preflight", "", "no room"),)).go()
    one = Night()
    while one.state.phase != "staging":
        one.step()
    one.go(asked="signal TERM")
    Night(staged=Verdict("setup", "", "pip")).go()
    started().end(code=0)
    started().end(code=1, evidence=GPU)
    one = started()
    one.end(code=137, evidence=KILLED)
    one.go(60)
    assert one.state.attempt == 2
    for ended in ({"code": 143}, {"code": 0, "owed": ("a",)}, {"code": 0, "corrupt": ("a",)}):
        one = started()
        one.go(asked="asked")
        assert one.state.phase == "saving"
        one.end(**ended)
    durable = {"durable": {"to": "/durable"}}
    started(durable).end(code=0)
    one = started(durable)
    one.copied = Worker(code=1, why="Permission denied")
    one.end(code=0)
    assert taken == {(row.source, row.on, row.target) for row in phases.TABLE}


def test_each_phase_has_its_step_and_a_row_names_no_other():
    assert set(_STEPS) == {"new", *phases.GOING, "preempted"}, "the others are the supervisor's"
    assert {row.source for row in phases.TABLE} | {row.target for row in phases.TABLE} == set(phases.PHASES)  # fmt: skip
    assert all(row.code for row in phases.TABLE if row.target not in phases.GOING)
    assert not any(row.code for row in phases.TABLE if row.target in phases.GOING)


def test_who_stops_a_run_gets_a_save_and_an_end_within_its_time():
    one = Night({"checkpoint": {"folder": "c", "save_seconds": 30.0}})
    one.train()
    assert set(one.go(10, asked="asked", save=GROWS)) == {AwaitSave(GROWS.path)}
    assert one.go(5, save=Save()) == [Signal("asked")]
    # The box may go before the last copy, so the marker comes before and behind it.
    assert kinds(one.go(40)) == [Kill, NoteExit, Mark, Mark]
    assert one.state.phase == "preempted" and one.state.verdict == ("preempted", "", "asked")


def test_the_deadline_saves_kills_copies_and_ends_the_box():
    fields = {"durable": {"to": "/durable"}, "rendered": {"end": {"command": ["end"]}}}
    one = Night(fields, durable="/durable", save_seconds=30.0)
    one.train()
    assert one.go(left=61.0) == []
    done = []
    for left in range(60, -120, -1):
        done += one.go(1.0, left=float(left), kept=ALL if left < 0 else Kept())
    assert [action for action in done if isinstance(action, (Signal, Kill))][0] == Signal(
        "deadline"
    )
    assert kinds(done)[:4] == [Signal, Kill, NoteExit, Mark] and Tell("over", "deadline") in done
    assert EndBox in kinds(done) and one.state.verdict[::2] == ("deadline", "deadline")


def test_a_run_that_another_machine_took_over_stays_asked_although_its_program_ended_by_itself():
    one = Night()
    one.train()
    one.go(has_lost_lease=True)
    one.end(code=0)
    assert one.state.asked == deciding.TAKEN_OVER


def test_a_run_whose_copy_came_through_a_moment_ago_starts_nothing():
    one = Night(marked="done")
    assert Start not in kinds(one.go()) and one.state.phase == "done"


def test_nobody_is_told_of_a_full_disk_that_has_room_again():
    for is_full in (True, False):
        one = Night()
        one.train()
        full = Exit(1, evidence=DISK, newest="a", saved_step=3, step=3)
        found = one.go(is_full=is_full, is_alive=False, exit=full)
        assert ("room" in [tell.key for tell in found if isinstance(tell, Tell)]) is is_full


def test_a_program_that_hangs_in_the_kernel_is_looked_at_once_its_kill_had_its_time():
    state = State("saving", asked="deadline", attempt=1, is_open=True, window=Window(100.0, True))
    seen = Seen(attempt=1, is_alive=True, left=-1.0)
    _, actions, wake = decide(job_of(JOB), state, seen, 100.5)
    assert kinds(actions) == [Kill] and wake == 100.0 + supervise.KILL_SECONDS


@pytest.mark.parametrize("failure", ["preflight", "gpu", "disk"])
def test_only_what_a_check_refused_counts_as_refused(failure):
    one = Night(refusals=(Verdict(failure, "", "why"),))
    one.go()
    assert one.state.is_refused and exit_code(failure, "", None, True) == 78
    again = take_up(one.state, **DEAD)  # its marker wasn't written
    assert again.phase == "new" and not again.is_refused
    one = Night(staged=Verdict(failure, "", "why"))
    one.go()
    assert one.state.phase == "failed" and not one.state.is_refused


def test_a_stalled_program_is_looked_at_killed_and_tried_again():
    one = Night({"stall": {"log_minutes": 1}, "gpus": 0})
    one.train()
    done = one.go(200)
    assert kinds(done)[:2] == [Snapshot, Kill] and Start(2, "") in done
    assert one.state.tries.used == (("stall", 1),)


def test_a_start_that_nobody_made_is_made_again_and_a_new_one_never_beside_a_program():
    one = Night()
    one.train()
    one.seen = one.seen._replace(attempt=0, is_alive=False)  # the process died before it
    assert one.step() == [Start(1, "")]
    assert all(one.step() == [] for _ in range(5)) and one.state.attempt == 1


def test_a_start_that_is_made_again_writes_over_nothing_that_lies_here_alone():
    one = Night()
    one.train()
    one.go(20, is_alive=False, exit=Exit(137, evidence=KILLED))
    assert one.state.attempt == 2 and one.state.is_open
    one.seen = one.seen._replace(attempt=1, is_alive=False, exit=None, unheld=ALONE)
    assert kinds(one.step()) == [Note, Hold]
    assert kinds(one.step(unheld=())) == [Start]


def test_a_full_disk_is_waited_for_and_no_attempt_begins_on_it_before():
    one = Night({"timings": {"room_wait": 600.0}})
    one.train()
    full = {"evidence": DISK, "newest": "a", "saved_step": 3, "step": 3}
    done = one.go(300, is_full=True, is_alive=False, exit=Exit(1)._replace(**full))
    assert kinds(done) == [NoteExit, Tell]
    assert one.go(60, is_full=False) == [Start(2, "")]


# What is complete here alone, before an attempt that may write over it.

ALONE = ("last.pt",)
GOING, FULL_HERE = Worker(1, None), Worker(1, 1, "No space left on device")


class Held:
    """Decides at the moments of a test what is due for what lies here alone."""

    def __init__(self, **job):
        self.job, self.holding, self.copies = job_of(JOB, job), holding.Holding(), copying.Copying()

    def at(self, now: float, **seen) -> tuple[list[type], str]:
        found = holding.hold_before_attempt(
            self.job, self.holding, self.copies, Seen(unheld=ALONE)._replace(**seen), now
        )
        self.holding, self.copies, self.actions, then = found
        return kinds(self.actions), then if isinstance(then, str) else then.failure


TO_PLACE = {"durable": {"to": "/there", "every_minutes": 5}}


def test_what_lies_elsewhere_too_holds_no_attempt_up():
    assert Held(**TO_PLACE).at(0, unheld=()) == ([], "ready")


def test_what_is_complete_here_alone_is_copied_first_and_held_on_the_box_where_that_takes_long():
    one = Held(**TO_PLACE)
    assert one.at(0) == ([Copy], "wait")
    assert one.at(1) == ([], "wait")  # its process isn't seen yet
    assert one.at(59, worker=GOING) == ([], "wait")
    assert one.at(60, worker=GOING) == ([Hold], "wait")
    assert one.at(80, worker=GOING, hold_worker=GOING) == ([], "wait")
    assert one.at(90, worker=GOING, hold_worker=Worker(1, 0), unheld=()) == ([], "ready")


def test_a_copy_that_fails_is_not_waited_for():
    one = Held(**TO_PLACE)
    one.at(0)
    assert one.at(3, worker=Worker(1, 1, "away")) == ([NoteFailure, Hold], "wait")


def test_without_a_durable_place_it_is_held_on_the_box_at_once():
    assert Held().at(0) == ([Hold], "wait")


@pytest.mark.parametrize("resume", ["automatic", {"flag": "--resume"}])
def test_where_nothing_holds_it_a_program_that_resumes_begins_all_the_same_and_somebody_hears(
    resume,
):
    one = Held(resume=resume)
    one.at(0)
    assert one.at(5, hold_worker=FULL_HERE) == ([Tell], "ready")
    assert "last.pt" in one.actions[0].text and "No space left" in one.actions[0].text
    assert one.at(6, hold_worker=FULL_HERE) == ([], "ready")  # a checkpoint is fetched meanwhile
    # so long that there may be room again
    assert one.at(65, hold_worker=FULL_HERE) == ([Hold], "wait")
    assert one.at(66, hold_worker=Worker(2, 1, "full")) == ([], "ready")
    # however long that takes
    assert one.at(700, hold_worker=Worker(2, 1, "full")) == ([Hold], "wait")
    assert one.at(701, hold_worker=Worker(3, 1, "full")) == ([], "ready")


def test_where_nothing_holds_it_a_program_that_begins_anew_waits_for_room_and_begins_no_more():
    one = Held(resume="none")
    one.at(0)
    assert one.at(5, hold_worker=FULL_HERE) == ([Tell], "wait")
    assert one.at(64, hold_worker=FULL_HERE) == ([], "wait")
    assert one.at(65, hold_worker=FULL_HERE) == ([Hold], "wait")
    assert one.at(70, hold_worker=Worker(2, 1, "full")) == ([], "wait")
    assert one.at(599, hold_worker=Worker(2, 1, "full"))[1] == "wait"
    assert one.at(700, hold_worker=Worker(3, 1, "full")) == ([], "disk")


def test_a_copy_that_gets_on_is_waited_for_where_the_box_has_no_room():
    one = Held(resume="none", **TO_PLACE)
    one.at(0)
    for at in (60, 70, 700, 3600):
        assert one.at(at, worker=GOING, hold_worker=FULL_HERE)[1] == "wait"
    stuck = GOING._replace(still=300.0)
    one.at(3700, worker=stuck, hold_worker=Worker(one.holding.number, 1, "full"))
    assert (
        one.at(3700, worker=stuck, hold_worker=Worker(one.holding.number, 1, "full"))[1] == "disk"
    )


def test_a_hold_that_nobody_began_is_begun_again_and_one_that_takes_long_holds_no_resume_up():
    one = Held(resume="automatic")
    one.at(0)
    assert one.at(1) == ([Hold], "wait") and one.actions == [Hold(1)]
    assert one.at(599, hold_worker=GOING) == ([], "wait")
    assert one.at(600, hold_worker=GOING) == ([], "ready")
    anew = Held(resume="none")
    anew.at(0)
    assert anew.at(3600, hold_worker=GOING) == ([], "wait")


def test_no_attempt_begins_over_what_is_complete_here_alone():
    one = Night({"resume": "none", **TO_PLACE})
    one.copied = one.held = GOING
    one.train()
    done = one.go(50, is_alive=False, exit=Exit(137, evidence=KILLED), unheld=ALONE)
    assert Copy in kinds(done) and Start not in kinds(done)
    done = one.go(60)
    assert Hold in kinds(done) and Start not in kinds(done)
    assert Start in kinds(one.go(1, hold_worker=Worker(1, 0), unheld=()))


def test_a_run_ends_with_what_no_attempt_may_write_over():
    one = Night({"resume": "none"})
    one.held = FULL_HERE
    one.train()
    one.go(900, is_alive=False, exit=Exit(137, evidence=KILLED), unheld=ALONE)
    assert one.state.phase == "failed" and one.state.verdict.failure == "disk"
    assert [action.number for action in one.done if isinstance(action, Start)] == [1]


def test_a_save_that_was_seen_complete_is_progress_although_a_full_disk_tore_what_it_left():
    one = Night({"resume": "automatic"})
    one.train()
    one.go(20, signs=Signs(checkpoint="a"))
    one.go(20, signs=Signs(checkpoint=""))  # the next save goes over it
    assert Start in kinds(one.go(700, is_alive=False, exit=Exit(1, evidence=DISK)))


@pytest.mark.parametrize("began", ["", "a"])
def test_a_checkpoint_that_an_attempt_began_with_is_no_progress(began):
    one = Night({"resume": "automatic"})
    one.train()
    one.go(20, signs=Signs(checkpoint="a" if began else ""))
    assert Start not in kinds(one.go(700, is_alive=False, exit=Exit(1, evidence=DISK, began=began)))


def test_a_corrupt_checkpoint_is_moved_away_before_the_next_attempt():
    one = Night()
    one.train()
    one.go(folder=Folder(WHOLE, corrupt=(CORRUPT,)))
    done = one.go(60, is_alive=False, exit=Exit(137, evidence=KILLED))
    assert done[0] == NoteExit(KILLED, 5.0)
    assert done[1:-1] == [Quarantine(CORRUPT.path)] and done[-1][:2] == (2, WHOLE.path)
    assert "began with step-10.pt" in done[-1].note


def test_what_a_box_that_booted_still_lacks_is_looked_for_again_for_a_while():
    refused = (Verdict("gpu", "", "no GPU"),)
    one = Night(refusals=refused, settles=60.0)
    assert one.go() == [Begin(), Note("boot", "no GPU")] and one.state.phase == "preflight"
    assert one.go(30)[0] == Check() and one.state.phase == "running", "it came"
    one = Night(refusals=refused, settles=60.0)
    one.go()
    assert one.go(60, settles=0.0) == [Mark("failed"), Tell("end", "no GPU")]
    assert is_over(one.state)


def test_a_checkpoint_that_crashes_is_set_aside_and_comes_back_if_the_older_one_crashes_too():
    one = Night(folder=Folder(Local("/c/20.pkl")))
    one.train()
    bug = {"code": 1, "evidence": Verdict("bug")}
    done = one.end(**bug, newest="/c/20.pkl 7", began="/c/20.pkl 7", older="/c/10.pkl 5")
    assert kinds(done) == [NoteExit, SetAside, Start]
    assert done[1] == SetAside("/c/20.pkl", "/c/10.pkl 5") and one.state.tries.used == ()
    done = one.end(**bug, newest="/c/10.pkl 5", began="/c/10.pkl 5")
    assert kinds(done) == [NoteExit, Restore] and done[1] == Restore("/c/20.pkl")


def test_what_is_known_to_fail_again_is_tried_by_no_other_attempt():
    one = Night()
    one.train()
    failed = Verdict("network", "", "2 of 3 cells failed")
    one.go(asked="asked")
    one.end(code=None, evidence=failed, again="cells")
    assert (one.state.verdict, one.state.again, one.state.outcome) == (failed, "cells", "failed")
    one = Night()
    one.train()
    one.end(code=None, again="")
    assert one.state.phase == "done"


DEAD = {"lives": False, "has_left": False, "is_copying": False, "is_same_boot": True}


def test_a_runner_that_comes_back_tells_of_no_failed_copy_again():
    job, failed = job_of(), Seen(worker=Worker(7, 1, "No space left on device"))
    told = copying.Copying(7, 6, 40.0)
    told, actions = copying.watch_round(job, told, failed, 50.0)
    assert kinds(actions) == [NoteFailure, Tell]
    before = State(phase="running", attempt=1, is_open=True, copying=told)
    for lives in (True, False):
        after = take_up(before, **{**DEAD, "lives": lives})
        again = failed._replace(worker=failed.worker._replace(number=8))
        copies, actions = copying.watch_round(job, after.copying, again, 60.0)
        assert kinds(actions) == [NoteFailure] and copies.failures == 2
    after = take_up(before, **{**DEAD, "is_same_boot": False})
    assert after.copying == copying.Copying(7, 7), "times are counted from the boot"


@pytest.mark.parametrize(
    ("phase", "more", "how", "then"),
    [
        ("running", {}, {"lives": True}, "running"),
        ("running", {}, {"has_left": True}, "running"),
        ("saving", {}, {"has_left": True}, "saving"),
        ("saving", {}, {"has_left": True, "is_same_boot": False}, "saving"),
        ("running", {"is_open": False}, {"has_left": True}, "running"),
        ("running", {"is_open": False}, {"has_left": True, "is_same_boot": False}, "new"),
        ("running", {}, {}, "new"),
        ("staging", {"is_open": False}, {"has_left": True}, "new"),
        ("new", {"is_open": False}, {"lives": True}, "preflight"),
        ("syncing", {"outcome": "failed", "is_open": False}, {"is_same_boot": False}, "syncing"),
        ("preempted", {"outcome": "preempted", "is_open": False}, {}, "preempted"),
    ],
)
def test_a_runner_that_comes_back_goes_on_where_the_one_before_it_was(phase, more, how, then):
    tries = Tries(failed=2, last="bug 3 a")
    watch = watching.begin(50.0)
    fields = {"phase": phase, "asked": "asked", "attempt": 4, "is_open": True, **more}
    before = State(tries=tries, retry_at=900.0, watching=watch, **fields)
    before = before._replace(
        last_whole="/c/20.pkl", copying=copying.Copying(7, 6), verdict=Verdict("bug")
    )
    after = take_up(before, **{**DEAD, **how})
    assert (after.phase, after.attempt, after.tries) == (then, 4, tries)
    assert after.last_whole == "/c/20.pkl"
    assert after.copying == copying.Copying(7, 7), "its end, which nobody saw, is told by nobody"
    assert take_up(before, **{**DEAD, **how, "is_copying": True}).copying.taken == 6
    if then in ("running", "saving", "syncing", "preempted"):
        assert (after.asked, after.is_open) == ("asked", before.is_open)
    is_same = how.get("is_same_boot", True) and then in ("running", "saving")
    assert (after.retry_at, after.watching) == (
        (900.0, watch) if is_same else (0.0, watching.Watching())
    )


def test_another_start_knows_the_last_failure_and_what_became_of_the_checkpoints():
    doubt = resume.Doubt("/c/20.pkl", "/c/10.pkl 5")
    tries = Tries(used=(("killed", 2),), failed=2, last="killed 3 a")
    last = "/c/10.pkl"
    before = State("failed", attempt=3, last_whole=last, tries=tries, doubt=doubt)
    after = start_again(before._replace(asked="asked", outcome="failed"))
    assert after == State(attempt=3, last_whole=last, tries=Tries(last="killed 3 a"), doubt=doubt)


def test_the_state_survives_as_json_in_the_middle_of_a_night():
    one = Night({"durable": {"to": "/durable"}, "stall": {"log_minutes": 5}}, durable="/durable")
    one.train()
    one.go(100, is_changed=True, rests=True)
    one.end(code=137, evidence=KILLED, step=3, newest="a")
    assert of_json(State, json.loads(json.dumps(as_json(one.state)))) == one.state


@pytest.mark.parametrize(
    ("asked", "seen", "actions"),
    [
        ("", {}, []),
        ("", {"nan": "the loss is nan"}, [Kill("nan", "the loss is nan")]),
        # Who was asked to end has its time, whatever it shows.
        ("asked", {"nan": "the loss is nan"}, [Signal("asked")]),
        ("asked", {"has_lost_lease": True}, [Kill("lease", "asked")]),
        ("asked", {"save": GROWS}, [AwaitSave(GROWS.path)]),
        ("asked", {"is_signalled": True}, []),
    ],
)
def test_what_is_done_about_a_program_that_lives(asked, seen, actions):
    job = job_of({"on_nan": "stop"})
    watch = watching.begin(0.0)
    assert watching.watch_program(job, watch, asked, Seen(**seen), 1.0)[1] == actions


def test_a_program_that_does_not_end_in_its_time_is_killed_and_why_is_told():
    job, watch, done = job_of({"checkpoint": {"folder": "c", "save_seconds": 20.0}}), watching.begin(0.0), []  # fmt: skip
    for now in range(23):
        watch, actions = watching.watch_program(
            job, watch, "asked", Seen(save_seconds=7.0), float(now)
        )
        done += actions
    assert done == [Signal("asked"), Kill("unheard", "not ended 20 s after the save signal")]


CRASH = Exit(1, newest="/c/20.pkl 7", older="/c/10.pkl 5", began="/c/20.pkl 7")
MOVED = resume.Doubt("/c/20.pkl", "/c/10.pkl 5")


@pytest.mark.parametrize(
    ("given", "more", "does"),
    [
        ({}, {}, resume.MOVE),
        ({}, {"failure": "unknown"}, resume.MOVE),
        ({}, {"failure": "host-oom"}, ""),
        ({"has_stepped": True}, {}, ""),
        ({"older": ""}, {}, ""),
        ({}, {"resume": "none"}, ""),
        ({}, {"nodes": 2}, ""),
        ({"code": 0}, {}, ""),
        ({"code": None}, {}, ""),
        ({"newest": "", "began": ""}, {}, ""),
        ({"newest": "/c/30.pkl 9"}, {}, ""),
        # The older one crashes too, so the program is to blame; and it isn't doubted again.
        ({"newest": MOVED.instead, "began": MOVED.instead}, {"before": MOVED}, resume.RESTORE),
        ({}, {"before": MOVED}, ""),
        ({}, {"before": MOVED._replace(path="/c/30.pkl")}, resume.MOVE),
    ],
)
def test_which_crash_is_a_checkpoints_fault(given, more, does):
    verdict = Verdict(more.pop("failure", "bug"))
    before, ended = more.pop("before", resume.Doubt()), CRASH._replace(**given)
    assert resume.doubt_checkpoint(job_of(more), verdict, ended, before) == does
