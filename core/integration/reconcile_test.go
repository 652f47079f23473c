// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/integration"
)

const (
	none          = integration.ConnectionStatus("")
	pending       = integration.ConnectionPending
	connected     = integration.ConnectionConnected
	failed        = integration.ConnectionFailed
	disconnected  = integration.ConnectionDisconnected
	disconnecting = integration.ConnectionDisconnecting
	other         = integration.ConnectionOther
)

func TestReconcileFollowsTheAccountAtThePlatform(t *testing.T) {
	absent := integration.AccountState("")
	for _, tc := range []struct {
		before integration.ConnectionStatus
		listed integration.AccountState
		want   integration.ConnectionStatus
	}{
		{none, absent, none}, {none, integration.AccountConnected, connected}, {none, integration.AccountFailed, failed},
		{none, integration.AccountPending, pending}, {none, integration.AccountOther, other}, {none, "odd", other},
		{pending, absent, pending}, {pending, integration.AccountConnected, connected}, {pending, integration.AccountFailed, pending},
		{pending, integration.AccountPending, pending}, {pending, integration.AccountOther, pending},
		{connected, absent, disconnected}, {connected, integration.AccountConnected, connected}, {connected, integration.AccountFailed, failed},
		{connected, integration.AccountPending, pending}, {connected, integration.AccountOther, other},
		{failed, absent, disconnected}, {failed, integration.AccountConnected, connected}, {failed, integration.AccountFailed, failed},
		{disconnected, absent, disconnected}, {disconnected, integration.AccountConnected, connected}, {disconnected, integration.AccountFailed, failed},
		{disconnecting, absent, disconnected}, {disconnecting, integration.AccountConnected, connected}, {disconnecting, integration.AccountFailed, failed},
		{other, absent, disconnected}, {other, integration.AccountConnected, connected}, {other, integration.AccountOther, other},
	} {
		eligible := integration.EligibleMailbox{Mailbox: anna}
		if tc.before != none {
			eligible.Connection = integration.Connection{ID: "c", Status: tc.before, PlatformAccountID: "1", PlatformAccountAddress: anna.Address,
				HasError: tc.before == failed, UpdatedAt: now.Add(-time.Minute)}
		}
		account := integration.Account{ID: "1", Address: anna.Address, State: tc.listed}
		if tc.listed == absent {
			account = integration.Account{}
		}
		got, changed := integration.Reconcile(eligible, account, now)
		if got.Status != tc.want || changed != (tc.want != tc.before) {
			t.Errorf("from %q with an account that is %q: got %+v, changed %t; want %s", tc.before, tc.listed, got, changed, tc.want)
		}
		if changed != got.UpdatedAt.Equal(now) {
			t.Errorf("from %q with an account that is %q: changed is %t, but UpdatedAt is %s", tc.before, tc.listed, changed, got.UpdatedAt)
		}
	}
}

func TestReconcileUsesStoredState(t *testing.T) {
	sameAccount := integration.Account{ID: "1", Address: anna.Address, State: integration.AccountConnected}
	stored := integration.Connection{ID: "c", Status: connected, PlatformAccountID: "1", PlatformAccountAddress: anna.Address, ConnectedAt: now.Add(-time.Hour)}
	accountWithError := sameAccount
	accountWithError.HasError, accountWithError.Reason = true, "sending_error"
	for _, tc := range []struct {
		name        string
		eligible    integration.EligibleMailbox
		account     integration.Account
		want        integration.ConnectionStatus
		wantChanged bool
	}{
		{"a different integration holds the mailbox", integration.EligibleMailbox{HeldElsewhere: true}, sameAccount, none, false},
		{"a different integration holds the mailbox, and the account has failed", integration.EligibleMailbox{HeldElsewhere: true, Connection: stored.WithFailure("smtp_failure", now)}, sameAccount, failed, false},
		{"a different integration holds the mailbox, and the account is gone", integration.EligibleMailbox{HeldElsewhere: true, Connection: stored.WithFailure("smtp_failure", now)}, integration.Account{}, disconnected, true},
		{"a failed session, without an account at the platform", integration.EligibleMailbox{Connection: integration.Connection{ID: "c", Status: failed, Reason: "access_denied"}}, integration.Account{}, failed, false},
		{"pending for longer than a session", integration.EligibleMailbox{Connection: integration.Connection{ID: "c", Status: pending, UpdatedAt: now.Add(-2 * time.Hour)}}, integration.Account{}, disconnected, true},
		{"an account with a different id", integration.EligibleMailbox{Connection: stored}, integration.Account{ID: "2", Address: anna.Address, State: integration.AccountConnected}, connected, true},
		{"an account with an error that is still connected", integration.EligibleMailbox{Connection: stored}, accountWithError, connected, true},
		{"the same account again", integration.EligibleMailbox{Connection: stored}, sameAccount, connected, false},
	} {
		got, changed := integration.Reconcile(tc.eligible, tc.account, now)
		if got.Status != tc.want || changed != tc.wantChanged {
			t.Errorf("%s: got %+v, changed %t; want %s, changed %t", tc.name, got, changed, tc.want, tc.wantChanged)
		}
		if tc.want == connected && !got.ConnectedAt.Equal(stored.ConnectedAt) {
			t.Errorf("%s: ConnectedAt is %s, want %s as stored", tc.name, got.ConnectedAt, stored.ConnectedAt)
		}
		if tc.name == "an account with an error that is still connected" && (!got.HasError || got.Reason != "sending_error") {
			t.Errorf("%s: got %+v, want the error of the account", tc.name, got)
		}
	}
}

func TestDriftBetweenNamesUnexpectedChanges(t *testing.T) {
	for _, tc := range []struct {
		before, after integration.ConnectionStatus
		want          integration.Drift
	}{
		{connected, failed, integration.DriftGrantLost}, {connected, disconnected, integration.DriftGone},
		{none, connected, integration.DriftAppeared}, {failed, connected, integration.DriftAppeared},
		{disconnecting, connected, integration.DriftStays}, {disconnecting, disconnected, ""},
		{pending, connected, ""}, {connected, connected, ""}, {failed, disconnected, ""},
	} {
		got, drifted := integration.DriftBetween(integration.Connection{Status: tc.before}, integration.Connection{Status: tc.after})
		if got != tc.want || drifted != (tc.want != "") {
			t.Errorf("from %q to %q: got %q, want %q", tc.before, tc.after, got, tc.want)
		}
	}
}

// TestASecondReconcileChangesNothing reconciles random connections with a listing. A second
// reconcile with the same listing must change nothing. The counters must be consistent.
func TestASecondReconcileChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tally integration.Tally
		for range rapid.IntRange(0, 20).Draw(t, "mailboxes") {
			eligible := integration.EligibleMailbox{Mailbox: anna, HeldElsewhere: rapid.Bool().Draw(t, "elsewhere")}
			if rapid.Bool().Draw(t, "has a connection") {
				eligible.Connection = integration.Connection{ID: "c",
					Status:            rapid.SampledFrom([]integration.ConnectionStatus{pending, connected, failed, disconnected, disconnecting, other}).Draw(t, "status"),
					PlatformAccountID: rapid.SampledFrom([]string{"", "1"}).Draw(t, "account"),
					UpdatedAt:         now.Add(-time.Duration(rapid.IntRange(0, 7200).Draw(t, "age")) * time.Second)}
			}
			var account integration.Account
			if rapid.Bool().Draw(t, "listed") {
				account = integration.Account{ID: "1", Address: anna.Address, HasError: rapid.Bool().Draw(t, "error"),
					State: rapid.SampledFrom([]integration.AccountState{integration.AccountConnected, integration.AccountPending,
						integration.AccountFailed, integration.AccountOther}).Draw(t, "state")}
			}
			got, changed := integration.Reconcile(eligible, account, now)
			tally.Count(eligible.Connection, got, changed)
			if !changed && got != eligible.Connection {
				t.Fatal("changed is false, but the connection differs")
			}
			if eligible.HeldElsewhere && changed && got.Status != disconnected {
				t.Fatalf("a different integration holds the mailbox, but the connection becomes %s", got.Status)
			}
			if !eligible.HeldElsewhere && account.State == integration.AccountConnected && got.Status != connected || got.Status == disconnected && changed && account.Exists() {
				t.Fatalf("the account %+v leads to the connection %+v, want connected for a connected account, and disconnected only without an account", account, got)
			}
			if got.ID == "" {
				continue
			}
			reconciled := integration.EligibleMailbox{Mailbox: anna, Connection: got, HeldElsewhere: eligible.HeldElsewhere}
			if after, changed := integration.Reconcile(reconciled, account, now); changed {
				t.Fatalf("the second reconcile changes %+v to %+v", got, after)
			}
		}
		if tally.NewlyConnected > tally.Connected || tally.Connected > tally.Checked || tally.Unchanged > tally.Checked || tally.ErrorCount != 0 {
			t.Fatalf("the counters are not consistent: %+v", tally)
		}
	})
}

func TestUnreadConnectionsCountAsErrors(t *testing.T) {
	var tally integration.Tally
	connectedBefore := integration.Connection{Status: connected}
	tally.Count(connectedBefore, connectedBefore, false)
	tally.CountUnread(connectedBefore)
	tally.CountUnread(integration.Connection{})
	if want := (integration.Tally{Checked: 3, Connected: 2, Unchanged: 1, ErrorCount: 2}); tally != want {
		t.Errorf("got %+v, want %+v", tally, want)
	}
}
