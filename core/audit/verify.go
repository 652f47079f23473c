// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Proof is the result of Verify for an export that is one unbroken chain, from the entry First to
// the entry Last.
type Proof struct {
	Entries     int
	First, Last int64 // sequences; 0 for an empty export
	// Anchor is the PreviousHash of the first entry. If First is greater than 1, the export has an
	// entry with the action DropEntries and this hash as its subject. That entry records that all
	// entries before First were deleted.
	Anchor string
	// LastHash is the hash of the last entry. If entries at the end of the export were removed,
	// LastHash differs from the hash of the account's newest entry.
	LastHash string
}

// BrokenError is the error for an export that is not an unbroken chain.
type BrokenError struct {
	Line   int // the number, from 1, of the first line that does not continue the chain
	Reason string
}

// Error implements error.
func (e *BrokenError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// maxLine is the maximum length of a line in bytes. An entry has a few hundred bytes.
const maxLine = 64 << 10

// Verify reads an export and checks each hash, the order, and that no entry is missing between the
// first and the last. If entries before the first are missing, it requires the entry that
// Proof.Anchor describes. The order of JSON members and the white space do not matter. Verify fails
// with a BrokenError if a check fails, and with a different error if the export cannot be read.
func Verify(export io.Reader) (Proof, error) {
	var p Proof
	deleted := map[string]bool{} // the subjects of the entries with the action DropEntries
	lines := bufio.NewScanner(export)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		e, err := parseEntry(lines.Bytes())
		if err == nil {
			err = p.add(e)
		}
		if err != nil {
			return Proof{}, &BrokenError{Line: p.Entries + 1, Reason: err.Error()}
		}
		if e.lastDeletedHash != "" {
			deleted[e.lastDeletedHash] = true
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return Proof{}, &BrokenError{Line: p.Entries + 1, Reason: "longer than any entry"}
	} else if err != nil {
		return Proof{}, err
	}
	if p.First > 1 && !deleted[p.Anchor] {
		return Proof{}, &BrokenError{Line: 1, Reason: fmt.Sprintf("begins with the entry %d, and no entry records that the entries before it were deleted", p.First)}
	}
	return p, nil
}

// add checks that e follows the entries in p, and adds it to them.
func (p *Proof) add(e parsedEntry) error {
	switch {
	case p.Entries == 0 && e.sequence < 1:
		return errors.New("the sequence is less than 1")
	case p.Entries == 0 && e.sequence == 1 && e.previousHash != Anchor:
		return errors.New("the entry has the sequence 1, but its previous_hash is not 64 zeros")
	case p.Entries > 0 && e.sequence != p.Last+1:
		return fmt.Errorf("the entry %d follows the entry %d", e.sequence, p.Last)
	case p.Entries > 0 && e.previousHash != p.LastHash:
		return errors.New("previous_hash is not the hash of the entry before")
	case p.Entries == 0:
		p.First, p.Anchor = e.sequence, e.previousHash
	}
	p.Entries, p.Last, p.LastHash = p.Entries+1, e.sequence, e.hash
	return nil
}

// parsedEntry has the parts of an entry that Verify needs.
type parsedEntry struct {
	sequence           int64
	previousHash, hash string
	lastDeletedHash    string // the hash of the last deleted entry, if the action is DropEntries
}

// parseEntry parses a line and checks its hash.
func parseEntry(line []byte) (parsedEntry, error) {
	members, err := parseObject(line)
	if err != nil {
		return parsedEntry{}, err
	}
	var e parsedEntry
	e.hash, _ = members[hashMember].(string)
	delete(members, hashMember)
	text, err := appendCanonical(nil, members)
	if err != nil {
		return parsedEntry{}, err
	}
	if hashOf(text) != e.hash {
		return parsedEntry{}, errors.New("hash is not the hash of the entry")
	}
	number, _ := members["sequence"].(json.Number)
	sequence, err := number.Float64()
	if err != nil {
		return parsedEntry{}, errors.New("the entry has no sequence")
	}
	e.sequence = int64(sequence)
	e.previousHash, _ = members["previous_hash"].(string)
	actor, _ := members["actor"].(map[string]any)
	subject, _ := members["subject"].(map[string]any)
	if actor["type"] == string(Service) && members["action"] == string(DropEntries) && subject["type"] == EntryHash {
		e.lastDeletedHash, _ = subject["id"].(string)
	}
	return e, nil
}
