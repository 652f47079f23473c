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

func (c *claim) observe(ctx context.Context, step provisioning.Step) provisioning.Observation {
	switch step {
	case provisioning.Plan:
		survey, o := c.surveyAndStore(ctx, c.survey)
		if o.Err == nil {
			c.plannedSurvey = &survey
		}
		return o
	case provisioning.Apply:
		return c.apply(ctx)
	case provisioning.ReadDNS:
		survey, o := c.surveyAndStore(ctx, c.reread)
		o.RecordsVisible = o.Err == nil && survey.RecordsVisible
		return o
	case provisioning.Verify:
		return c.runRecordStep(ctx, c.domains.VerifyByID)
	case provisioning.EnableMail:
		return observationOf(c.domains.EnableMail(ctx, c.job.Account, c.job.DomainID))
	case provisioning.EnsureSigning:
		return observationOf(c.domains.EnsureSigning(ctx, c.job.Account, c.job.DomainID))
	case provisioning.EnableDKIM:
		return c.runRecordStep(ctx, c.domains.StartSigning)
	default:
		return c.validate(ctx)
	}
}

// survey reads the DNS and plans the changes. If the records show the outcomes of earlier writes,
// survey also stores these outcomes.
func (c *claim) survey(ctx context.Context) (domainsteps.Survey, provisioning.Observation) {
	survey, err := c.domains.Survey(ctx, c.job.Account, c.job.DomainID)
	return c.observeSurvey(ctx, survey, err)
}

func (c *claim) observeSurvey(ctx context.Context, survey domainsteps.Survey, err error) (domainsteps.Survey, provisioning.Observation) {
	if err == nil {
		err = c.domains.ResolveWrites(ctx, c.job.Account, survey)
	}
	if err != nil {
		return survey, provisioning.Observation{Err: err}
	}
	return survey, provisioning.Observation{Zone: provisioning.ZoneOf(survey.Holder, survey.Automation(), survey.Plan), NegativeTTL: survey.Public.NegativeTTL()}
}

func (c *claim) surveyAndStore(ctx context.Context, makeSurvey func(context.Context) (domainsteps.Survey, provisioning.Observation)) (domainsteps.Survey, provisioning.Observation) {
	survey, o := makeSurvey(ctx)
	if o.Err == nil {
		_, o.Err = c.domains.StoreSurvey(ctx, c.job.Account, survey)
	}
	return survey, o
}

// apply makes a new plan from the records that the provider stores now. It writes the new plan only
// if Job.MayWrite allows it.
func (c *claim) apply(ctx context.Context) provisioning.Observation {
	survey, o := c.replan(ctx)
	if o.Err != nil || !c.job.MayWrite(o.Zone) {
		return o
	}
	survey, o.WriteErr = c.domains.Write(ctx, c.job.Account, c.job.RunID, survey)
	if o.Ready = o.WriteErr == nil; o.Ready {
		c.writtenSurvey = &survey
	}
	return o
}

// replan makes a new plan after the step Plan. It reuses the public DNS in the survey of that step.
// If the step Plan ran under an earlier claim, replan makes a new survey.
func (c *claim) replan(ctx context.Context) (domainsteps.Survey, provisioning.Observation) {
	planned := c.plannedSurvey
	if c.plannedSurvey = nil; planned == nil {
		return c.survey(ctx)
	}
	survey, err := c.domains.Replan(ctx, c.job.Account, *planned)
	return c.observeSurvey(ctx, survey, err)
}

// reread makes a survey. Right after a write, it takes the records at the provider from the answer
// of the write.
func (c *claim) reread(ctx context.Context) (domainsteps.Survey, provisioning.Observation) {
	written := c.writtenSurvey
	if c.writtenSurvey = nil; written == nil {
		return c.survey(ctx)
	}
	survey, err := c.domains.Reread(ctx, c.job.Account, *written)
	return c.observeSurvey(ctx, survey, err)
}

// runRecordStep executes a step in which the platform reads DNS records. If the platform does not
// see the records, runRecordStep makes a survey to check whether they were removed from the zone.
func (c *claim) runRecordStep(ctx context.Context, step func(context.Context, access.AccountID, string) error) provisioning.Observation {
	o := observationOf(step(ctx, c.job.Account, c.job.DomainID))
	if isNotVisible(o.Err) {
		_, surveyed := c.survey(ctx)
		o.Zone = surveyed.Zone
	}
	return o
}

// observationOf returns the observation of a step that only succeeds or fails.
func observationOf(err error) provisioning.Observation {
	return provisioning.Observation{Err: err, Ready: err == nil}
}

func isNotVisible(err error) bool {
	return errors.Is(err, fault.VerificationFailed) || errors.Is(err, fault.DKIMNotReady) || outcome.KindOf(err) == outcome.NotReady
}

// validate makes a survey and checks that the platform signs the domain. The observation tells
// core/provisioning whether a record is missing.
func (c *claim) validate(ctx context.Context) provisioning.Observation {
	survey, o := c.survey(ctx)
	if o.Err == nil {
		o.Ready, o.Err = c.domains.CheckSigning(ctx, c.job.Account, survey)
	}
	return o
}
