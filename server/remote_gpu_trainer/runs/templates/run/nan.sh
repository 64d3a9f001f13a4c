# A loss that is no number any more.

: "${RGT_ON_NAN:=go-on}"

# Are the last three losses in the log nan? Said once, and the program ended if the job wants it:
# without a save, which would only keep what is spoilt.
rgt_look_for_nan() {
  local last
  [[ -z ${rgt_nan:-} && -n $rgt_log_file ]] || return 0
  last=$(rgt_attempt_tail 65536 |
    LC_ALL=C grep -aoiE "loss[\"' :=]{1,4}(tensor\\()?[-+.0-9a-z]+" | tail -n 3 | grep -ci 'nan$')
  ((last == 3)) || return 0
  rgt_nan="the loss is nan, first seen at step ${rgt_step:-unknown}"
  rgt_reason=$rgt_nan
  rgt_log "$rgt_nan"
  rgt_notify "$rgt_nan"
  [[ $RGT_ON_NAN != stop ]] || rgt_kill_program
}

# After the end it stands beside the reason, or is the reason.
rgt_judge_nan() {
  [[ -n ${rgt_nan:-} ]] || return 0
  if [[ $RGT_ON_NAN == stop && -z $rgt_asked ]]; then
    rgt_verdict nan '' "$rgt_nan"
  elif [[ $rgt_reason != "$rgt_nan" ]]; then
    rgt_reason+="; $rgt_nan"
  fi
}
