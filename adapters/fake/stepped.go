// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Stepper runs calls of a wrapped port, each as one step. CrashingProcess fails at one step and at
// all later steps. The Stepper of a race test decides the order in which concurrent use cases make
// their steps.
type Stepper interface {
	// Step runs do, which makes the call with ctx, and returns its error.
	Step(ctx context.Context, do func() error) error
}

// StepWithResult is Step for a function that also returns a value.
func StepWithResult[T any](ctx context.Context, s Stepper, do func() (T, error)) (result T, err error) {
	err = s.Step(ctx, func() (err error) {
		result, err = do()
		return err
	})
	return result, err
}

// SteppedMailPlatform wraps a mail platform so that these calls are steps of s: RemoveMailbox,
// RemoveRule, and the calls of ports.TenantDirectory and ports.MailServer about one domain.
func SteppedMailPlatform(p ports.MailPlatform, s Stepper) ports.MailPlatform {
	return steppedPlatform{p, s}
}

type steppedPlatform struct {
	ports.MailPlatform

	steps Stepper
}

func (p steppedPlatform) For(id tenant.GUID) ports.MailTenant {
	return steppedTenant{p.MailPlatform.For(id), p.steps}
}

type steppedTenant struct {
	ports.MailTenant

	steps Stepper
}

func (m steppedTenant) Domain(ctx context.Context, name string) (domain.Platform, error) {
	return StepWithResult(ctx, m.steps, func() (domain.Platform, error) { return m.MailTenant.Domain(ctx, name) })
}

func (m steppedTenant) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	return StepWithResult(ctx, m.steps, func() (domain.Platform, error) { return m.MailTenant.AddDomain(ctx, name) })
}

func (m steppedTenant) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
	return StepWithResult(ctx, m.steps, func() (domain.Platform, error) { return m.MailTenant.VerifyDomain(ctx, name) })
}

func (m steppedTenant) Records(ctx context.Context, name string) (domain.Records, error) {
	return StepWithResult(ctx, m.steps, func() (domain.Records, error) { return m.MailTenant.Records(ctx, name) })
}

func (m steppedTenant) EnableMail(ctx context.Context, name string) error {
	return m.steps.Step(ctx, func() error { return m.MailTenant.EnableMail(ctx, name) })
}

func (m steppedTenant) RemoveDomain(ctx context.Context, name string) error {
	return m.steps.Step(ctx, func() error { return m.MailTenant.RemoveDomain(ctx, name) })
}

func (m steppedTenant) RemoveMailbox(ctx context.Context, objectID string) error {
	return m.steps.Step(ctx, func() error { return m.MailTenant.RemoveMailbox(ctx, objectID) })
}

func (m steppedTenant) RemoveRule(ctx context.Context, scope string) error {
	return m.steps.Step(ctx, func() error { return m.MailTenant.RemoveRule(ctx, scope) })
}

func (m steppedTenant) EnsureSigning(ctx context.Context, name string) (dns.Signing, error) {
	return StepWithResult(ctx, m.steps, func() (dns.Signing, error) { return m.MailTenant.EnsureSigning(ctx, name) })
}

func (m steppedTenant) EnableSigning(ctx context.Context, name string) error {
	return m.steps.Step(ctx, func() error { return m.MailTenant.EnableSigning(ctx, name) })
}

func (m steppedTenant) Signing(ctx context.Context, name string) (dns.Signing, error) {
	return StepWithResult(ctx, m.steps, func() (dns.Signing, error) { return m.MailTenant.Signing(ctx, name) })
}

// SteppedDomains wraps a domain store so that its writes are steps of s.
func SteppedDomains(d ports.Domains, s Stepper) ports.Domains { return steppedDomains{d, s} }

// storedDomains is another name of ports.Domains. An embedded field with this name does not collide
// with the port's method Domains.
type storedDomains = ports.Domains

type steppedDomains struct {
	storedDomains

	steps Stepper
}

func (s steppedDomains) ReserveDomain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string, limit int, now time.Time) (domain.Domain, error) {
	return StepWithResult(ctx, s.steps, func() (domain.Domain, error) { return s.storedDomains.ReserveDomain(ctx, owner, id, name, limit, now) })
}

func (s steppedDomains) SaveDomain(ctx context.Context, owner access.AccountID, d domain.Domain, storedAnswer *ports.StoredAnswer) error {
	return s.steps.Step(ctx, func() error { return s.storedDomains.SaveDomain(ctx, owner, d, storedAnswer) })
}

func (s steppedDomains) ChangeDomain(ctx context.Context, owner access.AccountID, observed domain.Domain) (domain.Domain, error) {
	return StepWithResult(ctx, s.steps, func() (domain.Domain, error) { return s.storedDomains.ChangeDomain(ctx, owner, observed) })
}

func (s steppedDomains) WithdrawReservation(ctx context.Context, owner access.AccountID, d domain.Domain) error {
	return s.steps.Step(ctx, func() error { return s.storedDomains.WithdrawReservation(ctx, owner, d) })
}

func (s steppedDomains) EndReservation(ctx context.Context, owner access.AccountID, id string, reservedAt time.Time) error {
	return s.steps.Step(ctx, func() error { return s.storedDomains.EndReservation(ctx, owner, id, reservedAt) })
}

// SteppedSendingPlatforms wraps sending platforms so that every call of a platform is a step of s.
func SteppedSendingPlatforms(p ports.SendingPlatforms, s Stepper) ports.SendingPlatforms {
	return steppedSendingPlatforms{p, s}
}

type steppedSendingPlatforms struct {
	ports.SendingPlatforms

	steps Stepper
}

func (p steppedSendingPlatforms) For(provider string, c secret.Credential) ports.SendingPlatform {
	return steppedSendingPlatform{p.SendingPlatforms.For(provider, c), p.steps}
}

type steppedSendingPlatform struct {
	ports.SendingPlatform

	steps Stepper
}

func (m steppedSendingPlatform) Check(ctx context.Context) (integration.Reach, error) {
	return StepWithResult(ctx, m.steps, func() (integration.Reach, error) { return m.SendingPlatform.Check(ctx) })
}

func (m steppedSendingPlatform) Account(ctx context.Context, address string) (integration.Account, error) {
	return StepWithResult(ctx, m.steps, func() (integration.Account, error) { return m.SendingPlatform.Account(ctx, address) })
}

func (m steppedSendingPlatform) Accounts(ctx context.Context, cursor string) (integration.Page, error) {
	return StepWithResult(ctx, m.steps, func() (integration.Page, error) { return m.SendingPlatform.Accounts(ctx, cursor) })
}

func (m steppedSendingPlatform) StartSignIn(ctx context.Context, address string) (integration.SignIn, error) {
	return StepWithResult(ctx, m.steps, func() (integration.SignIn, error) { return m.SendingPlatform.StartSignIn(ctx, address) })
}

func (m steppedSendingPlatform) SignIn(ctx context.Context, session string) (integration.Progress, error) {
	return StepWithResult(ctx, m.steps, func() (integration.Progress, error) { return m.SendingPlatform.SignIn(ctx, session) })
}

func (m steppedSendingPlatform) Remove(ctx context.Context, account string) error {
	return m.steps.Step(ctx, func() error { return m.SendingPlatform.Remove(ctx, account) })
}

// SteppedIntegrations wraps an integration store so that the calls of AddIntegration,
// SaveIntegration and RemoveIntegration are steps of s.
func SteppedIntegrations(i ports.Integrations, s Stepper) ports.Integrations {
	return steppedIntegrations{i, s}
}

// storedIntegrations and storedConnections are other names of the ports. Embedded fields with these
// names do not collide with the methods Integrations and Connections of the ports.
type (
	storedIntegrations = ports.Integrations
	storedConnections  = ports.Connections
)

type steppedIntegrations struct {
	storedIntegrations

	steps Stepper
}

func (s steppedIntegrations) AddIntegration(ctx context.Context, i integration.Integration, credential []byte, storedAnswer *ports.StoredAnswer) error {
	return s.steps.Step(ctx, func() error { return s.storedIntegrations.AddIntegration(ctx, i, credential, storedAnswer) })
}

func (s steppedIntegrations) SaveIntegration(ctx context.Context, i integration.Integration, storedAnswer *ports.StoredAnswer) error {
	return s.steps.Step(ctx, func() error { return s.storedIntegrations.SaveIntegration(ctx, i, storedAnswer) })
}

func (s steppedIntegrations) RemoveIntegration(ctx context.Context, owner access.AccountID, id string, storedAnswer *ports.StoredAnswer) error {
	return s.steps.Step(ctx, func() error { return s.storedIntegrations.RemoveIntegration(ctx, owner, id, storedAnswer) })
}

// SteppedConnections wraps a connection store so that its writes are steps of s.
func SteppedConnections(c ports.Connections, s Stepper) ports.Connections {
	return steppedConnections{c, s}
}

type steppedConnections struct {
	storedConnections

	steps Stepper
}

func (s steppedConnections) BeginSession(ctx context.Context, owner access.AccountID, session integration.Session, connectionID string, stale time.Time) error {
	return s.steps.Step(ctx, func() error { return s.storedConnections.BeginSession(ctx, owner, session, connectionID, stale) })
}

func (s steppedConnections) SaveSession(ctx context.Context, owner access.AccountID, session integration.Session, c *integration.Connection, storedAnswer *ports.StoredAnswer) (bool, error) {
	return StepWithResult(ctx, s.steps, func() (bool, error) { return s.storedConnections.SaveSession(ctx, owner, session, c, storedAnswer) })
}

func (s steppedConnections) ClaimSessionCheck(ctx context.Context, owner access.AccountID, sessionID string, since, now time.Time) (bool, error) {
	return StepWithResult(ctx, s.steps, func() (bool, error) { return s.storedConnections.ClaimSessionCheck(ctx, owner, sessionID, since, now) })
}

func (s steppedConnections) SaveConnection(ctx context.Context, owner access.AccountID, c integration.Connection, readUpdatedAt time.Time, storedAnswer *ports.StoredAnswer) (bool, error) {
	return StepWithResult(ctx, s.steps, func() (bool, error) {
		return s.storedConnections.SaveConnection(ctx, owner, c, readUpdatedAt, storedAnswer)
	})
}

func (s steppedConnections) SaveRefresh(ctx context.Context, owner access.AccountID, i integration.Integration, began time.Time, connections []integration.Connection, storedAnswer *ports.StoredAnswer) (int, error) {
	return StepWithResult(ctx, s.steps, func() (int, error) {
		return s.storedConnections.SaveRefresh(ctx, owner, i, began, connections, storedAnswer)
	})
}
