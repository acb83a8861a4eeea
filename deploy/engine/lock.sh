#!/usr/bin/env bash
# Re-makes requirements-cpu.lock from requirements-cpu.in: the same pins, each with the SHA-256 of
# every file of that release, so that one lock serves every Python and platform.
#
#   deploy/engine/lock.sh            write the lock
#   deploy/engine/lock.sh --check    fail when the lock is not what would be written
#
# Needs `uv` on PATH (or UV=/path/to/uv). torch's CPU builds for Linux are not on the default index,
# so uv cannot see them: torch-cpu.sha256 lists their digests, and their line is written from it.
set -euo pipefail
cd "$(dirname "$0")"
uv=${UV:-uv}

cpu_torch() {
  local version digests
  version=$(sed -nE 's/^torch==([^ ;]+).*/\1/p' requirements-cpu.in)
  digests=$(grep -oE '^[0-9a-f]{64}' torch-cpu.sha256 | sed 's/^/    --hash=sha256:/; $!s/$/ \\/')
  printf 'torch==%s+cpu ; sys_platform == "linux" and platform_machine == "x86_64" \\\n%s\n' \
    "$version" "$digests"
}

make_lock() {
  cat <<'HEADER'
# Made by deploy/engine/lock.sh from requirements-cpu.in and torch-cpu.sha256: do not edit.
# Install: pip install --no-deps --require-hashes -r requirements-cpu.lock
HEADER
  cpu_torch
  "$uv" pip compile --quiet --no-config --no-deps --generate-hashes --no-header --no-annotate \
    --universal --python-version 3.11 requirements-cpu.in
}

case "${1:-}" in
  "") make_lock >requirements-cpu.lock.new && mv requirements-cpu.lock.new requirements-cpu.lock ;;
  --check) make_lock | diff -u requirements-cpu.lock - ;;
  *) echo "usage: $0 [--check]" >&2; exit 2 ;;
esac
