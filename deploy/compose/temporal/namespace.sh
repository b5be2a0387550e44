#!/bin/sh
# Makes the namespace and its search attributes, where they are missing. Does no harm a second time.
# TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE say where; RETENTION, how long the histories of ended runs are kept.
set -eu

until temporal operator cluster health; do
    echo "the Temporal server does not answer yet"
    sleep 2
done

temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1 ||
    temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION"

# A server takes some seconds to notice a new namespace.
until temporal operator search-attribute create \
    --name LlmDoState --type Keyword \
    --name LlmDoPendingApprovals --type Int \
    --name LlmDoWorker --type Keyword; do
    echo "the namespace is not known everywhere yet"
    sleep 2
done
