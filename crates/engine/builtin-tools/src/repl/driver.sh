unset HAFT_DRIVER
trap : INT
while IFS= read -r -d '' -u 3 HAFT_CODE; do
  eval "unset HAFT_CODE; $HAFT_CODE"
  printf '%s\0' "$?" >&3
done
