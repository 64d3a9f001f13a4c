#!/usr/bin/env bash
# usage: download_loop.sh [--checksum] [--json] [-- OPTIONS OF verify_local.py]
#
# Pull results from a box to this machine, folder by folder, and verify them. Interrupted, it goes on where it stopped: run it again.
#
# The manifest comes first (PULL_MANIFEST.json, as aggregate_to_fs.sh or verify_local.py --make wrote it there). Then one rsync session for each
# folder that it lists, with exactly the files that it lists. A file counts as pulled by its SHA-256, never by its size: verify_local.py ends
# the run, and its PULL_VERIFIED.json is the only proof. Where a hash differs, the files are compared by checksum and pulled once more.
#
# variables:
#   REMOTE_ALIAS    the box, as named in the ssh configuration; empty: REMOTE_PATH is on this machine
#   REMOTE_PATH     folder on the box that holds the manifest, such as /root/autodl-fs/sweep7/final_ckpts or ~/results
#   LOCAL_TARGET    folder here; made when missing
#   SSH_CONFIG      another ssh configuration file (ssh -F); else REMOTE_GPU_TRAINER_SSH_CONFIG
#   PY              Python 3.8 or later (default python3); with torch, checkpoints are loaded
#   VERIFY_SCRIPT   verify_local.py (default: the one beside this script)
#   TRIES           sessions for each folder before it counts as failed (default 5)
#   WAIT            seconds before the second try, doubled up to 60 each time (default 5)
#
# options:
#   --checksum      compare files that are here already by checksum, not by size and time
#   --json          print verify_local.py's object
#   --help          this text
#   -- OPTIONS      for verify_local.py: --expect 12, --no-load, --allow-pickle, --list-metrics
#
# Nothing of yours is deleted, here or there, and nothing on the box is changed. Files of another run in LOCAL_TARGET are refused, not overwritten.
#
# exit: 0 verified; 1 a folder could not be pulled, or something is bad; 2 usage, no connection, or verify_local.py could not tell
#
# example:
#   REMOTE_ALIAS=gpu REMOTE_PATH=/root/autodl-fs/sweep7/final_ckpts LOCAL_TARGET=~/results/sweep7 bash download_loop.sh -- --expect 12
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

# rsync splits its -e text at blanks and knows quotes, but no backslash.
quoted_for_rsync() {
  case $1 in
    *\'*) printf '"%s"' "$1" ;;
    *) printf "'%s'" "$1" ;;
  esac
}

# pull MORE-OPTIONS... < NUL-separated paths: one session
pull() {
  rsync -rt --partial --partial-dir=.rsync-partial --timeout=120 --from0 --files-from=- "${protect[@]}" "${remote_shell[@]}" "$@" "$from/" "$LOCAL_TARGET/" >&2
}

paths_of() { "$py" "$verify" --show "$manifest" --folder "$1"; }

# All sessions of one folder. rsync's exit 23 and 24 (a file is missing there) don't get better by waiting.
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
    say "$name: session $try of $tries ended with rsync's $code"
    if [ "$try" -lt "$tries" ]; then
      sleep "$pause"
      pause=$((pause * 2 > 60 ? 60 : pause * 2))
    fi
  done
  say "$name: found rsync's exit $code, expected 0; run this again, what has arrived is kept"
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
    *) usage_error "found $(printf '%q' "$1"), expected --checksum, --json, -- or --help" ;;
  esac
  shift
done

for name in REMOTE_PATH LOCAL_TARGET; do
  [ -n "${!name:-}" ] || usage_error "found no $name, expected it in the environment"
done
[ "${REMOTE_ALIAS+set}" = set ] || usage_error "found no REMOTE_ALIAS, expected a host of the ssh configuration (empty: this machine)"
case $REMOTE_ALIAS in
  -* | *[!A-Za-z0-9._@-]*) usage_error "REMOTE_ALIAS: found $(printf '%q' "$REMOTE_ALIAS"), expected a host of the ssh configuration" ;;
esac
case $REMOTE_PATH in
  -*) usage_error "REMOTE_PATH: found $(printf '%q' "$REMOTE_PATH"), expected a folder" ;;
esac
py=${PY:-python3} tries=${TRIES:-5} wait_s=${WAIT:-5}
case "$tries$wait_s" in
  *[!0-9]*) usage_error "found TRIES=$tries WAIT=$wait_s, expected whole numbers" ;;
esac
verify=${VERIFY_SCRIPT:-$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)/verify_local.py}
[ -f "$verify" ] || usage_error "found no $verify, expected verify_local.py there, or VERIFY_SCRIPT"
for name in rsync "$py"; do
  command -v -- "$name" >/dev/null || usage_error "found no $name, expected it to be installed"
done

protect=()
case $(rsync --help 2>&1) in
  *--protect-args* | *--secluded-args*) protect=(-s) ;;
  *)
    case $REMOTE_PATH in
      *[!A-Za-z0-9._/~+=@,-]*) usage_error "REMOTE_PATH: found $(printf '%q' "$REMOTE_PATH"), expected plain characters: this rsync has no --protect-args" ;;
    esac
    ;;
esac
remote_shell=() from=${REMOTE_PATH%/} ssh_config=${SSH_CONFIG:-${REMOTE_GPU_TRAINER_SSH_CONFIG:-}}
if [ -n "$REMOTE_ALIAS" ]; then
  shell='ssh -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=60 -o ServerAliveCountMax=120'
  if [ -n "$ssh_config" ]; then shell="$shell -F $(quoted_for_rsync "$ssh_config")"; fi
  remote_shell=(-e "$shell")
  # Protected arguments reach no shell there, so that nobody expands ~/: a path without it begins in the home folder anyway.
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

mkdir -p -- "$LOCAL_TARGET" || usage_error "found LOCAL_TARGET=$LOCAL_TARGET impossible to make, expected a folder"
case $LOCAL_TARGET in
  /*) ;;
  *) LOCAL_TARGET=./$LOCAL_TARGET ;; # no host of its own, no option
esac
manifest=$LOCAL_TARGET/PULL_MANIFEST.json
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
fresh=$scratch/PULL_MANIFEST.json
code=0
rsync -t --timeout=120 "${protect[@]}" "${remote_shell[@]}" "$from/PULL_MANIFEST.json" "$fresh" >&2 || code=$?
case $code in
  0) ;;
  23) usage_error "found no PULL_MANIFEST.json in $from, expected it there; make it on the box: verify_local.py --make FOLDER -o FOLDER/PULL_MANIFEST.json" ;;
  *) usage_error "found rsync's exit $code for $from, expected a connection; try: ssh ${REMOTE_ALIAS:-HOST} true" ;;
esac
shown=$("$py" "$verify" --show "$fresh") || {
  say "found a manifest that is not to be trusted in $from, expected safe paths; make it again on the box with verify_local.py --make"
  exit 1
}
if [ -f "$manifest" ]; then
  mine=$("$py" "$verify" --show "$manifest" 2>/dev/null) || mine=''
  if [ -n "$mine" ] && [ "$(field run_id "$mine")" != "$(field run_id "$shown")" ]; then
    usage_error "found run $(field run_id "$mine") in $LOCAL_TARGET and run $(field run_id "$shown") on the box, expected one run; take another LOCAL_TARGET"
  fi
fi
if [ -f "$LOCAL_TARGET/PULL_VERIFIED.json" ]; then mv -f -- "$LOCAL_TARGET/PULL_VERIFIED.json" "$LOCAL_TARGET/PULL_VERIFIED.old.json"; fi
cp -- "$fresh" "$manifest"
folders=$(grep '^folder' <<<"$shown")

need_kb=$(awk -F '\t' '$1 == "total" { printf "%d", $3 / 1024 }' <<<"$shown")
have_kb=$(du -sk -- "$LOCAL_TARGET" | cut -f1)
free_kb=$(df -Pk -- "$LOCAL_TARGET" | awk 'NR == 2 { print $4 }')
if [ "$need_kb" -gt "$((free_kb + have_kb))" ]; then
  usage_error "found $free_kb KiB free in $LOCAL_TARGET, expected $((need_kb - have_kb)); take another LOCAL_TARGET"
fi

say "run $(field run_id "$shown"): $(field total "$shown") files, $need_kb KiB, $(grep -c '' <<<"$folders") folders"
pull_all "${checksum[@]}"
if [ "$failed" -gt 0 ]; then
  say "found $failed folders that did not arrive, expected none; nothing was verified"
  exit 1
fi

# Its answer into $report, what it says on stderr into $scratch/said.
check() {
  code=0
  report=$("$py" "$verify" "$LOCAL_TARGET" --manifest "$manifest" "${json[@]}" "${verify_options[@]}" 2>"$scratch/said") || code=$?
}
check
# "verify_local: bad: seed0/best.pth: found SHA-256 0a1b..., expected ..."
if [ "$code" -eq 1 ] && [ "${#checksum[@]}" -eq 0 ] && grep -q 'found SHA-256' "$scratch/said"; then
  say "a hash differs: pulling once more by checksum"
  pull_all --checksum
  check
fi
cat -- "$scratch/said" >&2
if [ -n "$report" ]; then printf '%s\n' "$report"; fi
exit "$code"
