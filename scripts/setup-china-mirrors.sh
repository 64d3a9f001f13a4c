#!/usr/bin/env bash
# usage: source setup-china-mirrors.sh
#        bash setup-china-mirrors.sh --print
#
# Point Hugging Face, ModelScope and pip at servers that are fast from mainland China, and put their
# caches on the data disk.
#
# Source it to set variables in this shell; stderr names each of them. With --print it prints them
# as export lines and sets nothing: for a single ssh command, whose shell ends with it, or for a
# file that later shells source.
#
# variables that it reads:
#   DATA_DIR      data disk, such as /root/autodl-tmp; if it isn't set, the caches stay where they
#                 are
#   HF_MIRROR     default https://hf-mirror.com
#   PIP_MIRROR    default https://pypi.tuna.tsinghua.edu.cn/simple
#
# variables that it sets, each only when it is empty or unset:
#   HF_ENDPOINT                   the mirror; it must be set before Python imports huggingface_hub,
#                                 transformers or datasets
#   HF_HUB_DISABLE_XET=1          with the mirror: otherwise large files would come from Xet storage
#                                 instead
#   HF_HOME, HF_HUB_CACHE         DATA_DIR/hf, DATA_DIR/hf/hub
#   MODELSCOPE_CACHE, TORCH_HOME  DATA_DIR/modelscope, DATA_DIR/torch
#   PIP_CACHE_DIR                 DATA_DIR/pip-cache
#   PIP_INDEX_URL                 the pip mirror, unless a pip.conf names an index. It mirrors only
#                                 PyPI: wheels of torch, nightly ones above all, keep their own
#                                 --index-url, of which no complete mirror exists
#   no_proxy, NO_PROXY            only when a proxy is set: both get the names in either, the local
#                                 names and the mirrors, so that these bypass it
#
# Proxy addresses are never printed. Nothing is written to disk. Sourcing it again changes nothing.
#
# exit (or status, when sourced): 0 set or printed; 1 DATA_DIR isn't a writable folder, nothing is
# set; 2 wrong usage
#
# examples:
#   DATA_DIR=/root/autodl-tmp source setup-china-mirrors.sh
#   ssh gpu 'eval "$(DATA_DIR=/root/autodl-tmp bash setup-china-mirrors.sh --print)" &&
#     python download.py'
#   DATA_DIR=/root/autodl-tmp bash setup-china-mirrors.sh --print >~/mirrors.sh

# Everything below runs in functions with local names and changes no option of the shell that
# sources it, with or without set -eu.

# Prints an export line or exports the variable, unless it has a value.
_rgt_mirrors_set() {
  if [ -n "${!2:-}" ]; then
    [ "$1" = print ] || printf 'kept  %s=%s\n' "$2" "${!2}" >&2
  elif [ "$1" = print ]; then
    printf 'export %s=%q\n' "$2" "$3"
  else
    export "$2=$3"
    printf 'set   %s=%s\n' "$2" "$3" >&2
  fi
}

# Whether a configuration file of pip already names an index.
_rgt_mirrors_pip_conf() {
  local file line home=${HOME:-/root}
  for file in "${PIP_CONFIG_FILE:-}" "${XDG_CONFIG_HOME:-$home/.config}/pip/pip.conf" \
    "$home/.pip/pip.conf" /etc/pip.conf /etc/xdg/pip/pip.conf \
    "${VIRTUAL_ENV:-/nowhere}/pip.conf"; do
    [ -n "$file" ] && [ -r "$file" ] || continue
    while IFS= read -r line || [ -n "$line" ]; do
      case ${line//[[:space:]]/} in index-url=* | index_url=*) return 0 ;; esac
    done <"$file"
  done
  return 1
}

# Adds each missing name to the comma-separated list in the variable that $1 names.
_rgt_mirrors_union() {
  local _list=$1 _name
  shift
  for _name in "$@"; do
    case ",${!_list}," in
      *",$_name,"*) ;;
      *) printf -v "$_list" '%s' "${!_list:+${!_list},}$_name" ;;
    esac
  done
}

_rgt_mirrors() {
  local how=$1 endpoint=${HF_MIRROR:-https://hf-mirror.com} data=${DATA_DIR:-} home list='' name
  local pip=${PIP_MIRROR:-https://pypi.tuna.tsinghua.edu.cn/simple}
  local host words=()
  data=${data%/}
  if [ -n "$data" ] && { [ ! -d "$data" ] || [ ! -w "$data" ]; }; then
    printf 'setup-china-mirrors: DATA_DIR=%s is not a writable folder, ' "$data" >&2
    printf 'nothing was set; mount the data disk or leave DATA_DIR empty\n' >&2
    return 1
  fi
  _rgt_mirrors_set "$how" HF_ENDPOINT "$endpoint"
  if [ "${HF_ENDPOINT:-$endpoint}" = "$endpoint" ]; then
    _rgt_mirrors_set "$how" HF_HUB_DISABLE_XET 1
  fi
  if [ -n "$data" ]; then
    home=${HF_HOME:-$data/hf}
    _rgt_mirrors_set "$how" HF_HOME "$home"
    _rgt_mirrors_set "$how" HF_HUB_CACHE "$home/hub"
    _rgt_mirrors_set "$how" MODELSCOPE_CACHE "$data/modelscope"
    _rgt_mirrors_set "$how" TORCH_HOME "$data/torch"
    _rgt_mirrors_set "$how" PIP_CACHE_DIR "$data/pip-cache"
  elif [ "$how" != print ]; then
    printf 'kept  the caches where they are: DATA_DIR is not set\n' >&2
  fi
  if _rgt_mirrors_pip_conf; then
    [ "$how" = print ] || printf 'kept  the index of pip.conf\n' >&2
  else
    _rgt_mirrors_set "$how" PIP_INDEX_URL "$pip"
  fi
  if [ -n "${http_proxy:-}${https_proxy:-}${all_proxy:-}" ] ||
    [ -n "${HTTP_PROXY:-}${HTTPS_PROXY:-}${ALL_PROXY:-}" ]; then
    IFS=', ' read -ra words <<<"${no_proxy:-},${NO_PROXY:-}" || true
    for name in "${words[@]}"; do if [ -n "$name" ]; then _rgt_mirrors_union list "$name"; fi; done
    _rgt_mirrors_union list localhost 127.0.0.1 ::1
    for host in "$endpoint" "$pip"; do
      host=${host#*://}
      host=${host%%[/:]*}
      _rgt_mirrors_union list "$host" ".$host"
    done
    # Some clients take a leading dot for subdomains only, so both forms are listed.
    _rgt_mirrors_union list modelscope.cn .modelscope.cn .aliyuncs.com .tuna.tsinghua.edu.cn
    for name in no_proxy NO_PROXY; do
      if [ "$how" = print ]; then
        printf 'export %s=%q\n' "$name" "$list"
      else
        export "$name=$list"
        printf 'set   %s=%s\n' "$name" "$list" >&2
      fi
    done
  fi
}

_rgt_mirrors_help() {
  local line
  while IFS= read -r line; do
    case $line in
      '#!'*) ;;
      '# '*) printf '%s\n' "${line#'# '}" ;;
      '#') printf '\n' ;;
      *) break ;;
    esac
  done <"$1"
}

if [ -n "${BASH_SOURCE[0]:-}" ] && [ "${BASH_SOURCE[0]}" != "$0" ]; then
  # Sourced. "$@" may belong to the sourcing script, so it is ignored.
  _rgt_mirrors set && _rgt_mirrors_status=0 || _rgt_mirrors_status=$?
  unset -f _rgt_mirrors _rgt_mirrors_set _rgt_mirrors_pip_conf _rgt_mirrors_union _rgt_mirrors_help
  # The status outlives its variable.
  if [ "$_rgt_mirrors_status" -ne 0 ]; then
    unset _rgt_mirrors_status
    return 1
  fi
  unset _rgt_mirrors_status
  return 0
fi
case ${1:-} in
  --print)
    _rgt_mirrors print
    ;;
  --help | -h)
    _rgt_mirrors_help "${BASH_SOURCE[0]:-/dev/null}"
    ;;
  *)
    printf 'setup-china-mirrors: run like this (%q), ' "${1:-no argument}" >&2
    printf 'the exports would be lost when it ends; ' >&2
    printf 'use source setup-china-mirrors.sh, or pass --print or --help\n' >&2
    exit 2
    ;;
esac
