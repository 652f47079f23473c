// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// ErrCrashed is the error of every step after the crash.
var ErrCrashed = errors.New("the process is dead")

// CrashingProcess simulates a process that crashes at one of its steps, before or after the effect
// of the step. All later steps have no effect and fail with ErrCrashed. The methods that return
// ports wrap a port so that its calls are steps.
type CrashingProcess struct {
	mu    sync.Mutex
	left  int
	after bool
	dead  bool
}

// NewCrashingProcess returns a process that completes the given number of steps and crashes at the
// next one: after its effect if after is true, before it otherwise.
func NewCrashingProcess(steps int, after bool) *CrashingProcess {
	return &CrashingProcess{left: steps, after: after}
}

// Dead reports whether the process has crashed.
func (l *CrashingProcess) Dead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// Step runs do and returns its error. It returns ErrCrashed at the crash and after it.
func (l *CrashingProcess) Step(do func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return ErrCrashed
	}
	if l.left > 0 {
		l.left--
		return do()
	}
	l.dead = true
	if l.after {
		_ = do()
	}
	return ErrCrashed
}

// Answer is Step for a function that returns a value.
func Answer[T any](l *CrashingProcess, do func() (T, error)) (out T, err error) {
	err = l.Step(func() (err error) {
		out, err = do()
		return err
	})
	return out, err
}

// MailPlatform wraps a mail platform so that its calls about one domain are steps of l.
func (l *CrashingProcess) MailPlatform(p ports.MailPlatform) ports.MailPlatform {
	return crashingPlatform{p, l}
}

type crashingPlatform struct {
	ports.MailPlatform

	life *CrashingProcess
}

func (p crashingPlatform) For(id tenant.GUID) ports.MailTenant {
	return crashingTenant{p.MailPlatform.For(id), p.life}
}

type crashingTenant struct {
	ports.MailTenant

	life *CrashingProcess
}

func (m crashingTenant) Domain(ctx context.Context, name string) (domain.Platform, error) {
	return Answer(m.life, func() (domain.Platform, error) { return m.MailTenant.Domain(ctx, name) })
}

func (m crashingTenant) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	return Answer(m.life, func() (domain.Platform, error) { return m.MailTenant.AddDomain(ctx, name) })
}

func (m crashingTenant) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
	return Answer(m.life, func() (domain.Platform, error) { return m.MailTenant.VerifyDomain(ctx, name) })
}

func (m crashingTenant) Records(ctx context.Context, name string) (domain.Records, error) {
	return Answer(m.life, func() (domain.Records, error) { return m.MailTenant.Records(ctx, name) })
}

func (m crashingTenant) EnableMail(ctx context.Context, name string) error {
	return m.life.Step(func() error { return m.MailTenant.EnableMail(ctx, name) })
}

func (m crashingTenant) RemoveDomain(ctx context.Context, name string) error {
	return m.life.Step(func() error { return m.MailTenant.RemoveDomain(ctx, name) })
}

func (m crashingTenant) RemoveMailbox(ctx context.Context, objectID string) error {
	return m.life.Step(func() error { return m.MailTenant.RemoveMailbox(ctx, objectID) })
}

func (m crashingTenant) RemoveRule(ctx context.Context, scope string) error {
	return m.life.Step(func() error { return m.MailTenant.RemoveRule(ctx, scope) })
}

func (m crashingTenant) EnsureSigning(ctx context.Context, name string) (dns.Signing, error) {
	return Answer(m.life, func() (dns.Signing, error) { return m.MailTenant.EnsureSigning(ctx, name) })
}

func (m crashingTenant) EnableSigning(ctx context.Context, name string) error {
	return m.life.Step(func() error { return m.MailTenant.EnableSigning(ctx, name) })
}

func (m crashingTenant) Signing(ctx context.Context, name string) (dns.Signing, error) {
	return Answer(m.life, func() (dns.Signing, error) { return m.MailTenant.Signing(ctx, name) })
}

// Domains wraps a domain store so that its writes are steps of l.
func (l *CrashingProcess) Domains(d ports.Domains) ports.Domains { return crashingDomains{d, l} }

// storedDomains is ports.Domains under a name that does not collide with its method Domains when
// embedded.
type storedDomains = ports.Domains

type crashingDomains struct {
	storedDomains

	life *CrashingProcess
}

func (s crashingDomains) SaveDomain(ctx context.Context, owner access.AccountID, d domain.Domain, completion *ports.Completion) error {
	return s.life.Step(func() error { return s.storedDomains.SaveDomain(ctx, owner, d, completion) })
}

func (s crashingDomains) ChangeDomain(ctx context.Context, owner access.AccountID, now domain.Domain) (d domain.Domain, err error) {
	err = s.life.Step(func() error {
		d, err = s.storedDomains.ChangeDomain(ctx, owner, now)
		return err
	})
	return d, err
}

func (s crashingDomains) ReleaseDomain(ctx context.Context, owner access.AccountID, id string, reservedAt time.Time) error {
	return s.life.Step(func() error { return s.storedDomains.ReleaseDomain(ctx, owner, id, reservedAt) })
}

// SendingPlatforms wraps sending platforms so that every call of a platform is a step of l.
func (l *CrashingProcess) SendingPlatforms(p ports.SendingPlatforms) ports.SendingPlatforms {
	return crashingSendingPlatforms{p, l}
}

type crashingSendingPlatforms struct {
	ports.SendingPlatforms

	life *CrashingProcess
}

func (p crashingSendingPlatforms) For(provider string, c secret.Credential) ports.SendingPlatform {
	return crashingSendingPlatform{p.SendingPlatforms.For(provider, c), p.life}
}

type crashingSendingPlatform struct {
	ports.SendingPlatform

	life *CrashingProcess
}

func (m crashingSendingPlatform) Check(ctx context.Context) (integration.Reach, error) {
	return Answer(m.life, func() (integration.Reach, error) { return m.SendingPlatform.Check(ctx) })
}

func (m crashingSendingPlatform) Account(ctx context.Context, address string) (integration.Account, error) {
	return Answer(m.life, func() (integration.Account, error) { return m.SendingPlatform.Account(ctx, address) })
}

func (m crashingSendingPlatform) Accounts(ctx context.Context, cursor string) (integration.Page, error) {
	return Answer(m.life, func() (integration.Page, error) { return m.SendingPlatform.Accounts(ctx, cursor) })
}

func (m crashingSendingPlatform) StartSignIn(ctx context.Context, address string) (integration.SignIn, error) {
	return Answer(m.life, func() (integration.SignIn, error) { return m.SendingPlatform.StartSignIn(ctx, address) })
}

func (m crashingSendingPlatform) SignIn(ctx context.Context, session string) (integration.Progress, error) {
	return Answer(m.life, func() (integration.Progress, error) { return m.SendingPlatform.SignIn(ctx, session) })
}

func (m crashingSendingPlatform) Remove(ctx context.Context, account string) error {
	return m.life.Step(func() error { return m.SendingPlatform.Remove(ctx, account) })
}

// Integrations wraps an integration store so that its writes are steps of l.
func (l *CrashingProcess) Integrations(i ports.Integrations) ports.Integrations {
	return crashingIntegrations{i, l}
}

// The aliases let a struct embed these ports: the ports have methods of the same names.
type (
	storedIntegrations = ports.Integrations
	storedConnections  = ports.Connections
)

type crashingIntegrations struct {
	storedIntegrations

	life *CrashingProcess
}

func (s crashingIntegrations) AddIntegration(ctx context.Context, i integration.Integration, credential []byte, completion *ports.Completion) error {
	return s.life.Step(func() error { return s.storedIntegrations.AddIntegration(ctx, i, credential, completion) })
}

func (s crashingIntegrations) SaveIntegration(ctx context.Context, i integration.Integration, completion *ports.Completion) error {
	return s.life.Step(func() error { return s.storedIntegrations.SaveIntegration(ctx, i, completion) })
}

func (s crashingIntegrations) RemoveIntegration(ctx context.Context, owner access.AccountID, id string, completion *ports.Completion) error {
	return s.life.Step(func() error { return s.storedIntegrations.RemoveIntegration(ctx, owner, id, completion) })
}

// Connections wraps a connection store so that its writes are steps of l.
func (l *CrashingProcess) Connections(c ports.Connections) ports.Connections {
	return crashingConnections{c, l}
}

type crashingConnections struct {
	storedConnections

	life *CrashingProcess
}

func (s crashingConnections) BeginSession(ctx context.Context, owner access.AccountID, in integration.Session, connectionID string, stale time.Time) error {
	return s.life.Step(func() error { return s.storedConnections.BeginSession(ctx, owner, in, connectionID, stale) })
}

func (s crashingConnections) SaveSession(ctx context.Context, owner access.AccountID, in integration.Session, c *integration.Connection, completion *ports.Completion) (bool, error) {
	return Answer(s.life, func() (bool, error) { return s.storedConnections.SaveSession(ctx, owner, in, c, completion) })
}

func (s crashingConnections) ClaimSessionCheck(ctx context.Context, owner access.AccountID, sessionID string, since, now time.Time) (bool, error) {
	return Answer(s.life, func() (bool, error) { return s.storedConnections.ClaimSessionCheck(ctx, owner, sessionID, since, now) })
}

func (s crashingConnections) SaveConnection(ctx context.Context, owner access.AccountID, c integration.Connection, before time.Time, completion *ports.Completion) (bool, error) {
	return Answer(s.life, func() (bool, error) { return s.storedConnections.SaveConnection(ctx, owner, c, before, completion) })
}

func (s crashingConnections) SaveRefresh(ctx context.Context, owner access.AccountID, i integration.Integration, began time.Time, all []integration.Connection, completion *ports.Completion) (int, error) {
	return Answer(s.life, func() (int, error) { return s.storedConnections.SaveRefresh(ctx, owner, i, began, all, completion) })
}
