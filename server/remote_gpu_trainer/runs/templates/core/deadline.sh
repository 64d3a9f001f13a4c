# The deadline: absolute, and written once.

# Absolute, written once; only a script with another deadline counts anew, from the same first
# start.
rgt_set_deadline() {
  local first='' spec=''
  { IFS=$'\t' read -r first spec <"$RGT_RUN_DIR/deadline.from"; } 2>/dev/null
  rgt_now
  if rgt_read_number "$RGT_RUN_DIR/deadline.from"; then
    first=$rgt_number
  else
    first=$rgt_t spec=''
  fi
  if [[ $spec == "$RGT_DEADLINE" ]] && rgt_read_number "$RGT_RUN_DIR/deadline"; then
    rgt_deadline=$rgt_number
    return
  fi
  if [[ $RGT_DEADLINE =~ ^hours:([0-9]+)(\.([0-9]+))?$ ]]; then
    local part=${BASH_REMATCH[3]:-}000000
    rgt_deadline=$((first + 10#${BASH_REMATCH[1]} * 3600 + 10#${part:0:6} * 3600 / 1000000))
  elif [[ $RGT_DEADLINE =~ ^(at:)?([0-9]+)$ ]]; then
    rgt_deadline=${BASH_REMATCH[2]}
  else
    rgt_refuse_start "RGT_DEADLINE is '$RGT_DEADLINE'; use hours:N or at:EPOCH" usage
  fi
  rgt_write "$RGT_RUN_DIR/deadline.from" "$first"$'\t'"$RGT_DEADLINE"$'\n'
  rgt_write "$RGT_RUN_DIR/deadline" "$rgt_deadline"$'\n'
}
