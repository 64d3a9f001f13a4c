"""GEN4: bash fails on line ends of Windows; the check counts them, and none after the fix."""

import pytest
from remote_gpu_trainer.catalogue import bundle

SCRIPT = "#!/bin/bash\nset -e\nmkdir -p out\ncd out\ntouch here\n"


def test_the_check_counts_the_line_ends_that_make_the_script_fail(provider, shell_of, says):
    path = provider.place / "run.sh"
    path.write_bytes(SCRIPT.replace("\n", "\r\n").encode())
    says("GEN4", provider.done("bash run.sh; bash -c 'true\r'").stderr)
    assert (provider.place / "out\r").is_dir() and not (provider.place / "out").exists()
    path.chmod(0o755)
    says("GEN4", provider.done("./run.sh").stderr)  # the kernel looks for an interpreter "bash\r"
    count = shell_of("GEN4", "grep -c")
    assert provider.run(count) == "5"
    fix = next(c for c in bundle.load().get("GEN4").fix.split("`") if c.startswith("sed -i"))
    provider.run(fix)
    assert provider.run(count) == "0"
    provider.run("bash run.sh")
    assert (provider.place / "out/here").exists()


@pytest.mark.parametrize("first", ["f() {", "for i in 1; do", "case a in"])
def test_each_word_that_opens_a_block_is_named_with_its_carriage_return(provider, says, first):
    (provider.place / "run.sh").write_bytes(f"{first}\r\necho 1\r\n".encode())
    says("GEN4", provider.done("bash run.sh").stderr)


def test_git_shows_which_working_copies_are_affected(provider, shell_of):
    for name, ends in (("a.sh", "\r\n"), ("b.sh", "\n")):
        (provider.place / name).write_bytes(f"echo 1{ends}".encode())
    provider.run("git init -q . && git -c core.autocrlf=false add a.sh b.sh")
    shown = provider.run(shell_of("GEN4", "ls-files --eol")).splitlines()
    assert [("w/crlf" in line, line.split()[-1]) for line in shown] == [
        (True, "a.sh"),
        (False, "b.sh"),
    ]


def test_the_lasting_fix_puts_the_rule_and_the_mended_file_into_the_commit(provider):
    (provider.place / "a.sh").write_bytes(b"echo 1\r\n")
    provider.run("git init -q . && git -c core.autocrlf=false add a.sh")
    provider.run("git -c user.email=a@b -c user.name=a commit -qm first")
    fix = bundle.load().get("GEN4").fix.split("`")
    provider.run(next(code for code in fix if code.startswith("printf ")))
    staged = provider.run("git diff --cached --name-only").split()
    assert staged == [".gitattributes", "a.sh"]
    assert provider.run("git ls-files --eol a.sh").startswith("i/lf")


def test_every_shell_that_names_the_interpreter_is_known_and_a_lost_venv_is_another_matter(says):
    for line in (
        "-bash: ./run.sh: /bin/bash^M: bad interpreter: No such file or directory",
        "zsh: ./run.sh: bad interpreter: /bin/bash^M: no such file or directory",
        "bash: ./run.sh: /bin/bash^M: 坏的解释器: 没有那个文件或目录",
    ):
        says("GEN4", line)
    with pytest.raises(AssertionError):
        says(
            "GEN4", "bash: ./pip: /old/venv/bin/python: bad interpreter: No such file or directory"
        )


def test_the_lasting_fix_joins_no_two_rules_and_stages_no_other_edit(provider):
    (provider.place / ".gitattributes").write_bytes(b"*.png binary")  # without a line end
    (provider.place / "train.py").write_bytes(b"done = 1\n")
    (provider.place / "a.sh").write_bytes(b"echo 1\r\n")
    provider.run("git init -q . && git -c core.autocrlf=false add .")
    provider.run("git -c user.email=a@b -c user.name=a commit -qm first")
    (provider.place / "train.py").write_bytes(b"half done\n")
    fix = bundle.load().get("GEN4").fix.split("`")
    provider.run(next(code for code in fix if code.startswith("printf ")))
    rules = (provider.place / ".gitattributes").read_text().split("\n")
    assert {"*.png binary", "*.sh text eol=lf"} <= set(rules)
    assert provider.run("git diff --cached --name-only").split() == [".gitattributes", "a.sh"]
