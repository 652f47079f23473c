// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// listen passes the messages of TCP connections to handler, until the process ends. It uses the
// same address after a restart, because the DNS connections that accounts have stored contain the
// address. If it cannot listen there, it uses a new port.
func listen(dataDir string, handler http.Handler) (address string, err error) {
	stored, err := simulate.OpenFile(filepath.Join(dataDir, "listener.json"), "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	stored.View(func(a *string) { address = *a })
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		listener, err = config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	}
	if err != nil {
		return "", fmt.Errorf("listen for DNS: %w", err)
	}
	address = listener.Addr().String()
	if err := stored.Do(func(a *string) { *a = address }); err != nil {
		return "", err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn, handler)
		}
	}()
	return address, nil
}

// serve answers the messages of a connection until the connection ends or a message gets no answer.
func serve(conn net.Conn, handler http.Handler) {
	defer func() { _ = conn.Close() }()
	for {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		message := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, message); err != nil {
			return
		}
		answer, ok := exchange(message, handler)
		if !ok {
			return
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

// exchange passes a message to the handler as an HTTP request. If the handler does not answer, ok
// is false, and the caller must close the connection.
func exchange(message []byte, handler http.Handler) (answer []byte, ok bool) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "/dns-message", bytes.NewReader(message))
	if err != nil {
		return nil, false
	}
	defer func() {
		cause := recover()
		if err, isError := cause.(error); isError && errors.Is(err, http.ErrAbortHandler) { // a planned fault that closes the connection
			answer, ok = nil, false
		} else if cause != nil {
			panic(cause)
		}
	}()
	w := &response{header: http.Header{}}
	handler.ServeHTTP(w, request)
	return w.body.Bytes(), w.body.Len() > 0
}

// response collects the bytes of an answer.
type response struct {
	header http.Header
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *response) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter. It does nothing, because a DNS message has no HTTP
// status.
func (r *response) WriteHeader(int) {}

// Write implements http.ResponseWriter.
func (r *response) Write(p []byte) (int, error) { return r.body.Write(p) }
