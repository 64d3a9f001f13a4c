"""U34: where a key in an argument turns up, and a way past all of these places."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

KEY = "hf_" + "EXAMPLE" * 4
PATTERN = "hf_[A-Za-z0-9]{20}|wandb_v1_[A-Za-z0-9_]{20}|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{30}|github_pat_[A-Za-z0-9_]{20}|https://[^/@ ]+:[^/@ $]+@"


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
def test_any_user_may_read_the_arguments_and_only_the_owner_the_environment():
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, "--token", KEY]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "KEY": KEY}
    ) as process:
        process.stdout.readline()
        arguments, environment = (
            Path(f"/proc/{process.pid}/{name}") for name in ("cmdline", "environ")
        )
        assert arguments.stat().st_mode & 0o777 == 0o444
        assert KEY in arguments.read_text()
        assert environment.stat().st_mode & 0o777 == 0o400
        process.stdin.close()


def test_set_x_prints_the_value_of_a_variable():
    finished = subprocess.run(
        ["bash", "-xc", ': login --token "$KEY"'],
        env={**os.environ, "KEY": KEY},
        capture_output=True,
        text=True,
    )
    assert KEY in finished.stderr


def test_standard_input_fills_a_file_that_only_the_owner_reads(tmp_path):
    script = "umask 077; mkdir -p cache; cat > cache/token"
    subprocess.run(
        ["bash", "-xc", script], cwd=tmp_path, input=KEY, capture_output=True, text=True, check=True
    )
    token = tmp_path / "cache" / "token"
    assert token.read_text() == KEY
    assert token.stat().st_mode & 0o777 == 0o600


def test_umask_leaves_the_mode_of_a_file_that_exists(tmp_path):
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine other\n")
    netrc.chmod(0o644)
    subprocess.run(
        ["bash", "-c", "umask 077; cat >> .netrc"],
        cwd=tmp_path,
        input=b"machine api.wandb.ai\n",
        check=True,
    )
    assert netrc.stat().st_mode & 0o777 == 0o644
    subprocess.run(
        ["bash", "-c", "umask 077; touch .netrc; chmod 600 .netrc; cat >> .netrc"],
        cwd=tmp_path,
        input=b"",
        check=True,
    )
    assert netrc.stat().st_mode & 0o777 == 0o600
    assert netrc.read_text() == "machine other\nmachine api.wandb.ai\n"


@pytest.mark.parametrize(
    "leak",
    [
        KEY,
        "AKIA" + "A" * 16,
        "ghp_" + "a" * 36,
        "github_pat_" + "a1_" * 20,
        "wandb_v1_" + "a" * 30,
        "https://me:secret@github.com/me/repo",
    ],
)
def test_the_check_finds_a_key_and_prints_none(tmp_path, leak):
    (tmp_path / "start.sh").write_text(f"export TOKEN={leak}\n")
    (tmp_path / "clean.sh").write_text("git clone https://github.com/me/repo\n")
    (tmp_path / "named.sh").write_text('git clone "https://$USER:$TOKEN@github.com/me/repo"\n')
    found = subprocess.run(
        ["bash", "-c", f"grep -rlsE '{PATTERN}' no_such_file ./*.sh"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert found.stdout == "./start.sh\n"
    assert not re.search(PATTERN, PATTERN)


@pytest.mark.parametrize(("text", "commits"), [(KEY, 2), ("$HF_TOKEN", 0)])
def test_the_check_names_the_commits_that_brought_and_removed_a_key(
    tmp_path, shell_of, text, commits
):
    pattern, _, history, _ = shell_of("U34", "P=").split("; ")
    script = f"""
        git init -q . && git config user.email proof@example.com && git config user.name proof
        echo 'login --token {text}' > a.sh && git add . && git commit -qm one
        echo 'login' > a.sh && git commit -qam two
        {pattern}; {history}"""
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert len(re.findall(r"^commit [0-9a-f]{7,}$", done.stdout, re.M)) == commits
    assert KEY not in done.stdout


def test_texts_of_git_and_docker_are_found(says):
    for text in ("remote: - Push cannot contain secrets", "remote: - GITHUB PUSH PROTECTION",
                 ' - SecretsUsedInArgOrEnv: Do not use ARG or ENV instructions for sensitive data (ENV "HF_TOKEN")'):  # fmt: skip
        says("U34", text)


def test_the_pattern_is_that_of_the_entry(shell_of):
    shown = re.search(r"P='([^']+)'", shell_of("U34", "P="))[1]
    assert set(shown.split("|")) == set(PATTERN.split("|"))


@pytest.mark.parametrize(("argument", "count"), [(KEY, "1"), ("--token-file=key.txt", "0")])
def test_the_check_counts_a_command_that_shows_a_key_and_no_other(shell_of, argument, count):
    pattern, *_, running = shell_of("U34", "P=").split("; ")
    with subprocess.Popen([sys.executable, "-c", "input()", argument], stdin=subprocess.PIPE) as it:
        code = f"{pattern}; {running.replace('ps -eo', f'ps -p {it.pid} -o')}"
        shown = subprocess.run(["bash", "-c", code], capture_output=True, text=True).stdout
        it.communicate(b"\n")
    assert shown.strip() == count
