// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
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

// The tests of this file run two or three use cases in different orders of their calls at the
// platform and at the store. A newer observation must survive in each order. By default a few orders
// are tried, drawn with a fixed seed. TENANTRY_SOAK tries 200, and every order in which the running
// use case is interrupted at most three times. With three use cases it is interrupted at most twice,
// because three times are more orders than a soak has time for.
func maxInterruptions(useCases int) int {
	if useCases > 2 {
		return 2
	}
	return 3
}

// race is a fixture whose use cases run one call at a time, in an order that choose decides.
type race struct {
	*fixture
	t       *testing.T
	actors  []*actor
	choose  chooser
	latest  map[string]time.Time // when the call with the newest answer about an object began
	answers map[string]any       // the newest answer
	users   int                  // the platform's number of users
}

// chooser returns which of the ready use cases runs next. If interrupts is true, the first one is
// the use case that is running, and each other choice interrupts it.
type chooser func(ready int, interrupts bool) int

// actor is one use case of a race. It stops before each call. waiting is the number of its calls
// that wait, because a use case can make calls in parallel.
type actor struct {
	name    string
	waiting atomic.Int32
	resume  chan struct{}
	err     error
}

// step waits until it is the actor's turn. The clock advances with each step.
func (r *race) step(a *actor) {
	a.waiting.Add(1)
	<-a.resume
	r.now = r.now.Add(time.Millisecond)
}

// run runs the use cases until all have ended. After each step, choose decides which one continues.
func (r *race) run(cases ...func(a *actor) error) {
	running := len(cases)
	for i, use := range cases {
		a := &actor{name: fmt.Sprint(i), resume: make(chan struct{})}
		r.actors = append(r.actors, a)
		go func() {
			r.step(a)
			a.err = use(a)
			running--
		}()
	}
	var current *actor
	for {
		synctest.Wait()
		if running == 0 {
			break
		}
		var ready []*actor
		interrupts := current != nil && current.waiting.Load() > 0
		if interrupts {
			ready = append(ready, current)
		}
		for _, a := range r.actors {
			if a != current && a.waiting.Load() > 0 {
				ready = append(ready, a)
			}
		}
		if len(ready) == 0 { // all wait for a timer
			time.Sleep(time.Millisecond)
			continue
		}
		current = ready[r.choose(len(ready), interrupts)]
		current.waiting.Add(-1)
		current.resume <- struct{}{}
	}
	for _, a := range r.actors {
		if a.err != nil {
			r.t.Errorf("use case %s: %v", a.name, a.err)
		}
	}
}

// observed records the answer to a call that began at the time began.
func (r *race) observed(thing string, began time.Time, answer any) {
	if !began.Before(r.latest[thing]) {
		r.latest[thing], r.answers[thing] = began, answer
	}
}

// services returns the use cases with the actor's platform and store, whose calls are steps of the
// race.
func (r *race) services(a *actor) (tenantsOf *fixture, domainsOf *domains.Service, mailboxesOf *mailboxes.Service) {
	copied, service, pass := *r.fixture, *r.Service, *r.Reconciler
	clock := func() time.Time { return r.now }
	store, platform := steppedStore{r.store, r, a}, steppedPlatform{r.platform, r, a}
	pass.Platform, pass.Domains, pass.Now = platform, store, clock
	service.Tenants, service.Discovered, service.Domains, service.Platform = store, store, store, platform
	service.Reconciler, service.Now = &pass, clock
	copied.Service = &service
	steps := &domainsteps.Steps{Tenants: store, Domains: store, Platform: platform, DNS: r.platform.DNS, Facts: r.platform, Reconciler: &pass, Now: clock}
	return &copied, &domains.Service{Steps: steps}, &mailboxes.Service{Tenants: store, Domains: store, Mailboxes: store,
		Policies: r.store, Platform: platform, Reconciler: &pass, Now: clock, RequireSMTPAuth: true, Pause: time.Millisecond, Limit: apptest.HangTimeout}
}

func (r *race) sync(a *actor) error {
	service, _, _ := r.services(a)
	_, err := service.Sync(context.Background(), r.ann.ID, guid)
	return err
}

func (r *race) verify(a *actor) error {
	_, service, _ := r.services(a)
	_, err := service.Verify(context.Background(), r.ann.ID, guid, "one.test")
	return err
}

func (r *race) provision(a *actor) error {
	_, _, service := r.services(a)
	results, err := service.Provision(context.Background(), r.ann, guid, mailboxes.Request{
		Domain: "one.test", Password: secret.New("Correct-Horse-7"), Mailboxes: []mailbox.Spec{{DisplayName: "Bea", Address: "bea@one.test"}},
	}, nil)
	if err == nil && results[0].Status == mailbox.ResultFailed {
		err = results[0].Failure
	}
	return err
}

func (r *race) rename(address, name string) func(*actor) error {
	return func(a *actor) error {
		_, _, service := r.services(a)
		_, err := service.Update(context.Background(), r.ann.ID, guid, r.box(address).ID, mailboxes.Change{DisplayName: &name})
		return err
	}
}

// reconnect is a consent that the administrator gives again.
func (r *race) reconnect(a *actor) error {
	service, _, _ := r.services(a)
	r.step(a)
	r.consent(r.t, r.ann, admin)
	_, err := service.Tenants.Attach(context.Background(), r.ann.ID, tenant.Tenant{GUID: guid, Name: "One", ConsentedAt: r.now})
	return err
}

// noticeRevocation is a sync that finds the consent revoked.
func (r *race) noticeRevocation(a *actor) error {
	_ = r.sync(a) // it fails with access_denied unless the consent is given again before
	return nil
}

func (r *race) box(address string) mailbox.Mailbox {
	_, boxes := r.storedObjects(r.t)
	i := slices.IndexFunc(boxes, func(m mailbox.Mailbox) bool { return m.Address == address })
	if i < 0 {
		r.t.Fatalf("%s is not listed", address)
	}
	return boxes[i]
}

func (r *race) domain(name string) domain.Domain {
	found, err := r.store.Domain(context.Background(), r.ann.ID, guid, name)
	if err != nil {
		r.t.Fatal(err)
	}
	return found
}

// prepared stores the objects of the platform: a verified domain with a mailbox.
func prepared(r *race) {
	r.addPlatformObjects(r.t)
	r.fixture.sync(r.t)
}

var races = []struct {
	name    string
	prepare func(*race)
	cases   func(*race) []func(*actor) error
	check   func(*race) error
}{
	{
		"a sync and a verification",
		func(r *race) {
			at := r.platform.For(guid)
			must(r.t, second(at.AddDomain(r.t.Context(), "one.test")))
			records, err := at.Records(r.t.Context(), "one.test")
			must(r.t, err)
			r.platform.DNS.Publish("one.test", records.Verification...)
			r.fixture.sync(r.t)
		},
		func(r *race) []func(*actor) error { return []func(*actor) error{r.sync, r.verify} },
		func(r *race) error {
			if d := r.domain("one.test"); !d.Verified || !d.MailReady || d.Signing.Selector1.Name == "" || len(d.Service) == 0 {
				return fmt.Errorf("the domain is %+v", d)
			}
			return nil
		},
	},
	{
		"a sync and a rename",
		prepared,
		func(r *race) []func(*actor) error {
			return []func(*actor) error{r.sync, r.rename("anna@one.test", "New")}
		},
		func(r *race) error {
			if m := r.box("anna@one.test"); m.DisplayName != "New" || m.Stage != mailbox.Ready {
				return fmt.Errorf("the mailbox is %+v", m)
			}
			return nil
		},
	},
	{
		"a sync and a provision",
		prepared,
		func(r *race) []func(*actor) error { return []func(*actor) error{r.sync, r.provision} },
		func(r *race) error {
			if m := r.box("bea@one.test"); m.Stage != mailbox.Ready || !m.Provisioned || !m.AccountEnabled {
				return fmt.Errorf("the mailbox is %+v", m)
			}
			return nil
		},
	},
	{
		"a rename and the end of a creation",
		func(r *race) {
			prepared(r)
			r.platform.Fail(fake.Fault{Method: "OpenSignIn", Kind: outcome.Throttled, Times: 1})
			if err := r.plainProvision(); err == nil {
				r.t.Fatal("the creation did not stop")
			}
		},
		func(r *race) []func(*actor) error {
			return []func(*actor) error{r.provision, r.rename("bea@one.test", "New")}
		},
		func(r *race) error {
			if m := r.box("bea@one.test"); m.Stage != mailbox.Ready || m.DisplayName != "New" || !m.AccountEnabled {
				return fmt.Errorf("the mailbox is %+v", m)
			}
			return nil
		},
	},
	{
		"a reconnect and a sync that finds the consent revoked",
		func(r *race) {
			prepared(r)
			r.platform.Revoke(guid, "consent")
		},
		func(r *race) []func(*actor) error { return []func(*actor) error{r.noticeRevocation, r.reconnect} },
		func(r *race) error {
			if got := r.readiness(r.t); got.Consent != tenant.ConsentGranted {
				return fmt.Errorf("the consent is %s", got.Consent)
			}
			return nil
		},
	},
	{
		"two syncs while the platform changes",
		prepared,
		func(r *race) []func(*actor) error {
			return []func(*actor) error{r.sync, r.sync, func(a *actor) error {
				r.step(a)
				r.users = 7
				r.step(a)
				r.users = 9
				return nil
			}}
		},
		func(r *race) error {
			held, err := r.store.Tenant(r.t.Context(), r.ann.ID, guid)
			if err != nil || held.UserMailboxes != r.answers["users"] || held.SMTPAuth != r.answers["smtp"] || held.Bootstrap != r.answers["bootstrap"] {
				return fmt.Errorf("the tenant is %+v, %v, want %v", held, err, r.answers)
			}
			return nil
		},
	},
}

// plainProvision provisions a mailbox without steps.
func (r *race) plainProvision() error {
	a := &actor{resume: make(chan struct{})}
	close(a.resume)
	return r.provision(a)
}

// play runs one race in one order, and reports what went wrong.
func play(t *testing.T, n int, choose chooser) {
	synctest.Test(t, func(t *testing.T) {
		r := &race{fixture: connected(t, fake.Setup{}), t: t, choose: choose, latest: map[string]time.Time{}, answers: map[string]any{}}
		races[n].prepare(r)
		r.run(races[n].cases(r)...)
		if err := races[n].check(r); err != nil {
			t.Error(err)
		}
	})
}

func TestNewerObservationsSurviveEveryOrder(t *testing.T) {
	for n, race := range races {
		t.Run(race.name, func(t *testing.T) {
			seeds := uint64(6)
			if soak.On() {
				playAll(t, n)
				seeds = 200
			}
			for seed := range seeds {
				random := rand.New(rand.NewPCG(seed, 23))
				if play(t, n, func(ready int, _ bool) int { return random.IntN(ready) }); t.Failed() {
					t.Fatalf("in the order of seed %d", seed)
				}
			}
		})
	}
}

// playAll runs a race in every order with at most maxInterruptions, and logs their number. It repeats
// the choices of the last run up to the last one that has an alternative, and then takes the next
// alternative.
func playAll(t *testing.T, n int) {
	type choice struct{ taken, of int }
	var path []choice
	limit := maxInterruptions(len(races[n].cases(&race{})))
	for orders := 1; ; orders++ {
		depth, interruptions := 0, 0
		play(t, n, func(ready int, interrupts bool) int {
			if interrupts && interruptions == limit {
				ready = 1
			}
			if depth == len(path) {
				path = append(path, choice{0, ready})
			}
			taken := path[depth].taken
			if depth++; interrupts && taken > 0 {
				interruptions++
			}
			return taken
		})
		if t.Failed() {
			t.Fatalf("in the order %v", path)
		}
		for len(path) > 0 && path[len(path)-1].taken == path[len(path)-1].of-1 {
			path = path[:len(path)-1]
		}
		if len(path) == 0 {
			t.Logf("%d orders", orders)
			return
		}
		path[len(path)-1].taken++
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// second returns the error of a call with two results.
func second[T any](_ T, err error) error { return err }
