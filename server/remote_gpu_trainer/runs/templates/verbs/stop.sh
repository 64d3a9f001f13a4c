# The verb stop.

rgt_stop() {
  if rgt_alive runner; then
    rgt_write "$RGT_RUN_DIR/asked" "asked"$'\n'
    kill -TERM "$rgt_pid"
    rgt_within $((RGT_SAVE_SECONDS + 30)) rgt_gone runner || {
      echo "$RGT_NAME is still saving or syncing; the deadline still applies" >&2
      return 1
    }
  elif rgt_alive train; then
    # The runner is gone; its program is not.
    rgt_make_folders
    rgt_end_orphans
    rgt_read_last_state
    rgt_class=preempted rgt_reason=asked rgt_entry='' rgt_exit=''
    rgt_mark preempted
  else
    rgt_quiet_alarm
    rgt_not_elsewhere || return
    echo "$RGT_NAME is not running$rgt_quiet"
    return
  fi
  echo "$RGT_NAME has stopped"
}
