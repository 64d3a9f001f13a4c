# The keeper of the deadline: a process of its own beside the runner.

rgt_start_keeper() {
  # A cell of a queue has the queue's keeper.
  [[ $RGT_KEEPER != off ]] || return 0
  rgt_alive keeper && kill -KILL "$rgt_pid" 2>/dev/null
  # By both clocks as they were at the start: a later keeper must not count from a clock that was
  # set back, nor from a file that a full disk lost.
  if [[ -z ${rgt_keep_up:-} ]]; then
    rgt_now && rgt_uptime
    rgt_keep_until=$rgt_deadline rgt_keep_up=$((rgt_up + rgt_deadline - rgt_t + 1))
  fi
  (
    trap '' HUP INT USR1 USR2
    trap - TERM PIPE
    cd /
    export RGT_UMASK RGT_NODE_RANK=$rgt_rank rgt_keep_until rgt_keep_up
    exec setsid bash "$rgt_self" keeper
  ) </dev/null >>"$RGT_RUN_DIR/log/keeper.log" 2>&1 9>&- 8>&- &
  local pid=$!
  rgt_write_pid keeper "$pid"
}

# Asks runner and program to save: the runner by signal, and itself when the runner is dead, stopped
# or hung.
rgt_keeper_ask() {
  [[ -s $RGT_RUN_DIR/asked ]] || rgt_write "$RGT_RUN_DIR/asked" "$1"$'\n'
  if rgt_alive runner; then
    kill -TERM "$rgt_pid" 2>/dev/null
    rgt_within 2 test -e "$RGT_RUN_DIR/save-now" && return
  fi
  rgt_alive train && rgt_save_now "$1"
  return 0
}

# Ends the program at the deadline, and a runner that doesn't notice. The marker is there
# afterwards.
rgt_keeper_end_run() {
  rgt_kill_program && rgt_event killed why deadline
  rgt_stop_sync
  rgt_within 4 rgt_is_over
  if rgt_alive runner; then
    kill -KILL "$rgt_pid" 2>/dev/null
    # A runner that was between two attempts may just have started one.
    rgt_kill_program
  fi
  rgt_ended && return
  rgt_read_last_state
  rgt_class=deadline rgt_reason=deadline rgt_exit=137
  rgt_entry_of preempted && rgt_entry=$rgt_id
  rgt_mark preempted
  rgt_phase=preempted
  rgt_state
}

rgt_is_over() { rgt_ended || rgt_gone runner; }

rgt_keeper() {
  local asked=0 monotonic save=$RGT_SAVE_SECONDS end='' left wide
  exec </dev/null
  trap '' HUP
  { echo -500 >/proc/self/oom_score_adj; } 2>/dev/null
  rgt_write_pid keeper "$$"
  rgt_now && rgt_uptime
  # From the runner that started this keeper. Either clock ends the run: one may be set back, the
  # other stands still in a suspended machine.
  rgt_deadline=$rgt_keep_until monotonic=$rgt_keep_up
  wide=$((rgt_deadline - rgt_t > save))
  rgt_start_last_resort $((monotonic + 48))
  while :; do
    rgt_nap 1
    rgt_now && rgt_uptime
    left=$((rgt_deadline - rgt_t < monotonic - rgt_up ? rgt_deadline - rgt_t : monotonic - rgt_up))
    if [[ -z $end ]] && ((left <= save)); then
      # A clock that jumped, or a machine that slept, over the whole time for the save takes none
      # of it away: it is counted from here.
      end=$((rgt_up + (wide ? save : left)))
    fi
    if [[ -n $end ]] && ((rgt_up >= end)); then break; fi
    wide=$((left > save))
    if rgt_ended; then
      rgt_keeper_after_end && exit 0
      continue
    fi
    rgt_look_for_runner
    if [[ -n $end ]] && ((!asked)); then
      asked=1
      rgt_log 'deadline: asking to save'
      rgt_keeper_ask deadline
    fi
    ((asked)) || rgt_pass_notice_on
  done
  rgt_log 'deadline reached'
  rgt_event deadline
  if ! rgt_ended || rgt_alive runner; then rgt_keeper_end_run; fi
  rgt_sync_is_whole || rgt_keeper_sync 20
  rgt_leaves_box && exit 0
  rgt_after_deadline
}

rgt_ended_early() {
  ! rgt_alive runner &&
    [[ ! -e $RGT_RUN_DIR/asked || $(<"$RGT_RUN_DIR/asked") != deadline ]]
}
