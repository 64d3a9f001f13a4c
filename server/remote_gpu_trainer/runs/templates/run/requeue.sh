# Back into Slurm's queue.

: "${RGT_REQUEUE=}"

# After a save that Slurm asked for.
rgt_requeue() {
  [[ $RGT_REQUEUE == yes && $rgt_signalled == USR1 && -n ${SLURM_JOB_ID:-} ]] || return 0
  rgt_event requeue job "$SLURM_JOB_ID"
  timeout 60 scontrol requeue "$SLURM_JOB_ID"
}
