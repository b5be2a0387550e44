#!/bin/sh
# The image's entry point. As root nothing is refused to a model's commands by the owner of a file.
set -eu
if [ "$(id -u)" = 0 ]; then
    echo "llm-do-temporal: this image does not run as root (user 0)" >&2
    echo "Give it another user: LLM_DO_UID in .env, \`docker run --user 10001:10001\`, or runAsUser." >&2
    exit 2
fi
exec llm-do-temporal "$@"
