// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/panics"
)

// TestPanicOfASharedReadReachesItsCallers checks that a panic of a read continues in each caller
// that waits for the read. The next caller must start a new read.
func TestPanicOfASharedReadReachesItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shared sharedReads
		read := func(panicking bool) error {
			return panics.Catch(func() error {
				_, err := shared.readShared(t.Context(), readKey{name: "example.test"}, time.Minute, func(context.Context) dns.ZoneRead {
					time.Sleep(time.Second) // so that the second caller joins the read
					if panicking {
						panic("the answer was not expected")
					}
					return dns.ZoneRead{}
				})
				return err
			})
		}
		readErrs := make(chan error, 2)
		for range 2 {
			go func() { readErrs <- read(true) }()
		}
		for range 2 {
			if err := <-readErrs; err == nil || !strings.Contains(err.Error(), "TestPanicOfASharedRead") {
				t.Errorf("got %v, want the panic of the read with its stack", err)
			}
		}
		if err := read(false); err != nil {
			t.Errorf("the next read: got %v, want success", err)
		}
	})
}
