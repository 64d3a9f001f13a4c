"""Prints `--resume FOLDER` for the newest folder whose shards match its index; sets broken ones aside."""
import glob, os, sys
from shards import load

for folder in sorted(glob.glob("run/step-[0-9][0-9][0-9][0-9]"), reverse=True):
    try:
        load(folder)
        print("--resume", folder)
        break
    except (OSError, ValueError, KeyError) as error:
        print(f"{folder} isn't whole: {error}", file=sys.stderr)
        os.rename(folder, f"{folder}.torn.{os.getpid()}")
