// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"testing"
	"time"
)

// TestWorkOfInactiveAccountsIsNotDue suspends an account and resumes it. In between, its
// provisioning jobs and domain checks must not be due, and its domains must not be counted.
func TestWorkOfInactiveAccountsIsNotDue(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		annJob, bobJob := queueJob(t, s, ann, 1), queueJob(t, s, bob, 2)
		attachTenant(t, s, ann, 3)
		attachTenant(t, s, bob, 4)
		annDomain := addCheckedDomain(t, s, ann, 3, "ann.test", time.Hour)
		bobDomain := addCheckedDomain(t, s, bob, 4, "bob.test", 2*time.Hour)

		_, err := s.SetActive(t.Context(), ann, false)
		must(t, "suspend", err)
		requireOrder(t, "jobs", dueJobIDs(t, s, dueTime, 9), bobJob.ID)
		requireOrder(t, "domains", staleDomainIDs(t, s, 9*time.Hour, 9), bobDomain.ID)
		if health := domainHealth(t, s); health.Verified != 1 || !health.OldestRead.Equal(now.Add(2*time.Hour)) {
			t.Errorf("the counts while ann is suspended are %+v, want only the domain of bob", health)
		}

		_, err = s.SetActive(t.Context(), ann, true)
		must(t, "resume", err)
		requireOrder(t, "jobs", dueJobIDs(t, s, dueTime, 9), annJob.ID, bobJob.ID)
		requireOrder(t, "domains", staleDomainIDs(t, s, 9*time.Hour, 9), annDomain.ID, bobDomain.ID)
		if health := domainHealth(t, s); health.Verified != 2 || !health.OldestRead.Equal(now.Add(time.Hour)) {
			t.Errorf("the counts after the resumption are %+v, want the domains of ann and bob", health)
		}
	})
}
