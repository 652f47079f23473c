# SPDX-License-Identifier: Apache-2.0
"""HTTP calls to a provider, with the outcome of each failure. Authors do not change this file.

If the description names hosts, a request goes only to these hosts. A request follows no redirect,
uses no proxy of the environment, and reads answers of a limited size.
"""

import email.utils
import http.client
import json
import re
import ssl
import threading
import time
import urllib.parse

from tenantry_plugin import Outcome, broken_answer, unknown_effect

MAX_ANSWER = 8 << 20  # bytes
MAX_SECONDS = 15.0  # for one request
MAX_WAIT = 3600.0  # seconds; a longer Retry-After is probably a mistake of the provider

_waits = {}  # for each scope: until when its calls must wait, in seconds of time.monotonic
_lock = threading.Lock()


def request(call, scope, method, url, headers, body=None):
    """Sends a request. Returns the status, the headers, and the answer decoded from JSON.

    scope names the calls that wait together after a Retry-After, usually those of one credential.
    Raises an outcome if the host is not allowed, if the scope must wait, if there is no complete
    answer, if a body is not JSON, and for the statuses 408, 429, and 500 or higher.
    """
    _check_wait(scope)
    left = min(MAX_SECONDS, call.time_left())
    if left <= 0:
        raise unknown_effect("no_answer")
    deadline = time.monotonic() + left
    status, answer_headers, content = _exchange(call.hosts, deadline, method, url, headers, body)
    _raise_for(scope, status, answer_headers)
    try:
        return status, answer_headers, json.loads(content) if content else None
    except ValueError:
        raise broken_answer("not_json") from None


def is_url(text):
    """Reports whether text is an http or https URL with a host, no user and no invalid port."""
    try:
        parts = urllib.parse.urlsplit(text)
        return parts.scheme in ("https", "http") and bool(parts.hostname) and not parts.username and parts.port != 0
    except ValueError:  # an invalid port or IPv6 address
        return False


def member(answer, name, kind):
    """Returns a member of a JSON object. Raises an outcome if it is missing or not of this type."""
    value = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(value, kind):
        raise broken_answer("wrong_shape")
    return value


def _exchange(hosts, deadline, method, url, headers, body):
    target = urllib.parse.urlsplit(url)
    if hosts and not any(target.hostname == h or h.startswith("*.") and target.hostname.endswith(h[1:]) for h in hosts):
        raise Outcome("broken", "host_not_named", "the plugin may not connect to this host")
    timeout = max(0.001, deadline - time.monotonic())
    if target.scheme == "https":
        connection = http.client.HTTPSConnection(target.netloc, timeout=timeout, context=ssl.create_default_context())
    else:
        connection = http.client.HTTPConnection(target.netloc, timeout=timeout)
    try:
        try:
            connection.connect()
        except OSError:
            raise Outcome("down", "unreachable", "the provider cannot be reached") from None
        try:
            path = target.path + ("?" + target.query if target.query else "")
            payload = None if body is None else json.dumps(body).encode()
            connection.request(method, path, payload, {"Content-Type": "application/json", **headers})
            answer = connection.getresponse()
            return answer.status, answer.headers, _read(answer, deadline, connection)
        except TimeoutError:
            raise unknown_effect("no_answer") from None
        except (OSError, http.client.HTTPException):
            raise unknown_effect("connection_cut") from None
    finally:
        connection.close()


def _read(answer, deadline, connection):
    content = bytearray()
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if connection.sock is not None:
            connection.sock.settimeout(left)
        part = answer.read1(65536)
        if not part:
            if answer.length:
                raise http.client.IncompleteRead(bytes(), answer.length)
            return bytes(content)
        content += part
        if len(content) > MAX_ANSWER:
            raise Outcome("broken", "answer_too_large", "the provider's answer is too large")


def _raise_for(scope, status, headers):
    wait = _retry_after(headers.get("Retry-After", ""))
    cause = f"status {status}"
    if wait > 0 and status in (429, 503):
        with _lock:
            _waits[scope] = max(_waits.get(scope, 0.0), time.monotonic() + wait)
    if status == 429:
        raise Outcome("throttled", cause, "the provider wants us to wait", retry_after=wait)
    if status == 503:
        raise Outcome("down", cause, "the provider is out of service", retry_after=wait)
    if status in (408, 504):
        raise unknown_effect(cause)
    if status >= 500:
        raise broken_answer(cause)


def _retry_after(text):
    """Returns the seconds that a Retry-After asks for, at most MAX_WAIT, or 0 if it is not valid.

    The text is a number of seconds or a date.
    """
    if re.fullmatch("[0-9]+", text):
        return min(float(text), MAX_WAIT)
    try:
        return max(0.0, min(email.utils.parsedate_to_datetime(text).timestamp() - time.time(), MAX_WAIT))
    except (TypeError, ValueError, OverflowError):
        return 0.0


def _check_wait(scope):
    """Raises an outcome while the calls of a scope have to wait."""
    with _lock:
        for name in [n for n, until in _waits.items() if until <= time.monotonic()]:
            del _waits[name]
        left = _waits.get(scope, 0.0) - time.monotonic()
    if left > 0:
        raise Outcome("throttled", "held_back", "the provider wants us to wait", retry_after=left)
