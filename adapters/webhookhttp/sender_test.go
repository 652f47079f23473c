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

// forbiddenURLs are URLs that the service must not call. A name below .test without an entry in
// records does not exist.
var forbiddenURLs = []string{
	// URLs with a scheme or a form that is not allowed
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
			size, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			if reply := dnsAnswer(buffer[:size], lookup); reply != nil {
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
	var queryMessage dnsmessage.Message
	if queryMessage.Unpack(query) != nil || len(queryMessage.Questions) != 1 {
		return nil
	}
	question := queryMessage.Questions[0]
	addresses, exists := lookup(strings.ToLower(question.Name.String()))
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: queryMessage.ID, Response: true, RecursionAvailable: true}, Questions: queryMessage.Questions}
	if !exists {
		reply.RCode = dnsmessage.RCodeNameError
	}
	for _, text := range addresses {
		address := netip.MustParseAddr(text)
		header := dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: question.Class}
		switch {
		case address.Is4() && question.Type == dnsmessage.TypeA:
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: address.As4()}})
		case address.Is6() && question.Type == dnsmessage.TypeAAAA:
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: address.As16()}})
		}
	}
	packed, err := reply.Pack()
	if err != nil {
		return nil
	}
	binary.BigEndian.PutUint16(packed, queryMessage.ID)
	return packed
}

// TestForbiddenURLsAreRefused checks that CheckURL refuses each URL. It also sends messages to the
// URLs, because Send must refuse them without CheckURL. The error must be the sender's own refusal,
// or that the host does not resolve. Nothing listens on most of these addresses, so a different
// error would prove nothing.
func TestForbiddenURLsAreRefused(t *testing.T) {
	if len(forbiddenURLs) < 60 {
		t.Fatalf("forbiddenURLs has %d URLs, want at least 60", len(forbiddenURLs))
	}
	sender := New(Options{Resolver: newResolver(t, lookupRecord)})
	for _, url := range forbiddenURLs {
		if err := sender.CheckURL(t.Context(), url); !errors.Is(err, fault.InvalidWebhookURL) {
			t.Errorf("%q: got %v, want %v", url, err, fault.InvalidWebhookURL)
		}
		if url == "https://mixed.test/" {
			continue // this name also has a public address, which a test must not contact
		}
		if result := sender.Send(t.Context(), webhook.Message{URL: url}); result.Error != errForbidden.Error() && result.Error != "the host does not resolve" {
			t.Errorf("%q: got %+v, want the sender's own refusal", url, result)
		}
	}
	for _, url := range []string{"https://hooks.example.test/in?token=x", "https://both.test:8443/", "https://93.184.216.34/", "https://[2606:2800:220:1::1]/"} {
		if err := sender.CheckURL(t.Context(), url); err != nil {
			t.Errorf("the public URL %q: got %v, want no error", url, err)
		}
	}
}

func TestAPrivateNetworkCanBeAllowed(t *testing.T) {
	sender := New(Options{Resolver: newResolver(t, lookupRecord), AllowPrivate: true})
	for url, allowed := range map[string]bool{
		"https://private.test/": true, "https://127.0.0.1/": true, "http://127.0.0.1:8080/": true, "http://[::1]/": true, "http://localhost/": true,
		"http://private.test/": false, "http://hooks.example.test/": false, "http://mixed.test/": false, "http://u@127.0.0.1/": false, "ftp://127.0.0.1/": false,
	} {
		if err := sender.CheckURL(t.Context(), url); (err == nil) != allowed || err != nil && !errors.Is(err, fault.InvalidWebhookURL) {
			t.Errorf("%q: got %v, want it allowed: %v", url, err, allowed)
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

// TestTheConnectionIsChecked covers a host that resolves to a public address when CheckURL is
// called, and to a private address when a message is sent. The private address must get no
// connection.
func TestTheConnectionIsChecked(t *testing.T) {
	for _, addresses := range []struct{ public, private string }{{"93.184.216.34", "127.0.0.1"}, {"2606:2800:220:1::1", "::1"}} {
		t.Run(addresses.private, func(t *testing.T) {
			listener, err := net.Listen("tcp", net.JoinHostPort(addresses.private, "0"))
			if err != nil {
				t.Fatal(err)
			}
			var connections, queries atomic.Int64
			var accepting sync.WaitGroup
			accepting.Go(func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					connections.Add(1)
					_ = conn.Close()
				}
			})
			var rebound atomic.Bool
			sender := New(Options{Resolver: newResolver(t, func(string) ([]string, bool) {
				if !rebound.Load() {
					return []string{addresses.public}, true
				}
				queries.Add(1)
				return []string{addresses.private}, true
			})})
			_, port, _ := net.SplitHostPort(listener.Addr().String())
			target := "https://endpoint.test:" + port + "/"
			if err := sender.CheckURL(t.Context(), target); err != nil {
				t.Fatalf("CheckURL of the public address: %v", err)
			}
			rebound.Store(true)
			result := sender.Send(t.Context(), webhook.Message{URL: target})
			_ = listener.Close()
			accepting.Wait()
			if queries.Load() == 0 || connections.Load() != 0 || result.Error != errForbidden.Error() || result.StatusCode != 0 {
				t.Errorf("%d queries after the change, %d connections, result %+v, want queries, no connection and the sender's own refusal", queries.Load(), connections.Load(), result)
			}
		})
	}
}

func TestMessagesAreSent(t *testing.T) {
	var received *http.Request
	var body []byte
	redirected := 0
	serverURL, roots := startEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/in":
			received = r
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
	// net/http uses no proxy for loopback addresses, so a request of this test could not show one.
	if transport, _ := sender.client.Transport.(*http.Transport); transport.Proxy != nil {
		t.Error("the sender can use a proxy, want none")
	}
	message := webhook.Message{URL: serverURL + "/in?a=b", ID: "id", Timestamp: time.Unix(1700000000, 0), Signature: "v1,x v1,y", Body: []byte(`{"a":1}`)}
	if r := sender.Send(t.Context(), message); !r.Accepted() || r.StatusCode != 202 || r.Duration <= 0 {
		t.Fatalf("the response is %+v, want an accepted one with 202 and a duration", r)
	}
	for name, want := range map[string]string{"webhook-id": "id", "webhook-timestamp": "1700000000", "webhook-signature": "v1,x v1,y",
		"content-type": "application/json", "user-agent": "tenantry-webhooks", "authorization": "", "traceparent": ""} {
		if received.Header.Get(name) != want {
			t.Errorf("the header %s is %q, want %q", name, received.Header.Get(name), want)
		}
	}
	if received.Method != http.MethodPost || string(body) != `{"a":1}` || received.URL.RawQuery != "a=b" {
		t.Errorf("the endpoint received %s %s %s, want POST with the query a=b and the body of the message", received.Method, received.URL, body)
	}
	if r := sender.Send(t.Context(), webhook.Message{URL: serverURL + "/moved"}); r.StatusCode != 307 || r.Accepted() || redirected != 0 {
		t.Errorf("a redirect: %+v, followed %d times, want the status 307 and no second request", r, redirected)
	}
	if r := sender.Send(t.Context(), webhook.Message{URL: serverURL + "/busy"}); r.StatusCode != 429 || r.RetryAfter != 2*time.Minute {
		t.Errorf("a busy endpoint: %+v, want the status 429 and a retry after 2 minutes", r)
	}
	if r := New(Options{AllowPrivate: true}).Send(t.Context(), message); r.Error != "the TLS certificate is not valid" {
		t.Errorf("an unknown certificate: %+v, want an error about the certificate", r)
	}
	cancelledCtx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := sender.Send(cancelledCtx, message); r.Error != "the try was interrupted" {
		t.Errorf("an interrupted try: %+v, want an error about the interruption", r)
	}
	silentResolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, os.ErrDeadlineExceeded }}
	if r := New(Options{Resolver: silentResolver}).Send(t.Context(), webhook.Message{URL: "https://hooks.example.test/"}); r.Error != "the host does not resolve" {
		t.Errorf("a name server that does not answer: %+v, want an error that the host does not resolve", r)
	}
	closedListener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closedListener.Close()
	if r := sender.Send(t.Context(), webhook.Message{URL: "http://" + closedListener.Addr().String()}); r.Error != "the endpoint refused the connection" {
		t.Errorf("a closed port: %+v, want an error that the endpoint refused the connection", r)
	}
}

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "x": 0, "-5": 0, "1.5": 0, "30": 30 * time.Second, "86400": 24 * time.Hour,
		now.Add(time.Hour).Format(http.TimeFormat): time.Hour, now.Add(-time.Hour).Format(http.TimeFormat): 0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: got %v, want %v", value, got, want)
		}
	}
}
