// SPDX-License-Identifier: Apache-2.0

package mailbox

import (
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/observation"
)

// Observed holds the times at which the parts of a mailbox were observed at the platform, zero for
// never. The comment of a time lists the fields of its part. Package observation defines the time
// of an observation.
type Observed struct {
	Stage   time.Time // Stage and Provisioned
	Account time.Time // ObjectID, PrincipalName, Alias, AccountEnabled and MissingSince
	Name    time.Time // DisplayName
}

// Merge returns the stored mailbox m, updated with the observation seen. A part of m stays only if
// it was observed later than the same part of seen. Merge never changes the stage of a Ready
// mailbox that tenantry created. Otherwise a slower request for the same address could set an
// earlier stage.
func (m Mailbox) Merge(seen Mailbox) Mailbox {
	completed := m.Stage == Ready && m.Provisioned
	if !completed && observation.Advance(&m.Observed.Stage, seen.Observed.Stage) {
		m.Stage, m.Provisioned = seen.Stage, seen.Provisioned
	}
	if observation.Advance(&m.Observed.Account, seen.Observed.Account) {
		m.ObjectID, m.PrincipalName, m.Alias = seen.ObjectID, seen.PrincipalName, seen.Alias
		m.AccountEnabled, m.MissingSince = seen.AccountEnabled, seen.MissingSince
	}
	if observation.Advance(&m.Observed.Name, seen.Observed.Name) {
		m.DisplayName = seen.DisplayName
	}
	return m
}

// WithPlatformState returns a stored mailbox updated with the platform's state, as read at the time
// at. If the stage is Reserved, the platform had the mailbox already, and the mailbox becomes
// Ready. If the stage is Creating, tenantry created the mailbox. The mailbox becomes Created, and
// still lacks its password.
//
// For a mailbox that tenantry created, the sign-in name is the address. The platform may show this
// name late. WithPlatformState therefore ignores any other name once a name is stored.
func (m Mailbox) WithPlatformState(p Platform, at time.Time) Mailbox {
	switch m.Stage {
	case Reserved:
		m.Stage, m.Observed.Stage = Ready, at
	case Creating:
		m.Stage, m.Provisioned, m.Observed.Stage = Created, true, at
	}
	if !m.Provisioned || m.PrincipalName == "" || strings.EqualFold(p.PrincipalName, m.Address) {
		m.PrincipalName = p.PrincipalName
	}
	m.ObjectID, m.Alias, m.AccountEnabled, m.MissingSince = p.ObjectID, p.Alias, p.AccountEnabled, time.Time{}
	m.DisplayName = p.DisplayName
	m.Observed.Account, m.Observed.Name = at, at
	return m
}

// ReservedAgain returns a missing mailbox as the reservation of a request at the time at. The
// request then finds out whether the platform still has the mailbox. Provisioned does not change.
// A mailbox that still lacks its password keeps its stage, so that the request completes it.
func (m Mailbox) ReservedAgain(at time.Time) Mailbox {
	if m.Stage == Ready {
		m.Stage = Reserved
	}
	m.MissingSince = time.Time{}
	m.Observed = Observed{Stage: at, Account: at, Name: at}
	return m
}

// AfterMiss returns the stored mailbox after a discovery that found it neither in the platform's
// list nor by its address. The discovery began at the time at. gone reports whether the mailbox no
// longer exists. If the stored observation is newer than the discovery, AfterMiss changes nothing.
func (m Mailbox) AfterMiss(at time.Time) (missed Mailbox, gone bool) {
	since := m.MissingSince
	if !observation.Advance(&m.Observed.Account, at) {
		return m, false
	}
	if since.IsZero() {
		m.MissingSince = at
	}
	return m, observation.IsGone(since, at)
}
