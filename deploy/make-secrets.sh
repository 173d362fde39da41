#!/bin/sh
# Makes the secrets of deploy/compose.yaml, each in a file of deploy/secrets. Files that are there stay as they are.
#
# The folder is for its owner only. The files can be read by all users, because the users inside of the containers are
# others than the owner, and a container sees only the files that are mounted into it.
set -eu
folder=${1:-$(dirname "$0")/secrets}

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
write() { [ -e "$folder/$1" ] || { printf '%s\n' "$2" >"$folder/$1.new" && mv "$folder/$1.new" "$folder/$1"; }; }

mkdir -p "$folder"
chmod 700 "$folder"
umask 022
write postgres_password "$(random)"
write database_url "postgresql://functory:$(cat "$folder/postgres_password")@postgres/functory"
if [ ! -e "$folder/rabbitmq.conf" ] || [ ! -e "$folder/broker_url" ]; then
    password=$(random)
    rm -f "$folder/rabbitmq.conf" "$folder/broker_url"
    write rabbitmq.conf "default_user = functory
default_pass = $password"
    write broker_url "amqp://functory:$password@rabbitmq//"
fi
# 32 bytes as base64: the key that seals what functory secret set stores. Without it the secrets are lost.
write secret_keys "$(head -c 32 /dev/urandom | base64)"
write grafana_password "$(random)"
echo "the secrets are in $folder: keep a copy of secret_keys elsewhere, or a backup of the database has no secrets"
