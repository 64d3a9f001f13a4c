# The shell behind the supervisor, which needs no Python: it raises a supervisor that is gone, and
# where none answers at the deadline, it ends program and box. What it must know each supervisor
# tells it, so that it reads no disk, which may hang; nor has it a here-document, which bash may
# write to a full one.
# shellcheck disable=SC1091,SC2153,SC2154,SC2088

. "${BASH_SOURCE[0]%/*}/procs.sh"

# Its words start a supervisor. One that lives says every few seconds what to do without it, as
# backstop.py: Plan, and "over" when nothing is left to do.
rgt_deadman() {
  local line now heard=$SECONDS wait=1 is_late=''
  local plan='^([0-9]+) ([0-9]+) ([0-9]+) (run|stop|stay|leave) ([0-9]+)$'
  trap '' HUP INT USR1 USR2
  cd / && exec 3<&0 </dev/null >/dev/null
  while :; do
    if IFS= read -r -t "$RGT_DEADMAN" -u 3 line; then
      [[ $line != over ]] || return 0
      [[ $line =~ $plan ]] || continue
      rgt_at=${BASH_REMATCH[1]} rgt_program=("${BASH_REMATCH[@]:2:2}")
      rgt_do=${BASH_REMATCH[4]} rgt_end_at=${BASH_REMATCH[5]}
      heard=$SECONDS wait=1 is_late='' rgt_has_acted='' rgt_tell_at=0 rgt_retry=$RGT_END_RETRY
    elif (($? > 128)); then
      # Silence: it hangs, as whoever is raised may.
      if ((SECONDS >= heard + 60)) && rgt_is_past $((rgt_at + 60)); then
        rgt_act || return 0
        heard=$SECONDS
      fi
    else
      printf -v now '%(%s)T' -1
      if ((now < rgt_at)); then
        # Twice as long each time: without a Python nothing comes of it.
        wait=$((wait < 300 ? wait * 2 : 600))
        sleep $((wait < rgt_at - now ? wait : rgt_at - now))
      elif [[ -z $is_late ]]; then
        is_late=yes # a last try
      else
        rgt_act || return 0
        sleep "$rgt_pause"
      fi
      exec 3< <(exec setsid "$@" 3<&-)
    fi
  done
}

# End the program, and then the box as long as that is still on; tell it each time that it is due.
# Sets rgt_pause: for how long to wait for what comes of it.
rgt_act() {
  local does="The box stays on and billed: copy what the run made, and end it yourself" needs
  local -a command=()
  rgt_pause=$RGT_END_RETRY
  [[ -n $rgt_has_acted ]] || rgt_end_program
  rgt_has_acted=yes
  [[ $rgt_do != leave ]] || return
  if rgt_is_past "$rgt_end_at"; then
    case $rgt_do in
      run) command=("${RGT_END[@]}") needs=$RGT_END_NEEDS ;;
      stop) command=("${RGT_STOP[@]}") needs=$RGT_STOP_NEEDS ;;
    esac
  fi
  ((!${#command[@]})) || does="Its end command runs now: look whether the box goes"
  if ((${#RGT_NOTIFY[@]} && SECONDS >= rgt_tell_at)); then
    rgt_tell_at=$((SECONDS + RGT_NOTIFY_EVERY))
    rgt_tell "the deadline has passed, and no Python answers there. $does."
  fi
  ((${#command[@]})) || return 0
  if rgt_end_box "$needs" "${command[@]}"; then
    rgt_note "the end command was accepted"
    rgt_pause=$RGT_END_WAIT
  else
    rgt_note "the end command failed"
    rgt_pause=$rgt_retry rgt_retry=$((rgt_retry < 300 ? rgt_retry * 2 : 600))
  fi
}

# The save signal, and what is left after the time of a save is killed.
rgt_end_program() {
  local until=$((SECONDS + RGT_SAVE_SECONDS)) name
  if rgt_lives "${rgt_program[@]}"; then
    rgt_note "the deadline has passed and nobody else is there: asking the program to save"
    # Once: a second signal may come while the program is on its way out.
    kill -s "$RGT_SAVE_SIGNAL" -- "-${rgt_program[0]}" 2>/dev/null
    while rgt_lives "${rgt_program[@]}" && ((SECONDS < until)); do sleep 0.5; done
    kill -KILL -- "-${rgt_program[0]}" 2>/dev/null
  fi
  # Workers that opened a session of their own. In the background: to read of a hung one may hang.
  grep -lzxF -- "RGT_RUN_DIR=$RGT_DIR" /proc/[0-9]*/environ 2>/dev/null |
    while IFS=/ read -r _ _ pid _; do
      [[ $pid == "$$" ]] || kill -KILL "$pid" 2>/dev/null
    done &
  for name in unsaved preempted failed "done" refused; do
    [[ ! -e $RGT_DIR/.$name ]] || exit
  done &&
    printf '{"t": %(%s)T, "exit": 137, "class": "deadline", "reason": "deadline"}\n' -1 \
      >"$RGT_DIR/.preempted" 2>/dev/null &
}

# The job's own command, behind the name of its credential: with that, and with what a login lacks
# of the container's variables.
rgt_end_box() (
  while IFS= read -r -d '' pair; do
    name=${pair%%=*}
    [[ ! $name =~ ^[A-Za-z_][A-Za-z0-9_]*$ || -n ${!name+set} ]] || export "$name=${pair#*=}"
  done 2>/dev/null </proc/1/environ
  if [[ $1 == *=* ]]; then
    file=${1#*=}
    [[ ${file:0:2} != '~/' ]] || file=~/${file:2}
    value=$(timeout 10 cat -- "$file" 2>/dev/null) && export "${1%%=*}=$value"
  fi
  export RGT_BOX_ID
  timeout -k 5 60 "${@:2}" </dev/null >/dev/null 2>&1
)

# The job's own command for messages.
rgt_tell() (
  export RGT_MESSAGE="$RGT_NAME on $HOSTNAME: $*"
  printf '%s\n' "$RGT_MESSAGE" | timeout -k 5 30 "${RGT_NOTIFY[@]}" >/dev/null 2>&1
)

# In the background: the disk may be full, or hang.
rgt_note() {
  printf '%(%F %T)T deadman: %s\n' -1 "$1" >&2 &
}

rgt_is_past() {
  local now
  printf -v now '%(%s)T' -1
  ((now >= $1))
}
