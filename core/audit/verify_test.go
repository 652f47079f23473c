// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/tenant"
)

// chainLines returns the lines of n entries that continue a chain. sequence and hash belong to the
// entry before these lines.
func chainLines(t testing.TB, n int, sequence int64, hash string) []string {
	t.Helper()
	var lines []string
	for i := range n {
		entry := audit.Entry{
			ID: fmt.Sprintf("id-%d", i), At: time.Date(2026, 11, 2, 9, 0, i, 1000, time.UTC), Actor: audit.Actor{Type: audit.Key, ID: "k", Name: "pro\"d <ü>"},
			Action: "add-domain", Tenant: tenant.GUID("t1"), Subject: audit.Subject{Type: "domain", ID: "d1"},
			Outcome: audit.Outcome{Status: 200 + i}, RequestID: "req-1", ClientIP: "192.0.2.1",
		}
		if i%3 == 1 {
			entry.Tenant, entry.Subject, entry.Outcome, entry.ClientIP = "", audit.Subject{}, audit.Unknown, ""
		}
		line := lineAfter(t, entry, sequence, hash)
		lines, sequence, hash = append(lines, line), sequence+1, hashOf(t, line)
	}
	return lines
}

// lineAfter returns the line of entry, which follows the entry with the given sequence and hash.
func lineAfter(t testing.TB, entry audit.Entry, sequence int64, hash string) string {
	t.Helper()
	linked, err := entry.Link(sequence, hash)
	if err != nil {
		t.Fatal(err)
	}
	line, err := linked.Line()
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

func verify(lines []string) (audit.Proof, error) {
	return audit.Verify(strings.NewReader(strings.Join(lines, "\n") + "\n"))
}

func hashOf(t testing.TB, line string) string {
	t.Helper()
	var e struct{ Hash string }
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		t.Fatal(err)
	}
	return e.Hash
}

// knownHash is the hash of the line in TestEntryHashIsTheSHA256OfItsLine. The command sha256sum
// computed it from the line without the member hash.
const knownHash = "210fec59baeea7c82b92d4eb8bf0f5ffc4a3d5f288bf67e9e013ced10c3d20ee"

func TestEntryHashIsTheSHA256OfItsLine(t *testing.T) {
	lines := chainLines(t, 1, 0, audit.Anchor)
	want := `{"action":"add-domain","actor":{"id":"k","name":"pro\"d <ü>","type":"key"},"at":"2026-11-02T09:00:00.000001Z","client_ip":"192.0.2.1",` +
		`"hash":"` + knownHash + `","id":"id-0","outcome":{"code":null,"status":200},"previous_hash":"` + strings.Repeat("0", 64) +
		`","request_id":"req-1","sequence":1,"subject":{"id":"d1","type":"domain"},"tenant_id":"t1"}`
	if lines[0] != want {
		t.Errorf("got  %s\nwant %s", lines[0], want)
	}
}

func TestVerifyProvesAnExport(t *testing.T) {
	lines := chainLines(t, 7, 0, audit.Anchor)
	proof, err := verify(lines)
	want := audit.Proof{Entries: 7, First: 1, Last: 7, Anchor: audit.Anchor, LastHash: hashOf(t, lines[6])}
	if err != nil || proof != want {
		t.Fatalf("got %+v, %v; want %+v", proof, err, want)
	}
	if proof, err := audit.Verify(strings.NewReader("")); err != nil || proof != (audit.Proof{}) {
		t.Errorf("an empty export: got %+v, %v; want the zero Proof", proof, err)
	}
	var reformatted bytes.Buffer
	for _, line := range lines { // other white space and other escapes
		var members map[string]any
		if err := json.Unmarshal([]byte(line), &members); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(members) // escapes < and >
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&reformatted, " %s\t\r\n", text)
	}
	if proof, err := audit.Verify(&reformatted); err != nil || proof != want {
		t.Errorf("with other white space and escapes: got %+v, %v; want %+v", proof, err, want)
	}
}

// TestVerifyNeedsAReasonForMissingEntries checks exports that do not begin with the first entry.
// Such an export is valid only if it contains an entry of the service with the action DropEntries
// and the hash of the last dropped entry.
func TestVerifyNeedsAReasonForMissingEntries(t *testing.T) {
	lines := chainLines(t, 4, 0, audit.Anchor)
	dropEntry := func(actor audit.ActorType, action audit.Action, hash string) string {
		return lineAfter(t, audit.Entry{ID: "drop", Actor: audit.Actor{Type: actor, ID: "retention"}, Action: action,
			Subject: audit.Subject{Type: audit.EntryHash, ID: hash}, Outcome: audit.Succeeded}, 4, hashOf(t, lines[3]))
	}
	droppedHash := hashOf(t, lines[1])
	for _, tc := range []struct {
		name      string
		lastEntry string
		valid     bool
	}{
		{"the entry that the retention writes", dropEntry(audit.Service, audit.DropEntries, droppedHash), true},
		{"an entry of a different actor", dropEntry(audit.Key, audit.DropEntries, droppedHash), false},
		{"an entry with a different action", dropEntry(audit.Service, "add-domain", droppedHash), false},
		{"an entry with the hash of an earlier dropped entry", dropEntry(audit.Service, audit.DropEntries, hashOf(t, lines[0])), false},
	} {
		proof, err := verify(append(slices.Clone(lines[2:]), tc.lastEntry))
		if (err == nil) != tc.valid {
			t.Errorf("%s: got %v, want valid %t", tc.name, err, tc.valid)
		}
		if tc.valid && (proof.First != 3 || proof.Anchor != droppedHash) {
			t.Errorf("%s: got %+v, want First 3 and Anchor %s", tc.name, proof, droppedHash)
		}
	}
	if _, err := verify(lines[2:]); brokenLine(err) != 1 {
		t.Errorf("without an entry of the retention: got %v, want an error in line 1", err)
	}
}

// brokenLine returns the line that a BrokenError names. It returns 0 for any other error and for
// nil.
func brokenLine(err error) int {
	var broken *audit.BrokenError
	if !errors.As(err, &broken) {
		return 0
	}
	return broken.Line
}

// TestVerifyFindsEveryChange changes exports at random: it drops, swaps, repeats, inserts or
// changes a line. Verify must name the first line that does not continue the chain. The test never
// drops the last line, because an export without that line is valid.
func TestVerifyFindsEveryChange(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 1))
		lines := chainLines(t, 2+random.IntN(6), 0, audit.Anchor)
		changed, change := slices.Clone(lines), ""
		position := random.IntN(len(lines))
		switch random.IntN(6) {
		case 0:
			position = random.IntN(len(lines) - 1) // not the last line
			change, changed = "drop", slices.Delete(changed, position, position+1)
		case 1:
			position = random.IntN(len(lines) - 1)
			otherPosition := position + 1 + random.IntN(len(lines)-position-1)
			changed[position], changed[otherPosition] = changed[otherPosition], changed[position]
			change = "swap"
		case 2:
			change, changed = "repeat", slices.Insert(changed, position+1, lines[position])
			position++
		case 3:
			change, changed = "insert", slices.Insert(changed, position, chainLines(t, 1, int64(position), strings.Repeat("a", 64))[0])
		case 4:
			change, changed[position] = "change a byte", changeByte(random, lines[position])
		default:
			change, changed[position] = "change a member", changeMember(t, random, lines[position])
		}
		_, err := verify(changed)
		if sameEntries(changed, lines) {
			if err != nil {
				t.Fatalf("seed %d, %s: the same entries are refused: %v", seed, change, err)
			}
			continue
		}
		// Verify accepts any sequence in the first line until it has read the whole export. If the
		// first line was changed, Verify may therefore name the second line.
		if line := brokenLine(err); line != position+1 && (position > 0 || line != 2) {
			t.Fatalf("seed %d, %s: got %v, want an error in line %d\n%s", seed, change, err, position+1, strings.Join(changed, "\n"))
		}
	}
}

// sameEntries reports whether two lists of lines are equal as JSON.
func sameEntries(a, b []string) bool {
	return slices.EqualFunc(a, b, func(a, b string) bool {
		var decodedA, decodedB any
		return json.Unmarshal([]byte(a), &decodedA) == nil && json.Unmarshal([]byte(b), &decodedB) == nil && reflect.DeepEqual(decodedA, decodedB)
	})
}

// changeByte flips a bit of a line, or deletes or inserts a byte.
func changeByte(random *rand.Rand, line string) string {
	text := []byte(line)
	switch i := random.IntN(len(text)); random.IntN(3) {
	case 0:
		text[i] ^= byte(1 << random.IntN(8))
	case 1:
		text = slices.Delete(text, i, i+1)
	default:
		text = slices.Insert(text, i, ` "0a,}`[random.IntN(6)])
	}
	return strings.ReplaceAll(string(text), "\n", "?")
}

// changeMember removes, adds or changes a member of a line. It does not compute a new hash.
func changeMember(t *testing.T, random *rand.Rand, line string) string {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal([]byte(line), &members); err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(members))
	name := names[random.IntN(len(names))]
	switch random.IntN(4) {
	case 0:
		delete(members, name)
	case 1:
		members["more"] = name
	case 2:
		members[name] = "other"
	default:
		members[name] = map[string]any{name: members[name]}
	}
	text, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestVerifyDistinguishesUnreadableFromBrokenExports(t *testing.T) {
	if _, err := audit.Verify(iotest.ErrReader(errors.New("disk"))); err == nil || brokenLine(err) != 0 {
		t.Errorf("an export that cannot be read: got %v, want an error that is not a BrokenError", err)
	}
	if _, err := verify([]string{chainLines(t, 1, 0, audit.Anchor)[0], strings.Repeat("x", 1<<20)}); brokenLine(err) != 2 {
		t.Errorf("a line that is too long: got %v, want an error in line 2", err)
	}
}
