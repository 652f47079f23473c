# SPDX-License-Identifier: Apache-2.0
"""A tenant of the simulated example, and the operations of the API on it.

Below /v1/tenants/{id}:

    GET                                       the names of the tenant
    GET /people                               {"users", "licences": {"paid", "trial"}}
    GET /domains, PUT GET DELETE /domains/{domain}, GET /domains/{domain}/records
    POST /domains/{domain}/verify, POST /domains/{domain}/mail
    PUT /role                                 takes the role of the mail server
    GET PUT /smtp, GET /mail-domains
    GET PUT /signing/{domain}, POST /signing/{domain}/enable
    GET POST /mailboxes, GET PATCH /mailboxes/{address}, PUT /mailboxes/{address}/submission
    PUT DELETE /accounts/{id}
    GET /rules, PUT DELETE /rules/{name}
    GET /messages?from=&to=&sender=&cursor=

The operations below PUT /role require the role.
"""

import datetime
import hashlib

from tenantry_simulator import Refusal

WAKE_MS = 60_000  # how long the preparation of a dormant mail server takes
SHORTEST_PASSWORD = 8


class Tenant:
    """A customer of the platform. An attribute that ends in _at is a time or None."""

    def __init__(self, simulator, name="", bootstrap="ready", smtp_auth="allowed"):
        self.simulator, self.id = simulator, simulator.new_id()
        self.name = name or f"Tenant {simulator.serial}"
        self.builtin = f"tenant{simulator.serial}.mail.example"
        self.admin = "admin@" + self.builtin
        self.dormant, self.denied = bootstrap == "dehydrated", bootstrap == "denied"
        self.smtp_refused, self.smtp = smtp_auth == "refused", False
        self.consent_at = self.role_at = self.awake_at = None
        self.domains, self.mailboxes, self.rules, self.messages = {}, [], [], []
        self.behaviour = {"trace_page": 100, "licenses": {"paid": 1, "trial": 0}}

    def __getstate__(self):
        return {**self.__dict__, "simulator": None}  # Simulator.load sets it again

    def after(self, delay, since=None):
        """Returns the time since, or the current time, plus a delay of the behaviour."""
        return (since or self.simulator.now()) + datetime.timedelta(milliseconds=self.behaviour.get(delay, 0))

    def reached(self, time):
        return time is not None and time <= self.simulator.now()

    def answer(self, request, names):
        """Answers a request of the API. It refuses every request without the consent."""
        if not self.reached(self.consent_at):
            raise Refusal(403, "no_consent")
        match request.method, *names:
            case ["GET"]:
                return {"name": self.name, "builtin_domain": self.builtin, "default_domain": ""}
            case "GET", "people":
                return {"users": 1, "licences": self.behaviour["licenses"]}
            case "PUT", "role":
                return {"state": self._take_role()}
            case "GET", "domains":
                return {"domains": [_shown(d) for d in self.domains.values()]}
            case "PUT", "domains", name:
                return _shown(self._add_domain(name))
            case method, "domains", name, *path:
                return self._domain(method, self._known(name), path)
        if not self.reached(self.role_at):
            raise Refusal(403, "no_role")
        match request.method, *names:
            case "GET", "smtp":
                return {"enabled": self.smtp}
            case "PUT", "smtp" if self.smtp_refused:
                raise Refusal(409, "smtp_locked")
            case "PUT", "smtp":
                self.smtp = True
                return {"enabled": True}
            case "GET", "mail-domains":
                return {"domains": [self.builtin, *(name for name in self.domains if self._accepts(name))]}
            case method, "signing", name, *path:
                return self._signing(method, name, path)
            case method, "mailboxes" | "accounts" as part, *path:
                return self._mailbox(method, part, path, request.json())
            case "GET", "rules":
                return {"rules": [_shown_rule(r) for r in self.rules]}
            case "PUT", "rules", name:
                sent = request.json()
                return _shown_rule(self._set_rule(name, sent["form"], sent["enabled"], sent["senders"]))
            case "DELETE", "rules", name:
                self.rules.remove(self._rule(name) or _missing("no_rule"))
                return {}
            case "GET", "messages":
                return self._trace(request)
        return _missing("no_operation")

    # Domains

    def _known(self, name):
        return self.domains.get(name) or _missing("no_domain")

    def _add_domain(self, name):
        if name not in self.domains and ("." not in name or name.endswith(".mail.example")):
            raise Refusal(409, "domain_name_refused")
        return self.domains.setdefault(name, {"name": name, "verified": False, "mail_enabled": False, "accepted_at": None,
                                              "signing": False, "signs": False})

    def _domain(self, method, domain, path):
        name = domain["name"]
        match method, *path:
            case ["GET"]:
                return _shown(domain)
            case ["DELETE"]:
                if any(m["address"].endswith("@" + name) for m in self.mailboxes):
                    raise Refusal(409, "domain_used")
                del self.domains[name]
                return {}
            case "GET", "records":
                return {"proof": [self._proof(name)], "mail": _mail_records(name) if domain["mail_enabled"] else []}
            case "POST", "verify":
                self._verify(domain)
                return _shown(domain)
            case "POST", "mail" if not domain["verified"]:
                raise Refusal(409, "domain_not_verified")
            case "POST", "mail":
                if not domain["mail_enabled"]:
                    domain.update(mail_enabled=True, accepted_at=self.after("accepted_domain_ms"))
                return _shown(domain)
        return _missing("no_operation")

    def _verify(self, domain):
        """Queries the DNS for the record that proves the ownership.

        Only one tenant can verify a domain.
        """
        for other in self.simulator.tenants.values():
            if other is not self and other.domains.get(domain["name"], {}).get("verified"):
                raise Refusal(409, "domain_taken")
        if not domain["verified"] and not self.simulator.published(self._proof(domain["name"])):
            raise Refusal(409, "domain_not_proven")
        domain["verified"] = True

    def _proof(self, name):
        digest = hashlib.sha256(f"{self.id} {name}".encode()).hexdigest()
        return _record("TXT", name, f"{self.simulator.name}-verification={digest[:16]}")

    # The mail server

    def _take_role(self):
        if self.role_at is None:
            if self.denied:
                return "denied"
            self.role_at = self.after("role_ms")
        if not self.reached(self.role_at):
            return "waiting"
        if self.dormant and self.awake_at is None:
            self.awake_at = self.simulator.now() + datetime.timedelta(milliseconds=WAKE_MS)
        return "waiting" if self.dormant and not self.reached(self.awake_at) else "active"

    def _accepts(self, name):
        return self.reached(self.domains.get(name, {}).get("accepted_at"))

    def _signing(self, method, name, path):
        domain = self.domains.get(name, {"signing": False})
        if method == "PUT":
            if not self._accepts(name):
                raise Refusal(409, "not_ready")
            domain["signing"] = True
        if not domain["signing"]:
            return _missing("no_signing")
        records = _signing_records(name)
        if path == ["enable"]:
            if not domain["signs"] and not all(self.simulator.published(r) for r in records):
                raise Refusal(409, "signing_records_missing")
            domain["signs"] = True
        return {"enabled": domain["signs"], "records": records}

    # Mailboxes

    def _mailbox(self, method, part, path, sent):
        match method, part, *path:
            case "GET", "mailboxes":
                return {"mailboxes": [_shown_mailbox(m) for m in self.mailboxes]}
            case "POST", "mailboxes":
                return _shown_mailbox(self._create(sent["name"], sent["address"].lower()))
            case "GET", "mailboxes", address:
                return _shown_mailbox(self._find(address))
            case "PATCH", "mailboxes", address:
                self._find(address)["name"] = sent["name"]
                return _shown_mailbox(self._find(address))
            case "PUT", "mailboxes", address, "submission":
                self._visible_mailbox(address)
                return {}
            case "PUT", "accounts", key:
                mailbox = self._visible_mailbox(key)
                if len(sent["password"]) < SHORTEST_PASSWORD:
                    raise Refusal(409, "password_weak")
                mailbox.update(username=sent["username"], enabled=True)
                return {}
            case "DELETE", "accounts", key:
                self.mailboxes.remove(self._visible_mailbox(key))
                return {}
        return _missing("no_operation")

    def _create(self, name, address):
        local, _, domain = address.partition("@")
        if not self._accepts(domain):
            raise Refusal(409, "not_ready")
        if any(m["address"] == address for m in self.mailboxes):
            raise Refusal(409, "address_taken")
        key = self.simulator.new_id()
        alias = f"{local}{self.simulator.serial}"
        self.mailboxes.append({"id": key, "name": name, "address": address, "username": f"{alias}@{self.builtin}",
                               "alias": alias, "enabled": False, "created": self.simulator.now()})
        return self.mailboxes[-1]

    def _find(self, key):
        """Returns the mailbox with an address or an id."""
        return next((m for m in self.mailboxes if key.lower() in (m["address"], m["id"])), None) or _missing("no_mailbox")

    def _visible_mailbox(self, key):
        """Returns a mailbox. Refuses with not_ready while the directory does not show it yet."""
        mailbox = self._find(key)
        if not self.reached(self.after("mailbox_ms", mailbox["created"])):
            raise Refusal(409, "not_ready")
        return mailbox

    # Rules and messages. A rule has versions, the newest last, because a change applies after a
    # delay.

    def _rule(self, name):
        return next((r for r in self.rules if r["name"].lower() == name.lower()), None)

    def _set_rule(self, name, form, enabled, senders):
        rule = self._rule(name)
        if rule is None:
            rule = {"id": self.simulator.new_id(), "name": name, "versions": []}
            self.rules.append(rule)
        rule["versions"].append({"since": self.simulator.now(), "form": form, "enabled": enabled, "senders": senders or []})
        return rule

    def _blocks(self, rule, sender):
        for version in reversed(rule["versions"]):
            if self.reached(self.after("rule_ms", version["since"])):
                return version["enabled"] and (not version["senders"] or sender in version["senders"])
        return False

    def send(self, address, count):
        """Makes a mailbox send messages now. It reports whether the tenant has this mailbox."""
        sender = address.lower()
        if not any(m["address"] == sender for m in self.mailboxes):
            return False
        refused = any(self._blocks(rule, sender) for rule in self.rules)
        for _ in range(count):
            self.simulator.serial += 1
            self.messages.append({"id": f"m-{self.simulator.serial}", "sender": sender, "at": self.simulator.now(), "refused": refused})
        return True

    def _trace(self, request):
        since, until = (datetime.datetime.fromisoformat(request.query[name]) for name in ("from", "to"))
        skip, senders = int(request.query.get("cursor") or 0), [s.lower() for s in request.values("sender")]
        found = [m for m in self.messages if m["sender"] in senders and since <= m["at"] < until
                 and self.reached(self.after("trace_ms", m["at"]))]
        end = skip + self.behaviour["trace_page"]
        return {"messages": [{**m, "at": m["at"].isoformat()} for m in found[skip:end]], "next": str(end) if end < len(found) else ""}

    def control(self, method, names, sent):
        """Answers a control call about the tenant."""
        match method, *names:
            case ["GET"]:
                rules = [{"name": r["name"], "enabled": r["enabled"], "blocks": r["senders"] if r["enabled"] else []}
                         for r in map(_shown_rule, self.rules)]
                return {"consent": "granted" if self.consent_at else "none", "rules": rules}
            case "POST", "behaviour":
                self.behaviour.update(sent)
            case "POST", "rules":  # as an administrator does; a new rule does more than block senders
                rule = self._rule(sent["name"])
                form = rule["versions"][-1]["form"] if rule else "custom"
                self._set_rule(sent["name"], form, sent["enabled"], sent["senders"])
            case "POST", "revoke" if sent["what"] == "consent":
                self.consent_at = None
            case "POST", "revoke":
                self.role_at = None
            case _:
                return _missing("there is no such control call")
        return {}


def _missing(code):
    raise Refusal(404, code)


def _shown(domain):
    return {"default": False, **{name: domain[name] for name in ("name", "verified", "mail_enabled")}}


def _shown_mailbox(mailbox):
    return {**mailbox, "created": mailbox["created"].isoformat()}


def _shown_rule(rule):
    now = rule["versions"][-1]
    return {"id": rule["id"], "name": rule["name"], **{name: now[name] for name in ("form", "enabled", "senders")}}


def _record(kind, name, content, priority=0):
    return {"type": kind, "name": name, "content": content, "priority": priority, "ttl": 3600}


def _mail_records(domain):
    """Returns the records that a domain needs for mail at the platform."""
    return [_record("MX", domain, domain.replace(".", "-") + ".mx.mail.example", 10),
            _record("TXT", domain, "v=spf1 include:spf.mail.example -all")]


def _signing_records(domain):
    """Returns the records of both DKIM selectors."""
    return [_record("CNAME", f"{s}._domainkey.{domain}", f"{s}-{domain.replace('.', '-')}._domainkey.dkim.mail.example")
            for s in ("selector1", "selector2")]
