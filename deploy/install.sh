#!/usr/bin/env bash
# Installs LOCK, every hash checked, into the environment VENV, and says every ten seconds how far it is.
set -euo pipefail
venv=$1 lock=$2

log=$(mktemp) pip=
trap '[ -z "$pip" ] || kill "$pip" 2>/dev/null || true; rm -f "$log"' EXIT
"$venv/bin/pip" install --no-deps --require-hashes --progress-bar off --disable-pip-version-check -r "$lock" \
  >"$log" 2>&1 &
pip=$!

# pip tells what it fetches, but not what it unpacks: that is seen on the disk.
progress() {
  local packages=$(($(grep -c '^[^# ]*==' "$lock") - $(grep -c '^Ignoring' "$log" || true)))
  if grep -q '^Installing collected packages' "$log"; then
    echo "  installed $(find "$venv" -maxdepth 5 -name '*.dist-info' ! -name 'pip-*' | wc -l) of $packages packages"
  else
    echo "  fetched $(grep -c '^Collecting\|^Requirement already' "$log" || true) of $packages packages"
  fi
}

said=$SECONDS
while kill -0 "$pip" 2>/dev/null; do
  sleep 0.2
  if [ $((SECONDS - said)) -ge 10 ]; then
    said=$SECONDS
    progress
  fi
done
if ! wait "$pip"; then
  pip=
  grep '^ERROR' "$log" >&2 || tail -n 20 "$log" >&2
  exit 1
fi
pip=
