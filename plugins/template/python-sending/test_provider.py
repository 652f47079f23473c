# SPDX-License-Identifier: Apache-2.0
"""Tests of the provider against its simulator: python3 -m unittest"""

import json
import tempfile
import threading
import unittest
import urllib.error
import urllib.parse
import urllib.request

import provider
import simulator
import tenantry_sending
from tenantry_plugin import Call, Connection, Outcome

ANNA = "anna.king@customer.test"


class ProviderTest(unittest.TestCase):
    def setUp(self):
        self.start()

    def start(self, folder=None):
        server = simulator.Simulator(provider.DESCRIPTION["name"], 0, "")
        if folder:
            server.keep(folder)
        self.ready = server.ready
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.call = Call(lambda: 60.0, "request-1", [])
        self.platform = self.connect(simulator.KEY)

    def connect(self, key, **settings):
        return provider.connect(Connection(self.ready["settings"] | settings, {"api_key": key}))

    def control(self, method, path, body=None):
        request = urllib.request.Request(self.ready["url"] + "/_control" + path, json.dumps(body or {}).encode(), method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def decide(self, url, address, decision):
        """Submits the page behind a link, and returns the status."""
        form = urllib.parse.urlencode({"username": address, "decision": decision}).encode()
        try:
            with urllib.request.urlopen(url, form, timeout=60) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def refused(self, kind, cause, do, *args):
        with self.assertRaises(Outcome) as raised:
            do(self.call, *args)
        self.assertEqual((raised.exception.kind, raised.exception.cause), (kind, cause))
        return raised.exception

    def test_a_person_signs_in_once(self):
        session, url, _ = self.platform.start_sign_in(self.call, ANNA)
        self.assertEqual(self.platform.sign_in(self.call, session), {"state": "pending"})
        self.assertEqual(self.decide(url, "no address", "accept"), 400)
        self.assertEqual(self.decide(url, ANNA, "accept"), 200)
        self.assertEqual(self.decide(url, "bob@customer.test", "accept"), 400)
        self.assertEqual(self.platform.sign_in(self.call, session), {"state": "succeeded", "address": ANNA})
        account = self.platform.account(self.call, ANNA.upper())
        self.assertEqual((account["state"], account["name"]), ("connected", "Anna King"))
        self.assertIsNone(self.platform.account(self.call, "bob@customer.test"))

    def test_the_simulator_keeps_its_state(self):
        with tempfile.TemporaryDirectory() as folder:
            self.start(folder)
            session, url, _ = self.platform.start_sign_in(self.call, ANNA)
            self.decide(url, ANNA, "accept")
            self.start(folder)
            self.assertEqual(self.platform.account(self.call, ANNA)["state"], "connected")
            self.assertEqual(self.platform.sign_in(self.call, session)["state"], "succeeded")

    def test_a_second_sign_in_changes_the_stamp(self):
        stamps = []
        for _ in range(2):
            _, url, _ = self.platform.start_sign_in(self.call, ANNA)
            self.decide(url, ANNA, "accept")
            stamps.append(self.platform.account(self.call, ANNA)["stamp"])
        self.assertNotEqual(*stamps)

    def test_sessions_end_without_a_sign_in(self):
        session, url, _ = self.platform.start_sign_in(self.call, ANNA)
        self.decide(url, "", "deny")
        self.assertEqual(self.platform.sign_in(self.call, session), {"state": "failed", "reason": "access_denied"})
        session, url, until = self.platform.start_sign_in(self.call, ANNA)
        self.control("POST", "/clock", {"now": until.isoformat()})
        self.assertEqual(self.decide(url, ANNA, "accept"), 400)
        for ended in (session, "unknown"):
            self.assertEqual(self.platform.sign_in(self.call, ended), {"state": "expired"})

    def test_states_of_accounts(self):
        for state, want in (("ok", ("connected", False)), ("failed", ("failed", True)), ("new", ("other", False))):
            self.control("PUT", f"/accounts/{ANNA}", {"state": state})
            account = self.platform.account(self.call, ANNA)
            self.assertEqual((account["state"], account["has_error"]), want)

    def test_an_account_is_on_a_second_page(self):
        for n in range(simulator.PAGE_SIZE):
            self.control("PUT", f"/accounts/n{n}-{ANNA}")
        self.control("PUT", f"/accounts/{ANNA}")
        self.assertEqual(self.platform.account(self.call, ANNA)["address"], ANNA)

    def test_pages_have_all_accounts(self):
        for n in range(simulator.PAGE_SIZE + 1):
            self.control("PUT", f"/accounts/user{n}@customer.test")
        first, cursor = self.platform.accounts(self.call, "")
        second, end = self.platform.accounts(self.call, cursor)
        self.assertEqual((len({a["id"] for a in first + second}), len(second), end), (simulator.PAGE_SIZE + 1, 1, ""))

    def test_an_account_is_removed_once_or_twice(self):
        self.control("PUT", f"/accounts/{ANNA}")
        account = self.platform.account(self.call, ANNA)["id"]
        for _ in range(2):
            self.platform.remove(self.call, account)
        self.assertIsNone(self.platform.account(self.call, ANNA))

    def test_keys_and_workspaces(self):
        both = [{"id": "ws-1", "name": "One"}, {"id": "ws-2", "name": "Two"}]
        self.control("PUT", "/keys/of-two", {"workspaces": both})
        self.assertEqual(self.connect("of-two", workspace_id="ws-2").check(self.call), both)
        self.refused("refused", "status 403", self.connect("of-two", workspace_id="ws-3").check)
        self.assertEqual(self.refused("refused", "status 401", self.connect("guessed").check).code, "access_denied")
        self.control("PUT", "/keys/of-two", {"workspaces": both, "unpaid": True})
        self.refused("refused", "plan_inactive", self.connect("of-two").check)

    def test_links_to_other_hosts_are_not_returned(self):
        self.platform.auth_hosts = ["login.microsoftonline.com"]
        self.refused("broken", "no_link_to_an_allowed_host", self.platform.start_sign_in, ANNA)
        for url, allowed in (("https://login.test/a", True), ("http://127.0.0.1:80/a", True), ("http://login.test/a", False),
                             ("https://login.test.evil.test/a", False), ("https://login.test@evil.test/a", False),
                             ("https://login.test:444/a", False), ("login.test", False), ("https://[login.test/a", False)):
            self.assertEqual(tenantry_sending.sign_in_link(url, ["login.test", "127.0.0.1:80"]), allowed, url)

    def test_a_retry_after_holds_back_all_calls_of_the_key(self):
        # This test uses its own key, because a later simulator can have the same address.
        key = simulator.KEY + "-waiting"
        self.control("POST", "/faults", {"kind": "status", "status": 429, "retry_after": 3600, "times": 1})
        self.assertEqual(self.refused("throttled", "status 429", self.connect(key).check).retry_after, 3600)
        self.refused("throttled", "held_back", self.connect(key).check)
        self.refused("refused", "status 401", self.connect("guessed").check)

    def test_lost_answers_are_unknown(self):
        self.control("PUT", f"/accounts/{ANNA}")
        for kind in ("drop_before", "drop_after"):
            self.control("POST", "/faults", {"kind": kind, "times": 1})
            self.refused("unknown", "connection_cut", self.platform.remove, ANNA)
        self.assertIsNone(self.platform.account(self.call, ANNA))

    def test_settings_and_secrets_are_checked(self):
        for settings, secrets in (({"base_url": "ftp://x"}, {"api_key": "k"}), ({"base_url": "https://x:port"}, {"api_key": "k"}),
                                  ({"base_url": "https://x"}, {}), ({"base_url": "https://x"}, {"api_key": "a\r\nb"})):
            with self.assertRaises(Outcome) as raised:
                provider.connect(Connection(settings, secrets))
            self.assertEqual(raised.exception.code, "invalid_request")
        for workspace in ("a\nb", "日本"):  # not valid in a header
            with self.assertRaises(Outcome) as raised:
                self.connect(simulator.KEY, workspace_id=workspace).check(self.call)
            self.assertEqual((raised.exception.code, raised.exception.cause), ("invalid_request", "setting workspace_id"))


if __name__ == "__main__":
    unittest.main()
