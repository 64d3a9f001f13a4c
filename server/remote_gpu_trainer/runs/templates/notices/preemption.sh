# A provider's notice that the box will be taken away.

: "${RGT_NOTICE=}" "${RGT_METADATA=}"

# One GET with a limit, without curl too; the body in stdout, fails unless the status is 200.
rgt_get() {
  local url=$1 method=GET rest host port path line status
  shift
  if [[ ${1:-} == PUT ]]; then method=PUT && shift; fi
  if type -P curl >/dev/null; then
    local -a headers=()
    while (($#)); do headers+=(-H "$1") && shift; done
    curl -s -f -m 3 --noproxy '*' -X "$method" ${headers[@]+"${headers[@]}"} -- "$url"
    return
  fi
  rest=${url#http://} host=${rest%%/*} path=/${rest#*/}
  port=80
  [[ $host != *:* ]] || { port=${host##*:} host=${host%:*}; }
  # shellcheck disable=SC2016
  timeout -k 1 3 bash -c '
    exec 3<>"/dev/tcp/$1/$2" || exit 1
    printf "%s %s HTTP/1.0\r\nHost: %s\r\nContent-Length: 0\r\n" "$4" "$3" "$1" >&3
    for header in "${@:5}"; do printf "%s\r\n" "$header" >&3; done
    printf "\r\n" >&3
    cat <&3' get "$host" "$port" "$path" "$method" "$@" 2>/dev/null | {
    read -r _ status _
    while IFS= read -r line && [[ ${line%$'\r'} ]]; do :; done
    cat
    [[ ${status:-} == 200 ]]
  }
}

# Runs apart from the keeper's loop; writes what a provider announces.
rgt_poll_notice() {
  local base=$RGT_METADATA text='' token='' when=0
  rgt_now
  case $RGT_NOTICE in
    aws)
      base=${base:-http://169.254.169.254}
      { read -r _ token <"$RGT_RUN_DIR/.imds-token"; } 2>/dev/null
      rgt_read_number "$RGT_RUN_DIR/.imds-token" && when=$rgt_number
      if ((rgt_t - when > 18000)); then
        token=$(rgt_get "$base/latest/api/token" PUT \
          'X-aws-ec2-metadata-token-ttl-seconds: 21600') || token=''
        [[ -n $token ]] && rgt_write "$RGT_RUN_DIR/.imds-token" "$rgt_t $token"$'\n'
      fi
      text=$(rgt_get "$base/latest/meta-data/spot/instance-action" \
        ${token:+"X-aws-ec2-metadata-token: $token"}) || text=''
      [[ $text == *'"action"'* ]] || text=''
      ;;
    gcp)
      base=${base:-http://metadata.google.internal}
      text=$(rgt_get "$base/computeMetadata/v1/instance/preempted" 'Metadata-Flavor: Google') ||
        text=''
      [[ $text == TRUE* ]] || text=''
      ;;
    azure)
      base=${base:-http://169.254.169.254}
      text=$(rgt_get "$base/metadata/scheduledevents?api-version=2020-07-01" 'Metadata: true') ||
        text=''
      [[ $text == *'"Preempt"'* || $text == *'"Terminate"'* ]] || text=''
      ;;
  esac
  [[ -z $text ]] || rgt_write "$RGT_RUN_DIR/notice" "notice from $RGT_NOTICE"$'\n'
}

# Asks again every five seconds. Has one come? Its text is in rgt_notice.
rgt_has_notice() {
  if [[ -n $RGT_NOTICE ]] && ((rgt_up - ${rgt_polled:-0} >= 5)) &&
    ! rgt_same "${rgt_poll:-}" "${rgt_poll_start:-}"; then
    rgt_polled=$rgt_up
    rgt_poll_notice </dev/null >/dev/null 2>&1 &
    rgt_poll=$!
    rgt_read_stat "$rgt_poll" && rgt_poll_start=${rgt_stat[19]}
  fi
  [[ -s $RGT_RUN_DIR/notice ]] || return 1
  { IFS= read -r rgt_notice <"$RGT_RUN_DIR/notice"; } 2>/dev/null
  rgt_event notice text "$rgt_notice"
}

rgt_pass_notice_on() {
  rgt_has_notice || return 0
  asked=1 # of rgt_keeper
  rgt_keeper_ask "$rgt_notice"
}
