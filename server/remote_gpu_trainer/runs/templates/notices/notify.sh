# Messages to the user, by the job's own command.

declare -p RGT_NOTIFY >/dev/null 2>&1 || RGT_NOTIFY=()

# Once a second: tells when the runner goes without a word.
rgt_look_for_runner() {
  if rgt_alive runner; then
    rgt_was_alive=1
  elif ((${rgt_was_alive:-0})); then
    rgt_was_alive=0
    # A marker may have come between the two looks.
    rgt_nap 1
    rgt_ended || rgt_notify 'the runner is gone without a marker; start it again'
  fi
}

rgt_notify() {
  local message="$RGT_NAME on ${HOSTNAME:-this box}: $1"
  rgt_event notify message "$message"
  ((${#RGT_NOTIFY[@]})) || return 0
  (
    rgt_load_secrets
    export RGT_MESSAGE=$message
    cd /
    printf '%s\n' "$message" | timeout -k 2 30 "${RGT_NOTIFY[@]}"
  ) >/dev/null 2>&1 9>&- 8>&- &
}
