#!/usr/bin/env bash
# usage: slurm_health_check.sh [--help]
#
# A HealthCheckProgram for Slurm: it checks the GPUs of this node with gpu_health.py and drains the
# node if they are unfit. The reason names the GPU and the fault. Slurm ignores the exit code and
# the output of the program, so this script drains the node itself. By default it drains for neither
# a warning nor a check that could not tell; both go to the log of slurmd. By default it never
# resumes a node.
#
# In slurm.conf, with both files in one folder on every node, owned by root and writable only by
# root:
#   HealthCheckProgram=/opt/gpu_health/slurm_health_check.sh
#   HealthCheckInterval=300
#   HealthCheckNodeState=ANY,CYCLE
#
# settings: shell assignments in gpu_health.conf beside this script, or else in
# /etc/default/gpu_health; Slurm passes no arguments
#   GPU_HEALTH_EXPECT     as for gpu_health.py --expect, such as gpus=8,name=H100,nvlink=all
#                         (default: compare nothing)
#   GPU_HEALTH_DRAIN_ON   verdicts that drain the node (default "unfit"; all: "unfit care unknown")
#   GPU_HEALTH_RESUME     yes: resume a node that is fit again, if this script drained it (default
#                         no: a GPU that recovered may fail again)
#   GPU_HEALTH_SECONDS    time limit of one check (default 50; slurmd kills the program after 60);
#                         beyond it the check could not tell
#   GPU_HEALTH_PYTHON     interpreter (default python3)
#   GPU_HEALTH_SCRIPT     where gpu_health.py is (default: beside this script)
#
# exit: 0 fit; 1 care or unfit; 2 could not tell, or scontrol refused
#
# example:
#   SLURMD_NODENAME=node7 bash slurm_health_check.sh && echo fit
set -euo pipefail
export LC_ALL=C
# slurmd sets only SLURMD_NODENAME: no PATH, no HOME.
export PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}

MARK='gpu_health:' # every reason of this script begins with it

say() { printf 'slurm_health_check: %s\n' "$*"; } # slurmd logs stdout

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

# plain TEXT: one line of at most 200 characters that scontrol and a table of reasons can hold
plain() {
  local text=${1//[!a-zA-Z0-9 .,:;_()\/%+=<>-]/ }
  while [[ $text == *'  '* ]]; do text=${text//  / }; done
  printf '%s' "${text:0:200}"
}

# drained NODE: the reason why it is drained now; fails if it isn't drained
drained() {
  local line
  line=$(scontrol show node "$1" --oneliner) || return 1
  local states=${line##* State=}
  [[ ${states%% *} == *DRAIN* ]] || return 1
  line=${line##* Reason=}
  printf '%s' "${line%% [*}"
}

drain() { # drain NODE TEXT
  local now
  if now=$(drained "$1"); then
    say "node $1 stays drained, its reason: $now"
    return 0
  fi
  scontrol update "NodeName=$1" State=DRAIN "Reason=$MARK $2" || return 1
  say "node $1 is drained: $2"
}

resume() { # resume NODE
  local now
  now=$(drained "$1") || return 0
  [[ $now == "$MARK"* ]] || return 0
  scontrol update "NodeName=$1" State=RESUME || return 1
  say "node $1 is resumed; it was drained for: $now"
}

main() {
  case ${1-} in
    -h | --help)
      help_text "$0"
      return 0
      ;;
    ?*)
      say "unknown argument $1; see --help" >&2
      return 2
      ;;
  esac
  local here config
  here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
  config=$here/gpu_health.conf
  [[ -r $config ]] || config=/etc/default/gpu_health
  # shellcheck disable=SC1090
  if [[ -r $config ]]; then . "$config"; fi
  local script=${GPU_HEALTH_SCRIPT:-$here/gpu_health.py} python=${GPU_HEALTH_PYTHON:-python3}
  local node=${SLURMD_NODENAME:-$(hostname -s)}
  local most=${GPU_HEALTH_SECONDS:-50} out code=0 verdict text
  out=$(timeout -k 2 "$most" "$python" -I "$script" \
    ${GPU_HEALTH_EXPECT:+"--expect=$GPU_HEALTH_EXPECT"} 2>&1 </dev/null) || code=$?
  case $out in
    'verdict: '*)
      verdict=${out%%$'\n'*}
      verdict=${verdict#'verdict: '}
      ;;
    *) verdict=none ;;
  esac
  text=${out#*$'\n'}
  text=${text%%$'\n'*} # the worst finding comes first
  case $code/$verdict in
    0/fit | 1/care | 1/unfit | 2/unknown) ;;
    124/* | 137/*)
      verdict=unknown code=2
      text="no verdict within $most s: check the load and the disks of the node"
      ;;
    *) verdict=unknown code=2 text="no verdict (exit $code): $text" ;;
  esac
  text=$(plain "$text")
  if [[ $verdict == fit ]]; then
    say "fit"
    if [[ ${GPU_HEALTH_RESUME:-no} == yes ]]; then resume "$node" || return 2; fi
    return 0
  fi
  say "$verdict: $text"
  if [[ " ${GPU_HEALTH_DRAIN_ON:-unfit} " == *" $verdict "* ]]; then
    drain "$node" "$verdict, $text" || return 2
  fi
  return "$code"
}

main "$@"
