# What a failure is called in the catalogue.

# class, platform (profile or target; * for all), entry. The first line that fits counts; no line:
# no entry.
rgt_entries=(
  'disk * U6'
  'inodes * U7'
  'unwritable * U47'
  'clock * U46'
  'crlf * GEN4'
  'stall * D19'
  'hang * D20'
  'shm * DP15'
  'port * D4'
  'host-oom * DP9'
)

rgt_entry_of() {
  local line class platform
  rgt_id=''
  for line in "${rgt_entries[@]}"; do
    class=${line%% *} platform=${line#* } platform=${platform% *}
    [[ $class == "$1" ]] || continue
    if [[ $platform == '*' || $platform == "$RGT_PROFILE" || $platform == "$RGT_TARGET" ]]; then
      rgt_id=${line##* }
      return
    fi
  done
}
