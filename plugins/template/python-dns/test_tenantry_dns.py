# SPDX-License-Identifier: Apache-2.0
"""Tests of the files that all DNS providers share. Authors do not change this file."""

import threading
import unittest

import tenantry_dns
from tenantry_plugin import Call, Outcome, broken_answer, credential_refused, unknown_effect
from tenantry_zonefile import plain_name, quote_text, read_content, unquote_text, write_content

ZONE = {"id": "1", "name": "customer.test", "name_servers": [], "idle": ""}


def record_set(name, kind, *values, ttl=300):
    return {"name": name, "type": kind, "ttl": ttl, "values": [v.encode() for v in values]}


class ZoneFileTest(unittest.TestCase):
    def test_texts_are_quoted(self):
        for value, content in ((b"", '""'), (b"v=spf1 -all", '"v=spf1 -all"'), (b'a "b" \\ c', r'"a \"b\" \\ c"'),
                               (b"\x00\xff", r'"\000\255"'), (b"x" * 256, f'"{"x" * 255}" "x"'),
                               (b"x" * 250 + b" " + b"y" * 10, f'"{"x" * 250} " "{"y" * 10}"')):
            self.assertEqual(quote_text(value), content)
            self.assertEqual(unquote_text(content), value)

    def test_every_byte_comes_back(self):
        for value in (bytes(range(256)), bytes(reversed(range(256))) * 3, b'"' * 300, b"\\1" * 300, b" " * 600):
            self.assertEqual(unquote_text(quote_text(value)), value)
            self.assertTrue(quote_text(value).isascii())

    def test_the_forms_of_a_text_are_read(self):
        for content, value in (('"a" "b"', b"ab"), ('"a"\t"b"', b"ab"), ('"a""b"', b"ab"), ("bare text", b"bare text"), ("", b""),
                               (r'"a;b\; \065\\"', rb"a;b; A" + b"\\"), ('"é"', "é".encode())):
            self.assertEqual(unquote_text(content), value)

    def test_a_malformed_text_is_broken(self):
        for content in ('"open', '"a" b', '"\\', r'"\25"', r'"\256"', r'"\2x5"'):
            with self.assertRaises(Outcome, msg=content) as raised:
                unquote_text(content)
            self.assertEqual((raised.exception.kind, raised.exception.cause), ("broken", "malformed_text"))

    def test_contents_become_values_and_back(self):
        for kind, content, value in (("CNAME", "target.example.com.", b"target.example.com"), ("MX", "10 mail.example.com.", b"10 mail.example.com"),
                                     ("MX", "0 .", b"0 ."), ("NS", "ns.example.com.", b"ns.example.com"),
                                     ("TXT", '"a b"', b"a b"), ("A", "192.0.2.1", b"192.0.2.1")):
            self.assertEqual(read_content(kind, content), value)
            self.assertEqual(write_content(kind, value), content)
        self.assertEqual(read_content("MX", " 10  Mail.Customer.test"), b"10 mail.customer.test")
        with self.assertRaises(Outcome) as raised:
            read_content("MX", "mail.example.com.")
        self.assertEqual(raised.exception.kind, "broken")

    def test_plain_names(self):
        for name, plain in (("WWW.Customer.test.", "www.customer.test"), ("customer.test", "customer.test"), (".", ".")):
            self.assertEqual(plain_name(name), plain)


class OneZone:
    """A provider with one zone, which can only be read."""

    def __init__(self, sets=(), failure=None):
        self.sets, self.failure = list(sets), failure

    def records(self, _call, _zone):
        if self.failure:
            raise self.failure
        return self.sets


class ChangesTest(unittest.TestCase):
    def raised(self, do, *args):
        with self.assertRaises(Outcome) as raised:
            do(*args)
        return raised.exception.kind, raised.exception.cause

    def test_names_are_the_same_with_a_final_dot(self):
        held = record_set("WWW.customer.test.", "TXT", "x")
        self.assertEqual(tenantry_dns.find([held], "www.customer.test", "TXT"), held)
        change = (record_set("www.customer.test", "TXT", "x"), record_set("www.customer.test", "TXT", "x", "y"))
        tenantry_dns.check_changes("Customer.test.", [change])
        self.assertEqual(tenantry_dns.outstanding([held], [change]), [change[1]])
        alias = record_set("www.customer.test.", "CNAME", "other.test")
        self.assertEqual(self.raised(tenantry_dns.outstanding, [held, alias], [change]), ("refused", "zone_changed"))

    def test_changes_that_no_plan_contains_are_refused(self):
        for name, kind, values in (("customer.test", "NS", "x"), ("customer.test.", "SOA", "x"), ("elsewhere.test", "TXT", "x"),
                                   ("notcustomer.test", "TXT", "x"), ("customer.test", "txt", "x"), ("customer.test", "", "x"),
                                   ("www.customer.test", "CNAME", "xy")):
            change = (record_set(name, kind), record_set(name, kind, *values))
            self.assertEqual(self.raised(tenantry_dns.check_changes, "customer.test", [change]), ("refused", "change_not_allowed"))
        twice = [(record_set("customer.test", "TXT"), record_set("customer.test" + dot, "TXT", "x")) for dot in ("", ".")]
        self.assertEqual(self.raised(tenantry_dns.check_changes, "customer.test", twice), ("refused", "change_not_allowed"))

    def test_a_change_keeps_its_ttl(self):
        held = record_set("customer.test", "TXT", "a", ttl=7200)
        before, after = record_set("customer.test", "TXT", "a", ttl=60), record_set("customer.test", "TXT", "b", ttl=60)
        self.assertEqual(tenantry_dns.outstanding([held], [(before, after)])[0]["ttl"], 7200)
        self.assertEqual(tenantry_dns.outstanding([held], [(before, {**after, "ttl": 300})])[0]["ttl"], 300)

    def test_a_change_ends_proxying(self):
        plain = record_set("www.customer.test", "CNAME", "other.test")
        veiled = {**plain, "veiled": True}
        self.assertEqual(tenantry_dns.outstanding([veiled], [(veiled, plain)]), [plain])
        for held, before, after in ((plain, veiled, plain), (veiled, veiled, veiled), (veiled, plain, plain)):
            self.assertEqual(tenantry_dns.outstanding([held], [(before, after)]), [])

    def test_a_zone_is_read_after_a_write(self):
        written = record_set("a.customer.test", "TXT", "x")
        self.assertEqual(tenantry_dns.read_back(OneZone([written]), None, ZONE, [written]), [written])
        for provider, outcome in ((OneZone(), ("broken", "missing_after_write")),
                                  (OneZone(failure=credential_refused("x")), ("unknown", "not_read_back")),
                                  (OneZone(failure=Outcome("throttled", "x", "")), ("unknown", "not_read_back")),
                                  (OneZone(failure=unknown_effect("x")), ("unknown", "x")),
                                  (OneZone(failure=broken_answer("x")), ("broken", "x"))):
            self.assertEqual(self.raised(tenantry_dns.read_back, provider, None, ZONE, [written]), outcome)

    def test_an_overlap_is_reported(self):
        overlapped = tenantry_dns.overlapped()
        self.assertEqual((overlapped.kind, overlapped.cause), ("broken", "zone_changed_during_write"))

    def test_one_writer_follows_the_other(self):
        long_call, short_call = Call(lambda: 60.0, "1", []), Call(lambda: 0.01, "2", [])
        events = []

        def write():
            with tenantry_dns.hold(long_call, "zone"):
                events.append("second")

        with tenantry_dns.hold(long_call, "zone"):
            second = threading.Thread(target=write)
            second.start()
            with self.assertRaises(Outcome) as raised, tenantry_dns.hold(short_call, "zone"):
                self.fail("two calls hold the lock")
            self.assertEqual((raised.exception.kind, raised.exception.cause), ("unknown", "no_answer"))
            events.append("first")
        second.join()
        self.assertEqual(events, ["first", "second"])
        with self.assertRaises(KeyError), tenantry_dns.hold(short_call, "zone"):
            raise KeyError  # releases the lock
        with tenantry_dns.hold(short_call, "zone"):
            pass


if __name__ == "__main__":
    unittest.main()
