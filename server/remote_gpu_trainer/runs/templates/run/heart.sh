# Heartbeat, step and free room.

# What may hang (df, nvidia-smi) runs apart and is read when it is there.
rgt_probe() {
  local free
  rgt_gpu_hot='' rgt_gpu_text=''
  rgt_room "$RGT_RUN_DIR"
  free=$rgt_kb
  rgt_room "${RGT_CHECKPOINT_DIR:-$RGT_RUN_DIR}"
  free=$(printf '%s\n' $free $rgt_kb | sort -n | head -n 1)
  [[ -z $free ]] || free=$((free / 1024))
  rgt_probe_gpus
  rgt_write "$RGT_RUN_DIR/probe" "${free:--} $rgt_gpu_text"$'\n'"${rgt_gpu_hot:-0}"$'\n'
}

rgt_start_probe() {
  rgt_same "${rgt_probe_pid:-}" "${rgt_probe_start:-}" && return 0
  rgt_probe </dev/null >/dev/null 2>&1 9>&- &
  rgt_probe_pid=$!
  rgt_read_stat "$rgt_probe_pid" && rgt_probe_start=${rgt_stat[19]}
  rgt_probe_at=$rgt_up
}

rgt_find_step() {
  local match
  [[ -n $RGT_STEP_PATTERN ]] || return 0
  match=$(tail -c 65536 -- "$rgt_log_file" 2>/dev/null |
    LC_ALL=C grep -aoE -e "$RGT_STEP_PATTERN" 2>/dev/null | tail -n 1)
  [[ $match =~ ([0-9]+)[^0-9]*$ ]] || return 0
  match=$((10#${BASH_REMATCH[1]}))
  [[ $match == "$rgt_step" ]] && return 0
  rgt_step=$match
  rgt_step_at=$rgt_up
}

# Once a heartbeat: what grew, where the run is, and the files that say so.
rgt_beat() {
  local size when
  rgt_uptime
  ((rgt_up - ${rgt_beat_at:--1000} >= RGT_HEARTBEAT)) || return 0
  rgt_beat_at=$rgt_up
  rgt_log_files
  if [[ -n $rgt_log_file ]] &&
    read -r size when < <(stat -c '%s %Y' -- "$rgt_log_file" 2>/dev/null); then
    if [[ "$rgt_log_file $size $when" != "${rgt_log_seen:-}" ]]; then
      rgt_log_seen="$rgt_log_file $size $when" rgt_log_at=$rgt_up
      rgt_find_step
      rgt_look_for_nan
    fi
    rgt_now
    rgt_log_age=$((rgt_t > when ? rgt_t - when : 0))
  fi
  ((rgt_up - ${rgt_probe_at:--100000} >= 6 * RGT_HEARTBEAT)) && rgt_start_probe
  # One that was stopped keeps nothing.
  { rgt_alive keeper && [[ ${rgt_stat[0]} != [Tt] ]]; } || rgt_start_keeper
  rgt_now
  rgt_write "$RGT_RUN_DIR/heartbeat" "$rgt_t"$'\n'
  rgt_state
  rgt_note_checkpoint
  rgt_beat_sync
}
