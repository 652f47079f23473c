# SPDX-License-Identifier: Apache-2.0
"""A simulated example: its API on a loopback address, for tests and for `tenantry dev`.

    GET    /v1/workspaces           {"workspaces": [{"id", "name"}]} of the key
    GET    /v1/accounts?page=&like= {"page", "accounts", "more"}; like: a part of the address
    DELETE /v1/accounts/{id}        {"removed": true}
    POST   /v1/links                starts a sign-in: a link with id, url, state, address and until
    GET    /v1/links/{id}           the link; its state is pending, done, denied or expired
    GET and POST /authorize?state=  the page behind a link

An account has id, address, name, state and revision. The header X-Workspace selects a workspace.
"""

import datetime
import html
import secrets
import urllib.parse

import tenantry_simulator
from tenantry_simulator import Answer, Refusal
from tenantry_sending import same_address

KEY = "simulated-key-of-example"
WORKSPACES = [{"id": "ws-1", "name": "Workspace"}]  # of KEY; the first is the default
PAGE_SIZE = 100
LINK_LIFE = datetime.timedelta(minutes=10)

# Tells the conformance suite how to use this simulator.
SUITE = {
    "address": "address", "name": {"name": "$name"},
    "states": [
        {"state": "connected", "members": {"state": "ok"}},
        {"state": "failed", "has_error": True, "members": {"state": "failed"}},
        {"state": "other", "members": {"state": "strange"}},
    ],
    "sessions": True, "declines": True,
    "expire": {"method": "POST", "path": "/links/$session/expire"},
    "unpaid": {"method": "PUT", "path": f"/keys/{KEY}", "body": {"workspaces": WORKSPACES, "unpaid": True}},
    "workspaces": {
        "id": "ws-%d", "values": {"api_key": "key-reaching"},
        "calls": [{"method": "PUT", "path": "/keys/key-reaching", "body": {"workspaces": "$workspaces"}}],
    },
}


class Simulator(tenantry_simulator.Simulator):
    """The simulated platform."""

    kept = ("keys", "accounts", "links")

    def __init__(self, name, port, _):
        super().__init__(name, port, {"base_url": "{url}/v1", "auth_hosts": "login.example.com, {host}"}, {"api_key": KEY}, sending={"api_key": KEY})
        self.title = name.capitalize()
        self.keys = {KEY: {"workspaces": WORKSPACES, "unpaid": False}}
        self.accounts = []  # each with its workspace
        self.links = {}  # by id

    def api(self, request):
        if request.path == "/authorize":
            return self._page(request)
        workspace, reached = self._admit(request)
        match request.method, *request.names:
            case "GET", "v1", "workspaces":
                return {"workspaces": reached}
            case "GET", "v1", "accounts":
                page, like = int(request.query.get("page", 0)), request.query.get("like", "").lower()
                found = [_shown(a) for a in self.accounts if a["workspace"] == workspace and like in a["address"].lower()]
                end = (page + 1) * PAGE_SIZE
                return {"page": page, "accounts": found[end - PAGE_SIZE:end], "more": end < len(found)}
            case "DELETE", "v1", "accounts", account:
                self.accounts.remove(self._find(workspace, account))
                return {"removed": True}
            case "POST", "v1", "links":
                link = {"id": secrets.token_hex(16), "workspace": workspace, "state": "pending", "address": "",
                        "until": self.now() + LINK_LIFE}
                self.links[link["id"]] = link
                return self._link(link)
            case "GET", "v1", "links", session if session in self.links:
                return self._link(self.links[session])
        raise Refusal(404, "Not Found")

    def control(self, request):
        match request.method, *request.names:
            case "GET", "suite":
                return SUITE
            case "GET", "accounts":
                return [_shown(a) for a in self.accounts]
            case "PUT", "accounts", address:
                changes = request.json()
                if not changes.keys() <= {"name", "state"}:
                    raise Refusal(400, "the members are name and state")
                self._attach(WORKSPACES[0]["id"], address).update(changes)
                return {}
            case "DELETE", "accounts", address:
                self.accounts.remove(self._find(WORKSPACES[0]["id"], address))
                return {}
            case "PUT", "keys", key:
                self.keys[key] = {"workspaces": [], "unpaid": False, **request.json()}
                return {}
            case "POST", "links", session, "expire" if session in self.links:
                self.links[session]["until"] = self.now()
                return {}
        return super().control(request)

    def _admit(self, request):
        """Checks the key, and returns the selected workspace and all workspaces of the key."""
        key = self.keys.get(request.bearer())
        if key is None:
            raise Refusal(401, "Unauthorized")
        if key["unpaid"]:
            raise Refusal(402, "Payment Required")
        ids = [w["id"] for w in key["workspaces"]]
        wanted = request.headers.get("X-Workspace") or next(iter(ids), "")
        if wanted not in ids and (wanted or request.path != "/v1/workspaces"):
            raise Refusal(403, "Forbidden")
        return wanted, key["workspaces"]

    def _find(self, workspace, address):
        for account in self.accounts:
            if account["workspace"] == workspace and same_address(account["address"], address):
                return account
        raise Refusal(404, "Not Found")

    def _attach(self, workspace, address):
        """Returns the account of an address after a new sign-in, and creates it if necessary."""
        try:
            account = self._find(workspace, address)
        except Refusal:
            account = {"workspace": workspace, "id": address.lower(), "address": address, "name": _display_name(address), "revision": 0}
            self.accounts.append(account)
        account.update(state="ok", revision=account["revision"] + 1)
        return account

    def _link(self, link):
        state = "expired" if link["state"] == "pending" and link["until"] <= self.now() else link["state"]
        return {"id": link["id"], "url": f"{self.url}/authorize?state={link['id']}", "state": state,
                "address": link["address"], "until": link["until"].isoformat()}

    def _page(self, request):
        """Serves the form behind a link. The form has the fields username and decision."""
        link = self.links.get(request.query.get("state", ""))
        if not link or self._link(link)["state"] != "pending":
            return _html(f"{self.title}: this link is unknown, used or expired. Ask for a new one.", 400)
        if request.method != "POST":
            return _html(f"Let {self.title} send from a mailbox", form=True)
        sent = dict(urllib.parse.parse_qsl(request.body.decode()))
        address = sent.get("username", "").strip()
        if sent.get("decision") == "deny":
            link["state"] = "denied"
            return _html("You declined, so nothing was connected.")
        if sent.get("decision") != "accept" or "@" not in address:
            return _html("Enter the mail address that signs in, and press one of the two buttons.", 400, form=True)
        link.update(state="done", address=address)
        self._attach(link["workspace"], address)
        return _html("You can close this window")


def _shown(account):
    return {name: account[name] for name in ("id", "address", "name", "state", "revision")}


def _display_name(address):
    return address.partition("@")[0].replace(".", " ").title()


FORM = """<form method="post">
<label>Sign in as <input name="username" autocomplete="username" required></label>
<button name="decision" value="accept">Accept</button>
<button name="decision" value="deny" formnovalidate>Cancel</button>
</form>"""


def _html(text, status=200, form=False):
    page = f"""<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Sign a mailbox in</title>
<h1>{html.escape(text)}</h1>
{FORM if form else ""}
<p>This page belongs to the sandbox. Nothing leaves this machine and no password is asked.</p></html>
"""
    return Answer(page, status, {"Cache-Control": "no-store", "Content-Security-Policy": "default-src 'none'"}, html=True)
