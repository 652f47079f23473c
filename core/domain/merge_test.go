// SPDX-License-Identifier: Apache-2.0

package domain_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/observation"
)

// observations are observations of one domain, in the order of their times.
func observations() []func(domain.Domain) domain.Domain {
	signing := func(content string, enabled bool) dns.Signing {
		return dns.Signing{Enabled: enabled, Selector1: dns.Record{Name: "one", Content: content}, Selector2: dns.Record{Name: "two"}}
	}
	return []func(domain.Domain) domain.Domain{
		func(d domain.Domain) domain.Domain { return d.As(domain.Platform{}, time.Unix(1, 0)) },
		func(d domain.Domain) domain.Domain {
			return d.As(domain.Platform{Verified: true, Default: true}, time.Unix(3, 0))
		},
		func(d domain.Domain) domain.Domain {
			d.MailReady, d.Observed.Mail = true, time.Unix(4, 0)
			return d
		},
		func(d domain.Domain) domain.Domain { return d.WithSigning(signing("old", false), time.Unix(5, 0)) },
		func(d domain.Domain) domain.Domain {
			d.DKIM, d.Signing.Enabled, d.Observed.Signing = true, true, time.Unix(6, 0)
			return d
		},
		func(d domain.Domain) domain.Domain {
			return d.WithRecords(domain.Records{Service: []dns.Record{{Name: "new"}}}, time.Unix(8, 0))
		},
	}
}

// TestMergeIsIndependentOfOrder merges observations into a stored domain in every order. All
// observations change copies of the same loaded domain.
func TestMergeIsIndependentOfOrder(t *testing.T) {
	loaded := domain.Domain{ID: "id", Name: "a.test", Added: true}
	want := loaded
	for _, observe := range observations() {
		want = observe(want)
	}
	all := observations()
	permute(len(all), func(order []int) {
		stored := loaded
		for _, i := range order {
			stored = stored.Merge(all[i](loaded))
		}
		if diff := cmp.Diff(want, stored); diff != "" {
			t.Fatalf("in the order %v (-want +got):\n%s", order, diff)
		}
	})
}

// permute calls visit with every order of n items.
func permute(n int, visit func([]int)) {
	order := make([]int, 0, n)
	used := make([]bool, n)
	var add func()
	add = func() {
		if len(order) == n {
			visit(order)
			return
		}
		for i := range n {
			if !used[i] {
				used[i], order = true, append(order, i)
				add()
				used[i], order = false, order[:len(order)-1]
			}
		}
	}
	add()
}

func TestUnverifiedDomainStartsOver(t *testing.T) {
	d := domain.Domain{Name: "a.test", Verified: true, Default: true, MailReady: true, DKIM: true, Signing: dns.Signing{Enabled: true}}
	want := domain.Domain{Name: "a.test", Added: true}
	at := time.Unix(9, 0)
	want.Observed = domain.Observed{State: at, Mail: at, Signing: at}
	if diff := cmp.Diff(want, d.Merge(d.As(domain.Platform{Default: true}, at))); diff != "" {
		t.Fatalf("removed and added again (-want +got):\n%s", diff)
	}
}

func TestDomainIsGoneAfterTwoMisses(t *testing.T) {
	verified := time.Unix(1000, 0)
	d := domain.Domain{Name: "a.test"}.As(domain.Platform{Verified: true}, verified)
	if missed, gone := d.Missed(verified.Add(-1)); gone || !missed.MissingSince.IsZero() {
		t.Fatalf("a miss before the verification: %+v", missed)
	}
	first := verified.Add(time.Minute)
	d, gone := d.Missed(first)
	if gone || !d.MissingSince.Equal(first) {
		t.Fatalf("the first miss: gone %v, %+v", gone, d)
	}
	if _, gone := d.Missed(first.Add(time.Minute)); gone {
		t.Fatal("gone a minute later")
	}
	if _, gone := d.Missed(first.Add(observation.ReplicaLag)); !gone {
		t.Fatal("not gone after the second miss")
	}
	if stale := d.Merge(d.As(domain.Platform{Verified: true}, verified)); !stale.MissingSince.Equal(first) {
		t.Fatal("a list older than the miss ends it")
	}
	if found := d.Merge(d.As(domain.Platform{Verified: true}, first.Add(1))); !found.MissingSince.IsZero() {
		t.Fatal("a newer list does not end the miss")
	}
}
