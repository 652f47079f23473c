// SPDX-License-Identifier: Apache-2.0

package dns

// Missing is the status of a record that is not published.
const Missing = "missing"

// The values of Status.DKIM.
const (
	DKIMHealthy = "healthy"
	DKIMPartial = "partial"
)

// Status is the status of a domain's mail records: raw record text or "missing".
type Status struct {
	MX    string
	SPF   string
	DMARC string
	DKIM  string // "healthy", "partial" or "missing"
	// VerificationSeen is true when the ownership record is published.
	VerificationSeen bool
}

// Selector is the state of one DKIM selector.
type Selector string

// The states of a selector.
const (
	SelectorPropagated Selector = "propagated"
	SelectorMissing    Selector = "missing"
	SelectorMismatch   Selector = "mismatch"
)
