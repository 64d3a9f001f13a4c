"""ENV31: a file of one's own goes before a library, a folder without __init__.py goes after it; what renaming, `-m` and the safe path change."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
LIBRARY = "def load_dataset(name):\n    return name\n\n\ndef init():\n    return 'run'\n"


@pytest.fixture
def box(tmp_path):
    """box(name, text) writes a file of the project; what lies in `site` is installed."""
    (tmp_path / "project").mkdir()
    (tmp_path / "site").mkdir()

    def write(name: str, text: str = "") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def run(
    folder, *arguments: str, path: str | None = None, **variables: str
) -> subprocess.CompletedProcess:
    names = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONSAFEPATH", "PYTHONPATH")
    }
    site = str(folder / "site") if path is None else path
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder / "project",
        env={**names, "PYTHONPATH": site, **variables},
        text=True,
        capture_output=True,
        timeout=60,
    )


def command(name: str) -> str:
    """What the entry's fix asks Python for."""
    page = (
        (Path(__file__).parents[2] / "references/environment.md")
        .read_text(encoding="utf-8")
        .split("### ENV31")[1]
    )
    return re.search(r'python -c "(import sys; .+?)"', page)[1].replace("datasets", name)


@pytest.mark.parametrize(
    "name, code",
    [
        ("torch.py", "import torch\nprint(torch.tensor([1]))"),
        ("random.py", "import random\nprint(random.randint(1, 1))"),
        ("datasets.py", "from datasets import load_dataset\nprint(load_dataset('x'))"),
    ],
)
def test_a_script_with_a_librarys_name(name, code, box, tmp_path, says):
    box("site/datasets/__init__.py", LIBRARY)
    script = box(f"project/{name}", code)
    result = run(tmp_path, name)
    assert result.returncode == 1
    says("ENV31", result.stderr)
    script.rename(script.with_name("mine.py"))
    assert (
        run(tmp_path, "mine.py").returncode == 0
    )  # the __pycache__ of the old name lies there still


def test_the_check_names_two_places_even_for_a_file_that_stops_when_it_is_imported(
    box, tmp_path, shell_of
):
    box("site/torch/__init__.py", LIBRARY)
    own = box("project/torch.py", "import torch\nprint(torch.tensor([1]))")
    code = shell_of("ENV31", "find_spec").replace("python -c", f"{sys.executable} -c")

    def places():
        shown = subprocess.run(
            ["bash", "-c", code],
            cwd=tmp_path / "project",
            env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
            capture_output=True,
            text=True,
        ).stdout
        return re.findall(r"origin='([^']+)'", shown)

    library = f"{tmp_path}/site/torch/__init__.py"
    assert places() == [str(own), library]
    own.rename(own.with_name("mine.py"))
    assert places() == [library, library]


def test_a_module_beside_the_script(box, tmp_path, says):
    box("site/datasets/__init__.py", LIBRARY)
    own = box("project/datasets.py", "N = 1\n")
    box("project/train.py", "from datasets import load_dataset\nprint(load_dataset('x'))")
    says("ENV31", run(tmp_path, "train.py").stderr)
    ask = command("datasets")
    assert f"origin='{own}'" in run(tmp_path, "-c", ask).stdout
    own.rename(own.with_name("my_data.py"))
    assert run(tmp_path, "train.py").stdout == "x\n"
    assert f"origin='{tmp_path}/site/datasets/__init__.py'" in run(tmp_path, "-c", ask).stdout


def test_a_file_in_place_of_a_package(box, tmp_path, says):
    box("project/torch.py")
    box("project/train.py", "import torch.nn")
    says("ENV31", run(tmp_path, "train.py").stderr)


@pytest.mark.parametrize("name", ["queue", "types", "tokenize", "inspect", "random"])
def test_a_standard_modules_name_stops_torch(name, box, tmp_path, says):
    own = box(f"project/{name}.py", "class Mine: pass\n")
    box("project/train.py", "import torch\nprint('trained')")
    result = run(tmp_path, "train.py")
    assert result.returncode == 1
    if name != "types":  # its text is an older Python's as well
        says("ENV31", result.stderr)
    if name == "queue":
        own.rename(own.with_name("mine.py"))
        assert run(tmp_path, "train.py").stdout == "trained\n"


@pytest.mark.parametrize(
    "name, call",
    [
        ("wandb", "import wandb\nprint(wandb.init())"),
        ("datasets", "from datasets import load_dataset\nprint('run')"),
    ],
)
def test_a_folder_of_results_answers_only_where_the_package_is_missing(
    name, call, box, tmp_path, says
):
    box(f"project/{name}/run-1/log.txt")
    box("project/train.py", call)
    says("ENV31", run(tmp_path, "-S", "train.py").stderr)  # -S: without what is installed here
    said = run(tmp_path, "-S", "-c", command(name)).stdout
    assert "origin=" not in said and f"'{tmp_path}/project/{name}'" in said
    box(f"site/{name}/__init__.py", LIBRARY)
    assert run(tmp_path, "train.py").stdout == "run\n"  # the folder is still there


def test_a_package_from_pip_goes_before_a_folder_without_init(box, tmp_path):
    box("project/utils/prepare.py")
    box("project/train.py", "import utils.prepare\nprint('trained')")
    box("site/utils/__init__.py")
    assert "No module named 'utils.prepare'" in run(tmp_path, "train.py").stderr
    box("project/utils/__init__.py")
    assert run(tmp_path, "train.py").stdout == "trained\n"


def test_an_own_utils_hides_a_repositorys_folder(box, tmp_path, says):
    box("hub/utils/datasets.py")
    box("hub/models.py", "from utils.datasets import *")
    own = box("project/utils.py")
    box("project/train.py", "import models\nprint('trained')")
    says("ENV31", run(tmp_path, "train.py", path=str(tmp_path / "hub")).stderr)
    own.rename(own.with_name("tools.py"))
    assert run(tmp_path, "train.py", path=str(tmp_path / "hub")).stdout == "trained\n"


def test_a_package_of_ones_own_keeps_the_name(box, tmp_path):
    box("site/datasets/__init__.py", LIBRARY)
    box("project/proj/datasets.py", "mine = 'own'\n")
    box(
        "project/proj/train.py",
        "from datasets import load_dataset\nfrom .datasets import mine\nprint(load_dataset('x'), mine)",
    )
    for launcher in (
        ("-m", "proj.train"),
        ("-m", "torch.distributed.run", "--nproc_per_node", "1", "-m", "proj.train"),
    ):
        result = run(tmp_path, *launcher)
        assert result.stdout == "x own\n", result.stderr


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.11 brought it")
def test_the_safe_path(box, tmp_path):
    box("site/datasets/__init__.py", LIBRARY)
    box("project/datasets.py")
    box("project/train.py", "from datasets import load_dataset\nprint(load_dataset('x'))")
    assert run(tmp_path, "train.py").returncode == 1
    assert run(tmp_path, "train.py", PYTHONSAFEPATH="1").stdout == "x\n"


def test_an_empty_entry_adds_the_current_folder(box, tmp_path):
    box("site/datasets/__init__.py", LIBRARY)
    box("project/datasets.py")
    script = str(
        box("elsewhere/train.py", "from datasets import load_dataset\nprint(load_dataset('x'))")
    )
    site = str(tmp_path / "site")
    assert run(tmp_path, script, path=site).stdout == "x\n"
    assert run(tmp_path, script, path=f":{site}").returncode == 1


def test_a_path_into_a_package_hides_the_standard_library(tmp_path):
    (tmp_path / "project").mkdir()
    result = run(tmp_path, "-c", "import tempfile", path=str(Path(torch.__file__).parent))
    assert result.returncode == 1 and "torch/types.py" in result.stderr


def test_bytecode_counts_only_beside_the_script(box, tmp_path):
    import py_compile

    library = box("site/datasets/__init__.py", LIBRARY)
    own = box("project/datasets.py")
    py_compile.compile(str(own))
    py_compile.compile(str(own), cfile=str(own) + "c")
    own.unlink()
    ask = "import datasets; print(datasets.__file__)"
    assert run(tmp_path, "-c", ask).stdout.strip().endswith("project/datasets.pyc")
    Path(str(own) + "c").unlink()
    assert run(tmp_path, "-c", ask).stdout.strip() == str(library)


@pytest.mark.parametrize(
    "text",
    [
        "AttributeError: module 'random' has no attribute 'randint' (consider renaming '/tmp/random.py' since it has the same name as the standard library module named 'random' and the import system gives it precedence)",
        "AttributeError: module 'torch' has no attribute 'tensor' (consider renaming '/tmp/torch.py' if it has the same name as a third-party module you intended to import)",
        "AttributeError: module 'torch' has no attribute 'tensor' (consider renaming '/tmp/torch.py' if it has the same name as a library you intended to import)",
    ],
)
def test_texts_of_python_3_13(text, says):
    says("ENV31", text)


@pytest.mark.parametrize(
    "text",
    [
        "AttributeError: partially initialized module 'torchvision' has no attribute 'extension' (most likely due to a circular import)",
        "AttributeError: partially initialized module 'torch' has no attribute 'version' (most likely due to a circular import)",
        "ImportError: cannot import name 'load_metric' from 'datasets' (/opt/conda/lib/python3.10/site-packages/datasets/__init__.py)",
        "AttributeError: module 'torch' has no attribute 'float8_e4m3fn'",
        "AttributeError: partially initialized module 'datasets' has no attribute 'utils' (most likely due to a circular import)",
        "AttributeError: module 'types' has no attribute 'GenericAlias'",
        "ModuleNotFoundError: No module named 'utils.json_util'; 'utils' is not a package",
    ],
)
def test_texts_of_other_causes(text, says):
    with pytest.raises(AssertionError, match="none of the signatures"):
        says("ENV31", text)
