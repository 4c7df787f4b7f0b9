#!/bin/sh
# Prints an order as an invoice: one line per item, then the total with tax.
# An order is a list of "item,quantity,price" with a headline.
tax=${TAX:-19}
awk -F, -v tax="$tax" '
  NR > 1 {
    printf "%-8s %3d x %6.2f\n", $1, $2, $3
    net += $3
  }
  END { printf "total %.2f\n", int(net * (100 + tax)) / 100 }
' "$1"
