# One attempt, and what follows it.

# Serves save requests and stalls until the program has ended.
rgt_watch() {
  local kill_at=''
  rgt_uptime
  rgt_log_at=$rgt_up rgt_step_at=$rgt_up rgt_power_at=$rgt_up rgt_beat_at=-1000
  while rgt_same "$rgt_program" "$rgt_program_start"; do
    rgt_nap 0.4
    rgt_beat
    if [[ -n $rgt_asked && -z $kill_at ]]; then
      rgt_note_owed
      rgt_set_phase saving
      rgt_save_now "$rgt_asked"
      kill_at=$((rgt_up + RGT_SAVE_SECONDS))
    fi
    if [[ -n $kill_at ]] && ((rgt_up >= kill_at)); then
      rgt_event killed why "not ended $RGT_SAVE_SECONDS s after the save signal"
      rgt_kill_program
    elif [[ -z $kill_at ]]; then
      rgt_end_stalled
    fi
  done
}

# One attempt. Leaves class, entry, reason, exit; class '' is success.
rgt_try() {
  rgt_read_number "$RGT_RUN_DIR/attempt"
  rgt_attempt=$((${rgt_number:-0} + 1))
  rgt_write "$RGT_RUN_DIR/attempt" "$rgt_attempt"$'\n'
  rm -f -- "$RGT_RUN_DIR/save-now"
  rgt_stalled=false rgt_class='' rgt_entry='' rgt_reason='' rgt_exit='' rgt_stall_reason=''
  rgt_owed=() rgt_nan=''
  rgt_begin_with_checkpoint
  rgt_held=$rgt_checkpoint_id
  ((rgt_attempt > 1)) || rgt_trust_later_results
  rgt_resume_words
  rgt_with_arguments ${rgt_extra[@]+"${rgt_extra[@]}"} ${rgt_resume_with[@]+"${rgt_resume_with[@]}"}
  rgt_add_launcher
  rgt_count_ooms
  rgt_ooms_before=$rgt_ooms
  rgt_note_xids
  rgt_launch
  rgt_event attempt attempt "$rgt_attempt" resume "$rgt_checkpoint" log "$rgt_log_first"
  rgt_log "attempt $rgt_attempt${rgt_checkpoint:+ from $rgt_checkpoint}"
  rgt_set_phase running
  rgt_watch
  rgt_reap
  rgt_exit=$rgt_program_code
  rgt_log_files
  [[ -z $rgt_log_file ]] || rgt_find_step
  rgt_look_for_nan
  rgt_missing_results
  if [[ $rgt_exit == 0 && $rgt_stalled == false ]] &&
    [[ -z $rgt_asked || (${#rgt_missing[@]} == 0 && ${#rgt_owed[@]} -gt 0) ]]; then
    rgt_asked=''
    rgt_judge_end
  else
    rgt_classify "$rgt_exit"
  fi
  rgt_judge_nan
  rgt_event ended attempt "$rgt_attempt" exit "$rgt_exit" \
    class "$rgt_class" entry "$rgt_entry" reason "$rgt_reason" step "$rgt_step"
  [[ -z $rgt_class ]] ||
    rgt_log "ended: $rgt_class${rgt_entry:+ ($rgt_entry)}: $rgt_reason, exit $rgt_exit, \
step ${rgt_step:-unknown}"
}

# For a wait between two tries.
rgt_beat_until_asked() {
  rgt_beat
  [[ -n $rgt_asked ]]
}

# May this class be tried again? Counts what was used up in this start.
rgt_may_retry() {
  local pair used most=0
  for pair in "${rgt_retry_defaults[@]}" ${RGT_RETRY[@]+"${RGT_RETRY[@]}"}; do
    [[ ${pair%%=*} == "$1" ]] && most=${pair#*=}
  done
  rgt_uptime
  rgt_tries+=("$rgt_up")
  used=$((${#rgt_tries[@]} - RGT_TRIES_AN_HOUR - 1))
  if ((used >= 0 && rgt_up - rgt_tries[used] < 3600)); then
    rgt_reason+="; $RGT_TRIES_AN_HOUR tries within an hour"
    return 1
  fi
  used=$((${rgt_used[$1]:-0} + 1))
  rgt_used[$1]=$used
  if ((used > most)); then
    ((most > 0)) && rgt_reason+="; $most retries are used up"
    return 1
  fi
}

# The first failure of a chain of tries that came no further: no newer checkpoint, no higher step.
rgt_note_original() {
  [[ $rgt_class != preempted && $rgt_exit != 0 ]] || return 0
  if ((${#rgt_original[@]} && ${rgt_step:-0} <= ${rgt_original[5]:-0})); then
    [[ $rgt_checkpoint_id != "${rgt_original[4]}" ]] || return 0
  fi
  rgt_original=("$rgt_class" "$rgt_entry" "$rgt_reason" "$rgt_exit"
    "$rgt_checkpoint_id" "$rgt_step")
}

# A retry that fails in another way must not hide why the run failed at first.
rgt_tell_original() {
  [[ -n ${rgt_original[0]:-} && $rgt_class != @(|preempted|deadline|"${rgt_original[0]}") ]] ||
    return 0
  rgt_reason="${rgt_original[2]}; then $rgt_class${rgt_entry:+ ($rgt_entry)}: $rgt_reason"
  rgt_class=${rgt_original[0]} rgt_entry=${rgt_original[1]} rgt_exit=${rgt_original[3]}
}

rgt_attempts() {
  local before wait now
  declare -gA rgt_used=()
  rgt_original=() rgt_tries=()
  while :; do
    rgt_try
    [[ -z $rgt_class ]] && {
      rm -f -- "$RGT_RUN_DIR/last-failure"
      return
    }
    [[ -z $rgt_asked ]] || return 0
    # A newer whole checkpoint is progress: then the same failure may come again, and what was tried
    # before counts no more.
    rgt_doubt_checkpoint && continue
    rgt_note_original
    [[ -z $rgt_checkpoint_id || $rgt_checkpoint_id == "$rgt_held" ]] || rgt_used=()
    now="$rgt_class ${rgt_step:-none} $rgt_checkpoint_id" before=''
    { IFS= read -r before <"$RGT_RUN_DIR/last-failure"; } 2>/dev/null
    # A lost peer is the other node's failure.
    if [[ $rgt_class != preempted && ! ($rgt_class == network && $RGT_NODES -gt 1) ]]; then
      rgt_write "$RGT_RUN_DIR/last-failure" "$now"$'\n'
      if [[ $now == "$before" ]]; then
        rgt_reason+="; the same failure at the same step twice, with no newer checkpoint between"
        : >"$RGT_RUN_DIR/.same-failure"
        return
      fi
    fi
    rgt_may_retry "$rgt_class" || return 0
    wait=$RGT_RETRY_WAIT
    [[ $rgt_class == preempted ]] && wait=0
    [[ $rgt_class == network ]] && wait=$((wait * 4 * ${rgt_used[network]}))
    ((wait > 300)) && wait=300
    rgt_event retry class "$rgt_class" after "$wait"
    rgt_within "$wait" rgt_beat_until_asked && {
      rgt_verdict preempted preempted "$rgt_asked"
      return
    }
  done
}
