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
	addSet := func(name string, recordType dns.Type, value string) {
		read.Sets = append(read.Sets, dns.RRSet{Name: name, Type: recordType, Values: []string{value}})
	}
	if spf {
		addSet("a.test", dns.TXT, platformSPF)
	}
	if dkim {
		addSet("selector1._domainkey.a.test", dns.CNAME, "selector1.keys.test")
		addSet("selector2._domainkey.a.test", dns.CNAME, "selector2.keys.test")
	}
	if mx {
		addSet("a.test", dns.MX, "0 "+platformMX)
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
	for _, tc := range []struct {
		name   string
		domain domain.Domain
		reads  []dns.ZoneRead
		want   domain.Health
	}{
		{"records that were never correct cannot drift", verifiedDomain(), []dns.ZoneRead{readWith(false, false, false)}, domain.Health{}},
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
		t.Run(tc.name, func(t *testing.T) {
			afterReads := tc.domain
			for i, read := range tc.reads {
				afterReads = afterReads.WithRead(read, time.Unix(int64(i+1), 0), &dns.PlatformHosts{})
			}
			if diff := cmp.Diff(tc.want, afterReads.Health); diff != "" {
				t.Fatal(diff)
			}
			if !afterReads.CheckedAt.Equal(time.Unix(int64(len(tc.reads)), 0)) {
				t.Fatalf("CheckedAt is %s, want the time of the last read", afterReads.CheckedAt)
			}
		})
	}
}

func TestUnreliableReadKeepsStatus(t *testing.T) {
	d := verifiedDomain().WithRead(readWith(true, true, true), time.Unix(1, 0), &dns.PlatformHosts{})
	after := d.WithRead(unreliable(readWith(false, false, false)), time.Unix(2, 0), &dns.PlatformHosts{})
	if after.Status != d.Status || after.Status.SPF != platformSPF || after.Status.DKIM != dns.DKIMHealthy || after.Status.MX != platformMX+"." {
		t.Fatalf("got the status %+v, after an unreliable read %+v; want the published records in both", d.Status, after.Status)
	}
}

// TestDriftFollowsTheReliableReads checks that a kind of records has drifted if it was correct in a
// reliable read and is not correct in the last reliable read.
func TestDriftFollowsTheReliableReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		afterReads := verifiedDomain()
		var everCorrect, lastCorrect [3]bool
		for i := range rapid.IntRange(1, 12).Draw(t, "reads") {
			correct := [3]bool{rapid.Bool().Draw(t, "spf"), rapid.Bool().Draw(t, "dkim"), rapid.Bool().Draw(t, "mx")}
			read := readWith(correct[0], correct[1], correct[2])
			if rapid.Bool().Draw(t, "unreliable") {
				read = unreliable(read)
			} else {
				lastCorrect = correct
				for kindIndex := range everCorrect {
					everCorrect[kindIndex] = everCorrect[kindIndex] || correct[kindIndex]
				}
			}
			afterReads = afterReads.WithRead(read, time.Unix(int64(i), 0), &dns.PlatformHosts{})
		}
		var want domain.Health
		for kindIndex, kind := range domain.Drifts {
			if everCorrect[kindIndex] {
				want.EverCorrect = append(want.EverCorrect, kind)
			}
			if everCorrect[kindIndex] && !lastCorrect[kindIndex] {
				want.Drifted = append(want.Drifted, kind)
			}
		}
		if diff := cmp.Diff(want, afterReads.Health); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestADomainIsDueHalfADayAfterItsRead(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for name, tc := range map[string]struct {
		domain  domain.Domain
		wantDue bool
	}{
		"never read":                          {domain.Domain{Verified: true}, true},
		"read a whole interval ago":           {domain.Domain{Verified: true, CheckedAt: now.Add(-domain.RereadInterval)}, true},
		"read half an interval ago":           {domain.Domain{Verified: true, CheckedAt: now.Add(-domain.RereadInterval / 2)}, true},
		"read less than half an interval ago": {domain.Domain{Verified: true, CheckedAt: now.Add(time.Second - domain.RereadInterval/2)}, false},
		"not verified":                        {domain.Domain{}, false},
	} {
		if got := tc.domain.IsDue(now); got != tc.wantDue {
			t.Errorf("%s: due is %t, want %t", name, got, tc.wantDue)
		}
	}
}

// TestReadsPerTickCoverAllDomains checks that ReadsPerTick returns the smallest number with which
// all domains are read in one RereadInterval.
func TestReadsPerTickCoverAllDomains(t *testing.T) {
	const tick = 5 * time.Minute
	for _, domains := range []int{0, 1, 287, 288, 289, 10_000, 1_000_000} {
		reads, ticks := domain.ReadsPerTick(domains, tick), int(domain.RereadInterval/tick)
		if reads*ticks < domains || (reads-1)*ticks >= domains && domains > 0 || domains == 0 && reads != 0 {
			t.Errorf("%d of %d domains in each of %d ticks, want the smallest sufficient number", reads, domains, ticks)
		}
	}
}
