"""Single faults, made by editing the raw text of healthy captures. Imports nothing of the prober, and knows nothing of how it reads.

`faults()` yields Fault(name, capture, files, gpu, level): the edited files, and the one finding that they must give.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

CAPTURES = Path(__file__).resolve().parent / "gpu_captures"


class Fault(NamedTuple):
    name: str
    capture: str
    files: dict
    gpu: object  # index, None for the box, or the place of a card without an index
    level: str
    expect: str = ""


class Text:
    """The files of a capture, to be edited as text."""

    def __init__(self, capture):
        self.files = {
            path.name: path.read_text(encoding="utf-8")
            for path in sorted((CAPTURES / capture).iterdir())
        }
        self.places = re.findall(r'<gpu id="([^"]+)">', self.files["nvidia-smi-q.xml"])

    def read(self, gpu, field):
        """The text of a cell, wherever its column stands."""
        header = []
        for line in self.files["nvidia-smi.csv"].split("\n"):
            cells = line.split(", ")
            if cells[0] in ("index", "gpu_bus_id"):
                header = [
                    cell.split(" [")[0].replace("throttle_reasons", "event_reasons")
                    for cell in cells
                ]
            elif (
                line and field in header and (cells[0] == str(gpu) or cells[0] == self.places[gpu])
            ):
                return cells[header.index(field)]
        raise KeyError(field)

    def cell(self, gpu, field, value):
        """Write `value` into the column of `field` (with or without unit, old or new name) in the row of a GPU."""
        lines, header, done = self.files["nvidia-smi.csv"].split("\n"), [], False
        for at, line in enumerate(lines):
            cells = line.split(", ")
            if cells[0] in ("index", "gpu_bus_id"):
                header = [
                    cell.split(" [")[0].replace("throttle_reasons", "event_reasons")
                    for cell in cells
                ]
            elif (
                line and field in header and (cells[0] == str(gpu) or cells[0] == self.places[gpu])
            ):
                old = cells[header.index(field)]
                unit = re.match(r"[\d.]+( \S+)$", old)
                cells[header.index(field)] = str(value) + (
                    unit.group(1) if unit and re.match(r"[\d.]+$", str(value)) else ""
                )
                lines[at], done = ", ".join(cells), True
        assert done, field
        self.files["nvidia-smi.csv"] = "\n".join(lines)

    def row_out(self, gpu):
        lines = self.files["nvidia-smi.csv"].split("\n")
        kept = [
            line
            for line in lines
            if not re.match(f"{gpu}, ", line) and not line.startswith(self.places[gpu])
        ]
        self.files["nvidia-smi.csv"] = "\n".join(kept)

    def xml(self, gpu, tag, value):
        parts = self.files["nvidia-smi-q.xml"].split("<gpu id=")
        parts[gpu + 1], count = re.subn(
            f"<{tag}>[^<]*</{tag}>",
            f"<{tag}>{value}</{tag}>",
            parts[gpu + 1],
            count=1,
        )
        self.files["nvidia-smi-q.xml"] = "<gpu id=".join(parts)
        return count == 1

    def xml_add(self, gpu, before, text):
        """Put what this capture lacks before a tag of a GPU."""
        parts = self.files["nvidia-smi-q.xml"].split("<gpu id=")
        assert parts[gpu + 1].count(before) == 1
        parts[gpu + 1] = parts[gpu + 1].replace(before, text + before)
        self.files["nvidia-smi-q.xml"] = "<gpu id=".join(parts)

    def xml_out(self, gpu):
        parts = self.files["nvidia-smi-q.xml"].split("\t<gpu id=")
        last = parts[gpu + 1].split("</gpu>\n")[1]
        parts[gpu + 1] = last
        text = (
            "\t<gpu id=".join(parts[: gpu + 1])
            + last
            + "".join("\t<gpu id=" + part for part in parts[gpu + 2 :])
        )
        self.files["nvidia-smi-q.xml"] = re.sub(
            r"<attached_gpus>\d+<", f"<attached_gpus>{len(self.places) - 1}<", text
        )

    def ended(self, code):
        """The exit code of the query."""
        value = json.loads(self.files["exit.json"])
        value["nvidia-smi.csv"]["rc"] = code
        self.files["exit.json"] = json.dumps(value)

    def link(self, gpu, link, value):
        parts = re.split(r"(?m)^(?=GPU \d+:)", self.files["nvlink.txt"])
        parts = [part for part in parts if part]
        parts[gpu], count = re.subn(rf"Link {link}: .*", f"Link {link}: {value}", parts[gpu])
        assert count == 1
        self.files["nvlink.txt"] = "".join(parts)

    def log(self, *lines):
        for at, line in enumerate(lines):
            self.files["dmesg.txt"] += f"[ 9{at:03d}.125000] {line}\n"

    def short_place(self, gpu):
        """0000:1b:00, as the kernel log has it: four digits of domain, no function, small letters."""
        return self.places[gpu][4:].rsplit(".", 1)[0].lower()

    def proc(self, change):
        value = json.loads(self.files["proc.json"])
        change(value)
        self.files["proc.json"] = json.dumps(value, indent=1, sort_keys=True) + "\n"


CELLS = (  # what, field, value, level
    ("failed remap", "remapped_rows.failure", "Yes", "fatal"),
    ("pending remap", "remapped_rows.pending", "Yes", "degraded"),
    ("many remaps", "remapped_rows.uncorrectable", "512", "degraded"),
    ("one remap", "remapped_rows.uncorrectable", "1", "warn"),
    ("no spare rows", "remapped_rows.histogram.none", "2", "degraded"),
    ("few spare rows", "remapped_rows.histogram.low", "1", "warn"),
    ("retired pages", "retired_pages.double_bit.count", "64", "fatal"),
    ("pending page", "retired_pages.pending", "Yes", "degraded"),
    ("a dozen pages", "retired_pages.single_bit_ecc.count", "12", "degraded"),
    ("uncorrectable error", "ecc.errors.uncorrected.volatile.total", "1", "fatal"),
    ("old uncorrectable error", "ecc.errors.uncorrected.aggregate.total", "3", "warn"),
    ("many corrected errors", "ecc.errors.corrected.volatile.total", "20000001", "degraded"),
    ("SRAM threshold", "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded", "Yes", "fatal"),
    ("lost GPU", "temperature.gpu", "[GPU is lost]", "fatal"),
    ("GPU wants reset", "utilization.gpu", "[GPU requires reset]", "fatal"),
    ("sensor failed", "temperature.gpu", "[Unknown Error]", "degraded"),
    ("fan unread", "fan.speed", "[Unknown Error]", "degraded"),
    ("recovery reset", "gpu_recovery_action", "Reset", "fatal"),
    ("recovery reboot", "gpu_recovery_action", "Reboot", "fatal"),
    ("recovery drain", "gpu_recovery_action", "Drain P2P", "degraded"),
    ("recovery odd word", "gpu_recovery_action", "GPU_RESET", "fatal"),
    ("narrowed link", "pcie.link.width.current", "8", "degraded"),
    ("one lane", "pcie.link.width.current", "1", "degraded"),
    ("hardware slowdown", "clocks_event_reasons.hw_slowdown", "Active", "degraded"),
    ("hot hardware", "clocks_event_reasons.hw_thermal_slowdown", "Active", "degraded"),
    ("power brake", "clocks_event_reasons.hw_power_brake_slowdown", "Active", "degraded"),
    ("mask says hot", "clocks_event_reasons.active", "0x0000000000000048", "degraded"),
    ("throttled before", "clocks_event_reasons_counters.hw_thermal_slowdown", "7000000", "warn"),
    ("hot GPU", "temperature.gpu", "96", "degraded"),
    ("no margin", "temperature.gpu.tlimit", "-1", "degraded"),
    ("lowest power limit", "power.limit", "15.00", "degraded"),
    ("swapped card", "name", "Tesla P40", "degraded"),
    ("less memory", "memory.total", "6000", "degraded"),
    ("other capability", "compute_cap", "6.1", "degraded"),
    ("prohibited", "compute_mode", "Prohibited", "fatal"),
    ("exclusive", "compute_mode", "Exclusive_Process", "warn"),
    ("InfoROM", "inforom.checksum_validation", "invalid", "degraded"),
    ("ECC will change", "ecc.mode.pending", "Disabled", "warn"),
    ("MIG will change", "mig.mode.pending", "Enabled", "degraded"),
    ("fabric not ready", "fabric.state", "In Progress", "fatal"),
    ("fabric failed", "fabric.status", "Failure", "fatal"),
    ("fabric ill", "fabric.health.summary", "Unhealthy", "fatal"),
    ("memory held", "memory.used", "5000", "degraded"),
    ("a little memory held", "memory.used", "300", "warn"),
    ("other driver", "driver_version", "460.91.03", "fatal"),
)
# A fault that stands only in -q -x.
TAGS = (
    ("repair", "unrepairable_memory", "Yes", "fatal"),
    ("channel", "channel_repair_pending", "Yes", "degraded"),
    ("recovery", "gpu_recovery_action", "Reset", "fatal"),
    ("reset required", "reset_required", "Yes", "fatal"),
    ("drain", "drain_and_reset_recommended", "Yes", "degraded"),
    ("remap", "remapped_row_failure", "Yes", "fatal"),
    ("ECC", "dram_uncorrectable", "2", "fatal"),
    ("width", "current_link_width", "4x", "degraded"),
)
LINES = (  # the text after the place, level
    ("79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "fatal"),
    ("79, GPU has fallen off the bus.", "fatal"),
    ("48, pid=77, name=python3, An uncorrectable double bit error", "fatal"),
    ("94, pid=7062, Contained: CE User Channel (0x9). RST: No, D-RST: No", "degraded"),
    ("94, pid=7062, Contained: SM (0x1). RST: Yes, D-RST: No", "fatal"),
    ("95, pid=7062, Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No", "fatal"),
    (
        "63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate.",
        "degraded",
    ),
    ("64, pid=1896, Row Remapper: could not be recorded", "fatal"),
    ("74, pid=1, NVLink: fatal error detected on link 3", "fatal"),
    ("119, pid=6, name=nvc:[driver], Timeout waiting for RPC from GSP1!", "fatal"),
    ("120, pid=6, GSP task exception", "fatal"),
    ("109, pid=8, Ch 0000001a, errorString CTX SWITCH TIMEOUT", "degraded"),
    ("13, pid=9, Graphics Exception: ESR 0x504648=0x1000e", "warn"),
    ("31, pid=79749, name=my exe [v2], Ch 0000000a, intr 00000000. MMU Fault", "warn"),
    ("43, pid=11, Ch 00000018", "warn"),
    ("68, pid=12, NVDEC0 exception", "warn"),
    ("154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", "fatal"),
    ("154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", "degraded"),
    ("149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x004505c6 0x00000000)", "fatal"),
    (
        "145, pid=1, name=ray::W, RLW_SRC_TRACK Nonfatal XC1 i0 Link 12 (0x040988e2 0x00000008)",
        "degraded",
    ),
    ("32, Channel ID 00000000 intr 00004000", "degraded"),
    ("62, pid=5, PMU halted", "fatal"),
    ("140, pid=5, Uncorrectable error escaped", "fatal"),
    ("999, something new", "unknown"),
)
# Lines that gpud or gcm look for: the host's faults, and those of the fabric.
HOST_LINES = (
    (
        "NVRM: knvlinkDiscoverPostRxDetLinks_GH100: Getting peer2's postRxDetLinkMask failed!",
        "degraded",
    ),
    (
        "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing",
        "warn",
    ),
    (
        "pt_main_thread[4410]: segfault at 7f797fe00000 ip 00007f7c7ac69996 sp 00007f7c12fd7c30 error 4 in libnccl.so.2[7f7c7ac00000+d3d3000]",
        "warn",
    ),
    ("EXT4-fs (nvme0n1p2): Remounting filesystem read-only", "degraded"),
    ("md/raid0:md0: Disk failure on nvme1n1p1 detected, failing array.", "degraded"),
    (
        "nvme nvme4: I/O tag 22 (2016) opcode 0x2 (Admin Cmd) QID 0 timeout, reset controller",
        "degraded",
    ),
    (
        "blk_update_request: I/O error, dev nvme0n1, sector 208 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0",
        "degraded",
    ),
    ("Buffer I/O error on dev dm-0, logical block 1308098575, lost async page write", "degraded"),
    ("kworker/u203:1: attempt to access beyond end of device", "warn"),
    ("nfs: server 10.0.0.7 not responding, still trying", "degraded"),
    (
        "Memory cgroup out of memory: Killed process 4410 (python3) total-vm:99kB, anon-rss:98kB",
        "warn",
    ),
    ("watchdog: BUG: soft lockup - CPU#18 stuck for 27s! [python3:4410]", "warn"),
    ("INFO: task pt_data_pin:4411 blocked for more than 120 seconds.", "warn"),
    ("VFS: file-max limit 1000000 reached", "degraded"),
    (
        "mlx5_core 0000:5c:00.0: mlx5_pcie_event:299:(pid 26): Detected insufficient power on the PCIe slot (27W).",
        "warn",
    ),
    (
        "mlx5_port_module_event:1131:(pid 0): Port module event[error]: module 0, Cable error, High Temperature",
        "warn",
    ),
    (
        "mlx5_core 0000:d2:00.0: mlx5_cmd_out_err:838:(pid 2682): ACCESS_REG(0x805) op_mod(0x1) failed, status bad resource(0x5)",
        "warn",
    ),
    ("Kernel panic - not syncing: Fatal hardware error!", "degraded"),
    (
        "detected number of NVSwitches don't match with any supported system topology, aborting fabric manager",
        "fatal",
    ),
    ("failed to find the GPU handle 7146 in the multicast team request setup", "degraded"),
)
# No fault: a disc without a medium, a loop device, and what a server that came back had said.
HARMLESS = (
    "blk_update_request: I/O error, dev fd0, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0",
    "Buffer I/O error on dev sr0, logical block 0, async page read",
    "nfs: server 10.0.0.7 not responding, still trying\n[ 9001.500000] nfs: server 10.0.0.7 OK",
)
BOXES = ("h100x8", "a100x8", "l40sx4", "rtx3090x2", "t4x1", "v100x4")


def faults():
    turn = 0
    for capture in BOXES:
        size = len(Text(capture).places)
        for what, field, value, level in CELLS:
            box = Text(capture)
            gpu = turn % size
            header = box.files["nvidia-smi.csv"].replace("throttle_reasons", "event_reasons")
            if not re.search(rf"(^|, ){re.escape(field)}(,| \[|\n)", header, re.M):
                continue
            if "N/A" in box.read(gpu, field) and value not in (
                "[GPU is lost]",
                "[GPU requires reset]",
            ):
                continue  # this card has no such sensor
            box.cell(gpu, field, value)
            turn += 1
            yield Fault(
                f"{capture}: {what} in the query",
                capture,
                box.files,
                None if field == "driver_version" else gpu,
                level,
            )
        for what, tag, value, level in TAGS:
            box = Text(capture)
            gpu = turn % size
            if box.xml(gpu, tag, value) and not (
                tag == "dram_uncorrectable"
                and ">N/A</dram_uncorrectable" in Text(capture).files["nvidia-smi-q.xml"]
            ):
                turn += 1
                yield Fault(f"{capture}: {what} in -q -x", capture, box.files, gpu, level)
        for text, level in LINES:
            box = Text(capture)
            gpu = turn % size
            turn += 1
            box.log(f"NVRM: Xid (PCI:{box.short_place(gpu)}): {text}")
            if capture in ("h100x8", "a100x8") or turn % 3 == 0:
                yield Fault(f"{capture}: Xid {text[:70]}", capture, box.files, gpu, level)
        if size > 1:
            box, gpu = Text(capture), turn % size
            box.row_out(gpu)
            yield Fault(
                capture + ": a GPU that -L lists and the query lacks",
                capture,
                box.files,
                gpu,
                "fatal",
            )
            box = Text(capture)
            box.row_out(size - 1)
            box.xml_out(size - 1)
            for name, pattern in (
                ("nvidia-smi-list.txt", r"(?m)^GPU %d: .*\n"),
                ("nvlink.txt", r"(?ms)^GPU %d: .*\Z"),
            ):
                box.files[name] = re.sub(pattern % (size - 1), "", box.files[name])
            lines = [
                line
                for line in box.files["topo.txt"].split("\n")
                if not line.startswith(f"GPU{size - 1}\t")
            ]
            box.files["topo.txt"] = "\n".join(lines).replace(f"\tGPU{size - 1}\t", "\t")
            box.files["nvidia-smi.csv"] = re.sub(
                rf"(?m)^(\d, ){size}, ", rf"\g<1>{size - 1}, ", box.files["nvidia-smi.csv"]
            )
            box.proc(lambda value: value["pci"].pop())
            yield Fault(
                capture + ": a GPU fewer than was paid for",
                capture,
                box.files,
                None,
                "fatal",
                f"gpus={size}",
            )
        yield from box_faults(capture, turn)
        turn += 1


def heat(box, gpu, degrees, most):
    """Give a card a temperature, and the highest one at which it may work."""
    box.cell(gpu, "temperature.gpu", str(degrees))
    bound = f"<gpu_temp_max_gpu_threshold>{most} C</gpu_temp_max_gpu_threshold>"
    box.xml_add(gpu, "\t\t</temperature>", bound)


def box_faults(capture, turn):
    def edited(what, change, level, gpu=None, expect=""):
        box = Text(capture)
        change(box)
        return Fault(f"{capture}: {what}", capture, box.files, gpu, level, expect)

    size = len(Text(capture).places)
    gpu = turn % size

    for text, level in HOST_LINES if capture in ("h100x8", "v100x4") else ():
        yield edited(text[:60], lambda box, text=text: box.log(text), level)
    yield edited(
        "lanes with replays",
        lambda box: box.xml_add(gpu, "\t\t</pci>", "<replay_counter>900000</replay_counter>"),
        "degraded",
        gpu,
    )
    yield edited(
        "above its highest working heat",
        lambda box: heat(box, gpu, 87, 85),
        "degraded",
        gpu,
    )
    yield edited(
        "a limit of heat that its firmware lowered",
        lambda box: heat(box, gpu, 56, 57),
        "degraded",
        gpu,
    )
    yield edited(
        "slowed by a setting",
        lambda box: box.xml_add(
            gpu,
            "\t\t<processes>",
            "<applications_clocks><graphics_clock>900 MHz</graphics_clock>"
            "</applications_clocks><default_applications_clocks><graphics_clock>1275 MHz</graphics_clock></default_applications_clocks>",
        ),
        "warn",
        gpu,
    )
    yield edited(
        "a small program of someone else",
        lambda box: [
            box.cell(gpu, "memory.used", "600"),
            box.files.update(
                {
                    "apps.csv": box.files["apps.csv"]
                    + f"{box.places[gpu]}, GPU-0, 4410, python3, 590 MiB\n"
                }
            ),
        ],
        "warn",
        gpu,
    )

    def disk(path, **values):
        return lambda box: box.proc(lambda proc: proc["disks"][path].update(values))

    yield edited("full disk", disk("/workspace", free_mib=3), "fatal")
    yield edited("nearly full disk", disk("/workspace", free_mib=3000), "degraded")
    yield edited("no inodes", disk("/workspace", inodes_free=0), "fatal")
    yield edited("small /dev/shm", disk("/dev/shm", total_mib=64, free_mib=64), "degraded")
    yield edited(
        "dead mount",
        lambda box: box.proc(lambda proc: proc["disks"].update({"/mnt/nfs": None})),
        "degraded",
    )
    yield edited(
        "container at its memory limit",
        lambda box: box.proc(lambda proc: proc["cgroup"].update(used_mib=255000)),
        "degraded",
    )
    yield edited(
        "device node refused",
        lambda box: box.proc(lambda proc: proc["dev"][-1].update(error="Operation not permitted")),
        "fatal",
    )
    yield edited(
        "module of another version",
        lambda box: box.proc(lambda proc: proc.update(module_version="390.157")),
        "fatal",
    )
    yield edited(
        "dead process holds a card",
        lambda box: box.proc(
            lambda proc: proc["holders"].append(
                {"pid": 77, "state": "D", "name": "python3", "devices": ["/dev/nvidia0"]}
            )
        ),
        "degraded",
    )
    yield edited(
        "narrow in sysfs",
        lambda box: box.proc(lambda proc: proc["pci"][gpu].update(current_link_width="8")),
        "degraded",
        gpu,
    )
    yield edited(
        "card without answer",
        lambda box: box.proc(
            lambda proc: proc["pci"].append(
                {
                    "bdf": "0000:f1:00.0",
                    "vendor": "0x10de",
                    "class": "0x030200",
                    "driver": "nvidia",
                    "current_link_width": "16",
                    "max_link_width": "16",
                    "minor": 9,
                    "node": "open",
                }
            )
        ),
        "fatal",
        "0000:f1:00",
    )
    yield edited(
        "init failed",
        lambda box: box.log(
            f"NVRM: GPU {box.short_place(gpu)}.0: RmInitAdapter failed! (0x62:0x65:1792)",
            f"NVRM: GPU {box.short_place(gpu)}.0: rm_init_adapter failed, device minor number 0",
        ),
        "fatal",
        gpu,
    )
    yield edited(
        "off the bus in three lines",
        lambda box: box.log(
            f"NVRM: The NVIDIA GPU {box.short_place(gpu)}.0",
            "NVRM: (PCI ID: 10de:2330) installed in this system has",
            "NVRM: fallen off the bus and is not responding to commands.",
        ),
        "fatal",
        gpu,
    )
    yield edited(
        "off the bus, said twice",
        lambda box: box.log(
            f"NVRM: Xid (PCI:{box.short_place(gpu)}): 79, pid=1122, GPU has fallen off the bus.",
            f"NVRM: GPU {box.short_place(gpu)}.0: GPU has fallen off the bus.",
        ),
        "fatal",
        gpu,
    )
    yield edited(
        "API mismatch",
        lambda box: box.log("NVRM: API mismatch: the client has the version 535.171.04, but"),
        "fatal",
    )
    yield edited(
        "AER",
        lambda box: box.log(
            f"pcieport 0000:00:01.0: AER: Uncorrected (Non-Fatal) error received: {box.short_place(gpu)}.0"
        ),
        "degraded",
        gpu,
    )
    yield edited(
        "unreadable log",
        lambda box: box.files.update(
            {"dmesg.txt": "dmesg: read kernel buffer failed: Operation not permitted\n"}
        ),
        "unknown",
    )
    yield edited("old driver for the job", lambda box: None, "fatal", None, "driver>=600")
    if size > 1 and capture in ("h100x8", "a100x8", "v100x4"):
        yield edited("inactive link", lambda box: box.link(gpu, 3, "<inactive>"), "fatal", gpu)
        yield edited(
            "inactive link, all paid for",
            lambda box: box.link(gpu, 3, "<inactive>"),
            "fatal",
            gpu,
            "nvlink=all",
        )
        yield edited("slow link", lambda box: box.link(gpu, 5, "12.500 GB/s"), "degraded", gpu)
        yield edited(
            "SXid fatal",
            lambda box: box.log(
                "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
                "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Severity 1 Engine instance 60 Sub-engine instance 00",
            ),
            "fatal",
        )
        yield edited(
            "SXid not fatal",
            lambda box: box.log(
                "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 22013, Non-fatal, Link 32 Minion Link DLREQ interrupt (First)"
            ),
            "warn",
        )
        yield edited(
            "SXid that stops traffic",
            lambda box: box.log(
                "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)"
            ),
            "degraded",
        )
    if capture == "h100x8":
        yield edited(
            "another MIG mode",
            lambda box: (
                [box.cell(5, "mig.mode." + mode, "Enabled") for mode in ("current", "pending")]
                + [
                    box.files.update(
                        {
                            "nvidia-smi-list.txt": box.files["nvidia-smi-list.txt"].replace(
                                "GPU 6:", "  MIG 7g.80gb     Device  0: (UUID: MIG-1)\nGPU 6:"
                            )
                        }
                    )
                ]
            ),
            "degraded",
            5,
        )
        yield edited(
            "MIG without instance",
            lambda box: [
                box.cell(5, "mig.mode." + mode, "Enabled") for mode in ("current", "pending")
            ],
            "fatal",
            5,
        )
        yield edited(
            "ECC off",
            lambda box: [
                box.cell(2, "ecc.mode." + mode, "Disabled") for mode in ("current", "pending")
            ],
            "degraded",
            2,
        )
        yield edited(
            "pair over PCIe",
            lambda box: box.files.update(
                {
                    "topo.txt": box.files["topo.txt"].replace(
                        "GPU1\tNV18\t X \tNV18", "GPU1\tNV18\t X \tSYS"
                    )
                }
            ),
            "degraded",
            1,
        )
        yield edited(
            "no pair by NVLink",
            lambda box: box.files.update(
                {"topo.txt": box.files["topo.txt"].replace("NV18", "SYS")}
            ),
            "degraded",
        )
        yield edited(
            "fabric with less bandwidth",
            lambda box: box.xml_add(
                5,
                "\t\t<processes>",
                "<fabric><state>Completed</state><status>Success</status>"
                "<health><summary>N/A</summary><bandwidth>Degraded</bandwidth><route_unhealthy>False</route_unhealthy></health></fabric>",
            ),
            "degraded",
            5,
        )
        yield edited(
            "fabric route lost",
            lambda box: box.xml_add(
                6,
                "\t\t<processes>",
                "<fabric><state>Completed</state><status>Success</status>"
                "<health><summary>N/A</summary><bandwidth>Full</bandwidth><route_unhealthy>True</route_unhealthy></health></fabric>",
            ),
            "degraded",
            6,
        )
        yield edited(
            "another firmware",
            lambda box: [
                box.xml_add(
                    one,
                    "\t\t<processes>",
                    f"<vbios_version>96.00.A5.00.0{1 + (one == 3)}</vbios_version>",
                )
                for one in range(8)
            ],
            "warn",
            3,
        )
        yield edited(
            "no power reading",
            lambda box: [box.cell(4, "power.draw", "[N/A]"), box.xml(4, "power_draw", "N/A")],
            "warn",
            4,
        )
        yield edited("power cable", lambda box: box.ended(8), "fatal")
        yield edited("interrupts", lambda box: box.ended(10), "fatal")
        yield edited(
            "a library too old",
            lambda box: box.files.update(
                {
                    "nvidia-smi.csv": "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 590.44\n"
                }
            ),
            "fatal",
        )
    if capture == "a100x8":
        yield edited(
            "no fabric manager",
            lambda box: box.proc(lambda proc: proc.update(nvswitches=6, fabricmanager=False)),
            "fatal",
        )
    if capture == "t4x1":
        yield edited("another card was paid for", lambda box: None, "fatal", 0, "name=A10")
        yield edited("no bf16 on this card", lambda box: None, "fatal", 0, "bf16=yes")
        yield edited("less memory than paid for", lambda box: None, "fatal", 0, "vram=24")
        yield edited("torch was not looked at", lambda box: None, "unknown", None, "torch=cu130")
