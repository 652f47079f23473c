# SPDX-License-Identifier: Apache-2.0
"""The DNS provider example: its description, and the calls of its API. Authors change this file."""

import hashlib
import urllib.parse

import tenantry_dns
import tenantry_http
from tenantry_http import is_url, member
from tenantry_plugin import broken_answer, credential_refused, misconfigured, request_refused

DESCRIPTION = {
    "name": "example", "kind": "dns", "version": "0.1.0", "title": "Example DNS",
    # Every write is all or nothing, and fails if the zone has changed since it was read.
    "capabilities": ["atomic", "conditional"],
    "fields": [
        {"name": "api_token", "account": True, "required": True, "secret": True, "default": "",
         "help": "API token that may read and write the zones"},
        {"name": "api_url", "account": False, "required": False, "secret": False,
         "default": "https://api.example.invalid", "help": "base URL of the provider's API"},
    ],
    "hosts": ["{api_url}"],  # the plugin calls no other hosts
    "name_servers": ["*.ns.example.com"],
    "budgets": [{"key": "credential", "limit": 1200, "window_seconds": 300, "costs": {"apply": 2}}],
}


def connect(connection):
    """Returns the provider for one call."""
    url, token = connection.settings.get("api_url", ""), connection.secrets.get("api_token", "")
    if not is_url(url):
        raise misconfigured("api_url", "it is not a URL")
    if not token.isascii() or not token.isprintable() or not token:
        raise misconfigured("api_token", "it is missing or has invalid characters")
    return Provider(url.rstrip("/"), token)


class Provider:
    """The provider, with the credential of one call."""

    def __init__(self, url, token):
        self.url, self.token = url, token
        self.scope = hashlib.sha256(f"{url} {token}".encode()).hexdigest()

    def check(self, call):
        """Returns the number of zones to which the credential has access."""
        _, _, answer = self._call(call, "GET", "/v1/zones")
        return len(member(answer, "zones", list))

    def zone(self, call, name):
        """Returns the zone with this apex."""
        answer, _ = self._read(call, name)
        return {"id": name, "name": name, "name_servers": member(answer, "name_servers", list), "idle": ""}

    def records(self, call, zone):
        """Returns all record sets of a zone."""
        answer, _ = self._read(call, zone["id"])
        return _sets(answer)

    def apply(self, call, zone, changes):
        """Makes all changes or none, and returns the changed sets as the provider stores them."""
        tenantry_dns.check_changes(zone["name"], changes)
        answer, version = self._read(call, zone["id"])
        sets = _sets(answer)
        missing = tenantry_dns.outstanding(sets, changes)
        if missing:
            body = {"changes": [_to_api(s) for s in missing]}
            status, _, answer = self._call(call, "PATCH", _path(zone["id"]), body, {"If-Match": version})
            if status == 412:
                raise tenantry_dns.changed()
            if status >= 400:
                raise request_refused(f"status {status}")
            sets = tenantry_dns.check_written(_sets(answer), missing)
        return tenantry_dns.sets_after(sets, changes)

    def _read(self, call, name):
        """Returns the zone as the API shows it, and its version."""
        status, headers, answer = self._call(call, "GET", _path(name))
        if status == 404:
            raise tenantry_dns.no_zone()
        return answer, headers.get("ETag", "")

    def _call(self, call, method, path, body=None, headers=None):
        headers = {"Authorization": "Bearer " + self.token, **(headers or {})}
        status, headers, answer = tenantry_http.request(call, self.scope, method, self.url + path, headers, body)
        if status in (401, 403):
            raise credential_refused(f"status {status}")
        if status not in (200, 404, 409, 412, 422):
            raise broken_answer(f"status {status}")
        return status, headers, answer


def _path(zone):
    return "/v1/zones/" + urllib.parse.quote(zone, safe="")


# The API writes a value as a text in which each character is one byte. tenantry_zonefile converts
# the format of zone files, which most providers use.


def _sets(answer):
    try:
        return [{**s, "values": [v.encode("latin-1") for v in s["values"]]} for s in member(answer, "sets", list)]
    except (AttributeError, KeyError, TypeError, UnicodeEncodeError):
        raise broken_answer("wrong_shape") from None


def _to_api(record_set):
    values = [v.decode("latin-1") for v in record_set["values"]]
    return {"name": record_set["name"], "type": record_set["type"], "ttl": record_set["ttl"], "values": values}
