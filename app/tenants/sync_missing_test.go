// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
	"context"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// laggingPlatform is a platform whose lists of domains and mailboxes are empty, because its
// replicas lag. If lacksObjects is true, reads by name find no domain and no mailbox either.
type laggingPlatform struct {
	ports.MailPlatform
	lacksObjects bool
}

func (p laggingPlatform) For(id tenant.GUID) ports.MailTenant {
	return laggingTenant{p.MailPlatform.For(id), p.lacksObjects}
}

type laggingTenant struct {
	ports.MailTenant
	lacksObjects bool
}

func (laggingTenant) Domains(context.Context) ([]domain.Platform, error) { return nil, nil }

func (laggingTenant) Mailboxes(context.Context) ([]mailbox.Platform, error) { return nil, nil }

func (m laggingTenant) Domain(ctx context.Context, name string) (domain.Platform, error) {
	if m.lacksObjects {
		return domain.Platform{}, &outcome.Error{Kind: outcome.Refused, Code: fault.DomainNotFound}
	}
	return m.MailTenant.Domain(ctx, name)
}

func (m laggingTenant) Mailbox(ctx context.Context, address string) (mailbox.Platform, error) {
	if m.lacksObjects {
		return mailbox.Platform{}, &outcome.Error{Kind: outcome.Refused, Code: fault.MailboxNotFound}
	}
	return m.MailTenant.Mailbox(ctx, address)
}

func TestSyncKeepsObjectsThatOnlyTheListsLack(t *testing.T) {
	fx := newConnectedFixture(t, fake.Setup{})
	fx.addPlatformObjects(t)
	fx.sync(t)
	fx.Platform = laggingPlatform{fx.platform, false}
	for range 2 {
		fx.sync(t)
		fx.now = fx.now.Add(observation.ReplicaLag)
	}
	if domains, mailboxes := fx.storedObjects(t); len(domains) != 2 || len(mailboxes) != 1 || !domains[0].Verified {
		t.Fatalf("stored are %+v and %+v, want two domains and one mailbox", domains, mailboxes)
	}
}

// TestSyncRemovesObjectsThatStayMissing checks objects that neither the lists nor reads by name
// show. A sync hides these objects. If the objects return, the mailbox still has its limit. If they
// stay missing, a sync at least ReplicaLag after the first miss removes them.
func TestSyncRemovesObjectsThatStayMissing(t *testing.T) {
	for name, objectsReturn := range map[string]bool{"the objects return": true, "the objects stay missing": false} {
		t.Run(name, func(t *testing.T) {
			fx := newConnectedFixture(t, fake.Setup{})
			fx.addPlatformObjects(t)
			fx.sync(t)
			_, mailboxes := fx.storedObjects(t)
			must(t, fx.store.SetSendLimit(t.Context(), fx.ann.ID, mailboxes[0].ID, 9, fx.now))
			fx.Platform = laggingPlatform{fx.platform, true}
			for range 3 {
				fx.now = fx.now.Add(time.Minute)
				fx.sync(t)
			}
			if domains, mailboxes := fx.storedObjects(t); len(domains)+len(mailboxes) != 0 {
				t.Fatalf("the missed objects are still listed: %+v and %+v", domains, mailboxes)
			}
			names, addresses, err := fx.store.KnownNames(t.Context(), fx.ann.ID, guid)
			must(t, err)
			if len(names) != 2 || len(addresses) != 1 {
				t.Fatalf("known are %v and %v, want two domains and one mailbox until ReplicaLag has passed", names, addresses)
			}
			fx.now = fx.now.Add(observation.ReplicaLag)
			if objectsReturn {
				fx.Platform = fx.platform
			}
			fx.sync(t)
			domains, mailboxesAfter := fx.storedObjects(t)
			if objectsReturn && (len(domains) != 2 || len(mailboxesAfter) != 1 || mailboxesAfter[0].ID != mailboxes[0].ID || mailboxesAfter[0].DailySendLimit != 9) {
				t.Fatalf("listed are %+v and %+v, want the earlier rows", domains, mailboxesAfter)
			}
			names, addresses, err = fx.store.KnownNames(t.Context(), fx.ann.ID, guid)
			must(t, err)
			if !objectsReturn && len(names)+len(addresses) != 0 {
				t.Fatalf("known are %v and %v, want no domain and no mailbox", names, addresses)
			}
		})
	}
}
