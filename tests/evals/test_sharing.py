"""What the workers of a test run share is made by one of them: answers to texts, and folders."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.sharing import Shared

sys.path.insert(0, str(ROOT / "evals"))

from grading import shared, systems
from grading.cases import Case, id_of
from remote_gpu_trainer.lookup.answer import answer_for

pytest.importorskip("fcntl")
TEXT = "RuntimeError: element 0 of tensors does not require grad"
# Another process that is looking a text up: it has the file, and answers once the end of its input comes.
BUSY = """
import fcntl, sys
with open(sys.argv[1], "a+") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("here", flush=True)
    sys.stdin.read()
    file.write(sys.argv[2])
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(shared.FOLDER, str(tmp_path))
    return tmp_path


@pytest.fixture
def looked_up(monkeypatch):
    """The texts that were looked up here, in order."""
    texts = []

    def answer(text):
        texts.append(text)
        return answer_for(text=text)

    monkeypatch.setattr(shared, "answer_for", answer)
    return texts


def test_a_text_is_looked_up_once_and_its_answer_stays_as_it_was(folder, looked_up):
    [first], [second] = (shared.answers([TEXT, TEXT]).values() for _ in range(2))
    assert looked_up == [TEXT]
    assert first == second == answer_for(text=TEXT) and first.matches[0]["id"] == "O3"


def test_without_a_folder_nothing_is_kept(monkeypatch, looked_up):
    monkeypatch.delenv(shared.FOLDER, raising=False)
    shared.answers([TEXT])
    shared.answers([TEXT])
    assert looked_up == [TEXT, TEXT]


def test_what_another_process_is_looking_up_comes_last_and_its_answer_is_taken(
    folder, looked_up, monkeypatch
):
    shared.answers([TEXT])
    [kept] = folder.iterdir()
    answer = kept.read_text()
    kept.write_text("")
    command = [sys.executable, "-c", BUSY, str(kept), answer.replace("O3", "O4")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"here\n"

        def end(text):
            looked_up.append(text)
            other.stdin.close()
            return answer_for(text=text)

        monkeypatch.setattr(shared, "answer_for", end)
        found = shared.answers([TEXT, "nothing of the kind"])
    assert looked_up == [TEXT, "nothing of the kind"]
    assert found[TEXT].matches[0]["id"] == "O4"


def test_what_was_left_unfinished_is_looked_up_again(folder, looked_up):
    shared.answers([TEXT])
    [kept] = folder.iterdir()
    kept.write_text("")
    shared.answers([TEXT])
    assert looked_up == [TEXT, TEXT] and kept.read_text()


def test_cases_of_one_text_get_one_answer(folder, looked_up):
    cases = [
        Case(id_of(f"https://{at}"), "error", TEXT, ("O3",), f"https://{at}") for at in range(2)
    ]
    found = systems.lookup(cases)
    assert [found[case.id][0][0] for case in cases] == ["O3", "O3"] and looked_up == [TEXT]


def test_a_folder_is_filled_once_and_again_after_a_failure(tmp_path):
    one, fills = Shared(tmp_path), []

    def fails(folder):
        (folder / "half").touch()
        raise OSError

    def fill(folder):
        fills.append(folder)
        (folder / "whole").touch()

    with pytest.raises(OSError):
        one.folder("x", fails)
    for _ in range(2):
        assert [path.name for path in one.folder("x", fill).iterdir()] == ["whole"]
    assert fills == [tmp_path / "x"]


def test_of_two_workers_the_second_waits_for_the_folder(tmp_path):
    program = (
        "import sys, time, pathlib\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.sharing import Shared\n"
        "def fill(folder):\n"
        "    with open(folder.parent / 'fills', 'a') as file: file.write('x')\n"
        "    time.sleep(0.5)\n"
        "    (folder / 'whole').touch()\n"
        "folder = Shared(pathlib.Path(sys.argv[1])).folder('x', fill)\n"
        "assert (folder / 'whole').exists()\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) for _ in range(2)]
    assert [one.wait(60) for one in both] == [0, 0]
    assert (tmp_path / "fills").read_text() == "x"
