# SPDX-License-Identifier: Apache-2.0
"""Asks NCCL's RAS service in each of its forms: ras.py PORT FOLDER PREFIX"""
import socket
import sys

port, folder, prefix = int(sys.argv[1]), sys.argv[2], sys.argv[3]
for name, lines in (("json", ["CLIENT PROTOCOL 2", "SET FORMAT json", "VERBOSE STATUS"]), ("text", ["CLIENT PROTOCOL 2", "VERBOSE STATUS"]),
                    ("brief", ["CLIENT PROTOCOL 2", "STATUS"]), ("help", ["CLIENT PROTOCOL 2", "HELP"])):
    said = []
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as s, s.makefile("rb") as answers:
            for line in lines:
                s.sendall(line.encode() + b"\n")
                if line.endswith("STATUS") or line == "HELP":
                    said.append(answers.read().decode())
                else:
                    said.append(answers.readline().decode())
    except OSError as error:
        said.append(f"\n{type(error).__name__}: {error}\n")
    with open(f"{folder}/{prefix}.{name}", "w") as file:
        file.write("".join(said[-1:]))
    print(prefix, name, [one[:60] for one in said], sum(map(len, said)))
