# A rehearsal: train, save, kill and resume in minutes, beside the run.

rgt_usage+=$'\n  rehearse       train, save, kill, resume in minutes, apart from the run'
for rgt_name in RGT_REHEARSE RGT_EXPECT; do
  declare -p "$rgt_name" >/dev/null 2>&1 || eval "$rgt_name=()"
done
: "${RGT_REHEARSE_MINUTES:=15}"

# A rehearsal is a run of its own beside the run: other state, other checkpoints, the same program
# for a few steps.
rgt_rehearse() {
  local code=0
  rgt_rehearse_phases || code=$?
  ! rgt_move_strays || code=1
  rgt_probe_tell
  rgt_set_aside
  ((code)) || rm -rf -- "$RGT_RUN_DIR"/checkpoints-*
  return "$code"
}

# The results that only the rehearsal wrote: the run must not take them for its own.
rgt_set_aside() {
  local path
  for path in ${rgt_aside[@]+"${rgt_aside[@]}"}; do
    [[ -e $path ]] || continue
    mkdir -p -- "$RGT_RUN_DIR/results" && rm -rf -- "$RGT_RUN_DIR/results/${path##*/}" &&
      mv -n -- "$path" "$RGT_RUN_DIR/results/" && rgt_event set-aside path "$path"
  done
}

rgt_rehearse_phases() {
  local given=$rgt_checkpoint_as_given at name kind begin limit
  local first='' first_id='' grew='' saved='' code took=0
  rgt_make_folders
  rgt_lock_run
  rgt_boot_id
  rgt_real=$RGT_CHECKPOINT_DIR
  RGT_RUN_DIR=$RGT_RUN_DIR/rehearsal
  RGT_CHECKPOINT_DIR=$RGT_RUN_DIR/checkpoints-$$
  rgt_self=$RGT_RUN_DIR/run.sh
  rgt_make_folders
  exec 2>>"$RGT_RUN_DIR/log/runner.log"
  rm -rf -- "$RGT_RUN_DIR"/checkpoints-* # of earlier rehearsals that failed
  mkdir -p -- "$RGT_CHECKPOINT_DIR"
  for at in "${!RGT_COMMAND[@]}"; do
    kind=word
    # `bash -c LINE`
    if ((at > 0)) && [[ ${RGT_COMMAND[at - 1]} == -*c && ${RGT_COMMAND[0]##*/} == *sh ]]; then
      kind=line
    fi
    rgt_swap_folders "${RGT_COMMAND[at]}" "$kind"
    RGT_COMMAND[at]=$rgt_text
  done
  for at in "${!RGT_ENV[@]}"; do
    rgt_swap_folders "${RGT_ENV[at]#*=}" line
    RGT_ENV[at]=${RGT_ENV[at]%%=*}=$rgt_text
  done
  for at in "${!RGT_EXPECT[@]}"; do
    rgt_swap_folders "${RGT_EXPECT[at]}" word
    RGT_EXPECT[at]=$rgt_text
  done
  rgt_extra=(${RGT_REHEARSE[@]+"${RGT_REHEARSE[@]}"})
  rgt_uptime && begin=$rgt_up
  limit=$((rgt_up + RGT_REHEARSE_MINUTES * 60))
  rgt_set_traps
  rm -f -- "$RGT_RUN_DIR/last-checkpoint"
  if ! rgt_preflight; then
    rgt_tell_refusals
    return 1
  fi
  for name in ${RGT_EXPECT[@]+"${RGT_EXPECT[@]}"}; do
    rgt_find_result "${name%/}"
    [[ -e $rgt_path || -L $rgt_path ]] || rgt_aside+=("$rgt_path")
  done
  rgt_note_results
  rgt_note_real
  rgt_probe_begin
  rgt_rehearse_launch
  while rgt_same "$rgt_program" "$rgt_program_start"; do
    rgt_nap 0.2
    rgt_uptime
    [[ -n $rgt_asked ]] && rgt_rehearse_fail train 'interrupted' && return 1
    rgt_has_strayed && rgt_kill_program && return 1
    if [[ -z $first ]]; then
      rgt_log_files
      [[ -s $rgt_log_file ]] && first=$rgt_up
    fi
    [[ -z $grew && -n $(ls -A -- "$RGT_CHECKPOINT_DIR" 2>/dev/null) ]] && grew=$rgt_up
    [[ -z $grew ]] || rgt_look_for_checkpoint
    if [[ -n $grew && -n $rgt_checkpoint ]]; then
      : "${saved:=$rgt_up}"
      rgt_probe_waits "$saved" || break
    fi
    ((rgt_up < limit)) ||
      { rgt_rehearse_fail save "no whole checkpoint in $RGT_REHEARSE_MINUTES minutes" && return 1; }
  done
  if [[ -z $rgt_checkpoint ]]; then
    rgt_look_for_checkpoint
    if [[ -z $rgt_checkpoint ]]; then
      rgt_reap
      rgt_rehearse_fail train \
        "ended with $rgt_program_code before the first checkpoint; see $RGT_RUN_DIR/log"
      return 1
    fi
  fi
  rgt_uptime
  printf 'ok train: first line after %s s\n' $((${first:-$rgt_up} - begin))
  : "${saved:=$rgt_up}"
  took=$((saved - ${grew:-$saved}))
  first_id=$rgt_checkpoint_id
  printf 'ok save: first whole checkpoint after %s s, a save takes %s s and %s MB: %s\n' \
    $((saved - begin)) "$took" \
    "$(du -sm -- "$rgt_checkpoint" 2>/dev/null | cut -f1)" "${rgt_checkpoint##*/}"
  rgt_kill_program
  rgt_reap
  printf 'ok kill: KILL, nothing left running\n'
  rgt_look_for_checkpoint
  first_id=$rgt_checkpoint_id
  rgt_uptime && begin=$rgt_up
  rgt_rehearse_launch
  while rgt_same "$rgt_program" "$rgt_program_start"; do
    rgt_nap 0.2
    rgt_uptime
    [[ -n $rgt_asked ]] && rgt_rehearse_fail resume 'interrupted' && return 1
    rgt_has_strayed && rgt_kill_program && return 1
    rgt_look_for_checkpoint
    [[ -n $rgt_checkpoint_id && $rgt_checkpoint_id != "$first_id" ]] && break
    ((rgt_up < limit)) || {
      rgt_rehearse_fail resume "no newer checkpoint in $RGT_REHEARSE_MINUTES minutes" && return 1
    }
  done
  if rgt_same "$rgt_program" "$rgt_program_start"; then
    rgt_kill_program
    rgt_reap
    printf 'ok resume: newer checkpoint after %s s: %s\n' \
      $((rgt_up - begin)) "${rgt_checkpoint##*/}"
    return 0
  fi
  rgt_reap
  code=$rgt_program_code
  rgt_look_for_checkpoint
  if ((code != 0)); then
    rgt_rehearse_fail resume "ended with $code; see $RGT_RUN_DIR/log"
    return 1
  fi
  printf 'ok resume: ran to its end in %s s\n' $((rgt_up - begin))
  rgt_missing_results
  if ((${#rgt_missing[@]})); then
    printf 'failed evaluate: missing %s%s\n' "${rgt_missing[*]}" \
      "${rgt_stale[*]:+; from before and not written again: ${rgt_stale[*]}}"
    return 1
  fi
  ((${#RGT_EXPECT[@]})) && printf 'ok evaluate: all expected files are there\n'
  return 0
}

rgt_rehearse_launch() {
  rgt_attempt=$((rgt_attempt + 1))
  rm -f -- "$RGT_RUN_DIR/save-now"
  rgt_choose_checkpoint
  rgt_resume_words
  rgt_with_arguments ${rgt_extra[@]+"${rgt_extra[@]}"} ${rgt_resume_with[@]+"${rgt_resume_with[@]}"}
  rgt_add_launcher
  rgt_launch
}

# With the end of what the program said: the log is on the box, and the reader often isn't.
rgt_rehearse_fail() {
  rgt_kill_program
  rgt_find_strays && return
  printf 'failed %s: %s\n' "$1" "$2"
  rgt_attempt_tail 16384 | LC_ALL=C tr '\r' '\n' | LC_ALL=C tr -cd '\11\12\40-\176\200-\377' |
    tail -n 20
}
