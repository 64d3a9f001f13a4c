"""Hands standard input on to standard output, with *** for the secrets in the variables named.

A value of fewer than six characters stays: it would stand in half of all lines. Of a value of
several lines each line counts too. What may be the beginning of a secret waits for what follows.
"""

import os
import sys


def secrets(names):
    """The values to mask, as bytes, the longest first."""
    found = set()
    for name in names:
        value = os.environ.get(name, "")
        found.update(os.fsencode(text) for text in [value, *value.split("\n")] if len(text) >= 6)
    return sorted(found, key=len, reverse=True)


def begun(text, found):
    """How many bytes at the end of the text may be the beginning of a secret."""
    most = 0
    for secret in found:
        for size in range(min(len(secret) - 1, len(text)), most, -1):
            if text.endswith(secret[:size]):
                most = size
                break
    return most


def main():
    """Copy until the end of the input."""
    found = secrets(sys.argv[1:])
    text = b""
    while True:
        piece = os.read(0, 65536)
        text += piece
        for secret in found:
            text = text.replace(secret, b"***")
        ready = len(text) - (begun(text, found) if piece else 0)
        out, text = text[:ready], text[ready:]
        while out:
            out = out[os.write(1, out) :]
        if not piece:
            return


if __name__ == "__main__":
    main()
