# SPDX-License-Identifier: Apache-2.0
"""Tests of the provider against its simulator: python3 -m unittest"""

import datetime
import json
import tempfile
import threading
import unittest
import urllib.error
import urllib.parse
import urllib.request

import provider
import simulator
import tenantry_mail
from tenantry_plugin import Call, Connection, Outcome

REDIRECT = "http://127.0.0.1:8080/connect/example/callback"
NOW = datetime.datetime.now(datetime.timezone.utc)


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


class ProviderTest(unittest.TestCase):
    def setUp(self):
        self.start()
        made = self.control("POST", "/tenants", {"name": "Ann"})
        self.id, self.admin = made["tenant_id"], made["admin"]
        self.tenant = self.platform.tenant(self.call, self.id)

    def start(self, folder=None):
        server = simulator.Simulator(provider.DESCRIPTION["name"], 0, "")
        if folder:
            server.keep(folder)
        self.ready = server.ready
        self.records = []  # of the DNS
        server.published = lambda record: record in self.records
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.call = Call(lambda: 60.0, "request-1", [])
        self.platform = self.connect(simulator.TOKEN)

    def connect(self, token):
        return provider.connect(Connection(self.ready["settings"], {"api_token": token}))

    def control(self, method, path, body=None):
        data = None if method == "GET" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.ready["url"] + "/_control" + path, data, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def visit(self, page, username, decision="accept"):
        """Submits the form of a page, and returns the query of the redirect."""
        form = urllib.parse.urlencode({"username": username, "decision": decision}).encode()
        with self.assertRaises(urllib.error.HTTPError) as redirect:
            urllib.request.build_opener(NoRedirect).open(page, form, timeout=60)
        return urllib.parse.urlsplit(redirect.exception.headers["Location"]).query

    def refused(self, kind, cause, code, do, *args):
        with self.assertRaises(Outcome) as raised:
            do(*args)
        self.assertEqual((raised.exception.kind, raised.exception.cause, raised.exception.code), (kind, cause, code))

    def consent(self):
        self.visit(self.platform.consent_url("state", REDIRECT), self.admin)

    def prepare(self, name="customer.test"):
        """Makes the tenant ready for mailboxes of a domain."""
        self.consent()
        self.assertEqual(self.tenant.bootstrap()["status"], "ready")
        self.tenant.add_domain(name)
        proof = self.tenant.records(name)["verification"][0]
        self.records.append({**{n: proof[n] for n in ("type", "name", "content", "ttl")}, "priority": proof["preference"]})
        self.assertTrue(self.tenant.verify_domain(name)["verified"])
        self.tenant.enable_mail(name)

    def test_the_consent_is_a_claim_of_a_tenant(self):
        page = self.platform.consent_url("state", REDIRECT)
        self.refused("refused", "denied", "consent_declined", self.platform.granted, self.visit(page, self.admin, "deny"))
        self.refused("refused", "no_consent", "access_denied", self.tenant.profile)
        self.assertEqual(self.platform.granted(self.visit(page, self.admin)), self.id)
        self.assertEqual(self.tenant.profile()["name"], "Ann")
        for query in ("", "state=s", f"tenant={self.id}", f"state=s&tenant={self.id}x"):
            self.refused("refused", "callback", "invalid_request", self.platform.granted, query)

    def test_only_the_administrator_of_the_link_signs_in(self):
        sign_in = {"tenant": self.id, "state": "s", "nonce": "n", "verifier": "the-verifier", "redirect": REDIRECT}

        def code(username):
            return dict(urllib.parse.parse_qsl(self.visit(self.platform.sign_in_url(sign_in), username)))["code"]

        def redeem(code, **changes):
            return self.platform.administrator(self.call, {**sign_in, **changes}, code)

        self.assertNotIn("the-verifier", self.platform.sign_in_url(sign_in))
        once = code(self.admin)
        self.assertEqual(redeem(once)["address"], self.admin)
        self.refused("refused", "login_refused", "connect_link_invalid", redeem, once)
        for changes in ({"nonce": "m"}, {"tenant": "other"}):
            self.refused("refused", "other_login", "connect_link_invalid", lambda: redeem(code(self.admin), **changes))
        self.refused("refused", "login_refused", "connect_link_invalid", lambda: redeem(code(self.admin), verifier="w"))
        self.refused("refused", "role", "not_an_administrator", lambda: redeem(code("member@customer.test")))

    def test_the_simulator_keeps_its_state(self):
        with tempfile.TemporaryDirectory() as folder:
            self.start(folder)
            made = self.control("POST", "/tenants", {"name": "Ann"})
            self.visit(self.platform.consent_url("state", REDIRECT), made["admin"])
            self.start(folder)
            tenant = self.platform.tenant(self.call, made["tenant_id"])
            self.assertEqual(tenant.profile()["name"], "Ann")
            self.assertEqual(tenant.bootstrap()["status"], "ready")

    def test_a_domain_is_proven_in_the_dns(self):
        self.consent()
        self.assertFalse(self.tenant.add_domain("customer.test")["verified"])
        self.refused("refused", "domain_not_proven", "verification_failed", self.tenant.verify_domain, "customer.test")
        self.refused("refused", "domain_not_verified", "domain_not_verified", self.tenant.enable_mail, "customer.test")
        for _ in range(2):
            self.tenant.remove_domain("customer.test")
        self.refused("refused", "no_domain", "domain_not_found", self.tenant.domain, "customer.test")

    def test_the_role_comes_before_the_mail_server(self):
        self.consent()
        self.refused("refused", "no_role", "access_denied", self.tenant.mailboxes)
        self.control("POST", f"/tenants/{self.id}/behaviour", {"role_ms": 60000})
        self.assertEqual(self.tenant.bootstrap()["step"], "wait")
        self.control("POST", "/clock", {"advance": "1m0s"})
        self.assertEqual(self.tenant.bootstrap()["status"], "ready")

    def test_mail_is_signed(self):
        self.prepare()
        self.assertIsNone(self.tenant.signing("customer.test"))
        signing = self.tenant.ensure_signing("customer.test")
        self.refused("refused", "signing_records_missing", "dkim_not_ready", self.tenant.enable_signing, "customer.test")
        for record in (signing["selector1"], signing["selector2"]):
            self.records.append({**{n: record[n] for n in ("type", "name", "content", "ttl")}, "priority": 0})
        self.tenant.enable_signing("customer.test")
        self.assertTrue(self.tenant.signing("customer.test")["enabled"])

    def test_a_mailbox_from_its_creation_to_its_removal(self):
        self.prepare()
        self.control("POST", f"/tenants/{self.id}/behaviour", {"mailbox_ms": 60000})
        made = self.tenant.create_mailbox("Anna", "anna@customer.test")
        self.refused("refused", "address_taken", "invalid_mailbox_email", self.tenant.create_mailbox, "Anna", "anna@customer.test")
        self.refused("not_ready", "not_ready", "", self.tenant.open_submission, "anna@customer.test")
        self.control("POST", "/clock", {"advance": "1m0s"})
        self.refused("refused", "password_weak", "weak_password", self.tenant.open_sign_in, made["object_id"], made["address"], "short")
        self.tenant.open_sign_in(made["object_id"], made["address"], "long enough")
        self.tenant.rename("ANNA@customer.test", "Anna King")
        found, = self.tenant.mailboxes()
        self.assertEqual((found["display_name"], found["principal_name"], found["account_enabled"]), ("Anna King", made["address"], True))
        self.refused("refused", "domain_used", "domain_in_use", self.tenant.remove_domain, "customer.test")
        for _ in range(2):
            self.tenant.remove_mailbox(made["object_id"])
        self.refused("refused", "no_mailbox", "mailbox_not_found", self.tenant.mailbox, "anna@customer.test")

    def test_a_rule_blocks_its_list(self):
        self.prepare()
        anna = "anna@customer.test"
        self.tenant.create_mailbox("Anna", anna)
        self.assertIsNone(self.tenant.ensure_rule("customer.test", []))
        self.assertFalse(self.tenant.ensure_rule("customer.test", [anna])["enabled"])
        for written in (True, False):
            self.assertEqual(self.tenant.block("customer.test", [anna]).get("written", False), written)
        self.control("POST", "/messages", {"mailbox": anna, "count": 1})
        self.tenant.block("customer.test", [])
        self.control("POST", "/messages", {"mailbox": anna, "count": 2})
        sent, following = self.tenant.sent(NOW - datetime.timedelta(hours=1), NOW + datetime.timedelta(hours=1), "", [anna])
        self.assertEqual(([m["refused"] for m in sent], following), ([True, False, False], ""))
        self.tenant.remove_rules()
        self.assertEqual(self.tenant.rules(), [])

    def test_a_foreign_rule_is_not_managed(self):
        self.prepare()
        for name, managed in (("tenantry-block-other", False), ("Tenantry-Block-Customer.test", True)):
            self.control("POST", f"/tenants/{self.id}/rules", {"name": name, "enabled": True, "senders": []})
            self.assertEqual(tenantry_mail.is_rule_name(name), managed)
        rule, = self.tenant.rules()
        self.assertTrue(rule["altered"])
        self.assertFalse(self.tenant.ensure_rule("customer.test", ["anna@customer.test"])["enabled"])

    def test_names_of_rules(self):
        long = "long-" * 12 + "customer.test"
        names = {tenantry_mail.rule_name(scope) for scope in ("", "Customer.test", long, long + "s")}
        self.assertEqual(len(names), 4)
        for name in names:
            self.assertTrue(len(name) <= 64 and tenantry_mail.is_rule_name(name), name)

    def test_a_wrong_token_and_lost_answers(self):
        self.refused("refused", "status 401", "access_denied", self.connect("guessed").check, self.call)
        self.consent()
        self.control("POST", "/faults", {"kind": "drop_after", "times": 1, "writes_only": True})
        self.tenant.domains()  # a read does not meet the fault
        self.refused("unknown", "connection_cut", "", self.tenant.add_domain, "customer.test")
        self.assertEqual(len(self.tenant.domains()), 1)

    def test_settings_and_secrets_are_checked(self):
        full = {"api_url": "https://x", "login_url": "https://x"}
        for settings, secrets in (({**full, "api_url": "ftp://x"}, {"api_token": "t"}), ({**full, "login_url": ""}, {"api_token": "t"}),
                                  ({**full, "login_url": "https://x:port"}, {"api_token": "t"}), (full, {}), (full, {"api_token": "a\r\nb"})):
            with self.assertRaises(Outcome) as raised:
                provider.connect(Connection(settings, secrets))
            self.assertEqual(raised.exception.code, "invalid_request")


if __name__ == "__main__":
    unittest.main()
