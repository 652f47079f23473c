// SPDX-License-Identifier: Apache-2.0

package tenant

// Readiness sums up how far a tenant's setup has come.
type Readiness struct {
	Consent          Consent
	Bootstrap        Bootstrap
	SMTPAuth         SMTPAuth
	Discovery        Discovery
	DomainsVerified  int
	DomainsTotal     int
	MailboxesTotal   int
	ReadyToProvision bool
	// NextStep is the first thing to do, or "" when nothing is left.
	NextStep string
}
