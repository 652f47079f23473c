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
		WithSignIn(integration.SignIn{ID: platformID, ExpiresAt: now.Add(10 * time.Minute)}, now)
}

func TestOpenSetsExpiry(t *testing.T) {
	for _, tt := range []struct {
		name string
		ends time.Time
		want time.Duration
	}{
		{"as specified by the platform", now.Add(7 * time.Minute), 7 * time.Minute},
		{"not specified by the platform", time.Time{}, integration.SessionTime},
		{"clock skew", now, integration.SessionTime},
		{"a long lifetime", now.Add(48 * time.Hour), time.Hour},
	} {
		got := integration.Session{}.WithSignIn(integration.SignIn{ID: "p", ExpiresAt: tt.ends}, now)
		if got.ExpiresAt.Sub(now) != tt.want || !got.Opened || got.PlatformID != "p" {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

func TestASessionIsOverAtItsDeadline(t *testing.T) {
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
		if got := open(tt.platform).HasEnded(tt.p, now.Add(tt.at)); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestWithProgressStoresTheStateOfTheSignIn(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    integration.Progress
		want integration.SessionStatus
		why  string
		who  string
	}{
		{"pending", integration.Progress{State: integration.SignInPending}, integration.SessionPending, "", ""},
		{"expired waits for the last check", integration.Progress{State: integration.SignInExpired}, integration.SessionPending, "", ""},
		{"an unknown state", integration.Progress{State: "odd"}, integration.SessionPending, "", ""},
		{"the mailbox", integration.Progress{State: integration.SignInSucceeded, Address: "ANNA@a.test", Name: "Anna"}, integration.SessionConnected, "", "ANNA@a.test"},
		{"by its sign-in name", integration.Progress{State: integration.SignInSucceeded, Address: "anna.k@A.test"}, integration.SessionConnected, "", "anna.k@A.test"},
		{"a different person", integration.Progress{State: integration.SignInSucceeded, Address: "boss@a.test"}, integration.SessionFailed, integration.ReasonWrongAccount, "boss@a.test"},
		{"nobody", integration.Progress{State: integration.SignInSucceeded}, integration.SessionFailed, integration.ReasonWrongAccount, ""},
		{"declined", integration.Progress{State: integration.SignInFailed, Reason: "access_denied"}, integration.SessionFailed, "access_denied", ""},
		{"failed without a reason", integration.Progress{State: integration.SignInFailed}, integration.SessionFailed, integration.ReasonSignIn, ""},
	} {
		got := open("p").WithProgress(tt.p, anna, now)
		if got.Status != tt.want || got.Reason != tt.why || got.AccountAddress != tt.who ||
			got.ConnectedAt.IsZero() != (tt.want != integration.SessionConnected) || (got.AccountID != "") != (tt.want == integration.SessionConnected) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

func TestBelongsWithoutSignInName(t *testing.T) {
	if integration.IsMailboxAddress("", mailbox.Mailbox{Address: "a@b.test"}) {
		t.Error("an empty address belongs to the mailbox")
	}
}

func TestSeenAndEnded(t *testing.T) {
	was := integration.Account{ID: "1", Address: "anna@a.test", State: integration.AccountConnected, Stamp: "one"}
	signed, failed, settingUp := was, was, was
	signed.Stamp, failed.Stamp, settingUp.Stamp = "two", "two", "two"
	failed.State, failed.Reason, settingUp.State = integration.AccountFailed, "connection_error", integration.AccountPending
	failing, fixed := was, was
	failing.Stamp, fixed.Stamp, failing.State = "", "", integration.AccountFailed
	for _, tt := range []struct {
		name         string
		before, then integration.Account
		seen, ended  integration.SessionStatus
	}{
		{"still absent", integration.Account{}, integration.Account{}, integration.SessionPending, integration.SessionExpired},
		{"it appeared", integration.Account{}, was, integration.SessionConnected, integration.SessionConnected},
		{"it existed and did not change", was, was, integration.SessionPending, integration.SessionExpired},
		{"signed in again", was, signed, integration.SessionConnected, integration.SessionConnected},
		{"appeared and cannot sign in", integration.Account{}, failed, integration.SessionPending, integration.SessionFailed},
		{"cannot sign in, as before", failed, failed, integration.SessionPending, integration.SessionExpired},
		{"being set up", was, settingUp, integration.SessionPending, integration.SessionExpired},
		{"it disappeared", was, integration.Account{}, integration.SessionPending, integration.SessionExpired},
		{"without stamps, unchanged", fixed, fixed, integration.SessionPending, integration.SessionExpired},
		{"without stamps, fixed", failing, fixed, integration.SessionConnected, integration.SessionConnected},
	} {
		s := open("")
		s.PreviousMark = tt.before.Mark()
		if got := s.AfterCheck(tt.then, now); got.Status != tt.seen {
			t.Errorf("%s, in between: %+v", tt.name, got)
		}
		got := s.AfterLastCheck(tt.then, now)
		if got.Status != tt.ended || got.ConnectedAt.IsZero() == (tt.ended == integration.SessionConnected) {
			t.Errorf("%s, at the end: %+v", tt.name, got)
		}
	}
}

// A session connects only if the account is connected and has changed, and it records that account.
func TestSessionConnectsOnlyAfterSignIn(t *testing.T) {
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
		s.PreviousMark = before.Mark()
		ended := s.AfterLastCheck(then, now)
		if ended.Status == integration.SessionPending {
			t.Fatal("it did not end")
		}
		connected := ended.Status == integration.SessionConnected
		if connected && (then.State != integration.AccountConnected || !then.Exists() || then == before || ended.AccountID != then.ID) {
			t.Fatalf("%+v connects, after %+v", then, before)
		}
		if seen := s.AfterCheck(then, now); (seen.Status == integration.SessionConnected) != connected {
			t.Fatalf("Seen returns %s, Ended %s", seen.Status, ended.Status)
		}
	})
}
