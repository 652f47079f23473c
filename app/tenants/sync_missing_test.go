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

// laggingPlatform is a platform whose replicas lack all domains and mailboxes. Its lists are empty.
// If objects is true, reads by name do not find them either.
type laggingPlatform struct {
	ports.MailPlatform
	objects bool
}

func (p laggingPlatform) For(id tenant.GUID) ports.MailTenant {
	return laggingTenant{p.MailPlatform.For(id), p.objects}
}

type laggingTenant struct {
	ports.MailTenant
	objects bool
}

func (laggingTenant) Domains(context.Context) ([]domain.Platform, error) { return nil, nil }

func (laggingTenant) Mailboxes(context.Context) ([]mailbox.Platform, error) { return nil, nil }

func (m laggingTenant) Domain(ctx context.Context, name string) (domain.Platform, error) {
	if m.objects {
		return domain.Platform{}, &outcome.Error{Kind: outcome.Refused, Code: fault.DomainNotFound}
	}
	return m.MailTenant.Domain(ctx, name)
}

func (m laggingTenant) Mailbox(ctx context.Context, address string) (mailbox.Platform, error) {
	if m.objects {
		return mailbox.Platform{}, &outcome.Error{Kind: outcome.Refused, Code: fault.MailboxNotFound}
	}
	return m.MailTenant.Mailbox(ctx, address)
}

func TestListThatLacksAnObjectDoesNotRemoveIt(t *testing.T) {
	fx := connected(t, fake.Setup{})
	fx.addPlatformObjects(t)
	fx.sync(t)
	fx.Platform = laggingPlatform{fx.platform, false}
	for range 2 {
		fx.sync(t)
		fx.now = fx.now.Add(observation.ReplicaLag)
	}
	if domains, boxes := fx.storedObjects(t); len(domains) != 2 || len(boxes) != 1 || !domains[0].Verified {
		t.Fatalf("stored are %+v and %+v", domains, boxes)
	}
}

// An object that neither the list nor a read by name shows is hidden. If it shows again, it still
// has its limit. Otherwise a sync 15 minutes later removes it.
func TestObjectIsRemovedAfterTwoMisses(t *testing.T) {
	for name, returns := range map[string]bool{"it comes back": true, "it is gone": false} {
		t.Run(name, func(t *testing.T) {
			fx := connected(t, fake.Setup{})
			fx.addPlatformObjects(t)
			fx.sync(t)
			_, boxes := fx.storedObjects(t)
			must(t, fx.store.SetSendLimit(t.Context(), fx.ann.ID, boxes[0].ID, 9, fx.now))
			fx.Platform = laggingPlatform{fx.platform, true}
			for range 3 {
				fx.now = fx.now.Add(time.Minute)
				fx.sync(t)
			}
			if domains, boxes := fx.storedObjects(t); len(domains)+len(boxes) != 0 {
				t.Fatalf("listed are %+v and %+v", domains, boxes)
			}
			names, addresses, err := fx.store.KnownNames(t.Context(), fx.ann.ID, guid)
			must(t, err)
			if len(names) != 2 || len(addresses) != 1 {
				t.Fatalf("removed too early: known are %v and %v", names, addresses)
			}
			fx.now = fx.now.Add(observation.ReplicaLag)
			if returns {
				fx.Platform = fx.platform
			}
			fx.sync(t)
			domains, found := fx.storedObjects(t)
			if returns && (len(domains) != 2 || len(found) != 1 || found[0].ID != boxes[0].ID || found[0].DailySendLimit != 9) {
				t.Fatalf("listed are %+v and %+v", domains, found)
			}
			names, addresses, err = fx.store.KnownNames(t.Context(), fx.ann.ID, guid)
			must(t, err)
			if !returns && len(names)+len(addresses) != 0 {
				t.Fatalf("known are %v and %v", names, addresses)
			}
		})
	}
}
