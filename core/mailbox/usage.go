// SPDX-License-Identifier: Apache-2.0

package mailbox

// Usage is what a mailbox has sent today of what it may send.
type Usage struct {
	Mailbox Mailbox
	// Limit is the effective daily limit; 0 means none, and then Remaining
	// and Percent mean nothing.
	Limit     int
	Remaining int
	Percent   float64 // one decimal
	Blocked   bool
}
