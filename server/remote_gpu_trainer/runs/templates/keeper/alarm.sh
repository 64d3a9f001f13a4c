# The box after the deadline: stopped, or said to be still on.

: "${RGT_NOTIFY_EVERY:=600}" "${RGT_STILL_HERE:=120}"

# Where a scheduler takes the machine back, nothing goes on being billed after the run.
rgt_leaves_box() {
  [[ $RGT_TARGET != ssh && ! ($RGT_AT_END == stop && -n ${RGT_SELF_STOP:-}) ]] && rgt_ended_early
}

# The box stays although its time is over: said again and again, with a new try each time. Told to
# be quiet, it ends with 1: the box wasn't stopped.
rgt_keeper_alarm() {
  local until
  while :; do
    rgt_log "alarm: $1 ($rgt_why)"
    rgt_notify "$1: $rgt_why. The box is still on and may be billed: stop it yourself."
    rgt_uptime && until=$((rgt_up + RGT_NOTIFY_EVERY))
    while rgt_uptime && ((rgt_up < until)); do
      [[ ! -e $RGT_RUN_DIR/quiet ]] || exit 1
      rgt_nap 1
    done
    rgt_keeper_stop_box && rgt_why='it is still on after the stop command'
  done
}

# The stop command, then a wait for the end of everything. Comes back only when the box is still
# there, or at a failure.
rgt_keeper_stop_box() {
  local until
  rgt_self_stop || return 1
  rgt_log 'self-stop: the command was accepted'
  rgt_uptime && until=$((rgt_up + RGT_STILL_HERE))
  while rgt_uptime && ((rgt_up < until)); do rgt_nap 1; done
  return 0
}

# Where the run folder hangs (a dead network mount), so does the keeper. This one touches no file of
# it: a while after the deadline, unless the keeper has come as far as the stop itself, it stops the
# box.
rgt_last_resort() {
  exec >/dev/null 2>&1
  while :; do
    sleep 5
    # Where the keeper was killed and nobody replaces it, this one stays.
    rgt_same "$1" "$2" || { rgt_gone keeper && ! rgt_ended; } || exit 0
    rgt_uptime
    if ((rgt_up >= $3)); then break; fi
  done
  RGT_RUN_DIR=/nonexistent
  rgt_keeper_stop_box && rgt_why='it is still on after the stop command'
  rgt_keeper_alarm 'the deadline has passed, and the run folder does not answer'
}

rgt_start_last_resort() {
  rgt_read_stat "$$" || return 0
  rgt_last_resort "$$" "${rgt_stat[19]}" "$1" &
  rgt_resort=$!
}

# After the deadline `stop` ends the alarm. Leaves what it says of that in rgt_quiet.
rgt_quiet_alarm() {
  rgt_quiet=''
  rgt_read_number "$RGT_RUN_DIR/deadline" && rgt_deadline=$rgt_number
  rgt_now
  ((${rgt_deadline:-0} > 0 && rgt_t >= rgt_deadline)) || return 0
  : >"$RGT_RUN_DIR/quiet"
  rgt_quiet='; its alarm is off'
}

rgt_after_deadline() {
  [[ -z ${rgt_resort:-} ]] || kill "$rgt_resort" 2>/dev/null
  rgt_keeper_stop_box && rgt_why='it is still on after the stop command'
  rgt_keeper_alarm 'the deadline has passed'
}
