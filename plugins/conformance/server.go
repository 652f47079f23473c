// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/tenantry/tenantry/core/panics"
)

// startServer starts a server on loopback and returns its URL. The server runs until the test ends.
func startServer(t T, handler http.Handler) string {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: startTimeout, ErrorLog: discardLog}
	ended := make(chan struct{})
	panics.Go(func() {
		_ = server.Serve(listener) // Serve always returns an error when the server is closed
		close(ended)
	}, func(*panics.Error) { close(ended) })
	t.Cleanup(func() {
		_ = server.Close() // also closes the connections that a plugin keeps open
		<-ended
	})
	return "http://" + listener.Addr().String()
}

// UnreachableURL returns a base URL on which nothing listens. Operating systems do not assign this
// port to servers that ask for any free port, because it is below the range of ephemeral ports.
func UnreachableURL(t T) string {
	t.Helper()
	return "http://127.0.0.1:2"
}

// discardLog ignores the messages of servers about connections that a check has closed.
var discardLog = log.New(io.Discard, "", 0)

// send sends one request and returns the status and the body of the answer. It does not follow
// redirects.
func send(t T, method, link, contentType string, body io.Reader) (status int, answer []byte, err error) {
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, link, body)
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", contentType)
	response, err := noRedirects.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// noRedirects is an HTTP client that does not follow redirects. Its time limit is so long that only
// a server that hangs reaches it.
var noRedirects = &http.Client{
	Timeout:       startTimeout,
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// responseBuffer collects a response, so that a failure can change or drop it.
type responseBuffer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newResponseBuffer() *responseBuffer {
	return &responseBuffer{header: http.Header{}, status: http.StatusOK}
}

// Header implements http.ResponseWriter.
func (b *responseBuffer) Header() http.Header { return b.header }

// WriteHeader implements http.ResponseWriter.
func (b *responseBuffer) WriteHeader(status int) { b.status = status }

// Write implements http.ResponseWriter.
func (b *responseBuffer) Write(p []byte) (int, error) { return b.body.Write(p) }
