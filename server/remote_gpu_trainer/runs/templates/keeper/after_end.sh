# The box after the end of a run that came before its deadline.

# The run ended before its deadline. 0: nothing is left to keep.
rgt_keeper_after_end() {
  rgt_alive runner && return 1
  rgt_leaves_box && return 0
  [[ $RGT_AT_END == stop && ! -e $RGT_RUN_DIR/.preempted && ! -e $RGT_RUN_DIR/.refused ]] ||
    return 1
  if ! rgt_sync_is_whole; then
    # The data are here only: keep the box, say so, try again until the deadline.
    ((rgt_up - ${rgt_alarm_at:--100000} >= RGT_NOTIFY_EVERY)) || return 1
    rgt_alarm_at=$rgt_up
    rgt_notify "ended, but the copy to $RGT_DURABLE is not verified; \
the box stays on until the deadline"
    ((rgt_deadline - rgt_t > 40)) || return 1
    rgt_keeper_sync \
      $((rgt_deadline - rgt_t - 30 < 3600 ? rgt_deadline - rgt_t - 30 : 3600)) || return 1
    rgt_now
    rgt_write "$RGT_RUN_DIR/final-sync" "$rgt_t true"$'\n'
  fi
  ((rgt_up - ${rgt_stop_at:--100000} >= RGT_NOTIFY_EVERY)) || return 1
  rgt_uptime
  rgt_stop_at=$rgt_up
  rgt_keeper_stop_box && rgt_why='it is still on after the stop command'
  rgt_notify "the run ended: $rgt_why. The box is still on and may be billed: stop it yourself."
  return 1
}
