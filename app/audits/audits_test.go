// SPDX-License-Identifier: Apache-2.0

package audits_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/app/audits"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/ports"
)

// fakeChains is a fake of audit chains. The test sets the results of its methods. The methods
// record their arguments.
type fakeChains struct {
	ports.AuditChains
	dropCounts []int           // the results of the next calls of DropAuditEntries
	lostCounts []int           // the results of the next calls of RecordLostWrites
	err        error           // returned with the count 0 when no counts are left, and by AuditExport
	cutoffs    []time.Time     // the arguments of the calls of DropAuditEntries
	ages       []time.Duration // the arguments of the calls of RecordLostWrites
	entries    []audit.Entry   // AuditExport returns those after a sequence number
}

func (c *fakeChains) nextCount(counts *[]int) (int, error) {
	if len(*counts) == 0 {
		return 0, c.err
	}
	count := (*counts)[0]
	*counts = (*counts)[1:]
	return count, nil
}

func (c *fakeChains) DropAuditEntries(_ context.Context, before time.Time, _ int) (int, error) {
	c.cutoffs = append(c.cutoffs, before)
	return c.nextCount(&c.dropCounts)
}

func (c *fakeChains) RecordLostWrites(_ context.Context, age time.Duration, _ int) (int, error) {
	c.ages = append(c.ages, age)
	return c.nextCount(&c.lostCounts)
}

func (c *fakeChains) AuditExport(_ context.Context, _ access.AccountID, after int64, _ int) ([]audit.Entry, error) {
	return slices.DeleteFunc(slices.Clone(c.entries), func(e audit.Entry) bool { return e.Sequence <= after }), c.err
}

func newService(chains *fakeChains, retention time.Duration) *audits.Service {
	return &audits.Service{Chains: chains, Retention: retention, Now: func() time.Time {
		return time.Date(2026, 11, 21, 1, 30, 0, 0, time.FixedZone("east", 2*3600)) // 20 November, 23:30 in UTC
	}}
}

func TestDeleteOldEntriesDropsWholeDays(t *testing.T) {
	chains := &fakeChains{dropCounts: []int{5000, 5000, 7}}
	if err := newService(chains, 48*time.Hour).DeleteOldEntries(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)
	if len(chains.cutoffs) != 4 || slices.ContainsFunc(chains.cutoffs, func(cutoff time.Time) bool { return !cutoff.Equal(want) }) {
		t.Errorf("DropAuditEntries was called with the cutoffs %v, want 4 times %v", chains.cutoffs, want)
	}
}

func TestZeroOrNegativeRetentionDeletesNothing(t *testing.T) {
	for _, retention := range []time.Duration{0, -24 * time.Hour} {
		chains := &fakeChains{dropCounts: []int{1}}
		if err := newService(chains, retention).DeleteOldEntries(t.Context()); err != nil || len(chains.cutoffs) != 0 {
			t.Errorf("with the retention %s, entries before %v were deleted, %v; want none and no error", retention, chains.cutoffs, err)
		}
	}
}

func TestRecordLostWritesRepeatsUntilNoneAreLeft(t *testing.T) {
	chains := &fakeChains{lostCounts: []int{500, 3}}
	if err := newService(chains, 0).RecordLostWrites(t.Context()); err != nil || !slices.Equal(chains.ages, []time.Duration{time.Minute, time.Minute, time.Minute}) {
		t.Errorf("RecordLostWrites was called with the ages %v, want 3 times one minute; the error is %v, want none", chains.ages, err)
	}
}

func TestFailureOfTheStoreEndsABackgroundJob(t *testing.T) {
	errStore := errors.New("away")
	service := newService(&fakeChains{dropCounts: []int{1}, lostCounts: []int{1}, err: errStore}, time.Hour)
	if err := service.DeleteOldEntries(t.Context()); !errors.Is(err, errStore) {
		t.Errorf("DeleteOldEntries: got %v, want %v", err, errStore)
	}
	if err := service.RecordLostWrites(t.Context()); !errors.Is(err, errStore) {
		t.Errorf("RecordLostWrites: got %v, want %v", err, errStore)
	}
}

// TestExportFailsAtAGap checks that an export fails if entries are dropped before the export has
// read them.
func TestExportFailsAtAGap(t *testing.T) {
	service := newService(&fakeChains{entries: []audit.Entry{{Sequence: 5}, {Sequence: 6}}}, 0)
	for after, want := range map[int64]int{0: 2, 4: 2, 5: 1, 6: 0} {
		if got, err := service.ExportPage(t.Context(), "a", after); err != nil || len(got) != want {
			t.Errorf("the page after %d: got %v, %v, want %d entries", after, got, err, want)
		}
	}
	if _, err := service.ExportPage(t.Context(), "a", 3); err == nil {
		t.Error("the page after 3 begins with 5, but ExportPage did not fail")
	}
}
