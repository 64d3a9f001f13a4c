# The clock of the box beside the one of the machine that starts the run.

rgt_check_sender_clock() {
  local off
  [[ $rgt_sent_at == [0-9]* ]] || return 0
  off=$((rgt_t - ${rgt_sent_at%%.*}))
  ((off > 300 || off < -300)) &&
    rgt_refuse clock "the clock differs from the sender's by $off s, more than 300"
  return 0
}
