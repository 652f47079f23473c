// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
)

// prepareMailServer advances the bootstrap as far as possible within Reconciler.Timeout or, if that
// is zero, bootstrapTimeout.
func (r *syncRun) prepareMailServer(ctx context.Context) {
	bootstrapCtx, cancel := context.WithTimeout(ctx, cmp.Or(r.Reconciler.Timeout, bootstrapTimeout))
	defer cancel()
	var answeredCallBegan time.Time
	err := reconcile.Run(bootstrapCtx, reconcile.RetryPolicy{Pause: r.Pause}, func(ctx context.Context) error {
		callBegan := r.Now()
		return r.call(ctx, func(ctx context.Context) error {
			p, err := r.platform.Bootstrap(ctx)
			if err == nil || isAccessDenied(err) {
				answeredCallBegan = callBegan
			}
			if err != nil {
				return err
			}
			r.bootstrap = p
			if p.Status == tenant.BootstrapPending && p.Step == tenant.StepWait {
				return &outcome.Error{Kind: outcome.NotReady, Detail: "the mail server is being prepared"}
			}
			return nil
		})
	}, nil)
	if isAccessDenied(err) {
		r.bootstrap = tenant.GrantLostProgress()
	}
	if r.bootstrap.Status == "" {
		// The state could not be read. The tenant keeps its stored bootstrap state, because other
		// operations depend on it.
		r.result.Bootstrap = Part{Status: string(tenant.BootstrapPending), Message: "the mail server could not be checked: " + fault.ErrorOf(err).Detail}
		return
	}
	r.bootstrap = r.tenant.CorrectProgress(r.bootstrap)
	r.tenant.Bootstrap, r.tenant.BootstrapStep, r.tenant.Observed.Bootstrap = r.bootstrap.Status, r.bootstrap.Step, answeredCallBegan
	r.result.Bootstrap = tenant.BootstrapPart(r.bootstrap)
}

// syncSMTPAuth reads the state of SMTP AUTH, and enables SMTP AUTH for the whole organization if it
// is disabled. Until the mail server is ready, syncSMTPAuth only reports SMTP AUTH as skipped.
func (r *syncRun) syncSMTPAuth(ctx context.Context) {
	if r.bootstrap.Status != tenant.BootstrapReady {
		r.result.SMTPAuth = tenant.SMTPAuthSkippedPart()
		return
	}
	began, storedState := r.Now(), r.tenant.SMTPAuth
	state, err := r.readSMTPAuth(ctx)
	if err == nil {
		r.tenant.SMTPAuth, r.tenant.Observed.SMTPAuth = state, began // stored even if the next call fails
	}
	switch {
	case err != nil:
	case state == tenant.SMTPAuthDisabled:
		err = r.enableSMTPAuth(ctx)
	case state == tenant.SMTPAuthEnabled && storedState != state: // a lagging replica may still show the old state
		r.tenant.Observed.SMTPAuth = observation.HeldUntil(began)
	}
	switch {
	case err == nil:
		r.result.SMTPAuth = tenant.SMTPAuthPart(r.tenant.SMTPAuth)
	case outcome.KindOf(err) == outcome.NotReady:
		r.result.SMTPAuth = tenant.SMTPAuthPendingPart()
	default:
		r.result.SMTPAuth = Part{Status: tenant.PartFailed, Message: "authenticated SMTP could not be checked or enabled: " + fault.ErrorOf(err).Detail}
	}
}

func (r *syncRun) readSMTPAuth(ctx context.Context) (state tenant.SMTPAuth, err error) {
	err = r.call(ctx, func(ctx context.Context) error {
		state, err = r.platform.SMTPAuth(ctx)
		return err
	})
	return state, err
}

// enableSMTPAuth enables SMTP AUTH. The new state is stored with observation.HeldUntil, because a
// lagging replica may show the old state to a later read.
func (r *syncRun) enableSMTPAuth(ctx context.Context) error {
	var observedAt time.Time // a time at which the platform had the new state
	err := reconcile.Run(ctx, reconcile.Once, func(ctx context.Context) error {
		err := r.call(ctx, r.platform.EnableSMTPAuth)
		observedAt = r.Now()
		return err
	}, func(ctx context.Context) (bool, error) {
		observedAt = r.Now()
		state, err := r.readSMTPAuth(ctx)
		return state == tenant.SMTPAuthEnabled, err
	})
	switch {
	case err == nil:
		r.tenant.SMTPAuth, r.tenant.Observed.SMTPAuth = tenant.SMTPAuthEnabled, observation.HeldUntil(observedAt)
	case errors.Is(err, fault.SMTPAuthNotEnabled):
		r.tenant.SMTPAuth, r.tenant.Observed.SMTPAuth = tenant.SMTPAuthRefused, observation.HeldUntil(observedAt) // so that it replaces a stored state that is held until a later time
		return nil
	}
	return err
}
