"""Judge one GPU by itself: memory, link, speed, modes, and whether it can be read.

Values in, findings out: no file, no clock, no command.
"""

import re

from ...logs.kernel.advice import BACK, RESET
from ...logs.kernel.places import bdf, short
from ...logs.kernel.xids import recovery_level, recovery_of
from .box import nvidia_cards
from .cards import FEWER_LANES, HBM, NO_OWN_MEMORY, sku_of
from .fields import REASONS, REQUIRED, REQUIRED_590, TYPE, readable
from .text import number, state, version

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
