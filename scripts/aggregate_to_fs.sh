#!/usr/bin/env bash
# usage: aggregate_to_fs.sh [--replace] [--json]
#
# Copy the finished cells of a roster to durable storage, compare each copy byte by byte, and list
# the files with their hashes.
#
# variables:
#   RUN_ID                what the manifest calls this run
#   EXPECTED_ROSTER_FILE  names of the cells that must be there, one per line; empty lines and
#                         # lines are skipped
#   DURABLE_DIR           folder on storage that outlives the box; copies go to
#                         DURABLE_DIR/final_ckpts/NAME
#   RUN_DIR               folder of the runner; a cell is finished when RUN_DIR/cells/NAME/.done
#                         exists, or .unsaved: only the runner's own copy of it failed
#   DATA_DIR              cells are DATA_DIR/checkpoints/NAME, their logs DATA_DIR/logs/NAME.log.
#                         Set RUN_DIR, DATA_DIR or both
#   CKPT_DIR              folder with the folders of the cells, if it isn't DATA_DIR/checkpoints
#   CKPT_FILE             weights of a cell (default best.pth); searched three folders deep in both
#                         places, must be there once
#   METRICS_FILE          metrics of a cell (default best_metrics.json); searched the same way
#   PY                    Python 3.8 or later (default python3)
#   VERIFY_SCRIPT         verify_local.py, which writes the manifest (default: the one beside this
#                         script)
#
# options:
#   --replace   if the durable copy of a cell differs, move it to
#               DURABLE_DIR/final_ckpts.before/NAME.TIME and copy again
#   --json      print an object: verdict, copied, same, incomplete, failed, manifest, bytes, inodes,
#               free_bytes, free_inodes
#   --help      this text
#
# It copies weights, metrics, the cell's log and its protocol/ folder, but no optimizer states or
# older checkpoints. A second run copies only what is missing. Nothing of yours is deleted.
# PULL_MANIFEST.json is written in final_ckpts only when every cell of the roster is there.
#
# exit: 0 every cell is copied, compared and listed; 1 a cell is incomplete or a copy failed;
# 2 wrong usage, or something is missing
#
# example:
#   RUN_ID=sweep7 RUN_DIR=/root/autodl-tmp/sweep7 DURABLE_DIR=/root/autodl-fs/sweep7 \
#     EXPECTED_ROSTER_FILE=roster.txt bash aggregate_to_fs.sh
set -euo pipefail
umask 022
export LC_ALL=C

say() { printf 'aggregate_to_fs: %s\n' "$*" >&2; }
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

json_list() {
  local item sep=''
  printf '['
  for item in "$@"; do
    printf '%s' "$sep"
    json_text "$item"
    sep=', '
  done
  printf ']'
}

# Reads the roster into the array roster, one name per line. The rule for names is that of
# verify_local.py.
read_roster() {
  local line number=0
  while IFS= read -r line || [ -n "$line" ]; do
    number=$((number + 1))
    line=${line%$'\r'}
    line=${line#"${line%%[! $'\t']*}"}
    line=${line%"${line##*[! $'\t']}"}
    case $line in
      '' | '#'*) continue ;;
      *[!A-Za-z0-9._+=@,-]* | [!A-Za-z0-9_]*)
        usage_error "EXPECTED_ROSTER_FILE line $number: $(printf '%q' "$line")" \
          "isn't a name of letters, digits and ._+=@,-"
        ;;
    esac
    case " ${roster[*]} " in
      *" $line "*) usage_error "EXPECTED_ROSTER_FILE line $number: $line is listed twice" ;;
    esac
    roster+=("$line")
  done <"$1"
}

# Puts the only file of that name in the folders of a cell into $found, or why there is none into
# $reason.
find_once() {
  local name=$1 folder hit hits=()
  found='' reason=''
  shift
  for folder in "$@"; do
    if [ -f "$folder/$name" ]; then
      hits+=("$folder/$name")
    elif [ "${name%/*}" = "$name" ]; then
      while IFS= read -r -d '' hit; do hits+=("$hit"); done < <(
        find -H "$folder" -mindepth 2 -maxdepth 4 -name "$name" -type f -print0 2>/dev/null
      )
    fi
  done
  case ${#hits[@]} in
    0) reason="no $name" ;;
    1) found=${hits[0]} ;;
    *) reason="${#hits[@]} files called $name; name one with its folder" ;;
  esac
  if [ -n "$found" ] && [ ! -s "$found" ]; then reason="an empty $name"; fi
  [ -z "$reason" ]
}

# Puts what belongs to a cell into the array parts, as pairs: source, name in the copy. Fails with
# $reason when the cell isn't finished.
parts_of() {
  local name=$1 folders=() folder part
  parts=() reason=''
  if [ -n "$ckpt_dir" ] && [ -d "$ckpt_dir/$name" ]; then folders+=("$ckpt_dir/$name"); fi
  if [ -n "${RUN_DIR:-}" ]; then
    folder=$RUN_DIR/cells/$name
    if [ ! -f "$folder/.done" ] && [ ! -f "$folder/.unsaved" ]; then
      reason='no marker .done'
      for part in .failed .preempted; do
        if [ -f "$folder/$part" ]; then reason="the marker $part"; fi
      done
      return 1
    fi
    folders+=("$folder")
  fi
  if [ ${#folders[@]} -eq 0 ]; then
    reason='no folder'
    return 1
  fi
  find_once "$ckpt" "${folders[@]}" || return 1
  parts+=("$found" "${ckpt##*/}")
  find_once "$metrics" "${folders[@]}" || return 1
  parts+=("$found" "${metrics##*/}")
  for folder in "${folders[@]}"; do
    for part in "$folder"/.done "$folder"/.unsaved "$folder"/log/train.log.* "$folder/train.log"; do
      if [ -f "$part" ]; then parts+=("$part" "${part##*/}"); fi
    done
    if [ -d "$folder/protocol" ]; then
      while IFS= read -r -d '' part; do
        parts+=("$part" "protocol/${part#"$folder/protocol/"}")
      done < <(find -H "$folder/protocol" -type f -print0)
    fi
  done
  if [ -n "${DATA_DIR:-}" ] && [ -f "$DATA_DIR/logs/$name.log" ]; then
    parts+=("$DATA_DIR/logs/$name.log" "$name.log")
  fi
}

# Copies under another name, flushes to the disk, compares, and only then moves the copy to its
# place.
copy_checked() {
  local from=$1 to=$2 fresh
  fresh=$final/.partial.$$
  mkdir -p -- "${to%/*}" && cp -- "$from" "$fresh" && sync -- "$fresh" &&
    cmp -s -- "$from" "$fresh" && mv -f -- "$fresh" "$to"
}

# Copies what is missing of the cell in parts. Sets $result to same or copied, or fails with
# $reason.
copy_cell() {
  local name=$1 at=$final/$1 number differs='' absent=() stamp
  for ((number = 0; number < ${#parts[@]}; number += 2)); do
    if [ ! -e "$at/${parts[number + 1]}" ]; then
      absent+=("$number")
    elif ! cmp -s -- "${parts[number]}" "$at/${parts[number + 1]}"; then
      differs=${parts[number + 1]}
    fi
  done
  if [ -n "$differs" ]; then
    if [ "$replace" = no ]; then
      reason="$at/$differs differs from this run's file, perhaps of another run; \
take another DURABLE_DIR, or pass --replace"
      return 1
    fi
    stamp=$(date +%s)
    mkdir -p -- "$final.before" && mv -nT -- "$at" "$final.before/$name.$stamp" ||
      reason="moving failed"
    if [ -n "$reason" ] || [ -e "$at" ]; then
      reason="can't move $at to $final.before; check the permissions there"
      return 1
    fi
    absent=()
    for ((number = 0; number < ${#parts[@]}; number += 2)); do absent+=("$number"); done
  fi
  result=same
  for number in "${absent[@]}"; do
    result=copied
    copy_checked "${parts[number]}" "$at/${parts[number + 1]}" || {
      reason="the copy of ${parts[number + 1]} is incomplete; check df -h and df -i of $DURABLE_DIR"
      return 1
    }
  done
}

# One number of df for the durable folder, or - if df doesn't tell it.
df_field() {
  local value
  value=$(df "$1" -- "$DURABLE_DIR" 2>/dev/null | awk 'NR == 2 { print $4 }') || value=''
  case $value in
    '' | *[!0-9]*) printf -- '-' ;;
    *) printf '%s' "$value" ;;
  esac
}

replace=no json=no
for argument in "$@"; do
  case $argument in
    --help | -h)
      help_text "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --replace) replace=yes ;;
    --json) json=yes ;;
    *) usage_error "unknown argument $(printf '%q' "$argument")" ;;
  esac
done

for name in RUN_ID EXPECTED_ROSTER_FILE DURABLE_DIR; do
  [ -n "${!name:-}" ] || usage_error "$name isn't set"
done
ckpt_dir=${CKPT_DIR:-${DATA_DIR:+$DATA_DIR/checkpoints}}
[ -n "${RUN_DIR:-}$ckpt_dir" ] || usage_error "neither RUN_DIR nor DATA_DIR is set"
for folder in "${RUN_DIR:+$RUN_DIR/cells}" "$ckpt_dir"; do
  [ -z "$folder" ] || [ -d "$folder" ] || usage_error "no folder $folder; the cells should be there"
done
[ -d "$DURABLE_DIR" ] || usage_error "no folder DURABLE_DIR=$DURABLE_DIR; mount the durable storage"
[ -f "$EXPECTED_ROSTER_FILE" ] || usage_error "no file EXPECTED_ROSTER_FILE=$EXPECTED_ROSTER_FILE"
ckpt=${CKPT_FILE:-best.pth} metrics=${METRICS_FILE:-best_metrics.json} py=${PY:-python3}
verify=${VERIFY_SCRIPT:-$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)/verify_local.py}
[ -f "$verify" ] || usage_error "no file $verify; set VERIFY_SCRIPT to verify_local.py"
command -v -- "$py" >/dev/null || usage_error "PY=$py isn't installed; set PY to a Python 3"

roster=()
read_roster "$EXPECTED_ROSTER_FILE"
[ "${#roster[@]}" -gt 0 ] || usage_error "no cell in $EXPECTED_ROSTER_FILE; write one name per line"

final=$DURABLE_DIR/final_ckpts
mkdir -p -- "$final" 2>/dev/null && [ -w "$final" ] || usage_error "can't write to $final"

trap 'rm -f -- "$final/.partial.$$"' EXIT
complete=() incomplete=() failed=() copied=() same=()
need=0 files=0
for name in "${roster[@]}"; do
  if parts_of "$name"; then
    complete+=("$name")
    for ((number = 0; number < ${#parts[@]}; number += 2)); do
      [ -e "$final/$name/${parts[number + 1]}" ] || {
        need=$((need + $(stat -Lc %s -- "${parts[number]}")))
        files=$((files + 1))
      }
    done
  else
    incomplete+=("$name")
    say "$name isn't finished: $reason; finish it or take it off the roster"
  fi
done

free_kb=$(df_field -Pk) free_inodes=$(df_field -Pi)
if [ "$free_kb" != - ] && [ "$((need / 1024 + 1))" -gt "$free_kb" ]; then
  say "$DURABLE_DIR has $free_kb KiB free, the copies need $((need / 1024 + 1));" \
    "ask the user for more room"
  failed=("${complete[@]}")
  complete=()
elif [ "$free_inodes" != - ] && [ "$free_inodes" -gt 0 ] && [ "$files" -gt "$free_inodes" ]; then
  say "$DURABLE_DIR has $free_inodes free inodes, the copies need $files;" \
    "ask the user which files may go"
  failed=("${complete[@]}")
  complete=()
fi

for name in "${complete[@]}"; do
  parts_of "$name" || continue
  if copy_cell "$name"; then
    if [ "$result" = same ]; then same+=("$name"); else copied+=("$name"); fi
  else
    failed+=("$name")
    say "$name: $reason"
  fi
done

manifest=''
if [ $((${#copied[@]} + ${#same[@]})) -eq "${#roster[@]}" ]; then
  if "$py" "$verify" --make "$final" -o "$final/PULL_MANIFEST.json" --run-id "$RUN_ID" \
    --roster "$EXPECTED_ROSTER_FILE" >&2; then
    manifest=$final/PULL_MANIFEST.json
  fi
fi
used_bytes=$(du -sb -- "$final" | cut -f1)
used_inodes=$(find "$final" | wc -l)
free_kb=$(df_field -Pk) free_inodes=$(df_field -Pi)
verdict=bad code=1
if [ -n "$manifest" ]; then verdict=ok code=0; fi

if [ "$json" = yes ]; then
  null() { if [ "$1" = - ]; then printf 'null'; else printf '%s' "$(($1 * $2))"; fi; }
  printf '{"verdict": "%s", "run_id": %s, "copied": %s, "same": %s, ' "$verdict" \
    "$(json_text "$RUN_ID")" "$(json_list "${copied[@]}")" "$(json_list "${same[@]}")"
  printf '"incomplete": %s, "failed": %s, "manifest": %s, ' \
    "$(json_list "${incomplete[@]}")" "$(json_list "${failed[@]}")" \
    "$(if [ -n "$manifest" ]; then json_text "$manifest"; else printf 'null'; fi)"
  printf '"bytes": %s, "inodes": %s, "free_bytes": %s, "free_inodes": %s}\n' \
    "$used_bytes" "$((used_inodes))" "$(null "$free_kb" 1024)" "$(null "$free_inodes" 1)"
else
  printf '%s: %s of %s cells in %s (%s copied, %s already there, %s incomplete, %s failed)\n' \
    "$verdict" "$((${#copied[@]} + ${#same[@]}))" "${#roster[@]}" "$final" \
    "${#copied[@]}" "${#same[@]}" "${#incomplete[@]}" "${#failed[@]}"
  printf 'used %s bytes and %s inodes; free %s KiB and %s inodes\n' \
    "$used_bytes" "$((used_inodes))" "$free_kb" "$free_inodes"
  if [ -n "$manifest" ]; then printf 'manifest %s\n' "$manifest"; fi
fi
exit "$code"
