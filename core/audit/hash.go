// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

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
