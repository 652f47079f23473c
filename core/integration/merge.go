// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"time"

	"github.com/tenantry/tenantry/core/observation"
)

// Observed holds the times at which the parts of an integration were observed at the platform, zero
// for never. Package observation defines the time of an observation.
type Observed struct {
	Status    time.Time // Status
	Error     time.Time // HasError
	Workspace time.Time // Workspace
	// Listing is when the newest stored listing of accounts began. It ignores the refreshes by keys
	// that are limited to some tenants.
	Listing time.Time
}

// Merge returns the stored integration i, updated with the observation seen. It replaces each part
// unless the stored part is newer. LastTestedAt, RefreshedAt and UpdatedAt never go back.
func (i Integration) Merge(seen Integration) Integration {
	if observation.Advance(&i.Observed.Status, seen.Observed.Status) {
		i.Status = seen.Status
	}
	if observation.Advance(&i.Observed.Error, seen.Observed.Error) {
		i.HasError = seen.HasError
	}
	if observation.Advance(&i.Observed.Workspace, seen.Observed.Workspace) {
		i.Workspace = seen.Workspace
	}
	observation.Advance(&i.Observed.Listing, seen.Observed.Listing)
	observation.Advance(&i.LastTestedAt, seen.LastTestedAt)
	observation.Advance(&i.RefreshedAt, seen.RefreshedAt)
	observation.Advance(&i.UpdatedAt, seen.UpdatedAt)
	return i
}

// AfterSuccess returns the integration after the platform has accepted the credential in a call at
// the time at.
func (i Integration) AfterSuccess(at time.Time) Integration {
	i.Status, i.Observed.Status = Connected, at
	i.HasError, i.Observed.Error = false, at
	return i
}

// AfterRejection returns the integration after the platform has rejected the credential in a call
// at the time at.
func (i Integration) AfterRejection(at time.Time) Integration {
	i.Status, i.Observed.Status = Failed, at
	return i.AfterError(at)
}

// AfterError returns the integration after a call at the time at has failed. It does not change
// Status.
func (i Integration) AfterError(at time.Time) Integration {
	i.HasError, i.Observed.Error = true, at
	return i
}
