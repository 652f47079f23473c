// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"fmt"
	"runtime"

	"github.com/tenantry/tenantry/core/dns"
)

// testAccount is the account of most reads in the tests.
const testAccount = "ann"

// AccountShare is how many questions to name servers a single account can have in flight.
const AccountShare = maxServerQuestions / minShares

// WaitForReaders returns a function that waits until at least want callers share a read of name.
func WaitForReaders(r *Reader, name string) func(want int) {
	return func(want int) {
		for {
			r.sharedReads.mu.Lock()
			shared := r.sharedReads.running[readKey{testAccount, name, fmt.Sprint([]dns.Desired(nil))}]
			n := 0
			if shared != nil {
				n = shared.waiters
			}
			r.sharedReads.mu.Unlock()
			if n >= want {
				return
			}
			runtime.Gosched()
		}
	}
}
