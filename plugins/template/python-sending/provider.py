# SPDX-License-Identifier: Apache-2.0
"""The sending platform example: its description and its API. Authors change this file."""

import datetime
import hashlib
import urllib.parse

import tenantry_http
from tenantry_http import is_url, member
from tenantry_plugin import broken_answer, credential_refused, misconfigured, request_refused
from tenantry_sending import plan_inactive, same_address, sign_in_link

DESCRIPTION = {
    "name": "example", "kind": "sending", "version": "0.1.0", "title": "Example",
    "capabilities": ["microsoft_oauth", "mailbox_refresh", "mailbox_disconnect"],
    "fields": [
        {"name": "api_key", "account": True, "required": True, "secret": True, "default": "", "help": "key of the API"},
        {"name": "workspace_id", "account": True, "required": False, "secret": False, "default": "",
         "help": "id of the workspace; needed if the key has access to several"},
        {"name": "base_url", "account": False, "required": False, "secret": False,
         "default": "https://api.example.com/v1", "help": "base URL of the API"},
        {"name": "auth_hosts", "account": False, "required": False, "secret": False,
         "default": "login.microsoftonline.com", "help": "hosts that a sign-in link may lead to, separated by commas"},
    ],
    "hosts": ["{base_url}"],  # the plugin calls no other hosts
    # The published rate limit. It applies to the sign-ins of all keys together.
    "budgets": [{"key": "egress", "limit": 120, "window_seconds": 60, "only": ["start_sign_in"]}],
}


def connect(connection):
    """Returns the platform for one call."""
    url, key = connection.settings.get("base_url", ""), connection.secrets.get("api_key", "")
    if not is_url(url):
        raise misconfigured("base_url", "it must be a URL such as https://api.example.com/v1")
    if not key.isascii() or not key.isprintable() or not key:
        raise misconfigured("api_key", "it is missing or has invalid characters")
    workspace = connection.settings.get("workspace_id", "")
    if not workspace.isascii() or not workspace.isprintable():
        raise misconfigured("workspace_id", "it has invalid characters")
    hosts = connection.settings.get("auth_hosts", "").replace(",", " ").split()
    return Platform(url.rstrip("/"), key, workspace, hosts)


class Platform:
    """The platform, with the credential of one call."""

    def __init__(self, url, key, workspace, auth_hosts):
        self.url, self.key = url, key
        self.workspace = workspace  # empty for the default workspace
        self.auth_hosts = auth_hosts
        self.scope = hashlib.sha256(f"{url} {key}".encode()).hexdigest()

    def check(self, call):
        """Returns the workspaces to which the key has access."""
        _, answer = self._call(call, "GET", "/workspaces")
        return [{"id": member(w, "id", str), "name": member(w, "name", str)} for w in member(answer, "workspaces", list)]

    def account(self, call, address):
        """Returns the account of an address, or None.

        The parameter `like` also finds parts of addresses, so this method compares each address on all
        pages.
        """
        cursor = "0"
        while cursor:
            accounts, cursor = self._list(call, {"like": address, "page": cursor})
            for account in accounts:
                if same_address(account["address"], address):
                    return account
        return None

    def accounts(self, call, cursor):
        """Returns a page of the accounts, and the cursor of the next page or "".

        The cursor is a page number.
        """
        return self._list(call, {"page": cursor or "0"})

    def start_sign_in(self, call, _):
        """Returns the id of a session, the link for a person to sign in, and when both expire."""
        _, answer = self._call(call, "POST", "/links")
        session, url = member(answer, "id", str), member(answer, "url", str)
        if not session or not sign_in_link(url, self.auth_hosts):
            raise broken_answer("no_link_to_an_allowed_host")
        try:
            return session, url, datetime.datetime.fromisoformat(member(answer, "until", str))
        except ValueError:
            raise broken_answer("wrong_shape") from None

    def sign_in(self, call, session):
        """Returns the progress of a session. An unknown session counts as expired."""
        status, answer = self._call(call, "GET", "/links/" + urllib.parse.quote(session, safe=""))
        state = "expired" if status == 404 else member(answer, "state", str)
        match state:
            case "pending" | "expired":
                return {"state": state}
            case "done":
                return {"state": "succeeded", "address": member(answer, "address", str)}
            case "denied":
                return {"state": "failed", "reason": "access_denied"}
        raise broken_answer("unknown_link_state")

    def remove(self, call, account):
        """Removes an account. Removing an account that does not exist succeeds."""
        status, answer = self._call(call, "DELETE", "/accounts/" + urllib.parse.quote(account, safe=""))
        if status != 404 and not member(answer, "removed", bool):
            raise broken_answer("not_removed")

    def _list(self, call, query):
        """Returns the accounts of one page, and the cursor of the next page or "".

        Raises an outcome for an answer without the requested page, because an account that is
        missing from a complete list counts as disconnected.
        """
        _, answer = self._call(call, "GET", "/accounts?" + urllib.parse.urlencode(query))
        page = member(answer, "page", int)
        if str(page) != query["page"]:
            raise broken_answer("not_the_requested_page")
        return [_account(a) for a in member(answer, "accounts", list)], str(page + 1) if member(answer, "more", bool) else ""

    def _call(self, call, method, path):
        """Returns the status and the answer. The status is 200, or 404 for an unknown object."""
        headers = {"Authorization": "Bearer " + self.key}
        if self.workspace:
            headers["X-Workspace"] = self.workspace
        status, _, answer = tenantry_http.request(call, self.scope, method, self.url + path, headers)
        if status in (401, 403):
            raise credential_refused(f"status {status}")
        if status == 402:
            raise plan_inactive()
        if status in (400, 409, 422):
            raise request_refused(f"status {status}")
        if status not in (200, 404):
            raise broken_answer(f"status {status}")
        return status, answer


def _account(doc):
    state = {"ok": "connected", "failed": "failed"}.get(member(doc, "state", str), "other")
    return {"id": member(doc, "id", str), "address": member(doc, "address", str), "name": member(doc, "name", str),
            "state": state, "has_error": state == "failed", "stamp": str(member(doc, "revision", int))}
