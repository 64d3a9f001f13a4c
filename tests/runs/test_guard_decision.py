"""When a guard may stop a box: one thing wrong at a time, and each of them holds it back."""

from dataclasses import replace

import pytest
from remote_gpu_trainer.platforms.provider import Item
from remote_gpu_trainer.runs.guard_decision import (
    CONDITIONS,
    Confirmed,
    End,
    Seen,
    decide,
    warnings,
)

NOW = 1_790_000_000.0
HOUR = 3600.0
BOX = Item("i-1", state="running", standing="running", created=NOW - 10 * HOUR, kind="ebs")
OWN = Confirmed(
    "gpu:22", "gpu", "aws", "i-1", NOW - 10 * HOUR, "ebs", "acc", "cmd", ["aws"], NOW, here="here"
)  # fmt: skip
GOOD = Seen(
    NOW, "gpu", confirmed=OWN, ends=(End("toy", NOW - 5 * HOUR, HOUR),), drilled=NOW - 86400,
    command="cmd", account="acc", listed=(BOX,), listed_at=NOW - 5, clock_ahead=1.0, ssh="answers",
    asked="gpu:22", at_address=("i-1",), here="here",
)  # fmt: skip
DEAD = replace(GOOD, ssh="dead", why="no answer", silent_for=HOUR)
STOP = replace(OWN, if_unreachable="stop")

WRONG = [
    ("files whole", GOOD, {"damage": "a file is damaged"}, "a file is damaged"),
    ("not asked just now", GOOD, {"sent": (NOW - 900, NOW - 60)}, "asked to stop 60 s ago"),
    ("confirmed", GOOD, {"confirmed": None}, "haven't confirmed"),
    ("confirmed here", GOOD, {"here": "copy"}, "rgt guard confirm gpu --provider aws"),
    ("confirmed here", GOOD, {"confirmed": replace(OWN, here=""), "here": ""}, "another machine"),
    ("not paused", GOOD, {"is_paused": True}, "paused"),
    ("end passed", GOOD, {"ends": ()}, "no run from here"),
    ("end passed", GOOD, {"ends": (End("toy", None, 0.0),)}, "isn't known"),
    ("end passed", GOOD, {"ends": (*GOOD.ends, End("b", None, 0.0))}, "isn't known"),
    ("end passed", GOOD, {"ends": (*GOOD.ends, End("b", NOW + HOUR, 0.0))}, "its end is in 1.0 h"),
    ("end passed", GOOD, {"ends": (End("toy", NOW - 60, HOUR),)}, "59 min more to save"),
    ("end passed", DEAD, {"confirmed": STOP, "ends": ()}, "no run from here"),
    ("guard awake", GOOD, {"hold": "this machine has slept"}, "slept"),
    ("drilled", GOOD, {"drilled": None}, "rgt drill aws"),
    ("drilled", GOOD, {"drilled": None, "undrilled": NOW - 7200}, "2.0 h ago, didn't pass"),
    ("drilled", GOOD, {"drilled": NOW - 91 * 86400}, "91 days old"),
    ("drilled", GOOD, {"drilled": NOW + 86400}, "dated 24.0 h ahead of this clock; set"),
    ("drilled", GOOD, {"drilled": None, "undrilled": NOW, "is_drill_of_here": False}, "copied or"),
    ("same command", GOOD, {"command": "other"}, "rgt guard confirm gpu"),
    ("same account", GOOD, {"account": "other"}, "another account"),
    ("provider asked", GOOD, {"account": "", "listed_at": None, "why_unlisted": "aws: no key"}, "no key"),
    ("provider asked", GOOD, {"drilled": None, "listed_at": None, "why_unlisted": "keys: no"}, "keys: no"),
    ("provider asked", GOOD, {"listed_at": None}, "wasn't asked"),
    ("one box", GOOD, {"listed_at": NOW - 121}, "too old"),
    ("one box", GOOD, {"listed_at": NOW + 5}, "too old"),
    ("one box", GOOD, {"listed": ()}, "doesn't show i-1"),
    ("one box", GOOD, {"listed": (BOX, BOX)}, "2 times"),
    ("one box", GOOD, {"listed": (replace(BOX, created=NOW - HOUR),)}, "another time"),
    ("one box", GOOD, {"listed": (replace(BOX, created=None),)}, "another time"),
    ("one box", GOOD, {"listed": (replace(BOX, kind="spot"),)}, "another kind"),
    ("one box", GOOD, {"listed": (replace(BOX, locked=True),)}, "locked"),
    ("one box", GOOD, {"listed": (replace(BOX, standing="stopped", state="stopped"),)}, "is stopped"),
    ("one box", GOOD, {"listed": (replace(BOX, standing="unknown", state=""),)}, "no known state"),
    ("same address", GOOD, {"at_address": ()}, "doesn't show i-1 at gpu:22"),
    ("same address", GOOD, {"at_address": ("i-2",)}, "doesn't show i-1 at gpu:22, but i-2"),
    ("same address", GOOD, {"at_address": ("i-1", "i-2")}, "several boxes at gpu:22: i-1, i-2"),
    ("same address", DEAD, {"confirmed": STOP, "at_address": ("i-2",)}, "doesn't show i-1"),
    ("clocks agree", GOOD, {"clock_ahead": None}, "couldn't be compared"),
    ("clocks agree", GOOD, {"clock_ahead": -301.0}, "differ"),
    ("nothing lost", GOOD, {"longer": ("other",)}, "its end is later"),
    ("nothing lost", GOOD, {"unproven": ("toy",)}, "nowhere else: toy"),
    ("nothing lost", GOOD, {"ending": (("a", 60.0), ("b", 600.0))}, "b lives there, and its runner has 10 min more"),
    ("nothing lost", GOOD, {"strangers": ("python a.py",)}, "another program"),
    ("nothing lost", GOOD, {"ssh": "unsure", "why": "Permission denied"}, "Permission denied"),
    ("nothing lost", DEAD, {}, "if_unreachable is alarm"),
    ("nothing lost", DEAD, {"confirmed": STOP, "silent_for": 600.0}, "silent for 10 min only"),
    ("nothing lost", DEAD, {"confirmed": STOP, "ssh": "unsure"}, "couldn't be looked at"),
    ("one a round", GOOD, {"acted": "gpu0"}, "gpu0 was asked to stop in this round"),
]  # fmt: skip


def test_where_all_holds_it_stops_the_box():
    assert decide(GOOD).acts
    assert decide(replace(DEAD, confirmed=STOP)).acts


@pytest.mark.parametrize(("condition", "seen", "change", "why"), WRONG)
def test_one_thing_wrong_holds_it_back_and_says_what(condition, seen, change, why):
    found = decide(replace(seen, **change))
    assert (found.acts, found.condition) == (False, condition) and why in found.why


def test_the_table_has_each_condition():
    assert {row[0] for row in WRONG} == set(CONDITIONS)


def test_nothing_known_is_no_stop_and_no_warning():
    assert decide(Seen(NOW, "gpu")).condition == "confirmed"
    assert warnings(Seen(NOW, "gpu"), decide(Seen(NOW, "gpu"))) == []


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"confirmed": None, "listed": ()}, "gpu is 5.0 h past its end, and may still be billed; the guard doesn't stop it: you haven't"),
        ({"listed": ()}, "gpu is 5.0 h past its end"),
        ({"listed": (replace(BOX, standing="stopped", gb=20.0, gb_month=0.2),)}, "its disk may be billed, about 4.00 USD a month"),
        ({"sent": (NOW - 900,)}, "was asked to stop 15 min ago, and the provider's list still shows it running"),
        ({"ends": (), "ssh": "dead", "silent_for": 900.0, "why": "timed out"}, "no answer for 15 min, and may be billed: timed out; if it is gone: rgt release gpu --forget"),
        ({"ends": (), "ssh": "unsure", "why": "Permission denied"}, "gpu couldn't be looked at, and may be billed: Permission denied"),
        ({"ends": (), "late": NOW - 7200}, "gpu is 2.0 h past its end"),
        ({"late": NOW - 7200, "listed": (replace(BOX, standing="ended", state="terminated"),)}, "i-1 is terminated, and yet gpu answers"),
        ({"longer": ("toy",), "listed": (replace(BOX, standing="stopped", state="stopped"),)}, "gpu is 5.0 h past its end, and may still be billed"),
        ({"listed": (replace(BOX, standing="ended", state="TERMINATED"),)}, "i-1 is TERMINATED, and yet gpu answers, and may be billed"),
        ({"ends": (), "idle_since": NOW - 7200, "strangers": ("jupyter",)}, "gpu answers and may be billed, and no run has begun there for 2.0 h; end it, or if it is your own machine: rgt release gpu --mine"),
        ({"ends": (), "ended": ("toy (finished)",)}, "nothing runs there any more: toy (finished)"),
    ],
)  # fmt: skip
def test_what_may_be_billed_is_told(change, line):
    seen = replace(GOOD, **change)
    assert any(line in told for told in warnings(seen, decide(seen)))


def test_a_good_run_and_a_box_that_is_gone_are_no_warning():
    alive = replace(GOOD, ends=(End("toy", NOW + HOUR, HOUR),))
    gone = replace(DEAD, listed=(replace(BOX, standing="ended"),))
    fresh = replace(GOOD, ends=(), idle_since=NOW - 3000)
    for seen in (alive, gone, fresh):
        assert warnings(seen, decide(seen)) == []
