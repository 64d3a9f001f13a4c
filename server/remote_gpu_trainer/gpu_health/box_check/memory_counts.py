"""How many memory errors the kernel counted, by the outputs that people paste of it.

`edac-util -v`, `grep . /sys/devices/system/edac/mc/mc*/?e_count`, and `ras-mc-ctl --summary`,
whose counts are those of its database, of any age.
"""

import re

from ...logs.kernel.places import clean

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
