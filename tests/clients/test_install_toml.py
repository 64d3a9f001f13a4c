"""`install` and `uninstall` on a TOML configuration: all but our own table stays byte for byte."""

import re
from pathlib import Path

import pytest
from hypothesis import given, reject
from hypothesis import strategies as some
from remote_gpu_trainer.clients import config_file
from remote_gpu_trainer.clients.table import Edit

from tests.clients.install_home import NAME, home, tomllib, tree, uninstall  # noqa: F401

OURS = """[mcp_servers.remote-gpu-trainer]
command = "/x/remote-gpu-trainer"
args = ["serve"]
"""
# Each with what is left when ours is taken out of a file that this command didn't write.
TOML_LEFT = {
    "alone": (OURS, ""),
    "without a newline at the end": (OURS.rstrip("\n"), ""),
    "last": ("a = 1 # mine\n\n" + OURS, "a = 1 # mine\n"),
    "last, blank lines of the user's": ("a = 1\n\n\n\n" + OURS + "\n\n", "a = 1\n\n\n\n\n"),
    "no blank line before it": ("a = 1\n" + OURS + "\n[b]\n", "a = 1\n\n[b]\n"),
    "between two": (
        "[mcp_servers.a]\nx = 1\n\n" + OURS + "\n# of b\n[mcp_servers.b]\ny = 2\n",
        "[mcp_servers.a]\nx = 1\n\n# of b\n[mcp_servers.b]\ny = 2\n",
    ),
    "a table below it": (
        OURS + '\n[mcp_servers.remote-gpu-trainer.env]\nA = "b" # gone\n# stays\n\n[z]\n',
        "# stays\n\n[z]\n",
    ),
    "a table below it, elsewhere": (
        OURS + "\n[z]\n  k = 1\n\n[mcp_servers.remote-gpu-trainer.env]\nA = 1\n",
        "[z]\n  k = 1\n",
    ),
    "remarks within": (
        OURS.replace("args", "# ours\nargs").replace("]\ncommand", "] # ours\ncommand"),
        "",
    ),
    "its name quoted and with blanks": (
        "b = 1\n\n\t[ mcp_servers . 'remote-gpu-trainer' ] # x\n" + OURS.partition("\n")[2] + "[c]\n",
        "b = 1\n[c]\n",
    ),
    "a remark that ends in an odd line break": (
        "a = 1 # x\u2028\n" + OURS + "[z]\n",
        "a = 1 # x\u2028\n[z]\n",
    ),
    "windows": (
        ("a = 1\n\n" + OURS + "\n# z\n[z]\n").replace("\n", "\r\n"),
        "a = 1\r\n\r\n# z\r\n[z]\r\n",
    ),
    "a header above it": ("[mcp_servers] # mine\n\n" + OURS, "[mcp_servers] # mine\n"),
    "an inline table": (
        '[mcp_servers]\nremote-gpu-trainer = {command = "/x/remote-gpu-trainer", args = ["serve"]}'
        ' # x\nb = {command = "y"}\n',
        '[mcp_servers]\nb = {command = "y"}\n',
    ),
    "keys with dots": (
        'a = 1\nmcp_servers.remote-gpu-trainer.command = "/x/remote-gpu-trainer"\n'
        'mcp_servers.remote-gpu-trainer.args = ["serve"]\nmcp_servers.b.command = "y"\n[z]\n',
        'a = 1\nmcp_servers.b.command = "y"\n[z]\n',
    ),
    "texts that look like tables": (
        'a = """\n[mcp_servers.remote-gpu-trainer]\n# """\n\n' + OURS + "b = '''\n[z]\n'''\n\n[y]\n",
        'a = """\n[mcp_servers.remote-gpu-trainer]\n# """\n\n[y]\n',
    ),
    "an odd layout all around": (
        "  a=1#x\n[ b ]   # y\n\tc  =  [ 1,\n  2 , # z\n ]\n\n" + OURS + "\n\n#w\n   [d]#v\n",
        "  a=1#x\n[ b ]   # y\n\tc  =  [ 1,\n  2 , # z\n ]\n\n\n#w\n   [d]#v\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TOML_LEFT)
def test_all_but_our_table_stays_byte_for_byte_when_it_goes(home, case):
    text, left = TOML_LEFT[case]
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_bytes(text.encode())
    assert uninstall("codex") == 0
    assert (home / ".codex/config.toml").read_bytes().decode() == left


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = {remote-gpu-trainer = {command = "/x/remote-gpu-trainer", args = ["serve"]}}\n',
        "[[t]]\n[a]\n[t.u]\nx = 1\n" + OURS,  # tomlkit would write its tables in another order
    ],
    ids=["an inline table of servers", "an order that tomlkit changes"],
)
def test_toml_that_it_cannot_take_ours_out_of_is_refused(home, text, capsys):
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text(text)
    before = tree(home)
    assert uninstall("codex") == 2 and tree(home) == before
    assert (
        "mcp_servers.remote-gpu-trainer can't be removed without changing something else; "
        "remove it by hand" in capsys.readouterr().err
    )


PIECES = some.sampled_from(
    ["[mcp_servers.a]\n", "[mcp_servers]\n", "[mcp_servers.b.env]\n", "[t]\n", "[t.u]  # h\n", "[[l]]\n", "# c1\n",
     "  # c2\n", "\n", "\r\n", "x = 1\n", "y.z = 'a' # c3\n", "mcp_servers.c.x = 1\n", "k = [\n 1, # c4\n]\n",
     's = """\n[mcp_servers.remote-gpu-trainer]\n"""\n', "d = 1979-05-27\n", "mcp_servers = {}\n", "e = {a = 1}\n"]
)  # fmt: skip
SERVER = Edit(Path("x.toml"), ("mcp_servers", NAME), {"command": f"/a/{NAME}", "args": ["serve"]})


REMARKS = some.lists(some.sampled_from(["# c5\n", "\n", "  # c6\n", "\r\n"]), max_size=3)


@given(some.lists(PIECES, max_size=6), some.booleans(), REMARKS, some.lists(PIECES))
def test_any_toml_gives_ours_back_and_keeps_the_rest(before, whole, remarks, after):
    text = "".join(before) if whole else "".join(before).rstrip("\r\n")
    rest = "".join((*remarks, "[end]\n", *after))
    try:
        tomllib.loads(text)
        added, known = config_file.put_in(SERVER.file, text, [SERVER])
    except (tomllib.TOMLDecodeError, config_file.InstallError):
        reject()
    assert added.startswith(text)
    assert config_file.taken_out(SERVER.file, added, known, [SERVER]) == text
    try:
        expected = tomllib.loads(added + rest)
        left = config_file.taken_out(SERVER.file, added + rest, known, [SERVER])
    except (tomllib.TOMLDecodeError, config_file.InstallError):
        reject()
    if not text:
        rest = re.sub(r"\A\r?\n", "", rest)
    elif not text.endswith("\n"):
        text += "\r\n" if "\r\n" in text else "\n"
    assert left == text + rest
    del expected["mcp_servers"][NAME]
    found = tomllib.loads(left)
    for values in (expected, found):
        if values.get("mcp_servers") == {}:
            del values["mcp_servers"]
    assert found == expected
