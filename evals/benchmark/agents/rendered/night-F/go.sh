cd ~/proj && bash run.sh start
# A refused start (such as a volume that comes late after a restart) isn't tried again by the runner.
[ $? != 78 ] || setsid -f bash -c 'for i in {1..40}; do sleep 5; bash run.sh start; [ $? = 78 ] || break; done' </dev/null >>start.log 2>&1
