# Messages to the user, by the job's own command.

declare -p RGT_NOTIFY >/dev/null 2>&1 || RGT_NOTIFY=()

rgt_notify() {
  rgt_event notify message "$1"
  ((${#RGT_NOTIFY[@]})) || return 0
  (
    rgt_load_secrets
    export RGT_MESSAGE=$1
    cd /
    printf '%s\n' "$1" | timeout -k 2 30 "${RGT_NOTIFY[@]}"
  ) >/dev/null 2>&1 9>&- 8>&- &
}
