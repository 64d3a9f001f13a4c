"""A training program in the standard library: 40 steps, its weights depend on each of them, a checkpoint every 4 steps and when it is asked to save.

usage: steps_program.py FOLDER STEPS SECONDS. It writes FOLDER/weights.json at the end, and each step that it does as a line of FOLDER/steps.
"""

import hashlib
import json
import os
import signal
import sys
import time


def main(folder, steps, seconds):
    asked = []
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda *_: asked.append(1))
    os.makedirs(os.path.join(folder, "checkpoints"), exist_ok=True)
    state = {"step": 0, "weights": hashlib.sha256(b"seed").hexdigest()}
    if os.environ.get("RGT_RESUME_FROM"):
        with open(os.environ["RGT_RESUME_FROM"]) as stream:
            state = json.load(stream)
    while state["step"] < steps:
        state["step"] += 1
        state["weights"] = hashlib.sha256(
            f"{state['weights']} {state['step']}".encode()
        ).hexdigest()
        time.sleep(seconds)
        print("step", state["step"], flush=True)
        with open(os.path.join(folder, "steps"), "a") as stream:
            stream.write(f"{state['step']}\n")
        if state["step"] % 4 == 0 or asked:
            write(os.path.join(folder, "checkpoints", f"step_{state['step']:04}.json"), state)
        if asked:
            return 3
    write(os.path.join(folder, "weights.json"), state)
    return 0


def write(path, state):
    with open(path + ".tmp", "w") as stream:
        json.dump(state, stream)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(path + ".tmp", path)


sys.exit(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
