"""Where a program saves, and in which form, read from the calls that save."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatch

from .sources import Source, is_reached, lineage, names_in
from .values import UNKNOWN, Hole, Template, Values, glob_of, is_known, name_of

_LOOPS = (ast.For, ast.While)
# Calls that save: the last word of what is called, and where its path stands among the arguments.
_SAVING = {
    "save": 1,  # torch.save(what, path); model.save(path) has it first
    "save_state": 0,
    "save_model": 0,
    "save_pretrained": 0,
    "save_file": 1,
    "save_checkpoint": 0,
    "save_lora_weights": 0,
    "save_weights": 0,
    "dump": 1,  # pickle.dump(what, file)
}
_OWNERS = frozenset(
    ("torch", "misc", "th", "accelerator", "fabric", "xm", "dcp", "dist_cp", "paddle", "utils")
)
_PICKLERS = frozenset(("pickle", "cPickle", "cloudpickle", "dill", "joblib"))
# What of a training is pickled besides: histories and data are far more than models.
_IS_PICKLED_MODEL = re.compile(
    r"model|net(?:work)?s?\b|agent|policy|actor|critic|state_dict|checkpoint|ckpt|trainer|learner",
    re.I,
)
_FOLDER_OPTIONS = ("output_dir", "dirpath", "default_root_dir")
_ARGUMENTS = re.compile(
    r"(?:TrainingArguments|(?:SFT|DPO|GRPO|PPO|ORPO|KTO|Reward|CPO|RLOO|GKD)Config)$"
)
_RANKS = re.compile(r"rank|main_process|is_main|master|global_zero|__name__", re.I)
_STATE = re.compile(r"(?:optim|opt|sched|scaler)\w*\.load_state_dict$", re.I)
# start_epoch = checkpoint["epoch"] + 1
_COME_TO = re.compile(
    r"^\w*(?:start|first|begin|init)\w* = \w*(?:ckpt|checkpoint|ckp|saved|state|loaded)\w*"
    r"\[['\"]\w*(?:epoch|step|iter)"
)
_MOVERS = frozenset(("os", "shutil"))
_NOT_SAVED = frozenset(("BytesIO", "StringIO"))
_BUFFERS = frozenset(("BufferedWriter", "BufferedRandom", "GzipFile"))  # around what they write to
_IMAGES = re.compile(
    r"\.(?:png|jpe?g|gif|svg|pdf|csv|txt|npy|npz|json|ya?ml|wav|mp4|html|log)$", re.I
)
_CHECKPOINT_NAME = re.compile(r"\.(?:pt|pth|ckpt|bin|safetensors|tar|pkl|model|chkpt|t7|h5)$", re.I)
_IS_DATA = re.compile(r"^\w*(?:features|examples|data|dataset|samples|embeddings|args|tokens)$")
_NOTHING = (("",), ("False",), ("None",))
_HOOK = re.compile(r"^on_|epoch|step|iter|batch|^__call__$")  # a framework calls it again and again
_OF_FOLDERS = ("save_pretrained", "save_state", "save_lora_weights")  # each file has its own name
_FINAL = re.compile(r"(?:^|[/_.-])(?:final|best|model_best|last_model|result)", re.I)


@dataclass(frozen=True)
class Save:
    """One call that saves: where, as a template of its path, and the place in the source.

    `is_repeated`: it stands in a loop, or in a function; one after the loop saves the result.
    `how`: what it calls, such as torch.save. `is_conditional`: it stands below an `if` that asks
    for more than the rank. `is_model`: what it saves is named as one, and no cache of data.
    `function`: in which it stands; `within`: the one that it calls, where that saves. `is_handed`:
    a function of the project gets a folder and names the files in a way that the source hides.
    """

    path: Template
    source: str
    line: int
    how: str
    is_repeated: bool
    is_conditional: bool = False
    is_model: bool = True
    function: str = ""
    within: str = ""
    is_handed: bool = False

    @property
    def pattern(self) -> str:
        """Return the path as a glob."""
        return posixpath.normpath(glob_of(self.path)) if self.path else ""

    @property
    def is_known(self) -> bool:
        """Return whether its folder is known: no hole before the last slash but one of a clock."""
        first = self.path[0] if self.path else None
        if isinstance(first, Hole) and first.is_count:
            return True
        return self.pattern not in ("", ".") and not self.pattern.startswith(("*", "/*"))

    @property
    def is_fresh(self) -> bool:
        """Return whether a clock names its folder, so that each start has a new one."""
        return any(isinstance(part, Hole) and part.is_fresh for part in self.path)


def read(sources: list[Source], values: Values) -> list[Save]:
    """Return the calls of a program that save a checkpoint or a model."""
    found = [
        save
        for source, call, save in _read_calls(sources, values)
        if not _is_left_out(source, call, values)
    ]
    # a function of the project's own that saves: its call tells nothing that isn't told within it
    known = {name for save in found if save.is_known for name in (save.function, save.within)}
    own = {name for save in found for name in (save.function, save.within)}
    modules = {posixpath.basename(one.path).removesuffix(".py") for one in sources}
    kept = []
    for save in found:
        owner, _, name = save.how.rpartition(".")
        is_own = owner in ("", "self") or owner.rpartition(".")[2] in modules
        is_told = name != save.function and name in (known if save.is_known else own)
        if not (is_own and is_told):
            kept.append(_into_folder(save) if is_own and values.is_own(name) else save)
    return kept + [save for source in sources for save in _unwritten(source, values)]


def _into_folder(save: Save) -> Save:
    """Return a call of the project's own function with the folder that it is handed: a path without
    a suffix, below which only that function knows the file's name."""
    last = save.pattern.rpartition("/")[2]
    is_file = not save.is_known or "." in last.strip(".") or "*" in last
    if is_file or save.how.endswith(_OF_FOLDERS):
        return save
    return replace(save, path=(*save.path, "/", Hole()), is_handed=True)


def switched_off(sources: list[Source], values: Values) -> list[tuple[Save, str]]:
    """Return the calls that save only with an option that isn't set, each with its name."""
    return [
        (save, option)
        for source, call, save in _read_calls(sources, values)
        if (option := _option_off(source, call, values))
    ]


def training_switched_off(sources: list[Source], values: Values) -> tuple[str, str]:
    """Return where the training stands below an option that isn't set, as file:line, and the
    option's name; ('', '') where it trains without one, or where that isn't plain."""
    named = names_in(sources)
    found = [
        _off_above(source, call, values)
        for source in sources
        for call in source.calls
        if _trains(call) and (source is sources[0] or is_reached(source, call, named))
    ]
    return found[0] if found and all(where for where, _ in found) else ("", "")


def _trains(call: ast.Call) -> bool:
    """Whether a call is a step of a training, or a framework's whole one."""
    name = name_of(call.func)
    return name in ("backward", "fit") or (name == "train" and "trainer" in _owner_of(call).lower())


def _off_above(
    source: Source, call: ast.Call, values: Values, seen: tuple[str, ...] = ()
) -> tuple[str, str]:
    """Return the line of a call that an option which is off keeps from running, this one or each
    that leads to it, and the option's name; ('', '') for none."""
    if option := _option_off(source, call, values):
        return f"{source.path}:{call.lineno}", option
    function = source.function_around(call)
    if function is None or function.name in seen:
        return "", ""
    is_method = source.class_around(function) is not None
    calls = [
        (there, one)
        for there, one in _calls_of(source, function.name, values.sources)
        if isinstance(one.func, ast.Attribute) == is_method  # no model.train() for train()
    ]
    found = [_off_above(there, one, values, (*seen, function.name)) for there, one in calls]
    return found[0] if found and all(where for where, _ in found) else ("", "")


def _read_calls(sources: list[Source], values: Values) -> Iterator[tuple[Source, ast.Call, Save]]:
    """Yield each call that saves, in files that the program reaches."""
    passing = {name for source in sources for name in _passing_on(source)}
    named = names_in(sources)
    for source in sources:
        for call in source.calls:
            save = _read_call(source, call, values, passing)
            runs = source is sources[0] or is_reached(source, call, named)
            if save and runs:
                made = list(_by_each_call(source, call, save, values))
                is_told = any(one.path != UNKNOWN for _, _, one in made)
                yield from made if is_told else [(source, call, save)]


def _by_each_call(
    source: Source, call: ast.Call, save: Save, values: Values
) -> Iterator[tuple[Source, ast.Call, Save]]:
    """Yield the save of a function that is handed its path, once for each of its calls."""
    node = _path_node(source, call, values)
    for there, path in values.given_to(source, node) if isinstance(node, ast.Name) else ():
        above = there.parents.get(path)
        above = there.parents.get(above) if isinstance(above, ast.keyword) else above
        read_ = values.read(there, path)
        # what an object's method of that name gets may be another thing
        is_meant = isinstance(above, ast.Call) and isinstance(above.func, ast.Name)
        if isinstance(above, ast.Call) and (is_meant or read_ != UNKNOWN):
            function = getattr(there.function_around(above), "name", "")
            yield there, above, replace(
                save,
                path=read_,
                source=there.path,
                line=above.lineno,
                is_repeated=_is_repeated(there, above, values),
                is_conditional=save.is_conditional or _is_conditional(there, above),
                function=function,
                within=save.function,
            )  # fmt: skip


def _is_conditional(source: Source, call: ast.Call) -> bool:
    """Whether a call stands below a test of more than the rank."""
    return any(not _RANKS.search(ast.unparse(test)) for test, _ in _tests_above(source, call))


def waits(sources: list[Source]) -> str:
    """Return where a program asks a person, as `file:line calls input`; '' for nowhere."""
    named = names_in(sources)
    for source in sources:
        for call in source.calls:
            name = ast.unparse(call.func)
            runs = source is sources[0] or is_reached(source, call, named)
            if name in ("input", "getpass", "getpass.getpass") and runs:
                return f"{source.path}:{call.lineno} calls {name}"
    return ""


def _moved_to(source: Source, node: ast.expr, values: Values) -> ast.expr:
    """Return what a file is called in the end that is saved under another name and then moved."""
    path = values.read(source, node)
    for call in source.calls:
        name, words = name_of(call.func), list(call.args)
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if name in ("replace", "rename") and len(words) == 1 and owner is not None:
            words = [owner, *words]  # Path.replace(to)
        elif name not in ("replace", "rename", "move") or ast.unparse(owner or node) not in _MOVERS:
            continue
        if len(words) != 2:
            continue
        is_beside = source.function_around(call) is source.function_around(node)
        is_same_text = is_beside and ast.unparse(words[0]) == ast.unparse(node)
        if is_same_text or (path != UNKNOWN and values.read(source, words[0]) == path):
            return words[1]
    return node


def _opened(source: Source, node: ast.expr, values: Values) -> ast.expr:
    """Return the path of a file that is saved into: of `with open(path, "wb") as file`, or of a
    class or function of the project's own that stands for open."""
    if isinstance(node, ast.Call) and name_of(node.func) == "open":
        return _path_opened(node)
    for above in lineage(source, node):
        for item in getattr(above, "items", []):
            call = item.context_expr
            while isinstance(call, ast.Call) and name_of(call.func) in _BUFFERS and call.args:
                call = call.args[0]
            if not isinstance(call, ast.Call):
                continue
            is_own = values.is_own(name_of(call.func)) and call.args
            if name_of(call.func) != "open" and not is_own:
                continue
            if item.optional_vars and ast.unparse(item.optional_vars) == ast.unparse(node):
                return _path_opened(call)
    return node


def _path_opened(call: ast.Call) -> ast.expr:
    """Return the path in a call of open or Path.open, or of what stands for it."""
    if name_of(call.func) == "open" and isinstance(call.func, ast.Attribute):
        return call.func.value
    return (*call.args, call)[0]


def _passing_on(source: Source) -> list[str]:
    """Return the functions that hand all that they get to torch.save."""
    return [
        node.name
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef)
        and any(
            isinstance(one, ast.Call) and ast.unparse(one) == "torch.save(*args, **kwargs)"
            for one in ast.walk(node)
        )
    ]


def _unwritten(source: Source, values: Values) -> list[Save]:
    """Return where a framework saves by its own defaults, which no call of the program names."""
    text, path = source.text, source.path
    called = {
        name_of(call.func): call for call in source.calls if not _is_left_out(source, call, values)
    }
    own = [
        node.name
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef)
        and any(name_of(one) == "LightningCLI" for one in node.bases)
    ]
    if cli := next((called[one] for one in own if one in called), None):
        called["LightningCLI"] = cli
    found = []
    is_parsed = "HfArgumentParser" in called or "TrlParser" in called
    if is_parsed and not _is_told_not_to_save(values):
        call = called.get("HfArgumentParser") or called["TrlParser"]
        folder = values.defaults.get("output_dir", UNKNOWN)
        found.append(Save((*folder, "/checkpoint-", Hole()), path, call.lineno, "Trainer", True))
    lightning = "LightningCLI" in called or ("Trainer" in called and re.search("lightning", text))
    if lightning:
        call = called.get("LightningCLI") or called["Trainer"]
        if any(one.arg is None for one in call.keywords):  # Trainer(**settings)
            found.append(Save(UNKNOWN, path, call.lineno, "Lightning", True))
            return found
        logger = called.get("TensorBoardLogger") or called.get("CSVLogger")
        named = {one.arg for one in call.keywords}
        own_folder = any(one.arg == "dirpath" for other in source.calls for one in other.keywords)
        if logger:
            keyed = {one.arg: one.value for one in logger.keywords if one.arg}
            words = [*logger.args, None, None]
            where = values.read(source, keyed.get("save_dir", words[0]))
            name = values.read(source, keyed["name"]) if "name" in keyed else ("lightning_logs",)
            folder = (*where, "/", *name)
        else:
            folder = ("lightning_logs",)
        if not own_folder and "default_root_dir" not in named and "WandbLogger" not in called:
            files = (*folder, "/version_", Hole(), "/checkpoints/", Hole(), ".ckpt")
            found.append(Save(files, path, call.lineno, "Lightning's default", True))
    if "from_cfg" in called and "mmengine" in text:
        config = next((one for one in values.given.get("config", ()) if isinstance(one, str)), "")
        own_folder = f"work_dirs/{posixpath.splitext(posixpath.basename(config))[0]}"
        folder = values.given.get("work_dir") or ((own_folder,) if config else ())
        files = (*folder, "/", Hole(), ".pth")
        found += [Save(files, path, called["from_cfg"].lineno, "mmengine", True)] if folder else []
    if "YOLO" in called and "train" in called:
        call = called["train"]
        keyed = {one.arg: one.value for one in call.keywords if one.arg}
        project = values.read(source, keyed["project"]) if "project" in keyed else ("runs/detect",)
        name = values.read(source, keyed["name"]) if "name" in keyed else ("train",)
        files = (*project, "/", *name, Hole(), "/weights/last.pt")
        found.append(Save(files, path, call.lineno, "ultralytics", True))
    return found


def _read_call(source: Source, call: ast.Call, values: Values, passing: set[str]) -> Save | None:
    name = name_of(call.func)
    keyed = {one.arg: one.value for one in call.keywords if one.arg}
    if is_arguments(name) or name in ("ModelCheckpoint", "Trainer"):
        return _of_framework(source, call, values, name, keyed)
    if name in passing:
        name = "save"
    if name not in _SAVING or not isinstance(call.func, (ast.Attribute, ast.Name)):
        return None
    owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    if name == "dump" and not _is_pickled_model(call, owner):
        return None
    node = _path_of(call, name, owner, keyed)
    if node is None or _is_buffer(node, source):
        return None
    path = values.read(source, _moved_to(source, _opened(source, node, values), values))
    if name == "save_checkpoint" and "tag" in keyed:  # DeepSpeed: a folder of that name below
        path = (*path, "/", *values.read(source, keyed["tag"]))
    save = Save(
        path,
        source.path,
        call.lineno,
        ".".join(filter(None, (owner, name))),
        _is_repeated(source, call, values),
        _is_conditional(source, call),
        not _IS_DATA.search(ast.unparse(call.args[0] if call.args else call)),
        getattr(source.function_around(call), "name", ""),
    )
    if (
        name == "save"
        and owner.rpartition(".")[2] not in _OWNERS
        and not _CHECKPOINT_NAME.search(save.pattern)
    ):
        return None  # an image, a tokenizer, an array
    if name == "save_pretrained" and re.search(r"tokenizer|processor|config", owner, re.I):
        return None
    return None if _IMAGES.search(save.pattern) else save


def _path_node(source: Source, call: ast.Call, values: Values) -> ast.expr | None:
    """Return the expression that names the file of a call that saves; None for no such call."""
    owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    keyed = {one.arg: one.value for one in call.keywords if one.arg}
    name = name_of(call.func)
    node = _path_of(call, name, owner, keyed) if name in _SAVING else None
    return None if node is None else _moved_to(source, _opened(source, node, values), values)


def _is_pickled_model(call: ast.Call, owner: str) -> bool:
    """Whether a pickler writes something that is named as a model."""
    what = ast.unparse(call.args[0]) if call.args else ""
    return owner in _PICKLERS and _IS_PICKLED_MODEL.search(what) is not None


def _path_of(call: ast.Call, name: str, owner: str, keyed: dict[str, ast.expr]) -> ast.expr | None:
    for key in (
        "f",
        "path",
        "output_dir",
        "save_directory",
        "checkpoint_id",
        "filename",
        "dir",
        "save_dir",
    ):
        if key in keyed:
            return keyed[key]
    at = _SAVING[name]
    if name == "save":
        if owner.rpartition(".")[2] in ("fabric",) or owner.rpartition(".")[2] not in _OWNERS:
            at = 0
        if name == "save" and not owner:
            at = 1 if len(call.args) > 1 else 0
    return call.args[at] if at < len(call.args) else None


def _of_framework(
    source: Source, call: ast.Call, values: Values, name: str, keyed: dict[str, ast.expr]
) -> Save | None:
    """Return where a framework's own settings make it save."""
    node = next((keyed[key] for key in _FOLDER_OPTIONS if key in keyed), None)
    if name == "Trainer" and "default_root_dir" not in keyed:
        return None
    if node is None and name == "ModelCheckpoint":
        return None
    if node is None and call.args and name != "ModelCheckpoint":
        node = call.args[0]
    if node is None:
        return None
    folder = values.read(source, node)
    if name == "ModelCheckpoint":
        return Save((*folder, "/", Hole(), ".ckpt"), source.path, call.lineno, name, True)
    if name == "Trainer":
        files = (*folder, "/lightning_logs/version_", Hole(), "/checkpoints/", Hole(), ".ckpt")
        return Save(files, source.path, call.lineno, name, True)
    strategy = keyed.get("save_strategy")
    if _is_told_not_to_save(values, values.read(source, strategy) if strategy else None):
        return None
    return Save((*folder, "/checkpoint-", Hole()), source.path, call.lineno, name, True)


def _is_told_not_to_save(values: Values, strategy: Template | None = None) -> bool:
    """Whether a Trainer saves nothing by its save_strategy: of the call, else of what it reads."""
    if strategy is None:
        strategies = (one for key, one in values.defaults.items() if key.endswith("save_strategy"))
        strategy = next(strategies, UNKNOWN)
    return strategy in (("no",), ("False",))  # YAML reads no as a truth


def _is_buffer(node: ast.expr, source: Source) -> bool:
    """Whether a save goes into memory."""
    if isinstance(node, ast.Call) and name_of(node.func) in _NOT_SAVED:
        return True
    if not isinstance(node, ast.Name):
        return False
    function = source.function_around(node)
    return any(
        isinstance(one, ast.Assign)
        and isinstance(one.value, ast.Call)
        and name_of(one.value.func) in _NOT_SAVED
        and any(isinstance(target, ast.Name) and target.id == node.id for target in one.targets)
        for one in ast.walk(function or source.tree)
    )


def _is_repeated(
    source: Source, call: ast.Call, values: Values, seen: tuple[str, ...] = ()
) -> bool:
    """Whether a call stands within a loop, or in a function that a loop calls, directly or not."""
    for node in lineage(source, call):
        if isinstance(node, _LOOPS):
            return True
        if isinstance(node, ast.FunctionDef):
            calls = _calls_of(source, node.name, values.sources)
            if not calls:
                is_unknown = not seen and node.name not in ("main", "train", "run", "fit")
                return is_unknown or _HOOK.search(node.name) is not None
            if node.name in seen:
                return False
            return any(
                _is_repeated(there, one, values, (*seen, node.name))
                for there, one in calls
                if not _is_left_out(there, one, values)
            )
    return False


def _calls_of(source: Source, name: str, sources: list[Source]) -> list[tuple[Source, ast.Call]]:
    """Return the calls of a function of a file: its own, else those of the other files."""
    for there in ([source], [one for one in sources if one is not source]):
        found = [(one, call) for one in there for call in one.calls if name_of(call.func) == name]
        found = [pair for pair in found if _owner_of(pair[1]) not in _OWNERS]
        if found:
            return found
    return []


def _owner_of(call: ast.Call) -> str:
    """Return the last word before what is called: `torch` of `torch.save`."""
    return name_of(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _tests_above(source: Source, node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """Yield each test below which a node stands in its function, and whether it has to hold."""
    for above in lineage(source, node):
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return
        if isinstance(above, ast.If) and node is not above.test:
            yield above.test, node not in above.orelse
        node = above


def _is_left_out(source: Source, call: ast.Call, values: Values) -> bool:
    """Whether a call stands in a branch that the program doesn't take: of `opt.mode == "all"` as
    the options are."""
    if _option_off(source, call, values):
        return True
    for test, has_to_hold in _tests_above(source, call):
        if not (isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Eq, ast.NotEq))):
            continue
        sides = [values.read(source, one) for one in (test.left, test.comparators[0])]
        is_option = isinstance(test.left, ast.Attribute) and _is_constant(test.comparators[0])
        if is_option and all(map(is_known, sides)):
            is_true = (sides[0] == sides[1]) == isinstance(test.ops[0], ast.Eq)
            if is_true != has_to_hold:
                return True
    return False


def _option_off(source: Source, call: ast.Call, values: Values) -> str:
    """Return the option below whose `if` a call stands and which is off, as in `if args.save:`;
    '' for none."""
    for test, has_to_hold in _tests_above(source, call):
        parts = test.values if isinstance(test, ast.BoolOp) else [test]
        if not has_to_hold or (isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or)):
            continue
        for one in parts:
            if isinstance(one, ast.Attribute) and values.read(source, one) in _NOTHING:
                return one.attr
    return ""


def _is_constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def is_arguments(name: str) -> bool:
    """Return whether a class holds the arguments of Hugging Face's Trainer or of one of TRL's."""
    return _ARGUMENTS.search(name) is not None


@dataclass(frozen=True)
class Saving:
    """How a program saves, as a job says it.

    `folder` and `pattern`: of the checkpoints, '' where they aren't known. `results`: what it
    leaves at its end. `is_fresh`: each start has a new folder. `at`: the call that it was read
    from. `outside`: calls that save above the project's folder, or beside it. `unread`: calls whose
    path the source doesn't tell. `others`: calls that may save the checkpoints as well, elsewhere
    or at a place that the source doesn't tell.
    """

    folder: str = ""
    pattern: str = ""
    results: tuple[str, ...] = ()
    outside: tuple[Save, ...] = ()
    is_fresh: bool = False
    at: Save | None = None
    unread: tuple[Save, ...] = ()
    others: tuple[Save, ...] = ()


def choose_saving(saves: list[Save]) -> Saving:
    """Return where the checkpoints lie, and what the results are, of all calls that save."""
    known = [one for one in saves if one.is_known and not one.pattern.startswith("..")]
    outside = tuple(one for one in saves if one.is_known and one.pattern.startswith(".."))
    unread = tuple(one for one in saves if not one.is_known)
    repeated = [one for one in known if one.is_repeated]
    ends = [one for one in known if not one.is_repeated and not one.is_conditional]
    if not repeated:
        results = tuple(dict.fromkeys(one.pattern for one in ends))
        return Saving(results=results, outside=outside, unread=unread)
    first = _best_of(repeated)
    folder, pattern = _split(first)
    results = tuple(
        dict.fromkeys(
            one.pattern
            for one in [*ends, *repeated]
            if "*" not in one.pattern
            and one is not first
            and (one in ends or (_FINAL.search(one.pattern) and not one.is_conditional))
        )
    )
    others = tuple(
        one
        for one in saves
        if one.is_model
        and one.is_repeated
        and one.function not in {other.how.rpartition(".")[2] for other in known}
        and (not one.is_known or (_split(one)[0] != folder and not _FINAL.search(one.pattern)))
    )
    return Saving(folder, pattern, results, outside, first.is_fresh, first, unread, others)


def _best_of(repeated: list[Save]) -> Save:
    """Return the call whose files a run goes on from: a numbered one, one that isn't the best."""

    def worth(one: Save) -> tuple[bool, int, bool]:
        last = one.pattern.rpartition("/")[2]
        return (one.is_model, last.count("*"), not re.search("best", last, re.I))

    return max(repeated, key=worth)


def _split(save: Save) -> tuple[str, str]:
    """Return the folder of a save, and the glob of its files below it."""
    if save.how.endswith(_OF_FOLDERS) and "*" not in save.pattern:
        return save.pattern, ""
    parts = save.pattern.split("/")
    fixed = 0
    while fixed < len(parts) - 1 and "*" not in parts[fixed]:
        fixed += 1
    return "/".join(parts[:fixed]) or ("/" if save.pattern.startswith("/") else "."), "/".join(
        parts[fixed:]
    )


def loads(sources: list[Source], values: Values, own: list[str]) -> list[str]:
    """Return the files below the folder that a program loads by torch.load at each start, without
    asking first whether they are there.

    `own`: globs of what it saves itself; such a file is one where no loop comes before.
    """
    named = names_in(sources)
    found = []
    for source in sources:
        for call in source.calls:
            is_load = ast.unparse(call.func) == "torch.load" and call.args
            runs = source is sources[0] or is_reached(source, call, named)
            if not is_load or not runs or any(_tests_above(source, call)):
                continue
            path = values.read(source, call.args[0])
            text = posixpath.normpath(glob_of(path)) if is_known(path) else ""
            is_own = any(fnmatch(text, one) for one in own) and not _is_first(source, call)
            if (
                text not in ("", ".", "None", "True", "False")
                and not text.startswith(("/", "~", ".."))
                and not is_own
            ):
                found.append(text)
    return list(dict.fromkeys(found))


def _is_first(source: Source, call: ast.Call) -> bool:
    """Whether a call stands at the module's own level with no loop before it."""
    loops = (node for node in source.tree.body if isinstance(node, _LOOPS))
    is_top = source.function_around(call) is None
    return is_top and all(node.lineno > call.lineno for node in loops)


def loads_another_state(sources: list[Source]) -> str:
    """Return where a program loads a state by Accelerate and saves none, as file:line; '' for
    nowhere."""
    calls = [(source, call) for source in sources for call in source.calls]
    if any(name_of(call.func) == "save_state" for _, call in calls):
        return ""
    found = (
        f"{source.path}:{call.lineno}"
        for source, call in calls
        if ast.unparse(call.func) == "accelerator.load_state"
    )
    return next(found, "")


def goes_on(sources: list[Source]) -> str:
    """Return where a program loads the state of its optimizer, or the epoch that it had come to, as
    file:line; '' for nowhere."""
    for source in sources:
        for call in source.calls:
            if name_of(call.func) == "load_state_dict" and _STATE.search(ast.unparse(call.func)):
                return f"{source.path}:{call.lineno}"
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Assign) and _COME_TO.search(ast.unparse(node)):
                return f"{source.path}:{node.lineno}"
    return ""
