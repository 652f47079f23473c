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

// openSession returns a session with a sign-in at the platform that expires ten minutes after now.
func openSession(platformID string) integration.Session {
	return integration.Session{ID: "s", Status: integration.SessionPending, CreatedAt: now}.
		WithSignIn(integration.SignIn{ID: platformID, ExpiresAt: now.Add(10 * time.Minute)}, now)
}

func TestWithSignInSetsExpiry(t *testing.T) {
	for _, tc := range []struct {
		name   string
		expiry time.Time
		want   time.Duration
	}{
		{"the expiry that the platform specified", now.Add(7 * time.Minute), 7 * time.Minute},
		{"no expiry specified by the platform", time.Time{}, integration.SessionTime},
		{"an expiry in the past, by clock skew", now, integration.SessionTime},
		{"a long lifetime", now.Add(48 * time.Hour), time.Hour},
	} {
		got := integration.Session{}.WithSignIn(integration.SignIn{ID: "p", ExpiresAt: tc.expiry}, now)
		if got.ExpiresAt.Sub(now) != tc.want || !got.Opened || got.PlatformID != "p" {
			t.Errorf("%s: got %+v, want a session of %s", tc.name, got, tc.want)
		}
	}
}

func TestASessionEndsAtItsDeadline(t *testing.T) {
	pending, expired := integration.Progress{State: integration.SignInPending}, integration.Progress{State: integration.SignInExpired}
	for _, tc := range []struct {
		name       string
		platformID string
		progress   integration.Progress
		elapsed    time.Duration
		wantEnded  bool
	}{
		{"before the deadline", "p", pending, 9 * time.Minute, false},
		{"within the grace period after the deadline", "p", pending, 10*time.Minute + 59*time.Second, false},
		{"after the grace period", "p", pending, 11 * time.Minute, true},
		{"the platform reports the end before the deadline", "p", expired, time.Second, true},
		{"a platform without sessions, before the deadline", "", integration.Progress{}, 10*time.Minute - 1, false},
		{"a platform without sessions, at the deadline", "", integration.Progress{}, 10 * time.Minute, true},
	} {
		if got := openSession(tc.platformID).HasEnded(tc.progress, now.Add(tc.elapsed)); got != tc.wantEnded {
			t.Errorf("%s: ended is %t, want %t", tc.name, got, tc.wantEnded)
		}
	}
}

func TestWithProgressStoresTheStateOfTheSignIn(t *testing.T) {
	for _, tc := range []struct {
		name        string
		progress    integration.Progress
		want        integration.SessionStatus
		wantReason  string
		wantAddress string
	}{
		{"pending", integration.Progress{State: integration.SignInPending}, integration.SessionPending, "", ""},
		{"an expired sign-in waits for the last check", integration.Progress{State: integration.SignInExpired}, integration.SessionPending, "", ""},
		{"an unknown state", integration.Progress{State: "odd"}, integration.SessionPending, "", ""},
		{"the mailbox signed in", integration.Progress{State: integration.SignInSucceeded, Address: "ANNA@a.test", Name: "Anna"}, integration.SessionConnected, "", "ANNA@a.test"},
		{"the mailbox signed in by its sign-in name", integration.Progress{State: integration.SignInSucceeded, Address: "anna.k@A.test"}, integration.SessionConnected, "", "anna.k@A.test"},
		{"a different person signed in", integration.Progress{State: integration.SignInSucceeded, Address: "boss@a.test"}, integration.SessionFailed, integration.ReasonWrongAccount, "boss@a.test"},
		{"an unknown person signed in", integration.Progress{State: integration.SignInSucceeded}, integration.SessionFailed, integration.ReasonWrongAccount, ""},
		{"the person declined", integration.Progress{State: integration.SignInFailed, Reason: "access_denied"}, integration.SessionFailed, "access_denied", ""},
		{"failed without a reason", integration.Progress{State: integration.SignInFailed}, integration.SessionFailed, integration.ReasonSignIn, ""},
	} {
		got := openSession("p").WithProgress(tc.progress, anna, now)
		if got.Status != tc.want || got.Reason != tc.wantReason || got.PlatformAccountAddress != tc.wantAddress ||
			got.ConnectedAt.IsZero() != (tc.want != integration.SessionConnected) || (got.PlatformAccountID != "") != (tc.want == integration.SessionConnected) {
			t.Errorf("%s: got %+v, want %s, %q, %q", tc.name, got, tc.want, tc.wantReason, tc.wantAddress)
		}
	}
}

func TestAnEmptyAddressIsNotAMailboxAddress(t *testing.T) {
	if integration.IsMailboxAddress("", mailbox.Mailbox{Address: "a@b.test"}) {
		t.Error("an empty address is an address of the mailbox")
	}
}

func TestChecksDetectNewSignIns(t *testing.T) {
	original := integration.Account{ID: "1", Address: "anna@a.test", State: integration.AccountConnected, Stamp: "one"}
	signedInAgain, failed, settingUp := original, original, original
	signedInAgain.Stamp, failed.Stamp, settingUp.Stamp = "two", "two", "two"
	failed.State, failed.Reason, settingUp.State = integration.AccountFailed, "connection_error", integration.AccountPending
	failing, workingAgain := original, original
	failing.Stamp, workingAgain.Stamp, failing.State = "", "", integration.AccountFailed
	for _, tc := range []struct {
		name                         string
		before, after                integration.Account
		wantAtCheck, wantAtLastCheck integration.SessionStatus
	}{
		{"the account is still absent", integration.Account{}, integration.Account{}, integration.SessionPending, integration.SessionExpired},
		{"the account appeared", integration.Account{}, original, integration.SessionConnected, integration.SessionConnected},
		{"the account did not change", original, original, integration.SessionPending, integration.SessionExpired},
		{"the account signed in again", original, signedInAgain, integration.SessionConnected, integration.SessionConnected},
		{"the account appeared and cannot sign in", integration.Account{}, failed, integration.SessionPending, integration.SessionFailed},
		{"the account cannot sign in, as before", failed, failed, integration.SessionPending, integration.SessionExpired},
		{"the account is being set up", original, settingUp, integration.SessionPending, integration.SessionExpired},
		{"the account disappeared", original, integration.Account{}, integration.SessionPending, integration.SessionExpired},
		{"an unchanged account without stamps", workingAgain, workingAgain, integration.SessionPending, integration.SessionExpired},
		{"an account without stamps that works again", failing, workingAgain, integration.SessionConnected, integration.SessionConnected},
	} {
		session := openSession("")
		session.PreviousMark = tc.before.Mark()
		if got := session.AfterCheck(tc.after, now); got.Status != tc.wantAtCheck {
			t.Errorf("%s, AfterCheck: got %+v, want %s", tc.name, got, tc.wantAtCheck)
		}
		got := session.AfterLastCheck(tc.after, now)
		if got.Status != tc.wantAtLastCheck || got.ConnectedAt.IsZero() == (tc.wantAtLastCheck == integration.SessionConnected) {
			t.Errorf("%s, AfterLastCheck: got %+v, want %s", tc.name, got, tc.wantAtLastCheck)
		}
	}
}

// TestSessionConnectsOnlyAfterSignIn checks that a session connects only if the account is
// connected and has changed since the session began. The session records the id of that account.
func TestSessionConnectsOnlyAfterSignIn(t *testing.T) {
	accountGenerator := rapid.Custom(func(t *rapid.T) integration.Account {
		return integration.Account{
			ID: rapid.SampledFrom([]string{"", "1"}).Draw(t, "id"), Stamp: rapid.SampledFrom([]string{"", "one", "two"}).Draw(t, "stamp"),
			State: rapid.SampledFrom([]integration.AccountState{"", integration.AccountConnected, integration.AccountPending,
				integration.AccountFailed, integration.AccountOther}).Draw(t, "state"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		before, after := accountGenerator.Draw(t, "before"), accountGenerator.Draw(t, "after")
		session := openSession(rapid.SampledFrom([]string{"", "p"}).Draw(t, "platform"))
		session.PreviousMark = before.Mark()
		ended := session.AfterLastCheck(after, now)
		if ended.Status == integration.SessionPending {
			t.Fatal("the session did not end")
		}
		connected := ended.Status == integration.SessionConnected
		if connected && (after.State != integration.AccountConnected || !after.Exists() || after == before || ended.PlatformAccountID != after.ID) {
			t.Fatalf("the account %+v connects the session, although it was %+v before", after, before)
		}
		if checked := session.AfterCheck(after, now); (checked.Status == integration.SessionConnected) != connected {
			t.Fatalf("AfterCheck returns %s, but AfterLastCheck returns %s", checked.Status, ended.Status)
		}
	})
}
