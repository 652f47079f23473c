// SPDX-License-Identifier: Apache-2.0

package mailbox

import (
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/observation"
)

// Observed holds the times at which the parts of a mailbox were observed at the platform, zero for
// never. Package observation defines which time counts.
type Observed struct {
	Stage   time.Time // Stage and Provisioned
	Account time.Time // ObjectID, PrincipalName, Alias, AccountEnabled and MissingSince
	Name    time.Time // DisplayName
}

// Merge returns the stored mailbox with an observation of it. Each part is replaced unless the
// stored one is newer. A mailbox that tenantry created stays Ready once it is Ready: a slower
// request for the same address cannot set it back.
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

// Seen returns a stored mailbox updated with the platform's state, as read at the time at. In stage
// Reserved the mailbox is foreign, unless tenantry has created it earlier. In stage Creating
// tenantry created it, and its password is still missing.
//
// The sign-in name of a mailbox that tenantry created is set to the address. The platform's list
// shows the new name late, so an older name in the list is ignored.
func (m Mailbox) Seen(p Platform, at time.Time) Mailbox {
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

// ReservedAgain returns a missing mailbox as a reservation of a request at the time at. The
// platform may still have the mailbox; the request finds out. Provisioned is unchanged.
func (m Mailbox) ReservedAgain(at time.Time) Mailbox {
	m.Stage, m.MissingSince = Reserved, time.Time{}
	m.Observed = Observed{Stage: at, Account: at, Name: at}
	return m
}

// Missed returns the stored mailbox after a discovery did not find it, neither in the platform's
// list nor by its address. The discovery began at the time at. gone reports whether the mailbox no
// longer exists. If the stored observation is newer than the discovery, nothing changes.
func (m Mailbox) Missed(at time.Time) (missed Mailbox, gone bool) {
	since := m.MissingSince
	if !observation.Advance(&m.Observed.Account, at) {
		return m, false
	}
	if since.IsZero() {
		m.MissingSince = at
	}
	return m, observation.Gone(since, at)
}
