"""A signature forces an answer, so it takes the texts of its own failure and leaves what other programs print as well."""

from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.signatures import Pattern

OWN = [
    ("U7", "mkdir: Disk quota exceeded"),
    ("M3", "[1.2] Out of memory: Killed process 4100 (python3) total-vm:1kB"),
    ("M3", "Memory cgroup out of memory: Killed process 77 (pt_data_worker) total-vm"),
    ("M3", "Out of memory: Kill process 4100 (python) score 900 or sacrifice child"),
    (
        "U7",
        "EXT4-fs warning (device sda1): ext4_dx_add_entry:2516: Directory (ino: 89391105) index full, reach max htree level :2",
    ),
    ("U7", "output /root/x has 12 inodes free, expected 1000"),
    ("U10", "RuntimeError: No executable batch size found, reached zero."),
    ("U11", "GPU 0 has 20480 of 24564 MB in use by a process that is not listed"),
    ("U12", "rsync: connection unexpectedly closed (11668340 bytes received so far) [receiver]"),
    ("U12", "rsync: [receiver] connection unexpectedly closed (4,293,736 bytes received so far)"),
    ("U12", "rsync error: timeout in data send/receive (code 30) at io.c(204) [sender=3.2.7]"),
    ("U13", 'scp: dest open "/tmp/nope/": Failure'),
    ("U13", 'dest open "/tmp/nope/f": No such file or directory'),
    ("U13", 'scp: upload "/tmp/nope/": path canonicalization failed'),
    ("U13", 'rsync: [Receiver] mkdir "/tmp/q1/q2" failed: No such file or directory (2)'),
    ("U13", "scp: /tmp/nope/: Is a directory"),
    ("U54", "MemoryError"),
    ("U54", "[rank3]: MemoryError"),
    (
        "U54",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 74.5 GiB for an array with shape (100000, 100000) and data type float64",
    ),
    ("U54", "MemoryError: Unable to allocate 12.0 GiB for an array with shape (1610612736,)"),
    ("U54", "  what():  std::bad_alloc"),
    ("DP20", "zipfile.BadZipFile: File is not a zip file"),
    ("DP20", "[rank1]: zipfile.BadZipFile: Bad CRC-32 for file 'x.npy'"),
    (
        "L14",
        'vectorized_gather_kernel: block: [2,0,0], thread: [96,0,0] Assertion `ind >=0 && ind < ind_dim_size && "vectorized gather kernel index out of bounds"` failed.',
    ),
    ("U50", "Fatal Python error: Segmentation fault"),
    ("GEN2", "Received 1 death signal, shutting down workers"),
    ("GEN2", "Received Signals.SIGHUP death signal, shutting down workers"),
    ("ENV6", "CUDA failure 804: forward compatibility was attempted"),
    (
        "U56",
        "failed to solve: nvidia/cuda:10.2-devel: failed to resolve source metadata for docker.io/nvidia/cuda:10.2-devel: docker.io/nvidia/cuda:10.2-devel: not found",
    ),
]
OTHERS = [
    ("M3", "Out of memory: Killed process 4100 (mysqld) total-vm:1kB"),
    ("U10", "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"),
    ("U11", "GPU-1a, 4100, [Not Found], 1012 MiB"),
    ("U12", "rsync: connection unexpectedly closed (0 bytes received so far) [Receiver]"),
    ("U12", "Read from remote host 203.0.113.4: Connection reset by peer"),
    ("U13", 'scp: dest open "/tmp/full/f": Failure'),
    ("U13", 'scp: stat local "missing.txt": No such file or directory'),
    ("U13", 'rsync: [sender] change_dir "/tmp/r" failed: No such file or directory (2)'),
    ("U54", "    except MemoryError:"),
    ("U54", "Unable to allocate a new port"),
    ("DP20", "except zipfile.BadZipFile as error:"),
    ("GEN2", "Received 15 death signal, shutting down workers"),
    ("U50", "Fatal Python error: Aborted"),
    ("GEN7", "Process 1234 has 20.10 GiB memory in use."),
    (
        "U56",
        "failed to solve: python:3.12: failed to resolve source metadata for docker.io/library/python:3.12: failed to do request: dial tcp: i/o timeout",
    ),
]


def claims(entry: str, text: str) -> bool:
    return any(
        Pattern(signature).matches(text) for signature in bundle.load().get(entry).signatures
    )


def test_its_own_text_is_claimed():
    assert [row for row in OWN if not claims(*row)] == []


def test_a_text_of_many_failures_is_left_to_the_words():
    assert [row for row in OTHERS if claims(*row)] == []


def test_each_line_of_a_signature_holds_letters_by_which_it_is_looked_for_first():
    """`(train|val): .{0,6}No images found` has them; alternatives around a lone colon have none, and are tried on every line of every log."""
    held = [
        (entry.id, signature.text, Pattern(signature).hint)
        for entry in bundle.load().entries
        for signature in entry.signatures
    ]
    assert held and [row for row in held if sum(map(str.isalpha, row[2])) < 3] == []
