"""Writes config.run.json: goes on from the newest step with model and optimizer whole, and a loss."""
import glob, json, math, os, sys
from files import read

with open("config.json") as f:
    config = json.load(f)
config["resume"] = "never"
for path in sorted(glob.glob(f"{config['run_dir']}/model-[0-9]*.bin"), reverse=True):
    name = path[-8:-4]
    try:
        for part in (path, f"{config['run_dir']}/optim-{name}.bin"):
            read(part)
            with open(part, "rb") as f:
                if not math.isfinite(json.loads(f.readline())["loss"]):
                    raise ValueError(f"{part}: its loss isn't a number")
        config["resume"] = name
        break
    except (OSError, ValueError, KeyError) as error:
        print(f"step {name} can't be used: {error}", file=sys.stderr)
        # Out of the way: train.py keeps the three that sort last, by name.
        for kind in ("model", "optim"):
            old = f"{config['run_dir']}/{kind}-{name}.bin"
            if os.path.exists(old):
                os.rename(old, f"{old}.torn.{os.getpid()}")
with open("config.run.json", "w") as f:
    json.dump(config, f, indent=1)
