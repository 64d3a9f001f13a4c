"""Settings of the heating agent (scaled down for the trial)."""

# environment
NUM_TIME_STEPS = 12       # decisions per episode
TIME_STEP_SIZE = 60 * 60  # s
NUM_HOURS = 12
R_IA, R_IM, R_EA = 1.0 / 1090, 1.0 / 11000, 1.0 / 200
C_I, C_M = 2.44e6, 9.4e7
HEAT_POWER = 2000.0       # W
T_MIN, T_MAX = 19.5, 22.5
E_PRICE = 1.1
COMFORT_PENALTY = -10

# agent
INPUT_DIMS = 2
N_ACTIONS = 2
FC_1_DIMS = 150
FC_2_DIMS = 300
GAMMA = 0.9
EPSILON = 0.9
EPS_DECAY = 0.9995
LEARNING_RATE = 0.0005
BATCH_SIZE = 64
MEM_SIZE = 240
TARGET_UPDATE = 4

# training
NUM_EPISODES = 110
SAVE_EVERY = 10           # 1000 in the real run
EPISODE_SECONDS = 1.0     # for the trial: an episode takes a second instead of five minutes
DISK_MB_S = 3.0           # for the trial: the disk, as slow as it is for the real agent
