"""`health --hosts FILE`: rows worst first, a host that can't be reached is a row, and fifty boxes at once over real ssh."""

import json
import os
import time
from functools import partial

import pytest
from remote_gpu_trainer.gpu_health import examine as health
from remote_gpu_trainer.gpu_health import hosts as health_hosts
from remote_gpu_trainer.gpu_health import reading as health_reading
from remote_gpu_trainer.text import BadRequest

from tests.engines.fake_smi import fake_smi
from tests.engines.sshd import boxes, free_port  # noqa: F401
from tests.gpu_health.test_slurm_health import LOST
from tests.programs import rgt

HOSTS, SECONDS = 50, 30  # the figures, for 2 cores


command = partial(rgt, "health", timeout=200)


def path_with(place, **options):
    return f"{fake_smi(place, **options)}:{os.environ['PATH']}"


def test_lines_are_hosts_and_comments_are_not(tmp_path):
    (tmp_path / "h").write_bytes(
        "\ufeff# rack 1\r\ngpu1\r\n  gpu2   # slow disk\n\n#gpu3\nssh -p 40122 root@203.0.113.7 -i ~/.ssh/key\ngpu1\n".encode()
    )
    assert health_hosts.hosts(str(tmp_path / "h")) == [
        "gpu1",
        "gpu2",
        "ssh -p 40122 root@203.0.113.7 -i ~/.ssh/key",
    ]


@pytest.mark.parametrize(
    "raw",
    [b"", b"# nothing\n", b"\xff\xfe", b"h\n" + b"".join(b"h%d\n" % n for n in range(2001)), None],
    ids=["empty", "comments", "no text", "too many", "missing"],
)
def test_a_file_without_hosts_is_refused(tmp_path, raw):
    if raw is not None:
        (tmp_path / "h").write_bytes(raw)
    with pytest.raises(BadRequest, match=r"--hosts .*h: .*; pass "):
        health_hosts.hosts(str(tmp_path / "h"))


def test_every_kind_of_host_is_a_row_worst_first(boxes, tmp_path):
    boxes("good", path=path_with(tmp_path / "good"))
    boxes("bad", path=path_with(tmp_path / "bad", log=LOST))
    [gone] = boxes("gone")
    gone.stop()
    (tmp_path / "h").write_text("good # fine\ngone\nbad\nno such name\n")
    done = command("--hosts", str(tmp_path / "h"))
    rows = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert done.returncode == 1
    assert [row.split()[:2] for row in rows] == [
        ["unfit", "bad"],
        ["unknown", "gone"],
        ["unknown", "no"],
        ["fit", "good"],
    ]
    assert (
        "8 x H100 80GB HBM3  fatal: GPU 3: " in rows[0]
        and "nothing listens" in rows[1]
        and "the host 'no such name'" in rows[2]
    )
    assert "correct this line of the file" in done.stdout and done.stderr == ""
    told = json.loads(command("--hosts", str(tmp_path / "h"), "--json").stdout)
    assert told["verdict"] == "unfit" and told["hosts_by_verdict"] == {
        "unfit": 1,
        "care": 0,
        "unknown": 2,
        "fit": 1,
    }
    assert [one["box"] for one in told["hosts"]] == ["bad", "gone", "no such name", "good"]
    assert told["hosts"][1]["why"] == "refused" and told["hosts"][0]["findings"][0]["gpu"] == 3


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [(["fit", "fit"], 0), (["fit", "unknown"], 2), (["unknown", "care"], 1), (["unfit", "fit"], 1)],
)
def test_the_exit_code_is_that_of_the_worst_answer_that_was_given(verdicts, code):
    assert health_hosts.code([health_reading.Health(verdict, "x") for verdict in verdicts]) == code


def test_no_more_than_sixteen_are_asked_at_once(monkeypatch):
    going, most = set(), []

    def slow(box, question, accept_new):
        going.add(box.name)
        most.append(len(going))
        time.sleep(0.05)
        going.discard(box.name)
        return health_reading.Health("fit", box.name)

    monkeypatch.setattr(health_hosts, "examine", slow)
    told = []
    found = health_hosts.examine_all(
        [f"h{n}" for n in range(40)], progress=lambda done, of: told.append((done, of))
    )
    assert 4 <= max(most) <= 16 and len(found) == 40 and told[-1] == (40, 40)
    assert [one.box for one in found] == [f"h{n}" for n in range(40)]


def test_a_question_that_is_wrong_ends_all_and_names_it_once(boxes, tmp_path):
    boxes("one", "two", path=path_with(tmp_path / "smi"))
    (tmp_path / "h").write_text("one\ntwo\n")
    done = command("--hosts", str(tmp_path / "h"), "--expect", "wings=2")
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.count(
        "can't read 'wings=2'"
    ) == 1


def test_a_box_that_refuses_what_it_was_asked_is_a_row(monkeypatch):
    def examine(box, question, accept_new):
        if box.name == "bad":
            raise BadRequest("nope")
        return health_reading.Health("fit", box.name)

    monkeypatch.setattr(health_hosts, "examine", examine)
    found = health_hosts.examine_all(["good", "bad", "fine"], health.Question("gpus=8"))
    assert [(one.box, one.verdict, one.why) for one in found] == [
        ("bad", "unknown", "unreadable"),
        ("good", "fit", ""),
        ("fine", "fit", ""),
    ]
    assert "nope" in found[0].findings[0]["evidence"]
    for wrong in ("wings=2", "gpus=eight"):
        with pytest.raises(BadRequest, match=wrong):
            health_hosts.examine_all(["good"], health.Question(wrong))


def test_hostile_answers_cannot_forge_a_row():
    bad = health_reading.read_reply(
        "evil",
        json.dumps(
            {
                "verdict": "unfit",
                "gpus": [],
                "findings": [
                    {
                        "gpu": 0,
                        "level": "fatal",
                        "evidence": "x\nfit      good  8 x H100\x1b[1A",
                        "threshold": "t",
                        "action": "a\nfit  b",
                        "entry": "",
                    }
                ],
            }
        ).encode(),
        1,
    )
    lines = health_hosts.as_text([bad]).splitlines()
    assert (
        len(lines) == 2
        and not any(line.startswith("fit") for line in lines)
        and "\x1b" not in "".join(lines)
    )


@pytest.mark.alone
def test_fifty_boxes_over_ssh_are_told_in_time(boxes, tmp_path):
    """The bound is the issue's for two free cores. Where other work takes them, as much time is granted as one box alone takes longer than it should."""
    [node] = boxes("node", path=path_with(tmp_path / "smi"))
    names = [f"node{number:02d}" for number in range(HOSTS)]
    config = tmp_path / "ssh_config"
    config.write_text(config.read_text().replace("Host node\n", f"Host node {' '.join(names)}\n"))
    (tmp_path / "h").write_text("\n".join(names))
    alone = []
    for _ in range(3):
        began = time.monotonic()
        assert command("node").returncode == 0
        alone.append(time.monotonic() - began)
    began = time.monotonic()
    done = command("--hosts", str(tmp_path / "h"), "--json")
    took = time.monotonic() - began
    assert done.returncode == 0, done.stdout[-2000:]
    assert [one["box"] for one in json.loads(done.stdout)["hosts"]] == names
    assert node.log().count("Accepted publickey") == HOSTS + 3
    print(
        f"{HOSTS} hosts in {took:.1f} s, {took / min(alone):.1f} times one host alone ({min(alone):.2f} s)"
    )
    assert took < SECONDS or took < HOSTS * min(alone)
