// SPDX-License-Identifier: Apache-2.0

package webhookhttp

import (
	"context"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/webhook"
)

// forbiddenURLs are URLs that the service must not call. The names below .test are in records, or
// do not exist.
var forbiddenURLs = []string{
	// other schemes and forms
	"", "hooks.example.test", "//hooks.example.test/", "https://", "https:///path", "https:hooks.example.test", "ftp://hooks.example.test/",
	"file:///etc/passwd", "gopher://hooks.example.test/", "http://hooks.example.test/", "HTTP://hooks.example.test/", "unix:///run/x.sock",
	"https://user@hooks.example.test/", "https://user:secret@hooks.example.test/", "https://hooks.example.test:0/", "https://hooks.example.test:65536/",
	"https://hooks.example.test:x/", "https://hooks.example.test/#fragment", "https://hooks.example.test/ x", "https://hooks.example.test/\r\nX: y",
	"https://hooks.example.test\t/", "https://h\u00f6\u00f6ks.example.test/", "https://hooks.example.test/" + strings.Repeat("x", webhook.MaxURL),
	// addresses
	"https://127.0.0.1/", "https://127.1.2.3:8443/", "https://0.0.0.0/", "https://10.0.0.1/", "https://172.16.0.1/", "https://172.31.255.254/",
	"https://192.168.1.1/", "https://169.254.169.254/latest/meta-data/", "https://100.64.0.1/", "https://192.0.0.8/", "https://192.0.2.1/",
	"https://198.18.0.1/", "https://198.51.100.7/", "https://203.0.113.7/", "https://192.88.99.1/", "https://224.0.0.1/", "https://239.255.255.250/",
	"https://240.0.0.1/", "https://255.255.255.255/", "https://192.31.196.1/", "https://192.175.48.1/",
	"https://[::]/", "https://[::1]/", "https://[::1]:8443/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:10.0.0.1]/", "https://[::127.0.0.1]/",
	"https://[64:ff9b::7f00:1]/", "https://[64:ff9b::a9fe:a9fe]/", "https://[100::1]/", "https://[2001::1]/", "https://[2001:db8::1]/",
	"https://[2002:7f00:1::]/", "https://[3fff::1]/", "https://[fc00::1]/", "https://[fd12:3456::1]/", "https://[fe80::1]/", "https://[fe80::1%25eth0]/",
	"https://[ff02::1]/", "https://[fec0::1]/",
	// other spellings of addresses
	"https://127.1/", "https://2130706433/", "https://0x7f000001/", "https://0177.0.0.1/", "https://%31%32%37.0.0.1/", "https://127.0.0.1./",
	// names
	"https://localhost/", "https://LOCALHOST/", "https://localhost./", "https://private.test/", "https://private6.test/", "https://mapped.test/",
	"https://mixed.test/", "https://metadata.test/", "https://unknown.test/", "https://nothing.test/",
}

// records holds the addresses that lookupRecord returns.
var records = map[string][]string{
	"hooks.example.test.": {"93.184.216.34"}, "both.test.": {"93.184.216.34", "2606:2800:220:1::1"}, "private.test.": {"10.0.0.1"}, "private6.test.": {"fd00::1"},
	"mapped.test.": {"::ffff:127.0.0.1"}, "mixed.test.": {"93.184.216.34", "192.168.0.1"}, "metadata.test.": {"169.254.169.254"}, "nothing.test.": {},
}

// lookupRecord returns the addresses of a name in records, and whether the name exists.
func lookupRecord(name string) ([]string, bool) {
	addresses, exists := records[name]
	return addresses, exists
}

// newResolver returns a resolver that answers with the results of lookup. The second result of
// lookup says whether the name exists.
func newResolver(t *testing.T, lookup func(name string) ([]string, bool)) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			if reply := dnsAnswer(buffer[:n], lookup); reply != nil {
				_, _ = server.WriteTo(reply, from)
			}
		}
	})
	t.Cleanup(func() { _ = server.Close(); serving.Wait() })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

func dnsAnswer(query []byte, lookup func(string) ([]string, bool)) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	addresses, exists := lookup(strings.ToLower(q.Name.String()))
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}, Questions: m.Questions}
	if !exists {
		reply.RCode = dnsmessage.RCodeNameError
	}
	for _, text := range addresses {
		a := netip.MustParseAddr(text)
		header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
		switch {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: a.As4()}})
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	packed, err := reply.Pack()
	if err != nil {
		return nil
	}
	binary.BigEndian.PutUint16(packed, m.ID)
	return packed
}

// TestForbiddenURLsAreRefused checks that CheckURL refuses each URL. It also sends messages to the
// URLs, because the check of the connection must not depend on the first check. The error must be
// the sender's own refusal, or that the host does not resolve. Nothing listens on most of these
// addresses, so a different error would prove nothing.
func TestForbiddenURLsAreRefused(t *testing.T) {
	if len(forbiddenURLs) < 60 {
		t.Fatalf("only %d URLs", len(forbiddenURLs))
	}
	s := New(Options{Resolver: newResolver(t, lookupRecord)})
	for _, raw := range forbiddenURLs {
		if err := s.CheckURL(t.Context(), raw); !errors.Is(err, fault.InvalidWebhookURL) {
			t.Errorf("%q: %v", raw, err)
		}
		if raw == "https://mixed.test/" {
			continue // this name also has a public address, which a test must not contact
		}
		if r := s.Send(t.Context(), webhook.Message{URL: raw}); r.Error != errForbidden.Error() && r.Error != "the host does not resolve" {
			t.Errorf("%q was not refused by the sender: %+v", raw, r)
		}
	}
	for _, raw := range []string{"https://hooks.example.test/in?token=x", "https://both.test:8443/", "https://93.184.216.34/", "https://[2606:2800:220:1::1]/"} {
		if err := s.CheckURL(t.Context(), raw); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

func TestAPrivateNetworkCanBeAllowed(t *testing.T) {
	s := New(Options{Resolver: newResolver(t, lookupRecord), AllowPrivate: true})
	for raw, allowed := range map[string]bool{
		"https://private.test/": true, "https://127.0.0.1/": true, "http://127.0.0.1:8080/": true, "http://[::1]/": true, "http://localhost/": true,
		"http://private.test/": false, "http://hooks.example.test/": false, "http://mixed.test/": false, "http://u@127.0.0.1/": false, "ftp://127.0.0.1/": false,
	} {
		if err := s.CheckURL(t.Context(), raw); (err == nil) != allowed || err != nil && !errors.Is(err, fault.InvalidWebhookURL) {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

// startEndpoint starts an HTTPS server. It returns the server's URL and a pool with its
// certificate.
func startEndpoint(t *testing.T, handle http.HandlerFunc) (serverURL string, roots *x509.CertPool) {
	t.Helper()
	server := httptest.NewTLSServer(handle)
	t.Cleanup(server.Close)
	roots = x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return server.URL, roots
}

// TestTheConnectionIsChecked covers a host that resolves to a public address when its URL is
// checked, and to a private address when a message is sent. The host must get no connection.
func TestTheConnectionIsChecked(t *testing.T) {
	for _, a := range []struct{ public, private string }{{"93.184.216.34", "127.0.0.1"}, {"2606:2800:220:1::1", "::1"}} {
		t.Run(a.private, func(t *testing.T) {
			listener, err := net.Listen("tcp", net.JoinHostPort(a.private, "0"))
			if err != nil {
				t.Fatal(err)
			}
			var connections, queries atomic.Int64
			var accepting sync.WaitGroup
			accepting.Go(func() {
				for {
					c, err := listener.Accept()
					if err != nil {
						return
					}
					connections.Add(1)
					_ = c.Close()
				}
			})
			var rebound atomic.Bool
			s := New(Options{Resolver: newResolver(t, func(string) ([]string, bool) {
				if !rebound.Load() {
					return []string{a.public}, true
				}
				queries.Add(1)
				return []string{a.private}, true
			})})
			_, port, _ := net.SplitHostPort(listener.Addr().String())
			target := "https://endpoint.test:" + port + "/"
			if err := s.CheckURL(t.Context(), target); err != nil {
				t.Fatalf("the public address: %v", err)
			}
			rebound.Store(true)
			r := s.Send(t.Context(), webhook.Message{URL: target})
			_ = listener.Close()
			accepting.Wait()
			if queries.Load() == 0 || connections.Load() != 0 || r.Error != errForbidden.Error() || r.StatusCode != 0 {
				t.Errorf("%d queries, %d connections, %+v", queries.Load(), connections.Load(), r)
			}
		})
	}
}

func TestMessagesAreSent(t *testing.T) {
	var got *http.Request
	var body []byte
	redirected := 0
	serverURL, roots := startEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/in":
			got = r
			body, _ = io.ReadAll(r.Body)
			w.WriteHeader(http.StatusAccepted)
			_, _ = fmt.Fprint(w, strings.Repeat("secret ", 10000))
		case "/moved":
			http.Redirect(w, r, "/target", http.StatusTemporaryRedirect)
		case "/target":
			redirected++
		case "/busy":
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	sender := New(Options{AllowPrivate: true, Roots: roots})
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1") // the sender must ignore it
	sent := webhook.Message{URL: serverURL + "/in?a=b", ID: "id", Timestamp: time.Unix(1700000000, 0), Signature: "v1,x v1,y", Body: []byte(`{"a":1}`)}
	if r := sender.Send(t.Context(), sent); !r.Accepted() || r.StatusCode != 202 || r.Duration <= 0 {
		t.Fatalf("the response is %+v, want an accepted one with 202 and a duration", r)
	}
	for name, want := range map[string]string{"webhook-id": "id", "webhook-timestamp": "1700000000", "webhook-signature": "v1,x v1,y",
		"content-type": "application/json", "user-agent": "tenantry-webhooks", "authorization": "", "traceparent": ""} {
		if got.Header.Get(name) != want {
			t.Errorf("%s is %q", name, got.Header.Get(name))
		}
	}
	if got.Method != http.MethodPost || string(body) != `{"a":1}` || got.URL.RawQuery != "a=b" {
		t.Errorf("%s %s %s", got.Method, got.URL, body)
	}
	if r := sender.Send(t.Context(), webhook.Message{URL: serverURL + "/moved"}); r.StatusCode != 307 || r.Accepted() || redirected != 0 {
		t.Errorf("a redirect: %+v, followed %d times", r, redirected)
	}
	if r := sender.Send(t.Context(), webhook.Message{URL: serverURL + "/busy"}); r.StatusCode != 429 || r.RetryAfter != 2*time.Minute {
		t.Errorf("a busy endpoint: %+v", r)
	}
	if r := New(Options{AllowPrivate: true}).Send(t.Context(), sent); r.Error != "the TLS certificate is not valid" {
		t.Errorf("an unknown certificate: %+v", r)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if r := sender.Send(ended, sent); r.Error != "the try was interrupted" {
		t.Errorf("an interrupted try: %+v", r)
	}
	silent := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, os.ErrDeadlineExceeded }}
	if r := New(Options{Resolver: silent}).Send(t.Context(), webhook.Message{URL: "https://hooks.example.test/"}); r.Error != "the host does not resolve" {
		t.Errorf("a name server that does not answer: %+v", r)
	}
	refused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = refused.Close()
	if r := sender.Send(t.Context(), webhook.Message{URL: "http://" + refused.Addr().String()}); r.Error != "the endpoint refused the connection" {
		t.Errorf("a closed port: %+v", r)
	}
}

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "x": 0, "-5": 0, "1.5": 0, "30": 30 * time.Second, "86400": 24 * time.Hour,
		now.Add(time.Hour).Format(http.TimeFormat): time.Hour, now.Add(-time.Hour).Format(http.TimeFormat): 0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
}
