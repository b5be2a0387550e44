#!/bin/bash
# Starts PostgreSQL; where there is no cluster yet, makes one, with a database of the user's name, as the official image
# does: a server that only its socket reaches comes first, and is stopped again.
set -eu

if [ "$(id -u)" = 0 ]; then
    install --directory --owner postgres --group postgres --mode 700 "$PGDATA"
    exec setpriv --reuid postgres --regid postgres --init-groups "$0" "$@"
fi

if [ ! -s "$PGDATA/PG_VERSION" ]; then
    initdb --username "$POSTGRES_USER" --pwfile <(echo "$POSTGRES_PASSWORD") --auth-local trust --auth-host scram-sha-256
    echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
    pg_ctl --wait --options "-c listen_addresses=''" start
    createdb --username "$POSTGRES_USER" --maintenance-db postgres "$POSTGRES_USER"
    pg_ctl --wait --mode fast stop
fi

exec postgres -c "listen_addresses=*" "$@"
