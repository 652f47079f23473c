// SPDX-License-Identifier: Apache-2.0

package server

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/tenantry/tenantry/adapters/httpapi"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/wiring"
)

// TestAnAddressMayHaveHalfOfTheConnections opens two connections from one address at a limit of
// two. The server closes the second connection, because the first has a request in progress.
func TestAnAddressMayHaveHalfOfTheConnections(t *testing.T) {
	listener, err := Listen(t.Context(), "127.0.0.1:0")
	apptest.Must(t, err)
	arrived, release := make(chan struct{}), make(chan struct{})
	limitedServer := startServer(t.Context(), listener, nil, &httpapi.ConnectionLimit{Max: 2}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	}), slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		close(release)
		_ = limitedServer.server.Close()
	})
	sendRequest := func() (closed <-chan struct{}) {
		t.Helper()
		conn, err := net.Dial("tcp", listener.Addr().String())
		apptest.Must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") // fails if the server has closed the connection
		ended := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			close(ended)
		}()
		return ended
	}
	for inProgress := false; !inProgress; {
		select {
		case <-arrived:
			inProgress = true
		case <-sendRequest(): // a slow machine exceeded the time limit for the head of the request
		}
	}
	select {
	case <-arrived:
		t.Error("the second connection is served, want it closed")
	case <-sendRequest():
	}
}

// TestConnectionsUseAtMostHalfOfTheOpenFiles checks that a higher max_connections is reduced to
// half of the files that the process may open.
func TestConnectionsUseAtMostHalfOfTheOpenFiles(t *testing.T) {
	service := &wiring.Service{Log: slog.New(slog.DiscardHandler), APIConnections: &httpapi.ConnectionLimit{}}
	for setting, want := range map[int]int{2: 2, maxOpenFiles(): maxOpenFiles() / 2} {
		service.APIConnections.Max = setting
		if got := maxConnections(service); got != want {
			t.Errorf("max_connections %d: got %d connections, want %d", setting, got, want)
		}
	}
}
