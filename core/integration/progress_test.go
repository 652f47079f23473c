// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
)

var (
	now  = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	anna = mailbox.Mailbox{ID: "m", Address: "anna@a.test", PrincipalName: "anna.k@a.test"}
)

func open(platformID string) integration.Session {
	return integration.Session{ID: "s", Status: integration.SessionPending, CreatedAt: now}.
		Open(integration.SignIn{ID: platformID, ExpiresAt: now.Add(10 * time.Minute)}, now)
}

func TestOpenEndsInTime(t *testing.T) {
	for _, tt := range []struct {
		name string
		ends time.Time
		want time.Duration
	}{
		{"as the platform says", now.Add(7 * time.Minute), 7 * time.Minute},
		{"the platform does not say", time.Time{}, integration.SessionTime},
		{"a clock that is behind", now, integration.SessionTime},
		{"a platform without end", now.Add(48 * time.Hour), time.Hour},
	} {
		got := integration.Session{}.Open(integration.SignIn{ID: "p", ExpiresAt: tt.ends}, now)
		if got.ExpiresAt.Sub(now) != tt.want || !got.Opened || got.PlatformID != "p" {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

func TestOver(t *testing.T) {
	pending, expired := integration.Progress{State: integration.SignInPending}, integration.Progress{State: integration.SignInExpired}
	for _, tt := range []struct {
		name     string
		platform string
		p        integration.Progress
		at       time.Duration
		want     bool
	}{
		{"in time", "p", pending, 9 * time.Minute, false},
		{"the platform may end it a little later", "p", pending, 10*time.Minute + 59*time.Second, false},
		{"not much later", "p", pending, 11 * time.Minute, true},
		{"the platform ends it earlier", "p", expired, time.Second, true},
		{"without sessions, in time", "", integration.Progress{}, 10*time.Minute - 1, false},
		{"without sessions, at the end", "", integration.Progress{}, 10 * time.Minute, true},
	} {
		if got := open(tt.platform).Over(tt.p, now.Add(tt.at)); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestHeard(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    integration.Progress
		want integration.SessionStatus
		why  string
		who  string
	}{
		{"pending", integration.Progress{State: integration.SignInPending}, integration.SessionPending, "", ""},
		{"expired waits for the last look", integration.Progress{State: integration.SignInExpired}, integration.SessionPending, "", ""},
		{"a state that we do not know", integration.Progress{State: "odd"}, integration.SessionPending, "", ""},
		{"the mailbox", integration.Progress{State: integration.SignInSucceeded, Address: "ANNA@a.test", Name: "Anna"}, integration.SessionConnected, "", "ANNA@a.test"},
		{"by its sign-in name", integration.Progress{State: integration.SignInSucceeded, Address: "anna.k@A.test"}, integration.SessionConnected, "", "anna.k@A.test"},
		{"somebody else", integration.Progress{State: integration.SignInSucceeded, Address: "boss@a.test"}, integration.SessionFailed, integration.ReasonWrongAccount, "boss@a.test"},
		{"nobody", integration.Progress{State: integration.SignInSucceeded}, integration.SessionFailed, integration.ReasonWrongAccount, ""},
		{"declined", integration.Progress{State: integration.SignInFailed, Reason: "access_denied"}, integration.SessionFailed, "access_denied", ""},
		{"failed without a word", integration.Progress{State: integration.SignInFailed}, integration.SessionFailed, integration.ReasonSignIn, ""},
	} {
		got := open("p").Heard(tt.p, anna, now)
		if got.Status != tt.want || got.Reason != tt.why || got.AccountAddress != tt.who ||
			got.ConnectedAt.IsZero() != (tt.want != integration.SessionConnected) || (got.AccountID != "") != (tt.want == integration.SessionConnected) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

func TestAMailboxWithoutASignInNameIsNotEverybody(t *testing.T) {
	if integration.Belongs("", mailbox.Mailbox{Address: "a@b.test"}) {
		t.Error("nobody is the mailbox")
	}
}

func TestLooks(t *testing.T) {
	was := integration.Account{ID: "1", Address: "anna@a.test", State: integration.AccountConnected, Stamp: "one"}
	signed, failed, hasOpenSession := was, was, was
	signed.Stamp, failed.Stamp, hasOpenSession.Stamp = "two", "two", "two"
	failed.State, failed.Reason, hasOpenSession.State = integration.AccountFailed, "connection_error", integration.AccountPending
	bare, mended := was, was
	bare.Stamp, mended.Stamp, bare.State = "", "", integration.AccountFailed
	for _, tt := range []struct {
		name         string
		before, then integration.Account
		seen, ended  integration.SessionStatus
	}{
		{"still absent", integration.Account{}, integration.Account{}, integration.SessionPending, integration.SessionExpired},
		{"it came", integration.Account{}, was, integration.SessionConnected, integration.SessionConnected},
		{"it was there and did not change", was, was, integration.SessionPending, integration.SessionExpired},
		{"signed in anew", was, signed, integration.SessionConnected, integration.SessionConnected},
		{"came and cannot sign in", integration.Account{}, failed, integration.SessionPending, integration.SessionFailed},
		{"cannot sign in, as before", failed, failed, integration.SessionPending, integration.SessionExpired},
		{"being set up", was, hasOpenSession, integration.SessionPending, integration.SessionExpired},
		{"it went", was, integration.Account{}, integration.SessionPending, integration.SessionExpired},
		{"without stamps, unchanged", mended, mended, integration.SessionPending, integration.SessionExpired},
		{"without stamps, mended", bare, mended, integration.SessionConnected, integration.SessionConnected},
	} {
		s := open("")
		s.Before = tt.before.Mark()
		if got := s.Seen(tt.then, now); got.Status != tt.seen {
			t.Errorf("%s, in between: %+v", tt.name, got)
		}
		got := s.Ended(tt.then, now)
		if got.Status != tt.ended || got.ConnectedAt.IsZero() == (tt.ended == integration.SessionConnected) {
			t.Errorf("%s, at the end: %+v", tt.name, got)
		}
	}
}

func TestConnectionAfterSession(t *testing.T) {
	there := integration.Account{ID: "1", Address: "anna@a.test", State: integration.AccountConnected}
	broken := integration.Account{ID: "1", Address: "anna@a.test", State: integration.AccountFailed, Reason: "connection_error"}
	done := open("p").Heard(integration.Progress{State: integration.SignInSucceeded, Address: anna.Address, Name: "Anna"}, anna, now)
	denied, expired := open("p").Failed("access_denied"), open("p").Ended(integration.Account{}, now)
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
		got := integration.Connection{ID: "c", Status: tt.was, ConnectedAt: now.Add(-time.Hour)}.After(tt.s, tt.a, now.Add(time.Second))
		if got.Status != tt.want || got.Reason != tt.why || tt.s.Status == integration.SessionConnected && !got.ConnectedAt.Equal(tt.s.ConnectedAt) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

func TestBack(t *testing.T) {
	for was, want := range map[integration.ConnectionStatus]integration.ConnectionStatus{
		"":                                  integration.ConnectionFailed,
		integration.ConnectionPending:       integration.ConnectionFailed,
		integration.ConnectionFailed:        integration.ConnectionFailed,
		integration.ConnectionConnected:     integration.ConnectionConnected,
		integration.ConnectionDisconnected:  integration.ConnectionDisconnected,
		integration.ConnectionDisconnecting: integration.ConnectionDisconnecting,
		integration.ConnectionOther:         integration.ConnectionOther,
	} {
		e := integration.Eligible{Mailbox: anna}
		if was != "" {
			e.Connection = integration.Connection{ID: "c", IntegrationID: "i", MailboxID: "m", Status: was}
		}
		got := e.Back("c", "i", "start_down", now)
		if got.Status != want || got.ID != "c" || got.IntegrationID != "i" || got.MailboxID != "m" || got.UpdatedAt != now {
			t.Errorf("%q: %+v", was, got)
		}
	}
}

// A session ends once, by evidence alone, and names the account that proved it.
func TestASessionConnectsByEvidenceAlone(t *testing.T) {
	accounts := rapid.Custom(func(t *rapid.T) integration.Account {
		return integration.Account{
			ID: rapid.SampledFrom([]string{"", "1"}).Draw(t, "id"), Stamp: rapid.SampledFrom([]string{"", "one", "two"}).Draw(t, "stamp"),
			State: rapid.SampledFrom([]integration.AccountState{"", integration.AccountConnected, integration.AccountPending,
				integration.AccountFailed, integration.AccountOther}).Draw(t, "state"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		before, then := accounts.Draw(t, "before"), accounts.Draw(t, "then")
		s := open(rapid.SampledFrom([]string{"", "p"}).Draw(t, "platform"))
		s.Before = before.Mark()
		ended := s.Ended(then, now)
		if ended.Status == integration.SessionPending {
			t.Fatal("it did not end")
		}
		connected := ended.Status == integration.SessionConnected
		if connected && (then.State != integration.AccountConnected || !then.There() || then == before || ended.AccountID != then.ID) {
			t.Fatalf("%+v connects, after %+v", then, before)
		}
		if seen := s.Seen(then, now); (seen.Status == integration.SessionConnected) != connected {
			t.Fatalf("a look says %s, the last one %s", seen.Status, ended.Status)
		}
	})
}
