# A script that a box reads from a pipe.

# What such a script keeps beside its functions, where a part defines it.
rgt_tables=(rgt_tables rgt_retry_defaults rgt_usage rgt_exits rgt_ends rgt_signs rgt_entries)
rgt_tables+=(rgt_torn rgt_follow rgt_links rgt_ssh rgt_cut_short rgt_sync_seconds)
rgt_tables+=(rgt_synced_at rgt_code_absent)

# The text is made of what is in memory.
rgt_keep_script_from_memory() {
  {
    printf '#!/usr/bin/env bash\nset -u\numask 027\n'
    # shellcheck disable=SC2086
    declare -p ${!RGT_@} "${rgt_tables[@]}" 2>/dev/null | sed 's/^declare -x /declare -- /'
    declare -f
    # shellcheck disable=SC2016
    printf 'rgt_reset\nrgt_script=${BASH_SOURCE[0]}\nrgt_main "$@"\n'
  } >"$rgt_self.tmp.$$" && mv -f -- "$rgt_self.tmp.$$" "$rgt_self"
}
