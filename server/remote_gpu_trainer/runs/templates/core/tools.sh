# Small tools: time, waiting, text, and numbers from files.

rgt_now() { printf -v rgt_t '%(%s)T' -1; }

# Seconds since boot: a stall or a wait is measured by a clock that nobody sets.
rgt_uptime() {
  local up
  if read -r up _ </proc/uptime; then rgt_up=${up%%.*}; else printf -v rgt_up '%(%s)T' -1; fi
}

# Sleeps without starting a process; signals that came meanwhile are served afterwards. Before 5.2
# an alarm that comes just before the read is lost and the read never ends: there a line every ten
# seconds wakes it.
rgt_nap() {
  if [[ -z $rgt_tick ]]; then
    if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 502)); then
      exec {rgt_tick}<> <(:)
    else
      exec {rgt_tick}< <(
        trap '' HUP INT TERM USR1 USR2
        exec 7>&- 8>&- 9>&- sh -c 'while sleep 10; do echo || exit; done' </dev/null 2>/dev/null
      )
    fi
  fi
  read -r -t "$1" -u "$rgt_tick" _ || :
  [[ -z $rgt_pending ]] || rgt_serve_signals
}

# Asks again until the command succeeds, for so many seconds at most.
rgt_within() {
  local end
  rgt_uptime
  end=$((rgt_up + $1))
  shift
  until "$@"; do
    rgt_uptime
    ((rgt_up < end)) || return 1
    rgt_nap 0.1
  done
}

# JSON text of a string, in rgt_j.
rgt_json() {
  local LC_ALL=C
  rgt_j=$1
  if [[ $rgt_j == *[!\ -~]* ]]; then
    rgt_j=$(printf '%s' "$rgt_j" |
      { iconv -c -f UTF-8 -t UTF-8 2>/dev/null || LC_ALL=C tr -cd '\11\12\15\40-\176'; })
  fi
  rgt_j=${rgt_j//\\/\\\\}
  rgt_j=${rgt_j//\"/\\\"}
  rgt_j=${rgt_j//$'\n'/\\n}
  rgt_j=${rgt_j//$'\t'/\\t}
  rgt_j="\"${rgt_j//[[:cntrl:]]/}\""
}

rgt_log() {
  local stamp
  printf -v stamp '%(%F %T)T' -1
  { printf '%s %s\n' "$stamp" "$1" >>"$RGT_RUN_DIR/log/runner.log"; } 2>/dev/null
  { printf '%s\n' "$1"; } 2>/dev/null || :
}

# One line of events.jsonl: a name, then pairs of key and text.
rgt_event() {
  local line rgt_j
  rgt_now
  rgt_json "$1"
  line="{\"t\":$rgt_t,\"event\":$rgt_j"
  shift
  while (($# > 1)); do
    rgt_json "$2"
    line+=",\"$1\":$rgt_j"
    shift 2
  done
  { printf '%s}\n' "$line" >>"$RGT_RUN_DIR/events.jsonl"; } 2>/dev/null || :
}

# A file is there whole or not at all. A full disk keeps the old one.
rgt_write() {
  { printf '%s' "$2" >"$1.tmp.$BASHPID" && mv -f -- "$1.tmp.$BASHPID" "$1"; } 2>/dev/null && return
  rm -f -- "$1.tmp.$BASHPID"
  return 1
}

# A number from a file, in rgt_number; '' for anything else: bash runs what stands in an index of a
# "number".
rgt_read_number() {
  rgt_number=''
  { read -r rgt_number _ <"$1"; } 2>/dev/null
  if [[ $rgt_number == *[!0-9]* || ${#rgt_number} -gt 15 ]]; then rgt_number=''; fi
  [[ -n $rgt_number ]] && rgt_number=$((10#$rgt_number))
}

rgt_home() {
  case $1 in
    \~) rgt_path=$HOME ;;
    \~/*) rgt_path=$HOME/${1:2} ;;
    *) rgt_path=$1 ;;
  esac
}

# Waits for a child, at most so many seconds, with traps served meanwhile. 124: too long; 125: asked
# to end.
rgt_attend() {
  local pid=$1 limit=$2 start
  rgt_read_stat "$pid" && start=${rgt_stat[19]} || start=''
  rgt_uptime
  local end=$((rgt_up + limit))
  while rgt_same "$pid" "$start"; do
    rgt_nap 0.1
    rgt_uptime
    ((rgt_up >= end)) && return 124
    [[ -n ${3:-} && -n $rgt_asked ]] && return 125
  done
  wait "$pid"
}
