#!/usr/bin/env bash
# usage: reap_vram_zombies.sh [--force] [--json] [--sample SECONDS] [--min-age SECONDS]
#                             [--trust-empty-list] [--device FILE]...
#
# Find leftover processes that hold GPU memory after their job has ended: their parent is gone,
# nvidia-smi doesn't list them, and they do nothing. Without --force nothing is ended.
#
# A process is a candidate only if all of this holds; otherwise the table says why not:
#   it is yours (real and effective user), even if you are root; it is neither this script nor a
#     parent of it
#   it is older than --min-age, and its parent is process 1 or the user's systemd
#   nvidia-smi lists neither it, nor a process of its session or process group, nor a descendant
#   during --sample seconds it and its session used no processor time, read and wrote nothing, and
#     each GPU that it holds stayed at 0 percent
#
# It refuses to judge if the list of nvidia-smi can't be trusted, because healthy jobs would look
# like leftovers:
#   in a PID namespace of its own, as in most rented containers (nvidia-smi shows other process
#     numbers there, or none): run it on the host
#   if nvidia-smi lists a process that isn't there, or a CUDA MPS server runs
#   if nvidia-smi lists nothing while GPU memory is in use: pass --trust-empty-list if you know that
#     no job should run on these GPUs
#
# options:
#   --force             send TERM to the candidates, and KILL after 10 seconds to those that are
#                       left; each is checked again before
#   --sample S          seconds to watch (default 10)
#   --min-age S         minimum age in seconds (default 120)
#   --trust-empty-list  see above
#   --device FILE       device file to check; repeatable (default: each of /dev/nvidia0,
#                       /dev/nvidia1, ...)
#   --json              print an object: verdict (clean, candidates, ended, failed, refused,
#                       unknown), reason, processes
#   --help              this text
#
# The table (TSV): pid, uid, age_s, cpu_ticks, devices, verdict, reason, name. Command lines aren't
# shown: they may hold secrets.
#
# exit: 0 no leftovers, or all were ended; 1 there are leftovers, one could not be ended, or it
# could not tell (refused, no driver, no device file, neither fuser nor lsof); 2 wrong usage
#
# example:
#   bash reap_vram_zombies.sh && echo 'nothing of mine is left on the GPUs'
set -euo pipefail
export LC_ALL=C

say() { printf 'reap_vram_zombies: %s\n' "$*" >&2; }
usage_error() {
  say "$*; see --help"
  exit 2
}

help_text() {
  while IFS= read -r line; do
    case $line in
      '#!'*) ;;
      '# '*) printf '%s\n' "${line#'# '}" ;;
      '#') printf '\n' ;;
      *) break ;;
    esac
  done <"$1"
}

json_text() {
  local text=${1//[$'\001'-$'\037'$'\177']/ }
  text=${text//\\/\\\\}
  printf '"%s"' "${text//\"/\\\"}"
}

rows=()
# finish VERDICT CODE [REASON]: prints the answer and exits
finish() {
  local verdict=$1 code=$2 reason=${3:-} row sep='' pid uid age ticks devices word why name
  if [ "$json" = yes ]; then
    printf '{"verdict": "%s", "reason": %s, "processes": [' "$verdict" "$(json_text "$reason")"
    for row in "${rows[@]}"; do
      IFS=$'\t' read -r pid uid age ticks devices word why name <<<"$row"
      printf '%s{"pid": %s, "uid": %s, "age_s": %s, "cpu_ticks": %s, ' \
        "$sep" "$pid" "$uid" "$age" "${ticks/-/null}"
      printf '"devices": %s, "verdict": "%s", "reason": %s, "name": %s}' \
        "$(json_text "$devices")" "$word" "$(json_text "$why")" "$(json_text "$name")"
      sep=', '
    done
    printf ']}\n'
  else
    if [ ${#rows[@]} -gt 0 ]; then
      printf 'pid\tuid\tage_s\tcpu_ticks\tdevices\tverdict\treason\tname\n'
      printf '%s\n' "${rows[@]}"
    fi
    printf '%s%s\n' "$verdict" "${reason:+: $reason}"
  fi
  exit "$code"
}

# ---------------------------------------------------------------- gather

# Puts the fields of /proc/PID/stat after the name into the array stat: 0 state, 1 parent, 2 group,
# 3 session, 11 and 12 ticks, 19 start.
read_stat() {
  local text=''
  { IFS= read -r text <"/proc/$1/stat"; } 2>/dev/null || return 1
  read -ra stat <<<"${text##*) }"
  [ "${#stat[@]}" -ge 20 ]
}

uids_of() { awk '/^Uid:/ { print $2, $3; exit }' "/proc/$1/status" 2>/dev/null; }

# What a session has done so far: its members, and one number for processor ticks and bytes
# together.
activity() {
  local session=$1 entry pid name number total=0 members=''
  for entry in /proc/[0-9]*; do
    pid=${entry#/proc/}
    read_stat "$pid" || continue
    [ "${stat[3]}" = "$session" ] || continue
    members="$members,$pid"
    total=$((total + stat[11] + stat[12]))
    while read -r name number; do
      case $name in rchar: | wchar:) total=$((total + number)) ;; esac
    done 2>/dev/null <"$entry/io" || true
  done
  printf '%s:%s' "$members" "$total"
}

# fuser stops at "--" and would find nobody; the path begins with a slash, so it needs none.
holders_of() {
  if command -v fuser >/dev/null; then
    fuser "$1" 2>/dev/null | tr -cs '0-9' '\n' | grep . || true
  else
    lsof -t -- "$1" 2>/dev/null || true
  fi
}

# The process numbers that nvidia-smi lists, of every kind, one per line. Fails if it can't list.
listed_pids() {
  local compute all
  compute=$(timeout 20 nvidia-smi --query-compute-apps=pid \
    --format=csv,noheader,nounits 2>/dev/null) || return 1
  all=$(timeout 20 nvidia-smi -q -d PIDS 2>/dev/null) || return 1
  # "    Processes                             : N/A"
  if grep -q 'Processes *: *N/A' <<<"$all"; then return 1; fi
  # "        Process ID                        : 4711"
  awk -F: '/Process ID/ { print $2 }' <<<"$all" | cat - <(printf '%s\n' "$compute") |
    tr -cs '0-9' '\n' | grep . | sort -un || true
}

# The name of a process without what would end a line or a column.
shown_name() { tr -d '\000-\037' <"/proc/$1/comm" 2>/dev/null; }

# "0, 40321, 98" for each GPU: index, MiB used, percent busy
gpu_table() {
  timeout 20 nvidia-smi --query-gpu=index,memory.used,utilization.gpu \
    --format=csv,noheader,nounits 2>/dev/null
}

# Fails if a GPU that is held was busy or can't say. A device with another name stands for all GPUs.
gpus_idle() {
  local index memory busy wanted
  while IFS=', ' read -r index memory busy; do
    [ -n "$index" ] || continue
    wanted=yes
    case ",$1," in *[!0-9,]*) ;; *",${minor_of[index]:-$index},"*) ;; *) wanted=no ;; esac
    if [ "$wanted" = yes ] && [ "$busy" != 0 ]; then return 1; fi
  done <<<"$2"
}

# ---------------------------------------------------------------- judge

# Puts into $doubt why the list of processes can't be trusted here.
judge_list() {
  local pid index memory busy used=0 listed
  doubt=''
  # The first PID namespace of a kernel has this number (PROC_PID_INIT_INO in
  # include/linux/proc_ns.h).
  if [ "$(readlink /proc/self/ns/pid 2>/dev/null)" != 'pid:[4026531836]' ]; then
    doubt='in a container (a PID namespace of its own) nvidia-smi cannot tell'
    doubt+=' which processes are alive; run it on the host'
    return
  fi
  for pid in /proc/[0-9]*; do
    case $(cat "$pid/comm" 2>/dev/null) in
      nvidia-cuda-mps*)
        doubt='a CUDA MPS server runs, whose clients nvidia-smi does not list; end it first'
        ;;
    esac
  done
  listed=$1
  for pid in $listed; do
    [ -d "/proc/$pid" ] ||
      doubt="nvidia-smi lists process $pid, which does not exist here; run it on the host"
  done
  while IFS=', ' read -r index memory busy; do
    case $memory in '' | *[!0-9]*) ;; *) used=$((used + memory)) ;; esac
  done <<<"$table"
  # An idle GPU with a loaded driver uses less.
  if [ -z "$doubt" ] && [ -z "$listed" ] && [ "$used" -ge 64 ] && [ "$trust_empty" = no ]; then
    doubt="nvidia-smi lists no process while $used MiB are in use;"
    doubt+=' pass --trust-empty-list if no job should run here'
  fi
}

# Puts into $against why a process isn't a candidate, before it is watched. Reads listed.
judge_process() {
  local pid=$1 up other uids parent
  against=''
  read_stat "$pid" || {
    against='it has ended'
    return
  }
  uids=$(uids_of "$pid")
  if [ "$uids" != "$my_uid $my_uid" ]; then
    against="not yours (user ${uids%% *})"
    return
  fi
  case " $family " in *" $pid "*)
    against='this script or a parent of it'
    return
    ;;
  esac
  if [ "$(age_of)" -lt "$min_age" ]; then
    against="younger than $min_age s"
    return
  fi
  parent=$(cat "/proc/${stat[1]}/comm" 2>/dev/null) || parent=''
  if [ "${stat[1]}" -gt 1 ] && [ "$parent" != systemd ]; then
    against="its parent ${stat[1]} is alive"
    return
  fi
  local session=${stat[3]} group=${stat[2]}
  for other in $listed; do
    if [ "$other" = "$pid" ]; then
      against='nvidia-smi lists it'
      return
    fi
    if read_stat "$other" && { [ "${stat[3]}" = "$session" ] || [ "${stat[2]}" = "$group" ]; }; then
      against="nvidia-smi lists process $other of its session"
      return
    fi
    up=$other
    while [ "$up" -gt 1 ] && read_stat "$up"; do
      up=${stat[1]}
      if [ "$up" = "$pid" ]; then
        against="nvidia-smi lists its child $other"
        return
      fi
    done
  done
}

# The age in seconds of the process in stat.
age_of() {
  local up
  read -r up _ </proc/uptime
  printf '%s' "$((${up%.*} - stat[19] / hertz))"
}

# ---------------------------------------------------------------- main

force=no json=no sample=10 min_age=120 trust_empty=no devices=()
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h)
      help_text "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --force) force=yes ;;
    --json) json=yes ;;
    --trust-empty-list) trust_empty=yes ;;
    --sample | --min-age)
      case ${2:-} in
        '' | *[!0-9]* | 0*)
          usage_error "$1 needs a whole number above 0, not $(printf '%q' "${2:-nothing}")"
          ;;
      esac
      if [ "$1" = --sample ]; then sample=$2; else min_age=$2; fi
      shift
      ;;
    --device)
      case ${2:-} in
        /*) ;;
        *)
          usage_error "--device needs a path that begins with /," \
            "not $(printf '%q' "${2:-nothing}")"
          ;;
      esac
      [ -c "$2" ] || usage_error "--device: $(printf '%q' "$2") isn't a character device"
      devices+=("$2")
      shift
      ;;
    *) usage_error "unknown argument $(printf '%q' "$1")" ;;
  esac
  shift
done

command -v nvidia-smi >/dev/null ||
  finish unknown 1 'nvidia-smi is missing; install the NVIDIA driver'
command -v fuser >/dev/null || command -v lsof >/dev/null ||
  finish unknown 1 'neither fuser nor lsof is installed; apt-get install psmisc'
if [ ${#devices[@]} -eq 0 ]; then
  for name in /dev/nvidia[0-9]*; do if [ -c "$name" ]; then devices+=("$name"); fi; done
fi
[ ${#devices[@]} -gt 0 ] ||
  finish unknown 1 'no device file such as /dev/nvidia0; load the NVIDIA driver, or pass --device'
table=$(gpu_table) ||
  finish unknown 1 'nvidia-smi did not answer within 20 s; look for Xid in dmesg'
listed=$(listed_pids) ||
  finish unknown 1 'nvidia-smi can not list processes here (N/A or an error); run it on the host'

# The N of /dev/nvidiaN is the minor number, in the order of nvidia-smi's index:
# "    Minor Number                          : 0"
minor_of=()
while read -r number; do minor_of+=("$number"); done < <(
  timeout 20 nvidia-smi -q 2>/dev/null | awk -F': *' '/Minor Number/ { print $2 }'
)
my_uid=$(id -u) hertz=$(getconf CLK_TCK 2>/dev/null) || hertz=100
family="$$" up=$PPID
while [ "$up" -gt 1 ]; do
  family="$family $up"
  read_stat "$up" || break
  up=${stat[1]}
done

declare -A held=() before=() started=() session_of=()
for name in "${devices[@]}"; do
  index=${name##*/}
  index=${index#nvidia}
  for pid in $(holders_of "$name"); do held[$pid]=${held[$pid]:+${held[$pid]},}$index; done
done

judge_list "$listed"
watched=()
for pid in $(printf '%s\n' "${!held[@]}" | sort -n); do
  judge_process "$pid"
  if [ -n "$doubt" ] && [ -z "$against" ]; then
    against='the list of processes can not be trusted'
  fi
  if [ -z "$against" ]; then
    read_stat "$pid" || continue
    watched+=("$pid")
    started[$pid]=${stat[19]} session_of[$pid]=${stat[3]}
    before[$pid]=$(activity "${stat[3]}")
  else
    read_stat "$pid" || continue
    uids=$(uids_of "$pid")
    printf -v row '%s\t' "$pid" "${uids%% *}" "$(age_of)" - "${held[$pid]}" skipped "$against" \
      "$(shown_name "$pid")"
    rows+=("${row%$'\t'}")
  fi
done
[ -z "$doubt" ] || finish refused 1 "$doubt"
[ ${#watched[@]} -gt 0 ] || finish clean 0

busy_gpus=''
for ((second = 0; second < sample; second++)); do
  sleep 1
  busy_gpus=$busy_gpus$'\n'$(gpu_table) ||
    finish unknown 1 'nvidia-smi stopped answering; look for Xid in dmesg'
done
listed=$(listed_pids) ||
  finish unknown 1 'nvidia-smi stopped listing processes; look for Xid in dmesg'
judge_list "$listed"
[ -z "$doubt" ] || finish refused 1 "$doubt"
candidates=()
for pid in "${watched[@]}"; do
  judge_process "$pid"
  ticks=-
  if [ -z "$against" ] && read_stat "$pid"; then
    ticks=$((stat[11] + stat[12]))
    if [ "${stat[19]}" != "${started[$pid]}" ]; then
      against='it has ended'
    elif [ "$(activity "${session_of[$pid]}")" != "${before[$pid]}" ]; then
      against="it or its session worked within $sample s"
    elif ! gpus_idle "${held[$pid]}" "$busy_gpus"; then
      against="a GPU that it holds was busy within $sample s"
    fi
  fi
  read_stat "$pid" || continue
  word=candidate
  if [ -n "$against" ]; then word=skipped; else candidates+=("$pid"); fi
  printf -v row '%s\t' "$pid" "$my_uid" "$(age_of)" "$ticks" "${held[$pid]}" "$word" \
    "${against:--}" "$(shown_name "$pid")"
  rows+=("${row%$'\t'}")
done
[ ${#candidates[@]} -gt 0 ] || finish clean 0
[ "$force" = yes ] || finish candidates 1 "${#candidates[@]} leftover processes; \
look at them with ps -fp ${candidates[*]}, then pass --force"

# Signals only the process that was judged: same start time, still yours.
send() {
  read_stat "$2" && [ "${stat[19]}" = "${started[$2]}" ] &&
    [ "$(uids_of "$2")" = "$my_uid $my_uid" ] && kill "-$1" "$2" 2>/dev/null
}
gone() { ! read_stat "$1" || [ "${stat[19]}" != "${started[$1]}" ] || [ "${stat[0]}" = Z ]; }
left() {
  remaining=()
  for pid in "${candidates[@]}"; do gone "$pid" || remaining+=("$pid"); done
}
for pid in "${candidates[@]}"; do send TERM "$pid" || true; done
for ((second = 0; second < 20; second++)); do
  left
  [ ${#remaining[@]} -gt 0 ] || break
  sleep 0.5
done
for pid in "${remaining[@]}"; do send KILL "$pid" || true; done
for ((second = 0; second < 10; second++)); do
  left
  [ ${#remaining[@]} -gt 0 ] || finish ended 0 "${#candidates[@]} leftover processes were ended"
  sleep 0.5
done
finish failed 1 "${remaining[*]} still there after KILL, probably waiting for the driver; \
restart the box"
