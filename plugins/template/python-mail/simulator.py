# SPDX-License-Identifier: Apache-2.0
"""A simulated example: its API and its pages on a loopback address, for tests and for `tenantry dev`.

    GET  /v1/application        tests the token
    POST /v1/logins             answers with the person who signed in; a code works once
    ...  /v1/tenants/{id}/...   the operations of a tenant, see simulator_tenant.py
    GET and POST /consent       the page on which an administrator gives the application access
    GET and POST /sign-in       the page on which a person signs in

An error answer has a code: {"error": "no_domain"}. docs/plugins.md of tenantry lists the control
calls of mail platforms.
"""

import base64
import hashlib
import html
import secrets
import urllib.parse

import simulator_dns
import tenantry_simulator
from simulator_tenant import Tenant
from tenantry_simulator import Answer, Refusal

TOKEN = "simulated-token-of-example"

# Tells the conformance suite two usernames: of a person without a role, and of an administrator
# of a different tenant.
SUITE = {"member": "member@$domain", "guest": "guest@elsewhere.mail.example"}

# The zones of the platform to which the records of customers refer. The sandbox answers for them.
# The address is reserved for documentation (RFC 5737), and the private DKIM key was deleted.
ZONES = {"mail.example": [
    {"type": "A", "name": "*.mx.mail.example", "content": "192.0.2.25", "ttl": 300},
    {"type": "TXT", "name": "spf.mail.example", "content": "v=spf1 ip4:192.0.2.0/24 -all", "ttl": 300},
    {"type": "TXT", "name": "*.dkim.mail.example", "content": "v=DKIM1; k=ed25519; p=aj1mV3WgyL5VthediI+SF4nlJvWc4V/ucdHbiPiVrYA=", "ttl": 300},
]}


class Simulator(tenantry_simulator.Simulator):
    """The simulated platform."""

    kept = ("tenants", "logins", "serial")

    def __init__(self, name, port, world):
        super().__init__(name, port, {"api_url": "{url}/v1", "login_url": "{url}"}, {"api_token": TOKEN},
                         control=["tenants", "messages"], zones=ZONES)
        self.name, self.world = name, world
        self.tenants = {}  # by id
        self.logins = {}  # by the codes that the application has not redeemed yet
        self.serial = 0  # counts everything that gets an id

    def load(self, state):
        super().load(state)
        for tenant in self.tenants.values():
            tenant.simulator = self

    def new_id(self):
        self.serial += 1
        return f"00000000-0000-4000-8000-{self.serial:012x}"

    def published(self, record):
        """Reports whether the DNS has a record."""
        return simulator_dns.published(self.world, record)

    def write(self, request):
        return request.method != "GET" and request.path.startswith("/v1/tenants/")

    def api(self, request):
        match request.path:
            case "/consent":
                return self._page(request, "Let tenantry manage your mail?", self._consent)
            case "/sign-in":
                return self._page(request, "Sign in", self._sign_in)
        if request.bearer() != TOKEN:
            raise Refusal(401, "token_refused")
        match request.method, *request.names:
            case "GET", "v1", "application":
                return {"name": "tenantry"}
            case "POST", "v1", "logins":
                return self._redeem(request.json())
            case _, "v1", "tenants", tenant, *names if tenant in self.tenants:
                return self.tenants[tenant].answer(request, names)
        raise Refusal(403, "no_consent")

    def _page(self, request, title, accept):
        """Shows a form, or sends the browser back to the application after the form was submitted."""
        back = request.query.get("redirect", "")
        if not urllib.parse.urlsplit(back).netloc:
            raise Refusal(400, "the link has no address to return to")
        if request.method != "POST":
            return Answer(FORM.format(title=html.escape(title)), html=True)
        sent = dict(urllib.parse.parse_qsl(request.body.decode()))
        if sent.get("decision") == "accept":
            result = accept(sent.get("username", ""), request.query)
        else:
            result = {"error": "denied"}
        query = urllib.parse.urlencode({**result, "state": request.query.get("state", "")})
        return Answer("", 303, {"Location": f"{back}?{query}"}, html=True)

    def _consent(self, username, _):
        for tenant in self.tenants.values():
            if tenant.admin == username.lower():
                tenant.consent_at = tenant.after("consent_ms")
                return {"tenant": tenant.id}
        raise Refusal(403, "only an administrator can agree")

    def _sign_in(self, username, query):
        code = secrets.token_hex(16)
        self.logins[code] = {**query, "username": username}
        return {"code": code}

    def _redeem(self, sent):
        login = self.logins.pop(sent["code"], {})
        tenant = self.tenants.get(login.get("tenant"))
        digest = hashlib.sha256(sent["verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if not tenant or (login["redirect"], login["challenge"]) != (sent["redirect"], challenge):
            raise Refusal(409, "login_refused")
        username = login["username"]
        return {"tenant": tenant.id, "nonce": login["nonce"], "username": username, "name": username.partition("@")[0],
                "administrator": username.lower() == tenant.admin}

    def control(self, request):
        match request.method, *request.names:
            case "GET", "suite":
                return SUITE
            case "POST", "tenants":
                tenant = Tenant(self, **request.json())
                self.tenants[tenant.id] = tenant
                return {"tenant_id": tenant.id, "admin": tenant.admin}
            case "POST", "messages":
                return self._send(**request.json())
            case method, "tenants", tenant, *names if tenant in self.tenants:
                return self.tenants[tenant].control(method, names, request.json())
        return super().control(request)

    def _send(self, mailbox, count):
        """Makes a mailbox send messages now."""
        for tenant in self.tenants.values():
            if tenant.send(mailbox, count):
                return {}
        raise Refusal(404, "there is no such mailbox")


FORM = """<!doctype html><html lang="en"><title>{title}</title><h1>{title}</h1>
<form method="post"><label>Username <input name="username" required></label>
<button name="decision" value="accept">Continue</button> <button name="decision" value="deny" formnovalidate>Cancel</button></form></html>
"""
