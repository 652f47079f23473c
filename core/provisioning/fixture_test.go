// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"errors"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// at returns a Moment with the Chance 0, so that pauses are not shortened at random.
func at(now time.Time) Moment { return Moment{Now: now} }

func newJob() Job {
	return NewJob("job", "run", "ann", "domain", "guid", "contoso.test", start)
}

// The summaries of plans that observations contain.
var (
	zoneWithChanges      = Zone{Provider: "powerdns", FromProvider: true, Reliable: true, Changes: true, Hash: "plan"}
	zoneWithOtherChanges = Zone{Provider: "powerdns", FromProvider: true, Reliable: true, Changes: true, Hash: "another plan"}
	unchangedZone        = Zone{Provider: "powerdns", FromProvider: true, Reliable: true, Hash: "unchanged"}
	incompleteZone       = Zone{Provider: "powerdns", FromProvider: true, Reliable: true, Incomplete: true, Hash: "unchanged"}
	zoneNotShown         = Zone{Provider: "powerdns", Reliable: true, Changes: true, Hash: "plan"} // not published yet
	zoneWithConflict     = Zone{Provider: "powerdns", FromProvider: true, Reliable: true, Conflict: true, Changes: true, Hash: "blocked",
		Required: dns.ConflictToResolve, Message: "Resolve these conflicts first. MX at contoso.test."}
	unreliableZone = Zone{Provider: "powerdns", Required: dns.ReadUnreliable, Message: "The DNS could not be read reliably (servers_disagree)."}
)

// zoneRequiring returns the summary of a plan that requires an action.
func zoneRequiring(action dns.ActionRequired) Zone {
	return Zone{Provider: "powerdns", Reliable: true, Changes: true, Hash: "plan", Required: action, Message: "message of " + string(action)}
}

func providerError(kind outcome.Kind, wait time.Duration) error {
	return &outcome.Error{Kind: kind, Detail: "detail", RetryAfter: wait}
}

func refusedWith(code fault.Code) error {
	return &outcome.Error{Kind: outcome.Refused, Code: code, Detail: "why"}
}

var errInternal = errors.New("a bug")

// observations holds observations by name.
var observations = map[string]Observation{
	"no read":                       {},
	"changes":                       {Zone: zoneWithChanges},
	"other changes":                 {Zone: zoneWithOtherChanges},
	"unchanged":                     {Zone: unchangedZone},
	"unchanged and ready":           {Zone: unchangedZone, Ready: true},
	"incomplete and ready":          {Zone: incompleteZone, Ready: true},
	"unchanged and shown":           {Zone: unchangedZone, RecordsVisible: true, NegativeTTL: 30 * time.Minute},
	"not shown":                     {Zone: zoneNotShown},
	"plan written":                  {Zone: zoneWithChanges, Ready: true},
	"platform ready":                {Ready: true},
	"conflict":                      {Zone: zoneWithConflict},
	"conflict without message":      {Zone: Zone{Reliable: true, Conflict: true, Changes: true, Hash: "blocked"}},
	"conflict in unreliable read":   {Zone: Zone{Conflict: true, Changes: true, Required: dns.ReadUnreliable, Message: "unreliable"}},
	"published by hand":             {Zone: Zone{Reliable: true, Hash: "unchanged", Required: dns.ProviderUnsupported, Message: "published by hand"}},
	"unreliable":                    {Zone: unreliableZone},
	"no connection":                 {Zone: zoneRequiring(dns.ConnectionRequired)},
	"provider undescribed":          {Zone: zoneRequiring(dns.ReadUnreliable)},
	"provider unsupported":          {Zone: zoneRequiring(dns.ProviderUnsupported)},
	"credential rejected":           {Zone: zoneRequiring(dns.CredentialRejected)},
	"zone changed during write":     {Zone: zoneWithChanges, WriteErr: dns.ChangedError()},
	"no zone":                       {Zone: zoneWithChanges, WriteErr: dns.NoZoneError()},
	"overlapped":                    {Zone: zoneWithChanges, WriteErr: dns.OverlappedError()},
	"credential rejected at write":  {Zone: zoneWithChanges, WriteErr: refusedWith(fault.AccessDenied)},
	"write throttled":               {Zone: zoneWithChanges, WriteErr: providerError(outcome.Throttled, time.Minute)},
	"write with unknown outcome":    {Zone: zoneWithChanges, WriteErr: providerError(outcome.Unknown, 0)},
	"write refused":                 {Zone: zoneWithChanges, WriteErr: refusedWith(fault.InvalidRequest)},
	"internal fault at write":       {Zone: zoneWithChanges, WriteErr: errInternal},
	"throttled":                     {Err: providerError(outcome.Throttled, 5*time.Minute)},
	"down":                          {Err: providerError(outcome.Down, 0)},
	"down for long":                 {Err: providerError(outcome.Down, 1000*time.Hour)},
	"broken":                        {Err: providerError(outcome.Broken, 0)},
	"unknown outcome":               {Err: providerError(outcome.Unknown, 0)},
	"platform not ready":            {Err: providerError(outcome.NotReady, 0)},
	"refused":                       {Err: refusedWith(fault.InvalidRequest)},
	"refused without reason":        {Err: refusedWith(fault.ProviderError)},
	"access denied":                 {Err: refusedWith(fault.AccessDenied)},
	"domain taken":                  {Err: refusedWith(fault.DomainUnavailable)},
	"tenant gone":                   {Err: fault.TenantNotFound.With("tenant gone")},
	"domain missing":                {Err: fault.DomainNotFound.With("domain missing")},
	"not verified":                  {Err: refusedWith(fault.VerificationFailed)},
	"not verified, records removed": {Err: refusedWith(fault.VerificationFailed), Zone: zoneWithChanges},
	"database unavailable":          {Err: fault.ServiceUnavailable.RetryIn(5*time.Second, "away")},
	"internal fault":                {Err: errInternal},
}

// observationNamed returns the observation with a name. It fails the test if observations lacks the
// name.
func observationNamed(t testing.TB, name string) Observation {
	t.Helper()
	found, ok := observations[name]
	if !ok {
		t.Fatalf("no observation is called %q", name)
	}
	return found
}

// afterObservations returns the job after the named observations. Each observation is made a minute
// after the time until which the job waits.
func afterObservations(t testing.TB, job Job, names ...string) Job {
	t.Helper()
	for _, name := range names {
		now := job.NextAttemptAt.Add(time.Minute)
		if job.Status != Running {
			job, _ = DefaultRetryPolicy.BeginAttempt(job, now)
		}
		job, _ = DefaultRetryPolicy.Advance(job, observationNamed(t, name), at(now))
	}
	return job
}

// Each list except pathsToSteps has the names of the observations that bring a new job to a step.
// pathsToSteps has the list for each step at which an observation is made.
var (
	toApply      = []string{"changes"}
	toRead       = []string{"changes", "plan written"}
	toVerify     = append(toRead[:2:2], "unchanged and shown", "unchanged and shown")
	toMail       = append(toVerify[:4:4], "platform ready")
	toSigning    = append(toMail[:5:5], "platform ready")
	toDKIMPlan   = append(toSigning[:6:6], "platform ready")
	toDKIMApply  = append(toDKIMPlan[:7:7], "changes")
	toDKIMRead   = append(toDKIMApply[:8:8], "plan written")
	toEnable     = append(toDKIMRead[:9:9], "unchanged and shown", "unchanged and shown")
	toValidate   = append(toEnable[:11:11], "platform ready")
	toCompleted  = append(toValidate[:12:12], "unchanged and ready")
	pathsToSteps = [][]string{nil, toApply, toRead, toVerify, toMail, toSigning, toDKIMPlan, toDKIMApply, toDKIMRead, toEnable, toValidate}
)
