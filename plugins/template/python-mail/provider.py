# SPDX-License-Identifier: Apache-2.0
"""The mail platform example: its description, the consent, and its API. Authors change this file.

provider_tenant.py has the calls about one tenant.
"""

import base64
import hashlib
import re
import urllib.parse

import tenantry_http
from provider_tenant import Tenant
from tenantry_http import is_url, member
from tenantry_mail import refused_as, waits_for
from tenantry_plugin import broken_answer, credential_refused, misconfigured, request_refused

DESCRIPTION = {
    "name": "example", "kind": "mail", "version": "0.1.0", "title": "Example",
    "capabilities": [],
    "fields": [
        {"name": "api_token", "account": False, "required": True, "secret": True, "default": "",
         "help": "token of the operator's application"},
        {"name": "api_url", "account": False, "required": False, "secret": False,
         "default": "https://api.example.com/v1", "help": "base URL of the API"},
        {"name": "login_url", "account": False, "required": False, "secret": False,
         "default": "https://login.example.com", "help": "base URL of the pages on which administrators agree and sign in"},
    ],
    "hosts": ["{api_url}"],  # the plugin calls no other hosts
    # The published rate limit of each tenant.
    "budgets": [{"key": "tenant", "limit": 600, "window_seconds": 60}],
    "mail_platform": {
        "builtin_domains": ["mail.example"],
        "exchange_hosts": [".mx.mail.example"],
        "signing_hosts": [".dkim.mail.example"],
        "verification_hosts": [".proof.mail.example"],
        "administrator": "administrator",
        "withdrawal": "Remove the application in the settings of your organization.",
        "left_rules": "You find the rules in the settings of your organization, under mail flow.",
    },
}

# Maps the error codes of the API to the codes that tenantry publishes.
REFUSALS = {
    "no_consent": "access_denied", "no_role": "access_denied",
    "login_refused": "connect_link_invalid",
    "no_domain": "domain_not_found", "domain_name_refused": "invalid_domain", "domain_taken": "domain_unavailable",
    "domain_not_proven": "verification_failed", "domain_not_verified": "domain_not_verified", "domain_used": "domain_in_use",
    "smtp_locked": "smtp_auth_not_enabled", "signing_records_missing": "dkim_not_ready", "no_signing": "dkim_not_ready",
    "no_mailbox": "mailbox_not_found", "address_taken": "invalid_mailbox_email", "password_weak": "weak_password",
}

_TENANT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def connect(connection):
    """Returns the platform for one call."""
    for name in ("api_url", "login_url"):
        if not is_url(connection.settings.get(name, "")):
            raise misconfigured(name, "it must be a URL such as https://api.example.com/v1")
    token = connection.secrets.get("api_token", "")
    if not token.isascii() or not token.isprintable() or not token:
        raise misconfigured("api_token", "it is missing or has invalid characters")
    return Platform(connection.settings["api_url"].rstrip("/"), connection.settings["login_url"].rstrip("/"), token)


class Platform:
    """The platform, with the credential of one call."""

    def __init__(self, url, login_url, token):
        self.url, self.login_url, self.token = url, login_url, token
        self.scope = hashlib.sha256(f"{url} {token}".encode()).hexdigest()

    def check(self, call):
        """Tests the token without a tenant."""
        self.request(call, "GET", "/application")

    def tenant(self, call, tenant):
        """Returns the calls about one tenant."""
        return Tenant(self, call, tenant)

    def consent_url(self, state, redirect):
        """Returns the URL at which an administrator gives the application access to the tenant."""
        return self.login_url + "/consent?" + urllib.parse.urlencode({"state": state, "redirect": redirect})

    def granted(self, query):
        """Returns the tenant in the query with which the platform sends the browser back.

        The tenant in the query is only a claim.
        """
        values = dict(urllib.parse.parse_qsl(query))
        if values.get("error") == "denied":
            raise refused_as("consent_declined", "denied", "the administrator did not agree")
        if not values.get("state") or not _TENANT_ID.fullmatch(values.get("tenant", "")):
            raise refused_as("invalid_request", "callback", "the query of the callback is invalid")
        return values["tenant"]

    def sign_in_url(self, sign_in):
        """Returns the URL at which a person signs in. It has a checksum in place of the verifier."""
        digest = hashlib.sha256(sign_in["verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        query = {name: sign_in[name] for name in ("tenant", "state", "nonce", "redirect")}
        return self.login_url + "/sign-in?" + urllib.parse.urlencode({**query, "challenge": challenge})

    def administrator(self, call, sign_in, code):
        """Returns the administrator who signed in.

        The platform accepts the code once, and only with the verifier. It answers with the tenant and
        the nonce of the sign-in.
        """
        person = self.request(call, "POST", "/logins", {"code": code, "verifier": sign_in["verifier"], "redirect": sign_in["redirect"]})
        made_for = member(person, "tenant", str), member(person, "nonce", str)
        if made_for != (sign_in["tenant"], sign_in["nonce"]):
            raise refused_as("connect_link_invalid", "other_login", "this sign-in belongs to a different link")
        if not member(person, "administrator", bool):
            raise refused_as("not_an_administrator", "role", "this person is not an administrator")
        return {"tenant": sign_in["tenant"], "address": member(person, "username", str), "name": member(person, "name", str)}

    def request(self, call, method, path, body=None, absent=None):
        """Sends a request, and returns the answer. It returns None for the error code in absent.

        An answer without an error code comes from a proxy in front of the platform, and says nothing
        about the token or the object.
        """
        headers = {"Authorization": "Bearer " + self.token}
        status, _, answer = tenantry_http.request(call, self.scope, method, self.url + path, headers, body)
        if not isinstance(answer, dict):
            raise broken_answer(f"status {status}")
        if status == 200:
            return answer
        code = answer.get("error")
        if not isinstance(code, str) or status < 400:
            raise broken_answer(f"status {status}")
        if status == 401:
            raise credential_refused("status 401")
        if code == absent:
            return None
        if code == "not_ready":
            raise waits_for(code)
        raise refused_as(REFUSALS[code], code) if code in REFUSALS else request_refused(code)
