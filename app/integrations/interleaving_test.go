// SPDX-License-Identifier: Apache-2.0

package integrations_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/adapters/testserver/interleaving"
	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// signInRace is a race over one mailbox. In some races an earlier sign-in session has expired in
// the store, but the person can still complete the session at the platform. Each write of the
// service to the store, and each call to a platform, is a step. Before each step, a different actor
// of the race can run.
type signInRace struct {
	*fixture
	t         *testing.T
	id        string                        // the id of the integration
	earlier   integrations.StartedSession   // the expired session; zero in races without one
	checks    int                           // number of calls of SignIn for the earlier session
	succeeded bool                          // the platform answered that the earlier session succeeded
	begun     []integrations.StartedSession // the sessions that beginNext began
	refusal   error                         // the last SessionActive error of a BeginSignIn that had called the platform
}

func newSignInRace(t *testing.T) *signInRace {
	t.Helper()
	r := &signInRace{fixture: newFixture(t), t: t}
	steps := interleaving.Steps{}
	r.Service = r.service(fake.SteppedIntegrations(r.store, steps), fake.SteppedConnections(r.store, steps),
		fake.SteppedSendingPlatforms(watchedPlatforms{r.platforms, r}, steps))
	r.id = r.createIntegration(t, "instantly")
	return r
}

// watchedPlatforms returns each platform as a watchedPlatform.
type watchedPlatforms struct {
	ports.SendingPlatforms
	race *signInRace
}

func (p watchedPlatforms) For(provider string, c secret.Credential) ports.SendingPlatform {
	return watchedPlatform{p.SendingPlatforms.For(provider, c), p.race}
}

// calledKey is the key of a context value. The value is a *bool, which is set to true when the
// platform is called with this context.
type calledKey struct{}

// watchedPlatform records whether a use case called the platform, and what the platform answered
// about the earlier session.
type watchedPlatform struct {
	ports.SendingPlatform
	race *signInRace
}

func (p watchedPlatform) Account(ctx context.Context, address string) (integration.Account, error) {
	if called, ok := ctx.Value(calledKey{}).(*bool); ok {
		*called = true
	}
	return p.SendingPlatform.Account(ctx, address)
}

func (p watchedPlatform) SignIn(ctx context.Context, session string) (integration.Progress, error) {
	if called, ok := ctx.Value(calledKey{}).(*bool); ok {
		*called = true
	}
	progress, err := p.SendingPlatform.SignIn(ctx, session)
	if session == p.race.earlier.Session.PlatformID {
		p.race.checks++
		p.race.succeeded = p.race.succeeded || progress.State == integration.SignInSucceeded
	}
	return progress, err
}

// beginNext begins a session in a new request. A SessionActive error is not a failure.
func (r *signInRace) beginNext(ctx context.Context) error {
	called := false
	started, err := r.BeginSignIn(context.WithValue(ctx, calledKey{}, &called), r.ann, r.id, r.anna.ID, nil)
	switch {
	case err == nil:
		r.begun = append(r.begun, started)
	case !errors.Is(err, fault.SessionActive):
		return err
	case called:
		r.refusal = err
	}
	return nil
}

// signInAtPlatform signs in with the link of the earlier session, as a person does.
func (r *signInRace) signInAtPlatform(ctx context.Context) error {
	interleaving.Step(ctx)
	r.instantly.CompleteSignIn(r.earlier.AuthURL.Reveal(), r.anna.Address, r.anna.DisplayName)
	return nil
}

func (r *signInRace) poll(ctx context.Context) error {
	_, err := r.SessionStatus(ctx, r.ann.ID, r.id, r.anna.ID, r.earlier.Session.ID)
	return err
}

func (r *signInRace) disconnect(ctx context.Context) error {
	_, err := r.Disconnect(ctx, r.ann.ID, r.id, r.anna.ID, nil)
	return err
}

func (r *signInRace) refreshIntegration(ctx context.Context) error {
	_, err := r.Refresh(ctx, r.ann.ID, r.id, nil)
	return err
}

func beginAndExpire(r *signInRace) {
	r.earlier = r.beginSession(r.t, r.id, r.anna)
	r.advance(10*time.Minute + time.Second)
}

func connectMailbox(r *signInRace) {
	r.connect(r.t, r.id, r.anna)
	r.advance(time.Second)
}

// checkEarlierSession returns an error if the earlier session ended without an answer of the
// platform, or if its status contradicts that answer.
func checkEarlierSession(r *signInRace) error {
	session, err := r.store.Session(r.t.Context(), r.ann.ID, r.id, r.anna.ID, r.earlier.Session.ID)
	switch {
	case err != nil:
		return err
	case r.succeeded && session.Status != integration.SessionConnected:
		return fmt.Errorf("the platform answered that the sign-in succeeded, but the session is %s", session.Status)
	case session.Status != integration.SessionPending && r.checks == 0:
		return fmt.Errorf("the session is %s without a check at the platform", session.Status)
	}
	return nil
}

func requireOneLink(r *signInRace) error {
	if len(r.begun) != 1 {
		return fmt.Errorf("%d requests got a link, want 1", len(r.begun))
	}
	return nil
}

// requireNothing is the check of races that need only the checks of TestNoSignInIsLostInAnyOrder.
func requireNothing(*signInRace) error { return nil }

var signInRaces = []struct {
	name    string
	prepare func(*signInRace)
	actors  func(*signInRace) []func(context.Context) error
	check   func(*signInRace) error
}{
	{
		"a late sign-in, the next request for a session and a poll", beginAndExpire,
		func(r *signInRace) []func(context.Context) error {
			return []func(context.Context) error{r.signInAtPlatform, r.beginNext, r.poll}
		},
		checkEarlierSession,
	},
	{
		"two requests for a session after an expired session", beginAndExpire,
		func(r *signInRace) []func(context.Context) error {
			return []func(context.Context) error{r.beginNext, r.beginNext}
		},
		requireOneLink,
	},
	{
		"two requests for a session and a late sign-in", beginAndExpire,
		func(r *signInRace) []func(context.Context) error {
			return []func(context.Context) error{r.beginNext, r.beginNext, r.signInAtPlatform}
		},
		checkEarlierSession,
	},
	{
		"a request for a session and a disconnect", connectMailbox,
		func(r *signInRace) []func(context.Context) error {
			return []func(context.Context) error{r.beginNext, r.disconnect}
		},
		requireNothing,
	},
	{
		"a request for a session, a disconnect and a refresh", connectMailbox,
		func(r *signInRace) []func(context.Context) error {
			return []func(context.Context) error{r.beginNext, r.disconnect, r.refreshIntegration}
		},
		requireNothing,
	},
}

// TestNoSignInIsLostInAnyOrder checks that no sign-in is lost. If a request fails because a
// concurrent request was first, the error must not be stored for its Idempotency-Key. After the
// race, a refresh must store the state of the platform.
func TestNoSignInIsLostInAnyOrder(t *testing.T) {
	for _, tc := range signInRaces {
		t.Run(tc.name, func(t *testing.T) {
			interleaving.Explore(t, 2, func(t *testing.T, o *interleaving.Order) {
				synctest.Test(t, func(t *testing.T) {
					r := newSignInRace(t)
					tc.prepare(r)
					r.checks, r.succeeded = 0, false
					advance := func() { r.advance(time.Millisecond) }
					must(t, errors.Join(o.Run(t.Context(), advance, tc.actors(r)...)...))
					must(t, tc.check(r))
					if r.refusal != nil && !fault.IsFromStore(r.refusal) {
						t.Errorf("the error of a lost race would be stored for its Idempotency-Key: %v", r.refusal)
					}
					r.refresh(t, r.id)
					accountExists := slices.ContainsFunc(r.instantly.AllAccounts(), func(a integration.Account) bool { return a.Address == r.anna.Address })
					if c := r.storedConnection(t, r.id, r.anna); accountExists != (c.Status == integration.ConnectionConnected) || c.Status == integration.ConnectionDisconnecting {
						t.Errorf("the platform has the account: %v, but the connection is %+v", accountExists, c)
					}
				})
			})
		})
	}
}

// credentialRace is a race over an integration whose credential the platform rejects for some time.
// The same calls are steps as in a signInRace.
type credentialRace struct {
	*fixture
	id               string    // the id of the integration
	calledAt         time.Time // when the newest call was made
	rejected         bool      // the platform rejected the newest call
	refreshCompleted bool      // the refresh was completed
}

func newCredentialRace(t *testing.T) *credentialRace {
	t.Helper()
	r := &credentialRace{fixture: newFixture(t)}
	steps := interleaving.Steps{}
	r.Service = r.service(fake.SteppedIntegrations(r.store, steps), fake.SteppedConnections(r.store, steps),
		timedPlatforms{fake.SteppedSendingPlatforms(r.platforms, steps), r})
	r.id = r.createIntegration(t, "instantly")
	r.connect(t, r.id, r.anna)
	r.connect(t, r.id, r.ben)
	r.instantly.PageSize = 1
	return r
}

// timedPlatforms returns each platform as a timedPlatform.
type timedPlatforms struct {
	ports.SendingPlatforms
	race *credentialRace
}

func (p timedPlatforms) For(provider string, c secret.Credential) ports.SendingPlatform {
	return timedPlatform{p.SendingPlatforms.For(provider, c), p.race}
}

// timedPlatform records the answer to the newest call.
type timedPlatform struct {
	ports.SendingPlatform
	race *credentialRace
}

func (p timedPlatform) Check(ctx context.Context) (integration.Reach, error) {
	calledAt := p.race.clock
	reach, err := p.SendingPlatform.Check(ctx)
	p.race.recordAnswer(calledAt, err)
	return reach, err
}

func (p timedPlatform) Accounts(ctx context.Context, cursor string) (integration.Page, error) {
	calledAt := p.race.clock
	page, err := p.SendingPlatform.Accounts(ctx, cursor)
	p.race.recordAnswer(calledAt, err)
	return page, err
}

// recordAnswer records an answer, if its call is the newest call.
func (r *credentialRace) recordAnswer(calledAt time.Time, err error) {
	if !calledAt.Before(r.calledAt) {
		r.calledAt, r.rejected = calledAt, err != nil
	}
}

func (r *credentialRace) refreshIntegration(ctx context.Context) error {
	interleaving.Step(ctx)
	_, err := r.Refresh(ctx, r.ann.ID, r.id, nil)
	if errors.Is(err, fault.CredentialRejected) {
		return nil
	}
	r.refreshCompleted = err == nil
	return err
}

func (r *credentialRace) test(ctx context.Context) error {
	interleaving.Step(ctx)
	_, err := r.Test(ctx, r.ann.ID, r.id, nil)
	return err
}

// rejectForAWhile makes the platform reject the credential and then accept it again, as if a
// customer had revoked and restored the credential.
func (r *credentialRace) rejectForAWhile(ctx context.Context) error {
	interleaving.Step(ctx)
	endFault := r.instantly.Fail(fake.Fault{Kind: outcome.Refused, Code: fault.AccessDenied})
	interleaving.Step(ctx)
	endFault()
	return nil
}

// TestNewestCallDecidesStatusInEveryOrder checks that a test and a refresh do not overwrite the
// result of a newer call to the platform.
func TestNewestCallDecidesStatusInEveryOrder(t *testing.T) {
	interleaving.Explore(t, 2, func(t *testing.T, o *interleaving.Order) {
		synctest.Test(t, func(t *testing.T) {
			r := newCredentialRace(t)
			created := r.clock
			advance := func() { r.advance(time.Millisecond) }
			must(t, errors.Join(o.Run(t.Context(), advance, r.refreshIntegration, r.test, r.rejectForAWhile)...))
			i := r.storedIntegration(t, r.id)
			if (i.Status == integration.Failed) != r.rejected || i.HasError != r.rejected {
				t.Errorf("the newest call was rejected: %v, but the stored integration is %+v", r.rejected, i)
			}
			if i.RefreshedAt.IsZero() == r.refreshCompleted || !i.LastTestedAt.After(created) {
				t.Errorf("the refresh was completed: %v, and the test has ended, but the stored integration is %+v", r.refreshCompleted, i)
			}
		})
	})
}
