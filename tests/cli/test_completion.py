"""`completion`: real shells complete commands, options and values by the script, and quickly."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.cli.main import main

from tests.conftest import engine

NAMES = ("rgt", "remote-gpu-trainer")
PROGRAM = f"""\
#!{sys.executable}
import sys
from remote_gpu_trainer.cli.main import main
sys.exit(main())
"""
# What is typed, what must be offered for its last word, and what must not.
TYPED = {
    "a command": ("loo", {"lookup"}, {"fit"}),
    "a command of maintainers": ("dev new", {"new-entry"}, {"lint"}),
    "an option": ("lookup --js", {"--json"}, {"--full"}),
    "a client": ("install --client co", {"codex"}, {"cursor", "claude-code"}),
    "a platform": ("render job.yaml --profile ru", {"runpod"}, {"vastai"}),
    "a platform as an argument": ("profile va", {"vastai"}, {"runpod"}),
    "a target": ("render job.yaml --target k", {"kubernetes"}, {"slurm"}),
    "a card": ("fit --gpu H100-", {"H100-80GB", "H100-NVL"}, {"A10"}),
    "an entry": ("lookup --id VAST", {"VAST1", "VAST2"}, {"O1"}),
    "an entry in small letters": ("lookup --id vast", {"VAST1"}, {"O1"}),
    "a kind": ("fit --optimizer adamw", {"adamw", "adamw8bit"}, {"sgd"}),
    "a need": ("profile --need no", {"notice="}, {"spot"}),
    "a shell": ("completion fi", {"fish"}, {"bash"}),
    "a family": ("dev new-entry VA", {"VAST"}, {"O"}),
    "a command of maintainers without dev": ("lin", set(), {"lint"}),
}


@pytest.fixture
def box(tmp_path, monkeypatch, capsys):
    """A folder where the program has both of its names, and a shell's scripts for them."""

    class Box:
        folder = tmp_path

        def script(self, shell: str, name: str) -> Path:
            monkeypatch.setattr(sys, "argv", [f"/usr/local/bin/{name}"])
            assert main(["completion", shell]) == 0
            path = tmp_path / f"_{name}"
            path.write_text(capsys.readouterr().out)
            return path

    for name in NAMES:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(PROGRAM)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "train.log").write_text("")
    (tmp_path / "logs").mkdir()
    monkeypatch.chdir(tmp_path)
    return Box()


def shell_output(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    return done.stdout


def in_bash(box, name: str, line: str) -> set[str]:
    """What bash offers for the last word of a line; files as bash itself finds them."""
    words = [name, *line.split(" ")]
    function = f"_{name.replace('-', '_')}_completion"
    program = f"""
source {box.script("bash", name)}
[ "$(complete -p {name})" = "complete -o nosort -F {function} {name}" ] || exit 1
compopt() {{ [ "$2" = default ] && COMPREPLY+=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}")); }}
COMP_WORDS=({" ".join(words)})
COMP_CWORD={len(words) - 1}
{function} {name}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    return set(shell_output("bash", "--norc", "-c", program).split())


def in_fish(box, name: str, line: str) -> set[str]:
    """What fish offers for the last word of a line."""
    script = box.script("fish", name)
    typed = shell_output(
        "fish", "--no-config", "-c", f"source {script}; complete -C '{name} {line}'"
    )
    return {row.split("\t")[0] for row in typed.splitlines()}


ZSHRC = """\
PS1=
fpath=({folder} $fpath)
autoload -Uz compinit
compinit -u -D
unsetopt list_ambiguous zle_bracketed_paste
LISTMAX=1000
show-line() {{ zle -I; print -r -- "$BUFFER"; print end }}
zle -N show-line
bindkey '^G' show-line
"""


def in_zsh(box, name: str, line: str) -> set[str]:
    """What zsh lists at a terminal when Tab is pressed after a line, and the line as it is then."""
    box.script("zsh", name)
    (box.folder / ".zshrc").write_text(ZSHRC.format(folder=box.folder))
    ours, theirs = pty.openpty()
    env = {**os.environ, "ZDOTDIR": str(box.folder), "TERM": "dumb", "COLUMNS": "200"}
    zsh = subprocess.Popen(
        ["zsh", "-o", "no_global_rcs", "-i"],
        stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        os.write(ours, b"\x07")
        shown_until(ours, "end")
        os.write(ours, f"{name} {line}\t\x07".encode())
        return set(shown_until(ours, "end").split())
    finally:
        zsh.kill()
        zsh.wait()
        os.close(ours)


def shown_until(terminal: int, mark: str) -> str:
    """What a terminal shows until a line is the mark."""
    shown, until = "", time.monotonic() + 60
    while not re.search(rf"^{mark}\r?$", shown, re.M):
        assert time.monotonic() < until, shown
        if select.select([terminal], [], [], 1)[0]:
            shown += os.read(terminal, 65536).decode(errors="replace")
    return shown


COMPLETERS = {"bash": in_bash, "zsh": in_zsh, "fish": in_fish}
SHELLS = ["bash", *(pytest.param(shell, marks=pytest.mark.engine) for shell in ("zsh", "fish"))]


def offered(shell: str, box, name: str, line: str) -> set[str]:
    engine(shell, f"apt-get install {shell}")
    return COMPLETERS[shell](box, name, line)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("case", TYPED)
def test_a_shell_completes(shell, case, box):
    line, there, not_there = TYPED[case]
    words = offered(shell, box, "rgt", line)
    assert there <= words and not words & not_there, words
    assert there or shell == "zsh" or words == set()


@pytest.mark.parametrize("shell", SHELLS)
def test_both_names_of_the_program_are_completed(shell, box):
    assert "codex" in offered(shell, box, "remote-gpu-trainer", "install --client co")


@pytest.mark.parametrize("shell", SHELLS)
def test_files_are_offered_where_a_file_is_meant(shell, box):
    assert "train.log" in offered(shell, box, "rgt", "lookup --log tra")
    assert "train.log" in offered(shell, box, "rgt", "lookup tra")


def test_every_id_is_offered(box):
    assert in_bash(box, "rgt", "lookup --id ") >= set(bundle.load_cache())


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_valid(shell, box):
    path = engine(shell, f"apt-get install {shell}")
    checked = subprocess.run(
        [path, "-n", str(box.script(shell, "rgt"))], capture_output=True, text=True
    )
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize(
    "line", ["", "lookup --", "lookup --id O", "render --profile ", "install --client ", "dev "]
)
def test_a_completion_imports_nothing_that_takes_long(line):
    program = (
        "import sys; from remote_gpu_trainer.cli.main import main; main();"
        "slow = ('numpy', 'pydantic', 'yaml', 'mcp', 'rich', 'jinja2', 'tomlkit', 'packaging');"
        "print([m for m in slow if m in sys.modules], file=sys.stderr)"
    )
    words = f"remote-gpu-trainer {line}".split(" ")
    asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **asked, "_REMOTE_GPU_TRAINER_COMPLETE": "bash_complete"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith("plain,") and done.stderr.strip() == "[]"
