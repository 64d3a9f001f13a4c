"""Checkpoints: a zip with meta.json (step, val) and weights.bin."""
import json
import os
import zipfile


def save(path, step, val, weights):
    with zipfile.ZipFile(path + ".tmp", "w") as z:
        z.writestr("meta.json", json.dumps({"step": step, "val": val}))
        z.writestr("weights.bin", weights)
    os.replace(path + ".tmp", path)


def load(path):
    with zipfile.ZipFile(path) as z:
        return json.loads(z.read("meta.json"))["step"], z.read("weights.bin")
