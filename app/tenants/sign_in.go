// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const (
	// confirmTimeout is the timeout of Confirm.
	confirmTimeout = 50 * time.Second
	// administratorTimeout is the timeout of the call that proves the administrator. The plugin
	// makes several requests and waits until a new consent takes effect, so this timeout is longer
	// than that of other calls. A page has a timeout of 55 s (package console). The rest is enough
	// for one platform call of consentedProfile.
	administratorTimeout = 35 * time.Second
)

// ConfirmationPage is the content of the confirmation page: the account, the tenant that the
// account would manage, and the administrator who signed in.
type ConfirmationPage struct {
	Account       access.Account
	Tenant        tenant.GUID
	Profile       tenant.Profile
	Administrator tenant.Administrator
	CSRF          string
	Origin        Origin
}

// FinishSignIn handles the redirect after the sign-in and returns the content of the confirmation
// page. It proves that the user is an administrator of the tenant. cookie is the cookie that
// Callback set in the browser. FinishSignIn fails with connect_link_invalid, consent_declined,
// not_an_administrator, no_api_plan, tenant_limit_reached, or an error of the platform.
func (s *Service) FinishSignIn(ctx context.Context, rawQuery string, cookie secret.Text) (ConfirmationPage, error) {
	code, declined, err := signInAnswer(rawQuery, cookie)
	if err != nil {
		return ConfirmationPage{}, err
	}
	flow, err := s.takeFlow(ctx, cookie, ports.FlowSigningIn, ports.FlowProving)
	if err != nil {
		return ConfirmationPage{}, err
	}
	if declined {
		return ConfirmationPage{}, s.recordDecline(ctx, flow, fault.ConsentDeclined.With("nobody signed in"))
	}
	acc, err := s.proveAdministratorAndConsent(ctx, &flow, cookie, code)
	if err != nil {
		return ConfirmationPage{}, s.recordDecline(ctx, flow, err)
	}
	if err := s.saveProof(ctx, flow); err != nil {
		return ConfirmationPage{}, err
	}
	if err := s.Sessions.AdvanceConnectSession(ctx, flow.Account, flow.StateHash, tenant.SessionConsented, flow.ClaimedTenant); err != nil {
		return ConfirmationPage{}, err
	}
	origin, err := s.BrowserOrigin(ctx, cookie)
	if err != nil {
		return ConfirmationPage{}, err
	}
	return ConfirmationPage{
		Account: acc, Tenant: flow.ClaimedTenant, Profile: flow.Profile, Administrator: flow.Administrator, CSRF: deriveToken(cookie, "csrf"), Origin: origin,
	}, nil
}

// proveAdministratorAndConsent proves the administrator and the consent, and puts both into the
// flow. It returns the account of the flow. It fails if the account is not active, or has no free
// slot for the tenant.
func (s *Service) proveAdministratorAndConsent(ctx context.Context, flow *ports.ConnectFlow, cookie, code secret.Text) (acc access.Account, err error) {
	if flow.Administrator, err = s.proveAdministrator(ctx, *flow, cookie, code); err != nil {
		return access.Account{}, err
	}
	if flow.Profile, err = s.consentedProfile(ctx, flow.ClaimedTenant); err != nil {
		return access.Account{}, err
	}
	return s.checkTenantLimit(ctx, *flow)
}

// signInAnswer parses the redirect after the sign-in. If the state does not belong to the cookie,
// it fails, and the flow is not changed.
func signInAnswer(rawQuery string, cookie secret.Text) (code secret.Text, declined bool, err error) {
	state, err := singleParam(rawQuery, "state")
	if err != nil || !constantTimeEqual(state, deriveToken(cookie, "sign-in")) {
		return secret.Text{}, false, invalidLinkError()
	}
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return secret.Text{}, false, invalidLinkError()
	}
	if query.Has("error") { // the platform reports that the user did not sign in
		return secret.Text{}, true, nil
	}
	codeText, err := singleParam(rawQuery, "code")
	return secret.New(codeText), false, err
}

// takeFlow moves the flow that the cookie names from one step to another. If the flow belongs to a
// different browser, takeFlow fails with connect_link_invalid and does not move the flow.
func (s *Service) takeFlow(ctx context.Context, cookie secret.Text, from, to ports.ConnectStep) (ports.ConnectFlow, error) {
	id, err := flowID(cookie)
	if err != nil {
		return ports.ConnectFlow{}, err
	}
	flow, err := s.Flows.TakeFlow(ctx, id, hash(cookie.Reveal()), from, to, s.Now())
	if err != nil {
		return ports.ConnectFlow{}, err
	}
	if signInHash := hash(deriveToken(cookie, "sign-in")); signInHash != flow.SignInHash {
		return ports.ConnectFlow{}, invalidLinkError()
	}
	flow.Step = to
	return flow, nil
}

// proveAdministrator redeems the code of the sign-in and returns the administrator. It fails with
// connect_link_invalid when the administrator's tenant is not the claimed tenant.
func (s *Service) proveAdministrator(ctx context.Context, flow ports.ConnectFlow, cookie, code secret.Text) (admin tenant.Administrator, err error) {
	verifier, err := s.Sealer.Open(flow.SealedVerifier, verifierAssociatedData(flow))
	if err != nil {
		return tenant.Administrator{}, fmt.Errorf("open verifier: %w", err)
	}
	err = reconcile.CallWithin(ctx, administratorTimeout, func(ctx context.Context) (err error) {
		admin, err = s.Platform.Administrator(ctx, s.signInRequest(flow, cookie, verifier), code)
		return err
	})
	if isAccessDenied(err) {
		return tenant.Administrator{}, noConsentError()
	}
	if err != nil {
		return tenant.Administrator{}, fmt.Errorf("sign-in: %w", err)
	}
	if proved, ok := tenant.ParseGUID(string(admin.Tenant)); !ok || proved != flow.ClaimedTenant {
		return tenant.Administrator{}, invalidLinkError()
	}
	return admin, nil
}

// consentedProfile reads the tenant's names. A successful call also proves the consent, because a
// sign-in alone gives no access. The platform needs some seconds to apply a new consent, so
// consentedProfile repeats a denied call until ConsentTimeout ends.
func (s *Service) consentedProfile(ctx context.Context, id tenant.GUID) (profile tenant.Profile, err error) {
	waitCtx, cancel := context.WithTimeout(ctx, cmp.Or(s.ConsentTimeout, 15*time.Second))
	defer cancel()
	pause := time.NewTicker(cmp.Or(s.Pause, time.Second))
	defer pause.Stop()
	for {
		err = reconcile.Call(ctx, func(ctx context.Context) (err error) {
			profile, err = s.Platform.For(id).Profile(ctx)
			return err
		})
		if err == nil {
			return profile, nil
		}
		if !isAccessDenied(err) {
			return tenant.Profile{}, fmt.Errorf("read tenant: %w", err)
		}
		select {
		case <-pause.C:
		case <-waitCtx.Done():
			return tenant.Profile{}, noConsentError()
		}
	}
}

// checkTenantLimit returns the account if it is active and has a slot for the tenant. Attach
// enforces the limit too. The earlier check tells the user about the limit before the confirmation
// page.
func (s *Service) checkTenantLimit(ctx context.Context, flow ports.ConnectFlow) (access.Account, error) {
	acc, err := s.Accounts.Account(ctx, flow.Account)
	if err != nil {
		return access.Account{}, err
	}
	if err := acc.CheckActive(); err != nil {
		return access.Account{}, err
	}
	if _, err := s.Tenants.Tenant(ctx, acc.ID, flow.ClaimedTenant); !errors.Is(err, fault.TenantNotFound) {
		return acc, err // without an error, the account already has this tenant, so it needs no slot
	}
	tenantCount, err := s.Tenants.TenantCount(ctx, acc.ID)
	if err != nil {
		return access.Account{}, err
	}
	return acc, acc.CheckFreeSlot(tenantCount)
}

// saveProof stores the flow without its one-time secrets, and moves the flow to the confirmation
// step.
func (s *Service) saveProof(ctx context.Context, flow ports.ConnectFlow) error {
	flow.SealedVerifier, flow.Nonce = nil, ""
	if err := s.Flows.SaveFlow(ctx, flow); err != nil {
		return err
	}
	_, err := s.Flows.TakeFlow(ctx, flow.StateHash, flow.BrowserHash, ports.FlowProving, ports.FlowConfirm, s.Now())
	return err
}

// Confirm attaches the tenant to the account and returns the tenant. If connect is false, Confirm
// only ends the flow as declined and returns the zero value. It fails with connect_link_invalid,
// no_api_plan, account_closed, tenant_limit_reached or tenant_held_elsewhere.
//
// The flow ends before the tenant is attached. If the process crashes between these two steps, the
// user needs a new link. If the store is unavailable, Confirm moves the flow back, and the user can
// confirm again. The second Confirm takes no second slot, even if the first has attached the
// tenant. If the browser disconnects, Confirm continues. Confirm does not call the mail platform.
// The next sync prepares the tenant.
func (s *Service) Confirm(ctx context.Context, cookie secret.Text, csrf string, connect bool) (tenant.Tenant, error) {
	ctx, cancel := reconcile.Detach(ctx, confirmTimeout)
	defer cancel()
	if !constantTimeEqual(csrf, deriveToken(cookie, "csrf")) {
		return tenant.Tenant{}, invalidLinkError()
	}
	sessions, err := s.sessionIDs(ctx, cookie)
	if err != nil {
		return tenant.Tenant{}, err
	}
	flow, err := s.takeFlow(ctx, cookie, ports.FlowConfirm, ports.FlowDone)
	if err != nil {
		return tenant.Tenant{}, err
	}
	if !connect {
		return tenant.Tenant{}, s.Sessions.AdvanceConnectSession(ctx, flow.Account, flow.StateHash, tenant.SessionDeclined, "")
	}
	t, err := s.newTenant(flow.ClaimedTenant, flow.Profile)
	if err != nil {
		return tenant.Tenant{}, err
	}
	t.ConnectedBy = flow.Administrator.Address
	t, err = s.Tenants.Attach(ctx, flow.Account, t, sessions...)
	if errors.Is(err, fault.ServiceUnavailable) {
		err = errors.Join(err, reconcile.Store(ctx, func(ctx context.Context) error {
			_, err := s.takeFlow(ctx, cookie, ports.FlowDone, ports.FlowConfirm)
			return err
		}))
	}
	return t, s.recordDecline(ctx, flow, err)
}

func noConsentError() error {
	return fault.ConsentDeclined.With("the mail platform knows of no consent for this tenant")
}

func constantTimeEqual(a, b string) bool {
	return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}
