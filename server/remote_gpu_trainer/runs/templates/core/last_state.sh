# state.json as the last runner wrote it, for those who only read it.

# Fields of state.json, for the verbs that only read it.
rgt_field() {
  local pattern="\"$1\":(\"([^\"\\\\]|\\\\.)*\"|\\[[^]]*\\]|\\{[^}]*\\}|[^,}]*)"
  rgt_raw=''
  [[ $rgt_state_line =~ $pattern ]] && rgt_raw=${BASH_REMATCH[1]}
  rgt_text=${rgt_raw#\"} rgt_text=${rgt_text%\"}
  [[ $rgt_raw == null ]] && rgt_text=''
  return 0
}

rgt_number_field() {
  rgt_field "$1"
  if [[ -z $rgt_text || $rgt_text == *[!0-9]* || ${#rgt_text} -gt 18 ]]; then rgt_text=$2; fi
}

rgt_read_last_state() {
  rgt_state_line=''
  { IFS= read -r rgt_state_line <"$RGT_RUN_DIR/state.json"; } 2>/dev/null
  [[ -n $rgt_state_line ]] || return 0
  rgt_field phase && rgt_phase=$rgt_text
  rgt_number_field attempt 0 && rgt_attempt=$rgt_text
  rgt_number_field step '' && rgt_step=$rgt_text
  rgt_number_field exit '' && rgt_exit=$rgt_text
  rgt_field class && rgt_class=$rgt_text
  rgt_field entry && rgt_entry=$rgt_text
  rgt_number_field started 0 && rgt_started=$rgt_text
  rgt_number_field updated 0 && rgt_t=$rgt_text
  rgt_field boot_id && rgt_boot=$rgt_text
  rgt_field stalled && rgt_stalled=${rgt_text:-false}
  rgt_number_field deadline 0 && rgt_deadline=$rgt_text
}

rgt_is_going() { [[ $rgt_phase == @(preflight|staging|running|saving|syncing) ]] && ! rgt_ended; }

# Was the last state written on another machine that sees this folder? Its processes can't be seen from here. Leaves its name in
# rgt_host, the age of its last sign of life in rgt_age, and whether that is young in rgt_fresh.
rgt_is_elsewhere() {
  local host boot here last=0 limit=$((5 * RGT_HEARTBEAT + 120))
  rgt_field host && host=$rgt_text
  rgt_field boot_id && boot=$rgt_text
  rgt_find_host && here=$rgt_host
  [[ -n $host && -n $boot ]] || return 1
  rgt_number_field updated 0 && last=$rgt_text
  if rgt_read_number "$RGT_RUN_DIR/heartbeat" && ((rgt_number > last)); then last=$rgt_number; fi
  rgt_now && rgt_uptime
  if [[ $host == "$here" ]]; then
    rgt_boot_id
    # The same name after a boot is the same machine, unless it has moved since then.
    if [[ $boot == "$rgt_boot" ]] || ((last <= rgt_t - rgt_up)); then
      rgt_boot=$boot
      return 1
    fi
    rgt_boot=$boot
  fi
  rgt_host=$host rgt_age=$((rgt_t > last ? rgt_t - last : 0)) rgt_fresh=false
  # The checks before the start have no beat, and a network folder shows files late.
  [[ $rgt_phase != preflight && $rgt_phase != staging ]] || limit=$((limit + 600))
  ((rgt_age > limit)) || rgt_fresh=true
}

# Fails, with a text, where the run's processes are on another machine and may live.
rgt_not_elsewhere() {
  rgt_read_last_state
  rgt_is_going && rgt_is_elsewhere || return 0
  if [[ $rgt_fresh == true ]]; then
    echo "$RGT_NAME runs on $rgt_host: do it there, or by its scheduler (scancel)" >&2
  else
    echo "$RGT_NAME ran on $rgt_host, last heard of $rgt_age s ago; whether it still runs can't be seen from here" >&2
  fi
  return 1
}
