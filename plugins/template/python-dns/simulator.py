# SPDX-License-Identifier: Apache-2.0
"""A simulated example: its API on a loopback address, for tests and for `tenantry dev`.

    GET   /v1/zones           {"zones": [zone]}
    GET   /v1/zones/{name}    a zone, with its version in the header ETag
    PATCH /v1/zones/{name}    {"changes": [record set]}; replaces these sets if the zone still has the
                              version in the header If-Match, otherwise answers 412

A zone has name, name_servers and sets. A record set has name, type, ttl and values. Control calls
create zones and credentials, and read and replace record sets.
"""

import json
import urllib.error
import urllib.parse
import urllib.request

import tenantry_simulator
from tenantry_simulator import Answer, Refusal

TOKEN = "simulated-token"


class Simulator(tenantry_simulator.Simulator):
    """The simulated provider."""

    def __init__(self, name, port, world):
        super().__init__(name, port, {"api_url": "{url}"}, {"api_token": TOKEN})
        self.zones = _World(name, world) if world else _Memory(name)

    def api(self, request):
        token = request.bearer()
        if token != TOKEN and not token.startswith(TOKEN + "-"):  # the token of a customer
            raise Refusal(401, "the token is not valid")
        if (request.method, request.path) == ("GET", "/v1/zones"):
            return {"zones": [_shown(z) for z in self.zones.all()]}
        zone = self._find(request.names[-1])
        if request.method == "GET":
            return _answer(zone)
        if request.method != "PATCH":
            raise Refusal(405, "the method is GET or PATCH")
        if request.headers.get("If-Match") != f'"{zone["version"]}"':
            raise Refusal(412, "the zone has changed")
        sets = {(s["name"], s["type"]): s for s in zone["sets"]}
        for s in request.json()["changes"]:
            sets[s["name"], s["type"]] = {"name": s["name"], "type": s["type"], "ttl": s["ttl"], "values": s["values"]}
        self.zones.write(zone, [s for s in sets.values() if s["values"]])
        return _answer(self._find(zone["name"]))

    def control(self, request):
        match request.method, *request.names:
            case "POST", "credentials":
                return {"secrets": {"api_token": f"{TOKEN}-{request.json()['customer']}"}}
            case "PUT", "zones", name:
                self.zones.add(name)
                return {}
            case "GET", "zones", name, "sets":
                return self._find(name)["sets"]
            case "PUT", "zones", name, "sets":
                self.zones.write(self._find(name), [s for s in request.json() if s["values"]])
                return {}
        return super().control(request)

    def _find(self, name):
        for zone in self.zones.all():
            if zone["name"] == name:
                return zone
        raise Refusal(404, "no such zone")


def _shown(zone):
    return {"name": zone["name"], "name_servers": zone["name_servers"], "sets": zone["sets"]}


def _answer(zone):
    return Answer(_shown(zone), headers={"ETag": f'"{zone["version"]}"'})


class _Memory:
    """Zones that exist only in this process."""

    def __init__(self, name):
        self.servers = [f"ns1.{name}.sandbox-dns.test", f"ns2.{name}.sandbox-dns.test"]
        self.zones = {}

    def all(self):
        return list(self.zones.values())

    def add(self, name):
        self.zones.setdefault(name, {"name": name, "name_servers": self.servers, "version": 1, "sets": []})

    def write(self, zone, sets):
        self.zones[zone["name"]] = {**zone, "version": zone["version"] + 1, "sets": sets}


class _World:
    """The zones of a sandbox, which its DNS server serves."""

    def __init__(self, name, url):
        self.name, self.url = name, url

    def all(self):
        found = self._call("GET", "/zones?" + urllib.parse.urlencode({"provider": self.name}))
        return [{"name": z["name"], "name_servers": z["name_servers"], "version": z["version"],
                 "sets": _from_records(z["records"])} for z in found]

    def add(self, name):
        if not any(z["name"] == name for z in self.all()):
            raise Refusal(404, "no such zone")

    def write(self, zone, sets):
        self._call("PUT", "/zones/" + urllib.parse.quote(zone["name"]),
                   {"name": zone["name"], "version": zone["version"], "records": _to_records(sets), "veiled": []})

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + path, data, method=method), timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            status = {409: 412, 400: 422, 404: 404}.get(error.code, 500)
            raise Refusal(status, "the sandbox refused the zone") from None


# These records of the sandbox have their priority in a separate member. The texts of the sandbox
# are in UTF-8.
_WITH_PRIORITY = ("MX", "SRV")


def _from_records(records):
    sets = {}
    for r in records:
        value = r["content"].encode().decode("latin-1")
        if r["type"] in _WITH_PRIORITY:
            value = f"{r['priority']} {value}"
        key = r["name"].lower(), r["type"]
        sets.setdefault(key, {"name": key[0], "type": key[1], "ttl": r["ttl"], "values": []})["values"].append(value)
    return list(sets.values())


def _to_records(sets):
    records = []
    for s in sets:
        for value in s["values"]:
            record = {"type": s["type"], "name": s["name"], "ttl": s["ttl"]}
            if s["type"] in _WITH_PRIORITY:
                priority, _, value = value.partition(" ")
                record["priority"] = int(priority)
            records.append({**record, "content": value.encode("latin-1").decode("utf-8", "replace")})
    return records
