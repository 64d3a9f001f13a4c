"""Checkpoints: a zip with meta.json and weights.bin."""
import json
import os
import zipfile


def save(path, step, weights, final=False):
    tmp = path + ".tmp"
    with zipfile.ZipFile(tmp, "w") as z:
        z.writestr("meta.json", json.dumps({"step": step, "final": final}))
        z.writestr("weights.bin", weights)
    os.replace(tmp, path)


def load(path):
    with zipfile.ZipFile(path) as z:
        meta = json.loads(z.read("meta.json"))
        return meta["step"], z.read("weights.bin")
