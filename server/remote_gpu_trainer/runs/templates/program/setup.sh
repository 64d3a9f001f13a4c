# Installs the environment file, once for a job.

# Fails with class, entry and reason set.
rgt_set_up() {
  local text code=0
  ((${#RGT_SETUP[@]})) || return 0
  printf -v text '%q ' "$RGT_JOB_SHA" "${RGT_SETUP[@]}"
  if [[ ! -e $RGT_RUN_DIR/setup.done || $(<"$RGT_RUN_DIR/setup.done") != "$text" ]]; then
    rgt_event setup
    rgt_log 'setup'
    exec {rgt_out}>"$RGT_RUN_DIR/log/setup.log"
    rgt_mask_log
    (
      trap - HUP INT QUIT TERM USR1 USR2 PIPE
      local front
      front=$(type -P setsid)
      rgt_child_environment
      cd -- "$RGT_WORK_DIR" || exit 126
      exec "$front" -- "${RGT_SETUP[@]}"
    ) >&"$rgt_out" 2>&1 </dev/null 9>&- {rgt_out}>&- &
    exec {rgt_out}>&-
    rgt_wait_stage "$!" || code=$?
    if ((code)); then
      rgt_log_first=0
      rgt_attempt_tail() { tail -c "$1" -- "$RGT_RUN_DIR/log/setup.log" 2>/dev/null; }
      rgt_ooms_before=1000000000
      rgt_exit=$code
      rgt_classify "$code"
      rgt_reason="setup: $rgt_reason (log/setup.log)"
      return 1
    fi
    rgt_write "$RGT_RUN_DIR/setup.done" "$text"
  fi
  return 0
}
