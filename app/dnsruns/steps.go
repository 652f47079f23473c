// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"context"
	"errors"

	"github.com/tenantry/tenantry/app/domainsteps"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/provisioning"
)

// observe executes a step and returns what it observed.
func (c *claim) observe(ctx context.Context, step provisioning.Step) provisioning.Observation {
	switch step {
	case provisioning.Plan:
		v, o := c.surveyAndStore(ctx)
		if o.Err == nil {
			c.planned = &v
		}
		return o
	case provisioning.Apply:
		return c.apply(ctx)
	case provisioning.ReadDNS:
		v, o := c.surveyAndStore(ctx)
		o.Shown = o.Err == nil && v.Shown
		return o
	case provisioning.Verify:
		return c.checkRecords(ctx, c.domains.Prove)
	case provisioning.EnableMail:
		return observation(c.domains.EnableMail(ctx, c.job.Account, c.job.DomainID))
	case provisioning.EnsureSigning:
		return observation(c.domains.EnsureSigning(ctx, c.job.Account, c.job.DomainID))
	case provisioning.EnableDKIM:
		return c.checkRecords(ctx, c.domains.StartSigning)
	default:
		return c.validate(ctx)
	}
}

// survey reads the DNS and plans the changes. It stores the outcomes of earlier writes that the read
// shows.
func (c *claim) survey(ctx context.Context) (domainsteps.Survey, provisioning.Observation) {
	v, err := c.domains.Survey(ctx, c.job.Account, c.job.DomainID)
	return c.observeSurvey(ctx, v, err)
}

func (c *claim) observeSurvey(ctx context.Context, v domainsteps.Survey, err error) (domainsteps.Survey, provisioning.Observation) {
	if err == nil {
		err = c.domains.ResolveWrites(ctx, c.job.Account, v)
	}
	if err != nil {
		return v, provisioning.Observation{Err: err}
	}
	return v, provisioning.Observation{Zone: provisioning.ZoneOf(v.Holder, v.Automation(), v.Plan), NegativeTTL: v.Public.NegativeTTL()}
}

// surveyAndStore makes a survey and stores its DNS state with the domain.
func (c *claim) surveyAndStore(ctx context.Context) (domainsteps.Survey, provisioning.Observation) {
	v, o := c.survey(ctx)
	if o.Err == nil {
		_, o.Err = c.domains.StoreSurvey(ctx, c.job.Account, v)
	}
	return v, o
}

// apply makes a new plan from the records that the provider stores now. It writes the plan if it
// equals the one that the job decided on.
func (c *claim) apply(ctx context.Context) provisioning.Observation {
	v, o := c.replan(ctx)
	if o.Err != nil || !c.job.MayWrite(o.Zone) {
		return o
	}
	o.WriteErr = c.domains.Write(ctx, c.job.Account, c.job.RunID, v)
	o.Ready = o.WriteErr == nil
	return o
}

// replan plans again after the step Plan. In a new claim it makes a new survey.
func (c *claim) replan(ctx context.Context) (domainsteps.Survey, provisioning.Observation) {
	planned := c.planned
	if c.planned = nil; planned == nil {
		return c.survey(ctx)
	}
	v, err := c.domains.Replan(ctx, c.job.Account, *planned)
	return c.observeSurvey(ctx, v, err)
}

// checkRecords executes a step in which the platform reads DNS records. If the platform does not
// see the records, checkRecords makes a survey to check whether they were removed from the zone.
func (c *claim) checkRecords(ctx context.Context, step func(context.Context, access.AccountID, string) error) provisioning.Observation {
	o := observation(step(ctx, c.job.Account, c.job.DomainID))
	if notVisible(o.Err) {
		_, seen := c.survey(ctx)
		o.Zone = seen.Zone
	}
	return o
}

func observation(err error) provisioning.Observation {
	return provisioning.Observation{Err: err, Ready: err == nil}
}

func notVisible(err error) bool {
	return errors.Is(err, fault.VerificationFailed) || errors.Is(err, fault.DKIMNotReady) || outcome.Of(err) == outcome.NotReady
}

// validate checks the domain once more against all its requirements.
func (c *claim) validate(ctx context.Context) provisioning.Observation {
	v, o := c.survey(ctx)
	if o.Err == nil {
		o.Ready, o.Err = c.domains.Signs(ctx, c.job.Account, v)
	}
	return o
}
