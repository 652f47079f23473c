// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/adapters/testserver/interleaving"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/app/domainsteps"
	"github.com/tenantry/tenantry/app/mailboxes"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
)

// The races of this package run two or three use cases in different orders of their calls to the
// platform and writes to the store.

// race is a fixture over steppedPlatform and steppedStore.
type race struct {
	*fixture
	t         *testing.T
	domains   *domains.Service
	mailboxes *mailboxes.Service
	callTimes map[string]time.Time // the start of the call with the newest answer, by property of the tenant
	answers   map[string]any       // the newest answer, by property of the tenant
	userCount int                  // the number of user mailboxes at the platform
	lagUntil  time.Time            // until then a replica of the platform lacks all objects
	before    map[string]string    // the ids of the rows before the race, by name
	hidden    bool                 // whether a use case did not find its object
}

// useCase is one use case of a race. ctx tells interleaving.Step which use case makes a step.
type useCase = func(ctx context.Context) error

// newRace returns a race with a connected tenant.
func newRace(t *testing.T) *race { return newRaceOf(t, newConnectedFixture(t, fake.Setup{})) }

func newRaceOf(t *testing.T, fx *fixture) *race {
	r := &race{fixture: fx, t: t, callTimes: map[string]time.Time{}, answers: map[string]any{}}
	clock := func() time.Time { return r.now }
	store, platform := steppedStore{r.store}, steppedPlatform{r.platform, r}
	r.Reconciler.Platform, r.Reconciler.Domains = platform, store
	r.Tenants, r.Discoveries, r.Domains, r.Platform = store, store, store, platform
	steps := &domainsteps.Steps{Tenants: store, Domains: store, Platform: platform, DNS: r.platform.DNS, Facts: r.platform, Reconciler: r.Reconciler, Now: clock}
	r.domains = &domains.Service{Steps: steps}
	r.mailboxes = &mailboxes.Service{Tenants: store, Domains: store, Mailboxes: store, Policies: r.store, Removals: r.store, Platform: platform,
		Reconciler: r.Reconciler, Now: clock, RequireSMTPAuth: true, Pause: time.Millisecond, Timeout: apptest.HangTimeout}
	return r
}

// runInOrder runs the use cases with their steps in this order, and reports their errors. The clock
// advances with each step.
func (r *race) runInOrder(order *interleaving.Order, useCases ...useCase) {
	advance := func() { r.now = r.now.Add(time.Millisecond) }
	for i, err := range order.Run(context.Background(), advance, useCases...) {
		if err != nil {
			r.t.Errorf("use case %d: %v", i, err)
		}
	}
}

// recordAnswer records the platform's answer about a property of the tenant, unless the answer of a
// call that started later is already recorded.
func (r *race) recordAnswer(property string, start time.Time, answer any) {
	if !start.Before(r.callTimes[property]) {
		r.callTimes[property], r.answers[property] = start, answer
	}
}

func (r *race) sync(ctx context.Context) error {
	_, err := r.Sync(ctx, r.ann.ID, guid)
	return err
}

func (r *race) verify(name string) useCase {
	return func(ctx context.Context) error {
		_, err := r.domains.Verify(ctx, r.ann.ID, guid, name)
		return err
	}
}

func (r *race) provision(address string) useCase {
	return func(ctx context.Context) error {
		results, err := r.mailboxes.Provision(ctx, r.ann, guid, mailboxes.Request{
			Domain: "one.test", Password: secret.New("Correct-Horse-7"), Mailboxes: []mailbox.Spec{{DisplayName: "X", Address: address}},
		}, nil)
		if err == nil && results[0].Status == mailbox.ResultFailed {
			err = results[0].Failure
		}
		return err
	}
}

func (r *race) rename(id, name string) useCase {
	return func(ctx context.Context) error {
		_, err := r.mailboxes.Update(ctx, r.ann.ID, guid, id, mailboxes.Change{DisplayName: &name})
		return err
	}
}

// reconnect grants the consent again, as the administrator does.
func (r *race) reconnect(ctx context.Context) error {
	interleaving.Step(ctx)
	r.grantConsent(r.t, r.ann, admin)
	_, err := r.Tenants.Attach(ctx, r.ann.ID, tenant.Tenant{GUID: guid, Name: "One", ConsentedAt: r.now})
	return err
}

// noticeRevocation runs a sync that finds the consent revoked, unless reconnect has already run.
func (r *race) noticeRevocation(ctx context.Context) error {
	_ = r.sync(ctx) // a sync that finds the consent revoked fails with access_denied
	return nil
}

func (r *race) mailbox(address string) mailbox.Mailbox {
	_, mailboxes := r.storedObjects(r.t)
	i := slices.IndexFunc(mailboxes, func(m mailbox.Mailbox) bool { return m.Address == address })
	if i < 0 {
		r.t.Fatalf("%s is not listed", address)
	}
	return mailboxes[i]
}

func (r *race) domain(name string) domain.Domain {
	found, err := r.store.Domain(context.Background(), r.ann.ID, guid, name)
	must(r.t, err)
	return found
}

// storeObjects stores the objects of the platform: a verified domain with a mailbox, and an
// unverified domain.
func storeObjects(r *race) {
	r.addPlatformObjects(r.t)
	r.fixture.sync(r.t)
}

var races = []struct {
	name     string
	prepare  func(*race)
	useCases func(*race) []useCase
	check    func(*race) error
}{
	{
		"a sync and a verification",
		func(r *race) {
			platform := r.platform.For(guid)
			must(r.t, errorOf(platform.AddDomain(r.t.Context(), "one.test")))
			records, err := platform.Records(r.t.Context(), "one.test")
			must(r.t, err)
			r.platform.DNS.Publish("one.test", records.Verification...)
			r.fixture.sync(r.t)
		},
		func(r *race) []useCase { return []useCase{r.sync, r.verify("one.test")} },
		func(r *race) error {
			if d := r.domain("one.test"); !d.Verified || !d.MailReady || d.Signing.Selector1.Name == "" || len(d.Service) == 0 {
				return fmt.Errorf("the domain is %+v, want it verified with all records", d)
			}
			return nil
		},
	},
	{
		"a sync and a rename",
		storeObjects,
		func(r *race) []useCase {
			return []useCase{r.sync, r.rename(r.before["anna@one.test"], "New")}
		},
		func(r *race) error {
			if m := r.mailbox("anna@one.test"); m.DisplayName != "New" || m.Stage != mailbox.Ready {
				return fmt.Errorf("the mailbox is %+v, want it ready with the name New", m)
			}
			return nil
		},
	},
	{
		"a sync and a provision",
		storeObjects,
		func(r *race) []useCase { return []useCase{r.sync, r.provision("bea@one.test")} },
		func(r *race) error {
			if m := r.mailbox("bea@one.test"); m.Stage != mailbox.Ready || !m.Provisioned || !m.AccountEnabled {
				return fmt.Errorf("the mailbox is %+v, want it ready, provisioned and enabled", m)
			}
			return nil
		},
	},
	{
		"a rename and the end of a creation",
		func(r *race) {
			storeObjects(r)
			r.platform.Fail(fake.Fault{Method: "OpenSignIn", Kind: outcome.Throttled, Times: 1})
			if err := r.provision("bea@one.test")(r.t.Context()); err == nil {
				r.t.Fatal("the creation succeeded although OpenSignIn was throttled")
			}
		},
		func(r *race) []useCase {
			return []useCase{r.provision("bea@one.test"), r.rename(r.before["bea@one.test"], "New")}
		},
		func(r *race) error {
			if m := r.mailbox("bea@one.test"); m.Stage != mailbox.Ready || m.DisplayName != "New" || !m.AccountEnabled {
				return fmt.Errorf("the mailbox is %+v, want it ready and enabled with the name New", m)
			}
			return nil
		},
	},
	{
		"a reconnect and a sync that finds the consent revoked",
		func(r *race) {
			storeObjects(r)
			r.platform.Revoke(guid, "consent")
		},
		func(r *race) []useCase { return []useCase{r.noticeRevocation, r.reconnect} },
		func(r *race) error {
			if got := r.readiness(r.t); got.Consent != tenant.ConsentGranted {
				return fmt.Errorf("the consent is %s, want %s", got.Consent, tenant.ConsentGranted)
			}
			return nil
		},
	},
	{
		"two syncs while the platform changes",
		storeObjects,
		func(r *race) []useCase {
			return []useCase{r.sync, r.sync, func(ctx context.Context) error {
				interleaving.Step(ctx)
				r.userCount = 7
				interleaving.Step(ctx)
				r.userCount = 9
				return nil
			}}
		},
		func(r *race) error {
			stored, err := r.store.Tenant(r.t.Context(), r.ann.ID, guid)
			if err != nil || stored.UserMailboxes != r.answers["users"] || stored.SMTPAuth != r.answers["smtp"] || stored.Bootstrap != r.answers["bootstrap"] {
				return fmt.Errorf("the tenant is %+v, %v, want the newest answers %v", stored, err, r.answers)
			}
			return nil
		},
	},
}

// maxInterruptions returns the maximum number of interruptions in the orders that a soak test
// enumerates for a race. A race of three use cases has more orders, so a soak test has time for
// only two interruptions.
func maxInterruptions(useCases int) int {
	if useCases > 2 {
		return 2
	}
	return 3
}

// TestNewerObservationsSurviveEveryOrder checks that an older observation does not replace a newer
// observation.
func TestNewerObservationsSurviveEveryOrder(t *testing.T) {
	for _, tc := range races {
		t.Run(tc.name, func(t *testing.T) {
			interleaving.Explore(t, maxInterruptions(len(tc.useCases(&race{}))), func(t *testing.T, order *interleaving.Order) {
				synctest.Test(t, func(t *testing.T) {
					r := newRace(t)
					tc.prepare(r)
					r.before = r.rows()
					r.runInOrder(order, tc.useCases(r)...)
					if err := tc.check(r); err != nil {
						t.Error(err)
					}
				})
			})
		})
	}
}

// errorOf returns the error of a call with two results.
func errorOf[T any](_ T, err error) error { return err }
