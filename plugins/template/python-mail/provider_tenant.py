# SPDX-License-Identifier: Apache-2.0
"""The calls of the mail platform example about one tenant. Authors change this file."""

import datetime
import urllib.parse

from tenantry_http import member
from tenantry_mail import is_rule_name, rule_name
from tenantry_plugin import broken_answer


class Tenant:
    """One tenant, during one call."""

    def __init__(self, platform, call, tenant):
        self.platform, self.call = platform, call
        self.path = "/tenants/" + _quote(tenant)

    def _request(self, method, path, body=None, absent=None):
        return self.platform.request(self.call, method, self.path + path, body, absent)

    # Domains

    def profile(self):
        doc = self._request("GET", "")
        return {name: member(doc, name, str) for name in ("name", "builtin_domain", "default_domain")}

    def domains(self):
        return [_domain(d) for d in member(self._request("GET", "/domains"), "domains", list)]

    def domain(self, name):
        return _domain(self._request("GET", "/domains/" + _quote(name)))

    def add_domain(self, name):
        """Adds a domain. The API answers with the existing domain if there is one."""
        return _domain(self._request("PUT", "/domains/" + _quote(name)))

    def records(self, name):
        doc = self._request("GET", f"/domains/{_quote(name)}/records")
        return {"verification": [_record(r) for r in member(doc, "proof", list)],
                "service": [_record(r) for r in member(doc, "mail", list)]}

    def verify_domain(self, name):
        return _domain(self._request("POST", f"/domains/{_quote(name)}/verify"))

    def enable_mail(self, name):
        _domain(self._request("POST", f"/domains/{_quote(name)}/mail"))

    def remove_domain(self, name):
        self._request("DELETE", "/domains/" + _quote(name), absent="no_domain")

    # The mail server

    def bootstrap(self):
        """Performs the next step of the mail server's preparation.

        The application needs a role of the mail server. It can usually assign the role to itself.
        Assigning the role again changes nothing.
        """
        match member(self._request("PUT", "/role"), "state", str):
            case "active":
                return {"status": "ready", "message": "the mail server is ready"}
            case "waiting":
                return {"status": "pending", "step": "wait", "message": "the mail server is being prepared"}
            case "denied":
                return {"status": "failed", "step": "grant_role",
                        "message": "an administrator must grant the role of the mail server"}
        raise broken_answer("no_state")

    def smtp_auth(self):
        return "enabled" if member(self._request("GET", "/smtp"), "enabled", bool) else "disabled"

    def enable_smtp_auth(self):
        self._request("PUT", "/smtp", {"enabled": True})

    def mail_domains(self):
        return member(self._request("GET", "/mail-domains"), "domains", list)

    def signing(self, name):
        """Returns the DKIM configuration of a domain, or None."""
        doc = self._request("GET", "/signing/" + _quote(name), absent="no_signing")
        return None if doc is None else _signing(doc)

    def ensure_signing(self, name):
        return _signing(self._request("PUT", "/signing/" + _quote(name)))

    def enable_signing(self, name):
        self._request("POST", f"/signing/{_quote(name)}/enable")

    # Shared mailboxes

    def mailboxes(self):
        return [_mailbox(m) for m in member(self._request("GET", "/mailboxes"), "mailboxes", list)]

    def user_mailboxes(self):
        return member(self._request("GET", "/people"), "users", int)

    def email_licenses(self):
        doc = member(self._request("GET", "/people"), "licences", dict)
        return {"paid": member(doc, "paid", int), "trial": member(doc, "trial", int)}

    def mailbox(self, address):
        return _mailbox(self._request("GET", "/mailboxes/" + _quote(address)))

    def create_mailbox(self, display_name, address):
        return _mailbox(self._request("POST", "/mailboxes", {"name": display_name, "address": address}))

    def open_sign_in(self, object_id, address, password):
        self._request("PUT", "/accounts/" + _quote(object_id), {"username": address, "password": password})

    def open_submission(self, address):
        self._request("PUT", f"/mailboxes/{_quote(address)}/submission")

    def rename(self, address, display_name):
        _mailbox(self._request("PATCH", "/mailboxes/" + _quote(address), {"name": display_name}))

    def remove_mailbox(self, object_id):
        """Removes a mailbox. The platform deletes it with its account."""
        self._request("DELETE", "/accounts/" + _quote(object_id), absent="no_mailbox")

    # Rules that block mailboxes. The platform's rules can do more than that. The form is "senders"
    # for a rule that only blocks senders.

    def ensure_rule(self, scope, mailboxes):
        """Returns the rule of a scope, and creates a missing rule, switched off.

        A rule without senders would block everybody, so this method switches it off.
        """
        doc = self._rule_of(scope)
        if doc and not (doc["enabled"] and not doc["senders"]):
            return _rule(doc)
        if doc:
            return self._write({**doc, "enabled": False})
        if not mailboxes:
            return None
        return self._write({"name": rule_name(scope), "form": "senders", "enabled": False, "senders": mailboxes}, made=True)

    def block(self, scope, mailboxes):
        """Makes the rule block exactly these mailboxes.

        It writes nothing if the rule already blocks exactly these mailboxes.
        """
        doc = self._rule_of(scope)
        if not doc and not mailboxes:
            return None
        if doc and doc["enabled"] == bool(mailboxes) and (not mailboxes or (doc["form"], doc["senders"]) == ("senders", mailboxes)):
            return _rule(doc)
        wanted = {"form": "senders", "senders": mailboxes} if mailboxes else {}
        return self._write({**(doc or {}), **wanted, "name": rule_name(scope), "enabled": bool(mailboxes)}, made=not doc)

    def rules(self):
        return [_rule(doc) for doc in self._rules()]

    def remove_rule(self, scope):
        self._remove_rule(rule_name(scope))

    def remove_rules(self):
        """Removes all managed rules. After an error, a repeated call removes the remaining rules."""
        for doc in self._rules():
            self._remove_rule(doc["name"])

    def _remove_rule(self, name):
        self._request("DELETE", "/rules/" + _quote(name), absent="no_rule")

    def _rules(self):
        docs = [_rule_doc(r) for r in member(self._request("GET", "/rules"), "rules", list)]
        return [doc for doc in docs if is_rule_name(doc["name"])]

    def _rule_of(self, scope):
        return next((doc for doc in self._rules() if doc["name"].lower() == rule_name(scope)), None)

    def _write(self, doc, made=False):
        """Creates or replaces a rule. The platform answers with the rule as it is now."""
        return {**_rule(_rule_doc(self._request("PUT", "/rules/" + _quote(doc["name"]), doc))), "made": made, "written": True}

    # The message trace

    def sent(self, since, until, cursor, senders):
        """Returns a page of messages, and the cursor of the next page or "".

        The cursor is the platform's own cursor.
        """
        if not senders:
            return [], ""
        query = {"from": since.isoformat(), "to": until.isoformat(), "sender": senders, "cursor": cursor}
        doc = self._request("GET", "/messages?" + urllib.parse.urlencode(query, doseq=True))
        return [_sent(m) for m in member(doc, "messages", list)], member(doc, "next", str)


def _quote(text):
    return urllib.parse.quote(text, safe="")


def _domain(doc):
    return {"name": member(doc, "name", str), **{name: member(doc, name, bool) for name in ("verified", "default", "mail_enabled")}}


def _record(doc):
    return {"type": member(doc, "type", str), "name": member(doc, "name", str), "content": member(doc, "content", str),
            "preference": member(doc, "priority", int), "ttl": member(doc, "ttl", int)}


def _signing(doc):
    records = [_record(r) for r in member(doc, "records", list)]
    if len(records) != 2:
        raise broken_answer("no_records")
    return {"enabled": member(doc, "enabled", bool), "selector1": records[0], "selector2": records[1]}


def _mailbox(doc):
    return {"object_id": member(doc, "id", str), "display_name": member(doc, "name", str), "address": member(doc, "address", str),
            "principal_name": member(doc, "username", str), "alias": member(doc, "alias", str),
            "account_enabled": member(doc, "enabled", bool), "created_at": _time(doc, "created")}


def _rule_doc(doc):
    """Returns a rule of the API. Raises an outcome if a member is missing."""
    return {"id": member(doc, "id", str), "name": member(doc, "name", str), "form": member(doc, "form", str),
            "enabled": member(doc, "enabled", bool), "senders": member(doc, "senders", list)}


def _rule(doc):
    return {"id": doc["id"], "name": doc["name"], "enabled": doc["enabled"], "lists": doc["senders"],
            "altered": doc["enabled"] and doc["form"] != "senders"}


def _sent(doc):
    return {"message": member(doc, "id", str), "sender": member(doc, "sender", str), "at": _time(doc, "at"),
            "refused": member(doc, "refused", bool)}


def _time(doc, name):
    try:
        return datetime.datetime.fromisoformat(member(doc, name, str))
    except ValueError:
        raise broken_answer("wrong_shape") from None
