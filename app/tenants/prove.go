// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net/url"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// Offer is what the confirmation page shows: who is about to manage what.
type Offer struct {
	Account       access.Account
	Tenant        tenant.GUID
	Profile       tenant.Profile
	Administrator tenant.Administrator
	CSRF          string
}

// SignedIn takes the answer of the sign-in, proves tenant and administrator
// and returns what the confirmation page shows. cookie is the browser's.
// Refusals: connect_link_invalid, consent_declined, not_an_administrator,
// no_api_plan, tenant_limit_reached.
func (s *Service) SignedIn(ctx context.Context, rawQuery string, cookie secret.Text) (Offer, error) {
	code, declined, err := signInAnswer(rawQuery, cookie)
	if err != nil {
		return Offer{}, err
	}
	flow, err := s.take(ctx, cookie, ports.FlowSigningIn, ports.FlowProving)
	if err != nil {
		return Offer{}, err
	}
	if declined {
		return Offer{}, fault.ConsentDeclined.With("nobody signed in")
	}
	if flow.Administrator, err = s.prove(ctx, flow, cookie, code); err != nil {
		return Offer{}, err
	}
	if flow.Profile, err = s.profile(ctx, flow.Claimed); err != nil {
		return Offer{}, err
	}
	acc, err := s.mayTake(ctx, flow)
	if err != nil {
		return Offer{}, err
	}
	if err := s.proved(ctx, flow); err != nil {
		return Offer{}, err
	}
	return Offer{
		Account: acc, Tenant: flow.Claimed, Profile: flow.Profile, Administrator: flow.Administrator, CSRF: derived(cookie, "csrf"),
	}, nil
}

// signInAnswer reads the sign-in's answer and refuses one that does not
// belong to the cookie, before anything is used up.
func signInAnswer(rawQuery string, cookie secret.Text) (code secret.Text, declined bool, err error) {
	state, err := single(rawQuery, "state")
	if err != nil || !same(state, derived(cookie, "sign-in")) {
		return secret.Text{}, false, invalidLink()
	}
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return secret.Text{}, false, invalidLink()
	}
	if query.Has("error") {
		return secret.Text{}, true, nil
	}
	text, err := single(rawQuery, "code")
	return secret.New(text), false, err
}

// take moves the flow that the cookie names, if it is this browser's.
func (s *Service) take(ctx context.Context, cookie secret.Text, from, to ports.ConnectStep) (ports.ConnectFlow, error) {
	id, err := flowOf(cookie)
	if err != nil {
		return ports.ConnectFlow{}, err
	}
	flow, err := s.Flows.TakeFlow(ctx, id, from, to, s.Now())
	if err != nil {
		return ports.ConnectFlow{}, err
	}
	browser := hash(cookie.Reveal())
	signIn := hash(derived(cookie, "sign-in"))
	if subtle.ConstantTimeCompare(browser[:], flow.Browser[:]) != 1 || subtle.ConstantTimeCompare(signIn[:], flow.SignInHash[:]) != 1 {
		return ports.ConnectFlow{}, invalidLink()
	}
	flow.Step = to
	return flow, nil
}

// prove redeems the sign-in's code. The tenant it proves must be the one that
// the consent claimed.
func (s *Service) prove(ctx context.Context, flow ports.ConnectFlow, cookie, code secret.Text) (tenant.Administrator, error) {
	verifier, err := s.Sealer.Open(flow.Verifier, verifierPlace(flow))
	if err != nil {
		return tenant.Administrator{}, fmt.Errorf("open verifier: %w", err)
	}
	failpoint.Hit("tenants.before-prove")
	admin, err := s.Platform.Administrator(ctx, s.signIn(flow, cookie, verifier), code)
	if denied(err) {
		return tenant.Administrator{}, noConsent()
	}
	if err != nil {
		return tenant.Administrator{}, fmt.Errorf("sign-in: %w", err)
	}
	failpoint.Hit("tenants.after-prove")
	if proved, ok := tenant.ParseGUID(string(admin.Tenant)); !ok || proved != flow.Claimed {
		return tenant.Administrator{}, invalidLink()
	}
	return admin, nil
}

// profile reads the tenant's names, which also shows that the consent is
// there: a sign-in alone gives none. A consent just given takes the platform
// some seconds to spread.
func (s *Service) profile(ctx context.Context, id tenant.GUID) (tenant.Profile, error) {
	patience, cancel := context.WithTimeout(ctx, or(s.Patience, 15*time.Second))
	defer cancel()
	pause := time.NewTicker(or(s.Pause, time.Second))
	defer pause.Stop()
	for {
		profile, err := s.Platform.For(id).Profile(ctx)
		if err == nil {
			return profile, nil
		}
		if !denied(err) {
			return tenant.Profile{}, fmt.Errorf("read tenant: %w", err)
		}
		select {
		case <-pause.C:
		case <-patience.Done():
			return tenant.Profile{}, noConsent()
		}
	}
}

// mayTake looks early whether the account can take the tenant, so that nobody
// confirms in vain. The attaching itself decides.
func (s *Service) mayTake(ctx context.Context, flow ports.ConnectFlow) (access.Account, error) {
	acc, err := s.Accounts.Account(ctx, flow.Account)
	if err != nil {
		return access.Account{}, err
	}
	if err := acc.Entitled(); err != nil {
		return access.Account{}, err
	}
	if _, err := s.Tenants.Tenant(ctx, acc.ID, flow.Claimed); err == nil {
		return acc, nil // its own again: takes no slot
	}
	held, err := s.Tenants.TenantCount(ctx, acc.ID)
	if err != nil {
		return access.Account{}, err
	}
	return acc, acc.MayAttach(held)
}

func (s *Service) proved(ctx context.Context, flow ports.ConnectFlow) error {
	flow.Verifier, flow.Nonce = nil, "" // both are used up
	if err := s.Flows.SaveFlow(ctx, flow); err != nil {
		return err
	}
	_, err := s.Flows.TakeFlow(ctx, flow.StateHash, ports.FlowProving, ports.FlowConfirm, s.Now())
	return err
}

func noConsent() error {
	return fault.ConsentDeclined.With("the mail platform knows of no consent for this tenant")
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func or(set, otherwise time.Duration) time.Duration {
	if set > 0 {
		return set
	}
	return otherwise
}
