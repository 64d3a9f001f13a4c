# Slurm: hands over to the runner under sbatch. With arguments, as in `bash run.sh status`, nothing
# of this happens.

# Starts this file once on each node, from a folder that every node sees, and passes "save now" on.
rgt_slurm_nodes() {
  local run_dir=$RGT_RUN_DIR code=0 asked='' woken='' step
  [[ ${run_dir:0:2} == \~/ ]] && run_dir=$HOME/${run_dir:2}
  mkdir -p -- "$run_dir" && cp -- "$0" "$run_dir/.run.sh.$$" &&
    mv -f -- "$run_dir/.run.sh.$$" "$run_dir/run.sh" || return 1
  RGT_RENDEZVOUS=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
  [[ -n $RGT_RENDEZVOUS ]] || return 1
  export RGT_RENDEZVOUS
  trap 'asked=USR1 woken=1; rgt_slurm_pass USR1 "$run_dir/run.sh"' USR1
  trap 'asked=TERM woken=1; rgt_slurm_pass TERM "$run_dir/run.sh"' TERM
  # srun no longer takes the cores of sbatch over by itself (Slurm 22.05). A node that ended must
  # not cut the others' save short, as --kill-on-bad-exit=1 does (TERM, and KILL after KillWait):
  # they have a quarter of an hour.
  srun --nodes="$RGT_NODES" --ntasks="$RGT_NODES" --ntasks-per-node=1 \
    ${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"} \
    --kill-on-bad-exit=0 --wait=900 bash "$run_dir/run.sh" &
  step=$!
  while :; do # a trap ends wait early
    woken=''
    wait "$step"
    code=$?
    [[ -n $woken ]] || break
  done
  if [[ $asked == USR1 && $RGT_REQUEUE == yes && -e $run_dir/.preempted ]]; then
    scontrol requeue "$SLURM_JOB_ID"
  fi
  return "$code"
}

# scancel and srun signal every process of a step, and USR1 would end the program: a second step
# tells the runners alone.
rgt_slurm_pass() {
  RGT_PASS=$1 timeout -k 5 60 srun --overlap --nodes="$RGT_NODES" --ntasks="$RGT_NODES" \
    --ntasks-per-node=1 bash "$2"
}

if [[ -n ${RGT_RENDEZVOUS-} && -n ${SLURM_NODEID-} ]]; then # one node of several
  if [[ -n ${RGT_PASS-} ]]; then
    rgt_rank=$SLURM_NODEID
    rgt_resolve
    rgt_alive runner && kill -s "$RGT_PASS" "$rgt_pid"
    exit 0
  fi
  RGT_REQUEUE=no
  [[ $# -gt 0 ]] || set -- run --node-rank "$SLURM_NODEID"
elif [[ -n ${SLURM_JOB_ID-} && $# -eq 0 ]]; then # started by sbatch
  if [[ -n ${SLURM_ARRAY_TASK_ID-} ]]; then
    set -- queue --part "$((SLURM_ARRAY_TASK_ID + 1))/${#RGT_CELLS[@]}"
  elif [[ $RGT_NODES -gt 1 ]]; then
    rgt_slurm_nodes
    exit
  else
    set -- run
  fi
fi
