# The verb stop.

rgt_stop() {
  local until
  if rgt_alive "$RGT_RUN_DIR/runner.pid"; then
    rgt_write "$RGT_RUN_DIR/asked" "asked"$'\n'
    kill -TERM "$rgt_pid"
    rgt_uptime && until=$((rgt_up + RGT_SAVE_SECONDS + 30))
    while rgt_alive "$RGT_RUN_DIR/runner.pid" && rgt_uptime && ((rgt_up < until)); do rgt_nap 0.2; done
    rgt_alive "$RGT_RUN_DIR/runner.pid" && {
      echo "$RGT_NAME is still saving or syncing; the deadline holds" >&2
      return 1
    }
    echo "$RGT_NAME has stopped"
    return 0
  fi
  if rgt_alive "$RGT_RUN_DIR/train.pid"; then
    # The runner is gone; its program is not.
    rgt_make_folders
    rgt_end_orphans
    rgt_read_last_state
    rgt_class=preempted rgt_reason=asked rgt_entry='' rgt_exit=''
    rgt_mark preempted
    echo "$RGT_NAME has stopped"
    return 0
  fi
  rgt_read_number "$RGT_RUN_DIR/deadline" && rgt_deadline=$rgt_number
  rgt_now
  if ((${rgt_deadline:-0} > 0 && rgt_t >= rgt_deadline)); then
    : >"$RGT_RUN_DIR/quiet"
    rgt_not_elsewhere || return
    echo "$RGT_NAME is not running; its alarm is off"
  else
    rgt_not_elsewhere || return
    echo "$RGT_NAME is not running"
  fi
}
