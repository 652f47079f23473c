// SPDX-License-Identifier: Apache-2.0

package mailbox_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/observation"
)

// TestRenameKeepsStageOfNewerCreation checks a rename whose request loaded the mailbox before the
// creation was completed. The rename must change only the name.
func TestRenameKeepsStageOfNewerCreation(t *testing.T) {
	loaded := mailbox.Mailbox{ID: "id", Address: "a@b.test", Stage: mailbox.Created, Provisioned: true, PrincipalName: "first"}
	loaded.Observed = mailbox.Observed{Stage: time.Unix(1, 0), Account: time.Unix(1, 0), Enabled: time.Unix(1, 0), Name: time.Unix(1, 0)}
	completed := loaded
	completed.Stage, completed.AccountEnabled, completed.PrincipalName = mailbox.Ready, true, "a@b.test"
	completed.Observed.Stage, completed.Observed.Account, completed.Observed.Enabled = time.Unix(3, 0), time.Unix(2, 0), time.Unix(2, 0)
	renamed := mailbox.Mailbox{ID: "id", Stage: mailbox.Created, Provisioned: true, PrincipalName: "first", DisplayName: "New"}
	renamed.Observed.Name = time.Unix(2, 0)
	want := completed
	want.DisplayName, want.Observed.Name = "New", time.Unix(2, 0)
	if got := loaded.Merge(completed).Merge(renamed); got != want {
		t.Errorf("with the rename last: got %+v, want %+v", got, want)
	}
	if got := loaded.Merge(renamed).Merge(completed); got != want {
		t.Errorf("with the creation last: got %+v, want %+v", got, want)
	}
}

// TestCompletedCreationIsFinal checks that a slower request for the same address does not set a
// Ready mailbox back to an earlier stage.
func TestCompletedCreationIsFinal(t *testing.T) {
	completed := mailbox.Mailbox{Stage: mailbox.Ready, Provisioned: true, Observed: mailbox.Observed{Stage: time.Unix(1, 0)}}
	incomplete := completed
	incomplete.Stage, incomplete.Observed.Stage = mailbox.Created, time.Unix(2, 0)
	if got := completed.Merge(incomplete); got.Stage != mailbox.Ready {
		t.Fatalf("the stage is %s, want %s", got.Stage, mailbox.Ready)
	}
	reserved := completed.ReservedAgain(time.Unix(3, 0))
	if got := reserved.Merge(completed); got.Stage != mailbox.Reserved || !got.Provisioned {
		t.Fatalf("a missing mailbox that a request reserved again is %+v, want the stage %s", got, mailbox.Reserved)
	}
}

func TestMailboxIsGoneAfterTwoMisses(t *testing.T) {
	createdAt := time.Unix(1000, 0)
	stored := mailbox.Mailbox{Stage: mailbox.Ready, Provisioned: true, Observed: mailbox.Observed{Account: createdAt}}
	if missed, gone := stored.AfterMiss(createdAt.Add(-1)); gone || missed != stored {
		t.Fatalf("a miss before the creation counts: %+v", missed)
	}
	firstMiss := createdAt.Add(time.Minute)
	stored, gone := stored.AfterMiss(firstMiss)
	if gone || !stored.MissingSince.Equal(firstMiss) {
		t.Fatalf("the first miss: gone is %t in %+v, want a missing mailbox that is not gone", gone, stored)
	}
	if stored, gone = stored.AfterMiss(firstMiss.Add(time.Minute)); gone || !stored.MissingSince.Equal(firstMiss) {
		t.Fatalf("the second miss a minute later: gone is %t in %+v, want a mailbox that is missing since the first miss", gone, stored)
	}
	if found := stored.Merge(stored.WithPlatformState(mailbox.Platform{}, firstMiss.Add(2*time.Minute))); !found.MissingSince.IsZero() {
		t.Fatalf("after a list newer than the miss: missing since %s, want not missing", found.MissingSince)
	}
	if _, gone = stored.AfterMiss(firstMiss.Add(observation.ReplicaLag)); !gone {
		t.Fatal("the mailbox is not gone after a miss ReplicaLag after the first")
	}
}

// TestReservedMailboxCountsEarlierMisses checks a missing mailbox that a request reserved again. A
// second miss removes the mailbox. If the request may have created a new mailbox, the second miss
// counts as the first miss of the new one.
func TestReservedMailboxCountsEarlierMisses(t *testing.T) {
	firstMiss := time.Unix(1000, 0)
	afterLag := firstMiss.Add(observation.ReplicaLag)
	reserved := mailbox.Mailbox{Stage: mailbox.Ready, MissingSince: firstMiss}.ReservedAgain(firstMiss.Add(time.Minute))
	if !reserved.MayBeHidden(afterLag.Add(-1)) || reserved.MayBeHidden(afterLag) || !(mailbox.Mailbox{}).MayBeHidden(afterLag) {
		t.Errorf("want MayBeHidden until ReplicaLag after the first miss, and always for the zero Mailbox: %+v", reserved)
	}
	if missingAgain := reserved.MissingAgain(); !missingAgain.MissingSince.Equal(firstMiss) || !missingAgain.Observed.PreviousMissingSince.IsZero() {
		t.Errorf("got %+v, want a mailbox that is missing since %v", missingAgain, firstMiss)
	}
	if missed, gone := reserved.AfterMiss(afterLag); !gone || !missed.MissingSince.Equal(firstMiss) {
		t.Errorf("got %+v, gone %t, want a mailbox that no longer exists", missed, gone)
	}
	reserved.Stage = mailbox.Creating
	if missed, gone := reserved.AfterMiss(afterLag); gone || !missed.MissingSince.Equal(afterLag) {
		t.Errorf("got %+v, gone %t, want a mailbox that is missing since %v", missed, gone, afterLag)
	}
}

// TestEnabledStateBelongsToItsAccount checks a creation whose result is stored late. Meanwhile the
// mailbox was removed, or a discovery has found a different account at its address. The result must
// not enable that account, although its observation is held.
func TestEnabledStateBelongsToItsAccount(t *testing.T) {
	created := mailbox.Mailbox{ObjectID: "1", Stage: mailbox.Created, Provisioned: true, Observed: mailbox.Observed{Account: time.Unix(1, 0), Enabled: time.Unix(1, 0)}}
	lateResult := created
	lateResult.Stage, lateResult.AccountEnabled = mailbox.Ready, true
	lateResult.Observed.Account, lateResult.Observed.Enabled = time.Unix(2, 0), observation.HeldUntil(time.Unix(2, 0))
	disabledAccount := mailbox.Platform{ObjectID: "2"}
	found := created.Merge(created.WithPlatformState(disabledAccount, time.Unix(3, 0)))
	if got := found.Merge(lateResult); got.ObjectID != "2" || got.AccountEnabled || got.Observed.Enabled != found.Observed.Enabled {
		t.Errorf("a different account after a discovery is %+v, want a disabled account, as in %+v", got, found)
	}
	removed := created.AfterRemoval(time.Unix(3, 0)).Merge(lateResult)
	if got := removed.Merge(removed.WithPlatformState(disabledAccount, time.Unix(4, 0))); got.ObjectID != "2" || got.AccountEnabled {
		t.Errorf("a different account after the removal is %+v, want a disabled account", got)
	}
}
