// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/ports"
)

// parallelReads is how many domains or mailboxes a sync reads by name in parallel.
const parallelReads = 6

// readUnlisted reads, by name, the stored domains and mailboxes that the platform's lists lack. It
// skips the domains or the mailboxes if their list could not be read. A list may come from a
// lagging replica. readUnlisted therefore records an object as missed only if the platform does not
// find it by name either. If the read by name fails, readUnlisted records the object neither as
// found nor as missed. Only an error of the store is returned.
func (r *syncRun) readUnlisted(ctx context.Context, found *ports.DiscoveryResult) error {
	var names, addresses []string
	err := reconcile.Store(ctx, func(ctx context.Context) (err error) {
		names, addresses, err = r.Discoveries.KnownNames(ctx, r.owner, r.tenant.GUID)
		return err
	})
	if err != nil {
		return err
	}
	if found.Domains != nil {
		listed := map[string]bool{}
		for _, d := range found.Domains {
			listed[d.Name] = true
		}
		read, missed := readEach(ctx, withoutListed(names, listed), fault.DomainNotFound, r.platform.Domain)
		found.Domains, found.MissedDomains = append(found.Domains, read...), missed
	}
	if found.Mailboxes != nil {
		listed := map[string]bool{}
		for _, m := range found.Mailboxes {
			listed[strings.ToLower(m.Address)] = true
		}
		read, missed := readEach(ctx, withoutListed(addresses, listed), fault.MailboxNotFound, r.platform.Mailbox)
		found.Mailboxes, found.MissedMailboxes = append(found.Mailboxes, read...), missed
	}
	return nil
}

func withoutListed(names []string, listed map[string]bool) (rest []string) {
	for _, name := range names {
		if !listed[name] {
			rest = append(rest, name)
		}
	}
	return rest
}

// readEach reads objects by name. It returns the objects that it found, and the names for which the
// platform answered notFound.
func readEach[T any](ctx context.Context, names []string, notFound error, read func(context.Context, string) (T, error)) (found []T, missed map[string]bool) {
	var (
		reads panics.Group
		lock  sync.Mutex
		slots = make(chan struct{}, parallelReads)
	)
	missed = map[string]bool{}
	for _, name := range names {
		slots <- struct{}{}
		reads.Go(func() {
			defer func() { <-slots }()
			var object T
			err := reconcile.Call(ctx, func(ctx context.Context) (err error) {
				object, err = read(ctx, name)
				return err
			})
			lock.Lock()
			defer lock.Unlock()
			switch {
			case err == nil:
				found = append(found, object)
			case errors.Is(err, notFound):
				missed[name] = true
			}
		})
	}
	reads.Wait()
	return found, missed
}
