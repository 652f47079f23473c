// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/integration"
)

func TestConnectionAfterSession(t *testing.T) {
	there := integration.Account{ID: "1", Address: "anna@a.test", State: integration.AccountConnected}
	broken := integration.Account{ID: "1", Address: "anna@a.test", State: integration.AccountFailed, Reason: "connection_error"}
	done := open("p").WithProgress(integration.Progress{State: integration.SignInSucceeded, Address: anna.Address, Name: "Anna"}, anna, now)
	denied, expired := open("p").WithFailure("access_denied"), open("p").AfterLastCheck(integration.Account{}, now)
	for _, tt := range []struct {
		name string
		was  integration.ConnectionStatus
		s    integration.Session
		a    integration.Account
		want integration.ConnectionStatus
		why  string
	}{
		{"connected", integration.ConnectionPending, done, integration.Account{}, integration.ConnectionConnected, ""},
		{"connected again", integration.ConnectionConnected, done, there, integration.ConnectionConnected, ""},
		{"failed", integration.ConnectionPending, denied, integration.Account{}, integration.ConnectionFailed, "access_denied"},
		{"failed, connected before", integration.ConnectionConnected, denied, integration.Account{}, integration.ConnectionConnected, ""},
		{"expired", integration.ConnectionPending, expired, integration.Account{}, integration.ConnectionFailed, integration.ReasonExpired},
		{"expired, the account works", integration.ConnectionPending, expired, there, integration.ConnectionConnected, ""},
		{"expired, the account does not", integration.ConnectionPending, expired, broken, integration.ConnectionFailed, "connection_error"},
		{"expired, connected before", integration.ConnectionConnected, expired, broken, integration.ConnectionConnected, ""},
		{"failed while being disconnected", integration.ConnectionDisconnecting, denied, integration.Account{}, integration.ConnectionDisconnecting, ""},
		{"connected while being disconnected", integration.ConnectionDisconnecting, done, there, integration.ConnectionConnected, ""},
		{"failed after a disconnect", integration.ConnectionDisconnected, denied, integration.Account{}, integration.ConnectionDisconnected, ""},
	} {
		got := integration.Connection{ID: "c", Status: tt.was, ConnectedAt: now.Add(-time.Hour)}.AfterSession(tt.s, tt.a, now.Add(time.Second))
		if got.Status != tt.want || got.Reason != tt.why || tt.s.Status == integration.SessionConnected && !got.ConnectedAt.Equal(tt.s.ConnectedAt) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

func TestAFailedStartKeepsEarlierConnections(t *testing.T) {
	for was, want := range map[integration.ConnectionStatus]integration.ConnectionStatus{
		"":                                  integration.ConnectionFailed,
		integration.ConnectionPending:       integration.ConnectionFailed,
		integration.ConnectionFailed:        integration.ConnectionFailed,
		integration.ConnectionConnected:     integration.ConnectionConnected,
		integration.ConnectionDisconnected:  integration.ConnectionDisconnected,
		integration.ConnectionDisconnecting: integration.ConnectionDisconnecting,
		integration.ConnectionOther:         integration.ConnectionOther,
	} {
		e := integration.EligibleMailbox{Mailbox: anna}
		if was != "" {
			e.Connection = integration.Connection{ID: "c", IntegrationID: "i", MailboxID: "m", Status: was}
		}
		got := e.AfterFailedStart("c", "i", "start_down", now)
		if got.Status != want || got.ID != "c" || got.IntegrationID != "i" || got.MailboxID != "m" || got.UpdatedAt != now {
			t.Errorf("%q: %+v", was, got)
		}
	}
}
