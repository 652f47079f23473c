# SPDX-License-Identifier: Apache-2.0
"""python3 verify.py SECRET WEBHOOK-ID WEBHOOK-TIMESTAMP WEBHOOK-SIGNATURE < body"""

import base64
import hashlib
import hmac
import sys
import time

TOLERANCE = 300
"""How far the timestamp of a message may be from the current time, in seconds. This limits how
long a recorded message can be sent again."""


def verify(secret: str, id: str, timestamp: str, signatures: str, body: bytes) -> bool:
    """Reports whether one of the signatures was made with the secret. body must be the bytes as
    they arrived, not JSON that was parsed and written again."""
    if not timestamp.isdecimal() or abs(time.time() - int(timestamp)) > TOLERANCE:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = id.encode() + b"." + timestamp.encode() + b"." + body
    want = b"v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256))
    return any(hmac.compare_digest(signature.encode(), want) for signature in signatures.split())


if __name__ == "__main__":
    if not verify(*sys.argv[1:5], sys.stdin.buffer.read()):
        sys.exit("not verified")
