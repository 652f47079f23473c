// SPDX-License-Identifier: Apache-2.0

package domain_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
)

const (
	platformSPF = "v=spf1 include:spf.protection.outlook.com -all"
	platformMX  = "a-test.mail.protection.outlook.com"
)

// verifiedDomain returns a verified domain for which the platform has specified the SPF, MX and
// DKIM records.
func verifiedDomain() domain.Domain {
	selectorRecord := func(name string) dns.Record {
		return dns.Record{Type: dns.CNAME, Name: name + "._domainkey.a.test", Content: name + ".keys.test"}
	}
	return domain.Domain{
		Name: "a.test", Added: true, Verified: true,
		Service: []dns.Record{{Type: dns.MX, Name: "a.test", Content: platformMX}, {Type: dns.TXT, Name: "a.test", Content: platformSPF}},
		Signing: dns.Signing{Selector1: selectorRecord("selector1"), Selector2: selectorRecord("selector2")},
	}
}

// readWith returns a reliable read of a zone. Each argument says whether the zone has the correct
// SPF, DKIM or MX records.
func readWith(spf, dkim, mx bool) dns.ZoneRead {
	read := dns.ZoneRead{Domain: "a.test", Zone: "a.test", Complete: true}
	add := func(name string, recordType dns.Type, value string) {
		read.Sets = append(read.Sets, dns.RRSet{Name: name, Type: recordType, Values: []string{value}})
	}
	if spf {
		add("a.test", dns.TXT, platformSPF)
	}
	if dkim {
		add("selector1._domainkey.a.test", dns.CNAME, "selector1.keys.test")
		add("selector2._domainkey.a.test", dns.CNAME, "selector2.keys.test")
	}
	if mx {
		add("a.test", dns.MX, "0 "+platformMX)
	}
	return read
}

// unreliable returns read, marked as incomplete because the servers disagree.
func unreliable(read dns.ZoneRead) dns.ZoneRead {
	read.Complete, read.Reason = false, "servers_disagree"
	return read
}

func TestDriftNeedsAnEarlierCorrectRecord(t *testing.T) {
	allDrifts := []domain.Drift{domain.SPFGone, domain.DKIMBroken, domain.MXMoved}
	unverified, unspecified := verifiedDomain(), verifiedDomain()
	unverified.Verified, unspecified.Service = false, nil
	for _, tt := range []struct {
		name   string
		domain domain.Domain
		reads  []dns.ZoneRead
		want   domain.Health
	}{
		{"records that were never right cannot drift", verifiedDomain(), []dns.ZoneRead{readWith(false, false, false)}, domain.Health{}},
		{"all records are right", verifiedDomain(), []dns.ZoneRead{readWith(true, true, true)}, domain.Health{EverCorrect: allDrifts}},
		{"SPF removed", verifiedDomain(), []dns.ZoneRead{readWith(true, true, true), readWith(false, true, true)}, domain.Health{EverCorrect: allDrifts, Drifted: []domain.Drift{domain.SPFGone}}},
		{"DKIM breaks", verifiedDomain(), []dns.ZoneRead{readWith(true, true, true), readWith(true, false, true)}, domain.Health{EverCorrect: allDrifts, Drifted: []domain.Drift{domain.DKIMBroken}}},
		{"the MX moves", verifiedDomain(), []dns.ZoneRead{readWith(true, true, true), readWith(true, true, false)}, domain.Health{EverCorrect: allDrifts, Drifted: []domain.Drift{domain.MXMoved}}},
		{"all records wrong, twice", verifiedDomain(), []dns.ZoneRead{readWith(true, true, true), readWith(false, false, false), readWith(false, false, false)}, domain.Health{EverCorrect: allDrifts, Drifted: allDrifts}},
		{"SPF and DKIM are right again", verifiedDomain(), []dns.ZoneRead{readWith(true, true, true), readWith(false, false, false), readWith(true, true, false)}, domain.Health{EverCorrect: allDrifts, Drifted: allDrifts[2:]}},
		{"an unreliable read detects no drift", verifiedDomain(), []dns.ZoneRead{readWith(true, true, true), unreliable(readWith(false, false, false))}, domain.Health{EverCorrect: allDrifts}},
		{"an unreliable read ends no drift", verifiedDomain(), []dns.ZoneRead{readWith(true, true, true), readWith(false, true, true), unreliable(readWith(true, true, true))}, domain.Health{EverCorrect: allDrifts, Drifted: allDrifts[:1]}},
		{"a domain that is not verified", unverified, []dns.ZoneRead{readWith(true, true, true), readWith(false, true, true)}, domain.Health{}},
		{"records that the platform has not specified", unspecified, []dns.ZoneRead{readWith(true, true, true), readWith(false, true, false)}, domain.Health{EverCorrect: allDrifts[1:2]}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := tt.domain
			for i, read := range tt.reads {
				d = d.WithRead(read, time.Unix(int64(i+1), 0), &dns.PlatformHosts{})
			}
			if diff := cmp.Diff(tt.want, d.Health); diff != "" {
				t.Fatal(diff)
			}
			if !d.CheckedAt.Equal(time.Unix(int64(len(tt.reads)), 0)) {
				t.Fatalf("CheckedAt is %s, want the time of the last read", d.CheckedAt)
			}
		})
	}
}

func TestUnreliableReadKeepsStatus(t *testing.T) {
	d := verifiedDomain().WithRead(readWith(true, true, true), time.Unix(1, 0), &dns.PlatformHosts{})
	after := d.WithRead(unreliable(readWith(false, false, false)), time.Unix(2, 0), &dns.PlatformHosts{})
	if after.Status != d.Status || after.Status.SPF != platformSPF || after.Status.DKIM != dns.DKIMHealthy || after.Status.MX != platformMX+"." {
		t.Fatalf("an unreliable read changes the status, or the status was wrong before: %+v, then %+v", d.Status, after.Status)
	}
}

// TestDriftOverReads checks that a kind of records has drifted if it was correct in a reliable read
// and is not correct in the last reliable read.
func TestDriftOverReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := verifiedDomain()
		var everRight, lastRight [3]bool
		for i := range rapid.IntRange(1, 12).Draw(t, "reads") {
			right := [3]bool{rapid.Bool().Draw(t, "spf"), rapid.Bool().Draw(t, "dkim"), rapid.Bool().Draw(t, "mx")}
			read := readWith(right[0], right[1], right[2])
			if rapid.Bool().Draw(t, "unreliable") {
				read = unreliable(read)
			} else {
				lastRight = right
				for k := range everRight {
					everRight[k] = everRight[k] || right[k]
				}
			}
			d = d.WithRead(read, time.Unix(int64(i), 0), &dns.PlatformHosts{})
		}
		var want domain.Health
		for k, kind := range domain.Drifts {
			if everRight[k] {
				want.EverCorrect = append(want.EverCorrect, kind)
			}
			if everRight[k] && !lastRight[k] {
				want.Drifted = append(want.Drifted, kind)
			}
		}
		if diff := cmp.Diff(want, d.Health); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestADomainIsDueHalfADayAfterItsRead(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for name, tt := range map[string]struct {
		d   domain.Domain
		due bool
	}{
		"never read":                          {domain.Domain{Verified: true}, true},
		"read a whole interval ago":           {domain.Domain{Verified: true, CheckedAt: now.Add(-domain.RereadInterval)}, true},
		"read half an interval ago":           {domain.Domain{Verified: true, CheckedAt: now.Add(-domain.RereadInterval / 2)}, true},
		"read less than half an interval ago": {domain.Domain{Verified: true, CheckedAt: now.Add(time.Second - domain.RereadInterval/2)}, false},
		"not verified":                        {domain.Domain{}, false},
	} {
		if got := tt.d.IsDue(now); got != tt.due {
			t.Errorf("%s: due is %t, want %t", name, got, tt.due)
		}
	}
}

// TestReadsPerTickCoverAllDomains checks that ReadsPerTick is large enough to read all domains in
// one RereadInterval, and that a smaller number is not.
func TestReadsPerTickCoverAllDomains(t *testing.T) {
	const tick = 5 * time.Minute
	for _, n := range []int{0, 1, 287, 288, 289, 10_000, 1_000_000} {
		reads, ticks := domain.ReadsPerTick(n, tick), int(domain.RereadInterval/tick)
		if reads*ticks < n || (reads-1)*ticks >= n && n > 0 || n == 0 && reads != 0 {
			t.Errorf("%d of %d domains in each of %d ticks is not the smallest sufficient number", reads, n, ticks)
		}
	}
}
