# The third hand beside runner and supervisor, which needs no Python. Sourced by run.sh. It keeps to
# what works with a full disk: no here-document, which some versions of bash write to a file.
# shellcheck disable=SC1091,SC2153,SC2154,SC2088

. "${BASH_SOURCE[0]%/*}/procs.sh"

# One line about the run folder: its end, who asked for it, the deadline; pid and start of
# supervisor, program and deadman; whether the last copy is verified. '-' stands for nothing.
rgt_peek() {
  local name value line=-
  for name in unsaved preempted failed "done" refused; do
    [[ ! -e $1/.$name ]] || line=$name
  done
  for name in asked deadline; do
    value=''
    { IFS= read -r value <"$1/$name"; } 2>/dev/null
    # `stop` after the deadline: the box stays as it is.
    [[ $name != asked || ! -e $1/quiet ]] || value=asked
    [[ $value =~ ^[a-z0-9]+ ]] && line+=" ${BASH_REMATCH[0]}" || line+=' -'
  done
  for name in supervisor train deadman; do
    rgt_read_noted "$1" "$name"
    line+=" ${rgt_noted[*]}"
  done
  [[ -e $1/final-sync ]] && line+=' yes' || line+=' -'
  printf '%s\n' "$line"
}

# A folder on a dead mount may hang whoever touches it, and no signal ends that: nobody waits longer
# than ten seconds, and nobody looks twice at a time.
rgt_look() {
  [[ -z ${rgt_peeking-} ]] || ! kill -0 "$rgt_peeking" 2>/dev/null || return 1
  exec 3< <(rgt_peek "$RGT_DIR")
  rgt_peeking=$!
  local -a seen=()
  IFS=' ' read -r -t 10 -u 3 -a seen
  exec 3<&-
  ((${#seen[@]} == 10)) || {
    kill -KILL "$rgt_peeking" 2>/dev/null
    return 1
  }
  rgt_end=${seen[0]} rgt_asked=${seen[1]} rgt_deadman="${seen[*]:7:2}" rgt_saved=${seen[9]}
  # A folder that is gone says nothing, and who wrote there may live.
  if [[ $rgt_end != - || ${seen[*]:3:4} == *[0-9]* ]]; then
    rgt_supervisor=("${seen[@]:3:2}") rgt_train=("${seen[@]:5:2}")
  fi
  [[ ${seen[2]} != [0-9]* ]] || rgt_deadline=${seen[2]}
}

# Has the deadline passed, and this many seconds more?
rgt_is_late() {
  [[ -n ${rgt_deadline-} ]] || return 1
  printf -v rgt_now '%(%s)T' -1
  ((rgt_now >= rgt_deadline + $1))
}

# In the background: the disk may be full or hang.
rgt_note() {
  printf '%(%F %T)T deadman: %s\n' -1 "$1" >>"$RGT_DIR/log/supervisor.log" 2>/dev/null &
}

# It outlives this shell.
rgt_raise() {
  rgt_note "raising: $1"
  (cd / && exec setsid bash "$RGT_DIR/run.sh" "$@" "${rgt_rank[@]}") </dev/null >/dev/null 2>&1 &
  rgt_raised=$!
}

# Did what was raised last go with 0, so that nothing is left to end?
rgt_went_well() {
  [[ -n ${rgt_raised-} ]] && ! kill -0 "$rgt_raised" 2>/dev/null && wait "$rgt_raised" 2>/dev/null
}

# The save signal, and what is left after the time of a save is killed.
rgt_end_program() {
  local until
  until=$((SECONDS + RGT_SAVE_SECONDS))
  if rgt_lives "${rgt_train[@]}"; then
    rgt_note "the deadline has passed and nobody else is there: asking the program to save"
    # Once: a second signal may come while the program is on its way out.
    kill -s "$RGT_SAVE_SIGNAL" -- "-${rgt_train[0]}" 2>/dev/null
    while rgt_lives "${rgt_train[@]}" && ((SECONDS < until)); do sleep 0.5; done
    kill -KILL -- "-${rgt_train[0]}" 2>/dev/null
  fi
  # Workers that opened a session of their own. In the background: to read of a hung one may hang.
  grep -lzxF -- "RGT_RUN_DIR=$RGT_DIR" /proc/[0-9]*/environ 2>/dev/null |
    while IFS=/ read -r _ _ pid _; do
      [[ $pid == "$$" ]] || kill -KILL "$pid" 2>/dev/null
    done &
  [[ $rgt_end != - ]] || printf '%s\n' \
    "{\"t\": $rgt_now, \"exit\": 137, \"class\": \"deadline\", \"reason\": \"deadline\"}" \
    >"$RGT_DIR/.preempted" 2>/dev/null &
}

# The job's own command, with its credential and what a login lacks of the container's variables.
rgt_end_box() (
  while IFS= read -r -d '' pair; do
    name=${pair%%=*}
    [[ ! $name =~ ^[A-Za-z_][A-Za-z0-9_]*$ || -n ${!name+set} ]] || export "$name=${pair#*=}"
  done 2>/dev/null </proc/1/environ
  if [[ $RGT_END_NEEDS == *=* ]]; then
    file=${RGT_END_NEEDS#*=}
    [[ ${file:0:2} != '~/' ]] || file=~/${file:2}
    value=$(timeout 10 cat -- "$file" 2>/dev/null) && export "${RGT_END_NEEDS%%=*}=$value"
  fi
  export RGT_BOX_ID
  timeout -k 5 60 "${RGT_END[@]}" </dev/null >/dev/null 2>&1
)

# Is what the run made on this box only, so that nothing may end the box?
rgt_is_unsaved() {
  [[ $RGT_END_UNSAVED != yes ]] || return 1
  [[ $rgt_end == unsaved || ($RGT_DURABLE == yes && $rgt_saved != yes) ]]
}

# Has the job's limit passed, and is there a stop that keeps the disk?
rgt_may_stop() {
  ((${#RGT_STOP[@]})) && rgt_is_late "$RGT_END_LIMIT"
}

# The job's own command for messages.
rgt_call() (
  export RGT_MESSAGE="$RGT_NAME on $HOSTNAME: $*"
  printf '%s\n' "$RGT_MESSAGE" | timeout -k 5 30 "${RGT_NOTIFY[@]}" >/dev/null 2>&1
)

# The third hand. It raises what is dead; a while after the deadline it ends program and box itself.
rgt_deadman() {
  local grace=$((RGT_SAVE_SECONDS + 20)) dead=0 wait=0 pause=$RGT_END_RETRY answered hung me until
  trap '' HUP INT USR1 USR2
  cd / && exec </dev/null >/dev/null 2>&1
  rgt_read_stat "$$"
  me="$$ ${rgt_stat[19]}" rgt_end=- rgt_asked=- rgt_saved=-
  rgt_supervisor=(- -) rgt_train=(- -)
  rgt_look && [[ $rgt_deadman != "$me" && $rgt_deadman != '- -' ]] &&
    rgt_lives "${rgt_deadman% *}" "${rgt_deadman#* }" && return 0
  printf '%s\n' "$me" >"$RGT_DIR/deadman.pid" &
  sleep 0.3
  while :; do
    hung=''
    rgt_look || hung=yes
    if [[ -z $hung ]]; then
      # Another box or a later start took the run over.
      [[ $rgt_deadman == "$me" || $rgt_deadman == '- -' ]] || return 0
      if rgt_lives "${rgt_supervisor[@]}"; then
        dead=0 wait=0
      elif [[ $rgt_end != - ]] && { [[ ${rgt_supervisor[0]} == - ]] || rgt_went_well; }; then
        return 0 # the supervisor went by itself
      elif rgt_is_late "$grace"; then
        break
      elif ((++dead > 1 && SECONDS >= wait)); then
        # Waits twice as long each time: without a Python nothing comes of it.
        wait=$((SECONDS + (dead < 60 ? dead * 2 : 600)))
        rgt_raise supervisor
      fi
    elif rgt_is_late $((grace + 60)); then
      break
    fi
    sleep "$RGT_DEADMAN"
  done
  rgt_end_program
  [[ $RGT_END_AT_DEADLINE == yes && $rgt_asked != asked ]] || return 0
  while rgt_is_unsaved; do
    # Nothing is proven without a Python: after the job's limit only what keeps the disk may end it.
    if rgt_may_stop; then
      RGT_END=("${RGT_STOP[@]}") RGT_END_NEEDS=$RGT_STOP_NEEDS
      break
    fi
    rgt_note "the last copy is not verified: the box stays on"
    ((${#RGT_NOTIFY[@]} + ${#RGT_STOP[@]})) || return 0
    ((!${#RGT_NOTIFY[@]})) ||
      rgt_call "the deadline has passed, and what the run made is on this box only. The box stays" \
        "on and billed: copy it, and end the box yourself."
    until=$((SECONDS + ${RGT_NOTIFY_EVERY%.*}))
    sleep "$RGT_DEADMAN"
    while ((SECONDS < until)) && ! rgt_may_stop; do sleep "$RGT_DEADMAN"; done
    rgt_look || continue
    { rgt_lives "${rgt_supervisor[@]}" || ! rgt_is_late 0 || [[ $rgt_asked == asked ]]; } &&
      return 0
  done
  while :; do
    answered=''
    rgt_end_box && answered=yes
    rgt_note "the end command ${answered:+was accepted}${answered:-failed}"
    sleep "$([[ -n $answered ]] && echo "$RGT_END_WAIT" || echo "$pause")"
    pause=$((pause < 300 ? pause * 2 : 600))
    # Somebody started the run again, gave it more time, or wants no more of this.
    rgt_look || continue
    { rgt_lives "${rgt_supervisor[@]}" || ! rgt_is_late 0 || [[ $rgt_asked == asked ]]; } &&
      return 0
  done
}

# Its words: those of the verb, with the node's rank among them.
rgt_be_deadman() {
  local place
  rgt_rank=()
  for ((place = 2; place < $#; place++)); do
    [[ ${!place} != --node-rank ]] || {
      ((place++))
      rgt_rank=(--node-rank "${!place}")
    }
  done
  [[ ${rgt_rank[1]-0} == 0 ]] || RGT_DIR=$RGT_DIR/node-${rgt_rank[1]}
  [[ ${RGT_PART-} != */* ]] || RGT_DIR=$RGT_DIR/parts/${RGT_PART/\//-of-}
  # A cell's end is none of the box's.
  [[ -z ${RGT_CELL-} ]] || RGT_DIR=$RGT_DIR/cells/$RGT_CELL RGT_END_AT_DEADLINE=no
  rgt_deadman
}
