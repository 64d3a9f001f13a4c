"""The plan of copies: what may be drawn here and there, it never takes the last complete one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from remote_gpu_trainer.runner.completeness import AT_ONCE, COMPLETE, CORRUPT, UNKNOWN
from remote_gpu_trainer.runner.copies.plan import (
    PARTIAL,
    SPARE,
    Copy,
    Drop,
    Forget,
    Here,
    Job,
    Tell,
    There,
    newest,
    plan,
    wanted,
)

STEPS = st.one_of(st.none(), st.integers(0, 5))
DIGESTS = st.sampled_from("abcdef")
APART = st.sampled_from([None, 0.0, 1.0, 50.0])


def here(
    name="ckpt.pt", step: int | None = None, at=10, state=COMPLETE, digest="", size=5, **more
) -> Here:
    given = {"kind": "k", "is_named": step is not None, "stamp": f"s{digest or at}", "age": 9.0}
    fields = {**given, **more}
    return Here(name=name, order=at, step=step, state=state, digest=digest, size=size, **fields)


def there(
    digest="a", step: int | None = None, at=1, line=1, state=COMPLETE, ours=True, anew=False,
    source="ckpt.pt",
) -> There:  # fmt: skip
    name = f"gen-{line}-{'x' if step is None else step}-{digest}"
    return There(name, source, "k", line, step, state, digest, f"s{digest}", at, 5, ours, anew)


@st.composite
def heres(draw) -> list[Here]:
    found = []
    for number in range(draw(st.integers(0, 4))):
        digest = draw(st.one_of(st.just(""), DIGESTS))
        found.append(
            Here(
                name=draw(st.sampled_from(["ckpt.pt", "step-1", "step-2"])) + str(number),
                kind=draw(st.sampled_from(["k", "l"])),
                order=draw(st.integers(0, 20)),
                step=draw(STEPS),
                is_named=draw(st.booleans()),
                state=draw(st.sampled_from([COMPLETE, CORRUPT, UNKNOWN])),
                stamp=f"s{digest}{draw(st.integers(0, 3))}",
                age=draw(st.sampled_from([0.0, 3.0, 9.0, 99.0])),
                digest=digest,
                size=draw(st.sampled_from([1, 1000, 1 << 40])),
                apart=draw(APART),
                is_cut=draw(st.booleans()),
                has_rhythms=draw(st.booleans()),
                least_apart=draw(APART),
            )
        )
    return found


@st.composite
def theres(draw) -> list[There]:
    found = []
    for number in range(draw(st.integers(0, 7))):
        digest = draw(DIGESTS)
        found.append(
            There(
                name=f"gen-{number}",
                source=draw(st.sampled_from(["ckpt.pt0", "step-11", "gone"])),
                kind=draw(st.sampled_from(["k", "l"])),
                line=draw(st.integers(1, 3)),
                step=draw(STEPS),
                state=draw(st.sampled_from([COMPLETE, UNKNOWN, PARTIAL, CORRUPT])),
                digest=digest,
                stamp=f"s{digest}",
                at=draw(st.integers(0, 20)),
                size=5,
                is_ours=draw(st.booleans()),
                is_anew=draw(st.booleans()),
                copied=draw(st.integers(0, 2)),
                apart=draw(APART),
            )
        )
    return found


JOBS = st.builds(
    Job,
    begins_anew=st.booleans(),
    own=st.frozensets(DIGESTS),
    overtaken=st.frozensets(st.sampled_from(["k", "l"])),
    free_here=st.one_of(st.none(), st.integers(0, 1 << 41)),
    free_there=st.one_of(st.none(), st.integers(0, 1 << 41)),
    is_over=st.booleans(),
)


@settings(max_examples=20 * settings.default.max_examples, deadline=None)
@given(heres(), theres(), JOBS)
def test_no_plan_takes_the_last_complete_generation_or_displaces_it(here_, there_, job):
    actions = plan(here_, there_, job)
    dropped = {action.name for action in actions if isinstance(action, Drop)}
    kept = [one for one in there_ if one.name not in dropped]
    by_name = {one.name: one for one in here_}
    for one in there_:
        if one.name not in dropped or one.state == PARTIAL:
            continue
        better = [o for o in kept if o.kind == one.kind and o.line >= one.line and o.at >= one.at]
        later = [o for o in kept if o.kind == one.kind and o.line > one.line]
        if one.state == COMPLETE:
            proven = [o for o in [*better, *later] if o.state == COMPLETE]
            assert len({o.name for o in proven}) >= 2, "two complete ones stay for one that goes"
        else:
            assert len({o.name for o in [*better, *later]}) >= 2
    for kind in {one.kind for one in there_}:
        of_kind = [one for one in there_ if one.kind == kind]
        steps = [one.step for one in of_kind if one.state == COMPLETE and one.step is not None]
        left = [o.step for o in kept if o.kind == kind and o.state == COMPLETE]
        if any(one.state == COMPLETE for one in of_kind):
            assert left, "the last complete one stays"
        anew = any(one.is_anew for one in of_kind)
        if steps and anew and len({one.line for one in of_kind}) == 2:
            assert newest(kept)[kind] == newest(there_)[kind]
    for action in actions:
        if isinstance(action, Copy):
            one = by_name[action.name]
            assert one.state != CORRUPT and (one.age >= AT_ONCE or job.is_over)
            assert job.free_there is None or one.size < job.free_there
            held = [o for o in there_ if o.kind == one.kind and o.state != PARTIAL]
            assert action.line >= max((o.line for o in held), default=1)
            best = newest(there_).get(one.kind)
            if action.is_mixed and best and best.state == COMPLETE:
                mixed = best._replace(name="m", state=UNKNOWN, line=action.line, at=one.order)
                assert newest([*there_, mixed])[one.kind] == best, "a mixed one is never the newest"
    assert sum(isinstance(action, Copy) for action in actions) <= 1
    assert newest(kept) == newest(there_), "what a program goes on from is the same afterwards"


@settings(max_examples=2 * settings.default.max_examples, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([COMPLETE, UNKNOWN, CORRUPT]), DIGESTS), max_size=25))
def test_a_program_that_saves_over_one_file_leaves_two_complete_ones(saves):
    """Whatever it saves, corrupt or whole: the best that was there stays, and the place doesn't fill."""
    kept: list[There] = []
    for number, (state, digest) in enumerate(saves):
        now = here(state=state, at=number + 1, stamp=f"{digest}{number}", digest="")
        for _ in range(20):
            actions = plan([now], kept, Job(own=frozenset(f"d{n}" for n in range(99))))
            gone = {action.name for action in actions if isinstance(action, Drop)}
            kept = [one for one in kept if one.name not in gone]
            for action in actions:
                if isinstance(action, Copy):
                    kept.append(
                        there(f"d{number}", None, number + 1, action.line, state)._replace(
                            stamp=now.stamp
                        )
                    )
            if not actions or all(isinstance(action, Tell) for action in actions):
                break
        complete = [n for n, (one, _) in enumerate(saves[: number + 1]) if one == COMPLETE]
        proven = [one.digest for one in kept if one.state == COMPLETE]
        assert proven[-2:] == [f"d{n}" for n in complete[-2:]]
        assert len(kept) <= 6


def test_a_corrupt_one_is_never_copied_and_said():
    [told] = plan([here(state=CORRUPT)], [there("a")], Job())
    assert isinstance(told, Tell) and "is corrupt" in told.text


def test_without_room_nothing_is_copied_or_dropped_and_it_is_said():
    [told] = plan([here(at=5, size=9 << 20)], [there("a")], Job(free_there=8 << 20))
    assert isinstance(told, Tell) and "nothing is copied" in told.text


MIB = 1 << 20


def numbered(*steps: int, size: int = 9 * MIB) -> tuple[list[Here], list[There]]:
    """A program that keeps all its checkpoints, on a place that has these of them."""
    ours = [here(f"{n}.pt", n, at=n, digest=f"d{n}", size=size, kind="k") for n in steps]
    lie = [there(f"d{n}", n, at=n, source=f"{n}.pt")._replace(size=size) for n in steps[:-1]]
    return ours, lie


def test_a_full_place_gives_up_the_oldest_that_lie_here_too_for_the_newest():
    ours, lie = numbered(1, 2, 3, 4)
    job = Job(free_there=SPARE)
    drop, told, copy = plan(ours, lie, job)
    assert (drop, copy.name) == (Drop(lie[0].name), "4.pt")
    assert told.text == "the durable place is full: its copy of 1.pt made room for 4.pt"
    # What another box had is nowhere else; what the program let go of may go.
    drop, _, copy = plan(ours[1:], [lie[0]._replace(is_ours=False), *lie[1:]], job)
    assert drop == Drop(lie[1].name)
    drop, _, copy = plan(ours[3:], lie[1:], job)
    assert drop == Drop(lie[1].name)
    [told] = plan(ours[2:], lie[2:], job)
    assert "nothing is copied" in told.text, "the best stays until the newer one is there"
    [told] = plan([ours[0], ours[1], ours[3]._replace(state=UNKNOWN)], lie[:2], job)
    assert "nothing is copied" in told.text, "what proves nothing replaces nothing"
    # Two have to go, or none does.
    large = [*ours[:3], ours[3]._replace(size=18 * MIB)]
    assert [type(one) for one in plan(large, lie, job)] == [Drop, Drop, Tell, Copy]
    [told] = plan([*ours[:3], ours[3]._replace(size=99 * MIB)], lie, job)
    assert "nothing is copied" in told.text


def test_an_older_one_that_has_no_room_beside_a_newer_one_is_a_note_and_no_failure():
    ours, lie = numbered(1, 2, 3)
    [told] = plan(ours[:2], lie[1:], Job(free_there=SPARE))
    assert told.key == "older 1.pt" and "on this box alone" in told.text


def test_one_that_is_still_written_waits_for_its_rest():
    assert plan([here(age=0.5)], [], Job()) == []
    assert plan([here(age=0.5)], [], Job(is_over=True)) == [Copy("ckpt.pt", 1, False, False)]


def test_one_that_changed_while_it_was_copied_is_staged_where_there_is_room():
    one = here(size=5 << 20)
    job = Job(overtaken=frozenset(["k"]), free_here=1 << 30)
    assert plan([one], [], job) == [Copy("ckpt.pt", 1, False, True)]
    assert plan([one], [], job._replace(free_here=1 << 20)) == [Copy("ckpt.pt", 1, False, False)]


def test_a_program_that_begins_at_0_again_has_a_line_of_its_own_until_it_passes_the_best():
    old = [there("a", 50, 1), there("b", 60, 2)]
    job = Job(begins_anew=True, own=frozenset("ef"))
    assert plan([here(step=5, at=10)], old, job) == [Copy("ckpt.pt", 2, True, False)]
    young = [*old, there("e", 5, 10, 2, anew=True), there("f", 10, 11, 2, anew=True)]
    assert newest(young)["k"].step == 60
    assert plan([], young, job) == []
    equal = [*young, there("g", 60, 12, 2, anew=True), there("h", 70, 13, 2, anew=True)]
    assert newest(equal)["k"].step == 70
    names = {action.name for action in plan([], equal, job) if isinstance(action, Drop)}
    assert names == {"gen-1-50-a", "gen-2-5-e", "gen-2-10-f"}  # one of step 60 is no further
    passed = [*equal, there("i", 80, 14, 2, anew=True)]
    names = {action.name for action in plan([], passed, job) if isinstance(action, Drop)}
    assert names == {"gen-1-50-a", "gen-1-60-b", "gen-2-5-e", "gen-2-10-f", "gen-2-60-g"}


def test_what_was_saved_before_it_was_known_to_begin_anew_displaces_nothing():
    old = [there("a", 50, 1), there("b", 60, 2)]
    young = [*old, there("e", 5, 10), there("f", 10, 11)]  # in the old line, for nobody knew yet
    assert plan([], young, Job()) == []
    job = Job(begins_anew=True, own=frozenset("ef"))
    assert plan([here(step=15, at=12)], young, job)[-1] == Copy("ckpt.pt", 2, True, False)
    assert newest([*young, there("g", 15, 12, 2, anew=True)])["k"].step == 60


def test_files_of_two_saves_of_a_program_that_died_displace_nothing():
    """Each file is complete by itself; the program died between the two."""
    one_save = [there("a", None, 1)._replace(apart=0.5)]
    cut = here(at=30, apart=29.0, is_cut=True)
    assert plan([cut], one_save, Job(is_over=True)) == [
        Copy("ckpt.pt", 1, False, False, 29.0, is_mixed=True)
    ]
    mixed = there("m", None, 30, state=UNKNOWN)._replace(stamp=cut.stamp, apart=29.0)
    assert newest([*one_save, mixed])["k"] == one_save[0]
    anew = here(at=60, apart=0.4, is_cut=True)
    [copy] = plan([anew], [*one_save, mixed], Job(is_over=True))
    assert (copy.apart, copy.is_mixed) == (0.5, False), "the mixed one is no measure of a save"


def test_while_a_program_lives_its_second_file_may_come_as_late_as_ever():
    slow_saves = [there("a", None, 1)._replace(apart=20.0)]
    assert plan([here(at=99, apart=70.0, age=40.0)], slow_saves, Job()) == []
    [copy] = plan([here(at=99, apart=70.0, age=46.0)], slow_saves, Job())
    assert not copy.is_mixed, "it went on without the other file"
    assert plan([here(at=99, apart=30.0, age=2.0)], slow_saves, Job()) != [], "as late as before"


def test_a_save_that_lay_here_while_its_program_lived_tells_how_far_apart_its_files_are():
    """A program may die between two files before anything of it was copied."""
    [copy] = plan([here(at=30, apart=29.0, is_cut=True)], [], Job(is_over=True))
    assert not copy.is_mixed, "nothing tells it yet"
    [copy] = plan([here(at=30, apart=29.0, is_cut=True, least_apart=0.5)], [], Job(is_over=True))
    assert copy.is_mixed
    held = here("held", at=30, apart=29.0, is_cut=True, source="ckpt.pt")
    [copy] = plan([held], [there("a", None, 1)._replace(apart=0.5)], Job())
    assert copy.is_mixed, "by the name under which it was saved"


def test_files_that_are_saved_in_rhythms_of_their_own_are_complete_even_of_a_program_that_died():
    both = [there("a", None, 1)._replace(apart=0.5)]
    proven = here(at=30, apart=29.0, is_cut=True, has_rhythms=True)
    [copy] = plan([proven], both, Job(is_over=True))
    assert (copy.apart, copy.is_mixed) == (29.0, False)
    kept = [*both, there("b", None, 30)._replace(apart=copy.apart)]
    [copy] = plan([here(at=50, apart=49.0, is_cut=True)], kept, Job(is_over=True))
    assert not copy.is_mixed, "another box knows it by what lies there"


def test_of_saves_whose_time_a_program_sets_itself_the_last_copied_is_the_newest():
    saves = [there("z", 22, 5)._replace(copied=1), there("b", 44, 5)._replace(copied=2)]
    assert newest(saves)["k"].step == 44


def test_what_is_corrupt_there_counts_for_nothing():
    good, bad = there("a", 10, 1), there("b", 20, 2, state=CORRUPT)
    assert newest([good, bad])["k"] == good
    assert [one.step for one in wanted([good, bad], None, set())] == [10]
    newer = [good, bad, there("c", 30, 3)]
    assert plan([], newer, Job()) == [], "one good generation stays beside the newest"
    again = here(step=20, at=2, digest="b")
    assert isinstance(plan([again], [good, bad], Job())[0], Copy), "its bytes are still here"


def test_what_saves_before_it_opens_a_checkpoint_is_anew_until_then():
    old = [there("a", 44, 1)]
    job = Job(begins_anew=True, own=frozenset("e"))
    assert plan([here(at=10)], old, job) == [Copy("ckpt.pt", 2, True, False)]
    young = [*old, there("e", 22, 10, 2, anew=True)]
    assert newest(young)["k"].step == 44
    [copy] = plan([here(at=20)], young, job._replace(begins_anew=False))
    assert (copy.line, copy.is_anew) == (2, False)
    assert newest([*young, there("f", 30, 20, 2)])["k"].step == 30
    other = Job(begins_anew=False, own=frozenset())
    [copy] = plan([here(at=20)], young, other)
    assert (copy.line, copy.is_anew) == (2, True), "an attempt that goes on with the new line"


def test_what_an_attempt_saved_last_stays_in_its_line_when_the_next_one_trains():
    old = [there("a", None, 1), there("b", None, 2)]
    job = Job(begins_anew=True, owned=frozenset("ab"))
    last = here(at=3, is_earlier=True)
    assert plan([last], old, job) == [Copy("ckpt.pt", 1, False, False)]
    grown = [*old, there("c", None, 3)]
    assert plan([here(at=10)], grown, job)[-1] == Copy("ckpt.pt", 2, True, False)
    young = [*grown, *(there(d, None, n, 2, anew=True) for n, d in enumerate("de", 10))]
    own = job._replace(own=frozenset("de"))
    assert Drop("gen-1-x-c") not in plan([here(at=20)], young, own), "the best one is dropped"


def test_what_an_attempt_saved_last_has_the_line_that_it_began_itself():
    old = [there("a", None, 1), there("b", None, 2)]
    last = here(at=3, is_earlier=True)
    job = Job(begins_anew=True, began_anew=True)
    assert plan([last], old, job) == [Copy("ckpt.pt", 2, True, False)]


def test_what_is_held_keeps_its_line_however_many_attempts_begin_anew_meanwhile():
    old = [there("a", None, 1), there("b", None, 2)]
    held = here("gen-1-x-c", at=3, digest="c", is_earlier=True, source="ckpt.pt", line=1)
    job = Job(begins_anew=True, began_anew=True, own=frozenset("ef"))
    young = [*old, *(there(d, None, n, 2, anew=True) for n, d in enumerate("de", 10))]
    assert plan([held], young, job) == [Copy("gen-1-x-c", 1, False, False)]
    grown = [*young, there("c", None, 3), there("f", None, 20, 3, anew=True)]
    assert Drop("gen-1-x-c") not in plan([here(at=30)], grown, job), "the best one is dropped"


def test_a_new_line_leaves_that_of_what_is_held():
    held = here(
        "gen-2-x-b", at=3, digest="b", is_earlier=True, source="ckpt.pt", line=2, is_anew=True
    )
    job = Job(begins_anew=True, began_anew=True)
    made = plan([held, here(at=10)], [there("a", None, 1)], job)
    assert made == [Copy("ckpt.pt", 3, True, False)]
    goes_on = plan([held, here(at=10)], [there("a", None, 1)], Job(began_anew=True))
    assert goes_on == [Copy("ckpt.pt", 2, True, False)]


def test_what_is_held_goes_once_it_lies_there_or_two_newer_ones_came_as_far():
    held = here("gen-1-3-a", 3, at=3, digest="a", is_earlier=True, source="ckpt.pt", line=1)
    one = there("b", 5, 10)
    assert plan([held], [one], Job()) == [Copy("gen-1-3-a", 1, False, False)]
    assert plan([held], [there("a", 3, 3)], Job()) == [Forget("gen-1-3-a")]
    assert plan([held], [one, there("c", 7, 20)], Job()) == [Forget("gen-1-3-a")]
    behind = [one, there("c", 2, 20, 2, anew=True), there("d", 2, 30, 2, anew=True)]
    assert Forget("gen-1-3-a") not in plan([held], behind, Job()), "a new line isn't that far"
    torn = [one, there("c", 7, 20, state=UNKNOWN)]
    assert Forget("gen-1-3-a") not in plan([held], torn, Job()), "one isn't known to be complete"


def test_the_same_name_and_step_with_other_bytes_is_another_checkpoint():
    again = here("step-5", 5, at=20, digest="z")
    assert plan([again], [there("a", 5, 10, source="step-5")], Job()) != []
    assert plan([again._replace(digest="a")], [there("a", 5, 10, source="step-5")], Job()) == []


def test_what_is_still_here_stays_there_and_what_the_program_let_go_of_goes():
    old = [there(d, n, n, source=f"step-{n}") for n, d in enumerate("abcd")]
    kept = [here(f"step-{n}", n, at=n, digest=d) for n, d in enumerate("abcd")]
    assert plan(kept, old, Job()) == []
    assert plan(kept[2:], old, Job()) == [Drop("gen-1-0-a"), Drop("gen-1-1-b")]
    assert plan(kept[3:], [one._replace(is_ours=False) for one in old], Job()) == []


def test_what_a_box_needs_from_there():
    old = [there("a", 50, 1, ours=False), there("b", 60, 2, ours=False)]
    assert [one.step for one in wanted(old, None, set())] == [60]
    assert [one.step for one in wanted(old, (50, 1), set())] == [60], "another box went on"
    assert wanted(old, (60, 2), set()) == []
    mine = [one._replace(is_ours=True) for one in old]
    assert wanted(mine, (50, 1), set()) == [], "its user removed it here"
    assert [one.step for one in wanted(mine, (50, 1), {"ckpt.pt"})] == [60], "it was corrupt here"
