// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/ports"
)

// DNSProviderEnv is a test environment of one DNS provider account. NewZone, Put and Held access
// the zones directly, without the adapter.
type DNSProviderEnv interface {
	// Provider returns the adapter under test. Refused returns the same adapter with a credential
	// that the provider rejects.
	Provider() ports.DNSProvider
	Refused() ports.DNSProvider
	// NewZone creates a zone for one check, with SOA and NS records, and returns its name.
	NewZone(t T) string
	// Put replaces a record set of the zone. A set without values is removed.
	Put(t T, zone string, s dns.RRSet)
	// Held returns the record sets of the zone, without SOA and NS.
	Held(t T, zone string) []dns.RRSet
	// Lose makes the writing request of the next Apply end without an answer. The provider performs
	// the request with LosesAnswer, and does not perform it with LosesRequest.
	Lose(t T, failure Failure)
}

type providerCheck = Check[DNSProviderEnv]

// DNSProvider runs the contract suite of ports.DNSProvider. open may return the same environment
// for every check, because each check uses its own zone.
func DNSProvider[R Runner[R]](t R, open func(T) DNSProviderEnv) {
	runChecks(t, DNSProviderChecks(), open)
}

// DNSProviderChecks returns the checks of the contract suite of ports.DNSProvider.
func DNSProviderChecks() []Check[DNSProviderEnv] {
	var checks []providerCheck
	checks = append(checks, zoneReadChecks...)
	checks = append(checks, zoneWriteChecks...)
	return append(checks, zoneChangedChecks...)
}

func recordSet(name string, kind dns.Type, ttl int, values ...string) dns.RRSet {
	return dns.RRSet{Name: name, Type: kind, TTL: ttl, Values: values}
}

// newTTL is the TTL of record sets that the checks create through the adapter. existingTTL is the
// TTL of existing TXT sets that the checks change through the adapter. Many providers refuse a TTL
// of less than an hour, and some allow only a few values.
const (
	newTTL      = 3600
	existingTTL = 7200
)

// existingRecords returns record sets that tenantry did not write.
func existingRecords(zone string) []dns.RRSet {
	return []dns.RRSet{
		recordSet(zone, dns.MX, 2*existingTTL, "10 mx1.old.example", "20 mx2.old.example"),
		recordSet(zone, dns.TXT, existingTTL, "v=spf1 include:old.example ~all", `site="verify" \ ; done`),
		recordSet("long."+zone, dns.TXT, 300, strings.Repeat("k=rsa; p=", 40)),
		recordSet("vendor."+zone, dns.CNAME, newTTL, "target.vendor.example"),
		recordSet("www."+zone, "A", 300, "192.0.2.7"),
	}
}

func findZone(t T, p ports.DNSProvider, name string) dns.Zone {
	t.Helper()
	z, err := p.Zone(callContext(t), name)
	must(t, "find the zone "+name, err)
	return z
}

func sortedSets(sets []dns.RRSet) []dns.RRSet {
	sorted := append([]dns.RRSet{}, sets...)
	for i := range sorted {
		sorted[i].Values = slices.Sorted(slices.Values(sorted[i].Values))
	}
	slices.SortFunc(sorted, func(a, b dns.RRSet) int {
		return strings.Compare(a.Name+" "+string(a.Type), b.Name+" "+string(b.Type))
	})
	return sorted
}

// requireZone checks that the zone has exactly these record sets, including their TTLs.
func requireZone(t T, env DNSProviderEnv, zone string, want ...dns.RRSet) {
	t.Helper()
	if diff := cmp.Diff(sortedSets(want), sortedSets(env.Held(t, zone))); diff != "" {
		t.Fatalf("the record sets of the zone (-want +got):\n%s", diff)
	}
}

// requireReturned checks that a write returned exactly these record sets. A removed set may be
// returned without values.
func requireReturned(t T, got []dns.RRSet, want ...dns.RRSet) {
	t.Helper()
	got = slices.DeleteFunc(slices.Clone(got), func(s dns.RRSet) bool { return len(s.Values) == 0 })
	if diff := cmp.Diff(sortedSets(want), sortedSets(got)); diff != "" {
		t.Fatalf("the returned record sets (-want +got):\n%s", diff)
	}
}

func requireChangedError(t T, action string, err error) {
	t.Helper()
	if !dns.IsChanged(err) {
		t.Fatalf("%s: got %v, want a dns.ChangedError", action, err)
	}
}

var zoneReadChecks = []providerCheck{
	{"dns/read/counts-zones", "a valid credential reaches its zones", func(t T, env DNSProviderEnv) {
		env.NewZone(t)
		before, err := env.Provider().Check(callContext(t))
		must(t, "check", err)
		env.NewZone(t)
		after, err := env.Provider().Check(callContext(t))
		must(t, "check", err)
		if before < 1 || after <= before {
			t.Fatalf("the credential has access to %d zones, and to %d after a zone was added, want more", before, after)
		}
	}},
	{"dns/read/rejected-credential", "calls with a rejected credential are refused with access_denied", func(t T, env DNSProviderEnv) {
		zone := env.NewZone(t)
		foundZone := findZone(t, env.Provider(), zone)
		_, err := env.Refused().Check(callContext(t))
		requireRefusal(t, "check", err, fault.AccessDenied)
		_, err = env.Refused().Zone(callContext(t), zone)
		requireRefusal(t, "zone", err, fault.AccessDenied)
		_, err = env.Refused().Apply(callContext(t), foundZone, []dns.Change{{Before: recordSet(zone, dns.TXT, 0), After: recordSet(zone, dns.TXT, newTTL, "x")}})
		requireRefusal(t, "apply", err, fault.AccessDenied)
		requireZone(t, env, zone)
	}},
	{"dns/read/finds-zone", "a zone is found by its apex", func(t T, env DNSProviderEnv) {
		zone := env.NewZone(t)
		found := findZone(t, env.Provider(), zone)
		if found.Name != zone || found.ID == "" || found.Idle != "" || len(found.NameServers) == 0 || slices.Contains(found.NameServers, "") {
			t.Fatalf("got %+v, want the active zone %s with its id and name servers", found, zone)
		}
	}},
	{"dns/read/apex-only", "a name below the apex is not a zone", func(t T, env DNSProviderEnv) {
		zone := env.NewZone(t)
		for _, name := range []string{"sub." + zone, "nobody-has-this." + zone, zone + ".example"} {
			if found, err := env.Provider().Zone(callContext(t), name); !dns.IsNoZone(err) {
				t.Fatalf("%s: got %+v and %v, want a dns.NoZoneError", name, found, err)
			}
		}
	}},
	{"dns/read/every-byte", "all record sets are read, with every byte", func(t T, env DNSProviderEnv) {
		zone := env.NewZone(t)
		for _, s := range existingRecords(zone) {
			env.Put(t, zone, s)
		}
		foundZone := findZone(t, env.Provider(), zone)
		sets, err := env.Provider().Records(callContext(t), foundZone)
		must(t, "records", err)
		sets = slices.DeleteFunc(sets, func(s dns.RRSet) bool { return s.Type == dns.SOA || s.Type == dns.NS })
		if diff := cmp.Diff(sortedSets(existingRecords(zone)), sortedSets(sets)); diff != "" {
			t.Fatalf("records (-want +got):\n%s", diff)
		}
	}},
	{"dns/read/wildcard", "a wildcard adds no record sets", func(t T, env DNSProviderEnv) {
		zone := env.NewZone(t)
		env.Put(t, zone, recordSet("*."+zone, dns.TXT, 300, "wild"))
		foundZone := findZone(t, env.Provider(), zone)
		sets, err := env.Provider().Records(callContext(t), foundZone)
		must(t, "records", err)
		if got := dns.Find(sets, "_dmarc."+zone, dns.TXT); len(got.Values) > 0 {
			t.Fatalf("got %+v, want no such record set", got)
		}
		want := newMailRecords(zone)[2]
		_, err = env.Provider().Apply(callContext(t), foundZone, []dns.Change{{Before: recordSet("_dmarc."+zone, dns.TXT, 0), After: want}})
		must(t, "apply below the wildcard", err)
		requireZone(t, env, zone, recordSet("*."+zone, dns.TXT, 300, "wild"), want)
	}},
	{"dns/calls/cancelled", "a call with a cancelled context fails and changes nothing", func(t T, env DNSProviderEnv) {
		zone := env.NewZone(t)
		foundZone := findZone(t, env.Provider(), zone)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		requireEndOfContext(t, startWrite(ctx, env.Provider(), foundZone))
		requireZone(t, env, zone)
		if silentEnv, ok := env.(silentProviderEnv); ok {
			provider, requested, requireQuiet := silentEnv.Silent(t)
			requireEndOfRequests(t, func(ctx context.Context) <-chan error { return startWrite(ctx, provider, foundZone) }, requested, requireQuiet)
		}
	}},
}

// silentProviderEnv is implemented by a DNSProviderEnv that can see whether the adapter ends its
// requests to the provider. If the adapter is a plugin, a cancelled call returns at once, even if
// the plugin still waits for the provider. Only the provider sees the open request.
type silentProviderEnv interface {
	// Silent returns the adapter under test at a provider that never answers. requested is closed
	// when the provider gets a request. requireQuiet fails the check if a request stays open.
	Silent(t T) (p ports.DNSProvider, requested <-chan struct{}, requireQuiet func(T))
}

// requireEndOfRequests cancels a call while the provider does not answer, and checks that the call
// and its request end. start starts the call. requested and requireQuiet are results of Silent.
func requireEndOfRequests(t T, start func(context.Context) <-chan error, requested <-chan struct{}, requireQuiet func(T)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := start(ctx)
	select {
	case <-requested:
	case err := <-ended:
		t.Fatalf("the call ended with %v before its request reached the provider", err)
	case <-time.After(hangTimeout):
		t.Fatalf("the provider got no request within %s", hangTimeout)
	}
	cancel()
	requireEndOfContext(t, ended)
	requireQuiet(t)
}

func startWrite(ctx context.Context, p ports.DNSProvider, zone dns.Zone) <-chan error {
	return startCall(func() error {
		_, err := p.Apply(ctx, zone, []dns.Change{{Before: recordSet(zone.Name, dns.TXT, 0), After: recordSet(zone.Name, dns.TXT, newTTL, "x")}})
		return err
	})
}

// startCall starts a call and returns a channel for its error.
func startCall(call func() error) <-chan error {
	ended := make(chan error, 1)
	panics.Go(func() { ended <- call() }, func(e *panics.Error) { ended <- e })
	return ended
}

// requireEndOfContext checks that a call whose context has ended returns an error that is not a
// refusal.
func requireEndOfContext(t T, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		if err == nil || outcome.KindOf(err) == outcome.Refused {
			t.Fatalf("got %v, want an error that is not a refusal", err)
		}
	case <-time.After(hangTimeout):
		t.Fatalf("the call did not end within %s", hangTimeout)
	}
}

// newMailRecords returns the record sets of a new mail domain.
func newMailRecords(zone string) []dns.RRSet {
	return []dns.RRSet{
		recordSet("selector1._domainkey."+zone, dns.CNAME, newTTL, "selector1.dkim.mail.example"),
		recordSet("selector2._domainkey."+zone, dns.CNAME, newTTL, "selector2.dkim.mail.example"),
		recordSet("_dmarc."+zone, dns.TXT, newTTL, "v=DMARC1; p=none"),
		recordSet("autodiscover."+zone, dns.CNAME, newTTL, "autodiscover.mail.example"),
	}
}

func createChanges(sets []dns.RRSet) []dns.Change {
	var changes []dns.Change
	for _, s := range sets {
		changes = append(changes, dns.Change{Before: recordSet(s.Name, s.Type, 0), After: s})
	}
	return changes
}

var zoneWriteChecks = []providerCheck{
	{"dns/write/keeps-foreign-records", "record sets are created, and the existing ones stay", func(t T, env DNSProviderEnv) {
		zone := env.NewZone(t)
		for _, s := range existingRecords(zone) {
			env.Put(t, zone, s)
		}
		foundZone := findZone(t, env.Provider(), zone)
		got, err := env.Provider().Apply(callContext(t), foundZone, createChanges(newMailRecords(zone)))
		must(t, "apply", err)
		requireReturned(t, got, newMailRecords(zone)...)
		requireZone(t, env, zone, append(newMailRecords(zone), existingRecords(zone)...)...)
	}},
	{"dns/write/adds-value", "a record set gets one more value and keeps the others and its TTL", func(t T, env DNSProviderEnv) {
		zone := env.NewZone(t)
		oldSet := existingRecords(zone)[1]
		env.Put(t, zone, oldSet)
		foundZone := findZone(t, env.Provider(), zone)
		want := recordSet(zone, dns.TXT, existingTTL, append(slices.Clone(oldSet.Values), "MS=ms12345678")...)
		// A plan that was made from a resolver's answer has the remaining TTL. The write must keep
		// the provider's TTL.
		plannedSet := oldSet
		plannedSet.TTL = 60
		after := want
		after.TTL = 60
		got, err := env.Provider().Apply(callContext(t), foundZone, []dns.Change{{Before: plannedSet, After: after}})
		must(t, "apply", err)
		requireReturned(t, got, want)
		requireZone(t, env, zone, want)
	}},
	{"dns/write/one-write", "values are replaced, TTLs changed and sets removed in one write", func(t T, env DNSProviderEnv) {
		zone := env.NewZone(t)
		for _, s := range existingRecords(zone) {
			env.Put(t, zone, s)
		}
		before := existingRecords(zone)
		foundZone := findZone(t, env.Provider(), zone)
		mx := recordSet(zone, dns.MX, newTTL, "0 new.mail.example")
		spf := recordSet(zone, dns.TXT, existingTTL, "v=spf1 include:old.example include:new.example ~all", before[1].Values[1])
		longTXT := recordSet("vendor."+zone, dns.TXT, newTTL, strings.Repeat("0123456789", 30)+`"\`)
		got, err := env.Provider().Apply(callContext(t), foundZone, []dns.Change{
			{Before: before[0], After: mx}, {Before: before[1], After: spf},
			{Before: before[3], After: recordSet("vendor."+zone, dns.CNAME, 0)},
			{Before: recordSet(longTXT.Name, dns.TXT, 0), After: longTXT},
		})
		must(t, "apply", err)
		requireReturned(t, got, mx, spf, longTXT)
		requireZone(t, env, zone, mx, spf, longTXT, before[2], before[4])
	}},
	{"dns/write/repeated", "repeating a write changes nothing and succeeds", func(t T, env DNSProviderEnv) {
		zone := env.NewZone(t)
		foundZone := findZone(t, env.Provider(), zone)
		for range 2 {
			got, err := env.Provider().Apply(callContext(t), foundZone, createChanges(newMailRecords(zone)))
			must(t, "apply", err)
			requireReturned(t, got, newMailRecords(zone)...)
		}
		requireZone(t, env, zone, newMailRecords(zone)...)
	}},
	{"dns/write/half-finished", "a half-finished write is completed", func(t T, env DNSProviderEnv) {
		zone := env.NewZone(t)
		foundZone := findZone(t, env.Provider(), zone)
		for _, s := range newMailRecords(zone)[:2] {
			env.Put(t, zone, s)
		}
		got, err := env.Provider().Apply(callContext(t), foundZone, createChanges(newMailRecords(zone)))
		must(t, "apply", err)
		requireReturned(t, got, newMailRecords(zone)...)
		requireZone(t, env, zone, newMailRecords(zone)...)
	}},
	{"dns/write/empty", "a write without changes changes nothing", func(t T, env DNSProviderEnv) {
		zone := env.NewZone(t)
		_, err := env.Provider().Apply(callContext(t), findZone(t, env.Provider(), zone), nil)
		must(t, "apply", err)
		requireZone(t, env, zone)
	}},
	{"dns/write/only-inside-the-zone", "the NS set of the zone and names outside the zone cannot be written", func(t T, env DNSProviderEnv) {
		zone := env.NewZone(t)
		foundZone := findZone(t, env.Provider(), zone)
		for _, s := range []dns.RRSet{recordSet(zone, dns.NS, 300, "ns.evil.example"), recordSet("elsewhere.example", dns.TXT, 300, "x")} {
			changes := append(createChanges(newMailRecords(zone)), dns.Change{Before: recordSet(s.Name, s.Type, 0), After: s})
			_, err := env.Provider().Apply(callContext(t), foundZone, changes)
			requireOutcome(t, "apply", err, outcome.Refused)
			requireZone(t, env, zone)
		}
	}},
	{"dns/write/lost-answer", "a write whose answer is lost is never reported as failed without effect, and can be repeated", func(t T, env DNSProviderEnv) {
		for _, failure := range []Failure{LosesRequest, LosesAnswer} {
			zone := env.NewZone(t)
			foundZone := findZone(t, env.Provider(), zone)
			env.Lose(t, failure)
			_, err := env.Provider().Apply(callContext(t), foundZone, createChanges(newMailRecords(zone)))
			requireDoneOrUnknown(t, err)
			if failure == LosesRequest && err == nil {
				t.Fatal("the adapter reported success for a write that the provider did not receive")
			}
			got, err := env.Provider().Apply(callContext(t), foundZone, createChanges(newMailRecords(zone)))
			must(t, "apply again", err)
			requireReturned(t, got, newMailRecords(zone)...)
			requireZone(t, env, zone, newMailRecords(zone)...)
		}
	}},
}

var zoneChangedChecks = []providerCheck{
	{"dns/write/changed-since-plan", "a record set that changed since the plan stops the whole write", func(t T, env DNSProviderEnv) {
		for name, change := range map[string]func(dns.RRSet) dns.RRSet{
			"a different value": func(s dns.RRSet) dns.RRSet { return recordSet(s.Name, s.Type, s.TTL, "v=spf1 mx -all") },
			"one more value": func(s dns.RRSet) dns.RRSet {
				return recordSet(s.Name, s.Type, s.TTL, append(s.Values[:2:2], "more")...)
			},
			"one value fewer": func(s dns.RRSet) dns.RRSet { return recordSet(s.Name, s.Type, s.TTL, s.Values[0]) },
			"no values":       func(s dns.RRSet) dns.RRSet { return recordSet(s.Name, s.Type, 0) },
		} {
			zone := env.NewZone(t)
			oldSet := existingRecords(zone)[1]
			env.Put(t, zone, oldSet)
			foundZone := findZone(t, env.Provider(), zone)
			changed := change(oldSet)
			env.Put(t, zone, changed)
			_, err := env.Provider().Apply(callContext(t), foundZone, append(createChanges(newMailRecords(zone)),
				dns.Change{Before: oldSet, After: recordSet(zone, dns.TXT, existingTTL, "v=spf1 include:new.example -all")}))
			requireChangedError(t, name, err)
			if len(changed.Values) == 0 {
				requireZone(t, env, zone)
			} else {
				requireZone(t, env, zone, changed)
			}
		}
	}},
	{"dns/write/created-meanwhile", "a record set that somebody else created first is not overwritten", func(t T, env DNSProviderEnv) {
		zone := env.NewZone(t)
		foundZone := findZone(t, env.Provider(), zone)
		foreignSet := recordSet("_dmarc."+zone, dns.TXT, 300, "v=DMARC1; p=reject")
		env.Put(t, zone, foreignSet)
		_, err := env.Provider().Apply(callContext(t), foundZone, createChanges(newMailRecords(zone)))
		requireChangedError(t, "apply", err)
		requireZone(t, env, zone, foreignSet)
	}},
	{"dns/write/beside-cname", "no record set is added beside a CNAME", func(t T, env DNSProviderEnv) {
		zone := env.NewZone(t)
		foundZone := findZone(t, env.Provider(), zone)
		key := recordSet("selector1._domainkey."+zone, dns.TXT, 300, "v=DKIM1; p=abc")
		vendor := recordSet("_dmarc."+zone, dns.CNAME, 300, "dmarc.vendor.example")
		env.Put(t, zone, key)
		_, err := env.Provider().Apply(callContext(t), foundZone, createChanges(newMailRecords(zone)[:1]))
		requireChangedError(t, "add a CNAME beside a TXT", err)
		env.Put(t, zone, vendor)
		_, err = env.Provider().Apply(callContext(t), foundZone, createChanges(newMailRecords(zone)[2:3]))
		requireChangedError(t, "add a TXT beside a CNAME", err)
		requireZone(t, env, zone, key, vendor)
	}},
	{"dns/write/concurrent-writers", "only one of several concurrent writers succeeds", func(t T, env DNSProviderEnv) {
		zone := env.NewZone(t)
		oldSet := recordSet(zone, dns.TXT, existingTTL, "v=spf1 -all")
		env.Put(t, zone, oldSet)
		foundZone := findZone(t, env.Provider(), zone)
		errs := Concurrently(4, func(i int) error {
			_, err := env.Provider().Apply(callContext(t), foundZone, []dns.Change{
				{Before: oldSet, After: recordSet(zone, dns.TXT, existingTTL, "v=spf1 -all", fmt.Sprintf("writer %d", i))},
			})
			return err
		})
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner < 0:
				winner = i
			case err == nil:
				t.Fatalf("the writers %d and %d succeeded, want only one", winner, i)
			default:
				requireChangedError(t, fmt.Sprint("writer ", i), err)
			}
		}
		if winner < 0 {
			t.Fatal("no writer succeeded, want one")
		}
		requireZone(t, env, zone, recordSet(zone, dns.TXT, existingTTL, "v=spf1 -all", fmt.Sprintf("writer %d", winner)))
	}},
}
