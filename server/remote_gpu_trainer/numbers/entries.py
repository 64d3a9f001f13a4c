"""Names of the entries that code speaks of, by what each is about.

Whoever decides by an entry imports its name from here, so that a search for the name finds all that
depends on it. A test compares them with the catalogue.
"""

from __future__ import annotations

# Several ranks
NEVER_MET = "D2"  # machines that don't find each other at the start
DESYNC = "D19"  # ranks wait in different collectives
RANK_MISSING = "D20"  # one rank crashed, or left while the others waited
RANK_0_ALONE = "D21"  # one rank enters a collective that the others don't
UNEVEN_BATCHES = "D9"  # one rank finished its epoch early
HANGS = (DESYNC, RANK_MISSING)
# How a process ended
LOG_BREAKS_OFF = "U3"
NATIVE_CRASH = "U50"
SLURM_LIMIT = "SLURM2"
SLURM_MEMORY = "SLURM4"
# Losses, gradients and rates
NAN_SOMEWHERE = "P9"
NOT_FINITE = (NAN_SOMEWHERE,)
DIVERGED = "P12"
NORM_SPIKES = "P13"
NAN_GRADIENT = "P14"
HUGE_FIRST_LOSS = "P17"
NOT_LEARNING = "O1"
SLOW_LOSS = "O7"
RATE_ENDS_EARLY = "O8"
ACCUMULATION_SCALES = "O9"
TWO_SOFTMAXES = "O12"
SATURATED_BINARY_LOSS = "O13"
NEGATIVE_LOSS = "O16"
RATE_UNCLEAR = "O22"
FLAT_RATE = "O23"
LOSS_SCALE_FALLS = "O24"
PERPLEXITY_IS_ODD = "L7"
DPO_STANDS_STILL = "L9"
REWARD_HACKING = "R1"
KL_IS_ODD = "R2"
# Scores
NEAR_CHANCE = "V1"
DETECTION_IS_ZERO = "V3"
IOU_IS_ZERO = "V5"
RARE_CLASSES = "V6"
# Resuming
ONLY_WEIGHTS = "C1"
SAVE_OUT_OF_MEMORY = "C5"
EPOCHS_AGAIN = "C12"
RATE_AGAIN = "C14"
SCALER_EMPTY = "C15"
AVERAGES_LOST = "C16"
RATE_JUMPS = "C10"
# What only a run that was resumed shows.
AFTER_RESUME = (ONLY_WEIGHTS, RATE_JUMPS, RATE_AGAIN, SCALER_EMPTY, AVERAGES_LOST)
# Memory
MEMORY_IN_FRAGMENTS = "M8"
MEMORY_IN_BACKWARD = "M14"
MEMORY_IN_EVALUATION = "M15"
MEMORY_IN_STEP = "M17"
OUT_OF_MEMORY = "U10"  # tells the kinds apart
RAM_GROWS = "DP9"
SHARED_MEMORY_FULL = "DP15"
HOST_MEMORY = "M3"  # the kernel or the container killed it
MAPPED_FILE = "U55"  # a mapped file on a network disk couldn't be read
# The box
DISK_FULL = "U6"
INODES_FULL = "U7"
MEMORY_IS_TAKEN = "U11"
BUSY_BUT_IDLE = "U21"
XIDS = "U22"  # says how to go by the number
INPUT_BOUND = "U24"
CARD_LOST = "HW1"
CARD_MEMORY_FAILS = "HW2"
CPU_BUILD = "ENV13"
