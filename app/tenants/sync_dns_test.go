// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/ports"
)

// interceptedDNS passes each successful DNS read to a function, which can change the read or fail.
type interceptedDNS struct {
	ports.DNSReader
	intercept func(ctx context.Context, read dns.ZoneRead) (dns.ZoneRead, error)
}

func (r interceptedDNS) Read(ctx context.Context, owner access.AccountID, name string, wanted ...dns.Desired) (dns.ZoneRead, error) {
	read, err := r.DNSReader.Read(ctx, owner, name, wanted...)
	if err != nil {
		return read, err
	}
	return r.intercept(ctx, read)
}

// TestSyncRefreshesTheStatuses checks that verified and unverified domains show the current DNS
// after a sync.
func TestSyncRefreshesTheStatuses(t *testing.T) {
	fx := newConnectedFixture(t, fake.Setup{})
	fx.addPlatformObjects(t)
	fx.sync(t)
	domains, _ := fx.storedObjects(t)
	for _, d := range domains {
		fx.platform.DNS.Publish(d.Name,
			dns.Record{Type: dns.MX, Name: d.Name, Content: "mx.new.test", Preference: 7},
			dns.Record{Type: dns.TXT, Name: d.Name, Content: "v=spf1 a ~all"},
			dns.Record{Type: dns.TXT, Name: "_dmarc." + d.Name, Content: "v=DMARC1; p=reject"},
			d.Signing.Selector1, d.Signing.Selector2)
	}
	fx.now = fx.now.Add(time.Hour)
	fx.sync(t)
	for i, d := range domainsOf(fx.storedObjects(t)) {
		want := dns.Status{MX: "mx.new.test.", SPF: "v=spf1 a ~all", DMARC: "v=DMARC1; p=reject", DKIM: dns.Missing}
		if d.Verified {
			want.DKIM = dns.DKIMHealthy
		}
		if diff := cmp.Diff(want, d.Status); diff != "" || !d.CheckedAt.Equal(fx.now) {
			t.Errorf("the status of %s was read at %s, want %s (-want +got): %s", d.Name, d.CheckedAt, fx.now, diff)
		}
		fx.platform.DNS.Publish(domains[i].Name)
	}
	fx.sync(t)
	for _, d := range domainsOf(fx.storedObjects(t)) {
		if diff := cmp.Diff(dns.Status{MX: dns.Missing, SPF: dns.Missing, DMARC: dns.Missing, DKIM: dns.Missing}, d.Status); diff != "" {
			t.Errorf("the status of %s without records (-want +got): %s", d.Name, diff)
		}
	}
}

// domainsOf returns the first result of storedObjects.
func domainsOf(domains []domain.Domain, _ any) []domain.Domain { return domains }

// TestUnreliableDNSReadOverwritesNoStoredValue checks that an unreliable DNS read does not
// overwrite stored values, but fills in missing values.
func TestUnreliableDNSReadOverwritesNoStoredValue(t *testing.T) {
	fx := newConnectedFixture(t, fake.Setup{})
	fx.addPlatformObjects(t)
	fx.sync(t)
	domainsBefore, _ := fx.storedObjects(t)
	fx.platform.DNS.FailReads("no_authoritative_answer")
	fx.sync(t)
	fx.platform.DNS.FailReads("")
	fx.platform.DNS.Publish("one.test", dns.Record{Type: dns.TXT, Name: "one.test", Content: "v=spf1 +all"}, dns.Record{Type: dns.MX, Name: "one.test", Content: "mx.other.test"},
		dns.Record{Type: dns.TXT, Name: "_dmarc.one.test", Content: "v=DMARC1; p=quarantine"})
	fx.Reconciler.DNS = interceptedDNS{fx.platform.DNS, func(_ context.Context, read dns.ZoneRead) (dns.ZoneRead, error) {
		read.Complete, read.Reason = false, "single_server_answered"
		return read, nil
	}}
	fx.sync(t)
	domainsAfter, _ := fx.storedObjects(t)
	if domainsBefore[0].Status.SPF == dns.Missing || domainsBefore[0].Status.DMARC == dns.Missing {
		t.Fatalf("the first sync stored no records: %+v", domainsBefore[0].Status)
	}
	if domainsAfter[0].Status.SPF != domainsBefore[0].Status.SPF || domainsAfter[0].Status.DMARC != domainsBefore[0].Status.DMARC {
		t.Errorf("the status is %+v, want SPF and DMARC of %+v", domainsAfter[0].Status, domainsBefore[0].Status)
	}
	if domainsAfter[0].Status.MX != "mx.other.test." {
		t.Errorf("the status is %+v, want the MX of the incomplete read", domainsAfter[0].Status)
	}
}

// TestNextSyncBeginsWithTheUnreadDomains checks that a sync ends at its time limit, and that the
// next sync begins with the domains that the earlier sync did not read.
func TestNextSyncBeginsWithTheUnreadDomains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newConnectedFixture(t, fake.Setup{})
		fx.Timeout = 1500 * time.Millisecond
		for i := range 20 {
			if _, err := fx.platform.For(guid).AddDomain(t.Context(), fmt.Sprintf("d%02d.test", i)); err != nil {
				t.Fatal(err)
			}
		}
		const readsInTime = 6
		var (
			mu        sync.Mutex
			readNames []string
		)
		fx.Reconciler.DNS = interceptedDNS{fx.platform.DNS, func(ctx context.Context, read dns.ZoneRead) (dns.ZoneRead, error) {
			mu.Lock()
			readNames = append(readNames, read.Domain)
			readCount := len(readNames)
			mu.Unlock()
			if readCount <= readsInTime {
				return read, nil
			}
			<-ctx.Done()
			return read, ctx.Err()
		}}
		start := time.Now()
		fx.sync(t)
		if elapsed := time.Since(start); elapsed > fx.Timeout || len(readNames) < readsInTime || len(readNames) > 2*readsInTime {
			t.Fatalf("%d reads in %s, want %d to %d reads in %s", len(readNames), elapsed, readsInTime, 2*readsInTime, fx.Timeout)
		}
		readFirst := slices.Clone(readNames[:readsInTime])
		readNames = nil
		fx.sync(t)
		for _, name := range readNames[:readsInTime] {
			if slices.Contains(readFirst, name) {
				t.Errorf("%s was read again before the domains that the earlier sync did not read", name)
			}
		}
	})
}
