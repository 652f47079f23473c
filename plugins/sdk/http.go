// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"

	"github.com/tenantry/tenantry/core/egress"
	"github.com/tenantry/tenantry/plugins/wire"
)

// MaxAnswer is the default limit for the body of a provider's answer, in bytes after decompression.
// WithMaxAnswer changes the limit for one call.
const MaxAnswer = 1 << 20

// ErrAnswerTooLarge is the error of reading an answer that is longer than its limit.
var ErrAnswerTooLarge = errors.New("the provider's answer is too large")

type maxAnswerKey struct{}

// WithMaxAnswer returns a context in which an answer may have octets bytes instead of MaxAnswer.
func WithMaxAnswer(ctx context.Context, octets int64) context.Context {
	return context.WithValue(ctx, maxAnswerKey{}, octets)
}

// NewHTTPClient returns the client for calls to a provider. It does not follow redirects, ignores
// the proxies of the environment, and limits the size of answers. It records a span for each call
// and propagates the trace context. timeout limits a call, including the read of the answer.
func NewHTTPClient(timeout time.Duration) *http.Client {
	return newHTTPClient(timeout, newTransport())
}

func newHTTPClient(timeout time.Duration, transport *http.Transport) *http.Client {
	traced := otelhttp.NewTransport(urlRestorer{transport},
		otelhttp.WithPropagators(propagation.TraceContext{}))
	return &http.Client{
		Timeout:       timeout,
		Transport:     LimitHosts(bodyLimiter{urlHider{traced}}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func newTransport() *http.Transport {
	return &http.Transport{
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
	}
}

// ErrHostNotNamed is the error of a request or a connection to a host that is not in
// Description.Hosts. Nothing was sent.
var ErrHostNotNamed = errors.New("the description of the plugin does not name this host")

// LimitHosts returns a transport that sends requests only to the hosts of Description.Hosts, and
// fails with ErrHostNotNamed otherwise. If Description.Hosts is empty, it sends every request. The
// context of a request must be derived from the context of the call, which contains the allowed
// hosts. Without it, every request is sent. The clients of NewHTTPClient and NewGuardedHTTPClient
// use LimitHosts.
func LimitHosts(next http.RoundTripper) http.RoundTripper { return hostLimiter{next} }

type hostLimiter struct{ next http.RoundTripper }

func (l hostLimiter) RoundTrip(r *http.Request) (*http.Response, error) {
	if !wire.MayConnect(r.Context(), r.URL.Hostname()) {
		if r.Body != nil {
			_ = r.Body.Close() // http.RoundTripper requires that the body is closed, also after an error
		}
		return nil, ErrHostNotNamed
	}
	return l.next.RoundTrip(r)
}

// urlHider wraps the tracing transport and hides the path and the query of a request from this
// transport. They can contain customers' domains, mailboxes and tenants, so a span must not contain
// them. urlRestorer, the transport below the tracing transport, restores the URL.
type (
	urlHider    struct{ next http.RoundTripper }
	urlRestorer struct{ next http.RoundTripper }
	fullURLKey  struct{}
)

func (h urlHider) RoundTrip(r *http.Request) (*http.Response, error) {
	hidden := r.Clone(context.WithValue(r.Context(), fullURLKey{}, r.URL))
	hidden.URL = &url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host}
	return h.next.RoundTrip(hidden)
}

func (u urlRestorer) RoundTrip(r *http.Request) (*http.Response, error) {
	restored := r.Clone(r.Context())
	restored.URL, _ = r.Context().Value(fullURLKey{}).(*url.URL)
	return u.next.RoundTrip(restored)
}

// bodyLimiter limits the size of an answer to the limit of WithMaxAnswer, or to MaxAnswer. It
// returns a BrokenAnswer error for the status 101 (Switching Protocols). The body of such an answer
// is the connection itself, and the timeout of the client would not end a read of it.
type bodyLimiter struct{ next http.RoundTripper }

func (l bodyLimiter) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		_ = resp.Body.Close()
		return nil, BrokenAnswer("status 101")
	}
	limit, isSet := r.Context().Value(maxAnswerKey{}).(int64)
	if !isSet {
		limit = MaxAnswer
	}
	resp.Body = &limitedBody{ReadCloser: resp.Body, remaining: limit}
	return resp, nil
}

type limitedBody struct {
	io.ReadCloser
	remaining int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.remaining < 0 {
		return 0, ErrAnswerTooLarge
	}
	// One byte more than allowed is read, to distinguish an answer at the limit from a larger
	// answer.
	if int64(len(p)) > b.remaining+1 {
		p = p[:b.remaining+1]
	}
	n, err := b.ReadCloser.Read(p)
	b.remaining -= int64(n)
	if b.remaining < 0 {
		return n - 1, ErrAnswerTooLarge
	}
	return n, err
}

// ErrPrivateAddress is the error of a connection to an address that is not public.
var ErrPrivateAddress = errors.New("the host has no public address")

// Dialer opens connections to a host that an account has chosen. See NewDialer.
type Dialer struct{ net net.Dialer }

// NewDialer returns a Dialer that connects to public unicast addresses only and fails with
// ErrPrivateAddress otherwise. It checks the address after the name was resolved. If allowPrivate
// is true, the Dialer connects to every address. Take allowPrivate from a setting of the operator,
// because an account could otherwise reach the operator's network. timeout limits how long it may
// take to open a connection.
func NewDialer(timeout time.Duration, allowPrivate bool) *Dialer {
	d := &Dialer{net.Dialer{Timeout: timeout}}
	if !allowPrivate {
		d.net.Control = func(_, address string, _ syscall.RawConn) error {
			addr, err := netip.ParseAddrPort(address)
			if err != nil || !egress.IsPublic(addr.Addr()) {
				return ErrPrivateAddress
			}
			return nil
		}
	}
	return d
}

// DialContext opens a connection like net.Dialer.DialContext. It fails with ErrHostNotNamed for a
// host that is not in Description.Hosts. ctx must be derived from the context of the call, as for
// LimitHosts.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if !wire.MayConnect(ctx, host) {
		return nil, ErrHostNotNamed
	}
	return d.net.DialContext(ctx, network, address)
}

// NewGuardedHTTPClient is NewHTTPClient for a host that an account has chosen. The client connects
// with a Dialer of NewDialer.
func NewGuardedHTTPClient(timeout time.Duration, allowPrivate bool) *http.Client {
	transport := newTransport()
	transport.DialContext = NewDialer(10*time.Second, allowPrivate).DialContext
	return newHTTPClient(timeout, transport)
}
