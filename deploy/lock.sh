#!/usr/bin/env bash
# Re-makes requirements.lock, the gateway's environment, from pyproject.toml: every release pinned,
# each with the SHA-256 of all its files.
#
#   deploy/lock.sh            write the lock
#   deploy/lock.sh --check    fail when the lock is not what would be written
#
# Needs `uv` on PATH (or UV=/path/to/uv). On Linux torch's CPU build is locked instead of the CUDA
# build (deploy/engine/torch-cpu.sha256), and what only the CUDA build needs is left out; so the lock
# is installed with --no-deps.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${UV:-uv}

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

make_lock() {
  cat <<'HEADER'
# Made by deploy/lock.sh from pyproject.toml: do not edit.
# Install: pip install --no-deps --require-hashes -r requirements.lock
HEADER
  cpu_torch
  "$uv" pip compile --quiet --no-config --generate-hashes --no-header --no-annotate --universal \
    --python-version 3.11 --all-extras --group dev --group build pyproject.toml | without_cuda
}

case "${1:-}" in
  "") make_lock >requirements.lock.new && mv requirements.lock.new requirements.lock ;;
  --check) make_lock | diff -u requirements.lock - ;;
  *) echo "usage: $0 [--check]" >&2; exit 2 ;;
esac
