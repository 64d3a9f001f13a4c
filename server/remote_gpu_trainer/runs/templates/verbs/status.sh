# The verb status.

# Reads only. What could block (a dead mount) gets a tenth of a second.
rgt_status() {
  local alive=false keeper=false beat='' tail='' when size name rgt_j updated now text
  local -a lines=()
  rgt_read_last_state
  updated=${rgt_t:-0}
  # These stay as they were written, already quoted.
  rgt_field reason && rgt_reason_raw=$rgt_raw
  rgt_field expect_missing && rgt_missing_raw=$rgt_raw
  for name in "${rgt_ends[@]}"; do
    [[ -e $RGT_RUN_DIR/.$name && $rgt_phase != syncing ]] || continue
    rgt_phase=$name
    rgt_read_marker "$name"
  done
  rgt_runner_alive=false rgt_host=''
  rgt_alive runner && alive=true && [[ ${rgt_stat[0]} != [Tt] ]] && rgt_runner_alive=true
  rgt_alive train && alive=true
  rgt_alive keeper && keeper=true
  if [[ $alive == false ]] && rgt_is_elsewhere; then
    alive=$rgt_fresh rgt_runner_alive=$rgt_fresh rgt_elsewhere=true keeper=null
  fi
  printf -v now '%(%s)T' -1
  # The state is written with each beat, and by the checks that come before the first.
  if rgt_read_number "$RGT_RUN_DIR/heartbeat"; then
    beat=$((now - (rgt_number > updated ? rgt_number : updated)))
  fi
  rgt_log_files
  rgt_log_age=''
  if [[ -n $rgt_log_file ]]; then
    read -r -t 0.1 when < <(stat -c %Y -- "$rgt_log_file" 2>/dev/null) &&
      rgt_log_age=$((now > when ? now - when : 0))
    mapfile -t lines < <(tail -c 16384 -- "$rgt_log_file" 2>/dev/null | LC_ALL=C tr '\r' '\n' |
      LC_ALL=C tr -cd '\11\12\40-\176\200-\377' | { grep -a . || :; } | tail -n 40 | tail -c 4000)
    printf -v tail '%s\n' ${lines[@]+"${lines[@]}"}
  fi
  if [[ $alive == true && $rgt_phase == running && -n $rgt_log_age ]] &&
    ((RGT_STALL_LOG_SECONDS > 0 && rgt_log_age > RGT_STALL_LOG_SECONDS)); then
    rgt_stalled=true
  fi
  rgt_read_probe
  if [[ -z $rgt_free_mb ]] && [[ -d $RGT_RUN_DIR ]]; then
    while read -r -t 0.1 size; do [[ $size == [0-9]* ]] && rgt_free_mb=$((size / 1024)); done \
      < <(timeout 1 df -k --output=avail -- "$RGT_RUN_DIR" 2>/dev/null)
  fi
  rgt_read_number "$RGT_RUN_DIR/deadline" && rgt_deadline=$rgt_number
  [[ -n $rgt_boot ]] || rgt_boot_id
  rgt_t=$updated
  text=$(rgt_state_text $alive $keeper "$beat" "$tail")
  if [[ ${1:-} == --json ]]; then
    printf '%s\n' "$text"
    return
  fi
  rgt_state_line=$text
  for name in name phase alive runner_alive elsewhere host attempt step exit class entry reason \
    heartbeat_age log_age stalled gpu disk_free_mb last_sync deadline keeper_alive backstop log; do
    rgt_field "$name"
    printf '%-14s %s\n' "$name" "$rgt_text"
  done
  printf '%s' "$tail"
}

# What the marker says, where a full disk kept an older state.
rgt_read_marker() {
  local state=$rgt_state_line
  rgt_state_line=''
  { IFS= read -r rgt_state_line <"$RGT_RUN_DIR/.$1"; } 2>/dev/null
  if [[ $rgt_state_line == '{'*'}' ]]; then
    rgt_take_attempt
    rgt_field reason && rgt_reason_raw=$rgt_raw
  fi
  rgt_state_line=$state
}
