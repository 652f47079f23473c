# SPDX-License-Identifier: Apache-2.0
"""Tests of the files that the plugins of all kinds share. Authors do not change this file."""

import email.utils
import http.server
import threading
import time
import unittest

import tenantry_http
import tenantry_plugin
from tenantry_plugin import Call, Connection, Outcome


class Context:
    """The context of a gRPC call, of which only the deadline is used."""

    def __init__(self, left):
        self.time_remaining = lambda: left


class HostsTest(unittest.TestCase):
    def test_the_host_of_a_value(self):
        for value, host in (("https://API.Acme.com:8443/v1?x=1", "api.acme.com"), ("http://[2001:db8::1]:80/", "2001:db8::1"),
                            ("2001:db8::1", "2001:db8::1"), ("192.0.2.1:53", "192.0.2.1"), (" acme.com:443 ", "acme.com"), ("*.Acme.com", "*.acme.com"),
                            ("https://acme.com#token@other.test", "acme.com"), ("https://user:secret@acme.com", "acme.com"),
                            ("", ""), ("http://[", ""), ("https://", "")):
            self.assertEqual(tenantry_plugin._host_in(value), host)

    def test_a_field_in_braces_stands_for_its_host(self):
        connection = Connection({"api_url": "https://one.acme.com/v1", "server": "ns.acme.com:53", "pattern": "https://*.com/v1"},
                                {"instance": "https://two.acme.com/#key", "api_token": "token.acme.com"})
        named = ["Fixed.acme.com", "{api_url}", "{server}", "{instance}", "{api_token}", "{missing}", "{pattern}"]
        self.assertEqual(tenantry_plugin._hosts(named, connection), ["fixed.acme.com", "one.acme.com", "ns.acme.com", "two.acme.com", "", "", ""])
        self.assertEqual(tenantry_plugin._hosts([], connection), [])  # does not limit the hosts


class URLTest(unittest.TestCase):
    def test_the_urls_of_settings(self):
        for text in ("https://api.acme.com", "http://127.0.0.1:8080/v1", "https://[2001:db8::1]:8443/"):
            self.assertTrue(tenantry_http.is_url(text), text)
        for text in ("", "api.acme.com", "ftp://api.acme.com", "https://", "https://user@api.acme.com", "https://api.acme.com:port",
                     "https://api.acme.com:65536", "https://api.acme.com:0", "https://api.acme.com:-1", "https://[2001:db8::1"):
            self.assertFalse(tenantry_http.is_url(text), text)


class DeadlineTest(unittest.TestCase):
    def test_the_time_of_a_call(self):
        # grpcio returns a number of many years for a call without a deadline.
        for left, seconds in ((None, 60.0), (9.2e18, 60.0), (20.0, 20.0), (0.0, 0.0)):
            self.assertEqual(tenantry_plugin._time_left(Context(left)), seconds)

    def test_no_request_is_sent_after_the_deadline(self):
        for left in (0.0, -1.0):
            with self.assertRaises(Outcome) as raised:  # the port is closed, so a request would be down
                tenantry_http.request(Call(lambda: left, "", []), "scope", "GET", "http://127.0.0.1:1/", {})
            self.assertEqual((raised.exception.kind, raised.exception.cause), ("unknown", "no_answer"))

    def test_an_answer_after_the_deadline_is_unknown(self):
        release = threading.Event()

        class Waiting(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                release.wait(60)

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Waiting)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.addCleanup(release.set)
        began = time.monotonic()
        with self.assertRaises(Outcome) as raised:
            url = f"http://127.0.0.1:{server.server_address[1]}/"
            tenantry_http.request(Call(lambda: 0.2, "", []), "scope", "GET", url, {})
        self.assertEqual((raised.exception.kind, raised.exception.cause), ("unknown", "no_answer"))
        self.assertLess(time.monotonic() - began, 30)

    def test_a_retry_after_is_a_number_or_a_date(self):
        for text, seconds in (("7", 7.0), ("0", 0.0), ("", 0.0), ("-5", 0.0), ("soon", 0.0), ("²", 0.0),
                              ("86400", 3600.0), ("9" * 400, 3600.0),
                              (email.utils.formatdate(time.time() - 60, usegmt=True), 0.0),
                              (email.utils.formatdate(time.time() + 90000, usegmt=True), 3600.0)):
            self.assertEqual(tenantry_http._retry_after(text), seconds, text)
        soon = tenantry_http._retry_after(email.utils.formatdate(time.time() + 600, usegmt=True))
        self.assertTrue(500 < soon <= 600, soon)


if __name__ == "__main__":
    unittest.main()
