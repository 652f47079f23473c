// SPDX-License-Identifier: Apache-2.0

package httpapi

import "testing"

// TestNamesAreComposed checks that a decomposed Unicode name equals the composed one.
func TestNamesAreComposed(t *testing.T) {
	wanted := provisionMailboxes{Mailboxes: []wantedMailbox{{Name: "Zoe\u0308 A\u030angstro\u0308m"}}}
	r, err := wanted.request()
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Mailboxes[0].DisplayName; got != "Zo\u00eb \u00c5ngstr\u00f6m" {
		t.Errorf("got %q", got)
	}
}
