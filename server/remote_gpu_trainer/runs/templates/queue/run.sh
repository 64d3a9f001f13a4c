# The queue as a run.

# In the foreground, as rgt_run is for one run. Ends with 0: every cell of this box is done; 1:
# cells failed, or this box can't go on; 75: asked to end, with cells left.
rgt_queue_run() {
  rgt_queue_open
  rgt_make_folders
  rgt_lock_run
  exec 2>>"$RGT_RUN_DIR/log/runner.log"
  rgt_keep_script && cp -- "$rgt_self" "$RGT_RUN_DIR/queue.sh.new" &&
    mv -f -- "$RGT_RUN_DIR/queue.sh.new" "$RGT_RUN_DIR/queue.sh" || exit 1
  rgt_queue_set_deadline
  rgt_now
  if ((rgt_t >= rgt_deadline)); then
    rgt_refuse_start "the deadline of $RGT_NAME passed $((rgt_t - rgt_deadline)) s ago; \
render the script with a later one"
  fi
  rgt_set_traps
  rgt_started=$rgt_t rgt_attempt=1 rgt_sync_seconds=0
  rm -f -- "$RGT_RUN_DIR/save-now"
  rgt_begin
  rgt_event start boot "$rgt_boot" target "$RGT_TARGET" job "$RGT_JOB_SHA" part "$RGT_PART"
  rgt_start_keeper
  rgt_set_phase preflight
  { head -c 65536 /dev/zero >"$RGT_RUN_DIR/.spare"; } 2>/dev/null
  rgt_write_code_notes
  rgt_uptime
  rgt_synced_at=$rgt_up
  if ! rgt_queue_may_start "$@"; then
    rgt_queue_write
    rgt_finish failed
    rgt_leave refused
  fi
  if [[ -z $rgt_asked ]] && ! rgt_stage && [[ -z $rgt_asked ]]; then
    rgt_finish failed
    exit 1
  fi
  rgt_queue_end_leftovers
  rgt_queue_work
  rgt_queue_end
}

# A program that outlived its runner saves and ends: its cell may be another box's by now.
rgt_queue_end_leftovers() {
  local index dir
  for index in ${rgt_queue_mine[@]+"${rgt_queue_mine[@]}"}; do
    dir=$rgt_queue_root/cells/${rgt_queue_names[index]}
    [[ -e $dir/train.pid ]] && rgt_alive_by "$dir/train.pid" &&
      ! rgt_alive_by "$dir/runner.pid" || continue
    (
      RGT_RUN_DIR=$dir
      rgt_end_orphans
    )
  done
}

# The deadline of the job, for all parts counted from the first start of any.
rgt_queue_set_deadline() {
  local own=$RGT_RUN_DIR
  RGT_RUN_DIR=$rgt_queue_root
  rgt_set_deadline
  RGT_RUN_DIR=$own
  rgt_write "$RGT_RUN_DIR/deadline" "$rgt_deadline"$'\n'
}

rgt_queue_may_start() {
  local code=0
  rgt_preflight || code=1
  if ! mkdir -p -- "$rgt_queue_claims" 2>/dev/null || ! rgt_queue_read_clock; then
    rgt_refuse unwritable "the folder of claims $rgt_queue_claims is not writable"
    code=1
  fi
  if ((code)); then
    : >"$RGT_RUN_DIR/.refused"
    rgt_tell_refusals
    rgt_class=preflight rgt_entry=${rgt_refusals[0]#*$'\t'}
    rgt_reason="preflight: ${rgt_refusals[0]##*$'\t'}"
    rgt_entry=${rgt_entry%%$'\t'*} rgt_exit=1
    return 1
  fi
  if [[ " $* " == *' --again '* ]]; then
    rgt_queue_cell_verb=resume-run
    rgt_queue_retry_failed
  fi
  return 0
}

# `resume` gives the failed cells another chance; their results are kept under another name.
rgt_queue_retry_failed() {
  local index folder
  for index in ${rgt_queue_mine[@]+"${rgt_queue_mine[@]}"}; do
    folder=$rgt_queue_claims/${rgt_queue_names[index]}
    [[ -e $folder/failed ]] || continue
    mv -fT -- "$folder" "$folder.failed.$rgt_queue_box-$((++rgt_queue_serial))" &&
      rgt_event again cell "${rgt_queue_names[index]}"
  done
}

rgt_queue_work() {
  local told='' every=$((RGT_LEASE / 5))
  ((every < 1)) && every=1
  ((every > 10)) && every=10
  rgt_set_phase running
  while :; do
    rgt_uptime
    rgt_queue_reap
    if ((rgt_up - rgt_queue_beaten >= every)); then rgt_queue_beat; fi
    rgt_beat
    if [[ -n $rgt_asked && -z $told ]]; then
      told=yes
      : >"$RGT_RUN_DIR/save-now"
      rgt_set_phase saving
      rgt_queue_tell_cells
    elif [[ -z $rgt_asked && -z $rgt_queue_halt ]]; then
      rgt_queue_fill
    fi
    if rgt_queue_over; then break; fi
    if [[ -n $rgt_queue_dirty ]] &&
      ((rgt_up - rgt_queue_written > ${#rgt_queue_mine[@]} / 500)); then
      rgt_queue_write
    fi
    rgt_nap 0.5
  done
  rgt_queue_write
}

# "Save now", and why, to the runner of each cell.
rgt_queue_tell_cells() {
  local slot
  for slot in "${!rgt_queue_cell[@]}"; do
    rgt_same "${rgt_queue_pid[slot]}" "${rgt_queue_started[slot]}" || continue
    rgt_write "$rgt_queue_root/cells/${rgt_queue_names[${rgt_queue_cell[slot]}]}/asked" \
      "$rgt_asked"$'\n'
    kill -TERM "${rgt_queue_pid[slot]}" 2>/dev/null
  done
}

rgt_queue_end() {
  local outcome='done'
  rgt_exit=0 rgt_class='' rgt_entry='' rgt_reason="$rgt_queue_sum"
  if [[ -n $rgt_asked ]] && ((rgt_queue_done + rgt_queue_failed < ${#rgt_queue_mine[@]})); then
    outcome=preempted
    rgt_verdict preempted preempted "$rgt_asked; $rgt_queue_sum"
    [[ $rgt_asked != deadline ]] || rgt_class=deadline
  elif [[ -n $rgt_queue_halt ]]; then
    outcome=failed rgt_exit=1 rgt_class=$rgt_queue_halt_class rgt_entry=$rgt_queue_halt_entry
    rgt_reason="no more cells on $rgt_queue_halt; $rgt_queue_sum"
  elif ((rgt_queue_failed + rgt_queue_left + rgt_queue_lost > 0)); then
    outcome=failed rgt_exit=1 rgt_class=unknown
  fi
  rgt_finish "$outcome"
  [[ $outcome != preempted ]] || rgt_requeue
  rgt_leave
}

rgt_queue_save() {
  local file name code=1
  for file in "$rgt_queue_root"/cells/*/train.pid; do
    rgt_alive_by "$file" || continue
    name=${file%/train.pid}
    env -u RGT_PART RGT_CELL="${name##*/}" bash "$rgt_self" save && code=0
  done
  return "$code"
}

# What is left of all cells, runners and programs alike: the keeper's last word at the deadline.
rgt_queue_kill_cells() {
  local round file had=1 pids
  for round in 1 2 3 4 5 6 7 8; do
    pids=()
    while IFS= read -r file; do
      file=${file#/proc/} file=${file%/environ}
      if [[ $file != "$$" ]] && rgt_read_stat "$file"; then pids+=("$file"); fi
    done < <(grep -lzxF -e "RGT_QUEUE_DIR=$RGT_RUN_DIR" /proc/[0-9]*/environ 2>/dev/null)
    ((${#pids[@]})) || return "$had"
    had=0
    kill -KILL "${pids[@]}" 2>/dev/null
    rgt_nap 0.1
  done
}

# Copies of the cells that were not verified yet, each to its own place, then the queue's own state.
rgt_queue_sync() {
  local dir code=0 t verified by
  [[ -n $RGT_DURABLE ]] || return 0
  rgt_queue_open
  for dir in "$rgt_queue_root"/cells/*; do
    [[ -e $dir/attempt ]] || continue
    verified=''
    { read -r t verified _ <"$dir/final-sync"; } 2>/dev/null
    [[ $verified != true || $1 == quick ]] || continue
    # What another box goes on with must not be covered by what this one had.
    for by in "$rgt_queue_claims/${dir##*/}"/by.*; do :; done
    [[ ! -e $dir/.orphan && (! -d $by || ${by##*/by.} == "${rgt_queue_box%-*-*}-"*) ]] || continue
    env -u RGT_PART RGT_CELL="${dir##*/}" bash "$rgt_self" sync-worker "$1" || code=1
  done
  dir=${HOSTNAME:-box}
  RGT_DURABLE=${RGT_DURABLE%/}/queue@${dir//[!A-Za-z0-9_-]/_}
  RGT_SYNC=("$RGT_RUN_DIR/queue.json")
  rgt_sync_worker "$1" || code=1
  return "$code"
}

# The status of a run with the counts of the cells, looked up now. The parts of one run folder
# answer as one.
rgt_queue_status() {
  local text file newest='' cells
  rgt_queue_open
  for file in "$RGT_RUN_DIR"/parts/*/state.json; do
    [[ ! -e $RGT_RUN_DIR/state.json && -e $file ]] || continue
    if [[ -z $newest || $file -nt $newest ]] || rgt_alive_by "${file%/*}/runner.pid"; then
      newest=$file
    fi
    if rgt_alive_by "${file%/*}/runner.pid"; then break; fi
  done
  [[ -z $newest ]] || RGT_RUN_DIR=${newest%/*}
  rgt_now && rgt_queue_clock=$rgt_t
  for file in ${rgt_queue_mine[@]+"${rgt_queue_mine[@]}"}; do rgt_queue_see "$file" briefly; done
  rgt_queue_count
  if [[ ${1:-} != --json ]]; then
    rgt_status
    printf '%-14s %s\n' cells "$rgt_queue_sum"
    tail -n 20 -- "$RGT_RUN_DIR/log/runner.log" 2>/dev/null
    return 0
  fi
  rgt_queue_members 'failed running lost'
  cells="{$rgt_queue_counts,\"now\":{$rgt_queue_text}}"
  ((${#cells} < 4000)) || cells="{$rgt_queue_counts,\"now\":{}}"
  text=$(rgt_status --json)
  rgt_json "$(tail -n 20 -- "$RGT_RUN_DIR/log/runner.log" 2>/dev/null | tail -c 4000)"
  [[ $text != *'"tail":"",'* ]] ||
    text="${text%%'"tail":"",'*}\"tail\":$rgt_j,${text#*'"tail":"",'}"
  printf '%s,"cells":%s}\n' "${text%\}}" "$cells"
}
