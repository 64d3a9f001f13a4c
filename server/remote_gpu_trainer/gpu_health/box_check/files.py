"""The files of a recording, the calls of nvidia-smi that make them, and the limits of a call."""

# The files of a recording, in the order in which a finding names missing ones.
FILES = (
    "nvidia-smi.csv",
    "nvidia-smi-q.xml",
    "nvidia-smi-list.txt",
    "nvlink.txt",
    "topo.txt",
    "apps.csv",
    "dmesg.txt",
    "proc.json",
    "exit.json",
)
EXTRA_FILES = ("fields.txt",)
LOGS = ("dmesg", "journalctl")  # the end counts, so a long one loses plain lines instead

# The call of nvidia-smi that makes a file.
CALLS = {
    "fields.txt": "--help-query-gpu",
    "nvidia-smi.csv": "--query-gpu",
    "nvidia-smi-list.txt": "-L",
    "nvidia-smi-q.xml": "-q -x",
    "nvlink.txt": "nvlink -s",
    "topo.txt": "topo -m",
    "apps.csv": "--query-compute-apps",
}
LIMIT = 4 << 20  # bytes of one reply; cutting a longer one gives a finding
CALL_SECONDS = 25.0  # for one call of nvidia-smi

# For all its calls: an MCP call has 50 s, and ssh needs some of them. The first call wakes the
# GPUs, and may use all of this time.
SERIES_SECONDS = 42.0
