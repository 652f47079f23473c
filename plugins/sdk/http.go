// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
)

// MaxAnswer is how much of a provider's answer is read, after decompression,
// unless the call's context says otherwise.
const MaxAnswer = 1 << 20

// ErrAnswerTooLarge is what reading an answer over its bound ends in.
var ErrAnswerTooLarge = errors.New("the provider's answer is too large")

type maxAnswer struct{}

// WithMaxAnswer gives the answers of a context's calls another bound than
// MaxAnswer, in octets.
func WithMaxAnswer(ctx context.Context, octets int64) context.Context {
	return context.WithValue(ctx, maxAnswer{}, octets)
}

// NewHTTPClient makes the client for calls to a provider. It follows no
// redirects, ignores proxies of the environment, bounds what is read and
// makes each call a span that carries the trace on. timeout bounds a call that
// the context does not end earlier, reading the answer included.
func NewHTTPClient(timeout time.Duration) *http.Client {
	return newHTTPClient(timeout, plainTransport())
}

func newHTTPClient(timeout time.Duration, transport *http.Transport) *http.Client {
	traced := otelhttp.NewTransport(unveil{transport},
		otelhttp.WithPropagators(propagation.TraceContext{}))
	return &http.Client{
		Timeout:       timeout,
		Transport:     capped{veil{traced}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func plainTransport() *http.Transport {
	return &http.Transport{
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
	}
}

// veil hides path and query from the span, which would hold the full URL:
// they name customers' domains, mailboxes and tenants. unveil puts them back
// for the request itself.
type (
	veil      struct{ next http.RoundTripper }
	unveil    struct{ next http.RoundTripper }
	veiledURL struct{}
)

func (v veil) RoundTrip(r *http.Request) (*http.Response, error) {
	shown := r.Clone(context.WithValue(r.Context(), veiledURL{}, r.URL))
	shown.URL = &url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host}
	return v.next.RoundTrip(shown)
}

func (u unveil) RoundTrip(r *http.Request) (*http.Response, error) {
	full := r.Clone(r.Context())
	full.URL, _ = r.Context().Value(veiledURL{}).(*url.URL)
	return u.next.RoundTrip(full)
}

// capped ends the reading of an answer that is too large.
type capped struct{ next http.RoundTripper }

func (c capped) RoundTrip(r *http.Request) (*http.Response, error) {
	a, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	most, set := r.Context().Value(maxAnswer{}).(int64)
	if !set {
		most = MaxAnswer
	}
	a.Body = &cappedBody{ReadCloser: a.Body, left: most}
	return a, nil
}

type cappedBody struct {
	io.ReadCloser
	left int64
}

func (b *cappedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, ErrAnswerTooLarge
	}
	// One byte more than allowed tells a full answer from one too large.
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n - 1, ErrAnswerTooLarge
	}
	return n, err
}
