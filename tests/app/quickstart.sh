#!/usr/bin/env bash
# The quickstart's answer is the one that README.md shows: every line of README's first `text` block, in order.
# Usage: quickstart.sh EPSIM SOURCE_FOLDER WORK_FOLDER
set -euo pipefail
epsim=$1 source=$2 work=$3
rm -rf "$work" && mkdir -p "$work"
cd "$source"
# The command as the script has it, with another program and folder.
eval "$(sed -n '/^search=(/,/)$/p' scripts/quickstart.sh)"
search=("${search[@]/#out\/quickstart/$work/out}")
"$epsim" "${search[@]}" --quiet >"$work/answer.txt"
"$epsim" report "$work/out" -o "$work/report.html" >/dev/null
sed -n '/^```text$/,/^```$/p' README.md | sed '1d;$d' >"$work/readme.txt"
[ -s "$work/readme.txt" ] || { echo "README.md has no block of text to compare with" >&2; exit 1; }
head -n "$(($(wc -l <"$work/answer.txt") - 2))" "$work/answer.txt" |
  grep -vE '^(SLO: |Measured: |Means over |Prices: |completes |most, |arrival\. |from the first |%\)\.)' | sed '/^$/d' >"$work/shown.txt"
diff <(sed '/^$/d' "$work/readme.txt") "$work/shown.txt" || {
  echo "README.md shows another answer than scripts/quickstart.sh gives (- README, + now)" >&2
  exit 1
}
