# What a rendered script may leave out, and the variables of a run.

set -u
# The program and the copies keep the user's own mask.
: "${RGT_UMASK:=$(umask)}"
umask 027

for rgt_name in RGT_COMMAND RGT_ENV RGT_RETRY RGT_CELLS; do
  declare -p "$rgt_name" >/dev/null 2>&1 || eval "$rgt_name=()"
done
# Unset rather than empty: an empty pattern or folder is a choice.
: "${RGT_VERSION=}" "${RGT_JOB_SHA=}" "${RGT_TARGET=local}" "${RGT_PROFILE=}" "${RGT_NAME=run}"
: "${RGT_RUN_DIR=}" "${RGT_LAUNCHER:=none}" "${RGT_PYTHON:=python3}" "${RGT_GPUS:=0}"
: "${RGT_PROCS:=1}" "${RGT_NODES:=1}" "${RGT_WORK_DIR=}" "${RGT_CHECKPOINT_DIR=}"
: "${RGT_SAVE_SIGNAL:=TERM}" "${RGT_SAVE_SECONDS:=60}" "${RGT_DURABLE=}" "${RGT_DEADLINE=}"
: "${RGT_AT_END:=keep}" "${RGT_STALL_LOG_SECONDS:=0}" "${RGT_STEP_PATTERN=}"
: "${RGT_MIN_FREE_MB:=0}" "${RGT_MIN_FREE_INODES:=0}" "${RGT_LOG_BYTES:=50000000}"
: "${RGT_HEARTBEAT:=10}"
# Not rendered: waits that tests shorten, and where the kernel's counters are.
: "${RGT_KEEPER=on}" "${RGT_CELL=}" "${RGT_PART=}"
: "${RGT_RETRY_WAIT:=5}" "${RGT_TRIES_AN_HOUR:=60}" "${RGT_CGROUP:=/sys/fs/cgroup}"

rgt_retry_defaults=(preempted=9 killed=3 stall=2 network=3 hang=2 unknown=1
  bug=0 oom=0 host-oom=0 disk=0 gpu=0)
rgt_usage='usage: bash run.sh VERB
  start [--sent-at EPOCH] [--node-rank N]   detach and run
  run            run in the foreground
  preflight      check only
  status [--json]
  stop           save now, then end
  resume         like start, even after the same failure at the same step'
# The one table of what the shell is told.
rgt_exits='exit codes; of run any other is the code of the program
   0  done       all that is expected is there and copied
   1  failed     ended with 0, but too early; another verb failed
   2  usage      an unknown verb or setting
  74  unsaved    trained to its end, but the last copy is not verified
  75  preempted  saved, to be started again; or another run holds the lock
  76  deadline   ended by its deadline
  77  stopped    ended by stop
  78  refused    nothing was started'

# Also for a script that was written from memory: see rgt_keep_script_from_memory.
rgt_reset() {
  rgt_phase=new rgt_attempt=0 rgt_step='' rgt_exit='' rgt_class='' rgt_entry='' rgt_reason=''
  rgt_started=0 rgt_boot='' rgt_pending='' rgt_missing=() rgt_owed=() rgt_stalled=false rgt_rank=0
  rgt_sent_at='' rgt_asked='' rgt_signalled='' rgt_tick='' rgt_program='' rgt_program_start=''
  rgt_deadline=0 rgt_log_age='' rgt_log_first=0 rgt_outcome=''
  rgt_runner_alive=true rgt_elsewhere=false rgt_checkpoint='' rgt_checkpoint_id='' rgt_why=''
  rgt_t=0 rgt_full='' rgt_backstop='' rgt_state_line=''
}
rgt_reset
rgt_script=${BASH_SOURCE[0]:-}
