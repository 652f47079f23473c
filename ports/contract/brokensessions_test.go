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
	stealsSessions struct {
		connectionsPort
		all Stores
	}
	twoSessions      struct{ connectionsPort }
	sessionsForever  struct{ connectionsPort } // one that was never opened blocks
	sessionsCutShort struct{ connectionsPort } // one that is being opened does not
	anybodysSession  struct {
		connectionsPort
		all Stores
	}
	sessionOfAnyBox    struct{ connectionsPort }
	savedAfterTheEnd   struct{ connectionsPort }
	sessionsUnattached struct{ connectionsPort } // the connection is not stored with it
	halfSessions       struct{ connectionsPort } // the session stays when its connection is refused
	sessionsAlone      struct{ connectionsPort }
	everybodyLooks     struct{ connectionsPort }
	latestOverFirst    struct{ connectionsPort }
	overTooSoon        struct{ connectionsPort }
	endlessOver        struct{ connectionsPort }
)

// demotes makes pending what stands like this.
type demotes struct {
	Stores

	was integration.ConnectionStatus
}

func (b stealsSessions) BeginSession(ctx context.Context, owner access.AccountID, x integration.Session, id string, stale time.Time) error {
	err := b.connectionsPort.BeginSession(ctx, owner, x, id, stale)
	if errors.Is(err, fault.ConnectedElsewhere) {
		freed(ctx, b.all, owner, x.MailboxID)
		return b.connectionsPort.BeginSession(ctx, owner, x, id, stale)
	}
	return err
}

func (b twoSessions) BeginSession(ctx context.Context, owner access.AccountID, x integration.Session, id string, stale time.Time) error {
	err := b.connectionsPort.BeginSession(ctx, owner, x, id, stale)
	if errors.Is(err, fault.SessionActive) {
		all, _ := b.PendingSessions(ctx, stale.Add(1000*time.Hour), 1000)
		for _, p := range all {
			p.Session.Status = integration.SessionFailed
			_, _ = b.SaveSession(ctx, p.Account, p.Session, nil)
		}
		return b.connectionsPort.BeginSession(ctx, owner, x, id, stale)
	}
	return err
}

func (b sessionsForever) BeginSession(ctx context.Context, owner access.AccountID, x integration.Session, id string, _ time.Time) error {
	return b.connectionsPort.BeginSession(ctx, owner, x, id, time.Time{})
}

func (b sessionsCutShort) BeginSession(ctx context.Context, owner access.AccountID, x integration.Session, id string, stale time.Time) error {
	return b.connectionsPort.BeginSession(ctx, owner, x, id, stale.Add(1000*time.Hour))
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
	return everyone(ctx, b.all, func(owner access.AccountID) (integration.Session, error) {
		return b.connectionsPort.Session(ctx, owner, i, m, id)
	})
}

func (b sessionOfAnyBox) Session(ctx context.Context, owner access.AccountID, i, m, id string) (integration.Session, error) {
	x, err := b.connectionsPort.Session(ctx, owner, i, m, id)
	all, _ := b.Eligible(ctx, owner, i)
	for _, e := range all {
		if err != nil {
			x, err = b.connectionsPort.Session(ctx, owner, i, e.Mailbox.ID, id)
		}
	}
	return x, err
}

func (b savedAfterTheEnd) SaveSession(ctx context.Context, owner access.AccountID, x integration.Session, c *integration.Connection) (bool, error) {
	_, err := b.connectionsPort.SaveSession(ctx, owner, x, c)
	return err == nil, err
}

func (b sessionsUnattached) SaveSession(ctx context.Context, owner access.AccountID, x integration.Session, _ *integration.Connection) (bool, error) {
	return b.connectionsPort.SaveSession(ctx, owner, x, nil)
}

func (b halfSessions) SaveSession(ctx context.Context, owner access.AccountID, x integration.Session, c *integration.Connection) (bool, error) {
	saved, err := b.connectionsPort.SaveSession(ctx, owner, x, c)
	if errors.Is(err, fault.ConnectedElsewhere) {
		_, _ = b.connectionsPort.SaveSession(ctx, owner, x, nil)
	}
	return saved, err
}

func (b sessionsAlone) SaveSession(_ context.Context, owner access.AccountID, x integration.Session, c *integration.Connection) (bool, error) {
	return b.connectionsPort.SaveSession(context.Background(), owner, x, c)
}

func (b everybodyLooks) TakeLook(ctx context.Context, owner access.AccountID, id string, _, at time.Time) (bool, error) {
	return b.connectionsPort.TakeLook(ctx, owner, id, at, at)
}

func (b latestOverFirst) PendingSessions(ctx context.Context, before time.Time, most int) ([]ports.OwnedSession, error) {
	all, err := b.connectionsPort.PendingSessions(ctx, before, most)
	slices.Reverse(all)
	return all, err
}

func (b overTooSoon) PendingSessions(ctx context.Context, before time.Time, most int) ([]ports.OwnedSession, error) {
	return b.connectionsPort.PendingSessions(ctx, before.Add(time.Second), most)
}

func (b endlessOver) PendingSessions(ctx context.Context, before time.Time, _ int) ([]ports.OwnedSession, error) {
	return b.connectionsPort.PendingSessions(ctx, before, 1000)
}

func TestSessionSuitesNoticeBrokenPromises(t *testing.T) {
	store := reusedStore(t)
	for name, b := range map[string]struct {
		suite []storeCheck
		spoil func(Stores) Stores
	}{
		"a session takes a mailbox from another":       {sessionChecks, func(s Stores) Stores { return with(s, stealsSessions{s, s}) }},
		"two sessions of a mailbox are pending":        {sessionChecks, func(s Stores) Stores { return with(s, twoSessions{s}) }},
		"a dead request blocks the next session":       {sessionChecks, func(s Stores) Stores { return with(s, sessionsForever{s}) }},
		"a session under way is taken over":            {sessionChecks, func(s Stores) Stores { return with(s, sessionsCutShort{s}) }},
		"a session ends a connection":                  {sessionChecks, func(s Stores) Stores { return demotes{s, integration.ConnectionConnected} }},
		"a session ends a disconnect":                  {sessionChecks, func(s Stores) Stores { return demotes{s, integration.ConnectionDisconnecting} }},
		"a foreign session is found":                   {sessionChecks, func(s Stores) Stores { return with(s, anybodysSession{s, s}) }},
		"a session of another mailbox is found":        {sessionChecks, func(s Stores) Stores { return with(s, sessionOfAnyBox{s}) }},
		"a session ends twice":                         {sessionEndChecks, func(s Stores) Stores { return with(s, savedAfterTheEnd{s}) }},
		"a session ends without its connection":        {sessionEndChecks, func(s Stores) Stores { return with(s, sessionsUnattached{s}) }},
		"a session ends although it cannot connect":    {sessionEndChecks, func(s Stores) Stores { return with(s, halfSessions{s}) }},
		"a session commits no answer":                  {sessionEndChecks, func(s Stores) Stores { return with(s, sessionsAlone{s}) }},
		"everybody asks the platform":                  {sessionEndChecks, func(s Stores) Stores { return with(s, everybodyLooks{s}) }},
		"sessions that are over come latest first":     {sessionEndChecks, func(s Stores) Stores { return with(s, latestOverFirst{s}) }},
		"a session is over before its end":             {sessionEndChecks, func(s Stores) Stores { return with(s, overTooSoon{s}) }},
		"more sessions are listed than were asked for": {sessionEndChecks, func(s Stores) Stores { return with(s, endlessOver{s}) }},
	} {
		t.Run(name, func(t *testing.T) { notices(t, store, b.suite, b.spoil) })
	}
}
