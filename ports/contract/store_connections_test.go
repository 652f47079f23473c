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

// Each of these types breaks one promise of ports.Connections about mailboxes and connections.
type (
	listsFound struct { // also lists mailboxes that discovery found
		connectionsPort
		all Stores
	}
	eligibleReversed struct{ connectionsPort }
	blindElsewhere   struct{ connectionsPort }
	anybodysMailbox  struct {
		connectionsPort
		all Stores
	}
	countsFour        struct{ connectionsPort } // counts no other statuses
	stealsConnections struct {                  // takes mailboxes from the integration that holds them
		connectionsPort
		all Stores
	}
	writesOver       struct{ connectionsPort } // ignores concurrent changes
	connectionsAlone struct{ connectionsPort } // commits no answer
)

func (b listsFound) Eligible(ctx context.Context, owner access.AccountID, id string) ([]integration.Eligible, error) {
	all, err := b.connectionsPort.Eligible(ctx, owner, id)
	tenants, _ := b.all.Tenants(ctx, owner)
	for _, t := range tenants {
		boxes, _ := b.all.Mailboxes(ctx, owner, t.GUID)
		for _, m := range boxes {
			if !m.Provisioned && err == nil {
				all = append(all, integration.Eligible{Mailbox: m})
			}
		}
	}
	return all, err
}

func (b eligibleReversed) Eligible(ctx context.Context, owner access.AccountID, id string) ([]integration.Eligible, error) {
	all, err := b.connectionsPort.Eligible(ctx, owner, id)
	slices.Reverse(all)
	return all, err
}

func (b blindElsewhere) Eligible(ctx context.Context, owner access.AccountID, id string) ([]integration.Eligible, error) {
	all, err := b.connectionsPort.Eligible(ctx, owner, id)
	for n := range all {
		all[n].Elsewhere = false
	}
	return all, err
}

func (b anybodysMailbox) EligibleMailbox(ctx context.Context, _ access.AccountID, id, mailboxID string) (integration.Eligible, error) {
	return firstSuccess(ctx, b.all, func(owner access.AccountID) (integration.Eligible, error) {
		all, err := b.all.Integrations(ctx, owner)
		for _, i := range all {
			if e, err := b.connectionsPort.EligibleMailbox(ctx, owner, i.ID, mailboxID); err == nil {
				return e, nil
			}
		}
		if err == nil {
			_, err = b.connectionsPort.EligibleMailbox(ctx, owner, id, mailboxID)
		}
		return integration.Eligible{}, err
	})
}

func (b countsFour) ConnectionCounts(ctx context.Context, owner access.AccountID, id string) (integration.Counts, error) {
	n, err := b.connectionsPort.ConnectionCounts(ctx, owner, id)
	n.Total, n.Other = n.Total-n.Other, 0
	return n, err
}

// disconnectEverywhere disconnects a mailbox from every integration.
func disconnectEverywhere(ctx context.Context, s Stores, owner access.AccountID, mailboxID string) {
	all, _ := s.Integrations(ctx, owner)
	for _, i := range all {
		e, err := s.EligibleMailbox(ctx, owner, i.ID, mailboxID)
		if err == nil && e.Connection.Status.Held() {
			was := e.Connection.UpdatedAt
			e.Connection.Status = integration.ConnectionDisconnected
			_, _ = s.SaveConnection(ctx, owner, e.Connection, was, nil)
		}
	}
}

func (b stealsConnections) SaveConnection(ctx context.Context, owner access.AccountID, c integration.Connection, before time.Time, completion *ports.Completion) (bool, error) {
	saved, err := b.connectionsPort.SaveConnection(ctx, owner, c, before, completion)
	if errors.Is(err, fault.ConnectedElsewhere) {
		disconnectEverywhere(ctx, b.all, owner, c.MailboxID)
		return b.connectionsPort.SaveConnection(ctx, owner, c, before, completion)
	}
	return saved, err
}

func (b writesOver) SaveConnection(ctx context.Context, owner access.AccountID, c integration.Connection, before time.Time, completion *ports.Completion) (bool, error) {
	if e, err := b.EligibleMailbox(ctx, owner, c.IntegrationID, c.MailboxID); err == nil {
		before = e.Connection.UpdatedAt
	}
	return b.connectionsPort.SaveConnection(ctx, owner, c, before, completion)
}

func (b connectionsAlone) SaveConnection(ctx context.Context, owner access.AccountID, c integration.Connection, before time.Time, _ *ports.Completion) (bool, error) {
	return b.connectionsPort.SaveConnection(ctx, owner, c, before, nil)
}

func TestConnectionSuitesDetectBrokenPromises(t *testing.T) {
	store := reusedStore(t)
	for name, b := range map[string]struct {
		suite        []storeCheck
		breakPromise func(Stores) Stores
	}{
		"discovered mailboxes are eligible":                   {eligibleChecks, func(s Stores) Stores { return withPort(s, listsFound{s, s}) }},
		"mailboxes out of order":                              {eligibleChecks, func(s Stores) Stores { return withPort(s, eligibleReversed{s}) }},
		"mailboxes of a different integration are not marked": {eligibleChecks, func(s Stores) Stores { return withPort(s, blindElsewhere{s}) }},
		"a foreign mailbox is found":                          {eligibleChecks, func(s Stores) Stores { return withPort(s, anybodysMailbox{s, s}) }},
		"disconnecting is not counted":                        {connectionChecks, func(s Stores) Stores { return withPort(s, countsFour{s}) }},
		"a connection is taken from another":                  {connectionChecks, func(s Stores) Stores { return withPort(s, stealsConnections{s, s}) }},
		"a changed connection is overwritten":                 {connectionChecks, func(s Stores) Stores { return withPort(s, writesOver{s}) }},
		"a connection commits no answer":                      {connectionChecks, func(s Stores) Stores { return withPort(s, connectionsAlone{s}) }},
	} {
		t.Run(name, func(t *testing.T) { requireDetected(t, store, b.suite, b.breakPromise) })
	}
}

// Each of these types breaks one promise of ports.Connections about sessions.
type (
	stealsSessions struct {
		connectionsPort
		all Stores
	}
	twoSessions      struct{ connectionsPort }
	sessionsForever  struct{ connectionsPort } // a session that was never opened blocks the next one
	sessionsCutShort struct{ connectionsPort } // a session that is being opened does not block the next one
	anybodysSession  struct {
		connectionsPort
		all Stores
	}
	sessionOfAnyBox    struct{ connectionsPort }
	savedAfterTheEnd   struct{ connectionsPort }
	sessionsUnattached struct{ connectionsPort } // the connection is not stored with the session
	halfSessions       struct{ connectionsPort } // the session is saved although its connection is refused
	sessionsAlone      struct{ connectionsPort }
	everybodyLooks     struct{ connectionsPort }
	latestOverFirst    struct{ connectionsPort }
	overTooSoon        struct{ connectionsPort }
	endlessOver        struct{ connectionsPort }
)

// demotes makes BeginSession set connections with this status to pending.
type demotes struct {
	Stores

	was integration.ConnectionStatus
}

func (b stealsSessions) BeginSession(ctx context.Context, owner access.AccountID, x integration.Session, id string, stale time.Time) error {
	err := b.connectionsPort.BeginSession(ctx, owner, x, id, stale)
	if errors.Is(err, fault.ConnectedElsewhere) {
		disconnectEverywhere(ctx, b.all, owner, x.MailboxID)
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
			_, _ = b.SaveSession(ctx, p.Account, p.Session, nil, nil)
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
		_, err = b.SaveConnection(ctx, owner, e.Connection, e.Connection.UpdatedAt, nil)
	}
	return err
}

func (b anybodysSession) Session(ctx context.Context, _ access.AccountID, i, m, id string) (integration.Session, error) {
	return firstSuccess(ctx, b.all, func(owner access.AccountID) (integration.Session, error) {
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

func (b savedAfterTheEnd) SaveSession(ctx context.Context, owner access.AccountID, x integration.Session, c *integration.Connection, completion *ports.Completion) (bool, error) {
	_, err := b.connectionsPort.SaveSession(ctx, owner, x, c, completion)
	return err == nil, err
}

func (b sessionsUnattached) SaveSession(ctx context.Context, owner access.AccountID, x integration.Session, _ *integration.Connection, completion *ports.Completion) (bool, error) {
	return b.connectionsPort.SaveSession(ctx, owner, x, nil, completion)
}

func (b halfSessions) SaveSession(ctx context.Context, owner access.AccountID, x integration.Session, c *integration.Connection, completion *ports.Completion) (bool, error) {
	saved, err := b.connectionsPort.SaveSession(ctx, owner, x, c, completion)
	if errors.Is(err, fault.ConnectedElsewhere) {
		_, _ = b.connectionsPort.SaveSession(ctx, owner, x, nil, completion)
	}
	return saved, err
}

func (b sessionsAlone) SaveSession(ctx context.Context, owner access.AccountID, x integration.Session, c *integration.Connection, _ *ports.Completion) (bool, error) {
	return b.connectionsPort.SaveSession(ctx, owner, x, c, nil)
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

func TestSessionSuitesDetectBrokenPromises(t *testing.T) {
	store := reusedStore(t)
	for name, b := range map[string]struct {
		suite        []storeCheck
		breakPromise func(Stores) Stores
	}{
		"a session takes a mailbox from a different integration": {sessionChecks, func(s Stores) Stores { return withPort(s, stealsSessions{s, s}) }},
		"two sessions of a mailbox are pending":                  {sessionChecks, func(s Stores) Stores { return withPort(s, twoSessions{s}) }},
		"a session that was never opened blocks the next one":    {sessionChecks, func(s Stores) Stores { return withPort(s, sessionsForever{s}) }},
		"a session that is being opened is replaced":             {sessionChecks, func(s Stores) Stores { return withPort(s, sessionsCutShort{s}) }},
		"a session ends a connection":                            {sessionChecks, func(s Stores) Stores { return demotes{s, integration.ConnectionConnected} }},
		"a session ends a disconnect":                            {sessionChecks, func(s Stores) Stores { return demotes{s, integration.ConnectionDisconnecting} }},
		"a foreign session is found":                             {sessionChecks, func(s Stores) Stores { return withPort(s, anybodysSession{s, s}) }},
		"a session of another mailbox is found":                  {sessionChecks, func(s Stores) Stores { return withPort(s, sessionOfAnyBox{s}) }},
		"a session ends twice":                                   {sessionEndChecks, func(s Stores) Stores { return withPort(s, savedAfterTheEnd{s}) }},
		"a session ends without its connection":                  {sessionEndChecks, func(s Stores) Stores { return withPort(s, sessionsUnattached{s}) }},
		"a session ends although it cannot connect":              {sessionEndChecks, func(s Stores) Stores { return withPort(s, halfSessions{s}) }},
		"a session commits no answer":                            {sessionEndChecks, func(s Stores) Stores { return withPort(s, sessionsAlone{s}) }},
		"every poll is allowed":                                  {sessionEndChecks, func(s Stores) Stores { return withPort(s, everybodyLooks{s}) }},
		"expired sessions are listed newest first":               {sessionEndChecks, func(s Stores) Stores { return withPort(s, latestOverFirst{s}) }},
		"a session expires too early":                            {sessionEndChecks, func(s Stores) Stores { return withPort(s, overTooSoon{s}) }},
		"more sessions are listed than were asked for":           {sessionEndChecks, func(s Stores) Stores { return withPort(s, endlessOver{s}) }},
	} {
		t.Run(name, func(t *testing.T) { requireDetected(t, store, b.suite, b.breakPromise) })
	}
}
