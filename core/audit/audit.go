// SPDX-License-Identifier: Apache-2.0

// Package audit defines the records of who did what.
//
//   - audit.go: Entry records one action in the audit chain of an account. The customer can read
//     this chain. Start here.
//   - hash.go: each entry has the hash of the previous entry. canonical.go encodes the JSON that
//     the hashes cover.
//   - verify.go: checks that an export is an unbroken chain.
//   - operatorevent.go: Event is an action of an operator. Events are in a separate log, which also
//     has actions that concern no account.
package audit

import (
	"crypto/sha256"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
)

// Entry records one action in the chain of an account. The chain has the actions of callers, of
// administrators on the connect pages, of operators and of the service itself. An entry is never
// changed after it was stored.
type Entry struct {
	// ID is a UUIDv7. The store sets Sequence, At, PreviousHash and Hash.
	ID      string
	Account access.AccountID // not part of the hash
	// Sequence is the position in the chain of the account: 1, 2, 3, … without gaps.
	Sequence int64
	At       time.Time // when the entry was written
	Actor    Actor
	// Action is the id of the API operation for a request with an API key, or "unknown" if the
	// request matched no operation. For all other actions it is one of the constants of type
	// Action.
	Action  Action
	Tenant  tenant.GUID // empty if the action concerns no tenant
	Subject Subject     // zero if the action has no single object
	Outcome Outcome
	// RequestID and ClientIP are empty for an action of an operator or of the service.
	RequestID, ClientIP string
	// PreviousHash is the Hash of the previous entry, or Anchor for the first entry.
	PreviousHash, Hash string
}

// Anchor is the PreviousHash of the first entry of a chain.
var Anchor = strings.Repeat("0", 2*sha256.Size)

// ActorType is the kind of an Actor.
type ActorType string

// The kinds of actors.
const (
	Key      ActorType = "key"
	Member   ActorType = "member" // a person who signed in; ID and Name are the e-mail address
	Operator ActorType = "operator"
	Service  ActorType = "service"
)

// Actor is who did an action.
type Actor struct {
	Type     ActorType
	ID, Name string
}

// Subject is the object of an action.
type Subject struct {
	Type, ID string
}

// Outcome is the result of an action.
type Outcome struct {
	// Status is the HTTP status of the answer. For an action that is not an API request it is 200,
	// because such an action is recorded only when it succeeded. Status is 0 for Unknown.
	Status int
	Code   string // the error code of the answer, or the code of Unknown; empty for a success
}

// Succeeded is the outcome of an action that is not an API request.
var Succeeded = Outcome{Status: 200}

// Unknown is the outcome of a request that changed something and then ended without a recorded
// answer, for example because the process was killed.
var Unknown = Outcome{Code: "outcome_unknown"}

// Action is the name of a recorded action, such as account.create.
type Action string

// The actions of administrators on the connect pages and of the service.
const (
	SignIn        Action = "connect.sign_in"
	ConnectTenant Action = "connect.confirm"
	// DropEntries is the deletion of entries whose retention has ended. The subject has the type
	// EntryHash, and its id is the hash of the last entry that was deleted.
	DropEntries Action = "audit.drop"
)

// EntryHash is the type of the subject of DropEntries.
const EntryHash = "audit_entry"
