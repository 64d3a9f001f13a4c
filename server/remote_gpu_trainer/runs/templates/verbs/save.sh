# The verb save.

rgt_usage+=$'\n  save           save now, then continue'

rgt_save() {
  local until before
  rgt_alive train || {
    rgt_not_elsewhere && echo "$RGT_NAME is not running" >&2
    return 1
  }
  rgt_look_for_checkpoint
  before=$rgt_checkpoint_id
  rgt_save_now save
  rgt_uptime && until=$((rgt_up + RGT_SAVE_SECONDS))
  while rgt_uptime && ((rgt_up < until)); do
    rgt_look_for_checkpoint
    if [[ $rgt_checkpoint_id != "$before" ]]; then
      rm -f -- "$RGT_RUN_DIR/save-now"
      echo "saved $rgt_checkpoint"
      return 0
    fi
    rgt_nap 0.3
  done
  rm -f -- "$RGT_RUN_DIR/save-now"
  echo "no new checkpoint within $RGT_SAVE_SECONDS s" >&2
  return 1
}
