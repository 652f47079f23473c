// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/tenantry/tenantry/core/panics"
)

// speaksHTTP reports whether a setting of the simulator begins with the simulator's URL. Otherwise
// the suite assumes that the plugin uses a different protocol to call its provider, and that the
// simulator's settings contain an address on loopback, such as 127.0.0.1:5353.
func (e *environment) speaksHTTP() bool {
	for _, value := range e.simulator.Ready.Settings {
		if strings.HasPrefix(value, e.simulator.URL) {
			return true
		}
	}
	return false
}

// isLoopbackAddress reports whether a setting is a host and port on loopback.
func isLoopbackAddress(value string) bool {
	address, err := netip.ParseAddrPort(value)
	return err == nil && address.Addr().IsLoopback()
}

const htmlPage = "<html>Welcome!</html>"

// startHTMLServer starts a provider that answers with an HTML page. A plugin that does not use HTTP
// also gets an HTTP answer, as from a wrong server.
func (b Binary) startHTMLServer(t T) string {
	t.Helper()
	if b.isNotHTTP {
		return startTCP(t, func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n"+htmlPage)
		})
	}
	return startServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, htmlPage) }))
}

func (b Binary) startEndlessServer(t T) string {
	t.Helper()
	if b.isNotHTTP {
		return startTCP(t, func(conn net.Conn) {
			for chunk := bytes.Repeat([]byte("[[[["), 1<<14); ; {
				if _, err := conn.Write(chunk); err != nil {
					return
				}
			}
		})
	}
	return startServer(t, http.HandlerFunc(writeEndlessly))
}

func (b Binary) startSilentServer(t T, s *silentServer) string {
	t.Helper()
	if b.isNotHTTP {
		return startTCP(t, func(conn net.Conn) {
			defer s.beginRequest()()
			_, _ = io.Copy(io.Discard, conn) // until the plugin closes the connection
		})
	}
	return startServer(t, s)
}

// startTCP starts a server on loopback that runs until the test ends. It reads the first bytes of
// each connection, calls serve, and closes the connection. The result has the form of a URL.
func startTCP(t T, serve func(net.Conn)) string {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	panicked := func(e *panics.Error) { t.Errorf("server: %v", e) }
	panics.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the check has ended
			}
			panics.Go(func() {
				defer func() { _ = conn.Close() }()
				if _, err := conn.Read(make([]byte, 4096)); err == nil {
					serve(conn)
				}
			}, panicked)
		}
	}, panicked)
	t.Cleanup(func() { _ = listener.Close() })
	return "http://" + listener.Addr().String()
}
