# What the scripts of this directory share. Needs: bash, curl, jq.
# shellcheck shell=bash
set -euo pipefail

for tool in curl jq; do
  command -v "$tool" >/dev/null || { echo "$tool is not installed; these scripts need it"; exit 1; }
done

say() { printf '   %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*"; exit 1; }

# contains TEXT PART: the text has the part in it.
contains() {
  [[ "$1" == *"$2"* ]] || fail "expected \"$2\" in: $1"
}

# equals GOT EXPECTED
equals() {
  [[ "$1" == "$2" ]] || fail "expected \"$2\", got \"$1\""
}

# eventually WORDS…: waits until a command succeeds.
eventually() {
  for _ in $(seq 1 200); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.05
  done
  fail "did not come true within ten seconds: $*"
}
