#!/usr/bin/env python3
# Generated from the modules in server/remote_gpu_trainer/gpu_health/box_check/.
# Edit them there, then run: rgt dev docs --write
"""Is this GPU box fit to train on? Python 3.8, standard library only.

It also runs as `ssh HOST python3 - < gpu_health.py`.

usage:
  gpu_health.py [--expect LIST] [--python PATH] [--path DIR ...] [--stress SECONDS]
                [--network] [--durable HOST:PATH] [--record DIR] [--json]
  gpu_health.py --replay DIR_OR_FILE [--expect LIST] [--json]
  gpu_health.py --watch SECONDS [--pid PID]

--expect gpus=8,name=H100,vram=80,nvlink=all,driver>=550,torch=cu130 compares the box with what
you pay for. `--expect help` lists the names. --record writes what was read, one file per command.
--replay judges such a folder, a part of one, or one raw file.
Exit 0: fit. Exit 1: care or unfit. Exit 2: unknown, or wrong usage.
A watch: exit 0 at its signal or the end of --pid, exit 1 if something was degraded or fatal, exit 2
if nvidia-smi ended before that.

The levels of the findings give the verdict (function `verdict`): unfit if one is fatal, otherwise
care if one is degraded, otherwise unknown if one is unknown. Warnings leave the box fit. Anything
that could not be read is a finding of level unknown, so the box is then never fit. A replayed
capture without `exit.json` (a raw output from elsewhere) is judged by what it has; what it lacks is
under `not_in_capture`.

Not covered: faults that show only under load (use --stress), the network between boxes, drivers of
makers other than NVIDIA and AMD.
"""

import argparse
import contextlib
import difflib
import errno
import glob
import io
import json
import math
import os
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from functools import partial
from typing import NamedTuple, Optional

# ---- places.py
# The place of a card, and clean text. Text from a box is cut, cleaned, not trusted.

# ANSI sequences: \x1b[4m and the longer forms, and a title that ends with a bell.
ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|\x1b.")
COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]")  # topo -m and dmesg colour their output
BDF = re.compile(r"^(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?$")


def clean(text):
    """Remove ANSI sequences and replace control characters. Line ends and tabs stay."""
    text = ANSI.sub("", text.replace("\r\n", "\n"))
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "?", text)


def short(text, most=240):
    """One clean line of at most `most` characters."""
    text = " ".join(clean(str(text)).split())
    return text if len(text) <= most else text[: most - 1] + "…"


def bdf(text):
    """The place of a card as 0000:3b:00, or None.

    00000000:3B:00.0, 0000:3b:00.0, 0000:3b:00 and 3b:00.0 are one place.
    """
    match = BDF.match((text or "").strip())
    if not match:
        return None
    domain, bus, device = (int(part or "0", 16) for part in match.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}"


# ---- forms.py
# A kernel log as lines, in whichever form it was saved: JSON of journald or of Kubernetes too.


def lines_of(text):
    """The lines of a log. Its messages are the lines where it is JSON.

    `journalctl -o json` writes an object a line, `kubectl get events -o json` one object for all.
    """
    if not text.lstrip().startswith("{"):
        return text.splitlines()
    whole = object_of(text)
    if whole is not None and isinstance(whole.get("items"), list):
        return [line for item in whole["items"] for line in message_of(item)]
    out = []
    for line in text.splitlines():
        record = object_of(line) if line.startswith("{") else None
        out += [line] if record is None else message_of(record)
    return out


def object_of(text):
    """The JSON object that a text is, or None."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def message_of(record):
    """The lines of one record: of the kernel's in a journal, or of an event of Kubernetes."""
    if not isinstance(record, dict) or record.get("_TRANSPORT", "kernel") != "kernel":
        return []
    text = record.get("MESSAGE", record.get("message"))
    if not isinstance(text, str):
        return []
    micro = str(record.get("__MONOTONIC_TIMESTAMP", ""))
    if "message" in record:  # as kubectl prints an event without --output
        head = "{} {} ".format(record.get("type", "Normal"), record.get("reason", "Event"))
    else:
        head = f"[{int(micro) / 1e6:.6f}] " if micro.isdigit() and len(micro) < 20 else ""
    return [head + line for line in text.splitlines()]


# ---- advice.py
# How bad a fault is, and the two things that are done about most of them.

RESET = "reset the GPU while nothing runs on it (nvidia-smi --gpu-reset -i N), or reboot the box"
BACK = "hand the box back and ask for a refund"

# The levels of findings, worst first. fatal: don't train. degraded: finish your job, then reset,
# repair or ask. unknown: it couldn't be read. warn: good to know.
RANK = {"fatal": 0, "degraded": 1, "unknown": 2, "warn": 3}


# ---- tables.py
# Read the tables of data/.


def rows_of(text):
    """The rows of a table as lists of cells. An indented line continues the row before it."""
    joined = re.sub(r"\n[ \t]+", " ", re.sub(r"(?m)^[ \t]*#.*\n", "", text))
    return [[cell.strip() for cell in line.split(" | ")] for line in joined.splitlines() if line]


def codes_of(text):
    """'1-3,7' -> {1, 2, 3, 7}"""
    codes = set()
    for part in text.split(","):
        low, _, high = part.strip().partition("-")
        codes.update(range(int(low), int(high or low) + 1))
    return codes


# ---- log_rules.py
# The bad lines of the kernel log that aren't Xids, and what to do about each kind.

LOG_TABLE = r"""
# Bad lines of the kernel log, and of Fabric Manager's.
#   kind | level | what to do
#     pattern; its first group, where it has one, is the device. The first that is found counts.
#     # a line as it was seen

xid 79 | fatal | -
  # NVRM: GPU at 0000:01:00.0 has fallen off the bus.
  # NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.
  (?i)NVRM: .*GPU (?:at )?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.?[0-7]?).{0,80}fallen off the bus

init | fatal | reboot the box; if it comes back, {BACK}
  # NVRM: GPU 0000:98:00.0: RmInitAdapter failed! (0x62:0x65:1792)
  (?i)NVRM: GPU ([0-9a-f:.]+?): (?:RmInitAdapter|rm_init_adapter) failed
  # NVRM: RmInitAdapter failed! (0x26:0xffff:1127)
  # NVRM: rm_init_adapter failed for device bearing minor number 0
  # (older drivers name no place)
  NVRM: (?:RmInitAdapter failed|rm_init_adapter failed for device)
  NVRM: (?:RmInitAdapter: Cannot initialize GSP|.*failed to wait for GFW_BOOT)

mismatch | fatal | stop all GPU programs and reload the nvidia modules, or reboot the box
  # NVRM: API mismatch: the client has the version 535.171.04, but
  NVRM: API mismatch

gsp | fatal | reset the GPU or reboot the box; if it comes back, {BACK}
  # NVRM: _kgspRpcRecvPoll: … Timeout after 6s of waiting for RPC response from GPU1 GSP!
  # (an Xid line is read before these patterns are tried)
  NVRM: .*(?:[Tt]imeout|timed out).{0,60}\bGSP\d?\b

lost | fatal | reboot the box; if it comes back, {BACK}
  # NVRM: GPU is lost, skipping nvidia_ioctl
  NVRM: GPU is lost, skipping

start failed | fatal | reboot the box; if it comes back, {BACK}
  # NVRM: Device start failed for 0000:3b:00.0 (ret=-5)
  NVRM: Device start failed for ([0-9a-f:.]+)
  # NVRM: Can't find an IRQ for your NVIDIA card!
  NVRM: (?:Can't find an IRQ for your NVIDIA card|NVSwitch init failed|NVLink core init failed)
  NVRM: FATAL: Failed to re-allocate BAR1
  NVRM: Fatal Error while attempting to resize PCIe BARs

unified memory | fatal | reboot the box; if it comes back, {BACK}
  # nvidia-uvm: uvm encountered global fatal error 0x60, requiring os reboot to recover.
  uvm encountered global fatal error

watchdog | degraded | restart the job; if it comes back, reset the GPU or reboot the box
  # NVRM: krcWatchdog_IMPL: RC watchdog: GPU is probably locked!  Notify Timeout Seconds: 7
  NVRM: .{0,60}GPU is probably locked

interrupts | degraded | finish your job, then reboot; if it comes back, {BACK}
  # NVRM: Going over RM unhandled interrupt threshold for irq 104
  NVRM: Going over RM unhandled interrupt threshold

reset required | fatal | reset the GPU or reboot the box
  NV_ERR_RESET_REQUIRED

probe | fatal | another driver (nouveau, vfio) holds the card: unbind it, or hand the box back
  # NVRM: The NVIDIA probe routine was not called for 3 device(s).
  NVRM: (?:No NVIDIA (?:graphics adapter|devices) probed|The NVIDIA probe routine was not called)

probe failed | fatal | the driver could not start a card: read the lines before it, reboot; if it
    comes back, {BACK}
  # NVRM: The NVIDIA probe routine failed for 1 device(s).
  # NVRM: None of the NVIDIA devices were initialized.
  NVRM: The NVIDIA probe routine failed for \d+ device
  NVRM: None of the NVIDIA (?:devices|graphics adapters) were initialized

module | fatal | load the kernel module that this card needs: NVIDIA's open one for Blackwell and
    later, the closed one for cards before Turing; or {BACK}
  # NVRM: installed in this system requires use of the NVIDIA open kernel modules.
  # NVRM: is not supported by open nvidia.ko because it does not include the
  NVRM: .{0,120}(?:requires use of the NVIDIA open kernel|is not supported by open nvidia\.ko)

bar | fatal | the card got no address space: reboot; if it comes back, {BACK}; on your own machine
    turn Above 4G decoding on, or boot with pci=realloc
  # NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:
  # NVRM: BAR1 is 0M @ 0x0 (PCI:0000:04:00.0)
  NVRM: BAR\d is \d+M @ 0x0+ \(PCI:([0-9a-f:.]+)\)
  NVRM: BAR\d is 0M

legacy | warn | nothing, if the job does not need this card: it is too old for the driver
  # NVRM: ignoring the legacy GPU 0000:05:02.0
  NVRM: ignoring the legacy GPU ([0-9a-f:.]+)

aer card | degraded | finish your job, then reboot; if it comes back, hand the box back: slot, riser
    or card
  # nvidia 0000:03:00.0: AER: can't recover (no error_detected callback)
  # nvidia 0000:02:00.0: device has no AER-aware driver
  # (the port above the card reports the error, and this line names the card: rwth-i6/returnn#1500,
  # wilicc/gpu-burn#1)
  (?i)\bnvidia ([0-9a-f:.]+): (?:AER: can't recover|device has no AER-aware driver)

aer | degraded | finish your job, then reboot; if it comes back, hand the box back: slot, riser or
    card
  # pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: 0000:01:00.0
  # … AER: Uncorrectable (Fatal) error message received from …
  (?i)AER: .{0,40}Uncorrect(?:ed|able).{0,60}?received(?: from|:):? ([0-9a-f:.]+)
  (?i)nvidia ([0-9a-f:.]+): (?:AER: )?PCIe Bus Error: severity=Uncorrect

nvlink mask | degraded | reboot the box; if it comes back, {BACK}
  # NVRM: knvlinkDiscoverPostRxDetLinks_GH100: Getting peer2's postRxDetLinkMask failed!
  # (gpud calls it unhealthy)
  NVRM: knvlink(?:Update|Discover)PostRxDet\w+: .{0,40}(?:Failed to update|postRxDetLinkMask failed)

fabric topology | fatal | a switch is missing: reboot the box; if it comes back, {BACK}
  # detected number of NVSwitches don't match with any supported system topology, aborting …
  # (Fabric Manager's own log)
  detected number of NVSwitches don't match with any supported system topology

fabric team | degraded | restart the job; if it comes back, reboot the box
  failed to find the GPU handle \d+ in the multicast team

peermem | warn | the network card lost its access to GPU memory: watch NCCL, restart the job if
    it hangs
  # nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping …
  nvidia[-_]peermem.{0,60}ERROR detected invalid context

nccl crash | warn | a job crashed inside NCCL: read its log, and update NCCL if it comes back
  # pt_main_thread[2536443]: segfault at 7f797fe00000 ip 00007f7c7ac69996 … in libnccl.so.2[…]
  segfault at .{0,160} in libnccl\.so

disk | degraded | check whether the job's paths are on it; save what matters elsewhere, and
    change the box
  # EXT4-fs (dm-0): Remounting filesystem read-only
  # I/O error, dev nvme0n1, sector 8
  # nvme nvme4: I/O tag 22 … timeout, reset controller
  # nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff
  # EXT4-fs error (device nvme19n1): ext4_wait_block_bitmap:517: comm etcd: Cannot read block bitmap
  # XFS (dm-0): log I/O error -5
  # XFS (sda4): Metadata corruption detected at xfs_dinode_verify.part.0+0x739/0x920 [xfs], inode …
  # BTRFS error (device sda2): bdev /dev/sda2 errs: wr 0, rd 12, flush 0, corrupt 0, gen 0
  # blk_update_request: critical medium error, dev nvme0n1, sector 8 op 0x0:(READ)
  # (fs/ext4/super.c, fs/xfs/xfs_message.c, fs/btrfs/messages.c, drivers/nvme/host/pci.c,
  # block/blk-core.c. A loop device is an image, whose faults are seldom the disk's.)
  Remounting filesystem read-only
  md/raid\S{0,20}: Disk failure on
  \bnvme\S{1,20}: no available path - failing I/O
  nvme nvme\d+: (?:Disabling device after reset failure|controller is down|Device not ready; abort)
  nvme nvme\d+: I/O .{0,80}timeout, (?:aborting|(?:reset|disable) controller)
  EXT4-fs error \(device (?!loop)
  XFS \((?!loop)\S{1,30}\): .{0,60}(?:corruption detected|Corruption detected|CRC error|I/O error)
  XFS \((?!loop)\S{1,30}\): .{0,60}(?:has been shut down|[Ss]hutting down filesystem)
  BTRFS:? (?:error|critical) \(device (?!loop)
  JBD2: Detected IO errors
  Aborting journal on device (?!loop)
  critical (?:medium|target) error, dev (?:nvme|sd|vd|xvd|dm-|md)
  I/O error while writing superblock
  Buffer I/O error on dev (?:nvme|sd|vd|xvd|dm-|md)
  \bI/O error, dev (?:nvme|sd|vd|xvd|dm-|md)
  # EXT4-fs warning (device vdb1): ext4_end_bio:343: I/O error 10 writing to inode 14 starting …
  # (fs/ext4/page-io.c: what a program wrote is lost)
  EXT4-fs warning \(device (?!loop).{0,80}I/O error -?\d+ writing to inode

disk end | warn | look at the line before it for the device; a loop device is harmless
  attempt to access beyond end of device

nfs | degraded | wait for the server, or move the job's paths off it
  nfs: server \S{1,80} not responding
  nfs4_reclaim_open_state: Lock reclaim failed

killed | warn | the box or the container ran out of memory: fewer workers, or a larger limit
  # Out of memory: Killed process 4100 (python3) …
  # Memory cgroup out of memory: Killed process …
  # Killed process 4100 (python3) total-vm:665772kB, anon-rss:321332kB (kernels before 5.0)
  [Oo]ut of memory: Killed process
  Killed process \d+ \([^)]{1,60}\),? .{0,20}total-vm:\d

locked | degraded | a processor has been stuck in the kernel for minutes, and what runs on it can't
    go on: save what you can, reboot the box; if it comes back, {BACK}
  # watchdog: BUG: soft lockup - CPU#18 stuck for 1043s! [python3:2254956]
  # rcu: (t=262520 jiffies g=65669 q=4492 ncpus=64)
  # (120 s, after which the kernel calls a task hung: admin-guide/sysctl/kernel.rst. A second has
  # at most 1000 jiffies. One report of 20 s also comes from a virtual machine that was paused.)
  soft lockup - CPU#\d+ stuck for (?:1[2-9]\d|[2-9]\d\d|\d{4,})s
  rcu\w{0,20}:.{0,200}\bt=(?:1[2-9]\d{4}|[2-9]\d{5}|\d{7,}) jiffies

stuck in the driver | degraded | nvidia-smi and kill won't help: save what you can, reboot the box;
    if it comes back, {BACK}
  # INFO: task cache_mgr_event:620917 blocked for more than 120 seconds.
  # (a thread of DCGM; like NVIDIA's other tools it waits for the driver alone: leptonai/gpud#117)
  task (?:cache_mgr_\w+|nv-hostengine|nvidia-smi|nvidia-persiste\w*|dcgm\w*|dcgmi):\d+ blocked for

stuck | warn | look at the disks and mounts that this process used; reboot if it comes back
  # watchdog: BUG: soft lockup - CPU#18 stuck for 27s! [python3:2254956]
  # INFO: task python3:77 blocked for more than 120 seconds.
  # rcu: INFO: rcu_sched self-detected stall on CPU
  soft lockup - CPU#\d+ stuck
  task \S.{0,80}:\d+.{0,20} blocked for more than \d+ seconds
  rcu\w{0,20}: INFO: rcu\w+ (?:self-)?detected stall
  Watchdog detected hard LOCKUP

# `stuck`, where the trace of calls says that the task waits for a file system; one that waits for
# the driver is `stuck in the driver`.
stuck in a file system | degraded | wait for the mount or its server; if it doesn't answer, save
    elsewhere, and start again without it: the process can't be killed meanwhile

files | degraded | programs can't open files any more: raise fs.file-max, or find who holds them
  VFS: file-max limit \d+ reached

host memory | fatal | the machine's memory gives errors that can't be corrected, and the kernel
    kills programs for them: save your checkpoints elsewhere and check them, {BACK}
  # EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 …
  # mce: Uncorrected hardware memory error in user-access at 7740c0140
  # Memory failure: 0x7740c0: Sending SIGBUS to python3:51201 due to hardware memory corruption
  # (drivers/edac/edac_mc.c, arch/x86/kernel/cpu/mce/core.c, mm/memory-failure.c)
  EDAC \S{1,20}: \d+ UE
  mce: Uncorrected hardware memory error
  Memory failure: 0x[0-9a-f]{1,16}: .{0,200}due to hardware memory corruption

failing memory | degraded | the machine's memory or processor corrects so many errors that it is
    about to fail: save your checkpoints elsewhere, finish your job, then {BACK}
  # EDAC MC1: 262 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (… OVERFLOW area:DRAM …
  # [Hardware Error]: CPU:0 (19:1:1) MC17_STATUS[Over|CE|MiscV|AddrV|-|-|SyndV|CECC|-|-|-]: 0xdc20…
  # CMCI storm detected: switching to poll mode
  # (overflow: errors came faster than they could be counted)
  EDAC \S{1,20}: \d{2,} CE
  EDAC \S{1,20}: \d CE .{0,300}OVERFLOW
  MC\d+_STATUS\[Over\|CE
  CMCI storm detected

corrected memory | ok | the machine corrected it: watch whether it comes back, and keep your
    checkpoints elsewhere too
  # EDAC MC1: 1 CE memory scrubbing error on CPU_SrcID#1_Ha#0_Chan#0_DIMM#0 (channel:0 slot:0 …
  # (one of them does no harm; how many there are is counted in repeated.py)
  EDAC \S{1,20}: \d CE
  MC\d+_STATUS\[-\|CE
  mce: \[Hardware Error\]: Machine check events logged

machine check | degraded | the processor met an error that it couldn't correct, which stops a
    machine: save your checkpoints elsewhere and check them; if it comes back, {BACK}
  # [Hardware Error]: System Fatal error.
  # [Hardware Error]: CPU:3 (19:21:0) MC5_STATUS[-|UE|MiscV|AddrV|PCC|TCC|SyndV|-|-|-]: 0xbea…
  # mce: [Hardware Error]: CPU 2: Machine Check: 0 Bank 5: be00000000800400
  # {1}[Hardware Error]: event severity: fatal
  # x86/amd: Previous system reset reason [0x08000800]: an uncorrected error caused a data fabric …
  # (drivers/edac/mce_amd.c, arch/x86/kernel/cpu/mce/core.c, drivers/firmware/efi/cper.c,
  # arch/x86/kernel/cpu/amd.c. Bit 61 of a bank's status says that it wasn't corrected: Intel's
  # manual, volume 3B, "IA32_MCi_STATUS MSRs". They are read after the boot that such an error
  # leads to, so the machine may work again.)
  \[Hardware Error\]: System Fatal error
  MC\d+_STATUS\[(?:Over|-)\|UE
  Machine Check(?: Exception)?: [0-9a-f]{1,16} Bank \d+: [abef][0-9a-f]{15}
  \[Hardware Error\]: event severity: fatal
  system reset reason .{0,20}: an uncorrected error

iommu | degraded | the host refused this card's access to memory, so data may be lost on its way:
    reset the GPU while nothing runs on it, or reboot the box; if it comes back, {BACK}
  # DMAR: [DMA Write NO_PASID] Request device [4e:00.0] fault addr 0x7ebb0000 [fault reason 0x05] …
  # nvidia 0000:01:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0014 address=0xfd600000 …
  # AMD-Vi: Event logged [IO_PAGE_FAULT device=0000:01:00.0 domain=0x0014 address=…
  # (drivers/iommu/intel/dmar.c, drivers/iommu/amd/iommu.c)
  DMAR: ?\[DMA (?:Read|Write)[^\]]{0,40}\] Request device \[(?:0x)?([0-9a-f:.]+)\]
  \b([0-9a-f:.]{7,16}): AMD-Vi: Event logged \[IO_PAGE_FAULT
  AMD-Vi: Event logged \[IO_PAGE_FAULT device=([0-9a-f:.]+)

clock source | degraded | the processors' clocks disagree, and each look at the time is slow now:
    compare the speed of a step with another box; reboot; if it comes back, {BACK}
  # clocksource: timekeeping watchdog on CPU37: Marking clocksource 'tsc' as unstable because the …
  # clocksource: 'tsc' is current clocksource.
  # (kernel/time/clocksource.c. A virtual machine that looks at another clock says instead
  # 'kvm-clock' (not 'tsc') is current clocksource, and nothing changes for it.)
  clocksource: +'tsc' is current clocksource

processor heat | warn | watch the speed of a step: the processor was slowed down because of heat; if
    it comes back, ask the provider, or change the box
  # mce: CPU0: Package temperature above threshold, cpu clock throttled (total events = 3058)
  # CPU3: Package temperature is above threshold, cpu clock is throttled (total events = 2)
  # (drivers/thermal/intel/therm_throt.c: a processor says it at most every 300 s)
  Package temperature (?:is )?above threshold, cpu clock (?:is )?throttled

network card | warn | ask the provider: power or cooling of the network card
  Detected insufficient power on the PCIe slot
  Port module event.{0,80}High Temperature

network register | warn | nothing, if NCCL works: this machine may not read that network port
  # mlx5_core 0000:d2:00.0: mlx5_cmd_out_err:838:(pid 268269): ACCESS_REG(0x805) op_mod(0x1) failed
  # (usual in virtual machines)
  mlx5_cmd_out_err.{0,40}ACCESS_REG.{0,40}failed

panic | degraded | the machine stopped: look at the lines before it; if it comes back, {BACK}
  # (In a log of this boot only where the machine went on; netconsole and pstore hold it too.)
  Kernel panic - not syncing

amd reset | degraded | restart the job; if it comes back, reboot the box
  # amdgpu 0000:e3:00.0: amdgpu: GPU reset begin!
  amdgpu ([0-9a-f:.]+): .{0,40}GPU reset begin

amd ecc | fatal | reboot the box, or hand it back
  # amdgpu 0000:e3:00.0: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!
  # amdgpu 0000:68:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!
  # amdgpu 0000:03:00.0: amdgpu: socket: 0, die: 1, 2 new uncorrectable hardware errors detected …
  # (drivers/gpu/drm/amd/amdgpu/amdgpu_ras.c; ROCm#1886, ROCm#4021)
  (?i)amdgpu ([0-9a-f:.]+): .{0,80}(?<!\b0 )uncorrectable hardware errors? ?(?:\([^)]*\) ?)?detect

amd xgmi | ok | watch the speed of a step: the links between the cards correct errors; if the count
    rises, reboot the box; if it comes back, {BACK}
  # amdgpu 0000:9e:00.0: {1}1533 correctable hardware errors detected in total in xgmi_wafl block
  # (how many there are is read in repeated.py)
  amdgpu ([0-9a-f:.]+): .{0,80}\d correctable hardware errors detected in .{0,20}xgmi

amd ring | degraded | restart the job; if it comes back, reboot the box
  amdgpu ([0-9a-f:.]+): .{0,60}ring \S+ timeout
"""


def log_rules():
    """-> ([(kind, level, pattern)] in the order of the table, {kind: what to do})."""
    rules, actions = [], {}
    for paragraph in re.sub(r"(?m)^ *#.*\n", "", LOG_TABLE).strip().split("\n\n"):
        kind, level, action = rows_of(re.sub(r"\n  (?! )", "\n", paragraph))[0]
        if action != "-":
            actions[kind] = action.format(BACK=BACK)
        patterns = re.findall(r"(?m)^  (\S.*)$", paragraph)
        rules += [(kind, level, re.compile(pattern)) for pattern in patterns]
    return rules, actions


LOG_RULES, LOG_ACTION = log_rules()


# ---- traces.py
# What a hung task or a locked processor waited for, by the trace of calls below its line.

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


# ---- xids.py
# Xids and SXids, the driver's numbers for faults: how bad each is, and what to do about it.
#
# Sources: of the Xids, see data/xids.txt. SXids: gpud's table, read on 2026-11-20, from the
# Fabric Manager guide of October 2023. Recovery actions: NVML, and `nvidia-smi` from R565 on.

# Xid -> (level, NVIDIA's action, what it is); where we say otherwise, Xid -> (what to do, why)
XID_TABLE = r"""
# numbers | level | NVIDIA's action | what it is | what we say to do | why it isn't NVIDIA's action
# Names and actions are NVIDIA's, levels and reasons ours. Without the last two cells, what
# to do is NVIDIA's action in words (xids.py). Numbers that aren't listed are unknown.
# Sources, compared on 2026-11-27: NVIDIA's Xid catalogue page (numbers to 172; its rows give no
# action for 162 to 172, some a note), which gpud's table of 2025-10-29 repeats row by row;
# open-gpu-kernel-modules 595.45.04 of 2026-03-05 (to 176); 185 from the page as of 2026-11-20.
1-7,9,10,12,15-24,26-30,33-36,47,49-53,55,56,65,73,90,91, 111-118,138 | warn | CONTACT_SUPPORT |
    legacy or reserved number, unused on current GPUs
8 | warn | RESTART_APP | idle timeout of a channel
11,25 | warn | RESTART_APP | invalid command stream
13 | warn | RESTART_APP | fault inside a kernel, usually the application's bug
14,106,107 | ok | IGNORE | test message
31 | warn | RESTART_APP | GPU page fault, usually the application's illegal address
32 | degraded | RESTART_APP | push-buffer DMA fault, suspect the PCIe link | restart the job; if it
    comes back, hand the box back: slot, riser or card | the data was damaged on its way to the
    card, which a restart doesn't mend
37,38,44,66,67 | warn | IGNORE | context-switch firmware or driver check
39-41,70-72,75-77,85,126-135 | warn | RESTART_APP | copy engine exception
42 | warn | CONTACT_SUPPORT | legacy video exception
43 | warn | IGNORE | the application was stopped, the GPU is healthy
45 | ok | WORKFLOW_XID_45 | clean-up after a killed application
46 | fatal | RESET_GPU | an engine stopped working
48 | fatal | WORKFLOW_XID_48 | uncorrectable ECC error
54 | fatal | CHECK_MECHANICALS | auxiliary power cable missing
57,58,59,61 | degraded | CONTACT_SUPPORT | memory link or power controller error of older GPUs
60 | warn | RESTART_APP | video processor exception
62 | fatal | RESET_GPU | power-management controller halted
63 | degraded | IGNORE | a page or row was retired, active after a reset | finish your job, then
    {RESET} | until the reset the card still uses the bad page or row
64 | fatal | RESET_GPU | a page or row could not be retired
68,69,82-84,86,88,89,96-105,139 | warn | RESTART_APP | engine exception, usually the application's
74 | fatal | WORKFLOW_NVLINK_ERR | NVLink error
78 | degraded | UPDATE_SWFW | vGPU could not start, versions differ
79 | fatal | RESTART_BM | the GPU has fallen off the bus
80 | degraded | RESTART_APP | command data damaged on the way to the GPU | restart the job; if it
    comes back, hand the box back: slot, riser or card | as for 32
81 | degraded | CONTACT_SUPPORT | legacy VGA error
87 | ok | CONTACT_SUPPORT | unused
152,153 | ok | IGNORE | informational
92 | degraded | IGNORE | too many corrected ECC errors | finish your job, then ask for another card
    | the job may go on, but the memory is about to fail
93 | warn | IGNORE | InfoROM write limit reached
94 | degraded | RESTART_APP | contained ECC error | restart the job; at its end {RESET} | the bad
    row is replaced by the reset only
95 | fatal | RESET_GPU | uncontained ECC error
108,121,137,141 | warn | IGNORE | NVLink address, C2C or fast-path error
109 | degraded | RESET_GPU | context switch timed out
110 | fatal | RESET_GPU | security fault
119 | fatal | RESET_GPU | GSP firmware did not answer
120 | fatal | RESET_GPU | GSP firmware crashed
122-125 | degraded | CONTACT_SUPPORT | flash or InfoROM error
136 | fatal | RESET_GPU | NVLink training failed
140 | fatal | RESET_GPU | ECC error escaped its handling
142 | warn | CONTACT_SUPPORT | video encoder error
143 | fatal | RESET_GPU | the GPU failed to initialise
144-149 | degraded | WORKFLOW_NVLINK5_ERR | NVLink 5 unit error, the line says fatal or not
150 | fatal | WORKFLOW_NVLINK5_ERR | NVLink 5 watchdog
151 | fatal | RESTART_VM | key rotation failed
154 | degraded | XID_154 | recovery action changed
155,156 | degraded | RESET_GPU | link declared down, or a resource was retired
157,161 | degraded | IGNORE | no spare resource is left, or a repair could not be recorded | finish
    your job, then ask for another card | the next fault there can't be repaired
160 | degraded | IGNORE | a memory channel is marked for repair | finish your job, then {RESET} |
    the repair takes effect with a reset
158 | fatal | RESET_GPU | fatal timeout
159 | degraded | CHECK_UVM | coherent link error
162 | ok | NONE_LISTED | power smoothing works again
163 | warn | NONE_LISTED | power smoothing is off, because of heat or a timeout | nothing, if
    nobody needs power smoothing; else cool the card, or {RESET} | NVIDIA gives a note instead of
    an action: no reset is required
164 | warn | NONE_LISTED | power smoothing near the end of its life | watch it | NVIDIA gives a
    note: plan to replace the card where power smoothing is wanted
165 | degraded | NONE_LISTED | power smoothing is at the end of its life | finish your job, then
    ask the provider whether the power swings are acceptable | NVIDIA gives a note: replace the
    card where they aren't
166 | degraded | NONE_LISTED | confidential computing: NVLink traffic before it was encrypted | ask
    the provider | the catalogue lists no action; who runs the host sets up the encryption
167 | fatal | NONE_LISTED | PCIe timeout | reboot the box | the catalogue lists no action; the link
    is dead until then
168 | degraded | NONE_LISTED | errors in the protected memory region, seen only with ECC off | turn
    ECC on (nvidia-smi -e 1), then {RESET} | NVIDIA gives a note: enable ECC, or boot again
169 | fatal | NONE_LISTED | the security controller halted | {RESET} | the catalogue lists no
    action; a halted controller starts again with a reset
170 | warn | NONE_LISTED | confidential computing: an interrupt of NVLink | ask the provider | the
    catalogue lists no action; who runs the host sets up the encryption
171,172 | fatal | NONE_LISTED | detail of Xid 48: the error was in DRAM or SRAM | {RESET} | the
    catalogue lists no action; the Xid 48 beside it has one
173 | fatal | NONE_LISTED | the C2C link failed | reboot the box | not in the catalogue
174 | ok | NONE_LISTED | a process was ended with its channel
175 | degraded | NONE_LISTED | memory subsystem error | finish your job, then {RESET} | not in the
    catalogue
176 | warn | NONE_LISTED | many corrected PCIe errors | watch it | not in the catalogue
185 | degraded | NONE_LISTED | spare memory was put to use, or is gone | finish your job, then
    {RESET} | not in the catalogue
""".replace("{RESET}", RESET)
XID_ROWS = [(codes_of(row[0]), row[1:4], row[4:]) for row in rows_of(XID_TABLE)]
XID = {code: tuple(nvidias) for codes, nvidias, _ in XID_ROWS for code in codes}
XID_OURS = {code: tuple(ours) for codes, _, ours in XID_ROWS if ours for code in codes}

# SXid (NVSwitch) -> whether it is fatal: always, maybe (if the line says so), stalls, or never
SXID_FATAL = {
    "always": "10003,12020,22003,22011,23001-23017",
    "maybe": (
        "10001,10002,10004,10005,11001,11009,11013,11018-11020,12001,12002,12022,12024-12027,"
        "12030-12032,14017,15001,15006,15009,15010,15012,15013,19047,19048,19054,19056,19058,"
        "19060,19061,19063,19064,19066,19067,19069,19070,20034,22012,24004-24007"
    ),
    # Not fatal, but the traffic of a GPU stops, its programs hang, and gpud restarts the box.
    "stalls": "11004,12028,19084",
    "never": (
        "11012,11021-11023,12021,12023,15008,15011,19049,19055,19057,19059,19062,"
        "19065,19068,19071,20001,20009,20012,22013,24001-24003"
    ),
}
SXID = {code: when for when, codes in SXID_FATAL.items() for code in codes_of(codes)}

# Xid -> word in ENTRY
XID_ENTRY = {
    48: "ecc",
    63: "ecc",
    64: "ecc",
    92: "ecc",
    94: "ecc",
    95: "ecc",
    79: "lost",
    109: "stuck",
    119: "gsp",
    120: "gsp",
}

# NVIDIA's action for an Xid, in words
NVIDIA_WORDS = {
    "IGNORE": "nothing to do",
    "RESTART_APP": "restart the job",
    "RESET_GPU": RESET,
    "RESTART_BM": "reboot the box",
    "RESTART_VM": "reboot the box",
    "CONTACT_SUPPORT": "ask the provider",
    "CHECK_MECHANICALS": "power cable: " + BACK,
    "UPDATE_SWFW": "versions of host and guest differ: ask the provider",
    "WORKFLOW_XID_48": RESET,
    "WORKFLOW_NVLINK_ERR": "reboot the box",
    "WORKFLOW_NVLINK5_ERR": RESET,
    "CHECK_UVM": "restart the job",
    "XID_154": "do what it says",
    "NONE_LISTED": "ask the provider",
    "WORKFLOW_XID_45": "look at the Xid next to it",
}

UNKNOWN_XID = "look it up in NVIDIA's Xid catalogue"


# 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)
CHANGED = re.compile(r"changed from .*? to (?:0x[0-9a-f]+ )?\(?([^()]*)\)?")


# 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149
# (open-gpu-kernel-modules prints it where it knows which fault it cleans up after)
PREVIOUS = re.compile(r"caused by previous Xid (\d{1,4})\b")


def previous_xid(line):
    """The Xid that a clean-up (Xid 45) names as its cause, or None."""
    named = PREVIOUS.search(line)
    return int(named.group(1)) if named else None


def xid_words(code, level, line=""):
    """Return what to do about an Xid. `line`: its line, in which Xid 154 says it."""
    changed = CHANGED.search(line) if code == 154 else None
    if changed:
        return recovery_of(changed.group(1))[1]
    if code in XID_OURS:
        return XID_OURS[code][0]
    action = XID.get(code, ("", "", ""))[1]
    if action == "IGNORE" and RANK[level] < RANK["unknown"]:
        return "finish your job, then " + RESET
    return NVIDIA_WORDS.get(action, "ask the provider")


def xid_level(code, text):
    """The level of an Xid: the table's, unless the line says more."""
    level = XID[code][0] if code in XID else "unknown"
    if 144 <= code <= 149:
        word = re.search(r"\b(Fatal|Nonfatal|Non-fatal)\b", text)
        return "fatal" if word and word.group(1) == "Fatal" else level
    if code in (94, 95):
        return "fatal" if re.search(r"\bRST: Yes", text) else level
    if code == 154:
        action = CHANGED.search(text)
        return recovery_level(action.group(1)) if action else "degraded"
    return level


# The recovery actions: the words of NVML (R615), nvidia-smi and Xid 154, how bad, what to do.
RECOVERY = (
    ("none|0", "ok", "nothing"),
    ("gpu reset|reset|gpu reset required|1", "fatal", RESET),
    (
        "node reboot|reboot|node reboot required|system reboot|2|7",
        "fatal",
        "reboot the box; if it comes back, " + BACK,
    ),
    ("bus reset|6", "fatal", "reboot the box: a reset of its bus is up to the host"),
    (
        "drain p2p|3",
        "degraded",
        "finish what runs, then restart every job that uses NVLink or peer-to-peer with this GPU",
    ),
    ("drain and reset|4", "degraded", "finish your job, start nothing new, then " + RESET),
    ("recover imex domain|5", "degraded", "ask the provider to restore the IMEX domain"),
)
RECOVERY_OF = {
    words: (level, action) for names, level, action in RECOVERY for words in names.split("|")
}


def recovery_of(text):
    """-> (the level of a recovery action's words, what to do). Any word but None is bad."""
    words = re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()
    urgent = "drain" not in words and re.search(r"reset|reboot", words)
    unknown = ("fatal" if urgent else "degraded", "do what it says; if it comes back, " + BACK)
    return RECOVERY_OF.get(words, unknown)


def recovery_level(text):
    """The level of a recovery action's words."""
    return recovery_of(text)[0]


# ---- kernel_log.py
# Turn the lines of the kernel log into events.

# NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
# NVRM: Xid (0000:03:00): 14, Channel 00000001
# NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: …
XID_LINE = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)([^)]*)\): (\d{1,6})(?:[,\s](.*))?$")

# nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error
SXID_LINE = re.compile(r"SXid \(PCI:([0-9a-fA-F:.]+)\): (\d{1,6})(?:[,\s]+(.*))?$")

# [Feb 27 2025 15:10:02] [ERROR] [tid 12727] detected NVSwitch non-fatal error 12028 on fid 0
#   on NVSwitch pci bus id 00000000:86:00.0 …      one line, Fabric Manager's
FM_LINE = re.compile(
    r"detected NVSwitch (non-fatal|fatal) error (\d{1,6}) .{0,60}?pci bus id ([0-9a-fA-F:.]+)"
)

# A load of the driver begins with the first of these lines. The second comes after the driver has
# looked at each card, so what it says about a card that failed stands between the two.
LOAD_BEGINS = "nvidia-nvlink: Nvlink Core is being initialized"
LOAD_DONE = "NVRM: loading NVIDIA UNIX"

# These lines end everything before them: a boot, a load or unload of the driver.
# "NVRM: Try unloading the conflicting kernel module" is advice, and ends nothing.
# -- Boot 6d43c94c5e0a4d4c8f2f2e2f0a1b2c3d --   and   -- Reboot --      journalctl, between boots
BOOT = re.compile(r"Linux version \d+\.\d+|^-- (?:Boot [0-9a-f]{32}|Reboot) --")
OLD = re.compile(
    rf"{BOOT.pattern}|{LOAD_BEGINS}|{LOAD_DONE}"
    r"|nvidia: module unloaded|NVRM: (?!Try ).{0,60}unloading"
)

# What the driver says while it loads about cards that it can't use.
LOAD_KINDS = ("probe", "probe failed", "bar", "legacy", "module")

# A line that looks like one of a log:
# [   12.345678] NVRM: …      Jan 18 11:38:05 host kernel: …
# 6,3973,227996636,-;…      2026-11-20T16:31:06 …
# [Jan21 11:05] …      [  +0.000844] …      dmesg -H
#   Warning  Ext4Error  2m13s (x2 over 2m13s)  kernel-monitor  EXT4-fs error …      kubectl describe
# 2m13s  Warning  Ext4Error  node/a  EXT4-fs error …      kubectl get events
LOG_LIKE = re.compile(
    r"^\s*(?:<\d+>)?\[ *(?:\+?\d+\.\d+\]|[A-Z]\w{2} |[A-Z]\w{2}\d\d \d\d:\d\d\])|^--|^\d+,\d+,\d+,"
    r"|^[A-Z]\w{2}\.? +\d+ \d\d:\d\d|^\d{4}-\d\d-\d\d|NVRM:|SXid \(|\[Hardware Error\]:"
    r"|^\s*(?:\S{1,30} +)?(?:Warning|Normal) +[A-Z]\w+ ",
    re.M,
)

# nvidia 0000:3b:00.0: reset done      pci core, after a reset of one device
RESET_DONE = re.compile(r"\b([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})\.[0-7]: reset done")

# Faults of the machine itself: they meet every container on it.
MACHINE_KINDS = (
    "host memory",
    "failing memory",
    "corrected memory",
    "machine check",
    "clock source",
    "processor heat",
)

# Faults of the host, not of the driver: only a boot ends them, and a container may see those of its
# neighbours.
HOST_KINDS = (
    *MACHINE_KINDS,
    "disk",
    "disk end",
    "nfs",
    "killed",
    "stuck",
    "stuck in a file system",
    "locked",
    "files",
    "network card",
    "network register",
    "panic",
    "nccl crash",
)

# A line with none of these is plain; the others are compared with every rule.
WORTH = re.compile(
    r"NVRM|SXid|AER|amdgpu|reset done|NVSwitch|peermem|libnccl|I/O|read-only|Disk failure"
    r"|reset failure|beyond end|nfs|Killed process|lockup|blocked for more|file-max|ACCESS_REG"
    r"|Kernel panic|insufficient power|High Temperature|multicast team|uvm encountered"
    r"|detected stall|LOCKUP|jiffies|EDAC|mce:|Memory failure|DMAR|AMD-Vi|clocksource"
    r"|EXT4-fs error|XFS \(|BTRFS|JBD2|Aborting journal|critical \w+ error|nvme nvme"
    r"|_STATUS\[|CMCI|Hardware Error|system reset reason"
)
NFS_OK = re.compile(r"nfs: server (\S{1,80}) OK")

# NVRM: The NVIDIA GPU 0000:b3:00.0 / NVRM: (PCI ID: …) installed in this system has /
# NVRM: fallen off the bus and is not responding
SPLIT_LINE = re.compile(r"NVRM: The NVIDIA GPU ([0-9a-f:.]+)", re.I)


LONGEST = 4000  # characters of a line that are compared; the kernel writes at most about 1000


class SplitReport:
    """The report of a lost GPU, which the driver writes in up to four lines."""

    def __init__(self, place, line):
        """`line`: its first line."""
        self.place, self.text, self.lines_left = place, line, 3

    def take(self, line):
        """Add the next line of the log. Return the event if it says that the GPU is lost."""
        self.text += " " + line.split("NVRM:")[-1].strip()
        self.lines_left -= 1
        if "fallen off the bus" not in line:
            return None
        self.lines_left = 0
        return event_of("xid", 79, self.place, "fatal", self.text, at_load=True)


def parse_log(text):
    """Kernel log -> {events, problems, first, boot, looks, odd, lines}.

    `first`: seconds after boot of the first line, or None; `boot`: it holds the boot or the load of
    the driver; `looks`: some line looks like one of a log; `odd`: how many of the `lines` don't.
    An event: {kind, code, bdf, level, line, at, old}. `at`: the number of its line, from 0. `old`:
    before the last boot, load of the driver, or reset of that GPU.
    """
    lines = lines_of(clean(text))
    events, problems = events_of(lines)
    starts = [line for line in lines if line.strip() and not line.startswith((" ", "\t"))]
    times = map(seconds_of, lines)
    return {
        "events": events,
        "problems": problems[:3],
        "first": next((seconds for seconds in times if seconds is not None), None),
        "boot": any(OLD.search(line) for line in lines),
        "looks": any(LOG_LIKE.search(line) for line in lines),
        "odd": sum(1 for line in starts if not LOG_LIKE.search(line)),
        "lines": len(lines),
    }


def events_of(lines):
    """-> (the events of a log, what can't be read in it)."""
    events, problems, report, trace = [], [], None, None
    load = {"begun": False, "before": 0}
    for at, line in enumerate(lines):
        if trace and not trace.take(line):
            trace = None
        if ends_events(line, events, load) or not WORTH.search(line):
            continue
        event, split = log_event(line[:LONGEST]), SPLIT_LINE.search(line)
        if split:
            report = SplitReport(bdf(split.group(1)), line)
        elif report:
            event = report.take(line) or event
            report = report if report.lines_left > 0 else None
        if event:
            event["at"] = at
            # back to None: the GPU was reset since
            if event["kind"] == "xid" and event["code"] == 154 and event["level"] == "ok":
                make_old(events, lambda other, place=event["bdf"]: other["bdf"] == place)
            events.append(event)
            trace = Trace(event) if event["kind"] in TRACED else None
        elif re.search(r"\bS?Xid\b", line) and "Xid (" in line:
            problems.append(f"a line names an Xid and can't be read: {short(line, 120)}")
    return events, problems


SECONDS = re.compile(r"(?:^|kernel: )(?:<\d+>)?\[\s*(\d{1,10})\.\d+\]|^\d+,\d+,(\d{1,16})\d{6},")


def seconds_of(line):
    """Seconds after boot at the beginning of a line, or None."""
    stamp = SECONDS.search(line[:200])
    return int(stamp.group(1) or stamp.group(2)) if stamp else None


def make_old(events, over):
    """Mark the events for which `over` is true."""
    for event in events:
        event["old"] = event["old"] or over(event)


def ends_events(line, events, load):
    """Mark the events that a line ends. Return whether it ends any.

    `load` is {begun, before}, and is updated here. `begun`: the first line of the current load of
    the driver was there. `before`: how many events came before the end of the previous load.
    """
    if LOAD_DONE in line:
        before, began = load["before"], load["begun"]
        load.update(begun=False, before=len(events))
        if not began:  # an old driver, or a log of NVRM's lines only
            make_old(events[:before], of_driver)
            make_old(events[before:], lambda event: of_driver(event) and not of_load(event))
        return True
    if OLD.search(line):
        whole = bool(BOOT.search(line))
        load["begun"] = LOAD_BEGINS in line
        make_old(events, lambda event: whole or of_driver(event))
        return True
    if not WORTH.search(line):
        return False
    back, done = NFS_OK.search(line), RESET_DONE.search(line)
    if back:
        server = f"server {back.group(1)} not"
        make_old(events, lambda event: event["kind"] == "nfs" and server in event["line"])
    elif done:
        make_old(events, lambda event: event["bdf"] == bdf(done.group(1)))
    return bool(back or done)


def of_driver(event):
    """Whether a load of the driver ends the event."""
    return event["kind"] not in HOST_KINDS


def event_of(kind, code, place, level, line, **more):
    """An event as `parse_log` gives it."""
    event = {"kind": kind, "code": code, "bdf": place, "level": level, "line": line}
    event.update(more, at=0, old=False)
    return event


def of_load(event):
    """Whether the driver says it while it loads: it looks at each card first."""
    return event["kind"] in LOAD_KINDS or event.get("at_load", False)


def log_event(line):
    """Return the event in a line, or None."""
    match = XID_LINE.search(line)
    if match:
        place, where, code, text = match.groups()
        level = xid_level(int(code), text or "")
        return event_of("xid", int(code), bdf(place), level, line, mig="GPU-I" in where)
    match = SXID_LINE.search(line)
    if match:
        place, code, text = match.groups()
        return sxid_event(place, code, text, line)
    match = FM_LINE.search(line)
    if match:
        word, code, place = match.groups()
        return sxid_event(place, code, word.capitalize(), line)
    for kind, level, pattern in LOG_RULES:
        match = pattern.search(line)
        if match:
            place = bdf(match.group(1)) if pattern.groups and match.group(1) else None
            if kind == "xid 79":
                return event_of("xid", 79, place, level, line)
            return event_of(kind, 0, place, level, line)
    return None


def sxid_event(place, code, text, line):
    """The event of an SXid. `word`: the line itself says whether it is fatal."""
    when, word = SXID.get(int(code)), re.match(r"(Fatal|Non-fatal)", text or "")
    if word and word.group(1) == "Fatal":
        level = "fatal"
    elif when is None:
        level = "unknown"
    elif when == "always" or (when == "maybe" and not word):
        level = "fatal"
    else:
        level = "warn" if when == "never" else "degraded"
    return event_of("sxid", int(code), bdf(place), level, line, word=bool(word))


# ---- text.py
# Read the cells of nvidia-smi. Text from a box is cut, cleaned, not trusted.

NOT_AVAILABLE = (
    "n/a",
    "not supported",
    "not available",
    "requested functionality has been deprecated",
    "not found",
    "",
)

# 81559 MiB · 26.562 GB/s · 16x · 0x0000000000000001 · 512 bank(s) · -5 C
NUMBER = re.compile(r"(-?\d{1,16}(?:\.\d{1,6})?)\s*(?:x|%|[a-zA-Z]{1,7}(?:/s)?|bank\(s\))?$")


def state(cell):
    """Classify a cell: value, na (not available, never 0), denied, lost, error, bad, missing."""
    if cell is None:
        return "missing"
    text = cell.strip()
    bare = text.strip("[]").strip().lower()
    if text.startswith("[") != text.endswith("]"):
        return "bad"
    if bare in NOT_AVAILABLE:
        return "na"
    if bare == "insufficient permissions":
        return "denied"
    if bare in ("gpu is lost", "gpu requires reset"):
        return "lost"
    if bare in ("unknown error", "err!"):
        return "error"
    return "bad" if text.startswith("[") else "value"


def number(cell):
    """The number of a cell without its unit, or None."""
    if state(cell) != "value":
        return None
    text = cell.strip()
    if re.match(r"0[xX][0-9a-fA-F]{1,16}$", text):
        return int(text, 16)
    match = NUMBER.match(text)
    return float(match.group(1)) if match else None


def yes(cell):
    """True, False or None. Some drivers print Yes and No, others numbers."""
    if state(cell) != "value":
        return None
    text = cell.strip().lower()
    if text in ("yes", "no"):
        return text == "yes"
    return int(text) > 0 if re.match(r"\d{1,9}$", text) else None


def version(text):
    """'590.44.01' -> (590, 44, 1); () for what is no version."""
    match = re.match(r"\D{0,3}(\d{1,6}(?:\.\d{1,6}){0,4})", str(text or ""))
    return tuple(int(part) for part in match.group(1).split(".")) if match else ()


def as_dict(value):
    """The value if it is a dict, otherwise an empty dict."""
    return value if isinstance(value, dict) else {}


def as_list(value):
    """The value if it is a list, otherwise an empty list."""
    return value if isinstance(value, list) else []


def usual(values):
    """The most common value that isn't None or empty, or None."""
    values = [value for value in values if value not in (None, "")]
    return max(sorted(set(values), key=str), key=values.count) if values else None


# ---- dcgm.py
# What NVIDIA's DCGM says of the cards: `dcgmi diag` and `dcgmi health -c`, as somebody pasted it.
#
# The check starts neither. Their tables have two columns: what was tested and how it went, and
# below it, with the first column empty, the same for single GPUs or the words of an error.
# `dcgmi diag -j` gives the same as JSON, whose fields changed with DCGM 4.

TABLE_OF_DCGM = re.compile(r"^[>\s]*\| (?:Health Monitor Report|Diagnostic +\| Result) +\|", re.M)
ROW_OF_DCGM = re.compile(r"^[>\s]*\| (.*?) *\|(?: (.*?) *\|)?\s*$")
CHUNK = 45  # characters of a message in a row of `diag`, which cuts through words
BAD = {"Fail": "degraded", "Failure": "degraded", "Warn": "warn", "Warning": "warn"}
# Of the messages in DCGM's dcgm_errors.h, those after which no training on the card is sound.
FATAL = re.compile(
    r"double-bit|\bDBE\b|uncorrectable|faulty memory|uncontained|fallen off the bus"
    r"|corrupt InfoROM|row remapping failed|fatal NvSwitch SXID"
)
# A setting that DCGM 4 fails a card for, and that harms no training.
SETTING = re.compile(r"Persistence mode for GPU \d{1,3} is (?:currently )?disabled", re.I)
OBJECT_OF_DCGM = re.compile(r"\{\s*\"DCGM (?:GPU )?Diagnostic\"\s*:")
NAMED_XID = re.compile(r"\bXID (\d{1,3})\b")


class DcgmFinding(NamedTuple):
    """One thing that isn't well: the GPU, None for all of them, the level, and what was said."""

    gpu: Optional[int]
    level: str
    text: str


class TestOfDcgm:
    """One test of `dcgmi diag`: how it went, by GPU where that is told, and its errors."""

    def __init__(self, name):
        """A test of which nothing is known yet."""
        self.name, self.results, self.errors = name, {}, []
        self.is_in_error = False  # whether the next row without a name goes on with an error

    def find_faults(self):
        """What isn't well: [DcgmFinding], of single GPUs where the test names them."""
        bad = {gpu: result for gpu, result in self.results.items() if result in BAD}
        alone = [gpu for gpu in bad if gpu is not None]
        return [self.find_fault(gpu, bad[gpu]) for gpu in alone or bad]

    def find_fault(self, gpu, result):
        """What isn't well with one GPU, with the errors that are its own or nobody's."""
        mine = [text for whose, text in self.errors if whose in (gpu, None) or gpu is None]
        words = " ".join(" ".join(mine).split())
        text = f"diag: {self.name}: {result}" + (f": {words}" if words else "")
        is_setting = mine and all(SETTING.search(" ".join(one.split())) for one in mine)
        level = "warn" if is_setting else level_of_words(BAD[result], words)
        return DcgmFinding(gpu, level, text)


def parse_dcgm(text):
    """The output of `dcgmi diag` or `dcgmi health -c` -> [DcgmFinding], empty where all is well."""
    found = OBJECT_OF_DCGM.search(text)
    if found:
        return read_json_report(text[found.start() :])
    rows = [row.groups() for row in map(ROW_OF_DCGM.match, clean(text).splitlines()) if row]
    is_report = any(name.startswith("Health Monitor Report") for name, _ in rows)
    return read_health_report(rows) if is_report else read_diag_report(rows)


def is_of_dcgm(text):
    """Whether a text is one of these outputs."""
    return bool(TABLE_OF_DCGM.search(text) or OBJECT_OF_DCGM.search(text))


def read_json_report(text):
    """Read `dcgmi diag -j`: DCGM 3 names a card by gpu_id, or several by gpu_ids; 4 by entity_id.

    A text that breaks off tells nothing, and says so.
    """
    try:
        report, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return [DcgmFinding(None, "warn", "diag: its JSON breaks off, so it can't be read")]
    tests = []
    for value in map(as_dict, report.values()):
        if value.get("runtime_error"):
            words = f"diag: it didn't run: {value['runtime_error']}"
            return [DcgmFinding(None, "warn", words)]
        for category in map(as_dict, as_list(value.get("test_categories"))):
            tests += map(test_of_json, map(as_dict, as_list(category.get("tests"))))
    return [finding for test in tests for finding in test.find_faults()]


def test_of_json(given):
    """A test of the JSON -> TestOfDcgm."""
    test = TestOfDcgm(short(str(given.get("name")), 60))
    for result in map(as_dict, as_list(given.get("results"))):
        status = str(result.get("status")).strip().capitalize()
        named = [result.get(name) for name in ("gpu_id", "gpu_ids", "entity_id")]
        gpus = re.findall(r"\d{1,3}", str(next((one for one in named if one is not None), "")))
        if result.get("entity_group", "GPU") != "GPU":
            gpus = []
        for gpu in map(int, gpus) if gpus else [None]:
            test.results[gpu] = status
        for warning in as_list(result.get("warnings")):
            words = as_dict(warning).get("warning") or warning
            if isinstance(words, str):
                test.errors += [(int(gpu), words + " ") for gpu in gpus] or [(None, words + " ")]
    return test


def read_health_report(rows):
    """Read `dcgmi health -c`: below a GPU each system that isn't well, with its errors."""
    found, gpu, overall = [], None, ""
    for name, value in rows:
        arrow, value = re.match(r"( *)-> (.+)", name), value or ""
        if name == "Overall Health":
            overall = value
        elif arrow and arrow.group(2).isdigit() and len(arrow.group(2)) < 4:
            gpu = int(arrow.group(2))
        elif arrow and value in BAD:
            found.append([gpu, value, arrow.group(2), ""])
        elif not name.strip() and value and found:
            found[-1][3] += " " + value
    if not found and overall in BAD:
        found = [[None, overall, "Overall Health", ""]]
    return [
        DcgmFinding(gpu, level_of_words(BAD[value], words), f"health: {system}: {value}{words}")
        for gpu, value, system, words in found
    ]


def read_diag_report(rows):
    """Read `dcgmi diag`: each test, then how it went on single GPUs, and the errors of it."""
    tests = []
    for name, value in rows:
        name, value = name.strip(), value or ""
        results = results_of(value)
        if results and name and name != "Info":
            tests.append(TestOfDcgm(name))
        if not tests:
            continue
        test = tests[-1]
        if results:
            test.results.update(results)
        elif name:
            test.is_in_error = name.startswith("Warning")
            if test.is_in_error:
                gpu = re.search(r"^Warning: GPU ?(\d{1,3})$", name) or re.match(
                    r"GPU (\d{1,3})\b", value
                )
                test.errors.append((int(gpu.group(1)) if gpu else None, of_width(value)))
        elif test.is_in_error:
            gpu, text = test.errors[-1]
            test.errors[-1] = (gpu, text + of_width(value))
    return [finding for test in tests for finding in test.find_faults()]


def of_width(value):
    """A part of a message as long as dcgmi cut it, with the blanks at its end."""
    return value[:CHUNK].ljust(CHUNK)


def results_of(value):
    """The results in a cell -> {GPU: result}, with None for the whole test."""
    alone = re.match(r"GPU ?(\d{1,3}): (Pass|Fail|Warn|Skip)$", value)
    if alone:
        return {int(alone.group(1)): alone.group(2)}
    found = re.match(r"(Pass|Fail|Warn|Skip)(?: - (?:All|GPUs?: ([\d, ]+)))?$", value)
    if not found:
        return {}
    named = re.findall(r"\d{1,3}", found.group(2) or "")
    return {int(gpu): found.group(1) for gpu in named} or {None: found.group(1)}


def level_of_words(level, words):
    """The level of a result, by the error that it names where that says more."""
    xid = NAMED_XID.search(words)
    if xid:
        named = xid_level(int(xid.group(1)), "")
        return named if named in ("fatal", "degraded") else "warn"
    return "fatal" if FATAL.search(words) else level


def judge_dcgm(box, add):
    """Add a finding for each thing that DCGM says isn't well."""
    for gpu, level, text in box.dcgm:
        key, text = f"dcgm {text}", short(text)
        if level == "fatal":
            add(gpu, "dcgm_fatal", text, level=level, key=key)
        elif level == "degraded":
            add(gpu, "dcgm_failed", text, level=level, key=key)
        else:
            add(gpu, "dcgm_warned", text, level=level, key=key)


# ---- failures.py
# How a call failed: what nvidia-smi prints when it can't work, its exit code, a time-out.

# What nvidia-smi prints if it can't work at all. "smi_" and the key are its name in findings.txt.
FAILURES = (
    # Failed to initialize NVML: Driver/library version mismatch
    ("mismatch", re.compile(r"Failed to initialize NVML: Driver/library version mismatch")),
    # NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure …
    (
        "no_driver",
        re.compile(
            r"couldn.?t communicate with the NVIDIA driver"
            r"|Failed to initialize NVML: Driver Not Loaded"
        ),
    ),
    # No devices were found
    ("no_devices", re.compile(r"^\s*No devices were found", re.M)),
    # Failed to initialize NVML: Unknown Error (only inside a container)
    ("cgroup", re.compile(r"Failed to initialize NVML: Unknown Error")),
    ("denied", re.compile(r"Failed to initialize NVML: Insufficient Permissions")),
    ("blocked", re.compile(r"GPU access blocked by the operating system")),
    ("library", re.compile(r"couldn.?t find (?:the )?libnvidia-ml")),
    ("nvml", re.compile(r"Failed to initialize NVML: \S.*")),
)

# Unable to determine the device handle for GPU 0000:09:00.0: Unknown Error
# … for gpu 0000:01:00.0: GPU is lost.      newer drivers: … for GPU0000:07:00.0: …
# … for GPU5: 0000:70:00.0: Unknown Error      … for GPU0: Unknown Error
PLACE = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?"
HANDLE = re.compile(
    r"Unable to determine the device handle for gpu\s*"
    rf"(?:({PLACE})|(\d{{1,3}})(?::\s*({PLACE}))?): .{{0,80}}",
    re.I,
)

# nvidia-smi's exit codes follow nvmlReturn (man page; 18 from gputil#55)
RC_FAILURES = {
    8: "power",
    10: "interrupt",
    9: "no_driver",
    6: "no_devices",
    12: "library",
    18: "mismatch",
    17: "blocked",
    4: "denied",
    15: "lost",
    16: "reset",
}


def smi_failure(text):
    """(kind, the line) when nvidia-smi says that it can't work at all, otherwise None."""
    for kind, pattern in FAILURES:
        match = pattern.search(text)
        if match:
            start, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.end())
            return kind, short(text[start : end if end > 0 else None])
    return None


def lost_handles(text):
    """(place or None, index or None, the line) of each GPU that nvidia-smi has no handle for."""
    return [
        (
            bdf(match.group(1) or match.group(3)),
            int(match.group(2)) if match.group(2) else None,
            short(match.group(0)),
        )
        for match in HANDLE.finditer(clean(text))
    ]


def exit_of(value):
    """Return how a command ended: {rc, timed_out, cut, asked, short, unasked}, and its times.

    exit.json of other tools may hold a bare number, or the word for a time-out.
    """
    if isinstance(value, dict):
        code = next(
            (
                value[key]
                for key in ("rc", "exit", "code", "returncode", "exit_code")
                if key in value
            ),
            None,
        )
        late = any(value.get(key) for key in ("timed_out", "timeout", "timedout"))
        times = {
            key: value[key]
            for key in ("limit_s", "seconds")
            if isinstance(value.get(key), (int, float))
        }
        return dict(
            times,
            rc=code if isinstance(code, int) else None,
            timed_out=bool(late),
            cut=bool(value.get("cut")),
            asked=as_list(value.get("asked")),
            short=value.get("short") is True,
            unasked=value.get("unasked") is True,
        )
    out = {
        "rc": None,
        "timed_out": False,
        "cut": False,
        "asked": [],
        "short": False,
        "unasked": False,
    }
    if isinstance(value, str) and "time" in value.lower():
        return dict(out, timed_out=True)
    return dict(
        out,
        rc=value if isinstance(value, int) and not isinstance(value, bool) else None,
        timed_out=value is None,
    )


# ---- files.py
# The files of a recording, the calls of nvidia-smi that make them, and the limits of a call.

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


# ---- limits.py
# What a cgroup leaves to a container, by its files as people paste them.
#
# A file that is named for itself, what `cat` or `head` print below their command, or `grep`. A
# number alone says nothing, but for the two of cpu.max with the kernel's usual period.

# The file, and what stands in it. cpu.max: the microseconds of each period, and the period.
VALUES_OF_LIMITS = {
    "cpu.max": re.compile(r"(max|\d{1,12})\s+(\d{1,9})$"),
    "memory.max": re.compile(r"(max|\d{1,20})$"),
    "cpu.cfs_quota_us": re.compile(r"(-1|\d{1,12})$"),
    "cpu.cfs_period_us": re.compile(r"(\d{1,9})$"),
    "memory.limit_in_bytes": re.compile(r"(\d{1,20})$"),
}
NAME_OF_LIMIT = re.compile(
    r"(?<![\w.])({})(?![\w.])".format("|".join(map(re.escape, VALUES_OF_LIMITS)))
)
SIGN_OF_VALUE = re.compile(r"\s*[:=]\s*")
CPU_MAX_ALONE = re.compile(r"\s*(?:max|\d{3,9}) 100000\s*$")
NO_LIMIT = 1 << 60  # bytes; v1 writes nearly 2**63 for none


def file_of_limits(name):
    """The file of a cgroup that a file's name says it is, or ""."""
    name = re.sub(r"\.txt$", "", name)
    return name if name in VALUES_OF_LIMITS else ""


def has_limits(text):
    """Whether a text shows such a file with its value."""
    return bool(CPU_MAX_ALONE.match(text) or values_in(text))


def values_in(text):
    """The files of a text with the groups of their values -> {name: groups}."""
    found, waiting = {}, []
    if CPU_MAX_ALONE.match(text):
        text = "cpu.max:" + text
    for line in clean(text).splitlines():
        line = line.strip()
        names = list(NAME_OF_LIMIT.finditer(line))
        if names:
            name, rest = names[-1].group(1), line[names[-1].end() :]
            sign = SIGN_OF_VALUE.match(rest)
            value = VALUES_OF_LIMITS[name].match(rest[sign.end() :].strip()) if sign else None
            if value:
                found[name] = value.groups()
            waiting = [] if value else [match.group(1) for match in names]
        elif line and waiting:
            name = waiting.pop(0)
            value = VALUES_OF_LIMITS[name].match(line)
            if value:
                found[name] = value.groups()
            else:
                waiting = []
    return found


def parse_limits(text):
    """The limits -> {"quota": processors, "limit_mib": memory}, each where the text tells one."""
    values, limits = values_in(text), {}
    quota, period = values.get("cpu.max", (None, None))
    if quota is None:
        quota = values.get("cpu.cfs_quota_us", (None,))[0]
        period = values.get("cpu.cfs_period_us", (None,))[0]
    if quota and period and quota.isdigit() and int(period):
        limits["quota"] = int(quota) / int(period)
    memory = (values.get("memory.max") or values.get("memory.limit_in_bytes") or ("",))[0]
    if memory.isdigit() and 0 < int(memory) < NO_LIMIT:
        limits["limit_mib"] = int(memory) >> 20
    return limits


# ---- memory_counts.py
# How many memory errors the kernel counted, by the outputs that people paste of it.
#
# `edac-util -v`, `grep . /sys/devices/system/edac/mc/mc*/?e_count`, and `ras-mc-ctl --summary`,
# whose counts are those of its database, of any age.

# mc0: csrow0: CPU_SrcID#0_MC#0_Chan#0_DIMM#0: 12645 Corrected Errors
OF_EDAC_UTIL = re.compile(
    r"^\s*(mc\d{1,3}): (?:.{1,120}: )?(\d{1,12}) (Corrected|Uncorrected) Errors"
)
# /sys/devices/system/edac/mc/mc0/ce_count:12645     deeper ones are parts of it
OF_SYSFS = re.compile(r"\bedac/mc/(mc\d{1,3})/(ce|ue)_count[:=]\s*(\d{1,12})\s*$")
# 	Corrected on DIMM Label(s): 'DIMM_B1' location: 0:2:0:-1 errors: 5
OF_RAS = re.compile(
    r"^\s*(\w+) on DIMM Label\(s\): '.{0,200}' location: (\d{1,3}):\S{1,40} errors: (\d{1,12})\s*$"
)
KINDS_OF_ERROR = {"Corrected": "ce", "Uncorrected": "ue", "Fatal": "ue", "ce": "ce", "ue": "ue"}


def has_memory_counts(text):
    """Whether a text is one of these outputs."""
    if re.search(r"^edac-util: No errors to report|^Memory controller events summary:", text, re.M):
        return True
    lines = text.splitlines()[:2000]
    return any(OF_EDAC_UTIL.match(line) or OF_SYSFS.search(line) for line in lines)


def parse_memory_counts(text):
    """The counts -> {memory controller: {"ce": corrected errors, "ue": others}}."""
    found = {}
    for line in clean(text).splitlines():
        util, file, ras = OF_EDAC_UTIL.match(line), OF_SYSFS.search(line), OF_RAS.match(line)
        if util:
            name, count, kind = util.groups()
        elif file:
            name, kind, count = file.groups()
        elif ras and ras.group(1) in KINDS_OF_ERROR:
            kind, name, count = ras.group(1), "mc" + ras.group(2), ras.group(3)
        else:
            continue
        counts = found.setdefault(name, {"ce": 0, "ue": 0})
        counts[KINDS_OF_ERROR[kind]] += int(count)
    return found


# ---- fields.py
# The fields of nvidia-smi: their names, places and types, and the form that a cell must have.

# The groups of --query-gpu: [[("name|newer name", type)]]
FIELD_TABLE = r"""
# type | name of the field | its name in newer drivers
# Asked for in groups, one paragraph a call: a name that the driver doesn't know fails a whole call.
# type: n number, y yes or no, m enabled or disabled, a active or not, x hexadecimal mask, t text.

n | index
n | count
t | name
t | uuid
t | pci.bus_id
t | driver_version
n | memory.total
n | memory.used
n | memory.free
n | utilization.gpu
n | utilization.memory
n | temperature.gpu
n | temperature.memory
n | temperature.gpu.tlimit
n | power.draw
n | power.limit
n | enforced.power.limit
n | power.default_limit
n | clocks.current.sm | clocks.sm
n | clocks.max.sm
n | fan.speed
t | pstate
t | compute_mode
t | compute_cap
m | persistence_mode
m | display_active
m | mig.mode.current
m | mig.mode.pending
n | pcie.link.gen.gpucurrent | pcie.link.gen.current
n | pcie.link.gen.max
n | pcie.link.gen.hostmax
n | pcie.link.width.current
n | pcie.link.width.max

n | index
t | pci.bus_id
m | ecc.mode.current
m | ecc.mode.pending
n | ecc.errors.corrected.volatile.total
n | ecc.errors.corrected.aggregate.total
n | ecc.errors.corrected.aggregate.dram
n | ecc.errors.corrected.aggregate.sram
n | ecc.errors.uncorrected.volatile.total
n | ecc.errors.uncorrected.aggregate.total
n | ecc.errors.uncorrected.aggregate.sram
y | ecc.errors.uncorrected.aggregate.sram.thresholdExceeded
n | retired_pages.single_bit_ecc.count
n | retired_pages.double_bit.count
y | retired_pages.pending
n | remapped_rows.correctable
n | remapped_rows.uncorrectable
y | remapped_rows.pending
y | remapped_rows.failure
n | remapped_rows.histogram.low
n | remapped_rows.histogram.none
t | inforom.checksum_validation

n | index
t | pci.bus_id
t | gpu_recovery_action
x | clocks_throttle_reasons.active | clocks_event_reasons.active
a | clocks_throttle_reasons.hw_slowdown | clocks_event_reasons.hw_slowdown
a | clocks_throttle_reasons.hw_thermal_slowdown | clocks_event_reasons.hw_thermal_slowdown
a | clocks_throttle_reasons.hw_power_brake_slowdown | clocks_event_reasons.hw_power_brake_slowdown
a | clocks_throttle_reasons.sw_thermal_slowdown | clocks_event_reasons.sw_thermal_slowdown
a | clocks_throttle_reasons.sw_power_cap | clocks_event_reasons.sw_power_cap
a | clocks_throttle_reasons.applications_clocks_setting |
    clocks_event_reasons.applications_clocks_setting
n | clocks_event_reasons_counters.hw_thermal_slowdown
n | clocks_event_reasons_counters.hw_power_brake_slowdown
n | clocks_event_reasons_counters.sw_thermal_slowdown
t | fabric.state
t | fabric.status
t | fabric.health.summary
"""
FIELDS = [
    [("|".join(names), kind) for kind, *names in rows_of(group)]
    for group in re.sub(r"(?m)^#.*\n", "", FIELD_TABLE).strip().split("\n\n")
]
WATCH_FIELDS = [
    "index",
    "pci.bus_id",
    "utilization.gpu",
    "utilization.memory",
    "memory.used",
    "memory.total",
    "power.draw",
    "power.limit",
    "temperature.gpu",
    "clocks.current.sm|clocks.sm",
    "clocks.max.sm",
    "clocks_throttle_reasons.active|clocks_event_reasons.active",
    "pcie.link.gen.gpucurrent|pcie.link.gen.current",
    "pstate",
]

# The fields that every driver in the captures (465 to 610) reports, and those that 590 and later
# report besides. A finding of level unknown names missing ones.
REQUIRED = (
    "name",
    "pci.bus_id",
    "driver_version",
    "memory.total",
    "memory.used",
    "utilization.gpu",
    "temperature.gpu",
    "pcie.link.width.current",
    "pcie.link.width.max",
    "ecc.mode.current",
    "ecc.errors.uncorrected.volatile.total",
    "clocks_event_reasons.hw_slowdown",
    "mig.mode.current",
)
REQUIRED_590 = ("remapped_rows.failure", "remapped_rows.pending", "gpu_recovery_action")

# Field -> its places in `-q -x`
PLACE_TABLE = r"""
# field | its places in `nvidia-smi -q -x`, for one driver after the other
# `x.` marks a field that only -q -x has; fields.py gives their types.
name | product_name
uuid | uuid
persistence_mode | persistence_mode
display_active | display_active
mig.mode.current | mig_mode/current_mig
mig.mode.pending | mig_mode/pending_mig
compute_mode | compute_mode
pcie.link.gen.gpucurrent | pci/pci_gpu_link_info/pcie_gen/current_link_gen
pcie.link.gen.max | pci/pci_gpu_link_info/pcie_gen/max_link_gen
pcie.link.width.current | pci/pci_gpu_link_info/link_widths/current_link_width
pcie.link.width.max | pci/pci_gpu_link_info/link_widths/max_link_width
memory.total | fb_memory_usage/total
memory.used | fb_memory_usage/used
memory.free | fb_memory_usage/free
utilization.gpu | utilization/gpu_util
utilization.memory | utilization/memory_util
fan.speed | fan_speed
ecc.mode.current | ecc_mode/current_ecc
ecc.mode.pending | ecc_mode/pending_ecc
pstate | performance_state
temperature.gpu | temperature/gpu_temp
temperature.memory | temperature/memory_temp
temperature.gpu.tlimit | temperature/gpu_temp_tlimit
x.slow | temperature/gpu_temp_slow_threshold
x.memory_max | temperature/gpu_temp_max_mem_threshold
x.gpu_max | temperature/gpu_temp_max_gpu_threshold
x.replays | pci/replay_counter
x.vbios | vbios_version
x.app_clock | applications_clocks/graphics_clock
x.app_default | default_applications_clocks/graphics_clock
x.fabric_bandwidth | fabric/health/bandwidth
x.fabric_route | fabric/health/route_unhealthy
x.minor | minor_number
x.fabric_recovery | fabric/health/route_recovery_in_progress
x.fabric_access | fabric/health/access_timeout_recovery
power.draw | gpu_power_readings/average_power_draw gpu_power_readings/instant_power_draw
    gpu_power_readings/power_draw power_readings/power_draw
power.limit | gpu_power_readings/current_power_limit power_readings/power_limit
power.default_limit | gpu_power_readings/default_power_limit power_readings/default_power_limit
clocks.current.sm | clocks/sm_clock
clocks.max.sm | max_clocks/sm_clock
gpu_recovery_action | gpu_recovery_action
x.reset_required | gpu_reset_status/reset_required
x.drain_and_reset | gpu_reset_status/drain_and_reset_recommended
remapped_rows.correctable | remapped_rows/remapped_row_corr
remapped_rows.uncorrectable | remapped_rows/remapped_row_unc
remapped_rows.pending | remapped_rows/remapped_row_pending remapped_rows
remapped_rows.failure | remapped_rows/remapped_row_failure remapped_rows
remapped_rows.histogram.low | remapped_rows/row_remapper_histogram/row_remapper_histogram_low
remapped_rows.histogram.none | remapped_rows/row_remapper_histogram/row_remapper_histogram_none
retired_pages.single_bit_ecc.count | retired_pages/multiple_single_bit_retirement/retired_count
retired_pages.double_bit.count | retired_pages/double_bit_retirement/retired_count
retired_pages.pending | retired_pages/pending_retirement
ecc.errors.uncorrected.aggregate.sram.thresholdExceeded |
    ecc_errors/aggregate/sram_threshold_exceeded
x.channel_repair | ecc_errors/channel_repair_pending
x.tpc_repair | ecc_errors/tpc_repair_pending
x.unrepairable | ecc_errors/unrepairable_memory
x.license | vgpu_software_licensed_product/license_status grid_licensed_product/license_status
x.virtualization | gpu_virtualization_mode/virtualization_mode
fabric.state | fabric/state
fabric.status | fabric/status
fabric.health.summary | fabric/health/summary
clocks_event_reasons.hw_slowdown | clocks_event_reasons/clocks_event_reason_hw_slowdown
    clocks_throttle_reasons/clocks_throttle_reason_hw_slowdown
clocks_event_reasons.hw_thermal_slowdown |
    clocks_event_reasons/clocks_event_reason_hw_thermal_slowdown
    clocks_throttle_reasons/clocks_throttle_reason_hw_thermal_slowdown
clocks_event_reasons.hw_power_brake_slowdown |
    clocks_event_reasons/clocks_event_reason_hw_power_brake_slowdown
    clocks_throttle_reasons/clocks_throttle_reason_hw_power_brake_slowdown
clocks_event_reasons.sw_thermal_slowdown |
    clocks_event_reasons/clocks_event_reason_sw_thermal_slowdown
    clocks_throttle_reasons/clocks_throttle_reason_sw_thermal_slowdown
clocks_event_reasons.sw_power_cap | clocks_event_reasons/clocks_event_reason_sw_power_cap
    clocks_throttle_reasons/clocks_throttle_reason_sw_power_cap
clocks_event_reasons.applications_clocks_setting |
    clocks_event_reasons/clocks_event_reason_applications_clocks_setting
    clocks_throttle_reasons/clocks_throttle_reason_applications_clocks_setting
"""
XML_PLACES = {field: places.split() for field, places in rows_of(PLACE_TABLE)}

# Place in `-q` -> place in `-q -x`
Q_TABLE = r"""
# A place in `nvidia-smi -q`, and its name in `nvidia-smi -q -x`. What is not listed keeps its own
# words, in lower case and with underscores: "MIG Mode" is mig_mode.
mig_mode/current | mig_mode/current_mig
mig_mode/pending | mig_mode/pending_mig
gpu_uuid | uuid
ecc_mode/current | ecc_mode/current_ecc
ecc_mode/pending | ecc_mode/pending_ecc
temperature/gpu_current_temp | temperature/gpu_temp
temperature/gpu_t.limit_temp | temperature/gpu_temp_tlimit
temperature/memory_current_temp | temperature/memory_temp
temperature/gpu_slowdown_temp | temperature/gpu_temp_slow_threshold
temperature/gpu_max_operating_temp | temperature/gpu_temp_max_gpu_threshold
pci/replays_since_reset | pci/replay_counter
applications_clocks/graphics | applications_clocks/graphics_clock
default_applications_clocks/graphics | default_applications_clocks/graphics_clock
pci/gpu_link_info/pcie_generation/current | pci/pci_gpu_link_info/pcie_gen/current_link_gen
pci/gpu_link_info/pcie_generation/max | pci/pci_gpu_link_info/pcie_gen/max_link_gen
pci/gpu_link_info/link_width/current | pci/pci_gpu_link_info/link_widths/current_link_width
pci/gpu_link_info/link_width/max | pci/pci_gpu_link_info/link_widths/max_link_width
utilization/gpu | utilization/gpu_util
utilization/memory | utilization/memory_util
clocks/sm | clocks/sm_clock
max_clocks/sm | max_clocks/sm_clock
gpu_power_readings/instantaneous_power_draw | gpu_power_readings/instant_power_draw
remapped_rows/correctable_error | remapped_rows/remapped_row_corr
remapped_rows/uncorrectable_error | remapped_rows/remapped_row_unc
remapped_rows/pending | remapped_rows/remapped_row_pending
remapped_rows/remapping_failure_occurred | remapped_rows/remapped_row_failure
remapped_rows/bank_remap_availability_histogram/low |
    remapped_rows/row_remapper_histogram/row_remapper_histogram_low
remapped_rows/bank_remap_availability_histogram/none |
    remapped_rows/row_remapper_histogram/row_remapper_histogram_none
retired_pages/single_bit_ecc | retired_pages/multiple_single_bit_retirement/retired_count
retired_pages/double_bit_ecc | retired_pages/double_bit_retirement/retired_count
retired_pages/pending_page_blacklist | retired_pages/pending_retirement
gpu_reset_status/reset_required | gpu_reset_status/reset_required
gpu_reset_status/drain_and_reset_recommended | gpu_reset_status/drain_and_reset_recommended
"""
Q_PLACES = dict(rows_of(Q_TABLE))

# Fields that are sums: the field, its branch, a word in the names of the leaves.
ECC_SUMS = (
    ("ecc.errors.uncorrected.volatile.total", "volatile", "uncorrectable"),
    ("ecc.errors.uncorrected.aggregate.total", "aggregate", "uncorrectable"),
    ("ecc.errors.corrected.volatile.total", "volatile", "_correctable"),
    ("ecc.errors.corrected.aggregate.total", "aggregate", "_correctable"),
)

# Throttle reasons and their bits in the mask: NVML.
REASONS = (
    ("hw_thermal_slowdown", 0x40),
    ("hw_power_brake_slowdown", 0x80),
    ("hw_slowdown", 0x8),
    ("sw_thermal_slowdown", 0x20),
)


def field_names():
    """-> ({any name that a field has had: the name used here}, {name used here: type})."""
    used, types = {}, {}
    for names, kind in (field for group in FIELDS for field in group):
        main = names.split("|")[0].replace("clocks_throttle_reasons", "clocks_event_reasons")
        types[main] = kind
        for name in names.split("|"):
            used[name] = main
            used[name.replace("clocks_throttle_reasons", "clocks_event_reasons")] = main
    used["kmd_version"] = "kmd_version"
    used["reset_status.reset_required"] = "x.reset_required"
    used["reset_status.drain_and_reset_recommended"] = "x.drain_and_reset"
    used["gpu_bus_id"] = "pci.bus_id"
    used["gpu_name"] = "name"
    used["gpu_uuid"] = "uuid"
    for name in ("minor", "slow", "memory_max", "gpu_max", "replays", "app_clock", "app_default"):
        types["x." + name] = "n"
    for name in ("reset_required", "drain_and_reset", "channel_repair", "tpc_repair"):
        types["x." + name] = "y"
    types["x.unrepairable"] = "y"
    types["x.other"] = "t"
    return used, types


CANON, TYPE = field_names()


def readable(field, cell):
    """Whether a cell has the form of its field."""
    kind = TYPE.get(field, "t")
    text = cell.strip()
    if kind == "n" or kind == "x":
        return number(cell) is not None
    if kind == "y":
        return yes(cell) is not None
    if kind == "m":
        return text in ("Enabled", "Disabled")
    if kind == "a":
        return text in ("Active", "Not Active")
    if field == "pci.bus_id":
        return bdf(text) is not None
    if field == "driver_version":
        return re.match(r"\d{2,4}(\.\d{1,4}){1,3}$", text) is not None
    if field == "compute_cap":
        return re.match(r"\d{1,2}\.\d$", text) is not None
    if field == "compute_mode":
        return text in (
            "Default",
            "Prohibited",
            "Exclusive_Process",
            "Exclusive_Thread",
            "E. Process",
            "E. Thread",
        )
    if field == "pstate":
        return re.match(r"P\d{1,2}$", text) is not None
    return len(text) < 120 and "\ufffd" not in text and "?" not in text


# ---- smi_outputs.py
# Parse the output of each call of nvidia-smi into cells: field -> text.

# dram, sram, l2_cache …: a part may have a number even if the total has none
ECC_PART = re.compile(r"ecc\.errors\.(?:un)?corrected\.(?:volatile|aggregate)\.[a-z0-9_.]+$")
HEADER_CELL = re.compile(r"[a-z][A-Za-z0-9_.]*(?: \[[^\]]{1,12}\])?$")
# |   0  NVIDIA H100 80GB HBM3          On  |   00000000:00:09.0 Off |                    0 |
ROW_1 = re.compile(
    r"^\|\s+(\d+)\s+(\S.*?)\s+(On|Off|N/A)\s+\|\s+([0-9A-Fa-f:.]+)\s+(On|Off|N/A)\s+\|\s+(\S+)\s+\|"
)
# | N/A   41C    P0             69W /  700W |       0MiB /  81559MiB |      0%      Default |
ROW_2 = re.compile(
    r"^\|\s*(\S+?%?)\s+(\S+)\s+(P\d+|N/A|ERR!|Unknown)\s+(\S+)\s*/\s*(\S+)\s*"
    r"\|\s+(\S+)\s*/\s*(\S+)\s*\|\s+(\S+)\s+(\S.*?)\s*\|"
)
# |    0   N/A  N/A      3701      C   python                    10436MiB |
# |    0      3701      C   python                               10436MiB |      before driver 450
PROCESS_ROW = re.compile(
    r"^\|\s+(\d{1,3})\s+(?:\S{1,6}\s+\S{1,6}\s+)?(\d{1,9})\s+([CGM+]{1,5})\s+(\S.*?)\s+(\d{1,9})MiB\s*\|"
)
# The columns of --query-compute-apps, under each of their names.
APP_FIELDS = (
    "timestamp",
    "gpu_name",
    "gpu_bus_id",
    "gpu_serial",
    "gpu_uuid",
    "pid",
    "process_name",
    "name",
    "used_gpu_memory",
    "used_memory",
)


def is_header(cells):
    """Whether a row names fields."""
    return all(HEADER_CELL.match(cell) for cell in cells) and any(
        cell.split(" [")[0] in CANON for cell in cells
    )


def header_of(cells, fields, problems):
    """Return the field of each column, None for an unknown one.

    `fields`: the names in the query, if known. By its position they identify a renamed column.
    """
    names = [cell.split(" [")[0] for cell in cells]
    if not isinstance(fields, list):
        fields = None
    others = fields if fields is not None and len(fields) == len(names) else names
    header = [
        CANON.get(name) or CANON.get(str(other)) or (name if ECC_PART.match(name) else None)
        for name, other in zip(names, others)
    ]
    if fields is not None:
        want = [CANON.get(str(name)) for name in fields]
        moved = any(field != other for field, other in zip(header, want) if field and other)
        if len(want) != len(names) or moved:
            problem = f"{len(names)} columns instead of {len(want)}, or in another order"
            problems.append(problem)
    return header


def parse_csv(text, queries=()):
    """--query-gpu -> ([cells], [problems]). Several tables may follow each other.

    `queries`: for each table the fields in its query.
    """
    rows, problems, header, tables, count = [], [], None, 0, 0
    for line in filter(str.strip, clean(text).splitlines()):
        cells = [cell.strip() for cell in line.split(",")]
        if is_header(cells):
            header = header_of(cells, queries[tables] if tables < len(queries) else None, problems)
            tables += 1
            continue
        words = smi_failure(line) or HANDLE.search(line)
        if header is None or words:
            if not words and not line.startswith("NVML library version"):
                problems.append(f"a line before any header: {short(line, 120)}")
            continue
        count += 1
        if count > 256:
            problems.append("more than 256 rows")
            break
        if len(cells) != len(header):
            problem = f"a row has {len(cells)} cells, its header {len(header)}: {short(line, 120)}"
            problems.append(problem)
            continue
        problems += broken_cells(cells, line)
        rows.append(csv_row(header, cells))
    if tables < len(queries):
        problems.append(f"{tables} tables instead of {len(queries)}")
    return rows, problems[:5]


def broken_cells(cells, line):
    """Return the problem of a row that breaks off: half a [N/A], or an empty last cell."""
    broken = [cell for cell in cells if cell.startswith("[") != cell.endswith("]")]
    broken += [line[-40:] for cell in cells[-1:] if not cell]
    return [f"a cell breaks off: {short(broken[0], 40)}"] if broken else []


def csv_row(header, cells):
    """Return the cells by field. If two columns have the same field, the first value counts."""
    row = failed_cells(cell for name, cell in zip(header, cells) if not name)
    for name, cell in zip(header, cells):
        if name and (name not in row or state(row[name]) != "value"):
            row[name] = cell
    return row


def failed_cells(texts):
    """The cell for a sensor that failed among fields that the check has no name for, or none."""
    failed = next((text for text in texts if state(text) == "error"), None)
    return {} if failed is None else {"x.other": failed.strip()}


def from_tree(places, find, leaves):
    """Cells from a tree. `find`: path -> text or None; `leaves`: path -> [(name, text)]."""
    cells = {}
    for field, paths in places.items():
        for path in paths:
            text = find(path)
            if text is not None:
                cells[field] = text.strip()
                if state(cells[field]) == "value":
                    break
    for field, branch, word in ECC_SUMS:
        texts = [text for name, text in leaves("ecc_errors/" + branch) if word in "_" + name]
        counts = [number(text) for text in texts]
        known = [count for count in counts if count is not None]
        untold = [text for text, count in zip(texts, counts) if count is None]
        odd = [text for text in untold if state(text) != "na"]
        if odd or (texts and not known):
            cells[field] = (odd or texts)[0].strip()
        elif texts:
            cells[field] = str(int(sum(known)))
    return cells


def text_at(item, path):
    """The text of a leaf, or None."""
    leaf = item.find(path)
    return (leaf.text or "") if leaf is not None and len(leaf) == 0 else None


def leaves_at(item, path):
    """The leaves of a branch: [(name, text)]."""
    branch = item.find(path)
    return [(leaf.tag, leaf.text or "") for leaf in branch] if branch is not None else []


def parse_xml(text):
    """-> ([cells], [processes], [problems]); processes is None without such a table."""
    import xml.etree.ElementTree as tree  # only here: a watch needs no memory for it

    text = clean(text)
    start = text.find("<?xml") if "<?xml" in text else text.find("<nvidia_smi_log")
    if start < 0 or "<!ENTITY" in text:
        return [], None, ["nvidia-smi -q -x: no XML, or XML that defines entities"]
    try:
        root = tree.fromstring(text[start:].strip())
    except (tree.ParseError, ValueError, RecursionError) as error:
        return [], None, [f"nvidia-smi -q -x is damaged: {short(error, 100)}"]
    gpus, processes = [], None
    driver = (root.findtext("driver_version") or "").strip()
    for item in root.findall("gpu")[:256]:
        cells = from_tree(XML_PLACES, partial(text_at, item), partial(leaves_at, item))
        cells.update(failed_cells(leaf.text or "" for leaf in item.iter()))
        cells["pci.bus_id"] = item.get("id") or item.findtext("pci/pci_bus_id") or ""
        if driver:
            cells["driver_version"] = driver
        gpus.append(cells)
        table = item.find("processes")
        if table is not None:
            processes = (processes or []) + xml_processes(table, bdf(cells["pci.bus_id"]))
    return gpus, processes, xml_problems(root, len(gpus))


def xml_processes(table, place):
    """The processes of one GPU in `-q -x`."""
    return [
        {
            "bdf": place,
            "pid": process.findtext("pid") or "",
            "name": process.findtext("process_name") or "",
            "screen": (process.findtext("type") or "") == "G",
            "mib": number(process.findtext("used_memory") or "N/A"),
        }
        for process in table.findall("process_info")[:500]
    ]


def xml_problems(root, described):
    """What is wrong with a `-q -x` that describes so many GPUs."""
    problems = []
    for item in root.iter():
        if (item.tail or "").strip() or (len(item) and (item.text or "").strip()):
            words = short((item.tail or "").strip() or item.text, 80)
            problems.append(f"nvidia-smi -q -x: words between its parts: {words}")
            break
    attached = number(root.findtext("attached_gpus") or "N/A")
    if attached is not None and attached != described:
        mismatch = f"names {int(attached)} attached GPUs but describes {described}"
        problems.append(f"nvidia-smi -q -x {mismatch}")
    if not described and attached != 0:
        problems.append("nvidia-smi -q -x describes no GPU")
    return problems


def parse_q(text):
    """`nvidia-smi -q` -> ([cells], [problems])."""
    driver, trees = q_trees(text)
    gpus, problems = [], []
    for tree in trees[:256]:
        cells = from_tree(XML_PLACES, tree.get, partial(leaves_below, tree))
        cells.update(failed_cells(tree.values()))
        cells["pci.bus_id"] = tree[""]
        if driver:
            cells["driver_version"] = driver
        gpus.append(cells)
    if is_part_of_q(text):
        return gpus, problems
    if text.count("\n    Processes") < len(gpus):
        problems.append("nvidia-smi -q breaks off: the list of processes at its end is missing")
    attached = re.search(r"^Attached GPUs\s+: (\d+)", text, re.M)
    if not gpus or (attached and int(attached.group(1)) != len(gpus)):
        says = f" but names {attached.group(1)}" if attached else ""
        problems.append(f"nvidia-smi -q describes {len(gpus)} GPUs{says}")
    return gpus, problems


# A GPU's line in `nvidia-smi -q`, below which its sections are.
GPU_LINE = re.compile(r"^GPU ([0-9A-Fa-f:.]+)\s*$", re.M)
# A section, and a line of it:
#     Remapped Rows
#         Correctable Error                 : 0
PART_OF_Q = re.compile(
    r"^( *)(?:ECC Errors|Volatile|Aggregate|Retired Pages|Remapped Rows|Temperature"
    r"|(?:GPU |Module )?Power Readings|Clocks (?:Event|Throttle) Reasons|Clocks|GPU Link Info|PCI)"
    r"[ \t]*\n\1 +[A-Z][^:\n]{1,60}(?: : \S|[ \t]*\n)",
    re.M,
)


def is_part_of_q(text):
    """Whether a text is some sections of `nvidia-smi -q`, without the line of their GPU."""
    return bool(PART_OF_Q.search(text)) and not GPU_LINE.search(text)


def leaves_below(tree, path):
    """The leaves of a branch: [(name, text)]."""
    parts = [(*name.rpartition("/"), value) for name, value in tree.items()]
    return [(name, value) for branch, _, name, value in parts if branch == path]


def q_trees(text):
    """`nvidia-smi -q` -> (the driver's version, [{place as in -q -x: text}]).

    Depth is by indentation. The place "" holds the GPU's own place, and is empty for sections
    without the line of their GPU; there a section that comes again is the next GPU's.
    """
    driver, trees, tree, stack, sections = "", [], None, [], set()
    if is_part_of_q(text):
        tree = {"": ""}
        trees.append(tree)
    for line in clean(text).splitlines():
        match = re.match(r"Driver Version\s+: (\S+)", line)
        if match:
            driver = match.group(1)
        match = GPU_LINE.match(line)
        if match:
            tree, stack = {"": match.group(1)}, []
            trees.append(tree)
            continue
        match = re.match(r"( *)([^:]{1,60}?)\s*(?:: (.*))?$", line)
        if tree is None or not match:
            continue
        depth, value = len(match.group(1)), match.group(3)
        label = match.group(2).strip().lower().replace(" ", "_").replace("-", "")
        while stack and stack[-1][0] >= depth:
            stack.pop()
        path = "/".join([part for _, part in stack] + [label])
        reason = re.match(r"(clocks_(?:event|throttle)_reason)s/", path)
        if reason:
            path = f"{reason.group(0)}{reason.group(1)}_{label}"
        if value is None:
            if not tree[""] and not stack and label in sections:
                tree = {"": ""}
                trees.append(tree)
                sections = set()
            sections.add(label)
            stack.append((depth, label))
        else:
            tree.setdefault(Q_PLACES.get(path, path), value.strip())
            if label == "hw_slowdown":  # its reasons come below it
                stack.append((depth, label))
    return driver, trees


def parse_table(text):
    """The default view -> [cells].

    It cuts names and lacks links and remapped rows. So it can show that a box is unfit, never that
    it is fit.
    """
    gpus, driver = [], re.search(r"Driver Version: ([\d.]+)", text)
    for line in table_lines(text):
        name_line, use_line = ROW_1.match(line), ROW_2.match(line)
        if name_line:
            index, name, _, place, _, ecc = name_line.groups()
            cells = {"index": index, "pci.bus_id": place, "x.table": "1", "x.ecc_column": ecc}
            if "..." not in name:
                cells["name"] = name
            if driver:
                cells["driver_version"] = driver.group(1)
            if re.match(r"\d+$|ERR!$", ecc):
                cells["ecc.errors.uncorrected.volatile.total"] = ecc
            gpus.append(cells)
        elif re.match(r"^\|\s+\|\s+\|\s+(Enabled|Disabled|N/A)\*?\s+\|", line) and gpus:
            gpus[-1].setdefault("mig.mode.current", line.rstrip("|\n ").split()[-1].rstrip("*"))
        elif use_line and gpus:
            fan, temperature, _, draw, cap, used, total, busy, _ = use_line.groups()
            gpus[-1].update(
                {
                    "fan.speed": fan,
                    "temperature.gpu": temperature,
                    "power.draw": draw,
                    "power.limit": cap,
                    "memory.used": used,
                    "memory.total": total,
                    "utilization.gpu": busy,
                }
            )
    return gpus


def table_lines(text):
    """The lines of a table without the blanks and marks of a quotation before them."""
    return [line.lstrip("> \t") for line in clean(text).splitlines()]


def table_processes(text):
    """The processes that the default view lists -> [{index, pid, name, screen, mib, bdf}]."""
    rows = filter(None, map(PROCESS_ROW.match, table_lines(text)))
    return [
        {
            "index": int(row.group(1)),
            "bdf": None,
            "pid": row.group(2),
            "name": row.group(4),
            "screen": "G" in row.group(3),
            "mib": float(row.group(5)),
        }
        for row in rows
    ]


def parse_list(text):
    """nvidia-smi -L -> ([{index, name, uuid, migs}], [problems])."""
    out, problems = [], []
    for line in clean(text).splitlines():
        gpu = re.match(r"GPU (\d{1,3}): (.{1,100}?) \(UUID: ([^)]{1,80})\)\s*$", line)
        mig = re.match(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: ([^)]{1,80})\)\s*$", line)
        if gpu:
            out.append(
                {"index": int(gpu.group(1)), "name": gpu.group(2), "uuid": gpu.group(3), "migs": []}
            )
        elif mig and out:
            out[-1]["migs"].append(mig.group(1))
        elif (
            line.strip()
            and not smi_failure(line)
            and not HANDLE.search(line)
            and not line.startswith("NVML library version")
        ):
            problems.append(f"nvidia-smi -L: can't read the line: {short(line, 100)}")
    return out[:256], problems[:3]


def parse_nvlink(text):
    """nvidia-smi nvlink -s -> ({index: {link: GB/s}}, {index: name}, [problems]).

    An inactive link has None.
    """
    out, names, problems, here = {}, {}, [], None
    for line in clean(text).splitlines():
        gpu = re.match(r"GPU (\d{1,3}): (.{0,100}?)(?: \(UUID: .*)?$", line)
        link = re.match(r"\s+Link (\d{1,3}): (?:([\d.]{1,10}) GB/s|(<inactive>)|(.*))\s*$", line)
        if gpu:
            here = out.setdefault(int(gpu.group(1)), {})
            names[int(gpu.group(1))] = gpu.group(2)
        elif link and here is not None and (link.group(2) or link.group(3)):
            here[int(link.group(1))] = number(link.group(2)) if link.group(2) else None
        elif line.strip() and not re.search(
            r"(?i)not (?:have or )?support|no nvlink|unable to retrieve|NVML", line
        ):
            problems.append(f"nvlink -s: can't read the line: {short(line, 100)}")
    return out, names, problems[:3]


def parse_topo(text):
    """nvidia-smi topo -m -> ({(i, j): cell}, [problems])."""
    pairs, problems, heads = {}, [], None
    for line in clean(text).splitlines():
        if heads is None:
            if "GPU0" in line:
                heads = re.findall(r"GPU(\d{1,3})(?!\S)", line)
            continue
        row = re.match(r"GPU(\d{1,3})\s+(.*)", line)
        if row:
            cells = row.group(2).split()[: len(heads)]
            here, pattern = row.group(1), r"(X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS)$"
            strange = [cell for cell in cells if not re.match(pattern, cell)]
            strange += [cell for head, cell in zip(heads, cells) if (cell == "X") != (head == here)]
            if strange:
                problems.append(f"topo -m: GPU{here} has the cell {short(strange[0], 20)}")
                continue
            if len(cells) < len(heads):
                problems.append(f"topo -m: GPU{here} has {len(cells)} of {len(heads)} cells")
            pairs.update(((int(here), int(head)), cell) for head, cell in zip(heads, cells))
    if heads and {int(head) for head in heads} != {row for row, _ in pairs}:
        problems.append("topo -m: rows and columns name different GPUs")
    return pairs, problems[:3]


def parse_apps(text):
    """--query-compute-apps -> ([{bdf, pid, name, mib}], [problems])."""
    out, problems, header = [], [], None
    for line in clean(text).splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if "pid" in cells and header is None:
            header = [cell.split(" [")[0] for cell in cells]
            strange = [cell for cell in header if cell not in APP_FIELDS]
            if strange or not {"gpu_bus_id", "gpu_uuid"} & set(header):
                problems.append(f"compute apps: header {short(line, 100)}")
        elif header and line.strip():
            if len(cells) < len(header):
                problem = f"a row has {len(cells)} cells, its header {len(header)}"
                problems.append(f"compute apps: {problem}")
                continue
            at = header.index("process_name") if "process_name" in header else len(header) - 1
            end = at + len(cells) - len(header) + 1
            cells[at:end] = [", ".join(cells[at:end])]  # a name may hold commas
            row = dict(zip(header, cells))
            if not re.match(r"\d{1,9}$|\[?N/A\]?$", row.get("pid", "")):
                problems.append("compute apps: pid {}".format(short(row.get("pid", ""), 40)))
            out.append(
                {
                    "bdf": bdf(row.get("gpu_bus_id", "")),
                    "uuid": row.get("gpu_uuid", ""),
                    "pid": row.get("pid", ""),
                    "name": row.get("process_name", ""),
                    "mib": number(row.get("used_gpu_memory", "N/A")),
                }
            )
        elif line.strip() and not smi_failure(line):
            problems.append(f"compute apps: can't read the line: {short(line, 100)}")
    if header is None and not problems:
        problems.append("compute apps: no header")
    return out[:2000], problems[:3]


# ---- box.py
# Join all outputs into one box: text in, values out. No file, clock or network is read.


class Gpu:
    """One GPU, from all the outputs that show it.

    `cells`: field -> [texts], those of --query-gpu first, then of -q -x, of -q, of the plain table.
    `seen`: the outputs that name it. `links`: link -> GB/s, None where inactive.
    """

    def __init__(self):
        """A GPU about which nothing is known yet."""
        self.index, self.bdf, self.uuid, self.cells, self.seen = None, None, None, {}, set()
        self.links, self.migs, self.processes = None, None, []
        # what -L says
        self.listed_name: str | None = None
        self.listed_uuid: str | None = None

    @property
    def label(self):
        """Its name in findings: its index, or its place."""
        return self.index if self.index is not None else self.bdf

    @property
    def node(self):
        """Its device node."""
        minor = self.number("x.minor")
        return f"/dev/nvidia{self.label if minor is None else int(minor)}"

    def raw(self, field):
        """The first text of a field that is a value, otherwise its first text, otherwise None."""
        texts = self.cells.get(field, [])
        return next((text for text in texts if state(text) == "value"), texts[0] if texts else None)

    def number(self, field):
        """The first number of a field, or None."""
        return next(
            (value for value in map(number, self.cells.get(field, [])) if value is not None), None
        )

    def numbers(self, field):
        """All numbers that the outputs give for a field."""
        return [value for value in map(number, self.cells.get(field, [])) if value is not None]

    def most(self, field):
        """The largest number of a field, or 0."""
        return max(self.numbers(field) or [0])

    def most_of(self, start, end=""):
        """The largest number of all fields with this beginning and end."""
        fields = [field for field in self.cells if field.startswith(start) and field.endswith(end)]
        return max([self.most(field) for field in fields] or [0])

    def is_yes(self, field):
        """Whether any output says Yes, or a number above 0."""
        return any(yes(text) for text in self.cells.get(field, []))

    def says(self, field, *words):
        """Whether any output says one of these words."""
        return any(text.strip() in words for text in self.cells.get(field, []))

    @property
    def busy(self):
        """Whether it is known to be busy: a utilisation of at least 50 %."""
        return (self.number("utilization.gpu") or 0) >= 50

    @property
    def name(self):
        """The name of the card, or an empty text."""
        queried = self.raw("name")
        return (
            queried if queried is not None and state(queried) == "value" else self.listed_name or ""
        )

    @property
    def mig(self):
        """Whether MIG is on, or `nvidia-smi -L` lists MIG instances."""
        return self.says("mig.mode.current", "Enabled") or bool(self.migs)

    @property
    def vgpu(self):
        """Whether it is a virtual GPU: GRID, A100-10C."""
        named = re.search(r"\bGRID\b|-\d{1,3}[QCAB]$|-\d-\d{1,3}[QC]$", self.name)
        return bool(named) or "vgpu" in (self.raw("x.virtualization") or "").lower()


class ExaminedBox:
    """Everything that the outputs show about one box."""

    def __init__(self):
        """A box about which nothing is known yet."""
        self.gpus, self.topo, self.proc, self.exit = [], {}, {}, {}
        self.problems = []  # what could not be read, in words
        self.failures = []  # (kind, line) where nvidia-smi says that it can't work
        self.lost = []  # (place, index, line) of GPUs without a handle
        self.log: dict | None = None  # what parse_log gives
        self.live, self.recorded, self.missing = False, False, []
        self.sources = []  # the outputs that name GPUs
        self.processes_known, self.driver, self.log_excused = False, "", False
        self.late = []  # calls of nvidia-smi for which there was no time
        self.missing_cards = []  # cards that nvidia-smi doesn't show
        self.dcgm = []  # what dcgmi says isn't well
        self.foreign = set()  # places of the cards that belong to another job
        self.spare_nodes = 0  # device nodes that no GPU answers for

    def add_gpu(self, **values):
        """Adds a GPU with these attributes."""
        self.gpus.append(Gpu())
        vars(self.gpus[-1]).update(values)
        return self.gpus[-1]

    @property
    def container(self):
        """The kind of container, or an empty value."""
        return as_dict(self.proc.get("platform")).get("container")


def parse(record):
    """The record -> an ExaminedBox."""
    box = ExaminedBox()
    files, box.live = record["files"], bool(record.get("live"))
    box.proc, raw_exit = as_dict(record.get("proc")), as_dict(record.get("exit"))
    box.recorded = box.live or "_by" in raw_exit
    box.exit = {key: exit_of(value) for key, value in raw_exit.items() if not key.startswith("_")}
    box.late = [name for name in CALLS if name in box.exit and came_late(box.exit[name])]
    box.problems += [f"{text} can't be read" for text in record.get("unreadable", [])]
    cut = list(record.get("cut", [])) + [name for name in sorted(box.exit) if box.exit[name]["cut"]]
    box.problems += [f"{name} was cut at {LIMIT} bytes" for name in cut]
    for name, text in sorted(files.items()):
        check_file(box, name, text)
    check_recording(box, record)
    processes = read_cells(box, files)
    read_list(box, files)
    if box.gpus and all(gpu.index is None for gpu in box.gpus):
        for position, gpu in enumerate(box.gpus):
            gpu.index = position
    read_links(box, files)
    read_processes(box, files, processes)
    if "dmesg.txt" in files or "fabricmanager.txt" in files:
        box.log = parse_log(files.get("dmesg.txt", "") + files.get("fabricmanager.txt", ""))
        box.problems += box.log["problems"]
    read_other_captures(box, files)
    versions = [gpu.raw("driver_version") for gpu in box.gpus]
    box.driver = next((text for text in versions if state(text) == "value"), "")
    compare_with_sysfs(box)
    return box


def came_late(got):
    """Whether a call ended early because the whole series had no time left."""
    return got["unasked"] or (got["timed_out"] and got["short"])


def check_file(box, name, text):
    """Check that a file is complete, and look for failures of nvidia-smi in it."""
    if "\ufffd" in text:
        box.problems.append(f"{name} has bytes that aren't text")
    plain = COLOUR.sub("", text) if name in ("topo.txt", "dmesg.txt") else text
    if re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", plain):
        box.problems.append(f"{name} has control characters")
    ours = box.recorded and name in FILES
    if ours and not box.live and name in box.exit and text and not text.endswith("\n"):
        box.problems.append(f"{name} breaks off in its last line")
    if ours and name not in box.exit:
        box.problems.append(f"exit.json does not name {name}")
    if name.startswith(("nvidia-smi", "nvlink", "topo", "apps", "table", "q.", "fields")):
        failure = smi_failure(clean(text[:200000])) if name != "fields.txt" else None
        if failure and failure not in box.failures:
            box.failures.append(failure)
        box.lost += lost_handles(text)


def check_recording(box, record):
    """Check that a recording is complete."""
    if box.recorded and not box.live:
        ends = [got for name, got in box.exit.items() if name != "dmesg.txt"]
        stopped = any(got["timed_out"] or got["unasked"] for got in ends) or box.failures
        stopped = stopped or as_dict(box.exit.get("nvidia-smi.csv")).get("rc") == 127
        expected = FILES[6:7] if stopped else FILES[:7]
        box.missing += [name for name in expected if name not in record["files"]]
        if not box.proc and "proc.json" not in " ".join(record.get("unreadable", [])):
            box.missing.append("proc.json")
    if box.recorded and box.proc:
        kinds = {"platform": dict, "disks": dict, "memory": dict, "pci": list, "holders": list}
        wrong = [key for key, kind in kinds.items() if not isinstance(box.proc.get(key), kind)]
        if wrong or not box.proc["disks"]:
            box.problems.append("proc.json lacks {}".format(", ".join(wrong or ["disks"])))


def read_cells(box, files):
    """Read the outputs that show the state of GPUs into box.gpus. Return the listed processes."""
    sources, processes = [], []
    if "nvidia-smi.csv" in files:
        fields = as_dict(box.exit.get("nvidia-smi.csv")).get("asked", [])
        rows, problems = parse_csv(files["nvidia-smi.csv"], fields)
        sources.append(("csv", rows))
        if rows or not (box.failures or box.lost):
            box.problems += ["nvidia-smi --query-gpu: " + text for text in problems]
    xml = files.get("nvidia-smi-q.xml")
    if xml is not None and not (smi_failure(xml) or HANDLE.search(xml)):
        rows, listed, problems = parse_xml(xml)
        sources.append(("xml", rows))
        box.problems += problems
        if listed is not None:
            box.processes_known, processes = True, listed
    if "q.txt" in files:
        rows, problems = parse_q(files["q.txt"])
        sources.append(("q", rows))
        box.problems += problems
    if "table.txt" in files:
        sources.append(("table", parse_table(files["table.txt"])))
        listed = table_processes(files["table.txt"])
        # A table without processes proves nothing: a container's shows none.
        box.processes_known, processes = box.processes_known or bool(listed), processes + listed
    by_place = {}
    for source, rows in sources:
        for cells in rows:
            add_cells(box, by_place, source, cells)
    box.sources = [source for source, rows in sources if rows]
    return processes


def add_cells(box, by_place, source, cells):
    """Add the cells of one output to the GPU at the same place, or with the same index."""
    place, index = bdf(cells.get("pci.bus_id", "")), number(cells.get("index", "N/A"))
    gpu = by_place.get(place)
    if not place and index is not None:
        gpu = next((gpu for gpu in box.gpus if gpu.index == int(index)), None)
    if gpu is None:
        gpu = box.add_gpu(bdf=place)
    if place:
        by_place[place] = gpu
    if index is not None and gpu.index is None:
        gpu.index = int(index)
    if state(cells.get("uuid")) == "value":
        gpu.uuid = gpu.uuid or cells["uuid"]
    gpu.seen.add(source)
    for field, text in cells.items():
        if text not in gpu.cells.setdefault(field, []):
            gpu.cells[field].append(text)


def read_list(box, files):
    """`nvidia-smi -L`: names, identifiers and MIG instances."""
    if "nvidia-smi-list.txt" not in files:
        return
    listed, problems = parse_list(files["nvidia-smi-list.txt"])
    if box.recorded and not listed and not box.failures and not box.lost:
        problems.append("nvidia-smi -L lists nothing")
    box.problems += problems
    if listed:
        box.sources.append("list")
    distinct = len({entry["uuid"] for entry in listed}) == len(listed)
    for entry in listed:
        uuid, index = entry["uuid"], entry["index"]
        gpu = next((gpu for gpu in box.gpus if distinct and gpu.uuid and gpu.uuid == uuid), None)
        gpu = gpu or next((gpu for gpu in box.gpus if gpu.index == index), None)
        nameless = not any(gpu.index is not None or gpu.uuid for gpu in box.gpus)
        if gpu is None and nameless and index < len(box.gpus):
            gpu = box.gpus[index]
        if gpu is None:
            gpu = box.add_gpu(uuid=uuid)
        gpu.index = index if gpu.index is None else gpu.index
        gpu.listed_name, gpu.migs, gpu.listed_uuid = entry["name"], entry["migs"], uuid
        gpu.seen.add("list")


def read_links(box, files):
    """`nvlink -s` and `topo -m`."""
    if "nvlink.txt" in files:
        links, names, problems = parse_nvlink(files["nvlink.txt"])
        box.problems += problems
        for index in sorted(links) if not box.gpus else []:
            box.add_gpu(index=index, listed_name=names[index])
        for gpu in box.gpus:
            if gpu.index in links:
                gpu.links = links[gpu.index]
                gpu.seen.add("nvlink")
        if links:
            box.sources.append("nvlink")
    if "topo.txt" in files:
        box.topo, problems = parse_topo(files["topo.txt"])
        box.problems += problems
        covered = len({row for row, _ in box.topo})
        answering = len([gpu for gpu in box.gpus if gpu.seen & {"csv", "xml"}])
        whole = box.recorded and as_dict(box.exit.get("topo.txt")).get("rc") == 0
        if whole and answering > 1 and covered != answering and covered < len(box.gpus):
            box.problems.append(f"topo -m shows {covered} of {answering} GPUs")


def read_processes(box, files, processes):
    """Give each GPU its processes, from -q -x (`processes`) and from --query-compute-apps."""
    if "apps.csv" in files and not smi_failure(files["apps.csv"]):
        listed, problems = parse_apps(files["apps.csv"])
        box.problems += problems
        box.processes_known, processes = True, processes + listed
    for process in processes:
        for gpu in box.gpus:
            if process.get("index") is not None:
                here = process["index"] == gpu.index
            elif process["bdf"]:
                here = process["bdf"] == gpu.bdf
            else:
                here = process.get("uuid") and process.get("uuid") == gpu.uuid
            if here and process["pid"] not in [old["pid"] for old in gpu.processes]:
                gpu.processes.append(process)


def read_other_captures(box, files):
    """Read outputs that other tools record, and this check doesn't."""
    pages = {}
    # gpu_bus_id, retired_pages.address, retired_pages.cause: a row for each page, or [N/A]
    for line in clean(files.get("retired.csv", "")).splitlines()[1:]:
        cells = [cell.strip() for cell in line.split(",")]
        place = next((bdf(cell) for cell in cells if bdf(cell)), None)
        if place and any(re.match(r"0x[0-9a-fA-F]+$", cell) for cell in cells):
            kind = "double_bit" if "Double" in line else "single_bit_ecc"
            pages[place, kind] = pages.get((place, kind), 0) + 1
    for (place, kind), count in sorted(pages.items()):
        gpu = next((gpu for gpu in box.gpus if gpu.bdf == place), None)
        gpu = gpu or box.add_gpu(bdf=place, seen={"retired"})
        gpu.cells.setdefault(f"retired_pages.{kind}.count", []).append(str(count))
    disks = parse_df(files.get("df.txt", ""))
    if disks:
        box.proc = dict(box.proc, disks=dict(disks, **as_dict(box.proc.get("disks"))))
    if "edac.txt" in files:
        box.proc = dict(box.proc, edac=parse_memory_counts(files["edac.txt"]))
    limits = parse_limits(files.get("cgroup.txt", ""))
    for name, part in (("quota", "cpu"), ("limit_mib", "cgroup")):
        if name in limits:
            known = as_dict(box.proc.get(part))
            box.proc = dict(box.proc, **{part: dict({name: limits[name]}, **known)})
    box.dcgm = parse_dcgm(files.get("dcgm.txt", ""))
    for line in clean(files.get("lspci.txt", "")).splitlines():
        # 3b:00.0 3D controller [0302]: NVIDIA Corporation … (rev ff): it no longer answers
        if "NVIDIA" in line and "(rev ff)" in line:
            box.lost.append((bdf(line.split()[0]), None, short(line)))
    versions = re.findall(
        r"^(NVML|DRIVER|KMD) version\s*: ([\d.]+)", files.get("version.txt", ""), re.M
    )
    library, driver = (
        dict(versions).get("NVML"),
        dict(versions).get("KMD") or dict(versions).get("DRIVER"),
    )
    if library and version(driver)[:2] not in ((), version(library)[:2]):
        box.failures.append(("mismatch", f"NVML version {library}, driver version {driver}"))


# Where jobs write. Other mounts, such as those of snap packages, may be full and harmless.
JOBS_MOUNTS = re.compile(r"/(?:dev/shm|tmp|root|home|workspace|data|mnt|scratch)?\Z")
# shm              64M     0   64M   0% /dev/shm      shm   65536   0   65536   0% /dev/shm
DF_ROW = re.compile(
    r"^\s*\S+\s+([\d.]+)([KMGTP]?)i?\s+\S+\s+([\d.]+)([KMGTP]?)i?\s+\d+%\s+(/\S*)\s*$"
)


def parse_df(text):
    """`df` or `df -h` -> {path: its sizes, as `gather_disks` has them}."""
    header = re.search(r"^\s*Filesystem\s+(\S+)", text, re.M)
    block = {"1M-blocks": 1.0, "1K-blocks": 1 / 1024.0}.get(
        header.group(1) if header else "", 1 / 1024.0
    )
    unit = {"": block, "K": 1 / 1024.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
    disks = {}
    for row in filter(None, map(DF_ROW.match, clean(text).splitlines())):
        total, total_unit, free, free_unit, path = row.groups()
        if JOBS_MOUNTS.match(path) and total.count(".") < 2 and free.count(".") < 2:
            disks[path] = {
                "total_mib": float(total) * unit[total_unit],
                "free_mib": float(free) * unit[free_unit],
                "inodes": 0,
                "inodes_free": 0,
                "id": path,
            }
    return disks


def compare_with_sysfs(box):
    """Find the cards and device nodes of this box that nvidia-smi doesn't show."""
    cards = {bdf(str(card.get("bdf"))): card for card in nvidia_cards(box)}
    for gpu in box.gpus:
        minor = as_dict(cards.get(gpu.bdf)).get("minor")
        if isinstance(minor, int):
            gpu.cells.setdefault("x.minor", []).append(str(minor))
    shown = {gpu.bdf for gpu in box.gpus}
    box.missing_cards = [
        card
        for place, card in sorted(cards.items(), key=str)
        if box.gpus and card.get("driver") == "nvidia" and place not in shown
    ]
    others = ("hidden", "excluded", "absent", "denied")
    foreign = [card for card in box.missing_cards if card.get("node") in others]
    box.foreign = {bdf(str(card.get("bdf"))) for card in foreign}
    if box.container and box.gpus and not any("node" in card for card in cards.values()):
        opened = [
            node for node in map(as_dict, as_list(box.proc.get("dev"))) if not node.get("error")
        ]
        nodes = [node for node in opened if re.match(r"/dev/nvidia\d+$", str(node.get("path")))]
        box.spare_nodes = max(0, len(nodes) - len(box.gpus))


def nvidia_cards(box):
    """The NVIDIA cards of sysfs."""
    return [
        card for card in as_list(box.proc.get("pci")) if as_dict(card).get("vendor") == "0x10de"
    ]


def amd_cards(box):
    """Return the AMD cards of sysfs as [(label, card)].

    A label is an index. If there are NVIDIA GPUs too, a label is a place, and the integrated
    graphics of a Ryzen is left out.
    """
    cards = [
        card
        for card in map(as_dict, as_list(box.proc.get("pci")))
        if card.get("vendor") == "0x1002"
        and card.get("driver") in ("amdgpu", "")
        and str(card.get("mem_info_vram_total", "")).isdigit()
    ]
    if not box.gpus:
        return list(enumerate(cards))
    return [
        (bdf(str(card.get("bdf"))), card)
        for card in cards
        if card.get("ras") or not str(card.get("class")).startswith("0x03")
    ]


# ---- cards.py
# What a card of a name has: memory, links, peak speed.
#
# Source, unless a line names another: NVIDIA's data sheets, read on 2026-11-20.

# (pattern of the card's name, what a card of that name has)
CARD_TABLE = r"""
# pattern of the name | GiB | compute capability | PCIe generation | watts | types | peer to peer
# GiB: the smallest card sold under the name (RTX 3060: 8 and 12, 5060 Ti: 8 and 16).
# types: b bf16, f fp8. The first pattern found in the name counts. Source: NVIDIA data sheets.
Tesla P100-SXM2-16GB                        | 16  | 6.0  | 3 | 300  | -  | nvlink
Tesla P100-PCIE-16GB                        | 16  | 6.0  | 3 | 250  | -  | pcie
Tesla P40$                                  | 24  | 6.1  | 3 | 250  | -  | pcie
V100-SXM[23]-16GB                           | 16  | 7.0  | 3 | 300  | -  | nvlink
V100-SXM[23]-32GB                           | 32  | 7.0  | 3 | 300  | -  | nvlink
V100S-PCIE-32GB                             | 32  | 7.0  | 3 | 250  | -  | pcie
V100-PCIE-16GB                              | 16  | 7.0  | 3 | 250  | -  | pcie
V100-PCIE-32GB                              | 32  | 7.0  | 3 | 250  | -  | pcie
(Tesla|NVIDIA) T4$                          | 16  | 7.5  | 3 | 70   | -  | pcie
A100-SXM4-40GB                              | 40  | 8.0  | 4 | 400  | b  | nvlink
A100-SXM4-80GB                              | 80  | 8.0  | 4 | 400  | b  | nvlink
A100-PCIE-40GB                              | 40  | 8.0  | 4 | 250  | b  | bridge
A100 80GB PCIe                              | 80  | 8.0  | 4 | 300  | b  | bridge
A800-SXM4-80GB                              | 80  | 8.0  | 4 | 400  | b  | nvlink
A30$                                        | 24  | 8.0  | 4 | 165  | b  | bridge
A40$                                        | 48  | 8.6  | 4 | 300  | b  | bridge
A10G$                                       | 24  | 8.6  | 4 | 300  | b  | pcie
A10$                                        | 24  | 8.6  | 4 | 150  | b  | pcie
A2$                                         | 16  | 8.6  | 4 | 60   | b  | pcie
L40S$                                       | 48  | 8.9  | 4 | 350  | bf | pcie
L40$                                        | 48  | 8.9  | 4 | 300  | bf | pcie
L20$                                        | 48  | 8.9  | 4 | 275  | bf | pcie
L4$                                         | 24  | 8.9  | 4 | 72   | bf | pcie
H100 80GB HBM3                              | 80  | 9.0  | 5 | 700  | bf | nvlink
H100 PCIe                                   | 80  | 9.0  | 5 | 350  | bf | bridge
H100 NVL                                    | 94  | 9.0  | 5 | 400  | bf | bridge
H800$                                       | 80  | 9.0  | 5 | 700  | bf | nvlink
H20$                                        | 96  | 9.0  | 5 | 500  | bf | nvlink
H200 NVL                                    | 140 | 9.0  | 5 | 600  | bf | bridge
(?<!G)H200$                                 | 140 | 9.0  | 5 | 700  | bf | nvlink
GH200 480GB                                 | 96  | 9.0  | 5 | 900  | bf | nvlink
GH200 144G                                  | 144 | 9.0  | 5 | 900  | bf | nvlink
GB300                                       | 277 | 10.3 | 6 | 1400 | bf | nvlink
(?<!G)B300                                  | 268 | 10.3 | 6 | 1100 | bf | nvlink
GB200                                       | 185 | 10.0 | 5 | 1200 | bf | nvlink
(?<!G)B200                                  | 179 | 10.0 | 5 | 1000 | bf | nvlink
B100$                                       | 179 | 10.0 | 5 | 700  | bf | nvlink
GB10$                                       | 128 | 12.1 | 5 | 140  | bf | none
TITAN V$                                    | 12  | 7.0  | 3 | 250  | -  | none
TITAN RTX$                                  | 24  | 7.5  | 3 | 280  | -  | bridge
Quadro RTX 8000$                            | 48  | 7.5  | 3 | 260  | -  | bridge
Quadro RTX 6000$                            | 24  | 7.5  | 3 | 260  | -  | bridge
RTX A6000$                                  | 48  | 8.6  | 4 | 300  | b  | bridge
RTX A5000$                                  | 24  | 8.6  | 4 | 230  | b  | bridge
RTX A4000$                                  | 16  | 8.6  | 4 | 140  | b  | pcie
RTX 6000 Ada                                | 48  | 8.9  | 4 | 300  | bf | pcie
RTX 5000 Ada Generation$                    | 32  | 8.9  | 4 | 250  | bf | pcie
RTX 4500 Ada Generation$                    | 24  | 8.9  | 4 | 210  | bf | pcie
RTX 4000 SFF Ada                            | 20  | 8.9  | 4 | 70   | bf | pcie
RTX 4000 Ada Generation$                    | 20  | 8.9  | 4 | 130  | bf | pcie
RTX PRO 6000 Blackwell Max-Q                | 96  | 12.0 | 5 | 300  | bf | pcie
RTX PRO 6000 Blackwell (Workstation|Server) | 96  | 12.0 | 5 | 600  | bf | pcie
RTX PRO 5000 Blackwell$                     | 48  | 12.0 | 5 | 300  | bf | pcie
RTX PRO 4500 Blackwell$                     | 32  | 12.0 | 5 | 200  | bf | pcie
RTX PRO 4000 Blackwell$                     | 24  | 12.0 | 5 | 140  | bf | pcie
RTX 2060$                                   | 6   | 7.5  | 3 | 160  | -  | none
RTX 2070$                                   | 8   | 7.5  | 3 | 175  | -  | none
RTX 2070 SUPER$                             | 8   | 7.5  | 3 | 215  | -  | bridge
RTX 2080$                                   | 8   | 7.5  | 3 | 215  | -  | bridge
RTX 2080 SUPER$                             | 8   | 7.5  | 3 | 250  | -  | bridge
RTX 2080 Ti$                                | 11  | 7.5  | 3 | 250  | -  | bridge
RTX 3060$                                   | 8   | 8.6  | 4 | 170  | b  | none
RTX 3060 Ti$                                | 8   | 8.6  | 4 | 200  | b  | none
RTX 3070$                                   | 8   | 8.6  | 4 | 220  | b  | none
RTX 3070 Ti$                                | 8   | 8.6  | 4 | 290  | b  | none
RTX 3080$                                   | 10  | 8.6  | 4 | 320  | b  | none
RTX 3080 Ti$                                | 12  | 8.6  | 4 | 350  | b  | none
RTX 3090$                                   | 24  | 8.6  | 4 | 350  | b  | bridge
RTX 3090 Ti$                                | 24  | 8.6  | 4 | 450  | b  | bridge
RTX 4060$                                   | 8   | 8.9  | 4 | 115  | bf | none
RTX 4060 Ti$                                | 8   | 8.9  | 4 | 160  | bf | none
RTX 4070$                                   | 12  | 8.9  | 4 | 200  | bf | none
RTX 4070 SUPER$                             | 12  | 8.9  | 4 | 220  | bf | none
RTX 4070 Ti$                                | 12  | 8.9  | 4 | 285  | bf | none
RTX 4070 Ti SUPER$                          | 16  | 8.9  | 4 | 285  | bf | none
RTX 4080$                                   | 16  | 8.9  | 4 | 320  | bf | none
RTX 4080 SUPER$                             | 16  | 8.9  | 4 | 320  | bf | none
RTX 4090$                                   | 24  | 8.9  | 4 | 450  | bf | none
RTX 4090 D$                                 | 24  | 8.9  | 4 | 425  | bf | none
RTX 5060 Ti$                                | 8   | 12.0 | 5 | 180  | bf | none
RTX 5070$                                   | 12  | 12.0 | 5 | 250  | bf | none
RTX 5070 Ti$                                | 16  | 12.0 | 5 | 300  | bf | none
RTX 5080$                                   | 16  | 12.0 | 5 | 360  | bf | none
RTX 5090$                                   | 32  | 12.0 | 5 | 575  | bf | none
"""
SKU = [
    (
        re.compile(name),
        {
            "vram_gib": int(gib),
            "compute_cap": capability,
            "pcie_gen": int(generation),
            "tdp_w": int(watts),
            "bf16": "b" in types,
            "fp8": "f" in types,
            "p2p": p2p,
        },
    )
    for name, gib, capability, generation, watts, types, p2p in rows_of(CARD_TABLE)
]

# Data-centre cards, most of them with HBM.
HBM = re.compile(r"P100|V100|A100|A800|A30$|H100|H800|H20$|H200|B100|B200|B300|GB200|GB300")

# NVLinks of a GPU, and GB/s of one: NVIDIA Health Validation docs (H100 18 x 26.562, GB200 53.125),
# a captured A100 (12 x 25).
NVLINKS = (
    ("H100 80GB HBM3", 18, 26.562),
    ("H200$", 18, 26.562),
    ("A100-SXM4", 12, 25.0),
    ("GB200|GB300", 18, 53.125),
)

# Cards that a virtual machine may have with fewer lanes than they support: name, lanes.
# Unconfirmed: only AWS rents the A10G, and no public source says how it is wired.
FEWER_LANES = (("A10G$", 8),)

# Unified memory: nvidia-smi shows no memory size for these.
NO_OWN_MEMORY = re.compile(r"GB10\b|Thor|Orin")

# Dense tensor-core peak in TFLOPS, bf16 (fp16 before Ampere), as the data sheets give it. Read on
# 2026-11-20 in torchtitan (tools/utils.py: H100, H200, A100, B200, L40S), in Lightning 2.6.6
# (fabric/utilities/throughput.py: L4, L40, A10, V100, T4), and for A40 and RTX 4090 in lists of the
# data sheets. A card that isn't here is compared with its neighbours only.
PEAK_TFLOPS = (
    ("H100 80GB HBM3|H200$", 989),
    ("H100 PCIe", 756),
    ("H100 NVL", 835),
    ("A100", 312),
    ("B200", 2250),
    ("L40S$", 362),
    ("L40$", 181),
    ("L4$", 121),
    ("A40$", 149),
    ("A10$", 125),
    ("V100", 112),
    ("T4$", 65),
    ("RTX 4090$", 165),
)


def sku_of(name):
    """What a card of this name has, or None for a name that isn't in the table."""
    for pattern, sku in SKU:
        if pattern.search(name or ""):
            return sku
    return None


# ---- storms.py
# Many lines of one fault as one: how many, from when to when, by which processes.

# [  300.123456]      [Sat Mar  4 04:25:12 2026]      Nov 22 18:29:55 host kernel:
# 2026-11-20T16:31:06.123456+00:00 host kernel:      6,3973,227996636,-;
# [Jan21 11:05]      [  +0.000844]
STAMP = re.compile(
    r"\s*(?:<\d+>)?(?:\[\s*(?P<monotonic>\d+\.\d+)\]|\[\s*\+\d+\.\d+\]"
    r"|\[(?P<day>[A-Z]\w\w [A-Z]\w\w +\d+ [\d:]+ \d{4}|[A-Z]\w\w\d\d \d\d:\d\d)\]"
    r"|(?P<syslog>[A-Z]\w\w +\d+ \d\d:\d\d:\d\d)|(?P<iso>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)"
    r"|\d+,\d+,(?P<micro>\d+),)"
)
# pid=1234, name=python,      pid='<unknown>', name=<unknown>,      Killed process 4100 (python3)
# [python3:2254956]      task python3:77 blocked
PROCESSES = (
    re.compile(r"\bpid='?(\d+)'?(?:, name=([^,\n]{1,60}))?"),
    re.compile(r"Killed process (\d+) \(([^)]{1,60})\)"),
    re.compile(r"stuck for \d+s! \[([^\]:]{1,60}):(\d+)\]"),
    re.compile(r"task (\S.{0,60}):(\d+)\b.{0,80} blocked for more"),
)
MOST_NAMED = 2
# Graphics SM Warp Exception on (GPC 3, TPC 5, SM 1): Out Of Range Address
UNIT = re.compile(r"\bGPC (\d+), TPC (\d+)")


def when(line):
    """The time that a line begins with, as it writes it; seconds since boot as `300 s`."""
    stamp = STAMP.match(line)
    if not stamp:
        return ""
    seconds = stamp["monotonic"] or (stamp["micro"] and int(stamp["micro"]) / 1e6)
    if seconds:
        return f"{float(seconds):.0f} s"
    return " ".join((stamp["day"] or stamp["syslog"] or stamp["iso"] or "").split())


def process_of(line):
    """The process that a line names, as `python 1234`, or ""."""
    for pattern in PROCESSES:
        found = pattern.search(line)
        if found:
            pid, name = sorted(found.groups(""), key=lambda text: not text.isdigit())
            return f"{name} {pid}" if name.strip("<>") not in ("", "unknown") else f"pid {pid}"
    return ""


def processes_of(lines):
    """The processes that lines name, each once, in the order of the lines."""
    return list(dict.fromkeys(filter(None, map(process_of, lines))))


def storm(lines):
    """What a reader needs of lines that tell one fault: '', or ' (N times, from A to B; by P)'."""
    if len(lines) < 2:
        return ""
    processes = processes_of(lines)
    named = ", ".join(short(name, 40) for name in processes[:MOST_NAMED])
    more = len(processes) - MOST_NAMED
    by = f"; by {named}" + (f" and {more} more" if more > 0 else "") if processes else ""
    first, last = when(lines[0]), when(lines[-1])
    texts = {STAMP.sub("", line, count=1) for line in lines}
    distinct = f", {len(texts)} different" if 1 < len(texts) < len(lines) else ""
    span = f", from {first} to {last}" if first and last and first != last else ""
    return f" ({len(lines)} times{distinct}{span}{by})"


def same_unit(lines):
    """The unit of a card in which kernels of several processes failed, and nowhere else, or ''.

    A program's own fault comes anywhere on the card. NVIDIA's workflow for Xid 13 suspects the
    hardware where GPC and TPC repeat.
    """
    units = {}
    for line in lines:
        process, unit = process_of(line), UNIT.search(line)
        if process and unit:
            units.setdefault(process, set()).add("GPC {}, TPC {}".format(*unit.groups()))
    places = set().union(*units.values())
    return places.pop() if len(units) > 1 and len(places) == 1 else ""


# ---- repeated.py
# Events that mean more the more of them there are: corrected errors, and Xids of many programs.
#
# `kernel_log` gives each the level that it has alone. Python 3.8.

# mcelog's threshold for a memory module: 10 corrected errors in 24 hours (mcelog.org)
CORRECTED_A_DAY = 10
DAY_S = 86400
# Programs that Xid 43 or 45 must have met on one GPU. One program with a bug fails again and again
# as well, so it is a reason to try another card, never a proof (our limit).
PROGRAMS = 3
XGMI_ERRORS = 100  # corrected errors of the links between AMD cards (our limit)

# Processes that the kernel killed within a day for want of memory. One may be a program's own fault
# and over; several say that the box or its container is too small for what runs there (our limit).
KILLED = 3

CORRECTED = re.compile(r"EDAC \S{1,20}: (\d{1,9}) CE")
XGMI = re.compile(r"(\d{1,12}) correctable hardware errors detected in")


def with_repetition(events):
    """Return events as they are to be judged: those that repetition makes worse have its level.

    `events` in the order of the log; those that it changes are copies.
    """
    programs = programs_of(events)
    failing, short_of_memory = are_failing(events), are_killed_often(events)
    xids = {(event["bdf"], event["code"]) for event in events if event["kind"] == "xid"}
    out = []
    for event in events:
        kind, place, code = event["kind"], event["bdf"], event["code"]
        if kind == "corrected memory" and failing:
            event = dict(event, kind="failing memory", level="degraded")
        elif kind == "corrected memory" and "Machine check events logged" not in event["line"]:
            event = dict(event, level="warn")
        elif kind == "amd xgmi":
            count = XGMI.search(event["line"])
            many = count and int(count.group(1)) >= XGMI_ERRORS
            event = dict(event, level="degraded" if many else "warn")
        elif kind == "killed" and short_of_memory:
            event = dict(event, level="degraded")
        elif kind == "xid" and code == 45 and is_bad(previous_xid(event["line"]), place, xids):
            event = dict(event, level=xid_level(previous_xid(event["line"]), ""))
        elif kind == "xid" and code == 43 and len(programs.get((place, code), ())) >= PROGRAMS:
            event = dict(event, level="degraded")
        elif kind == "xid" and code == 45 and len(programs.get((place, code), ())) >= PROGRAMS:
            event = dict(event, level="warn")
        out.append(event)
    return out


def programs_of(events):
    """{(place, Xid): the programs that met it there} for Xid 43, and 45 without another Xid there.

    Xid 45 is the clean-up after a program, so another Xid explains it.
    """
    lines = {}
    for event in events:
        if event["kind"] == "xid":
            lines.setdefault((event["bdf"], event["code"]), []).append(event["line"])
    explained = {place for place, code in lines if code != 45}
    return {
        (place, code): processes_of(own)
        for (place, code), own in lines.items()
        if code == 43 or (code == 45 and place not in explained)
    }


def are_failing(events):
    """Whether as many corrected errors came within a day as say that a memory module will fail.

    Lines without a time count as of one day. Where EDAC counts the errors, the machine checks that
    announce them aren't counted again.
    """
    own = [event for event in events if event["kind"] == "corrected memory"]
    counted = [event for event in own if CORRECTED.search(event["line"])]
    times = []
    for event in counted or own:
        match = CORRECTED.search(event["line"])
        second = seconds_of(event["line"]) or 0
        times += [second] * min(int(match.group(1)) if match else 1, CORRECTED_A_DAY)
    return are_within_a_day(times, CORRECTED_A_DAY)


def are_within_a_day(times, number):
    """Whether as many as `number` of these times, in seconds, lie within a day."""
    times = sorted(times)
    return any(last - first < DAY_S for first, last in zip(times, times[number - 1 :]))


def are_killed_often(events):
    """Whether the kernel killed several processes within a day. Lines without a time count as of
    one day."""
    own = [event["line"] for event in events if event["kind"] == "killed"]
    firsts = {process_of(line): seconds_of(line) or 0 for line in reversed(own)}
    return are_within_a_day(firsts.values(), KILLED)


def is_bad(code, place, xids):
    """Whether a clean-up (Xid 45) is the only trace of an Xid that asks for more than a look.

    `xids`: the (place, Xid) of the log.
    """
    return (
        code is not None and (place, code) not in xids and RANK[xid_level(code, "")] < RANK["warn"]
    )


# ---- judge_host.py
# Judge the host: disks, memory, the fabric manager, and cards that the driver doesn't show.
#
# `box` is a `box.ExaminedBox`, and a place is a PCI address. `add` is a `findings.Findings`:
# add(gpu, name, *values) adds the finding `name`, with None for `gpu` if it is about the whole box.


def judge_system(box, add):
    """Judge disks, memory and device nodes.

    The limits are our own, unless the finding names a source.
    """
    seen = set()
    for path, disk in sorted(as_dict(box.proc.get("disks")).items()):
        judge_disk(short(path, 80), disk, seen, add)
    judge_host_memory(box, add)
    judge_memory_errors(box, add)
    judge_processors(box, add)
    for node in map(as_dict, as_list(box.proc.get("dev"))):
        if node.get("error") and re.match(r"/dev/nvidia(\d+|ctl)$", str(node.get("path"))):
            add(None, "closed_node", node["path"], node["error"])
    judge_fabric_manager(box, add)
    for name in as_list(box.proc.get("unfinished")):
        if name != "gather_disks":  # the path that hung gets the finding dead_mount instead
            add(None, "unfinished_part", short(name, 120), key=f"late {name}")
    judge_hidden_cards(box, add)


def judge_host_memory(box, add):
    """Judge the container's memory limit. If that isn't nearly used up, judge the box's memory."""
    limits, memory = as_dict(box.proc.get("cgroup")), as_dict(box.proc.get("memory"))
    limit, used = as_number(limits.get("limit_mib")) or 0, as_number(limits.get("used_mib"))
    total, available = (
        as_number(memory.get("total_mib")) or 0,
        as_number(memory.get("available_mib")),
    )
    cards = [gpu.number("memory.total") or 0 for gpu in box.gpus]
    if 0 < limit < min(max(cards, default=0), total or limit + 1):
        add(None, "less_memory_than_a_gpu", limit, max(cards))
    if used is not None and 0 < 0.95 * limit < used:
        add(None, "container_memory", used, limit)
    elif available is not None and total > 0 and available < 1024:
        add(None, "little_memory", available, total)


PROCESSORS_A_GPU = 2  # a process that trains, and one that loads data (our limit)
THROTTLED = 0.25  # of the periods in which a container used processors (our limit)
STEAL_WARN, STEAL_DEGRADED = 0.05, 0.2  # of the time in which programs wanted to run (our limits)
DAYS_UNKNOWN = 100.0  # that a box may have counted of which nobody says how long (our limit)
LEAST_TICKS = 3000  # of the kernel's clock, 100 a second: less tells nothing


def judge_memory_errors(box, add):
    """Judge what EDAC counted since the boot: memory errors that were corrected, or couldn't be.

    Of counts that somebody pasted nothing says since when, so that a few may be years old.
    """
    uptime = as_number(box.proc.get("uptime_s"))
    days = DAYS_UNKNOWN if uptime is None else max(1.0, uptime / 86400.0)
    since = "since a time that isn't told" if uptime is None else f"up {days:.1f} days"
    for name, counts in sorted(as_dict(box.proc.get("edac")).items()):
        counts = as_dict(counts)
        uncorrected, corrected = as_number(counts.get("ue")), as_number(counts.get("ce"))
        values = (short(name, 20), since)
        if uncorrected:
            add(None, "uncorrected_memory", uncorrected, *values, key=f"host memory {name}")
        elif corrected and corrected >= CORRECTED_A_DAY * days:
            add(None, "corrected_memory", corrected, *values, key=f"host memory {name}")
        elif corrected and uptime is None:
            add(None, "few_corrected", corrected, *values, key=f"host memory {name}")


def processors_of(box):
    """How many processors the job may use, by its affinity and its container's quota, or None."""
    cpu = as_dict(box.proc.get("cpu"))
    known = [as_number(cpu.get(name)) for name in ("allowed", "quota")]
    return min([number for number in known if number], default=None)


def judge_processors(box, add):
    """Judge the processors that the job may use, and how much of their time others take."""
    cpu, mine = as_dict(box.proc.get("cpu")), processors_of(box)
    total = as_number(cpu.get("count"))
    if mine and mine < min(total or math.inf, PROCESSORS_A_GPU * len(box.gpus)):
        of = f" of {total:g}" if total else ""
        add(None, "few_processors", f"{mine:g}{of}", len(box.gpus))
    periods, throttled = as_number(cpu.get("periods")), as_number(cpu.get("throttled"))
    if periods and throttled and periods >= 1000 and throttled > THROTTLED * periods:
        add(None, "throttled_container", 100 * throttled / periods)
    share = stolen_share(as_list(cpu.get("times")))
    if share and share >= STEAL_WARN:
        level = "degraded" if share >= STEAL_DEGRADED else "warn"
        add(None, "stolen_time", 100 * share, level=level)


def stolen_share(times):
    """The share of the time that the machine wanted to run in which others ran, or None.

    `times`: the first line of /proc/stat, in ticks: user, nice, system, idle, iowait, irq, softirq,
    steal, since the boot of the machine.
    """
    ticks = [value for value in times[:8] if isinstance(value, (int, float))]
    if len(ticks) < 8:
        return None
    wanted = sum(ticks) - ticks[3] - ticks[4]
    return ticks[7] / wanted if wanted >= LEAST_TICKS else None


def judge_fabric_manager(box, add):
    """Judge nv-fabricmanager: without it no CUDA program starts on a board with NVSwitches."""
    switches, manager = box.proc.get("nvswitches"), box.proc.get("fabricmanager", "")
    needed = isinstance(switches, int) and switches > 0 and len(box.gpus) > 1
    if needed and manager is False and not box.container:
        ready = any("Completed" in (gpu.raw("fabric.state") or "") for gpu in box.gpus)
        add(None, "no_fabric_manager", switches, level="degraded" if ready else "fatal")


def as_number(value):
    """The value if it is a number, otherwise None."""
    return value if isinstance(value, (int, float)) else None


class DiskSizes(NamedTuple):
    """The size of a file system in MiB and in inodes, and how much of each is free."""

    total: float
    free: float
    inodes: float
    inodes_free: float


def sizes_of(disk):
    """Return the DiskSizes of a disk as it was gathered, or None if a size is missing."""
    names = ("total_mib", "free_mib", "inodes", "inodes_free")
    values = [as_number(disk.get(name)) for name in names]
    known = [value for value in values if value is not None and value >= 0]
    return DiskSizes(*known) if len(known) == len(names) else None


def judge_disk(path, disk, seen, add):
    """Judge one path that the job writes to.

    `seen` holds the disks that were judged already, under other paths.
    """
    if disk is None:
        add(None, "dead_mount", path, key="disk " + path)
        return
    disk = as_dict(disk)
    if "error" in disk:
        if path != "/dev/shm" and disk["error"] != "No such file or directory":
            add(None, "path_error", path, disk["error"], key="disk " + path)
        return
    sizes = sizes_of(disk)
    if sizes is None:
        add(None, "path_size", path, do=(path,), key="disk " + path)
        return
    if path == "/dev/shm":
        judge_shm(sizes, add)
        return
    if disk.get("read_only") and disk.get("asked"):
        add(None, "path_read_only", path, key="disk " + path)
    place = disk.get("id") or (sizes.total, sizes.free, sizes.inodes)
    if not disk.get("read_only") and sizes.total != 0 and place not in seen:
        seen.add(place)
        judge_space(path, sizes, add)
        judge_inodes(path, sizes, add)


def judge_shm(sizes, add):
    """Judge /dev/shm. Docker's default of 64 MiB is too little for data loaders."""
    if 0 < sizes.total <= 64:
        add(None, "shm_default", sizes.total)
    elif sizes.total < 1024:
        add(None, "shm_small", sizes.total)
    elif sizes.free < 64:
        add(None, "shm_full", sizes.free)


def judge_space(path, sizes, add):
    """Judge the free space of a disk."""
    values, key = (path, sizes.free, sizes.total), "disk " + path
    if sizes.free < 512:
        add(None, "disk_full", *values, key=key)
    elif sizes.free < 5120:
        add(None, "disk_nearly_full", *values, key=key)
    elif sizes.free < 0.03 * sizes.total and sizes.free < 51200:
        add(None, "disk_filling", *values, key=key)


def judge_inodes(path, sizes, add):
    """Judge the free inodes of a disk.

    A file system that creates inodes as needed reports 0 of 0, so it gets no finding.
    """
    values, key = (path, sizes.inodes_free, sizes.inodes), "inodes " + path
    if sizes.inodes and sizes.inodes_free < 100:
        add(None, "no_inodes", *values, key=key)
    elif sizes.inodes and sizes.inodes_free < 0.02 * sizes.inodes:
        add(None, "few_inodes", *values, key=key)


def judge_hidden_cards(box, add):
    """Judge cards and device nodes that nvidia-smi doesn't show: lost, or used by another job."""
    wsl = as_dict(box.proc.get("platform")).get("wsl")
    for card in box.missing_cards if not wsl else []:
        if card.get("node") == "open":
            add(bdf(str(card.get("bdf"))), "unknown_card", short(card.get("bdf")))
    for card in cards_without_driver(box) if box.gpus and not wsl else []:
        place, name = bdf(str(card.get("bdf"))), card.get("driver") or "none"
        if place not in ignored_cards(box):
            values = (short(card.get("bdf")), short(name, 40))
            add(place, "card_without_driver", *values, level=level_of_lost(box))
    hidden = [card for card in box.missing_cards if "node" not in card]
    hidden = [card for card in hidden if not add.has("lost", bdf(str(card.get("bdf"))))]
    if hidden and not box.container and not wsl:
        add(None, "hidden_cards", len(hidden), len(nvidia_cards(box)))
    if box.spare_nodes and not any(key in ("lost", "count") for key, _ in add.keys):
        add(None, "spare_nodes", len(box.gpus) + box.spare_nodes, len(box.gpus))


def cards_without_driver(box):
    """Return NVIDIA's display devices that have no driver, or only nouveau.

    Two kinds are left out as healthy: a card with vfio-pci, which a virtual machine uses, and a
    virtual function, which waits for one.
    """
    return [
        card
        for card in nvidia_cards(box)
        if str(card.get("class")).startswith(("0x0300", "0x0302"))
        and card.get("driver") in ("", "nouveau")
        and not card.get("virtual_function")
    ]


def ignored_cards(box):
    """Return the places of the cards that are too old for the driver, according to its log."""
    events = box.log["events"] if box.log else []
    return {event["bdf"] for event in events if event["kind"] == "legacy" and not event["old"]}


def level_of_lost(box):
    """Return the level of a card that the driver never got.

    For a job on part of a node, the card is probably another job's. In a container nobody can tell.
    """
    if box.foreign:
        return "warn"
    return "unknown" if box.container and box.gpus else "fatal"


# ---- names.py
# Which card a name means: the driver's own, or one that a person writes.

NAME_TABLE = r"""
# SKU | the driver's other names, by commas | a way in which people write it | another way …
# The SKU itself is a name of the driver and a way too. In a way, [words] may be left out, and [a,b]
# is one of them or nothing. Case, blanks and signs don't count, nor do the makers' words NVIDIA,
# GeForce, Tesla, AMD and Instinct. A name without a board means the usual one: H100 is the SXM
# board, A100 any A100. An indented line continues the row before it.
# Sources, read on 2026-11-27: the driver's names of Turing and newer cards from the list of
# supported GPUs of open-gpu-kernel-modules 595.45.04 (2026-03-05); older ones from captures of
# nvidia-smi. From general knowledge: the ways (price lists of vast.ai, RunPod, Lambda, SkyPilot)
# and AMD's names.
P100 SXM | P100-SXM2-16GB | p100 [16gb] | p100 sxm[2] [16gb]
P100 PCIe | P100-PCIE-16GB, P100-PCIE-12GB | p100 [16gb] | p100 pcie [12gb,16gb]
P40 | - | p40 [24gb]
P4 | - | p4 [8gb]
V100 SXM 16GB | V100-SXM2-16GB, V100-SXM3-16GB | v100 [sxm,sxm2,sxm3] [16gb] | v100 16gb
    [sxm,sxm2,sxm3]
V100 SXM 32GB | V100-SXM2-32GB, V100-SXM3-32GB, V100-SXM2-32GB-LS, V100-SXM3-32GB-H | v100
    [sxm,sxm2,sxm3] [32gb] | v100 32gb [sxm,sxm2,sxm3]
V100 PCIe 16GB | V100-FHHL-16GB | v100 [pcie] [16gb] | v100 16gb [pcie]
V100 PCIe 32GB | - | v100 [pcie] [32gb] | v100 32gb [pcie]
V100S | V100S-PCIE-32GB | v100s [pcie] [32gb] | v100s 32gb
T4 | - | t4 [16gb]
A100 SXM 40GB | A100-SXM4-40GB | a100 [sxm,sxm4,hgx] [40gb] | a100 40gb [sxm,sxm4,hgx]
A100 SXM 64GB | - | a100 [sxm,sxm4,hgx] [64gb] | a100 64gb [sxm,sxm4,hgx]
A100 SXM 80GB | A100-SXM4-80GB | a100 [sxm,sxm4,hgx] [80gb] | a100 80gb [sxm,sxm4,hgx]
A100 PCIe 40GB | - | a100 [pcie] [40gb] | a100 40gb [pcie]
A100 PCIe 80GB | A100 80GB PCIe | a100 [pcie] [80gb] | a100 80gb [pcie]
A800 SXM 40GB | A800-SXM4-40GB | a800 [sxm,sxm4] [40gb] | a800 40gb [sxm,sxm4]
A800 SXM 80GB | A800-SXM4-80GB | a800 [sxm,sxm4] [80gb] | a800 80gb [sxm,sxm4]
A800 PCIe 80GB | A800 80GB PCIe, A800 80GB PCIe LC | a800 [pcie] [80gb] | a800 80gb [pcie]
A800 Active | A800 40GB Active | a800 [40gb] active
A30 | - | a30 [pcie] [24gb]
A40 | - | a40 [pcie] [48gb]
A10 | - | a10 [pcie] [24gb]
A10G | - | a10g [24gb]
A16 | - | a16 [16gb,64gb]
A2 | - | a2 [16gb]
L2 | - | l2 [24gb]
L4 | - | l4 [24gb]
L20 | - | l20 [48gb]
L40 | - | l40 [48gb]
L40S | - | l40s [48gb]
H100 SXM | H100 80GB HBM3, H100 | h100 [80gb] [sxm,sxm5,hgx,hbm3] | h100 [sxm,sxm5,hgx] [80gb]
    [hbm3] | h100 mega [80gb]
H100 PCIe | - | h100 pcie [80gb] | h100 80gb pcie
H100 NVL | - | h100 nvl [94gb] | h100 94gb [nvl]
H800 SXM | H800 | h800 [80gb] [sxm,sxm5,hgx] | h800 [sxm,sxm5,hgx] [80gb]
H800 PCIe | - | h800 pcie [80gb] | h800 80gb pcie
H800 NVL | - | h800 nvl [94gb]
H20 | - | h20 [sxm,sxm5] [96gb] | h20 96gb [sxm,sxm5] | h20 nvlink
H20 141GB | H20-3e | h20 3e | h20e
H20 NVL16 | -
H200 SXM | H200 | h200 [141gb,140gb] [sxm,sxm5,hgx] | h200 [sxm,sxm5,hgx] [141gb,140gb]
H200 NVL | - | h200 nvl [141gb] | h200 [141gb] nvl | h200 pcie
GH200 96GB | GH200 480GB, GH200 120GB | gh200 [96gb,480gb,120gb] | gh200 superchip
GH200 144GB | GH200 144G HBM3e | gh200 [144gb,144g] [hbm3e] | gh200 superchip
B100 | - | b100 [192gb,180gb] [sxm,sxm6,hgx]
B200 | - | b200 [180gb,192gb] [sxm,sxm6,hgx] | b200 [sxm,sxm6,hgx] [180gb,192gb]
GB200 | - | gb200 [nvl72,186gb,192gb]
B300 | B300 SXM6 AC | b300 [288gb,268gb,262gb] [sxm,sxm6,hgx] | b300 [sxm,sxm6,hgx] [ac]
    [288gb,268gb,262gb]
GB300 | - | gb300 [nvl72,288gb]
GB10 | - | dgx spark
TITAN V | -
TITAN Xp | -
TITAN RTX | -
Quadro RTX 8000 | - | [quadro] rtx 8000 [48gb] | q rtx 8000
Quadro RTX 6000 | - | [quadro] rtx 6000 [24gb] | q rtx 6000
Quadro RTX 5000 | - | [quadro] rtx 5000 [16gb]
Quadro RTX 4000 | - | [quadro] rtx 4000 [8gb]
RTX A2000 | RTX A2000 12GB | [rtx] a2000 [6gb,12gb]
RTX 6000 Ada | RTX 6000 Ada Generation | [rtx] 6000 ada [generation] [48gb]
RTX PRO 6000 Workstation | RTX PRO 6000 Blackwell Workstation Edition | [rtx] pro 6000 [blackwell]
    [96gb] | [rtx] pro 6000 [blackwell] [workstation,workstation edition,ws,wk,w] [96gb]
RTX PRO 6000 Server | RTX PRO 6000 Blackwell Server Edition | [rtx] pro 6000 [blackwell] [96gb] |
    [rtx] pro 6000 [blackwell] [server,server edition,se,s] [96gb]
RTX PRO 6000 Max-Q | RTX PRO 6000 Blackwell Max-Q Workstation Edition | [rtx] pro 6000 [blackwell]
    max q [workstation,workstation edition] [96gb] | [rtx] pro 6000 [blackwell] mq
RTX PRO 5000 72GB | RTX PRO 5000 72GB Blackwell | [rtx] pro 5000 72gb [blackwell] | [rtx] pro 5000
    blackwell 72gb
RTX PRO 5000 | RTX PRO 5000 Blackwell | [rtx] pro 5000 [blackwell] [48gb]
RTX PRO 4000 SFF | RTX PRO 4000 Blackwell SFF Edition | [rtx] pro 4000 [blackwell] sff [edition]
    [24gb]
MI50 | Radeon Instinct MI50 | mi50 [16gb,32gb]
MI100 | - | mi100 [32gb]
MI210 | - | mi210 [64gb]
MI250 | - | mi250 [128gb]
MI250X | - | mi250x [128gb]
MI300A | - | mi300a [128gb]
MI300X | MI300X OAM, MI300X VF | mi300x [192gb] [oam]
MI308X | - | mi308x [192gb]
MI325X | MI325X VF | mi325x [256gb] [oam]
MI350X | - | mi350x [288gb] [oam]
MI355X | - | mi355x [288gb] [oam]
GTX 1060 | - | [gtx] 1060 [3gb,6gb]
GTX 1070 | - | [gtx] 1070 [8gb]
GTX 1070 Ti | - | [gtx] 1070 ti
GTX 1080 | - | [gtx] 1080 [8gb]
GTX 1080 Ti | - | [gtx] 1080 ti [11gb]
AX800 | -
GTX 1630 | - | [gtx] 1630
GTX 1650 | - | [gtx] 1650
GTX 1650 SUPER | - | [gtx] 1650 super | [gtx] 1650 s
GTX 1650 Ti | - | [gtx] 1650 ti
GTX 1650 Ti with Max-Q Design | - | [gtx] 1650 ti with max-q design
GTX 1650 with Max-Q Design | - | [gtx] 1650 with max-q design
GTX 1660 | - | [gtx] 1660
GTX 1660 SUPER | - | [gtx] 1660 super | [gtx] 1660 s
GTX 1660 Ti | - | [gtx] 1660 ti
GTX 1660 Ti with Max-Q Design | - | [gtx] 1660 ti with max-q design
RTX 2050 | - | [rtx] 2050
RTX 2060 | - | [rtx] 2060 [6gb,12gb]
RTX 2060 SUPER | - | [rtx] 2060 super [8gb] | [rtx] 2060 s [8gb]
RTX 2060 with Max-Q Design | - | [rtx] 2060 with max-q design
RTX 2070 | - | [rtx] 2070 [8gb]
RTX 2070 SUPER | - | [rtx] 2070 super [8gb] | [rtx] 2070 s [8gb]
RTX 2070 Super with Max-Q Design | - | [rtx] 2070 super with max-q design
RTX 2070 with Max-Q Design | - | [rtx] 2070 with max-q design
RTX 2080 | - | [rtx] 2080 [8gb]
RTX 2080 SUPER | - | [rtx] 2080 super [8gb] | [rtx] 2080 s [8gb]
RTX 2080 Super with Max-Q Design | - | [rtx] 2080 super with max-q design
RTX 2080 Ti | - | [rtx] 2080 ti [11gb]
RTX 2080 with Max-Q Design | - | [rtx] 2080 with max-q design
RTX 3050 | - | [rtx] 3050 [6gb,8gb]
RTX 3050 4GB Laptop GPU | - | [rtx] 3050 4gb laptop [gpu]
RTX 3050 6GB Laptop GPU | - | [rtx] 3050 6gb laptop [gpu]
RTX 3050 A Laptop GPU | - | [rtx] 3050 a laptop [gpu]
RTX 3050 Laptop GPU | - | [rtx] 3050 laptop [gpu]
RTX 3050 OEM | - | [rtx] 3050 oem
RTX 3050 Ti Laptop GPU | - | [rtx] 3050 ti laptop [gpu]
RTX 3060 | - | [rtx] 3060 [8gb,12gb]
RTX 3060 Laptop GPU | - | [rtx] 3060 laptop [gpu]
RTX 3060 Ti | - | [rtx] 3060 ti [8gb]
RTX 3070 | - | [rtx] 3070 [8gb]
RTX 3070 Laptop GPU | - | [rtx] 3070 laptop [gpu]
RTX 3070 Ti | - | [rtx] 3070 ti [8gb]
RTX 3070 Ti Laptop GPU | - | [rtx] 3070 ti laptop [gpu]
RTX 3080 | - | [rtx] 3080 [10gb,12gb]
RTX 3080 Laptop GPU | - | [rtx] 3080 laptop [gpu]
RTX 3080 Ti | - | [rtx] 3080 ti [12gb]
RTX 3080 Ti Laptop GPU | - | [rtx] 3080 ti laptop [gpu]
RTX 3090 | - | [rtx] 3090 [24gb]
RTX 3090 Ti | - | [rtx] 3090 ti [24gb]
RTX 4050 Laptop GPU | - | [rtx] 4050 laptop [gpu]
RTX 4060 | - | [rtx] 4060 [8gb]
RTX 4060 Laptop GPU | - | [rtx] 4060 laptop [gpu]
RTX 4060 Ti | - | [rtx] 4060 ti [8gb,16gb]
RTX 4070 | - | [rtx] 4070 [12gb]
RTX 4070 Laptop GPU | - | [rtx] 4070 laptop [gpu]
RTX 4070 SUPER | - | [rtx] 4070 super [12gb] | [rtx] 4070 s [12gb]
RTX 4070 Ti | - | [rtx] 4070 ti [12gb]
RTX 4070 Ti SUPER | - | [rtx] 4070 ti super [16gb] | [rtx] 4070 s ti [16gb] | [rtx] 4070 ti s
    [16gb]
RTX 4080 | - | [rtx] 4080 [16gb]
RTX 4080 Laptop GPU | - | [rtx] 4080 laptop [gpu]
RTX 4080 SUPER | - | [rtx] 4080 super [16gb] | [rtx] 4080 s [16gb]
RTX 4090 | - | [rtx] 4090 [24gb]
RTX 4090 D | - | [rtx] 4090 d [24gb]
RTX 4090 Laptop GPU | - | [rtx] 4090 laptop [gpu]
RTX 5050 | - | [rtx] 5050
RTX 5050 Laptop GPU | - | [rtx] 5050 laptop [gpu]
RTX 5060 | - | [rtx] 5060 [8gb]
RTX 5060 Laptop GPU | - | [rtx] 5060 laptop [gpu]
RTX 5060 Ti | - | [rtx] 5060 ti [8gb,16gb]
RTX 5070 | - | [rtx] 5070 [12gb]
RTX 5070 Laptop GPU | - | [rtx] 5070 laptop [gpu]
RTX 5070 Ti | - | [rtx] 5070 ti [16gb]
RTX 5070 Ti Laptop GPU | - | [rtx] 5070 ti laptop [gpu]
RTX 5080 | - | [rtx] 5080 [16gb]
RTX 5080 Laptop GPU | - | [rtx] 5080 laptop [gpu]
RTX 5090 | - | [rtx] 5090 [32gb]
RTX 5090 D | - | [rtx] 5090 d [32gb]
RTX 5090 D v2 | - | [rtx] 5090 d v2
RTX 5090 Laptop GPU | - | [rtx] 5090 laptop [gpu]
RTX 1000 Ada Generation Laptop GPU | - | [rtx] 1000 ada [generation] laptop [gpu]
RTX 2000 Ada Generation | - | [rtx] 2000 ada [generation] [16gb]
RTX 2000 Ada Generation Laptop GPU | - | [rtx] 2000 ada [generation] laptop [gpu]
RTX 2000E Ada Generation | - | [rtx] 2000e ada [generation]
RTX 3000 Ada Generation Laptop GPU | - | [rtx] 3000 ada [generation] laptop [gpu]
RTX 3500 Ada Generation Laptop GPU | - | [rtx] 3500 ada [generation] laptop [gpu]
RTX 4000 Ada Generation | - | [rtx] 4000 ada [generation] [20gb]
RTX 4000 Ada Generation Laptop GPU | - | [rtx] 4000 ada [generation] laptop [gpu]
RTX 4000 SFF Ada Generation | - | [rtx] 4000 sff ada [generation] [20gb]
RTX 4500 Ada Generation | - | [rtx] 4500 ada [generation] [24gb]
RTX 500 Ada Generation Laptop GPU | - | [rtx] 500 ada [generation] laptop [gpu]
RTX 5000 Ada Generation | - | [rtx] 5000 ada [generation] [32gb]
RTX 5000 Ada Generation Laptop GPU | - | [rtx] 5000 ada [generation] laptop [gpu]
RTX 5880 Ada Generation | - | [rtx] 5880 ada [generation] [48gb]
RTX 6000D | - | [rtx] 6000d
RTX A1000 | - | [rtx] a1000
RTX A1000 6GB Laptop GPU | - | [rtx] a1000 6gb laptop [gpu]
RTX A1000 Laptop GPU | - | [rtx] a1000 laptop [gpu]
RTX A2000 8GB Laptop GPU | - | [rtx] a2000 8gb laptop [gpu]
RTX A2000 Laptop GPU | - | [rtx] a2000 laptop [gpu]
RTX A3000 12GB Laptop GPU | - | [rtx] a3000 12gb laptop [gpu]
RTX A3000 Laptop GPU | - | [rtx] a3000 laptop [gpu]
RTX A400 | - | [rtx] a400
RTX A4000 | - | [rtx] a4000 [16gb]
RTX A4000 Laptop GPU | - | [rtx] a4000 laptop [gpu]
RTX A4000H | - | [rtx] a4000h
RTX A4500 | - | [rtx] a4500 [20gb]
RTX A4500 Laptop GPU | - | [rtx] a4500 laptop [gpu]
RTX A500 Laptop GPU | - | [rtx] a500 laptop [gpu]
RTX A5000 | - | [rtx] a5000 [24gb]
RTX A5000 Laptop GPU | - | [rtx] a5000 laptop [gpu]
RTX A5500 | - | [rtx] a5500
RTX A5500 Laptop GPU | - | [rtx] a5500 laptop [gpu]
RTX A6000 | - | [rtx] a6000 [48gb]
RTX PRO 1000 Blackwell Generation Laptop GPU | - | [rtx] pro 1000 [blackwell] [generation] laptop
    [gpu]
RTX PRO 2000 Blackwell | - | [rtx] pro 2000 [blackwell]
RTX PRO 2000 Blackwell Generation Laptop GPU | - | [rtx] pro 2000 [blackwell] [generation] laptop
    [gpu]
RTX PRO 3000 Blackwell Generation Laptop GPU | - | [rtx] pro 3000 [blackwell] [generation] laptop
    [gpu]
RTX PRO 4000 Blackwell | - | [rtx] pro 4000 [blackwell] [24gb]
RTX PRO 4000 Blackwell Generation Laptop GPU | - | [rtx] pro 4000 [blackwell] [generation] laptop
    [gpu]
RTX PRO 4500 Blackwell | - | [rtx] pro 4500 [blackwell] [32gb]
RTX PRO 500 Blackwell Generation Laptop GPU | - | [rtx] pro 500 [blackwell] [generation] laptop
    [gpu]
RTX PRO 5000 Blackwell Generation Laptop GPU | - | [rtx] pro 5000 [blackwell] [generation] laptop
    [gpu]
T1000 | -
T1000 8GB | -
T1200 Laptop GPU | - | t1200 laptop [gpu]
T400 | -
T400 4GB | -
T400E | -
T550 Laptop GPU | - | t550 laptop [gpu]
T600 | -
T600 Laptop GPU | - | t600 laptop [gpu]
Quadro RTX 3000 | -
Quadro RTX 3000 with Max-Q Design | -
Quadro RTX 4000 with Max-Q Design | -
Quadro RTX 5000 with Max-Q Design | -
Quadro T1000 | -
Quadro T1000 with Max-Q Design | -
Quadro T2000 | -
Quadro T2000 with Max-Q Design | -
"""
MAKERS = re.compile(r"nvidia|geforce|tesla|amd|instinct|graphics|\(r\)|\(tm\)")
# GRID A100-10C, NVIDIA A40-8Q, GRID A100X-1-10CME: parts of a card in a virtual machine
PART_OF_A_CARD = re.compile(r"^GRID |(?:-\d)?-\d{1,3}(?:[QCAB]|CME)$")


OPTION = re.compile(r" *\[[^\]]*\]")


def squashed(name):
    """A name without case, blanks, signs and the words of makers: 'RTX_4090' -> 'rtx4090'."""
    return re.sub(r"[^a-z0-9]", "", MAKERS.sub(" ", name.lower()))


def way_of(text):
    """A way of writing as a pattern of squashed names: 'h100 [80gb] nvl' -> 'h100(?:80gb)?nvl'."""
    parts = re.split(r"\[([^\]]*)\]", text)
    for at in range(1, len(parts), 2):
        words = "|".join(map(squashed, parts[at].split(",")))
        parts[at] = f"(?:{words})?".replace("gb", "gb?")
    parts[::2] = [squashed(part).replace("gb", "gb?") for part in parts[::2]]
    return re.compile("".join(parts) + r"\Z")


# (SKU, the driver's names squashed, patterns of the ways in which people write it)
NAMES = [
    (
        sku,
        {squashed(name) for name in (sku, *drivers.split(","))} - {""},
        [way_of(way) for way in ways],
    )
    for sku, drivers, *ways in rows_of(NAME_TABLE)
]


def cards_of(name):
    """The SKUs that the driver's name of a card means, mostly one. -> [SKU]"""
    text = squashed(PART_OF_A_CARD.sub("", name))
    exact = [sku for sku, drivers, _ in NAMES if text in drivers]
    part = [] if not PART_OF_A_CARD.search(name) else meant_by(text)
    return exact or part


def meant_by(text):
    """The SKUs that a person means who writes this, none for an unknown name. -> [SKU]"""
    name = squashed(text)
    return [
        sku
        for sku, drivers, ways in NAMES
        if name in drivers or any(way.match(name) for way in ways)
    ]


def is_called(name, text):
    """Whether a card with this name of the driver is what a person means by the text."""
    return squashed(name) == squashed(text) or bool(set(cards_of(name)) & set(meant_by(text)))


def did_you_mean(text):
    """The nearest names of cards, as one may write them. -> at most three"""
    names = {}
    for sku, _, *ways in rows_of(NAME_TABLE):
        shortest = OPTION.sub("", [*ways, sku][0]).strip().upper()
        names.update({squashed(sku): sku, squashed(shortest): shortest})
    return [names[name] for name in difflib.get_close_matches(squashed(text), names, 3, 0.7)]


# ---- expectations.py
# Expectations (--expect): what was paid for, and what the job needs.

# name -> (kind of its value, what it is)
EXPECT = {
    "gpus": ("count", "number of GPUs"),
    "name": (
        "text",
        "the card, as you or the driver writes it: H100 (the SXM board), H100 PCIe, 4090, L40S",
    ),
    "vram": (
        "memory",
        "GiB of each card (80, 80GB, 81920MiB); 0.90 is enough; under MIG the largest instance",
    ),
    "nvlink": ("links", "all, or links per GPU"),
    "driver": ("version", "version"),
    "torch": ("build", "version, or its CUDA as cu130 (needs --python)"),
    "cuda": ("build", "of torch (needs --python)"),
    "cc": ("version", "compute capability"),
    "bf16": ("yes", "yes or no"),
    "fp8": ("yes", "yes or no"),
    "p2p": ("yes", "yes or no"),
    "pcie": ("count", "width"),
    "pciegen": ("count", "highest generation"),
    "ecc": ("yes", "on or off"),
    "mig": ("yes", "on or off"),
    "disk": ("size", "GiB free on the largest writable path (500, 500GB, 4TiB)"),
    "shm": ("size", "GiB of /dev/shm"),
    "ram": ("size", "GiB that the box, or this container of it, may use"),
    "cpus": ("count", "processors that the box, or this container of it, may use"),
    "log": ("yes", "no: accept that this box's kernel log can't be read"),
}
# kind -> (what is expected, the operators it can have)
KINDS = {
    "count": ("a number", "= == >= <= > <"),
    "size": ("a size: 500, 500GB, 500GiB or 4TB", "= == >= <= > <"),
    "memory": ("a size: 80, 80GB or 81920MiB", "= == >= <= > <"),
    "version": ("a version: 550 or 9.0", "= == >= <= > <"),
    "build": ("a version or a CUDA: 2.6, or cu130 with =", "= == >= <= > <"),
    "links": ("all or a number", "= == >="),
    "yes": ("yes or no", "= =="),
    "text": ("a word", "= =="),
}
YES, NO = ("yes", "on", "true", "1", "enabled"), ("no", "off", "false", "0", "disabled")
# Unit -> GiB
GIB = {
    "": 1.0,
    "g": 1.0,
    "gib": 1.0,
    "gb": 1e9 / (1 << 30),
    "t": 1024.0,
    "tib": 1024.0,
    "tb": 1e12 / (1 << 30),
    "m": 1 / 1024.0,
    "mib": 1 / 1024.0,
    "mb": 1e6 / (1 << 30),
}


def value_of(kind, text):
    """The value of a text, or None if it isn't of this kind."""
    low = text.lower()
    if kind == "text":
        return text
    if kind == "yes":
        return True if low in YES else False if low in NO else None
    if kind == "links" and low == "all":
        return "all"
    if kind in ("count", "links"):
        match = re.match(r"(?:x|gen)?(\d{1,6})$", low)
        return int(match.group(1)) if match else None
    if kind in ("size", "memory"):
        return gib_of(low, kind)
    if kind == "build" and re.match(r"cu\d{2,4}$", low):
        return low
    return version(low) if re.match(r"v?\d{1,6}(?:\.\d{1,6}){0,4}$", low) else None


def gib_of(text, kind):
    """The GiB of a size in lower case, or None. A card (`memory`) of 80 GB has 80 GiB."""
    match = re.match(r"(\d{1,9}(?:\.\d{1,3})?) ?([a-z]{0,3})$", text)
    if not match:
        return None
    unit = match.group(2)
    if kind == "memory" and unit in ("gb", "tb", "mb"):
        unit = unit[:1] + "ib"
    return float(match.group(1)) * GIB[unit] if unit in GIB else None


def expectations_of(text):
    """'gpus=8,driver>=550' -> [(name, operator, value as typed, value)].

    Raises ValueError with what is wrong and what to do.
    """
    out = []
    for part in (text or "").split(","):
        if not part.strip():
            continue
        match = re.match(r"\s*([a-z0-9]+)\s*(>=|<=|==|=|>|<)\s*(\S.*?)\s*$", part)
        if not match or match.group(1) not in EXPECT:
            match, names = repr(part.strip()), ", ".join(sorted(EXPECT))
            raise ValueError(
                f"--expect: can't read {match}; write NAME=VALUE with one of these names: {names}"
            )
        what, operator, want = match.groups()
        kind = EXPECT[what][0]
        words, operators = KINDS[kind]
        value = value_of(kind, want)
        if (
            value is None
            or operator not in operators.split()
            or (kind == "build" and isinstance(value, str) and operator not in ("=", "=="))
        ):
            raise ValueError(
                f"--expect: can't read {short(part, 60)!r}; write {what}, one of {operators}, "
                f"and {words} (--expect help describes the names)"
            )
        out.append((what, operator, want, value))
    return out


def compare(got, operator, want):
    """Compare a value with the wanted one. Versions are equal if they begin alike."""
    if isinstance(got, tuple):
        got = got[: len(want)] if operator in ("=", "==") else got
    return {
        "=": got == want,
        "==": got == want,
        ">=": got >= want,
        "<=": got <= want,
        ">": got > want,
        "<": got < want,
    }[operator]


def at_least(operator):
    """Return the operator for a size: `=` means at least as much."""
    return ">=" if operator in ("=", "==") else operator


class Expectation:
    """One expectation, and the findings about it."""

    def __init__(self, add, what, operator, want, value):
        """`want` is the value as typed, `value` as `value_of` gives it."""
        self.add, self.what, self.operator, self.want, self.value = add, what, operator, want, value

    def miss(self, gpu, got, entry="sku", meaning=""):
        """Add the finding that it isn't met. `meaning`: what the wanted value stands for."""
        expected = (self.what, self.operator, self.want + meaning)
        key = "expect " + self.what
        self.add(gpu, "not_as_expected", self.what, got, expected=expected, entry=entry, key=key)

    def unknown(self):
        """Add the finding that it is unknown whether it is met."""
        expected = (self.what, self.operator, self.want)
        key = "expect " + self.what
        self.add(None, "expectation_untold", self.what, expected=expected, key=key)

    def fits(self, got, operator=None):
        """Whether a value is as wanted."""
        return compare(got, operator or self.operator, self.value)

    def check_memory(self, label, gib, where=""):
        """The memory of a card: 0.9 of what is wanted is enough, because the driver keeps some."""
        equal = self.operator in ("=", "==", ">=")
        if not compare(gib, at_least(self.operator), self.value * (0.9 if equal else 1.0)):
            self.miss(label, f"{gib:.1f} GiB{where}")


def judge_expectations(box, expectations, add):
    """Compares the box, and each GPU that answers, with what is expected."""
    cards = amd_cards(box)
    answered = [gpu for gpu in box.gpus if gpu.seen - {"list", "nvlink"} or not box.sources]
    for what, operator, want, value in expectations:
        expectation = Expectation(add, what, operator, want, value)
        if what == "gpus":
            expect_count(box, cards, answered, expectation)
        elif what in ("disk", "shm", "ram"):
            expect_size(box, expectation)
        elif what == "cpus":
            expect_processors(box, expectation)
        elif what in ("torch", "cuda"):
            expect_torch(as_dict(box.proc.get("torch")), expectation)
        elif what == "driver":
            expect_driver(box, expectation)
        elif what != "log":  # `judge` reads it: an unreadable log is then no finding
            expect_of_gpus(cards, answered, expectation)


def expect_driver(box, expectation):
    """driver: its version."""
    if not box.driver:
        expectation.unknown()
    elif not expectation.fits(version(box.driver)):
        expectation.miss(None, box.driver, "torch_driver")


def expect_of_gpus(cards, answered, expectation):
    """Compare each GPU that answers and isn't lost. Of AMD's cards only the memory is compared."""
    if expectation.what == "vram" and cards:
        for label, card in cards:
            expectation.check_memory(label, int(card["mem_info_vram_total"]) / float(1 << 30))
    elif expectation.what == "name" and cards:
        for label, card in cards:
            expect_amd_name(label, card, expectation)
    elif not answered:
        expectation.unknown()
    for gpu in answered:
        if not expectation.add.has("lost", gpu.label):
            EXPECT_OF_GPU[expectation.what](gpu, expectation)


def expect_count(box, cards, answered, expectation):
    """gpus: the number of NVIDIA and AMD cards."""
    listed = len({gpu.label for gpu in box.gpus}) + len(cards)
    # nvidia-smi came back, and no card was seen: there is none for this job.
    asked = (
        box.recorded and not box.late and not any(box.exit[name]["timed_out"] for name in box.exit)
    )
    known = answered or cards or asked or any(kind == "no_devices" for kind, _ in box.failures)
    if not known and not box.gpus:
        expectation.unknown()
    elif not expectation.fits(listed):
        expectation.miss(None, str(listed))


def expect_size(box, expectation):
    """disk, shm and ram, in GiB."""
    disks = dict(as_dict(box.proc.get("disks")))
    shm = as_dict(disks.pop("/dev/shm", None))
    writable = [disk for disk in map(as_dict, disks.values()) if not disk.get("read_only")]
    free = [disk.get("free_mib") for disk in writable]
    memory, limit = as_dict(box.proc.get("memory")), as_dict(box.proc.get("cgroup"))
    got = {
        "disk": max([size for size in free if isinstance(size, (int, float))] or [0]),
        "shm": shm.get("total_mib"),
        "ram": min(filter(None, (limit.get("limit_mib"), memory.get("total_mib"))), default=None),
    }[expectation.what]
    if not isinstance(got, (int, float)) or not got:
        expectation.unknown()
    elif not expectation.fits(got / 1024.0, at_least(expectation.operator)):
        entry = expectation.what if expectation.what in ("disk", "shm") else ""
        expectation.miss(None, f"{got / 1024.0:.1f} GiB", entry)


def expect_processors(box, expectation):
    """cpus: those that the job may use."""
    got = processors_of(box)
    if got is None:
        expectation.unknown()
    elif not expectation.fits(got, at_least(expectation.operator)):
        expectation.miss(None, f"{got:.4g}", "")


def expect_torch(torch, expectation):
    """torch and cuda: a version, or torch's CUDA as cu130."""
    installed = torch.get("torch" if expectation.what == "torch" else "cuda")
    if not torch.get("torch"):
        expectation.unknown()
    elif isinstance(expectation.value, str):
        cuda = torch.get("cuda")
        if "cu" + str(cuda or "").replace(".", "") != expectation.value:
            expectation.miss(None, f"{short(torch['torch'], 40)}, CUDA {cuda}", "torch_driver")
    elif not expectation.fits(version(installed)):
        expectation.miss(None, short(installed, 40), "")


def expect_name(gpu, expectation):
    """name: exactly this card, in any form of its name; all outputs have to agree."""
    names = sorted(set(gpu.cells.get("name", [])))
    if not gpu.name:
        expectation.unknown()
    elif not is_called(gpu.name, expectation.want):
        miss_name(expectation, gpu.label, gpu.name)
    elif expectation.add.has("identity", gpu.label) and len(names) > 1:
        expectation.miss(gpu.label, " and ".join(sorted(gpu.cells["name"])))


def expect_amd_name(label, card, expectation):
    """name, of an AMD card: sysfs has it on server cards only."""
    name, meant = str(card.get("product_name") or ""), meant_by(expectation.want)
    if name and not is_called(name, expectation.want):
        miss_name(expectation, label, name)
    elif not name and meant and not any(sku.startswith("MI") for sku in meant):
        miss_name(expectation, label, "an AMD card")
    elif not name:
        expectation.unknown()


def miss_name(expectation, label, name):
    """Add the finding that a card has another name than the wanted one, or that no card has that.

    A name that nobody knows is no proof of a wrong card: it may be misspelt, or newer than the
    table.
    """
    meant = meant_by(expectation.want)
    if meant:
        said = len(meant) > 1 or meant[0].lower() != expectation.want.lower()
        expectation.miss(label, name, meaning=" ({})".format(", ".join(meant)) if said else "")
        return
    near = did_you_mean(expectation.want)
    hint = "did you mean {}?".format(" or ".join(near)) if near else "write it as the driver does"
    wanted = (short(expectation.want, 40), name)
    expectation.add(None, "unknown_name", *wanted, do=(hint,), key="expect name")


def expect_vram(gpu, expectation):
    """vram: GiB of the card, or under MIG of the largest instance (3g.40gb)."""
    got, names = gpu.number("memory.total"), gpu.migs or []
    slices = [int(size) for name in names for size in re.findall(r"\.(\d{1,4})gb", name)]
    if gpu.mig and slices:
        expectation.check_memory(gpu.label, max(slices), " in the largest MIG instance")
    elif got is None or gpu.mig:
        expectation.unknown()
    else:
        expectation.check_memory(gpu.label, got / 1024.0)


def expect_nvlink(gpu, expectation):
    """nvlink: active links, or as many as a card of this name has."""
    links = gpu.links or {}
    live = [speed for speed in links.values() if speed is not None]
    known = next((links for pattern, links, _ in NVLINKS if re.search(pattern, gpu.name)), None)
    need = expectation.value if expectation.value != "all" else max(known or 1, len(links))
    if gpu.links is None:
        expectation.unknown()
    elif len(live) < need and not (expectation.add.has("nvlink", gpu.label) and live):
        expectation.miss(gpu.label, f"{len(live)} active links", "")
    elif len(live) < need:
        # One fault is one finding, with the level of an unmet expectation.
        for other in expectation.add.list:
            if other["gpu"] == gpu.label and "NVLink" in other["evidence"]:
                other["level"] = "fatal"


def expect_type(gpu, expectation):
    """bf16 and fp8, by the table of cards."""
    sku = sku_of(gpu.name)
    if sku is None:
        expectation.unknown()
    elif sku[expectation.what] != expectation.value:
        supported = "yes" if sku[expectation.what] else "no"
        evidence = f"{gpu.name}: {supported}"
        if expectation.what == "bf16":  # no entry is about cards without fp8
            expectation.miss(gpu.label, evidence, "bf16")
        else:
            expectation.miss(gpu.label, evidence, "")


def expect_p2p(gpu, expectation):
    """p2p: peer to peer on the stock driver, by the table of cards."""
    sku = sku_of(gpu.name)
    if sku is None:
        expectation.unknown()
    elif (sku["p2p"] != "none") != expectation.value:
        expectation.miss(gpu.label, f"{gpu.name}: {sku['p2p']}", "")


def expect_capability(gpu, expectation):
    """cc: by the card, otherwise by the table of cards."""
    got = gpu.raw("compute_cap")
    if state(got) != "value":
        got = (sku_of(gpu.name) or {}).get("compute_cap")
    if not got:
        expectation.unknown()
    elif not expectation.fits(version(got)):
        expectation.miss(gpu.label, got)


def expect_pcie(gpu, expectation):
    """pcie and pciegen: the width, and the highest generation."""
    field = "pcie.link.width.current" if expectation.what == "pcie" else "pcie.link.gen.max"
    got = gpu.number(field)
    if got is None:
        expectation.unknown()
    elif not expectation.fits(got, ">=" if expectation.operator == "=" else expectation.operator):
        expectation.miss(gpu.label, str(int(got)))
    elif expectation.what == "pcie":  # expected by the user, so not a fault
        drop(expectation.add, gpu, "PCIe width")


def expect_mode(gpu, expectation):
    """ecc and mig: on or off."""
    got = gpu.raw(expectation.what + ".mode.current")
    if state(got) != "value":
        if expectation.value:
            expectation.miss(gpu.label, "not available")
    elif (got == "Enabled") != expectation.value:
        if expectation.what != "ecc" or not expectation.add.has("eccmode", gpu.label):
            expectation.miss(gpu.label, got, "")
    elif expectation.what == "ecc" and not expectation.value:
        drop(expectation.add, gpu, "ECC mode Disabled$")


def drop(add, gpu, pattern):
    """Remove the findings about a GPU whose evidence begins with the pattern."""
    mine = [finding for finding in add.list if finding["gpu"] == gpu.label]
    gone = [finding for finding in mine if re.match(pattern, finding["evidence"])]
    add.list[:] = [finding for finding in add.list if finding not in gone]


# The names of --expect that are compared for each GPU.
EXPECT_OF_GPU = {
    "name": expect_name,
    "vram": expect_vram,
    "nvlink": expect_nvlink,
    "bf16": expect_type,
    "fp8": expect_type,
    "p2p": expect_p2p,
    "cc": expect_capability,
    "pcie": expect_pcie,
    "pciegen": expect_pcie,
    "ecc": expect_mode,
    "mig": expect_mode,
}


# ---- findings.py
# Findings: their levels and texts, the entries that they name, and the verdict they add up to.
#
# The texts are in data/findings.txt.

# Catalogue entries that a finding points at, by its key or the word given with it. A test compares
# them with the catalogue.
ENTRY = {
    word: entry
    for entry, words in (
        ("DP15", ["shm"]),
        ("VAST14", ["sku"]),
        ("U11", ["held"]),
        ("ENV6", ["torch_driver"]),
        ("ENV1", ["arch"]),
        ("U31", ["no_runtime"]),
        ("P3", ["bf16"]),
        ("D20", ["stuck"]),
        ("U6", ["disk"]),
        ("U7", ["inodes"]),
        ("U41", ["container memory"]),
        ("HW1", ["lost", "count", "gsp", "init", "probe failed"]),
        ("HW2", ["ecc", "remap", "pages", "repair"]),
        ("HW3", ["p2p"]),
        ("HW4", ["fabric", "fabricmanager", "fabric topology"]),
        ("HW5", ["throttle", "capped", "clock"]),
        ("HW6", ["width", "gen", "replays", "aer"]),
        ("HW7", ["mig"]),
        ("HW9", ["wrong"]),
        ("ENV10", ["cgroup"]),
        ("ENV11", ["mismatch"]),
    )
    for word in words
}
FINDING_TABLE = r"""
# The findings of the check. A record is
#   name | level | key | key of the catalogue entry
#     found: what was seen, with values from the code
#     expected: what a healthy box shows, with its source
#     do: what to do about it
# A GPU gets one finding for each key; without a key every finding counts. Without a catalogue
# entry, the entry of the key applies (ENTRY in findings.py). The code gives the level for "-", and
# the values for %s. %% is a percent sign. {RESET} and {BACK} are texts in findings.py.

# The whole
damaged_output | unknown
  found: %s
  expected: every answer can be read completely
  do: run the check again; if it comes back, look at this output yourself

# nvidia-smi itself
no_handle | fatal | lost
  found: %s
  expected: every GPU has a handle; this is Xid 79 (NVIDIA: RESTART_BM)
  do: reboot the box; if it comes back, {BACK}
slow_calls | unknown | slow
  found: nvidia-smi is slow: its calls took %d s, which left no time for %s
  expected: all calls within %d s; without persistence mode each call starts the driver again (8 x
    A100: 30 s instead of 2, Azure/aks-gpu#105)
  do: turn persistence mode on (nvidia-smi -pm 1, or start nvidia-persistenced), and run the check
    again
hung_call | fatal | hang
  found: the nvidia-smi call for %s did not end in time
  expected: nvidia-smi answers within %.0f s (8 x A100 without persistence mode: 30 s for the first
    call); it hangs after Xid 79 or 119
  do: don't call it again; reboot the box, and if it hangs again, {BACK}
late_command | unknown
  found: %s did not end in time
  expected: every command ends
  do: run it yourself
inforom_exit | degraded | inforom
  found: nvidia-smi ended with 14
  expected: 0; 14 is a damaged InfoROM: usable, but the card needs repair (NVIDIA gpu-operator
    docs)
  do: finish your job, then ask the provider for another card
no_tool_for_card | fatal | tool | no_runtime
  found: an NVIDIA card at %s, but no nvidia-smi
  expected: driver and tools are installed
  do: install the driver, start the container with the GPU, or {BACK}
no_card | unknown | tool | no_runtime
  found: no GPU is seen: no nvidia-smi, no NVIDIA or AMD card in sysfs
  expected: a GPU, if the box is to have one
  do: if you pay for one, start the container with it, or ask the provider
failed_call | unknown | tool
  found: nvidia-smi ended with %d
  expected: 0
  do: run nvidia-smi yourself
failed_part | unknown
  found: the call for %s ended with %d
  expected: 0
  do: run it yourself
incomplete_recording | unknown | missing
  found: the recording lacks %s
  expected: a complete recording
  do: record again
no_state | unknown | state
  found: no output shows the state of a GPU
  expected: nvidia-smi --query-gpu or -q -x
  do: record the whole box

# nvidia-smi can't work at all: by its words or its exit code, see FAILURES and RC_FAILURES
smi_mismatch | fatal |  | mismatch
  found: %s
  expected: driver and library are of one version (nvidia-smi exit 18)
  do: stop all GPU programs and reload the nvidia modules, or reboot the box
smi_no_driver | unknown
  found: %s
  expected: the driver answers (nvidia-smi exit 9)
  do: no NVIDIA driver is loaded: build it for this kernel (DKMS, Secure Boot, nouveau), or {BACK}
smi_no_devices | fatal |  | lost
  found: %s
  expected: the driver finds a GPU (nvidia-smi exit 6)
  do: look for RmInitAdapter in the kernel log; reboot the box, then {BACK}
smi_cgroup | fatal |  | cgroup
  found: %s
  expected: NVML starts; this text means that a container lost its devices (nvidia-docker#1730)
  do: restart the container; the host is fine
smi_denied | unknown
  found: %s
  expected: permission to use NVML (exit 4)
  do: run as root, or give the container the devices
smi_blocked | fatal |  | no_runtime
  found: %s
  expected: the system lets programs use the GPU (exit 17)
  do: start the container with the GPU, or ask the provider
smi_library | unknown |  | no_runtime
  found: %s
  expected: libnvidia-ml is installed (exit 12)
  do: start the container with the NVIDIA runtime, or install the driver
smi_nvml | fatal
  found: %s
  expected: NVML starts
  do: reboot the box; if it comes back, {BACK}
smi_lost | fatal |  | lost
  found: %s
  expected: every GPU answers (exit 15: fell off the bus)
  do: reboot the box; if it comes back, {BACK}
smi_reset | fatal
  found: %s
  expected: no GPU needs a reset (exit 16)
  do: {RESET}
smi_power | fatal
  found: %s
  expected: every power cable is attached (exit 8)
  do: {BACK}
smi_interrupt | fatal
  found: %s
  expected: the kernel gets the GPU's interrupts (exit 10)
  do: reboot the box; if it comes back, {BACK}

# Lost GPUs
lost_cell | fatal | lost
  found: %s: %s
  expected: every cell answers (NVML %s)
  do: %s
unanswered_query | fatal | lost
  found: GPU %s (%s) is listed by %s but doesn't answer the query
  expected: every listed GPU answers; -L lists lost GPUs too (k8s-test-infra)
  do: reboot the box; if it comes back, {BACK}
unlisted_gpu | unknown | disagree
  found: GPU %s answers the query but is missing from the output of %s
  expected: all outputs name the same GPUs
  do: run the check again
uncounted_gpu | fatal | count
  found: the driver counts %d GPUs, but %d answer
  expected: all answer
  do: reboot the box; if it comes back, {BACK}

# Memory. Sources: NVIDIA GPU Memory Error Management, DCGM, Azure NHC, Meta's gcm
recovery_action | - | recovery
  found: gpu_recovery_action: %s
  expected: None (NVML recovery action)
  do: %s
reset_required | fatal | recovery
  found: reset_required: Yes
  expected: No
  do: {RESET}
drain_and_reset | degraded | recovery
  found: drain_and_reset_recommended: Yes
  expected: No
  do: finish what runs, start nothing new, then {RESET}
remap_failed | fatal | remap
  found: remapped_rows.failure: %s
  expected: No; a failed remap qualifies for replacement (NVIDIA memory error management)
  do: {BACK}
remap_pending | degraded | remap
  found: remapped_rows.pending: %s
  expected: No; a pending remap takes effect after a reset (NVIDIA memory error management)
  do: {RESET}
remap_limit | degraded | remap
  found: remapped_rows.uncorrectable: %d
  expected: below 512 (DCGM, NVIDIA's limit)
  do: {BACK}
no_spare_rows | degraded | remap
  found: banks without a spare row: %d
  expected: 0; the next fault there can't be remapped
  do: finish your job, then {BACK}
rows_remapped | warn | remap
  found: remapped_rows.uncorrectable: %d
  expected: 0; repaired, below NVIDIA's limit of 512
  do: watch it
few_spare_rows | warn | remap
  found: banks with few spare rows: %d
  expected: 0
  do: watch it
pages_limit | fatal | pages
  found: retired pages: %d
  expected: below 63 (DCGM)
  do: {BACK}
pages_pending | degraded | pages
  found: retired_pages.pending: Yes
  expected: No; takes effect after a reset (DCGM warns)
  do: {RESET}
many_pages | degraded | pages
  found: retired pages: %d, %d of them for double-bit errors
  expected: at most 10 (gcm), 15 double-bit (DCGM)
  do: finish your job, then {BACK}
unrepairable_memory | fatal | repair
  found: unrepairable_memory: Yes
  expected: No
  do: {BACK}
repair_pending | degraded | repair
  found: %s repair pending: Yes
  expected: No; repaired by a reset
  do: {RESET}
sram_threshold | fatal | ecc
  found: SRAM uncorrectable threshold exceeded: Yes
  expected: No; qualifies for replacement (NVIDIA memory error management)
  do: {BACK}
uncorrectable_errors | fatal | ecc
  found: uncorrectable ECC errors since the driver was loaded: %d
  expected: 0 (DCGM, gcm, Azure NHC)
  do: {RESET}; if it comes back, {BACK}
many_corrected_errors | degraded | ecc
  found: corrected ECC errors: %d, in SRAM %d
  expected: at most 20000000, in SRAM 10000 (Azure NHC, H100)
  do: finish your job, then ask for another card
old_uncorrectable_errors | warn | ecc
  found: uncorrectable ECC errors: %d in the card's life, 0 since the driver was loaded
  expected: 0 (Azure NHC for SRAM)
  do: watch it; ask the provider if it grows
inforom_checksum | degraded | inforom
  found: inforom.checksum_validation: %s
  expected: valid
  do: finish your job, then ask for another card

# PCIe link
narrow_link | degraded | width
  found: PCIe width x%d of x%d
  expected: the card's full width; an idle card keeps it (all captures)
  do: reboot; if it comes back, the slot or riser is bad, or the slot has fewer lanes%s: ask the
    provider, or pass --expect pcie=%d
narrow_as_rented | warn | width
  found: PCIe width x%d of x%d, on every %s of this virtual machine
  expected: the card's full width; some providers wire this card with fewer lanes (unconfirmed)
  do: nothing, if loading data keeps up; otherwise measure with --stress and ask the provider
slow_link | degraded | gen
  found: PCIe generation %d of %d at %d %% utilisation
  expected: the highest, under load
  do: reboot; if it comes back, {BACK}
link_replays | degraded | replays
  found: PCIe replays: %d since the driver was loaded
  expected: %d in the %d minutes since boot (DCGM: %.2f per minute and lane)
  do: a bad slot, riser or cable: reboot, watch it, ask the provider
held_link | degraded | gen
  found: PCIe generation %d of %d in P0 at %d of %d MHz
  expected: the highest in P0 at full clock; an idle card lowers both (all captures)
  do: reboot; if it comes back, {BACK}
capped_link | warn | gen
  found: PCIe generation %d at most, the card supports %d
  expected: SKU table
  do: the host limits it: expect slower loading from host memory

# Throttling, heat, clocks and power
hardware_throttle | degraded | throttle
  found: throttled now: %s
  expected: no hardware slowdown (gpud, Azure NHC)
  do: heat or power supply: ask the provider, or change the box
thermal_throttle | - | throttle
  found: throttled now: %s at %s %% utilisation
  expected: no thermal slowdown
  do: bad cooling: ask the provider, or change the box
was_throttled | warn | throttle
  found: %s for %.1f s since the driver was loaded
  expected: 0
  do: watch clocks under load (--stress)
was_slowed_by_heat | warn | throttle
  found: sw_thermal_slowdown for %.0f s since the driver was loaded
  expected: 60 s (our limit)
  do: watch clocks under load (--stress)
hot_gpu | degraded | throttle
  found: GPU at %d C%s
  expected: below %d C and above 0 to the limit
  do: bad cooling: ask the provider, or change the box
low_heat_limit | - | throttle
  found: it may be at %d C while it works, and is at %d C: from there on it slows itself down
  expected: a highest working temperature of 83 C or more (85 to 93 in the captures)
  do: its firmware was set so: ask the provider, or change the box
hot_memory | degraded | throttle
  found: memory at %d C
  expected: below %d C (-q -x)
  do: bad cooling: ask the provider, or change the box
clock_held | degraded | clock
  found: held at %d MHz of %d by a clock setting, at %d %% utilisation
  expected: at least half of the highest, or the default (our limit)
  do: reset it: nvidia-smi -rgc and -rac; or ask the provider
slower_than_others | degraded | clock
  found: %d MHz at %d %% utilisation, the others of its kind at %d MHz
  expected: at least %.1f of the others' clock under the same load (our limit)
  do: the slowest card sets the pace: check it again under load, reboot; if it comes back, {BACK}
low_application_clock | - | clock
  found: application clock %d MHz, default %d MHz
  expected: the default (Azure NHC and gcm require a fixed clock); below half of it the work takes
    twice as long
  do: expect less speed, or reset it: nvidia-smi -rac
no_power_reading | warn | power
  found: power.draw: %s
  expected: readable on a data-centre GPU (DCGM)
  do: watch clocks under load (--stress)
enforced_power_limit | degraded | power | capped
  found: enforced power limit %d W, set %d W
  expected: 0.9 of the set limit (our limit): something else lowers it
  do: power supply or heat of the machine: ask the provider, or change the box
low_power_limit | - | power | capped
  found: power limit %d W, default %d W
  expected: 0.9 of the default (our limit). Owners cap cards to save power, an RTX 3090 at 0.8
    keeps 0.95 of its speed (Puget Systems); below half of the default the speed collapses
  do: expect less speed, or raise it: nvidia-smi -pl

# MIG, ECC and other modes
mig_pending | degraded | mig
  found: MIG mode %s, pending %s
  expected: the same
  do: {RESET}
no_mig_instance | fatal | mig
  found: MIG mode is on, but there is no instance
  expected: an instance; without one CUDA sees no device
  do: make instances (nvidia-smi mig -cgi … -C), or turn MIG off and reset
odd_mig_mode | degraded | mig
  found: MIG mode %s, unlike the others
  expected: the same mode on all GPUs
  do: set it like the others and reset, or don't use this GPU
ecc_pending | warn | eccmode
  found: ECC mode %s, pending %s
  expected: the same
  do: {RESET}
ecc_disabled | degraded | eccmode
  found: ECC mode Disabled
  expected: Enabled on a data-centre GPU: without it a memory error is silent
  do: nvidia-smi -e 1, then reset the GPU
odd_ecc_mode | warn | eccmode
  found: ECC mode %s, unlike most of the others
  expected: the same mode on all GPUs
  do: nvidia-smi -e, then reset the GPU
compute_prohibited | fatal | compute
  found: compute_mode: Prohibited
  expected: Default
  do: nvidia-smi -c 0 -i N
compute_exclusive | warn | compute
  found: compute_mode: %s
  expected: Default
  do: run one process per GPU, or nvidia-smi -c 0 -i N
no_persistence_mode | warn | persistence
  found: persistence_mode: Disabled
  expected: Enabled
  do: nvidia-smi -pm 1: otherwise each start takes seconds and counters are reset
unlicensed_vgpu | - | license
  found: vGPU license: %s
  expected: Licensed. Restricted means that the vGPU is slowed down and CUDA may fail (NVIDIA vGPU
    licensing, NVIDIA/gpu-operator#220, DDMAL/Rodan#1332), Unrestricted that it will be
  do: ask the provider for the license (/etc/nvidia/gridd.conf, nvidia-gridd), or {BACK}
fabric_not_ready | fatal | fabric
  found: fabric state %s, status %s
  expected: Completed and Success; until then CUDA and NCCL can't start
  do: wait a minute; then restart nvidia-fabricmanager, reboot, or {BACK}
fabric_unhealthy | - | fabric
  found: fabric health: %s
  expected: Healthy
  do: reboot the box, then {BACK}
fabric_degraded | degraded | fabric
  found: fabric health: %s
  expected: bandwidth full, no route unhealthy or in recovery (gpud, DCGM)
  do: wait a minute; if it is still so, reboot the box, then {BACK}

# Cells
failed_sensor | degraded | sensor
  found: %s: %s
  expected: every sensor answers. A fan or power sensor may fail alone (i3pystatus#850,
    nvidia_gpu_exporter#393), and nobody sees then whether the card is cooled
  do: check again after 5 s; if it is still so, look at the recovery action and the kernel log, then
    {RESET}
unreadable_cell | unknown | unread
  found: can't read %s
  expected: values in a known form
  do: run the check again; if it comes back, look at this output yourself
denied_cell | unknown | denied
  found: %s: [Insufficient Permissions]
  expected: readable
  do: run as root
missing_cell | unknown | lacks
  found: missing: %s%s
  expected: what drivers 465 to 610 report
  do: query these fields

# Is the card what its name says
different_names | unknown | identity
  found: %s
  expected: all outputs say the same
  do: run the check again
wrong_card | degraded | identity | sku
  found: %s
  expected: name, memory (0.90 for ECC) and capability of one SKU, all cards alike
  do: this isn't the card that its name says: compare it with what you rented, and {BACK}
odd_vbios | warn | vbios
  found: VBIOS %s, most of the others %s
  expected: the same version on all GPUs (gcm, Azure NHC)
  do: the card was probably exchanged: ask the provider if it is slower than the others
version_mismatch | fatal | mismatch
  found: driver %s, kernel module %s
  expected: one version
  do: stop all GPU programs and reload the nvidia modules, or reboot the box
no_peer_to_peer | warn | p2p
  found: %d x %s have no peer-to-peer on stock drivers
  expected: SKU table; nccl-tests#117
  do: set NCCL_P2P_DISABLE=1 if NCCL hangs

# Outputs that contradict each other
different_values | unknown | disagree
  found: %s: %s
  expected: all outputs say the same
  do: run the check again
same_uuid | fatal | identity
  found: GPU %s and GPU %s have one UUID: %s
  expected: every card has its own
  do: one card is shown twice, or a program stands between you and the driver: {BACK}
different_uuids | unknown | disagree
  found: uuid %s, in -L %s
  expected: all outputs say the same
  do: run the check again

# NVLink
no_nvlink_output | unknown | nvlink
  found: no output shows its NVLinks
  expected: nvlink -s lists them
  do: run nvidia-smi nvlink -s yourself
no_nvlink | fatal | nvlink
  found: no NVLink is listed
  expected: %s links
  do: reboot the box, then {BACK}
single_gpu_nvlinks | warn | nvlink
  found: all %d NVLinks are inactive, and the box has one GPU
  expected: active
  do: nothing: one GPU doesn't need them
unwired_nvlinks | warn | nvlink
  found: NVLink %s inactive (%d of %d), the same number on every GPU
  expected: every pair has an NVLink; a board may wire only some links
  do: nothing, or pass how many you pay for: --expect nvlink=N
inactive_nvlinks | - | nvlink
  found: NVLink %s inactive (%d of %d)
  expected: none inactive (NVIDIA Health Validation, Azure NHC)
  do: reboot the box; if it comes back, {BACK}
missing_nvlinks | - | nvlink
  found: %d NVLinks listed
  expected: %d
  do: reboot the box; if it comes back, {BACK}
slow_nvlink | degraded | nvlink
  found: an NVLink at %.3f GB/s
  expected: %.3f GB/s
  do: reboot the box; if it comes back, {BACK}
no_nvlink_pair | degraded | nvlink
  found: topo -m: no pair of the %d GPUs is connected by NVLink (%s)
  expected: NV and a number (gpud asks NVML)
  do: restart nvidia-fabricmanager or reboot the box; if it comes back, {BACK}
odd_nvlink_pair | degraded | nvlink
  found: topo -m: GPU%d to GPU%d is %s, the others %s
  expected: %s
  do: reboot the box; if it comes back, {BACK}

# Memory in use
stuck_holder | degraded |  | held
  found: process %s (%s) holds %s in state %s
  expected: no holder in state D or Z
  do: unmount the dead mount that it waits for, or reboot the box
memory_of_nobody_known | warn | use | held
  found: %d MiB in use at 0 %% utilisation, by an unknown process
  expected: 1024 MiB (our limit; gcm 15 MiB)
  do: nvidia-smi, fuser -v /dev/nvidia*
memory_of_another_job | warn | use | held
  found: %d MiB in use by %s
  expected: 1024 MiB (our limit)
  do: another job uses this GPU: wait, or choose another GPU
memory_of_another_program | warn | use | held
  found: %d MiB in use by %s
  expected: 15 MiB (gcm)
  do: another program uses this GPU
memory_without_process | - | use | held
  found: %d MiB in use, but no process listed%s
  expected: 1024 MiB (our limit; gcm 15 MiB)
  do: a process of another container, or a dead one, holds it: fuser -v /dev/nvidia*, restart the
    container, or reboot
little_memory_without_process | warn | use | held
  found: %d MiB in use, but no process listed
  expected: 15 MiB (gcm)
  do: fuser -v /dev/nvidia*

# Kernel log
no_kernel_log | - | log
  found: %s
  expected: readable
  do: run as root on the host, or accept that it is unknown: --expect log=no
odd_kernel_log | unknown | log
  found: %d of %d lines of the kernel log don't look like log lines
  expected: 0
  do: look at the log yourself
late_kernel_log | - | log
  found: the kernel log begins %s after boot: earlier lines are overwritten
  expected: it goes back to the load of the driver
  do: journalctl -k -b as root
xid | -
  found: %s
  expected: no Xid %d since boot, load of the driver or reset: %s (NVIDIA Xid catalogue)
  do: %s
sxid | -
  found: %s
  expected: no SXid %d (%s)
  do: %s
kernel_log_line | -
  found: %s
  expected: no such line since boot%s
  do: %s

# Disks, memory, device nodes
dead_mount | degraded
  found: %s does not answer
  expected: a mount answers within 3 s
  do: it is a dead network mount: unmount it, or reboot the box
path_error | unknown
  found: %s: %s
  expected: readable
  do: choose another path
path_read_only | degraded
  found: %s is read-only
  expected: the job can write there (--path)
  do: mount it writable, or choose another path
path_size | unknown
  found: %s: size can't be read
  expected: numbers
  do: df %s
shm_default | degraded | shm | shm
  found: /dev/shm has %d MiB
  expected: more than 64 MiB, docker's default, at which DataLoader workers die with a bus error
  do: start the container with --shm-size or --ipc=host
shm_small | warn | shm | shm
  found: /dev/shm has %d MiB
  expected: 1024 MiB
  do: use few workers, or a larger --shm-size
shm_full | degraded | shm | shm
  found: /dev/shm has %d MiB free
  expected: 64 MiB free
  do: remove what dead jobs left there
disk_full | fatal |  | disk
  found: %s: %d MiB free of %d
  expected: 512 MiB free
  do: free space before you start: a checkpoint would be cut off
disk_nearly_full | degraded |  | disk
  found: %s: %d MiB free of %d
  expected: 5 GiB free
  do: free space, or write elsewhere
disk_filling | warn |  | disk
  found: %s: %d MiB free of %d
  expected: 3 %% free, or 50 GiB
  do: compare it with the size of your checkpoints
no_inodes | fatal |  | inodes
  found: %s: %d inodes free of %d
  expected: 100 free
  do: remove small files (caches, datasets)
few_inodes | degraded |  | inodes
  found: %s: %d inodes free of %d
  expected: 2 %% free
  do: remove small files (caches, datasets)
container_memory | degraded | memory | container memory
  found: memory: %d of %d MiB of the container's limit in use
  expected: 0.95 of the limit
  do: end other processes, or ask for a larger limit
little_memory | degraded | memory
  found: memory: %d of %d MiB available
  expected: 1024 MiB
  do: end other processes
less_memory_than_a_gpu | warn | small memory
  found: memory: %d MiB is the limit of this container, and a GPU has %d
  expected: at least as much as one GPU has (our limit)
  do: compare it with what you rented: --expect ram=GIB; a checkpoint of the GPU's size can't pass
    through at once
uncorrected_memory | fatal
  found: EDAC counted %d memory errors that couldn't be corrected (%s, %s)
  expected: 0
  do: the kernel kills programs for them: save your checkpoints elsewhere and check them, {BACK}
few_corrected | warn
  found: EDAC counted %d corrected memory errors (%s, %s)
  expected: less than 10 a day (mcelog's threshold for a module)
  do: read the counts again tomorrow; if they grow by ten a day, a memory module is about to fail
corrected_memory | degraded
  found: EDAC counted %d corrected memory errors (%s, %s)
  expected: less than 10 a day (mcelog's threshold for a module)
  do: a memory module is about to fail: save your checkpoints elsewhere, finish your job, then
    {BACK}
few_processors | warn | processors
  found: this job may use %s processors, for %d GPUs
  expected: 2 for each GPU (our limit)
  do: compare it with what you rented: --expect cpus=N; data loaders will hold the GPUs up
throttled_container | warn | throttled container
  found: the container's limit on processors stopped it in %.0f %% of the periods in which it ran
  expected: less than 25 %% (our limit)
  do: fewer data loader workers, or ask for a higher limit
stolen_time | - | steal
  found: other virtual machines took %.0f %% of the processor time that this one wanted
  expected: less than 5 %% (our limit)
  do: the host is oversold: compare the speed of a step with another box, or change the box
unseen_in_container | unknown | unseen
  found: can't be read in this container: %s
  expected: readable on the host
  do: accept it (the log: --expect log=no), or ask the provider to look
closed_node | fatal | node | no_runtime
  found: %s: %s
  expected: the node can be opened
  do: the container's device list lacks it (cgroup): restart the container
no_fabric_manager | - | fabricmanager
  found: %d NVSwitches, but nv-fabricmanager isn't running
  expected: it runs; without it CUDA can't start on this board (gpud)
  do: systemctl start nvidia-fabricmanager; it must have the driver's version
unfinished_part | unknown
  found: %s did not end
  expected: every part ends in time
  do: run the check again
unknown_card | fatal | lost
  found: the card at %s has the nvidia driver, but nvidia-smi doesn't list it
  expected: every card answers whose device node can be opened
  do: look for RmInitAdapter in the kernel log; reboot, then {BACK}
card_without_driver | - | lost
  found: the card at %s has no NVIDIA driver (%s)
  expected: the driver has every card of the box; one that it can't start is lost
  do: read what the kernel log says about its load; reboot; if it comes back, {BACK}
hidden_cards | unknown | count
  found: nvidia-smi doesn't show %d of %d NVIDIA cards: they are lost, or another job's
  expected: /proc/driver/nvidia/gpus says which device node belongs to which card
  do: compare with the number of GPUs that you asked for: --expect gpus=N
spare_nodes | unknown | count
  found: %d device nodes /dev/nvidiaN, but %d GPUs answer
  expected: a GPU for each node
  do: this container may have lost a GPU: restart the container; if it stays lost, {BACK}

# torch (--python)
no_torch | unknown | torch
  found: %s: %s
  expected: torch can be imported
  do: install torch there, or pass the job's interpreter with --python
torch_without_gpu | fatal | torch
  found: torch %s (CUDA %s) finds no GPU: %s
  expected: torch.cuda.is_available()
  do: %s
failed_kernel | fatal | torch
  found: a small kernel failed: %s
  expected: it runs and its sum is correct
  do: %s

# AMD
amd_ras | fatal | ras
  found: %s: %s
  expected: ue: 0
  do: reboot the box, or hand it back
narrow_amd_link | degraded | width
  found: PCIe width x%d of x%d
  expected: the card's full width
  do: reboot; if it comes back, {BACK}
unreadable_amd_output | unknown
  found: %s can't be read
  expected: JSON
  do: run amd-smi yourself
amd_uncorrectable | fatal | ras
  found: amd-smi metric: %s %d
  expected: 0
  do: reboot the box, or hand it back
amd_bad_pages | degraded | pages
  found: amd-smi bad-pages: %s
  expected: none pending
  do: reboot the box
amd_ecc_untold | unknown | amd
  found: %d of %d AMD GPUs: neither amd-smi nor ras files show their ECC state
  expected: amd-smi metric --ecc, bad-pages
  do: install amd-smi, or run it on the host

# Expectations (--expect)
not_as_expected | fatal
  found: %s: %s
  expected: %s%s%s
  do: it isn't what you pay for, or what the job needs: change the box or the job, or {BACK}
unknown_name | unknown
  found: no card is called %s; this one is %s
  expected: a name of the table of cards, or the driver's own
  do: %s
expectation_untold | unknown
  found: %s could not be read
  expected: %s%s%s
  do: ask the provider, or leave it out of --expect

# Network (--network)
not_reached | warn
  found: %s: %s
  expected: it answers
  do: set HF_ENDPOINT or PIP_INDEX_URL to a mirror, or bring what the job needs before it starts
slow_network | -
  found: %s at %.1f MB/s: the 15 GB of a model of 7B weights take %d minutes
  expected: 10 MB/s (our limit)
  do: set HF_ENDPOINT or PIP_INDEX_URL to a nearer mirror, or change the box

# Load (--stress), and network
cards_in_use | unknown
  found: neither load nor network was measured: GPU %s has %s
  expected: no process on any card
  do: end the job, or leave out --stress and --network
stress_refused | unknown | stress
  found: stress: %s
  expected: the load runs
  do: free the GPU, or pass the job's interpreter with --python
stress_hung | fatal | stress
  found: stress: no answer in stage %s
  expected: each stage ends
  do: reboot the box; a hang in all-reduce: set NCCL_P2P_DISABLE=1 and try again
stress_no_answer | unknown | stress
  found: stress: %s
  expected: torch in the interpreter
  do: pass the job's interpreter with --python
stress_ended | fatal | stress
  found: stress: ended in stage %s: %s
  expected: it runs to its end
  do: restart the job; if it comes back, reset the GPU
changing_product | fatal | wrong
  found: the same product gave a different result in %s of %s runs
  expected: bit for bit the same each time
  do: this GPU computes wrong results: {BACK}
odd_product | fatal | wrong
  found: the product differs from that of the other %s
  expected: bit for bit the same on cards of the same kind
  do: this GPU computes wrong results: {BACK}
two_products | fatal | wrong
  found: the two %s give different products
  expected: bit for bit the same
  do: one of them computes wrong results: {BACK}
slow_matmul | degraded | slow
  found: matmul at %.0f TFLOPS
  expected: 0.5 of the %d in the data sheet (our limit)
  do: look at clocks, power limit and heat; or change the box
slowest_matmul | degraded | slow
  found: matmul at %.0f TFLOPS, the others at %.0f
  expected: 0.85 of the median (our limit): the slowest card sets the pace
  do: look at clocks, power limit and heat; or change the box
slowest_memory | degraded | slow
  found: its memory copies %.0f GB/s, that of the others %.0f
  expected: 0.85 of the median (our limit): the slowest card sets the pace
  do: look at clocks and heat; or change the box
slow_host_copy | degraded | h2d
  found: host to device at %.1f GB/s
  expected: 0.4 of %.0f GB/s (PCIe %d x%d, our limit)
  do: look at the PCIe link under load and at NUMA; or change the box
wrong_all_reduce | fatal | wrong
  found: a wrong sum after all-reduce
  expected: the sum over %d GPUs
  do: NVLink or PCIe path: reboot, then {BACK}
wrong_product | fatal | product | wrong
  found: wrong products: %s
  expected: within the rounding of their type, and the same twice
  do: this GPU computes wrong results: save checkpoints from before it, {BACK}
wrong_memory | fatal | pattern | wrong
  found: %s words of 8 bytes in %.1f GiB of memory came back changed, the first at byte %s
  expected: what was written
  do: this GPU's memory changes data: save checkpoints from before it, {BACK}
wrong_copy | fatal | copy
  found: copy from %s to %s: %s words of 8 bytes arrived changed
  expected: what was sent
  do: NVLink or PCIe path: reboot, then {BACK}; between GPUs, NCCL_P2P_DISABLE=1 avoids the path
wrong_on_host | fatal | host | wrong
  found: the CPU gives two results for one product of whole numbers
  expected: the same
  do: the host's CPU or memory computes wrong results: {BACK}
numbers_not_looked_at | unknown | numbers
  found: no product was tried: %s
  expected: products in each type
  do: repeat --stress with more seconds, or pass the job's interpreter with --python
hung_under_load | fatal | hang
  found: nvidia-smi did not end under load
  expected: 10 s
  do: reboot the box, and if it hangs again, {BACK}
throttled_under_load | degraded | throttle
  found: throttled under load: %s
  expected: power cap only
  do: heat or power supply: ask the provider, or change the box
lost_under_load | fatal | lost
  found: [GPU is lost] under load
  expected: it answers
  do: reboot the box; if it comes back, {BACK}

# Samples (--watch)
gone_from_samples | fatal | lost
  found: GPU %d is missing from the samples
  expected: every GPU is in every sample
  do: stop the job, reboot the box; if it comes back, {BACK}
lost_sample | fatal | lost
  found: [GPU is lost]
  expected: it answers
  do: stop the job, reboot the box; if it comes back, {BACK}
throttled_sample | degraded | throttle
  found: throttled: %s at %s C
  expected: power cap only
  do: heat or power supply: ask the provider
stuck_kernel | degraded | stuck | stuck
  found: %d %% utilisation at %.0f W of %.0f W for %d samples
  expected: more than %.1f of the limit under load (our limit)
  do: run py-spy dump on every rank: one of them is in a different place
no_handle_at_end | fatal | lost
  found: %s
  expected: every GPU has a handle; this is Xid 79 (NVIDIA: RESTART_BM)
  do: stop the job, reboot the box; if it comes back, {BACK}
watched_line | -
  found: %s
  expected: no such line while the job runs
  do: %s
no_sample | fatal
  found: nvidia-smi gave nothing for %d s
  expected: a sample every %s s
  do: don't call it again; reboot the box, and if it hangs again, {BACK}

# NVIDIA's own diagnostics, as somebody ran them
dcgm_fatal | fatal
  found: dcgmi %s
  expected: Pass, or Healthy
  do: save your checkpoints elsewhere, then {BACK}; this output is the proof
dcgm_failed | degraded
  found: dcgmi %s
  expected: Pass, or Healthy
  do: run it again while nothing else uses the cards; if it comes back, {BACK}
dcgm_warned | warn
  found: dcgmi %s
  expected: Pass, or Healthy
  do: read what it names; it stops no training by itself
"""


def finding_texts():
    """-> {name: {level, key, entry, found, expected, do}}."""
    records, record = {}, {}
    text = re.sub(r"(?m)^#.*\n", "", FINDING_TABLE)
    text = text.replace("{RESET}", RESET).replace("{BACK}", BACK).replace("\n    ", " ")
    for line in text.splitlines():
        if line.startswith("  "):
            label, text = line.strip().split(": ", 1)
            record[label] = text
        elif line:
            name, level, key, entry = [*line.split(" | "), "", ""][:4]
            record = records[name] = {"level": level, "key": key.strip(), "entry": entry}
    return records


FINDINGS = finding_texts()


def verdict(findings):
    """Turn the levels of findings into the verdict."""
    levels = {finding["level"] for finding in findings}
    for level, word in (("fatal", "unfit"), ("degraded", "care"), ("unknown", "unknown")):
        if level in levels:
            return word
    return "fit"


# What somebody who rents the box does about a finding, by how its action begins or ends.
STEPS = {
    "hand back": "hand it back: end or move your job first, and keep the answer as proof",
    "watch": "watch it: do the step below, check again, and hand it back if it is still there",
    "keep": "keep it: mend what is named below, then train",
}
NO_MORE = re.compile(
    r"(?<!comes back, )(?<!box, then )hand the box back|another card|change the box"
)
LATER = re.compile(
    r"hand the box back|reset|reboot|restart the job|comes back|watch|check .*again|ask"
)


def renters_step(findings):
    """Say in one line whether to keep, watch or hand back a box with these findings.

    The worst of the degraded findings decides; without one there is nothing to say.
    """
    actions = [finding["action"] for finding in findings if finding["level"] == "degraded"]
    steps = [
        "hand back" if NO_MORE.search(text) else "watch" if LATER.search(text) else "keep"
        for text in actions
    ]
    return next((STEPS[step] for step in STEPS if step in steps), "")


class Findings:
    """Collects findings. Call it with the name of a finding and the values of its texts."""

    def __init__(self):
        """`list`: the findings; `keys`: their (key, GPU); `names`: (name, finding) of each."""
        self.list, self.keys, self.names = [], set(), []

    def __call__(self, gpu, name, *values, level=None, expected=(), do=(), key=None, entry=None):
        """Add a finding, once for each key and GPU. The record has the defaults."""
        record = FINDINGS[name]
        key = record["key"] if key is None else key
        entry = record["entry"] if entry is None else entry
        if key and (key, gpu) in self.keys:
            return
        self.keys.add((key, gpu))
        finding = {
            "gpu": gpu,
            "level": level or record["level"],
            "evidence": short(record["found"] % values, 300),
            "threshold": record["expected"] % expected,
            "action": record["do"] % do,
            "entry": ENTRY.get(entry or key, ""),
        }
        self.list.append(finding)
        self.names.append((name, finding))

    def take_out(self, *names):
        """Remove the findings with these names -> those that were there, in their order."""
        gone = [finding for name, finding in self.names if name in names and finding in self.list]
        self.list = [finding for finding in self.list if finding not in gone]
        return gone

    def has(self, key, gpu):
        """Whether a finding with this key was added for this GPU."""
        return (key, gpu) in self.keys


# ---- commands.py
# Run nvidia-smi and read the kernel log: every command once, with a time limit.
#
# The calls of nvidia-smi run one after another. The first that hangs ends the series.

APPS_QUERY = "--query-compute-apps=gpu_bus_id,gpu_uuid,pid,process_name,used_gpu_memory"


def run(command, seconds):
    """Return {text, rc, seconds, timed_out, cut}. Never waits for a process in state D."""
    began = time.monotonic()
    out: dict = {"text": "", "rc": None, "seconds": 0.0, "timed_out": False, "cut": False}
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # PCI_BUS_ID: so that torch counts GPUs as nvidia-smi does
            env=dict(os.environ, LC_ALL="C", CUDA_DEVICE_ORDER="PCI_BUS_ID"),
        )
    except OSError as error:
        out.update(rc=127 if isinstance(error, FileNotFoundError) else 126, text=str(error))
        return out
    pipe = process.stdout
    assert pipe is not None  # PIPE was asked for
    raw = read_pipe(pipe.fileno(), began + seconds, command[0] in LOGS, out)
    if not out["timed_out"] and not out["cut"]:
        try:
            out["rc"] = process.wait(max(0.1, began + seconds - time.monotonic()))
        except subprocess.TimeoutExpired:
            out["timed_out"] = True
    if out["timed_out"] or out["cut"]:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.poll()
    pipe.close()
    out["text"] = raw[:LIMIT].decode("utf-8", "replace")
    out["seconds"] = round(time.monotonic() - began, 3)
    return out


def read_pipe(handle, end, is_log, out):
    """Read until the other side closes, the clock shows `end`, or LIMIT bytes came.

    Sets `timed_out` in `out` at the end of the time. After LIMIT bytes it sets `cut`, but a log
    only loses its plain lines, and reading goes on.
    """
    chunks, size = [], 0
    while True:
        left = end - time.monotonic()
        if left <= 0 or not select.select([handle], [], [], left)[0]:
            out["timed_out"] = True
            break
        chunk = os.read(handle, 65536)
        if not chunk:
            break
        chunks.append(chunk)
        size += len(chunk)
        if size > LIMIT and is_log:
            chunks = [worthy(b"".join(chunks))]
            size = len(chunks[0])
        elif size > LIMIT:
            out["cut"] = True
            break
    return b"".join(chunks)


def read_text(path, most=65536):
    """The text of a small file, or None. Never blocks on a device."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return os.read(handle, most).decode("utf-8", "replace")
        finally:
            os.close(handle)
    except OSError:
        return None


def names_to_query(group, known):
    """Return the names of a group, each in the spelling that this driver knows.

    `known`: the names that the driver lists. If it lists none, no name is left out.
    """
    names = []
    for choices, _ in group:
        options = choices.split("|")
        hit = [name for name in options if name in known] if known else options[:1]
        if hit:
            names.append(hit[0])
    return names


class SmiSeries:
    """The calls of nvidia-smi, one after another, within SERIES_SECONDS. Fills `record`."""

    def __init__(self, smi, record, runner, limit):
        """`limit`: seconds for one call."""
        self.smi, self.record, self.runner, self.limit = smi, record, runner, limit
        self.began, self.longest = time.monotonic(), 0.0

    def ask(self, name, arguments):
        """Make one call. Return None if too little of the series is left for a call.

        `short` in the answer: the call had less than its full time, so a time-out is no hang.
        """
        ends = self.record["exit"]
        left = SERIES_SECONDS - (time.monotonic() - self.began)
        if left < max(1.0, self.longest):
            unasked: dict = {"rc": None, "seconds": 0.0, "timed_out": False, "cut": False}
            ends.setdefault(name, unasked)["unasked"] = True
            return None
        seconds = min(self.limit, left) if ends.get("nvidia-smi.csv") else left
        got = self.runner([self.smi, *arguments], seconds)
        self.longest = max(self.longest, got["seconds"])
        answer: dict = dict(got, limit_s=round(seconds, 1), short=seconds < self.limit)
        return answer

    def call(self, name, *arguments, fields=None):
        """Make one call for a file, after earlier ones. Return (the text, how the call ended)."""
        ends, got = self.record["exit"], self.ask(name, arguments)
        if got is None:
            return "", ends[name]
        text = got.pop("text")
        old = ends.get(name)
        self.record["files"][name] = self.record["files"].get(name, "") + text
        if old:
            got.update(
                rc=old["rc"] or got["rc"],
                seconds=round(old["seconds"] + got["seconds"], 3),
                cut=old["cut"] or got["cut"],
                asked=old.get("asked", []),
            )
        if fields:
            got["asked"] = got.get("asked", []) + ([fields] if not got["timed_out"] else [])
        ends[name] = got
        return text, got

    def query(self, names):
        """Query the fields that the driver doesn't refuse. Return (the text, how it ended)."""
        text, got = "", {}
        for _ in range(8):
            text, got = self.call(
                "nvidia-smi.csv", "--query-gpu=" + ",".join(names), "--format=csv", fields=names
            )
            # Field "fabric.state" is not a valid field to query.
            refused = re.search(r'Field "([\w.]+)" is not a valid field', text)
            if not refused or refused.group(1) not in names:
                break
            files, end = self.record["files"], self.record["exit"]["nvidia-smi.csv"]
            files["nvidia-smi.csv"] = files["nvidia-smi.csv"].replace(text, "")
            end["asked"].pop()
            end["rc"] = 0
            names = [name for name in names if name != refused.group(1)]
        return text, got

    def remapped_rows(self):
        """Query remapped rows, which driver 465 shows only here. Return whether the call hung."""
        fields = ["gpu_bus_id"]
        fields += ["remapped_rows." + field for field in ("correctable", "uncorrectable")]
        fields += ["remapped_rows." + field for field in ("pending", "failure")]
        query = ["--query-remapped-rows=" + ",".join(fields), "--format=csv"]
        got = self.ask("nvidia-smi.csv", query)
        end = self.record["exit"]["nvidia-smi.csv"]
        if got and got["timed_out"]:
            end.update(timed_out=True, limit_s=got["limit_s"], short=got["short"])
            return hung(got)
        if got and got["rc"] == 0 and got["text"].startswith("gpu_bus_id"):
            self.record["files"]["nvidia-smi.csv"] += got["text"]
            end["asked"].append(fields)
        return False


def hung(got):
    """Whether a call had its full time and didn't end."""
    return got["timed_out"] and not got.get("short")


def gather_nvidia(record, runner, limit):
    """Put everything that nvidia-smi shows into `record`."""
    smi = shutil.which("nvidia-smi")
    if not smi and os.path.exists("/usr/lib/wsl/lib/nvidia-smi"):  # WSL keeps it off the PATH
        smi = "/usr/lib/wsl/lib/nvidia-smi"
    if not smi:
        record["exit"]["nvidia-smi.csv"] = {"rc": 127, "timed_out": False}
        return
    series = SmiSeries(smi, record, runner, limit)
    text, got = series.call("fields.txt", "--help-query-gpu")
    if got["timed_out"]:
        return
    known = set(re.findall(r'"([a-z][\w.]+)"', text))
    known = known or set(re.findall(r"^([a-z][\w.]+)$", text, re.M))
    if got["rc"] != 0 or len(known) < 10:
        known = set()
    for group in FIELDS:
        text, got = series.query(names_to_query(group, known))
        if hung(got) or smi_failure(text):
            return
    if known and "remapped_rows.failure" not in known and series.remapped_rows():
        return
    for name, *arguments in (
        ("nvidia-smi-list.txt", "-L"),
        ("nvidia-smi-q.xml", "-q", "-x"),
        ("nvlink.txt", "nvlink", "-s"),
        ("topo.txt", "topo", "-m"),
        ("apps.csv", APPS_QUERY, "--format=csv"),
    ):
        if hung(series.call(name, *arguments)[1]):
            return


def worthy(raw):
    """Return a log without its plain lines.

    It keeps the first line, the last one (which may be incomplete), and the lines that are judged.
    If these are too many, it keeps the end.
    """
    lines = raw.split(b"\n")
    kept = [
        line
        for line in lines[1:-1]
        if WORTH.search(line.decode("latin-1")) or OLD.search(line.decode("latin-1"))
    ]
    out = b"\n".join(lines[:1] + kept + lines[-1:])
    return out if len(out) <= LIMIT // 2 else out[-(LIMIT // 2) :].split(b"\n", 1)[-1]


def log_start(text):
    """Seconds after boot of the first line that has a time, or None."""
    match = re.search(r"^(?:(?:<\d+>)?\[\s*(\d{1,10})\.\d+\]|\d+,\d+,(\d{1,16})\d{6},)", text, re.M)
    return int(match.group(1) or match.group(2)) if match else None


def with_journal(ring, journal):
    """Return the journal up to the first line of the ring buffer, then the ring buffer."""
    start, kept = log_start(ring), []
    for line in journal.splitlines(True):
        at = log_start(line)
        if start is not None and at is not None and at > start:
            break
        kept.append(line)
    text = "".join(kept) + (ring if start is not None else "")
    return (
        text
        if len(text) <= LIMIT
        else worthy(text.encode("utf-8", "replace")).decode("utf-8", "replace")
    )


def gather_log(record, runner, limit):
    """Read the kernel log: dmesg, else the journal of this boot, else /dev/kmsg.

    If the beginning of dmesg was overwritten, the journal is put before it.
    """
    tried, ring = [], None
    for command in (["dmesg"], ["journalctl", "-k", "-b", "--no-pager", "-o", "short-monotonic"]):
        got = runner(command, min(limit, 10.0))
        text = got.pop("text")
        if got["rc"] == 0 and text.strip() and "-- No entries --" not in text:
            text = text if ring is None else with_journal(ring, text)
            record["files"]["dmesg.txt"], record["exit"]["dmesg.txt"] = text, got
            start = log_start(text)
            if ring is not None or OLD.search(text) or (start is not None and start <= 300):
                return
            ring = text
        why = "timed out" if got["timed_out"] else short(text or "empty", 120)
        tried.append(f"{command[0]}: {why}")
    if ring is not None:
        return
    try:
        lines = ring_buffer()
    except (OSError, IndexError) as error:
        lines = []
        tried.append(f"/dev/kmsg: {error}")
    record["files"]["dmesg.txt"] = "\n".join(lines or tried) + "\n"
    record["exit"]["dmesg.txt"] = {"rc": 0 if lines else 1, "timed_out": False, "cut": False}


def ring_buffer():
    """Return the records of /dev/kmsg as lines. Raises OSError, IndexError."""
    handle, lines = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK), []
    try:
        while len(lines) < 50000:
            try:
                lines.append(os.read(handle, 8192).decode("utf-8", "replace").splitlines()[0])
            except OSError as error:
                # EPIPE: the record was overwritten meanwhile, the next one is there
                if error.errno != errno.EPIPE:
                    break
    finally:
        os.close(handle)
    return lines


# ---- gather.py
# Gather what the box shows: /proc and /sys, who holds the GPUs, disks, torch, amd-smi.

# A small program for the job's own interpreter.
TORCH_PROBE = r'''
"""What the torch of this interpreter sees, and whether a small kernel runs on each GPU."""

import json

out = {}
try:
    import torch

    out = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "available": torch.cuda.is_available(),
        "archs": torch.cuda.get_arch_list() if torch.cuda.is_available() else [],
        "devices": [],
    }
    for index in range(torch.cuda.device_count() if out["available"] else 0):
        device = {"index": index, "name": torch.cuda.get_device_name(index)}
        try:
            x = torch.arange(1024, device=f"cuda:{index}", dtype=torch.float32)
            device["ok"] = float((x * 2 + 1).sum().item()) == 1048576.0
        except Exception as error:
            device["ok"], device["error"] = False, str(error)[:300]
        out["devices"].append(device)
    if not out["available"]:
        try:
            torch.zeros(1, device="cuda")
        except Exception as error:
            out["error"] = str(error)[:300]
except Exception as error:
    out["error"] = f"{type(error).__name__}: {str(error)[:300]}"
print("GPU_HEALTH " + json.dumps(out))
'''


def gather_system(proc):
    """Kernel, container, cards, device nodes and memory."""
    release = read_text("/proc/sys/kernel/osrelease") or ""
    proc["platform"] = {
        "kernel": release.strip(),
        "wsl": "microsoft" in release.lower() or os.path.exists("/dev/dxg"),
        "container": container(),
    }
    uptime = (read_text("/proc/uptime") or "").split()
    proc["uptime_s"] = float(uptime[0]) if uptime else None
    proc["nvidia_version"] = read_text("/proc/driver/nvidia/version")
    proc["module_version"] = (read_text("/sys/module/nvidia/version") or "").strip() or None
    proc["pci"] = []
    paths = sorted(glob.glob("/sys/bus/pci/devices/*"))
    for path in paths:
        kind, vendor = word_of(path + "/class"), word_of(path + "/vendor")
        graphics = kind.startswith(("0x0300", "0x0302", "0x0380", "0x1200"))
        if vendor in ("0x10de", "0x1002") and graphics:
            proc["pci"].append(card_at(path, kind, vendor))
    # NVSwitches are bridges; without nv-fabricmanager no CUDA program starts on a board that has
    # them.
    bridges = [path for path in paths if word_of(path + "/class").startswith("0x0680")]
    proc["nvswitches"] = len([path for path in bridges if word_of(path + "/vendor") == "0x10de"])
    if proc["nvswitches"]:
        names = [read_text(path) for path in glob.glob("/proc/[0-9]*/comm")]
        runs = any((name or "").startswith("nv-fabricmanage") for name in names)
        proc["fabricmanager"] = runs if read_text("/proc/1/comm") else None
    nodes = glob.glob("/dev/nvidia*") + glob.glob("/dev/kfd") + glob.glob("/dev/dxg")
    proc["dev"] = [{"path": path, "error": error} for path, error in map(node_at, sorted(nodes))]
    proc["dev"] = [node for node in proc["dev"] if node["error"] is not None]
    memory = dict(re.findall(r"^(\w+):\s+(\d+) kB", read_text("/proc/meminfo") or "", re.M))
    proc["memory"] = {
        "total_mib": int(memory.get("MemTotal", 0)) // 1024,
        "available_mib": int(memory.get("MemAvailable", 0)) // 1024,
    }
    proc["cgroup"] = memory_limit()
    proc["cpu"] = processors()
    proc["edac"] = {
        os.path.basename(path): {kind: count_in(f"{path}/{kind}_count") for kind in ("ce", "ue")}
        for path in sorted(glob.glob("/sys/devices/system/edac/mc/mc[0-9]*"))
    }


def count_in(path):
    """The whole number in a small file, or None."""
    text = word_of(path)
    return int(text) if text.isdigit() and len(text) < 20 else None


def processors():
    """How many processors there are, how many this process may use, and what they did.

    {count, allowed, times} and, where a cgroup limits them, {quota, periods, throttled}. `times`:
    ticks since the boot, as the first line of /proc/stat has them.
    """
    first = (read_text("/proc/stat") or "").split("\n", 1)[0].split()[1:]
    found = {"count": os.cpu_count(), "times": [int(word) for word in first if word.isdigit()]}
    with contextlib.suppress(OSError):
        found["allowed"] = len(os.sched_getaffinity(0))
    quota, _, period = word_of("/sys/fs/cgroup/cpu.max").partition(" ")
    statistics = read_text("/sys/fs/cgroup/cpu.stat") or ""
    if not period:
        quota, period = (
            word_of(f"/sys/fs/cgroup/cpu/cpu.cfs_{name}_us") for name in ("quota", "period")
        )
        statistics = read_text("/sys/fs/cgroup/cpu/cpu.stat") or ""
    if quota.isdigit() and period.isdigit() and int(period):
        counts = dict(re.findall(r"^nr_(periods|throttled) (\d{1,18})$", statistics, re.M))
        found.update(
            {name: int(count) for name, count in counts.items()}, quota=int(quota) / int(period)
        )
    return found


def word_of(path):
    """The text of a small file without the space around it; empty where it can't be read."""
    return (read_text(path) or "").strip()


def card_at(path, kind, vendor):
    """Return what sysfs shows of a card."""
    card = {"bdf": os.path.basename(path), "vendor": vendor, "class": kind}
    above = os.path.realpath(path).split("/")[:-1]  # …/pci0000:00/0000:00:03.0/0000:03:00.0
    card["behind"] = [name for name in above if bdf(name)]
    try:
        card["driver"] = os.path.basename(os.readlink(path + "/driver"))
    except OSError:
        card["driver"] = ""
    if os.path.exists(path + "/physfn"):
        card["virtual_function"] = True
    names = ["current_link_width", "max_link_width", "current_link_speed", "max_link_speed"]
    if vendor == "0x1002":
        names += ["mem_info_vram_total", "mem_info_vram_used", "product_name"]
        counts = glob.glob(path + "/ras/*_err_count")
        card["ras"] = {os.path.basename(item): word_of(item) for item in counts}
    card.update((name, word_of(path + "/" + name)) for name in names)
    return card


def node_at(path):
    """-> (the path, why the node can't be used, or ""). None for what is no device node."""
    try:
        if not stat.S_ISCHR(os.stat(path).st_mode):
            return path, None
        if path == "/dev/nvidiactl":
            # Opening a node fails with EPERM if the container's device list lacks it. The control
            # node wakes no GPU.
            os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as failed:
        return path, failed.strerror or str(failed)
    return path, ""


def memory_limit():
    """Return the container's memory limit and how much is in use, in MiB, by cgroup v2 or v1."""
    for folder, limit, used in (
        ("/sys/fs/cgroup/", "memory.max", "memory.current"),
        ("/sys/fs/cgroup/memory/", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        text = word_of(folder + limit)
        if text.isdigit() and int(text) < 1 << 60:
            statistics = read_text(folder + "memory.stat") or ""
            cache = re.search(r"^(?:total_)?inactive_file (\d+)", statistics, re.M)
            kept = int(word_of(folder + used) or 0) - int(cache.group(1) if cache else 0)
            return {"limit_mib": int(text) >> 20, "used_mib": max(0, kept) >> 20}
    return {}


def container():
    """The kind of container that this is, or an empty text."""
    if os.path.exists("/.dockerenv"):
        return "docker"
    if os.path.exists("/run/.containerenv"):
        return "podman"
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    if re.search(r"docker|kubepods|containerd|lxc", read_text("/proc/1/cgroup") or ""):
        return "container"
    return container_by_traces()


def container_by_traces():
    """Recognize a container without the usual marks: pods of containerd and CRI-O, LXC, nspawn.

    They have none under cgroup v2, or if one enters them over ssh.
    """
    named = (read_text("/run/systemd/container") or "").strip()
    made = re.search(
        r"(?:^|\0)(?:container=([^\0]+)|KUBERNETES_SERVICE_HOST=)",
        read_text("/proc/1/environ") or "",
    )
    if named:
        return short(named, 20)
    if made:
        return short(made.group(1) or "kubernetes", 20)
    # 1023 999 0:84 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/containerd/…
    # A host without disks may have such a root as well.
    root = re.search(
        r"^\S+ \S+ \S+ \S+ / .* - overlay .*", read_text("/proc/self/mountinfo") or "", re.M
    )
    if root and (
        re.search(r"docker|containerd|containers/storage|crio|enroot|kubelet", root.group(0))
        or (read_text("/proc/1/comm") or "").strip() not in ("systemd", "init")
    ):
        return "container"
    return ""


def minor_of(place):
    """Return (N of /dev/nvidiaN, whether the driver leaves the card out).

    `place` is as sysfs writes it. N is None if the driver's folder doesn't show it.
    """
    text = read_text(f"/proc/driver/nvidia/gpus/{place}/information") or ""
    match = re.search(r"Device Minor:\s+(\d{1,4})", text)
    left_out = re.search(r"(?:Excluded|Blacklisted):\s+Yes", text)
    return int(match.group(1)) if match else None, bool(left_out)


def gather_nodes(proc):
    """Find the cards that this process may use: Slurm and containers may give it only some.

    access() asks the device cgroup. Unlike open(), it wakes no GPU.
    """
    listed = glob.glob("/proc/driver/nvidia/gpus/*/information")
    for card in proc.get("pci", []):
        if card.get("driver") == "nvidia" and listed:
            card["minor"], left_out = minor_of(card["bdf"])
            node = "/dev/nvidia{}".format(card["minor"])
            if card["minor"] is None:
                card["node"] = "hidden"
            elif left_out:
                card["node"] = "excluded"
            elif not os.path.exists(node):
                card["node"] = "absent"
            else:
                card["node"] = "open" if os.access(node, os.R_OK | os.W_OK) else "denied"


def gather_disks(paths, into, by_user=False):
    """Size and free space of each path. `by_user`: the user named the paths."""
    for path in paths:
        into[path] = None  # stays None when statvfs never comes back: a dead mount
        try:
            got = os.statvfs(path)
            into[path] = {
                "total_mib": got.f_blocks * got.f_frsize >> 20,
                "free_mib": got.f_bavail * got.f_frsize >> 20,
                "inodes": got.f_files,
                "inodes_free": got.f_favail,
                "read_only": bool(got.f_flag & 1),
                "id": str(os.stat(path).st_dev),
                **({"asked": True} if by_user else {}),
            }
        except OSError as error:
            into[path] = {"error": error.strerror or str(error)}


def gather_holders(proc):
    """Find the processes that hold GPU device nodes.

    It sees only its own pid namespace, and other users' processes only as root.
    """
    holders, hidden = [], 0
    for path in glob.glob("/proc/[0-9]*"):
        pid, nodes = os.path.basename(path), set()
        try:
            for item in os.listdir(path + "/fd"):
                try:
                    target = os.readlink(path + "/fd/" + item)
                except OSError:
                    continue
                if re.match(r"/dev/(nvidia\d+|kfd|dri/renderD\d+)$", target):
                    nodes.add(target)
        except PermissionError:
            hidden += 1
            continue
        except OSError:
            continue
        if nodes and int(pid) != os.getpid():
            status = read_text(path + "/status") or ""
            letter = re.search(r"^State:\s+(\w)", status, re.M)
            name = re.search(r"^Name:\s+(.*)", status, re.M)
            holders.append(
                {
                    "pid": int(pid),
                    "state": letter.group(1) if letter else "?",
                    "name": short(name.group(1) if name else "?", 40),
                    "devices": sorted(nodes),
                }
            )
    proc["holders"], proc["hidden_processes"] = holders[:200], hidden


def gather_torch(proc, runner, python):
    """Run the torch probe in the job's interpreter."""
    got = runner([python, "-c", TORCH_PROBE], 40.0)
    line = [part for part in got["text"].splitlines() if part.startswith("GPU_HEALTH ")]
    try:
        proc["torch"] = json.loads(line[-1][11:])
    except (IndexError, ValueError):
        proc["torch"] = {
            "error": "timed out" if got["timed_out"] else short(got["text"] or "no answer"),
            "failed": True,
        }
    proc["torch"]["python"] = python


def gather_amd(record, runner, limit):
    """Run amd-smi, if it is installed."""
    tool = shutil.which("amd-smi")
    if not tool:
        return
    for name, arguments in (
        ("amd-metric.json", ["metric", "--json"]),
        ("amd-bad-pages.json", ["bad-pages", "--json"]),
    ):
        got = runner([tool] + arguments, limit)
        record["files"][name] = got.pop("text")
        record["exit"][name] = got
        if got["timed_out"]:
            return


def gather(runner=run, python=None, paths=(), limit=CALL_SECONDS):
    """Return the record: {files, exit, proc, live}. Nothing that it starts stays behind."""
    began = time.monotonic()
    record = {"files": {}, "exit": {"_by": "gpu_health 1"}, "live": True}
    proc, disks = {}, {}
    real = []
    for path in list(paths) or ["/", "/tmp", os.path.expanduser("~"), "."]:
        try:
            path = os.path.abspath(path)  # doesn't ask the file system, which may be dead
        except OSError:
            continue  # the current folder was removed
        if path not in real:
            real.append(path)
    jobs = [
        (gather_log, (record, runner, limit)),
        (gather_system, (proc,)),
        (gather_holders, (proc,)),
        (gather_amd, (record, runner, limit)),
    ]
    # a thread for each path, so that a dead mount blocks no other
    jobs += [(gather_disks, ([path], disks, bool(paths))) for path in real]
    jobs.append((gather_disks, (["/dev/shm"], disks)))
    if python:
        jobs.append((gather_torch, (proc, runner, python)))
    threads, broken = [], []

    def guarded(target, arguments):
        try:
            target(*arguments)
        except Exception as error:  # a part that fails is reported, and the others go on
            broken.append(f"{target.__name__} ({short(error, 80)})")

    for job in jobs:
        name = job[0].__name__
        threads.append(threading.Thread(target=guarded, args=job, daemon=True, name=name))
        threads[-1].start()
    gather_nvidia(record, runner, limit)
    until, disks_until = time.monotonic() + (45.0 if python else 12.0), time.monotonic() + 3.0
    for thread in threads:
        end = disks_until if thread.name == "gather_disks" else until
        thread.join(max(0.0, end - time.monotonic()))
    calls = [got for name, got in record["exit"].items() if name not in ("_by", "dmesg.txt")]
    if not any(got.get("timed_out") for got in calls):  # a hung driver may hold its files too
        guarded(gather_nodes, (proc,))  # after nvidia-smi, which makes the nodes
    record["proc"] = dict(
        proc,
        disks=dict(disks),
        unfinished=broken + [thread.name for thread in threads if thread.is_alive()],
    )
    record["seconds"] = round(time.monotonic() - began, 3)
    return record


# ---- network.py
# Measure how fast the box reaches what training fetches and saves: the Hub, PyPI, a durable place.
#
# Off by default. What comes is thrown away as it comes; nothing is written, here or there.

PLACE_SECONDS = 20.0  # for each place
PLACE_BYTES = 200 << 20  # bytes from each place
SENT_BYTES = 64 << 20  # bytes to a durable place
PIECE_BYTES = 1 << 20
PAGE_BYTES = 8 << 20  # bytes of an index page
# Bytes that no compression makes fewer, to a host that throws them away.
SEND = (
    'head -c "$1" /dev/urandom | ssh -o BatchMode=yes -o ConnectTimeout=10 -- "$2" "cat >/dev/null"'
)
# A file of half a gigabyte that anybody may read, and a package of which each version is as large.
HUB_FILE = "/openai-community/gpt2/resolve/main/model.safetensors"
INDEX_PAGE = "/torch/"
SLOW_MB_S, VERY_SLOW_MB_S = 10.0, 1.0  # MB/s, our limits
MODEL_MB = 15000.0  # MB of a model of 7B weights in 16 bit
BEHIND_SSH = re.compile(
    r"(?:ssh://)?([A-Za-z0-9_][\w.-]*(?:@[A-Za-z0-9][\w.-]*)?)(?::(?!//)\S*)?\Z"
)


def network(durable=""):
    """Measure. Return ([{place, address, mb, seconds, mb_s} or with error], findings)."""
    hub = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    index = (os.environ.get("PIP_INDEX_URL") or "https://pypi.org/simple").rstrip("/")
    measured = [
        downloaded("the Hub", lambda: hub + HUB_FILE),
        downloaded("PyPI", lambda: newest_file(index + INDEX_PAGE)),
    ]
    if durable:
        measured.append(uploaded(durable))
    return measured, judged_network(measured)


def open_address(url, seconds):
    """An answer of a server. Raises OSError and ValueError."""
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise ValueError("its address is neither http nor https")
    request = urllib.request.Request(url, headers={"User-Agent": "remote-gpu-trainer"})
    return urllib.request.urlopen(request, timeout=seconds)


def newest_file(page):
    """The address of the last file that an index page lists. Raises OSError and ValueError."""
    with open_address(page, PLACE_SECONDS) as answer:
        text = answer.read(PAGE_BYTES).decode("utf-8", "replace")
    links = re.findall(r"""href=["']([^"'#]+\.whl)(?:#[^"']*)?["']""", text)
    if not links:
        raise ValueError("its page lists no file")
    return urllib.parse.urljoin(page, links[-1])


def downloaded(place, address):
    """What came of a place within the time, and how fast."""
    began = time.monotonic()
    try:
        url = address()
        row = {"place": place, "address": without_password(url)}
        with open_address(url, PLACE_SECONDS) as answer:
            began, count = time.monotonic(), 0  # without the time for the name and the connection
            while count < PLACE_BYTES and time.monotonic() < began + PLACE_SECONDS:
                piece = answer.read(PIECE_BYTES)
                if not piece:
                    break
                count += len(piece)
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        return {"place": place, "error": short(str(why) or type(error).__name__, 120)}
    return with_speed(row, count, time.monotonic() - began)


def uploaded(durable):
    """How fast a durable place behind ssh takes bytes, which nobody keeps."""
    match, row = BEHIND_SSH.match(durable), {"place": "the durable place"}
    if not match:
        return {**row, "error": "only a place behind ssh is measured, as user@host:path"}
    row["address"] = short(durable, 120)
    got = run(["sh", "-c", SEND, "sh", str(SENT_BYTES), match.group(1)], 2 * PLACE_SECONDS)
    if got["timed_out"]:
        return {**row, "error": f"it took no {SENT_BYTES >> 20} MiB in {2 * PLACE_SECONDS:.0f} s"}
    if got["rc"]:
        said = got["text"].strip().splitlines()
        return {**row, "error": short(said[-1] if said else f"ssh ended with {got['rc']}", 120)}
    return with_speed(row, SENT_BYTES, got["seconds"])


def with_speed(row, count, seconds):
    """The bytes and how fast they were."""
    seconds = max(seconds, 1e-3)
    speed = round(count / 1e6 / seconds, 2)
    return {**row, "mb": round(count / 1e6, 1), "seconds": round(seconds, 2), "mb_s": speed}


def without_password(url):
    """An address without the name and password that may stand in it."""
    parts = urllib.parse.urlsplit(url)
    return short(f"{parts.scheme}://{parts.hostname or ''}{parts.path}", 120)


def judged_network(measured):
    """The findings about what was measured."""
    add = Findings()
    for row in measured:
        if row.get("error"):
            add(None, "not_reached", row["place"], row["error"])
        elif row["mb_s"] < SLOW_MB_S:
            level = "degraded" if row["mb_s"] < VERY_SLOW_MB_S else "warn"
            minutes = max(1, round(MODEL_MB / max(row["mb_s"], 0.01) / 60))
            add(None, "slow_network", row["place"], row["mb_s"], minutes, level=level)
    return add.list


# ---- recording.py
# Write what was read as a folder, and read such a folder or one raw output.

HEAD = 4000  # characters in which most outputs show what they are
MOST_LOOKED_AT = 200000  # characters, for what stands only further down


def save(record, folder):
    """Write a record, one file per command. Raises OSError."""
    os.makedirs(folder, exist_ok=True)
    files = dict(record["files"])
    files["proc.json"] = json.dumps(record.get("proc", {}), indent=1, sort_keys=True) + "\n"
    files["exit.json"] = json.dumps(record["exit"], indent=1, sort_keys=True) + "\n"
    for name, text in files.items():
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8", errors="replace", newline="") as handle:
            handle.write(text)


def load(path):
    """A recorded folder, a folder with any part of one, or a single file -> the record.

    Raises OSError, or ValueError with what to do.
    """
    record = {"files": {}, "exit": {}, "live": False}
    folder = not os.path.isfile(path)
    names = sorted(glob.glob(os.path.join(glob.escape(path), "*"))) if folder else [path]
    if not names:
        raise ValueError(
            "{} has no files; pass a folder with some of {}".format(path, ", ".join(FILES))
        )
    known = FILES + EXTRA_FILES + ("amd-metric.json", "amd-bad-pages.json", "table.txt", "q.txt")
    for name in filter(os.path.isfile, names):
        with open(name, "rb") as handle:
            raw = handle.read(LIMIT + 1)
        text, base = raw[:LIMIT].decode("utf-8", "replace"), os.path.basename(name)
        slot = base if base in known else kind_of(text)
        if file_of_limits(base):
            slot, text = "cgroup.txt", f"{file_of_limits(base)}:{text}"
        if slot == "unrecognised" and folder:
            continue
        if slot == "cgroup.txt":
            text = "\n".join(filter(None, [record["files"].pop(slot, ""), text]))
        if slot in record["files"]:
            raise ValueError(
                f"{path}: two files are {slot}; pass a folder with the outputs of one box"
            )
        if len(raw) > LIMIT:
            record.setdefault("cut", []).append(slot)
        record["files"][slot] = text
        if slot not in ("dmesg.txt", base) and parse_log(text)["events"]:
            record["files"].setdefault("dmesg.txt", text)  # somebody pasted two outputs as one
        if slot not in ("cgroup.txt", base) and has_limits(text):
            record["files"].setdefault("cgroup.txt", text)
    read_objects(record)
    return record


def read_objects(record):
    """Move exit.json and proc.json from the files of a record into its `exit` and `proc`."""
    for name, key in (("exit.json", "exit"), ("proc.json", "proc")):
        if name not in record["files"]:
            continue
        try:
            value = json.loads(record["files"].pop(name))
            if not isinstance(value, dict):
                raise ValueError("not an object")
            record[key] = value
        except (ValueError, RecursionError) as error:
            record.setdefault("unreadable", []).append(f"{name}: {short(error, 100)}")
            record[key] = {}


def kind_of(text):
    """Which output a raw text is, by its content, for captures with other file names."""
    kinds = (kind for kind, fits in KINDS_OF_OUTPUT if fits(text))
    return next(kinds, "unrecognised")


def first_cells(text):
    """The cells of the first line that isn't blank; none if there are fewer than three."""
    line = next((line for line in text[:HEAD].splitlines() if line.strip()), "")
    cells = [cell.strip() for cell in line.split(",")]
    return cells if len(cells) > 2 else []


def is_xml(text):
    """`nvidia-smi -q -x`."""
    head = text[:HEAD]
    return "<nvidia_smi_log" in head or (
        head.lstrip().startswith("<?xml") and "<gpu" in text[:100000]
    )


def is_query(text):
    """--query-gpu: two of its columns are known."""
    return sum(cell.split(" [")[0] in CANON for cell in first_cells(text)) >= 2


def is_topology(text):
    """`nvidia-smi topo -m`."""
    head = text[:HEAD]
    return re.search(r"^\s*GPU0\s", head, re.M) and re.search(r"^GPU0\s+.*X", head, re.M)


def is_kernel_log(text):
    """`dmesg`, what journalctl and /dev/kmsg give, or the events of a Kubernetes node."""
    return re.search(
        r"NVRM:|SXid|Xid \(|nvidia-(?:nvswitch|peermem)|\bkernel:|^\d+,\d+,\d+,[^;]*;"
        r"|^\[\s*\+?\d+\.\d+\]|amdgpu|pcieport|EDAC \S|(?:EXT4|BTRFS|XFS)\S* (?:error )?\("
        r"|\bkernel-monitor\b|\"_TRANSPORT\" ?:|\bnvme nvme\d|\bI/O error, dev "
        r"|\[Hardware Error\]:",
        text[:MOST_LOOKED_AT],
        re.M,
    )


# Which output a raw text is, by its content; the first that fits.
KINDS_OF_OUTPUT = (
    ("nvidia-smi-q.xml", is_xml),
    ("q.txt", lambda text: "NVSMI LOG" in text[:HEAD]),
    # | N/A   41C    P0             69W /  700W |       0MiB /  81559MiB |      0%      Default |
    (
        "table.txt",
        lambda text: re.search(r"^[>\s]*\|\s.*\d+MiB\s*/\s*\d+MiB", text[:MOST_LOOKED_AT], re.M),
    ),
    # Filesystem      Size  Used Avail Use% Mounted on
    ("df.txt", lambda text: re.search(r"^\s*Filesystem\s.*\bMounted on\s*$", text[:HEAD], re.M)),
    ("dcgm.txt", lambda text: is_of_dcgm(text[:HEAD])),
    ("edac.txt", lambda text: has_memory_counts(text[:MOST_LOOKED_AT])),
    (
        "retired.csv",
        lambda text: any(cell.startswith("retired_pages.address") for cell in first_cells(text)),
    ),
    ("apps.csv", lambda text: "pid" in first_cells(text)),
    ("nvidia-smi.csv", is_query),
    ("q.txt", lambda text: is_part_of_q(text[:MOST_LOOKED_AT])),
    ("nvlink.txt", lambda text: re.search(r"^\s+Link \d+:", text, re.M)),
    # GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-…)
    ("nvidia-smi-list.txt", lambda text: re.match(r"\s*^GPU \d+: ", text[:HEAD], re.M)),
    ("topo.txt", is_topology),
    (
        "nvidia-smi.csv",
        lambda text: smi_failure(text[:HEAD]) or HANDLE.search(text[:HEAD]),
    ),
    # 3b:00.0 3D controller [0302]: NVIDIA Corporation …
    (
        "lspci.txt",
        lambda text: re.search(
            r"^(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] ", text[:HEAD], re.M
        ),
    ),
    ("version.txt", lambda text: re.search(r"^NVML version\s*:", text[:HEAD], re.M)),
    ("dmesg.txt", is_kernel_log),
    ("cgroup.txt", lambda text: has_limits(text[:HEAD])),
    ("fabricmanager.txt", lambda text: "[tid " in text[:HEAD]),
)


# ---- judge_amd.py
# Judge AMD cards by what amd-smi or rocm-smi says of them.
#
# `box` is a `box.ExaminedBox`, and a place is a PCI address. `add` is a `findings.Findings`:
# add(gpu, name, *values) adds the finding `name`, with None for `gpu` if it is about the whole box.


def judge_amd(record, box, add):
    """Judge AMD cards by sysfs, and by amd-smi if it is installed."""
    cards = amd_cards(box)
    labels = [label for label, _ in cards]
    # The cards of which no output counts the uncorrectable errors.
    uncounted = {label for label, card in cards if not judge_amd_card(label, card, add)}
    for name in ("amd-metric.json", "amd-bad-pages.json"):
        text = record["files"].get(name)
        if text:
            uncounted -= judge_amd_output(name, text, labels, box, add)
    if uncounted and box.recorded:
        add(None, "amd_ecc_untold", len(uncounted), len(cards))


def judge_amd_card(label, card, add):
    """Judge a card's errors and link by sysfs -> whether it counts uncorrectable errors."""
    ras = sorted(as_dict(card.get("ras")).items())
    # ue: 0
    # ce: 3
    counts = [(name, text, re.search(r"ue: (\d{1,9})", str(text))) for name, text in ras]
    for name, text, count in counts:
        if count and int(count.group(1)):
            add(label, "amd_ras", name, text)
    now = number(str(card.get("current_link_width", "")))
    most = number(str(card.get("max_link_width", "")))
    if now and most and now < most:
        add(label, "narrow_amd_link", now, most)
    return any(count for _, _, count in counts)


def judge_amd_output(name, text, labels, box, add):
    """Judge an output of amd-smi -> the cards whose uncorrectable errors it counts, by label."""
    counted = set()
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        add(None, "unreadable_amd_output", name, key=name)
        return counted
    ended = (box.exit.get(name) or {"rc": 0})["rc"]
    for index, card in enumerate(as_list(answer) or as_list(as_dict(answer).get("gpu_data"))):
        label = labels[index] if index < len(labels) else index
        if name == "amd-bad-pages.json":
            judge_amd_pages(label, leaves_of(card), add)
        elif judge_amd_metric(label, leaves_of(card), add) and ended == 0:
            counted.add(label)
    return counted


def judge_amd_pages(label, leaves, add):
    """Judge the output of `amd-smi bad-pages` for one card."""
    for key, value in leaves:
        if key == "status" and str(value).upper() in ("PENDING", "UN_RES", "UNRESERVABLE"):
            add(label, "amd_bad_pages", short(value, 20))


def judge_amd_metric(label, leaves, add):
    """Judge `amd-smi metric` for one card -> whether it counts uncorrectable errors."""
    counts_errors = False
    for key, value in leaves:
        if isinstance(value, int) and "uncorrectable" in key:
            counts_errors = True
            if re.match(r"(total_)?uncorrectable(_count)?$", key) and value > 0:
                add(label, "amd_uncorrectable", key, value)
    return counts_errors


def leaves_of(value, key="", depth=0):
    """Return [(key, leaf)] of a JSON value, ten levels deep."""
    if depth < 10 and isinstance(value, dict):
        return [
            leaf
            for name, item in value.items()
            for leaf in leaves_of(item, key if name == "value" else str(name), depth + 1)
        ]
    if depth < 10 and isinstance(value, list):
        return [leaf for item in value[:1000] for leaf in leaves_of(item, key, depth + 1)]
    return [(key, value)]


# ---- judge_box.py
# Judge all GPUs together: nvidia-smi, differences, NVLink, memory in use.

# Fields whose value doesn't change between two outputs.
STABLE = (
    "name",
    "memory.total",
    "mig.mode.current",
    "mig.mode.pending",
    "ecc.mode.current",
    "ecc.mode.pending",
    "compute_mode",
    "pcie.link.width.max",
    "pcie.link.gen.max",
    "gpu_recovery_action",
    "remapped_rows.pending",
    "remapped_rows.failure",
    "power.default_limit",
)
UUID = re.compile(r"(?:GPU-)?[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")
SLOW_CLOCK = 0.5  # of the clock of the others (our limit)


def judge_tools(box, add):
    """Did nvidia-smi work at all? It may fail, hang, or be missing."""
    cards = nvidia_cards(box)
    amd = any(as_dict(card).get("vendor") == "0x1002" for card in as_list(box.proc.get("pci")))
    judge_failures(box, cards, add)
    judge_late_calls(box, add)
    hung = judge_time_outs(box, add)
    failed = judge_exit(box, cards, amd, bool(box.failures or box.lost or hung), add)
    if failed:
        return
    judge_further_calls(box, add)
    if box.missing:
        add(None, "incomplete_recording", ", ".join(box.missing))
    if not amd and not {"csv", "xml", "q", "table"} & set(box.sources):
        add(None, "no_state")


def judge_failures(box, cards, add):
    """Report why nvidia-smi can't work, and the GPUs that it has no handle for."""
    for kind, line in box.failures:
        # no_driver: there is a card but no driver, so nothing can train here
        level = "fatal" if kind == "no_driver" and cards else None
        key = "mismatch" if kind == "mismatch" else "tool"
        add(None, "smi_" + kind, line, level=level, key=key)
    for place, index, line in box.lost:
        gpu = next((gpu for gpu in box.gpus if place and gpu.bdf == place), None)
        add(gpu.label if gpu else place or index, "no_handle", line)


def judge_late_calls(box, add):
    """The calls for which the series had no time left."""
    if box.late:
        spent = sum(box.exit[name].get("seconds", 0) for name in CALLS if name in box.exit)
        begun = {name: "the rest of " if box.exit[name]["asked"] else "" for name in box.late}
        missed = ", ".join(begun[name] + CALLS[name] for name in box.late)
        add(None, "slow_calls", spent, missed, expected=(SERIES_SECONDS,))


def judge_time_outs(box, add):
    """Report the commands that timed out. Return whether a call of nvidia-smi hung."""
    hung = False
    for name in sorted(set(box.exit) - set(box.late)):
        ended = box.exit[name]
        if ended["timed_out"] and name in CALLS:
            add(None, "hung_call", name, expected=(ended.get("limit_s", CALL_SECONDS),))
            hung = True
        elif ended["timed_out"] and name != "dmesg.txt":
            add(None, "late_command", name, key="late " + name)
    return hung


def judge_further_calls(box, add):
    """Report the exit codes of later calls that differ from the one of --query-gpu."""
    main_rc = (box.exit.get("nvidia-smi.csv") or {"rc": None})["rc"]
    for name in ("nvidia-smi-list.txt", "nvidia-smi-q.xml", "apps.csv"):
        ended = box.exit.get(name)
        has_ended = ended and not ended["timed_out"] and isinstance(ended["rc"], int)
        # 14: a damaged infoROM, which `judge_exit` reports
        if has_ended and ended["rc"] not in (0, 14, main_rc):
            add(None, "failed_part", name, ended["rc"], key="rc " + name)


def judge_exit(box, cards, amd, failed, add):
    """Judge the exit code of --query-gpu. Return whether nvidia-smi is known to have failed."""
    rc = (box.exit.get("nvidia-smi.csv") or {"rc": None})["rc"]
    if rc == 14:
        add(None, "inforom_exit")
    elif rc in RC_FAILURES and not failed:
        add(None, "smi_" + RC_FAILURES[rc], f"nvidia-smi ended with {rc}", key="tool")
        return True
    elif rc == 127:
        if cards:
            add(None, "no_tool_for_card", short(cards[0].get("bdf")))
        elif not amd:
            add(None, "no_card")
        return True
    elif isinstance(rc, int) and rc != 0 and not failed:
        add(None, "failed_call", rc)
    return failed


def judge_identity(box, add):
    """Compare each card with what its name promises, and with the others."""
    there = [gpu for gpu in box.gpus if not add.has("lost", gpu.label)]
    common = usual([gpu.name for gpu in there])
    for gpu in there:
        names = {text for text in gpu.cells.get("name", []) if state(text) == "value"}
        names |= {gpu.listed_name} if gpu.listed_name else set()
        odd = odd_names(gpu, names, there)
        odd += odd_memory(gpu, there, odd)
        odd += odd_capability(gpu)
        if len(names) > 1 and len(odd) == 1:
            add(gpu.label, "different_names", odd[0])
        elif odd:
            add(gpu.label, "wrong_card", "; ".join(odd))
    judge_uuids(there, add)
    firmware = usual([gpu.raw("x.vbios") for gpu in there])
    for gpu in there:
        own = gpu.raw("x.vbios")
        alike = gpu.name == common and (sku_of(gpu.name) or {}).get("p2p") == "nvlink"
        if state(own) == "value" and own.lower() != str(firmware).lower() and alike:
            add(gpu.label, "odd_vbios", short(own, 30), short(firmware, 30))
    judge_driver(box, there, add)
    bare = [gpu for gpu in there if not gpu.vgpu]
    if len(bare) > 1 and all((sku_of(gpu.name) or {}).get("p2p") == "none" for gpu in bare):
        name = bare[0].name
        if "RTX" in name and re.search(r"RTX (?:40|50)\d\d", name):
            add(None, "no_peer_to_peer", len(bare), name)


def judge_uuids(there, add):
    """Report two cards with one UUID. One that its recorder masked tells nothing."""
    first = {}
    for gpu in there:
        for uuid in sorted({gpu.uuid, gpu.listed_uuid} - {None}):
            if UUID.match(uuid) and first.setdefault(uuid, gpu) is not gpu:
                add(gpu.label, "same_uuid", first[uuid].label, gpu.label, uuid)


def odd_names(gpu, reported, there):
    """Say what is odd about a GPU's name. `reported`: its names in the outputs."""
    odd, names = [], [other.name for other in there]
    common = usual(names)
    if len(reported) > 1:
        odd.append("its outputs call it {}".format(" and ".join(sorted(reported))))
    if len(reported) > 1 and all(sku_of(name) for name in reported) and len(there) > 1:
        odd.append(f"among {usual([other.name for other in there if other is not gpu])}")
    alone = gpu.name and common and gpu.name != common and names.count(common) * 2 > len(there)
    if len(reported) == 1 and len(there) > 1 and alone:
        odd.append(f"{gpu.name} among {common}")
    return odd


def odd_memory(gpu, there, odd):
    """Say it if there is less memory than on a card of its name, or than the others have."""
    sku, sizes = sku_of(gpu.name), gpu.numbers("memory.total")
    common = usual([other.number("memory.total") for other in there])
    if not gpu.number("memory.total"):
        return []
    size = int(min(sizes))
    if not gpu.vgpu and sku and min(sizes) < 0.9 * sku["vram_gib"] * 1024:
        return [f"{gpu.name} has {size} MiB, less than 0.9 of {sku['vram_gib']} GiB"]
    if len(there) > 1 and common and min(sizes) < 0.9 * common and not odd:
        return [f"{size} MiB, the others have {int(common)}"]
    return []


def odd_capability(gpu):
    """Say it if the compute capability isn't that of a card of its name."""
    sku, reported = sku_of(gpu.name), gpu.raw("compute_cap")
    if not sku or state(reported) != "value" or not readable("compute_cap", reported):
        return []
    want = sku["compute_cap"]
    if reported == want:
        return []
    return [f"{gpu.name} reports compute capability {reported}, expected {want}"]


def judge_driver(box, there, add):
    """Compare the versions of driver, library and kernel module."""
    texts = [text for gpu in there for text in gpu.cells.get("driver_version", [])]
    texts += [text for gpu in there for text in gpu.cells.get("kmd_version", [])]
    drivers = sorted({text for text in texts if state(text) == "value"})
    match = re.search(r"Module\s+([\d.]+)", str(box.proc.get("nvidia_version") or ""))
    module = box.proc.get("module_version") or (match.group(1) if match else None)
    differs = drivers and module and version(module)[:2] != version(drivers[0])[:2]
    if len(drivers) > 1 or differs:
        add(None, "version_mismatch", " and ".join(drivers), module or "?")


def judge_agreement(box, add):
    """Report two outputs that contradict each other about a GPU without findings.

    One of them is damaged.
    """
    blamed = {finding["gpu"] for finding in add.list}
    for gpu in box.gpus:
        if gpu.label in blamed:
            continue
        for field in STABLE if "x.table" not in gpu.cells else ():
            texts = gpu.cells.get(field, [])
            values = {stable_value(field, text) for text in texts if state(text) == "value"}
            if len(values) > 1:
                add(gpu.label, "different_values", field, " and ".join(sorted(map(str, texts))))
        if gpu.uuid and gpu.listed_uuid and gpu.uuid != gpu.listed_uuid:
            add(gpu.label, "different_uuids", gpu.uuid, gpu.listed_uuid)


def stable_value(field, text):
    """Return a cell in a form that is the same in all outputs."""
    if TYPE.get(field) == "n":
        return number(text)
    return {"0": "No", "1": "Yes"}.get(text, text)


def judge_pace(box, add):
    """Report a GPU whose clock stays low under load while others of its kind run fast."""
    loaded = [gpu for gpu in box.gpus if (gpu.number("utilization.gpu") or 0) >= 90]
    for gpu in loaded:
        others = [other for other in loaded if other is not gpu and other.name == gpu.name]
        clocks = [other.number("clocks.current.sm") for other in others]
        now, usually = gpu.number("clocks.current.sm"), median([clock for clock in clocks if clock])
        explained = [add.has(key, gpu.label) for key in ("lost", "throttle", "clock", "capped")]
        if now and usually and now < SLOW_CLOCK * usually and not any(explained):
            used = gpu.number("utilization.gpu")
            add(gpu.label, "slower_than_others", now, used, usually, expected=(SLOW_CLOCK,))


def median(values):
    """The middle value, the lower of two, or None."""
    return sorted(values)[(len(values) - 1) // 2] if values else None


def has_nvlink(gpu):
    """Whether a card of this name has NVLink without a bridge."""
    return (sku_of(gpu.name) or {}).get("p2p") == "nvlink"


def live_links(gpu):
    """GB/s of each active NVLink."""
    return [speed for speed in (gpu.links or {}).values() if speed is not None]


def judge_nvlink(box, add):
    """Inactive, missing and slow links. A card without its optional bridge is no fault."""
    there = [gpu for gpu in box.gpus if not add.has("lost", gpu.label) and not gpu.mig]
    common = usual([len(gpu.links) for gpu in there if gpu.links])
    # Boards with two or four P100 or V100 wire only some of the 6 links (RWTH Aachen's nodes: 2).
    # Then all GPUs have as many live links, and NVLink connects every pair.
    pairs = [
        box.topo.get((first.index, second.index), "")
        for first in there
        for second in there
        if first is not second
    ]
    as_wired = (
        len({len(live_links(gpu)) for gpu in there}) == 1
        and all(re.search("P100|V100", gpu.name) for gpu in there)
        and bool(pairs)
        and all(cell.startswith("NV") for cell in pairs)
    )
    stopped = box.failures or box.late or add.has("hang", None)
    expected = box.recorded and len(there) > 1 and not stopped
    for gpu in there:
        if gpu.links is not None:
            judge_links(box, gpu, len(there), common, as_wired, add)
        elif expected and has_nvlink(gpu) and not add.has("disagree", gpu.label):
            add(gpu.label, "no_nvlink_output")
    judge_topology(box, there, add)


def judge_links(box, gpu, count, common, as_wired, add):
    """The links of one GPU. `common`: how many the others list; `count`: GPUs in the box."""
    known = [row[1:] for row in NVLINKS if re.search(row[0], gpu.name)]
    want, speed = known[0] if known else (None, None)
    sxm = has_nvlink(gpu)
    level = "fatal" if sxm and count > 1 else "degraded"
    dead, live = sorted(link for link, at in gpu.links.items() if at is None), live_links(gpu)
    inactive = (", ".join(map(str, dead[:6])), len(dead), len(gpu.links))
    most = max(common or 0, want if sxm and want else 0)
    need = (common or 0) if "GH200" in gpu.name else most
    damaged = any(text.startswith("nvlink") for text in box.problems)
    if sxm and count > 1 and not gpu.links:
        add(gpu.label, "no_nvlink", expected=(want or common or "its",))
    elif dead and not live and not sxm:
        return  # no bridge
    elif dead and not live and count == 1:
        add(gpu.label, "single_gpu_nvlinks", len(dead))
    elif dead and live and as_wired:
        add(gpu.label, "unwired_nvlinks", *inactive)
    elif dead:
        add(gpu.label, "inactive_nvlinks", *inactive, level=level)
    elif common and not damaged and len(gpu.links) < need:
        add(gpu.label, "missing_nvlinks", len(gpu.links), level=level, expected=(most,))
    elif live and (min(live) < 0.95 * max(live) or (speed and min(live) < 0.9 * speed)):
        add(gpu.label, "slow_nvlink", min(live), expected=(speed or max(live),))


def judge_topology(box, there, add):
    """Report pairs that `topo -m` shows with another connection than most."""
    cells = [cell for (first, second), cell in box.topo.items() if first != second]
    common, several = usual(cells), len(there) > 1 and all(has_nvlink(gpu) for gpu in there)
    linked = any(cell.startswith("NV") for cell in cells)
    if cells and not linked and several and not any(add.has("nvlink", g.label) for g in there):
        add(None, "no_nvlink_pair", len(there), common)
    if not common or not common.startswith("NV") or cells.count(common) * 2 <= len(cells):
        return
    by_gpu = {}
    for (first, second), cell in sorted(box.topo.items()):
        if first != second and cell != common:
            for end in (first, second):
                by_gpu.setdefault(end, []).append((first, second, cell))
    while by_gpu:  # the GPU with the most odd cells explains them
        gpu = max(sorted(by_gpu), key=lambda index: len(by_gpu[index]))
        first, second, cell = by_gpu[gpu][0]
        if not any(add.has("nvlink", end) or add.has("lost", end) for end in (first, second)):
            add(gpu, "odd_nvlink_pair", first, second, cell, common, expected=(common,))
        gone = set(by_gpu.pop(gpu))
        left = {end: [item for item in items if item not in gone] for end, items in by_gpu.items()}
        by_gpu = {end: items for end, items in left.items() if items}


def judge_use(box, add):
    """Memory in use, and by whom."""
    holders = [holder for holder in map(as_dict, as_list(box.proc.get("holders")))]
    holders = [holder for holder in holders if isinstance(holder.get("pid"), int)]
    stuck = [holder for holder in holders if holder.get("state") in ("D", "Z")]
    for holder in stuck:
        pid, nodes = holder.get("pid"), ", ".join(map(str, as_list(holder.get("devices"))))
        name = short(holder.get("name"), 40)
        add(None, "stuck_holder", pid, name, nodes, holder["state"], key=f"holder {pid}")
    for gpu in box.gpus:
        used = gpu.number("memory.used")
        if not add.has("lost", gpu.label) and used is not None and not gpu.mig and not gpu.vgpu:
            judge_memory_in_use(box, gpu, used, holders, bool(stuck), add)


def judge_memory_in_use(box, gpu, used, holders, stuck, add):
    """The memory in use on one GPU, in MiB."""
    percent, screen = gpu.number("utilization.gpu"), gpu.says("display_active", "Enabled")
    if not box.processes_known:
        if used >= 1024 and percent == 0 and not screen:
            add(gpu.label, "memory_of_nobody_known", used)
        return
    named = [
        "{} (pid {})".format(short(process["name"], 60), process["pid"])
        for process in gpu.processes
    ]
    mine = [holder for holder in holders if gpu.node in as_list(holder.get("devices"))]
    named += ["{} (pid {})".format(short(holder.get("name"), 40), holder["pid"]) for holder in mine]
    who, other = ", ".join(named[:3]), any(not process.get("screen") for process in gpu.processes)
    if named and used >= 1024:
        add(gpu.label, "memory_of_another_job", used, who)
    elif 15 < used < 1024 and not screen and other:
        add(gpu.label, "memory_of_another_program", used, who)
    elif not named and used >= 1024 and not stuck:
        busy = f", {int(percent)} % utilisation" if percent else ""
        level = "warn" if percent or screen else "degraded"
        add(gpu.label, "memory_without_process", used, busy, level=level)
    elif not named and used > 15 and not screen:
        add(gpu.label, "little_memory_without_process", used)


# ---- judge_gpu.py
# Judge one GPU by itself: memory, link, speed, modes, and whether it can be read.
#
# Values in, findings out: no file, no clock, no command.

REPLAYS = (0.15, 0.3, 0.48, 0.96, 1.92, 3.84)  # per minute and lane, for generations 1 to 6: DCGM
FAR_BELOW = 0.5  # of the default clock or power limit: what providers set to save power is above
HOT_WHILE_IDLE = 80  # C; idle cards have at most 43 in the real captures
LOW_HEAT_LIMIT = 70  # C: of the highest working temperatures in the captures the least is 85
NEAR_HEAT_LIMIT = 2  # C below it, where a card begins to slow itself down


def judge_lost(box, gpu, add):
    """Return whether a GPU is gone. It then gets no other finding."""
    lost = [
        (field, text)
        for field, texts in sorted(gpu.cells.items())
        for text in texts
        if state(text) == "lost"
    ]
    if lost:
        need = any("reset" in text for _, text in lost)
        code = "16, reset required" if need else "15, GPU is lost"
        action = RESET if need else "reboot the box; if it comes back, " + BACK
        add(gpu.label, "lost_cell", *lost[0], expected=(code,), do=(action,))
        return True
    main = "csv" if "csv" in box.sources else "xml" if "xml" in box.sources else None
    if main and main not in gpu.seen:
        name, seen = gpu.listed_name or gpu.name or gpu.bdf, ", ".join(sorted(gpu.seen))
        add(gpu.label, "unanswered_query", gpu.label, name, seen)
        return True
    calls = {"xml": "-q -x", "list": "-L", "nvlink": "nvlink -s"}
    for other in box.sources:
        if other in calls and other not in gpu.seen and main:
            add(gpu.label, "unlisted_gpu", gpu.label, calls[other])
    counts = gpu.numbers("count")
    if counts and counts[0] > len(box.gpus) + len(box.foreign) and gpu is box.gpus[0]:
        add(None, "uncounted_gpu", counts[0], len(box.gpus))
    return False


def judge_memory(gpu, add):
    """The recovery action, remapped rows, retired pages, repairs, ECC counters."""
    label = gpu.label
    for text in gpu.cells.get("gpu_recovery_action", []):
        if state(text) == "value" and recovery_level(text) != "ok":
            level, action = recovery_of(text)
            add(label, "recovery_action", text, level=level, do=(action,))
    if gpu.is_yes("x.reset_required"):
        add(label, "reset_required")
    elif gpu.is_yes("x.drain_and_reset"):
        add(label, "drain_and_reset")
    judge_rows(gpu, label, add)
    if gpu.is_yes("x.unrepairable"):
        add(label, "unrepairable_memory")
    for field in ("x.channel_repair", "x.tpc_repair"):
        if gpu.is_yes(field):
            add(label, "repair_pending", field[2:].split("_")[0])
    judge_ecc(gpu, label, add)
    checksum = gpu.raw("inforom.checksum_validation")
    if state(checksum) == "value" and checksum.strip().lower() != "valid":
        add(label, "inforom_checksum", checksum)


def judge_rows(gpu, label, add):
    """Remapped rows (Ampere and later) and retired pages (before)."""
    if gpu.is_yes("remapped_rows.failure"):
        add(label, "remap_failed", gpu.raw("remapped_rows.failure"))
    elif gpu.is_yes("remapped_rows.pending"):
        add(label, "remap_pending", gpu.raw("remapped_rows.pending"))
    elif gpu.most("remapped_rows.uncorrectable") >= 512:
        add(label, "remap_limit", gpu.most("remapped_rows.uncorrectable"))
    elif gpu.most("remapped_rows.histogram.none") > 0:
        add(label, "no_spare_rows", gpu.most("remapped_rows.histogram.none"))
    elif gpu.most("remapped_rows.uncorrectable") > 0:
        add(label, "rows_remapped", gpu.most("remapped_rows.uncorrectable"))
    elif gpu.most("remapped_rows.histogram.low") > 0:
        add(label, "few_spare_rows", gpu.most("remapped_rows.histogram.low"))
    double = gpu.most("retired_pages.double_bit.count")
    pages = gpu.most("retired_pages.single_bit_ecc.count") + double
    if pages >= 63:
        add(label, "pages_limit", pages)
    elif gpu.is_yes("retired_pages.pending"):
        add(label, "pages_pending")
    elif double > 15 or pages > 10:
        add(label, "many_pages", pages, double)


def judge_ecc(gpu, label, add):
    """ECC counters: the worst of them."""
    fresh = gpu.most_of("ecc.errors.uncorrected.volatile.")
    corrected = gpu.most_of("ecc.errors.corrected.")
    in_sram = gpu.most_of("ecc.errors.corrected.", ".sram")
    ever = gpu.most_of("ecc.errors.uncorrected.aggregate.")
    if gpu.is_yes("ecc.errors.uncorrected.aggregate.sram.thresholdExceeded"):
        add(label, "sram_threshold")
    elif fresh > 0:
        add(label, "uncorrectable_errors", fresh)
    elif corrected > 20000000 or in_sram > 10000:
        add(label, "many_corrected_errors", corrected, in_sram)
    elif ever > 0:
        add(label, "old_uncorrectable_errors", ever)


def judge_link(box, gpu, add):
    """Judge the PCIe link (width, generation, replays) by nvidia-smi and by sysfs."""
    place = next((card for card in nvidia_cards(box) if bdf(str(card.get("bdf"))) == gpu.bdf), {})
    now, most = gpu.numbers("pcie.link.width.current"), gpu.numbers("pcie.link.width.max")
    for name, into in (("current_link_width", now), ("max_link_width", most)):
        value = number(str(place.get(name, "")))
        if value and value < 64:
            into.append(value)
    if now and most and 0 < min(now) < max(most):
        inside = "pass-through" in (gpu.raw("x.virtualization") or "").lower()
        unseen = " (a virtual machine can't see the slot)" if inside else ""
        if inside and as_rented(box, gpu, int(min(now))):
            add(gpu.label, "narrow_as_rented", min(now), max(most), gpu.name)
        else:
            add(gpu.label, "narrow_link", min(now), max(most), do=(unseen, min(now)))
    now, most = gpu.number("pcie.link.gen.gpucurrent"), gpu.number("pcie.link.gen.max")
    # An idle card lowers the generation, so it matters only under load.
    loaded = gpu.busy and not gpu.says("pstate", "P8", "P12")
    if now and most and now < most and loaded:
        add(gpu.label, "slow_link", now, most, gpu.number("utilization.gpu"))
    elif now and most and 2 * now <= most and gpu.says("pstate", "P0"):
        clock, top = gpu.number("clocks.current.sm"), gpu.number("clocks.max.sm")
        if clock and top and clock >= 0.9 * top:
            add(gpu.label, "held_link", now, most, clock, top)
    replays, uptime = gpu.most("x.replays"), box.proc.get("uptime_s")
    if replays and most and isinstance(uptime, (int, float)) and uptime > 0:
        lanes = max(gpu.numbers("pcie.link.width.max") or [16])
        rate = REPLAYS[min(int(most), len(REPLAYS)) - 1]
        bound = rate * lanes * max(1.0, uptime / 60.0)
        if replays > bound:  # a mean over the whole uptime: some minutes were worse
            add(gpu.label, "link_replays", replays, expected=(bound, uptime / 60, rate))
    sku = None if gpu.vgpu else sku_of(gpu.name)
    if sku and most and most < sku["pcie_gen"]:
        add(gpu.label, "capped_link", most, sku["pcie_gen"])


def as_rented(box, gpu, lanes):
    """Whether providers are known to wire such a card with so few lanes.

    All cards of its name on this box must have as many.
    """
    known = any(re.search(name, gpu.name) and lanes == few for name, few in FEWER_LANES)
    alike = [
        other.number("pcie.link.width.current") for other in box.gpus if other.name == gpu.name
    ]
    return known and set(alike) == {lanes}


def judge_speed(gpu, add):
    """Throttling, heat, clocks and power.

    The software power cap is normal under load and never a finding.
    """
    mask = int(gpu.most("clocks_event_reasons.active"))
    active = [
        name
        for name, bit in REASONS
        if gpu.says("clocks_event_reasons." + name, "Active") or mask & bit
    ]
    used = gpu.number("utilization.gpu")
    if [name for name in active if name.startswith("hw_")]:
        add(gpu.label, "hardware_throttle", ", ".join(active))
    elif active:
        hot = gpu.most("temperature.gpu") >= HOT_WHILE_IDLE
        level = "degraded" if gpu.busy or hot or used is None else "warn"
        percent = "?" if used is None else int(used)
        add(gpu.label, "thermal_throttle", active[0], percent, level=level)
    else:
        for name in ("hw_thermal_slowdown", "hw_power_brake_slowdown"):
            spent = gpu.most("clocks_event_reasons_counters." + name)
            if spent > 0:
                add(gpu.label, "was_throttled", name, spent / 1e6)
        spent = gpu.most("clocks_event_reasons_counters.sw_thermal_slowdown")
        if spent > 60e6:
            add(gpu.label, "was_slowed_by_heat", spent / 1e6)
    judge_heat(gpu, add)
    app_clock_active = (
        gpu.says("clocks_event_reasons.applications_clocks_setting", "Active") or mask & 0x2
    )
    judge_clocks(gpu, app_clock_active, add)


def judge_heat(gpu, add):
    """Temperatures of the GPU and its memory."""
    heat, margin = gpu.most("temperature.gpu"), gpu.number("temperature.gpu.tlimit")
    slow, top = gpu.number("x.slow"), gpu.number("x.gpu_max")
    slow = slow if slow and slow > 40 else 90  # 89 to 95 in the captures that show it
    if top and top > 40:  # the highest working temperature, 85 to 93 in the captures; gpud
        slow = int(min(slow, top + 1))
    if top and 40 < top < LOW_HEAT_LIMIT:
        level = "degraded" if heat >= top - NEAR_HEAT_LIMIT else "warn"
        add(gpu.label, "low_heat_limit", int(top), int(heat), level=level)
    elif (margin is not None and margin <= 0) or heat >= slow:
        left = "" if margin is None else f", {int(margin)} C to its limit"
        add(gpu.label, "hot_gpu", heat, left, expected=(slow,))
    limit = gpu.number("x.memory_max")
    if limit and limit > 40 and gpu.most("temperature.memory") >= limit:
        add(gpu.label, "hot_memory", gpu.most("temperature.memory"), expected=(limit,))


def judge_clocks(gpu, app_clock_active, add):
    """Clocks and power limits that somebody set."""
    clock, default = gpu.number("x.app_clock"), gpu.number("x.app_default")
    now, top = gpu.number("clocks.current.sm"), gpu.number("clocks.max.sm")
    if (
        app_clock_active
        and now
        and top
        and gpu.busy
        and now < min(0.5 * top, 0.95 * (default or top))
    ):
        add(gpu.label, "clock_held", now, top, gpu.number("utilization.gpu"))
    elif clock and default and clock < default:
        level = far_below(clock, default)
        add(gpu.label, "low_application_clock", clock, default, level=level)
    draw, whole = gpu.raw("power.draw"), not gpu.vgpu and not gpu.mig
    if state(draw) == "na" and HBM.search(gpu.name) and whole:
        add(gpu.label, "no_power_reading", draw)
    cap, normal = gpu.number("power.limit"), gpu.number("power.default_limit")
    enforced = gpu.number("enforced.power.limit")
    if cap and enforced and enforced < 0.9 * cap:
        add(gpu.label, "enforced_power_limit", enforced, cap)
    elif cap and normal and cap < 0.9 * normal:
        add(gpu.label, "low_power_limit", cap, normal, level=far_below(cap, normal))


def far_below(value, normal):
    """Return the level of a clock or power limit that somebody set below the default."""
    return "degraded" if value < FAR_BELOW * normal else "warn"


def no_persistence(gpu):
    """Whether the driver unloads when the last program ends.

    Windows and virtual GPUs have no such mode.
    """
    return (
        gpu.says("persistence_mode", "Disabled")
        and not gpu.vgpu
        and state(gpu.raw("driver_model.current")) != "value"
    )


def judge_modes(box, gpu, add):
    """MIG, ECC, compute and persistence mode, compared with the other GPUs."""
    judge_mig_mode(box, gpu, add)
    judge_ecc_mode(box, gpu, add)
    mode = gpu.raw("compute_mode")
    if mode == "Prohibited":
        add(gpu.label, "compute_prohibited")
    elif mode in ("Exclusive_Process", "E. Process"):
        add(gpu.label, "compute_exclusive", mode)
    if no_persistence(gpu) and HBM.search(gpu.name):
        add(gpu.label, "no_persistence_mode")
    license = gpu.raw("x.license")
    if gpu.vgpu and state(license) == "value" and license.startswith("Unlicensed"):
        level = "fatal" if "(Restricted)" in license else "degraded"
        add(gpu.label, "unlicensed_vgpu", license, level=level)
    judge_fabric(gpu, add)


def is_pending(current, pending):
    """Whether a mode changes with the next reset."""
    return state(current) == state(pending) == "value" and current != pending


def judge_mig_mode(box, gpu, add):
    """Judge MIG: a change that waits for a reset, no instance, or not the mode of most GPUs.

    If half of the GPUs have it on, these get the finding.
    """
    current, pending = gpu.raw("mig.mode.current"), gpu.raw("mig.mode.pending")
    if is_pending(current, pending):
        add(gpu.label, "mig_pending", current, pending)
    elif gpu.says("mig.mode.current", "Enabled") and "list" in gpu.seen and not gpu.migs:
        add(gpu.label, "no_mig_instance")
    elif current in ("Enabled", "Disabled"):
        modes = [other.raw("mig.mode.current") for other in box.gpus]
        alike = modes.count(current) * 2
        if alike < len(modes) or (alike == len(modes) and current == "Enabled"):
            add(gpu.label, "odd_mig_mode", current)


def judge_ecc_mode(box, gpu, add):
    """Judge ECC: a change that waits for a reset, off on a data-centre card, or not as most."""
    current, pending = gpu.raw("ecc.mode.current"), gpu.raw("ecc.mode.pending")
    if is_pending(current, pending):
        add(gpu.label, "ecc_pending", current, pending)
    elif current == "Disabled" and HBM.search(gpu.name) and not gpu.vgpu:
        add(gpu.label, "ecc_disabled")
    elif state(current) == "value":
        modes = [other.raw("ecc.mode.current") for other in box.gpus]
        if modes.count(current) * 2 < len(modes):
            add(gpu.label, "odd_ecc_mode", current)


def judge_fabric(gpu, add):
    """The NVSwitch fabric as the GPU sees it."""
    names = ("fabric.state", "fabric.status", "fabric.health.summary")
    ready, status, health = (gpu.raw(name) or "N/A" for name in names)
    failed = state(status) == "value" and "Success" not in status
    parts = ("bandwidth", "route", "recovery", "access")
    if state(ready) == "value" and ("Completed" not in ready or failed):
        add(gpu.label, "fabric_not_ready", ready, status)
    elif state(health) == "value" and health != "Healthy":
        level = "fatal" if health == "Unhealthy" else "degraded"
        add(gpu.label, "fabric_unhealthy", health, level=level)
    elif gpu.says("x.fabric_bandwidth", "Degraded") or any(
        gpu.says("x.fabric_" + part, "True") for part in parts[1:]
    ):
        degraded = [part for part in parts if gpu.says("x.fabric_" + part, "Degraded", "True")]
        texts = ["{} {}".format(part, gpu.raw("x.fabric_" + part)) for part in degraded]
        add(gpu.label, "fabric_degraded", ", ".join(texts))


def judge_readable(box, gpu, add):
    """Cells that failed, can't be read, may not be read, or are missing."""
    judge_sensors(gpu, add)
    unread = unreadable_fields(gpu)
    if unread:
        cells = [(field, (gpu.cells.get(field) or ["?"])[0]) for field in sorted(unread)[:4]]
        texts = [f"{field} ({short(text, 30)})" for field, text in cells]
        add(gpu.label, "unreadable_cell", ", ".join(texts))
    denied = fields_that_are(gpu, "denied")
    if denied:
        add(gpu.label, "denied_cell", ", ".join(denied[:4]))
    lacks = missing_fields(box, gpu)
    if lacks and not box.late:
        more = f" and {len(lacks) - 5} more" if len(lacks) > 5 else ""
        add(gpu.label, "missing_cell", ", ".join(lacks[:5]), more)


def fields_that_are(gpu, condition):
    """The fields that are in this condition in some output. `condition`: a word of `state`."""
    known = [field for field in gpu.cells if field in TYPE]
    return sorted(f for f in known if any(state(text) == condition for text in gpu.cells[f]))


def judge_sensors(gpu, add):
    """Cells that say Unknown Error or ERR!."""
    failed = fields_that_are(gpu, "error")
    if failed:
        said = [text for field in failed for text in gpu.cells[field] if state(text) == "error"]
        add(gpu.label, "failed_sensor", ", ".join(failed[:4]), said[0])


def unreadable_fields(gpu):
    """The fields that have a wrong form, or an impossible value."""
    unread = set()
    for field, texts in gpu.cells.items():
        for text in texts:
            wrong = state(text) == "value" and field in TYPE and not readable(field, text)
            if wrong or state(text) == "bad":
                unread.add(field)
    nominal = (sku_of(gpu.name) or {}).get("vram_gib", 0) * 1024
    total, used = gpu.number("memory.total"), gpu.number("memory.used") or 0
    if total == 0 or 0.9 * nominal <= (total or 0) < used:
        unread.add("memory.total")
    if gpu.numbers("temperature.gpu") and not -40 < gpu.most("temperature.gpu") < 150:
        unread.add("temperature.gpu")
    return unread


def is_na(gpu, field):
    """Whether outputs have the field, but none a value for it."""
    return state(gpu.raw(field)) == "na"


def missing_fields(box, gpu):
    """Return the fields that every driver reports, but this one didn't."""
    need = REQUIRED + (REQUIRED_590 if version(box.driver)[:1] >= (590,) else ())
    lacks = [
        field
        for field in need
        if not any(state(text) != "missing" for text in gpu.cells.get(field, []))
    ]
    if lacks == ["clocks_event_reasons.hw_slowdown"] and gpu.cells.get(
        "clocks_event_reasons.active"
    ):
        lacks = []
    errors = "ecc.errors.uncorrected.volatile.total"
    on = gpu.says("ecc.mode.current", "Enabled") and not gpu.vgpu
    if state(gpu.raw(errors)) == "na" and on:
        lacks.append(errors)
    full = not gpu.mig and not gpu.vgpu
    if full and is_na(gpu, "memory.total") and not NO_OWN_MEMORY.search(gpu.name):
        lacks.append("memory.total")
    rows = ("remapped_rows.failure", "remapped_rows.pending")
    if full and HBM.search(gpu.name) and not re.search("P100|V100", gpu.name):
        lacks += [field for field in rows if is_na(gpu, field)]
    vital = ("memory.total", "temperature.gpu", "utilization.gpu")
    dumb = all(state(gpu.raw(field)) == "na" for field in vital)
    if not gpu.name or (full and dumb):
        lacks.append("name, memory, temperature or utilisation")
    return lacks


# ---- judge_log.py
# Judge the kernel log: which of its lines are about this job's devices, and how bad they are.
#
# `box` is a `box.ExaminedBox`, and a place is a PCI address. `add` is a `findings.Findings`:
# add(gpu, name, *values) adds the finding `name`, with None for `gpu` if it is about the whole box.

SUSPECT = "several programs failed in one unit: run them on another card; if they pass, " + BACK
MANY = "several programs were stopped on this card: run one on another card; if it passes, " + BACK
CLEANED = "find out what ended these programs: their logs, or the line before the first of these"
ANOTHERS = "nothing: the device belongs to another job or container"
PORT = re.compile(r"\bpcieport ([0-9a-f:.]+): ")
HOT_PROCESSOR = re.compile(r"\bCPU(\d+): Package temperature ")


class Devices:
    """The devices of a box by their place, because lines of the kernel log name the place."""

    def __init__(self, box):
        """`nvidia`: places of NVIDIA GPUs. `labels`: place -> label of the GPU in findings.

        `own`: the places of the devices that belong to this job.
        """
        self.nvidia = {gpu.bdf for gpu in box.gpus if gpu.bdf}
        self.labels = {bdf(str(card.get("bdf"))): label for label, card in amd_cards(box)}
        self.labels.update({gpu.bdf: gpu.label for gpu in box.gpus if gpu.bdf})
        opened = [card for card in box.missing_cards if card.get("node") == "open"]
        self.own = {bdf(str(card.get("bdf"))) for card in opened} | set(self.labels)


def judge_log(box, add):
    """Judge Xids, SXids and other bad lines since the last boot, driver load or GPU reset."""
    if box.log is None:
        return
    judge_reach_of_log(box, add)
    devices = Devices(box)
    events = with_repetition([event for event in box.log["events"] if not event["old"]])
    events = at_the_card(box, [event for event in events if event["level"] != "ok"])
    has_gsp_xid = any(event["code"] in (119, 120) for event in events)
    for (place, kind, code), group in grouped(levelled(events)).items():
        if kind == "sxid":
            add_sxid(code, place, group, add)
        elif kind == "iommu" and place not in devices.labels:
            continue  # a network card, a controller
        elif kind != "gsp" or not has_gsp_xid:  # the Xid says the same, and names the GPU
            judge_group(box, devices, place, kind, code, group, add)


def at_the_card(box, events):
    """Give the events of a PCIe port the place of the card behind it -> [event].

    The port above a card reports the card's errors too. sysfs says which card is behind it, or the
    driver's own line in the log names the card. Of a port about which nothing is known the place is
    dropped: it is no card's.
    """
    behind = {}
    for card in map(as_dict, as_list(box.proc.get("pci"))):
        for port in as_list(card.get("behind")):
            behind.setdefault(bdf(str(port)), set()).add(bdf(str(card.get("bdf"))))
    named = {event["bdf"] for event in events if event["kind"] == "aer card"}
    cards = {gpu.bdf for gpu in box.gpus} | {
        bdf(str(card.get("bdf"))) for card in nvidia_cards(box)
    }
    out = []
    for event in events:
        place = event["bdf"]
        if event["kind"] in ("aer", "aer card"):
            below = behind.get(place, set()) or (named if place not in cards else set())
            port = PORT.search(event["line"])
            if place not in named and len(below) == 1:
                place = min(below)
            elif port and bdf(port.group(1)) == place and place not in cards:
                place = None
            event = dict(event, kind="aer", bdf=place)
        out.append(event)
    return out


def levelled(events):
    """Give each event its level -> [(level, event)].

    Xid 154 is the driver's last word on a GPU. Its level replaces that of all Xids before it that
    are worse than a warning.
    """
    last_words = {}  # place -> (position, level) of its last Xid 154
    for position, event in enumerate(events):
        if event["kind"] == "xid" and event["code"] == 154:
            last_words[event["bdf"]] = (position, event["level"])
    pairs = []
    for position, event in enumerate(events):
        level, last = event["level"], last_words.get(event["bdf"])
        if event["kind"] == "xid" and last and position <= last[0] and RANK[level] < RANK["warn"]:
            level = last[1]
        pairs.append((level, event))
    return pairs


def grouped(pairs):
    """Group [(level, event)] by what happened where -> {(place, kind, code): [(level, event)]}.

    The groups and their events keep the order of the log.
    """
    groups = {}
    for level, event in pairs:
        groups.setdefault((event["bdf"], event["kind"], event["code"]), []).append((level, event))
    return groups


def judge_group(box, devices, place, kind, code, group, add):
    """Add one finding for the events of one kind at one place. `group`: [(level, event)]."""
    worst = worst_of(group)
    evidence, owner = line_of(group, worst), owner_of(box, devices, place)
    unit = same_unit([event["line"] for _, event in group]) if kind == "xid" and code == 13 else ""
    if unit:
        worst, evidence = "degraded", f"{evidence} (only in {unit})"
    if owner == "another job":
        worst = "warn"
    elif owner == "perhaps this job":
        worst = worst if worst == "warn" else "unknown"
    elif kind in ("probe", "probe failed"):
        worst = level_of_probe(box, group[-1][1]["line"])
    elif kind == "processor heat":
        worst = level_of_heat([event["line"] for _, event in group])
    label, elsewhere = devices.labels.get(place, place), owner == "another job"
    if kind != "xid":
        add_line(box, kind, place, label, worst, evidence, elsewhere, add)
    # Of a GPU that is off the bus (Xid 79), the finding "lost" says the same.
    elif code != 79 or place not in devices.nvidia or not add.has("lost", label):
        advice = ANOTHERS if elsewhere else SUSPECT if unit else words_of_xid(code, worst, group)
        add_xid(code, place, label, worst, evidence, advice, add)


def words_of_xid(code, level, group):
    """Return what to do about the events of one Xid at one place. `group`: [(level, event)]."""
    lines = [event["line"] for _, event in group]
    cause = previous_xid(lines[-1]) if code == 45 and RANK[level] < RANK["warn"] else None
    if cause is not None:
        return xid_words(cause, level)
    several = len(processes_of(lines)) >= PROGRAMS
    if code in (43, 45) and several:
        return MANY if code == 43 else CLEANED
    return xid_words(code, level, lines[-1])


def owner_of(box, devices, place):
    """Say who uses a device: "this job", "another job" or "perhaps this job".

    A container, or a job on part of a node, sees the log of the whole host. A card that the
    container doesn't list is another job's. But if the container has a device node without a GPU,
    the card may be one that this job lost.
    """
    if place and place in box.foreign:
        return "another job"
    if place and box.container and box.gpus and place not in devices.own:
        return "perhaps this job" if box.spare_nodes else "another job"
    return "this job"


def worst_of(pairs):
    """Return the worst level in [(level, event)]."""
    return min((level for level, _ in pairs), key=RANK.__getitem__)


def judge_reach_of_log(box, add):
    """Judge whether the kernel log can be read, and whether it goes back to the boot."""
    log, got = box.log, box.exit.get("dmesg.txt") or {"rc": 0, "timed_out": False}
    wsl = as_dict(box.proc.get("platform")).get("wsl")
    failed = (isinstance(got["rc"], int) and got["rc"] != 0) or got["timed_out"]
    if failed or wsl or not log["looks"]:
        why = "the kernel log can't be read (dmesg_restrict, or a container without it)"
        why = "WSL's kernel log holds no Xids" if wsl else why
        add(None, "no_kernel_log", why, level="warn" if box.log_excused else "unknown")
    elif box.recorded and log["odd"]:
        add(None, "odd_kernel_log", log["odd"], log["lines"])
    elif box.recorded and not log["boot"] and (log["first"] is None or log["first"] > 300):
        # The driver itself says that no GPU needs a reset, so the missing lines matter less.
        is_fit = box.gpus and all(gpu.raw("gpu_recovery_action") == "None" for gpu in box.gpus)
        first = f"{log['first']} s" if log["first"] else "some time"
        level = "warn" if is_fit or box.log_excused else "unknown"
        add(None, "late_kernel_log", first, level=level)


def line_of(pairs, level):
    """Return the last line of this level in [(level, event)], with what all of them amount to."""
    line = next(event["line"] for other, event in reversed(pairs) if other == level)
    return times(line, pairs)


def times(line, pairs):
    """Return a line cut to fit, with number, times and processes if there are several."""
    several = storm([event["line"] for _, event in pairs])
    return short(line, 250 - len(several)) + several


def add_xid(code, place, label, level, evidence, advice, add):
    """Add a finding for the events of one Xid on one GPU, with what to do and NVIDIA's own word."""
    unknown = ("unknown", "", "not in the table of Xids")
    _, nvidia_action, meaning = XID.get(code, unknown)
    advice = f"{advice} (NVIDIA's action: {nvidia_action})" if nvidia_action else UNKNOWN_XID
    if level == "fatal" and BACK not in advice:
        advice += "; if it comes back, " + BACK
    key, entry = f"xid {code} {place}", XID_ENTRY.get(code, "")
    expected = (code, meaning)
    add(label, "xid", evidence, level=level, expected=expected, do=(advice,), entry=entry, key=key)


def add_sxid(code, place, pairs, add):
    """Add a finding for the events of one SXid on one NVSwitch.

    If a line says itself whether the SXid is fatal, only such lines decide the level.
    """
    worded = [(level, event) for level, event in pairs if event["word"]]
    level = worst_of(worded or pairs)
    evidence = times(worded[0][1]["line"], pairs) if worded else line_of(pairs, level)
    by_table = {
        "always": "fatal by gpud's table",
        "maybe": "fatal if the line says so, by gpud's table",
        "stalls": "not fatal by gpud's table, but NVLink traffic stops and programs hang",
        "never": "not fatal by gpud's table",
    }.get(SXID.get(code, ""), "not in gpud's table")
    action = {
        "fatal": "reboot the box; every GPU on the switch is affected; if it comes back, " + BACK,
        "degraded": "finish your job, then reboot the box",
    }.get(level, "watch it")
    key = f"sxid {code} {place}"
    add(None, "sxid", evidence, level=level, expected=(code, by_table), do=(action,), key=key)


def add_line(box, kind, place, label, level, evidence, elsewhere, add):
    """Add a finding for the events of a kind that is no Xid."""
    of_host = kind in HOST_KINDS
    shared = of_host and kind not in MACHINE_KINDS
    if shared and box.container and RANK[level] < RANK["warn"]:
        level = "warn"  # the disk or mount may be another container's
    add(
        label,
        "kernel_log_line",
        evidence,
        level=level,
        expected=("" if of_host else " or load of the driver",),
        do=(ANOTHERS if elsewhere and not of_host else LOG_ACTION[kind],),
        entry="" if of_host else kind,
        key="mismatch" if kind == "mismatch" else f"{kind} {place}",
    )


def level_of_probe(box, line):
    """Return the level of a line that counts the cards that the driver didn't get."""
    match = re.search(r"for (\d+) device", line)
    passed_through = [
        card for card in nvidia_cards(box) if str(card.get("driver")).startswith("vfio")
    ]
    if match and "was not called" in line and int(match.group(1)) <= len(passed_through):
        return "warn"  # they belong to virtual machines
    return level_of_lost(box)


def level_of_heat(lines):
    """Return the level of hot processors: worse if one stayed hot, or was hot again.

    Each says so at most every 300 s.
    """
    processors = [number for line in lines for number in HOT_PROCESSOR.findall(line)]
    return "degraded" if len(set(processors)) < len(processors) else "warn"


def ended(box):
    """The faults of the log that a boot, a load of the driver or a reset ended, in words."""
    old = [event for event in box.log["events"] if event["old"]] if box.log else []
    old = [event for event in old if event["code"] != 154]  # it goes with another Xid
    named = [
        f"Xid {event['code']}" if event["kind"] == "xid" else event["kind"]
        for event in old
        if event["level"] != "ok"
    ]
    return ", ".join(dict.fromkeys(named))


# ---- judge_torch.py
# Judge what the box's torch can do with its cards.
#
# `box` is a `box.ExaminedBox`, and a place is a PCI address. `add` is a `findings.Findings`:
# add(gpu, name, *values) adds the finding `name`, with None for `gpu` if it is about the whole box.


def judge_torch(box, add):
    """Judge the torch of the job's interpreter, and the small kernel that it ran on each GPU."""
    torch = as_dict(box.proc.get("torch"))
    if not torch:
        return
    if torch.get("failed") or ("error" in torch and "torch" not in torch):
        add(None, "no_torch", short(torch.get("python"), 60), torch.get("error"))
    elif not torch.get("available"):
        judge_torch_without_gpu(box, torch, add)
    for device in map(as_dict, as_list(torch.get("devices"))):
        if not device.get("ok"):
            judge_failed_kernel(box, torch, device, add)


def judge_torch_without_gpu(box, torch, add):
    """Add a finding for a torch whose torch.cuda.is_available() is False."""
    error = str(torch.get("error", ""))
    action = "CPU-only torch, hidden devices, or a broken driver: see the text"
    entry = ""
    # The NVIDIA driver on your system is too old (found version 11040). Please update …
    if "driver" in error and "old" in error:
        action = "install a torch for this driver, or take a box with a newer one"
        entry = "torch_driver"
    nodes = [str(as_dict(node).get("path")) for node in as_list(box.proc.get("dev"))]
    if "/dev/nvidia0" in nodes and "/dev/nvidia-uvm" not in nodes:
        error = "/dev/nvidia-uvm is missing, without which CUDA can't start"
        action = "load nvidia-uvm on the host (nvidia-modprobe -u), and start the container with it"
        entry = "no_runtime"
    name, cuda = short(torch.get("torch"), 40), torch.get("cuda")
    reason = short(error or "is_available() is False", 160)
    add(None, "torch_without_gpu", name, cuda, reason, do=(action,), entry=entry)


def judge_failed_kernel(box, torch, device, add):
    """Add a finding for a small kernel that failed or gave a wrong sum on one GPU."""
    error, index = str(device.get("error", "a wrong sum")), device.get("index")
    if "error" not in device and lacks_kernels(box, torch, index):
        error = "no kernel image for this card, only for " + " ".join(map(str, torch["archs"]))
    action, entry = "restart the job; then reset the GPU", ""
    # CUDA error: no kernel image is available for execution on the device
    if "no kernel image" in error:
        action, entry = "install a torch with kernels for this card", "arch"
    gpu = index if isinstance(index, int) else None
    add(gpu, "failed_kernel", short(error, 200), do=(action,), entry=entry)


def lacks_kernels(box, torch, index):
    """Whether a torch has no code for a GPU.

    Code for sm_80 runs on 8.0 to 8.9, PTX (compute_80) on all later cards too.
    """
    archs = " ".join(map(str, as_list(torch.get("archs"))))
    card = next((gpu.raw("compute_cap") or "" for gpu in box.gpus if gpu.index == index), "")
    known = re.match(r"(\d+)\.(\d)$", card)
    if not known or not archs or "compute_" in archs:
        return False
    major, minor = map(int, known.groups())
    numbers = [divmod(int(number), 10) for number in re.findall(r"\bsm_(\d+)", archs)]
    return not any(one == major and other <= minor for one, other in numbers)


# ---- report.py
# Judge a record: every finding, the verdict, and the cards in short, as one answer.


def judge(record, expectations=None):
    """-> findings, worst first. `expectations`: what `expectations_of` gives."""
    box, add = parse(record), Findings()
    box.log_excused = any(what == "log" and not value for what, _, _, value in expectations or [])
    judge_tools(box, add)
    for gpu in box.gpus:
        if not judge_lost(box, gpu, add):
            judge_memory(gpu, add)
            judge_link(box, gpu, add)
            judge_speed(gpu, add)
            judge_modes(box, gpu, add)
            if gpu.seen & {"csv", "xml", "q", "table"}:
                judge_readable(box, gpu, add)
    judge_pace(box, add)
    judge_identity(box, add)
    judge_nvlink(box, add)
    judge_use(box, add)
    judge_log(box, add)
    judge_dcgm(box, add)
    judge_system(box, add)
    judge_torch(box, add)
    judge_amd(record, box, add)
    judge_agreement(box, add)
    judge_expectations(box, expectations or [], add)
    for text in box.problems[:20]:
        add(None, "damaged_output", text, key=text)
    say_once(box, add)
    return sorted(
        add.list,
        key=lambda finding: (RANK[finding["level"]], finding["gpu"] is None, str(finding["gpu"])),
    )


def say_once(box, add):
    """Say in one finding what the kernel hides from a container, which no renter can change."""
    if not box.container:
        return
    hidden = add.take_out("no_kernel_log", "denied_cell")
    texts = {}  # what can't be read -> the GPUs of which it can't
    for finding in hidden:
        text = re.split(r" can't be read|: \[", finding["evidence"])[0]
        texts.setdefault(text, []).append(finding["gpu"])
    said = [
        text if None in labels else "{} of GPU {}".format(text, ", ".join(map(str, labels)))
        for text, labels in texts.items()
    ]
    if said:
        level = min((finding["level"] for finding in hidden), key=RANK.__getitem__)
        add(None, "unseen_in_container", "; ".join(said), level=level)


def recognised(box):
    """What kind of place this is, in words."""
    where, out = as_dict(box.proc.get("platform")), []
    if where.get("container"):
        out.append("container ({})".format(short(where["container"], 20)))
    if box.foreign:
        count = len(nvidia_cards(box))
        out.append(f"{count - len(box.foreign)} of {count} NVIDIA cards are this job's")
    if where.get("wsl"):
        out.append("WSL")
    if any(gpu.vgpu for gpu in box.gpus):
        out.append("vGPU")
    if any("pass-through" in (gpu.raw("x.virtualization") or "").lower() for gpu in box.gpus):
        out.append("virtual machine with the GPU passed through")
    if any(gpu.mig for gpu in box.gpus):
        out.append("MIG")
    if amd_cards(box):
        out.append("AMD")
    # A finding only on data-centre cards: others just start some seconds later.
    if any(no_persistence(gpu) and not HBM.search(gpu.name) for gpu in box.gpus):
        out.append("persistence mode off (nvidia-smi -pm 1)")
    if ended(box):
        out.append("older faults, ended since: " + short(ended(box), 50))
    if not box.gpus and "AMD" not in out:
        out.append("no GPU seen")
    return out


def brief(box):
    """The cards in short: those that are alike as one item, with the list of their indexes."""
    out = []
    for gpu in box.gpus:
        sku, total = sku_of(gpu.name) or {}, gpu.number("memory.total")
        card = {
            "name": short(gpu.name, 60),
            "memory_mib": int(total) if total is not None else None,
            "bf16": sku.get("bf16"),
            "fp8": sku.get("fp8"),
            "p2p": sku.get("p2p"),
        }
        if gpu.links:
            card["nvlinks"] = len([1 for speed in gpu.links.values() if speed is not None])
        if gpu.mig:
            card["mig"] = [short(name, 20) for name in gpu.migs or []]
        out.append((gpu.label, card))
    for label, card in amd_cards(box):
        name = short(card.get("product_name") or "AMD", 60)
        out.append((label, {"name": name, "memory_mib": int(card["mem_info_vram_total"]) >> 20}))
    groups = []
    for label, card in out:
        same = next((group for group in groups if dict(card, gpu=group["gpu"]) == group), None)
        if same:
            same["gpu"].append(label)
        else:
            groups.append(dict({"gpu": [label]}, **card))
    return groups


def report(record, expectations=None, extra=()):
    """The whole answer as one object, as --json prints it. `extra`: findings from a load."""
    findings = judge(record, expectations) + list(extra)
    findings.sort(key=lambda finding: RANK[finding["level"]])
    box = parse(record)
    lacks = [name for name in FILES[:8] if name not in record["files"]]
    lacks = [name for name in lacks if name != "proc.json" or not box.proc]
    return {
        "verdict": verdict(findings),
        "findings": findings,
        "gpus": brief(box),
        "probe_seconds": record.get("seconds"),
        "driver": box.driver or None,
        "recognised": recognised(box),
        "not_in_capture": [] if box.recorded else lacks,
    }


def as_text(answer):
    """Findings first, worst first; then one line for each kind of card."""
    lines = ["verdict: {}".format(answer["verdict"]), *finding_lines(answer), *care_line(answer)]
    for card in answer["gpus"]:
        labels, name = ", ".join(map(str, card["gpu"])), card["name"] or "GPU"
        lines.append(f"{len(card['gpu'])} x {name}, {card['memory_mib']} MiB (GPU {labels})")
    return "\n".join(lines + about_lines(answer))


def finding_lines(answer):
    """Each finding with what is expected and what to do, worst first."""
    lines = []
    for finding in answer["findings"]:
        where = "box" if finding["gpu"] is None else f"GPU {finding['gpu']}"
        entry = f" [{finding['entry']}]" if finding["entry"] else ""
        lines.append(f"{finding['level']} {where}: {finding['evidence']}")
        lines.append(f"    expected: {finding['threshold']}")
        lines.append(f"    do: {finding['action']}{entry}")
    return lines


def care_line(answer):
    """What somebody who rents a box that needs care does with it, as a list of one line or none."""
    step = renters_step(answer["findings"]) if answer["verdict"] == "care" else ""
    return [step] if step else []


def about_lines(answer):
    """The driver, what kind of place this is, the time, and what a capture lacks."""
    about = ["driver {}".format(answer["driver"])] if answer["driver"] else []
    about += answer["recognised"]
    if answer["probe_seconds"] is not None:
        about.append("{:.1f} s".format(answer["probe_seconds"]))
    lines = [", ".join(about)] if about else []
    if answer["not_in_capture"]:
        lines.append("not in this capture: {}".format(", ".join(answer["not_in_capture"])))
    return lines


def card_lines(cards, findings):
    """One line a card: label, name, memory, worst finding. `cards`: as in the answer."""
    rows = []
    for card in cards:
        memory = "? MiB" if card.get("memory_mib") is None else f"{card['memory_mib']} MiB"
        for label in card["gpu"]:
            own = [finding for finding in findings if finding["gpu"] == label]
            more = f" (and {len(own) - 1} more)" if len(own) > 1 else ""
            said = f"{own[0]['level']}: {short(own[0]['evidence'], 70)}{more}" if own else "fit"
            rows.append((f"GPU {label}", card.get("name") or "GPU", memory, said))
    wide = [max(map(len, column)) for column in list(zip(*rows))[:3]]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, wide)), row[3]])
        for row in sorted(rows, key=lambda row: (len(row[0]), row[0]))
    ]


def as_terminal(answer, colour):
    """The verdict, one line a card, then the findings. `colour`: paint levels and verdicts."""
    lines = [answer["verdict"], *care_line(answer)]
    lines += card_lines(answer["gpus"], answer["findings"])
    lines += finding_lines(answer) + about_lines(answer)
    return "\n".join(map(painted, lines)) if colour else "\n".join(lines)


# Level or verdict -> its colour: 31 red, 32 green, 33 yellow
PAINT = {"fit": 32, "care": 33, "warn": 33, "unknown": 33, "unfit": 31, "fatal": 31, "degraded": 31}


def painted(line):
    """A line with the first level or verdict in it in colour."""
    return re.sub(
        r"^(?:fit|care|unfit|unknown)$|^(?:fatal|degraded|unknown|warn)(?= )"
        r"|(?<=  )(?:fit$|(?:fatal|degraded|unknown|warn)(?=: ))",
        lambda word: f"\033[1;{PAINT[word.group(0)]}m{word.group(0)}\033[0m",
        line,
        count=1,
    )


# ---- judge_numbers.py
# Judge whether each GPU computes, keeps and copies numbers as they must be.

LOOKED = (
    *("gpu", "products", "rounds", "faults", "types", "not_looked_at"),
    *("memory_gib", "copies", "seconds"),
)
NOT_LOOKED_AT = "not looked at"


def judge_numbers(lines, add):
    """Judge the lines of data/numbers_worker.py. Return what was looked at, an item for each GPU.

    Without a line of its own nothing was looked at, and the text says so.
    """
    stages = {}
    for line in lines:
        stages.setdefault(line["stage"], []).append(line)
    faults = {}
    for line in stages.get("numbers wrong", []):
        faults.setdefault(line.get("gpu"), []).append(as_fault(line))
    for gpu, texts in faults.items():
        add(gpu, "wrong_product", "; ".join(dict.fromkeys(texts)))
    for line in stages.get("numbers memory", []):
        size, wrong = line.get("bytes") or 0, line.get("wrong")
        add(line.get("gpu"), "wrong_memory", wrong, size / (1 << 30), line.get("first"))
    for line in stages.get("numbers copy", []):
        ends = [end_of(line.get(end)) for end in ("source", "target")]
        cards = [end for end in (line.get("source"), line.get("target")) if end != "host"]
        gpu = int(cards[0]) if len(cards) == 1 and str(cards[0]).isdigit() else None
        entry = "" if gpu is not None else "p2p"
        add(gpu, "wrong_copy", *ends, line.get("wrong"), key=" to ".join(ends), entry=entry)
    if "numbers host" in stages:
        add(None, "wrong_on_host")
    done = stages.get("numbers done", [])
    looked = [{key: line.get(key) for key in LOOKED} for line in done]
    for card in looked:
        if not card["products"]:
            add(card["gpu"], "numbers_not_looked_at", short(str(card["not_looked_at"]), 200))
    return looked or NOT_LOOKED_AT


def as_fault(line):
    """A wrong product in words: its type, its shape, and how wrong it is."""
    product = "{} {}".format(*(short(clean(str(line.get(key))), 40) for key in ("type", "shape")))
    wrong, changed, off = line.get("wrong"), line.get("changed"), line.get("off")
    faults = []
    if wrong:
        far = f", by up to {off:.2g} of the largest" if isinstance(off, (int, float)) else ""
        faults.append(f"{wrong} of {line.get('of')} elements wrong{far}")
    if changed:
        faults.append(f"{changed} differ the second time")
    return f"{product}: {', '.join(faults)}"


def end_of(place):
    """The end of a copy in words."""
    return "host" if place == "host" else f"GPU {short(clean(str(place)), 10)}"


# ---- stress.py
# Load all GPUs at once, as training does, and judge what torch reports.
#
# Off by default. It needs torch on the box, and always runs on all visible GPUs.

# The programs that the job's own interpreter runs, and the one that runs both in one process.
STRESS_WORKER = r'''
"""Loads all GPUs at once: matrix products, memory copies, all-reduce. Prints each stage as JSON.

The argument is JSON: {seconds, device: cuda or cpu, size, batch}; size and batch may be left out.
"""

import json
import sys
import time

config = json.loads(sys.argv[1])
kind, small = config.get("device", "cuda"), config.get("size")


def say(**values):
    """One line with a stage."""
    print("GPU_HEALTH " + json.dumps(values), flush=True)


say(stage="import")
import torch  # noqa: E402, after its stage is printed: the import may hang


def wait(device):
    """Wait until the device has finished what was started."""
    if kind == "cuda":
        torch.cuda.synchronize(device)


def wait_for_all(devices):
    """Wait for all devices."""
    for device in devices:
        wait(device)


def mark(result):
    """Return two checksums of the bits: their sum, and a sum weighted by place."""
    bits = result.contiguous().view(torch.int16).flatten().to(torch.int64)
    place = torch.arange(bits.numel(), device=bits.device, dtype=torch.int64) % 8191 + 1
    return [int(bits.sum().item()), int((bits * place).sum().item())]


def devices_to_load():
    """Return all visible GPUs. End the program without a GPU, or if one lacks free memory."""
    if kind != "cuda":
        return [torch.device("cpu")]
    devices = [torch.device(kind, index) for index in range(torch.cuda.device_count())]
    if not devices or not torch.cuda.is_available():
        say(stage="failed", error="torch sees no GPU")
        sys.exit(0)
    for device in devices:
        free = torch.cuda.mem_get_info(device)[0]
        if free < 3 << 30:
            reason = f"{free >> 20} MiB free on GPU {device.index}, the load needs 3 GiB"
            say(stage="failed", gpu=device.index, error=reason)
            sys.exit(0)
    return devices


def multiply_on(devices):
    """Compute the same product again and again, on all devices at once."""
    capable = kind != "cuda" or all(
        torch.cuda.get_device_capability(load)[0] >= 8 for load in devices
    )
    dtype, size = (torch.bfloat16 if capable else torch.float16), small or 8192
    seed = torch.Generator().manual_seed(20)
    left, right = ((torch.rand(size, size, generator=seed) - 0.5).to(dtype) for _ in range(2))
    say(stage="matmul", dtype=str(dtype), size=size)
    work = {}
    for device in devices:
        a, b = left.to(device), right.to(device)
        out = torch.empty(size, size, device=device, dtype=dtype)
        torch.mm(a, b, out=out)
        wait(device)
        work[device] = {"a": a, "b": b, "out": out, "first": mark(out)}
        work[device].update(other=0, runs=0, spent=0.0, checks=1)
    until, batch = time.monotonic() + config["seconds"] * 0.7, config.get("batch", 20)
    while time.monotonic() < until:
        events = {device: start_products(device, load, batch) for device, load in work.items()}
        for device, load in work.items():
            wait(device)
            around = events[device]
            if around:
                first, last = around
                load["spent"] += first.elapsed_time(last) / 1000
            load["runs"] += batch
            load["checks"] += 1
            load["other"] += mark(load["out"]) != load["first"]
    for device, load in work.items():
        say(
            stage="matmul done",
            gpu=device.index or 0,
            name=torch.cuda.get_device_name(device) if kind == "cuda" else "cpu",
            mark=load["first"],
            checks=load["checks"],
            differ=load["other"],
            tflops=round(2 * size**3 * load["runs"] / load["spent"] / 1e12, 2),
        )


def start_products(device, load, batch):
    """Start a batch of products. On a GPU, return the events around it."""
    if kind != "cuda":
        began = time.monotonic()
        for _ in range(batch):
            torch.mm(load["a"], load["b"], out=load["out"])
        load["spent"] += time.monotonic() - began
        return None
    with torch.cuda.device(device):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        events[0].record()
        for _ in range(batch):
            torch.mm(load["a"], load["b"], out=load["out"])
        events[1].record()
    return events


def copy_on(device, block):
    """Copy within the device's memory, and from the host to it."""
    say(stage="memory copy", gpu=device.index or 0)
    source, target = (torch.zeros(block, device=device, dtype=torch.float32) for _ in range(2))
    target.copy_(source)
    wait(device)
    began = time.monotonic()
    for _ in range(20):
        target.copy_(source)
    wait(device)
    copied = 2 * 20 * block * 4 / (time.monotonic() - began) / 1e9
    host = torch.zeros(block // 4, dtype=torch.float32)
    host = host.pin_memory() if kind == "cuda" else host
    target[: block // 4].copy_(host)
    wait(device)
    began = time.monotonic()
    for _ in range(10):
        target[: block // 4].copy_(host, non_blocking=True)
    wait(device)
    from_host = 10 * block / (time.monotonic() - began) / 1e9
    say(
        stage="copy done",
        gpu=device.index or 0,
        copy_gb_s=round(copied, 3),
        h2d_gb_s=round(from_host, 2),
    )


def reduce_on(devices, block):
    """Run an all-reduce over all GPUs, and check the sums."""
    say(stage="all-reduce")
    import torch.cuda.nccl

    count = len(devices)
    tensors = [
        torch.full((block // 4,), float(device.index + 1), device=device) for device in devices
    ]
    torch.cuda.nccl.all_reduce(tensors)
    wait_for_all(devices)
    want = float(sum(range(1, count + 1)))
    right = [bool((tensor == want).all().item()) for tensor in tensors]
    began = time.monotonic()
    for _ in range(10):
        torch.cuda.nccl.all_reduce(tensors)
    wait_for_all(devices)
    spent = time.monotonic() - began
    speed = 10 * block * 2 * (count - 1) / count / spent / 1e9
    say(stage="all-reduce done", right=right, bus_gb_s=round(speed, 1))


def main():
    """All stages, one after another."""
    devices, block = devices_to_load(), (small or 16384) ** 2
    multiply_on(devices)
    for device in devices:
        copy_on(device, block)
    if kind == "cuda" and len(devices) > 1:
        reduce_on(devices, block)
    say(stage="load done")


main()
'''
NUMBERS_WORKER = r'''
"""Computes on each GPU what has one right answer, and prints what came out wrong, as JSON.

Three questions: are matrix products right in each type that the card has, does its memory keep what
was written, does a copy arrive as it was sent. The argument is JSON: {seconds, device: cuda or cpu,
size}; a size is for a trial without a card, and keeps everything small.

What a product may be off by isn't tuned, it is derived. A sum of k products that keeps p bits of
each intermediate result is off by at most 2 k 2^(1-p) times the sum of their magnitudes, in any
order, split in any way, rounded or cut off: Higham, Accuracy and Stability of Numerical Algorithms
(2002), sections 3.1 and 4.2, with twice the terms for the alignment within a tensor core (Fasi et
al. 2021, doi:10.7717/peerj-cs.330; Blanchard et al. 2020, doi:10.1137/19M1289546). Rounding a sum
to the type of the results keeps the order of numbers, so the rounded limits hold for the results.
Nothing is lost where all values are whole and no sum of magnitudes reaches 2^p: such products must
be right to the last bit, also where a library adds up in the narrow type of the results.
"""

import json
import sys
import time

import torch

# The types of inputs and results, the bits of an input's significand, and the bits that each sum
# keeps. TF32 cuts fp32 to 11 bits. Hopper's fp8 keeps 14 (DeepSeek-V3, 2024, section 3.5.2).
TYPES = {
    "fp64": ("float64", "float64", 53, 53),
    "fp32": ("float32", "float32", 24, 24),
    "tf32": ("float32", "float32", 11, 24),
    "bf16": ("bfloat16", "bfloat16", 8, 24),
    "fp16": ("float16", "float16", 11, 24),
    "fp8": ("float8_e4m3fn", "float32", 4, 13),
}
# Faulty cards err only for some magnitudes (Zheng et al., OSDI 2026, figure 7). Each matrix is
# multiplied by a power of two from this range, within which no type overflows or loses a bit.
SCALES = {"fp64": (-200, 200), "fp16": (-2, 2), "fp8": (-5, 5)}
OTHER_SCALES = (-30, 30)
NEEDS = {"tf32": (8, 0), "bf16": (8, 0), "fp8": (8, 9)}  # compute capability
NARROW_SUMS = {  # what lets cuBLAS add up in the type of the results
    "bf16": "allow_bf16_reduced_precision_reduction",
    "fp16": "allow_fp16_reduced_precision_reduction",
}
EVEN, ODD, DEEP = (256, 512, 256), (251, 509, 263), (64, 4096, 64)
TILES = 15  # of a product in each direction: enough to occupy each multiprocessor of a card
EXACT = 40  # bits; whole numbers of this size leave fp64 room to check the truth itself
WORDS = 1 << 25  # of 8 bytes in a block of memory: 256 MiB
SPREAD = -7046029254386353131  # odd, so that no two words of a pattern are alike
MOST_TOLD = 6  # faulty products of a card that are told one by one
ENOUGH, MOST, START = 0.2, 60.0, 8.0  # of the load's seconds; seconds; seconds of the first round


class Untrue(Exception):
    """This machine's CPU computes the truth in two ways, and they differ."""


def say(**values):
    """One line with a stage."""
    print("GPU_HEALTH " + json.dumps(values), flush=True)


def wait(card):
    """Wait until the card has finished. Raises RuntimeError where an error broke it."""
    if card.type == "cuda":
        torch.cuda.synchronize(card)


# Products.


def bits_of(dtype):
    """The bits of a significand, the hidden one included."""
    return 1 - round(torch.log2(torch.tensor(torch.finfo(dtype).eps, dtype=torch.float64)).item())


def whole_numbers(shape, bits, kept, seed):
    """Two fp64 matrices of whole numbers below 2^bits, so that no sum of magnitudes reaches 2^kept.

    Less than half of that is aimed at, so that chance doesn't reach it. Where even ones are too
    large, some become zero.
    """
    rows, terms, columns = shape
    mean = 0.4 * 2.0**kept / terms  # of the magnitude of a product
    most = max(1, min(2**bits - 1, int(2 * mean**0.5) - 1))
    filled = min(1.0, mean**0.5 / ((most + 1) / 2))
    return [
        torch.randint(1, most + 1, size, generator=seed).double()
        * (torch.randint(0, 2, size, generator=seed) * 2 - 1)
        * (torch.rand(size, generator=seed) < filled)
        for size in ((rows, terms), (terms, columns))
    ]


def full_numbers(shape, bits, seed):
    """Two fp64 matrices of magnitudes from 1/8 to 1 that use all bits of the significand."""
    rows, terms, columns = shape
    made = []
    for size in ((rows, terms), (terms, columns)):
        values = torch.rand(size, generator=seed, dtype=torch.float64) * 0.875 + 0.125
        step = torch.pow(2.0, torch.floor(torch.log2(values)) + 1 - bits)
        signs = torch.randint(0, 2, size, generator=seed) * 2 - 1
        made.append(torch.floor(values / step) * step * signs)
    return made


def limits(left, right, kept, results, scale=1.0):
    """The least and the greatest that each element of a product may be, in the type `results`.

    The product is left @ right * scale; `left` and `right` are fp64, `scale` is a power of two.
    `kept`: the bits that each sum keeps; see the head of this file. Raises Untrue where the limits
    are a single value each, and the CPU finds another for their sums.
    """
    truth, size = left @ right, left.abs() @ right.abs()
    if is_whole(left) and is_whole(right) and size.max() < 2.0 ** min(kept, bits_of(results)):
        if not torch.equal(truth.sum(1), left @ right.sum(1)):  # exact, and another computation
            raise Untrue
        return (truth * scale).to(results), (truth * scale).to(results)
    lost = 2 * left.shape[1] * (2.0 ** (1 - kept) + 2.0**-52)  # the truth is rounded as well
    # Some cards turn results below the least normal number into zero.
    slack = size * scale * (lost / (1 - lost)) + torch.finfo(results).tiny
    return (truth * scale - slack).to(results), (truth * scale + slack).to(results)


def is_whole(values):
    """Whether all values are whole numbers."""
    return bool((values == values.round()).all())


class Case:
    """Two matrices of some magnitude, and between which values their product is right.

    `left`, `right`: fp64; `low`, `high`: in the type of the results.
    """

    def __init__(self, name, shape, kind, seed):
        """`kind`: whole or full. Raises Untrue."""
        inputs, results, bits, kept = TYPES[name]
        self.name, self.shape, self.kind = name, shape, kind
        self.inputs, self.results = getattr(torch, inputs), getattr(torch, results)
        if kind == "whole":
            narrow = min(kept, bits_of(self.results), EXACT)
            self.left, self.right = whole_numbers(shape, bits, narrow, seed)
        else:
            self.left, self.right = full_numbers(shape, bits, seed)
        least, most = SCALES.get(name, OTHER_SCALES)
        one, other = (2.0 ** int(torch.randint(least, most + 1, (), generator=seed)) for _ in "ab")
        self.low, self.high = limits(self.left, self.right, kept, self.results, one * other)
        self.left, self.right = self.left * one, self.right * other

    def on(self, card, tiles):
        """The matrices on a card, in their type, `tiles` times below and beside each other.

        Each part of the product is then the product of the case.
        """
        wide = torch.float64 if self.name == "fp64" else torch.float32  # fp8 can't be repeated
        left = self.left.to(wide).to(card).repeat(tiles, 1).to(self.inputs)
        right = self.right.to(wide).to(card).repeat(1, tiles)
        if self.name == "fp8":  # columns must be contiguous
            return left, right.t().contiguous().to(self.inputs).t()
        return left, right.to(self.inputs)


def cases_of(name, wide_sums):
    """The (shape, kind) to try in a type. fp8 takes only multiples of 16.

    A full sum of fp8 tells too little: it keeps too few bits. So does one whose sums may be rounded
    to the narrow type of the results, which the whole numbers are made for.
    """
    shapes = [EVEN] if name == "fp8" else [EVEN, ODD]
    kinds = ["whole", "full"] if wide_sums and name != "fp8" else ["whole"]
    return [(shape, kind) for shape in shapes for kind in kinds] + [(DEEP, "whole")]


def product(name, left, right):
    """Multiply two matrices on their device, as a training does in this type."""
    if name == "fp8":
        one = torch.ones((), device=left.device)
        scaled = getattr(torch, "_scaled_mm", None)  # no public name; see `lacks`
        assert scaled is not None
        result = scaled(left, right, scale_a=one, scale_b=one, out_dtype=torch.float32)
        return result[0] if isinstance(result, tuple) else result  # torch before 2.5: with amax
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    return torch.mm(left, right)


def outside(result, low, high):
    """How many elements aren't within the limits of their tile. NaN isn't."""
    rows, columns = low.shape
    tiles = result.reshape(-1, rows, result.shape[1] // columns, columns)
    low, high = low.view(1, rows, 1, columns), high.view(1, rows, 1, columns)
    return tiles.numel() - ((tiles >= low) & (tiles <= high)).sum()


def unlike(first, second):
    """How many elements of two results differ in a bit."""
    word = {2: torch.int16, 4: torch.int32, 8: torch.int64}[first.element_size()]
    return (first.view(word) != second.view(word)).sum()


def furthest(results, case):
    """How far an element is from its limits, as a share of the largest value that is right."""
    rows, columns = case.low.shape
    low, high = (limit.double().view(1, rows, 1, columns) for limit in (case.low, case.high))
    most = 0.0
    for result in results:
        tiles = result.cpu().double().reshape(-1, rows, result.shape[1] // columns, columns)
        off = torch.maximum(low - tiles, tiles - high)
        off = torch.where(torch.isfinite(off), off, torch.full_like(off, float("inf")))
        most = max(most, off.max().item())
    return min(most / max(high.abs().max().item(), 1e-300), 1e30)


def multiply_twice(case, card, tiles, multiply=None):
    """Compute the case's product twice on a card -> a function that waits and says what is wrong.

    That returns None where all is right, otherwise the values of a line.
    """
    multiply = multiply or product
    left, right = case.on(card, tiles)
    results = [multiply(case.name, left, right) for _ in range(2)]
    low, high = case.low.to(card), case.high.to(card)
    counts = [outside(result, low, high) for result in results]
    counts.append(unlike(*results))

    def judged():
        first, second, changed = (int(count.item()) for count in counts)
        if not (first or second or changed):
            return None
        rows, terms, columns = left.shape[0], left.shape[1], right.shape[1]
        return {
            "type": case.name,
            "shape": f"{rows}x{terms}x{columns}",
            "kind": case.kind,
            "wrong": max(first, second),
            "changed": changed,
            "of": results[0].numel(),
            "off": furthest(results, case) if first or second else 0.0,
        }

    return judged


def lacks(name, card):
    """Why a type isn't looked at on a card, "" where it can be."""
    if not hasattr(torch, TYPES[name][0]) or (name == "fp8" and not hasattr(torch, "_scaled_mm")):
        return f"torch {torch.__version__} has none"
    if card.type == "cuda" and name in NEEDS:
        if torch.version.hip:
            return "not on AMD" if name in ("fp8", "tf32") else ""
        if torch.cuda.get_device_capability(card) < NEEDS[name]:
            return "the card has none"
    return ""


def keeps_wide_sums(name):
    """Forbid sums in the narrow type of the results. Whether this torch lets us."""
    switch_off("allow_fp16_accumulation")
    return name not in NARROW_SUMS or switch_off(NARROW_SUMS[name])


def switch_off(flag):
    """Switch off a way to multiply less exactly. Whether this torch knows it."""
    flags = torch.backends.cuda.matmul
    try:
        getattr(flags, flag)
    except (AttributeError, AssertionError):  # the second: torch before 2
        return False
    setattr(flags, flag, False)
    return True


def multiply_on(cards, tiles, seed, told, until):
    """One round of all products, on all cards at once. `told`: {card's number: Told}."""
    for name in TYPES:
        say(stage=f"numbers, {name}")
        able = {}
        for at, card in enumerate(cards):
            why = lacks(name, card)
            if why:
                told[at].left_out[name] = why
            elif name not in told[at].left_out:
                able[at] = card
        for shape, kind in cases_of(name, keeps_wide_sums(name)) if able else []:
            if time.monotonic() > until:
                return
            case = Case(name, shape, kind, seed)
            started = {}
            for at, card in able.items():
                try:
                    tiled = tiles if shape != DEEP else 1
                    started[at] = multiply_twice(case, card, tiled)
                except RuntimeError as error:  # no such product, or no memory for it
                    wait(card)
                    told[at].left_out[name] = str(error).split("\n")[0][:80]
            for at, judged in started.items():
                told[at].product(at, name, judged())


# Memory and copies.


def words(start, count, card):
    """Part of a pattern in which no two words are alike: `count` words from number `start` on."""
    return torch.arange(start, start + count, dtype=torch.int64, device=card).mul_(SPREAD)


def blocks_in(card, small):
    """The numbers of words in blocks that fill most of the free memory: nine tenths less 1 GiB.

    A card that shares the memory of the host gets half of what is free.
    """
    if small or card.type != "cuda":
        return [1 << 18] * 4
    torch.cuda.empty_cache()
    is_shared = getattr(torch.cuda.get_device_properties(card), "is_integrated", False)
    free = int(torch.cuda.mem_get_info(card)[0] * (0.5 if is_shared else 0.9)) - (1 << 30)
    return [WORDS] * max(0, free // (WORDS * 8))


def fill(card, counts, until, touch=None):
    """Write a pattern, read it, turn every bit, read it again -> (bytes, wrong words, first one).

    `touch`: what a trial does with the blocks in between. The first wrong word is a number of bytes
    from the start, or None.
    """
    held, wrong, first = [], 0, None
    for count in counts:
        if time.monotonic() > until:
            break
        try:
            held.append(words(sum(map(len, held)), count, card))
        except RuntimeError:  # somebody else took memory meanwhile
            wait(card)
            break
    for turned in (False, True):
        if touch:
            touch(held)
        start = 0
        for block in held:
            right = words(start, len(block), card)
            bad = block != (right.bitwise_not_() if turned else right)
            found = int(bad.sum().item())
            if found and first is None:
                first = 8 * (start + int(bad.nonzero()[0].item()))
            wrong += found
            start += len(block)
            block.bitwise_not_()
    return 8 * sum(map(len, held)), wrong, first


def move(block, place):
    """Copy a block to another card, or to the host."""
    return block.to(place)


def copy_between(places, count, until, mover=None):
    """Copy a pattern from each place to each other -> (how many copies, [(from, to, wrong words)]).

    `places`: [(label, device)].
    """
    done, wrong = 0, []
    pairs = [(one, other) for one in places for other in places if one is not other]
    for (source, here), (target, there) in pairs:
        if time.monotonic() > until:
            break
        block = words(done * count + 1, count, here)
        moved = (mover or move)(block, there)
        found = int((moved != words(done * count + 1, count, there)).sum().item())
        done += 1
        if found:
            wrong.append((source, target, found))
    return done, wrong


# All of it.


class Told:
    """What was looked at on one card, and what wasn't."""

    def __init__(self):
        """Nothing yet."""
        self.products, self.types, self.left_out = 0, [], {}
        self.faults, self.bytes, self.copies = 0, 0, 0

    def product(self, gpu, name, fault):
        """Count a product. Print it if it is wrong."""
        self.products += 1
        if name not in self.types:
            self.types.append(name)
        if fault:
            self.faults += 1
            if self.faults <= MOST_TOLD:
                say(stage="numbers wrong", gpu=gpu, **fault)


def look(cards, seconds, small=None):
    """Look at all cards. Stop after `seconds`, at most a minute; the first round is done first."""
    began = time.monotonic()
    enough = began + min(MOST, ENOUGH * seconds)
    until = began + min(MOST, START + ENOUGH * seconds)
    told = {at: Told() for at in range(len(cards))}
    seed, tiles = torch.Generator().manual_seed(int(time.time())), 1 if small else TILES
    multiply_on(cards, tiles, seed, told, until)
    for at, card in enumerate(cards):
        say(stage="numbers, memory", gpu=at)
        told[at].bytes, wrong, first = fill(card, blocks_in(card, small), until)
        if card.type == "cuda":
            torch.cuda.empty_cache()
        if wrong:
            say(stage="numbers memory", gpu=at, wrong=wrong, bytes=told[at].bytes, first=first)
    say(stage="numbers, copies")
    places = [("host", torch.device("cpu"))] + [(str(at), card) for at, card in enumerate(cards)]
    copies, wrong = copy_between(places, 1 << 18 if small else 1 << 23, until)
    for source, target, count in wrong:
        say(stage="numbers copy", source=source, target=target, wrong=count)
    rounds = 1
    while time.monotonic() < enough:
        multiply_on(cards, tiles, seed, told, until)
        rounds += 1
    for at, card in told.items():
        for name in TYPES:
            if name not in card.types:
                card.left_out.setdefault(name, "no time")
        say(
            stage="numbers done",
            gpu=at,
            products=card.products,
            rounds=rounds,
            faults=card.faults,
            types=" ".join(card.types),
            not_looked_at="; ".join(f"{name}: {why}" for name, why in card.left_out.items()),
            memory_gib=round(card.bytes / (1 << 30), 1),
            copies=copies,
            seconds=round(time.monotonic() - began, 1),
        )


def main(config):
    """Look at what the configuration names."""
    cards = [torch.device("cpu")]
    if config.get("device", "cuda") == "cuda":
        cards = [torch.device("cuda", at) for at in range(torch.cuda.device_count())]
    try:
        look(cards, config["seconds"], config.get("size"))
    except Untrue:
        say(stage="numbers host")
    say(stage="end")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
'''
IN_TURN = r'''
"""Runs the programs in the arguments after the first, one after another in this process.

So torch starts once, and the cards are still warm when the second program begins. The first
argument is that of each program.
"""

import os
import sys

# With them a library computes in another type than it was asked for.
for name in (
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "CUBLAS_EMULATE_SINGLE_PRECISION",
    "CUBLAS_EMULATE_DOUBLE_PRECISION",
):
    os.environ.pop(name, None)

for program in sys.argv[2:]:
    exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
'''
HELD_MIB = 1024  # MiB in use above which a card isn't idle, whatever processes are shown
# GB/s of one lane: PCI-SIG line rates less their coding.
LANE = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.56}


def stress(seconds, python, record, device="cuda", size=None):
    """Load the GPUs. Return (what was measured, findings).

    It samples clocks and throttle reasons during the load, and reads the kernel log after it.
    """
    samples, stop = [], threading.Event()
    smi = shutil.which("nvidia-smi")
    fields = [
        "index",
        "temperature.gpu",
        "power.draw",
        "clocks.current.sm",
        "clocks_throttle_reasons.active",
    ]

    def sample():
        while not stop.wait(2.0):
            got = run([smi, "--query-gpu=" + ",".join(fields), "--format=csv"], 10.0)
            if got["timed_out"]:
                samples.append({"hung": True})
                return
            rows, _ = parse_csv(got["text"], [fields])
            samples.append({"rows": rows})

    if not any(end["timed_out"] for end in map(exit_of, record["exit"].values())) and smi:
        threading.Thread(target=sample, daemon=True).start()
    config = json.dumps({"seconds": seconds, "device": device, "size": size})
    programs = [STRESS_WORKER, NUMBERS_WORKER]
    got = run([python, "-c", IN_TURN, config, *programs], seconds * 2 + 90.0)
    stop.set()
    again = {"files": {}, "exit": {}}
    gather_log(again, run, 10.0)
    return judged_stress(got, samples, record, again["files"].get("dmesg.txt", ""))


def judged_stress(got, samples, record, log_after):
    """Judge the worker's answer, the samples and the later log: (what was measured, findings).

    Pure. `got`: what `run` returns. `record`: what was gathered before the load.
    """
    add, lines = Findings(), []
    for line in clean(got["text"]).splitlines():
        if line.startswith("GPU_HEALTH "):
            try:
                lines.append(as_dict(json.loads(line[11:])))
            except (ValueError, RecursionError):
                continue
    lines = [line for line in lines if isinstance(line.get("stage"), str)]
    products = [line for line in lines if line["stage"] == "matmul done"]
    products = [line for line in products if isinstance(line.get("tflops"), (int, float))]
    copies = [line for line in lines if line["stage"] == "copy done"]
    reduced = [line for line in lines if line["stage"] == "all-reduce done"]
    measured = {
        "matmul": [
            {key: line.get(key) for key in ("gpu", "name", "tflops", "checks", "differ")}
            for line in products
        ],
        "copy": [
            {key: line.get(key) for key in ("gpu", "copy_gb_s", "h2d_gb_s")} for line in copies
        ],
        "all_reduce_bus_gb_s": reduced[-1].get("bus_gb_s") if reduced else None,
        "dtype": next((line.get("dtype") for line in lines if line.get("dtype")), None),
    }
    judge_course(got, lines, add)
    judge_products(products, add)
    judge_copies(copies, parse(record), add)
    for line in reduced:
        for index, right in enumerate(as_list(line.get("right"))):
            if not right:
                add(index, "wrong_all_reduce", expected=(len(line["right"]),))
    measured["numbers"] = judge_numbers(lines, add)
    judge_load_samples(samples, add)
    judge_new_lines(record, log_after, add)
    return measured, add.list


def judge_course(got, lines, add):
    """Judge whether the load started and ended."""
    stages = [line["stage"] for line in lines]
    failed = next((line for line in lines if line["stage"] == "failed"), None)
    last = lines[-1] if lines else {}
    gpu, stage = last.get("gpu"), last.get("stage", "start")
    if failed:
        add(failed.get("gpu"), "stress_refused", short(failed.get("error")))
    elif got["timed_out"]:
        add(gpu, "stress_hung", short(stage, 40), entry="stuck" if stage == "all-reduce" else "")
    elif not stages or stages == ["import"]:
        add(None, "stress_no_answer", short(got["text"] or "the interpreter gave no answer", 200))
    elif stage != "end":
        add(gpu, "stress_ended", short(stage, 40), short(got["text"][-200:], 200))


def judge_products(products, add):
    """Compare the results and the speed of each GPU with its first ones and with its kind."""
    for product in products:
        if product.get("differ"):
            add(product.get("gpu"), "changing_product", product["differ"], product.get("checks"))
    for name in sorted({str(product.get("name")) for product in products}):
        alike = [product for product in products if str(product.get("name")) == name]
        marks = [json.dumps(product.get("mark")) for product in alike]
        common = usual(marks)
        for product, mark in zip(alike, marks):
            if common and mark != common and marks.count(common) > 1:
                add(product.get("gpu"), "odd_product", short(name, 60))
            elif len(marks) == 2 and marks[0] != marks[1]:
                add(None, "two_products", short(name, 60))
        peak = next((value for pattern, value in PEAK_TFLOPS if re.search(pattern, name)), None)
        median = sorted(product["tflops"] for product in alike)[len(alike) // 2]
        for product in alike:
            if peak and product["tflops"] < 0.5 * peak:
                add(product.get("gpu"), "slow_matmul", product["tflops"], expected=(peak,))
            elif len(alike) > 1 and product["tflops"] < 0.85 * median:
                add(product.get("gpu"), "slowest_matmul", product["tflops"], median)


def in_use(record):
    """What a card has that a load would disturb: (its label, what); None where none has anything.

    A rented container may not see the process that holds the memory.
    """
    for gpu in parse(record).gpus:
        if gpu.processes:
            process = gpu.processes[0]
            return gpu.label, f"{short(process['name'], 40)} (pid {process['pid']})"
        used = gpu.number("memory.used") or 0
        if used > HELD_MIB:
            return gpu.label, f"{used:.0f} MiB in use"
    return None


def judge_copies(copies, box, add):
    """Compare the speed of copies within each GPU with that of the others, and of copies from host
    memory with that of its PCIe link."""
    names = {gpu.label: gpu.raw("name") for gpu in box.gpus}
    for copy in copies:
        alike = [
            other["copy_gb_s"]
            for other in copies
            if names.get(other.get("gpu")) == names.get(copy.get("gpu"))
            and isinstance(other.get("copy_gb_s"), (int, float))
        ]
        median, speed = sorted(alike)[len(alike) // 2] if alike else 0, copy.get("copy_gb_s")
        if len(alike) > 1 and isinstance(speed, (int, float)) and speed < 0.85 * median:
            add(copy.get("gpu"), "slowest_memory", speed, median)
        gpu = next((gpu for gpu in box.gpus if gpu.label == copy.get("gpu")), None)
        width = gpu.number("pcie.link.width.current") if gpu else None
        generation = gpu.number("pcie.link.gen.max") if gpu else None
        best = LANE.get(int(generation), 0) * width if width and generation else 0
        speed = copy.get("h2d_gb_s")
        if best and isinstance(speed, (int, float)) and speed < 0.4 * best:
            add(copy.get("gpu"), "slow_host_copy", speed, expected=(best, generation, width))


def judge_load_samples(samples, add):
    """Judge throttle reasons and lost GPUs in the samples under load."""
    for item in samples:
        if item.get("hung"):
            add(None, "hung_under_load")
        for row in item.get("rows", []):
            mask = number(row.get("clocks_event_reasons.active", "N/A"))
            gpu = int(number(row.get("index", "N/A")) or 0)
            names = [name for name, bit in REASONS if mask is not None and int(mask) & bit]
            if names:
                add(gpu, "throttled_under_load", ", ".join(names))
            if any(state(text) == "lost" for text in row.values()):
                add(gpu, "lost_under_load")


def judge_new_lines(record, log_after, add):
    """Judge the lines that came into the kernel log during the load."""
    # Search for the last line: a ring buffer may have lost its beginning meanwhile.
    last = record["files"].get("dmesg.txt", "").rstrip("\n").rsplit("\n", 1)[-1]
    if not last or last not in log_after:
        return
    fresh = log_after[log_after.rindex(last) + len(last) :]
    if fresh.strip():
        box = parse(dict(record, files=dict(record["files"], **{"dmesg.txt": fresh})))
        box.recorded, box.exit = False, {}
        judge_log(box, add)


# ---- watch.py
# The watch (--watch): one JSON line per sample, and findings when they change.
#
# One nvidia-smi runs in a loop; a sample starts no process.

# Our limits: a waiting collective draws less than this share of the power limit. It takes three
# samples in a row, so that a pause between steps doesn't count.
STUCK_POWER, IDLE_SAMPLES = 0.3, 3


def watch_row(row):
    """Turn the cells of one GPU into numbers, None where the driver gives none."""
    mask = number(row.get("clocks_event_reasons.active", "N/A"))
    bits = REASONS + (("sw_power_cap", 0x4),)
    out = {
        "gpu": number(row.get("index", "N/A")),
        "throttle": [name for name, bit in bits if mask is not None and int(mask) & bit],
    }
    for name, field in (
        ("util", "utilization.gpu"),
        ("mem_util", "utilization.memory"),
        ("mem_mib", "memory.used"),
        ("mem_total_mib", "memory.total"),
        ("power_w", "power.draw"),
        ("limit_w", "power.limit"),
        ("temp_c", "temperature.gpu"),
        ("sm_mhz", "clocks.current.sm"),
        ("pcie_gen", "pcie.link.gen.gpucurrent"),
    ):
        out[name] = number(row.get(field, "N/A"))
    out["gpu"] = int(out["gpu"]) if out["gpu"] is not None else None
    out["lost"] = any(state(text) == "lost" for text in row.values())
    return out


def judge_sample(gpus, streaks, holders):
    """Judge one sample. Return (findings, {GPU: why it is idle}).

    `streaks` counts samples in a row, by GPU. `holders(gpu)`, called only for an idle GPU, says
    why it is idle.
    """
    add, why = Findings(), {}
    for label in gone_gpus(gpus, streaks):
        add(label, "gone_from_samples", label)
    for gpu in gpus:
        label = gpu["gpu"]
        streak = streaks[label]
        if gpu["lost"]:
            add(label, "lost_sample")
            continue
        hard = [name for name in gpu["throttle"] if name != "sw_power_cap"]
        if hard:
            add(label, "throttled_sample", ", ".join(hard), gpu["temp_c"])
        streak["stuck"] = streak["stuck"] + 1 if is_quiet(gpu) else 0
        streak["idle"] = streak["idle"] + 1 if gpu["util"] == 0 else 0
        if streak["stuck"] >= IDLE_SAMPLES:
            why[str(label)] = (
                "busy at idle power: its kernel waits, "
                "as in a collective that another rank never joined"
            )
            values = (gpu["util"], gpu["power_w"], gpu["limit_w"], streak["stuck"])
            add(label, "stuck_kernel", *values, expected=(STUCK_POWER,))
        if streak["idle"] >= IDLE_SAMPLES:
            why[str(label)] = holders(label)
    return add, why


def gone_gpus(gpus, streaks):
    """Count this sample in `streaks`. Return the GPUs that are missing in two samples in a row.

    `seen` counts the samples with a GPU. A single sample without it means nothing: when rows come
    late, one sample arrives as two.
    """
    most = max([streak["seen"] for streak in streaks.values()] or [0])
    present = [streaks.setdefault(gpu["gpu"], {"idle": 0, "stuck": 0, "seen": 0}) for gpu in gpus]
    most = max([most] + [streak["seen"] + 1 for streak in present])
    for streak in present:
        streak["seen"] = most  # all of a sample: whoever missed one has made up for it
    gone = [label for label, streak in streaks.items() if most - streak["seen"] >= 2]
    return sorted(label for label in gone if label is not None)


def is_quiet(gpu):
    """Whether a GPU says that it is busy, but moves no memory and draws little power."""
    draw, limit = gpu["power_w"], gpu["limit_w"]
    waits = (gpu["util"] or 0) >= 95 and (gpu["mem_util"] or 0) <= 5
    return waits and draw and limit and draw < STUCK_POWER * limit


def judge_end(words, code, places, sampled):
    """Judge the last output and the exit code of an nvidia-smi that ended by itself.

    `places`: place -> index of the GPUs seen before; `sampled`: how many samples there were.
    """
    add = Findings()
    for place, index, line in lost_handles(words):
        known = places.get(place, "")
        add(int(known) if known.isdigit() else place or index, "no_handle_at_end", line)
    failure = smi_failure(words)
    kind = failure[0] if failure else RC_FAILURES.get(code)
    # An nvidia-smi that never worked says nothing about the GPUs.
    if kind and sampled and not add.list:
        line = failure[1] if failure else f"nvidia-smi ended with {code}"
        add(None, "smi_" + kind, line, key="tool", entry="")
    return add


class Holders:
    """Says why a GPU is idle, from the state and the CPU time of the processes that hold it.

    Looks at the processes at most every 30 s. `nodes`: index -> N of /dev/nvidiaN, if the driver
    shows it. In a container with only some of the cards they differ.
    """

    def __init__(self, clock=time.monotonic):
        """`clock`: gives seconds."""
        self.clock, self.at, self.known, self.cpu, self.nodes = clock, None, [], {}, {}

    def __call__(self, gpu):
        """Why the GPU with this index is idle, in words."""
        now = self.clock()
        if self.at is None or now - self.at >= 30:
            proc = {}
            gather_holders(proc)
            seconds = now - self.at if self.at is not None else None
            self.at, self.known = now, proc["holders"]
            for holder in self.known:
                spent, old = cpu_seconds(holder["pid"]), self.cpu.get(holder["pid"])
                holder["cpu"] = None
                if spent is not None and old is not None and seconds:
                    holder["cpu"] = (spent - old) / seconds
                self.cpu[holder["pid"]] = spent
        node = f"/dev/nvidia{self.nodes.get(gpu, gpu)}"
        mine = [holder for holder in self.known if node in holder["devices"]]
        if not mine:
            return "no process of this container holds it"
        state_letter, process = mine[0]["state"], "process {}".format(mine[0]["pid"])
        if state_letter == "D":
            return process + " waits for a disk or a network file system (state D)"
        if state_letter in "ZT":
            return process + (" is dead" if state_letter == "Z" else " is stopped")
        if state_letter == "R" or (mine[0].get("cpu") or 0) > 0.7:
            return process + " works on the CPU: loading data, compiling, saving or evaluating"
        return process + " sleeps: it waits for workers, the network, a lock or another rank"


def cpu_seconds(pid):
    """CPU time that a process has used, or None."""
    fields = (read_text(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    if len(fields) <= 12:
        return None
    return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))


class RunningWatch:
    """The state of a watch between two reads."""

    def __init__(self, names, out):
        """`names`: the columns; `out`: where the lines go."""
        self.names, self.out = names, out
        self.rest, self.rows, self.streaks, self.holders = b"", [], {}, Holders()
        self.places = {}  # place -> index
        self.standing = {}  # the findings of the last sample
        self.sampled, self.worst = 0, 0
        # `words` and `stray` hold lines that are no row: before the last sample, and since then.
        # `code` is the exit code of nvidia-smi.
        self.words, self.stray, self.code = "", "", None

    def say(self, **values):
        """Print one JSON line with the time."""
        line = dict({"t": round(time.time(), 3)}, **values)
        self.out.write(json.dumps(line, separators=(",", ":")) + "\n")
        self.out.flush()

    def take(self, chunk):
        """Sort what nvidia-smi printed into rows and stray lines."""
        *lines, self.rest = (self.rest + chunk)[-LIMIT:].split(b"\n")
        for line in lines:
            text = line.decode("utf-8", "replace")
            cells = [cell.strip() for cell in text.split(",")]
            if len(cells) == len(self.names):
                self.take_row({CANON[name]: cell for name, cell in zip(self.names, cells)})
            elif text.strip():
                self.stray = (self.stray + text[:300] + "\n")[-1000:]

    def take_row(self, row):
        """Keep the row of a GPU in place of an older one that no sample has taken yet."""
        place, index = bdf(row.get("pci.bus_id", "")), row.get("index", "")
        self.rows = [other for other in self.rows if other.get("index") != row.get("index")]
        self.rows.append(row)
        if place not in self.places and index.isdigit() and place:
            minor = minor_of(place + ".0")[0]
            self.holders.nodes[int(index)] = int(index) if minor is None else minor
        self.places[place] = index

    def sample(self, kmsg):
        """Judge the rows as one sample, and print it with the findings that began and ended."""
        gpus, self.rows = [watch_row(row) for row in self.rows], []
        self.sampled += 1
        add, why = judge_sample(gpus, self.streaks, self.holders)
        if self.code is None:
            self.words, self.stray = self.stray, ""
        for event in kernel_events(kmsg):
            self.add_event(event, add)
        now = {
            (finding["gpu"], finding["level"], finding["action"]): finding for finding in add.list
        }
        new = [finding for key, finding in now.items() if key not in self.standing]
        over = [finding["evidence"] for key, finding in self.standing.items() if key not in now]
        if any(finding["level"] in ("degraded", "fatal") for finding in new):
            self.worst = max(self.worst, 1)
        self.standing = now
        shown = [{key: value for key, value in gpu.items() if key != "lost"} for gpu in gpus]
        changes = {"findings": new, "over": over, "why": why}
        self.say(gpus=shown, **{key: value for key, value in changes.items() if value})

    def add_event(self, event, add):
        """Add a finding for a line of the kernel log."""
        kind, code, level = event["kind"], event["code"], event["level"]
        if kind == "iommu" and event["bdf"] not in self.places:
            return  # a network card, a controller
        label = self.places.get(event["bdf"], event["bdf"])
        gpu = int(label) if str(label).isdigit() else label
        action = xid_words(code, level, event["line"]) if code in XID else UNKNOWN_XID
        action = LOG_ACTION.get(kind) or action
        key = f"{kind} {code}"
        add(gpu, "watched_line", event["line"], level=level, do=(action,), key=key)

    def end(self, code):
        """Take note that nvidia-smi ended by itself. Return why, in words.

        The watch was to go on, so this is a failure even with exit code 0.
        """
        self.code = code
        self.stray = f"{self.words}\n{self.stray}\n{self.rest.decode('utf-8', 'replace')}\n"
        self.worst = self.worst or 2
        return f"nvidia-smi ended with {code}: {short(self.stray, 120)}"

    def last_words(self):
        """Print the findings about the end of nvidia-smi."""
        findings = judge_end(self.stray, self.code, self.places, self.sampled).list
        if findings:
            self.say(findings=findings)
            if any(finding["level"] in ("degraded", "fatal") for finding in findings):
                self.worst = 1


def watch(interval, pid=None, out=None):
    """Print until a signal, the end of `pid`, or the end of nvidia-smi.

    Returns the exit code: 1 if something was degraded or fatal, 2 if it can't watch or nvidia-smi
    ended first, otherwise 0.
    """
    smi = shutil.which("nvidia-smi")
    if not smi:
        sys.stderr.write("gpu_health.py: no nvidia-smi on the PATH; install the driver\n")
        return 2
    helped = run([smi, "--help-query-gpu"], CALL_SECONDS)
    known = set(re.findall(r'"([a-z][\w.]+)"', helped["text"]))
    names = names_to_query([(name, "") for name in WATCH_FIELDS], known)
    kmsg = end_of_kernel_log()
    process = start_sampling(smi, names, interval)
    ended = []
    for which in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(which, lambda which, _: ended.append(f"signal {int(which)}"))
    seen = RunningWatch(names, out or sys.stdout)
    seen.say(start={"interval_s": interval, "fields": names, "kernel_log": kmsg is not None})
    follow(seen, process, kmsg, interval, pid, ended)
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    if seen.code is not None:
        seen.last_words()
    seen.say(end=ended[0] if ended else "")
    return seen.worst


def end_of_kernel_log():
    """A handle at the end of /dev/kmsg, or None where it can't be read."""
    try:
        kmsg = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(kmsg, 0, os.SEEK_END)
    except OSError:
        return None
    return kmsg


def start_sampling(smi, names, interval):
    """Start one nvidia-smi that prints a row for each GPU every `interval` seconds."""
    query = ["--query-gpu=" + ",".join(names), "--format=csv,noheader,nounits"]
    return subprocess.Popen(
        [smi, *query, "-lms", str(max(100, int(interval * 1000)))],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def follow(seen, process, kmsg, interval, pid, ended):
    """Take what nvidia-smi prints until `ended` holds a reason to stop. Signals add one too."""
    assert process.stdout is not None  # PIPE was asked for
    handle, last = process.stdout.fileno(), time.monotonic()
    while not ended:
        try:
            ready = select.select([handle], [], [], 0.2 if seen.rows else min(1.0, interval))[0]
        except InterruptedError:
            continue
        chunk = os.read(handle, 65536) if ready else b""
        full = bool(seen.rows) and not chunk  # a pause, or the end: the sample is complete
        if ready and not chunk:
            ended.append(seen.end(process.wait()))
        if chunk:
            last = time.monotonic()
            seen.take(chunk)
        if full:
            seen.sample(kmsg)
        if pid and not ended and not os.path.exists(f"/proc/{pid}"):
            ended.append(f"process {pid} ended")
        if not ready and time.monotonic() - last > max(CALL_SECONDS, 3 * interval):
            silence = Findings()
            silence(None, "no_sample", time.monotonic() - last, expected=(interval,))
            seen.say(findings=silence.list)
            seen.worst = 1
            ended.append("nvidia-smi hangs")


def kernel_events(kmsg):
    """Return the events of the records that came since the last call."""
    lines = []
    while kmsg is not None and len(lines) < 1000:
        try:
            lines.append(os.read(kmsg, 8192).decode("utf-8", "replace").splitlines()[0])
        except (OSError, IndexError):
            break
    return [event for event in parse_log("\n".join(lines))["events"] if event["level"] != "ok"]


# ---- main.py

EXIT = {"fit": 0, "care": 1, "unfit": 1, "unknown": 2}


class Usage(argparse.ArgumentParser):
    """A parser with errors of one line."""

    def error(self, message):
        """Say what is wrong, and exit with 2."""
        sys.stderr.write(f"gpu_health.py: {message}; see --help\n")
        raise SystemExit(2)


def parser_of_arguments():
    """The command line."""
    parser = Usage(
        prog="gpu_health.py",
        description=(__doc__ or "").split("\n\n")[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=(__doc__ or "").split("\n\n", 1)[-1],
    )
    parser.add_argument(
        "--expect",
        default="",
        metavar="LIST",
        help="what you pay for: gpus=8,name=H100,vram=80,nvlink=all,driver>=550,torch=cu130; "
        "'help' lists the names",
    )
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="the job's interpreter: checks its torch and CUDA, and runs a small kernel",
    )
    parser.add_argument(
        "--path",
        action="append",
        default=[],
        metavar="DIR",
        help="a path that the job writes to; repeatable (default: /, /tmp, home, here)",
    )
    parser.add_argument(
        "--stress",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="load the GPUs for this long; needs torch in --python",
    )
    parser.add_argument(
        "--network",
        action="store_true",
        help="measure the way to the Hub and PyPI: 420 MB at most, two minutes",
    )
    parser.add_argument(
        "--durable",
        default="",
        metavar="HOST:PATH",
        help="with --network: send 64 MB to this place too, where they are thrown away",
    )
    parser.add_argument(
        "--watch",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="print a JSON line every SECONDS, until a signal or until --pid ends",
    )
    parser.add_argument(
        "--pid", type=int, metavar="PID", help="with --watch: stop when this process ends"
    )
    parser.add_argument("--record", metavar="DIR", help="write what was read, one file per command")
    parser.add_argument("--replay", metavar="DIR", help="judge a recording instead of this box")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def main(arguments=None):
    """Runs the command line -> the exit code."""
    options = parser_of_arguments().parse_args(arguments)
    if options.expect.strip() == "help":
        print("\n".join(f"{name:8} {text}" for name, (_, text) in sorted(EXPECT.items())))
        return 0
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    try:
        expectations = expectations_of(options.expect)
    except ValueError as error:
        sys.stderr.write(f"gpu_health.py: {error}\n")
        return 2
    if options.watch:
        return watch(options.watch, options.pid)
    try:
        record, measured, reached, extra = record_of(options)
    except CantExamine as error:
        sys.stderr.write(f"gpu_health.py: {error}\n")
        return 2
    answer = report(record, expectations, extra)
    if measured is not None:
        answer["stress"] = measured
    if reached is not None:
        answer["network"] = reached
    if options.json:
        print(json.dumps(answer, ensure_ascii=False))
    elif sys.stdout.isatty():
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        print(as_terminal(answer, not plain))
    else:
        print(as_text(answer))
    return EXIT[answer["verdict"]]


class CantExamine(Exception):
    """There is nothing to judge, or it can't be recorded."""


def record_of(options):
    """-> (the record, what a load measured, what the network did, their findings); None for what
    wasn't asked for. Raises CantExamine."""
    if options.replay:
        try:
            return load(options.replay), None, None, []
        except (OSError, ValueError) as error:
            raise CantExamine(f"can't replay: {error}") from None
    record, add = gather(python=options.python, paths=options.path), Findings()
    measured = reached = None
    if (options.stress or options.network) and (held := in_use(record)):
        add(None, "cards_in_use", *held)
        options.stress = options.network = 0
    if options.stress:
        measured, found = stress(options.stress, options.python or sys.executable, record)
        add.list += found
    if options.network:
        reached, found = network(options.durable)
        add.list += found
    if options.record:
        try:
            save(record, options.record)
        except OSError as error:
            raise CantExamine(f"can't record: {error}") from None
    return record, measured, reached, add.list


if __name__ == "__main__":
    try:
        try:
            exit_code = main()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has gone, for example `head`
        os._exit(141)
    sys.stderr.flush()
    os._exit(exit_code)  # a thread that waits for a dead mount must not delay the answer
