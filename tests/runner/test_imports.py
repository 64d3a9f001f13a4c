"""The modules of a run import in one direction, and do a thing that is dangerous in one place."""

import ast
import pickletools
import re
import subprocess
import sys
from pathlib import Path

from remote_gpu_trainer.runner import child, completeness, main
from remote_gpu_trainer.runs import run_script

from tests.conftest import ROOT

PACKAGE = ROOT / "server" / "remote_gpu_trainer"
# A verb loads what it needs, and `status` is called often. No circle hides there: the first test
# counts these imports, too.
LAZY = {"runner.main", "runner.cells"}


def modules(*rooms: str) -> dict[str, Path]:
    """Return {name within the package: its file} of these rooms, else of the two of a run."""
    found = {}
    for room in rooms or ("runner", "runs"):
        for path in sorted((PACKAGE / room).rglob("*.py")):
            parts = path.relative_to(PACKAGE).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(tree: ast.AST, package: list[str], known: dict[str, Path]) -> set[str]:
    """Return which of these modules a part of a module imports, for its types alone too."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            names = [".".join(filter(None, [*base, one.name])) for one in node.names]
            found |= {name if name in known else name.rpartition(".")[0] for name in names}
    return found & known.keys()


def package_of(name: str, path: Path) -> list[str]:
    parts = name.split(".")
    return parts if path.name == "__init__.py" else parts[:-1]


def circle_in(left: dict[str, set[str]]) -> set[str]:
    """Return modules of which some import each other; `left`: what each imports."""
    while free := [name for name, of in left.items() if not of & left.keys()]:
        for name in free:
            del left[name]
    return set(left)


def test_no_module_of_a_run_imports_itself_by_way_of_others():
    known = modules()
    left = {
        name: imports(ast.parse(path.read_text()), package_of(name, path), known) - {name}
        for name, path in known.items()
    }
    assert "runner.child" in left["runner.checkpoints"] and "runner.sync" in left["runner.main"]
    assert not circle_in(left)


def test_no_module_at_all_does_but_for_its_types():
    known = modules(*(path.parent.name for path in PACKAGE.glob("*/__init__.py")))
    left = {}
    for name, path in known.items():
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                node.body = [ast.Pass()]
        left[name] = imports(tree, package_of(name, path), known) - {name}
    assert "cli.probe" in left["cli.measuring"]
    assert not circle_in(left)


def test_no_function_of_the_runner_imports_a_module_of_it():
    known, found = modules(), []
    for name, path in known.items():
        if name.startswith("runner") and name not in LAZY:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    found += [(name, one) for one in imports(node, package_of(name, path), known)]
    assert not found


# Nothing but these starts a process or locks a file.
ONLY = {
    r"\bPopen\(|subprocess\.(run|call|check_\w+)\(": {"runner.child"},
    r"\bos\.(fork|posix_spawn|spawn\w*|system|popen)\(": {
        "runner.child",
        "runner.parent",
        "runner.supervisor",
    },
    # The entry holds its modules before it has any; `parts` also runs where there is no fcntl.
    r"fcntl\.(flock|lockf)\(": {"runner.locks", "runner.entry", "runner.parts"},
}


def test_what_may_hang_or_be_wrong_in_many_ways_is_done_in_one_place():
    sources = {
        name: path.read_text() for name, path in modules().items() if name.startswith("runner")
    }
    for pattern, names in ONLY.items():
        assert {name for name, text in sources.items() if re.search(pattern, text)} == names


def test_what_the_kernel_tells_of_a_process_is_read_in_one_place():
    texts = {
        str(path.relative_to(PACKAGE)): path.read_text()
        for room in ("runner", "runs", "snapshot", "text")
        for path in (PACKAGE / room).rglob("*.*")
        if path.suffix in (".py", ".sh")
    }
    read = re.compile(r"/(stat|status|exe|environ)\"")
    readers = {name for name, text in texts.items() if read.search(text)}
    assert readers == {"text/proc.py", "runner/procs.sh"}


def test_status_goes_without_what_takes_long_to_import(tmp_path):
    for name, text in run_script.runner(has_probe=False).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    program = "import sys; sys.path.insert(0, sys.argv[1]); from remote_gpu_trainer.runner import main, status; print(*sys.modules)"
    words = [sys.executable, "-I", "-S", "-B", "-c", program, str(tmp_path)]
    loaded = set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())
    assert "json" in loaded and not loaded & {*main.HEAVY, "dataclasses", "inspect"}


def test_numbers_that_stand_for_a_modules_own_are_as_it_has_them():
    assert child.NULL == subprocess.DEVNULL
    assert completeness._LINE == pickletools.UP_TO_NEWLINE
    assert completeness._LENGTHS == {
        pickletools.TAKEN_FROM_ARGUMENT1: 1,
        pickletools.TAKEN_FROM_ARGUMENT4: 4,
        pickletools.TAKEN_FROM_ARGUMENT4U: 4,
        pickletools.TAKEN_FROM_ARGUMENT8U: 8,
    }
