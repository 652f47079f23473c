// SPDX-License-Identifier: Apache-2.0

package mailboxes

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
)

const many = 50

// together runs many requests concurrently and returns their errors. It repeats a request that a busy
// store refused.
func together(request func(n int) error) []error {
	errs := make([]error, many)
	var all sync.WaitGroup
	for n := range many {
		all.Go(func() {
			for errs[n] = request(n); errors.Is(errs[n], fault.ServiceUnavailable); {
				errs[n] = request(n)
			}
		})
	}
	all.Wait()
	return errs
}

func TestTheCapHoldsUnderManyRequests(t *testing.T) {
	h := newFixture(t)
	admitted := 0
	for _, err := range together(func(n int) error {
		_, err := h.provision(t.Context(), fmt.Sprintf("box-%d@example.test", n))
		return err
	}) {
		switch {
		case err == nil:
			admitted++
		case !errors.Is(err, fault.MailboxLimitReached):
			t.Fatalf("got %v", err)
		}
	}
	if admitted != 3 {
		t.Fatalf("%d requests were admitted, want 3", admitted)
	}
	h.sound(t, 3)
}

func TestTheSameRequestManyTimesAtOnce(t *testing.T) {
	h := newFixture(t)
	for _, err := range together(func(int) error {
		results, err := h.provision(t.Context(), "anna@example.test", "ben@example.test", "carl@example.test")
		for _, r := range results {
			if r.Failure != nil {
				return r.Failure
			}
		}
		return err
	}) {
		must(t, err)
	}
	h.sound(t, 3)
	if made := h.fake.Effects("CreateMailbox"); made != 3 {
		t.Fatalf("%d creations", made)
	}
}
