// SPDX-License-Identifier: Apache-2.0

package zones_test

import (
	"os"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/sandbox/zones"
)

// TestZonesWithAPast: each can be served, is told in the document, and is its
// owner's once it is there.
func TestZonesWithAPast(t *testing.T) {
	store, server := open(t)
	raw, err := os.ReadFile("../../../docs/sandbox.md")
	if err != nil {
		t.Fatal(err)
	}
	if rows := strings.Count(string(raw), "| `messy-"); rows != len(zones.Pasts) {
		t.Errorf("docs/sandbox.md has %d zones, the sandbox %d", rows, len(zones.Pasts))
	}
	for _, p := range zones.Pasts {
		if err := store.Seed(p); err != nil {
			t.Fatal(err)
		}
		if m := ask(t, server, "tcp", p.Name, "SOA", false); len(m.Answer) != 1 {
			t.Errorf("%s is not served: %v", p.Name, m)
		}
		if list, err := store.Records(p.Name); err != nil || len(list) == 0 {
			t.Errorf("%s holds %v, %v", p.Name, list, err)
		}
		row := "| `" + p.Name + "` | " + map[string]string{"cloudflare": "Cloudflare", "manual": "a registrar"}[p.Provider] + " | " + p.About + " |\n"
		if !strings.Contains(string(raw), row) {
			t.Errorf("docs/sandbox.md has no row %s", row)
		}
	}
	mine := records(t, `[{"type":"A","name":"messy-mx-null.test","content":"192.0.2.1","ttl":60}]`)
	if err := store.Replace("messy-mx-null.test", mine); err != nil {
		t.Fatal(err)
	}
	for _, p := range zones.Pasts {
		if err := store.Seed(p); err != nil {
			t.Fatal(err)
		}
	}
	if list, _ := store.Records("messy-mx-null.test"); len(list) != 1 || list[0].Type != "A" {
		t.Errorf("seeded again over what its owner did: %v", list)
	}
}
