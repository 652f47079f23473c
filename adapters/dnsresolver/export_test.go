// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"fmt"
	"runtime"

	"github.com/tenantry/tenantry/core/dns"
)

// Joined gives a function that waits until so many wait for a read of name.
func Joined(r *Reader, name string) func(want int) {
	return func(want int) {
		for {
			r.flights.mu.Lock()
			fl := r.flights.now[route{name, fmt.Sprint([]dns.Desired(nil))}]
			n := 0
			if fl != nil {
				n = fl.waiting
			}
			r.flights.mu.Unlock()
			if n >= want {
				return
			}
			runtime.Gosched()
		}
	}
}
