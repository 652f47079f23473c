// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
)

// nameServers is a DNS reader. It maps each domain to whether its name servers answer.
type nameServers map[string]bool

func (n nameServers) Read(_ context.Context, _ access.AccountID, name string, _ ...dns.Desired) (dns.ZoneRead, error) {
	return dns.ZoneRead{Domain: name, Complete: n[name], Servers: serversOf(n[name])}, nil
}

// serversOf returns one name server that answers, or one that does not.
func serversOf(answer bool) []dns.Server {
	if answer {
		return []dns.Server{{Name: "ns", State: dns.ServerOK}}
	}
	return []dns.Server{{Name: "ns", State: dns.ServerUnreachable}}
}

// TestOneAccountCannotStopTheChecks lets all name servers of one account stop answering, including
// those of the domains that answered last. The checks continue while a domain of a different
// account answers.
func TestOneAccountCannotStopTheChecks(t *testing.T) {
	now := time.Now()
	servers := nameServers{"ann.test": true, "eve.test": true, "eve2.test": true}
	watch := &Watch{DNS: servers, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)}
	read := func(owner access.AccountID, name string) {
		zoneRead, _ := servers.Read(t.Context(), owner, name)
		watch.detectOutage(t.Context(), owner, zoneRead)
	}
	read("ann", "ann.test")
	read("eve", "eve.test")
	read("eve", "eve2.test")
	servers["eve.test"], servers["eve2.test"] = false, false
	for range 2 * maxSilentReads {
		read("eve", "eve.test")
	}
	if watch.backoff.stopsAll(now) {
		t.Fatal("the silent domains of one account stop the checks of all accounts")
	}
	servers["ann.test"] = false
	for range maxSilentReads {
		read("eve", "eve.test")
	}
	if !watch.backoff.stopsAll(now) {
		t.Fatal("the checks continue although no domain answers")
	}
}

// TestOneAccountCannotStopTheChecksAfterARestart checks a new process that first reads only domains
// of one account, whose name servers do not answer. Only the checks of this account stop, until a
// read of a different account has no answer either.
func TestOneAccountCannotStopTheChecksAfterARestart(t *testing.T) {
	now := time.Now()
	watch := &Watch{Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)}
	silentRead := dns.ZoneRead{Servers: serversOf(false)}
	for range maxSilentReads {
		watch.detectOutage(t.Context(), "eve", silentRead)
	}
	if !watch.backoff.stops("eve", now) || watch.backoff.stops("ann", now) || watch.backoff.stopsAll(now) {
		t.Fatal("the checks of other accounts stop, or those of the silent account continue")
	}
	watch.detectOutage(t.Context(), "ann", silentRead)
	if !watch.backoff.stopsAll(now) {
		t.Fatal("the checks continue although the domains of both accounts do not answer")
	}
}
