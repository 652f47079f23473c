// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/tenant"
)

// Audit stores the actions of operators. A store is opened with the name of one operator, and
// records all actions as actions of this operator. A method that acts for the operator stores its
// change and the record of the action in one transaction.
type Audit interface {
	// RecordAction records an action that concerns no account.
	RecordAction(ctx context.Context, action audit.Action, details map[string]string) error
	// AuditEvents lists actions, newest first.
	AuditEvents(ctx context.Context, q AuditQuery) ([]audit.Event, error)
}

// AuditQuery selects recorded actions.
type AuditQuery struct {
	Account access.AccountID // only actions on this account; empty selects all
	Since   time.Time        // only actions at or after this time; zero selects all
	Limit   int              // maximum number of events
}

// AuditChains stores the chain of audit entries of each account. A store adds the entries for
// actions of operators, for actions of administrators on the connect pages, and for the deletion of
// old entries. It adds each of these entries in the transaction that makes the change. The entry of
// a request is added when the request ends, see Act.
type AuditChains interface {
	// EndAct ends the act that ctx carries. It adds the act's entry with the outcome, at most once.
	// If the outcome is nil, it adds no entry and deletes the stored act.
	EndAct(ctx context.Context, outcome *audit.Outcome) error
	// RecordLostWrites adds entries with the outcome audit.Unknown for at most limit acts that were
	// stored more than age ago and did not end. It skips writes whose Idempotency-Key is leased,
	// because their requests still run. It returns the number of added entries.
	RecordLostWrites(ctx context.Context, age time.Duration, limit int) (int, error)
	// AuditEntries lists entries of the owner, newest first. It fails with cursor_expired if the
	// entry q.Before was deleted, and with invalid_request if the account never had this entry.
	AuditEntries(ctx context.Context, owner access.AccountID, q EntryQuery) (EntryPage, error)
	// AuditExport lists at most limit entries of the owner after a sequence, oldest first. If after
	// is 0, the list begins with the oldest entry that is kept.
	AuditExport(ctx context.Context, owner access.AccountID, after int64, limit int) ([]audit.Entry, error)
	// DropAuditEntries selects any account that has entries older than the given time. It deletes
	// at most limit of these entries, and adds an entry with the hash of the last deleted entry. It
	// returns the number of deleted entries, 0 if no account has entries that are so old.
	DropAuditEntries(ctx context.Context, before time.Time, limit int) (int, error)
}

// EntryQuery selects audit entries of an account.
type EntryQuery struct {
	Before int64 // only entries with a lower sequence; 0 selects all
	// Actor is the id, the name or the type of an actor. An empty Actor or Action selects all.
	Actor, Action string
	// Tenants selects the entries that concern one of these tenants; empty selects all.
	Tenants  []tenant.GUID
	From, To time.Time // only entries at From or later, and before To; zero selects all
	Limit    int
}

// EntryPage is a part of the list of entries.
type EntryPage struct {
	Entries []audit.Entry
	More    bool // whether older entries match the query too
}

// Act is a request whose audit entry is not written yet. The context of the request carries the act
// and the Effects. The first transaction of the request that changes something also stores the act.
// Later, EndAct or a StoredAnswer turns the act into an entry. After a crash, RecordLostWrites does
// this.
type Act struct {
	// Entry is the entry without the fields that the store sets and without the outcome. The act of
	// a connect page has no account and does not become an entry. It only provides the client IP
	// and the request id for the entries that the store adds.
	Entry audit.Entry
	// Write identifies the write, and is the same in all attempts of the write. It is the hash of
	// the Idempotency-Key, or any unique value for a write without a key. A later attempt replaces
	// the stored act of an earlier attempt that did not end.
	Write []byte

	mu    sync.Mutex
	state ActState
}

// ActState says what is stored of an act.
type ActState int

// The states of an act. An act only moves to a later state in this list.
const (
	ActNew       ActState = iota // nothing is stored
	ActStored                    // the act is stored, without an outcome
	ActUncertain                 // the entry may be stored: the commit got no answer
	ActEnded                     // the entry is stored, or the act ended without an entry
)

// State returns what is stored of the act.
func (a *Act) State() ActState {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// AdvanceTo moves the act to the state, unless the act is already in a later state.
func (a *Act) AdvanceTo(state ActState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state = max(a.state, state)
}

type actKey struct{}

// WithAct returns a context in which all changes belong to the act.
func WithAct(ctx context.Context, a *Act) context.Context { return context.WithValue(ctx, actKey{}, a) }

// ActOf returns the act that ctx carries, or nil.
func ActOf(ctx context.Context) *Act {
	a, _ := ctx.Value(actKey{}).(*Act)
	return a
}
