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
	sends = "v=spf1 include:spf.protection.outlook.com -all"
	takes = "a-test.mail.protection.outlook.com"
)

// settled is a verified domain of which the platform has named all records.
func settled() domain.Domain {
	key := func(name string) dns.Record {
		return dns.Record{Type: dns.CNAME, Name: name + "._domainkey.a.test", Content: name + ".keys.test"}
	}
	return domain.Domain{
		Name: "a.test", Added: true, Verified: true,
		Service: []dns.Record{{Type: dns.MX, Name: "a.test", Content: takes}, {Type: dns.TXT, Name: "a.test", Content: sends}},
		Signing: dns.Signing{Selector1: key("selector1"), Selector2: key("selector2")},
	}
}

// seen is a reliable read of a zone with these parts.
func seen(spf, dkim, mx bool) dns.Sight {
	s := dns.Sight{Domain: "a.test", Zone: "a.test", Complete: true}
	add := func(name string, of dns.Type, value string) {
		s.Sets = append(s.Sets, dns.RRSet{Name: name, Type: of, Values: []string{value}})
	}
	if spf {
		add("a.test", dns.TXT, sends)
	}
	if dkim {
		add("selector1._domainkey.a.test", dns.CNAME, "selector1.keys.test")
		add("selector2._domainkey.a.test", dns.CNAME, "selector2.keys.test")
	}
	if mx {
		add("a.test", dns.MX, "0 "+takes)
	}
	return s
}

func unreliable(s dns.Sight) dns.Sight {
	s.Complete, s.Reason = false, "servers_disagree"
	return s
}

func TestDrift(t *testing.T) {
	all := []domain.Drift{domain.SPFGone, domain.DKIMBroken, domain.MXMoved}
	unverified, unnamed := settled(), settled()
	unverified.Verified, unnamed.Service = false, nil
	for _, tt := range []struct {
		name   string
		domain domain.Domain
		reads  []dns.Sight
		want   domain.Health
	}{
		{"what was never right cannot drift", settled(), []dns.Sight{seen(false, false, false)}, domain.Health{}},
		{"all right", settled(), []dns.Sight{seen(true, true, true)}, domain.Health{Sound: all}},
		{"SPF goes", settled(), []dns.Sight{seen(true, true, true), seen(false, true, true)}, domain.Health{Sound: all, Drifted: []domain.Drift{domain.SPFGone}}},
		{"DKIM breaks", settled(), []dns.Sight{seen(true, true, true), seen(true, false, true)}, domain.Health{Sound: all, Drifted: []domain.Drift{domain.DKIMBroken}}},
		{"the MX moves", settled(), []dns.Sight{seen(true, true, true), seen(true, true, false)}, domain.Health{Sound: all, Drifted: []domain.Drift{domain.MXMoved}}},
		{"all of it, and it stays so", settled(), []dns.Sight{seen(true, true, true), seen(false, false, false), seen(false, false, false)}, domain.Health{Sound: all, Drifted: all}},
		{"it comes back", settled(), []dns.Sight{seen(true, true, true), seen(false, false, false), seen(true, true, false)}, domain.Health{Sound: all, Drifted: all[2:]}},
		{"an unreliable read finds none", settled(), []dns.Sight{seen(true, true, true), unreliable(seen(false, false, false))}, domain.Health{Sound: all}},
		{"an unreliable read ends none", settled(), []dns.Sight{seen(true, true, true), seen(false, true, true), unreliable(seen(true, true, true))}, domain.Health{Sound: all, Drifted: all[:1]}},
		{"a domain that is not verified", unverified, []dns.Sight{seen(true, true, true), seen(false, true, true)}, domain.Health{}},
		{"records that the platform has not named", unnamed, []dns.Sight{seen(true, true, true), seen(false, true, false)}, domain.Health{Sound: all[1:2]}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := tt.domain
			for i, s := range tt.reads {
				d = d.Looked(s, time.Unix(int64(i+1), 0))
			}
			if diff := cmp.Diff(tt.want, d.Health); diff != "" {
				t.Fatal(diff)
			}
			if !d.CheckedAt.Equal(time.Unix(int64(len(tt.reads)), 0)) {
				t.Fatalf("checked at %s", d.CheckedAt)
			}
		})
	}
}

func TestAnUnreliableReadKeepsTheStatus(t *testing.T) {
	d := settled().Looked(seen(true, true, true), time.Unix(1, 0))
	after := d.Looked(unreliable(seen(false, false, false)), time.Unix(2, 0))
	if after.Status != d.Status || after.Status.SPF != sends || after.Status.DKIM != dns.DKIMHealthy || after.Status.MX != takes+"." {
		t.Fatalf("%+v, then %+v", d.Status, after.Status)
	}
}

// What has drifted was right once, whatever the reads.
func TestDriftOverReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := settled()
		var once, last [3]bool
		for i := range rapid.IntRange(1, 12).Draw(t, "reads") {
			is := [3]bool{rapid.Bool().Draw(t, "spf"), rapid.Bool().Draw(t, "dkim"), rapid.Bool().Draw(t, "mx")}
			s := seen(is[0], is[1], is[2])
			if rapid.Bool().Draw(t, "unreliable") {
				s = unreliable(s)
			} else {
				last = is
				for k := range once {
					once[k] = once[k] || is[k]
				}
			}
			d = d.Looked(s, time.Unix(int64(i), 0))
		}
		var want domain.Health
		for k, kind := range domain.Drifts {
			if once[k] {
				want.Sound = append(want.Sound, kind)
			}
			if once[k] && !last[k] {
				want.Drifted = append(want.Drifted, kind)
			}
		}
		if diff := cmp.Diff(want, d.Health); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestDue(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for name, tt := range map[string]struct {
		d    domain.Domain
		want bool
	}{
		"never read":      {domain.Domain{Verified: true}, true},
		"read yesterday":  {domain.Domain{Verified: true, CheckedAt: now.Add(-domain.Day)}, true},
		"read at noon":    {domain.Domain{Verified: true, CheckedAt: now.Add(-domain.Day / 2)}, true},
		"read since then": {domain.Domain{Verified: true, CheckedAt: now.Add(time.Second - domain.Day/2)}, false},
		"not verified":    {domain.Domain{}, false},
	} {
		if got := tt.d.Due(now); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The shares of a day's ticks reach all domains, and hardly more.
func TestShare(t *testing.T) {
	const tick = 5 * time.Minute
	for _, n := range []int{0, 1, 287, 288, 289, 10_000, 1_000_000} {
		share, ticks := domain.Share(n, tick), int(domain.Day/tick)
		if share*ticks < n || (share-1)*ticks >= n && n > 0 || n == 0 && share != 0 {
			t.Errorf("%d of %d domains in each of %d ticks", share, n, ticks)
		}
	}
}

func TestWith(t *testing.T) {
	was := settled()
	was.CheckedAt = time.Unix(1, 0)
	stored := was
	stored.Default, stored.MailReady, stored.CheckedAt = true, true, time.Unix(3, 0)
	stored.Status.SPF, stored.Health.Sound = sends, domain.Drifts
	now := was
	now.DKIM, now.Signing.Enabled, now.Verification = true, true, []dns.Record{{Name: "a.test"}}
	now.Signing.Selector2.Content = "other.keys.test"

	want := stored
	want.DKIM, want.Signing.Enabled, want.Verification = true, true, now.Verification
	want.Signing.Selector2.Content = "other.keys.test"
	if diff := cmp.Diff(want, stored.With(was, now)); diff != "" {
		t.Errorf("two changes side by side (-want +got):\n%s", diff)
	}
	now.CheckedAt, now.Status.SPF = time.Unix(2, 0), "v=spf1 -all"
	if diff := cmp.Diff(want, stored.With(was, now)); diff != "" {
		t.Errorf("an earlier look (-want +got):\n%s", diff)
	}
	now.CheckedAt = time.Unix(4, 0)
	want.CheckedAt, want.Status = now.CheckedAt, now.Status
	if diff := cmp.Diff(want, stored.With(was, now)); diff != "" {
		t.Errorf("a later look (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(stored, stored.With(now, now)); diff != "" {
		t.Errorf("no change (-want +got):\n%s", diff)
	}
}
