# state.json and the markers of a run's end.

# All keys of `status --json`, from variables; the tail is left to the reader.
rgt_state_text() {
  local rgt_j out alive=$1 keeper=$2 beat=$3 tail=$4
  rgt_json "$RGT_NAME" && out="{\"name\":$rgt_j"
  out+=",\"phase\":\"$rgt_phase\",\"alive\":$alive,\"attempt\":$rgt_attempt"
  out+=",\"step\":${rgt_step:-null},\"exit\":${rgt_exit:-null}"
  rgt_cause_text && out+=$rgt_cause
  out+=",\"started\":$rgt_started,\"updated\":$rgt_t"
  out+=",\"heartbeat_age\":${beat:-null},\"log_age\":${rgt_log_age:-null}"
  rgt_json "${rgt_log_file:-}" && out+=",\"log\":$rgt_j"
  out+=",\"deadline\":${rgt_deadline:-0},\"keeper_alive\":$keeper,\"stalled\":$rgt_stalled"
  if [[ -n ${rgt_gpu:-} ]]; then rgt_json "$rgt_gpu"; else rgt_j=null; fi
  out+=",\"gpu\":$rgt_j,\"disk_free_mb\":${rgt_free_mb:-null},\"backstop\":\"$rgt_backstop\""
  rgt_last_sync
  out+=",\"last_sync\":$rgt_j"
  out+=",\"runner_alive\":$rgt_runner_alive,\"elsewhere\":$rgt_elsewhere"
  [[ -n ${rgt_host:-} ]] || rgt_find_host
  rgt_json "$rgt_host" && out+=",\"host\":$rgt_j"
  rgt_json "$rgt_boot" && out+=",\"boot_id\":$rgt_j"
  rgt_json "$tail" && out+=",\"tail\":$rgt_j"
  rgt_missing_text
  printf '%s,"expect_missing":%s}\n' "$out" "${rgt_missing_raw:-$rgt_j}"
}

# Class, entry and reason, in rgt_cause.
rgt_cause_text() {
  local rgt_j
  rgt_json "$rgt_class" && rgt_cause=",\"class\":$rgt_j"
  rgt_json "$rgt_entry" && rgt_cause+=",\"entry\":$rgt_j"
  rgt_json "$rgt_reason" && rgt_cause+=",\"reason\":${rgt_reason_raw:-$rgt_j}"
}

rgt_state() {
  local keeper=false
  rgt_now
  rgt_alive keeper && keeper=true
  rgt_read_probe
  rgt_write "$RGT_RUN_DIR/state.json" "$(rgt_state_text true $keeper 0 '')"$'\n'
}

rgt_set_phase() {
  rgt_phase=$1
  rgt_state
  rgt_event phase phase "$1"
}

# What the background probe wrote last: free megabytes, then a short text about the cards.
rgt_read_probe() {
  rgt_free_mb='' rgt_gpu=''
  { read -r rgt_free_mb rgt_gpu <"$RGT_RUN_DIR/probe"; } 2>/dev/null
  if [[ $rgt_free_mb == *[!0-9]* ]]; then rgt_free_mb=''; fi
  return 0
}

rgt_ends=('done' failed preempted unsaved)

# A full disk must not hide the end of a run: 64 KB are kept back for it, and a name needs no block.
rgt_mark() {
  local text name
  rgt_now
  rgt_cause_text
  text="{\"t\":$rgt_t,\"exit\":${rgt_exit:-null}$rgt_cause"
  text+=",\"step\":${rgt_step:-null},\"attempt\":$rgt_attempt}"$'\n'
  if ! rgt_write "$RGT_RUN_DIR/.$1" "$text"; then
    rm -f -- "$RGT_RUN_DIR/.spare"
    rgt_write "$RGT_RUN_DIR/.$1" "$text" || : >"$RGT_RUN_DIR/.$1"
  fi
  for name in "${rgt_ends[@]}"; do
    [[ $name == "$1" ]] || rm -f -- "$RGT_RUN_DIR/.$name"
  done
}

rgt_ended() {
  local name
  for name in "${rgt_ends[@]}"; do [[ ! -e $RGT_RUN_DIR/.$name ]] || return 0; done
  return 1
}
