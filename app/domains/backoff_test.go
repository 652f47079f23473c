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

// answers is a DNS reader. The name servers of a domain answer if its value is true.
type answers map[string]bool

func (a answers) Read(_ context.Context, _ access.AccountID, name string, _ ...dns.Desired) (dns.ZoneRead, error) {
	return dns.ZoneRead{Domain: name, Complete: a[name], Servers: serversThat(a[name])}, nil
}

func serversThat(answer bool) []dns.Server {
	if answer {
		return []dns.Server{{Name: "ns", State: dns.ServerOK}}
	}
	return []dns.Server{{Name: "ns", State: dns.ServerUnreachable}}
}

// TestOneAccountCannotStopTheChecks checks that name servers of one account that stop answering do
// not stop the checks while a domain of a different account answers. This holds even if the domain
// that answered last is among those that stop.
func TestOneAccountCannotStopTheChecks(t *testing.T) {
	now := time.Now()
	published := answers{"ann.test": true, "eve.test": true, "eve2.test": true}
	w := &Watch{DNS: published, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)}
	read := func(owner access.AccountID, name string) {
		zoneRead, _ := published.Read(t.Context(), owner, name)
		w.detectOutage(t.Context(), owner, zoneRead)
	}
	read("ann", "ann.test")
	read("eve", "eve.test")
	read("eve", "eve2.test")
	published["eve.test"], published["eve2.test"] = false, false
	for range 2 * maxSilentReads {
		read("eve", "eve.test")
	}
	if w.backoff.isActive(now) {
		t.Fatal("the silent domains of one account stop the checks of all")
	}
	published["ann.test"] = false
	for range maxSilentReads {
		read("eve", "eve.test")
	}
	if !w.backoff.isActive(now) {
		t.Fatal("the checks continue although no domain answers")
	}
}
