"""Join all outputs into one box: text in, values out. No file, clock or network is read."""

import re

from ...logs.kernel.kernel_log import parse_log
from ...logs.kernel.places import COLOUR, bdf, clean, short
from .dcgm import parse_dcgm
from .failures import HANDLE, exit_of, lost_handles, smi_failure
from .files import CALLS, FILES, LIMIT
from .limits import parse_limits
from .memory_counts import parse_memory_counts
from .smi_outputs import (
    parse_apps,
    parse_csv,
    parse_list,
    parse_nvlink,
    parse_q,
    parse_table,
    parse_topo,
    parse_xml,
    table_processes,
)
from .text import as_dict, as_list, number, state, version, yes


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
