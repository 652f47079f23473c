# SPDX-License-Identifier: Apache-2.0
"""A simulated example: its API on a loopback address, for tests and for `tenantry dev`.

    GET   /v1/zones           {"zones": [zone]}
    GET   /v1/zones/{name}    a zone, with its version in the header ETag
    PATCH /v1/zones/{name}    {"changes": [record set]}; replaces these sets if the zone still has the
                              version of the header If-Match, otherwise 412

A zone has name, name_servers and sets. A record set has name, type, ttl and values. The calls below
/_control/ are those of every simulator: clock, faults, calls, and here zones and their records.
"""

import datetime
import http.server
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

TOKEN = "simulated-token"


def Simulator(name, port, world):
    """Returns the server of the simulator, and its ready line."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), _Handler)
    server.daemon_threads = True
    server.state = _State(_World(name, world) if world else _Memory(name))
    url = f"http://127.0.0.1:{server.server_address[1]}"
    return server, {"provider": name, "url": url, "settings": {"api_url": url},
                    "secrets": {"api_token": TOKEN}, "control": []}


class Refusal(Exception):
    """An error answer of the API."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class _State:
    """The state of a simulator."""

    def __init__(self, zones):
        self.zones, self.faults, self.calls = zones, [], []
        self.lock = threading.Lock()
        self.ahead = datetime.timedelta()  # of the wall clock

    def now(self):
        return datetime.datetime.now(datetime.timezone.utc) + self.ahead

    def take_fault(self, method, path, write):
        """Returns the planned fault of a call, or an empty one."""
        for fault in self.faults:
            want, _, prefix = fault.get("match", "").partition(" ")
            if (fault.get("writes_only") and not write or want and want != method
                    or not path.startswith(prefix) or fault.get("operation", "") not in ("", method.lower())):
                continue
            if fault.get("skip", 0) > 0:
                fault["skip"] -= 1
                continue
            fault["times"] -= 1
            if fault["times"] <= 0:
                self.faults.remove(fault)
            return fault
        return {"kind": ""}


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


# A record of the sandbox has a preference of its own, and texts in UTF-8.
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


class _Handler(http.server.BaseHTTPRequestHandler):
    """Serves the API and the control calls."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Logs nothing: the journal has the calls."""

    def do_GET(self):
        path = urllib.parse.urlsplit(self.path).path
        state = self.server.state
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if path.startswith("/_control/"):
            self._answer(*self._run(self._control, path[len("/_control"):], body))
            return
        write = self.command != "GET"
        with state.lock:
            fault = state.take_fault(self.command, path, write)
            entry = {"method": self.command, "path": path, "operation": self.command.lower(), "status": 0,
                     "at": state.now().isoformat().replace("+00:00", "Z"), "write": write}
            state.calls.append(entry)
        kind, delay = fault["kind"], fault.get("delay_ms", 0) / 1000
        if kind == "drop_before":
            self._drop()
            return
        if kind == "status":
            headers = {"Retry-After": str(fault["retry_after"])} if fault.get("retry_after") else {}
            entry["status"] = fault["status"]
            self._answer(fault["status"], {"error": "a planned fault"}, headers)
            return
        time.sleep(delay if kind == "delay" else 0)
        status, answer, headers = self._run(self._api, path, body)
        entry["status"] = status
        time.sleep(delay if kind == "delay_after" else 0)
        if kind == "drop_after":
            self._drop()
            return
        self._answer(status, answer, headers)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def _drop(self):
        self.close_connection = True

    def _answer(self, status, answer, headers=()):
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _run(self, handle, path, body):
        """Returns the status, the answer and the headers of a request."""
        with self.server.state.lock:
            try:
                answer, headers = handle(path, json.loads(body) if body else {})
                return 200, answer, headers
            except Refusal as refusal:
                return refusal.status, {"error": str(refusal)}, {}
            except (KeyError, TypeError, ValueError) as error:
                return 400, {"error": f"the request is not valid ({type(error).__name__})"}, {}

    def _api(self, path, body):
        state = self.server.state
        shown = self.headers.get("Authorization", "")
        if shown != "Bearer " + TOKEN and not shown.startswith(f"Bearer {TOKEN}-"):  # of a customer
            raise Refusal(401, "the token is not valid")
        if (self.command, path) == ("GET", "/v1/zones"):
            return {"zones": [_shown(z) for z in state.zones.all()]}, {}
        zone = self._find(path.removeprefix("/v1/zones/"))
        if self.command == "GET":
            return _shown(zone), {"ETag": f'"{zone["version"]}"'}
        if self.command != "PATCH":
            raise Refusal(405, "the method is GET or PATCH")
        if self.headers.get("If-Match") != f'"{zone["version"]}"':
            raise Refusal(412, "the zone has changed")
        sets = {(s["name"], s["type"]): s for s in zone["sets"]}
        for s in body["changes"]:
            sets[s["name"], s["type"]] = {"name": s["name"], "type": s["type"], "ttl": s["ttl"], "values": s["values"]}
        state.zones.write(zone, [s for s in sets.values() if s["values"]])
        zone = self._find(zone["name"])
        return _shown(zone), {"ETag": f'"{zone["version"]}"'}

    def _find(self, name):
        for zone in self.server.state.zones.all():
            if zone["name"] == urllib.parse.unquote(name):
                return zone
        raise Refusal(404, "no such zone")

    def _control(self, path, body):
        state, call = self.server.state, f"{self.command} {path}"
        name = urllib.parse.unquote(path.split("/")[2]) if path.startswith("/zones/") else ""
        if call == "POST /clock":
            wall = datetime.datetime.now(datetime.timezone.utc)
            state.ahead = datetime.datetime.fromisoformat(body["now"]) - wall
        elif call == "POST /faults":
            state.faults.append({**body, "times": int(body["times"]), "kind": str(body["kind"])})
        elif call == "DELETE /faults":
            state.faults.clear()
        elif call == "GET /calls":
            return state.calls, {}
        elif call == "DELETE /calls":
            state.calls.clear()
        elif call == "POST /credentials":
            return {"secrets": {"api_token": f"{TOKEN}-{body['customer']}"}}, {}
        elif call == f"PUT /zones/{name}":
            state.zones.add(name)
        elif call == f"GET /zones/{name}/sets":
            return self._find(name)["sets"], {}
        elif call == f"PUT /zones/{name}/sets":
            state.zones.write(self._find(name), [s for s in body if s["values"]])
        else:
            raise Refusal(404, "there is no such control call")
        return {}, {}


def _shown(zone):
    return {"name": zone["name"], "name_servers": zone["name_servers"], "sets": zone["sets"]}
