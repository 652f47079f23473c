// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"crypto/sha256"
	"encoding/hex"
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

// Link returns e as the entry that follows the entry with the given sequence and hash. It sets
// Sequence, PreviousHash and Hash. It fails if a text of e is not UTF-8.
func (e Entry) Link(sequence int64, hash string) (Entry, error) {
	e.Sequence, e.PreviousHash = sequence+1, hash
	text, err := appendCanonical(nil, e.members())
	if err != nil {
		return Entry{}, err
	}
	e.Hash = hashOf(text)
	return e, nil
}

// Line returns the entry as one line of an export: its canonical JSON (RFC 8785), without the
// newline.
func (e Entry) Line() ([]byte, error) {
	members := e.members()
	members[hashMember] = e.Hash
	return appendCanonical(nil, members)
}

// FormatTime formats a time as entries do.
func FormatTime(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

const hashMember = "hash"

// members returns the members of the entry's JSON, except the hash.
func (e Entry) members() map[string]any {
	members := map[string]any{
		"id": e.ID, "sequence": e.Sequence, "at": FormatTime(e.At),
		"actor":  map[string]any{"type": string(e.Actor.Type), "id": e.Actor.ID, "name": e.Actor.Name},
		"action": string(e.Action), "tenant_id": textOrNull(string(e.Tenant)), "subject": nil,
		"outcome":    map[string]any{"status": nil, "code": textOrNull(e.Outcome.Code)},
		"request_id": textOrNull(e.RequestID), "client_ip": textOrNull(e.ClientIP), "previous_hash": e.PreviousHash,
	}
	if e.Subject != (Subject{}) {
		members["subject"] = map[string]any{"type": e.Subject.Type, "id": e.Subject.ID}
	}
	if e.Outcome.Status != 0 {
		members["outcome"].(map[string]any)["status"] = int64(e.Outcome.Status)
	}
	return members
}

func textOrNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
