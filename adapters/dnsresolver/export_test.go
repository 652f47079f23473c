// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"fmt"
	"runtime"

	"github.com/tenantry/tenantry/core/dns"
)

// testAccount is the account of most reads in the tests.
const testAccount = "ann"

// AccountShare is the maximum number of concurrent questions of one account to name servers, while
// fewer than minShares accounts ask questions.
const AccountShare = maxServerQuestions / minShares

// WaitForReaders waits until at least minCallers callers wait for a read of the domain name. It
// considers only reads by testAccount without wanted records.
func WaitForReaders(r *Reader, name string, minCallers int) {
	for {
		r.sharedReads.mu.Lock()
		shared := r.sharedReads.running[readKey{testAccount, name, fmt.Sprint([]dns.Desired(nil))}]
		callers := 0
		if shared != nil {
			callers = shared.waiters
		}
		r.sharedReads.mu.Unlock()
		if callers >= minCallers {
			return
		}
		runtime.Gosched()
	}
}
