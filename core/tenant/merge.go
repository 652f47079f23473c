// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"time"

	"github.com/tenantry/tenantry/core/observation"
)

// Observed holds the times at which the parts of a tenant were observed at the platform, zero for
// never. Package observation defines the time of an observation.
type Observed struct {
	Profile   time.Time // Name, BuiltinDomain and DefaultDomain
	Consent   time.Time
	Bootstrap time.Time // Bootstrap and BootstrapStep
	SMTPAuth  time.Time
	Discovery time.Time
	Users     time.Time // UserMailboxes
	// Domains and Mailboxes are the times of the newest lists of domains and mailboxes. The
	// contents of these lists are in the rows of the domains and mailboxes.
	Domains, Mailboxes time.Time
}

// Merge returns the stored tenant t, updated with the observation seen. A part of t stays only if
// it was observed later than the same part of seen. A renewed consent counts as observed at
// ConsentedAt.
func (t Tenant) Merge(seen Tenant) Tenant {
	if observation.Advance(&t.Observed.Profile, seen.Observed.Profile) {
		t.Name, t.BuiltinDomain, t.DefaultDomain = seen.Name, seen.BuiltinDomain, seen.DefaultDomain
	}
	t.Observed.Consent = t.consentObservedAt()
	if observation.Advance(&t.Observed.Consent, seen.consentObservedAt()) {
		t.Consent = seen.Consent
	}
	if observation.Advance(&t.Observed.Bootstrap, seen.Observed.Bootstrap) {
		t.Bootstrap, t.BootstrapStep = seen.Bootstrap, seen.BootstrapStep
	}
	if observation.Advance(&t.Observed.SMTPAuth, seen.Observed.SMTPAuth) {
		t.SMTPAuth = seen.SMTPAuth
	}
	if observation.Advance(&t.Observed.Discovery, seen.Observed.Discovery) {
		t.Discovery = seen.Discovery
	}
	if observation.Advance(&t.Observed.Users, seen.Observed.Users) {
		t.UserMailboxes = seen.UserMailboxes
	}
	if t.LastSyncAt.Before(seen.LastSyncAt) {
		t.LastSyncAt = seen.LastSyncAt
	}
	return t
}

// consentObservedAt returns when the consent was last observed or granted.
func (t Tenant) consentObservedAt() time.Time {
	if t.Observed.Consent.Before(t.ConsentedAt) {
		return t.ConsentedAt
	}
	return t.Observed.Consent
}
