"""Judge all GPUs together: nvidia-smi, differences, NVLink, memory in use."""

import re

from ...logs.kernel.places import short
from .box import nvidia_cards
from .cards import NVLINKS, sku_of
from .failures import RC_FAILURES
from .fields import TYPE, readable
from .files import CALL_SECONDS, CALLS, SERIES_SECONDS
from .text import as_dict, as_list, number, state, usual, version

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
