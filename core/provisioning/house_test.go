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

func at(now time.Time) Moment { return Moment{Now: now} }

func fresh() Job {
	return New("job", "run", "ann", "domain", "guid", "contoso.test", start)
}

// Zones as steps find them.
var (
	toWrite      = Zone{Provider: "powerdns", Held: true, Reliable: true, Changes: true, Hash: "plan"}
	otherwise    = Zone{Provider: "powerdns", Held: true, Reliable: true, Changes: true, Hash: "another plan"}
	needsNothing = Zone{Provider: "powerdns", Held: true, Reliable: true, Hash: "settled"}
	pending      = Zone{Provider: "powerdns", Reliable: true, Changes: true, Hash: "plan"} // as the world sees it
	blocked      = Zone{Provider: "powerdns", Held: true, Reliable: true, Conflict: true, Changes: true, Hash: "blocked",
		Required: dns.ConflictToSettle, Message: "Settle this first. MX at contoso.test."}
	unclear = Zone{Provider: "powerdns", Required: dns.ReadUnreliable, Message: "The DNS could not be read reliably (servers_disagree)."}
)

func barred(by dns.ActionRequired) Zone {
	return Zone{Provider: "powerdns", Reliable: true, Changes: true, Hash: "plan", Required: by, Message: "words of " + string(by)}
}

func ends(kind outcome.Kind, wait time.Duration) error {
	return &outcome.Error{Kind: kind, Detail: "detail", RetryAfter: wait}
}

func refuses(code fault.Code) error {
	return &outcome.Error{Kind: outcome.Refused, Code: code, Detail: "why"}
}

var errOurs = errors.New("a bug")

// observations is one of each kind that a step may make.
var observations = map[string]Observation{
	"nothing":               {},
	"changes":               {Zone: toWrite},
	"other changes":         {Zone: otherwise},
	"settled":               {Zone: needsNothing},
	"settled and ready":     {Zone: needsNothing, Ready: true},
	"settled and shown":     {Zone: needsNothing, Shown: true, NegativeTTL: 30 * time.Minute},
	"not shown":             {Zone: pending},
	"written":               {Zone: toWrite, Ready: true},
	"ready":                 {Ready: true},
	"conflict":              {Zone: blocked},
	"conflict, unworded":    {Zone: Zone{Reliable: true, Conflict: true, Changes: true, Hash: "blocked"}},
	"conflict, unreliable":  {Zone: Zone{Conflict: true, Changes: true, Required: dns.ReadUnreliable, Message: "unreliable"}},
	"by hand":               {Zone: Zone{Reliable: true, Hash: "settled", Required: dns.ProviderUnsupported, Message: "by hand"}},
	"unreliable":            {Zone: unclear},
	"no connection":         {Zone: barred(dns.ConnectionRequired)},
	"unsupported":           {Zone: barred(dns.ProviderUnsupported)},
	"credential":            {Zone: barred(dns.CredentialNotAccepted)},
	"zone moved":            {Zone: toWrite, WriteErr: dns.Changed()},
	"no zone":               {Zone: toWrite, WriteErr: dns.NoZone()},
	"credential at write":   {Zone: toWrite, WriteErr: refuses(fault.AccessDenied)},
	"write throttled":       {Zone: toWrite, WriteErr: ends(outcome.Throttled, time.Minute)},
	"write lost":            {Zone: toWrite, WriteErr: ends(outcome.Unknown, 0)},
	"write refused":         {Zone: toWrite, WriteErr: refuses(fault.InvalidRequest)},
	"write broken by us":    {Zone: toWrite, WriteErr: errOurs},
	"throttled":             {Err: ends(outcome.Throttled, 5*time.Minute)},
	"down":                  {Err: ends(outcome.Down, 0)},
	"away for long":         {Err: ends(outcome.Down, 1000*time.Hour)},
	"broken":                {Err: ends(outcome.Broken, 0)},
	"lost":                  {Err: ends(outcome.Unknown, 0)},
	"not ready":             {Err: ends(outcome.NotReady, 0)},
	"refused":               {Err: refuses(fault.InvalidRequest)},
	"access denied":         {Err: refuses(fault.AccessDenied)},
	"taken":                 {Err: refuses(fault.DomainUnavailable)},
	"gone":                  {Err: fault.DomainNotFound.With("gone")},
	"not verified":          {Err: refuses(fault.VerificationFailed)},
	"not verified, touched": {Err: refuses(fault.VerificationFailed), Zone: toWrite},
	"database away":         {Err: fault.ServiceUnavailable.RetryIn(5*time.Second, "away")},
	"ours":                  {Err: errOurs},
}

func named(t testing.TB, name string) Observation {
	t.Helper()
	o, ok := observations[name]
	if !ok {
		t.Fatalf("no observation is called %q", name)
	}
	return o
}

// sees runs a job through observations at one moment each, a minute after the
// moment that the job waits for.
func sees(t testing.TB, j Job, names ...string) Job {
	t.Helper()
	for _, name := range names {
		now := j.NextAttemptAt.Add(time.Minute)
		if j.Status != Running {
			j, _ = Begin(j, now)
		}
		j, _ = Usual.Advance(j, named(t, name), at(now))
	}
	return j
}

// The way of a job up to where it does a step.
var (
	toApply        = []string{"changes"}
	toRead         = []string{"changes", "written"}
	toVerify       = append(toRead[:2:2], "settled and shown", "settled and shown")
	toMail         = append(toVerify[:4:4], "ready")
	toSigning      = append(toMail[:5:5], "ready")
	toDKIMPlan     = append(toSigning[:6:6], "ready")
	toDKIMApply    = append(toDKIMPlan[:7:7], "changes")
	toDKIMRead     = append(toDKIMApply[:8:8], "written")
	toEnable       = append(toDKIMRead[:9:9], "settled and shown", "settled and shown")
	toValidate     = append(toEnable[:11:11], "ready")
	toCompleted    = append(toValidate[:12:12], "settled and ready")
	waysToEachStep = [][]string{nil, toApply, toRead, toVerify, toMail, toSigning, toDKIMPlan, toDKIMApply, toDKIMRead, toEnable, toValidate}
)
