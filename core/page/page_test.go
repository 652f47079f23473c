// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/page"
)

func TestDecodeReversesEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := page.Cursor(rapid.String().Draw(t, "position"))
		if got, err := page.Decode("keys", c.Encode("keys")); err != nil || got != c {
			t.Fatalf("got %q, %v; want %q", got, err, c)
		}
	})
}

func TestDecodeRefusesForeignAndDamagedCursors(t *testing.T) {
	cursor := page.Cursor("019a52d0").Encode("keys")
	damaged := []byte(cursor)
	damaged[4] ^= 1
	for _, text := range []string{"x", "====", cursor[:len(cursor)-1], cursor + "A", string(damaged), "019a52d0", page.Cursor("019a52d0").Encode("events"), " " + cursor, cursor + "\n"} {
		if c, err := page.Decode("keys", text); !errors.Is(err, fault.InvalidRequest) || c != "" {
			t.Errorf("%q: got %q, %v; want invalid_request", text, c, err)
		}
	}
}

// FuzzDecode checks that Decode accepts only results of Encode.
func FuzzDecode(f *testing.F) {
	f.Add(page.Cursor("019a52d0").Encode("keys"))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := page.Decode("keys", text); err == nil && c.Encode("keys") != text {
			t.Errorf("Decode accepts %q as %q, which Encode encodes differently", text, c)
		}
	})
}

func TestPagesAreCompleteAndInOrder(t *testing.T) {
	entries := []string{"a", "b", "c", "d", "e"}
	for limit := 1; limit <= len(entries)+1; limit++ {
		var readEntries []string
		query := page.Query{Limit: limit}
		for {
			start := 0
			if query.After != "" {
				start = slices.Index(entries, string(query.After)) + 1
			}
			result := page.New(query, entries[start:min(len(entries), start+limit+1)], func(entry string) page.Cursor { return page.Cursor(entry) })
			if len(result.Entries) > limit {
				t.Fatalf("a page has %d entries, want at most %d", len(result.Entries), limit)
			}
			readEntries = append(readEntries, result.Entries...)
			if result.Next == "" {
				break
			}
			query.After = result.Next
		}
		if !slices.Equal(readEntries, entries) {
			t.Errorf("limit %d: the pages contain %v, want %v", limit, readEntries, entries)
		}
	}
}
