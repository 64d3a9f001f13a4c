"""The commands a user types: what they print, where, and with which exit code."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from remote_gpu_trainer.catalogue import bundle as catalogue
from remote_gpu_trainer.cli.main import COMMANDS, cli, leaves, main, root
from remote_gpu_trainer.lookup.advice import MOST_TITLES

from tests.conftest import ROOT
from tests.programs import parsed

LOGS = ROOT / "examples" / "logs"


def run(*args: str, stdin: bytes = b""):
    return subprocess.run(
        [sys.executable, "-m", "remote_gpu_trainer", *args],
        input=stdin,
        capture_output=True,
        timeout=60,
    )


def test_a_log_gets_its_entry_on_stdout_and_exit_0(capsys):
    assert main(["lookup", "--log", str(LOGS / "ddp-unused-parameters.log")]) == 0
    out, err = capsys.readouterr()
    assert "--id D8;" in out
    assert "ddp-unused-parameters.log:" in out
    assert "failed first" not in out  # both ranks raised the same
    assert err == ""


def test_nothing_fits_is_said_with_exit_1(capsys):
    assert main(["lookup", "how do I center a div in css"]) == 1
    assert "Nothing in the catalogue fits." in capsys.readouterr().out


@pytest.mark.parametrize("args", [["-"], ["--log", "-"]])
def test_standard_input_is_read_for_a_dash(args):
    done = run("lookup", *args, stdin=b"RuntimeError: element 0 of tensors does not require grad\n")
    assert done.returncode == 0
    assert b"lookup --id O3;" in done.stdout


def test_json_is_the_object_of_the_tool(capsys):
    assert main(["lookup", "--json", "--limit", "2", "CUDA out of memory"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"matches", "evidence", "first_failure", "ask", "also", "decision"}
    assert found["decision"]["do"] == "fix_first"
    assert len(found["matches"]) == 2


def test_an_id_prints_the_whole_entry(capsys):
    assert main(["lookup", "--id", "O7"]) == 0
    assert capsys.readouterr().out.startswith("### O7 — ")
    assert main(["lookup", "--id", "o7", "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert whole["id"] == "O7" and {"domain", "retry"} <= set(whole)


def test_a_retired_id_prints_its_successor_and_says_so(capsys):
    successor = catalogue.load().get("LOC6")
    assert main(["lookup", "--id", "LOC6"]) == 0
    assert capsys.readouterr().out == "### LOC6 → GEN4\n\n" + successor.markdown
    assert main(["lookup", "--id", "loc6", "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert (whole["retired"], whole["id"]) == ("LOC6", "GEN4")


def test_a_file_of_versions_marks_what_is_about_others(tmp_path, capsys):
    (tmp_path / "freeze.txt").write_text("torch==2.13.0\n")
    assert main(["lookup", "--installed", str(tmp_path / "freeze.txt"), "loss stays at 0.693"]) == 0
    assert main(["lookup", "--installed", str(tmp_path / "gone.txt"), "loss"]) == 2
    assert (
        "gone.txt (No such file or directory); pass 'pip freeze' text, requirements.txt, uv.lock"
        in capsys.readouterr().err
    )


BAD = {
    "no question": (
        ["lookup"],
        b"",
        "error: nothing to look up; pass a text, --log PATH, or - for standard input",
    ),
    "two questions": (
        ["lookup", "x", "--id", "O3"],
        b"",
        "error: a text and --id can't be combined; pass --id alone",
    ),
    "a log and a dash": (
        ["lookup", "-", "--log", "x"],
        b"",
        "error: - and --log can't be combined; pass one of them",
    ),
    "empty text": (
        ["lookup", ""],
        b"",
        "nothing but blanks in text; pass an error, a log or a sentence",
    ),
    "blank text": (["lookup", " \n\t "], b"", "nothing but blanks in text"),
    "empty input": (["lookup", "-"], b"", "nothing but blanks in stdin"),
    "blank input": (["lookup", "-"], b"  \n\n", "nothing but blanks in stdin"),
    "binary input": (["lookup", "-"], b"\x00\x01\x02" * 500, "control characters in stdin"),
    "missing file": (
        ["lookup", "--log", "/nowhere/train.log"],
        b"",
        "no log at /nowhere/train.log",
    ),
    "device": (
        ["lookup", "--log", "/dev/null"],
        b"",
        "/dev/null is a device; pass a log file or a folder of logs",
    ),
    "limit 0": (
        ["lookup", "--limit", "0", "x"],
        b"",
        "can't use limit 0; give a whole number from 1 to 10",
    ),
    "limit 1000": (
        ["lookup", "--limit", "1000", "x"],
        b"",
        "can't use limit 1000; give a whole number from 1 to 10",
    ),
    "unknown id": (
        ["lookup", "--id", "Z99"],
        b"",
        "no entry 'Z99'; the families are AD, AWS, ",
    ),
    "lint of nothing": (
        ["dev", "lint", "/nowhere"],
        b"",
        "error: no references/ in /nowhere; pass the folder that holds the catalogue",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_line_and_exit_2(name):
    args, stdin, said = BAD[name]
    done = run(*args, stdin=stdin)
    err = done.stderr.decode()
    assert done.returncode == 2
    assert said in err and err.startswith("error: ")
    assert err.count("\n") == 1 and "Traceback" not in err
    assert done.stdout == b""


WRONG = {
    "a word for a number": (
        ["lookup", "--limit", "three", "x"],
        "invalid value for '--limit': 'three' is not a valid integer; run 'remote-gpu-trainer lookup --help'",
    ),
    "an unknown option": (
        ["lookup", "--foo"],
        "no such option '--foo'; run 'remote-gpu-trainer lookup --help'",
    ),
    "a near option": (
        ["render", "--profil", "x", "--jsn"],
        "no such option '--jsn'; did you mean --json?",
    ),
    "an unknown command": (["xyzzy"], "unknown command 'xyzzy'; run 'remote-gpu-trainer --help'"),
    "a near command": (["lokup", "x"], "unknown command 'lokup'; did you mean lookup?"),
    "a near command for maintainers": (["dev", "lnt"], "unknown command 'lnt'; did you mean lint?"),
    "no box": (
        ["status"],
        "missing argument 'BOX'; run 'remote-gpu-trainer status --help'",
    ),
    "two forms": (
        ["lookup", "x", "--full", "--json"],
        "--full and --json can't be combined; run 'remote-gpu-trainer lookup --help'",
    ),
    "no command for maintainers": (["dev"], "missing command; run 'remote-gpu-trainer dev --help'"),
    "an option without its value": (
        ["render", "job.yaml", "--set"],
        "option '--set' requires a value; run 'remote-gpu-trainer render --help'",
    ),
    "an option for a value": (
        ["lookup", "--log", "--json"],
        "option '--log' requires a value; run 'remote-gpu-trainer lookup --help'",
    ),
    "a value for a flag": (
        ["lookup", "--json=1", "x"],
        "option '--json' does not take a value; run 'remote-gpu-trainer lookup --help'",
    ),
    "an option cut too short": (
        ["lookup", "--l", "1"],
        "ambiguous option '--l': it could be --log or --limit; run 'remote-gpu-trainer lookup --help'",
    ),
    "a word too many": (
        ["status", "local", "x"],
        "got unexpected extra argument (x); run 'remote-gpu-trainer status --help'",
    ),
    "a span that is none": (
        ["status", "local", "--max", "5x"],
        "invalid value for '--max': '5x' isn't a duration; write 30s, 90m or 8h; run 'remote-gpu-trainer status --help'",
    ),
    "a near client": (
        ["install", "--client", "codx"],
        "invalid value for '--client': 'codx' is not one of 'claude-code', 'opencode', 'codex', 'gemini', 'cursor', 'skill'; did you mean codex?",
    ),
    "a client that is near none": (
        ["install", "--client", "zzzzz"],
        "'skill'; run 'remote-gpu-trainer install --help'",
    ),
    "a near kind": (["fit", "--optimizer", "adam"], "'muon'; did you mean adamw?"),
    "two good logs": (
        ["lookup", "--good", "a", "--goo=b"],
        "--good is given twice, and takes one value; run 'remote-gpu-trainer lookup --help'",
    ),
    "a near shell": (["completion", "bsh"], "'fish'; did you mean bash?"),
    "an option of a command for maintainers": (
        ["dev", "lint", "--nope"],
        "no such option '--nope'; run 'remote-gpu-trainer dev lint --help'",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage_is_one_line_with_a_hint_and_exit_2(case, capsys):
    args, said = WRONG[case]
    with pytest.raises(SystemExit) as ended:
        main(args)
    out, err = capsys.readouterr()
    assert ended.value.code == 2
    assert err.startswith("error: ") and err.endswith(f"{said}\n") and err.count("\n") == 1
    assert (json.loads(out) == {"error": err[7:-1]}) if "--json" in args else out == ""


READ = {
    "an option cut short": (["lookup", "--lim", "2", "x"], {"limit": 2}),
    "an option cut short, with its value": (["lookup", "--lim=2", "x"], {"limit": 2}),
    "options behind the words": (
        ["lookup", "a", "--json", "b"],
        {"text": ("a", "b"), "as_json": True},
    ),
    "a pasted error of a shell": (
        ["lookup", "-bash: torchrun: command not found"],
        {"text": ("-bash: torchrun: command not found",)},
    ),
    "a pasted line of dashes": (
        ["lookup", "--- Logging error ---"],
        {"text": ("--- Logging error ---",)},
    ),
    "a negative number": (["lookup", "loss", "-1.5"], {"text": ("loss", "-1.5")}),
    "a negative value": (["lookup", "--limit", "-1", "x"], {"limit": -1}),
    "words that look like options": (["lookup", "--", "--foo"], {"text": ("--foo",)}),
    "a dash": (["lookup", "-"], {"text": ("-",)}),
    "a value with a dash and a blank": (
        ["install", "--client", "codex", "--command", "-x y"],
        {"serve_command": "-x y"},
    ),
    "a value joined to a short option": (["health", "-opage.html"], {"output": Path("page.html")}),
    "a program with options": (
        ["probe", "--steps", "3", "--", "a.py", "--steps", "5", "--", "-x"],
        {"steps": 3, "program": ("a.py", "--steps", "5", "--", "-x")},
    ),
    "a program without the two dashes": (
        ["probe", "python", "a.py", "--json", "x"],
        {"json_file": None, "program": ("python", "a.py", "--json", "x")},
    ),
    "an option given twice": (
        ["render", "--set", "a=1", "--set", "b=2"],
        {"fields": ("a=1", "b=2")},
    ),
}


@pytest.mark.parametrize("case", READ)
def test_arguments_are_read_as_people_type_them(case):
    words, values = READ[case]
    assert parsed(words).params.items() >= values.items()


def test_the_version_may_be_cut_short_too(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--vers"])
    assert ended.value.code == 0 and re.fullmatch(r"\d+\.\d+\.\d+\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["profile", "runpd"], "unknown profile 'runpd'; did you mean runpod? "),
        (["render", "--set", "name=a", "--set", "command=a", "--set", "deadline=1h", "--target", "kubernets"], "error: target: unknown target 'kubernets'; did you mean kubernetes?\n"),
        (["release", "local", "--profile", "vastia"], "unknown profile 'vastia'; did you mean vastai? "),
        (["fit", "--layers", "2", "--hidden", "64", "--heads", "2", "--intermediate", "128", "--vocabulary", "100", "--gpu", "h10O"], "unknown GPU 'h10O'; did you mean H100? "),
        (["fit", "--layers", "2", "--hidden", "64", "--heads", "2", "--intermediate", "128", "--vocabulary", "100", "--gpu", "zzz"], "unknown GPU 'zzz'; give its memory in GiB, or one of B200, "),
    ],
    ids=["a platform", "a target", "a platform of a box", "a card", "a card that is near none"],
)  # fmt: skip
def test_a_misspelt_name_gets_the_one_that_was_meant(args, hint, capsys):
    assert main(args) == 2
    assert hint in capsys.readouterr().err


def test_no_command_prints_the_help_on_stderr_and_exits_2(capsys):
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("Usage: ") and "lookup" in err


def test_hints_name_the_program_as_it_was_called(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/rgt"])
    with pytest.raises(SystemExit):
        main(["lookup", "--foo"])
    assert "run 'rgt lookup --help'" in capsys.readouterr().err
    main(["lookup", "loss is nan"])
    assert "    rgt lookup --id " in capsys.readouterr().out


def test_an_unreadable_file_is_said_so(tmp_path, monkeypatch, capsys):
    (tmp_path / "a.log").write_text("x")

    opened = open

    def refuse(path, *more, **options):  # root may read everything, so the refusal is played
        if str(path).endswith("a.log"):
            raise PermissionError(13, "Permission denied")
        return opened(path, *more, **options)

    monkeypatch.setattr("builtins.open", refuse)
    assert main(["lookup", "--log", str(tmp_path / "a.log")]) == 2
    assert (
        "can't be read (Permission denied); pass a log that this user may read"
        in capsys.readouterr().err
    )


def test_a_broken_page_is_a_finding_of_lint_and_no_traceback(tmp_path, capsys):
    (tmp_path / "references").mkdir()
    (tmp_path / "references" / "a.md").write_text("### O3 — broken\n\n```\n**Symptom:** x\n")
    assert main(["dev", "lint", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert "references/a.md:1: " in out
    assert err == f"0 entries, {out.count(chr(10))} findings\n"


def test_ctrl_c_exits_130_and_prints_no_traceback(monkeypatch, capsys):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("remote_gpu_trainer.cli.main.run", interrupt)
    assert main(["status", "gpu", "--wait"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_reader_that_goes_away_is_no_error():
    command = f"{sys.executable} -m remote_gpu_trainer lookup --id O1 | head -c 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True)
    assert b"Traceback" not in done.stderr


def test_a_look_up_starts_without_the_heavy_libraries():
    program = (
        "import sys; from remote_gpu_trainer.cli.main import main; main(['lookup', 'loss stays at 0.693']);"
        "heavy = ('mcp', 'pydantic', 'yaml', 'packaging', 'rich', 'jinja2', 'click.shell_completion');"
        "print([m for m in heavy if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.strip() == "[]"


def test_every_command_has_a_help_that_says_something(capsys):
    for name, ctx in leaves().items():
        assert name in ctx.get_help() and ctx.command.help
        assert all(param.help for param in ctx.command.get_params(ctx))


def test_help_lists_the_commands_of_users_first_and_dev_at_the_end(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    listed = re.findall(r"^  ([a-z]+)  ", capsys.readouterr().out, re.M)
    users = (
        "init lookup render start stop resume rehearse staleness fit health probe status runs purse guard drill sweep logs pull ssh snapshot release profile install uninstall "
        "serve"
    )
    assert listed == [*users.split(), "completion", "dev"]


def test_each_command_is_in_the_module_that_the_table_names():
    for name, listed in COMMANDS.items():
        command = cli.get_command(root(), name)
        assert command.name == name and command.callback.__module__.endswith(
            f".cli.{listed.module}"
        )
    assert cli.list_commands(root()) == list(COMMANDS)


def test_a_command_for_maintainers_has_one_name(capsys):
    with pytest.raises(SystemExit):
        main(["lint"])
    assert "unknown command 'lint'" in capsys.readouterr().err


def test_a_text_that_names_a_file_is_read_as_its_log(capsys, monkeypatch):
    monkeypatch.chdir(LOGS)
    assert main(["lookup", "ddp-unused-parameters.log"]) == 0
    out, err = capsys.readouterr()
    assert "--id D8;" in out
    name = "ddp-unused-parameters.log"
    assert err == f"reading the file {name}, as with --log {name}\n"


def test_a_folder_is_read_when_it_is_written_as_a_path_and_a_word_stays_a_word(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nan").mkdir()
    assert main(["lookup", "nan"]) in (0, 1)
    assert capsys.readouterr().err == ""
    assert main(["lookup", "nan/"]) == 2
    assert "as with --log nan/" in capsys.readouterr().err


@pytest.mark.parametrize("word", [
    "nosuch.log", "slurm-12.out", "train.log.1", "a.err.gz", "logs/rank_0", "./logs", "/no/such/log", "~/no/such",
])  # fmt: skip
def test_of_one_word_that_was_meant_as_a_file_it_is_said_that_there_is_none(
    word, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    if word == "./logs":
        (tmp_path / "logs").rmdir()
    assert main(["lookup", word]) in (0, 1)
    assert capsys.readouterr().err == f"no file {word} here; it is looked up as a text\n"


def test_a_log_on_a_box_needs_its_option(capsys):
    assert main(["lookup", "gpu:runs/toy/train.log"]) in (0, 1)
    assert "here; pass --log gpu:runs/toy/train.log for one there; it" in capsys.readouterr().err


@pytest.mark.parametrize("word", [
    "train.py", "I/O", "nan/inf", "cudaErrorNoDevice", "https://example.org/a.log", "loss=nan", "train.log is empty",
    "torch/nn/modules/module.py", "/bin/sh: 1: torchrun: not found",
])  # fmt: skip
def test_a_word_of_an_error_stays_a_text(word, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["lookup", word]) in (0, 1)
    assert capsys.readouterr().err == ""


def test_words_without_quotes_are_one_sentence(capsys):
    main(["lookup", "loss", "is", "nan"])
    apart = capsys.readouterr().out
    main(["lookup", "loss is nan"])
    assert capsys.readouterr().out == apart


@pytest.mark.parametrize(
    "args", [["--log", "a.log", "b.log"], ["--log", "a.log", "b.log", "c.log"], ["a.log", "b.log"]]
)
def test_two_logs_are_refused_with_what_to_do(args, tmp_path, monkeypatch, capsys):
    for name in "abc":
        (tmp_path / f"{name}.log").write_text("loss is nan\n")
    monkeypatch.chdir(tmp_path)
    assert main(["lookup", *args]) == 2
    err = capsys.readouterr().err
    assert "files are read by --log; pass --log for each file of one run, or the folder" in err
    assert err.count("\n") == 1


def test_output_and_errors_of_one_run_are_read_together(tmp_path, capsys):
    (tmp_path / "run.out").write_text("step 1 loss 2.0\nstep 2 loss 1.9\n")
    (tmp_path / "run.err").write_text("torch.OutOfMemoryError: CUDA out of memory.\n")
    main(["lookup", "--log", str(tmp_path / "run.out"), "--log", str(tmp_path / "run.err")])
    told = capsys.readouterr().out
    assert "--id U10;" in told and "run.err:1: " in told and "2 files" in told


def test_what_is_piped_in_is_read_without_a_dash():
    text = b"RuntimeError: element 0 of tensors does not require grad\n"
    assert b"lookup --id O3;" in run("lookup", stdin=text).stdout
    done = run("lookup", "--json", stdin=text)
    assert json.loads(done.stdout)["matches"][0]["id"] == "O3" and done.stderr == b""


def test_full_prints_cause_fix_and_check_of_the_first_match_as_in_its_entry(capsys):
    entry = catalogue.load().by_id["D8"]
    assert main(["lookup", "--full", "--log", str(LOGS / "ddp-unused-parameters.log")]) == 0
    words = " ".join(capsys.readouterr().out.split())
    for field in (entry.root_cause, entry.fix, entry.check):
        assert " ".join(field.split()) in words


def test_brief_is_what_to_do_and_titles_with_their_ids(capsys):
    assert main(["lookup", "--brief", "CUDA out of memory"]) == 0
    lead, *lines = capsys.readouterr().out.splitlines()
    entries = catalogue.load().by_id
    assert lead.startswith("Halve ") and lead.endswith("it needs less memory, or a larger card.")
    for line in lines:
        title, _, id = line.strip().removesuffix(")").partition("  (--id ")
        assert title == entries[id].title.replace("`", "")


def test_titles_alone_end_with_exit_code_1(capsys):
    assert main(["lookup", "hang at the end of the epoch on all gpus\nno message"]) == 1
    assert capsys.readouterr().out.count("--id ") == MOST_TITLES
    assert main(["lookup", "--brief", "hello"]) == 1
    assert capsys.readouterr().out.startswith("Nothing in the catalogue fits.")
