// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// delayed is the address of a server whose answers come later by what is set.
func delayed(t *testing.T, server *testserver.Redis) (address string, by *atomic.Int64) {
	t.Helper()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	by = new(atomic.Int64)
	var under sync.WaitGroup
	to := at.Host
	under.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			under.Go(func() { pass(&under, client, to, by) })
		}
	})
	t.Cleanup(under.Wait)
	t.Cleanup(func() { _ = l.Close() })
	at.Host = l.Addr().String()
	return at.String(), by
}

func pass(under *sync.WaitGroup, client net.Conn, to string, by *atomic.Int64) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	under.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	answer := make([]byte, 64<<10)
	for {
		n, err := server.Read(answer)
		if err != nil {
			return
		}
		if d := by.Load(); d > 0 {
			<-time.After(time.Duration(d))
		}
		if _, err := client.Write(answer[:n]); err != nil {
			return
		}
	}
}
