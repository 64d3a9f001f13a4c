# A command that is a list of words.
rgt_with_arguments() { rgt_argv=("${RGT_COMMAND[@]}" "$@"); }
