// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/integration"
)

func TestEndedSessionDecidesTheConnection(t *testing.T) {
	workingAccount := integration.Account{ID: "1", Address: "anna@a.test", State: integration.AccountConnected}
	failedAccount := integration.Account{ID: "1", Address: "anna@a.test", State: integration.AccountFailed, Reason: "connection_error"}
	connectedSession := openSession("p").WithProgress(integration.Progress{State: integration.SignInSucceeded, Address: anna.Address, Name: "Anna"}, anna, now)
	failedSession, expiredSession := openSession("p").WithFailure("access_denied"), openSession("p").AfterLastCheck(integration.Account{}, now)
	for _, tc := range []struct {
		name       string
		before     integration.ConnectionStatus
		session    integration.Session
		account    integration.Account
		want       integration.ConnectionStatus
		wantReason string
	}{
		{"connected", integration.ConnectionPending, connectedSession, integration.Account{}, integration.ConnectionConnected, ""},
		{"connected, connected before", integration.ConnectionConnected, connectedSession, workingAccount, integration.ConnectionConnected, ""},
		{"failed", integration.ConnectionPending, failedSession, integration.Account{}, integration.ConnectionFailed, "access_denied"},
		{"failed, connected before", integration.ConnectionConnected, failedSession, integration.Account{}, integration.ConnectionConnected, ""},
		{"expired", integration.ConnectionPending, expiredSession, integration.Account{}, integration.ConnectionFailed, integration.ReasonExpired},
		{"expired, the account works", integration.ConnectionPending, expiredSession, workingAccount, integration.ConnectionConnected, ""},
		{"expired, the account does not work", integration.ConnectionPending, expiredSession, failedAccount, integration.ConnectionFailed, "connection_error"},
		{"expired, connected before", integration.ConnectionConnected, expiredSession, failedAccount, integration.ConnectionConnected, ""},
		{"failed while being disconnected", integration.ConnectionDisconnecting, failedSession, integration.Account{}, integration.ConnectionDisconnecting, ""},
		{"connected while being disconnected", integration.ConnectionDisconnecting, connectedSession, workingAccount, integration.ConnectionConnected, ""},
		{"failed after a disconnect", integration.ConnectionDisconnected, failedSession, integration.Account{}, integration.ConnectionDisconnected, ""},
	} {
		got := integration.Connection{ID: "c", Status: tc.before, ConnectedAt: now.Add(-time.Hour)}.AfterSession(tc.session, tc.account, now.Add(time.Second))
		if got.Status != tc.want || got.Reason != tc.wantReason || tc.session.Status == integration.SessionConnected && !got.ConnectedAt.Equal(tc.session.ConnectedAt) {
			t.Errorf("%s: got %+v, want %s with the reason %q", tc.name, got, tc.want, tc.wantReason)
		}
	}
}

func TestAFailedStartFailsOnlyNewAndPendingConnections(t *testing.T) {
	for before, want := range map[integration.ConnectionStatus]integration.ConnectionStatus{
		"":                                  integration.ConnectionFailed,
		integration.ConnectionPending:       integration.ConnectionFailed,
		integration.ConnectionFailed:        integration.ConnectionFailed,
		integration.ConnectionConnected:     integration.ConnectionConnected,
		integration.ConnectionDisconnected:  integration.ConnectionDisconnected,
		integration.ConnectionDisconnecting: integration.ConnectionDisconnecting,
		integration.ConnectionOther:         integration.ConnectionOther,
	} {
		eligible := integration.EligibleMailbox{Mailbox: anna}
		if before != "" {
			eligible.Connection = integration.Connection{ID: "c", IntegrationID: "i", MailboxID: "m", Status: before}
		}
		got := eligible.AfterFailedStart("c", "i", "start_down", now)
		if got.Status != want || got.ID != "c" || got.IntegrationID != "i" || got.MailboxID != "m" || got.UpdatedAt != now {
			t.Errorf("from %q: got %+v, want %s", before, got, want)
		}
	}
}
