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

// proxy passes on the answers of a Redis after a delay.
type proxy struct {
	url   string
	delay atomic.Int64 // in nanoseconds
	late  atomic.Int64 // answers that were delayed
	under sync.WaitGroup
}

// delayed starts a proxy that ends with the test.
func delayed(t *testing.T, server *testserver.Redis) *proxy {
	t.Helper()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p, to := &proxy{}, at.Host
	p.under.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.under.Go(func() { p.pass(client, to) })
		}
	})
	t.Cleanup(p.under.Wait)
	t.Cleanup(func() { _ = l.Close() })
	at.Host = l.Addr().String()
	p.url = at.String()
	return p
}

func (p *proxy) pass(client net.Conn, to string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	p.under.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	answer := make([]byte, 64<<10)
	for {
		n, err := server.Read(answer)
		if err != nil {
			return
		}
		if d := p.delay.Load(); d > 0 {
			<-time.After(time.Duration(d))
			p.late.Add(1)
		}
		if _, err := client.Write(answer[:n]); err != nil {
			return
		}
	}
}
