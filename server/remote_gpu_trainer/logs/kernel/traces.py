"""What a hung task or a locked processor waited for, by the trace of calls below its line."""

import re

TRACED = ("stuck", "locked")  # kinds of events below which the kernel prints a trace
MOST = 60  # lines of a trace; a hung task with its registers has about 30

#  gpfs_f_rdwr_iter+0x217/0x300 [mmfslinux]
#  rpc_wait_bit_killable+0x1e/0xa0 [sunrpc]      nfs_wait_bit_killable+0x1e/0x70
CALL = re.compile(r"(?:\? )?([\w.]+)\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[(\w+)[^\]]*\])?\s*$")

# The file system by its module, or by how its functions begin where it is built in.
FILE_SYSTEMS = (
    ("GPFS", "mmfslinux|mmfs26|tracedev", "gpfs"),
    ("Lustre", "lustre|ptlrpc|obdclass|lov|osc|mdc|lmv|ksocklnd|lnet", "ptlrpc|ll_file"),
    ("NFS", "nfs|nfsv3|nfsv4|sunrpc|rpcrdma", "nfs|nfs4|rpc_wait"),
    ("CephFS", "ceph|libceph", "ceph"),
    ("SMB", "cifs|smb3?", "cifs"),
    ("BeeGFS", "beegfs", "FhgfsOps"),
    ("Weka", "wekafsio|wekafsgw", "wekafs"),
    ("FUSE", "fuse", "fuse"),
    ("9p", "9p|9pnet|v9fs", "v9fs|p9_client"),
)
DRIVER = re.compile(r"nvidia(?:_\w+)?\Z")


class Trace:
    """The lines below an event, which may say what its task waits for."""

    def __init__(self, event):
        """`event`: as `kernel_log.event_of` gives it; it is changed here."""
        self.event, self.left = event, MOST

    def take(self, line):
        """Read the next line of the log. Return whether the trace may go on."""
        self.left -= 1
        call = CALL.search(line)
        kind, what = waits_for(*call.groups()) if call else ("", "")
        if kind:
            self.event.update(kind=kind, level="degraded")
            before, blocked, after = self.event["line"].partition(" blocked for more")
            self.event["line"] = f"{before} [waits in {what}]{blocked}{after}"
            return False
        return self.left > 0 and "blocked for more than" not in line


def waits_for(function, module):
    """-> (the kind of the event, what is waited for) for a call of a trace, ("", "") for others."""
    for name, modules, starts in FILE_SYSTEMS:
        by_name = not module and re.match(f"(?:{starts})_", function)
        if by_name or (module and re.fullmatch(modules, module)):
            return "stuck in a file system", f"{name}, {module or function}"
    if module and DRIVER.match(module):
        return "stuck in the driver", f"NVIDIA's driver, {module}"
    return "", ""
