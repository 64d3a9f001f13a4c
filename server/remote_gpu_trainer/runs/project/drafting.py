"""A job for a project, each line with its reason, and what only its owner can say as a question."""

from __future__ import annotations

import ast
import re
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from ...text import UserError
from ...text.secrets import is_secret
from .. import code_files
from ..job_reading import from_object
from . import lengths, options, programs, saves, sources
from .lengths import Length
from .options import Option
from .programs import Start
from .saves import Saving
from .sources import Project, Source, undefined
from .values import Values

_PACKAGES = ("uv.lock", "requirements.txt", "environment.yml", "environment.yaml")
# Other names of such lists, the one for training first.
_OTHER_PACKAGES = re.compile(
    r"(?:requirements?/)?requirements?[\w.-]*\.txt|requirements?/[\w.-]+\.txt"
    r"|(?:conda[_-]?)?env(?:ironment)?[\w.-]*\.ya?ml",
    re.I,
)
_CONFIGS = re.compile(r"\.(?:ya?ml|json)$")
_ABSOLUTE = re.compile(  # but no second part of a path, as in `here + "/data"`
    r"""(?<!\+)(?<!\+[ ])["']"""
    r"""((?:/(?:home|data|mnt|media|root|Users|scratch|workspace|nas|raid|share)\w*/"""
    r"""|[A-Za-z]:[\\/])[^"'\n*?]{2,120})["']"""
)
_SAVES_IN = re.compile(
    r"(?:output|out|save|model|checkpoint|ckpt|weights?|result|exp|experiment|work|run|log)s?_?"
    r"(?:dir|folder|root|path)(?:ectory)?",
    re.I,
)
_FOLDER = re.compile(r"[\w-][\w-]*(?:/[\w.-]+)*")
_ABOVE = re.compile(r"""["'](\.\./[^"'\n]{1,80})["']""")
_WAITS = re.compile(r"(?<![\w.])input\(|plt\.show\(|wandb\.login\(|(?:getpass\.)?getpass\(")
_OF_RUNS = re.compile(r"(?:--multirun|-m)$|hydra/(?:launcher|sweeper)=")
_LAUNCHERS = re.compile(  # variables that a launcher sets
    r"MASTER_(?:ADDR|PORT)|(?:GPUS|NPROC|PROCS)_PER_NODE|N?NODES?|NUM_NODES|(?:NODE_|LOCAL_)?RANK|WORLD_SIZE"
)
_COUNT = re.compile(r"(?:gpu:)?(?:[A-Za-z][\w.-]*:)?([1-9]\d?)")  # gpu:a100:4 of --gres
_CARDS = re.compile(
    r"(?:gpu|gpu_?ids?|device|device_?ids?|cuda|cuda_?(?:device|id)|gpu_?(?:num|idx))s?"
)
_DEVICES = re.compile(r"accelerator|device(?:_?type)?")
_CARD_NAMES = re.compile(
    r"""CUDA_VISIBLE_DEVICES["']\]?\s*[=,]\s*["']([\d, ]+)["']|["']cuda:(\d+)["']"""
)
WIDTH = 34  # columns before a comment


class Undrafted(Exception):
    """A folder that no job can be drafted from. One line: what is wrong; what to do."""


@dataclass
class Line:
    """One line of the job: field, value, and the comment behind it.

    `question`: what only the owner can say; '' for none. `is_off`: written as a comment, since it
    would be a guess that does harm. `offer`: what a terminal asks though the job does without it.
    """

    field: str
    value: Any
    comment: str = ""
    question: str = ""
    is_off: bool = False
    offer: str = ""


@dataclass
class Draft:
    """A drafted job: its lines, and all that was seen besides."""

    program: str
    lines: list[Line] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def questions(self) -> list[str]:
        """Return what only the owner can say, in the order of the lines."""
        return [one.question for one in self.lines if one.question]

    def values(self) -> dict[str, Any]:
        """Return the job's fields, without the lines that are switched off."""
        return {one.field: one.value for one in self.lines if not one.is_off}

    def set(self, name: str, value: object, comment: str) -> None:
        """Answer a question: the line of a field gets a value, and asks no more."""
        for line in self.lines:
            if line.field == name:
                line.value, line.comment, line.question, line.is_off = value, comment, "", False
                line.offer = ""

    def as_yaml(self) -> str:
        """Return the job as YAML with its comments."""
        head = [
            f"# A job for {self.program}, drafted from the project's source; nothing of it ran.",
            "# Lines with a ? need your answer. Try it before it costs money: rgt rehearse.",
            "# Those behind a # are off until you remove it. All fields: rgt render --schema.",
        ]
        return "\n".join([*head, *(_line_text(one) for one in self.lines), *self.notes]) + "\n"


def _line_text(line: Line) -> str:
    text = (
        f"{line.field}:"
        if line.value is None
        else yaml.safe_dump(
            {line.field: line.value},
            default_flow_style=None if not isinstance(line.value, (list, dict)) else True,
            sort_keys=False,
            allow_unicode=True,
            width=10_000,
        ).strip()
    )
    if text.startswith("{"):
        text = text[1:-1]
    rows = [f"# {row}" if line.is_off else row for row in text.splitlines()]
    said = f"? {line.question}" if line.question else line.comment
    if said:
        rows[-1] = f"{rows[-1]:<{WIDTH}}  # {said}"
    return "\n".join(rows)


def draft(folder: Path, program: str = "", platform: Line | None = None) -> Draft:
    """Return a job for the project in a folder. Raises Undrafted and OSError.

    `program`: the training program, relative to the folder; '' to find it. `platform`: the line
    that names where it is to run, None for one that names nothing.
    """
    project = sources.read(folder)
    candidates = programs.training_programs(project)
    started = programs.starts(project)
    is_named = bool(program)
    if program:
        program = str(PurePosixPath(program))
        if program not in project.sources:
            raise Undrafted(f"{program[:100]} isn't a Python file of {folder}; name one below it")
    else:
        program = _chosen(candidates, started)
    if not program:
        return _draft_script(project, platform)
    start = _start_for(program, started)
    used = project.used_by(program)
    declared = options.read(used, start.words)
    settings = options.settings_of(folder, _configs(project, start, declared))
    configs = [project.sources[one] for one in start.words if one in project.sources]
    given = {**options.settings_of_sources(configs), **options.given_by(start.words, declared)}
    is_parsed = any("HfArgumentParser" in one.text for one in used)
    defaults = {"do_train": ("False",)} if is_parsed else {}  # of TrainingArguments
    values = Values(used, {**defaults, **settings, **options.defaults_of(declared)}, given)
    saved = saves.read(used, values)
    saving = saves.choose_saving(saved)
    if start.launcher == "none" and programs.needs_launcher(used):
        start = replace(start, launcher="torchrun")
    if _is_whole(start):
        start = replace(start, launcher="none")
    made = Draft(program)
    others = [] if is_named else _as_likely(project, program, candidates, start)
    others += _other_scripts(start, started)
    own = [one.pattern for one in saved]
    command = _command_line(project, start, declared, others, values, own)
    made.lines += _lines(project, command, platform, start, saving, declared, values)
    try:
        from_object(made.values())
    except UserError as error:
        refused = f"it is refused as it is: {str(error).splitlines()[0]}"
        command.question = "; ".join(filter(None, [command.question, refused]))
    made.notes += _notes(folder, used)
    return made


def _is_whole(start: Start) -> bool:
    """Whether a script of the project has the whole line of a launcher, with options that a job
    doesn't pass on: then that line itself is the command."""
    is_plain = start.whole[:1] in (("accelerate",), ("torchrun",), ("deepspeed",))
    is_complete = start.processes and not start.left_open and (start.nodes or 1) == 1
    is_so = bool(start.other_options and is_plain and is_complete) and not start.is_module
    return is_so and programs.is_script(start.file)


def _draft_script(project: Project, platform: Line | None) -> Draft:
    """Return a job that runs a script by its name, where no Python file trains, as with a
    framework's own command. Raises Undrafted."""
    folder = project.folder
    scripts = [
        one
        for one in project.files
        if re.search(r"train[^/]*\.(?:sh|bash)$", one, re.I) and not sources.is_aside(one)
    ]
    if not scripts:
        faults = [one.fault for one in project.sources.values() if one.fault]
        said = f", where {faults[0]}" if faults else ""
        raise Undrafted(
            f"no training program in {folder}{said}; name it: rgt init {folder} --program TRAIN.py"
        )
    start = Start(scripts[0])
    others = "".join(f", or {one}" for one in scripts[1:4])
    ask = f"no Python file here trains: does this script{others}, and until it ends?"
    made = Draft(start.program)
    command = Line("command", ["bash", start.program], question=ask)
    made.lines += _lines(project, command, platform, start, Saving(), [], Values([], {}, {}))
    for line in made.lines:
        if line.field == "environment" and not line.is_off:
            line.question = f"does it have what {start.program} calls?"
    return made


def _lines(
    project: Project,
    command: Line,
    platform: Line | None,
    start: Start,
    saving: Saving,
    declared: list[Option],
    values: Values,
) -> list[Line]:
    """Return the lines of a job. `values`: with the files that its program uses."""
    used = values.sources
    asked = programs.asked_of_slurm(project, start)
    if asked and (platform is None or platform.is_off):
        platform = platform_line("slurm", f"{start.file} is for it")
    return [
        Line("name", _name_for(project.folder.resolve().name), "of the run"),
        command,
        platform or platform_line("", ""),
        Line("code", ".", "this folder is sent; what git ignores stays here"),
        *_package_lines(project, programs.installs(project), used),
        *_import_lines(project, start),
        *_launch_lines(start, declared, values, asked),
        *_slurm_lines(start, asked),
        Line(
            "deadline",
            "20h",
            "yours to say: the run saves and ends then, whatever the program does",
        ),
        *_checkpoint_lines(saving, declared, start, used, values),
        *_end_lines(saving, declared, values, start.folder),
    ]


def _chosen(candidates: dict[str, float], started: list[Start]) -> str:
    """Return the program that trains: of several, the one that the documents start first."""
    if not candidates:
        return ""
    likeliest = next(iter(candidates))
    best = [
        one
        for one in candidates
        if one == likeliest or PurePosixPath(one).name.lower().startswith("train")
    ]
    named = [
        start.program
        for start in started
        if start.trains and candidates.get(start.program, 0) > candidates[likeliest] - 4
    ]
    outside = [one for one in named if "/" not in one]  # in the project's own folder
    return next(iter([*outside, *(one for one in named if one in best), *named, *candidates]))


def _as_likely(
    project: Project, program: str, candidates: dict[str, float], start: Start
) -> list[str]:
    """Return the programs that may be meant as well: those whose source is as likely, and where
    no document names one, those that come near or that are called train."""
    worth = candidates.get(program, 0) - (0 if start.file else 2)
    trains = [
        one
        for one in project.sources
        if re.match(r"train", PurePosixPath(one).name, re.I)
        and one.count("/") == program.count("/")
        and project.sources[one].is_run
        and not start.file
    ]
    likely = [one for one, points in candidates.items() if points >= worth]
    return [one for one in dict.fromkeys([*likely, *trains]) if one != program]


def _other_scripts(start: Start, started: list[Start]) -> list[str]:
    """Return the scripts that start a program with other words than the one that was taken."""
    same = [one for one in started if one.program == start.program and one.trains]
    if not programs.is_script(start.file):
        own = options.given_by(start.words, [])
        return [
            f"{one.program} {shlex.join(one.words)[:80]}"
            for one in same
            if one.file == start.file
            for other in [options.given_by(one.words, [])]
            if not one.left_open
            and any(own.get(key, value) != value for key, value in other.items())
        ][:2]
    return list(
        dict.fromkeys(
            one.file
            for one in same
            if one.file != start.file and programs.is_script(one.file) and one.words != start.words
        )
    )


def _start_for(program: str, started: list[Start]) -> Start:
    """Return how a program is started: as a document says, with as few open words as possible."""
    own = [start for start in started if start.program == program]
    trains = [start for start in own if start.trains]
    return min(trains, key=lambda one: len(one.left_open), default=Start(program))


def _configs(project: Project, start: Start, declared: list[Option]) -> list[str]:
    """Return the YAML files that the program reads: those that its command or its options name."""
    words = [*start.words, *(one.default or "" for one in declared)]
    named = [word.partition("=")[2] or word for word in words]
    found = [
        one
        for one in project.files
        if _CONFIGS.search(one) and any(_names(word, one) for word in named)
    ]
    hydra = [
        one
        for one in project.files
        if re.search(
            r"(?:^|/)(?:conf|configs?|cfg)/(?:config|train|default|main|base)\.ya?ml$", one
        )
    ]
    return [*found, *(one for one in hydra if one not in found)]


def _names(word: str, path: str) -> bool:
    word = word.removeprefix("./")
    return (
        bool(word)
        and word.endswith((".yaml", ".yml", ".json"))
        and (path == word or path.endswith("/" + word))
    )


# A relative path whose words say that data lies there.
_DATA_PATH = re.compile(
    r"(?:\./)?(?:[\w.-]+/)*(?:[\w.-]*[_.-])?(?:data(?:sets?)?|corpus|inputs?)(?:[_.-][\w.-]*)?"
    r"(?:/[\w.-]+)*/?",
    re.I,
)


def _name_for(text: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-")
    return slug or "train"


def _command_line(
    project: Project,
    start: Start,
    declared: list[Option],
    others: list[str],
    values: Values,
    saved: list[str],
) -> Line:
    """Return the command, and what is open in it. `saved`: globs of what the program saves."""
    used = values.sources
    head = ["-m", start.program[:-3].replace("/", ".")] if start.is_module else [start.program]
    is_whole = _is_whole(start) and start.launcher == "none"
    python = [] if start.launcher != "none" else list(start.whole) if is_whole else ["python3"]
    command = [*python, *head, *start.words]
    why = f"as {start.file} starts it" if start.file else "guessed: the program that trains here"
    asks = [f"{one.fault}: does the box's Python read it?" for one in used if one.fault]
    if refused := options.undeclared(used, declared, start.words):
        names = ", ".join(refused[:4])
        ask = f"{start.file} has {names}, which {start.program} doesn't take: what is right?"
        return Line("command", command, question="; ".join([*asks, ask]))
    if missing := undefined(used[0]):
        names = ", ".join(missing[:4])
        ask = f"{start.program} uses {names} and defines it nowhere: is it the program?"
        return Line("command", command, question="; ".join([*asks, ask]))
    asks += _open_in(start, declared, used[0])
    asks += _open_for_hydra(project, start, values)
    if off := _training_off(used, declared, values):
        asks.append(f"{off}: is the command to have it?")
    asks += _kept_back(project, start, declared, used)
    loads = saves.loads(used, values, saved)
    if lacking := [one for one in loads if one not in project.files]:
        asks.append(f"it loads {', '.join(lacking[:3])}, which isn't sent: who brings it?")
    if waits := saves.waits(used):
        asks.append(f"{waits}, which waits for a person: what is it told?")
    if others:
        asks.append(f"{why.partition(':')[0]}; or is it {', '.join(others[:3])}?")
    return Line("command", command, why, question="; ".join(asks))


def _open_in(start: Start, declared: list[Option], program: Source) -> list[str]:
    """Return what is open in a command: words, options, paths of another machine."""
    asks = []
    if start.left_open:
        open_ = ", ".join(shlex.quote(word)[:60] for word in start.left_open[:4])
        asks.append(f"{start.file} leaves open: {open_}")
    if start.folder != ".":
        asks.append(f"{start.file} starts it in {start.folder}: do its paths hold from here?")
    if lacking := options.unset(declared, start.words):
        names = ", ".join(one.flag or one.name for one in lacking[:6])
        asks.append(f"the program asks for {names}; add them")
    if "LightningCLI" in program.text and not {"fit", "validate", "test"} & {*start.words}:
        asks.append("a LightningCLI takes fit and --config FILE: which?")
    if without := options.without_data(declared, start.words):
        asks.append(f"{without[0].flag} is empty: where is the data?")
    code = "\n".join(row for row in program.text.splitlines() if row.lstrip()[:1] != "#")
    named = options.elsewhere(declared, start.words)
    named = named or list(dict.fromkeys(found[1] for found in _ABSOLUTE.finditer(code)))
    if named:
        asks.append(f"it names {', '.join(named[:3])[:120]}: is that on the box?")
    above = _ABOVE.search(code) if "/" in start.program and not start.file else None
    if above:
        asks.append(f"{start.program} names {above[1]}: in which folder does it start?")
    return asks


def _open_for_hydra(project: Project, start: Start, values: Values) -> list[str]:
    """Return what is open in the configuration that hydra reads."""
    asks = []
    runs = [one for one in start.words if _OF_RUNS.match(one)]
    if runs and any("hydra" in source.text for source in values.sources):
        asks.append(f"it has {', '.join(runs)}, for many runs or a cluster: leave that out?")
    folder, name = options.configuration_of(values.sources[0], start.words)
    there = [one for one in project.files if one.startswith(f"{folder}/")]
    is_there = any(one in (f"{folder}/{name}.yaml", f"{folder}/{name}.yml") for one in there)
    if name and there and not is_there:
        asks.append(f"{folder} has no {name}.yaml, which the program reads: which one is it?")
    files = [one for one in project.files if _CONFIGS.search(one)]
    settings = options.settings_of(project.folder, files)
    if lacking := options.missing(values.sources, settings, start.words):
        asks.append(f"its configuration must give {', '.join(lacking[:4])}: how?")
    return asks


def _kept_back(
    project: Project, start: Start, declared: list[Option], used: list[Source]
) -> list[str]:
    """Return what a program needs and git keeps from being sent."""
    asks = []
    names = [one.path for one in used] + [word.removeprefix("./") for word in start.words]
    if new := [one for one in dict.fromkeys(names) if one in project.untracked]:
        asks.append(f"git doesn't track {', '.join(new[:4])}, so a start doesn't send it: add it?")
    read = [one.default or "" for one in declared] + [word for word in start.words]
    read += [text for source in used for text in source.texts]
    paths = [one.removeprefix("./").rstrip("/") for one in read if _DATA_PATH.fullmatch(one)]
    here = [one for one in dict.fromkeys(paths) if (project.folder / one).exists()]
    if unsent := code_files.ignored(project.folder, here[:200]):
        asks.append(f"git ignores {', '.join(unsent[:3])}, so it isn't sent: who brings it?")
    return asks


def _import_lines(project: Project, start: Start) -> list[Line]:
    """Return the variable by which a program below the folder finds what it imports from there."""
    is_below = "/" in start.program and start.program in project.sources
    values, why = dict(start.variables), f"as {start.file} exports it"
    secret = [name for name, value in values.items() if is_secret(name, value)]
    values = {k: v for k, v in values.items() if k not in secret and not _LAUNCHERS.fullmatch(k)}
    odd = [k for k, v in values.items() if v.startswith(("/", "~")) or re.search("proxy", k, re.I)]
    ask = f"are {', '.join(odd[:6])} right on the box?" if odd else ""
    if secret:
        ask = "; ".join(
            filter(None, [ask, f"{', '.join(secret)} belongs under secrets: where is it?"])
        )
    listed = frozenset(programs.packages(project, "requirements.txt"))
    if is_below and not start.is_module and project.imports_from_above(start.program, listed):
        values.setdefault("PYTHONPATH", ".")
        why = f"{start.program} imports from this folder" + (f"; {why}" if len(values) > 1 else "")
    return [Line("variables", values, why, question=ask)] if values or ask else []


def _package_lines(project: Project, install: str, used: list[Source]) -> list[Line]:
    """Return which packages are installed on the box. `install`: as the documents do it."""
    lists = [
        one
        for one in project.files
        if _OTHER_PACKAGES.fullmatch(one)
        or (PurePosixPath(one).name in _PACKAGES and one.count("/") <= 1)
        or ("/" not in one and one.endswith((".yml", ".yaml")) and programs.is_conda(project, one))
    ]
    for name in _PACKAGES:
        if name in project.files:
            wrong = programs.unreadable(project, name) if name.endswith(".txt") else ""
            ask = f"pip can't read its line {wrong!r}: what is right?" if wrong else ""
            ask = ask or programs.lacking_packages(project, name, lists, used)
            why = "installed on the box before the first start"
            return [Line("environment", name, why, question=ask)]
    if by := programs.installable(project):
        line = install or "pip install -e ."
        if why := programs.not_installable(project, by):
            ask = f"{why}: how do its packages get there?"
            return [Line("setup", [line], question=ask, is_off=True)]
        return [Line("setup", [line], f"installs by {by}; runs before each start")]
    if lists:
        others = "".join(f", or {one}" for one in lists[1:4])
        return [Line("environment", lists[0], question=f"these packages{others}?")]
    lacking = "a list of packages, if there is one; without it the box must have them all"
    return [_suggestion("environment", "requirements.txt", lacking)]


def _cards_named(start: Start, declared: list[Option], values: Values, count: int) -> str:
    """Return what names a card that a box with so many may lack, or none, '' for nothing."""
    given, used = options.given_by(start.words, declared), values.sources
    for name, value in values.defaults.items():
        last = name.rpartition(".")[2]
        if _DEVICES.fullmatch(last) and last not in given and value == ("cpu",):
            return f"{name} is cpu where nothing else is said"
    for name, value in given.items():
        text = "".join(map(str, value))
        numbers = [int(one) for one in re.findall(r"\d+", text)]
        lacks = text == "cpu" or (numbers and max(numbers) >= count)
        if _CARDS.fullmatch(name) and lacks:
            return f"the command has {name} {text}"
    for source in used:
        for number, row in enumerate(source.text.splitlines(), 1):
            found = None if row.lstrip().startswith("#") else _CARD_NAMES.search(row)
            cards = [int(one) for one in re.findall(r"\d+", found[1] or found[2])] if found else []
            if cards and max(cards) >= count:
                return f"{source.path}:{number} names the cards {found[1] or found[2]}"  # type: ignore[index]
    return ""


def _slurm_lines(start: Start, asked: dict[str, str]) -> list[Line]:
    """Return what a script says to Slurm, for a job that is rendered for it."""
    names = ("partition", "account", "qos", "constraint")
    value = {name: asked[name] for name in names if name in asked}
    return [_suggestion("slurm", value, f"as {start.file} says, with rgt render")] if value else []


def _launch_lines(
    start: Start, declared: list[Option], values: Values, asked: dict[str, str]
) -> list[Line]:
    """Return GPUs, nodes and launcher. `values`: with the program and the files that it uses.
    `asked`: of Slurm."""
    spawned = programs.spawned(values.sources[:1])
    texts = [asked.get(name, "") for name in ("gres", "gpus-per-node", "gpus")]
    cards = next((found[1] for one in texts if (found := _COUNT.fullmatch(one))), "")
    if cards and not start.processes:
        start = replace(start, processes=int(cards))
    why = f"as {start.file} says" if start.processes else "guessed; of the box"
    lines = [Line("gpus", start.processes or 1, why)]
    if start.launcher != "none" and start.file and not start.processes:
        ask = f"how many? {start.launcher} takes them all, and {start.file} names no number"
        lines = [Line("gpus", 1, question=ask)]
    if spawned and not start.processes:
        lines = [Line("gpus", 1, question=f"how many? {spawned} starts a process for each")]
    if not lines[0].question and (
        named := _cards_named(start, declared, values, start.processes or 1)
    ):
        lines[0].question = f"{named}: which cards does it use there?"
    if (start.nodes or 1) > 1 and start.launcher in ("torchrun", "accelerate"):
        lines.append(_suggestion("nodes", start.nodes, f"boxes, as {start.file} starts it"))
    if start.launcher != "none":
        why = f"as {start.file} starts it" if start.file else "it reads what torchrun sets"
        ask = ""
        if start.is_old_launch and any(
            re.search(r"--local[-_]rank$", one.flag) for one in declared
        ):
            ask = (
                f"{start.program} takes --local_rank, which torchrun doesn't give: "
                "does it read LOCAL_RANK?"
            )
        if start.other_options:
            options = ", ".join(start.other_options)
            unlike = f"{start.file} has it with {options}, which the launcher doesn't get"
            whole = f"{unlike} here: write the whole line as command, with launcher none?"
            ask = "; ".join(filter(None, [ask, whole]))
        lines.append(Line("launcher", start.launcher, why, question=ask))
    return lines


def _checkpoint_lines(
    saving: Saving, declared: list[Option], start: Start, used: list[Source], values: Values
) -> list[Line]:
    """Return where the program saves, and how it goes on from there."""
    if not saving.folder:
        ask = _ask_where(saving, declared, used, values)
        name, folder = _named_folder(values) if saving.unread else ("", "")
        ask += f"; {name} is {folder}: is it there?" if name else ""
        value = {"folder": folder or "out", "pattern": "*.pt"}
        return [Line("checkpoint", value, question=ask, is_off=True)]
    at = saving.at
    where = f"{at.source}:{at.line}, {at.how}" if at else ""
    value: dict[str, Any] = {"folder": saving.folder}
    if saving.pattern and saving.pattern != "*":
        value["pattern"] = saving.pattern
    fresh = "; each start makes a new folder" if saving.is_fresh else ""
    lines = [Line("checkpoint", value, f"read from {where}{fresh}")]
    if saving.folder.startswith(("/", "~")) or saving.folder == ".":
        lines[0].question = (
            f"{where}: is this folder right on the box?" if saving.folder != "." else ""
        )
    if at and at.is_handed and not lines[0].question:
        lines[0].question = f"{where} gets this folder; how are the files in it called?"
    if saving.outside and not lines[0].question:
        also = ", ".join(f"{one.source}:{one.line}" for one in saving.outside[:3])
        lines[0].question = f"read from {where}; {also} saves outside the folder: is it right?"
    if saving.others and not lines[0].question:
        also = ", ".join(f"{one.source}:{one.line}" for one in saving.others[:3])
        lines[0].question = f"read from {where}; {also} may save elsewhere: is it right?"
    if start.folder != "." and not lines[0].question:
        lines[0].question = f"read from {where}; below {start.folder}, or from here?"
    if "LightningCLI" in used[0].text and not lines[0].question:
        lines[0].question = "the default of a LightningCLI; does --config name another folder?"
    if start.left_open and not lines[0].question:
        ask = f"read from {where} without what {start.file} leaves open: is it right?"
        lines[0].question = ask
    if not lines[0].question and not saving.folder.startswith(("/", "~")) and _moves(used[0]):
        ask = "hydra runs a program of this form in outputs/DATE/TIME: is this folder within?"
        lines[0].question = ask
    return [*lines, _resume_line(declared, start, used)]


def _named_folder(values: Values) -> tuple[str, str]:
    """Return the option or the key of a configuration that is called as where a program saves, and
    its value; ('', '') for none."""
    for name, value in values.defaults.items():
        text = "".join(map(str, value)).removeprefix("./").rstrip("/")
        if _SAVES_IN.fullmatch(name.rpartition(".")[2]) and _FOLDER.fullmatch(text):
            return name, text
    return "", ""


def _resume_line(declared: list[Option], start: Start, used: list[Source]) -> Line:
    """Return how the program goes on from its newest checkpoint."""
    where = saves.goes_on(used)
    found = options.resuming(declared, bool(where))
    resumes = found[0] if found else None
    if resumes is None and where:
        ask = f"{where} loads what it goes on from: by which option, or alone?"
        return Line("resume", "automatic", question=ask)
    if resumes is None:
        off = "if it takes an option to go on: nothing seen here loads a checkpoint, so it may"
        off += " begin anew at each attempt; the rehearsal tells"
        return Line("resume", {"flag": "--resume"}, off, is_off=True)
    if given := options.given_by(start.words, declared).get(resumes.name):
        empty = "".join(map(str, given)).lower() in ("", "none", "null", "false", "0")
        ask = f"the command has {resumes.flag}, which is empty: does it go on?" if empty else ""
        path = "".join(map(str, given))
        if "/" in path or "." in path:
            ask = f"the command begins at {path} each time: is it to go on from there?"
        has = f"the command has {resumes.flag} already"
        return Line("resume", "automatic", has, question=ask)
    if resumes.is_choice:
        ask = f"does {resumes.flag} find its newest checkpoint alone?"
        if resumes.is_switch:
            return Line("resume", {"switch": resumes.flag}, question=ask)
        return Line("resume", "automatic", question=f"{ask} Then add it to the command")
    ask = f"does {resumes.flag} go on from a checkpoint, or only test or load it?"
    if beside := [one.flag for one in found[1:] if one.is_called_resume]:
        ask = f"does {resumes.flag} go on from a checkpoint without {', '.join(beside[:3])}?"
    why = f"guessed from the option {resumes.flag}"
    asked = "" if resumes.goes_on and not beside else ask
    if where := saves.loads_another_state(used):
        asked = f"{where} loads a state that nothing here saves: does it go on by {resumes.flag}?"
    return Line("resume", {"flag": resumes.flag}, why, question=asked)


def _ask_where(saving: Saving, declared: list[Option], used: list[Source], values: Values) -> str:
    """Return what to ask where the source doesn't tell in which folder a program saves."""
    if saving.outside:
        one = saving.outside[0]
        lies = f"{one.source}:{one.line} saves {one.pattern}, which lies outside the code's folder"
        return f"{lies}, where no job can name it: which path below that folder is it to be?"
    if unread := [f"{one.source}:{one.line}" for one in saving.unread[:3]]:
        return f"where does it save? {_untold(unread)}; a rehearsal does"
    if off := _switched_off(used, declared, values):
        return f"{off}: is the command to have it?"
    if saving.results:
        return "it saves at its end alone: a kill before that loses all"
    return "no call that saves was found: where does it save, if at all?"


def _switched_off(used: list[Source], declared: list[Option], values: Values) -> str:
    """Return which call saves only with an option that the command doesn't have; '' for none."""
    flags = {one.name: one.flag for one in declared}
    for save, name in saves.switched_off(used, values):
        if name in flags:
            return f"{save.source}:{save.line} saves only with {flags[name]}"
    return ""


def _training_off(used: list[Source], declared: list[Option], values: Values) -> str:
    """Return which line trains only with an option that the command doesn't have; '' for none."""
    flags = {"do_train": "--do_train", **{one.name: one.flag for one in declared}}
    where, name = saves.training_switched_off(used, values)
    return f"{where} trains only with {flags[name]}" if name in flags else ""


def _untold(places: list[str]) -> str:
    return f"{', '.join(places)} {'doesn' if len(places) == 1 else 'don'}'t tell"


def _moves(source: Source) -> bool:
    """Whether hydra gives the program a working folder of its own, as it does where its main names
    no version."""
    called = [call for call in source.calls if ast.unparse(call.func).endswith("hydra.main")]
    return any(all(one.arg != "version_base" for one in call.keywords) for call in called)


def _end_lines(saving: Saving, declared: list[Option], values: Values, folder: str) -> list[Line]:
    """Return what must be there at the end, what may be billed, and what happens to the box.

    `folder`: where the documents start the program.
    """
    needed = "must be there at the end, or the run counts as unfinished"
    if saving.results:
        unread = [f"{one.source}:{one.line}" for one in saving.unread if one.is_model][:3]
        ask = f"are these what it leaves? {_untold(unread)}" if unread else ""
        if folder != "." and not ask:
            ask = f"below {folder}, or from here?"
        lines = [Line("results", list(saving.results[:5]), needed, question=ask)]
    else:
        lines = [_suggestion("results", ["out/final.pt"], f"files that {needed}")]
    lines.append(_length_line(lengths.read(values.sources, values, declared)))
    kept = [saving.pattern if saving.folder == "." else saving.folder, *saving.results]
    named = {one for one in kept if one and not one.startswith("/")}
    # What lies in a folder that is copied comes along; a name of its own would have to be there.
    what = sorted(one for one in named if not named & {*map(str, PurePosixPath(one).parents)})
    what = what or ["out"]
    elsewhere = "storage that outlives the box: what is only on the box is lost with it"
    return [
        *lines,
        _suggestion("durable", {"to": "/workspace/keep", "what": what}, elsewhere),
        _suggestion("price", "1.99 USD", "of the box for an hour: look at yours"),
        _suggestion("budget", "45 USD", "when the box has cost it, the run saves and ends"),
        _suggestion("at_end", {"do": "stop"}, "ends the box; without it it stays on, and billed"),
    ]


def platform_line(name: str, guessed_by: str, is_told: bool = False) -> Line:
    """Return the line that names where the job is to run.

    A guess is off: by the platform a run ends its box and counts its cost. `is_told`: the user
    said it.
    """
    if is_told:
        return Line("platform", name, "as you said; by it the box is ended and its cost counted")
    ask = "on which platform does it run? rgt profile lists them"
    if name:
        why = f"guessed: {guessed_by}; --profile at the start says it too"
        return Line("platform", name, why, is_off=True, offer=f"{ask}; {guessed_by}: {name}?")
    why = "open: where it runs, as rgt profile lists them; or say --profile NAME at the start"
    return Line("platform", None, why, is_off=True, offer=ask)


def _length_line(length: Length | None) -> Line:
    """Return the line of the last step: the number, or why it is open.

    It is off: a run that ends before it counts as cut short, and many programs count from 0 or
    print every tenth step.
    """
    if length is None or not (length.steps or length.epochs or length.name):
        why = "open: the source doesn't tell how long it trains; the last step that it prints"
        return Line("final_step", None, why, is_off=True, offer="which is the last step it prints?")
    where = ", ".join(filter(None, [length.name, length.at]))
    if not length.is_one:
        why = f"open: several parts train, the first for {length.steps or length.epochs} ({where})"
        return Line("final_step", None, why, is_off=True, offer="which is the last step it prints?")
    if length.steps and length.is_bound:
        why = (
            f"it ends by {where}; write the last step that it prints, one less if it counts from 0"
        )
        return Line("final_step", length.steps, why, is_off=True)
    if length.steps:
        shown = f"{where} is {length.steps}; the source doesn't show a loop that ends by it alone"
    elif length.epochs:
        shown = (
            f"it trains {length.epochs} epochs ({where}); the data tells how many steps these are"
        )
    else:
        shown = f"it trains by epochs ({where}), whose number the source doesn't tell"
    why, offer = f"open: {shown}", f"{shown}: which is the last step it prints?"
    return Line("final_step", None, why, is_off=True, offer=offer)


def _suggestion(name: str, value: object, why: str) -> Line:
    """Return a line that is switched off: a guess there would do harm."""
    return Line(name, value, why, is_off=True)


def _notes(folder: Path, used: list[Source]) -> list[str]:
    """Return what may stop the program on a box, as comments."""
    notes = []
    for source in used:
        for text in code_files.ignored(
            folder, [one for one in source.texts if _DATA_PATH.fullmatch(one)][:200]
        ):
            notes.append(f"# {source.path} names {text}, which git ignores: it isn't sent")
        for number, row in enumerate(source.text.splitlines(), 1):
            if row.lstrip().startswith("#"):
                continue
            if found := _ABSOLUTE.search(row):
                notes.append(f"# {source.path}:{number} names {found[1]}: is it on the box?")
            elif found := _WAITS.search(row):
                waits = found[0].rstrip("(")
                notes.append(f"# {source.path}:{number} calls {waits}, which waits for a person")
    return list(dict.fromkeys(notes))[:12]
