# Copies within the box and over ssh.

rgt_ssh='ssh -o BatchMode=yes -o ConnectTimeout=10'
rgt_ssh+=' -o ServerAliveInterval=15 -o ServerAliveCountMax=4'

rgt_rsync() {
  local -a links=()
  case $rgt_follow in
    out) links=(--copy-unsafe-links) ;;
    item) links=(--copy-links) ;;
  esac
  rsync ${links[@]+"${links[@]}"} -rlt -8 --omit-dir-times --executability --partial \
    --partial-dir=.rgt-partial --exclude=.rgt-partial -s -e "$rgt_ssh" "$@"
}

rgt_is_folder() {
  [[ $1 == /* ]] && { [[ -d $1 ]] && return 0 || return 1; }
  rgt_quote "$(rgt_far_path "$1")"
  $rgt_ssh -- "${1%%:*}" "test -d $rgt_q" </dev/null 2>/dev/null
}

# The path behind HOST:, without the ~/ that a quoted path would keep.
rgt_far_path() {
  local path=${1#*:}
  printf '%s' "${path#\~/}"
}

rgt_make_folder() {
  if [[ $1 == /* ]]; then
    mkdir -p -- "$1" 2>/dev/null
  else
    rgt_quote "$(rgt_far_path "$1")"
    $rgt_ssh -- "${1%%:*}" "mkdir -p -- $rgt_q" </dev/null 2>/dev/null
  fi
}

rgt_still_different() {
  local from=$1 mark=$2 names=$3 name path
  local -a rows=()
  [[ -n $names ]] || return 0
  mapfile -t rows < <(printf '%s\n' "$names")
  for name in "${rows[@]}"; do
    path=$from/$name
    [[ -d $from ]] || path=$from
    [[ $path == /* && -n $mark ]] && { [[ ! -e $path || $path -nt $mark ]] && continue; }
    rgt_detail="differs at the destination: $name"
    return
  done
}

rgt_copy_by_cp() {
  local mode=$1 from=$2 to=$3 mark=$4 out tail='' name
  local -a follow=()
  [[ -d $from ]] && tail=/.
  # cp knows all links or none. A link from an earlier copy would be written through.
  if [[ $rgt_follow == item || ($rgt_follow == out && ${#rgt_links[@]} -gt 0) ]]; then
    follow=(-L --remove-destination)
    for name in ${rgt_links[@]+"${rgt_links[@]}"}; do
      [[ ! -L $to/$name ]] || rm -f -- "$to/$name"
    done
    [[ $rgt_follow != item || ! -L $to ]] || rm -f -- "$to"
  fi
  if ! out=$(cp -Ru ${follow[@]+"${follow[@]}"} --preserve=timestamps -- "$from$tail" "$to" \
    2>&1); then
    rgt_detail="cp: ${out:0:300}"
    return 1
  fi
  if [[ $mode == full || ! -d $from ]]; then
    out=$(diff -rq -- "$from" "$to" 2>&1 | grep -v -F -e "Only in $to" | head -n 1)
    [[ -z $out ]] || rgt_detail=$out
  else
    out=$(cd "$from" &&
      find ${follow[0]:+-L} . -type f ! -newer "$mark" -printf '%s %p\n' |
      while read -r size name; do
        [[ $(stat -c %s -- "$to/$name" 2>/dev/null) == "$size" ]] || printf '%s\n' "$name"
      done)
    [[ -z $out ]] || rgt_detail="differs at the destination: ${out%%$'\n'*}"
  fi
  [[ -z $rgt_detail ]]
}

rgt_copy_by_rsync() {
  local kind=$1 mode=$2 from=$3 to=$4 mark=$5 dash='' parent out code
  local -a flags=()
  # rsync quotes a far path whole; without the ~/ it begins in the same home.
  [[ $from == /* ]] || from=${from%%:*}:$(rgt_far_path "$from")
  [[ $to == /* ]] || to=${to%%:*}:$(rgt_far_path "$to")
  rgt_is_folder "$from" && dash=/
  parent=$to
  [[ -n $dash ]] || parent=${to%/*}
  rgt_make_folder "$parent" || {
    rgt_detail="can't make $parent"
    return 1
  }
  if [[ $kind == local ]] && ! type -P rsync >/dev/null; then
    rgt_copy_by_cp "$mode" "$from" "$to" "$mark"
    return
  fi
  [[ $mode == full && $6 == again ]] && flags=(--checksum)
  out=$(rgt_rsync ${flags[@]+"${flags[@]}"} -- "$from$dash" "$to$dash" 2>&1)
  code=$?
  # 24: a file went away meanwhile, as old checkpoints do.
  if ((code != 0 && code != 24)); then
    rgt_detail="rsync $code: ${out:0:300}"
    return 1
  fi
  flags=(-n --out-format='%i %n')
  [[ $mode == full ]] && flags+=(--checksum)
  out=$(rgt_rsync "${flags[@]}" -- "$from$dash" "$to$dash" 2>/dev/null)
  code=$?
  ((code == 0 || code == 24)) || rgt_detail="rsync $code while checking"
  out=$(printf '%s\n' "$out" | grep -E '^([<>]f(\+|c|.s)|cL|cd\+)' | cut -d' ' -f2-)
  rgt_still_different "$from" "$mark" "$out"
  [[ -z $rgt_detail ]]
}
