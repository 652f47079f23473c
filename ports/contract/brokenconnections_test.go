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

// Each of these breaks one promise of ports.Connections.
type (
	listsFound         struct{ Stores } // what discovery found is eligible
	eligibleReversed   struct{ Stores }
	blindElsewhere     struct{ Stores }
	anybodysMailbox    struct{ Stores }
	countsFour         struct{ Stores } // no others
	stealsConnections  struct{ Stores } // from the integration that holds them
	writesOver         struct{ Stores } // whatever changed meanwhile
	connectionsAlone   struct{ Stores } // commits no answer
	stealsSessions     struct{ Stores }
	twoSessions        struct{ Stores }
	sessionsForever    struct{ Stores } // one that was never opened blocks
	sessionsCutShort   struct{ Stores } // one that is being opened does not
	demotes            struct{ Stores } // a connected mailbox becomes pending
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

func (b listsFound) Eligible(ctx context.Context, owner access.AccountID, id string) ([]integration.Eligible, error) {
	all, err := b.Stores.Eligible(ctx, owner, id)
	tenants, _ := b.Tenants(ctx, owner)
	for _, t := range tenants {
		boxes, _ := b.Mailboxes(ctx, owner, t.GUID)
		for _, m := range boxes {
			if !m.Provisioned && err == nil {
				all = append(all, integration.Eligible{Mailbox: m})
			}
		}
	}
	return all, err
}

func (b eligibleReversed) Eligible(ctx context.Context, owner access.AccountID, id string) ([]integration.Eligible, error) {
	all, err := b.Stores.Eligible(ctx, owner, id)
	slices.Reverse(all)
	return all, err
}

func (b blindElsewhere) Eligible(ctx context.Context, owner access.AccountID, id string) ([]integration.Eligible, error) {
	all, err := b.Stores.Eligible(ctx, owner, id)
	for n := range all {
		all[n].Elsewhere = false
	}
	return all, err
}

func (b anybodysMailbox) EligibleMailbox(ctx context.Context, _ access.AccountID, id, mailboxID string) (integration.Eligible, error) {
	return everyone(ctx, b.Stores, func(owner access.AccountID) (integration.Eligible, error) {
		all, err := b.Integrations(ctx, owner)
		for _, i := range all {
			if e, err := b.Stores.EligibleMailbox(ctx, owner, i.ID, mailboxID); err == nil {
				return e, nil
			}
		}
		if err == nil {
			_, err = b.Stores.EligibleMailbox(ctx, owner, id, mailboxID)
		}
		return integration.Eligible{}, err
	})
}

func (b countsFour) ConnectionCounts(ctx context.Context, owner access.AccountID, id string) (integration.Counts, error) {
	n, err := b.Stores.ConnectionCounts(ctx, owner, id)
	n.Total, n.Other = n.Total-n.Other, 0
	return n, err
}

// freed disconnects a mailbox wherever it is.
func freed(ctx context.Context, s Stores, owner access.AccountID, mailboxID string) {
	all, _ := s.Integrations(ctx, owner)
	for _, i := range all {
		e, err := s.EligibleMailbox(ctx, owner, i.ID, mailboxID)
		if err == nil && e.Connection.Status.Held() {
			was := e.Connection.UpdatedAt
			e.Connection.Status = integration.ConnectionDisconnected
			_, _ = s.SaveConnection(ctx, owner, e.Connection, was)
		}
	}
}

func (b stealsConnections) SaveConnection(ctx context.Context, owner access.AccountID, c integration.Connection, before time.Time) (bool, error) {
	saved, err := b.Stores.SaveConnection(ctx, owner, c, before)
	if errors.Is(err, fault.ConnectedElsewhere) {
		freed(ctx, b.Stores, owner, c.MailboxID)
		return b.Stores.SaveConnection(ctx, owner, c, before)
	}
	return saved, err
}

func (b writesOver) SaveConnection(ctx context.Context, owner access.AccountID, c integration.Connection, before time.Time) (bool, error) {
	if e, err := b.EligibleMailbox(ctx, owner, c.IntegrationID, c.MailboxID); err == nil {
		before = e.Connection.UpdatedAt
	}
	return b.Stores.SaveConnection(ctx, owner, c, before)
}

func (b connectionsAlone) SaveConnection(_ context.Context, owner access.AccountID, c integration.Connection, before time.Time) (bool, error) {
	return b.Stores.SaveConnection(context.Background(), owner, c, before)
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
	if e, found := b.EligibleMailbox(ctx, owner, x.IntegrationID, x.MailboxID); err == nil && found == nil {
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

func TestConnectionSuitesNoticeBrokenPromises(t *testing.T) {
	for name, b := range map[string]struct {
		suite []storeCheck
		spoil func(Stores) Stores
	}{
		"what discovery found is eligible":             {connectionChecks, func(s Stores) Stores { return listsFound{s} }},
		"mailboxes out of order":                       {connectionChecks, func(s Stores) Stores { return eligibleReversed{s} }},
		"what is held elsewhere is not said":           {connectionChecks, func(s Stores) Stores { return blindElsewhere{s} }},
		"a foreign mailbox is found":                   {connectionChecks, func(s Stores) Stores { return anybodysMailbox{s} }},
		"disconnecting is not counted":                 {connectionChecks, func(s Stores) Stores { return countsFour{s} }},
		"a connection is taken from another":           {connectionChecks, func(s Stores) Stores { return stealsConnections{s} }},
		"a connection that changed is written over":    {connectionChecks, func(s Stores) Stores { return writesOver{s} }},
		"a connection commits no answer":               {connectionChecks, func(s Stores) Stores { return connectionsAlone{s} }},
		"a session takes a mailbox from another":       {sessionChecks, func(s Stores) Stores { return stealsSessions{s} }},
		"two sessions of a mailbox are pending":        {sessionChecks, func(s Stores) Stores { return twoSessions{s} }},
		"a dead request blocks the next session":       {sessionChecks, func(s Stores) Stores { return sessionsForever{s} }},
		"a session under way is taken over":            {sessionChecks, func(s Stores) Stores { return sessionsCutShort{s} }},
		"a session ends a connection":                  {sessionChecks, func(s Stores) Stores { return demotes{s} }},
		"a foreign session is found":                   {sessionChecks, func(s Stores) Stores { return anybodysSession{s} }},
		"a session of another mailbox is found":        {sessionChecks, func(s Stores) Stores { return sessionOfAnyBox{s} }},
		"a session ends twice":                         {sessionChecks, func(s Stores) Stores { return savedAfterTheEnd{s} }},
		"a session ends without its connection":        {sessionChecks, func(s Stores) Stores { return sessionsUnattached{s} }},
		"a session ends although it cannot connect":    {sessionChecks, func(s Stores) Stores { return halfSessions{s} }},
		"a session commits no answer":                  {sessionChecks, func(s Stores) Stores { return sessionsAlone{s} }},
		"everybody asks the platform":                  {sessionChecks, func(s Stores) Stores { return everybodyLooks{s} }},
		"sessions that are over come latest first":     {sessionChecks, func(s Stores) Stores { return latestOverFirst{s} }},
		"a session is over before its end":             {sessionChecks, func(s Stores) Stores { return overTooSoon{s} }},
		"more sessions are listed than were asked for": {sessionChecks, func(s Stores) Stores { return endlessOver{s} }},
	} {
		t.Run(name, func(t *testing.T) { notices(t, b.suite, b.spoil) })
	}
}
