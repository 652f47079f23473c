// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	wire "github.com/miekg/dns"
)

// TestSilentServerIsRemembered checks that a server is asked with modeSilentServer after it did not
// answer, and with modeServer after it answered again. A cancelled question and a question that got
// no slot do not count as a missing answer.
func TestSilentServerIsRemembered(t *testing.T) {
	const hang = 4 * time.Minute // never reached: a closed port refuses at once, and the server answers
	reader := New(Options{UDPTimeout: hang, TCPTimeout: hang, Timeout: hang})
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddrPort(conn.LocalAddr().String())
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	ask := func(ctx context.Context) error {
		_, err := reader.askSOA(ctx, addr, question{"example.test", wire.TypeSOA})
		return err
	}
	cancelledCtx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ask(cancelledCtx); err == nil || reader.soaMode(addr) != modeServer {
		t.Fatalf("after a cancelled question (%v), the mode is %+v, want modeServer", err, reader.soaMode(addr))
	}
	occupy(t, reader.client.serverSlots, "")
	expiredCtx, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	if err := ask(expiredCtx); !errors.Is(err, errNoSlot) || reader.soaMode(addr) != modeServer {
		t.Fatalf("after a question without a slot (%v), the mode is %+v, want modeServer", err, reader.soaMode(addr))
	}
	reader.client.serverSlots = newSlots(maxServerQuestions)
	for range 2 {
		if err := ask(t.Context()); err == nil || reader.soaMode(addr) != modeSilentServer {
			t.Fatalf("after a question without an answer (%v), the mode is %+v, want modeSilentServer", err, reader.soaMode(addr))
		}
	}
	if conn, err = net.ListenPacket("udp", addr.String()); err != nil {
		t.Fatal(err)
	}
	server := &wire.Server{PacketConn: conn, Handler: wire.HandlerFunc(func(w wire.ResponseWriter, q *wire.Msg) {
		_ = w.WriteMsg(new(wire.Msg).SetReply(q))
	})}
	stopped := make(chan error, 1)
	go func() { stopped <- server.ActivateAndServe() }()
	if err := ask(t.Context()); err != nil || reader.soaMode(addr) != modeServer {
		t.Errorf("after an answer (%v), the mode is %+v, want modeServer", err, reader.soaMode(addr))
	}
	if err := errors.Join(server.Shutdown(), <-stopped); err != nil {
		t.Error(err)
	}
}
