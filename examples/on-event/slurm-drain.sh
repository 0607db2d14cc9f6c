#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Drains the node of a rank that hangs the job or was found slow: running jobs stay, new ones go elsewhere.
#
#   slackline watch --on-event examples/on-event/slurm-drain.sh -- srun -n 8 ./program
#
# Needs the right to change nodes (an operator of Slurm). DRAIN_EVENTS: the kinds that drain (default: "hang verdict").
# DRAIN_PRINT=1 prints the command instead.
set -eu
case " ${DRAIN_EVENTS:-hang verdict} " in *" $SLACKLINE_EVENT "*) ;; *) exit 0 ;; esac
[ -n "${SLACKLINE_RANK:-}" ] || { echo "no single rank is named: nothing is drained"; exit 0; }

node=$("$(dirname "$0")/node-of-rank.py" "$SLACKLINE_RANK") || { echo "the node of rank $SLACKLINE_RANK is not known"; exit 1; }
# Slurm keeps one line; it may have no quotes of its own.
reason=$(printf 'slackline: %s' "$SLACKLINE_SEEN" | tr -d "\"'" | cut -c 1-200)
if [ "${DRAIN_PRINT:-0}" = 1 ]; then
    echo "scontrol update nodename=$node state=drain reason=\"$reason\""
else
    scontrol update "nodename=$node" state=drain "reason=$reason"
    echo "drained $node: $reason"
fi
