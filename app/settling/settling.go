// SPDX-License-Identifier: Apache-2.0

// Package settling pushes on what the mail platform finishes in its own time,
// by one bounded pass: e-mail service and accepted domain of a verified
// domain, its DKIM configuration. Verify, sync, enable-dkim and provision
// make such a pass; so will jobs.
package settling

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/ports"
)

// Pass makes bounded passes.
type Pass struct {
	Platform ports.MailPlatform
	Domains  ports.Domains
	DNS      ports.DNSReader
	Now      func() time.Time
	// Limit bounds one pass; 20 s unless set. Pause lies between two looks.
	Limit, Pause time.Duration
}

// Domain pushes a verified domain on and returns it with what is known now:
// records, signing and MailReady. mailServer false leaves out the steps that
// need a ready bootstrap. What the platform has not finished when the pass
// ends is no error: the fields of the domain say so. The result is stored.
func (p *Pass) Domain(ctx context.Context, owner access.AccountID, d domain.Domain, mailServer bool) (domain.Domain, error) {
	panic("unwritten")
}
