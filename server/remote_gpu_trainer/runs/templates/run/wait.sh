# Waits for what comes before the program.

rgt_wait_stage() {
  local pid=$1 start=''
  rgt_read_stat "$pid" && start=${rgt_stat[19]}
  while rgt_same "$pid" "$start"; do
    rgt_nap 0.2
    rgt_beat
    if [[ -n $rgt_asked && $rgt_asked != hangup && $rgt_asked != save ]]; then
      kill -TERM "$pid" 2>/dev/null
      rgt_nap 1
      rgt_kill_program
      kill -KILL "$pid" 2>/dev/null
      return 125
    fi
  done
  wait "$pid"
}
