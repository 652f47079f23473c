// SPDX-License-Identifier: Apache-2.0

package tenant

// Status is the state of a tenant's setup as one word.
type Status string

// A tenant is pending until mailboxes can be created on it. Failed: its mail
// server cannot be prepared. Revoked: its administrator took the consent back.
const (
	StatusPending Status = "pending"
	StatusReady   Status = "ready"
	StatusFailed  Status = "failed"
	StatusRevoked Status = "revoked"
)

// Status sums up the readiness.
func (r Readiness) Status() Status {
	switch {
	case r.Consent != ConsentGranted:
		return StatusRevoked
	case r.Bootstrap == BootstrapFailed:
		return StatusFailed
	case r.ReadyToProvision:
		return StatusReady
	default:
		return StatusPending
	}
}
