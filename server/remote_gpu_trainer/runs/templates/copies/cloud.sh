# Copies to and from rclone's remotes and buckets.

# A name as a pattern that fits nothing else, in rgt_pattern: the characters of $2 get $3 before and
# $4 behind them.
rgt_as_pattern() {
  local name=$1 at c
  rgt_pattern=''
  for ((at = 0; at < ${#name}; at++)); do
    c=${name:at:1}
    if [[ $2 == *"$c"* ]]; then rgt_pattern+=$3$c${4:-}; else rgt_pattern+=$c; fi
  done
}

rgt_copy_to_cloud() {
  local kind=$1 mode=$2 from=${3#rclone:} to=${4#rclone:}
  local out='' code=0 name='' comma='\x2c' deref=''
  local -a only=() flags=() tool=()
  if [[ $rgt_follow == item || ($rgt_follow == out && ${#rgt_links[@]} -gt 0) ]]; then deref=1; fi
  # One file is its folder with everything else left out.
  if [[ -f $from ]]; then name=${from##*/} from=${from%/*} to=${to%/*}; fi
  case $kind in
    rclone)
      rgt_as_pattern "$name" '*?[]{}\' '\'
      [[ -z $name ]] || only=(--include "/$rgt_pattern")
      [[ $mode == full ]] || flags=(--size-only)
      # By the sums after a failure: a wrong copy may have the right size and time.
      [[ ${5:-} != again ]] || tool=(--checksum)
      # Else it leaves links out and says nothing.
      [[ -z $deref ]] || only+=(--copy-links)
      out=$(rclone copy "$from" "$to" ${tool[@]+"${tool[@]}"} ${only[@]+"${only[@]}"} 2>&1) &&
        out=$(rclone check "$from" "$to" --one-way ${flags[@]+"${flags[@]}"} \
          ${only[@]+"${only[@]}"} 2>&1) || code=1
      ((code)) || out=''
      ;;
    s3)
      rgt_as_pattern "$name" '*?[' '[' ']'
      [[ -z $name ]] || only=(--exclude '*' --include "$rgt_pattern")
      out=$(aws s3 sync "$from" "$to" --only-show-errors ${only[@]+"${only[@]}"} 2>&1) &&
        out=$(aws s3 sync "$from" "$to" --dryrun ${only[@]+"${only[@]}"} 2>&1) || code=1
      ;;
    gs)
      # A comma would end the pattern in gcloud's list.
      rgt_as_pattern "$name" '\.^$*+?{}[]|()' '\'
      rgt_pattern="^(?!${rgt_pattern//,/$comma}\$).*"
      if type -P gcloud >/dev/null; then
        tool=(gcloud storage rsync)
        if [[ -n $name ]]; then only=("--exclude=$rgt_pattern"); else only=(-r); fi
        [[ -z $deref ]] || only+=(--no-ignore-symlinks)
        flags=(--dry-run)
        [[ $mode != full ]] || flags+=(--checksums-only)
      else
        tool=(gsutil -m rsync)
        if [[ -n $name ]]; then only=(-x "$rgt_pattern"); else only=(-r); fi
        flags=(-n)
        [[ $mode != full ]] || flags+=(-c)
      fi
      if out=$("${tool[@]}" "${only[@]}" "$from" "$to" 2>&1) &&
        out=$("${tool[@]}" "${flags[@]}" "${only[@]}" "$from" "$to" 2>&1); then
        out=$(printf '%s\n' "$out" | grep -i 'would copy')
      else
        code=1
      fi
      ;;
  esac
  ((code == 0)) && [[ -z $out ]] && return 0
  rgt_detail="$kind: ${out:0:300}"
  return 1
}
