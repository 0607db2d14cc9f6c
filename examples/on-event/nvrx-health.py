#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A node health daemon for NVIDIA's resiliency extension (ft_launcher --ft-node-health-check-endpoint): a node that slackline found slow or
hanging is unhealthy, so the launcher leaves it out when it starts the job again. On each node, with grpcio installed:

    examples/on-event/nvrx-health.py serve unix:///var/run/nvhcd.sock &
    slackline watch --on-event examples/on-event/nvrx-health.py -- ft_launcher ...

The daemon and the hook share a folder, NVRX_HEALTH (several nodes: one that all share), with a file per unhealthy node, which an operator or
`moves` removes. The service is nvhcd.HealthCheckService/RunHealthCheck of the extension's nvhcd.proto."""
import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

FOLDER = os.environ.get("NVRX_HEALTH", "/var/tmp/slackline-health")
HERE = os.path.dirname(os.path.abspath(__file__))


def field(number, text):  # a string of a protobuf message
    data, length = text.encode(), b""
    size = len(data)
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + data


def answer(_request, _context):
    try:  # HealthCheckResponse: success = 1, exit_code = 2, output = 3, error = 4
        with open(os.path.join(FOLDER, socket.gethostname())) as file:
            return b"\x10\x01" + field(3, file.read()) + field(4, "slackline: see output")
    except FileNotFoundError:
        return b"\x08\x01" + field(3, "{}")


def serve(address):
    import grpc
    methods = {"RunHealthCheck": grpc.unary_unary_rpc_method_handler(answer)}  # without (de)serializers: bytes
    server = grpc.server(ThreadPoolExecutor(2), handlers=[grpc.method_handlers_generic_handler("nvhcd.HealthCheckService", methods)])
    server.add_insecure_port(address)
    server.start()
    server.wait_for_termination()


def hook():
    event = json.load(sys.stdin)
    found = subprocess.run([os.path.join(HERE, "node-of-rank.py"), str(event.get("rank", -1))], capture_output=True, text=True)
    path = os.path.join(FOLDER, found.stdout.strip())
    if found.returncode == 0 and event["kind"] in ("hang", "verdict"):
        os.makedirs(FOLDER, exist_ok=True)
        with open(path, "w") as file:
            json.dump({"rank": event["rank"], "seen": event["seen"]}, file)
    elif found.returncode == 0 and event["kind"] == "moves" and os.path.exists(path):
        os.remove(path)


if __name__ == "__main__":
    serve(sys.argv[2]) if sys.argv[1:2] == ["serve"] else hook()
