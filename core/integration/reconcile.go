// SPDX-License-Identifier: Apache-2.0

package integration

// Tally is what a refresh counts.
type Tally struct {
	Checked        int // eligible mailboxes that were examined
	Connected      int // those that are connected now
	NewlyConnected int // those of them that were not
	Unchanged      int // mailboxes whose stored state was right
	ErrorCount     int // mailboxes that could not be read
}
