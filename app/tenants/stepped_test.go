// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/testserver/interleaving"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// steppedPlatform is the platform of a race. The calls that steppedTenant overrides are steps.
type steppedPlatform struct {
	ports.MailPlatform
	race *race
}

func (p steppedPlatform) For(id tenant.GUID) ports.MailTenant {
	return steppedTenant{p.MailPlatform.For(id), p.race}
}

type steppedTenant struct {
	ports.MailTenant
	race *race
}

func (m steppedTenant) Profile(ctx context.Context) (tenant.Profile, error) {
	interleaving.Step(ctx)
	return m.MailTenant.Profile(ctx)
}

func (m steppedTenant) Bootstrap(ctx context.Context) (tenant.Progress, error) {
	start := m.race.now
	interleaving.Step(ctx)
	progress, err := m.MailTenant.Bootstrap(ctx)
	m.race.recordAnswer("bootstrap", start, progress.Status)
	return progress, err
}

func (m steppedTenant) SMTPAuth(ctx context.Context) (tenant.SMTPAuth, error) {
	start := m.race.now
	interleaving.Step(ctx)
	state, err := m.MailTenant.SMTPAuth(ctx)
	m.race.recordAnswer("smtp", start, state)
	return state, err
}

func (m steppedTenant) UserMailboxes(ctx context.Context) (int, error) {
	start := m.race.now
	interleaving.Step(ctx)
	m.race.recordAnswer("users", start, m.race.userCount)
	return m.race.userCount, ctx.Err()
}

// Domains is two steps: the platform creates the list after the first step, and returns the list
// after the second step.
func (m steppedTenant) Domains(ctx context.Context) ([]domain.Platform, error) {
	interleaving.Step(ctx)
	list, err := m.replica(ctx).Domains(ctx)
	interleaving.Step(ctx)
	return list, err
}

// Domain and Mailbox are steps only for a use case that reads a replica.
func (m steppedTenant) Domain(ctx context.Context, name string) (domain.Platform, error) {
	if readsReplica(ctx) {
		interleaving.Step(ctx)
	}
	return m.replica(ctx).Domain(ctx, name)
}

func (m steppedTenant) Mailbox(ctx context.Context, address string) (mailbox.Platform, error) {
	if readsReplica(ctx) {
		interleaving.Step(ctx)
	}
	return m.replica(ctx).Mailbox(ctx, address)
}

// replicaKey is the key of a context value that marks a use case which reads a replica.
type replicaKey struct{}

// onReplica returns the use case with reads that come from a replica of the platform. The replica
// lacks all domains and mailboxes until race.lagUntil.
func onReplica(use useCase) useCase {
	return func(ctx context.Context) error { return use(context.WithValue(ctx, replicaKey{}, true)) }
}

func readsReplica(ctx context.Context) bool { return ctx.Value(replicaKey{}) != nil }

// replica returns the tenant that the use case of ctx reads. If the use case reads a replica that
// still lags, the tenant has no domains and no mailboxes.
func (m steppedTenant) replica(ctx context.Context) ports.MailTenant {
	if readsReplica(ctx) && m.race.now.Before(m.race.lagUntil) {
		return laggingTenant{m.MailTenant, true}
	}
	return m.MailTenant
}

func (m steppedTenant) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
	interleaving.Step(ctx)
	return m.MailTenant.VerifyDomain(ctx, name)
}

func (m steppedTenant) EnsureSigning(ctx context.Context, name string) (dns.Signing, error) {
	interleaving.Step(ctx)
	return m.MailTenant.EnsureSigning(ctx, name)
}

// Mailboxes is two steps, like Domains.
func (m steppedTenant) Mailboxes(ctx context.Context) ([]mailbox.Platform, error) {
	interleaving.Step(ctx)
	list, err := m.replica(ctx).Mailboxes(ctx)
	interleaving.Step(ctx)
	return list, err
}

func (m steppedTenant) CreateMailbox(ctx context.Context, spec mailbox.Spec) (mailbox.Platform, error) {
	interleaving.Step(ctx)
	return m.MailTenant.CreateMailbox(ctx, spec)
}

func (m steppedTenant) OpenSignIn(ctx context.Context, objectID, address string, password secret.Text) error {
	interleaving.Step(ctx)
	return m.MailTenant.OpenSignIn(ctx, objectID, address, password)
}

func (m steppedTenant) Rename(ctx context.Context, address, name string) error {
	interleaving.Step(ctx)
	return m.MailTenant.Rename(ctx, address, name)
}

// steppedStore is the store of a race. The writes that it overrides are steps.
type steppedStore struct{ *bunstore.Store }

func (s steppedStore) SaveTenant(ctx context.Context, owner access.AccountID, t tenant.Tenant) error {
	interleaving.Step(ctx)
	return s.Store.SaveTenant(ctx, owner, t)
}

func (s steppedStore) Attach(ctx context.Context, owner access.AccountID, t tenant.Tenant, sessions ...string) (tenant.Tenant, error) {
	interleaving.Step(ctx)
	return s.Store.Attach(ctx, owner, t, sessions...)
}

func (s steppedStore) SaveDiscovery(ctx context.Context, owner access.AccountID, id tenant.GUID, found ports.DiscoveryResult) error {
	interleaving.Step(ctx)
	return s.Store.SaveDiscovery(ctx, owner, id, found)
}

func (s steppedStore) ChangeDomain(ctx context.Context, owner access.AccountID, d domain.Domain) (domain.Domain, error) {
	interleaving.Step(ctx)
	return s.Store.ChangeDomain(ctx, owner, d)
}

func (s steppedStore) ReserveMailboxes(ctx context.Context, owner access.AccountID, domainID string, specs []mailbox.Spec, limit int, now time.Time) ([]mailbox.Mailbox, error) {
	interleaving.Step(ctx)
	return s.Store.ReserveMailboxes(ctx, owner, domainID, specs, limit, now)
}

func (s steppedStore) SaveMailbox(ctx context.Context, owner access.AccountID, m mailbox.Mailbox) error {
	interleaving.Step(ctx)
	return s.Store.SaveMailbox(ctx, owner, m)
}

func (s steppedStore) ConcludeMailboxes(ctx context.Context, owner access.AccountID, rows []mailbox.Mailbox, storedAnswer *ports.StoredAnswer) error {
	interleaving.Step(ctx)
	return s.Store.ConcludeMailboxes(ctx, owner, rows, storedAnswer)
}
