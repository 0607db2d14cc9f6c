#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets a condition of the Kubernetes node of a rank that hangs the job or was found slow, which schedulers, alerts and
# remediation (such as node-problem-detector's users) see; `moves` and `relief` clear it.
#
#   slackline watch --on-event examples/on-event/kubernetes-condition.sh -- torchrun ...
#
# NODE_NAME: this pod's node (from the downward API, spec.nodeName) if the job has one node; else the host of the rank.
# Needs the right to patch nodes/status. Without kubectl, or with KUBECTL_PRINT=1, the command is printed.
set -eu
case $SLACKLINE_EVENT in
hang | verdict) state=True ;;
moves | relief) state=False ;;
*) exit 0 ;;
esac
node=${NODE_NAME:-}
if [ -z "$node" ]; then
    [ -n "${SLACKLINE_RANK:-}" ] || { echo "no single rank is named: no node gets the condition"; exit 0; }
    node=$("$(dirname "$0")/node-of-rank.py" "$SLACKLINE_RANK") || { echo "the node of rank $SLACKLINE_RANK is not known"; exit 1; }
fi
message=$(printf '%s' "$SLACKLINE_SEEN" | tr -d "\"'\\\\" | cut -c 1-200)
now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
patch='{"status":{"conditions":[{"type":"SlacklineTrouble","status":"'$state'","reason":"'$SLACKLINE_EVENT'","message":"'$message'","lastHeartbeatTime":"'$now'","lastTransitionTime":"'$now'"}]}}'
if [ "${KUBECTL_PRINT:-0}" = 1 ] || ! command -v kubectl > /dev/null; then
    echo "kubectl patch node $node --subresource=status --type=strategic -p '$patch'"
else
    kubectl patch node "$node" --subresource=status --type=strategic -p "$patch"
fi
