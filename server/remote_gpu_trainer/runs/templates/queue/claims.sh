# Claims: which box runs which cell.

# CLAIMS/NAME is a claimed cell and CLAIMS/NAME/by.TOKEN its owner's part, with `owner` and `beat`.
# A result is renamed from there to NAME/done or NAME/failed: an owner whose claim was taken away
# can't publish, for what it would rename is gone. No cell's name holds an @ and every token does,
# so NAME.lost.TOKEN, NAME.fault.TOKEN and NAME.failed.TOKEN are never a cell.
rgt_queue_identity() {
  local host=${HOSTNAME:-box} ns
  host=${host//[!A-Za-z0-9_-]/_}
  rgt_boot_id
  ns=$(readlink /proc/self/ns/pid) || ns=none
  rgt_read_stat $$
  rgt_queue_host=$host
  rgt_queue_machine="$host ${rgt_boot:-none} $ns"
  rgt_queue_owner="$rgt_queue_machine $$ ${rgt_stat[19]}"
  rgt_queue_box=${host:0:40}@${rgt_boot:0:8}-$$-${rgt_stat[19]}
}

# The time by the clock of the file system that holds the claims.
rgt_queue_read_clock() {
  local mine=$rgt_queue_claims/.clock.$rgt_queue_host
  rgt_queue_clock=0
  { : >"$mine" && touch -- "$mine" && rgt_queue_clock=$(stat -c %Y -- "$mine"); } 2>/dev/null ||
    return 1
}

# What is known of a cell, in rgt_queue_is: done, failed, running, lost, left; and its owner's part
# in rgt_queue_by.
rgt_queue_look() {
  local folder=$rgt_queue_claims/$1 by
  rgt_queue_by=''
  if [[ -e $folder/done ]]; then
    rgt_queue_is="done"
  elif [[ -e $folder/failed ]]; then
    rgt_queue_is=failed
  elif [[ ! -d $folder ]]; then
    rgt_queue_is=left
  else
    for by in "$folder"/by.*; do
      if [[ -d $by ]]; then rgt_queue_by=$by; fi
    done
    rgt_queue_is=running
    if rgt_queue_stale "$folder" "$rgt_queue_by"; then rgt_queue_is=lost; fi
  fi
}

rgt_queue_stale() {
  local beat=$1 host boot ns pid start at
  if [[ -n $2 ]]; then
    beat=$2
    if { read -r host boot ns pid start <"$2/owner"; } 2>/dev/null &&
      [[ "$host $boot $ns" == "$rgt_queue_machine" ]]; then
      rgt_same "$pid" "$start" || return 0
    fi
    # Opened, so that a network file system asks its server for the time.
    { : <"$2/beat"; } 2>/dev/null && beat=$2/beat
  fi
  at=$(stat -c %Y -- "$beat" 2>/dev/null) || return 1
  ((rgt_queue_clock - at > RGT_LEASE))
}

# Takes a free cell, in rgt_queue_token. Fails when another was first.
rgt_queue_claim() {
  local folder=$rgt_queue_claims/$1 by
  rgt_queue_token=$rgt_queue_box-$((++rgt_queue_serial))
  by=$folder/by.$rgt_queue_token
  mkdir -- "$folder" 2>/dev/null && mkdir -- "$by" 2>/dev/null || return 1
  set -- "$folder"/by.*
  if (($# == 1)) &&
    { printf '%s\n' "$rgt_queue_owner" >"$by/owner" && : >"$by/beat"; } 2>/dev/null; then
    return 0
  fi
  rgt_queue_drop "$folder" "$by"
  return 1
}

# Gives a cell back, or nothing when it isn't ours any more.
rgt_queue_drop() {
  rm -f -- "$2/owner" "$2/beat" "$2/result"
  rmdir -- "$2" "$1" 2>/dev/null || :
}

# Puts a claim aside whose owner is gone. Its name is the owner's token: of two boxes that saw the
# same dead owner, the second finds that name taken and can't move the first one's new claim.
rgt_queue_take() {
  local folder=$rgt_queue_claims/$1 by=$rgt_queue_by aside
  if [[ -z $by ]]; then
    rmdir -- "$folder" 2>/dev/null
    return
  fi
  aside=$folder.lost.${by##*/by.}
  mv -fT -- "$folder" "$aside" 2>/dev/null || return 1
  if [[ -e $aside/done || -e $aside/failed ]]; then
    mv -fT -- "$aside" "$folder" 2>/dev/null
    return 1
  fi
  rgt_event taken-over cell "$1" from "${by##*/by.}"
}

# A result, by its owner only. 1: the folder can't be written now; 2: the cell isn't ours any more.
rgt_queue_publish() {
  local folder=$rgt_queue_claims/$1 by=$rgt_queue_claims/$1/by.$2
  # A rename that a network file system did but didn't report counts.
  [[ -d $by && ! -e $by/result && -e $folder/$3 ]] && return 0
  if [[ ! -e $folder/done && ! -e $folder/failed ]]; then
    { printf '%s\n' "$4" >"$by/result" && mv -fT -- "$by/result" "$folder/$3"; } 2>/dev/null &&
      return 0
  fi
  ! rgt_queue_robbed "$1" "$2" || return 2
  return 1
}

# Is a claim no longer ours? A folder of claims that can't be reached at all says nothing.
rgt_queue_robbed() {
  local folder=$rgt_queue_claims/$1
  [[ ! -d $folder/by.$2 && (-d $folder || -e $rgt_queue_claims/.clock.$rgt_queue_host) ]]
}
