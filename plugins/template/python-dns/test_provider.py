# SPDX-License-Identifier: Apache-2.0
"""Tests of the provider against its simulator: python3 -m unittest"""

import json
import threading
import unittest
import urllib.request

import provider
import simulator
import tenantry_dns
from tenantry_plugin import Call, Connection, Outcome

ZONE = "customer.test"


def record_set(kind, *values, ttl=300):
    return {"name": ZONE, "type": kind, "ttl": ttl, "values": [v.encode() for v in values]}


class ProviderTest(unittest.TestCase):
    def setUp(self):
        server = simulator.Simulator(provider.DESCRIPTION["name"], 0, "")
        self.ready = server.ready
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.call = Call(lambda: 60.0, "request-1", [])
        self.provider = self.connect(simulator.TOKEN)
        self.control("PUT", f"/zones/{ZONE}")
        self.zone = self.provider.zone(self.call, ZONE)

    def connect(self, token):
        return provider.connect(Connection(self.ready["settings"], {"api_token": token}))

    def control(self, method, path, body=None):
        request = urllib.request.Request(self.ready["url"] + "/_control" + path, json.dumps(body or {}).encode(), method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def refused(self, kind, cause, do, *args):
        with self.assertRaises(Outcome) as raised:
            do(self.call, *args)
        self.assertEqual((raised.exception.kind, raised.exception.cause), (kind, cause))
        return raised.exception

    def test_a_set_is_created_replaced_and_removed(self):
        steps = [record_set("TXT"), record_set("TXT", "one"), record_set("TXT", "one", "two"), record_set("TXT")]
        for before, after in zip(steps, steps[1:]):
            self.assertEqual(self.provider.apply(self.call, self.zone, [(before, after)])[0]["values"], after["values"])
        self.assertEqual(self.provider.records(self.call, self.zone), [])

    def test_a_zone_that_changed_is_not_written(self):
        self.control("PUT", f"/zones/{ZONE}/sets", [{"name": ZONE, "type": "TXT", "ttl": 60, "values": ["by hand"]}])
        self.refused("refused", "zone_changed", self.provider.apply, self.zone, [(record_set("TXT"), record_set("TXT", "one"))])

    def test_a_cname_stays_alone(self):
        self.control("PUT", f"/zones/{ZONE}/sets", [{"name": ZONE, "type": "CNAME", "ttl": 60, "values": ["other.test"]}])
        self.refused("refused", "zone_changed", self.provider.apply, self.zone, [(record_set("TXT"), record_set("TXT", "one"))])

    def test_changes_outside_the_zone_are_refused(self):
        for name, kind in ((ZONE, "NS"), (ZONE, "SOA"), ("elsewhere.test", "TXT")):
            before = {"name": name, "type": kind, "ttl": 0, "values": []}
            change = (before, {**before, "ttl": 60, "values": [b"x"]})
            self.refused("refused", "change_not_allowed", self.provider.apply, self.zone, [change])

    def test_an_unknown_zone_and_a_wrong_token_are_refused(self):
        self.refused("refused", "zone_not_found", self.provider.zone, "unknown.test")
        self.assertEqual(self.refused("refused", "status 401", self.connect("guessed").check).code, "access_denied")

    def test_a_retry_after_holds_back_all_calls_of_the_token(self):
        # This test uses its own token, because a later simulator can have the same address.
        key = simulator.TOKEN + "-waiting"
        self.control("POST", "/faults", {"kind": "status", "status": 429, "retry_after": 3600, "times": 1})
        self.assertEqual(self.refused("throttled", "status 429", self.connect(key).check).retry_after, 3600)
        self.refused("throttled", "held_back", self.connect(key).check)
        self.assertEqual(self.connect(simulator.TOKEN + "-other").check(self.call), 1)

    def test_lost_answers_are_unknown(self):
        for kind in ("drop_before", "drop_after"):
            self.control("POST", "/faults", {"kind": kind, "times": 1, "writes_only": True})
            change = (record_set("TXT"), record_set("TXT", kind))
            self.refused("unknown", "connection_cut", self.provider.apply, self.zone, [change])
            self.control("PUT", f"/zones/{ZONE}/sets", [])

    def test_settings_and_secrets_are_checked(self):
        for settings, secrets in (({"api_url": "ftp://x"}, {"api_token": "t"}), ({"api_url": "https://x:port"}, {"api_token": "t"}),
                                  ({"api_url": "https://x"}, {}), ({"api_url": "https://x"}, {"api_token": "a\r\nb"})):
            with self.assertRaises(Outcome) as raised:
                provider.connect(Connection(settings, secrets))
            self.assertEqual(raised.exception.code, "invalid_request")

    def test_an_unreachable_provider_is_down(self):
        self.provider.url = "http://127.0.0.1:1"
        self.refused("down", "unreachable", self.provider.check)

    def test_other_hosts_are_not_called(self):
        for hosts in (["127.0.0.1"], ["*.0.0.1"]):
            self.call.hosts = hosts
            self.assertEqual(self.provider.check(self.call), 1)
        self.call.hosts = ["other.test", "*.other.test", ""]
        self.refused("broken", "host_not_named", self.provider.check)

    def test_find_ignores_case(self):
        self.assertEqual(tenantry_dns.find([record_set("TXT", "x")], ZONE.upper(), "TXT")["values"], [b"x"])


if __name__ == "__main__":
    unittest.main()
