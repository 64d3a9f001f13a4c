#!/usr/bin/env bash
# usage: download_loop.sh [--checksum] [--json] [-- OPTIONS OF verify_local.py]
#
# Pull results from a box to this machine, folder by folder, and verify them. If it is interrupted,
# run it again: it goes on where it stopped.
#
# It pulls the manifest first: PULL_MANIFEST.json, which aggregate_to_fs.sh or verify_local.py
# --make wrote there. Then it starts one rsync session for each folder of the manifest, with exactly
# the files listed. At the end verify_local.py compares every SHA-256; the PULL_VERIFIED.json that
# it writes is the only proof. If a hash differs, the files are compared by checksum and pulled once
# more.
#
# variables:
#   REMOTE_ALIAS    the box, as named in the ssh configuration; empty: REMOTE_PATH is on this
#                   machine
#   REMOTE_PATH     folder on the box that holds the manifest, such as
#                   /root/autodl-fs/sweep7/final_ckpts or ~/results
#   LOCAL_TARGET    folder here; created if missing
#   SSH_CONFIG      another ssh configuration file (ssh -F); default REMOTE_GPU_TRAINER_SSH_CONFIG
#   PY              Python 3.8 or later (default python3); with torch it also loads the checkpoints
#   VERIFY_SCRIPT   verify_local.py (default: the one beside this script)
#   TRIES           sessions for each folder before it counts as failed (default 5)
#   WAIT            seconds before the second try (default 5); doubled each time, up to 60
#
# options:
#   --checksum      compare files that are already here by checksum instead of size and time
#   --json          print the object of verify_local.py
#   --help          this text
#   -- OPTIONS      for verify_local.py: --expect 12, --no-load, --allow-pickle, --list-metrics
#
# Nothing of yours is deleted, here or there, and nothing on the box is changed. If LOCAL_TARGET
# holds another run, nothing is overwritten.
#
# exit: 0 verified; 1 a folder could not be pulled, or something is bad; 2 wrong usage, no
# connection, or verify_local.py could not tell
#
# example:
#   REMOTE_ALIAS=gpu REMOTE_PATH=/root/autodl-fs/sweep7/final_ckpts \
#     LOCAL_TARGET=~/results/sweep7 bash download_loop.sh -- --expect 12
set -euo pipefail

say() { printf 'download_loop: %s\n' "$*" >&2; }
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

# rsync splits the text of -e at blanks and understands quotes, but no backslash.
quoted_for_rsync() {
  case $1 in
    *\'*) printf '"%s"' "$1" ;;
    *) printf "'%s'" "$1" ;;
  esac
}

# pull MORE-OPTIONS... < NUL-separated paths: one session
pull() {
  rsync -rt --partial --partial-dir=.rsync-partial --timeout=120 --from0 --files-from=- \
    "${protect[@]}" "${remote_shell[@]}" "$@" "$from/" "$LOCAL_TARGET/" >&2
}

paths_of() { "$py" "$verify" --show "$manifest" --folder "$1"; }

# All sessions of one folder. Waiting doesn't help after rsync's exit 23 and 24: a file is missing
# there.
pull_folder() {
  local name=$1 try code pause=$wait_s
  shift
  for ((try = 1; try <= tries; try++)); do
    code=0
    paths_of "$name" | pull "$@" || code=$?
    case $code in
      0) return 0 ;;
      23 | 24) break ;;
    esac
    say "$name: session $try of $tries: rsync ended with $code"
    if [ "$try" -lt "$tries" ]; then
      sleep "$pause"
      pause=$((pause * 2 > 60 ? 60 : pause * 2))
    fi
  done
  say "$name: rsync ended with $code; run this again, what has arrived is kept"
  return 1
}

pull_all() {
  local name
  failed=0
  while IFS=$'\t' read -r _ name _ _; do
    pull_folder "$name" "$@" || failed=$((failed + 1))
  done <<<"$folders"
}

field() { awk -F '\t' -v key="$1" '$1 == key { print $2; exit }' <<<"$2"; }

checksum=() json=() verify_options=()
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h)
      help_text "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --checksum) checksum=(--checksum) ;;
    --json) json=(--json) ;;
    --)
      shift
      verify_options=("$@")
      break
      ;;
    *) usage_error "unknown argument $(printf '%q' "$1")" ;;
  esac
  shift
done

for name in REMOTE_PATH LOCAL_TARGET; do
  [ -n "${!name:-}" ] || usage_error "$name isn't set"
done
[ "${REMOTE_ALIAS+set}" = set ] ||
  usage_error "REMOTE_ALIAS isn't set; name a host of the ssh configuration," \
    "or leave it empty for this machine"
case $REMOTE_ALIAS in
  -* | *[!A-Za-z0-9._@-]*)
    usage_error "REMOTE_ALIAS=$(printf '%q' "$REMOTE_ALIAS")" \
      "isn't a host of the ssh configuration"
    ;;
esac
case $REMOTE_PATH in
  -*) usage_error "REMOTE_PATH=$(printf '%q' "$REMOTE_PATH") isn't a folder" ;;
esac
py=${PY:-python3} tries=${TRIES:-5} wait_s=${WAIT:-5}
case "$tries$wait_s" in
  *[!0-9]*) usage_error "TRIES=$tries and WAIT=$wait_s must be whole numbers" ;;
esac
verify=${VERIFY_SCRIPT:-$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)/verify_local.py}
[ -f "$verify" ] || usage_error "no file $verify; set VERIFY_SCRIPT to verify_local.py"
for name in rsync "$py"; do
  command -v -- "$name" >/dev/null || usage_error "$name isn't installed"
done

protect=()
case $(rsync --help 2>&1) in
  *--protect-args* | *--secluded-args*) protect=(-s) ;;
  *)
    case $REMOTE_PATH in
      *[!A-Za-z0-9._/~+=@,-]*)
        usage_error "REMOTE_PATH=$(printf '%q' "$REMOTE_PATH")" \
          "needs an rsync with --protect-args; install rsync 3"
        ;;
    esac
    ;;
esac
remote_shell=() from=${REMOTE_PATH%/} ssh_config=${SSH_CONFIG:-${REMOTE_GPU_TRAINER_SSH_CONFIG:-}}
if [ -n "$REMOTE_ALIAS" ]; then
  shell='ssh -o BatchMode=yes -o ConnectTimeout=15'
  shell+=' -o ServerAliveInterval=60 -o ServerAliveCountMax=120'
  if [ -n "$ssh_config" ]; then shell="$shell -F $(quoted_for_rsync "$ssh_config")"; fi
  remote_shell=(-e "$shell")
  # Protected arguments reach no shell there that would expand ~/. A relative path begins in the
  # home folder anyway.
  case $from in
    [~]/*) from=${from#??} ;;
    [~]) from=. ;;
  esac
  from=$REMOTE_ALIAS:$from
else
  case $from in
    '' | '.'/* | '..'/* | /*) ;;
    *) from=./$from ;;
  esac
fi

mkdir -p -- "$LOCAL_TARGET" || usage_error "can't create LOCAL_TARGET=$LOCAL_TARGET"
case $LOCAL_TARGET in
  /*) ;;
  *) LOCAL_TARGET=./$LOCAL_TARGET ;; # so that rsync takes it for neither a host nor an option
esac
manifest=$LOCAL_TARGET/PULL_MANIFEST.json
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
fresh=$scratch/PULL_MANIFEST.json
code=0
rsync -t --timeout=120 "${protect[@]}" "${remote_shell[@]}" \
  "$from/PULL_MANIFEST.json" "$fresh" >&2 || code=$?
case $code in
  0) ;;
  23)
    usage_error "no PULL_MANIFEST.json in $from; make it on the box:" \
      "verify_local.py --make FOLDER -o FOLDER/PULL_MANIFEST.json"
    ;;
  *)
    usage_error "can't reach $from (rsync ended with $code);" \
      "try: ssh ${REMOTE_ALIAS:-HOST} true"
    ;;
esac
shown=$("$py" "$verify" --show "$fresh") || {
  say "the manifest in $from can't be trusted; make it again on the box with verify_local.py --make"
  exit 1
}
if [ -f "$manifest" ]; then
  mine=$("$py" "$verify" --show "$manifest" 2>/dev/null) || mine=''
  if [ -n "$mine" ] && [ "$(field run_id "$mine")" != "$(field run_id "$shown")" ]; then
    usage_error "$LOCAL_TARGET holds run $(field run_id "$mine")," \
      "the box has run $(field run_id "$shown"); take another LOCAL_TARGET"
  fi
fi
if [ -f "$LOCAL_TARGET/PULL_VERIFIED.json" ]; then
  mv -f -- "$LOCAL_TARGET/PULL_VERIFIED.json" "$LOCAL_TARGET/PULL_VERIFIED.old.json"
fi
cp -- "$fresh" "$manifest"
folders=$(grep '^folder' <<<"$shown")

need_kb=$(awk -F '\t' '$1 == "total" { printf "%d", $3 / 1024 }' <<<"$shown")
have_kb=$(du -sk -- "$LOCAL_TARGET" | cut -f1)
free_kb=$(df -Pk -- "$LOCAL_TARGET" | awk 'NR == 2 { print $4 }')
if [ "$need_kb" -gt "$((free_kb + have_kb))" ]; then
  usage_error "$LOCAL_TARGET has $free_kb KiB free, the files need $((need_kb - have_kb));" \
    "take another LOCAL_TARGET"
fi

say "run $(field run_id "$shown"): $(field total "$shown") files, $need_kb KiB," \
  "$(grep -c '' <<<"$folders") folders"
pull_all "${checksum[@]}"
if [ "$failed" -gt 0 ]; then
  say "$failed folders could not be pulled, so nothing was verified; run this again"
  exit 1
fi

# Puts the answer of verify_local.py into $report and what it says on stderr into $scratch/said.
check() {
  code=0
  report=$("$py" "$verify" "$LOCAL_TARGET" --manifest "$manifest" "${json[@]}" \
    "${verify_options[@]}" 2>"$scratch/said") || code=$?
}
check
# "verify_local: bad: seed0/best.pth: SHA-256 0a1b..., expected ..."
if [ "$code" -eq 1 ] && [ "${#checksum[@]}" -eq 0 ] &&
  grep -q '^verify_local: bad: .*: SHA-256 [0-9a-f]*, expected' "$scratch/said"; then
  say "a hash differs: pulling once more by checksum"
  pull_all --checksum
  check
fi
cat -- "$scratch/said" >&2
if [ -n "$report" ]; then printf '%s\n' "$report"; fi
exit "$code"
