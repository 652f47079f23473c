# SPDX-License-Identifier: Apache-2.0
"""DNS queries to the sandbox or to the conformance suite. Authors do not change this file."""

import json
import secrets
import socket
import struct
import urllib.request

TYPES = {"CNAME": 5, "TXT": 16}
SECONDS = 5  # a record counts as missing if there is no answer in this time


def published(world, record):
    """Reports whether the DNS has a record."""
    try:
        with urllib.request.urlopen(world + "/dns", timeout=SECONDS) as answer:
            host, _, port = json.load(answer)["addr"].rpartition(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.settimeout(SECONDS)
            udp.connect((host, int(port)))
            udp.send(_question(record["name"], TYPES[record["type"]]))
            return record["content"].lower() in [v.lower() for v in _answers(udp.recv(4096), TYPES[record["type"]])]
    except (OSError, ValueError, LookupError, struct.error):
        return False


def _question(name, kind):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack("!6H", secrets.randbelow(1 << 16), 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", kind, 1)


def _answers(packet, kind):
    """Returns the values of the records of a type in an answer."""
    values, (_, _, questions, answers) = [], struct.unpack("!4H", packet[:8])
    at = 12
    for _ in range(questions):
        at = _name(packet, at)[1] + 4
    for _ in range(answers):
        at = _name(packet, at)[1]
        found, _, _, size = struct.unpack("!2HIH", packet[at:at + 10])
        at += 10
        if found == kind:
            values.append(_text(packet[at:at + size]) if kind == TYPES["TXT"] else _name(packet, at)[0])
        at += size
    return values


def _name(packet, at):
    """Returns the name at a position, and the position after it."""
    labels, end = [], 0
    while size := packet[at]:
        if size >= 0xC0:  # the rest is at another position
            end, at = end or at + 2, (size & 0x3F) << 8 | packet[at + 1]
            continue
        labels.append(packet[at + 1:at + 1 + size].decode())
        at += 1 + size
    return ".".join(labels), end or at + 1


def _text(data):
    parts, at = [], 0
    while at < len(data):
        parts.append(data[at + 1:at + 1 + data[at]])
        at += 1 + data[at]
    return b"".join(parts).decode()
