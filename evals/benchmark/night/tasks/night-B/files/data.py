"""The shards of the data set. For the trial the data store is played by this file."""
import os
import time


def connect(root):
    time.sleep(0.8)
    book = os.path.join(root, ".store")
    n = int(open(book).read()) + 1 if os.path.exists(book) else 1
    with open(book, "w") as f:
        f.write(str(n))
    if n % 2:
        raise ConnectionResetError(104, "data store: connection reset by peer")


def open_shards(root):
    connect(root)
    with open(os.path.join(root, "shards.txt")) as f:
        return f.read().split()
