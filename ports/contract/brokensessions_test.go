// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/ports"
)

// Each of these breaks one promise of ports.Connections about sessions.
type (
	stealsSessions     struct{ Stores }
	twoSessions        struct{ Stores }
	sessionsForever    struct{ Stores } // one that was never opened blocks
	sessionsCutShort   struct{ Stores } // one that is being opened does not
	anybodysSession    struct{ Stores }
	sessionOfAnyBox    struct{ Stores }
	savedAfterTheEnd   struct{ Stores }
	sessionsUnattached struct{ Stores } // the connection is not stored with it
	halfSessions       struct{ Stores } // the session stays when its connection is refused
	sessionsAlone      struct{ Stores }
	everybodyLooks     struct{ Stores }
	latestOverFirst    struct{ Stores }
	overTooSoon        struct{ Stores }
	endlessOver        struct{ Stores }
)

// demotes makes pending what stands like this.
type demotes struct {
	Stores

	was integration.ConnectionStatus
}

func (b stealsSessions) BeginSession(ctx context.Context, owner access.AccountID, x integration.Session, id string, stale time.Time) error {
	err := b.Stores.BeginSession(ctx, owner, x, id, stale)
	if errors.Is(err, fault.ConnectedElsewhere) {
		freed(ctx, b.Stores, owner, x.MailboxID)
		return b.Stores.BeginSession(ctx, owner, x, id, stale)
	}
	return err
}

func (b twoSessions) BeginSession(ctx context.Context, owner access.AccountID, x integration.Session, id string, stale time.Time) error {
	err := b.Stores.BeginSession(ctx, owner, x, id, stale)
	if errors.Is(err, fault.SessionActive) {
		all, _ := b.PendingSessions(ctx, stale.Add(1000*time.Hour), 1000)
		for _, p := range all {
			p.Session.Status = integration.SessionFailed
			_, _ = b.SaveSession(ctx, p.Account, p.Session, nil)
		}
		return b.Stores.BeginSession(ctx, owner, x, id, stale)
	}
	return err
}

func (b sessionsForever) BeginSession(ctx context.Context, owner access.AccountID, x integration.Session, id string, _ time.Time) error {
	return b.Stores.BeginSession(ctx, owner, x, id, time.Time{})
}

func (b sessionsCutShort) BeginSession(ctx context.Context, owner access.AccountID, x integration.Session, id string, stale time.Time) error {
	return b.Stores.BeginSession(ctx, owner, x, id, stale.Add(1000*time.Hour))
}

func (b demotes) BeginSession(ctx context.Context, owner access.AccountID, x integration.Session, id string, stale time.Time) error {
	err := b.Stores.BeginSession(ctx, owner, x, id, stale)
	if e, found := b.EligibleMailbox(ctx, owner, x.IntegrationID, x.MailboxID); err == nil && found == nil && e.Connection.Status == b.was {
		e.Connection.Status = integration.ConnectionPending
		_, err = b.SaveConnection(ctx, owner, e.Connection, e.Connection.UpdatedAt)
	}
	return err
}

func (b anybodysSession) Session(ctx context.Context, _ access.AccountID, i, m, id string) (integration.Session, error) {
	return everyone(ctx, b.Stores, func(owner access.AccountID) (integration.Session, error) {
		return b.Stores.Session(ctx, owner, i, m, id)
	})
}

func (b sessionOfAnyBox) Session(ctx context.Context, owner access.AccountID, i, m, id string) (integration.Session, error) {
	x, err := b.Stores.Session(ctx, owner, i, m, id)
	all, _ := b.Eligible(ctx, owner, i)
	for _, e := range all {
		if err != nil {
			x, err = b.Stores.Session(ctx, owner, i, e.Mailbox.ID, id)
		}
	}
	return x, err
}

func (b savedAfterTheEnd) SaveSession(ctx context.Context, owner access.AccountID, x integration.Session, c *integration.Connection) (bool, error) {
	_, err := b.Stores.SaveSession(ctx, owner, x, c)
	return err == nil, err
}

func (b sessionsUnattached) SaveSession(ctx context.Context, owner access.AccountID, x integration.Session, _ *integration.Connection) (bool, error) {
	return b.Stores.SaveSession(ctx, owner, x, nil)
}

func (b halfSessions) SaveSession(ctx context.Context, owner access.AccountID, x integration.Session, c *integration.Connection) (bool, error) {
	saved, err := b.Stores.SaveSession(ctx, owner, x, c)
	if errors.Is(err, fault.ConnectedElsewhere) {
		_, _ = b.Stores.SaveSession(ctx, owner, x, nil)
	}
	return saved, err
}

func (b sessionsAlone) SaveSession(_ context.Context, owner access.AccountID, x integration.Session, c *integration.Connection) (bool, error) {
	return b.Stores.SaveSession(context.Background(), owner, x, c)
}

func (b everybodyLooks) TakeLook(ctx context.Context, owner access.AccountID, id string, _, at time.Time) (bool, error) {
	return b.Stores.TakeLook(ctx, owner, id, at, at)
}

func (b latestOverFirst) PendingSessions(ctx context.Context, before time.Time, most int) ([]ports.OwnedSession, error) {
	all, err := b.Stores.PendingSessions(ctx, before, most)
	slices.Reverse(all)
	return all, err
}

func (b overTooSoon) PendingSessions(ctx context.Context, before time.Time, most int) ([]ports.OwnedSession, error) {
	return b.Stores.PendingSessions(ctx, before.Add(time.Second), most)
}

func (b endlessOver) PendingSessions(ctx context.Context, before time.Time, _ int) ([]ports.OwnedSession, error) {
	return b.Stores.PendingSessions(ctx, before, 1000)
}

func TestSessionSuitesNoticeBrokenPromises(t *testing.T) {
	store := reusedStore(t)
	for name, b := range map[string]struct {
		suite []storeCheck
		spoil func(Stores) Stores
	}{
		"a session takes a mailbox from another":       {sessionChecks, func(s Stores) Stores { return stealsSessions{s} }},
		"two sessions of a mailbox are pending":        {sessionChecks, func(s Stores) Stores { return twoSessions{s} }},
		"a dead request blocks the next session":       {sessionChecks, func(s Stores) Stores { return sessionsForever{s} }},
		"a session under way is taken over":            {sessionChecks, func(s Stores) Stores { return sessionsCutShort{s} }},
		"a session ends a connection":                  {sessionChecks, func(s Stores) Stores { return demotes{s, integration.ConnectionConnected} }},
		"a session ends a disconnect":                  {sessionChecks, func(s Stores) Stores { return demotes{s, integration.ConnectionDisconnecting} }},
		"a foreign session is found":                   {sessionChecks, func(s Stores) Stores { return anybodysSession{s} }},
		"a session of another mailbox is found":        {sessionChecks, func(s Stores) Stores { return sessionOfAnyBox{s} }},
		"a session ends twice":                         {sessionEndChecks, func(s Stores) Stores { return savedAfterTheEnd{s} }},
		"a session ends without its connection":        {sessionEndChecks, func(s Stores) Stores { return sessionsUnattached{s} }},
		"a session ends although it cannot connect":    {sessionEndChecks, func(s Stores) Stores { return halfSessions{s} }},
		"a session commits no answer":                  {sessionEndChecks, func(s Stores) Stores { return sessionsAlone{s} }},
		"everybody asks the platform":                  {sessionEndChecks, func(s Stores) Stores { return everybodyLooks{s} }},
		"sessions that are over come latest first":     {sessionEndChecks, func(s Stores) Stores { return latestOverFirst{s} }},
		"a session is over before its end":             {sessionEndChecks, func(s Stores) Stores { return overTooSoon{s} }},
		"more sessions are listed than were asked for": {sessionEndChecks, func(s Stores) Stores { return endlessOver{s} }},
	} {
		t.Run(name, func(t *testing.T) { notices(t, store, b.suite, b.spoil) })
	}
}
