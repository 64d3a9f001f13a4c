"""Checkpoints are folders: index.json, state.json and four shards of the weights."""
import hashlib
import json
import os
import time

SHARDS = 4


def write_part(folder, name, data):
    time.sleep(0.6)  # gathering a shard from the devices takes a while
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


def save(folder, step, weights, final=False):
    os.makedirs(folder, exist_ok=True)
    size = len(weights) // SHARDS
    parts = {f"shard-{i}-of-{SHARDS}.bin": weights[i * size:(i + 1) * size] for i in range(SHARDS)}
    with open(os.path.join(folder, "index.json"), "w") as f:
        json.dump({name: hashlib.sha256(data).hexdigest() for name, data in parts.items()}, f, indent=1)
    with open(os.path.join(folder, "state.json"), "w") as f:
        json.dump({"step": step, "final": final}, f)
    with open(os.path.join(os.path.dirname(folder), "latest"), "w") as f:
        f.write(os.path.basename(folder) + "\n")
    for name, data in parts.items():
        write_part(folder, name, data)


def load(folder):
    with open(os.path.join(folder, "index.json")) as f:
        index = json.load(f)
    with open(os.path.join(folder, "state.json")) as f:
        step = json.load(f)["step"]
    weights = b""
    for name in sorted(index):
        with open(os.path.join(folder, name), "rb") as f:
            data = f.read()
        if hashlib.sha256(data).hexdigest() != index[name]:
            raise ValueError(f"{folder}/{name} doesn't match index.json")
        weights += data
    return step, weights
