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

// observations returns functions that apply one observation each to a domain, ordered by the time
// of the observation.
func observations() []func(domain.Domain) domain.Domain {
	signing := func(content string, enabled bool) dns.Signing {
		return dns.Signing{Enabled: enabled, Selector1: dns.Record{Name: "one", Content: content}, Selector2: dns.Record{Name: "two"}}
	}
	return []func(domain.Domain) domain.Domain{
		func(d domain.Domain) domain.Domain { return d.WithPlatformState(domain.Platform{}, time.Unix(1, 0)) },
		func(d domain.Domain) domain.Domain {
			return d.WithPlatformState(domain.Platform{Verified: true, Default: true}, time.Unix(3, 0))
		},
		func(d domain.Domain) domain.Domain {
			d.MailReady, d.Observed.Mail = true, time.Unix(4, 0)
			return d
		},
		func(d domain.Domain) domain.Domain { return d.WithSigning(signing("old", false), time.Unix(5, 0)) },
		func(d domain.Domain) domain.Domain {
			d.DKIMEnabled, d.Signing.Enabled, d.Observed.Signing = true, true, time.Unix(6, 0)
			return d
		},
		func(d domain.Domain) domain.Domain {
			return d.WithRecords(domain.Records{Service: []dns.Record{{Name: "new"}}}, time.Unix(8, 0))
		},
	}
}

// TestMergeIsIndependentOfOrder merges observations into a stored domain in every order. Each
// observation changes a separate copy of the domain as it was loaded.
func TestMergeIsIndependentOfOrder(t *testing.T) {
	loaded := domain.Domain{ID: "id", Name: "a.test", Added: true}
	want := loaded
	for _, observe := range observations() {
		want = observe(want)
	}
	want.Observed.Change = time.Unix(3, 0) // the time of the verification
	changes := observations()
	permute(len(changes), func(order []int) {
		stored := loaded
		for _, i := range order {
			stored = stored.Merge(changes[i](loaded))
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
	var extend func()
	extend = func() {
		if len(order) == n {
			visit(order)
			return
		}
		for i := range n {
			if !used[i] {
				used[i], order = true, append(order, i)
				extend()
				used[i], order = false, order[:len(order)-1]
			}
		}
	}
	extend()
}

func TestUnverifiedDomainLosesMailAndSigning(t *testing.T) {
	verified := domain.Domain{Name: "a.test", Verified: true, Default: true, MailReady: true, DKIMEnabled: true, Signing: dns.Signing{Enabled: true}}
	want := domain.Domain{Name: "a.test", Added: true}
	readAt := time.Unix(9, 0)
	want.Observed = domain.Observed{State: readAt, Verified: readAt, Mail: readAt, Signing: readAt, Change: readAt}
	if diff := cmp.Diff(want, verified.Merge(verified.WithPlatformState(domain.Platform{Default: true}, readAt))); diff != "" {
		t.Fatalf("a domain that is unverified (-want +got):\n%s", diff)
	}
}

// TestLaggingReadDoesNotUnverifyADomain checks an unverified state that is read soon after a
// verification. The read may come from a lagging replica, so the domain stays verified. The read
// still sets Observed.Change, because the domain may have been removed and added again.
func TestLaggingReadDoesNotUnverifyADomain(t *testing.T) {
	verifiedAt := time.Unix(1000, 0)
	verified := domain.Domain{Name: "a.test"}.WithPlatformState(domain.Platform{Verified: true}, verifiedAt)
	verified.Observed.Verified = observation.HeldUntil(verifiedAt)
	verified.MailReady, verified.Observed.Mail = true, verifiedAt
	readAt := verifiedAt.Add(time.Minute)
	want := verified
	want.Observed.State, want.Observed.Change = readAt, readAt
	if diff := cmp.Diff(want, verified.Merge(verified.WithPlatformState(domain.Platform{}, readAt))); diff != "" {
		t.Fatalf("a minute later (-want +got):\n%s", diff)
	}
	afterLag := verifiedAt.Add(observation.ReplicaLag)
	if got := verified.Merge(verified.WithPlatformState(domain.Platform{}, afterLag)); got.Verified || got.MailReady {
		t.Fatalf("ReplicaLag after the verification the domain is still verified or ready for mail: %+v", got)
	}
}

// TestLaggingReadDoesNotRemoveServiceRecords checks reads without service records. A verified
// domain that is ready for mail has service records, so a read without them comes from a lagging
// replica.
func TestLaggingReadDoesNotRemoveServiceRecords(t *testing.T) {
	service, ownership := []dns.Record{{Name: "service"}}, []dns.Record{{Name: "ownership"}}
	for _, tc := range []struct {
		name                string
		verified, mailReady bool
		read, want          []dns.Record
	}{
		{"a domain that accepts mail", true, true, nil, service},
		{"new records", true, true, []dns.Record{{Name: "new"}}, []dns.Record{{Name: "new"}}},
		{"a domain without mail", true, false, nil, nil},
		{"an unverified domain", false, true, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			readAt := time.Unix(9, 0)
			stored := domain.Domain{Name: "a.test", Verified: tc.verified, MailReady: tc.mailReady, Service: service}
			stored.Observed.Verified, stored.Observed.Mail = time.Unix(1, 0), time.Unix(1, 0)
			want := stored
			want.Verification, want.Service, want.Observed.Records = ownership, tc.want, readAt
			read := domain.Records{Verification: ownership, Service: tc.read}
			if diff := cmp.Diff(want, stored.WithRecords(read, readAt)); diff != "" {
				t.Errorf("WithRecords (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, stored.Merge(domain.Domain{Name: "a.test"}.WithRecords(read, readAt))); diff != "" {
				t.Errorf("Merge (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDomainIsGoneAfterTwoMisses(t *testing.T) {
	verifiedAt := time.Unix(1000, 0)
	stored := domain.Domain{Name: "a.test"}.WithPlatformState(domain.Platform{Verified: true}, verifiedAt)
	if missed, gone := stored.AfterMiss(verifiedAt.Add(-1)); gone || !missed.MissingSince.IsZero() {
		t.Fatalf("a miss before the verification counts: %+v", missed)
	}
	firstMiss := verifiedAt.Add(time.Minute)
	stored, gone := stored.AfterMiss(firstMiss)
	if gone || !stored.MissingSince.Equal(firstMiss) {
		t.Fatalf("the first miss: gone is %t in %+v, want a missing domain that is not gone", gone, stored)
	}
	if _, gone := stored.AfterMiss(firstMiss.Add(time.Minute)); gone {
		t.Fatal("the domain is gone a minute after the first miss, want it only missing")
	}
	if _, gone := stored.AfterMiss(firstMiss.Add(observation.ReplicaLag)); !gone {
		t.Fatal("the domain is not gone after a second miss ReplicaLag after the first")
	}
	if stale := stored.Merge(stored.WithPlatformState(domain.Platform{Verified: true}, verifiedAt)); !stale.MissingSince.Equal(firstMiss) {
		t.Fatalf("after a list older than the miss: missing since %s, want %s", stale.MissingSince, firstMiss)
	}
	if found := stored.Merge(stored.WithPlatformState(domain.Platform{Verified: true}, firstMiss.Add(1))); !found.MissingSince.IsZero() {
		t.Fatalf("after a list newer than the miss: missing since %s, want not missing", found.MissingSince)
	}
}

// TestChangeThatCanMeanANewDomain checks Observed.Change, the time of the last sign that the domain
// was removed and added again. The domain was first observed at second 2.
func TestChangeThatCanMeanANewDomain(t *testing.T) {
	observedAt := func(second int64, verified bool) func(domain.Domain) domain.Domain {
		return func(d domain.Domain) domain.Domain {
			return d.Merge(domain.Domain{}.WithPlatformState(domain.Platform{Verified: verified}, time.Unix(second, 0)))
		}
	}
	missedAt3 := func(d domain.Domain) domain.Domain {
		d, _ = d.AfterMiss(time.Unix(3, 0))
		return d
	}
	for _, tc := range []struct {
		name       string
		verified   bool
		observe    []func(domain.Domain) domain.Domain
		wantSecond int64 // the second of Observed.Change, 0 for none
	}{
		{"a verified domain stays verified", true, []func(domain.Domain) domain.Domain{observedAt(3, true)}, 0},
		{"an unverified domain stays unverified", false, []func(domain.Domain) domain.Domain{observedAt(3, false)}, 0},
		{"a verified domain is unverified", true, []func(domain.Domain) domain.Domain{observedAt(3, false)}, 3},
		{"a new domain is verified", true, []func(domain.Domain) domain.Domain{observedAt(3, false), observedAt(4, true)}, 4},
		{"an unverified domain is verified", false, []func(domain.Domain) domain.Domain{observedAt(3, true)}, 3},
		{"a domain is missed", true, []func(domain.Domain) domain.Domain{missedAt3}, 0},
		{"a missing domain is found", true, []func(domain.Domain) domain.Domain{missedAt3, observedAt(4, true)}, 4},
		{"an older list shows the domain unverified", true, []func(domain.Domain) domain.Domain{observedAt(1, false)}, 0},
		{"an older list shows a missing domain", true, []func(domain.Domain) domain.Domain{missedAt3, observedAt(2, true)}, 0},
		{"a second unverified state changes nothing", true, []func(domain.Domain) domain.Domain{observedAt(3, false), observedAt(4, false)}, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := domain.Domain{}.WithPlatformState(domain.Platform{Verified: tc.verified}, time.Unix(2, 0))
			for _, observe := range tc.observe {
				d = observe(d)
			}
			var want time.Time
			if tc.wantSecond > 0 {
				want = time.Unix(tc.wantSecond, 0)
			}
			if !d.Observed.Change.Equal(want) {
				t.Fatalf("the change is at %v, want %v", d.Observed.Change, want)
			}
		})
	}
}

func TestReservationsKeepTheTimeOfTheFirstMiss(t *testing.T) {
	firstMiss := time.Unix(10000, 0)
	missed, _ := domain.Domain{Name: "a.test"}.WithPlatformState(domain.Platform{Verified: true}, firstMiss.Add(-1)).AfterMiss(firstMiss)
	reserved := missed.ReservedAgain(firstMiss.Add(time.Minute))
	reservedTwice := reserved.MissingAgain().ReservedAgain(firstMiss.Add(2 * time.Minute))
	for _, d := range []domain.Domain{reserved, reservedTwice} {
		if !d.MayBeHidden(firstMiss.Add(observation.ReplicaLag-1)) || d.MayBeHidden(firstMiss.Add(observation.ReplicaLag)) {
			t.Errorf("want MayBeHidden to end exactly ReplicaLag after the first miss: %+v", d)
		}
		if afterMiss, gone := d.AfterMiss(firstMiss.Add(observation.ReplicaLag)); !gone || !afterMiss.MissingSince.Equal(firstMiss) || !afterMiss.Observed.PreviousMissingSince.IsZero() {
			t.Errorf("after a second miss: gone is %t in %+v, want a domain that is gone since the first miss", gone, afterMiss)
		}
	}
	if d := reserved.MissingAgain(); d.Added || !d.MissingSince.Equal(firstMiss) || !d.Observed.PreviousMissingSince.IsZero() {
		t.Errorf("MissingAgain does not restore the missing domain: %+v", d)
	}
	listed := domain.Domain{}.WithPlatformState(domain.Platform{}, firstMiss.Add(time.Hour))
	if found := reserved.Merge(listed); !found.Added || found.MayBeHidden(firstMiss) {
		t.Errorf("a found domain is not added, or may be hidden: %+v", found)
	}
	reservedEarlier := domain.Domain{PreviousReservedAt: firstMiss}
	if !reservedEarlier.MayBeHidden(firstMiss.Add(observation.ReplicaLag-1)) || reservedEarlier.MayBeHidden(firstMiss.Add(observation.ReplicaLag)) {
		t.Error("an earlier reservation does not hide a domain for exactly ReplicaLag")
	}
}
