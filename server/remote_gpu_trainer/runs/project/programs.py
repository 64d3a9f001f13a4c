"""Which program of a project trains, and how its own documents start it."""

from __future__ import annotations

import ast
import itertools
import posixpath
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from .sources import Project, Source, is_aside
from .values import name_of

_SCRIPTS = re.compile(r"\.(?:sh|bash|slurm|sbatch|bat)$", re.I)
_DOCUMENTS = re.compile(
    r"(?:\.(?:md|rst|txt|sh|bash|slurm|sbatch|bat)|(?:^|/)(?:Makefile|README))$", re.I
)
_STARTS = re.compile(
    r"(?:^|[\s;&|(`$>])(?P<start>(?:python[0-9.]*|torchrun|accelerate launch|deepspeed"
    r"|srun (?:python[0-9.]*|deepspeed|torchrun)"
    r"|(?:uv|poetry|pipenv|pdm) run(?: python[0-9.]*)?)[ \t][^`#\n]*?"
    r"(?P<program>[\w./-]+\.py|-m [\w.]+)\b[^`#\n]*)"
)
_LAUNCHES = re.compile(r"(?:^|[\s;&|(`$>])(?P<start>accelerate launch -m [^`#\n]{1,2000})")
_PLACEHOLDER = re.compile(
    r"<[^>]*>|\$[{(@*]?\w*|%\w+%|\bpath[_/-]to|\.\.\.|\[[A-Za-z_ ]+\]|\byour[_-]|\bXXX", re.I
)
_NAME = re.compile(r"(?:^|[_/-])(?:train|finetune|fine_tune|pretrain|sft|dpo|grpo|main)", re.I)
_NOT_NAME = re.compile(
    r"(?:test|eval|infer|predict|demo|sample|generate|export|convert|preprocess|download|plot"
    r"|utils?|setup|serve|app)(?:_|\.py$|$)",
    re.I,
)
_OPEN_WORDS = re.compile(
    r"<[A-Za-z][^<>\n]{0,60}>|\[[A-Za-z][^\[\]\n]*[ _-][^\[\]\n]*\]|\{[A-Za-z][^{}\n]*\}"
)
# A choice that a document leaves within a word, as in configs/(A or B)/x.py and a|b.
_CHOICES = re.compile(r"(?<=[\w/.=-])\([^()\n]*\)|(?<![\w.])\w+(?:\|\w+)+")
_IS_PATH = re.compile(r"path|dir|file|folder")  # of --data_path data_path, which stands for one
_QUOTED = re.compile(r""""(?:\\.|[^"\\])*"|'[^']*'""")
_IS_COMMENT = re.compile(r"[ \t>]*(?:#+|//|::|REM\b)[ \t]*(?:\w+=\S*[ \t]+)*", re.I)
# What a launcher is told of processes and machines, which a job says by itself.
_OF_PROCESSES = re.compile(
    r"n?proc_per_node|nproc|num_(?:processes|gpus|machines|nodes)|nnodes|node_rank|machine_rank"
    r"|master_(?:addr|port)|main_process_(?:ip|port)|rdzv_\w+|standalone|use_env|multi_gpu"
)
_NOT_TRAINING = re.compile(
    r"^-{1,2}(?:eval|evaluate|test|test[-_]only|eval[-_]only|inference|predict|help|h"
    r"|dummy|dry[-_]run|debug|smoke[-_]test|no[-_]?train|download[\w-]*)$"
)
_NO_TRAINING = ("eval", "evaluate", "evaluation", "predict", "inference")  # a mode of a program
_TRAINS_WITH = re.compile(
    r"torch|transformers|lightning|ultralytics|unsloth|trl|detectron2|mmengine|mmcv|axolotl"
)
_IS_TRAINER = re.compile(r"[Tt]rainer|YOLO|Runner|\.fit\(")
_HEADS = re.compile(r"python[0-9.]*|torchrun|accelerate|deepspeed")
_READS = re.compile(r"['\"]LOCAL_RANK['\"]")
_ASKS = re.compile(
    r"""(?:environ\.get|getenv)\(\s*['"](?:LOCAL_RANK|RANK|WORLD_SIZE)"""
    r"""|['"](?:LOCAL_RANK|RANK|WORLD_SIZE)['"] in os\.environ"""
)
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?<!yaml)(?<!json)(?<!yml)")
_INSTALLS = re.compile(r"""\bpip3? install -e ["']?\.\[[\w, -]{1,80}\]["']?""")
# Folders that setuptools takes for no package.
_NO_PACKAGE = re.compile(
    r"_.*|ci|bin|docs?|documentation|manpages|news|changelog|(?:unit_)?tests?|examples?|scripts"
    r"|tools|utils?|python|build|dist|v?env|requirements|tasks|fabfile|site_scons|benchmarks?"
    r"|exercises?"
)
_SBATCH = re.compile(r"^#SBATCH[ \t]+(--?[a-zA-Z][a-z-]*)(?:=|[ \t]+)(\S+)", re.M)
_SBATCH_SHORT = {"-p": "partition", "-A": "account", "-q": "qos", "-C": "constraint", "-G": "gpus"}
_EXTRAS = re.compile(r"^(train\w*)\s*=\s*\[", re.M)
# A line of a requirements file; conda's has one = alone.
_REQUIREMENT = re.compile(
    r"\ufeff?[A-Za-z0-9][\w.-]*\s*(?:\[[\w., -]*\])?\s*"
    r"\(?(?:(?:===|[=<>~!]=|[<>])\s*[\w.*+!-]+[\s,]*)*\)?(?:\s+--hash=\S+)*"
)
_AS_ABOVE = re.compile(r"[ \t]*#[^\n]{0,40}\b(?:arguments|args|options|same as)\b[^\n]{0,80}", re.I)
_CONTINUED = re.compile(r"[ \t]*[\\^](?:[ \t]+#[^\n]*|[ \t]*)\r?(?:\n\s*|\Z)")
# NAME=plain text, which a line of its own gives a variable of a script.
_GIVEN = re.compile(
    r"""^[ \t]*(?:export[ ]+)?([A-Za-z_]\w*)=(["']?)([\w./:,@+-]+)\2[ \t\r]*(?:\#.*)?$""",
    re.M | re.X,
)
# NAME="a plain text", and NAME="${NAME:-plain text}", which stands where nobody sets NAME.
_GIVEN_WORDS = re.compile(
    r"""^[ \t]*(?:export[ ]+)?(?P<name>[A-Za-z_]\w*)=(?P<quote>["']?)(?P<or>\$\{\w+:?-)?
    (?P<value>[\w./:,@+%=](?:[\w./:,@+%=-]|(?<!=)[ ])*)(?(or)\})(?P=quote)[ \t\r]*(?:\#.*)?$""",
    re.M | re.X,
)
_ENTERS = re.compile(r"(?:^|[\n;&`$])[ \t]*cd[ ]+([\w./-]+)")
_CAPITALS = re.compile(r"(?:(?<=/)|(?<=^))[A-Z][A-Z_]{2,}(?=[/.]|$)")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|([A-Za-z_]\w*))")
_ENDS = ";&|<>()`"  # what ends a command in a shell, and in a sentence that names one
_CALLED_SO = re.compile(r"(?:train|finetune|fine_tune|pretrain)", re.I)
LEAST_WORTH = 0.1  # of a program whose name alone speaks for it
MOST_DOCUMENT_BYTES = 1 << 18


@dataclass(frozen=True)
class Start:
    """How a program is started: its words, and what stands before them.

    `launcher`, `processes` of a node and `nodes`: of torchrun and the like. `file`: the document
    that says so, '' for none. `left_open`: words that a person must replace. `folder`: where it is
    started, below the project's. `variables`: those that a script exports. `is_old_launch`: by
    torch.distributed.launch. `other_options`: what the launcher is told besides. `whole`: the
    launcher's words as they stand, up to the program.
    """

    program: str
    words: list[str] = field(default_factory=list)
    launcher: str = "none"
    processes: int | None = None
    file: str = ""
    left_open: tuple[str, ...] = ()
    is_module: bool = False
    nodes: int | None = None
    folder: str = "."
    variables: dict[str, str] = field(default_factory=dict)
    is_old_launch: bool = False
    other_options: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()

    @property
    def trains(self) -> bool:
        """Return whether its words ask for neither an evaluation alone nor a trial."""
        return not any(_NOT_TRAINING.match(word) or word in _NO_TRAINING for word in self.words)


def training_programs(project: Project) -> dict[str, float]:
    """Return the files that train when they are run, {path: how likely}, the likeliest first.

    Where none shows signs of it, those that are called so.
    """
    run = {path: one for path, one in project.sources.items() if one.is_run and not is_aside(path)}
    worth = {path: _worth(project, source) for path, source in run.items()}
    if not any(one > 0 for one in worth.values()):
        worth = {
            path: LEAST_WORTH * bool(_CALLED_SO.match(PurePosixPath(path).name)) for path in run
        }
    ranked = sorted(worth, key=lambda path: (-worth[path], path.count("/"), len(path), path))
    return {path: worth[path] for path in ranked if worth[path] > 0}


def _worth(project: Project, source: Source) -> float:
    """Return how likely a file is the training program; 0 for one that doesn't train."""
    used = project.used_by(source.path)
    if not any(_TRAINS_WITH.search(one.text) for one in used):
        return 0
    own = _training_signs(source)
    signs = own or any(_training_signs(one) for one in used[1:])
    if not signs:
        return 0
    stem = PurePosixPath(source.path).name
    points = 1.0 + own
    if _NAME.search(source.path):
        points += 3
    if re.match(r"train", stem, re.I):
        points += 1
    if _NOT_NAME.search(stem):
        points -= 4
    if project.is_within_another(source.path):
        points -= 4
    return max(points - 0.5 * source.path.count("/"), LEAST_WORTH if own else 0)


def _training_signs(source: Source) -> int:
    """Return how many signs of training a file shows, 3 at most."""
    if source.fault:
        return int(bool(re.search(r"\.(?:backward|fit|train)\(", source.text)))
    called = {name_of(call.func) for call in source.calls}
    signs = sum((
        "backward" in called,
        "step" in called and "zero_grad" in called,
        bool({"fit", "train"} & called and _IS_TRAINER.search(source.text)),
        "LightningCLI" in source.text,
    ))  # fmt: skip
    return signs


def starts(project: Project) -> list[Start]:
    """Return how the project's documents and scripts start its programs, READMEs first."""
    documents = sorted(
        (name for name in project.files if _DOCUMENTS.search(name) and not is_aside(name)),
        key=lambda name: (
            "readme" not in name.lower(),
            name.endswith(".bat"),
            name.count("/"),
            name,
        ),
    )
    found = [
        start for name in documents for start in _starts_in(project, name, _text_of(project, name))
    ]
    for name, source in project.sources.items():
        if not is_aside(name) and (text := ast.get_docstring(source.tree)):
            found += _starts_in(project, name, text)
    return found


def is_script(name: str) -> bool:
    """Return whether a document is a script, by its name."""
    return _SCRIPTS.search(name) is not None


def installs(project: Project) -> str:
    """Return the line by which the documents install the project with its extras, the one that
    names training first; '' for none."""
    found: list[str] = []
    for name in project.files:
        if _DOCUMENTS.search(name) and not is_aside(name):
            found += [match[0].strip() for match in _INSTALLS.finditer(_text_of(project, name))]
    named = (line for line in found if re.search("train", line))
    line = next(named, found[0] if found else "")
    own = _EXTRAS.findall(_text_of(project, "pyproject.toml"))
    if own and "train" not in line:  # what training needs beside what the documents name
        line = line.replace("]", f",{own[0]}]") if line else f'pip install -e ".[{own[0]}]"'
    return line


def installable(project: Project) -> str:
    """Return the file by which pip installs the project with its packages, '' for none.

    A pyproject.toml may hold tools' settings alone, a setup.py or setup.cfg no packages.
    """
    signs = {
        "pyproject.toml": r"^\[(?:project|build-system|tool\.poetry)\b",
        "setup.py": r"\binstall_requires\b",
        "setup.cfg": r"^install_requires\b",
    }
    found = (
        name
        for name, sign in signs.items()
        if name in project.files and re.search(sign, _text_of(project, name), re.M)
    )
    return next(found, "")


def not_installable(project: Project, by: str) -> str:
    """Return why pip can't install the project by a file that lists its packages, '' for nothing.

    setuptools refuses a folder of several packages where the file names none.
    """
    text = _text_of(project, by)
    if re.search(r"^package-mode\s*=\s*false\b", text, re.M):
        return f"{by} says that the project is no package"
    backend = re.search(r"""^build-backend\s*=\s*["']([\w.]+)""", text, re.M)
    is_other = by != "pyproject.toml" or (backend and not backend[1].startswith("setuptools"))
    names_own = re.search(r"^\[tool\.setuptools|^packages\s*=|^py-modules\s*=", text, re.M)
    tops = {one.partition("/")[0] for one in project.files if "/" in one}
    if is_other or names_own or "src" in tops or "setup.py" in project.files:
        return ""
    found = sorted(one for one in tops if one.isidentifier() and not _NO_PACKAGE.fullmatch(one))
    if len(found) < 2 or not re.search(r"^\[project\]", text, re.M):
        return ""
    return f"setuptools finds {len(found)} packages here ({', '.join(found[:4])}) and installs none"


def asked_of_slurm(project: Project, start: Start) -> dict[str, str]:
    """Return the options that the script of a start hands to sbatch, {long name: value}."""
    if not is_script(start.file):
        return {}
    found = _SBATCH.findall(_text_of(project, start.file))
    return {_SBATCH_SHORT.get(name) or name.lstrip("-"): value for name, value in found}


def spawned(sources: list[Source]) -> str:
    """Return where a program starts its processes itself, as file:line; '' for nowhere."""
    for source in sources:
        for call in source.calls:
            is_named = any(one.arg == "nprocs" for one in call.keywords)
            if name_of(call.func) == "spawn" and (is_named or len(call.args) > 1):
                return f"{source.path}:{call.lineno}"
    return ""


def is_conda(project: Project, name: str) -> bool:
    """Return whether a YAML file lists packages for conda, by its keys."""
    text = _text_of(project, name)
    return all(re.search(rf"^{key}:", text, re.M) for key in ("dependencies", "channels"))


def unreadable(project: Project, name: str) -> str:
    """Return the first line of a requirements file that is none of pip's, '' for none."""
    for line in _text_of(project, name).splitlines():
        text = line.partition(" #")[0].partition(";")[0].strip().rstrip("\\").strip()
        is_other = not text or text[0] in "#-./" or "@" in text or re.match(r"\S+://", text)
        name_ = re.split(r"[\s=<>~!\[]", text, maxsplit=1)[0].lower()
        if not is_other and (not _REQUIREMENT.fullmatch(text) or name_ in ("python", "pytorch")):
            return text[:60]
    return ""


def lacking_packages(project: Project, name: str, lists: list[str], used: list[Source]) -> str:
    """Return what to ask where a program imports packages that its list lacks and another of the
    project's lists has, '' for nothing. Only packages that are called as they are imported."""
    imported = {_package(one): one for source in used for one in source.imported}
    own = set(_packages_in(project, name))
    for other in lists:
        has = [one for one in _packages_in(project, other) if one in imported and one not in own]
        if other != name and has:
            names = ", ".join(imported[one] for one in dict.fromkeys(has))
            said = f"{other} has {names}, which the program imports and {name} lacks"
            return f"{said}: how do they get there?"
    return ""


def packages(project: Project, name: str) -> set[str]:
    """Return the packages of a list, as they are imported where both names are alike."""
    return {*_packages_in(project, name)} if name in project.files else set()


def _package(name: str) -> str:
    return re.sub(r"[-.]", "_", name.lower())


def _packages_in(project: Project, name: str, seen: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the packages of a list, and of those that it names by -r."""
    text = _text_of(project, name)
    pattern = (
        r'^name = "([\w.-]+)"' if name == "uv.lock" else r"^[ \t]*(?:-[ ]+)?([A-Za-z0-9][\w.-]*)"
    )
    yield from map(_package, re.findall(pattern, text.lstrip("\ufeff"), re.M))
    for below in re.findall(r"^(?:-r|--requirement)[ =]+(\S+)", text, re.M):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), below))
        if path not in seen:
            yield from _packages_in(project, path, (*seen, path))


def _text_of(project: Project, name: str) -> str:
    path = project.folder / name
    try:
        if path.stat().st_size <= MOST_DOCUMENT_BYTES:
            return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        pass
    return ""


def _starts_in(project: Project, name: str, text: str) -> Iterator[Start]:
    """Yield the starts of the project's programs that a document names. `text`: of the document."""
    above = PurePosixPath(name).parent
    joined = _with_variables(_CONTINUED.sub(" ", text))
    for match in (*_STARTS.finditer(joined), *_LAUNCHES.finditer(joined)):
        start = _start_of(match["start"])
        if start is None:
            continue
        entered = _ENTERS.findall(joined, max(match.start() - 400, 0), match.start("start"))
        below = [str(above), "."]
        below = [*(posixpath.join(one, entered[-1]) for one in below if entered), *below]
        folder = next(
            (
                one
                for one in map(posixpath.normpath, below)
                if posixpath.normpath(posixpath.join(one, start.program)) in project.sources
            ),
            _only_folder_of(project, start.program),
        )
        if folder is None:
            continue
        found = posixpath.normpath(posixpath.join(folder, start.program))
        unknown = [word for word in start.words if _stands_for(project, word)]
        start = replace(
            start,
            folder=folder,
            left_open=tuple(dict.fromkeys([*start.left_open, *unknown])),
            variables=_exported(joined) if is_script(name) else {},
            is_old_launch="torch.distributed.launch" in match["start"],
        )
        row = joined[joined.rfind("\n", 0, match.start("start")) + 1 : match.start("start")]
        if _IS_COMMENT.fullmatch(row):
            start = replace(start, left_open=(*start.left_open, "a line that is commented out"))
        if rest := _AS_ABOVE.match(joined, match.end()):
            start = replace(start, left_open=(*start.left_open, rest[0].strip()))
        yield replace(start, program=found, file=name)


def _only_folder_of(project: Project, program: str) -> str | None:
    """Return the one folder below the project in which a program has this path, None for none."""
    below = f"/{posixpath.normpath(program)}"
    found = [one.removesuffix(below) for one in project.sources if one.endswith(below)]
    return found[0] if len(found) == 1 else None


def _stands_for(project: Project, word: str) -> bool:
    """Whether a word of a command is one in capitals that the project doesn't know, such as MODEL:
    it stands for what a person has."""
    named = _CAPITALS.findall(word.partition("=")[2] or word)
    return any(one not in project.texts for one in named)


def _exported(text: str) -> dict[str, str]:
    """Return the variables that a script exports with a plain value, {name: value}."""
    found = {match[1]: match[3] for match in _GIVEN.finditer(text) if "export " in match[0]}
    return {one: value for one, value in found.items() if one != "CUDA_VISIBLE_DEVICES"}


def _with_variables(text: str) -> str:
    """Return a script with its variables' values in their places, of those that it sets once."""
    values: dict[str, set[str]] = {}
    for match in _GIVEN.finditer(text):
        values.setdefault(match[1], set()).add(match[3])
    for match in _GIVEN_WORDS.finditer(text):
        if match["quote"] or (match["or"] and " " not in match["value"]):
            values.setdefault(match["name"], set()).add(match["value"])

    def value_of(match: re.Match[str]) -> str:
        known = values.get(match[1] or match[2], set())
        return next(iter(known)) if len(known) == 1 else match[0]

    return _VARIABLE.sub(value_of, text)


def _words_of(text: str) -> tuple[list[str], list[str]]:
    """Return the words of a command as a shell takes them, up to what ends it, and what is left
    open: those with a choice, and the last one's quotes."""
    text = re.sub(r"\s\d?>", " >", text)
    choices: list[str] = []

    def kept(found: re.Match[str]) -> str:
        if _QUOTED.fullmatch(found[0]):
            return found[0]
        if _CHOICES.fullmatch(text, found.start(), found.end()):
            choices.append(found[0])
        return shlex.quote(found[0])

    one_of = "|".join(one.pattern for one in (_QUOTED, _OPEN_WORDS, _CHOICES))
    text = re.sub(one_of, kept, text)
    reader = shlex.shlex(text, posix=True, punctuation_chars=_ENDS)
    reader.whitespace_split = True
    words: list[str] = []
    try:
        for word in reader:
            if not word.strip(_ENDS) and word:
                break
            words.append(word)
    except ValueError:
        return words, ["a quote"]
    return words, [word for word in words if any(one in word for one in choices)]


def _launcher_of(words: list[str]) -> tuple[str, list[str]]:
    """Return the launcher of a command, "none" for an interpreter, and the words behind it."""
    if words[0] in ("uv", "poetry", "pipenv", "pdm"):  # each has `run`, and options of its own
        heads = (n for n, word in enumerate(words) if _HEADS.fullmatch(word))
        at = next(heads, None)
        words = ["python", *words[2:]] if at is None else words[at:]
    if words[:2] == ["accelerate", "launch"]:
        head, words = words[0], words[2:]
    elif words[:1] == ["srun"]:
        head, words = words[1].rstrip("0123456789."), words[2:]
    else:
        head, words = words[0], words[1:]
    launcher = {"torchrun": "torchrun", "accelerate": "accelerate", "deepspeed": "deepspeed"}.get(
        head, "none"
    )
    if launcher == "none":
        joined = " ".join(words[:2])
        if joined in (
            "-m torch.distributed.launch",
            "-m torch.distributed.run",
            "-m torch.distributed.run",
        ):
            launcher, words = "torchrun", words[2:]
        elif joined == "-m accelerate.commands.launch":
            launcher, words = "accelerate", words[2:]
    return launcher, words


# What a usage shows as optional: [--fp16], [KEY VALUE ...].
_MAY_BE_LEFT_OUT = re.compile(r"(?<=\s)\[(?:-{1,2}\w|[A-Z]{2}|\.\.\.)[^\]\n]*\](?=\s|$)")


def _start_of(text: str) -> Start | None:
    """Return a command of a document as a start; None for one that can't be read."""
    words, left_open = _words_of(_MAY_BE_LEFT_OUT.sub("", text))
    if not words:
        return None
    all_words = words
    launcher, words = _launcher_of(words)
    head = all_words[: len(all_words) - len(words)]
    at = next((n for n, word in enumerate(words) if word.endswith(".py")), None)
    is_module = False
    if at is None and "-m" in words:
        first = words.index("-m") + 1  # accelerate's own options may stand before the module
        dotted = (n for n in range(first, len(words)) if _MODULE.fullmatch(words[n]))
        at = first if first < len(words) and words[first][:1] != "-" else next(dotted, first)
        is_module = at < len(words)
    if at is None or at >= len(words):
        return None
    if launcher == "none" and not _are_options(words[:at]):
        return None  # a sentence of Python and of a file
    program = words[at].replace(".", "/") + ".py" if is_module else words[at]
    before, after = words[:at], words[at + 1 :]
    kept: list[str] = []
    for index, word in enumerate(after):
        if word == "or":
            left_open.append(" ".join(after[index:]))
            break
        if word == "\\":
            continue
        if word in ("$@", "$*", "...", "…"):  # what a script is given itself
            left_open.append(word)
            continue
        kept.append(word)
        is_own_name = f"--{word}" == after[index - 1] and _IS_PATH.search(word)
        if is_own_name or _PLACEHOLDER.search(word) or _OPEN_WORDS.search(word):
            left_open.append(word)
    processes = _number(before, "nproc_per_node", "num_processes", "num_gpus", "nproc-per-node")
    nodes = _number(before, "nnodes", "num_machines", "num_nodes")
    if launcher == "accelerate" and processes and nodes:
        processes = max(processes // nodes, 1)  # it counts those of all nodes
    return Start(
        str(PurePosixPath(program)),
        kept,
        launcher,
        processes,
        left_open=tuple(left_open),
        is_module=is_module,
        nodes=nodes,
        other_options=tuple(_list_other_options(before)) if launcher != "none" else (),
        whole=tuple([*head, *before]) if launcher != "none" else (),
    )


def _list_other_options(words: list[str]) -> Iterator[str]:
    """Yield a launcher's options, each with its value, but those of processes and machines."""
    for word, value in itertools.pairwise([*words, "-"]):
        name = word.partition("=")[0].lstrip("-").replace("-", "_")
        if word.startswith("--") and not _OF_PROCESSES.fullmatch(name):
            yield word if "=" in word or value.startswith("-") else f"{word} {value}"


def _are_options(words: list[str]) -> bool:
    """Whether words are an interpreter's options: `-u`, `-X dev`, `-m pdb`."""
    flags = ["", *words]
    return all(
        word.startswith("-") or before[:2] in ("-X", "-W", "-m") or before.startswith("--")
        for before, word in zip(flags, words, strict=False)
    )


def _number(words: list[str], *names: str) -> int | None:
    """Return the number that a launcher's option has."""
    for index, word in enumerate(words):
        flag, _, value = word.lstrip("-").partition("=")
        if flag in names:
            value = value or (words[index + 1] if index + 1 < len(words) else "")
            return int(value) if value.isdigit() and int(value) else None
    return None


def needs_launcher(sources: list[Source]) -> bool:
    """Whether a program runs under torchrun alone: it reads its variables and no default."""
    return any(
        _READS.search(source.text)
        and re.search(r"init_process_group|init_distributed", source.text)
        for source in sources
    ) and not any(_ASKS.search(source.text) for source in sources)
