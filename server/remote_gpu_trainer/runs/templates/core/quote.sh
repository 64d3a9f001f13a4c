# A word between quotes, in rgt_q.
rgt_quote() { rgt_q="'${1//\'/\'\\\'\'}'"; }
