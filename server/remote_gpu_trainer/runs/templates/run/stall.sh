# A run that stands still.

# A reason to call the run stalled, in rgt_stall_reason.
rgt_is_stalled() {
  if ((RGT_STALL_LOG_SECONDS > 0 && rgt_up - rgt_log_at >= RGT_STALL_LOG_SECONDS)); then
    rgt_stall_reason="no line in the log for $((rgt_up - rgt_log_at)) s"
  else
    rgt_step_waits || rgt_gpus_wait
  fi
}

# Stacks of all Python processes before anything is killed: py-spy, else the fault handler, all at
# one moment.
rgt_take_stacks() {
  local pid exe got=0 name
  local -a pythons=() dumps=()
  mkdir -p -- "$RGT_RUN_DIR/stacks"
  rgt_program_pids "$rgt_program"
  for pid in ${rgt_pids[@]+"${rgt_pids[@]}"}; do
    exe=$(readlink -- "/proc/$pid/exe" 2>/dev/null)
    [[ ${exe##*/} == python* || ${exe##*/} == pypy* ]] && pythons+=("$pid")
  done
  ((${#pythons[@]})) || return 0
  if type -P py-spy >/dev/null; then
    for pid in "${pythons[@]}"; do
      name=$RGT_RUN_DIR/stacks/attempt-$rgt_attempt-pid-$pid.txt
      timeout -k 1 20 py-spy dump --pid "$pid" >"$name" 2>&1 9>&- &
      dumps+=("$!")
    done
    for pid in "${dumps[@]}"; do rgt_attend "$pid" 25; done
    grep -qsF 'Thread' -- "$RGT_RUN_DIR/stacks/attempt-$rgt_attempt"-pid-*.txt && got=1
  fi
  if ((!got)); then
    for pid in "${pythons[@]}"; do prlimit --core=0 --pid "$pid" 2>/dev/null; done
    kill -ABRT "${pythons[@]}" 2>/dev/null
    rgt_nap 2
    rgt_attempt_tail 100000 >"$RGT_RUN_DIR/stacks/attempt-$rgt_attempt-log.txt" 2>/dev/null
  fi
  rgt_event stacks processes "${#pythons[@]}" \
    how "$([[ $got == 1 ]] && echo py-spy || echo faulthandler)"
}

rgt_end_stalled() {
  rgt_is_stalled || return 0
  rgt_stalled=true
  rgt_event stall reason "$rgt_stall_reason"
  rgt_log "stalled: $rgt_stall_reason"
  rgt_state
  rgt_take_stacks
  rgt_kill_program
}
