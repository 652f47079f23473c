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
)

// Each of these breaks one promise of ports.Connections about mailboxes and connections.
type (
	listsFound struct { // what discovery found is eligible
		connectionsPort
		all Stores
	}
	eligibleReversed struct{ connectionsPort }
	blindElsewhere   struct{ connectionsPort }
	anybodysMailbox  struct {
		connectionsPort
		all Stores
	}
	countsFour        struct{ connectionsPort } // no others
	stealsConnections struct {                  // from the integration that holds them
		connectionsPort
		all Stores
	}
	writesOver       struct{ connectionsPort } // whatever changed meanwhile
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
	return everyone(ctx, b.all, func(owner access.AccountID) (integration.Eligible, error) {
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
	saved, err := b.connectionsPort.SaveConnection(ctx, owner, c, before)
	if errors.Is(err, fault.ConnectedElsewhere) {
		freed(ctx, b.all, owner, c.MailboxID)
		return b.connectionsPort.SaveConnection(ctx, owner, c, before)
	}
	return saved, err
}

func (b writesOver) SaveConnection(ctx context.Context, owner access.AccountID, c integration.Connection, before time.Time) (bool, error) {
	if e, err := b.EligibleMailbox(ctx, owner, c.IntegrationID, c.MailboxID); err == nil {
		before = e.Connection.UpdatedAt
	}
	return b.connectionsPort.SaveConnection(ctx, owner, c, before)
}

func (b connectionsAlone) SaveConnection(_ context.Context, owner access.AccountID, c integration.Connection, before time.Time) (bool, error) {
	return b.connectionsPort.SaveConnection(context.Background(), owner, c, before)
}

func TestConnectionSuitesNoticeBrokenPromises(t *testing.T) {
	store := reusedStore(t)
	for name, b := range map[string]struct {
		suite []storeCheck
		spoil func(Stores) Stores
	}{
		"what discovery found is eligible":          {eligibleChecks, func(s Stores) Stores { return with(s, listsFound{s, s}) }},
		"mailboxes out of order":                    {eligibleChecks, func(s Stores) Stores { return with(s, eligibleReversed{s}) }},
		"what is held elsewhere is not said":        {eligibleChecks, func(s Stores) Stores { return with(s, blindElsewhere{s}) }},
		"a foreign mailbox is found":                {eligibleChecks, func(s Stores) Stores { return with(s, anybodysMailbox{s, s}) }},
		"disconnecting is not counted":              {connectionChecks, func(s Stores) Stores { return with(s, countsFour{s}) }},
		"a connection is taken from another":        {connectionChecks, func(s Stores) Stores { return with(s, stealsConnections{s, s}) }},
		"a connection that changed is written over": {connectionChecks, func(s Stores) Stores { return with(s, writesOver{s}) }},
		"a connection commits no answer":            {connectionChecks, func(s Stores) Stores { return with(s, connectionsAlone{s}) }},
	} {
		t.Run(name, func(t *testing.T) { notices(t, store, b.suite, b.spoil) })
	}
}
