// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/httpapi"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
)

// A caller whose body does not arrive in time gets an answer, and its connection is closed. The
// test sets the read deadline after the header has arrived, as net/http does for ReadTimeout.
func TestASlowBody(t *testing.T) {
	w := newWorld(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := w.handler(t)
	server := httpapi.Server("", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(rw).SetReadDeadline(time.Now()); err != nil {
			t.Error(err)
		}
		h.ServeHTTP(rw, r)
	}))
	server.ReadTimeout = hang
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(hang))
	head := "POST " + domainsOfA + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + w.a.key +
		"\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\nContent-Length: 30\r\n\r\n{\"dom"
	if _, err := conn.Write([]byte(head)); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusBadRequest || !response.Close {
		t.Errorf("got %d, close %v", response.StatusCode, response.Close)
	}
}

// A write continues when its caller disconnects in the middle of it.
func TestAWriteOutlivesItsCaller(t *testing.T) {
	w := newWorld(t)
	began, noticed, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	service := *w.options.Tenants
	service.Tenants = deleting{tenantStore: w.store, delete: func(ctx context.Context) error {
		close(began)
		<-noticed
		ended <- ctx.Err()
		return ctx.Err()
	}}
	w.options.Tenants = &service
	h := w.handler(t)
	a := serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() { close(noticed) })
		h.ServeHTTP(rw, r)
	}))
	ctx, leave := context.WithCancel(t.Context())
	r := call{method: "DELETE", path: "/v1/tenants/" + string(w.a.tenant), key: w.a.key}.request(t, a.server.URL).WithContext(ctx)
	go func() {
		if response, err := noRedirects.Do(r); err == nil {
			_ = response.Body.Close()
		}
	}()
	receive(t, began, "the write did not begin")
	leave()
	if err := receive(t, ended, "the write did not end"); err != nil {
		t.Errorf("the write was cancelled: %v", err)
	}
}

// deleting is a store whose deletions a test controls.
type deleting struct {
	tenantStore
	delete func(context.Context) error
}

func (d deleting) DeleteTenant(ctx context.Context, _ access.AccountID, _ tenant.GUID) error {
	return d.delete(ctx)
}
