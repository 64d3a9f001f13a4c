"""The purse: what all boxes together may cost, by the ledger, without a box."""

import json
import multiprocessing
import os
import sys
import threading
import types

import pytest
from remote_gpu_trainer.cli import main
from remote_gpu_trainer.runs import ledger, local_files, purse, this_machine
from remote_gpu_trainer.text.money import Money

HOUR = 3600.0
NOW = 1_790_000_000.0
USD = Money(2.0, "USD")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def rent(name, at, price=2.0, currency="USD"):
    ledger.opened(f"{name}:22", name, price=price, currency=currency, now=at)


def run_of(name, until, folder="~/runs/toy", hourly=USD):
    return purse.Wanted(f"{name}:22", name, folder, until, hourly)


def test_without_a_purse_nothing_is_refused():
    assert purse.account(NOW) is None
    assert purse.reserve(run_of("a", NOW + 1e6), NOW) is None
    assert purse.check(run_of("a", NOW + 1e6, hourly=None), NOW) is None


def test_what_a_run_may_cost_is_reserved_and_what_does_not_fit_is_refused():
    purse.set_limit(Money(40, "USD"), NOW)
    rent("a", NOW)
    found = purse.reserve(run_of("a", NOW + 15 * HOUR), NOW)
    assert (found.spent, found.reserved, found.left) == (0, 30, 10)
    rent("b", NOW)
    with pytest.raises(purse.OverPurse) as error:
        purse.reserve(run_of("b", NOW + 6 * HOUR), NOW)
    assert str(error.value) == (
        "purse: 10.00 of 40 USD are left, and this run may cost 12.00 until its end at the latest; "
        "a deadline 5.0 h from now fits, or rgt purse set AMOUNT gives more"
    )
    assert purse.reserve(run_of("b", NOW + 5 * HOUR), NOW).left == 0


def test_the_same_run_and_a_second_one_on_its_box_are_not_counted_twice():
    purse.set_limit(Money(40, "USD"), NOW)
    rent("a", NOW)
    for _ in range(3):
        assert purse.reserve(run_of("a", NOW + 15 * HOUR), NOW).left == 10
    assert purse.reserve(run_of("a", NOW + 10 * HOUR, "~/runs/other"), NOW).left == 10
    assert purse.reserve(run_of("a", NOW + 18 * HOUR, "~/runs/other"), NOW).left == 4


def begin(name, until, now, folder="~/runs/toy", hourly=USD):
    """Start a run, as `start` does: its price is noted, and what it may cost."""
    wanted = run_of(name, until, folder, hourly)
    rent(name, now, *hourly)
    purse.reserve(wanted, now)
    purse.begun(wanted, now)


def test_a_lower_price_takes_nothing_from_what_a_run_beside_it_costs_or_the_hours_before():
    purse.set_limit(Money(20, "USD"), NOW)
    begin("a", NOW + 2 * HOUR, NOW)
    begin("a", NOW + HOUR, NOW, "~/runs/cheap", Money(0.01, "USD"))
    assert purse.account(NOW).reserved == 4
    later = purse.account(NOW + HOUR)
    assert (later.spent, later.reserved) == (2, 2)
    with pytest.raises(purse.OverPurse, match="16.00 of 20 USD are left"):
        purse.reserve(run_of("b", NOW + 9 * HOUR), NOW)
    assert purse.account(NOW + 12 * HOUR).spent == pytest.approx(4.1)
    begin("a", NOW + 14 * HOUR, NOW + 13 * HOUR, "~/runs/other")
    assert purse.account(NOW + 13 * HOUR).spent == pytest.approx(4.11)
    [box] = ledger.still_open()
    assert box.cost(NOW + 13 * HOUR) == pytest.approx(4.11)


def test_a_higher_price_holds_from_when_it_was_typed():
    purse.set_limit(Money(40, "USD"), NOW)
    begin("a", NOW + 4 * HOUR, NOW)
    begin("a", NOW + 2 * HOUR, NOW + HOUR, "~/runs/dear", Money(3.0, "USD"))
    found = purse.account(NOW + HOUR)
    assert (found.spent, found.reserved) == (2, 9)


def test_a_price_in_another_currency_leaves_what_was_spent_before():
    purse.set_limit(Money(40, "USD"), NOW)
    begin("a", NOW + HOUR, NOW)
    rent("a", NOW + 2 * HOUR, 5.0, "EUR")
    found = purse.account(NOW + 3 * HOUR)
    assert (found.spent, found.uncounted) == (4, ["a"])
    assert ledger.still_open()[0].cost(NOW + 3 * HOUR) is None


def test_the_first_price_of_a_box_holds_for_its_hours_before():
    purse.set_limit(Money(40, "USD"), NOW)
    rent("a", NOW, price=None)
    begin("a", NOW + 6 * HOUR, NOW + 5 * HOUR)
    assert purse.account(NOW + 5 * HOUR).spent == 10


def test_of_two_starts_of_a_run_the_one_that_breaks_gives_back_its_own_part():
    purse.set_limit(Money(40, "USD"), NOW)
    rent("a", NOW)
    first, second = (run_of("a", NOW + hours * HOUR) for hours in (15, 2))
    purse.reserve(first, NOW)
    purse.reserve(second, NOW)
    assert purse.account(NOW).reserved == 30
    purse.give_back(second, NOW)
    assert purse.account(NOW).reserved == 30
    purse.begun(first, NOW)
    purse.give_back(second, NOW)
    assert purse.account(NOW).reserved == 30


def test_a_run_that_goes_on_for_less_gives_the_rest_back_once_it_has_begun():
    purse.set_limit(Money(40, "USD"), NOW)
    begin("a", NOW + 15 * HOUR, NOW)
    again = run_of("a", NOW + 3 * HOUR)
    purse.reserve(again, NOW + HOUR)
    assert purse.account(NOW + HOUR).reserved == 28
    purse.begun(again, NOW + HOUR)
    assert purse.account(NOW + HOUR).reserved == 4
    assert [rental.ends for rental in ledger.rentals()] == [{"~/runs/toy": NOW + 3 * HOUR}]


def test_a_box_counts_until_it_is_confirmed_gone():
    purse.set_limit(Money(40, "USD"), NOW)
    rent("a", NOW)
    purse.reserve(run_of("a", NOW + 5 * HOUR), NOW)
    late = purse.account(NOW + 12 * HOUR)
    assert (late.spent, late.reserved) == (24, 0)
    ledger.gone("a:22", "a", "the user says so", now=NOW + 13 * HOUR)
    assert purse.account(NOW + 100 * HOUR).spent == 26
    rent("a", NOW + 101 * HOUR)  # rented again: both count
    assert purse.account(NOW + 102 * HOUR).spent == 28


def test_what_was_before_the_purse_is_not_counted_nor_an_own_machine():
    rent("a", NOW - 50 * HOUR)
    rent("old", NOW - 50 * HOUR)
    ledger.gone("old:22", "old", "", now=NOW - 40 * HOUR)
    rent("mine", NOW - HOUR)
    purse.set_limit(Money(40, "USD"), NOW)
    ledger.forget("mine", "mine:22", own=True, now=NOW + HOUR)
    found = purse.account(NOW + HOUR)
    assert (found.spent, found.uncounted) == (2, [])


def test_a_box_without_a_price_in_this_currency_is_named():
    purse.set_limit(Money(40, "USD"), NOW)
    rent("a", NOW, price=None)
    rent("b", NOW, currency="EUR")
    found = purse.account(NOW + HOUR)
    assert (found.spent, found.uncounted) == (0, ["a", "b"])
    assert "not counted, without a price in USD: a, b" in found.in_words()
    for hourly in (None, Money(1, "EUR"), Money(1)):
        with pytest.raises(purse.OverPurse, match="names no price in USD"):
            purse.reserve(run_of("c", NOW + HOUR, hourly=hourly), NOW)


def test_a_run_that_did_not_begin_gives_its_part_back():
    purse.set_limit(Money(40, "USD"), NOW)
    rent("a", NOW)
    wanted = run_of("a", NOW + 15 * HOUR)
    purse.reserve(wanted, NOW)
    purse.give_back(wanted, NOW)
    assert purse.account(NOW).left == 40


def test_a_cleared_purse_limits_nothing():
    purse.set_limit(Money(40, "USD"), NOW)
    purse.set_limit(None, NOW)
    assert purse.account(NOW) is None


LIMIT_DAMAGE = {
    "torn": lambda data: data[:12],
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "no amount": lambda data: data.replace(b'"amount"', b'"amuont"'),
    "an amount of nothing": lambda data: data.replace(b"40,", b"null,"),
    "an amount of 0": lambda data: data.replace(b"40,", b"0,"),
    "an amount without an end": lambda data: data.replace(b"40,", b"1e999,"),
    "no currency": lambda data: data.replace(b"USD", b""),
}


@pytest.mark.parametrize("how", LIMIT_DAMAGE)
def test_a_limit_that_cannot_be_read_lets_no_run_start_until_it_is_set_or_cleared(how, capsys):
    for words in (["set", "40", "USD"], ["clear"]):
        purse.set_limit(Money(40, "USD"), NOW)
        data = purse.place().read_bytes()
        assert LIMIT_DAMAGE[how](data) != data
        purse.place().write_bytes(LIMIT_DAMAGE[how](data))
        for refused in (purse.check, purse.reserve):
            with pytest.raises(purse.OverPurse, match="rgt purse set AMOUNT.*rgt purse clear"):
                refused(run_of("a", NOW + HOUR), NOW)
        assert main.main(["purse"]) == 2
        assert f"error: purse: {purse.place()} is damaged (" in capsys.readouterr().err
        assert main.main(["purse", *words]) == 0
        assert (purse.reserve(run_of("a", NOW + HOUR), NOW) is None) is (words == ["clear"])


def test_a_limit_outlives_each_damage_to_the_list_of_boxes():
    rent("a", NOW)
    purse.set_limit(Money(40, "USD"), NOW)
    purse.reserve(run_of("a", NOW + HOUR), NOW)
    lines = ledger.place().read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines):
        for wrong in (
            line[:20] + b"\n",
            bytes(len(line) - 1) + b"\n",
            line.replace(b"until", b"untli"),
        ):
            if wrong == line:
                continue
            ledger.place().write_bytes(b"".join([*lines[:number], wrong, *lines[number + 1 :]]))
            with pytest.raises(purse.OverPurse, match="ledger.jsonl is damaged"):
                purse.reserve(run_of("b", NOW + HOUR), NOW)


def without(number):
    """Delete a line of the list of boxes."""
    lines = ledger.place().read_bytes().splitlines(keepends=True)
    ledger.place().write_bytes(b"".join([*lines[:number], *lines[number + 1 :]]))


def restored(*files):
    """Put back what was there before the last reservation, over the files that are there."""

    def put():
        for file in files:
            file().write_bytes(file().with_suffix(".backup").read_bytes())

    return put


def whole_restored():
    """Put the state folder back from a backup, in its place."""
    restored(purse.place, ledger.place)()
    data, times = this_machine.place().read_bytes(), this_machine.place().stat()
    this_machine.place().write_bytes(data)
    os.utime(this_machine.place(), ns=(times.st_atime_ns, times.st_mtime_ns))


def both_deleted():
    purse.place().unlink()
    ledger.place().unlink()


LOSSES = {
    "emptied": (lambda: ledger.place().write_bytes(b""), "isn't what it was"),
    "deleted": (lambda: ledger.place().unlink(), "isn't what it was"),
    "its first line deleted": (lambda: without(0), "isn't what it was"),
    "its last line deleted": (lambda: without(-1 % len(ledger._events())), "isn't what it was"),
    "put back from a backup": (restored(ledger.place), "isn't what it was"),
    "both put back from a backup": (restored(purse.place, ledger.place), "isn't what it was"),
    "the folder put back from a backup": (whole_restored, "copied or restored since"),
    "no purse": (lambda: purse.place().unlink(), "purse.json is missing; "),
    "both deleted": (both_deleted, "purse.json is missing; "),
}


@pytest.mark.parametrize("how", LOSSES)
def test_what_was_reserved_is_never_given_out_again_because_a_file_was_lost(how, capsys):
    rent("a", NOW)
    purse.set_limit(Money(40, "USD"), NOW)
    for file in (ledger.place(), purse.place()):
        file.with_suffix(".backup").write_bytes(file.read_bytes())
    purse.reserve(run_of("a", NOW + 15 * HOUR), NOW)
    change, why = LOSSES[how]
    change()
    rent("b", NOW)
    for refused in (purse.check, purse.reserve):
        with pytest.raises(purse.OverPurse, match=f"{why}.*rgt purse set AMOUNT.*rgt purse clear"):
            refused(run_of("b", NOW + HOUR), NOW)
    assert main.main(["purse"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: purse: ") and said.count("\n") == 1
    is_told = "30.00 of 40 USD were spent or reserved at 2026-09-21" in said
    assert is_told is ("copied or restored" not in said)
    assert main.main(["purse", "set", "100", "USD"]) == 0
    assert purse.reserve(run_of("b", NOW + HOUR), NOW)


def test_an_older_purse_that_is_put_back_is_none():
    purse.set_limit(Money(400, "USD"), NOW)
    rent("a", NOW)
    before = purse.place().read_bytes(), ledger.place().read_bytes()
    purse.set_limit(Money(40, "USD"), NOW + HOUR)
    rent("b", NOW)
    for file, data in zip((purse.place(), ledger.place()), before, strict=True):
        file.write_bytes(data)
        with pytest.raises(purse.OverPurse, match="isn't the purse that was set last"):
            purse.account(NOW + HOUR)


def test_what_is_added_to_a_list_that_was_cut_makes_it_no_whole_one():
    rent("a", NOW)
    purse.set_limit(Money(40, "USD"), NOW)
    lines = ledger.place().read_bytes()
    purse.reserve(run_of("a", NOW + 15 * HOUR), NOW)
    ledger.place().write_bytes(lines)
    for number in range(9):
        rent(f"b{number}", NOW)
    with pytest.raises(purse.OverPurse, match="isn't what it was"):
        purse.account(NOW)


@pytest.mark.parametrize("text", ["", "{", '{"size": -1, "boxes": 7}'])
def test_a_damaged_note_of_the_list_holds_up_a_run_only_where_a_purse_is_set(text):
    wanted = run_of("a", NOW + HOUR)
    rent("a", NOW)
    [file] = ledger.place().parent.glob("guard/ledger.json")
    for is_set in (False, True):
        if is_set:
            purse.set_limit(Money(40, "USD"), NOW)
        file.write_text(text)
        rent(f"b{is_set}", NOW)
        assert file.read_text() == text and ledger.lost() == {}
        assert f"{file} is damaged" in str(ledger.damage())
        if not is_set:
            assert purse.reserve(wanted, NOW) is None
            continue
        with pytest.raises(purse.OverPurse, match="guard/ledger.json is damaged"):
            purse.reserve(wanted, NOW)
        purse.set_limit(Money(40, "USD"), NOW)
        assert purse.reserve(wanted, NOW).left == 38


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such pipes")
def test_a_list_that_cannot_be_read_now_may_be_whole():
    rent("a", NOW)
    purse.set_limit(Money(40, "USD"), NOW)
    data = ledger.place().read_bytes()
    ledger.place().unlink()
    os.mkfifo(ledger.place())
    with pytest.raises(OSError, match="no plain file"):
        ledger.note_written()
    assert not ledger.last_written().is_cut
    with pytest.raises(purse.OverPurse, match="no plain file"):
        purse.account(NOW)
    ledger.place().unlink()
    ledger.place().write_bytes(data)
    assert purse.account(NOW).left == 40


def test_boxes_that_the_list_lost_are_known_until_it_names_them_again():
    rent("a", NOW)
    before = ledger.place().read_bytes()
    rent("b", NOW)
    ledger.gone("a:22", "a", "")
    assert ledger.lost() == {}
    ledger.place().unlink()
    assert ledger.lost() == {"b:22": "b"}
    ledger.place().write_bytes(before)
    rent("c", NOW)
    ledger.note_written()
    assert ledger.lost() == {"b:22": "b"}
    rent("b", NOW)
    assert ledger.lost() == {}


def test_a_run_that_the_list_of_boxes_lost_counts_until_the_purse_is_set_anew():
    purse.set_limit(Money(40, "USD"), NOW)
    ledger.jobs_place().mkdir(parents=True)
    told = {"address": "a:22", "folder": "~/runs/toy", "profile": "", "given": {}, "at": NOW + 1}
    (ledger.jobs_place() / "a.json").write_text(json.dumps(told))
    with pytest.raises(purse.OverPurse, match="doesn't have a:22, where a run was started since"):
        purse.account(NOW + HOUR)
    purse.set_limit(Money(40, "USD"), NOW + HOUR)
    found = purse.account(NOW + HOUR)
    assert found.lost == ["a:22"] and "not counted, as the list of boxes lost them: a:22" in (
        found.in_words()
    )


def test_a_run_that_was_started_before_the_purse_was_set_is_counted_to_its_end():
    rent("a", NOW)
    purse.reserve(run_of("a", NOW + 15 * HOUR), NOW)
    purse.set_limit(Money(40, "USD"), NOW + HOUR)
    assert purse.account(NOW + HOUR).reserved == 28


def test_what_is_added_to_the_list_of_boxes_is_no_damage():
    purse.set_limit(Money(40, "USD"), NOW)
    rent("a", NOW)
    wanted = run_of("a", NOW + 15 * HOUR)
    purse.reserve(wanted, NOW)
    purse.give_back(wanted, NOW)
    rent("b", NOW)
    ledger.gone("b:22", "b", "", now=NOW)
    assert purse.account(NOW).left == 40


def test_of_two_that_reserve_at_once_one_is_refused():
    purse.set_limit(Money(40, "USD"), NOW)
    names = [f"box{number}" for number in range(8)]
    for name in names:
        rent(name, NOW)
    came_to = []

    def reserve(name):
        try:
            came_to.append(purse.reserve(run_of(name, NOW + 9 * HOUR), NOW).left)
        except purse.OverPurse:
            came_to.append("refused")

    threads = [threading.Thread(target=reserve, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, came_to)) == ["22.0", "4.0", *["refused"] * 6]


def without_fcntl():
    """Let this process lock as Windows does, by msvcrt."""
    import fcntl

    from remote_gpu_trainer.text import locking

    windows = types.ModuleType("msvcrt")
    windows.LK_LOCK, windows.LK_NBLCK = fcntl.LOCK_EX, fcntl.LOCK_EX | fcntl.LOCK_NB
    windows.locking = fcntl.lockf
    sys.modules["msvcrt"], locking.fcntl = windows, None


def race(homes, name, is_windows, ready, came_to):
    """Reserve once in each home, at the same moment as the other process."""
    if is_windows:
        without_fcntl()
    for home in homes:
        os.environ["XDG_STATE_HOME"] = home
        ready.wait(60)
        try:
            purse.reserve(run_of(name, NOW + 15 * HOUR), NOW)
            came_to.put((home, name))
        except purse.OverPurse:
            pass


@pytest.mark.skipif(os.name != "posix", reason="gives a process the locks of Windows")
@pytest.mark.parametrize("is_windows", [False, True])
def test_of_two_processes_that_reserve_at_once_one_wins_each_of_twenty_times(
    tmp_path, monkeypatch, is_windows
):
    homes = [str(tmp_path / str(number)) for number in range(20)]
    for home in homes:
        monkeypatch.setenv("XDG_STATE_HOME", home)
        purse.set_limit(Money(40, "USD"), NOW)
        rent("a", NOW)
        rent("b", NOW)
    several = multiprocessing.get_context("spawn")
    ready, came_to = several.Barrier(2), several.Queue()
    racers = [
        several.Process(target=race, args=(homes, name, is_windows, ready, came_to))
        for name in "ab"
    ]
    for racer in racers:
        racer.start()
    won = [came_to.get(timeout=120)[0] for _ in homes]
    for racer in racers:
        racer.join(60)
    assert sorted(won) == sorted(homes) and came_to.empty()
    assert [racer.exitcode for racer in racers] == [0, 0]


def test_a_purse_that_cannot_be_locked_reserves_nothing(monkeypatch):
    def fails(descriptor, waits=True):
        raise OSError(36, "resource deadlock avoided")

    rent("a", NOW)
    with monkeypatch.context() as patch:
        patch.setattr(local_files, "lock", fails)
        assert purse.reserve(run_of("a", NOW + HOUR), NOW) is None  # without a purse: no refusal
    purse.set_limit(Money(40, "USD"), NOW)
    monkeypatch.setattr(local_files, "lock", fails)
    with pytest.raises(purse.OverPurse, match="can't lock"):
        purse.reserve(run_of("a", NOW + HOUR), NOW)


@pytest.mark.parametrize("words", [["set", "4", "USD"], ["clear"]])
def test_a_purse_that_cannot_be_written_is_one_line_of_an_error(
    tmp_path, monkeypatch, words, capsys
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert main.main(["purse", *words]) == 2
    assert capsys.readouterr().err.startswith("error: can't write ")
