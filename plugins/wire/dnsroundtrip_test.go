// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

// recordingDNS is a DNS provider that records its last call. It answers with err, or with a value
// in every field.
type recordingDNS struct {
	lastCall string
	err      error
}

func (d *recordingDNS) Check(context.Context) (int, error) {
	d.lastCall = "Check"
	return 7, d.err
}

func (d *recordingDNS) Zone(_ context.Context, name string) (dns.Zone, error) {
	d.lastCall = "Zone " + name
	if d.err != nil {
		return dns.Zone{}, d.err
	}
	zone, err := newFilled[dns.Zone]("zone")
	zone.Name = name
	return zone, err
}

func (d *recordingDNS) Records(_ context.Context, z dns.Zone) ([]dns.RRSet, error) {
	d.lastCall = fmt.Sprint("Records ", z)
	return d.answerSets(z)
}

func (d *recordingDNS) Apply(_ context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	d.lastCall = fmt.Sprint("Apply ", z, changes)
	return d.answerSets(z)
}

func (d *recordingDNS) answerSets(z dns.Zone) ([]dns.RRSet, error) {
	if d.err != nil {
		return nil, d.err
	}
	sets := sampleSets("answer")
	for i := range sets {
		sets[i].Name += "." + z.Name
	}
	return sets, nil
}

// sampleSets returns record sets with a value in every field, and with a text that is not UTF-8.
func sampleSets(label string) []dns.RRSet {
	return []dns.RRSet{
		{Name: label + " name", Type: dns.TXT, TTL: 7, Values: []string{"\xff\x00", label}},
		{Name: label + " second name", Type: "CAA", TTL: 8, Values: []string{label + " value"}, Veiled: true},
	}
}

// dnsOverWire serves p with gRPC in memory and returns a client of that server. The server calls
// onConnection with the connection of each call.
func dnsOverWire(t *testing.T, p ports.DNSProvider, onConnection func(Connection)) ports.DNSProvider {
	t.Helper()
	server := newServer(slog.New(slog.DiscardHandler), Description{})
	proto.RegisterDNSProviderServer(server, &dnsServer{newProvider: func(c Connection) (ports.DNSProvider, error) {
		onConnection(c)
		return p, nil
	}})
	conn := connectInMemory(t, server)
	return DNSClient(func(context.Context, ...secret.Text) (Session, error) {
		return Session{Process: &Process{conn: conn}, Connection: connection}, nil
	})
}

func TestEveryDNSMethodCrossesTheWire(t *testing.T) {
	served, direct := &recordingDNS{}, &recordingDNS{}
	var received Connection
	remote := dnsOverWire(t, served, func(c Connection) { received = c })
	methods := 0
	for m := range reflect.TypeFor[ports.DNSProvider]().Methods() {
		methods++
		t.Run(m.Name, func(t *testing.T) {
			args := arguments(t, m.Type)
			if m.Name == "Apply" {
				args[2] = reflect.ValueOf([]dns.Change{{Before: sampleSets("before")[0], After: sampleSets("after")[0]}, {After: sampleSets("created")[1]}})
			}
			assertSameAnswer(t, m.Name, args, remote, direct)
			if served.lastCall != direct.lastCall || !strings.HasPrefix(served.lastCall, m.Name) {
				t.Errorf("the provider behind the wire received\n%s, want, as in a direct call,\n%s", served.lastCall, direct.lastCall)
			}
		})
	}
	if methods != 4 || received.Fingerprint() != connection.Fingerprint() {
		t.Fatalf("%d methods were called, want 4; the plugin received a connection with the settings %v, want %v", methods, received.Settings, connection.Settings)
	}
}

func TestZoneRefusalsCrossTheWire(t *testing.T) {
	served := &recordingDNS{}
	remote := dnsOverWire(t, served, func(Connection) {})
	served.err = fmt.Errorf("apply: %w", dns.ChangedError())
	if _, err := remote.Apply(t.Context(), dns.Zone{}, nil); !dns.IsChanged(err) || !outcome.ChangedNothing(err) {
		t.Errorf("got %v, want the error of a changed zone", err)
	}
	served.err = dns.NoZoneError()
	if _, err := remote.Zone(t.Context(), "a.test"); !dns.IsNoZone(err) {
		t.Errorf("got %v, want the error of a missing zone", err)
	}
}
