"""Files: a line of JSON with step, loss and checksum, then the content."""
import hashlib
import json


def write(path, step, loss, content):
    head = {"step": step, "loss": loss, "sha256": hashlib.sha256(content).hexdigest()}
    with open(path, "wb") as f:
        f.write(json.dumps(head).encode() + b"\n" + content)


def read(path):
    with open(path, "rb") as f:
        head, content = json.loads(f.readline()), f.read()
    if hashlib.sha256(content).hexdigest() != head["sha256"]:
        raise ValueError(f"{path}: wrong checksum")
    return head["step"], content
