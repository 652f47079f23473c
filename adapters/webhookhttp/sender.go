// SPDX-License-Identifier: Apache-2.0

// Package webhookhttp sends the messages of webhooks over HTTP.
//
// A customer chooses the URL, so a message could reach the internal network of the service. Sender
// therefore checks the resolved address of each connection when it connects. It follows no
// redirects and uses no proxy. It uses only the status and the Retry-After of an answer, and
// ignores the body.
package webhookhttp

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tenantry/tenantry/core/egress"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/webhook"
)

const (
	// sendTimeout limits the duration of one try, including the resolution of the host.
	sendTimeout = 15 * time.Second
	// lookupTimeout limits how long the resolution of a new URL's host may take.
	lookupTimeout = 5 * time.Second
	// maxDiscarded is the maximum number of bytes of an answer that are read, so that the
	// connection can be used again.
	maxDiscarded = 4 << 10
	// maxIdle is how many idle connections are kept for later messages. maxIdlePerHost is how many
	// of these connections may be to one host. One host can have the endpoints of many accounts.
	maxIdle        = 1024
	maxIdlePerHost = 128
)

// Options configure a Sender.
type Options struct {
	// AllowPrivate allows addresses that are not public, and http to loopback. It is for sandboxes.
	AllowPrivate bool
	// Resolver resolves the hosts of URLs. The default is the system's resolver.
	Resolver *net.Resolver
	// Roots are the certificate authorities that endpoints may use. The default is the system's
	// certificate authorities.
	Roots *x509.CertPool
}

// Sender implements ports.WebhookSender.
type Sender struct {
	allowPrivate bool
	resolver     *net.Resolver
	client       *http.Client
}

// New returns a Sender.
func New(o Options) *Sender {
	s := &Sender{allowPrivate: o.AllowPrivate, resolver: o.Resolver}
	if s.resolver == nil {
		s.resolver = net.DefaultResolver
	}
	// net/http opens a connection without the deadline of the try, because a later try can use the
	// connection. Therefore the connection and its TLS handshake have their own time limits.
	dialer := &net.Dialer{Timeout: sendTimeout, Resolver: o.Resolver, ControlContext: s.checkConnection}
	s.client = &http.Client{
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.Roots},
			TLSHandshakeTimeout:    sendTimeout,
			ForceAttemptHTTP2:      true,
			MaxIdleConns:           maxIdle,
			MaxIdleConnsPerHost:    maxIdlePerHost,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: 16 << 10,
			DisableCompression:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s
}

// errForbidden is the error of a connection to an address to which messages must not be sent.
var errForbidden = errors.New("the host resolves to an address that is not public")

// plainHTTP is the context key that marks a message over http.
type plainHTTP struct{}

// checkConnection is called with the resolved address before each connection. The check of CheckURL
// does not suffice, because a host name can resolve to a different address each time.
func (s *Sender) checkConnection(ctx context.Context, _, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil || !s.isAllowed(target.Addr(), ctx.Value(plainHTTP{}) != nil) {
		return errForbidden
	}
	return nil
}

func (s *Sender) isAllowed(a netip.Addr, isPlainHTTP bool) bool {
	if !s.allowPrivate {
		return !isPlainHTTP && egress.IsPublic(a)
	}
	return !isPlainHTTP || a.Unmap().IsLoopback()
}

// CheckURL implements ports.WebhookSender. It resolves the host, and checks all its addresses.
func (s *Sender) CheckURL(ctx context.Context, raw string) error {
	u, err := s.parse(raw)
	if err != nil {
		return err
	}
	addresses, err := s.resolve(ctx, u.Hostname())
	if err != nil || len(addresses) == 0 {
		return invalid("the host does not resolve")
	}
	for _, a := range addresses {
		switch isPlainHTTP := u.Scheme == "http"; {
		case s.isAllowed(a, isPlainHTTP):
		case isPlainHTTP:
			return invalid("http is allowed only to loopback addresses")
		default:
			return invalid(errForbidden.Error())
		}
	}
	return nil
}

// parse checks the form of a URL and returns the parsed URL.
func (s *Sender) parse(raw string) (*url.URL, error) {
	parsed, err := url.Parse(raw)
	if err != nil || len(raw) > webhook.MaxURL || parsed.Opaque != "" || parsed.Hostname() == "" || strings.ContainsFunc(raw, isNotVisible) {
		return nil, invalid("it is not an absolute URL of at most " + strconv.Itoa(webhook.MaxURL) + " visible ASCII characters")
	}
	if port := parsed.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, invalid("the port is not valid")
		}
	}
	switch {
	case parsed.Scheme != "https" && (parsed.Scheme != "http" || !s.allowPrivate):
		return nil, invalid("the scheme must be https")
	case parsed.User != nil:
		return nil, invalid("it must not contain a user name or a password")
	case parsed.Fragment != "" || strings.HasSuffix(raw, "#"):
		return nil, invalid("it must not contain a fragment")
	default:
		return parsed, nil
	}
}

func isNotVisible(r rune) bool { return r <= ' ' || r >= 0x7f }

// resolve returns the addresses of a host. It sends the same queries as the dialer.
func (s *Sender) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	return s.resolver.LookupNetIP(ctx, "ip", host)
}

func invalid(reason string) error {
	return fault.InvalidWebhookURL.At("messages cannot be sent to this URL: "+reason, fault.Field{Name: "url", Message: reason})
}

// Send implements ports.WebhookSender.
func (s *Sender) Send(ctx context.Context, m webhook.Message) webhook.Response {
	began := time.Now()
	r, err := s.send(ctx, m)
	r.Duration = time.Since(began)
	if err != nil {
		r.Error = describe(err)
	}
	return r
}

func (s *Sender) send(ctx context.Context, m webhook.Message) (r webhook.Response, err error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	u, err := s.parse(m.URL)
	if err != nil {
		return r, errForbidden // AllowPrivate was set when the URL was stored
	}
	if u.Scheme == "http" {
		ctx = context.WithValue(ctx, plainHTTP{}, true)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, bytes.NewReader(m.Body))
	if err != nil {
		return r, err
	}
	request.Header = http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"tenantry-webhooks"},
		"Webhook-Id": {m.ID}, "Webhook-Timestamp": {m.UnixTime()}, "Webhook-Signature": {m.Signature},
	}
	response, err := s.client.Do(request)
	if err != nil {
		return r, err
	}
	r.StatusCode, r.RetryAfter = response.StatusCode, retryAfter(response.Header.Get("Retry-After"), time.Now())
	// Only the status and the header of the answer matter, so an error while the body is read is
	// ignored. After the status 101 (Switching Protocols) the body is the connection itself, and a
	// read of it would not end with ctx.
	if response.StatusCode != http.StatusSwitchingProtocols {
		_, _ = io.CopyN(io.Discard, response.Body, maxDiscarded)
	}
	_ = response.Body.Close()
	return r, nil
}

// maxRetryAfterSeconds limits a Retry-After in seconds, so that the duration does not overflow.
// Callers limit the wait further.
const maxRetryAfterSeconds = 1 << 30

// retryAfter parses the header Retry-After, as seconds or as a date. It returns 0 for other values.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 63); err == nil {
		return time.Duration(min(seconds, maxRetryAfterSeconds)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// describe returns the reason of a failure as a fixed text, which contains nothing from the
// endpoint.
func describe(err error) string {
	var lookup *net.DNSError
	var certificate *tls.CertificateVerificationError
	var network net.Error
	switch {
	case errors.Is(err, errForbidden):
		return errForbidden.Error()
	case errors.Is(err, context.Canceled):
		return "the try was interrupted"
	case errors.As(err, &lookup): // also if the lookup timed out
		return "the host does not resolve"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "the endpoint did not answer within 15 seconds"
	case errors.As(err, &certificate):
		return "the TLS certificate is not valid"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the endpoint refused the connection"
	default:
		return "the connection failed"
	}
}
