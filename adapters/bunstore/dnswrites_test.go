// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	compare "github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
)

func writtenRecord(value, replaced string) dns.Written {
	return dns.Written{Purpose: dns.Sending, Name: "contoso.test", Type: dns.TXT, Value: value, Replaced: replaced}
}

// requireWritten checks the records that are stored as written for a domain, in any order.
func requireWritten(t testing.TB, s *Store, owner access.AccountID, domainID string, want ...dns.Written) {
	t.Helper()
	got, err := s.Written(t.Context(), owner, domainID)
	must(t, "list writes", err)
	byText := func(a, b dns.Written) int {
		return cmp.Or(cmp.Compare(a.Purpose, b.Purpose), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Value, b.Value))
	}
	slices.SortFunc(got, byText)
	slices.SortFunc(want, byText)
	if len(got) != len(want) || len(got) > 0 && !slices.Equal(got, want) {
		t.Fatalf("the writes (-want +got):\n%s", compare.Diff(want, got))
	}
}

// intendWrite stores the nth intended write of a domain, for runID(1), and returns it.
func intendWrite(t testing.TB, s *Store, owner access.AccountID, domainID string, n int, written ...dns.Written) dns.Write {
	t.Helper()
	before := dns.RRSet{Name: "contoso.test", Type: dns.TXT, TTL: 300, Values: []string{"v=spf1 \xfe\x00" + hostileText}}
	after := before
	after.Values = []string{"v=spf1 \xff" + hostileText, "more"}
	write := dns.Write{
		DomainID: domainID, RunID: runID(1), Zone: "contoso.test", At: now.Add(time.Duration(n) * time.Second), Written: written,
		Changes: []dns.Change{{Before: before, After: after}, {Before: dns.RRSet{Name: "b.test", Type: dns.MX}, After: dns.RRSet{Name: "b.test", Type: dns.MX, TTL: 60, Values: []string{"0 mx.test"}}},
			{Before: dns.RRSet{Name: "c.test", Type: dns.CNAME, TTL: 60, Values: []string{"d.test"}, Veiled: true}, After: dns.RRSet{Name: "c.test", Type: dns.CNAME, TTL: 60, Values: []string{"d.test"}}}},
	}
	var err error
	write.ID, err = s.IntendWrite(t.Context(), owner, write)
	must(t, "intend", err)
	return write
}

// addConfirmedWrite intends and confirms a write of a domain.
func addConfirmedWrite(t testing.TB, s *Store, owner access.AccountID, domainID string, written ...dns.Written) {
	t.Helper()
	must(t, "confirm", s.ConfirmWrite(t.Context(), owner, intendWrite(t, s, owner, domainID, 1, written...).ID))
}

// requireOpenWrites checks the open writes of a domain and their order.
func requireOpenWrites(t testing.TB, s *Store, owner access.AccountID, domainID string, want ...dns.Write) {
	t.Helper()
	got, err := s.OpenWrites(t.Context(), owner, domainID)
	must(t, "list open writes", err)
	if diff := compare.Diff(append([]dns.Write{}, want...), got); diff != "" {
		t.Fatalf("the open writes (-want +got):\n%s", diff)
	}
}

// requireRunWrites checks the writes of a run and their order.
func requireRunWrites(t testing.TB, s *Store, run string, wantOwner access.AccountID, want ...dns.Write) {
	t.Helper()
	owner, got, err := s.RunWrites(t.Context(), run)
	must(t, "list writes of the run", err)
	if diff := compare.Diff(append([]dns.Write{}, want...), got); diff != "" || owner != wantOwner {
		t.Fatalf("the run belongs to %s, want %s; its writes (-want +got):\n%s", owner, wantOwner, diff)
	}
}

func TestWrittenRecordIsStoredUnchanged(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		d := newOwnedDomain(t, s, ann, 1)
		want := []dns.Written{
			writtenRecord("v=spf1 -all", ""), writtenRecord("v=spf1 \xff\x00"+hostileText, "v=spf1 \xfe"), writtenRecord(strings.Repeat("long ", 3000), hostileText),
			{Purpose: dns.Ownership, Name: "contoso.test", Type: dns.TXT, Value: "v=spf1 -all"},
			{Purpose: dns.Sending, Name: "www.contoso.test", Type: dns.TXT, Value: "v=spf1 -all"},
			{Purpose: dns.Sending, Name: "contoso.test", Type: dns.MX, Value: "v=spf1 -all"},
		}
		requireWritten(t, s, ann, d.ID)
		addConfirmedWrite(t, s, ann, d.ID)
		addConfirmedWrite(t, s, ann, d.ID, want[:2]...)
		addConfirmedWrite(t, s, ann, d.ID, want[2:]...)
		requireWritten(t, s, ann, d.ID, want...)
	})
}

func TestLastOfTwoWritesOfOneValueIsKept(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		d := newOwnedDomain(t, s, ann, 1)
		addConfirmedWrite(t, s, ann, d.ID, writtenRecord("a", ""), writtenRecord("b", "a"))
		addConfirmedWrite(t, s, ann, d.ID, writtenRecord("a", "x"), writtenRecord("a", "b"))
		requireWritten(t, s, ann, d.ID, writtenRecord("a", "b"), writtenRecord("b", "a"))
		got, err := s.Written(t.Context(), ann, d.ID)
		must(t, "list", err)
		if got[len(got)-1].Value != "a" {
			t.Fatalf("the records are %+v, want that of the last write at the end", got)
		}
	})
}

func TestWritesOfForeignAndUnknownDomainsGetTheSameAnswer(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		d := newOwnedDomain(t, s, ann, 1)
		newOwnedDomain(t, s, bob, 2)
		openWrite := intendWrite(t, s, ann, d.ID, 1, writtenRecord("a", ""))
		for _, id := range []string{d.ID, unknownID, "x"} {
			requireWritten(t, s, bob, id)
			if openWrites, err := s.OpenWrites(t.Context(), bob, id); err != nil || len(openWrites) != 0 {
				t.Fatalf("open writes: got %+v, %v, want none", openWrites, err)
			}
			_, err := s.IntendWrite(t.Context(), bob, dns.Write{DomainID: id})
			requireRefusal(t, "intend for "+id, err, fault.DomainNotFound)
			_, unknownErr := s.IntendWrite(t.Context(), bob, dns.Write{DomainID: unknownID})
			requireSameError(t, "intend", err, unknownErr)
		}
		for _, id := range []string{openWrite.ID, unknownID, "x"} {
			must(t, "confirm", s.ConfirmWrite(t.Context(), bob, id))
			must(t, "drop", s.DropWrite(t.Context(), bob, id))
		}
		requireWritten(t, s, ann, d.ID)
		requireOpenWrites(t, s, ann, d.ID, openWrite)
	})
}

func TestEachDomainHasItsOwnWrittenRecords(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		domain1 := newOwnedDomain(t, s, ann, 1)
		domain2 := addDomain(t, s, ann, guid(1), "fabrikam.test")
		addConfirmedWrite(t, s, ann, domain1.ID, writtenRecord("a", ""))
		requireWritten(t, s, ann, domain2.ID)
	})
}

func TestWrittenRecordsAreDeletedWithTheirDomain(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		d := newOwnedDomain(t, s, ann, 1)
		addConfirmedWrite(t, s, ann, d.ID, writtenRecord("a", ""))
		must(t, "delete", s.DeleteTenant(t.Context(), ann, guid(1), nil))
		requireWritten(t, s, ann, d.ID)
	})
}

func TestConcurrentWritesOfOneValueAreAllStored(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		d := newOwnedDomain(t, s, ann, 1)
		for _, err := range concurrently(concurrency, func(i int) error {
			id, err := s.IntendWrite(t.Context(), ann, dns.Write{DomainID: d.ID, At: now,
				Written: []dns.Written{writtenRecord("a", ""), writtenRecord(strings.Repeat("b", i%3), "")}})
			if err != nil {
				return err
			}
			return s.ConfirmWrite(t.Context(), ann, id)
		}) {
			must(t, "write", err)
		}
		requireWritten(t, s, ann, d.ID, writtenRecord("", ""), writtenRecord("a", ""), writtenRecord("b", ""), writtenRecord("bb", ""))
	})
}

// TestOnlyAConfirmedWriteOwnsItsValues checks that Written does not return the values of a write
// before ConfirmWrite.
func TestOnlyAConfirmedWriteOwnsItsValues(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		d := newOwnedDomain(t, s, ann, 1)
		startRun(t, s, ann, d, 1)
		firstWrite := intendWrite(t, s, ann, d.ID, 1, writtenRecord("v=spf1 \xff\x00 -all", "v=spf1 \xfe"))
		droppedWrite := intendWrite(t, s, ann, d.ID, 2, writtenRecord("second", ""))
		openWrite := intendWrite(t, s, ann, d.ID, 3, writtenRecord("third", ""))
		requireWritten(t, s, ann, d.ID)
		requireOpenWrites(t, s, ann, d.ID, firstWrite, droppedWrite, openWrite)
		must(t, "drop", s.DropWrite(t.Context(), ann, droppedWrite.ID))
		for range 2 { // a caller that lost the first answer confirms again
			must(t, "confirm", s.ConfirmWrite(t.Context(), ann, firstWrite.ID))
		}
		must(t, "confirm the dropped write", s.ConfirmWrite(t.Context(), ann, droppedWrite.ID))
		must(t, "drop the confirmed write", s.DropWrite(t.Context(), ann, firstWrite.ID))
		requireOpenWrites(t, s, ann, d.ID, openWrite)
		requireWritten(t, s, ann, d.ID, firstWrite.Written...)
		firstWrite.Confirmed = true
		requireRunWrites(t, s, runID(1), ann, firstWrite, openWrite)
	})
}

func TestUndoOfARunForgetsItsWrites(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		d := newOwnedDomain(t, s, ann, 1)
		job := startRun(t, s, ann, d, 1)
		var writes []dns.Write
		for n, value := range []string{"first", "second"} {
			write := intendWrite(t, s, ann, d.ID, n+1, writtenRecord(value, ""))
			must(t, "confirm", s.ConfirmWrite(t.Context(), ann, write.ID))
			write.Confirmed = true
			writes = append(writes, write)
		}
		otherRunWrite := intendWrite(t, s, ann, d.ID, 1, writtenRecord("of a different run", ""))
		must(t, "confirm", s.ConfirmWrite(t.Context(), ann, otherRunWrite.ID))
		_, err := s.db.NewUpdate().Model((*dnsChangeRow)(nil)).Set("run_id = ?", runID(2)).Where("account_id = ?", accountKey(ann)).Where("id = ?", otherRunWrite.ID).Exec(t.Context())
		must(t, "move the write", err)
		requireRunWrites(t, s, runID(1), ann, writes...)
		_, _, err = s.RunWrites(t.Context(), unknownID)
		requireRefusal(t, "an unknown run", err, fault.RunNotFound)

		beginUndo := func(owner access.AccountID, want ...dns.Write) error {
			got, err := s.BeginUndo(t.Context(), owner, runID(1), now)
			if diff := compare.Diff(append([]dns.Write{}, want...), got); err == nil && diff != "" {
				t.Errorf("the writes (-want +got):\n%s", diff)
			}
			return err
		}
		leased := claimJob(t, s, job.ID, now.Add(time.Hour))
		requireRefusal(t, "begin while a worker has the job", beginUndo(ann), fault.JobActive)
		requireWritten(t, s, ann, d.ID, writes[0].Written[0], writes[1].Written[0], otherRunWrite.Written[0])
		leased.RequiredAction = dns.ConflictToResolve
		saveJobStatus(t, s, leased, provisioning.ActionRequired)
		must(t, "begin of a different account", beginUndo(bob))
		if got := storedJob(t, s, job); got.Status != provisioning.ActionRequired {
			t.Fatalf("the job is %+v, want it to require an action", got)
		}
		must(t, "begin", beginUndo(ann, writes...))
		stopped := storedJob(t, s, job)
		if stopped.Status != provisioning.Failed || stopped.RequiredAction != "" || stopped.Message == "" || !stopped.EndedAt.Equal(now) || stopped.Epoch != leased.Epoch+1 {
			t.Fatalf("the job is %+v, want it failed with a message, ended at %s and in the next epoch", stopped, now)
		}
		requireWritten(t, s, ann, d.ID, otherRunWrite.Written...)
		must(t, "begin again", beginUndo(ann, writes...))
		requireRunWrites(t, s, runID(1), ann, writes...)

		startRun(t, s, ann, d, 3)
		requireRefusal(t, "begin while a different run is active", beginUndo(ann), fault.JobActive)
		must(t, "finish of a different account", s.FinishUndo(t.Context(), bob, runID(1), writes, ports.UndoCounts{}))
		requireRunWrites(t, s, runID(1), ann, writes...)
		must(t, "finish", s.FinishUndo(t.Context(), ann, runID(1), writes, ports.UndoCounts{Restored: 2, Kept: 1}))
		requireRunWrites(t, s, runID(1), ann)
		requireOpenWrites(t, s, ann, d.ID)
		events, err := s.AuditEvents(t.Context(), ports.AuditQuery{Account: ann, Limit: 1})
		must(t, "list audit events", err)
		want := map[string]string{"run_id": runID(1), "put_back": "2", "left_alone": "1"}
		if len(events) != 1 || events[0].Action != audit.UndoDNS || compare.Diff(want, events[0].Details) != "" {
			t.Fatalf("the audit events are %+v, want one with the details %v", events, want)
		}
	})
}
