// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"context"
	"errors"

	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/provisioning"
)

// observe does a step and tells what it found out.
func (c *claim) observe(ctx context.Context, step provisioning.Step) provisioning.Observation {
	switch step {
	case provisioning.Plan:
		_, o := c.look(ctx)
		return o
	case provisioning.Apply:
		return c.apply(ctx)
	case provisioning.ReadDNS:
		v, o := c.look(ctx)
		o.Shown = o.Err == nil && v.Shown
		return o
	case provisioning.Verify:
		return c.sought(ctx, c.domains.Prove)
	case provisioning.EnableMail:
		return asked(c.domains.EnableMail(ctx, c.job.Account, c.job.DomainID))
	case provisioning.EnsureSigning:
		return asked(c.domains.EnsureSigning(ctx, c.job.Account, c.job.DomainID))
	case provisioning.EnableDKIM:
		return c.sought(ctx, c.domains.StartSigning)
	default:
		return c.validate(ctx)
	}
}

// survey reads the DNS and plans.
func (c *claim) survey(ctx context.Context) (domains.Survey, provisioning.Observation) {
	v, err := c.domains.Survey(ctx, c.job.Account, c.job.DomainID)
	if err != nil {
		return v, provisioning.Observation{Err: err}
	}
	return v, provisioning.Observation{Zone: provisioning.ZoneOf(v.Holder, v.Automation(), v.Plan), NegativeTTL: v.Public.NegativeTTL()}
}

// look is a survey whose sight is stored with the domain.
func (c *claim) look(ctx context.Context) (domains.Survey, provisioning.Observation) {
	v, o := c.survey(ctx)
	if o.Err == nil {
		_, o.Err = c.domains.Saw(ctx, c.job.Account, v)
	}
	return v, o
}

// apply writes a new plan if it is the one that was decided on.
func (c *claim) apply(ctx context.Context) provisioning.Observation {
	v, o := c.survey(ctx)
	if o.Err != nil || !c.job.MayWrite(o.Zone) {
		return o
	}
	o.WriteErr = c.domains.Write(ctx, c.job.Account, v)
	o.Ready = o.WriteErr == nil
	return o
}

// sought has the platform look for records. When it does not see them, the
// zone tells whether somebody took them away.
func (c *claim) sought(ctx context.Context, step func(context.Context, access.AccountID, string) error) provisioning.Observation {
	o := asked(step(ctx, c.job.Account, c.job.DomainID))
	if unseen(o.Err) {
		_, seen := c.survey(ctx)
		o.Zone = seen.Zone
	}
	return o
}

func asked(err error) provisioning.Observation {
	return provisioning.Observation{Err: err, Ready: err == nil}
}

func unseen(err error) bool {
	return errors.Is(err, fault.VerificationFailed) || errors.Is(err, fault.DKIMNotReady) || outcome.Of(err) == outcome.NotReady
}

// validate holds the domain once more against all that it needs.
func (c *claim) validate(ctx context.Context) provisioning.Observation {
	_, o := c.look(ctx)
	if o.Err == nil {
		o.Ready, o.Err = c.domains.Signs(ctx, c.job.Account, c.job.DomainID)
	}
	return o
}
