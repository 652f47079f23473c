// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"
	"errors"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// prepare takes the bootstrap as far as it goes in one bounded pass.
func (r *run) prepare(ctx context.Context) {
	pass, cancel := context.WithTimeout(ctx, or(r.Settling.Limit, passLimit))
	defer cancel()
	failpoint.Hit("tenants.before-bootstrap")
	err := settling.Persist(pass, or(r.Pause, time.Second), func(ctx context.Context) error {
		return r.ask(ctx, func(ctx context.Context) error {
			p, err := r.at.Bootstrap(ctx)
			if err != nil {
				return err
			}
			r.bootstrap = p
			if p.Status == tenant.BootstrapPending && p.Step == tenant.StepWait {
				return &outcome.Error{Kind: outcome.NotReady, Detail: "the mail server is being prepared"}
			}
			return nil
		})
	})
	failpoint.Hit("tenants.after-bootstrap")
	if denied(err) {
		r.bootstrap = tenant.GrantLost()
	}
	if r.bootstrap.Status == "" {
		// No answer is no news: what is stored stays, and so do the other
		// operations that rest on it.
		r.out.Bootstrap = Part{Status: string(tenant.BootstrapPending), Message: "the mail server could not be checked: " + fault.Of(err).Detail}
		return
	}
	r.bootstrap = r.t.Bootstrapped(r.bootstrap)
	r.t.Bootstrap, r.t.BootstrapStep = r.bootstrap.Status, r.bootstrap.Step
	r.out.Bootstrap = tenant.BootstrapPart(r.bootstrap)
}

// openSubmission switches organization-wide SMTP AUTH on, where the mail
// server is ready for it.
func (r *run) openSubmission(ctx context.Context) {
	if r.bootstrap.Status != tenant.BootstrapReady {
		r.out.SMTPAuth = tenant.SMTPAuthSkipped()
		return
	}
	state, err := r.readSMTPAuth(ctx)
	if err == nil {
		r.t.SMTPAuth = state // what was read holds also when the next call fails
	}
	if err == nil && state == tenant.SMTPAuthDisabled {
		r.t.SMTPAuth, err = r.enableSMTPAuth(ctx)
	}
	switch {
	case err == nil:
		r.out.SMTPAuth = tenant.SMTPAuthPart(r.t.SMTPAuth)
	case outcome.Of(err) == outcome.NotReady:
		r.out.SMTPAuth = tenant.SMTPAuthComing()
	default:
		r.out.SMTPAuth = Part{Status: tenant.PartFailed, Message: "authenticated SMTP could not be enabled: " + fault.Of(err).Detail}
	}
}

func (r *run) readSMTPAuth(ctx context.Context) (state tenant.SMTPAuth, err error) {
	err = r.ask(ctx, func(ctx context.Context) error {
		state, err = r.at.SMTPAuth(ctx)
		return err
	})
	return state, err
}

func (r *run) enableSMTPAuth(ctx context.Context) (tenant.SMTPAuth, error) {
	failpoint.Hit("tenants.before-smtp-auth")
	err := r.ask(ctx, r.at.EnableSMTPAuth)
	failpoint.Hit("tenants.after-smtp-auth")
	switch {
	case err == nil:
		return tenant.SMTPAuthEnabled, nil
	case errors.Is(err, fault.SMTPAuthNotEnabled):
		return tenant.SMTPAuthRefused, nil
	case !outcome.Settled(err):
		// The answer got lost: the state itself tells.
		if state, lookErr := r.readSMTPAuth(ctx); lookErr == nil && state == tenant.SMTPAuthEnabled {
			return state, nil
		}
	}
	return tenant.SMTPAuthDisabled, err
}
