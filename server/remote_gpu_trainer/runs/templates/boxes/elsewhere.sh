# A run folder that several machines see.

# Does the run go on by its last state, which was written on another machine that sees this folder?
# Its processes can't be seen from here. Leaves its name in rgt_host, the age of its last sign of
# life in rgt_age, and whether that is young in rgt_fresh.
rgt_is_elsewhere() {
  local host boot here last=0 limit=$((5 * RGT_HEARTBEAT + 120))
  [[ $rgt_phase == @(preflight|staging|running|saving|syncing) ]] && ! rgt_ended || return 1
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
  rgt_is_elsewhere || return 0
  if [[ $rgt_fresh == true ]]; then
    echo "$RGT_NAME runs on $rgt_host; do it there, or with its scheduler (scancel)" >&2
  else
    echo "$RGT_NAME ran on $rgt_host, last seen $rgt_age s ago;" \
      "this box can't tell whether it still runs" >&2
  fi
  return 1
}
