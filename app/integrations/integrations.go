// SPDX-License-Identifier: Apache-2.0

// Package integrations connects mailboxes to sending platforms: it keeps the
// credentials of accounts, has mailboxes signed in, and knows what is connected
// where.
package integrations

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// workLimit bounds the work of one request unless Limit is set.
const workLimit = 55 * time.Second

// Service holds the use cases of integrations.
type Service struct {
	Integrations ports.Integrations
	Connections  ports.Connections
	Tenants      ports.Tenants
	Platforms    ports.SendingPlatforms
	Sealer       ports.Sealer
	Queue        ports.Queue
	Random       io.Reader
	Now          func() time.Time
	// Drift, unless it is nil, is told what refreshes find that nobody
	// asked for. It is for metrics: no word is a customer's.
	Drift func(provider string, kind integration.Drift)
	// Limit bounds the work of one request; 55 s unless set.
	Limit time.Duration

	begun     readings // of scheduled refreshes
	reserving sync.Map // see reserve; keys are the ids of an integration and a mailbox
}

// New is an integration that is to be added.
type New struct {
	Account  access.AccountID
	Provider string
	Name     string
	// APIKey is the credential as one text, as ports.SendingPlatforms reads it.
	APIKey secret.Text
	// WorkspaceID is empty when the caller names none.
	WorkspaceID string
}

// View is an integration with what it can do.
type View struct {
	integration.Integration

	Capabilities integration.Capabilities
}

// Tested is how a test ended, which Status and LastTestedAt tell too.
type Tested struct {
	integration.Integration

	// Message says the same in words that may be shown.
	Message string
}

// Begun is a session that waits for a person.
type Begun struct {
	Integration integration.Integration
	Mailbox     string // its address
	Session     integration.Session
	// AuthURL works for whoever has it.
	AuthURL secret.Text
}

// The statuses of a refresh.
const (
	RefreshCompleted = "completed"
	RefreshPartial   = "partial" // the listing broke off: nothing was changed
)

// Refreshed is what a refresh found.
type Refreshed struct {
	IntegrationID string
	Provider      string
	integration.Tally

	Status string
}

// Disconnected is a mailbox that is not at the platform (any more).
type Disconnected struct {
	IntegrationID string
	MailboxID     string
	// Removed is false when there was nothing to take out.
	Removed bool
}

// now is as exact as what is stored.
func (s *Service) now() time.Time { return s.Now().UTC().Truncate(time.Microsecond) }

func (s *Service) newID(now time.Time) (string, error) {
	var random [ident.Entropy]byte
	if _, err := io.ReadFull(s.Random, random[:]); err != nil {
		return "", fmt.Errorf("read random bytes: %w", err)
	}
	return ident.New(now, random), nil
}

func (s *Service) view(ctx context.Context, i integration.Integration) View {
	return View{i, s.Platforms.Capabilities(ctx, i.Provider, i.Given)}
}
