// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

// scriptedDNS is a DNS provider that remembers what it was asked and answers
// with every field filled in, or with err.
type scriptedDNS struct {
	last string
	err  error
}

func (s *scriptedDNS) Check(context.Context) (int, error) {
	s.last = "Check"
	return 7, s.err
}

func (s *scriptedDNS) Zone(_ context.Context, name string) (dns.Zone, error) {
	s.last = "Zone " + name
	if s.err != nil {
		return dns.Zone{}, s.err
	}
	return filled[dns.Zone]("zone")
}

func (s *scriptedDNS) Records(_ context.Context, z dns.Zone) ([]dns.RRSet, error) {
	s.last = fmt.Sprint("Records ", z)
	return s.sets()
}

func (s *scriptedDNS) Apply(_ context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	s.last = fmt.Sprint("Apply ", z, changes)
	return s.sets()
}

func (s *scriptedDNS) sets() ([]dns.RRSet, error) {
	if s.err != nil {
		return nil, s.err
	}
	return setsOf("answer"), nil
}

// setsOf are sets with every field that a provider fills in, a text that is
// not UTF-8 among them.
func setsOf(at string) []dns.RRSet {
	return []dns.RRSet{
		{Name: at + " name", Type: dns.TXT, TTL: 7, Values: []string{"\xff\x00", at}},
		{Name: at + " other", Type: "CAA", TTL: 8, Values: []string{at + " value"}},
	}
}

func dnsBehind(t *testing.T, p ports.DNSProvider, seen func(Connection)) ports.DNSProvider {
	t.Helper()
	lis := bufconn.Listen(1 << 16)
	server := newServer(slog.New(slog.DiscardHandler))
	proto.RegisterDNSProviderServer(server, &dnsServer{provider: func(c Connection) (ports.DNSProvider, error) {
		seen(c)
		return p, nil
	}})
	go func() { _ = server.Serve(lis) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///plugin",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return DNS(func(context.Context, ...secret.Text) (Session, error) {
		return Session{Process: &Process{conn: conn}, Connection: connection}, nil
	})
}

func TestEveryDNSMethodCrosses(t *testing.T) {
	author, direct := &scriptedDNS{}, &scriptedDNS{}
	var got Connection
	far := dnsBehind(t, author, func(c Connection) { got = c })
	methods := 0
	for m := range reflect.TypeFor[ports.DNSProvider]().Methods() {
		methods++
		t.Run(m.Name, func(t *testing.T) {
			args := arguments(t, m.Type)
			if m.Name == "Apply" {
				args[2] = reflect.ValueOf([]dns.Change{{Before: setsOf("before")[0], After: setsOf("after")[0]}, {After: setsOf("made")[1]}})
			}
			got := results(reflect.ValueOf(far).MethodByName(m.Name).Call(args))
			want := results(reflect.ValueOf(direct).MethodByName(m.Name).Call(args))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answer (-direct +wire):\n%s", diff)
			}
			if author.last != direct.last || !strings.HasPrefix(author.last, m.Name) {
				t.Errorf("the author was asked\n%s, directly\n%s", author.last, direct.last)
			}
		})
	}
	if methods != 4 || got.Fingerprint() != connection.Fingerprint() {
		t.Fatalf("%d methods walked, the port has 4; the connection arrived: %v", methods, got.Settings)
	}
}

func TestRefusalsOfZonesCross(t *testing.T) {
	author := &scriptedDNS{}
	far := dnsBehind(t, author, func(Connection) {})
	author.err = fmt.Errorf("apply: %w", dns.Changed())
	if _, err := far.Apply(t.Context(), dns.Zone{}, nil); !dns.IsChanged(err) || !outcome.Settled(err) {
		t.Errorf("got %v, want a changed zone", err)
	}
	author.err = dns.NoZone()
	if _, err := far.Zone(t.Context(), "a.test"); !dns.IsNoZone(err) {
		t.Errorf("got %v, want no zone", err)
	}
}
