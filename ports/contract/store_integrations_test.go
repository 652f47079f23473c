// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/ports"
)

// Each of these types breaks one promise of ports.Integrations, or of the refreshes of
// ports.Connections.
type (
	anybodysIntegrations struct {
		integrationsPort
		all Stores
	}
	oldIntegrationsFirst struct{ integrationsPort }
	undeadIntegrations   struct{ integrationsPort }
	stubbornStatus       struct{ integrationsPort } // a test does not change the status
	onlyAPIKeys          struct{ integrationsPort } // forgets which fields were set
	textualCredentials   struct{ integrationsPort }
	integrationsAlone    struct{ integrationsPort } // commits no answer
	dueTwice             struct{ integrationsPort }
	dueAnyway            struct { // also for suspended accounts
		integrationsPort
		all Stores
	}
	youngestDueFirst  struct{ integrationsPort }
	endlesslyDue      struct{ integrationsPort } // more than the limit
	keepsIntegrations struct {                   // of closed accounts
		accountsPort
		all Stores
	}
	refreshesLate      struct{ connectionsPort } // overwrites changes made since the refresh began
	refreshesBlindly   struct{ connectionsPort } // counts rows that it did not store
	refreshesRowsAlone struct {                  // does not change the integration
		connectionsPort
		all Stores
	}
	refreshesOrFails struct{ connectionsPort }
	refreshesHalf    struct{ connectionsPort }
	refreshesUnasked struct { // does not note that a refresh began
		connectionsPort
		all Stores
	}
)

func (b anybodysIntegrations) Integration(ctx context.Context, _ access.AccountID, id string) (i integration.Integration, credential []byte, err error) {
	i, err = firstSuccess(ctx, b.all, func(owner access.AccountID) (i integration.Integration, err error) {
		i, credential, err = b.integrationsPort.Integration(ctx, owner, id)
		return i, err
	})
	return i, credential, err
}

func (b oldIntegrationsFirst) Integrations(ctx context.Context, owner access.AccountID) ([]integration.Integration, error) {
	all, err := b.integrationsPort.Integrations(ctx, owner)
	slices.Reverse(all)
	return all, err
}

func (b undeadIntegrations) RemoveIntegration(ctx context.Context, owner access.AccountID, id string, _ *ports.Completion) error {
	_, _, err := b.Integration(ctx, owner, id)
	return err
}

func (b stubbornStatus) SaveIntegration(ctx context.Context, i integration.Integration, completion *ports.Completion) error {
	if was, _, err := b.Integration(ctx, i.AccountID, i.ID); err == nil {
		i.Status = was.Status
	}
	return b.integrationsPort.SaveIntegration(ctx, i, completion)
}

func (b onlyAPIKeys) AddIntegration(ctx context.Context, i integration.Integration, credential []byte, completion *ports.Completion) error {
	i.CredentialFields = []string{"api_key"}
	return b.integrationsPort.AddIntegration(ctx, i, credential, completion)
}

func (b textualCredentials) AddIntegration(ctx context.Context, i integration.Integration, credential []byte, completion *ports.Completion) error {
	return b.integrationsPort.AddIntegration(ctx, i, []byte(string([]rune(string(credential)))), completion)
}

func (b integrationsAlone) RemoveIntegration(ctx context.Context, owner access.AccountID, id string, _ *ports.Completion) error {
	return b.integrationsPort.RemoveIntegration(ctx, owner, id, nil)
}

func (b dueTwice) DueRefreshes(ctx context.Context, before, _ time.Time, most int) ([]integration.Integration, error) {
	return b.integrationsPort.DueRefreshes(ctx, before, before.Add(-time.Second), most)
}

func (b dueAnyway) DueRefreshes(ctx context.Context, before, at time.Time, most int) ([]integration.Integration, error) {
	all, _ := b.all.Accounts(ctx)
	for _, a := range all {
		_, _ = b.all.SetActive(ctx, a.ID, true)
	}
	return b.integrationsPort.DueRefreshes(ctx, before, at, most)
}

func (b youngestDueFirst) DueRefreshes(ctx context.Context, before, at time.Time, most int) ([]integration.Integration, error) {
	all, err := b.integrationsPort.DueRefreshes(ctx, before, at, most)
	slices.Reverse(all)
	return all, err
}

func (b endlesslyDue) DueRefreshes(ctx context.Context, before, at time.Time, _ int) ([]integration.Integration, error) {
	return b.integrationsPort.DueRefreshes(ctx, before, at, 1000)
}

func (b keepsIntegrations) CloseAccount(ctx context.Context, id access.AccountID, at time.Time, _ ...string) (ports.Closing, error) {
	kept, _ := b.all.Integrations(ctx, id)
	_, err := b.SetActive(ctx, id, false)
	return ports.Closing{At: at, IntegrationsRemoved: len(kept)}, err
}

func (b refreshesLate) SaveRefresh(ctx context.Context, owner access.AccountID, i integration.Integration, began time.Time, all []integration.Connection, completion *ports.Completion) (int, error) {
	return b.connectionsPort.SaveRefresh(ctx, owner, i, began.Add(1000*time.Hour), all, completion)
}

func (b refreshesBlindly) SaveRefresh(ctx context.Context, owner access.AccountID, i integration.Integration, began time.Time, all []integration.Connection, completion *ports.Completion) (int, error) {
	_, err := b.connectionsPort.SaveRefresh(ctx, owner, i, began, all, completion)
	return len(all), err
}

func (b refreshesRowsAlone) SaveRefresh(ctx context.Context, owner access.AccountID, i integration.Integration, began time.Time, all []integration.Connection, _ *ports.Completion) (int, error) {
	was, _, err := b.all.Integration(ctx, owner, i.ID)
	if err != nil {
		return 0, err
	}
	return b.connectionsPort.SaveRefresh(ctx, owner, was, began, all, nil)
}

func (b refreshesOrFails) SaveRefresh(ctx context.Context, owner access.AccountID, i integration.Integration, began time.Time, all []integration.Connection, completion *ports.Completion) (int, error) {
	n, err := b.connectionsPort.SaveRefresh(ctx, owner, i, began, all, completion)
	if err == nil && n < len(all) {
		err = context.Canceled
	}
	return n, err
}

func (b refreshesHalf) SaveRefresh(ctx context.Context, owner access.AccountID, i integration.Integration, began time.Time, all []integration.Connection, completion *ports.Completion) (int, error) {
	return b.connectionsPort.SaveRefresh(ctx, owner, i, began, all[len(all)/2:], completion)
}

func (b refreshesUnasked) SaveRefresh(ctx context.Context, owner access.AccountID, i integration.Integration, began time.Time, all []integration.Connection, completion *ports.Completion) (int, error) {
	if len(all) == 0 {
		i.AccountID = owner
		return 0, b.all.SaveIntegration(ctx, i, completion)
	}
	return b.connectionsPort.SaveRefresh(ctx, owner, i, began, all, completion)
}

func TestIntegrationSuitesDetectBrokenPromises(t *testing.T) {
	store := reusedStore(t)
	for name, b := range map[string]struct {
		suite        []storeCheck
		breakPromise func(Stores) Stores
	}{
		"a foreign integration is found":                           {integrationChecks, func(s Stores) Stores { return withPort(s, anybodysIntegrations{s, s}) }},
		"the oldest is listed first":                               {integrationChecks, func(s Stores) Stores { return withPort(s, oldIntegrationsFirst{s}) }},
		"a removed integration stays":                              {integrationChecks, func(s Stores) Stores { return withPort(s, undeadIntegrations{s}) }},
		"a test leaves the status":                                 {integrationChecks, func(s Stores) Stores { return withPort(s, stubbornStatus{s}) }},
		"the given fields are forgotten":                           {integrationChecks, func(s Stores) Stores { return withPort(s, onlyAPIKeys{s}) }},
		"credentials are stored as text":                           {integrationChecks, func(s Stores) Stores { return withPort(s, textualCredentials{s}) }},
		"a removal commits no answer":                              {integrationChecks, func(s Stores) Stores { return withPort(s, integrationsAlone{s}) }},
		"closing leaves integrations":                              {integrationChecks, func(s Stores) Stores { return withPort(s, keepsIntegrations{s, s}) }},
		"a refresh is claimed twice":                               {refreshChecks, func(s Stores) Stores { return withPort(s, dueTwice{s}) }},
		"suspended accounts are refreshed":                         {refreshChecks, func(s Stores) Stores { return withPort(s, dueAnyway{s, s}) }},
		"the newest refresh is claimed first":                      {refreshChecks, func(s Stores) Stores { return withPort(s, youngestDueFirst{s}) }},
		"more are due than the limit":                              {refreshChecks, func(s Stores) Stores { return withPort(s, endlesslyDue{s}) }},
		"a refresh overwrites later changes":                       {refreshChecks, func(s Stores) Stores { return withPort(s, refreshesLate{s}) }},
		"skipped connections are counted":                          {refreshChecks, func(s Stores) Stores { return withPort(s, refreshesBlindly{s}) }},
		"a refresh leaves the integration alone":                   {refreshChecks, func(s Stores) Stores { return withPort(s, refreshesRowsAlone{s, s}) }},
		"one mailbox of a different integration fails the refresh": {refreshChecks, func(s Stores) Stores { return withPort(s, refreshesOrFails{s}) }},
		"half of a refresh is stored":                              {refreshChecks, func(s Stores) Stores { return withPort(s, refreshesHalf{s}) }},
		"a requested refresh is due again at once":                 {refreshChecks, func(s Stores) Stores { return withPort(s, refreshesUnasked{s, s}) }},
	} {
		t.Run(name, func(t *testing.T) { requireDetected(t, store, b.suite, b.breakPromise) })
	}
}
