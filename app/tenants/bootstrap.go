// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"
	"errors"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
)

// prepareMailServer advances the bootstrap as far as possible within its time limit.
func (r *syncRun) prepareMailServer(ctx context.Context) {
	pass, cancel := context.WithTimeout(ctx, orDefault(r.Reconciler.Limit, bootstrapLimit))
	defer cancel()
	err := reconcile.Run(pass, reconcile.RetryPolicy{Pause: r.Pause}, func(ctx context.Context) error {
		return r.call(ctx, func(ctx context.Context) error {
			p, err := r.platform.Bootstrap(ctx)
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
	if denied(err) {
		r.bootstrap = tenant.GrantLost()
	}
	if r.bootstrap.Status == "" {
		// The platform did not answer. The stored state is kept, because other operations use it.
		r.result.Bootstrap = Part{Status: string(tenant.BootstrapPending), Message: "the mail server could not be checked: " + fault.Of(err).Detail}
		return
	}
	r.bootstrap = r.tenant.Bootstrapped(r.bootstrap)
	r.tenant.Bootstrap, r.tenant.BootstrapStep = r.bootstrap.Status, r.bootstrap.Step
	r.result.Bootstrap = tenant.BootstrapPart(r.bootstrap)
}

// enableSubmission enables SMTP AUTH for the whole organization, if the mail server is ready.
func (r *syncRun) enableSubmission(ctx context.Context) {
	if r.bootstrap.Status != tenant.BootstrapReady {
		r.result.SMTPAuth = tenant.SMTPAuthSkipped()
		return
	}
	state, err := r.readSMTPAuth(ctx)
	if err == nil {
		r.tenant.SMTPAuth = state // kept if the next call fails
	}
	if err == nil && state == tenant.SMTPAuthDisabled {
		r.tenant.SMTPAuth, err = r.enableSMTPAuth(ctx)
	}
	switch {
	case err == nil:
		r.result.SMTPAuth = tenant.SMTPAuthPart(r.tenant.SMTPAuth)
	case outcome.Of(err) == outcome.NotReady:
		r.result.SMTPAuth = tenant.SMTPAuthComing()
	default:
		r.result.SMTPAuth = Part{Status: tenant.PartFailed, Message: "authenticated SMTP could not be enabled: " + fault.Of(err).Detail}
	}
}

func (r *syncRun) readSMTPAuth(ctx context.Context) (state tenant.SMTPAuth, err error) {
	err = r.call(ctx, func(ctx context.Context) error {
		state, err = r.platform.SMTPAuth(ctx)
		return err
	})
	return state, err
}

func (r *syncRun) enableSMTPAuth(ctx context.Context) (tenant.SMTPAuth, error) {
	err := reconcile.Run(ctx, reconcile.Once, func(ctx context.Context) error {
		err := r.call(ctx, r.platform.EnableSMTPAuth)
		return err
	}, func(ctx context.Context) (bool, error) {
		state, err := r.readSMTPAuth(ctx)
		return state == tenant.SMTPAuthEnabled, err
	})
	switch {
	case err == nil:
		return tenant.SMTPAuthEnabled, nil
	case errors.Is(err, fault.SMTPAuthNotEnabled):
		return tenant.SMTPAuthRefused, nil
	default:
		return tenant.SMTPAuthDisabled, err
	}
}
