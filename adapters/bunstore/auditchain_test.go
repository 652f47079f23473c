// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// exportEntries returns all entries of an account, oldest first. It checks that they form a chain.
func exportEntries(t testing.TB, s *Store, owner access.AccountID) []audit.Entry {
	t.Helper()
	entries, err := s.AuditExport(t.Context(), owner, 0, 10_000)
	must(t, "export", err)
	var lines bytes.Buffer
	for _, e := range entries {
		line, err := e.Line()
		must(t, "line", err)
		lines.Write(append(line, '\n'))
	}
	verified, err := audit.Verify(&lines)
	must(t, "verify", err)
	if verified.Entries != len(entries) {
		t.Fatalf("%d entries are verified, want %d", verified.Entries, len(entries))
	}
	return entries
}

// newAct returns an act of an API key of the account. Two acts with equal values of write belong to
// two attempts of the same request.
func newAct(owner access.AccountID, write string) *ports.Act {
	return &ports.Act{Write: []byte(write), Entry: audit.Entry{
		ID: newID(), Account: owner, Actor: audit.Actor{Type: audit.Key, ID: "key-1", Name: hostileText + "\x00"}, Action: "add-domain",
		Tenant: guid(1), Subject: audit.Subject{Type: "tenant", ID: string(guid(1))}, RequestID: "req-1", ClientIP: "192.0.2.1",
	}}
}

var createdOutcome = &audit.Outcome{Status: 201}

func countStoredActs(t testing.TB, s *Store) (n int) {
	t.Helper()
	must(t, "count acts", s.db.DB.DB.QueryRowContext(t.Context(), "SELECT count(*) FROM audit_acts").Scan(&n))
	return n
}

// requireOneMoreEntry checks that the chain has exactly entriesBefore+1 entries, and that no act is
// stored. It returns the last entry.
func requireOneMoreEntry(t testing.TB, s *Store, owner access.AccountID, entriesBefore int) audit.Entry {
	t.Helper()
	entries := exportEntries(t, s, owner)
	if len(entries) != entriesBefore+1 || countStoredActs(t, s) != 0 {
		t.Fatalf("%d entries, want %d; %d stored acts, want 0; the new entries are %+v", len(entries), entriesBefore+1, countStoredActs(t, s), entries[entriesBefore:])
	}
	return entries[entriesBefore]
}

func reserveDomainNamed(ctx context.Context, s *Store, owner access.AccountID, name string) error {
	_, err := s.ReserveDomain(ctx, owner, guid(1), name, domain.MaxPerTenant, now)
	return err
}

func TestActIsStoredWithTheChangeAndEndsWithTheAnswer(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "ann")
		attachTenant(t, s, owner, 1)
		entriesBefore := len(exportEntries(t, s, owner))
		claim := newClaim(owner, 1)
		attempt := mustClaim(t, s, claim)
		act := newAct(owner, "w")
		ctx := ports.WithAct(t.Context(), act)
		if _, err := s.Tenants(ctx, owner); err != nil || countStoredActs(t, s) != 0 {
			t.Fatalf("after a read: %d stored acts, want 0 (%v)", countStoredActs(t, s), err)
		}
		for _, name := range []string{"a.example", "b.example"} {
			must(t, "change", reserveDomainNamed(ctx, s, owner, name))
			if countStoredActs(t, s) != 1 || act.State() != ports.ActStored || len(exportEntries(t, s, owner)) != entriesBefore {
				t.Fatalf("after adding %s: %d stored acts, want 1; the state is %d, want %d; %d entries, want %d", name, countStoredActs(t, s), act.State(), ports.ActStored, len(exportEntries(t, s, owner)), entriesBefore)
			}
		}
		storedAnswer := newStoredAnswer(claim, attempt)
		storedAnswer.Outcome = createdOutcome
		requireLeaseHeld(t, "finish", true)(s.Finish(ctx, *storedAnswer))
		got := requireOneMoreEntry(t, s, owner, entriesBefore)
		want := act.Entry
		want.Actor.Name = storedText(want.Actor.Name)
		want.Sequence, want.At, want.Outcome, want.PreviousHash, want.Hash = got.Sequence, got.At, *createdOutcome, got.PreviousHash, got.Hash
		if got != want || act.State() != ports.ActEnded {
			t.Fatalf("the entry is\n%+v, want\n%+v; the act is in state %d, want %d", got, want, act.State(), ports.ActEnded)
		}
	})
}

func TestChangeThatCommitsItsAnswerCommitsItsEntry(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newTenantFixture(t, s)
		entriesBefore := len(exportEntries(t, s, fixture.owner))
		claim := newClaim(fixture.owner, 1)
		attempt := mustClaim(t, s, claim)
		storedAnswer := newStoredAnswer(claim, attempt)
		storedAnswer.Outcome = createdOutcome
		act := newAct(fixture.owner, "w")
		ctx := ports.WithAct(t.Context(), act)
		lostAnswer := *storedAnswer
		lostAnswer.Attempt = newID()
		requireRefusal(t, "an attempt that lost its key", s.DeleteTenant(ctx, fixture.owner, guid(1), &lostAnswer), fault.KeyInProgress)
		if len(exportEntries(t, s, fixture.owner)) != entriesBefore || act.State() != ports.ActNew {
			t.Fatalf("after a rolled back change: %d entries, want %d; the act is in state %d, want %d", len(exportEntries(t, s, fixture.owner)), entriesBefore, act.State(), ports.ActNew)
		}
		must(t, "delete", s.DeleteTenant(ctx, fixture.owner, guid(1), storedAnswer))
		if e := requireOneMoreEntry(t, s, fixture.owner, entriesBefore); e.ID != act.Entry.ID || e.Outcome != *createdOutcome {
			t.Fatalf("the entry is %+v, want that of the act, with the outcome %+v", e, *createdOutcome)
		}
		must(t, "end again", s.EndAct(ctx, &audit.Outcome{Status: 503}))
		requireOneMoreEntry(t, s, fixture.owner, entriesBefore)
	})
}

// TestActEndsOnce ends an act in each of several states. RecordLostWrites must then find no act.
func TestActEndsOnce(t *testing.T) {
	failed := &audit.Outcome{Status: 500, Code: "internal_error"}
	for name, tc := range map[string]struct {
		arrange func(t *testing.T, s *Store, ctx context.Context, owner access.AccountID)
		outcome *audit.Outcome
		want    []audit.Outcome // the outcomes of the new entries
	}{
		"nothing was changed":   {func(*testing.T, *Store, context.Context, access.AccountID) {}, createdOutcome, []audit.Outcome{*createdOutcome}},
		"something was changed": {storeActOf, failed, []audit.Outcome{*failed}},
		"a refusal":             {storeActOf, nil, nil},
		"RecordLostWrites ended the act first": {func(t *testing.T, s *Store, ctx context.Context, owner access.AccountID) {
			storeActOf(t, s, ctx, owner)
			requireLostActs(t, s, 1)
		}, createdOutcome, []audit.Outcome{audit.Unknown}},
		"the commit had no answer, and took place": {func(t *testing.T, s *Store, ctx context.Context, _ access.AccountID) {
			must(t, "end", s.EndAct(ports.WithAct(ctx, &ports.Act{Entry: ports.ActOf(ctx).Entry, Write: []byte("w")}), createdOutcome))
			ports.ActOf(ctx).AdvanceTo(ports.ActUncertain)
		}, failed, []audit.Outcome{*createdOutcome}},
		"the commit had no answer, and did not take place": {func(t *testing.T, s *Store, ctx context.Context, owner access.AccountID) {
			storeActOf(t, s, ctx, owner)
			ports.ActOf(ctx).AdvanceTo(ports.ActUncertain)
		}, failed, []audit.Outcome{*failed}},
	} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, s *Store) {
				owner := newAccount(t, s, "ann")
				attachTenant(t, s, owner, 1)
				entriesBefore := len(exportEntries(t, s, owner))
				ctx := ports.WithAct(t.Context(), newAct(owner, "w"))
				tc.arrange(t, s, ctx, owner)
				must(t, "end", s.EndAct(ctx, tc.outcome))
				requireLostActs(t, s, 0)
				var got []audit.Outcome
				for _, e := range exportEntries(t, s, owner)[entriesBefore:] {
					got = append(got, e.Outcome)
				}
				if !slices.Equal(got, tc.want) || countStoredActs(t, s) != 0 {
					t.Errorf("the outcomes are %+v, want %+v; %d acts are stored, want 0", got, tc.want, countStoredActs(t, s))
				}
			})
		})
	}
}

// storeActOf reserves a domain with ctx, which stores the act of ctx.
func storeActOf(t *testing.T, s *Store, ctx context.Context, owner access.AccountID) {
	t.Helper()
	must(t, "change", reserveDomainNamed(ctx, s, owner, "a.example"))
	if countStoredActs(t, s) != 1 {
		t.Fatalf("%d acts are stored, want 1", countStoredActs(t, s))
	}
}

// requireLostActs checks that RecordLostWrites, called for acts of any age, ends want acts.
func requireLostActs(t *testing.T, s *Store, want int) {
	t.Helper()
	if n, err := s.RecordLostWrites(t.Context(), 0, 100); err != nil || n != want {
		t.Fatalf("RecordLostWrites ended %d acts, want %d: %v", n, want, err)
	}
}

func TestRecordLostWritesSkipsYoungActs(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "ann")
		attachTenant(t, s, owner, 1)
		storeActOf(t, s, ports.WithAct(t.Context(), newAct(owner, "w")), owner)
		if n, err := s.RecordLostWrites(t.Context(), time.Hour, 100); err != nil || n != 0 || countStoredActs(t, s) != 1 {
			t.Fatalf("RecordLostWrites ended %d young acts, want 0; %d acts are stored, want 1: %v", n, countStoredActs(t, s), err)
		}
	})
}

// TestRecordLostWritesSkipsActsOfRunningWrites checks that RecordLostWrites does not end the act of
// a request that still runs. Such a request holds the lease on its Idempotency-Key.
func TestRecordLostWritesSkipsActsOfRunningWrites(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "ann")
		attachTenant(t, s, owner, 1)
		claim := newClaim(owner, 1)
		attempt := mustClaim(t, s, claim)
		storeActOf(t, s, ports.WithAct(t.Context(), newAct(owner, string(claim.Key.Key[:]))), owner)
		requireLostActs(t, s, 0)
		requireLeaseHeld(t, "end the lease", true)(s.RenewKeyLease(t.Context(), claim.Key, attempt, expiredLease))
		requireLostActs(t, s, 1)
	})
}

// TestLaterAttemptReplacesTheActOfAKilledAttempt checks that a killed attempt of a write and the
// later attempt that finishes the write produce only one entry.
func TestLaterAttemptReplacesTheActOfAKilledAttempt(t *testing.T) {
	for name, laterAttemptChanges := range map[string]bool{"the later attempt changes something": true, "the later attempt finds everything done": false} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, s *Store) {
				owner := newAccount(t, s, "ann")
				attachTenant(t, s, owner, 1)
				entriesBefore := len(exportEntries(t, s, owner))
				storeActOf(t, s, ports.WithAct(t.Context(), newAct(owner, "w")), owner)
				laterAct := newAct(owner, "w")
				ctx := ports.WithAct(t.Context(), laterAct)
				if laterAttemptChanges {
					must(t, "change", reserveDomainNamed(ctx, s, owner, "b.example"))
				}
				must(t, "end", s.EndAct(ctx, createdOutcome))
				if e := requireOneMoreEntry(t, s, owner, entriesBefore); e.ID != laterAct.Entry.ID {
					t.Fatalf("the entry is %+v, want that of the later attempt", e)
				}
			})
		})
	}
}

// TestAttemptThatLostItsKeyLeavesTheSecondAct ends a first attempt after a second attempt has
// taken over the Idempotency-Key. EndAct of the first attempt must not delete the act of the second
// attempt. EndAct of the second attempt must add the only entry.
func TestAttemptThatLostItsKeyLeavesTheSecondAct(t *testing.T) {
	for name, outcome := range map[string]*audit.Outcome{"without an outcome": nil, "with an outcome": {Status: 503, Code: "service_unavailable"}} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, s *Store) {
				owner := newAccount(t, s, "ann")
				attachTenant(t, s, owner, 1)
				entriesBefore := len(exportEntries(t, s, owner))
				firstCtx := ports.WithAct(t.Context(), newAct(owner, "w"))
				storeActOf(t, s, firstCtx, owner)
				secondAct := newAct(owner, "w")
				secondCtx := ports.WithAct(t.Context(), secondAct)
				must(t, "change", reserveDomainNamed(secondCtx, s, owner, "b.example"))
				must(t, "end the first attempt", s.EndAct(firstCtx, outcome))
				if n := countStoredActs(t, s); n != 1 {
					t.Fatalf("%d acts are stored, want that of the second attempt", n)
				}
				must(t, "end the second attempt", s.EndAct(secondCtx, createdOutcome))
				if e := requireOneMoreEntry(t, s, owner, entriesBefore); e.ID != secondAct.Entry.ID || e.Outcome != *createdOutcome {
					t.Fatalf("the entry is %+v, want that of the second attempt", e)
				}
			})
		})
	}
}

// TestEntryIsHashedAsItIsStored adds entries with texts and GUIDs, most of which the store changes.
// exportEntries checks that the hashes are those of the stored entries.
func TestEntryIsHashedAsItIsStored(t *testing.T) {
	for name, tc := range map[string]struct{ given, want tenant.GUID }{
		"the zero UUID":  {ident.Zero, ""},
		"malformed":      {"x\xff\x00", ""},
		"in upper case":  {"AAAAAAAA-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000001"},
		"canonical":      {guid(1), guid(1)},
		"without tenant": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, s *Store) {
				owner := newAccount(t, s, "ann")
				entriesBefore := len(exportEntries(t, s, owner))
				addEntries(t, s, owner, 1, func(e *audit.Entry) {
					e.Tenant = tc.given
					for _, text := range []*string{&e.Actor.ID, &e.Actor.Name, (*string)(&e.Action), &e.Subject.Type, &e.Subject.ID, &e.RequestID, &e.ClientIP} {
						*text += hostileText + "\x00\xff"
					}
				})
				if e := requireOneMoreEntry(t, s, owner, entriesBefore); e.Tenant != tc.want {
					t.Errorf("the tenant is %q, want %q", e.Tenant, tc.want)
				}
			})
		})
	}
}

// TestConcurrentWritersMakeOneChain checks that each of two accounts has one chain after two stores
// on one database, as in two replicas, have written entries of both accounts at the same time.
func TestConcurrentWritersMakeOneChain(t *testing.T) {
	databasetest.EachShared(t, func(t *testing.T, url func(testing.TB) string) {
		address := url(t)
		stores := []*Store{migratedStore(t, address), openStore(t, address)}
		ann, bob := newAccount(t, stores[0], "ann"), newAccount(t, stores[0], "bob")
		const writers, entriesPerWriter = 24, 5
		for _, err := range concurrently(writers, func(i int) error {
			s := stores[i%2]
			var errs []error
			for n := range entriesPerWriter {
				act := newAct([]access.AccountID{ann, ann, bob}[i%3], fmt.Sprint(i, n))
				errs = append(errs, s.EndAct(ports.WithAct(t.Context(), act), createdOutcome))
			}
			return errors.Join(errs...)
		}) {
			must(t, "write", err)
		}
		wantAnn, wantBob := 1+writers*2/3*entriesPerWriter, 1+writers/3*entriesPerWriter // 1 for the creation of the account
		if annEntries, bobEntries := len(exportEntries(t, stores[0], ann)), len(exportEntries(t, stores[1], bob)); annEntries != wantAnn || bobEntries != wantBob {
			t.Errorf("the accounts have %d and %d entries, want %d and %d", annEntries, bobEntries, wantAnn, wantBob)
		}
	})
}

// TestOperatorsAndAdministratorsAreInTheChain checks the entries of an operator, and of an
// administrator who connects a tenant in a browser.
func TestOperatorsAndAdministratorsAreInTheChain(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "ann")
		newKey(t, s, owner, 1)
		browserAct := &ports.Act{Entry: audit.Entry{RequestID: "req-2", ClientIP: "192.0.2.2"}}
		ctx := ports.WithAct(t.Context(), browserAct)
		flow := ports.ConnectFlow{StateHash: [32]byte{1}, Account: owner, Step: ports.FlowStarted, ExpiresAt: now.Add(time.Hour)}
		must(t, "start", s.StartConnectSession(ctx, tenant.ConnectSession{ID: newID(), ExpiresAt: flow.ExpiresAt}, flow))
		must(t, "save without a sign-in", s.SaveFlow(ctx, flow))
		flow.ClaimedTenant, flow.Administrator = guid(1), tenant.Administrator{Tenant: guid(1), Address: "admin@contoso.test"}
		must(t, "sign in", s.SaveFlow(ctx, flow))
		_, err := s.Attach(ctx, owner, tenant.Tenant{GUID: guid(1), ConsentedAt: now, ConnectedBy: "admin@contoso.test"})
		must(t, "attach", err)
		admin := audit.Actor{Type: audit.Member, ID: "admin@contoso.test", Name: "admin@contoso.test"}
		operator := audit.Actor{Type: audit.Operator, ID: s.operator, Name: s.operator}
		tenantSubject := audit.Subject{Type: "tenant", ID: string(guid(1))}
		wantEntries := []audit.Entry{
			{Actor: operator, Action: audit.CreateAccount, Subject: audit.Subject{Type: "account", ID: string(owner)}},
			{Actor: operator, Action: audit.CreateKey, Subject: audit.Subject{Type: "key", ID: apiKey("", 1).ID}},
			{Actor: admin, Action: audit.SignIn, Tenant: guid(1), Subject: tenantSubject, RequestID: "req-2", ClientIP: "192.0.2.2"},
			{Actor: admin, Action: audit.ConnectTenant, Tenant: guid(1), Subject: tenantSubject, RequestID: "req-2", ClientIP: "192.0.2.2"},
		}
		entries := exportEntries(t, s, owner)
		if len(entries) != len(wantEntries) {
			t.Fatalf("the chain has %d entries, want %d: %+v", len(entries), len(wantEntries), entries)
		}
		for i, e := range entries {
			want := wantEntries[i]
			want.ID, want.Account, want.Sequence, want.At, want.Outcome, want.PreviousHash, want.Hash = e.ID, owner, int64(i)+1, e.At, audit.Succeeded, e.PreviousHash, e.Hash
			if e != want {
				t.Errorf("got  %+v\nwant %+v", e, want)
			}
		}
		if countStoredActs(t, s) != 0 {
			t.Errorf("%d acts are stored, want 0 after the browser's requests", countStoredActs(t, s))
		}
	})
}

// setClock sets the clock from which the store takes the times of audit entries and events until
// the test ends.
func (s *Store) setClock(t testing.TB, clock *time.Time) {
	previousClock := s.now
	s.now = func() time.Time { return *clock }
	t.Cleanup(func() { s.now = previousClock })
}

// addEntries adds n entries to the chain of an account. If change is not nil, it changes each entry
// before the store gets the entry.
func addEntries(t testing.TB, s *Store, owner access.AccountID, n int, change func(*audit.Entry)) {
	t.Helper()
	for i := range n {
		act := newAct(owner, newID())
		act.Entry.RequestID = fmt.Sprint("req-", i)
		if change != nil {
			change(&act.Entry)
		}
		must(t, "add entry", s.EndAct(ports.WithAct(t.Context(), act), createdOutcome))
	}
}

func TestRetentionLeavesAValidChain(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		clock := now
		s.setClock(t, &clock)
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob") // each account has the entry of its creation
		addEntries(t, s, ann, 4, nil)
		clock = now.Add(24 * time.Hour)
		addEntries(t, s, ann, 2, nil)
		entriesBefore := exportEntries(t, s, ann)
		var dropped []int
		for {
			n, err := s.DropAuditEntries(t.Context(), now.Add(time.Hour), 3)
			must(t, "drop", err)
			if n == 0 {
				break
			}
			dropped = append(dropped, n)
		}
		slices.Sort(dropped)
		// A call drops at most three entries of one account: 3 and 2 of ann, and 1 of bob.
		if !slices.Equal(dropped, []int{1, 2, 3}) {
			t.Fatalf("the calls dropped %v entries, want 1, 2 and 3 in any order", dropped)
		}
		entriesAfter := exportEntries(t, s, ann)
		lastEntry := entriesAfter[len(entriesAfter)-1]
		if len(entriesAfter) != 4 || entriesAfter[0] != entriesBefore[5] || entriesAfter[0].PreviousHash != entriesBefore[4].Hash ||
			lastEntry.Actor.Type != audit.Service || lastEntry.Action != audit.DropEntries || lastEntry.Subject.ID != entriesBefore[4].Hash {
			t.Fatalf("the remaining entries are %+v, want the last two and the two entries about the drops", entriesAfter)
		}
		if entries := exportEntries(t, s, bob); len(entries) != 1 || entries[0].Action != audit.DropEntries || entries[0].Sequence != 2 {
			t.Fatalf("bob, who had no newer entry, has the entries %+v, want only the entry about the drop", entries)
		}
		clock = now.Add(1000 * time.Hour)
		addEntries(t, s, ann, 1, nil)
		for count := 1; count > 0; {
			var err error
			count, err = s.DropAuditEntries(t.Context(), clock, 100)
			must(t, "drop the entries before the last", err)
		}
		if entries := exportEntries(t, s, ann); len(entries) != 2 || entries[1].Action != audit.DropEntries {
			t.Fatalf("ann has the entries %+v, want the newest one and the entry about the drops", entries)
		}
	})
}

func TestConcurrentRetentionDropsEachEntryOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "ann")
		dropped := make([]int, 8)
		for _, err := range concurrently(len(dropped), func(i int) (err error) {
			dropped[i], err = s.DropAuditEntries(t.Context(), time.Now().Add(time.Hour), 1)
			return err
		}) {
			must(t, "drop", err)
		}
		droppedTotal := 0
		for _, n := range dropped {
			droppedTotal += n
		}
		if droppedTotal == 0 {
			t.Error("no entry was dropped, want at least 1")
		}
		if entries := exportEntries(t, s, owner); entries[0].Sequence != int64(droppedTotal)+1 || entries[len(entries)-1].Sequence != int64(droppedTotal)+int64(len(entries)) {
			t.Errorf("%d entries were dropped, want the remaining entries to follow sequence number %d without a gap: %+v", droppedTotal, droppedTotal, entries)
		}
	})
}

func TestAuditEntriesAreListedNewestFirst(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		clock := now
		s.setClock(t, &clock)
		owner, foreignAccount := newAccount(t, s, "ann"), newAccount(t, s, "bob") // each has the entry of its creation
		addEntries(t, s, foreignAccount, 3, nil)
		addEntries(t, s, owner, 2, nil) // sequence numbers 2 and 3
		clock = now.Add(time.Minute)
		addEntries(t, s, owner, 2, func(e *audit.Entry) { e.Tenant, e.Subject = "", audit.Subject{} })     // sequence numbers 4 and 5
		addEntries(t, s, owner, 1, func(e *audit.Entry) { e.Action, e.Actor.ID = "sync-tenant", "key-2" }) // sequence number 6
		for _, tc := range []struct {
			name          string
			query         ports.EntryQuery
			wantSequences []int64
			wantMore      bool
		}{
			{"all", ports.EntryQuery{Limit: 10}, []int64{6, 5, 4, 3, 2, 1}, false},
			{"a page", ports.EntryQuery{Limit: 2}, []int64{6, 5}, true},
			{"the next page", ports.EntryQuery{Before: 5, Limit: 2}, []int64{4, 3}, true},
			{"the last page", ports.EntryQuery{Before: 3, Limit: 2}, []int64{2, 1}, false},
			{"a full last page", ports.EntryQuery{Limit: 6}, []int64{6, 5, 4, 3, 2, 1}, false},
			{"an actor by id", ports.EntryQuery{Actor: "key-2", Limit: 10}, []int64{6}, false},
			{"an actor by name", ports.EntryQuery{Actor: s.operator, Limit: 10}, []int64{1}, false},
			{"actors by type", ports.EntryQuery{Actor: "operator", Limit: 10}, []int64{1}, false},
			{"an action", ports.EntryQuery{Action: "add-domain", Limit: 3}, []int64{5, 4, 3}, true},
			{"a tenant", ports.EntryQuery{Tenants: []tenant.GUID{guid(1)}, Limit: 10}, []int64{6, 3, 2}, false},
			{"a malformed tenant", ports.EntryQuery{Tenants: []tenant.GUID{"x"}, Limit: 10}, nil, false},
			{"since a time", ports.EntryQuery{From: clock, Limit: 10}, []int64{6, 5, 4}, false},
			{"until a time", ports.EntryQuery{To: clock, Limit: 10}, []int64{3, 2, 1}, false},
			{"nobody", ports.EntryQuery{Actor: "nobody", Limit: 10}, nil, false},
		} {
			page, err := s.AuditEntries(t.Context(), owner, tc.query)
			must(t, tc.name, err)
			var got []int64
			for _, e := range page.Entries {
				got = append(got, e.Sequence)
			}
			if !slices.Equal(got, tc.wantSequences) || page.More != tc.wantMore {
				t.Errorf("%s: got the entries %v, more %v; want %v, more %v", tc.name, got, page.More, tc.wantSequences, tc.wantMore)
			}
		}
	})
}

func TestCursorsOfMissingEntriesAreRefused(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "ann")
		addEntries(t, s, owner, 4, nil) // sequence numbers 2 to 5; the drop of 1, 2 and 3 adds 6
		if n, err := s.DropAuditEntries(t.Context(), time.Now().Add(time.Hour), 3); err != nil || n != 3 {
			t.Fatalf("dropped %d entries, want 3: %v", n, err)
		}
		if _, err := s.AuditEntries(t.Context(), owner, ports.EntryQuery{Before: 3, Limit: 1}); !errors.Is(err, fault.CursorExpired) {
			t.Errorf("a dropped entry as cursor: got %v, want cursor_expired", err)
		}
		if page, err := s.AuditEntries(t.Context(), owner, ports.EntryQuery{Before: 4, Limit: 1}); err != nil || len(page.Entries) != 0 || page.More {
			t.Errorf("the oldest entry as cursor: got %+v, %v, want an empty page", page, err)
		}
		for account, cursor := range map[access.AccountID]int64{owner: 7, newAccount(t, s, "bob"): 2} {
			if _, err := s.AuditEntries(t.Context(), account, ports.EntryQuery{Before: cursor, Limit: 1}); !errors.Is(err, fault.InvalidRequest) {
				t.Errorf("an entry that the account never had as cursor: got %v, want invalid_request", err)
			}
		}
	})
}

// TestEntriesHaveTheTenantOfTheirSubject adds entries without a tenant. API operations whose URL
// does not contain the tenant add such entries. The store must set the tenant of the domain or
// mailbox if the account of the entry has this domain or mailbox.
func TestEntriesHaveTheTenantOfTheirSubject(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newTenantFixture(t, s)
		foreignAccount := newAccount(t, s, "bob")
		subjects := map[string]string{"domain": fixture.domain.ID, "mailbox": fixture.boxes[0].ID}
		for _, kind := range slices.Sorted(maps.Keys(subjects)) {
			for owner, want := range map[access.AccountID]tenant.GUID{fixture.owner: guid(1), foreignAccount: ""} {
				addEntries(t, s, owner, 1, func(e *audit.Entry) { e.Tenant, e.Subject = "", audit.Subject{Type: kind, ID: subjects[kind]} })
				entries := exportEntries(t, s, owner)
				if got := entries[len(entries)-1].Tenant; got != want {
					t.Errorf("%s: the tenant is %q, want %q", kind, got, want)
				}
			}
		}
	})
}
