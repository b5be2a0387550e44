#!/bin/sh
# Makes the namespace and its search attributes, where they are missing. Does no harm a second time.
# TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE say where; RETENTION, how long the histories of ended runs are kept;
# TRIES, how often a server that does not answer is asked, every two seconds.
set -eu

# Tries again, for a minute.
patiently() {
    tries="${TRIES:-30}"
    until "$@"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || exit 1
        sleep 2
    done
}

patiently temporal operator cluster health

temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1 ||
    temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION"

# A server takes some seconds to notice a new namespace.
patiently temporal operator search-attribute create \
    --name LlmDoState --type Keyword \
    --name LlmDoPendingApprovals --type Int \
    --name LlmDoWorker --type Keyword
