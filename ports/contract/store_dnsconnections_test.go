// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/dnsconnection"
	"github.com/tenantry/tenantry/ports"
)

// Each of these types breaks one promise of ports.DNSConnections or ports.DNSWrites.
type (
	anybodysDNS     struct{ dnsConnectionsPort } // finds foreign connections
	youngestDNS     struct{ dnsConnectionsPort }
	undeadDNS       struct{ dnsConnectionsPort } // returns removed connections
	staleDNSTest    struct{ dnsConnectionsPort }
	toldTwiceDNS    struct{ dnsConnectionsPort } // every remover wins
	textualDNS      struct{ dnsWritesPort }      // changes bytes that are not valid UTF-8
	firstWriteStays struct{ dnsWritesPort }
	strangersWrite  struct{ dnsWritesPort }
	purposeless     struct{ dnsWritesPort }
	closedKeepsDNS  struct{ accountsPort }
)

func (b anybodysDNS) DNSConnection(ctx context.Context, _ access.AccountID, id string) (dnsconnection.Connection, []byte, error) {
	return b.dnsConnectionsPort.DNSConnection(ctx, "", id)
}

func (b youngestDNS) DNSConnections(ctx context.Context, owner access.AccountID) ([]dnsconnection.Connection, error) {
	all, err := b.dnsConnectionsPort.DNSConnections(ctx, owner)
	slices.Reverse(all)
	return all, err
}

func (b undeadDNS) RemoveDNSConnection(ctx context.Context, id string) (dnsconnection.Connection, error) {
	c, _, err := b.DNSConnection(ctx, "", id)
	return c, err
}

func (b staleDNSTest) SaveDNSConnectionTest(ctx context.Context, c dnsconnection.Connection) error {
	before, _, err := b.DNSConnection(ctx, c.AccountID, c.ID)
	if err == nil {
		c.Status = before.Status
	}
	return b.dnsConnectionsPort.SaveDNSConnectionTest(ctx, c)
}

func (b toldTwiceDNS) RemoveDNSConnection(ctx context.Context, id string) (dnsconnection.Connection, error) {
	c, err := b.dnsConnectionsPort.RemoveDNSConnection(ctx, id)
	if err != nil && id == dnsConnectionID(1) {
		return c, nil
	}
	return c, err
}

func (b textualDNS) SaveWritten(ctx context.Context, owner access.AccountID, domainID string, written []dns.Written) error {
	written = slices.Clone(written)
	for i, w := range written {
		written[i].Value = strings.ToValidUTF8(w.Value, "?")
	}
	return b.dnsWritesPort.SaveWritten(ctx, owner, domainID, written)
}

func (b firstWriteStays) SaveWritten(ctx context.Context, owner access.AccountID, domainID string, written []dns.Written) error {
	before, err := b.Written(ctx, owner, domainID)
	if err != nil {
		return err
	}
	return b.dnsWritesPort.SaveWritten(ctx, owner, domainID, append(slices.Clone(written), before...))
}

func (b strangersWrite) SaveWritten(ctx context.Context, owner access.AccountID, domainID string, written []dns.Written) error {
	_ = b.dnsWritesPort.SaveWritten(ctx, owner, domainID, written)
	return nil
}

func (b purposeless) Written(ctx context.Context, owner access.AccountID, domainID string) ([]dns.Written, error) {
	all, err := b.dnsWritesPort.Written(ctx, owner, domainID)
	for i := range all {
		all[i].Purpose = dns.Sending
	}
	return all, err
}

// closedKeepsDNS does not count the DNS connections that closing an account removes.
func (b closedKeepsDNS) CloseAccount(ctx context.Context, id access.AccountID, now time.Time, _ ...string) (ports.Closing, error) {
	done, err := b.accountsPort.CloseAccount(ctx, id, now)
	done.DNSConnectionsRemoved = 0
	return done, err
}

func TestDNSStoreSuitesDetectBrokenPromises(t *testing.T) {
	store := reusedStore(t)
	for name, b := range map[string]struct {
		suite        []storeCheck
		breakPromise func(Stores) Stores
	}{
		"a foreign connection is found":        {dnsConnectionChecks, func(s Stores) Stores { return withPort(s, anybodysDNS{s}) }},
		"the youngest is listed first":         {dnsConnectionChecks, func(s Stores) Stores { return withPort(s, youngestDNS{s}) }},
		"a removed connection stays":           {dnsConnectionChecks, func(s Stores) Stores { return withPort(s, undeadDNS{s}) }},
		"a test leaves the status":             {dnsConnectionChecks, func(s Stores) Stores { return withPort(s, staleDNSTest{s}) }},
		"every remover succeeds":               {dnsConnectionChecks, func(s Stores) Stores { return withPort(s, toldTwiceDNS{s}) }},
		"closing does not count":               {dnsConnectionChecks, func(s Stores) Stores { return withPort(s, closedKeepsDNS{s}) }},
		"values are stored as text":            {dnsWriteChecks, func(s Stores) Stores { return withPort(s, textualDNS{s}) }},
		"the first write is kept":              {dnsWriteChecks, func(s Stores) Stores { return withPort(s, firstWriteStays{s}) }},
		"a foreign domain has written records": {dnsWriteChecks, func(s Stores) Stores { return withPort(s, strangersWrite{s}) }},
		"purposes are lost":                    {dnsWriteChecks, func(s Stores) Stores { return withPort(s, purposeless{s}) }},
	} {
		t.Run(name, func(t *testing.T) { requireDetected(t, store, b.suite, b.breakPromise) })
	}
}
