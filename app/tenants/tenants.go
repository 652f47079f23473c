// SPDX-License-Identifier: Apache-2.0

// Package tenants connects, lists, synchronizes and deletes tenants.
package tenants

import (
	"context"
	"io"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Service holds the use cases of tenants.
type Service struct {
	Tenants     ports.Tenants
	Assignments ports.Assignments
	Discovered  ports.Discovered
	Domains     ports.Domains
	Flows       ports.ConnectFlows
	Accounts    ports.Keys
	Platform    ports.MailPlatform
	Settling    *settling.Pass
	Sealer      ports.Sealer
	Random      io.Reader
	Now         func() time.Time
	// PublicURL is where browsers reach the service, without a final slash.
	PublicURL string
}

// Link is a connect link: it lives 15 minutes and works once.
type Link struct {
	URL       string
	ExpiresAt time.Time
}

// Synced is the result of a sync.
type Synced struct {
	RunID     string
	Tenant    tenant.Tenant
	Partial   bool
	Bootstrap Part
	SMTPAuth  Part
	Discovery Part // Status is "completed" or "failed"
	// MailboxError says why mailboxes could not be listed, safe to show.
	MailboxError string
}

// Part is how one part of a sync ended.
type Part struct {
	Status  string
	Message string
	Skipped bool
}

// ConnectURL makes the signed consent link of an account. Refusals:
// tenant_limit_reached, service_unavailable when no mail platform is set up.
func (s *Service) ConnectURL(ctx context.Context, acc access.Account) (Link, error) {
	panic("unwritten")
}

// List returns the owner's tenants, most recently connected first.
func (s *Service) List(ctx context.Context, owner access.AccountID) ([]tenant.Tenant, error) {
	panic("unwritten")
}

// Get returns one tenant with its readiness.
func (s *Service) Get(ctx context.Context, acc access.Account, id tenant.GUID) (tenant.Tenant, tenant.Readiness, error) {
	panic("unwritten")
}

// Sync prepares the mail server and discovers the tenant anew.
func (s *Service) Sync(ctx context.Context, owner access.AccountID, id tenant.GUID) (Synced, error) {
	panic("unwritten")
}

// Delete removes the tenant and all below it from the service. The mail
// platform is left alone. It returns the tenant as it was.
func (s *Service) Delete(ctx context.Context, owner access.AccountID, id tenant.GUID) (tenant.Tenant, error) {
	panic("unwritten")
}
