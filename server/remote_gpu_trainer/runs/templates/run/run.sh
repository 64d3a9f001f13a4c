# A run from its start to its end, in the foreground.

rgt_run() {
  local again=$1
  rgt_make_folders
  rgt_lock_run
  rgt_end_if_over "$again"
  exec 2>>"$RGT_RUN_DIR/log/runner.log"
  [[ $again != again ]] || rm -f -- "$RGT_RUN_DIR"/{.same-failure,last-failure,.unsaved}
  rgt_keep_script || exit 1
  rgt_set_deadline
  rgt_now
  if ((rgt_t >= rgt_deadline)); then
    rgt_refuse_start "the deadline of $RGT_NAME passed $((rgt_t - rgt_deadline)) s ago; \
render the script with a later one"
  fi
  rgt_set_traps
  rgt_started=$rgt_t
  rgt_begin
  rgt_boot_id
  rgt_event start boot "$rgt_boot" target "$RGT_TARGET" job "$RGT_JOB_SHA"
  rgt_end_orphans
  rgt_start_keeper
  rgt_note_results
  rgt_set_phase preflight
  { head -c 65536 /dev/zero >"$RGT_RUN_DIR/.spare"; } 2>/dev/null
  rgt_write_code_notes
  rgt_plan_sync
  rgt_finish_unsaved
  if ! rgt_preflight && [[ -z $rgt_asked ]]; then
    : >"$RGT_RUN_DIR/.refused"
    rgt_tell_refusals
    rgt_class=preflight
    case ${rgt_refusals[0]%%$'\t'*} in
      disk | inodes) rgt_class=disk ;;
      no-gpu | busy | held | kernel | driver) rgt_class=gpu ;;
    esac
    rgt_entry=${rgt_refusals[0]#*$'\t'} rgt_entry=${rgt_entry%%$'\t'*}
    rgt_reason="preflight: ${rgt_refusals[0]##*$'\t'}"
    rgt_finish failed
    rgt_leave refused
  fi
  if [[ -z $rgt_asked ]] && rgt_stage; then
    rgt_attempts
    rgt_tell_original
  elif [[ -n $rgt_asked ]]; then
    rgt_verdict preempted preempted "$rgt_asked"
  fi
  case $rgt_class in
    '') rgt_finish 'done' ;;
    preempted | deadline) rgt_finish preempted ;;
    *) rgt_finish failed ;;
  esac
  [[ $rgt_class != preempted ]] || rgt_requeue
  rgt_leave
}

# Ends with the code of how the run ended, else with the program's.
rgt_leave() {
  local end=${1:-${rgt_class:-done}}
  [[ $end != preempted || $rgt_asked != asked ]] || end=stopped
  [[ $rgt_exits =~ ([0-9]+)\ \ "$end"\  ]] && exit "${BASH_REMATCH[1]}"
  exit $((rgt_exit ? rgt_exit : 1))
}

# Ends the script where there is nothing to start; `resume` starts all the same.
rgt_end_if_over() {
  [[ $1 != again ]] || return 0
  if [[ -e $RGT_RUN_DIR/.done ]]; then
    echo "$RGT_NAME is already done; nothing was started (resume runs it again)"
    exit 0
  fi
  [[ ! -e $RGT_RUN_DIR/.same-failure ]] || {
    echo "$RGT_NAME failed twice at the same step; fix it, then: bash $rgt_self resume" >&2
    rgt_leave refused
  }
}

# The last run's end is forgotten, and whoever started this one is told.
rgt_begin() {
  # Before the old marker goes: nobody must take the last run's end for this one's.
  rgt_phase=preflight && rgt_state
  rm -f -- "$RGT_RUN_DIR"/{.done,.failed,.preempted,.refused,asked,notice,final-sync,quiet}
  rgt_write_pid runner "$$"
  : >"$RGT_RUN_DIR/start.begun"
}

rgt_finish() {
  rgt_outcome=$1
  # The box of a preempted run may go at any moment, so its marker comes first; the others wait for
  # the copy. The state before it: who sees the marker finds the reason there.
  if [[ $1 == preempted ]]; then
    rgt_state
    rgt_mark preempted
  fi
  rgt_finish_sync
  rgt_phase=$rgt_outcome
  rgt_state
  rgt_event "$rgt_phase" class "$rgt_class" entry "$rgt_entry" reason "$rgt_reason" exit "$rgt_exit"
  rgt_log "$rgt_phase${rgt_reason:+: $rgt_reason}"
  rgt_mark "$rgt_phase"
  rm -f -- "$RGT_RUN_DIR/runner.pid"
  [[ $1 == preempted ]] || rgt_notify "$rgt_phase${rgt_reason:+: $rgt_reason}"
}

rgt_refuse_start() {
  rgt_log "$1"
  rgt_write "$RGT_RUN_DIR/start.refused" "$1"$'\n'
  rgt_leave "${2:-refused}"
}
