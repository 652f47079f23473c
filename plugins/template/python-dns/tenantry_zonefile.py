# SPDX-License-Identifier: Apache-2.0
"""The format of zone files (RFC 1035, 5.1), which most DNS providers use for contents of records.

Authors do not change this file. A value of a record set is bytes. A TXT value is its text without
quotes, a CNAME or NS value is a name without the final dot, and an MX value is "preference host".
"""

import re

from tenantry_plugin import broken_answer

MAX_STRING = 255  # bytes of one string of a TXT record

_PARTS = re.compile(rb'\\([0-9]{3})|\\([^0-9])|([^"\\])', re.DOTALL)
_STRINGS = re.compile(rb'"((?:[^"\\]|\\.)*)"[ \t]*', re.DOTALL)


def read_content(kind, content):
    """Returns the value of a record whose content is in the format of zone files.

    Raises an outcome for a malformed TXT content, and for an MX content without a preference.
    """
    if kind == "TXT":
        return unquote_text(content)
    if kind in ("CNAME", "NS"):
        return plain_name(content).encode()
    if kind == "MX":
        preference, _, host = content.strip().partition(" ")
        if not host:
            raise broken_answer("mx_without_preference")
        return f"{preference} {plain_name(host.strip())}".encode()
    return content.encode()


def write_content(kind, value):
    """Returns a value in the format of zone files. It is the inverse of read_content."""
    if kind == "TXT":
        return quote_text(value)
    if kind in ("CNAME", "NS", "MX"):
        return value.decode().removesuffix(".") + "."
    return value.decode()


def quote_text(value):
    """Returns a text as quoted strings, each for at most 255 bytes of the text.

    Each byte that is not printable ASCII is written as its number, such as \\195.
    """
    return " ".join('"' + "".join(map(_escaped, part)) + '"' for part in _parts(value))


def unquote_text(content):
    """Returns the joined strings of a TXT content.

    Content that does not begin with a quote is the text itself. Raises an outcome if quotes or
    escapes are malformed.
    """
    content = content.encode()
    if not content.startswith(b'"'):
        return content
    value, at = bytearray(), 0
    while at < len(content):
        string = _STRINGS.match(content, at)
        if not string:
            raise broken_answer("malformed_text")
        value += _unescape(string[1])
        at = string.end()
    return bytes(value)


def plain_name(name):
    """Returns a name in lower case without the final dot. The root stays "."."""
    return name.lower().removesuffix(".") or "."


def _parts(value):
    """Splits a text into parts of at most MAX_STRING bytes, after a space if possible."""
    parts = []
    while len(value) > MAX_STRING:
        cut = value.rfind(b" ", 0, MAX_STRING) + 1 or MAX_STRING
        parts.append(value[:cut])
        value = value[cut:]
    return [*parts, value]


def _escaped(byte):
    if byte in b'"\\':
        return "\\" + chr(byte)
    return chr(byte) if 0x20 <= byte <= 0x7E else f"\\{byte:03d}"


def _unescape(string):
    value, at = bytearray(), 0
    while at < len(string):
        part = _PARTS.match(string, at)
        if not part or part[1] and int(part[1]) > 255:
            raise broken_answer("malformed_text")
        value += bytes([int(part[1])]) if part[1] else part[2] or part[3]
        at = part.end()
    return value
