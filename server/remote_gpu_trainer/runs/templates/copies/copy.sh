# Copies a file or a folder and looks at the destination.

rgt_follow='' rgt_links=()

# A link that leads out of what is copied is nothing at the durable place: there goes what it leads
# to. Links within stay links. Fails where one leads nowhere, or back to a folder that it lies in:
# that one stays a link too.
rgt_copy_out() {
  local from=$2 name target real where fault=''
  rgt_follow=item rgt_links=()
  if [[ -d $from ]]; then
    rgt_follow=out
    while IFS= read -r -d '' name && IFS= read -r -d '' target; do
      where=''
      [[ $name != */* ]] || where=/${name%/*}
      [[ $target == /* || $(realpath -ms -- "/item$where/$target")/ != /item/* ]] || continue
      rgt_links+=("$name")
      if [[ ! -e $from/$name ]]; then
        fault="the link $name leads to nothing: $target"
      elif [[ -d $from/$name ]]; then
        real=$(cd -P -- "$from/$name" && pwd -P)
        where=$(cd -P -- "$from$where" && pwd -P)
        if [[ ${where%/}/ == "${real%/}"/* ]]; then
          rgt_follow='' fault="the link $name leads back to $target, which holds it"
          break
        fi
        # gcloud and gsutil pass such links over.
        [[ $3 != gs://* ]] ||
          fault="the link $name leads to a folder, which isn't copied to a bucket of gs://: \
name it in durable.what"
      fi
    done < <(find "$from/" -type l \( -lname '/*' -o -lname '*..*' \) -printf '%P\0%l\0' \
      2>/dev/null)
  elif [[ ! -L $from ]]; then
    rgt_follow=''
  fi
  rgt_copy "$@" || return
  rgt_detail=$fault
  [[ -z $fault ]]
}

# Copies a file or a folder and looks at the destination. mode: quick (size and time) or full
# (checksums). A file that changed after the mark was still being written and counts in the next
# round. Says what is wrong in rgt_detail.
rgt_copy() {
  local mode=$1 from=$2 to=$3 mark=$4 kind=local
  case $from$'\n'$to in
    rclone:* | *$'\n'rclone:*) kind=rclone ;;
    s3://* | *$'\n's3://*) kind=s3 ;;
    gs://* | *$'\n'gs://*) kind=gs ;;
    /*$'\n'/*) ;;
    *) kind=ssh ;;
  esac
  rgt_detail=''
  case $kind in
    local | ssh) rgt_copy_by_rsync "$kind" "$mode" "$from" "$to" "$mark" "${5:-}" ;;
    *) rgt_copy_to_cloud "$kind" "$mode" "$from" "$to" "${5:-}" ;;
  esac
}
