"""The locks for development are in step with pyproject.toml, by hash, and name no server. No network: what stands in the files is compared."""

import re
import sys

import pytest
from locks import Pin, read_lock
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OWN = PROJECT["name"]
RUN = PROJECT["dependencies"]
DEVELOPMENT = RUN + [line for extra in PROJECT["optional-dependencies"].values() for line in extra]
LOCKS = {"requirements-run.txt": RUN, "requirements-dev.txt": DEVELOPMENT}
WRITE = "write it again as CONTRIBUTING.md says"


@pytest.fixture(params=LOCKS, ids=lambda name: name)
def lock(request):
    text = (ROOT / request.param).read_text(encoding="utf-8")
    return text, read_lock(text), [Requirement(line) for line in LOCKS[request.param]]


def test_every_requirement_is_locked_at_a_version_that_it_allows(lock):
    _, pins, asked = lock
    for one in asked:
        name = canonicalize_name(one.name)
        if "python_version" in str(one.marker or "") and name not in pins:
            assert not one.marker.evaluate({"python_version": "3.11"}), (
                f"{name} is missing, {WRITE}"
            )  # the locks are for 3.11 and newer
            continue
        assert name in pins and one.specifier.contains(pins[name].version), (
            f"{one} against {pins.get(name)}, {WRITE}"
        )


def test_nothing_is_locked_that_nobody_asks_for(lock):
    _, pins, asked = lock
    names = {canonicalize_name(one.name) for one in asked}
    assert {name for name, pin in pins.items() if OWN in pin.needed_by} - names == set(), WRITE
    assert [
        name
        for name, pin in pins.items()
        if not pin.needed_by or not set(pin.needed_by) <= {OWN, *pins}
    ] == []


def test_every_package_has_its_hashes(lock):
    assert [name for name, pin in lock[1].items() if not pin.hashes] == []


def test_a_lock_names_no_server_and_no_folder_of_a_machine(lock):
    assert not re.search(
        r"://|--index|--find-links|--extra|@ file|(?<!\w)/\w", lock[0].split("\n", 2)[2]
    )
    assert lock[0].split("\n")[1].strip("# ").startswith("uv pip compile pyproject.toml --")


def test_both_locks_agree():
    run, development = (read_lock((ROOT / name).read_text(encoding="utf-8")) for name in LOCKS)
    assert {name: pin.version for name, pin in run.items()} == {
        name: development[name].version for name in run
    }


def test_a_line_that_no_lock_has_is_refused():
    with pytest.raises(ValueError, match="'torch>=2' in the lock isn't NAME==VERSION"):
        read_lock("torch>=2\n")
    text = "# made\na-b==1.0 ; sys_platform == 'linux' \\\n    --hash=sha256:00\n    # via\n    #   -c requirements-dev.txt\n    #   c\nd==2\n    # via a-b\n"
    assert read_lock(text) == {
        "a-b": Pin("1.0", "sys_platform == 'linux'", ["c"], 1),
        "d": Pin("2", "", ["a-b"], 0),
    }


def test_no_dependency_of_the_package_is_left_unused():
    """What pyproject.toml asks for at run time is imported somewhere in the package."""
    modules = {"pyyaml": "yaml"}
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "server").rglob("*.py"))
    for line in RUN:
        name = Requirement(line).name
        module = modules.get(name, name)
        assert re.search(
            rf"^\s*(?:import|from) {module}\b|import_module\(\"{module}", code, re.M
        ), f"nothing imports {name}"
