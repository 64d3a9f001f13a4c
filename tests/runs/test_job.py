"""What a job may say, how it is read, and the lines that a wrong one gets."""

import json
import re
import time
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_gpu_trainer.platforms import profile
from remote_gpu_trainer.runs.cells import expand, read_queue
from remote_gpu_trainer.runs.job import Job
from remote_gpu_trainer.runs.job_errors import JobError
from remote_gpu_trainer.runs.job_reading import (
    from_file,
    from_object,
    from_text,
    with_options,
    with_queue,
)
from remote_gpu_trainer.runs.job_values import MOST_BYTES
from remote_gpu_trainer.runs.launch_risks import warnings
from remote_gpu_trainer.runs.written import Written

LEAST = {"name": "sft", "command": ["python", "train.py"], "deadline": "20h"}


def refusal(**fields) -> str:
    with pytest.raises(JobError) as caught:
        from_object({**LEAST, **fields})
    return str(caught.value)


@pytest.mark.parametrize(
    "said, meant",
    [
        ("20h", "hours:20"),
        ("90m", "hours:1.5"),
        ("2d", "hours:48"),
        ("1.5h", "hours:1.5"),
        ("2026-11-22T09:00+00:00", "at:1795338000"),
        ("2026-11-22T09:00Z", "at:1795338000"),
        ("2026-11-22T10:00+01:00", "at:1795338000"),
    ],
)
def test_a_deadline_is_a_span_or_a_time_with_its_zone(said, meant):
    assert from_object({**LEAST, "deadline": said}).deadline == meant


def test_every_span_of_minutes_is_one_that_the_runner_reads():
    for minutes in range(1, 241):
        told = from_object({**LEAST, "deadline": f"{minutes}m"}).deadline
        assert (
            re.fullmatch(r"hours:[0-9]+(\.[0-9]{1,6})?", told)
            and abs(float(told[6:]) * 60 - minutes) < 1e-4
        )
    assert from_object({**LEAST, "deadline": "hours:0.1666666667"}).deadline == "hours:0.166667"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WANDB_API_KEY", "0123456789abcdef0123456789abcdef01234567"),
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMIK7MDENG"),
        ("DB_PASSWORD", "correct horse"),
        ("ANY", "rpa_ABCDEFGHIJKLMNOPQRSTUV"),
        ("ANY", "nvapi-ABCDEFGHIJKLMNOPQRSTUV"),
        ("ANY", "github_pat_11ABCDEFG0123456789_abc"),
        ("ANY", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.sig"),
        ("ANY", "xoxs-1234567890-abcdef"),
        ("ANY", "ASIAABCDEFGHIJKLMNOP"),
        ("ANY", "https://acct.blob.core.windows.net/c/x?sv=2022&sig=abcDEF1234567890xyz%3D"),
        ("ENCRYPTION_KEY", "correct horse"),
        ("KAGGLE_KEY", "0123456789abcdef0123456789abcdef"),
    ],
)
def test_a_key_by_value_is_refused_and_not_repeated(name, value):
    said = refusal(variables={name: value})
    assert "`secrets`" in said and value not in said


@pytest.mark.parametrize("name", ["UID", "SECONDS", "RANDOM", "PWD", "_", "BASH_ENV"])
def test_a_variable_that_bash_sets_itself_is_refused(name):
    assert f"bash sets {name} itself" in refusal(variables={name: "v77"})


def test_words_about_tokens_are_no_keys():
    told = {
        "TOKENIZERS_PARALLELISM": "false",
        "PAD_TOKEN": "<|endoftext|>",
        "MAX_NEW_TOKENS": "512000",
        "SORT_KEY": "length",
        "HF_TOKEN": "",
    }
    assert (
        from_object(
            {
                **LEAST,
                "variables": told,
                "command": "python train.py --eos_token '<|im_end|>' --commit 0123456789abcdef0123456789abcdef01234567",
            }
        ).variables
        == told
    )


@pytest.mark.parametrize(
    "said", ["20", "tomorrow", "2026-11-22T09:00", "", "0h", "9999h", None, [], "20h; rm -rf /"]
)
def test_any_other_deadline_is_refused(said):
    assert re.match(r"deadline: (is|must be) .*; write deadline: .*\d", refusal(deadline=said))


def test_a_job_without_a_deadline_is_refused():
    with pytest.raises(JobError, match="^deadline: missing; write deadline: 20h$"):
        from_object({"name": "sft", "command": "python train.py"})


@pytest.mark.parametrize(
    "fields, said",
    [
        ({"name": "-x"}, "name: must be 1 to 50 of a-z, 0-9 and '-'"),
        ({"name": "x\n"}, "name: must be 1 to 50 of a-z, 0-9 and '-'"),
        ({"command": []}, "command: is empty, so there is nothing to run; write command: [python, train.py]"),
        ({"command": "train.py", "launcher": "torchrun"}, "command: torchrun can't start one line; write a list of arguments"),
        ({"launcher": "deepspeed", "nodes": 2}, "launcher: deepspeed can't start several nodes; use torchrun"),
        ({"nodes": 2}, "launcher: several nodes need one; use torchrun, accelerate or slurm-tasks"),
        ({"launcher": "torchrun", "save_signal": "USR1"}, "save_signal: torchrun doesn't forward USR1; use TERM"),
        ({"variables": {"RGT_NAME": "x"}}, "names that begin with RGT_ belong to the runner; use another name"),
        ({"variables": {"a b": "x"}}, "variables"),
        ({"run_dir": "~/runs/$(id)"}, "run_dir: must be a folder below ~/ or /, of letters, digits and ._-/; write run_dir: /workspace/runs/finetune"),
        ({"run_dir": "runs"}, "run_dir: must be a folder below ~/ or /, of letters, digits and ._-/; write run_dir: /workspace/runs/finetune"),
        ({"comand": "x"}, "comand: unknown field; write command in place of comand"),
        ({"environment_variables": {}}, "environment_variables: unknown field; write variables: {WANDB_PROJECT: lora}"),
        ({"env": {}}, "env: unknown field; write variables: {WANDB_PROJECT: lora}"),
        ({"environment": {"A": "b"}}, "environment: is an object with fields, and must be a text; variables sets those of the program; write environment: requirements.txt"),
        ({"secrets": {"A": {}}}, "secrets.A: give exactly one of file and variable"),
        ({"command": ["a", "b\0"]}, "command.1: has a NUL character"),
        ({"command": ["a", "\ud800"]}, "command.1: has characters that UTF-8 can't encode"),
        ({"durable": {"to": "/k\nx", "what": ["a"]}}, "durable.to: has a line break or a control character"),
        ({"durable": {"to": "S3://b/x", "what": ["a"]}}, "durable.to: S3:// is no kind of place; write s3://b/x"),
        ({"durable": {"to": "az://a/b", "what": ["a"]}}, "az:// is no kind of place; write rclone:REMOTE:a/b"),
        ({"durable": {"to": "file:///k", "what": ["a"]}}, "file:// is no kind of place; write /k"),
        ({"durable": {"to": "ssh://h/k", "what": ["a"]}}, "ssh:// is no kind of place; write [user@]host:path"),
        ({"data": [{"from": "hf://a/b", "to": "x"}]}, "hf:// is no kind of place; write rclone:REMOTE:a/b"),
        ({"checkpoint": {"folder": "a\tb"}}, "checkpoint.folder: has a line break or a control character"),
        ({"retries": {"meteor": 2}}, "retries.meteor"),
        ({"queue": {"cells": [{"name": "a"}, {"name": "a"}]}}, "queue: two cells are called 'a'; give each its own name"),
        ({"variables": {f"V{n}": "x" * 90_000 for n in range(8)}}, "put long values into files of the code"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused_by_the_name_of_its_field(fields, said):
    assert said in refusal(**fields)


def test_a_value_that_is_too_long_is_refused_and_one_that_fits_is_taken():
    assert from_object({**LEAST, "command": ["x" * MOST_BYTES]}).command == ["x" * MOST_BYTES]
    assert f"command.1: {MOST_BYTES + 1:,} bytes are more than {MOST_BYTES:,}" in refusal(
        command=["a", "x" * (MOST_BYTES + 1)]
    )


@pytest.mark.parametrize(
    "token",
    [
        "hf_" + "a" * 30,
        "sk-" + "b" * 40,
        "ghp_" + "c" * 36,
        "AKIA" + "D" * 16,
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "dckr_pat_" + "e4f5" * 4,
        "xoxe-" + "1a2b" * 6,
    ],
)
def test_a_key_in_place_of_its_name_is_refused_and_never_repeated(token):
    for field in ("file", "variable"):
        message = refusal(secrets={"HF_TOKEN": {field: token}})
        assert "secrets.HF_TOKEN" in message and token not in message
    message = refusal(variables={"HF_TOKEN": token}, command=["train.py", f"--token={token}"])
    assert (
        message.count("put it into a file or variable of the box, and name that under `secrets`")
        == 2
        and token not in message
    )


def test_no_message_repeats_a_value(tmp_path):
    secret = "correct horse battery staple"
    message = refusal(
        command=[secret, 1.5, None],
        variables={"A": [secret]},
        durable=secret,
        comand=secret,
        secrets={"S": secret},
    )
    assert secret not in message and message.count("\n") >= 4


def test_numbers_in_a_command_become_text_and_truth_values_do_not():
    assert from_object({**LEAST, "command": ["a", 8, 0.0001]}).command == ["a", "8", "0.0001"]
    assert "command" in refusal(command=["a", True])


def test_yaml_json_and_options_give_the_same_job(tmp_path):
    (tmp_path / "job.yaml").write_text(
        "name: sft\ncommand: [python, train.py]\ndeadline: 20h\ncheckpoint: {folder: out}\n"
    )
    (tmp_path / "job.json").write_text(json.dumps({**LEAST, "checkpoint": {"folder": "out"}}))
    by_options = with_options(
        {}, ["name=sft", "command=[python, train.py]", "deadline=20h", "checkpoint.folder=out"]
    )
    jobs = [
        from_object(given)
        for given in (
            from_file(tmp_path / "job.yaml"),
            from_file(tmp_path / "job.json"),
            by_options,
        )
    ]
    assert jobs[0] == jobs[1] == jobs[2]
    assert (
        from_object(with_options(from_file(tmp_path / "job.yaml"), ["deadline=2h"])).deadline
        == "hours:2"
    )


@pytest.mark.parametrize(
    "name, text, said",
    [
        ("a.yaml", "name: a\nb: [", "a.yaml line 2, column 5: a bracket isn't closed; write "),
        ("a.json", "{", "a.json line 1, column 2: a name in double quotes is missing"),
        (
            "a.yaml",
            "- 1",
            "this is a list, and must be an object with fields; write fields such as name: sft, command: [",
        ),
        ("gone.yaml", None, "there is no such file; name a YAML or JSON file with a job"),
    ],
)
def test_a_file_that_holds_no_job_is_refused_with_its_name(tmp_path, name, text, said):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(JobError) as caught:
        from_file(tmp_path / name)
    assert said in str(caught.value) and name in str(caught.value)


def test_the_schema_names_every_field_and_tells_what_needs_telling():
    schema = Job.model_json_schema()
    assert schema["required"] == ["name", "command", "deadline"]
    assert set(schema["properties"]) == set(Job.model_fields) - {"timings"}
    assert "stop" in json.dumps(schema["properties"]["deadline"])


def test_a_queue_file_is_read_as_a_shell_would_and_run_by_none(tmp_path):
    text = "# two cells\nlr-1 --lr 1e-4 --note 'a b'\n\nodd \"$(touch x)\" \\; *\n"
    assert read_queue(text) == (
        [
            {"name": "lr-1", "arguments": ["--lr", "1e-4", "--note", "a b"]},
            {"name": "odd", "arguments": ["$(touch x)", ";", "*"]},
        ],
        [2, 4],
    )
    (tmp_path / "q.txt").write_text(text)
    assert [
        cell.name for cell in from_object(with_queue(LEAST, tmp_path / "q.txt", None)).queue.cells
    ] == ["lr-1", "odd"]
    with pytest.raises(JobError, match="^queue line 2: no closing quote; "):
        read_queue("a\nb 'c\n")
    assert read_queue("a 'two\nlines' x\nb 'U+2028 \u2028'\n") == (
        [
            {"name": "a", "arguments": ["two\nlines", "x"]},
            {"name": "b", "arguments": ["U+2028 \u2028"]},
        ],
        [1, 3],
    )
    with pytest.raises(JobError, match="it holds no cells; write one a line"):
        read_queue("# nothing\n")


def test_a_sweep_becomes_one_cell_a_combination_in_the_order_written():
    cells = expand(
        Written({"grid": {"--lr": [1e-4, 3e-4], "--seed": [1, 2]}, "arguments": ["--fast"]})
    )
    assert [cell["name"] for cell in cells] == [
        "lr=0.0001_seed=1",
        "lr=0.0001_seed=2",
        "lr=0.0003_seed=1",
        "lr=0.0003_seed=2",
    ]
    assert cells[3]["arguments"] == ["--fast", "--lr", "0.0003", "--seed", "2"]


@pytest.mark.parametrize(
    "sweep, said",
    [
        ({}, "^grid: must be an object with a list for each option; write grid: {--lr: "),
        ({"grid": {"a": []}}, r"^grid.a: must be a list of values; write a: \[1, 2\]$"),
        ({"grid": {"a": [1]}, "b": 1}, "^b: unknown field; a sweep has grid and arguments$"),
        ({"grid": {"a": [1]}, "arguments": 5}, "^arguments: must be a list of words; write "),
        (
            {"grid": {"a": [True]}},
            '^grid.a.0: is true, and must be a text or a number; write "true"$',
        ),
        (
            {"grid": {str(n): list(range(10)) for n in range(5)}},
            "^grid: makes more than 10,000 combinations; give fewer values$",
        ),
    ],
)
def test_a_sweep_that_cannot_be_expanded_is_refused(sweep, said):
    with pytest.raises(JobError, match=said):
        expand(Written(sweep))


@given(
    st.lists(
        st.one_of(st.text(max_size=12), st.integers(), st.floats(allow_nan=False)),
        min_size=1,
        max_size=6,
    )
)
def test_the_cells_of_any_sweep_have_names_that_a_job_takes(values):
    texts = [
        value
        for value in values
        if not isinstance(value, str) or ("\0" not in value and value.isprintable())
    ] or ["x"]
    cells = expand(Written({"grid": {"--odd name": texts}}))
    job = from_object({**LEAST, "queue": {"cells": cells}})
    assert [cell.arguments[1] for cell in job.queue.cells] == [str(value) for value in texts]


def test_a_job_that_names_no_end_is_warned_of():
    def warned(**fields) -> bool:
        job = from_object({**LEAST, **fields})
        found = warnings(job, profile.get("local"), "local", date(2026, 8, 25))
        return any("an early exit with 0 looks finished" in warning.text for warning in found)

    assert warned() and not warned(results=["out"]) and not warned(final_step=200)
    assert "final_step: " in refusal(final_step=0) and "on_nan: " in refusal(on_nan="perhaps")


@pytest.mark.parametrize("given, kept", [
    ("18:00Z", "clock:18:00+00:00"), ("6:05+02:00", "clock:06:05+02:00"), ("23:59-0730", "clock:23:59-07:30"),
    ("00:00+05:30", "clock:00:00+05:30"), ("clock:18:00+02:00", "clock:18:00+02:00"),
])  # fmt: skip
def test_a_deadline_can_be_the_next_such_time_of_day(given, kept):
    made = from_object({**LEAST, "deadline": given})
    assert (made.deadline, made.hours) == (kept, None)


@pytest.mark.parametrize(
    "given", ["18:00", 1080, "24:00Z", "18:60Z", "18:00+2", "18:00+25:00", "at six"]
)
def test_a_time_of_day_without_its_zone_is_refused(given):
    with pytest.raises(JobError, match=r"^deadline: .*; write deadline: .*\d"):
        from_object({**LEAST, "deadline": given})


def test_yaml_keeps_a_time_of_day_as_it_was_written(tmp_path):
    (tmp_path / "job.yaml").write_text(
        "name: sft\ncommand: [a, 1:30:00, 2:30.5, 8]\ndeadline: 18:00\n"
    )
    given = from_file(tmp_path / "job.yaml")
    for job in (given, with_options({**given, "deadline": "20h"}, ["deadline=18:00"])):
        with pytest.raises(JobError, match="deadline: is a time of day without its zone; write "):
            from_object(job)
    assert from_object({**given, "deadline": "2h"}).command == ["a", "1:30:00", "2:30.5", "8"]


def test_the_users_own_end_command_is_a_list_or_a_line():
    for command in (["provider", "stop", "$ID"], "provider stop $ID"):
        made = from_object({**LEAST, "at_end": {"do": "run", "command": command}})
        assert made.at_end.command == command
        assert made.at_end.when == ["done", "failed", "deadline"]


@pytest.mark.parametrize("given", [
    {"do": "run"}, {"do": "run", "command": []}, {"do": "run", "command": ""}, {"command": ["a"]}, {"do": "stop", "command": "a"},
])  # fmt: skip
def test_an_end_command_and_do_run_belong_together(given):
    with pytest.raises(JobError, match="do and command belong together; write"):
        from_object({**LEAST, "at_end": given})


@pytest.mark.parametrize("value", [
    "https://hooks.slack.com/services/T0000AAAA/B0000BBBB/abcdEFGHijklMNOP12345678", "https://user:pass@host/x",
    "ASIAABCDEFGHIJKLMNOP", "xoxe-1-abcdefghijk1234567",
])  # fmt: skip
@pytest.mark.parametrize("place", ["command", "notify", "end", "variable", "durable"])
def test_what_masking_hides_no_job_may_hold(place, value):
    more = {
        "command": {"command": ["a", value]},
        "notify": {"notify": ["curl", value]},
        "end": {"at_end": {"do": "run", "command": ["curl", value]}},
        "variable": {"variables": {"WHERE": value}},
        "durable": {"durable": {"to": value, "what": ["out"]}},
    }[place]
    with pytest.raises(JobError, match="secret") as refused:
        from_object({**LEAST, **more})
    assert value not in str(refused.value)


def test_an_option_and_the_key_behind_it_are_seen_together():
    words = ["train", "--wandb-key", "0123456789abcdef" * 2 + "01234567"]
    for more in ({"command": words}, {"notify": words}, {"rehearsal": {"arguments": words}}):
        with pytest.raises(JobError, match="looks like a key itself"):
            from_object({**LEAST, **more})


def test_only_known_waits_can_be_shortened():
    assert from_object({**LEAST, "timings": {"tick": 0.1}}).timings == {"tick": 0.1}
    with pytest.raises(JobError, match="timings: unknown wait 'tock'"):
        from_object({**LEAST, "timings": {"tock": 1}})


@pytest.mark.parametrize("text", ["2026-02-30", "0x_"])
def test_a_value_that_yaml_cannot_build_stays_a_text(text):
    assert with_options({}, [f"variables.A={text}"]) == {"variables": {"A": text}}


OK = {"name": "sft", "command": ["python", "train.py"], "deadline": "1h"}


@pytest.mark.parametrize(("fields", "said"), [
    ({"results": ["/"]}, "results.0: names no file or folder; write one such as out/final.pt"),
    ({"results": [" "]}, "results.0: names no file or folder; "),
    ({"checkpoint": {"folder": "out", "files": ["../optim.pt"]}}, "checkpoint.files.0: leads out of the folder; write a glob below it"),
    ({"results": ["../../etc/passwd"]}, "results.0: leads out of the code; write a path inside it"),
    ({"checkpoint": {"folder": "/"}}, "checkpoint.folder: names no file or folder; "),
    ({"checkpoint": "out"}, "is a text, and must be an object with fields; write checkpoint: {folder: out"),
    ({"gpus": "two"}, "gpus: is a text, and must be a whole number; write gpus: 8"),
    ({"gpus": True}, "gpus: is true, and must be a whole number; write gpus: 8"),
    ({"final_step": True}, "final_step: is true, and must be a whole number; write final_step: 6000"),
    ({"notify": "mail x"}, "notify: is a text, and must be a list; write notify: [curl, "),
    ({"command": 5}, "command: is the number 5, and must be a list of arguments or one line; write command: [python, train.py]"),
    ({"command": {"a": 1}}, "command: is an object with fields, and must be a text or a list; write command: [py"),
    ({"nodes": 0}, "nodes: is 0, and must be 1 or more; write nodes: 2"),
    ({"on_nan": "die"}, "on_nan: must be 'go-on' or 'stop'; "),
    ({"step_pattern": "(a+)+$["}, "step_pattern: isn't a regular expression of Python's: a '[' isn't closed at character 7 of 7; write "),
    ({"step_pattern": "(a+)+$"}, "step_pattern: has a repeat within a repeat, which may take "),
    ({"step_pattern": "x((ab)*c)+"}, "step_pattern: has a repeat within a repeat, which may take "),
    ({"command": ["word"] * 200_000}, "over 600,000; put long values into files of the code"),
])  # fmt: skip
def test_what_is_wrong_is_told_with_the_line_to_write(fields, said):
    began = time.monotonic()
    with pytest.raises(JobError) as error:
        from_object({**OK, **fields})
    assert said in str(error.value) and "Input should" not in str(error.value)
    assert len(str(error.value).splitlines()) == 1 and time.monotonic() - began < 10


@pytest.mark.parametrize("fields", [
    {"results": ["out/*.json", "/mnt/keep/final.pt", "~/out/{cell}/x"]},
    {"step_pattern": "(step [0-9]+)|iter(ation)? ([0-9]+)"},
    {"command": ["python", "train.py", "--lr", 1e-4]},
])  # fmt: skip
def test_what_is_right_is_taken(fields):
    assert from_object({**OK, **fields})


BOMB = "y0: &y0 [1, 1]\n" + "".join(f"y{n}: &y{n} [*y{n - 1}, *y{n - 1}]\n" for n in range(1, 25))


@pytest.mark.parametrize(("text", "said"), [
    ("a: &a [*a]", "job line 1, column 4: an anchor (&) holds itself by its alias (*); write the part out "),
    ("a: " + "[" * 5000, "lists and objects lie more than 30 deep in each other; close the brackets, or write it flat"),
    ('{"a": ' + "[" * 100_000, "lists and objects lie more than 30 deep in each other; close the brackets, or write it flat"),
    ("deadline: 1h\nname: x\ndeadline: 2h\n", "job line 3, column 1: 'deadline' stands in lines 1 and 3; leave one out"),
    ('{"deadline": "1h", "deadline": "2h"}', "job line 1: 'deadline' stands twice in line 1; leave one out"),
    ("a: " + "x" * 800_000, "a job of 800,003 bytes or more is over 600,000"),
    (BOMB, "over 600,000"),
])  # fmt: skip
def test_a_text_that_would_end_or_hold_up_the_reader_is_refused(text, said):
    with pytest.raises(JobError, match="^job") as error:
        from_text(text, "job")
    assert said in str(error.value)
