"""What the core is given and what it gives back: what is seen, the state, the actions."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar, Union

ASKED, DEADLINE = "asked", "deadline"  # who asks for an end: the verb stop, and the deadline


class Verdict(NamedTuple):
    """What an attempt, or a run, came to; class '' is success."""

    failure: str = ""
    entry: str = ""
    reason: str = ""


class Exit(NamedTuple):
    """How an attempt ended, with nothing of it left.

    `code`: None where nobody could read it. `step`: of its log. `evidence`: what log, kernel and
    disk show of why it ended; class '' where all is there that the job names. `missing`, `stale`,
    `corrupt`: results that aren't there, are from before the run, or are broken. `owed`: results
    that weren't there when it was asked to end. `unstarted`: what failed before the program itself.
    `is_timelimit`, `is_signalled`: its log tells of a limit, or of a signal. `remark`: what is odd
    about an end with 0.

    `newest`: the id of the newest complete checkpoint now, '' for none; `older`: of the one before
    it, which is looked for where `began`, the one that it was given, is `newest`. `saved_step`: of
    `newest`. `has_stepped`: it got to a second step. `has_copied`: a checkpoint that it saved was
    copied; `has_saved`: one was seen complete here, whether it is still there or not. `is_anew`: it
    trained from nothing. `again`: why another start would fail too; where that is known, `evidence`
    is what it came to, and no other attempt follows.
    """

    code: int | None = 0
    step: int | None = None
    evidence: Verdict = Verdict()
    missing: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    corrupt: tuple[str, ...] = ()
    owed: tuple[str, ...] = ()
    unstarted: str = ""
    is_timelimit: bool = False
    is_signalled: bool = False
    remark: str = ""
    newest: str = ""
    older: str = ""
    began: str = ""
    saved_step: int | None = None
    has_stepped: bool = False
    has_copied: bool = False
    is_anew: bool = False
    has_saved: bool = False
    again: str | None = None


class Save(NamedTuple):
    """A save that goes on. `path`: of what is written, '' for none. `grows`: it changed within the
    last moments. `is_one`: one file has been open since the first look."""

    path: str = ""
    grows: bool = False
    is_one: bool = True


class Signs(NamedTuple):
    """What one look showed of the program.

    `checkpoint`: the id of the newest complete one. `output`: changes where a file of the program's
    own grows. `cpu_seconds`: what its processes have used so far. `busy`: a card computes. `hot`:
    all its cards are at full utilisation and idle power, waiting for a message.
    """

    log_grew: bool = False
    step: int | None = None
    checkpoint: str = ""
    output: str = ""
    cpu_seconds: float = 0.0
    busy: bool = False
    hot: bool = False


class Local(NamedTuple):
    """A checkpoint in the folder. `fault`: why it is corrupt or can't be read, '' for neither.
    `is_quiet`: nobody has written it for a while. `numbers`: in its name; files of one save have
    the same."""

    path: str
    fault: str = ""
    is_quiet: bool = True
    numbers: tuple[int, ...] = ()


class Folder(NamedTuple):
    """The checkpoint folder. `whole`: the newest complete one; `is_mixed`: that is of two saves.
    `corrupt`: corrupt ones that are newer; `unread`: those that nobody can read. `error`: why the
    folder can't be looked at. `path`: its own, as it is told. `has_held`: checkpoints are held
    beside it."""

    whole: Local | None = None
    is_mixed: bool = False
    corrupt: tuple[Local, ...] = ()
    unread: tuple[Local, ...] = ()
    error: str = ""
    path: str = ""
    has_held: bool = False


class Worker(NamedTuple):
    """The process that copies. `number`: how many were started; the rest is of the last one.
    `code`: None while it works, else 0 for success. `why`: what it says of a failure. `still`:
    seconds without progress."""

    number: int = 0
    code: int | None = 0
    why: str = ""
    still: float = 0.0

    @property
    def is_going(self) -> bool:
        """Return whether it works."""
        return self.code is None


class Kept(NamedTuple):
    """What is safe elsewhere. `is_whole`: all that goes there was compared after the last change.
    `has_proof`: a checkpoint is proven there, or the results are. `is_newest_safe`, `is_all_safe`:
    the newest complete checkpoint is, or nothing is lost; and the results, too. `has_left`: results
    that aren't there, or checkpoints that nothing proves complete, are here."""

    is_whole: bool = False
    has_proof: bool = False
    is_newest_safe: bool = False
    is_all_safe: bool = False
    has_left: bool = False


class Command(NamedTuple):
    """The command that ends the box. `number`: how many were started; the rest is of the last one.
    `code`: None while it runs. `said`: its last words. `lacks`: the credentials that aren't here,
    of those that ending the box needs. `is_elsewhere`: another process's command still runs."""

    number: int = 0
    code: int | None = 0
    said: str = ""
    lacks: tuple[str, ...] = ()
    is_elsewhere: bool = False


class Seen(NamedTuple):
    """What is seen at one moment: levels, never events.

    `asked`: who asks for an end, `asked` for the verb stop or `signal X`, '' for nobody; `notice`:
    what the provider announces, `notice from X`. `left`: seconds to the deadline, by the clock that
    says less. `save_seconds`: how long a save takes. `has_lost_lease`: another machine trains in
    the checkpoint folder.

    `refusals`, `staged`: what a check and a stage said; None before they did. `settles`: seconds in
    which what is refused may still come, after a boot. `is_first_node`: of several. `folder`, and
    `is_fetched`: whether the durable place was asked for better ones since the last attempt; what
    it answered instead is `fetch`.

    `attempt`: the number of the one that was started last, whose program this is. `is_alive`: that,
    or what it left that trains on. `exit`: how it ended, once nothing of it is left. `handles`: it
    handles the save signal; `is_signalled`: that was sent. `signs`: what it shows, None where
    nobody has looked. `is_full`: a disk of the run has no room.

    `unheld`: what an earlier attempt left complete, and what lies on this box alone, so that
    another one could write over the only one; `hold_worker`: the process that holds it here.

    `worker`: of copies, which plan.py decides about. `is_changed`: something came that no copy has;
    `rests`: it has changed no more. `kept`: what is safe elsewhere; `unsafe`: why nothing proves
    that. `marked`: the end that the marker names. `has_quiet`: the user
    wants to hear nothing more. `durable`: the durable place, and `script`: the run.sh, as they are
    told.
    """

    asked: str = ""
    notice: str = ""
    left: float = 1e9
    save_seconds: float = 30.0
    has_lost_lease: bool = False
    refusals: tuple[Verdict, ...] | None = None
    settles: float = 0.0
    staged: Verdict | None = None
    is_first_node: bool = True
    folder: Folder = Folder()
    is_fetched: bool = False
    fetch: Verdict = Verdict()
    attempt: int = 0
    is_alive: bool = False
    exit: Exit | None = None
    handles: bool = False
    is_signalled: bool = False
    save: Save = Save()
    signs: Signs | None = None
    nan: str = ""
    is_full: bool = False
    unheld: tuple[str, ...] = ()
    hold_worker: Worker = Worker()
    worker: Worker = Worker()
    is_changed: bool = False
    rests: bool = False
    kept: Kept = Kept()
    unsafe: str = ""
    marked: str = ""
    has_quiet: bool = False
    command: Command = Command()
    durable: str = ""
    script: str = ""


class Begin(NamedTuple):
    """Forget the end of the start before, note what lies here, and end a program that it left."""


class Check(NamedTuple):
    """Look whether anything speaks against a start."""


class Stage(NamedTuple):
    """Bring the environment, data and checkpoints to the box."""


class Fetch(NamedTuple):
    """Bring better checkpoints from the durable place, if it has any."""


class Quarantine(NamedTuple):
    """Give a corrupt checkpoint a name that no automatic resume finds."""

    path: str


class Hold(NamedTuple):
    """Copy on this box what is complete here alone, before an attempt may write over it."""

    number: int


class SetAside(NamedTuple):
    """The same with one that no attempt ever loaded, after a crash. `older`: the id of the one that
    the next attempt begins with in its place."""

    path: str
    older: str


class Restore(NamedTuple):
    """Give a checkpoint that was set aside, and wasn't to blame, its name back."""

    path: str


class Start(NamedTuple):
    """Start an attempt. `source`: the path of the checkpoint that it is given, '' for none. `note`:
    which were left out, as a sentence."""

    number: int
    source: str
    note: str = ""


class Signal(NamedTuple):
    """Send the program the signal to save and end. `why`: who asks."""

    why: str


class AwaitSave(NamedTuple):
    """Tell, once, that an end waits for the save of this path."""

    path: str


class Kill(NamedTuple):
    """Kill what is left of the program. `kind`: what for, a name of watching.py or `deadline`;
    `why`: the same as a sentence."""

    kind: str
    why: str


class Snapshot(NamedTuple):
    """Take a snapshot of a program that stands still, before it is killed. `why`: what shows it."""

    why: str


class NoteExit(NamedTuple):
    """Note in the events, and in the log, what an attempt came to. `wait`: seconds before another
    one begins, None where none does."""

    verdict: Verdict
    wait: float | None = None


class Copy(NamedTuple):
    """Start a round of copies, in which a plan says each time what to copy, commit and drop.
    `mode`: quick, full (all is compared) or whole (and nothing may be absent). `seconds`: how long
    it may take, 0 for any."""

    number: int
    mode: str
    seconds: float = 0.0


class CutCopy(NamedTuple):
    """End the round of copies that goes on."""


class NoteFailure(NamedTuple):
    """Note in the events, and in the log, that a round of copies failed. `count`: in a row."""

    count: int
    text: str


class Mark(NamedTuple):
    """Leave the marker of an end, '' for that of a run that didn't come to one by its deadline."""

    end: str


class EndBox(NamedTuple):
    """Run what ends the box. `how`: `run` for the job's own command, `stop` for the platform's that
    keeps the disk. `case`: of `at_end.when`."""

    number: int
    how: str
    case: str


class Tell(NamedTuple):
    """Send a message. `key`: its kind."""

    key: str
    text: str


class Note(NamedTuple):
    """Leave for every `status` what is waited for: `boot` before a start, `hold` before an attempt,
    else why the box is still on although it was to end."""

    kind: str
    text: str


class AboutRunner(NamedTuple):
    """Do this with the process that runs the attempts: a name of supervise.py."""

    do: str


class Ask(NamedTuple):
    """Ask that process for a save and the end. `why`: who asks."""

    why: str


Action = Union[
    Begin, Check, Stage, Fetch, Quarantine, SetAside, Restore, Hold, Start, Signal, AwaitSave,
    Snapshot, Kill, NoteExit, Copy, CutCopy, NoteFailure, Mark, EndBox, Tell, Note, AboutRunner,
    Ask,
]  # fmt: skip
_T = TypeVar("_T")


def as_json(value: Any) -> Any:
    """Return a NamedTuple, with those in it, as objects for JSON."""
    if not isinstance(value, (tuple, list)):
        return value
    names = getattr(value, "_fields", None)
    if names is not None:
        return {name: as_json(part) for name, part in zip(names, value)}
    return [as_json(part) for part in value]


def of_json(kind: type[_T], data: Any) -> _T:
    """Return what `as_json` was given; a field that isn't there, or is of another type, has its
    default."""
    usual: Any = kind()
    if not isinstance(data, dict):
        return usual
    fields = {}
    for name, default in zip(usual._fields, usual):
        if name in data:
            fields[name] = _field(usual, name, default, data[name])
    return usual._replace(**fields)


def _field(usual: Any, name: str, default: Any, value: Any) -> Any:
    kind = getattr(usual, "PARTS", {}).get(name)  # of a field that may be None
    if kind is None and hasattr(default, "_fields"):
        kind = type(default)
    if kind is not None:
        return default if value is None else of_json(kind, value)
    if isinstance(default, tuple):
        return _tuple(value) if isinstance(value, list) else default
    if default is None or value is None or isinstance(value, type(default)):
        return value
    is_number = isinstance(default, float) and isinstance(value, int)
    return float(value) if is_number else default


def _tuple(value: Any) -> Any:
    return tuple(_tuple(part) for part in value) if isinstance(value, list) else value
