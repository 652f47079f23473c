// SPDX-License-Identifier: Apache-2.0

package mailbox_test

import (
	"testing"

	"github.com/tenantry/tenantry/core/mailbox"
)

func TestSeen(t *testing.T) {
	const (
		address = "anna@example.test"
		first   = "anna.1@t.onmicrosoft.test"
	)
	for _, tt := range []struct {
		name        string
		stage       mailbox.Stage
		provisioned bool
		stored      string
		listed      string
		wantStage   mailbox.Stage
		wantOurs    bool
		want        string
	}{
		{"the list is late", mailbox.Ready, true, address, first, mailbox.Ready, true, address},
		{"the list caught up", mailbox.Ready, true, first, "Anna@example.test", mailbox.Ready, true, "Anna@example.test"},
		{"ours, not finished", mailbox.Created, true, first, "other@t.test", mailbox.Created, true, first},
		{"ours, the answer of its making got lost", mailbox.Creating, false, "", first, mailbox.Created, true, first},
		{"foreign", mailbox.Ready, false, first, "other@t.test", mailbox.Ready, false, "other@t.test"},
		{"there before us", mailbox.Reserved, false, "", first, mailbox.Ready, false, first},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := mailbox.Mailbox{ID: "id", Stage: tt.stage, Provisioned: tt.provisioned, PrincipalName: tt.stored, Address: address, DailySendLimit: 5}
			got := m.Seen(mailbox.Platform{
				ObjectID: "object", DisplayName: "Anna", Address: address, PrincipalName: tt.listed, Alias: "anna.1", AccountEnabled: true,
			})
			want := mailbox.Mailbox{
				ID: "id", Stage: tt.wantStage, Provisioned: tt.wantOurs, ObjectID: "object", DisplayName: "Anna", Address: address,
				PrincipalName: tt.want, Alias: "anna.1", AccountEnabled: true, DailySendLimit: 5,
			}
			if got != want {
				t.Fatalf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}
