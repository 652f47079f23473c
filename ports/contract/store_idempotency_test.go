// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Each of these types breaks one promise of ports.Idempotency or ports.Effects.
type (
	everyoneWins struct{ idempotencyPort } // reads and then inserts without a lock
	sharedKeys   struct {
		idempotencyPort
		all Stores
	}
	impatient    struct{ idempotencyPort }
	unfenced     struct{ idempotencyPort }
	hostClock    struct{ idempotencyPort }
	neverLeft    struct{ idempotencyPort }
	answersLost  struct{ idempotencyPort }
	cutAnswers   struct{ idempotencyPort }
	reapsRunning struct {
		idempotencyPort
		all Stores
	}
	reapsAtOnce   struct{ idempotencyPort }
	oneAttempt    struct{ idempotencyPort }
	eternalAnswer struct{ idempotencyPort }
	silentChanges struct{ tenantsPort }
	loudReads     struct{ tenantsPort }
	neverComplete struct{ tenantsPort }
	completeAlone struct {
		domainsPort
		all Stores
	}
	piecemeal struct{ mailboxStorePort }
)

func (b everyoneWins) Claim(ctx context.Context, c ports.Claim) (string, bool, error) {
	attempt, won, err := b.idempotencyPort.Claim(ctx, c)
	if r, found, _ := b.Remembered(ctx, c.Key); !won && found && r.Answer == nil {
		return r.Attempt, true, nil
	}
	return attempt, won, err
}

func (b sharedKeys) Remembered(ctx context.Context, at idempotency.KeyID) (idempotency.Record, bool, error) {
	if r, found, err := b.idempotencyPort.Remembered(ctx, at); found || err != nil {
		return r, found, err
	}
	all, err := b.all.Accounts(ctx)
	for _, a := range all {
		if r, found, err := b.idempotencyPort.Remembered(ctx, idempotency.KeyID{Account: a.ID, Key: at.Key}); found || err != nil {
			return r, found, err
		}
	}
	return idempotency.Record{}, false, err
}

// impatient takes over a key although its lease has not expired.
func (b impatient) TakeOver(ctx context.Context, from string, c ports.Claim) (string, bool, error) {
	_, _ = b.Hold(ctx, c.Key, from, expiredLease)
	return b.idempotencyPort.TakeOver(ctx, from, c)
}

// unfenced stores an answer for an attempt that has lost the key.
func (b unfenced) Finish(ctx context.Context, at idempotency.KeyID, attempt string, answer []byte, until time.Time) (bool, error) {
	if r, found, _ := b.Remembered(ctx, at); found {
		attempt = r.Attempt
	}
	return b.idempotencyPort.Finish(ctx, at, attempt, answer, until)
}

// hostClock compares leases with the caller's clock instead of the database's.
func (b hostClock) TakeOver(ctx context.Context, from string, c ports.Claim) (string, bool, error) {
	if c.Now.Sub(now) > c.Lease {
		_, _ = b.Hold(ctx, c.Key, from, expiredLease)
	}
	return b.idempotencyPort.TakeOver(ctx, from, c)
}

func (b neverLeft) Leave(context.Context, idempotency.KeyID, string, time.Time) (bool, error) {
	return true, nil
}

func (b answersLost) Release(ctx context.Context, at idempotency.KeyID, attempt string) (bool, error) {
	if r, found, _ := b.Remembered(ctx, at); found && r.Answer != nil && r.Attempt == attempt {
		return true, nil
	}
	return b.idempotencyPort.Release(ctx, at, attempt)
}

func (b cutAnswers) Finish(ctx context.Context, at idempotency.KeyID, attempt string, answer []byte, until time.Time) (bool, error) {
	return b.idempotencyPort.Finish(ctx, at, attempt, answer[:min(len(answer), 1000)], until)
}

func (b reapsRunning) Reap(ctx context.Context, at time.Time, most int) (int, error) {
	n, err := b.idempotencyPort.Reap(ctx, at, most)
	all, _ := b.all.Accounts(ctx)
	for _, a := range all {
		for key := range byte(10) {
			place := idempotency.KeyID{Account: a.ID, Key: [32]byte{key}}
			if r, found, _ := b.Remembered(ctx, place); found && r.Leased {
				_, _ = b.Release(ctx, place, r.Attempt)
			}
		}
	}
	return n, err
}

func (b reapsAtOnce) Reap(ctx context.Context, at time.Time, _ int) (int, error) {
	return b.idempotencyPort.Reap(ctx, at, 1000)
}

// oneAttempt gives every attempt the same id.
func (b oneAttempt) Claim(ctx context.Context, c ports.Claim) (string, bool, error) {
	_, won, err := b.idempotencyPort.Claim(ctx, c)
	return "attempt", won, err
}

func (b eternalAnswer) TakeOver(ctx context.Context, from string, c ports.Claim) (string, bool, error) {
	if r, found, err := b.Remembered(ctx, c.Key); found && r.Answer != nil || err != nil {
		return "", false, err
	}
	return b.idempotencyPort.TakeOver(ctx, from, c)
}

func (b silentChanges) SaveTenant(ctx context.Context, owner access.AccountID, t tenant.Tenant) error {
	return b.tenantsPort.SaveTenant(ports.WithEffects(ctx, &ports.Effects{}), owner, t)
}

func (b loudReads) Tenants(ctx context.Context, owner access.AccountID) ([]tenant.Tenant, error) {
	ports.RecordChange(ctx)
	return b.tenantsPort.Tenants(ctx, owner)
}

// neverComplete deletes the tenant without storing the answer.
func (b neverComplete) DeleteTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, _ *ports.Completion) error {
	return b.tenantsPort.DeleteTenant(ctx, owner, id, nil)
}

// completeAlone stores the answer after the change, in a second transaction.
func (b completeAlone) SaveDomain(ctx context.Context, owner access.AccountID, d domain.Domain, c *ports.Completion) error {
	err := b.domainsPort.SaveDomain(ctx, owner, d, nil)
	if c != nil && err == nil {
		if held, _ := b.all.Finish(ctx, c.Key, c.Attempt, c.Answer, c.Until); !held {
			return fault.KeyInProgress
		}
	}
	return err
}

// piecemeal saves the mailboxes one by one, each in its own transaction.
func (b piecemeal) ConcludeMailboxes(ctx context.Context, owner access.AccountID, all []mailbox.Mailbox, completion *ports.Completion) error {
	for _, m := range all {
		if err := b.SaveMailbox(ctx, owner, m); err != nil {
			return err
		}
	}
	return b.mailboxStorePort.ConcludeMailboxes(ctx, owner, all, completion)
}

func TestIdempotencySuitesDetectBrokenPromises(t *testing.T) {
	store := reusedStore(t)
	for name, b := range map[string]struct {
		suite        []storeCheck
		breakPromise func(Stores) Stores
	}{
		"several concurrent claims succeed":    {claimChecks, func(s Stores) Stores { return withPort(s, everyoneWins{s}) }},
		"accounts share keys":                  {claimChecks, func(s Stores) Stores { return withPort(s, sharedKeys{s, s}) }},
		"a live lease is taken over":           {leaseChecks, func(s Stores) Stores { return withPort(s, impatient{s}) }},
		"a late owner writes":                  {leaseChecks, func(s Stores) Stores { return withPort(s, unfenced{s}) }},
		"the caller's clock ends a lease":      {leaseChecks, func(s Stores) Stores { return withPort(s, hostClock{s}) }},
		"a left key stays leased":              {leaseChecks, func(s Stores) Stores { return withPort(s, neverLeft{s}) }},
		"an answer can be released":            {claimChecks, func(s Stores) Stores { return withPort(s, answersLost{s}) }},
		"an answer is truncated":               {claimChecks, func(s Stores) Stores { return withPort(s, cutAnswers{s}) }},
		"a running claim is deleted":           {claimChecks, func(s Stores) Stores { return withPort(s, reapsRunning{s, s}) }},
		"all expired keys are deleted at once": {claimChecks, func(s Stores) Stores { return withPort(s, reapsAtOnce{s}) }},
		"attempts share an id":                 {claimChecks, func(s Stores) Stores { return withPort(s, oneAttempt{s}) }},
		"an answer is kept for ever":           {leaseChecks, func(s Stores) Stores { return withPort(s, eternalAnswer{s}) }},
		"a change is not noted":                {storeEffectChecks, func(s Stores) Stores { return withPort(s, silentChanges{s}) }},
		"an answer is not committed":           {completionChecks, func(s Stores) Stores { return withPort(s, neverComplete{s}) }},
		"an answer comes after its change":     {completionChecks, func(s Stores) Stores { return withPort(s, completeAlone{s, s}) }},
		"mailboxes are concluded one by one":   {completionChecks, func(s Stores) Stores { return withPort(s, piecemeal{s}) }},
		"a read counts as a change":            {storeEffectChecks, func(s Stores) Stores { return withPort(s, loudReads{s}) }},
	} {
		t.Run(name, func(t *testing.T) { requireDetected(t, store, b.suite, b.breakPromise) })
	}
}
