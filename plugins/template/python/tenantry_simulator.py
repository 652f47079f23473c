# SPDX-License-Identifier: Apache-2.0
"""The common part of all simulators. Authors do not change this file.

A simulator serves the API of a provider on a loopback address. The control calls below /_control/
change its clock, make API calls fail, and list the API calls. docs/plugins.md of tenantry describes
the control calls.
"""

import datetime
import http.server
import json
import os
import pickle
import re
import threading
import time
import urllib.parse


class Refusal(Exception):
    """An error answer of the API, or of a control call."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Request:
    """A request to the API, or a control call."""

    def __init__(self, method, target, headers, body):
        parts = urllib.parse.urlsplit(target)
        self.method, self.path, self.headers, self.body = method, parts.path, headers, body
        self.query = dict(urllib.parse.parse_qsl(parts.query))
        self._values = urllib.parse.parse_qs(parts.query)
        self.names = [urllib.parse.unquote(part) for part in parts.path.strip("/").split("/")]  # of the path

    def values(self, name):
        """Returns all values of a parameter that the query may repeat."""
        return self._values.get(name, [])

    def json(self):
        return json.loads(self.body) if self.body else {}

    def bearer(self):
        """Returns the token of the header Authorization."""
        return self.headers.get("Authorization", "").removeprefix("Bearer ")


class Answer:
    """An answer: a JSON value, or the text of an HTML page."""

    def __init__(self, body, status=200, headers=None, html=False):
        self.status, self.headers = status, headers or {}
        self.content = body.encode() if html else json.dumps(body).encode()
        self.headers["Content-Type"] = "text/html; charset=utf-8" if html else "application/json"


class Simulator(http.server.ThreadingHTTPServer):
    """A simulated provider. A subclass has its API, and the control calls of only this provider."""

    daemon_threads = True
    request_queue_size = 64
    # The names of the attributes that are stored in a file. The sandbox restarts the simulator
    # after each change of the plugin.
    kept = ()
    file = None

    def __init__(self, name, port, settings, secrets, **more):
        """Listens on a port. {url} and {host} in settings are the simulator's URL and host."""
        super().__init__(("127.0.0.1", port), _Handler)
        host = f"127.0.0.1:{self.server_address[1]}"
        self.url = "http://" + host
        settings = {n: v.format(url=self.url, host=host) for n, v in settings.items()}
        # What the process prints when it is ready.
        self.ready = {"provider": name, "url": self.url, "settings": settings, "secrets": secrets, "control": [], **more}
        self.lock = threading.Lock()
        self.faults, self.calls = [], []
        self.ahead = datetime.timedelta()  # of the simulated clock to the wall clock

    def keep(self, folder):
        """Loads the state from a folder if it has one, and makes save store the state there."""
        os.makedirs(folder, exist_ok=True)
        self.file = os.path.join(folder, "state")
        if os.path.exists(self.file):
            with open(self.file, "rb") as file:
                self.load(pickle.load(file))

    def load(self, state):
        self.__dict__.update(state)

    def save(self):
        if self.file:
            with open(self.file + ".new", "wb") as file:
                pickle.dump({name: getattr(self, name) for name in self.kept}, file)
            os.replace(self.file + ".new", self.file)  # a killed process leaves no partial file

    def api(self, request):
        """Answers a request with an Answer or a JSON value. It may raise a Refusal."""
        raise NotImplementedError

    def control(self, request):
        """Answers a control call, with the same results as api. names does not contain _control."""
        raise Refusal(404, "there is no such control call")

    def write(self, request):
        """Reports whether a request can change the state of the provider."""
        return request.method != "GET"

    def now(self):
        return datetime.datetime.now(datetime.timezone.utc) + self.ahead

    def common_control(self, request):
        """Answers the control calls of every simulator."""
        call = f"{request.method} /{'/'.join(request.names)}"
        if call == "POST /clock":
            sent = request.json()
            wall = datetime.datetime.now(datetime.timezone.utc)
            now = datetime.datetime.fromisoformat(sent["now"]) if "now" in sent else self.now() + _duration(sent["advance"])
            self.ahead = now - wall
        elif call == "POST /faults":
            fault = request.json()
            self.faults.append({**fault, "times": int(fault["times"]), "kind": str(fault["kind"])})
        elif call == "DELETE /faults":
            self.faults.clear()
        elif call == "GET /calls":
            return self.calls
        elif call == "DELETE /calls":
            self.calls.clear()
        else:
            return self.control(request)
        return {}

    def begin(self, request):
        """Adds a request of the API to the journal, and returns its entry and its planned fault.

        If no fault is planned for the request, the kind of the fault is empty.
        """
        write, operation = self.write(request), request.method.lower()
        entry = {"method": request.method, "path": request.path, "operation": operation, "status": 0,
                 "at": self.now().isoformat().replace("+00:00", "Z"), "write": write}
        self.calls.append(entry)
        for fault in self.faults:
            method, _, prefix = fault.get("match", "").partition(" ")
            if (fault.get("writes_only") and not write or method and method != request.method
                    or not request.path.startswith(prefix) or fault.get("operation", "") not in ("", operation)):
                continue
            if fault.get("skip", 0) > 0:
                fault["skip"] -= 1
                continue
            fault["times"] -= 1
            if fault["times"] <= 0:
                self.faults.remove(fault)
            return entry, fault
        return entry, {"kind": ""}


_SECONDS = {"h": 3600, "m": 60, "s": 1, "ms": 1e-3}


def _duration(text):
    """Converts a duration in the format of Go, such as "1m30s", to a timedelta."""
    parts = re.findall(r"([0-9.]+)(h|ms|m|s)", text)
    return datetime.timedelta(seconds=sum(float(number) * _SECONDS[unit] for number, unit in parts))


class _Handler(http.server.BaseHTTPRequestHandler):
    """Serves the API and the control calls."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Logs nothing, because the journal has the calls."""

    def do_GET(self):
        simulator = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(self.command, self.path, self.headers, body)
        if request.names[0] == "_control":
            del request.names[0]
            self._send(self._run(simulator.common_control, request))
            return
        with simulator.lock:
            entry, fault = simulator.begin(request)
        kind, delay = fault["kind"], fault.get("delay_ms", 0) / 1000
        if kind == "drop_before":
            self.close_connection = True
            return
        if kind == "status":
            headers = {"Retry-After": str(fault["retry_after"])} if fault.get("retry_after") else {}
            answer = Answer({"error": "a planned fault"}, fault["status"], headers)
        else:
            time.sleep(delay if kind == "delay" else 0)
            answer = self._run(simulator.api, request)
        entry["status"] = answer.status
        time.sleep(delay if kind == "delay_after" else 0)
        if kind == "drop_after":
            self.close_connection = True
            return
        self._send(answer)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def _run(self, handle, request):
        with self.server.lock:
            try:
                answer = handle(request)
                if request.method != "GET":
                    self.server.save()
                return answer if isinstance(answer, Answer) else Answer(answer)
            except Refusal as refusal:
                return Answer({"error": str(refusal)}, refusal.status)
            except (KeyError, TypeError, ValueError) as error:
                return Answer({"error": f"the request is not valid ({type(error).__name__})"}, 400)

    def _send(self, answer):
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)
