#!/bin/sh
# Makes what Compose's services need before they start: the KV master key, the passwords of database
# and Grafana, and folders that the services' users may write to. What is there already stays.
#
#   setup.sh FOLDER ENGINE GATEWAY GRAFANA     FOLDER has one folder for each volume; the others
#                                              are users; the tier server is the engine's
set -eu
made=$1 engine=$2 gateway=$3 grafana=$4
umask 077

# Written beside and moved, so that a half-made file is never taken for a key.
keep() {
  if [ ! -s "$1" ]; then
    cat >"$1.new"
    mv "$1.new" "$1"
  fi
}

password() {
  head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n'
}

head -c 32 /dev/urandom | keep "$made/kv-key/kv.key"
password | keep "$made/database/password"
password | keep "$made/grafana/password"
printf 'postgresql://foreword:%s@postgres:5432/foreword' "$(cat "$made/database/password")" | keep "$made/database/url"

chown "$engine" "$made/kv" "$made/kv-keys" "$made/models" "$made/kernels"
chown -R "$engine" "$made/kv-key"
chown "$gateway" "$made/state"
chown -R "$gateway" "$made/database"
chown -R "$grafana" "$made/grafana"
