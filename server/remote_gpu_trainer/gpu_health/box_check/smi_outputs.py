"""Parse the output of each call of nvidia-smi into cells: field -> text."""

import re
from functools import partial

from ...logs.kernel.places import bdf, clean, short
from .failures import HANDLE, smi_failure
from .fields import CANON, ECC_SUMS, Q_PLACES, XML_PLACES
from .text import number, state

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
