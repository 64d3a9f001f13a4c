"""The tools that act: a plan first, then its id alone, once, within ten minutes, with the user's word."""

import asyncio
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mcp import Client
from mcp_types import ElicitResult
from remote_gpu_trainer.boxes import box
from remote_gpu_trainer.cli.main import main
from remote_gpu_trainer.mcp_server import acts
from remote_gpu_trainer.mcp_server.server import make_server
from remote_gpu_trainer.runs import known_jobs, ledger

from tests.engines.fake_run import fake_run
from tests.engines.fake_ssh import fake_ssh
from tests.lookup.test_budget import counted, written
from tests.mcp_server.test_protocol import is_told

HOUR = 3600
TOOLS = ("start_run", "stop_run", "fetch_results")
READING = ("run_status", "lookup_symptom", "ask the user")
JOB = {
    "name": "toy",
    "command": ["python3", "train.py"],
    "gpus": 0,
    "deadline": "4h",
    "price": "2 USD",
    "budget": "100 USD",
    "rented": "now",
    "probe": False,
}


class Session:
    """Calls of an agent, and the commands that they began, which run nothing."""

    def __init__(self, place: Path, began: list[list[str]]):
        self.place, self.began = place, began

    def call(self, tool, mode="2026-07-28", user=None, allow=("gpu",), **arguments):
        async def use():
            more = {} if user is None else {"elicitation_callback": user}
            async with Client(make_server(allow), mode=mode, **more) as client:
                return await client.call_tool(tool, arguments)

        return asyncio.run(use())

    def told(self, tool, **arguments) -> dict:
        reply = self.call(tool, **arguments)
        assert not reply.is_error, reply.content[0].text
        assert json.loads(reply.content[0].text) == reply.structured_content
        return reply.structured_content

    def refused(self, tool, **arguments) -> str:
        reply = self.call(tool, **arguments)
        assert reply.is_error
        return reply.content[0].text


@pytest.fixture
def agent(tmp_path, monkeypatch):
    """A rented box `gpu` with a run `toy` that trains, and a job here."""
    place = fake_ssh(tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)
    fake_run(place / "gpu", deadline=time.time() + 10 * HOUR)
    (tmp_path / "job").mkdir()
    (tmp_path / "job/train.py").write_text("print('step 1')\n")
    (tmp_path / "job/job.json").write_text(json.dumps({**JOB, "name": "new"}))
    known_jobs.remember(box.Box("gpu", "gpu"), "~/runs/toy", "runpod", JOB)
    ledger.opened("gpu:22", "gpu", price=2, currency="USD", now=time.time() - 3 * HOUR)
    began = []
    popen = subprocess.Popen

    def begin(words, **how):
        if words[:3] != [sys.executable, "-m", "remote_gpu_trainer"]:
            return popen(words, **how)
        began.append(words[3:])
        return popen([sys.executable, "-c", "print('it said so')"], **how)

    monkeypatch.setattr(acts.subprocess, "Popen", begin)
    monkeypatch.setattr(acts, "WAITS", 20.0)
    return Session(place, began)


def ended(agent: Session) -> None:
    fake_run(agent.place / "gpu", phase="done", alive=False, exit=0)


def test_they_exist_only_with_allowed_boxes_and_keep_to_their_tokens(agent):
    async def listed(allow):
        async with Client(make_server(allow), mode="2026-07-28") as client:
            return (await client.list_tools()).tools

    plain, acting = asyncio.run(listed(())), asyncio.run(listed(("gpu",)))
    assert [tool.name for tool in acting[len(plain) :]] == list(TOOLS) and len(acting) == 9
    for tool in acting[-3:]:
        assert not tool.annotations.read_only_hint and tool.annotations.destructive_hint
        assert "consent" not in tool.input_schema["properties"]
    wire = [tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in acting]
    (count,) = counted([written({"tools": wire})])
    assert count <= 2500 and is_told("three more, about {} tokens in all", count)


def test_never_over_http(capsys):
    assert main(["serve", "--http", "--allow-runs", "gpu"]) == 2
    assert "--allow-runs can't be used with --http" in capsys.readouterr().err
    assert main(["serve", "--allow-runs", "gpu;id"]) == 2


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("name", ["other", "gpu ", "root@gpu", "local", None])
def test_no_other_box_is_touched(agent, tool, name):
    said = agent.refused(tool, box=name, run="toy")
    assert "isn't among those that the user allowed: gpu" in said and not agent.began
    told = agent.call(tool, box=name, run="toy").structured_content
    assert told["billed"][0]["box"] == "gpu" and "next" not in told


def test_a_start_is_shown_whole_and_done_once_by_its_id(agent):
    asked = {"box": "gpu", "job": "job/job.json", "platform": "runpod"}
    told = agent.told("start_run", **asked)
    plan = told["plan"]
    path = Path("job/job.json").resolve()
    assert plan["command"] == f"rgt start gpu {path} --profile runpod"
    assert plan["box"] == "gpu" and plan["runs there"] == "python3 train.py"
    assert plan["sends_bytes"] > 10_000 and plan["worst_cost"].startswith("8.00 USD from now on")
    assert plan["end_command"].startswith("none: the box stays on")
    assert told["next"] == "ask the user" and not agent.began
    assert told["billing"].startswith("the box is still billed: gpu, 3.0 h, about 6.0")
    assert [row["box"] for row in told["billed"]] == ["gpu"], "and what else may be billed"
    refused = agent.refused("start_run", plan=plan["id"], box="gpu")
    assert "plan: is passed alone" in refused and not agent.began
    assert "no such id" in agent.refused("start_run", plan="0" * 12)
    done = agent.told("start_run", plan=plan["id"])
    assert agent.began == [["start", "gpu", str(path), "--profile", "runpod"]]
    assert done["done"] is True and done["next"] == "run_status"
    assert done["quoted"] == ["it said so"]
    again = agent.told("start_run", plan=plan["id"])
    assert again["quoted"] == ["it said so"] and len(agent.began) == 1, "told, not done again"


def test_a_stop_a_fetch_a_rehearsal_and_a_resume_are_the_users_commands(agent):
    fake_run(agent.place / "gpu", "strange", deadline=time.time() + HOUR)
    assert "wasn't started from here" in agent.refused("stop_run", box="gpu")
    shutil.rmtree(agent.place / "gpu/runs/strange")
    plan = agent.told("stop_run", box="gpu")["plan"]
    assert plan["command"] == "rgt stop gpu --run=toy"
    agent.told("stop_run", plan=plan["id"])
    ended(agent)
    told = agent.told("fetch_results", box="gpu", run="toy")
    assert told["plan"]["folder_bytes"] > 0 and "is still billed" in told["billing"]
    done = agent.call("fetch_results", plan=told["plan"]["id"])
    assert done.content[0].text.startswith('{"billing":"the box is still billed: gpu')
    asked = {"box": "gpu", "job": "job/job.json", "rehearse": True}
    agent.told("start_run", plan=agent.told("start_run", **asked)["plan"]["id"])
    fake_run(agent.place / "gpu", phase="failed", alive=False, exit=1)
    resumed = agent.told("start_run", box="gpu", run="toy")["plan"]
    agent.told("start_run", plan=resumed["id"])
    path = str(Path("job/job.json").resolve())
    assert [words[0] for words in agent.began] == ["stop", "release", "rehearse", "resume"]
    assert agent.began[2] == ["rehearse", path, "--on", "gpu"]
    assert agent.began[1] == ["release", "gpu", "--run=toy"]


def test_a_box_of_which_nobody_knows_whether_it_is_rented_may_be_billed(agent):
    ended(agent)
    job = {key: value for key, value in JOB.items() if key not in ("price", "budget", "rented")}
    for profile, told in (("generic-ssh", "may still be"), ("runpod", "is still")):
        ledger.gone("gpu:22", "gpu", "")
        ledger.opened("gpu:22", "gpu")
        known_jobs.remember(box.Box("gpu", "gpu"), "~/runs/toy", profile, job)
        said = agent.told("fetch_results", box="gpu", run="toy")["billing"]
        assert said.startswith(f"the box {told} billed: gpu, ")
    ledger.gone("gpu:22", "gpu", "")
    said = agent.told("fetch_results", box="gpu", run="toy")["billing"]
    assert said.startswith("whether gpu is billed isn't known here")


def test_what_a_fetch_would_leave_is_named_before_and_after_and_comes_by_its_path(
    agent, monkeypatch
):
    rows = [["/home/u/scratch/best.pkl", 2_000_000], ["/home/u/out", 5]]
    fake_run(agent.place / "gpu", phase="done", alive=False, exit=0, saved_elsewhere=rows)
    asked = {"box": "gpu", "run": "toy"}
    told = agent.told("fetch_results", **asked)
    assert told["quoted"] == ["/home/u/scratch/best.pkl", "/home/u/out"]
    assert told["plan"]["leaves"].startswith("2 ") and "keep the box" in told["plan"]["leaves"]
    assert told["next"] == "ask the user", "whatever the log says"
    assert "best.pkl" not in json.dumps(told["plan"]), "what the box says is no part of the plan"
    lines = agent.told("run_status", **asked)["lines"]
    assert any(
        line.startswith("saved elsewhere, by its log: /home/u/out (5 bytes)") for line in lines
    )
    more = agent.told("fetch_results", also="/home/u/scratch/\n/home/u/out", **asked)
    words = "rgt release gpu --run=toy --also=/home/u/scratch/ --also=/home/u/out"
    assert more["plan"]["command"] == words and "quoted" not in more
    assert more["plan"]["brings_also"] == ["/home/u/scratch/", "/home/u/out"]
    assert more["next"] == "ask the user"
    popen, fails = acts.subprocess.Popen, "raise SystemExit(1)"

    def fail(words, **how):
        acting = words[:3] == [sys.executable, "-m", "remote_gpu_trainer"]
        return popen(words[:1] + ["-c", fails] if acting else words, **how)

    monkeypatch.setattr(acts.subprocess, "Popen", fail)
    done = agent.told("fetch_results", plan=told["plan"]["id"])
    assert done["done"] is False
    assert done["next"] == "ask the user"


def test_a_plan_shows_the_whole_of_each_command_and_the_largest_files(agent):
    long = (
        f"for f in {' '.join(f'file-{n}.tar' for n in range(400))}; do tar xf $f; done; rm -r /data"
    )
    job = {**JOB, "name": "new", "command": long, "setup": ["true", long], "code": "."}
    Path("job/job.json").write_text(json.dumps(job))
    for n in range(9):
        Path(f"job/data-{n}.bin").write_bytes(bytes(1000 * (n + 1)))
    plan = agent.told("start_run", box="gpu", job="job/job.json")["plan"]
    assert long in "".join(plan["runs there"]) and "".join(plan["setup"]) == f"true{long}"
    assert plan["largest_files"][1] == "data-8.bin (9.0 kB)" and len(plan["largest_files"]) == 5
    assert "…" not in json.dumps(plan["runs there"], ensure_ascii=False)


def test_a_plan_says_what_is_copied_where_and_that_the_place_is_not_checked_yet(agent):
    asked = {"box": "gpu", "job": "job/job.json"}
    plan = agent.told("start_run", **asked)["plan"]
    assert plan["copies"] == "none: checkpoints and results are on this box alone"
    durable = {"to": "s3://bucket/keep", "what": ["out", "logs"]}
    Path("job/job.json").write_text(json.dumps({**JOB, "name": "new", "durable": durable}))
    plan = agent.told("start_run", **asked)["plan"]
    assert plan["copies"].startswith("out, logs to s3://bucket/keep; whether the box can write")
    known_jobs.remember(box.Box("gpu", "gpu"), "~/runs/toy", "runpod", {**JOB, "durable": durable})
    fake_run(agent.place / "gpu", phase="failed", alive=False, exit=1)
    assert "s3://bucket/keep" in agent.told("start_run", box="gpu", run="toy")["plan"]["copies"]


def test_a_rented_machine_on_which_the_server_runs_stays_on(agent):
    asked = {"box": "local", "job": "job/job.json", "allow": ("local",)}
    assert agent.told("start_run", **asked)["plan"]["end_command"] == "none"
    rented = agent.told("start_run", platform="runpod", **asked)["plan"]
    assert rented["end_command"].startswith("none: the box stays on")


def test_a_plan_has_every_warning_and_each_file_that_seems_to_hold_a_secret(agent):
    Path("job/train.py").write_text(f"key = 'hf_{'abcdefgh' * 4}'\n")
    Path("job/job.json").write_text(json.dumps({**JOB, "name": "new", "code": "."}))
    plan = agent.told("start_run", box="gpu", job="job/job.json", platform="autodl")["plan"]
    assert plan["sends_secrets"] == ["train.py:1"]
    assert {one.partition(":")[0] for one in plan["warnings"]} >= {"C3", "AD1", "autodl.facts"}


LONGER = {"fields": "deadline=9h\nbudget=200 USD"}
SET = ["--set", "deadline=9h", "--set", "budget=200 USD"]


def test_a_run_goes_on_with_a_longer_deadline_and_budget_and_other_options(agent):
    """As `rgt resume --set` lets it: the job of its start, with the fields that are to change."""
    fake_run(agent.place / "gpu", phase="preempted", alive=False, exit=0, deadline=time.time() - 9,
             reason="asked", first_start=time.time() - 4 * HOUR, **{"class": "deadline"})  # fmt: skip
    asked = {"box": "gpu", "run": "toy"}
    assert "pass fields, such as deadline=" in agent.refused("start_run", **asked)
    plan = agent.told("start_run", **asked, **LONGER)["plan"]
    assert plan["command"] == "rgt resume gpu --run=toy --set deadline=9h --set 'budget=200 USD'"
    assert plan["worst_cost"].startswith("10.") and plan["sends_bytes"] > 10_000
    other = agent.told("start_run", **asked, fields="deadline=9h\ncommand=python3 train.py --lr 1")
    assert other["plan"]["runs there"] == "python3 train.py --lr 1"
    agent.told("start_run", plan=plan["id"])
    assert agent.began == [["resume", "gpu", "--run=toy", *SET]]
    assert "budget" in agent.refused("start_run", **asked, fields="deadline=9h\nbudgte=1 USD")
    assert "another one" in agent.refused("start_run", **asked, fields="deadline=9h\nname=b")
    assert "over 1000 characters" in agent.refused(
        "start_run", **asked, fields="notify=" + "a" * 999
    )
    fake_run(agent.place / "gpu", "strange", phase="failed", alive=False, exit=1)
    assert "isn't known; pass job" in agent.refused("start_run", box="gpu", run="strange", **LONGER)


def test_a_start_and_a_rehearsal_take_changed_fields_too(agent):
    path = str(Path("job/job.json").resolve())
    asked = {"box": "gpu", "job": "job/job.json", **LONGER}
    plan = agent.told("start_run", **asked)["plan"]
    assert plan["worst_cost"].startswith("18.00 USD from now on")
    assert "plan: is passed alone" in agent.refused("start_run", plan=plan["id"], **LONGER)
    agent.told("start_run", plan=plan["id"])
    plan = agent.told("start_run", **asked, rehearse=True)["plan"]["id"]
    agent.told("start_run", plan=plan)
    began = [["start", "gpu", path, *SET], ["rehearse", path, "--on", "gpu", *SET]]
    assert agent.began == began


def test_a_resume_says_that_the_code_here_is_not_the_codes_of_the_run_and_how_to_send_it(agent):
    code = agent.place / "gpu/runs/toy/code"
    code.mkdir()
    (code / "train.py").write_text("print('step 0')\n")
    job = {**JOB, "code": str(Path("job").resolve())}
    known_jobs.remember(box.Box("gpu", "gpu"), "~/runs/toy", "runpod", job)
    fake_run(agent.place / "gpu", phase="failed", alive=False, exit=1)
    told = agent.told("start_run", box="gpu", run="toy")["plan"]["code"]
    assert "train.py" in told and told.endswith("pass job in place of run to send it")


def edit_code(agent):
    Path("job/train.py").write_text("print('step 2')\n")


def edit_job(agent):
    job = Path("job/job.json")
    job.write_text(job.read_text().replace('"4h"', '"9h"'))


def start_there(agent):
    fake_run(agent.place / "gpu", "new")


def end_there(agent):
    ended(agent)


def attempt(agent):
    fake_run(agent.place / "gpu", attempt=2)


def another_start(agent):
    known_jobs.remember(box.Box("gpu", "gpu"), "~/runs/toy", "runpod", JOB)


def lead_elsewhere(agent):
    ssh = agent.place / "bin/ssh"
    ssh.write_text(ssh.read_text().replace("port 22", "port 23"))


@pytest.mark.parametrize("change", [edit_code, edit_job, start_there, lead_elsewhere])
def test_a_start_is_refused_once_anything_has_changed(agent, change):
    plan = agent.told("start_run", box="gpu", job="job/job.json")["plan"]["id"]
    change(agent)
    agent.refused("start_run", plan=plan)
    assert "no such id" in agent.refused("start_run", plan=plan) and not agent.began


@pytest.mark.parametrize("change", [end_there, attempt, another_start, lead_elsewhere])
def test_a_stop_is_refused_once_anything_has_changed(agent, change):
    plan = agent.told("stop_run", box="gpu", run="toy")["plan"]["id"]
    change(agent)
    agent.refused("stop_run", plan=plan)
    assert "no such id" in agent.refused("stop_run", plan=plan) and not agent.began


def test_steps_that_go_on_change_nothing(agent):
    plan = agent.told("stop_run", box="gpu", run="toy")["plan"]["id"]
    fake_run(agent.place / "gpu", deadline=json.loads(
        (agent.place / "gpu/runs/toy/says").read_text())["deadline"], step=121)  # fmt: skip
    agent.told("stop_run", plan=plan)
    assert len(agent.began) == 1


def test_a_plan_is_valid_for_ten_minutes_and_for_its_own_tool(agent, monkeypatch):
    plan = agent.told("stop_run", box="gpu", run="toy")["plan"]["id"]
    assert "is for stop_run" in agent.refused("fetch_results", plan=plan)
    acts._kept[plan].at -= 580
    assert acts._kept[plan].is_valid
    acts._kept[plan].at -= 21
    assert "over ten minutes old" in agent.refused("stop_run", plan=plan) and not agent.began


ANSWERS = {
    "no": (ElicitResult(action="decline"), False),
    "away": (ElicitResult(action="cancel"), False),
    "not agreed": (ElicitResult(action="accept", content={"agreed": False}), False),
    "yes": (ElicitResult(action="accept", content={"agreed": True}), True),
}


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("answer, does", ANSWERS.values(), ids=ANSWERS)
def test_a_client_that_can_ask_its_user_does_so_before_anything(agent, mode, answer, does):
    asked = []

    async def user(context, params):
        asked.append(params.message)
        return answer

    plan = agent.told("stop_run", box="gpu", run="toy", mode=mode, user=user)["plan"]
    assert not asked, "a plan asks nobody"
    reply = agent.call("stop_run", mode=mode, user=user, plan=plan["id"])
    assert len(asked) == 1 and asked[0].startswith("On gpu: rgt stop gpu --run=toy\n")
    assert reply.is_error is not does and len(agent.began) == int(does)
    if not does:
        assert "the user said no; nothing was done" in reply.content[0].text
        assert "no such id" in agent.refused("stop_run", plan=plan["id"])


def test_a_command_that_goes_on_is_told_later_by_the_same_id(agent, monkeypatch):
    plan = agent.told("stop_run", box="gpu", run="toy")["plan"]["id"]
    real = acts.subprocess.Popen

    def slow(words, **how):
        if words[:3] == [sys.executable, "-m", "remote_gpu_trainer"]:
            words = ["sh", "-c", "sleep 3; echo saved; exit 1"]
        return real(words, **how)

    monkeypatch.setattr(acts.subprocess, "Popen", slow)
    monkeypatch.setattr(acts, "WAITS", 0.1)
    told = agent.told("stop_run", plan=plan)
    assert told.get("done") is None and told["next"] == "run_status"
    monkeypatch.setattr(acts, "WAITS", 20.0)
    told = agent.told("stop_run", plan=plan)
    assert told["done"] is False and told["quoted"] == ["saved"]
