// SPDX-License-Identifier: Apache-2.0

// Package audits reads the audit chain of an account and deletes old entries of all chains. It also
// adds an entry for each write that did not end, for example because its process was killed.
//
// List and ExportPage are for callers. DeleteOldEntries and RecordLostWrites are background jobs.
// The guard (adapters/httpapi/guard) adds the entry of a request when the request ends. The store
// adds the entries for operators, for administrators on the connect pages and for deleted entries,
// each in the transaction of the change. See docs/decisions/0036-audit-chains.md.
package audits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/ports"
)

// Service reads and maintains audit chains.
type Service struct {
	Chains    ports.AuditChains
	Retention time.Duration // how long entries are kept; 0 keeps them forever
	Now       func() time.Time
}

const (
	// exportPage is the number of entries that an export reads in one query.
	exportPage = 500
	// dropBatch is the maximum number of entries that one transaction deletes.
	dropBatch = 5000
	// lostBatch is the maximum number of lost acts that one transaction ends. An act is a write
	// whose audit entry is not written yet (see ports.Act).
	lostBatch = 500
	// lostAfter is the age at which an act without an end counts as lost. An act whose request
	// still holds its Idempotency-Key is not lost. Other requests that change data end sooner than
	// lostAfter.
	lostAfter = time.Minute
)

// List returns a page of the entries of an account, newest first. It fails with cursor_expired or
// invalid_request if q.Before is not the sequence of a stored entry.
func (s *Service) List(ctx context.Context, owner access.AccountID, q ports.EntryQuery) (ports.EntryPage, error) {
	return s.Chains.AuditEntries(ctx, owner, q)
}

// errGap is the error of an export whose next entries were deleted before they were read.
var errGap = errors.New("entries were deleted during the export")

// ExportPage returns the next page of an export, oldest entry first. after is the sequence number
// of the last entry of the previous page, and 0 for the first page. An empty page is the end of the
// export. ExportPage fails if entries between the two pages were deleted.
func (s *Service) ExportPage(ctx context.Context, owner access.AccountID, after int64) ([]audit.Entry, error) {
	entries, err := s.Chains.AuditExport(ctx, owner, after, exportPage)
	if err == nil && after > 0 && len(entries) > 0 && entries[0].Sequence != after+1 {
		err = errGap
	}
	return entries, err
}

// DeleteOldEntries deletes the entries of all UTC days that ended at least Retention ago.
func (s *Service) DeleteOldEntries(ctx context.Context) error {
	if s.Retention <= 0 {
		return nil
	}
	cutoff := s.Now().Add(-s.Retention).UTC().Truncate(24 * time.Hour)
	return repeatUntilZero(func() (int, error) { return s.Chains.DropAuditEntries(ctx, cutoff, dropBatch) })
}

// RecordLostWrites ends each lost act (see lostAfter) with an entry. The outcome in the entry is
// audit.Unknown.
func (s *Service) RecordLostWrites(ctx context.Context) error {
	return repeatUntilZero(func() (int, error) { return s.Chains.RecordLostWrites(ctx, lostAfter, lostBatch) })
}

// repeatUntilZero calls do until do returns 0 or fails.
func repeatUntilZero(do func() (int, error)) error {
	for {
		count, err := do()
		if err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		if count == 0 {
			return nil
		}
	}
}
