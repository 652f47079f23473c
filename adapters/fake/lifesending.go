// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// SendingPlatforms makes steps of all calls that a life makes of sending
// platforms.
func (l *Life) SendingPlatforms(p ports.SendingPlatforms) ports.SendingPlatforms {
	return mortalSendingPlatforms{p, l}
}

type mortalSendingPlatforms struct {
	ports.SendingPlatforms

	life *Life
}

func (p mortalSendingPlatforms) For(provider string, c secret.Credential) ports.SendingPlatform {
	return mortalSending{p.SendingPlatforms.For(provider, c), p.life}
}

type mortalSending struct {
	ports.SendingPlatform

	life *Life
}

func (m mortalSending) Check(ctx context.Context) (integration.Reach, error) {
	return Answer(m.life, func() (integration.Reach, error) { return m.SendingPlatform.Check(ctx) })
}

func (m mortalSending) Account(ctx context.Context, address string) (integration.Account, error) {
	return Answer(m.life, func() (integration.Account, error) { return m.SendingPlatform.Account(ctx, address) })
}

func (m mortalSending) Accounts(ctx context.Context, cursor string) (integration.Page, error) {
	return Answer(m.life, func() (integration.Page, error) { return m.SendingPlatform.Accounts(ctx, cursor) })
}

func (m mortalSending) StartSignIn(ctx context.Context, address string) (integration.SignIn, error) {
	return Answer(m.life, func() (integration.SignIn, error) { return m.SendingPlatform.StartSignIn(ctx, address) })
}

func (m mortalSending) SignIn(ctx context.Context, session string) (integration.Progress, error) {
	return Answer(m.life, func() (integration.Progress, error) { return m.SendingPlatform.SignIn(ctx, session) })
}

func (m mortalSending) Remove(ctx context.Context, account string) error {
	return m.life.Step(func() error { return m.SendingPlatform.Remove(ctx, account) })
}

// Integrations makes steps of what a life stores of integrations.
func (l *Life) Integrations(i ports.Integrations) ports.Integrations {
	return mortalIntegrations{i, l}
}

// storedIntegrations and storedConnections are ports under names that none of
// their methods has.
type (
	storedIntegrations = ports.Integrations
	storedConnections  = ports.Connections
)

type mortalIntegrations struct {
	storedIntegrations

	life *Life
}

func (s mortalIntegrations) AddIntegration(ctx context.Context, i integration.Integration, credential []byte) error {
	return s.life.Step(func() error { return s.storedIntegrations.AddIntegration(ctx, i, credential) })
}

func (s mortalIntegrations) SaveIntegration(ctx context.Context, i integration.Integration) error {
	return s.life.Step(func() error { return s.storedIntegrations.SaveIntegration(ctx, i) })
}

func (s mortalIntegrations) RemoveIntegration(ctx context.Context, owner access.AccountID, id string) error {
	return s.life.Step(func() error { return s.storedIntegrations.RemoveIntegration(ctx, owner, id) })
}

// Connections makes steps of what a life stores of connections and sessions.
func (l *Life) Connections(c ports.Connections) ports.Connections { return mortalConnections{c, l} }

type mortalConnections struct {
	storedConnections

	life *Life
}

func (s mortalConnections) BeginSession(ctx context.Context, owner access.AccountID, in integration.Session, connectionID string, stale time.Time) error {
	return s.life.Step(func() error { return s.storedConnections.BeginSession(ctx, owner, in, connectionID, stale) })
}

func (s mortalConnections) SaveSession(ctx context.Context, owner access.AccountID, in integration.Session, c *integration.Connection) (bool, error) {
	return Answer(s.life, func() (bool, error) { return s.storedConnections.SaveSession(ctx, owner, in, c) })
}

func (s mortalConnections) TakeLook(ctx context.Context, owner access.AccountID, sessionID string, since, now time.Time) (bool, error) {
	return Answer(s.life, func() (bool, error) { return s.storedConnections.TakeLook(ctx, owner, sessionID, since, now) })
}

func (s mortalConnections) SaveConnection(ctx context.Context, owner access.AccountID, c integration.Connection, before time.Time) (bool, error) {
	return Answer(s.life, func() (bool, error) { return s.storedConnections.SaveConnection(ctx, owner, c, before) })
}

func (s mortalConnections) SaveRefresh(ctx context.Context, owner access.AccountID, i integration.Integration, began time.Time, all []integration.Connection) (int, error) {
	return Answer(s.life, func() (int, error) { return s.storedConnections.SaveRefresh(ctx, owner, i, began, all) })
}
