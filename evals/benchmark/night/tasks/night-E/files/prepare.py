"""Tokenizes the raw texts into data/ready (24 parts).  python prepare.py [--force]

Parts that exist already are skipped; --force does them all again.
"""
import argparse
import os

from work import tokenize

PARTS = 24


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--force", action="store_true")
    args = ap.parse_args()
    os.makedirs("data/ready", exist_ok=True)
    for i in range(1, PARTS + 1):
        path = f"data/ready/part-{i:02d}.bin"
        if args.force or not os.path.exists(path):
            with open(path, "wb") as f:
                f.write(b"tokens\n")
                f.write(tokenize(i))
            print(f"part {i} of {PARTS}", flush=True)
    print("prepared", flush=True)


if __name__ == "__main__":
    main()
