# Under sbatch: the batch shell stays, since Slurm takes the machine back when it ends, and passes
# Slurm's signals on to the runner, which may be another process than the one that it started. With
# arguments, as in `bash run.sh status`, nothing of this happens.
# shellcheck disable=SC2153,SC2154

# The supervisor of the moment gets the signal, and passes it on to its runner: this shell's own
# child, or one that was raised since. srun would send it to the program too.
rgt_pass() {
  rgt_passed=$1
  if [[ $RGT_NODES -gt 1 ]]; then
    RGT_PASS=$1 timeout -k 5 60 srun --overlap --nodes="$RGT_NODES" --ntasks="$RGT_NODES" \
      --ntasks-per-node=1 bash "$RGT_DIR/run.sh"
    return
  fi
  kill -s "$1" "$rgt_child" 2>/dev/null || rgt_signal_supervisor "$1"
}

rgt_signal_supervisor() {
  rgt_is_there supervisor && kill -s "$1" "${rgt_noted[0]}"
}

# Does the run's runner or supervisor live?
rgt_is_there() {
  rgt_read_noted "$RGT_DIR" "$1" && rgt_lives "${rgt_noted[@]}"
}

# A trap ends `wait` early.
rgt_attend() {
  "$@" &
  rgt_child=$!
  while :; do
    rgt_passed=''
    wait "$rgt_child"
    rgt_code=$?
    [[ -n $rgt_passed ]] || break
  done
}

rgt_batch() {
  trap 'rgt_asked_by=USR1; rgt_pass USR1' USR1
  trap 'rgt_pass TERM' TERM
  if [[ $RGT_NODES -gt 1 ]]; then
    # From a folder that every node sees.
    mkdir -p -- "$RGT_DIR" && cp -- "$rgt_script" "$RGT_DIR/.run.sh.$$" &&
      mv -f -- "$RGT_DIR/.run.sh.$$" "$RGT_DIR/run.sh" || exit 1
    RGT_RENDEZVOUS=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
    [[ -n $RGT_RENDEZVOUS ]] || exit 1
    export RGT_RENDEZVOUS
    # srun no longer takes the cores of sbatch over by itself (Slurm 22.05). A node that ended must
    # not cut the others' save short, as --kill-on-bad-exit=1 does (TERM, and KILL after KillWait):
    # they have a quarter of an hour.
    rgt_attend srun --nodes="$RGT_NODES" --ntasks="$RGT_NODES" --ntasks-per-node=1 \
      ${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"} \
      --kill-on-bad-exit=0 --wait=900 bash "$RGT_DIR/run.sh"
    if [[ ${rgt_asked_by-} == USR1 && $RGT_REQUEUE == yes && -e $RGT_DIR/.preempted ]]; then
      scontrol requeue "$SLURM_JOB_ID"
    fi
    exit "$rgt_code"
  fi
  rgt_attend bash "$rgt_script" "$@"
  rgt_stay
  exit "$rgt_code"
}

# One node of several, or the second step that only passes a signal on.
rgt_node() {
  [[ $SLURM_NODEID == 0 ]] || RGT_DIR=$RGT_DIR/node-$SLURM_NODEID
  if [[ -n ${RGT_PASS-} ]]; then
    rgt_signal_supervisor "$RGT_PASS"
    exit 0
  fi
  # Slurm signals every process of a step, the runner too. Caught, not ignored: what is ignored
  # stays so in a child.
  trap 'rgt_passed=TERM' TERM
  trap 'rgt_passed=USR1' USR1
  rgt_attend bash "$rgt_script" run --node-rank "$SLURM_NODEID"
  rgt_stay
  exit "$rgt_code"
}

# The runner was killed, and its parent or the shell restarts it: the job goes on as long as one of
# them lives. The end then tells the exit code.
rgt_stay() {
  ((rgt_code > 128)) || return
  local gone=0 end='' name
  while ((gone < 30)); do
    sleep 1
    ((++gone))
    for name in unsaved preempted failed "done"; do
      [[ ! -e $RGT_DIR/.$name ]] || end=$name
    done
    if rgt_is_there runner || { [[ -z $end ]] && rgt_is_there supervisor; }; then
      gone=0
    elif [[ -n $end ]]; then
      break
    fi
  done
  case $end in
    done) rgt_code=0 ;;
    unsaved) rgt_code=74 ;;
    preempted) rgt_code=75 ;;
    failed) rgt_code=1 ;;
  esac
}

rgt_under_slurm() {
  if [[ -n ${RGT_RENDEZVOUS-} && -n ${SLURM_NODEID-} ]]; then
    rgt_node
  elif [[ -n ${SLURM_ARRAY_TASK_ID-} ]]; then
    rgt_batch queue --part "$((SLURM_ARRAY_TASK_ID + 1))/$RGT_CELLS"
  else
    rgt_batch run
  fi
}
