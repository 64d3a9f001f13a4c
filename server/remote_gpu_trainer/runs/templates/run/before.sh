# What comes before the program: the environment file, data, checkpoints.

# Environment file and data, before the first attempt. Fails with class, entry and reason set.
rgt_stage() {
  local mark=$RGT_RUN_DIR/.stage-mark
  rgt_set_phase staging
  rgt_set_up || return 1
  : >"$mark"
  rgt_stage_data "$mark" || return 1
  rgt_restore "$mark" || return 1
  rm -f -- "$mark"
}

rgt_wait_stage() {
  local pid=$1 start=''
  rgt_read_stat "$pid" && start=${rgt_stat[19]}
  while rgt_same "$pid" "$start"; do
    rgt_nap 0.2
    rgt_beat
    if [[ -n $rgt_asked ]]; then
      kill -TERM "$pid" 2>/dev/null
      rgt_nap 1
      rgt_kill_program
      kill -KILL "$pid" 2>/dev/null
      return 125
    fi
  done
  wait "$pid"
}
