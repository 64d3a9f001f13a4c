"""Trains until four validations in a row weren't better than the best, and keeps best.pt.

Goes on from the newest whole checkpoint. If training fails at the same place three times (also by
getting stuck), it writes FAILED.txt beside best.pt on the volume and gives up.
"""
import glob, json, os, shutil, subprocess, sys, time, zipfile

EVERY, PATIENCE, TRIES, STUCK = 5, 4, 3, 15  # STUCK: seconds without a new validation
VOLUME = os.path.join(os.environ["BOX"], "mnt/volume")


def meta(path):
    try:
        with zipfile.ZipFile(path) as z:
            return json.loads(z.read("meta.json")) if z.testzip() is None else None
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return None


def put(source, target):
    shutil.copyfile(source, target + ".new")
    os.replace(target + ".new", target)


def look():
    """Take a better checkpoint as best.pt; return (newest whole path, its step, best step)."""
    best, newest, at = meta("best.pt"), None, 0
    for path in sorted(glob.glob("ckpt/[0-9][0-9][0-9][0-9].pt")):
        if found := meta(path):
            newest, at = path, found["step"]
            if best is None or found["val"] < best["val"]:
                try:
                    put(path, "best.pt")
                    best = meta("best.pt")
                except FileNotFoundError:
                    pass  # train.py removed it meanwhile
    return newest, at, best["step"] if best else at


def enough():
    _, at, best = look()
    return at - best >= PATIENCE * EVERY


def attempt():
    """Train once; return why it ended, '' for enough."""
    newest, at, _ = look()
    train = subprocess.Popen([sys.executable, "train.py", *(["--resume", newest] if newest else [])])
    moved = time.monotonic()
    while train.poll() is None:
        time.sleep(0.2)
        if enough():
            train.kill()
            train.wait()
            return ""
        if look()[1] != at:
            at, moved = look()[1], time.monotonic()
        if time.monotonic() - moved > STUCK:
            train.kill()
            train.wait()
            return f"stuck: no validation for {STUCK} s"
    return "" if enough() or train.returncode == 0 else f"exit status {train.returncode}"


# {"at": step of the newest checkpoint at the last failure, "count": failures there}
try:
    with open("failures.json") as f:
        told = json.load(f)
except (OSError, ValueError):
    told = {"at": -1, "count": 0}
if not os.path.exists("best.pt") and meta(f"{VOLUME}/best.pt"):
    put(f"{VOLUME}/best.pt", "best.pt")
while not enough():
    if told["count"] >= TRIES:
        if os.path.exists("best.pt"):
            put("best.pt", f"{VOLUME}/best.pt")
        with open(f"{VOLUME}/FAILED.txt", "w") as f:
            f.write(f"training failed {told['count']} times after step {told['at']} ({told.get('why')}); the machine is left on\n")
        sys.exit(f"failed {told['count']} times at the same place")
    why = attempt()
    if not why:
        break
    at = look()[1]
    told = {"at": at, "count": told["count"] + 1 if at == told["at"] else 1, "why": why}
    with open("failures.new", "w") as f:
        json.dump(told, f)
    os.replace("failures.new", "failures.json")
    print(f"failure {told['count']} after step {at}: {why}", flush=True)
    time.sleep(1)
with open("stopped.txt", "w") as f:
    f.write("training is over\n")
