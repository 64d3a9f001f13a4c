"""scripts/setup-china-mirrors.sh: the same settings sourced and printed, and no trace in the shell beside them."""

import shlex
import subprocess

import pytest

from tests.conftest import ROOT
from tests.engines.sshd import boxes, sshd  # noqa: F401

SCRIPT = ROOT / "scripts/setup-china-mirrors.sh"
PATH = "/usr/local/bin:/usr/bin:/bin"


@pytest.fixture
def shell(tmp_path):
    """Run lines of bash in a bare environment: shell('source "$S"; …', DATA_DIR=…) → (code, stdout, stderr)."""

    def run(text, **env):
        given = {
            "PATH": PATH,
            "HOME": str(tmp_path),
            "S": str(SCRIPT),
            **{name: str(value) for name, value in env.items()},
        }
        done = subprocess.run(
            ["bash", "--norc", "-c", text], capture_output=True, text=True, env=given
        )
        return done.returncode, done.stdout, done.stderr

    return run


def printed(shell, **env):
    code, out, err = shell('bash "$S" --print', **env)
    assert (code, err) == (0, "")
    words = [shlex.split(line) for line in out.splitlines()]
    assert all(line[0] == "export" and len(line) == 2 for line in words)
    return dict(line[1].split("=", 1) for line in words)


def test_sourced_it_sets_the_mirrors_and_the_caches_on_the_data_disk(shell, tmp_path):
    code, out, err = shell(
        'source "$S"; printf "%s\\n" "$HF_ENDPOINT" "$HF_HUB_DISABLE_XET" "$HF_HOME" "$HF_HUB_CACHE" "$PIP_INDEX_URL"; env | grep -c HF_HOME',
        DATA_DIR=tmp_path,
    )
    assert code == 0
    assert out.split() == [
        "https://hf-mirror.com",
        "1",
        f"{tmp_path}/hf",
        f"{tmp_path}/hf/hub",
        "https://pypi.tuna.tsinghua.edu.cn/simple",
        "1",
    ]
    assert f"set   HF_HOME={tmp_path}/hf" in err
    assert list(tmp_path.iterdir()) == []


def test_printed_lines_give_the_same_when_evaluated(shell, tmp_path):
    data = tmp_path / "data 'disk' $(touch hit)"
    data.mkdir()
    names = [
        "HF_ENDPOINT",
        "HF_HOME",
        "HF_HUB_CACHE",
        "HF_HUB_DISABLE_XET",
        "MODELSCOPE_CACHE",
        "TORCH_HOME",
        "PIP_CACHE_DIR",
        "PIP_INDEX_URL",
        "no_proxy",
        "NO_PROXY",
    ]
    show = "; ".join(f'printf "%s\\0" "${{{name}-unset}}"' for name in names)
    env = {"DATA_DIR": data, "http_proxy": "http://me:secret@proxy:1"}
    assert (
        shell(f'eval "$(bash "$S" --print)"; {show}', **env)[1]
        == shell(f'source "$S"; {show}', **env)[1]
    )
    assert printed(shell, **env)["HF_HOME"] == f"{data}/hf"
    assert not (tmp_path / "hit").exists()


def test_printed_over_a_one_shot_ssh_the_settings_reach_the_program(sshd):
    (sshd.home / "setup-china-mirrors.sh").write_bytes(SCRIPT.read_bytes())
    line = "eval \"$(DATA_DIR=$HOME bash setup-china-mirrors.sh --print)\" && python3 -c \"import os; print(os.environ['HF_ENDPOINT'], os.environ['HF_HOME'])\""
    assert sshd.run(line).stdout.split() == ["https://hf-mirror.com", f"{sshd.home}/hf"]
    piped = sshd.run("bash -s -- --print", input=SCRIPT.read_text())
    assert piped.returncode == 0 and "export HF_ENDPOINT=" in piped.stdout


@pytest.mark.parametrize(
    "options",
    ["", "set -eu; ", "set -euo pipefail; ", "set -f; shopt -s nullglob; "],
    ids=["plain", "strict", "stricter", "no globs"],
)
def test_the_shell_that_sources_it_keeps_its_options_functions_and_names(shell, tmp_path, options):
    state = "set +o; shopt; declare -F; compgen -v | grep -v -E '^(_|BASH|PIPESTATUS|LINENO|HF_|PIP_|MODELSCOPE|TORCH_HOME|no_proxy|NO_PROXY|before|after|S$|RANDOM|SRANDOM|EPOCH|SECONDS)' || true"
    text = (
        options
        + f'before=$({state}); source "$S" 2>/dev/null; after=$({state}); [ "$before" = "$after" ] || diff <(echo "$before") <(echo "$after")'
    )
    code, out, err = shell(text, DATA_DIR=tmp_path, https_proxy="http://p:1")
    assert (code, out) == (0, ""), err


def test_values_that_are_there_are_kept(shell, tmp_path):
    env = {
        "DATA_DIR": tmp_path,
        "HF_ENDPOINT": "https://huggingface.co",
        "HF_HOME": "/mine",
        "PIP_INDEX_URL": "https://mine/simple",
    }
    got = printed(shell, **env)
    assert not {"HF_ENDPOINT", "HF_HOME", "PIP_INDEX_URL", "HF_HUB_DISABLE_XET"} & set(got)
    assert got["HF_HUB_CACHE"] == "/mine/hub"
    code, out, _ = shell('source "$S"; echo "$HF_ENDPOINT $HF_HOME"', **env)
    assert out.split() == ["https://huggingface.co", "/mine"]


def test_sourcing_it_twice_changes_nothing_more(shell, tmp_path):
    show = "env | grep -v -E '^(_|S|SHLVL|PWD|OLDPWD)=' | sort"
    text = (
        f'source "$S"; one=$({show}); source "$S"; two=$({show}); [ "$one" = "$two" ] && echo same'
    )
    assert shell(text, DATA_DIR=tmp_path, http_proxy="http://p:1", no_proxy="a, b")[1] == "same\n"


def test_an_index_in_pip_conf_is_kept(shell, tmp_path):
    (tmp_path / ".config/pip").mkdir(parents=True)
    (tmp_path / ".config/pip/pip.conf").write_text(
        "[global]\nindex-url = https://mirror.example/simple\n"
    )
    assert "PIP_INDEX_URL" not in printed(shell)


def test_no_proxy_is_touched_only_when_there_is_a_proxy(shell):
    assert not {"no_proxy", "NO_PROXY"} & set(printed(shell))
    assert shell('source "$S"; env | grep -c -i ^no_proxy=')[1] == "0\n"
    got = printed(
        shell,
        HTTPS_PROXY="http://p:1",
        no_proxy="intra.example, 10.0.0.1",
        NO_PROXY="other.example",
    )
    names = got["no_proxy"].split(",")
    assert got["no_proxy"] == got["NO_PROXY"]
    assert names[:3] == ["intra.example", "10.0.0.1", "other.example"]
    for name in (
        "localhost",
        "127.0.0.1",
        "::1",
        "hf-mirror.com",
        ".hf-mirror.com",
        "pypi.tuna.tsinghua.edu.cn",
        ".modelscope.cn",
    ):
        assert name in names
    assert len(names) == len(set(names))


def test_a_proxys_password_is_not_printed(shell):
    for text in ('source "$S"', 'bash "$S" --print'):
        _, out, err = shell(
            text, http_proxy="http://me:hunter2@p:1", all_proxy="socks5://me:hunter2@p:2"
        )
        assert "hunter2" not in out + err


def test_nothing_is_said_of_nightly_torch(shell, tmp_path):
    assert not [
        name
        for name, value in printed(shell, DATA_DIR=tmp_path).items()
        if "nightly" in value or "EXTRA_INDEX" in name or "pytorch.org" in value
    ]


def test_a_data_disk_that_is_not_mounted_sets_nothing(shell, tmp_path):
    code, out, err = shell(
        'source "$S" || echo "status $?"; echo "${HF_ENDPOINT-unset}"', DATA_DIR=tmp_path / "none"
    )
    assert out.split() == ["status", "1", "unset"]
    assert "is not a writable folder, nothing was set; mount the data disk" in err
    code, out, _ = shell('bash "$S" --print', DATA_DIR=tmp_path / "none")
    assert (code, out) == (1, "")


def test_arguments_of_the_sourcing_script_are_not_read(shell, tmp_path):
    (tmp_path / "train.sh").write_text('set -eu\nsource "$S"\necho "$1 $HF_ENDPOINT"\n')
    assert (
        shell(f"bash {tmp_path}/train.sh --print 2>/dev/null")[1]
        == "--print https://hf-mirror.com\n"
    )


def test_executed_without_print_it_says_that_this_would_be_lost(shell):
    code, out, err = shell('bash "$S"')
    assert (code, out) == (2, "")
    assert "use source setup-china-mirrors.sh, or pass --print or --help" in err
    assert shell('bash "$S" --persist')[0] == 2


def test_help(shell):
    code, out, _ = shell('bash "$S" --help')
    assert code == 0
    for text in ("usage:", "variables that it sets", "exit", "examples:"):
        assert text in out
