#!/usr/bin/env bash
# Re-makes the lock files of the gateway's environment from pyproject.toml: every release pinned, each
# with the SHA-256 of all its files.
#
#   requirements.lock         everything: the gateway, its tests, lint and docs
#   requirements-serve.lock   of that, what `foreword serve` needs: the gateway's image
#
#   deploy/lock.sh            write both
#   deploy/lock.sh --check    fail when they are not what would be written
#
# Needs `uv` on PATH (or UV=/path/to/uv). On Linux torch's CPU build is locked instead of the CUDA
# build (deploy/engine/torch-cpu.sha256), and what only the CUDA build needs is left out; so the locks
# are installed with --no-deps.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${UV:-uv}
full=requirements.lock serve=requirements-serve.lock

cpu_torch() {
  local version digests
  version=$(sed -nE 's/^ *"torch==([0-9.]+)".*/\1/p' pyproject.toml)
  digests=$(grep -oE '^[0-9a-f]{64}' deploy/engine/torch-cpu.sha256 | sed 's/^/    --hash=sha256:/; $!s/$/ \\/')
  printf 'torch==%s+cpu ; sys_platform == "linux" and platform_machine == "x86_64" \\\n%s\n' \
    "$version" "$digests"
}

# Requirements are blocks: a line that starts in column 1, then its hashes.
without_cuda() {
  awk '/^[^ ]/ { keep = ($0 !~ /^(nvidia-|cuda-|triton)/) }
       keep { if ($0 ~ /^torch==/ && $0 !~ /;/) sub(/ \\$/, " ; platform_machine != '"'x86_64'"' or sys_platform != '"'linux'"' \\"); print }'
}

# FILE, then what uv is asked to lock.
make_lock() {
  local file=$1
  shift
  printf '%s\n' "# Made by deploy/lock.sh from pyproject.toml: do not edit." \
    "# Install: pip install --no-deps --require-hashes -r $file"
  cpu_torch
  "$uv" pip compile --quiet --no-config --generate-hashes --no-header --no-annotate --universal \
    --python-version 3.11 "$@" pyproject.toml | without_cuda
}

make_full() { make_lock "$full" --all-extras --group dev --group build; }

# The same releases, and the same hashes, as in the full lock that was made before.
make_serve() {
  local pins
  pins=$(mktemp)
  sed -nE 's/^([A-Za-z0-9._-]+==[^ +]+)( ;[^\\]*)?( \\)?$/\1\2/p' "$1" >"$pins"
  make_lock "$serve" --extra retrieval --group build --constraints "$pins"
  rm "$pins"
}

case "${1:-}" in
  "")
    make_full >"$full.new" && mv "$full.new" "$full"
    make_serve "$full" >"$serve.new" && mv "$serve.new" "$serve"
    ;;
  --check)
    made=$(mktemp)
    trap 'rm -f "$made"' EXIT
    make_full >"$made"
    diff -u "$full" "$made"
    make_serve "$made" | diff -u "$serve" -
    ;;
  *) echo "usage: $0 [--check]" >&2; exit 2 ;;
esac
