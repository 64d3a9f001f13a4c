if [[ ${1-} == run || ${1-} == queue ]]; then
  trap '[[ ${rgt_class-} != preempted || ${rgt_asked-} == asked ]] || exit 75' EXIT
fi
