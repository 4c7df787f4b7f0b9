#!/bin/sh
# Checks the totals of a few orders.
failed=0
check() {
  got=$(sh invoice.sh "orders/$1.csv" | awk '$1 == "total" { print $2 }')
  if [ "$got" = "$2" ]; then
    echo "ok    $1: $got"
  else
    echo "FAIL  $1: expected $2, got $got"
    failed=1
  fi
}
check tea 11.90
check party 33.32
check sugar 1.18
exit $failed
