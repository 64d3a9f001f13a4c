# Starts the night, or goes on with it after a restart of the machine. Look at it: bash ~/runs/census-07/run.sh status
trap '' HUP
cd "$(dirname "$0")" || exit
run=~/runs/census-07
mkdir -p "$run/code" && rsync -a --exclude run.sh --exclude go.sh ./ "$run/code/"
cmp -s run.sh "$run/run.sh" || cp run.sh "$run/run.sh"
bash "$run/run.sh" start
