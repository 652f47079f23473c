// SPDX-License-Identifier: Apache-2.0

package integration

import "time"

// Tally is what a refresh counts.
type Tally struct {
	Checked        int // eligible mailboxes that were examined
	Connected      int // those that are connected now
	NewlyConnected int // those of them that were not
	Unchanged      int // mailboxes whose stored state was right
	ErrorCount     int // mailboxes that could not be read
}

// Reconcile decides what a complete listing means for a mailbox: a is its
// account there, zero when it is not listed. changed is false when what is
// stored is right, or not the listing's to decide: a mailbox that another
// integration holds is not attached here, and while a session is open only
// success is believed. The connection has no ids when there was none.
func Reconcile(e Eligible, a Account, now time.Time) (c Connection, changed bool) {
	c = e.Connection
	if e.Elsewhere {
		return c, false
	}
	next := c
	switch {
	case a.There():
		next = c.As(a, now)
	case c.Status == ConnectionFailed && c.AccountID == "" || c.Status == "" || c.Status == ConnectionDisconnected:
		return c, false // it was not there before either
	case c.Status == ConnectionDisconnecting:
		next = c.Gone("", now)
	default:
		next = c.Gone(ReasonGone, now)
	}
	if c.waits(now) && next.Status != ConnectionConnected || c.same(next) {
		return c, false
	}
	return next, true
}

// waits reports whether a session may be open. One that is pending for longer
// than any session is pending at the platform.
func (c Connection) waits(now time.Time) bool {
	return c.Status == ConnectionPending && now.Sub(c.UpdatedAt) < sessionMost+2*grace
}

func (c Connection) same(d Connection) bool {
	d.ConnectedAt, d.UpdatedAt = c.ConnectedAt, c.UpdatedAt
	return c == d
}

// Count adds a mailbox that was examined.
func (t *Tally) Count(before, after Connection, changed bool) {
	t.Checked++
	if after.Status == ConnectionConnected {
		t.Connected++
		if before.Status != ConnectionConnected {
			t.NewlyConnected++
		}
	}
	if !changed {
		t.Unchanged++
	}
}

// Unread adds a mailbox that the listing broke off before.
func (t *Tally) Unread(stored Connection) {
	t.Checked++
	t.ErrorCount++
	if stored.Status == ConnectionConnected {
		t.Connected++
	}
}

// Drift is a change at a platform that nobody asked for here.
type Drift string

// The drifts.
const (
	DriftGrantLost Drift = "grant_lost"         // an account cannot sign in any more
	DriftGone      Drift = "account_gone"       // a connected account is not there any more
	DriftAppeared  Drift = "account_appeared"   // an account is there that was connected past us
	DriftStays     Drift = "account_stays"      // it is still there after a disconnect without an answer
	DriftRefused   Drift = "credential_refused" // the integration's credential, seen by a refresh
)

// Drifts are all drifts, for who counts them.
func Drifts() []Drift {
	return []Drift{DriftGrantLost, DriftGone, DriftAppeared, DriftStays, DriftRefused}
}

// Drifted names what a refresh found that has changed behind our back.
func Drifted(before, after Connection) (Drift, bool) {
	switch {
	case before.Status == ConnectionConnected && after.Status == ConnectionFailed:
		return DriftGrantLost, true
	case before.Status == ConnectionConnected && after.Status == ConnectionDisconnected:
		return DriftGone, true
	case before.Status == ConnectionDisconnecting && after.Status != ConnectionDisconnected:
		return DriftStays, true
	case before.Status != ConnectionConnected && before.Status != ConnectionPending && after.Status == ConnectionConnected:
		return DriftAppeared, true
	default:
		return "", false
	}
}
