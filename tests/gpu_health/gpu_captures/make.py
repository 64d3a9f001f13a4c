"""Writes the captures of this folder: the formats of nvidia-smi (drivers 470 to 590), with values of our own. No output of a real box.

    python tests/gpu_health/gpu_captures/make.py

Imports nothing of the prober, so that a mistake there is not repeated here.
"""

import json
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORE = [
    "index",
    "count",
    "name",
    "uuid",
    "pci.bus_id",
    "driver_version",
    "memory.total",
    "memory.used",
    "memory.free",
    "utilization.gpu",
    "utilization.memory",
    "temperature.gpu",
    "temperature.memory",
    "temperature.gpu.tlimit",
    "power.draw",
    "power.limit",
    "enforced.power.limit",
    "power.default_limit",
    "clocks.current.sm",
    "clocks.max.sm",
    "fan.speed",
    "pstate",
    "compute_mode",
    "compute_cap",
    "persistence_mode",
    "display_active",
    "mig.mode.current",
    "mig.mode.pending",
    "pcie.link.gen.gpucurrent",
    "pcie.link.gen.max",
    "pcie.link.gen.hostmax",
    "pcie.link.width.current",
    "pcie.link.width.max",
]
BEFORE_AMPERE = (  # fields that a driver lacks, or doesn't fill, for cards before A100
    "compute_cap",
    "remapped_rows.correctable",
    "remapped_rows.uncorrectable",
    "remapped_rows.pending",
    "remapped_rows.failure",
    "remapped_rows.histogram.low",
    "remapped_rows.histogram.none",
)
ECC = [
    "index",
    "pci.bus_id",
    "ecc.mode.current",
    "ecc.mode.pending",
    "ecc.errors.corrected.volatile.total",
    "ecc.errors.corrected.aggregate.total",
    "ecc.errors.corrected.aggregate.dram",
    "ecc.errors.corrected.aggregate.sram",
    "ecc.errors.uncorrected.volatile.total",
    "ecc.errors.uncorrected.aggregate.total",
    "ecc.errors.uncorrected.aggregate.sram",
    "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded",
    "retired_pages.single_bit_ecc.count",
    "retired_pages.double_bit.count",
    "retired_pages.pending",
    "remapped_rows.correctable",
    "remapped_rows.uncorrectable",
    "remapped_rows.pending",
    "remapped_rows.failure",
    "remapped_rows.histogram.low",
    "remapped_rows.histogram.none",
    "inforom.checksum_validation",
]
STATE = [
    "index",
    "pci.bus_id",
    "gpu_recovery_action",
    "clocks_throttle_reasons.active",
    "clocks_throttle_reasons.hw_slowdown",
    "clocks_throttle_reasons.hw_thermal_slowdown",
    "clocks_throttle_reasons.hw_power_brake_slowdown",
    "clocks_throttle_reasons.sw_thermal_slowdown",
    "clocks_throttle_reasons.sw_power_cap",
    "clocks_throttle_reasons.applications_clocks_setting",
    "clocks_event_reasons_counters.hw_thermal_slowdown",
    "clocks_event_reasons_counters.hw_power_brake_slowdown",
    "clocks_event_reasons_counters.sw_thermal_slowdown",
    "fabric.state",
    "fabric.status",
    "fabric.health.summary",
]
UNITS = {
    "memory.total": "MiB",
    "memory.used": "MiB",
    "memory.free": "MiB",
    "utilization.gpu": "%",
    "utilization.memory": "%",
    "power.draw": "W",
    "power.limit": "W",
    "enforced.power.limit": "W",
    "power.default_limit": "W",
    "clocks.current.sm": "MHz",
    "clocks.max.sm": "MHz",
    "fan.speed": "%",
}
UNITS.update(
    {
        "clocks_event_reasons_counters." + name: "us"
        for name in ("hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
    }
)
LOG = """[    0.000000] Linux version 6.8.0-60-generic (builder@host) (gcc 13.3.0) #63-Ubuntu SMP
[    8.102233] nvidia: loading out-of-tree module taints kernel.
[    8.455120] nvidia-nvlink: Nvlink Core is being initialized, major device number 236
[    8.690011] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {driver}  Mon Jun  1 00:00:00 UTC 2026
[    9.112450] nvidia-modeset: Loading NVIDIA Kernel Mode Setting Driver for UNIX platforms  {driver}
[   31.770102] EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Quota mode: none.
"""


def box(name, model, count, driver, total, **more):
    hbm, ecc, ampere = more.get("hbm", False), more.get("ecc", True), more.get("ampere", True)
    major = int(driver.split(".")[0])
    watts, clock, gen = more["watts"], more["clock"], more["gen"]
    mig = more.get("mig", False)
    no_rows = mig or not ampere or not ecc
    gpus = []
    for index in range(count):
        number = "0" if ecc else "[N/A]"
        rows = "[N/A]" if no_rows else "0"
        values = {
            "index": index,
            "count": count,
            "name": model,
            "uuid": f"GPU-{0xA0 + index:08x}-1111-2222-3333-{0xB0 + index:012x}",
            "pci.bus_id": "{:08X}:{:02X}:{:02X}.0".format(
                more.get("domain", 0), 0x1B + 0x11 * index, more.get("device", 0)
            ),
            "driver_version": driver,
            "memory.total": total,
            "memory.used": more.get("used", 4),
            "memory.free": total - 600,
            "utilization.gpu": more.get("busy", 0),
            "utilization.memory": 0,
            "temperature.gpu": 33 + index,
            "temperature.memory": 41 + index if hbm else "N/A",
            "temperature.gpu.tlimit": 50 - index if major >= 570 and hbm else "[N/A]",
            "power.draw": f"{watts / 9 + index:.2f}",
            "power.limit": f"{watts:.2f}",
            "enforced.power.limit": f"{watts:.2f}",
            "power.default_limit": f"{watts:.2f}",
            "clocks.current.sm": 345,
            "clocks.max.sm": clock,
            "fan.speed": "[N/A]" if hbm or more.get("passive") else 30,
            "pstate": "P0" if hbm else "P8",
            "compute_mode": "Default",
            "compute_cap": more["cap"],
            "persistence_mode": "Enabled",
            "display_active": "Disabled",
            "mig.mode.current": ("Enabled" if mig else "Disabled")
            if more.get("can_mig")
            else "[N/A]",
            "mig.mode.pending": ("Enabled" if mig else "Disabled")
            if more.get("can_mig")
            else "[N/A]",
            "pcie.link.gen.gpucurrent": gen if hbm else 1,
            "pcie.link.gen.max": gen,
            "pcie.link.gen.hostmax": "[N/A]" if more.get("vm") else gen,
            "pcie.link.width.current": 16,
            "pcie.link.width.max": 16,
            "ecc.mode.current": "Enabled" if ecc else "[N/A]",
            "ecc.mode.pending": "Enabled" if ecc else "[N/A]",
            "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded": "No"
            if ecc and ampere
            else "[N/A]",
            "retired_pages.single_bit_ecc.count": "0" if ecc and not ampere else "[N/A]",
            "retired_pages.double_bit.count": "0" if ecc and not ampere else "[N/A]",
            "retired_pages.pending": "No" if ecc and not ampere else "[N/A]",
            "remapped_rows.correctable": rows,
            "remapped_rows.uncorrectable": rows,
            "remapped_rows.pending": "[N/A]" if no_rows else "No",
            "remapped_rows.failure": "[N/A]" if no_rows else "No",
            "remapped_rows.histogram.low": rows,
            "remapped_rows.histogram.none": rows,
            "inforom.checksum_validation": "valid",
            "gpu_recovery_action": "None",
            "clocks_throttle_reasons.active": "0x0000000000000001",
            "fabric.state": "Completed" if more.get("fabric") else "N/A",
            "fabric.status": "Success" if more.get("fabric") else "N/A",
            "fabric.health.summary": "N/A",
        }
        for field in ECC:
            if field.startswith("ecc.errors.") and field not in values:
                values[field] = number
        for field in STATE:
            if field.startswith("clocks_throttle_reasons.") and field not in values:
                values[field] = "Not Active"
            if field.startswith("clocks_event_reasons_counters."):
                values[field] = "0"
        gpus.append(dict(values, **more.get("cells", {})))
    unknown = set(more.get("lacks", ()))
    if major < 590:
        unknown |= {"gpu_recovery_action"}
    if major < 570:
        unknown |= {
            "fabric.health.summary",
            "fabric.state",
            "fabric.status",
            "inforom.checksum_validation",
            "temperature.gpu.tlimit",
            "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded",
        } | {field for field in STATE if "_counters" in field}
    blocks = [[field for field in group if field not in unknown] for group in (CORE, ECC, STATE)]

    def shown(field):
        new = field.replace("throttle_reasons", "event_reasons") if major >= 535 else field
        return new + (f" [{UNITS[field]}]" if field in UNITS else "")

    def cell(gpu, field):
        text = str(gpu[field])
        return f"{text} {UNITS[field]}" if field in UNITS and "N/A" not in text else text

    table = "".join(
        ", ".join(map(shown, block))
        + "\n"
        + "".join(", ".join(cell(gpu, field) for field in block) + "\n" for gpu in gpus)
        for block in blocks
    )
    files = {"nvidia-smi.csv": table, "nvidia-smi-q.xml": xml(gpus, driver, major, more)}
    if "remapped_rows.failure" in unknown and ampere:
        extra = [
            "gpu_bus_id",
            "remapped_rows.correctable",
            "remapped_rows.uncorrectable",
            "remapped_rows.pending",
            "remapped_rows.failure",
        ]
        files["nvidia-smi.csv"] += (
            ", ".join(extra) + "\n" + "".join(gpu["pci.bus_id"] + ", 0, 0, 0, 0\n" for gpu in gpus)
        )
        blocks.append(extra)
    migs = (
        "".join(
            f"  MIG 3g.40gb     Device  {d}: (UUID: MIG-{d:08x}-4444-5555-6666-{d:012x})\n"
            for d in range(2)
        )
        if mig
        else ""
    )
    files["nvidia-smi-list.txt"] = "".join(
        f"GPU {gpu['index']}: {model} (UUID: {gpu['uuid']})\n{migs}" for gpu in gpus
    )
    links, speed = more.get("links", (0, ""))
    files["nvlink.txt"] = "".join(
        f"GPU {gpu['index']}: {model} (UUID: {gpu['uuid']})\n"
        + "".join(f"\t Link {link}: {speed} GB/s\n" for link in range(links))
        for gpu in gpus
    )
    near = f"NV{more.get('between', links)}" if links else "PHB"
    files["topo.txt"] = (
        "\t\x1b[4m"
        + "\t".join(f"GPU{i}" for i in range(count))
        + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
        + "".join(
            f"GPU{i}\t"
            + "\t".join(" X " if i == j else near for j in range(count))
            + "\t0-63\t0\t\tN/A\n"
            for i in range(count)
        )
        + "\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n"
    )
    files["apps.csv"] = (
        "gpu_bus_id, gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n" + more.get("apps", "")
    )
    files["dmesg.txt"] = LOG.format(driver=driver) + more.get("log", "")
    proc = {
        "uptime_s": 86400.0,
        "platform": {
            "kernel": "6.8.0-60-generic",
            "wsl": False,
            "container": more.get("container", ""),
        },
        "module_version": driver,
        "nvidia_version": f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver}  Mon Jun  1 00:00:00 UTC 2026\n",
        "pci": [
            {
                "bdf": gpu["pci.bus_id"][4:].lower(),
                "vendor": "0x10de",
                "class": "0x030200",
                "driver": "nvidia",
                "current_link_width": "16",
                "max_link_width": "16",
                "current_link_speed": "16.0 GT/s PCIe",
                "max_link_speed": "16.0 GT/s PCIe",
            }
            for gpu in gpus
        ],
        "dev": [{"path": f"/dev/nvidia{gpu['index']}", "error": ""} for gpu in gpus]
        + [{"path": "/dev/nvidiactl", "error": ""}],
        "memory": {"total_mib": 515000, "available_mib": 498000},
        "cgroup": {"limit_mib": 256000, "used_mib": 2100},
        "disks": {
            "/": disk(480000, 310000, "66306"),
            "/tmp": disk(480000, 310000, "66306"),
            "/root": disk(480000, 310000, "66306"),
            "/workspace": disk(2000000, 1400000, "1048577"),
            "/dev/shm": disk(64000, 63990, "27"),
        },
        "holders": [],
        "hidden_processes": 0,
        "unfinished": [],
    }
    exits = {name: {"rc": 0, "seconds": 0.05, "timed_out": False, "cut": False} for name in files}
    exits["nvidia-smi.csv"]["asked"] = blocks
    exits["_by"] = "gpu_health 1"
    write(name, files, proc, exits)


def disk(total, free, place):
    return {
        "total_mib": total,
        "free_mib": free,
        "inodes": 32000000,
        "inodes_free": 30000000,
        "read_only": False,
        "id": place,
    }


def xml(gpus, driver, major, more):
    reasons = "clocks_event_reason" if major >= 535 else "clocks_throttle_reason"
    power = "gpu_power_readings" if major >= 535 else "power_readings"
    out = [
        '<?xml version="1.0" ?>',
        f'<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v{13 if major >= 570 else 12}.dtd">',
        "<nvidia_smi_log>",
        f"\t<driver_version>{driver}</driver_version>",
        f"\t<attached_gpus>{len(gpus)}</attached_gpus>",
    ]
    for gpu in gpus:

        def tags(depth, **pairs):
            texts = {
                tag: "N/A" if "N/A" in str(text) else text for tag, text in pairs.items()
            }  # here it stands without brackets or unit
            return ["\t" * depth + f"<{tag}>{text}</{tag}>" for tag, text in texts.items()]

        bare = {key: str(value).strip("[]") for key, value in gpu.items()}
        out += ['\t<gpu id="{}">'.format(gpu["pci.bus_id"])]
        out += tags(
            2,
            product_name=gpu["name"],
            persistence_mode=gpu["persistence_mode"],
            display_active="Disabled",
            uuid=gpu["uuid"],
        )
        out += (
            ["\t\t<mig_mode>"]
            + tags(3, current_mig=bare["mig.mode.current"], pending_mig=bare["mig.mode.pending"])
            + ["\t\t</mig_mode>"]
        )
        out += (
            ["\t\t<gpu_virtualization_mode>"]
            + tags(3, virtualization_mode=more.get("virtual", "None"))
            + ["\t\t</gpu_virtualization_mode>"]
        )
        if major >= 570:
            out += tags(2, gpu_recovery_action="None")
        else:
            out += (
                ["\t\t<gpu_reset_status>"]
                + tags(3, reset_required="No", drain_and_reset_recommended="No")
                + ["\t\t</gpu_reset_status>"]
            )
        out += [
            "\t\t<pci>",
            "\t\t\t<pci_bus_id>{}</pci_bus_id>".format(gpu["pci.bus_id"]),
            "\t\t\t<pci_gpu_link_info>",
            "\t\t\t\t<pcie_gen>",
        ]
        out += tags(
            5,
            max_link_gen=gpu["pcie.link.gen.max"],
            current_link_gen=gpu["pcie.link.gen.gpucurrent"],
        ) + ["\t\t\t\t</pcie_gen>", "\t\t\t\t<link_widths>"]
        out += tags(
            5,
            max_link_width="{}x".format(gpu["pcie.link.width.max"]),
            current_link_width="{}x".format(gpu["pcie.link.width.current"]),
        ) + ["\t\t\t\t</link_widths>", "\t\t\t</pci_gpu_link_info>", "\t\t</pci>"]
        out += tags(
            2,
            fan_speed=bare["fan.speed"] if bare["fan.speed"] == "N/A" else bare["fan.speed"] + " %",
            performance_state=gpu["pstate"],
        )
        out += (
            [f"\t\t<{reasons}s>"]
            + tags(
                3,
                **{
                    reasons + "_" + name: "Not Active"
                    for name in (
                        "sw_power_cap",
                        "hw_slowdown",
                        "hw_thermal_slowdown",
                        "hw_power_brake_slowdown",
                        "sw_thermal_slowdown",
                    )
                },
            )
            + [f"\t\t</{reasons}s>"]
        )
        out += (
            ["\t\t<fb_memory_usage>"]
            + tags(
                3,
                total="{} MiB".format(gpu["memory.total"]),
                used="{} MiB".format(gpu["memory.used"]),
            )
            + ["\t\t</fb_memory_usage>"]
        )
        out += (
            tags(2, compute_mode=gpu["compute_mode"])
            + ["\t\t<utilization>"]
            + tags(3, gpu_util="{} %".format(gpu["utilization.gpu"]))
            + ["\t\t</utilization>"]
        )
        out += (
            ["\t\t<ecc_mode>"]
            + tags(3, current_ecc=bare["ecc.mode.current"], pending_ecc=bare["ecc.mode.pending"])
            + ["\t\t</ecc_mode>", "\t\t<ecc_errors>"]
        )
        for branch in ("volatile", "aggregate"):
            count = bare["ecc.errors.uncorrected.volatile.total"]
            out += (
                [f"\t\t\t<{branch}>"]
                + tags(
                    4,
                    sram_correctable=count,
                    sram_uncorrectable=count,
                    dram_correctable=count,
                    dram_uncorrectable=count,
                )
                + [f"\t\t\t</{branch}>"]
            )
        if major >= 580:
            out += tags(
                3, channel_repair_pending="No", tpc_repair_pending="No", unrepairable_memory="No"
            )
        out += ["\t\t</ecc_errors>"]
        if bare["remapped_rows.failure"] == "N/A":
            out += tags(2, remapped_rows="N/A")
        else:
            out += (
                ["\t\t<remapped_rows>"]
                + tags(
                    3,
                    remapped_row_corr=0,
                    remapped_row_unc=0,
                    remapped_row_pending="No",
                    remapped_row_failure="No",
                )
                + ["\t\t</remapped_rows>"]
            )
        out += (
            ["\t\t<temperature>"]
            + tags(
                3, gpu_temp="{} C".format(gpu["temperature.gpu"]), gpu_temp_slow_threshold="92 C"
            )
            + ["\t\t</temperature>"]
        )
        out += (
            [f"\t\t<{power}>"]
            + tags(
                3,
                power_draw="{} W".format(gpu["power.draw"]),
                **{
                    "current_power_limit" if major >= 535 else "power_limit": "{} W".format(
                        gpu["power.limit"]
                    ),
                    "default_power_limit": "{} W".format(gpu["power.default_limit"]),
                },
            )
            + [f"\t\t</{power}>"]
        )
        out += ["\t\t<processes>", "\t\t</processes>", "\t</gpu>"]
    return "\n".join(out + ["</nvidia_smi_log>"]) + "\n"


def write(name, files, proc, exits):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    files = dict(
        files,
        **{
            "proc.json": json.dumps(proc, indent=1, sort_keys=True) + "\n",
            "exit.json": json.dumps(exits, indent=1, sort_keys=True) + "\n",
        },
    )
    for file, text in files.items():
        (folder / file).write_text(text, encoding="utf-8", newline="")


def failed(name, text, code, proc, **more):
    """A box where nvidia-smi can't work: its one answer, and what the system says."""
    exits = {
        "_by": "gpu_health 1",
        "nvidia-smi.csv": {
            "rc": code,
            "seconds": 0.02,
            "timed_out": more.get("hung", False),
            "cut": False,
        },
        "dmesg.txt": {
            "rc": more.get("log_rc", 0),
            "seconds": 0.01,
            "timed_out": False,
            "cut": False,
        },
    }
    files = {"dmesg.txt": more.get("log", LOG.format(driver="580.95.05"))}
    if code != 127:
        files["nvidia-smi.csv"] = text
    base = {
        "platform": {"kernel": "6.8.0-60-generic", "wsl": False, "container": ""},
        "memory": {"total_mib": 64000, "available_mib": 60000},
        "disks": {"/": disk(480000, 310000, "66306")},
        "pci": [],
        "dev": [],
        "holders": [],
        "unfinished": [],
    }
    write(name, files, dict(base, **proc), exits)


CARD = [
    {
        "bdf": "0000:3b:00.0",
        "vendor": "0x10de",
        "class": "0x030200",
        "driver": "",
        "current_link_width": "16",
        "max_link_width": "16",
    }
]
H100 = dict(watts=700, clock=1980, gen=5, cap="9.0", hbm=True, can_mig=True, fabric=True)


def main():
    box("h100x8", "NVIDIA H100 80GB HBM3", 8, "590.44.01", 81559, links=(18, "26.562"), **H100)
    box(
        "a100x8",
        "NVIDIA A100-SXM4-80GB",
        8,
        "535.183.06",
        81920,
        links=(12, "25"),
        watts=400,
        clock=1410,
        gen=4,
        cap="8.0",
        hbm=True,
        can_mig=True,
        lacks=(
            "remapped_rows.correctable",
            "remapped_rows.uncorrectable",
            "remapped_rows.pending",
            "remapped_rows.failure",
            "remapped_rows.histogram.low",
            "remapped_rows.histogram.none",
        ),
    )
    box(
        "l40sx4",
        "NVIDIA L40S",
        4,
        "580.95.05",
        46068,
        watts=350,
        clock=2520,
        gen=4,
        cap="8.9",
        passive=True,
    )
    box(
        "rtx3090x2",
        "NVIDIA GeForce RTX 3090",
        2,
        "550.163.01",
        24576,
        watts=350,
        clock=2100,
        gen=4,
        cap="8.6",
        ecc=False,
        links=(4, "14.062"),
    )
    box(
        "t4x1",
        "Tesla T4",
        1,
        "515.105.01",
        15360,
        watts=70,
        clock=1590,
        gen=3,
        cap="7.5",
        ampere=False,
        passive=True,
        vm=True,
        virtual="Pass-Through",
        lacks=BEFORE_AMPERE,
    )
    box(
        "v100x4",
        "Tesla V100-SXM2-32GB",
        4,
        "470.256.02",
        32510,
        links=(6, "25.781"),
        watts=300,
        clock=1530,
        gen=3,
        cap="7.0",
        hbm=True,
        ampere=False,
        between=2,
        domain=6,
        lacks=BEFORE_AMPERE,
    )
    box(
        "h100mig",
        "NVIDIA H100 80GB HBM3",
        1,
        "590.44.01",
        81559,
        links=(18, "26.562"),
        mig=True,
        used=59,
        cells={"utilization.gpu": "[N/A]"},
        **H100,
    )
    box(
        "rtx4090x2",
        "NVIDIA GeForce RTX 4090",
        2,
        "570.172.08",
        24564,
        watts=450,
        clock=3105,
        gen=4,
        cap="8.9",
        ecc=False,
    )
    box(
        "h100x8-load",
        "NVIDIA H100 80GB HBM3",
        8,
        "590.44.01",
        81559,
        links=(18, "26.562"),
        busy=98,
        used=61000,
        cells={
            "clocks_throttle_reasons.active": "0x0000000000000004",
            "clocks_throttle_reasons.sw_power_cap": "Active",
            "power.draw": "698.10",
            "clocks.current.sm": 1755,
        },
        apps="".join(
            f"00000000:{0x1B + 0x11 * i:02X}:00.0, GPU-{0xA0 + i:08x}-1111-2222-3333-{0xB0 + i:012x}, "
            f"{4100 + i}, python3, 60900 MiB\n"
            for i in range(8)
        ),
        log="[ 4000.100000] NVRM: Xid (PCI:0000:1b:00): 13, pid=3900, name=python3, Graphics Exception: ESR 0x504648=0x1000e\n"
        "[ 4000.200000] NVRM: Xid (PCI:0000:1b:00): 45, pid=3900, name=python3, Ch 00000010\n",
        **H100,
    )
    box("old-faults", "NVIDIA H100 80GB HBM3", 8, "590.44.01", 81559, links=(18, "26.562"), **H100)
    log = HERE / "old-faults" / "dmesg.txt"
    text = log.read_text(encoding="utf-8")
    log.write_text(
        "[  100.000000] NVRM: Xid (PCI:0000:2c:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
        + text
        + "[ 5000.000000] NVRM: Xid (PCI:0000:3d:00): 95, pid=801, Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No\n"
        "[ 5000.100000] NVRM: Xid (PCI:0000:3d:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)\n"
        "[ 5100.000000] NVRM: Xid (PCI:0000:3d:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)\n",
        encoding="utf-8",
    )
    box(
        "vgpu",
        "GRID A100D-40C",
        1,
        "570.172.08",
        40960,
        watts=400,
        clock=1410,
        gen=4,
        cap="8.0",
        passive=True,
        vm=True,
        virtual="VGPU",
        cells={
            "power.draw": "[N/A]",
            "power.limit": "[N/A]",
            "enforced.power.limit": "[N/A]",
            "power.default_limit": "[N/A]",
            "temperature.gpu": "[N/A]",
            "pcie.link.width.current": "[N/A]",
            "pcie.link.width.max": "[N/A]",
            "pcie.link.gen.gpucurrent": "[N/A]",
            "pcie.link.gen.max": "[N/A]",
        },
    )
    box(
        "container-no-log",
        "NVIDIA L40S",
        1,
        "580.95.05",
        46068,
        watts=350,
        clock=2520,
        gen=4,
        cap="8.9",
        passive=True,
        container="docker",
    )
    folder = HERE / "container-no-log"
    (folder / "dmesg.txt").write_text(
        "dmesg: dmesg: read kernel buffer failed: Operation not permitted\njournalctl: No such file or directory\n",
        encoding="utf-8",
    )
    exits = json.loads((folder / "exit.json").read_text(encoding="utf-8"))
    exits["dmesg.txt"]["rc"] = 1
    (folder / "exit.json").write_text(
        json.dumps(exits, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )

    failed(
        "driver-mismatch",
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95\n",
        18,
        {"pci": CARD},
    )
    failed(
        "driver-not-loaded",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n\n",
        9,
        {"pci": CARD},
    )
    failed("no-devices", "No devices were found\n", 6, {"pci": CARD})
    failed("hung", "", None, {"pci": CARD}, hung=True)
    failed("no-gpu", "", 127, {})
    failed(
        "no-runtime",
        "",
        127,
        {"pci": CARD, "platform": {"kernel": "6.8.0", "wsl": False, "container": "kubernetes"}},
        log_rc=1,
        log="dmesg: Operation not permitted\n",
    )
    failed(
        "cgroup",
        "Failed to initialize NVML: Unknown Error\n",
        255,
        {"pci": CARD, "platform": {"kernel": "6.8.0", "wsl": False, "container": "docker"}},
    )
    failed(
        "lost",
        "Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost. Reboot the system to recover this GPU\n",
        15,
        {"pci": CARD},
    )
    failed(
        "wsl",
        "GPU access blocked by the operating system\n",
        17,
        {
            "platform": {
                "kernel": "5.15.167.4-microsoft-standard-WSL2",
                "wsl": True,
                "container": "",
            }
        },
    )
    radeon = [
        {
            "bdf": "0000:83:00.0",
            "vendor": "0x1002",
            "class": "0x120000",
            "driver": "amdgpu",
            "current_link_width": "16",
            "max_link_width": "16",
            "mem_info_vram_total": "206141652992",
            "mem_info_vram_used": "297050112",
            "ras": {"umc_err_count": "ue: 0\nce: 0"},
        }
    ]
    failed(
        "amd",
        "",
        127,
        {"pci": radeon, "dev": [{"path": "/dev/kfd", "error": ""}]},
        log="[    0.000000] Linux version 6.8.0\n[   12.0] amdgpu 0000:83:00.0: amdgpu: SRIOV is off\n",
    )
    radeon = [dict(radeon[0], ras={"umc_err_count": "ue: 3\nce: 0"})]
    failed(
        "amd-ecc",
        "",
        127,
        {"pci": radeon},
        log="[    0.000000] Linux version 6.8.0\n[   50.0] amdgpu 0000:83:00.0: amdgpu: GPU reset begin!\n",
    )


if __name__ == "__main__":
    main()
