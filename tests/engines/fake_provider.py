"""Fakes of the programs that ask providers: curl (Runpod, Lambda), vastai and aws.

They are one program. What the account has stands in state.json of a folder, and tests change it:
`boxes` and `disks` are rows as the providers' pages show them, `key` what curl must bring on its
standard input, `fail` {part of a command: [exit code, what it prints]}, `delay` seconds before each
answer, `slow` how many lists still show a stopped box as running, `deaf` whether a stop is accepted
and nothing happens, `clock` seconds by which the provider's clock is ahead. Each call is a line of
calls.jsonl. The forms are those of:

- Runpod: github.com/runpod/docs, api-reference-v2/openapi.json, commit a900806 of 2026-08-20
- Lambda: github.com/api-evangelist/lambda-labs, openapi/_original, API 1.10.0, 2026-08-03
- Vast: docs.vast.ai/api-reference/instances/show-instances and github.com/vast-ai/vast-cli, vast.py,
  commit 5567983 of 2026-08-06, for what the program prints
- AWS: github.com/boto/botocore, data/ec2/2016-11-15/service-2.json, 2026-11-20
"""

import email.utils
import json
import os
import sys
import time
from pathlib import Path

RUNPOD = {
    "id": "7h9k2m4n6p", "name": "pytorch-training", "status": "RUNNING", "cloud": "SECURE",
    "mounts": {"persistent": {"size": 20, "path": "/workspace"}}, "cost": 0.44, "locked": False,
    "ssh": {"direct": {"host": "127.0.0.1", "port": 34446, "username": "root"}},
    "createdAt": "2026-06-01T12:00:00Z", "startedAt": "2026-06-01T12:02:00Z",
}  # fmt: skip
VOLUME = {"id": "2q9m7x4c", "name": "training-dataset", "size": 100, "dataCenter": "US-KS-2",
          "type": "STANDARD"}  # fmt: skip
VAST = {
    "id": 312, "actual_status": "running", "intended_status": "running", "label": "toy",
    "public_ipaddr": "192.0.2.45", "ssh_host": "ssh123.vast.ai", "ssh_port": 10600,
    "start_date": 1668804745.1223178, "dph_total": 0.31, "disk_space": 10.0, "storage_cost": 0.2,
    "jupyter_token": "df77e27085bd4b3bd5d9024bdefb9e6d", "is_bid": False,
    "ports": {"22/tcp": [{"HostIp": "0.0.0.0", "HostPort": "40122"}]},
}  # fmt: skip
LAMBDA = {"id": "0920582c7ff041399e34823a0be62549", "name": "My Instance", "ip": "198.51.100.2",
          "status": "active", "instance_type": {"name": "gpu_1x_a10", "price_cents_per_hour": 75}}  # fmt: skip
FILESYSTEM = {"id": "398578a2336b49079e74043f0bd2cfe8", "name": "my-filesystem",
              "created": "2026-05-01T10:00:00Z", "is_in_use": False, "bytes_used": 50_000_000_000}  # fmt: skip
EC2 = {"InstanceId": "i-0abc", "State": {"Code": 16, "Name": "running"}, "RootDeviceType": "ebs",
       "LaunchTime": "2026-06-01T12:00:00+00:00", "PublicIpAddress": "198.51.100.7",
       "Tags": [{"Key": "Name", "Value": "node"}]}  # fmt: skip
EBS = {"VolumeId": "vol-1", "Size": 200, "State": "available", "Attachments": [],
       "CreateTime": "2026-05-01T10:00:00+00:00"}  # fmt: skip
STATES = {"RUNNING": "EXITED", "running": "stopped", "active": "terminated"}


def install(folder: Path, **state) -> None:
    """Put the fakes into folder/bin, and what the account has into folder/state.json."""
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    for name in ("curl", "vastai", "aws"):
        file = folder / "bin" / name
        file.write_text(
            f"#!/bin/sh\nexec '{sys.executable}' '{__file__}' '{folder}' {name} \"$@\"\n"
        )
        file.chmod(0o755)
    (folder / "state.json").write_text(json.dumps({"boxes": [], "disks": [], **state}))


def change(folder: Path, **state) -> None:
    """Change what the account has."""
    file = folder / "state.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **state}))


def calls(folder: Path) -> list[list[str]]:
    """Return the words of each call so far."""
    file = folder / "calls.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def main(folder: Path, name: str, words: list[str]) -> int:
    """Answer one call."""
    file = folder / "state.json"
    state = json.loads(file.read_text())
    with (folder / "calls.jsonl").open("a") as out:
        out.write(json.dumps([name, *words]) + "\n")
    time.sleep(state.get("delay", 0))
    line = " ".join([name, *words])
    for part, (code, text) in state.get("fail", {}).items():
        if part in line:
            print(text, file=sys.stderr if code else sys.stdout)
            return code
    if name == "curl" and "-sSI" in words:
        now = time.time() + state.get("clock", 0)
        print(f"HTTP/2 404\r\ndate: {email.utils.formatdate(now, usegmt=True)}\r\n")
        return 0
    if name == "curl" and sys.stdin.read() != f"Authorization: Bearer {state.get('key')}\n":
        print("curl: (22) The requested URL returned error: 401", file=sys.stderr)
        return 22
    answer = act(state, line) if is_act(line) else listed(state, line)
    part = file.with_name(f"state.{os.getpid()}")  # another call may read it meanwhile
    part.write_text(json.dumps(state))
    part.replace(file)
    print(answer if isinstance(answer, str) else json.dumps(answer))
    return 0


def is_act(line: str) -> bool:
    """Return whether a command changes a box."""
    acts = ("/action", "-X DELETE", "/terminate", " stop instance ", " start instance ")
    more = (" destroy instance ", "-instances --region", "stop-instances", "terminate-instances")
    return any(one in line for one in (*acts, *more)) and "describe" not in line


def act(state: dict, line: str):
    """Change the box whose id is in a command."""
    for box in list(state["boxes"]):
        if str(box.get("id", box.get("InstanceId"))) not in line or state.get("deaf"):
            continue
        if any(one in line for one in ("-X DELETE", "destroy", "terminate")):
            state["boxes"].remove(box)
        elif state.get("slow"):
            box["becomes"] = [state["slow"], "start" if "start" in line else "stop"]
        else:
            flip(box, "start" if "start" in line else "stop")
    return "stopping instance" if line.startswith("vastai") else {}


def flip(box: dict, wanted: str) -> None:
    """Let a box be stopped, or run again."""
    states = STATES if wanted == "stop" else {off: on for on, off in STATES.items()}
    for name in ("status", "actual_status"):
        if name in box:
            box[name] = states.get(box[name], box[name])
    if "State" in box:
        box["State"]["Name"] = states.get(box["State"]["Name"], box["State"]["Name"])
    if "cost" in box:
        box["cost"] = 0.0 if wanted == "stop" else 0.44


def listed(state: dict, line: str):
    """Return a list as the provider prints it."""
    for box in state["boxes"]:
        if box.get("becomes"):
            box["becomes"][0] -= 1
            if not box["becomes"][0]:
                flip(box, box.pop("becomes")[1])
    boxes = [{name: told for name, told in box.items() if name != "becomes"}
             for box in state["boxes"]]  # fmt: skip
    answers = {
        "v2/pods": {"pods": boxes}, "network-volumes": {"networkVolumes": state["disks"]},
        "v1/instances": {"data": boxes}, "file-systems": {"data": state["disks"]},
        "show instances": boxes, "show volumes": state["disks"],
        "show user": {"id": state.get("account", 77), "email": "a@example.org"},
        "get-caller-identity": {"Account": str(state.get("account", 77))},
        "describe-regions": {"Regions": [{"RegionName": "us-east-1"}, {"RegionName": "eu-west-1"}]},
    }  # fmt: skip
    here = "us-east-1" in line
    answers["describe-instances"] = {"Reservations": [{"Instances": boxes if here else []}]}
    answers["describe-volumes"] = {"Volumes": state["disks"] if here else []}
    return next(answer for part, answer in answers.items() if part in line)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
