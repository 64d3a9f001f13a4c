# Data that come before the first attempt.

# Fails with class, entry and reason set. $1: the mark of rgt_copy.
rgt_stage_data() {
  local at mark=$1
  for ((at = 0; at + 1 < ${#RGT_STAGE[@]}; at += 2)); do
    rgt_log "staging ${RGT_STAGE[at]}"
    rgt_home "${RGT_STAGE[at]}" && rgt_from=$rgt_path
    rgt_home "${RGT_STAGE[at + 1]}" && rgt_to=$rgt_path
    [[ $rgt_to == /* ]] || rgt_to=$RGT_WORK_DIR/$rgt_to
    # A bucket's tools copy an address that names nothing, or one object, and say nothing.
    if ! rgt_fetch "$rgt_from" "$rgt_to" "$mark" || {
      [[ $rgt_from != /* && -z $(find "$rgt_to" -type f -print -quit 2>/dev/null) ]] &&
        rgt_detail='no file came; name a folder'
    }; then
      rgt_verdict network '' "staging ${RGT_STAGE[at]} failed: $rgt_detail"
      rgt_said_disk_in "$rgt_detail" &&
        rgt_verdict disk disk "staging ${RGT_STAGE[at]}: no room left"
      return 1
    fi
  done
}

rgt_said_disk_in() { [[ $1 == *'No space left'* || $1 == *'quota exceeded'* ]]; }
