# A step that stands still.

rgt_step_waits() {
  ((rgt_up - rgt_step_at >= RGT_STALL_STEP_SECONDS)) || return 1
  rgt_stall_reason="step ${rgt_step:-none} for $((rgt_up - rgt_step_at)) s"
}
