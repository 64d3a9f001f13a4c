# The durable place: what goes there, and whether it is whole there.

rgt_usage+=$'\n  sync           copy to the durable place once, and verify'
declare -p RGT_SYNC >/dev/null 2>&1 || RGT_SYNC=()
: "${RGT_SYNC_MINUTES:=15}" "${RGT_SYNC_TRIES:=6}" "${RGT_SYNC_WAIT:=5}"
rgt_cut_short='' rgt_sync_seconds=0 rgt_synced_at=0
# A round's code: everything there is was copied, but an item isn't there, and no second try brings
# it.
rgt_code_absent=3

# Where an item of RGT_SYNC lies here (rgt_from) and below the durable place (rgt_to).
rgt_item() {
  local other
  rgt_home "$1"
  rgt_from=${rgt_path%/}
  if [[ $rgt_from != /* ]]; then
    if [[ -e $RGT_WORK_DIR/$rgt_from || -L $RGT_WORK_DIR/$rgt_from ]]; then
      rgt_from=$RGT_WORK_DIR/$rgt_from
    else
      rgt_from=$RGT_RUN_DIR/$rgt_from
    fi
  fi
  # A way out of the folder here is none out of the durable place.
  if [[ /$rgt_from/ == */../* ]]; then rgt_from=$(realpath -ms -- "$rgt_from"); fi
  case $rgt_from in
    "$RGT_WORK_DIR"/?*) rgt_to=${rgt_from#"$RGT_WORK_DIR"/} ;;
    "$rgt_base"/?*) rgt_to=${rgt_from#"$rgt_base"/} ;;
    *)
      rgt_to=${rgt_from##*/}
      # Of two folders with one name, each would cover the other's files there.
      for other in ${RGT_SYNC[@]+"${RGT_SYNC[@]}"}; do
        [[ ${other%/} != "${1%/}" && "/${other%/}" == */"$rgt_to" ]] &&
          rgt_to=${rgt_from#/} && break
      done
      ;;
  esac
  rgt_to=${RGT_DURABLE%/}/$rgt_to
}

# Where the runner's own log or events would lie on something of the user's, they go aside; rgt_from
# and rgt_to are set.
rgt_own_place() {
  local from=$rgt_from to=$rgt_to item rest
  for item in ${RGT_SYNC[@]+"${RGT_SYNC[@]}"}; do
    rgt_item "$item"
    rest=''
    [[ $to/ != "${rgt_to%/.}"/* ]] || rest=${to#"${rgt_to%/.}"}
    if [[ $rgt_to/ == "$to"/* || $to/ == "${rgt_to%/.}"/* ]] &&
      [[ -e $rgt_from$rest && ! $rgt_from$rest -ef $from ]]; then
      rgt_from=$from rgt_to=${RGT_DURABLE%/}/runner/${to##*/}
      return
    fi
  done
  rgt_from=$from rgt_to=$to
}

# One round over all items, in a process of its own that a time limit can end. quick, full, or
# whole: full, and nothing is absent. After a good end every item must be there: a mistyped one
# would count as verified.
rgt_sync_worker() {
  local mode=$1 whole='' missing='' item ok=true again='' begin mark=$RGT_RUN_DIR/.sync-mark.$$
  local result row code=1 copied=0 absent=''
  [[ -n $RGT_DURABLE ]] || return 0
  if [[ $mode == whole ||
    ($mode == full && (-e $RGT_RUN_DIR/.done || -e $RGT_RUN_DIR/.unsaved)) ]]; then
    mode=full
    [[ $rgt_rank != 0 ]] || whole=1 # other nodes may have nothing of it
  fi
  # Where the nodes share their folder, the first node copies for all.
  if [[ $rgt_rank != 0 && -e $rgt_base/state.json ]]; then
    rgt_now
    rgt_write "$RGT_RUN_DIR/last-sync" "$rgt_t"$'\ttrue\t'"$RGT_DURABLE"$'\n'
    return 0
  fi
  exec 8>"$RGT_RUN_DIR/sync.lock"
  flock -w 60 8 || return 1
  rgt_write_pid sync "$$"
  rgt_load_secrets
  : >"$mark"
  umask "$RGT_UMASK"
  [[ -e $RGT_RUN_DIR/.sync-failed ]] && again=again
  for item in ${RGT_SYNC[@]+"${RGT_SYNC[@]}"}; do
    rgt_item "$item"
    rgt_now && begin=$rgt_t
    if [[ -L $rgt_from && ! -e $rgt_from ]]; then
      result=failed ok=false rgt_detail="a link to nothing: $(readlink -- "$rgt_from")"
    elif [[ ! -e $rgt_from && -n $whole ]]; then
      result=failed missing=1
      rgt_detail="no $rgt_from after the run's end, although durable.what names it"
    elif [[ ! -e $rgt_from ]]; then
      result=absent rgt_detail='nothing there yet' absent+=$'\n'${item//[$'\t\n']/?}
    elif rgt_copy_out "$mode" "$rgt_from" "$rgt_to" "$mark" "$again"; then
      result=ok copied=$((copied + 1))
    else
      result=failed ok=false
    fi
    rgt_now
    rgt_mask_detail
    rgt_detail=${rgt_detail//[$'\t\n']/ }
    printf -v row '%s\t' "$rgt_t" "$mode" "$result" "$item" "$rgt_to" $((rgt_t - begin))
    { printf '%s%s\n' "$row" "$rgt_detail" >>"$RGT_RUN_DIR/synced.tsv"; } 2>/dev/null
  done
  # Log and events go along unchecked: they change while we look.
  for item in "$RGT_RUN_DIR/log" "$RGT_RUN_DIR/events.jsonl"; do
    rgt_item "$item"
    rgt_own_place
    [[ $ok == true ]] && rgt_copy quick "$rgt_from" "$rgt_to" "$mark" >/dev/null 2>&1
  done
  rm -f -- "$mark"
  if [[ $ok == true ]]; then
    rm -f -- "$RGT_RUN_DIR/.sync-failed"
  else
    : >"$RGT_RUN_DIR/.sync-failed"
  fi
  # Nothing of what is named is there, though the program has saved: then the names are wrong.
  if [[ $mode == full && -n $absent && $copied == 0 && $ok == true ]]; then
    rgt_missing_results
    if [[ $rgt_rank == 0 ]] && rgt_has_result || [[ -n $RGT_CHECKPOINT_DIR &&
      -n $(find "$RGT_CHECKPOINT_DIR/" -type f -print -quit 2>/dev/null) ]]; then
      missing=1
    fi
  fi
  if [[ -n $missing && $ok == true ]]; then ok=false code=$rgt_code_absent; fi
  rgt_now
  rgt_write "$RGT_RUN_DIR/last-sync" "$rgt_t"$'\t'"$ok"$'\t'"$RGT_DURABLE"$'\t'"$copied$absent"$'\n'
  [[ $ok == true ]] || return "$code"
  # A run that had trained to its end lacked nothing else.
  if [[ $mode == full && -e $RGT_RUN_DIR/.unsaved ]]; then
    rgt_write "$RGT_RUN_DIR/final-sync" "$rgt_t true"$'\n'
    rgt_read_marker unsaved
    rgt_class='' rgt_reason='' rgt_reason_raw=''
    rgt_mark 'done'
  fi
}

# A run that had trained to its end, but was not copied, needs no more than its copy.
rgt_finish_unsaved() {
  [[ -e $RGT_RUN_DIR/.unsaved ]] || return 0
  rgt_read_marker unsaved
  rgt_class='' rgt_reason_raw=''
  rgt_finish 'done'
  rgt_leave
}

# The limit is kept by `timeout`; the session is known by its pid, so that nothing of it is left.
rgt_start_sync() {
  RGT_CELL=$RGT_CELL RGT_UMASK=$RGT_UMASK RGT_NODE_RANK=$rgt_rank setsid \
    timeout -k 5 "$2" bash "$rgt_self" sync-worker "$1" \
    </dev/null >>"$RGT_RUN_DIR/log/runner.log" 2>&1 9>&- 8>&- &
  rgt_sync_pid=$!
}

rgt_stop_sync() {
  local pid
  rgt_alive sync || return 0
  rgt_read_stat "$rgt_pid" || return 0
  local session=${rgt_stat[3]}
  # The session of a sync that a user started by hand is a terminal, not ours to end.
  rgt_scan
  [[ $session == "$rgt_pid" || ${rgt_comm[$session]:-timeout} == timeout ]] || return 0
  for pid in "${!rgt_session[@]}"; do
    [[ ${rgt_session[$pid]} == "$session" && $pid != "$$" ]] && kill -KILL "$pid" 2>/dev/null
  done
  return 0
}

# A signal while the result is being copied: the outcome stands. It is written down before the box
# goes, and no further try starts.
rgt_cut_sync() {
  [[ -n $rgt_outcome ]] || return 0
  rgt_cut_short=soon
  [[ $1 == asked || $1 == deadline ]] && rgt_cut_short=now
  [[ $rgt_outcome != 'done' ]] || rgt_unsaved
  rgt_mark "$rgt_outcome"
}

# A run that is done, but only here.
rgt_unsaved() {
  rgt_outcome=unsaved rgt_class=unsaved
  rgt_reason="the last copy to $RGT_DURABLE is not verified${rgt_reason:+; $rgt_reason}"
}

# Tries until it is verified, the tries are spent, or the deadline is near.
rgt_final_sync() {
  local try=0 wait=$RGT_SYNC_WAIT limit code=1 mode=full
  [[ -n $RGT_DURABLE ]] || return 0
  [[ $rgt_outcome != 'done' ]] || mode=whole
  while ((try++ < RGT_SYNC_TRIES)); do
    rgt_now
    limit=$((rgt_deadline - rgt_t))
    ((limit > 1)) || return 1
    rgt_start_sync "$mode" "$limit"
    rgt_attend_alive "$rgt_sync_pid" $((limit + 10))
    code=$?
    ((code == 0)) && return 0
    rgt_event sync-failed try "$try"
    [[ -n $rgt_cut_short || $code == "$rgt_code_absent" ]] && return 1
    ((try < RGT_SYNC_TRIES)) || return 1
    rgt_within "$wait" rgt_beat_until_asked
    wait=$((wait * 2))
  done
  return 1
}

# Waits for a child and keeps the heart beating.
rgt_attend_alive() {
  local pid=$1 end start=''
  rgt_read_stat "$pid" && start=${rgt_stat[19]}
  rgt_uptime && end=$((rgt_up + $2))
  while rgt_same "$pid" "$start"; do
    rgt_nap 0.2
    rgt_beat
    ((rgt_up < end)) || return 124
    [[ $rgt_cut_short != now ]] || {
      rgt_stop_sync
      return 125
    }
  done
  wait "$pid"
}

# Everything was verified at the durable place after the last change of the program.
rgt_sync_is_whole() {
  local t ok
  [[ -n $RGT_DURABLE ]] || return 0
  { read -r t ok _ <"$RGT_RUN_DIR/final-sync"; } 2>/dev/null || return 1
  [[ $ok == true ]]
}

rgt_keeper_sync() {
  local pid end
  [[ -n $RGT_DURABLE ]] || return 0
  rgt_start_sync full "$1"
  pid=$rgt_sync_pid
  rgt_attend "$pid" $(($1 + 1))
  end=$?
  ((end == 0)) || rgt_stop_sync
  return "$end"
}

rgt_sync_by_hand() {
  [[ -n $RGT_DURABLE ]] || {
    echo 'no durable place is set' >&2
    return 1
  }
  rgt_make_folders
  rgt_sync_worker full && echo "verified at $RGT_DURABLE" && return
  tail -n 20 -- "$RGT_RUN_DIR/synced.tsv" | grep -a failed >&2
  return 1
}

rgt_last_sync() {
  local t ok to copied names='' row
  local -a rows=()
  rgt_j=null
  { mapfile -t rows <"$RGT_RUN_DIR/last-sync"; } 2>/dev/null
  ((${#rows[@]})) || return 0
  row=${rows[0]}
  t=${row%%$'\t'*} row=${row#*$'\t'}
  ok=${row%%$'\t'*} row=${row#*$'\t'}
  to=${row%%$'\t'*} copied=${row##*$'\t'}
  [[ $t == [1-9]* && $t != *[!0-9]* && ($ok == true || $ok == false) ]] || return 0
  # Items that weren't there.
  for row in "${rows[@]:1:10}"; do
    rgt_json "$row"
    names+="${names:+,}$rgt_j"
  done
  [[ $copied == [0-9] || $copied == [1-9]*[0-9] && $copied != *[!0-9]* ]] || copied=0
  rgt_json "$to"
  rgt_j="{\"t\":$t,\"ok\":$ok,\"to\":$rgt_j${names:+,\"copied\":$copied,\"absent\":[$names]}}"
}

rgt_plan_sync() {
  rgt_sync_seconds=$(
    LC_ALL=C awk -v m="$RGT_SYNC_MINUTES" 'BEGIN { printf "%d", m * 60 }' </dev/null
  )
  rgt_uptime
  rgt_synced_at=$rgt_up
}

rgt_beat_sync() {
  if [[ -n $RGT_DURABLE && $rgt_phase == running ]] &&
    ((rgt_sync_seconds > 0 && rgt_up - rgt_synced_at >= rgt_sync_seconds)); then
    if ! rgt_same "${rgt_sync_pid:-}" "${rgt_sync_start:-}"; then
      rgt_synced_at=$rgt_up
      rgt_start_sync quick $((rgt_sync_seconds * 4 + 60))
      rgt_read_stat "$rgt_sync_pid" && rgt_sync_start=${rgt_stat[19]}
    fi
  fi
  return 0
}

# The last copies of a run.
rgt_finish_sync() {
  rgt_rows_before_end
  ((rgt_attempt > 0)) || return 0
  if [[ $rgt_asked != deadline ]] || { rgt_now && ((rgt_t < rgt_deadline - 2)); }; then
    rgt_set_phase syncing
    rgt_stop_sync
    if rgt_final_sync; then
      rgt_now
      rgt_write "$RGT_RUN_DIR/final-sync" "$rgt_t true"$'\n'
      [[ $rgt_outcome != unsaved ]] || rgt_outcome='done' rgt_class='' rgt_reason=''
      return
    fi
  fi
  rgt_log "the copy to $RGT_DURABLE is not verified: see $RGT_RUN_DIR/synced.tsv"
  case $rgt_outcome in
    unsaved) ;;
    'done') rgt_unsaved ;;
    *) rgt_reason+="; the last copy to $RGT_DURABLE is not verified" ;;
  esac
}

# After the program's end any earlier verification says nothing.
rgt_rows_before_end() { rm -f -- "$RGT_RUN_DIR/final-sync"; }

rgt_tools_for_copies() {
  case $(rgt_durable_kind) in
    ssh) rgt_tools+=(rsync ssh) ;;
    rclone) rgt_tools+=(rclone) ;;
    s3) rgt_tools+=(aws) ;;
    gs) type -P gcloud >/dev/null || rgt_tools+=(gsutil) ;;
  esac
}

rgt_check_durable() {
  [[ $(rgt_durable_kind) != local ]] || rgt_check_folder 'the durable folder' "$RGT_DURABLE"
}

rgt_durable_kind() {
  case $RGT_DURABLE in
    '') echo none ;;
    rclone:*) echo rclone ;;
    s3://*) echo s3 ;;
    gs://*) echo gs ;;
    /*) echo local ;;
    *:*) echo ssh ;;
    *) echo local ;;
  esac
}
