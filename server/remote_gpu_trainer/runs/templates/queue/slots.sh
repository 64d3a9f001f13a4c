# Cells that run on this box.

# The share of a slot: cards by CUDA_VISIBLE_DEVICES, those of the box or those that were given to
# us.
rgt_queue_share() {
  local slot=$1 cards=() count each at
  rgt_queue_env=("RGT_CELL_SLOT=$slot")
  ((RGT_GPUS > 0)) || return 0
  if [[ -n ${CUDA_VISIBLE_DEVICES:-} ]]; then
    IFS=, read -r -a cards < <(printf '%s\n' "$CUDA_VISIBLE_DEVICES")
  else
    for ((at = 0; at < RGT_GPUS; at++)); do cards+=("$at"); done
  fi
  cards=("${cards[@]:0:RGT_GPUS}")
  count=${#cards[@]} each=$((count / RGT_SLOTS))
  if ((each < 1)); then
    cards=("${cards[slot % count]}") each=1
  else
    cards=("${cards[@]:slot*each:each}")
  fi
  local IFS=,
  at=$((RGT_PROCS * each / RGT_GPUS))
  rgt_queue_env+=("CUDA_VISIBLE_DEVICES=${cards[*]}" "RGT_CELL_GPUS=$each"
    "RGT_CELL_PROCS=$((at > 0 ? at : 1))")
  ((RGT_SLOTS <= count)) || rgt_queue_env+=("RGT_CELL_SHARED=yes")
}

# Starts a claimed cell in a slot. One whose runner still lives, from a queue that was killed, is
# waited for; one that ended without its result being published isn't run again.
rgt_queue_launch() {
  local slot=$1 index=$2 name=${rgt_queue_names[$2]} dir guard=() rgt_pid rgt_start
  dir=$rgt_queue_root/cells/$name
  rgt_queue_cell[slot]=$index rgt_queue_token_of[slot]=$rgt_queue_token
  rgt_queue_pending[slot]='' rgt_queue_pid[slot]='' rgt_queue_started[slot]=''
  rgt_queue_note "$index" running "{\"host\":\"$rgt_queue_host\"}"
  mkdir -p -- "$dir/log"
  if rgt_alive_by "$dir/runner.pid"; then
    rgt_queue_pid[slot]=$rgt_pid rgt_queue_started[slot]=$rgt_start
    rgt_event adopted cell "$name"
    return
  fi
  if [[ -e $dir/.done || -e $dir/.unsaved ]] && rgt_queue_same_cell "$dir" "$index"; then
    rgt_event found-done cell "$name"
    return
  fi
  rm -f -- "$dir"/{.done,.failed,.preempted,.unsaved,.orphan}
  rgt_write "$dir/cell" "${RGT_CELLS[index]}"
  rgt_queue_share "$slot"
  # A queue that is killed takes its cells with it: they save and end, so that nothing runs beside
  # what takes them over.
  if type -P setpriv >/dev/null; then guard=(setpriv --pdeathsig TERM); fi
  env -u RGT_PART "${rgt_queue_env[@]}" RGT_CELL="$name" RGT_KEEPER=off \
    RGT_QUEUE_DIR="$RGT_RUN_DIR" RGT_CELL_DEADLINE="at:$rgt_deadline" \
    setsid ${guard[@]+"${guard[@]}"} bash "$RGT_RUN_DIR/queue.sh" "$rgt_queue_cell_verb" \
    >>"$dir/log/console" 2>&1 </dev/null 9>&- &
  rgt_queue_pid[slot]=$!
  rgt_read_stat $! && rgt_queue_started[slot]=${rgt_stat[19]}
  rgt_event started cell "$name" slot "$slot"
  rgt_log "cell $name: started"
}

rgt_queue_same_cell() {
  local before=''
  { IFS= read -r -d '' before <"$1/cell"; } 2>/dev/null
  [[ $before == "${RGT_CELLS[$2]}" ]]
}

# The text of a marker, in rgt_queue_line, where the runner left none: exit, class and reason.
rgt_queue_end_line() {
  rgt_queue_line="{\"exit\":$1,\"class\":\"$2\",\"entry\":\"\",\"reason\":\"$3\"}"
}

# What a cell came to, in rgt_queue_kind (done, failed, preempted, none) and rgt_queue_line (the
# marker's text).
rgt_queue_outcome() {
  local kind
  for kind in "${rgt_ends[@]}"; do
    rgt_queue_kind=$kind rgt_queue_line=''
    [[ -e $1/.$kind ]] || continue
    { read -r rgt_queue_line <"$1/.$kind"; } 2>/dev/null
    # A marker of a full disk may be empty.
    [[ $rgt_queue_line == '{'*'}' ]] ||
      rgt_queue_end_line null "$([[ $kind == failed ]] && echo disk)" ''
    # Its result is there; the copy is tried again with the queue's own.
    [[ $kind != unsaved ]] || rgt_queue_kind='done'
    return
  done
  rgt_queue_kind=none rgt_queue_line=''
}

# A cell that ended: publish, give back, or discard.
rgt_queue_finish() {
  local slot=$1 code=$2 index=${rgt_queue_cell[$1]} token=${rgt_queue_token_of[$1]}
  local name dir folder class entry
  name=${rgt_queue_names[index]} dir=$rgt_queue_root/cells/$name folder=$rgt_queue_claims/$name
  if rgt_queue_robbed "$name" "$token"; then
    rgt_queue_orphan "$slot"
    return
  fi
  rgt_queue_outcome "$dir"
  rgt_queue_field "$rgt_queue_line" class && class=$rgt_queue_value
  if [[ $rgt_queue_kind == none ]]; then
    # A runner that was killed leaves its program behind.
    (RGT_RUN_DIR=$dir && rgt_kill_program)
    rgt_queue_kind=preempted
    if [[ -e $dir/.same-failure ]]; then
      rgt_queue_kind=failed
      rgt_queue_end_line "$code" bug 'it failed twice at the same step; fix it, then resume'
    elif ((${rgt_queue_tries[index]:-0} >= 2)) && [[ -z $rgt_asked ]]; then
      rgt_queue_kind=failed
      rgt_queue_end_line "$code" unknown "its runner ended with code $code and left no marker; \
see cells/$name/log/console"
    fi
  fi
  rgt_queue_field "$rgt_queue_line" entry && entry=$rgt_queue_value
  rgt_entry_of crlf
  # Windows line ends are in a file of this cell alone; anything else that is refused was well when
  # the queue began.
  if [[ $rgt_queue_kind == failed &&
    ($class == disk || $class == gpu || ($class == preflight && $entry != "$rgt_id")) ]]; then
    rgt_queue_field "$rgt_queue_line" reason
    rgt_queue_halt_class=$class
    rgt_queue_halt_entry=$entry
    rgt_queue_halt="this box: $class, seen in cell $name: $rgt_queue_value"
    rgt_log "no more cells on $rgt_queue_halt"
    # Another box may do better; the second that meets it leaves it failed.
    if ! rgt_queue_seen_fault "$folder" &&
      rgt_queue_publish "$name" "$token" fault "$rgt_queue_line"; then
      mv -fT -- "$folder" "$folder.fault.$token" 2>/dev/null
      rgt_queue_note "$index" left "$rgt_queue_line"
      rgt_queue_free "$slot"
      return
    fi
  fi
  if [[ $rgt_queue_kind == preempted ]]; then
    rgt_queue_drop "$folder" "$folder/by.$token"
    rgt_queue_tries[index]=$((${rgt_queue_tries[index]:-0} + 1))
    rgt_uptime
    rgt_queue_after[index]=$((rgt_up + (RGT_LEASE < 60 ? RGT_LEASE : 60)))
    rgt_queue_note "$index" left "$rgt_queue_line"
    rgt_event given-back cell "$name"
    rgt_log "cell $name: given back"
    rgt_queue_free "$slot"
    return
  fi
  rgt_queue_pending[slot]=$rgt_queue_kind
  rgt_queue_result[index]="{\"cell\":\"$name\",\"host\":\"$rgt_queue_host\",${rgt_queue_line:1}"
  rgt_queue_settle "$slot"
}

rgt_queue_seen_fault() {
  set -- "$1".fault.*
  [[ -e $1 ]]
}

# Publishes what is pending. A claims folder that can't be written is tried again.
rgt_queue_settle() {
  local slot=$1 index=${rgt_queue_cell[$1]} kind=${rgt_queue_pending[$1]} name code=0
  name=${rgt_queue_names[index]}
  rgt_queue_publish "$name" "${rgt_queue_token_of[slot]}" "$kind" \
    "${rgt_queue_result[index]}" || code=$?
  case $code in
    0)
      rgt_queue_note "$index" "$kind" "${rgt_queue_result[index]}"
      rgt_event "$kind" cell "$name"
      rgt_log "cell $name: $kind"
      rgt_queue_free "$slot"
      ;;
    1) rgt_event not-published cell "$name" ;;
    2) rgt_queue_orphan "$slot" ;;
  esac
}

rgt_queue_free() {
  unset "rgt_queue_cell[$1]" "rgt_queue_pid[$1]" "rgt_queue_started[$1]"
  unset "rgt_queue_token_of[$1]" "rgt_queue_pending[$1]"
}

# Another box has the cell by now. What this one made of it isn't a result.
rgt_queue_orphan() {
  local slot=$1 index=${rgt_queue_cell[$1]} name dir kind
  name=${rgt_queue_names[index]} dir=$rgt_queue_root/cells/$name
  if rgt_same "${rgt_queue_pid[slot]}" "${rgt_queue_started[slot]}"; then
    kill -KILL "${rgt_queue_pid[slot]}"
  fi
  (
    RGT_RUN_DIR=$dir
    rgt_kill_program
    rgt_stop_sync
  )
  rgt_now
  rgt_json "the claim was taken over while this box gave no sign of life"
  rgt_write "$dir/.orphan" "{\"t\":$rgt_t,\"cell\":\"$name\",\
\"token\":\"${rgt_queue_token_of[slot]}\",\"reason\":$rgt_j}"$'\n'
  for kind in "${rgt_ends[@]}"; do
    [[ -e $dir/.$kind ]] && mv -f -- "$dir/.$kind" "$dir/.$kind.orphan"
  done
  rgt_event orphan cell "$name"
  rgt_log "cell $name: discarded, another box has taken it over"
  rgt_queue_see "$index"
  rgt_queue_free "$slot"
}

# Signs of life, and a look at whether the claims are still ours.
rgt_queue_beat() {
  local slot index files=()
  rgt_queue_beaten=$rgt_up
  for slot in "${!rgt_queue_cell[@]}"; do
    index=${rgt_queue_cell[slot]}
    files+=("$rgt_queue_claims/${rgt_queue_names[index]}/by.${rgt_queue_token_of[slot]}/beat")
  done
  ((${#files[@]})) || return 0
  # Never created: in a claim that was taken over nothing of ours may appear.
  timeout 20 touch -c -- "${files[@]}" 2>/dev/null
  for slot in "${!rgt_queue_cell[@]}"; do
    index=${rgt_queue_cell[slot]}
    if rgt_queue_robbed "${rgt_queue_names[index]}" "${rgt_queue_token_of[slot]}"; then
      rgt_queue_orphan "$slot"
    elif [[ -n ${rgt_queue_pending[slot]} ]]; then
      rgt_queue_settle "$slot"
    fi
  done
}

rgt_queue_reap() {
  local slot code
  for slot in "${!rgt_queue_cell[@]}"; do
    [[ -z ${rgt_queue_pending[slot]} ]] || continue
    rgt_same "${rgt_queue_pid[slot]}" "${rgt_queue_started[slot]}" && continue
    code=0
    if [[ -n ${rgt_queue_pid[slot]} ]]; then
      wait "${rgt_queue_pid[slot]}" 2>/dev/null || code=$?
    fi
    rgt_queue_finish "$slot" "$code"
  done
}

# The next cell for this box: claimed, its index in rgt_queue_next. Fails at the end of the roster.
rgt_queue_find() {
  local index
  ((rgt_queue_cursor > 0 || rgt_up >= rgt_queue_next_scan)) || return 1
  rgt_queue_next_scan=$((rgt_up + rgt_queue_every))
  if ((rgt_queue_cursor == 0)); then rgt_queue_read_clock || return 1; fi
  while ((rgt_queue_cursor < ${#rgt_queue_mine[@]})); do
    index=${rgt_queue_mine[rgt_queue_cursor++]}
    case ${rgt_queue_state[index]} in
      done | failed) continue ;;
      running) rgt_queue_holds "$index" && continue ;;
    esac
    ((${rgt_queue_tries[index]:-0} < 3 && ${rgt_queue_after[index]:-0} <= rgt_up)) || continue
    rgt_queue_see "$index"
    case $rgt_queue_is in
      lost) rgt_queue_take "${rgt_queue_names[index]}" || continue ;;
      left) ;;
      *) continue ;;
    esac
    if rgt_queue_claim "${rgt_queue_names[index]}"; then
      rgt_queue_next=$index
      return 0
    fi
  done
  rgt_queue_cursor=0 rgt_queue_passed=yes
  return 1
}

# Does this process run the cell?
rgt_queue_holds() {
  local slot
  for slot in "${!rgt_queue_cell[@]}"; do
    [[ ${rgt_queue_cell[slot]} == "$1" ]] && return
  done
  return 1
}

rgt_queue_fill() {
  local slot
  for ((slot = 0; slot < RGT_SLOTS; slot++)); do
    [[ -z ${rgt_queue_cell[slot]:-} ]] || continue
    rgt_queue_find || return 0
    rgt_queue_idle=''
    rgt_queue_launch "$slot" "$rgt_queue_next"
  done
}

# Is there anything to wait for? Cells of other boxes are watched for one lease more, so that one of
# a box that died is found.
rgt_queue_over() {
  local index own='' others='' slot
  for slot in "${!rgt_queue_cell[@]}"; do
    # A result that can't be published now is found by the next start.
    [[ -n $rgt_asked && -n ${rgt_queue_pending[slot]} ]] || return 1
  done
  [[ -z $rgt_asked && -z $rgt_queue_halt ]] || return 0
  [[ -n $rgt_queue_passed ]] || return 1
  for index in ${rgt_queue_mine[@]+"${rgt_queue_mine[@]}"}; do
    case ${rgt_queue_state[index]} in
      left) ((${rgt_queue_tries[index]:-0} < 3)) && own=1 ;;
      running | lost) others=1 ;;
    esac
  done
  [[ -z $own ]] || return 1
  [[ -n $others ]] || return 0
  [[ -n $rgt_queue_idle ]] || rgt_queue_idle=$rgt_up
  ((rgt_up - rgt_queue_idle > RGT_LEASE + rgt_queue_every + 5))
}
