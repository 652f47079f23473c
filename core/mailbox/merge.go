// SPDX-License-Identifier: Apache-2.0

package mailbox

import (
	"cmp"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/observation"
)

// Observed holds the times at which the parts of a mailbox were observed at the platform, zero for
// never. The comment of a time lists the fields of its part. Package observation defines the time
// of an observation.
type Observed struct {
	Stage time.Time // Stage and Provisioned
	// Account is the time of ObjectID, PrincipalName, Alias, MissingSince and PreviousMissingSince.
	Account time.Time
	// Enabled is the time of AccountEnabled. After the provisioning it comes from
	// observation.HeldUntil. Account does not, because a discovery may miss the mailbox soon after
	// the provisioning.
	Enabled time.Time
	Name    time.Time // DisplayName
	// PreviousMissingSince keeps the MissingSince of a missing mailbox while a request creates the
	// mailbox again. ReservedAgain sets it.
	PreviousMissingSince time.Time
}

// Merge returns the stored mailbox m, updated with the observation seen. A part of m stays only if
// it was observed later than the same part of seen. AccountEnabled belongs to the account of the
// same observation: if the object ids of m and seen differ, the newer account keeps its own state.
// Merge never changes the stage of a Ready mailbox that tenantry created. Otherwise a slower
// request for the same address could set an earlier stage.
func (m Mailbox) Merge(seen Mailbox) Mailbox {
	completed := m.Stage == Ready && m.Provisioned
	if !completed && observation.Advance(&m.Observed.Stage, seen.Observed.Stage) {
		m.Stage, m.Provisioned = seen.Stage, seen.Provisioned
	}
	if observation.Advance(&m.Observed.Account, seen.Observed.Account) {
		if m.ObjectID != seen.ObjectID {
			m.Observed.Enabled = time.Time{} // the state of a different account
		}
		m.ObjectID, m.PrincipalName, m.Alias, m.MissingSince = seen.ObjectID, seen.PrincipalName, seen.Alias, seen.MissingSince
		m.Observed.PreviousMissingSince = seen.Observed.PreviousMissingSince
	}
	if m.ObjectID == seen.ObjectID && observation.Advance(&m.Observed.Enabled, seen.Observed.Enabled) {
		m.AccountEnabled = seen.AccountEnabled
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
	m.Observed.Account, m.Observed.Enabled, m.Observed.Name = at, at, at
	m.Observed.PreviousMissingSince = time.Time{}
	return m
}

// ReservedAgain returns a missing mailbox as the reservation of a request at the time at. The
// request then finds out whether the platform still has the mailbox. Provisioned does not change. A
// mailbox whose creation is not complete keeps its stage, so that the request completes it.
func (m Mailbox) ReservedAgain(at time.Time) Mailbox {
	if m.Stage == Ready {
		m.Stage = Reserved
	}
	m.Observed = Observed{Stage: at, Account: at, Enabled: at, Name: at, PreviousMissingSince: m.MissingSince}
	m.MissingSince = time.Time{}
	return m
}

// MissingAgain returns a reservation that ReservedAgain made as a missing mailbox, with its old
// MissingSince. MissingAgain is called when the platform refused the address because a different
// object has it. The observation keeps its time, so that the result of a concurrent request
// replaces it.
func (m Mailbox) MissingAgain() Mailbox {
	m.MissingSince, m.Observed.PreviousMissingSince = m.Observed.PreviousMissingSince, time.Time{}
	return m
}

// MayBeHidden reports whether the platform may still have the mailbox of a reservation that
// ReservedAgain made, although it does not show the mailbox. This is the case if the first
// discovery that missed the mailbox was less than observation.ReplicaLag ago, or if its time is not
// known.
func (m Mailbox) MayBeHidden(now time.Time) bool {
	since := m.Observed.PreviousMissingSince
	return since.IsZero() || now.Sub(since) < observation.ReplicaLag
}

// WasMissed reports whether a discovery missed the mailbox and nothing has found it since then. It
// is also true for such a mailbox after a request has reserved it again.
func (m Mailbox) WasMissed() bool {
	return !m.MissingSince.IsZero() || !m.Observed.PreviousMissingSince.IsZero()
}

// AfterRemoval returns the mailbox after its removal at the time at, for a row that must stay. The
// result is a missing mailbox in the stage Reserved. It has no object id, because a later mailbox
// with this address is a new mailbox.
func (m Mailbox) AfterRemoval(at time.Time) Mailbox {
	m.Stage, m.Provisioned, m.ObjectID, m.MissingSince = Reserved, false, "", at
	m.Observed.Stage, m.Observed.Account = at, at
	m.Observed.Enabled, m.Observed.PreviousMissingSince = time.Time{}, time.Time{}
	return m
}

// AfterMiss returns the stored mailbox after a discovery that found it neither in the platform's
// list nor by its address. The discovery began at the time at. gone reports whether the mailbox no
// longer exists. If the stored observation is newer than the discovery, AfterMiss changes nothing.
// For a missing mailbox that was reserved again, the earlier misses count too, unless a request may
// have created a new mailbox since then.
func (m Mailbox) AfterMiss(at time.Time) (missed Mailbox, gone bool) {
	since := m.MissingSince
	if m.Stage == Reserved {
		since = cmp.Or(since, m.Observed.PreviousMissingSince)
	}
	if !observation.Advance(&m.Observed.Account, at) {
		return m, false
	}
	m.MissingSince, m.Observed.PreviousMissingSince = cmp.Or(since, at), time.Time{}
	return m, observation.IsGone(since, at)
}
